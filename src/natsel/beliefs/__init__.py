"""Beliefs: what a model says about N points, as frozen values that objectives read."""

from natsel.beliefs.arrays import as_tensor
from natsel.beliefs.base import Belief, BeliefView, seen_as
from natsel.beliefs.categorical import CategoricalSamples
from natsel.beliefs.class_probabilities import ClassProbabilities
from natsel.beliefs.draws import DrawsCollapsed, NoSurvivingDraw
from natsel.beliefs.fisher import FisherBelief, FisherFactors, FisherRows
from natsel.beliefs.gaussian import GaussianFeatures, GaussianSamples
from natsel.beliefs.targets import Targets
from natsel.beliefs.two_models import TwoModels

__all__ = [
    "Belief",
    "BeliefView",
    "CategoricalSamples",
    "ClassProbabilities",
    "DrawsCollapsed",
    "FisherBelief",
    "FisherFactors",
    "FisherRows",
    "GaussianFeatures",
    "GaussianSamples",
    "NoSurvivingDraw",
    "Targets",
    "TwoModels",
    "as_tensor",
    "seen_as",
]
