"""A quantity: an expression that can be asked for its value, its name, its expansion and its picture.

    natsel.info("I[Y;W|x]").on(belief)

docs/theory/information-quantities.md, 9 and 10.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from natsel.beliefs import CategoricalSamples
from natsel.calculus.discrete_joint import DiscreteJoint
from natsel.calculus.evaluate import Result, Unit, evaluate
from natsel.calculus.expansion import expand
from natsel.calculus.expressions import Expression, Statement
from natsel.calculus.formatting import latex, name_of
from natsel.calculus.gaussian_joint import GaussianJoint
from natsel.calculus.leaf_values import Errors
from natsel.calculus.parser import parse_statement
from natsel.calculus.predictive_joint import PredictiveJoint
from natsel.calculus.rewriting import chain


@dataclass(frozen=True)
class Quantity:
    """An information quantity, ready to be evaluated.

    >>> quantity = info("I[X;y]")
    >>> quantity.name, str(quantity.expansion), str(2 * quantity - info("H[X]"))
    ('information gain', 'H[X] - H[X | y]', '2 I[X; y] - H[X]')
    """

    expression: Expression

    def on(
        self,
        joint: Any,
        *,
        names: str | Iterable[str] | None = None,
        at: Mapping[str, Any] | None = None,
        labels: Any = None,
        q: Any = None,
        unit: Unit = "nats",
        errors: Errors = "raise",
    ) -> float | Tensor:
        """The value on a joint distribution, on a belief (one per point), or on a table of probabilities with `names`.

        `at`, `labels`, `q`, `unit` and `errors` are those of `evaluate`.

        >>> info("H[X|Y]").on([[0.25, 0.25], [0.25, 0.25]], names="XY", unit="bits")
        1.0
        """
        return self.evaluate(joint, names=names, at=at, labels=labels, q=q, unit=unit, errors=errors).value

    def evaluate(
        self,
        joint: Any,
        *,
        names: str | Iterable[str] | None = None,
        at: Mapping[str, Any] | None = None,
        labels: Any = None,
        q: Any = None,
        unit: Unit = "nats",
        errors: Errors = "raise",
    ) -> Result:
        """The value with its name, its expansion and its warnings."""
        on = _as_joint(joint, names)
        return evaluate(self.expression, on, at=at, labels=labels, q=q, unit=unit, errors=errors)

    @property
    def name(self) -> str:
        """What the quantity is called; empty for sums."""
        return name_of(self.expression)

    @property
    def expansion(self) -> Expression:
        """The same quantity as a sum of entropies."""
        return expand(self.expression)

    def chain(self) -> "Quantity":
        """The same quantity by the chain rule.

        >>> str(info("H[X,Y|Z]").chain())
        'H[X | Z] + H[Y | X, Z]'
        """
        return Quantity(chain(self.expression))

    def diagram(self, joint: Any, *, names: str | Iterable[str] | None = None, **options: Any) -> Any:
        """A picture of the quantity on a joint, or on a table with `names`; options are those of `diagram_of`."""
        from natsel.calculus.diagrams import diagram_of

        return diagram_of(self.expression, _as_joint(joint, names), **options)

    def latex(self) -> str:
        r"""As LaTeX.

        >>> print(info("I[X;y]").latex())
        \mathrm{I}[X; y]
        """
        return latex(self.expression)

    def _repr_latex_(self) -> str:
        return f"${self.latex()}$"

    def __str__(self) -> str:
        return str(self.expression)

    def __add__(self, other: "Quantity | Expression | float") -> "Quantity":
        return Quantity(self.expression + _expression_of(other))

    def __radd__(self, other: float) -> "Quantity":
        return Quantity(other + self.expression)

    def __sub__(self, other: "Quantity | Expression | float") -> "Quantity":
        return Quantity(self.expression - _expression_of(other))

    def __rsub__(self, other: float) -> "Quantity":
        return Quantity(other - self.expression)

    def __neg__(self) -> "Quantity":
        return Quantity(-self.expression)

    def __mul__(self, factor: float) -> "Quantity":
        return Quantity(self.expression * factor)

    __rmul__ = __mul__


def info(text: str) -> Quantity:
    """The quantity that a text writes, as a paper writes it: `I[Y; Ω | x, D]`, `H[X, y | Z]`, `KL(p(X) || q(X))`.

    >>> round(info("I[X;Y]").on([[0.5, 0.0], [0.0, 0.5]], names="XY"), 6)
    0.693147
    """
    found = parse_statement(text)
    if isinstance(found, Statement):
        raise ValueError(
            f"info: found the statement {found}, which has a verdict and no value; pass it to natsel.calculus.verify"
        )
    return Quantity(found)


def _expression_of(other: "Quantity | Expression | float") -> Expression | float:
    return other.expression if isinstance(other, Quantity) else other


def _as_joint(joint: Any, names: str | Iterable[str] | None) -> Any:
    """A table with names as a joint; what is a joint or a belief already as it is."""
    if names is not None:
        if isinstance(joint, DiscreteJoint | GaussianJoint | PredictiveJoint | CategoricalSamples):
            raise ValueError(f"names: found them beside {type(joint).__name__}, which has its own; leave them out")
        return DiscreteJoint.from_probs(names, joint)
    if isinstance(joint, Tensor | list | tuple) or type(joint).__module__ == "numpy":
        raise ValueError("names: a table of probabilities needs a name for each axis; pass names='XY', say")
    return joint
