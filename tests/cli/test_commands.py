"""What all commands share, and `natsel methods`."""

import ast
import json
from pathlib import Path

import pytest

import natsel
import natsel.cli
from natsel.cli.pictures import SIZE, gallery, picture

COMMANDS = ("demo", "select", "methods", "info", "run", "report", "journal", "bench")


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
    assert "No such command 'sellect'" in refused("sellect")


def test_help_need_not_wait_for_heavy_imports():
    folder = Path(natsel.cli.__file__).parent
    for file in folder.glob("*.py"):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            for name in names:
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


@pytest.mark.parametrize("width", [80, 120])
def test_methods_fit_the_terminal(call, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    done = call("methods")
    lines = done.out.splitlines()
    assert max(map(len, lines)) <= width
    first_words = [line.split()[0] for line in lines if line.strip()]
    for name, method in natsel.methods().items():
        assert name in first_words
        assert all(alias in done.out for alias in method.aliases)


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
