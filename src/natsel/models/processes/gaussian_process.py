"""scikit-learn's Gaussian processes that believe: exact joint Gaussians for numbers, joint draws for two classes.

    GaussianProcessRegressor     f ~ N(mean, k − v·v),   v = L⁻¹ k(X, x)              GaussianFeatures
    GaussianProcessClassifier    Laplace:  v = L⁻¹ √W k(X, x),  p(y=1|x, f) = σ(f)    CategoricalSamples, K joint draws

A Gaussian process has no parameters to share between calls: its features and draws belong to the inputs of one call.
Pool and targets are believed about together (`believe_together`, or `natsel.models.believe_both`), and beliefs from two
calls bear different `draws_id`, so that they are not combined by mistake.
docs/theory/epig-jepig.md, 6.
"""

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
import sklearn.base
import torch
from scipy.linalg import solve_triangular
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.pipeline import Pipeline
from torch import Tensor

from natsel.beliefs import Belief, CategoricalSamples, GaussianFeatures, GaussianSamples
from natsel.data.examples import Examples, InputForm, as_labelled
from natsel.memory import chunked
from natsel.models.estimators.sklearn import Sklearn
from natsel.models.fingerprints import fingerprint
from natsel.models.processes.joint_features import Covariance, JointProcess, pivoted_cholesky, posterior_covariance
from natsel.models.rows import Array, numbers_of, rows_of
from natsel.options import Rows

# Of the noise's variance: features that explain less than this of a label do not show in any score.
_TOLERANCE = 1e-9
_NO_KERNEL = "estimator: its kernel gives no covariances of these inputs ({}); ExpSineSquared is for one column alone"


def is_gaussian_process(estimator: Any) -> bool:
    """Whether an estimator is a Gaussian process of scikit-learn, possibly at the end of a pipeline.

    >>> is_gaussian_process(GaussianProcessRegressor())
    True
    """
    last = estimator.steps[-1][1] if isinstance(estimator, Pipeline) and estimator.steps else estimator
    return isinstance(last, GaussianProcessRegressor | GaussianProcessClassifier)


class GaussianProcess(JointProcess):
    """A Gaussian process of scikit-learn as a model that believes.

    `estimator` is never changed: every fit clones it. `noise` is the variance of labels around the latent function, in
    the units of the labels (None: the estimator's `alpha` and its WhiteKernel); `draws` is how many joint draws a
    classifier makes. A classifier takes two classes: scikit-learn joins more out of unrelated processes, one for each
    class, which have no joint posterior.

    >>> from sklearn.gaussian_process.kernels import RBF
    >>> labelled = Examples(np.array([[0.0], [1.0]]), np.array([0.0, 1.0]))
    >>> model = GaussianProcess(GaussianProcessRegressor(RBF(), alpha=0.1, optimizer=None)).fit(labelled)
    >>> pool, targets = model.believe_together(np.array([[0.5], [2.0]]), np.array([[3.0]]))
    >>> pool.draws_id == targets.draws_id, len(pool), len(targets)
    (True, 2, 1)
    """

    kind = "gp"
    _posterior: "_Posterior"

    def __init__(self, estimator: Any, *, noise: float | None = None, draws: int = 1000) -> None:
        if not is_gaussian_process(estimator):
            raise ValueError(
                f"estimator: expected a GaussianProcessRegressor or GaussianProcessClassifier, found"
                f" {type(estimator).__name__}; other estimators go into natsel.models.Sklearn"
            )
        last = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
        self.regression = isinstance(last, GaussianProcessRegressor)
        if self.regression and noise is None and np.ndim(last.alpha) > 0:
            raise ValueError(
                "estimator: an alpha for each example says nothing about new ones; pass one alpha, or noise= here"
            )
        if noise is not None and not (self.regression and 0 < noise < np.inf):
            raise ValueError(f"noise: expected the positive variance of real labels, found {noise}; None takes alpha")
        if isinstance(draws, bool) or not isinstance(draws, int) or draws < 1:
            raise ValueError(f"draws: expected a number of draws from 1 on, found {draws!r}; 1000 is usual")
        self.estimator, self.noise, self.draws = estimator, noise, draws

    def fit(self, labelled: Examples | Any, validation: Examples | Any = None, *, seed: int = 0) -> Self:
        """Fit afresh, kernel parameters included; `seed` decides restarts of their search, and the joint draws."""
        estimator = Sklearn(self.estimator).seeded(seed)
        labelled, _ = as_labelled(labelled)
        rows_N = rows_of(labelled.inputs)
        if self.regression:
            labels_N = numbers_of(labelled.labels)
        else:
            labels_N = np.asarray(labelled.labels)
            if labelled.n_classes != 2 or len(np.unique(labels_N)) != 2:
                found = labelled.n_classes if labelled.n_classes != 2 else len(np.unique(labels_N))
                raise ValueError(
                    f"labels: a Gaussian process classifier needs examples of two classes, found {found};"
                    " natsel.models.ProbitGP copes with one, natsel.models.Sklearn(estimator, members=20) with many"
                )
        try:
            estimator.fit(rows_N, labels_N)
        except np.linalg.LinAlgError as reason:
            raise ValueError(_NO_KERNEL.format("their matrix is not positive definite")) from reason
        self.fitted = estimator
        self._form, self._columns, self._seed = InputForm.of(labelled.inputs), rows_N.shape[1], seed
        self._posterior = (_Regression if self.regression else _Laplace)(estimator, self.noise)
        self._fit_id = (fingerprint(self, self._posterior.process.kernel_, seed, rows_N, labels_N),)
        return self

    def _prior(self, rows_N_D: Array) -> Covariance:
        return self._posterior.prior(self._posterior.prepare(rows_N_D))

    def predictive(self, inputs: Rows) -> GaussianSamples | CategoricalSamples:
        """What labels are expected, one row per input: a Gaussian, or the estimator's own class probabilities."""
        rows_N = self._rows(inputs)
        posterior = self._posterior
        if not self.regression:
            return CategoricalSamples.from_probs(self.fitted.predict_proba(rows_N)[:, None, :])
        mean_N, variance_N = posterior.moments(rows_N)
        return GaussianSamples(mean_N[:, None], (variance_N + posterior.noise(rows_N))[:, None])

    def _joint_belief(self, rows_N: Array) -> Belief:
        posterior = self._posterior
        mean_N, variance_N = posterior.moments(rows_N)
        noise_N = posterior.noise(rows_N)
        tolerance = _TOLERANCE * float(noise_N.min()) if len(rows_N) else 0.0
        features_N_D = pivoted_cholesky(variance_N, posterior.covariance(rows_N), tolerance)
        prior_N = posterior.scale**2 * posterior.kernel.diag(posterior.prepare(rows_N)) if len(rows_N) else np.ones(0)
        if bool((features_N_D.square().sum(1).numpy() - variance_N.numpy() > 1e-3 * prior_N).any()):  # no rounding
            raise ValueError(_NO_KERNEL.format("of some, features hold more variance than there is"))
        draws_id = self._draws_id(rows_N)
        if self.regression:
            return GaussianFeatures._own(features_N_D, noise_N, draws_id, mean=mean_N)
        logsigmoid = torch.nn.functional.logsigmoid
        return self._two_classes(mean_N, features_N_D, logsigmoid, 48, draws_id)


class _Posterior(ABC):
    """The posterior of a fitted process over its latent function; subclasses say what labels took from the prior."""

    scale = 1.0  # of labels, where they were standardised

    def __init__(self, fitted: Any, noise: float | None) -> None:
        piped = isinstance(fitted, Pipeline)
        self.prepare = fitted[:-1].transform if piped and len(fitted.steps) > 1 else lambda rows: rows
        self.process = fitted.steps[-1][1] if piped else fitted
        self.given_noise = noise
        kernel = self._kernel()
        white = [name for name in kernel.get_params() if name.rpartition("__")[2] == "noise_level"]
        # A WhiteKernel is noise of the labels, not part of what they tell about each other.
        self.kernel = sklearn.base.clone(kernel).set_params(**dict.fromkeys(white, 0.0))

    def _kernel(self) -> Any:
        return self.process.kernel_

    @abstractmethod
    def cross(self, inputs_N: Array) -> Array:
        """k(X, x) of the training inputs and these."""

    @abstractmethod
    def taken(self, cross_n_N: Array) -> Array:
        """v(x), one column per input."""

    @abstractmethod
    def mean(self, cross_n_N: Array) -> Array:
        """The mean of the latent function."""

    def noise(self, rows_N: Array) -> Tensor:
        """Variance of the noise of each input's label; 1 where labels are classes and it has no meaning."""
        return torch.ones(len(rows_N), dtype=torch.float64)

    def moments(self, rows_N: Array) -> tuple[Tensor, Tensor]:
        """Mean and variance of the latent function."""
        if len(rows_N) == 0:
            return torch.empty(0, dtype=torch.float64), torch.empty(0, dtype=torch.float64)

        def work(part: slice) -> Tensor:
            inputs_n = self.prepare(rows_N[part])
            cross = self.cross(inputs_n)
            left_n = np.maximum(self.kernel.diag(inputs_n) - (self.taken(cross) ** 2).sum(0), 0)
            return torch.from_numpy(np.stack([self.mean(cross), self.scale**2 * left_n], 1))

        width = 8 * (3 * self._training().shape[0] + 2 * rows_N.shape[1] + 4)
        mean_N, variance_N = chunked(work, len(rows_N), width, torch.device("cpu")).T
        return mean_N.contiguous(), variance_N.contiguous()

    def covariance(self, rows_N: Array) -> Covariance:
        """Blocks of the posterior covariance of these inputs."""
        inputs_N = self.prepare(rows_N) if len(rows_N) else rows_N
        taken_n_N = (
            torch.from_numpy(np.ascontiguousarray(self.taken(self.cross(inputs_N))))
            if len(rows_N)
            else torch.empty(0, 0)
        )

        return posterior_covariance(self.prior(inputs_N), taken_n_N, self.scale)

    def prior(self, inputs_N: Array) -> Covariance:
        """Blocks of the prior covariance of these inputs."""
        return lambda i, j: torch.from_numpy(self.kernel(inputs_N[i.numpy()], inputs_N[j.numpy()]))

    def _training(self) -> Array:
        inputs: Array = self.process.X_train_
        return inputs


class _Regression(_Posterior):
    def __init__(self, fitted: Any, noise: float | None) -> None:
        super().__init__(fitted, noise)
        self.scale = float(np.asarray(self.process._y_train_std).reshape(-1)[0])
        self.offset = float(np.asarray(self.process._y_train_mean).reshape(-1)[0])

    def cross(self, inputs_N: Array) -> Array:
        return self.kernel(self.process.X_train_, inputs_N)  # type: ignore[no-any-return]

    def taken(self, cross_n_N: Array) -> Array:
        return solve_triangular(self.process.L_, cross_n_N, lower=True, check_finite=False)  # type: ignore[no-any-return]

    def mean(self, cross_n_N: Array) -> Array:
        mean: Array = self.offset + self.scale * (cross_n_N.T @ np.reshape(self.process.alpha_, -1))
        return mean

    def noise(self, rows_N: Array) -> Tensor:
        if self.given_noise is not None or len(rows_N) == 0:
            return torch.full((len(rows_N),), self.given_noise or 1.0, dtype=torch.float64)
        inputs_N = self.prepare(rows_N)
        white_N = self.process.kernel_.diag(inputs_N) - self.kernel.diag(inputs_N)
        return torch.from_numpy(self.scale**2 * (np.maximum(white_N, 0) + float(self.process.alpha)))


class _Laplace(_Posterior):
    def _kernel(self) -> Any:
        return self.process.base_estimator_.kernel_

    def cross(self, inputs_N: Array) -> Array:
        return self.kernel(self.process.base_estimator_.X_train_, inputs_N)  # type: ignore[no-any-return]

    def taken(self, cross_n_N: Array) -> Array:
        inner = self.process.base_estimator_
        return solve_triangular(inner.L_, inner.W_sr_[:, None] * cross_n_N, lower=True)  # type: ignore[no-any-return]

    def mean(self, cross_n_N: Array) -> Array:
        inner = self.process.base_estimator_
        mean: Array = cross_n_N.T @ (inner.y_train_ - inner.pi_)
        return mean

    def _training(self) -> Array:
        inputs: Array = self.process.base_estimator_.X_train_
        return inputs
