"""Calibration errors: golden values, definitions in loops, facts of docs/theory/calibration.md; temperature, Brier."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import natsel
from golden_values import golden
from natsel.evaluation import brier, calibration_error, disagreement_gap, fit_temperature, nll, reliability

CASES = golden("12-disagreement")
SUITES = {name: case for name, case in CASES.items() if "cwce" in case["outputs"]}
KINDS = ("ece", "cace", "cwce", "wcace", "sce", "ace", "tace", "rmsce", "ecace")


def value(probs_N_C, labels_N, kind, bins=15, **options):
    return float(calibration_error(probs_N_C, labels_N, kind, bins, **options))


def made(seed, points=60, classes=4, decimals=None):
    """A table of predictions and labels; rounded, it has zeros, ties and entries on the edges of bins."""
    rng = np.random.default_rng(seed)
    probs_N_C = rng.dirichlet(np.full(classes, 0.5), size=points)
    if decimals is not None:
        probs_N_C = probs_N_C.round(decimals)
        probs_N_C[:, 0] = (1 - probs_N_C[:, 1:].sum(1)).round(decimals).clip(0)
        probs_N_C /= probs_N_C.sum(1, keepdims=True)
    return probs_N_C, rng.integers(classes, size=points)


seeds = st.integers(0, 10_000)


@pytest.mark.parametrize("case", SUITES.values(), ids=SUITES.keys())
def test_golden_suites(case):
    inputs, expected = case["inputs"], case["outputs"]
    table = inputs["probs_N_C"], inputs["labels_N"]
    for kind in ("ece", "cace", "cwce", "wcace"):
        assert value(*table, kind, inputs["num_bins"]) == pytest.approx(expected[kind], abs=1e-12), kind
    found = disagreement_gap(*table, inputs["num_bins"])
    assert found.gap == pytest.approx(expected["gde_gap"], abs=1e-12)
    assert found.sampling_error == pytest.approx(expected["test_error"], abs=1e-12)
    assert found.predicted_error == pytest.approx(expected["predicted_error"], abs=1e-12)
    log_probs = torch.tensor(inputs["probs_N_C"], dtype=torch.float64).log()
    assert nll(log_probs, inputs["labels_N"]) == pytest.approx(expected["nll"])


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("tace")])
def test_golden_bins_of_equal_mass(name):
    inputs, expected = CASES[name]["inputs"], CASES[name]["outputs"]["value"]
    table = inputs["probs_N_C"], inputs["labels_N"], "tace", inputs["num_bins"]
    assert value(*table, threshold=inputs["threshold"]) == pytest.approx(expected, abs=1e-12)
    if inputs["threshold"] == 0:
        assert value(*table[:2], "ace", inputs["num_bins"]) == pytest.approx(expected, abs=1e-12)


def test_golden_exact_levels():
    inputs, expected = CASES["cace_exact_levels"]["inputs"], CASES["cace_exact_levels"]["outputs"]
    probs_N_C = np.array(inputs["counts_N_C"]) / inputs["K"]
    error = calibration_error(probs_N_C, inputs["labels_N"], "cace", levels=inputs["K"])
    assert (error.bins, error.binning, error.points) == (5, "levels", 5)
    assert float(error) == pytest.approx(expected["cace"])
    found = disagreement_gap(probs_N_C, inputs["labels_N"], levels=inputs["K"])
    assert found.gap == pytest.approx(expected["gap"])
    assert found.bound == pytest.approx(expected["cace"] / 2)
    # Total variation does not depend on how levels are named: −ln p has the same ones.
    assert value(probs_N_C, inputs["labels_N"], "ecace", levels=inputs["K"]) == pytest.approx(expected["cace"])


def written_out(probs_N_C, labels_N, kind, bins):
    """The definitions as loops over entries."""
    points, classes = probs_N_C.shape
    entries = [(n, k, probs_N_C[n, k], float(labels_N[n] == k)) for n in range(points) for k in range(classes)]
    tops = probs_N_C.argmax(1)
    if kind in ("ece", "rmsce"):
        entries = [entry for entry in entries if entry[1] == tops[entry[0]]]
    if kind == "sce":
        entries = [entry for entry in entries if entry[2] > 0]

    def even(p):
        return sum(p > i / bins for i in range(1, bins))

    def in_nats(p):
        most = -math.log(1e-12)
        return sum(-math.log(max(p, 1e-12)) > i / bins * most for i in range(1, bins))

    def column_errors(column):
        groups = np.array_split(sorted(p for *_, p, _ in column), min(bins, len(column)))
        tops = [group[-1] for group in groups]
        sums, counts = {}, {}
        for *_, p, hit in column:
            where = next(i for i, top in enumerate(tops) if p <= top)
            sums[where] = sums.get(where, 0.0) + hit - p
            counts[where] = counts.get(where, 0) + 1
        return sums, counts

    if kind == "rmsce":
        sums, counts = column_errors(entries)
        return math.sqrt(sum(counts[b] / points * (sums[b] / counts[b]) ** 2 for b in sums))
    if kind in ("ace", "tace"):
        total = 0.0
        for k in range(classes):
            column = [entry for entry in entries if entry[1] == k and (kind == "ace" or entry[2] > 0.01)]
            total += sum(map(abs, column_errors(column)[0].values())) / len(column) if column else 0.0
        return total / classes
    sums = {}
    for _, k, p, hit in entries:
        where = (k if kind == "cwce" else 0, in_nats(p) if kind == "ecace" else even(p))
        sums[where] = sums.get(where, 0.0) + (p if kind == "wcace" else 1.0) * (hit - p)
    return sum(map(abs, sums.values())) / (len(entries) if kind == "sce" else points)


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=8)
@given(seeds, st.sampled_from([1, 2, 3, 10, 15]), st.sampled_from([None, 1, 2]))
def test_every_kind_is_its_definition_in_any_chunks(kind, seed, bins, decimals):
    probs_N_C, labels_N = made(seed, points=25, decimals=decimals)
    expected = written_out(probs_N_C, labels_N, kind, bins)
    assert value(probs_N_C, labels_N, kind, bins) == pytest.approx(expected, abs=1e-12)
    with natsel.memory_budget(300):
        assert value(torch.tensor(probs_N_C), labels_N, kind, bins) == pytest.approx(expected, abs=1e-12)


@settings(deadline=None)
@given(seeds, st.sampled_from([1, 2, 3, 7, 15, 50]), st.sampled_from([None, 1]))
def test_inequalities_and_the_corrected_bound(seed, bins, decimals):
    """docs/theory/calibration.md, 4: the published bound gap ≤ CACE_B is not among them."""
    table = made(seed, points=12, decimals=decimals)
    ece, cace, cwce, wcace = (value(*table, kind, bins) for kind in ("ece", "cace", "cwce", "wcace"))
    found = disagreement_gap(*table, bins)
    assert cace <= cwce + 1e-12 <= 2 + 2e-12
    assert 0 <= ece <= 1
    assert found.gap <= wcace + 1e-12
    assert found.gap <= found.bound + 1e-12
    assert value(*table, "cace", 1) == pytest.approx(0, abs=1e-12)
    assert value(*table, "wcace", 1) == pytest.approx(found.gap, abs=1e-12)
    assert value(*table, "ece", 1) <= ece + 1e-12
    # In nats: |CE − H| ≤ (1 − 1/B) L/2 ECACE_B + L/B · sampling error.
    probs_N_C, most = table[0].clip(1e-12), -math.log(1e-12)
    surprise = -np.log(probs_N_C)[np.arange(12), table[1]].mean() + (table[0] * np.log(probs_N_C)).sum(1).mean()
    bound = (1 - 1 / bins) * most / 2 * value(*table, "ecace", bins) + most / bins * found.sampling_error
    assert abs(surprise) <= bound + 1e-12


def test_the_published_bound_fails_for_coarse_bins():
    """All entries in one bin: CACE_2 = 0 and the gap is ½, which the term (sampling error)/B exactly allows."""
    found = disagreement_gap([[0.0, 0.5, 0.5]], [0], bins=2)
    assert found.cace.value == 0
    assert found.gap == found.bound == 0.5


@settings(deadline=None, max_examples=10)
@given(seeds)
def test_what_leaves_errors_unchanged(seed):
    probs_N_C, labels_N = made(seed, points=30)
    rng = np.random.default_rng(seed)
    points, classes = rng.permutation(30), rng.permutation(4)
    for kind in KINDS:
        error = value(probs_N_C, labels_N, kind)
        assert value(probs_N_C[points], labels_N[points], kind) == pytest.approx(error)
        assert value(probs_N_C[:, np.argsort(classes)], classes[labels_N], kind) == pytest.approx(error)
        if kind not in ("ace", "tace", "rmsce"):
            assert value(np.tile(probs_N_C, (2, 1)), np.tile(labels_N, 2), kind) == pytest.approx(error)
    assert value(probs_N_C, labels_N, "sce") == pytest.approx(value(probs_N_C, labels_N, "cace") / 4)


@settings(deadline=None, max_examples=10)
@given(seeds)
def test_two_classes(seed):
    """CACE_B = 2 ECE_B for even B; for odd B the residuals of the middle bin cancel."""
    table = made(seed, points=40, classes=2)
    assert value(*table, "cace", 14) == pytest.approx(2 * value(*table, "ece", 14))
    assert value(*table, "cace", 15) <= 2 * value(*table, "ece", 15) + 1e-12


def test_ever_more_bins_leave_noise():
    """All probabilities alone in their bins: 2 (1 − mean p(y)), whatever the model."""
    probs_N_C, labels_N = made(0, points=20)
    noise = 2 * (1 - probs_N_C[np.arange(20), labels_N].mean())
    assert value(probs_N_C, labels_N, "cace", 10**6) == pytest.approx(noise)
    assert value(probs_N_C, labels_N, "cwce", 10**6) == pytest.approx(noise)


def test_labels_drawn_from_the_predictions_make_errors_small():
    rng = np.random.default_rng(0)
    probs_N_C = rng.dirichlet(np.full(3, 0.7), size=20_000)
    labels_N = (rng.random((20_000, 1)) > probs_N_C.cumsum(1)).sum(1).clip(max=2)
    for kind in KINDS:
        calibrated, turned = (value(probs_N_C, some, kind) for some in (labels_N, (labels_N + 1) % 3))
        assert calibrated < 0.03 < 0.1 < turned, kind
    assert disagreement_gap(probs_N_C, labels_N).gap < 0.01


def test_a_calibrated_top_class_says_nothing_about_the_error_of_drawn_answers():
    """ECE is 0, and the second of three classes takes the place of the third: the gap is not 0."""
    probs_N_C = np.tile([0.5, 0.4, 0.1], (10, 1))
    labels_N = [0] * 5 + [2] * 5
    assert value(probs_N_C, labels_N, "ece") == pytest.approx(0)
    assert disagreement_gap(probs_N_C, labels_N).gap == pytest.approx(0.42 - 0.3)


def test_float32_is_binned_by_its_own_value_in_any_layout():
    probs_N_C, labels_N = made(3, points=200)
    turned = torch.tensor(probs_N_C).T.contiguous().T
    narrow = torch.tensor(probs_N_C, dtype=torch.float32)
    for kind in KINDS:
        wide = narrow.double().numpy()
        assert value(narrow, labels_N, kind) == value(wide, labels_N, kind)
        assert value(turned, labels_N, kind) == value(probs_N_C, labels_N, kind)


def test_reliability_gives_back_the_error():
    probs_N_C, labels_N = made(5, points=300)
    found = reliability(probs_N_C, labels_N, bins=10)
    some = found.counts > 0
    assert found.counts.sum() == 300
    assert np.isnan(found.accuracy[~some]).all()
    assert ((found.edges[:-1] < found.confidence) & (found.confidence <= found.edges[1:]))[some].all()
    gaps = np.abs(found.accuracy - found.confidence)[some]
    assert gaps @ found.counts[some] / 300 == pytest.approx(value(probs_N_C, labels_N, "ece", 10))


def test_errors_of_different_binning_are_not_ranked():
    table = made(1)
    coarse, fine = calibration_error(*table, bins=10), calibration_error(*table, bins=20)
    with pytest.raises(ValueError, match="cannot rank ece in 10 bins"):
        max(coarse, fine)
    with pytest.raises(ValueError, match="cannot rank"):
        min(calibration_error(*table, "tace"), calibration_error(*table, "tace", threshold=0.1))
    fewer = calibration_error(table[0][:30], table[1][:30], bins=10)
    assert min(coarse, fewer).value == min(coarse.value, fewer.value)


@pytest.mark.parametrize(
    ("probs", "labels", "options", "word"),
    [
        ([[-0.7, -0.7]], [0], {}, "pass exp of log probabilities"),
        ([[2.0, -1.0]], [0], {}, "softmax"),
        ([[math.nan, 1.0]], [0], {}, "NaN"),
        ([[0.5, 0.4]], [0], {}, "row 0 sums to 0.9"),
        ([[0.5, 0.5]], [2], {}, "classes run from 0 to 1"),
        ([[0.5, 0.5]], [0, 1], {}, "one for each of 1 points"),
        (np.zeros((0, 2)), [], {}, "at least one point"),
        ([[0.5, 0.5]], [0], {"kind": "mce"}, "expected one of ece"),
        ([[0.5, 0.5]], [0], {"bins": 0}, "at least 1"),
        ([[0.5, 0.5]], [0], {"threshold": 0.1}, "for 'tace' only"),
        ([[0.5, 0.5]], [0], {"kind": "ace", "levels": 2}, "equal width"),
        ([[0.4, 0.6]], [0], {"kind": "cace", "levels": 2}, "no shares of 2"),
    ],
)
def test_bad_tables_are_refused(probs, labels, options, word):
    with pytest.raises(ValueError, match=word):
        calibration_error(probs, labels, **options)


def test_brier_by_hand():
    log_probs = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]], dtype=torch.float64).log()
    expected = (0.3**2 + 0.2**2 + 0.1**2 + 0.1**2 + 0.7**2 + 0.6**2) / 2
    assert brier(log_probs, [0, 1]) == pytest.approx(expected)
    assert brier(torch.tensor([[1.0, 0.0]]).log(), [1]) == 2


# Temperature


def mean_nll(logits_N_C, labels_N, temperature):
    return nll((logits_N_C / temperature).log_softmax(-1), labels_N)


def made_logits(seed, points=80, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    logits_N_C = torch.randn(points, 5, generator=generator, dtype=torch.float64)
    labels_N = torch.multinomial(logits_N_C.softmax(-1), 1, generator=generator)[:, 0]
    return scale * logits_N_C, labels_N


@settings(deadline=None, max_examples=10)
@given(seeds, st.sampled_from([0.3, 1.0, 8.0]))
def test_temperature_is_the_minimum_and_scales_with_the_logits(seed, scale):
    logits_N_C, labels_N = made_logits(seed)
    found = fit_temperature(logits_N_C, labels_N)
    best = mean_nll(logits_N_C, labels_N, found)
    grid = [mean_nll(logits_N_C, labels_N, 0.1 * i) for i in range(1, 101)]
    assert best <= min(grid) + 1e-12
    assert fit_temperature(scale * logits_N_C, labels_N) == pytest.approx(scale * found, rel=1e-8)
    with natsel.memory_budget(1000):
        assert fit_temperature(logits_N_C.float(), labels_N.numpy()) == pytest.approx(found, rel=1e-5)


def test_temperature_undoes_a_factor():
    logits_N_C, labels_N = made_logits(0, points=20_000, scale=3.0)
    assert fit_temperature(logits_N_C, labels_N) == pytest.approx(3.0, rel=0.05)


def test_temperature_from_labels_that_are_distributions():
    logits_N_C, labels_N = made_logits(1)
    one_hot = torch.nn.functional.one_hot(labels_N, 5).double()
    assert fit_temperature(logits_N_C, one_hot) == pytest.approx(fit_temperature(logits_N_C, labels_N), rel=1e-10)
    assert fit_temperature(logits_N_C, (logits_N_C / 1.7).softmax(-1)) == pytest.approx(1.7, rel=1e-8)


def test_temperature_with_forbidden_classes():
    logits_N_C, labels_N = made_logits(2)
    padded = torch.nn.functional.pad(logits_N_C, (0, 2), value=-math.inf)
    assert fit_temperature(padded, labels_N) == pytest.approx(fit_temperature(logits_N_C, labels_N), rel=1e-10)
    with pytest.raises(ValueError, match="no temperature makes it possible"):
        fit_temperature(padded, torch.full_like(labels_N, 6))


def test_temperature_without_a_minimum_is_a_limit_with_a_warning():
    logits_N_C, _ = made_logits(3)
    with pytest.warns(UserWarning, match=r"beyond the limit 0.01, because nearly every label"):
        assert fit_temperature(logits_N_C, logits_N_C.argmax(-1)) == 0.01
    with pytest.warns(UserWarning, match=r"beyond the limit 50, because the logits tell no more"):
        assert fit_temperature(logits_N_C, logits_N_C.argmin(-1), limits=(0.5, 50.0)) == 50
    assert fit_temperature(torch.ones(3, 2), [0, 1, 1]) == 1


@pytest.mark.parametrize(
    ("logits", "labels", "word"),
    [
        ([[math.nan, 0.0]], [0], "NaN"),
        ([[math.inf, 0.0]], [0], "inf"),
        ([1.0, 0.0], [0], "floats of shape"),
        ([["1", "0"]], [0], "logits_N_C: expected numbers"),
        ([[1.0, 0.0]], [[0.5, 0.1]], "sum to 1"),
        ([[1.0, 0.0]], [[1.0]], "a distribution for each row"),
    ],
)
def test_bad_logits_are_refused(logits, labels, word):
    with pytest.raises(ValueError, match=word):
        fit_temperature(logits, labels)


@pytest.mark.slow
def test_torchmetrics_has_the_same_ece():
    """Off the edges of bins, which it closes on the other side."""
    torchmetrics = pytest.importorskip("torchmetrics")
    probs_N_C, labels_N = made(7, points=2000)
    table = torch.tensor(probs_N_C), torch.tensor(labels_N)
    error = torchmetrics.functional.calibration_error(*table, task="multiclass", n_bins=15, norm="l1", num_classes=4)
    assert value(*table, "ece") == pytest.approx(float(error), abs=1e-6)
    found = reliability(*table)
    some = found.counts > 0
    error = torchmetrics.functional.calibration_error(*table, task="multiclass", n_bins=15, norm="max", num_classes=4)
    assert np.abs(found.accuracy - found.confidence)[some].max() == pytest.approx(float(error), abs=1e-6)
