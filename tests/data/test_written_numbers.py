"""Numbers as people write them: read as they were meant, or refused where two readings differ."""

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from natsel.data.written_numbers import parts_of, written_numbers

FORMS = [(mark, point) for point in ".," for mark in ("", ",", ".", " ", "'", "\u00a0") if mark != point]
numbers = st.lists(st.integers(-(10**9), 10**9), min_size=1, max_size=6)


@settings(deadline=None)
@given(numbers, st.sampled_from(FORMS), st.integers(0, 3), st.sampled_from(["{}", "€ {}", "{} %", "EUR {}"]))
def test_a_column_of_one_form_is_read_as_written_or_refused_as_doubtful(whole, form, decimals, unit):
    mark, point = form
    values = [number / 10**decimals for number in whole]
    texts = [f"{value:,.{decimals}f}".translate({ord(","): mark, ord("."): point}) for value in values]
    with suppress(ValueError):
        np.testing.assert_allclose(written_numbers([unit.format(text) for text in texts], "numbers"), values)


@settings(deadline=None)
@given(numbers, st.sampled_from(FORMS))
def test_one_number_with_one_decimal_leaves_no_doubt(whole, form):
    mark, point = form
    texts = [f"{number / 10:,.1f}".translate({ord(","): mark, ord("."): point}) for number in whole]
    np.testing.assert_allclose(written_numbers(texts, "numbers"), np.array(whole) / 10)


@pytest.mark.parametrize(
    "text", ["", "cat", "19.11.2026", "12:30", "1.2.3", "1,2,3", "1_000", "12 34", "+49 30 1234", "0x1F"]
)
def test_what_is_no_number_is_none(text):
    assert not parts_of(text)[2]
    assert written_numbers(["1", text], "texts") is None


def test_three_forms_of_which_any_two_agree_are_refused():
    with pytest.raises(
        ValueError, match=r"^x: found '1,046' in row 4 and '1\.046' in row 5, two forms of numbers; write"
    ):
        written_numbers(["1,046", "1.046", "1 046"], "x", first=4)
