"""Dropout as a belief: the same K random sub-networks are asked about every point.

    p(y | x, ω_k) = softmax(module(x; masks of draw k)),   k = 1..K

Any module with dropout, left as it is, says K things about each point (Gal and Ghahramani 2016). The masks of a draw
are the same for all points (`masks`): a draw is one function, and joint predictions mean something.
docs/theory/batchbald.md, 12; Kirsch et al. 2019.
"""

from functools import partial
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from natsel.beliefs import Belief, CategoricalSamples
from natsel.beliefs.shards import write_shards
from natsel.data.contents import fingerprint_of
from natsel.data.examples import Examples, InputForm, as_labelled
from natsel.memory import memory_budget
from natsel.models.dropout.mask_plan import MaskPlan, outputs_of, plan_of
from natsel.models.dropout.masks import Masks
from natsel.models.fingerprints import fingerprint
from natsel.models.networks.architectures import Network, copied, fresh
from natsel.models.networks.evaluation_mode import evaluating
from natsel.models.networks.inputs import as_device, reader_of
from natsel.models.networks.outputs import (
    Classes,
    Likelihood,
    Outputs,
    outputs_from_tensor,
    outputs_trained_elsewhere,
    refuse_one_output,
)
from natsel.models.networks.own_training import TrainedElsewhere, TrainFunction
from natsel.models.networks.training import (
    Epoch,
    HowTrained,
    Training,
    fresh_to_train,
    how_trained,
    only_module,
    trained_module,
)
from natsel.models.own_geometry import by_last_layer
from natsel.models.protocol import Progress, learnt
from natsel.models.rows import reads_numbers
from natsel.options import Rows


class Dropout:
    """A torch module whose draws are random dropout masks.

    `network` is a module (copied and re-initialised for every fit) or a function that makes one; it needs dropout
    layers, and their rates decide how far the draws lie apart. Every layer and function of torch that drops features
    counts; what attention and recurrent layers drop inside themselves does not. `training` has the settings of natsel's
    own loop, or `train` is a function of yours: train(module, labelled, validation, seed). After `fit`, `module` is the
    trained network and `epochs` lists the loss and accuracy of each epoch.

    >>> import numpy as np
    >>> from natsel.models.networks.architectures import mlp
    >>> examples = Examples(np.eye(4, dtype=np.float32), np.array([0, 1, 0, 1]))
    >>> model = Dropout(mlp(4, 2), draws=5, training=Training(max_epochs=3), device="cpu").fit(examples, seed=1)
    >>> model.believe(examples.inputs).shape
    (4, 5, 2)
    """

    consistent_draws = True
    check_inputs = reads_numbers
    geometry = by_last_layer(lambda self: [learnt(self.module)])
    _form = InputForm()

    def __init__(
        self,
        network: Network,
        draws: int = 100,
        training: Training | None = None,
        device: torch.device | str | None = None,
        *,
        train: TrainFunction | None = None,
    ) -> None:
        if isinstance(draws, bool) or not isinstance(draws, int) or draws < 1:
            raise ValueError(f"draws: expected a number of draws from 1 on, found {draws!r}; 100 is usual")
        self.network, self.draws = network, draws
        self.training: HowTrained = how_trained(training, train) or Training()
        self.device = as_device(device)
        self.module: nn.Module | None = None
        self.epochs: list[Epoch] = []
        self.outputs: Outputs = Classes()
        self._seed = 0
        self._plan: MaskPlan | None = None

    @classmethod
    def around(
        cls,
        network: nn.Module,
        draws: int = 100,
        *,
        likelihood: Likelihood | None = None,
        noise: float | None = None,
        seed: int = 0,
        train: TrainFunction | None = None,
        device: torch.device | str | None = None,
    ) -> Self:
        """The draws of a network trained elsewhere, which believes at once; it is copied and stays as it is.

        `likelihood`: "categorical" (one output for each class, the default), "bernoulli" (one logit) or "gaussian" (one
        number, with labels of the variance `noise` around it). `seed` decides the masks. `train` is needed where the
        model has to be fitted again, as in a learner: the network is then re-initialised and trained by it.

        >>> network = nn.Sequential(nn.Linear(2, 8), nn.Dropout(), nn.Linear(8, 3))
        >>> Dropout.around(network, draws=5, device="cpu").believe(torch.eye(2)).shape
        (2, 5, 3)
        """
        outputs = outputs_trained_elsewhere(likelihood, noise)
        model = cls(copied(only_module(network)), draws, device=device, train=train)
        model.training = train or TrainedElsewhere()
        return model._set_fit(only_module(model.network), seed, outputs)

    def fit(
        self,
        labelled: Examples | Any,
        validation: Examples | Any = None,
        *,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> Self:
        """Train afresh; the seed decides the first weights, the order of the data and the masks of the draws."""
        labelled, validation = as_labelled(labelled, validation)
        module = fresh_to_train(self.network, self.training, seed, self.device)
        # A network that can have no draws is refused before it is trained. How draws are computed is planned after it:
        # the plan is checked on outputs, and those of first weights may agree by chance.
        with evaluating(module), torch.no_grad():
            plan_of(module, labelled.inputs, seed, self.draws, self.device)
        found = trained_module(
            module, labelled, validation, self.training, seed=seed, device=self.device, progress=progress
        )
        self.epochs, self._form = found.epochs, InputForm.of(labelled.inputs)
        return self._set_fit(found.module, seed, found.outputs)

    def believe(self, inputs: Rows, *, progress: Progress | None = None, spill: str | Path | None = None) -> Belief:
        """What the draws say about inputs; `spill` names a folder to keep the answer in instead of in memory.

        A spilled belief is memory-mapped. Called again with the same folder, a killed call goes on where it was.
        """
        module, inputs = learnt(self.module), self._form.read(inputs)
        if len(inputs) == 0:
            raise ValueError("inputs: found none to believe about; pass at least one")
        name = f"dropout-{fingerprint(module, self.outputs)}-{self._seed}-{self.draws}"
        with evaluating(module), torch.no_grad():
            if spill is None:
                return self._part(name, inputs, progress, slice(0, len(inputs)))
            rows = self._rows_per_shard(module, inputs)
            parts = [slice(start, min(start + rows, len(inputs))) for start in range(0, len(inputs), rows)]
            makers = (partial(self._part, name, inputs, progress, part) for part in parts)
            return write_shards(spill, makers, key=f"{name} {fingerprint_of(inputs)} {rows}").belief()

    @property
    def route(self) -> str | None:
        """Whether draws are computed "together" or "one by one"; None before the first belief of a fit."""
        return self._plan.route if self._plan else None

    def weights(self) -> dict[str, Tensor]:
        """All that `load_weights` needs to believe the same again."""
        own = {"natsel.seed": torch.tensor(self._seed), "natsel.outcome": self.outputs.as_tensor()}
        return {**{name: tensor.detach().cpu() for name, tensor in learnt(self.module).state_dict().items()}, **own}

    def load_weights(self, weights: dict[str, Tensor]) -> Self:
        """Take up the weights of an earlier fit, or the `state_dict()` of such a network that was trained elsewhere."""
        own = {name: value for name, value in weights.items() if not name.startswith("natsel.")}
        try:
            module = fresh(self.network, 0)
            module.load_state_dict(own)
            if len(own) == len(weights):
                return self._set_fit(module, 0, self.outputs)
            seed, outputs = int(weights["natsel.seed"]), outputs_from_tensor(weights["natsel.outcome"].tolist())
        except (KeyError, RuntimeError) as reason:
            found = " ".join(str(reason).split())
            raise ValueError(f"weights: they do not fit this network ({found}); pass what weights() gave") from None
        return self._set_fit(module, seed, outputs)

    def _set_fit(self, module: nn.Module, seed: int, outputs: Outputs) -> Self:
        self.module, self._seed, self.outputs, self._plan = module.to(self.device).eval(), seed, outputs, None
        return self

    def _part(self, name: str, inputs: Any, progress: Progress | None, part: slice) -> Belief:
        """The belief about some of the inputs, under their own ids."""
        module, total = learnt(self.module), len(inputs)
        if self._plan is None:
            self._plan = plan_of(module, inputs, self._seed, self.draws, self.device)
        tell = None if progress is None else lambda done, _: progress(part.start + done, total)
        some = inputs if part == slice(0, total) else inputs[part]
        classes = isinstance(self.outputs, Classes)
        then = partial(torch.log_softmax, dim=-1) if classes else None
        masks = Masks(self._seed, memory_budget() // 8)
        outputs_n_K_C = outputs_of(
            self._plan, module, some, masks, range(self.draws), self.device, then=then, progress=tell
        )
        name += f"-{fingerprint(masks.shapes)}" if masks.shapes else ""
        if classes:
            refuse_one_output(outputs_n_K_C)
            belief: Belief = CategoricalSamples._own(outputs_n_K_C, draws_id=name)
        else:
            belief = self.outputs.belief(outputs_n_K_C, name)
        return belief if part.start == 0 else belief.with_ids(torch.arange(part.start, part.stop))

    def _rows_per_shard(self, module: nn.Module, inputs: Any) -> int:
        """Shards that take a quarter of the memory budget."""
        outputs = module(reader_of(module, inputs, self.device)(slice(0, 1)))
        return int(max(1, memory_budget() // (4 * self.draws * outputs.nbytes)))
