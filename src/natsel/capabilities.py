"""The seam between objectives and searches: what a state can do, what a search needs, what it returns.

A state is an objective read from a belief over N points. Everything speaks *positions* 0..N-1 into that
belief; ids of the user's data are put back by the caller.
docs/architecture.md; docs/theory/batchbald.md, 7; docs/theory/stochastic-batches.md, 6.
"""

from dataclasses import dataclass
from enum import Flag, auto
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor


class Capability(Flag):
    """What a state offers; a search names what it `needs`, and that decides which pairs are legal."""

    SCORES = auto()  # one number per point, points taken alone
    GAINS = auto()  # what a point adds to those already added
    VALUE = auto()  # the worth of any set of points
    DISTANCES = auto()  # how far points are from each other in the objective's geometry
    KERNEL = auto()  # inner products of points in that geometry


class Scored(Protocol):
    """Scores points one by one."""

    def scores(self) -> Tensor:
        """One float64 score per position, N values, bigger is better."""
        ...


class Shortlisted(Scored, Protocol):
    """Scores some points in full, and knows what no score exceeds for all of them: searches need not look at all."""

    def ceilings(self, worth: float) -> Tensor:
        """N values that the scores (once points were added, the gains) do not exceed, as far as is known now.

        Only points that reach `worth` are of interest: ceilings below it need not be any tighter.
        """
        ...

    def scores_at(self, positions: Tensor) -> Tensor:
        """The scores (once points were added, the gains) of some positions, in full."""
        ...


class SequentialState(Scored, Protocol):
    """Builds a batch point by point."""

    @property
    def total(self) -> float:
        """Worth of the points added so far, 0 when none was."""
        ...

    @property
    def exact(self) -> bool:
        """Whether the gains are exact now, rather than estimated from samples."""
        ...

    @property
    def remaining(self) -> float:
        """An upper bound on what all further points together can add, inf where none is known."""
        ...

    @property
    def prefers_racing(self) -> bool:
        """Whether the state is `Raced`, and reading all gains in full now costs more than a race."""
        ...

    @property
    def submodular(self) -> bool:
        """Whether gains only fall as points are added, so that an earlier gain bounds a later one."""
        ...

    def bounds(self) -> Tensor:
        """N upper bounds on the gains before any point is added: the scores, or a cheap stand-in."""
        ...

    def gains(self, positions: Tensor) -> Tensor:
        """What each position would add to the points added so far."""
        ...

    def add(self, position: int) -> float:
        """Add the point and return its gain."""
        ...


class Estimated(SequentialState, Protocol):
    """Estimates gains from samples unless `exact`, and knows how unsure a lead is; found by its name."""

    def errors(self, positions: Tensor, leader: int) -> Tensor:
        """Standard errors of the gain of `leader` less that of each position."""
        ...


class Raced(SequentialState, Protocol):
    """Estimates gains as sums over rows of samples, on few rows or on many."""

    @property
    def level_count(self) -> int:
        """How many levels there are; the last reads all rows."""
        ...

    def terms(self, positions: Tensor, level: int) -> Tensor:
        """The gains at a level, row by row: [n, rows], float32, summing to the gain."""
        ...

    def rejection_probs(self, level: int) -> Tensor:
        """1 − the probability with which sampling kept each row of a level; 0 for rows that are always kept."""
        ...


class Valued(Protocol):
    """Knows the worth of a whole set."""

    def value(self, positions: Tensor) -> float:
        """Worth of the set of positions; 0 for the empty set."""
        ...


class Costed(Valued, Protocol):
    """Says beforehand what the value of a set costs; an extra that a search finds by its name."""

    def operations(self, size: int) -> float:
        """About how many operations `value` of so many points takes at most: 1e9 are a second of one core."""
        ...


class Removable(SequentialState, Protocol):
    """Builds a batch that points can leave again; an extra that a search finds by its names."""

    def losses(self, positions: Tensor) -> Tensor:
        """What the points added so far would be worth less without each of these, which are some of them."""
        ...

    def remove(self, position: int) -> float:
        """Take an added point out again and return what that costs."""
        ...


class Located(Scored, Protocol):
    """Gives every point a place, in a geometry in which length is what the objective wants."""

    def sizes(self) -> Tensor:
        """Squared lengths, N values."""
        ...

    def distances(self, position: int) -> Tensor:
        """Squared distances of all points to one, N values; 0, up to rounding, for the point itself."""
        ...


class Seen(Located, Protocol):
    """Tells distances to several points in one look at all; an extra that a search finds by its name."""

    def distances_to(self, positions: Tensor) -> Tensor:
        """Squared distances of all points to each of some, [positions, N]."""
        ...


class Related(Located, Protocol):
    """Knows inner products in that geometry: sizes are the diagonal, distances s_i + s_j − 2 k_ij."""

    def kernel(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Inner products of some positions with some others, [rows, columns]."""
        ...


@dataclass(frozen=True)
class Choice:
    """One greedy pick: where, by how much it led the runner-up, and the standard error of that lead.

    >>> Choice(3, gap=0.2, error=0.0).position
    3
    """

    position: int
    gap: float
    error: float


@dataclass(frozen=True)
class Picks:
    """What a search found, in pick order, on the CPU.

    >>> Picks(torch.tensor([3, 1]), torch.tensor([0.9, 0.4]), total=1.3).positions.tolist()
    [3, 1]
    """

    positions: Tensor  # int64
    scores: Tensor  # float64, one per pick: the unperturbed score, or the marginal gain where sequential
    total: float
    perturbed: Tensor | None = None  # log w + Gumbel / beta of the picks, stochastic searches only
    log_prob: float | None = None  # of exactly this ordered batch, stochastic searches only
    gaps: Tensor | None = None  # lead of each pick over its runner-up, at its step or, taken at once, left out
    gap_errors: Tensor | None = None  # standard errors of the gaps, 0 where exact
    notes: tuple[str, ...] = ()  # sentences for the user


class Search(Protocol):
    """A way to find k positions: a frozen value, called with a state."""

    needs: ClassVar[Capability]

    def __call__(self, state: Any, k: int, allowed_N: Tensor, generator: torch.Generator) -> Picks:
        """Pick k of the positions allowed by the mask; the caller has checked k <= allowed_N.sum()."""
        ...
