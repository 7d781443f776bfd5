"""Beliefs: what a model says about N points, as frozen values that objectives read."""

from natsel.beliefs.base import Belief
from natsel.beliefs.categorical import CategoricalSamples
from natsel.beliefs.gaussian import GaussianFeatures, GaussianSamples

__all__ = ["Belief", "CategoricalSamples", "GaussianFeatures", "GaussianSamples"]
