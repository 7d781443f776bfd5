"""Identities: whether a statement holds for all distributions.

    equal   proved when both sides have the same canonical form
    <= >=   proved when the difference is a sum of terms that are never negative
    else    refuted by a small counter-example, or open: none was found

A statement speaks of discrete variables, of outcomes that can happen, and of models that sum to one. There are limits:
4,096 entropies in both sides together (an I of 12 variables on each), proofs of inequalities in at most 5 variables,
counter-examples in at most 16. What is beyond the first and the last is refused.
docs/theory/information-quantities.md, 6 and 7.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from natsel.calculus.canonical import Assumption, Determines, Form, Independent, NotReducible, canonical
from natsel.calculus.counterexamples import Counterexample, affordable_trials, counterexample
from natsel.calculus.expansion import leaves
from natsel.calculus.expressions import Expression, H, Statement, models_of, with_data_tied
from natsel.calculus.inequalities import sum_of_never_negative
from natsel.calculus.parser import parse, parse_statement
from natsel.options import Amount

__all__ = ["Counterexample", "Verdict", "equal", "verify"]


@dataclass(frozen=True)
class Verdict:
    """What became of a statement: true in conditions (`if verdict:`) only where it is proved.

    >>> print(equal("H[X,Y]", "H[X] + H[Y|X]"))
    proved: H[X, Y] = H[X] + H[Y | X], since both sides are ε(X, Y)
    """

    statement: Statement
    verdict: Literal["proved", "refuted", "open"]
    reason: str
    counterexample: Counterexample | None = None

    def __bool__(self) -> bool:
        return self.verdict == "proved"

    def __str__(self) -> str:
        shown = f": {self.counterexample}" if self.counterexample else ""
        return f"{self.verdict}: {self.statement}, {self.reason}{shown}"


def equal(
    a: Expression | str,
    b: Expression | str,
    *,
    assume: Iterable[Assumption] | Assumption = (),
    trials: int = 1000,
    seed: Amount = 0,
    discrete: bool = True,
) -> Verdict:
    """Whether two expressions are the same for all distributions (that the assumptions allow); see `verify`.

    >>> bool(equal("I[X;y1,y2]", "I[X;y1] + I[X;y2|y1]")), bool(equal("I[X;y]", "I[y;X]"))
    (True, False)
    """
    left, right = (parse(each) if isinstance(each, str) else each for each in (a, b))
    return verify(Statement(left, "=", right), assume=assume, trials=trials, seed=seed, discrete=discrete)


def verify(
    statement: Statement | str,
    *,
    assume: Iterable[Assumption] | Assumption = (),
    trials: int = 1000,
    seed: Amount = 0,
    discrete: bool = True,
) -> Verdict:
    """Whether `left = right`, `left <= right` or `left >= right` holds for all distributions.

    `trials` is how many distributions to try at most: long statements get fewer, as the verdict says.
    `left != right` is proved by a distribution on which the sides differ: they are not the same quantity. With
    `discrete=False` the variables have densities: entropies may be negative, and counter-examples are normal.

    >>> print(verify("I[y;X] >= 0"))
    proved: I[y; X] >= 0, since the difference is I[y; X], which is never negative
    """
    parsed = parse_statement(statement) if isinstance(statement, str) else statement
    if not isinstance(parsed, Statement):
        raise ValueError(
            f"statement: found {parsed}, which states nothing; write =, <=, >= or != between two quantities"
        )
    if trials < 1:
        raise ValueError(f"trials: found {trials}; allow one trial or more")
    assumptions = (assume,) if isinstance(assume, Determines | Independent) else tuple(assume)
    if not discrete and (assumptions or models_of(parsed.left) or models_of(parsed.right)):
        raise ValueError("discrete: variables with densities allow neither assumptions nor models here; leave them out")
    # D is an outcome where both sides use it as one.
    left, right = with_data_tied(parsed.left, parsed.right)
    relation = "=" if parsed.relation == "!=" else parsed.relation
    reason = _reason_it_holds(Statement(left, relation, right), assumptions, discrete)
    trials = affordable_trials(parsed, trials, discrete)
    found = None if reason else counterexample(Statement(left, relation, right), assumptions, trials, seed, discrete)
    if parsed.relation == "!=" and reason:
        return Verdict(parsed, "refuted", reason)
    if parsed.relation == "!=" and found:
        return Verdict(parsed, "proved", "since the sides differ on a distribution", found)
    if reason:
        return Verdict(parsed, "proved", reason)
    if found:
        return Verdict(parsed, "refuted", "since there is a counter-example", found)
    tried = f"{trials} trials" if trials > 1 else "one trial"
    return Verdict(parsed, "open", f"since no proof was found and no counter-example in {tried}")


def _reason_it_holds(statement: Statement, assumptions: tuple[Assumption, ...], discrete: bool) -> str | None:
    """Why a statement with =, <= or >= holds, or None."""
    if not discrete and any(_conditions_on_its_target(side) for side in (statement.left, statement.right)):
        return None
    try:
        difference = canonical(statement.left - statement.right, assumptions)
    except NotReducible:
        return None
    if not difference:
        try:
            return f"since both sides are {_form_text(canonical(statement.left, assumptions))}"
        except NotReducible:
            return "since what differs cancels inside the expectations"
    if statement.relation == "=":
        return None
    sign = 1 if statement.relation == ">=" else -1
    terms = sum_of_never_negative({key: sign * factor for key, factor in difference.items()}, assumptions, discrete)
    return f"since the difference is {terms}, which is never negative" if terms else None


def _conditions_on_its_target(side: Expression) -> bool:
    """Whether a variable stands on both sides of a bar: H[X | X] is 0, but −∞ for a density."""
    return any(isinstance(leaf, H) and not set(leaf.of).isdisjoint(leaf.given) for leaf in leaves(side))


def _form_text(form: Form) -> str:
    text = ""
    for key, factor in form.items():
        sign = (" - " if factor < 0 else " + ") if text else ("-" if factor < 0 else "")
        number = str(abs(factor)) if key.is_constant and key.prime == 1 else f"{abs(factor)} {key}"
        text += sign + (str(key) if abs(factor) == 1 else number)
    return text or "0"
