r"""Writing: an expression as text that the parser reads back, and as LaTeX.

    plain:  I[X; y | Z] - 1/2 H(p(X) || q(X))        parse(plain(e)) == e
    latex:  \mathrm{I}[X; y \mid Z] - \tfrac{1}{2} \mathrm{H}(p(X) \,\|\, q(X))

Round brackets hold laws alone: a joint entropy is H[X, Y], never H(X, Y).  Spec 01, A1 and pitfall 1.
"""

from collections.abc import Callable
from fractions import Fraction

from natsel.calculus.expressions import (
    KL,
    TC,
    Atom,
    Content,
    CrossEntropy,
    Expectation,
    Expression,
    Group,
    H,
    I,
    Law,
    Number,
    Statement,
    Sum,
    tied_name,
)
from natsel.calculus.symbols import GREEK

_LATEX_SPECIAL = {character: f"\\{character}" for character in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}
_RELATIONS = {"=": "=", "<=": r"\le", ">=": r"\ge", "!=": r"\ne"}


def plain(expression: Expression) -> str:
    """An expression as text; `parse` reads the same expression back.

    >>> from natsel.calculus import parse
    >>> plain(parse("E_p(x|y)[H[x]]-2I[X;Y=3]"))
    'E_{p(x | y)}[H[x]] - 2 I[X; Y=3]'
    """
    match expression:
        case H(of, given, model):
            return _bracketed("H" + _below(model), [of], given)
        case I(groups, given, model):
            return _bracketed("I" + _below(model), groups, given)
        case TC(groups, given, model):
            return _bracketed("TC" + _below(model), groups, given)
        case CrossEntropy(p, q):
            return f"H({_law(p)} || {_law(q)})"
        case KL(p, q):
            return f"KL({_law(p)} || {_law(q)})"
        case Content(number):
            return f"h({number})"
        case Number(value):
            return str(value)
        case Expectation(law, body):
            return f"E_{{{_law(law)}}}[{plain(body)}]"
        case Sum(terms):
            return _sum(terms, plain, str)
    raise ValueError(f"expression: found {type(expression).__name__}, which is no expression; parse a text to get one")


def latex(expression: Expression | Statement) -> str:
    r"""An expression or a statement as LaTeX, without the dollar signs.

    >>> from natsel.calculus import parse
    >>> print(latex(parse("1/2 I[Y1; Omega | x] + H[Y=3]")))
    \tfrac{1}{2} \mathrm{I}[Y_{1}; \Omega \mid x] + \mathrm{H}[Y{=}3]
    """
    match expression:
        case Statement(left, relation, right):
            return f"{latex(left)} {_RELATIONS[relation]} {latex(right)}"
        case H(of, given, model):
            return _bracketed(r"\mathrm{H}" + _latex_below(model), [of], given, r"\mid", _latex_atom)
        case I(groups, given, model):
            return _bracketed(r"\mathrm{I}" + _latex_below(model), groups, given, r"\mid", _latex_atom)
        case TC(groups, given, model):
            return _bracketed(r"\mathrm{TC}" + _latex_below(model), groups, given, r"\mid", _latex_atom)
        case CrossEntropy(p, q):
            return rf"\mathrm{{H}}({_latex_law(p)} \,\|\, {_latex_law(q)})"
        case KL(p, q):
            return rf"\mathrm{{D}}_{{\mathrm{{KL}}}}({_latex_law(p)} \,\|\, {_latex_law(q)})"
        case Content(number):
            return f"h({_latex_number(number)})"
        case Number(value):
            return _latex_number(value)
        case Expectation(law, body):
            return rf"\mathbb{{E}}_{{{_latex_law(law)}}}\left[{latex(body)}\right]"
        case Sum(terms):
            return _sum(terms, latex, _latex_number)
    raise ValueError(f"expression: found {type(expression).__name__}, which is no expression; parse a text to get one")


def _sum(
    terms: tuple[tuple[Fraction, Expression], ...],
    write: Callable[[Expression], str],
    write_number: Callable[[Fraction], str],
) -> str:
    text = ""
    for factor, term in terms:
        if isinstance(term, Number):
            factor, written = term.value, write_number(abs(term.value))
        else:
            written = write(term) if abs(factor) == 1 else f"{write_number(abs(factor))} {write(term)}"
        sign = (" - " if factor < 0 else " + ") if text else ("-" if factor < 0 else "")
        text += sign + written
    return text


def _bracketed(
    head: str,
    groups: "tuple[Group, ...] | list[Group]",
    given: Group,
    bar: str = "|",
    write: Callable[[Atom], str] = str,
) -> str:
    inside = "; ".join(", ".join(map(write, group)) for group in groups)
    behind = f" {bar} " + ", ".join(map(write, given)) if given else ""
    return f"{head}[{inside}{behind}]"


def _below(model: str | None) -> str:
    return "" if model is None else f"_{model}"


def _law(law: Law) -> str:
    if not law.of:
        return law.name
    behind = " | " + ", ".join(map(str, law.given)) if law.given else ""
    return f"{law.name}({', '.join(map(str, law.of))}{behind})"


def _latex_below(model: str | None) -> str:
    return "" if model is None else f"_{{{_latex_name(model)}}}"


def _latex_law(law: Law) -> str:
    if not law.of:
        return _latex_name(law.name)
    behind = r" \mid " + ", ".join(map(_latex_atom, law.given)) if law.given else ""
    return f"{_latex_name(law.name)}({', '.join(map(_latex_atom, law.of))}{behind})"


def _latex_atom(atom: Atom) -> str:
    if not atom.tied:
        return _latex_name(atom.name)
    if atom.outcome is None:
        return _latex_name(tied_name(atom.name))
    outcome = rf"\text{{{_escaped(atom.outcome)}}}" if isinstance(atom.outcome, str) else str(atom.outcome)
    return f"{_latex_name(atom.name)}{{=}}{outcome}"


def _latex_name(name: str) -> str:
    """Y1 as Y_{1}, Y_acq as Y_{acq} upright, Omega as the letter, other words upright."""
    stem, _, below = name.partition("_")
    letters = stem.rstrip("0123456789")
    below = ", ".join(
        part for part in (stem[len(letters) :], rf"\mathrm{{{_escaped(below)}}}" if below else "") if part
    )
    if letters.lower() in GREEK.values():
        letters = f"\\{letters}"
    elif len(letters) > 1:
        letters = rf"\mathrm{{{_escaped(letters)}}}"
    return letters + (f"_{{{below}}}" if below else "")


def _latex_number(number: Fraction) -> str:
    if number.denominator == 1:
        return str(number)
    sign = "-" if number < 0 else ""
    return rf"{sign}\tfrac{{{abs(number.numerator)}}}{{{number.denominator}}}"


def _escaped(text: str) -> str:
    return "".join(_LATEX_SPECIAL.get(character, character) for character in text)
