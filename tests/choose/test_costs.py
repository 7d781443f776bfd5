"""Labels that cost something: gain per cost and batches within a budget, against brute force on tiny pools."""

import itertools
import math
from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch

import natsel
from drawn_orders import drawn
from natsel.capabilities import Capability
from natsel.choose.costs import as_costs
from natsel.objectives.readings.draws.eig_categorical import CategoricalEIG
from natsel.search import Greedy, Power, TopK, Uniform, ordered_log_prob
from natsel.search.per_cost import first_that_fit, most_that_fit

HALF = 0.5 * (1 - 1 / math.e)


def draws(seed=0, points=7, n_draws=5, classes=2):
    generator = torch.Generator().manual_seed(seed)
    logits_N_K_C = 2 * torch.randn(points, n_draws, classes, generator=generator, dtype=torch.float64)
    return natsel.CategoricalSamples.from_logits(logits_N_K_C)


def features(seed=0, points=7):
    generator = torch.Generator().manual_seed(seed)
    return natsel.GaussianFeatures(torch.randn(points, 3, generator=generator, dtype=torch.float64))


def prices(seed=0, points=7):
    return np.round(np.random.default_rng(seed).uniform(1, 9, points), 1)


def value(belief, batch, objective=None, **known):
    """What a batch is worth, by enumeration."""
    if not batch:
        return 0.0
    method = natsel.Method(objective or natsel.EIG(), natsel.Exhaustive())
    return natsel.select(method, belief[list(batch)], k=len(batch), **known).total


def greedy_by_hand(belief, cost_N, budget, k, objective=None, **known):
    """The largest gain per cost among the points that still fit, again and again."""
    batch, left = [], budget
    while len(batch) < k:
        fitting = [n for n in range(len(belief)) if n not in batch and cost_N[n] <= left + 1e-9]
        if not fitting:
            break
        now = value(belief, batch, objective, **known)
        gain = {n: value(belief, [*batch, n], objective, **known) - now for n in fitting}
        batch.append(max(fitting, key=lambda n: gain[n] / cost_N[n]))
        left -= cost_N[batch[-1]]
    return batch


def affordable_sets(cost_N, budget):
    for size in range(1, len(cost_N) + 1):
        for batch in itertools.combinations(range(len(cost_N)), size):
            if sum(cost_N[n] for n in batch) <= budget:
                yield batch


@pytest.mark.parametrize("make", [draws, features])
@pytest.mark.parametrize("budget", [None, 14.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_greedy_takes_the_largest_gain_per_cost(make, budget, seed):
    belief, cost_N = make(seed), prices(seed)
    expected = greedy_by_hand(belief, cost_N, math.inf if budget is None else budget, 4)
    selection = natsel.select("batchbald", belief, k=4, costs=cost_N, budget=budget)
    assert selection.ids.tolist() == expected
    assert selection.costs.tolist() == cost_N[expected].tolist()
    assert selection.total_cost == pytest.approx(cost_N[expected].sum())
    # Scores are gains in nats, and the total is theirs: neither is divided by costs.
    gains = [value(belief, expected[: size + 1]) - value(belief, expected[:size]) for size in range(len(expected))]
    assert selection.scores.tolist() == pytest.approx(gains, abs=1e-9)
    assert selection.total == pytest.approx(value(belief, expected), abs=1e-9)


@pytest.mark.parametrize("objective", [natsel.EPIG(), natsel.JEPIG()])
def test_objectives_about_targets_too(objective):
    """EPIG is found by a shortlist, whose ceilings must stay above gains per cost."""
    belief, cost_N = draws(3), prices(3)
    targets = draws(3, points=11)[7:]
    targets = natsel.CategoricalSamples(targets.log_probs_N_K_C)
    expected = greedy_by_hand(belief, cost_N, 12.0, 3, objective, targets=targets)
    method = natsel.Method(objective, Greedy())
    assert natsel.select(method, belief, k=3, costs=cost_N, budget=12.0, targets=targets).ids.tolist() == expected


@pytest.mark.parametrize("widest", [10.0, 1e4])
def test_lazy_and_raced_searches_look_at_enough_points(monkeypatch, widest):
    """Old gains divided by costs are still bounds. A race is run where costs are alike; where not, gains are read."""
    generator = torch.Generator().manual_seed(5)
    belief = natsel.CategoricalSamples.from_logits(torch.randn(600, 6, 3, generator=generator, dtype=torch.float64))
    cost_N = torch.exp(math.log(widest) * torch.rand(600, generator=generator, dtype=torch.float64))
    state, expected = CategoricalEIG(natsel.EIG(), belief, natsel.Context(None, None, torch.Generator())), []
    for _ in range(5):
        gain_N = state.gains(torch.arange(600)) / cost_N
        gain_N[expected] = -1
        expected.append(int(gain_N.argmax()))
        state.add(expected[-1])
    raced = []
    terms = CategoricalEIG.terms
    monkeypatch.setattr(CategoricalEIG, "prefers_racing", True)
    monkeypatch.setattr(CategoricalEIG, "terms", lambda *given: raced.append(1) or terms(*given))
    assert natsel.select("batchbald", belief, k=5, costs=cost_N).ids.tolist() == expected
    assert bool(raced) == (widest <= 100)


@pytest.mark.parametrize("make", [draws, features])
def test_the_batch_is_worth_its_share_of_the_best_within_the_budget(make):
    for seed in range(12):
        belief, cost_N = make(seed, points=6), prices(seed, 6)
        for budget in (float(cost_N.max()), 1.5 * float(cost_N.max())):
            found = natsel.select("batchbald", belief, costs=cost_N, budget=budget)
            best = max(value(belief, batch) for batch in affordable_sets(cost_N, budget))
            assert found.total_cost <= budget + 1e-9
            assert found.total == pytest.approx(value(belief, found.ids.tolist()), abs=1e-9)
            assert found.total >= HALF * best - 1e-9


def test_one_point_that_is_worth_nearly_everything_is_not_missed():
    """A cheap point has more gain per cost, and leaves no room: the rule alone may be worth as little as one likes."""
    features_N_D = torch.eye(3, dtype=torch.float64) * torch.tensor([0.2, 40.0, 0.02])[:, None]
    belief = natsel.GaussianFeatures(features_N_D)
    cost_N = [0.01, 10.0, 0.005]
    rule = greedy_by_hand(belief, cost_N, 10.005, 3)
    assert 1 not in rule
    selection = natsel.select("batchbald", belief, costs=cost_N, budget=10.005)
    assert selection.ids.tolist() == [1, 2], "begins with the single point, and goes on with what is left"
    assert selection.total == pytest.approx(value(belief, [1, 2]))
    assert selection.scores[0] == pytest.approx(value(belief, [1]))
    assert "begins with it" in selection.warnings[-1]
    assert not any(
        "begins" in warning for warning in natsel.select("batchbald", belief, costs=[1] * 3, budget=2).warnings
    )


def test_top_k_goes_by_score_per_cost_and_on_to_points_that_fit():
    belief, cost_N = draws(1), prices(1)
    score_N = natsel.score("bald", belief).numpy()
    order = np.argsort(-score_N / cost_N)
    assert natsel.select("bald", belief, k=3, costs=cost_N).ids.tolist() == order[:3].tolist()
    budget = 0.5 + cost_N[order[0]] + cost_N[order[2:4]].sum()
    left, expected = budget, []
    for n in order:
        if cost_N[n] <= left:
            expected.append(n)
            left -= cost_N[n]
    selection = natsel.select("bald", belief, costs=cost_N, budget=budget)
    assert selection.ids.tolist() == expected
    assert expected != order[: len(expected)].tolist(), "one that does not fit was left out"
    assert selection.scores.tolist() == pytest.approx(score_N[expected].tolist())
    assert natsel.select("bald", belief, k=1, costs=cost_N, budget=budget).ids.tolist() == expected[:1]


def test_weights_of_a_draw_are_those_of_scores_per_cost():
    belief, cost_N = draws(2), prices(2)
    selection = natsel.select(natsel.Method(natsel.EIG(), Power(beta=2)), belief, k=3, costs=cost_N)
    log_weight_N = 2 * (natsel.score("bald", belief) / torch.from_numpy(cost_N)).log()
    assert selection.log_prob == pytest.approx(ordered_log_prob(log_weight_N, torch.from_numpy(selection.ids)))


def test_each_draw_is_among_the_points_that_still_fit():
    """The law of batches within a budget, over many seeds."""
    belief, cost_N, budget = draws(4, points=4), np.array([1.0, 2.0, 3.0, 4.0]), 4.5
    weight_N = (natsel.score("bald", belief).numpy() / cost_N) ** 1.0

    def law(batch, left):
        """The chance of going on to a batch that is complete, in this order."""
        fitting = [n for n in range(4) if n not in batch and cost_N[n] <= left]
        if not fitting:
            return {tuple(batch): 1.0}
        chances = Counter()
        for n in fitting:
            for whole, chance in law([*batch, n], left - cost_N[n]).items():
                chances[whole] += chance * weight_N[n] / weight_N[fitting].sum()
        return chances

    expected, method = law([], budget), natsel.Method(natsel.EIG(), Power(beta=1))
    runs = 600
    found = Counter(
        tuple(natsel.select(method, belief, costs=cost_N, budget=budget, seed=seed).ids.tolist())
        for seed in range(runs)
    )
    assert set(found) <= set(expected)
    for batch, chance in expected.items():
        assert abs(found[batch] / runs - chance) < 4 * math.sqrt(chance * (1 - chance) / runs) + 1e-9, batch


@pytest.mark.parametrize(
    "name", ["bald", "batchbald", "power-bald", "softmax-bald", "softrank-bald", "entropy", "random"]
)
def test_equal_costs_and_their_unit_change_nothing(name):
    belief, cost_N = draws(6, points=12), prices(6, 12)
    plain = natsel.select(name, belief, k=4)
    same = natsel.select(name, belief, k=4, costs=np.full(12, 3.7))
    assert same.ids.tolist() == plain.ids.tolist()
    assert same.scores.tolist() == plain.scores.tolist()
    assert same.total == plain.total
    dear = natsel.select(name, belief, k=4, costs=cost_N)
    assert natsel.select(name, belief, k=4, costs=1e6 * cost_N).ids.tolist() == dear.ids.tolist()
    if name == "random":
        assert dear.ids.tolist() == plain.ids.tolist(), "a method that looks at nothing has no gain to divide"


def test_points_that_are_excluded_are_not_paid_for():
    belief, cost_N = draws(), prices()
    cheapest = int(cost_N.argmin())
    for name in ("bald", "batchbald", "power-bald"):
        selection = natsel.select(name, belief, costs=cost_N, budget=12.0, exclude=[cheapest])
        assert cheapest not in selection.ids
        assert 0 < selection.total_cost <= 12.0


def test_costs_by_id_and_by_function():
    ids = ["c", "a", "b"]
    belief = draws(points=3).with_ids(ids)
    by_id = {"a": 1.0, "b": 2.0, "c": 4.0, "unknown": -1.0}
    for costs in (
        by_id,
        [4, 1, 2],
        np.array([4.0, 1.0, 2.0]),
        torch.tensor([4, 1, 2]),
        lambda some: [by_id[n] for n in some],
    ):
        selection = natsel.select("bald", belief, k=3, costs=costs)
        assert dict(zip(selection.ids, selection.costs.tolist(), strict=True)) == {"a": 1.0, "b": 2.0, "c": 4.0}


def test_sums_of_costs_are_not_held_to_the_last_bit():
    belief = draws(points=10)
    assert sum([0.1] * 10) != 1.0
    for name in ("bald", "batchbald", "random"):
        assert len(natsel.select(name, belief, costs=[0.1] * 10, budget=1.0)) == 10
    assert len(natsel.select("bald", belief, costs=[0.1] * 10, budget=0.99)) == 9


def test_a_budget_that_pays_for_nothing():
    for name in ("bald", "batchbald", "power-bald"):
        selection = natsel.select(name, draws(), costs=[2.0] * 7, budget=1.5)
        assert len(selection) == selection.total == selection.total_cost == 0
        assert selection.warnings[-1] == "budget: 1.5 pays for none of 7 points, the cheapest costs 2"


def test_points_that_tell_nothing_are_bought_last_and_named():
    probs_N_K_C = torch.full((4, 2, 2), 0.5, dtype=torch.float64)
    probs_N_K_C[2] = torch.eye(2)
    belief = natsel.CategoricalSamples.from_probs(probs_N_K_C)
    for name in ("bald", "power-bald"):
        selection = natsel.select(name, belief, costs=[1, 1, 3, 1], budget=5)
        assert selection.ids[0] == 2
        assert "2 of 3 picks have a score of 0" in selection.warnings[-1]
    assert natsel.select("batchbald", belief, costs=[1, 1, 3, 1], budget=5).ids.tolist() == [2, *drawn([0, 1, 3])[:2]]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"costs": [1.0] * 6}, r"^costs: expected one for each of 7 points, found shape \(6,\)"),
        ({"costs": [1.0] * 6 + [0.0]}, r"^costs: found 0 for id 6 \(1 such in all\); costs are finite numbers above 0"),
        ({"costs": [1.0] * 6 + [math.inf]}, r"^costs: found inf for id 6 "),
        ({"costs": [math.nan] * 7}, r"^costs: found nan for id 0 \(7 such"),
        ({"costs": {0: 1.0}}, r"^costs: id 1, 2, 3, … \(6 in all\) has none; give every id one"),
        ({"costs": ["dear"] * 7}, r"^costs: "),
        ({"budget": 5}, r"^budget: is counted in costs; pass costs= \(--costs\)"),
        ({"costs": [1.0] * 7, "budget": -1}, r"^budget: expected a finite number of at least 0, found -1"),
        ({"costs": [1.0] * 7, "budget": math.inf}, r"^budget: "),
        ({"costs": [1.0] * 7, "budget": True}, r"^budget: "),
        ({"costs": [1.0] * 7, "budget": 3, "k": 8}, r"^k: asked for 8 of 7 points"),
    ],
)
def test_wrong_costs_are_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        natsel.select("bald", draws(), **options)


@pytest.mark.parametrize(
    ("method", "belief", "sentence"),
    [
        (
            "best-bald",
            draws(),
            "^costs: Exhaustive goes by value, which cannot be divided by costs; use Greedy, Power, ",
        ),
        ("bait-det", draws(), "^costs: ForwardBackward goes by value, "),
        ("badge", features(), "^costs: KMeansPP goes by distances, "),
        (
            "entropy",
            features(),
            "^costs: Entropy on GaussianFeatures may be negative, and would then prefer dear points",
        ),
    ],
)
def test_methods_without_gains_per_cost_are_refused(method, belief, sentence):
    with pytest.raises(ValueError, match=sentence):
        natsel.select(method, belief, k=2, costs=prices())


def test_a_search_that_spends_too_much_is_refused():
    @dataclass(frozen=True)
    class Spender:
        needs: ClassVar = Capability.GAINS

        def __call__(self, state, k, allowed_N, generator, progress=None):
            gains = [state.add(position) for position in range(3)]
            return natsel.Picks(torch.arange(3), torch.tensor(gains).double(), total=state.total)

    with pytest.raises(ValueError, match=r"^search: Spender does not keep to a budget; use Greedy or TopK"):
        natsel.select(natsel.Method(natsel.EIG(), Spender()), draws(), costs=[2.0] * 7, budget=4.0)


def test_uniform_draws_only_keep_to_the_budget():
    method = natsel.Method(natsel.EIG(), Uniform())
    selection = natsel.select(method, draws(), costs=prices(), budget=10.0, seed=3)
    assert 0 < selection.total_cost <= 10.0
    plain = natsel.select(method, draws(), k=7, seed=3).ids.tolist()
    places = first_that_fit(torch.from_numpy(prices()[plain]), 10.0, 7)
    assert selection.ids.tolist() == [plain[place] for place in places]


def test_what_fits():
    assert first_that_fit(torch.tensor([]), 3.0, 2) == []
    assert first_that_fit(torch.tensor([2.0, 2.0, 1.0]), 3.0, 1) == [0]
    assert most_that_fit(torch.tensor([2.0, 2.0, 1.0]), 3.0) == 2
    assert most_that_fit(torch.tensor([]), 3.0) == 0


def test_scores_that_shortlists_find_are_the_largest_per_cost():
    """Top-k of EPIG looks at few points in full."""
    belief, targets = draws(8, points=300), natsel.CategoricalSamples(draws(8, points=310).log_probs_N_K_C[300:])
    cost_N = prices(8, 300)
    score_N = natsel.score("epig", belief, targets=targets).numpy()
    expected = np.argsort(-score_N / cost_N, kind="stable")[:5]
    assert natsel.select(
        natsel.Method(natsel.EPIG(), TopK()), belief, 5, targets=targets, costs=cost_N
    ).ids.tolist() == (expected.tolist())


def test_costs_of_ids_that_look_alike():
    assert as_costs({7: 1.0, "7": 2.0}, natsel.ids.as_ids([7, "7"])).tolist() == [1.0, 2.0]


def test_costs_of_a_column_go_by_its_index():
    pandas = pytest.importorskip("pandas", reason="needs the extra tables")
    belief = draws().with_ids(list("abcdefg"))
    cost = {id: float(place + 1) for place, id in enumerate("abcdefg")}
    wanted = natsel.select("power-bald", belief, k=3, costs=cost)
    found = natsel.select("power-bald", belief, k=3, costs=pandas.Series(cost)[::-1])
    assert found.costs.tolist() == wanted.costs.tolist()
    with pytest.raises(ValueError, match=r"costs: id 'z' \(1 in all\) is not among the points"):
        natsel.select("bald", belief, k=3, costs=pandas.Series(cost).rename({"a": "z"}))
