"""The loop: ask, tell, retrain, evaluate; journalled, and resumable at any instant."""

from natsel.learning.junk import Queries as Queries
from natsel.learning.junk import junk_share as junk_share
from natsel.learning.learner import ActiveLearner as ActiveLearner
from natsel.learning.online import Refit as Refit
from natsel.learning.online import learn_online as learn_online
from natsel.learning.retraining import obi_versus_retraining as obi_versus_retraining
from natsel.learning.stopping import Budget as Budget
from natsel.learning.stopping import GainBelow as GainBelow
from natsel.learning.stopping import Stabilised as Stabilised
from natsel.learning.stopping import TargetAccuracy as TargetAccuracy
from natsel.learning.stopping import View as View
from natsel.learning.targets import TargetInputs as TargetInputs
