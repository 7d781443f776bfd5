"""`natsel journal copy | check | export`: back up a run, see whether it is sound, take its labels out."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from natsel.cli.output import print_json, say

if TYPE_CHECKING:
    from natsel.store import Report

NAME = "journal"
EXAMPLE = "Example: natsel journal copy run.db backup.db"

app = typer.Typer(help="Copy, check or export the journal of a run.", rich_markup_mode="rich")
File = Annotated[Path, typer.Argument(help="The journal: the file given to a learner as store.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


@app.callback(invoke_without_command=True)
def _journal(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command("copy", epilog=EXAMPLE)
def copy(
    journal: File,
    path: Annotated[Path, typer.Argument(help="The copy, a new file.")],
    as_json: Json = False,
) -> None:
    """Copy a journal and its artefacts, also while learners write to it, and check the copy."""
    from natsel.store import Journal

    with Journal(journal, create=False) as opened:
        report = opened.copy(path)
    if as_json:
        print_json(_plain(report))
        return
    say(f"{journal} is copied to {path}: {_counts(report)}")
    _tell_notes(report)


@app.command("check", epilog="Example: natsel journal check run.db")
def check(journal: File, as_json: Json = False) -> None:
    """Check every part of a journal and its artefacts; exit code 1 if it is damaged, 2 if it cannot be opened."""
    from natsel.store import Journal

    with Journal(journal, create=False, check=False) as opened:
        report = opened.check()
    if as_json:
        print_json(_plain(report))
    elif report.sound:
        say(f"{journal} is sound: {_counts(report)}, all as written")
        _tell_notes(report)
    else:
        for problem in report.problems:
            say(f"{journal} is damaged: {problem}")
        say(f"safe: entries up to {report.whole} are as written" if report.whole else "safe: not known")
        say(f"keep the file, take a backup, or: natsel journal export {journal} labels.csv --damaged")
    if not report.sound:
        raise typer.Exit(1)


@app.command("export", epilog="Example: natsel journal export run.db labels.csv")
def export(
    journal: File,
    path: Annotated[Path, typer.Argument(help="A .csv or .json file for the labels.")],
    damaged: Annotated[
        bool,
        typer.Option("--damaged", help="Take what can be read from a damaged journal; a column says what is sound."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Write every label ever told: id, value, class, who, when, which batch it answers, superseded or not."""
    from natsel.store import Journal
    from natsel.store.exporting import salvage

    try:
        with Journal(journal, create=False) as opened:  # first, for it also mends what was cut off in mid-write
            count = opened.export(path)
    except ValueError:
        if not damaged:
            raise
        count = salvage(journal, path)
    if as_json:
        print_json({"journal": str(journal), "path": str(path), "labels": count})
    else:
        say(f"{count} labels of {journal} are in {path}")


def _counts(report: "Report") -> str:
    parts = {"run": report.runs, "label": report.labels, "artefact": report.artefacts}
    words = [f"{count} {name}{'' if count == 1 else 's'}" for name, count in parts.items()]
    return f"{words[0]}, {words[1]} in {report.entries} entries, {words[2]}"


def _tell_notes(report: "Report") -> None:
    for note in report.notes:
        say(note)


def _plain(report: "Report") -> dict[str, Any]:
    return {**asdict(report), "path": str(report.path), "sound": report.sound}
