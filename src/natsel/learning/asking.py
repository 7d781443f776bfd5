"""A batch from a pool: which ids are looked at, what is picked, and what the journal remembers of it.

Every choice is a function of the free ids, the model's belief and a seed made for this ask, so that whoever asks again
in the same state gets the same batch.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from natsel.beliefs import Belief, CategoricalSamples, GaussianFeatures
from natsel.choose import METHODS, Method, Selection, score
from natsel.data.pool import Pool
from natsel.objectives import EIG, ExpectedEntropy, Random, offers
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
