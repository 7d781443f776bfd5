"""The calculus of information: write a quantity as a paper writes it, and have it checked, expanded and evaluated.

    H[X, y | Z]   I[X; Y; z | W]   TC[X; Y; Z]   H(p ‖ q)   KL(p ‖ q)   E_{p(x|y)}[…]   capitals random, small observed

>>> joint = DiscreteJoint.from_probs("XY", [[0.9, 0.05], [0.0, 0.05]])
>>> round(info("I[X;y]").on(joint, at={"y": 1}), 6)     # observing y = 1 leaves X less certain
-0.494632
>>> bool(equal("H[X,Y]", "H[X] + H[Y|X]")), bool(equal("I[X;y]", "I[y;X]"))
(True, False)

Spec 01, 3 to 6 and A1 to A3.
"""

from natsel.information.calculus.assumptions import Determines, Independent
from natsel.information.calculus.canonical import NotReducible, canonical
from natsel.information.calculus.discrete import DiscreteJoint, ZeroProbabilityOutcome
from natsel.information.calculus.evaluate import ALL, Result, evaluate
from natsel.information.calculus.expanding import expand
from natsel.information.calculus.expressions import TC, Atom, Expression, H, I, Statement
from natsel.information.calculus.gaussian import GaussianJoint
from natsel.information.calculus.identities import Verdict, equal, verify
from natsel.information.calculus.naming import name_of
from natsel.information.calculus.parser import ParseError, parse, parse_statement
from natsel.information.calculus.predictive import PredictiveJoint
from natsel.information.calculus.quantity import Quantity, info
from natsel.information.calculus.rewriting import chain

__all__ = [
    "ALL",
    "TC",
    "Atom",
    "Determines",
    "DiscreteJoint",
    "Expression",
    "GaussianJoint",
    "H",
    "I",
    "Independent",
    "NotReducible",
    "ParseError",
    "PredictiveJoint",
    "Quantity",
    "Result",
    "Statement",
    "Verdict",
    "ZeroProbabilityOutcome",
    "canonical",
    "chain",
    "equal",
    "evaluate",
    "expand",
    "info",
    "name_of",
    "parse",
    "parse_statement",
    "verify",
]
