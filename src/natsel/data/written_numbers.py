"""Numbers as people write them: 1,046.50   1.046,50   1 046   1'046.5   € 12   12 %.

A comma or a point before three digits may mark thousands or decimals. All numbers of a column have one form, so that
one field decides for the others; a column that leaves a doubt, or mixes forms, is refused with its rows. A unit (€, %)
that all fields have is left out.
"""

import re
from collections.abc import Sequence
from functools import cache
from itertools import takewhile
from typing import Any

import numpy as np

_SIGNS = str.maketrans(dict.fromkeys("\u00a0\u2007\u2009\u202f", " ") | {"−": "-", "’": "'"})
_SHAPE = str.maketrans("23456789", "11111111")  # few shapes have many numbers
_UNIT = r"([%‰$€£¥₹₩₽₺₴₪]|EUR|USD|GBP|CHF|JPY|CNY|INR|BRL|SEK|NOK|DKK|PLN|CZK|HUF|kr|zł)?"
_FIELD = re.compile(rf"{_UNIT} ?([-+]?) ?{_UNIT} ?([\d., ']*\d)((?:[eE][-+]?\d+)?) ?{_UNIT}")
# By the marks of thousands and of decimals. 1,046 beside 1.046,5 is rather of another form than of three decimals.
_GROUPED = r"[1-9]\d{{0,2}}(?:[{0}]\d{{3}})+(?:[{1}]\d+)?|\d*|0?[{1}]\d*|\d*[{1}](?!\d{{3}}$)\d+"
_FORMS = {("", mark): re.compile(rf"\d*(?:[{mark}]\d+)?") for mark in ".,"} | {
    (mark, point): re.compile(_GROUPED.format(mark, point)) for point in ".," for mark in ",. '" if mark != point
}


@cache
def _forms(shape: str) -> frozenset[tuple[str, str]]:
    return frozenset(form for form, looks in _FORMS.items() if looks.fullmatch(shape))


def parts_of(text: Any) -> tuple[str, str, frozenset[tuple[str, str]]]:
    """Unit, bare number, and the forms that this may have, by its marks: none where the text is no number.

    >>> parts_of("€ 1.046,5"), len(parts_of("19.11.2026")[2])
    (('€', '1.046,5', frozenset({('.', ',')})), 0)
    """
    found = _FIELD.fullmatch("0" if text is None else str(text).strip().translate(_SIGNS))
    before, sign, between, number, power, after = found.groups("") if found else [" "] * 6
    return before + between + after, sign + number + power, _forms(number.translate(_SHAPE))


def written_numbers(fields: Sequence[Any], column: str, first: int = 1) -> np.ndarray[Any, Any] | None:
    """A column as numbers, whole ones where all are; None where a field is no number. What None stands for is 0.

    `column` is what messages call it, `first` the number of its first row.

    >>> written_numbers(["€ 1.046,50", None, "€ 7"], "prices").tolist(), written_numbers(["1 046", "cat"], "prices")
    ([1046.5, 0.0, 7.0], None)
    >>> written_numbers(["1,046", "999"], "prices")
    Traceback (most recent call last):
    ValueError: prices: '1,046' in row 1 may be 1046 or 1.046; write all with a point for decimals and no other mark
    """
    parts = list(takewhile(lambda one: one[2], map(parts_of, fields)))
    if len(parts) < len(fields):
        return None
    known = [row for row, field in enumerate(fields) if field is not None]
    left, readings, remedy = set(_FORMS), [], "write all with a point for decimals and no other mark"
    for row in known:
        unit, _, forms = parts[row]
        left &= forms
        if not left or unit != parts[known[0]][0]:
            one = next((one for one in known if parts[one][0] != unit or not parts[one][2] & forms), known[0])
            found = f"{fields[one]!r} in row {one + first} and {fields[row]!r} in row {row + first}"
            raise ValueError(f"{column}: found {found}, two forms of numbers; {remedy}")
    for mark, point in left:
        plain = [number.replace(mark, "").replace(point, ".") for _, number, _ in parts]
        whole = not any(len(one) > 15 or set(".eE") & set(one) for one in plain)
        readings.append(np.array(plain, dtype=np.int64 if whole else np.float64))
    for row in np.flatnonzero(np.ptp(readings, axis=0))[:1]:
        values = [reading[row] for reading in readings]
        found = f"{fields[row]!r} in row {row + first} may be {max(values):.15g} or {min(values):.15g}"
        raise ValueError(f"{column}: {found}; {remedy}")
    return readings[0]
