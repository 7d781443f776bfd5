"""Where the circles go: areas to scale where one, two or three circles allow it, else a fixed layout.

    circle of X:  area H[X]        overlap of X and Y:  area I[X; Y]

Two circles always can: the distance of their centres follows from the overlap by bisection. Three circles have one
distance for each pair, so pairwise overlaps are to scale wherever a triangle with these sides exists; the part in the
middle is then what it is. A circle inside another, or apart from it, may move: places are tried until the parts fit
best. Where an atom is negative, or a part is missing that ought to be seen, the layout is the usual one of equal
shapes, and says so.  Spec 01, 5.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product

from scipy.optimize import brentq

from natsel.calculus.diagrams.geometry import Arrangement, Ellipse, Part, arrange, circle

# As shares of the whole area. Parts are "to scale" when the eye cannot tell; beyond `_CROOKED` circles mislead.
_TO_SCALE = 0.005
_CROOKED = 0.06
_NOTHING = 1e-9
_SEEN = 0.4


@dataclass(frozen=True)
class Layout:
    """Placed curves, and how far the areas of the parts are from the atoms; None: not to scale at all."""

    arrangement: Arrangement
    worst: float | None

    def caption(self, total: float, unit: str) -> str:
        """Whether the eye may compare areas, in one sentence."""
        if self.worst is None:
            return "Areas are not to scale."
        if self.worst <= _TO_SCALE * total:
            return "Areas are to scale."
        return f"Circles and pairwise overlaps are to scale; single parts are off by up to {self.worst:.2g} {unit}."


def lens(r: float, s: float, distance: float) -> float:
    """The area two circles of radius r and s share when their centres are this far apart.

    >>> round(lens(1, 1, 0) / math.pi, 6), lens(1, 2, 3)
    (1.0, 0.0)
    """
    if distance >= r + s:
        return 0.0
    if distance <= abs(r - s):
        return math.pi * min(r, s) ** 2
    cut_r = (distance**2 + r**2 - s**2) / (2 * distance)
    cut_s = distance - cut_r
    return _cap(r, cut_r) + _cap(s, cut_s)


def _cap(radius: float, cut: float) -> float:
    """What lies beyond a chord at this distance from the centre."""
    angle = math.acos(max(-1.0, min(1.0, cut / radius)))
    return radius**2 * (angle - math.sin(2 * angle) / 2)


def distance_for(r: float, s: float, area: float) -> tuple[float, float]:
    """Between which distances two circles share this area: one number twice, where they cross.

    >>> distance_for(1.0, 2.0, 0.0), distance_for(1.0, 2.0, math.pi)
    ((3.0, inf), (0.0, 1.0))
    """
    smaller = math.pi * min(r, s) ** 2
    if area <= 1e-12 * smaller:
        return r + s, math.inf
    if area >= (1 - 1e-12) * smaller:
        return 0.0, abs(r - s)
    distance = float(brentq(lambda d: lens(r, s, d) - area, abs(r - s), r + s, xtol=1e-15, rtol=1e-14))
    return distance, distance


def place(atoms: Mapping[Part, float], n: int) -> Layout:
    """Curves for n = 1 to 4 variables whose atoms (sets of numbers 0..n−1) have these values in nats."""
    total = sum(abs(value) for value in atoms.values())
    if n <= 3 and total > 0 and min(atoms.values()) >= -_NOTHING * total:
        layout = _to_scale(atoms, n, total)
        if layout is not None:
            return layout
    return Layout(fixed(n), None)


@cache
def fixed(n: int) -> Arrangement:
    """The usual layout: equal circles up to three variables, Venn's ellipses for four.

    >>> len(fixed(4).curves), min(fixed(4).area(part) for r in range(1, 5) for part in combinations(range(4), r)) > 0.02
    (4, True)
    """
    if n == 1:
        return arrange([circle(0, 0, 1)])
    if n == 2:
        return arrange([circle(-0.6, 0, 1), circle(0.6, 0, 1)])
    if n == 3:
        angles = (math.pi * 5 / 6, math.pi / 6, -math.pi / 2)
        return arrange([circle(0.63 * math.cos(t), 0.63 * math.sin(t), 1) for t in angles])
    tilt = math.radians(53.5)  # found by search: each part is of one piece, and the tightest has the most room
    outer = [Ellipse(side * 0.375, -0.178, 1.0, 0.593, side * tilt) for side in (-1, 1)]
    inner = [Ellipse(side * 0.02, 0.052, 1.0, 0.593, -side * tilt) for side in (1, -1)]
    return arrange([outer[0], inner[0], inner[1], outer[1]])


def _to_scale(atoms: Mapping[Part, float], n: int, total: float) -> Layout | None:
    """The best of the layouts with circles and pairwise overlaps to scale, if any is good."""
    radii = [math.sqrt(max(_sum(atoms, {i}), 0.0) / math.pi) for i in range(n)]
    if min(radii) < 0.01 * max(radii):
        return None  # a circle that cannot be seen
    pairs = combinations(range(n), 2)
    sides = [distance_for(radii[i], radii[j], max(_sum(atoms, {i, j}), 0.0)) for i, j in pairs]
    best = None
    for distances in product(*(_choices(*side) for side in sides)):
        centres = _centres(distances, n)
        if centres is None:
            continue
        arrangement = arrange([circle(x, y, r) for (x, y), r in zip(centres, radii, strict=True)])
        areas = {part: arrangement.area(part) for part in atoms}
        worst = max(abs(areas[part] - max(value, 0.0)) for part, value in atoms.items())
        seen = all(areas[part] >= _SEEN * value for part, value in atoms.items() if value > _TO_SCALE * total)
        if seen and (best is None or best.worst is None or worst < best.worst - _NOTHING * total):
            best = Layout(arrangement, worst)
    return best if best is not None and best.worst is not None and best.worst <= _CROOKED * total else None


def _sum(atoms: Mapping[Part, float], within: set[int]) -> float:
    return sum(value for part, value in atoms.items() if within <= part)


def _choices(low: float, high: float) -> Sequence[float]:
    """Distances to try: the only one; from well inside to touching inside; from just apart to far apart."""
    if low == high:
        return (low,)
    if math.isinf(high):
        return tuple(low * factor for factor in (1.0, 1.05, 1.2, 1.5, 2.0, 3.0))
    return tuple(high * factor for factor in (0.6, 0.3, 0.0, 0.8, 0.95, 1.0))


def _centres(distances: Sequence[float], n: int) -> list[tuple[float, float]] | None:
    """The first circle on the left, the second on the right, the third below; None: no such triangle."""
    if n == 1:
        return [(0.0, 0.0)]
    if n == 2:
        return [(0.0, 0.0), (distances[0], 0.0)]
    c, b, a = distances  # |01|, |02|, |12|
    if c == 0:
        return [(0.0, 0.0), (0.0, 0.0), (0.0, -b)] if math.isclose(a, b, abs_tol=1e-12) else None
    x = (c**2 + b**2 - a**2) / (2 * c)
    below = b**2 - x**2
    if below < -1e-9 * c**2:
        return None
    return [(0.0, 0.0), (c, 0.0), (x, -math.sqrt(max(below, 0.0)))]
