"""Evaluating an expression on a belief: its own names, the labels of its points, and independence given ω.

    x, x1, D     what the belief is given already: dropped behind `|`, refused elsewhere
    W, w         Omega, omega
    H[Y1..Yn | Ω, C] = Σ_i H[Yi | Ω, t]      t all outcomes tied in the term: n small tables in place of C^n states

Spec 01, 6.2 and 10.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from torch import Tensor

from natsel.calculus.belief_joint import OMEGA, PredictiveJoint, number_of
from natsel.calculus.default_groups import filled
from natsel.calculus.expansion import leaves
from natsel.calculus.expressions import Expectation, Expression, Group, H, I, Sum, group, tied_name
from natsel.calculus.leaf_values import Tables
from natsel.calculus.scenes import Errors, free_symbols, scene_of, solved
from natsel.calculus.tree import atoms_of, free_atoms, groups_of, is_data, rewritten


def on_draws(
    tree: Expression,
    joint: PredictiveJoint,
    asked: Mapping[str, Any],
    labels: Any,
    models: Mapping[str, Any],
    errors: Errors,
) -> tuple[Tensor, tuple[str, ...]]:
    """The value of an expression on draws, one a point where its labels have no number; and remarks."""
    spoken = {atom.name for atom in atoms_of(tree)}
    each_point = "Y" in spoken or ("X" in spoken and not any(number_of(name) for name in spoken))
    tree = _in_our_names(tree)
    laws: dict[str, Tables] = {"p": joint, **{name: _model(name, q, joint, tree) for name, q in models.items()}}
    for atom in atoms_of(tree):
        joint.size(atom.name)
    points, draws, classes = joint.shape
    device = joint.log_probs_N_K_C.device
    asked = _with_labels(tree, joint, asked, labels)
    scene, shape = scene_of(tree, laws, asked, points if each_point else None, device)
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

    def told(places: Mapping[str, int], place: list[int]) -> str:
        outcomes = ", ".join(f"{tied_name(name)}={outcome}" for name, outcome in places.items())
        return (f" at point {place[0]}" if each_point else "") + (f" at {outcomes}" if outcomes else "")

    bytes_each = 32 * states * math.prod(shape[1:])
    value = solved(found, scene, shape, errors, bytes_each, told, points=each_point)
    return value, _remarks(tree, joint)


def _in_our_names(tree: Expression) -> Expression:
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

    return filled(rewritten(tree, change), everything)


def _is_input(name: str) -> bool:
    return re.fullmatch(r"X\d*", name) is not None


def _with_labels(tree: Expression, joint: PredictiveJoint, asked: Mapping[str, Any], labels: Any) -> dict[str, Any]:
    """What is asked for, and the labels of the points for y, y1, y2, … where it says nothing."""
    asked = {OMEGA if name == "W" else name: outcome for name, outcome in asked.items()}
    listed = None if labels is None else joint.places("Y", labels)
    if listed is not None and len(listed) != joint.shape[0]:
        raise ValueError(f"labels: found {len(listed)}; pass {joint.shape[0]}, one a point")
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


def _remarks(tree: Expression, joint: PredictiveJoint) -> tuple[str, ...]:
    """What a reader of the value should know."""
    log_weights_K = joint.log_weights_K
    if bool((log_weights_K == log_weights_K[0]).all()) and any(_is_gain(term) for term in _quantities(tree)):
        return ("information gain on equally weighted draws equals surprise, and cannot be negative",)
    return ()


def _is_gain(term: Expression) -> bool:
    if not isinstance(term, I):
        return False
    head, *rest = term.groups
    return any(atom.name == OMEGA and not atom.tied for atom in head) and any(
        atom.tied for part in rest for atom in part
    )


def _quantities(tree: Expression) -> list[Expression]:
    match tree:
        case Sum(terms):
            return [found for _, term in terms for found in _quantities(term)]
        case Expectation(_, body):
            return _quantities(body)
    return [tree]
