"""Irreducible losses: from networks that have not seen the point, at the epoch of least loss, by id."""

import math
import re

import numpy as np
import pytest
import torch
from torch import nn

import natsel
from natsel.data import Examples
from natsel.models import CropFlip, Training, mlp
from natsel.sampling import irreducible_loss as module
from natsel.sampling.irreducible_loss import IrreducibleLoss, class_balanced_folds, examples_fingerprint

SHORT = Training(max_epochs=4, epoch_samples=128, learning_rate=0.02)


def blobs(count, seed, wrong=0):
    """Three clusters; the first `wrong` labels are those of the next cluster."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(3, size=count)
    angles = 2 * np.pi * labels / 3
    inputs = 2 * np.stack([np.cos(angles), np.sin(angles)], 1) + rng.normal(size=(count, 2)) * 0.4
    labels[:wrong] = (labels[:wrong] + 1) % 3
    return Examples(inputs.astype(np.float32), labels)


def pictures(count, seed):
    rng = np.random.default_rng(seed)
    return Examples(rng.integers(256, size=(count, 6, 6), dtype=np.uint8), rng.integers(3, size=count))


@pytest.fixture
def fits(monkeypatch):
    """What each network was trained on and judged by, and its epochs."""
    found = []

    def noted(network, others, of, training, **options):
        found.append((others, of, training, module_train(network, others, of, training, **options)))
        return found[-1][-1]

    module_train = module.train
    monkeypatch.setattr(module, "train", noted)
    return found


def test_the_epoch_of_least_loss_is_kept_and_points_are_scored_as_they_are(fits):
    network = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(36, 3))
    training = Training(
        max_epochs=8, learning_rate=0.05, augmentation=CropFlip(2), patience=None, validation_draws=4, keep="last"
    )
    holdout, of = pictures(40, 0), pictures(50, 1)
    table = IrreducibleLoss.fit(network, holdout, of, training=training, device="cpu")
    ((_, _, _, epochs),) = fits
    losses = [epoch.validation_loss for epoch in epochs]
    assert float(table.loss_N.mean()) == pytest.approx(min(losses), rel=1e-5)
    assert min(losses) < losses[-1]  # another epoch than the last was kept
    assert f"epoch {1 + losses.index(min(losses))} kept" in table.about
    again = IrreducibleLoss.fit(network, holdout, of, training=training, device="cpu", seed=0)
    assert np.array_equal(again.loss_N, table.loss_N)
    assert not np.array_equal(
        IrreducibleLoss.fit(network, holdout, of, training=training, device="cpu", seed=1).loss_N, table.loss_N
    )


def test_no_point_is_scored_by_a_network_that_was_trained_on_it(fits):
    examples = blobs(47, 0)
    marked = Examples(np.concatenate([examples.inputs, np.arange(47)[:, None] / 47], 1), examples.labels)
    done = []
    table = IrreducibleLoss.cross_fitted(
        mlp(3, 3),
        marked,
        folds=3,
        training=SHORT,
        device="cpu",
        ids=np.arange(100, 147),
        progress=lambda *d: done.append(d),
    )
    scored = [{round(47 * row[2]) for row in of.inputs.tolist()} for _, of, _, _ in fits]
    trained = [{round(47 * row[2]) for row in others.inputs.tolist()} for others, _, _, _ in fits]
    assert sorted(row for part in scored for row in part) == list(range(47))
    assert all(seen == set(range(47)) - part for seen, part in zip(trained, scored, strict=True))
    for _, of, _, epochs in fits:  # each loss went to its own point
        rows = [round(47 * row[2]) for row in of.inputs.tolist()]
        least = min(epoch.validation_loss for epoch in epochs)
        assert float(table.at([100 + row for row in rows]).mean()) == pytest.approx(least, rel=1e-3)
    assert done[-1] == (12, 12)
    assert [step for step, _ in done] == sorted(step for step, _ in done)


@pytest.mark.parametrize("folds", [2, 5])
def test_folds_have_equal_shares_of_each_class(folds):
    labels = np.random.default_rng(1).choice(4, 203, p=[0.6, 0.3, 0.08, 0.02])
    fold_N = class_balanced_folds(labels, folds, seed=3)
    for chosen in (*(labels == one for one in range(4)), np.ones(203, dtype=bool)):
        counts = np.bincount(fold_N[chosen], minlength=folds)
        assert counts.max() - counts.min() <= 1
    assert np.array_equal(fold_N, class_balanced_folds(labels, folds, seed=3))
    assert not np.array_equal(fold_N, class_balanced_folds(labels, folds, seed=4))


def test_wrong_labels_have_the_largest_losses():
    examples = blobs(120, 0, wrong=12)
    table = IrreducibleLoss.cross_fitted(lambda: mlp(2, 3), examples, training=SHORT, device="cpu")
    assert natsel.evaluation.auroc(table.loss_N[12:], table.loss_N[:12]) > 0.95


def test_losses_of_an_ensemble_are_those_of_the_mean_prediction():
    probs = np.array([[[0.9, 0.1], [0.3, 0.7]], [[1.0, 0.0], [1.0, 0.0]]])
    with np.errstate(divide="ignore"):
        table = IrreducibleLoss.of_log_probs(torch.from_numpy(np.log(probs)), [0, 1], ids=["a", "b"])
    assert table.loss_N.tolist() == pytest.approx([-math.log(0.6), math.inf])
    assert table.loss_N.dtype == np.float32
    with pytest.raises(ValueError, match=r"^log_probs_N_K_C: "):
        IrreducibleLoss.of_log_probs(np.full((1, 2, 2), 3.0), [0])  # logits
    with pytest.raises(ValueError, match=r"^labels: classes run from 0 to 1"):
        IrreducibleLoss.of_log_probs(np.log(probs + 1e-9), [0, 2])


def test_losses_go_by_id_and_cannot_be_changed():
    given = np.array([1.0, 2.0, 3.0])
    table = natsel.IrreducibleLoss(given, ids=[30, 10, 20])
    given[0] = 7.0
    assert table.at(torch.tensor([10, 30, 10])).tolist() == [2.0, 1.0, 2.0]
    assert table.at([]).tolist() == []
    table.at([30])[0] = 9.0
    assert table.at(30).tolist() == [1.0]
    with pytest.raises(ValueError, match="read-only"):
        table.loss_N[0] = 5.0
    with pytest.raises(ValueError, match=r"^ids: no irreducible loss is known for 11 and 2 others; "):
        table.at([10, 11, 40, 5])
    with pytest.raises(ValueError, match=r"^ids: no irreducible loss is known for '10'; "):
        table.at(["10"])
    assert natsel.IrreducibleLoss([1.0, 2.0], ids=["a", 5]).at([5]).tolist() == [2.0]


@pytest.mark.parametrize("ending", ["safetensors", "parquet"])
@pytest.mark.parametrize("ids", [[4, 2, 9], ["ä.png", "b.png", "c.png"]])
def test_a_file_holds_all_and_belongs_to_one_data_set(ending, ids, tmp_path):
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    examples = Examples(np.arange(6.0).reshape(3, 2), np.array([0, 1, 1]))
    table = IrreducibleLoss([0.1, math.inf, 1 / 3], ids, examples_fingerprint(examples), "made by hand")
    path = tmp_path / f"il.{ending}"
    table.save(path)
    found = IrreducibleLoss.load(path, of=examples)
    assert found.loss_N.tobytes() == table.loss_N.tobytes()
    assert (found.ids.tolist(), found.fingerprint, found.about) == (ids, table.fingerprint, "made by hand")
    others = Examples(examples.inputs + 1, examples.labels), Examples(examples.inputs, [0, 1, 0]), examples[:2]
    for other in others:
        with pytest.raises(
            ValueError, match=r"^of: these irreducible losses belong to 3 other examples \(made by hand"
        ):
            IrreducibleLoss.load(path, of=other)
    IrreducibleLoss([0.5], ids=ids[:1]).save(path)
    with pytest.raises(ValueError, match=r"^of: these irreducible losses do not say which data they belong to"):
        IrreducibleLoss.load(path, of=examples[:1])
    path.write_bytes(b"no such file")
    with pytest.raises(ValueError, match=r"^path: .* is damaged or not"):
        IrreducibleLoss.load(path)


def test_files_of_other_things_are_refused(tmp_path):
    natsel.CategoricalSamples.from_probs([[[0.5, 0.5]]]).save(tmp_path / "belief.safetensors")
    with pytest.raises(ValueError, match=r"^path: .* holds CategoricalSamples; name a file that"):
        IrreducibleLoss.load(tmp_path / "belief.safetensors")
    with pytest.raises(ValueError, match=r"^path: expected a name that ends in .safetensors or .parquet, found il.pkl"):
        IrreducibleLoss([1.0]).save(tmp_path / "il.pkl")


def test_points_that_were_trained_on_are_told():
    one, other = blobs(20, 0), blobs(20, 1)
    mixed = Examples(np.concatenate([other.inputs, one.inputs[:3]]), np.concatenate([other.labels, one.labels[:3]]))
    with pytest.warns(UserWarning, match=r"3 of 23 points, row 20 first, are also among the examples"):
        IrreducibleLoss.fit(mlp(2, 3), one, mixed, training=SHORT, device="cpu")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"holdout": Examples(np.zeros((3, 2)))}, "holdout: found no labels"),
        ({"of": blobs(0, 0)}, "of: found no examples"),
        ({"of": Examples(np.zeros((2, 2)), [0.5, 1.5])}, "of: expected a class for each point"),
        ({"of": Examples(np.zeros((2, 2)), np.array([0, -1]))}, "of: the label of row 1 is not known"),
        ({"of": np.zeros((2, 2))}, "of: expected natsel.Examples"),
        ({"of": Examples(np.ones((2, 2)), np.array([0, 3]))}, "of: the network has outputs for the classes 0..2"),
        ({"ids": [1, 1]}, "ids: expected one for each of 5 points, found 2"),
        ({"training": 5}, "training: expected natsel.models.Training"),
        ({"network": "mlp"}, "network: expected a torch module or a function"),
    ],
)  # fmt: skip
def test_bad_input_is_refused(wrong, said):
    arguments = {"network": mlp(2, 3), "holdout": blobs(9, 0), "of": blobs(5, 1), "training": SHORT} | wrong
    with pytest.raises(ValueError, match=f"^{re.escape(said)}"):
        IrreducibleLoss.fit(**arguments, device="cpu")


def test_bad_tables_and_folds_are_refused():
    with pytest.raises(ValueError, match=r"^loss_N: found nan in row 1"):
        IrreducibleLoss([0.0, math.nan])
    with pytest.raises(ValueError, match=r"^loss_N: expected one number per point, found shape \(1, 2\)"):
        IrreducibleLoss([[0.0, 1.0]])
    for folds in (1, 6, 2.0):
        with pytest.raises(ValueError, match=r"^folds: expected a whole number from 2 to 5"):
            IrreducibleLoss.cross_fitted(mlp(2, 3), blobs(5, 1), folds=folds, device="cpu")
