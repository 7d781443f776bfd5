"""`natsel select` picks what `natsel.select` picks, says so to people and machines, and refuses in one sentence."""

import csv
import json
import pickle
from pathlib import Path

import numpy as np
import pytest

import fresh_python
import natsel
from natsel.cli import output


def as_npy(path, probs):
    np.save(path, probs)


def as_npz(path, probs):
    np.savez(path, p=probs)


def as_safetensors(path, probs):
    from safetensors.numpy import save_file

    save_file({"p": probs}, path)


def as_csv(path, probs):
    n, k, c = probs.shape
    rows = [[i, j, *map(repr, probs[i, j].tolist())] for j in range(k) for i in range(n)]
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([["id", "draw", *(f"p{x}" for x in range(c))], *rows])


def as_parquet(path, probs):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    n, k, c = probs.shape
    columns = {"id": np.repeat(np.arange(n), k), "draw": np.tile(np.arange(k), n)}
    parquet.write_table(pa.table(columns | {f"p{x}": probs[..., x].ravel() for x in range(c)}), path)


WRITERS = {".npy": as_npy, ".npz": as_npz, ".safetensors": as_safetensors, ".csv": as_csv, ".parquet": as_parquet}


@pytest.mark.parametrize("suffix", WRITERS)
def test_every_format_gives_the_same_picks(tmp_path, call, probs, suffix):
    WRITERS[suffix](tmp_path / f"p{suffix}", probs)
    done = call("select", tmp_path / f"p{suffix}", "--probs", "-k", 4, "--json")
    expected = natsel.select("power-bald", natsel.CategoricalSamples.from_probs(probs), k=4)
    report = json.loads(done.out)
    assert done.code == 0
    assert report["ids"] == expected.ids.tolist()
    assert report["scores"] == pytest.approx(expected.scores.tolist())
    assert report["total"] == pytest.approx(expected.total)


def test_predictions_of_a_regressor_are_read_from_every_format(tmp_path, call):
    mean_N_K = np.random.default_rng(0).normal(100, 3, (30, 6))
    as_csv(tmp_path / "long.csv", mean_N_K[:, :, None])
    rows = [[i, *map(repr, row)] for i, row in enumerate(mean_N_K.tolist())]
    with open(tmp_path / "wide.csv", "w", newline="") as file:
        csv.writer(file).writerows([["id", *(f"tree{k}" for k in range(6))], *rows])
    np.save(tmp_path / "p.npy", mean_N_K)
    np.savez(tmp_path / "p.npz", p=mean_N_K)
    for name in ("p.npy", "p.npz", "wide.csv", "long.csv"):
        done = call("select", tmp_path / name, "--means", "--noise", 0.01, "-m", "batchbald", "-k", 3, "--json")
        expected = natsel.select("batchbald", natsel.GaussianSamples(mean_N_K, 0.01), k=3)
        assert json.loads(done.out)["ids"] == expected.ids.tolist()
        assert json.loads(done.out)["total"] == pytest.approx(expected.total)
    np.save(tmp_path / "held.npy", mean_N_K[:4])
    near = call(
        "select", tmp_path / "p.npy", "--means", "-m", "lcmd", "-k", 3, "--given", tmp_path / "held.npy", "--json"
    )
    belief = natsel.GaussianSamples(mean_N_K, 1.0)
    assert json.loads(near.out)["ids"] == natsel.select("lcmd", belief, k=3, given=belief[:4]).ids.tolist()


def test_predictions_of_a_regressor_read_as_classes_are_refused_with_the_option_that_reads_them(tmp_path, refused):
    mean_N_K = np.random.default_rng(0).normal(100, 3, (30, 6))
    np.save(tmp_path / "p.npy", mean_N_K)
    np.savez(tmp_path / "p.npz", p=mean_N_K)
    for said in (["p.npy", "--probs"], ["p.npz", "--probs"], ["p.npy", "--probs", "--single-draw"], ["p.npy"]):
        assert "--means" in refused("select", tmp_path / said[0], *said[1:])
    assert "pass --means" in refused("select", tmp_path / "p.npy", "--probs", "--noise", 1)
    assert "variance above 0, found 0" in refused("select", tmp_path / "p.npy", "--means", "--noise", 0)
    np.save(tmp_path / "three.npy", np.full((4, 3, 2), 0.5))
    assert "two axes (points, draws)" in refused("select", tmp_path / "three.npy", "--means")


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_a_saved_belief_needs_no_flag(tmp_path, call, probs, suffix):
    natsel.CategoricalSamples.from_probs(probs, ids=np.arange(30) * 7).save(tmp_path / f"b{suffix}")
    plain = call("select", tmp_path / f"b{suffix}", "-k", 3, "--json")
    assert all(id % 7 == 0 for id in json.loads(plain.out)["ids"])
    assert call("select", tmp_path / f"b{suffix}", "--log-probs", "-k", 3, "--json") == plain


def test_gaussian_beliefs_work_too(tmp_path, call):
    natsel.GaussianFeatures(np.random.default_rng(0).normal(size=(20, 3))).save(tmp_path / "g.npz")
    done = call("select", tmp_path / "g.npz", "-k", 3, "--json")
    assert done.code == 0
    assert len(json.loads(done.out)["ids"]) == 3


def both_arms(**others):
    generator = np.random.default_rng(5)
    mean0_N_K, effect_N_K = generator.normal(size=(2, 12, 6))
    arms = {"mean0_N_K": mean0_N_K, "mean1_N_K": mean0_N_K + effect_N_K, "treatment_N": np.arange(12) % 2}
    return arms | others


def test_both_outcomes_of_a_treatment_are_read_in_a_process_that_knows_nothing_of_them(tmp_path):
    arms = both_arms(propensity_N=np.linspace(0.2, 0.8, 12), ids=np.arange(30, 42))
    np.savez(tmp_path / "arrays.npz", **arms)
    belief = natsel.PotentialOutcomes(*list(arms.values())[:4], 0.5, 0.5, ids=arms["ids"])
    belief.save(tmp_path / "belief.npz")
    for method in ("mu-pi-bald", "rho-exact"):
        expected = natsel.select(method, belief, k=4)
        for options in (["arrays.npz", "--means", "--noise", "0.5"], ["belief.npz"]):
            command = ["-m", "natsel", "select", *options, "--method", method, "-k", "4", "--json"]
            done = fresh_python.run(command, cwd=tmp_path)
            assert done.returncode == 0, done.stderr
            found = json.loads(done.stdout)
            assert found["ids"] == expected.ids.tolist()
            np.testing.assert_allclose(found["scores"], expected.scores, rtol=1e-12)


def test_half_a_treatment_is_refused(tmp_path, refused):
    arms = both_arms()
    del arms["treatment_N"]
    np.savez(tmp_path / "arms.npz", **arms)
    assert "arms.npz lacks treatment_N" in refused("select", str(tmp_path / "arms.npz"), "--means")


def test_json_holds_all_there_is_to_say(call, preds):
    done = call("select", preds, "--probs", "-m", "power-bald", "-k", 3, "--seed", 5, "--json")
    report = json.loads(done.out)
    assert done.err == ""
    assert set(report) == {
        "method", "k", "seed", "ids", "scores", "total", "log_prob", "information", "explanation", "warnings",
        "costs", "total_cost",
    }  # fmt: skip
    assert (report["method"], report["k"], report["seed"]) == ("power-bald", 3, 5)
    assert report["log_prob"] < 0
    assert [row["id"] for row in report["explanation"]] == report["ids"]
    assert set(report["explanation"][0]) == set(output.COLUMNS)


def test_warnings_go_to_stderr_for_people_and_into_json_for_machines(tmp_path, call, probs):
    np.save(tmp_path / "one.npy", probs[:, 0])
    person = call("select", tmp_path / "one.npy", "--probs", "--single-draw", "-k", 2)
    machine = call("select", tmp_path / "one.npy", "--probs", "--single-draw", "-k", 2, "--json")
    assert "warning: one draw" in person.err
    assert "warning" not in person.out
    assert machine.err == ""
    assert "one draw" in json.loads(machine.out)["warnings"][0]


def test_people_see_a_table(call, preds):
    plain = call("select", preds, "--probs", "-k", 3)
    assert plain.code == 0
    assert "score" in plain.out
    assert "epistemic" not in plain.out
    assert "power-bald: 3 picks" in plain.out
    explained = call("select", preds, "--probs", "-k", 3, "--explain")
    assert "epistemic" in explained.out
    assert "nats together" in explained.out


def test_excluded_ids_are_not_picked(tmp_path, call, preds):
    every = json.loads(call("select", preds, "--probs", "-k", 5, "--json").out)["ids"]
    ids = tmp_path / "ids.txt"
    ids.write_text("# seen\n\n" + "\n".join(f"{id}  # labelled" for id in every) + "\n999999\n")
    rest = json.loads(call("select", preds, "--probs", "-k", 25, "--exclude", ids, "--json").out)["ids"]
    assert sorted(every + rest) == list(range(100, 130))


def test_the_out_file_holds_the_picks_in_full(tmp_path, call, preds):
    out = tmp_path / "picks.csv"
    done = call("select", preds, "--probs", "-k", 4, "--out", out, "--json")
    report = json.loads(done.out)
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert out.read_text().splitlines()[0] == "rank,id,score,gain,epistemic,aleatoric,overlap"
    assert [int(row["id"]) for row in rows] == report["ids"]
    assert [float(row["score"]) for row in rows] == report["scores"]
    assert [int(row["rank"]) for row in rows] == [1, 2, 3, 4]


def test_a_refusal_leaves_the_old_out_file(tmp_path, refused, preds):
    out = tmp_path / "picks.csv"
    out.write_text("old")
    refused("select", preds, "--probs", "-k", 500, "--out", out)
    assert out.read_text() == "old"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["picks.csv", "preds.npz"]
    assert "there is no folder" in refused("select", preds, "--probs", "--out", tmp_path / "no" / "picks.csv")


def test_the_kind_of_numbers_must_be_said_once(refused, preds):
    said = "natsel: say what the numbers are: --log-probs, --probs, --logits or --means (of a regressor)\n"
    assert refused("select", preds) == said
    assert "either --probs or --logits" in refused("select", preds, "--probs", "--logits")
    assert "pass --probs" in refused("select", preds, "--log-probs")
    assert "pass --probs" in refused("select", preds, "--logits")


def test_bad_requests(tmp_path, refused, preds):
    assert "k: asked for 31 of 30 points" in refused("select", preds, "--probs", "-k", 31)
    assert "did you mean 'batchbald'?" in refused("select", preds, "--probs", "-m", "batchbold")
    assert "labels" in refused("select", preds, "--probs", "-m", "ig")
    assert "no array 'logits'; it holds probs" in refused("select", preds, "--probs", "--key", "logits")
    assert "'-k'" in refused("select", preds, "--probs", "-k", "many")
    assert "--no-such" in refused("select", preds, "--no-such")
    assert "there is no file" in refused("select", tmp_path / "missing.npz", "--probs")
    assert "expected .npz" in refused("select", Path(__file__), "--probs")
    (tmp_path / "ids.txt").write_text("100\n\n101 102\n")
    wrong = refused("select", preds, "--probs", "--exclude", tmp_path / "ids.txt")
    assert "line 3 should hold one integer id, found '101 102'" in wrong
    assert "there is no file" in refused("select", preds, "--probs", "--exclude", tmp_path / "no.txt")


def test_bad_files(tmp_path, refused, probs, preds):
    broken = probs.copy()
    broken[3, 2, 1] = np.nan
    np.save(tmp_path / "nan.npy", broken)
    assert "NaN at point 3, draw 2, class 1" in refused("select", tmp_path / "nan.npy", "--probs")
    preds.write_bytes(preds.read_bytes()[:1000])
    assert "damaged" in refused("select", preds, "--probs")
    np.save(tmp_path / "objects.npy", np.array([[[print]]], dtype=object), allow_pickle=True)
    assert "never loaded" in refused("select", tmp_path / "objects.npy", "--probs")
    (tmp_path / "pickled.npy").write_bytes(pickle.dumps(probs))
    assert "damaged or not .npy" in refused("select", tmp_path / "pickled.npy", "--probs")
    (tmp_path / "folder.npz").mkdir()
    assert "cannot be read" in refused("select", tmp_path / "folder.npz", "--probs")


def test_an_interruption_is_130(monkeypatch, call, preds):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(natsel, "select", interrupted)
    done = call("select", preds, "--probs")
    assert (done.code, done.out) == (130, "")


def test_a_defect_of_natsel_is_not_passed_off_as_bad_input(monkeypatch, call, preds):
    monkeypatch.setattr(natsel, "select", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        call("select", preds, "--probs")


def test_long_work_is_reported_off_a_terminal_too(monkeypatch, call, preds):
    monkeypatch.setattr(output, "_PATIENCE", 0.0)
    monkeypatch.setattr(output, "_PAUSE", 0.0)
    done = call("select", preds, "--probs", "-m", "batchbald", "-k", 3, "--json")
    assert done.err.splitlines() == ["batchbald: 1 of 3", "batchbald: 2 of 3"]
    json.loads(done.out)
    assert call("select", preds, "--probs", "-m", "batchbald", "-k", 3, "-m", "bald", "--json").err == ""


def test_costs_and_a_budget(tmp_path, call, refused, preds, probs):
    cost_N = [1.5 + n % 7 for n in range(30)]
    column, pairs = tmp_path / "column.txt", tmp_path / "costs.csv"
    column.write_text("cost\n" + "".join(f"{cost}\n" for cost in cost_N))
    pairs.write_text("id,cost\n" + "".join(f"{100 + n},{cost_N[n]}\n" for n in reversed(range(30))))
    belief = natsel.CategoricalSamples.from_probs(probs, ids=np.arange(100, 130))
    expected = natsel.select("batchbald", belief, costs=cost_N, budget=12.0)
    for file in (column, pairs):
        report = json.loads(
            call("select", preds, "--probs", "-m", "batchbald", "--costs", file, "--budget", 12, "--json").out
        )
        assert report["ids"] == expected.ids.tolist()
        assert (
            report["costs"]
            == [cost_N[id - 100] for id in report["ids"]]
            == [row["cost"] for row in report["explanation"]]
        )
        assert report["total_cost"] == sum(report["costs"]) <= 12.0
        assert report["k"] == len(expected)
    out = tmp_path / "picks.csv"
    shown = call("select", preds, "--probs", "-m", "batchbald", "-k", 2, "--costs", pairs, "--budget", 12, "--out", out)
    assert f"2 picks, total {expected.scores[:2].sum():.4f} nats, cost {expected.costs[:2].sum():g}" in shown.out
    with open(out) as file:
        assert [float(row["cost"]) for row in csv.DictReader(file)] == expected.costs[:2].tolist()
    assert "cost" not in call("select", preds, "--probs", "-k", 2).out
    pairs.write_text("id,cost\n100,1\n")
    assert "costs in costs.csv: id 101, 102, 103, … (29 in all) has none; give every id one" in refused(
        "select", preds, "--probs", "--costs", pairs
    )
    column.write_text("cheap\n")
    assert "line 1 should hold a number, or id,cost; found 'cheap'" in refused(
        "select", preds, "--probs", "--costs", column
    )
    assert "pass costs= (--costs)" in refused("select", preds, "--probs", "--budget", 3)
