"""`natsel demo`: the first thing a newcomer sees. The whole of it is slow; a short one runs by default."""

import json
from dataclasses import replace

import pytest

import natsel.experiments.recipe.plan
from natsel.cli import demo
from natsel.experiments.recipe.plan import Plan, load_plan


def test_a_short_demo_ends_with_a_sentence_and_a_report(call, in_process, monkeypatch, tmp_path):
    def short(name):
        recipe = load_plan(name).recipes[""]
        methods = tuple(one for one in recipe.methods if one.label in ("random", "batchbald"))
        data = replace(recipe.data, train=200, test=100)
        return Plan.of(replace(recipe, data=data, budget=30, methods=methods, model={"kind": "logistic", "members": 5}))

    monkeypatch.setattr(natsel.experiments.recipe.plan, "load_plan", short)
    monkeypatch.setattr(demo, "SEEDS", 1)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")
    done = call("demo", "--processes", 1)
    assert done.code == 0, done.err
    assert "Which 10 next?" in done.err
    assert "█" in done.out
    assert "The first digits that batchbald asked for" in done.out
    page = tmp_path / "natsel" / "demo-0" / "report.html"
    assert done.out.splitlines()[-1] == f"The report: {page}"
    assert page.stat().st_size < 1_500_000
    again = call("demo", "--json")  # what is there is shown again
    result = json.loads(again.out)
    assert result["finished"] == 2
    assert result["sentence"] in done.out
    assert result["methods"]["random"]["labels"] == [30]


def test_the_demo_is_the_recipe_that_ships():
    recipe = load_plan("digits").recipes[""]
    assert [method.label for method in recipe.methods] == ["random", "margin", "batchbald", "power-bald"]
    assert recipe.data.set == "digits"
    assert len(recipe.seeds) == demo.SEEDS


def test_the_demo_refuses_what_it_cannot_do(refused, tmp_path):
    (tmp_path / "file").write_text("")
    assert "is a file, or lies in one" in refused("demo", "--json", "--folder", tmp_path / "file" / "below")


@pytest.mark.slow
def test_the_demo_in_full(start, tmp_path):
    done = start("demo", "--json", "--folder", tmp_path)
    assert done.code == 0, done.err
    result = json.loads(done.out)
    assert result["finished"] == 40
    needed = {row["method"]: row["at_least"][1] for row in result["labels_needed"] if row["target"] == 0.9}
    assert min(needed["batchbald"], needed["power-bald"]) < needed["random"]
