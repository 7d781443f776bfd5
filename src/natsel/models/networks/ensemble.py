"""Deep ensembles: M networks of one architecture, each from its own initial weights and its own order of the data.

    p(y | x) = 1/M Σ_m p(y | x, ω_m)          draw m is network m, the same for every point: consistent by construction

Where the architecture allows, the members learn side by side: their weights are stacked and one batched call serves all
of them. That pays where a step is cheaper than its launch (small perceptrons, accelerators); large networks on a CPU
learn faster one at a time. Which of the two it is depends on the network and the device alone.
"""

import copy
from dataclasses import replace
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from natsel.beliefs import Belief
from natsel.data.examples import Examples
from natsel.models.fingerprints import weights_fingerprint
from natsel.models.networks.architectures import Network, fresh, seeded
from natsel.models.networks.inputs import as_device, as_inputs
from natsel.models.networks.outputs import Classes, LearnableOutputs, Numbers, outputs_from_tensor
from natsel.models.networks.prediction import predict
from natsel.models.networks.training import Epoch, Members, Training, train, train_members, trained_outputs
from natsel.models.protocol import Progress
from natsel.seeds import derive


class Ensemble:
    """Networks that differ by their seeds, believed in equally.

    `network`: a module (copied and re-initialised) or a function that makes one. After `fit`, `modules` are the trained
    networks and `epochs` lists the loss and accuracy of each epoch for each of them.

    >>> import numpy as np
    >>> from natsel.models import Training, mlp
    >>> model = Ensemble(mlp(2, 2), members=3, training=Training(max_epochs=2), device="cpu")
    >>> model.fit(Examples(np.eye(2), np.array([0, 1]))).believe(np.eye(2)).shape
    (2, 3, 2)
    """

    consistent_draws = True

    def __init__(
        self,
        network: Network,
        members: int = 5,
        training: Training | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        if members < 1:
            raise ValueError(f"members: must be at least 1 (found {members}); 5 is usual")
        self.network, self.members, self.device = network, members, as_device(device)
        self.training = training or Training()
        self.modules: list[nn.Module] = []
        self.epochs: list[list[Epoch]] = []
        self.outputs: LearnableOutputs = Classes()

    def fit(
        self, labelled: Examples, validation: Examples | None = None, *, seed: int = 0, progress: Progress | None = None
    ) -> Self:
        """Learn from examples, afresh."""
        seeds = [derive(seed, "member", member) for member in range(self.members)]
        modules = [fresh(self.network, seed).to(self.device) for seed in seeds]
        stack = len(modules) > 1 and not self.training.validation_draws and worth_stacking(modules[0], self.device)
        members = stacked(modules, labelled) if stack else None
        if members:
            epochs = train_members(members, labelled, validation, self.training, seeds, self.device, progress)
            unstack(members, modules)
        else:
            epochs = [
                train(
                    *(module, labelled, validation, self.training),
                    seed=seed,
                    device=self.device,
                    progress=_share_of_progress(progress, number, self.members),
                )
                for number, (module, seed) in enumerate(zip(modules, seeds, strict=True))
            ]
        self.modules, self.epochs = modules, epochs
        self.outputs = _with_mean_noise([trained_outputs(labelled, each) for each in epochs])
        return self

    def believe(self, inputs: Any, *, progress: Progress | None = None) -> Belief:
        """What the members say about inputs, one draw each."""
        modules = self._fitted()
        return self.outputs.belief(predict(modules, inputs, self.device, progress), weights_fingerprint(*modules))

    def weights(self) -> dict[str, Tensor]:
        """All that `load_weights` needs to believe the same again."""
        state = nn.ModuleList(self._fitted()).state_dict()
        return {**{name: tensor.cpu() for name, tensor in state.items()}, "natsel.outcome": self.outputs.as_tensor()}

    def load_weights(self, weights: dict[str, Tensor]) -> Self:
        """Take up the weights of an earlier fit."""
        modules = [fresh(self.network, 0) for _ in range(self.members)]
        try:
            outputs = outputs_from_tensor(weights["natsel.outcome"])
            own = {name: tensor for name, tensor in weights.items() if name != "natsel.outcome"}
            nn.ModuleList(modules).load_state_dict(own)
        except (KeyError, RuntimeError) as reason:
            found = " ".join(str(reason).split())
            raise ValueError(
                f"weights: they do not fit {self.members} such networks ({found}); pass what weights() gave"
            ) from None
        self.modules, self.outputs, self.epochs = [each.to(self.device).eval() for each in modules], outputs, []
        return self

    def _fitted(self) -> list[nn.Module]:
        if not self.modules:
            raise ValueError("model: it has learnt nothing yet; fit the model first")
        return self.modules


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
        self, network: Network, training: Training | None = None, device: torch.device | str | None = None
    ) -> None:
        super().__init__(network, 1, training, device)


def worth_stacking(module: nn.Module, device: torch.device) -> bool:
    """Whether members learn faster side by side. On a CPU (measured, five members): perceptrons of 10,000 weights in
    0.6 of the time, of 100,000 in 0.8, of 300,000 in 1.1, convolutions in 1.5.
    """
    small = sum(parameter.numel() for parameter in module.parameters()) <= 100_000
    convolves = any(isinstance(part, nn.modules.conv._ConvNd) for part in module.modules())
    return device.type != "cpu" or (small and not convolves)


def stacked(modules: list[nn.Module], labelled: Examples) -> Members | None:
    """The modules as one, or None where their architecture does not allow that."""
    parameters, buffers = stack_module_state(modules)
    skeleton = copy.deepcopy(modules[0])

    def one(parameters: dict[str, Tensor], buffers: dict[str, Tensor], inputs: Tensor) -> Tensor:
        outputs: Tensor = functional_call(skeleton, (parameters, buffers), (inputs,))
        return outputs

    batched = vmap(one, randomness="different")
    state = [tensor.detach() for tensor in (*parameters.values(), *buffers.values())]
    forward = lambda inputs_M: batched(parameters, buffers, inputs_M)  # noqa: E731
    members = Members(forward, skeleton.train, list(parameters.values()), state, len(modules))
    return members if _agrees(members, modules, labelled) else None


def unstack(members: Members, modules: list[nn.Module]) -> None:
    """Give each module its own part of the stacked tensors."""
    for member, module in enumerate(modules):
        own = (*module.parameters(), *module.buffers())
        for tensor, stack in zip(own, members.state, strict=True):
            tensor.data.copy_(stack[member])
        module.eval()


def _agrees(members: Members, modules: list[nn.Module], labelled: Examples) -> bool:
    """Whether the stacked modules run, also in training, and say what the modules themselves say."""
    device = next(modules[0].parameters()).device
    inputs_B = as_inputs(labelled.inputs[:2], device)
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


def _with_mean_noise(outputs: list[LearnableOutputs]) -> LearnableOutputs:
    """Those of one member: they differ only by the noise each has seen."""
    noises = [each.noise for each in outputs if isinstance(each, Numbers)]
    return replace(outputs[0], noise=sum(noises) / len(noises)) if isinstance(outputs[0], Numbers) else outputs[0]


def _share_of_progress(progress: Progress | None, number: int, members: int) -> Progress | None:
    return progress and (lambda done, total: progress(number * total + done, members * total))
