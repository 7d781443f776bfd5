"""Similarity objectives and gradient norms, worked out a second time in NumPy from gradients that are written out."""

from collections.abc import Callable

import numpy as np

from conformance.references import REFERENCES, SET_REFERENCES, about, mean, probs, reference
from natsel.beliefs import (
    CategoricalSamples,
    ExampleLosses,
    FisherFactors,
    FisherRows,
    GaussianFeatures,
    GaussianSamples,
    Geometry,
)
from natsel.conformance.grid import Pool

KINDS = (FisherFactors, FisherRows, GaussianFeatures, CategoricalSamples)


def rows(pool: Pool) -> np.ndarray:
    """One gradient a point, [N, P]."""
    if pool.kind is GaussianFeatures:
        return pool.arrays["features_N_D"] / np.sqrt(pool.arrays["noise"])[:, None]
    if pool.kind is GaussianSamples:
        mean_N_K, noise_N = pool.arrays["mean_N_K"], pool.arrays["variance_N_K"] @ pool.weights_K
        return np.sqrt(pool.weights_K) * (mean_N_K - (mean_N_K @ pool.weights_K)[:, None]) / np.sqrt(noise_N)[:, None]
    if pool.kind is FisherRows:
        return pool.arrays["rows_N_R_P"][:, 0]
    if pool.kind is CategoricalSamples:
        place = np.arange(len(pool)), mean(pool).argmax(1)
        likely_N_K = probs(pool)[place[0], :, place[1]]
        return np.sqrt(pool.weights_K) * (likely_N_K / mean(pool)[place][:, None] - 1)
    outputs_N_C = pool.arrays["outputs_N_C"]
    residuals_N_C = outputs_N_C - np.eye(outputs_N_C.shape[1])[outputs_N_C.argmax(1)]
    return np.einsum("nc,nd->ncd", residuals_N_C, pool.arrays["features_N_D"]).reshape(len(pool), -1)


def unit(rows_N_P: np.ndarray) -> np.ndarray:
    lengths_N_1 = np.linalg.norm(rows_N_P, axis=1, keepdims=True)
    return rows_N_P / np.where(lengths_N_1 > 1e-12, lengths_N_1, np.inf)  # less is rounding of nothing


def logdet(*parts: np.ndarray) -> float:
    rows_B_P = np.concatenate(parts)
    return float(np.linalg.slogdet(np.eye(len(rows_B_P)) + rows_B_P @ rows_B_P.T)[1])


def mutual(pool: Pool) -> float:
    mine, aims = rows(pool), rows(pool.aims)
    return logdet(mine) + logdet(aims) - logdet(mine, aims)


def beyond(pool: Pool) -> float:
    """Mutual information given the first target, which stands for points held."""
    mine, aims = rows(pool), rows(pool.aims)
    held = aims[:1]
    return logdet(mine, held) + logdet(aims, held) - logdet(mine, aims, held) - logdet(held)


def queries(pool: Pool) -> float:
    similar_M_A = np.maximum(rows(pool.aims) @ rows(pool).T, 0)
    return float(similar_M_A.max(1).sum() + similar_M_A.max(0).sum())


def likeness(pool: Pool) -> float:
    return float(0.8 * (rows(pool.aims) @ rows(pool).T).sum())


for kind in KINDS:
    about("ln det(I + S)", kind)(lambda pool: logdet(rows(pool)))
    about("ln det(I + S) + ln det(I + S*) − ln det(I + S∪S*)", kind)(mutual)
    about("LogDetMI given points held", kind)(beyond)
    about("Σ* max s + Σ max s*", kind)(queries)
    about("2λ Σ s*", kind)(likeness)


for kind in (*KINDS, GaussianSamples):

    @reference("min ‖g − g_A‖²", kind)
    def _(pool: Pool) -> np.ndarray:
        return np.square(rows(pool)).sum(1)

    @reference("g/‖g‖ · Σ g", kind)
    def _(pool: Pool) -> np.ndarray:
        return unit(rows(pool)) @ rows(pool).sum(0)


# What a set does for the whole pool: references that take the pool and the set.


def for_pool(quantity: str) -> Callable:
    def enter(work: Callable[[Pool, list[int]], float]) -> Callable:
        for kind in KINDS:
            SET_REFERENCES[quantity, kind] = (work, True)
            REFERENCES[quantity, kind] = (lambda pool: np.array([work(pool, [n]) for n in range(len(pool))]), True)
        return work

    return enter


def covers(pool: Pool, other: Pool) -> np.ndarray:
    return unit(rows(pool)) @ unit(rows(other)).T >= 0.5


@for_pool("Σ max s")
def _(pool: Pool, batch: list[int]) -> float:
    return float(np.maximum(rows(pool) @ rows(pool)[batch].T, 0).max(1).sum())


@for_pool("Σ min(max s, max s*)")
def _(pool: Pool, batch: list[int]) -> float:
    mine, aims = (np.maximum(rows(pool) @ part.T, 0).max(1) for part in (rows(pool)[batch], rows(pool.aims)))
    return float(np.minimum(mine, aims).sum())


@for_pool("# covered")
def _(pool: Pool, batch: list[int]) -> float:
    return float(covers(pool, pool)[:, batch].any(1).sum())


@for_pool("# covered twice")
def _(pool: Pool, batch: list[int]) -> float:
    return float((covers(pool, pool)[:, batch].any(1) & covers(pool, pool.aims).any(1)).sum())


@for_pool("Σ s − λ Σ s")
def _(pool: Pool, batch: list[int]) -> float:
    similar = rows(pool) @ rows(pool).T
    return float(similar[:, batch].sum() - 0.4 * similar[np.ix_(batch, batch)].sum())


# What labels reach in the geometry of a model.


def geometry(quantity: str) -> Callable:
    def enter(work: Callable[[np.ndarray, np.ndarray, list[int]], float]) -> Callable:
        def whole(pool: Pool, chosen: list[int]) -> float:
            places_N_D = unit(pool.arrays["places_N_D"])
            return work(places_N_D @ places_N_D.T, pool.arrays["unsure_N"], chosen)

        SET_REFERENCES[quantity, Geometry] = (whole, True)
        alone = lambda pool: np.array([whole(pool, [n]) for n in range(len(pool))])  # noqa: E731
        REFERENCES[quantity, Geometry] = (alone, True)
        return work

    return enter


@geometry("Σ u (Var f − Var f|y)")
def _(kernel_N_N: np.ndarray, unsure_N: np.ndarray, chosen: list[int]) -> float:
    with_N_A, own_A_A = kernel_N_N[:, chosen], kernel_N_N[np.ix_(chosen, chosen)] + 0.1 * np.eye(len(chosen))
    return float(unsure_N @ np.einsum("na,ab,nb->n", with_N_A, np.linalg.inv(own_A_A), with_N_A))


@geometry("Σ u max k")
def _(kernel_N_N: np.ndarray, unsure_N: np.ndarray, chosen: list[int]) -> float:
    return float(unsure_N @ np.maximum(kernel_N_N[:, chosen].max(1), 0))


# How wrong predictions are.


@reference("E |p(y|x,W) − e_y|", CategoricalSamples)
def _(pool: Pool) -> np.ndarray:
    probs_N_K_C = probs(pool)
    gaps_N_K_C = probs_N_K_C - np.eye(probs_N_K_C.shape[2])[pool.labels_N][:, None]
    return np.linalg.norm(gaps_N_K_C, axis=2) @ pool.weights_K


@reference("E |p(y|x,W) − e_y|", ExampleLosses)
def _(pool: Pool) -> np.ndarray:
    probs_N_C = mean(pool)
    return np.linalg.norm(probs_N_C - np.eye(probs_N_C.shape[1])[pool.labels_N], axis=1)


@reference("E |p(y|x,W) − e_y|", FisherFactors)
def _(pool: Pool) -> np.ndarray:
    outputs_N_C = pool.arrays["outputs_N_C"]
    return np.linalg.norm(outputs_N_C - np.eye(outputs_N_C.shape[1])[pool.labels_N], axis=1)
