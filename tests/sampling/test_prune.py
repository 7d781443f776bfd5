"""Pruning keeps what it says, looks at a network at the epoch it says, and finds wrong labels."""

import csv
import importlib
import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import natsel
from golden_values import golden
from natsel.cli import main
from natsel.data import noisy_labels
from natsel.models import Training, fresh
from natsel.sampling import grand, input_norm, kept_positions, loss
from natsel.sampling.network_runs import looks_at_training
from natsel.sampling.prune import METHODS, mean_over_runs, n_kept
from natsel.seeds import derive

GOLDEN = golden("13-data-diet")
SCORES = GOLDEN["prune"]["inputs"]["scores_N"]
ORDER = GOLDEN["prune"]["outputs"]["kept"]  # of the last case: all are kept
QUICK = Training(max_epochs=4, epoch_samples=256, learning_rate=0.01)


@pytest.fixture(scope="module")
def digits():
    return natsel.data.load("digits").train[:300]


def network():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 10))


@pytest.mark.parametrize(("keep", "count"), [(0.1, 1), (0.3, 3), (0.5, 5), (1.0, 10)])
def test_highest_scores_are_kept_ties_by_position_infinity_first(keep, count):
    assert kept_positions(SCORES, keep).tolist() == ORDER[:count]
    lowest = kept_positions(SCORES, keep, easiest=True).tolist()
    assert lowest == [3, 6, 0, 7, 5, 9, 8, 1, 2, 4][:count]


def test_shares_that_floating_point_misses():
    case = GOLDEN["prune_rounding"]
    assert [n_kept(*pair) for pair in case["inputs"]["pairs"]] == case["outputs"]["n_keep"]
    for keep in (0.05, 0.0, -0.1, 1.1, math.nan, None, "half"):
        with pytest.raises(ValueError, match=r"^keep: "):
            kept_positions(SCORES, keep)
    with pytest.raises(ValueError, match="score_N: found NaN at example 1"):
        kept_positions([0.0, math.nan], 0.5)


def test_ties_are_broken_by_the_seed_not_by_the_order_of_classes():
    """Folders of pictures come class by class, and most examples are never forgotten: all of them score 0."""
    labels_N, score_N = np.arange(1000) // 100, np.zeros(1000)
    score_N[::10] = 1.0
    kept = kept_positions(score_N, 0.5, seed=0)
    assert set(np.flatnonzero(score_N)) <= set(kept.tolist())
    assert np.bincount(labels_N[kept], minlength=10).min() > 35
    assert set(kept_positions(score_N, 0.3, seed=0).tolist()) <= set(kept.tolist())
    assert kept_positions(score_N, 0.5, seed=1).tolist() != kept.tolist()


def test_a_tie_at_the_edge_of_what_is_kept_is_said(tmp_path):
    inputs = np.concatenate([np.full((30, 2), 3.0), np.ones((70, 2))]).astype(np.float32)
    labels = np.repeat([0, 1], 50)
    with pytest.warns(
        UserWarning, match="keep: 70 of 100 examples have equal scores at the edge of what is kept; the se"
    ):
        found = natsel.prune((inputs, labels), "input-norm", 0.5)
    assert "drew the 20 of them" in found.provenance["ties"]
    assert {0, 1} == set(found.examples.labels[30:].tolist())
    assert "ties" not in natsel.prune((inputs, labels), "input-norm", 0.3).provenance
    with pytest.warns(UserWarning, match="keep: 50 of 100"):  # those of the second class
        natsel.prune((inputs, labels), "input-norm", 0.6, balanced=True)


def test_no_address_in_memory_is_kept_of_a_network(digits):
    found = natsel.prune(digits, "loss", network=network, training=QUICK, runs=1, device="cpu")
    assert found.provenance["network"] == "<function network>"


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.1, 1.0), st.floats(0.1, 1.0), st.booleans())
def test_more_keeps_a_superset_and_classes_keep_their_share(seed, one, other, easiest):
    numbers = np.random.default_rng(seed)
    score_N, labels_N = numbers.normal(size=40).round(1), numbers.integers(3, size=40)
    for labels in (None, labels_N):
        fewer, more = (
            kept_positions(score_N, keep, labels_N=labels, easiest=easiest).tolist() for keep in sorted((one, other))
        )
        assert more[: len(fewer)] == fewer
        assert len(more) == n_kept(max(one, other), 40)
    for label in range(3):  # those kept, within one of the share
        own = labels_N == label
        assert abs((labels_N[more] == label).sum() - own.sum() * len(more) / 40) <= 1.5


def test_random_pruning_keeps_each_example_equally_often(monkeypatch):
    module = importlib.import_module("natsel.sampling.prune")  # the name leads to the function
    monkeypatch.setattr(module, "versions", dict)  # which ask git each time
    data = (np.zeros((8, 1)), None)
    counts = np.zeros(8)
    for seed in range(400):
        counts[natsel.prune(data, "random", 0.25, seed=seed).positions_n] += 1
    assert counts.sum() == 800
    assert np.abs(counts / 400 - 0.25).max() < 0.08
    assert natsel.prune(data, "random", seed=1).ids.tolist() == natsel.prune(data, "random", seed=1).ids.tolist()


def test_scores_at_epoch_zero_are_those_of_the_untrained_network(digits):
    found = natsel.prune(digits, "grand", network=network, training=QUICK, runs=2, at_epoch=0, seed=5, device="cpu")
    for run, score_N in enumerate(found.score_R_N):
        untrained = fresh(network, derive(5, "run", run))
        torch.testing.assert_close(score_N, grand(untrained, *digits, device="cpu"))
    torch.testing.assert_close(found.score_N, found.score_R_N.mean(0))
    assert found.provenance["at_epoch"] == [0]


def test_looks_leave_no_trace_and_come_after_the_epochs_they_name(digits):
    weights = lambda module: module[1].weight.detach().clone()  # noqa: E731
    settings = {"seed": 3, "device": torch.device("cpu")}
    seen = looks_at_training(network, digits, QUICK, [0, 1, 4], weights, **settings)
    alone = [looks_at_training(network, digits, QUICK, [epoch], weights, **settings)[0] for epoch in (0, 1, 4)]
    for one, other in zip(seen, alone, strict=True):
        assert torch.equal(one, other)
    assert len({float(one.sum()) for one in seen}) == 3
    module = fresh(network, 3)
    natsel.models.train(module, digits, training=Training(**{**vars(QUICK), "keep": "last"}), seed=3, device="cpu")
    assert torch.equal(weights(module), seen[2])
    for epoch in (-1, 5):
        with pytest.raises(ValueError, match=rf"at_epoch: expected epochs from 0.*found {epoch}"):
            looks_at_training(network, digits, QUICK, [epoch], weights, **settings)


def test_several_epochs_are_averaged(digits):
    settings = {"network": network, "training": QUICK, "runs": 1, "device": "cpu"}
    one, two, both = (natsel.prune(digits, "loss", at_epoch=epoch, **settings).score_N for epoch in (0, 2, (2, 0)))
    torch.testing.assert_close(both, (one + two) / 2)


@pytest.mark.filterwarnings("ignore:keep:UserWarning")  # few examples were forgotten at all
@pytest.mark.parametrize("method", [*METHODS, "bald", "information-gain"])
def test_every_method_scores_every_example(digits, method):
    found = natsel.prune(digits, method, 0.3, network=network, training=QUICK, runs=2, device="cpu")
    assert len(found) == len(found.examples) == 90
    assert found.score_N.shape == (300,)
    assert found.score_R_N.shape == (1 if method in ("input-norm", "random", "bald", "information-gain") else 2, 300)
    assert found.score_N[found.positions_n].min() >= found.score_N.topk(90).values.min()
    np.testing.assert_array_equal(found.examples.labels, digits.labels[found.ids])


def test_forgetting_counts_visits_of_the_training_itself(digits):
    endless = float("inf")
    with pytest.warns(UserWarning, match="keep: .* of 300 examples have equal scores at the edge of what is kept"):
        found = natsel.prune(digits, "forgetting", network=network, training=QUICK, runs=1, device="cpu")
    assert set(found.score_N.tolist()) > {0.0, 1.0, endless}
    assert found.score_N[found.positions_n[0]] == endless
    mean_N = mean_over_runs(torch.tensor([[endless, 0.0, endless], [3.0, 1.0, endless]]))
    assert mean_N.tolist() == [3.5, 0.5, endless]
    with pytest.raises(ValueError, match="at_epoch: forgetting counts over all epochs"):
        natsel.prune(digits, "forgetting", training=QUICK, at_epoch=0, device="cpu")


def test_wrong_labels_are_among_the_first_and_easy_pruning_leaves_them_out(digits):
    noisy = noisy_labels(digits, 0.1, seed=0)
    wrong_N = noisy.labels != digits.labels
    settings = {"training": Training(max_epochs=10), "at_epoch": 8, "runs": 2, "device": "cpu"}
    found = natsel.prune(noisy, "el2n", 0.7, easiest=True, balanced=True, **settings)
    first = [row["id"] for row in found.likely_label_errors(int(wrong_N.sum()))]
    assert wrong_N[first].mean() > 0.8
    assert wrong_N[found.ids].mean() < wrong_N.mean() / 4
    assert found.hardest(1)[0]["rank"] == 1
    assert not found.hardest(1)[0]["kept"]


def test_names_of_the_data_reach_the_list_and_the_table(tmp_path, digits):
    pandas = pytest.importorskip("pandas")
    names = np.array([f"scan-{place}" for place in range(300)])
    frame = pandas.DataFrame(np.asarray(digits.inputs).reshape(300, -1)).add_prefix("pixel ")
    frame = frame.assign(kind=digits.labels, scan=names)
    settings = {"training": QUICK, "at_epoch": 1, "runs": 1, "device": "cpu"}
    found = natsel.prune(frame, labels="kind", ids="scan", **settings)
    by_pair = natsel.prune((frame.filter(like="pixel"), digits.labels), ids=names, **settings)
    assert found.score_N.tolist() == by_pair.score_N.tolist()
    for one in (found, by_pair):
        assert one.likely_label_errors(1)[0]["id"] in names.tolist()
    table = found.to_frame()
    assert table["id"].tolist() == [row["id"] for row in found.hardest()]
    assert (table["label"] != table["predicted"]).sum() == len(found.likely_label_errors())
    found.to_csv(tmp_path / "all.csv")
    frame.to_csv(tmp_path / "scans.csv", index=False)
    out = tmp_path / "found.csv"
    command = ["prune", str(tmp_path / "scans.csv"), "--labels", "kind", "--ids", "scan", "--method", "input-norm"]
    assert main([*command, "--out", str(out)]) == 0
    with out.open(newline="") as file:
        assert {row["id"] for row in csv.DictReader(file)} == set(names.tolist())
    assert (tmp_path / "all.csv").read_text().startswith("rank,id,score,label,predicted,kept\n1,scan-")


def test_files_keep_everything_but_the_data(tmp_path, digits):
    names = [f"{place}.png" for place in range(300)]
    named = natsel.Examples(digits.inputs, digits.labels, tuple("abcdefghij"), {"file": np.array(names)})
    found = natsel.prune(named, "el2n", network=network, training=QUICK, at_epoch=1, runs=2, device="cpu")
    found.save(tmp_path / "kept.safetensors")
    back = natsel.Pruning.load(tmp_path / "kept.safetensors", of=named)
    assert back.ids.tolist() == found.ids.tolist()
    assert back.provenance == json.loads(json.dumps(found.provenance))
    assert back.hardest(5) == found.hardest(5)
    assert torch.equal(back.score_R_N, found.score_R_N)
    np.testing.assert_array_equal(back.examples.labels, found.examples.labels)
    with pytest.raises(ValueError, match="of: these are not the examples"):
        natsel.Pruning.load(tmp_path / "kept.safetensors", of=named[::-1])
    with pytest.raises(ValueError, match="examples: a file holds no data"):
        natsel.Pruning.load(tmp_path / "kept.safetensors").examples  # noqa: B018  the look-up is the test
    natsel.CategoricalSamples.from_probs([[[0.5, 0.5]]]).save(tmp_path / "belief.safetensors")
    with pytest.raises(ValueError, match="holds CategoricalSamples, no pruning"):
        natsel.Pruning.load(tmp_path / "belief.safetensors")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"method": "nope"}, "no method is called 'nope'; pruning has el2n"),
        ({"method": "epig"}, "method: epig asks about targets"),
        ({"runs": 0}, "runs: expected a whole number from 1 on, found 0"),
        ({"runs": 1, "method": "bald"}, "runs: bald asks where runs disagree, found 1 run"),
        ({"at_epoch": 2.5}, "at_epoch: expected whole numbers"),
        ({"at_epoch": 99}, "at_epoch: expected epochs from 0"),
        ({"network": "nope"}, "network: expected mnist-cnn"),
        ({"network": "resnet18", "dataset": (np.zeros((3, 2)), [0, 1, 1])}, "^network: resnet18 wants pictures"),
        ({"dataset": (np.zeros((3, 2)), None)}, "labels: found none, and el2n needs them"),
        ({"dataset": (np.zeros((3, 2)), [0, 1, -1])}, "labels: that of example 2 is not known"),
        ({"dataset": (np.zeros((3, 2)), [0.5, 1.0, 2.0])}, "labels: expected classes"),
        ({"dataset": (np.zeros((3, 2)), None), "method": "random", "balanced": True}, "balanced: found no labels"),
    ],
)
def test_what_cannot_be_pruned_is_refused_before_training(digits, given, said):
    told = []
    with pytest.raises(ValueError, match=said):
        natsel.prune(**{"dataset": digits, "device": "cpu", "progress": lambda *done: told.append(done), **given})
    assert not told


def test_unlabelled_inputs_have_norms():
    found = natsel.prune((np.diag([1.0, 3.0, 2.0]), None), "input-norm", keep=0.4)
    assert found.ids.tolist() == [1]
    with pytest.raises(ValueError, match="input-norm asks no network"):
        found.likely_label_errors()
    torch.testing.assert_close(found.score_N, input_norm(np.diag([1.0, 3.0, 2.0])))


def test_command_writes_tables_files_and_a_page_with_pictures(tmp_path, capsys):
    settings = ["--runs", "1", "--epochs", "2", "--at-epoch", "1", "--device", "cpu"]
    page, out = tmp_path / "page.html", tmp_path / "kept.csv"
    assert (
        main(["prune", "digits", "--keep", "0.2", "--out", str(out), "--report", str(page), "--json", *settings]) == 0
    )
    said = json.loads(capsys.readouterr().out)
    assert (said["kept"], said["examples"]) == (251, 1258)
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["id"]) for row in rows[:251]] == said["ids"]
    assert page.read_text().count("data:image/png;base64,") > 20
    assert "Likely label errors" in page.read_text()
    assert "labels are not what the networks predict: look at them before you train. 251 of 1,258" in page.read_text()
    np.savez(tmp_path / "own.npz", inputs=np.eye(6, dtype=np.float32), labels=[0, 1, 0, 1, 0, 1])
    kept = tmp_path / "kept.safetensors"
    assert main(["prune", str(tmp_path / "own.npz"), "--balanced", "--out", str(kept), *settings]) == 0
    assert "3 of 6 examples kept by el2n" in capsys.readouterr().out
    assert len(natsel.Pruning.load(kept)) == 3
    # One file for both would hold neither.
    both = ["digits", "--out", str(out), "--report", str(out)]
    for wrong in (["no-such-data"], ["digits", "--keep", "0"], ["digits", "--out", "kept.txt"], both):
        assert main(["prune", *wrong, *settings]) == 2
        assert capsys.readouterr().err.startswith("natsel: ")


def test_scores_do_not_depend_on_the_order_of_examples_for_one_network(digits):
    with torch.no_grad():
        log_probs_N_C = fresh(network, 0).eval()(torch.as_tensor(digits.inputs)[:, None].float()).log_softmax(1)
    order = np.random.default_rng(0).permutation(300)
    torch.testing.assert_close(
        loss(log_probs_N_C, digits.labels)[order], loss(log_probs_N_C[order], digits.labels[order])
    )


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an accelerator")
@pytest.mark.parametrize("method", ["el2n", "grand", "grand-last-layer"])
def test_an_accelerator_gives_the_same_scores(digits, method):
    settings = {"network": network, "training": QUICK, "runs": 1, "at_epoch": 0}
    here, there = (natsel.prune(digits, method, device=device, **settings).score_N for device in ("cpu", "cuda"))
    torch.testing.assert_close(here, there, rtol=1e-3, atol=1e-4)
    trained = natsel.prune(digits, "forgetting", network=network, training=QUICK, runs=1, device="cuda")
    assert bool((trained.score_N == 0).any())


def test_a_pruning_has_a_page(digits, tmp_path):
    found = natsel.prune(digits, "input-norm")
    assert "input-norm scores" in natsel.report(found, tmp_path / "page.html").read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="pictures: this page shows what its data hold"):
        natsel.report(found, tmp_path / "page.html", pictures=tmp_path)
