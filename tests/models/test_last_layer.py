"""The last layer as a Bayesian model: its precision by autograd, its draws, and every way into it."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression
from torch import nn

import natsel
import natsel.objectives.readings.weights.eig_fisher  # enters EIG in the table of states
from natsel.beliefs import CategoricalSamples, FisherFactors, GaussianSamples
from natsel.data import Examples
from natsel.information import mutual_information
from natsel.information.weights.evidence import evidence_precision
from natsel.memory import memory_budget
from natsel.models import BayesianLinear, Deterministic, Dropout, Ensemble, Frozen, Training, mlp
from natsel.models.features.embeddings import Backbone
from natsel.models.fingerprints import weights_fingerprint
from natsel.models.last_layer.last_layer import LastLayer, last_layer_head
from natsel.models.networks.architectures import fresh
from natsel.models.protocol import Model

QUICK = Training(max_epochs=4, epoch_samples=256, learning_rate=0.01)
CPU = torch.device("cpu")


def blobs(count, seed, classes=3):
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(classes), rng.integers(classes, size=count - classes)])
    corners = np.array([[0, 0], [3, 0], [0, 3], [3, 3]])
    return Examples((corners[labels] + rng.normal(size=(count, 2))).astype(np.float32), labels)


LABELLED, POOL = blobs(30, 0), blobs(20, 1).inputs


def numbers(count, seed):
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(count, 2))
    return Examples(inputs.astype(np.float32), 5 + 10 * (inputs @ [1.0, -2.0] + 0.3 * rng.normal(size=count)))


def explicit_precision(belief_train, prior):
    rows = belief_train.factors.explicit(slice(None)).flatten(0, 1)
    return rows.T @ rows + prior * torch.eye(rows.shape[1], dtype=torch.float64)


def log_det_eig(belief):
    blocks_N_R_R = belief.factors.own(belief.precision)
    return 0.5 * torch.linalg.eigvalsh(blocks_N_R_R).clamp_min(0).log1p().sum(1)


def test_a_network_of_float64_sees_its_inputs_in_float64():
    network = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 3)).double()
    inputs = np.random.default_rng(0).normal(size=(20, 2))
    model = LastLayer.around(network, Examples(inputs, np.arange(20) % 3), prior_precision=0.3, device="cpu")
    features_N_D = network[:2](torch.from_numpy(inputs)).detach()
    assert torch.equal(model.believe(inputs).features_N_D[:, :-1], features_N_D)
    assert torch.equal(model.believe(torch.from_numpy(inputs)).features_N_D[:, :-1], features_N_D)


@pytest.mark.parametrize("bias", [True, False])
def test_the_precision_is_the_hessian_of_the_loss_in_the_last_layer(bias):
    """Autograd as the reference: labels, features and probabilities all go through the network itself."""
    network = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Dropout(0.5), nn.Linear(4, 3, bias=bias)).double()
    model = LastLayer.around(network, LABELLED, prior_precision=0.3, device="cpu")
    features_T_D = network[:2](torch.as_tensor(LABELLED.inputs).double()).detach()
    if bias:
        features_T_D = torch.cat([features_T_D, torch.ones(30, 1, dtype=torch.float64)], 1)
    weight_C_D = torch.cat([network[3].weight, network[3].bias[:, None]], 1) if bias else network[3].weight

    def loss(weight_P):
        logits = features_T_D @ weight_P.view(3, -1).T
        return nn.functional.cross_entropy(logits, torch.as_tensor(LABELLED.labels), reduction="sum")

    expected = torch.autograd.functional.hessian(loss, weight_C_D.detach().flatten())
    expected = expected + 0.3 * torch.eye(len(expected), dtype=torch.float64)
    torch.testing.assert_close(model.precision.dense(len(expected)), expected, rtol=1e-6, atol=1e-8)
    belief = model.believe(LABELLED.inputs)
    assert isinstance(belief, FisherFactors)
    torch.testing.assert_close(belief.features_N_D, features_T_D, rtol=1e-6, atol=1e-6)
    network.eval()
    probs_T_C = network(torch.as_tensor(LABELLED.inputs).double()).softmax(1)
    torch.testing.assert_close(belief.outputs_N_C, probs_T_C.detach(), rtol=1e-6, atol=1e-6)
    assert belief.precision.same(model.precision)
    assert model.warnings == belief.warnings == ()


def test_it_is_a_model_that_starts_afresh_and_is_decided_by_its_seed():
    model = LastLayer(mlp(2, 3), training=QUICK, device="cpu")
    assert isinstance(model, Model)
    before = torch.get_rng_state()
    first = model.fit(LABELLED, blobs(20, 1), seed=3).believe(POOL)
    prior = model.prior
    other = model.fit(blobs(40, 9), seed=4).believe(POOL)
    again = model.fit(LABELLED, blobs(20, 1), seed=3).believe(POOL)
    assert torch.equal(first.features_N_D, again.features_N_D)
    assert torch.equal(first.outputs_N_C, again.outputs_N_C)
    assert first.precision.same(again.precision)
    assert not first.precision.same(other.precision)
    assert first.draws_id == again.draws_id != other.draws_id
    assert model.prior == prior
    assert torch.equal(before, torch.get_rng_state())
    assert len(model.epochs) == 4
    assert first.features_N_D.shape == (20, 129)
    assert (model.predictive(LABELLED.inputs).log_probs_N_K_C[:, 0].argmax(1).numpy() == LABELLED.labels).mean() > 0.7


def test_the_prior_is_the_one_that_the_evidence_favours():
    model = LastLayer(mlp(2, 3, hidden=(5,)), training=QUICK, device="cpu").fit(LABELLED)
    train = model.believe(LABELLED.inputs)
    fisher_P_P = explicit_precision(train, 0.0)
    layer = model.module[-1]
    norm = float(layer.weight.detach().double().square().sum() + layer.bias.detach().double().square().sum())
    expected = evidence_precision(torch.linalg.eigvalsh(fisher_P_P), norm)
    assert model.prior == pytest.approx(expected, rel=1e-6)
    torch.testing.assert_close(model.precision.dense(18), explicit_precision(train, model.prior))


def test_parts_chunks_and_modes_change_nothing():
    network = fresh(nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3)), 0)
    network.train()
    network[1].eval()
    marked = weights_fingerprint(network)
    model = LastLayer.around(network, LABELLED, device="cpu")
    inputs = blobs(300, 5).inputs
    whole = model.believe(inputs)
    told = []
    with memory_budget(3_000):
        parts = model.believe(inputs, progress=lambda *done: told.append(done))
    torch.testing.assert_close(whole.features_N_D, parts.features_N_D, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(whole.outputs_N_C, parts.outputs_N_C, rtol=1e-5, atol=1e-7)
    assert len(told) > 3
    assert told[-1] == (300, 300)
    assert network.training
    assert not network[1].training
    assert weights_fingerprint(network) == marked  # no batch statistics moved
    assert len(network[4]._forward_pre_hooks) == len(network[4]._forward_hooks) == 0


def test_a_sure_network_keeps_the_digits_of_its_doubt():
    model = LastLayer.of_linear([[60.0, 0.0], [0.0, 0.0]], np.eye(2), prior_precision=1.0, device="cpu")
    gains = log_det_eig(model.believe([[1.0, 0.0]]))
    assert 1e-27 < float(gains) < 1e-25


@pytest.mark.parametrize(
    ("network", "error"),
    [
        (nn.Sequential(nn.Conv1d(1, 3, 2), nn.Flatten()), "calls no linear layer"),
        (nn.Sequential(nn.Linear(2, 3), nn.Softmax(1)), "its outputs are probabilities"),
        (nn.Sequential(nn.Linear(2, 3), nn.Tanh()), "not those of its last linear layer"),
        (nn.Sequential(nn.Unflatten(1, (1, 2)), nn.Linear(2, 3), nn.Flatten()), "not those of its last linear layer"),
    ],
)
def test_a_network_without_a_linear_end_is_refused(network, error):
    inputs = LABELLED.inputs[:, None] if isinstance(network[0], nn.Conv1d) else LABELLED.inputs
    with pytest.raises(ValueError, match=error):
        LastLayer.around(network, Examples(inputs, LABELLED.labels), device="cpu")


def test_a_log_softmax_may_follow():
    linear = fresh(mlp(2, 3), 0)
    plain = LastLayer.around(linear, LABELLED, device="cpu").believe(POOL)
    ended = LastLayer.around(nn.Sequential(linear, nn.LogSoftmax(1)), LABELLED, device="cpu").believe(POOL)
    torch.testing.assert_close(plain.outputs_N_C, ended.outputs_N_C)
    assert plain.precision.same(ended.precision)


class TwoEnds(nn.Module):
    """The layer that is defined last is not the one that is called last."""

    def __init__(self):
        super().__init__()
        self.out, self.hidden = nn.Linear(4, 3), nn.Linear(2, 4)

    def forward(self, inputs):
        return self.out(self.hidden(inputs).relu())


def test_the_last_layer_is_the_one_called_last():
    model = LastLayer(TwoEnds, training=QUICK, device="cpu").fit(LABELLED)
    assert model.believe(POOL).features_N_D.shape == (20, 5)


def test_draws_are_functions_of_the_seed_and_agree_with_the_posterior():
    model = LastLayer(mlp(2, 3, hidden=(5,)), prior_precision=5.0, training=QUICK, device="cpu").fit(LABELLED)
    whole = model.draws(POOL, 7, seed=1)
    assert isinstance(whole, CategoricalSamples)
    assert whole.shape == (20, 7, 3)
    part = model.draws(POOL[5:8], 7, seed=1)
    torch.testing.assert_close(part.log_probs_N_K_C, whole.log_probs_N_K_C[5:8])
    other = model.draws(POOL, 7, seed=2)
    assert whole.draws_id == part.draws_id != other.draws_id
    assert float((other.log_probs_N_K_C - whole.log_probs_N_K_C).abs().amax((0, 2)).min()) > 1e-3, "no draw is shared"
    with memory_budget(2000):
        torch.testing.assert_close(model.draws(POOL, 7, seed=1).log_probs_N_K_C, whole.log_probs_N_K_C)
    # Log-odds are linear in the weights: their covariance over draws is that of the posterior.
    many = model.draws(POOL[:2], 40_000, seed=3).log_probs_N_K_C
    odds_4_K = (many[:, :, 1:] - many[:, :, :1]).permute(0, 2, 1).flatten(0, 1)
    belief = model.believe(POOL[:2])
    jacobian_4_P = torch.cat(
        [torch.kron(torch.tensor([[-1.0, 1, 0], [-1, 0, 1]]).double(), x[None].double()) for x in belief.features_N_D]
    )
    expected = jacobian_4_P @ torch.linalg.inv(model.precision.dense(18)) @ jacobian_4_P.T
    torch.testing.assert_close(odds_4_K.cov(), expected, rtol=0.05, atol=0.03 * float(expected.max()))
    mean = model.predictive(POOL[:2]).log_probs_N_K_C[:, 0]
    torch.testing.assert_close(odds_4_K.mean(1), (mean[:, 1:] - mean[:, :1]).flatten(), rtol=0.05, atol=0.03)


def test_sample_space_and_weight_space_agree_where_the_posterior_is_narrow():
    """BALD over draws of the last layer → ½ log det(I + K) as the spread of logits shrinks."""
    model = LastLayer.of_linear(
        [[0.5, -0.3, 0.2], [-0.4, 0.6, -0.1], [0.1, 0.2, 0.3]],
        torch.randn(40, 3, generator=torch.Generator().manual_seed(0)),
        prior_precision=300.0,
        device="cpu",
    )
    pool = torch.randn(8, 3, generator=torch.Generator().manual_seed(1)).double()
    bald = mutual_information(model.draws(pool, 40_000).log_probs_N_K_C)
    torch.testing.assert_close(bald, log_det_eig(model.believe(pool)), rtol=0.05, atol=1e-5)


def test_regression_is_bayesian_linear_regression():
    data = numbers(25, 0)
    rows = np.concatenate([data.inputs, np.ones((25, 1))], 1).astype(np.float64)
    reference = BayesianLinear(prior=2.0, noise=0.7, intercept=True).fit(data)
    model = LastLayer.of_linear(reference.mean_D, rows, "gaussian", noise=0.7, prior_precision=0.5, device="cpu")
    pool = numbers(6, 3).inputs
    ours = model.believe(np.concatenate([pool, np.ones((6, 1))], 1))
    theirs = reference.believe(pool)
    gains = 0.5 * (theirs.features_N_D.square().sum(1) / 0.7).log1p()
    torch.testing.assert_close(log_det_eig(ours), gains, rtol=1e-6, atol=1e-8)
    drawn = model.draws(np.concatenate([pool, np.ones((6, 1))], 1), 20_000)
    assert isinstance(drawn, GaussianSamples)
    torch.testing.assert_close(drawn.mean_N_K.mean(1), reference.predictive(pool).mean_N_K[:, 0], rtol=1e-2, atol=1e-2)
    assert float(drawn.variance_N_K[0, 0]) == pytest.approx(0.7)


def test_a_network_for_numbers_is_unsure_in_its_own_units():
    data = numbers(40, 0)
    training = Training(max_epochs=40, learning_rate=0.02)
    model = LastLayer(mlp(2, 1, hidden=(8,), dropout=0.0), training=training, device="cpu").fit(data)
    belief = model.believe(data.inputs)
    assert belief.kind == "diagonal"
    assert belief.outputs_N_C.shape == (40, 1)
    said = model.predictive(data.inputs)
    assert np.corrcoef(said.mean_N_K[:, 0].numpy(), data.labels)[0, 1] > 0.9
    scaled = Examples(data.inputs, 7.0 + 3.0 * data.labels)
    other = LastLayer(mlp(2, 1, hidden=(8,), dropout=0.0), training=training, device="cpu").fit(scaled)
    torch.testing.assert_close(log_det_eig(other.believe(POOL)), log_det_eig(model.believe(POOL)), rtol=1e-3, atol=1e-4)


def test_noise_of_a_network_trained_elsewhere_is_that_of_its_residuals():
    data = numbers(200, 0)
    linear = nn.Linear(2, 1)
    with torch.no_grad():
        linear.weight.copy_(torch.tensor([[10.0, -20.0]]))
        linear.bias.fill_(5.0)
    model = LastLayer.around(linear, data, device="cpu")
    assert float(model.believe(POOL).outputs_N_C[0, 0]) ** -2 == pytest.approx(9.0, rel=0.2)


@pytest.mark.parametrize("structure", ["full", "kronecker", "diagonal", "low-rank", "identity"])
def test_every_structure_believes_and_draws(structure):
    model = LastLayer(mlp(2, 3, hidden=(5,)), structure=structure, training=QUICK, device="cpu").fit(LABELLED)
    belief = model.believe(POOL)
    assert bool((log_det_eig(belief) > 0).all())
    assert bool(model.draws(POOL, 5).log_probs_N_K_C.isfinite().all())
    assert belief.precision.n_weights == 18 if structure != "identity" else float(belief.precision.scale) == model.prior
    if structure == "low-rank":
        full = LastLayer(mlp(2, 3, hidden=(5,)), training=QUICK, device="cpu").fit(LABELLED).believe(POOL)
        torch.testing.assert_close(log_det_eig(belief), log_det_eig(full), rtol=1e-5, atol=1e-7)


def test_models_with_one_network_lend_it():
    dropout = Dropout(mlp(2, 3), draws=4, training=QUICK, device="cpu").fit(LABELLED, seed=2)
    around = LastLayer.around(dropout, LABELLED, device="cpu")
    through = LastLayer(Dropout(mlp(2, 3), draws=4, training=QUICK, device="cpu"), device="cpu").fit(LABELLED, seed=2)
    torch.testing.assert_close(around.believe(POOL).features_N_D, through.believe(POOL).features_N_D)
    assert around.precision.same(through.precision)
    single = LastLayer(Deterministic(mlp(2, 3), QUICK, device="cpu"), device="cpu").fit(LABELLED)
    assert len(single.epochs) == 4
    with pytest.raises(ValueError, match="found 2 in Ensemble"):
        LastLayer(Ensemble(mlp(2, 3), 2, QUICK, device="cpu"), device="cpu").fit(LABELLED)
    with pytest.raises(ValueError, match="found none in Dropout"):
        LastLayer.around(Dropout(mlp(2, 3), device="cpu"), LABELLED)
    with pytest.raises(ValueError, match="training: the model given"):
        LastLayer(dropout, training=QUICK)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("classes", [2, 3])
def test_logistic_regression_is_all_last_layer(classes, intercept):
    from sklearn.linear_model import LogisticRegression

    data = blobs(40, 3, classes)
    estimator = LogisticRegression(C=0.5, fit_intercept=intercept, tol=1e-8, max_iter=1000)
    model = LastLayer(estimator, prior_precision=2.0, device="cpu").fit(data)
    belief = model.believe(POOL)
    assert belief.features_N_D.shape == (20, 2 + intercept)
    assert belief.outputs_N_C.shape == (20, 1 if classes == 2 else 3)
    fitted = estimator.fit(data.inputs.astype(np.float64), data.labels)
    said = model.predictive(POOL).log_probs_N_K_C[:, 0].exp().numpy()
    np.testing.assert_allclose(said, fitted.predict_proba(POOL.astype(np.float64)), atol=1e-8)
    train = model.believe(data.inputs)
    torch.testing.assert_close(model.precision.dense(train.factors.n_weights), explicit_precision(train, 2.0))
    assert model.draws(POOL, 6).shape == (20, 6, classes)


def test_classes_without_a_label_so_far_have_no_probability():
    from sklearn.linear_model import LogisticRegression

    for seen in ([0, 2, 3], [1, 3]):
        data = blobs(60, 3, 4)
        some = Examples(data.inputs, data.labels, ("a", "b", "c", "d"))[np.isin(data.labels, seen)]
        model = LastLayer(LogisticRegression(), device="cpu").fit(some)
        belief = model.believe(POOL)
        unseen = [label for label in range(4) if label not in seen]
        assert belief.outputs_N_C.shape == (20, 4)
        assert float(belief.outputs_N_C[:, unseen].max()) == 0.0
        assert bool(log_det_eig(belief).isfinite().all())
        drawn = model.draws(POOL, 3).log_probs_N_K_C
        assert bool((drawn[..., unseen] == -torch.inf).all())
        accurate = belief.outputs_N_C.argmax(1).numpy()
        assert set(accurate) <= set(seen)


def test_linear_regression_and_what_is_none_of_these():
    from sklearn.linear_model import Ridge, SGDClassifier
    from sklearn.tree import DecisionTreeClassifier

    data = numbers(50, 0)
    model = LastLayer(Ridge(alpha=0.1), device="cpu").fit(data)
    assert model.believe(POOL).kind == "diagonal"
    assert model.predictive(data.inputs).mean_N_K.shape == (50, 1)
    with pytest.raises(ValueError, match="no softmax of its outputs"):
        LastLayer(SGDClassifier(loss="log_loss", random_state=0)).fit(LABELLED)
    with pytest.raises(ValueError, match="no coefficients"):
        LastLayer(DecisionTreeClassifier()).fit(LABELLED)


def test_other_generalised_linear_models():
    rows = torch.tensor([[1.0, 0.0], [0.5, 1.0]], dtype=torch.float64)
    counts = LastLayer.of_linear([[0.4, -0.2]], rows, "poisson", prior_precision=1.0, device="cpu")
    rates = (rows @ torch.tensor([0.4, -0.2], dtype=torch.float64)).exp()
    torch.testing.assert_close(counts.believe(rows).outputs_N_C[:, 0], rates.sqrt())
    expected = rows.T @ (rates[:, None] * rows) + torch.eye(2, dtype=torch.float64)
    torch.testing.assert_close(counts.precision.dense(2), expected)
    with pytest.raises(ValueError, match="draws of predictions are made of classes or of one number"):
        counts.draws(rows)
    odds = LastLayer.of_linear([0.4, -0.2], rows, "bernoulli", prior_precision=1.0, device="cpu")
    probs = (rows @ torch.tensor([0.4, -0.2], dtype=torch.float64)).sigmoid()
    torch.testing.assert_close(odds.believe(rows).outputs_N_C[:, 0].square(), probs * (1 - probs))
    torch.testing.assert_close(odds.predictive(rows).log_probs_N_K_C[:, 0, 1].exp(), probs)
    with pytest.raises(ValueError, match="likelihood: expected categorical"):
        LastLayer.of_linear([[0.4, -0.2]], rows, "gamma")
    with pytest.raises(ValueError, match="noise: expected"):
        LastLayer.of_linear([[0.4, -0.2]], rows, "gaussian", noise=0.0)


def test_frozen_backbones_take_it_as_a_head(tmp_path):
    from sklearn.linear_model import LogisticRegression

    backbone = Backbone("doubled", 3, lambda rows: np.concatenate([rows * 2, rows[:, :1] ** 2], 1))
    for head in (last_layer_head(training=QUICK, device="cpu"), LastLayer(LogisticRegression(), device="cpu")):
        model = Frozen(backbone, head, cache=tmp_path).fit(LABELLED)
        belief = model.believe(POOL)
        assert isinstance(belief, FisherFactors)
        assert belief.features_N_D.shape == (20, 4)
        assert belief.outputs_N_C.shape == (20, 3)


def test_a_learner_asks_by_what_the_last_layer_does_not_know():
    pool = natsel.Pool(blobs(40, 3).inputs)
    model = LastLayer(mlp(2, 3, hidden=(8,)), training=QUICK, device="cpu")
    learner = natsel.ActiveLearner(model, pool, method="batchbald", k=3, test=blobs(20, 4), seed=0)
    answers = blobs(40, 3).labels
    learner.tell(range(6), answers[:6])
    asked = learner.ask()
    assert len(set(asked.ids.tolist())) == 3
    belief = LastLayer.around(learner.model.module, Examples(blobs(40, 3).inputs[:6], answers[:6]), device="cpu")
    scores = log_det_eig(belief.believe(blobs(40, 3).inputs))
    scores[:6] = -1
    assert int(asked.ids[0]) == int(scores.argmax())


def test_singular_and_broken_curvature_is_met_with_a_sentence():
    no_prior = LastLayer.around(fresh(mlp(2, 3), 0), LABELLED, prior_precision=0.0, device="cpu")
    belief = no_prior.believe(POOL)
    (warning,) = belief.warnings
    assert "a ridge of" in warning
    assert bool(log_det_eig(belief).isfinite().all())
    assert belief[:3].warnings == belief.warnings
    rows = torch.tensor([[1.0, 0.0], [float("nan"), 1.0], [0.5, 1.0]])
    broken = LastLayer.of_linear([[0.4, -0.2], [0.0, 0.1]], rows, prior_precision=1.0, device="cpu")
    (warning,) = broken.warnings
    assert "features of 1 examples are not finite" in warning
    sound = LastLayer.of_linear([[0.4, -0.2], [0.0, 0.1]], rows[[0, 2]], prior_precision=1.0, device="cpu")
    assert broken.precision.same(sound.precision)
    with pytest.raises(ValueError, match="NaN or infinity in row 1"):
        broken.believe(rows)


def test_refusals():
    with pytest.raises(ValueError, match="fit the model first"):
        LastLayer(mlp(2, 3)).believe(POOL)
    with pytest.raises(ValueError, match="prior_precision: expected"):
        LastLayer(mlp(2, 3), prior_precision=-1.0)
    model = LastLayer.around(fresh(mlp(2, 3), 0), LABELLED, device="cpu")
    with pytest.raises(ValueError, match="inputs: found none"):
        model.believe(POOL[:0])
    with pytest.raises(ValueError, match="count: expected"):
        model.draws(POOL, 0)
    with pytest.raises(ValueError, match="labelled: found no labels"):
        LastLayer.around(fresh(mlp(2, 3), 0), Examples(POOL), device="cpu")
    with pytest.raises(ValueError, match="labelled: expected classes from 0 to 1"):
        LastLayer.around(fresh(mlp(2, 2), 0), LABELLED, device="cpu")
    linear = LastLayer.of_linear([[0.4, -0.2]], np.eye(2), "bernoulli", device="cpu")
    with pytest.raises(ValueError, match="expected 2 features for each"):
        linear.believe(np.eye(3))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an accelerator")
@pytest.mark.parametrize("structure", ["full", "kronecker", "diagonal", "low-rank", "identity"])
def test_an_accelerator_believes_the_same(structure):
    network = fresh(mlp(2, 3), 0)
    here = LastLayer.around(network, LABELLED, structure=structure, device="cpu")
    said, drawn = here.believe(POOL), here.draws(POOL, 9)
    there = LastLayer.around(network, LABELLED, structure=structure, device="cuda")
    belief = there.believe(POOL)
    assert belief.device.type == belief.precision.tensors()[belief.precision.parts[0]].device.type == "cuda"
    assert there.prior == pytest.approx(here.prior, rel=1e-3)
    torch.testing.assert_close(log_det_eig(belief).cpu(), log_det_eig(said), rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(there.draws(POOL, 9).log_probs_N_K_C.cpu(), drawn.log_probs_N_K_C, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("times", [1e-6, 1e6, 1e9])
def test_a_linear_regression_finds_its_prior_in_any_units(times):
    rng = np.random.default_rng(0)
    inputs, pool = rng.normal(size=(60, 3)), rng.normal(size=(20, 3))
    labels = inputs @ np.array([1.0, -2.0, 0.5]) + 0.3 * rng.normal(size=60)
    models = [LastLayer(LinearRegression()).fit(Examples(inputs, labels * each)) for each in (1.0, times)]
    assert models[1].warnings == models[0].warnings == ()
    assert models[1].prior * times**2 == pytest.approx(models[0].prior, rel=1e-6)
    scores = [natsel.score("bald", model.believe(pool)) for model in models]
    torch.testing.assert_close(*scores, rtol=1e-6, atol=0)
