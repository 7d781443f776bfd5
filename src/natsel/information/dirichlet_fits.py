"""The concentration a0 of a Dirichlet with a given mean, from what members of an ensemble say.

    mutual information    E_Dir[H](m, a0) = H(m) − I[Y;Ω]      one root: E[H] rises strictly with a0, from 0 to H(m)
    variance              a0 = (1 − Σ m²) / Σ_c Var_k p_kc − 1  in closed form, with the population variance over k
    entropy variance      Var_Dir[H](m, a0) = Var_k H(p_k)      two roots, one or none: it rises and then falls with a0
    likelihood            ψ(α_c) − ψ(a0) = mean_k ln p_kc       the mean is fitted too (Minka 2000)

The first is solved by Newton's method in ln a0, kept inside a bracket. A concentration lies in [1e-10, 1e9]; a flag
says for each point whether it is a root (OK) or why there is none, as a position in FLAGS.
docs/theory/dirichlet-ensembles.md, 5 and 6; Kirsch 2024.
"""

import math

import torch
from torch import Tensor

from natsel.information.dirichlet import (
    checked,
    entropy_variance,
    expected_entropy,
    mutual_information,
    normalised_means,
    trigamma,
)
from natsel.information.linear_information import chance_of_unequal
from natsel.memory import chunked

FLAGS = ("ok", "point mass", "one-hot", "certain", "out of reach")
"""A root; all members agree; every member is sure of one class; the mean is; no a0 has such a value."""
OK, POINT_MASS, ONE_HOT, CERTAIN, OUT_OF_REACH = range(5)

SMALLEST, LARGEST = 1e-10, 1e9
"""The concentrations that stand for 0 and for infinity."""

_NO_ENTROPY = 1e-12  # a mean below this is certain: every a0 says the same
_STEPS = 100
_SETTLED = 1e-14  # of ln a0
_PER_DECADE = 4  # of the grid on which roots of the entropy variance are looked for


def dirichlet_concentration(
    mean_N_C: Tensor, mutual_information_N: Tensor, expected_entropy_N: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """(a0_N, flag_N): the Dirichlet with this mean that has this mutual information between label and member.

    `expected_entropy_N` is H(m) less the mutual information; where it is known by itself, passing it saves digits for
    members that are nearly one-hot.  docs/theory/dirichlet-ensembles.md, 5.

    >>> a0_N, flag_N = dirichlet_concentration(torch.tensor([[0.5, 0.5]]), torch.tensor([math.log(2) - 0.5]))
    >>> a0_N.round(decimals=4), flag_N
    (tensor([2.], dtype=torch.float64), tensor([0]))
    """
    mean_N_C, information_N = _checked(mean_N_C, mutual_information_N, "mutual_information_N")
    noise_N = None
    if expected_entropy_N is not None:
        _, noise_N = _checked(mean_N_C, expected_entropy_N, "expected_entropy_N")

    def work(part: slice) -> Tensor:
        mean_n_C = normalised_means(mean_N_C[part])
        entropy_n = torch.special.entr(mean_n_C).sum(-1)
        information_n = information_N[part].minimum(entropy_n)
        noise_n = entropy_n - information_n if noise_N is None else noise_N[part]
        return _by_information(mean_n_C, entropy_n, information_n, noise_n)

    found_N_2 = chunked(work, len(mean_N_C), 160 * mean_N_C.shape[1], mean_N_C.device)
    return found_N_2[:, 0], found_N_2[:, 1].long()


def dirichlet_concentration_by_variance(mean_N_C: Tensor, variance_N: Tensor) -> tuple[Tensor, Tensor]:
    """(a0_N, flag_N): the Dirichlet with this mean and this sum over classes of the variances of p_c.

    `variance_N` is the population variance: an unbiased one can ask for a0 < 0.  docs/theory/dirichlet-ensembles.md, 6.

    >>> dirichlet_concentration_by_variance(torch.tensor([[0.5, 0.5]]), torch.tensor([1 / 6]))[0]
    tensor([2.0000], dtype=torch.float64)
    """
    mean_N_C, variance_N = _checked(mean_N_C, variance_N, "variance_N")
    mean_N_C = normalised_means(mean_N_C)
    entropy_N = torch.special.entr(mean_N_C).sum(-1)
    value_N = chance_of_unequal(mean_N_C) / variance_N - 1
    flag_N = torch.where(value_N >= LARGEST, POINT_MASS, torch.where(value_N <= SMALLEST, ONE_HOT, OK))
    certain_N = entropy_N <= _NO_ENTROPY
    value_N = torch.where(certain_N, LARGEST, value_N.clamp(SMALLEST, LARGEST))
    return value_N, flag_N.masked_fill(certain_N, CERTAIN)


def dirichlet_concentration_by_entropy_variance(
    mean_N_C: Tensor, entropy_variance_N: Tensor, near_N: Tensor
) -> tuple[Tensor, Tensor]:
    """(a0_N, flag_N): the Dirichlet with this mean whose draws' entropies have this variance.

    The variance rises and falls with a0, so that there may be two: the one is taken that is nearest to `near_N` in
    ln a0, such as the concentration by mutual information. Where the variance is larger than that of any such
    Dirichlet, a0 is where it is largest, and the flag says OUT_OF_REACH.  docs/theory/dirichlet-ensembles.md, 6.

    >>> mean_N_C, variance_N = torch.tensor([[0.5, 0.5]]), torch.tensor([0.035022])
    >>> dirichlet_concentration_by_entropy_variance(mean_N_C, variance_N, torch.tensor([3.0]))[0].round(decimals=4)
    tensor([2.], dtype=torch.float64)
    """
    mean_N_C, variance_N = _checked(mean_N_C, entropy_variance_N, "entropy_variance_N")
    mean_N_C, near_N = checked(mean_N_C, near_N)

    def work(part: slice) -> Tensor:
        return _by_entropy_variance(normalised_means(mean_N_C[part]), variance_N[part], near_N[part].double())

    found_N_2 = chunked(work, len(mean_N_C), 160 * mean_N_C.shape[1] + 4000, mean_N_C.device)
    return found_N_2[:, 0], found_N_2[:, 1].long()


def dirichlet_maximum_likelihood(mean_log_probs_N_C: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(mean_N_C, a0_N, flag_N): the likeliest Dirichlet of members whose logs have these means over the members.

    −inf is a class that no member allows. A class that only some members allow has no likelihood: take another fit.
    Newton's method of Minka, or his fixed point where that leads further.  docs/theory/dirichlet-ensembles.md, 6.

    >>> mean_N_C, a0_N, _ = dirichlet_maximum_likelihood(torch.tensor([[-1.0, -1.0]]))
    >>> mean_N_C, a0_N.round(decimals=4)
    (tensor([[0.5000, 0.5000]], dtype=torch.float64), tensor([2.], dtype=torch.float64))
    """
    log_N_C = torch.as_tensor(mean_log_probs_N_C).double()
    if log_N_C.ndim != 2 or log_N_C.shape[1] == 0:
        found = tuple(log_N_C.shape)
        raise ValueError(f"mean_log_probs_N_C: expected points x classes, found shape {found}; pass one row per point")
    if bool((log_N_C.isnan() | (log_N_C > 0)).any() | log_N_C.isneginf().all(-1).any()):
        raise ValueError(
            "mean_log_probs_N_C: found NaN, a number above 0 or a row of -inf; pass means of log probabilities"
        )
    alpha_N_C = chunked(lambda part: _likeliest(log_N_C[part]), len(log_N_C), 240 * log_N_C.shape[1], log_N_C.device)
    total_N = alpha_N_C.sum(-1)
    # A sum of shares of LARGEST may miss it by rounding.
    flag_N = torch.where(total_N >= LARGEST * (1 - 1e-12), POINT_MASS, torch.where(total_N <= SMALLEST, ONE_HOT, OK))
    flag_N = flag_N.masked_fill((alpha_N_C > 0).sum(-1) == 1, CERTAIN)
    return alpha_N_C / total_N[:, None], total_N.clamp(SMALLEST, LARGEST), flag_N


def _by_information(mean_n_C: Tensor, entropy_n: Tensor, information_n: Tensor, noise_n: Tensor) -> Tensor:
    """(a0, flag) as columns; the smaller of information and expected entropy is matched, since it has more digits."""
    low_n, high_n = (torch.full_like(entropy_n, bound) for bound in (SMALLEST, LARGEST))
    flag_n = torch.zeros_like(entropy_n)
    flag_n = flag_n.masked_fill(information_n <= mutual_information(mean_n_C, high_n), POINT_MASS)
    flag_n = flag_n.masked_fill(noise_n <= expected_entropy(mean_n_C, low_n), ONE_HOT)
    flag_n = flag_n.masked_fill(entropy_n <= _NO_ENTROPY, CERTAIN)
    found_n = torch.where(flag_n == ONE_HOT, low_n, high_n)
    rows_r = (flag_n == OK).nonzero().squeeze(1)
    if len(rows_r):
        mean_r_C, information_r, noise_r = mean_n_C[rows_r], information_n[rows_r], noise_n[rows_r]
        found_n = found_n.index_put((rows_r,), _root(mean_r_C, information_r, noise_r))
    return torch.stack([found_n, flag_n], -1)


def _root(mean_r_C: Tensor, information_r: Tensor, noise_r: Tensor) -> Tensor:
    """Newton in t = ln a0 for ln E_Dir[H] = ln noise, or for ln I_Dir = ln information where that is smaller."""
    by_information_r = information_r < noise_r
    low_r, high_r = (torch.full_like(noise_r, math.log(bound)) for bound in (SMALLEST, LARGEST))
    possible_r = (mean_r_C > 0).sum(-1)
    many_r, few_r = (possible_r - 1) / (2 * information_r), noise_r / (math.pi**2 / 6 * chance_of_unequal(mean_r_C))
    t_r = torch.where(by_information_r, many_r, few_r).log().clamp(low_r, high_r)
    for _ in range(_STEPS):
        a_r = t_r.exp()
        now_r = torch.where(by_information_r, mutual_information(mean_r_C, a_r), expected_entropy(mean_r_C, a_r))
        excess_r = torch.where(by_information_r, (information_r / now_r).log(), (now_r / noise_r).log())
        slope_r = a_r * _slope(mean_r_C, a_r) / now_r
        high_r, low_r = torch.where(excess_r > 0, t_r, high_r), torch.where(excess_r > 0, low_r, t_r)
        newton_r = t_r - excess_r / slope_r
        inside_r = (newton_r >= low_r) & (newton_r <= high_r)
        next_r = torch.where(inside_r, newton_r, (low_r + high_r) / 2)
        settled = bool(((next_r - t_r).abs() <= _SETTLED * (1 + t_r.abs())).all())
        t_r = next_r
        if settled:
            break
    return t_r.exp()


def _slope(mean_r_C: Tensor, a_r: Tensor) -> Tensor:
    """dE[H]/da0 = ψ'(a0+1) − Σ m² ψ'(α+1), as closely as Newton's method needs it."""
    own_r_C = mean_r_C.square() * torch.polygamma(1, mean_r_C * a_r[:, None] + 1)
    return (torch.polygamma(1, a_r + 1) - own_r_C.sum(-1)).clamp_min(torch.finfo(torch.float64).tiny)


def _by_entropy_variance(mean_n_C: Tensor, variance_n: Tensor, near_n: Tensor) -> Tensor:
    """(a0, flag) as columns: brackets on a grid of ln a0, and in the nearest of them a root."""
    ends = math.log(SMALLEST), math.log(LARGEST)
    steps = round(math.log10(LARGEST / SMALLEST)) * _PER_DECADE
    grid_G = torch.linspace(*ends, steps + 1, dtype=torch.float64, device=mean_n_C.device)
    columns = [entropy_variance(mean_n_C, t.exp().expand(len(mean_n_C)), rough=True) for t in grid_G]
    t_n_G, value_n_G = grid_G.expand(len(mean_n_C), -1), torch.stack(columns, -1)
    peak_n_1 = value_n_G.argmax(-1, keepdim=True)
    top_n = _vertex(value_n_G, peak_n_1.clamp(1, steps - 1))[:, 0] * (grid_G[1] - grid_G[0]) + grid_G[0]
    t_n_G = t_n_G.scatter(-1, peak_n_1, top_n[:, None])
    excess_n_G = value_n_G.scatter(-1, peak_n_1, entropy_variance(mean_n_C, top_n.exp())[:, None]) - variance_n[:, None]

    near_n = near_n.log().clamp(*ends)
    crosses_n_B = (excess_n_G[:, 1:] > 0) != (excess_n_G[:, :-1] > 0)
    below_n_B, beyond_n_B = t_n_G[:, :-1] - near_n[:, None], near_n[:, None] - t_n_G[:, 1:]
    apart_n_B = below_n_B.maximum(beyond_n_B).clamp_min(0).masked_fill(~crosses_n_B, math.inf)
    at_n_1 = apart_n_B.argmin(-1, keepdim=True)
    none_n = ~crosses_n_B.any(-1)
    rows_r = (~none_n).nonzero().squeeze(1)
    low_r, high_r = (t_n_G.gather(-1, at_n_1 + end)[rows_r, 0] for end in (0, 1))
    found_n = top_n.index_put((rows_r,), _crossing(mean_n_C[rows_r], variance_n[rows_r], low_r, high_r)).exp()
    flag_n = torch.zeros_like(variance_n).masked_fill(none_n, OUT_OF_REACH)
    # Below what even the ends of the grid have: all members have one entropy.
    flat_n, agree_n = none_n & (excess_n_G.amax(-1) > 0), near_n >= top_n
    found_n = torch.where(flat_n, grid_G[-agree_n.long()].exp(), found_n)
    flag_n = flag_n.masked_fill(flat_n & agree_n, POINT_MASS).masked_fill(flat_n & ~agree_n, ONE_HOT)
    certain_n = torch.special.entr(mean_n_C).sum(-1) <= _NO_ENTROPY
    found_n, flag_n = found_n.masked_fill(certain_n, LARGEST), flag_n.masked_fill(certain_n, CERTAIN)
    return torch.stack([found_n, flag_n], -1)


def _vertex(value_n_G: Tensor, at_n_1: Tensor) -> Tensor:
    """Where a parabola through a value and its two neighbours is largest, in steps of the grid."""
    before_n_1, value_n_1, after_n_1 = (value_n_G.gather(-1, at_n_1 + step) for step in (-1, 0, 1))
    bend_n_1 = before_n_1 - 2 * value_n_1 + after_n_1
    shift_n_1 = torch.where(bend_n_1 < 0, (before_n_1 - after_n_1) / (2 * bend_n_1), 0.0)
    return at_n_1 + shift_n_1.clamp(-0.9, 0.9)


def _crossing(mean_n_C: Tensor, variance_n: Tensor, low_n: Tensor, high_n: Tensor) -> Tensor:
    """ln a0 between two at which Var[H] lies on both sides of a value: false position, the Illinois way."""
    found_n, rows_r = high_n.clone(), torch.arange(len(high_n), device=high_n.device)
    old_n, new_n = low_n, high_n
    old_y_n, new_y_n = (entropy_variance(mean_n_C, t_n.exp()) - variance_n for t_n in (old_n, new_n))
    for _ in range(_STEPS):
        t_n = (old_n * new_y_n - new_n * old_y_n) / (new_y_n - old_y_n)
        t_n = torch.where(t_n.isfinite(), t_n, (old_n + new_n) / 2)
        y_n = entropy_variance(mean_n_C, t_n.exp()) - variance_n
        found_n[rows_r] = t_n
        across_n = (y_n > 0) != (new_y_n > 0)  # else the old end stays, and counts half
        left_n = ((t_n - new_n).abs() > _SETTLED * (1 + t_n.abs())) & (y_n != 0)
        old_n, old_y_n = torch.where(across_n, new_n, old_n), torch.where(across_n, new_y_n, old_y_n / 2)
        if not bool(left_n.any()):
            break
        mean_n_C, variance_n, rows_r = mean_n_C[left_n], variance_n[left_n], rows_r[left_n]
        old_n, old_y_n, new_n, new_y_n = (each[left_n] for each in (old_n, old_y_n, t_n, y_n))
    return found_n


def _likeliest(log_n_C: Tensor) -> Tensor:
    """α of the likeliest Dirichlets; classes of −inf have none."""
    possible_n_C = log_n_C > -math.inf
    aim_n_C = log_n_C.masked_fill(~possible_n_C, 0.0)
    # Members that all agree have means of logs whose exponentials sum to one: the concentration is then infinite.
    short_n = -torch.expm1(log_n_C.logsumexp(-1))
    classes_n = possible_n_C.sum(-1)
    start_n = ((classes_n - 1) / (2 * short_n.clamp_min(1e-300))).clamp(1e-3, LARGEST)
    alpha_n_C = log_n_C.softmax(-1) * start_n[:, None]
    rows_r = torch.arange(len(log_n_C), device=log_n_C.device)
    for _ in range(4 * _STEPS):
        before_r_C = alpha_n_C[rows_r]
        after_r_C = _likelier(before_r_C, aim_n_C[rows_r], possible_n_C[rows_r])
        alpha_n_C[rows_r] = after_r_C
        moved_r = ((after_r_C - before_r_C).abs() > 1e-12 * before_r_C).any(-1)
        rows_r = rows_r[moved_r & (after_r_C.sum(-1) < LARGEST)]
        if not len(rows_r):
            break
    total_n_1 = alpha_n_C.sum(-1, keepdim=True)
    settled_n_1 = (short_n[:, None] > 1e-15) & (classes_n[:, None] > 1) & (total_n_1 < LARGEST)
    return torch.where(settled_n_1, alpha_n_C, log_n_C.softmax(-1) * LARGEST)


def _likelier(alpha_n_C: Tensor, aim_n_C: Tensor, possible_n_C: Tensor) -> Tensor:
    """The likelier of a step of Newton's method and of Minka's fixed point, which never makes things worse."""
    safe_n_C = torch.where(possible_n_C, alpha_n_C, 1.0)
    total_n_1 = alpha_n_C.sum(-1, keepdim=True)
    gradient_n_C = torch.digamma(total_n_1) - torch.digamma(safe_n_C) + aim_n_C
    inverse_n_C = torch.where(possible_n_C, 1 / trigamma(safe_n_C), 0.0)
    apart_n_1 = 1 / trigamma(total_n_1) - inverse_n_C.sum(-1, keepdim=True)
    shared_n_1 = (gradient_n_C * inverse_n_C).sum(-1, keepdim=True) / apart_n_1
    step_n_C = (gradient_n_C + shared_n_1) * inverse_n_C
    newton_n_C = (alpha_n_C + step_n_C).maximum(alpha_n_C / 10).clamp_max(2 * LARGEST)
    fixed_n_C = torch.where(possible_n_C, _digamma_inverse(torch.digamma(total_n_1) + aim_n_C), 0.0)
    one_n, two_n = (_log_likelihood(each, aim_n_C, possible_n_C) for each in (newton_n_C, fixed_n_C))
    better_n = one_n >= two_n - 1e-12 * (1 + two_n.abs())
    return torch.where(better_n[:, None], newton_n_C, fixed_n_C)


def _log_likelihood(alpha_n_C: Tensor, aim_n_C: Tensor, possible_n_C: Tensor) -> Tensor:
    """ln Γ(a0) − Σ ln Γ(α) + Σ α mean ln p, per member; what is free of α is left out, since it can be huge."""
    terms_n_C = alpha_n_C * aim_n_C - torch.where(possible_n_C, alpha_n_C, 1.0).lgamma()
    return alpha_n_C.sum(-1).lgamma() + terms_n_C.where(possible_n_C, 0.0).sum(-1)


def _digamma_inverse(value: Tensor) -> Tensor:
    """x with ψ(x) = value, by Newton's method from Minka's start."""
    x = torch.where(value >= -2.22, value.clamp_max(40).exp() + 0.5, -1 / (value + 0.57721566490153286061))
    for _ in range(6):
        x = (x - (torch.digamma(x) - value) / torch.polygamma(1, x)).clamp_min(1e-300)
    return x


def _checked(mean_N_C: Tensor, values_N: Tensor, name: str) -> tuple[Tensor, Tensor]:
    mean_N_C, _ = checked(mean_N_C, torch.ones(len(mean_N_C)))
    values_N = torch.as_tensor(values_N, device=mean_N_C.device).double()
    if values_N.shape != mean_N_C.shape[:1]:
        found = tuple(values_N.shape)
        raise ValueError(
            f"{name}: expected one for each of {len(mean_N_C)} points, found shape {found}; pass N numbers"
        )
    if not bool(((values_N >= -1e-6) & values_N.isfinite()).all()):  # rounding of float32 may leave −1e-7
        raise ValueError(f"{name}: expected numbers from 0 on, found negative ones, NaN or infinity; pass nats")
    return mean_N_C, values_N.clamp_min(0)
