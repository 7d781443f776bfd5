"""Triage: which predictions to accept, which to defer to a better measurement, which inputs to have labelled.

    label     epistemic > its limit                          unfamiliar: the model has not seen anything like it
    defer     else aleatoric > its limit                     ambiguous: a label would not help, a better input would
    accept    else

The epistemic score is −log q(z) where the belief has a density of features, I[Y;W|x] where it has draws. The aleatoric
score is the entropy that is left when the parameters are known; where there are neither draws nor densities it is the
entropy of the prediction, and nothing can be told to be unfamiliar. Limits are given, quantiles of a reference (scores
of inputs that are known to be ordinary), or known to the belief: a model that was trained knows its training set. The
aleatoric score of an unfamiliar point means nothing, and is not looked at.
Mukhoti et al. 2023; docs/theory/deterministic-uncertainty.md, 6.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from natsel.beliefs import Belief
from natsel.beliefs.arrays import Labels, as_integers
from natsel.beliefs.feature_density import threshold_of
from natsel.ids import IdArray
from natsel.objectives import EIG, Context, Density, Entropy, ExpectedEntropy, Objective, read, route

Decision = Literal["accept", "defer", "label"]
DECISIONS: tuple[Decision, ...] = ("accept", "defer", "label")


@dataclass(frozen=True, eq=False)
class Triage:
    """What to do with each point, and why.

    `decisions_N` counts in DECISIONS: 0 accept, 1 defer, 2 label. `epistemic_N` is None where the belief does not tell
    what is unfamiliar. Scores beyond their limits decide.

    >>> import natsel
    >>> belief = natsel.FeatureDensity([-1.0, -90.0, -2.0], [[9.0, 0.0], [9.0, 0.0], [0.1, 0.0]], ids=["a", "b", "c"])
    >>> found = triage(belief, epistemic_limit=50.0, aleatoric_limit=0.5)
    >>> list(found.words()), found.ids_of("label").tolist(), found.counts()
    (['accept', 'label', 'defer'], ['b'], {'accept': 1, 'defer': 1, 'label': 1})
    """

    ids: IdArray
    decisions_N: Tensor
    epistemic_N: Tensor | None
    aleatoric_N: Tensor
    epistemic_limit: float | None
    aleatoric_limit: float
    epistemic_name: str | None
    aleatoric_name: str
    belief: Belief = field(repr=False)
    warnings: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    def words(self) -> Iterator[Decision]:
        """The decision of each point as a word."""
        return (DECISIONS[number] for number in self.decisions_N.tolist())

    def counts(self) -> dict[str, int]:
        """How many points are accepted, deferred and to be labelled."""
        return dict(zip(DECISIONS, torch.bincount(self.decisions_N, minlength=3).tolist(), strict=True))

    def ids_of(self, decision: Decision) -> IdArray:
        """The ids of the points with this decision, those that are farthest beyond the limit first."""
        if decision not in DECISIONS:
            raise ValueError(f"decision: expected accept, defer or label, found {decision!r}; choose one of them")
        score_N = self.epistemic_N if decision == "label" and self.epistemic_N is not None else self.aleatoric_N
        own_n = (self.decisions_N == DECISIONS.index(decision)).nonzero()[:, 0]
        order_n = own_n[score_N[own_n].argsort(descending=True, stable=True)]
        found: IdArray = self.ids[order_n.cpu().numpy()]
        return found

    def rows(self) -> list[dict[str, Any]]:
        """A row per point: id, decision, both scores and the class predicted; no aleatoric score where unfamiliar."""
        epistemic = [None] * len(self) if self.epistemic_N is None else self.epistemic_N.tolist()
        table = zip(
            self.ids.tolist(),
            self.words(),
            epistemic,
            self.aleatoric_N.tolist(),
            self.belief.predict().tolist(),
            strict=True,
        )
        return [
            {
                "id": id,
                "decision": word,
                "epistemic": first,
                "aleatoric": None if word == "label" else second,
                "predicted": predicted,
            }
            for id, word, first, second, predicted in table
        ]

    def costs(self, labels: Labels, *, error: float = 1.0, defer: float = 0.1, label: float = 0.1) -> dict[str, float]:
        """What the decisions cost per point, where the labels are known: −1 for what belongs to no class.

        `error` is the price of accepting a wrong prediction (any prediction of what belongs to no class is wrong),
        `defer` and `label` those of a better measurement and of a label. "accept all" and "label all" stand beside it.

        >>> import natsel
        >>> belief = natsel.FeatureDensity([-1.0, -90.0], [[9.0, 0.0], [9.0, 0.0]])
        >>> triage(belief, epistemic_limit=50.0, aleatoric_limit=0.5).costs([0, -1])
        {'triage': 0.05, 'accept all': 0.5, 'label all': 0.1, 'errors accepted': 0.0}
        """
        for name, price in (("error", error), ("defer", defer), ("label", label)):
            if not price >= 0:
                raise ValueError(f"{name}: a cost cannot be negative (found {price}); 0 is none")
        wrong_N = _wrong(self.belief, labels)
        accepted_N = self.decisions_N.cpu() == 0
        price_N = torch.tensor([0.0, defer, label], dtype=torch.float64)[self.decisions_N.cpu()]
        price_N += error * (wrong_N & accepted_N)
        accepted = max(1, int(accepted_N.sum()))
        return {
            "triage": float(price_N.mean()),
            "accept all": error * float(wrong_N.double().mean()),
            "label all": float(label),
            "errors accepted": float((wrong_N & accepted_N).sum()) / accepted,
        }

    def curves(self, labels: Labels) -> dict[str, tuple[Tensor, Tensor]]:
        """For each rule the share of points that is accepted and the share of them that is wrong, as its limit falls.

        Rules: "epistemic" alone, "aleatoric" alone, and "both": the larger of the two ranks, so that a point is
        accepted where neither score is high. Curves begin where one point is accepted and end where all are; of points
        with equal scores each is as wrong as they are on average, so that their order does not matter.

        >>> import natsel
        >>> belief = natsel.FeatureDensity([-1.0, -90.0], [[9.0, 0.0], [9.0, 0.0]])
        >>> shares, errors = triage(belief, epistemic_limit=50.0, aleatoric_limit=0.5).curves([0, -1])["epistemic"]
        >>> shares.tolist(), errors.tolist()
        ([0.5, 1.0], [0.0, 0.5])
        """
        wrong_N = _wrong(self.belief, labels).double()
        rules = {"aleatoric": self.aleatoric_N.cpu()}
        if self.epistemic_N is not None:
            epistemic_N = self.epistemic_N.cpu()
            ranks = [
                torch.searchsorted(score_N.sort().values, score_N, right=True)
                for score_N in (epistemic_N, rules["aleatoric"])
            ]
            rules = {"epistemic": epistemic_N, **rules, "both": torch.maximum(*ranks)}
        counts_N = torch.arange(1, len(self) + 1, dtype=torch.float64)
        return {
            rule: (counts_N / len(self), _in_order(wrong_N, score_N).cumsum(0) / counts_N)
            for rule, score_N in rules.items()
        }

    def __str__(self) -> str:
        counts = ", ".join(f"{word} {count:,}" for word, count in self.counts().items())
        limits = f"{self.aleatoric_name} above {self.aleatoric_limit:.4g} is ambiguous"
        if self.epistemic_limit is not None:
            limits = f"{self.epistemic_name} above {self.epistemic_limit:.4g} is unfamiliar, {limits}"
        return "\n".join((f"{len(self):,} points: {counts}", limits, *self.warnings))


def triage(
    belief: Belief,
    *,
    epistemic_limit: float | None = None,
    aleatoric_limit: float | None = None,
    reference: Belief | None = None,
    level: float = 0.99,
) -> Triage:
    """Accept, defer or label each point of a belief about classes.

    Limits are those given, else quantiles at `level` of the scores of `reference`, a belief about ordinary inputs (such
    as held-out training data), else those that the belief has from its model.

    >>> import natsel
    >>> ordinary = natsel.CategoricalSamples.from_probs([[[0.9, 0.1], [0.8, 0.2]], [[0.6, 0.4], [0.7, 0.3]]])
    >>> strange = natsel.CategoricalSamples.from_probs([[[1.0, 0.0], [0.0, 1.0]]])
    >>> list(triage(strange, reference=ordinary).words())
    ['label']
    """
    if not isinstance(belief, Belief):
        raise ValueError(
            f"belief: expected a belief, found {type(belief).__name__}; wrap probabilities as"
            " natsel.CategoricalSamples.from_probs(probs_N_K_C)"
        )
    if belief.label_type is not int:
        raise ValueError(
            f"belief: triage is for classes, and {type(belief).__name__} is about numbers; use its interval()"
        )
    if not 0 < level < 1:
        raise ValueError(f"level: expected a share between 0 and 1, found {level}; 0.99 is usual")
    if reference is not None and (not isinstance(reference, Belief) or len(reference) == 0):
        raise ValueError("reference: expected a belief about at least one ordinary input; pass one, or limits")
    epistemic, aleatoric = _objectives(belief)
    if epistemic is None and epistemic_limit is not None:
        raise ValueError(f"epistemic_limit: {type(belief).__name__} does not tell what is unfamiliar; leave it out")
    known = belief.uncertainty_limits

    def limit(name: str, objective: Objective, given: float | None, own: float | None) -> float:
        if given is None and reference is not None:
            return -threshold_of(-_scores(objective, reference), level)
        found = own if given is None else given
        if not isinstance(found, int | float) or math.isnan(found):
            raise ValueError(
                f"{name}: none is given, and the belief has none; pass one, or reference= (--reference), the belief"
                " about ordinary inputs such as held-out data"
            )
        return found

    aleatoric_limit = limit("aleatoric_limit", aleatoric, aleatoric_limit, known[1])
    aleatoric_N = _scores(aleatoric, belief)
    decisions_N = (aleatoric_N > aleatoric_limit).long()
    epistemic_N: Tensor | None = None
    if epistemic is not None:
        epistemic_limit = limit("epistemic_limit", epistemic, epistemic_limit, known[0])
        epistemic_N = _scores(epistemic, belief)
        decisions_N = decisions_N.masked_fill(epistemic_N > epistemic_limit, 2)
    return Triage(
        ids=belief.ids,
        decisions_N=decisions_N,
        epistemic_N=epistemic_N,
        aleatoric_N=aleatoric_N,
        epistemic_limit=epistemic_limit,
        aleatoric_limit=aleatoric_limit,
        epistemic_name=None if epistemic is None else epistemic.facts.quantity,
        aleatoric_name=aleatoric.facts.quantity,
        belief=belief,
        warnings=tuple(belief.warnings),
    )


def _objectives(belief: Belief) -> tuple[Objective | None, Objective]:
    """What tells unfamiliar points of this belief, and what tells ambiguous ones."""

    def readable(objective: Objective) -> bool:
        alone = isinstance(objective, EIG) and belief.n_draws == 1  # one draw disagrees with nobody
        return not alone and route(type(objective), type(belief)) is not None

    epistemic = next((each for each in (Density(), EIG()) if readable(each)), None)
    aleatoric = next(each for each in (ExpectedEntropy(), Entropy()) if readable(each))
    return epistemic, aleatoric


def _scores(objective: Objective, belief: Belief) -> Tensor:
    return read(objective, belief, Context(None, None, torch.Generator().manual_seed(0))).scores()


def _in_order(wrong_N: Tensor, score_N: Tensor) -> Tensor:
    """By rising score how wrong each point is, the mean over those with the same score."""
    _, group, counts = np.unique(score_N.numpy(), return_inverse=True, return_counts=True)
    wrong = np.bincount(group, weights=wrong_N.numpy()) / counts
    return torch.from_numpy(np.repeat(wrong, counts))


def _wrong(belief: Belief, labels: Labels) -> Tensor:
    """Which points are predicted wrongly; those of no class, −1, always are."""
    found = np.asarray(belief.in_order(labels))
    if found.shape != (len(belief),) or found.dtype.kind not in "iub":
        raise ValueError(
            f"labels: expected one class number for each of {len(belief)} points (−1: no class), found"
            f" {found.dtype} of shape {found.shape}; pass a whole number per point"
        )
    labels_N = as_integers(found.astype(np.int64), "labels")
    wrong_N: Tensor = belief.predict().cpu() != labels_N
    return wrong_N
