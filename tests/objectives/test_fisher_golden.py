"""Objectives in weight space against the golden values, closed forms and the chain of inequalities."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import dense_fisher as fisher
import natsel
from golden_values import golden
from made_weight_space import dense, golden_belief, random_belief, state, tensor
from natsel.beliefs import FisherFactors, FisherRows, GaussianFeatures, Targets
from natsel.information.weights.precision import Dense, Kronecker, LowRank
from natsel.objectives import EIG, EPIG, JEPIG, Argument, needs_everywhere, pair_facts
from natsel.objectives.epig import EPIGJensen
from natsel.objectives.trace import TraceEIG, TraceEPIG, TraceJEPIG
from natsel.search import Greedy

CASES = golden("08-fisher")
NAMES = {
    "eig_logdet": EIG(),
    "eig_trace": TraceEIG(),
    "epig_tight": EPIG(),
    "epig_jensen": EPIGJensen(),
    "jepig": JEPIG(),
    "epig_trace_gain": TraceEPIG(),
    "jepig_trace_gain": TraceJEPIG(),
}
named = pytest.mark.parametrize("name", NAMES)


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def read_case(case: str, name: str, weights: object = None):
    inputs, objective = CASES[case]["inputs"], NAMES[name]
    pool = golden_belief(inputs, "pool")
    targets = None
    if Argument.TARGETS in needs_everywhere(objective):
        targets = Targets(golden_belief(inputs, "eval"), weights=weights)
    return state(objective, pool, targets)


@named
@pytest.mark.parametrize(
    "case", ["single_point_scores", "no_training_data", "bernoulli_sigmoid", "bayesian_linear_regression"]
)
def test_golden_scores_of_single_points(case, name):
    found_N = read_case(case, name).scores()
    expected = [point[name] for point in CASES[case]["expected"]["points"]]
    np.testing.assert_allclose(found_N[: len(expected)], expected, rtol=1e-10, atol=1e-12)


@named
def test_golden_scores_of_batches(name):
    inputs = CASES["batch_scores"]["inputs"]
    for batch, expected in zip(inputs["batches"], CASES["batch_scores"]["expected"]["batches"], strict=True):
        found = read_case("batch_scores", name)
        assert found.value(torch.tensor(batch)) == pytest.approx(expected[name], rel=1e-10, abs=1e-12)
        if hasattr(found, "add"):
            assert sum(found.add(position) for position in batch) == pytest.approx(expected[name], rel=1e-10, abs=1e-12)
    whole = CASES["bayesian_linear_regression"]["expected"]["batch"][name]
    assert read_case("bayesian_linear_regression", name).value(torch.tensor([0, 1])) == pytest.approx(whole, rel=1e-10)


@pytest.mark.parametrize("name", ["epig_tight", "epig_jensen", "epig_trace_gain"])
def test_golden_weights_of_targets(name):
    weights = CASES["weighted_evaluation"]["inputs"]["eval_weights_M"]
    found_N = read_case("weighted_evaluation", name, weights).scores()
    expected = [point[name] for point in CASES["weighted_evaluation"]["expected"]["points"]]
    np.testing.assert_allclose(found_N[: len(expected)], expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["jepig", "jepig_trace_gain"])
def test_joint_objectives_refuse_weights(name):
    with pytest.raises(ValueError, match=r"^target weights: \w+ takes all targets together .*; use \w*EPIG"):
        read_case("weighted_evaluation", name, [3, 1])


@pytest.mark.parametrize("name", ["epig_tight", "epig_jensen", "epig_trace_gain"])
def test_targets_of_weight_zero_count_nothing(name):
    inputs, objective = CASES["single_point_scores"]["inputs"], NAMES[name]
    pool, targets = golden_belief(inputs, "pool"), golden_belief(inputs, "eval")
    found_N = state(objective, pool, Targets(targets, weights=[0, 5])).scores()
    torch.testing.assert_close(found_N, state(objective, pool, targets[1:]).scores(), rtol=1e-12, atol=1e-15)


def test_golden_saturated_softmax_is_a_number():
    inputs, expected = CASES["saturated_softmax"]["inputs"], CASES["saturated_softmax"]["expected"]
    pool = golden_belief(inputs, "pool")
    assert state(EIG(), pool).scores().tolist() == pytest.approx(expected["eig_logdet"], rel=1e-10)
    assert state(TraceEIG(), pool).scores().tolist() == pytest.approx(expected["eig_trace"], rel=1e-10)
    for name in ("epig_tight", "epig_jensen", "jepig", "epig_trace_gain", "jepig_trace_gain"):
        score = state(NAMES[name], pool, pool).scores()
        assert ((score >= 0) & (score < 1e-25)).all(), f"{name}: {score}"


@named
def test_golden_one_class_and_zero_features_tell_nothing(name):
    found = read_case("one_class", name)
    assert found.scores().tolist() == [0.0]
    assert found.value(torch.tensor([0])) == pytest.approx(0, abs=1e-15)
    if hasattr(found, "add"):
        assert found.add(0) == 0
        assert found.gains(torch.tensor([0])).tolist() == [0.0]
    assert float(read_case("single_point_scores", name).scores()[4]) == 0


def test_golden_singular_precision_is_refused():
    with pytest.raises(ValueError, match="positive definite"):
        golden_belief(CASES["singular_precision"]["inputs"], "pool")


def test_golden_structured_precisions():
    case = CASES["kronecker_precision"]
    inputs = {key: tensor(value) for key, value in case["inputs"].items()}
    probs_1_C = (inputs["weight_C_D"] @ inputs["x_D"]).softmax(0)[None]
    for precision in (
        Kronecker(inputs["A_C_C"], inputs["G_D_D"]),
        Dense(torch.kron(inputs["A_C_C"], inputs["G_D_D"])),
    ):
        belief = FisherFactors.categorical(inputs["x_D"][None], probs_1_C, precision=precision)
        assert float(state(EIG(), belief).scores()) == pytest.approx(case["expected"]["eig_logdet"], rel=1e-10)
        assert float(state(TraceEIG(), belief).scores()) == pytest.approx(case["expected"]["eig_trace"], rel=1e-10)
    case = CASES["low_rank_precision"]
    held = LowRank([case["inputs"]["u"]], [case["inputs"]["s"]], case["inputs"]["lam"])
    rows = FisherRows(tensor([[case["inputs"]["v"]]]), precision=held)
    assert float(state(TraceEIG(), rows).scores()) == pytest.approx(case["expected"]["value"] / 2, rel=1e-10)
    assert float(state(EIG(), rows).scores()) == pytest.approx(0.5 * math.log1p(case["expected"]["value"]), rel=1e-10)


def test_golden_greedy_batches():
    inputs, expected = CASES["greedy_batches"]["inputs"], CASES["greedy_batches"]["expected"]
    pool, targets = golden_belief(inputs, "pool"), golden_belief(inputs, "eval")
    everyone = torch.ones(len(pool), dtype=torch.bool)
    for name, objective, about in (("eig", EIG(), None), ("jepig", JEPIG(), targets)):
        picks = Greedy()(state(objective, pool, about), 3, everyone, torch.Generator())
        assert picks.positions.tolist() == expected[name]["indices"]
        np.testing.assert_allclose(picks.scores, expected[name]["gains"], rtol=1e-10)
        assert picks.total == pytest.approx(expected[name]["total"], rel=1e-10)


@pytest.mark.parametrize("objective", [TraceJEPIG(), TraceEPIG()], ids=["joint", "mean"])
def test_golden_bait(objective):
    inputs, expected = CASES["greedy_batches"]["inputs"], CASES["greedy_batches"]["expected"]["bait"]
    pool, targets = golden_belief(inputs, "pool"), golden_belief(inputs, "eval")
    found = state(objective, pool, targets)
    parts = 1 if isinstance(objective, TraceJEPIG) else len(targets)
    picks = Greedy()(found, 4, torch.ones(len(pool), dtype=torch.bool), torch.Generator())
    assert picks.positions.tolist() == expected["forward"]
    np.testing.assert_allclose(parts * picks.scores, expected["forward_trace_gains_with_half"], rtol=1e-9)
    assert 2 * parts * found.available == pytest.approx(expected["objective_start"], rel=1e-10)
    removed = []
    while len(found.taken) > 2:
        losses = found.losses(torch.tensor(found.taken))
        removed.append(found.taken[int(losses.argmin())])
        assert found.remove(removed[-1]) == pytest.approx(float(losses.min()), rel=1e-9)
    assert removed == expected["removed"]
    assert found.taken == expected["final"]
    assert 2 * parts * found.remaining == pytest.approx(expected["objective"], rel=1e-9)


def test_golden_similarity_of_gradients():
    """One gradient a point under H = λ I: the forms by similarity matrices are those of FisherRows."""
    inputs, expected = CASES["similarity_logdet"]["inputs"], CASES["similarity_logdet"]["expected"]
    rows = FisherRows(tensor(inputs["gradients"])[:, None], precision=inputs["lam"])
    batch, targets = torch.tensor(inputs["A"]), rows[inputs["E"]]
    assert state(EIG(), rows).value(batch) == pytest.approx(expected["eig"], rel=1e-10)
    assert state(TraceEIG(), rows).value(batch) == pytest.approx(expected["eig_trace"], rel=1e-10)
    assert state(JEPIG(), rows, targets).value(batch) == pytest.approx(expected["jepig"], rel=1e-10)
    assert state(EPIG(), rows, targets).value(batch) == pytest.approx(expected["epig"], rel=1e-10)
    found = state(JEPIG(), rows, targets)
    given = found.add(inputs["P"][0])
    assert 2 * sum(found.add(position) for position in inputs["A"]) == pytest.approx(expected["logdet_cmi"], rel=1e-9)
    assert given == pytest.approx(state(JEPIG(), rows, targets).value(torch.tensor(inputs["P"])), rel=1e-9)


def test_golden_jepig_is_not_submodular():
    case = CASES["jepig_not_submodular"]
    pool = FisherRows(tensor(case["inputs"]["candidate_rows"])[:, None])
    found = state(JEPIG(), pool, FisherRows(tensor(case["inputs"]["eval_rows"])[:, None]))
    np.testing.assert_allclose(found.scores(), case["expected"]["single"], rtol=1e-10)
    found.add(0)
    found.add(1)
    assert found.total == pytest.approx(case["expected"]["pair"], rel=1e-10)


def test_golden_one_sampled_label_tells_less():
    case = CASES["one_sample_bias"]
    pool = golden_belief(case["inputs"], "pool")
    batch = torch.tensor(case["inputs"]["batch"])
    mean = 0.0
    for pair in case["expected"]["label_pairs"]:
        labels = torch.zeros(len(pool), dtype=torch.int64)
        labels[batch] = torch.tensor(pair["labels"])
        value = state(EIG(), pool.labelled(labels)).value(batch)
        assert value == pytest.approx(pair["half_logdet"], rel=1e-10)
        mean += pair["probability"] * value
    assert mean == pytest.approx(case["expected"]["expected"], rel=1e-10)
    assert mean < state(EIG(), pool).value(batch)


def test_known_labels_tell_what_unknown_ones_do():
    """Label-free: weight-space IG, JPIG and PIG of a generalised linear model are EIG, JEPIG and EPIG."""
    case = CASES["label_aware_not_pointwise"]
    pool, targets = (golden_belief(case["inputs"] | {"likelihood": "gaussian"}, part) for part in ("pool", "eval"))
    (fisher_N_P_P, prior_P_P), (target_M_P_P, _) = dense(pool), dense(targets)
    observed_P_P = fisher_N_P_P[case["inputs"]["candidate"]]  # the Hessian of ½ (y − w·x)²/σ² whatever y is
    expected = case["expected"]
    assert fisher.information_gain(prior_P_P, observed_P_P) == pytest.approx(expected["information_gain"][0], rel=1e-10)
    joint = fisher.joint_predictive_gain(prior_P_P, observed_P_P, target_M_P_P.sum(0))
    assert joint == pytest.approx(expected["weight_space_jpig"][0], rel=1e-10)
    assert float(state(JEPIG(), pool, targets).scores()[0]) == pytest.approx(joint, rel=1e-10)
    alone = [fisher.joint_predictive_gain(prior_P_P, observed_P_P, each) for each in target_M_P_P]
    assert float(state(EPIG(), pool, targets).scores()[0]) == pytest.approx(np.mean(alone), rel=1e-10)


@pytest.mark.parametrize(("known", "unknown"), [("ig", "bald"), ("pig", "epig"), ("jpig", "jepig")])
def test_methods_for_known_labels_give_those_of_unknown_ones(known, unknown):
    features_N_D = torch.randn(12, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    probs_N_C = torch.randn(12, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64).softmax(1)
    belief = FisherFactors.categorical(features_N_D, probs_N_C, 0.5)
    aims = {} if known == "ig" else {"targets": natsel.Targets(belief[:4], labels=[0, 1, 2, 3])}
    found = natsel.score(known, belief, labels=[0, 1, 2, 3] * 3, **aims)
    torch.testing.assert_close(found, natsel.score(unknown, belief, **aims), rtol=1e-12, atol=1e-12)
    with pytest.raises(ValueError, match="labels"):
        natsel.score(known, belief, **aims)


@pytest.mark.parametrize("label", [0, 1, 2])
def test_the_curvature_of_a_softmax_knows_no_label(label):
    weight_C_D, x_D = drawn(3, 4), drawn(4, seed=1)

    def loss(flat_P: torch.Tensor) -> torch.Tensor:
        return -(flat_P.view(3, 4) @ x_D).log_softmax(0)[label]

    observed_P_P = torch.func.hessian(loss)(weight_C_D.flatten())
    belief = FisherFactors.categorical(x_D[None], (weight_C_D @ x_D).softmax(0)[None], precision=0.2)
    gain = fisher.information_gain(0.2 * torch.eye(12, dtype=torch.float64), observed_P_P)
    assert float(state(EIG(), belief).scores()) == pytest.approx(gain, rel=1e-9)


def test_regression_is_exact_and_agrees_with_jointly_gaussian_features():
    features_N_D, noise_N = drawn(9, 4), drawn(9, seed=1).abs() + 0.1
    mine = FisherFactors.gaussian(features_N_D, noise_N)
    theirs = GaussianFeatures(features_N_D, noise=noise_N)
    for name in ("eig_logdet", "epig_tight", "jepig", "epig_jensen", "epig_trace_gain", "jepig_trace_gain"):
        about = [
            (part, part[5:]) if Argument.TARGETS in needs_everywhere(NAMES[name]) else (part, None)
            for part in (mine, theirs)
        ]
        states = [state(NAMES[name], *each) for each in about]
        torch.testing.assert_close(states[0].scores(), states[1].scores(), rtol=1e-9, atol=1e-12)
        for position in (3, 0, 7):
            assert states[0].add(position) == pytest.approx(states[1].add(position), rel=1e-9, abs=1e-12)
        everyone = torch.arange(9)
        torch.testing.assert_close(states[0].gains(everyone), states[1].gains(everyone), rtol=1e-9, atol=1e-12)


def test_trace_of_features_is_variance_in_units_of_noise():
    pool = random_belief("features", seed=1, points=8)
    found_N = state(TraceEIG(), pool).scores()
    torch.testing.assert_close(found_N, pool.features_N_D.square().sum(1) / (2 * pool.noise_N))
    found_N = state(TraceJEPIG(), pool, pool[:3]).scores()
    cross_N_M = pool.features_N_D @ pool.features_N_D[:3].T
    explained_N_M = cross_N_M.square() / (pool.features_N_D.square().sum(1) + pool.noise_N)[:, None]
    torch.testing.assert_close(found_N, (explained_N_M / (2 * pool.noise_N[:3])).sum(1))


@pytest.mark.parametrize(
    ("bounded", "exact"), [(TraceEIG(), EIG()), (TraceEPIG(), EPIG()), (EPIGJensen(), EPIG()), (TraceJEPIG(), JEPIG())]
)
def test_bounds_stated_on_jointly_gaussian_features_hold(bounded, exact):
    (bound,) = pair_facts(type(bounded), GaussianFeatures).bounds
    assert (bound.expression, bound.direction) == (exact.facts.expression, "upper")
    assert not pair_facts(type(bounded), FisherFactors).bounds
    for seed in range(10):
        pool, targets = (random_belief("features", seed=seed + other, points=9) for other in (0, 100))
        high_N, low_N = (
            state(each, pool, targets if Argument.TARGETS in needs_everywhere(each) else None).scores()
            for each in (bounded, exact)
        )
        assert (high_N >= low_N - 1e-12).all()
        assert float((high_N - low_N).max()) > 1e-3, "a bound that is never apart is an equality"


@settings(deadline=None)
@given(
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(["softmax", "gaussian", "rows", "row"]),
    held=st.sampled_from(["isotropic", "dense", "kronecker", "diagonal", "low-rank"]),
    classes=st.integers(2, 4),
    width=st.integers(1, 4),
)
def test_chain_of_inequalities(seed, kind, held, classes, width):
    """0 ≤ EPIG ≤ Jensen ≤ JEPIG ≤ EIG ≤ trace, JEPIG ≤ M·Jensen, and every log-determinant ≤ its trace.

    docs/theory/weight-space.md, 5.2.
    """
    if held == "low-rank" and classes * width < 3:
        return
    if kind in ("rows", "gaussian") and held in ("kronecker", "low-rank"):
        held = "dense"
    shape = {"classes": classes, "width": width, "seeded": seed}
    pool = random_belief(kind, held, seed, points=5, **shape)
    targets = random_belief(kind, held, seed + 1, points=3, **shape)
    batch = torch.tensor([0, 2, 3])
    worth = {
        name: state(objective, pool, targets if Argument.TARGETS in needs_everywhere(objective) else None)
        for name, objective in NAMES.items()
    }
    for values in (
        {name: each.scores() for name, each in worth.items()},
        {name: tensor([each.value(batch)]) for name, each in worth.items()},
    ):
        chain = [values[name] for name in ("epig_tight", "epig_jensen", "jepig", "eig_logdet", "eig_trace")]
        for low, high in zip([torch.zeros_like(chain[0]), *chain], chain, strict=False):
            assert (low <= high + 1e-9).all(), f"{values}"
        assert (values["jepig"] <= 3 * values["epig_jensen"] + 1e-9).all()
        assert (values["epig_jensen"] <= values["epig_trace_gain"] + 1e-9).all()
        assert (values["jepig"] <= values["jepig_trace_gain"] + 1e-9).all()
        torch.testing.assert_close(values["jepig_trace_gain"], 3 * values["epig_trace_gain"], rtol=1e-9, atol=1e-12)


def test_jepig_becomes_eig_where_targets_tell_everything():
    pool = random_belief("gaussian", "isotropic", points=6)
    features = torch.eye(4, dtype=torch.float64)
    eig_N = state(EIG(), pool).scores()
    gaps = []
    for noise in (1.0, 1e-4, 1e-10):
        sure = FisherFactors.gaussian(features, noise, precision=pool.precision)
        gaps.append(float((eig_N - state(JEPIG(), pool, sure).scores()).max()))
    assert gaps[0] > gaps[1] > gaps[2] >= 0
    assert gaps[2] < 1e-8


def test_reparametrised_features_change_nothing():
    pool, targets = (random_belief("softmax", "dense", seed, points=5) for seed in (0, 1))
    move = drawn(4, 4) + 3 * torch.eye(4, dtype=torch.float64)
    wide = torch.block_diag(*[move] * 3)
    back = torch.linalg.inv(wide)
    held = Dense(back.T @ pool.precision.dense(12) @ back)

    def moved(belief: FisherFactors) -> FisherFactors:
        return FisherFactors.categorical(
            belief.features_N_D @ torch.linalg.inv(move), belief.outputs_N_C, precision=held
        )

    for objective in NAMES.values():
        about = targets if Argument.TARGETS in needs_everywhere(objective) else None
        found = state(objective, moved(pool), None if about is None else moved(targets)).scores()
        torch.testing.assert_close(found, state(objective, pool, about).scores(), rtol=1e-8, atol=1e-12)


def test_a_diagonal_precision_is_between():
    """EIG ≤ Σ ½ ln(1 + F_kk/H_kk) ≤ trace, where H is diagonal (docs/theory/weight-space.md, 4)."""
    belief = random_belief("softmax", "diagonal", points=9)
    fisher_N_P_P, held_P_P = dense(belief)
    between_N = 0.5 * (fisher_N_P_P.diagonal(dim1=1, dim2=2) / held_P_P.diagonal()).log1p().sum(1)
    assert (state(EIG(), belief).scores() <= between_N + 1e-12).all()
    assert (between_N <= state(TraceEIG(), belief).scores() + 1e-12).all()


def test_targets_about_other_weights_are_refused():
    pool, targets = FisherRows(torch.ones(2, 1, 3)), FisherRows(torch.ones(2, 1, 4))
    for name in ("epig_tight", "jepig", "epig_jensen", "epig_trace_gain", "jepig_trace_gain"):
        with pytest.raises(ValueError, match="targets: they are about 4 weights and the pool about 3"):
            state(NAMES[name], pool, targets)
    with pytest.raises(ValueError, match="precision"):
        state(EPIG(), pool, FisherRows(torch.ones(2, 1, 3), precision=2.0))


def test_the_whole_way_through_select():
    pool, targets = (random_belief("softmax", "dense", seed, points=12) for seed in (0, 1))
    picks = natsel.select(natsel.Method(JEPIG(), Greedy()), pool, k=4, targets=targets)
    found = state(JEPIG(), pool, targets)
    assert picks.total == pytest.approx(found.value(torch.from_numpy(picks.ids)), rel=1e-9)
