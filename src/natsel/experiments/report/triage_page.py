"""The page of a triage: how many are accepted, deferred and to be labelled, why, what it costs, and examples.

The curves show the error among the predictions that are accepted as a limit falls, by each rule. Where there are
pictures, the most unfamiliar and the most ambiguous inputs are shown.
"""

from typing import Protocol

import numpy as np

from natsel.beliefs.arrays import Labels
from natsel.choose.triage import DECISIONS, Decision, Triage
from natsel.evaluation.curves import Floats
from natsel.experiments.report.charts import line_chart
from natsel.experiments.report.page import page, table
from natsel.experiments.report.score_charts import histogram_of, scatter
from natsel.ids import Key, keys_of
from natsel.texts import escape

_SHOWN = 24
"""Most points shown of a kind."""
_CURVE = 120
"""Most places of a curve."""


class Pictures(Protocol):
    """Pictures by id, as addresses that need no host."""

    def address(self, id: Key) -> str | None: ...


def triage_page(
    found: Triage,
    labels: Labels | None = None,
    pictures: Pictures | None = None,
    *,
    title: str = "Triage",
    error: float = 1.0,
    defer: float = 0.1,
    label: float = 0.1,
) -> str:
    """The page as HTML; known labels (−1: no class) add costs at these prices, and curves.

    >>> import natsel
    >>> belief = natsel.FeatureDensity([-1.0, -90.0], [[9.0, 0.0], [9.0, 0.0]])
    >>> "unfamiliar" in triage_page(natsel.triage(belief, epistemic_limit=50.0, aleatoric_limit=0.5), [0, -1])
    True
    """
    prices = {"error": error, "defer": defer, "label": label}
    costs = "" if labels is None else _costs(found.costs(labels, **prices), prices)
    parts = [
        ("scores", "Why: both scores", _scores(found)),
        ("curves", "What is accepted, and how wrong it is", "" if labels is None else _curves(found, labels)),
        ("costs", "What it costs", costs),
        ("label", "Unfamiliar: have these labelled", _examples(found, "label", pictures)),
        ("defer", "Ambiguous: measure these again, or ask somebody", _examples(found, "defer", pictures)),
    ]
    counts = found.counts()
    facts = "".join(f"<div><dt>{word}</dt><dd>{counts[word]:,}</dd></div>" for word in DECISIONS)
    share = counts["accept"] / max(1, len(found))
    head = (
        f'<p class="eyebrow">natsel triage</p><h1>{escape(title)}</h1><p class="headline">Of {len(found):,} predictions'
        f" {share:.1%} are accepted; {counts['defer']:,} inputs are ambiguous, {counts['label']:,} are unfamiliar.</p>"
        + "".join(f'<p class="note">{escape(warning)}</p>' for warning in found.warnings)
        + f'<dl class="facts">{facts}</dl>'
    )
    return page(f"{title} – natsel triage", head, [part for part in parts if part[2]], [])


def _scores(found: Triage) -> str:
    if len(found) == 0:
        return ""
    aleatoric_N = found.aleatoric_N.cpu().numpy()
    ambiguous = f"{found.aleatoric_name} above {found.aleatoric_limit:.4g} is ambiguous"
    histogram = histogram_of(aleatoric_N, found.aleatoric_name, found.aleatoric_limit)
    if found.epistemic_N is None or found.epistemic_name is None:
        words = f"<p>{escape(ambiguous)}. This belief does not tell what is unfamiliar.</p>"
        return f'{words}<div class="panels two"><figure class="card">{histogram}</figure></div>'
    epistemic_N, decisions_N = found.epistemic_N.cpu().numpy(), found.decisions_N.cpu().numpy()
    groups: dict[str, tuple[Floats, Floats]] = {
        word: (epistemic_N[decisions_N == number], aleatoric_N[decisions_N == number])
        for number, word in enumerate(DECISIONS)
    }
    names = (found.epistemic_name, found.aleatoric_name)
    words = (
        f"<p>{escape(found.epistemic_name)} above {found.epistemic_limit:.4g} is unfamiliar; of the others,"
        f" {escape(ambiguous)}. The second score of an unfamiliar input means nothing. Points beyond a range lie on its"
        " edge.</p>"
    )
    drawn = (
        scatter(groups, names, (found.epistemic_limit, found.aleatoric_limit)),
        histogram_of(epistemic_N, found.epistemic_name, found.epistemic_limit),
        histogram_of(aleatoric_N, found.aleatoric_name, found.aleatoric_limit),
    )
    return words + f'<div class="panels">{"".join(f"<figure class=card>{one}</figure>" for one in drawn)}</div>'


def _curves(found: Triage, labels: Labels) -> str:
    lines = {}
    for rule, (shares_N, errors_N) in found.curves(labels).items():
        step = max(1, -(-len(shares_N) // _CURVE))
        points = list(zip(shares_N.tolist(), errors_N.tolist(), strict=True))
        lines[rule] = points[::-1][::step][::-1]  # the last one, where all are accepted, is always there
    words = (
        "<p>The share of wrong predictions among those that are accepted, as more are accepted: by the epistemic score"
        " alone, by the aleatoric score alone, and by both (a point is accepted where neither is high).</p>"
    )
    return words + line_chart(lines, "share accepted", "error among accepted")


def _costs(costs: dict[str, float], prices: dict[str, float]) -> str:
    rows = [[escape(name), f"{value:.4f}"] for name, value in costs.items() if name != "errors accepted"]
    told = "accepting a wrong prediction costs {error:g}, deferring {defer:g}, a label {label:g}".format(**prices)
    words = f"<p>Per point; {told}. Of the predictions accepted, {costs['errors accepted']:.2%} are wrong.</p>"
    return f'{words}<div class="card">{table(["policy", "cost per point"], rows, "Costs")}</div>'


def _examples(found: Triage, decision: Decision, pictures: Pictures | None) -> str:
    """The points farthest beyond a limit, as pictures where there are some, else as rows."""
    first = found.ids_of(decision)[:_SHOWN]
    if not len(first):
        return ""
    ids, rows_n = keys_of(first), np.flatnonzero(np.isin(found.ids, first))
    count = found.counts()[decision]
    rest = f'<p class="quiet">The first {len(ids)} of {count:,}.</p>' if count > len(ids) else ""
    score = "epistemic" if decision == "label" else "aleatoric"
    score_N = found.epistemic_N if decision == "label" and found.epistemic_N is not None else found.aleatoric_N
    scores_n, predicted_n = score_N[rows_n].tolist(), found.belief[rows_n].predict().tolist()
    by_id = dict(zip(keys_of(found.ids[rows_n]), zip(scores_n, predicted_n, strict=True), strict=True))
    shown = [] if pictures is None else [(id, pictures.address(id)) for id in ids]
    if any(address for _, address in shown):
        items = "".join(
            f'<li title="{escape(str(id))}: {by_id[id][0]:.4g}"><img src="{address}" alt="{escape(str(id))}">'
            f"<b>{by_id[id][1]}?</b></li>"
            for id, address in shown
            if address
        )
        return f'<p>Below each: the class that was predicted.</p><ol class="pictures">{items}</ol>{rest}'
    rows = [[escape(str(id)), f"{by_id[id][0]:.4g}", f"{by_id[id][1]}"] for id in ids]
    return f'<div class="card">{table(["id", score, "predicted"], rows, decision)}</div>{rest}'
