"""Posterior precisions from training factors, in every structure, and draws from them."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from natsel.information.weights.evidence import evidence_precision
from natsel.information.weights.factors import OuterFactors, RowFactors
from natsel.information.weights.posterior import posterior
from natsel.information.weights.precision import Dense, Diagonal, Isotropic, Kronecker, LowRank
from natsel.information.weights.weight_draws import weight_draws
from natsel.memory import memory_budget


def softmax_factors(points, classes=3, width=4, seed=0):
    generator = torch.Generator().manual_seed(seed)
    features_N_D = torch.randn(points, width, generator=generator, dtype=torch.float64)
    logits_N_C = 2 * torch.randn(points, classes, generator=generator, dtype=torch.float64)
    return OuterFactors(features_N_D, logits_N_C.softmax(1), "softmax")


def fisher(factors):
    rows = factors.explicit(slice(None)).flatten(0, 1)
    return rows.T @ rows


def as_rows(factors):
    return RowFactors(factors.explicit(slice(None)))


@pytest.mark.parametrize("points", [2, 3, 4, 9])  # fewer rows than weights, as many, more
@pytest.mark.parametrize("of", [lambda factors: factors, as_rows], ids=["outer", "rows"])
def test_full_and_low_rank_are_the_training_fisher_and_the_prior(points, of):
    factors = of(softmax_factors(points))
    expected = fisher(factors) + 0.7 * torch.eye(12, dtype=torch.float64)
    for structure, form in (("full", Dense), ("low-rank", LowRank)):
        found = posterior(factors, 0.7, structure=structure)
        assert isinstance(found.precision, form)
        assert found.prior == 0.7
        assert found.warnings == ()
        torch.testing.assert_close(found.precision.dense(12), expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("of", [lambda factors: factors, as_rows], ids=["outer", "rows"])
@pytest.mark.parametrize("points", [2, 9])
def test_a_rank_keeps_the_leading_directions(points, of):
    factors = of(softmax_factors(points))
    found = posterior(factors, 0.1, structure="low-rank", rank=2).precision
    top = torch.linalg.eigvalsh(fisher(factors))[-2:]
    torch.testing.assert_close(found.values_r, top, rtol=1e-9, atol=0.0)


@pytest.mark.parametrize("of", [lambda factors: factors, as_rows], ids=["outer", "rows"])
def test_diagonal_is_the_diagonal(of):
    factors = of(softmax_factors(5))
    found = posterior(factors, 0.2, structure="diagonal").precision
    assert isinstance(found, Diagonal)
    torch.testing.assert_close(found.diagonal_P, fisher(factors).diagonal() + 0.2)


def test_diagonals_and_sides_are_the_same_in_small_chunks():
    factors = softmax_factors(50)
    for structure in ("diagonal", "kronecker", "full"):
        whole = posterior(factors, 0.2, structure=structure).precision.dense(12)
        with memory_budget(4000):
            torch.testing.assert_close(posterior(factors, 0.2, structure=structure).precision.dense(12), whole)


def test_kronecker_is_exact_for_equal_curvature_up_to_the_split_of_the_prior():
    """Gaussian labels of one noise: F = I/noise ⊗ XᵀX, a Kronecker product itself."""
    features_N_D = torch.randn(9, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    factors = OuterFactors(features_N_D, torch.full((9, 2), 2.0, dtype=torch.float64), "diagonal")
    found = posterior(factors, 0.0, structure="kronecker").precision
    assert isinstance(found, Kronecker)
    torch.testing.assert_close(found.dense(6), fisher(factors))
    damped = posterior(factors, 0.25, structure="kronecker").precision
    torch.testing.assert_close(damped.left_C_C, found.left_C_C + 0.5 * torch.eye(2, dtype=torch.float64))
    torch.testing.assert_close(damped.right_D_D, found.right_D_D + 0.5 * torch.eye(3, dtype=torch.float64))
    assert float(found.left_C_C.diagonal().mean()) == pytest.approx(float(found.right_D_D.diagonal().mean()))


def test_kronecker_keeps_the_trace():
    """tr(A ⊗ G) = tr(Σ Λ) · tr(Σ x xᵀ)/T, the trace of F where features and curvature do not go together."""
    factors = softmax_factors(200, seed=2)
    found = posterior(factors, 1e-12, structure="kronecker").precision
    roots_N_C_C = factors.roots()
    left = (roots_N_C_C.mT @ roots_N_C_C).sum(0)
    right = factors.features_N_D.T @ factors.features_N_D
    torch.testing.assert_close(found.dense(12), torch.kron(left, right) / 200, rtol=1e-3, atol=1e-3)


def test_identity_learns_nothing():
    found = posterior(softmax_factors(5), 0.3, structure="identity")
    assert isinstance(found.precision, Isotropic)
    assert float(found.precision.scale) == 0.3


@pytest.mark.parametrize("points", [2, 9])
def test_evidence_is_that_of_the_structure(points):
    factors = softmax_factors(points)
    exact = evidence_precision(torch.linalg.eigvalsh(fisher(factors)), 2.0)
    for structure in ("full", "low-rank"):
        assert posterior(factors, "evidence", 2.0, structure).prior == pytest.approx(exact, rel=1e-6)
        assert posterior(as_rows(factors), "evidence", 2.0, structure).prior == pytest.approx(exact, rel=1e-6)
    diagonal = evidence_precision(fisher(factors).diagonal(), 2.0)
    assert posterior(factors, "evidence", 2.0, "diagonal").prior == pytest.approx(diagonal)
    sides = posterior(factors, "evidence", 2.0, "kronecker").prior
    assert posterior(factors, "evidence", 2.0, "identity").prior == pytest.approx(sides)
    assert 0 < sides < 100


@pytest.mark.parametrize("structure", ["full", "kronecker", "diagonal", "low-rank", "identity"])
@pytest.mark.parametrize("points", [3, 60])
def test_without_a_prior_a_ridge_is_added_and_named(structure, points):
    """The softmax is shift-invariant: its curvature is singular however much data there is."""
    factors = softmax_factors(points)
    found = posterior(factors, 0.0, structure=structure)
    assert bool(factors.own(found.precision).isfinite().all())
    if structure == "diagonal":
        assert found.warnings == ()
    else:
        (warning,) = found.warnings
        assert "a ridge of" in warning
        assert "singular precision" in warning
    assert found.prior == 0.0


@pytest.mark.parametrize("structure", ["full", "kronecker", "diagonal", "low-rank", "identity"])
def test_sure_predictions_and_zero_features_give_a_precision_all_the_same(structure):
    sure = OuterFactors(torch.ones(3, 2), torch.tensor([[1.0, 0.0]]).expand(3, 2), "softmax")
    nothing = OuterFactors(torch.zeros(3, 2), torch.full((3, 2), 0.5), "softmax")
    for factors in (sure, nothing):
        found = posterior(factors, "evidence", 1.0, structure)
        assert any("the evidence has no maximum" in warning for warning in found.warnings)
        assert bool(factors.own(found.precision).isfinite().all())
        assert bool(factors.own(posterior(factors, 0.0, 1.0, structure).precision).isfinite().all())


def test_what_makes_no_sense_is_refused():
    factors = softmax_factors(3)
    with pytest.raises(ValueError, match="structure: expected full"):
        posterior(factors, 1.0, structure="banded")
    with pytest.raises(ValueError, match="kronecker needs a last layer"):
        posterior(as_rows(factors), 1.0, structure="kronecker")
    with pytest.raises(ValueError, match="rank: expected"):
        posterior(factors, 1.0, structure="low-rank", rank=0)
    for prior in (-1.0, float("nan"), float("inf"), "guess", True):
        with pytest.raises(ValueError, match="prior_precision: expected a number"):
            posterior(factors, prior)
    wide = OuterFactors(torch.ones(500, 500), torch.ones(500, 1), "diagonal")
    with memory_budget(2000):
        for structure in ("full", "low-rank"):
            with pytest.raises(ValueError, match=f"structure: {structure} .* over the memory budget"):
                posterior(wide, 1.0, structure=structure)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["full", "kronecker", "diagonal", "low-rank", "identity"]))
def test_draws_have_the_inverse_precision_as_covariance(seed, structure):
    """The numbers drawn are linear in z, which the same seed gives for H = I: the map is read off exactly."""
    precision = posterior(softmax_factors(3, 2, 3, seed), 0.5, structure=structure).precision
    drawn = weight_draws(precision, 6, 30, seed)
    normal = weight_draws(Isotropic(1.0), 6, 30, seed)
    map_6_6 = torch.linalg.lstsq(normal, drawn).solution
    torch.testing.assert_close(normal @ map_6_6, drawn)
    torch.testing.assert_close(map_6_6.T @ map_6_6 @ precision.dense(6), torch.eye(6, dtype=torch.float64))


def test_draws_are_decided_by_their_seed_and_leave_no_trace():
    before = torch.get_rng_state()
    one, same, other = (weight_draws(Isotropic(1.0), 4, 3, seed) for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert torch.equal(before, torch.get_rng_state())
