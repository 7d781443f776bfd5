"""Searches that compare the values of sets refuse what would take minutes before they begin; the work is counted."""

import math
from types import SimpleNamespace

import pytest
import torch

import natsel
from natsel.capabilities import Capability
from natsel.information.enumeration import GROWING, labellings
from natsel.objectives import Argument, needs_everywhere
from natsel.objectives.readings.draws import eig_categorical, epig_categorical, jepig_categorical
from natsel.search import Exhaustive, ForwardBackward
from natsel.search.patience import A_SECOND, BASE, refuse_long


def draws(count, classes=4, seed=0):
    logits_N_K_C = torch.randn(count, 10, classes, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return natsel.CategoricalSamples(logits_N_K_C.log_softmax(-1), draws_id="these")


STATES = {
    natsel.EIG(): eig_categorical.CategoricalEIG,
    natsel.EPIG(): epig_categorical.CategoricalEPIG,
    natsel.JEPIG(): jepig_categorical.CategoricalJEPIG,
}


def select(objective, search, pool, k):
    targets = draws(9, pool.shape[2], seed=1) if Argument.TARGETS in needs_everywhere(objective) else None
    return natsel.select(natsel.Method(objective, search), pool, k, targets=targets)


@pytest.mark.parametrize(
    ("objective", "search", "count", "k"),
    [
        (natsel.JEPIG(), ForwardBackward(), 60, 4),
        (natsel.JEPIG(), ForwardBackward(), 60, 30),
        (natsel.EPIG(), ForwardBackward(), 60, 7),
        (natsel.EIG(), ForwardBackward(), 2000, 500),
        (natsel.EIG(), Exhaustive(), 46, 4),
        (natsel.EIG(), Exhaustive(), 10_000, 3),
        (natsel.EPIG(), Exhaustive(), 106, 3),
        (natsel.JEPIG(), Exhaustive(), 40, 3),
    ],
    ids=repr,
)
def test_what_takes_minutes_is_refused_before_any_work(objective, search, count, k, monkeypatch):
    asked = []
    for name in ("value", "add", "gains", "bounds"):
        monkeypatch.setattr(STATES[objective], name, lambda *given, name=name: asked.append(name))
    with pytest.raises(ValueError, match=r"^k: .*(more than patience=60 seconds|more than limit).*use Greedy\(\)"):
        select(objective, search, draws(count, classes=10 if objective == natsel.EIG() else 4), k)
    assert asked == []


@pytest.mark.parametrize(
    ("module", "objective", "search", "count", "k"),
    [
        (jepig_categorical, natsel.JEPIG(), ForwardBackward(), 60, 2),
        (epig_categorical, natsel.EPIG(), ForwardBackward(), 60, 3),
        (epig_categorical, natsel.EPIG(), Exhaustive(), 12, 2),
        (jepig_categorical, natsel.JEPIG(), Exhaustive(), 5, 1),
    ],
    ids=repr,
)
def test_what_is_not_refused_takes_no_more_work_than_was_foreseen(module, objective, search, count, k, monkeypatch):
    """Counted are the children of rows, on which nearly all time goes."""
    looked, foreseen, inside = [], [], []
    value, expand = STATES[objective].value, module.expand

    def counted(state, positions):
        foreseen.append(state.operations(len(positions)) / GROWING / 10)
        inside.append(True)
        found = value(state, positions)
        inside.pop()
        return found

    def seen(rows, probs_K_C):
        looked.append(rows.count * probs_K_C.shape[1] if inside else 0)
        return expand(rows, probs_K_C)

    monkeypatch.setattr(STATES[objective], "value", counted)
    monkeypatch.setattr(module, "expand", seen)
    select(objective, search, draws(count), k)
    assert 0 < sum(looked) <= sum(foreseen)
    assert sum(foreseen) <= 3 * sum(looked) + 1000  # and not refused for nothing


def test_the_children_looked_at_are_counted_as_they_are_grown():
    rows, seen = eig_categorical.prior_rows(torch.zeros(6)), 0
    for log_probs_K_C in torch.randn(5, 6, 3, generator=torch.Generator().manual_seed(0)).log_softmax(-1):
        seen += 3 * rows.count
        rows = eig_categorical.grow(eig_categorical.expand(rows, log_probs_K_C.exp()), 50, 0.5)
    assert labellings(1, 3, 5, most=1 << 20) == 3 + 9 + 27 + 81 + 243
    assert seen <= labellings(1, 3, 5, most=50) == 3 + 9 + 27 + 81 + 150


def test_the_sets_foreseen_are_those_asked_for():
    """Every value that forward–backward and exhaustive ask for is in the estimate, which is refused below it."""
    asked = []
    state = SimpleNamespace(
        offers=Capability.GAINS | Capability.VALUE | Capability.OPERATIONS,
        submodular=True,
        exact=True,
        remaining=math.inf,
        prefers_racing=False,
        tie=1e-10,
        total=0.0,
        bounds=lambda: torch.ones(9, dtype=torch.float64),
        gains=lambda positions: torch.ones(len(positions), dtype=torch.float64),
        add=lambda position: 1.0,
        value=lambda positions: asked.append(len(positions)) or float(len(positions)),
        operations=lambda size: 1e6 * size,
    )
    for search in (ForwardBackward, Exhaustive):
        asked.clear()
        search(patience=math.inf)(state, 3, torch.ones(9, dtype=torch.bool), torch.Generator())
        seconds = sum(BASE * (1 + size) + 1e6 * size for size in asked) / A_SECOND
        again = len(asked)
        with pytest.raises(ValueError, match=rf"^k: the values of {again} sets of up to {max(asked)} points"):
            search(patience=0.999 * seconds)(state, 3, torch.ones(9, dtype=torch.bool), torch.Generator())
        assert len(asked) == again
        search(patience=1.001 * seconds)(state, 3, torch.ones(9, dtype=torch.bool), torch.Generator())


def test_how_long_is_told_in_words():
    state = SimpleNamespace(
        offers=Capability.VALUE | Capability.OPERATIONS, operations=lambda size: A_SECOND - BASE * (1 + size)
    )
    for count, words in ((61, "61 seconds"), (200, "3 minutes"), (7300, "2 hours"), (10**8, "1,200 days")):
        with pytest.raises(
            ValueError, match=f"about {words}, more than patience=60 seconds; lower k, or raise patience$"
        ):
            refuse_long(state, {4: count}, 60.0, "lower k")


@pytest.mark.parametrize("search", [ForwardBackward, Exhaustive])
def test_patience_is_a_number_of_seconds(search):
    for wrong in (0, -1.0, math.nan):
        with pytest.raises(ValueError, match=r"^patience: found"):
            search(patience=wrong)
