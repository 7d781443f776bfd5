"""`natsel triage`: which predictions in a file to accept, which to defer, and which inputs to have labelled."""

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from natsel.cli.output import as_csv, console, fitted, json_text, print_json, text_table, warn
from natsel.cli.prediction_files import (
    FILE,
    AsJson,
    Classes,
    Key,
    Labels,
    Logits,
    LogProbs,
    Probs,
    SingleDraw,
    kind_of_numbers,
    read_belief,
    read_labels,
    refuse_suffix,
)

if TYPE_CHECKING:
    from natsel import Belief
    from natsel.choose import Triage

NAME = "triage"
EXAMPLE = (
    "Example: natsel triage new.safetensors --out decisions.csv   or   natsel triage new.npz --probs --reference"
    " ordinary.npz --page triage.html"
)
_FIRST = 5
"""Ids shown of each kind."""


def command(
    file: Annotated[Path, typer.Argument(help=FILE, show_default=False)],
    reference: Annotated[
        Path | None,
        typer.Option(help="Predictions for ordinary inputs, such as held-out data: limits are taken there."),
    ] = None,
    level: Annotated[float, typer.Option(help="With --reference: the share of its points below each limit.")] = 0.99,
    epistemic_limit: Annotated[float | None, typer.Option(help="Unfamiliar above this score.")] = None,
    aleatoric_limit: Annotated[float | None, typer.Option(help="Ambiguous above this entropy, in nats.")] = None,
    labels: Labels = None,
    classes: Classes = None,
    error: Annotated[float, typer.Option(help="With --labels: what accepting a wrong prediction costs.")] = 1.0,
    defer: Annotated[float, typer.Option(help="What deferring costs.")] = 0.1,
    label: Annotated[float, typer.Option(help="What a label costs.")] = 0.1,
    log_probs: LogProbs = False,
    probs: Probs = False,
    logits: Logits = False,
    key: Key = None,
    single_draw: SingleDraw = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Write the decisions: .csv with id,decision,epistemic,aleatoric,predicted, or .json."),
    ] = None,
    page: Annotated[Path | None, typer.Option(help="Write a page (.html): scores, curves and examples.")] = None,
    pictures: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="For the page: a folder of images that ids name, or an array of images (.npy, .npz) in the order of"
            " the points.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Sort inputs: accept the prediction, defer what is ambiguous, have labelled what is unfamiliar.

    Limits come from the options, else from --reference, else from the model that made the belief (DDU knows its
    training set). Labels of -1 belong to no class.
    """
    if out is not None and out.suffix not in (".csv", ".json"):
        raise ValueError(f"out: expected a name that ends in .csv or .json, found {out.name}; rename it")
    refuse_suffix(page, "page")
    if None not in (epistemic_limit, aleatoric_limit, reference):
        raise ValueError("reference: both limits are given, and none is taken from it; leave --reference out")
    kind = kind_of_numbers(log_probs, probs, logits, means=False)
    read = partial(read_belief, kind=kind, key=key, single_draw=single_draw, noise=None)
    with ExitStack() as stack:
        places = {}
        if out is not None or page is not None:
            from natsel.containers import atomically

            places = {path: stack.enter_context(atomically(path)) for path in (out, page) if path is not None}
        import natsel

        belief = read(file)
        known = None if labels is None else read_labels(labels, belief, "labels", classes)
        shown = None if pictures is None else _pictures(pictures, belief)
        ordinary = None if reference is None else read(reference)
        found = natsel.triage(
            belief,
            epistemic_limit=epistemic_limit,
            aleatoric_limit=aleatoric_limit,
            reference=ordinary,
            level=level,
        )
        costs = None if known is None else found.costs(known, error=error, defer=defer, label=label)
        if out is not None:
            places[out].write_text(_decisions(found, out), encoding="utf-8")
        if page is not None:
            from natsel.experiments.report.triage_page import triage_page

            content = triage_page(found, known, shown, title=file.name, error=error, defer=defer, label=label)
            places[page].write_text(content, encoding="utf-8")
    written = [str(path) for path in (out, page) if path is not None]
    if as_json:
        print_json(_report(found, costs) | {"written": written})
    else:
        _show(found, costs, written)
        warn(found.warnings)


def _pictures(path: Path, belief: "Belief") -> Any:
    """Pictures by id: from a folder, or from an array in the order of the points."""
    if path.suffix not in (".npy", ".npz"):
        from natsel.experiments.report.pictures_of_ids import PicturesOfIds

        folder = PicturesOfIds(path)
        if not any(folder.file_of(id) for id in belief.ids.tolist()):
            raise ValueError(f"pictures: no id names an image below {path}; leave it out")
        return folder
    from natsel.containers import open_arrays, read_npy
    from natsel.experiments.report.pictures_in_array import PicturesInArray

    if path.suffix == ".npy":
        return PicturesInArray(read_npy(path), belief.ids)
    arrays = open_arrays(path)
    able = [name for name, shape in arrays.shapes.items() if len(shape) in (3, 4)]
    if len(able) != 1:
        raise ValueError(f"pictures: {path} holds {arrays}; keep one array of images in it")
    return PicturesInArray(arrays.read(able[0]), belief.ids)


def _decisions(found: "Triage", out: Path) -> str:
    return as_csv(found.rows()) if out.suffix == ".csv" else json_text(found.rows())


def _report(found: "Triage", costs: dict[str, float] | None) -> dict[str, Any]:
    from natsel.ids import keys_of

    return {
        "points": len(found),
        "counts": found.counts(),
        "limits": {"epistemic": found.epistemic_limit, "aleatoric": found.aleatoric_limit},
        "scores": {"epistemic": found.epistemic_name, "aleatoric": found.aleatoric_name},
        "label": keys_of(found.ids_of("label")),
        "defer": keys_of(found.ids_of("defer")),
        "costs": costs,
        "warnings": list(found.warnings),
    }


def _show(found: "Triage", costs: dict[str, float] | None, written: list[str]) -> None:
    shown = console()
    unfamiliar = "not known for this belief"
    if found.epistemic_limit is not None:
        unfamiliar = f"{found.epistemic_name} > {found.epistemic_limit:.4g}"
    why = {"accept": "neither", "defer": f"ambiguous: {found.aleatoric_name} > {found.aleatoric_limit:.4g}"}
    why["label"] = f"unfamiliar: {unfamiliar}"
    rows = []
    for word, count in found.counts().items():
        first = ", ".join(map(str, found.ids_of(word)[:_FIRST])) if word != "accept" else ""  # type: ignore[arg-type]
        rows.append((word, f"{count:,}", why[word], first + (" …" if word != "accept" and count > _FIRST else "")))
    shown.print(fitted(text_table(("decision", "points", "why", "first ids"), rows), shown.width))
    if costs is not None:
        told = ", ".join(f"{name} {value:.4f}" for name, value in costs.items() if name != "errors accepted")
        shown.print(f"cost per point: {told}")
        shown.print(f"wrong among accepted: {costs['errors accepted']:.2%}")
    for path in written:
        shown.print(f"written to {path}", soft_wrap=True)
