"""The models: each is fitted to the labels so far, predicts the test part, and says what it believes about the pool.

kernel   how alike a model treats two points, k(x, x) = 1: what the prototypes choose by
forest, boosted   share of trees in which both fall into one leaf
network           cosine of the inputs of its last layer
logistic          exp(−d²/median d²) on standardised inputs
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial.distance import pdist, squareform
from sklearn.preprocessing import normalize

from class_sets import PICTURES, Drawn
from natsel.beliefs import Belief
from natsel.data.examples import Examples
from natsel.models import Dropout, LastLayer, ModelAdapter, Sklearn, Training, mlp, mnist_cnn
from natsel.models.last_layer.readout import readout_of_module

Matrix = NDArray[np.float64]
CPU = torch.device("cpu")


@dataclass(frozen=True, eq=False)
class Fitted:
    """What one fit says: class probabilities of test part and pool, and what methods choose from."""

    test_N_C: Matrix
    pool_N_C: Matrix
    belief: Belief
    gradients: Callable[[], Belief]  # what methods of weight space read; the belief itself where there is no layer
    geometry: Callable[[], Belief]  # the model's own, for methods of natsel that read it
    kernel: Callable[[], Matrix]
    embedding: Callable[[], Matrix]  # where peers measure distances: last layer, or standardised inputs

    @property
    def unsure_N(self) -> Matrix:
        """How unsure the model is of each point of the pool: 1 − (largest − second largest probability)."""
        ordered_N_C = np.sort(self.pool_N_C, axis=1)
        found: Matrix = 1 - (ordered_N_C[:, -1] - ordered_N_C[:, -2])
        return found


def fitted(
    model: str, settings: dict[str, Any], data: str, drawn: Drawn, labelled: NDArray[np.int64], seed: int
) -> Fitted:
    """A model of the protocol, fitted to the points of the pool at these positions."""
    known = drawn.pool[labelled]
    if model == "network":
        return _network(settings, data, drawn, known, seed)
    estimator, members, kernel = _ESTIMATORS[model](settings)
    wrapped = Sklearn(estimator, members=members).fit(known, seed=seed)
    belief = wrapped.believe(drawn.pool.inputs)
    return Fitted(
        wrapped.predictive(drawn.test.inputs).predict_proba().numpy(),
        belief.predict_proba().numpy(),
        belief,
        lambda: belief,
        partial(_geometry, wrapped, drawn.pool.inputs),
        partial(kernel, wrapped, np.asarray(drawn.pool.inputs)),
        partial(_standardised, np.asarray(drawn.pool.inputs)),
    )


def _geometry(model: Any, rows_N: Any) -> Belief:
    adapter: Any = ModelAdapter(model)
    whole: Belief = adapter.geometry(rows_N)[0]
    return whole


def leaves_kernel(leaf_N_T: NDArray[np.int64]) -> Matrix:
    """The share of trees in which two points fall into one leaf.

    >>> leaves_kernel(np.array([[1, 1], [1, 2], [3, 2]])).tolist()
    [[1.0, 0.5, 0.0], [0.5, 1.0, 0.5], [0.0, 0.5, 1.0]]
    """
    is_in_N_D = leaf_incidence(leaf_N_T)
    found: Matrix = (is_in_N_D @ is_in_N_D.T).astype(np.float64) / leaf_N_T.shape[1]  # counts are exact in float32
    return found


def leaf_incidence(leaf_N_T: NDArray[np.int64]) -> NDArray[np.float32]:
    """One-hot of the leaf in each tree, all trees side by side."""
    columns = [leaves_N[:, None] == np.unique(leaves_N)[None] for leaves_N in leaf_N_T.T]
    return np.concatenate(columns, axis=1).astype(np.float32)


def _forest(settings: dict[str, Any]) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(settings["trees"], min_samples_leaf=settings["least_leaf"], n_jobs=1)
    return forest, None, _kernel_of_trees


def _boosted(settings: dict[str, Any]) -> Any:
    from lightgbm import LGBMClassifier

    trees = LGBMClassifier(
        n_estimators=settings["trees"],
        learning_rate=settings["learning_rate"],
        num_leaves=settings["leaves"],
        min_child_samples=settings["least_leaf"],
        n_jobs=1,
        verbose=-1,
    )
    return trees, settings["members"], _kernel_of_trees


def _logistic(settings: dict[str, Any]) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)), settings["members"], _kernel_of_inputs


_ESTIMATORS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "forest": _forest,
    "boosted": _boosted,
    "logistic": _logistic,
}


def _kernel_of_trees(model: Sklearn, rows_N: Any) -> Matrix:
    parts = []
    assert model._committee is not None
    for member in model._committee.members:
        if hasattr(member, "tree_"):
            parts.append(member.tree_.apply(np.ascontiguousarray(rows_N, dtype=np.float32))[:, None])
        elif hasattr(member, "booster_"):
            parts.append(np.asarray(member.predict(rows_N, pred_leaf=True)).reshape(len(rows_N), -1))
    # Of one class alone there is no tree: all points are treated alike.
    return leaves_kernel(np.concatenate(parts, axis=1)) if parts else _kernel_of_inputs(model, rows_N)


def _kernel_of_inputs(model: Sklearn, rows_N: Any) -> Matrix:
    del model
    squared = pdist(_standardised(rows_N), "sqeuclidean")
    found: Matrix = np.exp(-squareform(squared) / max(float(np.median(squared)), 1e-300))
    return found


def _standardised(rows_N: Any) -> Matrix:
    spread_D = rows_N.std(0)
    found: Matrix = ((rows_N - rows_N.mean(0))[:, spread_D > 0] / spread_D[spread_D > 0]).astype(np.float64)
    return found


def _network(settings: dict[str, Any], data: str, drawn: Drawn, known: Examples, seed: int) -> Fitted:
    place, spread = np.zeros(()), np.ones(())
    if data not in PICTURES:
        rows = np.asarray(drawn.pool.inputs)
        place, spread = rows.mean(0), np.where(rows.std(0) > 0, rows.std(0), 1)
    pool, test, labelled = (
        np.asarray((np.asarray(rows) - place) / spread, dtype=np.float32)
        for rows in (drawn.pool.inputs, drawn.test.inputs, known.inputs)
    )
    known = Examples(labelled, known.labels, known.classes)
    network = (
        mnist_cnn(drawn.n_classes)
        if data in PICTURES
        else mlp(pool.shape[1], drawn.n_classes, hidden=(settings["hidden"],))
    )
    training = Training(epoch_samples=settings["epoch_samples"], max_epochs=settings["max_epochs"])
    model = Dropout(network, draws=settings["draws"], training=training, device="cpu").fit(known, seed=seed)
    belief = model.believe(pool)

    def last_layer() -> Matrix:
        assert model.module is not None
        found: Matrix = readout_of_module(model.module, labelled, CPU).features(pool).double().numpy()
        return found

    def kernel() -> Matrix:
        features_N_D = normalize(last_layer())
        found: Matrix = features_N_D @ features_N_D.T
        return found

    return Fitted(
        model.believe(test).predict_proba().numpy(),
        belief.predict_proba().numpy(),
        belief,
        lambda: LastLayer.around(model, known, structure="kronecker", device="cpu").believe(pool),
        partial(_geometry, model, pool),
        kernel,
        last_layer,
    )
