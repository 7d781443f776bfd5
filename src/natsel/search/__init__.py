"""Searches: how a batch is found on a state. Each is a frozen value; see `natsel.capabilities.Search`."""

from natsel.search.dpp import KDPP
from natsel.search.exhaustive import Exhaustive
from natsel.search.forward_backward import ForwardBackward
from natsel.search.greedy import Greedy
from natsel.search.gumbel import gumbel_noise, gumbel_top_k, ordered_log_prob
from natsel.search.kmeans_pp import KMeansPP
from natsel.search.stochastic import Power, Softmax, SoftRank, Uniform, reservoir_top_k
from natsel.search.topk import TopK

SEARCHES = (TopK, Greedy, Power, Softmax, SoftRank, Uniform, Exhaustive, ForwardBackward, KMeansPP, KDPP)

__all__ = [
    "KDPP",
    "SEARCHES",
    "Exhaustive",
    "ForwardBackward",
    "Greedy",
    "KMeansPP",
    "Power",
    "SoftRank",
    "Softmax",
    "TopK",
    "Uniform",
    "gumbel_noise",
    "gumbel_top_k",
    "ordered_log_prob",
    "reservoir_top_k",
]
