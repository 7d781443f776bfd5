"""The grid that the conformance tests run over, and small pools to run it on.

Nothing here names a method, an objective or a search: all are read from the registries, so that whatever is entered
there is covered at once. Only beliefs need a line of their own, in MAKERS: how to make a small pool of that kind.
Plug-ins add theirs in modules of the entry-point group `natsel.conformance`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import natsel
from natsel.beliefs import (
    Belief,
    CategoricalSamples,
    ClassProbabilities,
    DirichletMembers,
    ExampleLosses,
    FeatureDensity,
    FisherFactors,
    FisherRows,
    GaussianFeatures,
    GaussianPotentialOutcomes,
    GaussianSamples,
    Geometry,
    IndependentSamples,
    PotentialOutcomes,
    Targets,
    YesOrNoOutcomes,
)
from natsel.beliefs.base import kinds
from natsel.beliefs.two_models import TwoModels
from natsel.capabilities import Capability, draws_again
from natsel.choose.methods import METHODS, Method
from natsel.conformance import MAKERS, Arrays, Maker, makers_weights
from natsel.objectives import (
    READINGS,
    Argument,
    Context,
    Objective,
    PairFacts,
    Reading,
    Route,
    read,
    route,
    routes,
)
from natsel.plugins import load_installed
from natsel.search import SEARCHES

load_installed()
load_installed("natsel.conformance")

NOTHING = Capability(0)
NEGLIGIBLE = 1e-3  # the standard deviation of everything about a certain point
TARGETS = 3  # few, so that all their labellings can be written out


# Makers: one for each kind of belief.


def log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def categorical(rng: np.random.Generator, points: int, draws: int, classes: int) -> Arrays:
    logits_N_K_C = 1.5 * rng.normal(size=(points, 1, classes)) + 1.5 * rng.normal(size=(points, draws, classes))
    return {"log_probs_N_K_C": log_softmax(logits_N_K_C)}


def categorical_labels(rng: np.random.Generator, arrays: Arrays) -> np.ndarray:
    log_probs_N_C = arrays["log_probs_N_K_C"][:, 0]  # sampled from the first draw, so that one draw allows them
    return (log_probs_N_C + rng.gumbel(size=log_probs_N_C.shape)).argmax(-1)


def categorical_certain(arrays: Arrays) -> Arrays:
    log_probs_N_K_C = arrays["log_probs_N_K_C"].copy()
    points, draws, classes = log_probs_N_K_C.shape

    def one_hot(label: Any) -> np.ndarray:
        return np.where(np.arange(classes) == np.asarray(label)[..., None], 0.0, -np.inf)

    log_probs_N_K_C[0] = one_hot(0)
    if points > 3 and classes > 1:
        log_probs_N_K_C[1] = one_hot(np.arange(draws) % classes)  # every draw certain, but of different labels
        log_probs_N_K_C[2, :, -1] = -np.inf  # a class that no draw allows
        log_probs_N_K_C[3, 0] = one_hot(classes - 1)  # one draw certain, the others not
        log_probs_N_K_C[2] = log_softmax(log_probs_N_K_C[2])
    return {**arrays, "log_probs_N_K_C": log_probs_N_K_C}


def probabilities(rng: np.random.Generator, points: int, draws: int, classes: int) -> Arrays:
    return {"log_probs_N_C": log_softmax(2 * rng.normal(size=(points, classes)))}


def probabilities_labels(rng: np.random.Generator, arrays: Arrays) -> np.ndarray:
    return (arrays["log_probs_N_C"] + rng.gumbel(size=arrays["log_probs_N_C"].shape)).argmax(-1)


def probabilities_certain(arrays: Arrays) -> Arrays:
    log_probs_N_C = arrays["log_probs_N_C"].copy()
    log_probs_N_C[0] = np.where(np.arange(log_probs_N_C.shape[1]) == 0, 0.0, -np.inf)
    return {**arrays, "log_probs_N_C": log_probs_N_C}


def dirichlets(rng: np.random.Generator, points: int, draws: int, classes: int) -> Arrays:
    return {
        "log_mean_N_C": log_softmax(2 * rng.normal(size=(points, classes))),
        "concentration_N": np.exp(1.5 * rng.normal(size=points)),
    }


def dirichlets_labels(rng: np.random.Generator, arrays: Arrays) -> np.ndarray:
    return (arrays["log_mean_N_C"] + rng.gumbel(size=arrays["log_mean_N_C"].shape)).argmax(-1)


def dirichlets_certain(arrays: Arrays) -> Arrays:
    log_mean_N_C, concentration_N = arrays["log_mean_N_C"].copy(), arrays["concentration_N"].copy()
    points, classes = log_mean_N_C.shape
    log_mean_N_C[0] = np.where(np.arange(classes) == 0, 0.0, -np.inf)
    if points > 3 and classes > 1:
        concentration_N[1] = 1e-10  # every member certain, but of different labels
        log_mean_N_C[2, -1] = -np.inf  # a class that no member allows
        log_mean_N_C[2] = log_softmax(log_mean_N_C[2])
        concentration_N[3] = 1e9  # members that agree
    return {**arrays, "log_mean_N_C": log_mean_N_C, "concentration_N": concentration_N}


def densities(rng: np.random.Generator, points: int, draws: int, classes: int) -> Arrays:
    return {"log_density_N": 5 * rng.normal(size=points), "logits_N_C": 2 * rng.normal(size=(points, classes))}


def densities_labels(rng: np.random.Generator, arrays: Arrays) -> np.ndarray:
    return (arrays["logits_N_C"] + rng.gumbel(size=arrays["logits_N_C"].shape)).argmax(-1)


def densities_certain(arrays: Arrays) -> Arrays:
    log_density_N, logits_N_C = arrays["log_density_N"].copy(), arrays["logits_N_C"].copy()
    log_density_N[0] = log_density_N.max() + 1  # the most familiar, and of one class
    logits_N_C[0] = np.where(np.arange(logits_N_C.shape[1]) == 0, 50.0, -np.inf)
    return {**arrays, "log_density_N": log_density_N, "logits_N_C": logits_N_C}


def example_losses(rng: np.random.Generator, points: int, draws: int, classes: int) -> Arrays:
    return {
        "loss_N": 2 * rng.normal(size=points),  # of densities, which may be negative
        "irreducible_loss_N": rng.normal(size=points),
        "logits_N_C": 2 * rng.normal(size=(points, classes)),
        "features_N_D": rng.normal(size=(points, draws)),
    }


def example_losses_certain(arrays: Arrays) -> Arrays:
    """A point that is learnt, and that held-out data says nothing about."""
    loss_N, irreducible_loss_N = arrays["loss_N"].copy(), arrays["irreducible_loss_N"].copy()
    loss_N[0], irreducible_loss_N[0] = loss_N.min() - 1, irreducible_loss_N.max() + 1
    logits_N_C = arrays["logits_N_C"].copy()
    logits_N_C[0] = np.where(np.arange(logits_N_C.shape[1]) == 0, 50.0, -np.inf)
    return {**arrays, "loss_N": loss_N, "irreducible_loss_N": irreducible_loss_N, "logits_N_C": logits_N_C}


def outcomes(rng: np.random.Generator, points: int, draws: int, classes: int) -> Arrays:
    draws = max(2, draws)  # one draw has no variance, and is refused
    shared_N_K = rng.normal(size=(points, draws)) * rng.uniform(0.2, 2.0, size=(points, 1))
    own_2_N_K = rng.normal(size=(2, points, draws))
    return {
        "mean0_N_K": 3.0 + shared_N_K + own_2_N_K[0],
        "mean1_N_K": 2.0 + shared_N_K + own_2_N_K[1],
        "treatment_N": rng.integers(0, 2, size=points).astype(float),
        "propensity_N": rng.uniform(0.05, 0.95, size=points),
        "variance0_N_K": rng.uniform(0.2, 1.5, size=(points, draws)),
        "variance1_N_K": rng.uniform(0.2, 1.5, size=(points, draws)),
    }


def outcomes_labels(rng: np.random.Generator, arrays: Arrays) -> np.ndarray:
    treated_N = arrays["treatment_N"] == 1
    return np.where(treated_N, arrays["mean1_N_K"][:, 0], arrays["mean0_N_K"][:, 0]) + rng.normal(size=len(treated_N))


def outcomes_certain(arrays: Arrays) -> Arrays:
    """A point whose outcomes are known, and for which the other treatment is never given."""
    found = {name: array.copy() for name, array in arrays.items()}
    found["mean0_N_K"][0], found["mean1_N_K"][0] = 0.0, 100.0
    found["treatment_N"][0], found["propensity_N"][0] = 0, 0.0
    found["variance0_N_K"][0] = found["variance1_N_K"][0] = NEGLIGIBLE**2
    return found


def yes_or_no(rng: np.random.Generator, points: int, draws: int, classes: int) -> Arrays:
    drawn = outcomes(rng, points, draws, classes)
    names = ("mean0_N_K", "mean1_N_K")
    probs = {name: 1 / (1 + np.exp(2.5 - drawn[name])) for name in names}
    return probs | {name: drawn[name] for name in ("treatment_N", "propensity_N")}


def yes_or_no_labels(rng: np.random.Generator, arrays: Arrays) -> np.ndarray:
    return rng.integers(0, 2, size=len(arrays["treatment_N"]))


def yes_or_no_certain(arrays: Arrays) -> Arrays:
    found = {name: array.copy() for name, array in arrays.items()}
    found["mean0_N_K"][0], found["mean1_N_K"][0] = 0.0, 1.0
    found["treatment_N"][0], found["propensity_N"][0] = 0, 0.0
    return found


def outcome_features(rng: np.random.Generator, points: int, draws: int, classes: int) -> Arrays:
    drawn = outcomes(rng, points, draws, classes)
    return {
        "features0_N_D": drawn["mean0_N_K"] - 3.0,
        "features1_N_D": drawn["mean1_N_K"] - 2.0,
        "treatment_N": drawn["treatment_N"],
        "propensity_N": drawn["propensity_N"],
        "noise0": drawn["variance0_N_K"][:, 0],
        "noise1": drawn["variance1_N_K"][:, 0],
        "mean0": rng.normal(size=points),
        "mean1": rng.normal(size=points),
    }


def outcome_features_labels(rng: np.random.Generator, arrays: Arrays) -> np.ndarray:
    return rng.normal(size=len(arrays["noise0"]))


def outcome_features_certain(arrays: Arrays) -> Arrays:
    found = {name: array.copy() for name, array in arrays.items()}
    found["features0_N_D"][0] = found["features1_N_D"][0] = 0.0
    found["mean0"][0], found["mean1"][0] = 0.0, 100.0
    found["treatment_N"][0], found["propensity_N"][0] = 0, 0.0
    found["noise0"][0] = found["noise1"][0] = NEGLIGIBLE**2
    return found


def gaussian(rng: np.random.Generator, points: int, draws: int, classes: int) -> Arrays:
    return {
        "mean_N_K": 3.0 + rng.normal(size=(points, draws)) * rng.uniform(0.2, 2.0, size=(points, 1)),
        "variance_N_K": rng.uniform(0.2, 1.5, size=(points, draws)),
    }


def gaussian_labels(rng: np.random.Generator, arrays: Arrays) -> np.ndarray:
    return arrays["mean_N_K"][:, 0] + rng.normal(size=len(arrays["mean_N_K"]))


def gaussian_certain(arrays: Arrays) -> Arrays:
    mean_N_K, variance_N_K = arrays["mean_N_K"].copy(), arrays["variance_N_K"].copy()
    mean_N_K[0], variance_N_K[0] = mean_N_K[0, 0], NEGLIGIBLE**2
    return {**arrays, "mean_N_K": mean_N_K, "variance_N_K": variance_N_K}


def features(rng: np.random.Generator, points: int, draws: int, classes: int) -> Arrays:
    return {
        "features_N_D": rng.normal(size=(points, draws)) * rng.uniform(0.2, 2.0, size=(points, 1)),
        "noise": rng.uniform(0.2, 1.5, size=points),
    }


def features_labels(rng: np.random.Generator, arrays: Arrays) -> np.ndarray:
    return rng.normal(size=len(arrays["noise"]))


def features_certain(arrays: Arrays) -> Arrays:
    features_N_D, noise_N = arrays["features_N_D"].copy(), arrays["noise"].copy()
    features_N_D[0], noise_N[0] = 0.0, NEGLIGIBLE**2
    return {**arrays, "features_N_D": features_N_D, "noise": noise_N}


def geometry(rng: np.random.Generator, points: int, draws: int, classes: int) -> Arrays:
    return {"places_N_D": rng.normal(size=(points, draws)), "unsure_N": rng.uniform(0.1, 1.0, size=points)}


def geometry_certain(arrays: Arrays) -> Arrays:
    return {name: np.concatenate([np.zeros_like(array[:1]), array[1:]]) for name, array in arrays.items()}


def taught(rng: np.random.Generator, points: int, draws: int, classes: int) -> Arrays:
    logits_N_S_L_C = 1.5 * rng.normal(size=(points, 2, 1, classes)) + 0.5 * rng.normal(size=(points, 2, 4, classes))
    return categorical(rng, points, draws, classes) | {"students_N_S_L_C": log_softmax(logits_N_S_L_C)}


def taught_certain(arrays: Arrays) -> Arrays:
    students_N_S_L_C = arrays["students_N_S_L_C"].copy()
    students_N_S_L_C[:] = students_N_S_L_C[:, :, :1]  # they agree everywhere: no score below that of a certain point
    return categorical_certain(arrays) | {"students_N_S_L_C": students_N_S_L_C}


MAKERS |= {
    TwoModels: Maker(taught, categorical_labels, taught_certain),
    CategoricalSamples: Maker(categorical, categorical_labels, categorical_certain),
    ClassProbabilities: Maker(probabilities, probabilities_labels, probabilities_certain),
    IndependentSamples: Maker(categorical, categorical_labels, categorical_certain),
    DirichletMembers: Maker(dirichlets, dirichlets_labels, dirichlets_certain),
    FeatureDensity: Maker(densities, densities_labels, densities_certain),
    ExampleLosses: Maker(example_losses, densities_labels, example_losses_certain),
    PotentialOutcomes: Maker(outcomes, outcomes_labels, outcomes_certain),
    YesOrNoOutcomes: Maker(yes_or_no, yes_or_no_labels, yes_or_no_certain),
    GaussianPotentialOutcomes: Maker(outcome_features, outcome_features_labels, outcome_features_certain),
    GaussianSamples: Maker(gaussian, gaussian_labels, gaussian_certain),
    GaussianFeatures: Maker(features, features_labels, features_certain),
    Geometry: Maker(geometry, lambda rng, arrays: rng.normal(size=len(arrays["unsure_N"])), geometry_certain),
    FisherFactors: Maker(makers_weights.factors, makers_weights.factors_labels, makers_weights.factors_certain),
    FisherRows: Maker(makers_weights.rows, makers_weights.rows_labels, makers_weights.rows_certain),
}


def maker(kind: type[Belief]) -> Maker:
    if kind not in MAKERS:
        pytest.fail(f"no small pool of {kind.__name__}: add a Maker for it to natsel.conformance.MAKERS")
    return MAKERS[kind]


# Pools: the arrays of a belief, before any of natsel has touched them.


@dataclass(frozen=True)
class Pool:
    """Arrays and labels of a belief, which can be permuted, repeated and cast before natsel sees them.

    `about` are targets that the same draws (or features) speak of, with their labels: whatever is done to the points,
    they stay as they are.
    """

    kind: type[Belief]
    arrays: Arrays
    labels_N: np.ndarray
    about: "Pool | None" = None

    def __len__(self) -> int:
        return len(self.labels_N)

    def axes(self, name: str) -> tuple[str, ...]:
        """The axes of an array, read off its name: log_probs_N_K_C has N, K and C."""
        letters = tuple(part for part in name.split("_") if len(part) == 1 and part.isupper())
        return letters or (("N",) if name in self.kind.points else ())

    @property
    def all_axes(self) -> set[str]:
        return {axis for name in self.arrays for axis in self.axes(name)}

    @property
    def weights_K(self) -> np.ndarray:
        if "log_weights_K" in self.arrays:
            return np.exp(self.arrays["log_weights_K"])
        return np.full(self.length("K"), 1 / self.length("K"))

    def length(self, axis: str) -> int:
        return next(v.shape[self.axes(name).index(axis)] for name, v in self.arrays.items() if axis in self.axes(name))

    def take(self, order: Any, axis: str = "N") -> "Pool":
        """The pool with some of its points (or draws, classes, features) in this order, labels moved along."""
        order = np.asarray(order)
        arrays = {
            name: values.take(order, self.axes(name).index(axis)) if axis in self.axes(name) else values
            for name, values in self.arrays.items()
        }
        labels_N = self.labels_N[order] if axis == "N" else self.labels_N
        if axis == "C":
            labels_N = np.argsort(order)[labels_N]
        about = self.about if axis == "N" or self.about is None else self.about.take(order, axis)
        return Pool(self.kind, arrays, labels_N, about)

    def certain(self) -> "Pool":
        """The pool with point 0 made certain, and zero probabilities in others."""
        arrays = maker(self.kind).certain(self.arrays)
        return Pool(self.kind, arrays, maker(self.kind).labels(np.random.default_rng(0), arrays), self.about)

    @property
    def aims(self) -> "Pool":
        """The targets as a pool, under the weights that the draws have now."""
        assert self.about is not None, "this pool was made without targets"
        weights = {name: values for name, values in self.arrays.items() if name in self.kind.draws}
        return Pool(self.kind, self.about.arrays | weights, self.about.labels_N)

    def targets(self, device: str = "cpu", dtype: torch.dtype = torch.float64) -> Targets:
        """The belief about the targets, with their labels."""
        aims = self.aims
        return Targets(aims.belief(device, dtype), labels=torch.from_numpy(aims.labels_N.copy()))

    def held(self, device: str = "cpu", dtype: torch.dtype = torch.float64) -> Belief:
        """Points already held: the first of the targets."""
        return self.targets(device, dtype).belief[:1]

    def one_gradient(self) -> "Pool":
        """The pool with the first row of every point alone, where its points have several."""
        return self.take([0], "R") if "R" in self.all_axes else self

    def tensors(self, device: str = "cpu", dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
        """The arrays as tensors; weights of draws stay in float64."""
        return {
            name: torch.tensor(values, device=device, dtype=dtype if name in self.kind.points else torch.float64)
            for name, values in self.arrays.items()
        }

    def belief(self, device: str = "cpu", dtype: torch.dtype = torch.float64, ids: Any = None) -> Belief:
        return self.kind(**self.tensors(device, dtype), ids=ids)  # type: ignore[call-arg]


def pool(
    kind: type[Belief], seed: int = 0, points: int = 24, draws: int = 6, classes: int = 3, weighted: bool = False
) -> Pool:
    """A random pool; `weighted` gives the draws uneven weights where the kind has any."""
    rng = np.random.default_rng(seed)
    arrays = maker(kind).arrays(rng, points, draws, classes)
    if weighted and "log_weights_K" in kind.draws:
        arrays["log_weights_K"] = np.log(rng.dirichlet(np.full(draws, 2.0)))
    about = maker(kind).arrays(np.random.default_rng(seed + 1000), TARGETS, draws, classes)
    targets = Pool(kind, about, maker(kind).labels(np.random.default_rng(seed), about))
    return Pool(kind, arrays, maker(kind).labels(rng, arrays), targets)


def crowd(pool: Pool, best: int) -> Pool:
    """The pool behind 300 copies of its best point: more than a lazy search looks at in one go, all but one useless."""
    return pool.take([best] * 300 + list(range(len(pool))))


# Cases: every point of the grid.


@dataclass(frozen=True)
class Case:
    """A method on a kind of belief, with the size of pool that its search can afford."""

    method: Method
    kind: type[Belief]

    @property
    def route(self) -> Route | None:
        """The nearest way to read the objective that offers what the search needs, else the nearest."""
        needs, found = self.method.search.needs, list(routes(type(self.method.objective), self.kind))
        return next((one for one in found if not needs & ~one.reading.offers), found[0] if found else None)

    @property
    def facts(self) -> PairFacts:
        return PairFacts() if self.route is None else self.route.reading.facts

    @property
    def points(self) -> int:
        return 7 if Capability.VALUE in self.method.search.needs else 24

    @property
    def k(self) -> int:
        return 2 if Capability.VALUE in self.method.search.needs else 4

    @property
    def in_order(self) -> bool:
        """Whether the order of the picks means anything; sets found as a whole come in the order of positions."""
        return self.method.search.needs != Capability.VALUE

    def pool(self, seed: int = 0, **shape: Any) -> Pool:
        made = pool(self.kind, seed, **{"points": self.points, **shape})
        return made.one_gradient() if self.facts.one_gradient else made

    def known(self, pool: Pool, belief: Belief) -> dict[str, Any]:
        """Labels, targets and points held, where the objective needs them."""
        needs = self.facts.needs
        known: dict[str, Any] = {"labels": torch.from_numpy(pool.labels_N.copy())} if Argument.LABELS in needs else {}
        dtype = next(values.dtype for name in self.kind.points if (values := getattr(belief, name)).is_floating_point())
        if Argument.TARGETS in needs:
            known["targets"] = pool.targets(belief.device.type, dtype)
        if Argument.GIVEN in needs:
            known["given"] = pool.held(belief.device.type, dtype)
        return known

    def select(self, pool: Pool, k: int | None = None, belief: Belief | None = None, **options: Any) -> Any:
        belief = pool.belief() if belief is None else belief
        known = self.known(pool, belief)
        return natsel.select(self.method, belief, self.k if k is None else k, **(known | options))

    def score(self, pool: Pool, belief: Belief | None = None, **options: Any) -> Tensor:
        belief = pool.belief() if belief is None else belief
        return natsel.score(self.method, belief, **(self.known(pool, belief) | options))

    @property
    def distinct(self) -> bool:
        """Whether a point is picked once at most."""
        return not draws_again(self.method.search)

    @cached_property
    def noisy(self) -> bool:
        """Whether the scores themselves are noise that belongs to the position."""
        pool = self.pool()
        return not torch.equal(self.score(pool, seed=0), self.score(pool, seed=1))

    @cached_property
    def stochastic(self) -> bool:
        """Whether batches are drawn: such searches say how probable a batch was."""
        return self.noisy or self.select(self.pool()).log_prob is not None


def default(make: Callable[[], Any]) -> Any:
    """An objective or a search with its default settings."""
    try:
        return make()
    except TypeError as reason:
        raise AssertionError(f"{make} cannot be made without arguments ({reason}); give its fields defaults") from None


def direct(objective: type[Objective], kind: type[Belief]) -> Reading | None:
    """The reading of an objective on a belief as it is, without a view."""
    found = route(objective, kind)
    return None if found is None or found.views else found.reading


OBJECTIVES = list(READINGS)
READ = {(o, kind): reading for o in OBJECTIVES for kind in kinds() if (reading := direct(o, kind)) is not None}
"""All pairs that are read as they are."""
VIEWED = {
    (o, kind): found for o in OBJECTIVES for kind in kinds() if (found := route(o, kind)) is not None and found.views
}
"""All pairs that are read along a view."""


def grid() -> Iterator[Case]:
    """All registered methods on all beliefs they are read from as they are, then other legal triples with default
    settings.

    Searches that read nothing but scores cannot tell objectives apart: of those, every pair is given one in turn. Of
    pairs that share a state, one stands for all with each of the other searches.
    """
    every = [Case(method, kind) for method in METHODS.values() for kind in method.beliefs]
    named = [case for case in every if not case.route.views]
    yield from named
    covered = {(type(case.method.objective), case.kind) for case in named}
    tried = {(case.route.reading.state, type(case.method.search)) for case in named}
    alone = [search for search in SEARCHES if search.needs == Capability.SCORES]
    for turn, ((objective, kind), reading) in enumerate(READ.items()):
        others = [search for search in SEARCHES if search not in alone]
        for search in (alone[turn % len(alone)], *others):
            method = Method(default(objective), default(search))
            if ((objective, kind) in covered and (reading.state, search) in tried) or search.needs & ~reading.offers:
                continue
            covered.add((objective, kind))
            tried.add((reading.state, search))
            yield Case(replace(method, name=f"{objective.__name__}.{search.__name__}"), kind)


def covering(cases: list[Case]) -> list[Case]:
    """Few cases that still hold every state, every search, and every need of a search on every kind of belief: what can
    fail by itself. What else there is repeats a state under another search, or a search on another state.
    """
    seen: set[object] = set()
    chosen = []
    for case in cases:
        search = case.method.search
        parts: set[object] = {case.route.reading.state, type(search), (search.needs, case.kind)}
        if parts - seen:
            chosen.append(case)
            seen |= parts
    return chosen


CASES = list(grid())
COVERING = set(map(id, covering(CASES)))


def marks(case: Case) -> tuple[Any, ...]:
    """Slow, unless the case is one of those that can fail by themselves."""
    return () if id(case) in COVERING else (pytest.mark.slow,)


def named(case: Case) -> Any:
    """A case by its name."""
    return pytest.param(case, id=f"{case.method.name}-{case.kind.__name__}", marks=marks(case))


def cases_where(holds: Callable[[Case], bool]) -> pytest.MarkDecorator:
    """A test that is about these cases alone."""
    return pytest.mark.parametrize("case", [named(case) for case in CASES if holds(case)])


every_case = cases_where(lambda case: True)


@dataclass(frozen=True)
class Pair:
    """An objective on a kind of belief: what a state is made of."""

    objective: Objective
    kind: type[Belief]

    @property
    def reading(self) -> Reading:
        return READ[type(self.objective), self.kind]

    @property
    def facts(self) -> PairFacts:
        return self.reading.facts

    @property
    def offers(self) -> Capability:
        return self.reading.offers

    def state(self, pool: Pool, device: str = "cpu", seed: int = 0, labels: bool | None = None) -> Any:
        """With labels where the pair needs them, or as `labels` says."""
        needs = self.facts.needs | self.objective.needs
        labels = Argument.LABELS in needs if labels is None else labels
        pool = pool.one_gradient() if self.facts.one_gradient else pool
        belief = pool.belief(device)
        labels_N = torch.from_numpy(pool.labels_N.copy()).to(device) if labels else None
        targets = pool.targets(device) if Argument.TARGETS in needs else None
        held = Targets(pool.held(device)) if Argument.GIVEN in needs else None
        return read(self.objective, belief, Context(targets, labels_N, torch.Generator().manual_seed(seed), held))

    def searches(self, needs: Capability | None = None) -> list[Any]:
        """All searches on this pair, or those that need exactly this."""
        return [s() for s in SEARCHES if needs in (None, s.needs) and not s.needs & ~self.offers]


PAIRS = [Pair(default(objective), kind) for objective, kind in READ]


def covering_pairs(found: list[Pair]) -> list[Pair]:
    """Few pairs that still hold every objective, and every state on every kind of belief. What else there is gives a
    state that several objectives share numbers of another kind of belief.
    """
    seen: set[object] = set()
    chosen = []
    for pair in found:
        parts: set[object] = {type(pair.objective), (pair.reading.state, pair.kind)}
        if parts - seen:
            chosen.append(pair)
            seen |= parts
    return chosen


def pairs(
    offering: Capability = NOTHING, where: Callable[[Pair], bool] = lambda pair: True, states: bool = False
) -> Any:
    """Parametrises `pair` over all objectives and beliefs that offer this and of which this is true.

    With `states`, for what is asked of the code of a state and not of what a pair declares, pairs that repeat a state
    are marked slow.
    """
    found = [pair for pair in PAIRS if offering in pair.offers and where(pair)]
    quick = covering_pairs(found) if states else found
    return pytest.mark.parametrize(
        "pair",
        [
            pytest.param(
                pair,
                id=f"{type(pair.objective).__name__}-{pair.kind.__name__}",
                marks=() if pair in quick else pytest.mark.slow,
            )
            for pair in found
        ],
    )


def at(positions: Any, device: str = "cpu") -> Tensor:
    return torch.tensor(list(positions), dtype=torch.int64, device=device)
