"""`natsel demo`: scikit-learn's digits learnt with few labels, chosen four ways, and what that saves.

It is the recipe `digits`, run where the user keeps state; called again it goes on, or shows what it found. Nothing is
staged: the seeds, the network and the protocol stand in the report, and `--seed` starts from other ones.
"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from natsel.cli.output import console
from natsel.cli.run import print_result, run_and_show

if TYPE_CHECKING:
    from natsel.experiments.results.publish import Published

NAME = "demo"
EXAMPLE = "Example: natsel demo --seed 10   (under two minutes on two cores; natsel run digits is the same at length)"

SEEDS = 10


def command(
    seed: Annotated[int, typer.Option(min=0, help="The first of ten seeds.")] = 0,
    folder: Annotated[
        Path | None, typer.Option(help="Where the runs and the report go; a folder of the user's state if not given.")
    ] = None,
    processes: Annotated[int, typer.Option(min=1, help="Runs side by side.")] = 2,
    fresh: Annotated[bool, typer.Option("--fresh", help="Run again, even where results are there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Learn digits with few labels, chosen at random or in three better ways. No download; a report at the end."""
    from dataclasses import replace

    from natsel.experiments.recipe.plan import Plan, load_plan

    recipe = replace(load_plan("digits").recipes[""], name="demo", seeds=tuple(range(seed, seed + SEEDS)))
    place = folder or state_folder() / f"demo-{seed}"
    if not as_json:
        console(stderr=True).print(
            f"A network learns to read digits, {recipe.k} labels at a time. Which {recipe.k} next?"
            f" {len(recipe.methods)} ways to choose, {SEEDS} runs of each."
        )
    said = ["natsel", "demo", "--seed", str(seed)]
    options = {"processes": processes, "device": "cpu", "fresh": fresh, "command": said}
    run_and_show(Plan.of(recipe), place, as_json=as_json, show=_show, **options)


def _show(published: "Published") -> None:
    """The first batch of batchbald as pictures with their answers, then the result."""
    import numpy as np

    from natsel.cli.pictures import gallery, picture

    assert published.experiment is not None
    for batch in [batch for run in published.experiment.of("batchbald")[:1] for batch in run.batches[:1]]:
        shown = console()
        unicode = shown.encoding.startswith("utf")
        colour = unicode and shown.is_terminal and shown.color_system not in (None, "standard")
        images = [np.asarray(published.experiment.thumbnails[id]) / 255 for id in batch.ids]
        pictures = [picture(image, colour, unicode) for image in images]
        shown.print("\nThe first digits that batchbald asked for, and what they were:\n")
        for line in gallery(pictures, [str(label) for label in batch.labels], shown.width):
            shown.print(line, no_wrap=True, crop=False)
    print_result(published)


def state_folder() -> Path:
    """Where programs keep what they may need again on this system.

    >>> state_folder().name
    'natsel'
    """
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    else:
        base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "natsel"
