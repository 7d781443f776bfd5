"""Hugging Face: what a `transformers.Trainer` inherits to train on selected examples.

    class MyTrainer(SelectiveTrainer, Trainer): ...

The training data, the collate function and the batch size are those of the Trainer; of each batch of candidates the
selected examples come to `training_step`, as the collate function made them. Where the method draws by importance, the
loss is that of the weights,

    loss = mean over the batch of  weight_n · loss_n                loss_n: the cross-entropy, or the option `loss`

Each checkpoint holds the place of the loader in `selective_loader.json`; the shares of what was selected are logged
with the training loss.
docs/selective-training/hugging-face.md; docs/theory/training-selection.md, 2 and 5; Mindermann et al. 2022.
"""

import json
import math
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from natsel.containers import readable
from natsel.integrations.selective_batches import (
    SelectiveBatches,
    SelectiveTrainingBase,
    collated_as_given,
    gives_weights,
    refuse_unknown_options,
    shares,
)
from natsel.sampling.scoring_pass import cross_entropy
from natsel.sampling.selective_loader import SelectiveLoader

FILE = "selective_loader.json"
"""What a folder of a checkpoint holds besides the files of transformers."""

_WEIGHTS = "natsel_weights"  # an entry of a batch between loader and loss, which no model has an argument for
_DECIDED = {
    "batch": "the Trainer trains on per_device_train_batch_size of its arguments",
    "inputs_key": "models of transformers take all entries of a batch by name",
}


class SelectiveTrainer(SelectiveTrainingBase):
    """A mixin for transformers.Trainer and its subclasses: they train on what a method selects.

    `selection`: options of natsel.SelectiveLoader, such as {"irreducible_loss": table, "keep": 0.1}. All other
    arguments are those of the Trainer.

        class MyTrainer(SelectiveTrainer, Trainer):
            pass

        trainer = MyTrainer(model, args, train_dataset=data, selection={"irreducible_loss": table})
        trainer.train()
        trainer.diagnostics

    >>> SelectiveTrainer(selection={})
    Traceback (most recent call last):
    ValueError: SelectiveTrainer: it stands before no Trainer; write class MyTrainer(SelectiveTrainer, Trainer)
    """

    # Of the Trainer that comes after this class.
    args: Any
    model: Any
    state: Any
    is_in_train: bool
    current_gradient_accumulation_steps: int
    _train_batch_size: int

    def __init__(self, *args: Any, selection: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        if not hasattr(super(), "get_train_dataloader"):
            raise ValueError(
                "SelectiveTrainer: it stands before no Trainer; write class MyTrainer(SelectiveTrainer, Trainer)"
            )
        self.selection = dict(selection or {})
        refuse_unknown_options(self.selection, _DECIDED, "selection")
        self._with_weights = gives_weights(self.selection.get("method", "rho-loss"))
        self._checkpoint: Path | None = None
        super().__init__(*args, **kwargs)
        self._refuse_what_would_be_ignored()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        before = cls.__mro__[: cls.__mro__.index(SelectiveTrainer)]
        if any(base.__module__.partition(".")[0] == "transformers" for base in before):
            raise ValueError(
                f"{cls.__name__}: SelectiveTrainer comes after Trainer and would do nothing; write class"
                f" {cls.__name__}(SelectiveTrainer, Trainer)"
            )

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any) -> Any:
        """As the Trainer trains; from a checkpoint on, with the batch that comes after it."""
        self._checkpoint = None
        if resume_from_checkpoint:
            folder = resume_from_checkpoint
            if folder is True:
                from transformers.trainer_utils import get_last_checkpoint

                folder = get_last_checkpoint(self.args.output_dir)
            if folder is not None:  # else the Trainer says that there is none
                self._checkpoint = Path(folder)
                if not (self._checkpoint / FILE).is_file():
                    raise ValueError(
                        f"resume_from_checkpoint: {folder} holds no {FILE}; resume from a checkpoint that a"
                        " SelectiveTrainer saved"
                    )
        return super().train(resume_from_checkpoint, *args, **kwargs)  # type: ignore[misc]

    def get_train_dataloader(self) -> "DataLoader[Any]":
        """The selected batches of the data that the Trainer would have trained on."""
        own = super().get_train_dataloader()  # type: ignore[misc]
        # Without the sampler, which accelerate has cut into parts for each process: the loader does so itself.
        names = ("collate_fn", "num_workers", "pin_memory", "worker_init_fn", "multiprocessing_context")
        options = {name: getattr(own, name) for name in (*names, "prefetch_factor")}
        loader = SelectiveLoader(
            own.dataset if isinstance(own.dataset, IterableDataset) else DataLoader(own.dataset, **options),
            self.model,
            batch=self._train_batch_size,
            **{"drop_last": self.args.dataloader_drop_last, **self.selection},
        )
        labels_key, weights_key = self.selection.get("labels_key", "labels"), _WEIGHTS if self._with_weights else None
        collated = partial(collated_as_given, labels_key=labels_key, weights_key=weights_key)
        self.batches = SelectiveBatches(loader, collated)
        if self._checkpoint is not None:
            with readable(self._checkpoint / FILE):
                state = json.loads((self._checkpoint / FILE).read_text(encoding="utf-8"))
            self.batches.load_state_dict(state)
        return _AsDataLoader(_AsDataSet(self.batches, self._n_skipped))

    def compute_loss(self, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """The loss of the Trainer; with weights, the weighted mean of the losses of the examples."""
        if _WEIGHTS not in inputs:
            return super().compute_loss(model, inputs, *args, **kwargs)  # type: ignore[misc]
        return self._weighted_loss(model, dict(inputs), *args, **kwargs)

    def _weighted_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        weights_B = inputs.pop(_WEIGHTS)
        labels = inputs.pop(self.selection.get("labels_key", "labels"))
        outputs = model(**inputs)
        loss_B: Tensor = (self.selection.get("loss") or cross_entropy)(outputs.logits, labels)
        loss = (weights_B * loss_B).mean()
        # The Trainer divides a mean by the number of batches of a step, unless it takes the loss for a sum that is
        # divided already.
        divided = getattr(self, "loss_is_scaled_for_ga", None)
        if divided is None:
            divided = getattr(self, "model_accepts_loss_kwargs", False) and num_items_in_batch is not None
        if divided:
            loss = loss / self.current_gradient_accumulation_steps
        return (loss, outputs) if return_outputs else loss

    def save_model(self, output_dir: str | None = None, *args: Any, **kwargs: Any) -> None:
        """The model, and during training the place of the loader beside it."""
        super().save_model(output_dir, *args, **kwargs)  # type: ignore[misc]
        if self.is_in_train and self.batches is not None and self.args.should_save:
            folder = Path(output_dir or self.args.output_dir)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / FILE).write_text(json.dumps(self.batches.state_dict()), encoding="utf-8")

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """What the Trainer logs, and with a training loss the shares of what was selected."""
        if "loss" in logs and self.batches is not None:
            logs |= shares(self.diagnostics)
        super().log(logs, *args, **kwargs)  # type: ignore[misc]

    def _n_skipped(self) -> int:
        """How many batches the Trainer reads and throws away before it goes on within an epoch."""
        if self._checkpoint is None or self.args.ignore_data_skip:
            return 0
        self._checkpoint = None  # of the first epoch alone
        each = self.args.gradient_accumulation_steps
        return int(self.state.global_step % math.ceil(len(self._made()) / each) * each)

    def _refuse_what_would_be_ignored(self) -> None:
        strategy = getattr(self.args, "train_sampling_strategy", "random")
        if strategy not in ("random", "sequential"):
            raise ValueError(
                f"train_sampling_strategy: found {strategy!r}, but candidates come each once per epoch in an order of"
                " their own; leave it out"
            )
        sampler = getattr(type(self), "_get_train_sampler", None)
        if sampler is not None and not sampler.__module__.startswith("transformers."):
            raise ValueError(
                "_get_train_sampler: candidates come each once per epoch in an order of their own; leave it out, or"
                " train on the part that is meant: torch.utils.data.Subset(train_dataset, rows)"
            )
        own_loss = getattr(self, "compute_loss_func", None) or getattr(self, "label_smoother", None)
        if self._with_weights and own_loss is not None:
            raise ValueError(
                "selection: the method draws by importance, and losses must be weighted one by one; leave"
                " compute_loss_func and label_smoothing_factor out, and pass selection={'loss': …} instead"
            )


class _AsDataSet(IterableDataset[Any]):
    """Batches in a form that accelerate can wrap anew, in front of them those that it will throw away.

    The loader stands behind the latter already, so that nothing has to be read or scored for them.
    """

    def __init__(self, batches: SelectiveBatches, n_skipped: Any) -> None:
        self.batches, self.n_skipped = batches, n_skipped

    def __iter__(self) -> Iterator[Any]:
        for _ in range(self.n_skipped()):
            yield None
        yield from self.batches


class _AsDataLoader(DataLoader[Any]):
    """Batches that are made already; it draws nothing from the global random state."""

    def __init__(self, dataset: _AsDataSet) -> None:
        super().__init__(dataset, batch_size=None, collate_fn=lambda batch: batch, generator=torch.Generator())

    def __len__(self) -> int:
        assert isinstance(self.dataset, _AsDataSet)
        return len(self.dataset.batches)
