"""`natsel bench`: what natsel takes in time and memory, alone and against its peers; `natsel.bench` does the work."""

from pathlib import Path
from typing import Annotated

import typer

from natsel.cli.output import in_lines, print_json, say

NAME = "bench"
EXAMPLE = "Example: natsel bench --setup peers   then   natsel bench quick --python peers/bin/python --out bench.json"


def command(
    case: Annotated[
        str,
        typer.Argument(
            help="Against peers: quick, standard, full, one case, or a file of predictions. Alone: epig, epig-large, "
            "epig-batch, kernel-searches, density, fisher, believe, selective-step, journal or accelerator, "
            "with settings as in epig:points=300,targets=40."
        ),
    ] = "quick",
    python: Annotated[
        str | None, typer.Option(help="An interpreter that has the peers; this one if not given.")
    ] = None,
    setup: Annotated[
        Path | None, typer.Option(help="Install the peers into an environment in this folder, and stop.")
    ] = None,
    threads: Annotated[int, typer.Option(help="Threads that each process may use.")] = 1,
    repeat: Annotated[
        int | None, typer.Option(help="Runs of each contender; times are medians. 3 against peers if not given.")
    ] = None,
    quality: Annotated[
        bool, typer.Option("--quality", help="Judge BatchBALD batches on a family of pools instead.")
    ] = False,
    seeds: Annotated[int, typer.Option(help="Seeds for --quality.")] = 5,
    out: Annotated[Path | None, typer.Option(help="Write the results as JSON to this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Measure natsel: time, memory and what batches are worth, alone or against its peers."""
    from natsel import bench

    try:
        if setup is not None:
            print(bench.setup(setup))
            return
        document = bench.measure(
            case,
            threads=threads,
            repeat=repeat,
            out=out,
            peers_python=python,
            quality=quality,
            seeds=seeds,
            progress=lambda line: say(line, err=True),
        )
    except RuntimeError as failure:
        raise ValueError(str(failure)) from None
    if as_json:
        print_json(document)
    else:
        import io
        import shutil

        from natsel.bench.document import show

        text = io.StringIO()
        show(document, text)
        width = shutil.get_terminal_size((0, 0)).columns  # 0 off a terminal
        say(in_lines(text.getvalue().rstrip("\n"), width), err=True)
