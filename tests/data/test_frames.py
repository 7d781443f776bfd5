"""Data frames: rows by position, names and kinds kept; digests that no library, version or neighbour changes."""

import numpy as np
import pytest

from natsel.data import Examples
from natsel.data.contents import digests_of, encoded_rows, fingerprint_of, is_sampled, kind_of
from natsel.data.frames import FrameRows, joined
from natsel.data.labels import as_numpy
from natsel.memory import memory_budget

pandas = pytest.importorskip("pandas", reason="needs the extra tables")

DATES = ["2020-01-01 00:00:00", "1920-05-05 10:11:12", None]


def mixed():
    """One column of each kind, each with a gap but for the truths; an index that is no position."""
    return pandas.DataFrame(
        {
            "age": [1.5, np.nan, 3],
            "rooms": pandas.array([1, None, 3], dtype="Int64"),
            "old": [True, False, True],
            "city": pandas.Categorical(["x", "y", None]),
            "text": ["u", None, "w"],
            "seen": pandas.to_datetime(pandas.Series(DATES)).to_numpy(),
            "took": pandas.to_timedelta([1, 2, None], unit="s"),
        },
        index=[2, 0, 7],
    )


def with_polars(frame):
    polars = pytest.importorskip("polars", reason="needs the package polars")
    return polars.from_pandas(frame)


KINDS = ["float64", "int64", "bool", "category", "text", "date", "duration"]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_rows_are_taken_by_position_and_stay_a_frame(library):
    frame = mixed() if library == "pandas" else with_polars(mixed())
    rows = Examples(frame, [0, 1, 0]).inputs
    assert isinstance(rows, FrameRows)
    assert (len(rows), rows.shape, list(rows.kinds.values())) == (3, (3, 7), KINDS)
    for positions, expected in (
        ([2, 0, 0], ["w", "u", "u"]),
        (slice(1, None), [None, "w"]),
        (np.array([True, False, True]), ["u", "w"]),
        ([-1], ["w"]),
        ([], []),
        (slice(None, None, -2), ["w", "u"]),
    ):
        part = rows[positions]
        assert type(part.frame) is type(frame)
        assert list(part.frame.dtypes) == list(frame.dtypes)
        assert [None if text != text else text for text in part.frame["text"]] == expected
        assert len(Examples(frame, [0, 1, 0])[positions]) == len(expected)
    assert rows[0]["city"] == "x"
    assert [row["old"] for row in rows] == [True, False, True]
    assert repr(rows) == (
        "FrameRows(3 rows: age float64, rooms int64, old bool, city category, text text, seen date, took duration)"
    )


def test_columns_of_a_frame_are_what_they_were():
    texts = Examples(pandas.Series(["one", "two"], index=[5, 6])).inputs
    assert texts.dtype == object
    assert texts.tolist() == Examples(pandas.Index(["one", "two"])).inputs.tolist() == ["one", "two"]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_numbers_keep_their_value_and_all_else_is_refused_by_name(library):
    frame = mixed() if library == "pandas" else with_polars(mixed())
    np.testing.assert_array_equal(
        np.asarray(FrameRows(frame[["age", "rooms", "old"]])), [[1.5, 1, 1], [np.nan, np.nan, 0], [3, 3, 1]]
    )
    for name, held in (("city", "categories"), ("text", "texts or other objects"), ("seen", "dates")):
        with pytest.raises(ValueError, match=f"^inputs: column '{name}' holds {held}, and only numbers"):
            as_numpy(FrameRows(frame[["age", name]]))
    small = pandas.DataFrame({"red": np.array([0, 255], dtype=np.uint8)})
    assert FrameRows(small).numbers().tolist() == [[0.0], [255.0]]  # no pixel: bytes of a table are not scaled


def test_frames_that_cannot_be_told_apart_or_read_are_refused():
    twice = pandas.DataFrame(np.zeros((2, 3)), columns=["a", "b", "a"])
    with pytest.raises(ValueError, match="two columns of the data frame are named 'a'; rename one"):
        Examples(twice)
    with pytest.raises(ValueError, match=r"found LazyFrame; pass frame\.collect\(\)"):
        Examples(with_polars(mixed()).lazy())


# Fixed for good: a journal knows its pool by them. Found equal with pandas 2.3 and 3.1.
DIGESTS = [2349805538875447096, -625263154566818726, -343082020111207807]


def test_digests_are_the_same_in_every_process_library_and_version():
    frame = mixed()
    assert digests_of(frame).tolist() == DIGESTS
    others = {
        "objects": frame.astype({"text": object}),
        "arrow": frame.astype({"text": "string"}),
        "nanoseconds": frame.astype({"seen": "datetime64[ns]", "took": "timedelta64[ns]"}),
        "levels": frame.assign(city=frame["city"].cat.set_categories(["z", "y", "x"])),
        "index": frame.reset_index(drop=True),
    }
    for name, other in others.items():
        assert digests_of(other).tolist() == DIGESTS, name
        assert kind_of(other) == kind_of(frame), name
    assert kind_of(frame) == f"frame {list(zip(frame.columns, KINDS, strict=True))}"
    assert not is_sampled(frame)
    assert not is_sampled(FrameRows(frame))
    polars = with_polars(frame)
    assert digests_of(polars).tolist() == DIGESTS
    assert fingerprint_of(polars) == fingerprint_of(frame)


def test_every_value_and_every_gap_counts_and_no_neighbour_does():
    frame, digests = mixed(), digests_of(mixed())
    changes = {"age": 1.25, "rooms": 9, "old": False, "city": "y", "text": "v", "took": pandas.Timedelta("1s1us")}
    for name, value in changes.items():
        for one in (value, None) if name != "old" else (value,):
            other = frame.copy()
            other.loc[2, name] = one
            assert (digests_of(other) != digests).tolist() == [True, False, False], name
    assert digests_of(frame, np.array([2, 2, 0])).tolist() == digests[[2, 2, 0]].tolist()
    with memory_budget(200):  # a row at a time
        assert digests_of(frame).tolist() == digests.tolist()
    assert kind_of(frame.rename(columns={"age": "years"})) != kind_of(frame)
    assert kind_of(frame.astype({"age": "float32"})) != kind_of(frame)
    empty = frame["text"].isna()  # an empty text is no gap
    assert digests_of(frame.assign(text=frame["text"].where(~empty, "")))[1] != digests[1]


def test_objects_of_any_kind_have_digests():
    frame = pandas.DataFrame({"any": [1, True, "1", [1], None, np.arange(3)]}, dtype=object)
    assert len(set(digests_of(frame).tolist())) == 6
    assert encoded_rows(FrameRows(frame)).shape == (6, 9)


def test_frames_are_joined_with_all_their_categories():
    one = pandas.DataFrame({"n": [1], "city": pandas.Categorical(["x"])})
    other = pandas.DataFrame({"city": pandas.Categorical(["y"]), "n": [2]})
    both = joined(one, FrameRows(other)).frame
    assert list(both.columns) == ["n", "city"]
    assert list(both["city"].cat.categories) == ["x", "y"]
    assert both["city"].tolist() == ["x", "y"]
    assert joined(with_polars(one), with_polars(other)).frame["city"].to_list() == ["x", "y"]
    with pytest.raises(ValueError, match="the column 'city' is missing"):
        joined(one, other[["n"]])
    with pytest.raises(ValueError, match="pandas and one of polars"):
        joined(one, with_polars(other))
    assert joined(one[["n"]], np.array([[2.5]])).tolist() == [[1.0], [2.5]]
