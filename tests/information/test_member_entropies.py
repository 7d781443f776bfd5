"""Entropies of members beside the entropy of their mean: golden values, and bias and variance."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import natsel
from golden_values import golden, logs, random_draws
from natsel.information import (
    conditional_entropy,
    entropy_rmse,
    entropy_variance,
    linear_entropy,
    linear_mutual_information,
    log_mean,
    member_entropy,
    mutual_information,
    predictive_entropy,
    rank_inconsistency,
)

CASES = golden("02-ensembles-and-detection")


@pytest.mark.parametrize("name", ["ensemble_k2", "ensemble_weighted", "ensemble_k1"])
def test_golden_ensembles(name):
    inputs, expected = CASES[name]["inputs"], CASES[name]["outputs"]
    draws = logs(inputs["probs_N_K_C"]), logs(inputs.get("weights_K"))
    for entropy_N_K, row_K in zip(member_entropy(draws[0]).tolist(), expected["member_entropies"], strict=True):
        assert entropy_N_K == pytest.approx(row_K, abs=1e-12)
    found = {
        "predictive_entropy": predictive_entropy(*draws),
        "expected_entropy": conditional_entropy(*draws),
        "mutual_information": mutual_information(*draws),
        "entropy_variance": entropy_variance(*draws),
        "rmse": entropy_rmse(*draws),
        "linear_entropy": linear_entropy(log_mean(*draws)),
        "linear_mi": linear_mutual_information(*draws),
    }
    for quantity, value_N in found.items():
        assert value_N.tolist() == pytest.approx(expected[quantity], abs=1e-12), quantity
    if name == "ensemble_k1":
        assert entropy_variance(*draws).item() == entropy_rmse(*draws).item() == 0


def test_golden_rank_inconsistency():
    inputs, expected = CASES["rank_inconsistency"]["inputs"], CASES["rank_inconsistency"]["outputs"]
    more, less = logs(inputs["probs_1_K_C"]), logs(inputs["probs_2_K_C"])
    assert float(mutual_information(more) - mutual_information(less)) == pytest.approx(expected["mi_gap"])
    margin = expected["delta"] - expected["pe_gap"]
    found = rank_inconsistency(member_entropy(more)[0], member_entropy(less)[0], margin)
    assert found == pytest.approx(expected["fraction"])


@settings(deadline=None)
@given(st.integers(0, 10_000), st.booleans())
def test_bias_and_variance_add_up(seed, weighted):
    draws = random_draws(seed, points=6, draws=4, classes=3, weighted=weighted)
    weights_K = draws[1].exp()
    away_N_K = member_entropy(draws[0]) - predictive_entropy(*draws)[:, None]
    assert torch.allclose(entropy_rmse(*draws).square(), away_N_K.square() @ weights_K, rtol=0, atol=1e-12)
    assert torch.allclose(-(away_N_K @ weights_K), mutual_information(*draws), rtol=0, atol=1e-12)
    with natsel.memory_budget(500):
        assert torch.allclose(entropy_variance(*draws), entropy_rmse(*draws).square() - mutual_information(*draws) ** 2)
    assert entropy_variance(draws[0].float(), draws[1]).tolist() == pytest.approx(
        entropy_variance(*draws).tolist(), abs=1e-5
    )


@settings(deadline=None)
@given(st.integers(0, 10_000))
def test_some_member_ranks_the_more_uncertain_point_lower(seed):
    """Whenever I_1 > I_2 + δ and the predictive entropies differ by at most ε."""
    draws = random_draws(seed, points=2, draws=4, classes=3, zeros=False)
    information_N, total_N = mutual_information(*draws), predictive_entropy(*draws)
    more, less = information_N.argsort(descending=True).tolist()
    delta = 0.999 * float(information_N[more] - information_N[less])
    margin = delta - float((total_N[0] - total_N[1]).abs())
    entropy_N_K = member_entropy(draws[0])
    assert 0 < rank_inconsistency(entropy_N_K[more], entropy_N_K[less], margin, draws[1]) <= 1 + 1e-12


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="points x draws x classes"):
        member_entropy(torch.zeros(2, 3))
    with pytest.raises(ValueError, match="one number per member"):
        rank_inconsistency(torch.zeros(2), torch.zeros(3))
