"""One gradient per point, read from a belief, and the geometry it spans."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from natsel.beliefs import Belief, FisherFactors, FisherRows, GaussianFeatures, Targets
from natsel.beliefs.fisher import residuals
from natsel.capabilities import Capability
from natsel.information.weights.similarity import Kernel
from natsel.memory import fits
from natsel.objectives.gradient_options import Label
from natsel.objectives.objective import Reading

GRADIENTS: tuple[type[Belief], ...] = (FisherFactors, FisherRows, GaussianFeatures)


class Similar:
    """Base of the states: the gradients of the pool, and where points lie in the space they span."""

    geometry: ClassVar[Capability] = Capability.DISTANCES | Capability.KERNEL
    gradients: Kernel

    @cached_property
    def own_N(self) -> Tensor:
        """Squared lengths of the gradients, worked out once."""
        return self.gradients.own()

    def sizes(self) -> Tensor:
        """Squared lengths of the gradients, N values."""
        return self.own_N

    def distances(self, position: int) -> Tensor:
        """Squared distances of all gradients to one, N values."""
        return self.gradients.distances(position, self.own_N)

    def distances_to(self, positions: Tensor) -> Tensor:
        """The same to each of some, [positions, N]."""
        return self.gradients.distances_to(positions, self.own_N)

    def kernel(self, positions_a: Tensor, positions_b: Tensor) -> Tensor:
        """Similarities of some points with others, [n, m]."""
        there = self.gradients.device
        return self.gradients[positions_a.to(there)].between(self.gradients[positions_b.to(there)])


@dataclass(frozen=True, eq=False)
class Residuals:
    """π − e_y of all points, made where they are looked at.

    >>> Residuals(torch.tensor([[0.25, 0.75], [0.5, 0.5]]), torch.tensor([1, 0]))[1:].tolist()
    [[-0.5, 0.5]]
    """

    probs_N_C: Tensor
    labels_N: Tensor

    def __getitem__(self, positions: Any) -> Tensor:
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
        case FisherFactors():
            if belief.factors.n_rows != 1:
                raise ValueError(
                    f"belief: similarities compare one gradient per point, found {belief.factors.n_rows} outputs; keep"
                    " one of them, or choose EIG, which takes all"
                )
            return Kernel(belief.features_N_D, belief.outputs_N_C)
    raise TypeError(f"belief: no gradients in {type(belief).__name__}")


def read_gradients(objective: Any, belief: Belief, reading: Reading) -> tuple[Kernel, Kernel | None, Kernel | None]:
    """Gradients of the pool, of the targets and of the points held, at length one where cosines are targets."""

    def of(part: Belief, labels: Tensor | None, name: str) -> Kernel:
        found = gradients(part, objective.label, labels, reading.generator, name)
        return found.cosine() if objective.cosine else found

    def of_targets(targets: Targets | None, name: str) -> Kernel | None:
        if targets is None:
            return None
        if targets.weights_M is not None:
            raise ValueError(f"{name} weights: {type(objective).__name__} counts all alike; leave the weights out")
        found = of(targets.belief.to(belief.device), targets.labels_M, f"{name} labels")
        if found.shape != pool.shape:
            raise ValueError(
                f"{name}: their gradients have (outputs, features) {found.shape} and those of the pool {pool.shape};"
                " believe about both with one model"
            )
        return found

    pool = of(belief, reading.labels_N, "labels")
    needs_targets = objective.facts.needs_targets
    return pool, of_targets(reading.targets if needs_targets else None, "target"), of_targets(reading.given, "given")


def _classes(labels_N: Tensor | None, name: str) -> Tensor:
    if labels_N is None:
        raise ValueError(f'{name}: gradients under true labels need them; pass {name}, or use label="hard"')
    classes_N = labels_N.long()
    if not bool((classes_N == labels_N).all()):
        raise ValueError(f"{name}: expected class numbers, found fractions; pass integers")
    return classes_N
