"""Objectives: which information quantity is wanted, and how it is read from each kind of belief."""

# The two readings of EIG are imported for their entries in the table (objective, belief) → state.
from natsel.objectives import eig_categorical, eig_gaussian  # noqa: F401
from natsel.objectives.eig import EIG
from natsel.objectives.plain import (
    Entropy,
    ExpectedEntropy,
    InformationGain,
    Margin,
    MeanStd,
    Random,
    StdDev,
    Surprise,
    Variance,
    VariationRatio,
)
from natsel.objectives.protocol import SERVES, Bound, Facts, Objective, Reading, offers, read

__all__ = [
    "EIG",
    "SERVES",
    "Bound",
    "Entropy",
    "ExpectedEntropy",
    "Facts",
    "InformationGain",
    "Margin",
    "MeanStd",
    "Objective",
    "Random",
    "Reading",
    "StdDev",
    "Surprise",
    "Variance",
    "VariationRatio",
    "offers",
    "read",
]
