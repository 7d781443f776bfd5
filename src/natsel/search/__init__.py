"""Searches: how a batch is found on a state. Each is a frozen value; see `natsel.capabilities.Search`."""

from natsel import options as _options
from natsel.capabilities import Capability, Search
from natsel.search.dpp import KDPP
from natsel.search.exhaustive import Exhaustive
from natsel.search.farthest_first import FarthestFirst
from natsel.search.forward_backward import ForwardBackward
from natsel.search.frank_wolfe import FrankWolfe
from natsel.search.greedy import Greedy
from natsel.search.gumbel import gumbel_noise, gumbel_top_k, ordered_log_prob
from natsel.search.importance import ImportanceSampling
from natsel.search.kmeans_pp import KMeansPP
from natsel.search.largest_cluster import LargestCluster
from natsel.search.softmax_draws import SoftmaxDraws
from natsel.search.stochastic import Power, Softmax, SoftRank, Uniform, reservoir_top_k
from natsel.search.topk import TopK, allowed_scores, refuse_nan, stable_top_k

SEARCHES: list[type[Search]] = [
    TopK,
    Greedy,
    Power,
    Softmax,
    SoftRank,
    Uniform,
    ImportanceSampling,
    SoftmaxDraws,
    Exhaustive,
    ForwardBackward,
    KMeansPP,
    FarthestFirst,
    LargestCluster,
    FrankWolfe,
    KDPP,
]
"""All searches: those that messages advise, recipes may name and the conformance suite runs."""


def register_search(search: type[Search]) -> type[Search]:
    """Enter a search of one's own into the list of all; for use as a decorator.

    >>> register_search(TopK)
    Traceback (most recent call last):
    ValueError: search: there is a search called TopK already; choose another name
    """
    if not isinstance(search, type) or not isinstance(getattr(search, "needs", None), Capability):
        raise ValueError(f"search: expected a class with `needs`, found {search!r}; see natsel.capabilities.Search")
    if search.__name__ in {known.__name__ for known in SEARCHES}:
        raise ValueError(f"search: there is a search called {search.__name__} already; choose another name")
    SEARCHES.append(search)
    return search


__all__ = [
    "KDPP",
    "SEARCHES",
    "Exhaustive",
    "FarthestFirst",
    "ForwardBackward",
    "FrankWolfe",
    "Greedy",
    "ImportanceSampling",
    "KMeansPP",
    "LargestCluster",
    "Power",
    "SoftRank",
    "Softmax",
    "SoftmaxDraws",
    "TopK",
    "Uniform",
    "allowed_scores",
    "gumbel_noise",
    "gumbel_top_k",
    "ordered_log_prob",
    "refuse_nan",
    "register_search",
    "reservoir_top_k",
    "stable_top_k",
]

_options.checked_names(globals())
