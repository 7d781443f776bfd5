"""Self-distillation: a student that believes on average what its teacher believes, and no longer disagrees with itself.

    minimise  (1/n) Σ_x KL( p̄_teacher(·|x) ‖ p(·|x,ω) )        for every draw ω of the student: each pass, each member

Each draw is drawn to the teacher's mean, not only their mean: the student keeps the predictions where it was taught and
loses the disagreement there, which is what labels of those inputs would have done. Predictions are neither sharpened
nor filtered. BALD of the teacher less BALD of the student is JEPIG.  Spec 06, A4 and Q5d.
"""

import copy
from typing import Any

import numpy as np

from natsel.beliefs import Belief, CategoricalSamples
from natsel.data.examples import Examples
from natsel.data.labels import as_numpy
from natsel.information import log_mean
from natsel.models.dropout.dropout import Dropout
from natsel.models.networks.ensemble import Ensemble
from natsel.models.protocol import Progress

Array = np.ndarray[Any, Any]


def distil(
    model: Dropout | Ensemble,
    inputs: Any,
    teacher: Belief,
    *,
    labelled: Examples | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Dropout | Ensemble:
    """A fresh student of the model's kind, taught the teacher's mean predictions on inputs; the model is left alone.

    `labelled` are examples whose labels are taught as well, hard: leave them out where `inputs` hold the training
    inputs with the teacher's predictions, as published.

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
    if not isinstance(teacher, CategoricalSamples):
        raise ValueError(f"teacher: expected a belief about classes, found {type(teacher).__name__}")
    if len(teacher) != len(inputs):
        raise ValueError(f"teacher: it believes about {len(teacher)} inputs, found {len(inputs)}; pass those")
    soft_N_C = soft_labels(teacher)
    lessons = Examples(as_numpy(inputs[:]), soft_N_C)
    if labelled is not None and len(labelled):
        hard_B_C = np.eye(soft_N_C.shape[1])[np.asarray(labelled.labels)]
        rows = np.concatenate([as_numpy(labelled.inputs[:]), lessons.inputs])
        lessons = Examples(rows, np.concatenate([hard_B_C, soft_N_C]))
    student = copy.copy(model)
    return student.fit(lessons, seed=seed, progress=progress)


def soft_labels(teacher: CategoricalSamples) -> Array:
    """The mean predictions of a belief as rows of probabilities, [N, C] in float64.

    >>> soft_labels(CategoricalSamples.from_probs([[[1.0, 0.0], [0.0, 1.0]]])).tolist()
    [[0.5, 0.5]]
    """
    soft_N_C = log_mean(teacher.log_probs_N_K_C, teacher.log_weights_K).exp().double().cpu().numpy()
    found: Array = soft_N_C / soft_N_C.sum(1, keepdims=True)
    return found
