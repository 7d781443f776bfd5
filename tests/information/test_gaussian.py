import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from golden_values import golden
from natsel.information.gaussians import (
    gaussian_conditional_covariance,
    gaussian_entropy,
    gaussian_expected_surprisal,
    gaussian_mutual_information,
    normal_entropy,
)

GOLDEN = golden("01-information-quantities")["gaussian_mixed_terms"]
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}
BOTH = pytest.mark.parametrize("dtype", list(TOLERANCE))

properties = settings(deadline=None)
seeds = st.integers(0, 2**31)


def near(actual, expected, tolerance=1e-10):
    actual, expected = (torch.as_tensor(x, dtype=torch.float64) for x in (actual, expected))
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def random_covariance(seed, size):
    root = torch.randn(size, size + 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return root @ root.T / size


@BOTH
def test_mixed_terms_match_golden_values(dtype):
    inputs, expected, tolerance = GOLDEN["inputs"], GOLDEN["expected"], TOLERANCE[dtype]
    mean, covariance = torch.tensor(inputs["mean"], dtype=dtype), torch.tensor(inputs["cov"], dtype=dtype)
    x, y, tied = 0, 1, {1: inputs["at"]["y"]}

    def eps(inside, at):
        value = gaussian_expected_surprisal(mean, covariance, inside, at)
        assert value.dtype == dtype
        return float(value)

    near(eps([x], {}), expected["H[X]"], tolerance)
    near(eps([y], {}), expected["H[Y]"], tolerance)
    near(eps([x, y], {}), expected["H[X,Y]"], tolerance)
    near(eps([x, y], {}) - eps([y], {}), expected["H[X|Y]"], tolerance)
    near(eps([y], tied), expected["H[y]"], tolerance)
    near(eps([x, y], tied) - eps([y], tied), expected["H[X|y]"], tolerance)
    near(eps([x, y], tied), expected["H[X,y]"], tolerance)
    near(eps([y, x], tied), expected["H[X,y]"], tolerance)
    near(eps([x, y], tied) - eps([x], tied), expected["H[y|X]"], tolerance)
    near(eps([x], tied), expected["E_{p(x|y)}[H[x]]"], tolerance)
    near(eps([x], {}) - (eps([x, y], tied) - eps([y], tied)), expected["I[X;y]"], tolerance)
    near(eps([y], tied) - (eps([x, y], tied) - eps([x], tied)), expected["I[y;X]"], tolerance)
    near(gaussian_mutual_information(covariance, [x], [y]), expected["I[X;Y]"], tolerance)
    near(gaussian_entropy(covariance), expected["H[X,Y]"], tolerance)
    near(gaussian_entropy(gaussian_conditional_covariance(covariance, [x], [y])), expected["H[X|Y]"], tolerance)
    near(normal_entropy(covariance.diagonal()), [expected["H[X]"], expected["H[Y]"]], tolerance)


@properties
@given(seeds, st.sampled_from([{}, {2: 0.7}, {0: -1.2}, {0: 0.3, 2: 1.1}, {0: 0.3, 1: -2.0}]))
def test_expected_surprisal_by_quadrature(seed, tied):
    """−ln p is quadratic, so three Gauss-Hermite nodes an axis integrate it exactly; S = {0, 1}."""
    covariance = random_covariance(seed, 3)
    mean = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64)
    free = [i for i in range(3) if i not in tied]
    sigma, known = covariance.numpy(), list(tied)
    pull = np.linalg.solve(sigma[np.ix_(known, known)], sigma[np.ix_(known, free)]).T
    center = mean.numpy()[free] + pull @ (np.array([tied[i] for i in known]) - mean.numpy()[known])
    spread = sigma[np.ix_(free, free)] - pull @ sigma[np.ix_(known, free)]
    nodes, weights = np.polynomial.hermite_e.hermegauss(3)
    grid = np.stack(np.meshgrid(*[nodes] * len(free), indexing="ij"), -1).reshape(-1, len(free))
    mass = np.prod(np.stack(np.meshgrid(*[weights / weights.sum()] * len(free), indexing="ij"), -1), -1).ravel()
    points = np.tile(np.array([tied.get(i, 0.0) for i in range(3)]), (len(grid), 1))
    points[:, free] = center + grid @ np.linalg.cholesky(spread).T
    density = stats.multivariate_normal(mean.numpy()[:2], sigma[:2, :2])
    expected = -(mass * density.logpdf(points[:, :2])).sum()
    near(gaussian_expected_surprisal(mean, covariance, [0, 1], tied), expected, 1e-8)


@properties
@given(seeds)
def test_chain_rules_and_information_against_determinants(seed):
    covariance = random_covariance(seed, 5)
    a, b, c = [0, 3], [1], [2, 4]
    information = gaussian_mutual_information(covariance, a, b + c)
    conditional = gaussian_conditional_covariance(covariance, a + c, b)
    near(
        gaussian_mutual_information(covariance, a, b) + gaussian_mutual_information(conditional, [0, 1], [2, 3]),
        information,
    )
    near(gaussian_mutual_information(covariance, c + b, a), information)
    entropies = [gaussian_entropy(covariance[s][:, s]) for s in (a, b + c, a + b + c)]
    near(entropies[0] + entropies[1] - entropies[2], information)
    precision = torch.linalg.inv(covariance[a + b][:, a + b])
    near(gaussian_conditional_covariance(covariance, a, b), torch.linalg.inv(precision[:2, :2]), 1e-8)
    near(gaussian_entropy(covariance), stats.multivariate_normal(cov=covariance.numpy()).entropy())


@properties
@given(st.floats(-0.999, 0.999))
def test_two_correlated_normals(rho):
    covariance = torch.tensor([[1.0, rho], [rho, 1.0]], dtype=torch.float64)
    near(gaussian_mutual_information(covariance, [0], [1]), -0.5 * math.log1p(-(rho**2)), 1e-11)


def test_tiny_and_huge_information_keep_their_digits():
    covariance = torch.tensor([[1.0, 1e-9], [1e-9, 1.0]], dtype=torch.float64)
    assert float(gaussian_mutual_information(covariance, [0], [1])) == pytest.approx(0.5e-18, rel=1e-9, abs=0)
    noise = 1e-8  # y = x + noise
    covariance = torch.tensor([[1.0, 1.0], [1.0, 1.0 + noise]], dtype=torch.float64)
    assert float(gaussian_mutual_information(covariance, [0], [1])) == pytest.approx(
        0.5 * math.log1p(1 / noise), rel=1e-7
    )


def test_information_has_no_units():
    covariance = random_covariance(0, 4)
    units = torch.tensor([1e-100, 1.0, 1e100, 1e-3], dtype=torch.float64)
    scaled = covariance * units[:, None] * units
    near(
        gaussian_mutual_information(scaled, [0, 1], [2, 3]),
        gaussian_mutual_information(covariance, [0, 1], [2, 3]),
    )
    near(gaussian_entropy(scaled), gaussian_entropy(covariance) + units.log().sum())
    left = gaussian_conditional_covariance(scaled, [0], [1, 2])
    near(left / units[0] ** 2, gaussian_conditional_covariance(covariance, [0], [1, 2]))


def test_information_gain_about_a_mean_is_the_same_for_every_outcome():
    """X ~ N(0, 4), Y = X + noise of variance 1: gain ½ ln 5 whatever y is; the surprise is not."""
    mean, covariance = (
        torch.zeros(2, dtype=torch.float64),
        torch.tensor([[4.0, 4.0], [4.0, 5.0]], dtype=torch.float64),
    )

    def eps(inside, y):
        return gaussian_expected_surprisal(mean, covariance, inside, {} if y is None else {1: y})

    surprises = []
    for y in (-30.0, 0.0, 0.5, 7.0):
        near(eps([0], None) - (eps([0, 1], y) - eps([1], y)), 0.5 * math.log(5))
        surprises.append(float(eps([1], y) - (eps([0, 1], y) - eps([0], y))))
    assert min(surprises) >= 0
    assert surprises[0] > surprises[3] > surprises[2] > surprises[1]


def test_constants_copies_and_empty_groups():
    covariance = torch.tensor([[1.0, 0.5, 0.0, 1.0], [0.5, 1.0, 0.0, 0.5], [0.0] * 4, [1.0, 0.5, 0.0, 1.0]]).double()
    constant, copy = 2, 3
    near(gaussian_mutual_information(covariance, [0], [constant]), 0.0)
    near(gaussian_mutual_information(covariance, [constant], [constant]), 0.0)
    assert gaussian_mutual_information(covariance, [0], [copy]) == math.inf
    assert gaussian_mutual_information(covariance, [0, 1], [1]) == math.inf
    near(
        gaussian_mutual_information(covariance, [1], [0, copy, constant]),
        gaussian_mutual_information(covariance, [1], [0]),
    )
    near(gaussian_mutual_information(covariance, [1], []), 0.0)
    assert gaussian_entropy(covariance) == gaussian_entropy(covariance[2:3, 2:3]) == -math.inf
    assert gaussian_entropy(covariance[:0, :0]) == 0
    near(gaussian_conditional_covariance(covariance, [1], []), [[1.0]])
    near(gaussian_conditional_covariance(covariance, [1], [0, copy]), [[0.75]])
    assert torch.equal(gaussian_conditional_covariance(covariance, [0, 1], [0])[0], torch.zeros(2).double())
    assert gaussian_expected_surprisal(torch.zeros(4), covariance, [], {0: 1.0}) == 0
    with pytest.raises(ValueError, match=r"singular over \[0, 3\]"):
        gaussian_expected_surprisal(torch.zeros(4), covariance, [0, copy], {})


def test_functions_of_other_variables_are_recognised_through_rounding():
    """Y = M X exactly, up to rounding: infinite information, no density, nothing left once X is given."""
    for seed in range(20):
        root = torch.randn(5, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        covariance = root @ root.T
        assert gaussian_entropy(covariance) == -math.inf
        assert gaussian_mutual_information(covariance, [0, 1, 2], [3, 4]) == math.inf
        assert gaussian_mutual_information(covariance, [0], [1, 2, 3, 4]) == math.inf
        given_itself = gaussian_conditional_covariance(covariance, [0, 1, 4], [1, 0])
        assert (given_itself[:2] == 0).all()
        assert (given_itself[:, :2] == 0).all()
        assert given_itself[2, 2] > 1e-6


def test_a_copy_does_not_hide_a_variable_in_small_units():
    covariance = random_covariance(1, 3)
    expected = gaussian_mutual_information(covariance, [0], [1, 2])
    order, units = [0, 1, 1, 2], torch.tensor([1.0, 1.0, 1.0, 1e-12], dtype=torch.float64)
    with_copy = covariance[order][:, order] * units[:, None] * units
    near(gaussian_mutual_information(with_copy, [0], [1, 2, 3]), expected)
    near(
        gaussian_conditional_covariance(with_copy, [0], [1, 2, 3]),
        gaussian_conditional_covariance(covariance, [0], [1, 2]),
    )


def test_surprisal_of_nearly_collinear_outcomes():
    rho, a, b = 1 - 1e-9, 1.0, 1.0 + math.sqrt(1e-9)
    covariance = torch.tensor([[1.0, rho], [rho, 1.0]], dtype=torch.float64)
    value = gaussian_expected_surprisal(torch.zeros(2), covariance, [0, 1], {0: a, 1: b})
    square = (a + b) ** 2 / 2 / (1 + rho) + (a - b) ** 2 / 2 / (1 - rho)
    expected = 0.5 * (2 * math.log(2 * math.pi) + math.log(1 - rho) + math.log(1 + rho) + square)
    near(value, expected, 1e-6)  # the condition number is 2e9


def test_surprisal_of_tied_variables_is_theirs_alone():
    """ε(S;T) = ε(S;S) once S is tied, whatever else is: even the contradicting outcome of a copy."""
    mean, covariance = torch.zeros(2), torch.ones(2, 2, dtype=torch.float64)
    alone = gaussian_expected_surprisal(mean, covariance, [0], {0: 1.0})
    near(gaussian_expected_surprisal(mean, covariance, [0], {0: 1.0, 1: 3.0}), alone)


def test_stacks_of_covariances():
    stack = torch.stack(
        [random_covariance(0, 3), torch.eye(3, dtype=torch.float64), torch.ones(3, 3, dtype=torch.float64)]
    )
    values = gaussian_entropy(stack)
    near(values[:2], [gaussian_entropy(stack[0]), 1.5 * (math.log(2 * math.pi) + 1)])
    assert values[2] == -math.inf


def test_what_is_no_covariance_is_refused():
    for wrong, message in (
        (torch.tensor([[1.0, 2.0], [2.0, 1.0]]), "negative eigenvalue"),
        (torch.tensor([[1.0, 0.5], [0.2, 1.0]]), "not symmetric"),
        (torch.tensor([[-1.0]]), "negative variance"),
        (torch.tensor([[math.nan]]), "NaN"),
        (torch.zeros(2, 3), "square"),
    ):
        with pytest.raises(ValueError, match=f"covariance: .*{message}"):
            gaussian_entropy(wrong)


def test_gradients_of_information_where_eigenvalues_coincide():
    covariance = torch.eye(4, dtype=torch.float64)
    covariance[0, 2] = covariance[2, 0] = 0.3

    def information(upper):
        return gaussian_mutual_information((upper + upper.T) / 2, [0, 1], [2, 3])

    assert torch.autograd.gradcheck(information, covariance.requires_grad_())
