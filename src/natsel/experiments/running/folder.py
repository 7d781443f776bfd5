"""The folder of an experiment: which jobs it holds, which have ended, and that it belongs to one recipe.

More methods, more seeds, other targets and a larger budget may come later; anything else that decides a run may not
change, or curves of different experiments would stand side by side. Files of data may move, but must hold the same.
"""

import json
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from natsel.containers import appending, own, sealed, unsealed, write_text
from natsel.experiments.recipe.checks import Check, any_table, each, either, flag, folder_name, one_of, table, text
from natsel.experiments.recipe.plan import published_table
from natsel.experiments.recipe.recipe import Recipe
from natsel.experiments.results.claims import Claim
from natsel.experiments.running.data_source import data_files, fingerprints
from natsel.experiments.studies import STUDIES
from natsel.provenance import versions

_FREE = ("home", "name", "about", "methods", "seeds", "metric", "targets", "budget", "device", "claims")
_PATHS = ("file", "test", "labels", "ids")


def _table_of(check: Check) -> Check:
    return lambda value, key: {name: check(one, f"{key}.{name}") for name, one in any_table(value, key).items()}


_RUN: dict[str, Check] = {"command": each(text, at_least=0), "versions": any_table, "device": either(None, text)}
_DOCUMENT: dict[str, Check] = {
    "recipe": partial(Recipe.from_table, begun=True),
    "fingerprints": _table_of(text),
    "parts": _table_of(either("", text)),
    "runs": each(lambda value, key: table({"started": text, **_RUN}, value, key), at_least=0),
}
_PLAN = {**_RUN, "name": text, "about": either("", text), "full": flag, "variants": each(folder_name)}
_PLAN |= {"claims": each(Claim.from_table, at_least=0), "published": _table_of(published_table)}
_PLAN |= {"groups": _table_of(each(folder_name)), "study": one_of(*STUDIES), "settings": any_table}
_PLAN |= {"findings": either(None, any_table)}


@dataclass(frozen=True)
class Job:
    """One method with one seed."""

    method: str
    slug: str
    seed: int

    def named(self) -> dict[str, Any]:
        """As events name it."""
        return {"method": self.method, "seed": self.seed}


def journal_path(folder: Path, slug: str, seed: int) -> Path:
    """Where the journal of a job lies."""
    return own(own(folder / slug) / f"seed-{seed}.db")


def write_outcome(folder: Path, job: Job, outcome: Mapping[str, Any]) -> None:
    """Write down how a job ended, beside its journal."""
    path = journal_path(folder, job.slug, job.seed).with_suffix(".json")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, sealed(outcome))


def read_outcome(folder: Path, slug: str, seed: int) -> dict[str, Any]:
    """How a job ended; empty while it has not."""
    path = journal_path(folder, slug, seed).with_suffix(".json")
    return read_object(path) if path.exists() else {}


def finished(folder: Path, job: Job, budget: int) -> bool:
    """Whether a job has come to its end, for a budget at least as large."""
    return bool(read_outcome(folder, job.slug, job.seed).get("budget", 0) >= budget)


def read_object(path: Path, schema: Mapping[str, Check] | None = None, *needed: str) -> dict[str, Any]:
    """The JSON object in a file, as a schema has it; anything else is refused in a sentence that names the file."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(found, dict):
            raise ValueError(f"it holds {json.dumps(found)[:40]} and no object")
        found = unsealed(found)
        return found if schema is None else table(schema, found, "", needed)
    except (ValueError, RecursionError) as reason:  # of the text, its encoding or what it says
        raise ValueError(
            f"folder: {path} cannot be read ({reason}); remove that file, which natsel run makes again, or take it from"
            " a backup"
        ) from None


def read_document(folder: Path) -> dict[str, Any]:
    """What `recipe.json` holds: the recipe, versions and commands."""
    path = folder / "recipe.json"
    if not path.is_file():
        raise ValueError(
            f"folder: {_found_instead(folder)}; name the folder of an experiment, which natsel run makes,"
            " or the journal of a learner"
        )
    try:
        found = unsealed(dict(json.loads(path.read_text(encoding="utf-8"))))
        document = table(_DOCUMENT, found, "", ("recipe",))
    except (ValueError, TypeError, RecursionError) as reason:
        raise ValueError(
            f"folder: {path} is no recipe of natsel ({reason});"
            " take another folder, or throw the old runs away with natsel run --fresh"
        ) from None
    return document


def read_plan(folder: Path) -> dict[str, Any]:
    """What `plan.json` or `study.json` holds; a folder without them is that of one variant without a name."""
    for name, needed in (("plan", "variants"), ("study", "study")):
        if (path := folder / f"{name}.json").is_file():
            return read_object(path, _PLAN, "name", needed)
    return {"variants": [""]}


def with_earlier_runs(folder: Path, recipe: Recipe, parts: Mapping[str, str] | None = None) -> Recipe:
    """The recipe with methods, seeds and budget of runs in the folder; those of another recipe or model are refused."""
    if not _begun(folder):  # what was written down before any run began binds nobody
        return recipe
    document = read_document(folder)
    before = document["recipe"]
    _refuse_other_files(folder, recipe, document.get("fingerprints", {}))
    remedy = f"take another folder, or throw the old runs away with {'fresh=True' if recipe.data.given else '--fresh'}"
    if parts is not None and (held := document.get("parts", {})).get("") != parts.get(""):
        from natsel.store.history import changed_parts  # which brings torch

        raise ValueError(f"model: {folder} holds runs of another model ({changed_parts(held, parts)}); {remedy}")
    new, old = (_without_paths(one) for one in (recipe, before))
    for key in sorted((set(new) | set(old)) - set(_FREE)):
        if new.get(key) != old.get(key):
            held, said = (_in_words(key, one.get(key)) for one in (old, new))
            raise ValueError(f"{key}: {folder} holds runs with {held} and the recipe says {said}; {remedy}")
    return replace(
        recipe,
        methods=tuple(dict.fromkeys((*before.methods, *recipe.methods))),
        seeds=tuple(dict.fromkeys((*before.seeds, *recipe.seeds))),
        budget=max(before.budget, recipe.budget),
    )


def prepare(
    folder: Path,
    recipe: Recipe,
    parts: Mapping[str, str] = MappingProxyType({}),
    *,
    device: str | None = None,
    fresh: bool = False,
    command: Sequence[str] = (),
) -> None:
    """Make the folder the recipe's: write it down, with its model and earlier runs there; `fresh` removes those."""
    if fresh:
        _clear(folder)
    written = with_earlier_runs(folder, recipe, parts)
    runs = read_document(folder).get("runs", []) if _begun(folder) else []
    run = {"started": _now(), "command": list(command), "device": device, "versions": versions()}
    found = fingerprints(recipe)
    document = {"recipe": written.as_table(), **({"fingerprints": found} if found else {})}
    document |= {"parts": dict(parts), "runs": [*runs, run]}
    write_json(folder / "recipe.json", sealed(document))


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep the folder to one runner at a time (where the system can say so)."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise ValueError(f"folder: {folder} is a file, or lies in one; name a folder") from None
    except OSError as reason:
        raise ValueError(
            f"folder: {folder} cannot be made ({reason.strerror}); name another one, with --folder"
        ) from None
    try:
        import fcntl
    except ImportError:
        yield
        return
    with appending(folder / ".lock") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ValueError(f"folder: another process runs experiments in {folder}; wait for it to end") from None
        yield


def write_json(path: Path, value: Any) -> None:
    """Write JSON for people and machines, all or nothing."""
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def _refuse_other_files(folder: Path, recipe: Recipe, then: Mapping[str, str]) -> None:
    """Refuse data files that hold something else than those that the runs in a folder were made with."""
    if not then:
        return
    now = fingerprints(recipe)
    for key, name in data_files(recipe).items():
        if key in then and now[key] != then[key]:
            raise ValueError(
                f"{key}: {recipe.path(name)} has changed since the runs in {folder} were made; bring it back as it was,"
                " take another folder, or throw the old runs away with --fresh"
            )


def _without_paths(recipe: Recipe) -> dict[str, Any]:
    """A recipe as a table in which data files have no names: fingerprints tell whether they are the same."""
    found = recipe.as_table()
    paths = {key.removeprefix("data.") for key in data_files(recipe)} & set(_PATHS)
    return dict(found) | {"data": {key: "a file" if key in paths else value for key, value in found["data"].items()}}


def _in_words(key: str, value: Any) -> str:
    """A value of a recipe as an error shows it; data that natsel.compare was given go by their description."""
    given = isinstance(value, dict) and value.get("given")
    return str(given) if key == "data" and given else repr(value)


def _found_instead(folder: Path) -> str:
    """What lies where the folder of an experiment should."""
    if folder.is_dir():
        return f"{folder} holds no recipe.json"
    return f"{folder} is a file and no folder" if folder.is_file() else f"there is no folder {folder}"


def _begun(folder: Path) -> bool:
    return (folder / "recipe.json").exists() and any(folder.glob("*/seed-*.db"))


def _clear(folder: Path) -> None:
    """Remove what an experiment left, and nothing else; the processes' logs stay."""
    for path in [path for path in folder.glob("*/seed-*") if not path.parent.is_symlink()]:
        if not re.match(r"seed-\d+\.", path.name):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
        if not any(path.parent.iterdir()):
            path.parent.rmdir()
    (folder / "recipe.json").unlink(missing_ok=True)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")
