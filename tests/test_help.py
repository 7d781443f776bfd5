"""`help` of packages whose names are imported on use has a line for each of them, and `import *` brings them all."""

import importlib
import pickle
import pydoc

import pytest

from natsel.stub_names import listing
from test_package import DOORS, announced


@pytest.mark.parametrize("door", DOORS)
def test_help_has_a_line_for_every_public_name(door):
    said = importlib.import_module(door).__doc__
    lines = dict(line.strip().split(maxsplit=1) for line in said.splitlines() if line.startswith("    "))
    assert set(lines) == set(announced(door))
    assert min(map(len, lines.values())) >= 10, "a name is not described"


def test_help_begins_with_the_docstring_and_the_names():
    shown = pydoc.plain(pydoc.render_doc("natsel.information")).split("FUNCTIONS")[0]
    assert "Usable alone" in shown
    assert "information_gain    I[Ω;y|x]" in shown


def test_constants_are_described_by_the_string_below_them():
    import natsel.models

    said = listing("natsel.models", {"QUICK": "natsel.models.networks.training", "Model": "natsel.models.protocol"})
    assert said.splitlines()[0] == "natsel.models", "parts with one name have no heading of their own"
    assert "    QUICK               For a CPU" in said
    assert natsel.models.QUICK.__doc__ not in said


@pytest.mark.parametrize("door", DOORS)
def test_import_of_everything_brings_every_public_name(door):
    names = {}
    exec(f"from {door} import *", names)
    assert set(names) - {"__builtins__"} == set(announced(door))


@pytest.mark.parametrize("door", DOORS)
def test_functions_that_use_the_package_can_be_sent_to_other_processes(door):
    module = importlib.import_module(door)
    assert pickle.loads(pickle.dumps(module)) is module  # by name, as joblib, Dask and Ray send modules
