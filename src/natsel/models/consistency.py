"""A self-test for draws: a copy of a point must get the same draws as the point.

    consistent:  p(y | x, ω_k) is one function of x for each k, wherever x stands and whenever it is asked about

Joint objectives (BatchBALD and all that conditions on labels) read correlations between points from their draws. Masks
or weights that change from point to point make points look independent, and a batch then scores nearly the sum of its
points, copies included: nothing later could notice.  docs/theory/batchbald.md, 12; Kirsch et al. 2019.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from torch import Tensor

from natsel.beliefs import Belief
from natsel.options import Rows

# Mini-batches are seldom larger than 256: the copies at both ends then lie in different ones.
_ROWS = 260
# Of how far draws lie apart. Rounding moves a prediction by far less, other draws by about as much as that.
_SHARE = 0.25


def check_consistent(believe: Callable[[Any], Belief], inputs: Rows, *, rows: int = _ROWS) -> None:
    """Refuse draws that are not the same for every point; `inputs` are two or more points to try it on.

    Copies of the points are asked about at both ends of a batch of `rows`, and once more in another call. A belief of
    one draw, or of none, passes.

    >>> from natsel import CategoricalSamples
    >>> sound = lambda inputs: CategoricalSamples.from_logits(np.stack([inputs, -inputs], 1))
    >>> check_consistent(sound, np.eye(2))
    >>> noisy = lambda inputs: CategoricalSamples.from_logits(np.random.default_rng().normal(size=(len(inputs), 5, 2)))
    >>> check_consistent(noisy, np.eye(2))
    Traceback (most recent call last):
    ValueError: model: two copies of one point got different draws in one call; ...
    """
    count = min(2, len(inputs))
    if count == 0:
        raise ValueError("inputs: found none to try the draws on; pass at least one")
    places = np.arange(max(rows, 2 * count)) % count
    # The second call holds other shares of the points too, lest statistics of the batch look the same.
    calls = ((places, "in one call"), (places[1 : count + 2], "in two calls"))
    reference: list[Tensor] = []
    for asked, where in calls:
        found = _draws_of(believe(inputs[asked]))
        reference = reference or [values[:count] for values in found]
        for first, values in zip(reference, found, strict=True):
            if len(values) != len(asked):
                raise ValueError(f"model: {len(values)} rows came back for {len(asked)} inputs; return one per input")
            if values.shape[1:] != first.shape[1:] or not _same(first[asked], values, first):
                raise ValueError(
                    f"model: two copies of one point got different draws {where}; draw k must be the same parameters"
                    " for every point and call: fix masks or weights in fit, or use natsel.models.Dropout or Ensemble,"
                    " which take a trained network by around(…)"
                )


def _same(expected: Tensor, found: Tensor, draws: Tensor) -> bool:
    """Whether numbers differ by rounding, far less than draws differ from each other."""
    if draws.shape[1] == 1:
        return True
    rounding = 1e-5 * min(1.0, float(draws.abs().max()))
    return bool((expected - found).abs().max() <= max(rounding, _SHARE * float(draws.std(1).max())))


def _draws_of(belief: Belief) -> list[Tensor]:
    """What a belief holds for points and draws, as numbers of like size whatever they are."""
    found = [getattr(belief, name).detach().double().cpu() for name in belief.points if "_N_K" in name]
    return [values.exp() if values.ndim == 3 else values for values in found]
