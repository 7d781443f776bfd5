"""Finding room for labels: the roomiest spot of a part, the way out of all curves, a free place beside them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.ndimage import distance_transform_cdt

from natsel.calculus.diagrams.geometry import Arrangement, Array, Part

_CELLS = 360
_THREE = (-1, 0, 1)


def roomiest(arrangement: Arrangement, part: Part, aspect: float, height: float) -> tuple[Array, bool]:
    """The centre of the largest box of this aspect (width by height) inside a part; and whether this height fits.

    On a grid stretched by the aspect the largest box is the largest square, which a chessboard distance finds.
    """
    loops = arrangement.loops([part])
    if not loops:
        return np.zeros(2), False
    outline_T_2 = np.concatenate(loops)
    low_2, high_2 = outline_T_2.min(0), outline_T_2.max(0)
    step = max((high_2[0] - low_2[0]) / aspect, high_2[1] - low_2[1], 1e-9) / _CELLS
    x_W = np.arange(low_2[0] - step * aspect, high_2[0] + 2 * step * aspect, step * aspect)
    y_H = np.arange(low_2[1] - step, high_2[1] + 2 * step, step)
    grid_H_W_2 = np.stack(np.meshgrid(x_W, y_H), -1)
    within_H_W = np.ones(grid_H_W_2.shape[:2], bool)
    for index, curve in enumerate(arrangement.curves):
        if curve.a > 0:
            within_H_W &= (curve.level(grid_H_W_2) < 1) == (index in part)
    if not within_H_W.any():
        return outline_T_2.mean(0), False
    room_H_W = distance_transform_cdt(within_H_W, "chessboard")
    best_P_2 = grid_H_W_2[room_H_W == room_H_W.max()]
    middle_2 = np.median(best_P_2, axis=0)  # a long part has many equally roomy spots
    spot_2 = best_P_2[np.argmin(np.linalg.norm(best_P_2 - middle_2, axis=-1))]
    return spot_2, bool(2 * step * (room_H_W.max() - 1) >= height)


@dataclass(frozen=True)
class Box:
    """Where a label lies: its centre and its size."""

    x: float
    y: float
    width: float
    height: float

    def within(self, left: float, right: float) -> bool:
        return left <= self.x - self.width / 2 and self.x + self.width / 2 <= right

    def meets(self, other: "Box", gap: float) -> bool:
        across = abs(self.x - other.x) < (self.width + other.width) / 2 + gap
        return across and abs(self.y - other.y) < (self.height + other.height) / 2 + gap

    def holds(self, points_P_2: Array) -> bool:
        """Whether any of these points lies in it."""
        across = np.abs(points_P_2[:, 0] - self.x) < self.width / 2
        return bool((across & (np.abs(points_P_2[:, 1] - self.y) < self.height / 2)).any())

    def corners(self) -> Array:
        """Its corners, and the middles between them."""
        return np.array([[self.x + i * self.width / 2, self.y + j * self.height / 2] for i in _THREE for j in _THREE])


def way_out(
    arrangement: Arrangement, index: int, size: tuple[float, float], taken: Sequence[Box], sides: tuple[float, float]
) -> tuple[Array, Box, bool]:
    """Where a curve's name goes: (point on the curve, box outside all curves, whether a line should join them).

    Straight out from the middle of the picture is best; other ways are taken where that is blocked or far.
    """
    curve = arrangement.curves[index]
    middle_2 = np.mean([each.centre_2 for each in arrangement.curves], axis=0)
    outward_2 = curve.centre_2 - middle_2
    length = float(np.hypot(*outward_2))
    outward_2 = outward_2 / length if length > 1e-6 else np.array([0.0, 1.0])
    best: tuple[float, Array, Box, bool] | None = None
    for t in np.linspace(0, 2 * np.pi, 144, endpoint=False):
        rim_2 = curve.points(t)
        away_2 = (rim_2 - curve.centre_2) / float(np.hypot(*(rim_2 - curve.centre_2)))
        reach = abs(away_2[0]) * size[0] / 2 + abs(away_2[1]) * size[1] / 2 + 0.06
        for extra in np.arange(0.0, 5.0, 0.05):
            spot_2 = rim_2 + away_2 * (reach + extra)
            box = Box(float(spot_2[0]), float(spot_2[1]), *size)
            cost = extra + 0.35 * (1 - float(away_2 @ outward_2))
            if best is not None and cost >= best[0]:
                break
            if box.within(*sides) and _free(arrangement, box, taken):
                best = (float(cost), rim_2, box, bool(extra > 0.25))
                break
    if best is None:  # no way out to the sides: on the curve itself
        rim_2 = curve.points(np.pi / 2)
        return rim_2, Box(float(rim_2[0]), float(rim_2[1]), *size), False
    return best[1], best[2], best[3]


def _free(arrangement: Arrangement, box: Box, taken: Sequence[Box]) -> bool:
    """Whether a box touches no curve and no other label."""
    if any(box.meets(other, 0.08) for other in taken):
        return False
    wider = Box(box.x, box.y, box.width + 0.1, box.height + 0.1)
    return all(bool((curve.level(wider.corners()) > 1).all()) for curve in arrangement.curves if curve.a > 0)


def beside(
    spot_2: Array, size: tuple[float, float], corners: tuple[Array, Array], taken: Sequence[Box]
) -> tuple[Box, bool]:
    """Where the label of a spot goes: left or right of a frame, near its height, its line clear of other labels.

    >>> box, leftwards = beside(np.zeros(2), (1.0, 0.4), (np.array([-1.0, -1.0]), np.array([2.0, 1.0])), [])
    >>> box.x, box.y, leftwards
    (-1.5, 0.0, True)
    """
    (left, bottom), (right, top) = corners
    near_left = bool(spot_2[0] - left < right - spot_2[0])
    best: tuple[float, Box, bool] | None = None
    for leftwards in (near_left, not near_left):
        edge = left if leftwards else right
        x = edge + (-1 if leftwards else 1) * size[0] / 2
        for offset in sorted((step * 0.04 for step in range(-75, 76)), key=abs):
            away = abs(offset) + (0.0 if leftwards == near_left else 0.6)
            if best is not None and away >= best[0]:
                break
            box = Box(float(x), float(spot_2[1] + offset), *size)
            if not bottom + size[1] / 2 <= box.y <= top - size[1] / 2 or any(box.meets(other, 0.05) for other in taken):
                continue
            line_P_2 = np.linspace(spot_2, [edge, box.y], 40)
            cost = away + 3.0 * sum(other.holds(line_P_2) for other in taken)
            if best is None or cost < best[0]:
                best = (cost, box, leftwards)
    return (best[1], best[2]) if best is not None else (Box(float(left) - size[0] / 2, float(spot_2[1]), *size), True)
