"""Likelihoods of generalised linear models: what outputs z mean, and how curved a label's surprise is in them.

    categorical   π = softmax(z)        Λ = diag(π) − π πᵀ          CategoricalSamples
    bernoulli     π = sigmoid(z)        Λ = π (1 − π)               CategoricalSamples of two classes
    gaussian      mean = z, noise σ²    Λ = 1/σ²                    GaussianSamples (one output)
    poisson       rate = exp(z)         Λ = rate

Λ does not depend on the label: for these, knowing labels changes no weight-space score.  Spec 08, B3 and B4.
"""

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from natsel.beliefs import Belief, CategoricalSamples
from natsel.information.weights.output_curvature import Kind
from natsel.models.networks.outcomes import Outcome

Likelihood = Literal["categorical", "bernoulli", "gaussian", "poisson"]


@dataclass(frozen=True)
class Link:
    """A likelihood, and for numbers how outputs are standardised and how large the noise is.

    >>> Link("gaussian", Outcome(True, noise=4.0)).outputs(torch.zeros(1, 1)).tolist()
    [[0.5]]
    """

    likelihood: Likelihood
    outcome: Outcome = field(default_factory=Outcome)

    def __post_init__(self) -> None:
        if self.likelihood not in get_args(Likelihood):
            raise ValueError(
                f"likelihood: expected {', '.join(get_args(Likelihood))}, found {self.likelihood!r}; choose one of them"
            )

    @property
    def kind(self) -> Kind:
        """How `natsel.FisherFactors` reads the outputs."""
        return "softmax" if self.likelihood == "categorical" else "diagonal"

    @property
    def noise(self) -> float:
        """The variance of labels around an output, in the units of outputs."""
        return self.outcome.noise / self.outcome.scale**2

    def outputs(self, logits_n_C: Tensor) -> Tensor:
        """π, or the root of Λ, in float64."""
        logits_n_C = logits_n_C.double()
        if self.likelihood == "categorical":
            return logits_n_C.softmax(1)
        if self.likelihood == "bernoulli":
            # Half of ln π + ln(1 − π): a sure prediction keeps the digits of what is left of it.
            return ((F.logsigmoid(logits_n_C) + F.logsigmoid(-logits_n_C)) / 2).exp()
        if self.likelihood == "poisson":
            return (logits_n_C / 2).exp()
        return torch.full_like(logits_n_C, self.noise**-0.5)

    def belief(self, logits_n_K_C: Tensor, draws_id: str | None = None) -> Belief:
        """Predictions of K draws."""
        if self.likelihood == "categorical":
            return CategoricalSamples.from_logits(logits_n_K_C, draws_id=draws_id)
        if self.likelihood == "bernoulli":
            return CategoricalSamples(
                torch.cat([F.logsigmoid(-logits_n_K_C), F.logsigmoid(logits_n_K_C)], 2), draws_id=draws_id
            )
        if self.likelihood == "gaussian" and logits_n_K_C.shape[2] == 1:
            return self.outcome.belief(logits_n_K_C, draws_id)
        raise ValueError(
            f"likelihood: draws of predictions are made of classes or of one number, found {self.likelihood} with"
            f" {logits_n_K_C.shape[2]} outputs; use believe, which needs none"
        )


def link_for(labels: Any, outputs: int, likelihood: Likelihood | None = None, logits_T_C: Tensor | None = None) -> Link:
    """The likelihood that labels and a number of outputs call for; the noise of numbers is their mean squared residual.

    >>> link_for([0, 1], 2).likelihood, link_for([0, 1], 1).likelihood, link_for([0.5, 1.0], 1).likelihood
    ('categorical', 'bernoulli', 'gaussian')
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
                f" {array.min()}..{array.max()}; give the network as many outputs as there are classes"
            )
    if likelihood != "gaussian":
        return Link(likelihood)
    noise = 1.0
    if logits_T_C is not None and array.size:
        values = torch.as_tensor(array, dtype=torch.float64, device=logits_T_C.device).reshape(logits_T_C.shape)
        spread = float(values.var(0, unbiased=False).mean()) or 1.0
        noise = max(float((values - logits_T_C.double()).square().mean()), 1e-6 * spread)
    return Link("gaussian", Outcome(True, noise=noise))
