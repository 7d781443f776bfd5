"""`natsel select`: choose the points to take next from a file of predictions."""

import re
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from natsel.cli.output import COLUMNS, as_csv, fitted, picks_table, print_json, progress, rows, warn

if TYPE_CHECKING:
    from natsel import Belief, Explanation, Selection

NAME = "select"
EXAMPLE = "Example: natsel select preds.npz --probs --method batchbald -k 20 --out picks.csv"


def command(
    file: Annotated[
        Path,
        typer.Argument(
            help="Predictions \\[points, draws, classes] in .npz, .safetensors or .npy;"
            " or .csv / .parquet with columns id, draw and one per class; or a saved belief.",
            show_default=False,
        ),
    ],
    method: Annotated[str, typer.Option("--method", "-m", help="See: natsel methods.")] = "power-bald",
    k: Annotated[
        int | None,
        typer.Option("-k", "--k", help="How many points to pick: 10 if not given, as many as fit with --budget."),
    ] = None,
    log_probs: Annotated[bool, typer.Option("--log-probs", help="The numbers are log probabilities.")] = False,
    probs: Annotated[bool, typer.Option("--probs", help="The numbers are probabilities.")] = False,
    logits: Annotated[bool, typer.Option("--logits", help="The numbers are logits.")] = False,
    key: Annotated[str | None, typer.Option(help="The array to read, where the file holds several.")] = None,
    single_draw: Annotated[bool, typer.Option("--single-draw", help="Read \\[points, classes] as one draw.")] = False,
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
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Choose the points to take next from a file of predictions.

    Say what the numbers are: --log-probs, --probs or --logits; only a belief saved by natsel knows itself.
    """
    kind = _kind(log_probs, probs, logits)
    with ExitStack() as stack:
        if out is not None:
            from natsel.containers import atomically

            place = stack.enter_context(atomically(out))  # first, so that a wrong folder costs no work
        belief = _belief(file, kind, key, single_draw)
        left_out = read_ids(exclude, belief) if exclude is not None else None
        known = {
            "labels": read_labels(labels, belief, "labels") if labels is not None else None,
            "costs": read_values(costs, belief, "costs", "cost", float) if costs is not None else None,
            "budget": budget,
            "targets": _targets(targets, target_labels, kind, key, single_draw),
            "given": _belief(given, kind, key, single_draw) if given is not None else None,
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


def read_ids(path: Path, belief: "Belief") -> list[int | str]:
    """The ids in a file, one per line: integers or names, as in the belief; empty lines and comments are skipped."""
    from natsel.containers import readable

    with readable(path):
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    ids = []
    for number, line in enumerate(lines, start=1):
        text = _without_comment(line)
        try:
            ids += [_id(text, belief)] if text else []
        except ValueError:
            raise ValueError(
                f"exclude: {path} line {number} should hold one integer id, found {text!r}; correct the line"
            ) from None
    return ids


def _without_comment(line: str) -> str:
    """A line up to a # that begins it or follows a space: names may contain one."""
    return re.split(r"(?:^|\s)#", line, maxsplit=1)[0].strip()


def _id(text: str, belief: "Belief") -> int | str:
    """An id as a belief has it: an integer, or a name."""
    return int(text) if belief.ids.dtype.kind == "i" else text


def read_labels(path: Path, belief: "Belief", name: str) -> list[float]:
    """The labels in a file, one per line in the order of the points, or lines of id,label in any order."""
    return read_values(path, belief, name, "label", belief.label_type)


def read_values(path: Path, belief: "Belief", name: str, word: str, read: type[int] | type[float]) -> list[float]:
    """One number for each point from a file: one per line in the order of the points, or lines of id,number in any
    order. `word` is what such a number is, and may head its column.
    """
    from natsel.containers import readable
    from natsel.ids import keys_of

    with readable(path):
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    values: list[float] = []
    pairs: list[tuple[int | str, float]] = []
    for number, line in enumerate(lines, start=1):
        text = _without_comment(line)
        if not text or text.replace(" ", "").lower() in (f"id,{word}", word):
            continue
        try:
            *before, value = text.rsplit(",", 1)
            if before:
                pairs.append((_id(before[0], belief), read(value)))
            else:
                values.append(read(value))
        except (ValueError, TypeError):
            kind = "a class number" if read is int else "a number"
            raise ValueError(
                f"{name}: {path} line {number} should hold {kind}, or id,{word}; found {text!r}; correct the line"
            ) from None
    if not pairs:
        return values
    named, ids = dict(pairs), keys_of(belief.ids)
    wrong = ["lines with an id and lines without"] if values else []
    wrong += [f"two {word}s for id {id}" for id, value in pairs if named[id] != value]
    wrong += [f"no {word} for id {id}" for id in ids if id not in named]
    if wrong:
        raise ValueError(f"{name}: {path} has {wrong[0]}; give every point one {word} as id,{word}")
    return [named[id] for id in ids]


def _targets(path: Path | None, labels: Path | None, kind: Any, key: str | None, single_draw: bool) -> Any:
    from natsel.beliefs.targets import Targets

    if path is None:
        if labels is not None:
            raise ValueError("--target-labels are labels of targets; pass their predictions as --targets FILE")
        return None
    belief = _belief(path, kind, key, single_draw)
    return Targets(belief, labels=None if labels is None else read_labels(labels, belief, "target-labels"))


def _kind(log_probs: bool, probs: bool, logits: bool) -> Any:
    flags = {"log-probs": log_probs, "probs": probs, "logits": logits}
    given = [kind for kind, on in flags.items() if on]
    if len(given) > 1:
        raise ValueError(f"the numbers are either --{' or --'.join(given)}; pass one of these flags")
    return given[0] if given else None


def _belief(path: Path, kind: Any, key: str | None, single_draw: bool) -> "Belief":
    from natsel.beliefs.files import kind_of, load, read_predictions

    stored = kind_of(path)
    if stored is None and kind is None:
        raise ValueError("say what the numbers are: --log-probs, --probs or --logits")
    if stored is not None and stored != "CategoricalSamples" and kind is None:
        return load(path)
    return read_predictions(path, kind, key=key, single_draw=single_draw)


def _select(
    method: str, belief: "Belief", k: int | None, known: dict[str, Any], exclude: list[int | str] | None, seed: int
) -> "Selection":
    import natsel
    from natsel.capabilities import Capability
    from natsel.choose import resolve

    if Capability.GAINS not in resolve(method).search.needs:
        return natsel.select(method, belief, k, **known, exclude=exclude, seed=seed)
    with progress(_most_picks(belief, k, known["costs"], known["budget"]), method) as step:
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
    from rich.console import Console

    console = Console(highlight=False)
    costs = [] if selection.costs is None else [f"{cost:g}" for cost in selection.costs.tolist()]
    if explanation is None:
        scored = enumerate(zip(selection, selection.scores.tolist(), strict=True), start=1)
        picks: list[dict[str, Any]] = [{"rank": rank, "id": id, "score": score} for rank, (id, score) in scored]
        columns: tuple[str, ...] = COLUMNS[:3]
    else:
        picks, columns = rows(explanation), COLUMNS
    if costs:
        picks, columns = [row | {"cost": cost} for row, cost in zip(picks, costs, strict=True)], (*columns, "cost")
    console.print(fitted(picks_table(picks, columns), console.width))
    units = selection.method.facts.units
    total = f"total {selection.total:.4f}" + ("" if units == "none" else f" {units}")
    spent = "" if selection.total_cost is None else f", cost {selection.total_cost:g}"
    console.print(f"[bold]{selection.method.name}[/bold]: {len(selection)} picks, {total}{spent}")
    if explanation is not None:
        console.print(explanation.summary)
    if out is not None:
        console.print(f"written to {out}", markup=False, soft_wrap=True)
