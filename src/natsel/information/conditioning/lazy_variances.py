"""Variances of jointly Gaussian points given the labels of some, brought up to date for the points that are asked for.

    s_n = ‖φ_n R‖²,        R Rᵀ = Cov[u | labels]                              u ~ N(0, I), f = Φ u
    w_t = φ_i R Rᵀ / √(s_i + noise_i),        s_n ← s_n − (φ_n·w_t)²           when the label of point i is seen
    R ← R − R v vᵀ / (1 + √κ),   v = φ_i R / √(s_i + noise_i),   κ = noise_i / (s_i + noise_i)

Seeing a label costs D² numbers and nothing of size N. What is known of a point is an upper bound of its variance, since
labels only lower it: a lazy greedy search asks for the few points that may still win, and pays for all labels they
missed by one matrix product in place of one pass over the pool for each. Where noise is 1e-8 of a variance or less, or
a point missed more labels than it has features, s_n is taken from R, which scales down and never subtracts. R is held
while D² numbers fit the memory budget; else rows are made orthogonal, or features scaled down, label after label.

All points start from ceilings where features are float32, and those that are asked for are worked out in float64:
‖φ_n‖ from sums in float32, and, where labels elsewhere are known, √s_n ≤ ‖φ_n L‖ + D ε ‖φ_n‖ ‖L‖ with a triangle
L Lᵀ = R Rᵀ.
docs/theory/black-box.md, 5.2; docs/theory/epig-jepig.md, 6.
"""

import math
from collections.abc import Callable
from functools import cached_property

import torch
from torch import Tensor

from natsel.information.conditioning.conditioned_features import SHARP, Features, refuse_no_noise
from natsel.information.conditioning.one_step import is_rounding, kept_share
from natsel.information.conditioning.settled import Settled
from natsel.information.weights.similarity import squared_lengths
from natsel.memory import chunked, fits, rows_per_chunk

_COLUMNS = 64  # of a triangle that are multiplied together
_LEAST, _MOST = 1e-12, 1e18  # of the longest features: squares of such numbers have their place in float32
_UNSEEN = 1e-10  # of the noise: too little to change how variances are worked out


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
        self.own_N, rough = self._own()
        ratio = float((self.own_N / noise_N).max())
        refuse_no_noise(ratio)
        self.sharp = ratio > SHARP
        self.root_D_D: Tensor | None = None
        if fits(8 * width * width):
            self.root_D_D = torch.eye(width, dtype=torch.float64, device=self.device)
            if known is not None:
                self.root_D_D = known.scaled_down(self.root_D_D)
        self.triangle_D_D: Tensor | None = None
        if known is not None and self.root_D_D is not None and fits(32 * width * width):
            # The root is symmetric before the first label: R Rᵀ = Rᵀ R.
            self.triangle_D_D = torch.linalg.qr(self.root_D_D, mode="r").R.T
        self.version_N = torch.zeros(count, dtype=torch.int32, device=self.device)
        if rough and (known is None or self.triangle_D_D is not None):
            self.variance_N = self.own_N.clone() if self.triangle_D_D is None else self._ceilings(self.triangle_D_D)
            self.version_N.fill_(-1)
        else:
            self.variance_N = self.start_N.clone()
        self.rows_T_D = torch.empty(0, width, dtype=torch.float64, device=self.device)
        self.log_keeps: list[float] = []

    @cached_property
    def start_N(self) -> Tensor:
        """Var f of all points before any label of the pool is seen, N values."""
        known, triangle_D_D = self.known, self.triangle_D_D
        if known is None:
            return self._per_point(lambda part: squared_lengths(self.features_N_D[part]))
        if triangle_D_D is not None:
            return self._per_point(lambda part: _squared_lengths_times(self._features(part), triangle_D_D))
        return self._per_point(lambda part: squared_lengths(known.scaled_down(self._features(part))))

    def __len__(self) -> int:
        return len(self.noise_N)

    def at(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Features in float64 under what is known beforehand, and noise of some points."""
        features_n_D = self._features(positions)
        if self.known is not None:
            features_n_D = self.known.scaled_down(features_n_D)
        return features_n_D, self.noise_N[positions]

    def variances(self, positions: Tensor) -> Tensor:
        """Var f of some points given all labels seen; `variance_N` has what no variance exceeds, of all."""
        positions = positions.to(self.device)
        count = len(self.log_keeps)
        stale_n = positions[self.version_N[positions] < count]
        if len(stale_n):
            stale_n = stale_n[self.version_N[stale_n].argsort()]  # those of one chunk missed about as many
            width = self.features_N_D.shape[1]
            step = rows_per_chunk(32 * (3 * width + count), self.device)
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
        before_n = self.variance_N[stale_n]
        if self.known is None and bool((version_n < 0).any()):
            before_n = before_n.where(version_n >= 0, squared_lengths(features_n_D))
            version_n = version_n.clamp_min(0)
        first = int(version_n.min())
        if self.root_D_D is not None and (self.sharp or first < 0 or count - first > len(self.root_D_D)):
            left_n = squared_lengths(features_n_D @ self.root_D_D)
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

    def _own(self) -> tuple[Tensor, bool]:
        """‖φ_n‖², N values, and whether they are ceilings of it, from sums in float32, rather than worked out."""
        features_N_D, single = self.features_N_D, torch.finfo(torch.float32)
        if (
            isinstance(features_N_D, Tensor)
            and features_N_D.dtype == torch.float32
            and torch.get_float32_matmul_precision() == "highest"
        ):
            width = features_N_D.shape[1]
            length_N = torch.linalg.vector_norm(features_N_D, dim=1).double()
            lost = width * single.tiny  # squares too small for float32, which must be nothing beside any noise
            if _LEAST < float(length_N.max()) < _MOST and lost < _UNSEEN * float(self.noise_N.min()):
                return length_N.mul_(1 + width * single.eps).add_(math.sqrt(lost)).square_(), True
        return self._per_point(lambda part: squared_lengths(features_N_D[part])), False

    def _ceilings(self, triangle_D_D: Tensor) -> Tensor:
        """What no Var f exceeds, from products in float32, N values."""
        rough_D_D, single = triangle_D_D.float(), torch.finfo(torch.float32)
        width, length = len(triangle_D_D), float(triangle_D_D.square().sum().sqrt())
        rough_N = chunked(
            lambda part: _squared_lengths_times(self.features_N_D[part], rough_D_D),
            len(self),
            max(2 * width, 16 * _COLUMNS),
            self.device,
        )
        # Rounding of sums of D products, and products and squares too small for float32.
        ceiling_N = self.own_N.sqrt().mul_(2 * width * single.eps * length)
        ceiling_N.add_(width**1.5 * single.tiny + math.sqrt(width * single.tiny)).add_(rough_N.sqrt_()).square_()
        return torch.where(ceiling_N < self.own_N, ceiling_N, self.own_N)  # also where float32 has overflown

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


def _squared_lengths_times(features_n_D: Tensor, triangle_D_D: Tensor) -> Tensor:
    """‖φ_n L‖² for a lower triangle L, by blocks of its columns: about half of the work of a product with L."""
    total_n = torch.zeros(len(features_n_D), dtype=torch.float64, device=features_n_D.device)
    for first in range(0, len(triangle_D_D), _COLUMNS):
        columns_d_c = triangle_D_D[first:, first : first + _COLUMNS]
        total_n += torch.linalg.vector_norm(features_n_D[:, first:] @ columns_d_c, dim=1).double().square_()
    return total_n
