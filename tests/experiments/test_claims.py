"""Claims are judged by pairs of runs, stay open where runs are missing, and read back as written."""

import numpy as np
import pytest

from natsel.experiments.report import sections
from natsel.experiments.results.claims import Claim, as_lines, counted, judged, judged_across, value_at
from natsel.experiments.results.experiment import Curve, Experiment

SIZES = [10, 20, 30]


def runs(method, ends, *, metric="accuracy"):
    return [Curve(method, seed, SIZES, {metric: [0.1, end - 0.1, end]}) for seed, end in enumerate(ends)]


def experiment(**ends):
    return Experiment("made", [curve for method, values in ends.items() for curve in runs(method, values)])


ABOVE = Claim("H6", "EPIG is above BALD", "epig", "bald")


def verdict(one, found):
    return judged([one], found)[0]


def test_the_median_of_paired_differences_decides():
    # By the medians alone bald (0.6) would be ahead of epig (0.55); by seeds epig is better in two of three.
    found = experiment(bald=[0.4, 0.6, 0.9], epig=[0.55, 0.7, 0.5])
    held = verdict(ABOVE, found)
    assert held.passed
    assert held.numbers["difference"] == pytest.approx(0.1)
    assert (held.numbers["pairs"], held.numbers["wins"]) == (3, 2)
    assert "+10.0 points" in held.evidence
    assert "epig better in 2" in held.evidence
    assert "interval" not in held.evidence
    assert verdict(Claim("H", "s", "bald", "epig"), found).passed is False


def test_only_seeds_in_common_are_compared():
    curves = [*runs("epig", [0.2, 0.9]), Curve("bald", 1, SIZES, {"accuracy": [0.1, 0.2, 0.8]})]
    held = verdict(ABOVE, Experiment("made", curves))
    assert held.numbers["pairs"] == 1
    assert held.numbers["difference"] == pytest.approx(0.1)


def test_margins_are_strict_and_may_be_negative():
    found = experiment(bald=[0.5], epig=[0.5])
    assert verdict(ABOVE, found).passed is False
    assert verdict(Claim("H", "s", "epig", "bald", margin=-0.01), found).passed
    assert verdict(Claim("H", "s", "epig", "bald", margin=0.05), experiment(bald=[0.5], epig=[0.54])).passed is False


def test_lower_is_better_for_a_loss():
    curves = [*runs("epig", [0.5], metric="nll"), *runs("bald", [0.9], metric="nll")]
    held = verdict(Claim("H", "s", "epig", "bald", metric="nll"), Experiment("made", curves))
    assert held.passed
    assert held.numbers["difference"] == pytest.approx(0.4)


def test_less_junk_is_better_and_read_in_per_cent():
    curves = [*runs("epig", [0.25], metric="junk"), *runs("bald", [0.6], metric="junk")]
    held = verdict(Claim("H12", "s", "epig", "bald", metric="junk"), Experiment("made", curves))
    assert held.passed
    assert held.evidence.startswith("epig against bald at the end: median difference +35.0 points (pairs of runs: 1,")
    assert held.evidence.endswith("medians of each 25.0 % and 60.0 %)")


def test_six_pairs_have_a_95_percent_interval_and_five_do_not():
    six = verdict(ABOVE, experiment(bald=[0.5] * 6, epig=[0.52, 0.54, 0.56, 0.58, 0.6, 0.62]))
    assert six.numbers["interval"] == pytest.approx([0.02, 0.12])
    assert "95 % interval +2.0 points to +12.0 points" in six.evidence
    five = verdict(ABOVE, experiment(bald=[0.5] * 5, epig=[0.52, 0.54, 0.56, 0.58, 0.6]))
    assert "interval" not in five.numbers
    assert five.evidence.endswith(", seeds give +2.0 points to +10.0 points")
    one = verdict(ABOVE, experiment(bald=[0.5], epig=[0.6]))
    assert "seeds give" not in one.evidence


@pytest.mark.parametrize("found", [experiment(epig=[0.5]), experiment(bald=[0.5], random=[0.5])])
def test_without_runs_of_both_a_claim_is_open(found):
    assert verdict(ABOVE, found).word == "open"
    assert "no seed has runs of both epig and bald" in verdict(ABOVE, found).evidence


@pytest.mark.parametrize(
    ("at", "value"),
    [
        ("end", 0.9),
        ("all", 0.6),
        (20, 0.8),
        ((20, 30), 0.85),
        ((11, 29), 0.8),
        (40, None),
        ((20, 40), None),
        (15, None),
    ],
)
def test_where_a_curve_is_read(at, value):
    curve = Curve("bald", 0, SIZES, {"accuracy": [0.1, 0.8, 0.9]})
    assert value_at(curve, "accuracy", at) == (None if value is None else pytest.approx(value))
    assert value_at(curve, "nll", at) is None


def test_a_measurement_that_is_missing_is_left_out():
    curve = Curve("bald", 0, SIZES, {"accuracy": [0.1, np.nan, 0.9]})
    assert value_at(curve, "accuracy", (20, 30)) == pytest.approx(0.9)
    assert value_at(curve, "accuracy", 20) is None


GAP = Claim("H6", "largest there", "epig", "bald", kind="gap", largest="redundant")


def test_a_gap_must_be_the_largest_of_all_variants():
    small, large = experiment(bald=[0.5], epig=[0.52]), experiment(bald=[0.5], epig=[0.7])
    parts = {"curated": small, "redundant": large}
    assert judged_across([GAP], parts)[0].passed
    assert judged_across([GAP], {"curated": large, "redundant": small})[0].passed is False
    middle = experiment(bald=[0.5], epig=[0.6])
    assert judged_across([GAP], {"curated": small, "redundant": middle, "unbalanced": large})[0].passed is False
    assert judged_across([GAP], {"redundant": large})[0].word == "open"
    assert judged_across([GAP], {"curated": large, "redundant": experiment(epig=[0.5])})[0].word == "open"
    assert judged_across([ABOVE], parts) == []
    assert judged([GAP], small) == []


def test_falling_means_every_step_down():
    falls = Claim("H3", "worse with more", "bald", kind="falls")
    parts = {name: experiment(bald=[value]) for name, value in (("a", 0.9), ("b", 0.8), ("c", 0.7))}
    assert judged_across([falls], parts)[0].passed
    parts["c"] = experiment(bald=[0.85])
    assert judged_across([falls], parts)[0].passed is False
    assert judged_across([Claim("H3", "s", "bald", kind="falls", variants=("a", "b"))], parts)[0].passed
    assert judged_across([falls], {"a": parts["a"]})[0].word == "open"


def test_claims_read_back_as_written():
    for one in (ABOVE, GAP, Claim("H", "s", "a", "b", at=(10, 20), margin=0.02, variants=("x",))):
        assert Claim.from_table(one.as_table()) == one


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "below"}, r"claims.kind: found 'below'; known are above, gap, falls"),
        ({"at": [30, 20]}, r"claims.at: expected \[from, to\]"),
        ({"at": "start"}, "claims.at: found 'start'"),
        ({"at": -1}, "claims.at: expected a whole number"),
        ({"kind": "gap"}, "claims.largest: the recipe does not say"),
        ({"kind": "falls"}, "claims.than: a claim of kind 'falls' takes none"),
        ({"largest": "x"}, "claims.largest: a claim of kind 'above' takes none"),
        ({"mehtod": "x"}, r"did you mean 'method'\?"),
    ],
)
def test_a_slip_in_a_claim_is_refused_by_name(change, words):
    with pytest.raises(ValueError, match=words):
        Claim.from_table(ABOVE.as_table() | change)


def test_verdicts_as_a_table_and_as_lines():
    verdicts = [one.as_dict() for one in judged([ABOVE, ABOVE], experiment(bald=[0.5], epig=[0.6]))]
    verdicts.append(judged([ABOVE], experiment(epig=[0.5]))[0].as_dict() | {"where": "here", "says": "a < b"})
    page = sections.claims(verdicts)
    assert page.count('class="verdict pass"') == 2
    assert 'class="verdict open"' in page
    assert "a &lt; b" in page
    assert counted(verdicts) == "2 of 3 claims held, 1 is open."
    assert counted(verdicts[2:] * 2) == "0 of 2 claims held, 2 are open."
    assert as_lines(verdicts)[2].startswith("open  H6  here: a < b: ")
