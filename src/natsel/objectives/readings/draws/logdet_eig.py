"""EIG of draws by a log-determinant: every point by itself is worth its BALD, and what points share is Gaussian.

    Φ_n = √c_n √w_k (p_k(y|x_n) − p̄(y|x_n)) / √p̄(y|x_n)     [C, K],       c_n such that ½ ln det(I + Φ_n Φ_nᵀ) = BALD_n
    value(A) = ½ ln det(I + Σ_A Φ_nᵀ Φ_n),       gain_n = ½ ln det(I + Φ_n P Φ_nᵀ),   P = R Rᵀ = (I + Σ_A ΦᵀΦ)⁻¹

Exact gains of a batch end at ln K nats: once the draws are told apart nothing is left, after about ten picks from 100
draws. Here the draws are directions of a Gaussian, which every label narrows a little more, so that points can be told
apart in batches of thousands. Monotone and submodular; where draws differ little, the information that two labels share
is right to leading order. Only K × K numbers change with a pick. Gains are worked out for the points that a lazy search
looks at; BALD bounds them from above.

As places, points are the C·K numbers of Φ_n, at the length √(2 BALD_n): k-means++ there (`kmeans-bald`) is to this
log-determinant what BADGE is to that of gradients, and does not only take the points that draws disagree about most.
docs/theory/black-box.md, 7.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, cast

import torch
from torch import Tensor

from natsel import information as info
from natsel.beliefs import CategoricalSamples
from natsel.capabilities import GEOMETRY, Capability
from natsel.information.conditioning.settled import Settled
from natsel.information.weights.similarity import Kernel
from natsel.memory import chunked, memory_budget, rows_per_chunk
from natsel.objectives.eig import LogDetEIG
from natsel.objectives.objective import Argument
from natsel.objectives.reading import Context, PairFacts, serves
from natsel.objectives.readings.batch_state import TakingState

# Steps of Newton's method for the scale of a point: each at least halves the digits that are wrong, from below.
_STEPS = 60


@serves(
    LogDetEIG,
    CategoricalSamples,
    PairFacts(
        takes=Argument.GIVEN,
        monotone=True,
        submodular=True,
        needs_draws=True,
        cost="N·K·C, then k·(C·K² + a few points·C·K·min(C, K))",
    ),
)
class CategoricalLogDetEIG(TakingState):
    """Gains conditional on the points added so far."""

    offers: ClassVar[Capability] = TakingState.offers | GEOMETRY
    submodular: ClassVar[bool] = True

    def __init__(self, objective: LogDetEIG, belief: CategoricalSamples, context: Context[CategoricalSamples]) -> None:
        self.belief, self.device = belief, belief.device
        count, draws, classes = belief.shape
        self.bald_N = info.mutual_information(belief.log_probs_N_K_C, belief.log_weights_K).double()
        self.scale_N = torch.full_like(self.bald_N, torch.nan)  # worked out when a point is first looked at
        self._table: Tensor | None = None
        if 2 * belief.log_probs_N_K_C.numel() * belief.log_probs_N_K_C.itemsize <= memory_budget():
            dtype, width = belief.log_probs_N_K_C.dtype, 40 * draws * classes
            self._table = chunked(lambda part: spread_rows(belief, part).to(dtype), count, width, self.device)
        self.held = None if context.given is None else context.given.belief.to(belief.device)
        self.start_K_K = torch.eye(draws, dtype=torch.float64, device=belief.device)
        if self.held is not None:
            self.start_K_K = _settled(self.held).scaled_down(self.start_K_K)
        self.root_K_K = self.start_K_K

    def scores(self) -> Tensor:
        """BALD of every point, less what points given tell already: N values."""
        return self.bald_N if self.held is None else self._gains(torch.arange(len(self.belief)), self.start_K_K)

    def bounds(self) -> Tensor:
        """BALD: no gain is larger."""
        return self.bald_N

    def gains(self, positions: Tensor) -> Tensor:
        """½ ln det(I + Φ_n P Φ_nᵀ) of each position."""
        return self._gains(positions, self.root_K_K)

    def take(self, position: int) -> None:
        """Take a point: the covariance of the weights of the draws shrinks along its rows."""
        rows_C_K = self._rows(torch.tensor([position], device=self.device))[0] @ self.root_K_K
        _, singular_R, vectors_R_K = torch.linalg.svd(rows_C_K, full_matrices=False)
        self.root_K_K = Settled(vectors_R_K, singular_R.square()).scaled_down(self.root_K_K)

    def value(self, positions: Tensor) -> float:
        """½ ln det(I + Σ ΦᵀΦ) of the whole set at once, under what points given leave."""
        if not len(positions):
            return 0.0
        rows_b_K = self._rows(positions.to(self.device)).flatten(0, 1) @ self.start_K_K
        return 0.5 * float(torch.linalg.svdvals(rows_b_K).square().log1p().sum())

    # Where points lie: Φ_n under what points given leave, at the length √(2 BALD_n).

    @cached_property
    def places(self) -> Kernel:
        """One row of C·K numbers per point, held or made where it is looked at."""
        length_N = Kernel(self._spread()).own()
        return Kernel(self._spread(), scales_N=torch.where(length_N > 0, 2 * self.scores() / length_N, 0.0).sqrt())

    @cached_property
    def size_N(self) -> Tensor:
        """Twice BALD, worked out once."""
        return self.places.own()

    def sizes(self) -> Tensor:
        """Twice BALD, N values."""
        return self.size_N

    def distances(self, position: int) -> Tensor:
        """Squared distances of all points to one, N values."""
        return self.distances_to(torch.tensor([position]))[0]

    def distances_to(self, positions: Tensor, out: Tensor | None = None) -> Tensor:
        """The same to each of some, [positions, N]."""
        return self.places.distances_to(positions, self.size_N, out)

    def kernel(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Inner products of some points with others, [n, m]."""
        return self.places[rows.to(self.device)].between(self.places[columns.to(self.device)])

    def _spread(self) -> Tensor:
        """Φ before scaling, [N, C·K]."""
        if self._table is not None and self.held is None:
            return self._table.flatten(1)
        return cast(Tensor, SpreadOut(self.belief, None if self.held is None else self.start_K_K))

    def _gains(self, positions: Tensor, root_K_K: Tensor) -> Tensor:
        _, draws, classes = self.belief.shape

        def work(part: slice) -> Tensor:
            inner_n_r_r = _smaller_gram(self._rows(positions[part].to(self.device)) @ root_K_K)
            inner_n_r_r.diagonal(dim1=1, dim2=2).add_(1.0)
            gain_n: Tensor = torch.linalg.cholesky(inner_n_r_r).diagonal(dim1=1, dim2=2).log().sum(1)
            return gain_n

        width = 8 * (5 * draws * classes + 2 * min(draws, classes) ** 2)
        return chunked(work, len(positions), width, self.device)

    def _rows(self, positions: Tensor) -> Tensor:
        """Φ of some points in float64, [n, C, K]."""
        table = self._table
        rows_n_C_K = spread_rows(self.belief, positions) if table is None else table[positions].double()
        unknown_n = self.scale_N[positions].isnan()
        if bool(unknown_n.any()):
            some_n = positions[unknown_n]
            self.scale_N[some_n] = scales(rows_n_C_K[unknown_n], self.bald_N[some_n])
        return rows_n_C_K * self.scale_N[positions].sqrt()[:, None, None]


def spread_rows(belief: CategoricalSamples, positions: Tensor | slice) -> Tensor:
    """√w_k (p_kc − p̄_c) / √p̄_c of some points, [n, C, K].

    >>> belief = CategoricalSamples.from_probs([[[1.0, 0.0], [0.5, 0.5]]])
    >>> spread_rows(belief, slice(None)).square().sum().round(decimals=6).item()
    0.333333
    """
    probs_n_K_C = belief.log_probs_N_K_C[positions].double().exp()
    weights_K = belief.log_weights_K.exp()
    mean_n_1_C = torch.einsum("nkc,k->nc", probs_n_K_C, weights_K)[:, None]
    scale_n_1_C = torch.where(mean_n_1_C > 0, mean_n_1_C.rsqrt(), 0.0)
    return ((probs_n_K_C - mean_n_1_C) * scale_n_1_C * weights_K.sqrt()[:, None]).mT.contiguous()


@dataclass(frozen=True, eq=False)
class SpreadOut:
    """`spread_rows` of a belief as a table [N, C·K] that is made where it is looked at, times a K × K matrix."""

    belief: CategoricalSamples
    root_K_K: Tensor | None

    def __getitem__(self, positions: Tensor | slice) -> Tensor:
        rows_n_C_K = spread_rows(self.belief, positions)
        rows_n_C_K = rows_n_C_K if self.root_K_K is None else rows_n_C_K @ self.root_K_K
        return rows_n_C_K.flatten(1).to(self.dtype)

    def __len__(self) -> int:
        return len(self.belief)

    @property
    def shape(self) -> torch.Size:
        """N × C·K."""
        count, draws, classes = self.belief.shape
        return torch.Size([count, draws * classes])

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the belief."""
        return self.belief.log_probs_N_K_C.dtype

    @property
    def device(self) -> torch.device:
        """Where the numbers lie."""
        return self.belief.device


def scales(rows_n_C_K: Tensor, worth_n: Tensor) -> Tensor:
    """c with ½ ln det(I + c Φ Φᵀ) = worth of each point; 1 where there is nothing to tell.

    >>> found = scales(torch.tensor([[[2.0, 0.0]]]).double(), torch.tensor([2.0]).double().log())
    >>> found.round(decimals=6).item()
    0.75
    """
    value_n_R = torch.linalg.eigvalsh(_smaller_gram(rows_n_C_K)).clamp_min_(0)
    total_n = value_n_R.sum(1)
    told_n = (total_n > 0) & (worth_n > 0)
    scale_n = torch.where(told_n, 2 * worth_n / total_n, 1.0)  # no more than is needed, since ln(1 + x) ≤ x
    for _ in range(_STEPS):
        grown_n_R = scale_n[:, None] * value_n_R
        short_n = worth_n - 0.5 * grown_n_R.log1p().sum(1)
        step_n = torch.where(told_n, short_n / (0.5 * (value_n_R / (1 + grown_n_R)).sum(1)), 0.0)
        scale_n = scale_n + step_n
        if bool((step_n.abs() <= 1e-14 * scale_n).all()):
            break
    return scale_n


def _smaller_gram(rows_n_C_K: Tensor) -> Tensor:
    """Φ Φᵀ or Φᵀ Φ, whichever is smaller."""
    if rows_n_C_K.shape[1] <= rows_n_C_K.shape[2]:
        return rows_n_C_K @ rows_n_C_K.mT
    return rows_n_C_K.mT @ rows_n_C_K


def _settled(held: CategoricalSamples) -> Settled:
    """What labels at the points given tell about the weights of the draws, all at once."""
    _, draws, classes = held.shape
    total_K_K = torch.zeros(draws, draws, dtype=torch.float64, device=held.device)
    bald_T = info.mutual_information(held.log_probs_N_K_C, held.log_weights_K).double()
    step = rows_per_chunk(40 * draws * classes, held.device)
    for start in range(0, len(held), step):
        part = slice(start, start + step)
        rows_m_C_K = spread_rows(held, part)
        rows_m_C_K = rows_m_C_K * scales(rows_m_C_K, bald_T[part]).sqrt()[:, None, None]
        rows_q_K = rows_m_C_K.flatten(0, 1)
        total_K_K.addmm_(rows_q_K.T, rows_q_K)
    strength_K, vectors_K_K = torch.linalg.eigh(total_K_K)
    return Settled(vectors_K_K.T, strength_K.clamp_min_(0))
