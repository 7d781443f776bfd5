"""Figures as files: SVG that stands alone, CSV with the numbers of every curve, PDF where matplotlib is there."""

import csv
import sys
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from made_experiments import made_experiment
from natsel.experiments.report.figure_files import write_figures
from natsel.experiments.results.summary import table

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def made():
    return made_experiment(methods=3, seeds=6)


def test_svg_stands_alone(made, tmp_path):
    written = write_figures({"": made}, tmp_path / "figures")
    assert {path.name for path in written} >= {"curves-accuracy.svg", "labels-saved.svg"}
    for path in written:
        text = path.read_text(encoding="utf-8")
        root = ElementTree.fromstring(text)
        assert root.tag == f"{SVG}svg"
        assert "var(" not in text  # few programs know variables
        assert "<script" not in text
        assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    words = "".join(ElementTree.parse(tmp_path / "figures" / "curves-accuracy.svg").getroot().itertext())
    assert all(method in words for method in made.methods)
    saved = (tmp_path / "figures" / "labels-saved.svg").read_text(encoding="utf-8")
    known = [row for row in table(made) if row.saved is not None and row.saved.share.low > -1e9]
    assert saved.count('class="mark ') == len(known) > 0


def test_csv_has_the_numbers_of_every_curve(made, tmp_path):
    write_figures({"few": made}, tmp_path, "csv")
    rows = list(csv.DictReader((tmp_path / "few-curves.csv").open(encoding="utf-8")))
    run = made.of("bald")[2]
    here = [row for row in rows if (row["metric"], row["method"]) == ("accuracy", "bald")]
    assert [int(row["labels"]) for row in here] == list(run.sizes)
    assert [float(row[f"seed {run.seed}"]) for row in here] == list(run.metrics["accuracy"])
    values = [float(here[3][f"seed {seed}"]) for seed in range(6)]
    assert float(here[3]["median"]) == pytest.approx(np.median(values))
    assert float(here[3]["lower quartile"]) == pytest.approx(np.quantile(values, 0.25))
    needed = list(csv.DictReader((tmp_path / "few-labels-saved.csv").open(encoding="utf-8")))
    assert len(needed) == len(table(made))
    assert all(row["saved from"] == "" for row in needed if row["method"] == "random")


def test_pdf_needs_matplotlib_and_says_so(made, tmp_path, monkeypatch):
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "matplotlib", None)
        with pytest.raises(ImportError, match=r"natsel\[plot\]"):
            write_figures({"": made}, tmp_path, ["svg", "pdf"])
    assert not list(tmp_path.iterdir())
    pytest.importorskip("matplotlib")
    written = write_figures({"": made}, tmp_path, "pdf")
    assert all(path.read_bytes().startswith(b"%PDF") for path in written)
    with pytest.raises(ValueError, match=r"^format: found 'png'"):
        write_figures({"": made}, tmp_path, "png")
    with pytest.raises(ValueError, match="is a file; name a folder"):
        write_figures({"": made}, written[0], "svg")
