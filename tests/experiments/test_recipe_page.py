"""docs/recipes.md names every key that the code takes, and no other; its example runs."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

import natsel
from natsel.experiments.recipe.contenders import Contender
from natsel.experiments.recipe.plan import load_plan
from natsel.experiments.recipe.recipe import INITIAL, TARGET_INPUTS, TRAINING, TRANSFORMS, Data, Recipe
from natsel.experiments.results.claims import Claim
from natsel.experiments.results.publish import publish
from natsel.experiments.running.run import run_plan
from natsel.models.kinds import KINDS, kind_called

PAGE = (Path(__file__).parents[2] / "docs" / "recipes.md").read_text(encoding="utf-8")


def rows(heading):
    """The cells of the tables under a heading, without their heads."""
    section = re.split(rf"^#+ {re.escape(heading)}$", PAGE, maxsplit=1, flags=re.M)[1]
    section = re.split(r"^#+ ", section, maxsplit=1, flags=re.M)[0]
    lines = [line for line in section.splitlines() if line.startswith("|") and not line.startswith("|---")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def keys(heading, column=0):
    return {key for row in rows(heading) for key in re.findall(r"`([^`]+)`", row[column])}


def names(table):
    return {one.name for one in fields(table)}


@pytest.mark.parametrize(
    ("heading", "known"),
    [
        ("Keys of a recipe", names(Recipe)),
        ("data", names(Data)),
        ("initial", set(INITIAL)),
        ("methods", names(Contender)),
        ("training", set(TRAINING)),
        ("target_inputs", set(TARGET_INPUTS)),
        ("claims", names(Claim)),
        ("transforms", set(TRANSFORMS)),
    ],
)
def test_the_page_names_every_key_and_no_other(heading, known):
    assert keys(heading) == known


def test_the_page_names_the_keys_of_every_transform_and_every_kind_of_model():
    assert {row[0].strip("`"): set(re.findall(r"`(\w+)`", row[1])) for row in rows("transforms")} == {
        kind: set(checks) for kind, checks in TRANSFORMS.items()
    }
    found = {}
    for kind, named, *_ in rows("model"):
        found.setdefault(kind.strip("`"), set()).update(re.findall(r"`(\w+)`", named))
    shipped = {name: set(kind.options) for name, kind in KINDS.items() if kind.make.__module__ == "natsel.models.kinds"}
    assert found == shipped | {"an import path": set(kind_called("a.b").options)}


def test_the_example_runs(tmp_path):
    text = next(block for block in re.findall(r"```toml\n(.*?)```", PAGE, re.S) if block.startswith("name"))
    iris = natsel.data.load("iris").train
    lines = [",".join(map(str, row)) + f",{iris.classes[iris.labels[n]]}" for n, row in enumerate(iris.inputs)]
    (tmp_path / "flowers.csv").write_text("\n".join(["a,b,c,d,kind", *lines]) + "\n")
    (tmp_path / "flowers.toml").write_text(text)
    plan = load_plan(tmp_path / "flowers.toml").adjusted(methods="random,bald", seeds="0", budget=7)
    outcomes = run_plan(plan, tmp_path / "out", processes=0)
    assert {name: len(one.done) for name, one in outcomes.items()} == {"few": 2, "noisy": 2}
    assert [claim["claim"] for claim in publish(tmp_path / "out").claims] == ["A", "A"]
