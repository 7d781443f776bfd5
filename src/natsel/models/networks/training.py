"""Training: a network learns from few labels, and stops by itself.

An epoch is a fixed number of samples drawn with replacement (so that 20 labels and 300 take equally many steps), or
whole passes over the data. After each the network is measured on the validation set, without dropout or (as some
published runs did) by the mean of a few draws of it. It stops when
`patience` epochs in a row were no better than the best one, whose weights it then gets back. Better is: higher
accuracy, or the same accuracy with a lower loss (numbers: a lower squared error). Without a validation set the training
loss decides, and it stops as well once that is below `enough`.  Spec 03 and 04, recipes.

The loop trains M networks of one architecture side by side, whose tensors carry a leading axis M; one is M = 1. Given
its seed a fit is reproducible on the same device, and it leaves no trace in the global random state.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from natsel.data.examples import Examples
from natsel.memory import rows_per_chunk
from natsel.models.dropout.mask_plan import mean_outputs
from natsel.models.networks.inputs import as_device, as_inputs
from natsel.models.networks.optimisers import stepper
from natsel.models.networks.outcomes import Outcome
from natsel.models.networks.prediction import bytes_of
from natsel.models.networks.randomness import seeded
from natsel.models.protocol import Progress
from natsel.seeds import derive

# Fewest samples of an epoch made of whole passes: 20 labels are gone through 52 times before each look at validation.
_PASSES = 1024


@dataclass(frozen=True)
class Training:
    """How a network is trained.

    `epoch_samples`: samples an epoch, drawn with replacement; None: whole passes over the data, as many as make 1,024.
    `optimiser`: "adam" (weight decay as an L2 penalty, as published), "adamw" or "sgd" (momentum 0.9).
    `validation_draws`: the validation set is judged by the mean of so many draws of dropout; 0: without dropout.

    >>> Training(max_epochs=5).batch
    64
    """

    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    batch: int = 64
    epoch_samples: int | None = None
    max_epochs: int = 100
    patience: int = 20
    optimiser: str = "adam"
    enough: float = 0.01
    validation_draws: int = 0

    def __post_init__(self) -> None:
        for name in ("learning_rate", "batch", "epoch_samples", "max_epochs", "patience"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name}: must be greater than 0 (found {value}); the default is {_default(name)}")
        if not self.validation_draws >= 0:
            raise ValueError(f"validation_draws: cannot be negative (found {self.validation_draws}); 0 is no dropout")
        if not self.weight_decay >= 0:
            raise ValueError(f"weight_decay: cannot be negative (found {self.weight_decay}); 0 is none")
        if self.optimiser not in ("adam", "adamw", "sgd"):
            raise ValueError(f"optimiser: expected adam, adamw or sgd, found {self.optimiser!r}; adam is the default")


def _default(name: str) -> object:
    return Training.__dataclass_fields__[name].default


BATCHBALD = Training(epoch_samples=5056, max_epochs=30, patience=3)
"""As the BatchBALD authors trained on MNIST."""

STOCHASTIC = Training(weight_decay=5e-4, epoch_samples=1024, max_epochs=120, patience=20, validation_draws=20)
"""As the authors of stochastic batch acquisition trained on Repeated-MNIST."""

QUICK = Training(epoch_samples=1024, max_epochs=60, patience=5)
"""For a CPU: a third to half of the time of BATCHBALD; as accurate on MNIST up to 100 labels, a little less at 300."""


@dataclass(frozen=True)
class Epoch:
    """What an epoch came to: mean training loss, and loss and accuracy on the validation set where there is one."""

    number: int
    loss: float
    validation_loss: float | None = None
    validation_accuracy: float | None = None

    @property
    def merit(self) -> tuple[float, float]:
        """What decides between epochs; higher is better."""
        return self.validation_accuracy or 0.0, -(self.loss if self.validation_loss is None else self.validation_loss)


@dataclass(frozen=True)
class Members:
    """M networks of one architecture as the loop sees them."""

    forward: Callable[[Tensor], Tensor]  # inputs_M_B_… → outputs_M_B_C
    mode: Callable[[bool], object]  # dropout and the like on or off
    parameters: list[Tensor]
    state: list[Tensor]  # parameters and buffers, each with a leading axis M
    count: int = 1
    judged: Callable[[Tensor], Tensor] | None = None  # as forward, where the validation set is judged by another way


def train(
    module: nn.Module,
    labelled: Examples,
    validation: Examples | None = None,
    training: Training | None = None,
    *,
    seed: int = 0,
    device: torch.device | str | None = None,
    progress: Progress | None = None,
) -> list[Epoch]:
    """Train a module in place, on the device, to its best epoch; what is returned tells of every epoch.

    >>> import numpy as np
    >>> examples = Examples(np.eye(2), np.array([0, 1]))
    >>> epochs = train(nn.Linear(2, 2), examples, training=Training(max_epochs=3), device="cpu")
    >>> len(epochs), epochs[2].loss < epochs[0].loss
    (3, True)
    """
    device, training = as_device(device), training or Training()
    module.to(device)
    judged = None
    if training.validation_draws and validation is not None and len(validation):
        mean = mean_outputs(module, validation.inputs, derive(seed, "validation"), training.validation_draws, device)
        judged = lambda inputs_1: mean(inputs_1[0])[None]  # noqa: E731
    state = [tensor.detach()[None] for tensor in (*module.parameters(), *module.buffers())]
    one = Members(
        lambda inputs_1: module(inputs_1[0])[None], module.train, list(module.parameters()), state, judged=judged
    )
    return train_members(one, labelled, validation, training, [seed], device, progress)[0]


def train_members(
    members: Members,
    labelled: Examples,
    validation: Examples | None,
    training: Training,
    seeds: list[int],
    device: torch.device,
    progress: Progress | None = None,
) -> list[list[Epoch]]:
    """Train M networks in place, each from its own order of the data; each stops for itself."""
    if labelled.labels is None or len(labelled) == 0:
        found = "no labels" if len(labelled) else "no examples"
        raise ValueError(f"labelled: found {found}, so there is nothing to learn from; label some points first")
    if validation is not None and len(validation) and validation.labels is None:
        raise ValueError("validation: found no labels; leave it out or label it")
    outcome = Outcome.of(labelled.labels)
    learn = _ready(members, labelled, outcome, "labelled", device)
    judge = replace(outcome, soft=False)  # labels to judge by are hard
    check = _ready(members, validation, judge, "validation", device) if validation and len(validation) else None
    learnable = [parameter for parameter in members.parameters if parameter.requires_grad]
    if not learnable:
        raise ValueError("network: has no parameters that learn; unfreeze some or pass another network")
    step = stepper(learnable, training.optimiser, training.learning_rate, training.weight_decay)
    orders = [torch.Generator().manual_seed(derive(seed, "order")) for seed in seeds]
    history: list[list[Epoch]] = [[] for _ in seeds]
    best: list[Epoch | None] = [None for _ in seeds]
    kept = [tensor.clone() for tensor in members.state]
    learning = set(range(len(seeds)))

    with seeded(derive(seeds[0], "noise"), device), _reproducible():
        for number in range(training.max_epochs):
            order_M_S = torch.stack([_order(len(labelled), training, generator) for generator in orders]).to(device)
            loss_M = _go_through(members, learn, outcome, order_M_S, training.batch, step)
            rows = [loss_M, *_measure(members, check, judge)] if check else [loss_M]
            for member, row in enumerate(torch.stack(rows, 1).tolist()):  # the only wait for the device in an epoch
                if member in learning:
                    epoch = Epoch(number, *row[: 2 if outcome.numbers else 3])
                    history[member].append(epoch)
                    before = best[member]
                    if before is None or epoch.merit > before.merit:
                        best[member] = _sound(epoch)
                        for saved, tensor in zip(kept, members.state, strict=True):
                            saved[member] = tensor[member]
                    elif number - before.number >= training.patience:
                        learning.discard(member)
                    if check is None and epoch.loss < training.enough:
                        learning.discard(member)
            if progress:
                progress(number + 1 if learning else training.max_epochs, training.max_epochs)
            if not learning:
                break
    for saved, tensor in zip(kept, members.state, strict=True):
        tensor.copy_(saved)
    return history


def kept_epoch(epochs: list[Epoch]) -> Epoch:
    """The epoch whose weights a training came back to.

    >>> kept_epoch([Epoch(0, 1.0, 0.9, 0.5), Epoch(1, 0.5, 0.7, 0.8), Epoch(2, 0.4, 0.8, 0.8)]).number
    1
    """
    return max(epochs, key=lambda epoch: epoch.merit)


def outcome_of(labelled: Examples, epochs: list[Epoch]) -> Outcome:
    """What the outputs of a network trained on these examples mean, with the noise its training showed."""
    best = kept_epoch(epochs)
    error = best.loss if best.validation_loss is None else best.validation_loss
    return Outcome.of(labelled.labels).with_noise(error)


@dataclass(frozen=True)
class _Ready:
    """Examples on the device, as the loop takes them."""

    inputs_N: Tensor
    targets_N: Tensor
    rows: int  # how many make a chunk where only outputs are wanted


def _ready(members: Members, examples: Examples, outcome: Outcome, name: str, device: torch.device) -> _Ready:
    inputs_N = as_inputs(examples.inputs, device)
    one_M = inputs_N[:1].expand(members.count, 1, *inputs_N.shape[1:])
    members.mode(False)
    with torch.no_grad():
        shape = members.forward(one_M).shape
        bytes_each = members.count * bytes_of(lambda: members.forward(one_M))
    if len(shape) != 3:
        raise ValueError(
            f"network: expected outputs of shape (points, classes), found {tuple(shape[1:])} for one point;"
            " end it with a linear layer"
        )
    outcome.check(shape[-1], examples.labels, name)
    return _Ready(inputs_N, outcome.targets(examples.labels, device), rows_per_chunk(bytes_each, device))


def _go_through(
    members: Members, ready: _Ready, outcome: Outcome, order_M_S: Tensor, batch: int, step: Callable[[], None]
) -> Tensor:
    """One epoch of learning; the mean loss of each member."""
    members.mode(True)
    total_M = torch.zeros(members.count, device=order_M_S.device)
    for part_M_B in order_M_S.tensor_split(-(-order_M_S.shape[1] // batch), dim=1):  # batches as even as can be
        loss_M_B = outcome.loss(members.forward(ready.inputs_N[part_M_B]), ready.targets_N[part_M_B])
        torch.autograd.backward(loss_M_B.mean(1).sum())
        step()
        total_M += loss_M_B.detach().sum(1)
    members.mode(False)
    return total_M / order_M_S.shape[1]


@torch.no_grad()
def _measure(members: Members, ready: _Ready, outcome: Outcome) -> tuple[Tensor, Tensor]:
    """Loss and accuracy of each member, without dropout."""
    count, device = len(ready.targets_N), ready.targets_N.device
    loss_M, right_M = torch.zeros(2, members.count, device=device)
    for start in range(0, count, ready.rows):
        inputs_B, targets_B = (each[start : start + ready.rows] for each in (ready.inputs_N, ready.targets_N))
        targets_M_B = targets_B.expand(members.count, -1)
        outputs_M_B_C = (members.judged or members.forward)(inputs_B.expand(members.count, *inputs_B.shape))
        loss_M += outcome.loss(outputs_M_B_C, targets_M_B).sum(1)
        right_M += (outputs_M_B_C.argmax(-1) == targets_M_B).sum(1)
    return loss_M / count, right_M / count


def _order(count: int, training: Training, generator: torch.Generator) -> Tensor:
    """The examples of an epoch, in order."""
    if training.epoch_samples is not None:
        return torch.randint(count, (training.epoch_samples,), generator=generator)
    return torch.cat([torch.randperm(count, generator=generator) for _ in range(-(-_PASSES // count))])


def _sound(epoch: Epoch) -> Epoch:
    if not all(abs(value) < float("inf") for value in epoch.merit):
        raise ValueError(
            f"training: the loss became {epoch.merit[1]} in epoch {epoch.number + 1}; lower learning_rate or scale the"
            " inputs"
        )
    return epoch


@contextmanager
def _reproducible() -> Iterator[None]:
    """Convolutions on an accelerator give the same gradients every time."""
    before = torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False
    try:
        yield
    finally:
        torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = before
