"""Variances of jointly Gaussian points given the labels of some, brought up to date for the points that are asked for.

    s_n = ‖φ_n R‖²,        R Rᵀ = Cov[u | labels]                              u ~ N(0, I), f = Φ u
    w_t = φ_i R Rᵀ / √(s_i + noise_i),        s_n ← s_n − (φ_n·w_t)²           when the label of point i is seen
    R ← R − R v vᵀ / (1 + √κ),   v = φ_i R / √(s_i + noise_i),   κ = noise_i / (s_i + noise_i)

Seeing a label costs D² numbers and nothing of size N. What is known of a point is an upper bound of its variance, since
labels only lower it: a lazy greedy search asks for the few points that may still win, and pays for all labels they
missed by one matrix product in place of one pass over the pool for each. Where noise is 1e-8 of a variance or less, or
a point missed more labels than it has features, s_n is taken from R, which scales down and never subtracts. R is held
while D² numbers fit the memory budget; else rows are made orthogonal, or features scaled down, label after label.
docs/theory/black-box.md, 5.2; docs/theory/epig-jepig.md, 6.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from natsel.information.conditioning.conditioned_features import SHARP, Features, refuse_no_noise
from natsel.information.conditioning.one_step import is_rounding, kept_share
from natsel.information.conditioning.settled import Settled
from natsel.memory import chunked, fits, rows_per_chunk


class LazyVariances:
    """Variances of N points; `known` says what labels elsewhere settled beforehand.

    >>> points = LazyVariances(torch.tensor([[1.0], [2.0]]), torch.tensor([1.0, 1.0]))
    >>> points.take(0)
    >>> points.variances(torch.tensor([1])).round(decimals=6).tolist()
    [2.0]
    """

    def __init__(self, features_N_D: Features, noise_N: Tensor, known: Settled | None = None) -> None:
        self.features_N_D, self.noise_N, self.known = features_N_D, noise_N, known
        count, width = features_N_D.shape
        self.device = noise_N.device
        self.own_N = self._per_point(lambda part: self._features(part).square().sum(1))
        ratio = float((self.own_N / noise_N).max())
        refuse_no_noise(ratio)
        self.sharp = ratio > SHARP
        self.root_D_D: Tensor | None = None
        if fits(8 * width * width):
            self.root_D_D = torch.eye(width, dtype=torch.float64, device=self.device)
            if known is not None:
                self.root_D_D = known.scaled_down(self.root_D_D)
        self.start_N = self.own_N
        if known is not None:
            root_D_D = self.root_D_D
            self.start_N = self._per_point(
                lambda part: (
                    (known.scaled_down(self._features(part)) if root_D_D is None else self._features(part) @ root_D_D)
                    .square()
                    .sum(1)
                )
            )
        self.variance_N = self.start_N.clone()
        self.version_N = torch.zeros(count, dtype=torch.int32, device=self.device)
        self.rows_T_D = noise_N.new_empty(0, width)
        self.log_keeps: list[float] = []

    def __len__(self) -> int:
        return len(self.noise_N)

    def at(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Features in float64 under what is known beforehand, and noise of some points."""
        features_n_D = self._features(positions)
        if self.known is not None:
            features_n_D = self.known.scaled_down(features_n_D)
        return features_n_D, self.noise_N[positions]

    def variances(self, positions: Tensor) -> Tensor:
        """Var f of some points given all labels seen."""
        positions = positions.to(self.device)
        count = len(self.log_keeps)
        stale_n = positions[self.version_N[positions] < count]
        if len(stale_n):
            stale_n = stale_n[self.version_N[stale_n].argsort()]  # those of one chunk missed about as many
            width = self.features_N_D.shape[1]
            step = rows_per_chunk(8 * (3 * width + count), self.device)
            for start in range(0, len(stale_n), step):
                self._refresh(stale_n[start : start + step], count)
        return self.variance_N[positions]

    def take(self, position: int) -> None:
        """See the label of a point; nothing where it has nothing left to tell, lest a row be made of rounding."""
        left, noise = float(self.variances(torch.tensor([position]))), float(self.noise_N[position])
        if (not left > 0) if self.sharp else is_rounding(left, float(self.own_N[position])):
            return
        keep, scale = kept_share(left, noise), 1 / math.sqrt(left + noise)
        feature_1_D = self._features(torch.tensor([position], device=self.device))
        feature_D, row_D = feature_1_D[0], feature_1_D[0]
        if self.root_D_D is not None:
            along_D = (feature_D @ self.root_D_D) * scale
            row_D = self.root_D_D @ along_D
            self.root_D_D.addr_(row_D, along_D, alpha=-1 / (1 + math.sqrt(keep)))
        elif self.sharp:
            row_D = self._scaled_down(feature_1_D)[0] * scale
        else:
            seen_T_D = self.rows_T_D[: len(self.log_keeps)]
            row_D = feature_D - seen_T_D.T @ (seen_T_D @ feature_D)
            if self.known is not None:
                row_D = row_D - self.known.along(feature_D)
            row_D = row_D * scale
        if len(self.log_keeps) == len(self.rows_T_D):  # room for twice as many
            self.rows_T_D = torch.cat([self.rows_T_D, row_D.new_empty(max(16, len(self.rows_T_D)), len(row_D))])
        self.rows_T_D[len(self.log_keeps)] = row_D
        self.log_keeps.append(math.log(keep))

    def _refresh(self, stale_n: Tensor, count: int) -> None:
        """Bring some points up to date with all labels."""
        features_n_D, version_n = self._features(stale_n), self.version_N[stale_n]
        first = int(version_n.min())
        before_n = self.variance_N[stale_n]
        if self.root_D_D is not None and (self.sharp or count - first > len(self.root_D_D)):
            left_n = (features_n_D @ self.root_D_D).square().sum(1)
        elif self.sharp:
            left_n = self._scaled_down(features_n_D).square().sum(1)
        else:
            square_n_t = (features_n_D @ self.rows_T_D[first:count].T).square_()
            if first < int(version_n.max()):  # some points know the first of these labels already
                label_t = torch.arange(first, count, dtype=torch.int32, device=self.device)
                square_n_t.masked_fill_(label_t < version_n[:, None], 0.0)
            # No point keeps less than those whose labels were seen.
            least_n = before_n * math.exp(sum(self.log_keeps[first:]))
            left_n = torch.maximum(before_n - square_n_t.sum(1), least_n)
        self.variance_N[stale_n] = torch.minimum(left_n, before_n)
        self.version_N[stale_n] = count

    def _scaled_down(self, features_n_D: Tensor) -> Tensor:
        """Φ R of some points, one label after the other."""
        left_n_D = features_n_D.clone() if self.known is None else self.known.scaled_down(features_n_D)
        for row_D, log_keep in zip(self.rows_T_D, self.log_keeps, strict=False):
            left_n_D.addr_(left_n_D @ row_D, row_D, alpha=-1 / (1 + math.exp(log_keep / 2)))
        return left_n_D

    def _features(self, positions: Tensor | slice) -> Tensor:
        return self.features_N_D[positions].double()

    def _per_point(self, work: Callable[[slice], Tensor]) -> Tensor:
        count, width = self.features_N_D.shape
        return chunked(work, count, 32 * width, self.device)
