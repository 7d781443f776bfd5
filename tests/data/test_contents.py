"""What inputs hold: every row counts, and the same rows have the same digest whatever holds them."""

import os
import shutil

import numpy as np
import pytest
import torch

from natsel import memory_budget
from natsel.data.contents import Contents, digests_of, fingerprint_of, is_sampled, sample
from natsel.data.images import image_folder
from natsel.data.pool import Pool
from natsel.data.sources import from_torch

ROWS = np.random.default_rng(0).normal(size=(240, 3)).astype(np.float32)


def mapped(rows, folder):
    np.save(folder / "rows.npy", rows)
    return np.load(folder / "rows.npy", mmap_mode="r")


@pytest.mark.parametrize(
    "kind",
    [
        lambda rows, _: rows,
        lambda rows, _: np.asfortranarray(rows),
        lambda rows, _: np.repeat(rows, 2, axis=1)[:, ::2],
        lambda rows, _: torch.from_numpy(rows.copy()),
        lambda rows, _: torch.from_numpy(rows.copy()).requires_grad_(),
        lambda rows, _: list(rows),
        mapped,
    ],
)
def test_the_same_rows_have_the_same_digests_whatever_holds_them(kind, tmp_path):
    assert digests_of(kind(ROWS, tmp_path)).tolist() == digests_of(ROWS).tolist()
    assert fingerprint_of(kind(ROWS, tmp_path)) == fingerprint_of(ROWS)
    some = np.array([7, 3, 239])
    assert digests_of(kind(ROWS, tmp_path), some).tolist() == digests_of(ROWS)[some].tolist()


@pytest.mark.parametrize(
    "rows",
    [
        ROWS,
        torch.from_numpy(ROWS).bfloat16(),
        ROWS > 0,
        (ROWS * 9).astype("datetime64[s]"),
        np.array([f"text {number}" for number in range(240)]),
        np.array([f"text {number}" for number in range(240)], dtype=object),
        np.array([None, *({"a": number} for number in range(239))], dtype=object),
        [np.full(number % 5 + 1, number) for number in range(240)],
        [[number] * (number % 3) + [number] for number in range(240)],
    ],
    ids=lambda rows: str(getattr(rows, "dtype", "ragged")),
)
def test_every_single_row_counts(rows):
    whole = fingerprint_of(rows)
    for place in range(0, 240, 7):
        changed = rows.clone() if isinstance(rows, torch.Tensor) else rows.copy()
        changed[place] = changed[place - 1]
        if place and not np.array_equal(changed[place], rows[place]):
            assert fingerprint_of(changed) != whole, f"row {place} is another"
            (where,) = np.flatnonzero(digests_of(changed) != digests_of(rows))
            assert where == place


def test_chunks_and_budgets_change_nothing():
    rows = np.random.default_rng(1).normal(size=(3000, 700))
    digests = digests_of(rows)
    assert len(np.unique(digests)) == 3000
    for budget in (1, 10_000, 1 << 20):
        with memory_budget(budget):
            assert (digests_of(rows[:200]) == digests[:200]).all()


def test_objects_that_say_where_they_lie_are_told_by_their_kind():
    """What differs from process to process must not decide."""

    class Thing:
        pass

    one, other = (np.array([Thing(), Thing()], dtype=object) for _ in range(2))
    assert digests_of(one).tolist() == digests_of(other).tolist()


def test_rows_moved_anywhere_are_seen():
    pool, moved = Pool(ROWS), ROWS.copy()
    others = np.setdiff1d(np.arange(240), sample(240))
    moved[others] = ROWS[np.roll(others, 1)]
    assert Pool(moved).fingerprint() != pool.fingerprint()
    changed = ROWS.copy()
    changed[others[0], 1] += 1
    assert Pool(changed).fingerprint() != pool.fingerprint()


def test_marks_tell_which_points_differ():
    changed = ROWS.copy()
    changed[[5, 77]] += 1
    marks, others = (np.frombuffer(Contents(rows, np.arange(240), ()).marks(), np.uint32) for rows in (ROWS, changed))
    assert np.flatnonzero(marks != others).tolist() == [5, 77]
    lazy = from_torch(list(zip(ROWS, ROWS, strict=True)), labels=[0] * 240).inputs
    assert Contents(lazy, np.arange(240), ()).marks() == b""


@pytest.fixture
def pictures(tmp_path):
    image = pytest.importorskip("PIL.Image")
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number in range(200):
        image.fromarray(np.full((4, 4, 3), number, dtype=np.uint8)).save(folder / f"{number:03d}.bmp")
    return folder


def test_images_of_a_folder_are_told_by_their_bytes(pictures, tmp_path):
    whole = Pool(image_folder(pictures)).fingerprint()
    os.utime(pictures / "000.bmp", (1, 1))
    copied = shutil.copytree(pictures, tmp_path / "copied", copy_function=shutil.copyfile)
    assert Pool(copied).fingerprint() == whole, "dates and places are not what a label is about"
    size = (pictures / "001.bmp").stat().st_size
    shutil.copyfile(pictures / "150.bmp", pictures / "001.bmp")
    assert (pictures / "001.bmp").stat().st_size == size
    assert Pool(image_folder(pictures)).fingerprint() != whole
    images = image_folder(copied).inputs
    assert digests_of(images.part([3, 1])).tolist() == digests_of(images)[[3, 1]].tolist()
    (copied / "005.bmp").unlink()
    with pytest.raises(ValueError, match=r"path: there is no file .*005\.bmp"):
        digests_of(images)


def test_what_others_read_is_known_by_a_sample_unless_all_of_it_is_asked_for():
    reads = []

    class Slow:
        def __init__(self, rows):
            self.rows = rows

        def __len__(self):
            return len(self.rows)

        def __getitem__(self, place):
            reads.append(place)
            return self.rows[place], 0

    lazy = from_torch(Slow(ROWS), labels=np.zeros(240, dtype=int))
    assert is_sampled(lazy.inputs)
    reads.clear()
    pool = Pool(lazy.inputs)
    assert isinstance(pool.fingerprint(), str)
    assert len(set(reads)) <= 64
    moved = ROWS.copy()
    others = np.setdiff1d(np.arange(240), sample(240))
    moved[others] = ROWS[np.roll(others, 1)]
    other = Pool(from_torch(Slow(moved), labels=np.zeros(240, dtype=int)).inputs)
    assert pool.digests_of(others) != other.digests_of(others)
    assert fingerprint_of(pool.inputs) != fingerprint_of(other.inputs), "predictions are kept by all of their inputs"
