"""A network looked at while it is trained: before its first step, and after whole epochs.

    epoch 0     the untrained network
    epoch t     after t epochs of training

A look happens in evaluation mode (fixed batch statistics, no dropout, no augmentation) and leaves no trace: training
goes on as if nobody had looked, with the learning rates of the whole schedule. Training ends with the last look.
docs/theory/data-pruning.md, 5.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from natsel.data.examples import Examples
from natsel.models.kinds import DataFacts, kind_called
from natsel.models.networks.architectures import Network, fresh
from natsel.models.networks.batches import Batches, MemberEpoch, Step
from natsel.models.networks.evaluation_mode import evaluating
from natsel.models.networks.training import Training, train
from natsel.sampling.forgetting import ForgettingEvents

Seen = TypeVar("Seen")


def looks_at_training(
    network: Network,
    labelled: Examples,
    training: Training,
    epochs: Sequence[int],
    look: Callable[[nn.Module], Seen],
    *,
    seed: int,
    device: torch.device,
    forgetting: ForgettingEvents | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[Seen]:
    """What `look` returns for the network after each of some epochs, in their order.

    `forgetting` is told of every visit of an example, by its position: was it predicted correctly in the step that
    learnt from it? `progress` is called with the number of epochs done.

    >>> examples = Examples(np.eye(2, dtype=np.float32), np.array([0, 1]))
    >>> weight = lambda module: module.weight.detach().clone()
    >>> settings = {"seed": 0, "device": torch.device("cpu")}
    >>> before, after = looks_at_training(nn.Linear(2, 2), examples, Training(), [0, 2], weight, **settings)
    >>> bool((before == fresh(nn.Linear(2, 2), 0).weight).all()), bool((before == after).any())
    (True, False)
    """
    last = max(epochs)
    if min(epochs) < 0 or last > training.max_epochs:
        raise ValueError(
            f"at_epoch: expected epochs from 0, the untrained network, to the {training.max_epochs} of training, found"
            f" {min(epochs) if min(epochs) < 0 else last}; raise max_epochs or look earlier"
        )
    if training.checkpoint is not None:
        raise ValueError("training: found a checkpoint, from which epochs would not be seen again; leave it out")
    module = fresh(network, seed).to(device)
    seen: dict[int, Seen] = {}

    def look_after(epoch: int) -> None:
        if progress is not None:
            progress(epoch)
        if epoch in epochs:
            # A network may draw random numbers in evaluation mode too, and the steps that follow must not notice.
            forked = torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])
            with evaluating(module), forked:
                seen[epoch] = look(module)

    visits = None if forgetting is None else _Visits(module, labelled.labels, forgetting, device)
    watched = _Watched(training.batches, look_after, last, visits)
    whole = replace(training, batches=watched, patience=None, enough=0.0, keep="last")
    try:
        train(module, labelled, training=whole, seed=seed, device=device)
    except _LastLook:
        pass
    else:  # the last look comes after the last epoch, where no further step is asked for
        look_after(training.max_epochs)
    finally:
        if visits is not None:
            visits.hook.remove()
    return [seen[epoch] for epoch in epochs]


def network_for(examples: Examples, name: str | None = None) -> Network:
    """A network for the shape and the classes of examples, by its name in recipes.

    Without a name: `mnist_cnn` for grey pictures of 28×28, else a perceptron with 128 hidden units.

    >>> network_for(Examples(np.zeros((4, 8, 8)), np.array([0, 1, 2, 0])))()[-1].out_features
    3
    """
    shape = tuple(np.shape(examples.inputs))[1:]
    if not shape or getattr(getattr(examples.inputs, "dtype", None), "kind", "f") not in "biuf":
        raise ValueError("network: these inputs are no arrays of numbers; pass a network and its inputs as numbers")
    if name is None:
        name = "mnist-cnn" if tuple(side for side in shape if side != 1) == (28, 28) else "mlp"
    option = kind_called("ensemble").options["network"]
    if option.choices and name not in option.choices:
        raise ValueError(f"network: expected {', '.join(option.choices)}, found {name!r}; choose one of them")
    # Bytes reach a network as numbers in [0, 1]; the usual normalisation of pictures brings them around 0.
    scale = (0.1307, 0.3081) if name == "mnist-cnn" else (0.5, 0.25) if len(shape) > 1 else (0.0, 1.0)
    facts = DataFacts("data", "image" if len(shape) > 1 else "table", shape, examples.n_classes, scale, device="cpu")
    try:
        made: Any = kind_called("ensemble").build(
            {"network": name} | ({"dropout": 0.0} if name == "mlp" else {}), facts
        )
    except ValueError as reason:
        raise ValueError(str(reason).removeprefix("model.")) from None
    found: Network = made.network
    return found


class _LastLook(Exception):
    """Nothing is left to look at."""


@dataclass(frozen=True, eq=False)
class _Watched:
    """A source of batches that lets somebody look before each epoch."""

    source: Batches
    look_after: Callable[[int], None]
    last: int
    visits: "_Visits | None"

    def steps(self, epoch: MemberEpoch) -> Iterator[Step]:
        self.look_after(epoch.number)
        if epoch.number >= self.last:
            raise _LastLook
        for step in self.source.steps(epoch):
            yield step
            if self.visits is not None:
                self.visits.count(step.positions_B)
        if self.visits is not None:
            self.visits.tell()


class _Visits:
    """Whether each example was right in the step that learnt from it, from the outputs of that step itself."""

    def __init__(self, module: nn.Module, labels_N: Any, events: ForgettingEvents, device: torch.device) -> None:
        self.labels_N, self.events = torch.as_tensor(labels_N).to(device), events
        self.outputs_B_C: Tensor | None = None
        self.told: list[tuple[Tensor, Tensor]] = []
        self.hook = module.register_forward_hook(self._keep)

    def _keep(self, module: nn.Module, inputs: Any, outputs_B_C: Any) -> None:
        if module.training and self.outputs_B_C is None:  # a penalty may ask the module again
            self.outputs_B_C = outputs_B_C.detach()

    def count(self, positions_B: Tensor) -> None:
        """After a step; results stay on the device until the epoch is done."""
        assert self.outputs_B_C is not None
        positions_B = positions_B.to(self.labels_N.device)
        self.told.append((positions_B, self.outputs_B_C.argmax(1) == self.labels_N[positions_B]))
        self.outputs_B_C = None

    def tell(self) -> None:
        if self.told:
            positions, right = (torch.cat(parts).cpu().numpy() for parts in zip(*self.told, strict=True))
            self.events.update(positions, right)
        self.told = []
