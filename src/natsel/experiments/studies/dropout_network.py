"""The model that studies train on MNIST: its usual network with dropout, trained by the preset STOCHASTIC."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any


def dropout_network(settings: Mapping[str, Any], device: str | None) -> Any:
    """The model with the draws and epochs of a study's settings, not fitted yet.

    >>> dropout_network({"draws": 5, "epoch_samples": 64, "max_epochs": 2}, "cpu").training.patience
    2
    """
    from natsel.models import Dropout, mnist_cnn
    from natsel.models.networks.training import STOCHASTIC

    epochs = {name: settings[name] for name in ("epoch_samples", "max_epochs")}
    training = replace(STOCHASTIC, patience=min(20, epochs["max_epochs"]), **epochs)
    return Dropout(mnist_cnn, draws=settings["draws"], training=training, device=device)
