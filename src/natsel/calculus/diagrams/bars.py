"""Bar diagrams: how the entropies of two variables, or of a variable and an outcome, lie side by side.

    H[X,Y] = H[X] + H[Y|X] = H[X|Y] + H[Y]      I[X;Y] where H[X] and H[Y] overlap           two variables (MacKay, 8.1)

    H[X,y] = E_{p(x|y)}[H[x]] + H[y|X] = H[X|y] + H[y]                                        an observed outcome y
    E_{p(x|y)}[H[x]] = H[X|y] + I[y;X]          the surprise reaches from H[X|y] to E[H[x]]
    H[X]             = H[X|y] + I[X;y]          the information gain from H[X|y] to H[X]: backwards where negative

There is no signed measure for a mix of variables and outcomes (surprise does not chain), so that this form, with one
group of each, is all the diagram there is.  Spec 01, 5.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from natsel.calculus.evaluate import evaluate
from natsel.calculus.expressions import Atom, Expectation, Expression, Group, H, I, Law
from natsel.calculus.formatting import plain
from natsel.calculus.parser import parse

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
class Bars:
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

    def figure(self, highlight: str | Expression | None = None, title: str | None = None) -> "Figure":
        """The diagram as a Matplotlib figure; `highlight` sets one of its quantities off."""
        from natsel.calculus.diagrams.bar_drawing import draw_bars

        return draw_bars(self, parse(highlight) if isinstance(highlight, str) else highlight, title)

    def render(self, kind: str = "text", highlight: str | Expression | None = None) -> str | bytes:
        """The diagram as a "text" table, as "svg" text, or as the bytes of a "png"."""
        if kind == "text":
            width = max(map(len, self.values))
            return "\n".join(f"{name:<{width}}  {value:9.6f}" for name, value in self.values.items()) + f"  {self.unit}"
        from natsel.calculus.diagrams.figures import rendered

        return rendered(lambda: self.figure(highlight), kind)

    def save(self, path: Any, highlight: str | Expression | None = None) -> None:
        """Write the picture to a file; its suffix says what: .svg, .png or .pdf."""
        from natsel.calculus.diagrams.figures import save

        save(lambda: self.figure(highlight), path)

    def _repr_svg_(self) -> Any:
        from natsel.calculus.diagrams.figures import shown

        return shown(self.figure, "svg")

    def _repr_png_(self) -> Any:
        from natsel.calculus.diagrams.figures import shown

        return shown(self.figure, "png")

    def __str__(self) -> str:
        return str(self.render("text"))


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
    over, by = _group(x, "x"), _group(y, "y")
    if any(atom.tied for atom in over):
        raise ValueError(f"x: expected variables, found the outcome {_first_tied(over)}; pass outcomes as y")
    if len({atom.tied for atom in by}) > 1:
        raise ValueError(f"y: expected variables or outcomes, found both in {_written(by)}; a bar diagram has one kind")
    if any(not atom.tied for atom in given):
        raise ValueError(f"given: expected outcomes, found the variable {_written(given)}; bars show one outcome of it")

    def value(expression: Expression) -> float:
        found = evaluate(expression, joint, at=at, unit=unit).value
        if not isinstance(found, float):
            raise ValueError("at: a bar diagram shows one outcome at a time, found several; pass one")
        return found

    def bar(expression: Expression, start: float, kind: str, word: str = "") -> Bar:
        return Bar(expression, start, value(expression), kind, word)

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
    rows = ((joint_bar,), (expected, noise), (rest, other), (surprise,), (prior,), (gain,))
    return Bars(rows, unit, _outcomes(by, at or {}))


def _group(text: str | Group, argument: str) -> Group:
    if not isinstance(text, str):
        return tuple(text)
    parsed = parse(f"H[{text}]")
    if not isinstance(parsed, H) or parsed.given:
        raise ValueError(f"{argument}: expected variables or outcomes, found {text!r}; write X, X1,X2 or Y=3")
    return parsed.of


def _outcomes(by: Group, at: Mapping[str, Any]) -> str:
    """Which outcomes the lower-case names stand for."""
    given = {symbol[:1].upper() + symbol[1:]: outcome for symbol, outcome in at.items()}
    named = [atom for atom in by if atom.outcome is None and atom.name in given]
    return ", ".join(f"{atom} = {given[atom.name]}" for atom in named)


def _first_tied(group: Group) -> Atom:
    return next(atom for atom in group if atom.tied)


def _written(group: Group) -> str:
    return ", ".join(map(str, group))
