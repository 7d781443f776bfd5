"""`natsel methods`: seven to start with, or the whole grid of objectives and searches, printed from the registry."""

from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from natsel.cli.output import console, print_json

if TYPE_CHECKING:
    from rich.console import RenderableType

    from natsel import Belief, Method
    from natsel.objectives import Bound

NAME = "methods"
EXAMPLE = "Example: natsel methods --all"
# Where a table of three columns leaves room for words in the third.
_WIDE = 72


def command(
    every: Annotated[bool, typer.Option("--all", help="Print every method with its facts.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print every method as one JSON array and nothing else.")
    ] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the two tables of docs/grid.md.")] = False,
) -> None:
    """Show seven methods to start with; with --all every method: its objective and search, what it needs, guarantees
    and costs, and where it comes from.
    """
    import natsel

    if markdown:
        from natsel.cli.grid_page import grid_page

        typer.echo(grid_page(), nl=False)
        return
    entries = [describe(method) for method in natsel.methods().values()]
    if as_json:
        print_json(entries)
        return
    shown = console()
    if not every:
        shown.print(_recommendations(len(entries)))
        return
    cards: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        cards.setdefault(entry["objective"], []).append(entry)
    for card in cards.values():
        shown.print(_card(card, shown.width))
    shown.print(f"{len(entries)} methods; objective × search, each read from the beliefs it names", style="dim")


def _recommendations(count: int) -> "RenderableType":
    """Methods to start with: the name and when to use it."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from natsel.choose.recommended import RECOMMENDED

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="bold")
    table.add_column(ratio=1)
    for one in RECOMMENDED:
        table.add_row(one.name, Text(one.when))
    more = f"natsel methods --all lists all {count}; docs/which-method.md says more about these {len(RECOMMENDED)}."
    return Group(Text("Start with one of these:\n"), table, Text(f"\n{more}", style="dim"))


def describe(method: "Method") -> dict[str, Any]:
    """A method as plain values."""
    facts = method.facts
    return {
        "name": method.name,
        "objective": type(method.objective).__name__,
        "quantity": facts.quantity,
        "expression": facts.expression,
        "joint_expression": facts.joint_expression(2),
        "jointly": facts.jointly,
        "reason": facts.reason,
        "units": facts.units,
        "needs": method.needs.words,
        "search": type(method.search).__name__,
        "beta": getattr(method.search, "beta", None),
        "parameters": {
            field.name: getattr(part, field.name)
            for part in (method.objective, method.search)
            for field in fields(part)  # type: ignore[arg-type]
        },
        "beliefs": {belief.__name__: _pair(method, belief) for belief in method.beliefs},
        "source": method.source,
        "aliases": list(method.aliases),
        "note": method.note,
    }


def _pair(method: "Method", belief: "type[Belief]") -> dict[str, Any]:
    """What is true of the method's objective on a kind of belief, as plain values."""
    from natsel.objectives import routes

    needs = method.search.needs
    found = next(route for route in routes(type(method.objective), belief) if not needs & ~route.reading.offers)
    facts = found.reading.facts
    return {
        "read_as": [view.kind.__name__ for view in found.views],
        "approximations": list(found.warnings),
        "guarantee": facts.guarantee,
        "why": facts.why,
        "bounds": [_bound(bound) for bound in facts.bounds],
        "needs": facts.needs.words,
        "takes": [word for word in facts.accepts.words if word not in facts.needs.words],
        "monotone": facts.monotone,
        "submodular": facts.submodular,
        "nonnegative": facts.nonnegative,
        "cost": facts.cost,
    }


def _card(entries: list[dict[str, Any]], width: int) -> "RenderableType":
    """The methods of one objective: its facts once, then a row per method, or on a narrow terminal a paragraph."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    first = entries[0]
    together = f", two points {first['joint_expression']}" if first["jointly"] else ""
    head = Text.assemble(
        (first["objective"], "bold cyan"), "  ", (first["expression"] or first["quantity"], "cyan"), together
    )
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="bold", min_width=22)
    table.add_column(no_wrap=True, min_width=14)
    table.add_column(ratio=1)
    rows = [(entry["name"], _search(entry), _about(entry, first["beliefs"])) for entry in entries]
    for row in rows:
        table.add_row(*row)
    narrow = Group(*(Text.assemble((name, "bold"), f" {search}: {about}") for name, search, about in rows))
    facts = Text("\n".join([_facts(first), *_against(first)]), style="dim")
    return Group(head, Padding(facts, (0, 0, 0, 2)), Padding(table if width >= _WIDE else narrow, (0, 0, 1, 2)))


def _bound(bound: "Bound") -> dict[str, Any]:
    """A bound as plain values: the inequality, its sides, where it holds and why."""
    return {
        "inequality": str(bound),
        "expression": bound.expression,
        "direction": bound.direction,
        "vanishes": bound.vanishes,
        "why": bound.why,
    }


def _search(entry: dict[str, Any]) -> str:
    return f"{entry['search']}" + ("" if entry["beta"] is None else f" β={entry['beta']:g}")


def _facts(entry: dict[str, Any]) -> str:
    parts = [
        f"in {entry['units']}" if entry["units"] != "none" else "no units",
        *([f"needs {', '.join(entry['needs'])}"] if entry["needs"] else []),
    ]
    return " · ".join(parts)


def _against(entry: dict[str, Any]) -> list[str]:
    """How the score stands against exact quantities on each belief, beliefs of which the same is true on one line."""
    lines = [] if entry["expression"] else [f"not an information quantity: {entry['reason']}"]
    alike: dict[str, list[str]] = {}
    for belief, pair in entry["beliefs"].items():
        shape = [name for name in ("monotone", "submodular") if pair[name]]
        parts = [
            *([pair["guarantee"] if pair["guarantee"] in ("exact", "approximate") else f"{pair['guarantee']} bound"]
              if entry["expression"] else []),
            *([f"read as {pair['read_as'][-1]}"] if pair["read_as"] else []),
            ", ".join(shape) or "no guarantee for batches",
            f"cost {pair['cost']}",
        ]  # fmt: skip
        alike.setdefault(" · ".join(parts), []).append(belief)
    lines += [f"from {', '.join(beliefs)}: {said}" for said, beliefs in alike.items()]
    for bound in {str(bound): bound for pair in entry["beliefs"].values() for bound in pair["bounds"]}.values():
        both = "; both are 0 at the same points" if bound["vanishes"] else ""
        lines.append(f"{bound['inequality']}: {bound['why']}{both}")
    return lines


def _about(entry: dict[str, Any], usual: dict[str, Any]) -> str:
    parts = [entry["source"]]
    if entry["aliases"]:
        parts.append(f"also {', '.join(entry['aliases'])}")
    if list(entry["beliefs"]) != list(usual):
        parts.append(f"from {', '.join(entry['beliefs'])} only")
    if entry["note"]:
        parts.append(entry["note"])
    return "; ".join(parts)
