"""Networks trained elsewhere: consistent draws at once, and the user's own module stays exactly as it is."""

import numpy as np
import pytest
import torch
from torch import nn

import natsel
from natsel.data import Examples
from natsel.models import Deterministic, Dropout, Ensemble, Gradients, LastLayer, check_consistent, fresh, mlp
from natsel.models.fingerprints import weights_fingerprint

RNG = np.random.default_rng(0)
POOL = RNG.normal(size=(300, 4)).astype(np.float32)
LABELLED = Examples(POOL[:20], np.arange(20) % 3)


def network(outputs: int = 3, seed: int = 0) -> nn.Module:
    """As a user leaves it after her last epoch: in training mode, one part in evaluation mode, a hook of her own."""
    make = lambda: nn.Sequential(  # noqa: E731
        nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, outputs)
    )
    module = fresh(make, seed).train()
    module[2].eval()
    with torch.no_grad():
        module(torch.from_numpy(POOL))  # statistics of batches
    module.register_forward_hook(lambda *_: None)
    return module


def state_of(module):
    """All that natsel must leave alone."""
    hooks = [
        (len(part._forward_hooks), len(part._forward_pre_hooks), len(part._backward_hooks)) for part in module.modules()
    ]
    gradients = [parameter.grad for parameter in module.parameters()]
    return weights_fingerprint(module), [part.training for part in module.modules()], hooks, gradients


SECOND = network(seed=1)
AROUND = {
    "dropout": lambda module: Dropout.around(module, draws=7, device="cpu"),
    "ensemble": lambda module: Ensemble.around([module, SECOND], device="cpu"),
    "deterministic": lambda module: Deterministic.around([module], device="cpu"),
    "last layer": lambda module: LastLayer.around(module, LABELLED, device="cpu"),
    "gradients": lambda module: Gradients.around(module, LABELLED, sketch=None, device="cpu"),
}


@pytest.mark.parametrize("kind", AROUND)
def test_the_module_stays_as_it_is_and_the_belief_too_when_the_module_is_trained_on(kind):
    module = network()
    before, random_state = state_of(module), torch.get_rng_state()
    model = AROUND[kind](module)
    belief = model.believe(POOL[:9])
    assert state_of(module) == before
    assert torch.equal(torch.get_rng_state(), random_state)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(1)
    again = model.believe(POOL[:9])
    assert again.draws_id == belief.draws_id
    for name in belief.points:
        assert np.array_equal(np.asarray(getattr(again, name)), np.asarray(getattr(belief, name)))


@pytest.mark.parametrize("kind", ["dropout", "ensemble"])
def test_draws_are_the_same_for_every_point_batch_and_day(kind):
    model, other_day = AROUND[kind](network()), AROUND[kind](network())
    check_consistent(model.believe, POOL)
    whole = model.believe(POOL)
    torch.testing.assert_close(model.believe(POOL[50:60]).log_probs_N_K_C, whole.log_probs_N_K_C[50:60])
    assert torch.equal(other_day.believe(POOL).log_probs_N_K_C, whole.log_probs_N_K_C)
    assert other_day.believe(POOL).draws_id == whole.draws_id
    assert len(natsel.select("batchbald", whole, k=4)) == 4


def test_draws_of_dropout_are_her_network_under_masks():
    module = network()
    belief = Dropout.around(module, draws=400, device="cpu").believe(POOL[:5])
    module.eval()[3].train()  # ordinary Monte Carlo dropout
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        theirs_N_K_C = torch.stack([module(torch.from_numpy(POOL[:5])).softmax(1) for _ in range(400)], 1)
    ours_N_K_C = belief.log_probs_N_K_C.exp()
    torch.testing.assert_close(ours_N_K_C.mean(1), theirs_N_K_C.mean(1), rtol=0, atol=0.05)
    torch.testing.assert_close(ours_N_K_C.std(1), theirs_N_K_C.std(1), rtol=0, atol=0.05)
    other = Dropout.around(network(), draws=400, seed=1, device="cpu").believe(POOL[:5])
    assert other.draws_id != belief.draws_id
    assert not torch.equal(other.log_probs_N_K_C, belief.log_probs_N_K_C)


def test_members_are_the_networks_in_their_order_and_may_differ():
    members = [network(), mlp(4, 3)]
    found = Ensemble.around(members, device="cpu").believe(POOL[:6]).log_probs_N_K_C
    for number, member in enumerate(members):
        with torch.no_grad():
            expected_N_C = member.eval()(torch.from_numpy(POOL[:6])).log_softmax(1)
        torch.testing.assert_close(found[:, number], expected_N_C)


def test_one_output_is_read_as_it_is_said_to_be():
    one = network(1)
    with pytest.raises(ValueError, match=r"^likelihood: the network has one output"):
        Dropout.around(one, draws=3, device="cpu").believe(POOL[:2])
    with pytest.raises(ValueError, match=r"^likelihood: the network has one output"):
        Ensemble.around([one], device="cpu").believe(POOL[:2])
    logits_N = Ensemble.around([one], likelihood="bernoulli", device="cpu")
    with torch.no_grad():
        mean_N = one.eval()(torch.from_numpy(POOL[:4]))[:, 0]
    torch.testing.assert_close(logits_N.believe(POOL[:4]).log_probs_N_K_C.exp()[:, 0, 1], mean_N.sigmoid())
    numbers = Dropout.around(one, draws=3, likelihood="gaussian", noise=0.25, device="cpu").believe(POOL[:4])
    assert numbers.mean_N_K.shape == (4, 3)
    assert numbers.variance_N_K.unique().tolist() == [0.25]
    two = Dropout.around(one, draws=3, likelihood="bernoulli", device="cpu")
    assert two.believe(POOL[:4]).shape == (4, 3, 2)
    again = Dropout(network(1), 3, device="cpu").load_weights(two.weights())
    assert torch.equal(again.believe(POOL[:4]).log_probs_N_K_C, two.believe(POOL[:4]).log_probs_N_K_C)


def test_a_plain_state_dict_is_taken_where_it_fits():
    module = network()
    around = Dropout.around(module, draws=5, device="cpu").believe(POOL[:5])
    loaded = Dropout(network(seed=9), draws=5, device="cpu").load_weights(module.state_dict()).believe(POOL[:5])
    assert torch.equal(loaded.log_probs_N_K_C, around.log_probs_N_K_C)
    assert loaded.draws_id == around.draws_id
    single = Deterministic(network(seed=9), device="cpu").load_weights(module.state_dict()).believe(POOL[:5])
    one = Deterministic.around([module], device="cpu").believe(POOL[:5])
    assert torch.equal(single.log_probs_N_K_C, one.log_probs_N_K_C)
    with pytest.raises(ValueError, match=r"^weights: they do not fit 2 such networks .* use Ensemble\.around"):
        Ensemble(network(), 2, device="cpu").load_weights(module.state_dict())
    with pytest.raises(ValueError, match=r"^weights: they do not fit this network"):
        Dropout(network(2), device="cpu").load_weights(module.state_dict())


@pytest.mark.parametrize("kind", AROUND)
def test_without_a_function_a_fit_says_what_to_pass(kind):
    model = AROUND[kind](network())
    with pytest.raises(ValueError, match=r"^train: this network was trained elsewhere, .*; pass train="):
        model.fit(LABELLED)
    assert len(model.believe(POOL[:2])) == 2  # as before
    if kind == "dropout":
        learner = natsel.ActiveLearner(model, natsel.Pool(POOL), method="bald", k=2)
        learner.tell(learner.ask().ids, [0, 1])
        with pytest.raises(ValueError, match=r"^train: this network was trained elsewhere"):
            learner.ask()


def test_what_is_no_trained_network_is_refused():
    with pytest.raises(ValueError, match=r"^networks: expected a list, found Sequential; pass \[network\]"):
        Ensemble.around(network())
    with pytest.raises(ValueError, match=r"^networks: found none"):
        Ensemble.around([])
    with pytest.raises(ValueError, match=r"^networks: found 2 and 3 outputs"):
        Ensemble.around([network(2), network(3)], device="cpu").believe(POOL[:2])
    with pytest.raises(ValueError, match=r"^network: expected one, found 2"):
        Deterministic.around([network(), network()])
    with pytest.raises(ValueError, match=r"^network: expected a model with one trained network, found none in str"):
        Dropout.around("net.pt")
    with pytest.raises(ValueError, match=r"^network: it calls no dropout"):
        Dropout.around(nn.Linear(4, 3), device="cpu").believe(POOL[:2])
    for wrong, said in (
        ({"likelihood": "gaussian"}, "noise: numbers need the variance"),
        ({"noise": 1.0}, "noise: only numbers have it"),
        ({"likelihood": "poisson"}, "likelihood: draws of counts make no belief"),
        ({"likelihood": "normal"}, "likelihood: expected categorical"),
    ):
        with pytest.raises(ValueError, match=f"^{said}"):
            Dropout.around(network(), **wrong)
    stuck = network()
    stuck.made = [torch.ones(2, requires_grad=True) * 2]  # copy.deepcopy refuses what autograd made
    with pytest.raises(ValueError, match=r"^network: Sequential cannot be copied"):
        Dropout.around(stuck)
