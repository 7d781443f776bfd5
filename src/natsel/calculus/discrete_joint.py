"""A finite joint distribution: one axis per variable, log probabilities inside; and a model q beside it.

    p(S) = Σ over the variables not in S        marginals, cached by set, each from the smallest table that holds it

Probability 0 is a log of −inf and stays one. Everything is float64 on the CPU. Outcomes of a model q are matched with
those of p by label where both have labels, else by number. What q does not list has q = 0 there; what q lists beyond p
keeps its mass in the marginals of q.  docs/theory/information-quantities.md, 2 and 10.1.
"""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from natsel.calculus.expressions import Outcome, ascii_name
from natsel.calculus.table_files import MAX_CELLS, read_rows, records_of

MAX_AXES = 26
Labels = Mapping[str, Sequence[Outcome]]


class ZeroProbabilityOutcome(ValueError):
    """What was asked for is conditioned on an outcome of probability 0, or comes to +∞ − ∞."""


@dataclass(frozen=True, eq=False, repr=False)
class DiscreteJoint:
    """A table of log probabilities with a name for every axis, and labels for the outcomes where they have any.

    `names` is a sequence of names, or a string of one-letter names; `outcomes` maps a name to the labels of its
    outcomes (those it leaves out are 0, 1, …). The probabilities must sum to one; `from_counts` normalises.

    >>> joint = DiscreteJoint("XY", np.log([[0.5, 0.25], [0.125, 0.125]]), outcomes={"Y": ["cat", "dog"]})
    >>> joint, joint.size("Y")
    (DiscreteJoint(X: 2, Y: 2), 2)
    """

    names: tuple[str, ...]
    log_p: Tensor
    outcomes: Labels = None  # type: ignore[assignment]
    is_measure: bool = False
    _tables: dict[frozenset[str], Tensor] = field(default_factory=dict, init=False)
    _places: dict[str, dict[Outcome, int]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        log_p, exact = _numbers(self.log_p, "log_p")
        names = checked_names(self.names, tuple(log_p.shape))
        if bool(log_p.isnan().any() | (log_p == math.inf).any()):
            raise ValueError("log_p: found NaN or +inf; pass the logs of probabilities, -inf for 0")
        if not self.is_measure:
            log_total = float(log_p.logsumexp(tuple(range(log_p.dim())))) if names else float(log_p)
            if not abs(log_total) <= exact:
                raise ValueError(
                    f"log_p: the probabilities sum to {math.exp(min(log_total, 700.0)):.6g}, not to 1;"
                    " from_counts normalises counts and weights"
                )
            log_p = log_p - log_total
        outcomes = {name: tuple(labels) for name, labels in (self.outcomes or {}).items()}
        places = _checked_outcomes(outcomes, dict(zip(names, log_p.shape, strict=True)))
        for attribute, value in [("names", names), ("log_p", log_p), ("outcomes", outcomes), ("_places", places)]:
            object.__setattr__(self, attribute, value)
        self._tables[frozenset(names)] = log_p

    @classmethod
    def from_probs(cls, names: str | Iterable[str], p: Any, outcomes: Labels | None = None) -> Self:
        """From probabilities, which must sum to one.

        >>> DiscreteJoint.from_probs("X", [0.5, 0.5]).log_p
        tensor([-0.6931, -0.6931], dtype=torch.float64)
        """
        p, exact = _numbers(p, "p")
        _check_not_negative(p, "p", "log probabilities go to DiscreteJoint itself")
        total = float(p.sum())
        if not abs(total - 1) <= exact:
            raise ValueError(f"p: the probabilities sum to {total:.6g}, not to 1; from_counts normalises what does not")
        return cls(names, p.log(), outcomes)  # type: ignore[arg-type]

    @classmethod
    def from_counts(cls, names: str | Iterable[str], counts: Any, outcomes: Labels | None = None) -> Self:
        """From counts or any other non-negative numbers, divided by their sum.

        >>> DiscreteJoint.from_counts("X", [3, 1]).log_p.exp()
        tensor([0.7500, 0.2500], dtype=torch.float64)
        """
        counts, _ = _numbers(counts, "counts")
        _check_not_negative(counts, "counts", "counts begin at 0")
        total = counts.sum()
        if not 0 < float(total) < math.inf:
            raise ValueError(
                f"counts: found a sum of {float(total):g}, by which nothing can be divided; count something"
            )
        return cls(names, (counts / total).log(), outcomes)  # type: ignore[arg-type]

    @classmethod
    def measure(cls, names: str | Iterable[str], q: Any, outcomes: Labels | None = None) -> Self:
        """A non-negative table of any sum: the q of a cross-entropy, not a law to average over.

        >>> DiscreteJoint.measure("X", [0.4, 0.6, 1.0])
        DiscreteJoint.measure(X: 3)
        """
        q, _ = _numbers(q, "q")
        _check_not_negative(q, "q", "pass q itself, not its log")
        return cls(names, q.log(), outcomes, is_measure=True)  # type: ignore[arg-type]

    @classmethod
    def from_records(cls, records: Iterable[Mapping[str, Any]], measure: bool = False) -> Self:
        """From rows that name an outcome of every variable, and weigh `p`, or `count`, or 1 each.

        With `measure`, a column p need not sum to one.

        >>> DiscreteJoint.from_records([{"X": "a", "Y": 0}, {"X": "a", "Y": 1}, {"X": "b", "Y": 1}]).log_p.exp()
        tensor([[0.3333, 0.3333],
                [0.0000, 0.3333]], dtype=torch.float64)
        """
        names, weights, outcomes, column = records_of(records)
        if measure:
            return cls.measure(names, weights, outcomes)
        return (cls.from_probs if column == "p" else cls.from_counts)(names, weights, outcomes)

    @classmethod
    def read_csv(cls, path: str | PathLike[str], measure: bool = False) -> Self:
        """`from_records` of a CSV file: a header, a column per variable, and `p` or `count` unless all weigh alike."""
        return cls.from_records(read_rows(path), measure)

    def size(self, name: str) -> int:
        """How many outcomes a variable has."""
        self._check_known(name)
        return int(self.log_p.shape[self.names.index(name)])

    def place(self, name: str, outcome: Annotated[Any, Hashable]) -> int:
        """Where an outcome stands on its axis: found by its label, or by its number where labels are not numbers.

        >>> DiscreteJoint.from_probs("Y", [0.5, 0.5], outcomes={"Y": ["cat", "dog"]}).place("Y", "dog")
        1
        """
        size, places = self.size(name), self._places.get(name, {})
        if isinstance(outcome, float | np.floating) and float(outcome).is_integer():
            outcome = int(outcome)
        if outcome in places:
            return places[outcome]
        if isinstance(outcome, str):  # as typed on a command line
            found = [place for place in range(size) if str(self.label(name, place)) == outcome]
            if found:
                return found[0]
        elif _is_whole(outcome) and 0 <= outcome < size and all(isinstance(label, str) for label in places):
            return int(outcome)
        known = [str(self.label(name, place)) for place in range(min(size, 8))]
        listed = ", ".join(known) + (", ..." if size > 8 else "")
        raise ValueError(f"{name}: {outcome!r} is none of its {size} outcomes ({listed}); choose one of them")

    def places(self, name: str, outcomes: Any) -> Tensor:
        """Several outcomes at once."""
        if name not in self._places:
            return outcome_numbers(name, outcomes, self.size(name))
        listed = outcomes.tolist() if hasattr(outcomes, "tolist") else list(outcomes)
        return torch.tensor([self.place(name, outcome) for outcome in listed], dtype=torch.int64)

    def label(self, name: str, place: int) -> Outcome:
        """The outcome that stands at a place."""
        return self.outcomes[name][place] if name in self.outcomes else place

    def marginal(self, names: str | Iterable[str]) -> Tensor:
        """ln p of some of the variables; axes in the order of the joint's own names.

        >>> DiscreteJoint.from_probs("XY", [[0.5, 0.25], [0.125, 0.125]]).marginal("Y").exp()
        tensor([0.6250, 0.3750], dtype=torch.float64)
        """
        kept = frozenset(names)
        found = self._tables.get(kept)
        if found is None:
            for name in kept:
                self._check_known(name)
            whole = min((each for each in self._tables if kept < each), key=lambda each: self._tables[each].numel())
            axes = [name for name in self.names if name in whole]
            gone = tuple(axis for axis, name in enumerate(axes) if name not in kept)
            found = self._tables[kept] = self._tables[whole].logsumexp(gone)
        return found

    def log_table(self, names: Sequence[str], at: Mapping[str, Tensor], dims: int) -> Tensor:
        """ln p(names) with those in `at` tied to indices of `dims` axes: these axes first, then the untied names."""
        tied, untied = [name for name in names if name in at], [name for name in names if name not in at]
        axes = [name for name in self.names if name in names]
        table = self.marginal(names).permute([axes.index(name) for name in (*tied, *untied)])
        if not tied:
            return table.reshape((1,) * dims + table.shape)
        return table[tuple(at[name] for name in tied)]

    def for_points(self, part: slice) -> Self:
        """The laws of some points of a batch: a table is the same for all."""
        return self

    def _check_known(self, name: str) -> None:
        if name not in self.names:
            raise ValueError(f"{name}: no such variable; the table has {', '.join(self.names) or 'none'}")

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}: {size}" for name, size in zip(self.names, self.log_p.shape, strict=True))
        return f"DiscreteJoint{'.measure' if self.is_measure else ''}({sizes})"


def _is_whole(outcome: Any) -> bool:
    return isinstance(outcome, int | np.integer) and not isinstance(outcome, bool)


def outcome_numbers(name: str, outcomes: Any, size: int) -> Tensor:
    """Outcomes that are numbers from 0 to size − 1, as int64.

    >>> outcome_numbers("y", [2, 0], size=3)
    tensor([2, 0])
    """
    try:
        found = torch.as_tensor(outcomes)
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(f"{name}: found {outcomes!r}; its outcomes are the numbers 0 to {size - 1}") from None
    whole = not found.is_complex() and found.dtype != torch.bool and found.dim() == 1
    wrong = ~((found >= 0) & (found < size) & (found == found.round())) if whole else torch.ones(1)
    if bool(wrong.any()):
        odd = found[wrong.bool()][0].item() if whole else outcomes
        raise ValueError(f"{name}: found {odd!r}; its outcomes are the numbers 0 to {size - 1}")
    return found.to(torch.int64)


def _numbers(table: Any, name: str) -> tuple[Tensor, float]:
    """As float64 of our own, and how far its sum may be from one by rounding."""
    try:
        array = table.detach().cpu() if isinstance(table, Tensor) else torch.from_numpy(np.array(table, order="C"))
    except (TypeError, ValueError):
        raise ValueError(f"{name}: expected a table of numbers, found {type(table).__name__}; pass an array") from None
    if array.is_complex():
        raise ValueError(f"{name}: found complex numbers; pass real ones")
    numbers = array.to(torch.float64, copy=True)
    if numbers.numel() > MAX_CELLS:
        raise ValueError(f"{name}: {numbers.numel()} cells are more than the {MAX_CELLS} a table may have")
    return numbers, 1e-4 if array.dtype in (torch.float32, torch.float16, torch.bfloat16) else 1e-6


def _check_not_negative(table: Tensor, name: str, advice: str) -> None:
    if bool(table.isnan().any()):
        raise ValueError(f"{name}: found NaN; pass numbers from 0 on")
    if not bool(((table >= 0) & (table < math.inf)).all()):
        odd = float(table.min() if bool((table < 0).any()) else table.max())
        raise ValueError(f"{name}: found {odd:g}, expected finite numbers from 0 on; {advice}")


def checked_names(names: Iterable[str], shape: tuple[int, ...], what: str = "axes") -> tuple[str, ...]:
    """Names of variables, one for each entry of the shape, in the library's spelling."""
    found = tuple(ascii_name(name) for name in names)
    if len(found) > MAX_AXES:
        raise ValueError(f"names: {len(found)} variables are more than the {MAX_AXES} a table may have; leave some out")
    if len(found) != len(shape):
        raise ValueError(f"names: found {len(found)} ({', '.join(found)}) for {len(shape)} {what}; name each once")
    for place, name in enumerate(found):
        if not name.isidentifier():
            raise ValueError(f"names: {name!r} is no name; use letters, digits and _, beginning with a capital")
        if not name[0].isupper():
            proper = name[0].upper() + name[1:]
            raise ValueError(f"names: {name!r} would read as an outcome; begin with a capital, {proper!r}")
        if name in found[:place]:
            raise ValueError(f"names: {name} is there twice; give every axis its own name")
        if shape[place] == 0:
            raise ValueError(f"names: {name} has no outcomes; every axis needs at least one")
    return found


def _checked_outcomes(outcomes: Labels, sizes: Mapping[str, int]) -> dict[str, dict[Outcome, int]]:
    for name, labels in outcomes.items():
        if name not in sizes:
            raise ValueError(f"outcomes: {name} is no variable of this table; it has {', '.join(sizes)}")
        if len(set(labels)) != sizes[name] or len(labels) != sizes[name]:
            raise ValueError(f"outcomes: found {list(labels)} for {name}; give {sizes[name]} different labels")
    return {name: {label: place for place, label in enumerate(labels)} for name, labels in outcomes.items()}


@dataclass(frozen=True, eq=False)
class AlignedModel:
    """A table with the outcomes of another one first, in their order."""

    name: str
    table: DiscreteJoint
    sizes: Mapping[str, int]

    is_measure: ClassVar[bool] = True

    def size(self, name: str) -> int:
        return self.sizes[name]

    def place(self, name: str, outcome: Annotated[Any, Hashable]) -> int:
        return self.table.place(name, outcome)

    def places(self, name: str, outcomes: Any) -> Tensor:
        return self.table.places(name, outcomes)

    def log_table(self, names: Sequence[str], at: Mapping[str, Tensor], dims: int) -> Tensor:
        for each in names:
            if each not in self.table.names:
                raise ValueError(f"{self.name}: has no variable {each}, only {', '.join(self.table.names)}; add it")
        found = self.table.log_table(names, at, dims)
        for axis, each in enumerate((each for each in names if each not in at), start=dims):
            found = found.narrow(axis, 0, self.sizes[each])
        return found

    def for_points(self, part: slice) -> Self:
        return self


def align_model(name: str, q: Any, joint: DiscreteJoint) -> AlignedModel:
    """q, a joint or a table with the axes of `joint`, with its outcomes where `joint` has them.

    >>> p = DiscreteJoint.from_probs("X", [0.5, 0.5], outcomes={"X": ["a", "b"]})
    >>> q = DiscreteJoint.from_probs("X", [0.25, 0.75], outcomes={"X": ["b", "a"]})
    >>> align_model("q", q, p).log_table(["X"], {}, 0).exp()
    tensor([0.7500, 0.2500], dtype=torch.float64)
    """
    if not isinstance(q, DiscreteJoint):
        shape = tuple(torch.as_tensor(q).shape)
        if shape != tuple(joint.log_p.shape):
            raise ValueError(
                f"{name}: found shape {shape}, the joint has {tuple(joint.log_p.shape)};"
                " name its axes with DiscreteJoint.measure"
            )
        q = DiscreteJoint.measure(joint.names, q, joint.outcomes)
    table, outcomes = q.log_p, dict(q.outcomes)
    for axis, variable in enumerate(q.names):
        if variable not in joint.names:
            continue
        if variable in q.outcomes and variable in joint.outcomes:
            ours, theirs = list(joint.outcomes[variable]), list(q.outcomes[variable])
            order = [theirs.index(label) if label in theirs else len(theirs) for label in ours]
            order += [place for place, label in enumerate(theirs) if label not in ours]
            missing = torch.full_like(table.narrow(axis, 0, 1), -math.inf)
            table = torch.cat([table, missing], axis).index_select(axis, torch.tensor(order))
            outcomes[variable] = [*ours, *(label for label in theirs if label not in ours)]
        elif q.size(variable) != joint.size(variable):
            found = f"{variable} has {q.size(variable)} outcomes, in the joint {joint.size(variable)}"
            raise ValueError(f"{name}: {found}; label the outcomes of both, or give as many")
    sizes = {each: joint.size(each) if each in joint.names else q.size(each) for each in q.names}
    return AlignedModel(name, DiscreteJoint(q.names, table, outcomes, is_measure=True), sizes)
