"""A batch from a pool: which ids are looked at, what is picked, and what the journal remembers of it.

Every choice is a function of the free ids, the model's belief and a seed made for this ask, so that whoever asks again
in the same state gets the same batch.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from natsel.beliefs import Belief, CategoricalSamples, GaussianFeatures
from natsel.beliefs.targets import Targets
from natsel.beliefs.two_models import TwoModels
from natsel.choose import METHODS, Method, Selection, score
from natsel.data.pool import Pool
from natsel.learning.fitting import Fitting
from natsel.learning.record import Record
from natsel.learning.students import taught
from natsel.learning.targets import TargetInputs, most_targets
from natsel.objectives import EIG, JEPIG, ExpectedEntropy, Random, offers
from natsel.objectives.jepig import TaughtJEPIG
from natsel.store import Acquisition, Ask

Array = np.ndarray[Any, Any]

COLD = "no labels yet: this batch was drawn at random, and the method decides from the first label on"


def part_of(free_ids: Array, method: Method, k: int, candidates: int | None, seed: int) -> Array:
    """The free ids a method looks at: all, or a random part of so many, in the order of the pool. Picking at random
    takes no look at all, so that a part of k will do.

    >>> part_of(np.arange(5), METHODS["bald"], 2, None, seed=0)
    array([0, 1, 2, 3, 4])
    >>> len(part_of(np.arange(5), METHODS["random"], 2, None, seed=0))
    2
    """
    count = k if isinstance(method.objective, Random) else max(k, candidates or len(free_ids))
    if count >= len(free_ids):
        return free_ids
    return free_ids[np.sort(np.random.default_rng(seed).choice(len(free_ids), count, replace=False))]


def checked_targets(targets: Any, method: Method) -> TargetInputs | None:
    """Where the targets of a method come from; None for a method that looks at none, whatever was given: methods are
    compared under one call. A method that cannot run in a learner, or not without targets, is refused at once.

    >>> checked_targets(None, METHODS["bald"]) is checked_targets("pool", METHODS["bald"]) is None
    True
    """
    given = None if targets is None else TargetInputs.of(targets)
    if method.facts.needs_labels:
        raise ValueError(
            f"method: {method.name} weighs labels that are known, and a learner asks because they are not; choose one"
            " that needs no labels"
        )
    if not method.facts.needs_targets and not isinstance(method.objective, TaughtJEPIG):
        return None
    if given is None:
        raise ValueError(
            f"targets: {method.name} asks what is learned about targets; pass the inputs that matter as targets=, or"
            ' targets="pool" for the pool itself'
        )
    weighed = given.weights is not None or given.class_prior is not None
    # A joint of all targets knows no weights: they decide how often a target is drawn.
    return replace(given, resample=True) if weighed and isinstance(method.objective, JEPIG | TaughtJEPIG) else given


def believed(
    method: Method, fitting: Fitting, record: Record, ids: Array, source: TargetInputs | None, seed: int
) -> tuple[Belief, Targets | None]:
    """What the model believes about points of the pool and, where a batch looks at some, about its targets: with the
    same draws for both. Students that JEPIG compares the model with are made here, and know the targets.
    """
    inputs = record.pool.inputs_of(ids)
    if source is None:
        return fitting.believe(inputs).with_ids(ids), None
    targets = source.draw(record.pool, seed, most=most_targets(fitting.believe(inputs[:1])))
    if isinstance(method.objective, TaughtJEPIG):
        aims = targets.chosen(fitting.believe)
        assert fitting.labelled is not None
        return taught(method.objective, fitting, fitting.labelled, inputs, aims, seed).with_ids(ids), None
    ours, theirs = fitting.believe_both(inputs, targets.inputs)
    return ours.with_ids(ids), targets.believed(theirs)


def drawn(free_ids: Array, k: int, pool: Pool, seed: int) -> Selection:
    """k ids at random, for when there is no label to fit a model to. Nothing is believed about them: one draw, in which
    everything is equally likely.

    >>> drawn(np.arange(5), 2, Pool(np.zeros((5, 1))), seed=0).warnings == (COLD,)
    True
    """
    ids = np.random.default_rng(seed).choice(free_ids, k, replace=False)
    warnings = (COLD,) if k else ("no points are free: all are labelled, outstanding or skipped",)
    belief: Belief
    if pool.regression:
        belief = GaussianFeatures(torch.zeros(k, 1), ids_N=torch.from_numpy(ids))
    else:
        classes = max(2, len(pool.classes))
        belief = CategoricalSamples.from_probs(torch.full((k, 1, classes), 1 / classes), ids_N=ids)
    return Selection(ids, torch.zeros(k, dtype=torch.float64), 0.0, warnings, METHODS["random"], belief)


def shortened(selection: Selection, k: int) -> Selection:
    """The selection, with a warning if it has fewer than the k points asked for."""
    if not 0 < len(selection) < k:
        return selection
    warning = f"{len(selection)} of {k} points: there are no more to hand out"
    return replace(selection, warnings=(*selection.warnings, warning))


def plain(selection: Selection) -> Selection:
    """The selection with what the model itself believes about its picks, whatever it was compared with."""
    picked = selection.picked
    return replace(selection, picked=picked.teacher) if isinstance(picked, TwoModels) else selection


def as_ask(selection: Selection, *, seed: int, told: int, seconds: dict[str, float], who: str) -> Ask:
    """What the journal keeps of a selection: each pick with its score and the split of its uncertainty in nats."""
    count = len(selection)
    cold = COLD in selection.warnings
    splits = [
        [None] * count if cold or not offers(kind, type(selection.picked)) else score(name, selection.picked).tolist()
        for kind, name in ((EIG, "bald"), (ExpectedEntropy, "aleatoric"))
    ]
    scores = [None] * count if cold else selection.scores.tolist()
    picks = zip(selection.indices.tolist(), scores, *splits, strict=True)
    return Ask(
        picks=tuple(Acquisition(*pick) for pick in picks),
        method=selection.method.name,
        seed=seed,
        told=told,
        total=selection.total,
        log_prob=selection.log_prob,
        seconds=seconds,
        warnings=selection.warnings,
        who=who,
    )
