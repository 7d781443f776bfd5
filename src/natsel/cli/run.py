"""`natsel run`: an experiment from a recipe, several methods and seeds side by side; resumable, with a report."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from natsel.cli.output import fitted, print_json, warn
from natsel.cli.prediction_files import Inputs, columns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from natsel.experiments.recipe.plan import Plan
    from natsel.experiments.results.experiment import Experiment
    from natsel.experiments.results.publish import Published
    from natsel.experiments.running.run import Outcome
    from natsel.experiments.running.worker_pool import Report

NAME = "run"
EXAMPLE = "Example: natsel run digits   or   natsel run --new my.toml --data my.csv --labels kind; natsel run my.toml"


def command(
    recipe: Annotated[
        str | None, typer.Argument(help="A recipe that ships (see --list) or a .toml file of your own.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Where journals and report go; runs/RECIPE if not given. What is there goes on.")
    ] = None,
    methods: Annotated[
        str | None, typer.Option(help="Other methods: names with commas, power-bald:beta=4 to set a parameter.")
    ] = None,
    seeds: Annotated[str | None, typer.Option(help="Other seeds, for example 0-4 or 0,3.")] = None,
    variants: Annotated[
        str | None, typer.Option(help="Parts of a recipe that has several, with commas; all if not given.")
    ] = None,
    budget: Annotated[int | None, typer.Option(min=1, help="Another number of labels in all.")] = None,
    processes: Annotated[int, typer.Option(min=1, help="Runs side by side.")] = 2,
    device: Annotated[str | None, typer.Option(help="cpu or cuda; the best there is if not given.")] = None,
    minutes: Annotated[
        float | None, typer.Option(min=0, help="Stop after so many minutes; the same command goes on.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="The published protocol; may want a GPU.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Throw away the runs in the folder and start again.")] = False,
    listed: Annotated[bool, typer.Option("--list", help="List the recipes that ship, and stop.")] = False,
    new: Annotated[
        Path | None, typer.Option("--new", metavar="TOML", help="Write a recipe for the file of --data here, and stop.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option("--data", metavar="FILE", help="With --new: a table, arrays, or a folder of images.")
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option("--labels", metavar="COLUMN", help="With --new: the column of a table that holds the labels."),
    ] = None,
    inputs: Inputs = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Compare methods on a recipe over several seeds. Interrupted, it goes on where it was when called again."""
    if listed:
        return _list(as_json)
    if any(one is not None for one in (new, data, labels, inputs)):
        return _write_recipe(new, data, columns(labels, inputs))
    if recipe is None:
        raise ValueError("recipe: name one, or a .toml file; natsel run --list shows those that ship")
    from natsel.experiments.recipe.plan import load_plan

    plan = load_plan(recipe, full=full, variants=variants)
    chosen = plan.adjusted(methods=methods, seeds=seeds, budget=budget)
    place = folder or Path("runs") / chosen.name
    given = (("variants", variants), ("methods", methods), ("seeds", seeds), ("budget", budget))
    said = ["natsel", "run", recipe, *(f"--{name} {value}" for name, value in given if value)]
    said += ["--full"] if full else []
    _say_what_it_needs(chosen)
    run_and_show(
        chosen, place, as_json=as_json, processes=processes, device=device, minutes=minutes, fresh=fresh, command=said
    )


def run_and_show(plan: "Plan", folder: Path, *, as_json: bool, show: Any = None, **options: Any) -> None:
    """Run a plan with a live board for each variant, write its report, and print the result.

    Exit code 1 where runs failed or are left. `show` prints the result for people in place of `print_result`.
    """
    outcomes = _run(plan, folder, options)
    published = _published(outcomes, folder)
    failed = [
        ({"variant": variant} if variant else {}) | job.named() | {"error": error}
        for variant, outcome in outcomes.items()
        for job, error in outcome.failed.items()
    ]
    if as_json:
        found = {} if published is None else published.as_dict()
        finished = sum(outcome.finished for outcome in outcomes.values())
        print_json({"folder": str(folder), "finished": finished} | found | {"failed": failed})
    else:
        if published is not None:
            (show or print_result)(published)
        names = [f"{one['variant']}: " if "variant" in one else "" for one in failed]
        warn(
            [
                f"{name}{one['method']} seed {one['seed']} failed: {one['error']}"
                for name, one in zip(names, failed, strict=True)
            ]
        )
    if failed or any(outcome.left for outcome in outcomes.values()):
        raise typer.Exit(1)


def _say_what_it_needs(plan: "Plan") -> None:
    """Files, data sets and extras, before anything starts; what is missing is refused with what to do about it."""
    from natsel.experiments.recipe.needs import in_words, needs, refuse_missing

    needed = needs(plan)
    refuse_missing(needed)
    if needed:
        typer.echo(in_words(needed), err=True)


def _write_recipe(new: Path | None, data: Path | None, named: "Mapping[str, Any]") -> None:
    from natsel.experiments.recipe.new_recipe import new_recipe

    if new is None or data is None:
        raise ValueError("new: name both, natsel run --new my.toml --data my.csv --labels COLUMN")
    if new.exists():
        raise ValueError(f"new: there is a {new} already; choose another name, or remove it")
    if new.suffix != ".toml":
        raise ValueError(f"new: expected a name that ends in .toml, found {new.name}")
    if not new.resolve().parent.is_dir():
        raise ValueError(f"new: there is no folder {new.parent}; make it first")
    text = new_recipe(data, new, **named)
    with new.open("x", encoding="utf-8") as file:
        file.write(text)
    typer.echo(f"wrote {new}; read it, then: natsel run {new}")


def _run(plan: "Plan", folder: Path, options: dict[str, Any]) -> "Mapping[str, Outcome]":
    from contextlib import ExitStack

    from natsel.cli.live import live
    from natsel.experiments.running.run import run_plan

    boards = ExitStack()

    def board(variant: str) -> "Report":
        boards.close()  # that of the variant before
        if plan.study:
            return lambda event: typer.echo(event.get("text", ""), err=True)
        if variant:
            typer.echo(f"{plan.name}: {variant}", err=True)
        return boards.enter_context(live(plan.recipes[variant]))

    try:
        with boards:
            return run_plan(plan, folder, progress=board, **options)
    except KeyboardInterrupt:
        typer.echo(f"interrupted: no label is lost; the same command goes on in {folder}", err=True)
        raise


def _published(outcomes: "Mapping[str, Outcome]", folder: Path) -> "Published | None":
    """The report; None where nothing was measured because runs failed or the time was up."""
    finished = any(outcome.finished for outcome in outcomes.values())
    if not finished and any(outcome.failed for outcome in outcomes.values()):
        return None
    from natsel.experiments.results.publish import publish  # waits for torch, which the workers need not

    try:
        return publish(folder)
    except ValueError as nothing:
        if finished or not any(outcome.left for outcome in outcomes.values()):
            raise
        warn([str(nothing)])
        return None


def print_result(published: "Published") -> None:
    """The result for people: a table or a sentence for each variant, the claims, the sentence, and the report."""
    from rich.console import Console

    from natsel.experiments.results.claims import as_lines
    from natsel.experiments.results.log_errors import as_lines as group_lines
    from natsel.experiments.results.summary import caption, unlike

    console = Console(highlight=False)
    off_screen = not console.is_terminal  # there words are broken by whoever shows them
    if published.experiment is not None:
        console.print(f"\n{caption(published.experiment)}", soft_wrap=off_screen, markup=False)
        console.print(fitted(_table(published.experiment), console.width))
    lines = [] if published.experiment is None else unlike(published.experiment)
    lines += [f"{name}: {one.sentence}" for name, one in published.variants.items()] if published.claims else []
    lines += [line for group in published.groups for line in group_lines(group)]
    for line in (*lines, *as_lines(published.claims)):
        console.print(line, soft_wrap=off_screen, markup=False)
    console.print(published.sentence, style="bold", soft_wrap=off_screen, markup=False)
    console.print(f"The report: {published.page}", soft_wrap=True, markup=False)


def _table(experiment: "Experiment") -> Any:
    """Labels each method needed, with what that saves against random, and where it ended: medians over seeds."""
    from rich import box
    from rich.table import Table

    from natsel.experiments.results.summary import label_table

    head, rows = label_table(experiment)
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, name in enumerate(head):
        shown.add_column(name, justify="right" if number else "left", no_wrap=True)
    for row in rows:
        shown.add_row(*row)
    return shown


def _list(as_json: bool) -> None:
    from natsel.experiments.recipe.plan import load_plan, recipe_names

    recipes = [load_plan(name) for name in recipe_names()]
    if as_json:
        print_json([recipe.as_dict() for recipe in recipes])
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 1, 0))
    for recipe in recipes:
        table.add_row(Text(recipe.name, "bold"), Text(recipe.about))
    Console(highlight=False).print(table)
