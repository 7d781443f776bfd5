"""What labels at many points tell about shared weights, all at once: directions, and how much of each is known.

    V diag(σ²) Vᵀ = Σ_b φ_b φ_bᵀ / noise_b            singular vectors and values of Φ/√noise

    u ~ N(0, I)  →  Cov[u | labels] = I − V diag(σ²/(1+σ²)) Vᵀ = T Tᵀ,    T = I − V (1 − (1+σ²)^(−½)) Vᵀ
    Var f_n falls by  Σ_r σ_r²/(1+σ_r²) (φ_n·v_r)²,      φ_n ← φ_n T,      nats = ½ Σ_r ln(1 + σ_r²)

A thin decomposition serves few labels with many features and many with few alike; nothing of size D × D is made unless
there are more labels than features. Directions that labels settle are scaled, never subtracted, so that no variance
falls below 0.  docs/theory/epig-jepig.md, 6; docs/theory/joint-predictions.md, 5.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from natsel.information.weights.explained import triangle
from natsel.memory import require, rows_per_chunk


@dataclass(frozen=True, eq=False)
class Settled:
    """Directions v_r of the weights as rows, and σ_r², the precision that labels gained along each.

    >>> Settled(torch.tensor([[1.0, 0.0]]), torch.tensor([3.0])).scaled_down(torch.tensor([[2.0, 5.0]])).tolist()
    [[1.0, 5.0]]
    """

    vectors_R_D: Tensor
    strength_R: Tensor

    @property
    def nats(self) -> float:
        """½ Σ ln(1 + σ²): what all the labels tell together."""
        return 0.5 * float(self.strength_R.log1p().sum())

    def explained(self, features_n_D: Tensor) -> Tensor:
        """How much of Var f goes, n values that are never negative."""
        return (features_n_D @ self.vectors_R_D.T).square() @ (self.strength_R / (1 + self.strength_R))

    def along(self, features_D: Tensor) -> Tensor:
        """φ V diag(σ²/(1+σ²)) Vᵀ of one point, [D], or of some, [n, D]."""
        share_R = self.strength_R / (1 + self.strength_R)
        found_D: Tensor = ((features_D @ self.vectors_R_D.T) * share_R) @ self.vectors_R_D
        return found_D

    def scaled_down(self, features_n_D: Tensor) -> Tensor:
        """Features under what is known: φ T."""
        return scaled_down(features_n_D, self.vectors_R_D.T, lost(self.strength_R))


def lost(strength_R: Tensor) -> Tensor:
    """1 − (1+σ²)^(−½), the share by which a direction is scaled down, without cancellation where σ is small.

    >>> lost(torch.tensor([3.0])).item()
    0.5
    """
    return strength_R / (1 + strength_R + (1 + strength_R).sqrt())


def scaled_down(features_n_D: Tensor, vectors_D_R: Tensor, lost_R: Tensor) -> Tensor:
    """Features less a share of them along each of some orthonormal vectors.

    >>> scaled_down(torch.tensor([[2.0, 5.0]]), torch.tensor([[1.0], [0.0]]), torch.tensor([0.5])).tolist()
    [[1.0, 5.0]]
    """
    return features_n_D - ((features_n_D @ vectors_D_R) * lost_R) @ vectors_D_R.T


def settled_by(
    rows: Callable[[slice], Tensor],
    count: int,
    width: int,
    device: torch.device,
    sharp: bool = False,
    name: str = "targets",
) -> Settled:
    """What labels at `count` points tell; `rows` gives φ/√noise of some of them in float64.

    `name` is the argument that they came by. `sharp` keeps the digits of weak directions beside strong ones, which sums
    of squares would lose, at twice the cost.

    >>> settled_by(lambda part: torch.tensor([[4.0, 0.0]])[part].double(), 1, 2, torch.device("cpu")).strength_R
    tensor([16.], dtype=torch.float64)
    """
    # Copies that a decomposition works with: seven for singular values, four for eigenvalues.
    copies, side = (7, count) if count <= width else (7 if sharp else 4, width)
    require(
        8 * copies * side * width,
        f"{name}: {copies} matrices of {side} × {width} for what {count} of them tell together",
        f"pass fewer {name}" if count <= width else "use fewer features",
    )
    if count <= width:
        _, singular_R, vectors_R_D = torch.linalg.svd(rows(slice(None)), full_matrices=False)
        return Settled(vectors_R_D, singular_R.square())
    if sharp:
        _, singular_D, vectors_D_D = torch.linalg.svd(triangle(rows, count, width, device))
        return Settled(vectors_D_D, singular_D.square())
    precision_D_D = torch.zeros(width, width, dtype=torch.float64, device=device)
    step = rows_per_chunk(16 * width, device)
    for start in range(0, count, step):
        rows_m_D = rows(slice(start, start + step))
        precision_D_D.addmm_(rows_m_D.T, rows_m_D)
    strength_D, vectors_D_D = torch.linalg.eigh(precision_D_D)
    return Settled(vectors_D_D.T, strength_D.clamp_min_(0))
