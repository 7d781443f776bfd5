"""Stochastic searches: golden laws, exact identities under shared noise, and statistics of many draws.

Statistical tests have fixed seeds and reject at p < 1e-4; those of the law also reject a law slightly off.
"""

import json
import math
import random
from dataclasses import dataclass
from itertools import pairwise, permutations
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from natsel.capabilities import Capability
from natsel.search import (
    Power,
    Softmax,
    SoftRank,
    TopK,
    Uniform,
    gumbel_noise,
    gumbel_top_k,
    ordered_log_prob,
    reservoir_top_k,
    stable_top_k,
    stochastic,
)

INF = math.inf
MODES = {"power": Power, "softmax": Softmax, "softrank": SoftRank}
SURE = 1e-4


def parsed(value):
    if isinstance(value, dict):
        return {key: parsed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [parsed(item) for item in value]
    return float(value) if value in ("inf", "-inf", "nan") else value


GOLDEN_FILE = Path(__file__).parents[1] / "golden" / "04-stochastic-batch.json"
GOLDEN = {case["name"]: parsed(case) for case in json.loads(GOLDEN_FILE.read_text())["cases"]}
LAWS = [
    pytest.param(GOLDEN[name]["inputs"], law, id=f"{name}-{law['mode']}-{law['beta']}")
    for name in GOLDEN
    if name.startswith("law_")
    for law in GOLDEN[name]["expected"]
]


@dataclass(frozen=True)
class State:
    """A state that only knows its scores."""

    scores_N: Tensor
    offers: ClassVar = Capability.SCORES

    def scores(self) -> Tensor:
        return self.scores_N


def tensor(values):
    return torch.as_tensor(values, dtype=torch.float64)


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def pick(search, scores, k, seed=0, allowed=None):
    scores_N = scores if isinstance(scores, Tensor) else tensor(scores)
    allowed_N = torch.ones(len(scores_N), dtype=torch.bool) if allowed is None else torch.as_tensor(allowed)
    generator = seed if isinstance(seed, torch.Generator) else seeded(seed)
    return search(State(scores_N), k, allowed_N, generator)


def scaled_log_weights(search, scores):
    return search.beta * search.log_weights(tensor(scores))


def close(found, expected):
    return found == pytest.approx(expected, rel=1e-10, abs=1e-10)


def chi_square(counts, probabilities, draws):
    """The p-value; outcomes of probability 0 must not occur at all."""
    counts, expected = np.asarray(counts, float), np.asarray(probabilities) * draws
    assert counts[expected == 0].sum() == 0
    assert counts.sum() == draws
    return stats.chisquare(counts[expected > 0], expected[expected > 0]).pvalue


# Golden values


def test_all_law_cases_are_here():
    assert len({param.id.split("-")[0] for param in LAWS}) == 10
    assert len(LAWS) == 29


@pytest.mark.parametrize(("inputs", "law"), LAWS)
def test_golden_law(inputs, law):
    search, k = MODES[law["mode"]](beta=law["beta"]), inputs["k"]
    log_weights_N = scaled_log_weights(search, inputs["scores_N"])
    count = len(log_weights_N)
    for ordered in law["ordered"]:
        log_prob = ordered_log_prob(log_weights_N, torch.tensor(ordered["indices"]))
        assert close(log_prob, ordered["log_prob"])
        assert close(math.exp(log_prob), ordered["prob"])
    first_N = [math.exp(ordered_log_prob(log_weights_N, torch.tensor([i]))) for i in range(count)]
    assert close(first_N, law["first_pick_N"])
    inclusion_N = torch.zeros(count, dtype=torch.float64)
    for order in permutations(range(count), k):
        inclusion_N[list(order)] += math.exp(ordered_log_prob(log_weights_N, torch.tensor(order)))
    assert close(inclusion_N.tolist(), law["inclusion_N"])


@pytest.mark.parametrize(("inputs", "law"), LAWS)
def test_golden_law_of_what_the_search_picks(inputs, law):
    search = MODES[law["mode"]](beta=law["beta"])
    known = {tuple(ordered["indices"]): ordered["log_prob"] for ordered in law["ordered"]}
    met = 0
    for seed in range(20):
        picks = pick(search, tensor(inputs["scores_N"]), inputs["k"], seed)
        order = tuple(picks.positions.tolist())
        assert known.get(order) != -INF
        if order in known:
            met += 1
            assert close(picks.log_prob, known[order])
    assert met > 0


@pytest.mark.parametrize("run", GOLDEN["given_noise"]["expected"]["runs"], ids=lambda r: f"{r['mode']}-{r['beta']}")
def test_golden_given_noise(run, monkeypatch):
    inputs = GOLDEN["given_noise"]["inputs"]
    noise_N = -(-tensor(inputs["uniforms_N"]).log()).log()
    assert close(noise_N.tolist(), GOLDEN["given_noise"]["expected"]["gumbel_N"])
    perturbed = run["perturbed_k (log w + g/beta)"]
    search, scores = MODES[run["mode"]](beta=run["beta"]), tensor(inputs["scores_N"])

    positions_B, perturbed_B = gumbel_top_k(search.log_weights(scores), inputs["k"], noise_N, run["beta"])
    assert positions_B.tolist() == run["indices"]
    assert close(perturbed_B.tolist(), perturbed)

    monkeypatch.setattr(stochastic, "gumbel_noise", lambda count, generator: noise_N)
    picks = pick(search, scores, inputs["k"])
    assert picks.positions.tolist() == run["indices"]
    assert close(picks.perturbed.tolist(), perturbed)
    assert close(picks.log_prob, run["log_prob"])
    assert close(picks.scores.tolist(), scores[run["indices"]].tolist())
    assert close(picks.total, float(scores[run["indices"]].sum()))


@pytest.mark.parametrize("mode", MODES)
def test_golden_limits(mode):
    inputs, expected = GOLDEN["limits"]["inputs"], GOLDEN["limits"]["expected"]
    for seed in range(20):
        coldest = pick(MODES[mode](beta=INF), inputs["scores_N"], inputs["k"], seed)
        assert coldest.positions.tolist() == expected["beta_inf_indices"]
        assert coldest.log_prob == 0.0
    hottest = pick(MODES[mode](beta=0), inputs["scores_N"], inputs["k"])
    assert close(hottest.log_prob, expected["beta_0_log_prob_of_3"])
    assert close(hottest.log_prob, pick(Uniform(), inputs["scores_N"], inputs["k"]).log_prob)


@pytest.mark.parametrize("search", [Power(beta=0), Softmax(beta=0), SoftRank(beta=0), Uniform()], ids=repr)
def test_beta_zero_is_uniform(search):
    generator, draws = seeded(5), 300
    orders = list(permutations(range(4), 2))
    counts = dict.fromkeys(orders, 0)
    for _ in range(draws):
        # 0 to the power 0 is 1: a zero score is no obstacle here.
        counts[tuple(pick(search, [0.0, 0.9, 0.9, 0.1], 2, generator).positions.tolist())] += 1
    golden = GOLDEN["limits"]["expected"]["beta_0_ordered_pair_prob"]
    assert chi_square(list(counts.values()), [golden] * 12 / np.float64(12 * golden), draws) > SURE


def test_golden_infinite_scores():
    inputs, expected = GOLDEN["infinite_scores"]["inputs"], GOLDEN["infinite_scores"]["expected"]
    for ordered in expected["ordered"]:
        log_prob = ordered_log_prob(tensor(inputs["scores_N"]), torch.tensor(ordered["indices"]))
        assert close(math.exp(log_prob), ordered["prob"])
    generator, draws = seeded(1), 600
    found = [tuple(pick(Softmax(), inputs["scores_N"], 3, generator).positions.tolist()) for _ in range(draws)]
    orders = list(permutations(range(5), 3))
    law = [math.exp(ordered_log_prob(tensor(inputs["scores_N"]), torch.tensor(order))) for order in orders]
    assert chi_square([found.count(order) for order in orders], law, draws) > SURE


def test_golden_constants():
    inputs, expected = GOLDEN["constants"]["inputs"], GOLDEN["constants"]["expected"]
    draws = 400_000
    noise = gumbel_noise(draws, seeded(2))
    for beta, mean, std in zip(inputs["betas"], expected["mean"], expected["std"], strict=True):
        eps = stochastic.perturb(torch.zeros(draws, dtype=torch.float64), noise, beta)
        assert float(eps.mean()) == pytest.approx(mean, abs=4 * std / draws**0.5)
        # The variance of a squared Gumbel deviation is 4.4 squared variances (kurtosis 5.4).
        assert float(eps.std()) == pytest.approx(std, rel=4 * (4.4 / draws) ** 0.5 / 2)
    for count in (10_000, 100_000):
        ranked = SoftRank().log_weights(torch.arange(count, dtype=torch.float64))
        best = math.exp(ordered_log_prob(ranked, torch.tensor([count - 1])))
        assert close(best, expected["softrank_best_beta1"][f"N={count}"])
    ranked = 8 * SoftRank().log_weights(torch.arange(1000, dtype=torch.float64))
    assert close(math.exp(ordered_log_prob(ranked, torch.tensor([999]))), expected["softrank_best_beta8_limit"])
    scores = torch.cat([torch.ones(1000), torch.zeros(59_000)])
    share = 1000 * math.exp(ordered_log_prob(scores, torch.tensor([0])))
    assert close(share, expected["softmax_share_of_1000_points_at_1_nat_with_59000_at_0_beta1"])


# The law

SCORES = [0.5, 0.2, 0.1, 0.0]
SEARCHES = [cls(beta=beta) for cls in MODES.values() for beta in (1.0, 2.0)]


def law_of_pairs(search, scores):
    log_weights_N = scaled_log_weights(search, scores)
    orders = list(permutations(range(len(scores)), 2))
    return orders, [math.exp(ordered_log_prob(log_weights_N, torch.tensor(order))) for order in orders]


@pytest.mark.parametrize("search", SEARCHES, ids=repr)
def test_gumbel_top_k_is_sampling_without_replacement(search):
    draws, log_weights_N = 200_000, search.log_weights(tensor(SCORES))
    noise_D_N = gumbel_noise(draws * 4, seeded(11)).view(draws, 4)
    pairs_D_2 = (log_weights_N + noise_D_N / search.beta).topk(2, dim=1).indices
    for row in range(500):  # the vectorised pairs are those of the library
        found, _ = gumbel_top_k(log_weights_N, 2, noise_D_N[row], search.beta)
        assert found.tolist() == pairs_D_2[row].tolist()

    orders, law = law_of_pairs(search, SCORES)
    counts = torch.bincount(pairs_D_2 @ torch.tensor([4, 1]), minlength=16)
    counts = [int(counts[4 * a + b]) for a, b in orders]
    assert chi_square(counts, law, draws) > SURE
    first_N = torch.softmax(scaled_log_weights(search, SCORES), 0).numpy()
    first_counts = torch.bincount(pairs_D_2[:, 0], minlength=4).numpy()
    assert chi_square(first_counts, first_N, draws) > SURE

    colder = type(search)(beta=search.beta * 1.05)
    assert chi_square(counts, law_of_pairs(colder, SCORES)[1], draws) < SURE


@pytest.mark.parametrize("search", SEARCHES[::2], ids=repr)
def test_the_searches_follow_the_law(search):
    generator, draws = seeded(12), 800
    scores = [0.1, 0.5, 0.0, 0.2, 0.9]
    allowed = [True, True, True, True, False]
    found = [tuple(pick(search, scores, 2, generator, allowed).positions.tolist()) for _ in range(draws)]
    orders, law = law_of_pairs(search, scores[:4])
    assert chi_square([found.count(order) for order in orders], law, draws) > SURE
    wrong = law_of_pairs(type(search)(beta=2.0), scores[:4])[1]
    assert chi_square([found.count(order) for order in orders], wrong, draws) < SURE


@pytest.mark.parametrize(("alpha", "shift"), [(1.0, 0.0), (0.5, 2.0), (3.0, -1.0)])
def test_gumbel_is_closed_under_affine_maps(alpha, shift):
    noise = gumbel_noise(100_000, seeded(3))
    moved = stochastic.perturb(torch.full_like(noise, shift), noise, beta=1 / alpha)
    assert stats.kstest(moved.numpy(), stats.gumbel_r(loc=shift, scale=alpha).cdf).pvalue > SURE
    assert stats.kstest(moved.numpy(), stats.gumbel_r(loc=shift, scale=alpha * 1.03).cdf).pvalue < SURE


# Identities under shared noise

finite = st.floats(-5, 5, allow_subnormal=False)
positive = st.floats(1e-3, 10)
some_beta = st.sampled_from([0.25, 0.5, 1.0, 2.0, 8.0])
seeds = st.integers(0, 10_000)


@settings(deadline=None)
@given(st.lists(finite, min_size=2, max_size=20), some_beta, seeds)
def test_positive_scaling_selects_the_same(scores, beta, seed):
    log_weights_N, noise_N = tensor(scores), gumbel_noise(len(scores), seeded(seed))
    k = len(scores) // 2
    cold, perturbed = gumbel_top_k(log_weights_N, k, noise_N, beta)
    scaled, scaled_perturbed = gumbel_top_k(beta * log_weights_N, k, noise_N)
    assert cold.tolist() == scaled.tolist()
    assert close((beta * perturbed).tolist(), scaled_perturbed.tolist())


@settings(deadline=None)
@given(st.lists(positive, min_size=2, max_size=20), some_beta, seeds, st.floats(0.01, 100))
def test_invariances_and_relations_give_identical_picks(scores, beta, seed, constant):
    scores = tensor(scores)
    k = max(1, len(scores) // 2)

    def same(search, values, other, other_values):
        one, two = pick(search, values, k, seed), pick(other, other_values, k, seed)
        assert one.positions.tolist() == two.positions.tolist()
        assert one.log_prob == pytest.approx(two.log_prob, rel=1e-9, abs=1e-9)

    same(Softmax(beta), scores, Softmax(beta), scores + constant)
    same(Power(beta), scores, Power(beta), scores * constant)
    same(Power(beta), scores, Softmax(beta), scores.log())
    same(Power(beta), scores, Power(beta / 2), scores**2)
    same(Softmax(beta), scores, Softmax(beta / constant), scores * constant)
    ranks = 1 + torch.tensor([int((scores > s).sum() + (scores[:i] == s).sum()) for i, s in enumerate(scores)])
    same(SoftRank(beta), scores, Power(beta), 1 / ranks.double())
    same(SoftRank(beta), scores, SoftRank(beta), -ranks)


@settings(deadline=None)
@given(
    st.lists(st.integers(-12, 12), min_size=2, max_size=20),
    some_beta,
    seeds,
    st.sampled_from(["index", "random"]),
)
def test_soft_rank_uses_the_order_only(quarters, beta, seed, ties):
    scores, search = tensor(quarters) / 4, SoftRank(beta, ties=ties)
    expected = pick(search, scores, 2, seed)
    for transformed in (scores.exp(), scores**3, 7 * scores - 100):
        found = pick(search, transformed, 2, seed)
        assert found.positions.tolist() == expected.positions.tolist()
        assert found.log_prob == expected.log_prob


@settings(deadline=None)
@given(st.lists(st.floats(0, 1e3), min_size=1, max_size=20), seeds, st.data())
def test_infinite_beta_takes_the_largest(scores, seed, data):
    """As top-k does, which besides takes scores that differ by rounding as equal."""
    k = data.draw(st.integers(0, len(scores)))
    neighbours = [math.nextafter(score, INF) for score in scores]  # their logarithms often coincide
    scores = tensor(scores + neighbours)
    expected = stable_top_k(k, scores)
    for cls in MODES.values():
        found = pick(cls(beta=INF), scores, k, seed)
        assert found.positions.tolist() == expected.tolist()
        assert found.scores.tolist() == scores[expected].tolist()
        assert found.perturbed.tolist() == cls().log_weights(scores)[found.positions].tolist()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(5))
def test_large_beta_is_top_k_where_gaps_are_wide(mode, seed):
    # Gaps of 1e-3 in log-weight times 1e6 are 1000 units of noise; those of 100 ranks are wider still.
    logs = torch.randperm(100, generator=seeded(seed)).double() * 1e-3
    scores = logs.exp() if mode == "power" else logs
    found = pick(MODES[mode](beta=1e6), scores, 10, seed)
    assert found.positions.tolist() == pick(TopK(), scores, 10).positions.tolist()
    assert found.log_prob == pytest.approx(0.0, abs=1e-12)
    warm = pick(MODES[mode](beta=1.0), scores, 10, seed)
    assert warm.positions.tolist() != found.positions.tolist()


@settings(deadline=None)
@given(st.lists(positive, min_size=3, max_size=4, unique=True), some_beta, st.sampled_from(sorted(MODES)))
def test_probability_is_monotone_in_the_score(scores, beta, mode):
    search = MODES[mode](beta=beta)
    first_N = torch.softmax(scaled_log_weights(search, scores), 0)
    orders, law = law_of_pairs(search, scores)
    inclusion = [sum(p for order, p in zip(orders, law, strict=True) if i in order) for i in range(len(scores))]
    ascending = sorted(range(len(scores)), key=lambda i: scores[i])
    for low, high in pairwise(ascending):
        assert first_N[low] <= first_N[high]
        assert inclusion[low] <= inclusion[high] + 1e-12


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([0.0, 0.0, 1e-300, 0.3, 2.0]), min_size=1, max_size=15),
    some_beta,
    seeds,
    st.data(),
)
def test_power_takes_zero_scores_last(scores, beta, seed, data):
    k = data.draw(st.integers(1, len(scores)))
    positive_count = sum(score > 0 for score in scores)
    picks = pick(Power(beta), scores, k, seed)
    assert (picks.scores[:positive_count] > 0).all()
    assert (picks.scores[positive_count:] == 0).all()
    assert bool(picks.notes) == (k > positive_count)


@pytest.mark.parametrize("search", [Power(), Softmax()], ids=repr)
def test_exhausted_fill_is_uniform(search):
    zero = 0.0 if isinstance(search, Power) else -INF
    scores, generator, draws = [zero, 0.4, zero, 0.1, zero], seeded(4), 600
    orders = list(permutations([0, 2, 4], 2))
    found = [tuple(pick(search, scores, 4, generator).positions.tolist()) for _ in range(draws)]
    assert {frozenset(order[:2]) for order in found} == {frozenset({1, 3})}
    assert chi_square([[order[2:] for order in found].count(o) for o in orders], [1 / 6] * 6, draws) > SURE


# Mechanics

any_score = st.one_of(finite, st.sampled_from([0.0, INF, -INF]))
any_search = st.sampled_from(
    [cls(beta=beta) for cls in MODES.values() for beta in (0, 1e-310, 0.5, 3.0, 1e300, INF)]
    + [
        SoftRank(ties="random"),
        Power(on_exhausted="order"),
        Softmax(beta=INF, on_exhausted="order"),
        Uniform(),
    ]
)


@settings(deadline=None)
@given(st.lists(any_score, min_size=1, max_size=12), any_search, seeds, st.data())
def test_picks_are_valid_and_reproducible(scores, search, seed, data):
    allowed = data.draw(st.lists(st.booleans(), min_size=len(scores), max_size=len(scores)))
    k = data.draw(st.integers(0, sum(allowed)))
    scores_N, allowed_N = tensor(scores), torch.tensor(allowed)
    copies = scores_N.clone(), allowed_N.clone()
    picks = pick(search, scores_N, k, seed, allowed_N)
    assert torch.equal(scores_N, copies[0])
    assert torch.equal(allowed_N, copies[1])

    order = picks.positions.tolist()
    assert len(set(order)) == len(order) == k
    assert all(allowed[i] for i in order)
    assert picks.scores.tolist() == [scores[i] for i in order]
    assert picks.positions.dtype == torch.int64
    assert picks.scores.dtype == picks.perturbed.dtype == torch.float64
    assert not picks.perturbed.isnan().any()
    assert picks.perturbed.tolist() == sorted(picks.perturbed.tolist(), reverse=True)
    assert -INF < picks.log_prob <= 1e-12

    again = pick(search, scores_N, k, seed, allowed_N)
    assert again.positions.tolist() == order
    assert again.log_prob == picks.log_prob
    # float32 scores of the same value, and so scores from any device, give the same picks.
    rounded = scores_N.float()
    narrow, wide = (pick(search, s, k, seed, allowed_N) for s in (rounded, rounded.double()))
    assert narrow.positions.tolist() == wide.positions.tolist()


@settings(deadline=None)
@given(
    st.lists(any_score, min_size=1, max_size=12),
    st.sampled_from([Power(2.0), Softmax(), Uniform()]),
    seeds,
    st.data(),
)
def test_exclusion_leaves_the_noise_of_the_others_alone(scores, search, seed, data):
    allowed = data.draw(st.lists(st.booleans(), min_size=len(scores), max_size=len(scores)))
    everything = pick(search, scores, len(scores), seed)
    picks = pick(search, scores, sum(allowed), seed, allowed)
    assert picks.positions.tolist() == [i for i in everything.positions.tolist() if allowed[i]]

    if isinstance(search, Uniform):
        log_weights_N = torch.zeros(len(scores), dtype=torch.float64)
    else:
        log_weights_N = scaled_log_weights(search, scores)
    k = sum(allowed) // 2
    fewer = pick(search, scores, k, seed, allowed)
    assert close(fewer.log_prob, ordered_log_prob(log_weights_N, fewer.positions, torch.tensor(allowed)))
    if not all(allowed):
        outsider = torch.tensor([allowed.index(False)])
        assert ordered_log_prob(log_weights_N, outsider, torch.tensor(allowed)) == -INF


def test_soft_rank_counts_allowed_points_only():
    picks = pick(SoftRank(), [9.0, 8.0, 7.0, 1.0], 1, allowed=[False, False, False, True])
    assert close(picks.log_prob, 0.0)
    assert close(float(picks.perturbed), float(gumbel_noise(4, seeded(0))[3]))  # rank 1, not rank 4


@pytest.mark.parametrize("search", [Power(), Softmax(), SoftRank(ties="random"), Uniform()], ids=repr)
def test_only_the_given_generator_is_used(search):
    torch_state, python_state, numpy_state = torch.get_rng_state(), random.getstate(), np.random.get_state()  # noqa: NPY002
    generator = seeded(0)
    before = generator.get_state()
    pick(search, torch.linspace(0.1, 1, 50), 5, generator)
    assert not torch.equal(generator.get_state(), before)
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert random.getstate() == python_state
    assert np.array_equal(np.random.get_state()[1], numpy_state[1])  # noqa: NPY002
    batches = {tuple(pick(search, torch.linspace(0.1, 1, 50), 5, seed).positions.tolist()) for seed in range(10)}
    assert len(batches) == 10


def test_noise_is_one_stream_however_cut():
    whole = gumbel_noise(3000, seeded(8))
    generator = seeded(8)
    parts = [gumbel_noise(size, generator) for size in (1, 999, 0, 17, 1983)]
    assert torch.equal(torch.cat(parts), whole)
    assert whole.dtype == torch.float64
    uniforms = torch.rand(3000, dtype=torch.float64, generator=seeded(8))
    assert torch.allclose(whole, -(-torch.log1p(-uniforms)).log(), rtol=1e-13, atol=1e-13)


def test_noise_is_finite_even_at_the_edge_of_the_uniform(monkeypatch):
    edge = 1 - 2.0**-53
    monkeypatch.setattr(stochastic.torch, "rand", lambda count, **_: tensor([0.0, edge]))
    low_high = gumbel_noise(2, seeded(0)).tolist()
    assert low_high[0] == pytest.approx(-math.log(2.0**-1022))
    assert low_high[1] == pytest.approx(-math.log(53 * math.log(2)))


streams = st.sampled_from(
    [
        Power(),
        Power(2.0, "order"),
        Softmax(),
        Softmax(3.0, "order"),
        Power(0),
        Power(INF),
        Softmax(INF, "order"),
        Uniform(),
    ]
)


@settings(deadline=None)
@given(st.lists(st.lists(any_score, max_size=6), max_size=6), streams, seeds, st.data())
def test_streaming_equals_batch(blocks, search, seed, data):
    scores = [score for block in blocks for score in block]
    assume(scores)
    k = data.draw(st.integers(0, len(scores)))
    batch = pick(search, tensor(scores), k, seed)
    stream = reservoir_top_k((tensor(block) for block in blocks), k, search, seeded(seed))
    assert stream.positions.tolist() == batch.positions.tolist()
    assert stream.scores.tolist() == batch.scores.tolist()
    assert stream.perturbed.tolist() == batch.perturbed.tolist()
    assert close(stream.log_prob, batch.log_prob)
    assert stream.total == batch.total or math.isnan(stream.total)  # inf - inf
    assert stream.notes == batch.notes


def test_streaming_a_long_pool_in_uneven_blocks():
    scores = torch.rand(20_000, dtype=torch.float64, generator=seeded(1))
    batch = pick(Power(4.0), scores, 100, seed=2)
    for sizes in ([20_000], [1, 19_999], [50] * 400):
        stream = reservoir_top_k(iter(scores.split(sizes)), 100, Power(4.0), seeded(2))
        assert stream.positions.tolist() == batch.positions.tolist()
        assert close(stream.log_prob, batch.log_prob)


def test_streaming_refusals():
    with pytest.raises(ValueError, match="search: SoftRank needs all scores at once"):
        reservoir_top_k([tensor([1.0])], 1, SoftRank(), seeded(0))
    with pytest.raises(ValueError, match="scores: NaN at position 3"):
        reservoir_top_k([tensor([1.0, 2.0]), tensor([1.0, torch.nan])], 1, Power(), seeded(0))
    with pytest.raises(ValueError, match="k: asked for 3 of 2 candidates"):
        reservoir_top_k([tensor([1.0]), tensor([2.0])], 3, Power(), seeded(0))
    with pytest.raises(ValueError, match="only 1 of k=2 picks"):
        reservoir_top_k([tensor([1.0]), tensor([0.0])], 2, Power(on_exhausted="raise"), seeded(0))


def overlap(search, scores_N, k, draws=50):
    """Mean share of the true top k in a batch; the same noise for every search."""
    top = set(pick(TopK(), scores_N, k).positions.tolist())
    batches = [pick(search, scores_N, k, seed).positions.tolist() for seed in range(draws)]
    return sum(len(top & set(batch)) for batch in batches) / (draws * k)


@pytest.mark.parametrize("mode", MODES)
def test_overlap_with_top_k_grows_with_beta(mode):
    scores = torch.rand(100, dtype=torch.float64, generator=seeded(6))
    overlaps = [overlap(MODES[mode](beta=beta), scores, 20) for beta in (0, 1, 4, 16)]
    assert overlaps[0] == pytest.approx(0.2, abs=0.03)
    assert all(colder > warmer + 0.02 for warmer, colder in pairwise(overlaps))


@pytest.mark.parametrize("mode", ["power", "softmax"])
def test_overlap_with_top_k_falls_as_a_bounded_pool_grows(mode):
    pools = [torch.rand(count, dtype=torch.float64, generator=seeded(7)) for count in (100, 1000, 10_000)]
    small, middle, large = (overlap(MODES[mode](beta=4.0), pool, 20) for pool in pools)
    assert small > 3 * middle > 9 * large


def test_soft_rank_overlap_depends_on_beta_not_on_the_pool():
    for count in (100, 1000):
        scores = torch.rand(count, dtype=torch.float64, generator=seeded(7))
        assert overlap(SoftRank(beta=4.0), scores, 20, draws=100) == pytest.approx(0.86, abs=0.02)


class Work(TorchDispatchMode):
    """How many elements the operations of torch read and wrote, and how many operations there were."""

    def __init__(self):
        super().__init__()
        self.elements = self.operations = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        self.operations += 1
        self.elements += sum(part.numel() for part in tree_leaves((args, kwargs, found)) if isinstance(part, Tensor))
        return found


@pytest.mark.parametrize("search", [Power(), Softmax(), SoftRank(), Uniform()], ids=repr)
def test_work_does_not_grow_with_k(search):
    scores = torch.rand(100_000, dtype=torch.float64, generator=seeded(0))
    few, many = Work(), Work()
    with few:
        pick(search, scores, 10)
    with many:
        pick(search, scores, 500)
    assert few.elements > len(scores)  # it does count
    # What the 490 further picks cost may depend on them, not on the pool: a loop over picks would read it 490 times.
    assert many.elements < few.elements + 0.5 * len(scores)
    assert many.operations <= few.operations + 10


def test_a_batch_of_one_is_a_sample_not_the_argmax():
    scores = [0.5, 0.2, 0.1]
    for cls in MODES.values():
        assert {int(pick(cls(), scores, 1, seed).positions) for seed in range(50)} == {0, 1, 2}
    assert {int(pick(TopK(), scores, 1, seed).positions) for seed in range(50)} == {0}


# Edge cases


@pytest.mark.parametrize("search", [Power(), Softmax(), SoftRank(), Uniform(), Power(0), Softmax(INF)], ids=repr)
def test_nan_is_named_by_its_position_in_the_pool(search):
    scores = [0.1, torch.nan, 0.3, torch.nan]
    with pytest.raises(ValueError, match=r"scores: NaN at position 1 \(2 in all\)"):
        pick(search, scores, 1)
    with pytest.raises(ValueError, match="NaN at position 3"):
        pick(search, scores, 1, allowed=[True, False, True, True])
    assert set(pick(search, scores, 2, allowed=[True, False, True, False]).positions.tolist()) == {0, 2}


@pytest.mark.parametrize("search", [Power(), Softmax(), SoftRank(), Uniform()], ids=repr)
def test_more_than_there_are_is_refused(search):
    with pytest.raises(ValueError, match="k: asked for 3 of 2 candidates"):
        pick(search, [0.1, 0.2, 0.3], 3, allowed=[True, True, False])
    empty = pick(search, torch.empty(0), 0)
    assert (empty.positions.tolist(), empty.total, empty.log_prob) == ([], 0.0, 0.0)


@pytest.mark.parametrize("cls", MODES.values())
@pytest.mark.parametrize("beta", [-1.0, -1e-300, torch.nan, -INF])
def test_beta_must_not_be_negative(cls, beta):
    with pytest.raises(ValueError, match="beta: found"):
        cls(beta=beta)
    with pytest.raises(ValueError, match="beta: found"):
        gumbel_top_k(tensor([1.0]), 1, tensor([0.0]), beta)


def test_options_are_checked():
    for cls in (Power, Softmax):
        with pytest.raises(ValueError, match="on_exhausted: expected 'uniform', 'order' or 'raise', found 'never'; "):
            cls(on_exhausted="never")
    with pytest.raises(ValueError, match="ties: expected 'index' or 'random', found 'mean'; "):
        SoftRank(ties="mean")


def test_power_clamps_negative_scores_and_says_so():
    noted = pick(Power(), [0.5, -2e-6, 0.1, -3e-6], 2)
    assert len(noted.notes) == 1
    assert "lowest -3e-06 at position 3" in noted.notes[0]
    assert sorted(noted.positions.tolist()) == [0, 2]
    assert pick(Power(), [0.5, -9e-7, 0.1], 2).notes == ()
    assert pick(Power(), [0.5, -1.0, 0.1], 2, allowed=[True, False, True]).notes == ()
    assert pick(Softmax(), [0.5, -1.0, 0.1], 2).notes == ()
    filled = pick(Power(), [0.5, -1.0, 0.1], 3)
    assert filled.scores.tolist()[-1] == -1.0  # the score as it was given
    assert filled.perturbed.tolist()[-1] == -INF
    assert len(filled.notes) == 2


@pytest.mark.parametrize("beta", [1.0, INF])
def test_on_exhausted(beta):
    scores = [-0.5, 0.0, 0.3, -0.1, 0.0]
    with pytest.raises(ValueError, match=r"scores: only 1 of k=2 picks .* lower k or choose on_exhausted='uniform'"):
        pick(Power(beta, "raise"), scores, 2)
    assert pick(Power(beta, "raise"), scores, 1).positions.tolist() == [2]
    ordered = pick(Power(beta, "order"), scores, 5)
    assert ordered.positions.tolist() == [2, 1, 4, 3, 0]
    assert ordered.log_prob == 0.0  # one positive score, and the rest is certain
    with pytest.raises(ValueError, match="only 1 of k=2 picks"):
        pick(Softmax(beta, "raise"), [-INF, 1.0], 2)
    assert pick(Softmax(beta, "order"), [-INF, 1.0, -INF, -INF], 4).positions.tolist() == [1, 0, 2, 3]


def test_log_prob_of_an_ordered_fill_counts_the_drawn_picks_only():
    picks = pick(Power(on_exhausted="order"), [0.0, 0.4, 0.1, 0.0], 3, seed=1)
    drawn = ordered_log_prob(tensor([0.0, 0.4, 0.1, 0.0]).log(), picks.positions[:2])
    assert drawn < -0.1
    assert close(picks.log_prob, drawn)


def test_soft_rank_ties():
    generator, draws = seeded(9), 500
    counts = {ties: [0, 0, 0] for ties in ("index", "random")}
    for ties, count in counts.items():
        for _ in range(draws):
            count[int(pick(SoftRank(ties=ties), [0.3, 0.3, 0.3], 1, generator).positions)] += 1
    assert chi_square(counts["index"], [6 / 11, 3 / 11, 2 / 11], draws) > SURE
    assert chi_square(counts["random"], [1 / 3] * 3, draws) > SURE
    firsts = {int(pick(SoftRank(INF, "random"), [0.3, 0.1, 0.3], 1, seed).positions) for seed in range(30)}
    assert firsts == {0, 2}


def test_soft_rank_ranks_ties_by_position_in_a_large_pool():
    # An unstable sort shuffles equal values once there are many of them.
    ranks_N = torch.arange(1, 100_001, dtype=torch.float64)
    assert torch.equal(SoftRank().log_weights(torch.zeros(100_000, dtype=torch.float64)), -ranks_N.log())


def test_equal_scores_are_sampled_uniformly_however_cold():
    # Here the noise is far below the rounding of the score; the tie must not fall back on the position.
    for search in (Power(1e25), Softmax(1e25)):
        generator, draws = seeded(10), 300
        counts = [0, 0, 0, 0]
        for _ in range(draws):
            counts[int(pick(search, [0.7, 0.7, 0.2, 0.7], 1, generator).positions)] += 1
        assert chi_square(counts, [1 / 3, 1 / 3, 0, 1 / 3], draws) > SURE


def test_extreme_beta_keeps_the_groups_apart():
    # noise / beta overflows: without a guard zero weights would turn NaN or overtake.
    picks = pick(Power(1e-310), [0.0, 0.5, 0.0, INF, 0.2], 5, seed=3)
    assert picks.positions.tolist()[0] == 3
    assert set(picks.positions.tolist()[1:3]) == {1, 4}
    # beta * log w overflows: these are still no zero weights.
    cold = pick(Softmax(1e300), [1e10, -1e10, -INF], 3)
    assert cold.positions.tolist() == [0, 1, 2]
    assert cold.log_prob == 0.0


def test_gumbel_top_k_orders_infinite_weights_by_their_noise():
    log_weights_N, noise_N = tensor([-INF, INF, 0.0, -INF, INF]), tensor([0.1, 0.2, 0.3, 0.4, 0.5])
    positions_B, perturbed_B = gumbel_top_k(log_weights_N, 5, noise_N)
    assert positions_B.tolist() == [4, 1, 2, 3, 0]
    assert perturbed_B.tolist() == [INF, INF, 0.3, -INF, -INF]
    assert gumbel_top_k(log_weights_N, 5, noise_N, beta=INF)[0].tolist() == [1, 4, 2, 0, 3]
    assert gumbel_top_k(log_weights_N, 5, noise_N, beta=0)[0].tolist() == [4, 3, 2, 1, 0]
    with pytest.raises(ValueError, match="log_weights_N: NaN at position 0"):
        gumbel_top_k(tensor([torch.nan]), 1, tensor([0.0]))
    with pytest.raises(ValueError, match="k: asked for 2 of 1 candidates"):
        gumbel_top_k(tensor([0.0]), 2, tensor([0.0]))


@pytest.mark.parametrize("positions", [[0, 0], [3], [-1]])
def test_ordered_log_prob_refuses_what_is_no_batch(positions):
    with pytest.raises(ValueError, match=r"positions_B: must be distinct and in 0\.\.2"):
        ordered_log_prob(tensor([0.1, 0.2, 0.3]), torch.tensor(positions))


def test_ordered_log_prob_of_nothing_is_zero_and_nan_is_refused():
    assert ordered_log_prob(tensor([0.1]), torch.tensor([], dtype=torch.int64)) == 0.0
    with pytest.raises(ValueError, match="log_weights_N: NaN at position 1"):
        ordered_log_prob(tensor([0.1, torch.nan]), torch.tensor([0]))


@settings(deadline=None)
@given(st.lists(any_score, min_size=1, max_size=5), st.data())
def test_ordered_probabilities_sum_to_one(log_weights, data):
    k = data.draw(st.integers(1, len(log_weights)))
    log_weights_N = tensor(log_weights)
    total = sum(
        math.exp(ordered_log_prob(log_weights_N, torch.tensor(order)))
        for order in permutations(range(len(log_weights)), k)
    )
    assert close(total, 1.0)


def test_ordered_log_prob_in_a_large_pool_does_not_cancel():
    # One heavy point holds all but 1e-12 of the mass: the second pick sees only the rest.
    log_weights_N = torch.zeros(1001, dtype=torch.float64)
    log_weights_N[0] = math.log(1e15)
    expected = math.log(1e15 / (1e15 + 1000)) - math.log(1000)
    assert close(ordered_log_prob(log_weights_N, torch.tensor([0, 5])), expected)


def test_contract():
    for search in (Power(), Softmax(), SoftRank(), Uniform()):
        assert search.needs is Capability.SCORES
        assert hash(search) == hash(type(search)())
    assert Power() == Power(beta=1.0)
    assert Power() != Softmax()
    with pytest.raises(ValueError, match="generator: lives on meta"):
        gumbel_noise(1, type("Generator", (), {"device": torch.device("meta")})())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an accelerator")
def test_picks_do_not_depend_on_the_device():
    scores = torch.rand(1000, generator=seeded(0))
    for search in (TopK(), Power(), Softmax(), SoftRank(ties="random"), Uniform()):
        here = pick(search, scores, 20)
        there = search(State(scores.cuda()), 20, torch.ones(1000, dtype=torch.bool).cuda(), seeded(0))
        assert there.positions.tolist() == here.positions.tolist()
        assert there.positions.device.type == there.scores.device.type == "cpu"
