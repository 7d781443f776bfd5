import math

import pytest
import torch

from golden_values import logs, random_draws
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
from natsel.memory import memory_budget

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}
FORMS = ("kl", "entropy", "posterior")
PER_POINT = (predictive_entropy, conditional_entropy, mutual_information, standard_deviation, variance)


def near(actual, expected, tolerance=1e-10):
    expected = torch.as_tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(actual.double(), expected, rtol=tolerance, atol=tolerance, equal_nan=True)


def test_a_draw_of_weight_zero_counts_exactly_nothing():
    generator = torch.Generator().manual_seed(0)
    log_probs_N_K_C = torch.randn(6, 4, 3, generator=generator, dtype=torch.float64).log_softmax(-1)
    log_probs_N_K_C[:, :3, 2] = -math.inf  # only the last draw, of weight 0, allows class 2
    log_probs_N_K_C = log_probs_N_K_C.log_softmax(-1)
    log_weights_K = logs([0.5, 0.2, 0.3, 0.0])
    other_N_K_C = log_probs_N_K_C.clone()
    other_N_K_C[:, 3] = logs([0.0, 0.0, 1.0])
    labels_N = torch.tensor([0, 1, 0, 1, 0, 1])
    for score in (
        *PER_POINT,
        lambda *a: mutual_information(*a, "entropy"),
        lambda *a: mutual_information(*a, "posterior"),
    ):
        assert torch.equal(score(log_probs_N_K_C, log_weights_K), score(other_N_K_C, log_weights_K))
        near(score(log_probs_N_K_C, log_weights_K), score(log_probs_N_K_C[:, :3], log_weights_K[:3]))
    for score in (information_gain, surprise, posterior_log_weights):
        result = score(log_probs_N_K_C, labels_N, log_weights_K)
        assert torch.equal(result, score(other_N_K_C, labels_N, log_weights_K))
    assert (member_disagreement(log_probs_N_K_C, log_weights_K)[:, 3] == math.inf).all()
    assert (pointwise_mutual_information(log_probs_N_K_C, log_weights_K)[:, 3, 2] == math.inf).all()


@pytest.mark.parametrize("form", FORMS)
def test_gradients_with_zero_probabilities(form):
    """Finite differences on the allowed entries, with −inf standing in all the others."""
    log_probs_N_K_C = logs(
        [[[0.0, 0.7, 0.3], [0.0, 0.4, 0.6], [0.0, 1.0, 0.0]], [[0.5, 0.5, 0.0]] * 2 + [[1.0, 0.0, 0.0]]]
    )
    allowed = log_probs_N_K_C > -math.inf
    labels_N = torch.tensor([1, 0])

    def scores(values, log_weights_K):
        x = torch.full_like(log_probs_N_K_C, -math.inf).masked_scatter(allowed, values)
        return torch.stack(
            [
                mutual_information(x, log_weights_K, form, clamp=False),
                predictive_entropy(x, log_weights_K),
                conditional_entropy(x, log_weights_K),
                variance(x, log_weights_K),
                information_gain(x, labels_N, log_weights_K),
                surprise(x, labels_N, log_weights_K),
                log_mean(x, log_weights_K).exp().sum(1),
                (x.exp() * member_disagreement(x, log_weights_K)[..., None]).sum((1, 2)),
                standard_deviation(x, log_weights_K, unbiased=True),
            ]
        )

    weights = logs([0.5, 0.2, 0.3]).requires_grad_()
    assert torch.autograd.gradcheck(scores, (log_probs_N_K_C[allowed].requires_grad_(), weights))
    x = log_probs_N_K_C.clone().requires_grad_()
    (mutual_information(x, form=form).sum() + pointwise_mutual_information(x)[allowed].sum()).backward()
    assert torch.isfinite(x.grad).all()
    assert (x.grad[~allowed] == 0).all()


def test_standard_deviation_has_gradient_zero_where_draws_agree():
    x = logs([[[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]]]).requires_grad_()
    standard_deviation(x).sum().backward()
    assert (x.grad == 0).all()


@pytest.mark.parametrize("form", FORMS)
def test_a_single_draw_scores_zero_with_gradient_zero(form):
    x = logs([[[0.3, 0.7, 0.0]], [[1.0, 0.0, 0.0]]]).requires_grad_()
    score_N = mutual_information(x, form=form)
    score_N.sum().backward()
    near(score_N, [0.0, 0.0], 1e-15)
    near(x.grad, torch.zeros(2, 1, 3), 1e-15)
    if form == "kl":
        assert (score_N == 0).all()


def test_probabilities_of_1e_300():
    tiny = math.log(1e-300)
    log_probs_N_K_C = torch.tensor(
        [[[0.0, tiny], [tiny, 0.0]], [[0.0, tiny], [0.0, tiny + math.log(2)]]], dtype=torch.float64
    )
    for form in FORMS:
        near(mutual_information(log_probs_N_K_C, form=form), [math.log(2), 0.0], 1e-14)
    near(pointwise_mutual_information(log_probs_N_K_C)[0, 0, 1], tiny + math.log(2))
    label = torch.tensor([1])
    for shift in (0.0, -5000.0):  # the second far below what float64 can hold
        rare_1_K_C = log_probs_N_K_C[1:] + torch.tensor([0.0, shift])
        near(posterior_log_weights(rare_1_K_C, label).exp(), [[1 / 3, 2 / 3]])
        near(information_gain(rare_1_K_C, label), [math.log(2) - entropy(logs([1 / 3, 2 / 3]))])
        near(surprise(rare_1_K_C, label), [math.log(2) - entropy(logs([1 / 3, 2 / 3]))])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype):
    log_probs_N_K_C, log_weights_K = random_draws(7, 4, 5, 3)
    half, weights = log_probs_N_K_C.to(dtype), log_weights_K.to(dtype)
    for score in (*PER_POINT, log_mean, member_disagreement, pointwise_mutual_information):
        assert torch.equal(score(half, weights), score(half.float(), weights.float()))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_one_draw_with_all_the_weight_spreads_nothing(dtype):
    log_probs_N_K_C = logs([[[0.2, 0.8], [0.6, 0.4]]], dtype)
    assert standard_deviation(log_probs_N_K_C, logs([1.0, 0.0], dtype), unbiased=True) == 0
    near(
        mutual_information(log_probs_N_K_C, logs([1.0, 0.0], dtype), clamp=False),
        [0.0],
        TOLERANCE[dtype] / 10,
    )
    # w(1−w) = 1e-12, where 1 − Σ w² in float32 is pure rounding
    nearly = torch.tensor([-1e-12, math.log(1e-12)], dtype=torch.float64).to(dtype)
    near(standard_deviation(log_probs_N_K_C, nearly, unbiased=True), [2 * 0.4 / math.sqrt(2)], TOLERANCE[dtype])


def test_chunks_do_not_show_and_inputs_stay():
    log_probs_N_K_C, log_weights_K = random_draws(3, 50, 4, 3)
    before = log_probs_N_K_C.clone(), log_weights_K.clone()
    whole = [score(log_probs_N_K_C, log_weights_K) for score in PER_POINT]
    with memory_budget(1000):
        for score, expected_N in zip(PER_POINT, whole, strict=True):
            near(score(log_probs_N_K_C, log_weights_K), expected_N, 1e-14)
    assert torch.equal(log_probs_N_K_C, before[0])
    assert torch.equal(log_weights_K, before[1])
    assert mutual_information(log_probs_N_K_C[:0]).shape == (0,)
    assert log_mean(log_probs_N_K_C[:0]).shape == (0, 3)


def test_errors_name_the_argument_and_the_point():
    log_probs_N_K_C = logs([[[0.5, 0.5, 0.0]] * 2] * 3)
    with pytest.raises(ValueError, match="labels_N: no weighted draw allows label 2 of point 1"):
        information_gain(log_probs_N_K_C, torch.tensor([0, 2, 1]))
    with pytest.raises(ValueError, match="label 2 of point 2"):
        surprise(log_probs_N_K_C, torch.tensor([0, 0, 2]))
    with pytest.raises(ValueError, match="labels_N: classes run from 0 to 2, found 3 at point 0"):
        information_gain(log_probs_N_K_C, torch.tensor([3, 0, 0]))
    with pytest.raises(ValueError, match="found -1 at point 1"):
        information_gain(log_probs_N_K_C, torch.tensor([0, -1, 0]), errors="nan")
    with pytest.raises(ValueError, match="labels_N: expected class numbers, found fractions"):
        surprise(log_probs_N_K_C, torch.tensor([0.0, 1.5, 1.0]))
    with pytest.raises(ValueError, match="labels_N: expected one for each of 3 points"):
        surprise(log_probs_N_K_C, torch.tensor([0, 1]))
    with pytest.raises(ValueError, match="errors"):
        surprise(log_probs_N_K_C, torch.tensor([0, 1, 1]), errors="ignore")
    with pytest.raises(ValueError, match="form"):
        mutual_information(log_probs_N_K_C, form="nested")
    with pytest.raises(ValueError, match="log_weights_K"):
        mutual_information(log_probs_N_K_C, torch.zeros(3))
    with pytest.raises(ValueError, match="log_probs_N_K_C"):
        mutual_information(log_probs_N_K_C[0])


def test_weights_need_not_be_normalised():
    log_probs_N_K_C, log_weights_K = random_draws(2, 3, 4, 3)
    labels_N = log_probs_N_K_C[:, log_weights_K.argmax()].argmax(-1)
    for score in PER_POINT:
        near(score(log_probs_N_K_C, log_weights_K + 0.7), score(log_probs_N_K_C, log_weights_K))
    for score in (information_gain, surprise, posterior_log_weights):
        expected = score(log_probs_N_K_C, labels_N, log_weights_K)
        near(score(log_probs_N_K_C, labels_N, log_weights_K + 0.7), expected)


def nearly_agreed(disagreement, dtype=torch.float32, sharpness=2.0):
    """Draws whose logits differ by this little, in a type; and the same numbers in float64, with rows summing to 1."""
    generator = torch.Generator().manual_seed(0)
    logits_N_1_C = sharpness * torch.randn(300, 1, 4, generator=generator)
    log_probs_N_K_C = (logits_N_1_C + disagreement * torch.randn(300, 20, 4, generator=generator)).log_softmax(-1)
    return log_probs_N_K_C.to(dtype), log_probs_N_K_C.to(dtype).double().log_softmax(-1)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("disagreement", [1e-4, 1e-3, 1e-2])
def test_small_mutual_information_in_float32_is_not_rounding(disagreement, weighted):
    rounded_N_K_C, exact_N_K_C = nearly_agreed(disagreement)
    log_weights_K = torch.linspace(-2, 0, 20, dtype=torch.float64).log_softmax(0) if weighted else None
    rounded_N_K_C[0, :, 3] = exact_N_K_C[0, :, 3] = -math.inf  # zeros go the same way
    exact_N = mutual_information(exact_N_K_C.log_softmax(-1), log_weights_K)
    score_N = mutual_information(rounded_N_K_C, log_weights_K)
    assert score_N.dtype == torch.float32
    assert float(exact_N.median()) < 1e-4
    torch.testing.assert_close(score_N.double(), exact_N, rtol=1e-6, atol=1e-14)


def test_mutual_information_in_float32_is_never_negative():
    rounded_N_K_C, _ = nearly_agreed(0.0)
    assert bool((mutual_information(rounded_N_K_C, clamp=False) < 0).any())
    assert bool((mutual_information(rounded_N_K_C) >= 0).all())
    assert float(mutual_information(rounded_N_K_C).max()) < 1e-14


def test_small_mutual_information_in_float32_has_the_gradient_of_float64():
    gradients = []
    for log_probs_N_K_C in nearly_agreed(1e-3):
        log_probs_N_K_C = log_probs_N_K_C.detach().requires_grad_()
        mutual_information(log_probs_N_K_C, clamp=False).sum().backward()
        gradients.append(log_probs_N_K_C.grad.double())
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-2, atol=3e-8)


def test_entropy_of_sure_predictions_in_float32_is_not_rounding():
    rounded_N_K_C, exact_N_K_C = nearly_agreed(0.1, sharpness=20.0)
    exact_N = predictive_entropy(exact_N_K_C)
    assert float(exact_N.min()) < 1e-9
    torch.testing.assert_close(predictive_entropy(rounded_N_K_C).double(), exact_N, rtol=1e-4, atol=0)


@pytest.mark.parametrize("score", [information_gain, surprise])
def test_what_little_a_known_label_tells_is_not_rounding_in_float32(score):
    rounded_N_K_C, _ = nearly_agreed(1e-3)
    labels_N = torch.arange(300) % 4
    exact_N = score(rounded_N_K_C.double(), labels_N)
    assert score(rounded_N_K_C, labels_N).dtype == torch.float32
    torch.testing.assert_close(score(rounded_N_K_C, labels_N).double(), exact_N, rtol=1e-6, atol=1e-14)
