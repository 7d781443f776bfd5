"""Where the curves of an I-diagram go: areas to scale where circles allow it, else the usual fixed layout.

    circle of X:  area H[X]        overlap of X and Y:  area I[X; Y]

    overlap of circles r, s at distance d = r² (α − ½ sin 2α) + s² (β − ½ sin 2β),   cos α = (d² + r² − s²) / 2dr

Two circles can always be to scale: their distance follows from the overlap by bisection. Three circles have one
distance per pair, so that pairwise overlaps are to scale wherever a triangle with these sides exists; the part in the
middle then has the area that it has. Where an atom is negative, or a part is missing that should be seen, the layout is
the fixed one.  docs/theory/information-quantities.md, 8.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from scipy.optimize import brentq

Array = np.ndarray[Any, Any]
Part = frozenset[str]

# Shares of the whole area: to scale for the eye, no longer acceptable; and how much of its atom a part must show.
_TO_SCALE, _MISLEADING, _SEEN = 0.005, 0.06, 0.4
_CELLS = 600


@dataclass(frozen=True)
class Ellipse:
    """An ellipse: its centre, its half axes, and the angle by which it is turned."""

    x: float
    y: float
    a: float
    b: float
    angle: float = 0.0

    def level(self, x: Array, y: Array) -> Array:
        """Below 1 inside, above 1 outside: the distance from the centre, in half axes."""
        cos, sin, right, up = math.cos(self.angle), math.sin(self.angle), x - self.x, y - self.y
        level: Array = np.hypot((cos * right + sin * up) / self.a, (cos * up - sin * right) / self.b)
        return level

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """Left, right, lowest and highest coordinate."""
        cos, sin = math.cos(self.angle), math.sin(self.angle)
        across, up = math.hypot(self.a * cos, self.b * sin), math.hypot(self.a * sin, self.b * cos)
        return self.x - across, self.x + across, self.y - up, self.y + up


Curves = dict[str, Ellipse]


def bounds_of(curves: Curves) -> tuple[float, float, float, float]:
    """Left, right, lowest and highest coordinate of all curves."""
    left, right, low, high = zip(*(curve.bounds for curve in curves.values()), strict=True)
    return min(left), max(right), min(low), max(high)


def part_level(levels: Mapping[str, Array], part: Iterable[str]) -> Array:
    """Negative inside the part that lies in these curves and in no other."""
    level: Array = np.max([level - 1 if name in part else 1 - level for name, level in levels.items()], axis=0)
    return level


def part_areas(curves: Curves, parts: Iterable[Part]) -> dict[Part, float]:
    """The areas of the parts that the curves cut one another into, by counting the cells of a grid."""
    left, right, low, high = bounds_of(curves)
    middles = (np.arange(_CELLS) + 0.5) / _CELLS
    x, y = np.meshgrid(left + (right - left) * middles, low + (high - low) * middles)
    levels = {name: curve.level(x, y) for name, curve in curves.items()}
    cell = (right - left) * (high - low) / _CELLS**2
    return {part: float((part_level(levels, part) < 0).sum() * cell) for part in parts}


def overlap_area(r: float, s: float, distance: float) -> float:
    """The area that two circles of radius r and s share when their centres are this far apart.

    >>> round(overlap_area(1, 1, 0) / math.pi, 6), overlap_area(1, 2, 3)
    (1.0, 0.0)
    """
    if distance >= r + s:
        return 0.0
    if distance <= abs(r - s):
        return math.pi * min(r, s) ** 2
    area = 0.0
    for one, other in ((r, s), (s, r)):
        angle = math.acos(max(-1.0, min(1.0, (distance**2 + one**2 - other**2) / (2 * distance * one))))
        area += one**2 * (angle - math.sin(2 * angle) / 2)
    return area


def distance_for_overlap(r: float, s: float, area: float) -> tuple[float, float]:
    """Between which distances two circles share this area: one number twice, where they cross.

    >>> distance_for_overlap(1.0, 2.0, 0.0), distance_for_overlap(1.0, 2.0, math.pi)
    ((3.0, inf), (0.0, 1.0))
    """
    smaller = math.pi * min(r, s) ** 2
    if area <= 1e-12 * smaller:
        return r + s, math.inf
    if area >= (1 - 1e-12) * smaller:
        return 0.0, abs(r - s)
    found = float(brentq(lambda d: overlap_area(r, s, d) - area, abs(r - s), r + s, xtol=1e-15, rtol=1e-14))
    return found, found


def layout(variables: Sequence[str], atoms: Mapping[Part, float]) -> tuple[Curves, float | None]:
    """Curves for 1 to 4 variables, and how far areas are from atoms at most; None: not to scale at all."""
    total = sum(abs(value) for value in atoms.values())
    if len(variables) <= 3 and total > 0 and min(atoms.values()) >= -1e-9 * total:
        curves, worst = _circles_to_scale(variables, atoms, total)
        if worst <= _MISLEADING * total:
            return curves, worst
    return fixed_layout(variables), None


def scale_caption(worst: float | None, total: float, unit: str) -> str:
    """Whether the eye may compare areas, in one sentence."""
    if worst is None:
        return "Areas are not to scale."
    if worst <= _TO_SCALE * total:
        return "Areas are to scale."
    return f"Circles and pairwise overlaps are to scale; single parts are off by up to {worst:.2g} {unit}."


def fixed_layout(variables: Sequence[str]) -> Curves:
    """The usual layout: equal circles for up to three variables, Venn's ellipses for four."""
    n = len(variables)
    if n == 4:
        tilt = math.radians(53.5)  # found by search: each part is in one piece, and the tightest has the most room
        outer = [Ellipse(side * 0.375, -0.178, 1.0, 0.593, side * tilt) for side in (-1, 1)]
        inner = [Ellipse(side * 0.02, 0.052, 1.0, 0.593, -side * tilt) for side in (1, -1)]
        return dict(zip(variables, [outer[0], *inner, outer[1]], strict=True))
    angles, radius = [(), (0.0,), (math.pi, 0.0), (math.pi * 5 / 6, math.pi / 6, -math.pi / 2)][n], [0, 0, 0.6, 0.63][n]
    circles = [Ellipse(radius * math.cos(angle), radius * math.sin(angle), 1, 1) for angle in angles]
    return dict(zip(variables, circles, strict=True))


def _circles_to_scale(variables: Sequence[str], atoms: Mapping[Part, float], total: float) -> tuple[Curves, float]:
    """Circles with pairwise overlaps to scale, and how far the areas of parts are from the atoms at most; ∞: none."""

    def shared(*names: str) -> float:
        return max(0.0, sum(value for part, value in atoms.items() if part.issuperset(names)))

    radii = [math.sqrt(shared(name) / math.pi) for name in variables]
    if min(radii) < 0.01 * max(radii):
        return {}, math.inf  # a circle that cannot be seen
    pairs = combinations(range(len(variables)), 2)
    sides = [distance_for_overlap(radii[i], radii[j], shared(variables[i], variables[j])) for i, j in pairs]
    centres = _centres(sides)
    circles = [Ellipse(x, y, r, r) for (x, y), r in zip(centres, radii, strict=False)]
    curves = dict(zip(variables, circles, strict=False))
    if len(variables) < 3:
        return curves, 0.0
    if len(centres) < 3:
        return {}, math.inf
    areas = part_areas(curves, atoms)
    worst = max(abs(areas[part] - max(value, 0.0)) for part, value in atoms.items())
    seen = all(areas[part] >= _SEEN * value for part, value in atoms.items() if value > _TO_SCALE * total)
    return curves, worst if seen else math.inf


def _centres(sides: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The first circle on the left, the second on the right, the third below; only two where there is no triangle.

    Circles that are apart just touch, and one inside another is a little off its centre, as far as the others allow.
    """
    wanted = [low if low == high else 1.02 * low if math.isinf(high) else 0.6 * high for low, high in sides]
    if len(sides) < 3:
        return [(0.0, 0.0), *((distance, 0.0) for distance in wanted)]
    for free in (place for place, (low, high) in enumerate(sides) if low < high):
        first, second = (distance for place, distance in enumerate(wanted) if place != free)
        in_triangle = min(max(wanted[free], abs(first - second)), first + second)
        wanted[free] = min(max(in_triangle, sides[free][0]), sides[free][1])
    c, b, a = wanted  # |01|, |02|, |12|
    x = (c**2 + b**2 - a**2) / (2 * c) if c else 0.0
    below = b**2 - x**2
    if below < -1e-9 * c**2 or (c == 0 and a != b):
        return [(0.0, 0.0), (c, 0.0)]
    return [(0.0, 0.0), (c, 0.0), (x, -math.sqrt(max(below, 0.0)))]
