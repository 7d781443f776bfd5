"""Irreducible losses go to the examples that they were computed for, whatever the data set is."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

import natsel
from natsel.models import Training, mlp
from natsel.sampling.irreducible_loss import examples_fingerprint

N, C = 90, 3
RNG = np.random.default_rng(0)
INPUTS = RNG.normal(size=(N, 4)).astype(np.float32)
LABELS = RNG.integers(0, C, N)
IRREDUCIBLE = RNG.uniform(0, 2, N).astype(np.float32)
NAMES = [f"{row}.txt" for row in range(N)]
PART = np.sort(RNG.permutation(N)[:60])  # what a filter left
EXAMPLES = natsel.Examples(INPUTS, LABELS)


class Items(Dataset):
    """Rows that only this code can read."""

    def __init__(self, inputs, labels):
        self.rows, self.reads = list(zip(inputs, labels.tolist(), strict=True)), []

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, row):
        self.reads.append(row)
        return torch.rand(1) * 0 + torch.from_numpy(self.rows[row][0].copy()), self.rows[row][1]


def tensors(inputs, labels):
    return TensorDataset(torch.from_numpy(inputs.copy()), torch.from_numpy(labels.copy()))


DATA_SETS = {
    "examples": natsel.Examples,
    "pair": lambda inputs, labels: (inputs, labels),
    "pair of tensors": lambda inputs, labels: tensors(inputs, labels).tensors,
    "pair with a table": lambda inputs, labels: (pd.DataFrame(inputs), labels),
    "table": lambda inputs, labels: pd.DataFrame(inputs, columns=list("abcd")).assign(labels=labels),
    "tensors": tensors,
    "loader of tensors": lambda inputs, labels: DataLoader(tensors(inputs, labels), 5, shuffle=True),
    "part of tensors": lambda inputs, labels: Subset(
        tensors(np.repeat(inputs, 2, 0), np.repeat(labels, 2)), range(1, 2 * len(inputs), 2)
    ),
    "items": Items,
    "loader of items": lambda inputs, labels: DataLoader(Items(inputs, labels), 5),
    "dicts": lambda inputs, labels: [{"x": x, "labels": y} for x, y in zip(inputs, labels, strict=True)],
    "part of items": lambda inputs, labels: Subset(Items(inputs, labels), range(len(inputs))),
}
KINDS = pytest.mark.parametrize("kind", DATA_SETS)
READABLE = [kind for kind in DATA_SETS if "items" not in kind and kind != "dicts"]


def table_of(kind, ids=None):
    """A table made of the whole data set."""
    of = EXAMPLES
    if "table" in kind:
        of = natsel.Examples(DATA_SETS["pair with a table"](INPUTS, LABELS)[0], LABELS)
        of = natsel.Examples(pd.DataFrame(INPUTS, columns=list("abcd")), LABELS) if kind == "table" else of
    return natsel.IrreducibleLoss(IRREDUCIBLE, ids, examples_fingerprint(of), "made by hand")


def loader_of(kind, inputs, labels, table, **options):
    options |= {"irreducible_loss": table, "keep": 0.2, "batch": 6}
    options |= {"inputs_key": "x"} if kind == "dicts" else {}
    return natsel.SelectiveLoader(DATA_SETS[kind](inputs, labels), nn.Linear(4, C), **options)


@KINDS
def test_a_part_of_the_data_is_refused_and_works_through_ids(kind):
    with pytest.raises(ValueError, match=r"irreducible_loss: the table holds 90 examples, found 60; say by ids= which"):
        loader_of(kind, INPUTS[PART], LABELS[PART], table_of(kind))
    for ids, own in ((None, PART), (NAMES, np.array(NAMES, dtype=object)[PART])):
        loader = loader_of(kind, INPUTS[PART], LABELS[PART], table_of(kind, ids), ids=own)
        assert loader._irreducible_N.tolist() == IRREDUCIBLE[PART].tolist()
    with pytest.raises(ValueError, match=r"none is known for 'a59', 'b', 'c'"):
        loader_of(kind, INPUTS[:3], LABELS[:3], table_of(kind, NAMES), ids=["a59", "b", "c"])


@KINDS
def test_the_same_rows_in_another_order_are_refused_and_work_through_ids(kind):
    with pytest.raises(
        ValueError, match=r"losses belong to 90 other examples, or .* another order \(made by hand\); say"
    ):
        loader_of(kind, INPUTS[::-1].copy(), LABELS[::-1].copy(), table_of(kind))
    loader = loader_of(kind, INPUTS[::-1].copy(), LABELS[::-1].copy(), table_of(kind), ids=np.arange(N)[::-1])
    assert loader._irreducible_N.tolist() == IRREDUCIBLE[::-1].tolist()
    assert loader_of(kind, INPUTS, LABELS, table_of(kind))._irreducible_N.tolist() == IRREDUCIBLE.tolist()


@pytest.mark.parametrize("kind", READABLE)
def test_other_inputs_with_the_same_labels_are_refused_where_rows_can_be_read(kind):
    changed = INPUTS.copy()
    changed[7] += 1
    for ids in (None, np.arange(N)):
        with pytest.raises(ValueError, match="belong to 90 other examples"):
            loader_of(kind, changed, LABELS, table_of(kind), ids=ids)


def test_rows_that_were_converted_are_known_by_their_labels():
    as_bytes = (INPUTS * 20 + 128).astype(np.uint8)
    table = natsel.IrreducibleLoss(IRREDUCIBLE, None, examples_fingerprint(natsel.Examples(as_bytes, LABELS)))
    for kind in ("pair", "tensors", "items"):
        assert loader_of(kind, INPUTS, LABELS, table)._irreducible_N.tolist() == IRREDUCIBLE.tolist()
        with pytest.raises(ValueError, match="belong to 90 other examples"):
            loader_of(kind, INPUTS, np.roll(LABELS, 1), table)


def test_losses_without_a_fingerprint_still_have_a_length():
    for losses in (natsel.IrreducibleLoss(IRREDUCIBLE), dict(enumerate(IRREDUCIBLE))):
        with pytest.raises(ValueError, match="the table holds 90 examples, found 60"):
            loader_of("pair", INPUTS[:60], LABELS[:60], losses)
    with pytest.raises(ValueError, match="none is known for 90, 91"):
        loader_of("pair", RNG.normal(size=(92, 4)), np.zeros(92, int), natsel.IrreducibleLoss(IRREDUCIBLE))


def test_looking_at_a_data_set_reads_64_rows_and_draws_no_random_numbers():
    items, state = Items(INPUTS, LABELS), torch.get_rng_state()
    natsel.SelectiveLoader(items, nn.Linear(4, C), irreducible_loss=table_of("items"))
    assert len(items.reads) == 64
    after = torch.get_rng_state()
    torch.set_rng_state(state)
    nn.Linear(4, C)
    assert torch.equal(torch.get_rng_state(), after)


def test_the_index_of_a_table_names_its_rows():
    frame = pd.DataFrame(INPUTS, columns=list("abcd"), index=NAMES).assign(labels=LABELS)
    rows, labels = frame.drop(columns="labels"), frame["labels"]
    quick = {"training": Training(max_epochs=1), "device": "cpu"}
    table = natsel.IrreducibleLoss.fit(mlp(4, C), EXAMPLES[PART], (rows, labels[::-1]), **quick, seed=1)
    assert table.ids.tolist() == NAMES
    filtered = frame[frame["a"] > 0]
    loader = natsel.SelectiveLoader(filtered, nn.Linear(4, C), irreducible_loss=table, keep=0.5, batch=4)
    assert loader._irreducible_N.tolist() == table.at(list(filtered.index)).tolist()
    batch = next(iter(loader))
    assert batch.labels.tolist() == frame.loc[batch.ids, "labels"].tolist()


@pytest.mark.filterwarnings("ignore:irreducible losses")  # the same rows on both sides
def test_labels_go_by_id_at_every_door():
    order = RNG.permutation(N)
    shuffled = pd.Series(LABELS, index=NAMES).iloc[order]
    quick = {"training": Training(max_epochs=1), "device": "cpu"}
    loader = loader_of("pair", INPUTS, shuffled, IRREDUCIBLE, ids=NAMES)
    batch = next(iter(loader))
    assert batch.labels.tolist() == [LABELS[NAMES.index(id)] for id in batch.ids]
    table = natsel.IrreducibleLoss.fit(mlp(4, C), EXAMPLES, of=(INPUTS, shuffled), ids=NAMES, **quick)
    assert np.array_equal(table.loss_N, natsel.IrreducibleLoss.fit(mlp(4, C), EXAMPLES, of=EXAMPLES, **quick).loss_N)
    found = natsel.prune((INPUTS, shuffled), "loss", ids=NAMES, network=mlp(4, C), runs=1, at_epoch=0, device="cpu")
    assert found.labels_N.tolist() == LABELS.tolist()
    frame = pd.DataFrame(INPUTS, index=NAMES)
    assert natsel.prune((frame, shuffled), "input-norm").labels_N.tolist() == LABELS.tolist()
    strangers = pd.Series(LABELS, index=[f"{name}!" for name in NAMES])
    for door in (
        lambda: loader_of("pair", INPUTS, strangers, IRREDUCIBLE, ids=NAMES),
        lambda: natsel.IrreducibleLoss.fit(mlp(4, C), EXAMPLES, of=(INPUTS, strangers), ids=NAMES, **quick),
        lambda: natsel.prune((frame, strangers), "input-norm"),
    ):
        with pytest.raises(ValueError, match=r"labels: id '0.txt!', '1.txt!', '2.txt!', … \(90 in all\) is not among"):
            door()


def test_losses_and_masks_of_a_series_go_by_id():
    order = RNG.permutation(N)
    losses = pd.Series(IRREDUCIBLE, index=NAMES).iloc[order]
    loader = loader_of(
        "pair", INPUTS, LABELS, losses, ids=NAMES, masks={"odd": pd.Series(LABELS == 1, NAMES).iloc[order]}
    )
    assert loader._irreducible_N.tolist() == IRREDUCIBLE.tolist()
    assert loader._masks["odd"].tolist() == (LABELS == 1).tolist()
    assert natsel.IrreducibleLoss(losses).at(NAMES).tolist() == IRREDUCIBLE.tolist()
    assert natsel.IrreducibleLoss(losses, ids=NAMES).loss_N.tolist() == IRREDUCIBLE.tolist()
    log_probs = np.log(RNG.dirichlet(np.ones(C), size=(N, 1)))
    one, other = (
        natsel.IrreducibleLoss.of_log_probs(log_probs, labels, ids=NAMES)
        for labels in (LABELS, pd.Series(LABELS, index=NAMES).iloc[order])
    )
    assert one.loss_N.tolist() == other.loss_N.tolist()


@pytest.mark.filterwarnings("ignore:irreducible losses")
@pytest.mark.parametrize("kind", ["pair", "pair with a table", "tensors", "part of tensors", "items"])
def test_a_table_is_fitted_to_data_of_all_kinds_and_knows_them(kind):
    quick = {"training": Training(max_epochs=1), "device": "cpu"}
    data = DATA_SETS[kind](INPUTS, LABELS)
    table = natsel.IrreducibleLoss.fit(mlp(4, C), data, of=data, **quick)
    assert np.array_equal(table.loss_N, natsel.IrreducibleLoss.fit(mlp(4, C), EXAMPLES, of=EXAMPLES, **quick).loss_N)
    assert loader_of(kind, INPUTS, LABELS, table)._irreducible_N.tolist() == table.loss_N.tolist()
    assert len(natsel.IrreducibleLoss.cross_fitted(mlp(4, C), data, **quick)) == N


def test_a_table_of_an_earlier_natsel_is_still_known():
    whole = examples_fingerprint(EXAMPLES).split(":")[0]
    table = natsel.IrreducibleLoss(IRREDUCIBLE, None, whole)
    table.refuse_other(EXAMPLES)
    loader_of("items", INPUTS, LABELS, table)
    loader_of("examples", INPUTS, LABELS, table)
    with pytest.raises(ValueError, match="belong to 90 other examples"):
        loader_of("pair", INPUTS, np.roll(LABELS, 1), table)


def test_overwriting_what_was_handed_over_changes_nothing():
    def given():
        return {
            "dataset": (INPUTS.copy(), LABELS.copy()),
            "irreducible_loss": IRREDUCIBLE.copy(),
            "ids": np.arange(N) + 5,
            "masks": {"odd": LABELS == 1},
        }

    def selected(loader):
        torch.manual_seed(0)
        with torch.no_grad():
            loader.model.weight.copy_(torch.randn(C, 4))
        found = [(batch.ids.tolist(), batch.labels.tolist(), batch.inputs.tolist()) for batch in loader]
        return found, loader.diagnostics.selected_by_mask

    one, handed = given(), given()
    expected = selected(natsel.SelectiveLoader(model=nn.Linear(4, C, bias=False), keep=0.2, batch=6, **one))
    loader = natsel.SelectiveLoader(model=nn.Linear(4, C, bias=False), keep=0.2, batch=6, **handed)
    masks = natsel.Examples(INPUTS, LABELS, masks={"odd": LABELS == 1})
    other = natsel.SelectiveLoader(masks, nn.Linear(4, C), method="loss", keep=0.2, batch=6)
    for array in (
        *handed["dataset"],
        handed["irreducible_loss"],
        handed["ids"],
        handed["masks"]["odd"],
        masks.masks["odd"],
    ):
        array[:] = 1
    assert selected(loader) == expected
    assert other._masks["odd"].tolist() == (LABELS == 1).tolist()


def test_overwriting_labels_and_ids_after_pruning_changes_nothing():
    labels, ids = LABELS.copy(), np.arange(N) + 5
    settings = {"network": mlp(4, C), "runs": 1, "at_epoch": 0, "device": "cpu"}
    found = natsel.prune((INPUTS, labels), "loss", ids=ids, **settings)
    errors, kept = found.likely_label_errors(), found.examples.labels.tolist()
    labels[:], ids[:] = 0, 0
    assert found.likely_label_errors() == errors
    assert found.examples.labels.tolist() == kept
    assert set(found.ids.tolist()) <= set(range(5, N + 5))
    whole = natsel.Examples(INPUTS, LABELS.copy())
    found = natsel.prune(whole, "loss", **settings)
    errors = found.likely_label_errors()
    whole.labels[:] = 0
    assert found.likely_label_errors() == errors
