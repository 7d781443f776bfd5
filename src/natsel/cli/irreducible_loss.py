"""`natsel irreducible-loss`: how much of each label a network trained on other data cannot explain."""

import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from natsel.cli.output import console, fitted, print_json, text_table, warn
from natsel.cli.prediction_files import AsJson, Inputs, columns, is_set

if TYPE_CHECKING:
    from natsel import Examples, IrreducibleLoss

NAME = "irreducible-loss"
EXAMPLE = (
    "Example: natsel irreducible-loss digits --out digits-il.safetensors   or   natsel irreducible-loss train.csv"
    " --labels kind --holdout held-out.csv --out il.safetensors"
)
_LARGEST = 5
"""Points shown with the largest losses."""
_PIXELS_OF = 4096
"""Pictures whose mean and deviation stand for those of all."""


def command(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A data set by name (its training part), or labelled data: .csv, .tsv, .parquet, .npz, .safetensors or"
            " a folder of images.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option(help="Write the losses: .safetensors or .parquet.", show_default=False)],
    cross_fit: Annotated[
        int | None,
        typer.Option(
            metavar="FOLDS",
            help="Score each fold by a network trained on the other folds; 2 if neither this nor --holdout is given.",
        ),
    ] = None,
    holdout: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE|FILE",
            help="Train on held-out data: a share of DATA such as 0.1, which then gets no losses, or another file.",
        ),
    ] = None,
    network: Annotated[str, typer.Option(help="The network, as recipes name it: mlp, lenet, resnet18 and others.")] = (
        "mlp"
    ),
    labels: Annotated[str | None, typer.Option(help="The column or array of labels, or a file by ids.")] = None,
    inputs: Inputs = None,
    ids: Annotated[
        str | None, typer.Option(help="The column or array that holds the ids; row numbers if not given.")
    ] = None,
    epochs: Annotated[int, typer.Option(min=1, help="At most so many; it stops when the loss rises.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help="Of folds, initial weights and batches.")] = 0,
    device: Annotated[str | None, typer.Option(help="cpu or cuda; the best there is if not given.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compute irreducible losses: −ln p(y|x) under a network trained on other data alone.

    Large where a label is wrong, ambiguous or rare. One file serves all runs of RHO-LOSS on the same data.
    """
    if cross_fit is not None and holdout is not None:
        raise ValueError("holdout: found --cross-fit as well; pass one of the two")
    from natsel.progress import ProgressBar
    from natsel.sampling.irreducible_loss import DEFAULT_TRAINING, IrreducibleLoss, check_path, examples_fingerprint

    check_path(out)
    if not out.resolve().parent.is_dir():
        raise ValueError(f"out: there is no folder {out.resolve().parent} to write to; make it first")
    named = columns(labels, inputs)
    found = whole = _read(data, named, ids)
    make, held = _network(network, whole, device), None
    if holdout is not None:
        held, found = _held_out(holdout, whole, named, ids, seed)
    scored = _scaled(whole, found.examples)
    settings: dict[str, Any] = {"training": replace(DEFAULT_TRAINING, max_epochs=epochs), "seed": seed}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        settings |= {"device": device, "ids": found.ids, "progress": ProgressBar(NAME)}
        if held is None:
            losses = IrreducibleLoss.cross_fitted(make, scored, folds=2 if cross_fit is None else cross_fit, **settings)
        else:
            losses = IrreducibleLoss.fit(make, _scaled(whole, held), scored, **settings)
    # What a network is given may be scaled; the table belongs to the data as they are.
    losses = replace(losses, fingerprint=examples_fingerprint(found.examples), about=f"{found.name}: {losses.about}")
    losses.save(out)
    said = [str(one.message) for one in caught]
    if as_json:
        print_json(_report(losses) | {"warnings": said, "written": str(out)})
    else:
        _show(losses, out)
        warn(said)


@dataclass(frozen=True)
class _LabelledData:
    """Labelled examples with their ids, and what building a network needs to know of them."""

    name: str
    examples: "Examples"
    ids: Any
    kind: str


def _read(data: str, named: dict[str, Any], ids: str | None) -> _LabelledData:
    """The examples of a data set of natsel, or of a file, whose labels are known classes."""
    import numpy as np

    path = Path(data)
    if not is_set(data) and path.exists():
        examples, kind = _from_file(path, named, ids)
        name = path.name
    else:
        from natsel.data import load, names

        if path.suffix and data not in names():
            raise ValueError(f"data: there is no file {path}; check the name")
        if named or ids is not None:
            raise ValueError(f"{next(iter(named), 'ids')}: {data} is a data set by name; take it out")
        try:
            part = load(data)
        except ValueError as reason:
            raise ValueError(f"data: {str(reason).removeprefix('name: ')}") from None
        examples, kind, name = part.train, part.kind, data
    if kind == "text":
        raise ValueError(f"data: {name} holds texts, and networks take numbers or pictures; pass embeddings of them")
    if examples.labels is None:
        raise ValueError(f"labels: found none in {name}; say which column or array they are in")
    if np.asarray(examples.labels).dtype.kind == "f" or np.ndim(examples.labels) != 1:
        raise ValueError(f"labels: those of {name} are no classes; irreducible losses are for classes")
    from natsel.experiments.running.data_source import known_rows

    known = known_rows(examples)
    if not len(known):
        raise ValueError(f"labels: no row of {name} has a label; label some first")
    own = examples.masks.get("ids", examples.masks.get("file"))
    names_of_rows = known if own is None else np.asarray(own)[known]
    return _LabelledData(name, examples if len(known) == len(examples) else examples[known], names_of_rows, kind)


def _from_file(path: Path, named: dict[str, Any], ids: str | None, classes: tuple[str, ...] = ()) -> tuple[Any, str]:
    from natsel.data import read_examples
    from natsel.experiments.running.data_source import kind_of, with_class_names

    examples = with_class_names(read_examples(path, ids=ids, classes=classes, **named))
    return examples, kind_of(examples.inputs)


def _held_out(
    holdout: str, found: _LabelledData, named: dict[str, Any], ids: str | None, seed: int
) -> tuple["Examples", _LabelledData]:
    """The examples to train on, and those to score: all, or those that a share leaves."""
    import numpy as np

    from natsel.experiments.running.data_source import held_out, known_rows, rows_to_test
    from natsel.seeds import derive

    try:
        share = float(holdout)
    except ValueError:
        path = Path(holdout)
        if not path.exists():
            raise ValueError(f"holdout: expected a share such as 0.1 or a file, found {holdout!r}") from None
        examples, _ = _from_file(path, named, ids, found.examples.classes)
        if examples.labels is None:
            raise ValueError(f"holdout: {path.name} has no labels; say which column or array they are in") from None
        return examples[known_rows(examples)], found
    if not 0 < share < 1:
        raise ValueError(f"holdout: expected a share between 0 and 1, found {holdout}")
    rows = len(found.examples)
    taken, left = held_out(np.arange(rows), rows_to_test(share, rows, "holdout"), derive(seed, "holdout"))
    return found.examples[taken], replace(found, examples=found.examples[left], ids=found.ids[left])


def _network(name: str, found: _LabelledData, device: str | None) -> Any:
    """What makes the network of that name for the data."""
    import numpy as np

    from natsel.models.kinds import KINDS, DataFacts

    kind = KINDS["ensemble"]  # its networks are those that recipes name
    choices = kind.options["network"].choices or ()
    if name not in choices:
        raise ValueError(f"network: there is no {name!r}; choose one of {', '.join(choices)}")
    scale, shape = (0.0, 1.0), np.shape(_numbers(found.examples.inputs[:1]))[1:]
    if found.kind == "image":
        pixels = np.asarray(found.examples.inputs[:_PIXELS_OF])
        pixels = pixels / 255 if pixels.dtype == np.uint8 else pixels
        scale = round(float(pixels.mean()), 4), round(float(pixels.std()), 4)
    facts = DataFacts(found.name, found.kind, shape, found.examples.n_classes, scale, device=device)
    options: dict[str, Any] = {"hidden": (256,), "dropout": 0.0} if name == "mlp" else {}
    try:
        return kind.build({"network": name, "members": 1, **options}, facts).network
    except ValueError as reason:
        raise ValueError(str(reason).removeprefix("model.")) from None


def _scaled(found: _LabelledData, examples: "Examples") -> "Examples":
    """Columns of a table with the mean 0 and the deviation 1 that they have in the data; pictures as they are."""
    import numpy as np

    if found.kind != "table":
        return examples
    whole, inputs = (np.asarray(_numbers(part.inputs), dtype=np.float64) for part in (found.examples, examples))
    if whole.shape[1:] != inputs.shape[1:]:
        raise ValueError(f"holdout: has rows of shape {inputs.shape[1:]}, {found.name} of {whole.shape[1:]}")
    deviation = whole.std(0)
    scaled = (inputs - whole.mean(0)) / np.where(deviation > 0, deviation, 1.0)
    return replace(examples, inputs=scaled.astype(np.float32))


def _numbers(inputs: Any) -> Any:
    """Rows of a data frame as numbers, others as they are."""
    return inputs.numbers() if hasattr(inputs, "numbers") else inputs


def _report(losses: "IrreducibleLoss") -> dict[str, Any]:
    import numpy as np

    from natsel.ids import keys_of

    first = np.argsort(-losses.loss_N, kind="stable")[:_LARGEST]
    largest = zip(keys_of(losses.ids[first]), losses.loss_N[first].tolist(), strict=True)
    return {
        "points": len(losses),
        "mean": float(losses.loss_N.mean(dtype=np.float64)),
        "median": float(np.median(losses.loss_N)),
        "largest": [{"id": id, "irreducible_loss": loss} for id, loss in largest],
        "about": losses.about,
        "fingerprint": losses.fingerprint,
    }


def _show(losses: "IrreducibleLoss", out: Path) -> None:
    found, shown = _report(losses), console()
    shown.print(found["about"])
    shown.print(f"{found['points']:,} points, mean {found['mean']:.4f} nats, median {found['median']:.4f}")
    rows = [(str(one["id"]), f"{one['irreducible_loss']:.4f}") for one in found["largest"]]
    shown.print(fitted(text_table(("largest: id", "irreducible loss"), rows), shown.width))
    shown.print(f"written to {out}", soft_wrap=True)
