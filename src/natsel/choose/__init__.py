"""Choose: the table of named methods, and the verbs on it: score, select, triage, evaluate_uncertainty."""

from natsel import options as _options
from natsel.choose.methods import METHODS as METHODS
from natsel.choose.methods import Method as Method
from natsel.choose.methods import methods as methods
from natsel.choose.methods import register as register
from natsel.choose.methods import resolve as resolve
from natsel.choose.methods import unregister as unregister
from natsel.choose.recommended import DEFAULT as DEFAULT
from natsel.choose.select import score as score
from natsel.choose.select import select as select
from natsel.choose.selection import Explanation as Explanation
from natsel.choose.selection import Pick as Pick
from natsel.choose.selection import Selection as Selection
from natsel.choose.triage import Triage as Triage
from natsel.choose.triage import triage as triage
from natsel.choose.uncertainty_evaluation import Detection as Detection
from natsel.choose.uncertainty_evaluation import UncertaintyEvaluation as UncertaintyEvaluation
from natsel.choose.uncertainty_evaluation import evaluate_uncertainty as evaluate_uncertainty

_options.checked_names(globals())
