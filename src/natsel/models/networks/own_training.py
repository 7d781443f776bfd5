"""Networks that a function of the user trains: any loop, with augmentation, schedulers, Lightning or another trainer.

    train(module, labelled, validation, seed)  →  the trained module, or None where it was trained in place

`module` is a fresh network on its device, `labelled` and `validation` are examples as the pool holds them
(`natsel.models.inputs_of(module, labelled.inputs)` gives the tensor that the network is asked about later). The
function may take fewer arguments: it gets those that it names, and unnamed ones in this order.

It runs with the global random states of torch, NumPy and Python set by the seed, and they are put back afterwards:
given its seed a fit is reproducible, and the states of the caller do not move.
"""

import inspect
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from natsel.data.examples import Examples
from natsel.models.fingerprints import weights_fingerprint
from natsel.models.networks.architectures import reproducible, seeded
from natsel.seeds import derive

TrainFunction = Callable[..., nn.Module | None]

_ARGUMENTS = ("module", "labelled", "validation", "seed")


@dataclass(frozen=True)
class TrainedElsewhere:
    """How a network was trained that natsel cannot train again."""


def check_function(train: Any) -> None:
    """Refuse what cannot be called with a module and examples.

    >>> check_function(lambda module, labelled, epochs=5: None)
    >>> check_function(lambda module: None)
    Traceback (most recent call last):
    ValueError: train: <lambda> takes no labelled examples; ...
    """
    if not callable(train):
        raise ValueError(
            f"train: expected a function train(module, labelled, validation, seed), found {type(train).__name__};"
            " settings of natsel's own loop go into training=natsel.models.Training(…)"
        )
    _arguments_of(train)


def train_by(
    train: TrainFunction,
    module: nn.Module,
    labelled: Examples,
    validation: Examples | None,
    *,
    seed: int,
    device: torch.device,
) -> nn.Module:
    """The module that a function gives back for a fresh one, on the device and in evaluation mode.

    >>> def train(module, labelled):
    ...     torch.nn.init.ones_(module.weight)
    >>> train_by(train, nn.Linear(1, 2), Examples([[0.0]], [1]), None, seed=0, device=torch.device("cpu")).training
    False
    """
    before, like = weights_fingerprint(module), _shapes(module)
    small = derive(seed, "train") % 2**31  # NumPy takes 32 bits
    values = {"module": module, "labelled": labelled, "validation": validation, "seed": small}
    arguments = inspect.signature(train).bind_partial()
    arguments.arguments.update({name: values[value] for name, value in _arguments_of(train).items()})
    with _random_states(small, device):
        given_back = train(*arguments.args, **arguments.kwargs)
    trained = module if given_back is None else given_back
    if type(trained) is not type(module) or _shapes(trained) != like:
        found = type(trained).__name__ + (" with other weights" if type(trained) is type(module) else "")
        raise ValueError(
            f"train: {_name(train)} was given {type(module).__name__} and gave back {found}; return the trained network"
            " itself, or nothing where it was trained in place"
        )
    if weights_fingerprint(trained) == before:
        raise ValueError(
            f"train: {_name(train)} left every weight as it was; train the module that it is given, or return the one"
            " that it trained"
        )
    return trained.to(device).eval()


def _arguments_of(train: Any) -> dict[str, str]:
    """Which parameter of a function gets which argument: by its name, others that it cannot do without in order."""
    try:
        takes = inspect.signature(train).parameters.values()
    except (TypeError, ValueError):  # made in C, and says nothing about itself
        raise ValueError(f"train: what {_name(train)} takes is not known; wrap it into a function") from None
    kinds = inspect.Parameter
    left = [name for name in _ARGUMENTS if name not in {one.name for one in takes}]
    found: dict[str, str] = {}
    for one in takes:
        if one.name in _ARGUMENTS:
            found[one.name] = one.name
        elif one.default is kinds.empty and one.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD) and left:
            found[one.name] = left.pop(0)
        elif one.default is kinds.empty and one.kind not in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD):
            raise ValueError(
                f"train: {_name(train)} needs {one.name!r} too, and gets module, labelled, validation and seed; give it"
                " a default, or use functools.partial"
            )
    missing = [name for name in _ARGUMENTS[:2] if name not in found.values()]
    if missing:
        what = "network to train" if missing[0] == "module" else "labelled examples"
        raise ValueError(
            f"train: {_name(train)} takes no {what}; write it as train(module, labelled, validation, seed)"
        )
    return found


@contextmanager
def _random_states(seed: int, device: torch.device) -> Iterator[None]:
    """A block in which all global random states start from a seed; then they are put back."""
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 (loops of users draw from it)
    try:
        with seeded(seed, device), reproducible():
            random.seed(seed)
            np.random.seed(seed)  # noqa: NPY002
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002


def _shapes(module: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}


def _name(train: Any) -> str:
    return str(getattr(train, "__name__", type(train).__name__))
