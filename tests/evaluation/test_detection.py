"""AUROC, AUPR and FPR95 beside scikit-learn and torchmetrics, with ties and infinities; rejection curves."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

from golden_values import golden
from natsel.evaluation import (
    accuracy,
    aupr,
    auroc,
    auroc_interval,
    brier,
    calibration_error,
    disagreement_gap,
    fpr95,
    rejection_curve,
)

CASES = {name: case for name, case in golden("02-ensembles-and-detection").items() if name.startswith("auroc")}

scores = st.lists(st.integers(-4, 4).map(float) | st.floats(-5, 5), min_size=1, max_size=40)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_golden_auroc(case):
    inside_N, outside_M = np.array(case["inputs"]["score_id"]), np.array(case["inputs"]["score_ood"])
    assert auroc(inside_N, outside_M) == pytest.approx(case["outputs"]["auroc"], abs=1e-15)
    assert auroc(-inside_N, -outside_M) == pytest.approx(case["outputs"]["auroc_negated"], abs=1e-15)


@settings(deadline=None)
@given(scores, scores)
def test_scikit_learn_has_the_same_values_with_ties(inside_N, outside_M):
    outside = np.repeat([0, 1], [len(inside_N), len(outside_M)])
    score = np.concatenate((inside_N, outside_M))
    assert auroc(inside_N, outside_M) == pytest.approx(roc_auc_score(outside, score), abs=1e-12)
    assert aupr(inside_N, outside_M) == pytest.approx(average_precision_score(outside, score), abs=1e-12)
    fpr, tpr, _ = roc_curve(outside, score, drop_intermediate=False)
    assert fpr95(inside_N, outside_M) == fpr[tpr >= 0.95].min()


@settings(deadline=None)
@given(scores, scores)
def test_auroc_is_a_share_of_pairs_and_knows_ranks_only(inside_N, outside_M):
    pairs = [(out > inn) + 0.5 * (out == inn) for out in outside_M for inn in inside_N]
    found = auroc(torch.tensor(inside_N, dtype=torch.float64), np.array(outside_M))
    assert found == pytest.approx(np.mean(pairs), abs=1e-12)
    assert auroc(outside_M, inside_N) == pytest.approx(1 - found, abs=1e-12)
    ranks = {score: rank for rank, score in enumerate(sorted({*inside_N, *outside_M}))}
    ends = {0: -math.inf, len(ranks) - 1: math.inf}
    moved = [[ends.get(ranks[score], ranks[score] ** 3) for score in side] for side in (inside_N, outside_M)]
    for metric in (auroc, aupr, fpr95):
        assert metric(*moved) == metric(inside_N, outside_M)


def test_exactly_95_percent_are_enough():
    """19 of 20, although 0.95 · 20 is above 19 for some ways of rounding."""
    outside_M = [5.0] * 19 + [0.0]
    assert fpr95([1.0, 2.0], outside_M) == 0
    assert fpr95([1.0, 2.0], [*outside_M, 0.0]) == 1


@pytest.mark.parametrize("metric", [auroc, aupr, fpr95, auroc_interval])
def test_missing_scores_are_refused(metric):
    for bad, word in (([], "at least one"), ([math.nan, 1.0], "NaN at point 0"), ([[1.0]], "one number per point")):
        with pytest.raises(ValueError, match=f"outside_M.*{word}"):
            metric([1.0, 2.0], bad)
        with pytest.raises(ValueError, match=f"inside_N.*{word}"):
            metric(bad, [1.0, 2.0])


def test_intervals_hold_the_true_area_about_as_often_as_they_say():
    rng = np.random.default_rng(0)
    truth = 0.7602499389065233  # Φ(1/√2)
    held = 0
    for _ in range(200):
        found = auroc_interval(rng.normal(size=60), rng.normal(size=40) + 1)
        held += found.low <= truth <= found.high
    assert 180 <= held <= 199
    assert auroc_interval([1, 2, 3], [4, 5, 6]).low == pytest.approx(0.025 ** (1 / 3))
    assert auroc_interval([4, 5, 6], [1, 2, 3]).low == 0
    wide, narrow = (auroc_interval([1, 3, 5], [2, 4, 6], level) for level in (0.99, 0.5))
    assert wide.low < narrow.low < auroc([1, 3, 5], [2, 4, 6]) < narrow.high < wide.high


@pytest.mark.slow
def test_torchmetrics_has_the_same_areas():
    functional = pytest.importorskip("torchmetrics").functional
    rng = np.random.default_rng(1)
    inside_N, outside_M = rng.normal(size=500).round(1), (rng.normal(size=300) + 1).round(1)
    score = torch.tensor(np.concatenate((inside_N, outside_M))).sigmoid()
    outside = torch.arange(800) >= 500
    assert auroc(inside_N, outside_M) == pytest.approx(float(functional.auroc(score, outside, "binary")), abs=1e-6)
    expected = float(functional.average_precision(score, outside, "binary"))
    assert aupr(inside_N, outside_M) == pytest.approx(expected, abs=1e-6)


# Rejection


def test_all_points_kept_give_the_metric_itself_and_scores_cut_from_the_top():
    rng = np.random.default_rng(2)
    probs_N_C, labels_N = rng.dirichlet(np.full(3, 0.5), size=97), rng.integers(3, size=97)
    log_probs_N_C = torch.tensor(probs_N_C).log()
    metrics = {
        "accuracy": lambda kept: accuracy(log_probs_N_C[kept], labels_N[kept]),
        "brier": lambda kept: brier(log_probs_N_C[kept], labels_N[kept]),
        "ece": lambda kept: float(calibration_error(probs_N_C[kept], labels_N[kept])),
        "gap": lambda kept: disagreement_gap(probs_N_C[kept], labels_N[kept]).gap,
    }
    score_N = 1 - probs_N_C.max(1)
    found = rejection_curve(torch.tensor(score_N), metrics, shares=[0.1, 0.5])
    assert {name: values[-1] for name, values in found.values.items()} == {
        name: metric(np.arange(97)) for name, metric in metrics.items()
    }
    assert found.counts.tolist() == [10, 49, 97]
    surest = np.argsort(score_N)[:10]
    assert found.values["accuracy"][0] == pytest.approx((probs_N_C.argmax(1) == labels_N)[surest].mean())
    assert found.shares[-1] == 1


def test_equal_scores_stay_together_and_the_area_is_the_mean_height():
    wrong_N = np.array([0.0, 0.0, 1.0, 1.0])
    found = rejection_curve([0, 0, 1, 1], {"error": lambda kept: wrong_N[kept].mean()}, shares=4)
    assert found.counts.tolist() == [2, 4]
    assert found.values["error"].tolist() == [0.0, 0.5]
    assert found.area("error") == 0.25
    assert math.isnan(rejection_curve([1, 1], {"error": lambda kept: 0.0}).area("error"))
    with pytest.raises(ValueError, match="expected one of error"):
        found.area("nll")


@pytest.mark.parametrize("shares", [0, [], [0.0], [1.5], [math.nan], [[0.5]]])
def test_bad_shares_are_refused(shares):
    with pytest.raises(ValueError, match="shares"):
        rejection_curve([1.0, 2.0], {}, shares)
