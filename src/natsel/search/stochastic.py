"""Stochastic searches: sample a batch without replacement, better scores more often.

    Power     w = s          score ratios; 0 means useless         invariant to scaling the scores
    Softmax   w = exp(s)     score differences                     invariant to shifting the scores
    SoftRank  w = 1 / rank   only the order of the scores          invariant to increasing transforms

with p(i) ∝ w_i^beta, by Gumbel-top-k (`natsel.search.gumbel`): one pass, no loop over the batch. beta = 0 is a uniform
sample, beta = inf is top-k.
docs/theory/stochastic-batches.md, 5 and 6; Kirsch et al. 2023.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from natsel.capabilities import Capability, Picks, Progress, State
from natsel.options import Amount, check_options
from natsel.search.gumbel import INF, LARGE, Rest, check_beta, gumbel_noise, law, perturb
from natsel.search.topk import allowed_scores, check_k, drawn_top_k, refuse_nan, stable_top_k
from natsel.ties import Order, order_of

OnExhausted = Literal["uniform", "order", "raise"]
Ties = Literal["index", "random"]

ROUNDING = -1e-6  # scores between this and 0 are zeros that went negative in floating point


@dataclass(frozen=True)
class _ByWeight(ABC):
    """Sample with p(i) ∝ w_i^beta, where each weight follows from the point's own score."""

    beta: float = 1.0
    on_exhausted: OnExhausted = "uniform"
    needs: ClassVar[Capability] = Capability.SCORES

    def __post_init__(self) -> None:
        check_beta(self.beta)
        check_options(self)

    @abstractmethod
    def log_weights(self, scores_N: Tensor) -> Tensor:
        """ln w of each score, N values."""

    def __call__(
        self, state: State, k: Amount, allowed_N: Tensor, generator: torch.Generator, progress: Progress | None = None
    ) -> Picks:
        """Draw k of the allowed positions."""
        return _search(self, state, k, allowed_N, generator)


@dataclass(frozen=True)
class Power(_ByWeight):
    """Sample with p(i) ∝ score_i^beta: scores are non-negative and 0 means useless (BALD, entropy).

    Negative scores count as 0. Once the positive scores are used up, `on_exhausted` fills the batch
    uniformly, in score order, or raises.

    >>> from types import SimpleNamespace
    >>> state = SimpleNamespace(scores=lambda: torch.tensor([0.0, 0.4, 0.0, 0.1]))
    >>> picks = Power()(state, 2, torch.ones(4, dtype=torch.bool), torch.Generator().manual_seed(0))
    >>> sorted(picks.positions.tolist())
    [1, 3]
    """

    def log_weights(self, scores_N: Tensor) -> Tensor:
        """The logarithm of max(score, 0), N values."""
        return scores_N.clamp_min(0).log()


@dataclass(frozen=True)
class Softmax(_ByWeight):
    """Sample with p(i) ∝ exp(beta · score_i): only score differences matter.

    A score of -inf has weight 0; `on_exhausted` says what happens when only such points are left.

    >>> from types import SimpleNamespace
    >>> state = SimpleNamespace(scores=lambda: torch.tensor([-1.0, 2.0, 0.5]))
    >>> Softmax(beta=1e9)(state, 2, torch.ones(3, dtype=torch.bool), torch.Generator()).positions
    tensor([1, 2])
    """

    def log_weights(self, scores_N: Tensor) -> Tensor:
        """The scores themselves."""
        return scores_N


@dataclass(frozen=True)
class Uniform:
    """Sample uniformly, whatever the scores; the baseline.

    >>> from types import SimpleNamespace
    >>> state = SimpleNamespace(scores=lambda: torch.tensor([1.0, 2.0, 3.0]))
    >>> round(Uniform()(state, 2, torch.ones(3, dtype=torch.bool), torch.Generator()).log_prob, 6)
    -1.791759
    """

    needs: ClassVar[Capability] = Capability.SCORES

    def __call__(
        self, state: State, k: Amount, allowed_N: Tensor, generator: torch.Generator, progress: Progress | None = None
    ) -> Picks:
        """Draw k of the allowed positions."""
        return _search(Softmax(beta=0), state, k, allowed_N, generator)


@dataclass(frozen=True)
class SoftRank:
    """Sample with p(i) ∝ rank_i^-beta, rank 1 the best score: only the order matters.

    Equal scores get different ranks: in the order in which all searches take equals, or in random order with
    ties="random"; `log_prob` is then that of the batch given the ranks drawn.

    >>> from types import SimpleNamespace
    >>> state = SimpleNamespace(scores=lambda: torch.tensor([-1.0, 2.0, 0.5]))
    >>> SoftRank(beta=1e9)(state, 2, torch.ones(3, dtype=torch.bool), torch.Generator()).positions
    tensor([1, 2])
    """

    beta: float = 1.0
    ties: Ties = "index"
    needs: ClassVar[Capability] = Capability.SCORES
    on_exhausted: ClassVar[OnExhausted] = "uniform"  # never happens, no rank has weight 0

    def __post_init__(self) -> None:
        check_beta(self.beta)
        check_options(self)

    def log_weights(self, scores_N: Tensor, order_N: Tensor | None = None) -> Tensor:
        """-log rank; `order_N` are the rows from the best down, among equals the lower position unless given."""
        order_N = stable_top_k(len(scores_N), scores_N) if order_N is None else order_N
        ranks_N = torch.empty(len(scores_N), dtype=torch.float64)
        ranks_N[order_N] = torch.arange(1, len(scores_N) + 1, dtype=torch.float64)
        return -ranks_N.log()

    def __call__(
        self, state: State, k: Amount, allowed_N: Tensor, generator: torch.Generator, progress: Progress | None = None
    ) -> Picks:
        """Draw k of the allowed positions; ranks count the allowed ones only."""
        positions_M, scores_M = allowed_scores(state, allowed_N)
        noise_M = gumbel_noise(len(allowed_N), generator)[positions_M]
        keys = [scores_M]
        if self.ties == "random":
            keys += [torch.rand(len(allowed_N), dtype=torch.float64, generator=generator)[positions_M]]
        log_weights_M = self.log_weights(scores_M, drawn_top_k(len(scores_M), positions_M, order_of(state), *keys))
        return _sample(self, [_Candidates(positions_M, scores_M, log_weights_M, noise_M)], k, order_of(state))


def reservoir_top_k(
    score_blocks: Iterable[Tensor], k: Amount, search: Power | Softmax | Uniform, generator: torch.Generator
) -> Picks:
    """What `search` picks from the concatenated blocks, in one pass and O(k + block) memory.

    The same generator state gives the same noise per position, so the picks equal those of the search on the
    whole pool, however it is cut. SoftRank cannot stream: a rank needs all scores.

    >>> blocks = (torch.tensor([0.0, 0.4]), torch.tensor([0.0]), torch.tensor([0.1]))
    >>> sorted(reservoir_top_k(blocks, 2, Power(), torch.Generator().manual_seed(0)).positions.tolist())
    [1, 3]
    """
    if isinstance(search, Uniform):
        search = Softmax(beta=0)
    if not isinstance(search, _ByWeight):
        raise ValueError(
            f"search: {type(search).__name__} needs all scores at once and cannot stream; "
            "pass Power, Softmax or Uniform, or concatenate the blocks"
        )
    return _sample(search, _weighed(search, score_blocks, generator), k, Order())


class _Candidates(NamedTuple):
    """One row per candidate."""

    positions: Tensor
    scores: Tensor
    log_weights: Tensor
    noise: Tensor


def _weighed(search: _ByWeight, score_blocks: Iterable[Tensor], generator: torch.Generator) -> Iterator[_Candidates]:
    start = 0
    for block in score_blocks:
        scores_M = block.detach().to("cpu", torch.float64)
        positions_M = torch.arange(start, start + len(scores_M))
        refuse_nan("scores", scores_M, positions_M)
        noise_M = gumbel_noise(len(scores_M), generator)
        yield _Candidates(positions_M, scores_M, search.log_weights(scores_M), noise_M)
        start += len(scores_M)


def _search(search: _ByWeight, state: State, k: int, allowed_N: Tensor, generator: torch.Generator) -> Picks:
    positions_M, scores_M = allowed_scores(state, allowed_N)
    noise_M = gumbel_noise(len(allowed_N), generator)
    if len(positions_M) < len(allowed_N):
        noise_M = noise_M[positions_M]
    candidates = _Candidates(positions_M, scores_M, search.log_weights(scores_M), noise_M)
    return _sample(search, [candidates], k, order_of(state))


def _sample(search: _ByWeight | SoftRank, blocks: Iterable[_Candidates], k: int, order: Order) -> Picks:
    """Keep the k best so far, and of all others what the law needs."""
    kept = _Candidates(torch.empty(0, dtype=torch.int64), *torch.empty(3, 0, dtype=torch.float64))
    rest = Rest()
    seen, lowest = 0, (0.0, -1)
    for block in blocks:
        seen += len(block.scores)
        if isinstance(search, Power) and len(block.scores):
            row = int(block.scores.argmin())
            lowest = min(lowest, (float(block.scores[row]), int(block.positions[row])))
        if search.beta == 0:  # w^0 = 1 for every weight, 0 and inf too
            block = block._replace(log_weights=torch.zeros_like(block.scores))
        pool = _Candidates(*map(torch.cat, zip(kept, block, strict=True))) if len(kept.scores) else block
        rows_B = _best(search, pool, min(k, len(pool.scores)), order)
        kept = _Candidates(*(column[rows_B] for column in pool))
        if search.beta < INF:
            rest = rest.joined(_scaled(pool.log_weights, search.beta), except_B=rows_B)
    check_k(k, seen)

    is_fill_B = kept.log_weights == -INF
    # A fill in order is certain once the drawn picks are known.
    drawn_B = kept.log_weights[~is_fill_B] if search.on_exhausted == "order" else kept.log_weights
    return Picks(
        positions=kept.positions,
        scores=kept.scores,
        total=float(kept.scores.sum()),
        perturbed=perturb(kept.log_weights, kept.noise, search.beta),
        log_prob=law(_scaled(drawn_B, search.beta), rest) if search.beta < INF else 0.0,
        notes=(*_negative_note(*lowest), *_fill_note(search, k, int(is_fill_B.sum()))),
    )


def _best(search: _ByWeight | SoftRank, pool: _Candidates, k: int, order: Order) -> Tensor:
    if search.beta < INF:
        key_M, tie_M = perturb(pool.log_weights, pool.noise, search.beta), pool.noise
    else:  # not log score: neighbouring scores can round to one logarithm
        key_M = pool.scores.clamp_min(0) if isinstance(search, Power) else pool.log_weights
        tie_M = torch.zeros_like(pool.noise)
    if search.on_exhausted == "order":
        tie_M = torch.where(pool.log_weights == -INF, pool.scores, tie_M)
    elif search.beta < INF:  # noise parts equals
        return stable_top_k(k, key_M, tie_M)
    return drawn_top_k(k, pool.positions, order, key_M, tie_M)


def _scaled(log_weights_M: Tensor, beta: float) -> Tensor:
    """beta · log w, finite wherever log w is."""
    scaled_M = (log_weights_M * beta).clamp_(-LARGE, LARGE)
    return torch.where(log_weights_M.isinf(), log_weights_M, scaled_M)


def _negative_note(lowest: float, position: int) -> tuple[str, ...]:
    if lowest >= ROUNDING:
        return ()
    found = f"scores: negative ones count as 0 under Power (lowest {lowest:.6g} at position {position})"
    return (f"{found}; use Softmax or SoftRank where 0 does not mean useless",)


def _fill_note(search: _ByWeight | SoftRank, k: int, fills: int) -> tuple[str, ...]:
    if not fills:
        return ()
    found = f"scores: only {k - fills} of k={k} picks have a weight above 0"
    if search.on_exhausted == "raise":
        raise ValueError(f"{found}; lower k or choose on_exhausted='uniform'")
    in_order = search.on_exhausted == "order" or search.beta == INF
    return (f"{found}; the other {fills} were filled in {'in order' if in_order else 'at random'}",)
