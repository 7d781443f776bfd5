"""Objectives: which information quantity is wanted, and how it is read from each kind of belief."""

# Readings are imported for their entries in the table (objective, belief) → state.
from natsel.objectives import (  # noqa: F401
    eig_categorical,
    eig_gaussian,
    epig_categorical,
    epig_gaussian,
    jepig_categorical,
    jepig_gaussian,
    pig_draws,
    pig_gaussian,
)
from natsel.objectives.eig import EIG
from natsel.objectives.epig import EPIG, EPIGChi2
from natsel.objectives.jepig import JEPIG
from natsel.objectives.jepig_taught import TaughtJEPIG
from natsel.objectives.pig import JPIG, PIG
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
    "EPIG",
    "JEPIG",
    "JPIG",
    "PIG",
    "SERVES",
    "Bound",
    "EPIGChi2",
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
    "TaughtJEPIG",
    "Variance",
    "VariationRatio",
    "offers",
    "read",
]
