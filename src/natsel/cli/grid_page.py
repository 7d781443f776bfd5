"""`docs/grid.md`: objectives × beliefs, and the named methods, as two tables in Markdown, printed from the registry."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from natsel.beliefs import Belief
    from natsel.choose import Method
    from natsel.objectives import Objective

_HEAD = """# The grid

A method is an objective, read from a belief, maximised by a search. `natsel methods --markdown` prints this page.

## Objectives × beliefs

exact: the score is the quantity. ≤ or ≥: it is a bound, below or above it. ≈: an approximation of the quantity. ●: a
score that is no information quantity. In brackets: the belief is read as another one on the way (`Belief.views()`), and
what is approximated there is named in the warnings of the selection. An empty cell: the objective cannot be read from
that belief.

"""
_NAMED = """
## Named methods

Each is one objective with one search, on the beliefs of its row above that offer what the search needs. Any other pair
is `natsel.Method(objective, search)`, and is accepted wherever a name is; `natsel.register` gives it a name.

"""
_CELLS = {"exact": "exact", "lower": "≤", "upper": "≥", "approximate": "≈"}


def grid_page() -> str:
    """The page.

    >>> grid_page().startswith("# The grid")
    True
    """
    from natsel.beliefs.base import kinds
    from natsel.choose import METHODS
    from natsel.objectives import READINGS

    own = [belief for belief in kinds() if belief.__module__.startswith("natsel.")]
    beliefs = sorted(own, key=lambda belief: belief.__name__)
    objectives = sorted(READINGS, key=lambda objective: objective.__name__)
    cells = [
        [objective.__name__, f"`{objective.facts.quantity}`", *(_cell(objective, belief) for belief in beliefs)]
        for objective in objectives
        if objective.__module__.startswith("natsel.")
    ]
    found = sorted(METHODS.values(), key=lambda method: method.name)
    head = ["objective", "quantity", *(belief.__name__ for belief in beliefs)]
    rows = [_row(method) for method in found if type(method.objective).__module__.startswith("natsel.")]
    named = _table(["method", "objective", "search", "needs", "source"], rows)
    return _HEAD + _table(head, cells) + _NAMED + named


def _cell(objective: "type[Objective]", belief: "type[Belief]") -> str:
    """What the score of an objective is on a belief."""
    from natsel.objectives import route

    found = route(objective, belief)
    if found is None:
        return ""
    cell = "●" if objective.facts.expression is None else _CELLS[found.reading.facts.guarantee]
    return f"({'≈' if found.warnings and cell == 'exact' else cell})" if found.views else cell


def _row(method: "Method") -> list[str]:
    search = method.search
    beta = getattr(search, "beta", None)
    return [
        f"`{method.name}`",
        type(method.objective).__name__,
        type(search).__name__ + ("" if beta is None else f", β = {beta:g}"),
        ", ".join(method.needs.words),
        method.source,
    ]


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
