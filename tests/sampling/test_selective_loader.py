"""The loader selects what the formula says, leaves no trace in the network, and resumes at its next batch."""

import copy
import json
import re
import subprocess
import sys
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import (
    DataLoader,
    Dataset,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    TensorDataset,
    WeightedRandomSampler,
)

import natsel
from natsel.sampling.candidates import epoch_batches
from natsel.sampling.scoring_pass import ScoringPass
from natsel.sampling.selective_loader import _NetworkCopy
from natsel.seeds import derive

N, C = 100, 3
RNG = np.random.default_rng(0)
INPUTS = RNG.normal(size=(N, 4)).astype(np.float32)
LABELS = RNG.integers(0, C, N)
IRREDUCIBLE = RNG.uniform(0, 2, N)
PAIR = (INPUTS, LABELS)


def network(dropout=0.0):
    """One whose scores depend on the batch: batch norm, and perhaps dropout."""
    torch.manual_seed(0)
    spectral = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 8))
    return nn.Sequential(spectral, nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(dropout), nn.Linear(8, C))


def loader_of(model, dataset=PAIR, **options):
    defaults = {"irreducible_loss": IRREDUCIBLE, "keep": 0.2, "batch": 8}
    return natsel.SelectiveLoader(dataset, model, **defaults | options)


def losses(model, rows):
    """By the definition: in train mode, with statistics over these rows; the network is a copy."""
    with torch.no_grad():
        logits = copy.deepcopy(model).train()(torch.from_numpy(INPUTS[rows]))
    return functional.cross_entropy(logits, torch.from_numpy(LABELS[rows]), reduction="none").double().numpy()


def candidates_of(loader, epoch=0):
    """The ids of each batch of candidates: with keep=1 all are selected."""
    everything = natsel.SelectiveLoader(PAIR, network(), method="loss", keep=1.0, batch=loader.n_candidates, seed=0)
    everything._epoch = epoch
    return [batch.ids for batch in everything]


def train_on(model, batch, rate=0.5):
    inputs, labels, weights = batch
    model.zero_grad()
    (weights * functional.cross_entropy(model(inputs), labels, reduction="none")).mean().backward()
    with torch.no_grad():
        for one in model.parameters():
            one -= rate * one.grad


def test_every_example_is_a_candidate_once_per_epoch_and_the_last_batch_keeps_the_same_share():
    loader = loader_of(network())
    epochs = [candidates_of(loader, epoch) for epoch in (0, 1)]
    for batches in epochs:
        assert [len(ids) for ids in batches] == [40, 40, 20]
        assert sorted(np.concatenate(batches)) == list(range(N))
    assert not np.array_equal(epochs[0][0], epochs[1][0])
    assert [len(batch) for batch in loader] == [8, 8, 4]
    assert len(loader) == 3


def test_a_small_last_batch_is_dropped_where_asked_for():
    inputs, labels = torch.randn(25, 3), torch.arange(25) % 2
    data = torch.utils.data.TensorDataset(inputs, labels)
    given = torch.utils.data.DataLoader(data, batch_size=4, drop_last=True)
    for loader in (
        natsel.SelectiveLoader(given, nn.Linear(3, 2), method="loss", keep=0.5, batch=4),
        natsel.SelectiveLoader(data, nn.Linear(3, 2), method="loss", keep=0.5, batch=4, drop_last=True),
    ):
        for _ in range(2):
            assert [len(batch) for batch in loader] == [4, 4, 4]
    assert len(natsel.SelectiveLoader(given, nn.Linear(3, 2), method="loss", keep=0.5, batch=4, drop_last=False)) == 4
    with pytest.raises(ValueError, match="drop_last: 25 examples are fewer than the 26 candidates"):
        natsel.SelectiveLoader(data, nn.Linear(3, 2), method="loss", keep=0.5, batch=13, drop_last=True)


def test_selects_the_largest_losses_less_irreducible_losses():
    model = network()
    loader = loader_of(model)
    for batch, ids in zip(loader, candidates_of(loader), strict=True):
        reducible = losses(model, ids) - IRREDUCIBLE[ids]
        expected = ids[np.argsort(-reducible)[: len(batch)]]
        assert batch.ids.tolist() == expected.tolist()
        np.testing.assert_allclose(batch.scores, np.sort(reducible)[::-1][: len(batch)], rtol=1e-5)
        assert torch.equal(batch.inputs, torch.from_numpy(INPUTS[batch.ids]))
        assert batch.labels.tolist() == LABELS[batch.ids].tolist()
        assert batch.weights.tolist() == [1.0] * len(batch)
        train_on(model, batch)


def test_a_constant_irreducible_loss_selects_by_loss_and_moving_all_changes_nothing():
    def picked(**options):
        return [batch.ids.tolist() for batch in loader_of(network(), **options)]

    by_loss = picked(method="loss")
    assert picked(irreducible_loss=np.full(N, 0.7)) == by_loss
    assert picked(irreducible_loss=IRREDUCIBLE + 5) == picked()
    assert picked() != by_loss
    constant = network()
    with torch.no_grad():
        constant[-1].weight.zero_(), constant[-1].bias.zero_()
    rho, negative = (
        [batch.ids.tolist() for batch in loader_of(constant, method=method)] for method in ("rho", "negative-il")
    )
    assert rho == negative


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_scoring_leaves_no_trace(mode):
    model = network(dropout=0.5)
    model[3].eval()  # modes of single parts come back too
    model(torch.zeros(3, 4)).sum().backward()
    before = copy.deepcopy(model.state_dict())
    gradients = [one.grad.clone() for one in model.parameters()]
    modes, random_state = [part.training for part in model.modules()], torch.get_rng_state()
    list(loader_of(model, mode=mode, precision="bfloat16"))
    after = model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert all(torch.equal(old, one.grad) for old, one in zip(gradients, model.parameters(), strict=True))
    assert [part.training for part in model.modules()] == modes
    assert torch.equal(torch.get_rng_state(), random_state)
    assert model[1].track_running_stats


def test_statistics_move_where_that_is_asked_for():
    model = network()
    before = model[1].running_mean.clone()
    list(loader_of(model, update_statistics=True))
    assert not torch.equal(model[1].running_mean, before)
    assert int(model[1].num_batches_tracked) == 3


def test_modes_score_by_batch_or_running_statistics_and_only_eval_is_cut():
    model = network(dropout=0.5)
    inputs, labels = torch.from_numpy(INPUTS), torch.from_numpy(LABELS)
    with torch.no_grad():
        expected = functional.cross_entropy(copy.deepcopy(model).eval()(inputs), labels, reduction="none")
    for chunk in (None, 7):
        found = ScoringPass(mode="eval", chunk=chunk)(model, inputs, labels, seed=0).loss_N
        torch.testing.assert_close(found, expected)
    noisy, again, other = (ScoringPass()(model, inputs, labels, seed=seed).loss_N for seed in (0, 0, 1))
    assert torch.equal(noisy, again)
    assert not torch.equal(noisy, other)
    quiet = ScoringPass(dropout=False)(model, inputs, labels, seed=0).loss_N
    without = copy.deepcopy(model)
    without[3].p = 0.0
    np.testing.assert_allclose(quiet, losses(without, np.arange(N)), rtol=1e-5)


def shifted(frozen, seed=0):
    """Candidates that are unlike the statistics that were frozen, and a network that is trained with these."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, C)).train()
    for place in frozen:
        model[place].eval()
    return model, torch.from_numpy(INPUTS) + 2, torch.from_numpy(LABELS)


def losses_of_the_training_step(model, inputs, labels, rows, seed):
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(seed)
        logits = copy.deepcopy(model)(inputs[rows])
    return functional.cross_entropy(logits, labels[rows], reduction="none")


@pytest.mark.parametrize("frozen", [(1,), (1, 3), ()])
def test_scores_are_those_of_the_network_in_the_modes_of_its_training_step(frozen):
    model, inputs, labels = shifted(frozen)
    rows = np.arange(N)
    found = ScoringPass()(model, inputs, labels, seed=3).loss_N
    torch.testing.assert_close(found, losses_of_the_training_step(model, inputs, labels, rows, 3))
    assert [part.training for part in model[1:4:2]] == [place not in frozen for place in (1, 3)]
    before = copy.deepcopy(model.state_dict())
    ScoringPass(update_statistics=True)(model, inputs, labels, seed=3)
    moved = not torch.equal(before["1.running_mean"], model[1].running_mean)
    assert moved == (1 not in frozen)


def test_a_network_that_freezes_parts_when_it_begins_to_train_is_scored_so():
    class Frozen(nn.Sequential):
        def train(self, mode=True):
            super().train(mode)
            self[1].eval()
            return self

    model = Frozen(*shifted(())[0]).eval()  # after a validation
    inputs, labels = shifted(())[1:]
    found = ScoringPass()(model, inputs, labels, seed=3).loss_N
    expected = losses_of_the_training_step(copy.deepcopy(model).train(), inputs, labels, np.arange(N), 3)
    torch.testing.assert_close(found, expected)
    assert not any(part.training for part in model.modules())


@pytest.mark.parametrize("lag", [False, True])
def test_batches_are_chosen_with_frozen_parts_frozen(lag):
    model, inputs, labels = shifted((1, 3))
    loader = loader_of(model, (inputs, labels), method="loss", irreducible_loss=None, lag=lag)
    for batch, rows in zip(loader, epoch_batches(N, 40, seed=0, epoch=0), strict=True):
        loss_N = losses_of_the_training_step(model, inputs, labels, rows, 0)
        assert batch.ids.tolist() == rows[loss_N.argsort(descending=True)[: len(batch)].numpy()].tolist()


def test_the_copy_that_is_scored_on_a_stream_follows_the_modes_of_the_network():
    model = network().train()
    copied = _NetworkCopy.of(model)
    model[1].eval()
    copied.update(list(model.modules()))
    assert [part.training for part in copied.parts] == [part.training for part in model.modules()]


def test_dropout_that_is_frozen_draws_nothing():
    model, *data = shifted((3,))
    with pytest.raises(ValueError, match="draws: all passes predict the same"):
        next(iter(loader_of(model, tuple(data), method="bald", draws=3, irreducible_loss=None)))


def test_low_precision_gives_losses_in_float32_and_leaves_the_cache_of_autocast_alone():
    model, cached = nn.Linear(4, C), []
    model.register_forward_hook(lambda *_: cached.append(torch.is_autocast_cache_enabled()))
    given = model, torch.from_numpy(INPUTS), torch.from_numpy(LABELS), 0
    low = ScoringPass(precision="bfloat16")(*given)
    assert (low.loss_N.dtype, low.outputs.dtype) == (torch.float32, torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):  # older torch: a step would find weights there that know no gradients
        around = ScoringPass()(*given)
        assert torch.is_autocast_cache_enabled()
    assert torch.equal(around.loss_N, low.loss_N)
    assert cached == [False, False]


def test_importance_sampling_passes_weights_on():
    model = network()
    loader = loader_of(model, method="grad-norm-is", irreducible_loss=None)
    batch, ids = next(iter(loader)), candidates_of(loader)[0]
    with torch.no_grad():
        probs = copy.deepcopy(model).train()(torch.from_numpy(INPUTS[ids])).softmax(1)
    norms = (probs - functional.one_hot(torch.from_numpy(LABELS[ids]), C)).norm(dim=1).double().numpy()
    by_id = dict(zip(ids.tolist(), norms.sum() / (len(ids) * norms), strict=True))
    np.testing.assert_allclose(batch.weights, [by_id[id] for id in batch.ids.tolist()], rtol=1e-5)


@pytest.mark.parametrize("method", ["random", "entropy", "margin", "grad-norm", "grand", "badge", "softmax-entropy"])
def test_methods_of_the_grid_select(method):
    picked = [
        np.concatenate([batch.ids for batch in loader_of(network(), method=method, irreducible_loss=None)])
        for _ in range(2)
    ]
    assert len(picked[0]) == 20
    assert picked[0].tolist() == picked[1].tolist()


@pytest.mark.parametrize("method", ["rho-loss", "entropy"])
def test_losses_that_are_not_finite_are_left_out_and_counted(method):
    inputs = INPUTS.copy()
    dataset = TensorDataset(torch.from_numpy(inputs), torch.from_numpy(LABELS))
    inputs[:10] = np.nan  # the data set sees this memory
    loader = loader_of(nn.Linear(4, C), dataset, keep=0.5, batch=50, method=method)
    batch = next(iter(loader))
    assert loader.diagnostics.not_finite == 10
    assert batch.ids.min() >= 10
    assert "10 of 100" in batch.warnings[0]
    with pytest.raises(ValueError, match=r"only 90 of 100 candidates .* 95 are wanted .* not finite: \d+, .*5 more"):
        next(iter(loader_of(nn.Linear(4, C), dataset, keep=0.95, batch=95)))


def test_diagnostics_count_what_was_selected():
    noisy, clean = natsel.data.noisy_labels(natsel.Examples(INPUTS, LABELS), 0.2), LABELS
    model = nn.Linear(4, C)
    old = np.arange(N) < 50
    loader = loader_of(model, noisy, masks={"old": old}, method="loss")
    ids = np.concatenate([batch.ids for batch in loader])
    found = loader.diagnostics
    assert (found.batches, found.candidates, found.selected, found.epoch) == (3, N, 20, 0)
    wrong = noisy.labels != clean
    assert found.selected_by_mask == {"noisy": int(wrong[ids].sum()), "old": int(old[ids].sum())}
    assert found.candidates_by_mask == {"noisy": 20, "old": 50}
    predicted = model(torch.from_numpy(INPUTS[ids])).argmax(1).numpy()
    assert found.correct == int((predicted == noisy.labels[ids]).sum())
    list(loader)
    assert (loader.diagnostics.epoch, loader.diagnostics.candidates) == (1, N)


@pytest.mark.parametrize("lag", [False, True])
@pytest.mark.parametrize("through_state", [False, True])
def test_resumes_with_the_next_batch(lag, through_state):
    def steps(loader, model, count):
        picked = []
        while len(picked) < count:
            for batch in loader:
                picked.append(batch.ids.tolist())
                train_on(model, batch)
                if len(picked) == count:
                    break
        return picked

    model = network(dropout=0.5)
    whole = steps(loader_of(model, lag=lag), model, 7)
    model = network(dropout=0.5)
    loader = loader_of(model, lag=lag)
    first = steps(loader, model, 4)  # in the second epoch
    if through_state:
        state = json.loads(json.dumps(loader.state_dict()))
        counts, loader = loader.diagnostics, loader_of(model, lag=lag)
        loader.load_state_dict(state)
        assert loader.diagnostics == counts
    assert first + steps(loader, model, 3) == whole
    assert loader.diagnostics.epoch == 2
    with pytest.raises(ValueError, match="state: was saved with seed 0, this loader has 1"):
        loader_of(model, seed=1).load_state_dict(loader.state_dict())


def test_lag_scores_with_weights_one_step_old():
    model = network()
    loader = loader_of(model, lag=True)
    old = copy.deepcopy(model)
    for batch, ids in zip(loader, candidates_of(loader), strict=True):
        reducible = losses(old, ids) - IRREDUCIBLE[ids]
        expected = ids[np.argsort(-reducible)[: len(batch)]]
        assert batch.ids.tolist() == expected.tolist()
        old = copy.deepcopy(model)  # before this step
        train_on(model, batch)


def test_takes_any_after_so_many_epochs_without_a_pass():
    model, seen = network(), []
    loader, random = loader_of(model, uniform_after=1), loader_of(network(), method="random")
    model.register_forward_hook(lambda *_: seen.append(1))
    chosen, any_of_them = ([[batch.ids.tolist() for batch in one] for _ in range(2)] for one in (loader, random))
    assert len(seen) == 3, "in the first epoch alone"
    assert chosen[0] != any_of_them[0]
    assert chosen[1] == any_of_them[1]
    assert (loader.diagnostics.selected, loader.diagnostics.correct) == (20, None)


@pytest.mark.parametrize("method", ["bald", "conditional-entropy", "loss-minus-entropy"])
def test_draws_of_dropout_are_what_a_method_reads(method):
    """The scores are those of a belief made by hand from as many passes."""
    model = network(dropout=0.5)
    loader = loader_of(model, method=method, draws=6, irreducible_loss=None, keep=0.2, batch=20)
    (batch,) = loader
    (ids,) = epoch_batches(N, N, seed=0, epoch=0)  # masks of dropout follow the order of candidates
    inputs, labels = torch.from_numpy(INPUTS[ids]), torch.from_numpy(LABELS[ids])
    seeds = [derive(derive(0, "dropout", 0, 0, 0), draw) for draw in range(6)]
    logits = [ScoringPass()(model, inputs, labels, seed).outputs for seed in seeds]
    assert not torch.equal(logits[0], logits[1])
    belief = natsel.CategoricalSamples(torch.stack(logits, 1).double().log_softmax(2), ids=ids)
    known = labels if method == "loss-minus-entropy" else None
    expected = natsel.select(method, belief, k=20, labels=known)
    assert batch.ids.tolist() == expected.ids.tolist()
    np.testing.assert_allclose(batch.scores, expected.scores, rtol=1e-10)


def test_draws_whose_loss_is_not_finite_are_left_out():
    def loss(outputs, labels):
        loss_N = functional.cross_entropy(outputs, labels, reduction="none")
        return torch.where(torch.arange(len(labels)) < 5, torch.nan, loss_N)

    loader = loader_of(network(dropout=0.5), method="bald", draws=3, loss=loss, irreducible_loss=None)
    left_out = {id for ids in epoch_batches(N, 40, seed=0, epoch=0) for id in ids[:5]}
    assert not left_out & {id for batch in loader for id in batch.ids}
    assert loader.diagnostics.not_finite == 15


def test_a_batch_that_was_read_ahead_is_not_read_again():
    read = []

    class Counted(_Dicts):
        def __getitem__(self, row):
            read.append(row)
            return super().__getitem__(row)["x"] + len(read), int(LABELS[row])  # changes at random, as it were

    model = network()
    loader = loader_of(model, Counted(), lag=True)
    seen = []
    for _ in range(3):
        for batch in loader:
            seen += batch.ids.tolist()
            train_on(model, batch)
            break
    assert sorted(read) == list(range(N))
    assert len(seen) == len(set(seen)) == 20


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an accelerator")
def test_lag_on_a_stream_of_its_own_selects_the_same():
    def picked(device):
        model = network().double().to(device)
        loader = loader_of(model, (INPUTS.astype(np.float64), LABELS), lag=True)
        found = []
        for _ in range(3):
            for batch in loader:
                found.append(batch.ids.tolist())
                train_on(model, batch)
        return found

    assert picked("cuda") == picked("cpu")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an accelerator")
@pytest.mark.parametrize("method", ["rho-loss", "grad-norm"])
@pytest.mark.parametrize("lag", [False, True])
@pytest.mark.parametrize("frozen", [False, True])
def test_a_recorded_pass_selects_the_same(lag, method, frozen):
    def picked(cuda_graph):
        model = network(dropout=0.3).cuda()
        loader = loader_of(model, batch=4, lag=lag, method=method, cuda_graph=cuda_graph)
        found = []
        for epoch in range(3):
            for step, batch in enumerate(loader):
                found.append((batch.ids.tolist(), batch.scores.tolist()))
                if frozen and epoch == 1 and step == 2:
                    model[1].eval()  # also within an epoch
                train_on(model, batch)
        return found, [one.tolist() for one in model.state_dict().values()]

    assert picked(True) == picked(False)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an accelerator")
def test_a_pass_that_cannot_be_recorded_is_refused():
    class Looks(nn.Sequential):
        def forward(self, inputs):
            return super().forward(inputs if inputs.mean() > 0 else -inputs)

    with pytest.raises(ValueError, match="cuda_graph: the pass over candidates cannot be recorded"):
        list(loader_of(Looks(*network()).cuda(), cuda_graph=True))


class _Dicts(Dataset):
    def __len__(self):
        return N

    def __getitem__(self, row):
        return {"x": INPUTS[row], "text": f"row {row}", "labels": int(LABELS[row])}


class _TakesWords(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x, text=None):
        assert text is None or len(text) == len(x)
        return {"logits": self.inner(x)}


def _collated(items):
    return torch.stack([item[0] for item in items]), torch.stack([item[1] for item in items])


def test_data_sets_of_all_kinds_give_the_same_batches():
    tensors = TensorDataset(torch.from_numpy(INPUTS), torch.from_numpy(LABELS))
    expected = [batch.ids.tolist() for batch in loader_of(network())]
    for dataset in (natsel.Examples(*PAIR), tensors, DataLoader(tensors, 5, shuffle=True, collate_fn=_collated)):
        random_state = torch.get_rng_state()
        assert [batch.ids.tolist() for batch in loader_of(network(), dataset)] == expected
        assert torch.equal(torch.get_rng_state(), random_state)
    batches = list(loader_of(_TakesWords(network()), _Dicts()))
    assert [batch.ids.tolist() for batch in batches] == expected
    assert batches[0].inputs["text"] == [f"row {id}" for id in batches[0].ids]
    assert torch.equal(batches[0].inputs["x"], torch.from_numpy(INPUTS[batches[0].ids]))
    named = loader_of(network(), _Dicts(), inputs_key="x", ids=[f"e{row}" for row in range(N)])
    assert [[int(id[1:]) for id in batch.ids] for batch in named] == expected


def test_irreducible_losses_come_by_id():
    ids = [f"e{row}" for row in range(N)]
    table = natsel.IrreducibleLoss(IRREDUCIBLE[::-1], ids=ids[::-1])
    expected = [batch.ids.tolist() for batch in loader_of(network(), irreducible_loss=table.at(ids))]
    for known in (table, dict(zip(ids, table.at(ids).tolist(), strict=True))):
        found = loader_of(network(), irreducible_loss=known, ids=ids)
        assert [[int(id[1:]) for id in batch.ids] for batch in found] == expected
    assert np.array_equal(table.loss_N, IRREDUCIBLE[::-1].astype(np.float32))


def test_ranks_share_the_candidates_of_an_epoch():
    model, world = network(), 3
    loaders = [
        natsel.SelectiveLoader(PAIR, model, method="loss", keep=1.0, batch=7, rank=rank, world=world)
        for rank in range(world)
    ]
    shards = [np.concatenate([batch.ids for batch in loader]) for loader in loaders]
    assert [len(shard) for shard in shards] == [33, 33, 33]
    assert len(set(np.concatenate(shards).tolist())) == 99
    assert [len(loader) for loader in loaders] == [5, 5, 5]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"keep": 0.0}, "keep: expected a share above 0 and up to 1, found 0.0"),
        ({"keep": 1.5}, "keep: expected a share above 0 and up to 1, found 1.5"),
        ({"batch": 0}, "batch: expected a whole number from 1, found 0"),
        ({"irreducible_loss": None}, "irreducible_loss: rho-loss needs one per example"),
        ({"irreducible_loss": dict.fromkeys(range(93), 0.0)}, "none is known for 93, 94, 95, 96, 97 and 2 more"),
        ({"irreducible_loss": natsel.IrreducibleLoss(np.zeros(98))}, "none is known for 98, 99; make one"),
        ({"irreducible_loss": np.zeros(5)}, "expected one for each of 100 examples, found shape (5,)"),
        ({"irreducible_loss": ["0.5"] * N}, "irreducible_loss: expected numbers, found"),
        (
            {"method": "pig"},
            "method: pig cannot select from losses, logits and features of one network (belief: PIG cannot",
        ),
        ({"method": "best-bald"}, "method: best-bald cannot select"),
        ({"chunk": 5}, "chunk: in mode 'train' statistics of batch norm run over all candidates"),
        ({"mode": "eval", "update_statistics": True}, "update_statistics: mode 'eval' moves no statistics"),
        ({"draws": 1}, "draws: expected a whole number from 2, found 1"),
        ({"draws": 3, "mode": "eval"}, "draws: passes differ by their masks of dropout"),
        ({"draws": 3}, "method: rho-loss cannot select from draws of predictions"),
        ({"uniform_after": -1}, "uniform_after: expected a whole number from 0, found -1"),
        ({"lag": True, "update_statistics": True}, "update_statistics: with lag=True"),
        ({"cuda_graph": True}, "cuda_graph: needs a CUDA device and one pass per batch, found the device cpu"),
        ({"precision": "int8"}, "precision: expected 'bfloat16' or None, found 'int8'"),
        ({"masks": {"odd": [1, 2]}}, "masks: 'odd' should hold True or False for each of 100 examples"),
        ({"rank": 2, "world": 2}, "rank: expected 0 to 1 for a world of 2, found 2"),
        ({"rank": 0.5, "world": 2}, "rank: expected 0 to 1 for a world of 2, found 0.5"),
        ({"dataset": natsel.Examples(INPUTS)}, "dataset: found no labels"),
        ({"dataset": (INPUTS, np.where(np.arange(N) == 7, -1, LABELS))}, "the label of example 7 is not known"),
        ({"dataset": iter([])}, "dataset: found list_iterator, which has no length"),
        (
            {"dataset": DataLoader(_Dicts(), 5, sampler=WeightedRandomSampler(np.ones(N), N))},
            "dataset: the DataLoader draws by its WeightedRandomSampler",
        ),
        ({"batch_size": 8}, "batch_size: SelectiveLoader has no such option; it is called batch"),
        ({"shuffle": True}, "shuffle: SelectiveLoader has no such option; every epoch has an order of its own"),
        ({"num_workers": 2}, "num_workers: SelectiveLoader has no such option; how data are read is said by a Data"),
    ],
)
def test_refuses_before_any_work(options, reason):
    model = network()
    model.forward = None  # not called
    with pytest.raises(ValueError, match=re.escape(reason)):
        loader_of(model, **options)


@pytest.mark.parametrize(
    ("sampler", "drawn"),
    [
        (lambda data: RandomSampler(data, num_samples=20), 20),
        (lambda data: RandomSampler(data, num_samples=200), 200),
        (lambda data: SequentialSampler(range(20)), 20),
        (lambda data: DistributedSampler(data, num_replicas=4, rank=1), 25),
    ],
)
def test_a_sampler_that_draws_a_part_is_refused(sampler, drawn):
    data = _Dicts()
    found = sampler(data)
    said = f"dataset: the {type(found).__name__} of the DataLoader draws {drawn} of 100 examples, .*Subset"
    with pytest.raises(ValueError, match=said):
        loader_of(_TakesWords(network()), DataLoader(data, 5, sampler=found))


def test_samplers_that_draw_each_example_once_stay():
    data = _Dicts()
    usual = [RandomSampler(data), SequentialSampler(data), DistributedSampler(data, num_replicas=1, rank=0)]
    for sampler in usual:
        assert len(loader_of(_TakesWords(network()), DataLoader(data, 5, sampler=sampler))) == 3


@pytest.mark.parametrize(
    ("count", "options"),
    [(41, {}), (83, {"rank": 0, "world": 2}), (9, {"batch": 1, "keep": 1.0}), (1, {}), (3, {"rank": 2, "world": 3})],
)
def test_a_last_candidate_that_batch_norm_cannot_score_is_refused_at_once(count, options):
    data = (INPUTS[:count], LABELS[:count])
    options = {"method": "loss", "irreducible_loss": None} | options
    with pytest.raises(ValueError, match=f"drop_last: {count // options.get('world', 1)} examples in batches of"):
        loader_of(network(), data, **{"batch": 1} | options)


def test_where_batch_norm_takes_no_statistics_of_one_candidate_it_may_come():
    data, options = (INPUTS[:41], LABELS[:41]), {"irreducible_loss": np.zeros(41)}
    frozen = network()
    frozen[1].eval()
    plain = nn.Linear(4, C)
    for model, more in ((network(), {"drop_last": True}), (network(), {"mode": "eval"}), (frozen, {}), (plain, {})):
        assert sum(len(batch) for batch in loader_of(model, data, **options, **more)) in (8, 9)
    pictures = natsel.Examples(RNG.normal(size=(41, 1, 4, 4)).astype(np.float32), LABELS[:41])
    seen = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, C))
    assert sum(len(batch) for batch in loader_of(seen, pictures, **options)) == 9


def test_a_wrong_shape_is_a_sentence():
    with pytest.raises(ValueError, match=r"^inputs: each has shape \(3,\), and the network expects \(4,\)"):
        next(iter(loader_of(nn.Linear(4, C), (INPUTS[:, :3], LABELS))))


def test_what_can_hardly_be_meant_is_said():
    with pytest.warns(UserWarning, match="batch: found 101, and all 100 examples make one batch"):
        assert len(loader_of(network(), batch=101)) == 1
    with pytest.warns(UserWarning, match="model: ends in Softmax, and cross-entropy takes logits"):
        loader_of(nn.Sequential(network(), nn.Softmax(1)))
    loader_of(nn.Sequential(network(), nn.Softmax(1)), loss=lambda outputs, labels: -outputs[:, 0].log())


def test_selected_labels_that_the_network_stops_to_predict_are_said_once():
    labels = np.arange(N) % C
    wrong = np.arange(N) % 5 == 0
    noisy = np.where(wrong, (labels + 1) % C, labels)

    def epochs(labels, losses, **options):
        model = nn.Linear(C, C, bias=False)
        loader = loader_of(model, (np.eye(C)[np.arange(N) % C], labels), irreducible_loss=losses, **options)
        for sure in (0.1, 0.1, 3.0, 3.0, 4.0):  # a network that comes to know the right labels, and loses none any more
            with torch.no_grad():
                model.weight.copy_(sure * torch.eye(C))
            list(loader)
        return loader.diagnostics

    said = "epoch 2: the selected examples are predicted right less often than the candidates, .* stop here"
    with pytest.warns(UserWarning, match=said) as caught:
        found = epochs(noisy, np.where(wrong, 1.5, 0.0))
    assert len(caught) == 1
    assert found.correct < 5 < found.candidates_correct == 80
    epochs(labels, np.zeros(N))  # what is selected is as right as all: nothing is said
    epochs(noisy, None, method="loss")
    epochs(noisy, np.where(wrong, 1.5, 0.0), uniform_after=1)


def test_refuses_losses_of_other_data_and_losses_that_are_no_vector():
    table = natsel.IrreducibleLoss.of_log_probs(np.full((N, 1, C), -np.log(C)), LABELS, inputs=INPUTS)
    loader_of(network(), natsel.Examples(*PAIR), irreducible_loss=table)
    with pytest.raises(ValueError, match="irreducible_loss: these irreducible losses belong to 100 other examples"):
        loader_of(network(), natsel.Examples(INPUTS, (LABELS + 1) % C), irreducible_loss=table)
    part = natsel.Examples(*PAIR)[10:]  # its first row is not the first of the table
    with pytest.raises(ValueError, match="irreducible_loss: the table holds 100 examples, found 90; say by ids="):
        loader_of(network(), part, irreducible_loss=table)
    loader_of(network(), part, irreducible_loss=table, ids=np.arange(10, N))
    with pytest.raises(ValueError, match="loss: expected one number for each of 40 candidates, found shape"):
        next(iter(loader_of(network(), loss=functional.cross_entropy)))
    with pytest.raises(ValueError, match="dataset: items have no 'labels' but x, y; say"):
        next(iter(loader_of(network(), [{"x": row, "y": 0} for row in INPUTS])))
    model = nn.Linear(4, 1)
    numbers = (INPUTS, RNG.normal(size=N))
    with pytest.raises(ValueError, match="loss: cross-entropy needs logits"):
        next(iter(loader_of(model, numbers)))
    squared = loader_of(model, numbers, loss=lambda outputs, labels: (outputs[:, 0] - labels).square())
    assert len(list(squared)) == 3
    assert squared.diagnostics.correct is None


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"dataset": (INPUTS, LABELS + 1)}, "labels: found class 3, and the network has logits of the classes 0 to 2"),
        ({"method": "bald", "draws": 2}, "draws: all passes predict the same; use a network with dropout"),
        (
            {"dataset": _Dicts(), "augmentation": natsel.models.CropFlip()},
            "augmentation: changes one tensor of inputs, found dict; say inputs_key=",
        ),
    ],
)
def test_refuses_candidates_that_cannot_be_scored(options, reason):
    with pytest.raises(ValueError, match=re.escape(reason)):
        next(iter(loader_of(network(), **options)))


def test_sizes_may_be_numbers_of_numpy_and_a_share_may_be_tiny():
    sizes = {"keep": np.float32(0.5), "batch": np.int64(8), "seed": np.int64(1), "uniform_after": np.int64(1)}
    loader = loader_of(network(), **sizes)
    json.dumps(loader.state_dict())
    assert len(next(iter(loader))) == 8
    assert [len(batch) for batch in loader_of(network(), keep=1e-15)] == [1]  # of all there are


def one_rank(rank, folder):
    """What one of two processes does."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    model = nn.parallel.DistributedDataParallel(network())
    loader = loader_of(model)
    picked = []
    for batch in loader:
        picked.append(batch.ids.tolist())
        train_on(model, batch)
    weights = [one.detach().tolist() for one in model.parameters()]
    Path(folder, f"{rank}.json").write_text(json.dumps({"picked": picked, "weights": weights, "rank": loader.rank}))
    torch.distributed.destroy_process_group()


@pytest.mark.slow
def test_two_processes_train_one_network_on_their_own_candidates(tmp_path):
    program = "import runpy, sys; runpy.run_path(sys.argv[1])['one_rank'](int(sys.argv[2]), sys.argv[3])"
    command = [sys.executable, "-c", program, __file__]
    running = [subprocess.Popen([*command, str(rank), str(tmp_path)]) for rank in range(2)]
    assert [process.wait(120) for process in running] == [0, 0]
    one, other = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2))
    assert (one["rank"], other["rank"]) == (0, 1)
    assert [len(ids) for ids in one["picked"]] == [len(ids) for ids in other["picked"]] == [8, 2]
    assert not set(chain(*one["picked"])) & set(chain(*other["picked"]))
    assert one["weights"] == other["weights"]
