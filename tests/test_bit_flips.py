"""A flipped bit in a file that natsel keeps for itself is refused or changes nothing, by a program with a seed."""

import json

import pytest

from flipped_bits import FOR_OTHERS, KINDS, RECIPE, outcomes, writers
from natsel.experiments.recipe.plan import Plan
from natsel.experiments.recipe.recipe import Recipe
from natsel.experiments.running.run import run_plan


def complaints(found):
    return [f"{verdict}: {file}, bit {bit}: {said}" for verdict, said, file, bit in found if verdict in WRONG]


WRONG = ("raw", "silent")


def test_no_flipped_bit_is_raw_or_silent(tmp_path):
    found = list(outcomes(0, 6 * len(KINDS), tmp_path))
    assert not complaints(found)
    assert sum(verdict == "refused" for verdict, *_ in found) > len(found) / 2, "flips hit nothing that matters"


@pytest.mark.slow
def test_no_flipped_bit_of_thousands_is_raw_or_silent(tmp_path):
    assert not complaints(outcomes(1, 4000, tmp_path))


def test_the_folder_of_an_experiment_holds_digests(tmp_path):
    recipe = Recipe.from_table(RECIPE | {"methods": ["random"], "seeds": 1, "budget": 7})
    run_plan(Plan.of(recipe), tmp_path, processes=0)
    files = list(tmp_path.rglob("*.json"))
    assert {path.name for path in files} == {"recipe.json", "data.json", "seed-0.json"}
    assert all("natsel_digest" in json.loads(path.read_text()) for path in files)


def test_every_module_that_writes_is_flipped_or_writes_for_others():
    flipped = {module for kind in KINDS for module in kind.modules}
    assert writers() == flipped | set(FOR_OTHERS)
    assert not flipped & set(FOR_OTHERS)
