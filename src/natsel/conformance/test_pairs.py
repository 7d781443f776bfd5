"""Symmetries and edges: what every objective, read from a belief and maximised by a search, must survive.

Also which points of the grid are refused, and whether the refusals help.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
import torch

import natsel
from natsel.beliefs import Belief, Targets
from natsel.beliefs.base import NoView, kinds
from natsel.capabilities import Capability, draws_again
from natsel.choose.methods import METHODS, Method, missing, resolve
from natsel.conformance.grid import (
    CASES,
    MAKERS,
    OBJECTIVES,
    READ,
    VIEWED,
    Case,
    Pool,
    cases_where,
    default,
    every_case,
    marks,
    named,
    pool,
)
from natsel.objectives import Argument, Objective, routes
from natsel.search import SEARCHES
from natsel.ties import Order


def check_batch(selection: natsel.Selection, k: int, ids: Iterable[int], where: str = "") -> None:
    """k ids out of those given, distinct unless they are drawn with replacement, with finite numbers."""
    picked = selection.ids.tolist()
    distinct = k if draws_again(selection.method.search) else len(set(picked))
    assert len(picked) == distinct == k, f"{where}: asked for {k} distinct ids, got {picked}"
    assert set(picked) <= set(ids), f"{where}: picked ids nobody offered: {picked}"
    assert selection.scores.shape == (k,), where
    assert selection.scores.isfinite().all(), f"{where}: scores {selection.scores.tolist()}"
    assert np.isfinite(selection.total), f"{where}: total {selection.total}"


def check_pool(case: Case, pool: Pool, device: str, where: str = "") -> None:
    """Scores are numbers and a batch can be had."""
    belief = pool.belief(device)
    scores_N = case.score(pool, belief)
    assert scores_N.shape == (len(pool),), where
    assert scores_N.isfinite().all(), f"{where}: scores {scores_N.tolist()}"
    k = min(case.k, len(pool))
    check_batch(case.select(pool, k, belief), k, range(len(pool)), where)


# Symmetries.


@every_case
def test_permuting_points_permutes_scores_and_picks(case, device):
    check_permuting(case, device, weighted=False)
    if "log_weights_K" in case.kind.draws:
        check_permuting(case, device, weighted=True)


def check_permuting(case: Case, device: str, weighted: bool) -> None:
    straight = case.pool(weighted=weighted)
    order = np.random.default_rng(1).permutation(len(straight))
    shuffled = straight.take(order)
    before = case.select(straight, belief=straight.belief(device))
    after = case.select(shuffled, belief=shuffled.belief(device, ids=order))
    check_batch(after, case.k, range(len(straight)))
    if case.noisy:  # noise belongs to the position
        return
    scores_N = case.score(shuffled, shuffled.belief(device))
    torch.testing.assert_close(scores_N, case.score(straight, straight.belief(device))[order], rtol=1e-9, atol=1e-12)
    if case.stochastic and Capability.DISTANCES in case.method.search.needs:
        return  # scores are distances to the picks before, which were others
    if case.stochastic:
        scores_B = case.score(straight, straight.belief(device)).cpu()[after.ids]
        torch.testing.assert_close(after.scores, scores_B, rtol=1e-9, atol=1e-12)
    elif case.in_order:
        assert after.ids.tolist() == before.ids.tolist()
    else:
        assert set(after) == set(before)


@every_case
def test_order_of_draws_classes_and_features_is_immaterial(case, device):
    straight = case.pool(weighted=True)
    scores_N = case.score(straight, straight.belief(device))
    for axis in straight.all_axes - {"N"}:
        shuffled = straight.take(np.roll(np.arange(straight.length(axis)), 1), axis)
        found_N = case.score(shuffled, shuffled.belief(device))
        torch.testing.assert_close(found_N, scores_N, rtol=1e-9, atol=1e-9, msg=lambda m, a=axis: f"axis {a}: {m}")


@pytest.mark.parametrize("case", [named(case) for case in CASES if "log_weights_K" in case.kind.draws])
def test_a_draw_of_weight_zero_counts_nothing(case, device):
    without = case.pool(weighted=True)
    padded = without.take([0, 1, 2, 3, 4, 5, 5], "K")
    padded.arrays["log_weights_K"][-1] = -np.inf
    for values in (v for name, v in padded.arrays.items() if name in case.kind.points and "K" in padded.axes(name)):
        values[:, -1] = values[::-1, -1].copy()  # some other prediction
    one, two = without.belief(device), padded.belief(device)
    torch.testing.assert_close(case.score(padded, two), case.score(without, one), rtol=1e-9, atol=1e-12)
    assert case.select(padded, belief=two).ids.tolist() == case.select(without, belief=one).ids.tolist()


# Edges.


@every_case
def test_copies_are_picked_once_each(case, device):
    copies = case.pool().take([0, 1] * 12 if case.points == 24 else [0, 1, 0, 1, 0, 1, 0])
    check_pool(case, copies, device=device)
    check_pool(case, case.pool().take([0] * case.points), device=device)


@every_case
def test_which_of_equals_come_is_drawn_from_the_seed(case, device):
    """Neither rounding nor the order of the pool must choose among points that are worth the same."""
    for name, flat in {
        "copies": case.pool().take([0] * case.points),
        "one draw": case.pool(seed=5, draws=1),
        "one class": case.pool(seed=5, classes=1),
    }.items():
        belief = flat.belief(device)
        scores_N = case.score(flat, belief)
        if case.stochastic:
            if name != "copies" and float(scores_N.max() - scores_N.median()) > 3:
                continue  # such pools do not flatten every score, and a point far ahead may be all that is drawn
            batches = {tuple(case.select(flat, belief=belief, seed=seed)) for seed in range(12)}
            assert len(batches) > 1, f"{name}: twelve seeds gave the same batch {batches}"
        elif case.method.search.needs & (Capability.DISTANCES | Capability.VECTORS):
            selection = case.select(flat, belief=belief)
            filled = [warning for warning in selection.warnings if "filled in at random" in warning]
            assert bool(filled) == (float(selection.scores[-1]) == 0), f"{name}: {selection.warnings}"
        elif (scores_N == scores_N[0]).all() or (
            # Vector and scalar code may differ in the last bit; searches that compare gains must not notice.
            Capability.SCORES not in case.method.search.needs and torch.allclose(scores_N, scores_N[:1], rtol=1e-14)
        ):
            selection = case.select(flat, belief=belief, seed=7)
            order = Order(7, belief.ids).argsort(torch.arange(len(belief)))[: case.k].tolist()
            assert selection.ids.tolist() == (order if case.in_order else sorted(order)), name
        else:
            assert name != "copies", f"copies of a point score differently: {scores_N.tolist()}"


@every_case
def test_zero_probabilities_give_numbers(case, device):
    check_pool(case, case.pool(seed=3).certain(), device=device)


def uncertainty_is_scored(case):
    """Similarities may be negative, counts tie, and known labels may mislead."""
    told = Argument.LABELS | Argument.TARGETS in case.facts.needs
    return not (case.noisy or told or case.method.facts.units in ("none", "similarity", "points"))


@cases_where(uncertainty_is_scored)
def test_certainty_is_worth_least(case, device):
    certain = case.pool(seed=3).certain()
    scores_N = case.score(certain, certain.belief(device))
    if Argument.LABELS not in case.facts.needs or scores_N.min() >= 0:
        assert scores_N[0] <= scores_N.min() + 1e-12, f"the certain point scores {scores_N[0]} in {scores_N.tolist()}"
        assert scores_N[0] < scores_N.max(), "every point is worth as little as the certain one"
    if not case.stochastic:
        assert 0 not in case.select(certain, belief=certain.belief(device)).ids, "the certain point was picked"


SHAPES = {
    "one draw": {"draws": 1},
    "one class": {"classes": 1},
    "two classes": {"classes": 2},
    "one point": {"points": 1},
    "one of everything": {"points": 1, "draws": 1, "classes": 1},
}


@every_case
def test_small_shapes(case, device):
    for name, shape in SHAPES.items():
        check_pool(case, case.pool(**shape), device, where=name)
        check_pool(case, case.pool(**shape).certain(), device, where=f"{name}, the first point certain")


@every_case
def test_k_runs_from_none_to_all(case, device):
    everything = case.pool()
    belief = everything.belief(device)
    none = case.select(everything, 0, belief)
    assert len(none) == 0
    assert none.total == 0
    assert none.scores.shape == (0,)
    check_batch(case.select(everything, len(everything), belief), len(everything), range(len(everything)))
    for k in (len(everything) + 1, -1):
        with pytest.raises(ValueError, match=r"^k: "):
            case.select(everything, k, belief)


# Views: a belief that is read as another.


@pytest.mark.parametrize(
    ("objective", "kind"), [pytest.param(*pair, id=f"{pair[0].__name__}-{pair[1].__name__}") for pair in VIEWED]
)
def test_a_view_gives_what_the_belief_it_shows_gives(objective, kind, device):
    """The same scores and picks, under the ids of the user, with every approximation named."""
    case = Case(Method(default(objective), natsel.TopK()), kind)
    pool = case.pool(weighted=True)
    belief, found = pool.belief(device, ids=np.arange(len(pool)) + 100), VIEWED[objective, kind]
    known = case.known(pool, belief)
    shown, there = belief, dict(known)
    for view in found.views:
        shown = view.make(shown)
        for name in {"targets", "given"} & there.keys():
            others = Targets.of(there[name])
            there[name] = replace(others, belief=view.make(others.belief))
    assert type(shown) is found.views[-1].kind
    assert shown.ids.tolist() == belief.ids.tolist()
    selection = natsel.select(case.method, belief, case.k, **known)
    expected = natsel.select(case.method, shown, case.k, **there)
    assert selection.ids.tolist() == expected.ids.tolist()
    torch.testing.assert_close(selection.scores, expected.scores, rtol=0, atol=0)
    for view in found.views:
        assert not view.approximation or view.approximation in selection.warnings
    assert type(selection.picked) is kind


# What is passed counts.

TRIPLES = [
    pytest.param(case, argument, id=f"{case.method.name}-{case.kind.__name__}-{argument.words[0]}", marks=marks(case))
    for case in CASES
    for argument in (Argument.TARGETS, Argument.GIVEN)
]


@pytest.mark.parametrize(("case", "argument"), TRIPLES)
def test_targets_and_given_can_change_the_picks_or_are_refused(case, argument):
    """Whatever is accepted is read: some targets, or some points held, lead to other scores or to other picks."""
    name = argument.words[0]
    changed: set[object] = set()
    for seed in range(4, 12):
        pool = case.pool(seed=seed)
        belief = pool.belief()
        known = case.known(pool, belief)
        needed = known.pop(name, None)
        others = [needed, *(case.pool(seed=seed).targets() for seed in range(30, 36))]
        if argument not in case.facts.accepts:
            if any(argument in one.reading.facts.accepts for one in routes(type(case.method.objective), case.kind)):
                return  # taken along a view, which is a pair of its own
            with pytest.raises(ValueError, match=rf"^{name}: \w+ has no use for "):
                natsel.select(case.method, belief, case.k, **known, **{name: others[-1]})
            return
        found = [natsel.select(case.method, belief, case.k, **known, **{name: one}, seed=5) for one in others]
        # A sample says how probable it was; a uniform one is alike whatever the scores, which it reports.
        uniform = isinstance(case.method.search, natsel.Uniform)
        changed = {(*one, one.log_prob, *(one.scores.tolist() if uniform else ())) for one in found}
        if len(changed) > 1:
            return
    pytest.fail(f"other {name} gave the same picks in eight pools: {changed}")


@pytest.mark.parametrize("kind", MAKERS)
def test_given_nothing_or_a_point_that_tells_nothing_changes_nothing(kind):
    for objective in OBJECTIVES:
        case, found = Case(Method(default(objective), natsel.TopK()), kind), routes(objective, kind)
        if Argument.GIVEN in case.facts.needs or not any(Argument.GIVEN in one.reading.facts.accepts for one in found):
            continue
        pool, known = case.pool(), case.pool().certain().belief()
        scores_N = case.score(pool)
        assert torch.equal(case.score(pool, given=known[:0]), scores_N)
        with suppress(NoView):  # what is certain may have no noise, in units of which features are measured
            torch.testing.assert_close(case.score(pool, given=known[:1]), scores_N, rtol=1e-9, atol=1e-12)


# Which pairs are legal.

ILLEGAL: dict[tuple[type[Objective], type[Belief]], list[Method]] = {
    (objective, kind): found
    for objective, kind in READ
    if (found := [one for search in SEARCHES if missing(one := Method(default(objective), default(search)), kind)])
}


@pytest.mark.parametrize(
    ("objective", "kind"), [pytest.param(*pair, id=f"{pair[0].__name__}-{pair[1].__name__}") for pair in ILLEGAL]
)
def test_searches_that_need_more_are_refused_with_a_remedy(objective, kind):
    for method in ILLEGAL[objective, kind]:
        asked, search = Case(method, kind), type(method.search).__name__
        with pytest.raises(ValueError, match=search) as refusal:
            asked.select(asked.pool())
        said = str(refusal.value)
        assert objective.__name__ in said, f"{search}: {said}"
        remedies = {one for one in SEARCHES if one.__name__ in said.partition(";")[2].replace(",", " ").split()}
        assert remedies, f"{search}: no search to use instead is named: {said}"
        wrong = [one.__name__ for one in remedies if missing(Method(method.objective, one()), kind)]
        assert not wrong, f"{search}: the remedy {wrong} is just as illegal: {said}"


UNSERVED = [
    pytest.param(objective, kind, id=f"{objective.__name__}-{kind.__name__}")
    for objective in OBJECTIVES
    for kind in MAKERS
    if (objective, kind) not in READ and (objective, kind) not in VIEWED
]


@pytest.mark.parametrize(("objective", "kind"), UNSERVED)
def test_a_belief_that_cannot_be_read_is_refused_with_a_remedy(objective, kind):
    asked = Case(Method(default(objective), natsel.TopK()), kind)
    for ask in (asked.score, asked.select):
        with pytest.raises(ValueError, match=objective.__name__) as refusal:
            ask(asked.pool())
        said = str(refusal.value)
        assert kind.__name__ in said, said
        assert any(b.__name__ in said for o, b in READ if o is objective), f"no belief to use instead is named: {said}"


WANTING = [
    pytest.param(case, argument, id=f"{case.method.name}-{case.kind.__name__}-{argument}", marks=marks(case))
    for case in CASES
    for argument in ("labels", "targets", "given")
    if argument in case.facts.needs.words
]


@pytest.mark.parametrize(("case", "argument"), WANTING)
def test_missing_labels_and_targets_are_refused(case, argument):
    for ask in (case.score, case.select):
        with pytest.raises(ValueError, match=rf"{argument}.*{type(case.method.objective).__name__}.*pass"):
            ask(case.pool(), **{argument: None})


# Nothing escapes this suite.


@pytest.mark.parametrize("kind", sorted(kinds(), key=lambda kind: kind.__name__))
def test_every_belief_has_a_small_pool(kind):
    assert kind in MAKERS, f"there is no small pool of {kind.__name__}: add a Maker for it to natsel.conformance.MAKERS"
    assert len(pool(kind).belief()) == 24
    assert any(kind is served for _, served in READ), f"no objective reads {kind.__name__}"


@pytest.mark.parametrize("name", METHODS)
def test_every_method_serves_a_belief_and_answers_to_its_names(name):
    method = METHODS[name]
    assert method.beliefs, f"{name} runs on no belief"
    assert name == name.lower().replace("_", "-").replace(" ", "-"), "names are lower-case with dashes"
    for alias in (name, *method.aliases, name.upper(), name.replace("-", "_")):
        assert resolve(alias) is method, f"{alias!r} resolves to {resolve(alias).name!r}"
    assert method.source, f"{name} does not say where it comes from"
