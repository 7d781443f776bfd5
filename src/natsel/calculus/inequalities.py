"""Inequalities: a form that is a sum of terms none of which can be negative, found by a linear programme.

    KL(p(A | C, t) ‖ q(A | C')) ≥ 0,  C' ⊆ C ∪ T     Gibbs: mutual information, surprise and divergences of models
    E[−ln p(A | C)] ≥ 0                              discrete variables only

With single variables A these generate all others. The weights that the programme finds are made fractions, and their
sum is compared with the form exactly: what is called proved does not rest on floating point.
docs/theory/information-quantities.md, 7; Yeung 1997.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

from natsel.calculus.canonical import EVERYTHING, Assumption, Form, Key, Tie, normalised_key, under_assumptions
from natsel.calculus.expressions import Atom

MOST_VARIABLES = 5
_MOST_TERMS = 20_000


@dataclass(frozen=True)
class Term:
    """A quantity that is never negative, as people write it and as a form."""

    text: str
    form: Form


def sum_of_never_negative(form: Form, assume: tuple[Assumption, ...] = (), discrete: bool = True) -> str | None:
    """The form as a sum of terms that are never negative, written out; None where none was found.

    >>> from natsel.calculus import canonical, parse
    >>> sum_of_never_negative(canonical(parse("H[X] - H[X | Y]")))
    'I[X; Y]'
    """
    constant = math.fsum(
        float(factor) * (math.log(key.prime) if key.prime > 1 else 1.0)
        for key, factor in form.items()
        if key.is_constant
    )
    form = {key: factor for key, factor in form.items() if not key.is_constant}
    if constant < -1e-12:
        return None
    if not form:
        return "a constant"
    if len({name for key in form for name in key.inside | key.tied_names}) > MOST_VARIABLES:
        return None
    terms: list[Term] = []
    for term in never_negative_terms(form, assume, discrete):
        if term.form:
            terms.append(term)
        if len(terms) > _MOST_TERMS:
            return None
    weights = _exact_weights(form, terms)
    if weights is None:
        return None
    return " + ".join(("" if weight == 1 else f"{weight} ") + terms[index].text for index, weight in weights.items())


def _exact_weights(form: Form, terms: list[Term]) -> dict[int, Fraction] | None:
    """Non-negative weights with which the terms sum to the form, exactly."""
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    rows = {
        key: row for row, key in enumerate({key: None for each in (form, *(t.form for t in terms)) for key in each})
    }
    entries = [
        (rows[key], column, float(factor)) for column, term in enumerate(terms) for key, factor in term.form.items()
    ]
    if not entries:
        return None
    row, column, value = zip(*entries, strict=True)
    target = [0.0] * len(rows)
    for key, factor in form.items():
        target[rows[key]] = float(factor)
    # The smallest weights, and of equals those with the shortest names: a proof that can be read.
    cost = [1.0 + 0.001 * len(term.text) for term in terms]
    matrix = coo_array((value, (row, column)), shape=(len(rows), len(terms))).tocsr()
    found = linprog(cost, A_eq=matrix, b_eq=target, bounds=(0, None), method="highs-ds")
    if found.status != 0:
        return None
    weights = {index: Fraction(float(x)).limit_denominator(1000) for index, x in enumerate(found.x) if x > 1e-7}
    total: defaultdict[Key, Fraction] = defaultdict(Fraction)
    for index, weight in weights.items():
        for key, factor in terms[index].form.items():
            total[key] += weight * factor
    exact = {key: factor for key, factor in total.items() if factor} == form and min(weights.values(), default=1) > 0
    return weights if exact else None


def never_negative_terms(form: Form, assume: tuple[Assumption, ...] = (), discrete: bool = True) -> Iterator[Term]:
    """All terms over the variables, outcomes and laws of a form.

    >>> [term.text for term in never_negative_terms({Key(frozenset("X")): Fraction(1)})]
    ['H[X]']
    """
    names = sorted({name for key in form for name in key.inside | key.tied_names})
    ties = sorted({tie for key in form for tie in key.tied}, key=repr)
    models = sorted({key.model for key in form} | {"p"})
    samplers = sorted({key.sampler for key in form} | {"p"})
    for some in _subsets(ties):
        tied = frozenset(some)
        fixed = frozenset(name for name, _ in tied)
        if len(fixed) < len(tied):
            continue  # two outcomes of one variable never happen together
        for sampler in samplers:
            for a in names:
                for rest in _subsets(name for name in names if name != a):
                    behind = frozenset(rest)
                    if discrete:
                        for model in models:
                            yield _surprisal_term(a, behind, tied, model, sampler, assume)
                    if a in fixed or not fixed <= behind:
                        continue
                    for known in _subsets(rest):
                        for model in models:
                            if model != sampler or len(known) < len(behind):
                                yield _divergence_term(a, behind, frozenset(known), tied, model, sampler, assume)


def _subsets(items: Iterable[Tie] | Iterable[str]) -> Iterator[tuple]:  # type: ignore[type-arg]
    listed = list(items)
    for size in range(len(listed) + 1):
        yield from combinations(listed, size)


def _form(parts: list[tuple[int, Key]], assume: tuple[Assumption, ...]) -> Form:
    form: defaultdict[Key, Fraction] = defaultdict(Fraction)
    for sign, key in parts:
        if key.inside:
            for part, factor in under_assumptions(normalised_key(key), assume).items():
                form[part] += sign * factor
    return {key: factor for key, factor in form.items() if factor}


def _surprisal_term(
    a: str, behind: frozenset[str], tied: frozenset[Tie], model: str, sampler: str, assume: tuple[Assumption, ...]
) -> Term:
    """E[−ln model(a | behind)], the law of the sampler tied to `tied`."""
    form = _form([(1, Key(behind | {a}, tied, model, sampler)), (-1, Key(behind, tied, model, sampler))], assume)
    below = "" if model == "p" else f"_{model}"
    fixed = {name for name, _ in tied}
    if fixed <= behind | {a} and sampler == "p":
        return Term(f"H{below}[{_atoms_text([a], tied)}{_given_text(behind, tied)}]", form)
    # The law knows more than the logarithm speaks of: an expectation that has to be written out.
    free = (behind | {a}) - fixed
    symbols = tied | {(name, None) for name in free}
    inside = f"H{below}[{_atoms_text([a], symbols)}{_given_text(behind, symbols)}]"
    law = f"{sampler}({_atoms_text(free, symbols)}{_given_text(fixed, tied)})"
    return Term(f"E_{{{law}}}[{inside}]" if free else inside, form)


def _divergence_term(
    a: str,
    behind: frozenset[str],
    known: frozenset[str],
    tied: frozenset[Tie],
    model: str,
    sampler: str,
    assume: tuple[Assumption, ...],
) -> Term:
    """E[KL(sampler(a | behind) ‖ model(a | known))], `tied` among what stands behind."""
    parts = [
        (1, Key(known | {a}, tied, model, sampler)),
        (-1, Key(known, tied, model, sampler)),
        (-1, Key(behind | {a}, tied, sampler, sampler)),
        (1, Key(behind, tied, sampler, sampler)),
    ]
    form = _form(parts, assume)
    fixed = {name for name, _ in tied}
    if a == EVERYTHING and not behind:
        return Term(f"KL({sampler} || {model})", form)
    if model == sampler == "p" and fixed <= known:
        return Term(f"I[{a}; {_atoms_text(behind - known, tied)}{_given_text(known, tied)}]", form)
    if model == sampler == "p" and behind == fixed:
        return Term(f"I[{_atoms_text(behind - known, tied)}; {a}{_given_text(known, tied)}]", form)
    left = f"{sampler}({a}{_given_text(behind, tied)})"
    return Term(f"KL({left} || {model}({a}{_given_text(known, tied)}))", form)


def _atoms_text(names: Iterable[str], tied: Iterable[Tie]) -> str:
    outcomes = dict(tied)
    texts = (str(Atom(name, True, outcomes[name])) if name in outcomes else name for name in sorted(names))
    return ", ".join(texts)


def _given_text(names: Iterable[str], tied: Iterable[Tie]) -> str:
    written = _atoms_text(names, tied)
    return f" | {written}" if written else ""
