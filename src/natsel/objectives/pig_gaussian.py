"""PIG and JPIG read from jointly Gaussian points, in closed form.

    PIG    Σ_j v_j ( −½ ln(1−ρ²) − (ρ²(z² + z_j²) − 2ρ z z_j) / (2(1−ρ²)) )      z = (y − mean)/√S,  ρ = Cov/√(S S_j)
    JPIG   ln N(y; mean | targets, S | targets) − ln N(y; mean, S)               S = Var f + noise

Points taken update features and means of candidates and targets alike (`natsel.beliefs.updates`).  Spec 07, Q2 and Q3;
spec 06, Q3c.
"""

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from natsel.beliefs import GaussianFeatures
from natsel.beliefs.updates import gaussian_update
from natsel.capabilities import Capability
from natsel.memory import chunked, rows_per_chunk
from natsel.objectives.gaussian_points import log_open
from natsel.objectives.pig import JPIG, PIG
from natsel.objectives.protocol import Reading, serves


class Points:
    """Labelled points with features: what is expected of each, and how far its label is from it."""

    def __init__(self, features_N_D: Tensor, noise_N: Tensor, gap_N: Tensor) -> None:
        self.features_N_D, self.noise_N, self.gap_N = features_N_D.double(), noise_N, gap_N

    @property
    def variance_N(self) -> Tensor:
        """S: the variance of each label."""
        return self.features_N_D.square().sum(1) + self.noise_N

    def given(self, other: "Points", which: Tensor | None = None) -> "Points":
        """These points once the labels of others are known."""
        rows = slice(None) if which is None else which
        update = gaussian_update(other.features_N_D[rows], other.noise_N[rows], other.gap_N[rows])
        gap_N = self.gap_N - update.mean(self.features_N_D)
        return Points(update.features(self.features_N_D), self.noise_N, gap_N)

    def log_density(self) -> Tensor:
        """ln N(y; mean, S), one a point."""
        variance_N = self.variance_N
        return -0.5 * (self.gap_N.square() / variance_N + (2 * math.pi * variance_N).log())

    def log_joint(self, which: Tensor) -> float:
        """ln of the joint density of some labels."""
        rows = which.to(self.gap_N.device)
        return gaussian_update(self.features_N_D[rows], self.noise_N[rows], self.gap_N[rows]).log_evidence


class GaussianKnown(ABC):
    """What both share: candidates and targets with their labels, and points taken one by one."""

    offers: ClassVar[Capability] = Capability.SCORES | Capability.GAINS | Capability.VALUE
    submodular: ClassVar[bool] = False
    worth_racing: ClassVar[bool] = False
    exact: ClassVar[bool] = True
    remaining: ClassVar[float] = torch.inf

    def __init__(self, objective: PIG | JPIG, belief: GaussianFeatures, reading: Reading) -> None:
        targets = reading.targets
        assert reading.labels_N is not None
        assert targets is not None
        assert isinstance(targets.belief, GaussianFeatures)
        if targets.labels_M is None:
            raise ValueError(
                "targets: their labels are not known, and PIG and JPIG weigh them; pass natsel.Targets(belief,"
                " labels=…), or choose EPIG"
            )
        self.weights_M, self.total = targets.weights_M, 0.0
        self.points, self.targets = labelled(belief, reading.labels_N), labelled(targets.belief, targets.labels_M)

    def bounds(self) -> Tensor:
        """The scores, which bound nothing once a point is taken."""
        return self.scores()

    @abstractmethod
    def scores(self) -> Tensor:
        """What each label tells by itself, N values in nats."""


@serves(PIG, GaussianFeatures)
class GaussianPIG(GaussianKnown):
    """Gains about each target label, given the labels taken so far."""

    def __init__(self, objective: PIG, belief: GaussianFeatures, reading: Reading) -> None:
        super().__init__(objective, belief, reading)
        self.now = self.points, self.targets

    def scores(self) -> Tensor:
        """PIG of every label by itself."""
        return self._pig(self.points, self.targets)

    def gains(self, positions: Tensor) -> Tensor:
        """PIG of each position once the labels so far are known."""
        points, targets = self.now
        rows = positions.to(points.gap_N.device)
        return self._pig(Points(points.features_N_D[rows], points.noise_N[rows], points.gap_N[rows]), targets)

    def add(self, position: int) -> float:
        """Take a point: candidates and targets learn its label."""
        which = torch.tensor([position], device=self.points.gap_N.device)
        gain = float(self.gains(which)[0])
        points, targets = self.now
        self.now = points.given(points, which), targets.given(points, which)
        self.total += gain
        return gain

    def value(self, positions: Tensor) -> float:
        """What a set of labels tells, from the densities of the targets before and after."""
        after = self.targets.given(self.points, positions.to(self.points.gap_N.device)) if len(positions) else None
        if after is None:
            return 0.0
        return float((after.log_density() - self.targets.log_density()) @ self._shares())

    def _shares(self) -> Tensor:
        count = len(self.targets.gap_N)
        if self.weights_M is None:
            return self.targets.gap_N.new_full((count,), 1 / count)
        return self.weights_M / self.weights_M.sum()

    def _pig(self, points: Points, targets: Points) -> Tensor:
        scale_N, scale_M = points.variance_N.rsqrt(), targets.variance_N.rsqrt()
        z_N, z_M, share_M = points.gap_N * scale_N, targets.gap_N * scale_M, self._shares()
        open_N, open_M = points.noise_N * scale_N.square(), targets.noise_N * scale_M.square()
        aims_M_D = targets.features_N_D * scale_M[:, None]
        step = rows_per_chunk(8 * (aims_M_D.shape[1] + 8), z_N.device)

        def work(part: slice) -> Tensor:
            total_n = torch.zeros_like(z_N[part])
            features_n_D = points.features_N_D[part] * scale_N[part, None]
            for aims_m_D, z_m, open_m, share_m in zip(
                *(torch.split(all_M, step) for all_M in (aims_M_D, z_M, open_M, share_M)), strict=True
            ):
                log_open_n_m = log_open(features_n_D, aims_m_D, open_N[part], open_m)
                rho_n_m = features_n_D @ aims_m_D.T
                z_n_1, square_n_m, open_n_m = z_N[part, None], rho_n_m.square(), log_open_n_m.exp()
                # Two forms of one number: the first keeps its digits where ρ is small, the second where it is near 1.
                misfit_n_m = torch.where(
                    square_n_m < 0.5,
                    (square_n_m * (z_n_1.square() + z_m.square()) - 2 * rho_n_m * z_n_1 * z_m) / open_n_m,
                    (z_m - rho_n_m * z_n_1).square() / open_n_m - z_m.square(),
                )
                total_n -= 0.5 * ((log_open_n_m + misfit_n_m) @ share_m)
            return total_n

        return chunked(work, len(z_N), 80 * min(step, len(z_M)), z_N.device)


@serves(JPIG, GaussianFeatures)
class GaussianJPIG(GaussianKnown):
    """Gains about all target labels together: candidates without and with the target labels."""

    def __init__(self, objective: JPIG, belief: GaussianFeatures, reading: Reading) -> None:
        super().__init__(objective, belief, reading)
        if self.weights_M is not None:
            raise ValueError("target weights: JPIG takes all targets together and has no use for them; use PIG")
        self.informed = self.points.given(self.targets)
        self.before, self.after = self.points, self.informed

    def scores(self) -> Tensor:
        """JPIG of every label by itself."""
        return self.informed.log_density() - self.points.log_density()

    def gains(self, positions: Tensor) -> Tensor:
        """ln p(y|labels so far, y*_1..M) − ln p(y|labels so far) of each position."""
        rows = positions.to(self.points.gap_N.device)
        return (self.after.log_density() - self.before.log_density())[rows]

    def add(self, position: int) -> float:
        """Take a point on both sides."""
        which = torch.tensor([position], device=self.points.gap_N.device)
        gain = float(self.gains(which)[0])
        self.before, self.after = self.before.given(self.before, which), self.after.given(self.after, which)
        self.total += gain
        return gain

    def value(self, positions: Tensor) -> float:
        """What a set of labels tells, from their joint density on both sides."""
        if len(positions) == 0:
            return 0.0
        return self.informed.log_joint(positions) - self.points.log_joint(positions)


def labelled(belief: GaussianFeatures, labels_N: Tensor) -> Points:
    """Points of a belief with their labels.

    >>> labelled(GaussianFeatures([[1.0]], mean=2.0), torch.tensor([3.0])).gap_N.tolist()
    [1.0]
    """
    return Points(belief.features_N_D, belief.noise_N, labels_N.to(belief.device).double() - belief.mean_N)
