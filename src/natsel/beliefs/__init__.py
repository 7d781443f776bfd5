"""Beliefs: what a model says about N points, as frozen values that objectives read."""

from typing import TYPE_CHECKING

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
    from natsel.beliefs.potential_outcomes import GaussianPotentialOutcomes, PotentialOutcomes

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
    "IndependentSamples",
    "NoSurvivingDraw",
    "PotentialOutcomes",
    "Targets",
    "TwoModels",
    "as_tensor",
    "seen_as",
]


def __getattr__(name: str) -> object:
    """Losses of examples, potential outcomes, and the density that some beliefs come from, are imported when wanted."""
    if name == "ExampleLosses":
        from natsel.beliefs.example_losses import ExampleLosses

        return ExampleLosses
    if name == "GaussianDiscriminant":
        from natsel.beliefs.gaussian_discriminant import GaussianDiscriminant

        return GaussianDiscriminant
    if name in ("PotentialOutcomes", "GaussianPotentialOutcomes"):
        from natsel.beliefs import potential_outcomes

        return getattr(potential_outcomes, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
