"""Transforms: what they promise about counts, masks, noise and seeds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from natsel.data import (
    MNIST_INITIAL,
    Examples,
    Pool,
    balanced_start,
    confused_labels,
    imbalanced,
    junk_classes,
    noisy_labels,
    relevance,
    repeated,
    split,
    subsampled,
    transforms,
    with_junk,
)

GENERATOR = np.random.default_rng(0)
IMAGES = Examples(
    GENERATOR.integers(0, 256, size=(300, 4, 4), dtype=np.uint8),
    np.arange(300) % 3,
    ("a", "b", "c"),
    {"odd": np.arange(300) % 2},
)


def test_repeated_images_are_scaled_copied_and_given_noise():
    twice = repeated(IMAGES, copies=3, noise=0.25, seed=1)
    assert twice.inputs.dtype == np.float32
    assert twice.inputs.shape == (900, 4, 4)
    np.testing.assert_array_equal(twice.masks["base"], np.tile(np.arange(300), 3))
    np.testing.assert_array_equal(twice.masks["copy"], np.repeat([0, 1, 2], 300))
    np.testing.assert_array_equal(twice.labels, IMAGES.labels[twice.masks["base"]])
    np.testing.assert_array_equal(twice.masks["odd"], IMAGES.masks["odd"][twice.masks["base"]])
    noise = (twice.inputs - IMAGES.inputs[twice.masks["base"]] / 255).reshape(3, -1)
    assert np.abs(noise.mean(1)).max() < 4 * 0.25 / np.sqrt(4800)
    np.testing.assert_allclose(noise.std(1), 0.25, rtol=0.05)  # the first copy has noise too
    assert np.abs(np.corrcoef(noise) - np.eye(3)).max() < 0.06  # and each its own


def test_noise_does_not_depend_on_how_it_is_cut(monkeypatch):
    whole = repeated(IMAGES, copies=2, noise=0.1).inputs
    monkeypatch.setattr(transforms, "_CHUNK", 100)
    np.testing.assert_array_equal(repeated(IMAGES, copies=2, noise=0.1).inputs, whole)
    np.testing.assert_array_equal(repeated(IMAGES, copies=1, noise=0.1).inputs, whole[:300])
    assert (repeated(IMAGES, copies=2, noise=0.1, seed=1).inputs != whole).mean() > 0.99


def test_without_noise_copies_are_exact_whatever_the_inputs():
    texts = repeated(Examples(["one", "two"], [0, 1]), copies=2, noise=0)
    assert texts.inputs.tolist() == ["one", "two", "one", "two"]
    assert repeated(IMAGES, 2).inputs.dtype == np.uint8
    with pytest.raises(ValueError, match="cannot be added to object"):
        repeated(Examples(["one"]), 2, 0.1)
    for copies, noise in ((0, 0.1), (1, -0.1), (1, np.nan)):
        with pytest.raises(ValueError, match="copies, noise"):
            repeated(IMAGES, copies, noise)


@given(st.lists(st.integers(0, 12), max_size=4), st.booleans(), st.integers(0, 5))
@settings(max_examples=50, deadline=None)
def test_parts_are_disjoint_and_the_rest_is_the_rest(counts, rest, seed):
    examples = Examples(np.arange(100, 160), np.arange(60) % 3)
    parts = split(examples, [*counts, None] if rest else counts, seed)
    assert [len(part) for part in parts] == ([*counts, 60 - sum(counts)] if rest else counts)
    rows = np.concatenate([np.zeros(0, int), *(part.masks["row"] for part in parts)])
    assert len(set(rows)) == len(rows)
    for part in parts:
        np.testing.assert_array_equal(part.inputs, part.masks["row"] + 100)


def test_balanced_parts_have_equally_many_of_each_class():
    first, second, rest = split(IMAGES, (30, 7, None), seed=2, balanced=True)
    assert np.bincount(first.labels).tolist() == [10, 10, 10]
    assert sorted(np.bincount(second.labels).tolist()) == [2, 2, 3]
    assert len(rest) == 263
    assert len(np.unique(np.diff(first.labels))) > 1  # not sorted by class
    with pytest.raises(ValueError, match="balanced: class 1 has 2 examples, 3 wanted"):
        subsampled(Examples(np.zeros(8), [0] * 6 + [1] * 2), 6, balanced=True)


def test_split_refusals():
    with pytest.raises(ValueError, match="301 examples wanted, but there are 300"):
        split(IMAGES, (301,))
    with pytest.raises(ValueError, match="at most one None"):
        split(IMAGES, (None, None))
    with pytest.raises(ValueError, match="at most one None"):
        split(IMAGES, (-1,))
    with pytest.raises(ValueError, match="needs a class for each"):
        split(Examples(np.zeros(3)), (1,), balanced=True)


def test_row_names_the_oldest_row_through_several_steps():
    part = subsampled(subsampled(IMAGES, 50), 5)
    np.testing.assert_array_equal(part.inputs, IMAGES.inputs[part.masks["row"]])
    pool = Pool.with_answers(part, ids=part.masks["row"])
    np.testing.assert_array_equal(pool.inputs_of(pool.ids), part.inputs)


def test_a_balanced_start_is_fair_and_seeded():
    labels = np.array([0] * 50 + [1] * 5 + [2] * 20 + [-1] * 10)
    start = balanced_start(labels, per_class=4, seed=3)
    assert np.bincount(labels[start]).tolist() == [4, 4, 4]
    assert len(set(start.tolist())) == 12
    np.testing.assert_array_equal(start, balanced_start(labels, per_class=4, seed=3))
    assert start.tolist() != balanced_start(labels, per_class=4, seed=4).tolist()
    assert labels[start].tolist() != sorted(labels[start])
    with pytest.raises(ValueError, match="class 1 has 5 examples, 6 wanted"):
        balanced_start(labels, per_class=6)


def test_imbalance_keeps_shares_and_order():
    rare = imbalanced(IMAGES, [1, 0.5, 0])
    assert np.bincount(rare.labels, minlength=3).tolist() == [100, 50, 0]
    assert rare.n_classes == 3
    assert (np.diff(rare.masks["row"]) > 0).all()
    assert np.bincount(imbalanced(IMAGES, {"b": 0.1}).labels).tolist() == [100, 10, 100]
    assert (
        imbalanced(IMAGES, {1: 0.1}, seed=1).masks["row"].tolist() != imbalanced(IMAGES, {1: 0.1}).masks["row"].tolist()
    )
    for wrong in ([1, 1], [1, 1, 2], [1, 1, np.nan]):
        with pytest.raises(ValueError, match="shares: expected a number from 0 to 1 for each of 3 classes"):
            imbalanced(IMAGES, wrong)
    with pytest.raises(ValueError, match="no class 'd'"):
        imbalanced(IMAGES, {"d": 0.5})


@given(st.floats(0, 1), st.integers(0, 3))
@settings(max_examples=30, deadline=None)
def test_exactly_so_many_labels_are_wrong(share, seed):
    examples = Examples(np.zeros(60), [*(np.arange(50) % 5), *([-1] * 10)])
    wrong = noisy_labels(examples, share, seed)
    assert wrong.masks["noisy"].sum() == round(share * 50)
    np.testing.assert_array_equal(wrong.masks["clean"], examples.labels)
    np.testing.assert_array_equal(wrong.labels != examples.labels, wrong.masks["noisy"])
    assert (wrong.labels[50:] == -1).all()
    assert wrong.labels.max() < 5


def test_wrong_labels_are_spread_over_all_other_classes():
    wrong = noisy_labels(Examples(np.zeros(4000), np.zeros(4000, int), ("a", "b", "c", "d", "e")), 1.0)
    assert np.bincount(wrong.labels, minlength=5)[0] == 0
    assert np.bincount(wrong.labels)[1:].min() > 900
    with pytest.raises(ValueError, match="share: expected a number from 0 to 1"):
        noisy_labels(IMAGES, 1.5)
    with pytest.raises(ValueError, match="there is 1 class"):
        noisy_labels(Examples(np.zeros(2), [0, 0]), 0.5)
    with pytest.raises(ValueError, match="needs a class"):
        noisy_labels(Examples(np.zeros(2), [0.5, 0.2]), 0.5)


def test_noise_that_may_draw_the_true_class_leaves_some_labels_right():
    clean = Examples(np.zeros(6000), np.arange(6000) % 5, ("a", "b", "c", "d", "e"))
    some = noisy_labels(clean, 0.5, include_true=True)
    np.testing.assert_array_equal(some.masks["noisy"], some.labels != some.masks["clean"])
    assert abs(some.masks["noisy"].sum() - 3000 * 4 / 5) < 4 * np.sqrt(3000 * 4 / 25)  # 4 of 5 drawn classes are wrong
    all_drawn = noisy_labels(clean, 1.0, include_true=True)
    counts = np.bincount(5 * clean.labels + all_drawn.labels)  # each class by each
    assert counts.min() > 240 - 4 * np.sqrt(240)
    assert counts.max() < 240 + 4 * np.sqrt(240)


def test_confused_labels_replace_one_class_by_another():
    wrong = confused_labels(IMAGES, {"a": "b", 2: 1}, share=0.25, seed=1)
    moved = np.bincount(3 * IMAGES.labels + wrong.labels, minlength=9).reshape(3, 3)
    assert moved.tolist() == [[75, 25, 0], [0, 100, 0], [0, 25, 75]]
    np.testing.assert_array_equal(wrong.masks["noisy"], wrong.labels != IMAGES.labels)
    np.testing.assert_array_equal(wrong.masks["clean"], IMAGES.labels)
    np.testing.assert_array_equal(confused_labels(IMAGES, [["a", 1], [2, "b"]], 0.25, 1).labels, wrong.labels)
    assert (confused_labels(IMAGES, {"a": "b", 2: 1}, 0.25).labels != wrong.labels).any()
    swapped = confused_labels(IMAGES, {0: 1, 1: 0}, share=1.0)  # all at once: none is moved back
    assert np.bincount(3 * IMAGES.labels + swapped.labels, minlength=9).tolist() == [0, 100, 0, 100, 0, 0, 0, 0, 100]
    twice = noisy_labels(wrong, 0.1)
    np.testing.assert_array_equal(twice.masks["clean"], IMAGES.labels)
    np.testing.assert_array_equal(twice.masks["noisy"], twice.labels != IMAGES.labels)
    for pairs, share, words in (
        ([["a"]], 0.5, "pairs: expected a class and the class"),
        ([[0, 1], ["a", 2]], 0.5, "name each class first once"),
        ({0: "a"}, 0.5, "two different ones"),
        ({0: "d"}, 0.5, "no class 'd'"),
        ({0: 1}, np.nan, "share: expected a number from 0 to 1"),
    ):
        with pytest.raises(ValueError, match=words):
            confused_labels(IMAGES, pairs, share)


def test_relevance_keeps_some_classes_whole_and_marks_the_others():
    hundred = Examples(np.zeros(100_000), np.arange(100_000) % 100)
    few = relevance(hundred, 20, seed=3)
    counts = np.bincount(few.labels, minlength=100)
    assert sorted(counts) == [60] * 80 + [1000] * 20
    np.testing.assert_array_equal(few.masks["irrelevant"], counts[few.labels] == 60)
    assert (~few.masks["irrelevant"]).mean() == pytest.approx(0.806, abs=5e-4)
    other = relevance(hundred, 20)
    assert set(few.labels[few.masks["irrelevant"]]) != set(other.labels[other.masks["irrelevant"]])
    named = relevance(IMAGES, ["b", 2], share=0.1)
    assert np.bincount(named.labels).tolist() == [10, 100, 100]
    np.testing.assert_array_equal(named.masks["irrelevant"], named.labels == 0)
    np.testing.assert_array_equal(named.inputs, IMAGES.inputs[named.masks["row"]])
    for classes, share, words in (
        (4, 0.1, "classes: expected 1 to 3"),
        (0, 0.1, "classes: expected 1 to 3"),
        (["d"], 0.1, "no class 'd'"),
        (1, 1.1, "share: expected"),
    ):
        with pytest.raises(ValueError, match=words):
            relevance(IMAGES, classes, share)


def test_junk_is_passed_over_or_a_class_of_its_own():
    noise = np.full((20, 4, 4), 255, dtype=np.uint8)
    mixed = with_junk(IMAGES, Examples(noise, np.zeros(20, int)))
    assert len(mixed) == 320
    assert mixed.inputs.dtype == np.uint8
    assert mixed.masks["junk"].sum() == 20
    assert (mixed.labels[300:] == -1).all()
    assert mixed.masks["odd"][300:].tolist() == [-1] * 20
    assert Pool.with_answers(mixed).answers([0, 310]) == [0, None]
    named = with_junk(IMAGES, noise, as_class=True)
    assert named.classes == ("a", "b", "c", "junk")
    assert (named.labels[300:] == 3).all()
    floats = with_junk(IMAGES, np.ones((2, 4, 4), dtype=np.float32)).inputs
    np.testing.assert_allclose(floats[0], IMAGES.inputs[0] / 255, rtol=1e-6)
    assert (floats[300:] == 1).all()
    with pytest.raises(ValueError, match=r"junk: expected inputs of shape \(4, 4\), found \(3,\)"):
        with_junk(IMAGES, np.ones((2, 3)))


def test_classes_can_be_declared_junk():
    left = junk_classes(IMAGES, ["a"])
    assert left.classes == ("b", "c")
    np.testing.assert_array_equal(left.labels, np.arange(300) % 3 - 1)
    np.testing.assert_array_equal(left.masks["junk"], np.arange(300) % 3 == 0)
    named = junk_classes(IMAGES, [1], as_class=True)
    assert named.classes == ("a", "c", "junk")
    assert named.labels[:3].tolist() == [0, 2, 1]
    unknown = Examples(np.zeros(3), [0, -1, 1], ("a", "b"))
    assert junk_classes(unknown, ["a"]).labels.tolist() == [-1, -1, 0]
    assert junk_classes(unknown, ["a"], as_class=True).labels.tolist() == [1, -1, 0]
    with pytest.raises(ValueError, match="no class 7"):
        junk_classes(IMAGES, [7])


def test_transforms_leave_their_input_and_the_global_randomness_alone():
    inputs, labels, state = IMAGES.inputs.copy(), IMAGES.labels.copy(), np.random.get_state()[1].copy()  # noqa: NPY002
    repeated(noisy_labels(imbalanced(subsampled(IMAGES, 90), [1, 1, 0.5]), 0.5), 2, 0.5)
    np.testing.assert_array_equal(IMAGES.inputs, inputs)
    np.testing.assert_array_equal(IMAGES.labels, labels)
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002


def test_the_published_start_has_twenty_different_rows():
    assert len(set(MNIST_INITIAL)) == 20
    assert sum(MNIST_INITIAL) == 558555  # of the numbers as published
