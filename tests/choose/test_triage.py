"""Triage: the three decisions, where limits come from, and what the decisions cost."""

import numpy as np
import pytest
import torch

import natsel
from natsel.choose.triage import triage

BELIEF = natsel.FeatureDensity(
    [-1.0, -90.0, -2.0, -80.0],
    [[9.0, 0.0], [9.0, 0.0], [0.1, 0.0], [0.0, 0.0]],
    threshold=-50.0,
    entropy_threshold=0.5,
    ids=["a", "b", "c", "d"],
)


def test_the_limits_of_the_model_decide():
    found = natsel.triage(BELIEF)
    assert list(found.words()) == ["accept", "label", "defer", "label"]
    assert found.ids_of("label").tolist() == ["b", "d"]  # the least familiar first
    assert [row["aleatoric"] for row in found.rows()][1] is None  # says nothing about what is unfamiliar
    assert "unfamiliar" in str(found)


def test_limits_given_win_over_references_and_over_those_of_the_model():
    reference = natsel.FeatureDensity(-np.arange(100.0), np.zeros((100, 2)))
    assert natsel.triage(BELIEF, reference=reference, level=0.5).epistemic_limit == pytest.approx(49.5)
    found = natsel.triage(BELIEF, reference=reference, epistemic_limit=85.0, aleatoric_limit=0.0)
    assert list(found.words()) == ["defer", "label", "defer", "defer"]


def test_draws_and_single_predictions():
    probs_N_K_C = [[[1.0, 0.0], [0.0, 1.0]], [[0.5, 0.5], [0.5, 0.5]], [[0.9, 0.1], [0.9, 0.1]]]
    draws = natsel.CategoricalSamples.from_probs(probs_N_K_C)
    assert list(natsel.triage(draws, epistemic_limit=0.1, aleatoric_limit=0.5).words()) == ["label", "defer", "accept"]
    single = natsel.ClassProbabilities.from_probs([[0.5, 0.5], [0.9, 0.1]])
    found = natsel.triage(single, aleatoric_limit=0.5)
    assert list(found.words()) == ["defer", "accept"]
    assert found.epistemic_N is None
    with pytest.raises(ValueError, match="epistemic_limit: ClassProbabilities does not tell"):
        natsel.triage(single, epistemic_limit=1.0, aleatoric_limit=0.5)


def test_costs_and_curves_by_hand():
    found = natsel.triage(BELIEF)
    labels = [0, -1, 1, 0]  # b belongs to no class, c is predicted wrongly but deferred
    assert found.costs(labels, error=10, defer=1, label=2) == pytest.approx(
        {"triage": (0 + 2 + 1 + 2) / 4, "accept all": 10 * 2 / 4, "label all": 2.0, "errors accepted": 0.0}
    )
    curves = found.curves(labels)
    assert set(curves) == {"epistemic", "aleatoric", "both"}
    shares, errors = curves["epistemic"]  # a, c, d, b
    assert shares.tolist() == [0.25, 0.5, 0.75, 1.0]
    assert errors.tolist() == pytest.approx([0, 1 / 2, 1 / 3, 2 / 4])
    for shares, errors in curves.values():
        assert float(errors[-1]) == pytest.approx(0.5)  # where all are accepted, rules do not differ
        assert bool((shares.diff() > 0).all())


def test_refused():
    with pytest.raises(ValueError, match="about numbers"):
        natsel.triage(natsel.GaussianSamples([[0.0, 1.0]], 1.0))
    with pytest.raises(ValueError, match="aleatoric_limit: none is given"):
        triage(natsel.FeatureDensity([0.0], [[1.0, 0.0]]))
    with pytest.raises(ValueError, match="labels: expected one class number"):
        natsel.triage(BELIEF).costs([0, 1])
    with pytest.raises(ValueError, match="decision: expected accept"):
        natsel.triage(BELIEF).ids_of("reject")
    with pytest.raises(ValueError, match="level: expected a share"):
        natsel.triage(BELIEF, level=1.5)
    assert torch.equal(natsel.triage(BELIEF).decisions_N, torch.tensor([0, 2, 1, 2]))


def test_curves_of_tied_points_do_not_depend_on_their_order():
    belief = natsel.FeatureDensity([-1.0, -1.0, -1.0, -5.0], [[1.0, 0.0]] * 4)
    found, turned = (
        triage(belief[order], epistemic_limit=2.0, aleatoric_limit=1.0).curves(np.array([0, 1, 1, 1])[order])
        for order in ([0, 1, 2, 3], [3, 2, 1, 0])
    )
    for rule, errors in (("epistemic", [2 / 3, 2 / 3, 2 / 3, 3 / 4]), ("both", [3 / 4] * 4)):
        assert found[rule][1].tolist() == pytest.approx(errors)
        assert turned[rule][1].tolist() == pytest.approx(errors)


def test_a_reference_with_infinitely_unfamiliar_points_still_gives_a_limit():
    reference = natsel.FeatureDensity([-np.inf, -np.inf, -2.0], np.zeros((3, 2)))
    assert triage(BELIEF, reference=reference, level=0.99).epistemic_limit == np.inf
    for other in (reference[[]], [1.0]):
        with pytest.raises(ValueError, match="reference: expected a belief about at least one"):
            triage(BELIEF, reference=other)


def test_one_draw_tells_ambiguous_points_and_no_unfamiliar_ones():
    found = natsel.triage(natsel.CategoricalSamples.from_probs([[[0.9, 0.1]], [[0.5, 0.5]]]), aleatoric_limit=0.5)
    assert (list(found.words()), found.epistemic_N) == (["accept", "defer"], None)


def test_labels_and_costs_that_mean_nothing_are_refused():
    found = natsel.triage(BELIEF)
    for labels in (["a"] * 4, [0.0] * 4, [0, 1]):
        with pytest.raises(ValueError, match="labels: expected one class number for each of 4 points"):
            found.costs(labels)
    with pytest.raises(ValueError, match="error: a cost cannot be negative"):
        found.costs([0] * 4, error=-1)
    with pytest.raises(ValueError, match="belief: expected a belief, found list"):
        natsel.triage([[0.5, 0.5]])
