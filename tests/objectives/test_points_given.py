"""`given=` on draws: exact while the draws last, a log-determinant from there on, and nothing where nothing is told."""

import itertools
import math

import numpy as np
import pytest
import torch

import natsel
from natsel import EIG, EPIG, JEPIG, CategoricalSamples, GaussianSamples
from natsel.beliefs import Targets
from natsel.objectives import Context, read, read_and_warn
from natsel.objectives.readings.draws import eig_categorical


def draws(seed, points, n_draws=5, classes=3, spread=1.5, weighted=True):
    rng = np.random.default_rng(seed)
    logits_N_K_C = spread * rng.normal(size=(points, n_draws, classes))
    weights_K = np.random.default_rng(7).dirichlet(np.full(n_draws, 3.0)) if weighted else np.full(n_draws, 1 / n_draws)
    return CategoricalSamples.from_logits(logits_N_K_C, np.log(weights_K), draws_id="fit")


def entropy(p):
    p = np.asarray(p)[np.asarray(p) > 0]
    return float(-(p * np.log(p)).sum())


def joint(beliefs):
    """p(ω, y_1, y_2, …) of all labels of all points, by enumeration."""
    first = beliefs[0]
    table = first.log_weights_K.exp().numpy()
    for belief in beliefs:
        for probs_K_C in belief.log_probs_N_K_C.exp().numpy():
            table = table[..., None] * probs_K_C.reshape(len(probs_K_C), *[1] * (table.ndim - 1), -1)
    return table


def entropy_of(table, axes):
    return entropy(table.sum(tuple(set(range(table.ndim)) - set(axes))).ravel())


def information(table, one, two, given):
    """I[one; two | given] from a table, by its axes."""
    h = lambda *parts: entropy_of(table, {axis for part in parts for axis in part})  # noqa: E731
    return h(one, given) + h(two, given) - h(one, two, given) - h(given)


def state_of(objective, pool, given, targets=None, seed=0):
    about = None if targets is None else Targets(targets)
    return read(objective, pool, Context(about, None, torch.Generator().manual_seed(seed), Targets(given)))


@pytest.mark.parametrize("n_given", [1, 2])
@pytest.mark.parametrize("objective", [EIG(), EPIG(), JEPIG()], ids=lambda one: type(one).__name__)
def test_gains_given_points_are_those_of_enumeration(objective, n_given):
    """Before the first pick and after one, of single points and of sets."""
    held, pool, targets = draws(1, n_given), draws(2, 3), draws(3, 2)
    table = joint([held, pool, targets])
    given = range(1, 1 + n_given)
    points = [1 + n_given + place for place in range(3)]
    aims = [4 + n_given, 5 + n_given]

    def expected(one, seen):
        if isinstance(objective, EIG):
            return information(table, one, [0], seen)
        each = [[aim] for aim in aims] if isinstance(objective, EPIG) else [aims]
        return float(np.mean([information(table, one, aim, seen) for aim in each]))

    state = state_of(objective, pool, held, None if isinstance(objective, EIG) else targets)
    alone = [expected([point], given) for point in points]
    np.testing.assert_allclose(state.scores(), alone, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(state.gains(torch.arange(3)), alone, rtol=1e-9, atol=1e-12)
    assert state.value(torch.tensor([0, 2])) == pytest.approx(expected([points[0], points[2]], given), abs=1e-9)
    assert state.add(2) == pytest.approx(alone[2], abs=1e-9)
    after = [expected([point], [*given, points[2]]) for point in points[:2]]
    np.testing.assert_allclose(state.gains(torch.arange(2)), after, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(state.scores(), alone, rtol=1e-9, atol=1e-12)
    assert state.exact


@pytest.mark.parametrize("weighted", [True, False])
def test_batches_given_points_are_the_best_next_picks(weighted):
    """Greedy given G takes what greedy would have taken after G."""
    pool = draws(4, 40, n_draws=12, spread=0.8, weighted=weighted)
    found = natsel.select("batchbald", pool, 3, given=pool[[5, 9]])
    state = read(EIG(), pool, Context(None, None, torch.Generator()))
    for place in (5, 9):
        state.add(place)
    for place, gain in zip(found.ids, found.scores, strict=True):
        gain_N = state.gains(torch.arange(40))
        assert float(gain_N.max()) == pytest.approx(float(gain), abs=1e-9)
        state.add(int(place))
    top = natsel.select("bald", pool, 5, given=pool[[5, 9]])
    score_N = natsel.score("bald", pool, given=pool[[5, 9]])
    assert top.ids.tolist() == score_N.argsort(descending=True)[:5].tolist()


@pytest.mark.parametrize("method", ["bald", "batchbald", "power-bald", "epig", "batch-epig", "jepig"])
def test_a_point_on_which_draws_agree_changes_no_pick(method):
    pool = draws(0, 120, n_draws=10, spread=1.0, weighted=False)
    agreed = CategoricalSamples.from_probs(np.full((2, 10, 3), 1 / 3), draws_id="fit")
    known = {"targets": pool[:2]} if "pig" in method else {}
    alone, given = (natsel.select(method, pool, 6, given=held, **known) for held in (None, agreed))
    assert given.ids.tolist() == alone.ids.tolist()
    assert torch.equal(given.scores, alone.scores)
    assert given.warnings == alone.warnings


def test_noise_of_every_draw_is_kept_given_a_point_that_tells_nothing():
    rng = np.random.default_rng(0)
    pool = GaussianSamples(rng.normal(size=(60, 6)), rng.uniform(0.01, 1.0, size=(60, 6)))
    agreed = GaussianSamples(np.ones((1, 6)), rng.uniform(0.01, 1.0, size=(1, 6)))
    for method in ("bald", "batchbald"):
        alone, given = (natsel.select(method, pool, 8, given=held) for held in (None, agreed))
        assert given.ids.tolist() == alone.ids.tolist()
        torch.testing.assert_close(given.scores, alone.scores, rtol=1e-12, atol=0)


# Where the draws are used up.


def test_a_log_determinant_goes_on_where_points_given_use_the_draws_up():
    pool = draws(5, 60, n_draws=8, spread=2.0, weighted=False)
    given = natsel.select("batchbald", pool, 4, given=pool[:12])
    assert sum(warning.startswith("points given: their labels carry ") for warning in given.warnings) == 1
    assert "log-determinant" in given.warnings[0]
    expected = natsel.select("logdet-bald", pool, 4, given=pool[:12])
    assert given.ids.tolist() == expected.ids.tolist()
    assert torch.equal(given.scores, expected.scores)
    assert natsel.select("bald", pool, 4, given=pool[:12]).scores[0] == expected.scores[0]
    for method in ("epig", "jepig"):
        said = natsel.select(method, pool, 4, given=pool[:12], targets=pool[20:23]).warnings
        assert said[0].startswith("points given: ")
        assert said[1].startswith("second order: ")


def test_points_given_are_exact_up_to_a_tenth_of_a_nat():
    """Two draws that one label tells apart but for 0.11 or 0.09 nats."""
    for left, exact in ((0.11, True), (0.09, False)):
        low, high = 0.0, 0.5
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (low, middle) if entropy([middle, 1 - middle]) > left else (middle, high)
        held = CategoricalSamples.from_probs([[[low, 1 - low], [1 - low, low]]])
        pool = CategoricalSamples.from_probs([[[0.2, 0.8], [0.7, 0.3]]])
        _, reading, said = read_and_warn(EIG(), pool, Context(None, None, torch.Generator(), Targets(held)))
        assert (reading.objective is EIG, not said) == (exact, exact)


def test_few_of_many_points_given_are_looked_at(monkeypatch):
    """Adding ends where the draws are used up, and rows stay as few as the objective allows."""
    looked = []
    monkeypatch.setattr(
        eig_categorical,
        "expand",
        lambda rows, probs, real=eig_categorical.expand: looked.append(rows) or real(rows, probs),
    )
    pool = draws(6, 400, n_draws=10, spread=2.0, weighted=False)
    natsel.select("bald", pool, 3, given=pool[50:])
    assert 3 < len(looked) < 20
    looked.clear()
    vague = draws(7, 30, n_draws=10, spread=0.05, weighted=False)
    state = state_of(EIG(rows=64), pool, vague)
    assert len(looked) == 30
    assert not state.exact
    assert state.rows.count < 80
    assert 0 < state.total + state.remaining < math.log(10)


def test_one_draw_has_nothing_to_be_used_up():
    one = draws(8, 5, n_draws=1, weighted=False)
    found = natsel.select("bald", one, 2, given=one[:2])
    assert found.scores.tolist() == [0.0, 0.0]
    assert [warning[:8] for warning in found.warnings] == ["one draw", "decided "]


def test_labels_of_points_given_are_averaged_over_whatever_they_are():
    """A gain given a point is what is expected before its label is known, with or without labels passed."""
    pool, held = draws(9, 6), draws(10, 1)
    scores_N = natsel.score("bald", pool, given=held)
    mean_C = held.predict_proba()[0]
    expected_N = sum(
        float(mean_C[label]) * natsel.score("bald", pool.with_weights_of(held.reweighted(seen_K)))
        for label, seen_K in enumerate(held.log_probs_N_K_C[0].T)
    )
    torch.testing.assert_close(scores_N, expected_N, rtol=1e-9, atol=1e-12)
    assert torch.equal(natsel.score("bald", pool, given=Targets(held, labels=[2])), scores_N)


# Bounds say so.


def test_bounds_and_approximations_are_named_in_the_warnings():
    means, variances = np.array([[0.0, 1.0, 3.0], [0.1, 0.2, 0.0]]), np.array([[0.3, 1.0, 0.1], [0.2, 0.2, 0.2]])
    uneven = GaussianSamples(means, variances)
    for method in ("bald", "batchbald", "power-bald"):
        (said,) = (one for one in natsel.select(method, uneven, 1).warnings if "bound" in one)
        assert said == "upper bound of I[Y;W|x]: no law with the mixture's moments has more entropy than the normal"
    (said,) = natsel.select("epig", uneven, 1, targets=uneven).warnings
    assert said.startswith("approximation of I[Y;Y*|x,x*]: ")
    assert natsel.select("bald", uneven.features(), 1).warnings == ()


def test_every_label_of_two_given_points_is_enumerated_by_hand():
    """The reference of this file against sums written out, for one pool."""
    held, pool = draws(11, 1, n_draws=2, classes=2), draws(12, 1, n_draws=2, classes=2)
    weights_K = held.log_weights_K.exp().numpy()
    left = 0.0
    for label, other in itertools.product(range(2), repeat=2):
        p_K = held.log_probs_N_K_C[0, :, label].exp().numpy() * pool.log_probs_N_K_C[0, :, other].exp().numpy()
        left += (weights_K @ p_K) * entropy(weights_K * p_K / (weights_K @ p_K))
    before = sum(
        (weights_K @ p_K) * entropy(weights_K * p_K / (weights_K @ p_K))
        for p_K in held.log_probs_N_K_C[0].exp().numpy().T
    )
    assert information(joint([held, pool]), [2], [0], [1]) == pytest.approx(before - left, abs=1e-12)
