"""What commands read: files of predictions, with the options that say what they hold, of ids, of labels and of costs.

Labels are one per point in the order of the points, or go by id. They are numbers, or names of classes where the order
of the names was said.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from natsel.cli.output import warn
from natsel.texts import cell_text

if TYPE_CHECKING:
    from natsel import Belief

FILE = (
    "Predictions \\[points, draws, classes], or \\[points, draws] of a regressor, in .npz, .safetensors or"
    " .npy; or .csv / .parquet with columns id, draw and one per class; or a saved belief. With --means, a .npz of"
    " mean0_N_K, mean1_N_K and treatment_N has both outcomes of a treatment."
)
LogProbs = Annotated[bool, typer.Option("--log-probs", help="The numbers are log probabilities.")]
Probs = Annotated[bool, typer.Option("--probs", help="The numbers are probabilities.")]
Logits = Annotated[bool, typer.Option("--logits", help="The numbers are logits.")]
Means = Annotated[bool, typer.Option("--means", help="The numbers are a regressor's predictions \\[points, draws].")]
Noise = Annotated[
    float | None, typer.Option(help="With --means: the variance of labels around the predictions; 1 if not given.")
]
Key = Annotated[str | None, typer.Option(help="The array to read, where the file holds several.")]
SingleDraw = Annotated[bool, typer.Option("--single-draw", help="Read \\[points, classes] as one draw.")]
Labels = Annotated[
    Path | None,
    typer.Option(
        help="Known labels: .npy, or .npz with labels and perhaps ids, or text: one per line in the order of the"
        " points, or lines of id,label."
    ),
]
Classes = Annotated[
    str | None, typer.Option(help="Names of the classes in their order, with commas, where labels are names.")
]
Inputs = Annotated[str | None, typer.Option(metavar="COLUMN[,COLUMN]", help="The columns of a table to use.")]
_NAMES = "number the classes, or give their names in --classes where the command takes them"
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


def columns(labels: str | None, inputs: str | None) -> dict[str, Any]:
    """`--labels COLUMN|none` and `--inputs COLUMN[,COLUMN]`, as `natsel.data.read_examples` takes them."""
    found: dict[str, Any] = {} if labels is None else {"labels": None if labels == "none" else labels}
    return found if inputs is None else found | {"inputs": inputs.split(",") if "," in inputs else inputs}


def is_set(data: str) -> bool:
    """Whether this is the name of a data set; a file or folder that is called the same is told how to be named."""
    from natsel.data import names

    if data in names() and Path(data).exists():
        warn([f"data: {data} is taken as the data set of that name; write ./{data} for what lies here"])
    return data in names()


def refuse_suffix(path: Path | None, name: str) -> None:
    """Refuse a page that would not be opened as one."""
    if path is not None and path.suffix != ".html":
        raise ValueError(f"{name}: expected a name that ends in .html, found {path.name}; rename it")


def kind_of_numbers(log_probs: bool, probs: bool, logits: bool, means: bool) -> Any:
    """What the flags say that the numbers are."""
    flags = {"log-probs": log_probs, "probs": probs, "logits": logits, "means": means}
    given = [kind for kind, on in flags.items() if on]
    if len(given) > 1:
        raise ValueError(f"the numbers are either --{' or --'.join(given)}; pass one of these flags")
    return given[0] if given else None


def read_belief(path: Path, *, kind: Any, key: str | None, single_draw: bool, noise: float | None) -> "Belief":
    """The belief in a file: one that natsel saved, or predictions of the kind that the flags say."""
    from natsel.beliefs.files import kind_of, load, read_predictions

    stored = kind_of(path)
    if stored is None and kind is None:
        raise ValueError("say what the numbers are: --log-probs, --probs, --logits or --means (of a regressor)")
    if stored not in (None, "CategoricalSamples") and not (kind or key or single_draw or noise is not None):
        return load(path)
    belief: Belief = read_predictions(path, kind, key=key, single_draw=single_draw, noise=noise)
    return belief


def read_ids(path: Path, belief: "Belief") -> list[int | str]:
    """The ids in a file, one per line: integers or names, as in the belief; empty lines and comments are skipped."""
    ids = []
    for number, text in _lines(path):
        try:
            ids.append(_id(text, belief))
        except ValueError:
            raise ValueError(
                f"exclude: {path} line {number} should hold one integer id, found {text!r}; correct the line"
            ) from None
    return ids


def read_labels(path: Path, belief: "Belief", name: str, classes: str | None = None) -> list[float]:
    """The labels in a file, in the order of the points; `classes` are names in the order of their numbers."""
    from natsel.beliefs import ClassProbabilities, seen_as

    of_classes = belief.label_type is int or seen_as(belief, ClassProbabilities) is not None
    if classes is not None and not of_classes:
        raise ValueError(f"classes: {name} are numbers, as the belief is about numbers; leave --classes out")
    number = _ClassNumber(classes) if classes is not None else int if of_classes else float
    if path.suffix not in (".npy", ".npz"):
        return read_values(path, belief, name, "label", number)
    labels, ids = _arrays(path, name)
    try:
        values = [number(label) for label in labels]
    except (ValueError, TypeError) as reason:
        said = str(reason) if str(reason).startswith("classes: ") else f"found {labels[0]!r}; {_NAMES}"
        raise ValueError(f"{name}: {path} should hold one label per point; {said}") from None
    if of_classes and any(value != label for value, label in zip(values, labels, strict=True) if type(label) is float):
        raise ValueError(f"{name}: {path} holds numbers with fractions, and the belief is about classes; number them")
    return values if ids is None else _by_id(path, belief, name, "label", zip(ids, values, strict=True))


def read_values(path: Path, belief: "Belief", name: str, word: str, read: Any) -> list[float]:
    """One number for each point from a file: one per line in the order of the points, or lines of id,number in any
    order. `word` is what such a number is, and may head its column.
    """
    values: list[float] = []
    pairs: list[tuple[int | str, float]] = []
    known = set(map(str, belief.ids.tolist()))
    for number, text in _lines(path):
        if text.replace(" ", "").lower() in (f"id,{word}", word):
            continue
        try:
            *before, value = text.rsplit(",", 1)
            if before:
                pairs.append((_id(before[0], belief), read(value)))
            else:
                values.append(read(value))
        except (ValueError, TypeError) as reason:
            if number == 1 and before and before[0] not in known and value.strip().isidentifier():
                continue  # the names of two columns
            kind = "a number" if read is float else "a class number"
            remedy = _NAMES if read is int and value.strip()[:1].isalpha() else "correct the line"
            if isinstance(read, _ClassNumber):
                kind, remedy = "a class", str(reason)
            raise ValueError(
                f"{name}: {path} line {number} should hold {kind}, or id,{word}; found {text!r}; {remedy}"
            ) from None
    if not pairs:
        return values
    if values:
        raise ValueError(
            f"{name}: {path} has lines with an id and lines without; give every point one {word} as id,{word}"
        )
    return _by_id(path, belief, name, word, pairs)


class _ClassNumber:
    """The number of a class that is given by its name, or by its number."""

    def __init__(self, classes: str) -> None:
        names = [name.strip() for name in classes.split(",")]
        if len(set(names)) < len(names) or not all(names):
            raise ValueError(f"classes: expected different names with commas, found {classes!r}; name each class once")
        self.numbers = {name: number for number, name in enumerate(names)}

    def __call__(self, label: Any) -> int:
        text = str(label).strip()
        if text in self.numbers:
            return self.numbers[text]
        try:
            number = int(text)
        except ValueError:
            number = len(self.numbers)
        # Where names are numbers themselves, such as years, another number is a name that was forgotten.
        if number >= len(self.numbers) or (number >= 0 and any(name.isdecimal() for name in self.numbers)):
            raise ValueError(f"classes: none is called {text!r}; name all of them in --classes")
        return number


def _arrays(path: Path, name: str) -> tuple[list[Any], list[int | str] | None]:
    """The labels in a .npy or .npz file, and their ids where it has some."""
    from natsel.containers import open_arrays, read_npy
    from natsel.ids import as_ids, keys_of

    if path.suffix == ".npy":
        found, ids = read_npy(path), None
    else:
        arrays = open_arrays(path)
        others = [key for key in arrays.shapes if key != "ids"]
        chosen = "labels" if "labels" in others else others[0] if len(others) == 1 else None
        if chosen is None:
            raise ValueError(f"{name}: {path} holds {arrays}; call the array of labels labels")
        found = arrays.read(chosen)
        ids = keys_of(as_ids(arrays.read("ids"))) if "ids" in arrays.shapes else None
    if found.ndim != 1 or (ids is not None and len(ids) != len(found)):
        raise ValueError(f"{name}: {path} should hold one label per point, found shape {found.shape}; reshape it")
    return found.tolist(), ids


def _by_id(path: Path, belief: "Belief", name: str, word: str, pairs: Iterable[tuple[int | str, float]]) -> list[float]:
    """The values of the points of a belief, in their order."""
    from natsel.data.alignment import aligned

    named = dict(pairs := list(pairs))
    twice = [id for id, value in pairs if named[id] != value]
    if twice:
        raise ValueError(f"{name}: {path} has two {word}s for id {twice[0]}; give every point one {word} as id,{word}")
    found: list[float] = aligned(named, belief.ids, f"{name} in {path.name}", more=True)[0]
    return found


def _lines(path: Path) -> Sequence[tuple[int, str]]:
    """The lines of a text that say something, with their numbers, each up to a # that begins it or follows a space:
    names may contain one.
    """
    from natsel.containers import bytes_of_lines, readable

    with readable(path):
        lines = bytes_of_lines(path).decode("utf-8-sig").splitlines()
    texts = ((number, re.split(r"(?:^|\s)#", line, maxsplit=1)[0].strip()) for number, line in enumerate(lines, 1))
    return [(number, text) for number, text in texts if text]


def _id(text: str, belief: "Belief") -> int | str:
    """An id as a belief has it: an integer, or a name."""
    return int(text) if belief.ids.dtype.kind == "i" else cell_text(text)
