"""Streams of other encodings, folders that cannot be made, and names that mean two things."""

import io
import sys
from pathlib import Path

import pytest

from natsel.cli import main
from natsel.experiments.recipe.plan import load_plan
from natsel.experiments.running.run import run_plan

TOML = """
name = "small"
about = "does it hold?"
k = 4
budget = 7
seeds = 1
methods = ["random", "bald"]
targets = [0.5]
initial = { per_class = 1 }
data = { set = "iris" }
model = { kind = "forest", trees = 3 }

[[claims]]
claim = "≥ ☃"
says = "bald ≥ random"
method = "bald"
than = "random"
"""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    """A recipe with signs that few encodings have."""
    path = tmp_path_factory.mktemp("elsewhere") / "small.toml"
    path.write_text(TOML, encoding="utf-8")
    return path


@pytest.mark.parametrize("encoding", ["cp1252", "iso-8859-1"])
def test_signs_that_an_encoding_lacks_become_question_marks(recipe, encoding, monkeypatch):
    run_plan(load_plan(recipe), recipe.parent / "runs", processes=0)
    for command in (("report", recipe.parent / "runs"), ("methods", "--all"), ("info", "I[X;Y]")):
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding=encoding) for _ in range(2))
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(sys, "stderr", err)
        assert main(list(map(str, command))) == 0
        out.flush()
        said = out.buffer.getvalue().decode(encoding)
        assert command[0] != "report" or ("? ?  bald ? random" in said and "The report: " in said)


@pytest.fixture
def closed(tmp_path, monkeypatch):
    """A home in which no folder can be made."""
    (tmp_path / "file").write_text("in the way")
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(tmp_path / "file" / "home"))
    monkeypatch.delenv("NATSEL_CACHE", raising=False)
    monkeypatch.delenv("NATSEL_DATA", raising=False)

    def refuse(self, *_, **__):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "mkdir", refuse)


def test_a_home_that_cannot_be_written_is_told_with_what_to_do(refused, closed):
    said = refused("demo", "--json")
    assert "cannot be made (Permission denied); name another one, with --folder" in said
    said = refused("data", "get", "trec", "--from", "https://natsel.invalid/")
    assert "cannot be made (Permission denied); set NATSEL_CACHE to another" in said


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "my rows.csv"
    path.write_text("a,kind\n" + "".join(f"{row},{'cat' if row % 3 else 'dog'}\n" for row in range(40)))
    return path


def test_what_is_said_to_type_can_be_typed(call, table):
    done = call("run", "--new", "C é.toml", "--data", table, "--labels", "kind")
    assert done.code == 0, done.err
    assert done.out.endswith("then: natsel run 'C é.toml'\n")


def test_a_recipe_that_could_not_be_written_leaves_no_file(refused, call, table, monkeypatch):
    """The next call is not told that there is one already."""
    monkeypatch.setattr("natsel.experiments.recipe.new_recipe.new_recipe", lambda *_, **__: "no such sign: \ud800")
    command = ("run", "--new", "my.toml", "--data", table, "--labels", "kind")
    assert "surrogates not allowed" in refused(*command)
    assert sorted(path.name for path in Path().iterdir()) == ["my rows.csv"]
    monkeypatch.undo()
    monkeypatch.chdir(table.parent)
    assert call(*command).code == 0
    assert "there is no folder" in refused("run", "--new", "no/my.toml", "--data", table, "--labels", "kind")


@pytest.mark.parametrize("command", [("prune", "--method", "random"), ("irreducible-loss", "--out", "il.safetensors")])
def test_a_folder_called_as_a_data_set_is_named_by_its_path(command, call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "digits").mkdir()

    def told(make, examples, **_):
        raise ValueError(f"{len(examples):,} examples")

    monkeypatch.setattr("natsel.sampling.irreducible_loss.IrreducibleLoss.cross_fitted", told)
    done = call(command[0], "digits", *command[1:])
    assert "digits is taken as the data set of that name; write ./digits for what lies here" in done.err
    assert "1,258 examples" in done.out + done.err
