"""`natsel select`: choose the points to take next from a file of predictions."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from natsel.cli.output import COLUMNS, as_csv, console, fitted, picks_table, print_json, progress, rows, warn
from natsel.cli.prediction_files import (
    FILE,
    AsJson,
    Key,
    Logits,
    LogProbs,
    Means,
    Noise,
    Probs,
    SingleDraw,
    kind_of_numbers,
    read_belief,
    read_ids,
    read_labels,
    read_values,
)

if TYPE_CHECKING:
    from natsel import Belief, Explanation, Selection

NAME = "select"
EXAMPLE = (
    "Example: natsel select preds.npz --probs --method batchbald -k 20 --out picks.csv   or, for a regressor,"
    "   natsel select trees.npy --means --method lcmd -k 200"
)


def command(
    file: Annotated[Path, typer.Argument(help=FILE, show_default=False)],
    method: Annotated[str | None, typer.Option("--method", "-m", help="See: natsel methods, default first.")] = None,
    k: Annotated[
        int | None,
        typer.Option("-k", "--k", help="How many points to pick: 10 if not given, as many as fit with --budget."),
    ] = None,
    log_probs: LogProbs = False,
    probs: Probs = False,
    logits: Logits = False,
    means: Means = False,
    noise: Noise = None,
    key: Key = None,
    single_draw: SingleDraw = False,
    targets: Annotated[
        Path | None,
        typer.Option(help="Predictions for the inputs that matter, from the same draws, in the same format (epig)."),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(help="Known labels of the points: one per line in their order, or lines of id,label (ig, pig)."),
    ] = None,
    target_labels: Annotated[
        Path | None, typer.Option(help="Known labels of the targets, one per line in their order (pig, jpig).")
    ] = None,
    given: Annotated[
        Path | None,
        typer.Option(help="Predictions for points already held, in the same format; their labels count as seen."),
    ] = None,
    exclude: Annotated[
        Path | None, typer.Option(help="A file of ids not to pick, one per line; # begins a comment.")
    ] = None,
    costs: Annotated[
        Path | None,
        typer.Option(help="What each label costs, one per line or lines of id,cost: picks by gain per cost."),
    ] = None,
    budget: Annotated[float | None, typer.Option(help="What all picks together may cost, by --costs.")] = None,
    out: Annotated[Path | None, typer.Option(help=f"Write the picks as CSV: {','.join(COLUMNS)}.")] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same picks.")] = 0,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show what each pick carries and shares with earlier ones.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Choose the points to take next from a file of predictions.

    Say what the numbers are: --log-probs, --probs, --logits or --means; only a belief saved by natsel knows itself.
    """
    read = partial(
        read_belief,
        kind=kind_of_numbers(log_probs, probs, logits, means),
        key=key,
        single_draw=single_draw,
        noise=noise,
    )
    with ExitStack() as stack:
        if out is not None:
            from natsel.containers import atomically

            place = stack.enter_context(atomically(out))  # first, so that a wrong folder costs no work
        belief = read(file)
        left_out = read_ids(exclude, belief) if exclude is not None else None
        known = {
            "labels": read_labels(labels, belief, "labels") if labels is not None else None,
            "costs": read_values(costs, belief, "costs", "cost", float) if costs is not None else None,
            "budget": budget,
            "targets": _targets(targets, target_labels, read),
            "given": read(given) if given is not None else None,
        }
        selection = _select(method, belief, k, known, left_out, seed)
        explanation = selection.explain() if explain or as_json or out is not None else None
        if out is not None and explanation is not None:
            place.write_text(as_csv(_rows(selection, explanation)), encoding="utf-8")
    if as_json and explanation is not None:
        print_json(_report(selection, explanation, k, seed))
    else:
        _show(selection, explanation if explain else None, out)
        warn((explanation or selection).warnings)


def _targets(path: Path | None, labels: Path | None, read: "Callable[[Path], Belief]") -> Any:
    from natsel.beliefs.targets import Targets

    if path is None:
        if labels is not None:
            raise ValueError("--target-labels are labels of targets; pass their predictions as --targets FILE")
        return None
    belief = read(path)
    return Targets(belief, labels=None if labels is None else read_labels(labels, belief, "target-labels"))


def _select(
    name: str | None, belief: "Belief", k: int | None, known: dict[str, Any], exclude: Any, seed: int
) -> "Selection":
    import natsel
    from natsel.capabilities import Capability
    from natsel.choose import DEFAULT, resolve

    method = resolve(name or DEFAULT)
    if Capability.GAINS not in method.search.needs:
        return natsel.select(method, belief, k, **known, exclude=exclude, seed=seed)
    with progress(_most_picks(belief, k, known["costs"], known["budget"]), method.name) as step:
        return natsel.select(method, belief, k, **known, exclude=exclude, seed=seed, progress=step)


def _most_picks(belief: "Belief", k: int | None, costs: list[float] | None, budget: float | None) -> int:
    """How many picks there can be, for a bar that shows how far a search is."""
    if costs is None or budget is None:
        return 10 if k is None else k
    import torch

    from natsel.search.per_cost import most_that_fit

    return min(len(belief) if k is None else k, most_that_fit(torch.tensor(costs, dtype=torch.float64), budget))


def _rows(selection: "Selection", explanation: "Explanation") -> list[dict[str, Any]]:
    """The picks as plain rows, with what each costs where labels have costs."""
    costs = [] if selection.costs is None else selection.costs.tolist()
    return [row | ({"cost": costs[place]} if costs else {}) for place, row in enumerate(rows(explanation))]


def _report(selection: "Selection", explanation: "Explanation", k: int | None, seed: int) -> dict[str, Any]:
    from natsel.ids import keys_of

    return {
        "method": selection.method.name,
        "k": len(selection) if k is None else k,
        "seed": seed,
        "ids": keys_of(selection.ids),
        "scores": selection.scores.tolist(),
        "total": selection.total,
        "log_prob": selection.log_prob,
        "information": explanation.information,
        "costs": None if selection.costs is None else selection.costs.tolist(),
        "total_cost": selection.total_cost,
        "explanation": _rows(selection, explanation),
        "warnings": list(explanation.warnings),
    }


def _show(selection: "Selection", explanation: "Explanation | None", out: Path | None) -> None:
    shown = console()
    costs = [] if selection.costs is None else [f"{cost:g}" for cost in selection.costs.tolist()]
    if explanation is None:
        scored = enumerate(zip(selection, selection.scores.tolist(), strict=True), start=1)
        picks: list[dict[str, Any]] = [{"rank": rank, "id": id, "score": score} for rank, (id, score) in scored]
        columns: tuple[str, ...] = COLUMNS[:3]
    else:
        picks, columns = rows(explanation), COLUMNS
    if costs:
        picks, columns = [row | {"cost": cost} for row, cost in zip(picks, costs, strict=True)], (*columns, "cost")
    shown.print(fitted(picks_table(picks, columns), shown.width))
    units = selection.method.facts.units
    total = f"total {selection.total:.4f}" + ("" if units == "none" else f" {units}")
    spent = "" if selection.total_cost is None else f", cost {selection.total_cost:g}"
    shown.print(f"[bold]{selection.method.name}[/bold]: {len(selection)} picks, {total}{spent}", markup=True)
    if explanation is not None:
        shown.print(explanation.summary)
    if out is not None:
        shown.print(f"written to {out}", soft_wrap=True)
