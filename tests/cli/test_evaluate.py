"""`natsel evaluate` tells what `natsel.evaluate_uncertainty` finds, reads labels by id and by name, and refuses."""

import json

import numpy as np
import pytest

import natsel

LABELS = np.arange(30) * 7 % 4


@pytest.fixture
def labels(tmp_path):
    np.save(tmp_path / "labels.npy", LABELS)
    return tmp_path / "labels.npy"


def test_json_is_what_python_finds(tmp_path, call, preds, probs, labels):
    np.save(tmp_path / "far.npy", probs[:5])
    done = call("evaluate", preds, "--probs", "--labels", labels, "--outside", tmp_path / "far.npy", "--json")
    belief = natsel.CategoricalSamples.from_probs(probs)
    expected = natsel.evaluate_uncertainty(belief, LABELS, outside=belief[:5])
    said = json.loads(done.out)
    assert done.code == 0
    assert said["metrics"] == pytest.approx(dict(expected.metrics))
    assert {name: found["auroc"] for name, found in said["detection"].items()} == {
        name: found.auroc for name, found in expected.detection.items()
    }
    assert said["rejection"]["bald"]["error"][-1] == pytest.approx(1 - expected.metrics["accuracy"])
    assert (said["points"], said["outside_points"], len(said["member_errors"])) == (30, 5, 6)


def test_people_see_tables_and_a_page(tmp_path, call, preds, labels):
    out = tmp_path / "page.html"
    done = call("evaluate", preds, "--probs", "--labels", labels, "--outside", preds, "--out", out, "--bins", 5)
    assert done.code == 0
    for word in ("accuracy", "brier", "cwce", "gap bound", "mutual information", "member error", "AUROC", "5 bins"):
        assert word in done.out
    text = out.read_text(encoding="utf-8")
    assert text.count("<svg") >= 4  # reliability, its counts, rejection curves wide and narrow
    assert "preds.npz" in text


@pytest.mark.parametrize("form", [".npz", ".csv", "names"])
def test_labels_go_by_id_where_they_have_some(tmp_path, call, preds, labels, form):
    ids, names, order = np.arange(100, 130), np.array(["ant", "bee", "cat", "dog"]), np.arange(30)[::-1]
    more = ["--classes", "ant,bee,cat,dog"] if form == "names" else []
    path = tmp_path / f"by-id{'.csv' if form == 'names' else form}"
    if form == ".npz":
        np.savez(path, labels=LABELS[order], ids=ids[order])
    else:
        said = names[LABELS] if form == "names" else LABELS
        path.write_text("id,label\n" + "".join(f"{ids[row]},{said[row]}\n" for row in order))
    found = call("evaluate", preds, "--probs", "--labels", path, *more, "--json")
    assert json.loads(found.out) == json.loads(call("evaluate", preds, "--probs", "--labels", labels, "--json").out)


def test_without_labels_what_needs_none_is_told(call, preds, labels):
    metrics = json.loads(call("evaluate", preds, "--probs", "--json").out)["metrics"]
    assert set(metrics) == {
        "predicted error", "predicted top-1 error", "entropy", "mutual information", "disagreement",
    }  # fmt: skip
    held = ["--held-out", preds, "--held-out-labels", labels]
    with_held_out = json.loads(call("evaluate", preds, "--probs", *held, "--json").out)["metrics"]
    known = json.loads(call("evaluate", preds, "--probs", "--labels", labels, "--json").out)["metrics"]
    assert with_held_out["atc error"] == pytest.approx(1 - known["accuracy"])  # of the same points it is exact


def test_numbers_have_errors(tmp_path, call):
    mean_N_K, values_N = np.random.default_rng(0).normal(size=(2, 20, 4))
    np.save(tmp_path / "m.npy", mean_N_K)
    (tmp_path / "y.txt").write_text("\n".join(map(repr, values_N[:, 0].tolist())))
    done = call("evaluate", tmp_path / "m.npy", "--means", "--labels", tmp_path / "y.txt", "--json")
    said = json.loads(done.out)
    assert {"rmse", "mae", "member rmse"} <= set(said["metrics"])
    assert said["rejection"]["variance"]["rmse"][-1] == pytest.approx(said["metrics"]["rmse"])


def test_bad_requests(tmp_path, refused, preds, labels):
    assert "say what the numbers are" in refused("evaluate", preds)
    np.save(tmp_path / "few.npy", LABELS[:4])
    assert "one for each of 30 points" in refused("evaluate", preds, "--probs", "--labels", tmp_path / "few.npy")
    np.save(tmp_path / "names.npy", np.array(["ant", "bee"] * 15))
    assert "--classes" in refused("evaluate", preds, "--probs", "--labels", tmp_path / "names.npy")
    wrong = refused("evaluate", preds, "--probs", "--labels", tmp_path / "names.npy", "--classes", "ant,cat")
    assert "none is called 'bee'" in wrong
    np.save(tmp_path / "halves.npy", LABELS + 0.5)
    assert "fractions" in refused("evaluate", preds, "--probs", "--labels", tmp_path / "halves.npy")
    np.savez(tmp_path / "ids.npz", labels=LABELS, ids=np.arange(30))
    assert "id 100, 101, 102, … (30 in all) has none" in refused(
        "evaluate", preds, "--probs", "--labels", tmp_path / "ids.npz"
    )
    assert "go together" in refused("evaluate", preds, "--probs", "--held-out", preds)
    natsel.ClassProbabilities.from_probs([[0.5, 0.5]]).save(tmp_path / "one.npz")
    natsel.FeatureDensity([0.0], [[0.0, 1.0]]).save(tmp_path / "other.npz")
    assert "FeatureDensity beside" in refused("evaluate", tmp_path / "one.npz", "--outside", tmp_path / "other.npz")
    assert "there is no folder" in refused("evaluate", preds, "--probs", "--out", tmp_path / "no" / "page.html")


def test_names_of_classes_that_were_forgotten_are_refused(tmp_path, refused, preds):
    (tmp_path / "names.txt").write_text("ant\nbee\n")
    assert "--classes" in refused("evaluate", preds, "--probs", "--labels", tmp_path / "names.txt")
    np.save(tmp_path / "labels.npy", LABELS)
    for classes in ("ant,bee", "3,2,1,zero"):  # there is no third class; 0 is not the number of the class 3
        said = refused("evaluate", preds, "--probs", "--labels", tmp_path / "labels.npy", "--classes", classes)
        assert "none is called" in said
    natsel.FeatureDensity([0.0], [[0.0, 1.0]]).save(tmp_path / "density.npz")
    assert "leave --probs (kind) out" in refused("evaluate", tmp_path / "density.npz", "--probs")


@pytest.mark.parametrize("header", ["file,label", "stone,kind", "id,label", None])
def test_labels_by_id_may_have_any_two_names_of_columns(tmp_path, call, preds, labels, header):
    path = tmp_path / "truth.csv"
    lines = [f"{100 + row},{LABELS[row]}" for row in range(30)][::-1]
    path.write_text("\n".join([header, *lines] if header else lines))
    found = call("evaluate", preds, "--probs", "--labels", path, "--json")
    assert json.loads(found.out) == json.loads(call("evaluate", preds, "--probs", "--labels", labels, "--json").out)


def test_a_first_line_that_names_a_point_is_no_header(tmp_path, preds, refused):
    (tmp_path / "truth.csv").write_text("100,cat\n")
    assert "line 1 should hold a class number" in refused(
        "evaluate", preds, "--probs", "--labels", tmp_path / "truth.csv"
    )
