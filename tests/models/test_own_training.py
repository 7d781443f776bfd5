"""A training function of the user: called on a fresh network, reproducible by its seed, held to what it gives back."""

import copy
import functools
import random

import numpy as np
import pytest
import torch
from torch import nn

import natsel
from natsel.data import Examples
from natsel.models import Deterministic, Dropout, Ensemble, Gradients, LastLayer, Training, inputs_of, mlp
from natsel.models.fingerprints import fingerprint, parts_of, weights_fingerprint
from natsel.models.networks.own_training import _arguments_of


def blobs(count: int, seed: int) -> Examples:
    numbers = np.random.default_rng(seed)
    labels = numbers.integers(3, size=count)
    return Examples((numbers.normal(size=(count, 4)) + 3 * np.eye(3, 4)[labels]).astype(np.float32), labels)


LABELLED, VALIDATION, POOL = blobs(30, 0), blobs(20, 1), blobs(60, 2)


def loop(module, labelled, validation=None, seed=0, loss=nn.functional.cross_entropy, steps=40):
    """A loop with an order and noise of its own, from all three global random states."""
    inputs, labels = inputs_of(module, labelled.inputs), torch.as_tensor(labelled.labels)
    optimiser = torch.optim.Adam(module.parameters(), 0.02)
    module.train()
    for _ in range(steps):
        rows = torch.randint(len(inputs), (16,))
        noise = random.random() * np.random.rand()  # noqa: NPY002 (as users do)
        optimiser.zero_grad()
        loss(module(inputs[rows] + 0.1 * noise), labels[rows]).backward()
        optimiser.step()


MODELS = {
    "dropout": lambda **how: Dropout(mlp(4, 3), draws=5, device="cpu", **how),
    "ensemble": lambda **how: Ensemble(mlp(4, 3), 2, device="cpu", **how),
    "deterministic": lambda **how: Deterministic(mlp(4, 3), device="cpu", **how),
    "last layer": lambda **how: LastLayer(mlp(4, 3, hidden=(8,)), device="cpu", **how),
    "gradients": lambda **how: Gradients(mlp(4, 3, hidden=(8,)), sketch=None, device="cpu", **how),
}


@pytest.mark.parametrize("kind", MODELS)
def test_every_network_learns_by_the_function_and_is_decided_by_the_seed(kind):
    model = MODELS[kind](train=loop)
    torch_state, numpy_state, python_state = torch.get_rng_state(), np.random.get_state(), random.getstate()  # noqa: NPY002
    model.fit(LABELLED, VALIDATION, seed=3)
    predict = getattr(model, "predictive", model.believe)
    probs_N_C = predict(POOL.inputs).log_probs_N_K_C.exp().mean(1)
    assert float((probs_N_C.argmax(1).numpy() == POOL.labels).mean()) > 0.8
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert random.getstate() == python_state
    assert all(np.array_equal(one, other) for one, other in zip(np.random.get_state(), numpy_state, strict=True))  # noqa: NPY002
    modules = getattr(model, "modules", None) or [model.module]
    assert len({weights_fingerprint(module) for module in modules}) == len(modules)
    assert not any(part.training for module in modules for part in module.modules())
    same, other = (
        MODELS[kind](train=loop).fit(LABELLED, VALIDATION, seed=seed).believe(POOL.inputs) for seed in (3, 4)
    )
    assert same.draws_id == model.believe(POOL.inputs).draws_id != other.draws_id


def test_a_module_may_be_trained_in_place_or_come_back_as_another_object():
    def elsewhere(module, labelled):
        trained = copy.deepcopy(module)
        loop(trained, labelled)
        return trained

    place, returned = (
        Dropout(mlp(4, 3), 5, device="cpu", train=each).fit(LABELLED, seed=1) for each in (loop, elsewhere)
    )
    assert weights_fingerprint(place.module) == weights_fingerprint(returned.module)
    assert torch.equal(place.believe(POOL.inputs).log_probs_N_K_C, returned.believe(POOL.inputs).log_probs_N_K_C)


def test_the_function_gets_a_fresh_network_the_examples_and_a_seed_that_numpy_takes():
    seen = []

    def watched(module, labelled, validation, seed):
        seen.append((weights_fingerprint(module), labelled, validation, seed))
        loop(module, labelled)

    given = mlp(4, 3)
    before = weights_fingerprint(given)
    model = Ensemble(given, 2, device="cpu", train=watched).fit(LABELLED, VALIDATION, seed=2**62)
    model.fit(LABELLED, VALIDATION, seed=2**62)
    assert weights_fingerprint(given) == before
    assert all(labelled is LABELLED and validation is VALIDATION for _, labelled, validation, _ in seen)
    (first, *_, seed), (second, *_, other), (again, *_, seed_again), _ = seen
    assert first == again != second
    assert seed == seed_again != other
    assert all(0 <= each[3] < 2**31 for each in seen)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda module, labelled, validation, seed: None, ["module", "labelled", "validation", "seed"]),
        (lambda net, data: None, ["module", "labelled"]),
        (lambda net, data, seed: None, ["module", "labelled", "seed"]),
        (lambda net, data, held_out, number: None, ["module", "labelled", "validation", "seed"]),
        (lambda labelled, net: None, ["labelled", "module"]),
        (lambda module, labelled, epochs=5, *, seed, **more: None, ["module", "labelled", "seed"]),
        (functools.partial(loop, steps=1), ["module", "labelled", "validation", "seed"]),
    ],
)
def test_arguments_go_by_name_and_others_in_order(function, expected):
    assert list(_arguments_of(function).values()) == expected


def test_numbers_and_two_classes_are_believed_in_the_units_of_the_labels():
    numbers = np.random.default_rng(0)
    inputs = numbers.normal(size=(80, 4)).astype(np.float32)
    heights = Examples(inputs, 5 + 2 * inputs[:, 0] + 0.3 * numbers.normal(size=80))
    squared = functools.partial(
        loop, loss=lambda outputs, labels: (outputs[:, 0] - labels.float()).square().mean(), steps=300
    )
    model = Deterministic(mlp(4, 1, dropout=0.0), device="cpu", train=squared).fit(heights[:60], heights[60:])
    belief = model.believe(heights.inputs[60:])
    mse = float(np.mean((belief.mean_N_K[:, 0].numpy() - heights.labels[60:]) ** 2))
    assert belief.variance_N_K[0, 0].item() == pytest.approx(mse, rel=1e-4)
    assert mse < 0.5
    logit = functools.partial(
        loop,
        loss=lambda outputs, labels: nn.functional.binary_cross_entropy_with_logits(outputs[:, 0], labels.float()),
    )
    two = Examples(inputs, (inputs[:, 0] > 0).astype(int))
    belief = Dropout(mlp(4, 1), 4, device="cpu", train=logit).fit(two).believe(inputs)
    assert belief.shape == (80, 4, 2)
    assert float((belief.log_probs_N_K_C.exp().mean(1).argmax(1).numpy() == two.labels).mean()) > 0.8


def test_a_learner_runs_with_it_and_the_journal_knows_the_function_by_its_code(tmp_path):
    model = Dropout.around(mlp(4, 3), draws=5, train=loop, device="cpu")
    pool = natsel.Pool.with_answers(POOL)
    learner = natsel.ActiveLearner(model, pool, method="bald", k=3, seed=0, store=tmp_path / "run.db")
    learner.run(9)
    again = natsel.ActiveLearner(model, natsel.Pool.with_answers(POOL), method="bald", k=3, seed=0)
    again.run(9)
    assert len(learner.labelled_ids) == 9
    assert again.labelled_ids.tolist() == learner.labelled_ids.tolist()

    def another(module, labelled):
        loop(module, labelled)

    texts = {fingerprint(Dropout(mlp(4, 3), device="cpu", train=each)) for each in (None, loop, another)}
    assert len(texts) == 3
    assert parts_of(Dropout(mlp(4, 3), train=loop))["training"] == "loop"
    assert fingerprint(Dropout.around(mlp(4, 3))) != fingerprint(Dropout(mlp(4, 3)))


def test_a_model_with_a_function_lends_its_network():
    inner = Dropout(mlp(4, 3, hidden=(8,)), 5, device="cpu", train=loop)
    lent = LastLayer(inner, device="cpu").fit(LABELLED, seed=2)
    own = LastLayer(mlp(4, 3, hidden=(8,)), device="cpu", train=loop).fit(LABELLED, seed=2)
    torch.testing.assert_close(lent.believe(POOL.inputs).features_N_D, own.believe(POOL.inputs).features_N_D)
    with pytest.raises(ValueError, match=r"^train: the model given trains by its own settings"):
        LastLayer(inner, train=loop)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda module, labelled: None, "left every weight as it was"),
        (lambda module, labelled: {"loss": 0.1}, "was given Sequential and gave back dict"),
        (lambda module, labelled: nn.Linear(4, 3), "was given Sequential and gave back Linear"),
        (lambda module, labelled: mlp(4, 2), "was given Sequential and gave back Sequential with other weights"),
    ],
)
def test_what_comes_back_must_be_the_network_and_trained(function, said):
    with pytest.raises(ValueError, match=f"^train: <lambda> {said}"):
        Deterministic(mlp(4, 3), device="cpu", train=function).fit(LABELLED)


def test_functions_that_cannot_be_called_are_refused_before_any_work():
    for train, said in (
        ("adam", r"expected a function train\(module, labelled, validation, seed\), found str"),
        (Training(), r"expected a function .*, found Training; settings of natsel's own loop"),
        (lambda module: None, "<lambda> takes no labelled examples"),
        (lambda *all: None, "<lambda> takes no network to train"),
        (lambda module, labelled, validation, seed, epochs: None, "<lambda> needs 'epochs' too"),
        (lambda module, labelled, *, epochs: None, "<lambda> needs 'epochs' too"),
    ):
        for kind in MODELS.values():
            with pytest.raises(ValueError, match=f"^train: {said}"):
                kind(train=train)
    with pytest.raises(ValueError, match=r"^train: found training= as well"):
        Dropout(mlp(4, 3), training=Training(), train=loop)
    with pytest.raises(ValueError, match=r"^training: expected .* found function; pass a function as train="):
        Dropout(mlp(4, 3), training=loop)
    for labelled, said in ((LABELLED[:0], "found no examples"), (Examples(LABELLED.inputs), "found no labels")):
        with pytest.raises(ValueError, match=f"^labelled: {said}"):
            Deterministic(mlp(4, 3), device="cpu", train=loop).fit(labelled)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an accelerator")
def test_on_an_accelerator_too_a_fit_is_decided_by_its_seed_and_the_states_come_back():
    def there(module, labelled):
        assert next(module.parameters()).is_cuda
        inputs, labels = inputs_of(module, labelled.inputs), torch.as_tensor(labelled.labels, device="cuda")
        optimiser = torch.optim.SGD(module.parameters(), 0.1)
        for _ in range(5):
            optimiser.zero_grad()
            nn.functional.cross_entropy(module.train()(inputs), labels).backward()  # dropout draws on the device
            optimiser.step()

    before = torch.cuda.get_rng_state()
    same, again = (Dropout(mlp(4, 3), 5, device="cuda", train=there).fit(LABELLED, seed=1) for _ in range(2))
    assert torch.equal(torch.cuda.get_rng_state(), before)
    assert weights_fingerprint(same.module) == weights_fingerprint(again.module)
    trained = copy.deepcopy(same.module).cpu()
    around = Dropout.around(trained, 5, device="cuda")
    assert not next(trained.parameters()).is_cuda
    found, expected = around.believe(POOL.inputs), Dropout.around(trained, 5, device="cpu").believe(POOL.inputs)
    torch.testing.assert_close(found.log_probs_N_K_C.cpu(), expected.log_probs_N_K_C, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("how", [{"train": loop}, {"training": Training(max_epochs=1)}], ids=["own", "natsel's"])
@pytest.mark.parametrize("kind", MODELS)
def test_a_class_that_turns_up_late_needs_another_network(kind, how):
    named = Examples(LABELLED.inputs, LABELLED.labels, classes=("cat", "dog", "eel"))
    MODELS[kind](**how).fit(named)
    later = Examples(named.inputs, named.labels, classes=("cat", "dog", "eel", "fox"))
    remedy = r"make it with 4, for example natsel\.models\.mlp\(features, 4\) or mnist_cnn\(4\)"
    with pytest.raises(ValueError, match=f"^labelled: there are 4 classes and the network has 3 outputs; {remedy}"):
        MODELS[kind](**how).fit(later)
    labels = np.append(LABELLED.labels[1:], 3)
    with pytest.raises(ValueError, match=f"^labelled: .*found labels 0..3; {remedy}"):
        MODELS[kind](**how).fit(Examples(LABELLED.inputs, labels))
