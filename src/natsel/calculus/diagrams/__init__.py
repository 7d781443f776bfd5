"""Pictures of information: I-diagrams of variables, bar diagrams of a variable and an outcome. Drawn by Matplotlib.

>>> from natsel.calculus import DiscreteJoint
>>> diagram = IDiagram.from_joint(DiscreteJoint.from_counts("XY", [[3, 1], [0, 4]]))
>>> diagram.render("svg")[:5]
'<?xml'

docs/theory/information-quantities.md, 8; Yeung 1991; MacKay 2003, figure 8.1.
"""

from natsel.calculus.diagrams.atoms import IDiagram
from natsel.calculus.diagrams.bar_diagram import Bar, Bars, bars
from natsel.calculus.diagrams.choosing import diagram_of

__all__ = ["Bar", "Bars", "IDiagram", "bars", "diagram_of"]
