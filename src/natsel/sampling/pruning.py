"""What pruning found: a score for every example, which examples are kept, and what it was made with."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from natsel.containers import open_arrays, readable, write_arrays
from natsel.data.as_table import Tabular
from natsel.data.examples import Examples
from natsel.ids import IdArray, as_ids, keys_of
from natsel.sampling.irreducible_loss import examples_fingerprint
from natsel.sampling.labelled_data import examples_of

_FORMAT = "1"
_COLUMNS = ("score_N", "score_R_N", "positions_n", "labels_N", "predicted_N")


@dataclass(frozen=True, eq=False)
class Pruning(Tabular):
    """The examples that were kept of N, and the scores that decided; as a table the rows of `hardest`.

    `positions_n`: positions of the kept examples, those that are kept first at the front; `ids` are their ids.
    `score_N`: mean over runs; `score_R_N`: one row per run. `labels_N`, `predicted_N`: labels, and what the networks
    predict together (None where no network was asked). `provenance`: seeds, settings, versions, and the fingerprint of
    the data.

    >>> import natsel
    >>> found = natsel.prune((np.diag([1.0, 3.0, 2.0]), [0, 1, 0]), "input-norm", keep=0.7, ids=["a", "b", "c"])
    >>> found.ids.tolist(), found.examples.labels.tolist(), found.to_frame()["kept"].tolist()
    (['b', 'c'], [1, 0], [True, True, False])
    """

    method: str
    keep: float
    positions_n: np.ndarray[Any, Any]
    score_R_N: Tensor
    score_N: Tensor
    all_ids: IdArray
    labels_N: np.ndarray[Any, Any] | None = None
    predicted_N: np.ndarray[Any, Any] | None = None
    classes: tuple[str, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)
    data: Examples | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.positions_n)

    def __repr__(self) -> str:
        return f"Pruning({len(self):,} of {len(self.all_ids):,} examples kept by {self.method})"

    @property
    def ids(self) -> IdArray:
        """The ids of the kept examples."""
        kept: IdArray = self.all_ids[self.positions_n]
        return kept

    @property
    def examples(self) -> Examples:
        """The kept examples, in the order of `ids`."""
        if self.data is None:
            raise ValueError("examples: a file holds no data; read it with Pruning.load(path, of=the data set)")
        return self.data[self.positions_n]

    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return "rank", "id", "score", "label", "predicted", "kept"

    def rows(self) -> list[dict[str, Any]]:
        """All examples, the highest scores first."""
        return self.hardest()

    def hardest(self, k: int | None = None) -> list[dict[str, Any]]:
        """The k examples with the highest scores, kept or not, as rows: rank, id, score, label, predicted, kept.

        >>> import natsel
        >>> natsel.prune((np.diag([1.0, 3.0]), [0, 1]), "input-norm").hardest(1)[0]["id"]
        1
        """
        return self._rows(np.argsort(-self.score_N.numpy(), kind="stable"), k)

    def likely_label_errors(self, k: int | None = None) -> list[dict[str, Any]]:
        """The hardest examples whose label is not what the networks predict together, as rows: look at these first."""
        if self.labels_N is None or self.predicted_N is None:
            raise ValueError(f"method: {self.method} asks no network, so nothing was predicted; use el2n or loss")
        order_N = np.argsort(-self.score_N.numpy(), kind="stable")
        return self._rows(order_N[(self.labels_N != self.predicted_N)[order_N]], k)

    def save(self, path: str | Path) -> None:
        """Write all but the data to `.safetensors` or `.npz`.

        >>> import natsel, tempfile
        >>> found = natsel.prune((np.diag([1.0, 3.0]), ["cat", "dog"]), "input-norm")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     found.save(f"{folder}/kept.safetensors")
        ...     Pruning.load(f"{folder}/kept.safetensors", of=found.data).examples.labels.tolist()
        [1]
        """
        told = {"method": self.method, "keep": self.keep, "classes": self.classes, "provenance": dict(self.provenance)}
        arrays = {name: torch.as_tensor(getattr(self, name)) for name in _COLUMNS if getattr(self, name) is not None}
        whole = self.all_ids.dtype.kind == "i"
        if whole:
            arrays["all_ids"] = torch.as_tensor(self.all_ids)
        fields = json.dumps(told | ({} if whole else {"all_ids": keys_of(self.all_ids)}))
        write_arrays(path, arrays, {"natsel_kind": "Pruning", "natsel_format": _FORMAT, "natsel_fields": fields})

    @classmethod
    def load(cls, path: str | Path, of: Any = None) -> Self:
        """Read back what `save` wrote; `of` is the data set it was made from, and another one is refused."""
        stored = open_arrays(path)
        kind, form = (stored.texts.get(name) for name in ("natsel_kind", "natsel_format"))
        if kind != "Pruning":
            raise ValueError(f"path: {path} holds {kind or 'arrays'}, no pruning; pass a file that Pruning.save wrote")
        if form != _FORMAT:
            raise ValueError(f"path: {path} has format {form}, this natsel reads {_FORMAT}; upgrade natsel")
        with readable(Path(path)):
            told = json.loads(stored.texts["natsel_fields"])
            found: dict[str, Any] = {
                name: torch.as_tensor(stored.read(name)) for name in (*_COLUMNS, "all_ids") if name in stored.shapes
            }
            arrays = {name: one if name in ("score_N", "score_R_N") else one.numpy() for name, one in found.items()}
            arrays.setdefault("all_ids", as_ids(told.pop("all_ids", [])))
            told["classes"] = tuple(told["classes"])
            data = None
        if of is not None:
            data = examples_of(of)[0]
            if not examples_fingerprint(data).startswith(told["provenance"].get("data") or "no data"):
                raise ValueError(f"of: these are not the examples that {path} was made from; pass the same ones")
        return cls(**told, **arrays, data=data)

    def _rows(self, positions_n: np.ndarray[Any, Any], k: int | None) -> list[dict[str, Any]]:
        if k is not None and (not isinstance(k, int | np.integer) or k < 1):
            raise ValueError(f"k: expected a whole number from 1 on, found {k!r}; 20 is usual")
        ids, kept = keys_of(self.all_ids[positions_n[:k]]), set(self.positions_n.tolist())
        return [
            {
                "rank": rank,
                "id": id,
                "score": float(self.score_N[place]),
                "label": self._class_at(self.labels_N, place),
                "predicted": self._class_at(self.predicted_N, place),
                "kept": place in kept,
            }
            for rank, (id, place) in enumerate(zip(ids, positions_n[:k].tolist(), strict=True), start=1)
        ]

    def _class_at(self, column_N: np.ndarray[Any, Any] | None, place: int) -> int | str | None:
        if column_N is None:
            return None
        number = int(column_N[place])
        return self.classes[number] if 0 <= number < len(self.classes) else number
