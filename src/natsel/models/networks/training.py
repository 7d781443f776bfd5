"""Training a network on few labels, with early stopping.

An epoch is a fixed number of samples drawn with replacement (so that 20 labels and 300 take equally many steps), or
whole passes over the data; another source of batches may choose what each step learns from (`batches.py`). After each
epoch the network is measured on the validation set, without dropout or (as some published runs did) by the mean of a
few draws of it. Training stops when `patience` epochs in a row were no better than the best one, whose weights the
network then gets back. Better is: higher accuracy, or the same accuracy with a lower loss (numbers: a lower squared
error); with `keep="least-loss"` the loss alone decides. Without a validation set the training loss decides, and
training stops as well once that is below `enough`.
docs/theory/batchbald.md, 14; docs/theory/stochastic-batches.md, 9; Kirsch et al. 2019 and 2023.

The loop trains M networks of one architecture side by side, whose tensors carry a leading axis M; one is M = 1. Given
its seed a fit is reproducible on the same device, and it leaves no trace in the global random state.

All examples lie on the device from the start, bytes as bytes, and are converted batch by batch. The loop waits for the
device once per epoch. A fit with `checkpoint` goes on after it was killed (`checkpoints.py`).

How a model's networks are trained is one value: settings of this loop (`Training`), a function of the user
(`own_training.py`), or `TrainedElsewhere`. `trained_module` trains by any of them.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from natsel.data.examples import Examples, as_labelled
from natsel.memory import rows_per_chunk
from natsel.models.dropout.mask_plan import mean_outputs
from natsel.models.networks.architectures import ImageInput, Network, fresh, reproducible, seeded
from natsel.models.networks.augmentation import Augmentation
from natsel.models.networks.batches import Batches, MemberEpoch, Step, UniformBatches, samples_per_epoch
from natsel.models.networks.checkpoints import Checkpoint
from natsel.models.networks.evaluation_mode import evaluating
from natsel.models.networks.inputs import as_device, on_device, reader_of, shapes_explained
from natsel.models.networks.outputs import (
    Classes,
    LearnableOutputs,
    Numbers,
    Outputs,
    SoftClasses,
    check_classes,
    outputs_for_labels,
    outputs_of_trained,
    refuse_probabilities,
)
from natsel.models.networks.own_training import TrainedElsewhere, TrainFunction, check_function, train_by
from natsel.models.networks.prediction import POINTS_AT_A_TIME, TRIED, bytes_per_point, check_outputs, predict
from natsel.models.networks.schedules import Schedule, changes_within_epochs, rate_factor
from natsel.models.networks.spectral_norm import find_input_sizes
from natsel.models.protocol import Model, Progress
from natsel.options import check_options
from natsel.seeds import derive

Penalty = Callable[[nn.Module, Tensor, Tensor], Tensor]
"""(module, inputs_B, outputs_B_C) → one number, which is added to the loss of a step."""


@dataclass(frozen=True)
class Training:
    """How a network is trained.

    `epoch_samples`: samples per epoch, drawn with replacement; None: whole passes over the data, as many as make 1,024.
    `patience`: epochs without progress before it stops; None: it never stops for that.
    `enough`: the training loss at which it stops where there is no validation set; 0: it never stops for that.
    `keep`: the weights of the "best" epoch (highest accuracy, then lowest loss), of the epoch of "least-loss", or of
    the "last" one; `patience` counts from the best epoch, or from that of least loss.
    `optimiser`: "adam" (weight decay as an L2 penalty, as published), "adamw" or "sgd" (with `momentum`, `nesterov`).
    `schedule`: of the learning rate: "constant", "linear" (falls to 0 epoch by epoch), "steps" (times 0.1 at each of
    `drops`, shares of the epochs), "cosine" or "one-cycle". `warm_up`: the share of all steps in which it rises from 0.
    `validation_draws`: the validation set is judged by the mean of so many draws of dropout; 0: without dropout.
    `batches`: the source of the examples of each step (`natsel.models.networks.batches`); all examples alike.
    `augmentation`: how pictures are changed before each step, such as `CropFlip(padding=4, flip=True)`.
    `precision`: of the steps: "float32", or "bfloat16" for activations (weights and validation stay in float32).
    `penalty`: a function (module, inputs_B, outputs_B_C) → one number that each step adds to its loss, such as
    `JacobianPenalty()`; it may differentiate the outputs with respect to the inputs.
    `checkpoint`: a folder in which each fit has a file, from which it goes on after it was killed.

    >>> Training(max_epochs=5).batch
    64
    """

    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    batch: int = 64
    epoch_samples: int | None = None
    max_epochs: int = 100
    patience: int | None = 20
    optimiser: Literal["adam", "adamw", "sgd"] = "adam"
    schedule: Schedule = "constant"
    enough: float = 0.01
    validation_draws: int = 0
    batches: Batches = field(default_factory=UniformBatches)
    keep: Literal["best", "least-loss", "last"] = "best"
    momentum: float = 0.9
    nesterov: bool = False
    drops: tuple[float, ...] = (0.5, 0.8)
    warm_up: float = 0.0
    augmentation: Augmentation | None = None
    precision: Literal["float32", "bfloat16"] = "float32"
    penalty: Penalty | None = None
    # Where a fit is kept changes nothing about what comes out.
    checkpoint: str | Path | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        counts = dict.fromkeys(("batch", "epoch_samples", "max_epochs", "patience"), 1)
        check_options(self, **counts, validation_draws=0, learning_rate=0, weight_decay=0, momentum=0, warm_up=0)
        if not self.learning_rate > 0:
            raise ValueError("learning_rate: must be greater than 0 (found 0); the default is 0.001")
        for name in ("momentum", "warm_up"):
            if not getattr(self, name) < 1:
                raise ValueError(f"{name}: must be at least 0 and below 1 (found {getattr(self, name)})")
        if not isinstance(self.drops, tuple | list) or not all(0 <= drop <= 1 for drop in self.drops):
            raise ValueError(f"drops: expected shares of the epochs such as (0.5, 0.8), found {self.drops!r}")
        if self.nesterov and not (self.optimiser == "sgd" and self.momentum):
            raise ValueError(f"nesterov: it is for sgd with momentum, found {self.optimiser}; take it out")
        for name, wanted in (("augmentation", "CropFlip()"), ("penalty", "JacobianPenalty()")):
            found = getattr(self, name)
            if found is not None and (isinstance(found, type) or not callable(found)):
                kind = f"the class {found.__name__}" if isinstance(found, type) else repr(found)
                raise ValueError(f"{name}: expected a function or a value such as {wanted}, found {kind}")
        if self.checkpoint is not None and Path(self.checkpoint).is_file():
            raise ValueError(f"checkpoint: expected a folder, found the file {self.checkpoint}; name a folder")
        if isinstance(self.batches, type) or not isinstance(self.batches, Batches):
            found = f"the class {self.batches.__name__}" if isinstance(self.batches, type) else repr(self.batches)
            raise ValueError(
                f"batches: expected a source of batches, an object with steps(epoch), found {found};"
                " UniformBatches() is the default"
            )


BATCHBALD = Training(epoch_samples=5056, max_epochs=30, patience=3)
"""As the BatchBALD authors trained on MNIST."""

STOCHASTIC = Training(weight_decay=5e-4, epoch_samples=1024, max_epochs=120, patience=20, validation_draws=20)
"""As the authors of stochastic batch acquisition trained on Repeated-MNIST."""

QUICK = Training(epoch_samples=1024, max_epochs=60, patience=5)
"""For a CPU: a third to half of the time of BATCHBALD; as accurate on MNIST up to 100 labels, a little less at 300."""


HowTrained = Training | TrainFunction | TrainedElsewhere


@dataclass(frozen=True)
class Epoch:
    """What an epoch came to: mean training loss, and loss and accuracy on the validation set where there is one."""

    number: int
    loss: float
    validation_loss: float | None = None
    validation_accuracy: float | None = None

    @property
    def merit(self) -> tuple[float, float]:
        """Accuracy, then the negative of the loss: higher is better."""
        return self.validation_accuracy or 0.0, -(self.loss if self.validation_loss is None else self.validation_loss)


@dataclass(frozen=True)
class Members:
    """M networks of one architecture as the loop sees them; `module` is one of them, or like them."""

    module: nn.Module
    forward: Callable[[Tensor], Tensor]  # inputs_M_B_… → outputs_M_B_C
    mode: Callable[[bool], object]  # dropout and the like on or off
    parameters: list[Tensor]
    state: list[Tensor]  # parameters and buffers, each with a leading axis M
    count: int = 1
    validation_forward: Callable[[Tensor], Tensor] | None = None  # where the validation set needs another than forward


def train(
    module: nn.Module,
    labelled: Examples,
    validation: Examples | Any = None,
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
    find_input_sizes(module, labelled.inputs, device)
    if device.type == "cuda" and any(isinstance(part, ImageInput) for part in module.modules()):
        # `ImageInput` gives channels last; with weights of the same layout nothing is rearranged in each step.
        module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    validation_forward = None
    if training.validation_draws and validation is not None and len(validation):
        mean = mean_outputs(module, validation.inputs, derive(seed, "validation"), training.validation_draws, device)
        validation_forward = lambda inputs_1: mean(inputs_1[0])[None]  # noqa: E731
    state = [tensor.detach()[None] for tensor in (*module.parameters(), *module.buffers())]
    forward = lambda inputs_1: module(inputs_1[0])[None]  # noqa: E731
    parameters: list[Tensor] = list(module.parameters())
    member = Members(module, forward, module.train, parameters, state, validation_forward=validation_forward)
    return train_members(member, labelled, validation, training, [seed], device, progress)[0]


def train_members(
    members: Members,
    labelled: Examples | Any,
    validation: Examples | Any,
    training: Training,
    seeds: list[int],
    device: torch.device,
    progress: Progress | None = None,
) -> list[list[Epoch]]:
    """Train M networks in place, each from its own batches; each stops for itself."""
    labelled, validation = as_labelled(labelled, validation)
    outputs = outputs_for_labels(labelled.labels)
    learn = _prepared(members, labelled, outputs, "labelled", device)
    judge = Classes() if isinstance(outputs, SoftClasses) else outputs  # labels for validation are hard
    check = _prepared(members, validation, judge, "validation", device) if validation and len(validation) else None
    learnable = [parameter for parameter in members.parameters if parameter.requires_grad]
    if not learnable:
        raise ValueError("network: has no parameters that learn; unfreeze some or pass another network")
    if training.penalty is not None and members.count > 1:
        raise ValueError("penalty: networks that learn side by side cannot have one; train them one after another")
    optimiser = _optimiser(learnable, training)
    orders = [torch.Generator().manual_seed(derive(seed, "order")) for seed in seeds]
    changes = [torch.Generator(device).manual_seed(derive(seed, "augmentation")) for seed in seeds]
    history: list[list[Epoch]] = [[] for _ in seeds]
    best: list[Epoch | None] = [None for _ in seeds]
    kept = [tensor.clone() for tensor in members.state]
    learning = set(range(len(seeds)))
    checkpoint = _checkpoint(members, learn, check, training, seeds, kept, optimiser, [*orders, *changes])

    with seeded(derive(seeds[0], "noise"), device), reproducible():
        start, stood = 0, checkpoint.resume() if checkpoint else None
        if stood is not None:
            start, learning = stood["epochs"], set(stood["learning"])
            history = [[Epoch(**epoch) for epoch in epochs] for epochs in stood["history"]]
            best = [_best_epoch(epochs, training.keep) for epochs in history]
            if progress:
                progress(start, training.max_epochs)
        for number in range(start, training.max_epochs):
            sources = [
                training.batches.steps(
                    MemberEpoch(
                        *(number, len(labelled), training.batch, training.epoch_samples, generator),
                        losses=_look_at(members, member, learn, outputs),
                        device=device,
                    )
                )
                for member, generator in enumerate(orders)
            ]
            steps = _joint_steps(sources, device)
            loss_M = _train_epoch(members, learn, outputs, steps, optimiser, training, number, changes)
            rows = [loss_M, *_measure(members, check, judge)] if check else [loss_M]
            for member, row in enumerate(torch.stack(rows, 1).tolist()):  # the only wait for the device in an epoch
                if member in learning:
                    epoch = Epoch(number, *row[: 2 if isinstance(outputs, Numbers) else 3])
                    history[member].append(epoch)
                    before = best[member]
                    better = before is None or _merit(epoch, training.keep) > _merit(before, training.keep)
                    if better:
                        best[member] = epoch
                    if better or training.keep == "last":
                        _check_finite(epoch)
                        for saved, tensor in zip(kept, members.state, strict=True):
                            saved[member] = tensor[member]
                    if before and not better and training.patience and number - before.number >= training.patience:
                        learning.discard(member)
                    if check is None and epoch.loss < training.enough:
                        learning.discard(member)
            if progress:
                progress(number + 1 if learning else training.max_epochs, training.max_epochs)
            if not learning:
                break
            if checkpoint:
                checkpoint.write(_standing(number + 1, learning, history))
        if checkpoint and start < training.max_epochs:
            checkpoint.write(_standing(training.max_epochs, set(), history), done=True)
    for saved, tensor in zip(kept, members.state, strict=True):
        tensor.copy_(saved)
    return history


def _checkpoint(
    members: Members,
    learn: "_Prepared",
    check: "_Prepared | None",
    training: Training,
    seeds: list[int],
    kept: list[Tensor],
    optimiser: torch.optim.Optimizer,
    generators: list[torch.Generator],
) -> Checkpoint | None:
    """The file of a fit, named by all that decides what it comes to."""
    if training.checkpoint is None:
        return None
    device = learn.targets_N.device
    data = [tensor for part in (learn, check) if part is not None for tensor in (part.inputs_N, part.targets_N)]
    decided_by = [training, *seeds, device.type, members.module, *data, *members.state]
    return Checkpoint(training.checkpoint, decided_by, members.state, kept, optimiser, generators, device)


def _standing(epochs: int, learning: set[int], history: list[list[Epoch]]) -> dict[str, Any]:
    """What the file of a fit says besides tensors."""
    told = [[asdict(epoch) for epoch in member] for member in history]
    return {"epochs": epochs, "learning": sorted(learning), "history": told}


def how_trained(training: Training | None, train: TrainFunction | None) -> Training | TrainFunction | None:
    """The two arguments of a model as one value; None where neither is given.

    >>> how_trained(Training(max_epochs=3), None).max_epochs
    3
    """
    if train is None:
        if training is not None and not isinstance(training, Training):
            remedy = "pass a function as train=" if callable(training) else "Training() is the default"
            raise ValueError(f"training: expected natsel.models.Training(…), found {type(training).__name__}; {remedy}")
        return training
    if training is not None:
        raise ValueError("train: found training= as well, which is for natsel's own loop; pass one of the two")
    check_function(train)
    return train


@dataclass(frozen=True)
class Trained:
    """A trained network, what its outputs mean, and its epochs (none where a function of the user trained it)."""

    module: nn.Module
    outputs: Outputs
    epochs: list[Epoch]


def fresh_to_train(network: Network, how: HowTrained, seed: int, device: torch.device) -> nn.Module:
    """A network with new initial weights on the device; refused where natsel does not know how to train it.

    >>> fresh_to_train(nn.Linear(2, 2), TrainedElsewhere(), 0, torch.device("cpu"))
    Traceback (most recent call last):
    ValueError: train: this network was trained elsewhere, so that a fit does not know how; pass train=, ...
    """
    if isinstance(how, TrainedElsewhere):
        raise ValueError(
            "train: this network was trained elsewhere, so that a fit does not know how; pass train=, your function"
            " train(module, labelled, validation, seed), to around as well"
        )
    return fresh(network, seed).to(device)


def trained_module(
    module: nn.Module,
    labelled: Examples | Any,
    validation: Examples | Any,
    how: HowTrained,
    *,
    seed: int,
    device: torch.device,
    progress: Progress | None = None,
) -> Trained:
    """A fresh module, trained as one value says: by settings of natsel's loop or by a function of the user.

    >>> import numpy as np
    >>> examples = Examples(np.eye(2), np.array([0, 1]))
    >>> settings = {"seed": 0, "device": torch.device("cpu")}
    >>> found = trained_module(nn.Linear(2, 2), examples, None, Training(max_epochs=3), **settings)
    >>> found.outputs, len(found.epochs)
    (Classes(), 3)
    """
    if isinstance(how, Training):
        epochs = train(module, labelled, validation, how, seed=seed, device=device, progress=progress)
        return Trained(module.eval(), trained_outputs(labelled, epochs, how.keep), epochs)
    assert not isinstance(how, TrainedElsewhere)  # fresh_to_train refuses it
    labelled, validation = as_labelled(labelled, validation)
    with evaluating(module), torch.no_grad():
        width = check_outputs(module, reader_of(module, labelled.inputs, device)(slice(0, TRIED)))
    check_classes(width, labelled)
    outputs = outputs_of_trained(labelled.labels, width)  # refuses labels that the network cannot learn
    module = train_by(how, module, labelled, validation, seed=seed, device=device)
    if isinstance(outputs, Numbers):
        judge = validation if validation is not None and len(validation) else labelled
        outputs_T_C = predict([module], judge.inputs, device)[:, 0]
        outputs = outputs_of_trained(judge.labels, width, outputs.likelihood, outputs_T_C)
    return Trained(module, outputs, [])


def trained(
    network: Any,
    labelled: Examples | Any,
    validation: Examples | Any,
    how: HowTrained,
    *,
    seed: int,
    device: torch.device,
    progress: Progress | None = None,
) -> Trained:
    """A trained network, from whatever makes one.

    `network` is a module or a function that makes one (trained afresh), or a model with one network
    (`natsel.models.Dropout`, `Deterministic`), which is fitted as it would be by itself.

    >>> import numpy as np
    >>> examples = Examples(np.eye(2), np.array([0, 1]))
    >>> settings = {"seed": 0, "device": torch.device("cpu")}
    >>> len(trained(lambda: nn.Linear(2, 2), examples, None, Training(max_epochs=3), **settings).epochs)
    3
    """
    if isinstance(network, Model) and not isinstance(network, nn.Module):
        model: Any = network
        model.fit(labelled, validation, seed=seed, progress=progress)
        module = only_module(model).to(device)
        epochs = model.epochs[0] if model.epochs and isinstance(model.epochs[0], list) else list(model.epochs)
        return Trained(module.eval(), model.outputs, epochs)
    module = fresh_to_train(network, how, seed, device)
    return trained_module(module, labelled, validation, how, seed=seed, device=device, progress=progress)


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


def kept_epoch(epochs: list[Epoch], keep: str = "best") -> Epoch:
    """The epoch whose weights a training came back to; `keep` as in `Training`.

    >>> kept_epoch([Epoch(0, 1.0, 0.9, 0.5), Epoch(1, 0.5, 0.7, 0.8), Epoch(2, 0.4, 0.8, 0.8)]).number
    1
    """
    return epochs[-1] if keep == "last" else _best_epoch(epochs, keep)


def _best_epoch(epochs: list[Epoch], keep: str) -> Epoch:
    """The epoch that patience counts from."""
    return max(epochs, key=lambda epoch: _merit(epoch, keep))


def _merit(epoch: Epoch, keep: str) -> tuple[float, float]:
    """What decides between epochs, higher is better; `keep` as in `Training`."""
    accuracy, negative_loss = epoch.merit
    return 0.0 if keep == "least-loss" else accuracy, negative_loss


def trained_outputs(labelled: Examples | Any, epochs: list[Epoch], keep: str = "best") -> LearnableOutputs:
    """What the outputs of a network trained on these examples mean, with the noise its training showed."""
    best = kept_epoch(epochs, keep)
    error = best.loss if best.validation_loss is None else best.validation_loss
    return outputs_for_labels(labelled.labels).with_noise(error)


@dataclass(frozen=True)
class _Prepared:
    """Examples on the device, as the loop takes them."""

    inputs_N: Tensor  # bytes as they are stored
    convert: Callable[[Tensor], Tensor]  # some of them → what the network takes
    targets_N: Tensor
    rows: int  # how many make a chunk where only outputs are wanted

    def inputs_at(self, positions_M_B: Tensor, change: Callable[[int, Tensor], Tensor] | None = None) -> Tensor:
        """inputs_M_B as the network takes them; `change` is called with a member and its inputs as they are stored."""
        inputs_MB = self.inputs_N[positions_M_B.flatten()]
        if change is not None:
            parts = inputs_MB.tensor_split(len(positions_M_B))
            inputs_MB = torch.cat([change(member, inputs_B) for member, inputs_B in enumerate(parts)])
        inputs_MB = self.convert(inputs_MB)
        return inputs_MB.view(*positions_M_B.shape, *inputs_MB.shape[1:])


def _prepared(
    members: Members, examples: Examples, outputs: LearnableOutputs, name: str, device: torch.device
) -> _Prepared:
    inputs_N, convert = on_device(members.module, examples.inputs, device)
    inputs_1 = convert(inputs_N[:1])
    one_M = inputs_1.expand(members.count, *inputs_1.shape)
    members.mode(False)
    with torch.no_grad(), shapes_explained(members.module, inputs_1):
        found = members.forward(one_M)
        shape = found.shape
        bytes_each = members.count * bytes_per_point(members.forward, one_M, 1)
    if len(shape) != 3:
        raise ValueError(
            f"network: expected outputs of shape (points, classes), found {tuple(shape[1:])} for one point;"
            " end it with a linear layer"
        )
    outputs.check(shape[-1], examples.labels, name)
    refuse_probabilities(found)
    if name == "labelled":
        check_classes(shape[-1], examples)
    size = rows_per_chunk(bytes_each, device, at_least=POINTS_AT_A_TIME)
    return _Prepared(inputs_N, convert, outputs.targets(examples.labels, device), size)


def _optimiser(parameters: list[Tensor], training: Training) -> torch.optim.Optimizer:
    settings: dict[str, Any] = {"lr": training.learning_rate, "weight_decay": training.weight_decay}
    if training.optimiser == "sgd":
        return torch.optim.SGD(parameters, momentum=training.momentum, nesterov=training.nesterov, **settings)
    alike = {(parameter.dtype, parameter.device.type) for parameter in parameters}
    # One call for all parameters instead of several for each: a step of a small network takes a fraction of the time.
    fused = alike in ({(torch.float32, "cpu")}, {(torch.float32, "cuda")}) or None
    kind = torch.optim.Adam if training.optimiser == "adam" else torch.optim.AdamW
    return kind(parameters, fused=fused, **settings)


def _train_epoch(
    members: Members,
    examples: _Prepared,
    outputs: LearnableOutputs,
    steps: Iterator[tuple[Tensor, Tensor | None]],
    optimiser: torch.optim.Optimizer,
    training: Training,
    number: int,
    changes: list[torch.Generator],
) -> Tensor:
    """One epoch of learning; the mean loss of each member, without the penalty."""
    members.mode(True)
    device, augment, half = examples.targets_N.device, training.augmentation, training.precision == "bfloat16"
    total_M, samples = torch.zeros(members.count, device=device), 0
    all_samples = samples_per_epoch(len(examples.targets_N), training.epoch_samples)
    change = None if augment is None else lambda member, inputs_B: augment(inputs_B, changes[member])
    for positions_M_B, weights_M_B in steps:
        batch = positions_M_B.shape[1]
        if samples == 0 or changes_within_epochs(training.schedule, training.warm_up):
            _set_rate(optimiser, training, number, min(1.0, (samples + batch / 2) / all_samples))
        inputs_M_B = examples.inputs_at(positions_M_B, change)
        if training.penalty is not None:  # of one network: `train_members` sees to it
            inputs_B = inputs_M_B[0].detach().requires_grad_()
            inputs_M_B = inputs_B[None]
        with torch.autocast(device.type, torch.bfloat16) if half else nullcontext():
            outputs_M_B_C = members.forward(inputs_M_B)
        outputs_M_B_C = outputs_M_B_C.float() if half else outputs_M_B_C
        loss_M_B = outputs.loss(outputs_M_B_C, examples.targets_N[positions_M_B])
        if weights_M_B is not None:
            loss_M_B = loss_M_B * weights_M_B.to(loss_M_B.dtype)
        loss = loss_M_B.mean(1).sum()
        if training.penalty is not None:
            loss = loss + training.penalty(members.module, inputs_B, outputs_M_B_C[0])
        torch.autograd.backward(loss)
        optimiser.step()
        optimiser.zero_grad()
        total_M += loss_M_B.detach().sum(1)
        samples += batch
    members.mode(False)
    return total_M / samples


def _set_rate(optimiser: torch.optim.Optimizer, training: Training, number: int, within: float) -> None:
    settings = {"drops": training.drops, "warm_up": training.warm_up}
    factor = rate_factor(training.schedule, number, training.max_epochs, within, **settings)  # type: ignore[arg-type]
    for group in optimiser.param_groups:
        group["lr"] = training.learning_rate * factor


def _joint_steps(sources: list[Iterable[Step]], device: torch.device) -> Iterator[tuple[Tensor, Tensor | None]]:
    """positions_M_B and weights_M_B of each step of M members, on the device.

    Sizes and types alone are checked: to look at the positions themselves would wait for the device.
    """
    number = 0
    for steps in zip_longest(*sources):
        number += 1
        if any(step is None for step in steps):
            raise ValueError(
                "batches: members that learn side by side need equally many steps in an epoch, found a member that ends"
                f" before step {number} and one that does not; let the number of steps depend on the sizes alone"
            )
        positions_B = [_checked_positions(step, device) for step in steps]
        if len({len(one_B) for one_B in positions_B}) > 1:
            raise ValueError(
                "batches: members that learn side by side need equally many examples in a step, found"
                f" {', '.join(str(len(one_B)) for one_B in positions_B)} in step {number}; give weight 0 to those that"
                " are too many"
            )
        weights_M_B = None
        if any(step.weights_B is not None for step in steps):
            weights_M_B = torch.stack([_checked_weights(step, device) for step in steps])
        yield torch.stack(positions_B), weights_M_B
    if number == 0:
        raise ValueError("batches: the source gave no step in an epoch; yield at least one")


def _checked_positions(step: Step, device: torch.device) -> Tensor:
    if not isinstance(step, Step):
        raise ValueError(f"batches: expected steps, found {type(step).__name__}; yield Step(positions_B)")
    positions_B = torch.as_tensor(step.positions_B, device=device)
    if positions_B.dtype != torch.int64 or positions_B.dim() != 1 or len(positions_B) == 0:
        raise ValueError(
            "batches: positions of a step must be a vector of one or more int64, found shape"
            f" {tuple(positions_B.shape)} of {positions_B.dtype}; yield rows of the labelled examples"
        )
    return positions_B


def _checked_weights(step: Step, device: torch.device) -> Tensor:
    if step.weights_B is None:
        return torch.ones(len(step.positions_B), device=device)
    weights_B = torch.as_tensor(step.weights_B, device=device)
    if weights_B.shape != (len(step.positions_B),):
        raise ValueError(
            f"batches: expected one weight for each of the {len(step.positions_B)} examples of a step, found shape"
            f" {tuple(weights_B.shape)}; yield Step(positions_B, weights_B)"
        )
    return weights_B


def _look_at(
    members: Members, member: int, examples: _Prepared, outputs: LearnableOutputs
) -> Callable[[Tensor], Tensor]:
    """positions_B → losses_B of one member as it is when asked, in the middle of an epoch; nothing changes by it."""
    device = examples.targets_N.device

    def losses(positions_B: Tensor) -> Tensor:
        positions_B = torch.as_tensor(positions_B, device=device)
        parts = positions_B.tensor_split(max(1, -(-len(positions_B) // examples.rows)))
        members.mode(False)
        try:
            # A network may draw random numbers in evaluation mode too, and the steps that follow must not notice.
            with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []), torch.no_grad():
                return torch.cat([losses_at(part_b) for part_b in parts])
        finally:
            members.mode(True)

    def losses_at(positions_b: Tensor) -> Tensor:
        inputs_b, targets_b = examples.convert(examples.inputs_N[positions_b]), examples.targets_N[positions_b]
        outputs_M_b_C = members.forward(inputs_b.expand(members.count, *inputs_b.shape))
        return outputs.loss(outputs_M_b_C[member], targets_b)

    return losses


@torch.no_grad()
def _measure(members: Members, examples: _Prepared, outputs: LearnableOutputs) -> tuple[Tensor, Tensor]:
    """Loss and accuracy of each member, without dropout."""
    count, device = len(examples.targets_N), examples.targets_N.device
    loss_M, right_M = torch.zeros(2, members.count, device=device)
    forward = members.validation_forward or members.forward
    for start in range(0, count, examples.rows):
        part = slice(start, start + examples.rows)
        inputs_B, targets_B = examples.convert(examples.inputs_N[part]), examples.targets_N[part]
        targets_M_B = targets_B.expand(members.count, -1)
        outputs_M_B_C = forward(inputs_B.expand(members.count, *inputs_B.shape))
        loss_M += outputs.loss(outputs_M_B_C, targets_M_B).sum(1)
        right_M += (outputs_M_B_C.argmax(-1) == targets_M_B).sum(1)
    return loss_M / count, right_M / count


def _check_finite(epoch: Epoch) -> None:
    if not all(abs(value) < float("inf") for value in epoch.merit):
        raise ValueError(
            f"training: the loss became {epoch.merit[1]} in epoch {epoch.number + 1}; lower learning_rate or scale the"
            " inputs"
        )
