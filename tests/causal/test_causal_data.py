"""Data about treatments: known truths, published formulas, and what is refused."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from golden_values import golden
from natsel import Pool
from natsel.causal import (
    causal_ihdp,
    causal_mnist,
    causal_synthetic,
    check_treatment,
    digit_phi,
    examples_of,
    synthetic_means,
    synthetic_propensity,
    treatment_of,
    with_treatment,
)

GOLDEN = golden("10-causal")


def test_the_synthetic_formula_has_its_golden_values():
    case = GOLDEN["synthetic_scm"]
    x_N, expected = case["inputs"]["x_N"], case["outputs"]
    mean0_N, mean1_N = synthetic_means(x_N)
    np.testing.assert_allclose(mean0_N, expected["y0_N"], rtol=1e-9)
    np.testing.assert_allclose(mean1_N, expected["y1_N"], rtol=1e-9)
    np.testing.assert_allclose(mean1_N - mean0_N, expected["tau_N"], rtol=1e-9)
    np.testing.assert_allclose(synthetic_propensity(x_N), expected["pt_N"], rtol=1e-9)


@settings(deadline=None)
@given(st.floats(-8, 8), st.sampled_from([0, 1]))
def test_both_arms_follow_the_one_published_equation(x, t):
    s = 2 * t - 1
    printed = s * x + s - 2 * np.sin(2 * s * x) + 2 * (1 + 0.5 * x)
    assert synthetic_means([x])[t][0] == pytest.approx(printed, abs=1e-12)


def test_synthetic_points_follow_their_truth():
    found = causal_synthetic(pool=40_000)
    x_N, t_N, masks = found.pool.inputs[:, 0].astype(float), treatment_of(found.pool.inputs), found.pool.masks
    np.testing.assert_allclose(masks["effect"], 2 * x_N + 2 - 4 * np.sin(2 * x_N), atol=1e-12)
    np.testing.assert_allclose([x_N.mean(), x_N.std()], [0, 1], atol=0.03)
    noise_N = found.pool.labels - np.where(t_N == 1, masks["mean1"], masks["mean0"])
    np.testing.assert_allclose([noise_N.mean(), noise_N.std()], [0, 1], atol=0.03)
    for low in (-1.5, -0.5, 0.5):  # treatments and effects, as they can be counted near some x
        near = np.abs(x_N - low) < 0.1
        assert t_N[near].mean() == pytest.approx(synthetic_propensity([low])[0], abs=0.05)
        difference = found.pool.labels[near & (t_N == 1)].mean() - found.pool.labels[near & (t_N == 0)].mean()
        assert difference == pytest.approx(2 * low + 2 - 4 * np.sin(2 * low), abs=0.35)
    assert [len(part) for part in (found.validation, found.test)] == [1000, 1000]
    np.testing.assert_array_equal(found.effect_N, found.mean1_N - found.mean0_N)
    assert found.propensity_N.shape == (1000,)


def test_a_seed_gives_the_same_set_and_no_part_is_that_of_another_seed():
    one, again, other = (causal_synthetic(50, 50, 50, seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one.pool.inputs, again.pool.inputs)
    np.testing.assert_array_equal(one.test.labels, again.test.labels)
    parts = [part.inputs for found in (one, other) for part in (found.pool, found.validation, found.test)]
    assert len({part.tobytes() for part in parts}) == 6


def test_phi_has_its_golden_values():
    case = GOLDEN["cmnist_phi"]
    for name, edge in (("printed", 2.0), ("released", 3.0)):
        for digit, expected in zip(case["inputs"]["classes"], case["outputs"][name], strict=True):
            np.testing.assert_allclose(digit_phi(case["inputs"]["z"], digit, edge), expected, atol=1e-12)


@settings(deadline=None)
@given(st.lists(st.floats(-5, 5), min_size=2, max_size=8), st.integers(0, 9))
def test_phi_stays_in_the_interval_of_its_digit_and_grows_with_intensity(z, digit):
    phi = digit_phi(sorted(z), digit)
    assert (np.diff(phi) >= 0).all()
    assert phi.min() >= -2 + 0.4 * digit - 1e-12
    assert phi.max() <= -2 + 0.4 * (digit + 1) + 1e-12


@pytest.mark.needs_data("mnist")
def test_pictures_of_digits_are_treated_by_their_phi():
    found = causal_mnist(pool=3000, validation=500, test=200, noise=0.0)
    pool = found.pool
    assert pool.inputs.shape == (3000, 785)
    phi_N, digit_N, t_N = pool.masks["phi"], pool.masks["digit"], treatment_of(pool.inputs)
    assert ((phi_N >= -2 + 0.4 * digit_N - 1e-9) & (phi_N <= -1.6 + 0.4 * digit_N + 1e-9)).all()
    intensity_N = pool.inputs[:, :-1].mean(1)
    inside = (digit_N == 3) & (np.abs(phi_N + 0.6) < 0.19)  # not clipped: φ is linear in the intensity
    assert np.corrcoef(phi_N[inside], intensity_N[inside])[0, 1] == pytest.approx(1, abs=1e-6)
    np.testing.assert_array_equal(pool.masks["propensity"], synthetic_propensity(phi_N))
    assert t_N.mean() == pytest.approx(pool.masks["propensity"].mean(), abs=0.03)
    np.testing.assert_array_equal(pool.labels, np.where(t_N == 1, pool.masks["mean1"], pool.masks["mean0"]))
    assert np.unique(pool.inputs[:, :-1]).min() == pytest.approx(-0.1307 / 0.3081, rel=1e-5)
    assert not set(pool.masks["row"]) & set(found.validation.masks["row"])
    assert len(found.test) == 200


@pytest.mark.parametrize("surface", ["B", "stored"])
@pytest.mark.needs_data("ihdp")
def test_ihdp_has_its_published_counts_and_effect_on_the_treated(surface):
    found = causal_ihdp(7, surface)
    parts = (found.pool, found.validation, found.test)
    assert [len(part) for part in parts] == [470, 202, 75]
    inputs = np.concatenate([part.inputs for part in parts])
    effect_N = np.concatenate([part.masks["effect"] for part in parts])
    t_N = treatment_of(inputs, -1)
    assert (inputs.shape, t_N.sum(), (t_N == 0).sum()) == ((747, 26), 139, 608)
    assert effect_N[t_N == 1].mean() == pytest.approx(4, abs=1e-5)
    assert sorted(np.concatenate([part.masks["row"] for part in parts])) == list(range(747))
    log_mean0_N = np.log(np.concatenate([part.masks["mean0"] for part in parts]))
    mean1_N = np.concatenate([part.masks["mean1"] for part in parts])
    # Both surfaces are one linear function of x: as an exponent, and shifted.
    np.testing.assert_allclose(mean1_N - log_mean0_N, (mean1_N - log_mean0_N)[0], atol=1e-4)
    noise_N = np.concatenate([part.labels for part in parts]) - np.where(t_N == 1, mean1_N, np.exp(log_mean0_N))
    assert noise_N.std() == pytest.approx(1, abs=0.08)
    assert found.propensity_N is None


@pytest.mark.needs_data("ihdp")
def test_outcomes_of_ihdp_differ_by_seed_and_stored_ones_end():
    one, other = causal_ihdp(0), causal_ihdp(1)
    assert one.effect_N.std() != other.effect_N.std()
    with pytest.raises(ValueError, match=r"^seed: expected the number of a stored outcome, 0\.\.49, found 50; choose"):
        causal_ihdp(50, "stored")


def test_treatments_of_arrays_tensors_and_frames_come_last():
    x_N_2, t_N = np.array([[1, 2], [3, 4], [5, 6]], dtype=np.float32), [True, False, True]
    found = with_treatment(x_N_2, t_N)
    assert (found.dtype, found.tolist()) == (np.float32, [[1, 2, 1], [3, 4, 0], [5, 6, 1]])
    assert treatment_of(torch.from_numpy(found), -1).tolist() == [1, 0, 1]
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"drug": t_N, "age": [41, None, 35], "sex": ["f", "m", "f"]}, index=[7, 8, 9])
    moved = with_treatment(frame, "drug")
    assert (list(moved.columns), moved["drug"].tolist(), list(moved.index)) == (
        ["age", "sex", "drug"],
        [1, 0, 1],
        [7, 8, 9],
    )
    assert frame["drug"].dtype == bool  # the frame that was given stays as it was
    assert treatment_of(Pool(moved).inputs[[1, 2]], "drug").tolist() == [0, 1]


def test_the_treatments_of_a_polars_frame_come_last_too():
    polars = pytest.importorskip("polars")
    moved = with_treatment(polars.DataFrame({"drug": [True, False, True], "age": [41, None, 35]}), "drug")
    assert (moved.columns, moved["drug"].to_list()) == (["age", "drug"], [1, 0, 1])


def test_outcomes_become_numbers_unless_they_are_yes_and_no():
    x_N, t_N = [[0.1], [0.2]], [0, 1]
    assert examples_of(x_N, t_N, [3, 17]).labels.dtype == np.float64
    assert examples_of(x_N, t_N, [False, True]).labels.tolist() == [0, 1]
    assert examples_of(x_N, t_N, [1, 0]).labels.dtype == np.int64
    assert examples_of(x_N, t_N, torch.tensor([1.0, 0.0])).labels.dtype == np.float64


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: check_treatment([0, 1, 0.5]), "treatment: expected 0 or 1, found 0.5; code the two treatments"),
        (lambda: check_treatment(["drug", "none"]), "treatment: expected 0 or 1, found 'drug'; code the two"),
        (lambda: check_treatment([1, 1]), "treatment: all 2 points received 1; an effect can be learnt only from"),
        (lambda: check_treatment([]), "treatment: there are no points; an effect"),
        (lambda: check_treatment([0, 1, np.nan]), r"treatment: 1 of 3 are missing \(NaN\); leave these points out"),
        (lambda: check_treatment([0, None]), r"treatment: 1 of 2 are missing \(NaN\); leave these points out"),
        (lambda: check_treatment([[0, 1]]), r"treatment: expected one 0 or 1 per point, found shape \(1, 2\); pass"),
        (lambda: with_treatment([[1.0], [2.0]], [0, 1, 1]), "treatment: expected one for each of 2 points, found 3;"),
        (lambda: with_treatment([[1.0], [np.nan]], [0, 1]), "features: 1 of 2 points hold NaN or infinity; fill"),
        (lambda: with_treatment([["a"], ["b"]], [0, 1]), "features: expected a table of numbers, one row per point"),
        (lambda: examples_of([1.0, 2.0], [0, 1], [1.0]), "outcomes: expected one for each of 2 points, found 1;"),
        (lambda: examples_of([1.0, 2.0], [0, 1], [1.0, np.nan]), "outcomes: 1 of 2 are NaN or infinite; leave"),
        (
            lambda: treatment_of([[1.0], [0.0]]),
            r"inputs: expected columns of features and one of treatments, .*\(2, 1\)",
        ),
        (lambda: treatment_of([[1.0, 3.0]], -1), "treatment: expected 0 or 1, found 3;"),
        (lambda: examples_of([1.0, 2.0], [0, 1], 3.0), r"outcomes: expected one outcome per point, found shape \(\)"),
        (lambda: causal_synthetic(pool=2.5), "pool: expected a whole number of points from 1 on, found 2.5;"),
        (lambda: causal_mnist(test=0), "test: expected a whole number of points from 1 on, found 0;"),
        (lambda: causal_mnist(edge=np.inf), "edge: expected a number above 0, found inf;"),
        (lambda: causal_mnist(noise=np.inf), "noise: expected a deviation of at least 0, found inf;"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(call, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        call()


def test_a_frame_needs_the_name_of_its_treatments():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"age": [41, 29], "drug": [1, 1]})
    with pytest.raises(ValueError, match=r"^treatment: there is no column that is a list among age, drug; say which"):
        with_treatment(frame, [0, 1])
    with pytest.raises(ValueError, match=r"^treatment: all 2 points received 1; an effect"):
        with_treatment(frame, "drug")
    for words in (["yes", "no"], pandas.Categorical(["no", "yes"])):
        named = frame.assign(drug=words)
        with pytest.raises(ValueError, match=r"^treatment: column 'drug' holds .*, expected 0 or 1; code the two"):
            with_treatment(named, "drug")
        with pytest.raises(ValueError, match=r"^treatment: column 'drug' holds .*, expected 0 or 1; code the two"):
            treatment_of(named, "drug")
    numbered = pandas.DataFrame(np.array([[1.0, 0.5, 3.0], [0.0, 0.7, 4.0]]))
    moved = with_treatment(numbered, 0)
    assert list(moved.columns) == [1, 2, 0]
    assert treatment_of(moved, 0).tolist() == [1, 0]
    assert numbered[0].tolist() == [1.0, 0.0]
