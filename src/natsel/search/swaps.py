"""Metropolis swaps towards a k-DPP on many points: one point out, another in, by the volume the batch then spans.

    out i uniform in A, in j ∝ s_j:     accept with  min(1, (v_j / s_j) / (v_i / s_i))
    v_x = det K_{A∖i ∪ x} / det K_{A∖i}            what x adds in squared length; 1 / (K_A⁻¹)_ii for x = i

The chance of being proposed, by the squared length s, is divided out again: the batches still tend to P(A) ∝ det K_A,
but points that span nothing are not tried for ever. Swaps start from a randomly pivoted Cholesky factorisation, whose
batches already span much.  Spec 08, Alg 8; Anari et al. 2016; Chen et al. 2022.
"""

import torch
from torch import Tensor

from natsel.capabilities import Located, Related
from natsel.search.clocks import Clocks

# What is left of a squared length below this share of it is rounding.
_ROUNDING = 1e-10
PROPOSALS = 512  # whose kernel is asked for at once


def pivoted(state: Located, size_N: Tensor, k: int, allowed_N: Tensor, clocks: Clocks) -> list[int]:
    """Up to k positions, each drawn by the squared length that those before leave of it; fewer where nothing is left.

    >>> from types import SimpleNamespace
    >>> place_N_2 = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 2.0]])
    >>> state = SimpleNamespace(distances=lambda position: (place_N_2 - place_N_2[position]).square().sum(1))
    >>> clocks = Clocks(3, torch.Generator().manual_seed(0), torch.device("cpu"))
    >>> len(pivoted(state, torch.tensor([1.0, 1.0, 4.0]), 3, torch.ones(3, dtype=torch.bool), clocks))
    2
    """
    left_N = size_N.double().where(allowed_N, 0.0)
    factor_k_N = size_N.new_empty(k, len(size_N), dtype=torch.float64)
    taken: list[int] = []
    for step in range(k):
        position = clocks.ring(left_N)
        if position is None:
            break
        taken.append(position)
        if step + 1 < k:
            column_N = (size_N + size_N[position] - state.distances(position).to("cpu", torch.float64)) / 2
            column_N -= factor_k_N[:step].T @ factor_k_N[:step, position]
            factor_k_N[step] = column_N / left_N[position].sqrt()
            left_N = left_N - factor_k_N[step].square()
            left_N = left_N.where(left_N > _ROUNDING * size_N, 0.0)
            left_N[position] = 0.0
    return taken


def improved(
    state: Related, size_N: Tensor, start: list[int], allowed_M: Tensor, steps: int, generator: torch.Generator
) -> list[int]:
    """The batch after so many proposals, from `start`."""
    taken = torch.tensor(start, dtype=torch.int64)
    if not start:
        return start
    out_S = torch.randint(len(start), (steps,), generator=generator)
    coin_S = torch.rand(steps, dtype=torch.float64, generator=generator)
    into_S = allowed_M[drawn_by(size_N[allowed_M], torch.rand(steps, dtype=torch.float64, generator=generator))]
    for begin in range(0, steps, PROPOSALS):
        part = slice(begin, begin + PROPOSALS)
        positions, place = torch.unique(torch.cat([taken, into_S[part]]), return_inverse=True)
        kernel = state.kernel(positions, positions).detach().to("cpu", torch.float64)
        batch = _Batch(kernel, place[: len(taken)])
        for slot, new, coin in zip(
            out_S[part].tolist(), place[len(taken) :].tolist(), coin_S[part].tolist(), strict=True
        ):
            batch.propose(slot, new, coin)
        taken = positions[batch.place_k]
    found: list[int] = taken.tolist()
    return found


def drawn_by(weights_M: Tensor, uniform_S: Tensor) -> Tensor:
    """Places drawn with replacement by weight, one for each uniform number.

    >>> drawn_by(torch.tensor([0.0, 1.0, 3.0]), torch.tensor([0.0, 0.2, 0.3, 0.9]))
    tensor([1, 1, 2, 2])
    """
    cumulative_M = weights_M.double().cumsum(0)
    # The clamp keeps rounding from running past the last weight; right=True never hits a weight of 0.
    pointer_S = uniform_S * cumulative_M[-1]
    last = int((weights_M > 0).nonzero()[-1])
    return torch.searchsorted(cumulative_M, pointer_S, right=True).clamp_max(last)


class _Batch:
    """The k points held, as places in a kernel, with the inverse of theirs."""

    def __init__(self, kernel_n_n: Tensor, place_k: Tensor) -> None:
        self.kernel_n_n = kernel_n_n
        self.place_k = place_k.clone()
        self.inverse_k_k = torch.linalg.pinv(kernel_n_n[place_k][:, place_k], hermitian=True)

    def propose(self, slot: int, new: int, coin: float) -> None:
        """Swap the point in a slot for a new one, if the coin says so."""
        old = int(self.place_k[slot])
        if bool((self.place_k == new).any()):
            return
        size_old, size_new = float(self.kernel_n_n[old, old]), float(self.kernel_n_n[new, new])
        across_k = self.kernel_n_n[new, self.place_k]
        own_k = self.inverse_k_k[:, slot]
        pivot = float(own_k[slot])
        # The inverse without the slot: its row and column there are 0.
        without_k_k = self.inverse_k_k - own_k[:, None] * (own_k / pivot)
        along_k = without_k_k @ across_k
        adds_old, adds_new = 1 / pivot, size_new - float(across_k @ along_k)
        if adds_new <= _ROUNDING * size_new or coin * (adds_old / size_old) >= adds_new / size_new:
            return
        along_k[slot] = -1.0
        without_k_k[slot] = without_k_k[:, slot] = 0.0
        self.inverse_k_k = without_k_k + along_k[:, None] * (along_k / adds_new)
        self.place_k[slot] = new
