"""Students: one by self-distillation keeps the predictions and loses the disagreement; JEPIG from model and student."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

from golden_values import random_draws
from learning.committee import Committee, blobs, pool
from natsel import (
    ActiveLearner,
    CategoricalSamples,
    Examples,
    GaussianSamples,
    Greedy,
    Method,
    TargetInputs,
    TopK,
    score,
    select,
)
from natsel.beliefs.two_models import TwoModels
from natsel.learning.students import distil, extended, pseudo_labels, soft_labels
from natsel.models import Dropout, Ensemble, Training, mlp
from natsel.models.networks.outputs import SoftClasses, outputs_for_labels
from natsel.objectives import Context, read
from natsel.objectives.jepig import TaughtJEPIG

CPU = torch.device("cpu")
QUICK = Training(max_epochs=5, epoch_samples=256)


def models():
    training = Training(max_epochs=30, patience=30)
    return [
        Dropout(mlp(2, 3), draws=20, training=training, device="cpu"),
        Ensemble(mlp(2, 3), members=4, training=replace(training, epoch_samples=512), device="cpu"),
    ]


def bald(belief):
    return float(score("bald", belief).mean())


@pytest.mark.parametrize("model", models(), ids=["dropout", "ensemble"])
def test_a_student_believes_the_same_on_average_and_disagrees_less_where_it_was_taught(model):
    labelled, aims = blobs(24), blobs(60, seed=3).inputs
    teacher = model.fit(labelled, seed=1)
    rows = np.concatenate([labelled.inputs, aims])
    before = teacher.believe(rows)
    student = distil(teacher, rows, before, seed=2)
    assert type(student) is type(teacher)
    assert teacher.believe(rows).log_probs_N_K_C.equal(before.log_probs_N_K_C), "the teacher is left as it was"
    ours, theirs = teacher.believe(aims), student.believe(aims)
    assert bald(theirs) < 0.7 * bald(ours)
    assert np.abs(soft_labels(ours) - soft_labels(theirs)).mean() < 0.05
    far = aims + 20
    taught, untaught = bald(ours) - bald(theirs), bald(teacher.believe(far)) - bald(student.believe(far))
    assert taught / bald(ours) > untaught / bald(teacher.believe(far)), "what is far from the targets stays open"


def test_the_same_seed_gives_the_same_student():
    model = Dropout(mlp(2, 3), draws=6, training=QUICK, device="cpu").fit(blobs(24), seed=1)
    inputs = blobs(30, seed=3).inputs
    first, again, other = (distil(model, inputs, model.believe(inputs), seed=seed) for seed in (2, 2, 3))
    assert first.believe(inputs).log_probs_N_K_C.equal(again.believe(inputs).log_probs_N_K_C)
    assert not first.believe(inputs).log_probs_N_K_C.equal(other.believe(inputs).log_probs_N_K_C)


def test_what_cannot_be_taught_is_refused():
    belief = CategoricalSamples.from_probs([[[0.5, 0.5]]])
    with pytest.raises(ValueError, match="model: Committee cannot learn soft labels"):
        distil(Committee(), [[0.0]], belief)
    with pytest.raises(ValueError, match="teacher: expected a belief about classes, found GaussianSamples"):
        distil(models()[0], [[0.0]], GaussianSamples([[0.0]], 1.0))
    with pytest.raises(ValueError, match="teacher: it believes about 1 inputs, found 2"):
        distil(models()[0], [[0.0], [1.0]], belief)


# Soft labels.


def test_the_loss_of_a_soft_label_is_a_divergence():
    labels = np.array([[0.2, 0.8], [1.0, 0.0]])
    kind = outputs_for_labels(labels)
    assert isinstance(kind, SoftClasses)
    outputs = torch.tensor([[0.3, -0.4], [1.0, 2.0]])
    found = kind.loss(outputs, kind.targets(labels, CPU))
    log_q = outputs.log_softmax(-1)
    p = torch.tensor(labels).float()
    expected = torch.stack(
        [sum(a * (a.log() - b) for a, b in zip(*row, strict=True) if a > 0) for row in zip(p, log_q, strict=True)]
    )
    torch.testing.assert_close(found, expected)
    even = torch.tensor(labels).float().log()
    assert float(kind.loss(even[:1], kind.targets(labels[:1], CPU))) == pytest.approx(0.0, abs=1e-6)


def test_hard_labels_as_probabilities_teach_the_same():
    examples = blobs(24)
    soft = Examples(examples.inputs, np.eye(3)[examples.labels])
    pair = Ensemble(
        mlp(2, 3), members=2, training=Training(max_epochs=30, patience=30, epoch_samples=256), device="cpu"
    )
    found = [pair.fit(one, blobs(12, seed=5), seed=4).believe(examples.inputs) for one in (examples, soft)]
    torch.testing.assert_close(found[0].log_probs_N_K_C, found[1].log_probs_N_K_C, rtol=1e-3, atol=1e-3)


def test_soft_labels_that_are_none_are_refused():
    with pytest.raises(ValueError, match=r"soft labels are probabilities that sum to 1 \(row 1 sums to 1.1\)"):
        outputs_for_labels(np.array([[0.5, 0.5], [0.5, 0.6]]))
    with pytest.raises(ValueError, match="soft labels are probabilities"):
        outputs_for_labels(np.array([[1.5, -0.5]]))
    with pytest.raises(ValueError, match="the network has 3 outputs, found soft labels of shape"):
        models()[0].fit(Examples(np.eye(2), np.full((2, 2), 0.5)))


# JEPIG from a model and its students.


def random_belief(seed, students=2, points=5):
    teacher = CategoricalSamples(random_draws(seed, points, 4, 3, weighted=False)[0])
    others = [CategoricalSamples(random_draws(seed + 1 + s, points, 6, 3, weighted=False)[0]) for s in range(students)]
    return teacher, others, TwoModels.of(teacher, others)


def test_the_score_is_bald_less_the_students():
    teacher, others, belief = random_belief(0)
    found = score(Method(TaughtJEPIG(), TopK()), belief)
    expected = score("bald", teacher) - (score("bald", others[0]) + score("bald", others[1])) / 2
    torch.testing.assert_close(found, expected)
    agreed = CategoricalSamples(others[0].log_probs_N_K_C[:, :1].expand(-1, 6, -1))
    for student, expected in ((teacher, torch.zeros(5).double()), (agreed, score("bald", teacher))):
        found = score(Method(TaughtJEPIG(), TopK()), TwoModels.of(teacher, [student]))
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_a_batch_is_a_difference_of_batchbalds():
    teacher, others, belief = random_belief(3)
    state = read(TaughtJEPIG(), belief, Context(None, None, torch.Generator()))

    def batchbald(one, positions):
        return read_value(one, positions)

    taken = []
    for position in (4, 0, 2):
        gains = state.gains(torch.arange(5))
        taken.append(position)
        worth = state.value(torch.tensor(taken))
        expected = batchbald(teacher, taken) - sum(batchbald(one, taken) for one in others) / 2
        assert worth == pytest.approx(expected, abs=1e-9)
        assert state.add(position) == pytest.approx(float(gains[position]))
        assert state.total == pytest.approx(worth, abs=1e-9)
        assert state.exact


def read_value(belief, positions):
    """BatchBALD by enumeration."""
    weights, probs = belief.log_weights_K.exp(), belief.log_probs_N_K_C.exp()
    joint = noise = 0.0
    for labels in itertools.product(range(3), repeat=len(positions)):
        each = torch.stack([probs[p, :, y] for p, y in zip(positions, labels, strict=True)]).prod(0)
        mean = (weights * each).sum()
        joint -= float(torch.xlogy(mean, mean))
        noise -= float((weights * torch.xlogy(each, each)).sum())
    return joint - noise


def test_greedy_takes_the_largest_difference_first():
    _, _, belief = random_belief(5, points=8)
    found = select(Method(TaughtJEPIG(), Greedy()), belief, 3)
    assert found.ids[0] == int(score(Method(TaughtJEPIG(), TopK()), belief).argmax())
    best = max(range(8), key=lambda p: -1e9 if p == found.ids[0] else read_pair(belief, found.ids[0], p))
    assert found.ids[1] == best


def read_pair(belief, first, second):
    pair = [int(first), int(second)]
    return read_value(belief.teacher, pair) - sum(read_value(one, pair) for one in belief.students) / 2


def test_beliefs_of_two_models_are_sliced_named_and_checked():
    teacher, others, belief = random_belief(1)
    part = belief.with_ids([5, 6, 7, 8, 9])[[3, 1]]
    assert part.ids.tolist() == [8, 6]
    assert part.teacher.log_probs_N_K_C.equal(teacher.log_probs_N_K_C[[3, 1]])
    assert part.students[1].log_probs_N_K_C.equal(others[1].log_probs_N_K_C[[3, 1]])
    with pytest.raises(ValueError, match="students_N_S_L_C: expected"):
        TwoModels(teacher.log_probs_N_K_C, others[0].log_probs_N_K_C)
    with pytest.raises(ValueError, match="found no student"):
        TwoModels(teacher.log_probs_N_K_C, torch.zeros(5, 0, 4, 3))
    with pytest.raises(ValueError, match="rows must sum to 1"):
        TwoModels(teacher.log_probs_N_K_C, torch.zeros(5, 1, 4, 3))
    with pytest.raises(ValueError, match="expected beliefs of one shape"):
        TwoModels.of(teacher, [others[0], teacher])
    for wrong in ({"by": "luck"}, {"students": 0}):
        with pytest.raises(ValueError, match="expected"):
            TaughtJEPIG(**wrong)


# In the loop.


def test_made_up_labels_are_drawn_jointly_and_by_their_chances():
    torn = CategoricalSamples.from_probs([[[1.0, 0.0], [0.0, 1.0]]] * 6, np.log([0.25, 0.75]))
    draws = np.array([pseudo_labels(torn, seed) for seed in range(400)])
    assert (draws == draws[:, :1]).all(), "one draw of the parameters labels all"
    assert draws[:, 0].mean() == pytest.approx(0.75, abs=0.08)
    noisy = CategoricalSamples.from_probs([[[0.2, 0.3, 0.5]]] * 3000)
    shares = np.bincount(pseudo_labels(noisy, 0), minlength=3) / 3000
    np.testing.assert_allclose(shares, [0.2, 0.3, 0.5], atol=0.03)


def test_more_examples_go_beside_hard_and_soft_labels():
    soft = Examples([[0.0]], np.array([[0.5, 0.5]]))
    assert extended(soft, [[1.0]], np.array([1])).labels.tolist() == [[0.5, 0.5], [0.0, 1.0]]


@pytest.mark.parametrize(
    ("objective", "search"),
    [
        (TaughtJEPIG(), TopK()),
        (TaughtJEPIG("retrain", students=2), Greedy()),
        pytest.param(TaughtJEPIG(), Greedy(), marks=pytest.mark.slow),
        pytest.param(TaughtJEPIG("retrain", students=2), TopK(), marks=pytest.mark.slow),
    ],
)
def test_learners_ask_by_students_and_go_on_alike_after_a_kill(tmp_path, objective, search):
    def life(store, budget):
        model = Dropout(mlp(2, 3), draws=6, training=QUICK, device="cpu")
        targets = TargetInputs("pool", class_prior=[0.5, 0.5, 0.0], count=12)
        with ActiveLearner(model, pool(), Method(objective, search), k=2, store=store, targets=targets) as one:
            one.run(budget)
            return [(ask.number, ask.picks) for r in one.history for ask in r.asks], one.labelled_ids.tolist()

    whole = life(tmp_path / "whole.db", 6)
    for budget in (2, 4, 6):
        found = life(tmp_path / "cut.db", budget)
    assert found == whole
    assert found[0][-1][1][0].epistemic is not None, "what the model itself believes is kept"


def test_retraining_serves_any_model_and_distillation_says_what_it_needs():
    retrain, by_distilling = (Method(TaughtJEPIG(by), TopK()) for by in ("retrain", "distil"))
    one = ActiveLearner(Committee(), pool(), retrain, k=3, targets=blobs(9, seed=2).inputs)
    one.run(9)
    fits = one.model.fits
    assert len(fits[-2][0]) == len(fits[-3][0]) + 9, "a student knows nine more labels than the model"
    other = ActiveLearner(Committee(), pool(), by_distilling, k=3, targets="pool")
    with pytest.raises(ValueError, match="Committee cannot learn soft labels"):
        other.run(9)
    with pytest.raises(ValueError, match="targets: unnamed asks what is learned about targets"):
        ActiveLearner(Committee(), pool(), retrain)


def test_an_explanation_is_about_the_model():
    one = ActiveLearner(Committee(), pool(), Method(TaughtJEPIG("retrain"), TopK()), k=3, targets="pool")
    one.tell(list(range(6)), one.pool.answers(list(range(6))))
    assert len(one.ask().explain().picks) == 3
