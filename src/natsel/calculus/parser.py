"""Parser: from the way a quantity is written in a paper to an expression, or to an error that points at the column.

    statement   := sum (("=" | "==" | "<=" | "≤" | ">=" | "≥" | "!=" | "≠") sum)?
    sum         := term (("+" | "-") term)*
    term        := factor (("*" | "·" | "/")? factor)*                  all but one of the factors are numbers
    factor      := number | "-" factor | "(" sum ")" | quantity
    quantity    := H sub? "[" group ("|" group)? "]"                    H[X,y|Z], H_q[X], H_{p||q}[X]
                 | (I | TC) sub? "[" group (";" group)+ ("|" group)? "]"
                 | (H | KL | D | D_KL) "(" law "‖" law+ ")"             H(p(X)) is H[X]; several laws: their product
                 | "h" "(" sum ")"                                      −ln of a number
                 | "E_" law "[" sum "]"                                 E_{p(x|y)}[…], E_p(x|y)[…]
    law         := name ("(" group ("|" group)? ")")?
    group       := atom ("," atom)*
    atom        := name ("=" outcome)?                                  X untied, x and X=3 and X="cat" tied

docs/theory/information-quantities.md, 9; Kirsch and Gal 2021.
"""

import math
import re
from collections.abc import Callable
from fractions import Fraction
from typing import TypeVar

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
    Outcome,
    Statement,
    Sum,
    ascii_name,
    atoms_of,
    conflict_between,
    group,
    is_data,
    sum_of_terms,
    tied_name,
    variable_of,
)

_RELATIONS = {"==": "=", "=": "=", "<=": "<=", "≤": "<=", ">=": ">=", "≥": ">=", "!=": "!=", "≠": "!="}
_NAME = re.compile(r"[^\W\d_]\w*")
_NUMBER = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"' + r"|'((?:[^'\\]|\\.)*)'", re.DOTALL)
_LONGEST = 330  # digits of a number, and the size of its exponent: all that a float can have
_SHOWN = 100  # characters of a text that an error repeats
_T = TypeVar("_T")


class ParseError(ValueError):
    """A text that is no expression: `.column` counts from 1, `.problem` says what was expected.

    >>> raise ParseError("H[X, | Y]", 6, 'expected a variable (X, x or X=3), found "|"')
    Traceback (most recent call last):
    natsel.calculus.parser.ParseError: H[X, | Y]: column 6: expected a variable (X, x or X=3), found "|"
      H[X, | Y]
           ^
    """

    def __init__(self, text: str, column: int, problem: str) -> None:
        super().__init__(text, column, problem)  # all of them, so that the error can be sent between processes
        self.text, self.column, self.problem = text, column, problem

    def __str__(self) -> str:
        # One blank for each character that would move the caret; of a long text the part around the column.
        line = "".join(character if character.isprintable() else " " for character in self.text)
        first = max(0, min(self.column - 1 - _SHOWN // 2, len(line) - _SHOWN))
        shown = line[first : first + _SHOWN]
        caret = " " * (self.column - 1 - first) + "^"
        return f"{shown or 'empty text'}: column {self.column}: {self.problem}\n  {shown}\n  {caret}"


class _Scanner:
    """Reads a text from left to right."""

    def __init__(self, text: str) -> None:
        self.text, self.position = text, 0

    @property
    def column(self) -> int:
        """Where the next character that is no blank stands, from 0."""
        while self.position < len(self.text) and self.text[self.position].isspace():
            self.position += 1
        return self.position

    def peek(self, *symbols: str) -> str | None:
        return next((symbol for symbol in symbols if self.text.startswith(symbol, self.column)), None)

    def accept(self, *symbols: str) -> str | None:
        symbol = self.peek(*symbols)
        self.position += len(symbol or "")
        return symbol

    def at_name(self) -> bool:
        # Superscripts, subscripts and the like are no digits to a pattern, and no letters either.
        return _NAME.match(self.text, self.column) is not None and self.text[self.position].isalpha()

    def name(self) -> str | None:
        match = _NAME.match(self.text, self.column) if self.at_name() else None
        self.position = match.end() if match else self.position
        return match.group() if match else None

    def number(self) -> str | None:
        """The digits of a number, a form that int, float or Fraction can read."""
        match = _NUMBER.match(self.text, self.column)
        if match is None:
            return None
        digits, _, exponent = match.group().lower().partition("e")
        if len(digits) > _LONGEST or len(exponent) > _LONGEST or abs(int(exponent or 0)) > _LONGEST:
            raise self.error("the number is too long to be kept exactly")
        self.position = match.end()
        return match.group()

    def quoted(self) -> str | None:
        if not self.peek('"', "'"):
            return None
        match = _QUOTED.match(self.text, self.column)
        if match is None:
            raise self.error("expected a closing quotation mark")
        self.position = match.end()
        return re.sub(r"\\(.)", r"\1", match.group(1) or match.group(2) or "", flags=re.DOTALL)

    def expect(self, symbol: str, expected: str) -> None:
        if not self.accept(symbol):
            raise self.unexpected(expected)

    def expect_name(self, expected: str) -> str:
        name = self.name()
        if name is None:
            raise self.unexpected(expected)
        return name

    def braced(self, inside: Callable[[], _T]) -> _T:
        self.expect("{", '"{"')
        found = inside()
        self.expect("}", '"}"')
        return found

    def expect_end(self, expected: str) -> None:
        if self.column < len(self.text):
            raise self.unexpected(expected)

    def unexpected(self, what: str) -> ParseError:
        start = self.column
        found = self.name() or self.text[start : start + 1]
        return self.error(f"expected {what}, found " + (f'"{found}"' if found else "the end"), start)

    def error(self, problem: str, column: int | None = None) -> ParseError:
        return ParseError(self.text, (self.column if column is None else column) + 1, problem)


DEEPEST = 40  # brackets within brackets; beyond it the stack of the interpreter is at risk
LARGEST = 2000  # bits of a number above or below the fraction bar
_PARALLEL = ("||", "‖", "∥")
_TIMES = ("*", "·", "×", "⋅")
_MINUS = ("-", "−")
_A_QUANTITY = "a number or a quantity (H[X], I[X;Y], TC[X;Y], KL(p || q), E_{p(x)}[…])"
_A_VARIABLE = "a variable (X, x or X=3)"


class _Grammar(_Scanner):
    """Reads one text."""

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            raise ValueError(f"text: found {type(text).__name__}; pass a text such as 'I[X;Y]'")
        super().__init__(text)
        self.depth = 0

    def one_level_deeper(self, rule: Callable[[], Expression]) -> Expression:
        self.depth += 1
        if self.depth > DEEPEST:
            raise self.error(f"more than {DEEPEST} brackets within brackets; write the sum flatter")
        found = rule()
        self.depth -= 1
        return found

    def sum(self) -> Expression:
        return self.one_level_deeper(self.terms)

    def terms(self) -> Expression:
        terms = [(Fraction(1), self.term())]
        while sign := self.accept("+", *_MINUS):
            terms.append((Fraction(1 if sign == "+" else -1), self.term()))
        return sum_of_terms(terms)

    def term(self) -> Expression:
        product = self.factor()
        while True:
            column = self.column
            if self.accept(*_TIMES):
                product = self.times(product, self.factor(), column)
            elif self.accept("/"):
                below = self.column
                divisor = _constant(self.factor())
                if not divisor:
                    raise self.error("expected a number other than 0 below the fraction bar", below)
                product = self.times(product, Number(1 / divisor), column)
            elif _constant(product) is not None and (self.at_name() or self.peek("(")):
                product = self.times(product, self.factor(), column)
            else:
                return product

    def times(self, left: Expression, right: Expression, column: int) -> Expression:
        first, second = _constant(left), _constant(right)
        if first is not None and second is not None:
            return Number(self.exact(first * second, column))
        if first is None and second is None:
            raise self.error("expected a number on one side of the product, found two quantities", column)
        product = sum_of_terms([(first, right)] if first is not None else [(second or Fraction(0), left)])
        for factor, term in product.terms if isinstance(product, Sum) else ():
            self.exact(term.value if isinstance(term, Number) else factor, column)
        return product

    def exact(self, number: Fraction, column: int) -> Fraction:
        if max(number.numerator.bit_length(), number.denominator.bit_length()) > LARGEST:
            raise self.error("the number is too long to be kept exactly", column)
        return number

    def factor(self) -> Expression:
        sign = Fraction(1)
        while self.accept(*_MINUS):
            sign = -sign
        if (digits := self.number()) is not None:
            return Number(sign * Fraction(digits))
        if self.accept("("):
            inside = self.sum()
            self.expect(")", '"+", "-" or ")"')
        else:
            inside = self.quantity()
        return sum_of_terms([(sign, inside)])

    def quantity(self) -> Expression:
        column = self.column
        word = self.name() or ""
        head, underscore, sub = word.partition("_")
        if head in ("E", "𝔼"):
            return self.expectation(column, underscore, sub)
        if head == "h" and not underscore:
            return self.content()
        if head == "KL" and not underscore:
            return self.divergence()
        if head == "D":
            if underscore and (sub or self.braced(lambda: self.expect_name("KL"))) != "KL":
                raise self.error("expected a divergence, D(p || q) or D_KL(p || q)", column)
            return self.divergence()
        if head not in ("H", "I", "TC"):
            self.position = column
            raise self.unexpected(_A_QUANTITY)
        if word == "H" and self.peek("("):
            return self.entropy_of_laws()
        sampler, model = self.model(sub) if underscore else ("p", None)
        return self.bracketed(head, column, sampler, model)

    def model(self, sub: str) -> tuple[str, str]:
        """What is written below H: q, or p ‖ q; the law that samples and the law inside the logarithm."""
        if sub:
            return "p", ascii_name(sub)

        def inside() -> tuple[str, str]:
            first = ascii_name(self.expect_name("the name of a law (q)"))
            return (
                (first, ascii_name(self.expect_name("the name of a law (q)")))
                if self.accept(*_PARALLEL)
                else ("p", first)
            )

        return self.braced(inside)

    def bracketed(self, head: str, column: int, sampler: str, model: str | None) -> Expression:
        self.expect("[", '"["')
        groups = [self.group()]
        while head != "H" and self.accept(";"):
            groups.append(self.group())
        if head != "H" and len(groups) == 1:
            raise self.unexpected(f'"," or ";" ({head} takes two groups or more)')
        given = self.given()
        more = '",", "|"' if head == "H" else '",", ";", "|"'
        self.expect("]", '"," or "]"' if given else f'{more} or "]"')
        self.refuse_conflict((*(atom for each in groups for atom in each), *given), column)
        if sampler != "p":
            if head != "H":
                raise self.error(f"expected one law below {head}, as in {head}_q, found two", column)
            return CrossEntropy(Law(sampler, groups[0], given), Law(model or "p", groups[0], given))
        if head == "H":
            return H(groups[0], given, model)
        return (I if head == "I" else TC)(tuple(groups), given, model)

    def content(self) -> Expression:
        self.expect("(", '"("')
        column = self.column
        number = _constant(self.sum())
        if number is None or number < 0:
            raise self.error("expected a number that is not negative, as in h(0.5)", column)
        self.expect(")", '"+", "-" or ")"')
        return Content(self.exact(number, column))

    def divergence(self) -> Expression:
        self.expect("(", '"(" (a divergence is written KL(p || q))')
        p, *models = self.laws()
        self.expect(")", '")"' if models else '"||"')
        if not models:
            raise self.error('expected "||" and a second law, as in KL(p || q)', self.position - 1)
        if len(models) == 1:
            return KL(p, models[0])
        return sum_of_terms(
            [*((Fraction(1), CrossEntropy(p, model)) for model in models), (Fraction(-1), _own_entropy(p))]
        )

    def entropy_of_laws(self) -> Expression:
        bracket = self.column
        self.expect("(", '"("')
        start = self.column
        word = self.name() or ""
        if word and (self.peek(",", ";", "=") or self.accept_bar() or (self.peek(")") and word[0].isupper())):
            kind = "joint entropy is written H[X,Y]" if self.peek(",") else "entropy is written H[X], H[X|Y]"
            raise self.error(f"round brackets hold laws, as in H(p || q); {kind}", bracket)
        self.position = start
        p, *models = self.laws()
        self.expect(")", '")"' if models else '"||" or ")"')
        return sum_of_terms((Fraction(1), CrossEntropy(p, model)) for model in models) if models else _own_entropy(p)

    def laws(self) -> list[Law]:
        """p, and behind ‖ the laws whose product it is measured by: the logarithm of a product is a sum."""
        found = [self.law()]
        if self.accept(*_PARALLEL):
            found.append(self.law())
            while self.accept(*_TIMES) or self.at_name():
                found.append(self.law())
        return found

    def law(self, name: str = "") -> Law:
        column = self.column
        name = ascii_name(name or self.expect_name("a law (p, or p(X | y))"))
        if not self.accept("("):
            return Law(name)
        of, given = self.group(), self.given()
        self.expect(")", '"," or ")"' if given else '",", "|" or ")"')
        self.refuse_conflict((*of, *given), column)
        return Law(name, of, given)

    def expectation(self, column: int, underscore: str, sub: str) -> Expression:
        if not underscore:
            raise self.error("expected the law that is averaged over, as in E_{p(x)}[H[x]]", column)
        law = self.law(sub) if sub else self.braced(self.law)
        bound = {atom.name for atom in law.of}
        if not bound or any(atom.outcome is not None for atom in law.of):
            raise self.error("expected the outcomes that are averaged over, as in E_{p(x | y)}[H[x]]", column)
        for atom in law.given:
            if not atom.tied and not is_data(atom.name):
                name = tied_name(atom.name)
                raise self.error(f"an expectation is taken given outcomes, found {atom}; write {name}", column)
            if atom.name in bound:
                raise self.error(f"{atom.name} is averaged over and given in one law; leave one of them out", column)
        if self.accept("["):
            body = self.sum()
            self.expect("]", '"+", "-" or "]"')
        else:
            body = self.one_level_deeper(self.quantity)
        for atom in atoms_of(body):
            if atom.name in bound and not atom.tied:
                raise self.error(
                    f"{atom} is averaged over here; inside, write its outcome {tied_name(atom.name)}", column
                )
        return Expectation(Law(law.name, group(Atom(atom.name, tied=True) for atom in law.of), law.given), body)

    def given(self) -> Group:
        return self.group() if self.accept_bar() else ()

    def accept_bar(self) -> bool:
        return not self.peek("||") and self.accept("|", "∣") is not None

    def group(self) -> Group:
        atoms = [self.atom()]
        while self.accept(","):
            atoms.append(self.atom())
        return group(atoms)

    def atom(self) -> Atom:
        column = self.column
        word = self.expect_name(_A_VARIABLE)
        name = variable_of(word)
        if name is None:
            raise self.error(f'expected {_A_VARIABLE}, found "{word}", whose first letter has no two cases', column)
        if not self.accept("="):
            return Atom(name, tied=ascii_name(word) != name)
        return Atom(name, tied=True, outcome=self.outcome(name))

    def outcome(self, name: str) -> Outcome | None:
        """What stands behind X=: a number, a word or quoted text; None where it is x, the outcome as a symbol."""
        column = self.column
        if (quoted := self.quoted()) is not None:
            return quoted
        if (word := self.name()) is not None:
            return None if ascii_name(word) == tied_name(name) else word
        sign = -1 if self.accept(*_MINUS) else 1
        digits = self.number()
        if digits is None:
            raise self.unexpected('an outcome (3, cat or "a cat")')
        value = sign * (int(digits) if digits.isdigit() else float(digits))
        if math.isinf(value):
            raise self.error("expected an outcome that is a finite number", column)
        return value

    def refuse_conflict(self, atoms: Group, column: int) -> None:
        if why := conflict_between(atoms):
            raise self.error(why, column)


def _constant(expression: Expression) -> Fraction | None:
    """The value of a number, or of a sum of numbers."""
    if isinstance(expression, Number):
        return expression.value
    terms = expression.terms if isinstance(expression, Sum) else ()
    values = [term.value for _, term in terms if isinstance(term, Number)]
    return sum(values, Fraction(0)) if terms and len(values) == len(terms) else None


def _own_entropy(law: Law) -> Expression:
    return H(law.of, law.given) if law.name == "p" and law.of else CrossEntropy(law, law)


def parse(text: str) -> Expression:
    """The expression that a text writes.

    >>> str(parse("I[Y₁;Ω|x] − 1/2 H[y]"))
    'I[Y1; Omega | x] - 1/2 H[y]'
    """
    reader = _Grammar(text)
    expression = reader.sum()
    relation = reader.column
    if reader.accept(*_RELATIONS):
        raise reader.error(
            "this is a statement, and one quantity was expected; use parse_statement or verify", relation
        )
    reader.expect_end('"+", "-" or the end')
    return expression


def parse_statement(text: str) -> Statement | Expression:
    """A statement `left = right` (or <=, >=, !=), or the expression where the text has no relation.

    >>> str(parse_statement("I[X;Y] ≥ 0"))
    'I[X; Y] >= 0'
    """
    reader = _Grammar(text)
    left = reader.sum()
    relation = reader.accept(*_RELATIONS)
    if relation is None:
        reader.expect_end('"+", "-", a relation (=, <=, >=, !=) or the end')
        return left
    right = reader.sum()
    reader.expect_end('"+", "-" or the end (a statement has one relation)')
    return Statement(left, _RELATIONS[relation], right)
