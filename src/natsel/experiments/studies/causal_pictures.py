"""Causal active learning on pictures: digits whose class and brightness decide treatment and outcome.

    f(x, t) = head_t(trunk(x)),   an ensemble of such networks, fitted afresh in every round
    √PEHE = √ mean_n (τ̂_n − τ_n)² on test pictures, after every round of k labels

The trunk is a LeNet without its last layer; training stops by the loss on validation pictures. Propensities are those
of a logistic regression of all treatments on pixels. Rounds, claims and page are those of `causal_acquisition.py`;
overlap is measured on φ, which no model sees.  docs/theory/causal-bald.md; Jesson et al. 2021.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch

from natsel.beliefs.potential_outcomes import PotentialOutcomes
from natsel.data import Examples
from natsel.experiments.studies.causal_acquisition import Task, rounds
from natsel.experiments.studies.causal_acquisition import claims as claims
from natsel.experiments.studies.causal_acquisition import sections as sections
from natsel.experiments.studies.units import Array, Units
from natsel.seeds import derive

_FEATURES = 84  # of a LeNet


def run(settings: Mapping[str, Any], units: Units, device: str | None = None) -> dict[str, Any]:
    """The √PEHE of each method and trial after every round, and what was acquired."""
    return rounds(settings, partial(_task, settings, device), units)


def _task(settings: Mapping[str, Any], device: str | None, trial: int) -> Task:
    from natsel.causal import Propensity, causal_mnist, treatment_of

    seed = derive(settings["seed"], "trial", trial)
    data = causal_mnist(seed, settings["pool"], settings["validation"], settings["test"])
    inputs_M_D = np.concatenate([data.pool.inputs, data.test.inputs])
    start_n = np.random.default_rng(derive(seed, "start")).permutation(len(data.pool))[: settings["start"]]
    phi_N, outcome_N = np.asarray(data.pool.masks["phi"]), np.asarray(data.pool.labels)
    propensity_N = Propensity(treatment=-1).fit(data.pool.inputs)(data.pool.inputs)
    learner = partial(TwoArmNetworks, settings, device, seed, inputs_M_D, data.validation)
    known = treatment_of(data.pool.inputs, -1), outcome_N, propensity_N, data.effect_N, start_n
    return Task(learner, phi_N[:, None], phi_N, *known)


class TwoArmNetworks:
    """Both outcomes of M pictures under an ensemble of networks with two heads, given more and more labels."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        device: str | None,
        seed: int,
        inputs_M_D: Array,
        validation: Examples,
    ) -> None:
        from natsel.causal import SLearner, tarnet
        from natsel.models import Ensemble, Training
        from natsel.models.networks.plain_networks import lenet

        trunk = torch.nn.Sequential(torch.nn.Unflatten(1, (28, 28)), *list(lenet(mean=0.0, std=1.0))[:-1])
        training = Training(
            max_epochs=settings["epochs"], patience=settings["patience"], batch=settings["batch"], keep="least-loss"
        )
        network = tarnet(inputs_M_D.shape[1] - 1, _FEATURES, trunk=trunk)
        self.model = SLearner(Ensemble(network, settings["members"], training, device), treatment=-1)
        self.seed, self.inputs_M_D, self.validation = seed, inputs_M_D, validation
        self.labelled, self.outcomes = np.empty(0, dtype=np.int64), np.empty(0)

    def observe(self, at_k: Array, outcome_k: Array) -> None:
        """Take up the outcomes of some points: fit to all of them, and predict all points."""
        self.labelled = np.concatenate([self.labelled, at_k])
        self.outcomes = np.concatenate([self.outcomes, outcome_k])
        labelled = Examples(self.inputs_M_D[self.labelled], self.outcomes)
        self.model.fit(labelled, self.validation, seed=derive(self.seed, "fit", len(labelled)))
        belief = self.model.believe(self.inputs_M_D)
        assert isinstance(belief, PotentialOutcomes)  # of networks
        self.belief = belief

    def believe(self, treatment_N: Array, propensity_N: Array) -> PotentialOutcomes:
        """What is believed about both outcomes of the first N points."""
        return replace(self.belief[: len(treatment_N)], propensity_N=torch.from_numpy(propensity_N))

    def effects(self, first: int) -> Array:
        """The expected effects of all points from this one on."""
        found: Array = self.belief.effect_N[first:].numpy()
        return found
