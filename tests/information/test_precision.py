"""Precisions against their matrices, and what is refused."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from natsel.information.weights.positive_definite import NotPositiveDefinite, cholesky, symmetric, with_ridge
from natsel.information.weights.precision import FORMS, Dense, Diagonal, Isotropic, Kronecker, LowRank, Precision

OUTPUTS, FEATURES = 3, 4
WEIGHTS = OUTPUTS * FEATURES


def positive(size: int, seed: int) -> torch.Tensor:
    rows = torch.randn(2 * size, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return rows.T @ rows / size + 0.1 * torch.eye(size, dtype=torch.float64)


def every_form(seed: int) -> list[Precision]:
    vectors, _ = torch.linalg.qr(positive(WEIGHTS, seed))
    values = torch.tensor([5.0, 1.0, -0.2], dtype=torch.float64)
    return [
        Isotropic(0.7),
        Diagonal(positive(WEIGHTS, seed).diagonal()),
        Dense(positive(WEIGHTS, seed)),
        Kronecker(positive(OUTPUTS, seed), positive(FEATURES, seed + 1)),
        LowRank(vectors[:, :3].T, values, 0.5),
    ]


@given(st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_every_form_is_its_matrix(seed):
    rows = torch.randn(5, WEIGHTS, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    forms = every_form(seed)
    assert {form.kind for form in forms} == set(FORMS), "a form without a test"
    for form in forms:
        matrix = form.dense(WEIGHTS)
        torch.testing.assert_close(form.solve(rows), rows @ torch.linalg.inv(matrix), rtol=1e-9, atol=1e-9)
        assert form.logdet(WEIGHTS) == pytest.approx(float(torch.logdet(matrix)), abs=1e-9)
        more = positive(WEIGHTS, seed + 2)
        torch.testing.assert_close(form.plus(more).matrix_P_P, matrix + more, rtol=1e-12, atol=1e-12)
        again = FORMS[form.kind](*form.tensors().values())
        assert form.same(again)
        assert form.same(form.to("cpu"))
        form.check(OUTPUTS, FEATURES)
        assert not any(form.same(other) for other in forms if other is not form)
        if form.kind != "low-rank":  # other vectors would not be orthonormal
            assert not form.same(type(form)(*(1.5 * part for part in form.tensors().values())))


@pytest.mark.parametrize("form", every_form(0)[1:], ids=lambda form: form.kind)
def test_a_precision_about_other_weights_is_refused(form):
    with pytest.raises(ValueError, match=r"precision: it is about .*12|precision: it is about 3 × 4"):
        form.check(OUTPUTS, FEATURES + 1)


def test_kronecker_factors_must_come_in_order():
    with pytest.raises(ValueError, match="outputs' matrix first"):
        Kronecker(positive(FEATURES, 0), positive(OUTPUTS, 0)).check(OUTPUTS, FEATURES)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Isotropic(0.0),
        lambda: Isotropic(float("nan")),
        lambda: Isotropic(math.inf),
        lambda: Diagonal([1.0, 0.0]),
        lambda: Dense([[1.0, 1.0], [1.0, 1.0]]),
        lambda: Dense([[1.0, 0.0], [0.0, -1.0]]),
        lambda: Dense([[1.0, 0.0], [0.0, float("nan")]]),
        lambda: Kronecker([[0.0]], [[1.0]]),
        lambda: LowRank([[1.0, 0.0]], [-2.0], 1.0),
        lambda: LowRank([[1.0, 0.0]], [1.0], 0.0),
    ],
)
def test_what_leaves_a_direction_unknown_is_refused(make):
    with pytest.raises(NotPositiveDefinite, match="precision: "):
        make()


def test_matrices_that_are_no_precision_are_refused():
    with pytest.raises(ValueError, match="not symmetric"):
        Dense([[1.0, 0.5], [0.0, 1.0]])
    with pytest.raises(ValueError, match="square"):
        Dense([[1.0, 0.5]])
    with pytest.raises(ValueError, match="orthonormal"):
        LowRank([[1.0, 1.0]], [1.0], 1.0)
    with pytest.raises(ValueError, match="value for each"):
        LowRank([[1.0, 0.0]], [1.0, 2.0], 1.0)


@pytest.mark.parametrize("size", [2, 5, 10, 50])
def test_singular_matrices_are_noticed_although_a_factorisation_passes(size):
    for seed in range(60):
        rank = size - 1 if seed % 2 else 1 + seed % (size - 1)
        rows = torch.randn(rank, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        singular = rows.T @ rows
        with pytest.raises(NotPositiveDefinite):
            cholesky(singular)
        mended, ridge = with_ridge(singular)
        assert ridge > 0
        torch.testing.assert_close(mended, singular + ridge * torch.eye(size, dtype=torch.float64))
        cholesky(mended)


@given(st.integers(0, 10**6), st.integers(1, 30))
@settings(max_examples=30, deadline=None)
def test_matrices_with_a_prior_pass(seed, size):
    rows = torch.randn(3, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    factor = cholesky(rows.T @ rows + 1e-6 * torch.eye(size, dtype=torch.float64))
    torch.testing.assert_close(factor @ factor.T, rows.T @ rows + 1e-6 * torch.eye(size, dtype=torch.float64))


def test_a_ridge_is_only_added_where_one_is_needed():
    matrix = positive(6, 0)
    mended, ridge = with_ridge(matrix)
    assert ridge == 0
    assert torch.equal(mended, symmetric(matrix))
    assert with_ridge(torch.zeros(2, 2))[1] > 0
    rounded = torch.diag(torch.tensor([1.0, -3e-7], dtype=torch.float64))
    assert 0 < with_ridge(rounded)[1] < 1e-4


@pytest.mark.parametrize("least", [-1e-4, -0.5, -1.0, -1e3])
def test_a_matrix_that_is_clearly_negative_gets_no_ridge(least):
    vectors, _ = torch.linalg.qr(positive(WEIGHTS, 0))
    values = torch.linspace(0.1, 1.0, WEIGHTS, dtype=torch.float64)
    values[3] = least
    matrix = symmetric(vectors @ values.diag() @ vectors.T)
    for refused in (with_ridge, cholesky, Dense):
        with pytest.raises(
            NotPositiveDefinite, match=rf"^precision: the matrix has eigenvalues from {least:.4g} to 1,"
        ):
            refused(matrix)


def test_precisions_of_the_wrong_sign_are_refused_and_say_so():
    wrong = r"^precision: .*; a Hessian of the log-likelihood has the wrong sign for a precision: pass its negative$"
    for refused in (
        lambda: Dense(-positive(WEIGHTS, 0)),
        lambda: Diagonal(-positive(WEIGHTS, 0).diagonal()),
        lambda: Kronecker(-positive(OUTPUTS, 0), positive(FEATURES, 0)),
        lambda: Kronecker(-positive(OUTPUTS, 0), -positive(FEATURES, 0)),
        lambda: LowRank([[1.0, 0.0]], [-3.0], 1.0),
        lambda: with_ridge(-positive(WEIGHTS, 0)),
        lambda: with_ridge(-torch.eye(2)),
    ):
        with pytest.raises(NotPositiveDefinite, match=wrong):
            refused()


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("high", "'high'"),
        ("2.0", "'2.0'"),
        (None, "None"),
        (True, "True"),
        ([[1.0, 2.0], [3.0]], "list"),
        (1j, "complex"),
    ],
)
def test_what_is_no_number_is_no_precision(given, found):
    for form in (Isotropic, Diagonal, Dense):
        with pytest.raises(ValueError, match=rf"^precision: expected a number or an array of numbers, found {found}; "):
            form(given)


@pytest.mark.parametrize("size", [1e-300, 1e300])
def test_numbers_whose_products_float64_cannot_hold_are_no_precision(size):
    eye = torch.eye(2, dtype=torch.float64)
    for refused in (
        lambda: Isotropic(size),
        lambda: Diagonal([1.0, size]),
        lambda: Dense(size * eye),
        lambda: Kronecker(eye, size * eye),
        lambda: LowRank([[1.0, 0.0]], [size], size),
    ):
        with pytest.raises(
            NotPositiveDefinite, match=r"^precision: found numbers of size 1e.300, .*rescale the features$"
        ):
            refused()
