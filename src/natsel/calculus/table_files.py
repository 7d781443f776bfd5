"""Rows that name outcomes, as a table: one column per variable, and a column `p` or `count` for how much a row weighs.

Columns of whole numbers and of numbers are sorted, text stays in the order in which it first came. Rows with the same
outcomes add up; combinations without a row weigh 0.  docs/theory/information-quantities.md, 10.1.
"""

import csv
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, NamedTuple

import torch
from torch import Tensor

from natsel.calculus.expressions import Outcome
from natsel.texts import cell_text

WEIGHTS = ("p", "count")
MAX_CELLS = 100_000_000


class Records(NamedTuple):
    """A table of weights, its names and outcomes; `column` says where the weights came from (None: 1 a row)."""

    names: list[str]
    weights: Tensor
    outcomes: dict[str, tuple[Outcome, ...]]
    column: str | None


def read_rows(path: str | PathLike[str]) -> list[dict[str, str]]:
    """The rows of a CSV file with a header line."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, skipinitialspace=True)
            header = reader.fieldnames or []
            rows = [{name: _stripped(value) for name, value in row.items()} for row in reader]
    except (UnicodeDecodeError, csv.Error) as reason:
        raise ValueError(f"{path}: it is not a CSV file in UTF-8 ({reason}); save the table as one") from None
    if len(set(header)) != len(header):
        raise ValueError(f"{path}: a column is there twice ({', '.join(header)}); give each its own name")
    if not rows:
        raise ValueError(f"{path}: found no rows; write a header such as X,Y,p and a row for every outcome")
    return rows


def records_of(rows: Iterable[Mapping[str, Any]]) -> Records:
    """The table that rows describe.

    >>> records_of([{"X": "b", "count": 2}, {"X": "a", "count": 1}]).outcomes
    {'X': ('b', 'a')}
    """
    rows = [dict(row) for row in rows]
    if not rows:
        raise ValueError("records: found none; pass at least one row")
    names = [name for name in rows[0] if name not in WEIGHTS]
    given = [name for name in WEIGHTS if name in rows[0]]
    if len(given) > 1:
        raise ValueError("records: found both a column p and a column count; keep one of them")
    for number, row in enumerate(rows, start=1):
        if row.keys() != rows[0].keys() or None in row or None in row.values():
            columns = ", ".join(name for name in rows[0] if name)
            raise ValueError(f"records: row {number} does not have just the columns {columns}; fill in or leave out")
    column = given[0] if given else None
    outcome_of = {name: _outcomes_of_column([row[name] for row in rows]) for name in names}
    outcomes = {name: tuple(dict.fromkeys(_ordered(list(outcome_of[name].values())))) for name in names}
    places = {name: {label: place for place, label in enumerate(outcomes[name])} for name in names}
    shape = [len(outcomes[name]) for name in names]
    cells = 1
    for size in shape:
        cells *= size
    if cells > MAX_CELLS:
        raise ValueError(f"records: {cells} cells are more than the {MAX_CELLS} a table may have; leave columns out")
    weights = torch.zeros(shape, dtype=torch.float64)
    for number, row in enumerate(rows, start=1):
        cell = tuple(places[name][outcome_of[name][row[name]]] for name in names)
        weights[cell] += 1.0 if column is None else _number(row[column], column, number)
    return Records(names, weights, outcomes, column)


def _outcomes_of_column(values: Sequence[Any]) -> dict[Any, Outcome]:
    """What the entries of a column stand for: whole numbers if all are, else numbers if all are, else text."""
    distinct = list(dict.fromkeys(values))
    if all(isinstance(value, int) or _is(int, value) for value in distinct):
        return {value: int(value) for value in distinct}
    if all(_is(float, value) for value in distinct):
        return {value: float(value) for value in distinct}
    return {value: str(value) for value in distinct}


def _is(kind: type[int] | type[float], value: Any) -> bool:
    if kind is int and isinstance(value, float):
        return value.is_integer()
    try:
        kind(value)
    except (TypeError, ValueError):
        return False
    return True


def _ordered(labels: list[Outcome]) -> list[Outcome]:
    return labels if any(isinstance(label, str) for label in labels) else sorted(labels, key=float)


def _number(text: Any, column: str, row: int) -> float:
    try:
        return float(text)
    except (TypeError, ValueError):
        raise ValueError(f"records: row {row} has {text!r} in column {column}; write a number") from None


def _stripped(value: Any) -> Any:
    return cell_text(value.strip()) if isinstance(value, str) else value
