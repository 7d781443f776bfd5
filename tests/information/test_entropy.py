import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from golden_values import golden, logs
from natsel.information.entropies import cross_entropy, elbo, entropy, information_content, kl_divergence

GOLDEN = golden("01-information-quantities")
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}
BOTH = pytest.mark.parametrize("dtype", list(TOLERANCE))
NEVER = -math.inf

properties = settings(deadline=None)
seeds = st.integers(0, 2**31)


def distributions(seed, *shape):
    """Dirichlet(0.7) rows: uneven, some entries tiny."""
    torch_generator = torch.Generator().manual_seed(seed)
    gamma = torch._standard_gamma(torch.full(shape, 0.7, dtype=torch.float64), generator=torch_generator)
    return gamma.clamp_min(1e-200).log().log_softmax(-1)


def near(actual, expected, tolerance=1e-10):
    expected = torch.as_tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(actual.double(), expected, rtol=tolerance, atol=tolerance, equal_nan=True)


@BOTH
def test_primitives_match_golden_values(dtype):
    case, tolerance = GOLDEN["primitives"], TOLERANCE[dtype]
    expected = case["expected"]
    for i, (p, q) in enumerate(case["inputs"]["pairs (p,q)"]):
        log_p, log_q = logs(p, dtype), logs(q, dtype)
        near(cross_entropy(log_p, log_q), expected["cross_entropy"][i], tolerance)
        near(kl_divergence(log_p, log_q), expected["kl"][i], tolerance)
        near(entropy(log_p), expected["entropy_p"][i], tolerance)
        bound = expected["h_of_Z_q (lower bound of kl)"][i]
        near(information_content(log_probability=log_q.logsumexp(0)), bound, tolerance)
        assert kl_divergence(log_p, log_q) >= bound - tolerance
        assert cross_entropy(log_p, log_q).dtype == kl_divergence(log_p, log_q).dtype == entropy(log_p).dtype == dtype
    rho = torch.tensor(case["inputs"]["information_content_of"], dtype=dtype)
    near(information_content(rho), expected["information_content"], tolerance)
    near(information_content(log_probability=rho.log()), expected["information_content"], tolerance)


@BOTH
def test_elbo_matches_golden_values(dtype):
    case = GOLDEN["elbo"]
    likelihood_K, q_K, prior_K = (logs(case["inputs"][k], dtype) for k in ("likelihood_K", "q_K", "prior_K"))
    near(elbo(likelihood_K, q_K, prior_K), case["expected"]["elbo"], TOLERANCE[dtype])
    posterior_K = (likelihood_K + prior_K).log_softmax(0)
    near(kl_divergence(q_K, posterior_K), case["expected"]["kl_q_posterior"], TOLERANCE[dtype])


def test_gain_and_surprise_about_an_unknown_variance():
    """InvGamma(2,2) prior on the variance of a normal; integrals on a grid of u = ln σ².

    docs/theory/information-quantities.md, 17 (worked examples).
    """
    case = GOLDEN["inverse_gamma"]
    u = torch.linspace(-7.0, 22.0, 20_001, dtype=torch.float64)
    shape, scale = case["inputs"]["prior"]
    log_prior = (-shape * u - scale * (-u).exp()).log_softmax(0)  # the density of u, with its Jacobian
    for row in case["expected"]["rows"]:
        log_posterior = (log_prior - 0.5 * u - 0.5 * row["deviation"] ** 2 * (-u).exp()).log_softmax(0)
        # H[σ²] = H[u] + E[u]; the grid spacing cancels in the difference.
        gain = entropy(log_prior) - entropy(log_posterior) + ((log_prior.exp() - log_posterior.exp()) * u).sum()
        near(gain, row["information_gain"], 1e-9)
        near(kl_divergence(log_posterior, log_prior), row["surprise"], 1e-9)


def test_zero_probabilities_have_zero_gradient():
    p, q = torch.tensor([0.5, 0.5, 0.0, 0.0]), torch.tensor([0.2, 0.3, 0.5, 0.0])
    for function in (cross_entropy, kl_divergence):
        log_p, log_q = p.log().requires_grad_(), q.log().requires_grad_()
        function(log_p, log_q).backward()
        ratio = -log_q.detach() + (1 + log_p.detach() if function is kl_divergence else 0)
        torch.testing.assert_close(log_p.grad, torch.where(p > 0, p * ratio, 0.0))
        torch.testing.assert_close(log_q.grad, -p)
    log_p = p.log().requires_grad_()
    entropy(log_p).backward()
    torch.testing.assert_close(log_p.grad, torch.where(p > 0, -p * (1 + p.log()), 0.0))


def test_infinite_cross_entropy_sends_no_nan_back():
    log_p, log_q = (
        torch.tensor([0.5, 0.5]).log().requires_grad_(),
        torch.tensor([1.0, 0.0]).log().requires_grad_(),
    )
    (cross_entropy(log_p, log_q) + kl_divergence(log_p, log_q)).backward()
    assert torch.isfinite(log_p.grad).all()
    assert torch.isfinite(log_q.grad).all()


def test_tiny_probabilities_keep_their_digits():
    tiny = math.log(1e-300)
    log_p = torch.tensor([-1e-300, tiny], dtype=torch.float64)
    # p ln p of the large outcome is 1e-300 too: both terms survive, an epsilon anywhere would swamp them.
    assert float(entropy(log_p)) == pytest.approx(1e-300 * (1 - tiny), rel=1e-12, abs=0)
    log_q = torch.tensor([-2e-300, tiny + math.log(2)], dtype=torch.float64)
    assert float(kl_divergence(log_p, log_q)) == pytest.approx(1e-300 * (1 - math.log(2)), rel=1e-12, abs=0)


def test_probabilities_below_the_range_of_the_type():
    log_p = torch.tensor([0.0, -5000.0], dtype=torch.float64)  # exp(−5000) is 0 in float64, and still not "never"
    assert cross_entropy(log_p, torch.tensor([0.0, NEVER], dtype=torch.float64)) == math.inf
    assert kl_divergence(log_p, torch.tensor([0.0, NEVER], dtype=torch.float64)) == math.inf
    assert kl_divergence(log_p, log_p) == 0
    assert entropy(log_p) == 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype):
    log_p, log_q = logs([0.21, 0.33, 0.46, 0.0], dtype), logs([0.11, 0.5, 0.29, 0.1], dtype)
    for function in (cross_entropy, kl_divergence):
        assert torch.equal(function(log_p, log_q), function(log_p.float(), log_q.float()))
        assert function(log_p, log_q).dtype == torch.float32
    assert torch.equal(entropy(log_p), entropy(log_p.float()))


def test_dim_and_broadcasting():
    log_p, log_q = distributions(0, 3, 4), distributions(1, 4)
    near(entropy(log_p.T, dim=0), entropy(log_p))
    near(cross_entropy(log_p.T, log_q[:, None], dim=0), [cross_entropy(row, log_q) for row in log_p])
    near(kl_divergence(log_q, log_p), [kl_divergence(log_q, row) for row in log_p])


def test_inputs_are_not_modified():
    log_p, log_q = logs([0.5, 0.5, 0.0]), logs([1.0, 0.0, 0.0])
    before = log_p.clone(), log_q.clone()
    entropy(log_p), cross_entropy(log_p, log_q), kl_divergence(log_p, log_q), elbo(log_p, log_q, log_p)
    assert torch.equal(log_p, before[0])
    assert torch.equal(log_q, before[1])


def test_one_hot_entropy_is_plus_zero():
    assert math.copysign(1.0, float(entropy(logs([0.0, 1.0])))) == 1.0
    assert entropy(logs([1.0])) == 0


def test_information_content_refuses_what_it_cannot_read():
    with pytest.raises(ValueError, match="exactly one"):
        information_content()
    with pytest.raises(ValueError, match="exactly one"):
        information_content(0.5, log_probability=-1.0)
    with pytest.raises(ValueError, match=r"probability: must be >= 0, found -0\.5"):
        information_content(-0.5)
    with pytest.raises(ValueError, match="probability"):
        information_content(torch.tensor([0.5, math.nan]))


@properties
@given(seeds, st.floats(0.05, 0.95))
def test_cross_entropy_is_linear_left_and_log_linear_right(seed, alpha):
    log_p1, log_p2, log_q1, log_q2 = distributions(seed, 4, 5)
    log_q1, log_q2 = log_q1 + 0.7, log_q2 - 1.1  # unnormalised
    near(
        cross_entropy(log_p1, log_q1 + math.log(alpha)),
        cross_entropy(log_p1, log_q1) + information_content(alpha),
    )
    near(cross_entropy(log_p1, alpha * log_q1), alpha * cross_entropy(log_p1, log_q1))
    near(cross_entropy(log_p1, log_q1 + log_q2), cross_entropy(log_p1, log_q1) + cross_entropy(log_p1, log_q2))
    log_mixture = torch.logaddexp(log_p1 + math.log(alpha), log_p2 + math.log1p(-alpha))
    right = cross_entropy(log_p1, alpha * log_q1) + cross_entropy(log_p2, (1 - alpha) * log_q1)
    near(cross_entropy(log_mixture, log_q1), right)


@properties
@given(seeds, st.floats(-3, 3))
def test_gibbs_inequality_for_unnormalised_q(seed, log_z):
    log_p, log_q = distributions(seed, 2, 4)
    assert cross_entropy(log_p, log_q + log_z) >= entropy(log_p) - log_z - 1e-10
    assert kl_divergence(log_p, log_q + log_z) > -log_z + 1e-9 or torch.allclose(log_p.exp(), log_q.exp(), atol=1e-4)
    near(kl_divergence(log_p, log_p + log_z), -log_z)  # equality when q/Z = p
    near(kl_divergence(log_p, log_q), cross_entropy(log_p, log_q) - entropy(log_p))


@properties
@given(seeds)
def test_conditional_kl_and_joint_kl_differ_by_the_entropy_of_the_condition(seed):
    log_p_XY = distributions(seed, 12).reshape(3, 4)
    log_q_X_given_Y = distributions(seed + 1, 4, 3).T
    log_p_Y = log_p_XY.logsumexp(0)
    conditional = (log_p_Y.exp() * kl_divergence(log_p_XY - log_p_Y, log_q_X_given_Y, dim=0)).sum()
    joint = kl_divergence(log_p_XY.flatten(), log_q_X_given_Y.flatten())
    near(conditional - joint, entropy(log_p_Y))


@properties
@given(seeds)
def test_elbo_gap_is_the_divergence_to_the_posterior(seed):
    log_q_K, log_prior_K = distributions(seed, 2, 6)
    log_likelihood_K = -10 * torch.rand(6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    log_evidence = (log_likelihood_K + log_prior_K).logsumexp(0)
    posterior_K = log_likelihood_K + log_prior_K - log_evidence
    near(log_evidence - elbo(log_likelihood_K, log_q_K, log_prior_K), kl_divergence(log_q_K, posterior_K))
    near(elbo(log_likelihood_K, posterior_K, log_prior_K), log_evidence)


def test_elbo_where_something_is_impossible():
    half_K = logs([0.5, 0.5])
    assert elbo(logs([0.1, 0.0]), logs([1.0, 0.0]), half_K) == pytest.approx(math.log(0.05))
    assert elbo(logs([0.1, 0.0]), half_K, half_K) == NEVER
    assert elbo(logs([0.1, 0.0]), half_K, logs([1.0, 0.0])) == NEVER
