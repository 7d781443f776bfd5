"""What a label tells about other labels: predictive information between candidates and targets, from shared draws.

    I[Y;Y*|x,x*] = Σ_{y,y*} Q φ(r),      Q = p̄(y) p̄(y*),   r = Σ_k w_k (p_k(y)/p̄(y) − 1) (p_k(y*)/p̄(y*) − 1)
    φ(r)         = (1+r) ln(1+r) − r ≥ 0
    EPIG(x)      = Σ_j v_j I[Y;Y*_j|x,x*_j]                                 the mean over targets

Given the draws this is exact. All r of a block are one matrix product, every term is non-negative, and nothing large
cancels: values of 1e-20 nats keep their digits, where the difference of three entropies has none left.

    EPIG ≈ ½ Σ_y p̄(y) a_yᵀ G a_y,   a_y = √w_k (p_k(y)/p̄(y) − 1),   G = Σ_j v_j Σ_y* p̄(y*) b b ᵀ        epig_chi2

To second order in r the targets enter through one K×K matrix, so that the cost does not depend on how many there are;
EPIG never exceeds twice that, because φ(r) ≤ r².
docs/theory/epig-jepig.md, 3 to 5; Bickford Smith et al. 2023.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from natsel.information.entropies import widened
from natsel.information.mutual import normalised_log_weights
from natsel.information.phi import phi, phi_of_ratio
from natsel.memory import chunked, memory_budget, rows_per_chunk

# s ln s − (s − 1) is off by eps·|r|, at random: in float32 about 1e-6 of the whole from so many nats on, or from this
# share of a nat over the number of pairs of labels, if that is more.
_PLENTY, _PLENTY_SHARED = 1e-5, 0.2
_NEVER = 1e-18  # a ratio that stands for 0: small beside any other, and its square is still a number in float32
# Columns of a block: label–target pairs beside each other. Blocks of a megabyte or two stay in the caches.
_COLUMNS = 2048


@dataclass(frozen=True)
class Deviations:
    """What draws say about some points, relative to their mean: a = √w (p/p̄ − 1) as [K, n·C], and p̄ as [n, C]."""

    a_K_nC: Tensor
    mean_n_C: Tensor


def deviations(log_probs_n_K_C: Tensor, weights_K: Tensor) -> Deviations:
    """Deviations of the draws, centred twice, so that even draws that hardly differ keep their digits.

    >>> deviations(torch.tensor([[[0.2, 0.8], [0.6, 0.4]]]).log(), torch.tensor([0.5, 0.5])).mean_n_C
    tensor([[0.4000, 0.6000]])
    """
    # Draws first, in memory of their own: every step from here on runs along rows, in place.
    a_K_nC = log_probs_n_K_C.exp().transpose(0, 1).clone(memory_format=torch.contiguous_format).flatten(1)
    mean_nC = weights_K @ a_K_nC
    a_K_nC -= mean_nC
    a_K_nC -= weights_K @ a_K_nC
    # The weight first: what a draw of weight 0 says must count nothing even where p/p̄ overflows.
    a_K_nC *= weights_K.sqrt()[:, None]
    a_K_nC /= torch.where(mean_nC > 0, mean_nC, torch.inf)  # a class nobody believes in deviates by 0
    return Deviations(a_K_nC, mean_nC.view(-1, log_probs_n_K_C.shape[2]))


class TargetDeviations:
    """Targets as the information about them needs them; M weights v_j (None: all alike) that need not sum to one."""

    def __init__(
        self, log_probs_M_K_C: Tensor, log_weights_K: Tensor | None = None, target_weights_M: Tensor | None = None
    ) -> None:
        if log_probs_M_K_C.shape[0] == 0:
            raise ValueError("targets: found none, and without them nothing says what is worth learning; pass some")
        self.log_probs_M_K_C = log_probs_M_K_C
        self.weights_K = normalised_log_weights(log_probs_M_K_C, log_weights_K).exp().to(log_probs_M_K_C.dtype)
        self.weights_M = target_weights(target_weights_M, log_probs_M_K_C)

    def parts(self, width: int) -> Iterator[tuple[Deviations, Tensor]]:
        """Targets, `width` at a time, as deviations and weights v_j p̄(y*) of their labels; none of weight 0."""
        (taken_M,) = self.weights_M.nonzero(as_tuple=True)
        for part in torch.split(taken_M, max(1, width)):
            found = deviations(self.log_probs_M_K_C[part], self.weights_K)
            yield found, (found.mean_n_C * self.weights_M[part, None]).flatten()

    @property
    def pairs(self) -> int:
        """How many labels of targets there are."""
        return int(self.weights_M.count_nonzero()) * self.log_probs_M_K_C.shape[2]

    def second_moment(self) -> Tensor:
        """G: all that the targets are to second order, [K, K] in float64."""
        draws, classes = self.log_probs_M_K_C.shape[1:]
        moment_K_K = self.weights_K.new_zeros(draws, draws, dtype=torch.float64)
        each = draws * classes * (4 * self.log_probs_M_K_C.element_size() + 16)
        for found, weights_mC in self.parts(rows_per_chunk(each, self.weights_K.device)):
            a_K_mC = found.a_K_nC.double()
            moment_K_K.addmm_(a_K_mC, a_K_mC.mul(weights_mC).T)
        return moment_K_K

    def factor(self) -> Tensor:
        """F with F Fᵀ = G, [K, rank]: |Fᵀa|² has digits where aᵀGa has cancelled, for a that targets hardly know of."""
        if self.pairs <= len(self.weights_K):
            ((found, weights_mC),) = self.parts(self.pairs)
            return found.a_K_nC * weights_mC.sqrt()
        moment_K_K = self.second_moment()
        if not bool(moment_K_K.isfinite().all()):  # NaN in, NaN out
            return moment_K_K
        value_K, vector_K_K = torch.linalg.eigh(moment_K_K)
        kept_K = value_K > value_K[-1].clamp_min(0) * torch.finfo(torch.float64).eps
        factor_K_R: Tensor = vector_K_K[:, kept_K] * value_K[kept_K].sqrt()
        return factor_K_R


def epig(
    log_probs_N_K_C: Tensor,
    log_probs_M_K_C: Tensor,
    log_weights_K: Tensor | None = None,
    target_weights_M: Tensor | None = None,
) -> Tensor:
    """EPIG of N candidates about M targets from the same K draws: N values in nats, never negative.

    Computed in the type of the candidates and summed in float64.

    >>> pool, target = torch.tensor([[[[0.1, 0.9], [0.8, 0.2], [0.5, 0.5]]], [[[0.2, 0.8], [0.7, 0.3], [0.5, 0.5]]]])
    >>> round(float(epig(pool.double().log(), target.double().log())), 6)
    0.028226
    """
    log_probs_N_K_C, log_probs_M_K_C = shared(log_probs_N_K_C, log_probs_M_K_C)
    targets = TargetDeviations(log_probs_M_K_C, log_weights_K, target_weights_M)
    return over_targets(log_probs_N_K_C, targets, second_order_if_cheap(log_probs_N_K_C, targets))


def epig_chi2(
    log_probs_N_K_C: Tensor,
    log_probs_M_K_C: Tensor,
    log_weights_K: Tensor | None = None,
    target_weights_M: Tensor | None = None,
) -> Tensor:
    """EPIG to second order, at a cost that does not depend on the number of targets: N values.

    >>> pool, target = torch.tensor([[[[0.1, 0.9], [0.8, 0.2], [0.5, 0.5]]], [[[0.2, 0.8], [0.7, 0.3], [0.5, 0.5]]]])
    >>> round(float(epig_chi2(pool.double().log(), target.double().log())), 6)
    0.027991
    """
    log_probs_N_K_C, log_probs_M_K_C = shared(log_probs_N_K_C, log_probs_M_K_C)
    targets = TargetDeviations(log_probs_M_K_C, log_weights_K, target_weights_M)
    return second_order(log_probs_N_K_C, targets.weights_K, targets.factor())


def second_order(log_probs_N_K_C: Tensor, weights_K: Tensor, factor_K_R: Tensor) -> Tensor:
    """½ Σ_y p̄(y) a_yᵀ G a_y of every point, float64; G = F Fᵀ."""
    count, draws, classes = log_probs_N_K_C.shape
    factor_K_R = factor_K_R.to(log_probs_N_K_C.dtype)

    def work(part: slice) -> Tensor:
        found = deviations(log_probs_N_K_C[part], weights_K)
        seen_nC_R = found.a_K_nC.T @ factor_K_R
        forms_nC: Tensor = torch.linalg.vecdot(seen_nC_R, seen_nC_R)
        return (forms_nC.view(-1, classes) * found.mean_n_C).double().sum(1).mul_(0.5)

    width = 5 * draws * classes * log_probs_N_K_C.element_size()
    return chunked(work, count, width, log_probs_N_K_C.device)


def second_order_if_cheap(log_probs_N_K_C: Tensor, targets: TargetDeviations) -> Tensor | None:
    """Second-order values where they cost less than the quick form of φ saves, else None."""
    draws, pairs = log_probs_N_K_C.shape[1], targets.pairs
    if min(draws, pairs) * draws > 64 * pairs:
        return None
    return second_order(log_probs_N_K_C, targets.weights_K, targets.factor())


def pairwise_predictive_information(
    log_probs_N_K_C: Tensor, log_probs_M_K_C: Tensor, log_weights_K: Tensor | None = None
) -> Tensor:
    """I[Y;Y*|x,x*] of every candidate and every target: [N, M] in nats, float64.

    >>> pool, target = torch.tensor([[[[0.1, 0.9], [0.8, 0.2], [0.5, 0.5]]], [[[0.2, 0.8], [0.7, 0.3], [0.5, 0.5]]]])
    >>> pairwise_predictive_information(pool.double().log(), target.double().log()).shape
    torch.Size([1, 1])
    """
    log_probs_N_K_C, log_probs_M_K_C = shared(log_probs_N_K_C, log_probs_M_K_C)
    targets = TargetDeviations(log_probs_M_K_C, log_weights_K)
    count, _, classes = log_probs_M_K_C.shape
    pairs_N_M = torch.empty(len(log_probs_N_K_C), count, dtype=torch.float64, device=log_probs_N_K_C.device)
    step = max(1, _COLUMNS // classes)
    (whole,) = targets.parts(count)

    def work(part: slice) -> Tensor:
        found = deviations(log_probs_N_K_C[part], targets.weights_K)
        for start in range(0, count, step):
            width = min(step, count - start)
            columns = slice(start * classes, (start + width) * classes)
            phi_nC_mC = phi(found.a_K_nC.T @ whole[0].a_K_nC[:, columns])
            phi_nC_mC.mul_(found.mean_n_C.flatten()[:, None]).mul_(whole[0].mean_n_C.flatten()[columns])
            blocks = phi_nC_mC.double().view(*found.mean_n_C.shape, width, classes)
            pairs_N_M[part, start : start + step] = blocks.sum((1, 3))
        return pairs_N_M[part, :0]

    each = log_probs_N_K_C.element_size() * log_probs_N_K_C.shape[2] * 8 * min(_COLUMNS, count * classes)
    chunked(work, len(log_probs_N_K_C), each, log_probs_N_K_C.device)
    return pairs_N_M


def over_targets(log_probs_N_K_C: Tensor, targets: TargetDeviations, plenty_N: Tensor | None = None) -> Tensor:
    """Σ_j v_j I[Y;Y*_j] of every point, float64, block by block: no more than a block of pairs is ever held.

    `plenty_N` are rough values (`second_order`): where they are not small, the quick form of φ is exact enough.
    """
    count, draws, classes = log_probs_N_K_C.shape
    dtype, device = log_probs_N_K_C.dtype, log_probs_N_K_C.device
    size, target_classes = log_probs_N_K_C.element_size(), targets.log_probs_M_K_C.shape[2]
    on_cpu = device.type == "cpu"
    columns = _COLUMNS if on_cpu else 16 * _COLUMNS
    # Bytes a candidate takes. Chunks for a CPU's caches are far below the budget; elsewhere candidates get half of it,
    # and the careful form of φ wants two blocks more.
    each = size * classes * (4 * draws + 2 * columns) if on_cpu else 2 * size * classes * (4 * draws + 4 * columns)
    rows = min(rows_per_chunk(each, device), count) * classes
    room = torch.empty(2, rows, columns, dtype=dtype, device=device)
    little_N = torch.ones(count, dtype=torch.bool, device=device)
    if plenty_N is not None:
        little_N = plenty_N < max(_PLENTY, _PLENTY_SHARED / (classes * targets.pairs))
    total_N = torch.zeros(count, dtype=torch.float64, device=device)
    for target, weights_mC in targets.parts(memory_budget() // (16 * draws * target_classes * size)):
        ratio_K_mC = ratios(target.a_K_nC, targets.weights_K)

        def work(
            part: slice,
            a_K_mC: Tensor = target.a_K_nC,
            ratio_K_mC: Tensor = ratio_K_mC,
            weights_mC: Tensor = weights_mC,
        ) -> Tensor:
            # Each candidate has its own form of φ, whoever is beside it.
            log_probs_n_K_C, little_n = log_probs_N_K_C[part], little_N[part]
            sum_n = torch.empty(len(little_n), dtype=torch.float64, device=device)
            for chosen_n, precisely in ((little_n, True), (~little_n, False)):
                if not bool(chosen_n.any()):
                    continue
                found = deviations(log_probs_n_K_C[chosen_n], targets.weights_K)
                if precisely:
                    sum_nC = _summed(phi, found.a_K_nC, a_K_mC, weights_mC, room)
                else:
                    mine_K_nC = ratios(found.a_K_nC, targets.weights_K)
                    sum_nC = _summed(phi_of_ratio, mine_K_nC, ratio_K_mC, weights_mC, room)
                sum_n[chosen_n] = (sum_nC.view(-1, classes) * found.mean_n_C).sum(1)
            return sum_n

        total_N += chunked(work, count, each, device)
    return total_N


def ratios(a_K_nC: Tensor, weights_K: Tensor) -> Tensor:
    """√w p/p̄, of which products sum to 1+r; never quite 0, so that these have logarithms."""
    return (a_K_nC + weights_K.sqrt()[:, None]).clamp_min_(_NEVER)


def _summed(
    form: Callable[[Tensor, Tensor], Tensor], mine_K_nC: Tensor, theirs_K_mC: Tensor, weights_mC: Tensor, room: Tensor
) -> Tensor:
    """Σ v p̄(y*) φ over the labels of targets, for every label of candidates."""
    sum_nC = torch.zeros(mine_K_nC.shape[1], dtype=torch.float64, device=room.device)
    for start in range(0, len(weights_mC), room.shape[2]):
        part = slice(start, start + room.shape[2])
        shape = len(sum_nC), len(weights_mC[part])
        block_nC_mC, spare_nC_mC = (half.flatten()[: shape[0] * shape[1]].view(shape) for half in room)
        torch.mm(mine_K_nC.T, theirs_K_mC[:, part], out=block_nC_mC)
        sum_nC += form(block_nC_mC, spare_nC_mC) @ weights_mC[part]
    return sum_nC


def target_weights(target_weights_M: Tensor | None, log_probs_M_K_C: Tensor) -> Tensor:
    """Weights of targets as they are used: summing to one.

    >>> target_weights(torch.tensor([3.0, 1.0]), torch.zeros(2, 1, 1)).tolist()
    [0.75, 0.25]
    """
    count = log_probs_M_K_C.shape[0]
    if target_weights_M is None:
        return log_probs_M_K_C.new_full((count,), 1 / count)
    weights_M = target_weights_M.double()
    if weights_M.shape != (count,):
        raise ValueError(f"target weights: expected one for each of {count} targets, found {tuple(weights_M.shape)}")
    if not bool((weights_M >= 0).all()) or not 0 < float(weights_M.sum()) < math.inf:
        raise ValueError(
            "target weights: expected numbers of 0 or more that do not all vanish; leave them out for equal"
        )
    return (weights_M / weights_M.sum()).to(log_probs_M_K_C.device, log_probs_M_K_C.dtype)


def shared(log_probs_N_K_C: Tensor, log_probs_M_K_C: Tensor) -> tuple[Tensor, Tensor]:
    """Candidates and targets, detached and both as the candidates lie; refuses what cannot come from the same draws."""
    for name, log_probs_n_K_C in (("candidates", log_probs_N_K_C), ("targets", log_probs_M_K_C)):
        if log_probs_n_K_C.ndim != 3:
            found = tuple(log_probs_n_K_C.shape)
            raise ValueError(f"{name}: found shape {found}; pass log probabilities as points x draws x classes")
    if log_probs_N_K_C.shape[1] != log_probs_M_K_C.shape[1]:
        raise ValueError(
            f"targets: they come from {log_probs_M_K_C.shape[1]} draws and the candidates from"
            f" {log_probs_N_K_C.shape[1]}; both must be predicted with the same draws of the parameters"
        )
    log_probs_N_K_C = widened(log_probs_N_K_C.detach())
    return log_probs_N_K_C, log_probs_M_K_C.detach().to(log_probs_N_K_C)
