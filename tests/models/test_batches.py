"""Sources of batches: what they see, what they decide, and what they leave alone."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from natsel.data import Examples
from natsel.memory import memory_budget
from natsel.models import Deterministic, Dropout, Ensemble, LastLayer, Training, fresh, mlp, train
from natsel.models.fingerprints import parts_of
from natsel.models.networks.batches import Batches, MemberEpoch, Step, UniformBatches, uniform_parts
from natsel.seeds import derive

CPU = torch.device("cpu")
PLACES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def blobs(count, seed):
    """Points around corners of a triangle, with some overlap."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(3, size=count)
    corners = np.array([[0, 0], [3, 0], [0, 3]])
    return Examples((corners[labels] + rng.normal(size=(count, 2))).astype(np.float32), labels)


def of_batch_norm():
    return nn.Sequential(nn.Linear(2, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 3))


class AlwaysNoisy(nn.Module):
    """A network that draws random numbers in evaluation mode too."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 3)

    def forward(self, inputs):
        return self.linear(F.dropout(inputs, 0.5, training=True))


@dataclass(frozen=True)
class Hardest:
    """Keeps a batch of the candidates with the highest losses."""

    candidates: int = 128

    def steps(self, epoch):
        for positions_B in uniform_parts(epoch, self.candidates):
            losses_B = epoch.losses(positions_B)
            yield Step(positions_B[losses_B.topk(min(epoch.batch, len(positions_B))).indices])


@dataclass(frozen=True)
class UniformWithLooks:
    """The uniform source, which looks at candidates for nothing before every step."""

    looks: list = field(default_factory=list)

    def steps(self, epoch):
        for step in UniformBatches().steps(epoch):
            self.looks.append(epoch.losses(torch.arange(epoch.n_examples)))
            yield step


@dataclass(frozen=True)
class Scripted:
    """Steps that a function makes from what a source is told."""

    script: Callable

    def steps(self, epoch):
        yield from self.script(epoch)


SHORT = Training(max_epochs=3, epoch_samples=256, batch=32, learning_rate=0.01)
LABELLED = blobs(90, 0)


def weights_of(model):
    return {name: tensor.cpu().clone() for name, tensor in model.state_dict().items()}


def same_weights(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def trained_by(batches, network=of_batch_norm, training=SHORT, device="cpu", seed=1):
    module = fresh(network, 0)
    epochs = train(module, LABELLED, None, replace(training, batches=batches), seed=seed, device=device)
    return weights_of(module), epochs


@pytest.mark.parametrize(
    ("count", "batch", "samples", "sizes"),
    [(20, 64, 130, [44, 43, 43]), (700, 700, None, [700, 700]), (1030, 1000, None, [515, 515]), (1, 64, 3, [3])],
)
def test_the_uniform_source_draws_what_training_always_drew(count, batch, samples, sizes):
    """The order as it was before there were sources, from the same generator."""
    generator, reference = (torch.Generator().manual_seed(5) for _ in range(2))
    for number in range(2):
        epoch = MemberEpoch(number, count, batch, samples, generator, pytest.fail, CPU)
        found = [step.positions_B for step in UniformBatches().steps(epoch)]
        if samples is not None:
            expected_S = torch.randint(count, (samples,), generator=reference)
        else:
            passes = 2 if count == 700 else 1
            expected_S = torch.cat([torch.randperm(count, generator=reference) for _ in range(passes)])
        assert [len(positions_B) for positions_B in found] == sizes
        assert torch.equal(torch.cat(found), expected_S)


def test_the_default_trains_as_a_loop_written_by_hand():
    """Bit for bit: the order of examples, the mean of losses, the noise of dropout."""
    module, by_hand = (fresh(mlp(2, 3), 0) for _ in range(2))
    epochs = train(module, LABELLED, None, replace(SHORT, optimiser="sgd", max_epochs=2), seed=4, device="cpu")
    optimiser = torch.optim.SGD(by_hand.parameters(), lr=0.01, momentum=0.9)
    inputs_N, labels_N = torch.from_numpy(LABELLED.inputs), torch.from_numpy(LABELLED.labels)
    generator = torch.Generator().manual_seed(derive(4, "order"))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(4, "noise"))
        for _ in range(2):
            for positions_B in torch.randint(90, (256,), generator=generator).tensor_split(8):
                optimiser.zero_grad()
                F.cross_entropy(by_hand(inputs_N[positions_B]), labels_N[positions_B]).backward()
                optimiser.step()
    assert epochs[1].loss < epochs[0].loss  # else the weights of the first epoch would be kept
    assert same_weights(weights_of(module), weights_of(by_hand))


def test_a_selective_source_changes_what_is_learnt():
    """Each step has the examples of highest loss at that step."""
    seen, module = [], fresh(mlp(2, 3, dropout=0.0), 0)

    def script(epoch):
        for candidates_B, step in zip(
            uniform_parts(replace_generator(epoch), 128), Hardest().steps(epoch), strict=True
        ):
            losses_B = epoch.losses(candidates_B)
            kept_b = epoch.losses(step.positions_B)
            seen.append((float(kept_b.min()), float(losses_B.sort(descending=True).values[32 - 1]), len(kept_b)))
            yield step

    def replace_generator(epoch):
        copied = torch.Generator()
        copied.set_state(epoch.generator.get_state())
        return replace(epoch, generator=copied)

    train(module, LABELLED, None, replace(SHORT, batches=Scripted(script)), seed=1, device="cpu")
    assert len(seen) == 3 * 2  # 256 candidates, 128 for each step
    for lowest_kept, thirty_second_highest, count in seen:
        assert count == 32
        assert lowest_kept == pytest.approx(thirty_second_highest, rel=1e-5)
    plain, _ = trained_by(UniformBatches(), mlp(2, 3, dropout=0.0))
    hard, _ = trained_by(Hardest(), mlp(2, 3, dropout=0.0))
    assert same_weights(hard, weights_of(module))
    assert not same_weights(hard, plain)


def test_losses_are_those_of_the_current_weights_without_dropout():
    module, seen = fresh(of_batch_norm, 0), []
    inputs_N, labels_N = torch.from_numpy(LABELLED.inputs), torch.from_numpy(LABELLED.labels)

    def script(epoch):
        for step in UniformBatches().steps(epoch):
            found_B = epoch.losses(step.positions_B)
            reference = copy.deepcopy(module).eval()
            expected_B = F.cross_entropy(
                reference(inputs_N[step.positions_B]), labels_N[step.positions_B], reduction="none"
            )
            torch.testing.assert_close(found_B, expected_B.detach(), rtol=1e-5, atol=1e-6)
            assert not found_B.requires_grad
            assert all(part.training for part in module.modules())
            seen.append(epoch.losses(torch.arange(5)))
            yield step

    train(module, LABELLED, None, replace(SHORT, batches=Scripted(script)), device="cpu")
    assert len(seen) == 24
    assert not any(torch.equal(before, after) for before, after in pairwise(seen))


@pytest.mark.parametrize("labels", ["numbers", "soft classes"])
def test_losses_are_those_that_training_descends(labels):
    rng, outputs = np.random.default_rng(0), 1 if labels == "numbers" else 3
    given = rng.normal(3, 2, size=40) if labels == "numbers" else rng.dirichlet(np.ones(3), size=40)
    examples, seen = Examples(LABELLED.inputs[:40], given), []

    def script(epoch):
        seen.append(float(epoch.losses(torch.arange(40)).mean()))
        yield Step(torch.arange(40))

    training = Training(max_epochs=1, batches=Scripted(script))
    (epoch,) = train(nn.Linear(2, outputs), examples, None, training, device="cpu")
    assert seen == [pytest.approx(epoch.loss, rel=1e-5)]


def test_a_look_keeps_to_the_memory_budget_and_order():
    found, most = [], []
    module = fresh(mlp(2, 3), 0)
    module.register_forward_pre_hook(lambda part, given: None if part.training else most.append(len(given[0])))

    def script(epoch):
        positions_B = torch.arange(89, -1, -1)
        most.clear()
        found.append((epoch.losses(positions_B), torch.cat([epoch.losses(one_1) for one_1 in positions_B.split(1)])))
        assert len(epoch.losses(positions_B[:0])) == 0
        yield Step(positions_B)

    with memory_budget(20_000):
        train(module, LABELLED, None, replace(SHORT, max_epochs=1, batches=Scripted(script)), device="cpu")
    torch.testing.assert_close(*found[0])
    assert 1 < max(most) < 90


@pytest.mark.parametrize("device", PLACES)
@pytest.mark.parametrize("network", [mlp(2, 3), of_batch_norm, AlwaysNoisy])
def test_looking_changes_nothing(network, device):
    """Weights, batch statistics, epochs, random numbers: a source that looks before each step and gives the uniform one
    trains bit for bit as the default."""
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs an accelerator")
    source = UniformWithLooks()
    plain, looked = trained_by(UniformBatches(), network, device=device), trained_by(source, network, device=device)
    assert len(source.looks) == 24
    assert same_weights(plain[0], looked[0])
    assert plain[1] == looked[1]


@pytest.mark.parametrize("wrong", [False, True])
def test_a_look_leaves_the_random_state_and_the_batch_statistics_alone(wrong):
    """Also one that fails."""
    module, steps = nn.Sequential(fresh(AlwaysNoisy, 0), nn.BatchNorm1d(3)), []

    def script(epoch):
        before = torch.get_rng_state(), epoch.generator.get_state(), weights_of(module)
        if wrong:
            with pytest.raises(IndexError):
                epoch.losses(torch.tensor([90]))
        else:
            epoch.losses(torch.arange(90))
        assert torch.equal(torch.get_rng_state(), before[0])
        assert torch.equal(epoch.generator.get_state(), before[1])
        assert same_weights(weights_of(module), before[2])
        assert all(part.training for part in module.modules())
        assert all(parameter.grad is None for parameter in module.parameters())
        steps.append(before)
        yield Step(torch.arange(90))

    train(module, LABELLED, None, replace(SHORT, batches=Scripted(script)), device="cpu")
    assert len(steps) == 3
    assert not torch.equal(steps[0][0], steps[1][0])  # steps do draw, and move the statistics
    assert not same_weights(steps[0][2], steps[1][2])


def ensemble(batches, network, seed=3):
    return Ensemble(network, 3, replace(SHORT, batches=batches), "cpu").fit(LABELLED, blobs(30, 1), seed=seed)


def test_members_that_learn_side_by_side_look_at_themselves_and_have_their_own_positions():
    """Each is what it becomes when it is trained alone by the same source."""
    asked, network = [], mlp(2, 3, hidden=(8,), dropout=0.0)

    def script(epoch):
        for step in Hardest().steps(epoch):
            asked.append((epoch.number, step.positions_B.tolist()))
            yield step

    together = ensemble(Scripted(script), network)
    assert [number for number, _ in asked] == [0] * 6 + [1] * 6 + [2] * 6  # two steps of three members, in turn
    assert len({tuple(positions) for _, positions in asked}) == 18
    for member, module in enumerate(together.modules):
        seed, alone = derive(3, "member", member), fresh(network, derive(3, "member", member))
        train(alone, LABELLED, blobs(30, 1), replace(SHORT, batches=Hardest()), seed=seed, device="cpu")
        for found, expected in zip(module.parameters(), alone.parameters(), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("network", [mlp(2, 3), of_batch_norm])
def test_looking_changes_nothing_for_members_that_learn_side_by_side(network):
    source = UniformWithLooks()
    plain, looked = ensemble(UniformBatches(), network), ensemble(source, network)
    assert len(source.looks) == 3 * 24
    assert same_weights(plain.weights(), looked.weights())
    assert plain.epochs == looked.epochs


def exactly(*steps):
    """A source that gives the same steps in every epoch."""
    return Scripted(lambda epoch: [Step(torch.tensor(positions), weights) for positions, weights in steps])


@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
def test_weights_equal_repeated_examples(optimiser):
    """Without dropout, Σ w_i l_i / B is the mean over repeated examples: (1·l0 + 2·l1 + 0·l2)/3 = (l0 + l1 + l1)/3."""
    network, training = nn.Linear(2, 3), replace(SHORT, optimiser=optimiser)
    weighted, epochs = trained_by(exactly(*10 * [([0, 1, 2], torch.tensor([1.0, 2.0, 0.0]))]), network, training)
    repeated, same = trained_by(exactly(*10 * [([0, 1, 1], None)]), network, training)
    plain, _ = trained_by(exactly(*10 * [([0, 1, 2], None)]), network, training)
    for name, tensor in weighted.items():
        torch.testing.assert_close(tensor, repeated[name], rtol=1e-5, atol=1e-6)
        assert not torch.allclose(tensor, plain[name], rtol=1e-3, atol=1e-4)
    assert [epoch.loss for epoch in epochs] == pytest.approx([epoch.loss for epoch in same], rel=1e-5)


def test_the_loss_of_a_step_is_divided_by_its_examples_and_not_by_its_weights():
    """Halved weights are a halved learning rate of plain gradient descent; ones change no bit."""
    training = replace(SHORT, optimiser="sgd", max_epochs=1)
    half = [([0, 1, 2, 3], torch.full((4,), 0.5, dtype=torch.float64))]
    halved, (epoch,) = trained_by(exactly(*half), nn.Linear(2, 3), training)
    slower, (plain,) = trained_by(
        exactly(([0, 1, 2, 3], None)), nn.Linear(2, 3), replace(training, learning_rate=0.005)
    )
    for name, tensor in halved.items():
        torch.testing.assert_close(tensor, slower[name], rtol=1e-6, atol=1e-7)
    assert epoch.loss == pytest.approx(plain.loss / 2)


def test_weights_of_one_change_no_bit():
    def ones(epoch):
        return (replace(step, weights_B=torch.ones(len(step.positions_B))) for step in UniformBatches().steps(epoch))

    plain, epochs = trained_by(UniformBatches())
    weighted, same = trained_by(Scripted(ones))
    assert same_weights(plain, weighted)
    assert epochs == same


def test_members_with_and_without_weights_learn_side_by_side():
    """Those without have weights of 1."""
    calls = []

    def script(epoch):
        calls.append(epoch)
        weighted = len(calls) % 3 == 1  # the first of three members
        yield Step(torch.arange(4), torch.tensor([0.0, 0.0, 2.0, 2.0]) if weighted else None)

    network = mlp(2, 3, hidden=(8,), dropout=0.0)
    together = ensemble(Scripted(script), network)
    sources = [exactly(([2, 3], None)), exactly(([0, 1, 2, 3], None)), exactly(([0, 1, 2, 3], None))]
    for member, (module, source) in enumerate(zip(together.modules, sources, strict=True)):
        seed, alone = derive(3, "member", member), fresh(network, derive(3, "member", member))
        train(alone, LABELLED, blobs(30, 1), replace(SHORT, batches=source), seed=seed, device="cpu")
        for found, expected in zip(module.parameters(), alone.parameters(), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


MODELS = {
    "dropout": lambda training: Dropout(mlp(2, 3), 3, training, "cpu"),
    "ensemble": lambda training: Ensemble(mlp(2, 3), 2, training, "cpu"),
    "deterministic": lambda training: Deterministic(mlp(2, 3), training, "cpu"),
    "last layer": lambda training: LastLayer(mlp(2, 3), training=training, device="cpu"),
}


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_every_model_of_networks_takes_a_source(make):
    source = UniformWithLooks()
    make(replace(SHORT, batches=source)).fit(LABELLED, seed=0)
    assert len(source.looks) in (24, 48)


def test_a_fit_by_a_selective_source_is_decided_by_its_seed():
    first = trained_by(Hardest())
    torch.rand(3)
    again, other = trained_by(Hardest()), trained_by(Hardest(), seed=2)
    assert same_weights(first[0], again[0])
    assert first[1] == again[1]
    assert not same_weights(first[0], other[0])


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_a_model_is_known_by_its_source_only_where_it_is_not_the_default(make):
    """Runs compare that when they are resumed: journals from before there were sources must go on."""
    told = [name for name in parts_of(make(Training(max_epochs=3))) if name.startswith("training.")]
    assert told == ["training.max_epochs"]
    assert parts_of(make(Training(batches=UniformBatches()))) == parts_of(make(Training()))
    found = parts_of(make(Training(batches=Hardest(9))))
    assert (found["training.batches"], found["training.batches.candidates"]) == ("Hardest", "9")


def test_training_stays_a_value():
    assert Training() == Training(batches=UniformBatches())
    assert len({Training(), Training(batches=UniformBatches()), Training(batches=Hardest())}) == 2
    assert isinstance(UniformBatches(), Batches)


@pytest.mark.parametrize(
    ("wrong", "said"), [(UniformBatches, "the class UniformBatches"), ("uniform", "'uniform'"), (None, "None")]
)
def test_what_is_no_source_is_refused(wrong, said):
    with pytest.raises(ValueError, match=rf"^batches: expected a source of batches.* found {said};"):
        Training(batches=wrong)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (lambda epoch: [], "the source gave no step"),
        (lambda epoch: [torch.arange(3)], "expected steps, found Tensor"),
        (lambda epoch: [Step(torch.ones(3))], r"positions of a step .* found shape \(3,\) of torch.float32"),
        (lambda epoch: [Step(torch.arange(3)[None])], r"positions of a step .* found shape \(1, 3\)"),
        (lambda epoch: [Step(torch.arange(0))], r"positions of a step .* found shape \(0,\)"),
        (lambda epoch: [Step(torch.arange(3), torch.ones(2))], r"expected one weight for each of the 3 .* \(2,\)"),
        (lambda epoch: uniform_parts(epoch, 0), "largest: must be greater than 0"),
    ],
)
def test_steps_that_cannot_be_taken_are_refused(script, said):
    with pytest.raises(ValueError, match=rf"^(batches: )?{said}"):
        trained_by(Scripted(script))


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (lambda turn: [Step(torch.arange(4 + turn))], "equally many examples in a step, found 4, 5, 6 in step 1"),
        (lambda turn: [Step(torch.arange(4))] * (3 - turn), "equally many steps .* ends before step 2"),
    ],
)
def test_members_that_learn_side_by_side_need_alike_steps(script, said):
    turns = iter(range(3))
    with pytest.raises(ValueError, match=rf"^batches: members that learn side by side need {said}"):
        ensemble(Scripted(lambda epoch: script(next(turns))), mlp(2, 3))
