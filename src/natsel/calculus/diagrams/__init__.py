"""Pictures of information: I-diagrams of variables, bar diagrams of a variable and an outcome. Drawn by Matplotlib.

>>> from natsel.calculus import DiscreteJoint
>>> diagram = IDiagram.from_joint(DiscreteJoint.from_counts("XY", [[3, 1], [0, 4]]))
>>> diagram.render("svg")[:5]
'<?xml'

Spec 01, 5 and A4.
"""

from natsel.calculus.diagrams.atoms import IDiagram
from natsel.calculus.diagrams.bars import Bar, Bars, bars
from natsel.calculus.diagrams.choosing import diagram_of

__all__ = ["Bar", "Bars", "IDiagram", "bars", "diagram_of"]
