"""Small grey pictures in a terminal: a character shows two pixels, one above the other.

Where the terminal has colours both pixels keep their grey, else they are on or off.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from rich.text import Text

SIZE = 14
"""Pixels a side: five pictures and the gaps between them fit into 80 columns."""

_INK = 0.4


def picture(image: "np.ndarray[Any, Any]", colour: bool, unicode: bool = True) -> "list[Text]":
    """The lines of a picture, brightness 0..1, resized to `SIZE` columns and half as many lines.

    >>> import numpy as np
    >>> [line.plain for line in picture(np.eye(2), colour=False)][0].strip()
    '████████▄'
    """
    from rich.text import Text
    from scipy.ndimage import zoom

    pixels = zoom(image, (SIZE / image.shape[0], SIZE / image.shape[1]), order=1).clip(0, 1)
    lines = []
    for upper, lower in zip(pixels[::2].tolist(), pixels[1::2].tolist(), strict=True):
        line = Text()
        for above, below in zip(upper, lower, strict=True):
            if colour:
                line.append("▀", f"{_grey(above)} on {_grey(below)}")
            else:
                line.append((" ▄▀█" if unicode else " .'#")[2 * (above > _INK) + (below > _INK)])
        lines.append(line)
    return lines


def gallery(pictures: "list[list[Text]]", captions: list[str], width: int) -> "list[Text]":
    """Pictures side by side with their captions below, in as many rows as the width asks for."""
    from rich.text import Text

    gap = Text("  ")
    each = max(1, (width + len(gap)) // (SIZE + len(gap)))
    lines: list[Text] = []
    for start in range(0, len(pictures), each):
        part = slice(start, start + each)
        lines += [gap.join(line) for line in zip(*pictures[part], strict=True)]
        lines += [gap.join(Text(f"{caption:^{SIZE}.{SIZE}}", "dim") for caption in captions[part]), Text()]
    return lines


def _grey(brightness: float) -> str:
    level = round(255 * brightness)
    return f"rgb({level},{level},{level})"
