"""A Gaussian process of both outcomes, conditioned on the labels of one round at a time: exact, and quick.

    R = L⁻¹ k(labelled, all),  L Lᵀ = k(labelled, labelled) + noise
    left = k(new, all) − R[:, new]ᵀ R        of which come the next rows of L and of R

Of the posterior only the 2 × 2 covariance of both outcomes of each point is handed on: all that causal objectives look
at, where features of all points would take a root of the whole covariance.  docs/theory/causal-bald.md.
"""

from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from natsel.beliefs.potential_outcomes import GaussianPotentialOutcomes
from natsel.causal.arms import both_arms
from natsel.causal.data import treatment_of
from natsel.experiments.studies.units import Array


class TwoArmProcess:
    """Both outcomes of M points under `natsel.causal.two_arm_kernel` and a constant mean, given more and more labels.

    Columns are the points without the treatment, then the same points with it.

    >>> from natsel.causal import two_arm_kernel
    >>> process = TwoArmProcess(two_arm_kernel(), 1.0, np.array([[0.0, 1.0], [1.0, 0.0]]))
    >>> process.observe(np.array([0]), np.array([5.0]))  # the first point, which had the treatment
    >>> process.variance.round(2).tolist()
    [8.27, 8.73, 0.9, 6.02]
    """

    def __init__(self, kernel: Any, noise: float, inputs_M_D: Array) -> None:
        self.kernel, self.noise, self.count = kernel, noise, len(inputs_M_D)
        self.rows = both_arms(inputs_M_D)
        self.column_M = np.arange(self.count) + self.count * treatment_of(inputs_M_D, -1)  # of what it shows
        self.root = np.empty((0, 2 * self.count))  # L⁻¹ k(labelled, all)
        self.seen = np.empty((0, 2))  # L⁻¹ of the outcomes, and of ones
        self.variance = kernel.diag(self.rows)
        self.shared = np.full(self.count, kernel(self.rows[:1], self.rows[self.count : self.count + 1]).item())
        self.outcomes = np.empty(0)

    def observe(self, at_k: Array, outcome_k: Array) -> None:
        """Take up the outcomes of some points."""
        at_k = self.column_M[at_k]
        known = self.root[:, at_k].T
        left = self.kernel(self.rows[at_k], self.rows) - known @ self.root
        factor = np.linalg.cholesky(left[:, at_k] + self.noise * np.eye(len(at_k)))
        root = solve_triangular(factor, left, lower=True)
        both = np.stack([outcome_k, np.ones(len(at_k))], 1) - known @ self.seen
        self.seen = np.concatenate([self.seen, solve_triangular(factor, both, lower=True)])
        self.root = np.concatenate([self.root, root])
        self.variance = self.variance - (root**2).sum(0)
        self.shared = self.shared - (root[:, : self.count] * root[:, self.count :]).sum(0)
        self.outcomes = np.concatenate([self.outcomes, outcome_k])

    def believe(self, treatment_N: Array, propensity_N: Array) -> GaussianPotentialOutcomes:
        """What is believed about the first N points; covariances of different points are left out."""
        count = len(treatment_N)
        zero_N, one_N = (self.variance[part : part + count].clip(1e-12) for part in (0, self.count))
        across_N = self.shared[:count] / np.sqrt(zero_N)
        features0_N_2 = np.stack([np.sqrt(zero_N), np.zeros(count)], 1)
        features1_N_2 = np.stack([across_N, np.sqrt((one_N - across_N**2).clip(0))], 1)
        mean = self.means()
        means = mean[:count], mean[self.count : self.count + count]
        noise = self.noise, self.noise
        return GaussianPotentialOutcomes(features0_N_2, features1_N_2, treatment_N, propensity_N, *noise, *means)

    def means(self) -> Array:
        """The expected outcomes of all columns."""
        level = self.outcomes.mean()
        found: Array = level + (self.seen[:, 0] - level * self.seen[:, 1]) @ self.root
        return found

    def effects(self, first: int) -> Array:
        """The expected effects of all points from this one on."""
        means = self.means()
        found: Array = means[self.count + first :] - means[first : self.count]
        return found
