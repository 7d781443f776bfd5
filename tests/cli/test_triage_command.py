"""`natsel triage` decides as `natsel.triage` does, writes its decisions and a page, and refuses in one sentence."""

import csv
import json

import numpy as np
import pytest

import natsel


@pytest.fixture
def belief():
    return natsel.FeatureDensity(
        [-1.0, -90.0, -2.0, -80.0],
        [[9.0, 0.0], [9.0, 0.0], [0.1, 0.0], [0.0, 0.0]],
        threshold=-50.0,
        entropy_threshold=0.5,
        ids=["a.png", "b.png", "c.png", "d.png"],
    )


@pytest.fixture
def saved(tmp_path, belief):
    belief.save(tmp_path / "new.safetensors")
    return tmp_path / "new.safetensors"


def test_decisions_costs_and_rows(tmp_path, call, belief, saved):
    (tmp_path / "labels.csv").write_text("id,label\na.png,cat\nb.png,-1\nc.png,dog\nd.png,cat\n")
    told = ["--labels", tmp_path / "labels.csv", "--classes", "cat,dog", "--error", 10, "--defer", 1, "--label", 2]
    done = call("triage", saved, *told, "--out", tmp_path / "d.csv", "--json")
    said, expected = json.loads(done.out), natsel.triage(belief)
    assert said["counts"] == {"accept": 1, "defer": 1, "label": 2}
    assert said["limits"] == {"epistemic": 50.0, "aleatoric": 0.5}
    assert (said["label"], said["defer"]) == (["b.png", "d.png"], ["c.png"])
    assert said["costs"] == expected.costs([0, -1, 1, 0], error=10, defer=1, label=2)
    with (tmp_path / "d.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["decision"] for row in rows] == list(expected.words())
    assert [row["aleatoric"] for row in rows][1] == ""  # says nothing about what is unfamiliar
    person = call("triage", saved, *told, "--out", tmp_path / "d.json")
    assert "b.png, d.png" in person.out
    assert "accept all 5.0000" in person.out
    assert json.loads((tmp_path / "d.json").read_text()) == expected.rows()


def test_limits_given_and_limits_of_a_reference(call, preds, saved):
    strict = json.loads(call("triage", saved, "--epistemic-limit", 85, "--aleatoric-limit", 0, "--json").out)
    assert strict["counts"] == {"accept": 0, "defer": 3, "label": 1}
    found = json.loads(call("triage", preds, "--probs", "--reference", preds, "--level", 0.9, "--json").out)
    assert found["counts"]["label"] == 3  # a tenth of the reference, which are these points
    assert found["scores"]["epistemic"] == "I[Y;W|x]"


def test_page_shows_scores_curves_and_pictures(tmp_path, call, saved):
    np.save(tmp_path / "pictures.npy", np.random.default_rng(0).uniform(size=(4, 8, 8)))
    np.save(tmp_path / "labels.npy", [0, -1, 1, 0])
    page = tmp_path / "page.html"
    done = call(
        "triage", saved, "--page", page, "--pictures", tmp_path / "pictures.npy", "--labels", tmp_path / "labels.npy"
    )
    assert done.code == 0, done.err
    text = page.read_text(encoding="utf-8")
    assert text.count('<img src="data:image/png') == 3  # two unfamiliar, one ambiguous
    assert "share accepted" in text
    assert text.index("b.png") < text.index("d.png") < text.index("c.png")


def test_pictures_in_a_folder_go_by_id(tmp_path, call, refused, saved):
    image = pytest.importorskip("PIL.Image")
    folder = tmp_path / "images"
    folder.mkdir()
    assert "no id names an image" in refused("triage", saved, "--page", tmp_path / "p.html", "--pictures", folder)
    image.fromarray(np.zeros((4, 4), dtype=np.uint8)).save(folder / "b.png")
    assert call("triage", saved, "--page", tmp_path / "p.html", "--pictures", folder).code == 0
    assert (tmp_path / "p.html").read_text(encoding="utf-8").count("<img") == 1


def test_bad_requests(tmp_path, refused, preds, saved):
    assert "aleatoric_limit: none is given" in refused("triage", preds, "--probs")
    assert "pass --page" in refused("triage", saved, "--pictures", tmp_path)
    assert "ends in .csv or .json" in refused("triage", saved, "--out", tmp_path / "d.txt")
    np.save(tmp_path / "three.npy", np.zeros((3, 8, 8)))
    page = ["--page", tmp_path / "p.html"]
    assert "one for each of 4 points" in refused("triage", saved, *page, "--pictures", tmp_path / "three.npy")
    natsel.GaussianSamples([[0.0, 1.0]], 1.0).save(tmp_path / "g.npz")
    assert "triage is for classes" in refused("triage", tmp_path / "g.npz", "--out", tmp_path / "d.csv")
    assert not (tmp_path / "d.csv").exists()
    assert not (tmp_path / "p.html").exists()
