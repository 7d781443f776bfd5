"""Pictures for ids that are names of files: shrunk, as addresses that need no host, while bytes for pictures last."""

import io
from contextlib import suppress
from pathlib import Path

from natsel.data.images import ENDINGS
from natsel.experiments.report.png import data_address
from natsel.ids import Key

_BYTES = 1_000_000
"""Bytes of pictures in one page, before encoding."""
_SIDE = 128


class PicturesOfIds:
    """Pictures below a folder, by ids that name them from there on.

    >>> PicturesOfIds("no folder")
    Traceback (most recent call last):
    ValueError: pictures: there is no folder no folder; name the one that ids are relative to
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise ValueError(f"pictures: there is no folder {folder}; name the one that ids are relative to")
        self._root = self.folder.resolve()
        self._left = _BYTES
        try:
            from PIL import Image
        except ImportError:
            raise ImportError("pictures need Pillow; install natsel[images]") from None
        self._image = Image

    def file_of(self, id: Key) -> Path | None:
        """The picture of an id; None where there is none, or where it lies outside of the folder."""
        with suppress(ValueError, OSError):  # no name of a file: too long, or with a NUL in it
            path = (self._root / str(id)).resolve()
            known = path.suffix.lower() in ENDINGS and path.is_relative_to(self._root) and path.is_file()
            return path if known else None
        return None

    def address(self, id: Key) -> str | None:
        """The picture as an address; None where there is none, where it cannot be read, or no bytes are left."""
        path = self.file_of(id)
        if path is None or self._left <= 0:
            return None
        content = io.BytesIO()
        try:
            with self._image.open(path) as picture:
                picture.draft("RGB", (2 * _SIDE, 2 * _SIDE))  # large photographs are read at a fraction of their size
                if 0 < (self._image.MAX_IMAGE_PIXELS or 0) < picture.width * picture.height:
                    return None
                small = picture.convert("RGB")
            small.thumbnail((_SIDE, _SIDE))
            small.save(content, "JPEG", quality=80)
        except Exception:  # damaged bytes make decoders fail in every way there is; the page then shows the id
            return None
        self._left -= content.tell()
        return data_address("image/jpeg", content.getvalue()) if self._left >= 0 else None
