"""Evaluating an expression on a joint distribution.

    value = Σ factor · leaf        each leaf once, in float64, in nats or bits

+∞ where it belongs; an outcome of probability 0, and +∞ − ∞, raise ZeroProbabilityOutcome or give NaN. Rounding is
left as it is: a quantity that cannot be negative may come out as −1e-16.
docs/theory/information-quantities.md, 10.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from torch import Tensor

from natsel.calculus.discrete_joint import DiscreteJoint, align_model
from natsel.calculus.expansion import expand, leaves, with_bare_laws_filled
from natsel.calculus.expressions import Atom, Expression, Group, I, Sum, atoms_of, free_atoms, models_of, tied_name
from natsel.calculus.formatting import name_of
from natsel.calculus.gaussian_joint import GaussianJoint, evaluate_on_gaussian
from natsel.calculus.leaf_values import Errors, LogTables, context_of, evaluate_leaves, outcomes_by_variable
from natsel.calculus.parser import parse
from natsel.calculus.predictive_joint import PredictiveJoint, evaluate_on_draws

Unit = Literal["nats", "bits"]


@dataclass(frozen=True)
class Result:
    """The value of an expression, and warnings for those who read it."""

    value: float | Tensor
    expression: Expression
    warnings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What the quantity is called; empty for sums."""
        return name_of(self.expression)

    @property
    def expansion(self) -> Expression:
        """The entropies that the expression is a sum of."""
        return expand(self.expression)


def evaluate(
    expression: Expression | str,
    joint: Any,
    *,
    at: Mapping[str, Any] | None = None,
    labels: Any = None,
    q: Any = None,
    unit: Unit = "nats",
    errors: Errors = "raise",
) -> Result:
    """The value of an expression on a joint distribution or a belief, exactly.

    `at` gives the outcome of every lower-case name: one outcome, ALL of them (one axis of the result for each name, in
    the order in which the expression has them), or several (one axis, the first, for all of those); `labels` gives
    those of the points of a belief. `q` gives the laws other than p: a joint or a non-negative table, or a dict of
    these by name.

    >>> from natsel.calculus import ALL
    >>> joint = DiscreteJoint.from_probs("XY", [[0.9, 0.05], [0.0, 0.05]])
    >>> round(evaluate("I[X;y]", joint, at={"y": 1}).value, 6)
    -0.494632
    >>> evaluate("I[y;X]", joint, at={"y": ALL}, unit="bits").value
    tensor([0.0740, 1.1980], dtype=torch.float64)
    """
    tree = parse(expression) if isinstance(expression, str) else expression
    if not isinstance(tree, Expression):
        raise ValueError(f"expression: found {type(tree).__name__}; pass a text such as 'I[X;Y]', or what parse gives")
    if unit not in ("nats", "bits"):
        raise ValueError(f"unit: found {unit!r}; pass 'nats' or 'bits'")
    if errors not in ("raise", "nan"):
        raise ValueError(f"errors: found {errors!r}; pass 'raise' or 'nan'")
    asked, models = outcomes_by_variable(at or {}), _models(tree, q)
    warnings: tuple[str, ...] = ()
    if isinstance(joint, DiscreteJoint | GaussianJoint):
        if labels is not None:
            raise ValueError("labels: they belong to the points of a belief; on a joint pass outcomes as at={...}")
        on = _evaluate_on_table if isinstance(joint, DiscreteJoint) else evaluate_on_gaussian
        value = on(tree, joint, asked, models, errors)  # type: ignore[arg-type]
    else:
        value, warnings = evaluate_on_draws(tree, PredictiveJoint.of(joint), asked, labels, models, errors)
    if unit == "bits":
        value = value / math.log(2)
    return Result(value if value.dim() else float(value), tree, (*warnings, *_warnings_for(tree, value)))


def _models(tree: Expression, q: Any) -> dict[str, Any]:
    """The laws other than p that the expression names, each with what was passed for it."""
    wanted = list(models_of(tree))
    given = q if isinstance(q, Mapping) else {} if q is None else dict.fromkeys(wanted[:1], q)
    if q is not None and not isinstance(q, Mapping) and len(wanted) > 1:
        raise ValueError(f"q: the expression names {', '.join(wanted)}; pass a dict with a table for each")
    for name in wanted:
        if name not in given:
            raise ValueError(f"q: the expression names a law {name}; pass q=table, or q={{{name!r}: table}}")
    return {name: given[name] for name in wanted}


def _evaluate_on_table(
    tree: Expression, joint: DiscreteJoint, asked: Mapping[str, Any], models: Mapping[str, Any], errors: Errors
) -> Tensor:
    if joint.is_measure:
        raise ValueError("joint: found a measure, over which nothing can be averaged; make it a joint with from_counts")
    laws: dict[str, LogTables] = {"p": joint, **{name: align_model(name, q, joint) for name, q in models.items()}}

    def everything() -> Group:
        for name, q in models.items():
            if isinstance(q, DiscreteJoint) and set(q.names) != set(joint.names):
                found = f"is over {', '.join(q.names)}, p over {', '.join(joint.names)}"
                raise ValueError(f"{name}: {found}; say which are meant, as in KL(p(X) || {name}(X))")
        return tuple(Atom(name) for name in joint.names)

    tree = with_bare_laws_filled(tree, everything)
    context, shape = context_of(tree, laws, asked)

    def describe(places: Mapping[str, int], _: list[int]) -> str:
        found = [f"{tied_name(name)}={joint.label(name, place)}" for name, place in places.items()]
        return f" at {', '.join(found)}" if found else ""

    found = leaves(tree)
    cells = max((_cells(leaf, joint) for leaf in found), default=1)
    return evaluate_leaves(found, context, shape, errors, 32 * cells * math.prod(shape[1:]), describe)


def _cells(leaf: Expression, joint: DiscreteJoint) -> int:
    """How many numbers a leaf is averaged over, at most, for one set of outcomes."""
    free = {atom.name for atom in free_atoms(leaf) if atom.tied}
    return math.prod(joint.size(name) for name in {atom.name for atom in atoms_of(leaf)} - free)


def _warnings_for(tree: Expression, value: Tensor) -> tuple[str, ...]:
    terms = tree.terms if isinstance(tree, Sum) else ((Fraction(1), tree),)
    interaction = len(terms) == 1 and isinstance(terms[0][1], I) and len(terms[0][1].groups) > 2
    if interaction and bool((float(terms[0][0]) * value < -1e-12).any()):
        return ("negative interaction: inequalities cannot be read off a diagram of these variables",)
    return ()
