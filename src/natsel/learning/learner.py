"""The active learner: it asks for labels, is told them, and fits again; all of it is written down as it happens.

    repeat:  fit a fresh model to the labels → evaluate → stop? → believe about the pool → select → labels → tell

All it knows is in the journal (`natsel.store`): it writes there first, and then takes what was written, by itself and
by others, into its state. Everything random comes from seeds that the state and the seed of the run name:

    fit      derive(seed, "fit", revision)      revision: how many label changes there were
    part     derive(seed, "part", ask)          ask: the number of the batch
    select   derive(seed, "select", ask)
    start    derive(seed, "start", ask)         a batch before there are labels
    targets  derive(seed, "targets", ask)       which of the targets this batch looks at

So the next batch is a function of (journal, seed): a learner that is killed and made again asks what it would have
asked. Several learners may work on one journal, each under its own name (`natsel.learning.client_names`). Each chooses
by the labels it knew when it fitted; ids that another took in the meantime are left out and the choice is made again.
Threads may share a learner: one of them fits and chooses at a time; telling does not wait for that.
docs/theory/information-quantities.md, 16 (the two loops).
"""

import math
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, Self

import numpy as np
import torch

from natsel.beliefs import Belief, CategoricalSamples, GaussianFeatures
from natsel.beliefs.targets import Targets
from natsel.choose import DEFAULT, METHODS, Method, Selection, select
from natsel.choose import resolve as resolve_method
from natsel.choose.costs import Costs, as_budget
from natsel.choose.selection import Pick, uncertainty_split
from natsel.data.alignment import index_of, only_counts
from natsel.data.any_source import examples_from
from natsel.data.class_names import lookalikes, refuse
from natsel.data.examples import Examples
from natsel.data.pool import Pool
from natsel.ids import IdArray, Key, are_among, as_ids, keys_of
from natsel.learning.arguments import as_count, as_pool
from natsel.learning.client_names import ClientNames
from natsel.learning.fitted_model import FittedModel
from natsel.learning.oracles import Oracle, answers
from natsel.learning.point_costs import PointCosts
from natsel.learning.run_record import Array, RunRecord
from natsel.learning.run_tables import LABEL_COLUMNS, History, ToldLabels
from natsel.learning.stopping import Budget, CostBudget, Rule, View, as_rules
from natsel.learning.students import believe_with_students
from natsel.learning.target_sources import geometries, most_targets, targets_for
from natsel.learning.terms import rule_for, terms_of
from natsel.models.protocol import Model, Progress
from natsel.objectives import Argument
from natsel.seeds import derive
from natsel.store import Acquisition, Ask, Journal, Points, Run, Stop, Terms
from natsel.store.exporting import rows_of
from natsel.store.state import Rule as VotingRule
from natsel.store.state import RunState

COLD = "no labels yet: this batch was drawn at random, and the method decides from the first label on"
_in_words = partial(re.compile(r"\d[\d., …]*").sub, "#")  # a warning without its numbers


@dataclass(frozen=True)
class FreePoints:
    """What a batch may be chosen from: free ids, how many of them it may have, and what they may cost together (None:
    anything); the number of the ask that they are for, and how many labels are told or outstanding before it.
    """

    ids: Array
    count: int
    affordable: float | None
    ask: int
    handed_out: int


@dataclass
class Believed:
    """What a batch was chosen by, if a model was fitted for it: the next attempt at it may use it again."""

    fitted: bool
    belief: Belief | None = None
    targets: Targets[Belief] | None = None
    given: Targets[Belief] | None = None


class ActiveLearner:
    """Chooses what to label next, from a model, a pool and a method; keeps everything in `store` (None: in memory).

    A new run has the method `natsel.choose.recommended.DEFAULT` and k = 10 unless others are given; a run that is gone
    on with keeps its own unless others are given, which the journal then records. Its pool may have grown, by points
    with new ids. Labels and marks that the pool already has are told first. `validation` goes to the model's fit, and
    it and `test` are evaluated after every fit, `candidates` makes each ask look at a random part of the pool of that
    size only. `targets` are the inputs that prediction-aware methods want to do well on: inputs, a function of (count,
    seed) that gives new ones, "pool" for the pool itself, or `natsel.TargetInputs`; methods that look at none ignore
    them. `junk` says what points that were set aside teach: nothing ("reject"), or that no class is likely there
    ("expose"). `checkpoints` keeps the weights of every fit: a resumed run then need not fit again, and goes on the
    same way even where training cannot be repeated to the last bit. A method that reads no belief (`random`) fits no
    model to choose, only to measure where `test` or `validation` are given, for `predict`, and at the end of `run`. A
    warning of a method is said once in a run, whatever its numbers; the journal keeps it beside each batch. `progress`:
    True for a bar while the model is fitted or asked, or a function that `run` calls with (labels, budget). `who` is
    the name of this client among several on one journal; without one it gets a name that no other has. `resolve` says
    which label of several people counts: the "majority", which leaves an id without a label while votes tie (disputed),
    the "last" (the default for real numbers), or a function of the list of votes such as `statistics.median`. `costs`
    say what the label of each point costs (one number per point in the order of the pool, a mapping from id to cost, or
    a function of ids): points are then chosen by gain per cost, and budgets are counted in costs.

    >>> from sklearn.ensemble import RandomForestClassifier
    >>> pool = Pool(np.arange(20.0)[:, None], answers=np.arange(20) // 10)
    >>> learner = ActiveLearner(RandomForestClassifier(5), pool, k=2)
    >>> learner.run(budget=6)
    'the budget of 6 labels is used'
    >>> len(learner.labelled_ids)
    6
    """

    def __init__(
        self,
        model: Any,
        pool: Pool,
        method: str | Method | None = None,
        k: int | None = None,
        store: str | Path | Journal | None = None,
        seed: int = 0,
        *,
        validation: Examples | Any | None = None,
        test: Examples | Any | None = None,
        candidates: int | None = None,
        targets: Any = None,
        costs: Costs | None = None,
        junk: str = "reject",
        who: str = "",
        resolve: str | VotingRule | None = None,
        run: str = "main",
        checkpoints: bool = False,
        progress: Progress | bool | None = None,
    ) -> None:
        self.pool = as_pool(pool)
        if method is not None:
            resolve_method(method)
        if k is not None:
            as_count(k, "k")
        self.seed = as_count(seed, "seed", least=-(1 << 63))
        self.candidates = None if candidates is None else as_count(candidates, "candidates")
        self.costs = None if costs is None else PointCosts(costs, self.pool)
        self.run_name = run
        """The name of the run in the journal, which may hold several."""
        self.progress = progress if callable(progress) else None
        self._fitted = FittedModel(
            model,
            self.pool,
            seed=self.seed,
            validation=validation,
            test=test,
            checkpoints=checkpoints,
            bars=progress is True,
            junk=junk,
        )
        self._opened = not isinstance(store, Journal)
        self.journal = store if isinstance(store, Journal) else Journal(":memory:" if store is None else store)
        self._lock = threading.RLock()
        self._answering: set[Key] = set()
        self._names: ClientNames | None = None
        self._news: tuple[str, ...] = ()
        try:
            self._names = ClientNames(self.journal, run, who)
            known = next((one for one in self.journal.runs() if one.name == run), None)
            self.method = resolve_method(method) if method is not None else method_of(known)
            self.k = k if k is not None else 10 if known is None else known.current_terms.k
            rounds = () if known is None else self.journal.rounds(known.run)
            self._said = {_in_words(said) for one in rounds for ask in one.asks for said in ask.warnings}
            self._fits = self.method.facts.reads_belief or self._fitted.measures  # before each batch
            self.targets = targets_for(self.method, targets)
            self._record = self._begin(run, self._names, known, resolve)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"ActiveLearner({self.method.name}: {len(self._record.state.values)} of {len(self.pool)} labelled)"

    def close(self) -> None:
        """Let go of the journal and of the client's name. Nothing is lost if this is never called."""
        if self._names is not None:
            self._names.let_go()
        if self._opened:
            self.journal.close()

    @property
    def who(self) -> str:
        """The name of this client: as given, or the one it asks under."""
        return self._record.names.name

    @property
    def model(self) -> Model:
        """The model, fitted to the labels there were at the last ask, run or belief that needed a fit."""
        return self._fitted.model

    @property
    def n_labelled(self) -> int:
        """How many ids have a label."""
        return len(self._record.catch_up().values)

    @property
    def spent(self) -> float | None:
        """What all labels so far cost, those from before the run too; None where no costs were given."""
        return self._cost(self._record.snapshot())

    def _cost(self, state: RunState) -> float | None:
        return None if self.costs is None else self.costs.total([*state.values, *state.disputed])

    @property
    def labelled_ids(self) -> IdArray:
        """Ids with a label, in the order first told."""
        return self._record.ids_of(self._record.snapshot().values)

    @property
    def outstanding(self) -> IdArray:
        """Ids that were asked for, by anybody, and are neither told nor skipped nor released, in the order asked."""
        return self._record.ids_of(self._record.snapshot().outstanding)

    @property
    def history(self) -> History:
        """The rounds so far: each fit with its metrics, the seconds each stage took, and what was asked for. It is a
        list, and as a table (`to_frame`, `to_csv`) a row per round.
        """
        return History(self.journal.rounds(self._record.run))

    def labels(self) -> ToldLabels:
        """Every label that was told, corrections too, in the order told: rows with the id, the value, the name of the
        class, who told it and when, which batch it answers, and whether a later label took its place. As a table:
        `to_frame` and `to_csv`.

        >>> from sklearn.ensemble import RandomForestClassifier
        >>> learner = ActiveLearner(RandomForestClassifier(5), Pool([[0.0], [1.0]], ids=["a.png", "b.png"]))
        >>> learner.tell(["b.png"], ["cat"], who="ann")
        >>> [(row["id"], row["class"], row["who"]) for row in learner.labels()]
        [('b.png', 'cat', 'ann')]
        """
        run = next(one for one in self.journal.runs() if one.run == self._record.run)
        found = rows_of(run, self.journal.labels(run.run), self._record.snapshot())
        ids = self._record.ids_of(row["id"] for row in found).tolist()
        told = ({**row, "id": id} for row, id in zip(found, ids, strict=True))
        return ToldLabels({name: row[name] for name in LABEL_COLUMNS} for row in told)

    def labelled(self) -> Examples:
        """What the model learns from: inputs and labels in the order first told."""
        return self._record.labelled()

    def disagreements(self) -> dict[Key, dict[str, int | float | str]]:
        """Ids that people gave different labels: who last said what, in the order said, by the names of the classes
        where they have some. `resolve` says which counts; `summary` how many are disputed.

        >>> from sklearn.ensemble import RandomForestClassifier
        >>> learner = ActiveLearner(RandomForestClassifier(5), Pool([[0.0], [1.0]]))
        >>> learner.tell([0, 1], [1, 1], who="ann")
        >>> learner.tell([0, 1], [1, 0], who="bob")
        >>> learner.disagreements()
        {1: {'ann': 1, 'bob': 0}}
        """
        state, named = self._record.snapshot(), self._class_names()
        return {
            id: {who: state.classes[int(vote)] if named else vote for who, vote in votes.items()}
            for id, votes in state.votes.items()
            if len({*votes.values()}) > 1
        }

    def belief(self, inputs: Any = None, *, ids: Any = None) -> Belief:
        """What the model, fitted to all labels, believes about inputs, or about points of the pool by their ids. Names
        that come with the inputs, such as the index of a data frame, are the ids of the belief.
        """
        if (inputs is None) == (ids is None):
            raise ValueError("belief: pass either inputs or ids=…")
        with self._lock:
            self._fitted.fit_and_evaluate(self._record)
            if not self._fitted.revision:
                raise ValueError("belief: there are no labels to learn from yet; tell some first")
            if ids is None:
                found = examples_from(inputs)
                belief = self._fitted.believe(found.inputs)
                return belief if found.ids is None else belief.with_ids(found.ids)
            chosen = as_ids(ids)
            return self._fitted.believe(self.pool.inputs_of(chosen)).with_ids(chosen)

    def predict(self, inputs: Any = None, *, ids: Any = None) -> Array:
        """The labels to expect of inputs, or of points of the pool by their ids, after all labels so far: names of
        classes where they have names, numbers of classes where those are "0", "1", … or where they have none, and real
        numbers for regression.

        >>> from sklearn.ensemble import RandomForestClassifier
        >>> pool = Pool(np.arange(10.0)[:, None], labels=["cat"] * 5 + ["dog"] * 5)
        >>> learner = ActiveLearner(RandomForestClassifier(20), pool)
        >>> learner.predict([[-1.0], [9.0]]).tolist()
        ['cat', 'dog']
        """
        belief = self._predictive("predict", inputs, ids)
        found_N = belief.predict().cpu().numpy()
        names = self._class_names()
        return np.array(names)[found_N] if names else found_N

    def _class_names(self) -> tuple[str, ...]:
        """The names of the classes; none where they are "0", "1", … or labels are real numbers."""
        names = self.pool.classes
        counted = names == tuple(str(number) for number in range(len(names)))
        return () if counted or self.pool.regression else names

    def predict_proba(self, inputs: Any = None, *, ids: Any = None) -> Array:
        """The probability of each class, N × C, after all labels so far; column c is `learner.pool.classes[c]`.

        >>> from sklearn.ensemble import RandomForestClassifier
        >>> learner = ActiveLearner(RandomForestClassifier(5), Pool([[0.0], [1.0]], labels=["cat", "dog"]))
        >>> learner.predict_proba(ids=[0]).sum().item()
        1.0
        """
        probs_N_C = self._predictive("predict_proba", inputs, ids).predict_proba().cpu().numpy()
        unknown = max(0, len(self.pool.classes) - probs_N_C.shape[1])  # classes that were added since the fit
        return np.pad(probs_N_C, ((0, 0), (0, unknown)))

    def _predictive(self, name: str, inputs: Any, ids: Any) -> Belief:
        """What labels the model, fitted to all labels, expects of inputs or of points of the pool."""
        if (inputs is None) == (ids is None):
            raise ValueError(f"{name}: pass either inputs or ids=…")
        with self._lock:
            self._fitted.fit_and_evaluate(self._record)
            if not self._fitted.revision:
                raise ValueError(f"{name}: there are no labels to learn from yet; tell some first")
            rows = examples_from(inputs).inputs if ids is None else self.pool.inputs_of(ids)
            return self._fitted.predictive(rows)

    def summary(self) -> dict[str, Any]:
        """Where the run stands, as plain values."""
        state, rounds, stops = self._record.catch_up(), self.history, self.journal.stops(self._record.run)
        stages = ("fit", "evaluate", "believe", "select")
        return {
            "method": self.method.name,
            "k": self.k,
            "seed": self.seed,
            "n_pool": len(self.pool),
            "n_labelled": len(state.values),
            "n_outstanding": len(state.outstanding),
            "n_skipped": len(state.skipped),
            "n_disputed": len(state.disputed),
            **({} if self.costs is None else {"spent": self._cost(state)}),
            "rounds": len(rounds),
            "metrics": dict(rounds[-1].metrics) if rounds else {},
            "seconds": {stage: sum(one.seconds.get(stage, 0.0) for one in rounds) for stage in stages},
            "stopped": stops[-1].reason if stops and stops[-1].revision == state.revision else None,
        }

    def ask(self, k: int | None = None, *, budget: float | None = None, new: bool = False) -> Selection:
        """The next batch, recorded as handed out: nobody else on this journal is given these ids.

        What a client of this name (without a name: one without a name, which has ended) was asked before this learner
        was opened and has not answered comes back first, in its order and whatever k and budget are now. Its warnings
        say so; `new=True` goes on without it. Before there are labels a batch is drawn at random, and says so. Where
        fewer than k points are free it is shorter; where none is, it is empty. With `budget` the labels of the batch
        cost no more than that: as many points as fit, at most k where it is given.
        """
        if not isinstance(new, bool):
            raise ValueError(f"new: expected True or False, found {new!r}")
        count = None if k is None else as_count(k, "k")
        if budget is not None:
            if self.costs is None:
                raise ValueError("budget: is counted in costs; pass costs=… to the learner, or k to ask")
            budget = as_budget(budget)
        with self._lock:
            number, left = (0, []) if new else self._record.left_behind(self._answering)
            if left:
                return self._handed_out_again(number, left, budget is None and count in (None, len(left)))
            return self._ask(self.k if count is None and budget is None else count, budget=budget)

    def _handed_out_again(self, number: int, left: list[Key], as_wished: bool) -> Selection:
        """What is left of an earlier batch, as far as the journal knows it; nothing is fitted for it."""
        (ask,) = (ask for one in self.history for ask in one.asks if ask.number == number)
        ids, kept, whole = self._record.ids_of(left), {pick.id: pick for pick in ask.picks}, len(left) == len(ask.picks)
        part = "" if whole else f": the {len(left)} that are left of {len(ask.picks)} points"
        when = f"asked for at {ask.at[:16].replace('T', ' ')} UTC and not answered{part}"
        warnings = [f"{when}; learner.ask(new=True) goes on without them", *ask.warnings, *self._news]
        if not as_wished:
            warnings.insert(1, "k and budget were not looked at: an earlier batch comes back as it was")
        warnings.append("gains, overlaps and weights of its picks were not kept")
        picks = tuple(
            Pick(id, one.score or 0.0, None, one.epistemic, one.aleatoric, None)
            for id, one in zip(ids.tolist(), (kept[key] for key in left), strict=True)
        )
        scores = torch.tensor([pick.score for pick in picks], dtype=torch.float64)
        total, log_prob = (ask.total, ask.log_prob) if whole else (None, None)
        own = replace(self.method, name=ask.method)  # a method of the user's that the run has no more
        method = self.method if ask.method == self.method.name else METHODS.get(ask.method, own)
        nothing, costs = nothing_believed(ids, self.pool), None if self.costs is None else self.costs.of(ids)
        total = math.nan if total is None else total
        return Selection(
            ids, scores, total, tuple(warnings), method, nothing, log_prob=log_prob, costs=costs, recorded=picks
        )

    def tell(self, ids: Any, labels: Any = None, *, who: str | None = None) -> None:
        """Labels for ids, asked for or not, in any order and number; a label for an id that has one corrects it. Labels
        that have ids of their own (a mapping from id to label, a column of pandas) go by these, and need no others:
        `tell(labels)`.

        All are checked before any is written, and all are on disk when this returns. Telling the same again changes
        nothing. `who` says whose labels they are (`resolve`: which one counts); without it they are one person's.
        """
        if labels is None:
            index = index_of(ids)
            if not isinstance(ids, Mapping) and (index is None or only_counts(index)):
                raise ValueError(
                    "labels: found none beside the ids; pass tell(ids, labels), or a mapping from id to label"
                )
            ids, labels = list(ids) if isinstance(ids, Mapping) else index, ids
        self._record.tell(ids, labels, who=who)

    def add_classes(self, names: Sequence[str]) -> None:
        """Add classes that turned up late, after those there are; also "desc" beside "DESC", where that is meant."""
        self._record.add_classes([names] if isinstance(names, str) else list(names))

    def rename_class(self, old: str, new: str) -> None:
        """Give a class another name, for all and for good; where there is a class of that name, both are one from now
        on. Labels under the old name, told before or after, count as the new one.

        >>> from sklearn.ensemble import RandomForestClassifier
        >>> learner = ActiveLearner(RandomForestClassifier(5), Pool([[0.0], [1.0]], labels=["DESC", "Desc."]))
        >>> learner.rename_class("Desc.", "DESC")
        >>> learner.pool.classes, [row["class"] for row in learner.labels()]
        (('DESC',), ['DESC', 'DESC'])
        """
        others = tuple(name for name in self.pool.classes if name != old)
        if not isinstance(new, str) or not new.strip():
            raise ValueError(f"new: expected the name of a class, found {new!r}")
        refuse(lookalikes([new], others), others, [new], None, "new", "learner.add_classes")
        with self._record.lock:
            self.journal.rename_class(self._record.state, old, new, self._record.names.name)
            self._record.catch_up()

    def skip(self, ids: Any, *, who: str | None = None) -> None:
        """Set ids aside that cannot be labelled; they are not asked for again. `who` says who could not."""
        self._record.skip(ids, who)

    def release(self, ids: Any) -> None:
        """Hand outstanding ids, and disputed ones, back to the pool; they may be asked for again."""
        self._record.release(ids)

    def step(self, oracle: Oracle = None) -> Selection:
        """One round: what is outstanding is answered first, then a batch is asked for and answered."""
        self._answer_outstanding(oracle)
        selection = self._ask(self.k)
        self._answer_outstanding(oracle)
        return selection

    def run(self, budget: float | None = None, oracle: Oracle = None, stop: Rule | Iterable[Rule] = ()) -> str:
        """Rounds until `budget` labels are there in total, a rule says stop or no point is free; returns the reason.
        Where labels have costs, `budget` is what all labels together may cost.

        Ids that an earlier run under the same name left outstanding are answered first; without a name, those that
        clients without one left when they ended. At the end the model is fitted to all labels and evaluated.
        """
        limit: float | None = None
        rules: list[Rule] = []
        if budget is not None and self.costs is None:
            limit = as_count(budget, "budget", least=0)
            rules = [Budget(limit)]
        elif budget is not None:
            limit = as_budget(budget)
            rules = [CostBudget(limit)]
        rules += (of_stop := as_rules(stop, "stop"))
        fits = self._fits or bool(of_stop)  # a rule may look at the model
        while True:
            self._answer_outstanding(oracle)
            with self._lock:
                self._fitted.fit_and_evaluate(self._record, fits)
            state = self._record.state
            if self.progress is not None:
                self.progress(len(state.values), int(limit) if limit and self.costs is None else len(self.pool))
            rule, reason = self._reason_to_stop(rules)
            if not reason and not len(self._ask(self.k, limit, fits=fits)):
                rule, reason = "exhausted", "nothing is left to ask for"
                if limit is not None and self.costs is not None and len(self._record.free_ids()):
                    left = self._left(limit)
                    reason = f"the budget of {limit:g} is used: {left:g} is left, and every free point costs more"
                if state.outstanding:
                    reason += f": {len(state.outstanding)} ids are outstanding with other clients"
            if reason:
                with self._lock:
                    self._fitted.fit_and_evaluate(self._record)
                self.journal.record_stop(state.run, Stop(state.revision, rule, reason))
                return reason

    def _begin(self, run: str, names: ClientNames, known: Run | None, resolve: str | VotingRule | None) -> RunRecord:
        """The run in the journal: a new one, or one that was begun before."""
        config: dict[str, Any] = {"candidates": self.candidates}
        config |= {} if self.targets is None else {"targets": self.targets.terms()}
        config |= {} if self.costs is None else {"costs": self.costs.terms()}
        config |= {"junk": "expose"} if self._fitted.teaches_junk else {}
        rule_name, rule = rule_for(resolve, None if known is None else known.terms, self.pool.regression)
        config |= {} if rule_name == "last" else {"resolve": rule_name}
        contents, examples = self.pool.contents(), {"validation": self._fitted.validation, "test": self._fitted.test}
        terms = terms_of(self.method, contents, self.k, self.seed, self.model, examples, config, self.pool.went)
        terms = replace(terms, rule=rule)
        points = Points(keys_of(contents.ids), contents.marks())
        if known is not None:
            kind = known.terms.notes.get("inputs", contents.kind)
            if kind != contents.kind:
                raise ValueError(
                    f"store: {self.journal.path} holds a run of inputs {kind}, not {contents.kind}; open it as it was"
                    " or choose another file"
                )
            before = len(self.journal.points(known.run))
            if not before and terms.pool != known.terms.pool:  # begun in the journal itself, which names no points then
                data = known.terms.other_data(terms)
                raise ValueError(
                    f"store: {self.journal.path} holds a run of {data}; open it as it was or choose another file"
                )
            self._refuse_names_for_numbers(known)
            ours, theirs = self.pool.classes, {*known.classes, *known.names[1]}
            refuse(lookalikes({*ours} - theirs, theirs - {*ours}), known.classes, ours, ours, "classes", "")
            self._news = news_of(known, terms, len(points) - (before or len(points)))
        return RunRecord(self.journal, run, terms, self.pool, names, not contents.sampled, points)

    def _refuse_names_for_numbers(self, known: Run) -> None:
        """Refuse names of classes for a run whose labels are numbers: which is which is not known."""
        names = self._class_names()
        if names and not known.classes and self.journal.replay(known.run).values:
            raise ValueError(
                f"store: {self.journal.path} holds a run of classes without names, not {', '.join(names[:10])}; open it"
                " as it was or choose another file"
            )

    def _ask(
        self, k: int | None, limit: float | None = None, budget: float | None = None, fits: bool = False
    ) -> Selection:
        with self._lock:  # what is chosen follows from one fit, which no other thread may replace meanwhile
            return self._choose_and_record(k, limit, budget, fits or self._fits)

    def _left(self, limit: float) -> float:
        """What is left of a limit on the cost of all labels, once everything outstanding is labelled."""
        assert self.costs is not None
        state = self._record.state
        return max(0.0, limit - self.costs.total([*state.values, *state.disputed, *state.outstanding]))

    def _choose_and_record(self, k: int | None, limit: float | None, budget: float | None, fits: bool) -> Selection:
        """Choose again as long as another client is quicker with one of the ids. `limit` is on all labels, `budget` on
        this batch; where labels have costs both are counted in costs, else there is no budget.
        """
        who = self._record.names.take()
        self._record.catch_up()
        if not (free := self._free_points(k, limit, budget)).count:
            return self._at_random(free, 0)
        revision, believed = self._fitted.fit_and_evaluate(self._record, fits), Believed(fits)
        seconds = {"believe": 0.0, "select": 0.0} if revision else {}
        while True:
            free = self._free_points(k, limit, budget)
            cold = free.count == 0 or not revision
            seed = derive(self.seed, "start" if cold else "select", free.ask)
            selection = self._at_random(free, seed) if cold else self._by_method(free, believed, seconds, seed)
            if free.count == 0:
                return selection
            standing = () if cold else selection.warnings
            selection = self._with_costs_and_warnings(selection, k, free.affordable)
            ask = as_ask(selection, seed=seed, revision=revision, seconds=seconds, who=who)
            if self.costs is None:
                most = None if limit is None else int(limit)
            else:  # what others were handed in the meantime has to be paid for first
                most = None if limit is None else free.handed_out + len(ask.picks)
            if self._record.ask(ask, most):
                said = [one for one in standing if _in_words(one) in self._said]
                self._said.update(map(_in_words, standing))
                return replace(selection, warnings=tuple(one for one in selection.warnings if one not in said))

    def _free_points(self, k: int | None, limit: float | None, budget: float | None) -> FreePoints:
        """What the next batch may be chosen from, and how large it may be."""
        state, ids = self._record.state, self._record.free_ids()
        handed_out = len(state.values) + len(state.outstanding)
        room, affordable = len(ids), None
        if self.costs is None and limit is not None:
            room = int(limit) - handed_out
        elif self.costs is not None and (limit is not None or budget is not None):
            left = math.inf if limit is None else self._left(limit)
            affordable = left if budget is None else min(left, budget)
            ids = ids[self.costs.pays_for(affordable, ids)]
        count = max(0, min(len(ids) if k is None else k, room, len(ids)))
        return FreePoints(ids, count, affordable, state.asks + 1, handed_out)

    def _at_random(self, free: FreePoints, seed: int) -> Selection:
        """A batch for when there is no label to fit a model to, or nothing to choose."""
        ids, count = free.ids, free.count
        if self.costs is not None and free.affordable is not None:
            ids = self.costs.drawn(ids, free.affordable, count, seed)
            count = len(ids)
        return self._with_every_group(random_selection(ids, count, self.pool, seed), free, seed)

    def _with_every_group(self, drawn: Selection, free: FreePoints, seed: int) -> Selection:
        """A random batch, in which one point is exchanged for each group (arm of a study) that has none."""
        groups_of, ids = getattr(self.model, "groups_of", None), drawn.ids.copy()
        if groups_of is None or len(ids) < 2:
            return drawn
        found, group_N = (groups_of(self.pool.inputs_of(some)) for some in (ids, free.ids))
        for place, group in zip(range(len(ids) - 1, 0, -1), np.setdiff1d(group_N, found), strict=False):
            ids[place] = np.random.default_rng(derive(seed, "group")).choice(free.ids[group_N == group])
        paid = free.affordable is None or self.costs is None or self.costs.total(ids) <= free.affordable
        return replace(drawn, ids=ids, picked=drawn.picked.with_ids(ids)) if paid else drawn

    def _by_method(self, free: FreePoints, believed: Believed, seconds: dict[str, float], seed: int) -> Selection:
        """A batch that the method chooses. `believed` is what it was last chosen by, and is used again where that still
        holds; `seconds` are added to.
        """
        started, count = perf_counter(), free.count
        part_seed = derive(self.seed, "part", free.ask)
        if self.costs is not None and free.affordable is not None and not self.method.facts.reads_belief:
            ids = self.costs.drawn(free.ids, free.affordable, count, part_seed)
            count = len(ids)
        else:
            ids = part_looked_at(free.ids, self.method, count, self.candidates, part_seed)
        belief, taken = believed.belief, None
        # Targets are drawn again for each batch, and belong to the belief they were made with.
        if belief is not None and believed.targets is None and are_among(ids, belief.ids).all():
            taken = belief.ids[~are_among(belief.ids, ids)]  # by others, since the belief was made
        else:
            belief = believed.belief = believed.targets = believed.given = None  # frees memory before the next are made
            nothing, targets_seed = (
                (nothing_believed(ids, self.pool), None, None),
                derive(self.seed, "targets", free.ask),
            )
            found = self._believe_for(ids, targets_seed) if believed.fitted else nothing
            belief, believed.targets, believed.given = found
            believed.belief = belief
        seconds["believe"] += perf_counter() - started
        started = perf_counter()
        with self._fitted.bar("choose") as bar:
            selection = select(
                self.method,
                belief,
                count,
                targets=believed.targets,
                given=believed.given,
                exclude=taken,
                seed=seed,
                progress=None if bar is None else picks_counted(bar, count),
                costs=None if self.costs is None else self.costs.of(belief.ids),
                budget=free.affordable,
            )
        seconds["select"] += perf_counter() - started
        if not believed.fitted:
            scored = zip(selection.ids.tolist(), selection.scores.tolist(), strict=True)
            selection = replace(selection, recorded=tuple(Pick(*one, None, None, None, None) for one in scored))
        return selection

    def _with_costs_and_warnings(self, selection: Selection, k: int | None, affordable: float | None) -> Selection:
        """A selection with what its labels cost, and with warnings that it is short or that the run has changed."""
        if self.costs is not None:
            selection = replace(selection, costs=self.costs.of(selection.ids))
        if k is not None and 0 < len(selection) < k:
            why = "there are no more to hand out" if affordable is None else "the budget pays for no more"
            warning = f"{len(selection)} of {k} points: {why}"
            selection = replace(selection, warnings=(*selection.warnings, warning))
        if self._news:
            selection, self._news = replace(selection, warnings=(*selection.warnings, *self._news)), ()
        return selection

    def _believe_for(self, ids: Array, seed: int) -> tuple[Belief, Targets[Belief] | None, Targets[Belief] | None]:
        """What the model believes about points of the pool and, where the method looks at targets, about those of one
        batch: with the same draws for both. Students that JEPIG compares the model with are made here. At last what it
        believes about the labelled points, where the method asks what points add to these or how far from them they
        are: from one call with the pool, as the features of a Gaussian process belong to the inputs of one call.
        """
        inputs, labelled = self.pool.inputs_of(ids), self._fitted.labelled
        if not (Argument.GIVEN in self.method.needs or self.method.starts_from_labelled):
            labelled = None
        if self.method.reads_geometry:
            return geometries(self._fitted.geometry, self.pool, ids, labelled, self.targets, seed)
        if self.targets is None:
            if labelled is None:
                return self._fitted.believe(inputs).with_ids(ids), None, None
            ours, theirs = self._fitted.believe_both(inputs, labelled.inputs)
            return ours.with_ids(ids), None, Targets(theirs, labels=labelled.labels)
        given = None if labelled is None else Targets(self._fitted.believe(labelled.inputs), labels=labelled.labels)
        targets = self.targets.draw(self.pool, seed, most=most_targets(self._fitted.believe(inputs[:1])))
        teaching = self.method.objective.teaching
        if teaching is not None:
            target_inputs = targets.chosen(self._fitted.believe)
            both = believe_with_students(teaching, self._fitted, inputs, target_inputs, seed)
            return both.with_ids(ids), None, given
        ours, theirs = self._fitted.believe_both(inputs, targets.inputs)
        return ours.with_ids(ids), targets.believed(theirs), given

    def _answer_outstanding(self, oracle: Oracle) -> None:
        """Answer what this client has outstanding, in one transaction; another thread's part of it is left to that."""
        with self._lock:
            asked_by = {asked.who for asked in self._record.snapshot().outstanding.values()}
            owners = self._record.names.answering(asked_by)
            # Looked up again: whoever held a name before may have told everything in the meantime.
            found = self._record.snapshot().outstanding
            mine = [id for id, asked in found.items() if asked.who in owners and id not in self._answering]
            self._answering.update(mine)
        try:
            if mine:
                given = dict(zip(mine, answers(oracle, self.pool, self._record.ids_of(mine)), strict=True))
                known = {id: label for id, label in given.items() if label is not None}
                self._record.tell(list(known), list(known.values()), skipped=[id for id in mine if id not in known])
        finally:
            with self._lock:
                self._answering.difference_update(mine)

    def _reason_to_stop(self, rules: list[Rule]) -> tuple[str, str | None]:
        """The first rule that says stop, and its reason."""
        with self._lock:
            rounds = self.history
            asks = sorted((ask for one in rounds for ask in one.asks), key=lambda ask: ask.number)
            is_gain = self.method.facts.about_parameters  # then a score is a gain; else each pick is taken alone
            gains = [pick.score if is_gain else pick.epistemic for ask in asks[-1:] for pick in ask.picks]
            known = [gain for gain in gains if gain is not None]
            gain = float(np.mean(known)) if known else None
            if gain is not None and gain < 1e-9 and self._fitted.revision and self._fitted.makes_one_draw(self._record):
                gain = float("nan")
            view = View(
                n_labelled=len(self._record.state.values),
                rounds=rounds,
                gain=gain,
                predictions=lambda points: self._fitted.predictions(points, self._record),
                n_skipped=len(self._record.state.skipped),
                gain_available=not asks or asks[-1].picks[0].score is None or bool(known),
                cost=self._cost(self._record.state),
            )
            reasons = ((repr(rule), reason) for rule in rules if (reason := rule(view)))
            return next(reasons, ("", None))


def picks_counted(bar: Callable[[int, int], None], total: int) -> Callable[[int], None]:
    """A function that a search calls with the number of picks just made, which shows all picks so far."""
    done = 0

    def step(picks: int) -> None:
        nonlocal done
        done += picks
        bar(done, total)

    return step


def method_of(known: Run | None) -> Method:
    """The method of a run that is gone on with; of a new one, the default."""
    if known is None:
        return METHODS[DEFAULT]
    terms = known.current_terms
    method = METHODS.get(terms.method)
    same = method is not None and repr(method.objective) == terms.config.get("objective", repr(method.objective))
    if method is None or not same or repr(method.search) != terms.config.get("search", repr(method.search)):
        raise ValueError(f"method: the run goes by {terms.method}, a method of its own; pass it as method=…")
    return method


def news_of(known: Run, terms: Terms, joined: int) -> tuple[str, ...]:
    """What a run that is gone on with has now that it did not have before, as sentences for the next batch."""
    changes = known.current_terms.changes(terms)
    said = [f"{name} is now {value}" for name, value in changes.items() if name in ("method", "k", "candidates")]
    said += [f"{name} is another now" for name in ("targets", "validation", "test", "costs") if name in changes]
    said += [f"{joined} points joined the pool"] if joined > 0 else []
    return (f"changed since the last batch: {'; '.join(said)}",) if said else ()


def part_looked_at(free_ids: Array, method: Method, k: int, candidates: int | None, seed: int) -> Array:
    """The free ids that a method looks at, in the order of the pool: all of them, or a random part of `candidates` ids.
    A method that picks at random looks at none, so that k ids are enough.

    >>> part_looked_at(np.arange(5), METHODS["bald"], 2, None, seed=0)
    array([0, 1, 2, 3, 4])
    >>> len(part_looked_at(np.arange(5), METHODS["random"], 2, None, seed=0))
    2
    """
    count = max(k, candidates or len(free_ids)) if method.facts.reads_belief else k
    if count >= len(free_ids):
        return free_ids
    return free_ids[np.sort(np.random.default_rng(seed).choice(len(free_ids), count, replace=False))]


def random_selection(free_ids: Array, k: int, pool: Pool, seed: int) -> Selection:
    """k ids at random, for when there is no label to fit a model to.

    >>> random_selection(np.arange(5), 2, Pool(np.zeros((5, 1))), seed=0).warnings == (COLD,)
    True
    """
    ids = np.random.default_rng(seed).choice(free_ids, k, replace=False)
    full = len(pool.labelled_ids) == len(pool) > 0
    none = "every point has a label; labels that a simulation hides are passed as answers=…" if full else ""
    warnings = (COLD,) if k else (f"no points are free: {none or 'all are labelled, outstanding or skipped'}",)
    nothing = nothing_believed(ids, pool)
    return Selection(ids, torch.zeros(k, dtype=torch.float64), 0.0, warnings, METHODS["random"], nothing)


def nothing_believed(ids: Array, pool: Pool) -> Belief:
    """One draw, in which everything is equally likely: what stands in a selection where no model was asked."""
    if pool.regression:
        return GaussianFeatures(torch.zeros(len(ids), 1), ids=ids)
    classes = max(2, len(pool.classes))
    return CategoricalSamples.from_probs(torch.full((len(ids), 1, classes), 1 / classes), ids=ids)


def as_ask(selection: Selection, *, seed: int, revision: int, seconds: dict[str, float], who: str) -> Ask:
    """What the journal keeps of a selection: each pick with its score and the split of its uncertainty in nats."""
    nothing: list[float | None] = [None] * len(selection)
    cold = COLD in selection.warnings or selection.recorded is not None
    splits = (nothing, nothing) if cold or selection.method.reads_geometry else uncertainty_split(selection.picked)
    scores = nothing if cold else selection.scores.tolist()
    # An id that a search drew twice is asked for once.
    picks = {pick[0]: pick for pick in reversed(list(zip(keys_of(selection.ids), scores, *splits, strict=True)))}
    return Ask(
        picks=tuple(Acquisition(*pick) for pick in reversed(picks.values())),
        method=selection.method.name,
        seed=seed,
        revision=revision,
        total=selection.total,
        log_prob=selection.log_prob,
        seconds=seconds,
        warnings=selection.warnings,
        who=who,
    )
