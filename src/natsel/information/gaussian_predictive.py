"""What Gaussian labels tell about Gaussian targets, in closed form, and BALD of a probit Gaussian process.

    EPIG(x)  = −½ Σ_j v_j ln(1 − ρ_j²),    ρ_j² = S_xj² / (S_xx S_jj)                        epig_gaussian
    JEPIG(x) = −½ ln(1 − S_xe S_ee⁻¹ S_ex / S_xx)                                            jepig_gaussian, N points
    JEPIG(A) = ½ (ln det S_aa + ln det S_ee − ln det S_(a+e))                                jepig_gaussian, one set
    BALD(x)  = h(Φ(μ/√(1+s²))) − E h(Φ(f)),    f ~ N(μ, s²),   h the entropy of a coin       probit_bald

S are covariances of labels: the variances hold the noise, covariances of different labels do not. Without noise a label
can determine another, which would be worth infinitely many nats: that is refused.
docs/theory/epig-jepig.md, 2 and 6; Houlsby et al. 2011.
"""

import math

import torch
from torch import Tensor

from natsel.information.entropies import widened
from natsel.information.gaussians import gaussian_mutual_information
from natsel.information.phi import phi
from natsel.information.predictive_information import target_weights
from natsel.memory import chunked

# Nodes of the trapezoidal rule lie this far apart, in units of min(1, s): Φ has no zeros near the real line, so that
# the error falls exponentially and is below 1e-13 here.
_STEP = 0.45
_REACH = 9.0
# Houlsby's form is off by up to 2e-3 nats and negative for nearly certain points; below this variance it is not used.
_CERTAIN = 0.1


def epig_gaussian(
    variance_N: Tensor, covariance_N_M: Tensor, variance_M: Tensor, target_weights_M: Tensor | None = None
) -> Tensor:
    """EPIG of N candidates about M targets from the covariances of their labels: N values in nats, float64.

    >>> pair = torch.tensor([[1.5, 0.6], [0.6, 2.0]])
    >>> epig_gaussian(pair[:1, 0], pair[:1, 1:], pair[1:, 1])
    tensor([0.0639], dtype=torch.float64)
    """
    count, targets = covariance_N_M.shape if covariance_N_M.ndim == 2 else (-1, -1)
    if variance_N.shape != (count,) or variance_M.shape != (targets,):
        raise ValueError(
            f"covariance_N_M: found shape {tuple(covariance_N_M.shape)} for {tuple(variance_N.shape)} candidates and"
            f" {tuple(variance_M.shape)} targets; pass vectors of N and M variances and an N×M matrix"
        )
    if targets == 0:
        raise ValueError("targets: found none, and without them nothing says what is worth learning; pass some")
    variance_N, variance_M = _positive(variance_N, "variance_N"), _positive(variance_M, "variance_M")
    weights_M = target_weights(target_weights_M, variance_M[:, None, None])

    def work(part: slice) -> Tensor:
        share_n_M = covariance_N_M[part].double().square() / variance_N[part, None] / variance_M
        return _information(share_n_M) @ weights_M

    return chunked(work, count, 24 * targets, variance_N.device)


def jepig_gaussian(covariance_aa: Tensor, covariance_ae: Tensor, covariance_ee: Tensor) -> Tensor:
    """JEPIG about all targets e together, from covariances of labels: nats, float64.

    A vector `covariance_aa` holds the variances of N candidates, each taken alone: N values by one Cholesky factor of
    `covariance_ee`. A matrix is the covariance of one set of candidates: one value.

    >>> pair = torch.tensor([[1.5, 0.6], [0.6, 2.0]])
    >>> jepig_gaussian(pair[:1, 0], pair[:1, 1:], pair[1:, 1:])
    tensor([0.0639], dtype=torch.float64)
    >>> jepig_gaussian(pair[:1, :1], pair[:1, 1:], pair[1:, 1:])
    tensor(0.0639, dtype=torch.float64)
    """
    candidates, targets = covariance_ae.shape if covariance_ae.ndim == 2 else (-1, -1)
    if covariance_aa.shape not in ((candidates,), (candidates, candidates)) or covariance_ee.shape != (
        targets,
        targets,
    ):
        raise ValueError(
            f"covariance_ae: found shape {tuple(covariance_ae.shape)} beside {tuple(covariance_aa.shape)} and"
            f" {tuple(covariance_ee.shape)}; pass A×E beside A or A×A, and E×E"
        )
    if targets == 0:
        raise ValueError("targets: found none, and without them nothing says what is worth learning; pass some")
    covariance_ee = widened(covariance_ee).double()
    if covariance_aa.ndim == 2:
        cross = covariance_ae.double()
        whole = torch.cat([torch.cat([covariance_aa.double(), cross], 1), torch.cat([cross.T, covariance_ee], 1)])
        found = gaussian_mutual_information(whole, range(candidates), range(candidates, candidates + targets))
        if not bool(found.isfinite()):
            raise ValueError(_DETERMINED)
        return found
    variance_N = _positive(covariance_aa, "covariance_aa")
    factor_e_e, failed = torch.linalg.cholesky_ex(covariance_ee)
    if bool(failed):
        raise ValueError(
            "covariance_ee: not positive definite; it must hold the noise of the labels on its diagonal: add it"
        )

    def work(part: slice) -> Tensor:
        white_e_n = torch.linalg.solve_triangular(factor_e_e, covariance_ae[part].double().T, upper=False)
        return _information(white_e_n.square_().sum(0) / variance_N[part])

    return chunked(work, candidates, 24 * targets, variance_N.device)


def probit_bald(mean: Tensor, variance: Tensor, exact: bool = True) -> Tensor:
    """BALD of points whose latent value is N(mean, variance) and whose label is 1 with probability Φ(latent), in nats.

    `exact` integrates numerically, to 1e-12; otherwise Houlsby's closed form, off by up to 2e-3 nats, is used from a
    variance of 0.1 on.

    >>> probit_bald(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 4.0]))
    tensor([0.1931, 0.3424], dtype=torch.float64)
    """
    mean = mean.double() + torch.zeros_like(variance, dtype=torch.float64)
    variance = variance.double().expand_as(mean)
    if not bool((variance >= 0).all() & variance.isfinite().all() & mean.isfinite().all()):
        raise ValueError("variance: expected finite means and variances of 0 or more; check the latent posterior")
    mean_N, variance_N = mean.reshape(-1), variance.reshape(-1)
    if exact:
        return _integrated(mean_N, variance_N).view_as(mean)
    scores_N = probit_bald_closed(mean_N, variance_N)
    certain_N = variance_N < _CERTAIN
    scores_N[certain_N] = _integrated(mean_N[certain_N], variance_N[certain_N])
    return scores_N.clamp_min_(0).view_as(mean)


def probit_bald_closed(mean: Tensor, variance: Tensor) -> Tensor:
    """Houlsby's approximation as published, in nats; it falls below 0 for nearly certain points.

        h(Φ(μ/√(s²+1))) − ln 2 · A exp(−μ²/(2(s²+A²)))/√(s²+A²),   A² = π ln 2 / 2

    >>> probit_bald_closed(torch.tensor([0.0, -2.0]), torch.tensor([1.0, 0.001]))
    tensor([ 0.1927, -0.0018], dtype=torch.float64)
    """
    mean, variance = mean.double(), variance.double()
    wide = variance + math.pi * math.log(2) / 2
    noise = math.log(2) * math.sqrt(math.pi * math.log(2) / 2) * (-mean.square() / (2 * wide)).exp() / wide.sqrt()
    return _coin_entropy(mean / (variance + 1).sqrt()) - noise


def _integrated(mean_N: Tensor, variance_N: Tensor) -> Tensor:
    """E KL(coin Φ(f) ‖ coin p̄), every term at least 0, by the trapezoidal rule over f, or over h(Φ(f)) where s > 1."""
    deviation_N = variance_N.sqrt()
    centre_N = mean_N / (variance_N + 1).sqrt()
    nodes_Q = torch.arange(-_REACH, _REACH + _STEP, _STEP, dtype=torch.float64, device=mean_N.device)
    density_Q = (-nodes_Q.square() / 2).exp() * (_STEP / math.sqrt(2 * math.pi))

    def narrow(part: slice) -> Tensor:
        # Φ(f)/p̄ − 1 by the difference of logarithms: tails keep their digits.
        latent_n_Q = mean_N[part, None] + deviation_N[part, None] * nodes_Q
        total_n = torch.zeros_like(mean_N[part])
        for sign in (1.0, -1.0):
            log_mean_n = torch.special.log_ndtr(sign * centre_N[part])
            ratio_n_Q = torch.expm1(torch.special.log_ndtr(sign * latent_n_Q) - log_mean_n[:, None])
            # p̄ underflows before the ratio overflows; such terms are 0.
            terms_n = (phi(ratio_n_Q.clamp_max_(1e280)) * density_Q).sum(1)
            total_n += log_mean_n.exp() * terms_n
        return total_n

    def wide(part: slice) -> Tensor:
        offset_n_Q = (nodes_Q - mean_N[part, None]) / deviation_N[part, None]
        density_n_Q = (-offset_n_Q.square() / 2).exp_() * (_STEP / math.sqrt(2 * math.pi)) / deviation_N[part, None]
        return _coin_entropy(centre_N[part]) - density_n_Q @ _coin_entropy(nodes_Q)

    def work(part: slice) -> Tensor:
        return torch.where(variance_N[part] > 1, wide(part), narrow(part))

    return chunked(work, len(mean_N), 64 * len(nodes_Q), mean_N.device).clamp_min_(0)


def _coin_entropy(latent: Tensor) -> Tensor:
    """H of a coin with probability Φ(latent), from logarithms, so that rare sides keep their digits."""
    log_p, log_q = torch.special.log_ndtr(latent), torch.special.log_ndtr(-latent)
    entropy: Tensor = -(log_p.exp() * log_p + log_q.exp() * log_q)
    return entropy


_DETERMINED = (
    "covariance: a candidate's label determines a target's, which is worth infinitely many nats; add the variance of"
    " the noise to the diagonals"
)


def _information(share: Tensor) -> Tensor:
    """−½ ln(1 − share): nats from the share of variance explained."""
    if share.numel() and not float(share.max()) < 1 - 4 * torch.finfo(share.dtype).eps:  # NaN fails too
        if not float(share.max()) < 1 + 1e-6:
            raise ValueError(f"covariance: explains {float(share.max()):.6g} of a variance; no more than 1 can be")
        raise ValueError(_DETERMINED)
    return share.neg().log1p_().mul_(-0.5)


def _positive(variance: Tensor, name: str) -> Tensor:
    variance = variance.double()
    if not bool(((variance > 0) & variance.isfinite()).all()):
        raise ValueError(f"{name}: expected positive finite variances; they hold the noise of the labels too")
    return variance
