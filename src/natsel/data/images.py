"""Folders of images: a sub-folder a class, or all in one folder without labels. Images are decoded when asked for."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from natsel.containers import readable
from natsel.data.examples import Examples
from natsel.data.labels import Array
from natsel.data.lazy import Lazy

ENDINGS = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm"})


def image_folder(folder: str | Path, size: tuple[int, int] | None = None, grey: bool = False) -> Examples:
    """The images of a folder as bytes, (height, width, 3) or (height, width) when grey, resized to `size` if given.

    Sub-folders name the classes; images beside them, or a folder without any, have no label. The mask `file` keeps the
    names, relative to the folder and sorted.
    """
    root = Path(folder)
    if not root.is_dir():
        raise ValueError(f"path: there is no folder {root}; check the name")
    classes = tuple(sorted(one.name for one in root.glob("[!.]*") if one.is_dir() and _images(one)))
    if classes and not any(map(_is_image, (*root.glob("*"), *root.glob("*/*")))):
        found = f"the images of {root} lie deeper than in folders of classes"
        raise ValueError(f"path: {found}; pass one of its folders, such as {root / classes[0]}")
    files = [(name, number) for number, one in enumerate(classes) for name in _images(root / one)]
    files += [(name, -1) for name in sorted(path for path in root.iterdir() if _is_image(path))]
    if not files:
        raise ValueError(
            f"path: {root} holds no images; expected {', '.join(sorted(ENDINGS))}, in class folders or not"
        )
    _pillow()  # say what is missing now, not at the first image
    paths = [path for path, _ in files]
    names = np.array([path.relative_to(root).as_posix() for path in paths], dtype=object)
    labels = np.array([number for _, number in files]) if classes else None
    images = Lazy(partial(_read, paths, size, grey), len(paths), content=partial(_content, paths), files=paths)
    return Examples(images, labels, classes, {"file": names})


def _images(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if _is_image(path))


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in ENDINGS and path.is_file() and not path.name.startswith(".")


def _read(paths: list[Path], size: tuple[int, int] | None, grey: bool, position: int) -> Array:
    image = _pillow()
    path = paths[position]
    try:
        with image.open(path) as file:
            if 0 < (image.MAX_IMAGE_PIXELS or 0) < file.width * file.height:
                raise ValueError(f"{file.width} × {file.height} points are more than PIL.Image.MAX_IMAGE_PIXELS")
            picture = file.convert("L" if grey else "RGB")
    except Exception as reason:  # damaged bytes make decoders fail in every way there is
        raise ValueError(f"path: {path} cannot be decoded ({reason}); remove it or write it again") from None
    if size is not None and picture.size != (size[1], size[0]):
        picture = picture.resize((size[1], size[0]), image.Resampling.BILINEAR)
    return np.asarray(picture)


def _content(paths: list[Path], position: int) -> bytes:
    with readable(paths[position]):
        return paths[position].read_bytes()


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise ImportError("images need Pillow; install natsel[images]") from None
    return Image
