"""Segmentation: classes of pixels, and whether a model is uncertain where it is wrong.

Images are cut into windows of w × w pixels (smaller at the right and lower border). A patch is accurate if more than
half of its pixels are right, and uncertain if the mean uncertainty of its pixels is above a threshold:

    p(accurate | certain)      n_ac / (n_ac + n_ic)
    p(uncertain | inaccurate)  n_iu / (n_ic + n_iu)
    PAvPU                      (n_ac + n_iu) / all        patch accuracy versus patch uncertainty (Mukhoti & Gal 2018)

nan where nothing was counted.

    IoU of class c             |predicted c and labelled c| / |predicted c or labelled c|, over all pixels of all images

QUBIQ judges uncertainty by several annotators: with u in [0, ½] the soft mask is u where the prediction is 0 and 1 − u
where it is 1, the truth is the mean of the annotators' masks, and both are cut at 0.1, 0.2 … 0.9 and compared by Dice.
docs/theory/calibration.md, 11.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from natsel.beliefs.arrays import as_tensor


@dataclass(frozen=True)
class PatchCounts:
    """Patches by accurate or inaccurate, certain or uncertain, at one threshold of uncertainty."""

    threshold: float
    accurate_certain: int
    accurate_uncertain: int
    inaccurate_certain: int
    inaccurate_uncertain: int

    @property
    def accurate_if_certain(self) -> float:
        """p(accurate | certain)."""
        return _share(self.accurate_certain, self.inaccurate_certain)

    @property
    def uncertain_if_inaccurate(self) -> float:
        """p(uncertain | inaccurate)."""
        return _share(self.inaccurate_uncertain, self.inaccurate_certain)

    @property
    def pavpu(self) -> float:
        """The share of patches that are accurate and certain, or inaccurate and uncertain."""
        right = self.accurate_certain + self.inaccurate_uncertain
        return _share(right, self.accurate_uncertain + self.inaccurate_certain)


def patch_counts(
    predicted_N_H_W: Any,
    labels_N_H_W: Any,
    uncertainty_N_H_W: Any,
    window: int,
    threshold: float,
    ignored: int | None = None,
) -> PatchCounts:
    """Patches counted at one threshold. Pixels whose label is `ignored` count nowhere.

    >>> patch_counts([[[0, 1]]], [[[0, 0]]], [[[0.1, 0.9]]], window=1, threshold=0.4).pavpu
    1.0
    """
    every = [float(threshold)]
    return patch_sweep(predicted_N_H_W, labels_N_H_W, uncertainty_N_H_W, window, every, ignored)[0]


def patch_sweep(
    predicted_N_H_W: Any,
    labels_N_H_W: Any,
    uncertainty_N_H_W: Any,
    window: int,
    thresholds: Sequence[float] | int = 20,
    ignored: int | None = None,
) -> list[PatchCounts]:
    """Patches counted at several thresholds: those given, or so many from the least to the greatest patch uncertainty.

    >>> [round(one.pavpu, 2) for one in patch_sweep([[[0, 1]]], [[[0, 0]]], [[[0.1, 0.9]]], window=1, thresholds=2)]
    [1.0, 0.5]
    """
    accurate_p, uncertainty_p = _patches(predicted_N_H_W, labels_N_H_W, uncertainty_N_H_W, window, ignored)
    if isinstance(thresholds, int):
        if thresholds < 1:
            raise ValueError(f"thresholds: expected at least one, found {thresholds}; pass a count or a list")
        finite_p = uncertainty_p[uncertainty_p.isfinite()]
        if not len(finite_p):
            raise ValueError("thresholds: no patch has a finite uncertainty to set them by; pass a list")
        least, most = (float(end) for end in finite_p.aminmax())
        thresholds = [float(one) for one in np.linspace(least, most, thresholds)]
    at_t = as_tensor(thresholds, "thresholds").double().to(uncertainty_p.device)
    if at_t.ndim != 1 or bool(at_t.isnan().any()):
        raise ValueError(f"thresholds: expected numbers, found {thresholds}; pass a count or a list")
    counted = []
    for some_p in (uncertainty_p[accurate_p], uncertainty_p[~accurate_p]):
        certain_t = torch.searchsorted(some_p.sort().values, at_t, right=True)  # at most the threshold
        counted += [certain_t.tolist(), (len(some_p) - certain_t).tolist()]
    return [PatchCounts(*row) for row in zip(at_t.tolist(), *counted, strict=True)]


def intersection_over_union(predicted: Any, labels: Any, classes: int, ignored: int | None = None) -> Tensor:
    """IoU of each class over all pixels, as C; nan for a class that is neither predicted nor labelled.

    >>> intersection_over_union([0, 0, 1], [0, 1, 1], classes=3)
    tensor([0.5000, 0.5000,    nan], dtype=torch.float64)
    """
    predicted, labels = as_tensor(predicted, "predicted"), as_tensor(labels, "labels")
    if predicted.shape != labels.shape:
        found = f"{list(predicted.shape)} and {list(labels.shape)}"
        raise ValueError(f"predicted: expected a class for each label, found shapes {found}; pass one per pixel")
    kept = torch.ones_like(labels, dtype=torch.bool) if ignored is None else labels != ignored
    if not bool(kept.any()):
        raise ValueError("labels: found no pixel that counts; pass some with a class")
    for name, some in (("predicted", predicted[kept.to(predicted.device)]), ("labels", labels[kept])):
        if bool((some != some.round()).any()):  # NaN too
            raise ValueError(f"{name}: expected class numbers, found fractions or NaN; pass whole numbers from 0")
        if not 0 <= int(some.min()) <= int(some.max()) < classes:
            found = f"{int(some.min())} to {int(some.max())}"
            raise ValueError(f"{name}: classes run from 0 to {classes - 1}, found {found}; name others as ignored")
    predicted_n, labels_n = predicted[kept.to(predicted.device)].long(), labels[kept].to(predicted.device).long()
    both_C = torch.bincount(labels_n[predicted_n == labels_n], minlength=classes)
    either_C = torch.bincount(predicted_n, minlength=classes) + torch.bincount(labels_n, minlength=classes) - both_C
    return both_C.double() / either_C


def mean_iou(predicted: Any, labels: Any, classes: int, ignored: int | None = None) -> float:
    """The mean of IoU over the classes that are predicted or labelled.

    >>> mean_iou([0, 0, 1], [0, 1, 1], classes=3)
    0.5
    """
    return float(intersection_over_union(predicted, labels, classes, ignored).nanmean())


def soft_mask(predicted: Any, uncertainty: Any) -> Tensor:
    """u where a binary prediction is 0, and 1 − u where it is 1; u between 0 (sure) and ½.

    >>> soft_mask([0, 1], [0.2, 0.2])
    tensor([0.2000, 0.8000], dtype=torch.float64)
    """
    predicted, uncertainty = as_tensor(predicted, "predicted"), as_tensor(uncertainty, "uncertainty").double()
    if predicted.shape != uncertainty.shape or not bool(((uncertainty >= 0) & (uncertainty <= 0.5)).all()):
        raise ValueError("uncertainty: expected one number from 0 to 0.5 for each pixel; scale it to that range")
    if not bool(((predicted == 0) | (predicted == 1)).all()):
        raise ValueError("predicted: expected 0 or 1 for each pixel; pass a binary mask")
    return torch.where(predicted.bool().to(uncertainty.device), 1 - uncertainty, uncertainty)


def qubiq_score(
    mask: Any, truth: Any, thresholds: Sequence[float] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
) -> float:
    """The mean over thresholds of Dice, 2|A∩B| / (|A| + |B|), of soft mask and truth, both cut at the threshold (≥).

    1 where both are empty. For several images take the mean.

    >>> round(qubiq_score([0.2, 0.8], [0.0, 1.0]), 4)  # 2/3 at 0.1 and 0.2, 0 at 0.9, else 1
    0.8148
    """
    mask, truth = as_tensor(mask, "mask").double(), as_tensor(truth, "truth").double()
    if mask.shape != truth.shape or not len(thresholds):
        found = f"{list(mask.shape)} and {list(truth.shape)}"
        raise ValueError(f"mask: expected one number for each of truth, found shapes {found}; pass two equal shapes")
    scores = []
    for threshold in thresholds:
        said, seen = mask >= threshold, truth >= threshold
        size = int(said.sum() + seen.sum())
        scores.append(2 * int((said & seen).sum()) / size if size else 1.0)
    return sum(scores) / len(scores)


def _patches(predicted: Any, labels: Any, uncertainty: Any, window: int, ignored: int | None) -> tuple[Tensor, Tensor]:
    """Whether each patch is accurate, and its mean uncertainty; patches without a pixel that counts are left out."""
    predicted, labels = as_tensor(predicted, "predicted_N_H_W"), as_tensor(labels, "labels_N_H_W")
    uncertainty_N_H_W = as_tensor(uncertainty, "uncertainty_N_H_W").double()
    shapes = [list(some.shape) for some in (predicted, labels, uncertainty_N_H_W)]
    if uncertainty_N_H_W.ndim != 3 or shapes[0] != shapes[2] or shapes[1] != shapes[2] or not predicted.numel():
        raise ValueError(
            f"labels_N_H_W: expected images × height × width three times, found shapes {shapes}; pass them alike"
        )
    if not isinstance(window, int) or window < 1:
        raise ValueError(f"window: expected a whole number of pixels, found {window!r}; pass at least 1")
    device = uncertainty_N_H_W.device
    predicted, labels = predicted.to(device), labels.to(device)
    kept_N_H_W = torch.ones_like(labels, dtype=torch.bool) if ignored is None else labels != ignored

    def sums(values_N_H_W: Tensor) -> Tensor:
        pooled: Tensor = torch.nn.functional.avg_pool2d(
            values_N_H_W.double()[:, None], window, ceil_mode=True, divisor_override=1
        )
        return pooled.flatten()

    pixels_p = sums(kept_N_H_W)
    right_p = sums(kept_N_H_W & (predicted == labels))
    uncertainty_p = sums(uncertainty_N_H_W.masked_fill(~kept_N_H_W, 0.0))
    some_p = pixels_p > 0
    if not bool(some_p.any()):
        raise ValueError("labels_N_H_W: every pixel is ignored; pass some that count")
    if bool(uncertainty_p.isnan().any()):
        raise ValueError("uncertainty_N_H_W: a patch holds NaN, or both infinities; look for a diverged model")
    return (2 * right_p > pixels_p)[some_p], (uncertainty_p / pixels_p)[some_p]


def _share(some: int, others: int) -> float:
    return some / (some + others) if some + others else float("nan")
