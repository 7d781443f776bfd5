"""`natsel run`: an experiment from a recipe, several methods and seeds side by side; resumable, with a report."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from natsel.cli.output import print_json, warn

if TYPE_CHECKING:
    from natsel.experiments.recipe.plan import Plan
    from natsel.experiments.recipe.recipe import Recipe
    from natsel.experiments.results.publish import Published, PublishedPlan
    from natsel.experiments.results.summary import Row
    from natsel.experiments.running.run import Outcome, Report
    from natsel.experiments.running.suite import Ended

NAME = "run"
EXAMPLE = "Example: natsel run digits --methods random,power-bald:beta=4 --seeds 0-4   then   natsel report runs/digits"


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
    full: Annotated[bool, typer.Option("--full", help="The published protocol; may want a GPU.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Throw away the runs in the folder and start again.")] = False,
    listed: Annotated[bool, typer.Option("--list", help="List the recipes that ship, and stop.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Compare methods on a recipe over several seeds. Interrupted, it goes on where it was when called again."""
    if listed:
        _list(as_json)
        return
    if recipe is None:
        raise ValueError("recipe: name one, or a .toml file; natsel run --list shows those that ship")
    from natsel.experiments.recipe.plan import load_plan

    plan = load_plan(recipe, full=full, variants=variants)
    chosen = plan.adjusted(methods=methods, seeds=seeds, budget=budget)
    place = folder or Path("runs") / chosen.name
    given = (("variants", variants), ("methods", methods), ("seeds", seeds), ("budget", budget))
    said = ["natsel", "run", recipe, *(f"--{name} {value}" for name, value in given if value)]
    said += ["--full"] if full else []
    options: dict[str, Any] = {"processes": processes, "device": device, "fresh": fresh, "command": said}
    if chosen.recipe is not None:
        outcome, published = perform(chosen.recipe, place, **options)
        show(outcome, published, as_json=as_json)
    else:
        ended, found = perform_plan(chosen, place, **options)
        show_plan(ended, found, as_json=as_json)


def perform(recipe: "Recipe", folder: Path, **options: Any) -> "tuple[Outcome, Published | None]":
    """Run a recipe with a live board, then write its report; None where nothing was measured."""
    from natsel.cli.live import live
    from natsel.experiments.running.run import run

    try:
        with live(recipe) as progress:
            outcome = run(recipe, folder, progress=progress, **options)
    except KeyboardInterrupt:
        typer.echo(f"interrupted: nothing told is lost; the same command goes on in {folder}", err=True)
        raise
    if len(outcome.failed) and not outcome.done and not outcome.skipped:
        return outcome, None
    from natsel.experiments.results.publish import publish_experiment  # waits for torch, which the workers need not

    return outcome, publish_experiment(folder, folder / "report.html")


def perform_plan(plan: "Plan", folder: Path, **options: Any) -> "tuple[Ended, PublishedPlan | None]":
    """Run the variants of a plan one after another, each with a live board, or its study; then write the report."""
    from contextlib import ExitStack

    from natsel.cli.live import live
    from natsel.experiments.results.publish import PublishedPlan, publish
    from natsel.experiments.running.suite import run_plan

    boards = ExitStack()

    def board(variant: str) -> "Report":
        boards.close()  # that of the variant before
        if variant not in plan.recipes:
            return lambda event: typer.echo(event.get("text", ""), err=True)
        typer.echo(f"{plan.name}: {variant}", err=True)
        return boards.enter_context(live(plan.recipes[variant]))

    try:
        with boards:
            ended = run_plan(plan, folder, progress=board, **options)
    except KeyboardInterrupt:
        typer.echo(f"interrupted: nothing told is lost; the same command goes on in {folder}", err=True)
        raise
    if ended.failed and not ended.finished:
        return ended, None
    published = publish(folder)
    assert isinstance(published, PublishedPlan)
    return ended, published


def show_plan(ended: "Ended", published: "PublishedPlan | None", *, as_json: bool) -> None:
    """The result of a plan for people or machines; exit code 1 where runs failed."""
    failed = [
        {"variant": variant, "method": method, "seed": seed, "error": error}
        for variant, method, seed, error in ended.failed
    ]
    if as_json:
        found = {} if published is None else published.as_dict()
        print_json({"folder": str(ended.folder), "finished": ended.finished} | found | {"failed": failed})
    else:
        if published is not None:
            typer.echo(published.told())
        warn([f"{one['variant']}: {one['method']} seed {one['seed']} failed: {one['error']}" for one in failed])
    if failed:
        raise typer.Exit(1)


def show(outcome: "Outcome", published: "Published | None", *, as_json: bool) -> None:
    """The result for people or machines; exit code 1 where runs failed."""
    failed = [{"method": job.method, "seed": job.seed, "error": error} for job, error in outcome.failed.items()]
    if as_json:
        found = {} if published is None else published.as_dict()
        print_json({"folder": str(outcome.folder), "finished": len(outcome.done) + len(outcome.skipped)}
                   | found | {"failed": failed})  # fmt: skip
    elif published is not None:
        tell(published)
    if not as_json:
        warn([f"{one['method']} seed {one['seed']} failed: {one['error']}" for one in failed])
    if failed:
        raise typer.Exit(1)


def tell(published: "Published") -> None:
    """The result for people: a table, the sentence, and where the report is."""
    from rich.console import Console

    from natsel.experiments.results.verdicts import lines_of

    console = Console(highlight=False)
    console.print(f"\nLabels needed to reach a test {published.experiment.metric} (saved against random):")
    console.print(_table(published))
    for verdict in lines_of(published.experiment.claims):
        console.print(verdict, soft_wrap=True, markup=False)
    console.print(published.sentence, style="bold", soft_wrap=True, markup=False)
    console.print(f"The report: {published.page}", soft_wrap=True, markup=False)


def _table(published: "Published") -> Any:
    """Labels each method needed, with what that saves against random, and where it ended: medians over seeds."""
    import statistics

    from rich import box
    from rich.table import Table

    from natsel.experiments.results.summary import labels, level, table

    experiment = published.experiment
    rows = table(experiment)
    aims = list(dict.fromkeys(row.target for row in rows))
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    shown.add_column("method", no_wrap=True)
    for aim in aims:
        shown.add_column(level(experiment.metric, aim), justify="right", no_wrap=True)
    shown.add_column("at the end", justify="right", no_wrap=True)
    for method in experiment.methods:
        here = {row.target: row for row in rows if row.method == method}
        cells = [labels(here[aim].needed[1]) + _saving(here[aim]) for aim in aims]
        final = statistics.median([curve.final(experiment.metric) for curve in experiment.of(method)])
        shown.add_row(method, *cells, level(experiment.metric, final))
    return shown


def _saving(row: "Row") -> str:
    """What a method saved, in brackets; nothing where nothing is known."""
    if row.saved is None or row.saved.median.low == float("-inf"):
        return ""
    bound = "" if row.saved.median.exact else "≥ "
    return f" ({bound}{100 * row.saved.median.low:.0f} %)".replace("-", "−")


def _list(as_json: bool) -> None:
    from natsel.experiments.recipe.plan import load_plan
    from natsel.experiments.recipe.recipe import recipe_names

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
