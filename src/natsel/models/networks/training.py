"""Training a network on few labels, with early stopping.

An epoch is a fixed number of samples drawn with replacement (so that 20 labels and 300 take equally many steps), or
whole passes over the data; another source of batches may choose what each step learns from (`batches.py`). After each
epoch the network is measured on the validation set, without dropout or (as some published runs did) by the mean of a
few draws of it. Training stops when `patience` epochs in a row were no better than the best one, whose weights the
network then gets back. Better is: higher accuracy, or the same accuracy with a lower loss (numbers: a lower squared
error). Without a validation set the training loss decides, and training stops as well once that is below `enough`.
docs/theory/batchbald.md, 14; docs/theory/stochastic-batches.md, 9; Kirsch et al. 2019 and 2023.

The loop trains M networks of one architecture side by side, whose tensors carry a leading axis M; one is M = 1. Given
its seed a fit is reproducible on the same device, and it leaves no trace in the global random state.

How a model's networks are trained is one value: settings of this loop (`Training`), a function of the user
(`own_training.py`), or `TrainedElsewhere`. `trained_module` trains by any of them.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor, nn

from natsel.data.examples import Examples
from natsel.memory import rows_per_chunk
from natsel.models.dropout.mask_plan import mean_outputs
from natsel.models.networks.architectures import Network, fresh, reproducible, seeded
from natsel.models.networks.batches import Batches, MemberEpoch, Step, UniformBatches
from natsel.models.networks.evaluation_mode import evaluating
from natsel.models.networks.inputs import as_device, reader_of, shapes_explained
from natsel.models.networks.outputs import (
    Classes,
    LearnableOutputs,
    Numbers,
    Outputs,
    SoftClasses,
    check_classes,
    outputs_for_labels,
    outputs_of_trained,
)
from natsel.models.networks.own_training import TrainedElsewhere, TrainFunction, check_function, train_by
from natsel.models.networks.prediction import bytes_of, check_outputs, predict
from natsel.models.protocol import Model, Progress
from natsel.seeds import derive


@dataclass(frozen=True)
class Training:
    """How a network is trained.

    `epoch_samples`: samples per epoch, drawn with replacement; None: whole passes over the data, as many as make 1,024.
    `optimiser`: "adam" (weight decay as an L2 penalty, as published), "adamw" or "sgd" (momentum 0.9).
    `schedule`: of the learning rate: "constant", or "linear", which falls to 0 along a straight line, epoch by epoch.
    `validation_draws`: the validation set is judged by the mean of so many draws of dropout; 0: without dropout.
    `batches`: the source of the examples of each step (`natsel.models.networks.batches`); all examples alike.

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
    schedule: str = "constant"
    enough: float = 0.01
    validation_draws: int = 0
    batches: Batches = field(default_factory=UniformBatches)

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
        if self.schedule not in ("constant", "linear"):
            raise ValueError(f"schedule: expected constant or linear, found {self.schedule!r}; constant is the default")
        if isinstance(self.batches, type) or not isinstance(self.batches, Batches):
            found = f"the class {self.batches.__name__}" if isinstance(self.batches, type) else repr(self.batches)
            raise ValueError(
                f"batches: expected a source of batches, an object with steps(epoch), found {found};"
                " UniformBatches() is the default"
            )


def _default(name: str) -> object:
    return Training.__dataclass_fields__[name].default


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
        """What decides between epochs; higher is better."""
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
    labelled: Examples,
    validation: Examples | None,
    training: Training,
    seeds: list[int],
    device: torch.device,
    progress: Progress | None = None,
) -> list[list[Epoch]]:
    """Train M networks in place, each from its own batches; each stops for itself."""
    _check_examples(labelled, validation)
    outputs = outputs_for_labels(labelled.labels)
    learn = _prepared(members, labelled, outputs, "labelled", device)
    judge = Classes() if isinstance(outputs, SoftClasses) else outputs  # labels for validation are hard
    check = _prepared(members, validation, judge, "validation", device) if validation and len(validation) else None
    learnable = [parameter for parameter in members.parameters if parameter.requires_grad]
    if not learnable:
        raise ValueError("network: has no parameters that learn; unfreeze some or pass another network")
    optimiser = _optimiser(learnable, training)
    orders = [torch.Generator().manual_seed(derive(seed, "order")) for seed in seeds]
    history: list[list[Epoch]] = [[] for _ in seeds]
    best: list[Epoch | None] = [None for _ in seeds]
    kept = [tensor.clone() for tensor in members.state]
    learning = set(range(len(seeds)))

    with seeded(derive(seeds[0], "noise"), device), reproducible():
        for number in range(training.max_epochs):
            if training.schedule == "linear":
                for group in optimiser.param_groups:
                    group["lr"] = training.learning_rate * (1 - number / training.max_epochs)
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
            loss_M = _train_epoch(members, learn, outputs, _joint_steps(sources, device), optimiser)
            rows = [loss_M, *_measure(members, check, judge)] if check else [loss_M]
            for member, row in enumerate(torch.stack(rows, 1).tolist()):  # the only wait for the device in an epoch
                if member in learning:
                    epoch = Epoch(number, *row[: 2 if isinstance(outputs, Numbers) else 3])
                    history[member].append(epoch)
                    before = best[member]
                    if before is None or epoch.merit > before.merit:
                        best[member] = _checked_finite(epoch)
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
    labelled: Examples,
    validation: Examples | None,
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
        return Trained(module.eval(), trained_outputs(labelled, epochs), epochs)
    assert not isinstance(how, TrainedElsewhere)  # fresh_to_train refuses it
    _check_examples(labelled, validation)
    with evaluating(module), torch.no_grad():
        width = check_outputs(module, reader_of(module, labelled.inputs, device)(slice(0, 1)))
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
    labelled: Examples,
    validation: Examples | None,
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


def kept_epoch(epochs: list[Epoch]) -> Epoch:
    """The epoch whose weights a training came back to.

    >>> kept_epoch([Epoch(0, 1.0, 0.9, 0.5), Epoch(1, 0.5, 0.7, 0.8), Epoch(2, 0.4, 0.8, 0.8)]).number
    1
    """
    return max(epochs, key=lambda epoch: epoch.merit)


def trained_outputs(labelled: Examples, epochs: list[Epoch]) -> LearnableOutputs:
    """What the outputs of a network trained on these examples mean, with the noise its training showed."""
    best = kept_epoch(epochs)
    error = best.loss if best.validation_loss is None else best.validation_loss
    return outputs_for_labels(labelled.labels).with_noise(error)


def _check_examples(labelled: Examples, validation: Examples | None) -> None:
    if labelled.labels is None or len(labelled) == 0:
        found = "no labels" if len(labelled) else "no examples"
        raise ValueError(f"labelled: found {found}, so there is nothing to learn from; label some points first")
    if validation is not None and len(validation) and validation.labels is None:
        raise ValueError("validation: found no labels; leave it out or label it")


@dataclass(frozen=True)
class _Prepared:
    """Examples on the device, as the loop takes them."""

    inputs_N: Tensor
    targets_N: Tensor
    rows: int  # how many make a chunk where only outputs are wanted


def _prepared(
    members: Members, examples: Examples, outputs: LearnableOutputs, name: str, device: torch.device
) -> _Prepared:
    inputs_N = reader_of(members.module, examples.inputs, device)(slice(0, len(examples)))
    one_M = inputs_N[:1].expand(members.count, 1, *inputs_N.shape[1:])
    members.mode(False)
    with torch.no_grad(), shapes_explained(members.module, inputs_N):
        shape = members.forward(one_M).shape
        bytes_each = members.count * bytes_of(lambda: members.forward(one_M))
    if len(shape) != 3:
        raise ValueError(
            f"network: expected outputs of shape (points, classes), found {tuple(shape[1:])} for one point;"
            " end it with a linear layer"
        )
    outputs.check(shape[-1], examples.labels, name)
    if name == "labelled":
        check_classes(shape[-1], examples)
    return _Prepared(inputs_N, outputs.targets(examples.labels, device), rows_per_chunk(bytes_each, device))


def _optimiser(parameters: list[Tensor], training: Training) -> torch.optim.Optimizer:
    settings: dict[str, Any] = {"lr": training.learning_rate, "weight_decay": training.weight_decay}
    if training.optimiser == "sgd":
        return torch.optim.SGD(parameters, momentum=0.9, **settings)
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
) -> Tensor:
    """One epoch of learning; the mean loss of each member."""
    members.mode(True)
    total_M, samples = torch.zeros(members.count, device=examples.targets_N.device), 0
    for positions_M_B, weights_M_B in steps:
        loss_M_B = outputs.loss(members.forward(examples.inputs_N[positions_M_B]), examples.targets_N[positions_M_B])
        if weights_M_B is not None:
            loss_M_B = loss_M_B * weights_M_B.to(loss_M_B.dtype)
        torch.autograd.backward(loss_M_B.mean(1).sum())
        optimiser.step()
        optimiser.zero_grad()
        total_M += loss_M_B.detach().sum(1)
        samples += positions_M_B.shape[1]
    members.mode(False)
    return total_M / samples


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
        inputs_b, targets_b = examples.inputs_N[positions_b], examples.targets_N[positions_b]
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
        inputs_B, targets_B = examples.inputs_N[part], examples.targets_N[part]
        targets_M_B = targets_B.expand(members.count, -1)
        outputs_M_B_C = forward(inputs_B.expand(members.count, *inputs_B.shape))
        loss_M += outputs.loss(outputs_M_B_C, targets_M_B).sum(1)
        right_M += (outputs_M_B_C.argmax(-1) == targets_M_B).sum(1)
    return loss_M / count, right_M / count


def _checked_finite(epoch: Epoch) -> Epoch:
    if not all(abs(value) < float("inf") for value in epoch.merit):
        raise ValueError(
            f"training: the loss became {epoch.merit[1]} in epoch {epoch.number + 1}; lower learning_rate or scale the"
            " inputs"
        )
    return epoch
