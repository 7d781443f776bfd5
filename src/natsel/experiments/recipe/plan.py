"""A plan: what a recipe's file makes. One experiment, several variants of one, or a study that learns no curve.

    [variants.redundant]         laid over the rest of the file: a recipe of its own, in a folder of its own
    [variants.redundant.full]    what its published protocol does differently, beside [full]; a variant that says
                                 full_only = true is run there alone
    study = "gp-example"         a small program of its own (`natsel.experiments.studies`) with [settings]

Claims of kind `gap` and `falls` compare variants and belong to the plan; all others belong to each recipe they name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from natsel.experiments.recipe import schema
from natsel.experiments.recipe.checks import closest, each, flag, table, text
from natsel.experiments.recipe.contenders import contenders, seed_list
from natsel.experiments.recipe.declared_claims import Claim, claim
from natsel.experiments.recipe.recipe import Recipe, laid_over, read_toml, recipe_from


@dataclass(frozen=True)
class Plan:
    """What one file describes: recipes by variant (one named "" where there are none), or a study.

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
    settings: Mapping[str, Any] | None = None
    full: bool = False
    order: tuple[str, ...] = ()
    """All variants of the file, also those not wanted now."""

    @property
    def recipe(self) -> Recipe | None:
        """The recipe, where there is just one without variants."""
        return self.recipes.get("")

    def as_dict(self) -> dict[str, Any]:
        """As plain values, for `plan.json` and for machines."""
        if self.recipe is not None:
            return self.recipe.as_dict()
        found: dict[str, Any] = {"name": self.name, "about": self.about, "full": self.full}
        if self.study:
            return found | {"study": self.study, "settings": dict(self.settings or {})}
        claims = [one.as_dict() for one in self.claims]
        return found | {"variants": {name: one.as_dict() for name, one in self.recipes.items()}, "claims": claims}

    def adjusted(self, *, methods: str | None = None, seeds: str | None = None, budget: int | None = None) -> "Plan":
        """The plan with what a command line says otherwise.

        >>> load_plan("digits").adjusted(methods="bald", seeds="0-2", budget=40).recipe.seeds
        (0, 1, 2)
        """
        if self.study:
            given = [name for name, value in (("methods", methods), ("seeds", seeds), ("budget", budget)) if value]
            if given:
                raise ValueError(f"{given[0]}: {self.name} is a study, which takes none; leave --{given[0]} out")
            return self

        changed = {
            name: adjusted(one, methods=methods, seeds=seeds, budget=budget) for name, one in self.recipes.items()
        }
        return replace(self, recipes=changed)


def adjusted(
    recipe: Recipe, *, methods: str | None = None, seeds: str | None = None, budget: int | None = None
) -> Recipe:
    """A recipe with what a command line says otherwise.

    >>> from natsel.experiments.recipe.recipe import load_recipe
    >>> adjusted(load_recipe("digits"), methods="bald", seeds="0-2", budget=40).seeds
    (0, 1, 2)
    """
    return replace(
        recipe,
        methods=recipe.methods if methods is None else contenders(methods, recipe.methods),
        seeds=recipe.seeds if seeds is None else seed_list(seeds),
        budget=recipe.budget if budget is None else budget,
    )


def load_plan(name: str | Path, *, full: bool = False, variants: Sequence[str] | str | None = None) -> Plan:
    """The plan of a file or of a recipe that ships; `variants` are those wanted, as a list or with commas between.

    >>> list(load_plan("epig-mnist", variants="redundant").recipes)
    ['redundant']
    """
    return plan_from(read_toml(name), full=full, variants=variants)


def plan_from(found: Mapping[str, Any], *, full: bool = False, variants: Sequence[str] | str | None = None) -> Plan:
    """A plan from the tables of a TOML file; a slip in a part that is not wanted is refused too.

    >>> iris = {"name": "a", "data": {"set": "iris"}, "model": {"kind": "forest"}, "methods": ["bald"], "budget": 20}
    >>> list(plan_from(iris | {"variants": {"few": {}, "many": {"budget": 50}}}).recipes)
    ['few', 'many']
    """
    if not isinstance(found, Mapping):
        raise ValueError(f"recipe: expected a table of keys and values, found {found!r}")
    wanted = [one.strip() for one in variants.split(",")] if isinstance(variants, str) else variants
    if "study" in found:
        return _study(found, full, wanted)
    if "variants" not in found:
        _no_variants(found, wanted)
        recipe = recipe_from(found, full=full)
        return Plan(recipe.name, recipe.about, {"": recipe}, full=full)
    both = {use: _recipes(found, use) for use in (False, True)}
    recipes = both[full]
    strangers = [one for one in wanted or () if one not in recipes]
    if strangers:
        raise ValueError(f"variants: {found.get('name')} has no {strangers[0]!r}; {closest(strangers[0], recipes)}")
    claims = tuple(one for one in _claims(found) if one.kind != "above")
    for one in _claims(found):
        for named in (*one.variants, *filter(None, [one.largest])):
            if named not in found["variants"]:
                raise ValueError(f"claims: there is no variant {named!r}; {closest(named, found['variants'])}")
    kept = {name: recipe for name, recipe in recipes.items() if wanted is None or name in wanted}
    order = tuple(found["variants"])
    return Plan(str(found.get("name")), str(found.get("about", "")), kept, claims, full=full, order=order)


def _recipes(found: Mapping[str, Any], full: bool) -> dict[str, Recipe]:
    tables = found["variants"]
    if not isinstance(tables, Mapping) or not tables:
        raise ValueError(f"variants: expected a table for each, found {tables!r}")
    base = {key: value for key, value in found.items() if key not in ("variants", "full", "claims")}
    claims = _claims(found)
    recipes = {}
    for name, own in tables.items():
        schema.name(name, "variants")
        if not isinstance(own, Mapping):
            raise ValueError(f"variants.{name}: expected a table of what differs, found {own!r}")
        if flag(own.get("full_only", False), f"variants.{name}.full_only") and not full:
            continue
        merged = laid_over(base, {key: value for key, value in own.items() if key not in ("full", "full_only")})
        if full:
            merged = laid_over(laid_over(merged, found.get("full", {})), own.get("full", {}))
        merged["name"] = f"{found.get('name')}-{name}"
        merged["claims"] = [
            {key: value for key, value in one.as_dict().items() if key != "variants"}
            for one in claims
            if one.kind == "above" and (not one.variants or name in one.variants)
        ]
        try:
            recipes[name] = recipe_from(merged)
        except ValueError as reason:
            raise ValueError(f"variants.{name}.{reason}") from None
    return recipes


def _claims(found: Mapping[str, Any]) -> tuple[Claim, ...]:
    return tuple(each(claim, at_least=0)(found.get("claims", ()), "claims"))


def _study(found: Mapping[str, Any], full: bool, wanted: Sequence[str] | None) -> Plan:
    from natsel.experiments.studies import STUDIES

    keys: dict[str, Any] = {"name": schema.name, "about": text, "study": text, "settings": _table, "full": _table}
    values = table(keys, found)
    for key in ("name", "study"):
        if key not in values:
            raise ValueError(f"{key}: the recipe does not say; add it")
    _no_variants(found, wanted)
    if values["study"] not in STUDIES:
        raise ValueError(f"study: found {values['study']!r}; {closest(values['study'], STUDIES)}")
    settings = values.get("settings", {})
    for use, given in ((False, settings), (True, laid_over(settings, values.get("full", {})))):
        checked = table(STUDIES[values["study"]].settings, given, "settings.")
        if use == full:
            settings_now = checked
    return Plan(values["name"], values.get("about", ""), {}, (), values["study"], settings_now, full)


def _table(value: Any, key: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{key}: expected a table of keys and values, found {value!r}")
    return dict(value)


def _no_variants(found: Mapping[str, Any], wanted: Sequence[str] | None) -> None:
    if wanted is not None:
        raise ValueError(f"variants: {found.get('name')} has none; leave --variants out")
