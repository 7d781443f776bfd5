"""Grammar: one method a rule, recursive descent over characters; the rules stand at the top of `parser`.

The position of the scanner is the column of every error, and each method leaves it behind what it read.  Spec 01, A1.
"""

import math
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
    Outcome,
    Sum,
    group,
    tied_name,
    total,
)
from natsel.calculus.scanner import Scanner
from natsel.calculus.symbols import clash, spelled, variable_of
from natsel.calculus.tree import atoms_of, is_data

DEEPEST = 40  # brackets within brackets; beyond it the stack of the interpreter is at risk
LARGEST = 2000  # bits of a number above or below the fraction bar
_PARALLEL = ("||", "‖", "∥")
_TIMES = ("*", "·", "×", "⋅")
_MINUS = ("-", "−")
_A_QUANTITY = "a number or a quantity (H[X], I[X;Y], TC[X;Y], KL(p || q), E_{p(x)}[…])"
_A_VARIABLE = "a variable (X, x or X=3)"


class Grammar(Scanner):
    """Reads one text."""

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            raise ValueError(f"text: found {type(text).__name__}; pass a text such as 'I[X;Y]'")
        super().__init__(text)
        self.depth = 0

    def nested(self, rule: Callable[[], Expression]) -> Expression:
        self.depth += 1
        if self.depth > DEEPEST:
            raise self.error(f"more than {DEEPEST} brackets within brackets; write the sum flatter")
        found = rule()
        self.depth -= 1
        return found

    def sum(self) -> Expression:
        return self.nested(self.terms)

    def terms(self) -> Expression:
        terms = [(Fraction(1), self.term())]
        while sign := self.takes("+", *_MINUS):
            terms.append((Fraction(1 if sign == "+" else -1), self.term()))
        return total(terms)

    def term(self) -> Expression:
        product = self.factor()
        while True:
            column = self.column
            if self.takes(*_TIMES):
                product = self.times(product, self.factor(), column)
            elif self.takes("/"):
                below = self.column
                divisor = _constant(self.factor())
                if not divisor:
                    raise self.error("expected a number other than 0 below the fraction bar", below)
                product = self.times(product, Number(1 / divisor), column)
            elif _constant(product) is not None and (self.sees_name() or self.sees("(")):
                product = self.times(product, self.factor(), column)
            else:
                return product

    def times(self, left: Expression, right: Expression, column: int) -> Expression:
        first, second = _constant(left), _constant(right)
        if first is not None and second is not None:
            return Number(self.exact(first * second, column))
        if first is None and second is None:
            raise self.error("expected a number on one side of the product, found two quantities", column)
        product = total([(first, right)] if first is not None else [(second or Fraction(0), left)])
        for factor, term in product.terms if isinstance(product, Sum) else ():
            self.exact(term.value if isinstance(term, Number) else factor, column)
        return product

    def exact(self, number: Fraction, column: int) -> Fraction:
        if max(number.numerator.bit_length(), number.denominator.bit_length()) > LARGEST:
            raise self.error("the number is too long to be kept exactly", column)
        return number

    def factor(self) -> Expression:
        sign = Fraction(1)
        while self.takes(*_MINUS):
            sign = -sign
        if (digits := self.number()) is not None:
            return Number(sign * Fraction(digits))
        if self.takes("("):
            inside = self.sum()
            self.wants(")", '"+", "-" or ")"')
        else:
            inside = self.quantity()
        return total([(sign, inside)])

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
            if underscore and (sub or self.braced(lambda: self.wants_name("KL"))) != "KL":
                raise self.error("expected a divergence, D(p || q) or D_KL(p || q)", column)
            return self.divergence()
        if head not in ("H", "I", "TC"):
            self.here = column
            raise self.expected(_A_QUANTITY)
        if word == "H" and self.sees("("):
            return self.entropy_of_laws()
        sampler, model = self.model(sub) if underscore else ("p", None)
        return self.bracketed(head, column, sampler, model)

    def model(self, sub: str) -> tuple[str, str]:
        """What is written below H: q, or p ‖ q; the law that samples and the law inside the logarithm."""
        if sub:
            return "p", spelled(sub)

        def inside() -> tuple[str, str]:
            first = spelled(self.wants_name("the name of a law (q)"))
            return (
                (first, spelled(self.wants_name("the name of a law (q)"))) if self.takes(*_PARALLEL) else ("p", first)
            )

        return self.braced(inside)

    def bracketed(self, head: str, column: int, sampler: str, model: str | None) -> Expression:
        self.wants("[", '"["')
        groups = [self.group()]
        while head != "H" and self.takes(";"):
            groups.append(self.group())
        if head != "H" and len(groups) == 1:
            raise self.expected(f'"," or ";" ({head} takes two groups or more)')
        given = self.given()
        more = '",", "|"' if head == "H" else '",", ";", "|"'
        self.wants("]", '"," or "]"' if given else f'{more} or "]"')
        self.refuse_clash((*(atom for each in groups for atom in each), *given), column)
        if sampler != "p":
            if head != "H":
                raise self.error(f"expected one law below {head}, as in {head}_q, found two", column)
            return CrossEntropy(Law(sampler, groups[0], given), Law(model or "p", groups[0], given))
        if head == "H":
            return H(groups[0], given, model)
        return (I if head == "I" else TC)(tuple(groups), given, model)

    def content(self) -> Expression:
        self.wants("(", '"("')
        column = self.column
        number = _constant(self.sum())
        if number is None or number < 0:
            raise self.error("expected a number that is not negative, as in h(0.5)", column)
        self.wants(")", '"+", "-" or ")"')
        return Content(self.exact(number, column))

    def divergence(self) -> Expression:
        self.wants("(", '"(" (a divergence is written KL(p || q))')
        p, *models = self.laws()
        self.wants(")", '")"' if models else '"||"')
        if not models:
            raise self.error('expected "||" and a second law, as in KL(p || q)', self.here - 1)
        if len(models) == 1:
            return KL(p, models[0])
        return total([*((Fraction(1), CrossEntropy(p, model)) for model in models), (Fraction(-1), _own_entropy(p))])

    def entropy_of_laws(self) -> Expression:
        bracket = self.column
        self.wants("(", '"("')
        start = self.column
        word = self.name() or ""
        if word and (self.sees(",", ";", "=") or self.takes_bar() or (self.sees(")") and word[0].isupper())):
            kind = "joint entropy is written H[X,Y]" if self.sees(",") else "entropy is written H[X], H[X|Y]"
            raise self.error(f"round brackets hold laws, as in H(p || q); {kind}", bracket)
        self.here = start
        p, *models = self.laws()
        self.wants(")", '")"' if models else '"||" or ")"')
        return total((Fraction(1), CrossEntropy(p, model)) for model in models) if models else _own_entropy(p)

    def laws(self) -> list[Law]:
        """p, and behind ‖ the laws whose product it is measured by: the logarithm of a product is a sum."""
        found = [self.law()]
        if self.takes(*_PARALLEL):
            found.append(self.law())
            while self.takes(*_TIMES) or self.sees_name():
                found.append(self.law())
        return found

    def law(self, name: str = "") -> Law:
        column = self.column
        name = spelled(name or self.wants_name("a law (p, or p(X | y))"))
        if not self.takes("("):
            return Law(name)
        of, given = self.group(), self.given()
        self.wants(")", '"," or ")"' if given else '",", "|" or ")"')
        self.refuse_clash((*of, *given), column)
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
        if self.takes("["):
            body = self.sum()
            self.wants("]", '"+", "-" or "]"')
        else:
            body = self.nested(self.quantity)
        for atom in atoms_of(body):
            if atom.name in bound and not atom.tied:
                raise self.error(
                    f"{atom} is averaged over here; inside, write its outcome {tied_name(atom.name)}", column
                )
        return Expectation(Law(law.name, group(Atom(atom.name, tied=True) for atom in law.of), law.given), body)

    def given(self) -> Group:
        return self.group() if self.takes_bar() else ()

    def takes_bar(self) -> bool:
        return not self.sees("||") and self.takes("|", "∣") is not None

    def group(self) -> Group:
        atoms = [self.atom()]
        while self.takes(","):
            atoms.append(self.atom())
        return group(atoms)

    def atom(self) -> Atom:
        column = self.column
        word = self.wants_name(_A_VARIABLE)
        name = variable_of(word)
        if name is None:
            raise self.error(f'expected {_A_VARIABLE}, found "{word}", whose first letter has no two cases', column)
        if not self.takes("="):
            return Atom(name, tied=spelled(word) != name)
        return Atom(name, tied=True, outcome=self.outcome(name))

    def outcome(self, name: str) -> Outcome | None:
        """What stands behind X=: a number, a word or quoted text; None where it is x, the outcome as a symbol."""
        column = self.column
        if (quoted := self.quoted()) is not None:
            return quoted
        if (word := self.name()) is not None:
            return None if spelled(word) == tied_name(name) else word
        sign = -1 if self.takes(*_MINUS) else 1
        digits = self.number()
        if digits is None:
            raise self.expected('an outcome (3, cat or "a cat")')
        value = sign * (int(digits) if digits.isdigit() else float(digits))
        if math.isinf(value):
            raise self.error("expected an outcome that is a finite number", column)
        return value

    def refuse_clash(self, atoms: Group, column: int) -> None:
        if why := clash(atoms):
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
