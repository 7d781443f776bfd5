"""Online Bayesian inference: golden values, order and grouping, diagnostics, collapse, weights shared by draws."""

import itertools
import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import natsel
from golden_values import golden, logs, random_draws
from natsel import CategoricalSamples, GaussianFeatures, GaussianSamples
from natsel.beliefs import Targets
from natsel.beliefs.draws import DrawsCollapsed, NoSurvivingDraw, collapse, perplexity, surprise
from natsel.information import information_gain, log_mean, mutual_information
from natsel.information import surprise as label_surprise

CASES = golden("05-joint-cross-entropies")
SEEN = "observations (point, label)"
WALKS = {name: case for name, case in CASES.items() if "steps" in case["expected"]}

pytestmark = pytest.mark.filterwarnings("ignore::natsel.beliefs.draws.DrawsCollapsed")


def belief_of(case):
    inputs = case["inputs"]
    return CategoricalSamples.from_probs(inputs["probs_N_K_C"], logs(inputs["weights_K"]), draws_id="golden")


def close(found, expected, tolerance=1e-12):
    assert np.allclose(np.asarray(found), np.asarray(expected), rtol=0, atol=tolerance), (found, expected)


@pytest.mark.parametrize("case", WALKS.values(), ids=WALKS.keys())
def test_golden_walks(case):
    belief, expected = belief_of(case), case["expected"]
    start = belief
    for step in expected["steps"]:
        before = belief.log_evidence
        belief = belief.condition(step["point"], step["label"])
        close(before - belief.log_evidence, step["loss"])
        close(belief.log_weights_K.exp(), step["weights_K"])
        close(belief.effective_draws(), step["ess"])
        close(belief.perplexity(), step["perplexity"])
        close(belief.max_weight(), step["max_weight"])
        close(belief.surprise(), step["surprise_so_far D(w'||w0)"])
        gain = math.log(start.perplexity()) - math.log(belief.perplexity())
        close(gain, step["information_gain_so_far H(w0)-H(w')"])
    close(-belief.log_evidence, expected["joint_loss"])
    log_probs, weights = belief.log_probs_N_K_C, belief.log_weights_K
    close(log_mean(log_probs, start.log_weights_K).exp(), expected["predictive_before_N_C"])
    close(log_mean(log_probs, weights).exp(), expected["predictive_after_N_C"])
    close(mutual_information(log_probs, weights), expected["bald_after_N"])
    for following in expected["next_label_after"]:
        point = slice(following["point"], following["point"] + 1)
        label = torch.tensor([following["label"]])
        close(information_gain(log_probs[point], label, weights), following["information_gain"])
        close(label_surprise(log_probs[point], label, weights), following["surprise"])
        close(surprise(belief.condition(point.start, label).log_weights_K, weights), following["surprise"])


def test_golden_update_that_leaves_no_draw():
    belief = belief_of(CASES["no_surviving_draw"])
    with pytest.raises(NoSurvivingDraw, match=r"^labels: no draw .*; "):
        belief.condition([0], [1])
    assert issubclass(NoSurvivingDraw, ValueError)


def test_golden_underflow():
    case = CASES["underflow"]
    likelihood_K = case["inputs"]["likelihood_per_observation_K"]
    belief = CategoricalSamples.from_probs([[[p, 1 - p] for p in likelihood_K]])
    count = case["inputs"]["observations"]
    after = belief.condition([0] * count, [0] * count)
    close(-after.log_evidence, case["expected"]["joint_loss"], 1e-9)
    close(after.log_weights_K, case["expected"]["log_weights_K"], 1e-9)
    close(after.effective_draws(), case["expected"]["ess"])


def test_golden_beta_bernoulli_grid():
    case = CASES["beta_bernoulli_grid"]
    theta_K = (torch.arange(200, dtype=torch.float64) + 0.5) / 200
    belief = CategoricalSamples.from_probs(torch.stack([1 - theta_K, theta_K], 1)[None])
    after = belief.condition([0] * 10, [1] * 7 + [0] * 3)
    close(
        float(log_mean(after.log_probs_N_K_C, after.log_weights_K).exp()[0, 1]), case["expected"]["predictive_success"]
    )
    close(after.effective_draws() / 200, case["expected"]["ess_over_K"])
    close(-after.log_evidence, case["expected"]["joint_loss"])


def test_beta_bernoulli_with_prior_draws():
    """Within three standard errors of the conjugate posterior."""
    theta_K = torch.rand(200_000, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    belief = CategoricalSamples.from_probs(torch.stack([1 - theta_K, theta_K], 1)[None])
    after = belief.condition([0] * 10, [1] * 7 + [0] * 3)
    weights_K = after.log_weights_K.exp()
    mean = float(weights_K @ theta_K)
    error = float((weights_K.square() @ (theta_K - mean).square()).sqrt())
    assert abs(mean - 8 / 12) < 3 * error < 0.002
    assert after.effective_draws() / 200_000 == pytest.approx(0.467149, abs=0.005)
    assert -after.log_evidence == pytest.approx(7.185387, abs=0.01)


def observations(data, points, classes):
    pairs = st.lists(st.tuples(st.integers(0, points - 1), st.integers(0, classes - 1)), max_size=6)
    return data.draw(pairs)


def conditioned(belief, pairs):
    return belief.condition([point for point, _ in pairs], [label for _, label in pairs])


@settings(deadline=None)
@given(seed=st.integers(0, 1000), draws=st.integers(1, 6), classes=st.integers(1, 4), data=st.data())
def test_order_and_grouping_do_not_matter(seed, draws, classes, data):
    """Labels at once, in parts or reordered give the same weights, predictions and evidence."""
    belief = CategoricalSamples(*random_draws(seed, 5, draws, classes, zeros=False))
    pairs = observations(data, 5, classes)
    cut = data.draw(st.integers(0, len(pairs)))
    whole = conditioned(belief, pairs)
    parts = conditioned(conditioned(belief, pairs[:cut]), pairs[cut:])
    other = conditioned(belief, data.draw(st.permutations(pairs)))
    for same in (parts, other):
        close(same.log_weights_K, whole.log_weights_K, 1e-10)
        assert same.log_evidence == pytest.approx(whole.log_evidence, abs=1e-10)
        assert same.surprise() == pytest.approx(whole.surprise(), abs=1e-10)
    close(log_mean(whole.log_probs_N_K_C, whole.log_weights_K).exp().sum(1), np.ones(5), 1e-12)
    nothing = whole.condition([], [])
    assert torch.equal(nothing.log_weights_K, whole.log_weights_K)
    assert nothing.log_evidence == whole.log_evidence
    # The belief itself is a frozen value.
    assert belief.log_evidence == 0
    assert belief.surprise() == 0


@settings(deadline=None)
@given(seed=st.integers(0, 1000), draws=st.integers(1, 7), weighted=st.booleans(), data=st.data())
def test_diagnostics_keep_to_their_ranges(seed, draws, weighted, data):
    """Counts of draws lie in 1..K, surprise in 0..−min ln w.  docs/theory/joint-predictions.md, 6."""
    start = CategoricalSamples(*random_draws(seed, 4, draws, 3, zeros=False, weighted=weighted))
    after = conditioned(start, observations(data, 4, 3))
    for belief in (start, after):
        assert 1 - 1e-9 <= belief.effective_draws() <= belief.perplexity() + 1e-9 <= draws + 2e-9
        assert 1 / draws - 1e-12 <= belief.max_weight() <= 1
    order = torch.randperm(draws, generator=torch.Generator().manual_seed(seed))
    moved = CategoricalSamples(after.log_probs_N_K_C[:, order], after.log_weights_K[order])
    assert moved.effective_draws() == pytest.approx(after.effective_draws())
    assert moved.perplexity() == pytest.approx(after.perplexity())
    cap = -float(start.log_weights_K.min())
    assert 0 <= after.surprise() <= cap + 1e-9
    if not weighted:
        assert after.surprise() == pytest.approx(math.log(draws) - math.log(after.perplexity()), abs=1e-9)


def test_a_label_that_all_draws_give_alike_changes_nothing():
    belief = CategoricalSamples.from_probs([[[0.3, 0.7], [0.3, 0.7]], [[0.9, 0.1], [0.2, 0.8]]], logs([0.2, 0.8]))
    after = belief.condition([0, 0], [1, 0])
    close(after.log_weights_K, belief.log_weights_K, 1e-15)
    assert after.log_evidence == pytest.approx(math.log(0.21))
    assert after.warnings == ()


def test_one_draw_never_moves_and_never_warns():
    belief = CategoricalSamples.from_probs([[[0.01, 0.99]]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        after = belief.condition([0] * 50, [0] * 50)
    assert after.log_weights_K.tolist() == [0.0]
    assert after.surprise() == 0


def shifted(nats, draws=16):
    """Equal draws, and a point whose label 0 makes the first so much likelier that the surprise is so many nats."""
    equal_K = torch.full((draws,), -math.log(draws), dtype=torch.float64)
    low, high = 0.0, 20.0
    for _ in range(60):
        odds = (low + high) / 2
        log_likelihood_K = torch.tensor([odds] + [0.0] * (draws - 1), dtype=torch.float64) - 21
        if surprise(log_likelihood_K.log_softmax(0), equal_K) > nats:
            high = odds
        else:
            low = odds
    probs_K = log_likelihood_K.exp()
    return CategoricalSamples.from_probs(torch.stack([probs_K, 1 - probs_K], 1)[None])


def test_the_warning_comes_beyond_seven_tenths_of_ln_k_and_points_to_the_caller():
    threshold = 0.7 * math.log(16)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert shifted(threshold - 0.01).condition([0], [0]).warnings == ()
    with pytest.warns(DrawsCollapsed, match=r"^labels: they told 1\.95 nats, .* 16 draws .*; retrain") as caught:
        after = shifted(threshold + 0.01).condition([0], [0])
    assert caught[0].filename == __file__
    assert after.warnings == (str(caught[0].message),)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        belief = shifted(threshold + 0.01)
        assert belief.reweighted(belief.log_likelihood([0], [0])).warnings == after.warnings  # quiet, but it says so


def test_collapse_is_seen_however_the_labels_are_grouped():
    belief = CategoricalSamples.from_probs([[[0.7, 0.3], [0.4, 0.6], [0.5, 0.5]]])
    steps = belief
    for _ in range(12):
        steps = steps.condition(0, 0)
    assert steps.warnings == belief.condition([0] * 12, [0] * 12).warnings != ()


def test_draws_without_weight_do_not_count_for_the_threshold():
    before_K = logs([0.5, 0.5, 0.0, 0.0])
    after_K = logs([0.95, 0.05, 0.0, 0.0])
    nats = surprise(after_K, before_K)
    assert 0.7 * math.log(2) < nats < 0.7 * math.log(4)
    assert collapse(after_K, before_K)
    assert not collapse(logs([1.0, 0.0]), logs([1.0, 0.0]))
    assert perplexity(before_K) == pytest.approx(2)


def test_weights_are_shared_only_among_the_same_draws():
    log_probs, log_weights = random_draws(3, 7, 5, 3, zeros=False)
    pool = CategoricalSamples(log_probs[:4], log_weights, draws_id="fit 1")
    test = CategoricalSamples(log_probs[4:], log_weights, draws_id="fit 1")
    after = pool.condition([0, 2], [1, 1])
    shared = test.with_weights_of(after)
    whole = CategoricalSamples(log_probs, log_weights).condition([0, 2], [1, 1])
    assert torch.equal(shared.log_weights_K, whole.log_weights_K)
    assert (shared.log_evidence, shared.surprise()) == (whole.log_evidence, whole.surprise())
    assert torch.equal(shared.log_probs_N_K_C, test.log_probs_N_K_C)
    other = CategoricalSamples(log_probs[4:], draws_id="fit 2")
    for stranger in (other, CategoricalSamples(log_probs[4:])):
        with pytest.raises(ValueError, match=r"^other: its draws are 'fit 1' and these .*; predict both"):
            stranger.with_weights_of(after)
    with pytest.raises(ValueError, match=r"^other: it has 5 draws and this belief 4; "):
        CategoricalSamples(log_probs[4:, :4], draws_id="fit 1").with_weights_of(after)
    with pytest.raises(ValueError, match=r"^other: expected a belief made of draws, found GaussianFeatures"):
        test.with_weights_of(GaussianFeatures([[1.0]]))


def test_slices_and_moves_keep_what_was_learnt():
    belief = CategoricalSamples(*random_draws(1, 6, 4, 3, zeros=False), draws_id="a").condition([0, 1], [0, 1])
    part = belief[2:].to("cpu").with_ids([5, 6, 7, 8])
    assert part.log_evidence == belief.log_evidence
    assert part.surprise() == belief.surprise()
    assert belief[:2].condition(0, 1).log_evidence == belief.condition(0, 1).log_evidence


def test_many_points_at_once_are_summed_in_chunks():
    belief = CategoricalSamples(*random_draws(2, 300, 20, 3, zeros=False))
    labels = np.arange(300) % 3
    whole = belief.condition(range(300), labels)
    with natsel.memory_budget(10_000):
        close(belief.condition(range(300), labels).log_weights_K, whole.log_weights_K, 1e-9)


@pytest.mark.parametrize("bad", [[0.0], [math.nan, 0.0], [math.inf, 0.0]])
def test_bad_likelihoods(bad):
    with pytest.raises(ValueError, match=r"^log_likelihood_K: .*; "):
        CategoricalSamples.from_probs([[[0.5, 0.5], [0.5, 0.5]]]).reweighted(bad)


def test_inconsistent_draws_destroy_the_update():
    """With masks of its own for the test points, an update averages out."""
    generator = torch.Generator().manual_seed(0)
    logits_K = 4 * torch.randn(400, generator=generator, dtype=torch.float64)
    pool = CategoricalSamples.from_logits(torch.stack([logits_K, -logits_K], 1)[None])
    after = pool.condition([0] * 3, [0] * 3)
    consistent = float(log_mean(pool.log_probs_N_K_C, after.log_weights_K).exp()[0, 0])
    mixed = [
        float(
            log_mean(pool.log_probs_N_K_C[:, torch.randperm(400, generator=generator)], after.log_weights_K).exp()[0, 0]
        )
        for _ in range(20)
    ]
    assert consistent > 0.9
    assert np.mean(mixed) == pytest.approx(float(log_mean(pool.log_probs_N_K_C).exp()[0, 0]), abs=0.02)


def test_bald_after_labels_averages_to_the_gain_of_a_batch():
    """Over labels drawn from the joint prediction.  docs/theory/joint-predictions.md, 5."""
    belief = CategoricalSamples(*random_draws(8, 3, 4, 3, zeros=False))
    expected = natsel.information.joint_mutual_information(belief.log_probs_N_K_C, belief.log_weights_K)
    expected -= natsel.information.joint_mutual_information(belief.log_probs_N_K_C[:2], belief.log_weights_K)
    average = 0.0
    for labels in itertools.product(range(3), repeat=2):
        after = belief.condition([0, 1], labels)
        average += math.exp(after.log_evidence) * float(natsel.score("bald", after)[2])
    assert average == pytest.approx(expected, abs=1e-12)


def gaussian_samples(seed=0, points=5, draws=6):
    rng = np.random.default_rng(seed)
    mean, variance = rng.normal(size=(points, draws)), rng.random((points, draws)) + 0.3
    return mean, variance, rng.dirichlet(np.ones(draws)), rng.normal(size=points)


@pytest.mark.parametrize("seed", range(4))
def test_gaussian_draws_are_weighted_by_the_density_of_real_labels(seed):
    mean, variance, weights, labels = gaussian_samples(seed)
    belief = GaussianSamples(mean, variance, np.log(weights), draws_id="a")
    after = belief.condition([1, 3, 1], labels[[1, 3, 1]])
    density = np.exp(-((labels[:, None] - mean) ** 2) / (2 * variance)) / np.sqrt(2 * np.pi * variance)
    joint = weights * density[1] ** 2 * density[3]
    close(after.log_weights_K.exp(), joint / joint.sum())
    assert after.log_evidence == pytest.approx(math.log(joint.sum()), abs=1e-12)
    again = belief.condition(1, labels[1]).condition([3, 1], labels[[3, 1]])
    close(again.log_weights_K, after.log_weights_K, 1e-12)
    assert GaussianSamples(mean, 1.0, draws_id="a").with_weights_of(after).surprise() == after.surprise()


@pytest.mark.parametrize("bad", [[math.nan], [math.inf], [1.0, 2.0], [["a"]]])
def test_bad_numbers_for_conditioning(bad):
    for belief in (GaussianSamples([[0.0, 1.0]], 1.0), GaussianFeatures([[1.0]])):
        with pytest.raises(ValueError, match=r"^labels: .*; "):
            belief.condition([0], bad)


def test_a_number_beyond_all_draws_leaves_none():
    with pytest.raises(NoSurvivingDraw):
        GaussianSamples([[0.0, 1.0]], 1.0).condition([0], [1e200])


def posterior(features, noise, mean, index, labels):
    """Textbook algebra on the covariance matrix."""
    covariance = features @ features.T
    seen = covariance[np.ix_(index, index)] + np.diag(noise[index])
    gain = np.linalg.solve(seen, covariance[index]).T
    residual = labels - mean[index]
    _, logdet = np.linalg.slogdet(seen)
    evidence = -0.5 * (logdet + residual @ np.linalg.solve(seen, residual) + len(index) * np.log(2 * np.pi))
    return mean + gain @ residual, covariance - gain @ covariance[index], evidence


@settings(deadline=None)
@given(seed=st.integers(0, 1000), points=st.integers(1, 7), width=st.integers(1, 9), count=st.integers(1, 9))
def test_gaussian_features_have_the_exact_posterior(seed, points, width, count):
    rng = np.random.default_rng(seed)
    features, noise, mean = rng.normal(size=(points, width)), rng.random(points) + 0.2, rng.normal(size=points)
    index, labels = rng.integers(points, size=count), rng.normal(size=count)
    belief = GaussianFeatures(features, noise, draws_id="a", mean=mean)
    after = belief.condition(index, labels)
    expected_mean, expected_covariance, evidence = posterior(features, noise, mean, index, labels)
    close(after.mean_N, expected_mean, 1e-9)
    close(after.features_N_D @ after.features_N_D.T, expected_covariance, 1e-9)
    assert after.log_evidence == pytest.approx(evidence, abs=1e-8)
    cut = count // 2
    parts = belief.condition(index[:cut], labels[:cut]).condition(index[cut:], labels[cut:])
    close(parts.mean_N, expected_mean, 1e-8)
    close(parts.features_N_D @ parts.features_N_D.T, expected_covariance, 1e-8)
    assert parts.log_evidence == pytest.approx(evidence, abs=1e-8)
    assert torch.equal(after.noise_N, belief.noise_N)


def test_targets_follow_a_pool_of_features_and_others_are_told_apart():
    rng = np.random.default_rng(0)
    features, labels = rng.normal(size=(9, 4)), rng.normal(size=3)
    whole = GaussianFeatures(features, 0.5).condition([0, 1, 2], labels)
    pool, targets = (GaussianFeatures(part, 0.5, draws_id="gp") for part in (features[:5], features[5:]))
    after = pool.condition([0], labels[:1]).condition([1, 2], labels[1:])
    follow = targets.with_weights_of(after)
    both = torch.cat([after.features_N_D, follow.features_N_D])
    close(both @ both.T, whole.features_N_D @ whole.features_N_D.T, 1e-10)
    close(torch.cat([after.mean_N, follow.mean_N]), whole.mean_N, 1e-10)
    assert follow.draws_id == after.draws_id != "gp"
    assert follow.with_weights_of(after).draws_id == after.draws_id
    half = targets.with_weights_of(pool.condition([0], labels[:1]))
    assert half.with_weights_of(after).mean_N.tolist() == follow.mean_N.tolist()  # the same label, conditioned on twice
    half = targets.with_weights_of(pool.condition([0], labels[:1] + 1))
    with pytest.raises(ValueError, match=r"^other: this belief was conditioned on other labels; "):
        half.with_weights_of(after)
    with pytest.raises(ValueError, match=r"^other: its draws are 'gp given .*; predict both"):
        GaussianFeatures(features[5:], draws_id="other").with_weights_of(after)
    with pytest.raises(ValueError, match=r"^other: the beliefs have 4 and 3 features; "):
        GaussianFeatures(features[5:, :3], draws_id="gp").with_weights_of(after)
    with pytest.raises(ValueError, match=r"^other: expected GaussianFeatures"):
        targets.with_weights_of(GaussianSamples([[0.0]], 1.0))


def test_nearly_noiseless_labels_leave_no_negative_variance():
    rng = np.random.default_rng(1)
    features = rng.normal(size=(40, 6))
    belief = GaussianFeatures(features, 1e-12)
    for start in range(0, 40, 8):
        belief = belief.condition(range(start, start + 8), features[start : start + 8] @ np.arange(6.0))
    close(belief.mean_N, features @ np.arange(6.0), 1e-5)
    assert float(belief.features_N_D.square().sum(1).max()) < 1e-10


def test_features_keep_their_precision_and_the_mean_is_checked():
    belief = GaussianFeatures(torch.ones(2, 3), 1.0)
    assert belief.condition([0], [1.0]).features_N_D.dtype == torch.float32
    assert belief.mean_N.tolist() == [0.0, 0.0]
    assert belief.condition([], []) is belief
    for bad in ([1.0, 2.0, 3.0], [math.nan, 0.0]):
        with pytest.raises(ValueError, match=r"^mean: .*; "):
            GaussianFeatures(torch.ones(2, 3), mean=bad)


def test_features_of_draws_carry_their_mean():
    mean, variance, weights, _ = gaussian_samples()
    close(GaussianSamples(mean, variance, np.log(weights)).features().mean_N, mean @ weights)


def test_exact_inference_makes_online_and_retrained_the_same():
    """Δ(n) = 0 without Monte Carlo: Bayesian linear regression conditioned in two halves or fitted at once."""
    rng = np.random.default_rng(3)
    inputs, values = rng.normal(size=(30, 3)), rng.normal(size=20)
    prior = GaussianFeatures(inputs, 0.4)
    online = prior.condition(range(10), values[:10]).condition(range(10, 20), values[10:])
    retrained = prior.condition(range(20), values)
    close(online.mean_N, retrained.mean_N, 1e-12)
    close(online.features_N_D.square().sum(1), retrained.features_N_D.square().sum(1), 1e-12)


def test_labels_that_have_ids_go_by_them():
    pandas = pytest.importorskip("pandas", reason="needs the extra tables")
    means = [[0.0, 2.0], [1.0, -1.0], [3.0, 0.5]]
    for belief in (
        GaussianSamples(means, 1.0, ids=["a", "b", "c"]),
        GaussianFeatures(means, 1.0, ids=["a", "b", "c"]),
        CategoricalSamples.from_probs([[[0.9, 0.1]], [[0.2, 0.8]], [[0.6, 0.4]]], ids=["a", "b", "c"]),
    ):
        wanted = belief.condition([0, 2], [0, 1])
        for labels in (pandas.Series([1, 0], index=["c", "a"]), {"c": 1, "a": 0}):
            found = belief.condition([0, 2], labels)
            for name in (*found.points, *found.draws):
                assert torch.equal(getattr(found, name), getattr(wanted, name))
            with pytest.raises(ValueError, match=r"labels: id 'c' .* is not among the points"):
                belief.condition([0, 1], labels)
        targets = Targets(belief, labels=pandas.Series([1, 0, 1], index=["c", "a", "b"]))
        assert targets.labels_M.tolist() == [0, 1, 1]
        unnamed = Targets(belief.with_ids([0, 1, 2]), labels=pandas.Series([1, 0, 1], index=[7, 9, 5]))
        assert unnamed.labels_M.tolist() == [1, 0, 1]
        mixed = pandas.Series([1, 0, 1], index=["c", "a", "b"])
        found, alike = (natsel.evaluate_uncertainty(belief, labels).metrics for labels in (mixed, [0, 1, 1]))
        assert dict(found) == dict(alike)
