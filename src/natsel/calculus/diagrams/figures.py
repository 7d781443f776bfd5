"""The door to Matplotlib: figures without global state, their colours, and the same bytes for the same picture.

Matplotlib is an extra (`plot`) and imported here alone, when a picture is asked for. Figures are made without pyplot,
so that no window opens and nothing has to be closed. Colours are those of Okabe and Ito, which colour-blind people
tell apart; what is negative is hatched as well as red, so that it shows in grey print.
"""

import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from natsel.containers import atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")
INK = "#1a1a1a"
SOFT = "#5f6368"
NEGATIVE = "#b3001b"
HATCH = "#e58a97"
PALE_HATCH = "#f4d3d7"
WIDTH = 7.2
"""Inches; text sizes are chosen for this width, about that of a page's text."""

_SAVED: dict[Any, Any] = {
    "svg.fonttype": "path",  # the same letters everywhere
    "svg.hashsalt": "natsel",
    "hatch.linewidth": 0.9,
    "text.usetex": False,
    "path.simplify": True,
}
_KINDS = ("svg", "png", "pdf")


def need_matplotlib() -> None:
    """Name the extra where Matplotlib is missing; every drawing begins with this."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise ImportError("a picture needs Matplotlib: pip install 'natsel[plot]'") from None


def canvas(width: float, low: float, high: float) -> "tuple[Figure, Axes]":
    """An empty white figure, and axes in inches: from 0 to the width, and from low to high."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, high - low), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(0, width)
    axes.set_ylim(low, high)
    return figure, axes


def rendered(make: "Callable[[], Figure]", kind: str) -> str | bytes:
    """A figure as SVG text, or as the bytes of a PNG or PDF."""
    if kind not in _KINDS:
        raise ValueError(f'kind: expected "text", "svg", "png" or "pdf", found {kind!r}; name one of these')
    stream = io.BytesIO()
    _write(make(), stream, kind)
    return stream.getvalue().decode() if kind == "svg" else stream.getvalue()


def save(make: "Callable[[], Figure]", path: str | Path) -> "Figure":
    """Write a figure to a file whose suffix says the kind, all or nothing; returns the figure."""
    path = Path(path)
    kind = path.suffix.lower().removeprefix(".")
    if kind not in _KINDS:
        raise ValueError(f"path: expected a name that ends in .svg, .png or .pdf, found {path.name}; rename it")
    with atomically(path) as place:
        figure = make()
        with place.open("wb") as stream:
            _write(figure, stream, kind)
    return figure


def shown(make: "Callable[[], Figure]", kind: str) -> Any:
    """What a notebook shows: nothing where Matplotlib is missing, so that the text is shown instead."""
    try:
        return rendered(make, kind)
    except ImportError:
        return None


def _write(figure: "Figure", stream: Any, kind: str) -> None:
    import matplotlib

    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}[kind]
    with matplotlib.rc_context(_SAVED):
        figure.savefig(stream, format=kind, dpi=160, facecolor="white", metadata=metadata)


def text_size(text: str, points: float, weight: str = "normal") -> tuple[float, float]:
    """Width and height of a line of text in inches; the height is that of a full line."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    font = FontProperties(family="DejaVu Sans", weight=weight, math_fontfamily="dejavusans")
    if not text:
        return 0.0, 0.0
    extent = TextPath((0, 0), text, size=points, prop=font).get_extents()
    return float(extent.width) / 72, points * 1.25 / 72


def tint(colours: list[str], strength: float) -> tuple[float, float, float]:
    """White seen through these colours, one after the other: light enough for black text."""
    shade = [1.0, 1.0, 1.0]
    for colour in colours:
        for channel in range(3):
            value = int(colour[1 + 2 * channel : 3 + 2 * channel], 16) / 255
            shade[channel] *= 1 - strength * (1 - value)
    return shade[0], shade[1], shade[2]
