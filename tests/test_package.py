"""The front doors: every public name resolves to what type checkers see, and nothing heavy comes with it."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import natsel

DOORS = ("natsel", "natsel.models", "natsel.information")


def stub_of(door):
    return Path(importlib.import_module(door).__file__).with_suffix(".pyi")


def announced(door):
    """Public name to the module and the name there, as the stub says to type checkers."""
    lines = [node for node in ast.parse(stub_of(door).read_text()).body if isinstance(node, ast.ImportFrom)]
    return {alias.asname: (line.module, alias.name) for line in lines for alias in line.names}


def run(code):
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize(("door", "name"), [(door, name) for door in DOORS for name in sorted(announced(door))])
def test_every_public_name_resolves_to_what_the_stub_says(door, name):
    module = importlib.import_module(door)
    home, original = announced(door)[name]
    assert name in dir(module)
    found = getattr(module, name)
    if home == door:
        assert found is importlib.import_module(f"{door}.{original}")
    else:
        assert found is getattr(importlib.import_module(home), original)


@pytest.mark.parametrize("door", DOORS)
def test_names_are_exported_as_themselves_and_stand_in_no_other_list(door):
    assert all(name == original for name, (_, original) in announced(door).items())
    assert stub_of(door).with_suffix(".py").read_text().count("import") <= 5  # with the words of the docstring


def test_a_name_is_no_module_of_the_same_package():
    """Else which of the two is found would depend on what was imported before."""
    for door in DOORS:
        beside = {path.stem for path in stub_of(door).parent.iterdir()}
        assert not [name for name, (home, _) in announced(door).items() if name in beside and home != door]


def test_unknown_names_are_refused_as_usual():
    for door in DOORS:
        with pytest.raises(AttributeError, match=f"module '{door}' has no attribute 'bald'"):
            importlib.import_module(door).bald  # noqa: B018  the look-up is the test


def test_importing_natsel_does_not_import_torch():
    run(
        "import natsel, sys; assert 'torch' not in sys.modules; natsel.methods()['bald']; assert 'torch' in sys.modules"
    )


def test_a_belief_brings_few_modules_and_no_calculus():
    found = run(
        "import sys, natsel; natsel.CategoricalSamples; print(*(n for n in sys.modules if 'natsel' in n))"
    ).split()
    assert len(found) <= 30
    assert not [name for name in found if "calculus" in name]


def test_methods_is_a_function_whatever_was_imported_before():
    from natsel.choose.methods import METHODS

    assert natsel.methods() == METHODS


def test_no_two_files_and_no_two_public_classes_share_a_name():
    """So that a search of the text finds one place. Files of the command line are named after their commands."""
    root = Path(natsel.__file__).parent
    files = [
        path
        for path in root.rglob("*.py")
        if path.stem not in ("__init__", "__main__") and path.parent.name not in ("cli", "conformance")
    ]
    stems = [path.stem for path in files]
    assert not sorted({stem for stem in stems if stems.count(stem) > 1})
    classes = [
        node.name for path in files for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)
    ]
    assert not sorted({name for name in classes if classes.count(name) > 1})


def bare_any(annotation: ast.expr | None) -> int:
    """How often an annotation is Any itself, or a union with it: dict[str, Any] says at least that it is a table."""
    if isinstance(annotation, ast.BinOp):
        return bare_any(annotation.left) + bare_any(annotation.right)
    return int(isinstance(annotation, ast.Name) and annotation.id == "Any")


@pytest.mark.parametrize(
    ("room", "most"), [("capabilities.py", 0), ("objectives", 0), ("search", 0), ("choose", 0), ("beliefs", 6)]
)
def test_the_middle_is_typed(room, most):
    """No bare Any in a signature between the three nouns; readings and searches do not get round the type checker."""
    place = Path(natsel.__file__).parent / room
    texts = [path.read_text() for path in ([place] if place.is_file() else sorted(place.rglob("*.py")))]
    found = 0
    for node in (node for text in texts for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)):
        named = node.args
        taken = [*named.posonlyargs, *named.args, *named.kwonlyargs, *filter(None, (named.vararg, named.kwarg))]
        found += sum(bare_any(one.annotation) for one in taken) + bare_any(node.returns)
    assert found <= most
    if room in ("objectives", "search", "capabilities.py"):
        assert not [text for text in texts if "type: ignore" in text]
        asserts = [node for text in texts for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Assert)]
        assert not asserts, "a state narrows by its type, not by an assertion"
        assert not [text for text in texts if "hasattr(state" in text or "getattr(state" in text]
