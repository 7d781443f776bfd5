"""The measurement of EPIG says what it measured; how fast it is, a busy machine cannot say."""

import pytest

from natsel.bench import epig_batches
from natsel.bench.cases import measurement_of
from natsel.bench.epig_scores import measure
from natsel.information.predictive_information import over_targets
from natsel.objectives.readings.draws import epig_categorical

pytestmark = pytest.mark.usefixtures("frozen")


def test_the_figures_are_complete():
    found = measure(points=300, targets=40, draws=10, classes=4, pick=7, repeat=2)
    assert found["same_picks"] is True
    assert len(found["positions"]) == 7
    assert 7 <= found["looked_at"] <= 300
    assert found["largest_difference"] < 1e-5
    for name in ("ours", "bare", "plain", "picks"):
        assert found[name]["seconds"] > 0
        assert len(found[name]["seconds_runs"]) == 2


def test_large_pools_are_scored_in_part():
    found = measure(points=500, targets=40, draws=6, classes=3, pick=5, scored=100)
    assert (found["scored"], found["same_picks"]) == (100, None)
    _, settings = measurement_of("epig-large:points=400,targets=30,pick=3")
    assert settings | {"points": 400, "targets": 30, "draws": 20, "scored": 200, "pick": 3} == settings
    found = measure(**settings)
    assert (found["scored"], found["same_picks"], len(found["positions"])) == (200, None, 3)


def test_a_batch_is_measured_with_its_products():
    found = epig_batches.measure(points=200, targets=30, draws=8, classes=3, pick=3, repeat=1)
    assert [step["rows"] for step in found["steps"]] == [1, 3, 9]
    assert all(1 <= step["looked_at"] <= 200 for step in found["steps"])
    for name in ("ours", "bare", "bare_all"):
        assert found[name]["cpu_seconds"] > 0
    assert len(set(found["positions"])) == 3
    assert epig_categorical.over_targets is over_targets, "what was watched is as it was"
