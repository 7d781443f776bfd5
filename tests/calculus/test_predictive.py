import itertools
import math

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

import natsel
from enumerated import random_expression
from golden_values import golden, logs, random_draws
from natsel.calculus import (
    ALL,
    DiscreteJoint,
    PredictiveJoint,
    ZeroProbabilityOutcome,
    evaluate,
    info,
)
from natsel.calculus.expressions import Atom, Expectation, Law, with_groups_changed
from natsel.information import joint_mutual_information, total_correlation

properties = settings(deadline=None, max_examples=25)
seeds = st.integers(0, 2**31)
sizes = st.tuples(st.integers(1, 4), st.integers(1, 3))  # draws, classes


def value(text, joint, **arguments):
    return evaluate(text, joint, **arguments).value


def enumerated(log_probs_N_K_C, log_weights_K):
    """The same belief as a table over Omega and the labels of all its points."""
    points, draws, classes = log_probs_N_K_C.shape
    log_p = torch.empty([draws, *[classes] * points], dtype=torch.float64)
    for k in range(draws):
        for labels in itertools.product(range(classes), repeat=points):
            log_p[(k, *labels)] = log_weights_K[k] + sum(log_probs_N_K_C[n, k, c] for n, c in enumerate(labels))
    return DiscreteJoint(["Omega", *(f"Y{n + 1}" for n in range(points))], log_p)


@properties
@given(seed=seeds, size=sizes, points=st.integers(1, 3))
@example(seed=301879068, size=(4, 2), points=2)  # outcomes that cannot be, given a label that is averaged over
def test_numbered_labels_are_the_joint_of_the_belief(seed, size, points):
    draws = random_draws(seed, points, *size)
    joint, table = PredictiveJoint(*draws), enumerated(*draws)
    generator = torch.Generator().manual_seed(seed)
    for offset in range(10):
        expression = random_expression(list(table.names), seed + offset)
        at = {name.lower(): int(torch.randint(table.size(name), (), generator=generator)) for name in table.names}
        expected = value(expression, table, at=at, errors="nan")
        found = value(expression, joint, at=at, errors="nan")
        assert found == pytest.approx(expected, abs=1e-10, rel=1e-10, nan_ok=True), str(expression)


@properties
@given(seed=seeds, size=sizes)
def test_unnumbered_labels_are_those_of_every_point(seed, size):
    draws = random_draws(seed, 5, *size)
    joint = PredictiveJoint(*draws)
    labels_N = torch.randint(size[1], (5,), generator=torch.Generator().manual_seed(seed))
    for offset in range(8):
        expression = random_expression(["Omega", "Y"], seed + offset)
        found = value(expression, joint, labels=labels_N, at={"omega": 0}, errors="nan")
        if "Y" not in str(expression) and "y" not in str(expression):
            assert isinstance(found, float)
            continue
        assert found.shape == (5,)
        for n in range(5):
            alone = with_groups_changed(
                expression,
                lambda group, _, n=n: tuple(Atom(f"Y{n + 1}", a.tied) if a.name == "Y" else a for a in group),
            )
            one = value(alone, joint, at={f"y{n + 1}": int(labels_N[n]), "omega": 0}, errors="nan")
            assert float(found[n]) == pytest.approx(one, abs=1e-12, nan_ok=True), str(expression)


def test_acquisition_scores_are_quantities():
    belief = natsel.CategoricalSamples(*random_draws(3, 60, 7, 4, zeros=False))
    labels_N = torch.randint(4, (60,), generator=torch.Generator().manual_seed(0))
    for text, name, labels in [
        ("I[Y;W|x]", "bald", None),
        ("I[Y;Ω|x,D]", "bald", None),
        ("I[W;Y|x]", "bald", None),
        ("E_{p(y|x)}[I[W;y|x]]", "bald", None),
        ("E_{p(y|x)}[KL(p(W|y,x) || p(W))]", "bald", None),
        ("H[Y|x,D_train]", "entropy", None),
        ("I[W;y|x]", "ig", labels_N),
        ("I[y;W|x]", "surprise", labels_N),
        ("KL(p(W|y,x) || p(W))", "surprise", labels_N),
    ]:
        expected = natsel.score(name, belief, labels=labels)
        torch.testing.assert_close(info(text).on(belief, labels=labels), expected.double(), rtol=1e-10, atol=1e-10)


def test_with_zeros_scores_are_still_quantities():
    belief = natsel.CategoricalSamples(*random_draws(3, 60, 7, 4, zeros=True))
    torch.testing.assert_close(info("I[Y;W|x]").on(belief), natsel.score("bald", belief), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", [name for name, case in golden("03-batchbald").items() if "sets" in case["expected"]])
def test_batches_match_golden_values(name):
    case = golden("03-batchbald")[name]
    log_probs_N_K_C, log_weights_K = logs(case["inputs"]["probs_N_K_C"]), logs(case["inputs"].get("weights_K"))
    for row in case["expected"]["sets"]:
        indices = row["points"]
        joint = PredictiveJoint(log_probs_N_K_C[indices], log_weights_K)
        labels = ",".join(f"Y{n + 1}" for n in range(len(indices)))
        inputs = ",".join(f"x{n + 1}" for n in range(len(indices)))
        assert value(f"I[{labels};W|{inputs},D]", joint) == pytest.approx(row["batchbald"], abs=1e-10)
        assert value(f"H[{labels}|{inputs}]", joint) == pytest.approx(row["joint_entropy"], abs=1e-10)


def test_batches_are_joint_quantities():
    draws = random_draws(1, 3, 6, 3)
    joint = PredictiveJoint(*draws)
    found = value("I[Y1,Y2,Y3;W|x1,x2,x3,D]", joint)
    assert found == pytest.approx(float(joint_mutual_information(draws[0], draws[1])), abs=1e-10)
    found = value("TC[Y1;Y2;Y3|x1,x2,x3]", joint)
    assert found == pytest.approx(float(total_correlation(draws[0], draws[1])), abs=1e-10)


def test_conditioning_on_labels_is_online_inference():
    belief = natsel.CategoricalSamples(*random_draws(5, 6, 8, 3, zeros=False))
    after = belief.condition([0, 1], [2, 1])
    found = info("I[Y;W|y1,y2,x,x1,x2]").on(belief, at={"y1": 2, "y2": 1})
    torch.testing.assert_close(found, natsel.score("bald", after), rtol=1e-10, atol=1e-10)
    assert info("H[Y3|y1,y2,x]").on(belief, at={"y1": 2, "y2": 1}) == pytest.approx(
        float(natsel.score("entropy", after)[2])
    )
    assert info("H[W|y1,y2]").on(belief, labels=[2, 1, 0, 0, 0, 0]) == pytest.approx(
        float(torch.special.entr(after.log_weights_K.exp()).sum())
    )


def test_axes_of_a_result():
    joint = PredictiveJoint(*random_draws(0, 5, 4, 3, zeros=False))
    assert value("I[omega;y|x]", joint, at={"y": ALL, "w": ALL}).shape == (5, 4, 3)
    assert value("I[y;omega|x]", joint, at={"y": ALL, "w": ALL}).shape == (5, 3, 4)
    assert value("I[omega;y1]", joint, at={"y1": ALL, "w": 2}).shape == (3,)
    assert value("H[W|x]", joint).shape == (5,)
    assert isinstance(value("I[Y1,Y2;W|x,D]", joint), float)
    assert isinstance(value("H[W]", joint), float)
    assert value("I[Y;Y1|x,x1]", joint).shape == (5,)
    assert value("H[Y|x]", PredictiveJoint(torch.zeros(0, 2, 3))).shape == (0,)
    pmi_N_K_C = value("I[omega;y|x]", joint, at={"y": ALL, "omega": ALL})
    expected = natsel.information.pointwise_mutual_information(joint.log_probs_N_K_C, joint.log_weights_K)
    torch.testing.assert_close(pmi_N_K_C, expected)
    torch.testing.assert_close(value("I[omega;Y=1|x]", joint, at={"w": ALL}), expected[:, :, 1])


def test_chunks_change_nothing():
    draws = random_draws(0, 300, 5, 3, zeros=False)
    labels_N = torch.arange(300) % 3
    for text in ["I[Y;W|x]", "I[W;y|x]", "I[Y;Y1|x]", "I[y;W|x,y2]", "I[omega;Y|x]"]:
        whole = value(text, PredictiveJoint(*draws), labels=labels_N, at={"omega": ALL})
        with natsel.memory_budget(20_000):
            torch.testing.assert_close(value(text, PredictiveJoint(*draws), labels=labels_N, at={"omega": ALL}), whole)


def test_independence_given_the_parameters_spares_states():
    log_probs_N_K_C, log_weights_K = random_draws(0, 12, 5, 4)
    joint = PredictiveJoint(log_probs_N_K_C, log_weights_K, max_states=10_000)
    labels = ",".join(f"Y{n + 1}" for n in range(12))
    each = value("H[Y|W,x]", joint)
    assert value(f"H[{labels}|W]", joint) == pytest.approx(float(each.sum()))
    with pytest.raises(ValueError, match=r"more than max_states=10000; .*joint_mutual_information_sampled"):
        value(f"I[{labels};W]", joint)
    assert value("H[Y1,Y2,Y3,Y4,Y5]", joint) > 0  # 5 · 4⁵ = 5120 states
    with pytest.raises(ValueError, match="5 draws and 6 labels of 4 classes are 20480 states"):
        value("H[Y1,Y2,Y3,Y4,Y5,Y6]", joint)


def test_labels_that_no_draw_allows_name_their_point():
    log_probs_N_K_C = logs([[[0.5, 0.5], [0.2, 0.8]], [[1.0, 0.0], [1.0, 0.0]], [[0.5, 0.5], [1.0, 0.0]]])
    joint = PredictiveJoint(log_probs_N_K_C)
    for text in ["I[W;y|x]", "I[y;W|x]", "H[W|y,x]"]:
        with pytest.raises(ZeroProbabilityOutcome, match=r"undefined at point 1 at y=1: .*probability 0"):
            value(text, joint, labels=[0, 1, 1])
        assert value(text, joint, labels=[0, 1, 1], errors="nan").isnan().tolist() == [False, True, False]
    assert value("H[y|x]", joint, labels=[0, 1, 1])[1] == math.inf
    # Impossible together, but given a draw that is possible.
    assert value("H[y1,y2|omega]", joint, labels=[0, 1, 1], at={"omega": 0}) == math.inf


def test_models_are_beliefs_too():
    p, q = (
        PredictiveJoint(*random_draws(0, 4, 5, 3, zeros=False)),
        PredictiveJoint(*random_draws(1, 4, 2, 3, zeros=False)),
    )
    mean_p, mean_q = (torch.exp(-value("H[y|x]", each, at={"y": ALL})) for each in (p, q))
    torch.testing.assert_close(value("H_q[Y|x]", p, q=q), -(mean_p * mean_q.log()).sum(1))
    torch.testing.assert_close(value("KL(p(Y|x) || q(Y|x))", p, q=q), (mean_p * (mean_p / mean_q).log()).sum(1))
    with pytest.raises(ValueError, match=r"q: found \(4, 2, 3\) points, draws and classes for a belief of \(4, 5, 3\)"):
        value("H_q[Y|x,W]", p, q=q)
    with pytest.raises(ValueError, match="q: found"):
        value("H_q[Y|x]", p, q=PredictiveJoint(*random_draws(1, 3, 5, 3)))


def test_an_average_over_labels_is_bound():
    joint = PredictiveJoint(*random_draws(2, 3, 4, 3, zeros=False))
    body = info("I[W;y|x]").expression
    law = Law("p", (Atom("Y", True),), (Atom("X", True),))
    torch.testing.assert_close(value(Expectation(law, body), joint), value("I[Y;W|x]", joint))


def test_equally_weighted_draws_are_remarked_on():
    uniform, weighted = (
        PredictiveJoint(*random_draws(0, 3, 4, 3, zeros=False, weighted=which)) for which in (False, True)
    )
    remark = ("information gain on equally weighted draws equals surprise, and cannot be negative",)
    for text in ["I[W;y|x]", "2 I[W;y|x] + 1", "E_{p(y|x)}[I[W;y|x]]"]:
        assert evaluate(text, uniform, labels=[0, 1, 2]).warnings == remark
        assert evaluate(text, weighted, labels=[0, 1, 2]).warnings == ()
    assert evaluate("I[y;W|x] + I[W;Y|x]", uniform, labels=[0, 1, 2]).warnings == ()
    gain, surprise = (value(text, uniform, labels=[0, 1, 2]) for text in ("I[W;y|x]", "I[y;W|x]"))
    torch.testing.assert_close(gain, surprise)


def test_half_precision_and_single_precision_are_widened():
    log_probs_N_K_C, log_weights_K = random_draws(0, 4, 5, 3, zeros=False)
    exact = value("I[Y;W|x]", PredictiveJoint(log_probs_N_K_C, log_weights_K))
    found = value("I[Y;W|x]", PredictiveJoint(log_probs_N_K_C.float(), log_weights_K.float()))
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, exact, rtol=1e-5, atol=1e-6)


JOINT = PredictiveJoint(*random_draws(0, 3, 4, 2, zeros=False))


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("H[x]", {}, "x: a belief is given its inputs and data; write them small and behind |"),
        ("H[Y|X]", {}, "X: a belief is given its inputs"),
        ("I[Y;D|x]", {}, "D: a belief is given"),
        ("H[D_train]", {}, "D_train: a belief is given"),
        ("H[Z]", {}, "Z: no such variable; a belief about 3 points has Y, Y1 to Y3 and Omega"),
        ("H[Y4]", {}, "Y4: no such variable"),
        ("H[Y0]", {}, "Y0: no such variable"),
        ("I[Y1,Y2;W|x1]", {}, "x2: missing behind"),
        ("I[W;y|x]", {}, "labels: y is an observed label; pass labels=..., or at={'y': ...}"),
        ("I[W;y1|x]", {}, "labels: y1 is an observed label"),
        ("I[W;y|x]", {"labels": [0, 1]}, "labels: found 2; pass 3, one per point"),
        ("I[W;y|x]", {"labels": [0, 1, 2]}, "y: found 2; its outcomes are the numbers 0 to 1"),
        ("I[W;y|x]", {"labels": ["a", "b", "c"]}, "y: found .*; its outcomes are the numbers"),
        ("I[W;y|x]", {"at": {"y": 2}}, "y: found 2; its outcomes"),
        ("I[W;y|x]", {"at": {"y": [0, 1]}}, "at: found 2 of y; give 3, one per point"),
        ("I[omega;Y|x]", {}, "at: omega has no outcome"),
        ("I[omega;Y|x]", {"at": {"omega": 4}}, "omega: found 4; its outcomes are the numbers 0 to 3"),
        ("KL(p || q)", {"q": JOINT}, "p: a belief has too many labels"),
        ("H_q[Y|x]", {"q": [1, 2]}, "joint: found list"),
        ("H[Y|x]", {"at": {"z": 1}}, "Z: no such variable"),
    ],
)
def test_bad_questions(text, arguments, message):
    with pytest.raises(ValueError, match=message) as caught:
        evaluate(text, JOINT, **arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PredictiveJoint(torch.zeros(2, 3)), r"log_probs_N_K_C: found torch.float32 of shape \(2, 3\)"),
        (lambda: PredictiveJoint(torch.zeros(2, 3, 2)), "point 0, draw 0 sums to 2 in probability"),
        (lambda: PredictiveJoint(torch.full((1, 1, 1), math.nan)), "sums to nan"),
        (lambda: PredictiveJoint(torch.zeros(2, 3, 1), torch.zeros(2)), r"log_weights_K: found shape \(2,\)"),
        (lambda: PredictiveJoint(torch.zeros(2, 1, 1), torch.tensor([-math.inf])), "log_weights_K: found no finite"),
    ],
)
def test_bad_draws(make, message):
    with pytest.raises(ValueError, match=message):
        make()
