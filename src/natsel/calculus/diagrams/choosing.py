"""Which picture shows a quantity: an I-diagram where all is variables, bars where one outcome is observed.

    I[X;Y|Z], H[X,Y] + TC[X;Y;Z]        only variables: the region in the I-diagram of its variables
    I[X;y], I[y;X|z], H[X|y], H[X,y]    a group of variables and a group of outcomes: the bar diagram of the two

Beyond that there is no diagram: the measure behind I-diagrams does not exist for mixtures.
docs/theory/information-quantities.md, 8.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from natsel.calculus.diagrams.atoms import IDiagram
from natsel.calculus.diagrams.bar_diagram import Bars, bars
from natsel.calculus.discrete_joint import DiscreteJoint
from natsel.calculus.expressions import Atom, Expectation, Expression, Group, H, I, atoms_of, group, with_groups_changed
from natsel.calculus.gaussian_joint import GaussianJoint
from natsel.calculus.parser import parse

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    quantity = parse(expression) if isinstance(expression, str) else expression
    diagram, shown = diagram_for(quantity, joint, at, unit)
    return diagram.figure(shown) if path is None else diagram.save(path, shown)


def diagram_for(
    expression: Expression, joint: Any, at: Mapping[str, Any] | None = None, unit: Any = "nats"
) -> tuple[IDiagram | Bars, Expression]:
    """The diagram that shows a quantity, and the quantity in the diagram's own names."""
    if not isinstance(joint, DiscreteJoint | GaussianJoint):
        expression = with_groups_changed(expression, _without_context)
    atoms = atoms_of(expression)
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
    over, by, given = (), (), ()  # type: tuple[Group, Group, Group]
    match expression:
        case I((first, second), given, None):
            over, by = sorted((first, second), key=lambda side: any(atom.tied for atom in side))
        case H(of, behind, None):
            everything = group((*of, *behind))
            over, by = tuple(a for a in everything if not a.tied), tuple(a for a in everything if a.tied)
        case Expectation(law, H(of, given, None)) if {a.name for a in law.of} == {a.name for a in of}:
            over, by = tuple(Atom(a.name) for a in of), tuple(a for a in law.given if a not in given)
    if over and by and not any(a.tied for a in over) and all(a.tied for a in (*by, *given)):
        return over, by, given
    raise ValueError(
        f"expression: {expression} has no diagram: variables alone have one, and two groups, one of variables and one"
        " of outcomes, as in I[X;y]; evaluate it instead"
    )


def _without_context(atoms: Group, behind: bool) -> Group:
    """On a belief: W as Omega, and without the inputs and data behind `|`, which it is given already."""
    kept = [atom for atom in atoms if not (behind and re.fullmatch(r"x\d*|[dD](_\w*)?", str(atom)))]
    return group(replace(atom, name="Omega") if atom.name == "W" else atom for atom in kept)
