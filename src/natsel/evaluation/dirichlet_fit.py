"""How well a Dirichlet per point stands for the members of an ensemble.

    predicted entropy variance (PSV)    Var_Dir[H] of the Dirichlet with the members' mean and mutual information
    empirical entropy variance (ESV)    Var_k H(p_k) of the members
    rmse of a member's entropy          √(variance + I²) around the predictive entropy, predicted and empirical
    errors                              of members simulated from the Dirichlet less those that are there, in averages:
                                        predictive entropy, mutual information, expected entropy; JSD of the means
    ratio of concentrations             a0 by entropy variance / a0 by mutual information: 1 where the Dirichlet fits

With the mutual information matched, a difference of the rmse is one of the variances. A Dirichlet keeps averages over
members; real members, most of all on unfamiliar inputs, vary more than it says: then ESV > PSV and the ratio is not 1.
docs/theory/dirichlet-ensembles.md, 8; Kirsch 2024.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from natsel.beliefs import CategoricalSamples, IndependentSamples
from natsel.beliefs.dirichlet_members import DirichletMembers
from natsel.information.dirichlet import dirichlet_entropy_variance, sample_chunks
from natsel.information.dirichlet_fits import dirichlet_concentration_by_entropy_variance
from natsel.information.entropies import kl_divergence
from natsel.information.member_entropies import entropy_variance
from natsel.information.mutual import conditional_entropy, log_mean, mutual_information, predictive_entropy
from natsel.memory import chunked


@dataclass(frozen=True)
class InformationBin:
    """Points whose mutual information lies in a range, and the entropy variances they have on average."""

    lowest: float
    highest: float
    n_points: int
    predicted_variance: float
    empirical_variance: float

    @property
    def ratio(self) -> float:
        """Empirical over predicted variance; above 1 where members vary more than a Dirichlet says."""
        return self.empirical_variance / self.predicted_variance if self.predicted_variance > 0 else math.nan


@dataclass(frozen=True, eq=False)
class DirichletFit:
    """How a Dirichlet stands for the members at each of N points, all in nats (variances squared)."""

    n_draws: int
    """K: the mutual information of few members is too low, and the concentrations are then too large."""
    mutual_information_N: Tensor
    predicted_variance_N: Tensor
    empirical_variance_N: Tensor
    predictive_entropy_error_N: Tensor
    """Of simulated members less that of the members, as are the next two."""
    mutual_information_error_N: Tensor
    expected_entropy_error_N: Tensor
    mean_divergence_N: Tensor
    """Jensen–Shannon divergence of the mean of simulated members and that of the members, in [0, ln 2]."""
    concentration_N: Tensor
    """By mutual information."""
    entropy_concentration_N: Tensor
    """By the variance of entropies."""
    flag_N: Tensor
    """Of the concentrations by mutual information, a position in `natsel.information.dirichlet_fits.FLAGS`."""
    entropy_flag_N: Tensor
    """Of those by entropy variance."""
    bins: tuple[InformationBin, ...]
    """The points in order of their mutual information, in groups of nearly the same size."""

    @property
    def predicted_rmse_N(self) -> Tensor:
        """√(PSV + I²): of a member's entropy around the predictive entropy, as the Dirichlet says."""
        return (self.predicted_variance_N + self.mutual_information_N.square()).sqrt()

    @property
    def empirical_rmse_N(self) -> Tensor:
        """√(ESV + I²): the same of the members."""
        return (self.empirical_variance_N + self.mutual_information_N.square()).sqrt()

    @property
    def concentration_ratio_N(self) -> Tensor:
        """a0 by entropy variance over a0 by mutual information; nan where either is no root (flags)."""
        ratio_N = self.entropy_concentration_N / self.concentration_N
        return ratio_N.masked_fill((self.flag_N != 0) | (self.entropy_flag_N != 0), math.nan)

    @property
    def variance_ratio(self) -> float:
        """Mean ESV over mean PSV; above 1 where members vary more than a Dirichlet says."""
        return float(self.empirical_variance_N.mean() / self.predicted_variance_N.mean())

    @property
    def variance_correlation(self) -> float:
        """Pearson's correlation of PSV and ESV over the points; nan where one of them is the same everywhere."""
        both_2_N = torch.stack([self.predicted_variance_N, self.empirical_variance_N])
        apart_2_N = both_2_N - both_2_N.mean(1, keepdim=True)
        length_2 = apart_2_N.norm(dim=1)
        return float((apart_2_N[0] * apart_2_N[1]).sum() / length_2.prod()) if bool((length_2 > 0).all()) else math.nan

    def __str__(self) -> str:
        head = f"{'mutual information':>19} {'points':>7} {'predicted':>10} {'empirical':>10} {'ratio':>6}"
        lines = [
            f"{each.lowest:9.4f} {each.highest:9.4f} {each.n_points:7d} {each.predicted_variance:10.6f}"
            f" {each.empirical_variance:10.6f} {each.ratio:6.2f}"
            for each in self.bins
        ]
        return "\n".join(["variance of member entropies, by a Dirichlet and of the members", head, *lines])


def dirichlet_fit_report(
    members: CategoricalSamples | IndependentSamples,
    *,
    n_simulated: int | None = None,
    bins: int = 10,
    seed: int | torch.Generator = 0,
) -> DirichletFit:
    """What a Dirichlet with the members' mean and mutual information gets right, and what it misses.

    `n_simulated` members are drawn per point (None: as many as there are).

    >>> probs = [[[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.5, 0.25, 0.25], [0.9, 0.05, 0.05]]]
    >>> report = dirichlet_fit_report(CategoricalSamples.from_probs(probs))
    >>> round(report.predicted_variance_N.item(), 4), round(report.empirical_variance_N.item(), 4)
    (0.0525, 0.0554)
    """
    model = DirichletMembers.fit(members)
    if len(members) == 0:
        raise ValueError("members: found no points; pass at least one")
    if bins < 1:
        raise ValueError(f"bins: expected at least 1, found {bins}; pass how many groups of points to make")
    mean_N_C = model.probs_N_C
    information_N, entropy_N, noise_N, empirical_N = _of_members(members).unbind(1)
    predicted_N = dirichlet_entropy_variance(mean_N_C, model.concentration_N)
    by_entropy_N, entropy_flag_N = dirichlet_concentration_by_entropy_variance(
        mean_N_C, empirical_N, model.concentration_N
    )
    generator = seed if isinstance(seed, torch.Generator) else torch.Generator().manual_seed(seed)
    simulated_N_4 = _simulated(model, members.shape[1] if n_simulated is None else n_simulated, generator)
    return DirichletFit(
        n_draws=members.shape[1],
        mutual_information_N=information_N,
        predicted_variance_N=predicted_N,
        empirical_variance_N=empirical_N,
        predictive_entropy_error_N=simulated_N_4[:, 0] - entropy_N,
        mutual_information_error_N=simulated_N_4[:, 1] - information_N,
        expected_entropy_error_N=simulated_N_4[:, 2] - noise_N,
        mean_divergence_N=simulated_N_4[:, 3],
        concentration_N=model.concentration_N,
        entropy_concentration_N=by_entropy_N,
        flag_N=model.flag_N,
        entropy_flag_N=entropy_flag_N,
        bins=_binned(information_N, predicted_N, empirical_N, bins),
    )


def jensen_shannon_divergence(log_p: Tensor, log_q: Tensor, dim: int = -1) -> Tensor:
    """½ D(p ‖ m) + ½ D(q ‖ m) with m = ½ (p + q), in nats: 0 where p = q, ln 2 where they share no outcome.

    >>> jensen_shannon_divergence(torch.tensor([1.0, 0.0]).log(), torch.tensor([0.0, 1.0]).log())
    tensor(0.6931)
    """
    log_both = torch.logaddexp(log_p, log_q) - math.log(2)
    both = kl_divergence(log_p, log_both, dim) + kl_divergence(log_q, log_both, dim)
    return (0.5 * both).clamp(0, math.log(2))


def _of_members(members: CategoricalSamples | IndependentSamples) -> Tensor:
    """Mutual information, predictive entropy, expected entropy and the variance of entropies, in float64."""
    log_weights_K = members.log_weights_K if isinstance(members, CategoricalSamples) else None
    count, draws, classes = members.shape
    measures = (mutual_information, predictive_entropy, conditional_entropy, entropy_variance)

    def work(part: slice) -> Tensor:
        log_probs_n_K_C = members.log_probs_N_K_C[part].double()
        return torch.stack([measure(log_probs_n_K_C, log_weights_K) for measure in measures], -1)

    return chunked(work, count, 64 * draws * classes, members.device)


def _simulated(model: DirichletMembers, n_draws: int, generator: torch.Generator) -> Tensor:
    """Predictive entropy, mutual information, expected entropy and divergence of the mean of simulated members."""
    parts = []
    for part, log_probs_n_K_C in sample_chunks(model.probs_N_C, model.concentration_N, n_draws, generator):
        values = (
            predictive_entropy(log_probs_n_K_C),
            mutual_information(log_probs_n_K_C),
            conditional_entropy(log_probs_n_K_C),
            jensen_shannon_divergence(log_mean(log_probs_n_K_C), model.log_mean_N_C[part].double()),
        )
        parts.append(torch.stack(values, -1))
    return torch.cat(parts)


def _binned(information_N: Tensor, predicted_N: Tensor, empirical_N: Tensor, bins: int) -> tuple[InformationBin, ...]:
    groups = information_N.argsort(stable=True).tensor_split(min(bins, len(information_N)))
    return tuple(
        InformationBin(
            float(information_N[group].min()),
            float(information_N[group].max()),
            len(group),
            float(predicted_N[group].mean()),
            float(empirical_N[group].mean()),
        )
        for group in groups
    )
