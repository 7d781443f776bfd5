"""Batches of a selective loader for the training loop of another library, which has its own idea of an epoch.

    what the collate function of the user gives     [inputs, labels], or a dict; with weights where these are asked for
    one iteration                                   as many batches as an epoch has, from where the last one stopped
    state                                           the same on all ranks, because a checkpoint holds that of rank 0

A loop that stops within an epoch goes on there, and then into the next epoch, so that its own count of batches stays
right and every example is still a candidate once per epoch of the loader.
docs/theory/training-selection.md, 2.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch import nn

from natsel.choose.methods import Method, resolve
from natsel.containers import sealed
from natsel.sampling.selective_loader import SelectedBatch, SelectionCounts, SelectiveLoader, tried_on_candidates

DECIDED_BY_THE_TRAINER = frozenset(("dataset", "model", "rank", "world", "device"))
"""What a trainer of another library knows better than an option."""


class SelectiveBatches:
    """The batches of a loader, each turned by `collated` into what the training loop takes.

    >>> import torch
    >>> network = nn.Linear(2, 2)
    >>> loader = SelectiveLoader((torch.eye(2), [0, 1]), network, method="loss", keep=0.5, batch=1)
    >>> batches = SelectiveBatches(loader, lambda batch: batch.labels)
    >>> [labels.shape for labels in batches], len(batches), batches.latest.ids.shape
    ([torch.Size([1])], 1, (1,))
    """

    def __init__(self, loader: SelectiveLoader, collated: Callable[[SelectedBatch], Any]) -> None:
        self.loader, self.collated = loader, collated
        self.latest: SelectedBatch | None = None
        """The batch that was given last, with its ids, weights and scores."""

    def __len__(self) -> int:
        """How many batches an epoch has."""
        return len(self.loader)

    def __iter__(self) -> Iterator[Any]:
        batches = iter(self.loader)
        for _ in range(len(self)):
            batch = next(batches, None)
            if batch is None:
                batches = iter(self.loader)
                batch = next(batches)
            self.latest = batch
            yield self.collated(batch)

    def state_dict(self) -> dict[str, Any]:
        """Where the loader stands, in plain values, for any rank."""
        state = self.loader.state_dict()
        del state["rank"]
        # What was scored ahead belongs to one rank; the others score their next candidates again.
        return sealed(state if self.loader.world == 1 else state | {"chosen": None})

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where other batches of the same data, seed and sizes stood."""
        self.loader.load_state_dict(sealed({**state, "rank": self.loader.rank}) if sealed(state) == state else state)


class SelectiveTrainingBase:
    """What the trainings of all libraries tell of their batches.

    >>> SelectiveTrainingBase().diagnostics
    Traceback (most recent call last):
    ValueError: trainer: it has not begun to train; call its fit or train first
    """

    batches: SelectiveBatches | None = None

    @property
    def diagnostics(self) -> SelectionCounts:
        """What was selected in the epoch of the loader so far, as natsel.SelectiveLoader counts it."""
        return self._made().loader.diagnostics

    @property
    def selected(self) -> SelectedBatch:
        """The batch that is trained on now, or was read last, with its ids, weights and scores."""
        latest = self._made().latest
        if latest is None:
            raise ValueError("selected: found no batch yet; ask during training or after it")
        return latest

    def _made(self) -> SelectiveBatches:
        if self.batches is None:
            raise ValueError("trainer: it has not begun to train; call its fit or train first")
        return self.batches


class NamedInput(nn.Module):
    """A network that takes one entry of a batch, called with all of them by name.

    >>> NamedInput(nn.Identity(), "image")(image=3, text=["a"])
    3
    """

    def __init__(self, network: nn.Module, key: str) -> None:
        super().__init__()
        self.network, self.key = network, key

    def forward(self, *whole: Any, **entries: Any) -> Any:
        """What the network answers."""
        if whole:
            raise ValueError(f"inputs_key: found {self.key!r}, but batches are no dicts; leave it out")
        if self.key not in entries:
            raise ValueError(
                f"inputs_key: batches have no {self.key!r} but {', '.join(map(str, entries))}; name one of these"
            )
        return self.network(entries[self.key])


def collated_as_given(batch: SelectedBatch, labels_key: str = "labels", weights_key: str | None = None) -> Any:
    """A batch as the collate function made it: [inputs, labels] or a dict; with a key, the weights are at its end.

    >>> collated_as_given(SelectedBatch({"tokens": 3}, labels=[1], weights=[1.0], ids=[0], scores=[0.5]))
    {'tokens': 3, 'labels': [1]}
    """
    if isinstance(batch.inputs, Mapping):
        weights = {} if weights_key is None else {weights_key: batch.weights}
        return {**batch.inputs, labels_key: batch.labels, **weights}
    return [batch.inputs, batch.labels, *([] if weights_key is None else [batch.weights])]


def shares(counts: SelectionCounts) -> dict[str, float]:
    """What was selected, as shares to log: how much of it was correct already, and how much noisy, as of candidates.

    >>> shares(SelectionCounts(0, candidates=100, selected=10, correct=5, candidates_by_mask={"noisy": 20}))
    {'selected_correct': 0.5, 'candidates_noisy': 0.2}
    """
    if not counts.selected:
        return {}
    correct = {} if counts.correct is None else {"selected_correct": counts.correct / counts.selected}
    selected = {f"selected_{name}": count / counts.selected for name, count in counts.selected_by_mask.items()}
    candidates = {f"candidates_{name}": count / counts.candidates for name, count in counts.candidates_by_mask.items()}
    return correct | selected | candidates


def refuse_unknown_options(options: Mapping[str, Any], decided: Mapping[str, str], where: str) -> None:
    """Raise a ValueError for what natsel.SelectiveLoader has no option for, or what is decided elsewhere.

    >>> refuse_unknown_options({"kep": 0.1}, {}, "SelectiveTraining")
    Traceback (most recent call last):
    ValueError: kep: SelectiveTraining has no such option; the options are those of natsel.SelectiveLoader
    """
    known = set(inspect.signature(SelectiveLoader).parameters) - DECIDED_BY_THE_TRAINER
    for name in options:
        if name in decided:
            raise ValueError(f"{name}: found as an option of {where}; {decided[name]}")
        if name in DECIDED_BY_THE_TRAINER:
            raise ValueError(f"{name}: found as an option of {where}; the trainer decides it, leave it out")
        if name not in known:
            raise ValueError(f"{name}: {where} has no such option; the options are those of natsel.SelectiveLoader")


def gives_weights(method: str | Method) -> bool:
    """Whether the picks of a method have weights, found by trying it on made-up candidates.

    >>> gives_weights("grad-norm-is"), gives_weights("rho-loss")
    (True, False)
    """
    needs, _ = tried_on_candidates(resolve(method), True, 4, 2)  # the loader refuses what cannot select, and says why
    return needs is not None and needs.weights
