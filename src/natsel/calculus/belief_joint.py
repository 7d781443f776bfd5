"""A belief as a joint distribution: K weighted draws of the parameters and the labels of N points.

    p(ω_k, y_1..y_n | x_1..x_n) = w_k Π_i p(y_i | x_i, ω_k)

Variables: Omega (also W; K outcomes), and labels of C outcomes each: `Y1`, `Y2`, … are those of the first, second, …
point, and `Y` is that of every point in turn, so that the result has one value a point. x, x1, … and D stand for what
the belief is given already: legal behind `|`, and dropped there. I[Y;Ω|x,D] is BALD, I[Y1,Y2;Ω|x1,x2,D] BatchBALD,
I[Ω;y|x,D] the information gain, I[y;Ω|x,D] the surprise.  Spec 01, 6.2.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, Self

import torch
from torch import Tensor

from natsel.calculus.discrete_joint import numbered
from natsel.calculus.expressions import tied_name
from natsel.memory import chunked

OMEGA = "Omega"
MAX_STATES = 20_000_000


class Draws(Protocol):
    """A belief that is made of weighted draws of categorical predictions."""

    @property
    def log_probs_N_K_C(self) -> Tensor: ...

    @property
    def log_weights_K(self) -> Tensor: ...


@dataclass(frozen=True, eq=False, repr=False)
class PredictiveJoint:
    """The joint distribution of parameters and labels that draws of predictions describe.

    `log_weights_K` None weighs all draws alike. All terms are exact; those in which K·C^(labels averaged over) is more
    than `max_states` are refused. `part` says which points `Y` runs over (None: all).

    >>> joint = PredictiveJoint(torch.tensor([[[0.1, 0.9], [0.9, 0.1], [0.5, 0.5]]]).log())
    >>> joint
    PredictiveJoint(1 points, 3 draws, 2 classes)
    """

    log_probs_N_K_C: Tensor
    log_weights_K: Tensor = None  # type: ignore[assignment]
    max_states: int = MAX_STATES
    part: slice | None = None

    is_measure: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.part is not None:  # a cut of one that was checked
            return
        log_probs_N_K_C = torch.as_tensor(self.log_probs_N_K_C)
        if log_probs_N_K_C.dim() != 3 or 0 in log_probs_N_K_C.shape[1:] or not log_probs_N_K_C.is_floating_point():
            found = f"{log_probs_N_K_C.dtype} of shape {tuple(log_probs_N_K_C.shape)}"
            raise ValueError(f"log_probs_N_K_C: found {found}; pass floats of shape points x draws x classes")
        draws = log_probs_N_K_C.shape[1]
        weights = torch.zeros(draws) if self.log_weights_K is None else torch.as_tensor(self.log_weights_K)
        if weights.shape != (draws,) or not bool(weights.logsumexp(0).isfinite()):
            found = f"shape {tuple(weights.shape)}" if weights.shape != (draws,) else "no finite weight"
            raise ValueError(f"log_weights_K: found {found}; pass the log weight of each of {draws} draws, or None")
        _check_sums(log_probs_N_K_C)
        log_weights_K = weights.to(log_probs_N_K_C.device, torch.float64).log_softmax(0)
        object.__setattr__(self, "log_probs_N_K_C", log_probs_N_K_C.detach())
        object.__setattr__(self, "log_weights_K", log_weights_K.detach())

    @classmethod
    def of(cls, belief: Any) -> "PredictiveJoint":
        """A belief of categorical draws as a joint; a joint as it is."""
        if isinstance(belief, PredictiveJoint):
            return belief
        if not (hasattr(belief, "log_probs_N_K_C") and hasattr(belief, "log_weights_K")):
            raise ValueError(
                f"joint: found {type(belief).__name__}; pass a DiscreteJoint, a GaussianJoint, or a belief with"
                " categorical draws (CategoricalSamples)"
            )
        draws: Draws = belief
        return cls(draws.log_probs_N_K_C, draws.log_weights_K)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(N points, K draws, C classes)."""
        points, draws, classes = self.log_probs_N_K_C.shape
        return points, draws, classes

    def size(self, name: str) -> int:
        """How many outcomes a variable has: K for Omega, C for a label."""
        if name == OMEGA:
            return self.shape[1]
        number = number_of(name)
        if number is None or number > self.shape[0]:
            labels = f"Y, Y1 to Y{self.shape[0]}" if self.shape[0] else "Y"
            raise ValueError(f"{name}: no such variable; a belief about {self.shape[0]} points has {labels} and Omega")
        return self.shape[2]

    def place(self, name: str, outcome: Any) -> int:
        """An outcome is its number: of the draw, or of the class."""
        size = self.size(name)
        number = int(outcome) if isinstance(outcome, str) and outcome.isdecimal() else outcome
        return int(numbered(tied_name(name), [number], size))

    def places(self, name: str, outcomes: Any) -> Tensor:
        """Several outcomes at once."""
        return numbered(tied_name(name), outcomes, self.size(name))

    def cut(self, part: slice) -> Self:
        """The same draws, with `Y` the label of some of the points."""
        return replace(self, part=part)

    def log_table(self, names: Sequence[str], at: Mapping[str, Tensor], dims: int) -> Tensor:
        """ln p(names) with those in `at` tied to indices of `dims` axes: these axes first, then the untied names."""
        untied = [name for name in names if name not in at]
        labels = [name for name in untied if name != OMEGA]
        # One axis for the draws behind `dims`, then one for each label.
        log_p = self.log_weights_K.view((1,) * dims + (-1,) + (1,) * len(labels))
        for name in names:
            if name != OMEGA:
                log_p = log_p + self._label(name, at.get(name), dims, labels)
        if OMEGA not in names:
            return log_p.logsumexp(dims)
        if OMEGA in at:
            index = at[OMEGA][(..., *(None,) * (1 + len(labels)))]
            return log_p.take_along_dim(index, dims).squeeze(dims)
        return log_p.movedim(dims, dims + untied.index(OMEGA))

    def _label(self, name: str, index: Tensor | None, dims: int, labels: Sequence[str]) -> Tensor:
        """ln p(label | ω): the axes of `dims`, the draws, then those of `labels`."""
        number, (_, draws, classes) = number_of(name), self.shape
        if number:
            table_1_K_C = self.log_probs_N_K_C[number - 1 : number]
        else:
            table_1_K_C = self.log_probs_N_K_C[self.part or slice(None)]
        count = len(table_1_K_C)
        table_1_K_C = table_1_K_C.to(torch.float64)
        if index is None:
            axes = [classes if each == name else 1 for each in labels]
            return table_1_K_C.view([count, *[1] * (dims - 1), draws, *axes][0 if dims else 1 :])
        if number:
            table = table_1_K_C[0].T[index]
        else:
            rows = torch.arange(count, device=index.device).view([-1, *[1] * (dims - 1)])
            table = table_1_K_C.transpose(1, 2)[rows, index]
        return table[(..., *(None,) * len(labels))]

    def __repr__(self) -> str:
        points, draws, classes = self.shape
        return f"PredictiveJoint({points} points, {draws} draws, {classes} classes)"


def _check_sums(log_probs_N_K_C: Tensor) -> None:
    """Refuses rows that are off by more than rounding."""
    points, draws, classes = log_probs_N_K_C.shape
    exact = 1e-3 if log_probs_N_K_C.dtype in (torch.float32, torch.float64) else 5e-2

    def off(part: slice) -> Tensor:
        return log_probs_N_K_C[part].float().logsumexp(-1)

    log_sums_N_K = chunked(off, points, 8 * draws * classes, log_probs_N_K_C.device)
    wrong_N_K = ~(log_sums_N_K.abs() < exact)
    if bool(wrong_N_K.any()):
        point, draw = (int(place) for place in wrong_N_K.nonzero()[0])
        found = f"point {point}, draw {draw} sums to {float(log_sums_N_K[point, draw].exp()):.6g}"
        raise ValueError(f"log_probs_N_K_C: {found} in probability, not to 1; pass logits.log_softmax(-1)")


def number_of(name: str) -> int | None:
    """The number of a label: 0 for Y, i for Yi, None for what is no label.

    >>> number_of("Y"), number_of("Y12"), number_of("Omega")
    (0, 12, None)
    """
    found = re.fullmatch(r"Y([1-9]\d*)?", name)
    return None if found is None else int(found[1] or 0)
