"""Searches on a kernel: published golden values, and what holds for any pool."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import natsel
from drawn_orders import seed_of
from golden_values import golden
from natsel.objectives import Context, TraceEPIG, read

CASES = golden("09-black-box")
SEARCHES = ("core-set", "lcmd", "acs-fw", "badge", "batchbald", "bald")


def beliefs(name, noise=None):
    """The pool of a case and the points that are given, by predictions of members."""
    inputs = CASES[name]["inputs"]
    noise = inputs.get("noise", 1.0) if noise is None else noise
    held = inputs.get("train_mean_T_K")
    pool = natsel.GaussianSamples(inputs["mean_N_K"], noise)
    return pool, None if held is None else natsel.GaussianSamples(held, noise)


def pool_of(seed, count=40, width=5, clusters=0):
    rng = np.random.default_rng(seed)
    features_N_D = rng.normal(size=(count, width))
    if clusters:
        features_N_D = 0.05 * features_N_D + rng.normal(size=(clusters, width))[rng.integers(clusters, size=count)]
    return natsel.GaussianFeatures(features_N_D, noise=0.1)


@pytest.mark.parametrize(
    ("case", "method"),
    [("core_set_p", "core-set"), ("core_set_tp", "core-set"), ("lcmd_p", "lcmd"), ("lcmd_tp", "lcmd")],
)
def test_golden_distances(case, method):
    pool, held = beliefs(case)
    expected = CASES[case]["outputs"]
    found = natsel.select(method, pool, CASES[case]["inputs"]["k"], given=held if case.endswith("tp") else None)
    assert found.ids.tolist() == expected["selected"]
    assert found.scores.tolist() == pytest.approx(expected["values"], rel=1e-9)
    assert not found.warnings


@pytest.mark.parametrize("case", ["acs_fw", "acs_fw_tp"])
def test_golden_frank_wolfe(case):
    pool, held = beliefs(case)
    expected = CASES[case]["outputs"]
    found = natsel.select("acs-fw", pool, CASES[case]["inputs"]["k"], given=held if case.endswith("tp") else None)
    assert found.ids.tolist() == expected["selected"]
    assert found.scores.tolist() == pytest.approx(expected["scores"], rel=1e-9)
    if case == "acs_fw":  # with points given, these have shares of the sum too
        features_N_D = pool.features().features_N_D
        left = features_N_D.sum(0) - found.weights @ features_N_D[found.ids]
        assert float(left.norm()) == pytest.approx(expected["residual_norms"][-1], rel=1e-9)


def test_golden_frank_wolfe_of_degenerate_points():
    case = CASES["fw_degenerate"]
    pool = natsel.GaussianFeatures(case["inputs"]["features_N_D"])
    found = natsel.select("acs-fw", pool, case["inputs"]["k"], seed=seed_of(0, 1))
    assert found.ids.tolist() == case["outputs"]["selected"]
    assert found.scores.tolist() == pytest.approx(case["outputs"]["scores"], rel=1e-9)
    whole = natsel.select("acs-fw", pool, 4, seed=seed_of(0, 1))
    assert whole.ids[3] == 2, "a point without length only comes by filling up"
    assert whole.weights[3] == 0


@pytest.mark.parametrize("case", ["batchbald", "batchbald_tp", "batchbald_large_noise"])
def test_golden_log_determinants(case):
    pool, held = beliefs(case)
    expected = CASES[case]["outputs"]
    k = CASES[case]["inputs"]["k"]
    found = natsel.select("batchbald", pool.features(), k, given=held.features() if case.endswith("tp") else None)
    assert found.ids.tolist() == expected["selected"]
    if "scores" in expected:
        assert found.scores.tolist() == pytest.approx(expected["scores"], rel=1e-9)
        assert found.total == pytest.approx(expected["total"], rel=1e-9)


@pytest.mark.parametrize("noise", [1e6, 1e12, 1e15])
def test_under_large_noise_a_batch_is_the_points_of_the_largest_variance(noise):
    pool, _ = beliefs("batchbald_large_noise", noise)
    expected = natsel.select("bald", pool.features(), 4).ids.tolist()
    assert natsel.select("batchbald", pool.features(), 4).ids.tolist() == expected


@pytest.mark.parametrize("case", ["bait_forward", "bait_forward_backward", "bait_tp"])
def test_golden_bait(case):
    """Traces in label units: natsel's nats are half of them, for the mean target, over the noise."""
    pool, held = (belief.features() for belief in beliefs(case))
    inputs, expected = CASES[case]["inputs"], CASES[case]["outputs"]
    together = natsel.GaussianFeatures(torch.cat([pool.features_N_D, held.features_N_D]), inputs["noise"])
    search = natsel.ForwardBackward(oversample=inputs.get("overselect", 1.0))
    method = natsel.Method(TraceEPIG(), search)
    given_points = held if case == "bait_tp" else None
    found = natsel.select(method, pool, inputs["k"], targets=together, given=given_points)
    assert sorted(found.ids.tolist()) == sorted(expected["selected"])
    unit = 2 * inputs["noise"] * len(together)
    assert found.total * unit == pytest.approx(expected["start_trace"] - expected["final_trace"], rel=1e-8)
    state = read(TraceEPIG(), pool, Context(natsel.Targets(together), None, torch.Generator(), _targets(given_points)))
    assert state.remaining * unit == pytest.approx(expected["start_trace"], rel=1e-8)
    for position, gain in zip(expected["forward"], expected["forward_gains"], strict=True):
        assert state.add(position) * unit == pytest.approx(gain, rel=1e-7)
    for position, loss in zip(expected["removed"], expected["removal_losses"], strict=True):
        assert state.remove(position) * unit == pytest.approx(loss, rel=1e-6)


def _targets(belief):
    return None if belief is None else natsel.Targets(belief)


def test_golden_removal_losses():
    case = CASES["bait_removal_losses"]
    pool, held = (belief.features() for belief in beliefs("bait_removal_losses"))
    together = natsel.GaussianFeatures(torch.cat([pool.features_N_D, held.features_N_D]), case["inputs"]["noise"])
    state = read(TraceEPIG(), pool, Context(natsel.Targets(together), None, torch.Generator()))
    for position in case["inputs"]["batch"]:
        state.add(position)
    losses = state.losses(torch.tensor(case["inputs"]["batch"])) * 2 * case["inputs"]["noise"] * len(together)
    assert losses.tolist() == pytest.approx(case["outputs"]["losses"], rel=1e-8)


def test_golden_chances_of_k_means_plus_plus():
    pool, _ = beliefs("badge_kmeanspp_probabilities")
    state = read(natsel.Distance(), pool, Context(None, None, torch.Generator()))
    for forced, name in (([3], "after_3"), ([3, 6], "after_3_6")):
        nearest_N = state.distances_to(torch.tensor(forced)).amin(0)
        expected = CASES["badge_kmeanspp_probabilities"]["outputs"][name]
        assert (nearest_N / nearest_N.sum()).tolist() == pytest.approx(expected, rel=1e-9, abs=1e-15)


def test_golden_ties_and_copies():
    twins, _ = beliefs("tie_twins")
    for method, name in (("batchbald", "batchbald"), ("core-set", "core_set"), ("lcmd", "lcmd")):
        found = natsel.select(method, twins.features(), 2, seed=seed_of(0, 1)).ids.tolist()
        assert found == CASES["tie_twins"]["outputs"][name]
        assert natsel.select(method, twins.features(), 2, seed=seed_of(1, 0)).ids.tolist() == found[::-1]
    copies, _ = beliefs("duplicate_point")
    expected = CASES["duplicate_point"]["outputs"]
    for method, name in (("bald", "bald"), ("batchbald", "batchbald"), ("core-set", "core_set"), ("lcmd", "lcmd")):
        assert natsel.select(method, copies.features(), 3, seed=seed_of(0, 9)).ids.tolist() == expected[name]


@pytest.mark.parametrize("method", ["core-set", "lcmd", "acs-fw", "badge"])
def test_where_members_agree_the_batch_is_drawn_and_says_so(method):
    pool, _ = beliefs("no_disagreement")
    batches = {tuple(natsel.select(method, pool, 2, seed=seed).ids) for seed in range(20)}
    assert len(batches) > 3
    found = natsel.select(method, pool, 4)
    assert sorted(found.ids) == [0, 1, 2, 3]
    assert found.scores.tolist() == [0, 0, 0, 0]
    assert sum("filled in at random" in warning for warning in found.warnings) == 1


@pytest.mark.parametrize("method", ["bald", "batchbald"])
def test_where_members_agree_nothing_is_learnt_and_it_is_said(method):
    pool, _ = beliefs("no_disagreement")
    found = natsel.select(method, pool, 2)
    assert found.scores.tolist() == [0, 0]
    assert any(warning.startswith("no disagreement") for warning in found.warnings)


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="noise"):
        natsel.GaussianFeatures([[1.0]], noise=0.0)
    with pytest.raises(ValueError, match=r"^k: asked for 3 of 2"):
        natsel.select("lcmd", natsel.GaussianFeatures([[1.0], [2.0]]), 3)
    with pytest.raises(ValueError, match="NaN"):
        natsel.GaussianSamples([[1.0, math.nan]], 1.0)
    pool = natsel.GaussianFeatures([[1.0, 0.0], [2.0, 1.0]])
    for method in ("core-set", "lcmd", "acs-fw"):
        with pytest.raises(ValueError, match=r"^given: .*\(1, 1\).*\(1, 2\)"):
            natsel.select(method, pool, 1, given=natsel.GaussianFeatures([[1.0]]))


@settings(deadline=None)
@given(st.integers(0, 10**6), st.booleans(), st.booleans())
def test_every_batch_of_all_points_is_an_order_of_them(seed, clustered, holds):
    pool = pool_of(seed, 12, 3, clusters=3 if clustered else 0)
    held = pool_of(seed + 1, 4, 3) if holds else None
    for method in SEARCHES:
        found = natsel.select(method, pool, 12, seed=seed, given=held)
        assert sorted(found.ids) == list(range(12))


@settings(deadline=None)
@given(st.integers(0, 10**6), st.booleans())
def test_farthest_first_is_within_twice_the_best_radius(seed, holds):
    pool = pool_of(seed, 9, 2)
    held = pool_of(seed + 1, 2, 2) if holds else None
    found = natsel.select("core-set", pool, 3, given=held)
    centres = np.zeros((0, 2)) if held is None else held.features_N_D.numpy()
    place_N_2 = pool.features_N_D.numpy()

    def radius(batch):
        all_centres = np.concatenate([centres, place_N_2[list(batch)]])
        return np.linalg.norm(place_N_2[:, None] - all_centres, axis=2).min(1).max()

    best = min(radius(batch) for batch in itertools.combinations(range(9), 3))
    assert radius(found.ids) <= 2 * best + 1e-9
    assert (found.scores[2:] <= found.scores[1:-1] + 1e-9).all(), "after the first pick distances only fall"


@settings(deadline=None)
@given(st.integers(0, 10**6))
def test_the_residual_of_frank_wolfe_never_grows(seed):
    pool = pool_of(seed, 15, 3)
    rows_N_D = pool.features_N_D * 0.1**-0.5
    norms = []
    for k in range(1, 12):
        found = natsel.select("acs-fw", pool, k)
        norms.append(float((rows_N_D.sum(0) - found.weights @ rows_N_D[found.ids]).norm()))
    assert all(later <= before + 1e-9 for before, later in itertools.pairwise(norms))


def test_largest_cluster_by_hand():
    """The largest cluster has the largest sum of squared distances, and its farthest point is picked."""
    pool = pool_of(3, 60, 4, clusters=5)
    held = pool_of(8, 3, 4)
    found = natsel.select("lcmd", pool, 10, given=held)
    place_N_D, centres = pool.features_N_D.numpy() * 0.1**-0.5, list(held.features_N_D.numpy() * 0.1**-0.5)
    for pick in found.ids:
        distance_N_J = np.square(place_N_D[:, None] - np.array(centres)).sum(2)
        owner_N, nearest_N = distance_N_J.argmin(1), distance_N_J.min(1)
        sizes_J = np.bincount(owner_N, weights=nearest_N, minlength=len(centres))
        inside = np.flatnonzero(owner_N == sizes_J.argmax())
        assert pick == inside[nearest_N[inside].argmax()]
        centres.append(place_N_D[pick])


@pytest.mark.parametrize("method", ["core-set", "lcmd", "acs-fw", "bald", "batchbald", "badge"])
def test_single_precision_and_guesses_change_no_pick(method):
    """Guesses of the next picks and products in single precision only save time."""
    double = natsel.GaussianFeatures(np.random.default_rng(1).normal(size=(700, 24)), noise=0.5)
    single = natsel.GaussianFeatures(double.features_N_D.float(), noise=0.5)
    held = double[:20]
    rounded = natsel.GaussianFeatures(single.features_N_D.double(), noise=0.5)
    expected = natsel.select(method, rounded, 60, given=held)
    with natsel.memory_budget(1 << 14):  # no room for guesses
        assert natsel.select(method, rounded, 60, given=held).ids.tolist() == expected.ids.tolist()
    assert (
        natsel.select(method, single, 60, given=natsel.GaussianFeatures(held.features_N_D.float(), 0.5))
        .ids[:40]
        .tolist()
        == expected.ids[:40].tolist()
    )


def test_max_det_is_greedy_log_det_by_brute_force():
    pool = pool_of(5, 30, 4)
    kernel_N_N = (pool.features_N_D @ pool.features_N_D.T).numpy() / 0.1
    taken = []
    for _ in range(8):
        values = [
            -np.inf
            if n in taken
            else np.linalg.slogdet(np.eye(len(taken) + 1) + kernel_N_N[np.ix_([*taken, n], [*taken, n])])[1]
            for n in range(30)
        ]
        taken.append(int(np.argmax(values)))
    found = natsel.select("batchbald", pool, 8)
    assert found.ids.tolist() == taken
    assert found.total == pytest.approx(0.5 * np.linalg.slogdet(np.eye(8) + kernel_N_N[np.ix_(taken, taken)])[1])


@pytest.mark.parametrize("scale", [1e-42, 1e-25, 1.0, 1e25, 1e38])
def test_variances_in_single_precision_are_ceilings_at_any_scale(scale):
    """Also where products leave float32: the picks and scores are those of float64."""
    normal_N_D = torch.randn(600, 70, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    single_N_D = (normal_N_D.clamp(-3, 3) * scale).float()
    pool = natsel.GaussianFeatures(single_N_D[200:], scale**2 / 9)
    held = natsel.GaussianFeatures(single_N_D[:200], scale**2 / 9)
    double = natsel.GaussianFeatures(pool.features_N_D.double(), pool.noise_N)
    context = Context(None, None, torch.Generator(), natsel.Targets(held))
    state, reference = (read(natsel.EIG(), belief, context) for belief in (pool, double))
    everything = torch.arange(400)
    assert bool((state.ceilings(0.0) >= reference.scores() * (1 - 1e-12)).all())
    torch.testing.assert_close(state.gains(everything), reference.scores(), rtol=1e-9, atol=0)
    torch.testing.assert_close(state.scores(), reference.scores(), rtol=1e-9, atol=0)
    found, expected = (natsel.select("bald", belief, 30, given=held) for belief in (pool, double))
    assert found.ids.tolist() == expected.ids.tolist()


@pytest.mark.parametrize("method", ["core-set", "lcmd", "badge"])
@pytest.mark.parametrize("case", ["far from zero", "large", "small", "any size", "a pool in float64"])
def test_single_precision_decides_nothing(method, case):
    """Where products in float32 overflow, vanish or cancel, picks and scores are those of float64."""
    normal_N_D = np.random.default_rng(0).normal(size=(60, 12))
    scale = {"large": 1e30, "small": 1e-30}.get(case, 1.0)
    scale_N_1 = 10.0 ** np.random.default_rng(1).uniform(-30, 30, size=(60, 1)) if case == "any size" else scale
    double_N_D = torch.tensor(normal_N_D + 1000 * (case == "far from zero")) * torch.as_tensor(scale_N_1)
    single_N_D, noise_N = double_N_D.float(), torch.as_tensor(scale_N_1).double().square().expand(60, 1)[:, 0] / 4
    held = natsel.GaussianFeatures(single_N_D[:10], noise_N[:10])
    pool = natsel.GaussianFeatures(single_N_D[10:], noise_N[10:])
    double = natsel.GaussianFeatures(pool.features_N_D.double(), pool.noise_N)
    held_double = natsel.GaussianFeatures(held.features_N_D.double(), held.noise_N)
    expected = natsel.select(method, double, 12, given=held_double)
    found = natsel.select(method, double if case == "a pool in float64" else pool, 12, given=held)
    assert found.ids.tolist() == expected.ids.tolist()
    assert found.scores.tolist() == pytest.approx(expected.scores.tolist(), rel=1e-5)
    assert found.warnings == expected.warnings


def test_points_belong_to_the_first_of_the_centres_that_are_as_near():
    """Copies among the points given, of which rounding would make several clusters."""
    normal_N_D = torch.randn(230, 70, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    pool = natsel.GaussianFeatures(normal_N_D[30:], torch.linspace(0.1, 3, 200))
    held = natsel.Targets(natsel.GaussianFeatures(normal_N_D[:30].repeat(3, 1)))
    state = read(natsel.Distance(), pool, Context(None, None, torch.Generator(), held))
    assert int(state.nearest_held()[1].max()) < 30


def test_frank_wolfe_follows_lengths_that_leave_single_precision():
    scale = 1e-42
    normal_N_D = torch.randn(40, 12, generator=torch.Generator().manual_seed(0), dtype=torch.float64).clamp(-3, 3)
    single = natsel.GaussianFeatures((normal_N_D * scale).float(), scale**2)
    expected = natsel.select("acs-fw", natsel.GaussianFeatures(single.features_N_D.double(), scale**2), 6)
    found = natsel.select("acs-fw", single, 6)
    assert found.ids.tolist() == expected.ids.tolist()
    assert found.weights.tolist() == pytest.approx(expected.weights.tolist(), rel=1e-9)


def test_points_without_features_need_no_noise():
    """Ceilings of variances are nothing beside any noise, and so refuse none."""
    features_N_D = torch.tensor([[1.0, 0.0], [0.0, 0.0], [0.0, 2.0]])
    pool = natsel.GaussianFeatures(features_N_D, [1.0, 1e-60, 1.0])
    assert natsel.select("batchbald", pool, 3).ids.tolist() == [2, 0, 1]


def test_ceilings_do_not_say_which_gains_are_equal():
    """Points given settle all that the pool is about: gains are far below their ceilings in float32, and no ties."""
    normal_N_D = torch.randn(60, 200, generator=torch.Generator().manual_seed(0))
    normal_N_D[:, 100:] = 0
    held = natsel.GaussianFeatures(torch.eye(200)[:100], 1e-16)
    pool = natsel.GaussianFeatures(normal_N_D, 1e3)
    expected = pool.features_N_D.double().square().sum(1).argsort(descending=True)[:10]
    assert natsel.select("batchbald", pool, 10, given=held).ids.tolist() == expected.tolist()


def test_gains_of_draws_that_agree_on_their_noise_hold_no_rounding_of_it():
    mean_N_K = np.random.default_rng(0).normal(size=(20, 10)) * np.linspace(1, 2, 20)[:, None]
    pool = natsel.GaussianSamples(mean_N_K, np.linspace(3e17, 9e17, 20)[:, None].repeat(10, 1))
    torch.testing.assert_close(natsel.score("bald", pool), natsel.score("bald", pool.features()), rtol=1e-9, atol=0.0)


def test_bait_refuses_noise_that_is_nothing_and_follows_any_scale():
    normal_N_D = torch.randn(40, 6, generator=torch.Generator().manual_seed(0))
    with pytest.raises(ValueError, match=r"^noise: it is down to"):
        natsel.select(
            "bait", natsel.GaussianFeatures(normal_N_D * 1e12), 2, targets=natsel.GaussianFeatures(normal_N_D)
        )
    expected = natsel.select(
        "bait", natsel.GaussianFeatures(normal_N_D), 5, targets=natsel.GaussianFeatures(normal_N_D)
    )
    for scale in (1e-36, 1e36):
        scaled = natsel.GaussianFeatures(normal_N_D * scale, scale**2)
        found = natsel.select("bait", scaled, 5, targets=scaled)
        assert found.ids.tolist() == expected.ids.tolist()
        assert found.total == pytest.approx(expected.total, rel=1e-5)


def test_few_points_are_looked_at_again_by_max_det(monkeypatch):
    """Counted work: a lazy batch brings far fewer points up to date than picks times pool."""
    from natsel.information.conditioning.lazy_variances import LazyVariances

    refreshed = []
    work = LazyVariances._refresh
    monkeypatch.setattr(
        LazyVariances,
        "_refresh",
        lambda points, stale_n, count: (refreshed.append(len(stale_n)), work(points, stale_n, count)),
    )
    scale_N_1 = torch.linspace(0.1, 2, 3000)[:, None]
    pool = natsel.GaussianFeatures(torch.randn(3000, 16, generator=torch.Generator().manual_seed(0)) * scale_N_1)
    natsel.select("batchbald", pool, 40)
    assert sum(refreshed) < 40 * 3000 / 4
