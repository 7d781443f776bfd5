"""What each method picked: its first and its last batch with one seed, as pictures or texts, each with its uncertainty.

A bar shows the two parts of a pick's uncertainty when it was picked: what a label can remove (epistemic) and noise
(aleatoric). All bars of a page share one scale. Pictures count against a budget, so that the page stays small.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from natsel.experiments.report.bars import legend_of_bars, split
from natsel.experiments.report.method_styles import key, style
from natsel.experiments.report.png import data_address, png, shrunk
from natsel.experiments.results.experiment import Batch, Curve, Experiment
from natsel.texts import escape

_PICTURES = 300_000
"""Bytes of pictures in one page, before encoding."""
_MOST = {"picture": 12, "text": 5}
_SIDE = 64


def picks(experiment: Experiment, places: dict[str, int | None]) -> str:
    """A block for each method that has picked anything; empty where none has."""
    shown = {method: run for method in experiment.methods if (run := _first_run(experiment.of(method))) is not None}
    batches = {method: _first_and_last(run) for method, run in shown.items()}
    scale = _scale([batch for pairs in batches.values() for _, batch in pairs])
    gallery = _Gallery(experiment, scale)
    blocks = []
    for method, run in shown.items():
        parts = [gallery.batch(batch, held) for held, batch in batches[method]]
        head = f"<h3>{key(places[method])} {escape(method)} <small>seed {run.seed}</small></h3>"
        blocks.append(f'<div class="picks {style(places[method])}">{head}{"".join(parts)}</div>')
    if not blocks:
        return ""
    return legend_of_bars(scale) + "".join(blocks)


class _Gallery:
    """Draws batches while bytes for pictures last."""

    def __init__(self, experiment: Experiment, scale: float | None) -> None:
        self.experiment, self.scale, self.left = experiment, scale, _PICTURES

    def batch(self, batch: Batch, held: int) -> str:
        texts = any(isinstance(self.experiment.thumbnails.get(id), str) for id in batch.ids)
        most = _MOST["text" if texts else "picture"]
        items = "".join(self._pick(batch, number) for number in range(min(most, len(batch.ids))))
        rest = f'<li class="rest">and {len(batch.ids) - most} more</li>' if len(batch.ids) > most else ""
        kind = "texts" if texts else "pictures"
        said = "".join(f'<p class="quiet">{escape(warning)}</p>' for warning in batch.warnings)
        return f'<h4>chosen with {held} labels</h4>{said}<ol class="{kind}">{items}{rest}</ol>'

    def _pick(self, batch: Batch, number: int) -> str:
        id = batch.ids[number]
        thumbnail = self.experiment.thumbnails.get(id)
        label = self._name(batch.labels[number] if batch.labels else None)
        bar = ""
        if self.scale and batch.epistemic and batch.aleatoric:
            bar = split(batch.epistemic[number], batch.aleatoric[number], self.scale)
        if isinstance(thumbnail, str):
            return f"<li><span>{escape(thumbnail)}</span> <b>{escape(label)}</b> {bar}</li>"
        return f'<li title="id {escape(str(id))}">{self._picture(thumbnail, id, label)}<b>{escape(label)}</b>{bar}</li>'

    def _picture(self, thumbnail: np.ndarray[Any, Any] | None, id: int | str, label: str) -> str:
        if thumbnail is not None:
            content = png(shrunk(thumbnail, _SIDE))
            if len(content) <= self.left:
                self.left -= len(content)
                words = f"{escape(label) or 'picture'}, id {escape(str(id))}"
                return f'<img src="{data_address("image/png", content)}" alt="{words}">'
        return f'<span class="id">id {escape(str(id))}</span>'

    def _name(self, label: float | None) -> str:
        classes = self.experiment.classes
        if label is None:
            return "skipped"
        if isinstance(label, int) and 0 <= label < len(classes):
            return classes[label]
        return f"{label:.4g}"


def _first_run(runs: Sequence[Curve]) -> Curve | None:
    return next((run for run in runs if any(batch.ids for batch in run.batches)), None)


def _first_and_last(run: Curve) -> list[tuple[int, Batch]]:
    """The two batches, each with how many labels were held when it was chosen."""
    held, found = len(run.initial.ids), []
    for batch in run.batches:
        if batch.ids:
            found.append((held, batch))
        held += sum(label is not None for label in batch.labels) if batch.labels else len(batch.ids)
    return found if len(found) < 2 else [found[0], found[-1]]


def _scale(batches: Sequence[Batch]) -> float | None:
    """The largest uncertainty of a pick; None where there is none, or where it is no length (below zero, infinite)."""
    parts = [part for batch in batches for column in (batch.epistemic, batch.aleatoric) for part in column]
    if not parts or any(not math.isfinite(part) or part < -1e-6 for part in parts):
        return None
    sums = (e + a for batch in batches for e, a in zip(batch.epistemic, batch.aleatoric, strict=False))
    return max(sums, default=0.0) or None
