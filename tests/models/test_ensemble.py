"""Ensembles and single networks: consistent draws, members that differ, and stacking that changes nothing."""

import numpy as np
import pytest
import torch
from torch import nn

from natsel.beliefs import CategoricalSamples, GaussianSamples
from natsel.data import Examples
from natsel.memory import memory_budget
from natsel.models import Deterministic, Ensemble, Training, mlp, resnet18
from natsel.models.fingerprints import weights_fingerprint
from natsel.models.networks import ensemble
from natsel.models.networks.architectures import fresh, mnist_cnn
from natsel.models.networks.prediction import bytes_per_point, predict
from natsel.models.networks.training import train
from natsel.models.protocol import Model

QUICK = Training(max_epochs=4, epoch_samples=256, learning_rate=0.01)


def blobs(count, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(3, size=count)
    corners = np.array([[0, 0], [3, 0], [0, 3]])
    return Examples((corners[labels] + rng.normal(size=(count, 2))).astype(np.float32), labels)


LABELLED, VALIDATION = blobs(30, 0), blobs(20, 1)


@pytest.fixture
def one_by_one(monkeypatch):
    monkeypatch.setattr(ensemble, "worth_stacking", lambda *_: False)


def test_it_is_a_model_and_says_one_thing_a_member():
    model = Ensemble(mlp(2, 3, dropout=0.0), members=4, training=QUICK, device="cpu")
    assert isinstance(model, Model)
    belief = model.fit(LABELLED, VALIDATION, seed=1).believe(VALIDATION.inputs)
    assert isinstance(belief, CategoricalSamples)
    assert belief.shape == (20, 4, 3)
    assert belief.ids.tolist() == list(range(20))
    probs = belief.log_probs_N_K_C.exp()
    assert float(probs.std(1).max()) > 0.01  # members differ, without dropout by their seeds alone
    assert len({weights_fingerprint(module) for module in model.modules}) == 4
    assert (probs.mean(1).argmax(1).numpy() == VALIDATION.labels).mean() > 0.7
    assert [len(epochs) for epochs in model.epochs] == [4, 4, 4, 4]


def test_beliefs_are_the_same_for_a_point_wherever_it_lies():
    model = Ensemble(mlp(2, 3), members=3, training=QUICK, device="cpu").fit(LABELLED, seed=1)
    inputs = blobs(300, 5).inputs
    whole = model.believe(inputs)
    with memory_budget(4_000):
        told = []
        parts = model.believe(inputs, progress=lambda *done: told.append(done))
    torch.testing.assert_close(whole.log_probs_N_K_C, parts.log_probs_N_K_C, rtol=1e-5, atol=1e-6)
    assert len(told) > 3
    assert told[-1] == (300, 300)
    assert whole.draws_id == parts.draws_id
    alone = model.believe(inputs[[250]])
    torch.testing.assert_close(alone.log_probs_N_K_C[0], whole.log_probs_N_K_C[250], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("stack", [True, False])
def test_a_fit_starts_afresh_and_is_decided_by_its_seed(monkeypatch, stack):
    monkeypatch.setattr(ensemble, "worth_stacking", lambda *_: stack)
    model = Ensemble(mlp(2, 3), members=3, training=QUICK, device="cpu")
    before = torch.get_rng_state()
    first = model.fit(LABELLED, VALIDATION, seed=3).believe(VALIDATION.inputs)
    other = model.fit(blobs(40, 9), VALIDATION, seed=4).believe(VALIDATION.inputs)
    again = model.fit(LABELLED, VALIDATION, seed=3).believe(VALIDATION.inputs)
    assert torch.equal(first.log_probs_N_K_C, again.log_probs_N_K_C)
    assert first.draws_id == again.draws_id != other.draws_id
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("validation", [VALIDATION, None])
@pytest.mark.parametrize(
    "network",
    [
        mlp(2, 3, dropout=0.0),
        nn.Sequential(nn.Linear(2, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 3)),
        nn.Sequential(nn.Linear(2, 8, bias=False), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 3)),
    ],
    ids=["perceptron", "layer norm", "batch norm"],
)
def test_members_side_by_side_learn_what_each_learns_alone(network, validation):
    """Without dropout nothing random is left: both ways must stop at the same time with the same weights."""
    impatient = Training(max_epochs=12, patience=1, epoch_samples=128, learning_rate=0.1, weight_decay=0.05)
    seeds = [3, 4, 5]
    together = [fresh(network, seed) for seed in seeds]
    members = ensemble.stacked(together, LABELLED)
    if members is None:
        assert any(isinstance(part, nn.BatchNorm1d) for part in network)
        pytest.skip("needs a torch that stacks batch norm")
    stacked = ensemble.train_members(members, LABELLED, validation, impatient, seeds, torch.device("cpu"))
    ensemble.unstack(members, together)
    for seed, module, epochs in zip(seeds, together, stacked, strict=True):
        alone = fresh(network, seed)
        expected = train(alone, LABELLED, validation, impatient, seed=seed, device="cpu")
        assert [epoch.number for epoch in epochs] == [epoch.number for epoch in expected]
        assert [epoch.loss for epoch in epochs] == pytest.approx([epoch.loss for epoch in expected], rel=1e-2)
        outputs = predict([module, alone], VALIDATION.inputs, "cpu")
        torch.testing.assert_close(outputs[:, 0], outputs[:, 1], rtol=2e-2, atol=2e-2)
    if validation is not None:
        assert len({len(epochs) for epochs in stacked}) > 1  # they did stop at different times


def test_stacked_members_get_dropout_of_their_own():
    modules = [fresh(lambda: mlp(2, 3, dropout=0.5), 0) for _ in range(2)]  # twins
    members = ensemble.stacked(modules, LABELLED)
    members.mode(True)
    one, other = members.forward(torch.ones(2, 50, 2))
    assert not torch.equal(one, other)
    members.mode(False)
    one, other = members.forward(torch.ones(2, 50, 2))
    assert torch.equal(one, other)


class Branches(nn.Module):
    """It asks what the numbers are, which no batched call can follow; each point's answer is its own."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 3)

    def forward(self, inputs):
        outputs = self.layer(inputs)
        doubled = outputs.sum(-1, keepdim=True) > 0
        return torch.where(doubled, outputs * 2, outputs) if doubled.any() else outputs


def test_an_architecture_that_cannot_be_stacked_learns_one_by_one():
    assert ensemble.stacked([fresh(Branches, seed) for seed in (0, 1)], LABELLED) is None
    belief = Ensemble(Branches, members=2, training=QUICK, device="cpu").fit(LABELLED).believe(LABELLED.inputs)
    assert belief.shape == (30, 2, 3)


def test_stacking_is_for_small_perceptrons_and_accelerators():
    cpu, cuda = torch.device("cpu"), torch.device("cuda")
    assert ensemble.worth_stacking(mlp(64, 10), cpu)
    assert not ensemble.worth_stacking(mlp(64, 10, hidden=(512, 512)), cpu)
    assert not ensemble.worth_stacking(nn.Conv2d(1, 2, 3), cpu)
    assert ensemble.worth_stacking(mnist_cnn(), cuda)


@pytest.mark.parametrize("stack", [True, False])
def test_progress_counts_all_members(monkeypatch, stack):
    monkeypatch.setattr(ensemble, "worth_stacking", lambda *_: stack)
    told = []
    model = Ensemble(mlp(2, 3), members=3, training=QUICK, device="cpu")
    model.fit(LABELLED, progress=lambda *done: told.append(done))
    done = [now / total for now, total in told]
    assert done == sorted(done)
    assert done[-1] == 1


@pytest.mark.usefixtures("one_by_one")
def test_a_single_network_is_an_ensemble_of_one():
    single = Deterministic(mlp(2, 3), QUICK, device="cpu").fit(LABELLED, VALIDATION, seed=2)
    several = Ensemble(mlp(2, 3), 3, QUICK, device="cpu").fit(LABELLED, VALIDATION, seed=2)
    belief = single.believe(VALIDATION.inputs)
    assert belief.shape == (20, 1, 3)
    assert torch.equal(belief.log_probs_N_K_C, several.believe(VALIDATION.inputs).log_probs_N_K_C[:, :1])


def test_numbers_become_gaussian_draws():
    rng = np.random.default_rng(0)
    inputs = rng.uniform(-1, 1, size=(150, 1)).astype(np.float32)
    labels = 200 + 30 * inputs[:, 0] + 2 * rng.normal(size=150)
    examples = Examples(inputs, labels)
    training = Training(max_epochs=30, learning_rate=0.01)
    model = Ensemble(mlp(1, 1, dropout=0.0), 3, training, device="cpu").fit(examples[:60], examples[60:], seed=0)
    belief = model.believe(np.array([[-0.5], [0.5]], dtype=np.float32))
    assert isinstance(belief, GaussianSamples)
    np.testing.assert_allclose(belief.mean_N_K.mean(1), [185, 215], atol=2)
    assert 2 < float(belief.variance_N_K[0, 0]) < 8  # 2² is the noise
    again = Ensemble(mlp(1, 1, dropout=0.0), 3, training, device="cpu").load_weights(model.weights())
    assert torch.equal(again.believe(inputs).variance_N_K, model.believe(inputs).variance_N_K)


@pytest.mark.parametrize("model", [Ensemble(mlp(2, 3), 2, QUICK, "cpu"), Deterministic(mlp(2, 3), QUICK, "cpu")])
def test_weights_can_be_taken_out_and_put_back(tmp_path, model):
    from safetensors.torch import load_file, save_file

    model.fit(LABELLED, seed=6)
    save_file(model.weights(), tmp_path / "weights.safetensors")
    other = type(model)(mlp(2, 3), training=QUICK, device="cpu")
    other.members = model.members
    other.load_weights(load_file(tmp_path / "weights.safetensors"))
    mine, theirs = model.believe(VALIDATION.inputs), other.believe(VALIDATION.inputs)
    assert torch.equal(mine.log_probs_N_K_C, theirs.log_probs_N_K_C)
    assert mine.draws_id == theirs.draws_id


def test_weights_of_another_model_are_refused():
    model = Ensemble(mlp(2, 3), 2, QUICK, "cpu").fit(LABELLED)
    for other in (Ensemble(mlp(2, 3), 3, QUICK, "cpu"), Ensemble(mlp(2, 3), 1, QUICK, "cpu")):
        with pytest.raises(ValueError, match=r"^weights: they do not fit"):
            other.load_weights(model.weights())
    with pytest.raises(ValueError, match=r"^weights: they do not fit"):
        Ensemble(mlp(2, 4), 2, QUICK, "cpu").load_weights(model.weights())


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match=r"^members: must be at least 1"):
        Ensemble(mlp(2, 3), members=0)
    model = Ensemble(mlp(2, 3), training=QUICK, device="cpu")
    with pytest.raises(ValueError, match=r"fit the model first"):
        model.believe(LABELLED.inputs)
    with pytest.raises(ValueError, match=r"fit the model first"):
        model.weights()
    with pytest.raises(ValueError, match=r"^inputs: found none"):
        model.fit(LABELLED).believe(LABELLED.inputs[:0])


def test_a_failed_fit_leaves_the_model_as_it_was():
    model = Deterministic(mlp(2, 3), QUICK, "cpu").fit(LABELLED)
    before = weights_fingerprint(*model.modules)
    with pytest.raises(ValueError, match=r"labelled: found no examples"):
        model.fit(LABELLED[:0])
    assert weights_fingerprint(*model.modules) == before


def test_predictions_leave_modes_alone_and_use_no_dropout():
    network = mlp(2, 3, dropout=0.9).train()
    network[1].eval()
    modes = [part.training for part in network.modules()]
    outputs = predict([network], LABELLED.inputs, "cpu")
    assert torch.equal(outputs, predict([network], LABELLED.inputs, "cpu"))
    assert [part.training for part in network.modules()] == modes
    assert not outputs.requires_grad


def test_memory_is_counted_by_what_operations_return():
    network = nn.Sequential(nn.Linear(2, 100), nn.ReLU(), nn.Linear(100, 1))
    assert bytes_per_point(network, torch.zeros(1, 2)) == 4 * (100 + 100 + 1)


def test_memory_per_point_leaves_out_weights_that_a_layer_computes():
    network = resnet18(in_channels=1, shape=(8, 8), width=4)
    normalised = resnet18(in_channels=1, shape=(8, 8), width=4, spectral=3.0).eval()
    pictures = torch.zeros(1, 8, 8)
    assert bytes_per_point(normalised, pictures) == bytes_per_point(network.eval(), pictures)
