"""A kernel of a Gaussian process over covariates and treatment.

    k((x, t), (x', t')) = scale · exp(−|x − x'|²/(2ℓ²)) · (shared + (1 − shared) 1{t = t'})

`shared` is the correlation of both outcomes at one x: 0 for arms that tell nothing about each other, 1 for a treatment
without effect. The variance of the effect before any label is 2 · scale · (1 − shared).  docs/theory/causal-bald.md.
"""

from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Hyperparameter, Kernel, NormalizedKernelMixin

from natsel.models.rows import Array

_BOUNDS = (1e-5, 1.0)


def two_arm_kernel(length_scale: float | Array = 1.0, shared: float = 0.3, scale: float = 9.0) -> Kernel:
    """The kernel, for `GaussianProcessRegressor`; `length_scale` is one number or one per covariate.

    The regressor fits all of it by the likelihood, unless `optimizer=None`.

    >>> two_arm_kernel(0.7)(np.array([[0.0, 0.0], [0.0, 1.0]])).round(1).tolist()
    [[9.0, 2.7], [2.7, 9.0]]
    """
    for name, value in (("shared", shared), ("scale", scale)):
        if not isinstance(value, Real):
            raise ValueError(f"{name}: expected a number, found {type(value).__name__}; 0.3 and 9 are usual")
    try:
        lengths = np.asarray(length_scale, dtype=np.float64)
    except (TypeError, ValueError):
        lengths = np.array(np.nan)
    if not 0 <= shared <= 1:
        raise ValueError(f"shared: expected a correlation from 0 to 1, found {shared}; 0.3 is usual")
    if not (np.all((lengths > 0) & (lengths < np.inf)) and 0 < scale < np.inf):
        raise ValueError(
            f"length_scale, scale: expected numbers above 0, found {length_scale} and {scale}; 1 and 9 are usual"
        )
    arms = SharedArms(shared, "fixed" if shared == 0 else _BOUNDS)  # a fit searches in the logarithm
    return ConstantKernel(scale) * CovariateRBF(length_scale) * arms


class CovariateRBF(RBF):  # type: ignore[misc]  # scikit-learn has no types
    """exp(−|x − x'|²/(2ℓ²)), whatever the treatments are.

    >>> CovariateRBF()(np.array([[0.0, 0.0], [0.0, 1.0]])).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """

    reads_treatment: ClassVar[bool] = True

    def __call__(self, X: Array, Y: Array | None = None, eval_gradient: bool = False) -> Any:
        if np.ndim(self.length_scale) and len(self.length_scale) != X.shape[1] - 1:
            raise ValueError(
                f"length_scale: expected one for each of {X.shape[1] - 1} covariates, found {len(self.length_scale)};"
                " pass one number for all, or one each"
            )
        return super().__call__(X[:, :-1], None if Y is None else Y[:, :-1], eval_gradient)


class SharedArms(NormalizedKernelMixin, Kernel):  # type: ignore[misc]
    """1 for two points of one arm, `shared` for points of two arms.

    >>> SharedArms(0.3)(np.array([[5.0, 0.0], [7.0, 1.0]])).tolist()
    [[1.0, 0.3], [0.3, 1.0]]
    """

    reads_treatment: ClassVar[bool] = True

    def __init__(self, shared: float = 0.3, shared_bounds: tuple[float, float] | str = _BOUNDS) -> None:
        self.shared, self.shared_bounds = shared, shared_bounds

    @property
    def hyperparameter_shared(self) -> Hyperparameter:
        """What a fit may change."""
        return Hyperparameter("shared", "numeric", self.shared_bounds)

    def __call__(self, X: Array, Y: Array | None = None, eval_gradient: bool = False) -> Any:
        for rows_N_D in (X, Y) if Y is not None else (X,):
            if len(treatments := np.unique(rows_N_D[:, -1])) > 2:
                raise ValueError(
                    f"inputs: two_arm_kernel takes the last column for the treatment, found {len(treatments)} values in"
                    " it; put the treatment last, and use an ordinary kernel in a TLearner"
                )
        differ_N_M = X[:, -1:] != (X if Y is None else Y)[:, -1]
        kernel_N_M = np.where(differ_N_M, self.shared, 1.0)
        if not eval_gradient:
            return kernel_N_M
        # With respect to the logarithm, which is what scikit-learn searches in.
        fixed = self.hyperparameter_shared.fixed
        return kernel_N_M, np.empty((*kernel_N_M.shape, 0)) if fixed else (self.shared * differ_N_M)[..., None]

    def is_stationary(self) -> bool:
        """It depends on treatments being equal alone."""
        return False

    def __repr__(self) -> str:
        return f"SharedArms(shared={self.shared:.6g})"
