"""Which picture shows a quantity: an I-diagram where all is variables, bars where one outcome is observed.

    I[X;Y|Z], H[X,Y] + TC[X;Y;Z]        variables alone: the region in the I-diagram of its variables
    I[X;y], I[y;X|z], H[X|y], H[X,y]    a group of variables and a group of outcomes: the bar diagram of the two

Beyond that there is no diagram: the measure behind I-diagrams does not exist for mixtures.  Spec 01, 5.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from natsel.calculus.diagrams.atoms import IDiagram
from natsel.calculus.diagrams.bars import Bars, bars
from natsel.calculus.discrete_joint import DiscreteJoint
from natsel.calculus.expressions import Atom, Expectation, Expression, Group, H, I, group
from natsel.calculus.gaussian_joint import GaussianJoint
from natsel.calculus.parser import parse
from natsel.calculus.tree import rewritten

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_CONTEXT = re.compile(r"x\d*|[dD](_\w*)?")


def diagram_of(
    expression: str | Expression,
    joint: Any,
    at: Mapping[str, Any] | None = None,
    path: str | Path | None = None,
    unit: Any = "nats",
) -> "Figure":
    """The picture that shows a quantity, set off in it; written to `path` (.svg, .png or .pdf) if there is one.

    >>> joint = DiscreteJoint.from_counts("XY", [[3, 1], [0, 4]])
    >>> type(diagram_of("I[X;Y]", joint)).__name__, type(diagram_of("I[X;y]", joint, at={"y": 1})).__name__
    ('Figure', 'Figure')
    """
    from natsel.calculus.diagrams.figures import save

    quantity = parse(expression) if isinstance(expression, str) else expression
    diagram, shown = diagram_for(quantity, joint, at, unit)
    return diagram.figure(shown) if path is None else save(lambda: diagram.figure(shown), path)


def diagram_for(
    expression: Expression, joint: Any, at: Mapping[str, Any] | None = None, unit: Any = "nats"
) -> tuple[IDiagram | Bars, Expression]:
    """The diagram that shows a quantity, and the quantity in the diagram's own names."""
    if not isinstance(joint, DiscreteJoint | GaussianJoint):
        expression = rewritten(expression, _without_context)
    atoms = _atoms(expression)
    if not any(atom.tied for atom in atoms):
        names = [atom.name for atom in atoms]
        declared = getattr(joint, "names", names)
        ordered = [name for name in declared if name in names] + [name for name in names if name not in declared]
        diagram = IDiagram.from_joint(joint, ordered, unit=unit)
        diagram.region(expression)
        return diagram, expression
    over, by, given = _two_groups(expression)
    return bars(joint, over, by, at=at, given=given, unit=unit), expression


def _two_groups(expression: Expression) -> tuple[Group, Group, Group]:
    """(variables, outcomes, given outcomes) of the bar diagram in which a mixed quantity occurs."""
    match expression:
        case I((first, second), given, None):
            sides = sorted((first, second), key=lambda side: any(atom.tied for atom in side))
        case H(of, given, None):
            everything = group((*of, *given))
            sides = [tuple(a for a in everything if not a.tied), tuple(a for a in everything if a.tied)]
            given = ()
        case Expectation(law, H(of, given, None)) if {a.name for a in law.of} == {a.name for a in of}:
            behind = tuple(atom for atom in law.given if atom not in given)
            sides = [tuple(type(atom)(atom.name) for atom in of), behind]
        case _:
            sides = []
    if len(sides) == 2 and all(sides):
        over, by = sides
        if not any(a.tied for a in over) and all(a.tied for a in by) and all(a.tied for a in given):
            return over, by, given
    raise ValueError(
        f"expression: {expression} has no diagram: variables alone have one, and two groups, one of variables and one"
        " of outcomes, as in I[X;y]; evaluate it instead"
    )


def _atoms(expression: Expression) -> Group:
    """All atoms of an expression, in the order of first occurrence."""
    found: list[Atom] = []

    def note(atoms: Group, behind: bool) -> Group:
        found.extend(atoms)
        return atoms

    rewritten(expression, note)
    return group(found)


def _without_context(atoms: Group, behind: bool) -> Group:
    """On a belief: W as Omega, and without the inputs and data behind `|`, which it is given already."""
    kept = []
    for atom in atoms:
        if not (behind and _CONTEXT.fullmatch(str(atom))):
            kept.append(type(atom)("Omega", atom.tied, atom.outcome) if atom.name == "W" else atom)
    return group(kept)
