"""The quantities that objectives declare, worked out a second time in NumPy: by enumeration, quadrature or closed form.

An objective is checked against the reference of its `quantity` on each belief it is read from; where there is none the
check fails, and the reference belongs here.
"""

from collections.abc import Callable
from itertools import product

import numpy as np

from conformance.grid import Pool
from natsel.beliefs import CategoricalSamples, GaussianFeatures, GaussianSamples

Reference = Callable[[Pool], np.ndarray]
REFERENCES: dict[tuple[str, type], tuple[Reference, bool]] = {}
SET_REFERENCES: dict[tuple[str, type], tuple[Callable[[Pool], float], bool]] = {}


def reference(quantity: str, kind: type, exact: bool = True, table: dict = REFERENCES) -> Callable:
    """Enter a reference; `exact` says whether scores must equal it, or may lie to the side that `bound` declares."""

    def enter(work: Callable) -> Callable:
        table[quantity, kind] = (work, exact)
        return work

    return enter


def entropy(p: np.ndarray) -> np.ndarray:
    return -(p * np.log(np.where(p > 0, p, 1.0))).sum(-1)


def normal(variance: np.ndarray) -> np.ndarray:
    return 0.5 * np.log(2 * np.pi * np.e * variance)


def probs(pool: Pool) -> np.ndarray:
    return np.exp(pool.arrays["log_probs_N_K_C"])


def mean(pool: Pool) -> np.ndarray:
    return np.einsum("k,nkc->nc", pool.weights_K, probs(pool))


def spread(pool: Pool) -> np.ndarray:
    return np.einsum("k,nkc->nc", pool.weights_K, (probs(pool) - mean(pool)[:, None]) ** 2)


def posterior(pool: Pool) -> np.ndarray:
    joint_N_K = probs(pool)[np.arange(len(pool)), :, pool.labels_N] * pool.weights_K
    return joint_N_K / joint_N_K.sum(1, keepdims=True)


def variance(pool: Pool) -> np.ndarray:
    return (pool.arrays["features_N_D"] ** 2).sum(1)


@reference("H[Y|x]", CategoricalSamples)
def _(pool: Pool) -> np.ndarray:
    return entropy(mean(pool))


@reference("H[Y|x,W]", CategoricalSamples)
def _(pool: Pool) -> np.ndarray:
    return entropy(probs(pool)) @ pool.weights_K


@reference("I[Y;W|x]", CategoricalSamples)
def _(pool: Pool) -> np.ndarray:
    return entropy(mean(pool)) - entropy(probs(pool)) @ pool.weights_K


@reference("1 - max p(y|x)", CategoricalSamples)
def _(pool: Pool) -> np.ndarray:
    return 1 - mean(pool).max(1)


@reference("1 - (p1 - p2)", CategoricalSamples)
def _(pool: Pool) -> np.ndarray:
    ranked_N_C = np.sort(mean(pool), axis=1)
    return 1 - (ranked_N_C[:, -1] - ranked_N_C[:, -2])


@reference("sum_y sd p(y|x,W)", CategoricalSamples)
def _(pool: Pool) -> np.ndarray:
    return np.sqrt(spread(pool)).sum(1)


@reference("mean_y sd p(y|x,W)", CategoricalSamples)
def _(pool: Pool) -> np.ndarray:
    return np.sqrt(spread(pool)).mean(1)


@reference("Var E[Y|x,W]", CategoricalSamples)
def _(pool: Pool) -> np.ndarray:
    return spread(pool).sum(1)


@reference("I[W;y|x]", CategoricalSamples)
def _(pool: Pool) -> np.ndarray:
    return entropy(pool.weights_K) - entropy(posterior(pool))


@reference("I[y;W|x]", CategoricalSamples)
def _(pool: Pool) -> np.ndarray:
    after_N_K = posterior(pool)
    ratio_N_K = np.where(after_N_K > 0, after_N_K / pool.weights_K, 1.0)
    return (after_N_K * np.log(ratio_N_K)).sum(1)


def mixture_entropy(pool: Pool, points: tuple[int, ...], cells: int) -> float:
    """H[Y_points] of draws of independent normals, by quadrature on a grid of `cells` a point."""
    log_joint_K = np.log(pool.weights_K)
    log_density, volume = 0.0, 1.0
    for place, point in enumerate(points):
        mean_K, sd_K = pool.arrays["mean_N_K"][point], np.sqrt(pool.arrays["variance_N_K"][point])
        grid, step = np.linspace((mean_K - 9 * sd_K).min(), (mean_K + 9 * sd_K).max(), cells, retstep=True)
        log_normal = -0.5 * ((grid[:, None] - mean_K) / sd_K) ** 2 - np.log(sd_K * np.sqrt(2 * np.pi))
        shape = [1] * len(points) + [len(mean_K)]
        shape[place] = cells
        log_density = log_density + log_normal.reshape(shape)
        volume *= step
    top = (log_density + log_joint_K).max(-1, keepdims=True)
    log_density = np.log(np.exp(log_density + log_joint_K - top).sum(-1)) + top[..., 0]
    return float(-(np.exp(log_density) * log_density).sum() * volume)


@reference("H[Y|x]", GaussianSamples, exact=False)
def mixture_entropies(pool: Pool) -> np.ndarray:
    return np.array([mixture_entropy(pool, (point,), 20_000) for point in range(len(pool))])


@reference("H[Y|x,W]", GaussianSamples)
def mixture_noise(pool: Pool) -> np.ndarray:
    return normal(pool.arrays["variance_N_K"]) @ pool.weights_K


@reference("I[Y;W|x]", GaussianSamples, exact=False)
def _(pool: Pool) -> np.ndarray:
    return mixture_entropies(pool) - mixture_noise(pool)


@reference("Var E[Y|x,W]", GaussianSamples)
def _(pool: Pool) -> np.ndarray:
    mean_N_K = pool.arrays["mean_N_K"]
    return (mean_N_K - (mean_N_K @ pool.weights_K)[:, None]) ** 2 @ pool.weights_K


@reference("H[Y|x]", GaussianFeatures)
def _(pool: Pool) -> np.ndarray:
    return normal(variance(pool) + pool.arrays["noise"])


@reference("H[Y|x,W]", GaussianFeatures)
def _(pool: Pool) -> np.ndarray:
    return normal(pool.arrays["noise"])


@reference("I[Y;W|x]", GaussianFeatures)
def _(pool: Pool) -> np.ndarray:
    return 0.5 * np.log1p(variance(pool) / pool.arrays["noise"])


@reference("Var E[Y|x,W]", GaussianFeatures)
def _(pool: Pool) -> np.ndarray:
    return variance(pool)


@reference("I[Y;W|x]", CategoricalSamples, table=SET_REFERENCES)
def _(pool: Pool) -> float:
    """By enumeration of every label configuration of all points of the pool."""
    probs_N_K_C = probs(pool)
    chances = [
        pool.weights_K @ probs_N_K_C[np.arange(len(pool)), :, labels].prod(0)
        for labels in product(range(probs_N_K_C.shape[2]), repeat=len(pool))
    ]
    return float(entropy(np.array(chances)) - (entropy(probs_N_K_C) @ pool.weights_K).sum())


@reference("I[Y;W|x]", GaussianFeatures, table=SET_REFERENCES)
def _(pool: Pool) -> float:
    scaled_N_D = pool.arrays["features_N_D"] / np.sqrt(pool.arrays["noise"])[:, None]
    return 0.5 * float(np.linalg.slogdet(np.eye(len(pool)) + scaled_N_D @ scaled_N_D.T)[1])


@reference("I[Y;W|x]", GaussianSamples, exact=False, table=SET_REFERENCES)
def _(pool: Pool) -> float:
    return mixture_entropy(pool, tuple(range(len(pool))), 20_000 if len(pool) < 2 else 400) - mixture_noise(pool).sum()
