"""`natsel demo`: scikit-learn's digits learnt with few labels, chosen four ways, and what that saves.

It is the recipe `digits`, run where the user keeps state; called again it goes on, or shows what it found. Nothing is
staged: the seeds, the network and the protocol stand in the report, and `--seed` starts from other ones.
"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from natsel.cli.run import perform, show

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

    from natsel.experiments.recipe.recipe import load_recipe

    recipe = replace(load_recipe("digits"), name="demo", seeds=tuple(range(seed, seed + SEEDS)))
    place = folder or state_folder() / f"demo-{seed}"
    if not as_json:
        typer.echo(
            f"A network learns to read digits, {recipe.k} labels at a time. Which {recipe.k} next?"
            f" {len(recipe.methods)} ways to choose, {SEEDS} runs of each.",
            err=True,
        )
    outcome, published = perform(
        recipe, place, processes=processes, device="cpu", fresh=fresh, command=["natsel", "demo", "--seed", str(seed)]
    )
    if published is not None and not as_json:
        _draw(published)
    show(outcome, published, as_json=as_json)


def _draw(published: "Published") -> None:
    """The first batch of the method that looks at what labels tell together, as pictures with their answers."""
    import numpy as np
    from rich.console import Console

    from natsel.cli.pictures import gallery, picture

    runs = published.experiment.of("batchbald")
    if not runs or not runs[0].batches:
        return
    console, batch = Console(highlight=False), runs[0].batches[0]
    unicode = console.encoding.startswith("utf")
    colour = unicode and console.is_terminal and console.color_system not in (None, "standard")
    images = [np.asarray(published.experiment.thumbnails[id]) / 255 for id in batch.ids]
    pictures = [picture(image, colour, unicode) for image in images]
    console.print("\nThe first digits that batchbald asked for, and what they were:\n")
    for line in gallery(pictures, [str(label) for label in batch.labels], console.width):
        console.print(line, no_wrap=True, crop=False)


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
