"""The page of a pruning: what was kept, how scores are spread, and the likeliest label errors, as pictures where inputs
are pictures.
"""

from typing import Any

import numpy as np

from natsel.experiments.report.page import outline, page, table
from natsel.experiments.report.pictures_in_array import PicturesInArray
from natsel.experiments.report.score_charts import histogram_of
from natsel.ids import as_ids, keys_of
from natsel.sampling import Pruning
from natsel.texts import escape

_SHOWN = 60
"""Most examples of a list."""


def pruning_page(found: Pruning, *, title: str = "Pruning") -> str:
    """The page as HTML; pictures are shown where the pruning has its data.

    >>> import natsel
    >>> "input-norm" in pruning_page(natsel.prune((np.diag([1.0, 3.0]), [0, 1]), "input-norm"))
    True
    """
    predicted = found.labels_N is not None and found.predicted_N is not None
    errors = found.likely_label_errors() if predicted else []
    words = (
        "<p>Examples whose label is not what the networks predict together, the highest scores first. Some labels here"
        " are wrong, others belong to rare or ambiguous examples: look at them before you drop or relabel them.</p>"
    )
    parts = [
        ("errors", "Likely label errors", words + _list(found, errors) if errors else ""),
        ("scores", "Scores", _scores(found)),
        ("hardest", "The highest scores", _list(found, found.hardest(_SHOWN)) if not predicted else ""),
        ("made", "How it was made", f'<div class="card">{outline(found.provenance)}</div>'),
    ]
    facts = {"examples": len(found.all_ids), "kept": len(found), "runs": len(found.score_R_N)}
    facts |= {"label and prediction differ": len(errors)} if predicted else {}
    listed = "".join(f"<div><dt>{word}</dt><dd>{count:,}</dd></div>" for word, count in facts.items())
    which = "lowest" if found.provenance.get("easiest") else "highest"
    first = (
        f"{len(errors):,} labels are not what the networks predict: look at them before you train. " if errors else ""
    )
    head = (
        f'<p class="eyebrow">natsel prune</p><h1>{escape(title)}</h1><p class="headline">{first}{len(found):,} of'
        f" {len(found.all_ids):,} examples are kept: those with the {which} {escape(found.method)} scores.</p>"
        f'<dl class="facts">{listed}</dl>'
    )
    return page(f"{title} – natsel prune", head, [part for part in parts if part[2]], [])


def _scores(found: Pruning) -> str:
    score_N = found.score_N.numpy()
    finite = score_N[np.isfinite(score_N)]
    if not len(finite):
        return ""
    endless = len(score_N) - len(finite)
    words = f"<p>{endless:,} examples have an infinite score: no run ever learnt them.</p>" if endless else ""
    return f'{words}<div class="panels two"><figure class="card">{histogram_of(finite, found.method)}</figure></div>'


def _list(found: Pruning, rows: list[dict[str, Any]]) -> str:
    shown = rows[:_SHOWN]
    rest = f'<p class="quiet">The first {len(shown)} of {len(rows):,}.</p>' if len(rows) > len(shown) else ""
    pictures = _pictures(found, [row["id"] for row in shown])
    if pictures is None:
        cells = [
            [escape(str(row["id"])), f"{row['score']:.4g}", *(escape(str(row[key])) for key in ("label", "predicted"))]
            for row in shown
        ]
        return f'<div class="card">{table(["id", "score", "label", "predicted"], cells, "Examples")}</div>{rest}'
    items = "".join(
        f'<li title="{escape(str(row["id"]))}: {row["score"]:.4g}"><img src="{pictures.address(row["id"])}"'
        f' alt="{escape(str(row["id"]))}"><b>{escape(_caption(row))}</b><span>{escape(str(row["id"]))}</span></li>'
        for row in shown
    )
    return f'<p>Below each: its label, what was predicted, its id.</p><ol class="pictures">{items}</ol>{rest}'


def _caption(row: dict[str, Any]) -> str:
    return str(row["label"]) if row["predicted"] is None else f"{row['label']}, not {row['predicted']}?"


def _pictures(found: Pruning, ids: list[Any]) -> PicturesInArray | None:
    """The pictures of some examples; None where inputs are none."""
    shape = () if found.data is None else tuple(np.shape(found.data.inputs))
    if found.data is None or len(shape) not in (3, 4) or (len(shape) == 4 and not {shape[1], shape[3]} & {1, 3}):
        return None
    place_of = {id: place for place, id in enumerate(keys_of(found.all_ids))}
    inputs = found.data[[place_of[id] for id in ids]].inputs
    return PicturesInArray(np.asarray(inputs[slice(0, len(ids))]), as_ids(ids))
