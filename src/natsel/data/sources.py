"""Examples from where people have them: files of arrays, tables, folders of images, torch and Hugging Face data sets.

Nothing is unpickled and nothing is fetched. Large things stay where they are: `.npy` files are memory-mapped, images
and items of a torch data set are read when they are asked for.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from natsel.containers import open_arrays, read_npy, readable
from natsel.data.examples import Examples
from natsel.data.images import image_folder
from natsel.data.labels import Array, as_numpy, read_numbers
from natsel.data.lazy import Lazy
from natsel.data.tables import ids_of, inputs_of, labels_of, read_csv, read_parquet, require_names

_INPUTS = (
    "inputs",
    "x",
    "X",
    "x_train",
    "data",
    "features",
    "images",
    "embeddings",
    "text",
    "sentence",
    "image",
    "img",
)
_LABELS = ("labels", "y", "Y", "y_train", "label", "target", "targets", "class")


def read_examples(
    path: str | Path,
    *,
    inputs: str | Sequence[str] | None = None,
    labels: Any = ...,
    ids: str | Path | None = None,
    classes: Sequence[str] = (),
    regression: bool | None = False,
) -> Examples:
    r"""Examples from a file or a folder, by its ending.

    `.npz` and `.safetensors`: `inputs`, `labels` and `ids` name arrays; the first two are found by their usual names.
    `.npy`: the inputs, memory-mapped; `labels` and `ids` are paths of other `.npy` files.
    `.csv`, `.tsv`, `.parquet` (extra `parquet`): `inputs` names one column or several (default: all that are left),
    `labels` the label's, `ids` the one that names each row. No column becomes labels that was not named: one called y,
    label, target or class is refused where neither `labels` nor `inputs` say what it is. Columns of numbers become an
    array, one column of texts an array of texts, and all else, gaps included, a data frame (extra `tables`).
    A folder: images, sub-folders are classes (extra `images`; `image_folder` can resize).
    Of all, `labels` may be a .csv, .tsv or .parquet file of ids and labels, which go by the ids or names of files.
    Whole numbers are classes unless `regression` says otherwise (None: not known yet, gaps among them are NaN); texts
    as labels are class names, and a gap is a label that is not known. Ids become the mask "ids"; of images, the mask
    "file" has the name of each.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = Path(folder, "a.csv").write_text("long,wide,kind\n1,2.5,cat\n3,4,dog\n")
    ...     examples = read_examples(f"{folder}/a.csv", labels="kind")
    >>> examples.inputs.tolist(), examples.labels.tolist(), examples.classes
    ([[1.0, 2.5], [3.0, 4.0]], [0, 1], ('cat', 'dog'))
    """
    place = Path(path)
    ending = place.suffix.lower()
    names: Any = None
    if inputs is not None and (place.is_dir() or ending == ".npy"):
        raise ValueError(f"inputs: {place.name} has no columns, found {inputs!r}; leave inputs out")
    if (
        isinstance(labels, str | Path)
        and Path(labels).suffix in (".csv", ".tsv", ".parquet")
        and Path(labels).is_file()
    ):
        from natsel.data.any_source import examples_from

        told = Path(labels)
        apart = examples_from(place, told, ids=ids, classes=classes, inputs=inputs, regression=regression)
        return Examples(apart.inputs, apart.labels, apart.classes, {} if apart.ids is None else {"ids": apart.ids})
    if place.is_dir():
        if ids is not None:
            raise ValueError(
                f'ids: images are named by their files, found {ids!r}; leave ids out and use the mask "file"'
            )
        if labels not in (None, ...):
            raise ValueError(f"labels: a folder has no columns, and there is no file {labels!r}; check the name")
        return image_folder(place)
    named = None if ids is None else str(ids)
    if ending in (".npz", ".safetensors"):
        found, answers, names = _arrays(place, inputs, labels, named)
    elif ending == ".npy":
        found, answers = _mapped(place), None if labels in (None, ...) else read_npy(labels)
        names = None if ids is None else read_npy(ids)
    elif ending in (".csv", ".tsv", ".parquet"):
        found, answers, names = _columns(place, inputs, labels, named, regression, classes)
    else:
        raise ValueError(
            f"path: expected a folder of images, .npz, .safetensors, .npy, .csv, .tsv or .parquet, found {place.name};"
            " save a table as CSV in UTF-8"
        )
    if answers is not None and regression:
        answers = read_numbers(answers)
    return Examples(found, answers, tuple(classes), {} if names is None else {"ids": names})


def from_torch(dataset: Any, labels: Any = None, classes: Sequence[str] = ()) -> Examples:
    """Examples of a torch `Dataset` with a length whose items are (input, label) pairs, or inputs alone.

    Inputs stay in the data set and are read when asked for. Labels are those given, else its `targets`, else read from
    every item once. Names of classes come from its `classes` when none are given.

    >>> pairs = from_torch([(np.array([1.0, 2.0]), 0), (np.array([3.0, 4.0]), 1)])
    >>> pairs.inputs[[1]].tolist(), pairs.labels.tolist()
    ([[3.0, 4.0]], [0, 1])
    """
    if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__") or isinstance(dataset, dict):
        raise ValueError(
            f"dataset: expected one with a length and items by number, found {type(dataset).__name__}; "
            "a stream must be stored first"
        )
    first = dataset[0] if len(dataset) else None
    if isinstance(first, dict):
        raise ValueError(f"dataset: items are dicts of {', '.join(first)}; wrap it so that items are (input, label)")
    paired = isinstance(first, tuple | list)
    if labels is None:
        labels = getattr(dataset, "targets", None)
    if labels is None and paired:
        labels = [_plain(dataset[position][1]) for position in range(len(dataset))]
    names = tuple(classes) or tuple(getattr(dataset, "classes", ()))

    def read(position: int) -> Array:
        item = dataset[position]
        return as_numpy(item[0] if paired else item)

    return Examples(Lazy(read, len(dataset)), labels, names)


def from_huggingface(dataset: Any, inputs: str | None = None, labels: str | None = None) -> Examples:
    """Examples of one split of a Hugging Face data set: texts, numbers, or images read when asked for.

    Columns go by their usual names when left out; class names come from the label's feature.
    """
    columns = getattr(dataset, "column_names", None)
    if isinstance(columns, dict):
        raise ValueError(
            f"dataset: found the splits {', '.join(columns)}; pass one of them, dataset[{next(iter(columns))!r}]"
        )
    if columns is None:
        raise ValueError(f"dataset: expected a Hugging Face data set, found {type(dataset).__name__}")
    inputs = _pick(inputs, columns, _INPUTS, "inputs")
    labels = _pick(labels, columns, _LABELS, "labels", optional=True)
    feature = dict(getattr(dataset, "features", None) or {}).get(labels)
    found: Any
    if len(dataset) and isinstance(dataset[0][inputs], str):
        found = np.array(list(dataset[inputs]), dtype=object)
    elif len(dataset) and hasattr(dataset[0][inputs], "convert"):  # a picture
        found = Lazy(lambda position: np.asarray(dataset[position][inputs]), len(dataset))
    else:
        found = np.asarray(list(dataset[inputs]))
    answers = None if labels is None else list(dataset[labels])
    return Examples(found, answers, tuple(getattr(feature, "names", None) or ()))


def columns_for(inputs: Any, left: Sequence[Any], unsaid: bool, there: Iterable[Any]) -> list[Any]:
    """The columns of a table that are inputs: those said, else those `left`, among which labels may lie `unsaid`."""
    given: list[Any] = [] if inputs is None else [inputs] if np.ndim(inputs) == 0 else list(inputs)
    require_names(there, given)
    if twice := [name for name in given if name not in left]:
        raise ValueError(f"inputs: {twice[0]!r} holds the labels or the ids; leave it out of the inputs")
    usual = next((name for name in left if str(name).strip().lower() in _LABELS), None) if unsaid else None
    if usual is not None and not given:
        raise ValueError(
            f'labels: the column {usual!r} is called as labels are; name it (labels="{usual}"), or say labels=None and'
            " which columns are inputs (inputs=[…]); in the shell --labels and --inputs"
        )
    return given or list(left)


def _columns(
    path: Path, inputs: Any, labels: Any, ids: str | None, regression: bool | None, classes: Sequence[str]
) -> tuple[Any, Any, Any]:
    """Inputs, labels and ids from the columns of a table."""
    table = read_parquet(path) if path.suffix.lower() == ".parquet" else read_csv(path, texts=[ids])
    columns = table.columns
    answer = _pick(labels, [name for name in columns if name != ids], (), "labels", optional=True)
    require_names(columns, [] if ids is None else [ids])
    left = [name for name in columns if name not in (answer, ids)]
    return (
        inputs_of(table, columns_for(inputs, left, labels is ..., columns)),
        None if answer is None else labels_of(columns[answer], answer, regression, classes),
        None if ids is None else ids_of(columns[ids], ids),
    )


def _arrays(path: Path, inputs: str | Sequence[str] | None, labels: Any, ids: str | None) -> tuple[Any, Any, Any]:
    if inputs is not None and not isinstance(inputs, str):
        raise ValueError(f"inputs: expected the name of one array, found {inputs!r}")
    arrays = open_arrays(path)
    key = _pick(inputs, list(arrays.shapes), _INPUTS, "inputs")
    answer = _pick(labels, list(arrays.shapes), _LABELS, "labels", optional=True)
    name = None if ids is None else _pick(ids, list(arrays.shapes), (), "ids")
    found, answers, names = (None if one is None else as_numpy(arrays.read(one)) for one in (key, answer, name))
    return found, answers, names


def _pick(name: Any, there: Sequence[str], usual: Sequence[str], what: str, optional: bool = False) -> str | None:
    """The name given, else the first usual one that is there."""
    name = None if name is ... else name
    if name is not None and name not in there:
        raise ValueError(f"{what}: there is no {name!r}; found {', '.join(there) or 'nothing'}")
    chosen = name or next((one for one in usual if one in there), None)
    if chosen is None and not optional:
        raise ValueError(f"{what}: none of {', '.join(there) or 'nothing'} has a usual name; say which one it is")
    return chosen


def _mapped(path: Path) -> Array:
    """Mapped for copy on write: nothing reaches the file, and torch has no read-only memory to warn about."""
    with readable(path):
        mapped: Array = np.load(path, mmap_mode="c", allow_pickle=False)
    return mapped


def _plain(label: Any) -> Any:
    return label.item() if hasattr(label, "item") else label
