"""Labelled data in any form as examples: inputs, labels in their order, and the ids that name them.

(inputs, labels)                            labels that name their rows go by id where the inputs have ids
TensorDataset(inputs, labels), Subset       a pair of tensors
all else                                    what pools take
"""

from dataclasses import replace
from typing import Any

from torch.utils.data import Subset, TensorDataset

from natsel.data.alignment import aligned, index_of
from natsel.data.any_source import Source, examples_from
from natsel.data.examples import Examples
from natsel.data.frames import is_frame
from natsel.ids import ids_for


def examples_of(dataset: Any, *, labels: Any = None, ids: Any = None) -> tuple[Examples, Any]:
    """A data set as examples with a copy of their labels, and its ids: those given, else its own, None if it has none.

    >>> import pandas
    >>> examples, ids = examples_of((pandas.DataFrame({"age": [41, 29]}, index=["b", "a"]), {"a": 0, "b": 1}))
    >>> examples.labels.tolist(), ids.tolist()
    ([1, 0], ['b', 'a'])
    """
    dataset = pair_of(dataset) or dataset
    if isinstance(dataset, tuple) and len(dataset) == 2:
        inputs, labels = dataset
        source = examples_from(inputs, ids=ids) if is_frame(inputs) else Source(inputs, ids=ids)
        names = index_of(inputs) if source.ids is None else ids_for(source.ids, len(inputs))
        if labels is not None:
            labels, _ = aligned(labels, len(inputs) if names is None else names, listed=ids is not None)
        examples = Examples(source.inputs, labels)
    else:
        source, examples = examples_from(dataset, labels=labels, ids=ids), dataset
        if labels is not None or not isinstance(dataset, Examples):
            examples = Examples(source.inputs, source.labels, source.classes)
    return (examples if examples.labels is None else replace(examples, labels=examples.labels.copy())), source.ids


def pair_of(dataset: Any) -> Any:
    """The tensors of inputs and labels that a torch data set holds, or of a part of one; None where it holds no pair.

    >>> import torch
    >>> pair_of(Subset(TensorDataset(torch.eye(2), torch.tensor([0, 1])), [1]))
    (tensor([[0., 1.]]), tensor([1]))
    """
    if isinstance(dataset, TensorDataset):
        return dataset.tensors if len(dataset.tensors) == 2 else None
    whole = pair_of(dataset.dataset) if isinstance(dataset, Subset) else None
    return whole and tuple(part[list(dataset.indices)] for part in whole)
