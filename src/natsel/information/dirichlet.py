"""Members of an ensemble as draws of a Dirichlet: mean and variance of their entropy, and what they disagree in.

    p ~ Dir(a0 m)          m the mean prediction, a0 the concentration: large where members agree

    E[H]     = ψ(a0+1) − Σ_c m_c ψ(α_c+1)                                              α = a0 m
    I[Y; p]  = H(m) − E[H] = Σ_c m_c r(α_c) − r(a0),        r(x) = ψ(x+1) − ln x
    Var[H]   = ( Var_m[ψ(α+1)] + Σ_c m_c g(α_c+1) − g(a0+1) ) / (a0+1),   g(x) = x ψ'(x)

Every sum has terms of one sign: nothing cancels, whether a0 is 1e-10 or 1e9. Classes with m_c = 0 count nothing. The
mean is passed beside the concentration, since dividing tiny α would lose it. How a concentration is found is in
`natsel.information.dirichlet_fits`.  docs/theory/dirichlet-ensembles.md, 2 to 4; Kirsch 2024.
"""

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from natsel.memory import chunked, rows_per_chunk
from natsel.options import Amount

_TWO = torch.tensor(2.0, dtype=torch.float64)
_ZETA = [math.nan, math.nan, *(float(torch.special.zeta(_TWO * 0 + k, _TWO - 1)) for k in range(2, 14))]
_GAMMA = 0.57721566490153286061

_SMALL = 0.02  # below it, differences from x = 0 are summed as power series
_LARGE = 30.0  # above it, differences from x = ∞ are summed as series in 1/x
_LEAST = 1e-250  # what a positive α is taken for where it is smaller: ln(U)/α must stay finite

# ψ(1+x) + γ = Σ_k (−1)^(k+1) ζ(k+1) x^k and (1+x) ψ'(1+x) − ζ(2) = Σ_k (−1)^k ((k+1) ζ(k+2) − k ζ(k+1)) x^k, k ≥ 1
_RISE = [(-1.0) ** (k + 1) * _ZETA[k + 1] for k in range(1, 12)]
_FALL = [(-1.0) ** k * ((k + 1) * _ZETA[k + 2] - k * _ZETA[k + 1]) for k in range(1, 12)]
# Of ψ(x+1) − ln x and of x ψ'(x) − 1, in 1/x and then in 1/x².
_REST = (1 / 2, (-1 / 12, 1 / 120, -1 / 252, 1 / 240, -1 / 132))
_EXCESS = (1 / 2, (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66))


def dirichlet_expected_entropy(mean_N_C: Tensor, concentration_N: Tensor) -> Tensor:
    """E[H(p)] of p ~ Dir(a0 m), one value per point in float64: from 0 (a0 → 0) up to H(m) (a0 → ∞).

    docs/theory/dirichlet-ensembles.md, 2.

    >>> dirichlet_expected_entropy(torch.tensor([[0.5, 0.5]]), torch.tensor([2.0]))
    tensor([0.5000], dtype=torch.float64)
    """
    return per_point(expected_entropy, mean_N_C, concentration_N)


def dirichlet_mutual_information(mean_N_C: Tensor, concentration_N: Tensor) -> Tensor:
    """I[Y; p] = H(m) − E[H(p)] of p ~ Dir(a0 m), one value per point in float64; about (C−1)/(2 a0) for large a0.

    docs/theory/dirichlet-ensembles.md, 2.

    >>> dirichlet_mutual_information(torch.tensor([[0.5, 0.5]]), torch.tensor([2.0]))
    tensor([0.1931], dtype=torch.float64)
    """
    return per_point(mutual_information, mean_N_C, concentration_N)


def dirichlet_entropy_variance(mean_N_C: Tensor, concentration_N: Tensor) -> Tensor:
    """Var[H(p)] of p ~ Dir(a0 m), one value per point in float64: how far the entropies of members lie apart.

    docs/theory/dirichlet-ensembles.md, 4.

    >>> dirichlet_entropy_variance(torch.tensor([[0.5, 0.5]]), torch.tensor([2.0]))
    tensor([0.0350], dtype=torch.float64)
    """
    return per_point(entropy_variance, mean_N_C, concentration_N)


def dirichlet_log_mean(alpha_N_C: Tensor, i: Amount, n: int = 1, j: Amount | None = None, m: int = 0) -> Tensor:
    """E[p_i^n p_j^m ln p_i] for i ≠ j, one value per row of concentrations α, in float64.

    docs/theory/dirichlet-ensembles.md, 3.

    >>> dirichlet_log_mean(torch.tensor([[1.0, 1.0]]), 0)
    tensor([-0.2500], dtype=torch.float64)
    """
    alpha_N_C = _checked_alpha(alpha_N_C)
    if (j is None and m != 0) or i == j:
        raise ValueError(f"j: expected another class than i = {i} where m is {m}, found {j}; raise n instead")
    total_N = alpha_N_C.sum(-1)
    alpha_N, other_N = alpha_N_C[..., i], alpha_N_C[..., i if j is None else j]
    share_N = _rising(alpha_N, n) * _rising(other_N, m) / _rising(total_N, n + m)
    return share_N * (torch.digamma(alpha_N + n) - torch.digamma(total_N + n + m))


def dirichlet_log_covariance(alpha_N_C: Tensor, i: Amount, n: int, j: Amount, m: int) -> Tensor:
    """Cov[p_i^n ln p_i, p_j^m ln p_j], one value per row of concentrations α, in float64; i and j may be the same.

    With n = m = 1, the sum over all i and j is Var[H(p)].  docs/theory/dirichlet-ensembles.md, 3.

    >>> dirichlet_log_covariance(torch.tensor([[1.0, 1.0, 1.0]]), 0, 2, 1, 3)
    tensor([-0.0011], dtype=torch.float64)
    """
    alpha_N_C = _checked_alpha(alpha_N_C)
    total_N, one_N, two_N = alpha_N_C.sum(-1), alpha_N_C[..., i], alpha_N_C[..., j]
    psi, psi1 = torch.digamma, trigamma
    after_N = psi(total_N + n + m)
    if i == j:
        share_N = _rising(one_N, n + m) / _rising(total_N, n + m)
        both_N = (psi(one_N + n + m) - after_N).square() + psi1(one_N + n + m) - psi1(total_N + n + m)
    else:
        share_N = _rising(one_N, n) * _rising(two_N, m) / _rising(total_N, n + m)
        both_N = (psi(one_N + n) - after_N) * (psi(two_N + m) - after_N) - psi1(total_N + n + m)
    return share_N * both_N - dirichlet_log_mean(alpha_N_C, i, n) * dirichlet_log_mean(alpha_N_C, j, m)


def dirichlet_samples(mean_N_C: Tensor, concentration_N: Tensor, n_draws: int, generator: torch.Generator) -> Tensor:
    """ln p of draws p ~ Dir(a0 m), as log_probs_N_K_C in float64; independent from point to point.

        ln G(α) = ln G(α+1) + ln(U)/α                   gamma variables in log space: α may be 1e-200

    docs/theory/dirichlet-ensembles.md, 7.

    >>> dirichlet_samples(torch.tensor([[0.5, 0.5]]), torch.tensor([1e-9]), 3, torch.Generator()).exp().amax(-1)
    tensor([[1., 1., 1.]], dtype=torch.float64)
    """
    parts = [part_n_K_C for _, part_n_K_C in sample_chunks(mean_N_C, concentration_N, n_draws, generator)]
    return torch.cat(parts) if len(parts) != 1 else parts[0]


def sample_chunks(
    mean_N_C: Tensor, concentration_N: Tensor, n_draws: int, generator: torch.Generator
) -> Iterator[tuple[slice, Tensor]]:
    """The same draws a chunk of points after the other, each with its slice. Chunks of any size draw the same
    numbers.

    >>> [part for part, _ in sample_chunks(torch.ones(3, 1), torch.ones(3), 2, torch.Generator())]
    [slice(0, 3, None)]
    """
    mean_N_C, concentration_N = checked(mean_N_C, concentration_N)
    if not isinstance(n_draws, int) or n_draws < 1:
        raise ValueError(f"n_draws: expected at least 1, found {n_draws!r}; pass how many members to draw")
    # Two streams, so that chunks of other sizes draw the same numbers.
    seeds = torch.randint(1 << 62, (2,), generator=generator).tolist()
    gammas, uniforms = (torch.Generator().manual_seed(seed) for seed in seeds)
    (count, classes), device = mean_N_C.shape, mean_N_C.device
    rows = rows_per_chunk(96 * n_draws * classes, device)
    for start in range(0, max(count, 1), rows):
        part = slice(start, min(start + rows, count))
        alpha_n_C = normalised_means(mean_N_C[part]).cpu() * concentration_N[part].double().cpu()[:, None]
        alpha_n_K_C = alpha_n_C[:, None].expand(-1, n_draws, -1)
        log_n_K_C = torch._standard_gamma(alpha_n_K_C + 1, generator=gammas).log_()
        unit_n_K_C = torch.rand(log_n_K_C.shape, generator=uniforms, dtype=torch.float64)
        log_n_K_C += (-unit_n_K_C).log1p() / alpha_n_K_C.clamp_min(_LEAST)
        yield part, log_n_K_C.masked_fill_(alpha_n_K_C == 0, -math.inf).log_softmax(-1).to(device)


# The same of a chunk of points, whose means sum to one in float64.


def expected_entropy(mean_n_C: Tensor, concentration_n: Tensor) -> Tensor:
    """Σ_c m_c (ψ(a0+1) − ψ(α_c+1)): no term is negative.

    >>> expected_entropy(torch.eye(2, dtype=torch.float64)[:1], torch.tensor([3.0], dtype=torch.float64))
    tensor([0.], dtype=torch.float64)
    """
    rise_n_C = _digamma_rise(mean_n_C * concentration_n[:, None])
    return (mean_n_C * (_digamma_rise(concentration_n)[:, None] - rise_n_C)).sum(-1).clamp_min(0)


def mutual_information(mean_n_C: Tensor, concentration_n: Tensor) -> Tensor:
    """Σ_c m_c (r(α_c) − r(a0)): no term is negative.

    >>> mutual_information(torch.eye(2, dtype=torch.float64)[:1], torch.tensor([3.0], dtype=torch.float64))
    tensor([0.], dtype=torch.float64)
    """
    rest_n_C = _digamma_rest(mean_n_C * concentration_n[:, None])
    return (mean_n_C * (rest_n_C - _digamma_rest(concentration_n)[:, None])).sum(-1).clamp_min(0)


def entropy_variance(mean_n_C: Tensor, concentration_n: Tensor, rough: bool = False) -> Tensor:
    """The form without cancellation: a variance under m, and a sum of terms that are not negative, over a0 + 1.

    `rough` takes a tenth of the time for ψ', and is right to about 1e-8.

    >>> entropy_variance(torch.eye(2, dtype=torch.float64)[:1], torch.tensor([3.0], dtype=torch.float64))
    tensor([0.], dtype=torch.float64)
    """
    alpha_n_C = mean_n_C * concentration_n[:, None]
    rise_n_C = _digamma_rise(alpha_n_C)
    # Measured from the likeliest class, so that it is exactly 0 where all α are the same.
    apart_n_C = rise_n_C - rise_n_C.gather(-1, mean_n_C.argmax(-1, keepdim=True))
    apart_n_C = apart_n_C - (mean_n_C * apart_n_C).sum(-1, keepdim=True)
    near_n = concentration_n < _SMALL
    own_n_C = _trigamma_excess(alpha_n_C, near_n[:, None], rough)
    excess_n_C = own_n_C - _trigamma_excess(concentration_n, near_n, rough)[:, None]
    spread_n = (mean_n_C * (apart_n_C.square() + excess_n_C)).sum(-1)
    return (spread_n / (concentration_n + 1)).clamp_min(0)


def trigamma(x: Tensor) -> Tensor:
    """ψ'(x) to the last bit: torch.polygamma(1, x) is right to 5e-10 only.

    >>> trigamma(torch.tensor([1.0], dtype=torch.float64))  # π²/6
    tensor([1.6449], dtype=torch.float64)
    """
    found: Tensor = torch.special.zeta(_TWO.to(x.device), x)
    return found


def per_point(
    work: Callable[[Tensor, Tensor], Tensor], mean_N_C: Tensor, concentration_N: Tensor, tables: int = 10
) -> Tensor:
    """`work` on chunks of normalised means and concentrations in float64; `tables` of C numbers are alive per point.

    >>> per_point(lambda mean_n_C, a_n: a_n, torch.ones(2, 1), torch.tensor([1.0, 2.0]))
    tensor([1., 2.], dtype=torch.float64)
    """
    mean_N_C, concentration_N = checked(mean_N_C, concentration_N)
    return chunked(
        lambda part: work(normalised_means(mean_N_C[part]), concentration_N[part].double()),
        len(mean_N_C),
        8 * tables * mean_N_C.shape[1],
        mean_N_C.device,
    )


def checked(mean_N_C: Tensor, concentration_N: Tensor) -> tuple[Tensor, Tensor]:
    """Both as they are, after a look at shapes and signs.

    >>> len(checked(torch.ones(2, 1), torch.tensor([1.0, 2.0])))
    2
    """
    mean_N_C = torch.as_tensor(mean_N_C)
    concentration_N = torch.as_tensor(concentration_N, device=mean_N_C.device)
    if mean_N_C.ndim != 2 or mean_N_C.shape[1] == 0 or not mean_N_C.is_floating_point():
        found = f"{mean_N_C.dtype} of shape {tuple(mean_N_C.shape)}"
        raise ValueError(f"mean_N_C: expected probabilities, points x classes, found {found}; pass N x C floats")
    if concentration_N.shape != mean_N_C.shape[:1]:
        shape, count = tuple(concentration_N.shape), len(mean_N_C)
        raise ValueError(f"concentration_N: expected one for each of {count} points, found shape {shape}; pass N")
    if len(mean_N_C) and not bool((mean_N_C >= 0).all() & mean_N_C.isfinite().all() & (mean_N_C.sum(-1) > 0).all()):
        raise ValueError("mean_N_C: found a negative number, NaN or a row of zeros; pass probabilities, not their logs")
    if len(mean_N_C) and not bool((concentration_N > 0).all() & concentration_N.isfinite().all()):
        raise ValueError("concentration_N: expected positive finite numbers, found others; cap them at 1e-10 and 1e9")
    return mean_N_C, concentration_N


def normalised_means(mean_n_C: Tensor) -> Tensor:
    """In float64, rows summing to one.

    >>> normalised_means(torch.ones(1, 2))
    tensor([[0.5000, 0.5000]], dtype=torch.float64)
    """
    mean_n_C = mean_n_C.double()
    return mean_n_C / mean_n_C.sum(-1, keepdim=True)


def _digamma_rise(x: Tensor) -> Tensor:
    """ψ(1+x) + γ, which is 0 at x = 0, with all its digits for tiny x."""
    return torch.where(x < _SMALL, _polynomial(_RISE, x) * x, torch.digamma(1 + x) + _GAMMA)


def _digamma_rest(x: Tensor) -> Tensor:
    """r(x) = ψ(x+1) − ln x, which falls to 0 for large x, with all its digits there; finite at x = 0."""
    x = x.clamp_min(torch.finfo(torch.float64).tiny)
    return torch.where(x > _LARGE, _in_inverse(_REST, x), torch.digamma(1 + x) - x.log())


def _trigamma_excess(x: Tensor, near: Tensor, rough: bool) -> Tensor:
    """g(1+x) − ζ(2) where near, else g(1+x) − 1: what is left of g(x) = x ψ'(x) at either end, with all its digits."""
    after = 1 + x
    psi1 = torch.polygamma(1, after) if rough else trigamma(after)
    far = torch.where(x > _LARGE, _in_inverse(_EXCESS, after), after * psi1 - 1)
    return torch.where(near, _polynomial(_FALL, x) * x, far)


def _polynomial(coefficients: list[float], x: Tensor) -> Tensor:
    x = x.clamp_max(_SMALL)
    total = torch.zeros_like(x)
    for coefficient in reversed(coefficients):
        total = total * x + coefficient
    return total


def _in_inverse(series: tuple[float, tuple[float, ...]], x: Tensor) -> Tensor:
    """first/x + Σ_k c_k / x^(2k)."""
    first, others = series
    x = x.clamp_min(_LARGE)
    square = x.square().reciprocal()
    total = torch.zeros_like(x)
    for coefficient in reversed(others):
        total = (total + coefficient) * square
    return first / x + total


def _rising(x: Tensor, n: int) -> Tensor:
    """x (x+1) … (x+n−1)."""
    if not isinstance(n, int) or n < 0:
        raise ValueError(f"n, m: expected whole numbers from 0 on, found {n!r}; they are powers of probabilities")
    found = torch.ones_like(x)
    for step in range(n):
        found = found * (x + step)
    return found


def _checked_alpha(alpha_N_C: Tensor) -> Tensor:
    alpha_N_C = torch.as_tensor(alpha_N_C).double()
    if alpha_N_C.ndim == 0 or not bool((alpha_N_C > 0).all() & alpha_N_C.isfinite().all()):
        found = f"shape {tuple(alpha_N_C.shape)}"
        raise ValueError(
            f"alpha_N_C: expected positive finite concentrations of classes, found others ({found}); pass a row each"
        )
    return alpha_N_C
