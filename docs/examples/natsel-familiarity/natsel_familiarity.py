"""Unfamiliar inputs first: −ln p(x) under a density of the labelled inputs. docs/plug-ins.md of natsel explains it."""

from dataclasses import dataclass

import torch

import natsel
from natsel.models.kinds import Kind, Option, register_kind


@dataclass(frozen=True, eq=False)
class InputDensity(natsel.Belief):
    """ln p(x) and ln p(y|x) of N points. It can be viewed as class probabilities, which brings entropy and margin."""

    log_density_N: torch.Tensor
    log_probs_N_C: torch.Tensor
    draws_id: str | None = None
    ids: object = None
    points = ("log_density_N", "log_probs_N_C")  # slices, files and devices follow from this
    label_type = int

    def __post_init__(self):
        classes, given = self.views()[0].make(self), self.log_density_N
        log_density_N = (given if torch.is_tensor(given) else torch.tensor(given)).double()
        if log_density_N.shape != (len(classes),) or not log_density_N.isfinite().all():
            raise ValueError(f"log_density_N: expected one finite number per point, found {given}; correct it")
        vars(self).update(vars(classes), log_density_N=log_density_N)  # what was checked, past the frozen dataclass

    @classmethod
    def views(cls):
        kind = natsel.ClassProbabilities
        return (natsel.BeliefView(kind, lambda belief: kind(belief.log_probs_N_C, belief.draws_id, belief.ids)),)


class Unfamiliarity(natsel.Objective):
    """How surprising an input is."""

    facts = natsel.Facts("−ln p(x)", reason="of inputs, not of labels; the units of x decide where 0 is", units="nats")


@natsel.pointwise(Unfamiliarity, InputDensity, natsel.PairFacts(nonnegative=False, cost="N"))
def _unfamiliarity(objective, belief, context):
    return -belief.log_density_N


@natsel.search.register_search
@dataclass(frozen=True)
class DistinctScores:
    """The best scores; one within `gap` of the next better score may be that of a copy, and is taken last."""

    gap: float = 1e-6
    needs = natsel.Capability.SCORES

    def __call__(self, state, k, allowed_N, generator, progress=None):
        allowed_M = allowed_N.nonzero()[:, 0]
        drawn_M = allowed_M[natsel.ties.order_of(state).argsort(allowed_M)]  # which of equals comes is drawn
        scores_M, order_M = state.scores().cpu()[drawn_M].sort(descending=True, stable=True)
        rank_B = (scores_M.diff(prepend=torch.tensor([torch.inf])) >= -self.gap).int().argsort(stable=True)[:k]
        return natsel.Picks(drawn_M[order_M[rank_B]], scores_M[rank_B], float(scores_M[rank_B].sum()))


@dataclass
class GaussianClasses:
    """A Gaussian for each class, with equal variances; `smoothing` is added to the variance of each feature."""

    smoothing: float = 0.1

    def fit(self, labelled, validation=None):
        rows_N_D = torch.as_tensor(labelled.inputs).flatten(1).double()
        is_class_N_C = torch.eye(labelled.n_classes, dtype=torch.float64)[labelled.labels]
        means_C_D = (is_class_N_C.T @ rows_N_D + rows_N_D.mean(0)) / (is_class_N_C.sum(0)[:, None] + 1)
        scale_D = ((rows_N_D - is_class_N_C @ means_C_D).square().mean(0) + self.smoothing).sqrt()
        self.normal_C_D = torch.distributions.Normal(means_C_D, scale_D)
        return self

    def believe(self, inputs):
        log_p_N_C = self.normal_C_D.log_prob(torch.as_tensor(inputs).flatten(1)[:, None]).sum(2)
        return InputDensity(log_p_N_C.logsumexp(1) - torch.tensor(log_p_N_C.shape[1]).log(), log_p_N_C.log_softmax(1))


register_kind("gaussian-classes", Kind({"smoothing": Option(float, 0.1)}, lambda values, _: GaussianClasses(**values)))
natsel.register(natsel.Method(Unfamiliarity(), DistinctScores(), "unfamiliar", source="natsel-familiarity"))
