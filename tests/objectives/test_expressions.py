"""Objectives say what they are: their expressions, evaluated by brute force, are what they score.

Runs over the registry. An objective must carry an expression of the calculus or say why it has none; on beliefs where
its score is not the quantity itself, and for scores that are none, the bounds it states are checked.
"""

import json
import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import natsel
from conformance.references import mixture_entropy, normal
from natsel.beliefs import CategoricalSamples, FisherRows, GaussianFeatures, GaussianSamples
from natsel.calculus import DiscreteJoint, GaussianJoint, PredictiveJoint, info, parse
from natsel.capabilities import Capability
from natsel.choose.methods import METHODS
from natsel.conformance.grid import READ, TARGETS, Pair, Pool, at, default, pool
from natsel.objectives import (
    EIG,
    READINGS,
    Argument,
    Bound,
    Entropy,
    ExpectedEntropy,
    StdDev,
    TraceEIG,
    needs_everywhere,
)

OBJECTIVES = dict.fromkeys([*READINGS, *(type(m.objective) for m in METHODS.values())])
STATED = [objective for objective in OBJECTIVES if objective.facts.expression]
BOUNDS = [
    pytest.param(objective, bound, kind, id=f"{objective.__name__}-{kind.__name__}-{number}")
    for (objective, kind), reading in READ.items()
    for number, bound in enumerate(reading.facts.bounds)
]


def on(kind: type, having: list[type] = STATED) -> pytest.MarkDecorator:
    """Parametrises `objective` over those with an expression that are read from this kind of belief."""
    found = [objective for objective in having if (objective, kind) in READ]
    assert found
    return pytest.mark.parametrize("objective", found, ids=lambda objective: objective.__name__)


def pools(kind: type, points: int = 5, draws: int = 4, classes: int = 3) -> list[Pool]:
    """Even and uneven weights, zeros and a certain point, copies, one draw."""
    shape = {"points": points, "classes": classes}
    return [
        pool(kind, 0, draws=draws, **shape),
        pool(kind, 1, draws=draws, weighted=True, **shape),
        pool(kind, 2, draws=draws, weighted=True, **shape).certain(),
        pool(kind, 3, draws=draws, **shape).take(np.resize([0, 1, 0], points)),
        pool(kind, 4, draws=1, **shape),
    ]


def score(objective: type, given_pool: Pool) -> np.ndarray:
    return Pair(default(objective), given_pool.kind).state(given_pool).scores().numpy()


def bare(expression: str) -> str:
    """An expression for a table: inputs and data are not variables there."""

    def kept(given_part: re.Match[str]) -> str:
        names = [name for name in given_part[1].split(",") if not re.fullmatch(r"x\d*|xstars?|D", name)]
        return f"|{','.join(names)}]" if names else "]"

    return re.sub(r"\|([^\]]*)\]", kept, expression)


def about(expression: str, targets: int, first: int = 1) -> list[tuple[tuple[int, ...], str]]:
    """Expressions whose mean is meant, with the targets each is about: their labels are numbered on from `first`.

    Ystar is the label of every target in turn, Ystars are all of them together.
    """
    everyone = tuple(range(targets))
    if "Ystars" in expression:
        labels = ",".join(f"Y{first + place}" for place in everyone)
        return [(everyone, expression.replace("Ystars", labels).replace("xstars", labels.replace("Y", "x")))]
    if "Ystar" in expression:
        said = expression.replace("Ystar", f"Y{first}").replace("xstar", f"x{first}")
        return [((target,), said) for target in everyone]
    return [((), expression)]


def table(given_pool: Pool, points: tuple[int, ...], targets: tuple[int, ...] = ()) -> DiscreteJoint:
    """p(ω, y₁, …, yₙ) written out: every draw with every labelling of the points, and of the targets behind them."""
    rows = [given_pool.arrays["log_probs_N_K_C"][point] for point in points]
    rows += [given_pool.about.arrays["log_probs_N_K_C"][target] for target in targets]
    joint = given_pool.weights_K.copy()
    for number, log_probs_K_C in enumerate(rows):
        joint = joint[..., None] * np.exp(log_probs_K_C).reshape(len(log_probs_K_C), *[1] * number, -1)
    return DiscreteJoint.from_probs(["Omega", *(f"Y{number + 1}" for number in range(len(rows)))], joint)


def by_hand(objective: type, given_pool: Pool, points: tuple[int, ...]) -> float:
    """The joint expression of some points on the whole table, the mean over targets where there are any."""
    labels = {f"y{number}": int(given_pool.labels_N[point]) for number, point in enumerate(points, start=1)}
    found = []
    for targets, said in about(objective.facts.joint_expression(len(points)), len(given_pool.about), len(points) + 1):
        expression = bare(said)
        seen = {name: label for name, label in labels.items() if re.search(rf"\b{name}\b", expression)}
        found.append(info(expression).on(table(given_pool, points, targets), at=seen))
    return float(np.mean(found))


def on_joints(objective: type, given_pool: Pool, points: tuple[int, ...]) -> float:
    """The same on draws: the points, and the targets behind them, as one belief."""
    belief, found = given_pool.belief(), []
    for targets, said in about(objective.facts.joint_expression(len(points)), len(given_pool.about), len(points) + 1):
        parts = belief.log_probs_N_K_C[list(points)], given_pool.targets().belief.log_probs_N_K_C[list(targets)]
        found.append(info(said).on(PredictiveJoint(torch.cat(parts), belief.log_weights_K)))
    return float(np.mean(found))


# Every objective says what it is.


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda objective: objective.__name__)
def test_every_objective_has_an_expression_or_a_reason(objective):
    facts = objective.facts
    assert bool(facts.expression) != bool(facts.reason), "give facts an expression, or the reason why there is none"
    pairs = [reading.facts for (other, _), reading in READ.items() if other is objective]
    bounds = [bound for pair in pairs for bound in pair.bounds]
    for expression in [facts.expression or "H[Y]", *(bound.expression for bound in bounds)]:
        assert str(parse(str(parse(expression)))) == str(parse(expression))
    assert all(bound.why for bound in bounds), "a bound says why it holds"
    assert all(pair.why for pair in pairs if pair.guarantee != "exact"), "a guarantee says what it rests on"
    if facts.expression:
        assert facts.units == "nats"
        assert (Argument.LABELS in needs_everywhere(objective())) == bool(re.search(r"\by\b", facts.expression))


def test_the_quantities_of_the_field():
    stated = {name: METHODS[name].facts.expression for name in ("bald", "entropy", "aleatoric", "ig", "surprise")}
    assert stated == {
        "bald": "I[Y;Omega|x,D]",
        "entropy": "H[Y|x,D]",
        "aleatoric": "H[Y|x,Omega,D]",
        "ig": "I[Omega;y|x,D]",
        "surprise": "I[y;Omega|x,D]",
    }
    assert METHODS["batchbald"].facts.joint_expression(3) == "I[Y1,Y2,Y3;Omega|x1,x2,x3,D]"
    assert METHODS["ig"].facts.joint_expression(2) == "I[Omega;y1|x1,D] + I[Omega;y2|x2,D]"
    assert METHODS["margin"].facts.joint_expression(2) is None
    with pytest.raises(ValueError, match="size: expected at least 1 point, found 0"):
        METHODS["bald"].facts.joint_expression(0)


# Categorical draws: the expression is the score.


@on(CategoricalSamples)
def test_the_expression_on_a_belief_is_the_score(objective):
    for given_pool in pools(CategoricalSamples):
        belief = given_pool.belief()
        labels = torch.from_numpy(given_pool.labels_N) if Argument.LABELS in needs_everywhere(objective()) else None
        targets = given_pool.targets() if Argument.TARGETS in needs_everywhere(objective()) else None
        if targets is not None:
            points = range(len(given_pool))
            found = torch.tensor([on_joints(objective, given_pool, (p,)) for p in points], dtype=torch.float64)
            np.testing.assert_allclose(found, score(objective, given_pool), rtol=0, atol=1e-10)
        for text in (objective.facts.expression, objective.facts.quantity) if targets is None else ():
            found = info(text).on(belief, labels=labels)
            np.testing.assert_allclose(found, score(objective, given_pool), rtol=0, atol=1e-10, err_msg=text)
        method = next(name for name, method in METHODS.items() if type(method.objective) is objective)
        scores_N = natsel.score(method, belief, labels=labels, targets=targets)
        torch.testing.assert_close(found, scores_N, rtol=0, atol=1e-10)


@on(CategoricalSamples)
def test_the_joint_expression_on_the_whole_table_is_the_value_of_a_set(objective):
    for given_pool in pools(CategoricalSamples):
        state = Pair(default(objective), CategoricalSamples).state(given_pool)
        for points in [(0,), (4,), (1, 2), (3, 0), (2, 3, 4), (0, 1, 4, 2)]:
            expected = by_hand(objective, given_pool, points)
            assert state.value(at(points)) == pytest.approx(expected, abs=1e-10), f"{points}"


@pytest.mark.parametrize(
    "name",
    [name for name, m in METHODS.items() if m.facts.expression and m.search.needs & ~Capability.SCORES],
)
def test_totals_of_batches_are_joint_expressions(name):
    """What a search says its batch is worth is what the batch is worth."""
    method = METHODS[name]
    for given_pool in pools(CategoricalSamples):
        belief = given_pool.belief()
        targets = given_pool.targets() if Argument.TARGETS in method.needs else None
        chosen = natsel.select(method, belief, k=3, targets=targets)
        picked = tuple(int(position) for position in chosen.ids)
        assert chosen.total == pytest.approx(by_hand(type(method.objective), given_pool, picked), abs=1e-10)
        found = on_joints(type(method.objective), given_pool, picked)
        assert found == pytest.approx(chosen.total, abs=1e-10)


# Gaussian beliefs: exact, or on the side that is stated.


def gaussian_table(given_pool: Pool, points: tuple[int, ...], targets: tuple[int, ...] = ()) -> GaussianJoint:
    """The weights w ~ N(0, I) and the values y = Φ w + ε of some points, and of targets behind them."""
    mine, theirs = given_pool.arrays, given_pool.about.arrays
    features_B_D, noise_B = (
        np.concatenate([mine[name][list(points)], theirs[name][list(targets)]]) for name in ("features_N_D", "noise")
    )
    width, noise_B_B = features_B_D.shape[1], np.diag(noise_B)
    covariance = np.block([[np.eye(width), features_B_D.T], [features_B_D, features_B_D @ features_B_D.T + noise_B_B]])
    names = [*(f"W{number}" for number in range(width)), *(f"Y{number + 1}" for number in range(len(noise_B)))]
    return GaussianJoint(np.zeros(len(names)), covariance, names)


@on(GaussianFeatures)
def test_the_expression_on_features_is_the_score(objective):
    assert READ[objective, GaussianFeatures].facts.guarantee == "exact"
    for given_pool in pools(GaussianFeatures)[:3]:
        state = Pair(default(objective), GaussianFeatures).state(given_pool)
        weights = ",".join(f"W{number}" for number in range(given_pool.arrays["features_N_D"].shape[1]))
        for points in [(0,), (1,), (2, 4), (3, 1, 0)]:
            expected = np.mean(
                [
                    info(bare(said).replace("Omega", weights)).on(gaussian_table(given_pool, points, targets))
                    for targets, said in about(objective.facts.joint_expression(len(points)), TARGETS, len(points) + 1)
                ]
            )
            assert state.value(at(points)) == pytest.approx(expected, abs=1e-8), f"{objective.__name__} at {points}"


def mixtures(given_pool: Pool) -> dict[str, np.ndarray]:
    """The expressions on draws of normals, by quadrature."""
    entropy_N = np.array([mixture_entropy(given_pool, (point,), 20_000) for point in range(len(given_pool))])
    noise_N = normal(given_pool.arrays["variance_N_K"]) @ given_pool.weights_K
    return {"H[Y|x,D]": entropy_N, "H[Y|x,Omega,D]": noise_N, "I[Y;Omega|x,D]": entropy_N - noise_N}


def approximated(objective: type) -> bool:
    reading = READ.get((objective, GaussianSamples))
    return reading is not None and reading.facts.guarantee == "approximate"


@on(GaussianSamples, [objective for objective in STATED if not approximated(objective)])
def test_the_expression_on_gaussian_draws_is_the_score_or_bounded_as_stated(objective):
    guarantee = READ[objective, GaussianSamples].facts.guarantee
    gap = 0.0
    for given_pool in pools(GaussianSamples):
        exact_N, found_N = mixtures(given_pool)[objective.facts.expression], score(objective, given_pool)
        if guarantee == "exact":
            np.testing.assert_allclose(found_N, exact_N, atol=1e-9)
            continue
        low_N, high_N = (exact_N, found_N) if guarantee == "upper" else (found_N, exact_N)
        assert (low_N <= high_N + 1e-9).all()
        gap = max(gap, float((high_N - low_N).max()))
    assert gap > 1e-3 or guarantee == "exact", "the score is exact here: state no bound"


# Scores that are no information quantity.


def sides(objective: type, bound: Bound, given_pool: Pool) -> tuple[np.ndarray, np.ndarray]:
    """The bounding side and the exact quantity, point by point."""
    exact_N = info(bound.expression).on(given_pool.belief()).numpy()
    classes = given_pool.length("C")
    return bound.side(torch.from_numpy(score(objective, given_pool)), classes).numpy(), exact_N


def draws_of(probs_N_K_C: np.ndarray, weights_K: np.ndarray | None = None) -> Pool:
    with np.errstate(divide="ignore"):
        arrays = {"log_probs_N_K_C": np.log(probs_N_K_C)}
    if weights_K is not None:
        arrays["log_weights_K"] = np.log(weights_K)
    return Pool(CategoricalSamples, arrays, np.zeros(len(probs_N_K_C), dtype=np.int64))


CATEGORICAL_BOUNDS = [case for case in BOUNDS if case.values[2] is CategoricalSamples]


def test_the_plain_scores_state_their_bounds():
    stated = {objective.__name__: str(bound) for objective, bound, _ in (case.values for case in CATEGORICAL_BOUNDS)}
    assert stated == {
        "VariationRatio": "2 ln 2 · score ≤ H[Y|x,D]",
        "Margin": "ln 2 · score ≤ H[Y|x,D]",
        "StdDev": "1/C · score² ≤ I[Y;Omega|x,D]",
        "MeanStd": "C · score² ≤ I[Y;Omega|x,D]",
        "Variance": "score ≤ I[Y;Omega|x,D]",
    }
    (bound,) = READ[TraceEIG, GaussianFeatures].facts.bounds
    assert str(bound) == "score ≥ I[Y;Omega|x,D]"
    assert {len(case.values) for case in CATEGORICAL_BOUNDS} == {3}
    assert len(CATEGORICAL_BOUNDS) == 5


@pytest.mark.parametrize(("objective", "bound", "kind"), CATEGORICAL_BOUNDS)
@settings(deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    draws=st.integers(1, 6),
    classes=st.integers(1, 6),
    spread=st.sampled_from([0.01, 0.1, 0.5, 1.0, 10.0]),
)
def test_bounds_hold(objective, bound, kind, seed, draws, classes, spread):
    rng = np.random.default_rng(seed)
    alike_N_1_C = rng.dirichlet(np.full(classes, rng.choice([0.1, 1.0, 30.0])), size=(20, 1))
    own_N_K_C = rng.dirichlet(np.full(classes, spread), size=(20, draws))
    share = rng.uniform(0, 1, size=(20, 1, 1))
    probs_N_K_C = share * alike_N_1_C + (1 - share) * own_N_K_C
    given_pool = draws_of(probs_N_K_C / probs_N_K_C.sum(-1, keepdims=True), rng.dirichlet(np.ones(draws)))
    side_N, exact_N = sides(objective, bound, given_pool)
    assert bound.direction == "lower"
    assert (side_N <= exact_N + 1e-10).all()


@pytest.mark.parametrize(("objective", "bound", "kind"), CATEGORICAL_BOUNDS)
def test_bounds_are_reached(objective, bound, kind):
    """At a fair coin, of which two draws think a little differently: no larger factor would hold."""
    given_pool = draws_of(np.array([[[0.501, 0.499], [0.499, 0.501]]]))
    side_N, exact_N = sides(objective, bound, given_pool)
    assert side_N / exact_N == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(("objective", "bound", "kind"), CATEGORICAL_BOUNDS)
def test_scores_and_quantities_vanish_together_where_stated(objective, bound, kind):
    one_hot, other, fair, odd = [1.0, 0, 0], [0, 0, 1.0], [0.5, 0.5, 0], [0.2, 0.3, 0.5]
    given_pool = draws_of(np.array([[one_hot] * 2, [fair] * 2, [odd] * 2, [one_hot, other], [odd, fair]]))
    side_N, exact_N = sides(objective, bound, given_pool)
    assert bound.vanishes
    assert ((side_N < 1e-12) == (exact_N < 1e-12)).all()
    assert 0 < (side_N < 1e-12).sum() < len(side_N)


def test_the_sum_of_variances_is_mutual_information_with_1_minus_p():
    """H'(p) = Σ p (1 − p) in place of Σ p (−ln p): what a label tells becomes the sum of variances."""
    for given_pool in pools(CategoricalSamples):
        probs_N_K_C = np.exp(given_pool.arrays["log_probs_N_K_C"])
        mean_N_C = np.einsum("k,nkc->nc", given_pool.weights_K, probs_N_K_C)
        noise_N = (probs_N_K_C * (1 - probs_N_K_C)).sum(-1) @ given_pool.weights_K
        objective = type(METHODS["variance"].objective)
        np.testing.assert_allclose(
            score(objective, given_pool), (mean_N_C * (1 - mean_N_C)).sum(1) - noise_N, atol=1e-12
        )


def test_variance_orders_features_of_equal_noise_as_information_does():
    given_pool = pool(GaussianFeatures, 0)
    noise_N = given_pool.arrays["noise"]
    variance_N, gain_N = (natsel.score(name, given_pool.belief()).numpy() for name in ("variance", "bald"))
    np.testing.assert_allclose(gain_N, 0.5 * np.log1p(variance_N / noise_N), rtol=1e-12)


# Facts and bounds as values.


def test_bounds_say_on_which_side_they_lie():
    bound = Bound("H[Y|x,D]", "upper", factor=0.25, power=3, classes=2)
    assert str(bound) == "0.25 · C^2 · score^3 ≥ H[Y|x,D]"
    assert bound.side(torch.tensor([2.0]), classes=5).tolist() == [0.25 * 25 * 8]
    (stated,) = READ[StdDev, CategoricalSamples].facts.bounds
    assert stated.side(torch.tensor([0.6]), 4).item() == pytest.approx(0.09)


def test_guarantees_belong_to_pairs():
    found = {kind: READ[EIG, kind].facts.guarantee for kind in (CategoricalSamples, GaussianSamples, FisherRows)}
    assert found == {CategoricalSamples: "exact", GaussianSamples: "upper", FisherRows: "approximate"}
    assert READ[ExpectedEntropy, GaussianSamples].facts.guarantee == "exact"
    assert READ[Entropy, CategoricalSamples].facts.nonnegative
    assert not READ[Entropy, GaussianFeatures].facts.nonnegative


def test_methods_are_listed_with_their_expressions(capsys, monkeypatch):
    from natsel.cli.methods import command, describe

    monkeypatch.setenv("COLUMNS", "120")
    command(every=True, as_json=False)
    shown = " ".join(capsys.readouterr().out.split())
    assert "EIG I[Y;Omega|x,D], two points I[Y1,Y2;Omega|x1,x2,D]" in shown
    assert "from GaussianSamples: upper bound · monotone, submodular" in shown
    assert "1/C · score² ≤ I[Y;Omega|x,D]: Cauchy & Schwarz" in shown
    for facts in {type(method.objective): method.facts for method in METHODS.values()}.values():
        assert (facts.expression or f"not an information quantity: {facts.reason}") in shown
    entry = json.loads(json.dumps(describe(METHODS["std-dev"])))
    assert (entry["expression"], entry["joint_expression"], entry["jointly"]) == (None, None, False)
    pair = entry["beliefs"]["CategoricalSamples"]
    assert pair["bounds"] == [
        {
            "inequality": "1/C · score² ≤ I[Y;Omega|x,D]",
            "expression": "I[Y;Omega|x,D]",
            "direction": "lower",
            "vanishes": True,
            "why": "Cauchy & Schwarz, Pinsker's inequality",
        }
    ]
    bald = describe(METHODS["bald"])["beliefs"]
    assert bald["GaussianSamples"]["guarantee"] == "upper"
    assert "no law with the mixture's moments has more entropy" in bald["GaussianSamples"]["why"]
    assert bald["TwoModels"]["read_as"] == ["CategoricalSamples"]
    assert describe(METHODS["logdet-cmi"])["needs"] == ["targets", "given"]
