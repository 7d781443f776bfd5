"""The folder of an experiment: which jobs it holds, which have ended, and that it belongs to one recipe.

More methods, more seeds, other targets and a larger budget may come later; anything else that decides a run may not
change, or curves of different experiments would stand side by side.
"""

import json
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from natsel.containers import atomically
from natsel.experiments.recipe.recipe import Recipe
from natsel.provenance import versions

_FREE = ("name", "about", "methods", "seeds", "targets", "budget", "device", "claims")
_SQLITE = b"SQLite format 3\0"  # how a database begins


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
    return folder / slug / f"seed-{seed}.db"


def write_outcome(folder: Path, job: Job, outcome: Mapping[str, Any]) -> None:
    """Write down how a job ended, beside its journal."""
    path = journal_path(folder, job.slug, job.seed).with_suffix(".json")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, outcome)


def read_outcome(folder: Path, slug: str, seed: int) -> dict[str, Any]:
    """How a job ended; empty while it has not."""
    path = journal_path(folder, slug, seed).with_suffix(".json")
    return read_object(path) if path.exists() else {}


def finished(folder: Path, job: Job, budget: int) -> bool:
    """Whether a job has come to its end, for a budget at least as large."""
    return bool(read_outcome(folder, job.slug, job.seed).get("budget", 0) >= budget)


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file; anything else is refused in a sentence that names the file."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(found, dict):
            raise ValueError(f"it holds {json.dumps(found)[:40]} and no object")
    except ValueError as reason:  # of the text, its encoding or what it says
        raise ValueError(
            f"folder: {path} cannot be read ({reason}); remove that file, which natsel run makes again, or take it from"
            " a backup"
        ) from None
    return found


def read_document(folder: Path) -> dict[str, Any]:
    """What `recipe.json` holds: the recipe, versions and commands."""
    path = folder / "recipe.json"
    if not path.is_file():
        raise ValueError(f"folder: {_found_instead(folder)}; name the folder of an experiment, which natsel run makes")
    try:
        document = dict(json.loads(path.read_text(encoding="utf-8")))
        Recipe.from_table(document["recipe"])
    except (ValueError, TypeError, KeyError) as reason:
        raise ValueError(
            f"folder: {path} is no recipe of natsel ({reason});"
            " take another folder, or throw the old runs away with natsel run --fresh"
        ) from None
    return document


def read_plan(folder: Path) -> dict[str, Any]:
    """What `plan.json` or `study.json` holds; a folder without them is that of one variant without a name."""
    for path in (folder / "plan.json", folder / "study.json"):
        if path.is_file():
            return read_object(path)
    return {"variants": [""]}


def with_earlier_runs(folder: Path, recipe: Recipe) -> Recipe:
    """The recipe with the methods, seeds and budget of the runs in the folder; another recipe's runs are refused."""
    if not _begun(folder):  # what was written down before any run began binds nobody
        return recipe
    before = Recipe.from_table(read_document(folder)["recipe"])
    new, old = recipe.as_table(), before.as_table()
    for key in sorted((set(new) | set(old)) - set(_FREE)):
        if new.get(key) != old.get(key):
            raise ValueError(
                f"{key}: {folder} holds runs with {old.get(key)!r} and the recipe says {new.get(key)!r};"
                " take another folder, or throw the old runs away with --fresh"
            )
    return replace(
        recipe,
        methods=tuple(dict.fromkeys((*before.methods, *recipe.methods))),
        seeds=tuple(dict.fromkeys((*before.seeds, *recipe.seeds))),
        budget=max(before.budget, recipe.budget),
    )


def prepare(
    folder: Path, recipe: Recipe, *, device: str | None = None, fresh: bool = False, command: Sequence[str] = ()
) -> None:
    """Make the folder the recipe's: write the recipe down, with what earlier runs there had; `fresh` removes those."""
    if fresh:
        _clear(folder)
    written = with_earlier_runs(folder, recipe)
    runs = read_document(folder).get("runs", []) if _begun(folder) else []
    run = {"started": _now(), "command": list(command), "device": device, "versions": versions()}
    write_json(folder / "recipe.json", {"recipe": written.as_table(), "runs": [*runs, run]})


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep the folder to one runner at a time (where the system can say so)."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise ValueError(f"folder: {folder} is a file, or lies in one; name a folder") from None
    try:
        import fcntl
    except ImportError:
        yield
        return
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ValueError(f"folder: another process runs experiments in {folder}; wait for it to end") from None
        yield


def write_json(path: Path, value: Any) -> None:
    """Write JSON for people and machines, all or nothing."""
    with atomically(path) as place:
        place.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _found_instead(folder: Path) -> str:
    """What lies where the folder of an experiment should."""
    if folder.is_dir():
        return f"{folder} holds no recipe.json"
    if not folder.is_file():
        return f"there is no folder {folder}"
    with folder.open("rb") as file:
        is_database = file.read(len(_SQLITE)) == _SQLITE
    return f"{folder} is {'a database, such as the journal of one learner,' if is_database else 'a file'} and no folder"


def _begun(folder: Path) -> bool:
    return (folder / "recipe.json").exists() and any(folder.glob("*/seed-*.db"))


def _clear(folder: Path) -> None:
    """Remove what an experiment left, and nothing else; the processes' logs stay."""
    for path in list(folder.glob("*/seed-*")):
        if not re.match(r"seed-\d+\.", path.name):
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
        if not any(path.parent.iterdir()):
            path.parent.rmdir()
    (folder / "recipe.json").unlink(missing_ok=True)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")
