"""With the mixin, a Trainer of transformers trains on what a loop of one's own would select."""

import re
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from torch.nn import functional
from torch.utils.data import DataLoader, IterableDataset

import natsel
from natsel.sampling.irreducible_loss import examples_fingerprint

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")

from transformers import (  # noqa: E402
    BertConfig,
    BertForSequenceClassification,
    PrinterCallback,
    Trainer,
    TrainingArguments,
    default_data_collator,
)

from natsel.integrations.hugging_face import SelectiveTrainer  # noqa: E402

N, C = 100, 3
RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, C, N)
ROWS = [{"input_ids": RNG.integers(1, 20, 5), "labels": int(label), "note": "for people"} for label in LABELS]
IRREDUCIBLE = RNG.uniform(0, 2, N)
NOISY = RNG.random(N) < 0.3
SELECTION = {"irreducible_loss": IRREDUCIBLE, "keep": 0.2, "masks": {"noisy": NOISY}, "seed": 3}
SIZE = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}


class MyTrainer(SelectiveTrainer, Trainer):
    steps = ()

    def training_step(self, model, inputs, *args, **kwargs):
        assert {"input_ids", "labels"} <= set(inputs) <= {"input_ids", "labels", "natsel_weights"}
        rows = [tuple(one.tolist()) for one in inputs["input_ids"]]
        self.steps = [*self.steps, rows]
        return super().training_step(model, inputs, *args, **kwargs)


def model():
    torch.manual_seed(0)
    return BertForSequenceClassification(BertConfig(vocab_size=20, num_labels=C, **SIZE))


def trainer(folder, network=None, data=ROWS, selection=SELECTION, **options):
    quiet = {"save_strategy": "no", "disable_tqdm": True, "report_to": "none", "dataloader_pin_memory": False}
    steady = {"learning_rate": 0.1, "optim": "sgd", "lr_scheduler_type": "constant", "max_grad_norm": 0.0}
    defaults = {"num_train_epochs": 2, "per_device_train_batch_size": 8, "logging_steps": 3, "use_cpu": True}
    args = TrainingArguments(str(folder), **defaults | quiet | steady | options)
    made = MyTrainer(network or model(), args, train_dataset=data, selection=selection)
    made.remove_callback(PrinterCallback)
    torch.manual_seed(1)
    return made


def plain_loop(accumulate=1, **options):
    """The inputs of each step, and the network in the end."""
    network, steps = model().train(), []
    data = DataLoader(
        [{key: row[key] for key in ("input_ids", "labels")} for row in ROWS], collate_fn=default_data_collator
    )
    loader = natsel.SelectiveLoader(data, network, batch=8, **SELECTION | options)
    optimiser = torch.optim.SGD(network.parameters(), 0.1)
    torch.manual_seed(1)
    for _ in range(2):
        batches = iter(loader)
        for start in range(0, len(loader), accumulate):
            together = [next(batches) for _ in range(min(accumulate, len(loader) - start))]
            optimiser.zero_grad()
            for inputs, labels, weights in together:
                steps.append([tuple(one.tolist()) for one in inputs["input_ids"]])
                loss_B = functional.cross_entropy(network(**inputs).logits, labels, reduction="none")
                ((weights * loss_B).mean() / len(together)).backward()
            optimiser.step()
    return steps, network, loader.diagnostics


def same(network, other):
    for one, two in zip(network.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(one, two)


def test_trains_on_what_a_plain_loop_selects_and_logs_the_shares(tmp_path):
    running = trainer(tmp_path)
    running.train()
    steps, network, counts = plain_loop()
    assert running.steps == steps
    assert len(steps) == running.state.global_step == 6
    same(running.model, network)
    assert running.diagnostics == counts
    assert [tuple(ROWS[id]["input_ids"]) for id in running.selected.ids] == steps[-1]
    logged = [entry for entry in running.state.log_history if "loss" in entry]
    assert [entry["step"] for entry in logged] == [3, 6]
    assert logged[-1]["selected_correct"] == pytest.approx(counts.correct / 20)
    assert logged[-1]["selected_noisy"] == pytest.approx(counts.selected_by_mask["noisy"] / 20)
    assert logged[-1]["candidates_noisy"] == pytest.approx(NOISY.mean())


def test_a_small_last_batch_is_dropped_as_the_arguments_say(tmp_path):
    assert len(trainer(tmp_path, dataloader_drop_last=True).get_train_dataloader()) == 2  # 100 are 40, 40 and 20


@pytest.mark.parametrize("step", [2, 3])  # within an epoch, and at its end
def test_resumes_with_the_batch_that_would_have_come_next(tmp_path, step):
    first = trainer(tmp_path, save_strategy="steps", save_steps=step)
    first.train()
    torch.manual_seed(5)
    other = BertForSequenceClassification(BertConfig(vocab_size=20, num_labels=C, **SIZE))
    resumed = trainer(tmp_path, other)
    resumed.train(str(tmp_path / f"checkpoint-{step}"))
    assert resumed.steps == first.steps[step:]
    same(resumed.model, first.model)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_weights_of_importance_sampling_reach_the_loss(tmp_path, accumulate):
    method = {"method": "grad-norm-is"}
    running = trainer(tmp_path, selection=SELECTION | method, gradient_accumulation_steps=accumulate)
    running.train()
    steps, network, _ = plain_loop(accumulate, **method)
    assert running.steps == steps
    assert not torch.equal(running.selected.weights, torch.ones(4))
    same(running.model, network)


class Endless(IterableDataset):
    def __iter__(self):
        yield from ROWS


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"selection": {"batch": 4}}, "batch: found as an option of selection; the Trainer trains on per_device_train"),
        ({"selection": {"kep": 4}}, "kep: selection has no such option; the options are those of"),
        ({"selection": None}, "irreducible_loss: rho-loss needs one per example"),
        ({"data": Endless(), "max_steps": 1}, "dataset: found Endless, which has no length"),
        ({"train_sampling_strategy": "group_by_length"}, "train_sampling_strategy: found 'group_by_length', but"),
        (
            {"selection": SELECTION | {"method": "grad-norm-is"}, "label_smoothing_factor": 0.1},
            "selection: the method draws by importance, and losses must be weighted one by one; leave",
        ),
    ],
)
def test_wrong_use_is_refused_with_a_reason(tmp_path, options, reason):
    with pytest.raises(ValueError, match=re.escape(reason)) as caught:
        trainer(tmp_path, **options).train()
    assert "\n" not in str(caught.value)


def test_losses_of_other_data_and_samplers_of_its_own_are_refused(tmp_path):
    labels = [int(row["labels"]) for row in ROWS]
    counts = natsel.Examples(torch.zeros(len(ROWS), 3), labels)
    for of, said in ((counts[list(range(N))[::-1]], "belong to 100 other examples"), (counts, None)):
        table = natsel.IrreducibleLoss(IRREDUCIBLE, None, examples_fingerprint(of))
        running = trainer(tmp_path, selection=SELECTION | {"irreducible_loss": table})
        with nullcontext() if said is None else pytest.raises(ValueError, match=said):
            assert len(running.get_train_dataloader()) == 3
    longer = natsel.IrreducibleLoss([*IRREDUCIBLE, 0.5])
    with pytest.raises(ValueError, match="the table holds 101 examples, found 100"):
        trainer(tmp_path, selection=SELECTION | {"irreducible_loss": longer}).get_train_dataloader()

    class Sampled(MyTrainer):
        def _get_train_sampler(self, *_):
            return range(20)

    with pytest.raises(
        ValueError, match="_get_train_sampler: candidates come each once per epoch in an order of their"
    ):
        Sampled(model(), TrainingArguments(str(tmp_path), report_to="none"), train_dataset=ROWS, selection=SELECTION)


def test_a_class_that_would_not_select_and_a_foreign_checkpoint_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"Wrong: SelectiveTrainer comes after Trainer and would do nothing; write"):

        class Wrong(Trainer, SelectiveTrainer):
            pass

    with pytest.raises(ValueError, match=r"resume_from_checkpoint: .* holds no selective_loader.json; resume from"):
        trainer(tmp_path).train(str(tmp_path))
