"""Long trainings: schedules, augmentation, precision, penalties, and fits that go on after they were killed."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from natsel.data import Examples
from natsel.models import (
    CropFlip,
    Deterministic,
    Ensemble,
    JacobianPenalty,
    Training,
    fresh,
    mlp,
    spectrally_normalised,
    train,
)
from natsel.models.fingerprints import fingerprint, weights_fingerprint
from natsel.models.networks import checkpoints
from natsel.models.networks import training as loop
from natsel.models.networks.architectures import ImageInput
from natsel.models.networks.schedules import rate_factor

RNG = np.random.default_rng(0)
PICTURES = Examples(RNG.integers(256, size=(48, 8, 8, 3), dtype=np.uint8), RNG.integers(3, size=48))
ROWS = Examples(RNG.normal(size=(40, 2)).astype(np.float32), RNG.integers(3, size=40))
MORE = Examples(RNG.normal(size=(30, 2)).astype(np.float32), RNG.integers(3, size=30))
SHORT = Training(max_epochs=6, epoch_samples=128, learning_rate=0.01)


def small():
    convolutions = nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 3))
    network = nn.Sequential(ImageInput((8, 8), 0.5, 0.2, 3), *convolutions, nn.Dropout(0.2), nn.Flatten())
    return spectrally_normalised(network.append(nn.Linear(16, 3)), 1.0, input_shape=(8, 8, 3))


def rates(training, monkeypatch):
    """The learning rate of each step."""
    found, step = [], torch.optim.SGD.step

    def noted(self, *arguments):
        found.append(self.param_groups[0]["lr"])
        return step(self, *arguments)

    monkeypatch.setattr(torch.optim.SGD, "step", noted)
    train(fresh(mlp(2, 3), 0), ROWS, MORE, replace(training, optimiser="sgd", patience=None), device="cpu")
    return found


def test_the_learning_rate_follows_its_schedule(monkeypatch):
    once = Training(max_epochs=10, epoch_samples=4, batch=2, learning_rate=2.0)
    by = lambda **changes: rates(replace(once, **changes), monkeypatch)  # noqa: E731
    assert by() == [2.0] * 20
    assert by(schedule="linear")[::2] == by(schedule="linear")[1::2] == [2.0 * (1 - e / 10) for e in range(10)]
    drops = by(schedule="steps", drops=(0.3, 0.75))
    assert drops == pytest.approx([2.0] * 6 + [0.2] * 10 + [0.02] * 4)
    assert by(schedule="cosine") == pytest.approx([1 + math.cos(math.pi * (s + 0.5) / 20) for s in range(20)])
    warm = by(schedule="constant", warm_up=0.5)
    assert warm == pytest.approx([2.0 * (s + 0.5) / 10 for s in range(10)] + [2.0] * 10)
    cycle = by(schedule="one-cycle", warm_up=0.2)
    assert cycle == pytest.approx([0.25, 0.75, 1.25, 1.75] + [2.0 * (1 - (s + 0.5) / 16) for s in range(16)])
    assert max(by(schedule="one-cycle")) == by(schedule="one-cycle")[6] < 2.0  # three tenths of the steps
    assert rate_factor("steps", 150, 350, drops=(150 / 350, 250 / 350)) == pytest.approx(0.1)
    assert rate_factor("steps", 149, 350, drops=(150 / 350, 250 / 350)) == 1.0


def test_crops_and_flips_are_those_of_padded_pictures():
    pictures = torch.arange(1, 1 + 50 * 5 * 4 * 3, dtype=torch.int16).view(50, 5, 4, 3)
    change = CropFlip(padding=2)
    changed = change(pictures, torch.Generator().manual_seed(3))
    padded = torch.nn.functional.pad(pictures, (0, 0, 2, 2, 2, 2))
    ways = set()
    for number in range(50):
        crops = {(y, x): padded[number, y : y + 5, x : x + 4] for y in range(5) for x in range(5)}
        same = [(*at, False) for at, crop in crops.items() if torch.equal(crop, changed[number])]
        mirrored = [(*at, True) for at, crop in crops.items() if torch.equal(crop.flip(1), changed[number])]
        assert len(same + mirrored) == 1
        ways.update(same + mirrored)
    assert len(ways) > 25
    assert {way[2] for way in ways} == {False, True}
    assert torch.equal(change(pictures, torch.Generator().manual_seed(3)), changed)
    first = change(pictures.repeat_interleave(2, 2).permute(0, 3, 1, 2), torch.Generator().manual_seed(3))
    assert first.shape == (50, 3, 5, 8)  # channels first
    assert torch.equal(CropFlip(0, flip=False)(pictures, torch.Generator()), pictures)
    with pytest.raises(ValueError, match=r"^augmentation: crops and flips are for pictures"):
        change(torch.zeros(4, 3), torch.Generator())


@pytest.mark.parametrize("shape", [(6, 7), (6, 7, 3), (3, 6, 7)])
def test_holes_cover_one_square_of_each_picture(shape):
    pictures = torch.ones(200, *shape)
    holes = CropFlip(0, flip=False, hole=3)(pictures, torch.Generator().manual_seed(0)) == 0
    holes = holes.any(1) if shape == (3, 6, 7) else holes.any(3) if len(shape) == 3 else holes
    assert (holes.flatten(1).sum(1) == 9).all()
    assert (holes.any(2).sum(1) == 3).all()
    assert (holes.any(1).sum(1) == 3).all()
    assert holes.any(0).all()  # every pixel is covered now and then


def test_augmentation_is_decided_by_the_seed_and_seen_by_training_steps_alone():
    network, seen = nn.Sequential(nn.Flatten(), nn.Linear(8 * 8 * 3, 3)), {True: [], False: []}
    network.register_forward_pre_hook(lambda module, given: seen[module.training].append(given[0]))
    training = Training(max_epochs=2, augmentation=CropFlip(padding=1))
    start = weights_fingerprint(network)

    def ended(seed, **changes):
        module = fresh(network, 0)
        train(module, PICTURES, PICTURES, replace(training, **changes), seed=seed, device="cpu")
        return weights_fingerprint(module)

    assert ended(1) == ended(1) != ended(2)
    assert ended(1) != ended(1, augmentation=None) != start
    stored = {row.tobytes() for row in PICTURES.inputs.reshape(48, -1)}
    inside = lambda part: [(255 * row).round().byte().numpy().tobytes() in stored for row in torch.cat(part)]  # noqa: E731
    seen[True].clear()
    train(network, PICTURES, PICTURES, training, device="cpu")
    assert all(inside(seen[False]))
    assert np.mean(inside(seen[True])) < 0.2  # one of 18 ways to be cut out


def test_bfloat16_steps_learn_nearly_the_same_and_leave_weights_in_float32():
    ended = {}
    for precision in ("float32", "bfloat16"):
        module = fresh(small, 0)
        training = Training(max_epochs=2, epoch_samples=64, batch=32, precision=precision)
        epochs = train(module, PICTURES, PICTURES, training, device="cpu")
        ended[precision] = epochs[-1].validation_loss
        assert {parameter.dtype for parameter in module.parameters()} == {torch.float32}
        assert {buffer.dtype for buffer in module.buffers()} == {torch.float32, torch.int64}
    assert ended["bfloat16"] == pytest.approx(ended["float32"], rel=0.1)
    assert ended["bfloat16"] != ended["float32"]


def test_a_training_may_use_all_its_epochs_and_keep_the_last():
    epochs = train(mlp(2, 3), ROWS, MORE, replace(SHORT, max_epochs=20, patience=2), device="cpu")
    assert len(epochs) < 20
    module = fresh(mlp(2, 3), 0)
    every = replace(SHORT, max_epochs=12, learning_rate=0.1, patience=None, keep="last")
    epochs = train(module, ROWS, MORE, every, device="cpu")
    assert len(epochs) == 12
    best = max(epochs, key=lambda epoch: epoch.merit)
    assert best.number < 11
    with torch.no_grad():
        loss = nn.functional.cross_entropy(module(torch.from_numpy(MORE.inputs)), torch.from_numpy(MORE.labels))
    assert float(loss) == pytest.approx(epochs[-1].validation_loss, rel=1e-5)
    far = Examples(np.array([[-9.0], [9.0]], dtype=np.float32), np.array([0, 1]))
    endless = Training(max_epochs=15, enough=0, patience=None, learning_rate=0.1)
    assert len(train(mlp(1, 2, dropout=0.0), far, None, endless, device="cpu")) == 15


def test_pictures_stay_bytes_on_the_device_and_are_converted_batch_by_batch(monkeypatch):
    held, prepared = [], loop._prepared

    def noted(*arguments):
        held.append(prepared(*arguments))
        return held[-1]

    monkeypatch.setattr(loop, "_prepared", noted)
    train(small(), PICTURES, PICTURES, replace(SHORT, max_epochs=1), device="cpu")
    assert [part.inputs_N.dtype for part in held] == [torch.uint8, torch.uint8]
    as_numbers = Examples(PICTURES.inputs.astype(np.float32) / 255, PICTURES.labels)
    ended = []
    for examples in (PICTURES, as_numbers):
        module = fresh(small, 0)
        train(module, examples, training=replace(SHORT, max_epochs=1), device="cpu")
        ended.append(weights_fingerprint(module))
    assert ended[0] == ended[1]


def test_the_jacobian_penalty_is_its_formula_and_reaches_the_weights():
    weight = torch.tensor([[3.0, 4.0], [0.0, -8.0]], requires_grad=True)
    inputs = torch.randn(5, 2, requires_grad=True)
    outputs = inputs @ weight.T  # ∇ Σ z = (3, −4)
    penalty = JacobianPenalty(0.5, 1.0)(nn.Identity(), inputs, outputs)
    assert float(penalty.detach()) == pytest.approx(0.5 * (5 - 1) ** 2)
    penalty.backward()
    torch.testing.assert_close(weight.grad, 0.5 * 2 * 4 * torch.tensor([[0.6, -0.8], [0.6, -0.8]]))

    def slope(penalty):
        module = fresh(mlp(2, 3, dropout=0.0), 0)
        train(module, ROWS, None, replace(SHORT, max_epochs=4, penalty=penalty), device="cpu")
        rows = torch.from_numpy(ROWS.inputs).requires_grad_()
        return torch.autograd.grad(module(rows).sum(), rows)[0].norm(dim=1)

    held = slope(JacobianPenalty(weight=20.0, norm=2.0))
    assert float((held - 2.0).abs().mean()) < 0.5 < float((slope(None) - 2.0).abs().mean())
    model = Ensemble(mlp(2, 3), 2, replace(SHORT, max_epochs=1, penalty=JacobianPenalty()), "cpu").fit(ROWS)
    assert len(model.epochs) == 2


class Killed(Exception):
    pass


def killed_at(epoch):
    def progress(done, total):
        if done == epoch:
            raise Killed

    return progress


@pytest.mark.parametrize(
    ("make", "examples", "training"),
    [
        (lambda: mlp(2, 3), ROWS, replace(SHORT, max_epochs=7, patience=3)),
        (lambda: mlp(2, 3), ROWS, replace(SHORT, optimiser="sgd", schedule="cosine", keep="last", patience=None)),
        (small, PICTURES, replace(SHORT, augmentation=CropFlip(1), max_epochs=4, epoch_samples=32)),
    ],
)
def test_a_fit_that_was_killed_ends_as_one_that_was_not(make, examples, training, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "_SECONDS_BETWEEN", 0.0)
    validation = MORE if examples is ROWS else None
    whole = fresh(make, 1)
    expected = train(whole, examples, validation, training, seed=5, device="cpu")
    kept = replace(training, checkpoint=tmp_path)
    for stop in (2, 3):
        with pytest.raises(Killed):
            train(fresh(make, 1), examples, validation, kept, seed=5, device="cpu", progress=killed_at(stop))
    told, again = [], fresh(make, 1)
    before = torch.get_rng_state()
    found = train(again, examples, validation, kept, seed=5, device="cpu", progress=lambda *done: told.append(done[0]))
    assert torch.equal(before, torch.get_rng_state())
    assert found == expected
    assert weights_fingerprint(again) == weights_fingerprint(whole)
    assert told[0] == 2  # two epochs were done before
    (file,) = tmp_path.iterdir()
    told.clear()
    done = fresh(make, 1)
    assert train(done, examples, validation, kept, seed=5, device="cpu", progress=lambda *d: told.append(d)) == expected
    assert weights_fingerprint(done) == weights_fingerprint(whole)
    assert told == [(training.max_epochs, training.max_epochs)]  # nothing was left to do
    for other in ({"seed": 6}, {"labelled": examples[1:]}, {"training": replace(kept, learning_rate=0.02)}):
        arguments = {"labelled": examples, "validation": validation, "training": kept, "seed": 5} | other
        train(fresh(make, 1), **arguments, device="cpu", progress=lambda *d: told.append(d))
    train(fresh(make, 2), examples, validation, kept, seed=5, device="cpu")
    assert len(list(tmp_path.iterdir())) == 5  # each has a file of its own
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"^checkpoint: .* cannot be read .* delete it to start afresh"):
        train(fresh(make, 1), examples, validation, kept, seed=5, device="cpu")


def test_the_epoch_of_least_loss_may_be_kept_in_place_of_the_most_accurate(tmp_path, monkeypatch):
    settings = replace(SHORT, max_epochs=7, learning_rate=0.1, patience=None)
    settled = {}
    for keep in ("best", "least-loss"):
        module = fresh(mlp(2, 3), 1)
        epochs = train(module, ROWS, MORE, replace(settings, keep=keep), seed=5, device="cpu")
        with torch.no_grad():
            loss = nn.functional.cross_entropy(module(torch.from_numpy(MORE.inputs)), torch.from_numpy(MORE.labels))
        assert float(loss) == pytest.approx(loop.kept_epoch(epochs, keep).validation_loss, rel=1e-5)
        settled[keep] = epochs, loop.kept_epoch(epochs, keep)
    assert settled["best"][0] == settled["least-loss"][0]  # the steps are the same
    (epochs, best), (_, least) = settled.values()
    assert least.validation_loss == min(epoch.validation_loss for epoch in epochs) < best.validation_loss
    assert least.validation_accuracy < best.validation_accuracy
    stopped = train(
        fresh(mlp(2, 3), 1), ROWS, MORE, replace(settings, keep="least-loss", patience=2), seed=5, device="cpu"
    )
    assert len(stopped) == 3 + loop.kept_epoch(stopped, "least-loss").number < 7  # patience counts from the least loss
    monkeypatch.setattr(checkpoints, "_SECONDS_BETWEEN", 0.0)
    on_disk = replace(settings, keep="least-loss", checkpoint=tmp_path)
    again = fresh(mlp(2, 3), 1)
    with pytest.raises(Killed):
        train(fresh(mlp(2, 3), 1), ROWS, MORE, on_disk, seed=5, device="cpu", progress=killed_at(least.number + 2))
    train(again, ROWS, MORE, on_disk, seed=5, device="cpu")
    assert weights_fingerprint(again) == weights_fingerprint(module)


def test_members_of_an_ensemble_have_files_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "_SECONDS_BETWEEN", 0.0)
    network = spectrally_normalised(nn.Sequential(nn.Conv2d(3, 2, 3), nn.Flatten(), nn.Linear(72, 3)), 2.0)
    expected = Ensemble(network, 3, SHORT, "cpu").fit(PICTURES, seed=1)
    kept = replace(SHORT, checkpoint=tmp_path)
    assert fingerprint(Deterministic(network, kept)) == fingerprint(Deterministic(network, SHORT))
    assert kept == SHORT
    with pytest.raises(Killed):
        Ensemble(network, 3, kept, "cpu").fit(PICTURES, seed=1, progress=killed_at(8))
    assert len(list(tmp_path.iterdir())) == 2
    told = []
    again = Ensemble(network, 3, kept, "cpu").fit(PICTURES, seed=1, progress=lambda *done: told.append(done[0]))
    assert told[:3] == [6, 7, 8]  # the first is done; the second goes on
    assert weights_fingerprint(*again.modules) == weights_fingerprint(*expected.modules)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (
            {"schedule": "magic"},
            "schedule: expected 'constant', 'linear', 'steps', 'cosine' or 'one-cycle', found 'magic'; the default is",
        ),
        ({"keep": "first"}, "keep: expected 'best', 'least-loss' or 'last', found 'first'; the default is 'best'"),
        ({"precision": "float16"}, "precision: expected 'float32' or 'bfloat16', found 'float16'"),
        ({"momentum": 1.0}, "momentum: must be at least 0 and below 1"),
        ({"warm_up": -0.1}, "warm_up: expected a number of at least 0, found -0.1; the default is 0.0"),
        ({"learning_rate": 0}, "learning_rate: must be greater than 0 .found 0.; the default is 0.001"),
        ({"learning_rate": float("nan")}, "learning_rate: expected a number of at least 0, found nan; the default is"),
        ({"max_epochs": 0}, "max_epochs: expected a whole number of at least 1, found 0; the default is 100"),
        ({"weight_decay": -1}, "weight_decay: expected a number of at least 0, found -1; the default is 0.0"),
        ({"drops": (30, 40)}, "drops: expected shares of the epochs"),
        ({"nesterov": True}, "nesterov: it is for sgd with momentum, found adam"),
        (
            {"augmentation": CropFlip},
            "augmentation: expected a function or a value such as CropFlip.., found the class",
        ),
        ({"penalty": 0.5}, "penalty: expected a function or a value such as JacobianPenalty.., found 0.5"),
        ({"checkpoint": __file__}, "checkpoint: expected a folder, found the file"),
        ({"enough": None}, "enough: expected a number, found None; the default is 0.01"),
        ({"epoch_samples": "all"}, "epoch_samples: expected a whole number of at least 1 or None, found 'all'"),
        ({"batch": 1.5}, "batch: expected a whole number of at least 1, found 1.5; the default is 64"),
        ({"drops": 0.5}, "drops: expected shares of the epochs such as"),
    ],
)
def test_settings_are_checked(wrong, said):
    with pytest.raises(ValueError, match=f"^{said}"):
        Training(**wrong)


def test_crops_are_checked():
    with pytest.raises(
        ValueError, match=r"^padding: expected a whole number of at least 0, found -1; the default is 4"
    ):
        CropFlip(padding=-1)


def test_a_changed_function_of_the_user_does_not_find_the_fit_of_the_old_one(tmp_path):
    def by(factor):
        return lambda inputs_B, generator: inputs_B * factor

    kept = replace(SHORT, max_epochs=1, checkpoint=tmp_path)
    for factor in (1.0, 0.1, 1.0):
        train(fresh(mlp(2, 3), 1), ROWS, None, replace(kept, augmentation=by(factor)), seed=5, device="cpu")
    assert len(list(tmp_path.iterdir())) == 2
    assert len({fingerprint(HoldsFactor(factor)) for factor in (1.0, 0.1, 1.0)}) == 2


class HoldsFactor:
    def __init__(self, factor):
        self.factor = factor
