"""EPIG and JEPIG read from categorical draws: golden values, enumeration, batches, and properties."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import natsel
from golden_values import golden, logs, random_draws
from natsel import CategoricalSamples, Method
from natsel.beliefs import Targets
from natsel.information import joint_mutual_information, mutual_information
from natsel.information.predictive_information import epig, epig_chi2
from natsel.objectives import EPIG, JEPIG, Context, EPIGChi2, read
from natsel.objectives.readings.draws import epig_categorical, jepig_categorical
from natsel.objectives.readings.draws.epig_categorical import few
from natsel.search import Greedy, TopK

GOLDEN = golden("06-epig")
TABLES = [name for name, case in GOLDEN.items() if "jepig_N" in case["expected"]]
BATCHES = [
    pytest.param(name, batch, id=f"{name}-{key}")
    for name in TABLES
    for key, batch in GOLDEN[name]["expected"].items()
    if key.startswith("batch_")
]
seeds = st.integers(0, 2**31)


def believe(log_probs_N_K_C: Tensor, log_weights_K: Tensor | None = None) -> CategoricalSamples:
    return CategoricalSamples(log_probs_N_K_C, log_weights_K)


def state_of(objective, pool, about, log_weights_K=None, weights=None, seed=0):
    targets = Targets(believe(about, log_weights_K), weights)
    reading = Context(targets, None, torch.Generator().manual_seed(seed))
    return read(objective, believe(pool, log_weights_K), reading)


def tables(name: str) -> tuple[Tensor, Tensor, Tensor | None]:
    inputs = GOLDEN[name]["inputs"]
    pool, about, weights = (logs(inputs.get(key)) for key in ("probs_N_K_C", "probs_M_K_C", "weights_K"))
    return pool, about, weights


def made(seed, points=5, about=3, draws=4, classes=2, zeros=True):
    pool, log_weights_K = random_draws(seed, points, draws, classes, zeros)
    return pool, random_draws(seed + 1, about, draws, classes, zeros)[0], log_weights_K


def labellings(log_probs_N_K_C: Tensor) -> np.ndarray:
    """p(labels|ω) of every labelling: [C^n, K]."""
    probs = log_probs_N_K_C.exp().numpy()
    count, draws, classes = probs.shape
    rows = [
        np.prod([probs[n, :, label] for n, label in enumerate(labels)], axis=0)
        for labels in itertools.product(range(classes), repeat=count)
    ]
    return np.array(rows).reshape(-1, draws)


def entropy(p: np.ndarray) -> float:
    return -math.fsum(x * math.log(x) for x in p.ravel() if x > 0)


def information(batch: Tensor, about: Tensor, log_weights_K: Tensor | None = None) -> float:
    """I[Y_batch; Y*_all] by enumeration."""
    weights_K = np.full(batch.shape[1], 1 / batch.shape[1]) if log_weights_K is None else log_weights_K.exp().numpy()
    joint = labellings(batch) * weights_K @ labellings(about).T
    return entropy(joint.sum(0)) + entropy(joint.sum(1)) - entropy(joint)


def mean_information(batch: Tensor, about: Tensor, log_weights_K=None, weights=None) -> float:
    """Σ_j v_j I[Y_batch; Y*_j]."""
    return float(np.average([information(batch, one[None], log_weights_K) for one in about], weights=weights))


# Golden values.


@pytest.mark.parametrize("name", TABLES)
def test_golden_scores(name):
    case = GOLDEN[name]
    pool, about, weights = tables(name)
    close = {"rtol": case["rtol"], "atol": case["atol"]}
    share = case["inputs"].get("target_weights_M")
    np.testing.assert_allclose(
        state_of(EPIG(), pool, about, weights, share).scores(), case["expected"]["epig_N"], **close
    )
    np.testing.assert_allclose(state_of(JEPIG(), pool, about, weights).scores(), case["expected"]["jepig_N"], **close)
    bald_N = natsel.score("bald", believe(pool, weights))
    np.testing.assert_allclose(bald_N, case["expected"]["bald_N"], **close)
    targets = Targets(believe(about, weights), share)
    torch.testing.assert_close(
        natsel.score("epig", believe(pool, weights), targets=targets), epig(pool, about, weights, targets.weights_M)
    )


@pytest.mark.parametrize(("name", "batch"), BATCHES)
def test_golden_batches(name, batch):
    pool, about, weights = tables(name)
    for objective, expected in ((EPIG(), batch["epig"]), (JEPIG(), batch["jepig"])):
        state = state_of(objective, pool, about, weights)
        positions = torch.tensor(batch["positions"])
        assert state.value(positions) == pytest.approx(expected, rel=1e-10, abs=1e-13)
        assert state.value(positions.flip(0)) == pytest.approx(expected, rel=1e-10, abs=1e-13)
        for position in batch["positions"]:
            state.add(position)
        assert state.exact
        assert state.total == pytest.approx(expected, rel=1e-9, abs=1e-12)
    for place, expected in enumerate(batch["epig_per_target_M"]):
        state = state_of(EPIG(), pool, about[place : place + 1], weights)
        assert state.value(positions) == pytest.approx(expected, rel=1e-10, abs=1e-13)


def test_golden_greedy_batch():
    case = GOLDEN["greedy_batch_epig"]
    pool, about, _ = tables("greedy_batch_epig")
    expected = case["expected"]
    found = natsel.select("batch-epig", believe(pool), case["inputs"]["k"], targets=believe(about))
    assert found.ids.tolist() == expected["indices"]
    np.testing.assert_allclose(found.scores, expected["gains"], rtol=1e-9, atol=1e-13)
    assert found.total == pytest.approx(expected["total"], rel=1e-10)
    state = state_of(EPIG(), pool, about)
    for step, taken in zip(expected["totals_per_step"], expected["indices"], strict=True):
        positions = torch.tensor([int(position) for position in step])
        np.testing.assert_allclose(state.total + state.gains(positions), list(step.values()), rtol=1e-9, atol=1e-13)
        state.add(taken)


def test_golden_copies_of_the_candidate():
    case = GOLDEN["copies_of_the_candidate"]
    point = logs([case["inputs"]["probs_K_C"]])
    found = [float(state_of(JEPIG(), point, point.repeat(r, 1, 1)).scores()) for r in case["inputs"]["copies"]]
    assert found == pytest.approx(case["expected"]["jepig_per_r"], rel=1e-10)
    assert max(found) < case["expected"]["bald"], "never BALD, though the candidate is a target"


def test_golden_reweighting():
    case = GOLDEN["jepig_by_reweighting"]
    state = state_of(JEPIG(), logs([case["inputs"]["candidate_K_C"]]), logs(case["inputs"]["probs_M_K_C"]))
    assert float(state.scores()) == pytest.approx(case["expected"]["jepig"], rel=1e-10)
    told = case["expected"]["labellings"]
    assert state.effective_draws == pytest.approx(sum(each["probability"] * each["ess"] for each in told), rel=1e-10)
    weights = sorted(map(tuple, state.after.posterior_R_K.tolist()))
    np.testing.assert_allclose(weights, sorted(tuple(each["weights_K"]) for each in told), rtol=1e-10)


def test_golden_total_correlation():
    """EPIG = (JEPIG + TC[Y*] − TC[Y*|Y]) / M (docs/theory/epig-jepig.md, 9)."""
    case = GOLDEN["epig_jepig_total_correlation"]
    candidate, about = logs([case["inputs"]["candidate_K_C"]]), logs(case["inputs"]["probs_M_K_C"])
    expected = case["expected"]
    score, joint = (float(state_of(o, candidate, about).scores()) for o in (EPIG(), JEPIG()))
    assert score == pytest.approx((joint + expected["tc"] - expected["tc_given_candidate"]) / len(about), rel=1e-10)


# Enumeration.


@given(seed=seeds, draws=st.integers(1, 6), classes=st.integers(1, 3), about=st.integers(1, 3))
@settings(max_examples=25, deadline=None)
def test_scores_and_values_by_enumeration(seed, draws, classes, about):
    pool, aims, log_weights_K = made(seed, 4, about, draws, classes)
    share = np.random.default_rng(seed).integers(0, 3, size=about) + np.eye(about)[0]
    for objective, work, weights in (
        (EPIG(), mean_information, None),
        (EPIG(), mean_information, share),
        (JEPIG(), information, None),
    ):
        state = state_of(objective, pool, aims, log_weights_K, weights)
        options = {} if weights is None else {"weights": weights}
        alone = [work(pool[n : n + 1], aims, log_weights_K, **options) for n in range(4)]
        np.testing.assert_allclose(state.scores(), alone, rtol=0, atol=1e-10)
        np.testing.assert_allclose(state.gains(torch.arange(4)), alone, rtol=0, atol=1e-10)
        for batch in ([0, 1], [2, 0, 3]):
            expected = work(pool[batch], aims, log_weights_K, **options)
            assert state.value(torch.tensor(batch)) == pytest.approx(expected, abs=1e-10)


@given(seed=seeds)
@settings(max_examples=10, deadline=None)
def test_gains_are_differences_and_the_rest_is_bounded(seed):
    """Monotone, whatever is taken; `remaining` is never less than what others can add."""
    pool, about, log_weights_K = made(seed, 5, 3, 4, 3)
    for objective, work in ((EPIG(rows=4096), mean_information), (JEPIG(), information)):
        state, taken = state_of(objective, pool, about, log_weights_K), []
        for position in np.random.default_rng(seed).permutation(5)[:3].tolist():
            worth = work(pool[taken], about, log_weights_K) if taken else 0.0
            everything = work(pool, about, log_weights_K) - worth
            assert everything <= state.remaining + 1e-10
            gain_N = state.gains(torch.arange(5))
            assert (gain_N >= 0).all()
            rest = [n for n in range(5) if n not in taken]
            expected = [work(pool[[*taken, n]], about, log_weights_K) - worth for n in rest]
            np.testing.assert_allclose(gain_N[rest], expected, rtol=0, atol=1e-10)
            assert state.add(position) == pytest.approx(float(gain_N[position]), abs=1e-12)
            taken.append(position)
            assert state.total == pytest.approx(work(pool[taken], about, log_weights_K), abs=1e-10)
        assert state.exact


def test_what_remains_can_be_reached():
    """A pool that holds enough copies of a target tells nearly all there is to be told about it."""
    point = logs([[[0.9, 0.1], [0.2, 0.8]]])
    for objective in (EPIG(), JEPIG()):
        state = state_of(objective, point.repeat(40, 1, 1), point)
        before = state.remaining
        assert before == pytest.approx(float(mutual_information(point)))
        for position in range(12):
            state.add(position)
        assert 0.97 * before < state.total <= before + 1e-9
        assert state.remaining < 0.05 * before


@pytest.mark.parametrize(("seed", "runs"), [(0, 30), *(pytest.param(s, 50, marks=pytest.mark.slow) for s in (0, 1))])
def test_thinned_rows_are_right_on_average(seed, runs):
    """EPIG with few rows: the mean over seeds is the exact gain."""
    pool, about, log_weights_K = made(seed, 6, 2, 6, 3, zeros=False)
    exact = state_of(EPIG(rows=1 << 16), pool, about, log_weights_K)
    for position in range(4):
        exact.add(position)
    expected = exact.gains(torch.tensor([4, 5]))
    found = []
    for run in range(runs):
        state = state_of(EPIG(rows=8), pool, about, log_weights_K, seed=run)
        for position in range(4):
            state.add(position)
        assert not state.exact
        found.append(state.gains(torch.tensor([4, 5])))
    stacked = torch.stack(found)
    error = stacked.std(0) / math.sqrt(len(stacked))
    assert ((stacked.mean(0) - expected).abs() < 5 * error + 1e-12).all()


# Properties: docs/theory/epig-jepig.md, 16.


@given(seed=seeds, about=st.integers(1, 4))
@settings(max_examples=25, deadline=None)
def test_jepig_lies_between_epig_and_bald(seed, about):
    """Between the best single target and BALD, in any order; for one target EPIG; the rest is total correlation."""
    pool, aims, log_weights_K = made(seed, 4, about, 5, 2)
    joint_N = state_of(JEPIG(), pool, aims, log_weights_K).scores()
    alone_N_M = torch.stack([state_of(EPIG(), pool, one[None], log_weights_K).scores() for one in aims], 1)
    assert (alone_N_M.max(1).values <= joint_N + 1e-12).all()
    assert (joint_N <= mutual_information(pool, log_weights_K) + 1e-12).all()
    torch.testing.assert_close(
        state_of(JEPIG(), pool, aims.flip(0), log_weights_K).scores(), joint_N, rtol=0, atol=1e-12
    )
    fewer_N = state_of(JEPIG(), pool, aims[:1], log_weights_K).scores()
    torch.testing.assert_close(fewer_N, alone_N_M[:, 0], rtol=0, atol=1e-12)
    assert (fewer_N <= joint_N + 1e-12).all()
    weights_K = log_weights_K.exp().numpy()
    heads = [entropy(weights_K @ one.exp().numpy()) for one in aims]
    apart = sum(heads) - entropy(labellings(aims) @ weights_K)
    for n in range(4):
        given_it = 0.0
        for label in range(2):
            joint_K = weights_K * pool[n, :, label].exp().numpy()
            if (chance := joint_K.sum()) > 0:
                own = joint_K / chance
                rest = sum(entropy(own @ one.exp().numpy()) for one in aims) - entropy(labellings(aims) @ own)
                given_it += chance * rest
        expected = (float(joint_N[n]) + apart - given_it) / about
        assert float(alone_N_M[n].mean()) == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("objective", [EPIG(), JEPIG(), EPIGChi2()])
def test_constant_targets_are_worth_nothing(objective):
    """EPIG and JEPIG are 0 there, whatever BALD is."""
    pool, about, _ = made(0, 4, 3, 6, 3, zeros=False)
    constant = about[:, :1].expand(-1, 6, -1)
    assert float(state_of(objective, pool, constant).scores().max()) < 1e-15
    assert float(mutual_information(pool).min()) > 0.1


def test_xor_is_learned_only_together():
    """Neither is submodular, and greedy finds a partner only once the first is taken."""
    pool, about, _ = tables("xor_synergy")
    for objective in (EPIG(), JEPIG()):
        state = state_of(objective, pool, about)
        assert state.scores().tolist() == pytest.approx([0.0, 0.0], abs=1e-15)
        assert not state.submodular
        assert state.add(0) == pytest.approx(0.0, abs=1e-15)
        assert state.gains(torch.tensor([1])).tolist() == pytest.approx([math.log(2)])
        assert state.remaining == pytest.approx(math.log(2))
        found = natsel.select(Method(objective, Greedy()), believe(pool), 2, targets=believe(about))
        assert found.total == pytest.approx(math.log(2))
    found = natsel.select(Method(EPIG(), natsel.Exhaustive()), believe(pool), 2, targets=believe(about))
    assert found.total == pytest.approx(math.log(2))


@pytest.mark.parametrize("objective", [EPIG(), JEPIG()])
def test_one_greedy_pick_is_the_best_score(objective):
    """Greedy search for one point finds the argmax, as top-k does."""
    for seed in range(8):
        pool, about, log_weights_K = made(seed, 300, 3, 6, 3, zeros=seed % 2 == 0)
        belief, targets = believe(pool, log_weights_K), believe(about, log_weights_K)
        greedy = natsel.select(Method(objective, Greedy()), belief, 1, targets=targets)
        top = natsel.select(Method(objective, TopK()), belief, 1, targets=targets)
        best = int(natsel.score(Method(objective, TopK()), belief, targets=targets).argmax())
        assert greedy.ids.tolist() == top.ids.tolist() == [best]


@pytest.mark.parametrize("objective", [EPIG(), JEPIG(), EPIGChi2()])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_memory_changes_nothing(objective, dtype):
    """Chunks over candidates and targets change nothing beyond rounding."""
    pool, about, log_weights_K = made(3, 40, 5, 6, 3)
    pool, about = pool.to(dtype), about.to(dtype)
    whole_N = state_of(objective, pool, about, log_weights_K).scores()
    for budget in (1, 1 << 12, 1 << 16):
        with natsel.memory_budget(budget):
            cut = state_of(objective, pool, about, log_weights_K)
            torch.testing.assert_close(
                cut.scores(), whole_N, rtol=1e-5 if dtype == torch.float32 else 1e-12, atol=1e-14
            )
            if hasattr(cut, "gains"):
                torch.testing.assert_close(cut.gains(torch.arange(40)), whole_N, rtol=1e-5, atol=1e-7)


def test_gains_of_many_do_not_copy_the_pool(monkeypatch):
    pool, about, _ = made(3, 400, 5, 6, 3, zeros=False)
    state = state_of(EPIG(), pool, about)
    sizes, plain = [], state._full
    monkeypatch.setattr(state, "_full", lambda positions: sizes.append(len(positions)) or plain(positions))
    expected = state.scores()
    with natsel.memory_budget(1 << 15):
        torch.testing.assert_close(state.gains(torch.arange(400)), expected)
    assert max(sizes) * 4 * 6 * 3 * 8 <= 1 << 15
    assert sum(sizes) == 400


def test_adding_a_point_by_hand_does_not_look_at_the_pool(monkeypatch):
    pool, about, _ = made(3, 50, 5, 6, 3)
    state = state_of(EPIG(), pool, about)
    seen, plain = [], epig_categorical.second_order
    counted = lambda log_probs, targets: seen.append(len(log_probs)) or plain(log_probs, targets)  # noqa: E731
    monkeypatch.setattr(epig_categorical, "second_order", counted)
    for position in (3, 4, 5):
        state.add(position)
    assert max(seen) == 1


def test_a_gain_that_is_known_is_not_worked_out_again(monkeypatch):
    pool, about, _ = made(3, 50, 5, 6, 3)
    state = state_of(EPIG(), pool, about)
    for _ in range(3):
        gain_N = state.gains(torch.arange(50))
        with monkeypatch.context() as patch:
            patch.setattr(state, "gains", None)
            assert state.add(7) == float(gain_N[7])


# Both states agree with BatchBALD where targets tell all.


def test_targets_that_name_the_draw_make_jepig_batchbald():
    pool, _, log_weights_K = made(5, 4, 1, 4, 3)
    about = torch.eye(4, dtype=torch.float64).log()[None]
    state = state_of(JEPIG(), pool, about, log_weights_K)
    torch.testing.assert_close(state.scores(), mutual_information(pool, log_weights_K), rtol=0, atol=1e-12)
    expected = float(joint_mutual_information(pool[:3], log_weights_K))
    for position in range(3):
        state.add(position)
    assert state.total == pytest.approx(expected, abs=1e-10)
    assert state.effective_draws == pytest.approx(1.0)


# Second order.


def test_second_order():
    pool, about, log_weights_K = made(5, 6, 4, 5, 3)
    state = state_of(EPIGChi2(), pool, about, log_weights_K, [1, 0, 2, 1])
    torch.testing.assert_close(state.scores(), epig_chi2(pool, about, log_weights_K, torch.tensor([1, 0, 2, 1])))
    found = natsel.select("epig-chi2", believe(pool), 2, targets=believe(about))
    assert found.ids.tolist() == epig_chi2(pool, about).argsort(descending=True)[:2].tolist()


# What users are told.


def test_jepig_warns_where_it_has_become_bald():
    generator = torch.Generator().manual_seed(0)
    pool, about = ((3 * torch.randn(n, 8, 3, generator=generator)).log_softmax(-1) for n in (20, 30))
    many = natsel.select("jepig", believe(pool), 3, targets=believe(about))
    assert any("JEPIG is BALD whatever the targets are worth" in warning for warning in many.warnings)
    assert not natsel.select("jepig", believe(pool), 3, targets=believe(about[:1])).warnings
    state = state_of(JEPIG(), pool.double(), about.double())
    assert 1 <= state.effective_draws < 2
    torch.testing.assert_close(state.scores(), mutual_information(pool.double()), rtol=0.05, atol=0.02)


def test_jepig_stops_once_targets_leave_one_draw(monkeypatch):
    pool, _, _ = made(5, 4, 1, 3, 2)
    about = torch.eye(3, dtype=torch.float64).log()[None].repeat(2000, 1, 1)
    seen, plain = [], jepig_categorical.expand
    monkeypatch.setattr(jepig_categorical, "expand", lambda rows, probs: seen.append(1) or plain(rows, probs))
    state = state_of(JEPIG(), pool, about)
    assert len(seen) == 1, "further targets tell nothing"
    torch.testing.assert_close(state.scores(), mutual_information(pool), rtol=0, atol=1e-12)
    seen.clear()
    pool, about, _ = made(5, 4, 2000, 3, 2, zeros=False)
    state = state_of(JEPIG(rows=64), pool, about)
    assert len(seen) < 500, "nor where draws are told apart little by little"
    torch.testing.assert_close(state.scores(), mutual_information(pool), rtol=0, atol=1e-10)


def test_weights_and_rows_are_checked():
    pool, about, _ = made(0)
    with pytest.raises(ValueError, match="target weights: JEPIG takes all targets together"):
        natsel.score("jepig", believe(pool), targets=Targets(believe(about), [1, 2, 3]))
    for wrong in (0, -1, 1.5):
        for objective in (EPIG, JEPIG):
            with pytest.raises(ValueError, match="rows: expected a whole number of at least 1"):
                objective(rows=wrong)


def test_other_draws_are_refused():
    pool, about, log_weights_K = made(0)
    cases = {
        "they come from 3 draws and the pool from 4": (believe(pool), believe(about[:, :3])),
        "weighted otherwise": (believe(pool, log_weights_K), believe(about)),
        "their draws are 'b' and those of the pool 'a'": (
            CategoricalSamples(pool, draws_id="a"),
            CategoricalSamples(about, draws_id="b"),
        ),
        "found GaussianSamples for a pool of CategoricalSamples": (
            believe(pool),
            natsel.GaussianSamples(torch.zeros(3, 4), 1.0),
        ),
    }
    for said, (belief, targets) in cases.items():
        for name in ("epig", "jepig", "batch-epig", "epig-chi2"):
            with pytest.raises(ValueError, match=said):
                natsel.select(name, belief, 1, targets=targets)


def test_targets_of_another_type_are_cast():
    pool, about, _ = made(0, zeros=False)
    expected = natsel.score("epig", believe(pool), targets=believe(about))
    for one, two in ((pool, about.float()), (pool.float(), about), (pool.float(), about.half())):
        found = natsel.score("epig", believe(one), targets=believe(two))
        assert found.dtype == torch.float64
        torch.testing.assert_close(found, expected, rtol=2e-2 if two.dtype == torch.float16 else 1e-5, atol=1e-7)


def test_class_counts_may_differ_in_batches():
    pool, about, _ = tables("different_class_counts")
    found = natsel.select("batch-epig", believe(pool), 2, targets=believe(about))
    assert found.total == pytest.approx(GOLDEN["different_class_counts"]["expected"]["batch_0_1"]["epig"])
    found = natsel.select("batch-jepig", believe(pool), 2, targets=believe(about))
    assert found.total == pytest.approx(GOLDEN["different_class_counts"]["expected"]["batch_0_1"]["jepig"])


def test_few_targets_follow_their_weights():
    share_M = torch.tensor([0.0] * 500 + [1.0] * 500, dtype=torch.float64) / 500
    chosen = few(share_M, 64)
    assert len(chosen) == 64
    assert (chosen >= 500).all()
    assert len(chosen.unique()) == 64
    share_M[600] = 1.0
    assert 20 < int((few(share_M / share_M.sum(), 64) == 600).sum()) < 44
    assert few(torch.ones(10, dtype=torch.float64) / 10, 64).tolist() == list(range(10))
    assert few(torch.tensor([0.5, 0.0, 0.5]), 64).tolist() == [0, 2]
