"""Reach and uncertainty herding: refitting by whole matrices, the same by other parts of the grid, and what sampling
keeps."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import natsel
from natsel import GaussianFeatures, Geometry, Method, Reach, Targets, TraceEPIG, UncertaintyHerding
from natsel.memory import memory_budget
from natsel.objectives import Context, read
from natsel.search import Greedy

BOTH = pytest.mark.parametrize("objective", [Reach(), UncertaintyHerding()], ids=lambda one: type(one).__name__)
NAMED = pytest.mark.parametrize("method", ["reach", "uherding"])


def forest(seed, count, trees=7, leaves=3, **options):
    """Points in leaves of trees, with some copies, and how unsure a model is of them."""
    rng = np.random.default_rng(seed)
    leaves_N_T = rng.integers(leaves, size=(count, trees))
    leaves_N_T[1] = leaves_N_T[0]
    unsure_N = rng.uniform(size=count) * (rng.uniform(size=count) < 0.8)
    return Geometry.of_leaves(leaves_N_T, options.pop("unsure_N", unsure_N), n_leaves=[leaves] * trees, **options)


def features(seed, unsure_N):
    return Geometry(np.random.default_rng(seed).normal(size=(len(unsure_N), 3)), unsure_N)


def state_of(objective, belief, targets=None, held=None, seed=0):
    targets, held = (None if part is None else Targets.of(part) for part in (targets, held))
    return read(objective, belief, Context(targets, None, torch.Generator().manual_seed(seed), held))


def kernel(left, right=None):
    """k by counting trees."""
    left, right = (part.places_N_D.numpy() for part in (left, left if right is None else right))
    return (left[:, None] == right[None]).mean(-1)


def variance_left(belief, labelled, noise=0.1):
    """Σ u Var[f | labels], by refitting."""
    own = kernel(labelled) + noise * np.eye(len(labelled))
    across = kernel(belief, labelled)
    left_N = 1 - np.einsum("na,ab,nb->n", across, np.linalg.inv(own), across)
    return float(belief.unsure_N.numpy() @ left_N)


@settings(deadline=None)
@given(seed=st.integers(0, 10**6), count=st.integers(4, 40), held=st.integers(0, 3))
def test_gains_are_the_drop_of_the_weighted_variance_by_refitting(seed, count, held):
    pool, labelled = forest(seed, count), list(range(held))
    if not bool((pool.unsure_N > 0).any()):
        return
    state = state_of(Reach(), pool, held=pool[labelled] if held else None)
    for _ in range(3):
        before = variance_left(pool, pool[labelled])
        after = [variance_left(pool, pool[[*labelled, n]]) for n in range(count)]
        gain_N = state.gains(torch.arange(count))
        np.testing.assert_allclose(gain_N, before - np.array(after), atol=1e-9)
        best = int(gain_N.argmax())
        assert state.add(best) == pytest.approx(float(gain_N[best]))
        labelled.append(best)


@settings(deadline=None)
@given(seed=st.integers(0, 10**6), count=st.integers(4, 40), held=st.integers(0, 3))
def test_herding_sums_the_likeness_to_the_most_similar_by_brute_force(seed, count, held):
    pool, labelled = forest(seed, count), list(range(held))
    if not bool((pool.unsure_N > 0).any()):
        return
    state = state_of(UncertaintyHerding(), pool, held=pool[labelled] if held else None)
    for pick in (3, 0, 2):
        worth = [
            pool.unsure_N.numpy() @ kernel(pool, pool[[*labelled, *more]]).max(1, initial=0.0)
            for more in ([], *([n] for n in range(count)))
        ]
        np.testing.assert_allclose(state.gains(torch.arange(count)), np.array(worth[1:]) - worth[0], atol=1e-9)
        state.add(pick)
        labelled.append(pick)


@pytest.mark.parametrize("seed", range(3))
def test_reach_picks_as_weighted_trace_epig_on_the_features_does(seed):
    pool = forest(seed, 150, trees=20, leaves=6)
    found = natsel.select("reach", pool, 10, given=pool[:5])
    view, weights_N = pool.features(), pool.unsure_N
    known = natsel.select(
        Method(TraceEPIG(), Greedy()), view, 10, targets=Targets(view, weights=weights_N), given=view[:5]
    )
    assert found.ids.tolist() == known.ids.tolist()
    in_nats = found.scores / (2 * 0.1 * weights_N.sum())
    torch.testing.assert_close(in_nats, known.scores)


def test_it_is_the_forward_pass_of_bait_where_both_apply():
    from natsel.search import ForwardBackward

    pool = forest(4, 60)
    targets = Targets(pool, weights=pool.unsure_N)
    forward = natsel.select(Method(TraceEPIG(), ForwardBackward(oversample=1.0)), pool, 6, targets=targets)
    assert natsel.select("reach", pool, 6).ids.tolist() == forward.ids.tolist()


@NAMED
def test_leaves_and_the_same_written_out_as_features_agree(method):
    sparse = forest(1, 80)
    dense = Geometry(sparse.features().features_N_D, sparse.unsure_N)
    one, two = (natsel.select(method, pool, 8, given=pool[:4]) for pool in (sparse, dense))
    assert one.ids.tolist() == two.ids.tolist()
    torch.testing.assert_close(one.scores, two.scores)


@NAMED
def test_points_of_which_the_model_is_sure_are_picked_only_for_others(method):
    sure, middle = 1 - np.eye(30)[:4].sum(0), np.eye(30)[:4].sum(0)  # the first four, and a point between them
    pool = Geometry(np.vstack([np.eye(30), middle]), np.append(1 - sure, 0.0))
    assert set(natsel.select(method, pool, 5).ids.tolist()) == {0, 1, 2, 3, 30}
    assert (natsel.score(method, pool)[4:30] == 0).all()


@NAMED
def test_a_copy_of_a_labelled_point_gains_next_to_nothing(method):
    pool = forest(2, 40)
    score_N = natsel.score(method, pool, given=pool[[0]])
    assert score_N[1] == score_N[0] < 0.1 * natsel.score(method, pool)[1]


@NAMED
def test_points_given_count_as_picks_made_before(method):
    pool = forest(3, 50)
    whole = natsel.select(method, pool, 9)
    first = natsel.select(method, pool, 4)
    rest = natsel.select(method, pool, 5, given=pool[first.ids], exclude=first.ids)
    assert whole.ids.tolist() == [*first.ids, *rest.ids]
    assert whole.total == pytest.approx(first.total + rest.total)


@BOTH
def test_the_value_of_a_batch_is_the_sum_of_its_gains(objective):
    pool = forest(5, 40)
    state, whole = (state_of(objective, pool, held=pool[:3]) for _ in range(2))
    assert sum(state.add(n) for n in (7, 9, 20)) == pytest.approx(whole.value(torch.tensor([20, 7, 9])))


@NAMED
@pytest.mark.parametrize("ground", [20, 1000])
def test_order_chunks_and_memory_change_nothing(method, ground):
    chosen = natsel.methods()[method]
    chosen = replace(chosen, objective=replace(chosen.objective, ground=ground))
    unsure_N = np.random.default_rng(5).uniform(size=120)
    for pool in (forest(6, 120, trees=30, leaves=5, unsure_N=unsure_N)[2:], features(6, unsure_N)):
        known = natsel.select(chosen, pool, 6, seed=3, exclude=[5])
        order = np.random.default_rng(0).permutation(len(pool))
        torch.testing.assert_close(
            natsel.score(chosen, pool[order], seed=3), natsel.score(chosen, pool, seed=3)[order], rtol=1e-12, atol=0
        )
        with memory_budget(1 << 14):
            assert natsel.select(chosen, pool, 6, seed=3, exclude=[5]).ids.tolist() == known.ids.tolist()
        if pool.kind == "features":  # leaves are counted, and counts tie
            assert natsel.select(chosen, pool[order], 6, seed=3, exclude=[5]).ids.tolist() == known.ids.tolist()


@pytest.mark.parametrize("names", [False, True], ids=["integers", "texts"])
def test_targets_drawn_stand_for_the_pool_without_bias(names):
    pool = forest(7, 60)
    pool = pool.with_ids([f"image {n}" for n in range(60)]) if names else pool
    exact_N = natsel.score("reach", pool)
    drawn = [natsel.score(Method(Reach(ground=12), Greedy()), pool, seed=seed) for seed in range(200)]
    found_S_N = torch.stack(drawn)
    error_N = found_S_N.std(0) / 200**0.5
    assert ((found_S_N.mean(0) - exact_N).abs() < 4.5 * error_N).all()
    assert error_N.max() < 0.07 * exact_N.max()


def test_a_pool_up_to_twice_the_ground_is_taken_whole():
    pool = forest(8, 40, unsure_N=np.full(40, 0.5))
    exact_N = natsel.score("reach", pool)
    assert torch.equal(natsel.score(Method(Reach(ground=20), Greedy()), pool), exact_N)
    assert not torch.allclose(natsel.score(Method(Reach(ground=19), Greedy()), pool), exact_N)
    assert torch.equal(natsel.score(Method(Reach(ground=None), Greedy()), pool), exact_N)


@NAMED
def test_where_the_model_is_sure_of_everything_all_targets_count_alike_and_it_is_said(method):
    sure, even = (forest(9, 40, unsure_N=np.full(40, level)) for level in (0.0, 1.0))
    found, known = natsel.select(method, sure, 6), natsel.select(method, even, 6)
    assert found.ids.tolist() == known.ids.tolist()
    assert any("nothing unsure" in warning for warning in found.warnings)
    assert not known.warnings


@NAMED
def test_targets_of_the_user_count_by_their_weights_and_by_how_unsure_the_model_is_of_them(method):
    pool, targets = forest(10, 40), forest(11, 12)
    weights_M = np.arange(12.0)
    found = natsel.score(method, pool, targets=Targets(targets, weights=weights_M))
    alone = sum(
        weight * natsel.score(method, pool, targets=targets[[m]])
        for m, weight in enumerate(weights_M)
        if targets.unsure_N[m] > 0
    )
    torch.testing.assert_close(found, alone)
    assert not torch.allclose(found, natsel.score(method, pool))


@NAMED
def test_dear_labels_are_left_where_cheap_ones_reach_as_far(method):
    pool = forest(12, 40)
    costs_N = np.ones(40)
    costs_N[natsel.select(method, pool, 1).ids] = 100.0
    bought = natsel.select(method, pool, 5, costs=costs_N, budget=5.0)
    assert bought.total_cost == 5.0
    assert costs_N[bought.ids].max() == 1.0


@NAMED
def test_points_of_another_geometry_are_refused(method):
    pool = forest(0, 20)
    with pytest.raises(ValueError, match="targets: found 12 leaves, another geometry than 21 leaves of the pool"):
        natsel.score(method, pool, targets=forest(0, 20, trees=4))
    with pytest.raises(ValueError, match="given: found 2 features, another"):
        natsel.score(method, pool, given=Geometry([[1.0, 0.0]]))


def test_a_batch_says_what_its_labels_stand_for():
    leaves_N_T = np.repeat(np.arange(4), [41, 5, 3, 1])[:, None].repeat(3, 1)
    said = str(natsel.select("uherding", Geometry.of_leaves(leaves_N_T), 2).explain())
    assert " stands for 41 unsure points that no label reaches" in said
    assert "uherding: the picks stand for 46 unsure points that no label reaches together" in said


def test_what_else_compares_points_reads_a_geometry():
    pool = forest(13, 40)
    for method in ("core-set", "lcmd", "facility-location", "logdet", "badge-dpp", "bald"):
        assert len(natsel.select(method, pool, 4)) == 4
    weighted = Targets(pool, weights=pool.unsure_N)
    assert len(natsel.select("bait", pool, 4, targets=weighted, given=pool[:3])) == 4
    same = natsel.select("facility-location", GaussianFeatures(pool.features().features_N_D, 0.1), 4)
    assert natsel.select("facility-location", pool, 4).ids.tolist() == same.ids.tolist()
