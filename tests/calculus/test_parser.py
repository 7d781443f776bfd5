import pickle
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from made_expressions import expressions
from natsel.calculus import TC, H, I, ParseError, name_of, parse, parse_statement
from natsel.calculus.expressions import (
    KL,
    Atom,
    Content,
    CrossEntropy,
    Expectation,
    Law,
    Number,
    Statement,
    Sum,
    conflict_between,
    group,
    sum_of_terms,
)
from natsel.calculus.formatting import latex, plain

properties = settings(deadline=None)
X, Y, Z = (Atom(name) for name in "XYZ")
x, y, z = (Atom(name, tied=True) for name in "XYZ")
OMEGA = Atom("Omega")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("H[X, y | Z]", H((X, y), (Z,))),
        ("I[X; Y; z | W]", I(((X,), (Y,), (z,)), (Atom("W"),))),
        ("TC[X;Y,Z]", TC(((X,), (Y, Z)))),
        ("I[Y;Omega|x,D]", I(((Y,), (OMEGA,)), (x, Atom("D")))),
        ("H[Y_acq, y_acq2]", H((Atom("Y_acq"), Atom("Y_acq2", tied=True)))),
        ("H[X,X]", H((X,))),
        ("H[X, Y=y | Z=z]", H((X, y), (z,))),
        ("H[Y=3]", H((Atom("Y", True, 3),))),
        ("H[y=-2]", H((Atom("Y", True, -2),))),
        ("H[Y=0.5]", H((Atom("Y", True, 0.5),))),
        ("H[Y=cat]", H((Atom("Y", True, "cat"),))),
        (r'H[Y="a \" \\ cat"]', H((Atom("Y", True, r'a " \ cat'),))),
        ("H[Y='y']", H((Atom("Y", True, "y"),))),
        ("H_q[X|Y]", H((X,), (Y,), "q")),
        ("H_{q}[X]", H((X,), (), "q")),
        ("H_{p||q}[X]", H((X,), (), "q")),
        ("H_{r||q}[X|y]", CrossEntropy(Law("r", (X,), (y,)), Law("q", (X,), (y,)))),
        ("I_q[X;Y]", I(((X,), (Y,)), (), "q")),
        ("TC_{p||q}[X;Y]", TC(((X,), (Y,)), (), "q")),
        ("H(p || q)", CrossEntropy(Law("p"), Law("q"))),
        ("H(p(X|y) ‖ q(X))", CrossEntropy(Law("p", (X,), (y,)), Law("q", (X,)))),
        ("H(p(X))", H((X,))),
        ("H(p(X|Y))", H((X,), (Y,))),
        ("H(p)", CrossEntropy(Law("p"), Law("p"))),
        ("H(q(X))", CrossEntropy(Law("q", (X,)), Law("q", (X,)))),
        ("KL(p(X) || q(X))", KL(Law("p", (X,)), Law("q", (X,)))),
        ("E_{p(x|y)}[H[x]]", Expectation(Law("p", (x,), (y,)), H((x,)))),
        ("E_{p(X|y)}[H[x]]", Expectation(Law("p", (x,), (y,)), H((x,)))),
        ("E_{p(x|D)}[1]", Expectation(Law("p", (x,), (Atom("D"),)), Number(Fraction(1)))),
        ("h(0.5)", Content(Fraction(1, 2))),
        ("h(1/2 + 1/4)", Content(Fraction(3, 4))),
        ("-H[X]", Sum(((Fraction(-1), H((X,))),))),
        ("--H[X]", H((X,))),
        ("2 H[X] - 1/3 H[Y]", Sum(((Fraction(2), H((X,))), (Fraction(-1, 3), H((Y,)))))),
        ("2 (H[X] + 1)", Sum(((Fraction(2), H((X,))), (Fraction(1), Number(Fraction(2)))))),
        ("(H[X] - (H[Y] - 1)) / 2", (H((X,)) - H((Y,)) + 1) * Fraction(1, 2)),
        ("(1 + 2) H[X] * 2", 6 * H((X,))),
        ("1e-2 - .5", Sum(((Fraction(1), Number(Fraction(1, 100))), (Fraction(1), Number(Fraction(-1, 2)))))),
    ],
)
def test_texts_and_what_they_write(text, expected):
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("I[Y₁;Ω|x]", "I[Y1;Omega|x]"),
        ("H[ω, θ₁₂]", "H[omega, theta12]"),
        ("H[\u2126]", "H[Omega]"),
        ("H[X] − H[Y]", "H[X] - H[Y]"),
        ("2·H[X]", "2 * H[X]"),
        ("2×H[X]", "2H[X]"),
        ("H[X]*2", "2 H[X]"),
        ("H[X]/2", "1/2 H[X]"),
        ("H(p ∥ q)", "H(p || q)"),
        ("H[X∣Y]", "H[X|Y]"),
        ("D(p ‖ q)", "KL(p || q)"),
        ("D_KL(p || q)", "KL(p || q)"),
        ("D_{KL}(p || q)", "KL(p || q)"),
        ("E_p(x|y)[H[x]]", "E_{p(x|y)}[H[x]]"),
        ("E_{p(x)}H[x,Y]", "E_{p(x)}[H[x,Y]]"),
        ("𝔼_{p(x)}[H[x]]", "E_{p(x)}[H[x]]"),
        ("H_θ[X]", "H_theta[X]"),
        (" H [ X , y | Z ]\n", "H[X,y|Z]"),
        ("KL(p(X,Y) || p(X) p(Y))", "H(p(X,Y) || p(X)) + H(p(X,Y) || p(Y)) - H[X,Y]"),
        ("H(p(X) || q(X)·r(X))", "H(p(X) || q(X)) + H(p(X) || r(X))"),
        ("KL(q || p*r)", "H(q || p) + H(q || r) - H(q || q)"),
    ],
)
def test_two_spellings_of_one_expression(one, other):
    assert parse(one) == parse(other)


@pytest.mark.parametrize(
    ("text", "relation"),
    [("= ", "="), ("==", "="), ("<=", "<="), ("≤", "<="), (">=", ">="), ("≥", ">="), ("!=", "!="), ("≠", "!=")],
)
def test_relations(text, relation):
    assert parse_statement(f"H[X=1]{text}0") == Statement(H((Atom("X", True, 1),)), relation, Number(Fraction(0)))
    assert parse_statement("H[X=1]") == H((Atom("X", True, 1),))


@pytest.mark.parametrize(
    ("text", "column", "problem"),
    [
        ("H[X, | Y]", 6, 'expected a variable (X, x or X=3), found "|"'),
        ("", 1, "found the end"),
        ("H[X", 4, 'expected ",", "|" or "]", found the end'),
        ("I[X]", 4, 'expected "," or ";" (I takes two groups or more), found "]"'),
        ("TC[X|Y]", 5, 'expected "," or ";" (TC takes two groups or more), found "|"'),
        ("H[X;Y]", 4, 'expected ",", "|" or "]", found ";"'),
        ("I[X;Y", 6, 'expected ",", ";", "|" or "]", found the end'),
        ("H[X|Y|Z]", 6, 'expected "," or "]", found "|"'),
        ("H[X||Y]", 4, 'found "|"'),
        ("H[]", 3, 'expected a variable (X, x or X=3), found "]"'),
        ("H[Y=]", 5, 'expected an outcome (3, cat or "a cat"), found "]"'),
        ('H[Y="cat]', 5, "expected a closing quotation mark"),
        ("H[Y=1e300000]", 5, "too long"),
        ("H[Y=-1e320]", 5, "expected an outcome that is a finite number"),
        ("H[_X]", 3, 'found "_"'),
        ("H[₁X]", 3, 'found "₁"'),
        ("H(²p || q)", 3, 'expected a law (p, or p(X | y)), found "²"'),
        ("H[中]", 3, "whose first letter has no two cases"),
        ("H[X] ! H[Y]", 6, 'expected "+", "-" or the end, found "!"'),
        ("2 3", 3, 'found "3"'),
        ("H[X] H[Y]", 6, 'expected "+", "-" or the end, found "H"'),
        ("H[X] * H[Y]", 6, "expected a number on one side of the product, found two quantities"),
        ("1 / H[X]", 5, "expected a number other than 0 below the fraction bar"),
        ("1 / (1 - 1)", 5, "expected a number other than 0 below the fraction bar"),
        ("foo", 1, 'expected a number or a quantity (H[X], I[X;Y], TC[X;Y], KL(p || q), E_{p(x)}[…]), found "foo"'),
        ("h(-1)", 3, "expected a number that is not negative"),
        ("h(H[X])", 3, "expected a number that is not negative"),
        ("H[X] = H[Y]", 6, "this is a statement"),
        ("H(X,Y)", 2, "joint entropy is written H[X,Y]"),
        ("1 + H (X, Y)", 7, "round brackets hold laws, as in H(p || q); joint entropy is written H[X,Y]"),
        ("H(X|Y)", 2, "entropy is written H[X], H[X|Y]"),
        ("H(X)", 2, "entropy is written H[X], H[X|Y]"),
        ("H(x;y)", 2, "round brackets hold laws"),
        ("KL(p)", 5, '"||" and a second law'),
        ("KL[p||q]", 3, 'expected "(" (a divergence is written KL(p || q)), found "["'),
        ("D_JS(p || q)", 1, "D(p || q) or D_KL(p || q)"),
        ("H_q(X)", 4, 'expected "[", found "("'),
        ("I_{r||q}[X;Y]", 1, "expected one law below I, as in I_q, found two"),
        ("E[H[x]]", 1, "expected the law that is averaged over, as in E_{p(x)}[H[x]]"),
        ("E_p[H[x]]", 1, "expected the outcomes that are averaged over"),
        ("E_{p(X=3)}[H[x]]", 1, "expected the outcomes that are averaged over"),
        ("1 + E_{p(x|Y)}[H[x]]", 5, "an expectation is taken given outcomes, found Y; write y"),
        ("E_{p(x)}[H[X]]", 1, "X is averaged over here; inside, write its outcome x"),
        ("E_{p(x|x)}[H[x]]", 1, "X is averaged over and given in one law"),
        ("1 + H[X|x]", 5, "X stands both for the variable and for its outcome x"),
        ("I[X;Y|X=2]", 1, "X stands both for the variable and for its outcome X=2"),
        ("H[Y=3,y]", 1, "Y has two outcomes, Y=3 and y"),
        ("KL(p(X|x) || q)", 4, "X stands both"),
        ("(" * 1000, 41, "more than 40 brackets within brackets"),
        ("E_p(x)" * 1000 + "H[x]", None, "more than 40 brackets within brackets"),
        ("9" * 5000, 1, "too long"),
        ("1e331", 1, "too long"),
        ("1e" + "9" * 5000, 1, "too long"),
        ("1e300*1e300*1e300", None, "too long"),
        ("H[X] < 3", 6, 'found "<"'),
    ],
)
def test_errors_point_at_the_column(text, column, problem):
    with pytest.raises(ParseError) as caught:
        parse(text)
    error = caught.value
    assert problem in error.problem
    assert column is None or error.column == column
    sentence, shown, caret = str(error).split("\n")
    assert sentence.endswith(f": column {error.column}: {error.problem}")
    assert caret.index("^") <= len(shown)
    at_caret = shown[caret.index("^") : caret.index("^") + 1]
    assert at_caret == text[error.column - 1 : error.column]


def test_the_message_of_the_contract():
    with pytest.raises(ParseError) as caught:
        parse("H[X, | Y]")
    assert str(caught.value) == (
        'H[X, | Y]: column 6: expected a variable (X, x or X=3), found "|"\n  H[X, | Y]\n       ^'
    )
    assert isinstance(caught.value, ValueError)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_caret_keeps_its_place_in_long_and_broken_lines():
    with pytest.raises(ParseError) as caught:
        parse("H[X] +\n\t" * 50 + "H[X, | Y]" + " + H[X]" * 50)
    _, shown, caret = str(caught.value).split("\n")
    assert len(shown) <= 110
    assert shown[caret.index("^") - 5 : caret.index("^") + 4] == "H[X, | Y]"


def test_statements_have_one_relation():
    with pytest.raises(ParseError, match="a statement has one relation") as caught:
        parse_statement("H[X] = H[Y] = H[Z]")
    assert caught.value.column == 13
    with pytest.raises(ValueError, match="text: found int; pass a text"):
        parse(3)


VALID = [
    "I[X;Y|z] - 1/2 H[X, y | Z]",
    "E_{p(x|y)}[H[x] + I[x;y;Z]] = KL(p(X|y) || q(X)) + h(0.5)",
    'TC[Y1;Y2;Ω | x, D] >= H_{p||q}[Y="a cat"|W=3.5] * (2 - 3/4)',
    "H(p ‖ q) + D_KL(p(X,Y)||p(X)p(Y)) − 2·H_q[X]",
]
SYMBOLS = st.sampled_from([*"HIETCDKLhpqXYyx[](){}|;,=<>+-*/_.0123456789e\"'\\ \n‖·−Ωω₁½²ßİǅ", "||", "E_{", "H_"])


@st.composite
def broken(draw):
    text = list(draw(st.sampled_from(VALID)))
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(text)))
        text[place : place + draw(st.integers(0, 3))] = draw(st.lists(SYMBOLS, max_size=3))
    return "".join(text)


@settings(deadline=None, max_examples=500)
@given(st.one_of(st.text(max_size=40), st.lists(SYMBOLS, max_size=30).map("".join), broken()))
def test_any_text_parses_or_is_a_parse_error(text):
    try:
        found = parse_statement(text)
    except ParseError as error:
        wrong = error
    else:
        assert parse_statement(str(found)) == found
        assert latex(found)
        return
    assert 1 <= wrong.column <= len(text) + 1
    assert str(wrong).count("\n") == 2


# --- writing ----------------------------------------------------------------------------------------------------------

names = st.sampled_from(["X", "Y1", "Omega", "Y_acq", "Cat", "D", "D_train", "H", "E_p", "Ä", "Ж1"])
outcomes = st.one_of(
    st.none(), st.integers(-(10**9), 10**9), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=6)
)
laws_named = st.sampled_from(["p", "q", "theta", "q_2"])
numbers = st.fractions(min_value=-1000, max_value=1000, max_denominator=1000)


@st.composite
def atom_lists(draw, avoid=frozenset()):
    """Atoms that may stand in one quantity, none of the variables in `avoid` untied."""
    picked = draw(st.lists(names, min_size=1, max_size=6, unique=True))
    made = []
    for name in picked:
        tied = name in avoid or draw(st.booleans())
        made.append(Atom(name, tied, draw(outcomes) if tied and name not in avoid else None))
    assert conflict_between(made) == ""
    return made


@st.composite
def trees(draw, depth=2, avoid=frozenset()):
    kinds = ["H", "I", "TC", "cross", "KL", "h", "number"] + (["sum", "E"] if depth else [])
    kind = draw(st.sampled_from(kinds))
    atoms = draw(atom_lists(avoid))
    some = st.lists(st.sampled_from(atoms), min_size=1, max_size=4).map(group)
    given = draw(st.one_of(st.just(()), some))
    model = draw(st.one_of(st.none(), laws_named))
    if kind == "H":
        return H(draw(some), given, model)
    if kind in ("I", "TC"):
        return (I if kind == "I" else TC)(tuple(draw(st.lists(some, min_size=2, max_size=4))), given, model)
    if kind in ("cross", "KL"):
        bare = [Law(draw(laws_named)) for _ in range(2)]
        full = [Law(draw(laws_named), draw(some), draw(st.one_of(st.just(()), some))) for _ in range(2)]
        p, q = (draw(st.sampled_from(pair)) for pair in zip(bare, full, strict=True))
        return CrossEntropy(p, q) if kind == "cross" else KL(p, q)
    if kind == "h":
        return Content(abs(draw(numbers)))
    if kind == "number":
        return Number(draw(numbers))
    if kind == "sum":
        return sum_of_terms(draw(st.lists(st.tuples(numbers, trees(depth - 1, avoid)), max_size=4)))
    bound = [Atom(name, True) for name in draw(st.lists(names, min_size=1, max_size=2, unique=True))]
    inside = {atom.name for atom in bound}
    known = tuple(atom for atom in given if atom.name not in inside and (atom.tied or atom.name[:2] in ("D", "D_")))
    return Expectation(Law(draw(laws_named), tuple(bound), known), draw(trees(depth - 1, avoid | inside)))


@properties
@given(trees(), trees(), st.sampled_from(["=", "<=", ">=", "!="]))
def test_what_is_written_is_read_back(left, right, relation):
    assert parse(plain(left)) == left
    statement = Statement(left, relation, right)
    assert parse_statement(str(statement)) == statement


@pytest.mark.parametrize("outcome", ["", "\\", '"', '\\"', "a\nb", "'", "y", "3", "\\n"])
def test_any_text_of_an_outcome_is_read_back(outcome):
    expression = H((Atom("Y", True, outcome),))
    assert parse(plain(expression)) == expression


@properties
@given(trees())
def test_latex_closes_its_brackets(tree):
    written = latex(tree).replace(r"\{", "").replace(r"\}", "")  # those belong to the text of an outcome
    assert written.count("{") == written.count("}")


@properties
@given(expressions(models=(None, "q")))
def test_joint_entropies_are_never_written_with_round_brackets(expression):
    assert "H(" not in plain(expression)
    assert "H}(" not in latex(expression)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("H[X|y]", r"\mathrm{H}[X \mid y]"),
        ("I[X;y]", r"\mathrm{I}[X; y]"),
        ("TC[Y1;Y_acq|ω]", r"\mathrm{TC}[Y_{1}; Y_{\mathrm{acq}} \mid \omega]"),
        ("H[Cat, Y1_a]", r"\mathrm{H}[\mathrm{Cat}, Y_{1, \mathrm{a}}]"),
        ("KL(p(X|y) || q)", r"\mathrm{D}_{\mathrm{KL}}(p(X \mid y) \,\|\, q)"),
        ("H_theta[X]", r"\mathrm{H}_{\theta}[X]"),
        ("E_{p(x|y)}[H[x]]", r"\mathbb{E}_{p(x \mid y)}\left[\mathrm{H}[x]\right]"),
        ("h(1/2) - 2/3 H[X] - 1", r"h(\tfrac{1}{2}) - \tfrac{2}{3} \mathrm{H}[X] - 1"),
        ('H[Y="50%_a"]', r"\mathrm{H}[Y{=}\text{50\%\_a}]"),
        ("H[X] <= H[Y]", r"\mathrm{H}[X] \le \mathrm{H}[Y]"),
    ],
)
def test_latex(text, expected):
    assert latex(parse_statement(text)) == expected


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("H[X]", "entropy"),
        ("H[x]", "information content"),
        ("H[X,Y]", "joint entropy"),
        ("H[X|Y]", "conditional entropy"),
        ("H[X|Y,z]", "conditional entropy"),
        ("H[X|y]", "entropy of the conditional at y"),
        ("H[Y|x,D]", "entropy of the conditional at x, D"),
        ("H[Y|x,Omega,D]", "conditional entropy"),
        ("H[X,y]", "mixed joint entropy"),
        ("H[X,y|Z]", "conditional mixed joint entropy"),
        ("H[y|X]", "expected information content"),
        ("H[x|y]", "conditional information content"),
        ("E_{p(x|y)}[H[x]]", "expected prior surprisal under the posterior"),
        ("E_{p(x)}[H[x]]", "expected information content"),
        ("E_{p(x)}[H[x] + H[y]]", ""),
        ("I[X;Y]", "mutual information"),
        ("I[Y;Omega|x,D]", "mutual information"),
        ("I[X;Y|Z]", "conditional mutual information"),
        ("I[x;y]", "point-wise mutual information"),
        ("I[X;y]", "information gain"),
        ("I[X1,X2;y1,y2]", "information gain"),
        ("I[y;X]", "surprise"),
        ("I[X,y;Z]", "mixed mutual information"),
        ("I[X;Y;Z]", "interaction information"),
        ("I[x;y;z]", "point-wise interaction information"),
        ("I[X;Y;z]", "mixed interaction information"),
        ("TC[X;Y]", "total correlation"),
        ("TC[X;Y|Z]", "conditional total correlation"),
        ("H_q[X]", "cross-entropy"),
        ("H_q[X|Y]", "conditional cross-entropy"),
        ("H_p[X]", "entropy"),
        ("H(p||q)", "cross-entropy"),
        ("H(p)", "entropy"),
        ("KL(p||q)", "KL divergence"),
        ("h(1/2)", "information content"),
        ("3", "constant"),
        ("H[X] + H[Y]", ""),
        ("2 H[X]", ""),
        ("I_q[X;Y]", ""),
    ],
)
def test_names(text, name):
    assert name_of(parse(text)) == name


def test_expressions_add_and_multiply_as_they_are_written():
    assert parse("H[X]") + parse("H[Y]") - 1 == parse("H[X] + H[Y] - 1")
    assert 2 * (parse("H[X]") - 1) == parse("2 H[X] - 2")
    assert 1 - parse("H[X]") == parse("1 - H[X]")
    assert sum_of_terms([]) == parse("0")
    with pytest.raises(ValueError, match="finite"):
        Atom("X", True, float("inf"))
