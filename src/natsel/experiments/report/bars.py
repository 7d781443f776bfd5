"""Bars: how often each class was picked, where the time went, and the two parts of a pick's uncertainty."""

from collections.abc import Mapping, Sequence

import numpy as np

from natsel.evaluation.curves import Floats
from natsel.experiments.report.charts import ticks
from natsel.experiments.report.method_styles import style
from natsel.texts import escape


def histogram(counts_C: Floats, names: Sequence[str], place: int | None, highest: float, label: str) -> str:
    """Columns, one per class, under a common height; a dotted line marks even shares.

    Names stand below where they fit; else the columns are sorted and each tells its name when pointed at.
    """
    width, height, left, top, bottom = 300.0, 150.0, 30.0, 8.0, 20.0
    step = (width - left) / len(counts_C)
    named = max(len(name) for name in names) * 7 < step
    order = range(len(counts_C)) if named else np.argsort(-counts_C, kind="stable").tolist()
    floor = height - bottom

    def at(count: float) -> float:
        return floor - count / (highest or 1) * (floor - top)

    parts = [
        f'<path class="grid" d="M{left},{at(value):.1f}H{width}"/>'
        f'<text class="tick" x="{left - 6}" y="{at(value) + 4:.1f}" text-anchor="end">{value:g}</text>'
        for value in ticks(0, highest or 1, about=3)
    ]
    gap = min(3.0, step * 0.2)
    for column, position in enumerate(order):
        x, y = left + column * step, at(counts_C[position])
        parts.append(
            f'<rect class="bar {style(place)}" x="{x + gap / 2:.1f}" y="{y:.1f}" width="{step - gap:.1f}"'
            f' height="{floor - y:.1f}"><title>{escape(names[position])}: {counts_C[position]:.3g}</title></rect>'
        )
        if named:
            place_of = f'x="{x + step / 2:.1f}" y="{floor + 14}" text-anchor="middle"'
            parts.append(f'<text class="tick" {place_of}>{escape(names[position])}</text>')
    parts.append(f'<path class="level" d="M{left},{at(counts_C.mean()):.1f}H{width}"/>')
    if not named:
        parts.append(
            f'<text class="tick" x="{width}" y="{floor + 14}" text-anchor="end">classes, most picked first</text>'
        )
    return (
        f'<svg class="chart small" viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(label)}">'
        f"{''.join(parts)}</svg>"
    )


def stages(seconds: Mapping[str, float], order: Sequence[str], longest: float) -> str:
    """One bar of several parts: seconds for each stage, to the scale of the longest bar.

    >>> stages({"fit": 1.0}, ["fit"], 2.0)
    '<span class="stack"><i class="s0" style="width:50.00%" title="fit: 1 s"></i></span>'
    """
    parts = [
        f'<i class="s{number % 6}" style="width:{100 * seconds[stage] / (longest or 1):.2f}%"'
        f' title="{escape(stage)}: {duration(seconds[stage])}"></i>'
        for number, stage in enumerate(order)
        if seconds.get(stage, 0) > 0
    ]
    return f'<span class="stack">{"".join(parts)}</span>'


def split(epistemic: float, aleatoric: float, most: float) -> str:
    """The two parts of a pick's uncertainty as one bar, to the scale of the most uncertain pick shown."""
    words = f"{epistemic:.2f} nats a label can remove, {aleatoric:.2f} nats of noise"
    parts = "".join(
        f'<i class="{name}" style="width:{100 * max(0.0, value) / (most or 1):.1f}%"></i>'
        for name, value in (("epistemic", epistemic), ("aleatoric", aleatoric))
    )
    return f'<span class="split" role="img" aria-label="{words}" title="{words}">{parts}</span>'


def duration(seconds: float) -> str:
    """A time in words.

    >>> duration(0.0042), duration(0.28), duration(3.25), duration(75), duration(7300)
    ('4.2 ms', '280 ms', '3.2 s', '1 min 15 s', '2 h 01 min')
    """
    if seconds < 0.01:
        return f"{1000 * seconds:.2g} ms"
    if seconds < 0.9995:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    whole = round(seconds)
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def legend_of_bars(scale: float | None) -> str:
    """What the two parts of a bar are, and how much a full one is worth; nothing where there are no bars.

    >>> legend_of_bars(None), "2 nats" in legend_of_bars(2.0)
    ('', True)
    """
    if not scale:
        return ""
    entries = "".join(
        f'<span class="entry"><span class="split"><i class="{part}" style="width:100%"></i></span>{words}</span>'
        for part, words in (
            ("epistemic", "epistemic: a label can remove it"),
            ("aleatoric", "aleatoric: noise, it stays"),
        )
    )
    return f'<p class="quiet legend">{entries}<span>A full bar is {scale:.2g} nats.</span></p>'
