"""`natsel run`: an experiment from a recipe, several methods and seeds side by side; resumable, with a report."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from natsel.cli.idle_options import refuse_idle
from natsel.cli.output import console, fitted, print_json, say, text_table, warn
from natsel.cli.prediction_files import Inputs, columns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from natsel.experiments.recipe.plan import Plan
    from natsel.experiments.results.publish import Published
    from natsel.experiments.running.run import Outcome
    from natsel.experiments.running.worker_pool import Report

NAME = "run"
_ON_CPU = ("forest", "logistic", "probit-gp", "sklearn.", "gp-example", "causal-acquisition")
EXAMPLE = "Example: natsel run digits   or   natsel run --new my.toml --data my.csv --labels kind; natsel run my.toml"


def command(
    context: typer.Context,
    recipe: Annotated[
        str | None, typer.Argument(help="A recipe that ships (see --list) or a .toml file of your own.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Where journals and report go; runs/RECIPE if not given. What is there goes on.")
    ] = None,
    methods: Annotated[
        str | None, typer.Option(help="Other methods, with commas, power-bald:beta=4 for a parameter; old runs stay.")
    ] = None,
    seeds: Annotated[str | None, typer.Option(help="Other seeds, for example 0-4 or 0,3; old runs stay.")] = None,
    variants: Annotated[
        str | None, typer.Option(help="Parts of a recipe that has several, with commas; all if not given.")
    ] = None,
    budget: Annotated[int | None, typer.Option(min=1, help="Another number of labels in all.")] = None,
    processes: Annotated[int, typer.Option(min=1, help="Runs side by side; not of a study.")] = 2,
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
    _refuse_what_changes_nothing(context, chosen, device)
    place = folder or Path("runs") / chosen.name
    given = (("variants", variants), ("methods", methods), ("seeds", seeds), ("budget", budget))
    said = ["natsel", "run", recipe, *(f"--{name} {value}" for name, value in given if value)]
    said += ["--full"] if full else []
    _say_what_it_needs(chosen)
    if not fresh and (methods or seeds or budget):
        _say_what_stays(context, chosen, place)
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
        for one in failed:
            where = f"{one['variant']}: " if "variant" in one else ""
            warn([f"{where}{one['method']} seed {one['seed']} failed: {one['error']}"])
    if failed or any(outcome.left for outcome in outcomes.values()):
        raise typer.Exit(1)


def _refuse_what_changes_nothing(context: typer.Context, plan: "Plan", device: str | None) -> None:
    """Refuse options that this plan does not look at."""
    if not plan.has_full:
        refuse_idle(context, f"{plan.name} has one protocol and says of no other", "full")
    if plan.study:
        refuse_idle(context, f"{plan.name} is a study, which works in one process", "processes")
    kinds = [str(recipe.model["kind"]) for recipe in plan.recipes.values()] or [plan.study]
    if device != "cpu" and all(kind.startswith(_ON_CPU) for kind in kinds):
        refuse_idle(context, f"{plan.name} has no networks and computes on the CPU", "device")


def _say_what_stays(context: typer.Context, plan: "Plan", folder: Path) -> None:
    """Say that the folder holds more than is asked for, which the report shows; a smaller budget is refused."""
    from natsel.experiments.running.folder import with_earlier_runs

    for name, asked in plan.recipes.items():
        held = with_earlier_runs(folder / name, asked)
        if held.budget > asked.budget:
            refuse_idle(context, f"runs in {folder / name} have {held.budget} labels, which stay", "budget")
        if {*held.methods, *held.seeds} - {*asked.methods, *asked.seeds}:
            warn([f"{folder / name} holds runs of other methods or seeds too, and the report shows them"])


def _say_what_it_needs(plan: "Plan") -> None:
    """Files, data sets and extras, before anything starts; what is missing is refused with what to do about it."""
    from natsel.experiments.recipe.needs import in_words, needs, refuse_missing

    needed = needs(plan)
    refuse_missing(needed)
    if needed:
        say(in_words(needed), err=True)


def _write_recipe(new: Path | None, data: Path | None, named: "Mapping[str, Any]") -> None:
    import shlex

    from natsel.containers import atomically
    from natsel.experiments.recipe.new_recipe import new_recipe

    if new is None or data is None:
        raise ValueError("new: name both, natsel run --new my.toml --data my.csv --labels COLUMN")
    if new.exists():
        raise ValueError(f"new: there is a {new} already; choose another name, or remove it")
    if new.suffix != ".toml":
        raise ValueError(f"new: expected a name that ends in .toml, found {new.name}")
    with atomically(new) as place:  # first, so that a wrong folder costs no work
        place.write_text(new_recipe(data, new, **named), encoding="utf-8")
    say(f"wrote {new}; read it, then: natsel run {shlex.quote(str(new))}")


def _run(plan: "Plan", folder: Path, options: dict[str, Any]) -> "Mapping[str, Outcome]":
    from contextlib import ExitStack

    from natsel.cli.live import live
    from natsel.experiments.running.run import run_plan

    boards = ExitStack()

    def board(variant: str) -> "Report":
        boards.close()  # that of the variant before
        if plan.study:
            return lambda event: say(event.get("text", ""), err=True)
        if variant:
            say(f"{plan.name}: {variant}", err=True)
        return boards.enter_context(live(plan.recipes[variant]))

    try:
        with boards:
            return run_plan(plan, folder, progress=board, **options)
    except KeyboardInterrupt:
        say(f"interrupted: no label is lost; the same command goes on in {folder}", err=True)
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
    from natsel.experiments.results.claims import as_lines
    from natsel.experiments.results.log_errors import as_lines as group_lines
    from natsel.experiments.results.summary import caption, label_table, unlike

    shown = console()
    off_screen = not shown.is_terminal  # there words are broken by whoever shows them
    if published.experiment is not None:
        shown.print(f"\n{caption(published.experiment)}", soft_wrap=off_screen)
        shown.print(fitted(text_table(*label_table(published.experiment), words=1), shown.width))
    lines = [] if published.experiment is None else unlike(published.experiment)
    lines += [f"{name}: {one.sentence}" for name, one in published.variants.items()] if published.claims else []
    lines += [line for group in published.groups for line in group_lines(group)]
    for line in (*lines, *as_lines(published.claims)):
        shown.print(line, soft_wrap=off_screen)
    shown.print(published.sentence, style="bold", soft_wrap=off_screen)
    shown.print(f"The report: {published.page}", soft_wrap=True)


def _list(as_json: bool) -> None:
    from natsel.experiments.recipe.needs import needs
    from natsel.experiments.recipe.plan import load_plan, recipe_names

    recipes = [load_plan(name) for name in recipe_names()]
    wanted = {recipe.name: [need.what for need in needs(recipe)] for recipe in recipes}
    if as_json:
        print_json([recipe.as_dict() | {"needs": wanted[recipe.name]} for recipe in recipes])
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 1, 0))
    for recipe in recipes:
        needed = ", ".join(wanted[recipe.name]) or "nothing"
        table.add_row(Text(recipe.name, "bold"), Text.assemble(recipe.about, (f"\nneeds {needed}", "dim")))
    bare = [name for name, found in wanted.items() if not found]
    console().print(table)
    console().print(f"{len(bare)} of {len(recipes)} run with nothing downloaded: {', '.join(bare)}")
