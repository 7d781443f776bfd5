"""Students for JEPIG: models taught what the targets would teach, by self-distillation or from made-up labels.

    distil     one student learns the model's mean predictions on training inputs and targets
    retrain    S students learn the labels and labels of the targets drawn jointly: k ~ w, then y*_j ~ p(·|x*_j, ω_k)

What a point tells the model and no longer tells a student is what it tells about the targets.  Spec 06, A4 and A6.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from natsel.beliefs import Belief, CategoricalSamples
from natsel.beliefs.two_models import TwoModels
from natsel.data.examples import Examples
from natsel.data.labels import as_numpy
from natsel.models.networks.distil import distil
from natsel.objectives.jepig import TaughtJEPIG
from natsel.seeds import derive

if TYPE_CHECKING:
    from natsel.learning.fitting import Fitting

Array = np.ndarray[Any, Any]


def taught(
    objective: TaughtJEPIG, fitting: "Fitting", labelled: Examples, inputs: Any, targets: Any, seed: int
) -> TwoModels:
    """What the fitted model and students that know the targets believe about inputs."""
    ours = classes_only(fitting.believe(inputs))
    students = []
    for number in range(objective.students):
        lesson = derive(seed, "student", number)
        if objective.by == "distil":
            rows = np.concatenate([as_numpy(labelled.inputs[:]), as_numpy(targets[:])])
            student: Any = distil(fitting.model, rows, fitting.believe(rows), seed=lesson)  # type: ignore[arg-type]
        else:
            theirs = classes_only(fitting.believe(targets))
            labels_M = pseudo_labels(theirs, derive(seed, "labels", number))
            student = fitting.another(extended(labelled, targets, labels_M), lesson)
        students.append(classes_only(student.believe(inputs)))
    return TwoModels.of(ours, students)


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
    """The labelled examples and more beside them.

    >>> extended(Examples([[0.0]], [1]), [[1.0]], np.array([0])).labels.tolist()
    [1, 0]
    """
    rows, known = np.concatenate([as_numpy(labelled.inputs[:]), as_numpy(inputs[:])]), np.asarray(labelled.labels)
    more = labels if known.ndim == 1 else np.eye(known.shape[1])[labels]
    return Examples(rows, np.concatenate([known, more]), labelled.classes)


def classes_only(belief: Belief) -> CategoricalSamples:
    """A belief about classes, and nothing else."""
    if not isinstance(belief, CategoricalSamples):
        raise ValueError(
            f"method: JEPIG by students compares beliefs about classes, found {type(belief).__name__}; use jepig"
        )
    return belief
