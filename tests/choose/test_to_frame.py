"""A selection as a table: a file of comma-separated values without any dependency, a data frame with pandas."""

import csv
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from natsel import CategoricalSamples, ClassProbabilities, select
from natsel.texts import cell_text

COLUMNS = ["rank", "id", "score", "gain", "epistemic", "aleatoric", "overlap"]
IDS = ["a.png", "ü,b.png", 'sub/"c".png', "d\nd.png", "=e", "f"]


@pytest.fixture
def belief():
    return CategoricalSamples.from_probs(np.random.default_rng(0).dirichlet(np.ones(3), size=(6, 4)), ids=IDS)


def read(path):
    with open(path, encoding="utf-8", newline="") as file:
        return [{name: cell_text(cell) for name, cell in row.items()} for row in csv.DictReader(file)]


def test_a_file_holds_what_explain_says_in_full(belief, tmp_path):
    selection = select("batchbald", belief, k=3)
    selection.to_csv(tmp_path / "picks.csv")
    rows = read(tmp_path / "picks.csv")
    assert list(rows[0]) == COLUMNS
    assert [row["rank"] for row in rows] == ["1", "2", "3"]
    assert [row["id"] for row in rows] == selection.ids.tolist()
    for row, pick in zip(rows, selection.explain().picks, strict=True):
        assert [float(row[name]) for name in COLUMNS[2:]] == [getattr(pick, name) for name in COLUMNS[2:]]


def test_all_ids_come_back_as_they_were(belief, tmp_path):
    select("entropy", belief, k=6).to_csv(tmp_path / "picks.csv")
    assert {row["id"] for row in read(tmp_path / "picks.csv")} == set(IDS)


def test_paths_as_ids_are_explained_in_words(belief):
    long = "a/rather/long/path/to/a/picture.png"
    said = str(select("bald", belief.with_ids([Path(long), "b", "c", "d", "e", "f"]), k=6).explain()).splitlines()
    assert any(line.startswith(long) for line in said)
    assert len({len(line) for line in said[:7]}) == 1  # columns stand below each other


def test_weights_are_a_column_where_there_are_some(belief, tmp_path):
    selection = replace(select("bald", belief, k=2), weights=torch.tensor([2.0, 0.5], dtype=torch.float64))
    selection.to_csv(tmp_path / "picks.csv")
    rows = read(tmp_path / "picks.csv")
    assert list(rows[0]) == [*COLUMNS, "weight"]
    assert [row["weight"] for row in rows] == ["2.0", "0.5"]


def test_what_a_belief_does_not_say_is_an_empty_cell(tmp_path):
    selection = select("entropy", ClassProbabilities.from_probs([[0.5, 0.5]]), k=1)
    selection.to_csv(tmp_path / "picks.csv")
    assert read(tmp_path / "picks.csv") == [
        {"rank": "1", "id": "0", "score": repr(selection.scores.item())}
        | dict.fromkeys(("gain", "epistemic", "aleatoric", "overlap"), "")
    ]


def test_an_empty_selection_is_a_line_of_names(belief, tmp_path):
    select("bald", belief, k=0).to_csv(tmp_path / "picks.csv")
    assert (tmp_path / "picks.csv").read_text() == ",".join(COLUMNS) + "\n"


def test_without_pandas_the_extra_is_named(belief, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"to_frame needs pandas; install natsel\[tables\], or use to_csv\(path\)"):
        select("bald", belief, k=2).to_frame()


def test_a_frame_has_the_same_rows(belief):
    pytest.importorskip("pandas", reason="needs the extra tables")
    selection = select("bald", belief, k=3)
    frame = selection.to_frame()
    assert list(frame.columns) == COLUMNS
    assert frame["id"].tolist() == selection.ids.tolist()
    assert frame["score"].tolist() == selection.scores.tolist()
