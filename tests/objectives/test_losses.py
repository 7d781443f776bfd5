"""Losses of known labels: golden values, what constants change, gradient norms, and losses that are not finite."""

import math

import pytest
import torch

import natsel
from golden_values import golden, random_draws
from natsel import CategoricalSamples, ExampleLosses, LossMinusEntropy, Method, TopK, score, select

CASES = golden("07-rho")
BATCH = CASES["rho_loss_batch"]


def batch(**changes):
    given = {"loss_N": BATCH["expected"]["loss"], "irreducible_loss_N": BATCH["inputs"]["il"]}
    return ExampleLosses(**(given | {"logits_N_C": BATCH["inputs"]["logits_nB_C"]} | changes))


def random_losses(seed, points=30):
    generator = torch.Generator().manual_seed(seed)
    draw_2_N = torch.empty(2, points, dtype=torch.float64).exponential_(generator=generator)
    return draw_2_N[0], draw_2_N[1]


def order(method, belief, **known):
    return select(method, belief, len(belief), **known).ids.tolist()


def test_golden_batch():
    expected, labels = BATCH["expected"], BATCH["inputs"]["labels"]
    belief = batch()
    assert score("rho-loss", belief).tolist() == pytest.approx(expected["rho"], rel=1e-10)
    assert order("rho", belief) == expected["order_by_rho"]
    assert select("rho-loss", belief, 2).ids.tolist() == expected["top2_rho"]
    assert order("loss", belief) == expected["order_by_loss"]
    assert order("negative-il", belief) == expected["order_by_negative_il"]
    probabilities = belief.class_probabilities()
    assert score("loss", probabilities, labels=labels).tolist() == pytest.approx(expected["loss"], rel=1e-10)
    norms = pytest.approx(expected["gradient_norm"], rel=1e-10)
    assert score("grad-norm", belief, labels=labels).tolist() == norms
    with_features = batch(features_N_D=torch.full((6, 1), 2.0))
    assert (score("grand", with_features, labels=labels) / 2).tolist() == norms


def test_golden_ensemble():
    case = CASES["ensemble_losses"]
    expected = case["expected"]
    belief = CategoricalSamples.from_probs([case["inputs"]["probs_K_C"]] * 2)
    assert score("loss", belief, labels=[0, 1]).tolist() == pytest.approx(expected["loss_per_label"], rel=1e-10)
    for loss, name in (("of the mean", ""), ("mean of draws", "_mean_member")):
        method = Method(LossMinusEntropy(loss), TopK())
        wanted = pytest.approx(expected[f"loss_minus_conditional_entropy{name}"], rel=1e-10)
        assert score(method, belief, labels=[0, 1]).tolist() == wanted
    assert score("bald", belief)[0].item() == pytest.approx(expected["bald"], rel=1e-10)


def test_the_mean_of_loss_minus_entropy_over_expected_labels_is_bald():
    log_probs_N_K_C, log_weights_K = random_draws(3, 12, 5, 4)
    belief = CategoricalSamples(log_probs_N_K_C, log_weights_K)
    probs_N_C = belief.predict_proba()
    each_C_N = torch.stack([score("loss-minus-entropy", belief, labels=[label] * 12) for label in range(4)])
    terms_N_C = torch.where(probs_N_C > 0, probs_N_C * each_C_N.T, 0.0)  # an impossible label scores −∞
    torch.testing.assert_close(terms_N_C.sum(1), score("bald", belief), rtol=1e-9, atol=1e-12)
    whole = score("bald", belief) + score("conditional-entropy", belief)
    torch.testing.assert_close(whole, score("entropy", belief), rtol=1e-9, atol=1e-12)


def test_constants_leave_the_selection_alone():
    loss_N, irreducible_N = random_losses(0)
    belief = ExampleLosses(loss_N, irreducible_N)
    assert order("rho-loss", belief) == order("rho-loss", ExampleLosses(loss_N, irreducible_N + 7.5))
    assert order("rho-loss", ExampleLosses(loss_N, torch.full((30,), 0.5))) == order("loss", belief)
    flat = ExampleLosses(torch.full((30,), 0.5), irreducible_N)
    assert order("rho-loss", flat) == order("negative-irreducible-loss", belief)
    assert bool((score("rho-loss", belief) <= loss_N).all())


@pytest.mark.parametrize("method", ["rho-loss", "loss", "negative-il", "grad-norm", "entropy"])
def test_permuting_the_batch_permutes_the_selection(method):
    loss_N, irreducible_N = random_losses(1)
    generator = torch.Generator().manual_seed(1)
    logits_N_C = torch.randn(30, 4, generator=generator)
    labels_N = torch.randint(4, (30,), generator=generator)
    belief = ExampleLosses(loss_N, irreducible_N, logits_N_C)
    shuffle_N = torch.randperm(30, generator=generator)
    known = [{"labels": labels_N}, {"labels": labels_N[shuffle_N]}] if method == "grad-norm" else [{}, {}]
    assert order(method, belief, **known[0]) == order(method, belief[shuffle_N], **known[1])


def test_gradient_norms_are_those_of_the_loss_and_go_with_it_where_there_are_two_classes():
    generator = torch.Generator().manual_seed(2)
    for classes in (2, 5):
        logits_N_C = 3 * torch.randn(40, classes, generator=generator, dtype=torch.float64)
        labels_N = torch.randint(classes, (40,), generator=generator)
        asked_N_C = logits_N_C.clone().requires_grad_()
        loss_N = torch.nn.functional.cross_entropy(asked_N_C, labels_N, reduction="none")
        (slope_N_C,) = torch.autograd.grad(loss_N.sum(), asked_N_C)
        belief = ExampleLosses(loss_N, logits_N_C=logits_N_C)
        norms_N = score("grad-norm", belief, labels=labels_N)
        torch.testing.assert_close(norms_N, slope_N_C.norm(dim=1))
        assert 0 <= norms_N.min() <= norms_N.max() <= math.sqrt(2)
        same = order("grad-norm", belief, labels=labels_N) == order("loss", belief)
        assert same == (classes == 2)
        if classes == 2:
            torch.testing.assert_close(norms_N, math.sqrt(2) * (1 - (-loss_N.detach()).exp()))


def test_losses_that_are_not_finite_come_last_and_are_counted():
    belief = ExampleLosses([math.inf, 1.0, math.nan, 2.0, 3.0], [0.0, 0.5, 0.0, 0.5, math.nan])
    selection = select("rho-loss", belief, 2)
    assert selection.ids.tolist() == [3, 1]
    assert any(warning.startswith("losses: 3 of 5 are infinite or NaN") for warning in selection.warnings)
    assert select("loss", belief, 3).ids.tolist() == [4, 3, 1]
    case = CASES["impossible_candidate_label"]
    draws = CategoricalSamples.from_probs(case["inputs"]["probs_N_K_C"])
    losses = score("loss", draws, labels=case["inputs"]["labels_N"]).tolist()
    assert losses == [-math.inf, pytest.approx(case["expected"]["points"][1]["loss"], rel=1e-10)]
    assert select("loss", belief[1:2], 1).warnings == ()


def test_a_draw_of_weight_zero_may_hold_a_label_impossible():
    log_probs_N_K_C = torch.tensor([[[0.5, 0.5], [1.0, 0.0]]], dtype=torch.float64).log()
    belief = CategoricalSamples(log_probs_N_K_C, torch.tensor([1.0, 0.0], dtype=torch.float64).log())
    for loss in ("of the mean", "mean of draws"):
        assert score(Method(LossMinusEntropy(loss), TopK()), belief, labels=[1]).tolist() == pytest.approx([0.0])


def test_what_is_missing_is_refused_by_name():
    bare = ExampleLosses([1.0, 2.0])
    for method, message in (
        ("rho-loss", "irreducible_loss_N: this belief holds none"),
        ("negative-il", "irreducible_loss_N: this belief holds none"),
        ("entropy", "logits_N_C: this belief holds none"),
    ):
        with pytest.raises(ValueError, match=message):
            select(method, bare, 1)
    with pytest.raises(ValueError, match="logits_N_C: this belief holds none"):
        select("grad-norm", bare, 1, labels=[0, 1])
    with pytest.raises(ValueError, match="features_N_D: this belief holds none"):
        select("grand", batch(), 1, labels=BATCH["inputs"]["labels"])
    with pytest.raises(ValueError, match=r"labels: JPIG has no use for known labels on ExampleLosses"):
        select("rho-loss", batch(), 1, labels=BATCH["inputs"]["labels"])
    with pytest.raises(ValueError, match="labels: JPIG weighs labels that are known"):
        select("rho-loss", CategoricalSamples.from_probs([[[0.5, 0.5]]]), 1)
    assert natsel.methods()["jpig"].needs.words == ["labels", "targets"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[1.0]],), "loss_N: expected one loss per point"),
        (([1.0], [1.0, 2.0]), "irreducible_loss_N: expected one for each of 1"),
        (([1.0], None, [1.0]), "logits_N_C: expected 1 points × classes"),
        (([1.0], None, None, [[1.0], [2.0]]), "features_N_D: expected 1 points × features"),
    ],
)
def test_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        ExampleLosses(*arguments)


def test_logits_of_a_diverged_network_are_refused_by_position():
    with pytest.raises(ValueError, match=r"logits_N_C: holds nan.* at position 1"):
        select("entropy", ExampleLosses([1.0, 1.0], logits_N_C=[[0.0, 1.0], [math.nan, 0.0]]), 1)
