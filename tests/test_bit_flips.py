"""A flipped bit in a file that natsel keeps for itself is refused or changes nothing, by a program with a seed."""

import pytest

from bit_flips import FOR_OTHERS, KINDS, outcomes, writers


def complaints(found):
    return [f"{verdict}: {file}, bit {bit}: {said}" for verdict, said, file, bit in found if verdict in WRONG]


WRONG = ("raw", "silent")


def test_no_flipped_bit_is_raw_or_silent(tmp_path):
    found = list(outcomes(0, 10 * len(KINDS), tmp_path))
    assert not complaints(found)
    assert sum(verdict == "refused" for verdict, *_ in found) > len(found) / 2, "flips hit nothing that matters"


@pytest.mark.slow
def test_no_flipped_bit_of_thousands_is_raw_or_silent(tmp_path):
    assert not complaints(outcomes(1, 4000, tmp_path))


def test_every_module_that_writes_is_flipped_or_writes_for_others():
    flipped = {module for kind in KINDS for module in kind.modules}
    assert writers() == flipped | set(FOR_OTHERS)
    assert not flipped & set(FOR_OTHERS)
