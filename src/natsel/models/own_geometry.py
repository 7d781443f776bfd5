"""How alike a model treats points, for models of every kind: features of length 1, read with `natsel.beliefs.Geometry`.

    trees                 the leaf of each tree                     k = the share of trees with both points in one leaf
    networks              what the last layer is called with, in evaluation mode; of an ensemble the mean over members
    Gaussian processes    prior correlation under the fitted kernel
    all others            k = exp(−d²/median d²) of inputs as the estimator sees them, standardised (0 and 1 stay)

Pool, labelled points and targets are asked about in one call (`ModelAdapter.geometry`): medians and roots are those of
all of them. Of more than `EXACT` points the last has random Fourier features.
docs/own-geometry.md; docs/theory/geometry.md; Breiman 2001; Rahimi & Recht 2007.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor, nn

from natsel.beliefs import Belief, ClassProbabilities, seen_as
from natsel.beliefs.geometry import Geometry, unsureness
from natsel.data.frames import Column, FrameRows, by_position
from natsel.memory import chunked
from natsel.models.density.layer_features import features_and_logits
from natsel.models.fingerprints import fingerprint, weights_fingerprint
from natsel.models.processes.joint_features import pivoted_cholesky
from natsel.models.rows import Array, rows_as_given

EXACT, FEATURES = 2_000, 1_024  # of inputs: the most points with exact features, and how many features more points have
TOLERANCE = 1e-4  # what features may leave out of a variance of 1: far below the noise
_CPU = torch.device("cpu")

Predictive = Callable[[Any], Belief]


def unsure_of(predictive: Predictive, inputs: Any) -> Tensor:
    """How unsure a model is of each input, a part of them at a time.

    >>> unsure_of(ClassProbabilities.from_probs, np.array([[0.5, 0.5], [1.0, 0.0]])).tolist()
    [1.0, 0.0]
    """
    one = predictive(inputs[:1])
    classes = seen_as(one, ClassProbabilities) is not None
    read: Callable[[Belief], Tensor] = unsureness if classes else lambda belief: belief.std.square()
    bytes_each = 4 * sum(getattr(one, name).nbytes for name in one.points)
    unsure_N = chunked(lambda part: read(predictive(inputs[part])).cpu(), len(inputs), bytes_each, _CPU, at_least=4096)
    return unsure_N if classes else unsure_N / unsure_N.mean()


def by_last_layer(modules_of: Callable[[Any], Sequence[nn.Module]]) -> Callable[[Any, Any], Geometry]:
    """The `geometry` of a model of networks: inputs where one does not end with a linear layer."""

    def geometry(self: Any, inputs: Any) -> Geometry:
        """How alike the model treats inputs: by what its last layer sees (DDU: the features it looks at)."""
        inputs, layer = self._form.read(inputs), getattr(self, "features", None)
        predictive = getattr(self, "predictive", self.believe)
        with suppress(ValueError):  # a linear model of scikit-learn, or a network that ends with no linear layer
            modules = modules_of(self)
            seen = [features_and_logits(one, inputs, layer, self.device)[0].float().cpu() for one in modules]
            features_N_D = torch.cat([nn.functional.normalize(part) for part in seen], 1)
            draws_id = f"last layer:{weights_fingerprint(*modules)}"
            return Geometry._own(features_N_D, unsure_of(predictive, inputs), draws_id=draws_id)
        return input_geometry(predictive, inputs)

    return geometry


def input_geometry(predictive: Predictive, inputs: Any, seen: Any = None) -> Geometry:
    """How alike inputs are themselves; `seen`: as the estimator sees them, where that is something else.

    >>> belief = lambda rows: ClassProbabilities.from_probs([[0.5, 0.5]] * len(rows))
    >>> found = input_geometry(belief, [[0.0], [1.0], [9.0]])
    >>> (found.places_N_D @ found.places_N_D.T).round(decimals=2)[0].tolist()
    [1.0, 0.98, 0.28]
    """
    from sklearn.metrics import euclidean_distances  # here, as it takes a second

    rows_N_D = standardised(inputs if seen is None else seen)
    (count, columns), rng = rows_N_D.shape, np.random.default_rng(0)
    some = rows_N_D[np.sort(rng.choice(count, min(count, 1_000), replace=False))]
    apart = euclidean_distances(some, squared=True)[np.triu_indices(some.shape[0], 1)]
    width = float(np.median(apart) or apart.mean() or 1.0) if len(apart) else 1.0  # 0 where most are copies
    if count <= EXACT:
        kernel_N_N = torch.from_numpy(np.exp(-euclidean_distances(rows_N_D, squared=True) / width)).double()
        ones_N = kernel_N_N.new_ones(count)
        features_N_D = pivoted_cholesky(ones_N, lambda i, j: kernel_N_N[i][:, j], TOLERANCE)
    else:
        weights_D_F = rng.normal(scale=(2 / width) ** 0.5, size=(columns, FEATURES // 2)).astype(np.float32)

        def waves(part: slice) -> Tensor:
            phase_n_F: Tensor = torch.from_numpy(rows_N_D[part] @ weights_D_F)
            return torch.cat([phase_n_F.cos(), phase_n_F.sin()], 1)

        features_N_D = chunked(waves, count, 12 * FEATURES, _CPU)
    draws_id = f"inputs:{fingerprint(count, columns, width)}"
    return Geometry._own(features_N_D, unsure_of(predictive, inputs), draws_id=draws_id)


def standardised(inputs: Any) -> Any:
    """Inputs as rows of numbers of mean 0 and deviation 1, which columns of 0 and 1 keep; what is missing becomes the
    mean, and sparse rows stay. Texts and categories of a frame become a column for each of the most frequent.

    >>> standardised([[1.0, 0.0], [3.0, 1.0]]).tolist()
    [[-1.0, -0.5], [1.0, 0.5]]
    """
    if scipy.sparse.issparse(inputs):
        return inputs.tocsr().astype(np.float32)
    rows = by_position(inputs)
    is_frame = isinstance(rows, FrameRows)
    array = np.concatenate([_numbers_in(one) for one in rows.columns()], 1) if is_frame else rows_as_given(rows)
    try:
        known = np.ma.masked_invalid(np.reshape(array, (len(array), -1)).astype(np.float32))
    except ValueError:
        raise ValueError("inputs: found texts, which no kernel compares; give the model a geometry(inputs)") from None
    spread_D = known.std(0, dtype=np.float64).filled(1.0)
    spread_D[(spread_D == 0) | ((known == 0) | (known == 1)).all(0).filled(True)] = 1.0
    return ((known - known.mean(0, dtype=np.float64)) / spread_D).filled(0.0).astype(np.float32)


def _numbers_in(column: Column) -> Array:
    """A column of a table as columns of numbers, NaN where one is missing."""
    if column.kind not in ("text", "category"):
        values_N = column.values.astype(np.int64) if column.values.dtype.kind in "mM" else column.values
        return np.where(column.gaps_N, np.nan, values_N)[:, None]
    _, code_N, counts = np.unique(column.objects().astype(str), return_inverse=True, return_counts=True)
    return code_N[:, None] == np.argsort(-counts, kind="stable")[:50]  # type: ignore[no-any-return]
