"""The seam between objectives and searches: what a state can do, what a search needs, what it returns.

A state is an objective read from a belief over N points. Everything speaks *positions* 0..N-1 into that belief; ids of
the user's data are put back by the caller.

Everything that a search can ask of a state is a flag that the state declares in `offers`, and what a flag promises is a
protocol below. An ability contains the objective, its targets and the points given, or it is not offered: distances
that know nothing of the targets are no distances of an objective about targets.
docs/architecture.md; docs/theory/batchbald.md, 7; docs/theory/stochastic-batches.md, 6.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Flag, auto
from typing import ClassVar, Protocol, TypeGuard

import torch
from torch import Tensor

Progress = Callable[[int], None]
"""Called with 1 after each pick of a search that builds its batch step by step."""


class Capability(Flag):
    """What a state offers; a search names what it `needs`, and that decides which pairs are legal."""

    SCORES = auto()  # one number per point, points taken alone
    GAINS = auto()  # what a point adds to those already added
    VALUE = auto()  # the worth of any set of points
    DISTANCES = auto()  # how far points are from each other in the objective's geometry
    KERNEL = auto()  # inner products of points in that geometry
    CEILINGS = auto()  # cheap upper bounds on scores and gains, so that few are worked out in full
    ERRORS = auto()  # standard errors of leads, where gains are estimated from samples
    RACING = auto()  # gains as sums over few or many rows of samples
    REMOVAL = auto()  # points that were added can leave again
    MANY_DISTANCES = auto()  # distances to several points in one pass over the pool
    HELD = auto()  # distances to the points given, which count as taken before the first pick
    VECTORS = auto()  # points as vectors that can be added up
    OPERATIONS = auto()  # how many operations the value of a set takes
    SUCCESSOR = auto()  # a geometry in which to go on once nothing is left to tell
    BUDGET = auto()  # which points may still be added: labels have costs

    @property
    def words(self) -> str:
        """The flags in words, for messages.

        >>> (Capability.GAINS | Capability.MANY_DISTANCES).words
        'gains and many distances'
        """
        return " and ".join(flag.name.lower().replace("_", " ") for flag in self if flag.name)


GEOMETRY = Capability.DISTANCES | Capability.MANY_DISTANCES | Capability.KERNEL
"""Everything that can be asked of where points lie."""


class State(Protocol):
    """An objective read from a belief: scores points one by one, and says what else it can do."""

    @property
    def offers(self) -> Capability:
        """What a search may ask."""
        ...

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a user should know before trusting the scores."""
        ...

    def scores(self) -> Tensor:
        """One float64 score per position, N values, bigger is better."""
        ...


class SequentialState(State, Protocol):
    """GAINS: builds a batch point by point."""

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
        """Whether reading all gains in full now costs more than a race; False unless RACING is offered."""
        ...

    @property
    def tie(self) -> float:
        """Gains closer than this are equal: which of them is larger is rounding."""
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


class ValuedState(State, Protocol):
    """VALUE: knows the worth of a whole set."""

    def value(self, positions: Tensor) -> float:
        """Worth of the set of positions; 0 for the empty set."""
        ...


class GrowingSetState(SequentialState, ValuedState, Protocol):
    """GAINS and VALUE together."""


class CountedState(ValuedState, Protocol):
    """OPERATIONS: says beforehand how much work the value of a set is."""

    def operations(self, size: int) -> float:
        """About how many operations `value` of so many points takes at most: 1e9 are a second of one core."""
        ...


class BudgetedState(SequentialState, Protocol):
    """BUDGET: every point added costs something, and what is left of a budget decides which may still be added."""

    def affordable(self) -> Tensor:
        """Which points may still be added, N truth values."""
        ...


class ShortlistedState(State, Protocol):
    """CEILINGS: scores some points in full, and knows what no score exceeds: searches need not look at all."""

    def ceilings(self, worth: float) -> Tensor:
        """N values that the scores (once points were added, the gains) do not exceed, as far as is known now.

        Only points that reach `worth` are of interest: ceilings below it need not be any tighter.
        """
        ...

    def scores_at(self, positions: Tensor) -> Tensor:
        """The scores (once points were added, the gains) of some positions, in full."""
        ...


class EstimatedState(State, Protocol):
    """ERRORS: estimates gains from samples unless `exact`, and knows how unsure a lead is."""

    @property
    def exact(self) -> bool:
        """Whether the gains are exact now."""
        ...

    def errors(self, positions: Tensor, leader: int) -> Tensor:
        """Standard errors of the gain of `leader` less that of each position."""
        ...


class ExhaustibleState(SequentialState, Protocol):
    """SUCCESSOR: may have nothing left to tell before a batch is full, and knows in which geometry to go on."""

    def successor(self) -> tuple["LocatedState", str]:
        """The places of the same points, and the name of the method that draws by them."""
        ...


class RacedState(SequentialState, Protocol):
    """RACING: estimates gains as sums over rows of samples, on few rows or on many."""

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


class RemovableState(SequentialState, Protocol):
    """REMOVAL: builds a batch that points can leave again."""

    def losses(self, positions: Tensor) -> Tensor:
        """What the points added so far would be worth less without each of these, which are some of them."""
        ...

    def remove(self, position: int) -> float:
        """Take an added point out again and return what that costs."""
        ...


class LocatedState(State, Protocol):
    """DISTANCES: gives every point a place, in a geometry in which length is what the objective wants."""

    def sizes(self) -> Tensor:
        """Squared lengths, N values."""
        ...

    def distances(self, position: int) -> Tensor:
        """Squared distances of all points to one, N values; 0, up to rounding, for the point itself."""
        ...


class ManyDistancesState(LocatedState, Protocol):
    """MANY_DISTANCES: tells distances to several points in one pass."""

    def distances_to(self, positions: Tensor, out: Tensor | None = None) -> Tensor:
        """Squared distances of all points to each of some, [positions, N], written to `out` where there is one."""
        ...


class KernelState(LocatedState, Protocol):
    """KERNEL: knows inner products in that geometry: sizes are the diagonal, distances s_i + s_j − 2 k_ij."""

    def kernel(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Inner products of some positions with some others, [rows, columns]."""
        ...


class HeldState(LocatedState, Protocol):
    """HELD: knows how far points are from those given, so that a search starts as if it had taken these."""

    def nearest_held(self) -> tuple[Tensor, Tensor] | None:
        """Squared distance of every point to the nearest point given, and which of them that is, N values each; None
        where none is given.
        """
        ...


class VectorsState(State, Protocol):
    """VECTORS: points are vectors of P numbers, held or made where they are looked at."""

    def sizes(self) -> Tensor:
        """Squared lengths, N values."""
        ...

    def vectors(self, positions: Tensor) -> Tensor:
        """The vectors of a few points, [n, P]."""
        ...

    def held_vectors(self) -> Tensor:
        """The vectors of the points given, [T, P]."""
        ...

    def vector_sum(self) -> Tensor:
        """The sum of the vectors of all points, those given too, P values."""
        ...

    @property
    def rough(self) -> float:
        """By how much `aligned` is off at most, for a vector of length 1."""
        ...

    def aligned(self, vectors_m_P: Tensor) -> Tensor:
        """Inner products of the direction of every point with each of some vectors, [m, N]; 0 without length."""
        ...

    def most_aligned(self, vector_P: Tensor, rough_N: Tensor, off: float, tie: float) -> tuple[int, float]:
        """The point with the largest inner product of its direction with a vector, and that number.

        `rough_N` are these numbers off by `off` at most, −inf for points that are not to be looked at; within `tie`
        they are equal, and go by `natsel.ties.order_of(self)`.
        """
        ...


# What a state offers, in terms a type checker follows. A flag promises the protocol beside it.


def has_gains(state: State) -> TypeGuard[SequentialState]:
    """Whether a state builds a batch point by point."""
    return Capability.GAINS in state.offers


def has_value(state: State) -> TypeGuard[ValuedState]:
    """Whether a state knows the worth of a whole set."""
    return Capability.VALUE in state.offers


def has_gains_and_value(state: State) -> TypeGuard[GrowingSetState]:
    """Whether a state builds a batch and knows the worth of any set."""
    return Capability.GAINS | Capability.VALUE in state.offers


def has_operations(state: State) -> TypeGuard[CountedState]:
    """Whether a state says beforehand how much work the value of a set is."""
    return Capability.OPERATIONS in state.offers


def has_budget(state: State) -> TypeGuard[BudgetedState]:
    """Whether only points that still fit a budget may be added."""
    return Capability.BUDGET in state.offers


def has_ceilings(state: State) -> TypeGuard[ShortlistedState]:
    """Whether a state has cheap upper bounds on its scores."""
    return Capability.CEILINGS in state.offers


def has_errors(state: State) -> TypeGuard[EstimatedState]:
    """Whether a state knows how unsure its estimates are."""
    return Capability.ERRORS in state.offers


def has_racing(state: State) -> TypeGuard[RacedState]:
    """Whether candidates can race on few rows first."""
    return Capability.RACING in state.offers


def has_successor(state: State) -> TypeGuard[ExhaustibleState]:
    """Whether a state knows in which geometry to go on once it has nothing left to tell."""
    return Capability.SUCCESSOR in state.offers


def has_removal(state: State) -> TypeGuard[RemovableState]:
    """Whether points that were added can leave again."""
    return Capability.REMOVAL in state.offers


def has_distances(state: State) -> TypeGuard[LocatedState]:
    """Whether points have a place."""
    return Capability.DISTANCES in state.offers


def has_many_distances(state: State) -> TypeGuard[ManyDistancesState]:
    """Whether distances to several points come in one pass."""
    return Capability.MANY_DISTANCES in state.offers


def has_kernel(state: State) -> TypeGuard[KernelState]:
    """Whether points have inner products."""
    return Capability.KERNEL in state.offers


def has_held(state: State) -> TypeGuard[HeldState]:
    """Whether a state knows how far points are from those given."""
    return Capability.HELD in state.offers


def has_vectors(state: State) -> TypeGuard[VectorsState]:
    """Whether points are vectors that can be added up."""
    return Capability.VECTORS in state.offers


def lacking(state: State, search: "Search") -> TypeError:
    """What to raise where a state does not offer what a search needs."""
    missing = search.needs & ~state.offers
    return TypeError(
        f"state: {type(search).__name__} needs {missing.words}, which {type(state).__name__} does not offer"
    )


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
    """What a search found, in pick order, on the CPU. Positions may repeat where a search draws with replacement.

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
    weights: Tensor | None = None  # float64, how much each pick counts; None: all alike
    notes: tuple[str, ...] = ()  # sentences for the user


class Search(Protocol):
    """A way to find k positions: a frozen value, called with a state."""

    needs: ClassVar[Capability]

    def __call__(
        self,
        state: State,
        k: int,
        allowed_N: Tensor,
        generator: torch.Generator,
        progress: Progress | None = None,
    ) -> Picks:
        """Pick k of the positions allowed by the mask; the caller has checked k <= allowed_N.sum()."""
        ...


def draws_again(search: Search | type[Search]) -> bool:
    """Whether a search draws with replacement, so that a point may come several times: it then says so.

    >>> from natsel.search import ImportanceSampling, TopK
    >>> draws_again(ImportanceSampling()), draws_again(TopK())
    (True, False)
    """
    return bool(getattr(search, "with_replacement", False))
