"""Deep ensembles: M networks of one architecture, each from its own initial weights and its own order of the data.

    p(y | x) = 1/M Σ_m p(y | x, ω_m)          draw m is network m, the same for every point: consistent by construction

Where the architecture allows, the members learn side by side: their weights are stacked and one batched call serves all
of them. That pays where a step is cheaper than its launch (small perceptrons, accelerators); large networks on a CPU
learn faster one at a time. Which of the two it is depends on the network and the device alone.
"""

import copy
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from natsel.beliefs import Belief
from natsel.data.examples import Examples
from natsel.models.networks.architectures import Network, fingerprint, fresh
from natsel.models.networks.inputs import as_device, as_inputs
from natsel.models.networks.outcomes import Outcome
from natsel.models.networks.prediction import predict
from natsel.models.networks.randomness import seeded
from natsel.models.networks.training import Epoch, Members, Training, outcome_of, train, train_members
from natsel.models.protocol import Progress
from natsel.seeds import derive


class Ensemble:
    """Networks that differ by their seeds, believed in equally.

    `network`: a module (copied and re-initialised) or a function that makes one. After `fit`, `modules` are the trained
    networks and `epochs` tells how each of them learnt.

    >>> import numpy as np
    >>> from natsel.models import Training, mlp
    >>> model = Ensemble(mlp(2, 2), members=3, training=Training(max_epochs=2), device="cpu")
    >>> model.fit(Examples(np.eye(2), np.array([0, 1]))).believe(np.eye(2)).shape
    (2, 3, 2)
    """

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
        self.outcome = Outcome()

    def fit(
        self,
        labelled: Examples,
        validation: Examples | None = None,
        *,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> Self:
        """Learn from examples, afresh."""
        seeds = [derive(seed, "member", member) for member in range(self.members)]
        modules = [fresh(self.network, seed).to(self.device) for seed in seeds]
        stack = len(modules) > 1 and not self.training.validation_draws and worth_stacking(modules[0], self.device)
        together = stacked(modules, labelled) if stack else None
        if together:
            epochs = train_members(together, labelled, validation, self.training, seeds, self.device, progress)
            unstack(together, modules)
        else:
            epochs = [
                train(
                    *(module, labelled, validation, self.training),
                    seed=seed,
                    device=self.device,
                    progress=_share(progress, number, self.members),
                )
                for number, (module, seed) in enumerate(zip(modules, seeds, strict=True))
            ]
        outcomes = [outcome_of(labelled, each) for each in epochs]
        self.modules, self.epochs, self.outcome = modules, epochs, _average(outcomes)
        return self

    def believe(self, inputs: Any, *, progress: Progress | None = None) -> Belief:
        """What the members say about inputs, one draw each."""
        modules = self._fitted()
        return self.outcome.belief(predict(modules, inputs, self.device, progress), fingerprint(*modules))

    def weights(self) -> dict[str, Tensor]:
        """All that `load_weights` needs to believe the same again."""
        state = nn.ModuleList(self._fitted()).state_dict()
        return {**{name: tensor.cpu() for name, tensor in state.items()}, "natsel.outcome": self.outcome.as_tensor()}

    def load_weights(self, weights: dict[str, Tensor]) -> Self:
        """Take up the weights of an earlier fit."""
        modules = [fresh(self.network, 0) for _ in range(self.members)]
        try:
            outcome = Outcome.from_tensor(weights["natsel.outcome"])
            own = {name: tensor for name, tensor in weights.items() if name != "natsel.outcome"}
            nn.ModuleList(modules).load_state_dict(own)
        except (KeyError, RuntimeError) as reason:
            found = " ".join(str(reason).split())
            raise ValueError(
                f"weights: they do not fit {self.members} such networks ({found}); pass what weights() gave"
            ) from None
        self.modules, self.outcome, self.epochs = [each.to(self.device).eval() for each in modules], outcome, []
        return self

    def _fitted(self) -> list[nn.Module]:
        if not self.modules:
            raise ValueError("model: it has learnt nothing yet; fit the model first")
        return self.modules


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
    together = Members(
        lambda inputs_M: batched(parameters, buffers, inputs_M),
        skeleton.train,
        list(parameters.values()),
        state,
        len(modules),
    )
    return together if _agrees(together, modules, labelled) else None


def unstack(together: Members, modules: list[nn.Module]) -> None:
    """Give each module its own part of the stacked tensors."""
    for member, module in enumerate(modules):
        own = (*module.parameters(), *module.buffers())
        for tensor, stack in zip(own, together.state, strict=True):
            tensor.data.copy_(stack[member])
        module.eval()


def _agrees(together: Members, modules: list[nn.Module], labelled: Examples) -> bool:
    """Whether the stacked modules run, also in training, and say what the modules themselves say."""
    device = next(modules[0].parameters()).device
    inputs_B = as_inputs(labelled.inputs[:2], device)
    inputs_M_B = inputs_B.expand(len(modules), *inputs_B.shape)
    before = [tensor.clone() for tensor in together.state]
    try:
        together.mode(True)
        with seeded(0, device):
            together.forward(inputs_M_B)
        for tensor, saved in zip(together.state, before, strict=True):
            tensor.copy_(saved)
        together.mode(False)
        with torch.no_grad():
            alone = torch.stack([module.eval()(inputs_B) for module in modules])
            return torch.allclose(together.forward(inputs_M_B), alone, rtol=1e-3, atol=1e-4)
    except (RuntimeError, ValueError):
        return False


def _average(outcomes: list[Outcome]) -> Outcome:
    """The members' outcomes differ only by the noise each has seen."""
    noise = sum(outcome.noise for outcome in outcomes) / len(outcomes)
    first = outcomes[0]
    return Outcome(first.numbers, first.mean, first.scale, noise)


def _share(progress: Progress | None, number: int, members: int) -> Progress | None:
    return progress and (lambda done, total: progress(number * total + done, members * total))
