"""Counts, means and scatter of the features of each class, in one pass that can be continued and merged.

    n_c = Σ 1[y_n = c]      μ_c = 1/n_c Σ_{y_n = c} z_n      S_c = Σ_{y_n = c} (z_n − μ_c)(z_n − μ_c)ᵀ

Two parts a and b of the data, apart by δ = μ_b − μ_a, are put together by (Chan, Golub & LeVeque 1983)

    n = n_a + n_b,    μ = μ_a + n_b/n δ,    S = S_a + S_b + n_a n_b/n δ δᵀ

so that data that does not fit into memory, or lies on several machines, gives the same moments. All in float64. Only as
much scatter is held as is wanted: one matrix per class, one for all classes together (Σ_c S_c), or its diagonals.
docs/theory/deterministic-uncertainty.md, 2.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Self

import torch
from torch import Tensor

from natsel.information.class_labels import class_labels
from natsel.memory import require, rows_per_chunk

Scatter = Literal["per-class", "shared", "diagonal"]


@dataclass(frozen=True, eq=False)
class ClassMoments:
    """The moments of the features of C classes.

    `scatter` is [C, D, D] for "per-class", [1, D, D] for "shared" and [C, D] for "diagonal".

    >>> features = torch.tensor([[0.0], [2.0], [5.0]])
    >>> one = ClassMoments.of(features[:1], [0], 2)
    >>> both = one.merged(ClassMoments.of(features[1:], [0, 1], 2))
    >>> both.counts_C.tolist(), both.means_C_D.tolist(), both.scatter.round(decimals=9).tolist()
    ([2.0, 1.0], [[1.0], [5.0]], [[[2.0]], [[0.0]]])
    """

    counts_C: Tensor
    means_C_D: Tensor
    scatter: Tensor
    kind: Scatter

    @classmethod
    def of(cls, features_N_D: Tensor, labels_N: object, classes: int, kind: Scatter = "per-class") -> Self:
        """The moments of features with the labels 0 … classes − 1, a part of the rows after the other."""
        features_N_D = torch.as_tensor(features_N_D)
        if features_N_D.ndim != 2 or features_N_D.shape[1] == 0:
            raise ValueError(
                f"features_N_D: expected points × features, found shape {tuple(features_N_D.shape)}; pass N × D"
            )
        if kind not in ("per-class", "shared", "diagonal"):
            raise ValueError(f"kind: expected per-class, shared or diagonal, found {kind!r}; choose one of them")
        if not isinstance(classes, int) or classes < 1:
            raise ValueError(f"classes: expected how many there are, from 1 on, found {classes!r}; pass a whole number")
        device, width = features_N_D.device, features_N_D.shape[1]
        labels_N = class_labels(torch.as_tensor(labels_N, device=device), len(features_N_D), classes, "labels_N")
        matrices = {"per-class": classes, "shared": 1, "diagonal": 0}[kind]
        remedy = 'use covariance="shared" or "diagonal"' if matrices > 1 else 'use covariance="diagonal" or fewer'
        require(16 * matrices * width**2, f"features: {matrices} scatter matrices of {width} × {width}", remedy)
        require(16 * classes * width, f"features: means of {classes} classes × {width}", "number the classes from 0")
        order_N = labels_N.argsort(stable=True)
        counts_C = torch.bincount(labels_N, minlength=classes)
        shape = (classes, width) if kind == "diagonal" else (matrices, width, width)
        scatter = torch.zeros(shape, dtype=torch.float64, device=device)
        means_C_D = torch.zeros(classes, width, dtype=torch.float64, device=device)
        at, counts = 0, counts_C.tolist()
        for number, count in enumerate(counts):
            own_n = order_N[at : at + count]
            at += count
            _add_class(scatter[0 if kind == "shared" else number], means_C_D[number], features_N_D, own_n)
        if not bool(means_C_D.isfinite().all() & scatter.isfinite().all()):
            raise ValueError(
                "features_N_D: holds nan, infinity or numbers whose squares leave float64; look for a diverged network"
                " or bad inputs"
            )
        return cls(counts_C.double(), means_C_D, scatter, kind)

    def merged(self, other: "ClassMoments") -> "ClassMoments":
        """The moments of the data of both."""
        if (self.kind, self.means_C_D.shape) != (other.kind, other.means_C_D.shape):
            raise ValueError(
                f"other: found {other.kind} moments of {tuple(other.means_C_D.shape)} classes × features, expected"
                f" {self.kind} moments of {tuple(self.means_C_D.shape)}; make both alike"
            )
        counts_C = self.counts_C + other.counts_C
        share_C = other.counts_C / counts_C.clamp(min=1)
        apart_C_D = other.means_C_D - self.means_C_D
        between_C_D = apart_C_D * (self.counts_C * share_C).sqrt()[:, None]
        scatter = self.scatter + other.scatter
        if self.kind == "diagonal":
            scatter += between_C_D.square()
        elif self.kind == "shared":
            scatter += between_C_D.T @ between_C_D
        else:
            for scatter_D_D, between_D in zip(scatter, between_C_D, strict=True):
                scatter_D_D.addr_(between_D, between_D)
        return ClassMoments(counts_C, self.means_C_D + share_C[:, None] * apart_C_D, scatter, self.kind)

    def covariances(self, ddof: int = 1) -> Iterator[Tensor]:
        """The covariance of each class, S_c / (n_c − ddof), one after the other: [D, D], or [D] for "diagonal"; for
        "shared" one for all, Σ_c S_c / (N − ddof · classes present). A class with too few points has zeros.
        """
        if self.kind == "shared":
            present = int((self.counts_C > 0).sum())
            yield self.scatter[0] / (self.counts_C.sum() - ddof * present).clamp(min=1)
            return
        for scatter, count in zip(self.scatter, self.counts_C.tolist(), strict=True):
            yield scatter / max(1.0, count - ddof)

    def pooled(self, ddof: int = 1) -> Tensor:
        """The covariance within classes, all classes together: [D, D], or [D] for "diagonal"."""
        present = int((self.counts_C > 0).sum())
        return self.scatter.sum(0) / (self.counts_C.sum() - ddof * present).clamp(min=1)


def _add_class(scatter: Tensor, mean_D: Tensor, features_N_D: Tensor, own_n: Tensor) -> None:
    """Add the points of one class to a scatter, and put their mean in its place."""
    width = features_N_D.shape[1]
    # Long products are quick ones: chunks hold more rows than there are features.
    size = max(rows_per_chunk(16 * width, features_N_D.device), 2 * width)
    count = 0
    for start in range(0, len(own_n), size):
        part_n = own_n[start : start + size]
        rows_n_D = features_N_D[part_n].double()
        # Measured from one of them, so that a feature that never changes has a scatter of exactly 0.
        first_D = rows_n_D[0].clone()
        rows_n_D -= first_D
        shift_D = rows_n_D.mean(0)
        rows_n_D -= shift_D
        centre_D = first_D + shift_D
        apart_D = centre_D - mean_D
        share = len(part_n) / (count + len(part_n))
        if scatter.ndim == 1:
            scatter += rows_n_D.square().sum(0) + count * share * apart_D.square()
        else:
            torch.addmm(scatter, rows_n_D.T, rows_n_D, out=scatter)
            scatter.addr_(apart_D, apart_D, alpha=count * share)
        mean_D += share * apart_D
        count += len(part_n)
