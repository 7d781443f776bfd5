"""Shortlists: the same picks as full scoring, however ceilings relate to scores, and how little is looked at."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import natsel
from natsel.beliefs import Targets
from natsel.capabilities import Capability
from natsel.objectives import EPIG, Context, read
from natsel.search import Greedy, TopK
from natsel.search.greedy import best_of
from natsel.search.shortlist import shortlist
from natsel.search.topk import stable_top_k


@dataclass
class Watched:
    """A state with ceilings that counts what is looked at."""

    offers: ClassVar = Capability.SCORES | Capability.CEILINGS

    score_N: Tensor
    ceiling_N: Tensor
    seen: list[int] = field(default_factory=list)
    told: list[float] = field(default_factory=list)

    def scores(self) -> Tensor:
        return self.score_N

    def ceilings(self, worth: float) -> Tensor:
        self.told.append(worth)
        return self.ceiling_N.clone()

    def scores_at(self, positions: Tensor) -> Tensor:
        self.seen += positions.tolist()
        return self.score_N[positions]


def full(score_N: Tensor, k: int, allowed_N: Tensor) -> list[int]:
    return stable_top_k(k, score_N.masked_fill(~allowed_N, -torch.inf)).tolist()


def everyone(count: int) -> Tensor:
    return torch.ones(count, dtype=torch.bool)


@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(1, 700),
    excess=st.sampled_from([0.0, 0.01, 1.0, 50.0]),
    levels=st.sampled_from([1, 3, 1000]),
)
@settings(deadline=None)
def test_picks_are_those_of_full_scoring(seed, count, excess, levels):
    """Ceilings that hold, tight or loose or out of all order, with ties and without."""
    rng = np.random.default_rng(seed)
    score_N = torch.from_numpy(rng.integers(0, levels, count) / levels)
    ceiling_N = score_N + excess * torch.from_numpy(rng.exponential(size=count))
    allowed_N = torch.from_numpy(rng.random(count) < 0.8)
    allowed_N[int(rng.integers(count))] = True
    free = int(allowed_N.sum())
    for k in {0, 1, free // 3, free}:
        state = Watched(score_N, ceiling_N)
        picks = TopK()(state, k, allowed_N, torch.Generator())
        assert picks.positions.tolist() == full(score_N, k, allowed_N)
        assert picks.scores.tolist() == score_N[picks.positions].tolist()
        assert len(set(state.seen)) == len(state.seen), "a point was looked at twice"
        assert allowed_N[state.seen].all(), "a point that is not allowed was looked at"


def test_what_has_no_hope_is_not_looked_at():
    score_N = torch.arange(10_000).double()
    state = Watched(score_N, score_N + 5)
    positions_M, found_M = shortlist(state, 10, everyone(10_000))
    assert found_M.tolist() == score_N[positions_M].tolist()
    assert len(positions_M) < 64 + 66
    assert positions_M.tolist() == sorted(state.seen)
    assert state.told[0] == -torch.inf
    assert state.told[-1] == 9_990


def test_ceilings_that_tell_nothing_cost_as_much_as_full_scoring():
    score_N = torch.rand(3_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    state = Watched(score_N, torch.full_like(score_N, 2.0))
    assert TopK()(state, 5, everyone(3_000), torch.Generator()).positions.tolist() == full(score_N, 5, everyone(3_000))
    assert len(state.seen) == 3_000


def test_without_ids_ties_go_to_the_lower_position():
    score_N = torch.zeros(500).double()
    score_N[[7, 123, 400, 499]] = 1.0
    ceiling_N = score_N.clone()
    ceiling_N[499] = 9.0  # looked at first
    assert TopK()(Watched(score_N, ceiling_N), 2, everyone(500), torch.Generator()).positions.tolist() == [7, 123]
    state = Watched(score_N, ceiling_N)
    assert best_of(state, *shortlist(state, 1, everyone(500), 1e-10), 1e-10).position == 7
    score_N[499] += 1e-12  # no more than rounding
    assert best_of(state, *shortlist(state, 1, everyone(500), 1e-10), 1e-10).position == 7
    assert best_of(state, *shortlist(state, 1, everyone(500), 1e-10), 1e-10).gap == pytest.approx(0, abs=1e-10)


def test_a_ceiling_at_the_worst_pick_is_looked_at():
    """Position 1 ties with the picks, and its ceiling is no higher."""
    score_N = torch.ones(300).double()
    ceiling_N = score_N + 1
    ceiling_N[1] = 1.0
    assert TopK()(Watched(score_N, ceiling_N), 3, everyone(300), torch.Generator()).positions.tolist() == [0, 1, 2]


def test_nothing_and_everything():
    score_N = torch.rand(90, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    state = Watched(score_N, score_N)
    positions_M, found_M = shortlist(state, 0, everyone(90))
    assert len(positions_M) == len(found_M) == len(state.seen) == 0
    assert len(shortlist(state, 90, everyone(90))[0]) == 90
    assert len(shortlist(state, 1, torch.zeros(90, dtype=torch.bool))[0]) == 0
    with pytest.raises(ValueError, match="k: asked for 91 of 90"):
        TopK()(state, 91, everyone(90), torch.Generator())


def test_nan_is_refused():
    score_N = torch.arange(300).double()
    score_N[299] = torch.nan
    with pytest.raises(ValueError, match="scores: NaN at position 299"):
        TopK()(Watched(score_N, torch.arange(300).double() + 1), 3, everyone(300), torch.Generator())


def test_a_state_may_learn():
    """Ceilings that fall once some scores are known: the rest is not looked at."""
    score_N = torch.rand(5_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    class Learning(Watched):
        def ceilings(self, worth: float) -> Tensor:
            return self.score_N * (1.01 if self.seen else 100.0)

    state = Learning(score_N, score_N)
    assert TopK()(state, 5, everyone(5_000), torch.Generator()).positions.tolist() == full(score_N, 5, everyone(5_000))
    assert len(state.seen) < 300


# EPIG, whose ceilings are estimates once they are tight.


def normals(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def linear(points: int, about: int, draws: int, classes: int, seed: int, scale: float = 1.0) -> tuple[Tensor, Tensor]:
    """Draws of a linear classifier, at inputs near and far."""
    weights = scale * (normals(draws, 8, classes, seed=seed) + normals(8, classes, seed=seed + 1))
    inputs = normals(points + about, 8, seed=seed + 2) * (2 * normals(points + about, 1, seed=seed + 3)).abs()
    log_probs = torch.einsum("nd,kdc->nkc", inputs, weights).log_softmax(-1)
    return log_probs[:points], log_probs[points:]


def trees(points: int, about: int, draws: int, classes: int, seed: int) -> tuple[Tensor, Tensor]:
    """Draws that are certain, of labels that differ."""
    share = normals(points + about, 1, classes, seed=seed).mul(2).softmax(-1).expand(-1, draws, -1)
    noise = torch.rand(share.shape, generator=torch.Generator().manual_seed(seed))
    log_probs = torch.nn.functional.one_hot((share.log() - noise.log().neg().log()).argmax(-1), classes).log()
    return log_probs[:points].float(), log_probs[points:].float()


def rare(points: int, about: int, draws: int, classes: int, seed: int) -> tuple[Tensor, Tensor]:
    """One class is nearly certain; draws differ in the others."""
    logits = 2 * normals(points + about, draws, classes, seed=seed)
    logits[..., 0] += 12 + 4 * normals(points + about, 1, seed=seed + 1)
    log_probs = logits.log_softmax(-1)
    return log_probs[:points], log_probs[points:]


REGIMES = {
    "linear": linear,
    "weak": lambda *shape: linear(*shape, scale=0.2),
    "strong": lambda *shape: linear(*shape, scale=4.0),
    "tiny": lambda *shape: linear(*shape, scale=1e-3),
    "trees": trees,
    "rare": rare,
}


def read_epig(pool: Tensor, about: Tensor, weights=None):
    targets = Targets(natsel.CategoricalSamples(about), weights)
    return read(EPIG(), natsel.CategoricalSamples(pool), Context(targets, None, torch.Generator()))


def same_worth(found: list[int], expected: list[int], score_N: Tensor) -> bool:
    """The same picks, or others of the same worth but for the rounding of float32."""
    return found == expected or torch.allclose(score_N[found], score_N[expected], rtol=1e-5, atol=0)


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("shape", [(1500, 200, 20, 5), (1500, 70, 6, 2)], ids=str)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_epig_picks_are_those_of_full_scoring(regime, shape, seed):
    pool, about = REGIMES[regime](*shape, seed)
    score_N = read_epig(pool, about).scores()
    for k in (1, 10, 60):
        picks = TopK()(read_epig(pool, about), k, everyone(len(pool)), torch.Generator())
        expected = full(score_N, k, everyone(len(pool)))
        assert same_worth(picks.positions.tolist(), expected, score_N), f"k {k}"


# Scores of few certain draws (trees) take few values, and ties must all be looked at.
@pytest.mark.parametrize("regime", [name for name in REGIMES if name != "trees"])
def test_few_points_are_looked_at(regime):
    pool, about = REGIMES[regime](4000, 300, 20, 5, 0)
    state = read_epig(pool, about)
    positions_M, _ = shortlist(state, 10, everyone(4000))
    assert len(positions_M) < 800


def test_a_point_whose_ratio_is_far_from_that_of_the_top_is_found():
    """Its second-order form ranks it behind a thousand others; in full it is the best of all."""
    draws = 40
    weights_K = torch.full((draws,), 0.02 / (draws - 1)).double()
    weights_K[0] = 0.98
    belief = torch.zeros(draws, 2).double()
    # Draws 20 to 39 call the targets 1, and draws 1 to 19 the odd point: these labels never meet.
    about = belief.repeat(300, 1, 1)
    about[:, :, 1] = -torch.inf
    about[:, 20:] = torch.tensor([-torch.inf, 0.0]).double()
    odd = belief.clone()
    odd[:, 1] = -torch.inf
    odd[1:20] = torch.tensor([-torch.inf, 0.0]).double()
    # The others: label 1 a little likelier under the draws that call the targets 1.
    lean_N = torch.linspace(0.97, 1.0, 3000).double()
    pool = torch.full((3000, draws, 2), 0.5).double()
    worth = float(epig_of(odd[None], about, weights_K))
    twice = float(read_weighted(odd[None], about, weights_K).bounds())
    assert worth > 0.49 * twice * 1.9, "the odd point is meant to be worth nearly twice its second-order form"
    step = (2.4 * worth * 0.98 / 0.01) ** 0.5 / 2
    for _ in range(30):  # others worth a little less than the odd one, by bisection of their lean
        pool[:, 20:, 1] = 0.5 + step * lean_N[:, None]
        pool[..., 0] = 1 - pool[..., 1]
        best = float(epig_of(pool[-1:].log(), about, weights_K))
        step *= (0.9 * worth / best) ** 0.5
    pool = pool.log()
    pool[1234] = odd
    state = read_weighted(pool, about, weights_K)
    rough_N = state.bounds() / 2
    score_N = state.scores()
    assert int(score_N.argmax()) == 1234
    assert int((rough_N > rough_N[1234]).sum()) > 1000, "the odd point is meant to be far down the list"
    picks = TopK()(state, 1, everyone(3000), torch.Generator())
    assert picks.positions.tolist() == [1234]


def read_weighted(pool: Tensor, about: Tensor, weights_K: Tensor):
    targets = Targets(natsel.CategoricalSamples(about, weights_K.log()))
    return read(EPIG(), natsel.CategoricalSamples(pool, weights_K.log()), Context(targets, None, torch.Generator()))


def epig_of(pool: Tensor, about: Tensor, weights_K: Tensor) -> Tensor:
    return read_weighted(pool, about, weights_K).scores()


def test_greedy_picks_are_those_of_looking_at_all():
    for regime in ("linear", "rare"):
        pool, about = (x.double() for x in REGIMES[regime](400, 90, 8, 3, 0))
        picks = Greedy()(read_epig(pool, about), 3, everyone(400), torch.Generator())
        state, expected = read_epig(pool, about), []
        for _ in range(3):
            gain_N = state.gains(torch.arange(400))
            gain_N[expected] = -torch.inf
            expected.append(int(gain_N.argmax()))
            state.add(expected[-1])
        assert picks.positions.tolist() == expected
        torch.testing.assert_close(picks.total, state.total)


def test_ceilings_follow_the_points_taken():
    """Also up: labels that tell nothing alone can tell something together."""
    bits = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]])
    pool = torch.nn.functional.one_hot(torch.stack([bits[:, 0], bits[:, 1], bits[:, 1]]), 2).double().log()
    about = torch.nn.functional.one_hot(bits[:, 0] ^ bits[:, 1], 2).double().log()[None]
    state = read_epig(pool, about)
    assert float(state.bounds().max()) < 1e-12
    state.add(0)
    gain_N = state.gains(torch.arange(3))
    assert float(gain_N[1]) == pytest.approx(0.6931472)
    assert (state.bounds() >= gain_N - 1e-12).all()
    assert (state.ceilings(0.1)[1:] >= gain_N[1:] - 1e-12).all()


def test_excluded_points_do_not_raise_the_bar():
    pool, about = linear(1000, 100, 10, 3, 0)
    score_N = read_epig(pool, about).scores()
    allowed_N = everyone(1000)
    allowed_N[score_N.topk(300).indices] = False
    picks = TopK()(read_epig(pool, about), 5, allowed_N, torch.Generator())
    assert picks.positions.tolist() == full(score_N, 5, allowed_N)


def test_a_large_pool_is_compared_by_parts():
    """A whole part may be excluded; few points are looked at, and none twice."""
    score_N = torch.rand(50_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    allowed_N = everyone(50_000)
    allowed_N[10_000:40_000] = False
    state = Watched(score_N, score_N + 0.001)
    positions, scores = shortlist(state, 5, allowed_N)
    assert positions[stable_top_k(5, scores)].tolist() == full(score_N, 5, allowed_N)
    assert len(set(state.seen)) == len(state.seen) < 500
    assert bool(allowed_N[positions].all())
