"""PIG and JPIG: golden values, enumeration, what they are on average, and batches."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import natsel.objectives.readings.draws.pig_draws
import natsel.objectives.readings.gaussian.pig_gaussian  # noqa: F401
from golden_values import golden, logs, random_draws
from natsel import CategoricalSamples, GaussianFeatures, GaussianSamples, Greedy, Method, Targets, TopK, score, select
from natsel.information.known_labels import jpig, pig, targets_posterior
from natsel.information.predictive_information import epig
from natsel.objectives import Context, read
from natsel.objectives.pig import JPIG, PIG

CASES = golden("07-rho")
SHARED = ["shared_table", "weighted_draws", "negative_information_gain", "one_draw", "single_holdout_point", "zeros"]


def likelihood(probs_N_K_C, labels_N):
    log_probs_N_K_C = logs(probs_N_K_C)
    return torch.stack([row_K_C[:, label] for row_K_C, label in zip(log_probs_N_K_C, labels_N, strict=True)])


def inputs(case):
    given = case["inputs"]
    seen, aims = (
        likelihood(given["probs_N_K_C"], given["labels_N"]),
        likelihood(given["probs_E_K_C"], given["labels_E"]),
    )
    return seen, aims, logs(given.get("weights_K"))


def near(found, expected, case):
    wanted = torch.tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(found, wanted, rtol=case["rtol"], atol=case["atol"], equal_nan=True)


@pytest.mark.parametrize("name", [*SHARED, "impossible_candidate_label"])
def test_golden_values(name):
    case = CASES[name]
    seen, aims, weights = inputs(case)
    points = case["expected"]["points"]
    near(pig(seen, aims, weights), [point["pig"] for point in points], case)
    near(jpig(seen, aims, weights), [point["jpig"] for point in points], case)


@pytest.mark.parametrize("function", [pig, jpig])
def test_a_target_label_that_no_draw_allows_is_refused_by_name(function):
    with pytest.raises(ValueError, match="no draw allows the label of target 0"):
        function(*inputs(CASES["impossible_holdout_label"]))


def test_targets_that_contradict_each_other_are_refused_together_only():
    seen = torch.zeros(1, 2, dtype=torch.float64)
    aims = torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=torch.float64).log()
    with pytest.raises(ValueError, match="no draw allows all their labels together"):
        jpig(seen, aims)
    assert pig(seen, aims).tolist() == [0.0]


def test_golden_collapse_and_underflow_stay_finite():
    case = CASES["holdout_collapse"]
    given = case["inputs"]
    aims = likelihood([given["probs_E_K_C_single"]] * given["copies"], [given["label"]] * given["copies"])
    found = jpig(likelihood(given["probs_N_K_C"], given["labels_N"]), aims)
    near(found, [point["jpig"] for point in case["expected"]["points"]], case)


def test_golden_underflow():
    case = CASES["underflow"]
    given = case["inputs"]
    aims = torch.tensor([given["log2_prob_of_label_K"]] * given["copies"], dtype=torch.float64) * math.log(2)
    seen = likelihood(given["probs_N_K_C"], given["labels_N"])
    near(jpig(seen, aims), [case["expected"]["points"][0]["jpig"]], case)
    near(pig(seen, aims), [case["expected"]["points"][0]["pig"]], case)
    torch.testing.assert_close(
        targets_posterior(aims, logs([1 / 3] * 3)).exp(), torch.tensor([16.0, 4.0, 1.0]).double() / 21
    )


def test_golden_chain_rule():
    case = CASES["chain_rule"]
    given, expected = case["inputs"], case["expected"]
    seen = likelihood(given["probs_N_K_C"], given["labels_N"])
    first, second = (likelihood([part["probs_K_C"]], [part["label"]]) for part in (given["first"], given["second"]))
    after = targets_posterior(first, logs([1 / 3] * 3))
    near(after.exp(), expected["weights_after_first"], case)
    near(jpig(seen, first), [expected["first"]], case)
    near(jpig(seen, second, after), [expected["second_given_first"]], case)
    near(jpig(seen, torch.cat([first, second])), [expected["both"]], case)


def test_likelihoods_that_no_product_can_hold_are_summed_in_logarithms():
    seen = torch.tensor([[0.0, -900.0], [-900.0, 0.0], [-2000.0, -2000.0]], dtype=torch.float64)
    aims = torch.tensor([[-900.0, 0.0], [-5000.0, -5900.0]], dtype=torch.float64)
    expected = torch.zeros(3, 2, dtype=torch.float64)
    for n, m in itertools.product(range(3), range(2)):
        joint, alone = torch.logsumexp(seen[n] + aims[m], 0), torch.logsumexp(seen[n], 0) + torch.logsumexp(aims[m], 0)
        expected[n, m] = joint - alone + math.log(2)
    torch.testing.assert_close(pig(seen, aims), expected.mean(1), rtol=1e-12, atol=1e-12)


def enumerated(belief, targets):
    """Every labelling of one candidate and all targets, with its probability."""
    weights_K = belief.log_weights_K.exp()
    probs_K_C, probs_M_K_C = belief.log_probs_N_K_C[0].exp(), targets.log_probs_N_K_C.exp()
    classes = range(probs_K_C.shape[1])
    for labels in itertools.product(classes, repeat=1 + len(targets)):
        joint = weights_K * probs_K_C[:, labels[0]]
        for row_K_C, label in zip(probs_M_K_C, labels[1:], strict=True):
            joint = joint * row_K_C[:, label]
        if float(joint.sum()) > 0:
            yield float(joint.sum()), labels[0], list(labels[1:])


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(2, 3), st.booleans())
def test_on_average_they_are_epig_and_jepig(seed, draws, classes, zeros):
    log_probs, log_weights = random_draws(seed, 3, draws, classes, zeros=zeros)
    belief, targets = CategoricalSamples(log_probs[:1], log_weights), CategoricalSamples(log_probs[1:], log_weights)
    alone = together = 0.0
    for chance, label, aims in enumerated(belief, targets):
        aimed = Targets(targets, labels=aims)
        alone += chance * float(score(Method(PIG(), TopK()), belief, labels=[label], targets=aimed)[0])
        together += chance * float(score(Method(JPIG(), TopK()), belief, labels=[label], targets=aimed)[0])
    assert alone == pytest.approx(float(epig(log_probs[:1], log_probs[1:], log_weights)[0]), abs=1e-10)
    assert together == pytest.approx(float(score("jepig", belief, targets=targets)[0]), abs=1e-10)


def test_small_values_keep_their_digits():
    step = 2.0**-40
    half = torch.tensor([[0.5 + step, 0.5 - step]], dtype=torch.float64)
    found = float(pig(half.log(), half.log())[0])
    assert found == pytest.approx(4 * step**2, rel=1e-4)


def belief_and_targets(kind, seed=0, points=6, aims=3):
    generator = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)  # noqa: E731
    if kind is CategoricalSamples:
        both = CategoricalSamples((1.5 * draw(points + aims, 5, 3)).log_softmax(-1), (draw(5)).log_softmax(0))
        labels = (both.log_probs_N_K_C[:, 0]).argmax(1)
    elif kind is GaussianSamples:
        both = GaussianSamples(draw(points + aims, 5), 0.3 + draw(points + aims, 5).square(), draw(5).log_softmax(0))
        labels = draw(points + aims)
    else:
        both = GaussianFeatures(draw(points + aims, 4), 0.5 + draw(points + aims).square(), mean=draw(points + aims))
        labels = draw(points + aims)
    pool, rest = both[:points], both[points:]
    return pool, labels[:points], Targets(rest, labels=labels[points:])


KINDS = [CategoricalSamples, GaussianSamples, GaussianFeatures]


def conditioned(pool, labels, targets, positions):
    """Both beliefs after the labels of some positions, by the belief's own way of learning them."""
    after = pool.condition(positions, labels[positions])
    aims = targets.belief
    moved = (
        aims.with_weights_of(after)
        if isinstance(aims, GaussianFeatures)
        else type(aims)(*(getattr(aims, name) for name in aims.points), after.log_weights_K)
    )
    return after, Targets(moved, labels=targets.labels)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("objective", [PIG(), JPIG()])
def test_gains_are_scores_after_conditioning_and_sum_to_the_value(kind, objective):
    pool, labels, targets = belief_and_targets(kind)
    state = read(objective, pool, Context(targets, labels, torch.Generator()))
    every = torch.arange(len(pool))
    torch.testing.assert_close(state.gains(every), state.scores())
    taken = []
    for position in (4, 1, 3):
        state.add(position)
        taken.append(position)
        after, aims = conditioned(pool, labels, targets, taken)
        fresh = score(Method(objective, TopK()), after, labels=labels, targets=aims)
        torch.testing.assert_close(state.gains(every), fresh, rtol=1e-8, atol=1e-10)
        assert state.total == pytest.approx(state.value(torch.tensor(taken)), abs=1e-9)
    assert state.value(torch.tensor([], dtype=torch.int64)) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_one_target_makes_them_equal_and_weights_average(kind):
    pool, labels, targets = belief_and_targets(kind, seed=3)
    alone = [Targets(targets.belief[[j]], labels=targets.labels[j : j + 1]) for j in range(3)]
    scores = [score(Method(PIG(), TopK()), pool, labels=labels, targets=one) for one in alone]
    for one, found in zip(alone, scores, strict=True):
        torch.testing.assert_close(found, score(Method(JPIG(), TopK()), pool, labels=labels, targets=one))
    weighed = Targets(targets.belief, weights=[3.0, 0.0, 1.0], labels=targets.labels)
    found = score(Method(PIG(), TopK()), pool, labels=labels, targets=weighed)
    torch.testing.assert_close(found, 0.75 * scores[0] + 0.25 * scores[2])
    with pytest.raises(ValueError, match="target weights: JPIG takes all targets together"):
        score(Method(JPIG(), TopK()), pool, labels=labels, targets=weighed)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_average_gains_and_values_too(kind):
    """After points were taken as before: what a batch tells about targets of weights is the mean over single ones."""
    pool, labels, targets = belief_and_targets(kind, seed=3)
    weights = torch.tensor([3.0, 0.0, 1.0], dtype=torch.float64)
    whole = Targets(targets.belief, weights=weights, labels=targets.labels)
    alone = [Targets(targets.belief[[j]], labels=targets.labels[j : j + 1]) for j in range(3)]
    state, *single = (read(PIG(), pool, Context(aims, labels, torch.Generator())) for aims in (whole, *alone))
    every, taken = torch.arange(len(pool)), []
    for position in (4, 1, 3):
        mean_gains = sum(share * one.gains(every) for share, one in zip(weights / 4, single, strict=True))
        torch.testing.assert_close(state.gains(every), mean_gains)
        taken.append(position)
        shares = list(zip((weights / 4).tolist(), single, strict=True))
        assert state.add(position) == pytest.approx(sum(share * one.add(position) for share, one in shares))
        values = [share * one.value(torch.tensor(taken)) for share, one in shares]
        assert state.value(torch.tensor(taken)) == pytest.approx(sum(values))


def test_gaussian_values_against_densities():
    pool, labels, targets = belief_and_targets(GaussianFeatures, seed=5)
    both = torch.cat([pool.features_N_D, targets.belief.features_N_D])
    covariance = both @ both.T + torch.diag(torch.cat([pool.noise_N, targets.belief.noise_N]))
    mean, seen = torch.cat([pool.mean_N, targets.belief.mean_N]), torch.cat([labels, targets.labels_M])

    def density(which):
        which = torch.tensor(which)
        law = torch.distributions.MultivariateNormal(mean[which], covariance[which][:, which])
        return float(law.log_prob(seen[which]))

    joint = [density([n, 6, 7, 8]) - density([n]) - density([6, 7, 8]) for n in range(6)]
    mean_of = [sum(density([n, m]) - density([n]) - density([m]) for m in (6, 7, 8)) / 3 for n in range(6)]
    assert score(Method(JPIG(), TopK()), pool, labels=labels, targets=targets).tolist() == pytest.approx(joint)
    assert score(Method(PIG(), TopK()), pool, labels=labels, targets=targets).tolist() == pytest.approx(mean_of)


def test_labels_of_targets_must_be_known():
    pool, labels, targets = belief_and_targets(CategoricalSamples)
    for objective in (PIG(), JPIG()):
        with pytest.raises(ValueError, match="targets: their labels are not known"):
            score(Method(objective, TopK()), pool, labels=labels, targets=targets.belief)
        with pytest.raises(ValueError, match="labels"):
            score(Method(objective, TopK()), pool, targets=targets)


def test_a_batch_does_not_take_a_label_that_contradicts_the_targets_before_others():
    pool = CategoricalSamples.from_probs([[[1.0, 0.0], [0.0, 1.0]], [[0.6, 0.4], [0.4, 0.6]], [[0.5, 0.5], [0.5, 0.5]]])
    targets = Targets(CategoricalSamples.from_probs([[[1.0, 0.0], [0.0, 1.0]]]), labels=[0])
    for objective in (PIG(), JPIG()):
        found = select(Method(objective, Greedy()), pool, 3, labels=[1, 0, 0], targets=targets)
        assert found.ids.tolist() == [1, 2, 0]
        assert found.scores[2] == -math.inf


def test_many_targets_and_few_draws_are_warned_of():
    pool, labels, _ = belief_and_targets(CategoricalSamples)
    even = pool.log_probs_N_K_C.mean(1, keepdim=True).log_softmax(-1).expand(-1, 5, -1)
    vague = Targets(CategoricalSamples(even), labels=labels)
    pool = CategoricalSamples(pool.log_probs_N_K_C)
    (said,) = select(Method(JPIG(), TopK()), pool, 1, labels=labels, targets=vague).warnings
    assert said.startswith("decided by ties"), "draws that agree about the targets tell nothing"
    crowd = CategoricalSamples(pool.log_probs_N_K_C[:1].repeat(200, 1, 1))
    many = Targets(crowd, labels=labels[:1].repeat(200))
    assert "leave 1.0 draws" in select(Method(JPIG(), TopK()), pool, 1, labels=labels, targets=many).warnings[0]


def test_chunks_change_nothing(monkeypatch):
    from natsel import memory

    seen, aims = torch.randn(2, 50, 7, dtype=torch.float64).neg().abs().neg(), torch.randn(30, 7).double() - 3
    whole = pig(seen[0], aims)
    monkeypatch.setattr(memory, "_CACHE", 256)
    torch.testing.assert_close(pig(seen[0], aims), whole, rtol=1e-13, atol=1e-15)
