"""Information content, entropy, cross-entropy and KL divergence of discrete distributions, in nats.

    h(ρ)      = −ln ρ                       information content (surprisal)
    H(p ‖ q)  = E_p[h(q)]                   cross-entropy; q need not sum to one
    H(p)      = H(p ‖ p)                    entropy
    D(p ‖ q)  = H(p ‖ q) − H(p)             Kullback-Leibler divergence

With 0·h(0) = 0: an outcome with p = 0 counts nothing, whatever q is; one with p > 0 and q = 0 makes the
cross-entropy +inf. Both hold in value and in gradient, without any epsilon: logs come in, so a probability
of 0 is a log of −inf. float32 and float64 keep their type, half precision is computed in float32.
For Z_q = Σ q: H(p ‖ q) ≥ H(p) + h(Z_q), with equality iff q/Z_q = p.
docs/theory/information-quantities.md, 2 (ELBO: 14); Shannon 1948; Kullback and Leibler 1951.
"""

import math

import torch
from torch import Tensor

# exp(LOG_FLOOR) is 0 in every float type, so replacing a log of −inf by it turns 0·(−inf) = NaN into
# 0·finite = 0, and clamp sends no gradient below its bound. Much cheaper than xlogy, entr or a mask.
LOG_FLOOR = -1.0e4


def widened(values: Tensor) -> Tensor:
    """The same values in a type fit for sums of logs: float32 at least, float64 for integers."""
    if not values.is_floating_point():
        return values.to(torch.float64)
    return values if values.dtype in (torch.float32, torch.float64) else values.to(torch.float32)


def log_sum_exp(log_values: Tensor, dim: int) -> Tensor:
    """ln Σ exp, with a gradient of 0 (torch.logsumexp: NaN) where every term is exp(−inf)."""
    lowest = torch.finfo(log_values.dtype).min
    total = torch.logsumexp(log_values.clamp_min(lowest), dim)
    return total.masked_fill(total <= lowest / 2, -math.inf)


def information_content(
    probability: Tensor | float | None = None, *, log_probability: Tensor | float | None = None
) -> Tensor:
    """h(ρ) = −ln ρ, from the number itself or from its log; h(0) = +inf. ρ may exceed 1.

    docs/theory/information-quantities.md, 2.

    >>> information_content(0.5), information_content(log_probability=-2.0)
    (tensor(0.6931, dtype=torch.float64), tensor(2., dtype=torch.float64))
    """
    if (probability is None) == (log_probability is None):
        raise ValueError("information_content: pass exactly one of probability and log_probability")
    if log_probability is not None:
        return 0.0 - widened(_tensor(log_probability))
    rho = widened(_tensor(probability))
    if not bool((rho >= 0).all()):
        raise ValueError(f"probability: must be >= 0, found {rho.min().item():g}; pass logs as log_probability")
    return 0.0 - rho.log()


def check_dim(values: Tensor, dim: int) -> None:
    """Raise a ValueError where a table has no such axis."""
    if not -values.ndim <= dim < values.ndim:
        raise ValueError(f"dim: found {dim}, and there are {values.ndim} axes; pass {-values.ndim}..{values.ndim - 1}")


def entropy(log_p: Tensor, dim: int = -1) -> Tensor:
    """H(p) = −Σ p ln p over dim; 0 where p is one-hot.  docs/theory/information-quantities.md, 2.

    >>> entropy(torch.tensor([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0]]).log())
    tensor([0.6931, 0.0000])
    """
    check_dim(log_p, dim)
    log_p = widened(log_p)
    # 0 − x, not −x: the entropy of a one-hot row prints as 0, not as −0.
    return 0.0 - (log_p.exp() * log_p.clamp_min(LOG_FLOOR)).sum(dim)


def cross_entropy(log_p: Tensor, log_q: Tensor, dim: int = -1) -> Tensor:
    """H(p ‖ q) = −Σ p ln q over dim, q ≥ 0 of any sum; +inf where p > 0 meets q = 0.

    docs/theory/information-quantities.md, 2.

    >>> p, q = torch.tensor([0.5, 0.5, 0.0]), torch.tensor([0.25, 0.25, 0.0])
    >>> cross_entropy(p.log(), q.log()), cross_entropy(q.log(), torch.tensor([1.0, 0.0, 0.0]).log())
    (tensor(1.3863), tensor(inf))
    """
    check_dim(log_p, dim)
    log_p, log_q = widened(log_p), widened(log_q)
    never, missed = log_p == -math.inf, log_q == -math.inf
    terms = log_p.exp() * torch.where(never | missed, 0.0, log_q)
    return 0.0 - torch.where(missed & ~never, -math.inf, terms).sum(dim)


def kl_divergence(log_p: Tensor, log_q: Tensor, dim: int = -1) -> Tensor:
    """D(p ‖ q) = Σ p (ln p − ln q) over dim, difference of logs first: small divergences keep their digits.

    At least h(Σ q), hence ≥ 0 (up to rounding) for a normalised q; +inf where p > 0 meets q = 0.
    docs/theory/information-quantities.md, 2.

    >>> kl_divergence(torch.tensor([0.5, 0.5, 0.0]).log(), torch.tensor([0.25, 0.25, 0.5]).log())
    tensor(0.6931)
    """
    check_dim(log_p, dim)
    log_p, log_q = widened(log_p), widened(log_q)
    never, missed = log_p == -math.inf, log_q == -math.inf
    # Masked before the product too: a −inf behind a mask would still send NaN back through the gradient.
    ratio = torch.where(never | missed, 0.0, log_p) - torch.where(never | missed, 0.0, log_q)
    return torch.where(missed & ~never, math.inf, log_p.exp() * ratio).sum(dim)


def elbo(log_likelihood_K: Tensor, log_q_K: Tensor, log_prior_K: Tensor) -> Tensor:
    """E_q[ln p(D|ω)] − D(q(ω) ‖ p(ω)), a lower bound of ln p(D); the gap is D(q(ω) ‖ p(ω|D)).

    All three over the same K parameters (last axis); −inf where q allows what likelihood or prior forbid.
    docs/theory/information-quantities.md, 14.

    >>> half_K = torch.tensor([0.5, 0.5]).log()
    >>> elbo(torch.tensor([0.1, 0.1]).log(), half_K, half_K)    # q is the posterior: ELBO = ln 0.1
    tensor(-2.3026)
    """
    return 0.0 - cross_entropy(log_q_K, log_likelihood_K) - kl_divergence(log_q_K, log_prior_K)


def _tensor(value: Tensor | float | None) -> Tensor:
    return value if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.float64)
