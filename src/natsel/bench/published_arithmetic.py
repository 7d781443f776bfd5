"""BADGE, BAIT and EIG in weight space against the arithmetic they were published with, and what memory they take.

    badge   N=10,000, C=10, D=512, k=100      published: factored distances in NumPy, a distribution made anew each step
    bait    N=1,000, C=10, D=64, k=10         published: V M Vᵀ and V M F M Vᵀ of all candidates at every step
    eig     1,290 weights, dense precision    published: a determinant of P × P for each point
    large   BADGE and LogDet, N=50,000, C=1,000, D=512: the peak of memory beyond the inputs

    times_faster = CPU seconds of the published arithmetic / CPU seconds of natsel

Inputs are a seeded random last layer. The published arithmetic is written here as the code of its papers does it (Ash
et al. 2020 and 2021; Kirsch 2024), so that one process times both. docs/theory/weight-space.md, 4 and 7.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from scipy import stats
from torch import Tensor

import natsel
from natsel.bench.laps import timed


def measure(part: str | None = None, repeat: int = 3) -> dict[str, Any]:
    """One part, or all of them."""
    parts: dict[str, Callable[..., dict[str, Any]]] = {
        "badge": measure_badge,
        "bait": measure_bait,
        "eig": measure_eig,
        "large": measure_large,
    }
    if part not in {None, *parts}:
        raise ValueError(f"part: expected one of {', '.join(parts)}, found {part!r}")
    return {name: work(repeat=repeat) for name, work in parts.items() if part in (None, name)}


def last_layer(points: int, classes: int, features: int, seed: int, precision: Any = 1.0) -> natsel.FisherFactors:
    """A random last layer at random features, with the constant 1, in float32.

    >>> len(last_layer(3, 2, 4, seed=0))
    3
    """
    generator = torch.Generator().manual_seed(seed)
    features_N_D = torch.randn(points, features, generator=generator).relu_()
    features_N_D[:, -1] = 1
    weight_D_C = torch.randn(features, classes, generator=torch.Generator().manual_seed(1)) * 3 / features**0.5
    return natsel.FisherFactors.categorical(features_N_D, (features_N_D @ weight_D_C).softmax(1), precision)


def measure_badge(
    points: int = 10_000, classes: int = 10, features: int = 512, pick: int = 100, repeat: int = 3
) -> dict[str, Any]:
    """BADGE against its published arithmetic; both draw at random, so that their picks differ.

    >>> sorted(measure_badge(50, 3, 4, 5, repeat=1))
    ['ours', 'published', 'times_faster']
    """
    belief = last_layer(points, classes, features, seed=0)
    natsel.select("badge", belief[:50], 2)  # what is done once for all is not timed
    return _side_by_side(
        lambda run: natsel.select("badge", belief, pick, seed=0).ids,
        lambda run: published_badge(belief.features_N_D.numpy(), belief.outputs_N_C.numpy(), pick),
        repeat,
    )


def measure_bait(
    points: int = 1_000, classes: int = 10, features: int = 64, pick: int = 10, repeat: int = 3
) -> dict[str, Any]:
    """BAIT (the pool as its own targets) against its published arithmetic, and whether the picks agree.

    >>> measure_bait(30, 3, 4, 3, repeat=1)["same_picks"]
    True
    """
    pool = last_layer(points, classes, features, seed=0)
    precision_P_P = _precision(100, classes, features)
    belief = natsel.FisherFactors.categorical(pool.features_N_D, pool.outputs_N_C, precision_P_P)
    natsel.select("bait", belief[:20], 2, targets=belief[:20])
    rows_N_C_P = pool.factors.explicit(slice(None))
    found = _side_by_side(
        lambda run: natsel.select("bait", belief, pick, targets=belief).ids,
        lambda run: published_bait(rows_N_C_P, precision_P_P, pick),
        repeat,
    )
    return found | {"same_picks": sorted(found["ours"]["picks"]) == sorted(found["published"]["picks"])}


def measure_eig(points: int = 1_000, classes: int = 10, features: int = 129, repeat: int = 1) -> dict[str, Any]:
    """EIG of points by blocks of C × C against determinants of P × P, in milliseconds per point.

    >>> measure_eig(10, 2, 3)["same_scores"]
    True
    """
    precision_P_P = _precision(80, classes, features)
    pool = last_layer(points, classes, features, seed=0)
    belief = natsel.FisherFactors.categorical(pool.features_N_D, pool.outputs_N_C, precision_P_P)
    some = min(10, points)
    ours, score_N = timed(lambda run: natsel.score("bald", belief), repeat)
    dense, dense_n = timed(lambda run: published_eig(pool.factors.explicit(slice(0, some)), precision_P_P), repeat)
    return {
        "ours_ms": 1000 * ours["seconds"] / points,
        "published_ms": 1000 * dense["seconds"] / some,
        "same_scores": bool(torch.allclose(score_N[:some], dense_n, rtol=1e-6, atol=1e-9)),
    }


def measure_large(
    points: int = 50_000, classes: int = 1_000, features: int = 512, pick: int = 100, repeat: int = 1
) -> dict[str, Any]:
    """What BADGE and LogDet take beyond their inputs, where the gradients alone would be points × 2 MB.

    >>> list(measure_large(40, 5, 3, 4))
    ['badge', 'logdet']
    """
    belief = last_layer(points, classes, features, seed=0)
    badge, _ = timed(lambda run: natsel.select("badge", belief, pick), repeat)
    logdet, _ = timed(lambda run: natsel.select("logdet", belief, pick), repeat)
    return {"badge": badge, "logdet": logdet}


def published_badge(features_N_D: Any, probs_N_C: Any, pick: int) -> Any:
    """k-means++ as its authors' code seeds it: the distance to the last centre factored, one distribution per step.

    >>> len(set(published_badge(np.eye(4, dtype=np.float32), np.full((4, 2), 0.5, dtype=np.float32), 3)))
    3
    """
    random = np.random.default_rng(0)
    gradients_N_C = -probs_N_C.copy()
    gradients_N_C[np.arange(len(probs_N_C)), probs_N_C.argmax(1)] += 1
    inner_N, outer_N = (features_N_D**2).sum(1), (gradients_N_C**2).sum(1)
    chosen = [int((inner_N * outer_N).argmax())]
    nearest_N = np.full(len(features_N_D), np.inf)
    while len(chosen) < pick:
        last = chosen[-1]
        cross_N = (features_N_D @ features_N_D[last]) * (gradients_N_C @ gradients_N_C[last])
        distance_N = inner_N * outer_N + inner_N[last] * outer_N[last] - 2 * cross_N
        nearest_N = np.minimum(nearest_N, np.sqrt(np.clip(distance_N, 0, None)))
        chance_N = nearest_N.ravel().astype(float) ** 2
        # Python's own sum over an array, as published: about a third of its time.
        law = stats.rv_discrete(name="centres", values=(np.arange(len(chance_N)), chance_N / sum(chance_N)))
        new = int(law.rvs(random_state=random))
        while new in chosen:
            new = int(law.rvs(random_state=random))
        chosen.append(new)
    return np.array(chosen)


def published_bait(rows_N_C_P: Tensor, precision_P_P: Tensor, pick: int) -> Any:
    """BAIT with both products of all candidates made again at every step, forward to 2k and back to k.

    >>> rows_N_1_3 = torch.diag(torch.tensor([1.0, 3.0, 2.0], dtype=torch.float64))[:, None]
    >>> published_bait(rows_N_1_3, torch.eye(3, dtype=torch.float64), 1)
    array([1])
    """
    eye_C_C = torch.eye(rows_N_C_P.shape[1], dtype=rows_N_C_P.dtype)
    fisher_P_P = torch.einsum("ncp,ncq->pq", rows_N_C_P, rows_N_C_P)
    inverse_P_P = torch.linalg.inv(precision_P_P)
    chosen: list[int] = []
    while len(chosen) < min(2 * pick, len(rows_N_C_P)):
        along_N_C_P = rows_N_C_P @ inverse_P_P
        middle_N_C_C = torch.linalg.inv(eye_C_C + along_N_C_P @ rows_N_C_P.mT)
        told_N_C_C = along_N_C_P @ fisher_P_P @ along_N_C_P.mT
        gain_N = (told_N_C_C * middle_N_C_C.mT).sum((1, 2))
        gain_N[chosen] = -torch.inf
        new = int(gain_N.argmax())
        chosen.append(new)
        inverse_P_P = inverse_P_P - along_N_C_P[new].T @ middle_N_C_C[new] @ along_N_C_P[new]
    while len(chosen) > pick:
        rows_T_C_P = rows_N_C_P[chosen]
        along_T_C_P = rows_T_C_P @ inverse_P_P
        middle_T_C_C = torch.linalg.inv(eye_C_C - along_T_C_P @ rows_T_C_P.mT)
        loss_T = (along_T_C_P @ fisher_P_P @ along_T_C_P.mT * middle_T_C_C.mT).sum((1, 2))
        place = int(loss_T.argmin())
        inverse_P_P = inverse_P_P + along_T_C_P[place].T @ middle_T_C_C[place] @ along_T_C_P[place]
        chosen.pop(place)
    return np.array(chosen)


def published_eig(rows_n_C_P: Tensor, precision_P_P: Tensor) -> Tensor:
    """½ ln det(F + H) − ½ ln det H with matrices of P × P, point by point.

    >>> published_eig(torch.ones(1, 1, 1, dtype=torch.float64), torch.ones(1, 1, dtype=torch.float64)).exp().square()
    tensor([2.0000], dtype=torch.float64)
    """
    before = torch.logdet(precision_P_P)
    return torch.stack([0.5 * (torch.logdet(rows.T @ rows + precision_P_P) - before) for rows in rows_n_C_P])


def _precision(points: int, classes: int, features: int) -> Tensor:
    """The precision of the weights after so many points: their Fisher information plus the identity."""
    seen = last_layer(points, classes, features, seed=2).factors.fisher()
    return seen + torch.eye(len(seen), dtype=torch.float64)


def _side_by_side(ours: Callable[[int], Any], published: Callable[[int], Any], repeat: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, work in (("ours", ours), ("published", published)):
        took, picks = timed(work, repeat)
        found[name] = took | {"picks": picks.tolist()}
    return found | {"times_faster": found["published"]["cpu_seconds"] / max(found["ours"]["cpu_seconds"], 1e-9)}
