import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from made_expressions import Situation, expressions, quantities, situation, value
from natsel.calculus import (
    Determines,
    GaussianJoint,
    Independent,
    NotReducible,
    Verdict,
    canonical,
    equal,
    evaluate,
    parse,
    parse_statement,
    verify,
)
from natsel.calculus.expressions import Statement

properties = settings(deadline=None)
seeds = st.integers(0, 2**31)
SIGNS = {"=": lambda off: abs(off), "<=": lambda off: off, ">=": lambda off: -off}

# docs/theory/information-quantities.md, 2 to 6 and 11.
TRUE = """
I[X;Y] = I[Y;X]
I[x;y] = I[y;x]
I[x;y|z] = I[y;x|z]
I[X;Y] = D(p(X,Y)||p(X)p(Y))
H[X,Y] = H[X] + H[Y|X]
H[X,y] = H[y] + H[X|y]
H[x,y] = H[x] + H[y|x]
H[X,Y|Z] = H[X|Z] + H[Y|X,Z]
H[y|X] = H[X,y] - E_{p(x|y)}[H[x]]
E_{p(x)}H[x,Y] = H[X,Y]
E_{p(y)}H[X,y] = H[X,Y]
E_{p(y)}I[X;y] = I[X;Y]
E_{p(y)}I[y;X] = I[X;Y]
E_{p(x,y)}I[x;y] = I[X;Y]
I[X;y1,y2] = I[X;y1] + I[X;y2|y1]
I[x;y1,y2] = I[x;y1] + I[x;y2|y1]
I[X;Y1,Y2] = I[X;Y1] + I[X;Y2|Y1]
I[X1,X2;y] = I[X1;y] + I[X2;y|X1]
I[y;X1,X2] = I[y;X1] + I[y;X2|X1]
I[y;X] = E_{p(x|y)}[I[y;x]]
I[y;X] = E_{p(x|y)}[H[x]] - H[X|y]
I[y;X] = D(p(X|y)||p(X))
I[X;y] - I[y;X] = H[X] - E_{p(x|y)}[H[x]]
I[X;Y;z] = I[X;Y] - I[X;Y|z]
I[X;Y;z] = I[X;z;Y]
I[X;Y;z] = I[Y;X;z]
I[z;X;Y] = I[z;Y;X]
E_{p(z)}I[X;Y;z] = I[X;Y;Z]
E_{p(z)}I[z;X;Y] = I[X;Y;Z]
TC[Y1;Y2] = I[Y1;Y2]
TC[Y1;Y2;Y3] = I[Y1;Y2] + I[Y1,Y2;Y3]
D(p(X|Y)||q(X|Y)) - D(p(X,Y)||q(X|Y)) = H[Y]
D(p(X|Y)||q(X|Y)) = H(p(X,Y)||q(X|Y)) - H[X|Y]
H_q[X,Y] = H_q[X] + H_q[Y|X]
H(p||q) = KL(p||q) + H(p)
I[Y;Omega|x,D] = H[Y|x,D] - H[Y|x,Omega,D]
I[Y;Ω|x,D_train] = E_{p(ω|x,D_train)}[KL(p(Y|x,ω,D_train)||p(Y|x,D_train))]
H[X,X] = H[X]
I[X;X] = H[X]
H[X|X] = 0
h(1/6) = h(1/2) + h(1/3)
""".strip().splitlines()

FALSE = """
I[X;y] = I[y;X]
I[y1,y2;X] = I[y1;X] + I[y2;X|y1]
H[y|X] = H[X,y] - H[X]
I[X;Y1,Y2] = I[X;Y1] + I[X;Y1|Y2]
I[z;X;Y] = I[X;Y;z]
I[x;y|Z] = I[y;x|Z]
TC[Y1;Y2;Y3] = I[Y1;Y2;Y3]
I[X;y] >= 0
I[X;Y;Z] >= 0
H[X|y] <= H[X]
H[Y=0] = H[Y=1]
H[Y="cat"] = H[Y="dog"]
H[Y=100] = H[Y=0.5]
E_{p(x)}[H[x,y]] = H[X,y]
I[x;y] >= 0
I[X;Z] <= I[X;Y]
H_q[X] = H[X]
KL(p(X,Y)||q(X|Y)) >= 0
E_{p(x,z|y)}[I[x;z]] >= 0
H(p||p) = H[X,Y]
H[X] = H[X] + 1
H[X] <= 1/2
TC[Y1;Y2;Y3] = I[Y1;Ω] + I[Y2;Ω] + I[Y3;Ω] - I[Y1,Y2,Y3;Ω]
1 = 2
""".strip().splitlines()

NEVER_NEGATIVE = """
I[X;Y] >= 0
I[X;Y|z] >= 0
H[X] >= H[X|Y]
H[X] >= 0
I[X;Y] <= H[X]
I[X;Y] <= H[Y]
I[y;X] >= 0
H[y] >= H[y|X]
E_{p(x|y)}[H[x]] >= H[X|y]
H[y|X] >= 0
I[y;X] <= H[y]
I[y;X] <= E_{p(x|y)}[H[x]]
I[X;y] <= H[X]
KL(p(X|Y)||q(X|Y)) >= 0
KL(q(X)||p(X)) >= 0
KL(p||q) >= 0
H(p(X)||q(X)) >= H(p(X))
TC[A;B;C;D] >= 0
2 H[A,B,C] <= H[A,B] + H[B,C] + H[A,C]
I[A;B;C] <= I[A;B]
-I[A;B|C] <= I[A;B;C]
h(1/2) <= 1
""".strip().splitlines()


def brute(statement, found):
    """Both sides on a counter-example, from the definitions."""
    joint = found.joint
    at = {name[0].upper() + name[1:]: joint.place(name[0].upper() + name[1:], at) for name, at in found.at.items()}
    models = {name: table.log_p.exp().numpy() for name, table in found.q.items()}
    where = Situation(joint.log_p.exp().numpy(), joint.names, at, models)
    return value(statement.left, where), value(statement.right, where)


@pytest.mark.parametrize("text", TRUE)
def test_true_identities_are_proved(text):
    verdict = verify(text)
    assert verdict
    assert verdict.verdict == "proved"
    assert verdict.counterexample is None
    assert verdict.reason.startswith("since ")


@pytest.mark.parametrize("text", FALSE)
def test_false_statements_are_refuted_by_a_small_distribution(text):
    verdict = verify(text)
    assert not verdict
    assert verdict.verdict == "refuted"
    found = verdict.counterexample
    assert SIGNS[verdict.statement.relation](found.left - found.right) > 0.01
    p = found.joint.log_p.exp().flatten()
    assert int((p > 0).sum()) <= 4
    assert all(abs(Fraction(float(each)).limit_denominator(10) - each) < 1e-12 for each in p.tolist())
    for side, number in ((verdict.statement.left, found.left), (verdict.statement.right, found.right)):
        at = {name: outcome for name, outcome in found.at.items() if name in str(side)}
        again = evaluate(side, found.joint, at=at, q=found.q or None).value
        assert again == pytest.approx(number, abs=1e-12)


@pytest.mark.parametrize("text", [text for text in FALSE if not any(odd in text for odd in ('"', "=100", "p||p"))])
def test_counter_examples_hold_by_the_definitions(text):
    verdict = verify(text)
    assert brute(verdict.statement, verdict.counterexample) == pytest.approx(
        (verdict.counterexample.left, verdict.counterexample.right), abs=1e-12
    )


@pytest.mark.parametrize("text", NEVER_NEGATIVE)
def test_inequalities_are_proved(text):
    verdict = verify(text)
    assert verdict.verdict == "proved"
    left, right = verdict.statement.left, verdict.statement.right
    turned = ">=" if verdict.statement.relation == "<=" else "<="
    assert verify(Statement(right, turned, left))
    for seed in range(20):
        if "||q)" in text or "D" in text:
            break  # laws over everything, and a fourth variable, have no place on these tables
        where = situation(seed, ("X", "Y", "A", "B", "C") if "A" in text else ("X", "Y", "Z"))
        off = value(left, where) - value(right, where)
        assert SIGNS[verdict.statement.relation](off) <= 1e-9


@pytest.mark.parametrize("text", [t for t in NEVER_NEGATIVE if "h(" not in t])
def test_what_is_proved_one_way_is_refuted_the_other(text):
    statement = parse_statement(text)
    other = ">=" if statement.relation == "<=" else "<="
    assert verify(Statement(statement.left, other, statement.right)).verdict == "refuted"


LABELS = Independent("Y1,Y2,Y3", given="Omega")


@pytest.mark.parametrize(
    ("text", "assumption"),
    [
        ("TC[Y1;Y2;Y3] = I[Y1;Ω] + I[Y2;Ω] + I[Y3;Ω] - I[Y1,Y2,Y3;Ω]", LABELS),
        ("H[Y1,Y2,Y3|Ω] = H[Y1|Ω] + H[Y2|Ω] + H[Y3|Ω]", LABELS),
        ("I[Y1,Y2;Ω] <= I[Y1;Ω] + I[Y2;Ω]", LABELS),
        ("H[Y1|ω,y2] = H[Y1|ω]", LABELS),
        ("I[X;Z|Y] = 0", Independent("X,Z", given="Y")),
        ("I[X;Z] <= I[X;Y]", Independent("X,Z", given="Y")),
        ("I[X;Y;Z] >= 0", Independent("X,Z", given="Y")),
        ("I[X;y] = 0", Independent("X,Y")),
        ("H[B,r] = E_{p(b|r)}[H[b]]", Determines("R", by="B")),
        ("H[r|B] = 0", Determines("R", by="B")),
        ("H[B|r] <= E_{p(b|r)}[H[b]]", Determines("R", by="B")),
        ("H[R] <= H[B]", [Determines("R", by="B")]),
    ],
)
def test_what_assumptions_prove_fails_without_them(text, assumption):
    assert verify(text, assume=assumption)
    assert verify(text).verdict == ("refuted" if "H[B|r]" not in text else "proved")


@pytest.mark.parametrize(
    ("text", "assumption"),
    [
        ("I[Y1;Y2;Y3;Ω] >= 0", LABELS),  # negative atoms even so: Y3 = Y1 xor Y2
        ("I[Y1;Y2] = 0", LABELS),
        ("H[R] = H[B]", Determines("R", by="B")),
        ("I[X;Z|Y,V] = 0", Independent("X,Z", given="Y")),
        ("I[X;Y|Z] = 0", Independent("X,Y")),
        ("H[X|y,z] = H[X|y]", Independent("X,Z")),
        ("I[A;C] = 0", [Independent("A,C", given="B"), Independent("B,E", given="C")]),
        ("H[S] = 0", [Determines("R", by="B"), Determines("S", by="R")]),
    ],
)
def test_counter_examples_keep_to_the_assumptions(text, assumption):
    verdict = verify(text, assume=assumption)
    assert verdict.verdict == "refuted"
    joint = verdict.counterexample.joint
    assumptions = assumption if isinstance(assumption, list) else [assumption]
    for each in assumptions:
        if isinstance(each, Determines):
            off = evaluate(f"H[{','.join(each.of)}|{','.join(each.by)}]", joint).value
        else:
            given = f"|{','.join(each.given)}" if each.given else ""
            off = evaluate(f"TC[{';'.join(each.labels)}{given}]", joint).value
        assert abs(off) < 1e-9


def test_what_cannot_be_decided_is_open():
    verdict = verify("E_{p(x)}[H[x,y]] >= H[X]", trials=20)  # true, but no sum of surprisals
    assert verdict.verdict == "open"
    assert not verdict
    assert str(verdict) == (
        "open: E_{p(x)}[H[x, y]] >= H[X], since no proof was found and no counter-example in 20 trials"
    )
    assert verify("E_{p(r|b)}[H[r]] = H[r]", assume=Determines("R", by="B"), trials=20).verdict == "open"


def test_expectations_under_one_law_are_compared_inside():
    assert equal("E_{p(x)}[H[x,y]]", "E_{p(x)}[H[y|x] + H[x]]")


def test_different_means_not_the_same_quantity():
    different = verify("I[X;y] != I[y;X]")
    assert different.verdict == "proved"
    assert abs(different.counterexample.left - different.counterexample.right) > 0.01
    assert verify("I[X;Y] != I[Y;X]").verdict == "refuted"
    assert verify("E_{p(r|b)}[H[r]] != H[r]", assume=Determines("R", by="B"), trials=20).verdict == "open"


def test_densities_have_no_signs():
    for text in ("I[X;y] <= H[X]", "H[X] >= 0", "H[X,y] = H[X] + H[y|X]"):
        verdict = verify(text, discrete=False)
        assert verdict.verdict == "refuted"
        assert isinstance(verdict.counterexample.joint, GaussianJoint)
        assert "is normal with mean 0 and covariance [" in str(verdict)
    for text in ("I[X;Y] >= 0", "I[y;X] >= 0", "H[X,y] = H[y] + H[X|y]", "KL(p(X|y)||p(X)) >= 0"):
        assert verify(text, discrete=False)
    assert verify("H[X|X] = 0", discrete=False, trials=5).verdict == "open"
    with pytest.raises(ValueError, match="discrete: variables with densities allow neither"):
        verify("H[X] = 0", discrete=False, assume=Independent("X,Y"))
    with pytest.raises(ValueError, match="discrete: variables with densities allow neither"):
        verify("H_q[X] = 0", discrete=False)


def test_verdicts_are_written_out():
    assert str(equal("H[y|X]", "H[X,y] - H[X]")) == (
        "refuted: H[y | X] = H[X, y] - H[X], since there is a counter-example: left 0, right -0.231049, y=0, where\n"
        "  p(Y=0, X=0) = 2/3\n"
        "  p(Y=1, X=1) = 1/3"
    )
    assert str(verify("TC[A;B;C] >= 0")) == (
        "proved: TC[A; B; C] >= 0, since the difference is I[A; B, C] + I[B; C], which is never negative"
    )
    assert str(verify("2 H[X|Y] + 3 = H[X,Y] - H[Y] + 3 + H[X|Y]")).endswith("both sides are 2 ε(X, Y) - 2 ε(Y) + 3")
    assert "\n  q(" in str(verify("H_q[X] = H[X]"))


def test_the_same_seed_gives_the_same_counter_example():
    one, two = (verify("I[X;Y;Z] >= 0", seed=3).counterexample for _ in range(2))
    assert np.array_equal(one.joint.log_p, two.joint.log_p)
    others = [verify("I[X;Y;Z] >= 0", seed=seed).counterexample.joint.log_p for seed in range(5)]
    assert any(not np.array_equal(one.joint.log_p, other) for other in others)


def test_texts_expressions_and_statements_are_all_taken():
    assert equal(parse("I[X;Y]"), "I[Y;X]")
    assert verify(Statement(parse("I[X;Y]"), "=", parse("I[Y;X]")))
    assert isinstance(equal("H[X]", "H[X]"), Verdict)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: verify("H[X]"), r"statement: found H\[X\], which states nothing; write =, <=, >= or != between"),
        (lambda: verify("H[X] = 0", trials=0), "trials: found 0; allow one trial or more"),
        (lambda: equal("H[X", "H[X]"), "column 4"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@properties
@given(expressions(), expressions(), seeds)
def test_every_equality_of_quantities_is_decided_and_rightly_so(left, right, seed):
    try:
        forms = canonical(left), canonical(right)
    except NotReducible:
        return
    verdict = equal(left, right, trials=200)
    where = situation(seed)
    assert verdict.verdict == ("proved" if forms[0] == forms[1] else "refuted")
    if verdict:
        sides = value(left, where), value(right, where)
        assert any(map(math.isnan, sides)) or sides[0] == pytest.approx(sides[1], abs=1e-9)
    else:
        found = verdict.counterexample
        for side, shown in zip(brute(verdict.statement, found), (found.left, found.right), strict=True):
            assert math.isnan(side) or side == pytest.approx(
                shown, abs=1e-9
            )  # by the definition, where it gives a value
        assert not math.isclose(found.left, found.right, abs_tol=1e-9)


@properties
@given(st.lists(st.tuples(st.sampled_from([-1, 1, 2]), quantities()), min_size=1, max_size=3), seeds)
def test_proved_inequalities_hold_and_refuted_ones_fail(terms, seed):
    expression = sum((factor * term for factor, term in terms), start=parse("0"))
    verdict = verify(Statement(expression, ">=", parse("0")), trials=100)
    if verdict:
        assert value(expression, situation(seed)) >= -1e-9
    elif verdict.verdict == "refuted":
        assert brute(verdict.statement, verdict.counterexample)[0] < 0
