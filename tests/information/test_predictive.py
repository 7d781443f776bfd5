"""Predictive information from shared draws: golden values, enumeration, sixty digits, and properties."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import natsel
from golden_values import golden, logs, random_draws
from natsel import memory
from natsel.information import mutual_information
from natsel.information import predictive_information as engine
from natsel.information.phi import phi, phi_of_ratio
from natsel.information.predictive_information import (
    TargetDeviations,
    deviations,
    epig,
    epig_chi2,
    over_second_order,
    over_targets,
    over_targets_by_row,
    pairwise_predictive_information,
    ratios,
    second_order,
    second_order_if_cheap,
    square_root,
    target_weights,
)

GOLDEN = golden("06-epig")
TABLES = [
    name for name, case in GOLDEN.items() if "pairwise_N_M" in case["expected"] and "probs_N_K_C" in case["inputs"]
]
seeds = st.integers(0, 2**32 - 1)


def brute(log_probs_N_K_C: Tensor, log_probs_M_K_C: Tensor, log_weights_K: Tensor | None = None) -> Tensor:
    """I[Y;Y*] = Σ p(y,y*) ln p(y,y*) / p(y) p(y*), one pair of points and one pair of labels after another."""
    weights = [1 / log_probs_N_K_C.shape[1]] * log_probs_N_K_C.shape[1]
    if log_weights_K is not None:
        weights = log_weights_K.double().softmax(0).tolist()
    pool, about = log_probs_N_K_C.double().exp().tolist(), log_probs_M_K_C.double().exp().tolist()
    found = torch.zeros(len(pool), len(about), dtype=torch.float64)
    for n, p in enumerate(pool):
        for m, q in enumerate(about):
            terms = []
            for y in range(len(p[0])):
                for z in range(len(q[0])):
                    joint = math.fsum(w * a[y] * b[z] for w, a, b in zip(weights, p, q, strict=True))
                    mine = math.fsum(w * a[y] for w, a in zip(weights, p, strict=True))
                    theirs = math.fsum(w * b[z] for w, b in zip(weights, q, strict=True))
                    terms.append(joint * math.log(joint / mine / theirs) if joint > 0 else 0.0)
            found[n, m] = math.fsum(terms)
    return found


def draws(seed: int, points: int, about: int, count: int, classes: int = 3, other: int | None = None, spread=1.0):
    """Candidates and targets from the same draws, without zeros."""
    generator = torch.Generator().manual_seed(seed)
    made = [(points, count, classes), (about, count, other or classes)]
    return [(spread * torch.randn(shape, generator=generator, dtype=torch.float64)).log_softmax(-1) for shape in made]


# Golden values.


@pytest.mark.parametrize("name", TABLES)
def test_golden_tables(name):
    case = GOLDEN[name]
    inputs, expected = case["inputs"], case["expected"]
    pool, about, weights = (logs(inputs.get(key)) for key in ("probs_N_K_C", "probs_M_K_C", "weights_K"))
    target = inputs.get("target_weights_M")
    close = {"rtol": case["rtol"], "atol": case["atol"]}
    pairs_N_M = pairwise_predictive_information(pool, about, weights)
    np.testing.assert_allclose(pairs_N_M, expected["pairwise_N_M"], **close)
    scores_N = epig(pool, about, weights, None if target is None else torch.tensor(target))
    np.testing.assert_allclose(scores_N, expected["epig_N"], **close)
    assert scores_N.dtype == pairs_N_M.dtype == torch.float64
    exactly_none = np.array(expected["epig_N"]) == 0
    assert (scores_N.numpy()[exactly_none] < 1e-25).all(), "squares of rounding at most"
    if "same_as" in inputs:
        again = epig(logs(inputs["same_as"]["probs_N_K_C"]), logs(inputs["same_as"]["probs_M_K_C"]))
        np.testing.assert_allclose(again, expected["epig_N"], **close)


def test_golden_copies_do_not_change_epig():
    case = GOLDEN["copies_of_the_candidate"]
    point = logs([case["inputs"]["probs_K_C"]])
    for copies in case["inputs"]["copies"]:
        assert float(epig(point, point.repeat(copies, 1, 1))) == pytest.approx(case["expected"]["epig"], rel=1e-10)


def test_golden_barber_agakov_is_reached():
    case = GOLDEN["barber_agakov"]
    found = epig(logs([case["inputs"]["candidate_K_C"]]), logs([case["inputs"]["target_K_C"]]))
    assert float(found) == pytest.approx(case["expected"]["epig"], rel=1e-10)
    assert float(found) > case["expected"]["bound"]


# Enumeration.


@pytest.mark.parametrize("classes", [(2, 2), (3, 3), (1, 3), (4, 1), (2, 5)], ids=str)
@pytest.mark.parametrize("count", [1, 2, 7])
@pytest.mark.parametrize("weighted", [False, True], ids=["even", "weighted"])
def test_enumeration(classes, count, weighted):
    """With zeros, classes nobody allows, and (weighted) a draw of weight 0 that may allow them."""
    mine, theirs = classes
    for seed in range(3):
        pool, log_weights_K = random_draws(seed, 4, count, mine, weighted=weighted)
        about, _ = random_draws(seed + 50, 3, count, theirs)
        pairs_N_M = brute(pool, about, log_weights_K)
        torch.testing.assert_close(
            pairwise_predictive_information(pool, about, log_weights_K), pairs_N_M, rtol=0, atol=1e-8
        )
        torch.testing.assert_close(epig(pool, about, log_weights_K), pairs_N_M.mean(1), rtol=0, atol=1e-8)
        share_M = torch.tensor([0.5, 0.0, 3.0], dtype=torch.float64)
        expected_N = pairs_N_M @ (share_M / share_M.sum())
        torch.testing.assert_close(epig(pool, about, log_weights_K, share_M), expected_N, rtol=0, atol=1e-8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_pure_leaves(dtype):
    """Hard zeros: a target that is a function of the candidate, one that is independent of it, and certain ones."""
    leaf = torch.eye(4, dtype=dtype).log()[None]
    halves = torch.tensor([[1, 0], [1, 0], [0, 1], [0, 1.0]], dtype=dtype).log()[None]
    odd = torch.tensor([[1, 0], [0, 1], [1, 0], [0, 1.0]], dtype=dtype).log()[None]
    certain = torch.tensor([[1, 0]] * 4, dtype=dtype).log()[None]
    about = torch.cat([halves, odd, certain])
    pairs_N_M = pairwise_predictive_information(leaf, about)
    expected = torch.tensor([[math.log(2), math.log(2), 0.0]], dtype=torch.float64)
    torch.testing.assert_close(pairs_N_M, expected, rtol=4e-6 if dtype == torch.float32 else 1e-14, atol=0)
    pairs_N_M = pairwise_predictive_information(about, about)
    assert pairs_N_M[0, 1] == pairs_N_M[2, 2] == 0


def test_a_draw_of_weight_zero_may_say_anything():
    """Also where the others allow a class with a probability too small for float32 to divide by."""
    rare = torch.tensor([[[0.0, -90.0], [0.0, -95.0], [-90.0, 0.0]], [[-0.5, -0.9], [-0.2, -1.7], [-3.0, -0.05]]])
    log_weights_K = torch.tensor([0.0, 0.0, -math.inf])
    with_it, without = epig(rare, rare, log_weights_K), epig(rare[:, :2], rare[:, :2])
    assert with_it.isfinite().all()
    torch.testing.assert_close(with_it, without, rtol=1e-5, atol=1e-20)


def test_a_target_of_weight_zero_is_not_looked_at():
    pool, about = draws(0, 4, 3, 5)
    broken = torch.cat([about, torch.full_like(about[:1], math.nan)])
    torch.testing.assert_close(epig(pool, broken, None, torch.tensor([1, 1, 1, 0])), epig(pool, about))
    torch.testing.assert_close(epig_chi2(pool, broken, None, torch.tensor([1, 1, 1, 0])), epig_chi2(pool, about))


# Digits.


def exact_phi(r: float) -> float:
    with localcontext() as context:
        context.prec = 60
        one = 1 + Decimal(r)
        return float(one * one.ln() - Decimal(r)) if one else 1.0


@pytest.mark.parametrize(("dtype", "rtol"), [(torch.float64, 5e-14), (torch.float32, 5e-6)])
def test_phi_to_sixty_digits(dtype, rtol):
    small = 10.0 ** np.linspace(-15, -0.001, 400)
    r = torch.tensor(np.concatenate([-small, small, 10 ** np.linspace(0, 8, 50)])).to(dtype)
    expected = torch.tensor([exact_phi(float(value)) for value in r], dtype=torch.float64)
    torch.testing.assert_close(phi(r.clone()).double(), expected, rtol=rtol, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_phi_of_ratio_is_off_by_rounding_alone(dtype, monkeypatch):
    """By eps of how far the ratio is from 1, and not to one side: what many pairs add up to has more digits."""
    spread = 10 ** np.linspace(-3, 0, 7)[:, None]
    ratio = torch.tensor(np.exp(spread * np.random.default_rng(0).normal(size=(7, 2000)))).to(dtype)
    expected = torch.tensor([[exact_phi(value - 1) for value in row] for row in ratio.tolist()], dtype=torch.float64)
    eps = torch.finfo(dtype).eps
    for logarithm, threads in {"numpy's": 1, "torch's": 64}.items():
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        found = phi_of_ratio(ratio.clone(), torch.empty_like(ratio)).double()
        limit = 4 * eps * (ratio.double() - 1).abs() + 4 * eps * expected
        assert ((found - expected).abs() <= limit).all(), f"{logarithm} logarithm"
        torch.testing.assert_close(found.mean(1), expected.mean(1), rtol=100 * eps, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_phi_at_its_ends_and_below_by_rounding(dtype):
    r, expected = torch.tensor([-1.0, -1.0 - 1e-6, 0.0], dtype=dtype), torch.tensor([1.0, 1.0, 0.0], dtype=dtype)
    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(phi(r.clone()), expected, rtol=50 * eps, atol=0)
    assert phi(torch.empty(0, dtype=dtype)).shape == (0,)
    one = torch.ones(1, 1, dtype=dtype)
    smallest = float(ratios(0 * one, one, one)) ** 2
    ratio = torch.tensor([smallest, smallest, 1.0], dtype=dtype)
    torch.testing.assert_close(phi_of_ratio(ratio, torch.empty(3, dtype=dtype)), expected, rtol=50 * eps, atol=0)


def test_phi_writes_where_it_is_told():
    r, spare = torch.linspace(-0.99, 3, 50).view(5, 10), torch.empty(5, 10)
    for form, numbers in ((phi, r), (phi_of_ratio, 1 + r)):
        found = form(numbers.clone(), spare)
        assert found.data_ptr() == spare.data_ptr()
        torch.testing.assert_close(found, form(numbers.clone(), torch.empty(5, 10)))


def test_phi_of_some_is_phi_of_all():
    """The form that a number gets does not depend on its neighbours."""
    r = torch.tensor([1e-6, 0.02, -0.03, 0.04999, 0.0501, 0.3])
    together = phi(r.clone())
    assert together.tolist() == [float(phi(one[None].clone())) for one in r]


@given(seed=seeds, exponent=st.floats(-4, 0))
@settings(deadline=None)
def test_float32_keeps_sign_and_digits(seed, exponent):
    """Of draws that hardly differ as many as p − p̄ has: where three entropies have none, and wrong signs."""
    pool, about = (x.float() for x in draws(seed, 30, 20, 20, 5, spread=10**exponent))
    expected_N, found_N = epig(pool.double(), about.double()), epig(pool, about)
    assert (found_N >= 0).all()
    torch.testing.assert_close(found_N, expected_N, rtol=2e-6 + 2e-6 / 10**exponent, atol=1e-30)


def test_float32_at_a_hundred_millionth_of_a_nat():
    """At 1.5e-8 nats the difference of entropies has wrong signs and another best point; this has not.

    docs/theory/epig-jepig.md, 5.
    """
    pool, about = draws(1, 200, 100, 100, 10, spread=0.03)
    expected_N = epig(pool, about)
    assert 1e-9 < float(expected_N.mean()) < 3e-8
    found_N = epig(pool.float(), about.float())
    torch.testing.assert_close(found_N, expected_N, rtol=1e-4, atol=0)
    assert int(found_N.argmax()) == int(expected_N.argmax())
    probs, aims = pool.float().exp(), about.float().exp()
    joint = torch.einsum("nkc,mkd->ncmd", probs, aims) / 100
    naive_N = (joint * (joint / (probs.mean(1)[:, :, None, None] * aims.mean(1))).log()).sum((1, 2, 3)) / 100
    assert (naive_N < 0).any(), "the plain form would do here: the test tests nothing"


def test_float32_of_draws_a_millionth_apart():
    """One rounding of the mean is as large as what such draws differ by: it must not look like a difference."""
    generator = torch.Generator().manual_seed(0)
    normal = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)  # noqa: E731
    made = [normal(points, 1, 10) + 1e-6 * normal(points, 100, 10) for points in (30, 20)]
    pool, about = (logits.log_softmax(-1).float() for logits in made)
    for form in (epig, epig_chi2):
        torch.testing.assert_close(form(pool, about), form(pool.double(), about.double()), rtol=0.1, atol=0)


@pytest.mark.parametrize("about", [1, 4, 30, 300])
@pytest.mark.parametrize("spread", [0.05, 0.2, 0.6, 2.0])
def test_float32_has_as_many_digits_with_few_targets(about, spread):
    """The quick form of φ is off by eps·|r| a pair, which few pairs do not average away."""
    pool, aims = draws(about, 200, about, 20, 2, spread=spread)
    pool, aims = pool.float(), aims.float()
    expected_N = epig(pool.double(), aims.double())
    found_N, careful_N = epig(pool, aims), over_targets(pool, TargetDeviations(aims))
    worst = float(((careful_N - expected_N).abs() / expected_N).max())
    off_N = (found_N - expected_N).abs() / expected_N
    assert float(off_N.max()) < max(5e-6, 1.5 * worst)


def test_what_targets_hardly_know_of_keeps_its_digits_at_a_glance():
    """Candidates that differ much between draws, but along what hardly matters: aᵀGa would cancel in float32."""
    generator = torch.Generator().manual_seed(0)
    bits = torch.tensor([[(k >> b) & 1 for b in range(4)] for k in range(16)], dtype=torch.float64) - 0.5
    leak_N = 10 ** torch.linspace(-5, -3, 30, dtype=torch.float64)
    logit_N_K = 2 * bits[:, 0] + leak_N[:, None] * bits[:, 1]
    aim_M_K = bits[:, 1] * torch.linspace(1, 3, 40, dtype=torch.float64)[:, None]
    aim_M_K = aim_M_K + bits[:, 2] * torch.randn(40, 1, generator=generator, dtype=torch.float64)
    pool, about = (torch.stack([x, -x], -1).log_softmax(-1) for x in (logit_N_K, aim_M_K))
    expected_N = epig(pool, about)
    rough_N = epig_chi2(pool.float(), about.float())
    ratio_N = rough_N / expected_N
    assert float(expected_N[0]) < 1e-10
    assert ((ratio_N > 0.5) & (ratio_N < 2)).all(), ratio_N.tolist()


@pytest.mark.parametrize("weak", [1e-1, 1e-2, 1e-3, 1e-4])
def test_what_targets_know_a_little_of_is_not_dropped_at_a_glance(weak):
    """Targets depend on one thing strongly and on another weakly, candidates on the second alone: all that is worth
    learning about them is in a small root of the second moment. Twice the best_by_shortlist must stay a ceiling.
    """
    bits = torch.tensor([[(k >> b) & 1 for b in range(3)] for k in range(8)], dtype=torch.float64) - 0.5
    strength_M = torch.linspace(1, 3, 20, dtype=torch.float64)[:, None]
    logits = torch.linspace(0.5, 2, 5, dtype=torch.float64)[:, None] * bits[:, 1], strength_M * bits[:, 0]
    logits = logits[0], logits[1] + weak * bits[:, 1]
    pool, about = (torch.stack([x, -x], -1).log_softmax(-1) for x in logits)
    assert TargetDeviations(about).pairs > 8  # the factor is made of roots
    found_N, exact_N = epig_chi2(pool, about), epig(pool, about)
    assert (2 * found_N >= exact_N).all()
    p_N_C, q_M_C = pool.exp().mean(1), about.exp().mean(1)
    a_N_K_C, b_M_K_C = pool.exp() / p_N_C[:, None] - 1, about.exp() / q_M_C[:, None] - 1
    r_N_C_M_C = torch.einsum("nkc,mkd->ncmd", a_N_K_C, b_M_K_C) / 8
    expected_N = 0.5 * (p_N_C[:, :, None, None] * q_M_C * r_N_C_M_C.square()).sum((1, 2, 3)) / 20
    torch.testing.assert_close(found_N, expected_N, rtol=1e-6, atol=0)


# Memory.


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_chunks_change_nothing(dtype, monkeypatch):
    pool, about = (x.to(dtype) for x in draws(3, 23, 17, 6, 3, other=4))
    weights, share = torch.randn(6, generator=torch.Generator().manual_seed(0)), torch.arange(17)
    whole = [f(pool, about, weights, share) for f in (epig, epig_chi2)]
    pairs = pairwise_predictive_information(pool, about, weights)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-13
    for budget in (1, 1 << 10, 1 << 14, 1 << 18):
        for columns in (2, 5, 64):
            monkeypatch.setattr(engine, "_COLUMNS", columns)
            with natsel.memory_budget(budget):
                cut = [f(pool, about, weights, share) for f in (epig, epig_chi2)]
                again = pairwise_predictive_information(pool, about, weights)
            for one, two in zip([*whole, pairs], [*cut, again], strict=True):
                torch.testing.assert_close(one, two, rtol=tolerance, atol=1e-20)


def test_failed_chunks_leave_nothing_behind(monkeypatch):
    pool, about = draws(3, 23, 17, 6)
    whole, failed = [f(pool, about) for f in (epig, epig_chi2, pairwise_predictive_information)], []

    def run(work, part):
        result = work(part)
        if part.stop - part.start > 3:
            failed.append(part)
            raise torch.OutOfMemoryError("simulated")
        return result

    monkeypatch.setattr(memory, "run", run)
    for before, f in zip(whole, (epig, epig_chi2, pairwise_predictive_information), strict=True):
        torch.testing.assert_close(f(pool, about), before, rtol=1e-13, atol=1e-20)
    assert failed


def test_no_more_is_held_than_the_budget_allows(monkeypatch):
    """Counted at the allocations of tables: candidates, parts of targets and rows, each keep to their share."""
    pool, about = (x.float() for x in draws(0, 500, 4000, 10, 5))
    largest = [0]

    def watched(form):
        def tables(probs_K_nC, weights_R_K, mean_R_nC):
            largest[0] = max(largest[0], len(weights_R_K) * probs_K_nC.numel() * 4)
            return form(probs_K_nC, weights_R_K, mean_R_nC)

        return tables

    monkeypatch.setattr(engine, "deviations", watched(deviations))
    monkeypatch.setattr(engine, "ratios", watched(ratios))
    with natsel.memory_budget(1 << 20):
        epig(pool, about)
        over_targets(pool[:40], TargetDeviations(about[:400], torch.randn(40, 10).log_softmax(-1)))
    assert 6 * largest[0] <= 1 << 20, "six such tables are held at a time"


# Properties: docs/theory/epig-jepig.md, 16.


@given(seed=seeds, count=st.integers(1, 8), classes=st.integers(1, 4), zeros=st.booleans())
@settings(deadline=None)
def test_never_more_than_either_side_knows(seed, count, classes, zeros):
    """0 ≤ I ≤ what either side knows, and EPIG ≤ 2·χ²/2: always."""
    pool, log_weights_K = random_draws(seed % 2**31, 5, count, classes, zeros)
    about, _ = random_draws(seed % 2**31 + 1, 4, count, 3, zeros)
    pairs_N_M = pairwise_predictive_information(pool, about, log_weights_K)
    weights_K = log_weights_K.exp()
    entropy = -(weights_K * weights_K.clamp_min(1e-300).log()).sum()
    mine_N, theirs_M = (mutual_information(x, log_weights_K) for x in (pool, about))
    for bound in (mine_N[:, None], theirs_M, math.log(classes), math.log(3), float(entropy)):
        assert (pairs_N_M <= bound + 1e-12).all()
    assert (pairs_N_M >= 0).all()
    for dtype in (torch.float32, torch.float64):
        x, y = pool.to(dtype), about.to(dtype)
        score_N, rough_N = epig(x, y, log_weights_K), epig_chi2(x, y, log_weights_K)
        assert (score_N >= 0).all()
        assert (rough_N >= 0).all()
        assert (score_N <= 2 * rough_N * (1 + 1e-4) + 1e-12).all()


def test_twice_the_second_order_is_nearly_reached():
    """Rare labels that never meet: no factor below 2 would do for every belief."""
    rare = 1e-3
    pool, about = torch.tensor([[[1 - rare, rare], [1.0, 0.0]]]), torch.tensor([[[1.0, 0.0], [1 - rare, rare]]])
    weights = torch.tensor([0.01, 0.99]).double().log()
    ratio = epig(pool.double().log(), about.double().log(), weights) / epig_chi2(
        pool.double().log(), about.double().log(), weights
    )
    assert 1.0 < float(ratio) < 2.0
    apart = torch.tensor([[[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]]), torch.tensor([[[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]])
    weights = torch.tensor([1 - 2 * rare, rare, rare]).double().log()
    pool, about = (x.double().log() for x in apart)
    assert 1.99 < float(epig(pool, about, weights) / epig_chi2(pool, about, weights)) <= 2.0


@given(seed=seeds, count=st.integers(2, 6))
@settings(max_examples=30, deadline=None)
def test_epig_is_what_bald_loses_once_a_target_is_labelled(seed, count):
    """EPIG(x) = BALD(x) − E_{x*,y*} BALD(x | y*)."""
    pool, log_weights_K = random_draws(seed % 2**31, 4, count, 3)
    about, _ = random_draws(seed % 2**31 + 1, 3, count, 2)
    after_N = torch.zeros(4, dtype=torch.float64)
    for log_probs_K_C in about:
        for label in range(2):
            log_joint_K = log_weights_K + log_probs_K_C[:, label]
            chance = float(log_joint_K.exp().sum())
            if chance > 0:
                after_N += chance * mutual_information(pool, log_joint_K) / 3
    torch.testing.assert_close(
        epig(pool, about, log_weights_K), mutual_information(pool, log_weights_K) - after_N, rtol=0, atol=1e-10
    )


@given(seed=seeds)
@settings(max_examples=30, deadline=None)
def test_three_estimators_agree(seed):
    """Three entropies, the divergence, and what is used."""
    pool, about = draws(seed, 5, 4, 6)
    pairs_N_M = pairwise_predictive_information(pool, about)
    joint = torch.einsum("nkc,mkd->nmcd", pool.exp(), about.exp()) / 6
    mine, theirs = joint.sum(3), joint.sum(2)

    def entropy(p: Tensor, dims) -> Tensor:
        return -torch.xlogy(p, p).sum(dims)

    three = entropy(mine, 2) + entropy(theirs, 2) - entropy(joint, (2, 3))
    divergence = (joint * (joint.log() - mine.log()[..., None] - theirs.log()[:, :, None])).sum((2, 3))
    torch.testing.assert_close(pairs_N_M, three, rtol=0, atol=1e-10)
    torch.testing.assert_close(pairs_N_M, divergence, rtol=0, atol=1e-10)


@given(seed=seeds, count=st.integers(2, 6), weighted=st.booleans())
@settings(max_examples=30, deadline=None)
def test_symmetries(seed, count, weighted):
    """Both sides exchanged, draws, classes and targets permuted, targets repeated, put together and weighted."""
    pool, log_weights_K = random_draws(seed % 2**31, 5, count, 3, weighted=weighted)
    about, _ = random_draws(seed % 2**31 + 7, 4, count, 2)
    close = {"rtol": 1e-9, "atol": 1e-13}
    pairs_N_M = pairwise_predictive_information(pool, about, log_weights_K)
    torch.testing.assert_close(pairwise_predictive_information(about, pool, log_weights_K).T, pairs_N_M, **close)
    scores_N = epig(pool, about, log_weights_K)
    torch.testing.assert_close(scores_N, pairs_N_M.mean(1), **close)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed % 1000))
    torch.testing.assert_close(epig(pool[:, order], about[:, order], log_weights_K[order]), scores_N, **close)
    torch.testing.assert_close(epig(pool.flip(2), about.flip(0, 2), log_weights_K), scores_N, **close)
    torch.testing.assert_close(epig(pool, about.repeat(2, 1, 1), log_weights_K), scores_N, **close)
    first, rest = epig(pool, about[:1], log_weights_K), epig(pool, about[1:], log_weights_K)
    torch.testing.assert_close((first + 3 * rest) / 4, scores_N, **close)
    weighted_N = epig(pool, about, log_weights_K, torch.tensor([2, 0, 1, 1]))
    torch.testing.assert_close(weighted_N, (2 * pairs_N_M[:, 0] + pairs_N_M[:, 2] + pairs_N_M[:, 3]) / 4, **close)


def test_draws_must_be_shared():
    """Shuffled on one side, nearly nothing is left of it."""
    generator = torch.Generator().manual_seed(0)
    latent_K = torch.randn(100, 1, generator=generator, dtype=torch.float64)
    pool, about = ((latent_K * torch.randn(20, 1, 3, generator=generator)).log_softmax(-1) for _ in range(2))
    mixed = about[:, torch.randperm(100, generator=generator)]
    assert float(epig(pool, mixed).mean()) < 0.2 * float(epig(pool, about).mean())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_nothing_to_learn_is_worth_nothing(dtype):
    """One draw, or predictions that do not depend on it, on either side."""
    pool, about = (x.to(dtype) for x in draws(0, 5, 4, 1, 3))
    assert epig(pool, about).tolist() == [0.0] * 5
    assert epig_chi2(pool, about).tolist() == [0.0] * 5
    pool, about = (x.to(dtype) for x in draws(0, 5, 4, 6, 3))
    for x, y in ((pool[:, :1].expand(-1, 6, -1), about), (pool, about[:, :1].expand(-1, 6, -1))):
        assert float(epig(x, y).max()) < (1e-30 if dtype == torch.float64 else 1e-13)
    weights_K = torch.tensor([-math.inf, 0.0, -math.inf, -math.inf, -math.inf, -math.inf])
    assert epig(pool, about, weights_K).tolist() == [0.0] * 5


# What is refused, and what is put right.


def test_refusals():
    pool, about = draws(0, 3, 2, 4)
    with pytest.raises(ValueError, match="targets: they come from 3 draws and the candidates from 4"):
        epig(pool, about[:, :3])
    for f in (epig, epig_chi2, pairwise_predictive_information):
        with pytest.raises(ValueError, match="targets: found none"):
            f(pool, about[:0])
        with pytest.raises(ValueError, match="candidates: found shape"):
            f(pool[0], about)
        with pytest.raises(ValueError, match="log_weights_K: found shape"):
            f(pool, about, torch.zeros(3))
    for wrong in ([1.0], [1.0, -1.0], [0.0, 0.0], [1.0, math.inf], [math.nan, 1.0]):
        with pytest.raises(ValueError, match="target weights: expected"):
            epig(pool, about, None, torch.tensor(wrong))
        with pytest.raises(ValueError, match="target weights: expected"):
            target_weights(torch.tensor(wrong), about)


def test_types_and_shapes_are_put_right():
    pool, about = draws(0, 3, 2, 4)
    expected_N = epig(pool, about)
    torch.testing.assert_close(epig(pool, about.float()), expected_N, rtol=1e-5, atol=1e-9)
    torch.testing.assert_close(epig(pool.float(), about), expected_N, rtol=1e-5, atol=1e-9)
    torch.testing.assert_close(epig(pool.bfloat16(), about.half()), expected_N, rtol=0.2, atol=1e-3)
    torch.testing.assert_close(epig(pool.requires_grad_(), about), expected_N, rtol=1e-12, atol=0)
    assert epig(pool[:0], about).shape == epig_chi2(pool[:0], about).shape == (0,)
    assert pairwise_predictive_information(pool[:0], about).shape == (0, 2)


def test_nan_is_passed_on():
    pool, about = draws(0, 9, 7, 4)
    pool[3, 1] = math.nan
    assert epig(pool, about).isnan().tolist() == [place == 3 for place in range(9)]
    about[2, 0] = math.nan
    assert epig(pool, about).isnan().all()
    assert epig_chi2(pool.float(), about.float()).isnan().all()


def test_inputs_are_left_alone():
    pool, about = draws(0, 9, 7, 4)
    before = pool.clone(), about.clone()
    for f in (epig, epig_chi2, pairwise_predictive_information):
        f(pool, about)
    assert torch.equal(pool, before[0])
    assert torch.equal(about, before[1])


def test_a_glance_is_taken_only_where_it_saves():
    pool, about = draws(0, 3, 400, 6)
    torch.testing.assert_close(second_order_if_cheap(pool, TargetDeviations(about)), epig_chi2(pool, about))
    pool, about = draws(0, 3, 2, 300)
    assert second_order_if_cheap(pool, TargetDeviations(about)) is None
    torch.testing.assert_close(epig(pool, about), brute(pool, about).mean(1), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("about", [1, 3, 40])
def test_the_factor_is_one_of_the_second_moment(about):
    """Whether targets are few (their deviations themselves) or many (the roots of the moment)."""
    _, aims = draws(0, 1, about, 7)
    targets = TargetDeviations(aims, torch.randn(7), torch.arange(about) + 1)
    factor_R_K_S = targets.factor().double()
    assert factor_R_K_S.shape[2] <= min(7, 3 * about)
    torch.testing.assert_close(factor_R_K_S @ factor_R_K_S.mT, targets.second_moment(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("root", ["cholesky", "eigh"])
def test_a_square_root_of_what_has_none_to_spare(root, monkeypatch):
    """Matrices of lower rank, of nothing but zeros, and with NaN, whichever way they are taken apart."""
    if root == "eigh":
        failed = lambda moment: (moment, torch.ones(len(moment)))  # noqa: E731
        monkeypatch.setattr(torch.linalg, "cholesky_ex", failed)
    thin = torch.randn(3, 6, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    moment = torch.cat([thin @ thin.mT, torch.zeros(1, 6, 6)])
    factor = square_root(moment)
    torch.testing.assert_close(factor @ factor.mT, moment, rtol=1e-9, atol=1e-12)
    moment[1, 2, 3] = moment[1, 3, 2] = math.nan
    assert square_root(moment)[1].isnan().any()


# Several weightings of the draws at once.


def rows_of_weights(seed: int, rows: int, count: int) -> tuple[Tensor, Tensor]:
    """Weightings of the draws as they come from labels: sharp ones, draws ruled out, and weights of the rows."""
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(rows, count, generator=generator, dtype=torch.float64)
    logits[torch.rand(rows, count, generator=generator) < 0.2] = -math.inf
    logits[:, 0] = 0.0
    return logits.log_softmax(-1), torch.rand(rows, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("zeros", [False, True], ids=["", "zeros"])
def test_rows_together_are_rows_one_by_one(dtype, zeros, monkeypatch):
    """Sums over rows, rows apart and ratios to the second order: as from one row after another, in any budget."""
    pool, about = (random_draws(seed, count, 9, 3, zeros)[0].to(dtype) for seed, count in ((1, 11), (2, 5)))
    log_weights_R_K, row_weights_R = rows_of_weights(3, 7, 9)
    share_M = torch.tensor([1.0, 0.0, 2.0, 1.0, 0.5])
    alone = [TargetDeviations(about, row_K, share_M) for row_K in log_weights_R_K]
    exact = [epig(pool.double(), about.double(), row_K, share_M) for row_K in log_weights_R_K]
    expected_N_R = torch.stack(exact, 1) * row_weights_R
    rough_N = torch.stack([second_order(pool, targets) for targets in alone], 1) @ row_weights_R
    close = {"rtol": 1e-5, "atol": 1e-9} if dtype == torch.float32 else {"rtol": 1e-11, "atol": 1e-15}
    for budget, columns in ((1 << 30, 2048), (1 << 30, 4), (1 << 14, 2048), (1, 4)):
        monkeypatch.setattr(engine, "_COLUMNS", columns)
        with natsel.memory_budget(budget):
            targets = TargetDeviations(about, log_weights_R_K, share_M, row_weights_R)
            for plenty_N in (None, torch.ones(11)):  # the careful form of φ, and the quick one
                total_N = over_targets(pool, targets, plenty_N)
                torch.testing.assert_close(total_N, expected_N_R.sum(1), **close)
            torch.testing.assert_close(over_targets_by_row(pool, targets), expected_N_R, **close)
            torch.testing.assert_close(second_order(pool, targets), rough_N, **close)
            ratio_N = over_second_order(pool, targets, rough_N)
            some_N = rough_N > 1e-9  # else both are rounding, or 0
            expected_N = expected_N_R.sum(1) / rough_N
            torch.testing.assert_close(ratio_N[some_N], expected_N[some_N], rtol=1e-4, atol=0)
            assert (ratio_N[~some_N] >= 0).all()


def test_no_row_is_worth_nothing():
    pool, about = draws(0, 4, 3, 5)
    targets = TargetDeviations(about, torch.zeros(0, 5), None, torch.zeros(0))
    assert over_targets(pool, targets).tolist() == second_order(pool, targets).tolist() == [0.0] * 4
    assert over_targets_by_row(pool, targets).shape == (4, 0)


def test_a_row_that_rules_a_class_out_keeps_its_digits():
    """Predictions that differ much between draws, though not between those that a row still believes in."""
    pool = torch.tensor([[[0.6, 0.4], [1e-9, 1 - 1e-9], [2e-9, 1 - 2e-9]]], dtype=torch.float64).log()
    about = torch.tensor([[[0.5, 0.5], [0.3, 0.7], [0.8, 0.2]]], dtype=torch.float64).log()
    log_weights_R_K = torch.tensor([[-40.0, -0.7, -0.7]], dtype=torch.float64).log_softmax(-1)
    exact = second_order(pool, TargetDeviations(about, log_weights_R_K))
    found = second_order(pool.float(), TargetDeviations(about.float(), log_weights_R_K))
    torch.testing.assert_close(found, exact, rtol=1e-3, atol=0)
