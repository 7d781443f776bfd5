"""Gradients of all weights: rows against explicit Jacobians and losses, sketches, and what cannot be batched."""

import numpy as np
import pytest
import torch
from torch import nn

from natsel.beliefs import FisherFactors, FisherRows
from natsel.data import Examples
from natsel.information.weights.evidence import evidence_precision
from natsel.memory import memory_budget
from natsel.models import Training, mlp
from natsel.models.last_layer.gradients import Gradients
from natsel.models.last_layer.last_layer import LastLayer
from natsel.models.last_layer.sketch import Sketch
from natsel.models.networks.architectures import fresh, mnist_cnn
from natsel.models.protocol import Model

QUICK = Training(max_epochs=3, epoch_samples=128, learning_rate=0.01)


def blobs(count, seed):
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(3), rng.integers(3, size=count - 3)])
    corners = np.array([[0, 0], [3, 0], [0, 3]])
    return Examples((corners[labels] + rng.normal(size=(count, 2))).astype(np.float32), labels)


LABELLED, POOL = blobs(12, 0), blobs(7, 1)


def network(bias=True):
    return fresh(nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Dropout(0.5), nn.Linear(4, 3, bias=bias)), 0)


def jacobian(module, example):
    """[C, P], one backward pass an output."""
    module.eval()
    outputs_C = module(torch.as_tensor(example)[None])[0]
    weights = list(module.parameters())
    rows = [torch.autograd.grad(output, weights, retain_graph=True) for output in outputs_C]
    return torch.stack([torch.cat([part.flatten() for part in row]) for row in rows]).double()


def loss_gradient(module, example, label):
    module.eval()
    loss = nn.functional.cross_entropy(module(torch.as_tensor(example)[None]), torch.tensor([label]))
    return torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(module.parameters()))])


def probs_of(module, inputs):
    module.eval()
    with torch.no_grad():
        return module(torch.as_tensor(inputs)).softmax(1).double()


def test_networks_that_fit_whole_are_not_sketched():
    whole = Gradients.around(network(), LABELLED, sketch=None, prior_precision=0.4, device="cpu")
    for sketch in (512, 27, Sketch(27)):
        model = Gradients.around(network(), LABELLED, sketch=sketch, prior_precision=0.4, device="cpu")
        belief = model.believe(POOL.inputs)
        assert torch.equal(belief.rows_N_R_P, whole.believe(POOL.inputs).rows_N_R_P)
        assert belief.precision.same(whole.precision)
        assert belief.draws_id == whole.believe(POOL.inputs).draws_id
    smaller = Gradients.around(network(), LABELLED, sketch=26, prior_precision=0.4, device="cpu")
    assert smaller.believe(POOL.inputs).rows_N_R_P.shape == (7, 3, 26)


def test_a_network_of_float64_has_gradients_in_float64():
    inputs = np.random.default_rng(0).normal(size=(9, 2))
    model = Gradients.around(network().double(), Examples(inputs, np.arange(9) % 3), prior_precision=0.4, device="cpu")
    rows_N_R_P = model.believe(inputs).rows_N_R_P
    pi = network().double().eval()(torch.from_numpy(inputs[:1]))[0].softmax(0).detach()
    jacobian_C_P = jacobian(network().double(), inputs[0])
    expected = jacobian_C_P.T @ (pi.diag() - pi[:, None] * pi) @ jacobian_C_P
    torch.testing.assert_close(rows_N_R_P[0].T @ rows_N_R_P[0], expected, rtol=1e-12, atol=1e-14)


def test_expected_rows_are_the_root_of_the_gauss_newton_matrix():
    module = network()
    belief = Gradients.around(module, LABELLED, sketch=None, prior_precision=0.4, device="cpu").believe(POOL.inputs)
    assert isinstance(belief, FisherRows)
    assert belief.rows_N_R_P.shape == (7, 3, 27)
    fisher_P_P = 0.4 * torch.eye(27, dtype=torch.float64)
    for inputs, check in ((POOL.inputs, True), (LABELLED.inputs, False)):
        for number, (example, pi) in enumerate(zip(inputs, probs_of(module, inputs), strict=True)):
            jacobian_C_P = jacobian(module, example)
            expected = jacobian_C_P.T @ (pi.diag() - pi[:, None] * pi) @ jacobian_C_P
            if check:
                rows = belief.rows_N_R_P[number].double()
                torch.testing.assert_close(rows.T @ rows, expected, rtol=1e-4, atol=1e-6)
            else:
                fisher_P_P += expected
    torch.testing.assert_close(belief.precision.dense(27), fisher_P_P, rtol=1e-4, atol=1e-5)


def test_gradients_under_labels_are_those_of_the_loss():
    module = network()
    probs_N_C = probs_of(module, POOL.inputs)
    cases = {"true": POOL.labels, "hard": probs_N_C.argmax(1).numpy()}
    for labels, used in cases.items():
        model = Gradients.around(module, LABELLED, labels, sketch=None, device="cpu")
        assert model.precision.same(Gradients.around(module, LABELLED, sketch=None, device="cpu").precision)
        belief = model.believe(POOL.inputs, POOL.labels) if labels == "true" else model.believe(POOL.inputs)
        assert belief.rows_N_R_P.shape == (7, 1, 27)
        for row, example, label in zip(belief.rows_N_R_P[:, 0], POOL.inputs, used, strict=True):
            torch.testing.assert_close(row, loss_gradient(module, example, label), rtol=1e-4, atol=1e-6)
    model = Gradients.around(module, LABELLED, "sampled", sketch=None, device="cpu")
    sampled = model.believe(POOL.inputs).rows_N_R_P[:, 0]
    assert torch.equal(sampled, model.believe(POOL.inputs).rows_N_R_P[:, 0])
    possible = [[loss_gradient(module, example, label) for label in range(3)] for example in POOL.inputs]
    found = [
        min(range(3), key=lambda c: float((row - some[c]).norm())) for row, some in zip(sampled, possible, strict=True)
    ]
    for row, some, label in zip(sampled, possible, found, strict=True):
        torch.testing.assert_close(row, some[label], rtol=1e-4, atol=1e-6)
    assert len(set(found)) > 1


def test_a_linear_network_is_its_last_layer():
    linear = fresh(nn.Linear(2, 3, bias=False), 0)
    layer = LastLayer.around(linear, LABELLED, prior_precision=0.3, device="cpu")
    whole = Gradients.around(linear, LABELLED, sketch=None, prior_precision=0.3, device="cpu")
    one, other = layer.believe(POOL.inputs), whole.believe(POOL.inputs)
    torch.testing.assert_close(one.factors.explicit(slice(None)), other.rows_N_R_P.double(), rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(one.precision.dense(6), other.precision.dense(6), rtol=1e-4, atol=1e-5)
    evident = Gradients.around(linear, LABELLED, sketch=None, device="cpu")
    assert evident.prior == pytest.approx(LastLayer.around(linear, LABELLED, device="cpu").prior, rel=1e-4)


def test_frozen_layers_do_not_count():
    module = network(bias=False)
    module[0].requires_grad_(False)
    whole = Gradients.around(module, LABELLED, sketch=None, prior_precision=0.3, device="cpu").believe(POOL.inputs)
    layer = LastLayer.around(module, LABELLED, prior_precision=0.3, device="cpu").believe(POOL.inputs)
    torch.testing.assert_close(layer.factors.explicit(slice(None)), whole.rows_N_R_P.double(), rtol=1e-4, atol=1e-6)
    module.requires_grad_(False)
    with pytest.raises(ValueError, match="no parameters that learn"):
        Gradients.around(module, LABELLED, device="cpu")


def test_numbers_have_one_row_scaled_by_their_noise():
    rng = np.random.default_rng(0)
    data = Examples(rng.normal(size=(30, 2)).astype(np.float32), rng.normal(size=30))
    module = fresh(mlp(2, 1, hidden=(4,), dropout=0.0), 0)
    model = Gradients.around(module, data, sketch=None, device="cpu")
    rows = model.believe(POOL.inputs).rows_N_R_P
    noise = float(np.mean((data.labels - module(torch.as_tensor(data.inputs))[:, 0].detach().numpy()) ** 2))
    expected = torch.stack([jacobian(module, example)[0] for example in POOL.inputs]) / noise**0.5
    torch.testing.assert_close(rows[:, 0].double(), expected, rtol=1e-4, atol=1e-6)
    with pytest.raises(ValueError, match="labels: gradients under one label are taken of classes"):
        Gradients.around(module, data, "hard", device="cpu").believe(POOL.inputs)


def test_it_is_a_model_that_trains():
    model = Gradients(mlp(2, 3), sketch=32, training=QUICK, device="cpu")
    assert isinstance(model, Model)
    before = torch.get_rng_state()
    first = model.fit(LABELLED, POOL, seed=3).believe(POOL.inputs)
    again = model.fit(LABELLED, POOL, seed=3).believe(POOL.inputs)
    assert torch.equal(first.rows_N_R_P, again.rows_N_R_P)
    assert first.draws_id == again.draws_id
    assert first.precision.same(again.precision)
    assert first.rows_N_R_P.shape == (7, 3, 32)
    assert model.predictive(POOL.inputs).shape == (7, 1, 3)
    assert torch.equal(before, torch.get_rng_state())
    assert model.fit(LABELLED, seed=4).believe(POOL.inputs).draws_id != first.draws_id


def test_chunks_change_nothing():
    module = network()
    model = Gradients.around(module, LABELLED, sketch=16, device="cpu")
    whole = model.believe(blobs(40, 3).inputs)
    told = []
    with memory_budget(20_000):
        parts = model.believe(blobs(40, 3).inputs, progress=lambda *done: told.append(done))
    torch.testing.assert_close(whole.rows_N_R_P, parts.rows_N_R_P, rtol=1e-4, atol=1e-5)
    assert len(told) > 3
    assert told[-1] == (40, 40)


class Branches(nn.Module):
    """It asks what the numbers are, which no batched call can follow; each point's answer is its own."""

    def __init__(self):
        super().__init__()
        self.layer, self.unused = nn.Linear(2, 3), nn.Linear(2, 2)

    def forward(self, inputs):
        outputs = self.layer(inputs)
        doubled = outputs.sum(-1, keepdim=True) > 0
        return torch.where(doubled, outputs * 2, outputs) if doubled.any() else outputs


def test_a_network_that_cannot_be_batched_is_asked_one_by_one():
    module = fresh(Branches, 0)
    belief = Gradients.around(module, LABELLED, sketch=None, device="cpu").believe(POOL.inputs)
    assert belief.rows_N_R_P.shape == (7, 3, 15)
    assert float(belief.rows_N_R_P[..., 9:].abs().max()) == 0.0
    for rows, example, pi in zip(belief.rows_N_R_P, POOL.inputs, probs_of_each(module), strict=True):
        outputs = module(torch.as_tensor(example)[None])[0]
        weights = list(module.layer.parameters())
        parts = [torch.autograd.grad(output, weights, retain_graph=True) for output in outputs]
        jacobian_C_P = torch.stack([torch.cat([part.flatten() for part in row]) for row in parts]).double()
        expected = jacobian_C_P.T @ (pi.diag() - pi[:, None] * pi) @ jacobian_C_P
        torch.testing.assert_close((rows.T @ rows)[:9, :9].double(), expected, rtol=1e-4, atol=1e-5)


def probs_of_each(module):
    return probs_of(module, POOL.inputs)


def test_a_convolutional_network_with_batch_norm_stays_as_it_is():
    module = fresh(
        nn.Sequential(nn.Unflatten(1, (1, 2)), nn.Conv1d(1, 4, 2), nn.BatchNorm1d(4), nn.Flatten(), nn.Linear(4, 3)), 0
    )
    module.train()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    model = Gradients.around(module, LABELLED, sketch=None, device="cpu")
    assert model.believe(POOL.inputs).rows_N_R_P.shape == (7, 3, 12 + 8 + 15)
    assert module.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())
    assert all(parameter.grad is None for parameter in module.parameters())
    pictures = np.random.default_rng(0).integers(256, size=(2, 28, 28)).astype(np.uint8)
    big = Gradients.around(fresh(mnist_cnn(), 0), Examples(pictures, [3, 7]), sketch=8, device="cpu")
    assert bool(big.believe(pictures).rows_N_R_P.isfinite().all())


def test_evidence_counts_all_weights_that_learn():
    module = network()
    model = Gradients.around(module, LABELLED, sketch=None, device="cpu")
    rows = model.believe(LABELLED.inputs).rows_N_R_P.double().flatten(0, 1)
    norm = sum(float(parameter.detach().double().square().sum()) for parameter in module.parameters())
    assert model.prior == pytest.approx(evidence_precision(torch.linalg.eigvalsh(rows.T @ rows), norm), rel=1e-5)


@pytest.mark.parametrize("entries", ["rademacher", "gaussian"])
def test_sketches_keep_products_on_average(entries):
    """E[Π Πᵀ/q] = I: the mean over seeds of products of sketched rows is the product of the rows."""
    rows = torch.randn(3, 5000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    products = rows @ rows.T
    found = []
    for seed in range(30):
        sketched = Sketch(64, entries, seed).projector(5000, torch.device("cpu"))(rows)
        found.append(sketched @ sketched.T)
    found = torch.stack(found)
    assert float((found.mean(0) - products).abs().max()) < 5 * 5000 / (64 * 30) ** 0.5
    assert float((found[0] - products).abs().max()) > 10  # each of them is off


def test_a_sketch_is_one_matrix_whatever_the_memory():
    sketch, cpu = Sketch(24, seed=3), torch.device("cpu")
    matrix = sketch.projector(10_000, cpu)(torch.eye(10_000)[[0, 4095, 4096, 9999]])
    assert matrix.abs().unique().tolist() == pytest.approx([24**-0.5])
    rows = torch.randn(5, 10_000, generator=torch.Generator().manual_seed(0))
    kept = sketch.projector(10_000, cpu)(rows)
    with memory_budget(1000):
        torch.testing.assert_close(sketch.projector(10_000, cpu)(rows), kept)
    assert torch.equal(sketch.projector(10_000, cpu)(rows[:2]), sketch.projector(10_000, cpu)(rows[:2]))
    whole = torch.cat([sketch.block(number, cpu) for number in range(3)])[:10_000]
    torch.testing.assert_close(kept, rows @ whole, rtol=1e-4, atol=1e-3)
    assert abs(float((whole > 0).double().mean()) - 0.5) < 0.01
    blocks = [sketch.block(number, cpu) for number in (0, 1)]
    assert not torch.equal(*blocks)
    assert not torch.equal(blocks[0], Sketch(24, seed=4).block(0, cpu))
    assert not torch.equal(blocks[0][:, 0], blocks[0][:, 1])


def test_wide_sketches_tend_to_the_exact_scores():
    module = network()
    exact = Gradients.around(module, LABELLED, sketch=None, prior_precision=1.0, device="cpu").believe(POOL.inputs)
    wide = Gradients.around(module, LABELLED, sketch=2048, prior_precision=1.0, device="cpu", structure="low-rank")
    sketched = wide.believe(POOL.inputs)
    one, other = (belief.factors.own(belief.precision) for belief in (exact, sketched))
    torch.testing.assert_close(one, other, rtol=0.15, atol=0.05 * float(one.max()))


@pytest.mark.parametrize("structure", ["full", "diagonal", "low-rank", "identity"])
def test_every_structure_believes(structure):
    belief = Gradients.around(network(), LABELLED, sketch=16, structure=structure, device="cpu").believe(POOL.inputs)
    assert bool(belief.factors.own(belief.precision).isfinite().all())


def test_what_makes_no_sense_is_refused():
    module = network()
    with pytest.raises(ValueError, match="labels: expected expected"):
        Gradients(module, "soft")
    with pytest.raises(ValueError, match="kronecker is for last layers"):
        Gradients(module, structure="kronecker")
    with pytest.raises(ValueError, match="sketch: expected a number of columns"):
        Gradients(module, sketch=0)
    with pytest.raises(ValueError, match="entries: expected"):
        Sketch(4, "sparse")
    with pytest.raises(ValueError, match="fit the model first"):
        Gradients(module).believe(POOL.inputs)
    with pytest.raises(ValueError, match="labels: found none"):
        Gradients.around(module, LABELLED, "true", device="cpu").believe(POOL.inputs)
    with pytest.raises(ValueError, match="labels: found some for gradients under hard ones"):
        Gradients.around(module, LABELLED, "hard", device="cpu").believe(POOL.inputs, POOL.labels)
    with pytest.raises(ValueError, match="labelled: found no labels"):
        Gradients.around(module, Examples(POOL.inputs), device="cpu")
    model = Gradients.around(module, LABELLED, sketch=None, device="cpu")
    with memory_budget(4000), pytest.raises(ValueError, match=r"over the memory budget of 0 MiB; pass sketch=512"):
        model.believe(blobs(40_000, 0).inputs)


def test_a_factored_belief_of_residuals_is_what_labels_are_read_by():
    """Rows under hard labels of a linear network are π − e_y times the features, as FisherFactors has them."""
    linear = fresh(nn.Linear(2, 3, bias=False), 0)
    rows = Gradients.around(linear, LABELLED, "hard", sketch=None, device="cpu").believe(POOL.inputs).rows_N_R_P
    layer = LastLayer.around(linear, LABELLED, device="cpu").believe(POOL.inputs)
    assert isinstance(layer, FisherFactors)
    torch.testing.assert_close(
        layer.labelled("hard").factors.explicit(slice(None)), rows.double(), rtol=1e-4, atol=1e-6
    )


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an accelerator")
def test_an_accelerator_sees_the_same_rows():
    module = network()
    here = Gradients.around(module, LABELLED, sketch=16, device="cpu").believe(POOL.inputs)
    there = Gradients.around(module, LABELLED, sketch=16, device="cuda").believe(POOL.inputs)
    assert there.device.type == "cuda"
    torch.testing.assert_close(there.rows_N_R_P.cpu(), here.rows_N_R_P, rtol=1e-2, atol=1e-3)
    blocks = [belief.factors.own(belief.precision).cpu() for belief in (here, there)]
    torch.testing.assert_close(*blocks, rtol=1e-2, atol=1e-3)
