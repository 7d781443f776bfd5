"""Outcomes: what the outputs of a network mean, and so which loss it learns by and which belief it holds.

    classes    outputs are logits            cross-entropy     CategoricalSamples
    soft       outputs are logits            KL(label ‖ …)     CategoricalSamples
    numbers    one output, (y − mean)/scale   squared error     GaussianSamples with one noise variance

Integer labels are classes, rows of probabilities soft labels, real ones numbers. Numbers are standardised for training;
their noise variance is the mean squared error on the validation set (on the training set where there is none), in the
units of the labels.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from natsel.beliefs import Belief, CategoricalSamples, GaussianSamples


@dataclass(frozen=True)
class Outcome:
    """Classes, or numbers with a mean, a scale and a noise variance.

    >>> Outcome.of([0, 1, 1]).numbers, Outcome.of([0.5, 1.5]).mean
    (False, 1.0)
    """

    numbers: bool = False
    mean: float = 0.0
    scale: float = 1.0
    noise: float = 1.0
    soft: bool = False

    @classmethod
    def of(cls, labels: Any) -> Self:
        """What these labels are."""
        array = _as_array(labels)
        if array.dtype.kind in "biu":
            return cls()
        if array.ndim == 2:
            _check_soft(array)
            return cls(soft=True)
        values = array.astype(np.float64)
        if not np.isfinite(values).all():
            raise ValueError("labels: found NaN or infinity; leave such examples out")
        return cls(True, float(values.mean()), float(values.std()) or 1.0)

    def targets(self, labels: Any, device: torch.device) -> Tensor:
        """Labels as the loss takes them: classes as int64, numbers standardised as float32."""
        array = _as_array(labels)
        if self.soft:
            return torch.from_numpy(array.astype(np.float32)).to(device)
        if not self.numbers:
            return torch.from_numpy(array.astype(np.int64)).to(device)
        return torch.from_numpy(((array - self.mean) / self.scale).astype(np.float32)).to(device)

    def loss(self, outputs_C: Tensor, targets: Tensor) -> Tensor:
        """The loss of each example, whatever axes lie before the outputs'."""
        if self.numbers:
            return (outputs_C[..., 0] - targets).square()
        if self.soft:
            surprise: Tensor = -(targets * outputs_C.log_softmax(-1)).sum(-1) - torch.special.entr(targets).sum(-1)
            return surprise
        flat = F.cross_entropy(outputs_C.flatten(0, -2), targets.flatten(), reduction="none")
        return flat.view(targets.shape)

    def with_noise(self, squared_error: float) -> Self:
        """The same outcome with the noise that a standardised squared error shows."""
        return replace(self, noise=max(squared_error, 1e-6) * self.scale**2) if self.numbers else self

    def belief(self, outputs_N_K_C: Tensor, draws_id: str | None = None) -> Belief:
        """What K draws of outputs say about N points."""
        if not self.numbers:
            return CategoricalSamples.from_logits(outputs_N_K_C, draws_id=draws_id)
        mean_N_K = outputs_N_K_C[..., 0] * self.scale + self.mean
        return GaussianSamples(mean_N_K, torch.full_like(mean_N_K, self.noise), draws_id=draws_id)

    def check(self, outputs_C: int, labels: Any, name: str) -> None:
        """Refuse labels that a network with so many outputs cannot learn."""
        array = _as_array(labels)
        if self.soft:
            if array.shape[1:] != (outputs_C,):
                raise ValueError(
                    f"{name}: the network has {outputs_C} outputs, found soft labels of shape {array.shape}; give one"
                    " probability for each class"
                )
            return
        if self.numbers != (array.dtype.kind not in "biu"):
            raise ValueError(f"{name}: classes and real numbers are mixed among the labels; give both sets one kind")
        if self.numbers and outputs_C != 1:
            raise ValueError(f"network: real labels need one output, found {outputs_C}; classes need integer labels")
        if not self.numbers and len(array) and not 0 <= array.min() <= array.max() < outputs_C:
            raise ValueError(
                f"{name}: the network has outputs for the classes 0..{outputs_C - 1}, found labels"
                f" {array.min()}..{array.max()}; give the network as many outputs as there are classes"
            )

    def as_tensor(self) -> Tensor:
        """Its four numbers, to be kept beside weights."""
        return torch.tensor([float(self.numbers), self.mean, self.scale, self.noise], dtype=torch.float64)

    @classmethod
    def from_tensor(cls, values: Tensor | Sequence[float]) -> Self:
        """Back from `as_tensor`."""
        numbers, mean, scale, noise = (float(value) for value in values)
        return cls(bool(numbers), mean, scale, noise)


def _check_soft(labels_N_C: np.ndarray[Any, Any]) -> None:
    sums_N = labels_N_C.sum(1)
    off_N = ~((np.abs(sums_N - 1) < 1e-3) & (labels_N_C >= 0).all(1))
    if off_N.any():
        row = int(np.flatnonzero(off_N)[0])
        raise ValueError(f"labels: soft labels are probabilities that sum to 1 (row {row} sums to {sums_N[row]:.4g})")


def _as_array(labels: Any) -> np.ndarray[Any, Any]:
    return labels.detach().cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
