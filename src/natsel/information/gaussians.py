"""Differential entropies and information of jointly Gaussian variables, in nats.

    H[A]      = ½ ln det(2πe Σ_A)                                 gaussian_entropy
    Σ_A|C     = Σ_A − Σ_AC Σ_C⁻¹ Σ_CA                             gaussian_conditional_covariance
    I[A;B]    = −½ Σ_i ln(1 − ρ_i²)                               ρ_i the canonical correlations of A and B
    ε(S;T)    = E_p(S∖T|t_T)[−ln p(S)]                            gaussian_expected_surprisal
    I[F;Y]    = ½ ln det(I + Φ Φᵀ/σ²)                             log_det_gain: Y = Φ w + noise, w ~ N(0, I)

Every mixed term with tied outcomes is a difference of ε: H[A|C] = ε(A∪C;T) − ε(C;T), T the tied variables.
Differential entropies may be negative (−inf for a constant) and depend on units; mutual information does not,
is never negative, and is +inf where one side determines part of the other.
docs/theory/information-quantities.md, 10.3; docs/theory/epig-jepig.md, 2.
"""

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from natsel.information.entropies import widened

_LOG_2PI = math.log(2 * math.pi)


def normal_entropy(variance: Tensor) -> Tensor:
    """½ ln(2πe σ²), elementwise: the entropy of a normal of that variance, −inf at 0.

    >>> normal_entropy(torch.tensor([1.0, 0.0]))
    tensor([1.4189,   -inf])
    """
    return 0.5 * (widened(variance).log() + _LOG_2PI + 1)


def gaussian_entropy(covariance: Tensor) -> Tensor:
    """½ ln det(2πe Σ) of one covariance or a stack of them; 0 of no variables, −inf where Σ is singular.

    >>> gaussian_entropy(torch.eye(2, dtype=torch.float64))
    tensor(2.8379, dtype=torch.float64)
    """
    factor, singular = _factored(_checked(covariance))
    log_det = 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    return 0.5 * (torch.where(singular, -math.inf, log_det) + covariance.shape[-1] * (_LOG_2PI + 1))


def gaussian_conditional_covariance(covariance: Tensor, targets: Sequence[int], givens: Sequence[int]) -> Tensor:
    """Cov[A|C]; the same for every outcome of C, and 0 for a target that is itself given.

    >>> gaussian_conditional_covariance(torch.tensor([[2.0, 0.9], [0.9, 0.75]]), targets=[0], givens=[1])
    tensor([[0.9200]])
    """
    covariance = _checked(covariance)
    targets, givens = list(targets), list(givens)
    cross = covariance[targets][:, givens]
    left = covariance[targets][:, targets] - cross @ _inverse(covariance[givens][:, givens]) @ cross.T
    free = torch.tensor([target not in givens for target in targets], device=left.device, dtype=torch.bool)
    return torch.where(free[:, None] & free, (left + left.T) / 2, 0.0)


def gaussian_mutual_information(covariance: Tensor, first: Sequence[int], second: Sequence[int]) -> Tensor:
    """I[A;B] = −½ Σ ln(1 − ρ²) over the canonical correlations ρ of the two groups of variables.

    Constants tell nothing (0). +inf where part of A is a function of B, as far as the type can tell.

    >>> gaussian_mutual_information(torch.tensor([[1.0, 0.6], [0.6, 1.0]]), [0], [1])
    tensor(0.2231)
    """
    covariance = _checked(covariance)
    first, second = list(dict.fromkeys(first)), list(dict.fromkeys(second))
    correlation, _ = _in_units_of_deviation(covariance)
    if any(correlation[variable, variable] > 0 for variable in first if variable in second):
        return covariance.new_full((), math.inf)
    cross = _whitened(correlation[first][:, first], correlation[first][:, second])
    cosine = torch.linalg.svdvals(_whitened(correlation[second][:, second], cross.T))
    determined = (1 - cosine) * (1 + cosine) <= _rounding(covariance)
    information = -0.5 * torch.log1p(-torch.where(determined, 0.0, cosine).square())
    return torch.where(determined, math.inf, information).sum()


def gaussian_expected_surprisal(
    mean: Tensor, covariance: Tensor, inside: Sequence[int], tied: Mapping[int, float]
) -> Tensor:
    """ε(S;T) = E[−ln p(S)], the variables T tied to outcomes, the rest of S drawn given them.

    ½ ln det(2π Σ_S) + ½ (m−μ_S)ᵀ Σ_S⁻¹ (m−μ_S) + ½ tr(Σ_S⁻¹ V), m and V the mean and covariance of S given T
    (the outcome, and 0, for its tied part). H[y] = ε(Y;Y), H[X,y] = ε(XY;Y), H[y|X] = ε(XY;Y) − ε(X;Y).
    docs/theory/information-quantities.md, 6 and 10.3.

    >>> mean, covariance = torch.zeros(1), torch.eye(1)
    >>> gaussian_expected_surprisal(mean, covariance, inside=[0], tied={0: 2.0})
    tensor(2.9189)
    """
    covariance = _checked(covariance)
    mean = mean.to(covariance)
    inside, known = list(dict.fromkeys(inside)), list(tied)
    outcome = covariance.new_tensor([float(tied[variable]) for variable in known])
    pull = covariance[inside][:, known] @ _inverse(covariance[known][:, known])
    shift = pull @ (outcome - mean[known])
    for place, variable in enumerate(inside):
        if variable in tied:
            shift[place] = tied[variable] - mean[variable]
    spread = gaussian_conditional_covariance(covariance, inside, known)
    factor, singular = _factored(covariance[inside][:, inside])
    if bool(singular):
        raise ValueError(f"covariance: singular over {inside}, hence no density; leave constants and copies out")
    log_det = 2 * factor.diagonal().log().sum() + len(inside) * _LOG_2PI
    inverse = torch.cholesky_inverse(factor)
    return 0.5 * (log_det + shift @ inverse @ shift + (inverse * spread).sum())


# Var f / noise of the point that has most: up to here a Cholesky factor loses less than six digits.
_WELL_BEHAVED = 1e4


def log_det_gain(features_B_D: Tensor, noise: Tensor | float) -> Tensor:
    """½ ln det(I + Φ Φᵀ/σ²): what B labels with noise variance σ² tell about w ~ N(0, I).

    σ² is one number or one per label. From singular values, as Σ ½ ln(1 + s²): tiny gains keep their digits. From a
    Cholesky factor, several times as quick, where gains are neither tiny nor noise next to nothing.
    docs/theory/epig-jepig.md, 2.

    >>> log_det_gain(torch.eye(2), noise=1.0)
    tensor(0.6931)
    """
    features_B_D = widened(features_B_D)
    noise_B = torch.as_tensor(noise, dtype=features_B_D.dtype, device=features_B_D.device)
    if not bool((noise_B > 0).all()):
        raise ValueError(f"noise: expected positive variances, found {noise}; without noise the gain is infinite")
    rows_B_D = features_B_D / noise_B.sqrt()[..., None]
    own_B = rows_B_D.square().sum(-1)
    if own_B.numel() and float(own_B.max()) <= _WELL_BEHAVED and float(own_B.sum(-1).min()) >= 1:
        short_S_L = rows_B_D if rows_B_D.shape[-2] <= rows_B_D.shape[-1] else rows_B_D.mT
        inner_S_S = short_S_L @ short_S_L.mT
        inner_S_S.diagonal(dim1=-2, dim2=-1).add_(1)
        gain: Tensor = torch.linalg.cholesky(inner_S_S).diagonal(dim1=-2, dim2=-1).log().sum(-1)
        return gain
    singular = torch.linalg.svdvals(rows_B_D)
    return 0.5 * torch.log1p(singular.square()).sum(-1)


def mixture_variance(mean_N_K: Tensor, variance_N_K: Tensor, log_weights_K: Tensor | None = None) -> Tensor:
    """Var[Y|x] of K weighted normals = Σ w σ² + Σ w (μ − μ̄)²: noise plus disagreement, one value per point.

    >>> mixture_variance(torch.tensor([[-1.0, 1.0]]), torch.tensor([[0.5, 0.5]]))
    tensor([1.5000])
    """
    mean_N_K, variance_N_K = widened(mean_N_K), widened(variance_N_K)
    weights_K = _weights(variance_N_K, log_weights_K)
    # Masked, not only multiplied: a draw of weight 0 may have predicted anything, inf included.
    offset_N_K = torch.where(weights_K > 0, mean_N_K - mean_N_K[:, weights_K.argmax()][:, None], 0.0)
    spread_N_K = offset_N_K - (offset_N_K * weights_K).sum(-1, keepdim=True)
    noise_N_K = torch.where(weights_K > 0, variance_N_K, 0.0)
    return ((noise_N_K + spread_N_K.square()) * weights_K).sum(-1)


def moment_matched_entropy(mean_N_K: Tensor, variance_N_K: Tensor, log_weights_K: Tensor | None = None) -> Tensor:
    """½ ln(2πe Var[Y|x]): the entropy of the normal with the mixture's moments, at least the mixture's own.

    >>> moment_matched_entropy(torch.tensor([[-1.0, 1.0]]), torch.tensor([[0.5, 0.5]]))
    tensor([1.6217])
    """
    return normal_entropy(mixture_variance(mean_N_K, variance_N_K, log_weights_K))


def moment_matched_mutual_information(
    mean_N_K: Tensor, variance_N_K: Tensor, log_weights_K: Tensor | None = None
) -> Tensor:
    """½ (ln Var[Y|x] − Σ_k w_k ln σ_k²): Gaussian BALD, an upper bound not capped by ln K.

    0 where all draws agree, noise-free ones too; +inf where noise-free draws disagree.
    docs/theory/epig-jepig.md, 2.

    >>> moment_matched_mutual_information(torch.tensor([[-1.0, 1.0]]), torch.tensor([[0.5, 0.5]]))
    tensor([0.5493])
    """
    mean_N_K, variance_N_K = widened(mean_N_K), widened(variance_N_K)
    weights_K = _weights(variance_N_K, log_weights_K)
    total_N_1 = mixture_variance(mean_N_K, variance_N_K, log_weights_K)[:, None]
    counted_N_K = (weights_K > 0) & (total_N_1 > 0)
    # Masked before the logarithms, so that no 0·inf reaches the value or the gradient.
    log_total_N_K = torch.where(counted_N_K, total_N_1, 1.0).log()
    log_noise_N_K = torch.where(counted_N_K, variance_N_K, 1.0).log()
    return (0.5 * (log_total_N_K - log_noise_N_K) * weights_K).sum(-1).clamp_min(0)


def _rounding(covariance: Tensor) -> float:
    """A share of variance this small cannot be told from 0 in this type."""
    return 4 * covariance.shape[-1] * torch.finfo(covariance.dtype).eps


def _in_units_of_deviation(covariance: Tensor) -> tuple[Tensor, Tensor]:
    """Correlations and 1/σ (0 for constants): thresholds on them do not mistake small units for constants."""
    variance = covariance.diagonal(dim1=-2, dim2=-1)
    scale = torch.where(variance > 0, torch.where(variance > 0, variance, 1.0).rsqrt(), 0.0)
    return covariance * scale[..., :, None] * scale[..., None, :], scale


def _factored(covariance: Tensor) -> tuple[Tensor, Tensor]:
    """Cholesky factor, and whether the covariance is singular as far as its type can tell."""
    factor, failed = torch.linalg.cholesky_ex(covariance)
    pivots = factor.diagonal(dim1=-2, dim2=-1).square()
    small = pivots <= _rounding(covariance) * covariance.diagonal(dim1=-2, dim2=-1)
    singular = (failed > 0) | small.any(-1)
    if bool(singular.any()):
        lowest = float(torch.linalg.eigvalsh(_in_units_of_deviation(covariance)[0]).min())
        if lowest < -math.sqrt(torch.finfo(covariance.dtype).eps):
            raise ValueError(f"covariance: has the negative eigenvalue {lowest:g} (as correlation); none may be")
    return factor, singular


def _inverse(covariance: Tensor) -> Tensor:
    """Σ⁻¹, or a generalised inverse, which gives the same conditional moments."""
    factor, singular = _factored(covariance)
    if not bool(singular):
        return torch.cholesky_inverse(factor)
    correlation, scale = _in_units_of_deviation(covariance)
    inverse: Tensor = torch.linalg.pinv(correlation, hermitian=True)
    return inverse * scale[:, None] * scale


def _whitened(correlation: Tensor, cross: Tensor) -> Tensor:
    """R^(−½) X: covariances with X per unit of independent variation, directions without any left out."""
    factor, singular = _factored(correlation)
    if not bool(singular):
        result: Tensor = torch.linalg.solve_triangular(factor, cross, upper=False)
        return result
    value, vector = torch.linalg.eigh(correlation)
    varies = value > _rounding(correlation) * value.max()
    root = torch.where(varies, torch.where(varies, value, 1.0).rsqrt(), 0.0)
    result = root[:, None] * (vector.T @ cross)
    return result


def _checked(covariance: Tensor) -> Tensor:
    covariance = widened(covariance)
    if covariance.dim() < 2 or covariance.shape[-1] != covariance.shape[-2]:
        raise ValueError(f"covariance: expected a square matrix, found shape {tuple(covariance.shape)}")
    if not bool(torch.isfinite(covariance).all()) or bool((covariance.diagonal(dim1=-2, dim2=-1) < 0).any()):
        raise ValueError("covariance: found NaN, inf or a negative variance; pass finite variances >= 0")
    correlation, _ = _in_units_of_deviation(covariance)
    if not torch.allclose(correlation, correlation.mT, rtol=0.0, atol=1e-4):
        raise ValueError("covariance: not symmetric; pass (cov + cov.T) / 2 if that is rounding")
    return covariance


def _weights(values_N_K: Tensor, log_weights_K: Tensor | None) -> Tensor:
    draws = values_N_K.shape[-1]
    if log_weights_K is None:
        return values_N_K.new_full((draws,), 1 / draws)
    if log_weights_K.shape != (draws,):
        found = f"shape {tuple(log_weights_K.shape)}"
        raise ValueError(f"log_weights_K: found {found}; pass one for each of the {draws} draws, or None")
    return log_weights_K.to(values_N_K).softmax(0)
