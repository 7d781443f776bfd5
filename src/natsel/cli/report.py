"""`natsel report`: the page of an experiment, finished or still running."""

from pathlib import Path
from typing import Annotated

import typer

from natsel.cli.output import print_json
from natsel.cli.run import print_result

NAME = "report"
EXAMPLE = "Example: natsel report runs/digits --open"


def command(
    folder: Annotated[Path, typer.Argument(help="The folder of an experiment that natsel run made.")],
    out: Annotated[Path | None, typer.Option(help="Write the page here instead of into the folder.")] = None,
    open_it: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Write one self-contained HTML page about an experiment: curves, labels saved, what was picked and why."""
    from natsel.experiments.results.publish import publish

    published = publish(folder, out)
    if as_json:
        print_json(published.as_dict())
    else:
        print_result(published)
    if open_it:
        import webbrowser

        webbrowser.open(published.page.resolve().as_uri())
