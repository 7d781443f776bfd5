"""Frank–Wolfe search: a few points, with weights, whose weighted sum comes near the sum of all points (ACS-FW).

    t = Σ_n g_n,   r = Σ_n ‖g_n‖,   s = 0                                   over the pool and the points given
    i = argmax over points not taken  g_i/‖g_i‖ · (t − s)                    u = r g_i/‖g_i‖
    γ = (u − s)·(t − s) / ‖u − s‖²,          s ← (1 − γ) s + γ u             exact line search, not clamped

Points given take their steps first, in their order. The residual ‖t − s‖ never grows, also where γ < 0 because only
badly aligned points are left. The weight of a pick is its share of s.
docs/theory/black-box.md, 5.4; Campbell & Broderick 2019; Pinsler et al. 2019.
"""

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from natsel.capabilities import Capability, Picks, Progress, State, has_vectors, lacking
from natsel.search.clocks import Clocks
from natsel.search.nearest import checked_sizes
from natsel.search.topk import check_k

# Of the sum of all lengths: what is left of the residual below this is rounding.
_LEFT = 1e-12
# Of ‖t‖: alignments closer than this are equal, the lower position goes first.
_TIE = 1e-12


@dataclass(frozen=True)
class FrankWolfe:
    """k points that represent the pool, each with a weight; points without length are never picked by alignment.

    Scores are alignments with what is left at the time of the pick.

    >>> import natsel
    >>> belief = natsel.GaussianFeatures([[1.0, 0.0], [2.0, 0.0], [0.0, 0.0], [0.0, 1.0]])
    >>> selection = natsel.select("acs-fw", belief, k=2)
    >>> selection.ids.tolist(), selection.scores.tolist(), selection.weights.round(decimals=2).tolist()
    ([0, 3], [3.0, 1.0], [2.52, 0.64])
    """

    needs: ClassVar[Capability] = Capability.SCORES | Capability.VECTORS

    def __call__(
        self, state: State, k: int, allowed_N: Tensor, generator: torch.Generator, progress: Progress | None = None
    ) -> Picks:
        """Pick k of the allowed positions; the generator only fills up where nothing is left to represent."""
        if not has_vectors(state):
            raise lacking(state, self)
        check_k(k, int(allowed_N.sum()))
        length_N = checked_sizes(state, allowed_N).sqrt()
        held_T_P = state.held_vectors().double()
        held_length_T = held_T_P.square().sum(1).sqrt()
        descent = _Descent(state.vector_sum().double(), float(length_N.sum() + held_length_T.sum()))
        for vector_P, length in zip(held_T_P, held_length_T.tolist(), strict=True):
            if length > 0:
                descent.step(vector_P / length, length)
        descent.weights.clear()
        tie = _TIE * float(descent.target_P.square().sum().sqrt())
        open_N = allowed_N.to(length_N.device) & (length_N > 0)
        taken: list[int] = []
        scores: list[float] = []
        while len(taken) < k and bool(open_N.any()) and not descent.finished:
            found, score = state.most_aligned(descent.left_P, open_N, tie)
            taken.append(found)
            scores.append(score)
            length = float(length_N[found])
            descent.step(state.vectors(torch.tensor([found]))[0].double() / length, length)
            open_N[found] = False
            if progress is not None:
                progress(1)
        positions, notes = _filled(taken, k, allowed_N, generator)
        missing = k - len(taken)
        if progress is not None and missing:
            progress(missing)
        return Picks(
            positions=torch.tensor(positions, dtype=torch.int64),
            scores=torch.tensor(scores + [0.0] * missing, dtype=torch.float64),
            total=float(sum(scores)),
            weights=torch.tensor(descent.weights + [0.0] * missing, dtype=torch.float64),
            notes=notes,
        )


@dataclass
class _Descent:
    """Where the weighted sum stands: s, what is left of the target, and the weights of the points taken."""

    target_P: Tensor
    total_length: float
    weights: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.reached_P = torch.zeros_like(self.target_P)
        self.left_P = self.target_P.clone()

    @property
    def finished(self) -> bool:
        """Whether what is left is rounding."""
        return not float(self.left_P.square().sum().sqrt()) > _LEFT * self.total_length

    def step(self, direction_P: Tensor, length: float) -> None:
        """Move towards r times a direction as far as brings s nearest to the target."""
        towards_P = self.total_length * direction_P - self.reached_P
        square = float(towards_P.square().sum())
        gamma = float(towards_P @ self.left_P) / square if square > 0 else 0.0
        self.reached_P = self.reached_P + gamma * towards_P
        self.left_P = self.target_P - self.reached_P
        self.weights = [weight * (1 - gamma) for weight in self.weights]
        self.weights.append(gamma * self.total_length / length)


def _filled(
    taken: list[int], k: int, allowed_N: Tensor, generator: torch.Generator
) -> tuple[list[int], tuple[str, ...]]:
    """The picks, filled up at random where fewer than k represent everything, and a note that says so."""
    missing = k - len(taken)
    if missing == 0:
        return taken, ()
    open_N = allowed_N.cpu().clone()
    open_N[taken] = False
    note = (
        f"vectors: after {len(taken)} of k={k} picks nothing was left to represent; the other {missing} were filled in"
        " at random with weight 0",
    )
    return taken + Clocks(len(open_N), generator, open_N.device).fill(open_N, missing), note
