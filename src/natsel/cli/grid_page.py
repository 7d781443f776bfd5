"""`docs/grid.md`: objectives × beliefs, and the named methods, as two tables in Markdown, printed from the registry."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from natsel.beliefs import Belief
    from natsel.choose import Method
    from natsel.objectives import Objective

_HEAD = """# The grid

A method is an objective, read from a belief, maximised by a search. `natsel methods --markdown` prints this page.

## Objectives × beliefs

exact: the score is the quantity. ≤ or ≥: it is a bound, below or above it. ≈: the quantity of the normal with the same
moments. ●: a score that is no information quantity. An empty cell: the objective cannot be read from that belief.

"""
_NAMED = """
## Named methods

Each is one objective with one search, on the beliefs of its row above that offer what the search needs. Any other pair
is `natsel.Method(objective, search)`, and is accepted wherever a name is.

"""


def grid_page() -> str:
    """The page.

    >>> grid_page().startswith("# The grid")
    True
    """
    from natsel import methods
    from natsel.objectives import SERVES

    beliefs = sorted({belief for _, belief in SERVES}, key=lambda belief: belief.__name__)
    objectives = sorted({objective for objective, _ in SERVES}, key=lambda objective: objective.__name__)
    cells = [
        [objective.__name__, f"`{objective.facts.quantity}`", *(_cell(objective, belief) for belief in beliefs)]
        for objective in objectives
    ]
    found = sorted(methods().values(), key=lambda method: method.name)
    head = ["objective", "quantity", *(belief.__name__ for belief in beliefs)]
    named = _table(["method", "objective", "search", "needs", "source"], [_row(method) for method in found])
    return _HEAD + _table(head, cells) + _NAMED + named


def _cell(objective: "type[Objective]", belief: "type[Belief]") -> str:
    """What the score of an objective is on a belief."""
    from natsel.objectives import offers

    facts = objective.facts
    if offers(objective, belief) is None:
        return ""
    if facts.expression is None:
        return "●"
    if belief in facts.approximate:
        return "≈"
    own = [bound for bound in facts.bounds if bound.expression == facts.expression and bound.holds(belief)]
    return {"lower": "≤", "upper": "≥"}[own[0].direction] if own else "exact"


def _row(method: "Method") -> list[str]:
    facts, search = method.facts, method.search
    beta = getattr(search, "beta", None)
    needs = [name for name, needed in (("labels", facts.needs_labels), ("targets", facts.needs_targets)) if needed]
    return [
        f"`{method.name}`",
        type(method.objective).__name__,
        type(search).__name__ + ("" if beta is None else f", β = {beta:g}"),
        ", ".join(needs),
        method.source,
    ]


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
