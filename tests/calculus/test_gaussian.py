import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from natsel.calculus import ALL, GaussianJoint, canonical, evaluate, parse
from natsel.information import gaussian_expected_surprisal, gaussian_mutual_information

properties = settings(deadline=None, max_examples=30)
seeds = st.integers(0, 2**31)


def joint_of(seed, size=4):
    generator = np.random.default_rng(seed)
    root = generator.normal(size=(size, size + 1))
    return GaussianJoint(generator.normal(size=size), root @ root.T, "ABXY"[:size])


def value(text, joint, **arguments):
    return evaluate(text, joint, **arguments).value


AT = {"a": 0.3, "b": -1.0, "x": 0.7, "y": 2.0}


@properties
@given(seed=seeds)
def test_chain_rules(seed):
    joint = joint_of(seed)
    for left, right in [
        ("H[A,B,X]", "H[A] + H[B|A] + H[X|A,B]"),
        ("H[A,y]", "H[y] + H[A|y]"),
        ("H[a,y]", "H[a] + H[y|a]"),
        ("I[A;x,y]", "I[A;x] + I[A;y|x]"),
        ("I[A,B;y]", "I[A;y] + I[B;y|A]"),
        ("I[y;A,B]", "I[y;A] + I[y;B|A]"),
        ("I[y;A]", "KL(p(A|y) || p(A))"),
        ("I[y;A]", "E_{p(a|y)}[I[y;a]]"),
        ("E_{p(y)}[I[A;y]]", "I[A;Y]"),
        ("E_{p(y)}[I[y;A|B]]", "I[A;Y|B]"),
        ("E_{p(a,y)}[I[a;y|b]]", "E_{p(a,y)}[H[a|b] - H[a|b,y]]"),
        ("I[A;B]", "KL(p(A,B) || p(A) p(B))"),
    ]:
        assert value(left, joint, at=AT) == pytest.approx(value(right, joint, at=AT), abs=1e-8), left


@properties
@given(seed=seeds)
def test_terms_are_differences_of_expected_surprisals(seed):
    joint = joint_of(seed)
    for text in ["H[A,y|B,x]", "I[A;y|B]", "I[y;A|B,x]", "H[y|A,B]", "E_{p(a|y)}[H[a,y]]", "TC[A;B;y]"]:
        expected = 0.0
        for key, factor in canonical(parse(text)).items():
            inside = [joint.names.index(name) for name in sorted(key.inside)]
            tied = {joint.names.index(name): AT[name.lower()] for name in key.tied_names}
            expected += float(factor) * float(gaussian_expected_surprisal(joint.mean, joint.cov, inside, tied))
        assert value(text, joint, at=AT) == pytest.approx(expected, abs=1e-8)


@properties
@given(seed=seeds)
def test_mutual_information_is_that_of_canonical_correlations(seed):
    joint = joint_of(seed)
    expected = float(gaussian_mutual_information(joint.cov, [0, 1], [2, 3]))
    assert value("I[A,B;X,Y]", joint) == pytest.approx(expected, abs=1e-8)


def test_two_correlated_variables():
    for rho in (-0.9, 0.0, 0.5, 0.999):
        joint = GaussianJoint([1.0, -3.0], [[4.0, 2 * rho], [2 * rho, 1.0]], "XY")
        assert value("I[X;Y]", joint) == pytest.approx(-0.5 * math.log(1 - rho**2), abs=1e-10)


def test_the_gain_about_a_mean_is_the_same_for_every_outcome():
    joint = GaussianJoint([0.0, 0.0], [[2.0, 2.0], [2.0, 2.5]], ["Mu", "Y"])
    found = value("I[Mu;y]", joint, at={"y": [-10.0, 0.0, 0.1, 3.0]})
    assert found.tolist() == pytest.approx([0.5 * math.log(2.5 / 0.5)] * 4)
    surprise = value("I[y;Mu]", joint, at={"y": torch.tensor([-10.0, 0.0, 0.1, 3.0])})
    assert surprise.min() > 0
    assert surprise.argmax() == 0


def test_an_average_that_symbols_cannot_reduce_is_a_number():
    joint = joint_of(3, 2)
    generator = np.random.default_rng(0)
    mean, deviation = float(joint.mean[0]), float(joint.cov[0, 0].sqrt())
    draws = mean + deviation * generator.standard_normal(200_000)
    found = value("E_{p(a)}[H[a,b]]", joint, at={"b": 0.4})
    sampled = value("H[a,b]", joint, at={"a": draws, "b": 0.4})
    assert found == pytest.approx(float(sampled.mean()), abs=5 * float(sampled.std()) / math.sqrt(len(draws)))
    # The inner a is another one than the outer a, and is drawn given the outer b.
    nested = value("E_{p(b)}[E_{p(a|b)}[H[a] + H[b|a]]]", joint)
    assert nested == pytest.approx(value("H[A,B]", joint))
    assert value("E_{p(a|b)}[E_{p(a)}[H[a]]]", joint, at={"b": 9.0}) == pytest.approx(value("H[A]", joint))


def test_models():
    p, q = GaussianJoint([0.0], [[1.0]], "X"), GaussianJoint([1.0], [[4.0]], "X")
    kl = math.log(2) + (1 + 1) / 8 - 0.5
    assert value("KL(p || q)", p, q=q) == pytest.approx(kl)
    assert value("H_q[X] - H[X]", p, q={"q": q}) == pytest.approx(kl)
    assert value("KL(q(X) || p(X))", p, q=q) == pytest.approx(-math.log(2) + (4 + 1) / 2 - 0.5)
    assert value("H_q[X=3]", p, q=q) == pytest.approx(0.5 * math.log(2 * math.pi * 4) + 4 / 8)


def test_laws_may_be_tied_to_different_outcomes():
    joint = GaussianJoint([0.0, 0.0], [[1.0, 0.5], [0.5, 1.0]], "XY")
    assert value("KL(p(X|Y=0) || p(X|Y=2))", joint) == pytest.approx(1.0**2 / (2 * 0.75))
    assert value("KL(p(X|y) || p(X|Y=2))", joint, at={"y": [0.0, 2.0]}).tolist() == pytest.approx([1 / 1.5, 0.0])


def test_units_and_constants():
    joint = GaussianJoint([0.0], [[1.0]], "X")
    entropy = 0.5 * math.log(2 * math.pi * math.e)
    assert value("H[X] + 1 + h(1/2)", joint) == pytest.approx(entropy + 1 + math.log(2))
    assert value("H[X]", joint, unit="bits") == pytest.approx(entropy / math.log(2))
    assert value("H[X]", GaussianJoint([0.0], [[1e-20]], "X")) < 0


def test_what_is_known_has_entropy_minus_infinity():
    joint = joint_of(0, 2)
    assert value("H[A|A]", joint) == -math.inf
    assert value("I[A;A]", joint) == math.inf
    with pytest.raises(ValueError, match="inf - inf"):
        value("I[A;A] - I[B;B]", joint)
    assert math.isnan(value("I[A;A] - I[B;B]", joint, errors="nan"))


JOINT = joint_of(0, 2)


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("H[Z]", {}, "Z: no such variable; the joint has A, B"),
        ("H[A]", {"at": {"z": 1}}, "Z: no such variable"),
        ("H[A|b]", {}, "at: b has no outcome"),
        ("H[A|b]", {"at": {"b": ALL}}, "at: found ALL for b; B is continuous, pass numbers"),
        ("H[A|B=cat]", {}, "at: found 'cat' for b; B is continuous"),
        ("H[A|b]", {"at": {"b": math.nan}}, "at: found nan for b; pass a finite number"),
        ("H[a|b]", {"at": {"a": [0.0], "b": [1.0, 2.0]}}, r"at: found \[1, 2\] outcomes; give as many"),
        ("H_q[A]", {"q": [1.0]}, "q: found list; beside a GaussianJoint pass another one"),
        ("H(p(A) || p(B))", {}, "B: p speaks of it and p does not average over it"),
        ("H[A]", {"labels": [1]}, "labels: they belong to the points of a belief"),
    ],
)
def test_bad_questions(text, arguments, message):
    with pytest.raises(ValueError, match=message):
        evaluate(text, JOINT, **arguments)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GaussianJoint([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]], "X"), "names: found 1 .X. for 2 variables"),
        (lambda: GaussianJoint([0.0], [[1.0, 0.0], [0.0, 1.0]], "X"), "cov: found shapes"),
        (
            lambda: GaussianJoint([0.0, 0.0], [[1.0, 0.5], [0.0, 1.0]], "XY"),
            "cov: found a matrix that is not symmetric",
        ),
        (lambda: GaussianJoint([0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]], "XY"), "cov: found a negative eigenvalue"),
        (lambda: GaussianJoint([0.0], [[0.0]], "X"), "cov: found a variance of X that is not positive"),
        (lambda: GaussianJoint([math.nan], [[1.0]], "X"), "cov: found NaN"),
        (lambda: value("H[X,Y]", GaussianJoint([0.0, 0.0], [[1.0, 1.0], [1.0, 1.0]], "XY")), "cov: singular over X, Y"),
    ],
)
def test_bad_joints(make, message):
    with pytest.raises(ValueError, match=message):
        make()
