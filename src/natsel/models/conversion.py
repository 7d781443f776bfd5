"""Whatever is passed as a model, turned into one with `fit` and `believe`, or refused with what to write instead."""

from typing import Any

import torch

from natsel.models.protocol import Model

MEMBERS = 20
"""How many members an estimator gets that has none: enough to see where they disagree, few enough to fit each round."""


def as_model(anything: Any) -> Model:
    """A model passes through; a scikit-learn estimator is wrapped.

    Forests, bagging and voting are committees already, and Gaussian processes have a posterior of their own. Any other
    estimator is one draw, from which nothing can be learned about the parameters: it is bagged, 20 members each fitted
    to a bootstrap of the labels. `natsel.models.Sklearn(estimator)` keeps it as it is, for methods such as entropy or
    margin that need no more.

    >>> from sklearn.linear_model import LogisticRegression
    >>> type(as_model(LogisticRegression())).__name__
    'Sklearn'
    >>> as_model(LogisticRegression()).members
    20
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
        # Here, because scikit-learn takes a second to import.
        from natsel.models.estimators.committee import is_committee
        from natsel.models.estimators.sklearn import Sklearn
        from natsel.models.processes.gaussian_process import GaussianProcess, is_gaussian_process

        if is_gaussian_process(anything):
            return GaussianProcess(anything)
        return Sklearn(anything, members=None if is_committee(anything) else MEMBERS)
    raise ValueError(
        f"model: {type(anything).__name__} cannot be made to believe; pass a scikit-learn estimator, a model of"
        " natsel.models, or any object with fit(labelled, validation) and believe(inputs)"
    )
