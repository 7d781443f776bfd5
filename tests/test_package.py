"""The front doors: every public name resolves to what type checkers see, and nothing heavy comes with it."""

import ast
import importlib
import inspect
import re
import subprocess
import sys
import tomllib
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


@pytest.mark.parametrize("door", DOORS)
def test_every_public_name_resolves_to_what_the_stub_says(door):
    module = importlib.import_module(door)
    for name, (home, original) in announced(door).items():
        assert name in dir(module), name
        found = inspect.unwrap(getattr(module, name))
        if home == door:
            assert found is importlib.import_module(f"{door}.{original}"), name
        else:
            assert found is inspect.unwrap(getattr(importlib.import_module(home), original)), name


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


@pytest.mark.parametrize(
    ("library", "least"), [("pyarrow", "14.0.1"), ("pillow", "10.3"), ("pandas", "2.1"), ("safetensors", "0.4.3")]
)
def test_what_reads_files_has_a_least_version_wherever_it_is_asked_for(library, least):
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    named = [one for one in asked if re.match(r"[\w-]+", one)[0] == library]
    assert set(named) == {f"{library}>={least}"}


IMPORTS = """
import sys

def ours():
    return [name for name in sys.modules if name.startswith("natsel")]

import natsel
assert "torch" not in sys.modules, "natsel brings torch"

# The runner of experiments does not wait for torch, and needs no library of the command line.
sys.modules.update(dict.fromkeys(("typer", "rich", "pydantic")))
import natsel.experiments.running.run
assert "torch" not in sys.modules, "the runner of experiments brings torch"

# A belief brings few modules and no calculus.
for name in ours():
    del sys.modules[name]
import natsel
natsel.CategoricalSamples
found = ours()
assert len(found) <= 30, found
assert not [name for name in found if "calculus" in name], found

natsel.methods()["bald"]
assert "torch" in sys.modules
import natsel.experiments.results.publish  # the page of an experiment needs no such library either

# A diagram asks for matplotlib last, and leaves it as it was.
from natsel.calculus import DiscreteJoint
from natsel.calculus.diagrams import IDiagram
diagram = IDiagram.from_joint(DiscreteJoint.from_counts("XY", [[3, 1], [0, 4]]))
assert diagram.render("text") and "matplotlib" not in sys.modules
import matplotlib
settings = lambda: {name: matplotlib.rcParams[name] for name in matplotlib.rcParams if name != "backend"}
before = settings()
diagram.render("svg")
assert "matplotlib.pyplot" not in sys.modules
assert settings() == before
"""


def test_what_imports_bring():
    """One process answers all: starting it is most of the work."""
    done = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


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
