"""Ellipses in the plane, the parts they cut one another into, and the exact areas of these parts.

    curve        c + M (cos t, sin t)ᵀ, counter-clockwise; a circle has M = r·1
    an arc       runs between two crossings of its curve with others; on its left lies one part, on its right another
    ½ ∮ x dy − y dx = ½ Σ [ det M (t₁ − t₀) + c × (point(t₁) − point(t₀)) ]        area of a part, arc by arc

A part is named by the set of curves it lies inside of. Crossings are the roots of a trigonometric polynomial of degree
two, found as eigenvalues: nothing is sampled, so areas are good to rounding.  Spec 01, 5 (the drawing is ours).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Part = frozenset[int]

_TURN = 2 * math.pi


@dataclass(frozen=True)
class Ellipse:
    """An ellipse: centre, half axes, and the angle by which it is turned.

    >>> circle(0, 0, 2).area / math.pi
    4.0
    """

    x: float
    y: float
    a: float
    b: float
    angle: float = 0.0

    @property
    def area(self) -> float:
        return math.pi * self.a * self.b

    @property
    def centre_2(self) -> Array:
        return np.array([self.x, self.y])

    @property
    def matrix_2_2(self) -> Array:
        cos, sin = math.cos(self.angle), math.sin(self.angle)
        return np.array([[cos * self.a, -sin * self.b], [sin * self.a, cos * self.b]])

    def points(self, t_T: Array | float) -> Array:
        """Points of the curve at parameters t: [T, 2]."""
        unit_T_2 = np.stack([np.cos(t_T), np.sin(t_T)], -1)
        points_T_2: Array = self.centre_2 + unit_T_2 @ self.matrix_2_2.T
        return points_T_2

    def level(self, points_P_2: Array) -> Array:
        """Below 1 inside, above 1 outside: the distance from the centre, in half axes."""
        level_P: Array = np.linalg.norm((points_P_2 - self.centre_2) @ np.linalg.inv(self.matrix_2_2).T, axis=-1)
        return level_P


def circle(x: float, y: float, radius: float) -> Ellipse:
    """A circle."""
    return Ellipse(x, y, radius, radius)


@dataclass(frozen=True)
class Arc:
    """A piece of curve number `curve` from t0 to t1 > t0, with the part inside it and the part outside."""

    curve: int
    t0: float
    t1: float
    inside: Part
    outside: Part


@dataclass(frozen=True)
class Arrangement:
    """Curves and the arcs they cut one another into.

    >>> two = arrange([circle(0, 0, 1), circle(3, 0, 1)])
    >>> round(two.area({0}), 6), two.area({0, 1})
    (3.141593, 0.0)
    """

    curves: tuple[Ellipse, ...]
    arcs: tuple[Arc, ...]

    def area(self, part: Iterable[int]) -> float:
        """The area of the part inside these curves and outside the others, exact."""
        part = frozenset(part)
        area = 0.0
        for arc in self.arcs:
            sign = (arc.inside == part) - (arc.outside == part)
            area += sign * self._swept(arc)
        return max(area, 0.0)

    def loops(self, parts: Iterable[Iterable[int]]) -> list[Array]:
        """Closed outlines [T, 2] of a union of parts, which lies on their left: holes run clockwise."""
        wanted = {frozenset(part) for part in parts}
        pieces = []
        for arc in self.arcs:
            if (arc.inside in wanted) != (arc.outside in wanted):
                steps = max(2, math.ceil((arc.t1 - arc.t0) / _TURN * 120) + 1)
                points_T_2 = self.curves[arc.curve].points(np.linspace(arc.t0, arc.t1, steps))
                pieces.append(points_T_2 if arc.inside in wanted else points_T_2[::-1])
        return _joined(pieces)

    def bounds(self) -> tuple[Array, Array]:
        """The lower left and the upper right corner of all curves."""
        half_C_2 = np.array([np.linalg.norm(curve.matrix_2_2, axis=1) for curve in self.curves])
        centre_C_2 = np.array([curve.centre_2 for curve in self.curves])
        return (centre_C_2 - half_C_2).min(0), (centre_C_2 + half_C_2).max(0)

    def _swept(self, arc: Arc) -> float:
        curve = self.curves[arc.curve]
        start_2, end_2 = curve.points(arc.t0), curve.points(arc.t1)
        step_2 = end_2 - start_2
        return float(curve.a * curve.b * (arc.t1 - arc.t0) + curve.x * step_2[1] - curve.y * step_2[0]) / 2


def arrange(curves: Sequence[Ellipse]) -> Arrangement:
    """Cut curves at their crossings. Of coinciding curves the later ones count as inside the earlier."""
    arcs = []
    for index, curve in enumerate(curves):
        if curve.a <= 0 or curve.b <= 0:
            continue
        others = [other for other in range(len(curves)) if other != index and curves[other].a > 0]
        cuts = sorted(t for other in others for t in _crossings(curve, curves[other]))
        ends = list(zip(cuts, [*cuts[1:], cuts[0] + _TURN], strict=True)) if cuts else [(0.0, _TURN)]
        for t0, t1 in ends:
            if t1 - t0 < 1e-12:
                continue
            middle_2 = curve.points((t0 + t1) / 2)
            around = frozenset(other for other in others if _within(curves[other], middle_2, other < index))
            arcs.append(Arc(index, t0, t1, around | {index}, around))
    return Arrangement(tuple(curves), tuple(arcs))


def _within(curve: Ellipse, point_2: Array, earlier: bool) -> bool:
    level = float(curve.level(point_2))
    return earlier if abs(level - 1) < 1e-12 else level < 1


def _crossings(curve: Ellipse, other: Ellipse) -> list[float]:
    """Parameters t in [0, 2π) at which a curve crosses another one: |other⁻¹(curve(t))|² = 1."""
    inverse_2_2 = np.linalg.inv(other.matrix_2_2)
    shift_2 = inverse_2_2 @ (curve.centre_2 - other.centre_2)
    turn_2_2 = inverse_2_2 @ curve.matrix_2_2
    form_2_2, along_2 = turn_2_2.T @ turn_2_2, shift_2 @ turn_2_2
    constant = shift_2 @ shift_2 - 1 + np.trace(form_2_2) / 2
    second = complex(form_2_2[0, 0] - form_2_2[1, 1], -2 * form_2_2[0, 1]) / 4  # of e^{2it}
    first = complex(along_2[0], -along_2[1])  # of e^{it}
    if abs(second) < 1e-12 * np.trace(form_2_2):  # two circles: one wave, solved directly
        ratio = -constant / (2 * abs(first)) if abs(first) > 1e-15 else math.inf
        if abs(ratio) >= 1:
            return []
        phase, half = -np.angle(first), math.acos(ratio)
        return [float(t) % _TURN for t in (phase - half, phase + half)]
    roots = np.roots([second, first, constant, first.conjugate(), second.conjugate()])
    on_circle = roots[np.abs(np.abs(roots) - 1) < 1e-7]
    return [float(t) % _TURN for t in np.angle(on_circle)]


def _joined(pieces: list[Array]) -> list[Array]:
    """Pieces put end to end, each to the one that starts nearest to where it ends."""
    loops = []
    left = list(pieces)
    while left:
        loop = [left.pop(0)]
        while left:
            end_2 = loop[-1][-1]
            gaps = [float(np.hypot(*(piece[0] - end_2))) for piece in left]
            closing = float(np.hypot(*(loop[0][0] - end_2)))
            nearest = int(np.argmin(gaps))
            if closing <= gaps[nearest]:
                break
            loop.append(left.pop(nearest))
        loops.append(np.concatenate(loop))
    return loops
