"""`natsel select` with targets and labels: what `natsel.select` picks, and refusals in one sentence."""

import json
from functools import partial

import numpy as np
import pytest

import natsel
from natsel.cli import select


@pytest.fixture
def aims(tmp_path):
    """Targets from the same six draws, and their file."""
    raw = np.random.default_rng(1).exponential(size=(8, 6, 4)) ** 2
    probs = raw / raw.sum(-1, keepdims=True)
    np.savez(tmp_path / "targets.npz", probs=probs)
    return tmp_path / "targets.npz", natsel.CategoricalSamples.from_probs(probs)


@pytest.fixture
def belief(probs):
    return natsel.CategoricalSamples.from_probs(probs, ids=np.arange(100, 130))


@pytest.mark.parametrize("method", ["epig", "batch-epig", "jepig"])
def test_targets_are_read_like_the_pool(call, preds, aims, belief, method):
    file, targets = aims
    done = call("select", preds, "--probs", "-m", method, "-k", 3, "--targets", file, "--json")
    expected = natsel.select(method, belief, 3, targets=targets)
    assert done.code == 0, done.err
    assert json.loads(done.out)["ids"] == expected.ids.tolist()
    assert json.loads(done.out)["scores"] == pytest.approx(expected.scores.tolist())


@pytest.mark.parametrize("form", ["{label}", "{id},{label}", "{id}, {label}  # why"])
def test_labels_are_read_in_order_or_by_id(call, tmp_path, preds, belief, form):
    labels = np.arange(30) % 4
    rows = [form.format(id=id, label=label) for id, label in zip(range(100, 130), labels, strict=True)]
    rows = rows if form == "{label}" else ["id,label", *rows[::-1]]
    (tmp_path / "labels.txt").write_text("\n".join(["# known", *rows, ""]))
    done = call("select", preds, "--probs", "-m", "ig", "-k", 3, "--labels", tmp_path / "labels.txt", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["ids"] == natsel.select("ig", belief, 3, labels=labels).ids.tolist()


def test_labels_of_targets_go_with_them(call, tmp_path, preds, aims, belief):
    (tmp_path / "labels.txt").write_text("\n".join(map(str, [0, 1, 2, 3] * 2)))
    read = partial(select.read_belief, kind="probs", key=None, single_draw=False, noise=None)
    found = select._targets(aims[0], tmp_path / "labels.txt", read)
    assert found.labels_M.tolist() == [0, 1, 2, 3] * 2


def test_numbers_are_labels_of_numbers(tmp_path):
    (tmp_path / "labels.txt").write_text("0.5\n-1e3\n")
    belief = natsel.GaussianSamples([[0.0], [1.0]], 1.0)
    assert select.read_labels(tmp_path / "labels.txt", belief, "labels") == [0.5, -1000.0]


def test_what_is_missing_is_named(refused, preds, aims, tmp_path):
    said = refused("select", preds, "--probs", "-m", "epig")
    assert "targets: EPIG asks what is learned about targets; pass the belief about them as targets= (--targets" in said
    said = refused("select", preds, "--probs", "-m", "ig")
    assert "labels: InformationGain weighs labels that are known; pass labels= (--labels)" in said
    (tmp_path / "labels.txt").write_text("0\n" * 30)
    known, about = ("--labels", tmp_path / "labels.txt"), ("--target-labels", tmp_path / "labels.txt")
    assert "pass their predictions as --targets FILE" in refused("select", preds, "--probs", "-m", "ig", *known, *about)
    assert "without --labels; pass --labels too" in refused("select", preds, "--probs", "-m", "epig", *about)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("0\none\n", "line 2 should hold a class number, or id,label; found 'one'"),
        ("0.5\n", "line 1 should hold a class number"),
        ("1,2,3\n", "line 1 should hold a class number"),
        ("100,0\n101,0\n", "id 102, 103, 104, … (28 in all) has none; give every id one"),
        ("100,0\n1\n", "lines with an id and lines without"),
        ("100,0\n100,1\n", "two labels for id 100"),
        ("0\n1\n", "labels: expected one for each of 30 points"),
        ("7\n" * 30, "labels: classes run from 0 to 3"),
    ],
)
def test_labels_that_cannot_be_are_refused(refused, tmp_path, preds, text, sentence):
    (tmp_path / "labels.txt").write_text(text)
    assert sentence in refused("select", preds, "--probs", "-m", "ig", "--labels", tmp_path / "labels.txt")


def test_targets_of_other_draws_are_refused(refused, tmp_path, preds, aims):
    np.savez(tmp_path / "other.npz", probs=aims[1].log_probs_N_K_C.exp().numpy()[:, :5])
    assert "from 5 draws and the pool from 6" in refused(
        "select", preds, "--probs", "-m", "epig", "--targets", tmp_path / "other.npz"
    )
