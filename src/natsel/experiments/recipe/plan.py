"""A plan: what the file of a recipe describes. One or several variants of an experiment, or a study.

    [full]                       what the published protocol does differently; the rest is what a laptop can run
    [variants.redundant]         laid over the rest of the file: a recipe of its own, in a folder of its own
    [variants.redundant.full]    what its published protocol does differently, beside [full]; a variant that says
                                 full_only = true is run there alone
    [grid.models.forest]         in place of variants: several axes, of which every combination is a variant, laid over
    [grid.tables.sgemm]          in this order ("forest-sgemm"); full and full_only as above. The variants that share a
                                 value of the first axis are a group, whose errors are averaged
    [published.forest]           numbers of a group to show beside its own: source, columns, and a row for each method
    study = "gp-example"         a small program of its own (`natsel.experiments.studies`) with [settings]

A file without variants has one variant, whose name is "" and whose folder is that of the plan. Claims of kind `gap`,
`falls` and `log-error` compare variants and belong to the plan; all others belong to each recipe they name.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Any, Self

from natsel.experiments.recipe.checks import any_table, closest, each, flag, folder_name, number, table, text
from natsel.experiments.recipe.contenders import contenders, seed_list
from natsel.experiments.recipe.recipe import Recipe
from natsel.experiments.results.claims import Claim


@dataclass(frozen=True)
class Plan:
    """What one file describes: recipes by variant, or a study with its settings. See the module.

    >>> list(load_plan("epig-mnist").recipes)
    ['curated', 'unbalanced', 'redundant']
    >>> load_plan("epig-1d").study
    'gp-example'
    """

    name: str
    about: str
    recipes: Mapping[str, Recipe]
    claims: tuple[Claim, ...] = ()
    study: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    full: bool = False
    has_full: bool = False
    """Whether the file says that the published protocol differs."""
    order: tuple[str, ...] = ()
    """All variants of the file, also those not wanted now."""
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Of a grid: the variants that are averaged, by the value of the first axis that they share."""
    published: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, recipe: Recipe) -> Self:
        """The plan of one recipe without variants."""
        return cls(recipe.name, recipe.about, {"": recipe})

    def as_dict(self) -> dict[str, Any]:
        """As plain values, for machines."""
        recipes = {name: recipe.as_table() for name, recipe in self.recipes.items()}
        if "" in recipes:
            return dict(recipes[""])
        found: dict[str, Any] = {"name": self.name, "about": self.about, "full": self.full}
        if self.study:
            return found | {"study": self.study, "settings": dict(self.settings)}
        return found | {"variants": recipes, "claims": [one.as_table() for one in self.claims]}

    def adjusted(self, *, methods: str | None = None, seeds: str | None = None, budget: int | None = None) -> "Plan":
        """The plan with the methods, seeds and budget of a command line.

        >>> load_plan("digits").adjusted(methods="margin", seeds="0-2", budget=40).recipes[""].seeds
        (0, 1, 2)
        """
        given = {name: value for name, value in (("methods", methods), ("seeds", seeds), ("budget", budget)) if value}
        if self.study and given:
            name = next(iter(given))
            raise ValueError(f"{name}: {self.name} is a study, which takes none; leave --{name} out")
        changed = {
            name: replace(
                recipe,
                methods=recipe.methods if methods is None else contenders(methods, recipe.methods),
                seeds=recipe.seeds if seeds is None else seed_list(seeds),
                budget=recipe.budget if budget is None else budget,
            )
            for name, recipe in self.recipes.items()
        }
        return replace(self, recipes=changed)


def recipe_names() -> list[str]:
    """The recipes that ship with natsel.

    >>> "digits" in recipe_names()
    True
    """
    folder = resources.files("natsel.experiments") / "recipes"
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def load_plan(name: str | Path, *, full: bool = False, variants: Sequence[str] | str | None = None) -> Plan:
    """The plan of a `.toml` file, or of a recipe that ships with natsel, by name; `variants` are those wanted.

    >>> list(load_plan("epig-mnist", variants="redundant").recipes)
    ['redundant']
    """
    return plan_from(*_read_toml(name), full=full, variants=variants)


def plan_from(
    found: Mapping[str, Any], home: str = "", *, full: bool = False, variants: Sequence[str] | str | None = None
) -> Plan:
    """A plan from the tables of a TOML file; a slip in a part that is not wanted is refused too.

    `home` is the folder of the file: relative paths start there, and modules that lie there can be imported.

    >>> iris = {"name": "a", "data": {"set": "iris"}, "model": {"kind": "forest"}, "methods": ["margin"], "budget": 20}
    >>> list(plan_from(iris | {"variants": {"few": {}, "many": {"budget": 50}}}).recipes)
    ['few', 'many']
    """
    if not isinstance(found, Mapping):
        raise ValueError(f"recipe: expected a table of keys and values, found {found!r}")
    wanted = [one.strip() for one in variants.split(",")] if isinstance(variants, str) else variants
    if wanted is not None and not {"variants", "grid"} & set(found):
        raise ValueError(f"variants: {found.get('name')} has none; leave --variants out")
    if "study" in found:
        return _study(found, full)
    if "name" not in found:
        raise ValueError("name: the recipe does not say; add it")
    tables = found.get("variants", {"": {}})
    if not isinstance(tables, Mapping) or not tables:
        raise ValueError(f"variants: expected a table for each, found {tables!r}")
    parts: dict[str, tuple[str, ...]] = {}
    if "grid" in found:
        if "variants" in found:
            raise ValueError("grid: found beside variants; keep one of them")
        tables, parts = _grid(found["grid"])
    claims = each(Claim.from_table, at_least=0)(found.get("claims", ()), "claims")
    found = {**found, **({"home": str(Path(home, str(found.get("home", ""))))} if home else {})}
    both = [_recipes(found, tables, use) for use in (False, True)]
    recipes = both[full]
    parts = {name: parts[name] for name in recipes if name in parts}
    wanted = wanted and [name for one in wanted for name in (_having(one, parts) or [one])]
    for stranger in (one for one in wanted or () if one not in recipes):
        raise ValueError(f"variants: {found['name']} has no {stranger!r}; {closest(stranger, recipes)}")
    groups = _groups(parts)
    known = [method.label for one in both for own in one.values() for method in own.methods]
    for claim in claims:
        for name in (name for name in (claim.method, claim.than) if name not in ("", *known)):
            raise ValueError(f"claims: no variant has a method {name!r}; {closest(name, known)}")
        of_groups = claim.kind == "log-error"
        for named in (named for named in (*claim.variants, claim.largest) if named):
            if named not in (groups if of_groups else tables):
                what = "group of a grid" if of_groups else "variant"
                raise ValueError(f"claims: there is no {what} {named!r}; {closest(named, groups or tables)}")
    published = {name: published_table(one, f"published.{name}") for name, one in found.get("published", {}).items()}
    for stranger in (name for name in published if name not in groups):
        raise ValueError(f"published: there is no group of a grid {stranger!r}; {closest(stranger, groups)}")
    kept = {name: recipe for name, recipe in recipes.items() if wanted is None or name in wanted}
    across = tuple(one for one in claims if one.kind != "above")
    return Plan(
        *(found["name"], found.get("about", ""), kept, across),
        full=full,
        has_full=both[0] != both[1],
        order=tuple(tables),
        groups=groups,
        published=published,
    )


def laid_over(base: Mapping[str, Any], other: Any) -> dict[str, Any]:
    """Tables with what others say differently: a value replaces a value, a table adds to a table.

    >>> laid_over({"k": 1, "data": {"set": "iris"}}, {"data": {"train": 10}})
    {'k': 1, 'data': {'set': 'iris', 'train': 10}}
    """
    if not isinstance(other, Mapping):
        raise ValueError(f"full: expected a table of what differs, found {other!r}")
    merged = dict(base)
    for key, value in other.items():
        both = isinstance(value, Mapping) and isinstance(base.get(key), Mapping)
        # An initial set, a model of another kind or data from elsewhere replace the whole table: its keys are not the
        # old one's.
        whole_table = key in ("initial", "target_inputs", "classes", "parameters") or (
            both
            and (
                (key == "model" and value.get("kind", "") not in ("", base[key].get("kind")))
                or (
                    key == "data"
                    and (("set" in value and "file" in base[key]) or ("file" in value and "set" in base[key]))
                )
            )
        )
        merged[key] = laid_over(base[key], value) if both and not whole_table else value
    return merged


def _grid(axes: Any) -> tuple[dict[str, Any], dict[str, tuple[str, ...]]]:
    """The table of each combination of a grid, and the values that it combines."""
    if not isinstance(axes, Mapping) or not all(isinstance(one, Mapping) and one for one in axes.values()) or not axes:
        raise ValueError(f"grid: expected axes with a table for each value, found {axes!r}")
    for axis, values in axes.items():
        for value, own in values.items():
            folder_name(value, f"grid.{axis}")
            if not isinstance(own, Mapping):
                raise ValueError(f"grid.{axis}.{value}: expected a table of what differs, found {own!r}")
    tables, parts = {}, {}
    for values in product(*axes.values()):
        own = [axes[axis][value] for axis, value in zip(axes, values, strict=True)]
        merged: dict[str, Any] = {}
        for one in own:
            merged = laid_over(merged, one)
        flags = [flag(one.get("full_only", False), "grid.full_only") for one in own]
        name = "-".join(values)
        tables[name], parts[name] = merged | {"full_only": any(flags)}, values
    return tables, parts


def _having(value: str, parts: Mapping[str, tuple[str, ...]]) -> list[str]:
    """The combinations that have a value."""
    return [name for name, values in parts.items() if value in values]


def _groups(parts: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """The combinations by the value of the first axis; all of them where there is only one axis.

    >>> _groups({"a-x": ("a", "x"), "a-y": ("a", "y"), "b-x": ("b", "x")})
    {'a': ('a-x', 'a-y'), 'b': ('b-x',)}
    """
    if any(len(values) == 1 for values in parts.values()):
        return {"all": tuple(parts)}
    firsts = dict.fromkeys(values[0] for values in parts.values())
    return {first: tuple(name for name, values in parts.items() if values[0] == first) for first in firsts}


def published_table(found: Any, where: str) -> dict[str, Any]:
    """Published numbers of a group: a source, the names of errors, and one number per error for each method."""
    if not isinstance(found, Mapping):
        raise ValueError(f"{where}: expected a table of keys and values, found {found!r}")
    columns = each(text)(found.get("columns"), f"{where}.columns")
    values: dict[str, Any] = {"source": text(found.get("source"), f"{where}.source"), "columns": list(columns)}
    for method, row in found.items():
        if method not in values:
            values[method] = list(each(number(-float("inf")))(row, f"{where}.{method}"))
            if len(values[method]) != len(columns):
                raise ValueError(f"{where}.{method}: expected {len(columns)} numbers, found {len(values[method])}")
    return values


def _recipes(found: Mapping[str, Any], tables: Mapping[str, Any], full: bool) -> dict[str, Recipe]:
    """The recipe of each variant, by default or in full."""
    base = {key: value for key, value in found.items() if key not in ("variants", "grid", "published", "full")}
    recipes = {}
    for name, own in tables.items():
        if name:
            folder_name(name, "variants")
        if not isinstance(own, Mapping):
            raise ValueError(f"variants.{name}: expected a table of what differs, found {own!r}")
        if flag(own.get("full_only", False), f"variants.{name}.full_only") and not full:
            continue
        merged = laid_over(base, {key: value for key, value in own.items() if key not in ("full", "full_only")})
        if full:
            merged = laid_over(laid_over(merged, found.get("full", {})), own.get("full", {}))
        merged["name"] = f"{found['name']}-{name}" if name else found["name"]
        try:
            recipe = Recipe.from_table(merged)
        except ValueError as reason:
            raise ValueError(f"{f'variants.{name}.' if name else ''}{'full.' if full else ''}{reason}") from None
        here = [one for one in recipe.claims if one.kind == "above" and (not one.variants or name in one.variants)]
        recipes[name] = replace(recipe, claims=tuple(replace(one, variants=()) for one in here))
    return recipes


def _study(found: Mapping[str, Any], full: bool) -> Plan:
    from natsel.experiments.studies import STUDIES

    keys = {"name": folder_name, "about": text, "study": text, "settings": any_table, "full": any_table}
    values = table(keys, found, needed=("name", "study"))
    if values["study"] not in STUDIES:
        raise ValueError(f"study: found {values['study']!r}; {closest(values['study'], STUDIES)}")
    usual = values.get("settings", {})
    both = [
        table(STUDIES[values["study"]].settings, given, "settings")
        for given in (usual, laid_over(usual, values.get("full", {})))
    ]
    said = {"study": values["study"], "settings": both[full], "full": full, "has_full": both[0] != both[1]}
    return Plan(values["name"], values.get("about", ""), {}, **said)


def _read_toml(name: str | Path) -> tuple[dict[str, Any], str]:
    """The tables of a recipe, and the folder of its file; none for those that ship."""
    path = Path(name)
    if path.suffix == ".toml" or path.is_file():
        try:
            return tomllib.loads(path.read_text(encoding="utf-8")), str(path.resolve().parent)
        except FileNotFoundError:
            words = f"recipe: there is no file {path}; natsel run --list shows the recipes that ship"
            raise ValueError(words) from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as reason:
            raise ValueError(f"recipe: {path} is no TOML ({reason}); mend that line") from None
    known = recipe_names()
    if str(name) not in known:
        raise ValueError(f"recipe: there is no recipe or file {str(name)!r}; {closest(str(name), known)}")
    shipped = resources.files("natsel.experiments") / "recipes" / f"{name}.toml"
    return tomllib.loads(shipped.read_text(encoding="utf-8")), ""
