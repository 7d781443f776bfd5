"""EPIG read from Gaussian beliefs: correlations of candidates with targets, given the labels of the points added.

    gain_n = −½ Σ_j v_j ln(1 − c_nj² / ((s_n + noise_n)(s_j + noise_j)))     c, s: covariances of f given points added

Points and targets are jointly Gaussian through one space of features. A point added takes its share away from all
covariances, c_nj = φ_n·(φ_j − Σ_t (φ_j·w_t) w_t) with the Cholesky rows w_t of `eig_gaussian`: targets are projected
once for each point added, and c is a matrix product, made block by block. Exact for jointly Gaussian beliefs. Draws of
Gaussians are moment-matched, which is neither a lower nor an upper bound: it knows nothing of ln K.
docs/theory/epig-jepig.md, 6 and 8.
"""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from natsel.beliefs import GaussianFeatures, GaussianSamples
from natsel.information.conditioning.conditioned_features import ConditionedFeatures, sharpened
from natsel.information.conditioning.settled import Settled
from natsel.memory import chunked, fits, rows_per_chunk
from natsel.objectives.epig import EPIG
from natsel.objectives.objective import Argument
from natsel.objectives.reading import Context, PairFacts, serves
from natsel.objectives.readings.batch_state import TakingState
from natsel.objectives.readings.gaussian.gaussian_points import BY_MOMENTS, Gaussian, log_open, points_and_targets

_COLUMNS = 2048  # targets beside each other: blocks of a few megabytes stay in the caches


_FACTS = PairFacts(needs=Argument.TARGETS, monotone=True, cost="N·M·D, a batch k·N·M·D")


class GaussianEPIG(TakingState):
    """Gains about targets conditional on the labels of the points added so far."""

    def __init__(self, objective: EPIG, belief: Gaussian, context: Context[Gaussian]) -> None:
        self.pool, self.targets = points_and_targets(belief, context.targets)
        given_M = context.targets.weights_M
        if given_M is None:
            given_M = torch.ones_like(self.targets.noise_N)
        self.weights_M = (given_M[given_M > 0] / given_M.sum()).to(belief.device)
        if not sharpened(self.pool, self.targets):
            self.targets.keep_left()

    def scores(self) -> Tensor:
        """EPIG of every point by itself, N values in nats."""
        everything = torch.arange(len(self.pool), device=self.weights_M.device)
        features = self.pool.features_N_D.__getitem__, self.targets.features_N_D.__getitem__
        return self._information(everything, *features, self.pool.start_N, self.targets.start_N)

    def gains(self, positions: Tensor) -> Tensor:
        """Σ_j v_j I[Y; Y*_j | labels so far] of each position."""
        positions = positions.to(self.weights_M.device)
        features = self.pool.left if self.pool.sharp else self.pool.features_N_D.__getitem__
        return self._information(positions, features, self.targets.left, self.pool.variance_N, self.targets.variance_N)

    def take(self, position: int) -> None:
        """Take a point: a row of the Cholesky factor, and less variance at points and targets."""
        row_D = self.pool.row(position)
        if row_D is not None:
            self.targets.explain(row_D, self.pool.keep(position))
            self.pool.take(position, row_D)

    @property
    def remaining(self) -> float:
        """Σ_j v_j I[Y*_j; F | labels so far]: nobody can tell more about the targets than their latent values do."""
        return 0.5 * float((self.targets.variance_N / self.targets.noise_N).log1p() @ self.weights_M)

    def value(self, positions: Tensor) -> float:
        """What the labels of a set tell about a target, from the singular values of the set: the reference."""
        features_B_D, noise_B = self.pool.at(positions.to(self.weights_M.device))
        _, singular_R, vectors_R_D = torch.linalg.svd(features_B_D * noise_B.rsqrt()[:, None], full_matrices=False)
        after = ConditionedFeatures(
            self.targets.features_N_D, self.targets.noise_N, Settled(vectors_R_D, singular_R.square())
        )
        after.sharpen()
        total_M = self.targets.start_N + self.targets.noise_N
        share_M = after.explained_variances() / total_M
        # Either is a sum of squares: what is told keeps its digits where it is little, what is left where it is much.
        log_left_M = torch.where(
            share_M < 0.5, (-share_M.clamp_max(0.5)).log1p(), ((after.start_N + self.targets.noise_N) / total_M).log()
        )
        return -0.5 * float(log_left_M @ self.weights_M)

    def _information(
        self,
        positions: Tensor,
        features: Callable[[Tensor], Tensor],
        left: Callable[[slice], Tensor],
        variance_N: Tensor,
        variance_M: Tensor,
    ) -> Tensor:
        """−½ Σ_j v_j ln(1 − ρ²) of some positions, with these features and covariances."""
        count, width = self.targets.features_N_D.shape
        total_M = variance_M + self.targets.noise_N
        open_M = self.targets.noise_N / total_M
        columns = min(_COLUMNS, count, rows_per_chunk(24 * width, self.weights_M.device))
        parts = [slice(start, min(start + columns, count)) for start in range(0, count, columns)]

        def white(some: slice) -> Tensor:
            return left(some).double() / total_M[some].sqrt()[:, None]

        held = [white(some) for some in parts] if fits(16 * count * width) else None

        def work(part: slice) -> Tensor:
            noise_n = self.pool.noise_N[positions[part]]
            total_n = variance_N[positions[part]] + noise_n
            white_n_D = features(positions[part]).double() / total_n.sqrt()[:, None]
            sum_n = torch.zeros_like(total_n)
            for number, some in enumerate(parts):
                white_m_D = white(some) if held is None else held[number]
                sum_n -= log_open(white_n_D, white_m_D, noise_n / total_n, open_M[some]) @ self.weights_M[some]
            return 0.5 * sum_n

        each = 8 * (3 * width + 3 * columns)
        return chunked(work, len(positions), each, self.weights_M.device).clamp_min_(0)


serves(
    EPIG,
    GaussianSamples,
    replace(_FACTS, needs_draws=True, guarantee="approximate", why=BY_MOMENTS),
)(GaussianEPIG)
serves(EPIG, GaussianFeatures, replace(_FACTS, conditions=True))(GaussianEPIG)
