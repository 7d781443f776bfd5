"""The measurement of `believe` says what it measured; how fast it is, a busy machine cannot say."""

import json
import sys

import pytest
import torch

from natsel.bench.believe import main


@pytest.mark.parametrize("form", ["--json", "--threads=1"])
def test_the_document_is_complete(form, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["believe", "--count", "12", "--draws", "5", "--device", "cpu", form])
    threads = torch.get_num_threads()
    try:
        main()
    finally:
        torch.set_num_threads(threads)
    text = capsys.readouterr().out
    if form != "--json":
        assert "12 pictures" in text
        return
    found = json.loads(text)
    assert found["route"] == "together"
    assert 0 < found["share_of_clock"] < 1
    assert 0 < found["share_of_operations"] < 1
    assert found["largest_difference"] < 1e-4
