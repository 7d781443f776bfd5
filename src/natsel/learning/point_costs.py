"""What the labels of a pool's points cost: read once, looked up by id."""

import hashlib
from typing import Any

import numpy as np
from torch import Tensor

from natsel.choose.costs import Costs, as_costs
from natsel.data.pool import Pool
from natsel.search.per_cost import ROUNDING, first_that_fit


class PointCosts:
    """The cost of every point of a pool.

    >>> costs = PointCosts({"a": 2.0, "b": 5.0}, Pool([[0.0], [1.0]], ids=["a", "b"]))
    >>> costs.total(["b", "a"])
    7.0
    """

    def __init__(self, costs: Costs, pool: Pool) -> None:
        self.pool, self.cost_N = pool, as_costs(costs, pool.ids)

    def of(self, ids: Any) -> Tensor:
        """The costs of some ids, in their order."""
        return self.cost_N[self.pool.position_of(ids)]

    def total(self, ids: Any) -> float:
        """What some ids cost together."""
        return float(self.of(list(ids)).sum())

    def pays_for(self, budget: float, ids: Any) -> np.ndarray[Any, Any]:
        """Which ids a budget pays for, each by itself."""
        found: np.ndarray[Any, Any] = (self.of(ids) <= budget * (1 + ROUNDING)).numpy()
        return found

    def drawn(self, ids: np.ndarray[Any, Any], budget: float, k: int, seed: int) -> np.ndarray[Any, Any]:
        """At most k of some ids, at random: of all of them in random order, those that still fit into a budget."""
        order = np.random.default_rng(seed).permutation(ids)
        drawn: np.ndarray[Any, Any] = order[first_that_fit(self.of(order), budget, k)]
        return drawn

    def terms(self) -> str:
        """How many there are and a digest of them: they decide the batches of a run."""
        return f"{len(self.cost_N)} costs {hashlib.blake2b(self.cost_N.numpy().tobytes(), digest_size=8).hexdigest()}"
