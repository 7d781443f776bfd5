"""Beliefs: what a model says about N points, as frozen values that objectives read."""

from natsel.beliefs.base import Belief
from natsel.beliefs.categorical import CategoricalSamples
from natsel.beliefs.draws import DrawsCollapsed, NoSurvivingDraw
from natsel.beliefs.fisher import FisherFactors, FisherRows
from natsel.beliefs.gaussian import GaussianFeatures, GaussianSamples
from natsel.beliefs.targets import Targets
from natsel.beliefs.two_models import TwoModels

__all__ = [
    "Belief",
    "CategoricalSamples",
    "DrawsCollapsed",
    "FisherFactors",
    "FisherRows",
    "GaussianFeatures",
    "GaussianSamples",
    "NoSurvivingDraw",
    "Targets",
    "TwoModels",
]
