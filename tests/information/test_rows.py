"""Weighted posterior rows: exact while all fit, unbiased when thinned, and never NaN.

The yardstick is enumeration of every label configuration, written out here without any code of the module.
"""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from natsel.information.joint_labels import ExactJointEntropy, sample_configurations
from natsel.information.weighted_posteriors import (
    WeightedPosteriors,
    expand,
    gains,
    grow,
    heavier,
    inclusion,
    lead_errors,
    prior_rows,
    systematic,
    systematic_on_circles,
    terms,
    thin,
)

ALL = 1 << 20  # a limit that every child fits under


def take(rows, probs_K_C, limit, offset):
    """The rows after one more point, and the gain of that point."""
    children = expand(rows, probs_K_C)
    rows = grow(children, limit, offset)
    assert children.left == pytest.approx(rows.left, rel=1e-6) or limit < ALL
    return rows, children.gain


def draw_probs(seed, *shape, zeros=0.0, scale=1.5):
    """Random probabilities over the last axis, a share `zeros` of them exactly 0."""
    rng = np.random.default_rng(seed)
    probs = np.exp(scale * rng.standard_normal(shape))
    dead = rng.random(shape) < zeros
    dead[..., 0] &= dead[..., 1:].all(-1) if shape[-1] > 1 else False
    dead &= ~dead.all(-1, keepdims=True)
    probs = np.where(dead, 0.0, probs)
    return torch.from_numpy(probs / probs.sum(-1, keepdims=True))


def draw_weights(seed, draws):
    return torch.from_numpy(np.random.default_rng(seed).dirichlet(np.ones(draws)))


def enumerated(probs_B_K_C, weights_K):
    """{labels: (probability, posterior over draws)} of every possible label configuration."""
    table = {}
    for labels in itertools.product(range(probs_B_K_C.shape[2]), repeat=len(probs_B_K_C)):
        joint_K = weights_K.clone()
        for probs_K_C, label in zip(probs_B_K_C, labels, strict=True):
            joint_K = joint_K * probs_K_C[:, label]
        mass = float(joint_K.sum())
        if mass > 0:
            table[labels] = (mass, joint_K / mass)
    return table


def entropy_of(p):
    return float(torch.special.entr(p).sum())


def true_left(probs_B_K_C, weights_K):
    """H[Ω | Y_1..B]."""
    return sum(mass * entropy_of(r_K) for mass, r_K in enumerated(probs_B_K_C, weights_K).values())


def true_gain(probs_B_K_C, probs_K_C, weights_K):
    """I[Y; Ω | Y_1..B] of one more point."""
    more = torch.cat([probs_B_K_C, probs_K_C[None]])
    return true_left(probs_B_K_C, weights_K) - true_left(more, weights_K)


def grown(probs_B_K_C, weights_K, limit=ALL, offsets=None):
    """Rows after all points, and the gains on the way."""
    rows, on_the_way = prior_rows(weights_K.log()), []
    for step, probs_K_C in enumerate(probs_B_K_C):
        rows, gain = take(rows, probs_K_C, limit, 0.5 if offsets is None else float(offsets[step]))
        on_the_way.append(gain)
    return rows, on_the_way


small = {
    "seed": st.integers(0, 10_000),
    "points": st.integers(1, 4),
    "draws": st.integers(1, 5),
    "classes": st.integers(1, 4),
    "zeros": st.sampled_from([0.0, 0.4]),
}


@settings(deadline=None)
@given(**small)
def test_grow_is_exact_while_all_children_fit(seed, points, draws, classes, zeros):
    probs_B_K_C = draw_probs(seed, points, draws, classes, zeros=zeros)
    weights_K = draw_weights(seed, draws)
    rows, on_the_way = grown(probs_B_K_C, weights_K)

    for step, gain in enumerate(on_the_way):
        expected = true_gain(probs_B_K_C[:step], probs_B_K_C[step], weights_K)
        assert gain == pytest.approx(expected, abs=1e-12)
    assert rows.left == pytest.approx(true_left(probs_B_K_C, weights_K), abs=1e-12)
    assert rows.left + sum(on_the_way) == pytest.approx(entropy_of(weights_K), abs=1e-12)
    assert bool((rows.kept_R == 1).all())

    # Row by row: each is one configuration that leaves something open, with its own probability and posterior.
    table = enumerated(probs_B_K_C, weights_K)
    open_table = [(mass, r_K) for mass, r_K in table.values() if entropy_of(r_K) * mass > 1e-12]
    assert rows.count >= len(open_table)
    for mass, r_K in open_table:
        distance_R = (rows.posterior_R_K - r_K).abs().amax(1) + (rows.weight_R - mass).abs()
        nearest = int(distance_R.argmin())
        assert float(distance_R[nearest]) < 1e-12
        assert float(rows.entropy_R[nearest]) == pytest.approx(entropy_of(r_K), abs=1e-10)


@settings(deadline=None)
@given(**small, limit=st.integers(1, 6))
def test_posterior_rows_are_distributions_and_weights_positive(seed, points, draws, classes, zeros, limit):
    probs_B_K_C = draw_probs(seed, points, draws, classes, zeros=zeros)
    rows, _ = grown(probs_B_K_C, draw_weights(seed, draws), limit, np.random.default_rng(seed).random(points))
    assert torch.allclose(rows.posterior_R_K.sum(1), torch.ones(rows.count, dtype=torch.float64), atol=1e-12)
    assert bool((rows.posterior_R_K >= 0).all())
    assert bool((rows.weight_R > 0).all())
    assert bool(((rows.kept_R > 0) & (rows.kept_R <= 1)).all())
    assert bool(((rows.entropy_R > 0) & (rows.entropy_R <= math.log(draws) + 1e-12)).all())
    assert rows.count <= limit + 1


@settings(deadline=None)
@given(**small)
def test_gains_equal_enumeration(seed, points, draws, classes, zeros):
    probs_B_K_C = draw_probs(seed, points, draws, classes, zeros=zeros)
    candidates_N_K_C = draw_probs(seed + 1, 3, draws, classes, zeros=zeros)
    weights_K = draw_weights(seed, draws)
    rows, _ = grown(probs_B_K_C, weights_K)
    expected = [true_gain(probs_B_K_C, probs_K_C, weights_K) for probs_K_C in candidates_N_K_C]
    assert gains(rows, candidates_N_K_C).tolist() == pytest.approx(expected, abs=1e-12)
    reference = ExactJointEntropy(weights_K.log())
    for probs_K_C in probs_B_K_C:
        reference.add(probs_K_C.log())
    assert torch.allclose(gains(rows, candidates_N_K_C), reference.gains(candidates_N_K_C.log()), atol=1e-12)


def test_the_prior_is_one_row_and_need_not_be_normalised():
    weights_K = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64)
    rows = prior_rows(weights_K.log() + 5.0)
    assert torch.allclose(rows.posterior_R_K, weights_K[None])
    assert (rows.count, float(rows.weight_R), float(rows.kept_R)) == (1, 1.0, 1.0)
    assert rows.left == pytest.approx(entropy_of(weights_K), abs=1e-15)


def test_grow_and_thin_leave_the_parents_as_they_were():
    probs_B_K_C = draw_probs(3, 2, 4, 3)
    rows, _ = grown(probs_B_K_C[:1], draw_weights(3, 4))
    before = [tensor.clone() for tensor in (rows.posterior_R_K, rows.weight_R, rows.entropy_R, rows.kept_R)]
    probs_K_C = probs_B_K_C[1].clone()
    take(rows, probs_K_C, 4, 0.3)
    thin(rows, 2, 0.3)
    gains(rows, probs_B_K_C)
    after = [rows.posterior_R_K, rows.weight_R, rows.entropy_R, rows.kept_R]
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    assert torch.equal(probs_K_C, probs_B_K_C[1])


def test_a_kept_row_weighs_its_probability_over_the_chance_it_was_kept():
    probs_B_K_C, weights_K = draw_probs(5, 4, 3, 3), draw_weights(5, 3)
    table = list(enumerated(probs_B_K_C, weights_K).values())
    masses, posteriors = torch.tensor([mass for mass, _ in table]), torch.stack([r_K for _, r_K in table])
    for seed in range(20):
        rows, _ = grown(probs_B_K_C, weights_K, limit=7, offsets=np.random.default_rng(seed).random(4))
        nearest_R = torch.cdist(rows.posterior_R_K, posteriors).argmin(1)
        assert torch.allclose(rows.posterior_R_K, posteriors[nearest_R], atol=1e-12)
        hits_R = rows.weight_R * rows.kept_R / masses[nearest_R].double()
        assert torch.allclose(hits_R, hits_R.round(), rtol=1e-6)  # twice where a parent has more than one row to give
        assert float(hits_R.min()) > 0.5
        assert bool((rows.kept_R < 1).any())


@pytest.mark.parametrize(
    ("limit", "runs"),
    [
        (2, 200),
        (12, 60),
        *(pytest.param(limit, 600, marks=pytest.mark.slow) for limit in (2, 5, 12, 40)),
    ],
)
def test_thinned_growth_is_unbiased_for_left_and_every_gain(limit, runs):
    """Independent offsets a step, as in a selection: the mean over many runs lies within 4 standard errors."""
    probs_B_K_C, weights_K = draw_probs(11, 4, 5, 3), draw_weights(11, 5)
    candidates_N_K_C = draw_probs(12, 6, 5, 3)
    exact = [true_gain(probs_B_K_C, probs_K_C, weights_K) for probs_K_C in candidates_N_K_C]
    exact = torch.tensor([true_left(probs_B_K_C, weights_K), *exact], dtype=torch.float64)
    rng = np.random.default_rng(limit)
    found = torch.empty(runs, len(exact), dtype=torch.float64)
    for run in range(runs):
        rows, _ = grown(probs_B_K_C, weights_K, limit, rng.random(4))
        assert rows.count < 3**4  # rows were thinned, or the test proves nothing
        found[run, 0], found[run, 1:] = rows.left, gains(rows, candidates_N_K_C)
    error = found.std(0) / math.sqrt(runs)
    assert bool((error[1:] > 0).all())
    assert bool((error < 0.05 * exact).all())  # small enough to notice a bias of 20 %
    assert bool(((found.mean(0) - exact).abs() <= 4 * error + 1e-12).all())


@pytest.mark.parametrize(
    ("count", "steps"),
    [(1, 1000), (10, 400), *(pytest.param(*few, marks=pytest.mark.slow) for few in ((3, 800), (30, 400)))],
)
def test_thin_is_unbiased_for_left_and_every_gain(count, steps):
    """One offset only, so a fine grid of offsets integrates the expectation nearly exactly; few rows need a finer."""
    probs_B_K_C, weights_K = draw_probs(21, 4, 4, 3), draw_weights(21, 4)
    candidates_N_K_C = draw_probs(22, 5, 4, 3)
    rows, _ = grown(probs_B_K_C, weights_K)
    exact = torch.cat([torch.tensor([rows.left], dtype=torch.float64), gains(rows, candidates_N_K_C)])
    found, spread = torch.zeros_like(exact), torch.zeros_like(exact)
    for step in range(steps):
        few = thin(rows, count, (step + 0.5) / steps)
        assert few.count <= count + 1
        value = torch.cat([torch.tensor([few.left], dtype=torch.float64), gains(few, candidates_N_K_C)])
        found += value / steps
        spread = torch.maximum(spread, (value - exact).abs())
    assert float(spread[1:].min()) > 5e-4  # single runs are off
    assert bool(((found - exact).abs() < 5e-3 * exact).all())


def test_thinning_keeps_left_far_better_than_single_rows():
    """Chances in proportion to worth: every kept row carries the same worth c, so left moves by one row at most."""
    rows, _ = grown(draw_probs(31, 5, 4, 3), draw_weights(31, 4))
    for step in range(50):
        few = thin(rows, 20, step / 50)
        assert few.left == pytest.approx(rows.left, rel=1 / 19)


def test_thin_changes_nothing_where_all_rows_fit():
    rows, _ = grown(draw_probs(1, 3, 4, 2), draw_weights(1, 4))
    for count in (rows.count, rows.count + 1):
        same = thin(rows, count, 0.9)
        assert torch.equal(same.posterior_R_K, rows.posterior_R_K)
        assert torch.equal(same.weight_R, rows.weight_R)
        assert bool((same.kept_R == 1).all())


def test_thin_reports_the_chance_given_the_rows_it_was_handed():
    rows, _ = grown(draw_probs(2, 4, 4, 3), draw_weights(2, 4), limit=30, offsets=[0.1, 0.2, 0.3, 0.4])
    assert bool((rows.kept_R < 1).any())
    few = thin(rows, 10, 0.5)
    worth_X = few.weight_R * few.entropy_R  # raised weights: c for a lucky row, its own worth for a sure one
    lucky = few.kept_R < 1
    assert torch.allclose(worth_X[lucky], worth_X[lucky][0].expand(int(lucky.sum())), rtol=1e-9)
    assert bool((worth_X[~lucky] >= worth_X[lucky][0] * (1 - 1e-9)).all())


def test_heavier_leaves_out_light_rows_only():
    rows, _ = grown(draw_probs(6, 4, 4, 3), draw_weights(6, 4))
    threshold = float(rows.weight_R.median())
    heavy = heavier(rows, threshold)
    keep = rows.weight_R > threshold
    assert 0 < heavy.count < rows.count
    assert torch.equal(heavy.weight_R, rows.weight_R[keep])
    assert torch.equal(heavy.posterior_R_K, rows.posterior_R_K[keep])
    assert torch.equal(heavy.kept_R, rows.kept_R[keep])
    lost = gains(rows, draw_probs(7, 5, 4, 3)) - gains(heavy, draw_probs(7, 5, 4, 3))
    assert bool((lost <= (rows.count - heavy.count) * threshold * math.log(4)).all())
    assert heavier(rows, 0.0) is rows
    assert heavier(rows, 2.0).count == 0


def test_predicted_errors_of_differences_are_honest():
    """Σ (1 − kept) (term_a − term_b)² must not understate the variance of a thinned difference."""
    rows, _ = grown(draw_probs(41, 5, 5, 3), draw_weights(41, 5))
    pair = draw_probs(42, 2, 5, 3)

    def terms(rows):
        entropy_2_R = torch.special.entr(rows.posterior_R_K @ pair).sum(-1)
        return (entropy_2_R - torch.special.entr(pair).sum(-1) @ rows.posterior_R_K.T) * rows.weight_R

    exact = float((terms(rows)[0] - terms(rows)[1]).sum())
    misses, predicted = [], []
    for step in range(400):
        few = thin(rows, 40, step / 400)
        difference_R = terms(few)[0] - terms(few)[1]
        misses.append(float(difference_R.sum()) - exact)
        predicted.append(float(((1 - few.kept_R) * difference_R.square()).sum()))
    assert np.mean(np.square(misses)) <= 1.2 * np.mean(predicted)
    assert np.mean(np.square(misses)) >= 0.01 * np.mean(predicted)  # and means something
    assert np.mean(np.abs(misses) > 3 * np.sqrt(predicted)) < 0.02


worths = st.lists(st.floats(1e-3, 1.0), min_size=1, max_size=60)


@settings(deadline=None, max_examples=150)
@given(worth=worths, count=st.integers(1, 70))
@example(worth=[0.5**power for power in range(9)], count=5)
@example(worth=[0.3**power for power in range(6)] + [1e-3] * 20, count=7)
def test_inclusion_adds_up_to_count_and_is_min_of_one_and_worth_over_c(worth, count):
    worth_R = torch.tensor(worth, dtype=torch.float64)
    inclusion_R = inclusion(worth_R, count)
    assert bool(((inclusion_R > 0) & (inclusion_R <= 1)).all())
    if len(worth) <= count:
        assert bool((inclusion_R == 1).all())
        return
    assert float(inclusion_R.sum()) == pytest.approx(count, rel=1e-9)
    lucky = inclusion_R < 1
    if bool(lucky.any()):
        c_X = worth_R[lucky] / inclusion_R[lucky]
        assert torch.allclose(c_X, c_X[0].expand(len(c_X)), rtol=1e-9)
        assert bool((worth_R[~lucky] >= c_X[0] * (1 - 1e-9)).all())


@settings(deadline=None)
@given(exponents=st.lists(st.floats(-200, 0), min_size=2, max_size=200), count=st.integers(1, 50))
def test_inclusion_keeps_hardly_more_than_asked_however_uneven_the_worths(exponents, count):
    inclusion_R = inclusion(torch.tensor(exponents, dtype=torch.float64).exp(), count)
    assert bool(((inclusion_R > 0) & (inclusion_R <= 1)).all())
    # Where worths differ by more than a double can hold, a few more may be kept for sure.
    assert float(inclusion_R.sum()) <= count + 12


@settings(deadline=None, max_examples=20)
@given(chances=st.lists(st.one_of(st.just(1.0), st.floats(0.02, 0.98)), min_size=1, max_size=25))
def test_systematic_keeps_each_row_with_its_chance(chances):
    chance_R, steps = torch.tensor(chances, dtype=torch.float64), 250
    kept_R = torch.zeros_like(chance_R)
    for step in range(steps):
        taken = systematic(chance_R, (step + 0.5) / steps)
        assert taken.tolist() == sorted(set(taken.tolist()))
        assert math.floor(sum(chances) - 1e-9) <= len(taken) <= math.ceil(sum(chances) + 1e-9)
        kept_R[taken] += 1 / steps
    assert bool((kept_R[chance_R == 1] > 1 - 1e-9).all())
    # The offsets that keep a row form at most two intervals; a grid misjudges each by one step at most.
    assert bool(((kept_R - chance_R).abs() <= 3 / steps).all())


def test_systematic_spreads_the_kept_rows_evenly():
    taken = systematic(torch.full((100,), 0.1, dtype=torch.float64), 0.55)
    assert taken.diff().tolist() == [10] * 9


def test_sure_rows_survive_a_long_running_sum():
    chance_R = torch.full((100_000,), 1 / 3, dtype=torch.float64)
    chance_R[::7] = 1.0
    for offset in (0.0, 0.3, 1 - 1e-16):
        taken = systematic(chance_R, offset)
        assert set(range(0, 100_000, 7)) <= set(taken.tolist())
        assert len(taken) == pytest.approx(float(chance_R.sum()), abs=1.01)


@pytest.mark.parametrize(("kept", "promised"), [(1.0, 1e-14), (0.5, 1e-8)], ids=["exact", "sampled"])
def test_dropping_loses_no_more_than_promised(kept, promised):
    """Nearly certain draws leave many children worth next to nothing, some of which are dropped."""
    probs_B_K_C = torch.from_numpy(np.random.default_rng(0).dirichlet(np.full(6, 0.02), size=(4, 5))) + 1e-13
    probs_B_K_C = probs_B_K_C / probs_B_K_C.sum(-1, keepdim=True)
    rows = prior_rows(torch.zeros(5))
    rows = WeightedPosteriors(
        rows.posterior_R_K, rows.weight_R, rows.entropy_R, torch.tensor([kept], dtype=torch.float64)
    )
    dropped = 0
    for probs_K_C in probs_B_K_C:
        before, parents = rows.left, rows.count
        rows, gain = take(rows, probs_K_C, ALL, 0.5)
        dropped += parents * 6 - rows.count
        assert rows.left <= (before - gain) * (1 + 1e-12)
        assert rows.left >= (before - gain) * (1 - promised)
        assert bool((rows.kept_R == kept).all())
    assert dropped > 0


def test_draws_of_weight_zero_change_nothing():
    probs_B_K_C, weights_K = draw_probs(51, 3, 4, 3), draw_weights(51, 4)
    candidates_N_K_C = draw_probs(52, 4, 4, 3)
    foreign_K_C = torch.tensor([[0.0, 0.0, 0.0, 1.0]], dtype=torch.float64)  # alone in giving the last class mass

    def widened(probs_N_K_C):
        probs_N_K_C = torch.cat([probs_N_K_C, torch.zeros_like(probs_N_K_C[..., :1])], -1)
        return torch.cat([probs_N_K_C, foreign_K_C.expand(len(probs_N_K_C), 1, 4)], 1)

    rows, without = grown(probs_B_K_C, weights_K)
    more, with_it = grown(widened(probs_B_K_C), torch.cat([weights_K, torch.zeros(1, dtype=torch.float64)]))
    assert with_it == pytest.approx(without, abs=1e-14)
    assert more.count == rows.count
    assert bool((more.posterior_R_K[:, -1] == 0).all())
    assert torch.allclose(gains(more, widened(candidates_N_K_C)), gains(rows, candidates_N_K_C), atol=1e-14)


def test_impossible_labels_make_no_rows():
    probs_K_C = torch.tensor([[0.5, 0.5, 0.0], [0.1, 0.9, 0.0]], dtype=torch.float64)
    rows, gain = take(prior_rows(torch.zeros(2)), probs_K_C, ALL, 0.5)
    assert rows.count == 2
    assert float(rows.weight_R.sum()) == pytest.approx(1, abs=1e-15)
    assert gain == pytest.approx(true_gain(probs_K_C[None][:0], probs_K_C, torch.full((2,), 0.5).double()), abs=1e-15)


def test_a_label_that_names_the_draw_closes_its_row():
    probs_K_C = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.5, 0.5], [0.0, 0.25, 0.75]], dtype=torch.float64)
    rows, _ = take(prior_rows(torch.zeros(3)), probs_K_C, ALL, 0.5)
    assert rows.count == 2  # label 0 leaves nothing open
    assert bool((rows.posterior_R_K[:, 0] == 0).all())


def test_nothing_left_stays_nothing():
    rows, gain = take(prior_rows(torch.zeros(3)), torch.eye(3), ALL, 0.5)
    assert (rows.count, rows.left) == (0, 0.0)
    assert gain == pytest.approx(math.log(3), abs=1e-15)
    rows, gain = take(rows, draw_probs(0, 3, 3), ALL, 0.5)
    assert (rows.count, gain) == (0, 0.0)
    assert gains(rows, draw_probs(0, 2, 3, 3)).tolist() == [0.0, 0.0]


def test_one_draw_has_nothing_to_tell():
    rows, gain = take(prior_rows(torch.zeros(1)), draw_probs(0, 1, 4), ALL, 0.5)
    assert abs(gain) < 1e-15
    assert rows.left < 1e-15


@pytest.mark.parametrize("tiny", [1e-20, 1e-150, 1e-300, 5e-324])
def test_tiny_probabilities_neither_vanish_nor_turn_into_nan(tiny):
    probs_K_C = torch.tensor([[1.0, tiny], [1.0, 3 * tiny], [0.5, 0.5]], dtype=torch.float64)
    rows, gain = take(prior_rows(torch.zeros(3)), probs_K_C, ALL, 0.5)
    expected = true_gain(probs_K_C[None][:0], probs_K_C, torch.full((3,), 1 / 3, dtype=torch.float64))
    assert gain == pytest.approx(expected, abs=1e-14)
    for _ in range(4):
        rows, gain = take(rows, probs_K_C, ALL, 0.5)
        assert math.isfinite(gain)
        assert gain >= -1e-15
        assert bool(rows.posterior_R_K.isfinite().all())
        assert bool((rows.posterior_R_K.sum(1) - 1).abs().max() < 1e-12) if rows.count else True
        assert bool(gains(rows, probs_K_C[None]).isfinite().all())


def test_a_posterior_survives_products_far_below_the_smallest_float():
    """60 labels of probability 1e-7 each: the row's posterior is finite although its weight is 1e-420."""
    probs_K_C = torch.tensor([[1 - 1e-7, 1e-7], [1 - 2e-7, 2e-7], [1 - 3e-7, 3e-7]], dtype=torch.float64)
    rows = prior_rows(torch.zeros(3))
    for _ in range(60):
        # Only the unlikely label is followed: as if it had been the only possible one.
        likelihood_K_C = probs_K_C[:, 1:] / probs_K_C[:, 1:].sum()
        rows, _ = take(rows, likelihood_K_C, ALL, 0.5)
    expected_K = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64) ** 60
    assert torch.allclose(rows.posterior_R_K[0], expected_K / expected_K.sum(), atol=1e-12)


# Children of one parent lie on a circle


@settings(deadline=None)
@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=12),
    seed=st.integers(0, 10_000),
    offset=st.floats(0, 1, exclude_max=True),
)
def test_every_group_is_hit_as_often_as_its_chances_add_up_to(sizes, seed, offset):
    rng = np.random.default_rng(seed)
    chance_X = torch.from_numpy(rng.random(sum(sizes)))
    chance_X[torch.from_numpy(rng.random(len(chance_X)) < 0.2)] = 1.0
    group_X = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    hits_X = systematic_on_circles(chance_X, group_X, offset)
    assert bool((hits_X[chance_X == 1] == 1).all())
    unsure_X = torch.where(chance_X == 1, 0.0, 1.0).double()
    hit_G, due_G = (
        torch.zeros(len(sizes), dtype=torch.float64).index_add(0, group_X, x_X * unsure_X) for x_X in (hits_X, chance_X)
    )
    assert bool(((hit_G - due_G).abs() < 1 + 1e-9).all())


def test_hits_have_their_chances_on_average_and_none_of_chance_0():
    chance_X = torch.tensor([0.3, 0.0, 0.4, 1.0, 0.9, 0.6, 0.2, 0.05], dtype=torch.float64)
    group_X = torch.tensor([0, 0, 0, 0, 1, 1, 1, 2])
    steps = 1000
    hits = torch.stack([systematic_on_circles(chance_X, group_X, (step + 0.5) / steps) for step in range(steps)])
    assert torch.allclose(hits.mean(0), chance_X, atol=2e-3)
    assert float(hits[:, 1].max()) == 0


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_labels_are_spread_over_alike_parents_at_any_offset(classes):
    """With evenly spaced points alone every parent would get the same label: the same quantile of each is hit."""
    probs_C = torch.arange(1, classes + 1, dtype=torch.float64)
    probs_C /= probs_C.sum()
    parents = 1000
    group_X = torch.arange(parents).repeat_interleave(classes)
    for offset in (0.02, 0.1, 0.37, 0.5, 0.93):
        hits_P_C = systematic_on_circles(probs_C.repeat(parents), group_X, offset).view(parents, classes)
        assert torch.allclose(hits_P_C.mean(0), probs_C, atol=4e-3)
        assert bool((hits_P_C.sum(1) == 1).all())


@pytest.mark.parametrize(("scale", "draws", "classes", "points"), [(0.2, 20, 2, 20), (0.3, 3, 2, 25), (0.2, 20, 10, 8)])
def test_where_labels_tell_little_rows_are_no_noisier_than_as_many_sampled_labellings(scale, draws, classes, points):
    probs_N_K_C = draw_probs(31, points + 30, draws, classes, scale=scale)
    taken_B_K_C, others_N_K_C = probs_N_K_C[:points], probs_N_K_C[points:]
    weights_K = torch.full((draws,), 1 / draws, dtype=torch.float64)
    limit, seeds = 256, 12

    def spread(found):
        """Of differences between candidates, over seeds."""
        return float((found - found.mean(1, keepdim=True)).std(0).mean())

    rng = np.random.default_rng(0)
    thinned = [gains(grown(taken_B_K_C, weights_K, limit, rng.random(points))[0], others_N_K_C) for _ in range(seeds)]
    sampled = []
    for seed in range(seeds):
        generator = torch.Generator().manual_seed(seed)
        posterior_S_K, _ = sample_configurations(taken_B_K_C.log(), limit, None, generator)
        alike_S = torch.full((limit,), 1 / limit, dtype=torch.float64)
        sampled.append(gains(WeightedPosteriors(posterior_S_K, alike_S, alike_S, alike_S), others_N_K_C))
    assert spread(torch.stack(thinned)) < spread(torch.stack(sampled))


@pytest.mark.parametrize(("scale", "draws", "classes", "points"), [(0.2, 20, 2, 16), (1.0, 20, 3, 9), (2.0, 20, 10, 5)])
def test_claimed_errors_of_leads_are_those_of_repeated_seeds(scale, draws, classes, points):
    probs_N_K_C = draw_probs(41, points + 20, draws, classes, scale=scale)
    taken_B_K_C, others_N_K_C = probs_N_K_C[:points], probs_N_K_C[points:]
    weights_K = torch.full((draws,), 1 / draws, dtype=torch.float64)
    rng, leads, claims = np.random.default_rng(1), [], []
    for _ in range(30):
        rows, _ = grown(taken_B_K_C, weights_K, 512, rng.random(points))
        term_n_R = terms(rows, others_N_K_C)
        assert torch.allclose(term_n_R.sum(1), gains(rows, others_N_K_C), atol=1e-12)
        leads.append((term_n_R[0] - term_n_R[1:]).sum(1))
        claims.append(lead_errors(term_n_R[1:], term_n_R[0], 1 - rows.kept_R))
    ratio = torch.stack(leads).std(0).square().mean().sqrt() / torch.stack(claims).square().mean().sqrt()
    assert 0.2 < float(ratio) < 1.3
