"""How good estimated effects are, and which points were acquired to estimate them.

    √PEHE             = √ mean_n (τ̂_n − τ_n)²          precision in estimation of heterogeneous effects, lower is better
    error of the ATE  = |mean_n τ̂_n − mean_n τ_n|      average treatment effect
    sign error rate   = share of points with sign τ̂_n ≠ sign τ_n, of those whose true effect is not 0
    policy risk       = mean_n [ max(μ0_n, μ1_n) − μ_πn ],  π_n = 1 where τ̂_n > 0        what treating by τ̂ gives away

Test points without overlap count in all of these, though no data can tell their effect: judge points with overlap too
(`natsel.causal.positivity`), and say which numbers are which.
docs/theory/causal-bald.md; Hill 2011; Shalit et al. 2017.
"""

from contextlib import suppress
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from natsel.beliefs import Belief
from natsel.causal.data import treatment_last, treatment_of
from natsel.causal.propensity import Propensity
from natsel.data.frames import FrameRows, by_position
from natsel.data.labels import Array, as_numpy
from natsel.options import Rows, warn


def pehe(effect_N: Rows, true_effect_N: Rows, outcome_scale: float = 1.0) -> float:
    """√PEHE, the root of the mean squared error of effects.

    `outcome_scale` multiplies the estimates: the deviation by which outcomes were divided before the model was fitted.

    >>> pehe([1.0, 3.0], [1.0, 1.0])  # √2
    1.414213562373095...
    """
    scale: Any = outcome_scale
    if not isinstance(scale, Real) or not 0 < float(scale) < np.inf:
        raise ValueError(
            f"outcome_scale: expected a deviation above 0, found {outcome_scale}; 1 leaves effects as they are"
        )
    effect_N, true_N = _numbers(effect_N=effect_N, true_effect_N=true_effect_N)
    return float(np.sqrt(np.mean((outcome_scale * effect_N - true_N) ** 2)))


def ate_error(effect_N: Rows, true_effect_N: Rows) -> float:
    """The absolute error of the average effect.

    >>> ate_error([1.0, 3.0], [1.0, 1.0])
    1.0
    """
    effect_N, true_N = _numbers(effect_N=effect_N, true_effect_N=true_effect_N)
    return float(abs(effect_N.mean() - true_N.mean()))


def sign_error_rate(effect_N: Rows, true_effect_N: Rows) -> float:
    """The share of points whose effect has the wrong sign; points whose true effect is 0 do not count.

    >>> sign_error_rate([1.0, 3.0, -2.0], [1.0, -1.0, 0.0])
    0.5
    """
    effect_N, true_N = _numbers(effect_N=effect_N, true_effect_N=true_effect_N)
    wrong = np.sign(effect_N) != np.sign(true_N)
    return float(wrong[true_N != 0].mean()) if (true_N != 0).any() else 0.0


def policy_risk(effect_N: Rows, mean0_N: Rows, mean1_N: Rows, *, higher_is_better: bool = True) -> float:
    """The mean outcome that is given away by treating where the effect is above 0, against the best treatment of each.

    With `higher_is_better=False` (outcomes such as pain) points are treated where the effect is below 0.

    >>> policy_risk([1.0, -1.0], mean0_N=[0.0, 0.0], mean1_N=[2.0, 3.0])  # the second should have been treated
    1.5
    """
    effect_N, mean0_N, mean1_N = _numbers(effect_N=effect_N, mean0_N=mean0_N, mean1_N=mean1_N)
    side = 1 if higher_is_better else -1
    chosen_N = np.where(side * effect_N > 0, mean1_N, mean0_N)
    return float(np.mean(np.maximum(side * mean0_N, side * mean1_N) - side * chosen_N))


@dataclass(frozen=True)
class AcquiredOverlap:
    """How well acquired points let the two treatments be compared.

    counterfactual_propensity   mean probability of the treatment not received, 1 − P(t | x): high where both occur
    distance                    1-Wasserstein distance between treated and untreated points: 0 where they are alike
    entropy                     of the histogram of a feature, as a share of its maximum: 1 where points spread evenly

    Distance and entropy are means over features; the distance is NaN where only one treatment occurs, the entropy where
    no point lies in the range.
    """

    counterfactual_propensity: float
    distance: float
    entropy: float


def overlap_of(
    inputs: Rows,
    propensity_N: Rows,
    *,
    support: tuple[float, float] = (-2.0, 2.0),
    bins: int = 16,
    treatment: str | int = "treatment",
) -> AcquiredOverlap:
    """How well points [x, t] with P(t = 1 | x) let the two treatments be compared.

    The entropy is that of so many equal bins over `support`, with points outside left out. Pictures have no useful
    distance per pixel: pass a few features of them, natsel.causal.with_treatment(features, treatment).

    >>> overlap_of([[-1.0, 0], [1.0, 1]], [0.25, 0.5], treatment=-1)
    AcquiredOverlap(counterfactual_propensity=0.375, distance=2.0, entropy=0.25)
    """
    from scipy.stats import wasserstein_distance

    if bins < 2 or not support[0] < support[1]:
        raise ValueError(f"support: expected (low, high) and at least 2 bins, found {support} and {bins}; 16 are usual")
    table_N_D = np.asarray(treatment_last(inputs, treatment), dtype=np.float64)
    treatment_N = treatment_of(table_N_D, -1)
    propensity_N, _ = _numbers(propensity_N=_probabilities(propensity_N, "propensity_N"), inputs=treatment_N)
    treated_N = treatment_N == 1
    features = table_N_D[:, :-1].T
    if not np.isfinite(features).all():
        raise ValueError("inputs: found NaN or infinity among the features; fill gaps in, or leave these points out")
    distance = float("nan")
    if 0 < treated_N.sum() < len(treated_N):
        distance = float(np.mean([wasserstein_distance(x_N[treated_N], x_N[~treated_N]) for x_N in features]))
    counts = [np.histogram(x_N, bins=bins, range=support)[0] for x_N in features]
    return AcquiredOverlap(
        float(np.where(treated_N, 1 - propensity_N, propensity_N).mean()),
        distance,
        float(np.mean([_entropy_share(counts_B) for counts_B in counts])),
    )


def positivity(propensity_or_inputs: Any, lowest: float = 0.05, *, treatment: str | int = "treatment") -> Array:
    """Which points have overlap (True): P(t = 1 | x) from `lowest` to 1 − `lowest`; warns of the share that have not.

    Takes one propensity per point, or inputs [x, t], for which a logistic regression estimates them. Where there is no
    overlap, data cannot tell the effect.

    >>> positivity([0.4, 0.6]).tolist()
    [True, True]
    """
    if not 0 < lowest < 0.5:
        raise ValueError(f"lowest: expected a probability between 0 and 0.5, found {lowest}; 0.05 is usual")
    given = by_position(propensity_or_inputs)
    if isinstance(given, FrameRows) or as_numpy(given).ndim == 2:
        given = Propensity(treatment=treatment).fit(given)(given)
    propensity_N = _probabilities(given, "propensity_or_inputs")
    overlap_N: Array = (propensity_N >= lowest) & (propensity_N <= 1 - lowest)
    if not overlap_N.all():
        warn(
            f"{1 - overlap_N.mean():.1%} of {len(overlap_N)} points have a propensity outside [{lowest:g},"
            f" {1 - lowest:g}]: nearly all points like them received the same treatment, and the effect there is a"
            " guess; leave them out, or report effects without them"
        )
    return overlap_N


def _probabilities(column: Any, name: str) -> Array:
    (found_N,) = _numbers(**{name: column})
    if not ((found_N >= 0) & (found_N <= 1)).all():
        raise ValueError(f"{name}: expected probabilities from 0 to 1, found others; pass P(t = 1 | x)")
    return found_N


def _entropy_share(counts_B: Array) -> float:
    if not counts_B.sum():
        return float("nan")
    shares = counts_B[counts_B > 0] / counts_B.sum()
    return float(-(shares * np.log(shares)).sum() / np.log(len(counts_B))) + 0.0


def _numbers(**columns: Any) -> list[Array]:
    """Columns as float64, refused where they are no numbers, hold NaN or differ in length."""
    read = {name: _as_numbers(column, name) for name, column in columns.items()}
    last, count = list(read.items())[-1]
    for name, column in read.items():
        if column.ndim != 1 or not len(column):
            raise ValueError(f"{name}: expected one number per point, found shape {column.shape}; pass one column")
        if len(column) != len(count):
            raise ValueError(
                f"{name}: expected one for each of {len(count)} of {last}, found {len(column)}; pass the same points"
            )
        if not np.isfinite(column).all():
            raise ValueError(f"{name}: found NaN or infinity; look for missing values or a diverged model")
    return list(read.values())


def _as_numbers(column: Any, name: str) -> Array:
    """A column as float64, refused where it holds anything but real numbers."""
    remedy = "pass belief.effect_N" if hasattr(column, "effect_N") else "pass one number per point"
    with suppress(TypeError, ValueError):
        # A belief would be gone through point by point.
        if not isinstance(column, Belief) and (found := as_numpy(column)).dtype.kind in "biufO":
            return found.astype(np.float64)
    raise ValueError(f"{name}: expected real numbers, found a {type(column).__name__} without them; {remedy}")
