"""What an evaluation holds: the numbers of natsel.evaluation, for every belief about labels, and pages of them."""

import json

import numpy as np
import pytest
import torch

import natsel
from natsel import evaluation as measure
from natsel.evaluation.of_belief import METRICS, OF_TWO, evaluate

GENERATOR = np.random.default_rng(0)
PROBS_N_K_C = GENERATOR.dirichlet([0.5, 0.5, 0.5], size=(60, 4))
LABELS_N = GENERATOR.integers(0, 3, 60)
DRAWS = natsel.CategoricalSamples.from_probs(PROBS_N_K_C)


def test_details_of_classes_are_the_metrics_that_recipes_may_name():
    found = evaluate(DRAWS, LABELS_N, details=True)
    assert set(found) == set(METRICS[False]) - set(OF_TWO)
    of_two = evaluate(natsel.CategoricalSamples.from_probs([[[0.9, 0.1]], [[0.2, 0.8]]]), [0, 1], details=True)
    assert set(of_two) == set(METRICS[False]) - {"positives found"}, "which counts the labels of a run"
    mean_N_C = PROBS_N_K_C.mean(1)
    assert found["brier"] == pytest.approx(((mean_N_C - np.eye(3)[LABELS_N]) ** 2).sum(1).mean())
    assert found["ece"] == pytest.approx(measure.calibration_error(mean_N_C, LABELS_N).value)
    assert set(evaluate(DRAWS, LABELS_N)) == {"accuracy", "nll"}
    half = natsel.ClassProbabilities(torch.tensor(mean_N_C).log().half())  # rows of half precision miss the sum of 1
    assert evaluate(half, LABELS_N, details=True)["ece"] == pytest.approx(found["ece"], abs=0.1)
    unheard_of = evaluate(natsel.ClassProbabilities.from_probs([[0.5, 0.5]]), [2], details=True)
    assert (unheard_of["ece"], unheard_of["brier"]) == pytest.approx((0.5, 1.5))
    assert not any(measure.higher_is_better(name) for name in ("brier", "ece", "cwce", "tace", "gap", "fpr95"))


def test_metrics_of_draws_are_those_of_the_library():
    found = natsel.evaluate_uncertainty(DRAWS, LABELS_N, bins=10)
    mean_N_C, weights_K = PROBS_N_K_C.mean(1), torch.full((4,), 0.25).log()
    for kind in ("ece", "ace", "cace", "cwce", "sce", "tace"):
        assert found.metrics[kind] == pytest.approx(measure.calibration_error(mean_N_C, LABELS_N, kind, 10).value)
    gap = measure.disagreement_gap(mean_N_C, LABELS_N, 10)
    assert (found.metrics["gap"], found.metrics["gap bound"]) == pytest.approx((gap.gap, gap.bound))
    log_probs_N_K_C = torch.tensor(PROBS_N_K_C).log()
    expected = measure.disagreement_error(log_probs_N_K_C, weights_K, "U")
    assert found.metrics["disagreement"] == pytest.approx(expected)
    assert found.metrics["mutual information"] == pytest.approx(float(natsel.score("bald", DRAWS).mean()))
    errors_K = (PROBS_N_K_C.argmax(-1) != LABELS_N[:, None]).mean(0)
    assert found.member_errors_K == pytest.approx(tuple(errors_K))
    assert found.metrics["member error"] == pytest.approx(errors_K.mean())
    assert found.rejection["entropy"].values["error"][-1] == pytest.approx(1 - found.metrics["accuracy"])


def test_every_score_that_can_be_read_is_judged():
    numbers = np.random.default_rng(1)
    inside = natsel.FeatureDensity(-numbers.uniform(0, 1, 40), numbers.normal(size=(40, 3)), threshold=-0.75)
    outside = natsel.FeatureDensity(-numbers.uniform(5, 9, 20), numbers.normal(size=(20, 3)))
    found = natsel.evaluate_uncertainty(inside, LABELS_N[:40], outside=outside)
    assert set(found.detection) == set(found.rejection) == {"entropy", "density", "energy", "max-logit"}
    assert (found.detection["density"].auroc, found.detection["density"].fpr95) == (1.0, 0.0)
    assert found.detection["density"].low > 0.8
    energies = [natsel.score("energy", belief) for belief in (inside, outside)]
    assert found.detection["energy"].aupr == measure.aupr(*energies)
    assert found.metrics["share unfamiliar"] == float(inside.unfamiliar.double().mean())
    one_draw = natsel.CategoricalSamples.from_probs(PROBS_N_K_C[:, :1])
    assert set(natsel.evaluate_uncertainty(one_draw, LABELS_N).rejection) == {"entropy"}  # one draw tells nothing
    gaussian = natsel.evaluate_uncertainty(natsel.GaussianSamples(PROBS_N_K_C[..., 0], 0.1), PROBS_N_K_C[:, 0, 1])
    assert set(gaussian.rejection) == {"variance", "bald"}
    assert gaussian.rejection["variance"].values["rmse"][-1] == pytest.approx(gaussian.metrics["rmse"])


def test_refused():
    one, other = (natsel.CategoricalSamples.from_probs(PROBS_N_K_C, draws_id=name) for name in "ab")
    with pytest.raises(ValueError, match="outside: it comes from another fit"):
        natsel.evaluate_uncertainty(one, LABELS_N, outside=other)
    with pytest.raises(ValueError, match="predicts no labels"):
        natsel.evaluate_uncertainty(natsel.FisherRows(np.ones((2, 1, 1))), [0, 1])
    with pytest.raises(ValueError, match="held_out: it is for class predictions"):
        natsel.evaluate_uncertainty(natsel.GaussianSamples([[0.0]], 1.0), held_out=(DRAWS, LABELS_N))


def test_pages_from_python(tmp_path):
    found = natsel.evaluate_uncertainty(DRAWS, LABELS_N)
    text = natsel.report(found, tmp_path / "e.html").read_text(encoding="utf-8")
    assert "member error" in text
    assert text.count("<figure") == 2
    decisions = natsel.triage(DRAWS, reference=DRAWS)
    without = natsel.report(decisions, tmp_path / "t.html").read_text(encoding="utf-8")
    with_labels = natsel.report(decisions, tmp_path / "t.html", labels=LABELS_N).read_text(encoding="utf-8")
    assert "cost per point" in with_labels
    assert "cost per point" not in without
    with pytest.raises(ValueError, match="page: what was found has no folder"):
        natsel.report(decisions)
    with pytest.raises(ValueError, match="labels: they are for the page of a triage"):
        natsel.report(found, tmp_path / "e.html", labels=LABELS_N)


def test_one_draw_with_all_the_weight_has_no_disagreement_and_empty_bins_are_null():
    draws = natsel.CategoricalSamples(DRAWS.log_probs_N_K_C, log_weights_K=torch.tensor([1.0, 0, 0, 0]).log())
    found = natsel.evaluate_uncertainty(draws, LABELS_N[::-1], bins=100)
    assert "disagreement" not in found.metrics
    json.dumps(found.as_dict(), allow_nan=False)
    with pytest.raises(ValueError, match="number the classes from 0"):
        natsel.evaluate_uncertainty(draws, np.full(60, 10**9))
    with pytest.raises(ValueError, match="held_out: expected a belief and its labels"):
        natsel.evaluate_uncertainty(draws, LABELS_N, held_out=draws)


def test_labels_that_do_not_belong_to_the_belief_are_named(tmp_path):
    known = DRAWS.log_probs_N_K_C.shape[-1]
    assert "number them from 0" in natsel.evaluate_uncertainty(DRAWS, LABELS_N % (known - 1) + 2).warnings[-1]
    with pytest.raises(ValueError, match="labels: expected class numbers"):
        natsel.evaluate_uncertainty(DRAWS, LABELS_N.astype(str))
    with pytest.raises(ValueError, match="held_out: expected one for each of"):
        natsel.evaluate_uncertainty(DRAWS, LABELS_N, held_out=(DRAWS, LABELS_N[:3]))
    found = natsel.triage(DRAWS, epistemic_limit=0.0, aleatoric_limit=0.1)
    with_pictures = natsel.report(found, tmp_path / "t.html", pictures=np.zeros((len(DRAWS), 8, 8)))
    assert "data:image/png" in with_pictures.read_text(encoding="utf-8")
