"""EPIG read from Gaussian beliefs: correlations of candidates with targets, given the labels of the points added.

    gain_n = −½ Σ_j v_j ln(1 − c_nj² / ((s_n + noise_n)(s_j + noise_j)))     c, s: covariances of f given points added

Points and targets are jointly Gaussian through one space of features. A point added takes its share away from all
covariances, c_nj = φ_n·(φ_j − Σ_t (φ_j·w_t) w_t) with the Cholesky rows w_t of `eig_gaussian`: targets are projected
once for each point added, and c is a matrix product, made block by block. Exact for jointly Gaussian beliefs. Draws of
Gaussians are moment-matched, which is neither a lower nor an upper bound: it knows nothing of ln K.  Spec 06, Q3c, Q6.
"""

from typing import ClassVar

import torch
from torch import Tensor

from natsel.beliefs import GaussianFeatures, GaussianSamples
from natsel.capabilities import Capability
from natsel.information.predictive import target_weights
from natsel.memory import chunked
from natsel.objectives.epig import EPIG
from natsel.objectives.gaussian_points import Points, matched
from natsel.objectives.protocol import Reading, serves

_COLUMNS = 2048  # targets beside each other: blocks of a few megabytes stay in the caches
_SHARP = 1e-6  # noise that is a smaller share of a variance than this leaves correlations near 1 few digits


@serves(EPIG, GaussianFeatures, GaussianSamples)
class GaussianEPIG:
    """Gains about targets conditional on the labels of the points added so far."""

    offers: ClassVar[Capability] = Capability.SCORES | Capability.GAINS | Capability.VALUE
    submodular: ClassVar[bool] = False
    exact: ClassVar[bool] = True
    worth_racing: ClassVar[bool] = False

    def __init__(self, objective: EPIG, belief: GaussianFeatures | GaussianSamples, reading: Reading) -> None:
        pool, targets = matched(belief, reading.targets)
        given_M = None if reading.targets is None else reading.targets.weights_M
        weights_M = target_weights(given_M, targets.noise_N[:, None, None])
        (counted_M,) = weights_M.nonzero(as_tuple=True)  # targets of weight 0 are not looked at
        self.weights_M = weights_M[counted_M]
        self.pool = Points(pool.features_N_D, pool.noise_N)
        self.targets = Points(
            targets.features_N_D[counted_M].to(pool.device, torch.float64), targets.noise_N[counted_M]
        )
        self.left_M_D = self.targets.features_N_D
        self.total = 0.0

    def scores(self) -> Tensor:
        """EPIG of every point by itself, N values in nats."""
        everything = torch.arange(len(self.pool), device=self.weights_M.device)
        unseen = self.pool.unseen(), self.targets.unseen()
        return self._information(everything, self.targets.features_N_D, *unseen)

    def bounds(self) -> Tensor:
        """The scores: what points add before any other was."""
        return self.scores()

    def gains(self, positions: Tensor) -> Tensor:
        """Σ_j v_j I[Y; Y*_j | labels so far] of each position."""
        positions = positions.to(self.weights_M.device)
        return self._information(positions, self.left_M_D, self.pool.variance_N, self.targets.variance_N)

    def add(self, position: int) -> float:
        """Take a point: a row of the Cholesky factor, and less variance at points and targets."""
        gain = float(self.gains(torch.tensor([position])))
        row_D = self.pool.row(position)
        if row_D is not None:
            shrink = self.pool.shrink(position)
            self.left_M_D = self.left_M_D - (self.targets.features_N_D @ row_D)[:, None] * row_D
            self.targets.explain(row_D, shrink)
            self.pool.take(position, row_D)
        self.total += gain
        return gain

    @property
    def remaining(self) -> float:
        """Σ_j v_j I[Y*_j; F | labels so far]: nobody can tell more about the targets than their latent values do."""
        return 0.5 * float((self.targets.variance_N / self.targets.noise_N).log1p() @ self.weights_M)

    def value(self, positions: Tensor) -> float:
        """What the labels of a set tell about a target, from the covariance matrix of the set: the reference."""
        features_B_D, noise_B = self.pool.at(positions.to(self.weights_M.device))
        factor_B_B = torch.linalg.cholesky(features_B_D @ features_B_D.T + noise_B.diag())
        variance_M = self.targets.unseen() + self.targets.noise_N

        def work(part: slice) -> Tensor:
            cross_B_m = features_B_D @ self.targets.features_N_D[part].T
            white_B_m = torch.linalg.solve_triangular(factor_B_B, cross_B_m, upper=False)
            share_m: Tensor = white_B_m.square().sum(0) / variance_M[part]
            return -0.5 * (-share_m).log1p()

        width = 16 * (len(positions) + features_B_D.shape[1])
        return float(chunked(work, len(self.targets), width, self.weights_M.device) @ self.weights_M)

    def _information(self, positions: Tensor, left_M_D: Tensor, variance_N: Tensor, variance_M: Tensor) -> Tensor:
        """−½ Σ_j v_j ln(1 − ρ²) of some positions, with these covariances."""
        total_M = variance_M + self.targets.noise_N
        # 1 − s/(s+noise): by Cauchy and Schwarz no correlation comes closer to 1 than the noise of both ends allows.
        open_M = self.targets.noise_N / total_M
        white_M_D = left_M_D / total_M.sqrt()[:, None]

        def work(part: slice) -> Tensor:
            features_n_D, noise_n = self.pool.at(positions[part])
            total_n = variance_N[positions[part]] + noise_n
            open_n = noise_n / total_n
            white_n_D = features_n_D / total_n.sqrt()[:, None]
            sum_n = torch.zeros_like(total_n)
            for start in range(0, len(white_M_D), _COLUMNS):
                some = slice(start, start + _COLUMNS)
                share_n_m = (white_n_D @ white_M_D[some].T).square_()
                open_n_m = share_n_m.clamp_max_(1).neg_().log1p_()
                if float(open_n.min()) < _SHARP:  # rounding decides what is left of a variance almost all explained
                    open_n_m = open_n_m.maximum((open_n[:, None] + (1 - open_n)[:, None] * open_M[some]).log_())
                sum_n -= open_n_m @ self.weights_M[some]
            return 0.5 * sum_n

        columns = min(_COLUMNS, len(white_M_D))
        width = 8 * (2 * white_M_D.shape[1] + 3 * columns)
        return chunked(work, len(positions), width, self.weights_M.device).clamp_min_(0)
