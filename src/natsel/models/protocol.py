"""What natsel asks of a model: to learn from examples, and to say what it believes about inputs.

    fit(labelled, validation)           →  a model that has forgotten everything else
    believe(inputs)                     →  a belief, one row per input, from draws that are the same for every input
    believe_together(pool, targets)     →  two beliefs from the same draws, where one call for each has others
    geometry(inputs)                    →  optional: how alike it treats them (natsel.beliefs.geometry.Geometry)

A fit starts afresh: what was learnt in an earlier round must not decide which labels come next. `seed` decides all that
is random in it, and `believe` is a pure function of what was fitted.
"""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar, runtime_checkable

from natsel.beliefs import Belief
from natsel.data.examples import Examples
from natsel.options import Rows

Part = TypeVar("Part")

Progress = Callable[[int, int], None]
"""Called with (done, total) now and then by anything that may take longer than two seconds."""


@runtime_checkable
class Model(Protocol):
    """Anything with `fit` and `believe`. The keyword `seed` of `fit` is optional: it is passed where it is taken.

    A class that says `consistent_draws = True` promises that its draws are the same for every input of a call; those
    of others are tested once (natsel.models.consistency). All that a model may offer beside: natsel.models.adapter.
    """

    def fit(self, labelled: Examples, validation: Examples | None = None) -> Any: ...

    def believe(self, inputs: Rows) -> Belief: ...


@runtime_checkable
class Together(Protocol):
    """A model whose draws belong to the inputs of one call, such as joint draws of a Gaussian process.

    Whoever needs pool and targets under the same draws calls `natsel.models.believe_both`, which knows about this.
    """

    def believe_together(self, pool_inputs: Rows, target_inputs: Rows) -> tuple[Belief, Belief]: ...


def learnt(part: Part | None) -> Part:
    """What a fit left behind; refused before the first.

    >>> learnt(3)
    3
    """
    if part is None:
        raise ValueError("model: it has learnt nothing yet; fit the model first")
    return part


def checked_belief(belief: Any, inputs: Any, name: str = "inputs", method: str = "believe") -> Belief:
    """What a model said, where it is a belief with a row for each input.

    >>> from natsel.beliefs import CategoricalSamples
    >>> len(checked_belief(CategoricalSamples.from_probs([[[0.5, 0.5]]]), [3.0]))
    1
    """
    if not isinstance(belief, Belief):
        raise ValueError(
            f"model: believe gave {type(belief).__name__}, not a belief; return one, for classes"
            " natsel.CategoricalSamples.from_probs(probabilities of shape (inputs, draws, classes))"
        )
    if len(belief) != len(inputs):
        raise ValueError(f"model: {method} gave {len(belief)} rows for {len(inputs)} {name}; give one each, in order")
    return belief
