import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from made_expressions import Situation, expressions, form_value, quantities, situation, surprisal, value
from natsel.calculus import Determines, DiscreteJoint, Independent, NotReducible, canonical, evaluate, parse
from natsel.calculus.canonical import Key, normalised_key, under_assumptions
from natsel.calculus.counterexamples import random_table
from natsel.calculus.expressions import Atom, H
from natsel.calculus.inequalities import never_negative_terms, sum_of_never_negative

properties = settings(deadline=None)
seeds = st.integers(0, 2**31)


def written(text, **options):
    return {str(key): factor for key, factor in canonical(parse(text), **options).items()}


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("E_{p(x|y)}[H[x]]", {"ε(X; y)": 1}),
        ("H[X]", {"ε(X)": 1}),
        ("H[y]", {"ε(Y; y)": 1}),
        ("H[X,y]", {"ε(X, Y; y)": 1}),
        ("H[X,Y=y|Z,W=w]", {"ε(W, X, Y, Z; w, y)": 1, "ε(W, Z; w, y)": -1}),
        ("H[y|X]", {"ε(X, Y; y)": 1, "ε(X; y)": -1}),
        ("H[x|y]", {"ε(X, Y; x, y)": 1, "ε(Y; y)": -1}),
        ("H[X|X] + H[X,X] - H[X]", {}),
        ("H[Y=0] - H[Y=1] + H[y]", {"ε(Y; Y=0)": 1, "ε(Y; Y=1)": -1, "ε(Y; y)": 1}),
        ("H_q[X|y]", {"ε_{p‖q}(X, Y; y)": 1, "ε_{p‖q}(Y; y)": -1}),
        ("H_p[X]", {"ε(X)": 1}),
        ("KL(q(X)||p(X))", {"ε_{q‖p}(X)": 1, "ε_{q‖q}(X)": -1}),
        ("E_{q(x)}[H[x]]", {"ε_{q‖p}(X)": 1}),
        ("H(p||q)", {"ε_{p‖q}(*)": 1}),
        ("H[Y|x,D]", {"ε(D, X, Y; d, x)": 1, "ε(D, X; d, x)": -1}),
        ("H[Y|D] + H[D]", {"ε(D, Y)": 1}),
        ("2 + h(1/12) - h(6)", {"1": 2, "ln 2": 3, "ln 3": 2}),
        ("E_{p(x)}[3]", {"1": 3}),
        ("E_{p(x)}[H[Y]]", {"ε(Y)": 1}),
        ("E_{p(x)}[H[x,y] - H[y|x]]", {"ε(X)": 1}),
        ("E_{p(x)}[H[x,y]] - 2 E_{p(x)}[1/2 H[y|x]]", {"ε(X)": 1}),
        ("E_{p(x)}[H[X=0]]", {"ε(X; X=0)": 1}),
    ],
)
def test_forms_of_known_quantities(text, form):
    assert written(text) == form


@pytest.mark.parametrize(
    "text",
    [
        "E_{p(x)}[H[x,y]]",  # y is not in the law
        "E_{p(x|y)}[H[Z|x]]",  # the inner law knows x and not y
        "E_{q(x)}[H[Y|x]]",  # the inner law is p
        "H(p(X) || q(X|y))",
        "H(p(X) || q(X,Z))",
        "H(p || q(X))",
        "h(0)",
    ],
)
def test_what_is_no_sum_of_surprisals_says_so(text):
    with pytest.raises(NotReducible, match=r"^expression: .*\S$") as caught:
        canonical(parse(text))
    assert "\n" not in str(caught.value)


def test_a_variable_and_its_outcome_in_one_quantity_are_refused():
    with pytest.raises(ValueError, match="X stands both for the variable and for its outcome x"):
        canonical(H((Atom("X"),), (Atom("X", tied=True),)))


@properties
@given(expressions(models=(None, "q")), seeds)
@example(parse("E_{p(x,y)}[2 H[x] + I[x,y,z;x]] + 2 H[X]"), 0)  # some x, y cannot be where z is
def test_the_form_has_the_value_of_the_expression_where_it_has_one(expression, seed):
    where = situation(seed)
    try:
        form = canonical(expression)
    except NotReducible:
        assume(False)
    assert all(form.values())
    if not math.isnan(expected := value(expression, where)):
        assert form_value(form, where) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("never", [0.0, 1e-12])
def test_what_is_infinite_minus_infinite_has_no_value_though_it_has_a_form(never):
    text, p = "E_{p(x)}[H[x,z] - H[z|x]]", [[0.5 - never, never], [0.0, 0.5]]
    where, joint = Situation(p, ("X", "Z"), {"Z": 1}), DiscreteJoint.from_probs("XZ", p)
    by_hand = math.log(2) if never else math.nan  # at x=0: -ln p(x,z) + ln p(z|x), which is ∞ - ∞ where z never is
    assert value(parse(text), where) == pytest.approx(by_hand, nan_ok=True)
    assert evaluate(text, joint, at={"z": 1}, errors="nan").value == pytest.approx(by_hand, nan_ok=True)
    assert form_value(canonical(parse(text)), where) == pytest.approx(math.log(2))
    alone = parse("E_{p(x)}[H[x,z]]")
    assert value(alone, where) == pytest.approx(evaluate(alone, joint, at={"z": 1}).value)
    assert math.isinf(value(alone, where)) == (not never)


@properties
@given(expressions(models=(None, "q")), seeds)
def test_the_evaluation_agrees_with_the_definitions_wherever_these_give_a_value(expression, seed):
    where = situation(seed)
    joint, at = DiscreteJoint.from_probs(where.names, where.tables["p"]), {n.lower(): o for n, o in where.at.items()}
    if not math.isnan(expected := value(expression, where)):
        found = evaluate(expression, joint, at=at, q={"q": where.tables["q"]}).value
        assert found == pytest.approx(expected, abs=1e-9)


@properties
@given(expressions(depth=2), seeds)
def test_nested_expectations_have_the_value_of_the_expression(expression, seed):
    where = situation(seed, zeros=False)
    try:
        form = canonical(expression)
    except NotReducible:
        assume(False)
    assert form_value(form, where) == pytest.approx(value(expression, where), abs=1e-9)


def keys_over(names):
    subsets = [frozenset(some) for size in range(len(names) + 1) for some in itertools.combinations(names, size)]
    tied = [frozenset((name, None) for name in some) for some in subsets]
    return sorted({normalised_key(Key(inside, ties)) for inside in subsets[1:] for ties in tied}, key=str)


@pytest.mark.parametrize(("names", "count"), [("XYZ", 44), ("WXYZ", 190)])
def test_surprisals_are_linearly_independent(names, count):
    keys = keys_over(names)
    assert len(keys) == count
    where = [situation(seed, tuple(names), zeros=False, sizes=(2,) * len(names)) for seed in range(count + 20)]
    values = np.array([[surprisal(key, each) for key in keys] for each in where])
    assert np.linalg.matrix_rank(values / np.linalg.norm(values, axis=0), tol=1e-8) == count


ASSUMPTIONS = [
    (Determines("X", by="Y"),),
    (Determines("Z", by="X, Y"),),
    (Determines("Z", by="Y"), Determines("Y", by="X")),
    (Independent("X, Y"),),
    (Independent("X, Y", given="Z"),),
    (Independent("X, Y, Z"),),
    (Independent("X, Y"), Determines("Z", by="X, Y")),
    (Independent("X, Z", given="Y"), Determines("Y", by="X")),
]


@pytest.mark.parametrize("assumptions", ASSUMPTIONS, ids=str)
@pytest.mark.parametrize("model", ["p", "q"])
def test_assumptions_keep_the_value_of_every_surprisal(assumptions, model):
    names, rng, done = ("X", "Y", "Z"), np.random.default_rng(7), 0
    changed = set()
    for trial in range(200):
        p = random_table(list(names), (2, 3, 2), assumptions, 84 + trial, rng)
        if p is None:
            continue
        done += 1
        where = situation(trial, names, sizes=(2, 3, 2))
        cells = np.argwhere(p > 0)
        where.tables["p"], where.known = p / p.sum(), {}
        where.at = dict(zip(names, map(int, cells[rng.integers(len(cells))]), strict=True))
        for key in keys_over("XYZ"):
            key = normalised_key(Key(key.inside, key.tied, model))
            form = under_assumptions(key, assumptions)
            assert form_value(form, where) == pytest.approx(surprisal(key, where), abs=1e-9), str(key)
            changed |= {key} if form != {key: 1} else set()
        if done == 4:
            break
    assert done == 4
    assert changed or model == "q"


@pytest.mark.parametrize(
    ("text", "assumption", "form"),
    [
        ("H[r|B]", Determines("R", by="B"), {}),
        ("H[B,r]", Determines("R", by="B"), {"ε(B; r)": 1}),
        ("H[X|b,r]", Determines("R", by="B"), {"ε(B, X; b)": 1, "ε(B; b)": -1}),
        ("I[X;Z|Y]", Independent("X, Z", given="Y"), {}),
        ("I[X;y]", Independent("X, Y"), {}),
        ("H[Y1|omega,y2]", Independent("Y1, Y2", given="Ω"), {"ε(Omega, Y1; omega)": 1, "ε(Omega; omega)": -1}),
        # another variable in the same term may carry what the labels share
        ("I[X;Z|Y,V]", Independent("X, Z", given="Y"), "unchanged"),
        ("H[X|y,z,v]", Independent("X, Z", given="Y"), "unchanged"),
        ("H_q[R|B]", Determines("R", by="B"), "unchanged"),
    ],
)
def test_what_assumptions_leave(text, assumption, form):
    assert written(text, assume=assumption) == (written(text) if form == "unchanged" else form)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Determines("R", by="R"), "of, by: found"),
        (lambda: Determines("", by="R"), "of: found ''"),
        (lambda: Independent("X"), "labels: found"),
        (lambda: Independent("X, Y", given="Y"), "labels: found"),
        (lambda: Independent("X, 3"), "labels: found 'X, 3'"),
    ],
)
def test_assumptions_that_say_nothing_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@properties
@given(st.lists(st.tuples(st.integers(-2, 3), quantities(models=(None, "q"))), min_size=1, max_size=3), seeds)
def test_what_is_never_negative_never_is(terms, seed):
    expression = sum((factor * term for factor, term in terms), start=parse("0"))
    proof = sum_of_never_negative(canonical(expression))
    assume(proof is not None)
    assert value(expression, situation(seed)) >= -1e-9


@properties
@given(st.lists(st.tuples(st.integers(1, 3), st.booleans(), quantities(kinds=("H",))), min_size=1, max_size=3), seeds)
def test_the_terms_of_a_proof_sum_to_the_form(terms, seed):
    expression = sum((factor * term for factor, _, term in terms), start=parse("0"))
    proof = sum_of_never_negative(canonical(expression))
    assert proof is not None  # entropies of discrete variables
    if proof != "a constant":
        assert canonical(parse(proof)) == canonical(expression)


def test_every_term_of_a_proof_is_never_negative_and_what_it_is_called():
    for text in ("H_q[X,y,z] + H[Z]", "KL(q(X|y)||p(X|y)) + H[Y=0]"):
        where = [situation(seed, zeros="KL(q" not in text) for seed in range(12)]
        for each in where:
            each.at["Y"] = 0
        where = [each for each in where if each.mass("p", each.at) > 0]
        assert len(where) >= 6
        found = list(never_negative_terms(canonical(parse(text))))
        assert len(found) > 30
        for term in found:
            assert canonical(parse(term.text)) == term.form
            for each in where:
                assert form_value(term.form, each) >= -1e-9, term.text


def test_more_than_five_variables_are_left_open():
    six = canonical(parse("I[A,B,C;U,V,W]"))
    assert sum_of_never_negative(six) is None
    assert sum_of_never_negative(canonical(parse("I[A,B,C;U,V]"))) is not None


def test_constants_count_in_inequalities():
    assert sum_of_never_negative({Key(): Fraction(1), Key(prime=2): Fraction(-1)}) == "a constant"
    assert sum_of_never_negative({Key(): Fraction(1, 2), Key(prime=2): Fraction(-1)}) is None
    assert sum_of_never_negative(canonical(parse("I[X;Y] + h(1/2)"))) == "I[X; Y]"
    assert math.isclose(value(parse("h(1/2)"), situation(0)), math.log(2))
