"""A belief as a joint distribution: K weighted draws of the parameters and the labels of N points.

    p(ω_k, y_1..y_n | x_1..x_n) = w_k Π_i p(y_i | x_i, ω_k)

Variables: Omega (also W; K outcomes), and labels of C outcomes each: `Y1`, `Y2`, … are those of the first, second, …
point, and `Y` is that of every point in turn, so that the result has one value per point. x, x1, … and D stand for what
the belief is given already: legal behind `|`, and dropped there. I[Y;Ω|x,D] is BALD, I[Y1,Y2;Ω|x1,x2,D] BatchBALD,
I[Ω;y|x,D] the information gain, I[y;Ω|x,D] the surprise.

    H[Y1..Yn | Ω, C] = Σ_i H[Yi | Ω, t]      t all outcomes tied in the term: n small tables in place of C^n states

docs/theory/information-quantities.md, 10.2 and 14.
"""

import math
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Self

import torch
from torch import Tensor

from natsel.beliefs import Belief, CategoricalSamples, seen_as
from natsel.calculus.discrete_joint import outcome_numbers
from natsel.calculus.expansion import leaves, with_bare_laws_filled
from natsel.calculus.expressions import (
    Expression,
    Group,
    H,
    I,
    atoms_of,
    free_atoms,
    free_symbols,
    group,
    groups_of,
    is_data,
    subexpressions,
    tied_name,
    with_groups_changed,
)
from natsel.calculus.leaf_values import Errors, LogTables, context_of, evaluate_leaves
from natsel.memory import chunked

OMEGA = "Omega"
MAX_STATES = 20_000_000


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
        """A belief that can be read as categorical draws as a joint; a joint as it is."""
        if isinstance(belief, PredictiveJoint):
            return belief
        seen = seen_as(belief, CategoricalSamples) if isinstance(belief, Belief) else None
        if seen is None:
            raise ValueError(
                f"joint: found {type(belief).__name__}; pass a DiscreteJoint, a GaussianJoint, or a belief with"
                " categorical draws (CategoricalSamples)"
            )
        return cls(seen.log_probs_N_K_C, seen.log_weights_K)

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

    def place(self, name: str, outcome: Annotated[Any, Hashable]) -> int:
        """An outcome is its number: of the draw, or of the class."""
        size = self.size(name)
        number = int(outcome) if isinstance(outcome, str) and outcome.isdecimal() else outcome
        return int(outcome_numbers(tied_name(name), [number], size))

    def places(self, name: str, outcomes: Any) -> Tensor:
        """Several outcomes at once."""
        return outcome_numbers(tied_name(name), outcomes, self.size(name))

    def for_points(self, part: slice) -> Self:
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


def evaluate_on_draws(
    tree: Expression,
    joint: PredictiveJoint,
    asked: Mapping[str, Any],
    labels: Any,
    models: Mapping[str, Any],
    errors: Errors,
) -> tuple[Tensor, tuple[str, ...]]:
    """The value of an expression on draws, one per point where its labels have no number; and remarks."""
    spoken = {atom.name for atom in atoms_of(tree)}
    each_point = "Y" in spoken or ("X" in spoken and not any(number_of(name) for name in spoken))
    tree = _in_names_of_belief(tree)
    laws: dict[str, LogTables] = {"p": joint, **{name: _model(name, q, joint, tree) for name, q in models.items()}}
    for atom in atoms_of(tree):
        joint.size(atom.name)
    points, draws, classes = joint.shape
    device = joint.log_probs_N_K_C.device
    asked = _with_labels(tree, joint, asked, labels)
    context, shape = context_of(tree, laws, asked, points if each_point else None, device)
    found: dict[Expression, Fraction] = {}
    for leaf, factor in leaves(tree).items():
        for part in _factorised(leaf):
            found[part] = found.get(part, Fraction(0)) + factor
    states = 1
    for leaf in found:
        free = {atom.name for atom in free_atoms(leaf) if atom.tied}
        averaged = {atom.name for atom in atoms_of(leaf)} - free - {OMEGA}
        states = max(states, draws * classes ** len(averaged))
        if states > joint.max_states:
            raise ValueError(
                f"{leaf}: {draws} draws and {len(averaged)} labels of {classes} classes are {states} states, more than"
                f" max_states={joint.max_states}; take fewer labels, or"
                " natsel.information.joint_mutual_information_sampled"
            )

    def describe(places: Mapping[str, int], place: list[int]) -> str:
        outcomes = ", ".join(f"{tied_name(name)}={outcome}" for name, outcome in places.items())
        return (f" at point {place[0]}" if each_point else "") + (f" at {outcomes}" if outcomes else "")

    bytes_each = 32 * states * math.prod(shape[1:])
    value = evaluate_leaves(found, context, shape, errors, bytes_each, describe, points=each_point)
    return value, _warnings_for_draws(tree, joint)


def _in_names_of_belief(tree: Expression) -> Expression:
    """W as Omega, and without what the belief is given already; refuses it in front of `|`."""
    for targets, given in groups_of(tree):
        inputs = {atom.name[1:] for atom in given if _is_input(atom.name)}
        numbers = {atom.name[1:] for atom in (*targets, *given) if number_of(atom.name)}
        if inputs and "" not in inputs and numbers - inputs:
            missing = sorted(numbers - inputs)[0]
            raise ValueError(
                f"x{missing}: missing behind | although Y{missing} is spoken of; name all inputs, or write x"
            )

    def change(atoms: Group, behind: bool) -> Group:
        kept = []
        for atom in atoms:
            if _is_input(atom.name) or is_data(atom.name):
                if not behind or (not atom.tied and not is_data(atom.name)):
                    raise ValueError(f"{atom}: a belief is given its inputs and data; write them small and behind |")
            else:
                kept.append(replace(atom, name=OMEGA) if atom.name == "W" else atom)
        return group(kept)

    def everything() -> Group:
        raise ValueError(
            "p: a belief has too many labels to take them all; name the variables, as in KL(p(Y|x) || q(Y|x))"
        )

    return with_bare_laws_filled(with_groups_changed(tree, change), everything)


def _is_input(name: str) -> bool:
    return re.fullmatch(r"X\d*", name) is not None


def _with_labels(tree: Expression, joint: PredictiveJoint, asked: Mapping[str, Any], labels: Any) -> dict[str, Any]:
    """What is asked for, and the labels of the points for y, y1, y2, … where it says nothing."""
    asked = {OMEGA if name == "W" else name: outcome for name, outcome in asked.items()}
    listed = None if labels is None else joint.places("Y", labels)
    if listed is not None and len(listed) != joint.shape[0]:
        raise ValueError(f"labels: found {len(listed)}; pass {joint.shape[0]}, one per point")
    for name in free_symbols(tree):
        number = number_of(name)
        if number is None or name in asked:
            continue
        if listed is None:
            symbol = tied_name(name)
            raise ValueError(f"labels: {symbol} is an observed label; pass labels=..., or at={{{symbol!r}: ...}}")
        asked[name] = int(listed[number - 1]) if number else listed
    return asked


def _model(name: str, q: Any, joint: PredictiveJoint, tree: Expression) -> PredictiveJoint:
    model = PredictiveJoint.of(q)
    (points, draws, classes), (wanted, ours, known) = model.shape, joint.shape
    shared = draws == ours or all(atom.name != OMEGA for atom in atoms_of(tree))
    if (points, classes) != (wanted, known) or not shared:
        raise ValueError(
            f"{name}: found {model.shape} points, draws and classes for a belief of {joint.shape}; match them"
        )
    return model


def _factorised(leaf: Expression) -> list[Expression]:
    """A leaf as those it is the sum of, by independence of the labels given ω."""
    if not isinstance(leaf, H) or leaf.model or all(atom.tied for atom in (*leaf.of, *leaf.given)):
        return [leaf]
    known = {atom.name for atom in leaf.given}
    targets = [atom for atom in leaf.of if atom.name not in known]
    if OMEGA not in known or not targets:
        return [leaf]
    omega = [atom for atom in leaf.given if atom.name == OMEGA]
    ties = [atom for atom in (*leaf.of, *leaf.given) if atom.tied and atom.name != OMEGA]
    if all(atom.tied for atom in (*targets, *omega)):  # one label to average over: undefined where the ties cannot be
        ties.append(next(atom for atom in leaf.given if not atom.tied))
    return [H((one,), group((*omega, *(atom for atom in ties if atom != one)))) for one in targets]


def _warnings_for_draws(tree: Expression, joint: PredictiveJoint) -> tuple[str, ...]:
    log_weights_K = joint.log_weights_K
    if bool((log_weights_K == log_weights_K[0]).all()) and any(map(_is_gain, subexpressions(tree))):
        return ("information gain on equally weighted draws equals surprise, and cannot be negative",)
    return ()


def _is_gain(term: Expression) -> bool:
    if not isinstance(term, I):
        return False
    head, *rest = term.groups
    return any(atom.name == OMEGA and not atom.tied for atom in head) and any(
        atom.tied for part in rest for atom in part
    )
