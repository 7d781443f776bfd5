"""What labels do to jointly Gaussian points: the exact posterior of the weights that their features share.

    f = mean + Φ u,  u ~ N(0, I);      V = noise^(−½) Φ_B = P s Qᵀ,   r = noise^(−½) (y − mean_B)

    Cov[u | y] = (I + VᵀV)⁻¹ = T Tᵀ,    T = I − Q (1 − (1+s²)^(−½)) Qᵀ          Φ ← Φ T
    E[u | y]   = Q s/(1+s²) Pᵀ r                                               mean ← mean + Φ E[u | y]
    ln p(y)    = −½ ( Σ ln noise + Σ ln(1+s²) + rᵀ(I+VVᵀ)⁻¹r + B ln 2π )

A thin singular value decomposition serves few labels with many features and many labels with few alike, and nothing of
size D × D is made. Directions that labels settle are scaled, never subtracted, so that no variance falls below 0.
T is one and the same for all points: whoever shares the features shares the update.
docs/theory/joint-predictions.md, 5; docs/theory/epig-jepig.md, 2.
"""

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from natsel.memory import chunked


@dataclass(frozen=True, eq=False)
class Update:
    """T as directions and what each is scaled down by, E[u|y] in the features as they were, and ln p(y).

    `name` tells updates apart: points, noise and labels decide it, and it alone says whether two are the same.
    """

    directions_D_R: Tensor
    loss_R: Tensor
    shift_D: Tensor
    log_evidence: float
    name: str

    def mean(self, features_N_D: Tensor) -> Tensor:
        """Φ E[u | y], one number per point."""
        shift_D = self.shift_D.to(features_N_D.device)
        return _per_point(features_N_D, lambda features_n_D: features_n_D @ shift_D)

    def features(self, features_N_D: Tensor) -> Tensor:
        """Φ T, in the precision of Φ."""
        from natsel.information.conditioning.settled import scaled_down  # only where there are labels

        directions_D_R, loss_R = (part.to(features_N_D.device) for part in (self.directions_D_R, self.loss_R))
        return _per_point(features_N_D, lambda part: scaled_down(part, directions_D_R, loss_R), features_N_D.dtype)


def gaussian_update(features_B_D: Tensor, noise_B: Tensor, residual_B: Tensor) -> Update:
    """What labels at B points, less what was expected of them, tell about the shared weights.

    >>> one = torch.ones(1, 1, dtype=torch.float64)
    >>> gaussian_update(one, one[0], one[0]).shift_D.tolist()
    [0.5]
    """
    from natsel.information.conditioning.settled import lost

    features_B_D, noise_B, residual_B = (part.double() for part in (features_B_D, noise_B, residual_B))
    scale_B = noise_B.rsqrt()
    left_B_R, s_R, right_R_D = torch.linalg.svd(features_B_D * scale_B[:, None], full_matrices=False)
    whitened_B = residual_B * scale_B
    along_R = left_B_R.T @ whitened_B
    across_B = whitened_B - left_B_R @ along_R
    grown_R = 1 + s_R.square()
    misfit = across_B.square().sum() + (along_R.square() / grown_R).sum()
    log_evidence = -0.5 * (noise_B.log().sum() + grown_R.log().sum() + misfit + len(noise_B) * math.log(2 * math.pi))
    shift_D = right_R_D.T @ (s_R / grown_R * along_R)
    name = short_name(features_B_D, noise_B, residual_B)
    return Update(right_R_D.T.contiguous(), lost(s_R.square()), shift_D, float(log_evidence), name)


def short_name(*parts: Tensor) -> str:
    """A short name for numbers: the same for the same ones.

    >>> short_name(torch.zeros(2)) == short_name(torch.zeros(2))
    True
    """
    digest = hashlib.blake2b(digest_size=6)
    for part in parts:
        digest.update(part.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def _per_point(features_N_D: Tensor, work: Callable[[Tensor], Tensor], dtype: torch.dtype = torch.float64) -> Tensor:
    count, width = features_N_D.shape
    return chunked(lambda part: work(features_N_D[part].double()).to(dtype), count, 32 * width, features_N_D.device)
