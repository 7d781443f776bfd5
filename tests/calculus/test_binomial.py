"""Binomial coefficients, Stirling's bound and its gap; the page that derives them and its picture."""

import doctest
import importlib.util
import math
from fractions import Fraction
from itertools import product
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from golden_values import golden
from natsel.calculus.binomial import log_binomial, log_binomial_gap, log_binomial_upper_bound

ROWS = golden("01-information-quantities")["stirling"]["expected"]["rows"]
PAGES = Path(__file__).parents[2] / "docs" / "examples"
FUNCTIONS = (log_binomial, log_binomial_upper_bound, log_binomial_gap)


def term(count: int, of: int) -> float:
    return count * math.log(of / count) if count else 0.0


# Values.


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['N']}-{row['r']}")
def test_golden_values(row):
    for name, work in zip(("log_binomial", "upper_bound", "gap"), FUNCTIONS, strict=True):
        assert work(row["N"], row["r"]).item() == pytest.approx(row[name], rel=1e-13, abs=1e-14), name


def test_all_coefficients_up_to_300():
    """The integers themselves are known: ln of the exact coefficient, and its bound term by term."""
    for flips in range(301):
        heads = torch.arange(flips + 1)
        exact = [math.log(math.comb(flips, r)) for r in range(flips + 1)]
        bound = [term(r, flips) + term(flips - r, flips) for r in range(flips + 1)]
        np.testing.assert_allclose(log_binomial(flips, heads), exact, rtol=2e-14, atol=1e-14)
        np.testing.assert_allclose(log_binomial_upper_bound(flips, heads), bound, rtol=1e-14, atol=0)
        gap = log_binomial_gap(flips, heads)
        np.testing.assert_allclose(gap, np.subtract(bound, exact), rtol=0, atol=2e-13)
        # What the bounds promise, for every coefficient.
        assert (torch.tensor(exact, dtype=torch.float64) <= log_binomial_upper_bound(flips, heads) + 1e-13).all()
        assert (gap >= 0).all()
        assert gap.max() <= math.log(flips + 1) + 1e-14
        if flips > 0:
            assert gap.max() <= math.log(flips) + 1e-14


@given(st.integers(1, 60).flatmap(lambda flips: st.tuples(st.just(flips), st.integers(0, flips))))
def test_the_gap_is_the_information_content_of_the_count(sizes):
    """−ln P[R = r] of a binomial at ρ = r/N, in exact fractions."""
    flips, heads = sizes
    rho = Fraction(heads, flips)
    chance = math.comb(flips, heads) * rho**heads * (1 - rho) ** (flips - heads)
    assert log_binomial_gap(flips, heads).item() == pytest.approx(-math.log(chance), rel=1e-12, abs=1e-14)


@given(
    st.integers(1, 400).flatmap(lambda flips: st.tuples(st.just(flips), st.integers(0, flips))),
    st.floats(0.001, 0.999),
)
def test_no_other_coin_gives_a_smaller_bound(sizes, rho):
    flips, heads = sizes
    other = -heads * math.log(rho) - (flips - heads) * math.log1p(-rho)
    assert log_binomial_upper_bound(flips, heads).item() <= other * (1 + 1e-12)


def test_the_leading_term_of_the_gap():
    worst = 0.0
    for flips in range(2, 400):
        heads = torch.arange(1, flips, dtype=torch.float64)
        leading = 0.5 * (2 * math.pi * heads * (flips - heads) / flips).log()
        worst = max(worst, float((log_binomial_gap(flips, heads) - leading).abs().max()))
    assert 0.12 < worst < 0.121


def test_entropies_of_flips_enumerated():
    """H[B,r], H[B|r] and H[r] from all 2^N sequences."""
    for flips, heads in ((1, 0), (3, 1), (6, 4), (9, 3), (5, 5)):
        rho = heads / flips
        chances = [
            rho ** sum(b) * (1 - rho) ** (flips - sum(b)) for b in product((0, 1), repeat=flips) if sum(b) == heads
        ]
        chance = sum(chances)
        given_r = [c / chance for c in chances if c]
        assert log_binomial(flips, heads).item() == pytest.approx(-sum(p * math.log(p) for p in given_r), abs=1e-12)
        expected = -sum(p * math.log(p * chance) for p in given_r)
        assert log_binomial_upper_bound(flips, heads).item() == pytest.approx(expected, abs=1e-12)
        assert log_binomial_gap(flips, heads).item() == pytest.approx(-math.log(chance), abs=1e-12)


# Far out, where ln N! − ln r! − ln(N − r)! has no digits left.


def test_digits_that_factorials_lose():
    billion = 10**9
    assert log_binomial(billion, 1).item() == pytest.approx(math.log(billion), rel=1e-13)
    assert log_binomial(billion, 2).item() == pytest.approx(math.log(billion * (billion - 1) // 2), rel=1e-13)
    for work in FUNCTIONS:
        for flips in (billion, 10**15):
            assert work(flips, flips - 1).item() == pytest.approx(work(flips, 1).item(), rel=1e-13), "not symmetric"
    naive = math.lgamma(billion + 1) - math.lgamma(2) - math.lgamma(billion)
    assert abs(naive - math.log(billion)) > 1e-7, "factorials do it too, and this test says nothing"
    # Even N, r = N/2: N ln 2 − ½ ln(πN/2) − 1/(4N) + 1/(24N³) …
    for flips in (10**4, 10**9, 10**15):
        gap = log_binomial_gap(flips, flips // 2).item()
        assert gap == pytest.approx(0.5 * math.log(math.pi * flips / 2) + 1 / (4 * flips), rel=1e-12)
        assert log_binomial_upper_bound(flips, flips // 2).item() == pytest.approx(flips * math.log(2), rel=1e-15)
    assert math.isfinite(log_binomial(1e300, 5e299).item())


def test_no_step_where_the_series_begins():
    """Exact integers on both sides of the switch, in each of its three places."""
    for flips in range(14, 40):
        heads = torch.arange(flips + 1)
        exact = torch.tensor([math.log(math.comb(flips, r)) for r in range(flips + 1)], dtype=torch.float64)
        torch.testing.assert_close(log_binomial(flips, heads), exact, rtol=0, atol=2e-14)


# Shapes, types and what is refused.


@pytest.mark.parametrize("work", FUNCTIONS)
def test_shapes_broadcast_and_types_widen(work):
    flips_2_1, heads_3 = torch.tensor([[10], [12]]), torch.tensor([0, 3, 10], dtype=torch.float32)
    table = work(flips_2_1, heads_3)
    assert (table.shape, table.dtype) == ((2, 3), torch.float64)
    for row, flips in enumerate((10, 12)):
        for column, heads in enumerate((0, 3, 10)):
            assert table[row, column] == work(flips, heads)
    assert torch.equal(work(10, np.array([10, 3, 0], dtype=np.int16)[::-1]), table[0])
    assert torch.equal(work([10, 10, 10], heads_3), table[0])
    assert work(10, []).shape == (0,)
    assert heads_3.tolist() == [0, 3, 10], "the input was written to"


@pytest.mark.parametrize("work", FUNCTIONS)
def test_one_arrangement_is_exactly_zero(work):
    for flips in (0, 1, 7, 10**12):
        for heads in (0, flips):
            value = work(flips, heads).item()
            assert (value, math.copysign(1.0, value)) == (0.0, 1.0)


@pytest.mark.parametrize("work", FUNCTIONS)
@pytest.mark.parametrize(
    ("flips", "heads", "says"),
    [
        (3, 4, "r: expected at most N, found 4 of 3"),
        ([5, 3], [5, 4], "r: expected at most N, found 4 of 3"),
        (3, -1, "r: expected whole numbers of at least 0, found -1"),
        (-3, 0, "N: expected whole numbers of at least 0, found -3"),
        (3, 1.5, "r: expected whole numbers of at least 0, found 1.5"),
        (math.nan, 0, "N: expected whole numbers of at least 0, found nan"),
        (math.inf, 0, "N: expected whole numbers of at least 0, found inf"),
        ("three", 1, "N: expected numbers, found str"),
        (10**400, 1, "N: expected numbers, found int"),
        (3, None, "r: expected whole numbers of at least 0, found nan"),
        ([1, 2], [1, 1, 1], r"r: N and r have the shapes \(2,\) and \(3,\)"),
    ],
)
def test_bad_input_is_refused(work, flips, heads, says):
    with pytest.raises(ValueError, match=says) as caught:
        work(flips, heads)
    assert "\n" not in str(caught.value)
    assert ";" in str(caught.value), "it does not say what to do"


# The page and its picture.


def test_the_page_runs():
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    done = doctest.testfile(str(PAGES / "stirling.md"), module_relative=False, optionflags=flags, encoding="utf-8")
    assert done.failed == 0
    assert done.attempted >= 15


def test_the_picture_shows_the_bound_and_its_gap(tmp_path):
    pytest.importorskip("matplotlib")
    spec = importlib.util.spec_from_file_location("stirling", PAGES / "stirling.py")
    page = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(page)
    figure = page.draw()
    bounds, gaps = figure.axes
    lines = {line.get_gid(): line for axes in (bounds, gaps) for line in axes.lines if line.get_gid()}
    flips = page.FLIPS
    heads = np.arange(flips + 1)
    exact = [math.log(math.comb(flips, int(r))) for r in heads]
    np.testing.assert_allclose(lines["exact"].get_ydata(), exact, atol=1e-10)
    np.testing.assert_allclose(lines["bound"].get_ydata(), [term(r, flips) + term(flips - r, flips) for r in heads])
    gap = lines["bound"].get_ydata() - lines["exact"].get_ydata()
    np.testing.assert_allclose(lines["gap"].get_ydata(), gap, atol=1e-10)
    inside = heads[1:-1]
    leading = 0.5 * np.log(2 * np.pi * inside * (flips - inside) / flips)
    np.testing.assert_allclose(np.interp(inside, *lines["leading"].get_data()), leading, atol=2e-2)
    path = tmp_path / "stirling.svg"
    page.main([str(path)])
    assert path.stat().st_size < 100_000
    assert ElementTree.parse(path).getroot().tag.endswith("svg")
    text = path.read_text(encoding="utf-8")
    page.main([str(path)])
    assert path.read_text(encoding="utf-8") == text, "the same picture twice, to the byte"
