"""Scores of potential outcomes: golden values, their symmetries, and agreement of draws, features and brute force."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, special

import natsel
from golden_values import golden
from natsel import GaussianPotentialOutcomes, PotentialOutcomes

CASES = golden("10-causal")
NAMES = {
    **{"tau": "tau-bald", "mu": "mu-bald", "rho": "rho-bald", "mu_rho": "mu-rho-bald"},
    **{"propensity": "propensity", "mu_pi": "mu-pi-bald"},
}


def belief_of(inputs, **options):
    given_ = {
        "propensity_N": inputs.get("pt_N"),
        "variance0_N_K": inputs.get("var0_N_K", 0.0),
        "variance1_N_K": inputs.get("var1_N_K", 0.0),
    }
    arms = (torch.tensor(inputs[name], dtype=torch.float64) for name in ("mu0_N_K", "mu1_N_K"))
    return PotentialOutcomes(*arms, inputs["t_N"], **given_ | options)


def scores(method, belief):
    return natsel.score(method, belief).numpy()


@pytest.mark.parametrize("name", ["log_scores_eps", "swap_arms", "degenerate"])
def test_golden_log_scores(name):
    belief, outputs = belief_of(CASES[name]["inputs"]), CASES[name]["outputs"]
    for key in NAMES.keys() & outputs.keys():
        for one in (belief, belief.jointly_gaussian()):
            np.testing.assert_allclose(scores(NAMES[key], one), outputs[key], rtol=1e-9, atol=1e-9)


def test_golden_information_about_effects():
    inputs, outputs = CASES["rho_exact"]["inputs"], CASES["rho_exact"]["outputs"]
    for key, noise in (("noise_1", 1.0), ("noise_0_25", 0.25), ("noise_0", 0.0)):
        belief = belief_of(inputs, variance0_N_K=noise, variance1_N_K=noise)
        np.testing.assert_allclose(scores("rho-exact", belief), outputs[key], rtol=1e-9)
    np.testing.assert_allclose(scores("rho-exact", belief_of(inputs)), outputs["heteroscedastic"], rtol=1e-9)
    tied = belief_of(CASES["degenerate"]["inputs"], variance0_N_K=1.0, variance1_N_K=1.0)
    expected = CASES["degenerate"]["outputs"]["rho_exact_noise_1"]
    np.testing.assert_allclose(scores("rho-exact", tied), expected, rtol=1e-9, atol=1e-12)


def test_golden_outcome_information_and_sign_errors():
    case = CASES["mu_ratio"]
    features = belief_of(case["inputs"]).jointly_gaussian()
    np.testing.assert_allclose(scores("bald", features), case["outputs"]["score_N"], rtol=1e-9)
    case = CASES["sign_error"]
    belief = belief_of(case["inputs"])
    np.testing.assert_allclose(scores("sign-error", belief), case["outputs"]["score_N"], rtol=1e-9)
    # √2 in the denominator is a noise of 1 in each arm, less the 10⁻⁷ that is added.
    two = belief_of(case["inputs"], variance0_N_K=1.0, variance1_N_K=1 - 1e-7)
    np.testing.assert_allclose(scores("sign-error", two), case["outputs"]["score_sqrt2_N"], rtol=1e-6)


def test_golden_yes_or_no():
    case = CASES["mu_bernoulli"]
    prob_N_K = case["inputs"]["prob_N_K"]
    belief = natsel.YesOrNoOutcomes(np.zeros_like(prob_N_K), prob_N_K, [1] * len(prob_N_K))
    for seen in (belief.observed(), belief):  # a learner has the second
        np.testing.assert_allclose(scores("bald", seen), case["outputs"]["score_N"], rtol=1e-6, atol=1e-9)


def test_golden_closed_form():
    case = CASES["closed_form_gp"]
    outputs = case["outputs"]
    root_N_2_2 = torch.linalg.cholesky(torch.tensor(case["inputs"]["cov_N_2_2"], dtype=torch.float64))
    noise = case["inputs"]["noise"]
    arms = root_N_2_2[:, 0], root_N_2_2[:, 1]
    belief = GaussianPotentialOutcomes(*arms, case["inputs"]["t_N"], noise0=noise, noise1=noise)
    np.testing.assert_allclose(np.exp(scores("tau-bald", belief)), outputs["tau_raw"], rtol=1e-6)
    np.testing.assert_allclose(np.exp(scores("mu-rho-bald", belief)), outputs["mu_rho_raw"], rtol=1e-6)
    np.testing.assert_allclose(scores("rho-bald", belief), outputs["rho"], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(scores("rho-exact", belief), outputs["rho_exact"], rtol=1e-9)
    np.testing.assert_allclose(scores("bald", belief), outputs["mu_ratio"], rtol=1e-9)


def test_golden_failures_of_the_ratio_and_of_unpaired_draws():
    inputs, outputs = CASES["rho_failure"]["inputs"], CASES["rho_failure"]["outputs"]
    belief = belief_of(inputs)
    np.testing.assert_allclose(scores("rho-bald", belief), outputs["rho_N"], atol=1e-4)
    np.testing.assert_allclose(np.exp(scores("mu-rho-bald", belief)), outputs["mu_rho_raw_N"], rtol=1e-4)
    unpaired = CASES["unpaired_draws"]
    other = belief_of(unpaired["inputs"])
    np.testing.assert_allclose(np.exp(scores("tau-bald", other)), unpaired["outputs"]["v_tau_N"], rtol=1e-5)
    np.testing.assert_allclose(np.exp(scores("mu-bald", other)), unpaired["outputs"]["mu_raw_N"], rtol=1e-5)


def test_golden_stochastic_probabilities():
    case = CASES["stochastic_probabilities"]
    belief, outputs = belief_of(case["inputs"]), case["outputs"]
    for key, method, beta in (("mu_rho_N", "mu-rho-bald", 4), ("rho_N", "rho-bald", 8)):
        score_N = scores(method, belief)
        chance_N = np.exp(beta * (score_N - score_N.max()))
        np.testing.assert_allclose(chance_N / chance_N.sum(), outputs[key], rtol=2e-4)
        assert natsel.methods()[f"softmax-{method}"].search.beta == beta


def random_belief(seed, points=4, draws=6):
    rng = np.random.default_rng(seed)
    arms = rng.normal(size=(2, points, draws)) + rng.normal(size=(1, points, draws))
    noise = rng.uniform(0.1, 2, size=(2, points, draws))
    return {
        **{"mean0_N_K": arms[0], "mean1_N_K": arms[1], "treatment_N": rng.integers(0, 2, points)},
        **{"propensity_N": rng.uniform(0.05, 0.95, points), "variance0_N_K": noise[0], "variance1_N_K": noise[1]},
    }


METHODS = ("tau-bald", "mu-bald", "rho-bald", "mu-rho-bald", "mu-pi-bald", "propensity", "rho-exact", "sign-error")


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_symmetries(seed):
    arrays = random_belief(seed)
    belief = PotentialOutcomes(**arrays)
    swapped = {
        **{"mean0_N_K": arrays["mean1_N_K"], "mean1_N_K": arrays["mean0_N_K"]},
        **{"variance0_N_K": arrays["variance1_N_K"], "variance1_N_K": arrays["variance0_N_K"]},
        **{"treatment_N": 1 - arrays["treatment_N"], "propensity_N": 1 - arrays["propensity_N"]},
    }
    shifted = arrays | {"mean0_N_K": arrays["mean0_N_K"] + 3.0, "mean1_N_K": arrays["mean1_N_K"] - 1.5}
    for method in METHODS:
        found_N = scores(method, belief)
        np.testing.assert_allclose(scores(method, PotentialOutcomes(**swapped)), found_N, rtol=1e-6, atol=1e-9)
        if method != "sign-error":
            np.testing.assert_allclose(scores(method, PotentialOutcomes(**shifted)), found_N, rtol=1e-6, atol=1e-9)
    other = PotentialOutcomes(**arrays | {"treatment_N": 1 - arrays["treatment_N"]})
    np.testing.assert_allclose(scores("tau-bald", other), scores("tau-bald", belief))
    both = np.exp(scores("propensity", belief)) + np.exp(scores("propensity", other))
    np.testing.assert_allclose(both, 1.0, atol=1e-6)
    assert (scores("sign-error", belief) <= math.log(1.25)).all()


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_information_about_the_effect_is_that_of_two_gaussians(seed):
    arrays = random_belief(seed)
    belief = PotentialOutcomes(**arrays)
    found_N = scores("rho-exact", belief)
    for n in range(len(found_N)):
        arm = (arrays["mean0_N_K"], arrays["mean1_N_K"])[arrays["treatment_N"][n]][n]
        noise = (arrays["variance0_N_K"], arrays["variance1_N_K"])[arrays["treatment_N"][n]][n].mean()
        effect = arrays["mean1_N_K"][n] - arrays["mean0_N_K"][n]
        cov = np.cov(arm, effect, bias=True) + np.diag([noise, 0.0])
        exact = 0.5 * np.log(cov[0, 0] * cov[1, 1] / np.linalg.det(cov))
        assert found_N[n] == pytest.approx(exact, rel=1e-8)
        assert -1e-12 <= found_N[n] <= 0.5 * np.log1p(np.var(arm) / noise) + 1e-12


def test_labels_tell_about_effects_of_others_by_epig():
    arrays = random_belief(3, points=30, draws=12)
    belief = PotentialOutcomes(**arrays, draws_id="fit").jointly_gaussian()
    found = natsel.select("epig", belief.observed(), k=3, targets=belief.effects())
    assert len(set(found.ids.tolist())) == 3
    batch = natsel.select("batchbald", belief, k=3)
    assert batch.ids.tolist() == natsel.select("batchbald", belief.observed(), k=3).ids.tolist()


def test_sign_errors_of_gaussians_are_the_limit_of_draws():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(5, 2, 2))
    mean = rng.normal(size=(2, 5))
    exact = GaussianPotentialOutcomes(
        root[:, 0], root[:, 1], [0, 1, 0, 1, 1], noise0=0.5, noise1=0.7, mean0=mean[0], mean1=mean[1]
    )
    weight_2_K = rng.normal(size=(2, 200_000))
    drawn = PotentialOutcomes(
        mean[0][:, None] + root[:, 0] @ weight_2_K,
        mean[1][:, None] + root[:, 1] @ weight_2_K,
        [0, 1, 0, 1, 1],
        variance0_N_K=0.5,
        variance1_N_K=0.7,
    )
    np.testing.assert_allclose(scores("sign-error", exact), scores("sign-error", drawn), atol=2e-3)


@settings(max_examples=30, deadline=None)
@given(
    mean=st.floats(-3, 3),
    spread=st.floats(-4, 3).map(lambda power: 10**power),
    noise=st.floats(-2.5, 2).map(lambda power: 10**power),
)
def test_sign_errors_of_gaussians_are_the_integral_however_narrow_either_is(mean, spread, noise):
    belief = GaussianPotentialOutcomes([[0.0]], [[spread]], [0], noise0=noise**2, noise1=0.0, mean0=0.0, mean1=mean)
    scale = math.sqrt(noise**2 + 1e-7)
    marks = [0.0, mean, *(sign * step * unit for sign in (-1, 1) for step in (1, 3, 6, 12) for unit in (scale,))]
    marks += [mean + sign * step * spread for sign in (-1, 1) for step in (1, 3, 6)]
    ends = [mean - 9.5 * spread, mean + 9.5 * spread]
    edges = sorted({*ends, *(mark for mark in marks if ends[0] < mark < ends[1])})

    def entropy(chance):
        return -(special.xlogy(chance, chance) + special.xlog1py(1 - chance, -chance))

    def mean_of(function):
        def weighted(effect):
            density = math.exp(-0.5 * ((effect - mean) / spread) ** 2) / (math.sqrt(2 * math.pi) * spread)
            return density * function(special.ndtr(-abs(effect) / scale))

        return sum(integrate.quad(weighted, *part, epsabs=1e-13, epsrel=1e-10)[0] for part in pairwise(edges))

    exact = entropy(mean_of(lambda chance: chance)) - mean_of(entropy)
    assert scores("sign-error", belief)[0] == pytest.approx(exact, abs=1e-9)


def test_information_about_the_effect_does_not_depend_on_units():
    arrays = random_belief(4)
    expected_N = scores("rho-exact", PotentialOutcomes(**arrays))
    for unit in (1e-60, 1e100):
        powers = dict.fromkeys(("mean0_N_K", "mean1_N_K"), unit)
        powers |= dict.fromkeys(("variance0_N_K", "variance1_N_K"), unit**2)
        other = PotentialOutcomes(**arrays | {name: arrays[name] * power for name, power in powers.items()})
        np.testing.assert_allclose(scores("rho-exact", other), expected_N, rtol=1e-9)


def test_arms_of_other_points_are_not_paired():
    arm = natsel.GaussianSamples([[0.0, 1.0], [10.0, 11.0]], 1.0, draws_id="fit", ids=["a", "b"])
    features = natsel.GaussianFeatures([[1.0], [2.0]], draws_id="fit", ids=["a", "b"])
    for kind, one in ((PotentialOutcomes, arm), (GaussianPotentialOutcomes, features)):
        assert kind.from_arms(one, one, [0, 1]).ids.tolist() == ["a", "b"]
        with pytest.raises(ValueError, match=r"^treated: 2 points with other ids, or in another order, than the 2 of"):
            kind.from_arms(one, one[[1, 0]], [0, 1])
        with pytest.raises(ValueError, match=r"^control: expected Gaussian\w+, found ndarray; pass arrays"):
            kind.from_arms(np.ones((2, 2)), one, [0, 1])
    with pytest.raises(ValueError, match=r"^mean0: expected shape \(1,\), found \(2,\); pass one value"):
        GaussianPotentialOutcomes([[1.0]], [[1.0]], [0], mean0=[1.0, 2.0])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"treatment_N": [2, 0, 1, 0]}, "treatment_N: expected 0 or 1, found 2"),
        ({"treatment_N": [1, 0]}, "treatment_N: expected one for each of 4 points"),
        ({"propensity_N": [0.5, 0.5, 1.5, 0.5]}, "propensity_N: expected probabilities from 0 to 1"),
        ({"propensity_N": [0.5, 0.5, math.nan, 0.5]}, "propensity_N: expected probabilities from 0 to 1"),
        ({"variance0_N_K": -1.0}, "variance0_N_K: variances must not be negative"),
        ({"mean1_N_K": np.zeros((4, 5))}, "mean1_N_K: expected points × draws for both arms"),
        ({"mean0_N_K": np.full((4, 6), np.nan)}, "mean0_N_K: found NaN"),
    ],
)
def test_wrong_input_is_refused(change, words):
    with pytest.raises(ValueError, match=words):
        PotentialOutcomes(**random_belief(0) | change)


def test_what_is_not_known_is_refused_where_it_is_needed():
    arrays = random_belief(0) | {"propensity_N": None, "variance0_N_K": 0.0, "variance1_N_K": 0.0}
    belief = PotentialOutcomes(**arrays)
    with pytest.raises(ValueError, match="propensity_N: this belief knows none"):
        natsel.score("mu-pi-bald", belief)
    for method in ("bald", "sign-error"):
        for one in (belief, belief.jointly_gaussian()):
            with pytest.raises(ValueError, match="the noise of outcomes is not known"):
                natsel.score(method, one)
    assert len(natsel.select("mu-rho-bald", belief, k=2).ids) == 2


# Yes or no: the information of a label about an effect is a sum over the draws.


def test_rho_exact_of_yes_or_no_is_a_sum_over_effects():
    """By hand: draws 0 and 2 have one effect, though rounding parts their differences, and draw 1 another."""
    weights_K = np.array([0.2, 0.5, 0.3])
    control, treated = np.array([[0.1, 0.6, 0.3]]), np.array([[0.3, 0.2, 0.5]])
    assert 0.3 - 0.1 != 0.5 - 0.3
    together = (0.2 * 0.3 + 0.3 * 0.5) / 0.5
    h = lambda p: -(p * np.log(p) + (1 - p) * np.log1p(-p))  # noqa: E731
    expected = h(weights_K @ treated[0]) - 0.5 * h(together) - 0.5 * h(0.2)
    belief = natsel.YesOrNoOutcomes(control, treated, [1], log_weights_K=np.log(weights_K))
    assert float(scores("rho-exact", belief)[0]) == pytest.approx(expected, rel=1e-12)
    single = natsel.YesOrNoOutcomes(
        torch.from_numpy(control).float(), torch.from_numpy(treated).float(), [1], log_weights_K=np.log(weights_K)
    )
    assert float(scores("rho-exact", single)[0]) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("draws", [2, 3, 100])
def test_a_yes_or_no_label_tells_at_most_ln_2_of_an_effect(draws):
    """Certain members, effects that only one arm decides, arms that vary with each other, full trees of a forest."""
    rng = np.random.default_rng(0)
    votes = rng.integers(0, 2, size=(2, 200, draws)).astype(float)
    vague = rng.uniform(size=(2, 200, draws))
    for control, treated in (votes, vague, (votes[0], votes[0]), (1 - votes[0], votes[0]), (votes[0], vague[0])):
        for treatment in (0, 1):
            belief = natsel.YesOrNoOutcomes(control, treated, np.full(200, treatment))
            found_N = scores("rho-exact", belief)
            assert bool((found_N >= 0).all() and (found_N <= np.log(2) + 1e-12).all())
            assert bool((found_N <= scores("bald", belief) + 1e-12).all()), "the effect is a function of the draw"
    assert scores("rho-exact", natsel.YesOrNoOutcomes(votes[0], votes[0], np.ones(200))).max() == 0
    selection = natsel.select("rho-exact", natsel.YesOrNoOutcomes(*vague, np.ones(200)), 5)
    assert not any(warning.startswith("moment-matched") for warning in selection.warnings)
