"""A trained network, from whatever makes one: a module, a function, or a model that trains one.

What reads a single network (its last layer, its gradients) starts here, so that all of them train alike.
"""

from typing import Any

import torch
from torch import nn

from natsel.data.examples import Examples
from natsel.models.networks.architectures import fresh
from natsel.models.networks.outcomes import Outcome
from natsel.models.networks.training import Epoch, Training, outcome_of, train
from natsel.models.protocol import Model, Progress


def trained(
    network: Any,
    labelled: Examples,
    validation: Examples | None,
    training: Training | None,
    *,
    seed: int,
    device: torch.device,
    progress: Progress | None = None,
) -> tuple[nn.Module, Outcome, list[Epoch]]:
    """The module after training, what its outputs mean, and how it learnt.

    A model with one network (`natsel.models.Dropout`, `Deterministic`) is fitted as it would be by itself.

    >>> import numpy as np
    >>> examples = Examples(np.eye(2), np.array([0, 1]))
    >>> module, outcome, epochs = trained(
    ...     nn.Linear(2, 2), examples, None, Training(max_epochs=3), seed=0, device=torch.device("cpu")
    ... )
    >>> outcome.numbers, len(epochs)
    (False, 3)
    """
    if isinstance(network, Model) and not isinstance(network, nn.Module):
        return _of_model(network, labelled, validation, seed, device, progress)
    module = fresh(network, seed).to(device)
    epochs = train(module, labelled, validation, training, seed=seed, device=device, progress=progress)
    return module.eval(), outcome_of(labelled, epochs), epochs


def _of_model(
    model: Any,
    labelled: Examples,
    validation: Examples | None,
    seed: int,
    device: torch.device,
    progress: Progress | None,
) -> tuple[nn.Module, Outcome, list[Epoch]]:
    model.fit(labelled, validation, seed=seed, progress=progress)
    module = only_module(model)
    epochs = model.epochs[0] if model.epochs and isinstance(model.epochs[0], list) else list(model.epochs)
    return module.to(device).eval(), outcome_of(labelled, epochs), epochs


def only_module(model: Any) -> nn.Module:
    """The one network of a fitted model, or a module as it is.

    >>> only_module(nn.Linear(2, 2))
    Linear(in_features=2, out_features=2, bias=True)
    """
    if isinstance(model, nn.Module):
        return model
    found = getattr(model, "modules", None) or [getattr(model, "module", None)]
    if isinstance(found, list) and len(found) == 1 and isinstance(found[0], nn.Module):
        return found[0]
    count = len(found) if isinstance(found, list) and found[0] is not None else "none"
    raise ValueError(
        f"network: expected a model with one trained network, found {count} in {type(model).__name__}; pass a module,"
        " or a fitted natsel.models.Deterministic or Dropout"
    )
