import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from golden_values import golden, logs, random_draws
from natsel.information.entropies import entropy
from natsel.information.joint_labels import (
    DynamicJointEntropy,
    ExactJointEntropy,
    JointEntropy,
    configuration_weights,
    joint_entropy,
    joint_mutual_information,
    total_correlation,
)
from natsel.information.mutual import conditional_entropy, mutual_information, predictive_entropy

GOLDEN = golden("03-batchbald")
POOLS = [name for name, case in GOLDEN.items() if case["expected"].get("sets")]
PAIRS = [name for name, case in GOLDEN.items() if "best_batch" in case["expected"]]
SAMPLED = [name for name in GOLDEN if name.startswith("sampled_formula")]
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}
BOTH = pytest.mark.parametrize("dtype", list(TOLERANCE))

properties = settings(deadline=None, max_examples=30)
seeds = st.integers(0, 2**31)
sizes = st.tuples(st.integers(1, 4), st.integers(1, 3))  # draws, classes


def near(actual, expected, tolerance=1e-10):
    actual, expected = (torch.as_tensor(x, dtype=torch.float64) for x in (actual, expected))
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def pool(name, dtype=torch.float64):
    inputs = GOLDEN[name]["inputs"]
    return logs(inputs["probs_N_K_C"], dtype), logs(inputs["weights_K"], dtype)


def uniform(draws):
    return torch.full((draws,), -math.log(draws), dtype=torch.float64)


def enumerated(log_probs_B_K_C, log_weights_K):
    """(probability, draw weights) of every label configuration of positive probability, by plain loops."""
    w, p = log_weights_K.exp().tolist(), log_probs_B_K_C.exp().tolist()
    for labels in itertools.product(range(log_probs_B_K_C.shape[2]), repeat=len(p)):
        joint = [w_k * math.prod(p[b][k][y] for b, y in enumerate(labels)) for k, w_k in enumerate(w)]
        if sum(joint) > 0:
            yield sum(joint), [value / sum(joint) for value in joint]


@BOTH
@pytest.mark.parametrize("name", POOLS)
def test_sets_match_golden_values(name, dtype):
    log_probs_N_K_C, log_weights_K = pool(name, dtype)
    for row in GOLDEN[name]["expected"]["sets"]:
        log_probs_B_K_C = log_probs_N_K_C[row["points"]]
        near(joint_entropy(log_probs_B_K_C, log_weights_K), row["joint_entropy"], TOLERANCE[dtype])
        near(joint_mutual_information(log_probs_B_K_C, log_weights_K), row["batchbald"], TOLERANCE[dtype])
        near(total_correlation(log_probs_B_K_C, log_weights_K), row["total_correlation"], TOLERANCE[dtype])
    prior_K = uniform(log_probs_N_K_C.shape[1]) if log_weights_K is None else log_weights_K
    near(entropy(prior_K), GOLDEN[name]["expected"]["prior_entropy_H_Omega"], TOLERANCE[dtype])


@pytest.mark.parametrize("name", PAIRS)
def test_pairs_best_batches_and_chain_rule_match_golden_values(name):
    log_probs_N_K_C, log_weights_K = pool(name)
    prior_K = uniform(log_probs_N_K_C.shape[1]) if log_weights_K is None else log_weights_K
    expected, points = GOLDEN[name]["expected"], range(len(log_probs_N_K_C))
    values = [
        [joint_mutual_information(log_probs_N_K_C[sorted({i, j})], log_weights_K) for j in points] for i in points
    ]
    near(values, expected["pair_batchbald_N_N (diagonal: BALD)"])
    for size, best in expected["best_batch"].items():
        batches = list(itertools.combinations(points, int(size)))
        scores = [joint_mutual_information(log_probs_N_K_C[list(batch)], log_weights_K) for batch in batches]
        assert list(batches[scores.index(max(scores))]) == best["points"]
        near(max(scores), best["value"])
    state = ExactJointEntropy(prior_K)
    for pick, gain in zip(expected["greedy"]["indices"], expected["gains_by_reweighted_bald"], strict=False):
        near(state.gains(log_probs_N_K_C[pick, None])[0], gain)
        state.add(log_probs_N_K_C[pick])


@pytest.mark.parametrize("name", SAMPLED)
def test_the_sampled_formula_on_given_configurations(name):
    inputs, expected = GOLDEN[name]["inputs"], GOLDEN[name]["expected"]
    log_probs_N_K_C, log_weights_K = pool(name)
    taken_B_K_C, candidates_N_K_C = log_probs_N_K_C[inputs["selected"]], log_probs_N_K_C[inputs["candidates"]]
    labels_B_S = torch.tensor(inputs["configurations_M_s"]).T
    state = JointEntropy(*configuration_weights(taken_B_K_C, labels_B_S, log_weights_K), exact=False)
    near(state.entropy_with(candidates_N_K_C), expected["sampled_joint_entropy"])
    near(state.entropy_given(candidates_N_K_C), expected["mean_entropy_of_candidate_given_configuration"])
    near(state.entropy(), expected["mean_minus_log_q (same for all candidates)"])
    near(state.gains(candidates_N_K_C), expected["mean_bald_under_configuration_weights"])
    errors_N = state.standard_errors(candidates_N_K_C, of="entropy")
    near(errors_N, expected["standard_error_of_mean_g (std with M-1, over sqrt M)"])
    for m in range(labels_B_S.shape[1]):
        one = JointEntropy(*configuration_weights(taken_B_K_C, labels_B_S[:, m, None], log_weights_K), exact=False)
        near(one.entropy_with(candidates_N_K_C), [row[m] for row in expected["per_configuration_g"]])
    exact = ExactJointEntropy(uniform(taken_B_K_C.shape[1]) if log_weights_K is None else log_weights_K)
    for log_probs_K_C in taken_B_K_C:
        exact.add(log_probs_K_C)
    near(exact.entropy_with(candidates_N_K_C), expected["exact_joint_entropy"])


def test_products_far_below_the_range_of_float64():
    inputs, expected = GOLDEN["sampled_underflow"]["inputs"], GOLDEN["sampled_underflow"]["expected"]
    taken_B_K_C = logs(inputs["selected_point_probs_K_C"]).expand(inputs["copies"], -1, -1)
    weights_S_K, log_q_S = configuration_weights(taken_B_K_C, torch.ones(inputs["copies"], 1, dtype=torch.int64))
    near(log_q_S, [expected["log_proposal_mass"]])
    state = JointEntropy(weights_S_K, log_q_S, exact=False)
    near(state.entropy_with(logs([inputs["candidate_probs_K_C"]])), [expected["sampled_joint_entropy"]])


def test_long_exact_chains_keep_normalised_rows():
    """Nine labels of probability 1e-40 each: together possible, and far below the range of float64."""
    sure_K_C = logs([[1.0, 1e-40], [1.0, 0.0]])
    state = ExactJointEntropy(logs([0.5, 0.5]))
    for _ in range(9):
        state.add(sure_K_C)
    near(state.weights_S_K.sum(1), torch.ones(len(state.weights_S_K)), 1e-12)
    near(float(state.mass_S.sum()), 1.0, 1e-12)
    near(float(state.log_q_S.min()), math.log(0.5) + 9 * math.log(1e-40), 1e-12)


@properties
@given(seeds, sizes, st.integers(0, 3))
def test_enumeration_by_plain_loops(seed, size, points):
    log_probs_B_K_C, log_weights_K = random_draws(seed, points, *size)
    table = list(enumerated(log_probs_B_K_C, log_weights_K))
    near(joint_entropy(log_probs_B_K_C, log_weights_K), -sum(q * math.log(q) for q, _ in table))
    left = sum(q * -sum(r * math.log(r) for r in row if r > 0) for q, row in table)
    near(joint_mutual_information(log_probs_B_K_C, log_weights_K), float(entropy(log_weights_K)) - left)
    state = ExactJointEntropy(log_weights_K)
    for log_probs_K_C in log_probs_B_K_C:
        state.add(log_probs_K_C)
    near(sorted(state.mass_S.tolist()), sorted(q for q, _ in table))
    near(state.entropy(), joint_entropy(log_probs_B_K_C, log_weights_K))


@properties
@given(seeds, sizes, st.integers(0, 2))
def test_gains_are_the_chain_rule(seed, size, taken):
    """I[Y;Ω|taken]: difference of joint values, H given − cond, and BALD averaged over posteriors agree."""
    log_probs_N_K_C, log_weights_K = random_draws(seed, taken + 3, *size)
    taken_B_K_C, candidates_N_K_C = log_probs_N_K_C[:taken], log_probs_N_K_C[taken:]
    state = ExactJointEntropy(log_weights_K)
    for log_probs_K_C in taken_B_K_C:
        state.add(log_probs_K_C)
    gains_N = state.gains(candidates_N_K_C)
    before = joint_mutual_information(taken_B_K_C, log_weights_K)
    for gain, log_probs_K_C in zip(gains_N, candidates_N_K_C, strict=True):
        together_B_K_C = torch.cat([taken_B_K_C, log_probs_K_C[None]])
        near(joint_mutual_information(together_B_K_C, log_weights_K) - before, gain)
    near(state.entropy_given(candidates_N_K_C) - conditional_entropy(candidates_N_K_C, log_weights_K), gains_N)
    near(state.entropy_with(candidates_N_K_C), state.entropy() + state.entropy_given(candidates_N_K_C))
    average_N = sum(
        q * mutual_information(candidates_N_K_C, torch.tensor(row, dtype=torch.float64).log())
        for q, row in enumerated(taken_B_K_C, log_weights_K)
    )
    near(average_N, gains_N)
    assert (state.standard_errors(candidates_N_K_C) == 0).all()
    assert (state.difference_standard_errors(candidates_N_K_C, best=1) == 0).all()


@properties
@given(seeds, sizes, st.integers(1, 3))
def test_bounds_and_total_correlation(seed, size, points):
    given_draws = log_probs_B_K_C, log_weights_K = random_draws(seed, points, *size)
    value, bald_B = joint_mutual_information(*given_draws), mutual_information(*given_draws)
    assert 0 <= value <= min(joint_entropy(*given_draws), float(entropy(log_weights_K)), float(bald_B.sum())) + 1e-10
    near(float(bald_B.sum()) - value, total_correlation(*given_draws))
    single = joint_mutual_information(log_probs_B_K_C[:1], log_weights_K)
    near(single, bald_B[0])
    near(total_correlation(log_probs_B_K_C[:1], log_weights_K), 0.0)
    near(joint_entropy(log_probs_B_K_C[:1], log_weights_K), predictive_entropy(*given_draws)[0])


@properties
@given(seeds, st.tuples(st.integers(2, 4), st.integers(2, 3)))
def test_monotone_submodular_and_symmetric(seed, size):
    log_probs_N_K_C, log_weights_K = random_draws(seed, 4, *size)

    def value(*points):
        return joint_mutual_information(log_probs_N_K_C[list(points)], log_weights_K)

    assert value(0, 1, 2) >= value(0, 1) - 1e-10
    assert value(0, 1, 2) + value(0, 1, 3) >= value(0, 1, 2, 3) + value(0, 1) - 1e-10
    near(value(2, 0, 1), value(0, 1, 2))
    generator = torch.Generator().manual_seed(seed)
    order_K = torch.randperm(size[0], generator=generator)
    relabelled = torch.stack([point[:, torch.randperm(size[1], generator=generator)] for point in log_probs_N_K_C[:3]])
    expected = value(0, 1, 2)
    near(joint_mutual_information(relabelled, log_weights_K), expected)
    near(joint_mutual_information(log_probs_N_K_C[:3, order_K], log_weights_K[order_K]), expected)
    doubled = log_probs_N_K_C[:3].repeat(1, 2, 1), log_weights_K.repeat(2) - math.log(2)
    near(joint_mutual_information(*doubled), expected)
    even = joint_mutual_information(log_probs_N_K_C[:3], uniform(size[0]))
    near(joint_mutual_information(log_probs_N_K_C[:3]), even)


def test_weights_that_name_one_draw_or_leave_one_out():
    log_probs_B_K_C, _ = random_draws(5, 3, 4, 3, zeros=False)
    near(joint_mutual_information(log_probs_B_K_C, logs([0.0, 1.0, 0.0, 0.0])), 0.0)
    log_weights_K = logs([0.5, 0.2, 0.3, 0.0])
    other_B_K_C = log_probs_B_K_C.clone()
    log_probs_B_K_C[:, :3, 2], other_B_K_C[:, :3, 2] = -math.inf, -math.inf
    other_B_K_C[:, 3] = logs([0.0, 0.0, 1.0])  # alone allows class 2
    log_probs_B_K_C, other_B_K_C = log_probs_B_K_C.log_softmax(-1), other_B_K_C.log_softmax(-1)
    for function in (joint_entropy, joint_mutual_information, total_correlation):
        assert function(log_probs_B_K_C, log_weights_K) == function(other_B_K_C, log_weights_K) > 0.01
        without = function(log_probs_B_K_C[:, :3], log_weights_K[:3])
        near(function(other_B_K_C, log_weights_K), without)


def test_copies_and_constants():
    names_the_draw_K_C = logs([[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]])
    noisy_K_C = logs([[0.7, 0.2, 0.1], [0.2, 0.3, 0.5]])
    constant_K_C = logs([[0.2, 0.3, 0.5]] * 2)
    state = ExactJointEntropy(uniform(2))
    state.add(names_the_draw_K_C)
    assert (state.gains(torch.stack([names_the_draw_K_C, noisy_K_C, constant_K_C])) == 0).all()
    state = ExactJointEntropy(uniform(2))
    state.add(noisy_K_C)
    copy, constant = state.gains(torch.stack([noisy_K_C, constant_K_C])).tolist()
    assert 0.01 < copy < float(mutual_information(noisy_K_C[None])) - 0.01
    assert constant < 1e-15


def test_inconsistent_draws_look_like_more_information():
    """Permuting the draws of each point breaks the correlation that makes joint scores smaller."""
    base_K_C = random_draws(0, 1, 20, 2, zeros=False)[0][0]
    log_probs_B_K_C = base_K_C.expand(3, -1, -1)
    consistent = joint_mutual_information(log_probs_B_K_C)
    generator = torch.Generator().manual_seed(0)
    permuted = [
        joint_mutual_information(torch.stack([base_K_C[torch.randperm(20, generator=generator)] for _ in range(3)]))
        for _ in range(100)
    ]
    assert sum(permuted) / 100 > consistent + 0.1
    assert sum(permuted) / 100 < 3 * float(mutual_information(base_K_C[None]))


def test_dynamic_is_exact_while_the_configurations_fit():
    log_probs_N_K_C, log_weights_K = random_draws(1, 6, 4, 3, zeros=False)
    exact, dynamic = (
        ExactJointEntropy(log_weights_K),
        DynamicJointEntropy(log_weights_K, count=9, generator=torch.Generator().manual_seed(0)),
    )
    for step in range(3):
        assert dynamic.exact is (step <= 2)
        near(dynamic.gains(log_probs_N_K_C), exact.gains(log_probs_N_K_C), 1e-14)
        exact.add(log_probs_N_K_C[step])
        dynamic.add(log_probs_N_K_C[step])
    assert not dynamic.exact  # 27 configurations do not fit
    assert len(dynamic.mass_S) == 9
    assert (dynamic.standard_errors(log_probs_N_K_C) > 0).all()


def test_tables_too_large_are_refused_before_they_are_built():
    log_probs_B_K_C = torch.zeros(12, 100, 10).log_softmax(-1)
    with pytest.raises(ValueError, match="too many to list"):
        joint_entropy(log_probs_B_K_C)
    with pytest.raises(ValueError, match=r"labels_B_S.*\[1\]"):
        configuration_weights(logs([[[1.0, 0.0]]]), torch.tensor([[0, 1]]))
