"""What a selection is, and how it explains itself.

Per pick: its gain given the picks before it, the split of its uncertainty, and what it shares with earlier picks.

    H[Y|x] = I[Y;Ω|x] + H[Y|x,Ω]        epistemic (a label can remove it) + aleatoric (noise, it stays)
    overlap = I[Y;Ω|x] − I[Y;Ω|x,earlier picks]
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any

import torch
from torch import Tensor

from natsel.beliefs import Belief
from natsel.beliefs.base import NoView
from natsel.capabilities import State, has_gains
from natsel.choose.methods import Method
from natsel.data.as_table import Row, Tabular
from natsel.ids import IdArray
from natsel.objectives import EIG, Context, ExpectedEntropy, Objective, read, route


def exhausted(total: float, remaining: float) -> tuple[str, ...]:
    """A warning when a batch carries nearly all that its draws can ever tell: within 10 % of H[Ω], at most ln K.

    >>> exhausted(0.2, 0.8)
    ()
    """
    ceiling = total + remaining
    if not 0 < ceiling < torch.inf or total < 0.9 * ceiling:
        return ()
    return (
        f"draws exhausted: the batch carries {total:.3f} of the {ceiling:.3f} nats these draws can tell;"
        " use more draws or a smaller k",
    )


@dataclass(frozen=True)
class Pick:
    """One line of an explanation; all but `score` in nats."""

    id: Any
    score: float
    gain: float | None
    epistemic: float | None
    """None where the belief does not say what a label would tell about the parameters; gain and overlap are None also
    where it says so of single points alone."""
    aleatoric: float | None
    """None where the belief does not say how noisy labels are: weight space."""
    overlap: float | None


@dataclass(frozen=True)
class Explanation:
    """Why these points: a line per pick, what the batch carries together, and what to be wary of."""

    method: str
    picks: tuple[Pick, ...]
    information: float | None
    """I[Y_batch; Ω]: what all the labels together are expected to tell, in nats; None where that is not available."""
    warnings: tuple[str, ...]
    stands_for: float | None = None
    """How many unsure points all picks stand for together, where scores count these."""

    @property
    def summary(self) -> str:
        """What the labels of all picks tell together."""
        if self.stands_for is not None:
            return f"the picks stand for {_counted(self.stands_for)} together"
        if self.information is None:
            return "what labels tell together about the parameters is not available from this belief"
        alone = sum(pick.epistemic or 0.0 for pick in self.picks)
        return f"their labels tell {self.information:.4f} nats together, {alone:.4f} if they did not overlap"

    def __str__(self) -> str:
        width = max([10, *(len(str(pick.id)) for pick in self.picks)])
        if self.stands_for is not None:
            said = [f"{pick.id!s:>{width}} stands for {_counted(pick.score)}" for pick in self.picks]
            return "\n".join([*said, f"{self.method}: {self.summary}", *(f"! {warning}" for warning in self.warnings)])
        head = f"{'id':>{width}} {'score':>9} {'gain':>9} {'epistemic':>9} {'aleatoric':>9} {'overlap':>9}"
        lines = [
            f"{pick.id!s:>{width}} "
            + " ".join(
                "–".rjust(9) if value is None else f"{value:9.4f}"
                for value in (pick.score, pick.gain, pick.epistemic, pick.aleatoric, pick.overlap)
            )
            for pick in self.picks
        ]
        return "\n".join(
            [head, *lines, f"{self.method}: {self.summary}", *(f"! {warning}" for warning in self.warnings)]
        )


@dataclass(frozen=True, eq=False)
class Selection(Tabular):
    """A batch: `ids` name the user's data in the order picked, `scores` one number per pick.

    Scores are marginal gains where the search builds the batch step by step, else the plain scores. `total` is what the
    batch is worth together under the objective (for EIG its joint information in nats): from the search where it builds
    the batch, else worked out for the picks. It is the sum of the scores where the objective has no gains on this
    belief; and where working it out would take long (thousands of picks, or many targets) that sum, or what all points
    together can tell if that is less (`natsel.choose.batch_value`). Where labels have `costs`, scores are not divided
    by them, and `gaps` are per cost, in units of the cheapest point allowed; with a budget there is no `log_prob`.
    Stochastic searches add `log_prob`, the log probability of this ordered batch, and the `perturbed` scores. As a
    table (`to_frame`, `to_csv`) it has a row per pick: what `explain` says about it, and its weight and cost where
    there are some.
    """

    ids: IdArray
    scores: Tensor
    total: float
    warnings: tuple[str, ...]
    method: Method
    picked: Belief = field(repr=False)
    log_prob: float | None = None
    perturbed: Tensor | None = field(default=None, repr=False)
    gaps: Tensor | None = field(default=None, repr=False)
    gap_errors: Tensor | None = field(default=None, repr=False)
    weights: Tensor | None = field(default=None, repr=False)
    """How much each pick counts, where the search says so; the same id may then come twice."""
    costs: Tensor | None = field(default=None, repr=False)
    """What the label of each pick costs, where costs were given."""
    recorded: tuple[Pick, ...] | None = field(default=None, repr=False)  # nothing is believed, or a journal's

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def indices(self) -> IdArray:
        """The former name of `ids`."""
        return self.ids

    @property
    def total_cost(self) -> float | None:
        """What the labels of all picks cost; None where no costs were given.

        >>> from natsel import CategoricalSamples, select
        >>> coins = CategoricalSamples.from_probs([[[1.0, 0.0], [0.0, 1.0]]] * 3)
        >>> select("bald", coins, costs=[3.0, 1.0, 2.0], budget=3.5).total_cost
        3.0
        """
        return None if self.costs is None else float(self.costs.sum())

    def __iter__(self) -> Iterator[Any]:
        return iter(self.ids.tolist())

    def explain(self) -> Explanation:
        """Each pick's gain, its epistemic and aleatoric part and its overlap with earlier picks.

        >>> from natsel import CategoricalSamples, select
        >>> copies = CategoricalSamples.from_probs([[[1.0, 0.0], [0.0, 1.0]]] * 2)
        >>> [round(pick.overlap, 4) for pick in select("bald", copies, k=2).explain().picks]
        [0.0, 0.6931]
        """
        if len(self) == 0:
            return Explanation(self.method.name, (), 0.0, self.warnings)
        if self.method.facts.units == "unsure points":
            found = zip(self.ids.tolist(), self.scores.tolist(), strict=True)
            reach = tuple(Pick(id, score, None, None, None, None) for id, score in found)
            return Explanation(self.method.name, reach, None, self.warnings, self.total)
        if self.recorded is not None:
            return Explanation(self.method.name, self.recorded, None, self.warnings)
        aleatoric = _scores(ExpectedEntropy(), self.picked)
        state = _state(EIG(), self.picked)
        if state is None or not has_gains(state):
            known = _scores(EIG(), self.picked)
            picks = tuple(
                Pick(id, score, None, alone, noise, None)
                for id, score, alone, noise in zip(
                    self.ids.tolist(), self.scores.tolist(), known, aleatoric, strict=True
                )
            )
            return Explanation(self.method.name, picks, None, self.warnings)
        epistemic = state.scores().tolist()
        gains = [max(0.0, state.add(position)) for position in range(len(self))]
        picks = tuple(
            Pick(id, score, gain, alone, noise, max(0.0, alone - gain))
            for id, score, gain, alone, noise in zip(
                self.ids.tolist(), self.scores.tolist(), gains, epistemic, aleatoric, strict=True
            )
        )
        warnings = dict.fromkeys((*self.warnings, *exhausted(state.total, state.remaining)))
        return Explanation(self.method.name, picks, state.total, tuple(warnings))

    def columns(self) -> tuple[str, ...]:
        """The names of the columns of the table."""
        return ("rank", *(field.name for field in fields(Pick)), *self._extras())

    def rows(self) -> list[Row]:
        """A row per pick, ranked from 1.

        >>> from natsel import CategoricalSamples, select
        >>> belief = CategoricalSamples.from_probs([[[1.0, 0.0], [0.0, 1.0]]], ids=["a.png"])
        >>> row = select("bald", belief, k=1).rows()[0]
        >>> row["rank"], row["id"], round(row["gain"], 4)
        (1, 'a.png', 0.6931)
        """
        found: list[Row] = [{"rank": rank, **vars(pick)} for rank, pick in enumerate(self.explain().picks, start=1)]
        for name, column in self._extras().items():
            for row, value in zip(found, column.tolist(), strict=True):
                row[name] = value
        return found

    def _extras(self) -> dict[str, Tensor]:
        """Columns that only some selections have."""
        columns = {"weight": self.weights, "cost": self.costs}
        return {name: column for name, column in columns.items() if column is not None}


def _counted(points: float) -> str:
    """A number of unsure points in words: whole ones from ten on."""
    return (f"{points:,.0f}" if points >= 9.95 else f"{points:.1f}") + " unsure points that no label reaches"


def uncertainty_split(belief: Belief) -> tuple[list[float | None], list[float | None]]:
    """Epistemic and aleatoric uncertainty of each point in nats; None where the belief does not say.

    >>> from natsel import ClassProbabilities
    >>> uncertainty_split(ClassProbabilities.from_probs([[0.5, 0.5]]))
    ([None], [None])
    """
    return _scores(EIG(), belief), _scores(ExpectedEntropy(), belief)


def _state(objective: Objective, belief: Belief) -> State | None:
    """The state of an objective that needs nothing but the belief, None where it cannot be read."""
    if route(type(objective), type(belief)) is None:
        return None
    try:
        return read(objective, belief, Context(None, None, torch.Generator().manual_seed(0)))
    except NoView:
        return None


def _scores(objective: Objective, belief: Belief) -> list[float | None]:
    state = _state(objective, belief)
    return [None] * len(belief) if state is None else state.scores().tolist()
