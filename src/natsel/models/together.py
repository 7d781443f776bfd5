"""Beliefs about pool and targets from the same draws of the parameters, whatever the model.

    believe_both(model, pool, targets)    one call where the model offers `believe_together`, else one for each

Draws that are fixed by the fit (members, masks, weights) are the same in every call. Those of a Gaussian process are
joint draws over the inputs of one call, so that pool and targets have to be in it together.  Spec 06, A1 and A2.
"""

from typing import Any

from natsel.beliefs import Belief, Targets
from natsel.beliefs.targets import check_shared
from natsel.models.protocol import Model, Together


def believe_both(model: Model, pool_inputs: Any, target_inputs: Any) -> tuple[Belief, Belief]:
    """What a fitted model believes about pool and targets, under the same draws; refused where they are not.

    >>> import numpy as np
    >>> from natsel.data import Examples
    >>> from natsel.models.bayesian_linear import BayesianLinear
    >>> model = BayesianLinear(noise=0.1).fit(Examples(np.eye(2), np.array([0.0, 1.0])))
    >>> pool, targets = believe_both(model, np.eye(2), np.ones((3, 2)))
    >>> len(pool), len(targets), pool.draws_id == targets.draws_id
    (2, 3, True)
    """
    if len(target_inputs) == 0:
        raise ValueError("targets: found none, and without them nothing says what is worth learning; pass some")
    if isinstance(model, Together):
        pool, targets = model.believe_together(pool_inputs, target_inputs)
    else:
        pool, targets = model.believe(pool_inputs), model.believe(target_inputs)
    for belief, inputs, name in ((pool, pool_inputs, "pool"), (targets, target_inputs, "targets")):
        if not isinstance(belief, Belief):
            raise ValueError(f"model: it gave {type(belief).__name__} for the {name}, not a belief; return one")
        if len(belief) != len(inputs):
            raise ValueError(f"model: it gave {len(belief)} rows for {len(inputs)} {name}; give one each, in order")
    check_shared(pool, Targets(targets))
    return pool, targets
