"""References: information about weights from matrices of curvature, by dense algebra.

    IG(A)     = ½ ln det(I + H_A H⁻¹)          ≤ ½ tr(H_A H⁻¹)             observed or expected information H_A of a set
    JPIG(A;E) = IG(A) − IG(A | E)              residual IG(E | A) = ½ ln det(I + H_E (H + H_A)⁻¹)
    H[W]      = −½ ln det H + P/2 ln 2πe       entropy of the weights N(w*, H⁻¹)

With Fisher information (F_A for H_A) the same numbers are EIG and JEPIG: a generalised linear model, or any network
under the Gauss-Newton approximation, learns as much from a label that is known as from one that is not. Observed
information may be indefinite, as long as every sum with H stays positive definite; gains may then be negative. JPIG
here is a difference of information gains, not the pointwise JPIG of known labels in prediction space.
docs/theory/weight-space.md, 2, 3, 5 and 6; Kirsch & Gal 2022.
"""

import math

import torch
from torch import Tensor

from natsel.information.weights.positive_definite import NotPositiveDefinite, cholesky, in_float64, symmetric


def information_gain(precision_P_P: Tensor, gained_P_P: Tensor) -> float:
    """½ ln det(I + H_A H⁻¹): how much the entropy of the weights falls, in nats; negative where H_A takes away.

    >>> round(information_gain(torch.eye(2), torch.diag(torch.tensor([1.0, 0.0]))), 4)
    0.3466
    """
    factor_P_P = cholesky(symmetric(precision_P_P))
    white_P_P = _white(factor_P_P, symmetric(gained_P_P))
    values_P = torch.linalg.eigvalsh(white_P_P)
    rounding = len(values_P) * torch.finfo(torch.float64).eps * float(values_P.abs().max())
    # An eigenvalue near 0 is none of −1, however large the rounding that comes from the others.
    if float(values_P.min()) <= max(-1.0, min(-1 + rounding, -0.5)):
        raise NotPositiveDefinite(
            "gained_P_P: precision and information gained are not positive definite together; add a prior precision, or"
            " use the Gauss-Newton approximation in place of the observed information"
        )
    return 0.5 * float(values_P.log1p().sum())


def information_gain_trace(precision_P_P: Tensor, gained_P_P: Tensor) -> float:
    """½ tr(H_A H⁻¹): never less than the information gain, and additive over points.

    >>> information_gain_trace(torch.eye(2), torch.diag(torch.tensor([1.0, 0.0])))
    0.5
    """
    factor_P_P = cholesky(symmetric(precision_P_P))
    return 0.5 * float(_white(factor_P_P, symmetric(gained_P_P)).diagonal().sum())


def predictive_residual(precision_P_P: Tensor, gained_P_P: Tensor, target_P_P: Tensor) -> float:
    """½ ln det(I + H_E (H + H_A)⁻¹): what labels of targets would still tell once those of the set are known.

    >>> round(predictive_residual(torch.eye(1), torch.eye(1), torch.eye(1)), 4)
    0.2027
    """
    return information_gain(_together(precision_P_P, gained_P_P), target_P_P)


def predictive_residual_trace(precision_P_P: Tensor, gained_P_P: Tensor, target_P_P: Tensor) -> float:
    """½ tr(H_E (H + H_A)⁻¹): what BAIT minimises, by half; never less than the residual.

    >>> round(predictive_residual_trace(torch.eye(1), torch.eye(1), torch.eye(1)), 4)
    0.25
    """
    return information_gain_trace(_together(precision_P_P, gained_P_P), target_P_P)


def joint_predictive_gain(precision_P_P: Tensor, gained_P_P: Tensor, target_P_P: Tensor) -> float:
    """IG(A) − IG(A | E): JPIG from observed information, JEPIG from Fisher information, EPIG by Jensen with a mean H_E.

    >>> round(joint_predictive_gain(torch.eye(1), torch.eye(1), torch.eye(1)), 4)
    0.1438
    """
    after_P_P = _together(precision_P_P, target_P_P)
    return information_gain(precision_P_P, gained_P_P) - information_gain(after_P_P, gained_P_P)


def joint_predictive_gain_trace(precision_P_P: Tensor, gained_P_P: Tensor, target_P_P: Tensor) -> float:
    """½ tr(H_E (H⁻¹ − (H + H_A)⁻¹)): how much the trace residual falls, BAIT's gain by half.

    >>> round(joint_predictive_gain_trace(torch.eye(1), torch.eye(1), torch.eye(1)), 4)
    0.25
    """
    before = information_gain_trace(precision_P_P, target_P_P)
    return before - predictive_residual_trace(precision_P_P, gained_P_P, target_P_P)


def weight_entropy(precision_P_P: Tensor) -> float:
    """Entropy of weights N(w*, H⁻¹) in nats: −½ ln det H + P/2 ln 2πe.

    >>> round(weight_entropy(torch.eye(1)), 4)
    1.4189
    """
    factor_P_P = cholesky(symmetric(precision_P_P))
    return 0.5 * len(factor_P_P) * (1 + math.log(2 * math.pi)) - float(factor_P_P.diagonal().log().sum())


def gaussian_approximation(point_P: Tensor, gradient_P: Tensor, precision_P_P: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and covariance of the weights, from gradient and Hessian of −ln p at any point: one Newton step.

    >>> gaussian_approximation(torch.tensor([1.0]), torch.tensor([8.0]), torch.tensor([[4.0]]))[0].tolist()
    [-1.0]
    """
    factor_P_P = cholesky(symmetric(precision_P_P))
    step_P = torch.cholesky_solve(in_float64(gradient_P, "gradient_P")[:, None], factor_P_P)[:, 0]
    return in_float64(point_P, "point_P") - step_P, torch.cholesky_inverse(factor_P_P)


def reference_scaling(
    train_P_P: Tensor, labelled: int, batch: int, prior_precision: float = 1.0
) -> tuple[Tensor, float]:
    """The precision that BAIT's authors use, and the factor for the features of candidates: means in place of sums.

        H = T/(T+B) · F_train/T + λ I,    candidates by √(B/(T+B)),    targets by their mean (TraceEPIG)

    `train_P_P` is the sum over the labelled points. natsel adds up information as Bayes' rule does, and only this
    function speaks of means.  docs/theory/weight-space.md, 9.1; Ash et al. 2021.

    >>> reference_scaling(torch.eye(1), labelled=3, batch=1, prior_precision=0.5)
    (tensor([[0.7500]], dtype=torch.float64), 0.5)
    """
    if labelled < 1 or batch < 1:
        raise ValueError(f"labelled: expected counts of at least 1, found {labelled} and {batch}; scale nothing then")
    matrix_P_P = symmetric(train_P_P) / (labelled + batch)
    prior_P_P = prior_precision * torch.eye(len(matrix_P_P), dtype=torch.float64, device=matrix_P_P.device)
    return matrix_P_P + prior_P_P, math.sqrt(batch / (labelled + batch))


def _together(first_P_P: Tensor, second_P_P: Tensor) -> Tensor:
    """The sum of two, refused unless it is positive definite."""
    total_P_P = symmetric(first_P_P) + symmetric(second_P_P)
    cholesky(total_P_P)
    return total_P_P


def _white(factor_P_P: Tensor, matrix_P_P: Tensor) -> Tensor:
    """L⁻¹ M L⁻ᵀ: symmetric, with the eigenvalues of M H⁻¹."""
    half_P_P = torch.linalg.solve_triangular(factor_P_P, matrix_P_P, upper=False)
    white_P_P: Tensor = torch.linalg.solve_triangular(factor_P_P, half_P_P.T, upper=False)
    return (white_P_P + white_P_P.T) / 2
