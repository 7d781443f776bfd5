"""A recipe for a file of the user's own, with comments: what the file holds decides the model, the methods and sizes.

    tables     a forest; boosted trees where numbers are missing
    texts      word counts under a dropout network
    pictures   a frozen network that has seen many pictures, under a small one that learns

Real numbers, and whole numbers of many values or below −1, are a regression. It is a start: all of it can be changed.
"""

import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from natsel.experiments.results.experiment import UNEQUAL
from natsel.texts import in_toml, visible

_MANY = 20
"""Whole numbers of more different values than this are numbers, not classes."""
_WORDS = 3
"""Texts of more words than this on average are sentences, not names."""
_KEYS = {"name", "about", "k", "budget", "seeds", "methods", "initial", "candidates", "data", "model", "training"}
_KEYS |= {"metric"}


@dataclass(frozen=True)
class _Found:
    """What a file holds."""

    kind: str
    rows: int
    counts: Any
    """Rows of each class; none where labels are real numbers."""
    labels: str = ""
    inputs: tuple[str, ...] = ()
    ids: str = ""
    left_out: tuple[str, ...] = ()
    gaps: bool = False

    @property
    def classes(self) -> int:
        return len(self.counts)


def new_recipe(
    data: str | Path, file: str | Path, labels: str | None = None, inputs: str | Sequence[str] | None = None
) -> str:
    """The text of a recipe for data; `file` is where it will lie, `labels` and `inputs` are columns of a table."""
    from natsel.choose.recommended import CONTENDERS

    place = Path(data)
    if not place.exists():
        raise ValueError(f"data: there is no file or folder {place}; check the name")
    found = _look_at(place, labels, [inputs] if isinstance(inputs, str) else inputs)
    name = Path(file).stem
    shown = Path(os.path.relpath(place.resolve(), Path(file).resolve().parent)).as_posix()
    pool = found.rows - max(1, round(0.2 * found.rows))
    if pool < 20:
        raise ValueError(f"data: {place} has {found.rows} rows with a label; some 30 are the least to compare on")
    start = min(found.classes, pool // 4) if found.classes else min(10, pool // 4)
    k = 10 if pool >= 200 else max(1, pool // 20)
    budget = start + k * min(15, max(2, (pool // 2 - start) // k))
    per_class = bool(found.classes) and found.counts.min() >= 3 and found.classes <= pool // 4
    parts = [
        visible(f"# What natsel saw in {place.name}: {_in_words(found)}"),
        visible(f"# Every key is explained in docs/recipes.md. Run it with: natsel run {file}"),
        f"name = {in_toml(name)}",
        f"about = {in_toml(f'{place.name}: does choosing labels beat drawing them at random?')}",
        "",
        f"k = {k}{' ' * (12 - len(str(k)))}# labels per round",
        f"budget = {budget}{' ' * (7 - len(str(budget)))}# labels of a run in all, with those it starts with",
        "seeds = 6           # six or more give a 95 % interval",
        "# natsel methods lists all methods; random is what the others are compared with.",
        f"methods = [{', '.join(map(in_toml, CONTENDERS[not found.classes]))}]",
        f"initial = {{ {'per_class = 1' if per_class else f'count = {start}'} }}   # labels that a run starts with",
    ]
    if found.classes and (largest := found.counts.max() / found.rows) >= UNEQUAL:
        words = f"{100 * largest:.0f} % are of one class, which accuracy would be without a label"
        parts.append(f'metric = "balanced accuracy"   # {words}')
    if pool > 4000:
        parts.append('candidates = 2000   # random points of the pool that a round looks at, or "all"')
    if found.classes:
        parts.append("# targets = [0.8, 0.9]   # accuracies to count labels to; the highest reached if left out")
    else:
        parts.append("# targets = [1.5, 1.0]   # errors (rmse) to count labels to; what random reaches if left out")
    parts += ["", "[data]", f"file = {in_toml(shown)}"]
    parts += [f"labels = {in_toml(found.labels)}"] if found.labels else []
    parts += [f"ids = {in_toml(found.ids)}"] if found.ids else []
    if found.left_out:
        parts.append(visible(f"# Columns of texts are left out: {', '.join(found.left_out)}. To use them, make a"))
        parts.append('# pipeline in a module beside this file and name it: kind = "python:my_module.make_model".')
    parts += [f"inputs = [{', '.join(map(in_toml, found.inputs))}]"] if found.inputs else []
    parts += [] if found.classes else ["regression = true"]
    parts += ["size = [160, 160]    # height and width that pictures are brought to"] if found.kind == "folder" else []
    parts += ['test = 0.2          # the share held out to be judged by; or a file, test = "test.csv"', ""]
    text = "\n".join([*parts, *_model(found)]) + "\n"
    read = tomllib.loads(text)  # whatever stands in a table, it must not become a key or a table of the recipe
    meant = {"name": name, **tomllib.loads("\n".join(_model(found))), "data": {**read["data"], "file": shown}}
    if set(read) - _KEYS or read != read | meant:
        raise ValueError(f"data: {visible(place.name)} has names that cannot be written into a recipe; rename them")
    return text


def _look_at(place: Path, labels: str | None, inputs: Sequence[str] | None) -> _Found:
    from natsel.experiments.running.data_source import kind_of, known_rows, with_class_names

    if place.suffix.lower() in (".csv", ".tsv", ".parquet"):
        return _look_at_table(place, labels, inputs)
    from natsel.data import read_examples

    examples = read_examples(place, labels=labels, inputs=inputs[0] if inputs else None)
    if examples.labels is None:
        raise ValueError(f"labels: found none in {place}; say where they are with --labels")
    examples = with_class_names(examples, bool((np.asarray(examples.labels) < -1).any()))
    answers = np.asarray(examples.labels)[known_rows(examples)]
    kind = "folder" if place.is_dir() else kind_of(examples.inputs)
    return _Found(kind, len(answers), _class_counts(answers), labels or "", tuple(inputs or ()))


def _look_at_table(place: Path, labels: str | None, inputs: Sequence[str] | None) -> _Found:
    from natsel.data.tables import holds_categories, labels_of, read_csv, read_parquet, require_names

    columns = (read_parquet(place) if place.suffix.lower() == ".parquet" else read_csv(place)).columns
    if len(columns) < 2:
        raise ValueError(f"data: {place.name} has {len(columns)} columns; inputs and labels are needed")
    if labels is None or labels not in columns:
        wrong = f"{place.name} has no column {labels!r}" if labels else f"say which column of {place.name} holds them"
        raise ValueError(f"labels: {wrong}; there are {', '.join(columns)}")
    require_names(columns, inputs or ())
    column = columns[labels]
    answers = column.values[~column.gaps_N]
    if column.kind in ("text", "category"):
        values = [one for one in labels_of(column, labels, None).tolist() if one is not None]
        answers = np.unique(np.array(values, dtype=str), return_inverse=True)[1] if values else np.zeros(0, dtype=int)
        if len(answers) and answers.max() + 1 > max(_MANY, len(answers) // 3):
            raise ValueError(
                f"labels: column {labels!r} has {answers.max() + 1} different texts in {len(answers)} rows, which are"
                " hardly classes; say which column has the labels with --labels"
            )
    counts = _class_counts(np.asarray(answers))
    rest = [name for name in columns if name != labels]
    ids = next((name for name in rest if _names_rows(name, columns[name])), "")
    rest = [name for name in rest if name not in ("", ids) and (not inputs or name in inputs)]
    sentences = [name for name in rest if _is_sentences(columns[name])]
    found: Any = {"rows": len(answers), "counts": counts, "labels": labels, "ids": ids}
    if sentences:
        return _Found("text", inputs=(sentences[0],), left_out=(), **found)
    texts = [name for name in rest if columns[name].kind == "text"]
    frames = find_spec("pandas") is not None  # without it, texts beside numbers cannot be read
    words = [name for name in texts if frames and holds_categories(columns[name])]
    dates = [name for name in rest if columns[name].kind in ("category", "date", "duration")]
    kept = [name for name in rest if name in words or name not in (*texts, *dates)]
    if not kept:
        raise ValueError(f"data: {place.name} has no column of numbers or sentences beside {labels!r}; name the labels")
    gaps = bool(words) or any(columns[name].gaps_N.any() for name in kept)
    others = tuple(name for name in rest if name not in kept)
    listed = tuple(kept) if others or inputs or "" in columns else ()
    return _Found("table", inputs=listed, left_out=others, gaps=gaps, **found)


def _class_counts(answers: Any) -> Any:
    """How many rows each class has; none where labels are real numbers."""
    if not len(answers):
        raise ValueError("labels: no row has one; a comparison has to know the answers")
    values, counts = np.unique(answers, return_counts=True)
    if answers.dtype.kind in "if" and ((answers % 1).any() or answers.min() < -1):
        return counts[:0]
    return counts[:0] if answers.dtype.kind in "iuf" and _many(values, len(answers)) else counts


def _many(values: Any, rows: int) -> bool:
    """Whether whole numbers take so many values that they count something: classes are numbered without gaps."""
    counting = bool(values.min() in (0, 1) and values.max() - values.min() + 1 == len(values))
    return len(values) > _MANY and not (counting and len(values) <= rows // 10)


def _names_rows(name: str, column: Any) -> bool:
    """Whether a column is there to name rows: by its own name, and no entry twice."""
    called = name.lower().strip()
    usual = called in ("", "id", "ids", "index", "uuid", "unnamed: 0") or called.endswith("_id")
    entries = column.objects().tolist()
    return usual and None not in entries and column.kind != "float64" and len(set(entries)) == len(entries)


def _is_sentences(column: Any) -> bool:
    texts = [one for one in column.objects()[:200].tolist() if isinstance(one, str)] if column.kind == "text" else []
    return bool(texts) and sum(len(one.split()) for one in texts) / len(texts) > _WORDS


def _model(found: _Found) -> list[str]:
    if found.kind == "text":
        return [
            "[model]               # word counts under a dropout network",
            'kind = "text"',
            "draws = 20",
            '# kind = "frozen"     # sentences read by MiniLM; needs natsel[pretrained]',
            "",
            "[training]",
            "max_epochs = 40",
            "patience = 5",
        ]
    if found.kind in ("folder", "image"):
        return [
            "[model]               # a network that has seen many pictures, and a small one on top that learns",
            'kind = "frozen"       # needs natsel[pretrained]',
            'backbone = "efficientnet-lite0"',
            "draws = 50",
            "",
            "[training]",
            "batch = 64",
            "max_epochs = 60",
            "patience = 10",
        ]
    boosted = f"sklearn.ensemble.HistGradientBoosting{'Classifier' if found.classes else 'Regressor'}"
    settings: Mapping[str, Any] = {"max_iter": 50, "min_samples_leaf": 2}
    if found.gaps:
        return [
            "[model]               # boosted trees, which take gaps and categories; 10 of them are the draws",
            f'kind = "{boosted}"',
            "members = 10",
            "",
            "[model.parameters]",
            *(f"{name} = {value}" for name, value in settings.items()),
        ]
    return [
        "[model]               # a forest: each tree is a draw. It learns from few labels, and quickly.",
        'kind = "forest"',
        "trees = 100",
        f'# kind = "{boosted}"   # boosted trees: with members = 10 and',
        f"# parameters = {{ {', '.join(f'{name} = {value}' for name, value in settings.items())} }}",
    ]


def _in_words(found: _Found) -> str:
    kind = {"table": "a table", "text": "texts", "folder": "pictures", "image": "pictures"}[found.kind]
    of = f"{found.classes} classes" if found.classes else "real numbers to predict"
    where = f" in the column {found.labels!r}" if found.labels else ""
    return f"{kind}, {found.rows:,} rows with a label, {of}{where}."
