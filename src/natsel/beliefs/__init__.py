"""Beliefs: what a model says about N points, as frozen values that objectives read."""

from importlib import import_module
from typing import TYPE_CHECKING

from natsel import options as _options
from natsel.beliefs.arrays import as_tensor
from natsel.beliefs.base import Belief, BeliefView, seen_as
from natsel.beliefs.categorical import CategoricalSamples
from natsel.beliefs.class_probabilities import ClassProbabilities
from natsel.beliefs.dirichlet_members import DirichletMembers
from natsel.beliefs.draws import DrawsCollapsed, NoSurvivingDraw
from natsel.beliefs.feature_density import FeatureDensity
from natsel.beliefs.fisher import FisherBelief, FisherFactors, FisherRows
from natsel.beliefs.gaussian import GaussianFeatures, GaussianSamples
from natsel.beliefs.independent_samples import IndependentSamples
from natsel.beliefs.targets import Targets
from natsel.beliefs.two_models import TwoModels

if TYPE_CHECKING:
    from natsel.beliefs.example_losses import ExampleLosses
    from natsel.beliefs.gaussian_discriminant import GaussianDiscriminant
    from natsel.beliefs.geometry import Geometry
    from natsel.beliefs.potential_outcomes import GaussianPotentialOutcomes, PotentialOutcomes, YesOrNoOutcomes

__all__ = [
    "Belief",
    "BeliefView",
    "CategoricalSamples",
    "ClassProbabilities",
    "DirichletMembers",
    "DrawsCollapsed",
    "ExampleLosses",
    "FeatureDensity",
    "FisherBelief",
    "FisherFactors",
    "FisherRows",
    "GaussianDiscriminant",
    "GaussianFeatures",
    "GaussianPotentialOutcomes",
    "GaussianSamples",
    "Geometry",
    "IndependentSamples",
    "NoSurvivingDraw",
    "PotentialOutcomes",
    "Targets",
    "TwoModels",
    "YesOrNoOutcomes",
    "as_tensor",
    "seen_as",
]


_ON_USE = {  # modules that few programs want, imported when they are
    "ExampleLosses": "example_losses",
    "GaussianDiscriminant": "gaussian_discriminant",
    "Geometry": "geometry",
    "GaussianPotentialOutcomes": "potential_outcomes",
    "PotentialOutcomes": "potential_outcomes",
    "YesOrNoOutcomes": "potential_outcomes",
}


def __getattr__(name: str) -> object:
    if name in _ON_USE:
        return _options.checked_part(getattr(import_module(f"natsel.beliefs.{_ON_USE[name]}"), name))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_options.checked_names(globals())
