"""What every belief shares: it is a frozen value over N points that can be sliced, moved, saved and loaded.

A belief declares which of its fields run over points, which belong to the draws (or to the weights: a precision), and
which are words (`named`); slicing, moving and storing follow from that. Its ids travel with its points, so that a pick
from a slice still names the user's own datum.

A belief also says what else it can be read as (`views`), so that an objective that is read from one kind of belief is
read from all beliefs that can be seen as that kind. It predicts labels in the same way: `predict`, `predict_proba`,
`mean`, `std` and `interval` are those of the class probabilities or of the Gaussians that it can be seen as.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from natsel.beliefs.arrays import ArrayLike, Labels, as_device, as_indices, as_tensor
from natsel.ids import IdArray, ids_for

_OWN: ContextVar[bool] = ContextVar("_OWN", default=False)  # whether beliefs are made of arrays that nobody else holds


class NoView(ValueError):
    """This belief cannot be read in this way, though others of its kind can."""


@dataclass(frozen=True)
class BeliefView:
    """Another kind of belief that a belief can be read as."""

    kind: type["Belief"]
    """What comes out."""
    make: Callable[[Any], "Belief"]
    """The view of a belief; raises NoView where there is none."""
    approximation: str = ""
    """What is lost on the way, as a sentence for the user; empty where nothing is."""

    def of(self, belief: "Belief") -> "Belief":
        """The view of a belief in which points may be there twice, as after draws with replacement."""
        return self.make(belief._trusted(ids=np.arange(len(belief))))._trusted(ids=belief.ids)


class Belief:
    """Base of the beliefs; see `natsel.CategoricalSamples` for the usual one."""

    points: ClassVar[tuple[str, ...]] = ()
    draws: ClassVar[tuple[str, ...]] = ()
    named: ClassVar[tuple[str, ...]] = ()
    label_type: ClassVar[type[int] | type[float]] = float
    """What a label is: a class number or any number."""

    ids: IdArray
    """The user's ids of the points: integers, or whatever else they were given as (`natsel.ids`)."""
    draws_id: str | None

    def __init_subclass__(cls) -> None:
        """Arrays that the caller holds are copied once they are checked: what becomes of them changes no belief."""
        super().__init_subclass__()
        check: Callable[[Any], None] | None = vars(cls).get("__post_init__")
        if check is None:
            return

        def check_and_copy(belief: Belief) -> None:
            handed = dict(vars(belief))
            check(belief)
            kept = {} if _OWN.get() else {name: value for name, value in vars(belief).items() if torch.is_tensor(value)}
            belief._set(**{name: of.clone() for name, of in kept.items() if _shared(of, handed.get(name))})

        type.__setattr__(cls, "__post_init__", check_and_copy)

    @classmethod
    def _own(cls, *arrays: object, **fields: object) -> Self:
        """Made of arrays that nobody else holds, or that are another belief's: kept as they are, without a copy."""
        before = _OWN.set(True)
        try:
            return cls(*arrays, **fields)
        finally:
            _OWN.reset(before)

    @classmethod
    def views(cls) -> tuple[BeliefView, ...]:
        """What else beliefs of this kind can be read as, nearest first.

        >>> from natsel.beliefs import GaussianSamples
        >>> [view.kind.__name__ for view in GaussianSamples.views()]
        ['GaussianFeatures']
        """
        return ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to know before relying on this belief."""
        return ()

    @property
    def n_draws(self) -> int | None:
        """How many draws of the parameters it is made of; None where it is not made of draws."""
        return None

    @property
    def uncertainty_limits(self) -> tuple[float | None, float | None]:
        """The epistemic and the aleatoric score above which a point is unfamiliar or ambiguous; None where unknown."""
        return None, None

    def checked_labels(self, labels: ArrayLike, name: str) -> Tensor:
        """Labels of the points as a tensor, or a ValueError that says what is wrong with them."""
        return as_tensor(labels, name).to(self.device)

    def in_order(self, labels: Labels, name: str = "labels", positions: IdArray | None = None) -> ArrayLike:
        """Labels with ids of their own in the order of the points, or of those at some positions; others as they are.

        >>> from natsel.beliefs import GaussianFeatures
        >>> GaussianFeatures([[1.0], [2.0]], ids=["a", "b"]).in_order({"b": 2.0, "a": 1.0})
        array([1., 2.])
        """
        from natsel.data.alignment import beside, index_of, or_none

        if index_of(labels) is None and not isinstance(labels, Mapping):
            return labels
        ids = or_none(self.ids) if positions is None else self.ids[positions]
        return np.array(beside(labels, self, name, ids, listed=True, what="points")[0])

    def given(self, labelled: "Belief") -> "Belief":
        """The belief once labels at other points are known, whatever they turn out to be.

        >>> from natsel.beliefs import GaussianFeatures
        >>> GaussianFeatures([[1.0]]).given(GaussianFeatures([[1.0]])).features_N_D.square().round(decimals=6).item()
        0.5
        """
        raise ValueError(
            f"given: {type(self).__name__} changes with labels that are known, and these are not; use"
            " belief.condition(points, labels) first, and leave given= out"
        )

    def predict(self) -> Tensor:
        """The label to expect of each point: the number of the most likely class, or the mean.

        >>> from natsel.beliefs import CategoricalSamples
        >>> CategoricalSamples.from_probs([[[0.9, 0.1], [0.3, 0.7]], [[0.0, 1.0], [0.6, 0.4]]]).predict()
        tensor([0, 1])
        """
        return self._prediction("predict").predict()

    def predict_proba(self) -> Tensor:
        """p(y = c | x_n), N × C in float64: for draws their mean, Σ_k w_k p(y = c | x_n, ω_k).

        >>> from natsel.beliefs import CategoricalSamples
        >>> CategoricalSamples.from_probs([[[1.0, 0.0], [0.5, 0.5]]]).predict_proba().round(decimals=6).tolist()
        [[0.75, 0.25]]
        """
        return self._prediction("predict_proba").predict_proba()

    @property
    def mean(self) -> Tensor:
        """The number to expect of each point, N values in float64: for draws Σ_k w_k mean_nk.

        >>> from natsel.beliefs import GaussianSamples
        >>> GaussianSamples([[0.0, 2.0]], 0.5).mean.tolist()
        [1.0]
        """
        return self._prediction("mean").mean

    @property
    def std(self) -> Tensor:
        """The standard deviation of the label of each point, noise included, N values in float64.

        >>> from natsel.beliefs import GaussianFeatures
        >>> GaussianFeatures([[3.0]], noise=16.0).std.tolist()
        [5.0]
        """
        return self._prediction("std").std

    def interval(self, level: float = 0.9) -> tuple[Tensor, Tensor]:
        """The ends between which the label of each point lies with probability `level`, with equal tails below and
        above: twice N values in float64.

        >>> from natsel.beliefs import GaussianFeatures
        >>> lower, upper = GaussianFeatures([[3.0]], noise=16.0, mean=1.0).interval(0.6827)
        >>> round(lower.item(), 2), round(upper.item(), 2)
        (-4.0, 6.0)
        """
        return self._prediction("interval").interval(level)

    def _prediction(self, name: str) -> "Belief":
        """The belief that this one is seen as where a label is predicted."""
        from natsel.beliefs.class_probabilities import ClassProbabilities
        from natsel.beliefs.gaussian import GaussianFeatures, GaussianSamples

        kinds: tuple[type[Belief], ...] = (ClassProbabilities, GaussianSamples, GaussianFeatures)
        seen = next((found for kind in kinds if (found := seen_as(self, kind)) is not None), None)
        if seen is None or seen is self:
            raise ValueError(
                f"{name}: {type(self).__name__} does not say which labels to expect; ask a belief that does, such as"
                " natsel.CategoricalSamples or GaussianSamples"
            )
        return seen

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, which: slice | ArrayLike) -> Self:
        """The belief about some of the points, by position: a slice, integers or a mask. Ids come along."""
        if isinstance(which, slice) and (which.step or 1) < 0:  # torch has no views that run backwards
            which = list(range(*which.indices(len(self))))
        index = which if isinstance(which, slice) else as_indices(which, len(self), self.device)
        chosen = index if isinstance(index, slice) else index.cpu().numpy()
        return self._trusted(ids=self.ids[chosen], **{name: getattr(self, name)[index] for name in self.points})

    @property
    def device(self) -> torch.device:
        """Where the numbers lie."""
        tensor: Tensor = getattr(self, self.points[0])
        return tensor.device

    def with_ids(self, ids: object) -> Self:
        """The same belief about points that go by these ids."""
        return self._trusted(ids=ids_for(ids, len(self)))

    def to(self, device: torch.device | str) -> Self:
        """The same belief on another device."""
        device = as_device(device)
        return self._trusted(**{name: getattr(self, name).to(device) for name in self.points + self.draws})

    def save(self, path: str | Path) -> None:
        """Write every field to `.safetensors` or `.npz`; nothing is pickled."""
        from natsel.beliefs.files import save

        save(self, path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read back what `save` wrote."""
        from natsel.beliefs.files import load

        belief = load(path)
        if not isinstance(belief, cls):
            raise ValueError(f"path: {path} holds {type(belief).__name__}, not {cls.__name__}; load it as that")
        return belief

    def _trusted(self, **changes: object) -> Self:
        """A copy with changed fields that need no second check (parts of what was checked before)."""
        other = object.__new__(type(self))
        for field in fields(self):  # type: ignore[arg-type]
            object.__setattr__(other, field.name, changes.get(field.name, getattr(self, field.name)))
        return other

    def _set(self, **values: object) -> None:
        """Fill fields of a frozen dataclass while it is being made."""
        for name, value in values.items():
            object.__setattr__(self, name, value)


def _shared(tensor: Tensor, array: object) -> bool:
    """Whether writing to what was handed over may change a tensor that was read from it."""
    if isinstance(array, Tensor):
        return array.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr()
    here = hasattr(array, "__array__") and tensor.device.type == "cpu"
    return np.may_share_memory(np.asarray(array), tensor.numpy()) if here else hasattr(array, "__dlpack__")


Seen = TypeVar("Seen", bound=Belief)


def seen_as(belief: Belief, kind: type[Seen]) -> Seen | None:
    """A belief as one of this kind: along its views, nearest first, without any approximation; None where it is none.

    >>> from natsel.beliefs import CategoricalSamples, ClassProbabilities
    >>> belief = CategoricalSamples.from_probs([[[1.0, 0.0], [0.5, 0.5]]])
    >>> seen_as(belief, ClassProbabilities).log_probs_N_C.exp().tolist()
    [[0.75, 0.25]]
    """
    ahead: deque[Belief] = deque([belief])
    while ahead:
        found = ahead.popleft()
        if isinstance(found, kind):
            return found
        for view in found.views():
            with suppress(NoView):
                ahead += [] if view.approximation else [view.of(found)]
    return None


def kinds(base: type[Belief] = Belief) -> Iterator[type[Belief]]:
    """All kinds of belief that can be made, those of plug-ins too.

    >>> from natsel.beliefs import CategoricalSamples
    >>> CategoricalSamples in kinds()
    True
    """
    for kind in base.__subclasses__():
        if kind.points:
            yield kind
        yield from kinds(kind)
