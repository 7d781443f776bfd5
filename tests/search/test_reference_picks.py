"""Searches on a kernel pick what bmdal_reg 3.0.2 picks, with and without points held.

tests/golden/make_kernel_searches.py says how its picks were found, and where that package departs from what is
published. Points with the same features are the same pick; where a pick of the package was within 1e-6 of the next one,
either is right, and what follows is not compared.
"""

import math

import pytest
import torch

import natsel
from golden_values import golden
from natsel import ForwardBackward, GaussianFeatures, Method
from natsel.objectives import TraceEPIG

CASES = golden("kernel-searches")
CALLED = {
    "maxdiag": "bald",
    "maxdet": "batchbald",
    "maxdist": "core-set",
    "lcmd": "lcmd",
    "fw": "acs-fw",
}
BAIT = {"bait": Method(TraceEPIG(), ForwardBackward(oversample=1.0)), "bait_backward": "bait"}
# Nearer to the next one than this share is a tie.
TIE = 1e-6

every_case = pytest.mark.parametrize("name", CASES)
both_modes = pytest.mark.parametrize("mode", ["pool", "held"])


def features(case):
    return tuple(torch.tensor(case[part], dtype=torch.float64) for part in ("features_N_D", "held_T_D"))


def chosen(method, case, mode, k=None, **more):
    """A selection by natsel; held points count as points given."""
    pool_N_D, held_T_D = features(case)
    if mode == "held":
        more["given"] = GaussianFeatures(held_T_D, case["noise"])
    return natsel.select(method, GaussianFeatures(pool_N_D, case["noise"]), k or case["k"], **more)


@every_case
@both_modes
@pytest.mark.parametrize("search", CALLED)
def test_picks_are_those_of_the_reference(name, mode, search):
    case = CASES[name]
    reference = case["found"][mode][search]
    pool_N_D, _ = features(case)
    ids = chosen(CALLED[search], case, mode).ids.tolist()
    assert len(set(ids)) == case["k"]
    values, gaps = (reference.get(part, [1.0] * case["k"]) for part in ("values", "gaps"))
    for turn, (ours, theirs) in enumerate(zip(ids, reference["picks"], strict=True)):
        if not torch.equal(pool_N_D[ours], pool_N_D[theirs]):
            assert gaps[turn] <= TIE * abs(values[turn]), f"pick {turn} of {ids} and {reference['picks']}"
            return


@every_case
@both_modes
def test_gains_of_batchbald_are_the_pivots_of_the_reference(name, mode):
    case = CASES[name]
    pivots = case["found"][mode]["maxdet"]["values"]
    expected = [0.5 * math.log(pivot / case["noise"]) for pivot in pivots]
    assert chosen("batchbald", case, mode).scores.tolist() == pytest.approx(expected, rel=1e-6, abs=1e-6)


@every_case
@both_modes
@pytest.mark.parametrize("search", BAIT)
def test_bait_picks_what_50_digits_pick(name, mode, search):
    """Also where the reference, which loses its digits where noise is small, does not."""
    case = CASES[name]
    reference = case["found"][mode][search]
    pool_N_D, held_T_D = features(case)
    targets = GaussianFeatures(torch.cat((pool_N_D, held_T_D)), case["noise"])
    ids = chosen(BAIT[search], case, mode, targets=targets).ids.tolist()
    ours, exact = (sorted(pool_N_D[picks].tolist()) for picks in (ids, reference["exact"]))
    assert ours == exact
    assert reference["true"] == (ours == sorted(pool_N_D[reference["picks"]].tolist()))


@every_case
@both_modes
def test_badge_draws_with_the_weights_of_the_reference(name, mode):
    """Points picked before count as given, so that the next pick is the first one, and its chance is told."""
    case = CASES[name]
    pool_N_D, held_T_D = features(case)
    for step in case["found"][mode]["kmeanspp"]:
        weight_N = torch.tensor(step["weights_N"], dtype=torch.float64)
        before_B_D = torch.cat((held_T_D if mode == "held" else held_T_D[:0], pool_N_D[step["after"]]))
        given = GaussianFeatures(before_B_D, case["noise"])
        for seed in range(5):
            found = chosen("badge", case, "pool", 1, given=given, exclude=step["after"], seed=seed)
            (pick,) = found.ids.tolist()
            assert math.exp(found.log_prob) == pytest.approx(float(weight_N[pick] / weight_N.sum()), rel=1e-6)
