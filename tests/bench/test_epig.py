"""The measurement of EPIG says what it measured; how fast it is, a busy machine cannot say."""

import json
import sys

import pytest
import torch

from natsel.bench.epig import main, measure


@pytest.mark.parametrize("form", ["--json", "--threads=1"])
def test_the_document_is_complete(form, monkeypatch, capsys):
    sizes = ["--points", "300", "--targets", "40", "--draws", "10", "--classes", "4", "--pick", "7"]
    monkeypatch.setattr(sys, "argv", ["epig", *sizes, form])
    threads = torch.get_num_threads()
    try:
        main()
    finally:
        torch.set_num_threads(threads)
    text = capsys.readouterr().out
    if form != "--json":
        assert "300 candidates, 40 targets" in text
        assert "the same as by full scoring" in text
        return
    found = json.loads(text)
    assert found["same_picks"] is True
    assert 7 <= found["looked_at"] <= 300
    assert found["largest_difference"] < 1e-5
    for name in ("ours", "bare", "plain", "picks"):
        assert found[name]["seconds"] > 0


def test_large_pools_are_scored_in_part(monkeypatch, capsys):
    found = measure(points=500, targets=40, draws=6, classes=3, pick=5, scored=100)
    assert (found["scored"], found["same_picks"]) == (100, None)
    sizes = ["--points", "400", "--targets", "30", "--pick", "3"]
    monkeypatch.setattr(sys, "argv", ["epig", "--large", *sizes, "--json"])
    main()
    told = json.loads(capsys.readouterr().out)
    assert (told["points"], told["targets"], told["draws"], told["scored"]) == (400, 30, 20, 200)
