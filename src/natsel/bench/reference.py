"""A near-exhaustive greedy BatchBALD batch, for judging quicker ones by.

    i_t = argmax_i  I[Y_i; Ω | Y_1..t−1]

Every candidate is scored at every step, with no bounds carried over and no race: all on 2,048 sampled label
configurations, the best 64 of them on 8,192, the best 8 of those on 50,000, with fresh configurations at
every step (all of them listed while they are fewer). Made of the plain float64 formulas of
`natsel.information.joint`, and so independent of the posterior rows, float32 products and lazy search that
`natsel.select` runs on. It is still greedy: another batch may beat it by luck of the path.  Spec 03b, 1.
"""

import torch
from torch import Tensor

from natsel.information.joint import DynamicJointEntropy

# (configurations, how many candidates go on to the next level)
LEVELS = ((2_048, 64), (8_192, 8), (50_000, 1))


def reference_batch(log_probs_N_K_C: Tensor, k: int, seed: int = 0) -> list[int]:
    """Positions of k points, in the order picked.

    >>> copies_N_K_C = torch.eye(2).log().expand(3, 2, 2)
    >>> reference_batch(copies_N_K_C, 2)
    [0, 1]
    """
    count, draws, _ = log_probs_N_K_C.shape
    generator = torch.Generator().manual_seed(seed)
    states = [DynamicJointEntropy(torch.zeros(draws), size, generator) for size, _ in LEVELS]
    free_N = torch.ones(count, dtype=torch.bool)
    picks: list[int] = []
    for _ in range(min(k, count)):
        best_n = free_N.nonzero().squeeze(1)
        for state, (_, survivors) in zip(states, LEVELS, strict=True):
            gain_n = state.gains(log_probs_N_K_C[best_n])
            best_n = best_n[gain_n.argsort(descending=True, stable=True)[:survivors]]
        picks.append(int(best_n[0]))
        free_N[picks[-1]] = False
        for state in states:
            state.add(log_probs_N_K_C[picks[-1]])
    return picks
