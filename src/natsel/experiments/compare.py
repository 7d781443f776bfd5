"""`natsel.compare`: does choosing help on this pool with this model? The methods against random, over several seeds.

It is what `natsel run` does, for values of this process: it makes a recipe for each model, runs it (`run_plan`: one
journal per method and seed, which a second call goes on with), and reads the same results and the same report.

    pool with answers ── test part set aside ──▸ methods × seeds, k labels per round up to a budget ──▸ labels saved

Models are values or functions of this process, so this process does the runs. `processes=2` is for models that another
process can make: import paths ("my_module.make_model"), functions of a module, or a table as in [model] of a recipe.
The pool is then written to a file in the folder.
"""

import copy
import math
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from natsel.containers import write_text
from natsel.evaluation.curves import bands
from natsel.experiments.recipe.contenders import Contender
from natsel.experiments.recipe.plan import Plan
from natsel.experiments.recipe.recipe import GIVEN, Recipe
from natsel.experiments.results.experiment import BASELINE, Experiment
from natsel.experiments.results.publish import Published, publish
from natsel.experiments.results.summary import as_text, runs_of, table
from natsel.experiments.running.data_source import Given, held_out, kind_of, rows_to_test
from natsel.experiments.running.run import run_plan
from natsel.models.fingerprints import fingerprint, parts_of
from natsel.models.kinds import DataFacts, is_import_path, made_by
from natsel.progress import ProgressBar
from natsel.seeds import derive

if TYPE_CHECKING:
    from natsel.choose import Method
    from natsel.data import DataSet, Examples, Pool


@dataclass(frozen=True, eq=False)
class Comparison:
    """What a comparison came to: `print` shows labels needed and saved; see also `rows`, `curves`, `report`, `figures`.

    `experiments` has the runs of each model by its name ("" for a single one), `folder` the journals; a temporary
    folder lasts as long as this value. `failed` says why runs failed, by (model, method, seed).
    """

    name: str
    folder: Path
    experiments: Mapping[str, Experiment]
    published: Published
    failed: Mapping[tuple[str, str, int], str] = field(default_factory=dict)
    _kept: Any = None

    def __str__(self) -> str:
        parts = [f"{name}\n{as_text(one)}" if name else as_text(one) for name, one in self.experiments.items()]
        failures = [
            f"{f'{model}: ' if model else ''}{method} with seed {seed} failed: {error}"
            for (model, method, seed), error in self.failed.items()
        ]
        return "\n\n".join([*parts, *(["\n".join(failures)] if failures else [])])

    def __repr__(self) -> str:
        runs = sum(len(one.curves) for one in self.experiments.values())
        return f"Comparison({self.name!r}: {runs} runs in {self.folder})"

    @property
    def sentence(self) -> str:
        """The result in one sentence; for several models one for each."""
        said = {name: one.sentence for name, one in self.published.variants.items()} or {"": self.published.sentence}
        return " ".join(f"{name}: {sentence}" if name else sentence for name, sentence in said.items())

    def rows(self) -> list[dict[str, Any]]:
        """Labels needed and saved: a dict for each model, method and target.

        `needed`, `lower` and `upper` are the median and the quartiles over seeds (None: not reached, and `more_than` is
        what the median exceeds); `saved` is the share of labels saved against random, between `saved_low` and
        `saved_high` where runs ended before the target; `interval_low` and `interval_high` are its 95 % interval.
        """
        return [
            {"model": model, **one.as_dict()}
            for model, experiment in self.experiments.items()
            for one in table(experiment)
        ]

    def curves(self) -> list[dict[str, Any]]:
        """Every measurement: a dict for each model, method, seed and number of labels, with all metrics."""
        return [
            {"model": model, "method": run.method, "seed": run.seed, "labels": size}
            | {name: column[place] for name, column in run.metrics.items()}
            for model, experiment in self.experiments.items()
            for run in experiment.curves
            for place, size in enumerate(run.sizes)
        ]

    def medians(self) -> list[dict[str, Any]]:
        """The learning curves: a dict for each model, method and number of labels, with quartiles over seeds."""
        found = []
        for model, experiment in self.experiments.items():
            for method in experiment.methods:
                band = bands(list(runs_of(experiment, method).values()))
                columns = (band.sizes, band.lower, band.median, band.upper, band.runs)
                for size, lower, median, upper, runs in zip(*(column.tolist() for column in columns), strict=True):
                    values = {"lower": lower, "median": median, "upper": upper, "runs": runs}
                    found.append({"model": model, "method": method, "labels": int(size), **values})
        return found

    def frame(self, of: str = "rows") -> Any:
        """`rows`, `curves` or `medians` as a pandas DataFrame."""
        if of not in ("rows", "curves", "medians"):
            raise ValueError(f"of: found {of!r}; choose rows, curves or medians")
        try:
            import pandas
        except ImportError:
            raise ImportError(f"frame: pandas is not installed; install it, or use {of}(), a list of dicts") from None
        return pandas.DataFrame(getattr(self, of)())

    def report(self, path: str | Path | None = None) -> Path:
        """The page about the runs, as `natsel report` writes it; written to `path` as well if one is given."""
        if path is None:
            return self.published.page
        place = Path(path)
        place = place / "report.html" if place.is_dir() else place
        if self.published.variants:  # its page leads to those of the models, beside it
            for name in self.experiments:
                (place.parent / name).mkdir(parents=True, exist_ok=True)
                content = (self.folder / name / "report.html").read_text(encoding="utf-8")
                write_text(place.parent / name / "report.html", content)
        return write_text(place, self.published.page.read_text(encoding="utf-8"))

    def figures(self, folder: str | Path, formats: str | Iterable[str] = ("svg", "csv")) -> list[Path]:
        """Learning curves and labels saved as files: "svg", "pdf" (needs matplotlib, natsel[plot]) and "csv"."""
        from natsel.experiments.report.figure_files import write_figures

        return write_figures(self.experiments, folder, formats)


def compare(
    models: Any,
    pool: "Pool",
    methods: Sequence[Any] | str | None = None,
    seeds: int | Sequence[int] = 5,
    budget: int = 100,
    *,
    k: int = 10,
    initial: int | Mapping[str, int] | None = None,
    test: "Examples | tuple[Any, Any] | float | int | None" = None,
    validation: "Examples | tuple[Any, Any] | int" = 0,
    targets: Any = None,
    levels: Sequence[float] = (),
    candidates: int | None = None,
    folder: str | Path | None = None,
    name: str = "comparison",
    device: str | None = None,
    processes: int | None = None,
    fresh: bool = False,
    progress: bool | Callable[[dict[str, Any]], None] | None = None,
) -> Comparison:
    """Compare methods with random on a pool whose answers are known, over seeds; labels are revealed as they are asked.

    `models` is a model, an estimator, a function that makes one (its parameter `facts`, if it has one, says what is
    known about the data), or a dict of these by name. `pool` is a `Pool` with answers; without any, the labels it has
    are the answers, and points without a label are left out. `methods` are names, `Method` values or tables as in a
    recipe (None: those of `natsel.choose.recommended.CONTENDERS`); random is added if it is missing. `seeds` is how
    many, or which. `budget` is the number of labels of a run in all, `k` that of a round. `initial` labels are drawn at
    random, {"per_class": 1} of each class (the default for classes; k for numbers). `test` are examples to be judged
    by, or how many points to hold out, as a number or a share (a fifth). `targets` are the inputs that methods such as
    epig want to predict well (the pool if nothing is said). `levels` are the accuracies, or the errors of a regression,
    that labels are counted to.

    In `folder` the runs are kept: the same call goes on with what is there, and more methods, seeds or budget may be
    added; `fresh` throws it away first. `progress`: True for a bar, or a function that is called with events.

    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from natsel import Pool
    >>> pool = Pool(np.arange(40.0)[:, None], answers=np.arange(40) // 20)
    >>> result = compare(RandomForestClassifier(5), pool, ["margin"], seeds=1, budget=8, k=3)
    >>> sorted({row["method"] for row in result.rows()})
    ['margin', 'random']
    """
    from natsel.choose.recommended import CONTENDERS

    named = dict(models) if isinstance(models, Mapping) and "kind" not in models else {"": models}
    if not named:
        raise ValueError("models: found none; pass a model, or a dict of models by name")
    data = _data(pool, test, validation, numbers=any(map(_regresses, named.values())))
    regression = np.asarray(data.train.labels).dtype.kind == "f"
    contenders, objects = _contenders(CONTENDERS[regression] if methods is None else methods)
    built = [objects.get(one.label) or one.build() for one in contenders]
    wanted, source = _targets(targets, built)
    shared = {
        "k": k,
        "budget": budget,
        "seeds": seeds if isinstance(seeds, int) else list(seeds),
        "methods": [one.as_table() for one in contenders],
        **({"targets": list(levels)} if len(levels) else {}),
        "candidates": "all" if candidates is None else candidates,
        "initial": _initial(initial, k, regression),
        "about": f"{len(data.train):,} points to choose from, {len(data.test):,} to be judged by.",
        **({"device": device} if device else {}),
        **({} if source is None else {"target_inputs": source}),
    }
    kept = tempfile.TemporaryDirectory(prefix="natsel-") if folder is None else None
    place = Path(kept.name if kept is not None else str(folder))
    place.mkdir(parents=True, exist_ok=True)
    given: dict[str, Given] = {}
    if processes is None:
        described = {"given": _fingerprint(data)} | ({"validation": len(data.validation)} if data.validation else {})
        tables = {one: _as_table(model) or {"kind": GIVEN} for one, model in named.items()}
        given = {one: Given(data, _maker(model), objects, wanted, _parts(model)) for one, model in named.items()}
    else:
        if objects or wanted is not None:
            raise ValueError(
                "processes: methods and targets that are values live in this process; use names, or leave processes out"
            )
        described = _as_files(place, data)
        tables = {one: _importable(model) for one, model in named.items()}
    recipes = {
        one: Recipe.from_table(
            shared
            | {"name": f"{name}-{one}" if one else name, "data": described, "model": tables[one]}
            | _home(model if processes is not None else None)
        )
        for one, model in named.items()
    }
    plan = Plan(name, str(shared["about"]), recipes, order=tuple(recipes))
    outcomes = run_plan(
        plan,
        place,
        processes=processes or 0,
        device=device,
        fresh=fresh,
        progress=_progress(progress, recipes),
        command=["natsel.compare"],
        given=given,
    )
    failed = {
        (one, job.method, job.seed): error for one, outcome in outcomes.items() for job, error in outcome.failed.items()
    }
    if failed and not any(outcome.finished for outcome in outcomes.values()):
        raise ValueError(f"models: all runs failed, the first with {next(iter(failed.values()))}")
    published = publish(place, given=given)
    found = {one: part.experiment for one, part in (published.variants or {"": published}).items()}
    experiments = {one: experiment for one, experiment in found.items() if experiment is not None}
    return Comparison(name, place, experiments, published, failed, kept)


def _contenders(methods: Sequence[Any] | str) -> tuple[list[Contender], dict[str, "Method"]]:
    """The methods as a recipe names them, random first, and those among them that are values, by their names."""
    from natsel.choose import Method

    found: list[Contender] = []
    objects: dict[str, Method] = {}
    for index, one in enumerate([methods] if isinstance(methods, str | Mapping) else methods):
        if isinstance(one, Method):
            objects[one.name] = one
        found.append(Contender(one.name) if isinstance(one, Method) else Contender.from_table(one, f"methods[{index}]"))
    if BASELINE not in [one.label for one in found]:
        found.insert(0, Contender(BASELINE))
    return found, objects


def _data(pool: Any, test: Any, validation: Any, *, numbers: bool) -> "DataSet":
    """The pool and the examples for test and validation; points that nobody knows an answer for are left out.

    `numbers`: a model predicts real numbers, so that whole numbers without names are such.
    """
    from natsel.data import DataSet, Examples
    from natsel.data.labels import unknown
    from natsel.learning.arguments import as_pool, examples_for

    pool = as_pool(pool)
    if numbers:
        pool.expect_numbers()
    labels = _answers(pool)
    classes = () if labels.dtype.kind == "f" else pool.classes
    if numbers and labels.dtype.kind != "f":
        labels, classes = np.where(labels < 0, np.nan, labels), ()
    everything = Examples(pool.inputs, labels, classes, {"ids": pool.ids})
    rows = np.flatnonzero(~unknown(labels))
    if test is None or isinstance(test, int | float):
        if test is not None and not 0 <= test < math.inf:
            raise ValueError(f"test: expected a share or a number of examples, found {test!r}; pass such as 0.2")
        held, rows = held_out(rows, rows_to_test(test, len(rows), "test"), derive(0, "held out"))
        judged: Any = replace(everything[held], masks={})
    else:
        judged = examples_for(test, "test", pool)
    held_back: Any = None
    if isinstance(validation, int) and validation:
        held, rows = held_out(rows, rows_to_test(validation, len(rows), "validation"), derive(0, "validation"))
        held_back = replace(everything[held], masks={})
    elif not isinstance(validation, int):
        held_back = examples_for(validation, "validation", pool)
    if numbers and not classes:
        judged, held_back = (
            None if one is None else replace(one, labels=np.asarray(one.labels, dtype=np.float64), classes=())
            for one in (judged, held_back)
        )
    kind: Any = kind_of(pool.inputs)
    return DataSet("the pool", everything[rows], judged, held_back, kind, f"{len(rows):,} points")


def _answers(pool: "Pool") -> np.ndarray[Any, Any]:
    """What is known about each point: the label it has, else the answer; −1 or NaN where neither is there."""
    told = dict(
        zip(pool.position_of(pool.labelled_ids).tolist(), pool.labels_of(pool.labelled_ids).tolist(), strict=True)
    )
    try:
        known = dict(enumerate(pool.answers(pool.ids)))
    except ValueError:  # it knows none
        known = {}
    aside = set(pool.position_of(pool.ignored_ids).tolist())
    values = [None if place in aside else told.get(place, known.get(place)) for place in range(len(pool))]
    if all(value is None for value in values):
        raise ValueError("pool: it knows neither answers nor labels, so that nothing can be compared; pass answers=…")
    if pool.regression:
        return np.array([math.nan if value is None else value for value in values], dtype=np.float64)
    return np.array([-1 if value is None else value for value in values], dtype=np.int64)


def _targets(targets: Any, methods: Sequence["Method"]) -> tuple[Any, dict[str, Any] | None]:
    """Targets that are values, and where a recipe says that they come from; both None where no method looks at any."""
    from natsel.objectives import Argument

    looking = [one for one in methods if Argument.TARGETS in one.needs or one.objective.teaching is not None]
    looking += [one for one in methods if one.reads_geometry and targets is not None]
    if not looking:
        return None, None
    if targets is None or (isinstance(targets, str) and targets == "pool"):
        return None, {"from": "pool"}
    if isinstance(targets, str) and targets == "test":
        return None, {"from": "test"}
    from natsel.learning import TargetInputs

    return TargetInputs.of(targets), {"from": GIVEN}


def _initial(initial: Any, k: int, regression: bool) -> dict[str, int]:
    if initial is None:
        return {"count": k} if regression else {"per_class": 1}
    if isinstance(initial, Mapping):
        return {str(how): count for how, count in initial.items()}
    return {"count": initial}


def _is_function(model: Any) -> bool:
    """Whether something makes a model, and is none itself."""
    return isinstance(model, type) or (callable(model) and not hasattr(model, "fit"))


def _maker(model: Any) -> Callable[[DataFacts], Any]:
    if _is_function(model):
        return lambda facts: made_by(model, {}, facts)
    try:
        copy.deepcopy(model)
    except Exception:  # of a part that nobody can copy: then all runs have the same one
        return lambda facts: model
    return lambda facts: copy.deepcopy(model)


def _parts(model: Any) -> dict[str, str]:
    """What a model that is given here is made of."""
    from natsel.models.conversion import as_model

    return {} if _as_table(model) else parts_of(model if _is_function(model) else as_model(model))


def _regresses(model: Any) -> bool:
    from natsel.models.conversion import as_model

    if _is_function(model) or _as_table(model):
        return False
    return bool(getattr(as_model(model), "regression", False))


def _as_table(model: Any) -> dict[str, Any] | None:
    """The table of a recipe for a model that is named, by an import path or by a table; None for values."""
    if isinstance(model, str):
        return {"kind": model}
    return dict(model) if isinstance(model, Mapping) else None


def _importable(model: Any) -> dict[str, Any]:
    """The table of a recipe for a model that another process can make."""
    found = _as_table(model)
    if found is not None:
        return found
    module, name = getattr(model, "__module__", ""), getattr(model, "__qualname__", "")
    there = _is_function(model) and module != "__main__" and getattr(sys.modules.get(module), name, None) is model
    if not there:
        raise ValueError(
            f"processes: no other process can make {name or type(model).__name__}; put a function that makes it into a"
            " module and pass that, or leave processes out"
        )
    return {"kind": f"python:{module}.{name}"}


def _home(model: Any) -> dict[str, str]:
    """Where the module of a model lies, so that other processes find it."""
    name = getattr(model, "__module__", "") if _is_function(model) else ""
    file = getattr(sys.modules.get(name), "__file__", None)
    if isinstance(model, str) and is_import_path(model):
        return {"home": str(Path.cwd())}
    return {"home": str(Path(file).resolve().parents[name.count(".")])} if file else {}


def _fingerprint(data: "DataSet") -> str:
    """What the data hold, as a text that is the same in every process."""
    from natsel.data import Pool

    parts = [part for part in (data.train, data.validation, data.test) if part is not None]
    known = fingerprint(
        *((Pool(part.inputs).fingerprint(), np.asarray(part.labels)) for part in parts), bytes_of_digest=8
    )
    return f"{len(data.train):,} points and {len(data.test):,} for test ({known})"


def _as_files(folder: Path, data: "DataSet") -> dict[str, Any]:
    """Write the data to files that other processes can read; the table of a recipe that names them."""
    if data.validation is not None:
        raise ValueError("processes: validation examples live in this process; leave one of them out")
    found: dict[str, Any] = {"regression": True} if np.asarray(data.train.labels).dtype.kind == "f" else {}
    found |= {"classes": list(data.train.classes)} if len(data.train.classes) > 1 else {}
    for key, part in (("file", data.train), ("test", data.test)):
        inputs = part.inputs if isinstance(part.inputs, np.ndarray) else None
        if inputs is None or (inputs.dtype.kind == "O" and not all(isinstance(one, str) for one in inputs)):
            raise ValueError(
                f"processes: {type(part.inputs).__name__} inputs cannot be written to a file; leave processes out"
            )
        arrays = {
            "inputs": inputs.astype(str) if inputs.dtype.kind == "O" else inputs,
            "labels": np.asarray(part.labels),
        }
        if "ids" in part.masks:
            ids = np.asarray(part.masks["ids"])
            arrays["ids"], found["ids"] = ids.astype(str) if ids.dtype.kind == "O" else ids, "ids"
        place = folder.resolve() / f"{'pool' if key == 'file' else key}.npz"
        if not _holds(place, arrays):
            np.savez(place, **arrays)  # type: ignore[arg-type]
        found[key] = str(place)
    return found


def _holds(place: Path, arrays: Mapping[str, np.ndarray[Any, Any]]) -> bool:
    """Whether a file holds these arrays already: written again it would have other bytes."""
    with suppress(Exception), np.load(place, allow_pickle=False) as held:  # damaged bytes fail in every way there is
        return set(held) == set(arrays) and all(np.array_equal(held[name], one) for name, one in arrays.items())
    return False


def _progress(wanted: Any, recipes: Mapping[str, Recipe]) -> Callable[[str], Callable[[dict[str, Any]], None]]:
    """For each variant the function that its events go to."""
    if callable(wanted):
        return lambda variant: lambda event: wanted({"model": variant, **event})
    if not wanted:
        return lambda variant: lambda event: None
    total = sum(len(one.methods) * len(one.seeds) for one in recipes.values())
    ended: set[tuple[str, str, int]] = set()
    bar = ProgressBar("runs", patience=0.0)

    def board(variant: str) -> Callable[[dict[str, Any]], None]:
        def take(event: dict[str, Any]) -> None:
            if event["event"] in ("done", "failed", "skipped"):
                ended.add((variant, event["method"], event["seed"]))
            bar(len(ended), total)

        return take

    return board
