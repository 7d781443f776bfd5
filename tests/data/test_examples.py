"""Examples and their labels: every form people have them in ends up as one kind of array."""

import numpy as np
import pytest
import torch

from natsel.data import Examples
from natsel.data.labels import read_labels


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ([0, 1, 1], [0, 1, 1]),
        (np.array([0, 1, 1], dtype=np.uint8), [0, 1, 1]),
        (torch.tensor([0, 1, 1]), [0, 1, 1]),
        (np.array([False, True, True]), [0, 1, 1]),
        (["b", "a", "b"], [1, 0, 1]),
        (np.array(["b", "a", None], dtype=object), [1, 0, -1]),
        ([0, None, 2], [0, -1, 2]),
    ],
)
def test_classes_are_read_from_any_form(given, kept):
    labels = Examples(np.zeros((3, 1)), given).labels
    assert labels.dtype == np.int64
    assert labels.tolist() == kept


@pytest.mark.parametrize("given", [[0.5, 2.0], torch.tensor([0.5, 2.0]), np.array([0.5, 2], dtype=object)])
def test_real_numbers_stay_real(given):
    labels = Examples(np.zeros((2, 1)), given).labels
    assert labels.dtype.kind == "f"
    assert labels.tolist() == [0.5, 2.0]
    gap = Examples(np.zeros((2, 1)), [0.5, None]).labels
    assert gap[0] == 0.5
    assert np.isnan(gap[1])


def test_with_named_classes_whole_floats_and_names_are_classes():
    assert read_labels([1.0, np.nan], ("a", "b"))[0].tolist() == [1, -1]
    assert read_labels(["b", 0, "a"], ("a", "b"))[0].tolist() == [1, 0, 0]
    assert read_labels("b", ("a", "b"))[0].tolist() == 1


@pytest.mark.parametrize(
    ("labels", "classes", "message"),
    [
        ([0, 2], ("a", "b"), "found class 2, but there are 2 classes"),
        ([0, -2], ("a", "b"), "found class -2"),
        ([0.5, 1], ("a", "b"), "expected classes, found 0.5"),
        ([np.inf, 1], ("a", "b"), "expected classes, found inf"),
        (["cta", "dog"], ("cat", "dog"), "no class 'cta'; did you mean 'cat'"),
        (["a", "b"], ("a", "a", "b"), "two classes have the same name"),
        ([1j, 2j], (), "found complex128"),
        ([{}, {}], (), "expected one class or one number each"),
        ([0], (), "labels: expected one for each of 2 inputs, found 1"),
    ],
)
def test_labels_that_make_no_sense_are_refused(labels, classes, message):
    with pytest.raises(ValueError, match=message):
        Examples(np.zeros((2, 1)), labels, classes)


def test_selecting_takes_inputs_labels_and_masks_along():
    some = Examples(np.arange(5), np.arange(5), (), {"odd": [False, True, False, True, False]})
    for which in ([3, 1], np.array([3, 1]), torch.tensor([3, 1])):
        part = some[which]
        assert part.inputs.tolist() == [3, 1]
        assert part.labels.tolist() == [3, 1]
        assert part.masks["odd"].tolist() == [True, True]
    assert some[[False, True, False, True, False]].inputs.tolist() == [1, 3]
    assert some[1:3].inputs.tolist() == [1, 2]
    assert len(some[[]]) == 0


def test_pandas_is_indexed_by_position_not_by_its_index():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]}, index=[1, 0])
    labels = pd.Series([0, 1], index=[1, 0])
    part = Examples(frame, labels)[[0]]
    assert np.asarray(part.inputs).tolist() == [[1.0, 3.0]]
    assert part.labels.tolist() == [0]
    for column, kept in ((pd.Series([0, None], dtype="Int64"), [0, -1]), (pd.Series(["b", None]), [0, -1])):
        assert read_labels(column)[0].tolist() == kept


def test_texts_become_an_array_of_strings():
    texts = Examples(["one", "two"], [0, 1])
    assert texts.inputs.dtype == object
    assert texts[[1]].inputs.tolist() == ["two"]


def test_number_of_classes():
    assert Examples(np.zeros(2), [0, 1], ("a", "b", "c")).n_classes == 3
    assert Examples(np.zeros(2), [0, 4]).n_classes == 5
    with pytest.raises(ValueError, match="number of classes is unknown"):
        _ = Examples(np.zeros(2)).n_classes
