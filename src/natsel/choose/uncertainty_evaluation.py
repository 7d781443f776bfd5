"""How good predictions are, and how good the uncertainty that stands beside them is.

    labels known      accuracy, log loss, Brier score, calibration errors; how far the error is from the one predicted
    draws             entropy of the mean prediction, mutual information, disagreement, the error of each member
    by each score     the error on the points that the score finds most certain, and on ever more of them
    inputs elsewhere  whether the score tells them from the inputs of the belief: AUROC, AUPR, FPR95

Scores are those that can be read from the belief: entropy and mutual information ("bald"), of densities also density,
energy and max-logit, of numbers the variance.  docs/theory/calibration.md; docs/theory/deterministic-uncertainty.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from natsel import evaluation as measure
from natsel.beliefs import Belief, CategoricalSamples, ClassProbabilities, IndependentSamples, seen_as
from natsel.beliefs.arrays import ArrayLike, Labels, as_tensor
from natsel.choose.methods import resolve
from natsel.choose.select import score
from natsel.evaluation import CalibrationError, RejectionCurve, Reliability
from natsel.evaluation.calibration import Kind
from natsel.evaluation.of_belief import evaluate, with_classes_of
from natsel.information.class_labels import class_labels
from natsel.objectives import route

KINDS: tuple[Kind, ...] = ("ece", "ace", "cace", "cwce", "sce", "tace")
_SCORES = {True: ("entropy", "bald", "density", "energy", "max-logit"), False: ("variance", "bald")}
"""Methods whose scores are looked at where labels are classes, and where they are numbers."""

MEANING = {
    "accuracy": "how often the most probable class is right",
    "nll": "negative log likelihood of labels, in nats",
    "brier": "squared distance from the labels, 0 to 2",
    "ece": "calibration of the most probable class",
    "balanced accuracy": "the mean of accuracy over classes",
    "average precision": "mean precision in finding the rarer class",
    "ace": "calibration by class, bins of equal mass",
    "cace": "calibration of all classes together",
    "cwce": "calibration by class",
    "sce": "as cace, per class and point with p > 0",
    "tace": "as ace, probabilities above 0.01",
    "sampling error": "an answer drawn by its probability is wrong",
    "predicted error": "what the model expects of that",
    "gap": "distance of these two",
    "gap bound": "what the gap is at most, by cace",
    "predicted top-1 error": "1 - mean of the largest probability",
    "atc error": "top-1 error expected from held-out points",
    "entropy": "of the prediction, mean, in nats",
    "mutual information": "of label and draws, mean, in nats",
    "disagreement": "answers of two different draws differ",
    "member error": "top-1 error of a draw, mean over draws",
    "share unfamiliar": "points below the density limit",
}
"""What the metrics of classes are, in a few words."""


@dataclass(frozen=True)
class Detection:
    """How well a score tells inputs from elsewhere; `low` and `high` are the 95 % interval of the AUROC."""

    auroc: float
    aupr: float
    fpr95: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class UncertaintyEvaluation:
    """What was found: metrics by name, the reliability diagram, and by score rejection curves and detection.

    `error` names the metric of rejection curves: "error" of classes, "rmse" of numbers. `member_errors_K` are the
    top-1 errors of the draws.
    """

    points: int
    outside_points: int
    bins: int
    error: str
    metrics: Mapping[str, float]
    reliability: Reliability | None
    rejection: Mapping[str, RejectionCurve]
    detection: Mapping[str, Detection]
    member_errors_K: tuple[float, ...] = ()
    warnings: tuple[str, ...] = ()

    def score_rows(self) -> list[dict[str, float | str | None]]:
        """A row per score: the mean height of its rejection curve, the error on the surer half, and its detection."""
        rows: list[dict[str, float | str | None]] = []
        for name in dict.fromkeys((*self.rejection, *self.detection)):
            row: dict[str, float | str | None] = {"score": name}
            if name in self.rejection:
                curve = self.rejection[name]
                half = int(np.argmin(np.abs(curve.shares - 0.5)))
                area = curve.area(self.error)
                row[f"{self.error}, half kept"] = float(curve.values[self.error][half])
                row[f"{self.error}, mean"] = None if np.isnan(area) else area
            if name in self.detection:
                found = self.detection[name]
                row |= {"AUROC": found.auroc, "AUPR": found.aupr, "FPR95": found.fpr95}
            rows.append(row)
        return rows

    def as_dict(self) -> dict[str, Any]:
        """All of it as JSON takes it."""
        lines = self.reliability
        return {
            "points": self.points,
            "outside_points": self.outside_points,
            "bins": self.bins,
            "metrics": dict(self.metrics),
            "member_errors": list(self.member_errors_K),
            "reliability": None
            if lines is None
            else {
                name: [None if value != value else value for value in getattr(lines, name).tolist()]  # JSON has no nan
                for name in ("edges", "counts", "confidence", "accuracy")
            },
            "rejection": {
                name: {"shares": curve.shares.tolist(), self.error: curve.values[self.error].tolist()}
                for name, curve in self.rejection.items()
            },
            "detection": {name: vars(found).copy() for name, found in self.detection.items()},
            "warnings": list(self.warnings),
        }

    def __str__(self) -> str:
        lines = [f"{self.points:,} points", *(f"{name:22s} {value:.4f}" for name, value in self.metrics.items())]
        for row in self.score_rows():
            told = [f"{name} {value:.4f}" for name, value in row.items() if isinstance(value, float)]
            lines.append(f"{row['score']}: {', '.join(told)}")
        return "\n".join((*lines, *(f"! {warning}" for warning in self.warnings)))


def evaluate_uncertainty(
    belief: Belief,
    labels: Labels | None = None,
    *,
    outside: Belief | None = None,
    held_out: tuple[Belief, ArrayLike] | None = None,
    bins: int = 15,
) -> UncertaintyEvaluation:
    """How good the predictions of a belief are, and how good its uncertainty is, by all that can be computed.

    `outside` is the belief of the same model about inputs from elsewhere, which scores should find more uncertain.
    `held_out`, a belief about other ordinary inputs and their labels, gives an estimate of the error that needs no
    labels of these points (ATC). Without `labels` what needs them is left out.

    >>> from natsel.beliefs import ClassProbabilities
    >>> inside = ClassProbabilities.from_probs([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]])
    >>> outside = ClassProbabilities.from_probs([[0.5, 0.5], [0.55, 0.45]])
    >>> found = evaluate_uncertainty(inside, [0, 1, 1], outside=outside)
    >>> round(found.metrics["ece"], 6), found.detection["entropy"].auroc
    (0.4, 1.0)
    """
    if not isinstance(belief, Belief):
        raise ValueError(
            f"belief: expected a belief, found {type(belief).__name__}; wrap probabilities as"
            " natsel.CategoricalSamples.from_probs(probs_N_K_C)"
        )
    if len(belief) == 0:
        raise ValueError("belief: found no points; pass at least one")
    classes = seen_as(belief, ClassProbabilities)
    if labels is not None:
        labels = belief.in_order(labels)
        _check_labels(labels, len(belief), "labels")
    scores = _scores(belief, classes is not None)
    detection = {} if outside is None else _detection(belief, scores, outside, classes is not None)
    metrics = {} if labels is None else evaluate(belief, labels, details=True)
    if labels is not None and not metrics:
        raise ValueError(f"belief: {type(belief).__name__} predicts no labels; evaluate a belief that does")
    error_N: np.ndarray[Any, Any] | None = None
    reliability: Reliability | None = None
    member_errors_K: tuple[float, ...] = ()
    if classes is None:
        if held_out is not None:
            raise ValueError("held_out: it is for class predictions, and this belief is about numbers; leave it out")
        error_N = None if labels is None else (belief.mean.cpu().numpy() - np.asarray(labels, dtype=np.float64)) ** 2
    else:
        log_probs_N_C = classes.log_probs_N_C if labels is None else with_classes_of(labels, classes.log_probs_N_C)
        probs_N_C = log_probs_N_C.double().softmax(-1)
        if labels is not None:
            labels_N = as_tensor(labels, "labels").to(probs_N_C.device).long()
            metrics |= {kind: _error(probs_N_C, labels_N, kind, bins).value for kind in KINDS}
            gap = measure.disagreement_gap(probs_N_C, labels_N, bins)
            metrics |= {"sampling error": gap.sampling_error, "predicted error": gap.predicted_error}
            metrics |= {"gap": gap.gap, "gap bound": gap.bound}
            reliability = measure.reliability(probs_N_C, labels_N, bins)
            error_N = (probs_N_C.argmax(-1) != labels_N).double().cpu().numpy()
            member_errors_K = _member_errors(belief, labels_N)
        else:
            metrics["predicted error"] = measure.predicted_error(probs_N_C)
        metrics["predicted top-1 error"] = float(measure.doctor_beta(probs_N_C).mean())
        if held_out is not None:
            if not isinstance(held_out, tuple | list) or len(held_out) != 2 or not isinstance(held_out[0], Belief):
                raise ValueError(
                    f"held_out: expected a belief and its labels, found {type(held_out).__name__}; pass both"
                )
            metrics["atc error"] = _atc(probs_N_C, *held_out)
        metrics |= _of_draws(belief, scores, member_errors_K)
    rejection = (
        {} if error_N is None else {name: _rejection(score_N, error_N, classes) for name, score_N in scores.items()}
    )
    return UncertaintyEvaluation(
        points=len(belief),
        outside_points=0 if outside is None else len(outside),
        bins=bins,
        error="rmse" if classes is None else "error",
        metrics=metrics,
        reliability=reliability,
        rejection=rejection,
        detection=detection,
        member_errors_K=member_errors_K,
        warnings=(*belief.warnings, *_unknown_classes(labels, classes)),
    )


def _check_labels(labels: ArrayLike, points: int, name: str) -> None:
    """Refuse what is not one number per point."""
    found = np.asarray(labels)
    if found.dtype.kind not in "iufb":
        raise ValueError(f"{name}: expected class numbers, found {found.dtype}; number the classes from 0")
    if found.shape != (points,):
        raise ValueError(f"{name}: expected one for each of {points} points, found shape {found.shape}; pass all")


def _unknown_classes(labels: ArrayLike | None, classes: ClassProbabilities | None) -> tuple[str, ...]:
    """A warning where labels are classes that the belief does not have: they count as wrong, or are numbered from 1."""
    if labels is None or classes is None:
        return ()
    known = classes.log_probs_N_C.shape[1]
    unknown = int((np.asarray(labels) >= known).sum())
    if not unknown:
        return ()
    return (
        f"labels: {unknown} of {len(classes)} points have a class above {known - 1}, the last that the belief has, and"
        " count as wrong; if classes are numbered from 1, number them from 0",
    )


def _scores(belief: Belief, classes: bool) -> dict[str, Tensor]:
    """Every score that can be read from a belief, bigger for less certain points; none that is the same for all."""
    found = {}
    for name in _SCORES[classes]:
        if route(type(resolve(name).objective), type(belief)) is not None and (name != "bald" or belief.n_draws != 1):
            found[name] = score(name, belief)
    return found


def _detection(belief: Belief, scores: Mapping[str, Tensor], outside: Belief, classes: bool) -> dict[str, Detection]:
    if type(outside) is not type(belief):
        found = f"{type(outside).__name__} beside {type(belief).__name__}"
        raise ValueError(f"outside: found {found}; pass what the same model says about inputs from elsewhere")
    if belief.draws_id is not None and outside.draws_id not in (None, belief.draws_id):
        raise ValueError("outside: it comes from another fit than belief; let the same model speak about both")
    if len(outside) == 0:
        raise ValueError("outside: found no points; pass at least one")
    known = {}
    for name, outside_M in _scores(outside, classes).items():
        if name in scores:
            sides = (scores[name], outside_M)
            area = measure.auroc(*sides)
            enough = min(len(belief), len(outside)) > 1
            low, high = vars(measure.auroc_interval(*sides)).values() if enough else (0.0, 1.0)
            known[name] = Detection(area, measure.aupr(*sides), measure.fpr95(*sides), low, high)
    return known


def _error(probs_N_C: Tensor, labels_N: Tensor, kind: Kind, bins: int) -> CalibrationError:
    return measure.calibration_error(probs_N_C, labels_N, kind, bins)


def _rejection(score_N: Tensor, error_N: np.ndarray[Any, Any], classes: Belief | None) -> RejectionCurve:
    """The share of wrong predictions, or of numbers the root of the mean squared error, on ever more points."""
    if classes is None:
        return measure.rejection_curve(score_N, {"rmse": lambda kept: float(np.sqrt(error_N[kept].mean()))})
    return measure.rejection_curve(score_N, {"error": lambda kept: float(error_N[kept].mean())})


def _draws(belief: Belief) -> CategoricalSamples | IndependentSamples | None:
    """The draws that a belief is made of; None for one draw, one with all the weight, or none."""
    draws = seen_as(belief, CategoricalSamples) or seen_as(belief, IndependentSamples)
    if draws is None or draws.n_draws < 2:
        return None
    log_weights_K = getattr(draws, "log_weights_K", None)
    return draws if log_weights_K is None or float(log_weights_K.exp().square().sum()) < 1 - 1e-12 else None


def _member_errors(belief: Belief, labels_N: Tensor) -> tuple[float, ...]:
    draws = _draws(belief)
    if draws is None:
        return ()
    wrong_N_K = draws.log_probs_N_K_C.argmax(-1) != labels_N[:, None].to(draws.device)
    return tuple(wrong_N_K.double().mean(0).tolist())


def _of_draws(belief: Belief, scores: Mapping[str, Tensor], member_errors_K: tuple[float, ...]) -> dict[str, float]:
    """Means over points of what needs no labels, and over draws of the errors of members."""
    found = {"entropy": float(scores["entropy"].mean())} if "entropy" in scores else {}
    if "bald" in scores:
        found["mutual information"] = float(scores["bald"].mean())
    draws = _draws(belief)
    if draws is not None:
        log_weights_K = getattr(draws, "log_weights_K", None)  # draws of each point alone weigh alike
        found["disagreement"] = measure.disagreement_error(draws.log_probs_N_K_C, log_weights_K, "U")
        if member_errors_K:
            weights_K = (
                np.full(len(member_errors_K), 1.0) if log_weights_K is None else log_weights_K.exp().cpu().numpy()
            )
            found["member error"] = float(np.average(member_errors_K, weights=weights_K))
    limit = belief.uncertainty_limits[0]
    if limit is not None and "density" in scores:
        found["share unfamiliar"] = float((scores["density"] > limit).double().mean())
    return found


def _atc(probs_N_C: Tensor, other: Belief, labels: ArrayLike) -> float:
    """The top-1 error that the largest probabilities and the errors of held-out points let expect."""
    seen = seen_as(other, ClassProbabilities)
    if seen is None:
        raise ValueError(f"held_out: {type(other).__name__} predicts no classes; pass a belief about classes")
    _check_labels(labels, len(other), "held_out")
    held_M_C = with_classes_of(labels, seen.log_probs_N_C).double().softmax(-1)
    count, known = held_M_C.shape
    labels_M = class_labels(as_tensor(labels, "held_out").to(held_M_C.device), count, known, "held_out")
    right_M = held_M_C.argmax(-1) == labels_M
    threshold = measure.atc_threshold(held_M_C.amax(-1), right_M.double())
    return measure.atc_error(probs_N_C.amax(-1), threshold)
