"""`natsel report`: the page of an experiment or of a labelling campaign, finished or still running."""

from pathlib import Path
from typing import Annotated

import typer

from natsel.cli.idle_options import refuse_idle
from natsel.cli.output import print_json, say
from natsel.cli.run import print_result

NAME = "report"
EXAMPLE = (
    "Example: natsel report runs/digits --open   or   natsel report run.db --pictures images   or   natsel report"
    " runs/digits --figures figures --format svg,csv"
)


def command(
    context: typer.Context,
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="PATH", help="A folder that natsel run made, or the journal of a learner: the file given as store."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="Write the page here instead of into the folder or beside the journal.")
    ] = None,
    run: Annotated[str | None, typer.Option(metavar="NAME", help="Of a journal: which of several runs.")] = None,
    pictures: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Of a journal: show ids that are names of image files below this folder."),
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Also write learning curves and labels saved as files here.")
    ] = None,
    formats: Annotated[
        str,
        typer.Option("--format", help="Of the figures: svg, pdf (needs matplotlib) or csv, or several with commas."),
    ] = "svg",
    open_it: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Write one self-contained HTML page: curves, labels saved, what was picked and why.

    A folder of runs becomes the page of an experiment, a journal the page of a labelling campaign.
    """
    from natsel.experiments.report.any_report import is_journal

    if is_journal(folder):
        refuse_idle(context, f"{folder} is a journal, and figures compare methods", "figures")
        _open(_report_campaign(folder, out, run, pictures, as_json), open_it)
        return
    refuse_idle(context, f"{folder} is no journal of a learner; name the file", "run", "pictures")
    from natsel.experiments.results.publish import publish

    kinds = [one.strip() for one in formats.split(",") if one.strip()]
    if figures is not None:
        from natsel.experiments.report.figure_files import refuse_formats, write_figures

        refuse_formats(kinds)  # before the page is written
    published = publish(folder, out)
    written = []
    if figures is not None:
        found = published.variants or {"": published}
        experiments = {name: one.experiment for name, one in found.items() if one.experiment is not None}
        if not experiments:
            raise ValueError(f"figures: {folder} holds a study, which has no learning curves; leave --figures out")
        written = write_figures(experiments, figures, kinds)
    if as_json:
        print_json(published.as_dict() | ({"figures": [str(path) for path in written]} if written else {}))
    else:
        print_result(published)
        for path in written:
            say(f"wrote {path}")
    _open(published.page, open_it)


def _report_campaign(journal: Path, out: Path | None, run: str | None, pictures: Path | None, as_json: bool) -> Path:
    """Write the page of a run in a journal, and say where the campaign stands."""
    from natsel.experiments.report.any_report import report_campaign

    made = report_campaign(journal, out, run=run, pictures=pictures)
    if as_json:
        campaign = made.campaign
        counts = {"labels": campaign.values, "outstanding": campaign.outstanding, "skipped": campaign.skipped}
        last = next((one.metrics for one in reversed(campaign.rounds) if one.metrics), {})
        print_json(
            {"journal": str(journal), "run": campaign.run.name, "sentence": made.sentence, "report": str(made.page)}
            | {name: len(found) for name, found in counts.items()}
            | {"metrics": dict(last)}
        )
    else:
        say(made.sentence)
        say(f"The report: {made.page}")
    return made.page


def _open(page: Path, wanted: bool) -> None:
    if wanted:
        import webbrowser

        webbrowser.open(page.resolve().as_uri())
