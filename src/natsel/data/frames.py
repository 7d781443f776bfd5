"""Data frames of pandas and polars as inputs: rows by position, with the names and the kinds of their columns.

    rows[[3, 5]]   rows[10:20]   rows[mask]     rows again, taken by position whatever the index of the frame says
    rows.frame                                  the data frame itself: what an estimator gets
    rows.numbers()                              a table [N, D] of float64, for models that take numbers alone

Neither library is imported here: where a frame is found, whoever made it has imported what it needs. Slices share
memory with the frame, and no row becomes an array of objects on the way to an estimator.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from natsel.data.labels import Array, as_numpy

_HELD = {"text": "texts or other objects", "category": "categories", "date": "dates", "duration": "durations"}


@dataclass(frozen=True, eq=False)
class Column:
    """One column of a table: a value per row, and which of them are missing.

    `kind` is the type of numbers ("int64", "float32", "bool"), or "text" (texts and other objects), "category", "date"
    or "duration". The same column has the same kind in every version of a library. `values` of a category count its
    `levels`; what stands where a value is missing means nothing.
    """

    kind: str
    values: Array
    gaps_N: Array
    levels: tuple[Any, ...] = ()

    def objects(self) -> Array:
        """The values as objects, None where one is missing.

        >>> Column("category", np.array([1, 0]), np.array([False, True]), ("a", "b")).objects().tolist()
        ['b', None]
        """
        found = np.empty(len(self.values), dtype=object)
        if self.kind == "category":
            found[:] = [None if gap else self.levels[code] for code, gap in zip(self.values, self.gaps_N, strict=True)]
        else:
            found[:] = self.values.tolist()
            found[self.gaps_N] = None
        return found


class FrameRows:
    """The rows of a data frame of pandas or polars, by position; `frame` is the data frame.

    >>> import pandas
    >>> rows = FrameRows(pandas.DataFrame({"age": [41, 29, 35], "city": ["Ulm", None, "Bonn"]}, index=[7, 8, 9]))
    >>> rows[[2, 0]], rows[0]
    (FrameRows(2 rows: age int64, city text), {'age': 41, 'city': 'Ulm'})
    >>> rows[1:].frame["age"].tolist()
    [29, 35]
    """

    def __init__(self, frame: Any) -> None:
        if not is_frame(frame):
            lazy = type(frame).__name__ == "LazyFrame"
            remedy = "pass frame.collect()" if lazy else "pass one of pandas or polars"
            raise ValueError(f"inputs: expected a data frame, found {type(frame).__name__}; {remedy}")
        self.frame = frame
        self._pandas = _is_of(frame, "pandas")
        self.names: tuple[Any, ...] = tuple(frame.columns)
        if len(set(self.names)) < len(self.names):
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise ValueError(f"inputs: two columns of the data frame are named {twice!r}; rename one")

    def __len__(self) -> int:
        return len(self.frame)

    @property
    def shape(self) -> tuple[int, int]:
        """How many rows and columns there are."""
        return len(self), len(self.names)

    @property
    def kinds(self) -> dict[Any, str]:
        """The kind of each column by its name, as `Column` has them."""
        kind = _pandas_kind if self._pandas else _polars_kind
        return {name: kind(dtype) for name, dtype in zip(self.names, self.frame.dtypes, strict=True)}

    def __repr__(self) -> str:
        shown = [f"{name} {kind}" for name, kind in list(self.kinds.items())[:8]]
        more = ["…"] if len(self.names) > len(shown) else []
        return f"FrameRows({len(self)} rows: {', '.join(shown + more)})"

    def __getitem__(self, positions: Any) -> Any:
        """The rows at some positions, in a slice or in a mask; for one position, its values by name."""
        if isinstance(positions, slice):
            return self._with(self.frame.iloc[positions] if self._pandas else self.frame[positions])
        index = as_numpy(positions)
        if index.ndim == 0:
            return {name: _plain(self._series(place)[int(index)]) for place, name in enumerate(self.names)}
        # Looked up in the positions there are, so that masks and negative numbers mean what they mean in NumPy.
        rows = np.arange(len(self))[index if index.size else index.astype(np.int64)]
        return self._with(self.frame.iloc[rows] if self._pandas else self.frame[rows])

    def __iter__(self) -> Iterator[dict[Any, Any]]:
        return (self[position] for position in range(len(self)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """The numbers, which NumPy asks for; a column that holds something else is refused."""
        return self.numbers(np.float64 if dtype is None else dtype)

    def with_columns(self, names: tuple[Any, ...]) -> Self:
        """The same rows with these columns, in this order."""
        return self if names == self.names else type(self)(self.frame[list(names)])

    def columns(self) -> Iterator[Column]:
        """The columns with their values, one after another."""
        read = _pandas_column if self._pandas else _polars_column
        for place, kind in enumerate(self.kinds.values()):
            yield read(self.frame.iloc[:, place] if self._pandas else self.frame.to_series(place), kind)

    def numbers(self, dtype: Any = np.float64) -> Array:
        """The columns as a table [N, D], NaN where a number is missing; a column of anything but numbers is refused.

        >>> import pandas
        >>> FrameRows(pandas.DataFrame({"age": [41, None], "old": [True, False]})).numbers().tolist()
        [[41.0, 1.0], [nan, 0.0]]
        """
        for name, kind in self.kinds.items():
            if kind.split()[0] in _HELD:
                raise ValueError(
                    f"inputs: column {name!r} holds {_HELD[kind.split()[0]]}, and only numbers can be used here; encode"
                    " it as numbers, or leave it out"
                )
        table_N_D = np.empty(self.shape, dtype=np.dtype(dtype))
        for place, column in enumerate(self.columns()):
            table_N_D[:, place] = column.values
            if column.gaps_N.any():
                table_N_D[column.gaps_N, place] = np.nan
        return table_N_D

    def _with(self, frame: Any) -> Self:
        """Other rows of the same columns, which were checked before."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, frame=frame)
        return other

    def _series(self, place: int) -> Any:
        return self.frame.iloc[:, place].array if self._pandas else self.frame.to_series(place)


class NamedColumns(np.ndarray[Any, Any]):
    """An array [N, D] with the names of its columns. Rows picked from it keep them; what else is made of it has none.

    >>> table = NamedColumns([[41.0, 1.0], [29.0, 0.0]], ("age", "arm"))
    >>> table[[1]].names, table[:, ::-1].names, (table + 1).names
    (('age', 'arm'), (), ())
    """

    names: tuple[Any, ...] = ()

    def __new__(cls, table_N_D: Any, names: Any) -> Self:
        found = np.asarray(table_N_D).view(cls)
        found.names = tuple(names)
        return found

    def __getitem__(self, rows: Any) -> Any:
        found = super().__getitem__(rows)
        return found if isinstance(rows, tuple) or np.ndim(found) != 2 else NamedColumns(found, self.names)

    def with_columns(self, names: tuple[Any, ...]) -> "NamedColumns":
        """The same rows with these columns, in this order."""
        return NamedColumns(self[:, [self.names.index(name) for name in names]], names)


def is_frame(inputs: Any) -> bool:
    """Whether something is a data frame of pandas or polars.

    >>> is_frame(np.zeros((3, 2)))
    False
    """
    return _is_of(inputs, "pandas") or _is_of(inputs, "polars")


def by_position(inputs: Any) -> Any:
    """A data frame as rows by position; anything else as it is, but for sparse matrices, which are refused.

    >>> by_position([1, 2])
    [1, 2]
    """
    if hasattr(inputs, "tocsr") or str(getattr(inputs, "layout", "")).startswith("torch.sparse"):
        raise ValueError(f"inputs: found a sparse {type(inputs).__name__}; pass it as a dense one (toarray, to_dense)")
    return FrameRows(inputs) if is_frame(inputs) or type(inputs).__name__ == "LazyFrame" else inputs


def joined(*parts: Any) -> Any:
    """Inputs one after another: data frames as a data frame, all else as an array. Categories are put together.

    >>> joined([[1.0]], np.zeros((1, 1))).tolist()
    [[1.0], [0.0]]
    """
    parts = tuple(by_position(part) for part in parts)
    tables = [part for part in parts if isinstance(part, FrameRows)]
    if len(tables) < len(parts):
        found, named = np.concatenate([as_numpy(one[:]) for one in parts]), {getattr(one, "names", ()) for one in parts}
        return NamedColumns(found, *named) if len(named) == 1 else found
    names = tables[0].names
    for table in tables[1:]:
        require_columns(table, names)
    frames = [table.with_columns(names).frame for table in tables]
    libraries = {"pandas" if table._pandas else "polars" for table in tables}
    if len(libraries) > 1:
        raise ValueError("inputs: found a data frame of pandas and one of polars; bring both to one kind")
    library = sys.modules[libraries.pop()]
    if library.__name__ == "polars":
        return FrameRows(library.concat(frames, how="vertical_relaxed"))
    for name, kind in tables[0].kinds.items():
        if kind == "category":
            frames = _with_all_levels(library, frames, name)
    return FrameRows(library.concat(frames))


def require_columns(rows: FrameRows | NamedColumns, names: tuple[Any, ...]) -> None:
    """Refuse a table that has other columns than these; their order does not matter.

    >>> import pandas
    >>> require_columns(FrameRows(pandas.DataFrame({"age": [41]})), ("age", "city"))
    Traceback (most recent call last):
    ValueError: inputs: the column 'city' is missing; pass the same columns as before: age, city
    """
    wanted = ", ".join(map(str, names[:12])) + (", …" if len(names) > 12 else "")
    for lacking, has, found in ((names, rows.names, "is missing"), (rows.names, names, "is new")):
        strangers = [name for name in lacking if name not in has]
        if strangers:
            raise ValueError(f"inputs: the column {strangers[0]!r} {found}; pass the same columns as before: {wanted}")


def _is_of(inputs: Any, name: str) -> bool:
    library = sys.modules.get(name)
    return library is not None and hasattr(library, "DataFrame") and isinstance(inputs, library.DataFrame)


def _pandas_kind(dtype: Any) -> str:
    letter = getattr(dtype, "kind", "O")
    if hasattr(dtype, "categories"):
        return "category"
    if letter in "biuf":  # a masked or sparse type says what it is made of
        return str(np.dtype(getattr(dtype, "numpy_dtype", getattr(dtype, "subtype", dtype))).name)
    if not isinstance(dtype, np.dtype):
        return f"date {dtype.tz}" if getattr(dtype, "tz", None) else "text"
    return {"M": "date", "m": "duration"}.get(letter, "text")


def _pandas_column(series: Any, kind: str) -> Column:
    gaps_N = series.isna().to_numpy(dtype=bool)
    if kind == "category":
        return Column(kind, series.cat.codes.to_numpy(), gaps_N, tuple(series.cat.categories))
    if kind.startswith("date"):
        naive = series if kind == "date" else series.dt.tz_convert("UTC").dt.tz_localize(None)
        return Column(kind, naive.to_numpy(), gaps_N)
    if kind in _HELD:
        return Column(kind, series.to_numpy(dtype=object if kind == "text" else None), gaps_N)
    if isinstance(series.dtype, np.dtype):
        return Column(kind, series.to_numpy(), gaps_N)
    blank = np.nan if kind.startswith("float") else 0
    return Column(kind, series.to_numpy(dtype=kind, na_value=blank), gaps_N)


def _polars_kind(dtype: Any) -> str:
    if dtype.is_numeric() and not dtype.is_decimal():
        return str(dtype).lower()
    name = type(dtype).__name__ if not isinstance(dtype, type) else dtype.__name__
    if name == "Datetime":
        return f"date {dtype.time_zone}" if dtype.time_zone else "date"
    kinds = {"Boolean": "bool", "Categorical": "category", "Enum": "category", "Date": "date", "Duration": "duration"}
    return kinds.get(name, "text")


def _polars_column(series: Any, kind: str) -> Column:
    gaps_N = series.is_null().to_numpy()
    if kind == "category":
        levels = series.drop_nulls().unique().cast(str).to_list()
        number_of = {level: number for number, level in enumerate(levels)}
        codes = [number_of.get(level, -1) for level in series.cast(str).to_list()]
        return Column(kind, np.array(codes, dtype=np.int64), gaps_N, tuple(levels))
    if kind == "text":
        values = np.empty(len(series), dtype=object)
        values[:] = series.to_list()
        return Column(kind, values, gaps_N)
    if kind.startswith("date "):
        series = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    if kind.split()[0] in _HELD:
        return Column(kind, series.to_numpy(), gaps_N)
    values = series.fill_null(False if kind == "bool" else 0).to_numpy()
    return Column(kind, values, gaps_N | np.isnan(values) if kind.startswith("float") else gaps_N)


def _with_all_levels(pandas: Any, frames: list[Any], name: Any) -> list[Any]:
    """Frames whose column has the categories of all of them: pandas would make objects of different ones."""
    columns = [frame[name].astype("category") for frame in frames]
    if all(column.dtype == columns[0].dtype for column in columns):
        return frames
    together = pandas.api.types.union_categoricals(columns, ignore_order=True).categories
    found = [frame.copy(deep=False) for frame in frames]
    for frame, column in zip(found, columns, strict=True):
        frame[name] = column.cat.set_categories(together)
    return found


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
