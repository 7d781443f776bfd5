r"""What all pictures share: the way to Matplotlib, colours, the spelling of numbers and names, and files.

Matplotlib is an extra (`plot`) and is imported only when a picture is asked for. Figures are made without pyplot, so
that no window opens and no setting changes. The colours are those of Okabe and Ito, which colour-blind people can tell
apart; negative quantities are hatched as well as red, so that they show in grey print.
"""

import io
from abc import ABC, abstractmethod
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from natsel.calculus.expressions import Expression
from natsel.calculus.formatting import latex, plain
from natsel.containers import atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")
INK, SOFT, NEGATIVE, HATCH, PALE_HATCH = "#1a1a1a", "#5f6368", "#b3001b", "#e58a97", "#f4d3d7"
WIDTH = 7.2  # inches; text sizes are chosen for this width, about that of a page's text
ZERO = 5e-4  # what is shown as zero
_KINDS = ("svg", "png", "pdf")
_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "path",  # the same letters everywhere
    "svg.hashsalt": "natsel",  # the same bytes for the same picture
    "hatch.linewidth": 0.9,
    "text.usetex": False,
    "path.simplify": True,
}


class Picture(ABC):
    """A diagram that can be drawn (`figure`) and written as text (`table`), and therefore rendered and saved."""

    @abstractmethod
    def figure(self, highlight: str | Expression | None = None, title: str | None = None) -> "Figure":
        """The picture as a figure of Matplotlib."""

    @abstractmethod
    def table(self, highlight: str | Expression | None = None) -> str:
        """The same as text."""

    def render(
        self, kind: str = "text", highlight: str | Expression | None = None, title: str | None = None
    ) -> str | bytes:
        """The diagram as a "text" table, as "svg" text, or as the bytes of a "png" or "pdf"."""
        if kind == "text":
            return self.table(highlight)
        if kind not in _KINDS:
            raise ValueError(f'kind: expected "text", "svg", "png" or "pdf", found {kind!r}; name one of these')
        stream = io.BytesIO()
        _write(self.figure(highlight, title), stream, kind)
        return stream.getvalue().decode() if kind == "svg" else stream.getvalue()

    def save(self, path: Any, highlight: str | Expression | None = None, title: str | None = None) -> "Figure":
        """Write the picture to a file, all or nothing; the suffix says the kind: .svg, .png or .pdf."""
        path = Path(path)
        kind = path.suffix.lower().removeprefix(".")
        if kind not in _KINDS:
            raise ValueError(f"path: expected a name that ends in .svg, .png or .pdf, found {path.name}; rename it")
        with atomically(path) as place:
            figure = self.figure(highlight, title)
            with place.open("wb") as stream:
                _write(figure, stream, kind)
        return figure

    def _repr_svg_(self) -> Any:
        return self._shown("svg")

    def _repr_png_(self) -> Any:
        return self._shown("png")

    def _shown(self, kind: str) -> str | bytes | None:
        try:
            return self.render(kind)
        except (ImportError, ValueError):  # no Matplotlib, or nothing that can be drawn: a notebook shows the text
            return None

    def __str__(self) -> str:
        return self.table()


def _write(figure: "Figure", stream: Any, kind: str) -> None:
    import matplotlib

    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}[kind]
    with matplotlib.rc_context(_SETTINGS):
        figure.savefig(stream, format=kind, dpi=160, facecolor="white", metadata=metadata)


def require_matplotlib() -> None:
    """Name the extra where Matplotlib is missing; every drawing begins with this."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise ImportError("a picture needs Matplotlib: pip install 'natsel[plot]'") from None


def empty_figure(low: float, high: float) -> "tuple[Figure, Axes]":
    """A white figure, and axes in inches: from 0 to the width, and from low to high."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, high - low), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(0, WIDTH)
    axes.set_ylim(low, high)
    return figure, axes


def rectangle(axes: "Axes", x: float, y: float, width: float, height: float, **style: Any) -> None:
    """Draw a rectangle around a centre."""
    from matplotlib.patches import Rectangle

    axes.add_patch(Rectangle((x - width / 2, y - height / 2), width, height, **style))


def text_size(text: str, points: float) -> tuple[float, float]:
    """Width and height of a line of text in inches; the height is that of a full line."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    font = FontProperties(family="DejaVu Sans", math_fontfamily="dejavusans")
    return float(TextPath((0, 0), text, size=points, prop=font).get_extents().width) / 72, points * 1.25 / 72


def tint(colours: list[str], strength: float) -> tuple[float, float, float]:
    """White seen through these colours, one after the other: light enough for black text."""
    shade = [1.0, 1.0, 1.0]
    for colour in colours:
        for channel in range(3):
            shade[channel] *= 1 - strength * (1 - int(colour[1 + 2 * channel : 3 + 2 * channel], 16) / 255)
    return shade[0], shade[1], shade[2]


def number_text(value: float) -> str:
    """A value with three digits after the point and a true minus sign; what rounds to zero has no sign.

    >>> number_text(0.12345), number_text(-0.5), number_text(-1e-9)
    ('0.123', '−0.500', '0.000')
    """
    text = f"{value:.3f}"
    return "0.000" if float(text) == 0 else text.replace("-", "−")


def quantity_text(expression: Expression) -> str:
    r"""A quantity for Matplotlib to set: LaTeX between dollar signs where Matplotlib knows it, else plain text.

    >>> from natsel.calculus import parse
    >>> quantity_text(parse("1/2 H[Y1]"))
    '$\\frac{1}{2} \\mathrm{H}[Y_{1}]$'
    """
    text = f"${latex(expression).replace('tfrac', 'frac')}$"
    return text if _can_be_set(text) else plain(expression).replace("$", r"\$")


@cache
def _can_be_set(text: str) -> bool:
    from matplotlib.mathtext import MathTextParser

    try:
        MathTextParser("path").parse(text)
    except ValueError:
        return False
    return True
