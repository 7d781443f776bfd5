"""Students for JEPIG: models that are taught what labels of the targets would teach, and believe beside their teacher.

    distil     one student learns the model's mean predictions p̄ on training inputs and targets:
                   minimise  (1/n) Σ_x KL( p̄(·|x) ‖ p(·|x,ω) )     for every draw ω of the student
    retrain    S students learn the labels, and labels of the targets drawn jointly: k ~ w, then y*_j ~ p(·|x*_j, ω_k)

    JEPIG(x) ≈ I[Y; Ω | x] − (1/S) Σ_s I[Y; Ω_s | x]

What a point tells the model and no longer tells a student is what it tells about the targets. In self-distillation each
draw of the student is pulled to the teacher's mean, not only their mean: the student keeps the predictions where it was
taught and loses the disagreement there. Predictions are neither sharpened nor filtered.
docs/theory/epig-jepig.md, 7.2; Kirsch, Rainforth & Gal 2021.
"""

import copy
from typing import Any

import numpy as np

from natsel.beliefs import Belief, CategoricalSamples, ClassProbabilities, seen_as
from natsel.beliefs.two_models import TwoModels
from natsel.data.examples import Examples
from natsel.data.frames import joined
from natsel.data.labels import as_numpy
from natsel.learning.fitted_model import FittedModel
from natsel.models.dropout.dropout import Dropout
from natsel.models.networks.ensemble import Ensemble
from natsel.objectives.objective import Teaching
from natsel.seeds import derive

Array = np.ndarray[Any, Any]


def believe_with_students(teaching: Teaching, fitted: FittedModel, inputs: Any, targets: Any, seed: int) -> TwoModels:
    """What the fitted model, and students that were taught the targets, believe about inputs."""
    labelled = fitted.labelled
    if labelled is None:
        raise ValueError("model: it has not been fitted to any labels yet; tell some first")
    ours = about_classes(fitted.believe(inputs))
    students = []
    for number in range(teaching.students):
        lesson = derive(seed, "student", number)
        if teaching.by == "distil":
            rows = joined(labelled.inputs, targets)
            student: Any = distil(fitted.model, rows, fitted.believe(rows), seed=lesson)
        else:
            labels_M = pseudo_labels(about_classes(fitted.believe(targets)), derive(seed, "labels", number))
            student = fitted.fit_copy(extended(labelled, targets, labels_M), lesson)
        students.append(about_classes(student.believe(inputs)))
    return TwoModels.of(ours, students)


def distil(model: Any, inputs: Any, teacher: Belief, *, seed: int = 0) -> Dropout | Ensemble:
    """A fresh student of the model's kind, taught the teacher's mean predictions on inputs; the model is left alone.

    >>> from natsel.models import Training, mlp
    >>> model = Dropout(mlp(2, 2), draws=4, training=Training(max_epochs=3), device="cpu")
    >>> model = model.fit(Examples(np.eye(2, dtype=np.float32), np.array([0, 1])))
    >>> student = distil(model, np.eye(2), model.believe(np.eye(2)))
    >>> student.believe(np.eye(2)).shape, student is model
    ((2, 4, 2), False)
    """
    if not isinstance(model, Dropout | Ensemble):
        raise ValueError(
            f"model: {type(model).__name__} cannot learn soft labels; use natsel.models.Dropout or Ensemble, or"
            " retrain on pseudo-labels"
        )
    if len(teacher) != len(inputs):
        raise ValueError(f"teacher: it believes about {len(teacher)} inputs, found {len(inputs)}; pass those")
    student = copy.copy(model)
    return student.fit(Examples(as_numpy(inputs[:]), soft_labels(teacher)), seed=seed)


def soft_labels(teacher: Belief) -> Array:
    """The mean predictions of a belief as rows of probabilities, [N, C] in float64.

    >>> soft_labels(CategoricalSamples.from_probs([[[1.0, 0.0], [0.0, 1.0]]])).tolist()
    [[0.5, 0.5]]
    """
    seen = seen_as(teacher, ClassProbabilities)
    if seen is None:
        raise ValueError(f"teacher: expected a belief about classes, found {type(teacher).__name__}; pass one")
    soft_N_C = seen.log_probs_N_C.exp().double().cpu().numpy()
    found: Array = soft_N_C / soft_N_C.sum(1, keepdims=True)
    return found


def pseudo_labels(belief: CategoricalSamples, seed: int) -> Array:
    """Labels of all points drawn jointly: one draw of the parameters, then a label for each point from it.

    >>> sure = CategoricalSamples.from_probs([[[1.0, 0.0], [0.0, 1.0]]] * 3)
    >>> len(set(pseudo_labels(sure, seed=0).tolist()))
    1
    """
    rng = np.random.default_rng(seed)
    weights_K = belief.log_weights_K.exp().cpu().numpy()
    draw = rng.choice(len(weights_K), p=weights_K / weights_K.sum())
    probs_N_C = belief.log_probs_N_K_C[:, draw].double().exp().cpu().numpy()
    edges_N_C = np.cumsum(probs_N_C / probs_N_C.sum(1, keepdims=True), axis=1)
    labels_N: Array = (rng.random((len(belief), 1)) >= edges_N_C[:, :-1]).sum(1)
    return labels_N


def extended(labelled: Examples, inputs: Any, labels: Array) -> Examples:
    """The labelled examples, and further inputs with their labels after them.

    >>> extended(Examples([[0.0]], [1]), [[1.0]], np.array([0])).labels.tolist()
    [1, 0]
    """
    rows, known = joined(labelled.inputs, inputs), np.asarray(labelled.labels)
    more = labels if known.ndim == 1 else np.eye(known.shape[1])[labels]
    return Examples(rows, np.concatenate([known, more]), labelled.classes)


def about_classes(belief: Belief) -> CategoricalSamples:
    """A belief about classes; any other is refused."""
    seen = seen_as(belief, CategoricalSamples)
    if seen is None:
        raise ValueError(
            f"method: JEPIG by students compares beliefs about classes, found {type(belief).__name__}; use jepig"
        )
    return seen
