"""Read the folder of an experiment, finished or not: journals → curves, and pictures of what was picked.

The journals are the truth; beside them `recipe.json` says what was wanted and `data.json` what the data were. Where
the pool holds junk, the curves have a metric `junk`: which part of all picks made with up to so many labels it was.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from natsel.experiments.recipe.checks import number
from natsel.experiments.recipe.contenders import Contender
from natsel.experiments.recipe.recipe import Recipe
from natsel.experiments.results.claims import judged
from natsel.experiments.results.experiment import UNEQUAL, Batch, Curve, Experiment, Thumbnail
from natsel.experiments.running.data_source import Given, fingerprints, load_data
from natsel.experiments.running.folder import journal_path, read_document, read_object, read_outcome
from natsel.store import Ask, Journal, Round


def read_experiment(folder: str | Path, *, thumbnails: bool = True, given: Given | None = None) -> Experiment:
    """What the runs in a folder have come to so far; thumbnails are left out where the data are not at hand.

    `given` has the values that natsel.compare made the runs with.
    """
    folder = Path(folder)
    document = read_document(folder)
    recipe: Recipe = document["recipe"]
    data = _data(folder)
    found = {
        (contender, seed): journal_path(folder, contender.slug, seed)
        for contender in recipe.methods
        for seed in recipe.seeds
    }
    junk = any(one["kind"] == "junk" for one in recipe.data.transforms)
    curves = [_curve(path, contender, seed, junk) for (contender, seed), path in found.items() if path.is_file()]
    curves = [curve for curve in curves if curve.sizes]
    if not curves:
        raise ValueError(f"folder: no run in {folder} has been measured yet; natsel run goes on with it")
    old = document.get("fingerprints", {})
    pictures, note = _thumbnails(recipe, curves, given, old) if thumbnails else ({}, "")
    last = document["runs"][-1] if document.get("runs") else {}
    share = data.get("majority", 0.0) if recipe.metric in ("", "accuracy") and data.get("classes") else 0.0
    unequal = f"{100 * share:.3g} % of the test examples are of the class {data.get('majority_class')}: who always says"
    unequal += " so has that accuracy without a label. Look at balanced accuracy; of two classes, at average precision."
    experiment = Experiment(
        name=recipe.name,
        about=recipe.about,
        recipe=recipe.as_table(),
        command=" ".join(last.get("command", ())),
        curves=curves,
        classes=data.get("classes", ()),
        metric=recipe.metric or ("accuracy" if "accuracy" in curves[0].metrics else "rmse"),
        targets=recipe.targets,
        pool=data.get("pool"),
        majority=data.get("majority"),
        candidates=recipe.candidates,
        thumbnails=pictures,
        notes=[*_failed(folder, recipe), *filter(None, [note, _counted(recipe), unequal * (share >= UNEQUAL)])],
        versions={**last.get("versions", {}), **({"device": last["device"]} if last.get("device") else {})},
    )
    return replace(experiment, claims=[verdict.as_dict() for verdict in judged(recipe.claims, experiment)])


def _curve(path: Path, contender: Contender, seed: int, junk: bool) -> Curve:
    with Journal(path, create=False) as journal:
        run = journal.runs()[0].run if journal.runs() else None
        if run is None:
            return Curve(contender.label, seed, (), {})
        rounds, labels, state = journal.rounds(run), journal.labels(run), journal.replay(run)
        stops = journal.stops(run)
    values = state.values
    measured = {one.n_labelled: one for one in rounds if one.metrics}  # a correction measures the same size again
    names = sorted({name for one in measured.values() for name in one.metrics})
    stages = list(dict.fromkeys(stage for one in measured.values() for stage in one.seconds))
    initial = list(dict.fromkeys(label.id for label in labels if label.ask is None))
    return Curve(
        method=contender.label,
        seed=seed,
        sizes=list(measured),
        metrics={name: [one.metrics.get(name, np.nan) for one in measured.values()] for name in names}
        | ({"junk": _junk(rounds, list(state.skipped), list(measured))} if junk else {}),
        initial=Batch(initial, [values[id] for id in initial]),
        batches=[_batch(ask, values) for one in rounds for ask in one.asks],
        seconds={stage: [one.seconds.get(stage, 0.0) for one in measured.values()] for stage in stages},
        stopped=stops[-1].reason if stops and stops[-1].revision == state.revision else "",
    )


def _junk(rounds: list[Round], junk_ids: Sequence[int | str], sizes: list[int]) -> list[float]:
    """Which part of the picks was junk, of all batches chosen with up to so many labels."""
    from natsel.learning import junk_share

    shares = [junk_share([one for one in rounds if one.n_labelled <= size], junk_ids)[1] for size in sizes]
    return [share[-1] if share else np.nan for share in shares]


def _counted(recipe: Recipe) -> str:
    """What has to be known to compare the ends of curves."""
    if recipe.budget_counts == "labels":
        return ""
    return f"Runs end after {recipe.budget} queries, which junk uses up as well: the more of it, the fewer labels."


def _batch(ask: Ask, values: Mapping[int | str, int | float]) -> Batch:
    def column(name: str) -> list[float]:
        found = [getattr(pick, name) for pick in ask.picks]
        return [] if None in found else found

    return Batch(
        ask.ids,
        [values.get(id) for id in ask.ids],
        column("score"),
        column("epistemic"),
        column("aleatoric"),
        ask.warnings,
    )


def _thumbnails(recipe: Recipe, curves: list[Curve], given: Given | None, old: Any) -> tuple[dict[Any, Thumbnail], str]:
    """Pictures or texts of what was picked, if files have `old` fingerprints; ids of copies lead back to their row."""
    from natsel.experiments.running.build import copies_apart, ids_of

    try:
        if fingerprints(recipe) != old:
            raise ValueError(f"{recipe.data.name} has changed since the runs were made")
        data = load_data(recipe, given)
    except (ValueError, OSError) as absent:
        return {}, f"What was picked is shown by its id, because the data are not at hand ({absent})."
    if data.kind == "table":
        return {}, ""
    id_of_row = ids_of(data.train)
    row_of_id = {id: row for row, id in enumerate(id_of_row.tolist())}
    picked = {id for curve in curves for id in (*curve.initial.ids, *curve.acquired)}
    if id_of_row.dtype.kind == "i":
        span = copies_apart(id_of_row)
        copies = max((int(one.get("copies", 1)) for one in recipe.data.transforms), default=1)
        numbers = {id for id in picked if isinstance(id, int)}
        junk = {id for id in numbers if id >= span * copies}
        row_of_id |= {id: row_of_id[id % span] for id in numbers - junk}
    else:
        junk = set()
    shown = {id: data.train.inputs[row_of_id[id]] for id in picked - junk}
    if data.kind == "text":
        return {id: str(text) for id, text in shown.items()}, ""
    return {id: _bytes(np.asarray(one)) for id, one in shown.items()} | _junk_pictures(recipe, junk), ""


def _junk_pictures(recipe: Recipe, ids: set[Any]) -> dict[Any, Thumbnail]:
    """Pictures from another set, which have no row in this one: they are found in the pool as it was made. None where
    that set is not at hand.
    """
    if not ids:
        return {}
    from natsel.experiments.running.build import build_data

    try:
        setting = build_data(recipe)
    except ValueError:
        return {}
    places = np.flatnonzero(np.isin(setting.ids, list(ids)))
    return {int(setting.ids[place]): _bytes(np.asarray(setting.examples.inputs[place])) for place in places}


def _bytes(picture: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """A picture as bytes; numbers are spread over 0..255 where they are not bytes already."""
    if picture.dtype == np.uint8:
        return picture
    top = float(picture.max(initial=0.0))
    return (picture / (top if top > 1 else 1.0) * 255).clip(0, 255).round().astype(np.uint8)


def _data(folder: Path) -> dict[str, Any]:
    path = folder / "data.json"
    found = read_object(path) if path.is_file() else {}
    number(0, 1)(found.get("majority", 0.0), f"{path}: majority")
    return found


def _failed(folder: Path, recipe: Recipe) -> list[str]:
    """Sentences about jobs that failed or never began; those on their way speak for themselves."""
    notes, waiting = [], 0
    for contender in recipe.methods:
        for seed in recipe.seeds:
            outcome = read_outcome(folder, contender.slug, seed)
            if "error" in outcome:
                first = next(iter(str(outcome["error"]).strip().splitlines()), "")
                notes.append(f"{contender.label} with seed {seed} failed: {first}")
            elif not journal_path(folder, contender.slug, seed).is_file():
                waiting += 1
    if waiting:
        count = len(recipe.methods) * len(recipe.seeds)
        notes.append(f"{waiting} of {count} runs have not begun; natsel run goes on with them.")
    return notes
