"""Quantities in weight space, worked out a second time in NumPy from P × P matrices that are written out."""

import numpy as np

from conformance.references import about
from natsel.beliefs import FisherFactors, FisherRows, GaussianFeatures
from natsel.conformance.grid import Pool

KINDS = (FisherFactors, FisherRows, GaussianFeatures)


def fishers(pool: Pool) -> np.ndarray:
    """F of every point, [N, P, P]."""
    if pool.kind is FisherRows:
        return np.einsum("nrp,nrq->npq", pool.arrays["rows_N_R_P"], pool.arrays["rows_N_R_P"])
    features_N_D = pool.arrays["features_N_D"]
    outer_N_D_D = np.einsum("nd,ne->nde", features_N_D, features_N_D)
    if pool.kind is GaussianFeatures:
        return outer_N_D_D / pool.arrays["noise"][:, None, None]
    probs_N_C = pool.arrays["outputs_N_C"]
    curvatures = [np.diag(probs_C) - np.outer(probs_C, probs_C) for probs_C in probs_N_C]
    return np.array([np.kron(curvature, outer) for curvature, outer in zip(curvatures, outer_N_D_D, strict=True)])


def precision(pool: Pool) -> np.ndarray:
    if pool.kind is GaussianFeatures:
        return np.eye(pool.arrays["features_N_D"].shape[1])
    return pool.arrays["precision"]


def logdet(matrix: np.ndarray) -> float:
    return float(np.linalg.slogdet(matrix)[1])


def gain(pool: Pool) -> float:
    held = precision(pool)
    return 0.5 * (logdet(held + fishers(pool).sum(0)) - logdet(held))


def told(pool: Pool, target: np.ndarray) -> float:
    """What the labels of the pool tell about labels with so much information."""
    held, gained = precision(pool), fishers(pool).sum(0)
    gaps = logdet(held + gained) - logdet(held) - logdet(held + gained + target) + logdet(held + target)
    return 0.5 * gaps


def spared(pool: Pool, target: np.ndarray) -> float:
    held = precision(pool)
    return 0.5 * float(np.trace(target @ (np.linalg.inv(held) - np.linalg.inv(held + fishers(pool).sum(0)))))


for kind in KINDS:
    about("tr(F H⁻¹)/2", kind)(
        lambda pool: 0.5 * float(np.trace(fishers(pool).sum(0) @ np.linalg.inv(precision(pool))))
    )
    about("I[Y;Y*…|x,x*…] of targets seen through M times their noise", kind)(
        lambda pool: told(pool, fishers(pool.about).mean(0))
    )
    about("mean tr(F* (H⁻¹ − (H + F)⁻¹))/2", kind)(lambda pool: spared(pool, fishers(pool.about).mean(0)))
    about("sum tr(F* (H⁻¹ − (H + F)⁻¹))/2", kind)(lambda pool: spared(pool, fishers(pool.about).sum(0)))

for kind in (FisherFactors, FisherRows):
    about("I[Y;W|x]", kind)(gain)
    about("I[Y;Y*|x,x*]", kind)(lambda pool: float(np.mean([told(pool, each) for each in fishers(pool.about)])))
    about("I[Y;Y*…|x,x*…]", kind)(lambda pool: told(pool, fishers(pool.about).sum(0)))
    # Known labels tell what unknown ones would.
    about("I[W;y|x]", kind)(gain)
    about("I[y*;y|x*,x]", kind)(lambda pool: float(np.mean([told(pool, each) for each in fishers(pool.about)])))
    about("I[y*…;y|x*…,x]", kind)(lambda pool: told(pool, fishers(pool.about).sum(0)))
