"""What all commands share, and `natsel methods`."""

import ast
import json
from pathlib import Path

import pytest

import natsel
import natsel.cli
from natsel.choose.recommended import RECOMMENDED
from natsel.cli.pictures import SIZE, gallery, picture

COMMANDS = (
    "demo",
    "select",
    "evaluate",
    "triage",
    "irreducible-loss",
    "methods",
    "info",
    "run",
    "report",
    "journal",
    "bench",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_help_shows_an_example(call, command):
    done = call(command, "--help")
    assert done.code == 0
    assert f"Example: natsel {command}" in done.out


def test_help_and_version(call, refused):
    assert call("--version").out == f"natsel {natsel.__version__}\n"
    for arguments in ((), ("--help",)):
        done = call(*arguments)
        assert done.code == 0
        assert all(command in done.out for command in COMMANDS)
    assert "No such command 'sellect'; did you mean 'select'? natsel --help shows how" in refused("sellect")


def test_errors_name_the_help_of_their_command(refused):
    assert "Missing argument 'file'; natsel select --help shows how" in refused("select")
    assert "natsel select --help shows how" in refused("select", "-k")
    assert "natsel select --help shows how" in refused("select", "--no-such-option")
    assert "natsel journal --help shows how" in refused("journal", "expo")
    assert "natsel journal check --help shows how" in refused("journal", "check")
    assert "No such option: --plugins" in refused("--plugins", "x", "methods")


def test_help_need_not_wait_for_heavy_imports():
    folder = Path(natsel.cli.__file__).parent
    for file in folder.glob("*.py"):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            if isinstance(node, ast.ImportFrom) and [alias.name for alias in node.names] == ["threads"]:
                continue  # needs the standard library alone, and has to come before torch
            for name in set(names) - {"natsel.texts"}:  # which needs no more
                assert not name.startswith(("torch", "numpy", "scipy", "sklearn", "rich")), (file.name, name)
                assert not name.startswith("natsel") or name.startswith("natsel.cli"), (file.name, name)


def test_methods_lists_every_registered_method(call):
    entries = json.loads(call("methods", "--json").out)
    assert [entry["name"] for entry in entries] == list(natsel.methods())
    by_name = {entry["name"]: entry for entry in entries}
    assert by_name["power-bald"]["search"] == "Power"
    assert by_name["power-bald"]["beta"] == 8
    assert by_name["batchbald"]["beliefs"]["CategoricalSamples"]["submodular"] is True
    assert "eig" in by_name["bald"]["aliases"]
    assert by_name["ig"]["needs"] == ["labels"]


def whole_words(text):
    """The words of a text, however it is broken into lines; a word that was broken or cut would be another."""
    return set(text.split())


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_methods_fit_the_terminal(call, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    few, done = call("methods"), call("methods", "--all")
    assert max(map(len, (few.out + done.out).splitlines())) <= width
    assert "…" not in few.out.replace("y*…", "") + done.out.replace("*…", "")
    first_words = [line.split()[0] for line in done.out.splitlines() if line.strip()]
    for name, method in natsel.methods().items():
        assert name in first_words
        assert all(alias in done.out for alias in method.aliases)
    for one in RECOMMENDED:
        assert {one.name, *one.when.split()} <= whole_words(few.out)
    assert first_words.count("EIG") == first_words.count("EPIG") == first_words.count("LogDet") == 1, "one card each"
    assert len(few.out.splitlines()) < 40


@pytest.mark.parametrize("width", [40, 60, 100])
def test_words_stay_whole_on_narrow_terminals(call, monkeypatch, preds, width):
    monkeypatch.setenv("COLUMNS", str(width))
    for more in ((), ("--explain",)):
        done = call("select", preds, "--probs", "-m", "bald", "-k", 3, *more)
        assert max(map(len, done.out.splitlines())) <= width
        assert "…" not in done.out
        scores = [
            f"{score:.4f}"
            for score in json.loads(call("select", preds, "--probs", "-m", "bald", "-k", 3, "--json").out)["scores"]
        ]
        assert set(scores) <= whole_words(done.out)
    document = {
        "rows": [],
        "machine": {"cpu": "a processor with a name that is long enough to be broken", "cores": 2},
        "threads": 1,
    }
    monkeypatch.setattr("natsel.bench.measure", lambda *_, **__: document)
    shown = call("bench").err
    assert max(map(len, shown.splitlines())) <= width
    assert whole_words(document["machine"]["cpu"]) <= whole_words(shown.replace(",", ""))


@pytest.mark.parametrize("width", [40, 60, 80])
def test_the_board_of_runs_fits_the_terminal(width):
    from types import SimpleNamespace

    from rich.console import Console

    from natsel.cli.live import Board

    methods = [SimpleNamespace(label=label) for label in ("random", "power-bald")]
    board = Board(SimpleNamespace(name="demo", methods=methods, seeds=range(10), budget=150, budget_counts="labels"))
    for labels in range(20, 150, 5):
        board.take(
            {"event": "round", "method": "power-bald", "seed": 0, "labels": labels, "metrics": {"accuracy": 0.9}}
        )
    console = Console(width=width)
    with console.capture() as shown:
        console.print(board.table(width))
    assert {"power-bald", "145/150", "90.0%"} <= whole_words(shown.get())
    assert "…" not in shown.get()


def test_pictures_keep_their_size():
    import numpy as np

    image = np.eye(8)
    for colour, unicode in ((True, True), (False, True), (False, False)):
        lines = picture(image, colour, unicode)
        assert [line.cell_len for line in lines] == [SIZE] * (SIZE // 2)
    assert all(ord(mark) < 128 for line in picture(image, False, False) for mark in line.plain)
    rows = gallery([picture(image, False)] * 7, ["a"] * 7, width=80)
    assert len(rows) == 2 * (SIZE // 2 + 2)
    assert max(row.cell_len for row in rows) <= 80


def test_the_grid_page_is_what_the_registry_prints(start):
    printed = start("methods", "--markdown")
    assert printed.code == 0, printed.err
    page = Path(__file__).parents[2] / "docs" / "grid.md"
    assert printed.out == page.read_text(encoding="utf-8"), "call natsel methods --markdown > docs/grid.md"
