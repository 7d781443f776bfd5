"""Whatever people have their data in, as inputs, labels and ids.

    a path                       a file or a folder, by `read_examples`
    examples                     `natsel.Examples`
    a table                      of pandas or polars; `labels`, `answers` and `ids` may name its columns
    a column of texts            of pandas or polars
    a data set                   of torch (items by number) or of Hugging Face
    an array, a tensor, a list   as it is

What deals out batches, or has no length, is refused: items must be found again by their number.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from natsel.data.alignment import beside, index_of, only_counts
from natsel.data.dataset import DataSet
from natsel.data.examples import Examples
from natsel.data.frames import by_position, is_frame
from natsel.data.labels import as_numpy
from natsel.data.lazy import Lazy
from natsel.data.sources import columns_for, from_huggingface, from_torch, read_examples
from natsel.data.tables import ids_of, labels_of, read_csv, read_parquet
from natsel.ids import as_ids, ids_for, keys_of, refuse_repeats


@dataclass(frozen=True, eq=False)
class Source:
    """Inputs that positions can index, and what came with them; None for what did not."""

    inputs: Any
    labels: Any = None
    answers: Any = None
    ids: Any = None
    classes: tuple[str, ...] = ()
    went: Mapping[str, str] = field(default_factory=dict)
    """How labels and answers that did not come with the inputs were put beside them: by id, or by position."""


def examples_from(
    data: Any, labels: Any = None, answers: Any = None, ids: Any = None, classes: Sequence[str] = (), **said: Any
) -> Source:
    """Inputs with their labels, answers, ids and classes: those given, else those that came with the inputs. Labels
    and answers go by id wherever both sides have ids (`natsel.data.alignment`), and may be files of ids and labels.

    `said` are the columns that are `inputs`, and `regression`. Labels that nobody mentions (…) are no labels too, but a
    table is then refused where a column has a name that labels have.

    >>> examples_from(Examples(np.zeros((2, 1)), ["cat", "dog"])).classes
    ('cat', 'dog')
    >>> examples_from("no such file")
    Traceback (most recent call last):
    ValueError: inputs: there is no file or folder 'no such file'; check the path, or pass a list of texts
    """
    given = {name: _of_file(one, name, data, said) for name, one in (("labels", labels), ("answers", answers))}
    found = _source(data, given["labels"], given["answers"], ids, classes, said)
    went = {}
    for name, column in given.items():
        if column is not None and column is not ... and not isinstance(column, str):
            rows = found.inputs if index_of(data) is None else data
            own = found.ids is None or (ids is None and rows is data)  # an index names the rows, or nothing does
            named = None if own else ids_for(found.ids, len(found.inputs))
            column, went[name] = beside(column, rows, name, named, listed=ids is not None, part=True)
            found = replace(found, **{name: column})
    return replace(found, went=went)


def _of_file(column: Any, name: str, data: Any, said: Mapping[str, Any]) -> Any:
    """The labels by id in a table of ids and labels, where this names one and no column; anything else as it is."""
    if not isinstance(column, str | Path) or (is_frame(data) and column in data.columns):
        return column
    path = Path(column)
    if path.suffix not in (".csv", ".tsv", ".parquet") or not path.is_file():
        return str(column)
    read = read_parquet if path.suffix == ".parquet" else read_csv
    first, *others = columns = read(path).columns
    if len(others) != 1:
        raise ValueError(f"{name}: {path.name} has the columns {', '.join(columns)}; keep two, of ids and of {name}")
    own = columns if path.suffix == ".parquet" else read_csv(path, texts=[first]).columns  # 007 is no number
    values = labels_of(columns[others[0]], others[0], said.get("regression"))
    return dict(zip(keys_of(as_ids(ids_of(own[first], first))), values.tolist(), strict=True))


def _source(data: Any, labels: Any, answers: Any, ids: Any, classes: Sequence[str], said: Mapping[str, Any]) -> Source:
    """What is given, and what came with the inputs, as they are."""
    if isinstance(data, str | Path):
        return _from_path(Path(data), labels, answers, ids, classes, said)
    if is_frame(data):
        return _from_table(data, labels, answers, ids, classes, said.get("inputs"))
    for name, column in (("labels", labels), ("answers", answers), ("ids", ids), ("inputs", said.get("inputs"))):
        if isinstance(column, str) or (name == "inputs" and column is not None):
            shown = repr(column) if isinstance(column, str) else type(column).__name__
            wrong = f"{shown} names a column, but the inputs are no table, nor is it a file"
            raise ValueError(f"{name}: {wrong}; pass the {name} themselves")
    found, labels = _examples(data), None if labels is ... else labels
    if ids is None:
        ids = next((found.masks[name] for name in ("ids", "file") if name in found.masks), row_ids(data))
    if labels is None and answers is None:
        return Source(found.inputs, found.labels, None, ids, tuple(classes) or found.classes)
    return Source(found.inputs, labels, answers, ids, tuple(classes))


def _examples(inputs: Any) -> Examples:
    """Inputs as examples, or a refusal in one sentence."""
    kind = type(inputs).__name__
    if isinstance(inputs, Examples):
        return inputs
    if isinstance(inputs, DataSet):
        raise ValueError("inputs: found a whole data set; pass a part of it, as in natsel.Pool(data.train)")
    if hasattr(inputs, "batch_sampler") and hasattr(inputs, "dataset"):
        raise ValueError(f"inputs: found a {kind}, which deals out batches; pass its data set: loader.dataset")
    if getattr(inputs, "column_names", None) is not None and hasattr(inputs, "features"):
        return from_huggingface(inputs)
    if not hasattr(inputs, "__len__"):
        raise ValueError(f"inputs: found a {kind}, which has no length; pass a list, an array or a data set")
    if isinstance(inputs, dict | set | frozenset):
        raise ValueError(f"inputs: found a {kind}, which has no order; pass a list, and the keys as ids=…")
    for one in inputs[:3] if isinstance(inputs, list | tuple | np.ndarray) or index_of(inputs) is not None else ():
        if isinstance(one, str | Path) and Path(one).suffix and os.path.isfile(one):
            raise ValueError(f"inputs: {str(one)!r} is the name of a file; pass the folder, or what the files hold")
    is_array = (
        isinstance(inputs, list | tuple | np.ndarray | Lazy) or hasattr(inputs, "dtype") or hasattr(inputs, "frame")
    )
    if not is_array and hasattr(inputs, "__getitem__") and not hasattr(inputs, "__array__"):
        return from_torch(inputs)
    if hasattr(inputs, "ndim") and inputs.ndim == 0:
        raise ValueError(f"inputs: found one {kind}, not a list of inputs; pass [input]")
    return Examples(inputs)


def _from_path(path: Path, labels: Any, answers: Any, ids: Any, classes: Sequence[str], said: Any) -> Source:
    if not path.exists():
        raise ValueError(f"inputs: there is no file or folder {str(path)!r}; check the path, or pass a list of texts")
    column: Any = next((given for given in (labels, answers) if isinstance(given, str)), None)
    column, labels = (... if labels is ... and answers is None else column), (None if labels is ... else labels)
    named: dict[str, Any] = {"regression": None, **said} | ({"ids": ids} if isinstance(ids, str) else {})
    found = read_examples(path, labels=column, classes=tuple(classes), **named)
    known = next((found.masks[name] for name in ("ids", "file") if name in found.masks), None)
    return Source(
        found.inputs,
        found.labels if isinstance(labels, str) or (labels is None and answers is None) else labels,
        found.labels if isinstance(answers, str) else answers,
        known if ids is None or isinstance(ids, str) else ids,
        tuple(classes) or found.classes,
    )


def _from_table(table: Any, labels: Any, answers: Any, ids: Any, classes: Sequence[str], inputs: Any) -> Source:
    """A data frame; columns that are labels, answers or ids are no inputs."""
    by_position(table)  # refuses two columns of one name
    names = {"labels": None if labels is ... else labels, "answers": answers, "ids": ids}
    columns = {what: name for what, name in names.items() if isinstance(name, str)}
    for what, name in columns.items():
        if name not in list(table.columns):
            raise ValueError(f"{what}: there is no column {name!r}; there are {', '.join(map(str, table.columns))}")
    left = [name for name in table.columns if name not in columns.values()]
    rest = table[columns_for(inputs, left, answers is None and labels is ..., table.columns)]
    found = {**names, **{what: table[name] for what, name in columns.items()}}
    if "ids" in columns:
        refuse_repeats(as_ids(found["ids"]), f"ids: column {ids!r}", first=0)
    index = row_ids(table) if ids is None else found["ids"]
    return Source(Examples(rest).inputs, found["labels"], found["answers"], index, tuple(classes))


def row_ids(inputs: Any) -> Any:
    """The index of a table or a column of pandas, unless it only counts the rows."""
    index = index_of(inputs)
    if index is None or only_counts(index):
        return None
    if not index.is_unique:
        raise ValueError(
            "ids: the index of the table has an entry twice; pass ids=…, or table.reset_index(drop=True) to count its"
            " rows"
        )
    return as_numpy(list(index)) if index.nlevels == 1 else list(index)
