"""`natsel data`: which data sets there are, what is known of each, and a way to fetch one from its public home."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from natsel.cli.idle_options import refuse_idle
from natsel.cli.output import console, print_json, say

if TYPE_CHECKING:
    from rich.console import RenderableType

    from natsel.data import CatalogueEntry

NAME = "data"
EXAMPLE = "Example: natsel data   then   natsel data mnist   then   natsel data get mnist"

Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]


class _Group(TyperGroup):
    """A word that is no command is the name of a data set."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        return super().resolve_command(ctx, args if args[0] in self.commands else ["show", *args])


app = typer.Typer(
    cls=_Group,
    help="List the data sets, show one in full (natsel data NAME), or fetch one from its public home.",
    rich_markup_mode="rich",
    subcommand_metavar="[NAME | get NAME...]",
)


@app.callback(invoke_without_command=True)
def _data(
    context: typer.Context,
    as_json: Json = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the tables of docs/data.md.")] = False,
) -> None:
    if context.invoked_subcommand is not None:
        refuse_idle(context, "it is for the list, and is of no use before a name", "as_json", "markdown")
        return
    if markdown:
        refuse_idle(context, "it changes nothing beside --markdown", "as_json")
    from natsel.data import catalogue

    entries = catalogue()
    if markdown:
        from natsel.cli.data_page import data_tables

        typer.echo(data_tables(entries), nl=False)
    elif as_json:
        print_json([describe(entry) for entry in entries.values()])
    else:
        shown = console()
        for entry in entries.values():
            shown.print(_line(entry))
        here = sum(entry.paths is not None for entry in entries.values())
        shown.print(
            f"{len(entries)} data sets, {here} of them here; natsel data NAME shows one in full, natsel data get NAME "
            "fetches one",
            style="dim",
        )


@app.command("show", hidden=True, epilog="Example: natsel data mnist --check")
def show(
    name: Annotated[str, typer.Argument(help="The data set.")],
    check: Annotated[
        bool, typer.Option("--check", help="Compare its files with those that natsel's results were made with.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show one data set in full: what it is, its licence and home, its files, arrays and checksums."""
    from natsel.data import catalogue
    from natsel.data.fetching import is_as_published
    from natsel.data.load import origin_of

    origin_of(name)  # refuses a name that is not known
    entry = catalogue()[name]
    facts = describe(entry)
    if check:
        facts["as_published"] = is_as_published(name)
    if as_json:
        print_json(facts)
        return
    console().print(_card(entry, facts.get("as_published")))


@app.command("get", epilog="Example: natsel data get mnist")
def get(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="One data set, or several.")],
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="URL",
            help="Take it from here: a folder, on the web (ends with /) or on this machine, with the files of its "
            "public home, or the file itself where it is only one.",
        ),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Keep it in this folder; in natsel's cache folder if not given.")
    ] = None,
    unchecked: Annotated[
        bool, typer.Option("--unchecked", help="Keep it even if natsel's results were made with something else.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Fetch data sets from their public homes, check them and keep them where natsel looks for them.

    An interrupted download goes on where it stopped. Without this command no data is ever fetched.
    """
    from natsel.data import catalogue, fetch
    from natsel.data.load import origin_of

    if source is not None and len(names) > 1:
        raise ValueError(f"--from: one place is given for {len(names)} data sets; fetch them one by one")
    for name in names:
        origin_of(name)  # refuses a name that is not known before anything is fetched
    fetched = []
    for name in names:
        new = catalogue(folder)[name].paths is None
        paths = fetch(name, url=source, folder=folder, check=not unchecked)
        fetched.append({"name": name, "fetched": new, "paths": [str(path) for path in paths]})
        if not as_json:
            where = ", ".join(map(str, paths))
            checked = "not checked" if unchecked else "the same as natsel's results were made with"
            say(
                f"{name} is in {where}: {checked}; licence: {origin_of(name).licence}"
                if new
                else f"{name} is here already: {where}"
            )
    if as_json:
        print_json(fetched)


def describe(entry: "CatalogueEntry") -> dict[str, Any]:
    """A data set as plain values."""
    origin = entry.origin
    return {
        "name": entry.name,
        "kind": entry.kind,
        "about": entry.about,
        "rows": origin.rows,
        "megabytes": origin.megabytes,
        "licence": origin.licence,
        "home": origin.home,
        "always_there": origin.download is None,
        "paths": None if entry.paths is None else [str(path) for path in entry.paths],
        "files": {f"{file}.npz": dict(arrays) for file, arrays in origin.files.items()},
        "bundle": origin.bundle and f"{origin.bundle}.npz",
        "sha256": origin.digest or None,
        "addresses": list(origin.download.addresses) if origin.download else [],
        "originals": dict(origin.download.files) if origin.download else {},
    }


def _line(entry: "CatalogueEntry") -> "RenderableType":
    """One data set of the list: its name and what it is, then the facts."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    origin = entry.origin
    size = [] if origin.download is None else [f"{max(origin.megabytes, 0.1):.1f} MB"]
    facts = " · ".join([entry.kind, f"{origin.rows:,} rows", *size, origin.licence, origin.home])
    if entry.paths is None:
        where = Text(f"not here: natsel data get {entry.name}", "yellow")
    elif entry.paths:
        where = Text(f"here: {', '.join(sorted({str(path.parent) for path in entry.paths}))}", "green")
    else:
        where = Text("always there", "green")
    head = Text.assemble((entry.name, "bold"), "  ", entry.about)
    indented = (Padding(text, (0, 0, 0, 4), expand=False) for text in (Text(facts, "dim"), where))
    return Group(head, *indented)


def _card(entry: "CatalogueEntry", as_published: bool | None) -> "RenderableType":
    from rich.table import Table

    origin, download = entry.origin, entry.origin.download
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="bold")
    table.add_column(ratio=1, overflow="fold")
    table.add_row(entry.name, f"{entry.about} ({entry.kind})")
    table.add_row("rows", f"{origin.rows:,}")
    table.add_row("licence", origin.licence)
    table.add_row("home", origin.home)
    if download is None:
        table.add_row("here", "always")
        return table
    if entry.paths is None:
        table.add_row("here", f"no; natsel data get {entry.name} fetches it")
    for path in entry.paths or ():
        table.add_row("here", str(path))
    if as_published is not None:
        same = "the arrays that natsel's results were made with"
        table.add_row("checked", same if as_published else f"not {same}")
    table.add_row("size", f"about {origin.megabytes:g} MB")
    for file, arrays in origin.files.items():
        table.add_row(f"{file}.npz", ", ".join(f"{key} {shape}" for key, shape in arrays.items()))
    if origin.bundle:
        table.add_row("", f"or the same arrays in {origin.bundle}.npz")
    table.add_row("SHA-256", f"{origin.digest} (of these arrays)")
    table.add_row("fetched from", "\n".join(download.addresses))
    sums = (f"{file}  MD5 {md5}" if md5 else file for file, md5 in download.files.items())
    table.add_row("originals", "\n".join(sums))
    return table
