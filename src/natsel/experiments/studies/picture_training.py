"""How studies train networks on pictures: one cycle of the learning rate, to the last epoch, without early stopping."""

from collections.abc import Mapping
from typing import Any


def picture_training(settings: Mapping[str, Any], augmented: bool, device: str | None) -> Any:
    """Stochastic gradient descent with the settings of a study; `augmented`: cropped, flipped, with holes.

    >>> picture_training({"learning_rate": 0.1, "batch": 128, "epochs": 5}, False, "cpu").schedule
    'one-cycle'
    """
    from natsel.models import CropFlip, Training
    from natsel.models.networks.inputs import as_device

    return Training(
        learning_rate=settings["learning_rate"],
        weight_decay=5e-4,
        batch=settings["batch"],
        max_epochs=settings["epochs"],
        patience=None,
        keep="last",
        enough=0.0,
        optimiser="sgd",
        nesterov=True,
        schedule="one-cycle",
        augmentation=CropFlip(hole=8) if augmented else None,
        precision="bfloat16" if as_device(device).type == "cuda" else "float32",
    )
