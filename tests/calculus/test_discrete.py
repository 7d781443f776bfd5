import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from enumerated import Enumerated, random_expression
from natsel.calculus import ALL, DiscreteJoint, ZeroProbabilityOutcome, equal, evaluate, parse
from natsel.calculus.expressions import Atom, H
from natsel.memory import memory_budget

properties = settings(deadline=None)
seeds = st.integers(0, 2**31)
shapes = st.lists(st.integers(1, 4), min_size=1, max_size=5)
NAMES = "ABXYZ"


def table(seed, shape, zeros=0.4):
    """Probabilities of very different sizes, a good part of them 0."""
    generator = np.random.default_rng(seed)
    p = generator.gamma(0.5, size=shape) * (generator.random(shape) >= zeros)
    p.flat[generator.integers(p.size)] += 0.1
    return p / p.sum()


def joint_of(seed, shape, zeros=0.4):
    return DiscreteJoint.from_probs(NAMES[: len(shape)], table(seed, shape, zeros))


def value(text, joint, **arguments):
    return evaluate(text, joint, **arguments).value


def some_outcome(joint, seed):
    """Outcomes that happen together."""
    p = joint.log_p.exp().numpy()
    cell = np.unravel_index(np.random.default_rng(seed).choice(p.size, p=p.ravel() / p.sum()), p.shape)
    return {name.lower(): int(place) for name, place in zip(joint.names, cell, strict=True)}


# ---- against the definitions ------------------------------------------------------------------------------------


@properties
@given(seed=seeds, shape=st.lists(st.integers(1, 3), min_size=1, max_size=4), q=st.booleans())
def test_values_are_those_of_the_definitions(seed, shape, q):
    names, p, model = NAMES[: len(shape)], table(seed, shape), 3 * table(seed + 1, shape, zeros=0.2)
    joint, plain = DiscreteJoint.from_probs(names, p), Enumerated(names, p, model)
    for offset in range(8):
        expression = random_expression(list(names), seed + offset, q)
        cell = np.random.default_rng(seed + offset).integers(shape)
        at = {name.lower(): int(place) for name, place in zip(names, cell, strict=True)}
        found = value(expression, joint, at=at, q=model, errors="nan")
        expected = plain.value(expression, {name.upper(): place for name, place in at.items()})
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-11, nan_ok=True), str(expression)
        if math.isnan(expected):
            with pytest.raises(ZeroProbabilityOutcome):
                value(expression, joint, at=at, q=model)


@properties
@given(seed=seeds, shape=shapes)
def test_chain_rules_hold_and_nothing_is_nan_however_many_zeros(seed, shape):
    joint = joint_of(seed, shape)
    names = joint.names
    at = some_outcome(joint, seed)
    whole = value(f"H[{','.join(names)}]", joint)
    steps = sum(value(H((Atom(name),), tuple(map(Atom, names[:place]))), joint) for place, name in enumerate(names))
    assert whole == pytest.approx(steps, abs=1e-9)
    observed = value(f"H[{','.join(names).lower()}]", joint, at=at)
    steps = sum(
        value(H((Atom(name, True),), tuple(Atom(each, True) for each in names[:place])), joint, at=at)
        for place, name in enumerate(names)
    )
    assert observed == pytest.approx(steps, abs=1e-9)
    if len(names) >= 3:
        for left, right in [
            ("I[A;B,X]", "I[A;B] + I[A;X|B]"),
            ("I[A;b,x]", "I[A;b] + I[A;x|b]"),
            ("I[a;b,x]", "I[a;b] + I[a;x|b]"),
            ("I[A,B;x]", "I[A;x] + I[B;x|A]"),
            ("I[x;A,B]", "I[x;A] + I[x;B|A]"),
            ("H[A,x|b]", "H[x|b] + H[A|b,x]"),
        ]:
            assert value(left, joint, at=at) == pytest.approx(value(right, joint, at=at), abs=1e-9)


# ---- docs/theory/information-quantities.md, 2 to 5 -----------------------------------------------------------------


@properties
@given(seed=seeds, shape=st.tuples(st.integers(2, 4), st.integers(2, 4), st.integers(2, 4)))
def test_untying_commutes_with_averages(seed, shape):
    joint = DiscreteJoint.from_probs("XYZ", table(seed, shape))
    for left, right in [
        ("E_{p(x)}[H[x,Y]]", "H[X,Y]"),
        ("E_{p(y)}[H[X,y]]", "H[X,Y]"),
        ("E_{p(y)}[I[X;y]]", "I[X;Y]"),
        ("E_{p(y)}[I[y;X]]", "I[X;Y]"),
        ("E_{p(x,y)}[I[x;y]]", "I[X;Y]"),
        ("E_{p(z)}[I[X;Y;z]]", "I[X;Y;Z]"),
        ("E_{p(z)}[I[z;X;Y]]", "I[X;Y;Z]"),
        ("E_{p(y)}[E_{p(x|y)}[H[x,y]]]", "H[X,Y]"),
    ]:
        assert value(left, joint) == pytest.approx(value(right, joint), abs=1e-10), left


@properties
@given(seed=seeds, shape=st.tuples(st.integers(2, 4), st.integers(2, 4)))
def test_algebra_of_cross_entropies(seed, shape):
    p, r = table(seed, shape), table(seed + 1, shape)
    q1, q2 = (5 * table(seed + offset, shape, zeros=0) + 1e-3 for offset in (2, 3))
    joint, other = DiscreteJoint.from_probs("XY", p), DiscreteJoint.from_probs("XY", r)
    cross = lambda q, on=joint: value("H(p || q)", on, q=q)  # noqa: E731
    assert cross(0.3 * q1) == pytest.approx(cross(q1) - math.log(0.3))
    assert cross(q1**0.3) == pytest.approx(0.3 * cross(q1))
    assert cross(q1 * q2) == pytest.approx(cross(q1) + cross(q2))
    mixed = DiscreteJoint.from_probs("XY", 0.3 * p + 0.7 * r)
    assert cross(q1, mixed) == pytest.approx(0.3 * cross(q1) + 0.7 * cross(q1, other))
    assert value("H(p(X,Y) || q1(X,Y) q2(X,Y))", joint, q={"q1": q1, "q2": q2}) == pytest.approx(cross(q1 * q2))
    joint_kl = value("KL(p(X,Y) || q(X|Y))", joint, q=q1)
    assert value("KL(p(X|Y) || q(X|Y))", joint, q=q1) - joint_kl == pytest.approx(value("H[Y]", joint))
    assert value("H(p(X|Y) || q(X|Y))", joint, q=q1) == pytest.approx(value("H(p(X,Y) || q(X|Y))", joint, q=q1))
    bound = value("H[X,Y]", joint) - math.log(q1.sum())
    assert cross(q1) > bound - 1e-12
    assert cross(7 * p) == pytest.approx(value("H[X,Y]", joint) - math.log(7))
    assert value("I[X;Y]", joint) == pytest.approx(value("KL(p(X,Y) || p(X) p(Y))", joint), abs=1e-12)


@properties
@given(seed=seeds, shape=st.tuples(st.integers(2, 4), st.integers(2, 4), st.integers(1, 3)))
def test_order_labels_and_bystanders_change_nothing(seed, shape):
    generator = np.random.default_rng(seed)
    p = table(seed, shape)
    joint = DiscreteJoint.from_probs("XYZ", p)
    at = some_outcome(joint, seed)
    order = generator.permutation(3)
    turned = DiscreteJoint.from_probs([joint.names[axis] for axis in order], p.transpose(order))
    swaps = [generator.permutation(size) for size in shape]
    labels = {name: [f"{name}{place}" for place in swap] for name, swap in zip("XYZ", swaps, strict=True)}
    labelled = DiscreteJoint.from_probs("XYZ", p[np.ix_(*swaps)], labels)
    labels_at = {name: f"{name.upper()}{place}" for name, place in at.items()}
    wider = DiscreteJoint.from_probs("XYZB", p[..., None] * table(seed + 1, (3,)))
    for text in ["H[X,y|Z]", "I[X;y|z]", "I[y;X]", "I[X;Y;z]", "TC[X;Y;Z]", "E_{p(x|y)}[H[x|Z]]", "I[x;y|Z]"]:
        expected = value(text, joint, at=at)
        assert value(text, turned, at=at) == pytest.approx(expected, abs=1e-11)
        assert value(text, labelled, at=labels_at) == pytest.approx(expected, abs=1e-11)
        assert value(text, wider, at=at) == pytest.approx(expected, abs=1e-11)


@properties
@given(seed=seeds, shape=st.tuples(st.integers(2, 4), st.integers(2, 4)))
def test_inequalities(seed, shape):
    joint = DiscreteJoint.from_probs("XY", table(seed, shape))
    at = some_outcome(joint, seed)
    for text in [
        "I[X;Y]",
        "H[X]",
        "H[X] - I[X;Y]",
        "H[Y] - I[X;Y]",
        "I[y;X]",
        "H[y]",
        "H[y|X]",
        "H[y] - I[y;X]",
        "E_{p(x|y)}[H[x]] - H[X|y]",
        "E_{p(x|y)}[H[x]] - I[y;X]",
        "H[X] - I[X;y]",
    ]:
        assert value(text, joint, at=at) >= -1e-12, text
    assert value("I[X;y] - H[X]", joint, at=at) >= -math.log(shape[0]) - 1e-12


def test_surprise_is_0_only_where_nothing_is_learnt():
    joint = DiscreteJoint.from_probs("XY", [[0.1, 0.2, 0.1], [0.15, 0.3, 0.15]])
    assert value("I[y;X]", joint, at={"y": ALL}).abs().max() < 1e-14
    moved = DiscreteJoint.from_probs("XY", [[0.1, 0.2, 0.1], [0.15, 0.299, 0.151]])
    found = value("I[y;X]", moved, at={"y": ALL})
    assert found[0].abs() < 1e-14  # p(x | y=0) is p(x) still
    assert found[1:].min() > 1e-9


@properties
@given(seed=seeds)
def test_markov_chains(seed):
    generator = np.random.default_rng(seed)
    x, y_x, z_y = generator.dirichlet([1] * 3), generator.dirichlet([0.5] * 4, 3), generator.dirichlet([0.5] * 2, 4)
    joint = DiscreteJoint.from_probs("XYZ", x[:, None, None] * y_x[:, :, None] * z_y)
    assert value("I[X;Z|Y]", joint) == pytest.approx(0, abs=1e-12)
    assert value("I[X;Z]", joint) <= value("I[X;Y]", joint) + 1e-12
    for atom in ["I[X;Y;Z]", "I[X;Y|Z]", "I[Y;Z|X]", "H[X|Y,Z]", "H[Y|X,Z]", "H[Z|X,Y]"]:
        assert value(atom, joint) >= -1e-12


def test_numbers_agree_with_what_is_proved():
    joint = joint_of(5, (3, 2, 4), zeros=0.3)
    at = some_outcome(joint, 0)
    for left, right in [("I[A;B;x]", "I[B;A;x]"), ("I[x;A]", "KL(p(A|x) || p(A))"), ("H[b|A]", "H[A,b] - H[A]")]:
        agree = value(left, joint, at=at) == pytest.approx(value(right, joint, at=at), abs=1e-12)
        assert agree == bool(equal(left, right))


# ---- outcomes ---------------------------------------------------------------------------------------------------


def test_all_outcomes_are_axes_in_the_order_they_are_named():
    joint = joint_of(1, (2, 3, 4), zeros=0)
    found = value("I[X;a] + H[b]", joint, at={"b": ALL, "a": ALL})
    assert found.shape == (2, 3)
    assert value("H[b] + I[X;a]", joint, at={"a": ALL, "b": ALL}).shape == (3, 2)
    for a in range(2):
        for b in range(3):
            assert float(found[a, b]) == pytest.approx(value("I[X;a] + H[b]", joint, at={"a": a, "b": b}))
            assert float(found[a, b]) == pytest.approx(value(f"I[X;A={a}] + H[B={b}]", joint))


def test_several_outcomes_share_the_first_axis():
    joint = joint_of(1, (2, 3, 4), zeros=0)
    a_B, b_B = torch.tensor([0, 1, 1, 0, 1]), [0, 2, 1, 1, 0]
    found = value("I[x;a|b] + E_{p(x|a)}[H[x|b]]", joint, at={"a": a_B, "b": np.array(b_B), "x": ALL})
    assert found.shape == (5, 4)
    for row, (a, b) in enumerate(zip(a_B.tolist(), b_B, strict=True)):
        one = value("I[x;a|b] + E_{p(x|a)}[H[x|b]]", joint, at={"a": a, "b": b, "x": 2})
        assert float(found[row, 2]) == pytest.approx(one)
    with pytest.raises(ValueError, match="at: found 2 of a, 3 of b; give as many"):
        value("I[a;b]", joint, at={"a": [0, 1], "b": [0, 1, 2]})


def test_many_outcomes_are_taken_in_chunks():
    joint = joint_of(1, (4, 3, 4), zeros=0)
    at = {"a": torch.arange(4).repeat(500), "b": 1}
    whole = value("I[X;a|b] - H[B,X]", joint, at=at)
    with memory_budget(4096):
        torch.testing.assert_close(value("I[X;a|b] - H[B,X]", joint, at=at), whole)
    assert whole.shape == (2000,)


def test_labels_are_outcomes():
    joint = DiscreteJoint.from_probs("XY", [[0.5, 0.25], [0.125, 0.125]], {"Y": ["cat", "dog"], "X": [10, 20]})
    expected = -math.log(0.375)
    for text, at in [
        ("H[y]", {"y": "dog"}),
        ("H[y]", {"y": 1}),
        ('H[Y="dog"]', {}),
        ("H[Y=dog]", {}),
        ("H[Y=1]", {}),
    ]:
        assert value(text, joint, at=at) == pytest.approx(expected)
    assert value("H[X=20]", joint) == pytest.approx(-math.log(0.25))
    assert value("H[x]", joint, at={"x": "20"}) == pytest.approx(-math.log(0.25))
    assert value("H[x]", joint, at={"x": 20.0}) == pytest.approx(-math.log(0.25))
    assert value("H[y]", joint, at={"y": ["dog", "cat", "dog"]}).exp().tolist() == pytest.approx([8 / 3, 1.6, 8 / 3])
    with pytest.raises(ValueError, match=r"X: 1 is none of its 2 outcomes \(10, 20\)"):
        value("H[x]", joint, at={"x": 1})
    zero = DiscreteJoint.from_probs("XY", [[0.5, 0.0], [0.5, 0.0]], {"Y": ["cat", "dog"]})
    with pytest.raises(ZeroProbabilityOutcome, match="at y=dog"):
        value("H[X|y]", zero, at={"y": "dog"})


def test_models_are_matched_by_label():
    p = DiscreteJoint.from_probs("XY", [[0.5, 0.25], [0.125, 0.125]], {"X": ["a", "b"]})
    q = DiscreteJoint.from_probs("YX", [[0.1, 0.2, 0.3], [0.1, 0.2, 0.1]], {"X": ["c", "b", "a"]})
    by_hand = -(0.5 * math.log(0.3) + 0.25 * math.log(0.1) + 0.125 * math.log(0.2) + 0.125 * math.log(0.2))
    assert value("H(p || q)", p, q=q) == pytest.approx(by_hand)
    # What q gives to an outcome that p does not have counts in q's own marginals.
    by_hand = -(0.625 * math.log(0.6) + 0.375 * math.log(0.4))
    assert value("H_q[Y]", p, q=q) == pytest.approx(by_hand)
    assert value("H_q[x|Y]", p, q=q, at={"x": "a"}) == pytest.approx(
        -(2 / 3 * math.log(0.3 / 0.6) + 1 / 3 * math.log(0.1 / 0.4))
    )
    missing = DiscreteJoint.from_probs("X", [1.0], {"X": ["a"]})
    assert value("H_q[X]", p, q=missing) == math.inf
    assert value("H_q[X=a]", p, q=missing) == 0


def test_averages_under_a_model():
    p, q = DiscreteJoint.from_probs("X", [0.5, 0.5]), DiscreteJoint.from_probs("X", [0.9, 0.1])
    assert value("H(q || p)", p, q=q) == pytest.approx(math.log(2))
    assert value("KL(q || p)", p, q=q) == pytest.approx(0.9 * math.log(1.8) + 0.1 * math.log(0.2))
    assert value("E_{q(x)}[H[x]]", p, q=q) == pytest.approx(math.log(2))
    assert value("H(q(X))", p, q=[0.9, 0.1]) == pytest.approx(-(0.9 * math.log(0.9) + 0.1 * math.log(0.1)))
    for text in ["H(q || p)", "E_{q(x)}[H[x]]"]:
        with pytest.raises(ValueError, match=r"q: found a sum of 1\.3 where it is averaged over"):
            value(text, p, q=[0.9, 0.4])


def test_laws_may_be_tied_to_different_outcomes():
    joint = DiscreteJoint.from_probs("XY", [[0.3, 0.1], [0.2, 0.4]])
    by_hand = 0.6 * math.log(0.6 / 0.2) + 0.4 * math.log(0.4 / 0.8)
    assert value("KL(p(X|Y=0) || p(X|Y=1))", joint) == pytest.approx(by_hand)
    assert value("KL(p(X|y) || p(X|Y=1))", joint, at={"y": ALL}).tolist() == pytest.approx([by_hand, 0])
    # A bare law beside another is over what that one is over, given the same.
    q = [[1, 2], [3, 4]]
    assert value("H(p(X|y) || q)", joint, q=q, at={"y": 1}) == value("H_q[X|y]", joint, q=q, at={"y": 1})
    # What one law ties and the other leaves untied has the one outcome there is.
    assert value("H(p(X|y) || p(X,Y))", joint, at={"y": 1}) == pytest.approx(value("H[X,y]", joint, at={"y": 1}))


def test_infinities_are_where_they_belong():
    joint = DiscreteJoint.from_probs("XY", [[0.5, 0.0, 0.0], [0.2, 0.3, 0.0]])
    at = {"x": 0, "y": 1}
    assert value("H[x|y]", joint, at=at) == math.inf
    assert value("I[x;y]", joint, at=at) == -math.inf
    assert value("H[y]", joint, at={"y": 2}) == math.inf
    assert value("E_{p(x)}[H[x,y]]", joint, at=at) == math.inf
    assert value("KL(p || q)", joint, q=[[1, 0, 0], [0, 1, 0]]) == math.inf
    assert value("H(p || q)", joint, q=[[1, 0, 0], [1, 1, 0]]) == 0  # 0 · ∞ = 0
    with pytest.raises(ZeroProbabilityOutcome, match="inf - inf at x=0, y=1"):
        value("H[x|y] - H[x,y]", joint, at=at)
    assert math.isnan(value("H[x|y] - H[x,y]", joint, at=at, errors="nan"))
    with pytest.raises(ZeroProbabilityOutcome, match=r"H_q\[X \| Y\] is undefined"):
        value("H_q[X|Y]", joint, q=[[1, 0, 0], [1, 0, 0]])


def test_averages_skip_what_cannot_happen():
    joint = DiscreteJoint.from_probs("XY", [[0.5, 0.0, 0.0], [0.2, 0.3, 0.0]])
    assert value("E_{p(y)}[H[X|y]]", joint) == pytest.approx(value("H[X|Y]", joint))
    found = value("H[X|y]", joint, at={"y": ALL}, errors="nan")
    assert found.isnan().tolist() == [False, False, True]
    with pytest.raises(ZeroProbabilityOutcome, match=r"H\[X \| y\] is undefined at y=2"):
        value("H[X|y]", joint, at={"y": ALL})
    p = torch.full((2, 2, 3), 0.1, dtype=torch.float64)
    p[:, 1, 2] = 0
    with pytest.raises(ZeroProbabilityOutcome, match=r"H\[X \| y, z\] is undefined at y=1, z=2"):
        value("H[X|y,z]", DiscreteJoint.from_probs("XYZ", p), at={"y": ALL, "z": ALL})


def test_probabilities_below_the_smallest_float_are_told_apart():
    log_p = torch.tensor([[-20_000.0, -20_001.0], [0.0, -math.inf]], dtype=torch.float64)
    joint = DiscreteJoint("XY", log_p)
    assert value("H[Y|x]", joint, at={"x": 0}) == pytest.approx(
        value("H[Y]", DiscreteJoint.from_probs("Y", torch.tensor([0.0, -1.0]).double().softmax(0)))
    )
    assert value("H[y|x]", joint, at={"x": 0, "y": 1}) == pytest.approx(math.log1p(math.e))


# ---- tables -----------------------------------------------------------------------------------------------------


def test_marginals_are_kept_and_made_from_the_smallest_table():
    joint = joint_of(0, (3, 4, 2), zeros=0)
    p = joint.log_p.exp()
    torch.testing.assert_close(joint.marginal("AB").exp(), p.sum(2))
    kept = joint.marginal("AB")
    assert joint.marginal("BA") is kept
    torch.testing.assert_close(joint.marginal("A").exp(), p.sum((1, 2)))
    assert joint.marginal("").shape == ()
    joint._tables[frozenset("BX")] = marked = torch.zeros(4, 2, dtype=torch.float64)
    assert joint.marginal("X").tolist() == pytest.approx(marked.logsumexp(0).tolist())
    with pytest.raises(ValueError, match="Q: no such variable; the table has A, B, X"):
        joint.marginal("Q")


def test_the_table_is_our_own_copy():
    for p in (np.array([0.5, 0.5]), torch.tensor([0.5, 0.5], dtype=torch.float64)):
        joint = DiscreteJoint("X", np.log(p) if isinstance(p, np.ndarray) else p.log())
        p[0] = 9
        assert value("H[X]", joint) == pytest.approx(math.log(2))
    log_p = torch.tensor([0.5, 0.5], dtype=torch.float64).log()
    joint = DiscreteJoint("X", log_p)
    log_p[0] = 9
    assert value("H[X]", joint) == pytest.approx(math.log(2))


def test_a_sum_that_is_off_by_rounding_is_put_right():
    joint = DiscreteJoint.from_probs("X", [0.5 + 4e-7, 0.5])
    assert abs(float(joint.log_p.logsumexp(0))) < 1e-15
    assert float(DiscreteJoint("X", [-math.log(2) + 5e-7] * 2).log_p[0]) == pytest.approx(-math.log(2), abs=1e-15)


def test_single_precision_may_sum_to_one_less_exactly():
    p = table(0, (40, 50), zeros=0).astype(np.float32)
    assert value("H[A,B]", DiscreteJoint.from_probs("AB", p)) == pytest.approx(-(p * np.log(p)).sum(), rel=1e-4)
    with pytest.raises(ValueError, match=r"p: the probabilities sum to 1\.001"):
        DiscreteJoint.from_probs("AB", 1.001 * p)


def test_csv_with_probabilities_counts_or_neither(tmp_path):
    path = tmp_path / "joint.csv"
    path.write_text("X, Y, p\na,1,0.5\na,10,0.25\nb,2,0.125\nb,2,0.125\n")
    joint = DiscreteJoint.read_csv(path)
    assert (joint.names, joint.outcomes) == (("X", "Y"), {"X": ("a", "b"), "Y": (1, 2, 10)})
    assert joint.log_p.exp().tolist() == pytest.approx(np.array([[0.5, 0, 0.25], [0, 0.25, 0]]))
    path.write_text("Y,count,X\n1.5,3,u\n-2,1,v\n")
    joint = DiscreteJoint.read_csv(path)
    assert joint.outcomes == {"Y": (-2.0, 1.5), "X": ("u", "v")}
    assert joint.log_p.exp().tolist() == pytest.approx(np.array([[0, 0.25], [0.75, 0]]))
    path.write_text("X,Y\n1,a\n1,a\n0,b\n0,a\n")
    assert DiscreteJoint.read_csv(path).log_p.exp().tolist() == pytest.approx(np.array([[0.25, 0.25], [0.5, 0]]))
    path.write_text("X,p\n0,0.5\n1,1.5\n")
    assert DiscreteJoint.read_csv(path, measure=True).log_p.exp().tolist() == pytest.approx([0.5, 1.5])
    assert value("H_q[X]", DiscreteJoint.from_probs("X", [1, 0]), q=DiscreteJoint.read_csv(path, measure=True)) == (
        pytest.approx(math.log(2))
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("X,p\n0,0.5\n1,0.4\n", "p: the probabilities sum to 0.9, not to 1"),
        ("X,p\n0,half\n", "row 1 has 'half' in column p; write a number"),
        ("X,p,count\n0,1,1\n", "found both a column p and a column count"),
        ("X,Y\n0\n", "row 1 does not have just the columns X, Y"),
        ("X,Y\n0,1,2\n", "row 1 does not have just the columns X, Y"),
        ("X,X\n0,1\n", "a column is there twice"),
        ("x,p\n0,1\n", "'x' would read as an outcome; begin with a capital, 'X'"),
        ("X,p\n0,-1\n1,2\n", "p: found -1, expected finite numbers from 0 on"),
        ("X,count\n0,0\n", "counts: found a sum of 0"),
        ("X,p\n", "found no rows"),
        ("", "found no rows"),
    ],
)
def test_bad_files(tmp_path, text, message):
    path = tmp_path / "joint.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        DiscreteJoint.read_csv(path)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: DiscreteJoint.from_probs("XY", [[0.5, 0.25]]),
            "p: the probabilities sum to 0.75, not to 1; from_counts",
        ),
        (lambda: DiscreteJoint.from_probs("X", [1.5, -0.5]), "p: found -0.5, expected finite numbers from 0 on; log"),
        (lambda: DiscreteJoint.from_probs("X", [0.5, math.nan]), "p: found NaN"),
        (lambda: DiscreteJoint.from_probs("X", [0.5, math.inf]), "p: found inf"),
        (lambda: DiscreteJoint("X", [0.5, 0.5]), "log_p: the probabilities sum to 3.29744, not to 1"),
        (lambda: DiscreteJoint("X", [0.0, math.nan]), "log_p: found NaN or"),
        (lambda: DiscreteJoint("X", [-math.inf, -math.inf]), "log_p: the probabilities sum to 0, not to 1"),
        (lambda: DiscreteJoint.from_probs("XYZ", [[1.0]]), r"names: found 3 \(X, Y, Z\) for 2 axes; name each once"),
        (lambda: DiscreteJoint.from_probs("XX", [[1.0]]), "names: X is there twice"),
        (lambda: DiscreteJoint.from_probs("x", [1.0]), "names: 'x' would read as an outcome"),
        (lambda: DiscreteJoint.from_probs(["X Y"], [1.0]), "names: 'X Y' is no name"),
        (lambda: DiscreteJoint.from_probs("X", []), "sum to 0, not to 1"),
        (lambda: DiscreteJoint.measure("X", []), "names: X has no outcomes"),
        (lambda: DiscreteJoint.from_probs("X", "half"), "p: expected a table of numbers, found str"),
        (lambda: DiscreteJoint.from_probs("X", [[0.5], [0.25, 0.25]]), "p: expected a table of numbers, found list"),
        (lambda: DiscreteJoint.from_probs("X", [1j]), "p: found complex numbers"),
        (lambda: DiscreteJoint.from_counts("X", [0, 0]), "counts: found a sum of 0"),
        (lambda: DiscreteJoint.from_counts("X", [-1, 2]), "counts: found -1"),
        (lambda: DiscreteJoint.from_probs("X", [0.5, 0.5], {"Y": [0, 1]}), "outcomes: Y is no variable of this table"),
        (lambda: DiscreteJoint.from_probs("X", [0.5, 0.5], {"X": ["a", "a"]}), "outcomes: found .*; give 2 different"),
        (
            lambda: DiscreteJoint.from_probs([f"X{i}" for i in range(27)], np.ones([1] * 27)),
            "27 variables are more than",
        ),
        (lambda: DiscreteJoint.from_records([]), "records: found none"),
    ],
)
def test_bad_tables(make, message):
    with pytest.raises(ValueError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


JOINT = DiscreteJoint.from_probs("XY", [[0.5, 0.25], [0.125, 0.125]])


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("H[Z]", {}, "Z: no such variable; the table has X, Y"),
        ("H[X|D]", {}, "D: no such variable; the table has X, Y"),
        ("H[z]", {}, "Z: no such variable"),
        ("H[X]", {"at": {"z": 1}}, "Z: no such variable"),
        ("H[X|y]", {}, r'at: y has no outcome; pass at=\{"y": ...\}, or write Y=...'),
        ("H[X|y]", {"at": {"y": 2}}, r"Y: 2 is none of its 2 outcomes \(0, 1\)"),
        ("H[X|y]", {"at": {"y": -1}}, "Y: -1 is none"),
        ("H[X|y]", {"at": {"y": 0.5}}, "Y: 0.5 is none"),
        ("H[X|y]", {"at": {"y": True}}, "Y: True is none"),
        ("H[X|y]", {"at": {"y": "cat"}}, "Y: 'cat' is none"),
        ("H[X|y]", {"at": {"y": [0, 2]}}, "Y: found 2; its outcomes are the numbers 0 to 1"),
        ("H[X|y]", {"at": {"y": [0.5]}}, "Y: found 0.5; its outcomes"),
        ("H[X|y]", {"at": {"y": [[0]]}}, "Y: found .*; its outcomes"),
        ("H[X|y]", {"at": {"y": ["a"]}}, "Y: found .*; its outcomes"),
        ("H[X|Y=7]", {}, "Y: 7 is none"),
        ("H[X|y]", {"at": {"y": 1, "Y": 1}}, "at: found 'Y'; name each variable once"),
        ("H[X|y]", {"at": {"": 1}}, "at: found ''"),
        ("H_q[X]", {}, r"q: the expression names a law q; pass q=table, or q=\{'q': table\}"),
        ("H_q[X] + H_r[X]", {"q": [[1, 1], [1, 1]]}, "q: the expression names q, r; pass a dict"),
        ("H_q[X] + H_r[X]", {"q": {"q": [[1, 1], [1, 1]]}}, "q: the expression names a law r"),
        ("H_q[X]", {"q": [1, 1]}, r"q: found shape \(2,\), the joint has \(2, 2\); name its axes"),
        ("H_q[X]", {"q": DiscreteJoint.measure("Y", [1, 1])}, "q: has no variable X, only Y"),
        ("H_q[X]", {"q": DiscreteJoint.measure("X", [1, 1, 1])}, "q: X has 3 outcomes, in the joint 2"),
        ("KL(p || q)", {"q": DiscreteJoint.measure("X", [1, 1])}, "q: is over X, p over X, Y"),
        ("H_q[X]", {"q": [[1, 1], [-1, 1]]}, "q: found -1"),
        ("H(p(X) || q(Y))", {"q": [[1, 1], [1, 1]]}, "Y: q speaks of it and p does not average over it"),
        ("H[X]", {"unit": "trits"}, "unit: found 'trits'; pass 'nats' or 'bits'"),
        ("H[X]", {"errors": "ignore"}, "errors: found 'ignore'; pass 'raise' or 'nan'"),
        ("H[X]", {"labels": [0, 1]}, "labels: they belong to the points of a belief"),
        (3, {}, "expression: found int"),
        (H((Atom("X"),), (Atom("X", True),)), {"at": {"x": 1}}, "X stands both for the variable and for its outcome"),
    ],
)
def test_bad_questions(text, arguments, message):
    with pytest.raises(ValueError, match=message) as caught:
        evaluate(text, JOINT, **arguments)
    assert "\n" not in str(caught.value)


def test_measures_and_strangers_are_no_joints():
    with pytest.raises(ValueError, match="joint: found a measure"):
        evaluate("H[X]", DiscreteJoint.measure("X", [1, 2]))
    with pytest.raises(ValueError, match="joint: found dict; pass a DiscreteJoint"):
        evaluate("H[X]", {"X": 1})


def test_results_carry_name_expansion_and_warnings():
    xor = DiscreteJoint.from_probs("XYZ", [[[0.25, 0], [0, 0.25]], [[0, 0.25], [0.25, 0]]])
    result = evaluate("I[X;Y;Z]", xor)
    assert isinstance(result.value, float)
    assert result.value == pytest.approx(-math.log(2))
    assert result.name == "interaction information"
    assert result.expansion == parse("H[X] - H[X|Y] - H[X|Z] + H[X|Y,Z]")
    assert result.warnings == ("negative interaction: inequalities cannot be read off a diagram of these variables",)
    assert evaluate("I[X;Y]", xor).warnings == ()


def test_no_outcomes_give_no_values():
    for text in ["H[X|y]", "E_{p(x|y)}[H[x]]"]:
        assert evaluate(text, JOINT, at={"y": []}).value.shape == (0,)


def test_constants_and_contents():
    assert value("H(p)", JOINT) == pytest.approx(value("H[X,Y]", JOINT))
    assert value("2 H[X] - H[X] + 1/2 + h(0.25)", DiscreteJoint.from_probs("X", [0.5, 0.5])) == pytest.approx(
        3 * math.log(2) + 0.5
    )


class Written(TorchDispatchMode):
    """Counts the numbers that operations write."""

    numbers = 0

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        found = function(*arguments, **(options or {}))
        self.numbers += found.numel() if isinstance(found, torch.Tensor) else 0
        return found


def test_a_large_table_costs_a_few_passes_over_it():
    joint = joint_of(0, (18, 18, 18, 18), zeros=0.2)
    with Written() as written:
        value("I[A;B;X|Y] + TC[A;B;X;Y]", DiscreteJoint("ABXY", joint.log_p))
    assert joint.log_p.numel() < written.numbers < 100 * joint.log_p.numel()
