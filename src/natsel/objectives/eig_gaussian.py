"""EIG read from Gaussian beliefs: ½ log det(I + Φ Φᵀ / noise), one incremental Cholesky row a pick.

    gain_n = ½ ln(1 + s_n / noise_n),                        s_n = Var[f_n | points added]
    w_t    = (φ_i − Σ_s (w_s·φ_i) w_s) / √(s_i + noise_i),   s_n ← s_n − (φ_n·w_t)²

Row t of the Cholesky factor of the added points' covariance with all N is Φ w_t, so only the D numbers of w_t are kept
and nothing of size N × k. Draws of Gaussians are moment-matched, with noise = E v, and gain ½ (ln E v − E ln v) more:
an upper bound on the mixture's value, still monotone and submodular.  Spec 06, Q1; spec 09.
"""

from collections.abc import Callable
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from natsel.beliefs import GaussianFeatures, GaussianSamples
from natsel.capabilities import Capability
from natsel.memory import chunked
from natsel.objectives.eig import EIG
from natsel.objectives.protocol import Reading, serves

_ROUNDING = 1e-14


@serves(EIG, GaussianFeatures, GaussianSamples)
class GaussianEIG:
    """Gains conditional on the values of the points added so far."""

    offers: ClassVar[Capability] = (
        Capability.SCORES | Capability.GAINS | Capability.VALUE | Capability.DISTANCES | Capability.KERNEL
    )
    submodular: ClassVar[bool] = True
    exact: ClassVar[bool] = True
    worth_racing: ClassVar[bool] = False
    remaining: ClassVar[float] = torch.inf

    def __init__(self, objective: EIG, belief: GaussianFeatures | GaussianSamples, reading: Reading) -> None:
        features = belief.features() if isinstance(belief, GaussianSamples) else belief
        self.features_N_D = features.features_N_D
        self.noise_N = features.noise_N
        # ln E v − E ln v of the draws' noise: 0 where they agree on it, else known before any label is seen.
        self.spread_N = torch.zeros_like(self.noise_N)
        if isinstance(belief, GaussianSamples):
            log_noise_N = belief.variance_N_K.double().log() @ belief.log_weights_K.exp()
            self.spread_N = (self.noise_N.log() - log_noise_N).clamp_min_(0)
        self.variance_N = self._per_point(lambda features_n_D: features_n_D.square().sum(1))
        self.factor_T_D = self.noise_N.new_empty(0, self.features_N_D.shape[1])
        self.total = 0.0

    def scores(self) -> Tensor:
        """½ ln(1 + Var f / noise) of every point by itself, N values in nats."""
        variance_N = self._per_point(lambda features_n_D: features_n_D.square().sum(1))
        return 0.5 * ((variance_N / self.noise_N).log1p() + self.spread_N)

    def bounds(self) -> Tensor:
        """The scores: gains only fall from there."""
        return self.scores()

    def gains(self, positions: Tensor) -> Tensor:
        """I[Y; F | values so far] for each position."""
        return 0.5 * ((self.variance_N[positions] / self.noise_N[positions]).log1p() + self.spread_N[positions])

    def add(self, position: int) -> float:
        """Take a point: one more Cholesky row, and less variance everywhere."""
        gain = float(self.gains(torch.tensor([position], device=self.noise_N.device)))
        feature_D = self.features_N_D[position].double()
        left = float(self.variance_N[position])
        # What is left of a point below rounding has no direction of its own; a row made from it would be noise.
        if left > _ROUNDING * float(feature_D.square().sum()):
            pivot = left + float(self.noise_N[position])
            row_D = (feature_D - self.factor_T_D.T @ (self.factor_T_D @ feature_D)) / pivot**0.5
            explained_N = self._per_point(lambda features_n_D: (features_n_D @ row_D).square())
            # Cauchy and Schwarz: no point can lose more than this, whatever rounding says.
            self.variance_N = self.variance_N - torch.minimum(explained_N, self.variance_N * (left / pivot))
            self.factor_T_D = torch.cat([self.factor_T_D, row_D[None]])
        self.total += gain
        return gain

    def value(self, positions: Tensor) -> float:
        """The joint value of a set from its covariance matrix: the reference."""
        positions = positions.to(self.noise_N.device)
        features_B_D = self.features_N_D[positions].double()
        covariance_B_B = features_B_D @ features_B_D.T + self.noise_N[positions].diag()
        return 0.5 * float(
            torch.logdet(covariance_B_B) - (self.noise_N[positions].log() - self.spread_N[positions]).sum()
        )

    # Where points lie: φ/√noise, in which 1 + the squared length is the variance of a label over that of its noise.

    @cached_property
    def size_N(self) -> Tensor:
        """Var f / noise, worked out once."""
        return self._per_point(lambda features_n_D: features_n_D.square().sum(1)) / self.noise_N

    def sizes(self) -> Tensor:
        """Var f / noise of every point by itself, N values."""
        return self.size_N

    def distances(self, position: int) -> Tensor:
        """‖φ_n/√noise_n − φ_i/√noise_i‖² of all points to one, N values; what is less than rounding is 0."""
        return self.distances_to(torch.tensor([position]))[0]

    def distances_to(self, positions: Tensor) -> Tensor:
        """The same to each of some positions, [positions, N]: one matrix product for all of them."""
        positions = positions.to(self.noise_N.device)
        product_N_m = self._inner(None, positions)
        far_m_N = self.size_N[positions][:, None] + self.size_N
        distance_m_N = far_m_N - 2 * product_N_m.T
        return distance_m_N.where(distance_m_N > _ROUNDING * far_m_N, 0.0)

    def kernel(self, rows: Tensor, columns: Tensor) -> Tensor:
        """φ_i·φ_j/√(noise_i noise_j) of some positions with some others, [rows, columns]."""
        return self._inner(rows.to(self.noise_N.device), columns.to(self.noise_N.device))

    def _inner(self, rows: Tensor | None, columns: Tensor) -> Tensor:
        """Inner products of φ/√noise of some positions, or of all, with some others."""
        few_m_D = self.features_N_D[columns].double() * self.noise_N[columns].rsqrt()[:, None]

        def work(part: slice) -> Tensor:
            some = part if rows is None else rows[part]
            return self.noise_N[some].rsqrt()[:, None] * (self.features_N_D[some].double() @ few_m_D.T)

        count, width = len(self.noise_N) if rows is None else len(rows), few_m_D.shape[1]
        return chunked(work, count, 8 * (2 * width + 2 * len(columns)), self.noise_N.device)

    def _per_point(self, work: Callable[[Tensor], Tensor]) -> Tensor:
        count, width = self.features_N_D.shape
        return chunked(lambda part: work(self.features_N_D[part].double()), count, 16 * width, self.features_N_D.device)
