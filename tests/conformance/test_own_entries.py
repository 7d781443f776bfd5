"""All of natsel's own entries are in the grid of the conformance suite, and have a reference each."""

import inspect

import pytest

import natsel
import natsel.search
from conformance import references_similarity, references_weights  # noqa: F401  enter their references
from natsel.capabilities import Capability
from natsel.choose.methods import METHODS
from natsel.conformance import REFERENCES, SET_REFERENCES
from natsel.conformance.grid import CASES, OBJECTIVES, PAIRS
from natsel.objectives import Objective
from natsel.search import SEARCHES


def subclasses(base):
    """All classes of natsel below a base, abstract ones left out."""
    for cls in base.__subclasses__():
        yield from subclasses(cls)
        if cls.__module__.startswith("natsel.") and not inspect.isabstract(cls):
            yield cls


def test_every_objective_and_search_is_registered():
    objectives = set(OBJECTIVES)
    assert set(subclasses(Objective)) <= objectives, "an objective that no belief serves"
    exported = {
        value for module in (natsel, natsel.search) for value in vars(module).values() if isinstance(value, type)
    }
    searches = {value for value in exported if isinstance(getattr(value, "needs", None), Capability)}
    assert searches <= set(SEARCHES), "a search missing from SEARCHES"
    assert {type(method.search) for method in METHODS.values()} <= set(SEARCHES)
    assert {type(case.method.objective) for case in CASES} == objectives
    assert {type(case.method.search) for case in CASES} == set(SEARCHES)


@pytest.mark.parametrize("table", [REFERENCES, SET_REFERENCES], ids=["scores", "sets"])
def test_every_pair_has_a_reference(table):
    """Where one has none the suite would leave it out, as it does where natsel is installed without its tests."""
    pairs = [pair for pair in PAIRS if pair.objective.facts.units != "none"]
    if table is SET_REFERENCES:
        pairs = [pair for pair in PAIRS if Capability.GAINS in pair.offers]
    wanted = {(pair.objective.facts.quantity, pair.kind) for pair in pairs}
    assert len(wanted) > 30
    assert not wanted - table.keys()
