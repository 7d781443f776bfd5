"""Readings: how one objective is read from one kind of belief, and the table of all of them.

    read(objective, belief, context)  →  a state

`@serves(Objective, Belief, PairFacts(…))` enters a class of states into the table, with what is true of the pair: what
it needs (labels, targets, points given), what it guarantees (exact, bound, approximate; monotone, submodular) and what
it costs. `routes` looks for a pair along both inheritance orders and then along the views of the belief, nearest first.
Everything that can be refused is refused here, before any state is made.
docs/architecture.md; docs/grid.md shows the table.
"""

import difflib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Generic, Literal, Protocol, TypeVar, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from natsel.beliefs import Belief, BeliefView, Targets
from natsel.beliefs.base import NoView, kinds
from natsel.beliefs.targets import check_shared
from natsel.capabilities import Capability, State
from natsel.objectives.objective import NOTHING, Argument, Bound, Objective
from natsel.ties import Order

Guarantee = Literal["exact", "lower", "upper", "approximate"]
Kind = TypeVar("Kind", bound=Belief, covariant=True)


class GoesOn(NoView):
    """A reading is used up: the other objective goes on, or else the next route, with this sentence as a warning."""


@dataclass(frozen=True)
class Context(Generic[Kind]):
    """What a state is made from besides objective and belief: targets, labels, random numbers, points given.

    >>> Context(None, None, torch.Generator()).given is None
    True
    """

    about: Targets[Kind] | None
    """The belief about targets, where they were passed."""
    known_N: Tensor | None
    """Known labels of the points, where they were passed."""
    generator: torch.Generator
    given: Targets[Kind] | None = None
    """The belief about points already held, with their labels where known."""

    @property
    def targets(self) -> Targets[Kind]:
        """The belief about targets, which the reading needs."""
        if self.about is None:
            raise ValueError("targets: none were passed; pass the belief about them as targets=")
        return self.about

    @property
    def labels_N(self) -> Tensor:
        """Known labels, which the reading needs."""
        if self.known_N is None:
            raise ValueError("labels: none were passed; pass one per point as labels=")
        return self.known_N

    @property
    def passed(self) -> Argument:
        """Which arguments were passed."""
        parts = ((self.known_N, Argument.LABELS), (self.about, Argument.TARGETS), (self.given, Argument.GIVEN))
        found = NOTHING
        for value, argument in parts:
            found |= NOTHING if value is None else argument
        return found


@dataclass(frozen=True)
class PairFacts:
    """What is true of one objective on one kind of belief; every claim is verified by the tests."""

    needs: Argument = NOTHING
    """Arguments without which there is no score."""
    takes: Argument = NOTHING
    """Arguments that are read where they are passed; all others are refused."""
    conditions: bool = False
    """Whether `given=` is taken by conditioning the belief on labels at those points, before it is read."""
    guarantee: Guarantee = "exact"
    """Where the score lies against the objective's quantity."""
    why: str = ""
    """What the guarantee rests on, or what is approximated."""
    bounds: tuple[Bound, ...] = ()
    """Inequalities with exact quantities that hold here."""
    needs_draws: bool = False
    """Whether it is about what draws of the parameters disagree in: a single draw scores 0 everywhere."""
    label_free: bool = False
    """Whether known labels tell what unknown ones would: they are asked for, and change nothing."""
    holds_labels: bool = False
    """Whether the belief was made with known labels and says what they tell: other readings ask for them."""
    one_gradient: bool = False
    """Whether a point is a single gradient: beliefs with several rows per point are refused."""
    pool_wide: bool = False
    """Whether a set is worth what it does for all points of the pool, also for those that may not be picked."""
    nonnegative: bool = True
    monotone: bool = False
    """Adding a point never lowers the value of a set."""
    submodular: bool = False
    """A point never gains from others having been added: lazy greedy is valid, and greedy reaches 1 − 1/e."""
    cost: str = "N·K·C"

    @cached_property
    def accepts(self) -> Argument:
        """Every argument that is not refused."""
        return self.needs | self.takes | (Argument.GIVEN if self.conditions else NOTHING)


USUAL = PairFacts()
"""Exact, without any argument besides the belief."""

Wanted = TypeVar("Wanted", bound=Objective, contravariant=True)
Held = TypeVar("Held", bound=Belief, contravariant=True)


class StateClass(Protocol[Wanted, Held]):
    """A class of states: called with objective, belief and context it gives the state of one selection."""

    @property
    def offers(self) -> Capability:
        """What a search may ask of its states."""
        ...

    def __call__(self, objective: Wanted, belief: Held, context: Context[Held], /) -> State: ...


@dataclass(frozen=True)
class Reading:
    """How one objective is read from one kind of belief."""

    objective: type[Objective]
    belief: type[Belief]
    state: StateClass[Objective, Belief] = field(repr=False)
    facts: PairFacts

    @property
    def offers(self) -> Capability:
        """What a search may ask of its states."""
        return self.state.offers


@dataclass(frozen=True)
class Route:
    """A reading, and the views through which a belief comes to it; none where it is read as it is."""

    reading: Reading
    views: tuple[BeliefView, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is approximated on the way, and on which side of the quantity the score then lies."""
        facts, said = self.reading.facts, [view.approximation for view in self.views if view.approximation]
        if facts.guarantee != "exact":
            side = "approximation" if facts.guarantee == "approximate" else f"{facts.guarantee} bound"
            said.append(f"{side} of {self.reading.objective.facts.quantity}: {facts.why}")
        return tuple(said)


READINGS: dict[type[Objective], dict[type[Belief], Reading]] = {}
"""The table: how each objective is read from each kind of belief."""

AnObjective = TypeVar("AnObjective", bound=Objective)
ABelief = TypeVar("ABelief", bound=Belief)


def serves(
    objective: type[AnObjective], belief: type[ABelief], facts: PairFacts = USUAL
) -> Callable[[StateClass[AnObjective, ABelief]], StateClass[AnObjective, ABelief]]:
    """Enter a class of states as the way to read an objective from a kind of belief, with what is true of the pair."""

    def enter(state: StateClass[AnObjective, ABelief]) -> StateClass[AnObjective, ABelief]:
        entry = Reading(objective, belief, cast(StateClass[Objective, Belief], state), facts)
        READINGS.setdefault(objective, {})[belief] = entry
        _ROUTES.clear()
        return state

    return enter


_ROUTES: WeakKeyDictionary[type[Belief], WeakKeyDictionary[type[Objective], tuple[Route, ...]]] = WeakKeyDictionary()
"""Routes that were looked for before; forgotten when a reading is entered. Classes that nobody needs can go."""


def routes(objective: type[Objective], belief: type[Belief]) -> tuple[Route, ...]:
    """The ways to read an objective from a kind of belief: as it is, then along its views, nearest first.

    >>> from natsel.beliefs import GaussianSamples
    >>> from natsel.objectives import LogDet
    >>> [view.kind.__name__ for view in routes(LogDet, GaussianSamples)[0].views]
    ['GaussianFeatures']
    """
    known = _ROUTES.setdefault(belief, WeakKeyDictionary())
    if objective in known:
        return known[objective]
    seen, found = {belief}, []
    ahead: deque[tuple[type[Belief], tuple[BeliefView, ...]]] = deque([(belief, ())])
    while ahead:
        kind, views = ahead.popleft()
        reading = _entered(objective, kind)
        if reading is not None and not (views and reading.facts.label_free):  # labels matter to what was viewed
            found.append(Route(reading, views))
        for view in kind.views():
            if view.kind not in seen:
                seen.add(view.kind)
                ahead.append((view.kind, (*views, view)))
    known[objective] = tuple(found)
    return known[objective]


def route(objective: type[Objective], belief: type[Belief]) -> Route | None:
    """The nearest way to read an objective from a kind of belief, None where there is none."""
    return next(iter(routes(objective, belief)), None)


def pair_facts(objective: type[Objective], belief: type[Belief]) -> PairFacts | None:
    """What is true of an objective on a kind of belief, None where it cannot be read from it.

    >>> from natsel.beliefs import CategoricalSamples
    >>> from natsel.objectives import EIG
    >>> pair_facts(EIG, CategoricalSamples).submodular
    True
    """
    found = route(objective, belief)
    return None if found is None else found.reading.facts


def offers(objective: type[Objective], belief: type[Belief]) -> Capability | None:
    """What a search may ask of this pair, or None if the objective cannot be read from the belief."""
    found = route(objective, belief)
    return None if found is None else found.reading.offers


def objective_called(name: str) -> type[Objective]:
    """The objective of this name that has a reading.

    >>> objective_called("EIG").__name__
    'EIG'
    """
    found = next((objective for objective in READINGS if objective.__name__ == name), None)
    if found is None:
        close = difflib.get_close_matches(name, [objective.__name__ for objective in READINGS], n=1)
        hint = f"did you mean {close[0]!r}?" if close else "docs/grid.md lists them"
        raise ValueError(f"objective: there is no {name!r}; {hint}")
    return found


def needs_everywhere(objective: Objective) -> Argument:
    """What an objective needs on whatever belief it is read from, but for beliefs that hold known labels themselves.

    >>> from natsel.objectives import EPIG
    >>> needs_everywhere(EPIG())
    <Argument.TARGETS: 2>
    """
    readings = [reading.facts for reading in _readings_of(type(objective)).values()]
    found = [facts.needs for facts in readings if not facts.holds_labels]
    common = found[0] if found else NOTHING
    for needs in found[1:]:
        common &= needs
    return common | objective.needs


def read(objective: Objective, belief: Belief, context: Context[Belief]) -> State:
    """The state of an objective on a belief, or a ValueError that says why the pair makes no sense."""
    return read_and_warn(objective, belief, context)[0]


def read_and_warn(
    objective: Objective, belief: Belief, context: Context[Belief], needs: Capability = Capability.SCORES
) -> tuple[State, Reading, tuple[str, ...]]:
    """The state of an objective on a belief that offers what a search needs, the reading it came by, and what was
    approximated on the way. Seed and ids give the state the order in which equals are taken (natsel.ties).
    """
    refusal: NoView | None = None
    remarks: tuple[str, ...] = ()
    for found in usable_routes(objective, type(belief), context.passed):
        if needs & ~found.reading.offers:
            continue
        for others, name in ((context.about, "targets"), (context.given, "given")):
            if others is not None:
                check_shared(belief, others, name)
        try:
            seen, there = _viewed(belief, context, found.views)
            if there.given is not None and found.reading.facts.conditions:
                seen, there = _conditioned(seen, there, there.given.belief)
            state = found.reading.state(objective, seen, there)
            object.__setattr__(state, "order", Order(context.generator.initial_seed(), belief.ids))
            return state, found.reading, (*remarks, *found.warnings)
        except GoesOn as reason:
            remarks, instead = (reason.args[0], *found.warnings), reason.args[1]
            if instead is not None:
                state, reading, more = read_and_warn(instead, seen, there, needs)
                return state, reading, (*remarks, *more)
        except NoView as reason:
            refusal = refusal or reason  # of the nearest route
    name = f"{type(objective).__name__} on {type(belief).__name__}"
    raise refusal or NoView(f"belief: {name} does not offer {needs.words}")


def usable_routes(objective: Objective, belief: type[Belief], passed: Argument) -> list[Route]:
    """The routes that take what was passed, nearest first; a ValueError where there is none.

    Where an argument is missing or would be ignored, the nearest route says so, in one wording for library, shell and
    loop.

    >>> from natsel.beliefs import CategoricalSamples
    >>> from natsel.objectives import EPIG
    >>> len(usable_routes(EPIG(), CategoricalSamples, Argument.TARGETS)) > 0
    True
    """
    found = routes(type(objective), belief)
    if not found:
        raise cannot_read(type(objective), belief)
    usable = [each for each in found if not any(_misfit(objective, each.reading.facts, passed))]
    if usable:
        return usable
    name = type(objective).__name__
    missing, unused = _misfit(objective, found[0].reading.facts, passed)
    if Argument.LABELS in missing:
        raise ValueError(
            f"labels: {name} weighs labels that are known; pass labels= (--labels), or choose an objective without them"
        )
    if Argument.TARGETS in missing:
        raise ValueError(
            f"targets: {name} asks what is learned about targets; pass the belief about them as targets= (--targets)"
        )
    if Argument.GIVEN in missing:
        raise ValueError(
            f"given: {name} asks what points add to others; pass the belief about those as given= (--given)"
        )
    word, what = next(spoken for argument, spoken in _SPOKEN.items() if argument in unused)
    argument = next(argument for argument in _SPOKEN if argument in unused)
    able = sorted(
        other.__name__
        for other in READINGS
        if any(argument in each.reading.facts.accepts for each in routes(other, belief))
    )
    elsewhere = any(argument in reading.facts.accepts for reading in _readings_of(type(objective)).values())
    on = f" on {belief.__name__}" if elsewhere else ""
    remedy = f", or use {', '.join(able)}" if able else ""
    raise ValueError(f"{word}: {name} has no use for {what}{on}; leave {word}= out{remedy}")


def _misfit(objective: Objective, facts: PairFacts, passed: Argument) -> tuple[Argument, Argument]:
    """Which arguments are missing, and which would be ignored."""
    return (facts.needs | objective.needs) & ~passed, passed & ~(facts.accepts | objective.needs)


_SPOKEN = {
    Argument.LABELS: ("labels", "known labels"),
    Argument.TARGETS: ("targets", "targets"),
    Argument.GIVEN: ("given", "points already held"),
}


def cannot_read(objective: type[Objective], belief: type[Belief]) -> ValueError:
    """What to raise where an objective cannot be read from a belief."""
    able = sorted({kind.__name__ for kind in kinds() if route(objective, kind) is not None})
    remedy = f"it can from {', '.join(able)}" if able else "no reading of it was entered (natsel.objectives.serves)"
    if able and all("Outcomes" in name for name in able):
        remedy = f"{remedy}: wrap the model in natsel.causal.SLearner(model)"
    return ValueError(f"belief: {objective.__name__} cannot be read from {belief.__name__}; {remedy}")


def _entered(objective: type[Objective], belief: type[Belief]) -> Reading | None:
    """The reading of the nearest ancestor of a belief that has one."""
    found = _readings_of(objective)
    return next((found[kind] for kind in belief.__mro__ if kind in found), None)


def _readings_of(objective: type[Objective]) -> dict[type[Belief], Reading]:
    """The readings of an objective, or, where it has none of its own, those of the nearest ancestor that has."""
    return next((READINGS[wanted] for wanted in objective.__mro__ if wanted in READINGS), {})


def _conditioned(belief: Belief, context: Context[Belief], held: Belief) -> tuple[Belief, Context[Belief]]:
    """A belief and its targets once labels at the points held are known."""
    about = context.about
    after = None if about is None else replace(about, belief=about.belief.given(held))
    return belief.given(held), replace(context, about=after, given=None)


def _viewed(belief: Belief, context: Context[Belief], views: tuple[BeliefView, ...]) -> tuple[Belief, Context[Belief]]:
    """A belief, its targets and the points given, seen through views."""
    for view in views:
        belief = view.of(belief)
        about, given = (
            None if others is None else replace(others, belief=view.of(others.belief))
            for others in (context.about, context.given)
        )
        context = replace(context, about=about, given=given)
    return belief, context
