"""Numbers as people write them: 1,046.50   1.046,50   1 046   1'046.5   € 12   12 %.

A comma or a point before three digits may mark thousands or decimals. All numbers of a column have one form, so that
one field decides for the others; a column that leaves a doubt, or mixes forms, is refused with its rows. A unit (€, %)
that all fields have is left out.
"""

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

_SIGNS = str.maketrans(dict.fromkeys("\u00a0\u2007\u2009\u202f", " ") | {"−": "-", "’": "'"})
_SHAPE = str.maketrans("23456789", "11111111")
_UNIT = r"([%‰$€£¥₹₩₽₺₴₪]|EUR|USD|GBP|CHF|JPY|CNY|INR|BRL|SEK|NOK|DKK|PLN|CZK|HUF|kr|zł)?"
_FIELD = re.compile(rf"{_UNIT} ?([-+]?) ?{_UNIT} ?([\d., ']*\d(?:[eE][-+]?\d+)?) ?{_UNIT}")
_PLAIN = [("", decimal, rf"\d*(?:[{decimal}]\d+)?") for decimal in ".,"]
_GROUPED = [  # 1,046 beside 1.046,5 is rather of another form than of three decimals
    (
        mark,
        decimal,
        rf"[1-9]\d{{0,2}}(?:[{mark}]\d{{3}})+(?:[{decimal}]\d+)?|(?:\d*|0?[{decimal}]\d*|\d*[{decimal}](?!\d{{3}}$)\d+)",
    )
    for decimal in ".,"
    for mark in ",. '"
    if mark != decimal
]


@cache
def _forms(shape: str) -> frozenset[tuple[str, str]]:
    """The forms that a number may have, by their marks of thousands and of decimals."""
    number = re.split("[eE]", shape)[0]
    return frozenset((mark, decimal) for mark, decimal, looks in _PLAIN + _GROUPED if re.fullmatch(looks, number))


def _parts(text: str | None) -> tuple[str, str, frozenset[tuple[str, str]]]:
    """Unit, bare number, and the forms that this may have: none where the text is no number."""
    found = _FIELD.fullmatch("0" if text is None else text.strip().translate(_SIGNS))
    if found is None:
        return "", "", frozenset()
    before, sign, between, number, after = found.groups("")
    return before + between + after, sign + number, _forms(number.translate(_SHAPE))


def is_number(text: str) -> bool:
    """Whether a text is a number by itself, in any form.

    >>> is_number("1e-3"), is_number("€ 1.046"), is_number("19.11.2026")
    (True, True, False)
    """
    return bool(_parts(text)[2])


def written_numbers(fields: Sequence[str | None], column: str, first: int = 1) -> np.ndarray[Any, Any] | None:
    """A column as numbers, whole ones where all are; None where a field is no number. What None stands for is 0.

    `column` is what messages call it, `first` the number of its first row.

    >>> written_numbers(["€ 1.046,50", None, "€ 7"], "prices").tolist(), written_numbers(["1 046", "cat"], "prices")
    ([1046.5, 0.0, 7.0], None)
    >>> written_numbers(["1,046", "999"], "prices")
    Traceback (most recent call last):
    ValueError: prices: '1,046' in row 1 may be 1046 or 1.046; write all with a point for decimals and no other mark
    """
    parts = []
    for field in fields:
        parts.append(_parts(field))
        if not parts[-1][2]:
            return None
    known = [row for row, field in enumerate(fields) if field is not None]
    left = frozenset(_forms("0"))
    for row in known:
        left &= parts[row][2]
        if not left or parts[row][0] != parts[known[0]][0]:
            one = next((one for one in known if parts[one][0] != parts[row][0] or not parts[one][2] & parts[row][2]), 0)
            raise ValueError(
                f"{column}: found {fields[one]!r} in row {one + first} and {fields[row]!r} in row {row + first}, two"
                " forms of numbers; write all with a point for decimals and no other mark"
            )
    readings = []
    for mark, decimal in left:
        plain = [number.replace(mark, "").replace(decimal, ".") for _, number, _ in parts]
        whole = not any(len(one) > 15 or set(".eE") & set(one) for one in plain)
        readings.append(np.array(plain, dtype=np.int64 if whole else np.float64))
    for other in readings[1:]:
        for row in np.flatnonzero(readings[0] != other)[:1]:
            low, high = sorted((readings[0][row], other[row]))
            raise ValueError(
                f"{column}: {fields[row]!r} in row {row + first} may be {high:.15g} or {low:.15g}; write all with a"
                " point for decimals and no other mark"
            )
    return readings[0]
