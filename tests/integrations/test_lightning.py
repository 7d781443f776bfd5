"""With the callback, an unchanged module and its Trainer train on what a loop of one's own would select."""

import re
import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, RandomSampler, Subset, TensorDataset, default_collate

import natsel
from natsel.sampling.irreducible_loss import examples_fingerprint

lightning = pytest.importorskip("lightning")

from natsel.integrations.lightning import SelectiveTraining  # noqa: E402  it needs the package

N, C = 100, 3
RNG = np.random.default_rng(0)
INPUTS = torch.from_numpy(RNG.normal(size=(N, 4)).astype(np.float32))
LABELS = torch.from_numpy(RNG.integers(0, C, N))
IRREDUCIBLE = RNG.uniform(0, 2, N)
NOISY = RNG.random(N) < 0.3
OPTIONS = {"irreducible_loss": IRREDUCIBLE, "keep": 0.2, "masks": {"noisy": NOISY}, "seed": 3}
DATA = DataLoader(TensorDataset(INPUTS, LABELS), 8, shuffle=True)


def network(dropout=0.2):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(dropout), nn.Linear(8, C))


class Module(lightning.LightningModule):
    def __init__(self, callback, dropout=0.2):
        super().__init__()
        self.layers = network(dropout)
        self.callback, self.steps = callback, []

    def forward(self, inputs):
        return self.layers(inputs)

    def training_step(self, batch, number):
        inputs, labels = batch
        self.steps.append(self.callback.selected.ids.tolist())
        assert torch.equal(inputs, INPUTS[self.steps[-1]])
        return functional.cross_entropy(self(inputs), labels)

    def configure_optimizers(self):
        optimiser = torch.optim.SGD(self.parameters(), 0.5)
        self.n_steps = self.trainer.estimated_stepping_batches  # as schedules ask for it, before training begins
        return optimiser


def trainer(*callbacks, **options):
    quiet = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary", "enable_checkpointing"), False)
    return lightning.Trainer(max_epochs=2, accelerator="cpu", callbacks=list(callbacks), **quiet | options)


@pytest.fixture(autouse=True)
def _a_loader_that_cannot_resume_is_an_error():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="lightning")
        warnings.filterwarnings("error", message=".*not resumable")
        yield


def fitted(**options):
    callback = SelectiveTraining(**OPTIONS)
    module, running = Module(callback), trainer(callback, **options)
    torch.manual_seed(1)
    running.fit(module, DATA)
    return running, module, callback


def plain_loop(**options):
    """The ids of each step, and the network in the end."""
    model, steps = network(), []
    loader = natsel.SelectiveLoader(DATA, model, batch=8, **OPTIONS | options)
    optimiser = torch.optim.SGD(model.parameters(), 0.5)
    torch.manual_seed(1)
    for _ in range(2):
        for inputs, labels, weights in (batch for batch in loader if not steps.append(batch.ids.tolist())):
            optimiser.zero_grad()
            (weights * functional.cross_entropy(model(inputs), labels, reduction="none")).mean().backward()
            optimiser.step()
    return steps, model, loader.diagnostics


def test_trains_on_what_a_plain_loop_selects_and_logs_the_shares():
    running, module, callback = fitted()
    steps, model, counts = plain_loop()
    assert module.steps == steps
    assert len(steps) == module.n_steps == 6
    for one, other in zip(module.layers.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(one, other)
    assert callback.diagnostics == counts
    logged = {name: float(value) for name, value in running.callback_metrics.items()}
    assert logged["selected_correct"] == pytest.approx(counts.correct / 20)
    assert logged["selected_noisy"] == pytest.approx(counts.selected_by_mask["noisy"] / 20)
    assert logged["candidates_noisy"] == pytest.approx(NOISY.mean())


@pytest.mark.parametrize("step", [2, 3])  # within an epoch, and at its end
def test_resumes_with_the_batch_that_would_have_come_next(tmp_path, step):
    save = lightning.pytorch.callbacks.ModelCheckpoint(tmp_path, "{step}", every_n_train_steps=1, save_top_k=-1)
    modules = []
    for checkpoint in (None, tmp_path / f"step={step}.ckpt"):
        callback = SelectiveTraining(**OPTIONS)
        modules.append(Module(callback, dropout=0.0))  # Lightning does not save random states
        running = trainer(callback, save, enable_checkpointing=True)
        running.fit(modules[-1], DATA, ckpt_path=checkpoint, weights_only=True)
    whole, resumed = modules
    assert resumed.steps == whole.steps[step:]
    for one, other in zip(resumed.parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(one, other)


def test_epochs_that_lightning_cuts_short_go_on_where_the_loader_stands():
    _, module, callback = fitted(limit_train_batches=2)
    assert len(module.steps) == 4
    candidates = natsel.SelectiveLoader(DATA, network(), method="loss", keep=1.0, batch=40, seed=3)
    asked = [*(set(batch.ids.tolist()) for batch in candidates), set(next(iter(candidates)).ids.tolist())]
    assert all(set(step) <= some for step, some in zip(module.steps, asked, strict=True))
    assert callback.diagnostics.epoch == 1


class Weighted(Module):
    def training_step(self, batch, number):
        inputs, labels, weights = batch
        self.steps.append(self.callback.selected.ids.tolist())
        loss_B = functional.cross_entropy(self(inputs), labels, reduction="none")
        return (weights * loss_B).mean()


def test_weights_of_importance_sampling_come_with_the_batch():
    callback = SelectiveTraining(**OPTIONS, method="grad-norm-is", with_weights=True)
    module = Weighted(callback)
    torch.manual_seed(1)
    trainer(callback).fit(module, DATA)
    steps, model, _ = plain_loop(method="grad-norm-is")
    assert module.steps == steps
    assert not torch.equal(callback.selected.weights, torch.ones(4))
    for one, other in zip(module.layers.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(one, other)


class Entries(Module):
    def forward(self):
        raise AssertionError("the part is called")

    def training_step(self, batch, number):
        assert sorted(batch) == ["image", "name", "target"]
        ids = self.callback.selected.ids.tolist()
        assert batch["name"] == [f"n{id}" for id in ids]
        self.steps.append(ids)
        return functional.cross_entropy(self.layers(batch["image"]), batch["target"])

    def train_dataloader(self):
        items = zip(INPUTS, LABELS, range(N), strict=True)
        data = [{"image": input, "target": label, "name": f"n{row}"} for input, label, row in items]
        return DataLoader(data, 8, collate_fn=default_collate)


def test_dicts_stay_whole_and_a_part_of_the_module_may_score():
    callback = SelectiveTraining(**OPTIONS, network="layers", inputs_key="image", labels_key="target")
    module = Entries(callback)
    torch.manual_seed(1)
    trainer(callback).fit(module)
    assert module.steps == plain_loop()[0]


@pytest.mark.parametrize(
    ("options", "data", "reason"),
    [
        ({"method": "grad-norm-is"}, DATA, "with_weights: grad-norm-is draws by importance, found False; pass with"),
        ({"kep": 0.1}, DATA, "kep: SelectiveTraining has no such option"),
        ({"rank": 1}, DATA, "rank: found as an option of SelectiveTraining; the trainer decides it"),
        ({"keep": 2}, DATA, "keep: expected a share above 0 and up to 1, found 2"),
        ({"irreducible_loss": None}, DATA, "irreducible_loss: rho-loss needs one per example"),
        ({"network": "head"}, DATA, "network: the module has no part 'head' but layers; name one of these"),
        ({"inputs_key": "image"}, DATA, "inputs_key: found 'image', but batches are no dicts; leave it out"),
        ({}, [DATA, DATA], "train_dataloaders: found list; SelectiveTraining selects from one DataLoader"),
    ],
)
def test_wrong_use_is_refused_with_a_reason(options, data, reason):
    def fit():
        callback = SelectiveTraining(**OPTIONS | options)
        trainer(callback).fit(Module(callback), data)

    with pytest.raises(ValueError, match=re.escape(reason)) as caught:
        fit()
    assert "\n" not in str(caught.value)


def test_losses_of_other_data_and_samplers_of_a_part_are_refused():
    whole = natsel.Examples(INPUTS, LABELS)
    table = natsel.IrreducibleLoss(IRREDUCIBLE, None, examples_fingerprint(whole))
    data = TensorDataset(INPUTS, LABELS)
    for given, said in (
        (DataLoader(Subset(data, range(60)), 8), "the table holds 100 examples, found 60"),
        (DataLoader(Subset(data, range(99, -1, -1)), 8), "belong to 100 other examples"),
        (DataLoader(data, 8, sampler=RandomSampler(data, num_samples=20)), "draws 20 of 100 examples"),
    ):
        callback = SelectiveTraining(irreducible_loss=table, keep=0.2)
        with pytest.raises(ValueError, match=said):
            trainer(callback).fit(Module(callback), given)


def test_a_state_of_rank_0_serves_other_ranks():
    from natsel.integrations.selective_batches import SelectiveBatches

    def batches(rank):
        loader = natsel.SelectiveLoader(DATA, network(), rank=rank, world=2, batch=4, lag=True, **OPTIONS)
        return SelectiveBatches(loader, lambda batch: batch.ids.tolist())

    saved, whole = batches(0), list(batches(1))
    next(iter(saved))
    resumed = batches(1)
    resumed.load_state_dict(saved.state_dict())
    assert next(iter(resumed)) == whole[1]
