import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from made_expressions import expressions, situation, value
from natsel.calculus import chain, equal, expand, parse

properties = settings(deadline=None)


@pytest.mark.parametrize(
    ("text", "chained"),
    [
        ("H[X,Y|Z]", "H[X|Z] + H[Y|X,Z]"),
        ("H[X,Y,Z]", "H[X] + H[Y|X] + H[Z|X,Y]"),
        ("H[X,y]", "H[y] + H[X|y]"),
        ("H[X,y|Z]", "H[y|Z] + H[X|y,Z]"),
        ("H[x,y|z]", "H[x|z] + H[y|x,z]"),
        ("H[X,y1,y2|Z]", "H[y1,y2|Z] + H[X|y1,y2,Z]"),
        ("H_q[X,Y]", "H_q[X] + H_q[Y|X]"),
        ("I[X;Y1,Y2|Z]", "I[X;Y1|Z] + I[X;Y2|Y1,Z]"),
        ("I[X;y1,y2]", "I[X;y1] + I[X;y2|y1]"),
        ("I[x;y1,y2]", "I[x;y1] + I[x;y2|y1]"),
        ("I[X1,X2;y]", "I[X1;y] + I[X2;y|X1]"),
        ("I[y;X1,X2]", "I[y;X1] + I[y;X2|X1]"),
        ("I[y1,y2;x]", "I[y1;x] + I[y2;x|y1]"),
        ("I[X;Y;Z1,Z2]", "I[X;Y;Z1] + I[X;Y;Z2|Z1]"),
        ("TC[Y1;Y2;Y3]", "I[Y1;Y2] + I[Y1,Y2;Y3]"),
        ("TC[x;Y]", "I[Y;x]"),
        ("KL(p(X,Y|z) || q(X,Y|z))", "KL(p(X|z) || q(X|z)) + KL(p(Y|X,z) || q(Y|X,z))"),
        ("H(r(X,Y) || q(X,Y))", "H(r(X) || q(X)) + H(r(Y|X) || q(Y|X))"),
        ("H[Z] - 2 H[X,Y] + H[X,Z]", "H[Z] - 2 H[X] - 2 H[Y|X] + H[X,Z]"),
        ("I[y1,y2;X] + H[X,Y]", "I[y1,y2;X] + H[X] + H[Y|X]"),
        ("E_{p(x|y)}[H[x,Z]]", "E_{p(x|y)}[H[x] + H[Z|x]]"),
        ("E_{p(x)}[H[x,y] + H[y,Z]]", "E_{p(x)}[H[x] + H[y|x] + H[y,Z]]"),
    ],
)
def test_chain_rules(text, chained):
    assert str(chain(parse(text))) == str(parse(chained))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("I[y1,y2;X]", r"chain: I\[y1, y2; X\] is a surprise, .* the information gain I\[X; y1, y2\] does"),
        ("H[x,y|Z]", r"chain: H\[x, y \| Z\] mixes variables and outcomes"),
        ("H[X] + I[X;Y]", "has no quantity with more than one variable to chain"),
        ("3", "has no quantity with more than one variable to chain"),
    ],
)
def test_what_does_not_chain_is_refused_in_a_sentence(text, message):
    with pytest.raises(ValueError, match=message):
        chain(parse(text))


@properties
@given(expressions(names=("X", "Y", "Z"), models=(None, "q")), st.integers(0, 2**31))
def test_a_chained_expression_is_the_same_quantity(expression, seed):
    try:
        chained = chain(expression)
    except ValueError:
        assume(False)
    assert chained != expression
    where = situation(seed, zeros=False)
    assert value(chained, where) == pytest.approx(value(expression, where), abs=1e-9)
    assert equal(chained, expression, trials=1)


@properties
@given(expressions(models=(None, "q")), st.integers(0, 2**31))
def test_an_expanded_expression_is_the_same_quantity(expression, seed):
    expanded, where = expand(expression), situation(seed, zeros=False)
    assert value(expanded, where) == pytest.approx(value(expression, where), abs=1e-9)
    assert not any(head in str(expanded) for head in ("I[", "TC[", "I_q[", "TC_q["))


def test_chaining_again_and_again_ends_with_single_variables():
    expression, steps = parse("I[X1,X2;Y1,Y2,Y3|z]"), 0
    while steps < 20:
        try:
            expression, steps = chain(expression), steps + 1
        except ValueError:
            break
    assert steps == 1 + 3
    assert equal(expression, "I[X1,X2;Y1,Y2,Y3|z]")
    assert len(expression.terms) == 6
