"""LogDet, LogDetMI and LogDetCMI: golden values, EIG and JEPIG in disguise, brute force, labels, points held."""

import math
import threading
from itertools import combinations
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import natsel
from golden_values import golden
from natsel import FisherFactors, FisherRows, GaussianFeatures
from natsel.beliefs import Targets
from natsel.capabilities import Capability
from natsel.objectives import EIG, JEPIG, Argument, Context, needs_everywhere, read
from natsel.objectives.logdet import LogDet, LogDetCMI, LogDetMI
from natsel.search import Greedy, KMeansPP

GOLDEN = golden("08-fisher")


def state_of(objective, belief, targets=None, held=None, labels=None, seed=0):
    targets, held = (None if part is None else Targets.of(part) for part in (targets, held))
    return read(objective, belief, Context(targets, labels, torch.Generator().manual_seed(seed), held))


def at(*positions):
    return torch.tensor(positions, dtype=torch.int64)


def softmax_layer(seed, count, classes=3, width=4):
    generator = torch.Generator().manual_seed(seed)
    features_N_D = torch.randn(count, width, generator=generator, dtype=torch.float64)
    probs_N_C = (2 * torch.randn(count, classes, generator=generator, dtype=torch.float64)).softmax(1)
    return FisherFactors.categorical(features_N_D, probs_N_C)


def written_out(belief, labels_N):
    """The gradients (π − e_y) ⊗ x as rows."""
    residuals_N_C = belief.outputs_N_C - torch.nn.functional.one_hot(labels_N, belief.outputs_N_C.shape[1])
    return (residuals_N_C[:, :, None] * belief.features_N_D[:, None]).flatten(1)


def logdet(rows_B_P, ridge=1.0):
    return float(torch.logdet(torch.eye(len(rows_B_P), dtype=torch.float64) + rows_B_P @ rows_B_P.T / ridge))


def by_added_points(state, positions):
    return sum(state.add(int(position)) for position in positions)


# Golden values.


def test_golden_similarity():
    case = GOLDEN["similarity_logdet"]
    rows = torch.tensor(case["inputs"]["gradients"], dtype=torch.float64)
    ridge, (a, e, p) = case["inputs"]["lam"], (case["inputs"][name] for name in "AEP")
    expected = case["expected"]
    pool = FisherRows(rows[:, None])
    for made in (pool, GaussianFeatures(rows)):
        state = state_of(LogDet(ridge=ridge), made)
        assert state.value(at(*a)) == pytest.approx(2 * expected["eig"], rel=1e-10)
        assert by_added_points(state, a) == pytest.approx(2 * expected["eig"], rel=1e-10)
        state = state_of(LogDetMI(ridge=ridge), made, targets=made[e])
        assert state.value(at(*a)) == pytest.approx(expected["logdet_mi"], rel=1e-10)
        assert by_added_points(state, a) == pytest.approx(expected["logdet_mi"], rel=1e-10)
        for objective in (LogDetCMI(ridge=ridge), LogDetMI(ridge=ridge)):
            state = state_of(objective, made, targets=made[e], held=made[p])
            assert state.value(at(*a)) == pytest.approx(expected["logdet_cmi"], rel=1e-10)
            assert by_added_points(state, a) == pytest.approx(expected["logdet_cmi"], rel=1e-10)
    # EPIG is the mean over single targets.
    alone = [state_of(LogDetMI(ridge=ridge), pool, targets=pool[[j]]).value(at(*a)) / 2 for j in e]
    assert sum(alone) / len(alone) == pytest.approx(expected["epig"], rel=1e-10)


def test_golden_limits_of_no_ridge():
    case = GOLDEN["similarity_uninformative"]
    belief = GaussianFeatures(torch.tensor(case["inputs"]["gradients"], dtype=torch.float64))
    a, e, tiny = case["inputs"]["A"], case["inputs"]["E"], 1e-9
    value = state_of(LogDet(ridge=tiny), belief).value(at(*a)) + len(a) * math.log(tiny)
    assert value == pytest.approx(2 * case["expected"]["logdet_S_A"] / 2, abs=1e-7)
    state = state_of(LogDetMI(ridge=tiny), belief, targets=belief[e])
    assert by_added_points(state, a) == pytest.approx(case["expected"]["logdet_mi"], abs=1e-6)


def test_golden_singular_similarity_is_finite_with_a_ridge():
    case = GOLDEN["similarity_singular"]
    belief = GaussianFeatures(torch.tensor(case["inputs"]["gradients"], dtype=torch.float64))
    state = state_of(LogDet(ridge=case["inputs"]["lam"]), belief)
    assert by_added_points(state, case["inputs"]["A"]) == pytest.approx(2 * case["expected"]["eig_lambda"], rel=1e-10)
    with pytest.raises(ValueError, match=r"ridge: expected a positive number, found 0"):
        LogDet(ridge=0)


def test_golden_mutual_information_of_similarities():
    case = GOLDEN["submodular_information"]
    root = torch.linalg.cholesky(torch.tensor(case["inputs"]["similarity"], dtype=torch.float64))
    belief, tiny = GaussianFeatures(root), 1e-10
    for eta, name in ((1.0, "logdet_smi"), (case["inputs"]["eta"], "logdet_smi_eta_half")):
        state = state_of(LogDetMI(ridge=tiny, eta=eta), belief, targets=belief[case["inputs"]["Q"]])
        assert state.value(at(*case["inputs"]["A"])) == pytest.approx(case["expected"][name], rel=1e-6)
        assert by_added_points(state, case["inputs"]["A"]) == pytest.approx(case["expected"][name], rel=1e-6)


def test_golden_pairs_can_tell_more_than_their_points():
    case = GOLDEN["jepig_not_submodular"]
    pool = FisherRows(torch.tensor(case["inputs"]["candidate_rows"], dtype=torch.float64)[:, None])
    targets = FisherRows(torch.tensor(case["inputs"]["eval_rows"], dtype=torch.float64)[:, None])
    state = state_of(LogDetMI(), pool, targets)
    assert (state.scores() / 2).tolist() == pytest.approx(case["expected"]["single"], rel=1e-10)
    assert by_added_points(state, [0, 1]) / 2 == pytest.approx(case["expected"]["pair"], rel=1e-10)


def test_golden_gradients_under_hard_labels():
    """Hard labels, and similarities whitened by the posterior as rows."""
    case = GOLDEN["one_sample_bias"]
    weight_C_D, pool_N_D = (
        torch.tensor(case["inputs"][n], dtype=torch.float64) for n in ("weight_C_D", "features_pool_N_D")
    )
    batch = case["inputs"]["batch"]
    belief = FisherFactors.categorical(pool_N_D, (pool_N_D @ weight_C_D.T).softmax(1))
    gradients = state_of(LogDet(), belief).gradients
    expected_B_P = written_out(belief, belief.outputs_N_C.argmax(1))[batch]
    assert belief.outputs_N_C.argmax(1)[batch].tolist() == case["expected"]["hard_labels"]
    torch.testing.assert_close(gradients[batch].columns([0, 1]), expected_B_P @ expected_B_P.T)


# The same quantities by other names.


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 1000), count=st.integers(1, 7), width=st.integers(1, 5), aims=st.integers(1, 4))
def test_on_features_they_are_twice_eig_and_jepig(seed, count, width, aims):
    generator = torch.Generator().manual_seed(seed)

    def made(points):
        features_N_D = torch.randn(points, width, generator=generator, dtype=torch.float64)
        return GaussianFeatures(features_N_D, torch.rand(points, generator=generator, dtype=torch.float64) + 0.1)

    pool, targets = made(count), made(aims)
    for mine, theirs in ((LogDet(), EIG()), (LogDetMI(), JEPIG())):
        about = targets if Argument.TARGETS in needs_everywhere(mine) else None
        found, expected = (state_of(objective, pool, about) for objective in (mine, theirs))
        torch.testing.assert_close(found.scores(), 2 * expected.scores(), rtol=1e-9, atol=1e-10)
        for position in range(count):
            everyone = torch.arange(position, count)
            torch.testing.assert_close(found.gains(everyone), 2 * expected.gains(everyone), rtol=1e-8, atol=1e-9)
            found.add(position)
            expected.add(position)


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 1000), held=st.integers(0, 3), ridge=st.floats(0.05, 20), eta=st.floats(0.1, 1))
def test_conditional_forms_are_differences_of_determinants(seed, held, ridge, eta):
    pool, targets, given_belief = softmax_layer(seed, 5), softmax_layer(seed + 1, 3), softmax_layer(seed + 2, held)
    rows_N_P, rows_M_P, rows_P_P = (written_out(b, b.outputs_N_C.argmax(1)) for b in (pool, targets, given_belief))
    known = given_belief if held else None
    cat = torch.cat
    batch = [3, 0, 4]
    plain = state_of(LogDet(ridge=ridge), pool, held=known)
    expected = logdet(cat([rows_N_P[batch], rows_P_P]), ridge) - logdet(rows_P_P, ridge)
    assert plain.value(at(*batch)) == pytest.approx(expected, abs=1e-9)
    assert by_added_points(plain, batch) == pytest.approx(expected, abs=1e-9)
    told = state_of(LogDetMI(ridge=ridge), pool, targets, known)
    expected -= logdet(cat([rows_N_P[batch], rows_P_P, rows_M_P]), ridge) - logdet(cat([rows_P_P, rows_M_P]), ridge)
    assert told.value(at(*batch)) == pytest.approx(expected, abs=1e-9)
    assert by_added_points(told, batch) == pytest.approx(expected, abs=1e-9)
    less = state_of(LogDetMI(ridge=ridge, eta=eta), pool, targets, known)
    assert by_added_points(less, batch) == pytest.approx(less.value(at(*batch)), abs=1e-9)
    assert -1e-12 <= less.total <= told.total + 1e-9


def test_greedy_finds_what_plain_greedy_finds():
    pool = softmax_layer(3, 60)
    picks = Greedy()(state_of(LogDet(), pool), 8, torch.ones(60, dtype=torch.bool), torch.Generator())
    rows_N_P = written_out(pool, pool.outputs_N_C.argmax(1))
    taken: list[int] = []
    for _ in range(8):
        worth = [-1.0 if n in taken else logdet(rows_N_P[[*taken, n]]) for n in range(60)]
        taken.append(worth.index(max(worth)))
    assert picks.positions.tolist() == taken
    assert picks.total == pytest.approx(logdet(rows_N_P[taken]), abs=1e-10)


def test_lazy_search_extends_few_rows():
    state = state_of(LogDet(), softmax_layer(4, 3000))
    Greedy()(state, 10, torch.ones(3000, dtype=torch.bool), torch.Generator())
    assert int((state.points.version_N > 0).sum()) < 1000


# Labels.


def test_labels_decide_the_gradients():
    pool, targets, held = softmax_layer(5, 6), softmax_layer(6, 3), softmax_layer(7, 2)
    labels, target_labels, held_labels = torch.tensor([0, 1, 2, 2, 1, 0]), torch.tensor([2, 0, 1]), torch.tensor([1, 1])
    state = state_of(
        LogDetMI("true"),
        pool,
        Targets(targets, labels=target_labels),
        Targets(held, labels=held_labels),
        labels.double(),
    )
    rows = [written_out(*pair) for pair in ((pool, labels), (targets, target_labels), (held, held_labels))]
    expected = logdet(torch.cat([rows[0], rows[2]])) + logdet(torch.cat(rows[1:]))
    expected -= logdet(torch.cat(rows)) + logdet(rows[2])
    assert state.value(torch.arange(6)) == pytest.approx(expected, abs=1e-9)
    with pytest.raises(ValueError, match="labels: LogDet weighs labels that are known; pass labels"):
        state_of(LogDet("true"), pool)
    with pytest.raises(ValueError, match="target labels: gradients under true labels need them"):
        state_of(LogDetMI("true"), pool, targets, labels=labels)
    with pytest.raises(ValueError, match="given labels: gradients under true labels need them"):
        state_of(LogDet("true"), pool, held=held, labels=labels)
    with pytest.raises(ValueError, match="labels: expected class numbers, found fractions"):
        state_of(LogDet("true"), pool, labels=labels + 0.5)
    with pytest.raises(ValueError, match="label: expected 'hard', 'sampled' or 'true', found 'soft'"):
        LogDet("soft")


def test_sampled_labels_come_from_the_seed_and_are_right_on_average():
    pool = softmax_layer(8, 4)
    means_N = sum(state_of(LogDet("sampled"), pool, seed=seed).sizes() for seed in range(1500)) / 1500
    exact_N = pool.factors.traces()
    torch.testing.assert_close(means_N, exact_N, rtol=0.1, atol=0.02)
    hard_N = state_of(LogDet(), pool).sizes()
    assert (hard_N <= exact_N + 1e-12).all(), "hard labels make gradients short"
    one, two = (state_of(LogDet("sampled"), pool, seed=seed).sizes() for seed in (1, 1))
    assert torch.equal(one, two)


def test_one_row_a_point_is_used_as_it_is():
    generator = torch.Generator().manual_seed(0)
    features_N_D = torch.randn(5, 3, generator=generator, dtype=torch.float64)
    probs_N = torch.rand(5, generator=generator, dtype=torch.float64)
    belief = FisherFactors.bernoulli(features_N_D, probs_N)
    rows_N_P = (probs_N * (1 - probs_N)).sqrt()[:, None] * features_N_D
    assert state_of(LogDet(), belief).value(at(0, 3)) == pytest.approx(logdet(rows_N_P[[0, 3]]))
    labelled = softmax_layer(1, 4).labelled([0, 1, 2, 0])
    expected = logdet(written_out(softmax_layer(1, 4), torch.tensor([0, 1, 2, 0])))
    assert state_of(LogDet(), labelled).value(torch.arange(4)) == pytest.approx(expected)
    with pytest.raises(ValueError, match="one gradient per point, found 2 outputs"):
        state_of(LogDet(), FisherFactors.gaussian(features_N_D, outputs=2))
    with pytest.raises(ValueError, match=r"one gradient per point, found 2 rows; .*EIG"):
        state_of(LogDet(), FisherRows(torch.ones(3, 2, 4)))


# Geometry, cosines and edges.


def test_states_offer_the_geometry_of_the_gradients():
    pool = softmax_layer(9, 7)
    rows_N_P = written_out(pool, pool.outputs_N_C.argmax(1))
    state = state_of(LogDet(ridge=5.0), pool)
    assert Capability.DISTANCES | Capability.KERNEL in state.offers
    torch.testing.assert_close(state.sizes(), rows_N_P.square().sum(1))
    torch.testing.assert_close(state.distances(4), (rows_N_P - rows_N_P[4]).square().sum(1), rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(state.kernel(at(0, 5), at(1, 2, 6)), rows_N_P[[0, 5]] @ rows_N_P[[1, 2, 6]].T)
    assert not state_of(LogDetMI(ridge=0.2), pool, pool[:2]).offers & Capability.DISTANCES, "targets are not in it"


def test_points_held_are_in_the_geometry():
    """Similarities less what points held explain of them, under noise of the ridge."""
    pool, held = softmax_layer(9, 7), softmax_layer(3, 4)
    rows_N_P, held_H_P = (written_out(each, each.outputs_N_C.argmax(1)) for each in (pool, held))
    noisy_H_H = held_H_P @ held_H_P.T + 0.5 * torch.eye(4, dtype=torch.float64)
    left_N_N = rows_N_P @ rows_N_P.T
    left_N_N = left_N_N - rows_N_P @ held_H_P.T @ torch.linalg.solve(noisy_H_H, held_H_P @ rows_N_P.T)
    state = state_of(LogDet(ridge=0.5), pool, held=natsel.Targets(held))
    torch.testing.assert_close(state.sizes(), left_N_N.diagonal(), rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(state.kernel(at(0, 5), at(1, 2, 6)), left_N_N[[0, 5]][:, [1, 2, 6]])
    far_N = left_N_N.diagonal() + left_N_N[4, 4] - 2 * left_N_N[4]
    torch.testing.assert_close(state.distances(4), far_N, rtol=1e-9, atol=1e-12)
    for name in ("badge", "badge-dpp"):
        alone, given = natsel.select(name, pool, 4), natsel.select(name, pool, 4, given=pool[:3])
        assert (alone.ids.tolist(), alone.log_prob) != (given.ids.tolist(), given.log_prob)


def test_cosines_make_all_gradients_equally_long():
    pool = softmax_layer(10, 5)
    state = state_of(LogDet(cosine=True, ridge=2.0), pool)
    torch.testing.assert_close(state.scores(), torch.full((5,), math.log(1.5), dtype=torch.float64))
    rows_N_P = torch.nn.functional.normalize(written_out(pool, pool.outputs_N_C.argmax(1)))
    assert state.value(at(0, 1, 2)) == pytest.approx(logdet(rows_N_P[:3], 2.0))


def test_sure_points_and_copies():
    features_N_D = torch.ones(4, 2, dtype=torch.float64)
    sure = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.5, 0.5], [0.5, 0.5]], dtype=torch.float64)
    state = state_of(LogDet(), FisherFactors.categorical(features_N_D, sure))
    assert state.scores()[:2].tolist() == [0, 0]
    first, copy = state.add(2), state.add(3)
    assert 0 < copy < first
    assert state.add(0) == 0
    assert state.total == pytest.approx(state.value(at(2, 3, 0)))


def test_refusals():
    pool, targets = softmax_layer(0, 4), softmax_layer(1, 2)
    with pytest.raises(ValueError, match="target weights: LogDetMI counts all alike"):
        state_of(LogDetMI(), pool, Targets(targets, weights=[1.0, 2.0]))
    with pytest.raises(ValueError, match=r"target: their gradients have \(outputs, features\) \(4, 3\)"):
        state_of(LogDetMI(), pool, softmax_layer(1, 2, classes=4, width=3))
    with pytest.raises(ValueError, match="eta: targets can count at most 1, found 2"):
        LogDetMI(eta=2)
    with pytest.raises(ValueError, match="given: LogDetCMI asks what points add to others; pass"):
        state_of(LogDetCMI(), pool, targets)


@pytest.mark.parametrize("budget", [1, 1 << 12])
def test_little_memory_picks_the_same(budget):
    pool, targets, held = softmax_layer(11, 30), softmax_layer(12, 5), softmax_layer(13, 3)
    for objective in (LogDet(), LogDetMI(), LogDetCMI()):
        method = natsel.Method(objective, Greedy())
        options = {"given": held} | ({"targets": targets} if Argument.TARGETS in needs_everywhere(objective) else {})
        expected = natsel.select(method, pool, 6, **options)
        with natsel.memory_budget(budget):
            found = natsel.select(method, pool, 6, **options)
        assert found.ids.tolist() == expected.ids.tolist()
        torch.testing.assert_close(found.scores, expected.scores, rtol=1e-9, atol=1e-12)


def test_held_points_are_not_wanted_again():
    pool = softmax_layer(14, 20)
    method = natsel.Method(LogDet(ridge=0.01), Greedy())
    first = natsel.select(method, pool, 5)
    more = natsel.select(method, pool, 5, given=pool[first.ids])
    together = natsel.select(method, pool, 10)
    assert more.ids.tolist() == together.ids[5:].tolist()
    assert first.total + more.total == pytest.approx(together.total)
    assert all(len({*pair}) == 2 for pair in combinations(more, 2))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc of Linux")
def test_a_thousand_classes_fit_in_a_gibibyte():
    """50,000 points, 1,000 classes, 512 features: gradients written out would take 95 GiB."""
    points, classes, width, page = 50_000, 1000, 512, 4096

    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * page

    generator = torch.Generator().manual_seed(0)
    features_N_D = torch.randn(points, width, generator=generator)
    probs_N_C = torch.empty(points, classes)
    for start in range(0, points, 1000):
        probs_N_C[start : start + 1000] = (3 * torch.randn(1000, classes, generator=generator)).softmax(1)
    pool = FisherFactors.categorical(features_N_D, probs_N_C)
    for search in (Greedy(), KMeansPP()):
        before, peak, done = resident(), [0], threading.Event()

        def watch(peak=peak, done=done):
            while not done.wait(0.01):
                peak[0] = max(peak[0], resident())

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            picked = natsel.select(natsel.Method(LogDet(), search), pool, 100)
        finally:
            done.set()
            watcher.join()
        assert len(set(picked)) == 100
        assert peak[0] - before < 1 << 30, f"{search}: {(peak[0] - before) / (1 << 20):.0f} MiB above the inputs"
