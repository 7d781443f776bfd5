"""EIG read from Gaussian beliefs: ½ log det(I + Φ Φᵀ / noise), one row per pick (MaxDet).

    gain_n = ½ ln(1 + s_n / noise_n),          s_n = Var[f_n | points added], for the points that are looked at

Points given are conditioned on once, by what all their labels settle together (`settled`).

Draws of Gaussians are moment-matched, with noise = E v, and gain ½ (ln E v − E ln v) more: an upper bound on the
mixture's value, still monotone and submodular.
docs/theory/epig-jepig.md, 2; docs/theory/black-box.md, 5.2; Kirsch 2023, black-box batch active learning.
"""

from dataclasses import replace
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from natsel.beliefs import GaussianFeatures, GaussianSamples
from natsel.capabilities import GEOMETRY, Capability
from natsel.information.conditioning.lazy_variances import LazyVariances
from natsel.information.gaussians import log_det_gain
from natsel.memory import chunked
from natsel.objectives.eig import EIG
from natsel.objectives.objective import Argument
from natsel.objectives.reading import Context, PairFacts, serves
from natsel.objectives.readings.batch_state import TakingState
from natsel.objectives.readings.gaussian.gaussian_points import MOMENTS, Gaussian, known_from, moments_of
from natsel.rounding import ROUNDING, TIE

_FIRST = 256  # points that show how large gains are

_FACTS = PairFacts(takes=Argument.GIVEN, monotone=True, submodular=True, cost="N·D, a batch k·N·D")


class GaussianEIG(TakingState):
    """Gains conditional on the values of the points added so far."""

    offers: ClassVar[Capability] = TakingState.offers | GEOMETRY | Capability.CEILINGS
    submodular: ClassVar[bool] = True

    def __init__(self, objective: EIG, belief: Gaussian, context: Context[Gaussian]) -> None:
        features_N_D, self.noise_N = moments_of(belief)
        self.points = LazyVariances(features_N_D, self.noise_N, known_from(context.given, features_N_D))
        # ln E v − E ln v of the draws' noise: 0 where they agree on it, else known before any label is seen.
        self.spread_N = torch.zeros_like(self.noise_N)
        if isinstance(belief, GaussianSamples):
            variance_N_K, weights_K = belief.variance_N_K, belief.log_weights_K.exp()

            def spread(part: slice) -> Tensor:
                ratio_n_K = variance_N_K[part].double() / self.noise_N[part, None]
                return (ratio_n_K - 1 - ratio_n_K.log()) @ weights_K  # 0 without rounding where draws agree

            self.spread_N = chunked(spread, len(belief), 40 * len(weights_K), belief.device).clamp_min_(0)
        # Ceilings may be far above all variances, the largest of the first ones that will be looked at is not.
        first_n = (self.points.variance_N / self.noise_N).topk(min(_FIRST, len(self.noise_N))).indices
        self.largest = float((self.points.variances(first_n) / self.noise_N[first_n]).max())

    @property
    def warnings(self) -> tuple[str, ...]:
        """That nothing can be learnt, where all predictions agree on every point."""
        if float(self.points.own_N.max()) > 0 or float(self.spread_N.max()) > 0:
            return ()
        return (
            "no disagreement: all predictions agree, so that no label tells anything; picks are in order of the pool",
        )

    @property
    def tie(self) -> float:
        """Gains keep their digits however small they all are, as under large noise."""
        return TIE * min(1.0, self.largest)

    def scores(self) -> Tensor:
        """½ ln(1 + Var f / noise) of every point by itself, N values in nats."""
        return 0.5 * (self.size_N.log1p() + self.spread_N)

    def ceilings(self, worth: float) -> Tensor:
        """The same from variances as they were when a point was last looked at: labels only lower them."""
        return 0.5 * ((self.points.variance_N / self.noise_N).log1p_() + self.spread_N)

    def bounds(self) -> Tensor:
        """What no point adds more than."""
        return self.ceilings(0.0)

    def scores_at(self, positions: Tensor) -> Tensor:
        """Scores, or gains once points were added, of some positions."""
        return self.gains(positions.to(self.noise_N.device))

    def gains(self, positions: Tensor) -> Tensor:
        """I[Y; F | values so far] for each position."""
        variance_n = self.points.variances(positions)
        return 0.5 * ((variance_n / self.noise_N[positions]).log1p() + self.spread_N[positions])

    def take(self, position: int) -> None:
        """Take a point: one more row, which lowers the variances of points when they are next looked at."""
        self.points.take(position)

    def value(self, positions: Tensor) -> float:
        """The joint value of a set from its singular values: the reference."""
        positions = positions.to(self.noise_N.device)
        features_B_D, noise_B = self.points.at(positions)
        return float(log_det_gain(features_B_D, noise_B)) + 0.5 * float(self.spread_N[positions].sum())

    # Where points lie: φ/√noise, in which 1 + the squared length is the variance of a label over that of its noise.

    @cached_property
    def size_N(self) -> Tensor:
        """Var f / noise, worked out once."""
        return self.points.start_N / self.noise_N

    def sizes(self) -> Tensor:
        """Var f / noise of every point by itself, N values."""
        return self.size_N

    def distances(self, position: int) -> Tensor:
        """‖φ_n/√noise_n − φ_i/√noise_i‖² of all points to one, N values; what is less than rounding is 0."""
        return self.distances_to(torch.tensor([position]))[0]

    def distances_to(self, positions: Tensor, out: Tensor | None = None) -> Tensor:
        """The same to each of some positions, [positions, N]: one matrix product for all of them."""
        positions = positions.to(self.noise_N.device)
        product_N_m = self._inner(None, positions)
        far_m_N = self.size_N[positions][:, None] + self.size_N
        distance_m_N = far_m_N - 2 * product_N_m.T
        distance_m_N.masked_fill_(~(distance_m_N > ROUNDING * far_m_N), 0.0)
        return distance_m_N if out is None else out.copy_(distance_m_N)

    def kernel(self, rows: Tensor, columns: Tensor) -> Tensor:
        """φ_i·φ_j/√(noise_i noise_j) of some positions with some others, [rows, columns]."""
        return self._inner(rows.to(self.noise_N.device), columns.to(self.noise_N.device))

    def _inner(self, rows: Tensor | None, columns: Tensor) -> Tensor:
        """Inner products of φ/√noise of some positions, or of all, with some others, given the points given."""
        features_N_D, known = self.points.features_N_D, self.points.known
        few_m_D = features_N_D[columns].double() * self.noise_N[columns].rsqrt()[:, None]
        if known is not None:
            few_m_D = few_m_D - known.along(few_m_D)

        def work(part: slice) -> Tensor:
            some = part if rows is None else rows[part]
            return self.noise_N[some].rsqrt()[:, None] * (features_N_D[some].double() @ few_m_D.T)

        count, width = len(self.noise_N) if rows is None else len(rows), few_m_D.shape[1]
        return chunked(work, count, 8 * (2 * width + 2 * len(columns)), self.noise_N.device)


serves(EIG, GaussianSamples, replace(_FACTS, needs_draws=True, guarantee="upper", why=MOMENTS))(GaussianEIG)
serves(EIG, GaussianFeatures, _FACTS)(GaussianEIG)
