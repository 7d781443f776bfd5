"""Joint entropy of the labels of several points, and what those labels tell about the parameters (BatchBALD).

    p̄(y_1..y_b)     = Σ_k w_k Π_i p(y_i|x_i,ω_k)                  labels are independent given the draw
    H[Y_1..Y_b]      = −Σ p̄ ln p̄                                  joint_entropy
    I[Y_1..Y_b;Ω]    = H[Y_1..Y_b] − Σ_i E_ω H[Y_i|ω]             joint_mutual_information (BatchBALD)
    TC[Y_1;..;Y_b]   = Σ_i H[Y_i] − H[Y_1..Y_b]                   total_correlation

A label configuration m of the points taken so far has a probability q_m and re-weights the draws to
r_mk ∝ w_k Π_i p(y_i|x_i,ω_k). With masses v_m = q_m when all are listed, 1/S when S are sampled from p̄:

    H[Y_taken]       ≈ −Σ_m v_m ln q_m
    H[Y|Y_taken]     ≈ Σ_m v_m H(r_m Q)                           Q_K_C = p(c|x,ω_k)
    I[Y;Ω|Y_taken]   ≈ Σ_m v_m ( H(r_m Q) − Σ_k r_mk H(Q_k) )     BALD under each configuration

exact when all are listed, unbiased when sampled. Rows r_m are kept normalised and q_m as a log, so that many
small factors cannot underflow. The readable reference, in float64; `weighted_posteriors` is the fast path.
docs/theory/batchbald.md, 3 to 6; Kirsch et al. 2019.
"""

import math
from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor

from natsel.information.entropies import entropy
from natsel.information.mutual import conditional_entropy, normalised_log_weights, predictive_entropy

# Numbers held at once where work is cut into blocks (32 MB of float64); the largest exact table, rows x K.
_BLOCK = 1 << 22
_LARGEST_TABLE = 20_000_000


def systematic_resample(log_weights_K: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """`count` draw indices k_S, sorted: draw k comes floor or ceil of count·w_k times, count·w_k on average.

    One random offset, evenly spaced pointers on the cumulative weights; none hits a draw of weight 0.

    >>> systematic_resample(torch.tensor([0.5, 0.0, 0.5]).log(), 4, torch.Generator().manual_seed(0))
    tensor([0, 0, 2, 2])
    """
    if count < 1:
        raise ValueError(f"count: expected at least 1, found {count}; 10,000 label configurations are usual")
    cumulative_K = log_weights_K.double().exp().cumsum(0)
    # Exactly 1 from the last positive weight on, with all pointers below: rounding cannot hit an empty draw.
    cumulative_K = cumulative_K / cumulative_K[-1]
    offset = torch.rand((), dtype=torch.float64, generator=generator, device=generator.device)
    pointers_S = (torch.arange(count, device=generator.device) + offset) / count
    pointers_S = pointers_S.clamp_max(1 - 2**-53).to(cumulative_K.device)
    return torch.searchsorted(cumulative_K, pointers_S, right=True)


def configuration_weights(
    log_probs_B_K_C: Tensor, labels_B_S: Tensor, log_weights_K: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """(r_S_K, log_q_S) of S given label configurations of B points.

    >>> log_probs_B_K_C = torch.tensor([[[0.9, 0.1], [0.3, 0.7]]]).log()
    >>> configuration_weights(log_probs_B_K_C, torch.tensor([[0]]))[0]
    tensor([[0.7500, 0.2500]], dtype=torch.float64)
    """
    prior_K = _prior(log_probs_B_K_C, log_weights_K)
    log_joint_S_K = prior_K.expand(labels_B_S.shape[1], -1)
    for log_probs_K_C, labels_S in zip(log_probs_B_K_C.double(), labels_B_S, strict=True):
        log_joint_S_K = log_joint_S_K + log_probs_K_C.T.index_select(0, labels_S)
    log_q_S = log_joint_S_K.logsumexp(1)
    if bool((log_q_S == -math.inf).any()):
        found = labels_B_S[:, log_q_S == -math.inf][:, 0].tolist()
        raise ValueError(f"labels_B_S: no weighted draw allows the configuration {found}; leave it out")
    return (log_joint_S_K - log_q_S[:, None]).exp(), log_q_S


def sample_configurations(
    log_probs_B_K_C: Tensor, count: int, log_weights_K: Tensor | None, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """(r_S_K, log_q_S) of S = count label configurations drawn from p̄(y_1..y_B).

    docs/theory/batchbald.md, 5.

    >>> log_probs_B_K_C = torch.tensor([[[0.9, 0.1], [0.3, 0.7]]]).log()
    >>> sample_configurations(log_probs_B_K_C, 5, None, torch.Generator().manual_seed(0))[0].shape
    torch.Size([5, 2])
    """
    prior_K = _prior(log_probs_B_K_C, log_weights_K)
    labels_B_S = _sample_labels(log_probs_B_K_C, systematic_resample(prior_K, count, generator), generator)
    return configuration_weights(log_probs_B_K_C, labels_B_S, prior_K)


class JointEntropy:
    """Entropies and gains of a further label, given label configurations of the points taken so far."""

    def __init__(self, weights_S_K: Tensor, log_q_S: Tensor, exact: bool) -> None:
        self.weights_S_K = weights_S_K
        self.log_q_S = log_q_S
        self.exact = exact

    @property
    def mass_S(self) -> Tensor:
        """How much each configuration counts: its probability when all are here, else the same for each."""
        return self.log_q_S.exp() if self.exact else torch.full_like(self.log_q_S, 1 / len(self.log_q_S))

    def entropy(self) -> float:
        return max(0.0, -float(self.mass_S @ self.log_q_S))

    def entropy_given(self, log_probs_N_K_C: Tensor) -> Tensor:
        """H[Y_n | Y_taken] of every candidate."""
        return torch.cat([terms_n_S @ self.mass_S for terms_n_S in self._terms(log_probs_N_K_C, "entropy")])

    def entropy_with(self, log_probs_N_K_C: Tensor) -> Tensor:
        """H[Y_taken, Y_n] of every candidate."""
        return self.entropy() + self.entropy_given(log_probs_N_K_C)

    def gains(self, log_probs_N_K_C: Tensor) -> Tensor:
        """I[Y_n; Ω | Y_taken] of every candidate: BALD under each configuration, averaged; never negative.

        When all configurations are listed, this is entropy_given − conditional_entropy.
        """
        return torch.cat([terms_n_S @ self.mass_S for terms_n_S in self._terms(log_probs_N_K_C, "gain")])

    def standard_errors(self, log_probs_N_K_C: Tensor, of: Literal["gain", "entropy"] = "gain") -> Tensor:
        """Of `gains` or of `entropy_with`; 0 when exact. Mostly an upper estimate: draws are stratified."""
        shift_S = 0.0 if of == "gain" else -self.log_q_S
        return torch.cat([self._error(terms + shift_S) for terms in self._terms(log_probs_N_K_C, of)])

    def difference_standard_errors(self, log_probs_N_K_C: Tensor, best: int) -> Tensor:
        """Of gains[best] − gains[n], on the configurations both share: far smaller than that of a gain."""
        best_1_S = next(self._terms(log_probs_N_K_C[best, None], "gain"))
        return torch.cat([self._error(terms - best_1_S) for terms in self._terms(log_probs_N_K_C, "gain")])

    def _error(self, terms_n_S: Tensor) -> Tensor:
        points, count = terms_n_S.shape
        if self.exact or count == 1:  # nothing to estimate, or nothing to estimate it from
            return terms_n_S.new_full((points,), 0.0 if self.exact else math.inf)
        return terms_n_S.std(1) / math.sqrt(count)

    def _terms(self, log_probs_N_K_C: Tensor, of: Literal["gain", "entropy"]) -> Iterator[Tensor]:
        """H(r_m Q_n), or BALD under r_m, as n_S for one block of candidates after the other."""
        block = max(1, _BLOCK // (len(self.weights_S_K) * log_probs_N_K_C.shape[2]))
        for start in range(0, max(1, len(log_probs_N_K_C)), block):
            log_probs_n_K_C = log_probs_N_K_C[start : start + block].double()
            terms_n_S = torch.special.entr(self.weights_S_K @ log_probs_n_K_C.exp()).sum(2)
            if of == "gain":
                terms_n_S = (terms_n_S - entropy(log_probs_n_K_C) @ self.weights_S_K.T).clamp_min(0)
            yield terms_n_S


class ExactJointEntropy(JointEntropy):
    """All label configurations of the points taken: C^b rows at most, impossible ones left out.

    >>> state = ExactJointEntropy(torch.tensor([0.5, 0.5]).log())
    >>> coin_K_C = torch.eye(2).log()                  # the label names the draw: a copy adds nothing
    >>> state.gains(coin_K_C[None]), state.add(coin_K_C), state.gains(coin_K_C[None])
    (tensor([0.6931], dtype=torch.float64), None, tensor([0.], dtype=torch.float64))
    """

    def __init__(self, log_weights_K: Tensor) -> None:
        super().__init__(*_no_labels(log_weights_K), exact=True)

    def add(self, log_probs_K_C: Tensor) -> None:
        """Takes one more point."""
        self.weights_S_K, self.log_q_S = _extended(self.weights_S_K, self.log_q_S, log_probs_K_C)


class DynamicJointEntropy(JointEntropy):
    """Exact while at most `max_exact` (default: count) configurations result, then `count` sampled ones.

    Configurations are drawn afresh for every point taken, so that errors of successive steps are independent.

    >>> state = DynamicJointEntropy(torch.zeros(2), count=3, generator=torch.Generator().manual_seed(0))
    >>> state.add(torch.tensor([[0.9, 0.1], [0.3, 0.7]]).log()), state.exact, len(state.mass_S)
    (None, True, 2)
    >>> state.add(torch.tensor([[0.9, 0.1], [0.3, 0.7]]).log()), state.exact, len(state.mass_S)
    (None, False, 3)
    """

    def __init__(
        self, log_weights_K: Tensor, count: int, generator: torch.Generator, max_exact: int | None = None
    ) -> None:
        super().__init__(*_no_labels(log_weights_K), exact=True)
        self.log_weights_K = log_weights_K
        self.count = count
        self.generator = generator
        self.max_exact = count if max_exact is None else max_exact
        self.taken: list[Tensor] = []

    def add(self, log_probs_K_C: Tensor) -> None:
        """Takes one more point."""
        self.taken.append(log_probs_K_C)
        self.exact = self.exact and len(self.log_q_S) * log_probs_K_C.shape[1] <= self.max_exact
        if self.exact:
            now = _extended(self.weights_S_K, self.log_q_S, log_probs_K_C)
        else:
            now = sample_configurations(torch.stack(self.taken), self.count, self.log_weights_K, self.generator)
        self.weights_S_K, self.log_q_S = now


class SampledJointEntropy(DynamicJointEntropy):
    """`count` sampled configurations from the first point on.

    >>> state = SampledJointEntropy(torch.zeros(2), count=4, generator=torch.Generator().manual_seed(0))
    >>> state.add(torch.eye(2).log()), round(state.entropy(), 6)
    (None, 0.693147)
    """

    def __init__(self, log_weights_K: Tensor, count: int, generator: torch.Generator) -> None:
        super().__init__(log_weights_K, count, generator, max_exact=0)


def joint_entropy(log_probs_B_K_C: Tensor, log_weights_K: Tensor | None = None) -> float:
    """H[Y_1..Y_B] by enumeration of the C^(B−1) configurations of all but the last point; 0 for no points.

    >>> round(joint_entropy(torch.tensor([[[0.1, 0.9], [0.9, 0.1], [0.5, 0.5]]] * 2).log()), 6)
    1.292287
    """
    if len(log_probs_B_K_C) == 0:
        return 0.0
    state = ExactJointEntropy(_prior(log_probs_B_K_C, log_weights_K))
    for log_probs_K_C in log_probs_B_K_C[:-1]:
        state.add(log_probs_K_C)
    return float(state.entropy_with(log_probs_B_K_C[-1:]))


def joint_mutual_information(log_probs_B_K_C: Tensor, log_weights_K: Tensor | None = None) -> float:
    """I[Y_1..Y_B;Ω] by enumeration: BatchBALD of a set, in [0, min(H[Y_1..Y_B], H(w), Σ BALD)].

    docs/theory/batchbald.md, 3.

    >>> round(joint_mutual_information(torch.tensor([[[0.1, 0.9], [0.9, 0.1], [0.5, 0.5]]] * 2).log()), 6)
    0.396745
    """
    noise_B = conditional_entropy(log_probs_B_K_C.double(), log_weights_K)
    return max(0.0, joint_entropy(log_probs_B_K_C, log_weights_K) - float(noise_B.sum()))


def total_correlation(log_probs_B_K_C: Tensor, log_weights_K: Tensor | None = None) -> float:
    """TC[Y_1;..;Y_B] by enumeration: what the sum of BALD scores counts too often.

    docs/theory/batchbald.md, 3.

    >>> round(total_correlation(torch.tensor([[[0.1, 0.9], [0.9, 0.1], [0.5, 0.5]]] * 2).log()), 6)
    0.094007
    """
    single_B = predictive_entropy(log_probs_B_K_C.double(), log_weights_K)
    return max(0.0, float(single_B.sum()) - joint_entropy(log_probs_B_K_C, log_weights_K))


def joint_mutual_information_sampled(
    log_probs_B_K_C: Tensor, count: int, log_weights_K: Tensor | None, generator: torch.Generator
) -> tuple[float, float]:
    """I[Y_1..Y_B;Ω] = H(w) − E H(Ω|y_1..y_B) over `count` sampled configurations, and its standard error.

    The outside judge of a batch however large; never exceeds H(w). Memory stays under 200 MB.
    docs/theory/batchbald.md, 11.

    >>> pair_B_K_C = torch.tensor([[[0.1, 0.9], [0.9, 0.1], [0.5, 0.5]]] * 2).log()
    >>> generator = torch.Generator().manual_seed(0)
    >>> value, error = joint_mutual_information_sampled(pair_B_K_C, 10_000, None, generator)
    >>> abs(value - joint_mutual_information(pair_B_K_C)) < 4 * error < 0.02
    True
    """
    prior_K = _prior(log_probs_B_K_C, log_weights_K)
    chosen_S = systematic_resample(prior_K, count, generator)
    left_S = prior_K.new_empty(count)
    block = max(1, _BLOCK // 16 // max(log_probs_B_K_C.shape[1:]))
    for part in range(0, count, block):
        labels_B_s = _sample_labels(log_probs_B_K_C, chosen_S[part : part + block], generator)
        weights_s_K, _ = configuration_weights(log_probs_B_K_C, labels_B_s, prior_K)
        left_S[part : part + block] = torch.special.entr(weights_s_K).sum(1)
    error = float(left_S.std()) / math.sqrt(count) if count > 1 else math.inf
    return float(entropy(prior_K) - left_S.mean()), error


def _prior(log_probs_B_K_C: Tensor, log_weights_K: Tensor | None) -> Tensor:
    return normalised_log_weights(log_probs_B_K_C[:0].double(), log_weights_K)


def _sample_labels(log_probs_B_K_C: Tensor, chosen_S: Tensor, generator: torch.Generator) -> Tensor:
    """One label per point and configuration, from the draw chosen for the configuration."""
    probs_B_K_C = log_probs_B_K_C.double().exp().to(generator.device)
    labels_B_S = torch.empty((len(probs_B_K_C), len(chosen_S)), dtype=torch.int64, device=generator.device)
    for labels_S, probs_K_C in zip(labels_B_S, probs_B_K_C, strict=True):
        labels_S.copy_(torch.multinomial(probs_K_C[chosen_S.to(generator.device)], 1, generator=generator)[:, 0])
    return labels_B_S.to(log_probs_B_K_C.device)


def _no_labels(log_weights_K: Tensor) -> tuple[Tensor, Tensor]:
    """The one empty configuration."""
    prior_K = log_weights_K.double().log_softmax(0)
    return prior_K.exp()[None], prior_K.new_zeros(1)


def _extended(weights_S_K: Tensor, log_q_S: Tensor, log_probs_K_C: Tensor) -> tuple[Tensor, Tensor]:
    """Every configuration followed by every label that is possible after it."""
    rows, (draws, classes) = len(log_q_S), log_probs_K_C.shape
    if rows * classes * draws > _LARGEST_TABLE:
        found = f"{rows} x {classes} label configurations of {draws} draws"
        raise ValueError(f"log_probs_K_C: {found} are too many to list; take fewer points or sample them")
    joint_S_C_K = weights_S_K[:, None] * log_probs_K_C.double().exp().T
    share_S_C = joint_S_C_K.sum(2)
    possible_S_C = share_S_C > 0
    weights_X_K = joint_S_C_K[possible_S_C] / share_S_C[possible_S_C][:, None]
    return weights_X_K, (log_q_S[:, None] + share_S_C.log())[possible_S_C]
