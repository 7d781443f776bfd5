"""Files from elsewhere are held: what is huge, deep or damaged, or has rules of its own, is refused in a sentence."""

import gzip
import json
import math
import os
import re
import resource
import sqlite3
import time
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from torch import nn

import natsel
from natsel.beliefs.shards import Shards, write_shards
from natsel.cli import main
from natsel.containers import atomically, remove_leftovers, sealed
from natsel.data import originals, read_examples
from natsel.data.images import image_folder
from natsel.experiments.recipe.plan import load_plan
from natsel.experiments.running import worker_pool
from natsel.experiments.running.folder import Job, read_document, read_object
from natsel.experiments.running.run import run_plan
from natsel.integrations.selective_batches import SelectiveBatches, collated_as_given
from natsel.store import Journal
from natsel.store.exporting import salvage
from store.made_journals import filled

RNG = np.random.default_rng(0)
INPUTS, LABELS = RNG.normal(size=(40, 3)).astype(np.float32), RNG.integers(0, 3, 40)


class Rows(torch.utils.data.Dataset):
    def __init__(self, labels):
        self.labels = labels

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, row):
        return INPUTS[row], int(self.labels[row])


def loader(dataset=(INPUTS, LABELS), **options):
    torch.manual_seed(0)
    options = {"irreducible_loss": np.zeros(40), "keep": 0.5, "batch": 4} | options
    return natsel.SelectiveLoader(dataset, nn.Linear(3, 3), **options)


# States of loaders


@pytest.mark.parametrize(
    "other",
    [
        {"dataset": (INPUTS + 1, LABELS)},
        {"dataset": (INPUTS, LABELS[::-1].copy())},
        {"irreducible_loss": np.ones(40)},
        {"ids": range(100, 140)},
    ],
)
def test_a_state_of_other_examples_losses_or_ids_is_refused(other):
    state, other = loader().state_dict(), loader(**other)
    before = repr(other)
    with pytest.raises(ValueError, match=r"^state: was saved with data '[0-9a-f]+', this loader has"):
        other.load_state_dict(state)
    assert repr(other) == before


def test_a_state_of_other_labels_that_somebody_else_reads_is_refused():
    state = loader(Rows(LABELS)).state_dict()
    loader(Rows(LABELS)).load_state_dict(state)
    with pytest.raises(ValueError, match=r"^state: was saved with data"):
        loader(Rows(LABELS[::-1])).load_state_dict(state)


def changed_states():
    found = loader(lag=True)
    next(iter(found))
    state = json.loads(json.dumps(found.state_dict()))
    values = [
        *({"batch": value} for value in (10**6, -3, 1.5, None, "1")),
        *({"epoch": value} for value in (-1, "two")),
        *({"counts": value} for value in ({}, None, [1], {**state["counts"], "selected": 7})),
        *({"chosen": value} for value in ({}, 3, {**state["chosen"], "rows_B": [999]})),
        *({"keep": 0.1}, {"n_examples": 41}, {"more": 1}),
    ]
    return [
        *({**state, **value} for value in values),
        *({name: one for name, one in state.items() if name != lost} for lost in state),
        *({}, [], None, "state"),
    ]


@pytest.mark.parametrize("state", changed_states(), ids=lambda state: None)
def test_a_state_that_is_not_as_it_was_given_is_refused_and_sets_nothing(state):
    found = loader(lag=True)
    before = found.state_dict()
    with pytest.raises(ValueError, match=r"^state: is not as state_dict"):
        found.load_state_dict(state)
    assert found.state_dict() == before


def test_a_state_of_all_ranks_is_compared_too():
    batches = SelectiveBatches(loader(), collated_as_given)
    next(iter(batches.loader))
    state = json.loads(json.dumps(batches.state_dict()))
    again = SelectiveBatches(loader(), collated_as_given)
    with pytest.raises(ValueError, match=r"^state: is not as state_dict"):
        again.load_state_dict({**state, "batch": 3})
    again.load_state_dict(state)
    assert again.state_dict() == state


# Journals with rules of their own

TRIGGER = (
    "CREATE TRIGGER more AFTER INSERT ON labels WHEN NEW.step = 0 BEGIN"
    " INSERT INTO labels VALUES (NEW.seq, NEW.step + 1, NEW.id + 7, 1, NULL); END"
)


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (TRIGGER, "trigger more is not natsel's"),
        ("CREATE VIEW more AS SELECT 1", "view more is not natsel's"),
        ("CREATE TABLE more (a)", "table more is not natsel's"),
        ("CREATE INDEX more ON labels (abs(step))", "index more is not natsel's"),
    ],
)
def test_a_journal_with_rules_that_are_not_natsels_is_refused(tmp_path, rule, said, check):
    with Journal(tmp_path / "run.db") as journal:
        filled(journal)
    with sqlite3.connect(tmp_path / "run.db") as database:
        database.execute(rule)
    database.close()
    with pytest.raises(ValueError, match=said):
        Journal(tmp_path / "run.db", check=check)
    assert salvage(tmp_path / "run.db", tmp_path / "labels.csv") == 2


def test_what_sqlite_makes_for_itself_may_be_there_and_the_schema_is_not_trusted(tmp_path):
    with Journal(tmp_path / "run.db") as journal:
        filled(journal)
    with sqlite3.connect(tmp_path / "run.db") as database:
        database.execute("ANALYZE")
    database.close()
    with Journal(tmp_path / "run.db") as journal:
        assert journal.check().sound
        assert journal._connection.execute("PRAGMA trusted_schema").fetchone() == (0,)


# Digests


def test_a_spilled_shard_with_another_number_is_refused_when_it_is_first_read(tmp_path):
    probs = torch.full((6, 2, 2), 0.5)
    parts = [natsel.CategoricalSamples.from_probs(probs, ids=range(start, start + 6)) for start in (0, 6)]
    write_shards(tmp_path, parts).belief()
    for file in ("00001.log_probs_N_K_C.npy", "joined.ids_N.npy"):
        sound = (tmp_path / file).read_bytes()
        (tmp_path / file).write_bytes(sound[:-1] + bytes([sound[-1] ^ 1]))
        with pytest.raises(ValueError, match=rf"^path: .*{file} is damaged .*not as natsel wrote it"):
            list(Shards(tmp_path)) if file[0] == "0" else Shards(tmp_path).belief()
        (tmp_path / file).write_bytes(sound)
    assert len(Shards(tmp_path).belief()) == 12


def test_a_file_of_an_experiment_that_somebody_changed_says_what_may_be_done(tmp_path):
    place = tmp_path / "plan.json"
    place.write_text(json.dumps(sealed({"variants": ["one"]}) | {"variants": ["other"]}))
    with pytest.raises(ValueError, match=r"it is not as natsel wrote it; where that is meant, remove natsel_digest"):
        read_object(place)
    place.write_text('{"variants": ["other"]}')
    assert read_object(place) == {"variants": ["other"]}


# What is small and becomes large


def within(mib, call):
    """What a call gives where it may take only so much more memory; else a MemoryError."""
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (taken + mib * 2**20, limits[1]))
    try:
        return call()
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


@pytest.mark.parametrize("filling", [",", "1", "é"])
def test_a_line_without_an_end_is_refused_before_it_is_read(tmp_path, filling):
    path = tmp_path / "a.csv"
    with path.open("wb") as stream:
        stream.write(filling.encode() * (2**23 // len(filling.encode()) + 10))
        stream.truncate(2**31)  # a sparse file
    with pytest.raises(ValueError, match=r"^path: .*a\.csv is damaged .*a line is longer than 8 MB"):
        within(256, lambda: read_examples(path, labels="y"))


@pytest.mark.parametrize("option", ["--exclude", "--labels", "--costs"])
def test_a_list_without_an_end_is_refused_before_it_is_read(tmp_path, option, capsys):
    natsel.CategoricalSamples.from_probs(torch.full((4, 2, 2), 0.5)).save(tmp_path / "a.npz")
    (tmp_path / "list.txt").write_bytes(b"1" * (2**23 + 10))
    assert (
        main(["select", str(tmp_path / "a.npz"), "-k", "1", "--method", "bald", option, str(tmp_path / "list.txt")])
        == 2
    )
    said = capsys.readouterr().err
    assert "a line is longer than 8 MB" in said
    assert len(said) < 1000


def test_a_row_of_too_many_fields_is_refused(tmp_path):
    (tmp_path / "a.csv").write_text("," * 200_000 + "\n1,2\n")
    with pytest.raises(ValueError, match=r"^path: line 1 of a\.csv .*200,001 fields, more than 100,000"):
        read_examples(tmp_path / "a.csv", labels="y")


def test_a_picture_of_more_points_than_pillow_takes_is_refused_with_its_size(tmp_path, monkeypatch):
    image = pytest.importorskip("PIL.Image")
    from natsel.experiments.report.pictures_of_ids import PicturesOfIds

    image.new("L", (130, 120)).save(tmp_path / "large.png")
    image.new("L", (12, 13)).save(tmp_path / "small.png")
    monkeypatch.setattr(image, "MAX_IMAGE_PIXELS", 10_000)
    with pytest.warns(image.DecompressionBombWarning), pytest.raises(ValueError, match=r"130 × 120 points are more"):
        image_folder(tmp_path).inputs[:1]
    with pytest.warns(image.DecompressionBombWarning):
        assert PicturesOfIds(tmp_path).address("large.png") is None
    assert PicturesOfIds(tmp_path).address("small.png") is not None


def test_a_packed_file_of_empty_lines_takes_little_memory(tmp_path):
    with gzip.open(tmp_path / "a.gz", "wb", compresslevel=1) as stream:
        stream.write(b"\n" * 2_000_000 + b"one\r\n two\n")
    tracemalloc.start()
    assert originals._lines(tmp_path / "a.gz") == ["one", " two"]
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 200_000_000, "unpacking makes room for a gigabyte, and a list of all lines takes eight bytes for each"


@pytest.mark.parametrize(("size", "fits"), [(16 + 60_000 * 28 * 28, True), (2**27, True), (2**27 + 1, False)])
def test_an_original_may_be_as_large_as_the_pictures_of_mnist_and_no_bomb(size, fits):
    stream = SimpleNamespace(read=lambda most: bytes(min(most, size)))
    if fits:
        assert len(originals._all_of(stream)) == size
    else:
        with pytest.raises(ValueError, match="it unpacks to more than 128 MiB"):
            originals._all_of(stream)


def test_an_id_that_names_no_file_has_no_picture(tmp_path):
    pytest.importorskip("PIL.Image")
    from natsel.experiments.report.pictures_of_ids import PicturesOfIds

    assert [PicturesOfIds(tmp_path).file_of(id) for id in ("a\0.png", "a" * 5000 + ".png")] == [None, None]


# Errors that had no sentence


def test_deep_brackets_are_refused_in_a_sentence(tmp_path, capsys):
    deep = "[" * 100_000
    (tmp_path / "plan.json").write_text(f'{{"name": {deep}')
    (tmp_path / "recipe.json").write_text(f'{{"recipe": {deep}')
    (tmp_path / "deep.toml").write_text(f"name = {deep}")
    with pytest.raises(ValueError, match=r"^folder: .*plan\.json cannot be read .*recursion"):
        read_object(tmp_path / "plan.json")
    with pytest.raises(ValueError, match=r"^folder: .*recipe\.json is no recipe of natsel .*recursion"):
        read_document(tmp_path)
    assert main(["run", str(tmp_path / "deep.toml")]) == 2
    assert re.fullmatch(
        r"natsel: recipe: .*deep\.toml is no TOML \(.*recursion.*\); mend that line\n", capsys.readouterr().err
    )


def test_a_number_too_large_for_a_label_is_refused_in_a_sentence():
    learner = natsel.ActiveLearner(RandomForestClassifier(2), natsel.Pool(INPUTS), method="random", k=2)
    with pytest.raises(ValueError, match=r"^labels: "):
        learner.tell([0], [10**400])


def test_memory_that_is_full_is_a_sentence_of_the_command_line(monkeypatch, capsys):
    for failure, said in ((MemoryError(), "memory is full"), (OverflowError("too large"), "too large")):

        def fail(*_, failure=failure, **__):
            raise failure

        monkeypatch.setattr("natsel.cli.app", fail)
        assert main(["demo"]) == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize("minutes", [math.inf, 1e300])
def test_time_without_end_is_time_enough(tmp_path, monkeypatch, minutes):
    seen = []
    monkeypatch.setattr("natsel.experiments.running.run.run_recipe", lambda *_, deadline, **__: seen.append(deadline))
    run_plan(load_plan("digits"), tmp_path, minutes=minutes)
    assert seen == [None]


def test_an_outcome_that_a_full_disk_does_not_take_is_told_all_the_same(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(worker_pool, "write_outcome", full)
    monkeypatch.setattr(worker_pool, "_exit_code", lambda worker: 1)
    pool = worker_pool.WorkerPool(tmp_path, SimpleNamespace(as_table=dict, budget=9), [], 1, None, full)
    pool.begun, pool.workers[0] = True, SimpleNamespace(stdin=None)
    monkeypatch.setattr(worker_pool, "_first_answer", lambda *_: json.loads(""))  # it has ended
    assert pool._do(0, Job("random", "random", 0))
    event = pool.events.get_nowait()
    assert (event["event"], event["method"]) == ("failed", "random")


# Writing


def test_a_disk_that_is_full_is_named_by_the_file_that_was_wanted(tmp_path, monkeypatch):
    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device") as failure, atomically(tmp_path / "a.csv") as place:
        place.write_text("a")
    assert failure.value.filename == str(tmp_path / "a.csv")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_may_not_be_written_to_is_named_by_the_file_that_was_wanted(tmp_path, monkeypatch):
    def denied(place, **_):
        raise PermissionError(13, "Permission denied", place)

    monkeypatch.setattr(Path, "touch", denied)
    with pytest.raises(PermissionError) as failure, atomically(tmp_path / "a.csv"):
        pass
    assert failure.value.filename == str(tmp_path / "a.csv")


def test_a_recipe_that_cannot_be_written_leaves_nothing_in_the_way(tmp_path, monkeypatch, capsys):
    (tmp_path / "a.csv").write_text("x,y\n" + "".join(f"{row},{row % 2}\n" for row in range(40)))
    monkeypatch.setattr(os, "fsync", lambda handle: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    call = ["run", "--new", str(tmp_path / "my.toml"), "--data", str(tmp_path / "a.csv"), "--labels", "y"]
    assert main(call) == 2
    assert f"{tmp_path / 'my.toml'}: No space left on device" in capsys.readouterr().err
    assert not (tmp_path / "my.toml").exists()


def test_a_file_that_is_being_written_survives_a_clock_that_jumps(tmp_path):
    with atomically(tmp_path / "a.csv") as place:
        place.write_text("a")
        os.utime(place, (time.time() - 2 * 86400,) * 2)
        remove_leftovers(tmp_path)
    assert (tmp_path / "a.csv").read_text() == "a"
