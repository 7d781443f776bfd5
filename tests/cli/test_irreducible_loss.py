"""`natsel irreducible-loss`: from data sets and files to a table of losses by id."""

import json

import numpy as np
import pytest

import natsel
from natsel.data import load, read_examples
from natsel.sampling.irreducible_loss import IrreducibleLoss


@pytest.fixture
def table(tmp_path):
    """Rows in two clusters with ids r0…, on scales that no network could learn from; row 3 has the wrong class, row 5
    none.
    """
    rng = np.random.default_rng(0)
    names = ["cat", "dog"] * 20
    rows = [(f"r{row}", 1e6 + 100 * (row % 2) + 20 * rng.normal(), rng.normal(), names[row]) for row in range(40)]
    rows[3] = (*rows[3][:3], "cat")
    rows[5] = (*rows[5][:3], "")
    path = tmp_path / "rows.csv"
    path.write_text("name,long,wide,kind\n" + "".join(f"{','.join(map(str, row))}\n" for row in rows))
    return path


def test_a_file_becomes_a_table_by_id(call, table, tmp_path):
    out = tmp_path / "il.safetensors"
    options = ("--labels", "kind", "--ids", "name", "--epochs", 30, "--device", "cpu")
    done = call("irreducible-loss", table, "--out", out, *options, "--json")
    assert done.code == 0, done.err
    said = json.loads(done.out)
    examples = read_examples(table, labels="kind", ids="name")
    losses = natsel.IrreducibleLoss.load(out, of=examples[np.asarray(examples.labels) >= 0])
    assert said["points"] == len(losses) == 39
    assert said["mean"] == pytest.approx(float(losses.loss_N.mean()))
    assert said["largest"][0]["id"] == "r3"
    assert said["largest"][0]["irreducible_loss"] == pytest.approx(float(losses.at(["r3"])))
    assert float(np.median(losses.loss_N)) < 0.3
    assert said["written"] == str(out)
    assert said["about"].startswith("rows.csv: cross-fitted in 2 folds")


def test_held_out_rows_get_no_loss(call, tmp_path):
    out = tmp_path / "il.safetensors"
    options = ("--epochs", 2, "--device", "cpu", "--network", "mlp")
    done = call("irreducible-loss", "digits", "--out", out, "--holdout", 0.25, *options)
    assert done.code == 0, done.err
    train = load("digits").train
    losses = IrreducibleLoss.load(out)
    assert len(losses) == len(train) - round(0.25 * len(train))
    losses.refuse_other(train[losses.ids])  # the ids are row numbers
    assert "944 points, mean" in done.out
    assert "largest: id" in done.out


def test_another_file_may_be_the_held_out_data(call, table, tmp_path):
    out, held = tmp_path / "il.safetensors", tmp_path / "held.csv"
    held.write_text("".join(table.read_text().splitlines(keepends=True)[:21]))  # 19 of its 20 rows have a label
    done = call(
        *("irreducible-loss", table, "--out", out, "--labels", "kind", "--ids", "name", "--device", "cpu"),
        *("--holdout", held, "--epochs", 2, "--json"),
    )
    assert done.code == 0, done.err
    said = json.loads(done.out)
    assert said["about"].startswith("rows.csv: trained on 19 held-out examples")
    assert "19 of 39 points" in said["warnings"][0]  # they were trained on


def test_bad_input_is_refused_before_work(refused, table, tmp_path, monkeypatch):
    monkeypatch.setattr("natsel.sampling.irreducible_loss.train", None)
    out = ("--out", tmp_path / "il.safetensors")
    assert "data: there is no data set 'digit'; did you mean 'digits'?" in refused("irreducible-loss", "digit", *out)
    assert "data: there is no file no.csv" in refused("irreducible-loss", "no.csv", *out)
    assert "pass one of the two" in refused("irreducible-loss", "digits", *out, "--holdout", 0.1, "--cross-fit", 2)
    assert "holdout: expected a share between 0 and 1" in refused("irreducible-loss", "digits", *out, "--holdout", 3)
    assert "holdout: expected a share such as 0.1 or a file" in refused(
        "irreducible-loss", "digits", *out, "--holdout", "x"
    )
    assert "folds: expected a whole number from 2" in refused("irreducible-loss", "digits", *out, "--cross-fit", 1)
    assert "network: there is no 'gpt'" in refused("irreducible-loss", "digits", *out, "--network", "gpt")
    assert "network: mnist-cnn wants" in refused("irreducible-loss", "digits", *out, "--network", "mnist-cnn")
    assert "ends in .safetensors or .parquet" in refused("irreducible-loss", "digits", "--out", tmp_path / "il.csv")
    assert "out: there is no folder" in refused("irreducible-loss", "digits", "--out", tmp_path / "no" / "il.parquet")
    assert "labels: there is no 'sort'" in refused("irreducible-loss", table, *out, "--labels", "sort")
    assert "labels: those of" in refused("irreducible-loss", "diabetes", *out)
    assert not list(tmp_path.glob("il*"))


def test_the_columns_of_a_table_are_named(call, refused, table, tmp_path):
    """No column is taken for the labels by its name, and those that are inputs can be said."""
    out = ("--out", tmp_path / "il.safetensors", "--ids", "name", "--epochs", 1, "--device", "cpu")
    usual = tmp_path / "usual.csv"
    usual.write_text(table.read_text().replace("kind", "label", 1))
    for command in (("irreducible-loss", usual, *out), ("prune", usual)):
        assert "labels: the column 'label' is called as labels are" in refused(*command)
    assert "in the shell --labels and --inputs" in refused("prune", usual)
    assert "found none in usual.csv" in refused("irreducible-loss", usual, *out, "--labels", "none")
    assert "no column 'wid'" in refused("irreducible-loss", usual, *out, "--labels", "label", "--inputs", "long,wid")
    done = call("irreducible-loss", usual, *out, "--labels", "label", "--inputs", "wide")
    assert done.code == 0, done.err
    assert "inputs: digits comes with its labels; leave --inputs out" in refused("prune", "digits", "--inputs", "x")
