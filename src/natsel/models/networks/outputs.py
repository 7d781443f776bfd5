"""What the outputs z of a network mean: the loss it learns by, the belief it holds, the curvature of its likelihood.

    Classes       π = softmax(z)           cross-entropy         CategoricalSamples       Λ = diag(π) − π πᵀ
    SoftClasses   π = softmax(z)           KL(label ‖ π)         CategoricalSamples       Λ = diag(π) − π πᵀ
    TwoClasses    π = sigmoid(z)           (trained elsewhere)   CategoricalSamples       Λ = π (1 − π)
    Numbers       z = (y − mean)/scale     squared error         GaussianSamples          Λ = scale²/noise
    Counts        rate = exp(z)            (trained elsewhere)   none                     Λ = rate

Integer labels are classes, rows of probabilities soft classes, real labels numbers. Numbers are standardised; their
noise variance is the mean squared error on the validation set (on the training set where there is none), in the
units of the labels. Λ, the second derivative of −ln p(y | z), does not depend on the label: knowing labels changes no
score in weight space.  docs/theory/weight-space.md, 3.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from natsel.beliefs import Belief, CategoricalSamples, GaussianSamples
from natsel.data.examples import Examples
from natsel.information.weights.output_curvature import Kind
from natsel.models.rows import as_array, place_and_spread

Likelihood = Literal["categorical", "bernoulli", "gaussian", "poisson"]


class Outputs(ABC):
    """One meaning of a network's outputs."""

    likelihood: ClassVar[Likelihood]
    kind: ClassVar[Kind] = "diagonal"
    """How `natsel.FisherFactors` reads `curvature`."""

    @abstractmethod
    def curvature(self, logits_n_C: Tensor) -> Tensor:
        """π where `kind` is "softmax", else the square root of Λ, in float64."""

    def as_tensor(self) -> Tensor:
        """Four numbers to be kept beside weights, from which `outputs_from_tensor` makes it again."""
        return torch.tensor([0.0, 0.0, 1.0, 1.0], dtype=torch.float64)

    def belief(self, outputs_N_K_C: Tensor, draws_id: str | None = None) -> Belief:
        """What K draws of outputs say about N points."""
        raise ValueError(
            f"likelihood: draws of predictions are made of classes or of one number, found {self.likelihood} with"
            f" {outputs_N_K_C.shape[2]} outputs; use believe, which needs none"
        )


class LearnableOutputs(Outputs):
    """Outputs that `natsel.models.train` has a loss for."""

    @abstractmethod
    def targets(self, labels: Any, device: torch.device) -> Tensor:
        """Labels as the loss takes them."""

    @abstractmethod
    def loss(self, outputs_C: Tensor, targets: Tensor) -> Tensor:
        """The loss of each example, whatever axes lie before the outputs'."""

    @abstractmethod
    def check(self, outputs_C: int, labels: Any, name: str) -> None:
        """Refuse labels that a network with so many outputs cannot learn."""

    def with_noise(self, squared_error: float) -> Self:
        """The same with the noise that a standardised squared error shows, where there is noise."""
        return self


@dataclass(frozen=True)
class Classes(LearnableOutputs):
    """One logit for each class."""

    likelihood = "categorical"
    kind = "softmax"

    def targets(self, labels: Any, device: torch.device) -> Tensor:
        return torch.from_numpy(as_array(labels).astype(np.int64)).to(device)

    def loss(self, outputs_C: Tensor, targets: Tensor) -> Tensor:
        flat = F.cross_entropy(outputs_C.flatten(0, -2), targets.flatten(), reduction="none")
        return flat.view(targets.shape)

    def check(self, outputs_C: int, labels: Any, name: str) -> None:
        array = as_array(labels)
        _check_one_kind(array.dtype.kind in "biu", name)
        if len(array) and not 0 <= array.min() <= array.max() < outputs_C:
            raise ValueError(
                f"{name}: the network has outputs for the classes 0..{outputs_C - 1}, found labels"
                f" {array.min()}..{array.max()}; {_remedy(int(array.max()) + 1, outputs_C)}"
            )

    def belief(self, outputs_N_K_C: Tensor, draws_id: str | None = None) -> Belief:
        refuse_one_output(outputs_N_K_C)
        return CategoricalSamples.from_logits(outputs_N_K_C, draws_id=draws_id)

    def curvature(self, logits_n_C: Tensor) -> Tensor:
        return logits_n_C.double().softmax(1)


@dataclass(frozen=True)
class SoftClasses(Classes):
    """One logit for each class; a label is a probability for each class."""

    def targets(self, labels: Any, device: torch.device) -> Tensor:
        return torch.from_numpy(as_array(labels).astype(np.float32)).to(device)

    def loss(self, outputs_C: Tensor, targets: Tensor) -> Tensor:
        loss: Tensor = -(targets * outputs_C.log_softmax(-1)).sum(-1) - torch.special.entr(targets).sum(-1)
        return loss

    def check(self, outputs_C: int, labels: Any, name: str) -> None:
        shape = as_array(labels).shape
        if shape[1:] != (outputs_C,):
            raise ValueError(
                f"{name}: the network has {outputs_C} outputs, found soft labels of shape {shape}; give one"
                " probability for each class"
            )


@dataclass(frozen=True)
class Numbers(LearnableOutputs):
    """One output, the standardised label; `noise` is the variance of labels around it, in their own units.

    >>> Numbers(noise=4.0).curvature(torch.zeros(1, 1)).tolist()
    [[0.5]]
    """

    mean: float = 0.0
    scale: float = 1.0
    noise: float = 1.0
    likelihood = "gaussian"

    def targets(self, labels: Any, device: torch.device) -> Tensor:
        return torch.from_numpy(((as_array(labels) - self.mean) / self.scale).astype(np.float32)).to(device)

    def loss(self, outputs_C: Tensor, targets: Tensor) -> Tensor:
        return (outputs_C[..., 0] - targets).square()

    def check(self, outputs_C: int, labels: Any, name: str) -> None:
        _check_one_kind(as_array(labels).dtype.kind not in "biu", name)
        if outputs_C != 1:
            raise ValueError(f"network: real labels need one output, found {outputs_C}; classes need integer labels")

    def with_noise(self, squared_error: float) -> Self:
        return replace(self, noise=max(squared_error, 1e-6) * self.scale**2)

    def as_tensor(self) -> Tensor:
        return torch.tensor([1.0, self.mean, self.scale, self.noise], dtype=torch.float64)

    def belief(self, outputs_N_K_C: Tensor, draws_id: str | None = None) -> Belief:
        if outputs_N_K_C.shape[2] != 1:
            return super().belief(outputs_N_K_C)
        mean_N_K = outputs_N_K_C[..., 0].double() * self.scale + self.mean  # float32 has no digits for a large mean
        return GaussianSamples._own(mean_N_K, torch.full_like(mean_N_K, self.noise), draws_id=draws_id)

    def curvature(self, logits_n_C: Tensor) -> Tensor:
        return torch.full_like(logits_n_C.double(), (self.noise / self.scale**2) ** -0.5)


@dataclass(frozen=True)
class TwoClasses(Outputs):
    """One logit, that of class 1 against class 0."""

    likelihood = "bernoulli"

    def as_tensor(self) -> Tensor:
        return torch.tensor([2.0, 0.0, 1.0, 1.0], dtype=torch.float64)

    def belief(self, outputs_N_K_C: Tensor, draws_id: str | None = None) -> Belief:
        log_probs_N_K_C = torch.cat([F.logsigmoid(-outputs_N_K_C), F.logsigmoid(outputs_N_K_C)], 2)
        return CategoricalSamples._own(log_probs_N_K_C, draws_id=draws_id)

    def curvature(self, logits_n_C: Tensor) -> Tensor:
        logits_n_C = logits_n_C.double()
        # Half of ln π + ln(1 − π): a sure prediction keeps the digits of what is left of it.
        return ((F.logsigmoid(logits_n_C) + F.logsigmoid(-logits_n_C)) / 2).exp()


@dataclass(frozen=True)
class Counts(Outputs):
    """The logarithm of a Poisson rate."""

    likelihood = "poisson"

    def curvature(self, logits_n_C: Tensor) -> Tensor:
        return (logits_n_C.double() / 2).exp()


_BY_LIKELIHOOD = {each.likelihood: each for each in (Classes, TwoClasses, Numbers, Counts)}


def outputs_for_labels(labels: Any) -> LearnableOutputs:
    """The outputs of a network that learns these labels.

    >>> outputs_for_labels([0, 1, 1]), outputs_for_labels([0.5, 1.5]).mean
    (Classes(), 1.0)
    """
    array = as_array(labels)
    if array.dtype.kind in "biu":
        return Classes()
    if array.ndim == 2:
        _check_probabilities(array)
        return SoftClasses()
    values = array.astype(np.float64)
    if not np.isfinite(values).all():
        raise ValueError("labels: found NaN or infinity; leave such examples out")
    return Numbers(*place_and_spread(values))


def outputs_with_likelihood(likelihood: Likelihood, noise: float = 1.0) -> Outputs:
    """Outputs by the name of their likelihood; `noise` is the variance of Gaussian labels.

    >>> outputs_with_likelihood("poisson")
    Counts()
    """
    if likelihood not in _BY_LIKELIHOOD:
        raise ValueError(f"likelihood: expected {', '.join(_BY_LIKELIHOOD)}, found {likelihood!r}; choose one of them")
    return Numbers(noise=noise) if likelihood == "gaussian" else _BY_LIKELIHOOD[likelihood]()


def outputs_of_trained(
    labels: Any, outputs: int, likelihood: Likelihood | None = None, logits_T_C: Tensor | None = None
) -> Outputs:
    """The outputs of a network trained elsewhere on these labels; the noise of numbers is their mean squared residual.

    >>> outputs_of_trained([0, 1], 2), outputs_of_trained([0, 1], 1), outputs_of_trained([0.5, 1.0], 1)
    (Classes(), TwoClasses(), Numbers(mean=0.0, scale=1.0, noise=1.0))
    """
    array = np.asarray(labels)
    whole = array.dtype.kind in "biu"
    if likelihood is None:
        classes = whole or (array.ndim == 2 and outputs == array.shape[1] and outputs > 1 and bool((array >= 0).all()))
        likelihood = ("bernoulli" if outputs == 1 else "categorical") if classes else "gaussian"
    if likelihood in ("categorical", "bernoulli") and whole and array.size:
        known = max(outputs, 2) if likelihood == "bernoulli" else outputs
        if not 0 <= array.min() <= array.max() < known:
            raise ValueError(
                f"labelled: expected classes from 0 to {known - 1} for {outputs} outputs, found labels"
                f" {array.min()}..{array.max()}; {_remedy(int(array.max()) + 1, outputs)}"
            )
    noise = 1.0
    if likelihood == "gaussian" and logits_T_C is not None and array.size:
        values = torch.as_tensor(array, dtype=torch.float64, device=logits_T_C.device).reshape(logits_T_C.shape)
        spread = float(values.var(0, unbiased=False).mean()) or 1.0
        noise = max(float((values - logits_T_C.double()).square().mean()), 1e-6 * spread)
    return outputs_with_likelihood(likelihood, noise)


def outputs_trained_elsewhere(likelihood: Likelihood | None = None, noise: float | None = None) -> Outputs:
    """The outputs of a network about whose labels nothing else is known; by default one logit for each class.

    >>> outputs_trained_elsewhere(), outputs_trained_elsewhere("gaussian", 0.25)
    (Classes(), Numbers(mean=0.0, scale=1.0, noise=0.25))
    """
    if likelihood == "poisson":
        raise ValueError("likelihood: draws of counts make no belief; use categorical, bernoulli or gaussian")
    if likelihood == "gaussian" and (noise is None or not 0 < noise < float("inf")):
        raise ValueError(f"noise: numbers need the variance of labels around them, found {noise}; pass noise=")
    if likelihood != "gaussian" and noise is not None:
        raise ValueError(f"noise: only numbers have it, found likelihood={likelihood!r}; pass likelihood='gaussian'")
    return outputs_with_likelihood(likelihood or "categorical", 1.0 if noise is None else noise)


def outputs_from_tensor(values: Tensor | Sequence[float]) -> Outputs:
    """Back from `as_tensor`."""
    kind, mean, scale, noise = (float(value) for value in values)
    return {0.0: Classes(), 1.0: Numbers(mean, scale, noise), 2.0: TwoClasses()}[kind]


def check_classes(outputs_C: int, labelled: Examples) -> None:
    """Refuse a network that has fewer outputs than there are classes, whether or not each of them has a label yet.

    >>> check_classes(2, Examples([[0.0]], [0], classes=("cat", "dog", "eel")))
    Traceback (most recent call last):
    ValueError: labelled: there are 3 classes and the network has 2 outputs; make it with 3, ...
    """
    classes = len(labelled.classes)
    if outputs_C < classes and not (outputs_C == 1 and classes == 2):  # one logit tells two classes apart
        raise ValueError(
            f"labelled: there are {classes} classes and the network has {outputs_C} outputs;"
            f" {_remedy(classes, outputs_C)}"
        )


def refuse_one_output(outputs_N_K_C: Tensor) -> None:
    """Refuse to read one output as the only class that there is."""
    if outputs_N_K_C.shape[2] == 1:
        raise ValueError(
            "likelihood: the network has one output, which may be a number or the logit of two classes; pass"
            " likelihood='gaussian' with noise=, or likelihood='bernoulli', or give it one output for each class"
        )


def refuse_probabilities(outputs_n_C: Tensor) -> None:
    """Refuse outputs that a softmax has made, as a second one would be taken of them.

    >>> refuse_probabilities(torch.tensor([[0.25, 0.75]]))
    Traceback (most recent call last):
    ValueError: network: its outputs are probabilities; end it without a softmax, or with a log-softmax
    """
    rows = outputs_n_C.detach().double().flatten(0, -2)
    if rows.shape[-1] > 1 and bool((rows > 0).all() & ((rows.sum(-1) - 1).abs() < 1e-5).all()):
        raise ValueError("network: its outputs are probabilities; end it without a softmax, or with a log-softmax")


def _remedy(classes: int, outputs: int) -> str:
    if outputs == 1 and classes > 2:
        return f"pass floats for numbers, or make it with {classes} outputs for classes"
    return f"make it with {classes}, for example natsel.models.mlp(features, {classes}) or mnist_cnn({classes})"


def _check_one_kind(same: bool, name: str) -> None:
    if not same:
        raise ValueError(f"{name}: classes and real numbers are mixed among the labels; give both sets one kind")


def _check_probabilities(labels_N_C: np.ndarray[Any, Any]) -> None:
    sums_N = labels_N_C.sum(1)
    off_N = ~((np.abs(sums_N - 1) < 1e-3) & (labels_N_C >= 0).all(1))
    if off_N.any():
        row = int(np.flatnonzero(off_N)[0])
        raise ValueError(f"labels: soft labels are probabilities that sum to 1 (row {row} sums to {sums_N[row]:.4g})")
