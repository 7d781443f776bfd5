"""An outside judge of batches: what they are worth, and whether a pick was the best at its step, by sampled labellings.

    worth    I[Y_1..Y_b; Ω]     = H(w) − E H(Ω | y_1..y_b)                    y ~ p̄, S labellings
    gains    I[Y_n; Ω | Y_1..b] = E_y [ H(r_y Q_n) − r_y·h_n ]                r_y: posterior over draws after y

Plain NumPy on plain arrays: it shares no line with the code it judges (no rows, no thinning, no race), and draws its
labellings anew. Draws have equal weights here.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
_BLOCK = 20_000  # labellings held at once


def worth(log_probs_B_K_C: Array, count: int, seed: int = 0) -> tuple[float, float]:
    """I[Y_1..Y_B; Ω] in nats from `count` labellings, and its standard error.

    >>> told, error = worth(np.log(np.array([[[0.99, 0.01], [0.01, 0.99]]])), 1000)
    >>> abs(told - 0.6371) < 4 * error + 1e-4
    True
    """
    left = [_entropy(posterior_S_K, axis=1) for posterior_S_K in _posteriors(log_probs_B_K_C, count, seed)]
    left_S = np.concatenate(left)
    return float(np.log(log_probs_B_K_C.shape[1]) - left_S.mean()), float(left_S.std() / np.sqrt(len(left_S)))


class Beaten(NamedTuple):
    """By how much the best candidate beats the one picked, and the standard error of that difference."""

    deficit: float
    error: float
    best: float
    """The best gain itself."""


def beaten(
    log_probs_N_K_C: Array, picks: list[int], step: int, count: int, seed: int = 0, finalists: int = 24
) -> Beaten:
    """How far pick number `step` (from 0) falls short of the best point at that step, given the picks before it.

    All candidates are scored on a tenth of the labellings, the best `finalists` and the pick on all of them, the same
    for each.

    >>> copies_N_K_C = np.log(np.array([[[0.9, 0.1], [0.1, 0.9]]] * 3))
    >>> beaten(copies_N_K_C, [0, 1], 1, 1000).deficit
    0.0
    """
    taken_B_K_C, pick = log_probs_N_K_C[picks[:step]], picks[step]
    free_n = np.setdiff1d(np.arange(len(log_probs_N_K_C)), picks[:step])
    rough_n = _mean_gains(log_probs_N_K_C[free_n], taken_B_K_C, max(1, count // 10), seed + 1)[0]
    best_n = free_n[np.argsort(-rough_n, kind="stable")[:finalists]]
    final_n = np.append(best_n[best_n != pick], pick)  # the pick comes last
    gain_n, square_n = _mean_gains(log_probs_N_K_C[final_n], taken_B_K_C, count, seed)
    leader = int(gain_n.argmax())
    if gain_n[leader] <= gain_n[-1]:
        return Beaten(0.0, 0.0, float(gain_n[-1]))
    deficit = float(gain_n[leader] - gain_n[-1])
    variance = max(0.0, float(square_n[leader]) - deficit**2)
    return Beaten(deficit, float(np.sqrt(variance / max(1, count))), float(gain_n[leader]))


def joint_predictive_gains(log_probs_N_K_C: Array, targets_M_K_C: Array, count: int, seed: int = 0) -> Array:
    """JEPIG: I[Y_n; Ω] − I[Y_n; Ω | Y*_1..M] of every point, the second from `count` labellings of the targets.

    >>> same_N_K_C = np.log(np.array([[[0.9, 0.1], [0.1, 0.9]]]))
    >>> joint_predictive_gains(same_N_K_C, same_N_K_C, 1000).round(4)
    array([0.2218])
    """
    before_N, _ = _mean_gains(log_probs_N_K_C, targets_M_K_C[:0], 1, seed)
    return before_N - _mean_gains(log_probs_N_K_C, targets_M_K_C, count, seed)[0]


def _mean_gains(log_probs_n_K_C: Array, taken_B_K_C: Array, count: int, seed: int) -> tuple[Array, Array]:
    """Gains of candidates after the labels of those taken, and the mean square of their differences to the last one."""
    probs_n_K_C = np.exp(log_probs_n_K_C)
    noise_n_K = _entropy(probs_n_K_C, axis=2)
    total_n, square_n, seen = np.zeros(len(probs_n_K_C)), np.zeros(len(probs_n_K_C)), 0
    for posterior_s_K in _posteriors(taken_B_K_C, count if len(taken_B_K_C) else 1, seed, log_probs_n_K_C.shape[1]):
        gain_n_s = np.stack(
            [
                _entropy(posterior_s_K @ probs_K_C, axis=1) - posterior_s_K @ noise_K
                for probs_K_C, noise_K in zip(probs_n_K_C, noise_n_K, strict=True)
            ]
        )
        total_n += gain_n_s.sum(1)
        square_n += np.square(gain_n_s - gain_n_s[-1]).sum(1)
        seen += posterior_s_K.shape[0]
    return total_n / seen, square_n / seen


def _posteriors(log_probs_B_K_C: Array, count: int, seed: int, draws: int | None = None) -> Any:
    """Posteriors over the draws after sampled labellings, block by block: labels come from draws in equal shares."""
    rng = np.random.default_rng(seed)
    draws = draws or log_probs_B_K_C.shape[1]
    for start in range(0, count, _BLOCK):
        size = min(_BLOCK, count - start)
        chosen_s = rng.permutation(np.arange(start, start + size) % draws)
        log_joint_s_K = np.zeros((size, draws))
        for log_probs_K_C in log_probs_B_K_C:
            ends_K_C = np.exp(log_probs_K_C).cumsum(1)
            place_s = rng.random(size) * ends_K_C[chosen_s, -1]
            label_s = (ends_K_C[chosen_s] <= place_s[:, None]).sum(1)
            log_joint_s_K += log_probs_K_C.T[label_s]
        log_joint_s_K -= log_joint_s_K.max(1, keepdims=True)
        joint_s_K = np.exp(log_joint_s_K)
        yield joint_s_K / joint_s_K.sum(1, keepdims=True)


def _entropy(p: Array, axis: int) -> Array:
    entropy: Array = -(p * np.log(np.where(p > 0, p, 1.0))).sum(axis)
    return entropy
