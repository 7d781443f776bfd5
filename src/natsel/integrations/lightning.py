"""Lightning: a callback with which a Trainer trains an unchanged module on selected examples (extra `lightning`).

    trainer.fit(module, loader)        module.training_step(batch)        batch = what loader's collate function gives,
                                                                          of the examples that the method selects

The callback puts a `natsel.SelectiveLoader` in the place of the one DataLoader that the Trainer trains from, before the
Trainer counts its batches. Candidates are scored by `module(inputs)`, or by a part of the module. Its state is part of
the checkpoint, and the shares of what was selected are logged at the end of each epoch.
docs/selective-training/lightning.md; docs/theory/training-selection.md, 2; Mindermann et al. 2022.
"""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from torch import nn
from torch.utils.data import DataLoader

from natsel.choose.methods import Method
from natsel.integrations.selective_batches import (
    NamedInput,
    SelectiveBatches,
    SelectiveTrainingBase,
    collated_as_given,
    gives_weights,
    refuse_unknown_options,
    shares,
)
from natsel.sampling.selective_loader import SelectiveLoader


class SelectiveTrainingHooks(SelectiveTrainingBase):
    """A callback of Lightning, `SelectiveTraining`: the Trainer trains on what a method selects.

    `network`: the name of the part of the module that gives logits, where the module itself does not.
    `batch`: how many examples a step trains on; by default the batch size of the DataLoader.
    `with_weights=True` puts the weights at the end of each batch: `inputs, labels, weights = batch`, or the entry
    "weights" of a dict. Methods that draw by importance need it.
    `inputs_key`, `labels_key`: of batches that are dicts; without the former all but the labels go to the network by
    name. All other options are those of natsel.SelectiveLoader.

        trainer = lightning.Trainer(callbacks=[SelectiveTraining(irreducible_loss=table, keep=0.1)])
        trainer.fit(module, train_dataloader)

    >>> SelectiveTrainingHooks(method="grad-norm-is")
    Traceback (most recent call last):
    ValueError: with_weights: grad-norm-is draws by importance, found False; pass with_weights=True, take the weights...
    """

    def __init__(
        self,
        *,
        method: str | Method = "rho-loss",
        keep: float = 0.1,
        irreducible_loss: Any = None,
        batch: int | None = None,
        network: str | None = None,
        with_weights: bool = False,
        inputs_key: str | None = None,
        labels_key: str = "labels",
        **options: Any,
    ) -> None:
        refuse_unknown_options(options, {}, "SelectiveTraining")
        if gives_weights(method) and not with_weights:
            name = method if isinstance(method, str) else method.name
            raise ValueError(
                f"with_weights: {name} draws by importance, found {with_weights!r}; pass with_weights=True, take the"
                " weights from the batch in training_step and return (weights * loss_per_example).mean()"
            )
        self.options = {**options, "method": method, "keep": keep, "irreducible_loss": irreducible_loss}
        self.batch_size, self.network, self.with_weights = batch, network, with_weights
        self.inputs_key, self.labels_key = inputs_key, labels_key
        self._state: Mapping[str, Any] | None = None

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Put the selected batches in the place of the training data, wherever the Trainer has them from."""
        if stage != "fit":
            return
        if trainer.global_step == 0:
            self._state, self.batches = None, None  # of another training
        source = trainer.fit_loop._data_source
        # Of the loader given to `fit`, of the module or of the data module; as the class has it, because a training
        # that was interrupted leaves ours there.
        given = partial(type(source).dataloader, source)
        # Asked for when Lightning wants to know how many steps there will be: after distributed processes have found
        # each other, and again where loaders are to be made anew.
        source.dataloader = lambda: self._selective(given(), trainer, pl_module)

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Give the Trainer its own source of training data back."""
        if stage == "fit":
            vars(trainer.fit_loop._data_source).pop("dataloader", None)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Log the shares of what was selected."""
        if self.batches is not None:
            pl_module.log_dict(shares(self.diagnostics), sync_dist=trainer.world_size > 1)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint holds."""
        return {} if self.batches is None else self.batches.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Resume with the batch after the one that was saved."""
        self._state = state_dict
        if self.batches is not None:
            self.batches.load_state_dict(state_dict)

    def _selective(self, loader: Any, trainer: Any, module: nn.Module) -> SelectiveBatches:
        if not isinstance(loader, DataLoader):
            raise ValueError(
                f"train_dataloaders: found {type(loader).__name__}; SelectiveTraining selects from one DataLoader, give"
                " the Trainer that"
            )
        network = module if self.network is None else dict(module.named_modules()).get(self.network)
        if network is None:
            found = ", ".join(dict(module.named_children()))
            raise ValueError(f"network: the module has no part {self.network!r} but {found}; name one of these")
        if self.inputs_key is not None:
            network = NamedInput(network, self.inputs_key)
        selective = SelectiveLoader(
            loader,
            network,
            batch=self.batch_size or loader.batch_size or 1,
            labels_key=self.labels_key,
            device=trainer.strategy.root_device,  # where the module will be, if it is not there yet
            **self.options,
        )
        if self.batches is not None:
            self._state = self.batches.state_dict()
        weights_key = "weights" if self.with_weights else None
        collated = partial(collated_as_given, labels_key=self.labels_key, weights_key=weights_key)
        self.batches = SelectiveBatches(selective, collated)
        if self._state:
            self.batches.load_state_dict(self._state)
        return self.batches


if TYPE_CHECKING:
    from lightning.pytorch import Callback

    class SelectiveTraining(SelectiveTrainingHooks, Callback):
        """What type checkers see of the class that `__getattr__` makes."""


def __getattr__(name: str) -> Any:
    """Make `SelectiveTraining` when it is first asked for: Lightning takes seconds to import."""
    if name != "SelectiveTraining":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from lightning.pytorch import Callback
    except ImportError:
        raise ImportError("SelectiveTraining needs the extra lightning: pip install 'natsel[lightning]'") from None
    about = {"__module__": __name__, "__doc__": SelectiveTrainingHooks.__doc__}
    made = globals()[name] = type(name, (SelectiveTrainingHooks, Callback), about)
    return made
