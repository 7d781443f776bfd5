"""Wrong values in place of each argument of public functions end in a sentence, by a program with a seed."""

import pytest

from wrong_values import outcomes

QUICK = [
    "choose.select",
    "choose.triage",
    "data.pool",
    "search.greedy",
    "beliefs.targets",
]


def complaints(found):
    return [
        f"{one.verdict}: {one.name}({one.argument}={one.value}) {one.said}" for one in found if one.verdict in WRONG
    ]


WRONG = ("raw", "silent")


def test_no_wrong_value_is_raw_or_silent_at_the_doors_of_a_first_script():
    found = list(outcomes(seed=0, modules=[f"natsel.{name}" for name in QUICK]))
    assert len(found) > 500
    assert not complaints(found)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_no_wrong_value_is_raw_or_silent_anywhere(seed):
    found = list(outcomes(seed))
    assert len(found) > 20_000
    assert not complaints(found)
