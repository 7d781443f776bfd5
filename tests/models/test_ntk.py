"""The perceptron of the regression benchmark, and a learning rate that falls along a straight line."""

import numpy as np
import pytest
import torch

from natsel.data import Examples
from natsel.models import Ensemble, Training, ntk_mlp, train
from natsel.models.networks import training as loop
from natsel.models.networks.architectures import fresh

RNG = np.random.default_rng(0)
INPUTS = RNG.normal(size=(60, 5)).astype(np.float32)
EXAMPLES = Examples(INPUTS, INPUTS[:, 0] - 2.0 * INPUTS[:, 1])


def test_layers_scale_unit_normal_weights_by_the_root_of_their_inputs():
    module = fresh(ntk_mlp(5, hidden=(4000, 7)), 0)
    first, second, last = module[1], module[3], module[5]
    assert float(first.weight.detach().std()) == pytest.approx(1, abs=0.02)
    assert not first.bias.any()
    with torch.no_grad():
        first.bias += 1
    x = torch.from_numpy(INPUTS)
    hidden = torch.relu(x @ first.weight.T * (0.2 / 5**0.5) + 0.2)
    hidden = torch.relu(hidden @ second.weight.T * (0.2 / 4000**0.5))
    torch.testing.assert_close(module(x), hidden @ last.weight.T * (0.2 / 7**0.5), rtol=1e-4, atol=1e-6)


def test_members_learn_side_by_side_and_differ():
    settings = Training(learning_rate=0.3, schedule="linear", max_epochs=25, epoch_samples=256, patience=25)
    model = Ensemble(ntk_mlp(5, hidden=(16,)), 3, settings, device="cpu").fit(EXAMPLES, EXAMPLES)
    assert np.ptp(model.believe(INPUTS).mean_N_K.numpy(), axis=1).max() > 1e-3  # members differ
    ends = [epochs[-1].validation_loss for epochs in model.epochs]
    assert max(ends) < 0.1  # of labels with variance 1


def test_the_learning_rate_falls_to_nothing(monkeypatch):
    rates, one_epoch = [], loop._train_epoch

    def noted(*arguments):
        found = one_epoch(*arguments)
        optimiser = next(each for each in arguments if isinstance(each, torch.optim.Optimizer))
        rates.append(optimiser.param_groups[0]["lr"])
        return found

    monkeypatch.setattr(loop, "_train_epoch", noted)
    for schedule in ("linear", "constant"):
        settings = Training(0.4, max_epochs=4, schedule=schedule)
        train(ntk_mlp(5, hidden=(4,)), EXAMPLES, EXAMPLES, settings, device="cpu")
    assert rates == pytest.approx([0.4, 0.3, 0.2, 0.1] + [0.4] * 4)
    with pytest.raises(ValueError, match=r"^schedule: expected 'constant', 'linear'.* found 'falling'"):
        Training(schedule="falling")
