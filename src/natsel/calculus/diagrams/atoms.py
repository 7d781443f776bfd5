r"""I-diagrams: the signed measure behind H and I, atom by atom.

    μ*(∩ Aᵢ − ∪ Bⱼ) = I[A₁; …; Aₙ | B₁, …, Bₘ]                       (n = 1: an entropy)
    atom(T) = I[Xᵢ, i ∈ T | the others] = −Σ_{S ⊆ T} (−1)^|S| H[S ∪ (V \ T)]

There are 2ⁿ − 1 atoms, found from the 2ⁿ joint entropies by one Möbius transform; every untied quantity is the sum of
the atoms in its region. What a diagram may be used for: equalities may always be read off; inequalities only where no
atom is negative; a region may be erased only where each of its atoms is zero, not where their sum is.
docs/theory/information-quantities.md, 8; Yeung 1991.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from natsel.calculus.diagrams.figures import Picture
from natsel.calculus.evaluate import Unit, evaluate
from natsel.calculus.expansion import leaves
from natsel.calculus.expressions import Atom, Expression, H, I
from natsel.calculus.parser import parse

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST = 12
"""Variables a diagram may have: the atoms double with each."""

Subset = frozenset[str]


@dataclass(frozen=True)
class IDiagram(Picture):
    """The atoms of a joint distribution: by the set of variables they belong to, in `unit`.

    >>> from natsel.calculus import DiscreteJoint
    >>> xor = IDiagram.from_joint(DiscreteJoint.from_counts("XYZ", [[[1, 0], [0, 1]], [[0, 1], [1, 0]]]), unit="bits")
    >>> round(xor.atoms[frozenset("XYZ")], 6), round(xor.value("I[X;Y]"), 6), xor.is_venn_like()
    (-1.0, 0.0, False)
    """

    variables: tuple[str, ...]
    atoms: dict[Subset, float]
    unit: str = "nats"

    @classmethod
    def from_joint(cls, joint: Any, variables: str | Sequence[str] | None = None, *, unit: Unit = "nats") -> "IDiagram":
        """The diagram of some variables of a joint distribution (all of them, unless named)."""
        names = _chosen(joint, variables)
        n = len(names)
        entropy_S = np.zeros(2**n)
        for mask in reversed(range(1, 2**n)):  # large sets first: their marginals serve the smaller ones
            group = tuple(Atom(name) for place, name in enumerate(names) if mask >> place & 1)
            value = evaluate(H(group), joint, unit=unit).value
            if not isinstance(value, float):
                raise ValueError("variables: Y is the label of every point in turn; name points, as in Y1, Y2")
            entropy_S[mask] = value
        atom_S = _moebius(entropy_S, n)
        subsets = [frozenset(c) for size in range(1, n + 1) for c in combinations(names, size)]
        bits = {name: 1 << place for place, name in enumerate(names)}
        return cls(names, {part: float(atom_S[sum(bits[name] for name in part)]) for part in subsets}, unit)

    def weights(self, expression: str | Expression) -> dict[Subset, Fraction]:
        """How often each atom counts in a quantity; once or never for a single H or I."""
        found: dict[Subset, Fraction] = {}
        parsed = parse(expression) if isinstance(expression, str) else expression
        for leaf, factor in leaves(parsed).items():
            if not isinstance(leaf, H) or leaf.model is not None:
                raise ValueError(f"expression: {leaf} has no region in a diagram; only sums of H, I and TC have one")
            of, given = self._names(leaf.of, parsed), self._names(leaf.given, parsed)
            for part in self.atoms:
                if part & of and not part & given:
                    found[part] = found.get(part, Fraction(0)) + factor
        return {part: weight for part, weight in found.items() if weight}

    def region(self, expression: str | Expression) -> set[Subset]:
        """The atoms a quantity is made of."""
        return set(self.weights(expression))

    def value(self, expression: str | Expression) -> float:
        """A quantity, summed from the atoms of its region."""
        return float(sum(float(weight) * self.atoms[part] for part, weight in self.weights(expression).items()))

    def is_venn_like(self, tol: float = 1e-12) -> bool:
        """Whether no atom is negative: only then may inequalities be read off the picture."""
        return all(value >= -tol for value in self.atoms.values())

    def removable(self, expression: str | Expression, tol: float = 1e-12) -> bool:
        """Whether a region may be erased: every atom in it is zero, not merely their sum."""
        return all(abs(self.atoms[part]) <= tol for part in self.region(expression))

    def expression(self, part: Subset | Sequence[str]) -> Expression:
        """What an atom is called: I[its variables | the others], or H[X | the others].

        >>> str(IDiagram(("X", "Y", "Z"), {}).expression({"X", "Z"})).replace(" ", "")
        'I[X;Z|Y]'
        """
        inside = [Atom(name) for name in self.variables if name in part]
        given = tuple(Atom(name) for name in self.variables if name not in part)
        return H((inside[0],), given) if len(inside) == 1 else I(tuple((atom,) for atom in inside), given)

    def table(self, highlight: str | Expression | None = None) -> str:
        """Every atom with its value, negative ones marked and those of a highlighted quantity starred; then their sum.

        >>> from natsel.calculus import DiscreteJoint
        >>> print(IDiagram.from_joint(DiscreteJoint.from_counts("XY", [[1, 1], [0, 2]]), unit="bits").table())
          H[X | Y]   0.688722
          H[Y | X]   0.500000
          I[X; Y]    0.311278
          H[X, Y]    1.500000  bits
        """
        quantity = parse(highlight) if isinstance(highlight, str) else highlight
        chosen = self.region(quantity) if quantity is not None else set()
        rows = [
            ("*" if part in chosen else " ", str(self.expression(part)), value, "negative" if value < -1e-12 else "")
            for part, value in self.atoms.items()
        ]
        if quantity is not None:
            rows.append(("*", str(quantity), self.value(quantity), self.unit))
        everything = H(tuple(Atom(name) for name in self.variables))
        rows.append((" ", str(everything), sum(self.atoms.values()), self.unit))
        width = max(len(name) for _, name, _, _ in rows)
        return "\n".join(f"{mark} {name:<{width}}  {value:9.6f}  {note}".rstrip() for mark, name, value, note in rows)

    def figure(self, highlight: str | Expression | None = None, title: str | None = None) -> "Figure":
        """The diagram as a Matplotlib figure: 1 to 4 variables; `highlight` sets the region of a quantity off."""
        from natsel.calculus.diagrams.drawing import draw

        return draw(self, highlight, title)

    def _names(self, group: Sequence[Atom], within: Expression) -> set[str]:
        names = set()
        for atom in group:
            if atom.tied:
                raise ValueError(
                    f"expression: {within} holds the outcome {atom}, but a diagram has variables only;"
                    " draw one outcome with natsel.calculus.diagrams.bars"
                )
            if atom.name not in self.variables:
                raise ValueError(
                    f"expression: {within} names {atom.name}, which is not in the diagram of"
                    f" {', '.join(self.variables)}; add it to variables"
                )
            names.add(atom.name)
        return names


def _moebius(entropy_S: Any, n: int) -> Any:
    """All atoms at once, at the bits of T: minus the Möbius transform of R ↦ H[all but R]."""
    if n == 0:
        return entropy_S
    outside = entropy_S[::-1].reshape((2,) * n).copy()  # the complement of a mask is its mirror image
    for axis in range(n):
        lower, upper = np.split(outside, 2, axis)
        outside = np.concatenate([lower, upper - lower], axis)
    return -outside.reshape(-1)


def _chosen(joint: Any, variables: str | Sequence[str] | None) -> tuple[str, ...]:
    declared: tuple[str, ...] = tuple(getattr(joint, "names", ()))
    if variables is None and not declared:
        raise ValueError(f"variables: {type(joint).__name__} does not say its variables; name those to draw")
    names = declared if variables is None else tuple(variables)
    if not names or len(set(names)) < len(names):
        raise ValueError(f"variables: expected different names, at least one, found {list(names)}; name each once")
    if len(names) > MOST:
        raise ValueError(f"variables: a diagram holds at most {MOST}, found {len(names)}; name those to draw")
    unknown = [name for name in names if declared and name not in declared]
    if unknown:
        raise ValueError(f"variables: {unknown[0]} is not in the table of {', '.join(declared)}; name one of these")
    return names
