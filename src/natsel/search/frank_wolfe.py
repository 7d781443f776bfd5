"""Frank–Wolfe search: a few points, with weights, whose weighted sum comes near the sum of all points (ACS-FW).

    t = Σ_n g_n,   r = Σ_n ‖g_n‖,   s = 0                                   over the pool and the points given
    i = argmax over points not taken  g_i/‖g_i‖ · (t − s)                    u = r g_i/‖g_i‖
    γ = (u − s)·(t − s) / ‖u − s‖²,          s ← (1 − γ) s + γ u             exact line search, not clamped

Points given take their steps first, in their order. The residual ‖t − s‖ never grows, also where γ < 0 because only
badly aligned points are left. The weight of a pick is its share of s.
docs/theory/black-box.md, 5.4; Campbell & Broderick 2019; Pinsler et al. 2019.
"""

from copy import copy
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from natsel.capabilities import Capability, Picks, Progress, State, VectorsState, has_vectors, lacking
from natsel.memory import memory_budget
from natsel.rounding import ROUNDING
from natsel.search.clocks import Clocks
from natsel.search.nearest import checked_sizes, report
from natsel.search.topk import check_k

# Of the sum of all lengths: what is left of the residual below this is rounding.
_LEFT = 1e-12
# Of ‖t‖: alignments closer than this are equal.
_TIE = 1e-12
# Vectors that one pass over all points serves, and bytes of those points among which the next picks are guessed.
_TOGETHER = 8
_FEW_BYTES = 1 << 22


@dataclass(frozen=True)
class FrankWolfe:
    """k points that represent the pool, each with a weight; points without length are never picked by alignment.

    Scores are alignments with what is left at the time of the pick.

    >>> import natsel
    >>> belief = natsel.GaussianFeatures([[1.0, 0.0], [2.0, 0.0], [0.0, 0.0], [0.0, 1.0]])
    >>> selection = natsel.select("acs-fw", belief, k=2)
    >>> selection.ids.tolist(), selection.scores.tolist(), selection.weights.round(decimals=2).tolist()
    ([1, 3], [3.0, 1.0], [1.26, 0.64])
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
        tie = _TIE * _length(descent.target_P)
        open_N = allowed_N.to(length_N.device) & (length_N > 0)
        alignments = _Alignments(state, descent, length_N)
        taken: list[int] = []
        scores: list[float] = []
        while len(taken) < k and bool(open_N.any()) and not descent.finished:
            found, score = alignments.most(open_N, tie)
            taken.append(found)
            scores.append(score)
            length = float(length_N[found])
            gamma = descent.step(state.vectors(torch.tensor([found]))[0].double() / length, length)
            alignments.step(found, gamma)
            open_N[found] = False
            report(progress, 1)
        notes: tuple[str, ...] = ()
        if missing := k - len(taken):
            notes = (
                f"vectors: after {len(taken)} of k={k} picks nothing was left to represent; the other {missing} were"
                " filled in at random with weight 0",
            )
            clocks = Clocks(len(allowed_N), generator, torch.device("cpu"))
            taken += clocks.fill(allowed_N, missing, taken)
            report(progress, missing)
        return Picks(
            positions=torch.tensor(taken, dtype=torch.int64),
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
        return not _length(self.left_P) > _LEFT * self.total_length

    def step(self, direction_P: Tensor, length: float) -> float:
        """Move towards r times a direction as far as brings s nearest to the target, and return γ."""
        towards_P = self.total_length * direction_P - self.reached_P
        square = float(towards_P.square().sum())
        gamma = float(towards_P @ self.left_P) / square if square > 0 else 0.0
        self.reached_P = self.reached_P + gamma * towards_P
        self.left_P = self.target_P - self.reached_P
        self.weights = [weight * (1 - gamma) for weight in self.weights]
        self.weights.append(gamma * self.total_length / length)
        return gamma


class _Alignments:
    """g/‖g‖ · (t − s) of all points, roughly, and how far off these numbers are at most.

        a ← (1 − γ) a + γ g/‖g‖·t − γ r g/‖g‖·g_i/‖g_i‖                      after a step towards point i

    A pass over all points takes about as long for a few vectors as for one. One pass serves t − s and the points that
    are likely to be picked next: those that would be picked if there were only the best aligned points. Whether a guess
    was right decides the time, never the picks.
    """

    def __init__(self, state: VectorsState, descent: _Descent, length_N: Tensor) -> None:
        self.state, self.descent, self.length_N = state, descent, length_N
        self.target_N, self.target_off = self._aligned(descent.target_P)
        self.left_N, self.off, self.fresh = self.target_N.clone(), 0.0, False
        self.known: dict[int, Tensor] = {}

    def most(self, open_N: Tensor, tie: float) -> tuple[int, float]:
        """The open point that is best aligned with what is left, and how well."""
        if not self.fresh:
            self.known = {}  # before others are made
            guess_n, direction_n_P = self._guesses(open_N)
            self.left_N, self.off, *products_n_N = self._aligned(self.descent.left_P, direction_n_P)
            self.known, self.fresh = dict(zip(guess_n, products_n_N, strict=True)), True
        open_left_N = self.left_N.masked_fill(~open_N, -torch.inf)
        return self.state.most_aligned(self.descent.left_P, open_left_N, self.off, tie)

    def step(self, position: int, gamma: float) -> None:
        """Follow a step that was taken towards a point."""
        product_N = self.known.pop(position, None)
        self.fresh = product_N is not None
        if product_N is not None:
            reach = gamma * self.descent.total_length
            self.left_N.mul_(1 - gamma).add_(self.target_N, alpha=gamma).sub_(product_N, alpha=reach)
            self.off = abs(1 - gamma) * self.off + abs(gamma) * self.target_off + abs(reach) * self.state.rough
            self.off += ROUNDING * (abs(reach) + _length(self.descent.target_P))

    def _aligned(self, vector_P: Tensor, *directions_n_P: Tensor) -> tuple[Any, ...]:
        """g/‖g‖ · v of all points, by how much it is off at most, and the same products with some directions."""
        length = _length(vector_P)
        unit_1_P = vector_P[None] / length if length > 0 else vector_P[None]
        found_m_N = self.state.aligned(torch.cat([unit_1_P, *directions_n_P]))
        return found_m_N[0].double() * length, self.state.rough * length, *found_m_N[1:]

    def _guesses(self, open_N: Tensor) -> tuple[list[int], Tensor]:
        """Positions that are likely to be picked next, and their directions, [n, P]."""
        size = len(self.descent.left_P)
        few = min(_FEW_BYTES // (8 * size), int(open_N.sum()))
        together = min(_TOGETHER, few, memory_budget() // (64 * max(size, len(open_N))))
        if together < 2:
            return [], self.descent.left_P.new_empty(0, size)
        best_n = self.left_N.masked_fill(~open_N, -torch.inf).topk(few).indices
        direction_n_P = self.state.vectors(best_n).double().div_(self.length_N[best_n, None])
        trial = copy(self.descent)
        guesses: list[int] = []
        for _ in range(together - 1):
            aligned_n = direction_n_P @ trial.left_P
            aligned_n[guesses] = -torch.inf
            guesses.append(int(aligned_n.argmax()))
            trial.step(direction_n_P[guesses[-1]], 1.0)
        return best_n[guesses].tolist(), direction_n_P[guesses]


def _length(vector_P: Tensor) -> float:
    return float(vector_P.square().sum().sqrt())
