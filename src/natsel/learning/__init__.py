"""The loop: ask, tell, retrain, evaluate; journalled, and resumable at any instant."""

from natsel.learning.learner import ActiveLearner as ActiveLearner
from natsel.learning.stopping import Budget as Budget
from natsel.learning.stopping import GainBelow as GainBelow
from natsel.learning.stopping import Stabilised as Stabilised
from natsel.learning.stopping import TargetAccuracy as TargetAccuracy
from natsel.learning.stopping import View as View
