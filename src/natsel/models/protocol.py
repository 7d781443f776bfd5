"""What natsel asks of a model: to learn from examples, and to say what it believes about inputs.

    fit(labelled, validation)  →  a model that has forgotten everything else
    believe(inputs)            →  a belief, one row an input, from draws that are the same for every input

A fit starts afresh: what was learnt in an earlier round must not decide which labels come next. `seed` decides all that
is random in it, and `believe` is a pure function of what was fitted.
"""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from natsel.beliefs import Belief
from natsel.data.examples import Examples

Progress = Callable[[int, int], None]
"""Called with (done, total) now and then by anything that may take longer than two seconds."""


@runtime_checkable
class Model(Protocol):
    """Anything with `fit` and `believe`. The keyword `seed` of `fit` is optional: it is passed where it is taken."""

    def fit(self, labelled: Examples, validation: Examples | None = None) -> Any: ...

    def believe(self, inputs: Any) -> Belief: ...
