"""Diagrams as text: atoms and bars as tables, for terminals and for more variables than a picture holds."""

from typing import TYPE_CHECKING

from natsel.calculus.expressions import Atom, Expression, H
from natsel.calculus.formatting import plain
from natsel.calculus.parser import parse

if TYPE_CHECKING:
    from natsel.calculus.diagrams.atoms import IDiagram


def atoms_table(diagram: "IDiagram", highlight: str | Expression | None = None) -> str:
    """Every atom with its value, negative ones marked and those of a highlighted quantity starred; then their sum.

    >>> from natsel.calculus import DiscreteJoint
    >>> from natsel.calculus.diagrams import IDiagram
    >>> print(IDiagram.from_joint(DiscreteJoint.from_counts("XY", [[1, 1], [0, 2]]), unit="bits"))
      H[X | Y]   0.688722
      H[Y | X]   0.500000
      I[X; Y]    0.311278
      H[X, Y]    1.500000  bits
    """
    quantity = parse(highlight) if isinstance(highlight, str) else highlight
    chosen = diagram.region(quantity) if quantity is not None else set()
    rows = [
        ("*" if part in chosen else " ", plain(diagram.expression(part)), value, "negative" if value < -1e-12 else "")
        for part, value in diagram.atoms.items()
    ]
    if quantity is not None:
        rows.append(("*", plain(quantity), diagram.value(quantity), diagram.unit))
    everything = H(tuple(Atom(name) for name in diagram.variables))
    rows.append((" ", plain(everything), sum(diagram.atoms.values()), diagram.unit))
    width = max(len(name) for _, name, _, _ in rows)
    return "\n".join(f"{mark} {name:<{width}}  {value:9.6f}  {note}".rstrip() for mark, name, value, note in rows)
