"""`natsel data`: the list, one set in full, and fetching one, from files on this machine in place of the web."""

import inspect
import json
from pathlib import Path

import pytest

import natsel.data
from made_originals import ORIGINALS
from natsel.data import catalogue, names
from test_pages import blocks, run_page

PAGE = Path(__file__).parents[2] / "docs" / "data.md"


@pytest.fixture
def stranger(tmp_path, monkeypatch):
    """A machine without data: what `load` looks in is empty."""
    monkeypatch.setenv("NATSEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(
        "natsel.data.folders.data_folders",
        lambda folder=None: (tmp_path / "cache" / "data" if folder is None else Path(folder),),
    )
    return tmp_path


@pytest.fixture
def trec(tmp_path):
    """The original files of a small set, in a folder."""
    folder = tmp_path / "originals"
    folder.mkdir()
    for name, content in next(made.files for made in ORIGINALS if made.name == "trec").items():
        (folder / name).write_bytes(content)
    return folder


def test_list_names_every_set_with_its_licence_and_home(call, stranger, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    entries = json.loads(call("data", "--json").out)
    assert [entry["name"] for entry in entries] == list(names())
    shown = call("data")
    lines = [line.rstrip() for line in shown.out.splitlines()]
    for entry in entries:
        assert entry["licence"] in shown.out
        assert entry["home"] in shown.out
        assert (entry["paths"] == []) == entry["always_there"]
        assert (entry["paths"] is None) == (f"    not here: natsel data get {entry['name']}" in lines)
    assert f"{len(entries)} data sets, 7 of them here;" in shown.out


@pytest.mark.parametrize("width", [60, 120])
def test_list_and_card_fit_the_terminal(call, stranger, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    for arguments in (("data",), ("data", "mnist"), ("data", "cifar10")):
        assert max(map(len, call(*arguments).out.splitlines())) <= width


def test_one_set_in_full(call, refused, stranger, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    shown = call("data", "mnist").out
    origin = catalogue()["mnist"].origin
    for said in (origin.licence, origin.digest, *origin.download.addresses, *origin.download.files.values()):
        assert said in shown
    assert "x_train uint8 [60000, 28, 28]" in shown
    assert "no; natsel data get mnist fetches it" in shown
    assert json.loads(call("data", "iris", "--json").out)["always_there"] is True
    assert "did you mean 'mnist'" in refused("data", "minst")
    assert "natsel data get mnist" in refused("data", "mnist", "--check")


def test_get_fetches_once_and_load_finds_it(call, refused, stranger, trec):
    assert "--unchecked" in refused("data", "get", "trec", "--from", trec)
    assert not list((stranger / "cache").rglob("*.npz"))
    done = call("data", "get", "trec", "--from", trec, "--unchecked")
    path = stranger / "cache" / "data" / "trec.npz"
    assert done.out == f"trec is in {path}: not checked; licence: none stated, research use; cite Li and Roth 2002\n"
    assert len(natsel.data.load("trec").train) == 3
    assert call("data", "get", "trec").out == f"trec is here already: {path}\n"
    said = json.loads(call("data", "get", "trec", "--json").out)
    assert said == [{"name": "trec", "fetched": False, "paths": [str(path)]}]
    assert json.loads(call("data", "trec", "--check", "--json").out)["as_published"] is False
    assert call("data", "get", "trec", "--from", trec, "--unchecked", "--folder", stranger / "own").code == 0
    assert (stranger / "own" / "trec.npz").is_file()


def test_get_refuses_before_anything_is_fetched(refused, stranger, trec):
    assert "did you mean 'trec'" in refused("data", "get", "sst2", "trek")
    assert "fetch them one by one" in refused("data", "get", "sst2", "trec", "--from", trec)
    assert "iris is always there" in refused("data", "get", "iris")
    assert not (stranger / "cache").exists()


def test_help_shows_examples(call):
    assert "Example: natsel data" in call("data", "--help").out
    assert "Example: natsel data get mnist" in call("data", "get", "--help").out


def test_page_holds_the_tables_that_the_command_prints_and_its_code_runs(call):
    page = PAGE.read_text(encoding="utf-8")
    for table in call("data", "--markdown").out.split("\n\n"):
        assert table in page, "put the tables of natsel data --markdown into docs/data.md"
    assert run_page(PAGE) == sum(block.language == "python" for block in blocks(PAGE)) == 4


def test_help_of_the_package_has_a_line_for_every_public_name():
    said = [line.split()[0] for line in natsel.data.__doc__.splitlines() if line.startswith("    ")]
    public = [
        name for name, value in vars(natsel.data).items() if not name.startswith("_") and not inspect.ismodule(value)
    ]
    assert sorted(said) == sorted(public)
