import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from golden_values import golden, logs, random_draws
from natsel.information.entropies import entropy
from natsel.information.known_labels import information_gain, posterior_log_weights, surprise
from natsel.information.mutual import (
    conditional_entropy,
    log_mean,
    member_disagreement,
    mutual_information,
    pointwise_mutual_information,
    predictive_entropy,
    standard_deviation,
    variance,
)

GOLDEN_01 = golden("01-information-quantities")
GOLDEN_03 = golden("03-batchbald")
SCORES = [name for name in GOLDEN_01 if name.startswith("scores_")]
POOLS = [name for name, case in GOLDEN_03.items() if "bald_N" in case["expected"]]
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}
BOTH = pytest.mark.parametrize("dtype", list(TOLERANCE))
FORMS = ("kl", "entropy", "posterior")
PER_POINT = (predictive_entropy, conditional_entropy, mutual_information, standard_deviation, variance)

properties = settings(deadline=None)
seeds = st.integers(0, 2**31)
sizes = st.tuples(st.integers(1, 5), st.integers(1, 5))  # draws, classes


def near(actual, expected, tolerance=1e-10):
    expected = torch.as_tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(actual.double(), expected, rtol=tolerance, atol=tolerance, equal_nan=True)


@BOTH
@pytest.mark.parametrize("name", SCORES)
def test_scores_match_golden_values(name, dtype):
    inputs, expected, tolerance = GOLDEN_01[name]["inputs"], GOLDEN_01[name]["expected"], TOLERANCE[dtype]
    given_draws = logs(inputs["probs_N_K_C"], dtype), logs(inputs["weights_K"], dtype)
    near(log_mean(*given_draws).exp(), expected["predictive_N_C"], tolerance)
    near(predictive_entropy(*given_draws), expected["entropy_N"], tolerance)
    near(conditional_entropy(*given_draws), expected["conditional_entropy_N"], tolerance)
    for form in FORMS:
        near(mutual_information(*given_draws, form=form), expected["bald_N"], tolerance)
    near(standard_deviation(*given_draws), expected["std_dev_N"], tolerance)
    near(standard_deviation(*given_draws) / given_draws[0].shape[2], expected["mean_std_N"], tolerance)
    near(standard_deviation(*given_draws, unbiased=True), expected["std_dev_unbiased_N"], tolerance)
    near(member_disagreement(*given_draws), expected["member_disagreement_N_K"], tolerance)
    for row in expected["by_label"]:
        arguments = given_draws[0][row["point"], None], torch.tensor([row["label"]]), given_draws[1], "nan"
        near(information_gain(*arguments), [row["information_gain"]], tolerance)
        near(surprise(*arguments), [row["surprise"]], tolerance)
    assert all(function(*given_draws).dtype == dtype for function in (*PER_POINT, log_mean, member_disagreement))


@BOTH
@pytest.mark.parametrize("name", POOLS)
def test_pools_of_batchbald_match_golden_values(name, dtype):
    inputs, expected, tolerance = GOLDEN_03[name]["inputs"], GOLDEN_03[name]["expected"], TOLERANCE[dtype]
    given_draws = logs(inputs["probs_N_K_C"], dtype), logs(inputs["weights_K"], dtype)
    near(log_mean(*given_draws).exp(), expected["predictive_N_C"], tolerance)
    near(predictive_entropy(*given_draws), expected["predictive_entropy_N"], tolerance)
    near(conditional_entropy(*given_draws), expected["conditional_entropy_N"], tolerance)
    near(mutual_information(*given_draws), expected["bald_N"], tolerance)


@properties
@given(seeds, sizes)
def test_everything_matches_a_plain_loop_and_is_never_nan(seed, size):
    log_probs_N_K_C, log_weights_K = random_draws(seed, 2, *size)
    w, classes = log_weights_K.exp().tolist(), range(size[1])
    for n in range(2):
        point = log_probs_N_K_C[n, None]
        p = point[0].exp().tolist()
        mean = [sum(w_k * p_k[c] for w_k, p_k in zip(w, p, strict=True)) for c in classes]
        bald = spread = std = 0.0
        for c in classes:
            terms = [(w_k, p_k[c]) for w_k, p_k in zip(w, p, strict=True) if w_k > 0 and p_k[c] > 0]
            bald += sum(w_k * p_kc * math.log(p_kc / mean[c]) for w_k, p_kc in terms)
            v = sum(w_k * (p_k[c] - mean[c]) ** 2 for w_k, p_k in zip(w, p, strict=True))
            spread, std = spread + v, std + math.sqrt(v)
        near(log_mean(point, log_weights_K).exp(), [mean])
        for form in FORMS:
            near(mutual_information(point, log_weights_K, form=form), [bald])
        near(variance(point, log_weights_K), [spread])
        near(standard_deviation(point, log_weights_K), [std], 1e-7)  # a root of rounding near 0
        for label in classes:
            gain = information_gain(point, torch.tensor([label]), log_weights_K, "nan")
            weights = [
                w_k * p_k[label] / mean[label] if mean[label] else math.nan for w_k, p_k in zip(w, p, strict=True)
            ]
            after = -sum(v * math.log(v) for v in weights if v != 0)
            near(gain, [-sum(v * math.log(v) for v in w if v > 0) - after])
            near(posterior_log_weights(point, torch.tensor([label]), log_weights_K, "nan").exp(), [weights])
    assert not pointwise_mutual_information(log_probs_N_K_C, log_weights_K).isnan().any()
    assert not member_disagreement(log_probs_N_K_C, log_weights_K).isnan().any()


@properties
@given(seeds, sizes)
def test_the_pmi_tensor_averages_to_the_scores(seed, size):
    log_probs_N_K_C, log_weights_K = random_draws(seed, 3, *size, weighted=False)
    pmi_N_K_C = pointwise_mutual_information(log_probs_N_K_C, log_weights_K)
    probs_N_K_C = log_probs_N_K_C.exp()
    per_draw_N_K = torch.where(probs_N_K_C > 0, probs_N_K_C * pmi_N_K_C, 0.0).sum(2)
    near(member_disagreement(log_probs_N_K_C, log_weights_K), per_draw_N_K)
    near(mutual_information(log_probs_N_K_C, log_weights_K), per_draw_N_K @ log_weights_K.exp())


@properties
@given(seeds, sizes)
def test_bald_bounds_and_decomposition(seed, size):
    given_draws = random_draws(seed, 3, *size)
    bald_N, total_N = mutual_information(*given_draws), predictive_entropy(*given_draws)
    near(bald_N + conditional_entropy(*given_draws), total_N)
    assert (bald_N >= 0).all()
    assert (bald_N <= total_N + 1e-12).all()
    assert (bald_N <= min(math.log(min(size)), float(entropy(given_draws[1]))) + 1e-12).all()
    if size[0] == 1:
        assert (bald_N == 0).all()


@properties
@given(seeds, st.tuples(st.integers(2, 5), st.integers(2, 5)))
def test_symmetries_of_the_scores(seed, size):
    log_probs_N_K_C, log_weights_K = random_draws(seed, 3, *size)
    generator = torch.Generator().manual_seed(seed)
    order_K, order_C = (torch.randperm(length, generator=generator) for length in size)
    doubled = log_probs_N_K_C.repeat(1, 2, 1), log_weights_K.repeat(2) - math.log(2)
    for score in PER_POINT:
        expected_N = score(log_probs_N_K_C, log_weights_K)
        near(score(log_probs_N_K_C[:, order_K], log_weights_K[order_K]), expected_N)
        near(score(log_probs_N_K_C[:, :, order_C], log_weights_K), expected_N)
        near(score(*doubled), expected_N)
        even = log_weights_K.new_full((size[0],), -math.log(size[0]))
        near(score(log_probs_N_K_C, even), score(log_probs_N_K_C))


@properties
@given(seeds, st.tuples(st.integers(2, 5), st.integers(2, 5)))
def test_mixing_members_loses_information(seed, size):
    log_probs_N_K_C, log_weights_K = random_draws(seed, 3, *size, zeros=False)
    mixed_N_K_C = log_probs_N_K_C.clone()
    pair = log_mean(log_probs_N_K_C[:, :2], log_weights_K[:2].log_softmax(0))
    mixed_N_K_C[:, :2] = pair[:, None]
    before_N, after_N = (mutual_information(x, log_weights_K) for x in (log_probs_N_K_C, mixed_N_K_C))
    assert (after_N <= before_N + 1e-12).all()
    assert (after_N < before_N).any()
    agreed_N_K_C = log_mean(log_probs_N_K_C, log_weights_K)[:, None].expand_as(log_probs_N_K_C)
    near(mutual_information(agreed_N_K_C, log_weights_K), torch.zeros(3))
    assert (standard_deviation(agreed_N_K_C, log_weights_K) == 0).all()
    assert (standard_deviation(log_probs_N_K_C, log_weights_K) > 0).all()


def test_points_on_which_float32_draws_agree_score_nothing():
    """Weights 1/K do not sum to 1 in float32; the excess must not turn up as information."""
    log_probs_N_K_C = torch.randn(200, 1, 10, generator=torch.Generator().manual_seed(0)).log_softmax(-1)
    assert mutual_information(log_probs_N_K_C.expand(-1, 3, -1), clamp=False).abs().max() < 3e-7
    assert mutual_information(log_probs_N_K_C.expand(-1, 3, -1), clamp=False).mean().abs() < 3e-8
    assert mutual_information(log_probs_N_K_C.expand(-1, 49, -1), clamp=False).mean().abs() < 3e-8


@properties
@given(seeds, sizes, st.booleans())
def test_gain_and_surprise_average_to_bald(seed, size, weighted):
    log_probs_1_K_C, log_weights_K = random_draws(seed, 1, *size, weighted=weighted)
    labels_C = torch.arange(size[1])
    each_C_K_C = log_probs_1_K_C.expand(size[1], -1, -1)
    gain_C = information_gain(each_C_K_C, labels_C, log_weights_K, "nan")
    surprise_C = surprise(each_C_K_C, labels_C, log_weights_K, "nan")
    log_mean_C = log_mean(log_probs_1_K_C, log_weights_K)[0]
    possible_C = log_mean_C > -math.inf
    assert torch.equal(gain_C.isnan(), ~possible_C)
    assert torch.equal(surprise_C.isnan(), ~possible_C)
    bald = mutual_information(log_probs_1_K_C, log_weights_K)[0]
    near((log_mean_C.exp() * gain_C)[possible_C].sum(), bald)
    near((log_mean_C.exp() * surprise_C)[possible_C].sum(), bald)
    assert (surprise_C[possible_C] >= 0).all()
    assert (surprise_C <= -log_mean_C + 1e-12)[possible_C].all()
    if not weighted:
        near(gain_C, surprise_C)


def test_surprise_is_zero_iff_the_label_leaves_the_weights_alone():
    log_probs_N_K_C = logs([[[0.2, 0.5, 0.3], [0.2, 0.3, 0.5]]] * 2)
    values_N = surprise(log_probs_N_K_C, torch.tensor([0, 1]), logs([0.9, 0.1]))
    near(values_N[0], 0.0, 1e-15)
    assert values_N[1] > 1e-3
    near(information_gain(log_probs_N_K_C, torch.tensor([0, 1]), logs([0.9, 0.1]))[0], 0.0, 1e-15)
