"""Objectives: which information quantity is wanted, and how it is read from each kind of belief."""

# Readings are imported for their entries in the table (objective, belief) → state.
from natsel.objectives import (  # noqa: F401
    eig_categorical,
    eig_fisher,
    eig_gaussian,
    epig_categorical,
    epig_fisher,
    epig_gaussian,
    jepig_categorical,
    jepig_fisher,
    jepig_gaussian,
    known_fisher,
    pig_draws,
    pig_gaussian,
    trace_fisher,
)
from natsel.objectives.coverage import FLQMI, FLVMI, FacilityLocation, SetCover, SetCoverMI
from natsel.objectives.eig import EIG
from natsel.objectives.epig import EPIG, EPIGChi2
from natsel.objectives.epig_jensen import EPIGJensen
from natsel.objectives.gradient_norms import EGL, EL2N, GraNd
from natsel.objectives.graph_cut import GCMI, GraphCut
from natsel.objectives.jepig import JEPIG
from natsel.objectives.jepig_taught import TaughtJEPIG
from natsel.objectives.logdet import LogDet, LogDetCMI, LogDetMI
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
from natsel.objectives.trace import TraceEIG, TraceEPIG, TraceJEPIG

__all__ = [
    "EGL",
    "EIG",
    "EL2N",
    "EPIG",
    "FLQMI",
    "FLVMI",
    "GCMI",
    "JEPIG",
    "JPIG",
    "PIG",
    "SERVES",
    "Bound",
    "EPIGChi2",
    "EPIGJensen",
    "Entropy",
    "ExpectedEntropy",
    "FacilityLocation",
    "Facts",
    "GraNd",
    "GraphCut",
    "InformationGain",
    "LogDet",
    "LogDetCMI",
    "LogDetMI",
    "Margin",
    "MeanStd",
    "Objective",
    "Random",
    "Reading",
    "SetCover",
    "SetCoverMI",
    "StdDev",
    "Surprise",
    "TaughtJEPIG",
    "TraceEIG",
    "TraceEPIG",
    "TraceJEPIG",
    "Variance",
    "VariationRatio",
    "offers",
    "read",
]
