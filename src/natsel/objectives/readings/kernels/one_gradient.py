"""One gradient per point, read from a belief: of the pool, of the targets, and of points already held."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import Tensor

from natsel.beliefs import (
    Belief,
    CategoricalSamples,
    FisherBelief,
    FisherFactors,
    FisherRows,
    GaussianFeatures,
    GaussianSamples,
    Targets,
)
from natsel.beliefs.fisher import residuals, sampled_labels
from natsel.information.mutual import log_mean
from natsel.information.weights.similarity import Kernel
from natsel.memory import chunked, fits
from natsel.objectives.gradient_options import Label, OneGradient
from natsel.objectives.objective import Objective
from natsel.objectives.reading import Context, PairFacts, StateClass, serves

Wanted = TypeVar("Wanted", bound=Objective)

_AGREED = 1e-13  # of ln p: what rounding leaves between a draw and the mean of draws that say the same


@dataclass(frozen=True, eq=False)
class Residuals:
    """π − e_y of all points, made where they are looked at.

    >>> Residuals(torch.tensor([[0.25, 0.75], [0.5, 0.5]]), torch.tensor([1, 0]))[1:].tolist()
    [[-0.5, 0.5]]
    """

    probs_N_C: Tensor
    labels_N: Tensor

    def __getitem__(self, positions: Tensor | slice) -> Tensor:
        return residuals(self.probs_N_C[positions], self.labels_N[positions])

    @property
    def shape(self) -> torch.Size:
        """N × C."""
        return self.probs_N_C.shape


def gradients(belief: Belief, label: Label, labels_N: Tensor | None, generator: torch.Generator, name: str) -> Kernel:
    """One gradient per point; `name` is the argument the labels would have come by.

    >>> belief = FisherFactors.categorical([[2.0]], [[0.25, 0.75]])
    >>> gradients(belief, "hard", None, torch.Generator(), "labels").own().tolist()
    [0.5]
    """
    match belief:
        case GaussianFeatures():
            return Kernel(belief.features_N_D, scales_N=belief.noise_N.rsqrt())
        case GaussianSamples():
            return gradients(belief.features(), label, labels_N, generator, name)
        case FisherRows():
            rows = belief.rows_N_R_P.shape[1]
            if rows != 1:
                raise ValueError(
                    f"belief: similarities compare one gradient per point, found {rows} rows; pass gradients under one"
                    " label, or choose EIG, which takes all rows"
                )
            return Kernel(belief.rows_N_R_P[:, 0])
        case FisherFactors(kind="softmax"):
            probs_N_C = belief.outputs_N_C
            classes_N = belief.class_numbers(_classes(labels_N, name) if label == "true" else label, seed=generator)
            kept = fits(probs_N_C.numel() * probs_N_C.itemsize)
            outputs = residuals(probs_N_C, classes_N) if kept else Residuals(probs_N_C, classes_N)
            return Kernel(belief.features_N_D, outputs)
        case CategoricalSamples():
            return Kernel(draw_gradients(belief, label, labels_N, generator, name))
        case FisherFactors():
            if belief.factors.n_rows != 1:
                raise ValueError(
                    f"belief: similarities compare one gradient per point, found {belief.factors.n_rows} outputs; keep"
                    " one of them, or choose EIG, which takes all"
                )
            return Kernel(belief.features_N_D, belief.outputs_N_C)
    raise TypeError(f"belief: no gradients in {type(belief).__name__}")


def draw_gradients(
    belief: CategoricalSamples, label: Label, labels_N: Tensor | None, generator: torch.Generator, name: str
) -> Tensor:
    """√w_k (p_k(y|x) / p̄(y|x) − 1): the gradient of ln p(y|x) in the weights of the draws, [N, K].

    >>> belief = CategoricalSamples.from_probs([[[1.0, 0.0], [0.5, 0.5]]])
    >>> draw_gradients(belief, "hard", None, torch.Generator(), "labels").square().sum().round(decimals=6).item()
    0.111111
    """
    count, draws, classes = belief.shape
    log_mean_N_C = chunked(
        lambda part: log_mean(belief.log_probs_N_K_C[part].double(), belief.log_weights_K),
        count,
        32 * draws * classes,
        belief.device,
    )
    if label == "true":
        classes_N = _classes(labels_N, name)
    else:
        classes_N = log_mean_N_C.argmax(1) if label == "hard" else sampled_labels(log_mean_N_C.exp(), generator)
    root_K = belief.log_weights_K.exp().sqrt()

    def work(part: slice) -> Tensor:
        index_n_1 = classes_N[part, None]
        log_mean_n_1 = log_mean_N_C[part].gather(1, index_n_1)
        if bool((log_mean_n_1 == -torch.inf).any()):
            raise ValueError(f"{name}: no draw allows the label of some point, and there is no gradient; leave it out")
        seen_n_K = belief.log_probs_N_K_C[part].double().gather(2, index_n_1[:, None].expand(-1, draws, 1))[:, :, 0]
        apart_n_K = seen_n_K - log_mean_n_1
        # Draws that agree have no gradient; cosines would make one of the rounding of their mean.
        return apart_n_K.where(apart_n_K.abs() > _AGREED, 0.0).expm1() * root_K

    return chunked(work, count, 40 * draws, belief.device)


@dataclass(frozen=True, eq=False)
class GradientKernels:
    """Gradients of the pool, of the targets where there are any, and of the points held."""

    pool: Kernel
    about: Kernel | None
    held: Kernel | None

    @property
    def targets(self) -> Kernel:
        """Gradients of the targets, which the reading needs."""
        if self.about is None:
            raise ValueError("targets: none were passed; pass the belief about them as targets=")
        return self.about


def read_gradients(objective: OneGradient, belief: Belief, context: Context[Belief]) -> GradientKernels:
    """Gradients of all points, at length one where cosines are wanted."""

    def of(part: Belief, labels: Tensor | None, name: str) -> Kernel:
        found = gradients(part, objective.label, labels, context.generator, name)
        return found.cosine() if objective.cosine else found

    def of_others(others: Targets[Belief] | None, name: str) -> Kernel | None:
        if others is None:
            return None
        if others.weights_M is not None:
            raise ValueError(f"{name} weights: {type(objective).__name__} counts all alike; leave the weights out")
        found = of(others.belief.to(belief.device), others.labels_M, f"{name} labels")
        if found.shape != pool.shape:
            raise ValueError(
                f"{name}: their gradients have (outputs, features) {found.shape} and those of the pool {pool.shape};"
                " believe about both with one model"
            )
        return found

    pool = of(belief, context.known_N, "labels")
    return GradientKernels(pool, of_others(context.about, "target"), of_others(context.given, "given"))


def serves_gradients(
    objective: type[Wanted], facts: PairFacts
) -> Callable[[StateClass[Wanted, Belief]], StateClass[Wanted, Belief]]:
    """Enter a class of states for all beliefs that have one gradient per point."""

    def enter(state: StateClass[Wanted, Belief]) -> StateClass[Wanted, Belief]:
        serves(objective, FisherBelief, facts)(state)
        serves(objective, GaussianFeatures, facts)(state)
        serves(objective, CategoricalSamples, replace(facts, needs_draws=True))(state)
        return state

    return enter


def _classes(labels_N: Tensor | None, name: str) -> Tensor:
    if labels_N is None:
        raise ValueError(f'{name}: gradients under true labels need them; pass {name}, or use label="hard"')
    classes_N = labels_N.long()
    if not bool((classes_N == labels_N).all()):
        raise ValueError(f"{name}: expected class numbers, found fractions; pass integers")
    return classes_N
