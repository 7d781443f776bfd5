"""What a label tells about other labels: predictive information between candidates and targets, from shared draws.

    I[Y;Y*|x,x*] = Σ_{y,y*} Q φ(r),      Q = p̄(y) p̄(y*),   r = Σ_k w_k (p_k(y)/p̄(y) − 1) (p_k(y*)/p̄(y*) − 1)
    φ(r)         = (1+r) ln(1+r) − r ≥ 0
    EPIG(x)      = Σ_j v_j I[Y;Y*_j|x,x*_j]                                 the mean over targets

Given the draws this is exact. All r of a block are one matrix product, every term is non-negative, and nothing large
cancels: values of 1e-20 nats keep their digits, where the difference of three entropies has none left.

    EPIG ≈ ½ Σ_y p̄(y) a_yᵀ G a_y,   a_y = √w_k (p_k(y)/p̄(y) − 1),   G = Σ_j v_j Σ_y* p̄(y*) b b ᵀ        epig_chi2

To second order in r the targets enter through one K×K matrix, so that the cost does not depend on how many there are;
EPIG never exceeds twice that, because φ(r) ≤ r².

Draws may be weighted in several ways at once, as rows (`weighted_posteriors`): all values are then Σ_m v_m (value under
the weights of row m). Probabilities are the same in all rows, so that the products of several rows are done together.
docs/theory/epig-jepig.md, 3 to 5 and 8; Bickford Smith et al. 2023.
"""

import math
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from functools import cached_property, partial

import torch
from torch import Tensor

from natsel.information.entropies import widened
from natsel.information.mutual import normalised_log_weights
from natsel.information.phi import phi, phi_of_ratio
from natsel.memory import chunked, fits, memory_budget, rows_per_chunk

# s ln s − (s − 1) is off by eps·|r|, at random: in float32 about 1e-6 of the whole from so many nats on, or from this
# share of a nat over the number of pairs of labels, if that is more.
_PLENTY, _PLENTY_SHARED = 1e-5, 0.2
_NEVER = 1e-18  # a ratio that stands for 0: small beside any other, and its square is still a number in float32
# Columns of a block: label–target pairs beside each other. Blocks of a megabyte or two stay in the caches.
_COLUMNS = 2048
_SMALL_MATRIX = 16


def predicted(log_probs_n_K_C: Tensor) -> Tensor:
    """Probabilities with the draws first, [K, n·C], in memory of their own: every step from there runs along rows.

    >>> predicted(torch.tensor([[[0.2, 0.8], [0.6, 0.4]]]).log())
    tensor([[0.2000, 0.8000],
            [0.6000, 0.4000]])
    """
    return log_probs_n_K_C.exp().transpose(0, 1).clone(memory_format=torch.contiguous_format).flatten(1)


def deviations(probs_K_nC: Tensor, weights_R_K: Tensor, mean_R_nC: Tensor) -> Tensor:
    """√w (p/p̄ − 1) in every row, [R, K, n·C], centred twice, so that even draws that hardly differ keep their digits.

    >>> deviations(torch.tensor([[0.2], [0.6]]), torch.tensor([[0.5, 0.5]]), torch.tensor([[0.4]])).flatten()
    tensor([-0.3536,  0.3536])
    """
    a_R_K_nC = probs_K_nC - mean_R_nC[:, None]
    a_R_K_nC -= weights_R_K[:, None] @ a_R_K_nC
    return _weighted_and_divided(a_R_K_nC, weights_R_K, mean_R_nC)


def ratios(probs_K_nC: Tensor, weights_R_K: Tensor, mean_R_nC: Tensor) -> Tensor:
    """√w p/p̄ in every row, [R, K, n·C], of which products sum to 1+r; never quite 0, so that these have logarithms.

    >>> ratios(torch.tensor([[0.2], [0.6]]), torch.tensor([[0.5, 0.5]]), torch.tensor([[0.4]])).flatten()
    tensor([0.3536, 1.0607])
    """
    return _weighted_and_divided(probs_K_nC.expand(len(weights_R_K), -1, -1), weights_R_K, mean_R_nC).clamp_min_(_NEVER)


def _weighted_and_divided(numbers_R_K_nC: Tensor, weights_R_K: Tensor, mean_R_nC: Tensor) -> Tensor:
    # The weight first: what a draw of weight 0 says must count nothing even where p/p̄ overflows.
    weighted_R_K_nC = numbers_R_K_nC * weights_R_K.sqrt()[:, :, None]
    # A class nobody believes in deviates by 0.
    return weighted_R_K_nC.div_(torch.where(mean_R_nC > 0, mean_R_nC, torch.inf)[:, None])


@dataclass(frozen=True)
class TargetBlock:
    """Some targets under all rows: the forms that products are made of, each made when it is first asked for."""

    probs_K_mC: Tensor
    share_mC: Tensor
    weights_R_K: Tensor
    mean_R_mC: Tensor

    @cached_property
    def label_weights_R_mC(self) -> Tensor:
        """v_j p̄(y*)."""
        return self.mean_R_mC * self.share_mC

    @cached_property
    def deviation_R_K_mC(self) -> Tensor:
        """√w (p/p̄ − 1)."""
        return deviations(self.probs_K_mC, self.weights_R_K, self.mean_R_mC)

    @cached_property
    def ratio_R_K_mC(self) -> Tensor:
        """√w p/p̄."""
        return ratios(self.probs_K_mC, self.weights_R_K, self.mean_R_mC)


class TargetDeviations:
    """Targets as the information about them needs them, under one weighting of the draws or several (rows).

    `log_weights_R_K` may be [K] (one row; None: all draws alike), `target_weights_M` None (all alike), and
    `row_weights_R`, which need not sum to one, None (all 1).
    """

    def __init__(
        self,
        log_probs_M_K_C: Tensor,
        log_weights_R_K: Tensor | None = None,
        target_weights_M: Tensor | None = None,
        row_weights_R: Tensor | None = None,
    ) -> None:
        if log_probs_M_K_C.shape[0] == 0:
            raise ValueError("targets: found none, and without them nothing says what is worth learning; pass some")
        self.log_probs_M_K_C = log_probs_M_K_C
        if log_weights_R_K is None or log_weights_R_K.ndim == 1:
            log_weights_R_K = normalised_log_weights(log_probs_M_K_C, log_weights_R_K)[None]
        self.weights_R_K = log_weights_R_K.exp().to(log_probs_M_K_C.dtype)
        self.row_weights_R = self.weights_R_K.new_ones(len(self.weights_R_K), dtype=torch.float64)
        if row_weights_R is not None:
            self.row_weights_R = row_weights_R.to(self.row_weights_R)
        self.weights_M = target_weights(target_weights_M, log_probs_M_K_C)
        self._whole: TargetBlock | None = None

    @property
    def pairs(self) -> int:
        """How many labels of targets there are."""
        return int(self.weights_M.count_nonzero()) * self.log_probs_M_K_C.shape[2]

    def in_parts(self, count: int) -> Iterator["TargetDeviations"]:
        """The same targets under `count` rows at a time; nothing where there is no row."""
        if 0 < len(self.weights_R_K) <= count:
            yield self
            return
        for start in range(0, len(self.weights_R_K), count):
            part, some = slice(start, start + count), copy(self)
            some.weights_R_K, some.row_weights_R, some._whole = self.weights_R_K[part], self.row_weights_R[part], None
            yield some

    def blocks(self) -> Iterator[TargetBlock]:
        """Targets under all rows, as many at a time as a share of the budget holds; none of weight 0."""
        if self._whole is not None:
            yield self._whole
            return
        (taken_M,) = self.weights_M.nonzero(as_tuple=True)
        each = self.log_probs_M_K_C[0].numel() * self.log_probs_M_K_C.element_size() * len(self.weights_R_K)
        width = max(1, memory_budget() // (16 * each))
        for part_m in torch.split(taken_M, width):
            probs_K_mC = predicted(self.log_probs_M_K_C[part_m])
            mean_R_mC = self.weights_R_K @ probs_K_mC
            share_mC = self.weights_M[part_m].repeat_interleave(self.log_probs_M_K_C.shape[2])
            block = TargetBlock(probs_K_mC, share_mC, self.weights_R_K, mean_R_mC)
            if len(taken_M) <= width and fits(3 * each * len(taken_M)):
                self._whole = block
            yield block

    def second_moment(self) -> Tensor:
        """G: all that the targets are to second order, [R, K, K] in float64."""
        weights_R_K = self.weights_R_K.double()
        weights_R_K /= weights_R_K.sum(1, keepdim=True)  # what rounding to float32 took would look like a difference
        moment_R_K_K = weights_R_K.new_zeros(*weights_R_K.shape, weights_R_K.shape[1])
        for block in self.blocks():
            probs_K_mC = block.probs_K_mC.double()
            count = rows_per_chunk(8 * probs_K_mC.numel() * 8, probs_K_mC.device)
            for start in range(0, len(weights_R_K), count):
                rows = slice(start, start + count)
                mean_r_mC = weights_R_K[rows] @ probs_K_mC
                share_r_mC = block.share_mC / torch.where(mean_r_mC > 0, mean_r_mC, torch.inf)
                seen_r_K_mC = (probs_K_mC - mean_r_mC[:, None]).mul_(weights_R_K[rows].sqrt()[:, :, None])
                seen_r_K_mC.mul_(share_r_mC.sqrt_()[:, None])
                moment_R_K_K[rows] += seen_r_K_mC @ seen_r_K_mC.mT
        return moment_R_K_K

    def factor(self) -> Tensor:
        """F with F Fᵀ = G, [R, K, S]: |Fᵀa|² has digits where aᵀGa has cancelled, for a that targets hardly know of."""
        if self.pairs <= self.weights_R_K.shape[1]:
            parts = [block.deviation_R_K_mC * block.label_weights_R_mC.sqrt()[:, None] for block in self.blocks()]
            return torch.cat(parts, 2)
        return square_root(self.second_moment())


def square_root(moment_R_K_K: Tensor) -> Tensor:
    """F with F Fᵀ = G for symmetric matrices without negative roots, [R, K, K]; NaN where G has NaN.

    >>> factor = square_root(torch.ones(1, 2, 2, dtype=torch.float64))
    >>> (factor @ factor.mT).round(decimals=6).tolist()
    [[[1.0, 1.0], [1.0, 1.0]]]
    """
    eps, draws = torch.finfo(torch.float64).eps, moment_R_K_K.shape[1]
    # Deviations are centred, so that G is singular: with as much as its rounding on its diagonal most have a Cholesky
    # factor. The others are taken apart by their roots, which takes twenty times as long.
    trace_R = moment_R_K_K.diagonal(dim1=1, dim2=2).sum(1)
    added_R_K = (eps * trace_R + torch.finfo(torch.float64).tiny)[:, None].expand(-1, draws)
    factor_R_K_K: Tensor
    factor_R_K_K, failed_R = torch.linalg.cholesky_ex(moment_R_K_K + torch.diag_embed(added_R_K))
    (other_r,) = failed_R.nonzero(as_tuple=True)
    if len(other_r):
        moment_r_K_K = moment_R_K_K[other_r]
        if not bool(moment_r_K_K.isfinite().all()):  # NaN in, NaN out
            return moment_R_K_K
        root_r_K, vector_r_K_K = torch.linalg.eigh(moment_r_K_K)
        kept_r_K = root_r_K > root_r_K[:, -1:].clamp_min(0) * eps
        factor_R_K_K[other_r] = vector_r_K_K * torch.where(kept_r_K, root_r_K, 0.0).sqrt()[:, None]
    return factor_R_K_K


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
    return second_order(log_probs_N_K_C, targets)


def second_order(log_probs_N_K_C: Tensor, targets: TargetDeviations) -> Tensor:
    """½ Σ_y p̄(y) a_yᵀ G a_y of every point, summed over rows, float64."""
    count, draws, classes = log_probs_N_K_C.shape
    size, device = log_probs_N_K_C.element_size(), log_probs_N_K_C.device
    total_N = torch.zeros(count, dtype=torch.float64, device=device)
    for some in targets.in_parts(max(1, memory_budget() // (64 * draws * draws * 8))):
        weights_R_K, row_weights_R = some.weights_R_K, some.row_weights_R
        # F is orthogonal to √w, so that p may be measured from anywhere, and F √w meets the same p in every row:
        # Fᵀa = (F √w)ᵀ(p − c) / p̄. From the least p of any draw, digits are kept as if p were centred.
        factor_R_K_S = some.factor().to(log_probs_N_K_C.dtype) * weights_R_K.sqrt()[:, :, None]
        factor_K_RS = factor_R_K_S.transpose(0, 1).flatten(1)
        ignored_K_1 = (weights_R_K == 0).all(0)[:, None]

        def work(
            part: slice,
            weights_R_K: Tensor = weights_R_K,
            row_weights_R: Tensor = row_weights_R,
            factor_K_RS: Tensor = factor_K_RS,
            ignored_K_1: Tensor = ignored_K_1,
        ) -> Tensor:
            probs_K_nC = predicted(log_probs_N_K_C[part])
            mean_nC_R = probs_K_nC.T @ weights_R_K.T
            probs_K_nC -= probs_K_nC.masked_fill(ignored_K_1, torch.inf).amin(0)
            each = factor_K_RS.shape[1] // len(weights_R_K)
            seen_nC_R_S = (probs_K_nC.T @ factor_K_RS).view(-1, len(weights_R_K), each)
            form_nC_R: Tensor = torch.linalg.vector_norm(seen_nC_R_S, dim=2).square_()
            form_nC_R.div_(torch.where(mean_nC_R > 0, mean_nC_R, torch.inf))
            form_n_R = form_nC_R.view(-1, classes, len(weights_R_K)).sum(1)
            return (form_n_R.double() @ row_weights_R).mul_(0.5)

        width = classes * size * (5 * draws + 2 * factor_K_RS.shape[1])
        total_N += chunked(work, count, width, device)
    return total_N


def second_order_if_cheap(log_probs_N_K_C: Tensor, targets: TargetDeviations) -> Tensor | None:
    """Second-order values where they cost less than the quick form of φ saves, else None."""
    draws, pairs = log_probs_N_K_C.shape[1], targets.pairs
    if min(draws, pairs) * draws > 64 * pairs:
        return None
    return second_order(log_probs_N_K_C, targets)


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
    weights_1_K = targets.weights_R_K
    probs_K_mC = predicted(log_probs_M_K_C)
    mean_1_mC = weights_1_K @ probs_K_mC
    a_K_mC = deviations(probs_K_mC, weights_1_K, mean_1_mC)[0]

    def work(part: slice) -> Tensor:
        probs_K_nC = predicted(log_probs_N_K_C[part])
        mean_1_nC = weights_1_K @ probs_K_nC
        a_K_nC = deviations(probs_K_nC, weights_1_K, mean_1_nC)[0]
        for start in range(0, count, step):
            width = min(step, count - start)
            columns = slice(start * classes, (start + width) * classes)
            phi_nC_mC = phi(a_K_nC.T @ a_K_mC[:, columns])
            phi_nC_mC.mul_(mean_1_nC.T).mul_(mean_1_mC[:, columns])
            blocks = phi_nC_mC.double().view(-1, log_probs_N_K_C.shape[2], width, classes)
            pairs_N_M[part, start : start + step] = blocks.sum((1, 3))
        return pairs_N_M[part, :0]

    each = log_probs_N_K_C.element_size() * log_probs_N_K_C.shape[2] * 8 * min(_COLUMNS, count * classes)
    chunked(work, len(log_probs_N_K_C), each, log_probs_N_K_C.device)
    return pairs_N_M


def over_targets(log_probs_N_K_C: Tensor, targets: TargetDeviations, plenty_N: Tensor | None = None) -> Tensor:
    """Σ_j v_j I[Y;Y*_j] of every point, summed over rows, float64.

    `plenty_N` are rough values (`second_order`): where they are not small, the quick form of φ is exact enough.
    """
    total_N = log_probs_N_K_C.new_zeros(len(log_probs_N_K_C), dtype=torch.float64)
    little_N = torch.ones_like(total_N, dtype=torch.bool)
    if plenty_N is not None:
        little_N = plenty_N < max(_PLENTY, _PLENTY_SHARED / (log_probs_N_K_C.shape[2] * targets.pairs))
    for some in _parts_of_rows(targets):
        total_N += _summed(log_probs_N_K_C, some, little_N, partial(_over_rows, some.row_weights_R))[:, 0]
    return total_N


def over_targets_by_row(log_probs_N_K_C: Tensor, targets: TargetDeviations) -> Tensor:
    """The same row by row, [N, R]."""
    little_N = torch.ones(len(log_probs_N_K_C), dtype=torch.bool, device=log_probs_N_K_C.device)
    parts = [
        _summed(log_probs_N_K_C, some, little_N, partial(_by_row, some.row_weights_R))
        for some in _parts_of_rows(targets)
    ]
    return torch.cat(parts, 1) if parts else log_probs_N_K_C.new_zeros(len(little_N), 0, dtype=torch.float64)


def over_second_order(log_probs_N_K_C: Tensor, targets: TargetDeviations, rough_N: Tensor) -> Tensor:
    """Σ_j v_j I[Y;Y*_j] divided by its second-order form, both from the same products; inf where that is 0.

    Four digits will do here: the quick form of φ has them wherever rough values (`second_order`) are not tiny.
    """
    both_N_2 = log_probs_N_K_C.new_zeros(len(log_probs_N_K_C), 2, dtype=torch.float64)
    for some in _parts_of_rows(targets):
        ending = partial(_over_rows, some.row_weights_R)
        both_N_2 += _summed(log_probs_N_K_C, some, rough_N < _PLENTY, ending, squares=True)
    return torch.where(both_N_2[:, 1] > 0, both_N_2[:, 0] / both_N_2[:, 1], torch.inf)


def _over_rows(row_weights_R: Tensor, sum_2_n_R: Tensor) -> Tensor:
    return (sum_2_n_R @ row_weights_R).T


def _by_row(row_weights_R: Tensor, sum_2_n_R: Tensor) -> Tensor:
    return sum_2_n_R[0] * row_weights_R


def _parts_of_rows(targets: TargetDeviations) -> Iterator[TargetDeviations]:
    """As many rows at a time as leave room in the budget for a block of targets under each of them."""
    log_probs_M_K_C = targets.log_probs_M_K_C
    table = log_probs_M_K_C.shape[1] * min(_columns(log_probs_M_K_C.device), targets.pairs)
    return targets.in_parts(max(1, memory_budget() // (16 * table * log_probs_M_K_C.element_size())))


def _columns(device: torch.device) -> int:
    return _COLUMNS if device.type == "cpu" else 16 * _COLUMNS


def _summed(
    log_probs_N_K_C: Tensor,
    targets: TargetDeviations,
    little_N: Tensor,
    ending: Callable[[Tensor], Tensor],
    squares: bool = False,
) -> Tensor:
    """What `ending` makes of Σ Q φ and, with `squares`, of ½ Σ Q r² (else 0) in every row, [2, n, R]; N results.

    Points of which `little_N` is known get the careful form of φ. No more than a block of pairs is ever held.
    """
    count, draws, classes = log_probs_N_K_C.shape
    device, size, rows = log_probs_N_K_C.device, log_probs_N_K_C.element_size(), len(targets.weights_R_K)
    columns = min(_columns(device), targets.pairs)
    # Bytes a candidate takes. Chunks for a CPU's caches are far below the budget; elsewhere candidates get half of it,
    # and the careful form of φ wants two blocks more.
    on_cpu = device.type == "cpu"
    each = size * classes * (4 * draws + 2 * columns) if on_cpu else 2 * size * classes * (4 * draws + 4 * columns)
    most = min(rows_per_chunk(each, device), count * rows)
    room = log_probs_N_K_C.new_empty(2, most * classes * columns)

    def sums(block: TargetBlock, log_probs_n_K_C: Tensor, precisely: bool) -> Tensor:
        probs_K_nC = predicted(log_probs_n_K_C)
        sum_2_R_n = torch.zeros(2, rows, len(log_probs_n_K_C), dtype=torch.float64, device=device)
        theirs_R_K_mC = block.deviation_R_K_mC if precisely else block.ratio_R_K_mC
        together = max(1, most // len(log_probs_n_K_C))  # where candidates are few, several rows share a block
        for start in range(0, rows, together):
            row_r = slice(start, start + together)
            weights_r_K = targets.weights_R_K[row_r]
            mean_r_nC = weights_r_K @ probs_K_nC
            mine_r_K_nC = (deviations if precisely else ratios)(probs_K_nC, weights_r_K, mean_r_nC)
            for first in range(0, theirs_R_K_mC.shape[2], columns):
                label_mC = slice(first, first + columns)
                theirs_r_K_mC = theirs_R_K_mC[row_r, :, label_mC]
                shape = *mean_r_nC.shape, theirs_r_K_mC.shape[2]
                r_r_nC_mC, spare_r_nC_mC = (half[: math.prod(shape)].view(shape) for half in room)
                torch.bmm(mine_r_K_nC.mT, theirs_r_K_mC, out=r_r_nC_mC)
                terms = [(phi if precisely else phi_of_ratio)(r_r_nC_mC, spare_r_nC_mC)]
                if squares:
                    terms.append(r_r_nC_mC.square_())  # either form of φ leaves r or −r there
                for sum_R_n, term_r_nC_mC in zip(sum_2_R_n, terms, strict=False):
                    sum_r_nC = _times_vectors(term_r_nC_mC, block.label_weights_R_mC[row_r, label_mC])
                    sum_R_n[row_r] += (sum_r_nC.double() * mean_r_nC).view(len(mean_r_nC), -1, classes).sum(2)
        sum_2_R_n[1] *= 0.5
        return sum_2_R_n

    def work(block: TargetBlock, part: slice) -> Tensor:
        # Each candidate has its own form of φ, whoever is beside it.
        log_probs_n_K_C, little_n = log_probs_N_K_C[part], little_N[part]
        sum_2_R_n = torch.empty(2, rows, len(little_n), dtype=torch.float64, device=device)
        for chosen_n, precisely in ((little_n, True), (~little_n, False)):
            if bool(chosen_n.any()):
                sum_2_R_n[:, :, chosen_n] = sums(block, log_probs_n_K_C[chosen_n], precisely)
        return ending(sum_2_R_n.mT)

    total: Tensor | None = None
    for block in targets.blocks():
        some = chunked(partial(work, block), count, each, device)
        total = some if total is None else total.add_(some)
    assert total is not None  # there is a target
    return total


def _times_vectors(matrix_r_n_m: Tensor, vector_r_m: Tensor) -> Tensor:
    """One product of a matrix and a vector for each row, [r, n]."""
    # On a CPU, bmm takes ten times as long for matrices that are not small.
    if matrix_r_n_m.device.type == "cpu" and (len(matrix_r_n_m) == 1 or matrix_r_n_m.shape[1] > _SMALL_MATRIX):
        return torch.stack(
            [matrix_n_m @ vector_m for matrix_n_m, vector_m in zip(matrix_r_n_m, vector_r_m, strict=True)]
        )
    return torch.bmm(matrix_r_n_m, vector_r_m[:, :, None])[:, :, 0]


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
