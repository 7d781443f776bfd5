"""Beliefs about pool and targets from the same draws of the parameters, whatever the model.

    believe_both(model, pool, targets)    one call where the model offers `believe_together`, else one for each

Draws that are fixed by the fit (members, masks, weights) are the same in every call. Those of a Gaussian process are
joint draws over the inputs of one call, so that pool and targets have to be in it together.
docs/theory/epig-jepig.md, 1 and 6.
"""

from typing import Any

from natsel.beliefs import Belief, Targets
from natsel.beliefs.targets import check_shared
from natsel.models.protocol import Model, Progress, Together, checked_belief
from natsel.options import Rows


def believe_both(
    model: Model, pool_inputs: Rows, target_inputs: Rows, *, progress: Progress | None = None
) -> tuple[Belief, Belief]:
    """What a fitted model believes about pool and targets, under the same draws; refused where they are not.

    `progress` is for a model that takes it.

    >>> import numpy as np
    >>> from natsel.data import Examples
    >>> from natsel.models.processes.bayesian_linear import BayesianLinear
    >>> model = BayesianLinear(noise=0.1).fit(Examples(np.eye(2), np.array([0.0, 1.0])))
    >>> pool, targets = believe_both(model, np.eye(2), np.ones((3, 2)))
    >>> len(pool), len(targets), pool.draws_id == targets.draws_id
    (2, 3, True)
    """
    if len(target_inputs) == 0:
        raise ValueError("targets: found none, and without them nothing says what is worth learning; pass some")
    keywords: dict[str, Any] = {} if progress is None else {"progress": progress}
    if isinstance(model, Together):
        pool, targets = model.believe_together(pool_inputs, target_inputs, **keywords)
    else:
        pool, targets = (model.believe(inputs, **keywords) for inputs in (pool_inputs, target_inputs))
    ours = checked_belief(pool, pool_inputs, "inputs of the pool")
    theirs = checked_belief(targets, target_inputs, "targets")
    check_shared(ours, Targets(theirs))
    return ours, theirs
