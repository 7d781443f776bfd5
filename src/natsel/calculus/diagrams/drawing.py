"""Drawing an I-diagram: circles (or Venn's ellipses for four variables), each part with its value and its name.

A part has its label inside where that fits, else beside the picture with a line to it. Parts whose atom is zero and
which have no room of their own are named in the caption. Negative atoms are hatched, red, and have a minus sign.
Spec 01, 5.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from natsel.calculus.diagrams.circles import Layout, place
from natsel.calculus.diagrams.figures import (
    COLOURS,
    HATCH,
    INK,
    NEGATIVE,
    PALE_HATCH,
    SOFT,
    WIDTH,
    canvas,
    need_matplotlib,
    text_size,
    tint,
)
from natsel.calculus.diagrams.geometry import Arrangement, Array, Ellipse, Part, arrange
from natsel.calculus.diagrams.labels import ZERO, maths, number
from natsel.calculus.diagrams.placing import Box, beside, roomiest, way_out
from natsel.calculus.expressions import Atom, Expression, H
from natsel.calculus.parser import parse

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from natsel.calculus.diagrams.atoms import IDiagram, Subset

_SIDE = 1.5  # inches left and right for labels that do not fit inside
_LINE = 0.25


@dataclass(frozen=True)
class _Scene:
    """What is drawn: the diagram, its curves in inches, and the parts that a highlighted quantity covers."""

    diagram: "IDiagram"
    arrangement: Arrangement
    layout: Layout
    chosen: frozenset[Part] | None

    def value(self, part: Part) -> float:
        return self.diagram.atoms[self.names(part)]

    def names(self, part: Part) -> "Subset":
        return frozenset(self.diagram.variables[curve] for curve in part)

    def expression(self, part: Part) -> Expression:
        return self.diagram.expression(self.names(part))

    @property
    def low(self) -> float:
        return float(self.arrangement.bounds()[0][1])

    @property
    def high(self) -> float:
        return float(self.arrangement.bounds()[1][1])

    @property
    def parts(self) -> list[Part]:
        index = {name: number for number, name in enumerate(self.diagram.variables)}
        return [frozenset(index[name] for name in names) for names in self.diagram.atoms]


def draw(diagram: "IDiagram", highlight: str | Expression | None = None, title: str | None = None) -> "Figure":
    """The figure of a diagram of 1 to 4 variables."""
    n = len(diagram.variables)
    if not 1 <= n <= 4:
        raise ValueError(f'variables: a picture holds 1 to 4, found {n}; name fewer, or list the atoms: render("text")')
    need_matplotlib()
    index = {name: number for number, name in enumerate(diagram.variables)}
    atoms = {frozenset(index[name] for name in names): value for names, value in diagram.atoms.items()}
    layout = place(atoms, n)
    quantity = parse(highlight) if isinstance(highlight, str) else highlight
    chosen = None
    if quantity is not None:
        chosen = frozenset(frozenset(index[name] for name in names) for names in diagram.region(quantity))
        title = title or f"{maths(quantity)} = {number(diagram.value(quantity))} {diagram.unit}"

    table = 2.5 if n == 4 else 0.0
    width = WIDTH - table
    room = (width - 0.5, 3.7) if n == 4 else (width - 2 * _SIDE, 3.55)
    scene = _Scene(diagram, _inches(layout.arrangement, room, width / 2), layout, chosen)
    names = _names(scene, (0.08, width - 0.08))
    bottom = min(scene.low, *(box.y - box.height / 2 for _, _, box, _ in names)) - 0.62
    top = max(scene.high, *(box.y + box.height / 2 for _, _, box, _ in names)) + (0.6 if title else 0.18)
    if n == 4:
        short = max(0.0, _LINE * len(scene.parts) + 0.9 - (top - bottom))
        bottom, top = bottom - short / 2, top + short / 2
    figure, axes = canvas(WIDTH, bottom, top)
    _fill(axes, scene)
    _outline(axes, scene)
    if n == 4:
        _number_parts(axes, scene, width, (bottom + top) / 2)
    else:
        _label_parts(axes, scene, [box for _, _, box, _ in names])
    for (text, rim_2, box, joined), colour in zip(names, COLOURS, strict=False):
        _draw_name(axes, text, rim_2, box, joined, colour)
    if title:
        axes.text(WIDTH / 2, top - 0.26, title, ha="center", va="center", size=13, color=INK)
    _caption(axes, scene, bottom)
    return figure


def _inches(arrangement: Arrangement, room: tuple[float, float], middle: float) -> Arrangement:
    """The same curves in inches, as large as the room allows, their lowest point at 0."""
    low_2, high_2 = arrangement.bounds()
    scale = min(room[0] / (high_2[0] - low_2[0]), room[1] / (high_2[1] - low_2[1]))
    shift_x, shift_y = middle - scale * (low_2[0] + high_2[0]) / 2, -scale * low_2[1]
    moved = [
        Ellipse(scale * c.x + shift_x, scale * c.y + shift_y, scale * c.a, scale * c.b, c.angle)
        for c in arrangement.curves
    ]
    return arrange(moved)


def _path(axes: "Axes", loops: Iterable[Array], **style: Any) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    paths = [Path(np.concatenate([loop, loop[:1]]), closed=True) for loop in loops if len(loop) > 2]
    if paths:
        axes.add_patch(PathPatch(Path.make_compound_path(*paths), **style))


def _fill(axes: "Axes", scene: _Scene) -> None:
    for part in scene.parts:
        loops = scene.arrangement.loops([part])
        off = scene.chosen is not None and part not in scene.chosen
        shade = tint([COLOURS[index] for index in sorted(part)], 0.13 if off else 0.34)
        if scene.value(part) < -ZERO:
            colour = PALE_HATCH if off else HATCH
            _path(axes, loops, facecolor="white", edgecolor=colour, hatch="////", linewidth=0, zorder=1)
        elif scene.value(part) > ZERO:
            _path(axes, loops, facecolor=shade, edgecolor="none", linewidth=0, zorder=1)


def _outline(axes: "Axes", scene: _Scene) -> None:
    from matplotlib.patches import Ellipse as Oval

    for curve, colour in zip(scene.arrangement.curves, COLOURS, strict=False):
        oval = Oval((curve.x, curve.y), 2 * curve.a, 2 * curve.b, angle=math.degrees(curve.angle))
        oval.set(facecolor="none", edgecolor=colour, linewidth=1.8, zorder=2)
        axes.add_patch(oval)
    if scene.chosen:
        loops = scene.arrangement.loops(scene.chosen)
        _path(axes, loops, facecolor="none", edgecolor=INK, linewidth=2.6, zorder=3, joinstyle="round")


def _label_parts(axes: "Axes", scene: _Scene, taken: list[Box]) -> None:
    """Value and name in each part, or beside the picture."""
    outside: list[tuple[Array, str, str, str]] = []
    for part in scene.parts:
        value, name = number(scene.value(part)), maths(scene.expression(part))
        colour = _colour(scene.value(part))
        if _unseen(scene, part):
            continue
        for large, small in ((12, 9), (10.5, 8)):
            sizes = text_size(value, large), text_size(name, small)
            width, height = max(w for w, _ in sizes) + 0.1, sum(h for _, h in sizes) + 0.04
            spot_2, fits = roomiest(scene.arrangement, part, width / height, height)
            if fits:
                _two_lines(axes, spot_2, (value, large), (name, small), colour)
                taken.append(Box(float(spot_2[0]), float(spot_2[1]), width, height))
                break
        else:
            outside.append((roomiest(scene.arrangement, part, 1.0, 0.0)[0], name, value, colour))
    _beside(axes, scene, outside, taken)


def _two_lines(axes: "Axes", spot_2: Array, above: tuple[str, float], below: tuple[str, float], colour: str) -> None:
    """Two centred lines around a spot; on hatching they stand on a white patch."""
    from matplotlib.patches import Rectangle

    x, y = spot_2
    (wide, tall), (width, low) = text_size(*above), text_size(*below)
    if colour == NEGATIVE:
        across, up = max(wide, width) + 0.06, tall + low
        axes.add_patch(
            Rectangle(
                (x - across / 2, y - up / 2), across, up, facecolor="white", edgecolor="none", alpha=0.9, zorder=1.5
            )
        )
    for (text, size), centre in ((above, y + low / 2), (below, y - tall / 2)):
        axes.text(x, centre, text, size=size, color=colour, ha="center", va="center", zorder=5)


def _colour(value: float) -> str:
    return NEGATIVE if value < -ZERO else (INK if value > ZERO else SOFT)


def _beside(axes: "Axes", scene: _Scene, labels: list[tuple[Array, str, str, str]], taken: list[Box]) -> None:
    """Labels left and right of the picture, each with a line to its part, clear of names and of other labels."""
    low_2, high_2 = scene.arrangement.bounds()
    gap_2 = np.array([0.12, 0.0])
    frame = low_2 - gap_2, high_2 + gap_2
    for spot_2, name, value, colour in sorted(labels, key=lambda label: float(label[0][1])):
        small = min(8.0, 8.0 * (frame[0][0] - 0.2) / text_size(name, 8)[0])
        width = max(text_size(value, 10.5)[0], text_size(name, small)[0]) + 0.05
        box, leftwards = beside(spot_2, (width, 0.36), frame, taken)
        taken.append(box)
        edge = frame[0][0] if leftwards else frame[1][0]
        axes.plot([spot_2[0], edge], [spot_2[1], box.y], color=SOFT, linewidth=0.8, zorder=4)
        axes.plot(*spot_2, marker="o", markersize=2.6, color=SOFT, zorder=4)
        style: dict[str, Any] = {"color": colour, "ha": "right" if leftwards else "left", "va": "center_baseline"}
        x = edge - 0.05 if leftwards else edge + 0.05
        axes.text(x, box.y + 0.085, value, size=10.5, **style)
        axes.text(x, box.y - 0.085, name, size=small, **style)


def _number_parts(axes: "Axes", scene: _Scene, left: float, middle: float) -> None:
    """Four variables: a value and a number in each part, and a list of what the numbers stand for."""
    top = middle + _LINE * len(scene.parts) / 2
    for count, part in enumerate(scene.parts, start=1):
        value = number(scene.value(part))
        colour = _colour(scene.value(part))
        spot_2, _ = roomiest(scene.arrangement, part, (text_size(value, 9)[0] + 0.06) / 0.3, 0.3)
        _two_lines(axes, spot_2, (str(count), 6.5), (value, 9), colour)
        y = top - _LINE * (count - 1)
        style: dict[str, Any] = {"va": "center_baseline", "color": colour, "size": 9}
        if scene.chosen and part in scene.chosen:
            axes.add_patch(_stripe(left + 0.02, y))
        axes.text(left + 0.22, y, str(count), ha="right", **(style | {"size": 7.5, "color": SOFT}))
        axes.text(left + 0.34, y, maths(scene.expression(part)), **style)
        axes.text(WIDTH - 0.25, y, value, ha="right", **style)


def _stripe(left: float, y: float) -> Any:
    """A band behind the line of a highlighted part."""
    from matplotlib.patches import Rectangle

    return Rectangle((left, y - _LINE / 2), WIDTH - 0.15 - left, _LINE, facecolor="#ececec", edgecolor="none", zorder=0)


def _names(scene: _Scene, sides: tuple[float, float]) -> list[tuple[str, Array, Box, bool]]:
    """The name and entropy of each variable with its place: outside all curves, next to its own."""
    found: list[tuple[str, Array, Box, bool]] = []
    for index, name in enumerate(scene.diagram.variables):
        own = H((Atom(name),))
        text = f"{maths(own)} = {number(scene.diagram.value(own))}"
        width, height = text_size(text, 11)
        taken = [box for _, _, box, _ in found]
        found.append((text, *way_out(scene.arrangement, index, (width + 0.16, height + 0.12), taken, sides)))
    return found


def _draw_name(axes: "Axes", text: str, rim_2: Array, box: Box, joined: bool, colour: str) -> None:
    if joined:
        axes.plot([rim_2[0], box.x], [rim_2[1], box.y], color=colour, linewidth=1.0, zorder=4)
        axes.plot(*rim_2, marker="o", markersize=3.2, color=colour, zorder=4)
    frame = {"facecolor": "white", "edgecolor": colour, "boxstyle": "round,pad=0.28", "linewidth": 1.2}
    axes.text(box.x, box.y, text, size=11, color=INK, ha="center", va="center", zorder=6, bbox=frame)


def _unseen(scene: _Scene, part: Part) -> bool:
    """A part that is not there, or so small (and zero besides) that there is nothing to point at."""
    share = scene.arrangement.area(part) / sum(curve.area for curve in scene.arrangement.curves)
    return share < (0.002 if abs(scene.value(part)) < ZERO else 1e-5)


def _caption(axes: "Axes", scene: _Scene, bottom: float) -> None:
    total = sum(abs(value) for value in scene.diagram.atoms.values())
    words = [f"Values in {scene.diagram.unit}.", scene.layout.caption(total, scene.diagram.unit)]
    if any(value < -ZERO for value in scene.diagram.atoms.values()):
        words.append("Hatched: negative, so no inequality may be read off.")
    elif any(abs(scene.value(part)) <= ZERO and not _unseen(scene, part) for part in scene.parts):
        words.append("White: zero.")
    style: dict[str, Any] = {"size": 8.5, "color": SOFT, "ha": "center", "va": "center"}
    axes.text(WIDTH / 2, bottom + 0.17, " ".join(words), **style)
    unseen = {part: maths(scene.expression(part)) for part in scene.parts if _unseen(scene, part)}
    zeros = [name for part, name in unseen.items() if abs(scene.value(part)) < ZERO]
    small = [f"{name} = {number(scene.value(part))}" for part, name in unseen.items() if name not in zeros]
    words = [f"Zero, with no part to draw: {', '.join(zeros)}."] if zeros else []
    words += [f"Too small to draw: {', '.join(small)}."] if small else []
    axes.text(WIDTH / 2, bottom + 0.37, " ".join(words), **style)
