"""How the numbers of a table are brought to one scale before a model sees them, as `[data]` says.

    one_hot              a column of categories → one column of 0 and 1 for each value that the pool holds
    standardise          (x − mean) / deviation, both over the pool; columns that never vary over the pool are left out
    squash = c           then c · tanh(x / c): an outlier ends near c
    standardise_labels   (y − mean) / deviation, both over the whole set

With squash = 5 this is the preparation of the regression benchmark.  docs/theory/black-box.md; Holzmüller et al. 2023.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from natsel.data import Examples
from natsel.experiments.recipe.recipe import Data

Parts = dict[str, Examples | None]


def scaled(parts: Mapping[str, Examples | None], data: Data, kind: str, whole: list[Any]) -> Parts:
    """The parts of a set, of which "pool" is one, as `data` wants them; `whole` holds the labels of all of the set.

    >>> pool = Examples(np.array([[0.0, 7.0], [2.0, 7.0]]), np.array([1.0, 3.0]))
    >>> wanted = Data("a", standardise=True, standardise_labels=True)
    >>> found = scaled({"pool": pool}, wanted, "table", [pool.labels])["pool"]
    >>> found.inputs.tolist(), found.labels.tolist()
    ([[-1.0], [1.0]], [-1.0, 1.0])
    """
    found = dict(parts)  # in float64 until all is done: a large offset would eat the digits of float32
    for name in ("one_hot", "standardise"):
        if getattr(data, name) and kind != "table":
            raise ValueError(f"data.{name}: {kind} data keep their scale, networks know it; take it out")
    if data.one_hot:
        found = _one_hot(found, data.one_hot)
    if data.standardise:
        found = _standardised(found, data.squash)
    if data.one_hot or data.standardise:
        found = _changed(found, lambda inputs_N_D: inputs_N_D.astype(np.float32))
    return _with_scaled_labels(found, whole) if data.standardise_labels else found


def _one_hot(parts: Parts, columns: tuple[int, ...]) -> Parts:
    """Categories as columns of 0 and 1, after all others; a value that the pool does not hold is 0 in all of them."""
    pool = _numbers(parts["pool"])
    if max(columns) >= pool.shape[1]:
        raise ValueError(f"data.one_hot: there is no column {max(columns)}; they count from 0 to {pool.shape[1] - 1}")
    others = [column for column in range(pool.shape[1]) if column not in columns]
    values = {column: np.unique(pool[:, column]) for column in columns}

    def encoded(inputs_N_D: Any) -> Any:
        flags = [inputs_N_D[:, [column]] == values[column] for column in columns]
        return np.concatenate([inputs_N_D[:, others], *flags], axis=1)

    return _changed(parts, encoded)


def _standardised(parts: Parts, squash: float) -> Parts:
    pool = _numbers(parts["pool"])
    mean_D, std_D = pool.mean(0), pool.std(0)
    varies_D = std_D > 0
    if not varies_D.any():
        raise ValueError("data.standardise: no column varies over the pool; check the inputs")

    def one_scale(inputs_N_D: Any) -> Any:
        scaled_N_D = (inputs_N_D[:, varies_D] - mean_D[varies_D]) / std_D[varies_D]
        return squash * np.tanh(scaled_N_D / squash) if squash else scaled_N_D

    return _changed(parts, one_scale)


def _with_scaled_labels(parts: Parts, whole: list[Any]) -> Parts:
    labels = np.concatenate([np.asarray(some) for some in whole])
    if labels.dtype.kind != "f":
        raise ValueError("data.standardise_labels: labels are classes; take it out")
    mean, std = float(labels.mean(dtype=np.float64)), float(labels.std(dtype=np.float64)) or 1.0
    return {
        name: None if part is None else replace(part, labels=(np.asarray(part.labels, dtype=np.float64) - mean) / std)
        for name, part in parts.items()
    }


def _numbers(part: Examples | None) -> Any:
    assert part is not None
    return np.asarray(part.inputs, dtype=np.float64)


def _changed(parts: Parts, change: Any) -> Parts:
    return {
        name: None if part is None else replace(part, inputs=change(_numbers(part))) for name, part in parts.items()
    }
