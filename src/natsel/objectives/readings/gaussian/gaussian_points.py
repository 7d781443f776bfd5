"""Gaussian beliefs as points with features, and how far labels of two such points are correlated.

Draws of Gaussians are moment-matched: Φ_nk = √w_k (mean_nk − Σ_k w_k mean_nk) and noise E v.
docs/theory/epig-jepig.md, 6.
"""

import torch
from torch import Tensor

from natsel.beliefs import GaussianFeatures, GaussianSamples, Targets
from natsel.information.conditioning.conditioned_features import Centred, ConditionedFeatures, Features
from natsel.information.conditioning.settled import Settled, settled_by
from natsel.memory import chunked, rows_per_chunk

Gaussian = GaussianFeatures | GaussianSamples

# Why scores of moment-matched draws are upper bounds.
MOMENTS = "no law with the mixture's moments has more entropy than the normal"
BY_MOMENTS = "the draws are read as a normal with their moments"
# Shares of noise this small, and correlations this near to 1, leave 1 − ρ² too few digits.
_SMALL, _NEAR = 1e-6, 1e-3


def points_and_targets(belief: Gaussian, targets: Targets[Gaussian]) -> tuple[ConditionedFeatures, ConditionedFeatures]:
    """Pool and targets that count as jointly Gaussian points in one space of features, draws moment-matched.

    >>> belief = GaussianFeatures([[1.0, 0.0]])
    >>> points_and_targets(belief, Targets(belief))[1].start_N.tolist()
    [1.0]
    """
    counted = None if targets.weights_M is None else targets.weights_M.nonzero()[:, 0]
    # Targets of weight 0 are not looked at.
    some = targets.belief if counted is None or len(counted) == len(targets.belief) else targets.belief[counted]
    pool, other = points_of(belief), points_of(some.to(belief.device))
    if pool.features_N_D.shape[1] != other.features_N_D.shape[1]:
        raise ValueError(
            f"targets: they have {other.features_N_D.shape[1]} features and the pool {pool.features_N_D.shape[1]};"
            " believe about both with one fitted model, natsel.models.believe_both"
        )
    return pool, other


def points_of(belief: Gaussian) -> ConditionedFeatures:
    """The points of a belief, draws moment-matched.

    >>> points_of(GaussianFeatures([[2.0]], noise=0.5)).start_N.tolist()
    [4.0]
    """
    return ConditionedFeatures(*moments_of(belief))


def moments_of(belief: Gaussian) -> tuple[Features, Tensor]:
    """Features, and noise of each point; those of draws have their moments, and noise E v.

    >>> moments_of(GaussianSamples([[0.0, 2.0]], [[0.5, 0.5]]))[1].tolist()
    [0.5]
    """
    if isinstance(belief, GaussianFeatures):
        return belief.features_N_D, belief.noise_N
    weights_K, variance_N_K = belief.log_weights_K.exp(), belief.variance_N_K
    count, draws = variance_N_K.shape
    noise_N = chunked(lambda part: variance_N_K[part].double() @ weights_K, count, 16 * draws, belief.device)
    return Centred(belief.mean_N_K, weights_K), noise_N


def known_from(given: Targets[Gaussian] | None, features_N_D: Features) -> Settled | None:
    """What labels at the points given settle, all at once; None where none are given.

    >>> features_N_D = torch.ones(1, 1)
    >>> known_from(Targets(GaussianFeatures([[2.0]])), features_N_D).strength_R.tolist()
    [4.0]
    """
    if given is None:
        return None
    held_T_D, noise_T = moments_of(given.belief)
    count, width = held_T_D.shape
    if width != features_N_D.shape[1]:
        raise ValueError(
            f"given: they have {width} features and the pool {features_N_D.shape[1]}; believe about both with one"
            " fitted model"
        )

    def rows(part: slice) -> Tensor:
        return held_T_D[part].double() * noise_T[part].rsqrt()[:, None]

    return settled_by(rows, count, width, noise_T.device, sharp=True, name="given")


def log_open(white_n_D: Tensor, white_m_D: Tensor, open_n: Tensor, open_m: Tensor) -> Tensor:
    """ln(1 − ρ²) of labels with labels, [n, m], from features over the deviation of a label and the share of noise.

        1 − ρ² = o_n + (1 − o_n) o_m + ‖a‖²‖b‖² − (a·b)²,      a, b: features,  ‖a‖² = 1 − o_n

    The last two terms are never negative. Where almost all variance is shared and noise is small they are a difference
    of equal numbers, and are taken as ‖b‖² ‖a − (a·b/‖b‖²) b‖², pair by pair.

    >>> one = torch.ones(1, 1, dtype=torch.float64) / 2**0.5
    >>> log_open(one, one, torch.tensor([0.5]), torch.tensor([0.5])).exp()
    tensor([[0.7500]], dtype=torch.float64)
    """
    share_n_m = (white_n_D @ white_m_D.T).square_()
    if share_n_m.numel() == 0 or max(float(open_n.min()), float(open_m.min())) > _SMALL:
        return share_n_m.clamp_max_(1).neg_().log1p_()
    near_X_2 = (share_n_m > 1 - _NEAR).nonzero()
    found_n_m = share_n_m.clamp_max_(1).neg_().log1p_()
    for some_x_2 in torch.split(near_X_2, rows_per_chunk(32 * white_n_D.shape[1], white_n_D.device)):
        row_x, column_x = some_x_2.unbind(1)
        a_x_D, b_x_D = white_n_D[row_x], white_m_D[column_x]
        length_x = b_x_D.square().sum(1)
        apart_x_D = a_x_D - ((a_x_D * b_x_D).sum(1) / length_x)[:, None] * b_x_D
        noise_x = open_n[row_x] + (1 - open_n[row_x]) * open_m[column_x]
        found_n_m[row_x, column_x] = (noise_x + length_x * apart_x_D.square().sum(1)).log()
    return found_n_m
