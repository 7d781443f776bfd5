"""A learner whose labels cost something: gain per cost, and budgets that are counted in costs."""

import numpy as np
import pytest

import natsel
from learning.committee import Committee, pool
from natsel import ActiveLearner
from natsel.seeds import derive
from natsel.store import Journal

COSTS = np.round(np.random.default_rng(0).uniform(1, 9, 60), 1)


def learner(**changes):
    arguments = {
        "model": Committee(),
        "pool": pool(),
        "method": "batchbald",
        "k": 4,
        "seed": 3,
        "costs": COSTS,
        **changes,
    }
    one = ActiveLearner(arguments.pop("model"), arguments.pop("pool"), **arguments)
    one.tell(range(0, 60, 10), one.pool.answers(range(0, 60, 10)))
    return one


BEFORE = float(COSTS[::10].sum())


@pytest.mark.parametrize("method", ["batchbald", "bald", "power-bald"])
@pytest.mark.parametrize("budget", [None, 12.0])
def test_an_ask_is_a_selection_by_gain_per_cost(method, budget):
    one = learner(method=method)
    free = np.array([id for id in range(60) if id % 10])
    belief = one.belief(ids=free)
    found = one.ask(4, budget=budget)
    seed = derive(3, "select", 1)
    expected = natsel.select(method, belief, 4, costs=COSTS[free], budget=budget, seed=seed)
    assert found.ids.tolist() == expected.ids.tolist()
    assert found.costs.tolist() == COSTS[found.ids].tolist()
    assert found.total_cost == pytest.approx(float(COSTS[found.ids].sum()))
    assert found.ids.tolist() != natsel.select(method, belief, 4, seed=seed).ids.tolist(), "costs made no difference"


def test_an_ask_with_a_budget_takes_as_many_as_fit():
    for method in ("batchbald", "power-bald", "random"):
        one = learner(method=method)
        found = one.ask(budget=30.0)
        left = 30.0 - found.total_cost
        assert 0 <= left < COSTS[[id for id in range(60) if id % 10 and id not in found.ids]].min()
        assert len(found) > 4
        assert not any("pays for no more" in warning for warning in found.warnings)
        few = one.ask(2, budget=30.0)
        assert len(few) == 2
        assert few.total_cost <= 30.0
    short = one.ask(3, budget=2.5)
    assert f"{len(short)} of 3 points: the budget pays for no more" in short.warnings


@pytest.mark.parametrize("method", ["batchbald", "power-bald", "random"])
def test_a_run_spends_its_budget_and_no_more(method):
    one = learner(method=method)
    budget = BEFORE + 60.0
    reason = one.run(budget=budget)
    assert one.spent == pytest.approx(float(COSTS[one.labelled_ids].sum()))
    assert one.spent <= budget + 1e-9
    free = [id for id in range(60) if id not in one.labelled_ids]
    assert COSTS[free].min() > budget - one.spent, "another point would have fitted"
    assert reason.startswith(f"the budget of {budget:g} is used")
    assert one.summary()["spent"] == one.spent
    assert one.run(budget=budget) == reason
    assert len(one.outstanding) == 0


def test_a_run_that_is_killed_goes_on_as_it_would_have(tmp_path):
    whole = learner()
    reason = whole.run(budget=BEFORE + 50)
    part, asked = learner(store=tmp_path / "a.db"), []

    def killed(ids, inputs=None):
        asked.append(ids)
        if len(asked) == 3:
            raise KeyboardInterrupt
        return part.pool.answers(ids)

    with pytest.raises(KeyboardInterrupt), part:
        part.run(budget=BEFORE + 50, oracle=killed)
    with learner(store=tmp_path / "a.db", method=None, k=None) as again:
        assert len(again.outstanding)
        assert again.run(budget=BEFORE + 50) == reason
        assert again.labelled_ids.tolist() == whole.labelled_ids.tolist()


def test_random_first_batches_keep_to_the_budget():
    one = ActiveLearner(Committee(), pool(), k=10, costs=COSTS)
    found = one.ask(budget=20.0)
    assert 0 < found.total_cost <= 20.0
    assert found.costs.tolist() == COSTS[found.ids].tolist()
    assert len(one.ask()) == 10
    assert len(one.ask(budget=0.5)) == 0


def test_costs_by_id_and_by_function_are_the_same():
    names = [f"{n}.png" for n in range(60)]
    by_id = dict(zip(names, COSTS.tolist(), strict=True))
    batches = []
    for costs in (by_id, lambda ids: [by_id[id] for id in ids], COSTS):
        named = pool(ids=names)
        one = ActiveLearner(Committee(), named, method="batchbald", k=4, seed=3, costs=costs)
        one.tell(names[::10], named.answers(names[::10]))
        batches.append(one.ask().ids.tolist())
    assert batches[0] == batches[1] == batches[2]


def test_a_part_of_the_pool_and_targets_too():
    one = learner(method="epig", targets="pool", candidates=20)
    found = one.ask(budget=15.0)
    assert 0 < found.total_cost <= 15.0


def test_a_rule_that_counts_costs():
    one = learner(k=3)
    reason = one.run(stop=natsel.CostBudget(BEFORE + 10.0))
    assert one.spent >= BEFORE + 10.0
    assert reason == f"the budget of {BEFORE + 10.0:g} is used: {one.n_labelled} labels cost {one.spent:g}"
    with pytest.raises(ValueError, match=r"^stop: CostBudget needs to know what labels cost; pass costs="):
        learner(costs=None).run(stop=natsel.CostBudget(10.0))
    with pytest.raises(ValueError, match=r"^cost: expected a number of at least 0, found -1"):
        natsel.CostBudget(-1)


def test_other_costs_are_recorded_and_named(tmp_path):
    path = tmp_path / "a.db"
    with learner(store=path) as one:
        one.ask()
    with learner(store=path, costs=2 * COSTS) as again:
        assert "changed since the last batch: costs is another now" in again.ask().warnings
    with Journal(path) as journal:
        (run,) = journal.runs()
        assert run.terms.config["costs"] != run.current_terms.config["costs"]


def test_a_batch_that_others_made_too_dear_is_chosen_again(tmp_path):
    """Between choosing and writing, another client is handed points: both together keep to the budget."""
    first = learner(store=tmp_path / "a.db", who="ann")
    second = ActiveLearner(Committee(), pool(), store=first.journal.path, seed=3, costs=COSTS, who="bob")
    limit = BEFORE + 15.0
    written, chosen = first._record.ask, []

    def late(ask, most):
        if not chosen:
            second._ask(4, limit)
        chosen.append(ask.ids)
        return written(ask, most)

    first._record.ask = late
    first._ask(4, limit)
    assert len(chosen) > 1 or not len(first.outstanding)
    taken = [*first.labelled_ids, *first.outstanding]
    assert float(COSTS[taken].sum()) <= limit + 1e-9


def test_wrong_costs_are_refused_before_a_journal_is_made(tmp_path):
    with pytest.raises(ValueError, match=r"^costs: expected one for each of 60 points, found shape \(59,\)"):
        learner(costs=COSTS[1:], store=tmp_path / "a.db")
    assert not (tmp_path / "a.db").exists()
    with pytest.raises(ValueError, match=r"^budget: is counted in costs; pass costs=… to the learner"):
        learner(costs=None).ask(budget=3.0)
    with pytest.raises(ValueError, match=r"^budget: expected a finite number of at least 0, found -3"):
        learner().run(budget=-3)
    with pytest.raises(ValueError, match=r"^budget: expected a whole number, found 3.5"):
        learner(costs=None).run(budget=3.5)
