"""DDU: one network that knows what it has seen, and what it cannot tell apart."""

import numpy as np
import pytest
import torch
from torch import nn

import natsel
from natsel.data import two_moons
from natsel.data.examples import Examples
from natsel.evaluation import auroc
from natsel.evaluation.of_belief import evaluate
from natsel.models import (
    DDU,
    Backbone,
    Deterministic,
    Frozen,
    GaussianDensity,
    NeighbourDensity,
    Training,
    ddu_head,
    mlp,
)
from natsel.models.density.layer_features import features_and_logits

QUICK = Training(max_epochs=6, epoch_samples=512, batch=32, learning_rate=0.01)


@pytest.fixture(scope="module")
def moons():
    train, validation = two_moons(400), two_moons(200, seed=1)
    return train, validation, DDU(mlp(2, 2, (32,), 0.0), training=QUICK, device="cpu").fit(train, validation, seed=0)


def test_far_points_are_unfamiliar_and_overlaps_are_ambiguous(moons):
    train, validation, model = moons
    inside, outside = model.believe(validation.inputs), model.believe(validation.inputs + np.float32([6.0, 6.0]))
    assert auroc(natsel.score("density", inside), natsel.score("density", outside)) > 0.99
    flagged = float(inside.unfamiliar.double().mean())
    assert flagged < 0.1
    assert float(model.believe(train.inputs).unfamiliar.double().mean()) == pytest.approx(0.01, abs=0.003)
    assert evaluate(inside, validation.labels)["accuracy"] > 0.8


def test_features_and_logits_are_those_of_the_network(moons):
    train, _, model = moons
    features_N_D, logits_N_C = features_and_logits(model.module, train.inputs)
    with torch.no_grad():
        hidden_N_D = model.module[:-1](torch.from_numpy(train.inputs))
        torch.testing.assert_close(features_N_D, hidden_N_D)
        torch.testing.assert_close(logits_N_C, model.module[-1](hidden_N_D))
    expected = model.fitted_density.log_density(features_N_D)
    torch.testing.assert_close(model.believe(train.inputs).log_density_N, expected)


def test_same_weights_same_belief(moons):
    _, validation, model = moons
    other = DDU(mlp(2, 2, (32,), 0.0), device="cpu").load_weights(model.weights())
    before, after = model.believe(validation.inputs), other.believe(validation.inputs)
    assert torch.equal(before.log_density_N, after.log_density_N)
    assert (before.temperature, before.threshold) == (after.temperature, after.threshold)
    assert before.draws_id == after.draws_id
    with pytest.raises(ValueError, match="weights: they do not fit"):
        DDU(mlp(2, 2, (8,), 0.0), device="cpu").load_weights(model.weights())


def test_parts_are_believed_as_the_whole(moons, monkeypatch):
    _, validation, model = moons
    whole = model.believe(validation.inputs)
    monkeypatch.setattr("natsel.models.density.ddu._FEATURES", 1)  # 256 inputs at a time
    many = model.believe(np.concatenate([validation.inputs] * 3))
    # Other parts, other last bits of the features; a density far from the data magnifies them.
    torch.testing.assert_close(many.log_density_N, whole.log_density_N.repeat(3), rtol=1e-2, atol=1e-3)


def test_a_trained_network_is_wrapped_and_left_alone(moons):
    train, validation, model = moons
    before = {name: tensor.clone() for name, tensor in model.module.state_dict().items()}
    model.module.train()
    for density in (GaussianDensity("shared"), GaussianDensity(shrinkage=0.3), NeighbourDensity(k=5)):
        wrapped = DDU.around(model.module, train, validation, density=density, device="cpu")
        away = wrapped.believe(validation.inputs + np.float32([6.0, 6.0])).log_density_N
        assert float(away.median()) < float(wrapped.believe(validation.inputs).log_density_N.median())
    assert model.module.training
    model.module.eval()
    assert all(torch.equal(before[name], tensor) for name, tensor in model.module.state_dict().items())
    with pytest.raises(ValueError, match="trained elsewhere"):
        DDU.around(model.module, train, device="cpu").fit(train)


def test_layers_by_name_pictures_and_frozen_features(tmp_path):
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 255, size=(40, 6, 6)).astype(np.uint8)
    network = nn.Sequential(nn.Unflatten(1, (1, 6)), nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 2))
    examples = Examples(pictures.astype(np.float32) / 255, np.arange(40) % 2)
    model = DDU.around(network, examples, features="1", density=GaussianDensity("shared"), device="cpu")
    assert model.fitted_density.means_C_D.shape == (2, 3)  # channels, averaged over pixels
    with pytest.raises(ValueError, match="features: the network has no layer 'body'"):
        DDU.around(network, examples, features="body", device="cpu")
    backbone = Backbone("means", 3, lambda images: images.reshape(len(images), 3, -1).mean(2))
    head = ddu_head(density=GaussianDensity("diagonal"), training=QUICK, device="cpu")
    frozen = Frozen(backbone, head, cache=tmp_path)
    assert len(frozen.fit(examples).believe(examples.inputs).log_density_N) == 40


def test_a_learner_labels_what_is_unfamiliar(tmp_path):
    data = two_moons(120)
    labels = [int(label) if place < 8 else None for place, label in enumerate(data.labels)]
    pool = natsel.Pool(data.inputs, labels=labels, answers=data.labels)
    model = DDU(mlp(2, 2, (16,), 0.0), density=GaussianDensity(shrinkage=0.5), training=QUICK, device="cpu")
    learner = natsel.ActiveLearner(model, pool, method="ddu", k=4, store=tmp_path / "run.db")
    learner.run(budget=16)
    assert learner.n_labelled == 16
    assert learner.predict(data.inputs).shape == (120,)


def test_few_labels_are_told():
    data = two_moons(12)
    model = DDU(Deterministic(mlp(2, 2, (32,), 0.0), QUICK, device="cpu"), device="cpu").fit(
        data, two_moons(50, seed=1)
    )
    said = " ".join(model.believe(data.inputs).warnings)
    assert "singular" in said
    assert "of the validation set fall below it" in said


def test_refused():
    with pytest.raises(ValueError, match="found real labels"):
        DDU(mlp(2, 1), training=QUICK, device="cpu").fit(Examples(np.eye(2, dtype=np.float32), np.array([0.5, 1.5])))
    with pytest.raises(ValueError, match="level: expected a share"):
        DDU(mlp(2, 2), level=99)
    with pytest.raises(ValueError, match="density: expected a value"):
        DDU(mlp(2, 2), density=GaussianDensity)
    with pytest.raises(ValueError, match="fit the model first"):
        DDU(mlp(2, 2), device="cpu").believe(np.eye(2))
    with pytest.raises(ValueError, match="k: expected a whole number of at least 1, found 0; the default is 50"):
        NeighbourDensity(0)


@pytest.mark.parametrize("normalise", [True, False])
def test_neighbours_do_not_depend_on_units_or_on_where_zero_is(normalise):
    generator = torch.Generator().manual_seed(0)
    features_T_D, query_N_D = (torch.randn(n, 4, generator=generator, dtype=torch.float64) for n in (80, 20))
    settings, labels_T = NeighbourDensity(5, normalise), torch.zeros(80, dtype=torch.int64)
    expected_N = settings.fit(features_T_D, labels_T, 1).log_density(query_N_D)
    for scale in (1e-30, 1e30):
        moved_N = settings.fit(features_T_D * scale, labels_T, 1).log_density(query_N_D * scale)
        torch.testing.assert_close(moved_N, expected_N - (0 if normalise else 4 * np.log(scale)))
    if not normalise:
        moved_N = settings.fit(features_T_D + 1e8, labels_T, 1).log_density(query_N_D + 1e8)
        torch.testing.assert_close(moved_N, expected_N, rtol=1e-5, atol=1e-5)


def test_neighbours_refuse_what_has_no_distance():
    fitted = NeighbourDensity(2).fit(torch.eye(3), torch.arange(3), 3)
    for features, word in ((torch.full((1, 3), torch.nan), "found NaN"), (torch.zeros(1, 2), "expected 3 features")):
        with pytest.raises(ValueError, match=word):
            fitted.log_density(features)
    with pytest.raises(ValueError, match="pass at least one point"):
        NeighbourDensity(2).fit(torch.zeros(0, 3), torch.zeros(0), 1)


def test_a_network_that_knows_nothing_of_its_training_set_is_named(moons):
    train = moons[0]
    network = nn.Linear(2, 2)
    with torch.no_grad():
        network.weight.zero_()
        network.bias.copy_(torch.tensor([1.0, 0.0]))
    useless = DDU.around(network, Examples(train.inputs, train.labels), device="cpu")
    assert any("inputs come as in its training" in warning for warning in useless.warnings)
    assert useless.believe(train.inputs[:2]).warnings == useless.warnings
    with pytest.raises(ValueError, match="found real labels"):
        DDU.around(network, Examples(train.inputs, train.labels + 0.5), device="cpu")
    with pytest.raises(ValueError, match=r"pass natsel.Examples\(inputs, labels\)"):
        DDU.around(network, (train.inputs, None), device="cpu")


def test_a_network_that_returns_no_tensor_is_refused():
    class InADict(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(2, 2)

        def forward(self, inputs_B):
            return {"logits": self.inner(inputs_B)}

    with pytest.raises(ValueError, match="expected a tensor of outputs, found dict"):
        DDU.around(InADict(), Examples(np.eye(2, dtype=np.float32), np.array([0, 1])), device="cpu")
