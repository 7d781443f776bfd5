"""`natsel bench`: natsel against its peers; the work is done by `natsel.bench`."""

from pathlib import Path
from typing import Annotated

import typer

from natsel.cli.output import print_json

NAME = "bench"
EXAMPLE = "Example: natsel bench --setup peers   then   natsel bench quick --python peers/bin/python --out bench.json"


def command(
    cases: Annotated[
        str, typer.Argument(help="quick, standard, full, the name of one case, or a file of predictions.")
    ] = "quick",
    python: Annotated[
        str | None, typer.Option(help="An interpreter that has the peers; this one if not given.")
    ] = None,
    setup: Annotated[
        Path | None, typer.Option(help="Install the peers into an environment in this folder, and stop.")
    ] = None,
    threads: Annotated[int, typer.Option(help="Threads each contender may use.")] = 1,
    repeat: Annotated[int, typer.Option(help="Runs of each contender; times are medians.")] = 3,
    quality: Annotated[
        bool, typer.Option("--quality", help="Judge BatchBALD batches on a family of pools instead.")
    ] = False,
    seeds: Annotated[int, typer.Option(help="Seeds for --quality.")] = 5,
    out: Annotated[Path | None, typer.Option(help="Write the results as JSON to this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Measure natsel against its peers: time, memory and what the batches are worth."""
    from natsel import bench

    try:
        if setup is not None:
            print(bench.setup(setup))
            return
        document = bench.run(
            cases,
            peers_python=python,
            threads=threads,
            repeat=repeat,
            quality=quality,
            seeds=seeds,
            out=out,
            progress=lambda line: typer.echo(line, err=True),
        )
    except RuntimeError as failure:
        raise ValueError(str(failure)) from None
    if as_json:
        print_json(document)
    else:
        bench.show(document)
