"""Irreducible losses: what a model that was trained on other data alone cannot explain of each label, in nats.

    IL(x, y) = −ln p(y | x, D_other)                         one number per point, computed once before training
    of an ensemble: −ln (1/K) Σ_k p_k(y | x, D_other)        the logarithm of the mean, not the mean of logarithms

`fit` trains on held-out examples. `cross_fitted` needs none: examples are cut into folds with equal shares of each
class, and each fold is scored by a network trained on the other folds. No point may be scored by a network that was
trained on it, because a wrong label that was learnt has a low loss. Of all epochs the one with the least loss on the
points to be scored is kept, not the most accurate one: later epochs are over-confident, which raises the losses of good
points. Points are scored in evaluation mode and as they are, whatever augmentation training used.

A table of losses goes by id and knows which data it belongs to, so that one file serves all runs on the same data.
docs/theory/training-selection.md, 4; Mindermann et al. 2022.
"""

import json
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from natsel.beliefs import CategoricalSamples
from natsel.containers import atomically, digest_of, open_arrays, readable, sealed, unsealed, write_arrays
from natsel.data.alignment import aligned, index_of, only_counts
from natsel.data.contents import digests_of, fingerprint_of, is_sampled, kind_of, sample
from natsel.data.examples import Examples, as_labelled
from natsel.data.labels import as_numpy
from natsel.evaluation.joint import marginal_losses
from natsel.ids import IdArray, Key, as_ids, ids_for, keys_of
from natsel.models.fingerprints import fingerprint
from natsel.models.networks.architectures import Network, fresh
from natsel.models.networks.inputs import as_device
from natsel.models.networks.prediction import predict
from natsel.models.networks.training import Training, kept_epoch, train
from natsel.models.protocol import Progress
from natsel.options import Rows, warn
from natsel.progress import ProgressBar
from natsel.sampling.labelled_data import examples_of
from natsel.seeds import derive

Array = np.ndarray[Any, Any]

DEFAULT_TRAINING = Training(optimiser="adamw", weight_decay=0.01, patience=5, keep="least-loss")
"""How networks are trained where nothing else is said: as published, stopped five epochs after the least loss."""

_FORMAT = "1"
_KIND = "IrreducibleLoss"
_ROWS = 1 << 16  # scored at a time: outputs of a million points with a thousand classes would not fit into memory


@dataclass(frozen=True, eq=False)
class IrreducibleLoss:
    """One irreducible loss per point, in nats, by id; nothing changes it once it is made.

    `fingerprint` tells which inputs and labels the losses belong to ("" where that is not known), `about` how they were
    made.

    >>> table = IrreducibleLoss([0.5, 2.0], ids=["a.png", "b.png"])
    >>> table.at(["b.png"])
    tensor([2.])
    """

    loss_N: Rows
    ids: Any = None
    fingerprint: str = ""
    about: str = ""

    def __post_init__(self) -> None:
        given, index = self.loss_N, index_of(self.loss_N)
        ids = self.ids if self.ids is not None or index is None or only_counts(index) else index
        if index is not None and ids is not None:
            given, _ = aligned(given, ids, "loss_N", listed=True)
        loss_N = as_numpy(given).astype(np.float32)  # a copy, which nobody else can change
        if loss_N.ndim != 1 or not len(loss_N):
            raise ValueError(f"loss_N: expected one number per point, found shape {loss_N.shape}; pass a vector")
        wrong_N = np.isnan(loss_N) | np.isneginf(loss_N)
        if wrong_N.any():
            row = int(wrong_N.argmax())
            raise ValueError(f"loss_N: found {loss_N[row]} in row {row}; leave such points out")
        loss_N.flags.writeable = False
        object.__setattr__(self, "loss_N", loss_N)
        ids = ids_for(ids, len(loss_N))
        ids.flags.writeable = False
        object.__setattr__(self, "ids", ids)

    def __len__(self) -> int:
        return len(self.loss_N)

    def __repr__(self) -> str:
        return f"IrreducibleLoss({len(self)} points, mean {float(self.loss_N.mean(dtype=np.float64)):.4f} nats)"

    @classmethod
    def fit(
        cls,
        network: Network,
        holdout: Any,
        of: Any,
        *,
        training: Training | None = None,
        seed: int = 0,
        device: torch.device | str | None = None,
        ids: Any = None,
        progress: Progress | None = None,
    ) -> Self:
        """Losses of the examples `of` under a network trained on `holdout`, which must be other examples.

        `holdout`, `of`: natsel.Examples, (inputs, labels) or a torch data set. `network`: a module (copied and
        re-initialised) or a function that makes one. `training`: how it is trained; the epoch of least loss on `of` is
        kept, whatever `keep` says. `ids` name the points of `of`, as the index of a data frame does; else they count
        from 0.

        >>> from natsel.models import mlp
        >>> rows = Examples(np.array([[-1.0], [1.0]] * 20, dtype=np.float32), np.array([0, 1] * 20))
        >>> wrong = Examples(np.array([[-0.9], [1.1], [0.9]], dtype=np.float32), np.array([0, 1, 0]))
        >>> table = IrreducibleLoss.fit(mlp(1, 2), rows, wrong, training=Training(max_epochs=3), device="cpu")
        >>> int(table.loss_N.argmax())  # class 0 among inputs of class 1
        2
        """
        of, _, names = _labelled(of, "of", ids)
        holdout, _, _ = _labelled(holdout, "holdout", None)
        training = _settings(training)
        bar = ProgressBar("irreducible losses") if progress is None else progress
        loss_N, epoch = _scored(network, holdout, of, training, seed, device, bar, ("holdout", "of"))
        about = f"trained on {len(holdout):,} held-out examples, epoch {epoch + 1} kept, seed {seed}"
        return cls(loss_N, names, examples_fingerprint(of), about)

    @classmethod
    def cross_fitted(
        cls,
        network: Network,
        examples: Any,
        *,
        folds: int = 2,
        training: Training | None = None,
        seed: int = 0,
        device: torch.device | str | None = None,
        ids: Any = None,
        progress: Progress | None = None,
    ) -> Self:
        """Losses of all examples without held-out data: each fold is scored by a network trained on the others.

        The arguments are those of `fit`. Folds have equal shares of each class, within one example.

        >>> from natsel.models import mlp
        >>> rows = Examples(np.linspace(-1, 1, 40, dtype=np.float32)[:, None], np.arange(40) // 20)
        >>> len(IrreducibleLoss.cross_fitted(mlp(1, 2), rows, training=Training(max_epochs=3), device="cpu"))
        40
        """
        examples, labels_N, names = _labelled(examples, "examples", ids)
        fold_N = class_balanced_folds(labels_N, folds, derive(seed, "folds"))
        training = _settings(training)
        bar = ProgressBar("irreducible losses") if progress is None else progress
        loss_N, kept = np.zeros(len(examples), dtype=np.float32), []
        for fold in range(folds):
            of_N = fold_N == fold

            def told(done: int, total: int, before: int = fold) -> None:
                bar(before * total + done, folds * total)

            others, of, own_seed = examples[~of_N], examples[of_N], derive(seed, "fold", fold)
            loss_N[of_N], epoch = _scored(network, others, of, training, own_seed, device, told)
            kept.append(str(epoch + 1))
        about = f"cross-fitted in {folds} folds, epochs {', '.join(kept)} kept, seed {seed}"
        return cls(loss_N, names, examples_fingerprint(examples), about)

    @classmethod
    def of_log_probs(
        cls, log_probs_N_K_C: Rows, labels: Rows, *, inputs: Rows = None, ids: Rows = None, about: str = ""
    ) -> Self:
        """Losses from predictions of K models that were trained on other data: −ln of their mean probability.

        `inputs` are those that were predicted; with them the table knows which data it belongs to.

        >>> IrreducibleLoss.of_log_probs(np.log([[[0.9, 0.1], [0.1, 0.9]]]), [0]).loss_N
        array([0.6931472], dtype=float32)
        """
        checked_N_K_C = CategoricalSamples(log_probs_N_K_C).log_probs_N_K_C  # refuses what is no log of probabilities
        labels, _ = aligned(labels, len(checked_N_K_C) if ids is None else ids, listed=True, what="predictions")
        labels = np.array(as_numpy(labels))  # those of pandas may not be written to, which torch would warn about
        try:
            loss_N = marginal_losses(checked_N_K_C, labels)
        except ValueError as reason:
            raise ValueError(str(reason).replace("labels_N", "labels")) from None
        draws = checked_N_K_C.shape[1]
        known = "" if inputs is None else examples_fingerprint(Examples(inputs, labels))
        return cls(loss_N.clamp(min=0), ids, known, about or f"from the predictions of {draws} models")

    def at(self, ids: Any) -> Tensor:
        """The losses of some points as float32; ids that are not in the table are refused.

        >>> IrreducibleLoss([0.5, 2.0], ids=[7, 9]).at([9, 7])
        tensor([2.0000, 0.5000])
        """
        keys = keys_of(as_ids(ids))
        if missing := [key for key in keys if key not in self._places]:
            count = len(missing) - 1
            others = f" and {count:,} others" if count > 1 else " and one other" if count else ""
            raise ValueError(
                f"ids: no irreducible loss is known for {missing[0]!r}{others}; ask for points of"
                " this table, or make a table of all points"
            )
        return torch.from_numpy(self.loss_N[[self._places[key] for key in keys]])

    def refuse_other(self, of: Examples) -> None:
        """Raise a ValueError where these losses belong to other data than `of`.

        >>> rows = Examples(np.eye(2), np.array([0, 1]))
        >>> IrreducibleLoss([1.0, 2.0], fingerprint=examples_fingerprint(rows)).refuse_other(rows)
        """
        if not self.fingerprint:
            raise ValueError(
                "of: these irreducible losses do not say which data they belong to; make them with inputs=, or leave of"
                " out"
            )
        if len(of) != len(self) or not examples_fingerprint(of).startswith(self.fingerprint):
            raise ValueError(
                f"of: these irreducible losses belong to {len(self):,} other examples"
                f" ({self.about or 'no more is known'}), found {len(of):,}; use the inputs and labels that they were"
                " made of, or make them again"
            )

    def are_of(self, examples: Examples | None, some_labels: Any = None) -> bool:
        """Whether as many examples are those that the losses belong to, as far as the table tells.

        Rows of another type or shape (bytes that were made numbers) are known by 64 labels. Where rows cannot be read,
        `examples` are None, and the labels of `sample(N)` are given.
        """
        known = self.fingerprint.split(":")
        found = ["", "", _short(some_labels)] if examples is None else examples_fingerprint(examples).split(":")
        part = 2 if len(known) > 1 and known[1] != found[1] else 0
        return known[part] in ("", found[part]) or (examples is None and part == 0)

    def save(self, path: str | Path) -> None:
        """Write the table to `.safetensors`, or to `.parquet` (extra `parquet`) with columns id and irreducible_loss.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     IrreducibleLoss([0.5, 2.0]).save(f"{folder}/il.safetensors")
        ...     IrreducibleLoss.load(f"{folder}/il.safetensors")
        IrreducibleLoss(2 points, mean 1.2500 nats)
        """
        place = check_path(path)
        texts = {
            "natsel_kind": _KIND,
            "natsel_format": _FORMAT,
            "fingerprint": self.fingerprint,
            "about": self.about,
        }
        if place.suffix == ".parquet":
            _write_parquet(place, keys_of(self.ids), self.loss_N, texts)
            return
        # Names are one text, since tensors hold numbers alone.
        whole = self.ids.dtype.kind == "i"
        ids = self.ids.copy() if whole else np.frombuffer(json.dumps(keys_of(self.ids)).encode(), dtype=np.uint8).copy()
        tensors = {"loss_N": self.loss_N.copy(), "ids": ids}
        write_arrays(place, {name: torch.from_numpy(array) for name, array in tensors.items()}, texts)

    @classmethod
    def load(cls, path: str | Path, of: Examples | None = None) -> Self:
        """Read what `save` wrote; where `of` is given, losses that belong to other examples are refused."""
        place = check_path(path)
        loss_N, ids, texts = (_read_parquet if place.suffix == ".parquet" else _read_safetensors)(place)
        found = cls(loss_N, ids, texts.get("fingerprint", ""), texts.get("about", ""))
        if of is not None:
            found.refuse_other(of)
        return found

    @cached_property
    def _places(self) -> dict[Key, int]:
        return {key: place for place, key in enumerate(keys_of(self.ids))}


def examples_fingerprint(examples: Examples) -> str:
    """A short name for inputs and labels: the same for the same data, in every process.

    It has three parts: all; the kind of a row; 64 labels. Of inputs that somebody else's code has to read (a torch data
    set), 64 rows stand for all.

    >>> one, other = (Examples(np.eye(2), np.array(labels)) for labels in ([0, 1], [1, 1]))
    >>> examples_fingerprint(one) == examples_fingerprint(one), examples_fingerprint(one) == examples_fingerprint(other)
    (True, False)
    """
    inputs, sampled = examples.inputs, is_sampled(examples.inputs)
    if sampled and len(inputs):
        known: Any = len(inputs), kind_of(inputs), digests_of(inputs, sample(len(inputs))).astype("<i8").tobytes().hex()
    else:
        known = fingerprint_of(inputs)
    labels = None if examples.labels is None else np.asarray(examples.labels)
    if labels is not None:
        labels = labels.astype("<f8" if labels.dtype.kind == "f" else "<i8")
    whole, kind = _short(labels, known, bytes_of_digest=16), kind_of(inputs) if len(inputs) else ""
    return f"{whole}:{_short((kind, sampled))}:{_short(None if labels is None else labels[sample(len(labels))])}"


def _short(part: Any, *before: Any, bytes_of_digest: int = 8) -> str:
    if isinstance(part, np.ndarray):  # as tables have always had it: files of theirs are there
        part = repr(part.shape).encode() + part.tobytes()
    return fingerprint(_KIND, *before, part, bytes_of_digest=bytes_of_digest)


def class_balanced_folds(labels_N: Array, folds: int, seed: int = 0) -> Array:
    """The fold of each point, 0..folds−1: equal numbers of each class in each fold, within one, drawn by the seed.

    >>> class_balanced_folds(np.array([0, 0, 1, 1]), 2).reshape(2, 2).sum(1)
    array([1, 1])
    """
    if not isinstance(folds, Integral) or not 2 <= folds <= len(labels_N):
        raise ValueError(f"folds: expected a whole number from 2 to {len(labels_N)} (the points), found {folds!r}")
    order_N = np.random.default_rng(seed).permutation(len(labels_N))
    order_N = order_N[np.argsort(labels_N[order_N], kind="stable")]
    fold_N = np.empty(len(labels_N), dtype=np.int64)
    fold_N[order_N] = np.arange(len(labels_N)) % folds  # goes on from class to class, so that folds are equally large
    return fold_N


def check_path(path: str | Path) -> Path:
    """The path of a table, if its name ends as those of tables do and what it needs is installed.

    >>> check_path("il.safetensors").suffix
    '.safetensors'
    """
    place = Path(path)
    if place.suffix not in (".safetensors", ".parquet"):
        raise ValueError(f"path: expected a name that ends in .safetensors or .parquet, found {place.name}; rename it")
    if place.suffix == ".parquet":
        _pyarrow()
    return place


def _settings(training: Training | None) -> Training:
    if training is not None and not isinstance(training, Training):
        raise ValueError(
            f"training: expected natsel.models.Training(…), found {type(training).__name__}; leave it out for the"
            " default"
        )
    # Points are scored without dropout, and the epoch must be judged in the same way.
    return replace(training or DEFAULT_TRAINING, keep="least-loss", validation_draws=0)


def _labelled(dataset: Any, name: str, ids: Any) -> tuple[Examples, Array, IdArray]:
    """Examples whose labels are known classes, the classes, and the ids."""
    examples, own = examples_of(dataset, ids=ids)
    if examples.labels is None and not isinstance(dataset, Examples):
        raise ValueError(f"{name}: expected natsel.Examples(inputs, labels), found {type(dataset).__name__}")
    if not len(examples) or examples.labels is None:
        raise ValueError(f"{name}: found no {'labels' if len(examples) else 'examples'}; pass labelled examples")
    labels_N = np.asarray(examples.labels)
    if labels_N.ndim != 1 or labels_N.dtype.kind not in "iu":
        raise ValueError(
            f"{name}: expected a class for each point, found labels of {labels_N.dtype}; number the classes"
        )
    if labels_N.min() < 0:
        row = int((labels_N < 0).argmax())
        raise ValueError(f"{name}: the label of row {row} is not known; leave such points out")
    return examples, labels_N, ids_for(ids if isinstance(dataset, Examples) else own, len(examples))


def _scored(
    network: Network,
    others: Examples,
    of: Examples,
    training: Training,
    seed: int,
    device: torch.device | str | None,
    progress: Progress,
    arguments: tuple[str, str] = ("examples", "examples"),
) -> tuple[Array, int]:
    """The losses of some points under a network trained on others, and the number of the epoch that was kept.

    `arguments` are the names that the caller has for `others` and `of`.
    """
    others, read = as_labelled(others, of)
    of = read or of  # classes and columns as the network knows them
    _warn_of_seen(others, of)
    chosen = as_device(device)
    module = fresh(network, seed).to(chosen)
    try:
        epochs = train(module, others, of, training, seed=seed, device=chosen, progress=progress)
    except ValueError as reason:  # in the words of the arguments here
        said = str(reason)
        for found, name in zip(("labelled", "validation"), arguments, strict=True):
            said = f"{name}{said.removeprefix(found)}" if said.startswith(f"{found}: ") else said
        raise ValueError(said) from None
    loss_N = np.empty(len(of), dtype=np.float32)
    for start in range(0, len(of), _ROWS):
        part = slice(start, start + _ROWS)
        log_probs_n_1_C = predict([module], of[part].inputs, chosen).double().log_softmax(-1)
        loss_N[part] = marginal_losses(log_probs_n_1_C, of.labels[part]).cpu().numpy()
    return loss_N, kept_epoch(epochs, training.keep).number


def _warn_of_seen(others: Examples, of: Examples) -> None:
    """Warn of points that the network will have been trained on. Sets may hold a few rows twice, so that it goes on."""
    if is_sampled(others.inputs) or is_sampled(of.inputs):
        return
    rows = [
        zip(digests_of(part.inputs).tolist(), np.asarray(part.labels).tolist(), strict=True) for part in (others, of)
    ]
    trained_on = set(rows[0])
    seen = [row for row, pair in enumerate(rows[1]) if pair in trained_on]
    if seen:
        warn(
            f"irreducible losses: {len(seen):,} of {len(of):,} points, row {seen[0]} first, are also among the examples"
            " that the network is trained on, which lowers their losses; leave out copies"
        )


def _read_safetensors(path: Path) -> tuple[Any, Any, dict[str, str]]:
    arrays = open_arrays(path)
    _refuse_other_file(path, arrays.texts)
    if not {"loss_N", "ids"} <= arrays.shapes.keys():
        raise ValueError(f"path: {path} holds {arrays} and should hold loss_N and ids; write it again")
    ids = arrays.read("ids").numpy()
    if ids.dtype == np.uint8:
        with readable(path):
            ids = json.loads(ids.tobytes())
    return arrays.read("loss_N"), ids, arrays.texts


def _write_parquet(path: Path, keys: list[Key], loss_N: Array, texts: dict[str, str]) -> None:
    pyarrow, parquet = _pyarrow()
    if len({type(key) for key in keys}) > 1:
        raise ValueError("ids: a column of .parquet holds whole numbers or texts, found both; save as .safetensors")
    texts = sealed({**texts, "natsel_arrays": digest_of({"loss_N": torch.tensor(loss_N)}, json.dumps(keys))})
    table = pyarrow.table({"id": keys, "irreducible_loss": loss_N}).replace_schema_metadata(texts)
    with atomically(path) as place:
        parquet.write_table(table, place)


def _read_parquet(path: Path) -> tuple[Any, Any, dict[str, str]]:
    _, parquet = _pyarrow()
    with readable(path), path.open("rb") as stream:
        table = parquet.read_table(stream)
        texts = unsealed({key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()})
    _refuse_other_file(path, texts)
    if not {"id", "irreducible_loss"} <= set(table.column_names):
        raise ValueError(f"path: {path} should hold the columns id and irreducible_loss; write it again")
    with readable(path):
        loss_N, keys = table["irreducible_loss"].to_numpy(), table["id"].to_pylist()
        if texts.get("natsel_arrays") not in (None, digest_of({"loss_N": torch.tensor(loss_N)}, json.dumps(keys))):
            raise ValueError("it is not as natsel wrote it")
    return loss_N, keys, texts


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise ImportError(
            "path: .parquet needs pyarrow; install natsel[parquet], or name a .safetensors file"
        ) from None
    return pyarrow, parquet


def _refuse_other_file(path: Path, texts: dict[str, str]) -> None:
    kind, version = texts.get("natsel_kind"), texts.get("natsel_format")
    if kind != _KIND:
        raise ValueError(
            f"path: {path} holds {kind or 'no irreducible losses'}; name a file that IrreducibleLoss.save wrote"
        )
    if version != _FORMAT:
        raise ValueError(f"path: {path} has format {version}, this natsel reads {_FORMAT}; upgrade natsel")
