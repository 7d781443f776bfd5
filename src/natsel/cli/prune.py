"""`natsel prune`: which part of a labelled data set to train on, and which of its labels are likely wrong."""

import warnings
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from natsel.cli.idle_options import refuse_idle
from natsel.cli.output import as_csv, console, fitted, json_text, print_json, text_table, warn
from natsel.cli.prediction_files import Inputs, columns, is_set, refuse_suffix

if TYPE_CHECKING:
    from natsel import Examples, Pruning

NAME = "prune"
EXAMPLE = (
    "Example: natsel prune digits --keep 0.5 --out kept.safetensors   or   natsel prune photos/ --network resnet18"
    " --report errors.html"
)
_FIRST = 5
"""Rows shown of the likely label errors."""


def command(
    context: typer.Context,
    data: Annotated[
        str,
        typer.Argument(
            help="A data set by name (natsel data lists them; its training part is taken), or a file: .npz or"
            " .safetensors with inputs and labels, .csv or .parquet with --labels, or a folder of images with one"
            " folder per class.",
            show_default=False,
        ),
    ],
    method: Annotated[
        str,
        typer.Option(
            help="el2n, el2n-squared, grand, grand-last-layer, forgetting, loss, entropy, margin, input-norm, random,"
            " or a method of the grid that scores single points, such as bald."
        ),
    ] = "el2n",
    keep: Annotated[float, typer.Option(help="The share of examples to keep.")] = 0.5,
    labels: Annotated[
        str | None, typer.Option(help="The column of labels, an array whose name is unusual, or a file by ids.")
    ] = None,
    inputs: Inputs = None,
    ids: Annotated[str | None, typer.Option(help="The column or array of ids; row numbers if not given.")] = None,
    network: Annotated[
        str | None, typer.Option(help="As in recipes: mlp, mnist-cnn, resnet18 …; chosen by the inputs if not given.")
    ] = None,
    runs: Annotated[int, typer.Option(min=1, help="Trainings, over which scores are averaged.")] = 3,
    epochs: Annotated[int, typer.Option(min=1, help="Of the whole training.")] = 20,
    at_epoch: Annotated[
        list[int] | None,
        typer.Option(
            min=0,
            help="After how many epochs scores are taken: 0 is the untrained network; may be given twice."
            " Early in the training if not given.",
        ),
    ] = None,
    balanced: Annotated[bool, typer.Option("--balanced", help="Keep the same share of each class.")] = False,
    easiest: Annotated[bool, typer.Option("--easiest", help="Keep the lowest scores instead of the highest.")] = False,
    seed: Annotated[int, typer.Option(help="Decides all that is random.")] = 0,
    device: Annotated[str | None, typer.Option(help="cpu or cuda; the best there is if not given.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write the result: .safetensors or .npz with all of it, or a table of all examples, the highest score"
            " first: .csv or .json."
        ),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write a page (.html): likely label errors, as pictures where inputs are some.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Score labelled examples by a network early in its training, and keep the most useful part.

    The highest scores are also where to look for wrong labels.
    """
    if out is not None and out.suffix not in (".safetensors", ".npz", ".csv", ".json"):
        raise ValueError(f"out: expected .safetensors, .npz, .csv or .json, found {out.name}; rename it")
    refuse_suffix(report, "report")
    if method in ("input-norm", "random"):
        refuse_idle(context, f"{method} needs no network", "network", "runs", "epochs", "at_epoch", "device")
    with ExitStack() as stack:
        from natsel.containers import atomically

        # First, so that a wrong folder costs no work.
        places = {path: stack.enter_context(atomically(path)) for path in (out, report) if path is not None}
        examples = _examples(data, columns(labels, inputs) | ({} if ids is None else {"ids": ids}))

        import natsel
        from natsel.models import Training
        from natsel.progress import ProgressBar

        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", r"keep: .* equal scores")  # the provenance says it
        found = natsel.prune(
            *(examples, method, keep),
            network=network,
            training=Training(max_epochs=epochs, patience=None, enough=0.0, keep="last"),
            runs=runs,
            at_epoch=at_epoch or None,
            balanced=balanced,
            easiest=easiest,
            seed=seed,
            device=device,
            progress=ProgressBar("prune"),
        )
        if out is not None:
            _write(found, out, places[out])
        if report is not None:
            from natsel.experiments.report.pruning_page import pruning_page

            places[report].write_text(pruning_page(found, title=Path(data).name), encoding="utf-8")
    written = [str(path) for path in (out, report) if path is not None]
    if as_json:
        print_json(_summary(found) | {"written": written})
    else:
        _show(found, written)


def _examples(data: str, named: dict[str, Any]) -> "Examples":
    """A data set of that name, else the file or folder."""
    from natsel.data import load, read_examples

    if is_set(data):
        if named:
            raise ValueError(f"{next(iter(named))}: {data} comes with its labels; leave --{next(iter(named))} out")
        return load(data).train
    if not Path(data).exists():
        raise ValueError(f"data: {data!r} is neither a file nor a data set; natsel data lists the sets")
    return read_examples(data, **named)


def _write(found: "Pruning", out: Path, place: Path) -> None:
    if out.suffix in (".csv", ".json"):
        rows = found.hardest()
        place.write_text(as_csv(rows) if out.suffix == ".csv" else json_text(rows), encoding="utf-8")
        return
    named = place.with_suffix(out.suffix)  # the ending decides the format
    try:
        found.save(named)
        named.replace(place)
    finally:
        named.unlink(missing_ok=True)


def _errors(found: "Pruning", k: int) -> list[dict[str, Any]]:
    return [] if found.predicted_N is None else found.likely_label_errors(k)


def _summary(found: "Pruning") -> dict[str, Any]:
    from natsel.ids import keys_of

    return {
        "method": found.method,
        "examples": len(found.all_ids),
        "kept": len(found),
        "ids": keys_of(found.ids),
        "likely_label_errors": _errors(found, 20),
        "provenance": dict(found.provenance),
    }


def _show(found: "Pruning", written: list[str]) -> None:
    shown = console()
    shown.print(f"{len(found):,} of {len(found.all_ids):,} examples kept by {found.method}")
    warn([f"keep: {found.provenance['ties']}"] if "ties" in found.provenance else [])
    errors = _errors(found, _FIRST)
    if errors:
        shown.print("the likeliest label errors:")
        cells = [(str(row["id"]), f"{row['score']:.4f}", str(row["label"]), str(row["predicted"])) for row in errors]
        shown.print(fitted(text_table(("id", "score", "label", "predicted"), cells), shown.width))
    for path in written:
        shown.print(f"written to {path}", soft_wrap=True)
