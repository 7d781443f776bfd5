"""Peers in the same protocol: strategies of scikit-activeml and small-text choose from the same fits.

Their classifiers are stand-ins that look up what our model said: the rows that they are asked about are positions. The
packages are no dependency of natsel: install them into an environment of their own (README.md beside this file).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from measured_models import Fitted
from natsel.beliefs import CategoricalSamples
from natsel.seeds import derive

Positions = NDArray[np.int64]


def choose_by_peer(method: str, fit: Fitted, labelled: Positions, labels: Positions, seed: int, k: int) -> Positions:
    """The batch that a peer's strategy takes next."""
    package, _, strategy = method.partition("-")
    called: Callable[..., Any] = {"skactiveml": _skactiveml, "smalltext": _small_text}[package]
    try:
        found = called(strategy, fit, labelled, labels, derive(seed, method) % 2**31, k)
    except ImportError as reason:
        raise ImportError(f"{reason}: install scikit-activeml and small-text to run {method}") from None
    return np.asarray(found, dtype=np.int64)


def _skactiveml(strategy: str, fit: Fitted, labelled: Positions, labels: Positions, seed: int, k: int) -> Any:
    from skactiveml.base import SkactivemlClassifier
    from skactiveml.pool import Badge, BatchBALD, TypiClust, UncertaintySampling

    class LookedUp(SkactivemlClassifier):  # type: ignore[misc]  # no types
        """Probabilities of the pool, by position."""

        def __init__(self, probs_N_C: Any = None, classes: Any = None, missing_label: Any = np.nan) -> None:
            super().__init__(classes=classes, missing_label=missing_label)
            self.probs_N_C = probs_N_C

        def fit(self, X: Any, y: Any) -> Any:
            self.classes_ = self.classes
            return self

        def predict_proba(self, X: Any, embeddings: bool = False) -> Any:
            places = np.asarray(X)[:, 0].astype(np.int64)
            probs = self.probs_N_C[places]
            return (probs, fit.embedding()[places]) if embeddings else probs

    points, classes = fit.pool_N_C.shape
    places_N_1 = np.arange(points, dtype=np.float64)[:, None]
    known_N = np.full(points, np.nan)
    known_N[labelled] = labels

    def looked_up(probs_N_C: Any) -> Any:
        return LookedUp(probs_N_C, classes=np.arange(classes)).fit(None, None)

    if strategy == "typiclust":
        return TypiClust(random_state=seed).query(fit.embedding(), known_N, batch_size=k)
    if strategy == "batchbald":
        if not isinstance(fit.belief, CategoricalSamples):
            raise ValueError("skactiveml-batchbald: the model makes no draws")
        probs_N_K_C = fit.belief.log_probs_N_K_C.double().exp().numpy()
        ensemble = [looked_up(probs_N_K_C[:, one]) for one in range(probs_N_K_C.shape[1])]
        query = BatchBALD(random_state=seed).query
        return query(places_N_1, known_N, ensemble, fit_ensemble=False, batch_size=k)
    made = (
        UncertaintySampling("margin_sampling", random_state=seed)
        if strategy == "margin"
        else Badge(clf_embedding_flag_name="embeddings", random_state=seed)
    )
    return made.query(places_N_1, known_N, looked_up(fit.pool_N_C), fit_clf=False, batch_size=k)


def _small_text(strategy: str, fit: Fitted, labelled: Positions, labels: Positions, seed: int, k: int) -> Any:
    from small_text.query_strategies import BreakingTies, EmbeddingKMeans, GreedyCoreset

    class LookedUp:
        """Probabilities of the pool, by position."""

        def predict_proba(self, places: Any) -> Any:
            return fit.pool_N_C[np.asarray(places)]

    np.random.seed(seed)  # noqa: NPY002 - they draw from the global state
    free = np.setdiff1d(np.arange(len(fit.pool_N_C)), labelled)
    places = np.arange(len(fit.pool_N_C))
    if strategy == "breaking-ties":
        return BreakingTies().query(LookedUp(), places, free, labelled, labels, n=k)
    made = GreedyCoreset() if strategy == "greedy-coreset" else EmbeddingKMeans()
    return made.query(LookedUp(), places, free, labelled, labels, n=k, pbar=None, embeddings=fit.embedding())
