"""Drawing an I-diagram: circles (or Venn's ellipses for four variables), each part with its value and its name.

A label stands where it is farthest from other parts, found on a grid of cells. A part in which its label has no room
gets a number, and a list at the side says its name and value; a part without an area is named below. Negative atoms are
hatched, red, and have a minus sign.  docs/theory/information-quantities.md, 8.
"""

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.ndimage import distance_transform_edt, minimum_filter

import natsel.calculus.diagrams.figures as fig
from natsel.calculus.diagrams.circles import Array, Curves, Part, bounds_of, layout, part_level, scale_caption
from natsel.calculus.expressions import Atom, Expression, H
from natsel.calculus.parser import parse

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from natsel.calculus.diagrams.atoms import IDiagram

Point = tuple[float, float]
_CELL = 0.025  # inches
_MARGIN = 0.75  # inches above and below the curves, for names
_HEIGHT = 3.7  # of the curves, in inches
_LIST, _LINE = 2.5, 0.25  # width of the list of parts, height of its lines


class _Page:
    """A grid over the page: in which curves its cells lie, and which are taken by names."""

    def __init__(self, curves: Curves, width: float) -> None:
        _, _, low, high = bounds_of(curves)
        self.x_W = np.arange(0.0, width, _CELL) + _CELL / 2
        self.y_H = np.arange(low - _MARGIN, high + _MARGIN, _CELL) + _CELL / 2
        self.levels = {name: curve.level(*np.meshgrid(self.x_W, self.y_H)) for name, curve in curves.items()}
        self.free_H_W = part_level(self.levels, ()) < 0

    def place_inside(self, part: Part, size: Point) -> tuple[Point | None, bool]:
        """The cell farthest from other parts (None: the part has no cell), and whether a label fits there."""
        within_H_W = part_level(self.levels, part) < 0
        room_H_W = self._room(within_H_W, size)
        far_H_W = distance_transform_edt(within_H_W) * (room_H_W if room_H_W.any() else 1)
        row, column = np.unravel_index(np.argmax(far_H_W), far_H_W.shape)
        spot = float(self.x_W[column]), float(self.y_H[row])
        return (spot if within_H_W.any() else None), bool(room_H_W.any())

    def place_outside(self, spot: Point, size: Point) -> tuple[Point, float]:
        """The free place for a name nearest to a spot, which is then taken; and how far it is away."""
        rows_P, columns_P = np.nonzero(self._room(self.free_H_W, (size[0] + 0.1, size[1] + 0.1)))
        away_P_2 = np.abs(np.stack([self.x_W[columns_P], self.y_H[rows_P]], -1) - spot)
        distance_P = np.hypot(*(away_P_2 - np.array(size) / 2).clip(0).T)
        best = int(np.argmin(distance_P + 0.05 * np.hypot(*away_P_2.T)))  # of equals the one in the middle
        x, y = float(self.x_W[columns_P[best]]), float(self.y_H[rows_P[best]])
        self.free_H_W &= ~((abs(self.y_H - y) < size[1] / 2)[:, None] & (abs(self.x_W - x) < size[0] / 2))
        return (x, y), float(distance_P[best])

    @staticmethod
    def _room(free_H_W: Array, size: Point) -> Array:
        """The cells around which a box of this size is free."""
        cells = [max(1, math.ceil(side / _CELL)) for side in reversed(size)]
        room_H_W: Array = minimum_filter(free_H_W, size=cells, mode="constant", cval=False)
        return room_H_W


def draw(diagram: "IDiagram", highlight: str | Expression | None = None, title: str | None = None) -> "Figure":
    """The figure of a diagram of 1 to 4 variables."""
    n = len(diagram.variables)
    if not 1 <= n <= 4:
        raise ValueError(f'variables: a picture holds 1 to 4, found {n}; name fewer, or list the atoms: render("text")')
    fig.require_matplotlib()
    quantity = parse(highlight) if isinstance(highlight, str) else highlight
    chosen = None if quantity is None else diagram.region(quantity)
    if quantity is not None:
        title = title or f"{fig.quantity_text(quantity)} = {fig.number_text(diagram.value(quantity))} {diagram.unit}"
    layout_curves, worst = layout(diagram.variables, diagram.atoms)
    for width, room in ((fig.WIDTH, 4.7), (fig.WIDTH - _LIST, 4.2)):  # without a list if all labels have room
        curves = _in_inches(layout_curves, room, width / 2)
        page = _Page(curves, width)
        spots = {part: page.place_inside(part, _label_size(diagram, part)) for part in diagram.atoms}
        listed = [part for part, (spot, fits) in spots.items() if n == 4 or (spot and not fits)]
        if not listed:
            break
    names = _variable_names(page, diagram, curves)
    rows_H = np.nonzero(~page.free_H_W.all(1))[0]
    low, high = float(page.y_H[rows_H[0]]) - 0.62, float(page.y_H[rows_H[-1]]) + (0.6 if title else 0.18)
    short = max(0.0, _LINE * len(listed) + 0.9 - (high - low))
    low, high = low - short / 2, high + short / 2
    figure, axes = fig.empty_figure(low, high)
    _draw_parts(axes, page, diagram, curves, chosen)
    for part, (spot, _) in spots.items():
        value, name = fig.number_text(diagram.atoms[part]), fig.quantity_text(diagram.expression(part))
        lines = ((value, 11.0), (name, 8.0))
        if part in listed:
            lines = ((str(listed.index(part) + 1), 6.5), (value if n == 4 else "", 9.0))
        if spot is not None:
            _draw_two_lines(axes, spot, lines, _ink(diagram.atoms[part]))
    for variable, colour in zip(diagram.variables, fig.COLOURS, strict=False):
        text, rim, centre, distance = names[variable]
        if distance > 0.25:
            axes.plot([rim[0], centre[0]], [rim[1], centre[1]], color=colour, linewidth=1.0, zorder=4)
            axes.plot(*rim, marker="o", markersize=3.2, color=colour, zorder=4)
        frame = {"facecolor": "white", "edgecolor": colour, "boxstyle": "round,pad=0.28", "linewidth": 1.2}
        axes.text(*centre, text, size=11, color=fig.INK, ha="center", va="center", zorder=6, bbox=frame)
    _draw_list(axes, diagram, listed, chosen or set(), (low + high) / 2)
    if title:
        axes.text(fig.WIDTH / 2, high - 0.26, title, ha="center", va="center", size=13, color=fig.INK)
    hidden = [
        f"{fig.quantity_text(diagram.expression(part))} = {fig.number_text(diagram.atoms[part])}"
        for part, (spot, _) in spots.items()
        if spot is None and part not in listed
    ]
    words = [f"Values in {diagram.unit}.", scale_caption(worst, sum(map(abs, diagram.atoms.values())), diagram.unit)]
    if any(value < -fig.ZERO for value in diagram.atoms.values()):
        words.append("Hatched: negative, so no inequality may be read off.")
    elif any(abs(value) <= fig.ZERO and spots[part][0] for part, value in diagram.atoms.items()):
        words.append("White: zero.")
    below = f"Without an area: {', '.join(hidden)}." if hidden else ""
    for y, sentence in ((low + 0.37, below), (low + 0.17, " ".join(words))):
        axes.text(fig.WIDTH / 2, y, sentence, size=8.5, color=fig.SOFT, ha="center", va="center")
    return figure


def _in_inches(curves: Curves, width: float, middle: float) -> Curves:
    """The same curves in inches, as large as the width and height allow, their lowest point at 0."""
    left, right, low, high = bounds_of(curves)
    scale = min(width / (right - left), _HEIGHT / (high - low))
    moved = {}
    for name, curve in curves.items():
        x, y = scale * (curve.x - (left + right) / 2) + middle, scale * (curve.y - low)
        moved[name] = replace(curve, x=x, y=y, a=scale * curve.a, b=scale * curve.b)
    return moved


def _label_size(diagram: "IDiagram", part: Part) -> Point:
    value, name = fig.number_text(diagram.atoms[part]), fig.quantity_text(diagram.expression(part))
    if len(diagram.variables) == 4:
        return fig.text_size(value, 9)[0] + 0.06, 0.3
    return max(fig.text_size(value, 11)[0], fig.text_size(name, 8)[0]) + 0.06, 0.36


def _variable_names(page: _Page, diagram: "IDiagram", curves: Curves) -> dict[str, tuple[str, Point, Point, float]]:
    """The name and entropy of each variable: text, point of its curve, free place, distance."""
    middle_2 = np.mean([(curve.x, curve.y) for curve in curves.values()], axis=0)
    turn_T = np.linspace(0, 2 * math.pi, 73)
    found = {}
    for name, curve in sorted(curves.items(), key=lambda item: -abs(item[1].x - middle_2[0])):  # the outermost first
        entropy = H((Atom(name),))
        text = f"{fig.quantity_text(entropy)} = {fig.number_text(diagram.value(entropy))}"
        right_T, up_T = np.cos(turn_T), np.sin(turn_T)
        reach_T = 1 / curve.level(curve.x + right_T, curve.y + up_T)
        rim_T_2 = np.stack([curve.x + reach_T * right_T, curve.y + reach_T * up_T], -1)
        x, y = rim_T_2[np.argmax(np.hypot(*(rim_T_2 - middle_2).T) + 0.02 * up_T)]  # of equals the upper one
        rim, (width, height) = (float(x), float(y)), fig.text_size(text, 11)
        found[name] = (text, rim, *page.place_outside(rim, (width + 0.16, height + 0.12)))
    return found


def _draw_parts(axes: "Axes", page: _Page, diagram: "IDiagram", curves: Curves, chosen: set[Part] | None) -> None:
    """Fill the parts, draw the curves, and outline the highlighted region."""
    from matplotlib.patches import Ellipse, PathPatch
    from matplotlib.path import Path

    def draw_where_negative(level_H_W: Array, **style: Any) -> None:
        if float(level_H_W.min()) < 0:
            contour = axes.contourf(page.x_W, page.y_H, level_H_W, levels=[-9.0, 1e-9])
            loops = [Path(_thinned(np.array(loop)), closed=True) for loop in contour.get_paths()[0].to_polygons()]
            axes.add_patch(PathPatch(Path.make_compound_path(*loops), **style))
            contour.remove()

    colours = dict(zip(diagram.variables, fig.COLOURS, strict=False))
    for part, value in diagram.atoms.items():
        level_H_W, off = part_level(page.levels, part), chosen is not None and part not in chosen
        if value < -fig.ZERO:
            edge = fig.PALE_HATCH if off else fig.HATCH
            draw_where_negative(level_H_W, facecolor="white", edgecolor=edge, hatch="////", linewidth=0, zorder=1)
        elif value > fig.ZERO:
            shade = fig.tint([colours[name] for name in diagram.variables if name in part], 0.13 if off else 0.34)
            draw_where_negative(level_H_W, facecolor=shade, edgecolor="none", linewidth=0, zorder=1)
    for name, curve in curves.items():
        oval = Ellipse((curve.x, curve.y), 2 * curve.a, 2 * curve.b, angle=math.degrees(curve.angle))
        oval.set(facecolor="none", edgecolor=colours[name], linewidth=1.8, zorder=2)
        axes.add_patch(oval)
    if chosen:
        level_H_W = np.min([part_level(page.levels, part) for part in chosen], axis=0)
        draw_where_negative(level_H_W, facecolor="none", edgecolor=fig.INK, linewidth=2.6, zorder=3, joinstyle="round")


def _thinned(loop_T_2: Array) -> Array:
    """Every fourth point of a closed line, and its corners: enough for the eye, in a smaller file."""
    step_T_2 = np.diff(loop_T_2, axis=0)
    angle_T = np.arctan2(step_T_2[:, 1], step_T_2[:, 0])
    turn_T = (angle_T - np.roll(angle_T, 1) + np.pi) % (2 * np.pi) - np.pi
    kept_T = (np.arange(len(step_T_2)) % 4 == 0) | (np.abs(turn_T) > 0.3)
    thin_T_2: Array = loop_T_2[np.append(kept_T, True)]
    return thin_T_2


def _ink(value: float) -> str:
    return fig.NEGATIVE if value < -fig.ZERO else (fig.INK if value > fig.ZERO else fig.SOFT)


def _draw_two_lines(axes: "Axes", spot: Point, lines: tuple[tuple[str, float], ...], colour: str) -> None:
    """Two centred lines around a spot; on hatching they stand on a white patch."""
    lines = tuple((text, size) for text, size in lines if text)
    sizes = [fig.text_size(text, size) for text, size in lines]
    width, y = max(width for width, _ in sizes), spot[1] + sum(height for _, height in sizes) / 2
    if colour == fig.NEGATIVE:
        style: dict[str, Any] = {"facecolor": "white", "edgecolor": "none", "alpha": 0.9, "zorder": 1.5}
        fig.rectangle(axes, *spot, width + 0.06, sum(height for _, height in sizes), **style)
    for (text, size), (_, height) in zip(lines, sizes, strict=True):
        axes.text(spot[0], y - height / 2, text, size=size, color=colour, ha="center", va="center", zorder=5)
        y -= height


def _draw_list(axes: "Axes", diagram: "IDiagram", listed: list[Part], chosen: set[Part], middle: float) -> None:
    """What the numbered parts are; those of a highlighted quantity on grey."""
    left = fig.WIDTH - _LIST
    for count, part in enumerate(listed, start=1):
        y, value = middle + _LINE * (len(listed) / 2 - count + 1), diagram.atoms[part]
        style: dict[str, Any] = {"va": "center_baseline", "color": _ink(value), "size": 9}
        if part in chosen:
            fig.rectangle(axes, left + _LIST / 2 - 0.06, y, _LIST - 0.17, _LINE, facecolor="#ececec", zorder=0)
        axes.text(left + 0.22, y, str(count), ha="right", **(style | {"size": 7.5, "color": fig.SOFT}))
        name = fig.quantity_text(diagram.expression(part))
        size = min(9.0, 9.0 * (_LIST - 1.1) / fig.text_size(name, 9)[0])
        axes.text(left + 0.34, y, name, **(style | {"size": size}))
        axes.text(fig.WIDTH - 0.25, y, fig.number_text(value), ha="right", **style)
