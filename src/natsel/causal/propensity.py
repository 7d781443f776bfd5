"""The propensity: how likely a point was to receive the treatment, learnt from who did.

    π(x) = P(T=1 | x)          by any classifier, from the covariates and the treatments of all points

No outcome is needed, so that it is fitted once, to labelled and unlabelled points together, before the first label.
docs/theory/causal-bald.md; Rosenbaum and Rubin 1983.
"""

from typing import Any, Self

from natsel.causal.arms import covariates_of
from natsel.causal.data import treatment_last, treatment_of
from natsel.data.examples import Examples
from natsel.models.rows import Array
from natsel.options import Rows


class Propensity:
    """A classifier of treatments; once fitted, a function from inputs to P(T=1|x).

    `classifier` is one of scikit-learn, by default a logistic regression on standardised covariates. It is never
    changed: a fit makes a copy, whose random states follow from the seed. `treatment` is as for `SLearner`.

    >>> inputs = [[0.0, 0.0], [1.0, 1.0], [2.0, 0.0], [3.0, 1.0]]
    >>> Propensity(treatment=-1).fit(inputs)(inputs).round(1).tolist()
    [0.4, 0.4, 0.6, 0.6]
    """

    def __init__(self, classifier: Any = None, *, treatment: str | int = "treatment") -> None:
        self.classifier, self.treatment = classifier, treatment
        self._model: Any = None

    def fit(self, inputs: Rows, *, seed: int = 0) -> Self:
        """Learn from all points there are."""
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        from natsel.models.estimators.sklearn import Sklearn

        treatment_N = treatment_of(inputs, self.treatment, both=True)
        classifier = self.classifier
        if classifier is None:
            classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        model = Sklearn(classifier)
        if model.regression:
            raise ValueError(
                f"classifier: expected one that gives probabilities, found {type(classifier).__name__}; pass one such"
                " as sklearn.linear_model.LogisticRegression()"
            )
        self._model = model.fit(Examples(covariates_of(treatment_last(inputs, self.treatment)), treatment_N), seed=seed)
        return self

    def __call__(self, inputs: Rows) -> Array:
        """P(T=1|x) of each point, N values in float64; their treatment does not matter."""
        if self._model is None:
            raise ValueError("propensity: it has not learnt anything yet; call fit with all inputs, [x, t], first")
        covariates = covariates_of(treatment_last(inputs, self.treatment))
        probs_N: Array = self._model.predictive(covariates).predict_proba()[:, 1].numpy()
        return probs_N
