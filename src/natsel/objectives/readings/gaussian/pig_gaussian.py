"""PIG and JPIG read from jointly Gaussian points, in closed form.

    PIG    Σ_j v_j ( −½ ln(1−ρ²) − (ρ²(z² + z_j²) − 2ρ z z_j) / (2(1−ρ²)) )      z = (y − mean)/√S,  ρ = Cov/√(S S_j)
    JPIG   ln N(y; mean | targets, S | targets) − ln N(y; mean, S)               S = Var f + noise

LabelledPoints taken update features and means of candidates and targets alike (`natsel.beliefs.updates`).
docs/theory/epig-jepig.md, 6 and 11.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

import torch
from torch import Tensor

from natsel.beliefs import GaussianFeatures
from natsel.beliefs.updates import Update, gaussian_update
from natsel.memory import chunked, fits, require, rows_per_chunk
from natsel.objectives.objective import Argument
from natsel.objectives.pig import JPIG, PIG
from natsel.objectives.reading import Context, PairFacts, serves
from natsel.objectives.readings.batch_state import TakingState
from natsel.objectives.readings.gaussian.gaussian_points import log_open

_FACTS = PairFacts(needs=Argument.LABELS | Argument.TARGETS, nonnegative=False)

# Tables of N × D that a state may keep at once: two sides, each before and after a label.
_TABLES = 4


class LabelledPoints:
    """Labelled points with features: what is expected of each, and how far its label is from it.

    What labels did to the features is written out where it fits the memory budget, and done again where they are
    looked at where it does not.
    """

    def __init__(self, features_N_D: Tensor, noise_N: Tensor, gap_N: Tensor, updates: tuple[Update, ...] = ()) -> None:
        self.features_N_D, self.noise_N, self.gap_N, self.updates = features_N_D, noise_N, gap_N, updates

    def at(self, rows: Tensor | slice) -> Tensor:
        """Features of some points in float64."""
        features_n_D = self.features_N_D[rows].double()
        for update in self.updates:
            features_n_D = update.features(features_n_D)
        return features_n_D

    @cached_property
    def variance_N(self) -> Tensor:
        """S: the variance of each label."""
        return self.each(lambda part: self.at(part).square().sum(1)) + self.noise_N

    def given(self, other: "LabelledPoints", which: Tensor | None = None) -> "LabelledPoints":
        """These points once the labels of others are known."""
        rows = slice(None) if which is None else which
        update = gaussian_update(other.at(rows), other.noise_N[rows], other.gap_N[rows])
        gap_N = self.gap_N - self.each(lambda part: update.mean(self.at(part)))
        if not fits(8 * _TABLES * self.features_N_D.numel()):
            return LabelledPoints(self.features_N_D, self.noise_N, gap_N, (*self.updates, update))
        return LabelledPoints(self.each(lambda part: update.features(self.at(part))), self.noise_N, gap_N)

    def log_density(self, rows: Tensor | slice = slice(None)) -> Tensor:
        """ln N(y; mean, S) of some labels."""
        variance_n = self.variance_N[rows]
        return -0.5 * (self.gap_N[rows].square() / variance_n + (2 * math.pi * variance_n).log())

    def log_joint(self, which: Tensor) -> float:
        """ln of the joint density of some labels."""
        rows = which.to(self.gap_N.device)
        return gaussian_update(self.at(rows), self.noise_N[rows], self.gap_N[rows]).log_evidence

    def each(self, work: Callable[[slice], Tensor]) -> Tensor:
        """Work on some points after the other, within the memory budget."""
        return chunked(work, len(self.gap_N), 40 * self.features_N_D.shape[1], self.gap_N.device)


class GaussianKnown(TakingState):
    """What both share: candidates and targets with their labels, and points taken one by one."""

    def __init__(self, objective: PIG | JPIG, belief: GaussianFeatures, context: Context[GaussianFeatures]) -> None:
        targets = context.targets
        if targets.labels_M is None:
            raise ValueError(
                "targets: their labels are not known, and PIG and JPIG weigh them; pass natsel.Targets(belief,"
                " labels=…), or choose EPIG"
            )
        self.weights_M = targets.weights_M
        self.points, self.targets = labelled(belief, context.labels_N), labelled(targets.belief, targets.labels_M)


@serves(PIG, GaussianFeatures, replace(_FACTS, cost="N·M·D"))
class GaussianPIG(GaussianKnown):
    """Gains about each target label, given the labels taken so far."""

    def __init__(self, objective: PIG, belief: GaussianFeatures, context: Context[GaussianFeatures]) -> None:
        super().__init__(objective, belief, context)
        self.now = self.points, self.targets

    def scores(self) -> Tensor:
        """PIG of every label by itself."""
        return self._pig(
            self.points, self.targets, torch.arange(len(self.points.gap_N), device=self.points.gap_N.device)
        )

    def gains(self, positions: Tensor) -> Tensor:
        """PIG of each position once the labels so far are known."""
        return self._pig(*self.now, positions.to(self.points.gap_N.device))

    def take(self, position: int) -> None:
        """Take a point: candidates and targets learn its label."""
        which = torch.tensor([position], device=self.points.gap_N.device)
        points, targets = self.now
        self.now = points.given(points, which), targets.given(points, which)

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

    def _pig(self, points: LabelledPoints, targets: LabelledPoints, rows: Tensor) -> Tensor:
        scale_M, share_M = targets.variance_N.rsqrt(), self._shares()
        z_M, open_M = targets.gap_N * scale_M, targets.noise_N * scale_M.square()
        count, width = targets.features_N_D.shape
        step = rows_per_chunk(16 * (width + 8), z_M.device)
        parts = [slice(start, min(start + step, count)) for start in range(0, count, step)]

        def white(some: slice) -> Tensor:
            return targets.at(some) * scale_M[some, None]

        held = [white(some) for some in parts] if fits(16 * count * width) else None

        def work(part: slice) -> Tensor:
            which_n = rows[part]
            scale_n = points.variance_N[which_n].rsqrt()
            z_n_1, open_n = (points.gap_N[which_n] * scale_n)[:, None], points.noise_N[which_n] * scale_n.square()
            features_n_D, total_n = points.at(which_n) * scale_n[:, None], torch.zeros_like(scale_n)
            for number, some in enumerate(parts):
                aims_m_D, z_m = white(some) if held is None else held[number], z_M[some]
                log_open_n_m = log_open(features_n_D, aims_m_D, open_n, open_M[some])
                rho_n_m = features_n_D @ aims_m_D.T
                square_n_m, open_n_m = rho_n_m.square(), log_open_n_m.exp()
                # Two forms of one number: the first keeps its digits where ρ is small, the second where it is near 1.
                misfit_n_m = torch.where(
                    square_n_m < 0.5,
                    (square_n_m * (z_n_1.square() + z_m.square()) - 2 * rho_n_m * z_n_1 * z_m) / open_n_m,
                    (z_m - rho_n_m * z_n_1).square() / open_n_m - z_m.square(),
                )
                total_n -= 0.5 * ((log_open_n_m + misfit_n_m) @ share_M[some])
            return total_n

        return chunked(work, len(rows), 80 * min(step, count) + 24 * width, z_M.device)


@serves(JPIG, GaussianFeatures, replace(_FACTS, cost="(M + N)·D·min(M, D)"))
class GaussianJPIG(GaussianKnown):
    """Gains about all target labels together: candidates without and with the target labels."""

    def __init__(self, objective: JPIG, belief: GaussianFeatures, context: Context[GaussianFeatures]) -> None:
        super().__init__(objective, belief, context)
        if self.weights_M is not None:
            raise ValueError("target weights: JPIG takes all targets together and has no use for them; use PIG")
        count, width = self.targets.features_N_D.shape
        require(
            64 * count * width,
            f"targets: eight matrices of {count} × {width} for what their labels tell together",
            "use fewer targets",
        )
        self.informed = self.points.given(self.targets)
        self.before, self.after = self.points, self.informed

    def scores(self) -> Tensor:
        """JPIG of every label by itself."""
        return self.informed.log_density() - self.points.log_density()

    def gains(self, positions: Tensor) -> Tensor:
        """ln p(y|labels so far, y*_1..M) − ln p(y|labels so far) of each position."""
        rows = positions.to(self.points.gap_N.device)
        return self.after.log_density(rows) - self.before.log_density(rows)

    def take(self, position: int) -> None:
        """Take a point on both sides."""
        which = torch.tensor([position], device=self.points.gap_N.device)
        self.before, self.after = self.before.given(self.before, which), self.after.given(self.after, which)

    def value(self, positions: Tensor) -> float:
        """What a set of labels tells, from their joint density on both sides."""
        if len(positions) == 0:
            return 0.0
        return self.informed.log_joint(positions) - self.points.log_joint(positions)


def labelled(belief: GaussianFeatures, labels_N: Tensor) -> LabelledPoints:
    """Points of a belief with their labels.

    >>> labelled(GaussianFeatures([[1.0]], mean=2.0), torch.tensor([3.0])).gap_N.tolist()
    [1.0]
    """
    return LabelledPoints(belief.features_N_D, belief.noise_N, labels_N.to(belief.device).double() - belief.mean_N)
