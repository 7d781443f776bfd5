"""Bar diagrams: how the entropies of two variables, or of a variable and an outcome, lie side by side.

    H[X,Y] = H[X] + H[Y|X] = H[X|Y] + H[Y]      I[X;Y] where H[X] and H[Y] overlap           two variables (MacKay, 8.1)

    H[X,y] = E_{p(x|y)}[H[x]] + H[y|X] = H[X|y] + H[y]                                        an observed outcome y
    E_{p(x|y)}[H[x]] = H[X|y] + I[y;X]          the surprise reaches from H[X|y] to E[H[x]]
    H[X]             = H[X|y] + I[X;y]          the information gain from H[X|y] to H[X]: backwards where negative

There is no signed measure for a mix of variables and outcomes (surprise does not chain), so that no other mixed
quantities have a diagram than those of one group of each. In the picture a quantity is written above its bar; a
negative one is hatched and red, and runs to the left of where it starts.
docs/theory/information-quantities.md, 8; Kirsch and Gal 2021.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import natsel.calculus.diagrams.figures as fig
from natsel.calculus.evaluate import evaluate
from natsel.calculus.expressions import Atom, Expectation, Expression, Group, H, I, Law
from natsel.calculus.formatting import plain
from natsel.calculus.parser import parse

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SIDE, _ROW, _BAR, _FOOT = 0.45, 0.66, 0.36, 0.62  # inches
_SHADES = {
    "both": fig.tint(["#777777"], 0.3),
    "x": fig.tint([fig.COLOURS[0]], 0.36),
    "y": fig.tint([fig.COLOURS[1]], 0.42),
    "shared": fig.tint([fig.COLOURS[0], fig.COLOURS[1]], 0.4),
}


@dataclass(frozen=True)
class Bar:
    """A quantity drawn from `start` over its value: to the left where that is negative."""

    expression: Expression
    start: float
    value: float
    kind: str
    word: str = ""

    @property
    def end(self) -> float:
        return self.start + self.value


@dataclass(frozen=True)
class Bars(fig.Picture):
    """The rows of a bar diagram, from the top, in `unit`.

    >>> from natsel.calculus import DiscreteJoint
    >>> joint = DiscreteJoint.from_probs("XY", [[0.9, 0.05], [0.0, 0.05]])
    >>> {name: round(value, 3) for name, value in bars(joint, "X", "y", at={"y": 1}).values.items()}["I[X; y]"]
    -0.495
    """

    rows: tuple[tuple[Bar, ...], ...]
    unit: str = "nats"
    note: str = ""

    @property
    def values(self) -> dict[str, float]:
        """Every quantity by its name."""
        return {plain(bar.expression): bar.value for row in self.rows for bar in row}

    def table(self, highlight: str | Expression | None = None) -> str:
        if highlight is not None:
            raise ValueError("highlight: a text sets nothing off; show svg, or leave it out")
        width = max(map(len, self.values))
        return "\n".join(f"{name:<{width}}  {value:9.6f}" for name, value in self.values.items()) + f"  {self.unit}"

    def figure(self, highlight: str | Expression | None = None, title: str | None = None) -> "Figure":
        """The diagram as a Matplotlib figure; `highlight` sets one of its quantities off."""
        return _draw_bars(self, parse(highlight) if isinstance(highlight, str) else highlight, title)


def bars(
    joint: Any,
    x: str | Group,
    y: str | Group,
    *,
    at: Mapping[str, Any] | None = None,
    given: Group = (),
    unit: Any = "nats",
) -> Bars:
    """The bar diagram of the variables `x` and the variables or outcomes `y`: "X" and "Y", or "X" and "y" (or "Y=1").

    `at` gives the outcome of every lower-case name; `given` are outcomes that everything is conditioned on.

    >>> from natsel.calculus import DiscreteJoint
    >>> joint = DiscreteJoint.from_counts("XY", [[1, 0], [0, 1]])
    >>> round(bars(joint, "X", "Y", unit="bits").values["I[X; Y]"], 6)
    1.0
    """
    over, by = _parsed_group(x, "x"), _parsed_group(y, "y")
    if tied := [atom for atom in over if atom.tied]:
        raise ValueError(f"x: expected variables, found the outcome {tied[0]}; pass outcomes as y")
    if len({atom.tied for atom in by}) > 1:
        found = ", ".join(map(str, by))
        raise ValueError(f"y: expected variables or outcomes, found both in {found}; a bar diagram has one kind")
    if any(not atom.tied for atom in given):
        found = ", ".join(map(str, given))
        raise ValueError(f"given: expected outcomes, found the variable {found}; bars show one outcome of it")

    def bar(expression: Expression, start: float, kind: str, word: str = "") -> Bar:
        value = evaluate(expression, joint, at=at, unit=unit).value
        if not isinstance(value, float):
            raise ValueError("at: a bar diagram shows one outcome at a time, found several; pass one")
        return Bar(expression, start, value, kind, word)

    joint_bar = bar(H((*over, *by), given), 0.0, "both")
    rest = bar(H(over, (*by, *given)), 0.0, "x")
    other = bar(H(by, given), rest.end, "y")
    prior = bar(H(over, given), 0.0, "x")
    if not by[0].tied:
        noise = bar(H(by, (*over, *given)), prior.end, "y")
        shared = bar(I((over, by), given), rest.end, "shared", "mutual information")
        return Bars(((joint_bar,), (prior, noise), (rest, other), (shared,)), unit)
    seen = tuple(Atom(atom.name, tied=True) for atom in over)
    expected = bar(Expectation(Law("p", seen, (*by, *given)), H(seen, given)), 0.0, "x")
    noise = bar(H(by, (*over, *given)), expected.end, "y")
    surprise = bar(I((by, over), given), rest.end, "shared", "surprise")
    gain = bar(I((over, by), given), rest.end, "shared", "information gain")
    outcomes = {symbol[:1].upper() + symbol[1:]: outcome for symbol, outcome in (at or {}).items()}
    named = [atom for atom in by if atom.outcome is None and atom.name in outcomes]
    note = ", ".join(f"{atom} = {outcomes[atom.name]}" for atom in named)
    return Bars(((joint_bar,), (expected, noise), (rest, other), (surprise,), (prior,), (gain,)), unit, note)


def _parsed_group(text: str | Group, argument: str) -> Group:
    if not isinstance(text, str):
        return tuple(text)
    parsed = parse(f"H[{text}]")
    if not isinstance(parsed, H) or parsed.given:
        raise ValueError(f"{argument}: expected variables or outcomes, found {text!r}; write X, X1,X2 or Y=3")
    return parsed.of


def _draw_bars(diagram: Bars, highlight: Expression | None = None, title: str | None = None) -> "Figure":
    """One row under the other on a common scale, with dotted lines where ends meet."""
    fig.require_matplotlib()
    from matplotlib.ticker import MaxNLocator

    every = [bar for row in diagram.rows for bar in row]
    low = min(0.0, *(min(bar.start, bar.end) for bar in every))
    high = max(max(bar.start, bar.end) for bar in every)
    if not math.isfinite(high - low):
        raise ValueError("joint: a bar diagram needs finite values, found an infinite one; choose another outcome")
    if highlight is not None and title is None:
        shown = [bar for bar in every if bar.expression == highlight]
        title = f"{fig.quantity_text(highlight)} = {fig.number_text(shown[0].value)} {diagram.unit}" if shown else None
    head = 0.55 if title else 0.15
    height = _FOOT + len(diagram.rows) * _ROW + head
    figure, axes = fig.empty_figure(0.0, height)

    def place(value: float) -> float:
        return _SIDE + (value - low) * (fig.WIDTH - 2 * _SIDE) / max(high - low, 1e-9)

    for x in {round(place(end), 4) for bar in every for end in (bar.start, bar.end)}:
        style: dict[str, Any] = {"color": "#b8bcc2", "linewidth": 0.8, "linestyle": (0, (1, 2)), "zorder": 0}
        axes.plot([x, x], [_FOOT - 0.08, height - head - 0.2], **style)
    for count, row in enumerate(diagram.rows):
        y = height - head - (count + 1) * _ROW + _BAR / 2 + 0.02
        first = min(row, key=lambda bar: bar.start + bar.end)
        for bar in row:
            left, right = sorted((place(bar.start), place(bar.end)))
            style = {"facecolor": _SHADES[bar.kind], "edgecolor": "#4a4a4a", "linewidth": 0.9}
            if bar.value < -fig.ZERO:
                style = {"facecolor": "white", "edgecolor": fig.HATCH, "hatch": "////", "linewidth": 1.0}
            fig.rectangle(axes, (left + right) / 2, y, right - left, _BAR, zorder=1, **style)
            if bar.expression == highlight:
                style = {"facecolor": "none", "edgecolor": fig.INK, "linewidth": 2.6}
                fig.rectangle(axes, (left + right) / 2, y, right - left, _BAR, zorder=3, **style)
            _draw_bar_label(axes, bar, left, right, y, second=bar is not first)
    y = _FOOT - 0.1
    axes.plot([place(low), place(high)], [y, y], color=fig.SOFT, linewidth=0.9)
    for tick in MaxNLocator(7).tick_values(low, high):
        if low - 1e-9 <= tick <= high + 1e-9:
            axes.plot([place(tick)] * 2, [y, y - 0.05], color=fig.SOFT, linewidth=0.9)
            label = f"{tick:g}".replace("-", "−")
            axes.text(place(tick), y - 0.14, label, size=8.5, color=fig.SOFT, ha="center", va="center")
    words = diagram.unit + (f"; {diagram.note}" if diagram.note else "")
    axes.text(fig.WIDTH / 2, 0.14, words, size=8.5, color=fig.SOFT, ha="center", va="center")
    if title:
        axes.text(fig.WIDTH / 2, height - 0.28, title, size=13, color=fig.INK, ha="center", va="center")
    return figure


def _draw_bar_label(axes: "Axes", bar: Bar, left: float, right: float, y: float, second: bool) -> None:
    """Above the bar, at its left end; at its right end where it is the second of a row or would leave the page."""
    text = f"{fig.quantity_text(bar.expression)} = {fig.number_text(bar.value)}" + (f"  {bar.word}" if bar.word else "")
    colour = fig.NEGATIVE if bar.value < -fig.ZERO else fig.INK
    at_right = second or left + fig.text_size(text, 9)[0] > fig.WIDTH - 0.1
    x, end = (right, "right") if at_right else (left, "left")
    axes.text(x, y + _BAR / 2 + 0.12, text, size=9, color=colour, ha=end, va="center_baseline", zorder=4)
