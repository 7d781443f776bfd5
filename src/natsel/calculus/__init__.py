"""The calculus of information: write a quantity as a paper writes it, and have it checked, expanded and evaluated.

    H[X, y | Z]   I[X; Y; z | W]   TC[X; Y; Z]   H(p ‖ q)   KL(p ‖ q)   E_{p(x|y)}[…]   capitals random, small observed

>>> joint = DiscreteJoint.from_probs("XY", [[0.9, 0.05], [0.0, 0.05]])
>>> round(info("I[X;y]").on(joint, at={"y": 1}), 6)     # observing y = 1 leaves X less certain
-0.494632
>>> bool(equal("H[X,Y]", "H[X] + H[Y|X]")), bool(equal("I[X;y]", "I[y;X]"))
(True, False)

docs/theory/information-quantities.md, 3 to 10; Kirsch and Gal 2021.
"""

from natsel import options as _options
from natsel.calculus.binomial import log_binomial as log_binomial
from natsel.calculus.binomial import log_binomial_gap as log_binomial_gap
from natsel.calculus.binomial import log_binomial_upper_bound as log_binomial_upper_bound
from natsel.calculus.canonical import Determines as Determines
from natsel.calculus.canonical import Independent as Independent
from natsel.calculus.canonical import NotReducible as NotReducible
from natsel.calculus.canonical import canonical as canonical
from natsel.calculus.diagrams.atoms import IDiagram as IDiagram
from natsel.calculus.discrete_joint import DiscreteJoint as DiscreteJoint
from natsel.calculus.discrete_joint import ZeroProbabilityOutcome as ZeroProbabilityOutcome
from natsel.calculus.evaluate import Result as Result
from natsel.calculus.evaluate import evaluate as evaluate
from natsel.calculus.expansion import expand as expand
from natsel.calculus.expressions import TC as TC
from natsel.calculus.expressions import Atom as Atom
from natsel.calculus.expressions import Expression as Expression
from natsel.calculus.expressions import H as H
from natsel.calculus.expressions import I as I
from natsel.calculus.expressions import Statement as Statement
from natsel.calculus.formatting import name_of as name_of
from natsel.calculus.gaussian_joint import GaussianJoint as GaussianJoint
from natsel.calculus.identities import Verdict as Verdict
from natsel.calculus.identities import equal as equal
from natsel.calculus.identities import verify as verify
from natsel.calculus.leaf_values import ALL as ALL
from natsel.calculus.parser import ParseError as ParseError
from natsel.calculus.parser import parse as parse
from natsel.calculus.parser import parse_statement as parse_statement
from natsel.calculus.predictive_joint import PredictiveJoint as PredictiveJoint
from natsel.calculus.quantity import Quantity as Quantity
from natsel.calculus.quantity import info as info
from natsel.calculus.rewriting import chain as chain

_options.checked_names(globals())
