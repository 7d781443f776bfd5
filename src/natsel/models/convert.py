"""Anything people bring as a model, made to believe, or refused with what to write instead."""

from typing import Any

import torch

from natsel.models.protocol import Model


def as_model(anything: Any) -> Model:
    """A model passes through; a scikit-learn estimator is wrapped.

    >>> from sklearn.linear_model import LogisticRegression
    >>> type(as_model(LogisticRegression())).__name__
    'Sklearn'
    """
    if isinstance(anything, type):
        raise ValueError(f"model: found the class {anything.__name__}; pass one of it: {anything.__name__}(…)")
    if isinstance(anything, Model):
        return anything
    if isinstance(anything, torch.nn.Module):
        raise ValueError(
            f"model: a bare {type(anything).__name__} makes no draws; wrap it, natsel.models.Dropout(network) where it"
            " has dropout layers, natsel.models.Ensemble(network) where it has none"
        )
    if hasattr(anything, "get_params") and hasattr(anything, "fit"):
        from natsel.models.sklearn import Sklearn  # here, because scikit-learn takes a second to import

        return Sklearn(anything)
    raise ValueError(
        f"model: {type(anything).__name__} cannot be made to believe; pass a scikit-learn estimator, a model of"
        " natsel.models, or any object with fit(labelled, validation) and believe(inputs)"
    )
