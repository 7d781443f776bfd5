"""Training: when it stops, what it keeps, what it leaves alone, and that it learns."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from natsel.data import Examples, balanced_start, load
from natsel.memory import memory_budget
from natsel.models.dropout.mask_plan import dropout_logits, mean_outputs
from natsel.models.fingerprints import weights_fingerprint
from natsel.models.networks.architectures import fresh, mlp, mnist_cnn
from natsel.models.networks.outputs import Classes, outputs_for_labels, outputs_from_tensor
from natsel.models.networks.prediction import predict
from natsel.models.networks.training import (
    BATCHBALD,
    QUICK,
    STOCHASTIC,
    Epoch,
    Training,
    _optimiser,
    kept_epoch,
    train,
    trained_outputs,
)
from natsel.seeds import derive


def blobs(count, seed, classes=3):
    """Points around corners of a triangle, with some overlap."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(classes, size=count)
    corners = np.array([[0, 0], [3, 0], [0, 3]])
    return Examples((corners[labels] + rng.normal(size=(count, 2))).astype(np.float32), labels)


def line(count, seed):
    rng = np.random.default_rng(seed)
    inputs = rng.uniform(-1, 1, size=(count, 1)).astype(np.float32)
    return Examples(inputs, 1000 + 50 * inputs[:, 0] + 5 * rng.normal(size=count))


SHORT = Training(max_epochs=6, epoch_samples=256, learning_rate=0.01)


def test_presets_are_the_published_protocols():
    assert (BATCHBALD.learning_rate, BATCHBALD.batch, BATCHBALD.weight_decay) == (1e-3, 64, 0.0)
    assert (BATCHBALD.epoch_samples, BATCHBALD.max_epochs, BATCHBALD.patience) == (5056, 30, 3)
    assert (STOCHASTIC.epoch_samples, STOCHASTIC.max_epochs, STOCHASTIC.patience) == (1024, 120, 20)
    assert (STOCHASTIC.weight_decay, STOCHASTIC.batch, STOCHASTIC.validation_draws) == (5e-4, 64, 20)
    assert (BATCHBALD.validation_draws, Training().validation_draws) == (0, 0)


def test_the_validation_set_can_be_judged_by_draws_of_dropout():
    network, validation = fresh(mlp(2, 3), 0), blobs(80, 1)
    epochs = train(network, blobs(40, 0), validation, replace(SHORT, validation_draws=7), seed=3, device="cpu")
    mean = mean_outputs(network, validation.inputs, derive(3, "validation"), 7, torch.device("cpu"))
    found_N_C, labels_N = mean(torch.from_numpy(validation.inputs)), torch.from_numpy(validation.labels)
    kept = kept_epoch(epochs)
    assert kept.validation_loss == pytest.approx(float(F.nll_loss(found_N_C, labels_N)), rel=1e-5)
    assert kept.validation_accuracy == pytest.approx(float((found_N_C.argmax(1) == labels_N).double().mean()))
    with torch.no_grad():
        plainly_N_C = network.eval()(torch.from_numpy(validation.inputs))
    assert kept.validation_loss != pytest.approx(float(F.cross_entropy(plainly_N_C, labels_N)), rel=1e-3)


def test_numbers_too_are_judged_by_the_mean_of_draws():
    network, validation = fresh(mlp(1, 1), 0), line(80, 1)
    epochs = train(network, line(40, 0), validation, replace(SHORT, validation_draws=9), seed=3, device="cpu")
    outputs_N_K = dropout_logits(network, validation.inputs, derive(3, "validation"), range(9), "cpu")[..., 0]
    targets_N = outputs_for_labels(line(40, 0).labels).targets(validation.labels, torch.device("cpu"))
    expected = float((outputs_N_K.mean(1) - targets_N).square().mean())
    assert kept_epoch(epochs).validation_loss == pytest.approx(expected, rel=1e-5)


def test_a_negative_number_of_validation_draws_is_refused():
    with pytest.raises(ValueError, match="validation_draws: expected a whole number of at least 0"):
        Training(validation_draws=-1)


@pytest.mark.parametrize("optimiser", ["adam", "adamw", "sgd"])
def test_learns_classes(optimiser):
    network = fresh(mlp(2, 3), 0)
    epochs = train(network, blobs(60, 0), blobs(60, 1), Training(max_epochs=15, optimiser=optimiser), device="cpu")
    assert kept_epoch(epochs).validation_accuracy > 0.85
    test = blobs(500, 2)
    with torch.no_grad():
        right = network.eval()(torch.from_numpy(test.inputs)).argmax(1).numpy() == test.labels
    assert right.mean() > 0.85


def test_learns_numbers_in_their_own_units():
    labelled, validation, test = line(80, 0), line(200, 1), line(500, 2)
    network = fresh(mlp(1, 1, dropout=0.0), 0)
    epochs = train(network, labelled, validation, Training(max_epochs=40, learning_rate=0.01), device="cpu")
    outcome = trained_outputs(labelled, epochs)
    with torch.no_grad():
        belief = outcome.belief(network.eval()(torch.from_numpy(test.inputs))[:, None], "one")
    error = belief.mean_N_K[:, 0].numpy() - test.labels
    assert np.sqrt((error**2).mean()) < 6.5  # the noise is 5
    assert 4 < math.sqrt(outcome.noise) < 6.5
    assert float(belief.variance_N_K[0, 0]) == pytest.approx(outcome.noise)
    assert epochs[0].validation_accuracy is None


def test_a_fit_is_decided_by_its_seed_and_leaves_the_global_generators_alone():
    given = mlp(2, 3)

    def fitted(seed):
        before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
        network = fresh(given, 4)
        epochs = train(network, blobs(30, 0), blobs(20, 1), SHORT, seed=seed, device="cpu")
        assert torch.equal(before, torch.get_rng_state())
        np.testing.assert_array_equal(numpy_before, np.random.get_state()[1])  # noqa: NPY002
        return epochs, weights_fingerprint(network)

    first = fitted(4)
    torch.rand(3)  # what else was drawn must not matter
    assert fitted(4) == first
    assert fitted(5)[1] != first[1]


class Scripted(nn.Module):
    """A network whose outputs on the validation set follow a script, one entry an epoch."""

    def __init__(self, script):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))
        self.register_buffer("epochs", torch.zeros((), dtype=torch.int64))
        self.script, self.was_training = script, False

    def train(self, mode=True):
        if mode and not self.training:
            self.was_training = True
        return super().train(mode)

    def forward(self, inputs):
        if self.training:
            if self.was_training:
                self.epochs += 1
                self.was_training = False
            return self.weight * torch.ones(len(inputs), 2)
        right, sure = self.script[max(0, int(self.epochs) - 1) % len(self.script)]
        logits = torch.zeros(len(inputs), 2)
        logits[:right, 0] = sure
        logits[right:, 1] = sure
        return logits


def scripted(script, patience, max_epochs=20):
    examples = Examples(np.zeros((10, 1), dtype=np.float32), np.zeros(10, dtype=np.int64))
    network = Scripted(script).eval()
    training = Training(max_epochs=max_epochs, patience=patience, epoch_samples=64)
    epochs = train(network, examples, examples, training, device="cpu")
    return [epoch.validation_accuracy for epoch in epochs], int(network.epochs) - 1


@pytest.mark.parametrize(
    ("script", "patience", "count", "kept"),
    [
        ([(5, 1), (7, 1), (6, 1), (6, 1), (6, 1), (9, 1)], 3, 5, 1),  # three worse in a row
        ([(5, 1), (7, 1), (6, 1), (6, 1), (8, 1), (6, 1), (6, 1), (6, 1), (9, 1)], 3, 8, 4),  # just in time
        ([(8, 0.1), (8, 0.5), (8, 1.0), (8, 0.9), (8, 0.9), (9, 1)], 2, 5, 2),  # as accurate with a lower loss
        ([(8, 1), (8, 1), (8, 1), (9, 1)], 2, 3, 0),  # exactly as good is no better
        ([(5, 1), (6, 1), (7, 1)], 3, 3, 2),  # never declines
        ([(9, 1), (5, 1), (9, 1)], 1, 2, 0),
        ([(5, 0.1), (6, 5), (5, 0.1), (5, 0.1), (5, 0.1)], 2, 4, 1),  # accuracy comes before loss
    ],
)
def test_stops_after_patience_and_gets_the_best_weights_back(script, patience, count, kept):
    accuracies, kept_there = scripted(script, patience, max_epochs=len(script))
    assert accuracies == pytest.approx([right / 10 for right, _ in script[:count]])
    assert kept_there == kept


def test_validation_is_measured_without_dropout_and_cut_by_the_budget():
    validation = blobs(101, 1)
    network = fresh(mlp(2, 3, dropout=0.9), 0)
    with memory_budget(20_000):
        epochs = train(network, blobs(30, 0), validation, SHORT, seed=1, device="cpu")
    assert not network.training
    with torch.no_grad():
        logits = network(torch.from_numpy(validation.inputs))
    labels = torch.from_numpy(validation.labels)
    best = kept_epoch(epochs)
    assert best.validation_loss == pytest.approx(float(nn.functional.cross_entropy(logits, labels)), rel=1e-5)
    assert best.validation_accuracy == pytest.approx(float((logits.argmax(1) == labels).float().mean()))


def test_without_validation_it_stops_once_the_loss_is_small_enough():
    far = Examples(np.array([[-9.0], [9.0]], dtype=np.float32), np.array([0, 1]))
    epochs = train(fresh(mlp(1, 2, dropout=0.0), 0), far, training=Training(), device="cpu")
    assert epochs[-1].loss < Training().enough < epochs[-2].loss
    assert len(epochs) < 50
    assert epochs[0].validation_loss is epochs[0].validation_accuracy is None
    same = train(fresh(mlp(1, 2, dropout=0.0), 0), far, far[:0], Training(), device="cpu")
    assert same == epochs


@pytest.mark.parametrize(
    ("count", "samples", "batch", "sizes"),
    [
        (20, 130, 64, [44, 43, 43]),  # no crumbs: batches differ by one at most
        (1030, None, 1000, [515, 515]),
        (700, None, 700, [700, 700]),  # whole passes, at least 1,024 samples
        (1, 3, 64, [3]),
    ],
)
def test_an_epoch_is_cut_into_even_batches(count, samples, batch, sizes):
    seen, network = [], nn.Linear(1, 2)
    network.register_forward_pre_hook(lambda module, given: seen.append(given[0][:, 0]) if module.training else None)
    examples = Examples(np.arange(count, dtype=np.float32)[:, None] / count, np.zeros(count, dtype=np.int64))
    train(network, examples, None, Training(max_epochs=1, epoch_samples=samples, batch=batch), device="cpu")
    assert [len(part) for part in seen] == sizes
    if samples is None:
        times = torch.cat(seen).mul(count).round().long().bincount(minlength=count)
        assert bool((times == times[0]).all())


def test_weight_decay_is_the_l2_penalty():
    """One step of Adam from zero gradients but for the penalty moves every weight by the learning rate."""
    network = nn.Linear(1, 2, bias=False)
    nn.init.constant_(network.weight, 2.0)
    same = Examples(np.ones((2, 1), dtype=np.float32), np.array([0, 1]))
    once = Training(max_epochs=1, epoch_samples=None, batch=2000, weight_decay=0.1, learning_rate=0.5)
    train(network, same, None, once, device="cpu")
    torch.testing.assert_close(network.weight.detach(), torch.full((2, 1), 1.5), rtol=1e-4, atol=1e-4)


def test_batch_norm_learns_its_statistics_and_gets_the_best_ones_back():
    network = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 3))
    epochs = train(network, blobs(65, 0), blobs(30, 1), SHORT, device="cpu")
    steps = 4 * (kept_epoch(epochs).number + 1)
    assert int(network[0].num_batches_tracked) == steps
    assert not torch.equal(network[0].running_mean, torch.zeros(2))


def test_frozen_weights_stay():
    network = mlp(2, 3)
    network[1].requires_grad_(False)
    before = network[1].weight.clone()
    train(network, blobs(30, 0), None, SHORT, device="cpu")
    assert torch.equal(network[1].weight, before)


def test_progress_goes_up_to_the_end():
    told = []
    train(fresh(mlp(2, 3), 0), blobs(20, 0), None, SHORT, device="cpu", progress=lambda *done: told.append(done))
    assert told == [(done, 6) for done in range(1, 7)]
    told.clear()
    scripted_training = Training(max_epochs=50, enough=1e9)
    train(fresh(mlp(2, 3), 0), blobs(20, 0), None, scripted_training, device="cpu", progress=lambda *d: told.append(d))
    assert told == [(50, 50)]


GOOD = blobs(10, 0)


@pytest.mark.parametrize(
    ("network", "labelled", "validation", "said"),
    [
        (mlp(2, 3), GOOD[:0], None, "labelled: found no examples"),
        (mlp(2, 3), Examples(GOOD.inputs), None, "labelled: found no labels"),
        (mlp(2, 3), GOOD, Examples(GOOD.inputs), "validation: found no labels"),
        (mlp(2, 2), GOOD, None, r"labelled: the network has outputs for the classes 0\.\.1, found labels 0\.\.2"),
        (mlp(2, 3), GOOD, Examples(GOOD.inputs, GOOD.labels + 1), "validation: the network has outputs for"),
        (mlp(2, 3), GOOD, Examples(GOOD.inputs, GOOD.labels * 1.0), "validation: classes and real numbers are mixed"),
        (mlp(2, 3), Examples(GOOD.inputs, GOOD.labels * 1.0), None, "network: real labels need one output, found 3"),
        (mlp(2, 1), Examples(GOOD.inputs, GOOD.labels * np.nan), None, "labels: found NaN or infinity"),
        (nn.Flatten(0), GOOD, None, "network: expected outputs of shape"),
        (nn.Flatten(), GOOD, None, "labelled: the network has outputs for the classes"),
        (nn.Sequential(nn.Linear(2, 3).requires_grad_(False)), GOOD, None, "network: has no parameters that learn"),
    ],
)
def test_what_cannot_be_learnt_is_refused_in_one_sentence(network, labelled, validation, said):
    with pytest.raises(ValueError, match=f"^{said}"):
        train(network, labelled, validation, SHORT, device="cpu")


def test_a_loss_that_explodes_is_refused():
    huge = Examples(GOOD.inputs, GOOD.labels)
    with pytest.raises(ValueError, match=r"^training: the loss became .*lower learning_rate"):
        train(mlp(2, 3), huge, None, Training(learning_rate=1e38, optimiser="sgd", max_epochs=3), device="cpu")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"learning_rate": 0}, "learning_rate: must be greater than 0"),
        ({"batch": 0}, "batch: expected a whole number of at least 1"),
        ({"max_epochs": 0}, "max_epochs: expected a whole number of at least 1"),
        ({"epoch_samples": -1}, "epoch_samples: expected a whole number of at least 1"),
        ({"patience": 0}, "patience: expected a whole number of at least 1"),
        ({"weight_decay": -1}, "weight_decay: expected a number of at least 0"),
        ({"optimiser": "magic"}, "optimiser: expected 'adam', 'adamw' or 'sgd', found 'magic'"),
    ],
)
def test_settings_are_checked(wrong, said):
    with pytest.raises(ValueError, match=f"^{said}"):
        Training(**wrong)


def test_outcomes_survive_being_stored():
    outputs = outputs_for_labels(np.array([1.5, 2.5, 9.0])).with_noise(0.3)
    assert outputs_from_tensor(outputs.as_tensor()) == outputs
    classes = Classes()
    assert outputs_from_tensor(classes.as_tensor()) == outputs_for_labels([True, False]) == outputs_for_labels([1, 2])
    assert outputs_for_labels([1, 2]) == classes
    assert outputs_for_labels([2.0, 2.0]).scale == 1.0


def test_the_kept_epoch_is_the_first_of_the_best():
    assert kept_epoch([Epoch(0, 1.0, 0.5, 0.9), Epoch(1, 0.1, 0.5, 0.9)]).number == 0
    assert kept_epoch([Epoch(0, 1.0), Epoch(1, 0.5), Epoch(2, 0.7)]).number == 1


@pytest.mark.slow
@pytest.mark.parametrize(("preset", "count", "least"), [(BATCHBALD, 20, 0.55), (QUICK, 100, 0.7), (QUICK, 300, 0.88)])
@pytest.mark.needs_data("mnist")
def test_the_batchbald_network_learns_mnist_from_few_labels(preset, count, least):
    mnist = load("mnist")
    start = balanced_start(mnist.train.labels, count // 10, seed=0)
    rest = np.setdiff1d(np.arange(len(mnist.train)), start)[:1024]
    network = fresh(mnist_cnn, 0)
    train(network, mnist.train[start], mnist.train[rest], preset, device="cpu")
    right = predict([network], mnist.test.inputs[:3000], "cpu")[:, 0].argmax(1).numpy() == mnist.test.labels[:3000]
    assert right.mean() > least


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an accelerator")
def test_on_an_accelerator_too_a_fit_is_decided_by_its_seed():
    rng = np.random.default_rng(0)
    pictures = Examples(rng.integers(0, 256, size=(40, 28, 28)).astype(np.uint8), rng.integers(10, size=40))
    before = torch.cuda.get_rng_state(), torch.get_rng_state()
    found = []
    for _ in range(2):
        network = fresh(mnist_cnn, 1)
        epochs = train(network, pictures, pictures, Training(max_epochs=3), seed=1, device="cuda")
        found.append((epochs, weights_fingerprint(network)))
    assert found[0] == found[1]
    assert torch.equal(before[0], torch.cuda.get_rng_state())
    assert torch.equal(before[1], torch.get_rng_state())
    assert not torch.backends.cudnn.deterministic


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("name", ["adam", "adamw", "sgd"])
def test_steps_are_those_of_the_formula(name, decay, dtype):
    weight = torch.tensor([0.5, -1.0], dtype=dtype, requires_grad=True)
    optimiser = _optimiser([weight], Training(learning_rate=0.05, weight_decay=decay, optimiser=name))
    expected, mean, square = weight.detach().clone(), torch.zeros(2, dtype=dtype), torch.zeros(2, dtype=dtype)
    for step in range(1, 5):
        (weight - step).square().sum().backward()
        optimiser.step()
        optimiser.zero_grad()
        gradient = 2 * (expected - step) + (0 if name == "adamw" else decay * expected)
        if name == "sgd":
            mean = 0.9 * mean + gradient
            expected = expected - 0.05 * mean
        else:
            mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
            kept = expected * (1 - 0.05 * decay) if name == "adamw" else expected
            expected = kept - 0.05 * (mean / (1 - 0.9**step)) / ((square / (1 - 0.999**step)).sqrt() + 1e-8)
        torch.testing.assert_close(weight.detach(), expected, rtol=1e-5, atol=1e-6)
