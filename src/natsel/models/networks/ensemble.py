"""Deep ensembles: M networks of one architecture, each from its own initial weights and its own order of the data.

    p(y | x) = 1/M Σ_m p(y | x, ω_m)          draw m is network m, the same for every point: consistent by construction

Where the architecture allows, the members learn side by side: their weights are stacked and one batched call serves all
of them. That pays where a step is cheaper than its launch (small perceptrons, accelerators); large networks on a CPU
learn faster one at a time. Which of the two it is depends on the network and the device alone.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from natsel.beliefs import Belief
from natsel.data.examples import Examples, InputForm, as_labelled
from natsel.models.fingerprints import fingerprint
from natsel.models.networks.architectures import Network, copied, fresh, seeded
from natsel.models.networks.inputs import as_device, reader_of
from natsel.models.networks.outputs import (
    Classes,
    Likelihood,
    Numbers,
    Outputs,
    outputs_from_tensor,
    outputs_trained_elsewhere,
)
from natsel.models.networks.own_training import TrainedElsewhere, TrainFunction
from natsel.models.networks.prediction import predict
from natsel.models.networks.spectral_norm import find_input_sizes
from natsel.models.networks.training import (
    Epoch,
    HowTrained,
    Members,
    Trained,
    Training,
    fresh_to_train,
    how_trained,
    only_module,
    train_members,
    trained_module,
    trained_outputs,
)
from natsel.models.own_geometry import by_last_layer
from natsel.models.protocol import Progress, learnt
from natsel.models.rows import reads_numbers
from natsel.options import Rows
from natsel.seeds import derive


class Ensemble:
    """Networks that differ by their seeds, believed in equally.

    `network`: a module (copied and re-initialised), a function that makes one, or a list of these, one for each member.
    `training` has the settings of natsel's own loop, or `train` is a function of yours, train(module, labelled,
    validation, seed), that trains one member. After `fit`, `modules` are the trained networks and `epochs` lists the
    loss and accuracy of each epoch for each of them.

    >>> import numpy as np
    >>> from natsel.models import Training, mlp
    >>> model = Ensemble(mlp(2, 2), members=3, training=Training(max_epochs=2), device="cpu")
    >>> model.fit(Examples(np.eye(2), np.array([0, 1]))).believe(np.eye(2)).shape
    (2, 3, 2)
    """

    consistent_draws = True
    check_inputs = reads_numbers
    geometry = by_last_layer(lambda self: learnt(self.modules or None))
    _form = InputForm()

    def __init__(
        self,
        network: Network | list[Network],
        members: int = 5,
        training: Training | None = None,
        device: torch.device | str | None = None,
        *,
        train: TrainFunction | None = None,
    ) -> None:
        members = len(network) if isinstance(network, list) else members
        if members < 1:
            raise ValueError(f"members: must be at least 1 (found {members}); 5 is usual")
        self.network, self.members, self.device = network, members, as_device(device)
        self.training: HowTrained = how_trained(training, train) or Training()
        self.modules: list[nn.Module] = []
        self.epochs: list[list[Epoch]] = []
        self.outputs: Outputs = Classes()

    @classmethod
    def around(
        cls,
        networks: Sequence[nn.Module],
        *,
        likelihood: Likelihood | None = None,
        noise: float | None = None,
        train: TrainFunction | None = None,
        device: torch.device | str | None = None,
    ) -> Self:
        """An ensemble of networks trained elsewhere, which believes at once; they are copied and stay as they are.

        `likelihood`: "categorical" (one output for each class, the default), "bernoulli" (one logit) or "gaussian" (one
        number, with labels of the variance `noise` around it). `train` is needed where the ensemble has to be fitted
        again, as in a learner: each member is then re-initialised and trained by it.

        >>> model = Ensemble.around([nn.Linear(2, 3), nn.Linear(2, 3)], device="cpu")
        >>> model.believe(torch.eye(2)).shape
        (2, 2, 3)
        """
        if isinstance(networks, nn.Module) and not isinstance(networks, nn.ModuleList):  # it may have a length, too
            raise ValueError(f"networks: expected a list, found {type(networks).__name__}; pass [network]")
        outputs = outputs_trained_elsewhere(likelihood, noise)
        copies: list[Network] = [copied(only_module(network)) for network in networks]
        if not copies:
            raise ValueError("networks: found none; pass a list of trained networks")
        model = cls(copies, device=device, train=train)
        model.training = train or TrainedElsewhere()
        model.modules = [only_module(each).to(model.device).eval() for each in copies]
        model.outputs = outputs
        return model

    def fit(
        self,
        labelled: Examples | Any,
        validation: Examples | Any = None,
        *,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> Self:
        """Learn from examples, afresh."""
        labelled, validation = as_labelled(labelled, validation)
        seeds = [derive(seed, "member", member) for member in range(self.members)]
        modules = [
            fresh_to_train(network, self.training, seed, self.device)
            for network, seed in zip(self._networks(), seeds, strict=True)
        ]
        members = stacked(modules, labelled) if self._worth_stacking(modules) else None
        if members and isinstance(self.training, Training):
            histories = train_members(members, labelled, validation, self.training, seeds, self.device, progress)
            unstack(members, modules)
            outputs = [trained_outputs(labelled, each, self.training.keep) for each in histories]
            found = [Trained(*each) for each in zip(modules, outputs, histories, strict=True)]
        else:
            found = [
                trained_module(
                    *(module, labelled, validation, self.training),
                    seed=seed,
                    device=self.device,
                    progress=_share_of_progress(progress, number, self.members),
                )
                for number, (module, seed) in enumerate(zip(modules, seeds, strict=True))
            ]
        self.modules, self.epochs = [each.module for each in found], [each.epochs for each in found]
        self.outputs, self._form = _with_mean_noise([each.outputs for each in found]), InputForm.of(labelled.inputs)
        return self

    def believe(self, inputs: Rows, *, progress: Progress | None = None) -> Belief:
        """What the members say about inputs, one draw each."""
        modules, inputs = learnt(self.modules or None), self._form.read(inputs)
        name = fingerprint(*modules, self.outputs)
        return self.outputs.belief(predict(modules, inputs, self.device, progress), name)

    def weights(self) -> dict[str, Tensor]:
        """All that `load_weights` needs to believe the same again."""
        state = nn.ModuleList(learnt(self.modules or None)).state_dict()
        return {**{name: tensor.cpu() for name, tensor in state.items()}, "natsel.outcome": self.outputs.as_tensor()}

    def load_weights(self, weights: dict[str, Tensor]) -> Self:
        """Take up the weights of an earlier fit; for an ensemble of one, a network's own `state_dict()` will do."""
        modules = [fresh(network, 0) for network in self._networks()]
        own = {name: tensor for name, tensor in weights.items() if name != "natsel.outcome"}
        try:
            if len(own) < len(weights) or self.members > 1:
                outputs = outputs_from_tensor(weights["natsel.outcome"])
                nn.ModuleList(modules).load_state_dict(own)
            else:
                outputs = self.outputs
                modules[0].load_state_dict(own)
        except (KeyError, RuntimeError) as reason:
            found = " ".join(str(reason).split())
            raise ValueError(
                f"weights: they do not fit {self.members} such networks ({found}); pass what weights() gave, or use"
                " Ensemble.around for networks trained elsewhere"
            ) from None
        self.modules, self.outputs, self.epochs = [each.to(self.device).eval() for each in modules], outputs, []
        return self

    def _networks(self) -> list[Network]:
        """What makes each member."""
        return self.network if isinstance(self.network, list) else [self.network] * self.members

    def _worth_stacking(self, modules: list[nn.Module]) -> bool:
        """Whether members can learn side by side, and faster."""
        how = self.training
        own_loop = isinstance(how, Training) and not how.validation_draws and how.penalty is None
        alike = len(modules) > 1 and not isinstance(self.network, list)
        return own_loop and alike and worth_stacking(modules[0], self.device)


class Deterministic(Ensemble):
    """An ensemble of one: a network as it is, which knows what it predicts but not how sure its parameters are.

    Entropy, margin and the like can be read from its one draw; what needs several draws (BALD and its kin) cannot.

    >>> import numpy as np
    >>> from natsel.models import Training, mlp
    >>> model = Deterministic(mlp(2, 2), Training(max_epochs=2), device="cpu")
    >>> model.fit(Examples(np.eye(2), np.array([0, 1]))).believe(np.eye(2)).shape
    (2, 1, 2)
    """

    def __init__(
        self,
        network: Network | list[Network],
        training: Training | None = None,
        device: torch.device | str | None = None,
        *,
        train: TrainFunction | None = None,
    ) -> None:
        super().__init__(network, 1, training, device, train=train)
        if self.members != 1:
            raise ValueError(f"network: expected one, found {self.members}; use natsel.models.Ensemble for several")


def worth_stacking(module: nn.Module, device: torch.device) -> bool:
    """Whether members learn faster side by side. On a CPU (measured, five members): perceptrons of 10,000 weights in
    0.6 of the time, of 100,000 in 0.8, of 300,000 in 1.1, convolutions in 1.5. On an accelerator all but large
    convolutional networks do: one ResNet-18 keeps it busy.
    """
    size = sum(parameter.numel() for parameter in module.parameters())
    convolves = any(isinstance(part, nn.modules.conv._ConvNd) for part in module.modules())
    if device.type != "cpu":
        return size <= 2_000_000 or not convolves
    return size <= 100_000 and not convolves


def stacked(modules: list[nn.Module], labelled: Examples | Any) -> Members | None:
    """The modules as one, or None where their architecture does not allow that."""
    for module in modules:
        find_input_sizes(module, labelled.inputs)
    parameters, buffers = stack_module_state(modules)
    skeleton = copied(modules[0])

    def one(parameters: dict[str, Tensor], buffers: dict[str, Tensor], inputs: Tensor) -> Tensor:
        outputs: Tensor = functional_call(skeleton, (parameters, buffers), (inputs,))
        return outputs

    batched = vmap(one, randomness="different")
    state = [tensor.detach() for tensor in (*parameters.values(), *buffers.values())]
    forward = lambda inputs_M: batched(parameters, buffers, inputs_M)  # noqa: E731
    members = Members(skeleton, forward, skeleton.train, list(parameters.values()), state, len(modules))
    return members if _agrees(members, modules, labelled) else None


def unstack(members: Members, modules: list[nn.Module]) -> None:
    """Give each module its own part of the stacked tensors."""
    for member, module in enumerate(modules):
        own = (*module.parameters(), *module.buffers())
        for tensor, stack in zip(own, members.state, strict=True):
            tensor.data.copy_(stack[member])
        module.eval()


def _agrees(members: Members, modules: list[nn.Module], labelled: Examples | Any) -> bool:
    """Whether the stacked modules run, also in training, and say what the modules themselves say."""
    device = next(modules[0].parameters()).device
    if not len(labelled):
        return False
    inputs_B = reader_of(members.module, labelled.inputs, device)(slice(0, 2))
    inputs_M_B = inputs_B.expand(len(modules), *inputs_B.shape)
    before = [tensor.clone() for tensor in members.state]
    try:
        members.mode(True)
        with seeded(0, device):
            members.forward(inputs_M_B)
        for tensor, saved in zip(members.state, before, strict=True):
            tensor.copy_(saved)
        members.mode(False)
        with torch.no_grad():
            alone = torch.stack([module.eval()(inputs_B) for module in modules])
            return torch.allclose(members.forward(inputs_M_B), alone, rtol=1e-3, atol=1e-4)
    except (RuntimeError, ValueError):
        return False


def _with_mean_noise(outputs: list[Outputs]) -> Outputs:
    """Those of one member: they differ only by the noise each has seen."""
    noises = [each.noise for each in outputs if isinstance(each, Numbers)]
    return replace(outputs[0], noise=sum(noises) / len(noises)) if isinstance(outputs[0], Numbers) else outputs[0]


def _share_of_progress(progress: Progress | None, number: int, members: int) -> Progress | None:
    return progress and (lambda done, total: progress(number * total + done, members * total))
