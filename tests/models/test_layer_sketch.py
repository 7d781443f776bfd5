"""Gradients sketched by products of signs: right on average, one and the same map for all points, no gradient made."""

import numpy as np
import pytest
import torch
from torch import nn

import natsel
from natsel.data import Examples
from natsel.models import Gradients, LastLayer, Sketch, ntk_mlp
from natsel.models.last_layer import per_example
from natsel.models.networks.architectures import fresh

RNG = np.random.default_rng(0)
INPUTS = RNG.normal(size=(30, 3))
LABELLED, POOL = Examples(INPUTS[:12], INPUTS[:12, 0]), INPUTS[12:]
CPU = torch.device("cpu")


def network():
    return fresh(nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 4, bias=False), nn.Tanh(), nn.Linear(4, 1)), 0)


def around(module, sketch, labelled=LABELLED):
    return Gradients.around(module.double(), labelled, sketch=sketch, prior_precision=1.0, device="cpu")


def kernel(belief):
    rows = belief.rows_N_R_P.double().flatten(0, 1)
    return rows @ rows.T


@pytest.mark.parametrize("make", [network, lambda: fresh(ntk_mlp(3, 1, (6, 4)), 0)], ids=["linear", "scaled"])
def test_products_of_signs_keep_the_gradient_kernel_on_average(make):
    exact = kernel(around(make(), None).believe(POOL))
    found = [kernel(around(make(), Sketch(50, "products", seed)).believe(POOL)) for seed in range(50)]
    error = (torch.stack(found).mean(0) - exact).abs().max() / exact.max()
    assert float(error) < 0.09
    assert float((found[0] - exact).abs().max() / exact.max()) > 0.02  # one sketch alone is not exact


def test_a_sketch_is_the_product_of_rows_and_its_signs(monkeypatch):
    """Column j mixes weight (o, i) of layer l by a_loj · b_lij."""
    sketch, rows = Sketch(20, "products"), around(network(), None).believe(POOL).rows_N_R_P[:, 0]
    parts = []
    for number, (outputs, inputs, bias) in enumerate([(6, 3, True), (4, 6, False), (1, 4, True)]):
        left_O_Q, right_I_Q = sketch.signs(number, (outputs, inputs + bias), CPU)
        products = left_O_Q[:, None] * right_I_Q[None]
        parts += [products[:, :inputs].flatten(0, 1), *([products[:, -1]] if bias else [])]
    expected = rows @ torch.cat(parts).double() / 20**0.5
    model = around(network(), sketch)
    monkeypatch.setattr(per_example, "vjp", None)  # no gradient of a weight is made
    ours = model.believe(POOL).rows_N_R_P
    torch.testing.assert_close(ours[:, 0], expected)
    with natsel.memory_budget(20_000):
        torch.testing.assert_close(model.believe(POOL).rows_N_R_P, ours)


def test_classes_have_one_row_each():
    module = fresh(nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 3)), 0)
    labelled = Examples(INPUTS[:12], np.arange(12) % 3)
    exact = kernel(around(module, None, labelled).believe(POOL[:4]))
    found = [kernel(around(module, Sketch(50, "products", seed), labelled).believe(POOL[:4])) for seed in range(40)]
    assert around(module, Sketch(30, "products"), labelled).believe(POOL).rows_N_R_P.shape == (18, 3, 30)
    assert float((torch.stack(found).mean(0) - exact).abs().max() / exact.max()) < 0.1


@pytest.mark.parametrize("method", ["bald", "batchbald", "badge", "core-set", "lcmd", "acs-fw", "epig", "bait"])
def test_regressors_choose_by_gradients_and_by_last_layers(method):
    for model in (
        around(network(), Sketch(20, "products")),
        LastLayer.around(network().double(), LABELLED, device="cpu"),
    ):
        pool = model.believe(POOL)
        targets = {"targets": model.believe(INPUTS[:3])} if method in ("epig", "bait") else {}
        assert len(set(natsel.select(method, pool, k=4, **targets).ids.tolist())) == 4


def test_the_last_layer_of_a_scaled_network_has_its_features_and_its_bias():
    module = fresh(ntk_mlp(3, 1, (5,)), 0).double()
    model = LastLayer.around(module, LABELLED, prior_precision=1.0, device="cpu")
    rows = Gradients.around(module, LABELLED, sketch=None, prior_precision=1.0, device="cpu").believe(POOL).rows_N_R_P
    layer = model.believe(POOL)
    torch.testing.assert_close(layer.factors.explicit(slice(None))[:, 0], rows[:, 0, -6:].double())
    torch.testing.assert_close(model.predictive(POOL).mean, module(torch.from_numpy(POOL))[:, 0].detach())


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (nn.Sequential(nn.Linear(3, 9), nn.LayerNorm(9), nn.Linear(9, 1)), r"found weights elsewhere \(1.weight"),
        (nn.Sequential(shared := nn.Linear(3, 3), shared, nn.Linear(3, 1)), "called once each"),
    ],
)
def test_other_networks_are_refused(module, message):
    with pytest.raises(ValueError, match=f"^sketch: products of signs .*{message}"):
        around(module, Sketch(8, "products"))
