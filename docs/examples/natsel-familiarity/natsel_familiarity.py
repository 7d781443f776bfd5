"""Unfamiliar inputs first: −ln p(x) under a density of the labelled inputs. docs/plug-ins.md of natsel explains it."""

from dataclasses import dataclass
from typing import ClassVar

import natsel
import numpy as np
import torch
from natsel.models.kinds import Kind, Option, register_kind
from natsel.search import register_search


@dataclass(frozen=True, eq=False)
class FeatureDensity(natsel.Belief):
    """ln p(x) and ln p(y|x) of N points."""

    log_density_N: torch.Tensor
    log_probs_N_C: torch.Tensor
    draws_id: str | None = None
    ids_N: torch.Tensor | None = None
    points: ClassVar = ("log_density_N", "log_probs_N_C", "ids_N")  # slices, files and devices follow from this
    label_type: ClassVar = int

    def __post_init__(self):
        classes, given = self.as_class_probabilities(), self.log_density_N
        log_density_N = torch.as_tensor(given if torch.is_tensor(given) else np.array(given), dtype=torch.float64)
        if log_density_N.shape != (len(classes),) or not log_density_N.isfinite().all():
            raise ValueError(f"log_density_N: expected {len(classes)} finite numbers, found {given}; check the density")
        for name, values in {**vars(classes), "log_density_N": log_density_N}.items():
            object.__setattr__(self, name, values)  # the dataclass is frozen

    def as_class_probabilities(self):
        return natsel.ClassProbabilities(self.log_probs_N_C, self.draws_id, self.ids_N)

    @classmethod
    def views(cls):  # brings entropy, margin and all else that is read from class probabilities
        return (natsel.BeliefView(natsel.ClassProbabilities, cls.as_class_probabilities),)


@dataclass(frozen=True)
class Unfamiliarity(natsel.Objective):
    facts: ClassVar = natsel.Facts("−ln p(x)", reason="of inputs, not of labels; the units of x decide where 0 is")


@natsel.pointwise(Unfamiliarity, FeatureDensity, natsel.PairFacts(nonnegative=False, cost="N"))
def unfamiliarity(objective, belief, context):
    return -belief.log_density_N


@register_search
@dataclass(frozen=True)
class DistinctScores:
    """The best scores; one within `gap` of the next better score may be of a copy, and is taken last."""

    gap: float = 1e-6
    needs: ClassVar = natsel.Capability.SCORES

    def __call__(self, state, k, allowed_N, generator, progress=None):
        scores_N, positions_M = state.scores().cpu(), allowed_N.cpu().nonzero().squeeze(1)
        ranked_M = positions_M[scores_N[positions_M].argsort(descending=True, stable=True)]
        may_be_copy_M = scores_N[ranked_M].diff(prepend=torch.tensor([torch.inf])) >= -self.gap
        picks_B = ranked_M[may_be_copy_M.int().argsort(stable=True)][:k]
        return natsel.Picks(picks_B, scores_N[picks_B], total=float(scores_N[picks_B].sum()))


class GaussianClasses:
    def __init__(self, smoothing=0.1):
        self.smoothing = smoothing  # the share of the mean variance that is added to the variance of each feature

    def fit(self, labelled, validation=None):
        rows_N_D, labels_N = np.reshape(labelled.inputs, (len(labelled), -1)), np.asarray(labelled.labels)
