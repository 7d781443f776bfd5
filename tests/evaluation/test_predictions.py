import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from natsel import GaussianSamples
from natsel.evaluation import accuracy, errors, gaussian_nll, member_errors, nll, rmse
from natsel.evaluation.classification import FLOOR
from natsel.evaluation.of_belief import METRICS, evaluate


def test_accuracy_and_nll_by_hand():
    probs_N_C = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6], [0.2, 0.5, 0.3]])
    labels_N = np.array([0, 1, 1])
    assert accuracy(probs_N_C.log(), labels_N) == pytest.approx(2 / 3)
    assert nll(probs_N_C.log(), labels_N) == pytest.approx(-(math.log(0.7) + math.log(0.3) + math.log(0.5)) / 3)


def test_an_impossible_label_costs_infinitely_much_and_is_no_nan():
    log_mean_N_C = torch.tensor([[1.0, 0.0]]).log()
    assert nll(log_mean_N_C, [1]) == math.inf
    assert accuracy(log_mean_N_C, [1]) == 0


def test_a_floor_ends_infinity_changes_nothing_else_and_keeps_the_order():
    log_mean_N_C = torch.tensor([[1.0, 0.0], [0.25, 0.75], [1.0, 1e-30]]).log()
    impossible, likely, hardly = (nll(log_mean_N_C[n : n + 1], [1], floor=FLOOR) for n in range(3))
    assert impossible == pytest.approx(24 * math.log(2))
    assert (likely, hardly) == (nll(log_mean_N_C[1:2], [1]), nll(log_mean_N_C[2:], [1]))
    together = nll(log_mean_N_C, [1, 1, 1], floor=FLOOR)  # what was impossible is no likelier than what was not
    assert together == pytest.approx((likely + 2 * hardly) / 3)
    assert nll(log_mean_N_C, [0, 1, 0], floor=FLOOR) == nll(log_mean_N_C, [0, 1, 0])
    with pytest.raises(ValueError, match=r"^floor: expected a probability"):
        nll(log_mean_N_C, [0, 0, 0], floor=1.0)


def test_a_forest_is_judged_by_a_finite_number_also_on_classes_it_has_not_heard_of():
    from sklearn.ensemble import RandomForestClassifier

    from natsel.data import Examples
    from natsel.models import Sklearn

    inputs = np.arange(20.0)[:, None]
    model = Sklearn(RandomForestClassifier(10)).fit(Examples(inputs, np.arange(20) // 10))
    right, wrong = (evaluate(model.believe(inputs), labels)["nll"] for labels in (np.arange(20) // 10, np.full(20, 2)))
    assert right < 0.5
    assert wrong == pytest.approx(24 * math.log(2))


@pytest.mark.parametrize(
    ("log_mean_N_C", "labels", "word"),
    [
        (torch.zeros(2, 3), [0], "one for each of 2 points"),
        (torch.zeros(0, 3), [], "at least one"),
        (torch.zeros(1, 3), [3], "classes run from 0 to 2"),
        (torch.zeros(1, 3), [-1], "classes run from 0 to 2"),
        (torch.zeros(1, 3), [0.5], "found fractions"),
        (torch.full((1, 3), math.nan), [0], "nan"),
    ],
)
def test_bad_classes_are_refused(log_mean_N_C, labels, word):
    with pytest.raises(ValueError, match=word):
        accuracy(log_mean_N_C, labels)


def test_regression_by_hand_and_against_torch():
    mean_N_K = torch.tensor([[0.0, 2.0], [1.0, 1.0]])
    variance_N_K = torch.tensor([[1.0, 4.0], [0.5, 0.5]])
    values_N = torch.tensor([1.0, 3.0])
    density_N_K = torch.distributions.Normal(mean_N_K, variance_N_K.sqrt()).log_prob(values_N[:, None]).exp()
    assert gaussian_nll(mean_N_K, variance_N_K, values_N) == pytest.approx(-density_N_K.mean(1).log().mean().item())
    weighted_N = density_N_K @ torch.tensor([0.9, 0.1])
    log_weights_K = torch.tensor([0.9, 0.1]).log()
    found = gaussian_nll(mean_N_K, variance_N_K, values_N, log_weights_K)
    assert found == pytest.approx(-weighted_N.log().mean().item())
    assert rmse(mean_N_K.mean(1), values_N) == pytest.approx(math.sqrt(2))


def test_draws_far_from_the_value_underflow_nowhere():
    assert gaussian_nll(torch.tensor([[1e3]]), torch.tensor([[1e-2]]), [0.0]) == pytest.approx(5e7, rel=1e-3)


@pytest.mark.parametrize(
    ("mean", "variance", "values", "word"),
    [
        ([[0.0]], [[0.0]], [0.0], "positive"),
        ([[0.0]], [[1.0]], [0.0, 1.0], "one for each"),
        ([[0.0]], [[1.0]], [math.nan], "nan"),
    ],
)
def test_bad_numbers_are_refused(mean, variance, values, word):
    with pytest.raises(ValueError, match=word):
        gaussian_nll(torch.tensor(mean), torch.tensor(variance), values)


@settings(deadline=None)
@given(st.integers(1, 30), st.integers(2, 6), st.integers(0, 100))
def test_the_true_distribution_is_never_beaten_on_average(points, classes, seed):
    """Gibbs: over all labels weighted by p, no q has a lower nll than p."""
    generator = torch.Generator().manual_seed(seed)
    p_N_C, q_N_C = torch.rand(2, points, classes, generator=generator, dtype=torch.float64).log_softmax(-1)
    cost = [
        sum(one.exp().numpy()[c] * nll(two[None], [c]) for c in range(classes))
        for one, two in [(p_N_C[0], p_N_C[0]), (p_N_C[0], q_N_C[0])]
    ]
    assert cost[0] <= cost[1] + 1e-12


def test_errors_of_members_are_those_of_each_member_averaged():
    rng = np.random.default_rng(0)
    values_N, mean_N_K = rng.normal(size=200), rng.normal(size=(200, 3))
    weights_K = np.array([0.5, 0.3, 0.2])
    found = member_errors(torch.tensor(mean_N_K), values_N, torch.tensor(weights_K).log())
    errors_N_K = np.sort(np.abs(mean_N_K - values_N[:, None]), axis=0)
    expected = {
        "mae": errors_N_K.mean(0) @ weights_K,
        "rmse": np.sqrt((errors_N_K**2).mean(0) @ weights_K),
        "95% error": errors_N_K[190] @ weights_K,
        "99% error": errors_N_K[198] @ weights_K,
        "largest error": errors_N_K.max(0) @ weights_K,
    }
    assert found == pytest.approx(expected)
    one = errors(torch.tensor(mean_N_K[:, 0]), values_N)
    assert one["rmse"] == pytest.approx(rmse(torch.tensor(mean_N_K[:, 0]), values_N))
    belief = GaussianSamples(mean_N_K, 0.1)
    seen = evaluate(belief, values_N, details=True)
    assert set(seen) == set(METRICS[True])
    assert seen["member rmse"] > seen["rmse"]
    assert set(evaluate(belief, values_N)) == {"rmse", "nll"}


def test_average_precision_is_that_of_scikit_learn_for_the_rarer_class():
    from sklearn.metrics import average_precision_score

    from natsel.evaluation import average_precision

    rng = np.random.default_rng(0)
    labels = (rng.random(200) < 0.1).astype(int)
    p1 = np.round(0.3 * labels + 0.7 * rng.random(200), 2)
    log_probs = torch.tensor(np.stack([1 - p1, p1], 1)).log()
    assert average_precision(log_probs, labels) == pytest.approx(average_precision_score(labels, p1))
    swapped = average_precision(log_probs.flip(1), 1 - labels)
    assert swapped == pytest.approx(average_precision_score(labels, p1)), "whichever number the rarer class has"
    with pytest.raises(ValueError, match=r"labels_N: expected both of two classes, found \[0\]"):
        average_precision(log_probs, np.zeros(200, dtype=int))
