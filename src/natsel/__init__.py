"""natsel: select data by the nats they carry.

A method is an objective, read from a belief, maximised by a search:

>>> import natsel
>>> belief = natsel.CategoricalSamples.from_probs([[[0.9, 0.1], [0.9, 0.1]], [[1.0, 0.0], [0.0, 1.0]]])
>>> natsel.select("batchbald", belief, k=1).indices
array([1])
"""

from natsel import information
from natsel.beliefs import Belief, CategoricalSamples, GaussianFeatures, GaussianSamples
from natsel.memory import memory_budget
from natsel.methods.choose import score, select
from natsel.methods.registry import Method, methods
from natsel.methods.selection import Explanation, Selection
from natsel.objectives import (
    EIG,
    Entropy,
    ExpectedEntropy,
    InformationGain,
    Margin,
    MeanStd,
    Objective,
    Random,
    StdDev,
    Surprise,
    Variance,
    VariationRatio,
)
from natsel.search import Exhaustive, Greedy, Power, Softmax, SoftRank, TopK, Uniform

__version__ = "0.1.0"

__all__ = [
    "EIG",
    "Belief",
    "CategoricalSamples",
    "Entropy",
    "Exhaustive",
    "ExpectedEntropy",
    "Explanation",
    "GaussianFeatures",
    "GaussianSamples",
    "Greedy",
    "InformationGain",
    "Margin",
    "MeanStd",
    "Method",
    "Objective",
    "Power",
    "Random",
    "Selection",
    "SoftRank",
    "Softmax",
    "StdDev",
    "Surprise",
    "TopK",
    "Uniform",
    "Variance",
    "VariationRatio",
    "information",
    "memory_budget",
    "methods",
    "score",
    "select",
]
