"""The loop: ask for labels, be told them, fit again, evaluate; written to a journal, and resumable at any moment."""

from natsel import options as _options
from natsel.learning.learner import ActiveLearner as ActiveLearner
from natsel.learning.run_tables import History as History
from natsel.learning.run_tables import ToldLabels as ToldLabels
from natsel.learning.set_aside import junk_share as junk_share
from natsel.learning.stopping import Budget as Budget
from natsel.learning.stopping import CostBudget as CostBudget
from natsel.learning.stopping import GainBelow as GainBelow
from natsel.learning.stopping import Queries as Queries
from natsel.learning.stopping import Stabilised as Stabilised
from natsel.learning.stopping import TargetAccuracy as TargetAccuracy
from natsel.learning.stopping import View as View
from natsel.learning.target_sources import TargetInputs as TargetInputs

_options.checked_names(globals())
