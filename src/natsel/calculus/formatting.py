r"""Writing and naming: an expression as text that the parser reads back, as LaTeX, and what people call it.

    plain:  I[X; y | Z] - 1/2 H(p(X) || q(X))        parse(plain(e)) == e
    latex:  \mathrm{I}[X; y \mid Z] - \tfrac{1}{2} \mathrm{H}(p(X) \,\|\, q(X))
    name:   I[X; Y] mutual information    I[X; y] information gain    I[y; X] surprise    I[x; y] point-wise

Round brackets hold only laws: a joint entropy is H[X, Y], never H(X, Y). For names, D and D_… behind | are outcomes.
docs/theory/information-quantities.md, 3, 4 and 9.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from natsel.calculus.expressions import (
    GREEK,
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
    is_data,
    tied_name,
)

_LATEX_SPECIAL = {character: f"\\{character}" for character in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}
_RELATIONS = {"=": "=", "<=": r"\le", ">=": r"\ge", "!=": r"\ne"}


@dataclass(frozen=True)
class _Notation:
    """How the pieces of an expression are written: names, atoms, numbers, and the symbols between them."""

    name: Callable[[str], str]
    atom: Callable[[Atom], str]
    number: Callable[[Fraction], str]
    entropy: str
    information: str
    total_correlation: str
    divergence: str
    expectation: str
    bar: str
    parallel: str

    def law(self, law: Law) -> str:
        return self.name(law.name) + (f"({self.groups((law.of,), law.given)})" if law.of else "")

    def groups(self, groups: tuple[Group, ...], given: Group) -> str:
        behind = f" {self.bar} " + ", ".join(map(self.atom, given)) if given else ""
        return "; ".join(", ".join(map(self.atom, each)) for each in groups) + behind

    def bracketed(self, head: str, groups: tuple[Group, ...], given: Group, model: str | None) -> str:
        below = "" if model is None else self.subscript(model)
        return f"{head}{below}[{self.groups(groups, given)}]"

    def subscript(self, model: str) -> str:
        return f"_{model}" if self.bar == "|" else f"_{{{self.name(model)}}}"

    def expression(self, expression: Expression) -> str:
        match expression:
            case H(of, given, model):
                return self.bracketed(self.entropy, (of,), given, model)
            case I(groups, given, model):
                return self.bracketed(self.information, groups, given, model)
            case TC(groups, given, model):
                return self.bracketed(self.total_correlation, groups, given, model)
            case CrossEntropy(p, q):
                return f"{self.entropy}({self.law(p)} {self.parallel} {self.law(q)})"
            case KL(p, q):
                return f"{self.divergence}({self.law(p)} {self.parallel} {self.law(q)})"
            case Content(number):
                return f"h({self.number(number)})"
            case Number(value):
                return self.number(value)
            case Expectation(law, body):
                return self.expectation.format(self.law(law), self.expression(body))
            case Sum(terms):
                return self.sum(terms)
        found = type(expression).__name__
        raise ValueError(f"expression: found {found}, which is no expression; parse a text to get one")

    def sum(self, terms: tuple[tuple[Fraction, Expression], ...]) -> str:
        text = ""
        for factor, term in terms:
            if isinstance(term, Number):
                factor, written = term.value, self.number(abs(term.value))
            else:
                written = ("" if abs(factor) == 1 else f"{self.number(abs(factor))} ") + self.expression(term)
            sign = (" - " if factor < 0 else " + ") if text else ("-" if factor < 0 else "")
            text += sign + written
        return text


def plain(expression: Expression) -> str:
    """An expression as text; `parse` reads the same expression back.

    >>> from natsel.calculus import parse
    >>> plain(parse("E_p(x|y)[H[x]]-2I[X;Y=3]"))
    'E_{p(x | y)}[H[x]] - 2 I[X; Y=3]'
    """
    return _PLAIN.expression(expression)


def latex(expression: Expression | Statement) -> str:
    r"""An expression or a statement as LaTeX, without the dollar signs.

    >>> from natsel.calculus import parse
    >>> print(latex(parse("1/2 I[Y1; Omega | x] + H[Y=3]")))
    \tfrac{1}{2} \mathrm{I}[Y_{1}; \Omega \mid x] + \mathrm{H}[Y{=}3]
    """
    if isinstance(expression, Statement):
        return f"{latex(expression.left)} {_RELATIONS[expression.relation]} {latex(expression.right)}"
    return _LATEX.expression(expression)


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


_PLAIN = _Notation(str, str, str, "H", "I", "TC", "KL", "E_{{{}}}[{}]", "|", "||")
_LATEX = _Notation(
    name=_latex_name,
    atom=_latex_atom,
    number=_latex_number,
    entropy=r"\mathrm{H}",
    information=r"\mathrm{I}",
    total_correlation=r"\mathrm{TC}",
    divergence=r"\mathrm{D}_{\mathrm{KL}}",
    expectation=r"\mathbb{{E}}_{{{}}}\left[{}\right]",
    bar=r"\mid",
    parallel=r"\,\|\,",
)

# By whether the head and the other group are tied.
_PAIRS = {
    (False, False): "mutual information",
    (True, True): "point-wise mutual information",
    (False, True): "information gain",
    (True, False): "surprise",
}


def name_of(expression: Expression) -> str:
    """The name of a quantity; empty for sums, which have none.

    >>> from natsel.calculus import parse
    >>> name_of(parse("I[X; y]")), name_of(parse("I[y; X]"))
    ('information gain', 'surprise')
    """
    match expression:
        case H(of, given, model) if model in (None, "p"):
            return _entropy(of, given)
        case H(_, given, _):
            return "conditional cross-entropy" if _some_untied(given) else "cross-entropy"
        case I(_, _, model) | TC(_, _, model) if model not in (None, "p"):
            return ""
        case I(groups, given):
            name = _information(groups)
            return f"conditional {name}" if _some_untied(given) else name
        case TC(_, given):
            return "conditional total correlation" if _some_untied(given) else "total correlation"
        case CrossEntropy(p, q):
            return "entropy" if p == q else "cross-entropy"
        case KL():
            return "KL divergence"
        case Content():
            return "information content"
        case Number():
            return "constant"
        case Expectation(law, H(of, (), None)) if set(of) <= set(law.of) and law.given and law.name == "p":
            return "expected prior surprisal under the posterior"
        case Expectation(_, body):
            inner = name_of(body)
            return f"expected {inner}" if inner else ""
        case _:
            return ""


def _entropy(of: Group, given: Group) -> str:
    if all(atom.tied for atom in of):
        if _some_untied(given):
            return "expected information content"
        return "conditional information content" if given else "information content"
    if any(atom.tied for atom in of):
        return "conditional mixed joint entropy" if given else "mixed joint entropy"
    if _some_untied(given):
        return "conditional entropy"
    if given:
        return f"entropy of the conditional at {', '.join(map(str, given))}"
    return "entropy" if len(of) == 1 else "joint entropy"


def _information(groups: tuple[Group, ...]) -> str:
    ties = [{atom.tied for atom in each} for each in groups]
    if len(groups) > 2:
        if set().union(*ties) == {False}:
            return "interaction information"
        return f"{'point-wise' if set().union(*ties) == {True} else 'mixed'} interaction information"
    if any(len(tie) == 2 for tie in ties):
        return "mixed mutual information"
    head, rest = (tie == {True} for tie in ties)
    return _PAIRS[head, rest]


def _some_untied(given: Group) -> bool:
    return any(not atom.tied and not is_data(atom.name) for atom in given)
