"""Scores of labelled examples: golden values, bounds and identities, gradients by batch and one by one, forgetting."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from golden_values import golden, random_draws
from natsel.evaluation import rank_correlations
from natsel.sampling import (
    ForgettingEvents,
    el2n,
    entropy,
    grand,
    grand_last_layer,
    input_norm,
    l1_error,
    loss,
    margin,
    max_margin,
    noisy_input_norm,
    sum_margin,
)

GOLDEN = golden("13-data-diet")
NETWORKS = ("linear_no_bias", "linear_bias", "linear_zero_weights", "mlp_tanh")
BY_PROBS = {
    "el2n": el2n,
    "el2n_squared": lambda log_probs, labels: el2n(log_probs, labels, squared=True),
    "l1_error": l1_error,
    "max_margin": max_margin,
    "sum_margin": sum_margin,
    "loss": loss,
}
SEEDS = st.integers(0, 2**32 - 1)


def linear(weight, bias=None):
    layer = nn.Linear(len(weight[0]), len(weight), bias=bias is not None).double()
    layer.weight.data = torch.tensor(weight, dtype=torch.float64)
    if bias is not None:
        layer.bias.data = torch.tensor(bias, dtype=torch.float64)
    return layer


def networks(given):
    """One network per run of a golden case."""
    for run, weight in enumerate(given["W2_R"]):
        last = linear(weight, given["b2_R"][run] if "b2_R" in given else None)
        if "W1_R" in given:
            last = nn.Sequential(linear(given["W1_R"][run], given["b1_R"][run]), nn.Tanh(), last)
        yield last


@pytest.mark.parametrize("case", NETWORKS)
def test_golden_scores_of_networks(case):
    given, wanted = GOLDEN[case]["inputs"], GOLDEN[case]["outputs"]
    inputs, labels = torch.tensor(given["inputs_N_D"], dtype=torch.float64), given["labels_N"]
    modules = list(networks(given))
    with torch.no_grad():
        log_probs_N_R_C = torch.stack([module(inputs).log_softmax(-1) for module in modules], 1)
    found = {name: function(log_probs_N_R_C, labels).T for name, function in BY_PROBS.items()}
    found["grand"] = torch.stack([grand(module, inputs, labels, device="cpu") for module in modules])
    found["grand_last_layer"] = torch.stack([grand_last_layer(one, inputs, labels, device="cpu") for one in modules])
    found["input_norm"] = torch.stack([input_norm(inputs)] * len(modules))
    for name, score_R_N in found.items():
        expected = torch.tensor(wanted[f"{name}_R_N"], dtype=torch.float64)
        torch.testing.assert_close(score_R_N, expected, rtol=1e-10, atol=1e-12, msg=lambda said, name=name: name + said)
        mean_N = torch.tensor(wanted[f"{name}_N"], dtype=torch.float64)
        torch.testing.assert_close(score_R_N.mean(0), mean_N, rtol=1e-10, atol=1e-12)
    one = el2n(log_probs_N_R_C[:, 0], labels)
    torch.testing.assert_close(one, found["el2n"][0])


def test_mean_of_squares_and_mean_of_lengths_order_examples_differently():
    case = GOLDEN["el2n_average_flips_rank"]
    log_probs_N_R_C = torch.tensor(case["inputs"]["probs_R_N_C"], dtype=torch.float64).log().transpose(0, 1)
    labels = case["inputs"]["labels_N"]
    squared_N = el2n(log_probs_N_R_C, labels, squared=True).mean(1)
    plain_N = el2n(log_probs_N_R_C, labels).mean(1)
    assert squared_N.tolist() == pytest.approx(case["outputs"]["squared_N"], rel=1e-12)
    assert plain_N.tolist() == pytest.approx(case["outputs"]["unsquared_N"], rel=1e-12)
    assert squared_N[0] > squared_N[1]
    assert plain_N[0] < plain_N[1]


@settings(deadline=None)
@given(SEEDS, st.integers(2, 5))
def test_bounds_and_identities(seed, classes):
    log_probs_N_C = random_draws(seed, 6, 1, classes)[0][:, 0]
    labels_N = torch.arange(6) % classes
    error_N = 1 - log_probs_N_C.exp().gather(1, labels_N[:, None])[:, 0]
    squared_N, plain_N = el2n(log_probs_N_C, labels_N, squared=True), el2n(log_probs_N_C, labels_N)
    assert bool(((squared_N >= -1e-12) & (squared_N <= 2 + 1e-12)).all())
    assert bool((squared_N <= 2 * error_N**2 + 1e-12).all())
    assert bool((squared_N >= error_N**2 * classes / (classes - 1) - 1e-12).all())
    if classes == 2:
        torch.testing.assert_close(plain_N, math.sqrt(2) * error_N, atol=1e-9, rtol=0)
    assert plain_N.argsort(stable=True).tolist() == squared_N.argsort(stable=True).tolist()
    torch.testing.assert_close(sum_margin(log_probs_N_C, labels_N), 1 - classes * (1 - error_N), atol=1e-9, rtol=0)
    torch.testing.assert_close(l1_error(log_probs_N_C, labels_N), 2 * error_N, atol=1e-9, rtol=0)
    assert bool((max_margin(log_probs_N_C, labels_N).abs() <= 1 + 1e-12).all())
    assert bool((entropy(log_probs_N_C) <= math.log(classes) + 1e-12).all())
    assert bool(((margin(log_probs_N_C) >= -1e-12) & (margin(log_probs_N_C) <= 1 + 1e-12)).all())


def test_sure_predictions_have_the_extreme_errors():
    log_probs = torch.eye(3, dtype=torch.float64).log()
    assert el2n(log_probs, [0, 1, 0]).tolist() == pytest.approx([0.0, 0.0, math.sqrt(2)])
    assert loss(log_probs, [0, 1, 0]).tolist() == [0.0, 0.0, math.inf]


def by_autograd(module, inputs, labels):
    """One example after another, by a loop."""
    norms = []
    for row, label in zip(inputs, labels, strict=True):
        module.zero_grad()
        nn.functional.cross_entropy(module(row[None]), torch.tensor([label])).backward()
        norms.append(math.sqrt(sum(float(one.grad.double().square().sum()) for one in module.parameters())))
    return norms


def convolutional(norm=True):
    torch.manual_seed(3)
    parts = [nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3) if norm else nn.Identity(), nn.ReLU(), nn.Flatten()]
    return nn.Sequential(*parts, nn.Linear(3 * 16, 4)).double()


def test_gradient_norms_agree_with_autograd_and_do_not_depend_on_companions():
    with torch.random.fork_rng():
        module = convolutional()
    generator = torch.Generator().manual_seed(0)
    inputs, labels = torch.randn(9, 1, 6, 6, generator=generator, dtype=torch.float64), [0, 1, 2, 3, 0, 1, 2, 3, 0]
    found_N = grand(module, inputs, labels, device="cpu")
    assert module.training, "the network has its mode back"
    assert found_N.tolist() == pytest.approx(by_autograd(module.eval(), inputs, labels), rel=1e-9)
    order = [4, 0, 8, 1]
    some_n = grand(module, inputs[order], [labels[place] for place in order], device="cpu")
    torch.testing.assert_close(some_n, found_N[order])
    last_N = grand_last_layer(module, inputs, labels, device="cpu")
    assert bool((last_N < found_N).all())
    module.train()  # statistics of a batch make gradients of its members depend on each other: why it must be off
    many, few = (
        torch.autograd.grad(nn.functional.cross_entropy(module(part)[:1], torch.tensor([0])), module[0].weight)[0]
        for part in (inputs, inputs[:2])
    )
    assert not torch.allclose(many, few)


def test_scaling_the_inputs_of_a_linear_network_scales_gradients():
    weight = [[0.5, -0.25], [-0.75, 0.1], [0.2, 0.3]]
    inputs, labels = torch.tensor([[1.0, -0.5], [0.25, 2.0]], dtype=torch.float64), [0, 2]
    once = grand(linear(weight), inputs, labels, device="cpu")
    thrice = grand(linear((np.array(weight) / 3).tolist()), 3 * inputs, labels, device="cpu")
    torch.testing.assert_close(thrice, 3 * once)


def test_gradient_norms_without_weights_are_input_norms():
    inputs = torch.randn(20, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found_N = grand(linear(np.zeros((4, 5)).tolist()), inputs, [0, 1, 2, 3] * 5, device="cpu")
    torch.testing.assert_close(found_N / input_norm(inputs), torch.full((20,), math.sqrt(3 / 4), dtype=torch.float64))
    found = rank_correlations({"grand": found_N, "norm": input_norm(inputs)})
    assert found.between("grand", "norm") == pytest.approx(1.0)


def test_gradient_norms_of_untrained_networks_come_closer_to_input_norms_with_more_runs():
    generator = torch.Generator().manual_seed(2)
    inputs = torch.randn(60, 6, generator=generator, dtype=torch.float64)
    weights = torch.randn(64, 3, 6, generator=generator, dtype=torch.float64) / 2
    labels = [0, 1, 2] * 20
    score_R_N = torch.stack([grand(linear(weight.tolist()), inputs, labels, device="cpu") for weight in weights])
    norm_N = input_norm(inputs)
    means = {str(runs): score_R_N[:runs].mean(0) for runs in (1, 64)}
    found = rank_correlations({**means, "norm": norm_N})
    assert found.between("1", "norm") < found.between("64", "norm") > 0.9
    quarter, whole = (score_R_N[: 16 * 4].view(-1, size, 60).mean(1).std(0).mean() for size in (4, 16))
    assert float(quarter / whole) == pytest.approx(2.0, rel=0.35)  # standard errors fall as 1/√R


def test_input_norms():
    pictures = np.full((2, 4, 4), 255, dtype=np.uint8)
    assert input_norm(pictures).tolist() == [4.0, 4.0]
    assert input_norm(pictures, mean=0.5, std=0.25).tolist() == [8.0, 8.0]
    noisy_N = noisy_input_norm(np.ones((2000, 1)), seed=3)
    assert float(noisy_N.mean()) == pytest.approx(1.19, abs=0.01)
    assert float(noisy_N.std()) == pytest.approx(0.083, abs=0.005)
    wide_N = noisy_input_norm(np.ones((2000, 1)), seed=3, ratio="log-normal")
    assert float(wide_N.log().mean()) == pytest.approx(3.2924, abs=0.02)
    with pytest.raises(ValueError, match="ratio: expected log-of-normal or log-normal, found 'none'"):
        noisy_input_norm(np.ones((2, 1)), ratio="none")


@pytest.mark.parametrize(
    ("labels", "said"),
    [([0, 3], "classes run from 0 to 1"), ([0], "expected one for each of 2"), ([0, -1], "classes run from 0")],
)
def test_labels_that_fit_nothing_are_refused(labels, said):
    log_probs = torch.full((2, 2), 0.5).log()
    for score in (l1_error, loss):
        with pytest.raises(ValueError, match=said):
            score(log_probs, labels)
    with pytest.raises(ValueError, match=said):
        grand(nn.Linear(2, 2), torch.zeros(2, 2), labels, device="cpu")
    with pytest.raises(ValueError, match="labels"):
        el2n(log_probs, labels)


@pytest.mark.parametrize("score", [l1_error, max_margin, sum_margin, loss, el2n])
def test_probabilities_in_the_place_of_their_logarithms_are_refused(score):
    with pytest.raises(ValueError, match="rows must sum to 1 in probability"):
        score(torch.full((2, 2), 0.5), [0, 1])


def test_forgetting_events_in_any_order_of_examples():
    case = GOLDEN["forgetting"]
    correct_N_T = np.array(case["inputs"]["correct_N_visits"], dtype=bool)
    events, shuffled, numbers = ForgettingEvents(6), ForgettingEvents(list("abcdef")), np.random.default_rng(0)
    before = np.zeros(6)
    for correct_N in correct_N_T.T:
        events.update(np.arange(6), correct_N)
        assert bool((events.scores(never=0.0).numpy() >= before).all()), "counts never fall"
        before = events.scores(never=0.0).numpy()
        order = numbers.permutation(6)
        for part in np.split(order, 2):
            shuffled.update([list("abcdef")[place] for place in part], correct_N[part])
    assert events.scores().tolist() == shuffled.scores().tolist() == case["outputs"]["scores_N"]
    assert events.scores(never=5.0)[1] == 5.0
    twice = ForgettingEvents(1)
    twice.update([0, 0, 0], [True, False, True])  # an example may be drawn several times for one batch
    assert twice.scores().tolist() == [1.0]


def test_forgetting_events_refuse_what_is_unknown():
    with pytest.raises(ValueError, match="ids: 3 is none of the 3 examples"):
        ForgettingEvents(3).update([3], [True])
    with pytest.raises(ValueError, match="ids: 'z' is none of the 2 examples"):
        ForgettingEvents(["a", "b"]).update(["z"], [True])
    with pytest.raises(ValueError, match="correct: expected one for each of 2 ids"):
        ForgettingEvents(3).update([0, 1], [True])
    with pytest.raises(ValueError, match="never: expected a number from 0 on"):
        ForgettingEvents(3).scores(never=float("nan"))


def test_rank_correlations():
    found = rank_correlations({"a": [1, 2, 2, 3], "b": [1, 3, 2, 4], "c": [0, 0, 0, 0]})
    assert found.between("a", "b") == pytest.approx(0.9486832980505138, rel=1e-12)
    assert math.isnan(found.between("a", "c"))
    assert rank_correlations({"a": range(1, 6), "b": [2, 1, 4, 3, 5]}).between("a", "b") == pytest.approx(0.8)
    with pytest.raises(ValueError, match="a: found NaN at point 1"):
        rank_correlations({"a": [0.0, math.nan]})


@settings(deadline=None)
@given(st.lists(st.floats(-3, 3), min_size=3, max_size=12, unique=True), SEEDS)
def test_rank_correlations_see_the_order_alone(values, seed):
    other = np.random.default_rng(seed).normal(size=len(values))
    ranks = np.argsort(np.argsort(values)).astype(float)
    found = rank_correlations({"a": values, "ranks": np.exp(ranks), "b": other})
    np.testing.assert_allclose(found.matrix_S_S, found.matrix_S_S.T)
    np.testing.assert_allclose(np.diag(found.matrix_S_S), 1.0)
    assert found.between("a", "b") == pytest.approx(found.between("ranks", "b"))
    assert found.between("a", "ranks") == pytest.approx(1.0)
