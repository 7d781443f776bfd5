import math

import pytest
import torch

from golden_values import logs, random_draws
from natsel.information import joint_labels as joint
from natsel.information.entropies import entropy
from natsel.information.joint_labels import (
    DynamicJointEntropy,
    ExactJointEntropy,
    JointEntropy,
    SampledJointEntropy,
    joint_mutual_information,
    joint_mutual_information_sampled,
    sample_configurations,
    systematic_resample,
)

LOG_PROBS, LOG_WEIGHTS = random_draws(4, 6, 5, 3)  # zeros, uneven weights, one draw of weight 0
TAKEN, CANDIDATES = LOG_PROBS[:3], LOG_PROBS[3:]


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def exact_state():
    state = ExactJointEntropy(LOG_WEIGHTS)
    for log_probs_K_C in TAKEN:
        state.add(log_probs_K_C)
    return state


def sampled_states(count, runs):
    for seed in range(runs):
        yield JointEntropy(*sample_configurations(TAKEN, count, LOG_WEIGHTS, seeded(seed)), exact=False)


def assert_unbiased(estimates_R_N, expected_N):
    """The mean lies within 4 standard errors of the truth, which is a narrow band."""
    error_N = estimates_R_N.std(0) / math.sqrt(len(estimates_R_N))
    assert ((estimates_R_N.mean(0) - expected_N).abs() <= 4 * error_N + 1e-12).all()
    assert (error_N < 0.04).all()


@pytest.mark.parametrize("count", [2, 7, 60])
def test_sampled_estimators_are_unbiased(count):
    exact, states = exact_state(), list(sampled_states(count, 600))
    assert_unbiased(torch.stack([s.gains(CANDIDATES) for s in states]), exact.gains(CANDIDATES))
    assert_unbiased(torch.stack([s.entropy_given(CANDIDATES) for s in states]), exact.entropy_given(CANDIDATES))
    assert_unbiased(torch.tensor([[s.entropy()] for s in states]), torch.tensor([exact.entropy()]))


def test_variance_falls_like_one_over_the_count():
    few, many = (torch.stack([s.gains(CANDIDATES) for s in sampled_states(n, 400)]).var(0) for n in (50, 800))
    ratio_N = few / many
    assert (ratio_N > 16 / 1.6).all()  # 400 runs know a ratio of variances to about 10 %
    assert (ratio_N < 16 * 1.6).all()


def test_standard_errors_are_honest():
    """Of gains, joint entropies and differences: as large as the scatter over seeds, or somewhat larger."""
    states = list(sampled_states(100, 400))
    for reported, actual in (
        ([s.standard_errors(CANDIDATES) for s in states], [s.gains(CANDIDATES) for s in states]),
        (
            [s.standard_errors(CANDIDATES, of="entropy") for s in states],
            [s.entropy_with(CANDIDATES) for s in states],
        ),
        (
            [s.difference_standard_errors(CANDIDATES, best=0)[1:] for s in states],
            [s.gains(CANDIDATES)[1:] - s.gains(CANDIDATES)[0] for s in states],
        ),
    ):
        ratio_N = torch.stack(reported).mean(0) / torch.stack(actual).std(0)
        assert (ratio_N > 0.85).all()
        assert (ratio_N < 2.5).all()


def test_copies_differ_by_nothing_on_common_configurations():
    state = next(sampled_states(50, 1))
    copies_N_K_C = CANDIDATES[[0, 0, 1]]
    errors_N = state.difference_standard_errors(copies_N_K_C, best=1)
    assert errors_N[0] == errors_N[1] == 0 < errors_N[2]
    assert state.standard_errors(copies_N_K_C)[0] > 0


def test_one_configuration_has_no_known_error():
    state = next(sampled_states(1, 1))
    assert (state.standard_errors(CANDIDATES) == math.inf).all()
    assert torch.isfinite(state.gains(CANDIDATES)).all()


def test_blocks_of_candidates_do_not_show(monkeypatch):
    state = next(sampled_states(40, 1))
    expected = state.gains(LOG_PROBS), state.difference_standard_errors(LOG_PROBS, best=4)
    monkeypatch.setattr(joint, "_BLOCK", 250)  # two candidates of 40 x 3 at a time
    torch.testing.assert_close(state.gains(LOG_PROBS), expected[0], rtol=0, atol=1e-15)
    torch.testing.assert_close(state.difference_standard_errors(LOG_PROBS, best=4), expected[1], rtol=0, atol=1e-15)
    assert state.gains(LOG_PROBS[:0]).shape == (0,)


def test_rows_are_posteriors_of_possible_configurations():
    weights_S_K, log_q_S = sample_configurations(TAKEN, 500, LOG_WEIGHTS, seeded(0))
    torch.testing.assert_close(weights_S_K.sum(1), torch.ones(500, dtype=torch.float64))
    assert torch.isfinite(log_q_S).all()
    assert (log_q_S < 0).all()
    assert (weights_S_K[:, -math.inf == LOG_WEIGHTS] == 0).all()


def test_systematic_resampling_keeps_the_proposal_unbiased():
    log_weights_K = logs([0.0, 0.6, 0.3, 0.0, 0.1, 0.0])
    counts_R_K = torch.stack(
        [systematic_resample(log_weights_K, 4, seeded(s)).bincount(minlength=6) for s in range(2000)]
    )
    expected_K = 4 * log_weights_K.exp()
    assert (counts_R_K.sum(1) == 4).all()
    assert ((counts_R_K - expected_K).abs() < 1).all()  # floor or ceil, and never a draw of weight 0
    # Rounding 4·w would give 2, 1, 0 every time; whether one more comes has s.e. at most 0.5/sqrt(2000).
    assert ((counts_R_K.double().mean(0) - expected_K).abs() < 4 * 0.5 / math.sqrt(2000)).all()


@pytest.mark.parametrize("count", [1, 3, 100_003])
def test_systematic_resampling_never_points_past_the_weights(count):
    log_weights_K = logs([0.0, 1e-9, 0.7, 0.3 - 1e-9, 0.0, 0.0])
    for seed in range(20):
        k_S = systematic_resample(log_weights_K, count, seeded(seed))
        assert k_S.shape == (count,)
        assert set(k_S.tolist()) <= {1, 2, 3}


@pytest.mark.parametrize(
    ("offset", "weights_K", "count", "expected"),
    [
        # (offset + count − 1)/count rounds to 1 for the largest offset: it must stay on a weighted draw
        (1 - 2**-53, [1.0, 0.0, 0.0], 1_000_000, {0: 1_000_000}),
        (1 - 2**-53, [0.5, 0.4999999, 0.0], 1, {1: 1}),  # weights rounded to a sum below 1
        (0.0, [0.0, 0.5, 0.5], 4, {1: 2, 2: 2}),  # a pointer right on the edge of an empty draw
    ],
)
def test_pointers_on_the_edges(monkeypatch, offset, weights_K, count, expected):
    monkeypatch.setattr(torch, "rand", lambda *a, **k: torch.tensor(offset, dtype=torch.float64))
    counts_K = systematic_resample(logs(weights_K), count, seeded(0)).bincount(minlength=3)
    assert {k: int(n) for k, n in enumerate(counts_K) if n} == expected


def test_the_same_seed_gives_the_same_states_and_leaves_the_global_one_alone():
    global_state = torch.random.get_rng_state()
    states = [DynamicJointEntropy(LOG_WEIGHTS, 20, seeded(3), max_exact=3) for _ in range(2)]
    for state in states:
        for log_probs_K_C in TAKEN:
            state.add(log_probs_K_C)
    assert torch.equal(*(state.gains(CANDIDATES) for state in states))
    judged = [joint_mutual_information_sampled(TAKEN, 50, LOG_WEIGHTS, seeded(3)) for _ in range(2)]
    assert judged[0] == judged[1] != joint_mutual_information_sampled(TAKEN, 50, LOG_WEIGHTS, seeded(4))
    assert torch.equal(torch.random.get_rng_state(), global_state)


def test_sampled_states_remember_every_point_taken():
    exact = exact_state()
    for state in (
        SampledJointEntropy(LOG_WEIGHTS, 4000, seeded(0)),
        DynamicJointEntropy(LOG_WEIGHTS, 4000, seeded(1), max_exact=3),
    ):
        for log_probs_K_C in TAKEN:
            state.add(log_probs_K_C)
        assert not state.exact
        error_N = state.standard_errors(CANDIDATES)
        assert ((state.gains(CANDIDATES) - exact.gains(CANDIDATES)).abs() < 4 * error_N + 1e-12).all()
        assert state.entropy() == pytest.approx(exact.entropy(), abs=0.05)


def test_sampled_state_starts_exact_and_resamples_every_point():
    state = SampledJointEntropy(LOG_WEIGHTS, 30, seeded(0))
    assert state.exact
    assert state.entropy() == 0
    torch.testing.assert_close(state.gains(CANDIDATES), ExactJointEntropy(LOG_WEIGHTS).gains(CANDIDATES))
    before = TAKEN.clone()
    for log_probs_K_C in TAKEN:
        state.add(log_probs_K_C)
        assert not state.exact
        assert len(state.mass_S) == 30
    assert torch.equal(TAKEN, before)
    with pytest.raises(ValueError, match="count: expected at least 1"):
        SampledJointEntropy(LOG_WEIGHTS, 0, seeded(0)).add(TAKEN[0])


def test_the_outside_judge_is_unbiased_with_honest_errors():
    exact = joint_mutual_information(LOG_PROBS[:4], LOG_WEIGHTS)
    runs = [joint_mutual_information_sampled(LOG_PROBS[:4], 200, LOG_WEIGHTS, seeded(s)) for s in range(300)]
    values, errors = torch.tensor(runs, dtype=torch.float64).T
    assert_unbiased(values[:, None], torch.tensor([exact]))
    assert 0.85 < errors.mean() / values.std() < 2.5
    quarter = joint_mutual_information_sampled(LOG_PROBS[:4], 3200, LOG_WEIGHTS, seeded(0))[1]
    assert quarter == pytest.approx(float(errors.mean()) / 4, rel=0.15)


def test_the_outside_judge_on_the_edges():
    one_hot_B_K_C = logs([[[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]] * 2])
    value, error = joint_mutual_information_sampled(one_hot_B_K_C, 10, None, seeded(0))
    assert value == pytest.approx(math.log(4), abs=1e-14)  # the labels name the draw: H(w), never more
    assert error == 0
    assert joint_mutual_information_sampled(one_hot_B_K_C[:, :1], 10, None, seeded(0)) == (0.0, 0.0)
    assert joint_mutual_information_sampled(LOG_PROBS, 1, LOG_WEIGHTS, seeded(0))[1] == math.inf
    assert joint_mutual_information_sampled(LOG_PROBS[:0], 5, LOG_WEIGHTS, seeded(0))[0] == pytest.approx(0, abs=1e-15)
    half = joint_mutual_information_sampled(LOG_PROBS.half(), 2000, LOG_WEIGHTS.half(), seeded(0))[0]
    assert half == pytest.approx(joint_mutual_information_sampled(LOG_PROBS, 2000, LOG_WEIGHTS, seeded(0))[0], abs=0.05)


def test_the_outside_judge_works_in_small_blocks(monkeypatch):
    """K = 100: whole, 50,000 configurations would hold 40 MB a table; blocks keep one under 4 MB."""
    log_probs_B_K_C, _ = random_draws(0, 3, 100, 5, zeros=False)
    rows = []

    def watched(log_probs, labels_B_S, log_weights):
        rows.append(labels_B_S.shape[1])
        return whole(log_probs, labels_B_S, log_weights)

    whole = joint.configuration_weights
    monkeypatch.setattr(joint, "configuration_weights", watched)
    value, error = joint_mutual_information_sampled(log_probs_B_K_C, 50_000, None, seeded(0))
    assert sum(rows) == 50_000
    assert max(rows) * 100 * 8 < 4e6
    assert abs(value - joint_mutual_information(log_probs_B_K_C)) < 4 * error < 0.02
    assert value < float(entropy(torch.full((100,), -math.log(100))))
