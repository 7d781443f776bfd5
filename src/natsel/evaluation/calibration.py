"""Calibration: whether what a model holds probable happens as often as it says.

Every kind sums residuals in bins of the predicted probability p_nk, and adds up what is left in each bin:

    D_b = Σ_{(n,k): p_nk in b} (1[y_n = k] − p_nk)

    ece     1/N Σ_b |D_b|               the most probable class of each point only                   (Guo et al. 2017)
    cace    1/N Σ_b |D_b|               all classes in common bins: class-aggregated                 (Jiang et al. 2022)
    cwce    1/N Σ_k Σ_b |D_kb|          bins of their own for each class: class-wise                 (Kirsch & Gal 2022)
    wcace   1/N Σ_b |Σ p (1[y=k] − p)|  cace with the level p as weight
    sce     1/n Σ_b |D_b|               cace over the n entries with p > 0; cace / C where none is 0 (Nixon et al. 2019)
    ace     1/C Σ_k 1/n_k Σ_b |D_kb|    each class in bins of equal mass                             (Nixon et al. 2019)
    tace    the same for entries with p > threshold                                                  (Nixon et al. 2019)
    rmsce   √ Σ_b n_b/N (D_b/n_b)²      the most probable class, in bins of equal mass           (Hendrycks et al. 2019)
    ecace   1/N Σ_b |D_b|               bins of equal width in −ln p, up to −ln 1e-12 = 27.6 nats    (Kirsch & Gal 2022)

Bins of equal width are (lo, hi] with edges i/B; p = 0 is in the first. Bins of equal mass: the sorted column is cut
into min(B, n_k) groups, the first ones larger by one where it does not come out even, and each entry goes to the first
group whose largest value is not below it, so that equal probabilities are never parted. Of equally probable classes the
first one counts as the most probable. The mean of K one-hot members takes the levels 0, 1/K … 1 only and needs no bins:
`levels=K` groups by level, and the value is exact.

Binning is part of the definition: with one bin cace is 0 for any model, and with ever more bins it tends to
2 (1 − mean p(y)). Compare only numbers of the same kind, bins and binning; and as a sum of absolute noise all of them
are too large for few points.  docs/theory/calibration.md, 3 to 5.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from natsel.evaluation.probability_rows import Floats, labelled_rows
from natsel.memory import rows_per_chunk
from natsel.options import Rows

Kind = Literal["ece", "cace", "cwce", "wcace", "sce", "ace", "tace", "rmsce", "ecace"]

_LEAST = 1e-12
"""What smaller probabilities count as where bins are in nats."""
_THRESHOLD = 0.01
"""Below or at this probability an entry does not count for `tace`."""


@dataclass(frozen=True)
class CalibrationError:
    """A calibration error with what it depends on; `float(error)` is its value.

    Those of another kind or binning cannot be ranked with it.

    >>> coarse, fine = CalibrationError(0.1, "ece", 10, "even", 500), CalibrationError(0.2, "ece", 15, "even", 500)
    >>> coarse < fine
    Traceback (most recent call last):
    ValueError: error: cannot rank ece in 10 bins (even) with ece in 15 bins (even); compute both alike
    """

    value: float
    kind: str
    bins: int
    binning: str
    points: int

    def __float__(self) -> float:
        return self.value

    def __lt__(self, other: "CalibrationError") -> bool:
        mine, theirs = (f"{one.kind} in {one.bins} bins ({one.binning})" for one in (self, other))
        if mine != theirs:
            raise ValueError(f"error: cannot rank {mine} with {theirs}; compute both alike")
        return self.value < other.value


@dataclass(frozen=True, eq=False)
class Reliability:
    """The points of a reliability diagram, one for each bin (edges[b], edges[b + 1]].

    How many predictions it holds, their mean confidence and their accuracy; nan for empty bins.
    """

    edges: Floats
    counts: np.ndarray[Any, np.dtype[np.int64]]
    confidence: Floats
    accuracy: Floats


@dataclass(frozen=True)
class _Preset:
    """What makes one kind of the family."""

    top: bool = False
    per_class: bool = False
    equal_mass: bool = False
    by_level: bool = False
    without_zeros: bool = False
    in_nats: bool = False


_PRESETS: dict[str, _Preset] = {
    "ece": _Preset(top=True),
    "cace": _Preset(),
    "cwce": _Preset(per_class=True),
    "wcace": _Preset(by_level=True),
    "sce": _Preset(without_zeros=True),
    "ace": _Preset(per_class=True, equal_mass=True),
    "tace": _Preset(per_class=True, equal_mass=True),
    "rmsce": _Preset(top=True, equal_mass=True),
    "ecace": _Preset(in_nats=True),
}


def calibration_error(
    probs_N_C: Any,
    labels_N: Rows,
    kind: Kind = "ece",
    bins: int = 15,
    *,
    threshold: float | None = None,
    levels: int | None = None,
) -> CalibrationError:
    """How far predicted probabilities are from how often labels occur, 0 for perfect calibration of the given kind.

    `threshold` is that of "tace" (0.01 unless given). `levels=K` says that the probabilities are shares of K one-hot
    members: they are grouped by level, without bins.  docs/theory/calibration.md, 3 to 5.

    >>> probs_N_C, labels_N = [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]], [0, 1, 1]
    >>> [round(float(calibration_error(probs_N_C, labels_N, kind)), 6) for kind in ("ece", "cace")]
    [0.4, 0.8]
    """
    if kind not in _PRESETS:
        raise ValueError(f"kind: expected one of {', '.join(_PRESETS)}, found {kind!r}; 'ece' is the default")
    preset = _PRESETS[kind]
    _check_bins(bins)
    if threshold is not None and not (kind == "tace" and 0 <= threshold < 1):
        raise ValueError(f"threshold: {threshold} for {kind!r}; pass a probability below 1, for 'tace' only")
    if levels is not None and (preset.equal_mass or not isinstance(levels, int) or levels < 1):
        raise ValueError(
            f"levels: {levels} for {kind!r}; pass the number of one-hot members, for a kind with bins of equal width"
        )
    table_N_C, classes_N = labelled_rows(probs_N_C, labels_N)
    if preset.equal_mass:
        least = (_THRESHOLD if threshold is None else threshold) if kind == "tace" else 0.0
        value = _in_equal_mass(table_N_C, classes_N, preset, bins, least)
        binning = "equal mass" + (f" above {least:g}" if least else "")
    else:
        place, binning = _placing(preset, bins, levels)
        bins = bins if levels is None else levels + 1
        count_r_b, said_r_b, seen_r_b = _sums(table_N_C, classes_N, preset, place, bins)
        norm = float(count_r_b.sum()) if preset.without_zeros else len(classes_N)
        value = float((seen_r_b - said_r_b).abs().sum()) / norm
    return CalibrationError(value, kind, bins, binning, len(classes_N))


def reliability(probs_N_C: Any, labels_N: Rows, bins: int = 15) -> Reliability:
    """How often the most probable class was right, in bins of its probability.

    The mean of |accuracy − confidence|, weighted by counts, is the calibration error "ece".

    >>> found = reliability([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]], [0, 1, 1], bins=2)
    >>> found.counts.tolist(), found.accuracy.round(4).tolist()
    ([0, 3], [nan, 0.6667])
    """
    _check_bins(bins)
    table_N_C, classes_N = labelled_rows(probs_N_C, labels_N)
    preset = _PRESETS["ece"]
    count_b, said_b, seen_b = (
        sums_r_b[0].cpu() for sums_r_b in _sums(table_N_C, classes_N, preset, _placing(preset, bins, None)[0], bins)
    )
    edges = torch.arange(bins + 1, dtype=torch.float64) / bins
    return Reliability(edges.numpy(), count_b.long().numpy(), (said_b / count_b).numpy(), (seen_b / count_b).numpy())


def _placing(preset: _Preset, bins: int, levels: int | None) -> tuple[Callable[[Tensor], Tensor], str]:
    """Which bin a probability belongs to, and how that is called."""
    if levels is not None:
        return lambda p: _level(p, levels), "levels"
    # The edges by division: ceil(p · B) would put 0.7 one bin too high for B = 10, where 0.7 · 10 exceeds 7.
    edges_b = torch.arange(1, bins, dtype=torch.float64) / bins
    if not preset.in_nats:
        return lambda p: torch.bucketize(p, edges_b.to(p.device)), "even"
    most = -math.log(_LEAST)
    return lambda p: torch.bucketize(
        0.0 - p.clamp_min(_LEAST).log(), edges_b.to(p.device) * most
    ), f"even to {most:.2f} nats"


def _level(p: Tensor, levels: int) -> Tensor:
    share = p * levels
    level = share.round()
    if bool(((share - level).abs() > 1e-6 * levels).any()):
        raise ValueError(
            f"levels: probabilities are no shares of {levels} one-hot members; project the members to one-hot before"
            " taking their mean, or leave levels out"
        )
    return level.long()


def _sums(
    table_N_C: Tensor, classes_N: Tensor, preset: _Preset, place: Callable[[Tensor], Tensor], bins: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Entries, what was said (Σ p) and what was seen (Σ 1[y = k]) in each bin, as rows × bins.

    One row for all classes, or one for each.
    """
    classes = table_N_C.shape[1]
    rows = classes if preset.per_class else 1
    count, said, seen = table_N_C.new_zeros((3, rows * bins), dtype=torch.float64)
    step = rows_per_chunk(56 * classes, table_N_C.device)
    for part_n_C, label_n in zip(torch.split(table_N_C, step), torch.split(classes_N, step), strict=True):
        p_n_c = part_n_C.double().contiguous()  # bucketize copies other layouts, with a warning
        label_n_1 = label_n[:, None]
        hit_n_1 = torch.ones_like(label_n_1, dtype=torch.float64)
        if preset.top:
            top_n_1 = p_n_c.argmax(-1, keepdim=True)
            p_n_c = p_n_c.gather(-1, top_n_1)
            hit_n_1 = (top_n_1 == label_n_1).double()
            label_n_1 = torch.zeros_like(label_n_1)
        bin_n_c = place(p_n_c)
        if preset.per_class:
            bin_n_c += torch.arange(classes, device=p_n_c.device) * bins
        here_n_c = (p_n_c > 0).double() if preset.without_zeros else torch.ones_like(p_n_c)
        weight_n_c = p_n_c if preset.by_level else here_n_c
        hit_n_1 = hit_n_1 * weight_n_c.gather(-1, label_n_1)
        count.scatter_add_(0, bin_n_c.flatten(), here_n_c.flatten())
        said.scatter_add_(0, bin_n_c.flatten(), (p_n_c * weight_n_c).flatten())
        seen.scatter_add_(0, bin_n_c.gather(-1, label_n_1).flatten(), hit_n_1.flatten())
    return count.view(rows, bins), said.view(rows, bins), seen.view(rows, bins)


def _in_equal_mass(table_N_C: Tensor, classes_N: Tensor, preset: _Preset, bins: int, threshold: float) -> float:
    """The mean over classes of Σ_b |D_b| / n_k, or for the most probable class the root of Σ_b D_b² / (n_b N)."""
    if preset.top:
        top_N_1 = table_N_C.argmax(-1, keepdim=True)
        p_N = table_N_C.gather(-1, top_N_1)[:, 0].double()
        count_b, residual_b = _equal_mass_bins(p_N, top_N_1[:, 0] == classes_N, bins)
        filled_b = count_b > 0
        return math.sqrt(float((residual_b.square()[filled_b] / count_b[filled_b]).sum()) / len(p_N))
    total = 0.0
    for one in range(table_N_C.shape[1]):
        p_n, hit_n = table_N_C[:, one].double().contiguous(), classes_N == one
        if threshold:
            p_n, hit_n = p_n[p_n > threshold], hit_n[p_n > threshold]
        if len(p_n):
            total += float(_equal_mass_bins(p_n, hit_n, bins)[1].abs().sum()) / len(p_n)
    return total / table_N_C.shape[1]


def _equal_mass_bins(p_n: Tensor, hit_n: Tensor, bins: int) -> tuple[Tensor, Tensor]:
    """How many entries each bin holds, and the sum of their residuals."""
    groups = min(bins, len(p_n))
    size, larger = divmod(len(p_n), groups)
    last_b = torch.arange(1, groups + 1, device=p_n.device) * size - 1
    last_b += torch.arange(1, groups + 1, device=p_n.device).clamp_max(larger)
    bin_n = torch.bucketize(p_n, p_n.sort().values[last_b])  # by value: ties share the lowest bin they can have
    count_b, residual_b = p_n.new_zeros((2, groups))
    count_b.scatter_add_(0, bin_n, torch.ones_like(p_n))
    residual_b.scatter_add_(0, bin_n, hit_n.double() - p_n)
    return count_b, residual_b


def _check_bins(bins: int) -> None:
    if not isinstance(bins, int) or bins < 1:
        raise ValueError(f"bins: expected a whole number of at least 1, found {bins!r}; 15 is the default")
