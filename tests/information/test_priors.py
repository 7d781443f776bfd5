"""A pool that stands for other shares of the classes."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from golden_values import golden
from natsel.information.priors import checked_prior, class_prior_weights

CASES = golden("06-epig")


def numbers(values):
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize("name", ["class_prior_weights", "class_prior_weights_zero_class"])
def test_golden_values(name):
    case = CASES[name]
    found = class_prior_weights(*(numbers(case["inputs"][key]) for key in ("mean_probs_N_C", "target_prior_C")))
    torch.testing.assert_close(found, numbers(case["expected"]["weights_N"]), rtol=1e-10, atol=1e-13)


def test_a_class_that_no_point_can_stand_for_is_refused_by_name():
    given = CASES["class_prior_weights_impossible"]["inputs"]
    with pytest.raises(ValueError, match="class prior: class 2 is wanted"):
        class_prior_weights(numbers(given["mean_probs_N_C"]), numbers(given["target_prior_C"]))


@given(st.integers(0, 10**6), st.integers(1, 20), st.integers(2, 6))
def test_weights_sum_to_the_pool_and_its_own_shares_leave_them_at_one(seed, points, classes):
    generator = torch.Generator().manual_seed(seed)
    probs = (3 * torch.randn(points, classes, generator=generator, dtype=torch.float64)).softmax(-1)
    prior = torch.randn(classes, generator=generator, dtype=torch.float64).softmax(-1)
    weights = class_prior_weights(probs, prior)
    assert float(weights.sum()) == pytest.approx(points)
    assert bool((weights >= 0).all())
    # Weighed by them, the pool has the shares asked for.
    torch.testing.assert_close(class_prior_weights(probs, probs.mean(0)), torch.ones(points, dtype=torch.float64))
    one = torch.eye(classes, dtype=torch.float64)[1]
    torch.testing.assert_close(class_prior_weights(probs, one), probs[:, 1] / probs[:, 1].mean())


@pytest.mark.parametrize("prior", [[0.5, 0.4], [1.5, -0.5], [float("nan"), 1.0], [[1.0]]])
def test_shares_that_are_none_are_refused(prior):
    with pytest.raises(ValueError, match="class prior: expected the share of each class"):
        checked_prior(numbers(prior))


def test_shares_for_other_classes_and_no_points_are_refused():
    with pytest.raises(ValueError, match="class prior: it has 2 classes"):
        class_prior_weights(torch.full((4, 3), 1 / 3), numbers([0.5, 0.5]))
    with pytest.raises(ValueError, match="no points to weigh"):
        class_prior_weights(torch.zeros(0, 2), numbers([0.5, 0.5]))


def test_shares_rounded_to_a_few_digits_are_taken():
    assert float(checked_prior(numbers([0.3333, 0.3333, 0.3333])).sum()) == 1.0
