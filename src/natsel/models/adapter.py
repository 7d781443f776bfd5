"""Whatever is passed as a model, seen as a full model: what it does not have is made up for, what it does not take is
left out.

    fit(labelled, validation, seed=, progress=)     validation, seed and progress reach a model that takes them
    believe(inputs, progress=)                      checked: a belief with one row per input
    predictive(inputs, progress=)                   the model's own, which needs no draws; else what it believes
    check_inputs(inputs)                            the model's own, where it has one: called before anything is learnt
    believe_both(pool, targets, progress=)          two beliefs from the same draws (natsel.models.joint_beliefs)
    geometry(inputs)                                how alike it treats them: the model's own, else that of the inputs
    weights(), load_weights(weights)                where `keeps_weights`

Signatures are read once, when the adapter is made.
"""

import copy
import inspect
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Self

import numpy as np
from torch import Tensor

from natsel.beliefs import Belief
from natsel.beliefs.geometry import Geometry
from natsel.data.examples import Examples, as_labelled
from natsel.data.frames import joined
from natsel.models.conversion import as_model
from natsel.models.joint_beliefs import believe_both
from natsel.models.protocol import Model, Progress, checked_belief
from natsel.options import Rows


class ModelAdapter:
    """A model, a scikit-learn estimator or any object with `fit` and `believe`, seen as a full model.

    `model` is the user's object, or the model of natsel that it was wrapped into.

    >>> import numpy as np
    >>> from natsel.beliefs import CategoricalSamples
    >>> class Coin:
    ...     def fit(self, labelled):
    ...         self.heads = labelled.labels.mean()
    ...     def believe(self, inputs):
    ...         return CategoricalSamples.from_probs(np.tile([[[1 - self.heads, self.heads]]], (len(inputs), 1, 1)))
    >>> adapter = ModelAdapter(Coin()).fit(Examples(np.zeros((4, 1)), np.array([0, 1, 1, 1])), None, seed=0)
    >>> adapter.predictive(np.zeros((2, 1))).log_probs_N_K_C.exp()[0].tolist()
    [[0.25, 0.75]]
    >>> adapter.keeps_weights, adapter.regression, adapter.consistent_by_design
    (False, False, False)
    """

    def __init__(self, model: Any) -> None:
        self.model: Model = as_model(model)
        names = ("fit", "believe", "predictive", "believe_together")
        self._takes = {name: _Takes.of(getattr(self.model, name)) for name in names if hasattr(self.model, name)}

    def check_inputs(self, inputs: Rows) -> None:
        """Raise where the model says that it cannot read such inputs: by what is declared, nothing is run on them."""
        own = getattr(self.model, "__dict__", {}).get("check_inputs") or self._declared("check_inputs")
        if own is not None:
            own(inputs)

    def fit(
        self,
        labelled: Examples | Any,
        validation: Examples | Any = None,
        *,
        seed: int,
        progress: Progress | None = None,
    ) -> Self:
        """Fit the model afresh."""
        labelled, validation = as_labelled(labelled, validation)
        takes = self._takes["fit"]
        examples = (labelled, validation) if takes.validation else (labelled,)
        self._call("fit", *examples, progress=progress, **({"seed": seed} if takes.seed else {}))
        return self

    def believe(self, inputs: Rows, *, progress: Progress | None = None) -> Belief:
        """What the model believes about inputs, one row for each."""
        return checked_belief(self._call("believe", inputs, progress=progress), inputs)

    def predictive(self, inputs: Rows, *, progress: Progress | None = None) -> Belief:
        """What labels the model expects of inputs, one row for each: without draws, where it can."""
        name = "predictive" if "predictive" in self._takes else "believe"
        return checked_belief(self._call(name, inputs, progress=progress), inputs)

    def believe_both(self, inputs: Rows, targets: Rows, *, progress: Progress | None = None) -> tuple[Belief, Belief]:
        """What the model believes about inputs and about targets, from the same draws; refused where they are not."""
        name = "believe_together" if "believe_together" in self._takes else "believe"
        return believe_both(self.model, inputs, targets, progress=progress if self._takes[name].progress else None)

    def geometry(self, *parts: Rows) -> list[Geometry]:
        """How alike the model treats inputs, by its own `geometry` where it has one; and how unsure it is of each. One
        geometry of all parts, such as pool, labelled points and targets, cut into theirs.
        """
        from natsel.models.own_geometry import input_geometry  # here: it imports models

        inputs = joined(*parts) if len(parts) > 1 else parts[0]
        found = getattr(self.model, "geometry", partial(input_geometry, self.predictive))(inputs)
        if not isinstance(found, Geometry):
            raise ValueError(f"model: geometry gave {type(found).__name__}; return a natsel.Geometry")
        checked_belief(found, inputs, method="geometry")
        ends = np.cumsum([0, *map(len, parts)]).tolist()
        return [found[start:end].with_ids(np.arange(end - start)) for start, end in pairwise(ends)]

    def copy(self) -> Self:
        """An adapter of a shallow copy of the model, to be fitted to other examples; no signature is read again.

        >>> from natsel.models.processes.bayesian_linear import BayesianLinear
        >>> adapter = ModelAdapter(BayesianLinear())
        >>> adapter.copy().model is adapter.model
        False
        """
        other = copy.copy(self)
        other.model = copy.copy(self.model)
        return other

    @property
    def keeps_weights(self) -> bool:
        """Whether the model can give its weights, and believe the same again when it gets them back."""
        return hasattr(self.model, "weights") and hasattr(self.model, "load_weights")

    def weights(self) -> dict[str, Tensor]:
        """All that `load_weights` needs to believe the same again."""
        model: Any = self.model
        found: dict[str, Tensor] = model.weights()
        return found

    def load_weights(self, weights: dict[str, Any]) -> None:
        """Believe what the fit believed that gave these weights."""
        model: Any = self.model
        model.load_weights(weights)

    @property
    def regression(self) -> bool:
        """Whether the model says that it learns real numbers; False where it says nothing, or not before a fit."""
        return getattr(self.model, "regression", False) is True

    @property
    def classification(self) -> bool:
        """Whether the model says that it learns classes; False where it says nothing, or not before a fit."""
        return getattr(self.model, "regression", None) is False

    @property
    def consistent_by_design(self) -> bool:
        """Whether the model's class declares `consistent_draws = True`: no self-test is needed.

        A model that hands on to another one (a head) knows this after a fit. A class that believes in another way than
        the class it derives from has to declare it again.

        >>> from natsel.models.processes.bayesian_linear import BayesianLinear
        >>> class Other(BayesianLinear):
        ...     def believe(self, inputs): ...
        >>> ModelAdapter(BayesianLinear()).consistent_by_design, ModelAdapter(Other()).consistent_by_design
        (True, False)
        """
        return self._declared("consistent_draws") is True

    def _declared(self, name: str) -> Any:
        """What its class says, or one that it derives from and that believes in the same way."""
        speaks = next((kind for kind in type(self.model).__mro__ if {name, "believe"} & vars(kind).keys()), object)
        return getattr(self.model, name, None) if name in vars(speaks) else None

    def _call(self, name: str, *arguments: Any, progress: Progress | None, **keywords: Any) -> Any:
        """Call a method of the model, with progress where it is wanted and taken."""
        if progress is not None and self._takes[name].progress:
            keywords["progress"] = progress
        return getattr(self.model, name)(*arguments, **keywords)


@dataclass(frozen=True)
class _Takes:
    """What a method of a model takes beside its first argument."""

    validation: bool
    """A second positional argument that is neither the seed nor the progress."""
    seed: bool
    progress: bool
    """By this name only: one who takes any keyword may hand it on to whom it means nothing."""

    @classmethod
    def of(cls, method: Any) -> Self:
        """Read from a signature.

        >>> _Takes.of(lambda labelled, validation=None, **options: None)
        _Takes(validation=True, seed=True, progress=False)
        """
        takes, kinds = inspect.signature(method).parameters, inspect.Parameter
        found = {one.kind for one in takes.values()}
        places = [
            name for name, one in takes.items() if one.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
        ]
        return cls(
            validation=kinds.VAR_POSITIONAL in found or not {"seed", "progress"}.issuperset(places[1:2]),
            seed="seed" in takes or kinds.VAR_KEYWORD in found,
            progress="progress" in takes,
        )
