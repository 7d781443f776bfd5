"""Classifiers that insist on classes 0..c−1 without gaps (XGBoost), fitted to labels that lack some classes."""

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


class Renumbered:
    """A classifier that was fitted to the places of labels among `classes_`, the classes there are.

    >>> from sklearn.tree import DecisionTreeClassifier
    >>> Renumbered(np.array([2, 5]), DecisionTreeClassifier().fit([[0.0], [1.0]], [0, 1])).predict([[1.0]])
    array([5])
    """

    def __init__(self, classes: Array, fitted: Any) -> None:
        self.classes_, self.fitted = classes, fitted
        if hasattr(fitted, "predict_proba"):
            self.predict_proba = fitted.predict_proba

    def predict(self, inputs: Any) -> Array:
        """The most probable classes."""
        found: Array = self.classes_[np.reshape(self.fitted.predict(inputs), -1).astype(np.int64)]
        return found
