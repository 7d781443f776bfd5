"""Joint losses: golden values, the chain rule, bounds, total correlation, and the loss of learning online."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import natsel
from golden_values import golden, logs, random_draws
from natsel import evaluation
from natsel.evaluation.online import joint_losses
from natsel.information import entropy, joint_entropy, joint_mutual_information, mutual_information
from natsel.information import total_correlation as expected_total_correlation
from natsel.models.dropout.mask_plan import dropout_logits

CASES = golden("05-joint-cross-entropies")
WALKS = {name: case for name, case in CASES.items() if "steps" in case["expected"]}


def close(found, expected, tolerance=1e-12):
    assert np.allclose(np.asarray(found), np.asarray(expected), rtol=0, atol=tolerance), (found, expected)


@pytest.mark.parametrize("case", WALKS.values(), ids=WALKS.keys())
def test_golden_sequences(case):
    inputs, expected = case["inputs"], case["expected"]
    points, labels = zip(*inputs["observations (point, label)"], strict=True)
    seen = logs(inputs["probs_N_K_C"])[list(points)], list(labels), logs(inputs["weights_K"])
    found = evaluation.sequential_losses(*seen)
    close(found.losses_N, [step["loss"] for step in expected["steps"]])
    close(found.effective_draws_N, [step["ess"] for step in expected["steps"]])
    close(found.surprise_N, [step["surprise_so_far D(w'||w0)"] for step in expected["steps"]])
    close(found.log_weights_K.exp(), expected["steps"][-1]["weights_K"])
    close(found.joint, expected["joint_loss"])
    close(evaluation.joint_cross_entropy(*seen), expected["joint_loss"])
    close(evaluation.marginal_losses(*seen), expected["marginal_losses"])
    close(evaluation.marginal_cross_entropy(*seen), np.mean(expected["marginal_losses"]))
    close(evaluation.total_correlation(*seen), expected["pointwise_total_correlation"])
    close(evaluation.member_losses(*seen[:2]), expected["member_losses_L_K"])


def test_golden_impossible_labels_cost_infinity_and_nothing_is_nan():
    log_probs = logs(CASES["no_surviving_draw"]["inputs"]["probs_N_K_C"])
    assert evaluation.joint_cross_entropy(log_probs, [1]) == math.inf
    found = evaluation.sequential_losses(log_probs[[0, 0, 0]], [0, 1, 0])
    assert found.losses_N.tolist() == [0.0, math.inf, math.inf]
    assert found.effective_draws_N.tolist() == [2.0, 0.0, 0.0]
    assert found.surprise_N.tolist() == [0.0, math.inf, math.inf]
    assert evaluation.marginal_cross_entropy(log_probs, [1]) == math.inf


def test_golden_underflow():
    case = CASES["underflow"]
    seen_K = logs(case["inputs"]["likelihood_per_observation_K"])
    seen_N_K = seen_K.expand(case["inputs"]["observations"], -1)
    found = evaluation.sequential_losses(seen_N_K)
    close(found.joint, case["expected"]["joint_loss"], 1e-9)
    close(found.log_weights_K, case["expected"]["log_weights_K"], 1e-9)
    close(found.effective_draws_N[-1], case["expected"]["ess"])
    close(evaluation.joint_cross_entropy(seen_N_K), case["expected"]["joint_loss"], 1e-9)


def test_golden_total_correlation():
    case = CASES["total_correlation_signs"]
    log_probs, expected = logs(case["inputs"]["probs_N_K_C"]), case["expected"]
    average = 0.0
    for pair in expected["pointwise"]:
        close(evaluation.total_correlation(log_probs, pair["labels"]), pair["total_correlation"])
        close(evaluation.joint_cross_entropy(log_probs, pair["labels"]), -math.log(pair["q_joint"]))
        average += pair["q_joint"] * pair["total_correlation"]
    close(average, expected["average_under_q"])
    close(mutual_information(log_probs).sum(), expected["sum_bald"])
    close(joint_mutual_information(log_probs), expected["batchbald"])


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 1000), draws=st.integers(1, 5))
def test_total_correlation_averages_to_the_expected_one(seed, draws):
    """One draw has none; the mean over labels from q is Σ BALD − BatchBALD.  docs/theory/joint-predictions.md, 7."""
    log_probs, log_weights = random_draws(seed, 3, draws, 2, zeros=False)
    average = 0.0
    for labels in itertools.product(range(2), repeat=3):
        value = evaluation.total_correlation(log_probs, labels, log_weights)
        average += math.exp(-evaluation.joint_cross_entropy(log_probs, labels, log_weights)) * value
        if draws == 1:
            assert value == pytest.approx(0, abs=1e-12)
    expected = float(mutual_information(log_probs, log_weights).sum()) - joint_mutual_information(
        log_probs, log_weights
    )
    assert average == pytest.approx(expected, abs=1e-10)
    assert average == pytest.approx(expected_total_correlation(log_probs, log_weights), abs=1e-10)
    assert average > -1e-10


def test_disjoint_parameters_on_a_full_grid_have_no_total_correlation():
    """Points that share no parameter have none; duplicated points share all."""
    first, second = torch.rand(2, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    grid = torch.cartesian_prod(first, second)
    apart = torch.stack([torch.stack([grid[:, n], 1 - grid[:, n]], 1) for n in range(2)]).log()
    for labels in itertools.product(range(2), repeat=2):
        assert evaluation.total_correlation(apart, labels) == pytest.approx(0, abs=1e-12)
    assert evaluation.total_correlation(apart[[0, 0]], [0, 0]) > 0.01


@settings(deadline=None)
@given(seed=st.integers(0, 1000), draws=st.integers(1, 6), classes=st.integers(1, 4), count=st.integers(0, 6))
def test_chain_rule_and_bounds(seed, draws, classes, count):
    """In any order, in any chunks, with draws that forbid labels.  docs/theory/joint-predictions.md, 3."""
    rng = np.random.default_rng(seed)
    log_probs, log_weights = random_draws(seed, count, draws, classes, zeros=bool(seed % 2))
    labels = rng.integers(classes, size=count)
    joint = evaluation.joint_cross_entropy(log_probs, labels, log_weights)
    order = rng.permutation(count)
    for budget in (1 << 30, 1):
        with natsel.memory_budget(budget):
            other = evaluation.sequential_losses(log_probs[order], labels[order], log_weights)
            assert evaluation.joint_cross_entropy(log_probs, labels, log_weights) == pytest.approx(joint, abs=1e-9)
        assert other.joint == pytest.approx(joint, abs=1e-8)
        assert not bool(other.losses_N.isnan().any())
    losses_K = evaluation.member_losses(log_probs, labels)
    alive_K = log_weights > -math.inf
    assert joint >= float(losses_K[alive_K].min()) - 1e-9
    assert joint <= float((losses_K - log_weights)[alive_K].min()) + 1e-9
    assert joint <= float((log_weights.exp() * losses_K)[alive_K].sum()) + 1e-9
    equal = evaluation.joint_cross_entropy(log_probs, labels)
    assert equal <= min(float(losses_K.min()) + math.log(draws), float(losses_K.mean())) + 1e-9


def test_golden_learning_online():
    case = CASES["online_learning_loss"]
    inputs, expected = case["inputs"], case["expected"]
    log_probs, labels, weights = logs(inputs["probs_N_K_C"]), inputs["labels_N"], logs(inputs["weights_K"])
    seen_N_K = log_probs[torch.arange(5), :, torch.tensor(labels)]
    every = torch.tensor(list(itertools.permutations(range(5))))
    close(joint_losses(seen_N_K, every, weights).mean(0), expected["oll_without_replacement_1..5"])
    again = torch.tensor(list(itertools.product(range(5), repeat=3)))
    close(joint_losses(seen_N_K, again, weights).mean(0), expected["oll_with_replacement_1..3"])
    close(evaluation.marginal_cross_entropy(log_probs, labels, weights), expected["marginal_cross_entropy"])
    close(evaluation.member_losses(log_probs, labels) / 5, expected["member_cross_entropy_K"])
    rate = evaluation.cross_entropy_rate(log_probs, labels, weights)
    close(rate, expected["limit_of_oll_with_replacement_over_n"])
    mean = natsel.information.log_mean(log_probs, weights)
    assert evaluation.accuracy(mean, labels) == expected["accuracy_of_average"]

    without = evaluation.online_learning_loss(log_probs, labels, 5, 4000, weights, seed=1)
    near = (without.mean_n - torch.tensor(expected["oll_without_replacement_1..5"], dtype=torch.float64)).abs()
    assert bool((near <= 4 * without.error_n + 1e-12).all())
    assert float(without.error_n[:4].max()) < 0.02
    assert float(without.error_n[4]) < 1e-12  # all five, in some order
    close(without.increments_n.cumsum(0), without.mean_n)
    close(without.average_n * torch.arange(1, 6), without.mean_n)
    with_ = evaluation.online_learning_loss(log_probs, labels, 3, 4000, weights, replacement=True, seed=1)
    near = (with_.mean_n - torch.tensor(expected["oll_with_replacement_1..3"], dtype=torch.float64)).abs()
    assert bool((near <= 4 * with_.error_n).all())
    assert float(with_.mean_n[2]) < float(without.mean_n[2]) - 0.05


def test_the_rate_is_that_of_the_best_draw():
    """n = 3,000 labels, 50 draws, inside the band of ln K / n."""
    generator = torch.Generator().manual_seed(0)
    log_probs = torch.randn(200, 50, 3, generator=generator, dtype=torch.float64).log_softmax(-1)
    labels = torch.randint(3, (200,), generator=generator)
    found = evaluation.online_learning_loss(log_probs, labels, 3000, 2, replacement=True, seed=generator)
    chosen = torch.randint(200, (1, 3000), generator=torch.Generator().manual_seed(7))
    seen_N_K = log_probs[torch.arange(200), :, labels]
    best = float(-seen_N_K[chosen[0]].mean(0).max())
    assert (
        best - 1e-12
        <= float(joint_losses(seen_N_K, chosen, logs([1 / 50] * 50))[0, -1]) / 3000
        <= best + math.log(50) / 3000
    )
    assert float(found.average_n[-1]) == pytest.approx(evaluation.cross_entropy_rate(log_probs, labels), abs=0.08)
    heavy = torch.full((50,), -math.inf, dtype=torch.float64)
    heavy[7] = 0.0
    assert evaluation.cross_entropy_rate(log_probs, labels, heavy) == pytest.approx(float(-seen_N_K.mean(0)[7]))


def test_tuples_are_repeatable_and_distinct_without_replacement():
    log_probs, log_weights = random_draws(0, 6, 4, 3, zeros=False)
    labels = [0, 1, 2, 0, 1, 2]
    one, same, other = (
        evaluation.online_learning_loss(log_probs, labels, 3, 20, log_weights, seed=seed).mean_n for seed in (0, 0, 1)
    )
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    whole = evaluation.online_learning_loss(log_probs, labels, log_weights_K=log_weights, repeats=5)
    assert float(whole.mean_n[-1]) == pytest.approx(evaluation.joint_cross_entropy(log_probs, labels, log_weights))
    with natsel.memory_budget(1):
        close(evaluation.online_learning_loss(log_probs, labels, 3, 20, log_weights).mean_n, one)
    assert evaluation.online_learning_loss(log_probs, labels, repeats=1).error_n.isnan().all()


def test_golden_bayes_optimality():
    """Labels from the model itself: the expected loss never rises with what was seen."""
    case = CASES["bayes_optimality"]
    log_probs, weights = logs(case["inputs"]["probs_N_K_C"]), logs(case["inputs"]["weights_K"])
    found = []
    for seen in range(4):
        value = 0.0
        for labels in itertools.product(range(3), repeat=seen + 1):
            chain = evaluation.sequential_losses(log_probs[[*range(seen), 3]], labels, weights)
            value += math.exp(-chain.joint) * float(chain.losses_N[-1])
        found.append(value)
    close(found, case["expected"]["expected_loss_n0..3"])
    assert found == sorted(found, reverse=True)
    close(found[3], joint_entropy(log_probs, weights) - joint_entropy(log_probs[:3], weights))


def test_real_labels_by_conjugate_algebra():
    """Draws of a mean from its prior, N(0, 1), and labels with unit noise: the exact evidence is that of a normal."""
    draws = 30_000
    mean_K = torch.randn(draws, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    values = torch.tensor([0.3, -0.8, 0.5], dtype=torch.float64)
    seen_N_K = evaluation.gaussian_log_likelihood(mean_K.expand(3, -1), torch.ones(3, draws), values)
    exact = torch.distributions.MultivariateNormal(torch.zeros(3).double(), torch.ones(3, 3).double() + torch.eye(3))
    assert evaluation.joint_cross_entropy(seen_N_K) == pytest.approx(-float(exact.log_prob(values)), abs=0.02)
    chain = evaluation.sequential_losses(seen_N_K)
    predictive = torch.distributions.Normal(-0.5 / 3, math.sqrt(4 / 3))
    assert float(chain.losses_N[2]) == pytest.approx(-float(predictive.log_prob(values[2])), abs=0.02)
    alone = torch.distributions.Normal(0.0, math.sqrt(2.0))
    close(evaluation.marginal_losses(seen_N_K), -alone.log_prob(values), 0.02)


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ((torch.zeros(2, 3), [0, 1]), r"^log_probs_N_K_C: .*found shape \(2, 3\); "),
        ((torch.zeros(2, 3, 4), None), r"^log_probs_N_K_C: .*as there are no labels, found shape \(2, 3, 4\); "),
        ((torch.zeros(2, 0, 4), [0, 1]), r"^log_probs_N_K_C: "),
        ((torch.zeros(2, 3, 4), [0]), r"^labels_N: expected one for each of 2 points, found shape \(1,\); "),
        ((torch.zeros(2, 3, 4), [0.0, 1.5]), "^labels_N: .*found fractions"),
        ((torch.zeros(2, 3, 4), [0, 4]), r"^labels_N: classes run from 0 to 3, found 4 at point 1; "),
        ((torch.zeros(2, 3, 4), [0, -1]), r"^labels_N: .*found -1 at point 1; "),
        ((torch.zeros(2, 3, 4), [0, 1], torch.zeros(2)), r"^log_weights_K: found shape \(2,\); "),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, found):
    for metric in (evaluation.joint_cross_entropy, evaluation.marginal_losses, evaluation.sequential_losses):
        with pytest.raises(ValueError, match=found):
            metric(*arguments)


def test_bad_numbers_and_tuples_are_refused():
    ones = torch.ones(2, 3)
    for values in ([1.0], [1.0, math.nan]):
        with pytest.raises(ValueError, match=r"^values_N: .*; "):
            evaluation.gaussian_log_likelihood(ones, ones, values)
    log_probs = torch.full((2, 3, 2), math.log(0.5))
    for wrong in ({"n": 3}, {"n": 0}, {"repeats": 0}):
        with pytest.raises(ValueError, match=r"^n: asked for .*; "):
            evaluation.online_learning_loss(log_probs, [0, 1], **wrong)
    assert len(evaluation.online_learning_loss(log_probs, [0, 1], 3, replacement=True).mean_n) == 3
    with pytest.raises(ValueError, match=r"^log_probs_N_K_C: found no points"):
        evaluation.cross_entropy_rate(log_probs[:0], [])


def test_streaming_is_the_direct_computation():
    """Chunks of draws, sets of weights, and a part that is all.  docs/theory/joint-predictions.md, 8."""
    log_probs, log_weights = random_draws(4, 9, 8, 3)
    new, labels, rest = log_probs[:3], [0, 1, 2], log_probs[3:].float()
    seen_n_K = torch.stack([new[n, :, label] for n, label in enumerate(labels)]).clamp_min(-20)
    parts = [torch.arange(8), torch.tensor([6, 1, 3, 0])]
    weights_T_n_K = evaluation.nested_log_weights(seen_n_K, log_weights, parts)
    assert weights_T_n_K.shape == (2, 4, 8)
    close(weights_T_n_K[0], evaluation.nested_log_weights(seen_n_K, log_weights)[0])
    close(weights_T_n_K[0, 0].exp(), log_weights.exp())
    close(weights_T_n_K[0, 3].exp(), (log_weights + seen_n_K.sum(0)).softmax(0))
    assert bool((weights_T_n_K[1][:, [2, 4, 5, 7]] == -math.inf).all())
    inside = (log_weights + seen_n_K[:2].sum(0))[parts[1]].softmax(0)
    close(weights_T_n_K[1, 2].exp()[parts[1]], inside)
    sets_S_K = weights_T_n_K.flatten(0, 1)
    direct = torch.stack([natsel.information.log_mean(rest.double(), one) for one in sets_S_K])
    for size in (1, 3, 8):
        streamed = evaluation.online_predictive(sets_S_K, (rest[:, at : at + size] for at in range(0, 8, size)))
        close(streamed.exp(), direct.exp(), 1e-12)
        with natsel.memory_budget(1):
            again = evaluation.online_predictive(sets_S_K, (rest[:, at : at + size] for at in range(0, 8, size)))
        close(again.exp(), direct.exp(), 1e-12)
    with pytest.raises(ValueError, match=r"^predictions: found 7 of the 8 draws"):
        evaluation.online_predictive(sets_S_K, [rest[:, :7]])
    with pytest.raises(ValueError, match=r"^predictions: found more than the 8 draws"):
        evaluation.online_predictive(sets_S_K, [rest, rest])


def test_dropout_makes_the_same_draws_again_in_every_pass():
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Dropout(0.5), torch.nn.ReLU(), torch.nn.Linear(16, 3))
    inputs = torch.randn(12, 4)

    def log_probs(which, draws):
        return dropout_logits(module, which, 3, draws, device="cpu").log_softmax(-1)

    parts = [range(start, start + 5) for start in range(0, 20, 5)]
    whole = log_probs(inputs, range(20))
    seen_n_K = torch.cat([log_probs(inputs[:2], part)[:, :, 1] for part in parts], 1)
    weights_S_K = evaluation.nested_log_weights(seen_n_K)[0]
    chunks = (log_probs(inputs[2:], part) for part in parts)
    belief = natsel.CategoricalSamples(whole).condition([0, 1], [1, 1])
    direct = natsel.information.log_mean(whole[2:].double(), belief.log_weights_K)
    close(evaluation.online_predictive(weights_S_K, chunks)[2].exp(), direct.exp(), 1e-5)


def test_dyadic_losses_against_enumeration():
    log_probs, log_weights = random_draws(6, 2, 4, 2, zeros=False)
    laws = torch.tensor([[0.3, 0.7], [0.9, 0.1]], dtype=torch.float64)
    expected = 0.0
    for picks in itertools.product(itertools.product(range(2), range(2)), repeat=3):
        chance = math.prod(float(laws[anchor, label]) / 2 for anchor, label in picks)
        points, labels = zip(*picks, strict=True)
        expected += chance * evaluation.joint_cross_entropy(log_probs[list(points)], labels, log_weights)
    generator = torch.Generator().manual_seed(0)
    found = evaluation.dyadic_joint_nll(log_probs, laws, 3, 40_000, generator, log_weights)
    assert found == pytest.approx(expected, abs=0.03)


def test_dyadic_edges():
    certain = torch.eye(2, dtype=torch.float64).expand(2, 2, 2).log()
    assert evaluation.dyadic_joint_nll(certain, torch.tensor([[1.0, 0.0], [1.0, 0.0]])) == pytest.approx(math.log(2))
    assert evaluation.dyadic_joint_nll(certain, torch.tensor([[1.0, 0.0], [0.0, 1.0]]), tau=60) == math.inf
    for laws in (torch.full((2, 2), 0.6), torch.tensor([[1.5, -0.5]] * 2), torch.full((3, 2), 0.5)):
        with pytest.raises(ValueError, match=r"^label_probs_2_C: .*; "):
            evaluation.dyadic_joint_nll(certain, laws)
    with pytest.raises(ValueError, match=r"^tau: .*; "):
        evaluation.dyadic_joint_nll(certain, torch.full((2, 2), 0.5), tau=0)


def test_surprise_along_a_sequence_is_what_the_weights_lost():
    log_probs, _ = random_draws(9, 5, 6, 3, zeros=False)
    found = evaluation.sequential_losses(log_probs, [0, 1, 2, 1, 0])
    assert float(found.surprise_N[-1]) == pytest.approx(math.log(6) - float(entropy(found.log_weights_K)), abs=1e-12)
    with natsel.memory_budget(1):  # one label a chunk
        cut = evaluation.sequential_losses(log_probs, [0, 1, 2, 1, 0])
    close(cut.surprise_N, found.surprise_N)
    close(cut.effective_draws_N, found.effective_draws_N)
    nothing = evaluation.sequential_losses(log_probs[:0], [])
    assert (nothing.joint, len(nothing.losses_N)) == (0.0, 0)
