"""The front door: every public name resolves, to the same thing type checkers see, and nothing heavy comes with it."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import natsel


def announced() -> dict[str, str]:
    """Public name to module, as the imports for type checkers say."""
    tree = ast.parse(Path(natsel.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    return {
        alias.asname: node.module for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }


def test_both_lists_of_names_agree():
    names = {name: module for name, module in announced().items() if name != "information"}
    assert names == {name: f"natsel.{room}" for name, room in natsel._ROOM_OF.items()}


@pytest.mark.parametrize("name", sorted(announced()))
def test_every_public_name_resolves(name):
    assert name in dir(natsel)
    assert getattr(natsel, name) is not None


def test_unknown_names_are_refused_as_usual():
    with pytest.raises(AttributeError, match="no attribute 'bald'"):
        getattr(natsel, "bald")  # noqa: B009  the look-up is the test


def test_importing_natsel_does_not_import_torch():
    code = (
        "import natsel, sys; assert 'torch' not in sys.modules; natsel.methods()['bald']; assert 'torch' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_methods_is_a_function_whatever_was_imported_before():
    import natsel.choose.methods

    assert natsel.methods() == natsel.choose.methods.METHODS
