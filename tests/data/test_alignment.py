"""Labels go by id wherever both sides have ids, else by position; what is neither is refused."""

import numpy as np
import pandas as pd
import pytest
import torch

from natsel.data.alignment import BY_ID, BY_POSITION, aligned

IDS = ["a", "b", "c", "d"]


def listed(found: tuple[object, str]) -> tuple[list[object], str]:
    values, how = found
    return np.asarray(values).reshape(-1).tolist(), how


shuffled = pd.Series([3, 1, 0, 2], index=["d", "b", "a", "c"])


@pytest.mark.parametrize(
    "values",
    [
        shuffled,
        shuffled.to_frame(),
        shuffled.to_dict(),
        pd.DataFrame({"file": shuffled.index, "label": shuffled.to_numpy()}),
        pd.DataFrame({"label": shuffled.to_numpy(), "file": shuffled.index}),
        shuffled.astype("category"),
    ],
    ids=["series", "frame with an index", "mapping", "ids first", "ids second", "categories"],
)
def test_values_with_ids_go_by_id(values: object) -> None:
    assert listed(aligned(values, IDS)) == ([0, 1, 2, 3], BY_ID)


def test_a_table_of_polars_goes_by_its_column_of_ids() -> None:
    polars = pytest.importorskip("polars")
    table = polars.DataFrame({"id": ["d", "b", "a", "c"], "y": [3, 1, 0, 2]})
    assert listed(aligned(table, IDS)) == ([0, 1, 2, 3], BY_ID)
    assert listed(aligned(table["y"], IDS)) == ([3, 1, 0, 2], BY_POSITION)


@pytest.mark.parametrize("values", [[3, 1, 0, 2], (3, 1, 0, 2), np.array([3, 1, 0, 2]), torch.tensor([3, 1, 0, 2])])
def test_plain_values_go_by_position(values: object) -> None:
    assert listed(aligned(values, IDS)) == ([3, 1, 0, 2], BY_POSITION)
    with pytest.raises(ValueError, match=r"labels: expected one for each of 3 inputs, found 4"):
        aligned(values, IDS[:3])


def test_one_value_is_for_one_id() -> None:
    assert aligned("cat", ["a"]) == ("cat", BY_POSITION)
    assert aligned(np.int64(1), ["a"]) == (1, BY_POSITION)


def test_an_index_of_other_ids_is_refused_with_three_of_them() -> None:
    other = pd.Series(range(5), index=["v", "w", "x", "y", "a"])
    with pytest.raises(
        ValueError, match=r"labels: id 'v', 'w', 'x', … \(4 in all\) is not among the inputs"
    ) as refused:
        aligned(other, ["a", "b", "c", "d", "e"])
    assert "which go by 'b'" in str(refused.value)
    assert "labels.to_numpy() to go by position" in str(refused.value)
    with pytest.raises(ValueError, match="4 in all") as refused:
        aligned(other, IDS)
    assert "to_numpy" not in str(refused.value)  # as many labels as inputs there are not


def test_ids_without_a_value_are_refused_but_a_mapping_may_name_a_part() -> None:
    with pytest.raises(ValueError, match=r"id 'a', 'c' \(2 in all\) has none; .* a mapping of some"):
        aligned(shuffled[["d", "b"]], IDS, part=True)
    with pytest.raises(ValueError, match=r"id 'a', 'c' \(2 in all\) has none"):
        aligned({"d": 3, "b": 1}, IDS)
    assert aligned({"d": 3, "b": 1}, IDS, part=True) == ([None, 1, None, 3], BY_ID)
    with pytest.raises(ValueError, match=r"id 'z' \(1 in all\) is not among the inputs"):
        aligned({"d": 3, "z": 1}, IDS, part=True)


def test_an_id_that_is_there_twice_is_refused() -> None:
    with pytest.raises(ValueError, match=r"labels: id 'a' \(1 in all\) is there more than once"):
        aligned(pd.Series([1, 2, 3, 4, 5], index=["a", "b", "a", "c", "d"]), IDS)
    same = pd.Index(["a", "a", "b"])  # rows that stand side by side need no names
    assert listed(aligned(pd.Series([1, 2, 3], index=same), same)) == ([1, 2, 3], BY_ID)


def test_inputs_without_ids_take_a_column_by_position_and_a_mapping_by_number() -> None:
    assert listed(aligned(shuffled, 4)) == ([3, 1, 0, 2], BY_POSITION)
    assert aligned({2: "c", 0: "a", 1: "b"}, 3) == (["a", "b", "c"], BY_ID)


def test_an_index_that_only_counts_names_nothing() -> None:
    column = pd.Series([3, 1, 0, 2])
    assert listed(aligned(column, IDS)) == ([3, 1, 0, 2], BY_POSITION)
    assert listed(aligned(column, [7, 3, 1, 2])) == ([3, 1, 0, 2], BY_POSITION)


def test_an_index_that_only_counts_is_aligned_by_a_frame_and_refused_beside_listed_ids() -> None:
    column, order = pd.Series(["a", "b"]), pd.Index([1, 0])
    assert listed(aligned(column, order)) == (["b", "a"], BY_ID)
    with pytest.raises(ValueError, match=r"labels.to_dict\(\) to go by id, or labels.to_numpy\(\) to go by position"):
        aligned(column, [1, 0], listed=True)
    assert listed(aligned(column, [0, 1], listed=True)) == (["a", "b"], BY_ID)
    assert listed(aligned(column[[1, 0]], [0, 1], listed=True)) == (["a", "b"], BY_ID)


def test_numbers_are_one_id_in_every_type_and_another_than_their_text() -> None:
    column = pd.Series([1, 2], index=np.array([7, 5], dtype=np.uint8))
    assert listed(aligned(column, np.array([5, 7]))) == ([2, 1], BY_ID)
    with pytest.raises(ValueError, match="not among the inputs, which go by '5' and the like"):
        aligned(column, ["5", "7"])


def test_tables_of_more_columns_are_refused() -> None:
    with pytest.raises(ValueError, match="labels: expected one column, or two, of ids and labels, found 3"):
        aligned(pd.DataFrame(np.zeros((2, 3))), ["a", "b"])
