"""How each method of the protocol chooses: by natsel's own `select`, by a prototype, or by a peer.

The prototypes read a kernel in which a label has the variance σ² (Targets weighted by u_n, H = labelled ∪ chosen):

    prototype-trace      Σ_n u_n c(n, a)² / (c(a, a) + σ²)      the drop of Σ_n u_n Var[f_n] when a is labelled
                         c(n, a) = k(n, a) − k(n, H) (k(H, H) + σ² I)⁻¹ k(H, a)
    prototype-coverage   the growth of Σ_n u_n max_{a ∈ H} k(n, a)
    …-even               the same with u_n = 1; otherwise u_n = 1 − margin, or 1 where that is 0 everywhere
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from measured_models import Fitted, Matrix
from natsel import select
from natsel.beliefs import Targets
from natsel.choose import resolve
from natsel.objectives import Argument
from natsel.seeds import derive
from protocol import Terms

Positions = NDArray[np.int64]

OF_WEIGHTS = ("badge", "bait")  # they read the last layer of a network; draws of other models do


@dataclass(frozen=True)
class Chosen:
    """The positions that a method chose, and what it warned of."""

    positions: Positions
    warnings: tuple[str, ...] = ()


def choose(method: str, fit: Fitted, labelled: Positions, labels: Positions, seed: int, terms: Terms) -> Chosen:
    """The batch that a method takes next, from a fit to the labelled points."""
    if method in PROTOTYPES:
        weights_N = np.ones(len(fit.pool_N_C)) if method.endswith("-even") else fit.unsure_N
        weights_N = weights_N if weights_N.any() else np.ones(len(weights_N))
        return Chosen(PROTOTYPES[method](fit.kernel(), weights_N, labelled, terms.batch, terms.noise))
    if method.startswith(("skactiveml-", "smalltext-")):
        from peers import choose_by_peer

        return Chosen(choose_by_peer(method, fit, labelled, labels, seed, terms.batch))
    return _by_natsel(method, fit, labelled, seed, terms)


def _by_natsel(name: str, fit: Fitted, labelled: Positions, seed: int, terms: Terms) -> Chosen:
    """As a learner asks: targets are drawn from the pool, given is what is labelled, where the method looks at them."""
    method = resolve(name)
    if getattr(method, "reads_geometry", False):
        belief = fit.geometry()
    else:
        belief = fit.gradients() if name in OF_WEIGHTS else fit.belief
    targets = given = None
    if Argument.TARGETS in method.needs:
        rng = np.random.default_rng(derive(seed, "targets"))
        count = min(terms.targets, len(belief))
        targets = Targets(belief[np.sort(rng.choice(len(belief), count, replace=False))])
    if method.starts_from_labelled or Argument.GIVEN in method.needs:
        given = Targets(belief[labelled])
    found = select(method, belief, terms.batch, targets=targets, given=given, exclude=labelled, seed=seed)
    return Chosen(found.ids, found.warnings)


def by_trace(kernel_N_N: Matrix, weights_N: Matrix, labelled: Positions, k: int, noise: float) -> Positions:
    """The k points that greedily leave the least weighted variance."""
    left_N_N = kernel_N_N.copy()
    if len(labelled):
        inner = kernel_N_N[np.ix_(labelled, labelled)] + noise * np.eye(len(labelled))
        left_N_N -= kernel_N_N[:, labelled] @ np.linalg.solve(inner, kernel_N_N[labelled])
    free_N, picks = _others(len(kernel_N_N), labelled), []
    for _ in range(k):
        gain_N = (weights_N @ left_N_N**2) / (np.diag(left_N_N) + noise)
        picks.append(_best(gain_N, free_N))
        column_N = left_N_N[:, picks[-1]].copy()
        left_N_N -= np.outer(column_N, column_N / (column_N[picks[-1]] + noise))
    return np.array(picks)


def by_coverage(kernel_N_N: Matrix, weights_N: Matrix, labelled: Positions, k: int, noise: float) -> Positions:
    """The k points that greedily cover the weighted pool best."""
    del noise
    covered_N = kernel_N_N[:, labelled].max(1, initial=0)
    free_N, picks = _others(len(kernel_N_N), labelled), []
    for _ in range(k):
        gain_N = weights_N @ np.maximum(kernel_N_N - covered_N[:, None], 0)
        picks.append(_best(gain_N, free_N))
        covered_N = np.maximum(covered_N, kernel_N_N[:, picks[-1]])
    return np.array(picks)


PROTOTYPES: dict[str, Callable[[Matrix, Matrix, Positions, int, float], Positions]] = {
    "prototype-trace": by_trace,
    "prototype-trace-even": by_trace,
    "prototype-coverage": by_coverage,
    "prototype-coverage-even": by_coverage,
}


def _others(points: int, labelled: Positions) -> NDArray[np.bool_]:
    free_N = np.ones(points, dtype=bool)
    free_N[labelled] = False
    return free_N


def _best(gain_N: Matrix, free_N: NDArray[np.bool_]) -> int:
    best = int(np.where(free_N, gain_N, -np.inf).argmax())
    free_N[best] = False
    return best
