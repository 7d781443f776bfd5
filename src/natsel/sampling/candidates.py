"""Candidates: batches of a data set from which a loader selects, each example in one of them per epoch.

    order(epoch) = permutation of 0..N−1, by seed and epoch          rank r of R takes places r, r + R, r + 2R, …
    n_b = max(1, ⌊keep · n_B + 10⁻⁹⌋)                                of a smaller last batch the same share

With several ranks, the up to R − 1 examples that are left over sit out the epoch, so that all ranks take as many steps.
Examples and pairs of arrays come as the networks of natsel take them (`natsel.models.inputs_of`); where all of them
keep to the memory budget, they are converted once and lie on the device. Items of a torch data
set come as its collate function makes them, read by the workers of the DataLoader where one was given.
docs/theory/training-selection.md, 2.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, RandomSampler, SequentialSampler

from natsel.data.dataset import DataSet
from natsel.data.examples import Examples
from natsel.data.frames import FrameRows, is_frame
from natsel.data.labels import Array
from natsel.memory import memory_budget
from natsel.models.networks.inputs import conversion_of, on_device
from natsel.sampling.labelled_data import examples_of, pair_of
from natsel.seeds import derive


def n_selected(n_candidates: int, keep: float) -> int:
    """How many of so many candidates are trained on.

    >>> n_selected(100, 0.29), n_selected(3, 0.1)
    (29, 1)
    """
    return max(1, int(keep * n_candidates + 1e-9))


def n_candidates(batch: int, keep: float) -> int:
    """The fewest candidates of which the share `keep` is a batch.

    >>> n_candidates(32, 0.1), n_selected(n_candidates(32, 0.6), 0.6)
    (320, 32)
    """
    return max(1, math.ceil(batch / keep - 1e-9))


def epoch_batches(n_examples: int, size: int, seed: int, epoch: int, rank: int = 0, world: int = 1) -> list[Array]:
    """The positions of the candidates of an epoch, batch by batch, for one rank; the last may be smaller.

    >>> [len(batch) for batch in epoch_batches(10, 4, seed=0, epoch=0)]
    [4, 4, 2]
    """
    order = np.random.default_rng(derive(seed, "candidates", epoch)).permutation(n_examples)
    own = order[: n_examples // world * world][rank::world]
    return [own[start : start + size] for start in range(0, len(own), size)]


def source_of(
    dataset: Any, network: nn.Module, device: torch.device, inputs_key: str | None, labels_key: str, ids: Any = None
) -> "tuple[CandidateSource, Any]":
    """Whatever people have their labelled data in, as candidates, and their ids: those given, else those of a table.

    >>> source, ids = source_of((np.eye(3), [0, 1, 2]), nn.Linear(3, 3), torch.device("cpu"), None, "labels")
    >>> next(source.batches([np.array([2])], seed=0)), ids
    ((tensor([[0., 0., 1.]]), tensor([2])), None)
    """
    if isinstance(dataset, DataSet):
        raise ValueError("dataset: found a whole data set; pass a part of it, as in data.train")
    if is_frame(dataset):
        dataset, ids = examples_of(dataset, labels=labels_key, ids=ids)
    elif isinstance(dataset, tuple | list) and len(dataset) == 2 and all(map(_is_array, dataset)):
        dataset, ids = examples_of(tuple(dataset), ids=ids)
    if isinstance(dataset, Examples):
        return ArraySource.of(dataset, network, device), ids
    loader = dataset if isinstance(dataset, DataLoader) else None
    if loader is not None:
        _refuse_own_order(loader)
        dataset = loader.dataset
    if isinstance(dataset, IterableDataset) or not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
        raise ValueError(
            f"dataset: found {type(dataset).__name__}, which has no length or no items by number; pass natsel.Examples,"
            " (inputs, labels), a torch data set or its DataLoader"
        )
    if len(dataset) == 0:
        raise ValueError("dataset: found no examples; pass at least one")
    return TorchSource(dataset, loader, device, inputs_key, labels_key), ids


@dataclass(frozen=True, eq=False)
class ArraySource:
    """Inputs in an array, a memory map or a folder of pictures, and labels, which lie on the device."""

    inputs: Any
    labels_N: Tensor
    convert: Callable[[Any], Tensor]
    examples: Examples

    @classmethod
    def of(cls, examples: Examples, network: nn.Module, device: torch.device) -> "ArraySource":
        """The examples as a network takes them; without labels they are refused."""
        if examples.labels is None or len(examples) == 0:
            raise ValueError(
                f"dataset: found no {'labels' if len(examples) else 'examples'}; pass examples with their labels"
            )
        labels_N = torch.tensor(np.asarray(examples.labels))
        if not labels_N.is_floating_point() and bool((labels_N < 0).any()):
            row = int((labels_N < 0).nonzero()[0, 0])
            raise ValueError(f"dataset: the label of example {row} is not known; leave such examples out")
        inputs: Any = examples.inputs
        inputs = inputs.numbers() if isinstance(inputs, FrameRows) else inputs
        in_memory = isinstance(inputs, Tensor) or (isinstance(inputs, np.ndarray) and not isinstance(inputs, np.memmap))
        if in_memory and inputs.nbytes <= memory_budget():
            inputs, convert = on_device(network, deepcopy(inputs), device)  # the caller may change theirs
        else:
            convert = conversion_of(network, inputs, device)
        return cls(inputs, labels_N.to(device), convert, examples)

    def __len__(self) -> int:
        return len(self.labels_N)

    def batches(self, positions: Sequence[Array], seed: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Inputs and labels of each batch of positions, on the device."""
        for some in positions:
            index = torch.from_numpy(some)
            there = index.to(self.labels_N.device, non_blocking=True)
            if isinstance(self.inputs, Tensor):
                rows = parts_of(self.inputs, there if self.inputs.device == there.device else index)
            else:
                rows = self.inputs[some]
            yield self.convert(rows), parts_of(self.labels_N, there)


@dataclass(frozen=True, eq=False)
class TorchSource:
    """A torch data set, read as its DataLoader would read it, in an order of its own."""

    dataset: Any
    loader: "DataLoader[Any] | None"
    device: torch.device
    inputs_key: str | None
    labels_key: str

    @property
    def examples(self) -> Examples | None:
        """The tensors of a data set that holds them, as examples."""
        pair = pair_of(self.dataset)
        return None if pair is None else Examples(*pair)

    def __len__(self) -> int:
        return len(self.dataset)

    def batches(self, positions: Sequence[Array], seed: int) -> Iterator[tuple[Any, Tensor]]:
        """The same, as the collate function makes them of the items."""
        options: dict[str, Any] = {}
        if self.loader is not None:
            names = ("collate_fn", "num_workers", "pin_memory", "timeout", "worker_init_fn", "multiprocessing_context")
            options = {name: getattr(self.loader, name) for name in (*names, "prefetch_factor")}
        reader: DataLoader[Any] = DataLoader(
            self.dataset,
            batch_sampler=[some.tolist() for some in positions],
            generator=torch.Generator().manual_seed(seed),  # else workers would be seeded by the global random state
            **options,
        )
        for some, read in zip(positions, reader, strict=True):
            inputs, labels = self._split(read)
            labels = torch.as_tensor(labels).to(self.device, non_blocking=True)
            if labels.ndim == 0 or len(labels) != len(some):
                raise ValueError(
                    f"dataset: {len(some)} items became labels of shape {tuple(labels.shape)}; a collate function must"
                    " keep one row per item"
                )
            yield moved(inputs, self.device), labels

    def _split(self, read: Any) -> tuple[Any, Any]:
        if isinstance(read, Mapping):
            wanted = [self.labels_key, *([] if self.inputs_key is None else [self.inputs_key])]
            absent = next((key for key in wanted if key not in read), None)
            if absent is not None:
                raise ValueError(
                    f"dataset: items have no {absent!r} but {', '.join(map(str, read))}; say inputs_key= or labels_key="
                )
            rest = {key: value for key, value in read.items() if key != self.labels_key}
            return rest if self.inputs_key is None else read[self.inputs_key], read[self.labels_key]
        if isinstance(read, tuple | list) and len(read) == 2:
            return read[0], read[1]
        count = f" of {len(read)} parts" if isinstance(read, tuple | list) else ""
        raise ValueError(
            f"dataset: expected items (input, label) or dicts, found {type(read).__name__}{count}; wrap the data set"
        )


CandidateSource = ArraySource | TorchSource  # examples that can be read by their positions, batch by batch


def parts_of(value: Any, rows: slice | Tensor) -> Any:
    """Some rows of a batch: of a tensor, of each tensor of a dict or a tuple, of a list with one entry per row.

    >>> parts_of({"tokens": torch.tensor([[1], [2]]), "text": ["a", "b"]}, torch.tensor([1]))
    {'tokens': tensor([[2]]), 'text': ['b']}
    """
    if isinstance(value, Tensor):
        if isinstance(rows, slice):
            return value[rows]
        return value.index_select(0, rows.to(value.device, non_blocking=True))  # in half the time of value[rows]
    if isinstance(value, Mapping):
        return {key: parts_of(part, rows) for key, part in value.items()}
    if _is_structure(value):
        return type(value)(parts_of(part, rows) for part in value)
    return value[rows] if isinstance(rows, slice) else [value[row] for row in rows.tolist()]


def moved(value: Any, device: torch.device) -> Any:
    """A batch on a device; what are no tensors stays where it is.

    >>> moved([torch.zeros(1)], torch.device("cpu"))
    [tensor([0.])]
    """
    if isinstance(value, Tensor):
        return value.to(device, non_blocking=True)
    if isinstance(value, Mapping):
        return {key: moved(part, device) for key, part in value.items()}
    return type(value)(moved(part, device) for part in value) if _is_structure(value) else value


def _is_structure(value: Any) -> bool:
    """Whether a tuple or list holds parts of a batch, not one entry per row."""
    return isinstance(value, tuple | list) and all(isinstance(part, Tensor | Mapping | tuple | list) for part in value)


def _is_array(value: Any) -> bool:
    """Whether a part of a pair runs over examples: of two items of a data set, neither is."""
    return (hasattr(value, "shape") and len(value.shape) > 0) or isinstance(value, list | Mapping)


def _refuse_own_order(loader: "DataLoader[Any]") -> None:
    """Raise a ValueError where a loader draws examples by a rule of its own, which would be lost."""
    if isinstance(loader.dataset, IterableDataset):
        return  # refused by itself
    if loader.batch_sampler is None:
        raise ValueError(
            "dataset: the DataLoader makes no batches (batch_size=None); pass its data set: loader.dataset"
        )
    sampler: Any = loader.sampler
    usual = isinstance(sampler, SequentialSampler | DistributedSampler) or (
        isinstance(sampler, RandomSampler) and not sampler.replacement
    )
    data: Any = loader.dataset
    count, ranked = len(data), torch.distributed.is_available() and torch.distributed.is_initialized()
    # Within a process group each rank draws its own part, as candidates come too.
    if usual and len(sampler) != count and not (ranked and isinstance(sampler, DistributedSampler)):
        raise ValueError(
            f"dataset: the {type(sampler).__name__} of the DataLoader draws {len(sampler)} of {count} examples, and all"
            " would be candidates; pass those that are meant, as torch.utils.data.Subset(dataset, rows)"
        )
    plain_batches = type(loader.batch_sampler).__module__.startswith("torch.")
    if usual and plain_batches:
        return
    rule = sampler if not usual else loader.batch_sampler
    raise ValueError(
        f"dataset: the DataLoader draws by its {type(rule).__name__}, but candidates come each once per epoch; pass its"
        " data set instead: loader.dataset"
    )
