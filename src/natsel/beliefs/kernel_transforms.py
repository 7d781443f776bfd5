"""Transforms of kernels: values that change the features of pool and labelled points together, and compose.

    k(x, x') = Φ(x)·Φ(x')        Φ_L, Φ_P: features of the labelled points and of the pool;  σ²: the noise

    Scale                  Φ ← Φ/√s,   s = mean of |Φ_n|² over the labelled points
    ConditionOn            k ← k − k(x, X)(k(X, X) + σ²I)⁻¹k(X, x'):   Φ ← Φ T,  T Tᵀ = (I + Φ_Xᵀ Φ_X/σ²)⁻¹
    RandomProjection       Φ ← Φ Π/√q,   Π_dj ~ N(0, 1):   the kernel stays right on average
    sum_of_kernels         k ← Σ_m k_m:   features side by side
    ACSFeatures            the expected log-likelihood of a label at x under q functions drawn from the posterior:

        noise known     q^(−½) [½ ln(1 + v/σ²) − (z_j² + v)/(2σ²)]_j          v = k_post(x, x),  z_j ~ GP(0, k_post)
        noise learnt    q^(−½) [−½ ln 2π − ½ (z_j² + ν)]_j                    z_j ~ GP(0, φ Σ φᵀ)
                        Σ = (Φ_Lᵀ Φ_L + I)⁻¹,   m = Σ Φ_Lᵀ y,   ν = (b/a)(1 + φ Σ φᵀ)
                        a = 1 + T/2,   b = 1 + ½ (|y|² − mᵀ Σ⁻¹ m)      y: T labels, less what was expected of them

Inner products of ACS features approximate those of log-likelihoods, which is what `acs-fw` wants; they are no
covariances of labels any more. All other transforms keep the mean of each point, and its noise.
docs/theory/black-box.md; Kirsch 2023, black-box batch active learning; Pinsler et al. 2019.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, cast

import torch
from torch import Tensor

from natsel.beliefs.base import Belief
from natsel.beliefs.fisher import FisherBelief
from natsel.beliefs.gaussian import GaussianFeatures, GaussianSamples
from natsel.beliefs.targets import Targets
from natsel.memory import chunked, require
from natsel.seeds import derive

Labelled = Belief | Targets[Belief] | None
"""Points whose labels are known: a belief about them, with `natsel.Targets(belief, labels=…)` the labels as well."""

Pair = tuple[GaussianFeatures, GaussianFeatures | None]
"""Pool and labelled points after a transform; None where no labelled points were given."""

KernelTransform = Callable[[Belief, Labelled], Pair]

# Rows of a random projection that are drawn at a time; part of what decides the numbers, so never changed by memory.
_BLOCK = 4096


@dataclass(frozen=True)
class Scale:
    """Features divided by the root of their mean squared length over the labelled points, else over the pool.

    The noise stays as it is, so that information counts in units of a kernel of mean 1. Features that are all 0 stay.

    >>> pool, _ = Scale()(GaussianFeatures([[3.0], [6.0]]), GaussianFeatures([[2.0], [2.0]]))
    >>> pool.features_N_D.tolist()
    [[1.5], [3.0]]
    """

    def __call__(self, pool: Belief, labelled: Labelled = None) -> Pair:
        """Both after the transform."""
        ours, theirs = as_features(pool), _features_of(labelled)
        by = ours if theirs is None or len(theirs) == 0 else theirs
        size = float(_squared_lengths(by.features_N_D).mean()) if len(by) else 0.0
        if size == 0:
            return ours, theirs
        name = f"scaled by {size:.17g}"
        return _both(ours, theirs, lambda belief: _changed(belief, belief.features_N_D / math.sqrt(size), name))


@dataclass(frozen=True)
class ConditionOn:
    """The posterior kernel, once the labels of other points are known: "labelled" or "pool".

    A Gaussian process or a last layer that was fitted to the labels is conditioned on them already.

    >>> pool, _ = ConditionOn("labelled")(GaussianFeatures([[1.0]]), GaussianFeatures([[1.0]]))
    >>> pool.features_N_D.square().round(decimals=6).tolist()
    [[0.5]]
    """

    points: Literal["labelled", "pool"]

    def __post_init__(self) -> None:
        if self.points not in ("labelled", "pool"):
            raise ValueError(f"points: expected 'labelled' or 'pool', found {self.points!r}; choose one of them")

    def __call__(self, pool: Belief, labelled: Labelled = None) -> Pair:
        """Both after the transform."""
        ours, theirs = as_features(pool), _features_of(labelled)
        if self.points == "labelled" and theirs is None:
            raise ValueError("labelled: found none to condition on; pass a belief about the labelled points")
        known = ours if self.points == "pool" else cast("GaussianFeatures", theirs)
        return (ours, theirs) if len(known) == 0 else _both(ours, theirs, lambda belief: belief.given(known))


@dataclass(frozen=True)
class RandomProjection:
    """Features mixed into `size` columns by Gaussian numbers, the same for all points of one seed.

    >>> pool, _ = RandomProjection(3)(GaussianFeatures([[1.0, 2.0]]))
    >>> pool.features_N_D.shape
    torch.Size([1, 3])
    """

    size: int
    seed: int = 0

    def __post_init__(self) -> None:
        _check_size(self.size)

    def __call__(self, pool: Belief, labelled: Labelled = None) -> Pair:
        """Both after the transform."""
        ours, theirs = as_features(pool), _features_of(labelled)
        name = f"projected to {self.size} by seed {self.seed}"
        return _both(
            ours, theirs, lambda belief: _changed(belief, projected(belief.features_N_D, self.size, self.seed), name)
        )


@dataclass(frozen=True)
class ACSFeatures:
    """Log-likelihoods of labels under `size` functions drawn from the posterior, for `acs-fw`.

    The noise is "known" (that of the belief), or "learnt" together with the weights, which needs the labels:
    `natsel.Targets(belief, labels=…)`. Without labelled points the functions come from the prior.

    >>> pool, _ = ACSFeatures(5)(GaussianFeatures([[1.0], [2.0]]), GaussianFeatures([[1.0]]))
    >>> pool.features_N_D.shape
    torch.Size([2, 5])
    """

    size: int
    seed: int = 0
    noise: Literal["known", "learnt"] = "known"

    def __post_init__(self) -> None:
        _check_size(self.size)
        if self.noise not in ("known", "learnt"):
            raise ValueError(f"noise: expected 'known' or 'learnt', found {self.noise!r}; choose one of them")

    def __call__(self, pool: Belief, labelled: Labelled = None) -> Pair:
        """Both after the transform."""
        ours, theirs = as_features(pool), _features_of(labelled)
        posterior, mean_noise = self._posterior(theirs, labelled)
        generator = torch.Generator().manual_seed(derive(self.seed, "acs", self.size))
        draws_D_Q = torch.randn(ours.features_N_D.shape[1], self.size, generator=generator, dtype=torch.float64)
        name = f"acs features {self.size} {self.noise} by seed {self.seed}"

        def embedded(belief: GaussianFeatures) -> GaussianFeatures:
            after = posterior(belief)
            draws = draws_D_Q.to(belief.device)

            def work(part: slice) -> Tensor:
                features_n_D = after.features_N_D[part].double()
                z_n_Q, variance_n = features_n_D @ draws, features_n_D.square().sum(1)
                if mean_noise is None:
                    return expected_log_likelihoods(z_n_Q, variance_n, belief.noise_N[part])
                return expected_log_likelihoods_learnt(z_n_Q, mean_noise * (1 + variance_n))

            width = 8 * (features := belief.features_N_D.shape[1]) + 24 * self.size
            found_N_Q = chunked(work, len(belief), width + 8 * features, belief.device)
            draws_id = None if after.draws_id is None else f"{after.draws_id} {name}"
            return GaussianFeatures._own(found_N_Q, 1.0, draws_id, belief.ids)

        return _both(ours, theirs, embedded)

    def _posterior(
        self, theirs: GaussianFeatures | None, labelled: Labelled
    ) -> tuple[Callable[[GaussianFeatures], GaussianFeatures], float | None]:
        """What becomes of features once the labelled points are known, and b/a where the noise is learnt."""
        if self.noise == "known":
            return (lambda belief: belief if theirs is None or len(theirs) == 0 else belief.given(theirs)), None
        labels_T = labelled.labels_M if isinstance(labelled, Targets) else None
        if theirs is None or labels_T is None:
            raise ValueError(
                "labelled: noise='learnt' is learnt from labels, found none; pass natsel.Targets(belief, labels=labels)"
            )
        unit = GaussianFeatures._own(theirs.features_N_D, 1.0, theirs.draws_id, theirs.ids)
        residual_T = labels_T.double() - theirs.mean_N
        design_T_D = theirs.features_N_D.double()
        # |y|² − mᵀ Σ⁻¹ m = yᵀ (I + Φ Φᵀ)⁻¹ y, by the smaller of the two matrices that say the same.
        left_T_R, s_R, _ = torch.linalg.svd(design_T_D, full_matrices=False)
        along_R = left_T_R.T @ residual_T
        misfit = (residual_T - left_T_R @ along_R).square().sum() + (along_R.square() / (1 + s_R.square())).sum()
        a, b = 1 + len(residual_T) / 2, 1 + float(misfit) / 2
        return (lambda belief: belief.given(unit)), b / a


@dataclass(frozen=True, init=False)
class Transforms:
    """Several transforms, one after the other; the first is applied first.

    >>> pool, labelled = Transforms(Scale(), RandomProjection(2))(GaussianFeatures([[1.0]]), GaussianFeatures([[2.0]]))
    >>> pool.features_N_D.shape, labelled.features_N_D.shape
    (torch.Size([1, 2]), torch.Size([1, 2]))
    """

    steps: tuple[KernelTransform, ...]

    def __init__(self, *steps: KernelTransform) -> None:
        wrong = next((step for step in steps if not callable(step) or isinstance(step, type)), None)
        if wrong is not None:
            raise ValueError(f"steps: expected transforms such as Scale(), found {wrong!r}; pass values")
        object.__setattr__(self, "steps", steps)

    def __call__(self, pool: Belief, labelled: Labelled = None) -> Pair:
        """Both after all transforms."""
        ours, theirs = as_features(pool), _features_of(labelled)
        labels = labelled.labels_M if isinstance(labelled, Targets) else None
        for step in self.steps:
            known = theirs if theirs is None or labels is None else Targets(theirs, labels=labels)
            ours, theirs = step(ours, known)
        return ours, theirs


def transforms_called(text: str) -> Transforms:
    """Transforms by their names: scale, condition-on-labelled, condition-on-pool, project-512, acs-512,
    acs-learnt-512, with commas between them.

    >>> transforms_called("scale, project-512")
    Transforms(steps=(Scale(), RandomProjection(size=512, seed=0)))
    """
    return Transforms(*(_called(name.strip()) for name in text.split(",") if name.strip()))


def sum_of_kernels(beliefs: Sequence[Belief]) -> GaussianFeatures:
    """The belief whose kernel is the sum of several about the same points: that of a sum of independent functions.

    Covariances, means and noise add.

    >>> both = sum_of_kernels([GaussianFeatures([[1.0]], noise=0.5), GaussianFeatures([[2.0]], noise=0.5)])
    >>> both.features_N_D.tolist(), both.noise_N.tolist()
    ([[1.0, 2.0]], [1.0])
    """
    if not beliefs:
        raise ValueError("beliefs: found none; pass one or more about the same points")
    parts = [as_features(belief) for belief in beliefs]
    for part in parts[1:]:
        if len(part) != len(parts[0]) or (part.ids != parts[0].ids).any():
            raise ValueError("beliefs: they are about different points; predict the same points with each model")
    names = [part.draws_id for part in parts]
    features_N_D = torch.cat([part.features_N_D.double() for part in parts], 1)
    return GaussianFeatures._own(
        features_N_D,
        torch.stack([part.noise_N for part in parts]).sum(0),
        None if None in names else " + ".join(map(str, names)),
        parts[0].ids,
        torch.stack([part.mean_N for part in parts]).sum(0),
    )


def as_features(belief: Belief) -> GaussianFeatures:
    """A belief as features whose inner products are covariances.

    Draws are centred; one row per point of weight space becomes V L⁻ᵀ with L Lᵀ = H, in units of the noise.

    >>> as_features(GaussianSamples([[0.0, 2.0]], 0.5)).features_N_D.square().sum().round(decimals=6).item()
    1.0
    """
    if isinstance(belief, GaussianFeatures):
        return belief
    if isinstance(belief, GaussianSamples):
        return belief.features()
    if isinstance(belief, FisherBelief) and belief.factors.n_rows == 1:
        factors, precision = belief.factors, belief.precision
        count, weights = len(factors), factors.n_weights
        require(8 * count * weights, f"belief: features of {count} points × {weights} weights", "use a sketch")

        def work(part: slice) -> Tensor:
            return precision.white(factors.explicit(part)[:, 0])

        found_N_D = chunked(work, count, 32 * weights, belief.device)
        return GaussianFeatures._own(found_N_D, 1.0, belief.draws_id, belief.ids)
    found = type(belief).__name__
    if isinstance(belief, FisherBelief):
        found += f" with {belief.factors.n_rows} rows per point"
    raise ValueError(
        f"belief: kernel transforms are of one number per point, found {found}; pass GaussianSamples, GaussianFeatures,"
        " or a belief of weight space with one output"
    )


def projected(features_N_D: Tensor, size: int, seed: int) -> Tensor:
    """Φ Π/√q in float64; Π is drawn in blocks of features, each from (seed, block), and never held whole.

    >>> projected(torch.ones(2, 9), 4, seed=0).shape
    torch.Size([2, 4])
    """
    count, width = features_N_D.shape
    found_N_Q = torch.zeros(count, size, dtype=torch.float64, device=features_N_D.device)
    for number, start in enumerate(range(0, width, _BLOCK)):
        generator = torch.Generator().manual_seed(derive(seed, "project", size, number))
        block_d_Q = torch.randn(_BLOCK, size, generator=generator, dtype=torch.float64).div_(math.sqrt(size))
        part_N_d = features_N_D[:, start : start + _BLOCK].double()
        found_N_Q.addmm_(part_N_d, block_d_Q[: part_N_d.shape[1]].to(features_N_D.device))
    return found_N_Q


def expected_log_likelihoods(z_N_Q: Tensor, variance_N: Tensor, noise_N: Tensor) -> Tensor:
    """q^(−½) [½ ln(1 + v/σ²) − (z² + v)/(2σ²)]: one column per function drawn.

    >>> one = torch.ones(1, dtype=torch.float64)
    >>> expected_log_likelihoods(one[:, None], one, one).round(decimals=4).item()
    -0.6534
    """
    ratio_N_1 = (variance_N / noise_N)[:, None]
    whole_N_Q = 0.5 * ratio_N_1.log1p() - 0.5 * (z_N_Q.square() / noise_N[:, None] + ratio_N_1)
    return whole_N_Q / math.sqrt(z_N_Q.shape[1])


def expected_log_likelihoods_learnt(z_N_Q: Tensor, predicted_N: Tensor) -> Tensor:
    """q^(−½) [−½ ln 2π − ½ (z² + ν)], with ν the predicted variance of a label.

    >>> one = torch.ones(1, dtype=torch.float64)
    >>> expected_log_likelihoods_learnt(one[:, None], one).round(decimals=4).item()
    -1.9189
    """
    whole_N_Q = -0.5 * (math.log(2 * math.pi) + z_N_Q.square() + predicted_N[:, None])
    return whole_N_Q / math.sqrt(z_N_Q.shape[1])


def _features_of(labelled: Labelled) -> GaussianFeatures | None:
    belief = labelled.belief if isinstance(labelled, Targets) else labelled
    return None if belief is None else as_features(belief)


def _both(
    pool: GaussianFeatures, labelled: GaussianFeatures | None, change: Callable[[GaussianFeatures], GaussianFeatures]
) -> Pair:
    if labelled is not None and labelled.features_N_D.shape[1] != pool.features_N_D.shape[1]:
        raise ValueError(
            f"labelled: they have {labelled.features_N_D.shape[1]} features and the pool {pool.features_N_D.shape[1]};"
            " believe about both with one fitted model"
        )
    return change(pool), None if labelled is None else change(labelled)


def _changed(belief: GaussianFeatures, features_N_D: Tensor, how: str) -> GaussianFeatures:
    """The belief with other features, in a space of its own name: beliefs of the old one do not belong to it."""
    draws_id = None if belief.draws_id is None else f"{belief.draws_id} {how}"
    return GaussianFeatures._own(features_N_D, belief.noise_N, draws_id, belief.ids, belief.mean_N)


def _squared_lengths(features_N_D: Tensor) -> Tensor:
    work = lambda part: features_N_D[part].double().square().sum(1)  # noqa: E731
    return chunked(work, len(features_N_D), 16 * features_N_D.shape[1], features_N_D.device)


def _check_size(size: int) -> None:
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise ValueError(f"size: expected a number of features from 1 on, found {size!r}; 512 is usual")


def _called(name: str) -> KernelTransform:
    plain: dict[str, KernelTransform] = {
        "scale": Scale(),
        "condition-on-labelled": ConditionOn("labelled"),
        "condition-on-pool": ConditionOn("pool"),
    }
    if name in plain:
        return plain[name]
    found = re.fullmatch(r"(project|acs|acs-learnt)-([1-9]\d*)", name)
    if found is None:
        raise ValueError(
            f"transforms: found {name!r}; expected {', '.join(plain)}, project-512, acs-512 or acs-learnt-512, with"
            " commas between them"
        )
    kind, size = found[1], int(found[2])
    return RandomProjection(size) if kind == "project" else ACSFeatures(size, noise=_ACS_NOISE[kind])


_ACS_NOISE: dict[str, Literal["known", "learnt"]] = {"acs": "known", "acs-learnt": "learnt"}
