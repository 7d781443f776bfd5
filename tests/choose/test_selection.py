"""Selections and how they explain themselves."""

import dataclasses
import math

import numpy as np
import pytest
import torch

import natsel
from natsel import CategoricalSamples, GaussianFeatures, GaussianSamples
from natsel.choose.selection import exhausted
from natsel.information import joint_mutual_information


def random_belief(seed=0, count=20, draws=6, classes=4):
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(count, draws, classes, generator=generator, dtype=torch.float64)
    return CategoricalSamples.from_logits(logits, ids=torch.arange(count) + 1000)


def test_a_selection_is_a_sequence_of_ids():
    selection = natsel.select("batchbald", random_belief(), k=5)
    assert len(selection) == 5
    assert list(selection) == selection.ids.tolist()
    assert all(type(index) is int for index in selection)
    assert selection.ids[0] in selection
    assert isinstance(selection.ids, np.ndarray)
    assert len(natsel.select("batchbald", random_belief(), k=0)) == 0


def test_a_selection_cannot_be_changed():
    selection = natsel.select("bald", random_belief(), k=2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        selection.total = 0.0


def test_the_ids_are_a_copy():
    belief = random_belief()
    selection = natsel.select("bald", belief, k=2)
    selection.ids[:] = 0
    assert belief.ids.tolist() == list(range(1000, 1020))


def test_scores_and_total_live_on_the_cpu_in_double():
    selection = natsel.select("batchbald", random_belief(), k=4)
    assert selection.scores.dtype == torch.float64
    assert selection.scores.device.type == "cpu"
    assert selection.total == pytest.approx(float(selection.scores.sum()))


def test_the_printed_form_stays_short():
    assert len(repr(natsel.select("bald", random_belief(count=1000), k=3))) < 1000


def test_copies_overlap_completely_when_members_never_err():
    belief = CategoricalSamples.from_probs([[[1.0, 0.0], [0.0, 1.0]]] * 3)
    explanation = natsel.select("bald", belief, k=3).explain()
    first, *others = explanation.picks
    assert first.gain == pytest.approx(math.log(2))
    assert first.overlap == pytest.approx(0, abs=1e-12)
    for pick in others:
        assert pick.score == pytest.approx(math.log(2))  # what bald counted
        assert pick.gain == pytest.approx(0, abs=1e-12)  # what it adds
        assert pick.overlap == pytest.approx(math.log(2))
    assert explanation.information == pytest.approx(math.log(2))


def test_the_parts_of_an_explanation_add_up():
    belief = random_belief()
    for name in ("batchbald", "bald", "entropy", "power-bald", "random", "margin"):
        selection = natsel.select(name, belief, k=5)
        explanation = selection.explain()
        positions = [index - 1000 for index in selection]
        entropy_N, bald_N = natsel.score("entropy", belief), natsel.score("bald", belief)
        assert [pick.id for pick in explanation.picks] == list(selection)
        assert [pick.score for pick in explanation.picks] == selection.scores.tolist()
        for position, pick in zip(positions, explanation.picks, strict=True):
            assert pick.epistemic == pytest.approx(float(bald_N[position]), abs=1e-12)
            assert pick.epistemic + pick.aleatoric == pytest.approx(float(entropy_N[position]), abs=1e-12)
            assert pick.gain + pick.overlap == pytest.approx(pick.epistemic, abs=1e-10)
            assert pick.overlap >= 0
        together = joint_mutual_information(belief.log_probs_N_K_C[positions], belief.log_weights_K)
        assert explanation.information == pytest.approx(together, abs=1e-10)
        assert explanation.method == name


def test_the_gains_of_a_greedy_batch_are_its_scores():
    explanation = natsel.select("batchbald", random_belief(), k=5).explain()
    assert [pick.gain for pick in explanation.picks] == pytest.approx([pick.score for pick in explanation.picks])


def test_an_explanation_in_words_has_a_line_a_pick():
    selection = natsel.select("batchbald", random_belief(), k=6)
    head, *lines = str(selection.explain()).splitlines()
    for word in ("id", "score", "gain", "epistemic", "aleatoric", "overlap"):
        assert word in head.split()
    for line, index, score in zip(lines, selection, selection.scores.tolist(), strict=False):
        numbers = line.split()
        assert int(numbers[0]) == index
        assert float(numbers[1]) == pytest.approx(score, abs=1e-4)
        assert len(numbers) == 6
    rest = lines[6:]
    assert rest[0].startswith("batchbald: ")
    assert f"{selection.total:.4f} nats together" in rest[0]
    assert [line.removeprefix("! ") for line in rest[1:]] == list(selection.warnings)
    assert all(line.startswith("! ") for line in rest[1:])


def test_warnings_are_shown_once():
    selection = natsel.select("batchbald", random_belief(draws=2), k=8)
    assert selection.warnings
    explanation = selection.explain()
    assert len(set(explanation.warnings)) == len(explanation.warnings)
    assert str(explanation).count("draws exhausted") == 1


def test_an_exhausted_batch_is_told_so_even_where_the_search_does_not_know():
    selection = natsel.select("entropy", random_belief(draws=2), k=8)
    assert selection.warnings == ()
    assert any("draws exhausted" in warning for warning in selection.explain().warnings)


def test_explaining_nothing():
    explanation = natsel.select("batchbald", random_belief(), k=0).explain()
    assert explanation.picks == ()
    assert explanation.information == 0.0
    assert len(str(explanation).splitlines()) == 2


@pytest.mark.parametrize("make", ["features", "samples"])
def test_gaussian_batches_explain_themselves(make):
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(8, 3, generator=generator)
    belief = GaussianFeatures(values, 0.5) if make == "features" else GaussianSamples(values, 0.5)
    selection = natsel.select("batchbald", belief, k=4)
    explanation = selection.explain()
    assert explanation.information == pytest.approx(selection.total)
    for pick in explanation.picks:
        assert pick.gain + pick.overlap == pytest.approx(pick.epistemic, abs=1e-9)
        assert pick.aleatoric == pytest.approx(0.5 * math.log(2 * math.pi * math.e * 0.5))


def test_explaining_does_not_change_the_selection():
    selection = natsel.select("power-bald", random_belief(), k=4, seed=3)
    before = selection.ids.copy(), selection.scores.clone()
    assert str(selection.explain()) == str(selection.explain())
    assert np.array_equal(selection.ids, before[0])
    assert torch.equal(selection.scores, before[1])


@pytest.mark.parametrize(
    ("total", "remaining", "warned"),
    [
        (0.2, 0.8, False),
        (0.9, 0.1, True),
        (0.89, 0.11, False),
        (1.0, 0.0, True),
        (0.0, 0.0, False),
        (5.0, math.inf, False),
    ],
)
def test_exhaustion_is_nine_tenths_of_what_the_draws_can_tell(total, remaining, warned):
    assert bool(exhausted(total, remaining)) is warned
