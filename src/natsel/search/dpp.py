"""k-DPP: draw a batch with a chance that grows with the volume its points span.

    P(A) = det K_A / e_k(λ),   |A| = k          λ: eigenvalues of the kernel K, e_k: their k-th symmetric polynomial

k eigenvectors are drawn by ratios of e, in log space, then points one by one, each by the squared length that is left
of its row in their span. All orders of a batch are equally likely. Where points span fewer than k directions the batch
is filled up at random. The draw takes a matrix of all candidates and the cube of their number in operations, so that
more than `limit` of them are refused.  docs/theory/weight-space.md, 10.3; Kulesza & Taskar 2011.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from natsel.capabilities import Capability, Picks, Progress, State, has_kernel, lacking
from natsel.information.conditioning.one_step import left_after_label
from natsel.memory import require
from natsel.options import check_options
from natsel.search.clocks import Clocks
from natsel.search.nearest import checked_sizes
from natsel.search.topk import check_k, refuse_nan

# What is left of a row of orthonormal vectors below this is rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class KDPP:
    """Draw points that span much volume, from at most `limit` candidates. Scores are those of the points alone.

    >>> from types import SimpleNamespace
    >>> row_N_2 = torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]]).double()
    >>> size_N = row_N_2.square().sum(1)
    >>> inner = lambda rows, columns: row_N_2[rows] @ row_N_2[columns].T
    >>> state = SimpleNamespace(scores=lambda: size_N, sizes=lambda: size_N, kernel=inner, offers=KDPP.needs)
    >>> picks = KDPP()(state, 2, torch.ones(3, dtype=torch.bool), torch.Generator().manual_seed(0))
    >>> 2 in picks.positions, round(math.exp(picks.log_prob), 6)  # 4/5 for {1, 2}, either order
    (True, 0.4)
    """

    limit: int = 2000
    needs: ClassVar[Capability] = Capability.SCORES | Capability.DISTANCES | Capability.KERNEL

    def __post_init__(self) -> None:
        check_options(self, limit=1)

    def __call__(
        self, state: State, k: int, allowed_N: Tensor, generator: torch.Generator, progress: Progress | None = None
    ) -> Picks:
        """Draw k of the allowed positions."""
        if not has_kernel(state):
            raise lacking(state, self)
        size_N = checked_sizes(state, allowed_N).cpu()
        allowed_N = allowed_N.cpu()
        allowed_M = allowed_N.nonzero().squeeze(1)
        check_k(k, len(allowed_M))
        clocks = Clocks(len(size_N), generator, torch.device("cpu"))
        count = len(allowed_M)
        if count > self.limit:
            raise ValueError(
                f"k-DPP: found {count:,} candidates, and a draw takes the cube of their number in operations; pass at"
                f" most {self.limit:,} (exclude= or candidates=), use badge, or raise KDPP(limit=…)"
            )
        require(
            32 * count**2,
            f"k-DPP: a draw from {count} candidates, four matrices of {count} × {count},",
            "pass fewer candidates (exclude= or candidates=)",
        )
        kernel_M_M = state.kernel(allowed_M, allowed_M).detach().to("cpu", torch.float64)
        places, log_prob = draw(kernel_M_M, k, clocks.at(allowed_M), generator)
        taken = allowed_M[places].tolist()
        drawn = len(taken)
        notes: tuple[str, ...] = ()
        if drawn < k:
            clocks = Clocks(len(size_N), generator, torch.device("cpu"))
            taken += clocks.fill(allowed_N, k - drawn, taken)
            log_prob += clocks.log_prob
            filled = f"the other {k - drawn} of k={k} were filled in at random"
            notes = (f"kernel: the points span only {drawn} directions; {filled}",)
        scores_N = state.scores().detach().to("cpu", torch.float64)
        positions_B = torch.tensor(taken, dtype=torch.int64)
        refuse_nan("scores", scores_N[positions_B], positions_B)
        scores_B = scores_N[positions_B]
        return Picks(positions_B, scores_B, total=float(scores_B.sum()), log_prob=log_prob, notes=notes)


def draw(kernel_M_M: Tensor, k: int, clocks: Clocks, generator: torch.Generator) -> tuple[list[int], float]:
    """An exact draw of k places, fewer where the kernel's rank is less, and the log-probability of this order.

    >>> clocks = Clocks(2, torch.Generator().manual_seed(0), torch.device("cpu"))
    >>> places, log_prob = draw(torch.eye(2).double(), 2, clocks, torch.Generator().manual_seed(0))
    >>> sorted(places), round(math.exp(log_prob), 6)
    ([0, 1], 0.5)
    """
    if not len(kernel_M_M):
        return [], 0.0
    value_M, vector_M_M = torch.linalg.eigh(kernel_M_M)
    least = len(value_M) * torch.finfo(torch.float64).eps * float(value_M.abs().max())
    (real,) = (value_M > least).nonzero(as_tuple=True)
    k = min(k, len(real))
    # From the largest down: sums of logs then grow slowly, and which are drawn does not hang on the smallest.
    log_value_R = value_M[real].flip(0).log()
    log_e_R1_k1 = log_symmetric(log_value_R, k)
    chosen = _eigenvectors(log_value_R, log_e_R1_k1, k, generator)
    places = _points(vector_M_M[:, real.flip(0)[chosen]], clocks)
    log_volume = float(torch.logdet(kernel_M_M[places][:, places])) if k else 0.0
    return places, log_volume - float(log_e_R1_k1[-1, k]) - math.lgamma(k + 1)


def log_symmetric(log_value_R: Tensor, k: int) -> Tensor:
    """ln e_l of the first n values, [R + 1, k + 1]: e_l(λ_1..λ_n) = e_l(λ_1..λ_{n-1}) + λ_n e_{l-1}(λ_1..λ_{n-1}).

    >>> log_symmetric(torch.tensor([1.0, 2.0, 3.0]).log(), 2).exp()[-1].round()
    tensor([ 1.,  6., 11.], dtype=torch.float64)
    """
    table_R1_k1 = torch.full((len(log_value_R) + 1, k + 1), -torch.inf, dtype=torch.float64)
    table_R1_k1[:, 0] = 0.0
    for count, log_value in enumerate(log_value_R.double().tolist(), start=1):
        before_k1 = table_R1_k1[count - 1]
        table_R1_k1[count, 1:] = torch.logaddexp(before_k1[1:], log_value + before_k1[:-1])
    return table_R1_k1


def _eigenvectors(log_value_R: Tensor, log_e_R1_k1: Tensor, k: int, generator: torch.Generator) -> list[int]:
    """Which k eigenvectors: P ∝ the product of their values."""
    uniform_R = torch.rand(len(log_value_R), dtype=torch.float64, generator=generator).tolist()
    chosen: list[int] = []
    for index in range(len(log_value_R) - 1, -1, -1):
        missing = k - len(chosen)
        if not missing:
            break
        log_chance = float(log_value_R[index] + log_e_R1_k1[index, missing - 1] - log_e_R1_k1[index + 1, missing])
        # As many left as are missing: all of them, whatever rounding says of their chance.
        if index + 1 == missing or uniform_R[index] < math.exp(log_chance):
            chosen.append(index)
    return chosen


def _points(vector_M_k: Tensor, clocks: Clocks) -> list[int]:
    """One point for each of k orthonormal vectors, each by what is left of its row outside the rows drawn before."""
    left_M = vector_M_k.square().sum(1)
    row_t_M = vector_M_k.new_empty(0, len(left_M))
    places: list[int] = []
    for _ in range(vector_M_k.shape[1]):
        place = clocks.ring(left_M)
        if place is None:  # the rows of k orthonormal vectors hold k in all, so that something is always left
            raise ArithmeticError("kernel: rounding left no row to draw from")
        column_M = vector_M_k @ vector_M_k[place] - row_t_M.T @ row_t_M[:, place]
        row_t_M = torch.cat([row_t_M, (column_M / left_M[place].sqrt())[None]])
        left_M = left_after_label(left_M, row_t_M[-1].square(), keep=0.0)
        left_M = left_M.where(left_M > _ROUNDING, 0.0)
        left_M[place] = 0.0
        places.append(place)
    return places
