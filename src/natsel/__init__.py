"""natsel: select data by the nats they carry.

A method is an objective, read from a belief, maximised by a search:

>>> import natsel
>>> belief = natsel.CategoricalSamples.from_probs([[[0.9, 0.1], [0.9, 0.1]], [[1.0, 0.0], [0.0, 1.0]]])
>>> natsel.select("batchbald", belief, k=1).indices
array([1])

Names are imported when they are first used: torch alone takes seconds, and `natsel --help` does not need it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from natsel import information as information
    from natsel.beliefs import Belief as Belief
    from natsel.beliefs import CategoricalSamples as CategoricalSamples
    from natsel.beliefs import FisherFactors as FisherFactors
    from natsel.beliefs import FisherRows as FisherRows
    from natsel.beliefs import GaussianFeatures as GaussianFeatures
    from natsel.beliefs import GaussianSamples as GaussianSamples
    from natsel.beliefs import Targets as Targets
    from natsel.choose import Explanation as Explanation
    from natsel.choose import Method as Method
    from natsel.choose import Selection as Selection
    from natsel.choose import methods as methods
    from natsel.choose import score as score
    from natsel.choose import select as select
    from natsel.data import Examples as Examples
    from natsel.data import Pool as Pool
    from natsel.information import info as info
    from natsel.learning import ActiveLearner as ActiveLearner
    from natsel.learning import Budget as Budget
    from natsel.learning import GainBelow as GainBelow
    from natsel.learning import Stabilised as Stabilised
    from natsel.learning import TargetAccuracy as TargetAccuracy
    from natsel.learning import TargetInputs as TargetInputs
    from natsel.memory import memory_budget as memory_budget
    from natsel.objectives import EGL as EGL
    from natsel.objectives import EIG as EIG
    from natsel.objectives import EL2N as EL2N
    from natsel.objectives import EPIG as EPIG
    from natsel.objectives import FLQMI as FLQMI
    from natsel.objectives import FLVMI as FLVMI
    from natsel.objectives import GCMI as GCMI
    from natsel.objectives import JEPIG as JEPIG
    from natsel.objectives import JPIG as JPIG
    from natsel.objectives import PIG as PIG
    from natsel.objectives import Entropy as Entropy
    from natsel.objectives import EPIGChi2 as EPIGChi2
    from natsel.objectives import EPIGJensen as EPIGJensen
    from natsel.objectives import ExpectedEntropy as ExpectedEntropy
    from natsel.objectives import FacilityLocation as FacilityLocation
    from natsel.objectives import GraNd as GraNd
    from natsel.objectives import GraphCut as GraphCut
    from natsel.objectives import InformationGain as InformationGain
    from natsel.objectives import LogDet as LogDet
    from natsel.objectives import LogDetCMI as LogDetCMI
    from natsel.objectives import LogDetMI as LogDetMI
    from natsel.objectives import Margin as Margin
    from natsel.objectives import MeanStd as MeanStd
    from natsel.objectives import Objective as Objective
    from natsel.objectives import Random as Random
    from natsel.objectives import SetCover as SetCover
    from natsel.objectives import SetCoverMI as SetCoverMI
    from natsel.objectives import StdDev as StdDev
    from natsel.objectives import Surprise as Surprise
    from natsel.objectives import TaughtJEPIG as TaughtJEPIG
    from natsel.objectives import TraceEIG as TraceEIG
    from natsel.objectives import TraceEPIG as TraceEPIG
    from natsel.objectives import TraceJEPIG as TraceJEPIG
    from natsel.objectives import Variance as Variance
    from natsel.objectives import VariationRatio as VariationRatio
    from natsel.search import KDPP as KDPP
    from natsel.search import Exhaustive as Exhaustive
    from natsel.search import ForwardBackward as ForwardBackward
    from natsel.search import Greedy as Greedy
    from natsel.search import KMeansPP as KMeansPP
    from natsel.search import Power as Power
    from natsel.search import Softmax as Softmax
    from natsel.search import SoftRank as SoftRank
    from natsel.search import TopK as TopK
    from natsel.search import Uniform as Uniform
    from natsel.store import Journal as Journal

__version__ = "0.1.0"

_ROOMS = (
    *("memory", "information", "beliefs", "objectives", "search", "choose"),
    *("data", "store", "models", "evaluation", "learning", "experiments"),
)
_NAMES = {
    "memory": ("memory_budget",),
    "information": ("info",),
    "beliefs": (
        "Belief",
        "CategoricalSamples",
        "FisherFactors",
        "FisherRows",
        "GaussianFeatures",
        "GaussianSamples",
        "Targets",
    ),
    "objectives": (
        *("EIG", "EPIG", "EPIGChi2", "JEPIG", "JPIG", "PIG", "Entropy", "ExpectedEntropy", "InformationGain"),
        *("Margin", "MeanStd", "Objective", "Random", "StdDev", "Surprise", "TaughtJEPIG", "Variance"),
        *("VariationRatio", "EPIGJensen", "TraceEIG", "TraceEPIG", "TraceJEPIG", "LogDet", "LogDetMI", "LogDetCMI"),
        *("FacilityLocation", "FLVMI", "FLQMI", "SetCover", "SetCoverMI", "GraphCut", "GCMI", "EGL", "EL2N", "GraNd"),
    ),
    "search": (
        *("Exhaustive", "ForwardBackward", "Greedy", "KDPP", "KMeansPP", "Power", "SoftRank", "Softmax", "TopK"),
        "Uniform",
    ),
    "data": ("Examples", "Pool"),
    "store": ("Journal",),
    "learning": ("ActiveLearner", "Budget", "GainBelow", "Stabilised", "TargetAccuracy", "TargetInputs"),
    "choose": ("Explanation", "Method", "Selection", "methods", "score", "select"),
}
_ROOM_OF = {name: room for room, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"natsel.{name}")
    if name not in _ROOM_OF:
        raise AttributeError(f"module 'natsel' has no attribute {name!r}")
    value = getattr(import_module(f"natsel.{_ROOM_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_ROOMS, *_ROOM_OF})
