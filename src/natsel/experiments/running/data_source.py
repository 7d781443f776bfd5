"""The examples that a recipe names: a set of natsel, a file or folder of the user's, or values given in this process.

    file                       read by `natsel.data.read_examples`; rows without a label are left out
      test = 0.25 or 500       that share of the rows, or so many, drawn by the seed of [data]; 0.2 if nothing is said
      test = "other.csv"       another file
    ids                        those that `ids` names in the file, else row numbers, counted from 0; names of files for
                               pictures; those of the pool where one was given

Whole numbers as labels that do not count 0, 1, 2 … are the names of classes (so that −1 and 1 are two classes).
A fingerprint of what files hold tells whether they are those that earlier runs were made with.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from natsel.experiments.recipe.recipe import Recipe

if TYPE_CHECKING:
    from natsel.choose import Method
    from natsel.data import DataSet, Examples
    from natsel.models.kinds import DataFacts

Array = np.ndarray[Any, Any]
SHARE = 0.2
"""The share of a file that is its test part, where a recipe does not say."""
_PIECE = 1 << 20


@dataclass(frozen=True, eq=False)
class Given:
    """Values of this process that stand for what a recipe cannot name: data, a model, methods and targets.

    `model` makes a model, or gives one, from what is known about the data; `methods` has those that are no names, by
    the names they have in the recipe; `targets` is what `ActiveLearner(targets=…)` takes, `parts` what the model is.
    """

    data: "DataSet"
    model: "Callable[[DataFacts], Any]"
    methods: "Mapping[str, Method]" = field(default_factory=dict)
    targets: Any = None
    parts: "Mapping[str, str]" = field(default_factory=dict)


def load_data(recipe: Recipe, given: Given | None = None) -> "DataSet":
    """The data of a recipe, in parts; examples for training may have a mask `ids` that names them."""
    data = recipe.data
    if data.given:
        if given is None:
            raise ValueError(
                "data.given: these runs were made by natsel.compare with data that only its process had; call it again"
            )
        return given.data
    if data.file:
        return _from_file(recipe)
    from natsel.data import load

    try:
        return load(data.set)
    except ValueError as reason:
        raise ValueError(f"data.set: {str(reason).removeprefix('name: ')}") from None


def fingerprints(recipe: Recipe) -> dict[str, str]:
    """A digest of what each file of a recipe's data holds, by its key; empty where there is none.

    >>> recipe = {"name": "a", "data": {"set": "iris"}, "model": {"kind": "forest"}, "methods": ["random"], "budget": 9}
    >>> fingerprints(Recipe.from_table(recipe))
    {}
    """
    found = {}
    for key, name in data_files(recipe).items():
        place = recipe.path(name)
        if not place.is_file() and not place.is_dir():  # reading a device has no end
            raise ValueError(f"{key}: there is no file or folder {place}; check the name")
        digest = hashlib.blake2b(digest_size=16)
        files = sorted(path for path in place.rglob("*") if path.is_file()) if place.is_dir() else [place]
        for file in files:
            if place.is_dir():
                digest.update(file.relative_to(place).as_posix().encode() + b"\0")
            with file.open("rb") as stream:
                while piece := stream.read(_PIECE):
                    digest.update(piece)
        found[key] = digest.hexdigest()
    return found


def data_files(recipe: Recipe) -> dict[str, str]:
    """The files that a recipe's data lie in, by key, as the recipe writes them."""
    data, found = recipe.data, {}
    if data.file:
        found["data.file"] = data.file
    if isinstance(data.test, str):
        found["data.test"] = data.test
    if data.file.endswith(".npy"):
        found |= {f"data.{key}": name for key, name in (("labels", data.labels), ("ids", data.ids)) if name}
    return found


def kind_of(inputs: Any) -> str:
    """What inputs are: "image", "text" or "table".

    >>> kind_of(np.zeros((5, 8, 8))), kind_of(np.array(["a text"], dtype=object)), kind_of(np.zeros((5, 3)))
    ('image', 'text', 'table')
    """
    from natsel.data.lazy import Lazy

    if isinstance(inputs, Lazy):
        return "image"
    shape = np.shape(inputs)
    if len(shape) == 1 and len(inputs) and isinstance(inputs[0], str):
        return "text"
    return "image" if len(shape) > 2 else "table"


def with_class_names(examples: "Examples", regression: bool = False) -> "Examples":
    """Examples whose classes all have names; labels that are real numbers stay as they are.

    >>> from natsel.data import Examples
    >>> found = with_class_names(Examples(np.zeros((3, 1)), np.array([-1, 1, 1])))
    >>> found.labels.tolist(), found.classes
    ([0, 1, 1], ('-1', '1'))
    """
    labels = None if examples.labels is None else np.asarray(examples.labels)
    if labels is None or examples.classes or regression or labels.ndim != 1:
        return examples
    if labels.dtype.kind == "f":
        gap_N = np.isnan(labels)
        if gap_N.all() or not gap_N.any() or (labels[~gap_N] % 1).any():
            return examples
        labels = np.where(gap_N, -1, labels).astype(np.int64)  # whole numbers with gaps: a table reads them as reals
    values = np.unique(labels)
    if values.size and values[0] < -1:
        raise ValueError(f"labels: found {values[0]}, and classes start at 0; for real numbers say regression = true")
    if values.tolist() != [-1, 1]:  # else −1 is a class, and not unknown
        values = values[values >= 0]
    numbers = {value: number for number, value in enumerate(values.tolist())}
    return replace(
        examples,
        labels=np.array([numbers.get(value, -1) for value in labels.tolist()], dtype=np.int64),
        classes=tuple(map(str, numbers)),
    )


def known_rows(examples: "Examples") -> Array:
    """The positions of examples with a label."""
    from natsel.data.labels import unknown

    return np.flatnonzero(~unknown(np.asarray(examples.labels)))


def held_out(positions: Array, count: int, seed: int) -> tuple[Array, Array]:
    """Some positions at random, and the others; both in their order.

    >>> [part.tolist() for part in held_out(np.arange(5), 2, seed=0)]
    [[2, 4], [0, 1, 3]]
    """
    order = np.random.default_rng(seed).permutation(len(positions))
    return positions[np.sort(order[:count])], positions[np.sort(order[count:])]


def rows_to_test(wanted: int | float | None, rows: int, key: str = "data.test") -> int:
    """How many of some rows a share (None: a fifth) or a number asks for; at least one on either side.

    >>> rows_to_test(0.25, 10), rows_to_test(None, 10)
    (2, 2)
    """
    count = round((SHARE if wanted is None else wanted) * rows) if not isinstance(wanted, int) else wanted
    if not 0 < count < rows:
        raise ValueError(
            f"{key}: asked for {count} of {rows} rows with a label; ask for more than none and fewer than all"
        )
    return count


def _from_file(recipe: Recipe) -> "DataSet":
    from natsel.data import DataSet
    from natsel.seeds import derive

    data = recipe.data
    whole = with_class_names(_read(recipe, "data.file", data.file, data.classes), data.regression)
    known = known_rows(whole)
    if not len(known):
        raise ValueError(f"data.labels: no row of {data.name} has a label; a simulation has to know the answers")
    if isinstance(data.test, tuple):
        raise ValueError(
            f"data.test: a list counts rows of each class of a set, found {list(data.test)}; give a number"
        )
    if isinstance(data.test, str):
        test = _read(recipe, "data.test", data.test, whole.classes)
        train, test = known, with_class_names(test, data.regression)[known_rows(test)]
    else:
        rows, train = held_out(known, rows_to_test(data.test, len(known)), derive(data.seed, "held out"))
        test = whole[rows]
    kind: Any = kind_of(whole.inputs)
    named = whole.masks.get("ids", whole.masks.get("file"))  # pictures of a folder go by the names of their files
    masks = {"ids": train if named is None else named[train]}
    train_part, test_part = replace(whole[train], masks=masks), replace(test, masks={})
    return DataSet(data.name, train_part, test_part, None, kind, f"{len(known):,} rows of {data.name}")


def _read(recipe: Recipe, key: str, name: str, classes: Any) -> "Examples":
    """The examples of one file, which must have labels."""
    from natsel.data import image_folder, read_examples

    data, place = recipe.data, recipe.path(name)
    names = classes if isinstance(classes, tuple) else ()
    of_arrays = place.suffix == ".npy"  # where labels and ids lie in files of their own
    labels, ids = (str(recipe.path(one)) if of_arrays and one else one for one in (data.labels, data.ids))
    inputs: Any = data.inputs[0] if len(data.inputs) == 1 else data.inputs or None
    try:
        if place.is_dir() and data.size:
            found = image_folder(place, size=(data.size[0], data.size[-1]))
        else:
            options = {"ids": ids} if ids and key == "data.file" else {}
            found = read_examples(
                place, inputs=inputs, labels=labels or ..., classes=names, regression=data.regression, **options
            )
    except ValueError as reason:
        found_key, _, words = str(reason).partition(": ")
        where = f"data.{found_key}" if found_key in ("labels", "inputs", "classes", "ids") else key
        raise ValueError(f"{where}: {words or reason}") from None
    if found.labels is None:
        raise ValueError(f"data.labels: {Path(name).name} has no labels; say which column or array they are in")
    return found
