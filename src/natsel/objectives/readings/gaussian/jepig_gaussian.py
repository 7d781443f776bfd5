"""JEPIG read from Gaussian beliefs: two EIG states in closed form, one before and one after all target labels.

    gain_n = ½ ln((s_n + noise_n) / (s'_n + noise_n))     s, s': Var f_n given points added, and given all targets too
    s_n − s'_n = Σ_r c_r (φ_n·v_r)²,  c_r = σ_r²/(1 + σ_r²)             σ, v: singular values and vectors of Φ*/√noise

Before any point is added the difference is a sum of squares, so that the smallest scores keep their digits; the cost is
one factorisation of the targets, M·D·min(M, D), and N·D·min(M, D). Exact for jointly Gaussian beliefs; draws of
Gaussians are moment-matched.
docs/theory/epig-jepig.md, 6 and 8.
"""

from dataclasses import replace

from torch import Tensor

from natsel.beliefs import GaussianFeatures, GaussianSamples
from natsel.information.conditioning.conditioned_features import ConditionedFeatures, sharpened
from natsel.information.conditioning.settled import Settled, settled_by
from natsel.information.gaussians import log_det_gain
from natsel.objectives.jepig import JEPIG
from natsel.objectives.objective import Argument
from natsel.objectives.reading import Context, PairFacts, serves
from natsel.objectives.readings.batch_state import TakingState
from natsel.objectives.readings.gaussian.gaussian_points import BY_MOMENTS, Gaussian, points_and_targets

_FACTS = PairFacts(needs=Argument.TARGETS, monotone=True, cost="(M + N)·D·min(M, D), a batch k·N·D")


class GaussianJEPIG(TakingState):
    """Gains about all targets together, conditional on the labels of the points added so far."""

    def __init__(self, objective: JEPIG, belief: Gaussian, context: Context[Gaussian]) -> None:
        if context.targets.weights_M is not None:
            raise ValueError("target weights: JEPIG takes all targets together and has no use for them; use EPIG")
        self.before, targets = points_and_targets(belief, context.targets)
        self.sharp = sharpened(self.before, targets)
        self.known = settled_by_targets(targets, self.sharp)
        self.available = self.known.nats  # I[Y*_1..Y*_M; F]: all there is to say about the targets
        self.after = ConditionedFeatures(self.before.features_N_D, self.before.noise_N, self.known)
        if self.sharp:
            self.after.sharpen()
        self.explained_N = self.after.explained_variances()

    def scores(self) -> Tensor:
        """JEPIG of every point by itself, N values in nats."""
        return _information(self.after.explained_variances(), self.after.start_N + self.after.noise_N)

    def gains(self, positions: Tensor) -> Tensor:
        """I[Y; Y*_1..Y*_M | labels so far] of each position."""
        positions = positions.to(self.explained_N.device)
        total_n = self.after.variance_N[positions] + self.after.noise_N[positions]
        return _information(self.explained_N[positions], total_n)

    def take(self, position: int) -> None:
        """Take a point in both states."""
        for points, sign in ((self.before, -1), (self.after, 1)):
            row_D = points.row(position)
            if row_D is not None:
                self.explained_N = self.explained_N + sign * points.take(position, row_D)
        if self.sharp:  # sums of what each label took would be rounding
            self.explained_N = self.before.variance_N - self.after.variance_N

    def value(self, positions: Tensor) -> float:
        """What the labels of a set tell about all targets, from the singular values of the set: the reference."""
        features_B_D, noise_B = self.before.at(positions.to(self.explained_N.device))
        after = ConditionedFeatures(features_B_D, noise_B, self.known)
        after.sharpen()
        return float(log_det_gain(features_B_D, noise_B) - log_det_gain(after.left(slice(None)), noise_B))


serves(
    JEPIG,
    GaussianSamples,
    replace(_FACTS, needs_draws=True, guarantee="approximate", why=BY_MOMENTS),
)(GaussianJEPIG)
serves(JEPIG, GaussianFeatures, replace(_FACTS, conditions=True))(GaussianJEPIG)


def settled_by_targets(targets: ConditionedFeatures, sharp: bool) -> Settled:
    """What target labels tell about the weights."""

    def rows(part: slice) -> Tensor:
        return targets.features_N_D[part].double() * targets.noise_N[part].rsqrt()[:, None]

    count, width = targets.features_N_D.shape
    return settled_by(rows, count, width, targets.noise_N.device, sharp)


def _information(explained_n: Tensor, left_n: Tensor) -> Tensor:
    """½ ln(1 + told/left): the variance of a label with and without the targets'."""
    return 0.5 * (explained_n.clamp_min(0) / left_n).log1p()
