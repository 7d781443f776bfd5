"""`natsel evaluate`: how good predictions in a file are, and how good their uncertainty is."""

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from natsel.cli.idle_options import refuse_idle
from natsel.cli.output import console, fitted, print_json, text_table, warn
from natsel.cli.prediction_files import (
    FILE,
    AsJson,
    Classes,
    Key,
    Labels,
    Logits,
    LogProbs,
    Means,
    Noise,
    Probs,
    SingleDraw,
    kind_of_numbers,
    read_belief,
    read_labels,
    refuse_suffix,
)

if TYPE_CHECKING:
    from natsel.choose import UncertaintyEvaluation

NAME = "evaluate"
EXAMPLE = (
    "Example: natsel evaluate preds.npz --probs --labels labels.csv --out page.html   or   natsel evaluate"
    " inside.safetensors --labels labels.npy --outside outside.safetensors"
)


def command(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help=FILE, show_default=False)],
    labels: Labels = None,
    outside: Annotated[
        Path | None, typer.Option(help="Predictions for inputs from elsewhere, in the same format: are they detected?")
    ] = None,
    held_out: Annotated[
        Path | None, typer.Option(help="Predictions for other ordinary inputs, with --held-out-labels: expected error.")
    ] = None,
    held_out_labels: Annotated[Path | None, typer.Option(help="Their labels.")] = None,
    classes: Classes = None,
    bins: Annotated[int, typer.Option(min=1, help="Of calibration errors.")] = 15,
    log_probs: LogProbs = False,
    probs: Probs = False,
    logits: Logits = False,
    means: Means = False,
    noise: Noise = None,
    key: Key = None,
    single_draw: SingleDraw = False,
    out: Annotated[
        Path | None, typer.Option(help="Write a page (.html): reliability, rejection curves, all numbers.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say how good predictions are, and whether the model knows where they are wrong.

    Without --labels it tells what needs none. --outside asks which scores tell inputs from elsewhere.
    """
    refuse_suffix(out, "out")
    if (held_out is None) != (held_out_labels is None):
        raise ValueError("held-out: predictions and labels go together; pass --held-out and --held-out-labels")
    kind = kind_of_numbers(log_probs, probs, logits, means)
    read = partial(read_belief, kind=kind, key=key, single_draw=single_draw, noise=noise)
    with ExitStack() as stack:
        if out is not None:
            from natsel.containers import atomically

            place = stack.enter_context(atomically(out))  # first, so that a wrong folder costs no work
        from natsel.choose import evaluate_uncertainty

        belief = read(file)
        known = None if labels is None else read_labels(labels, belief, "labels", classes)
        other = None
        if held_out is not None and held_out_labels is not None:
            others = read(held_out)
            other = (others, read_labels(held_out_labels, others, "held-out-labels", classes))
        found = evaluate_uncertainty(
            belief, known, outside=None if outside is None else read(outside), held_out=other, bins=bins
        )
        if found.reliability is None:
            refuse_idle(context, "calibration errors are those of classes", "bins")
        if out is not None:
            from natsel.experiments.report.uncertainty_page import uncertainty_page

            place.write_text(uncertainty_page(found, file.name), encoding="utf-8")
    if as_json:
        print_json(found.as_dict() | {"page": None if out is None else str(out)})
    else:
        _show(found, out)
        warn(found.warnings)


def _show(found: "UncertaintyEvaluation", out: Path | None) -> None:
    from natsel.choose.uncertainty_evaluation import MEANING

    shown = console()
    metrics = [(name, f"{value:.4f}", MEANING.get(name, "")) for name, value in found.metrics.items()]
    said = ("metric", "value", "what it is") if any(row[2] for row in metrics) else ("metric", "value")
    shown.print(fitted(text_table(said, [row[: len(said)] for row in metrics]), shown.width))
    scores = found.score_rows()
    if scores:
        names = tuple(dict.fromkeys(name for row in scores for name in row))
        cells = [tuple(_cell(row.get(name)) for name in names) for row in scores]
        shown.print(fitted(text_table(names, cells), shown.width))
    points = f"{found.points:,} points" + (f", {found.outside_points:,} from elsewhere" if found.outside_points else "")
    bins = f", calibration errors in {found.bins} bins" if found.reliability is not None else ""
    shown.print(points + bins)
    if out is not None:
        shown.print(f"written to {out}", soft_wrap=True)


def _cell(value: float | str | None) -> str:
    return "–" if value is None else value if isinstance(value, str) else f"{value:.4f}"
