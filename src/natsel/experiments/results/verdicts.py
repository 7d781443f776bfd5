"""Verdicts on claims, as a table for a page and as lines for a terminal."""

from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from natsel.experiments.report.page import table

_WORDS = {"pass": "held", "fail": "did not hold", "open": "is open"}


def table_of(verdicts: Sequence[Mapping[str, Any]]) -> str:
    """The claims with pass or fail and the evidence, as HTML; empty where there are none.

    >>> table_of([])
    ''
    """
    if not verdicts:
        return ""
    placed = any(one.get("where") for one in verdicts)
    head = ["claim", *(["where"] if placed else []), "what it says", "verdict", "evidence"]
    rows = [
        [
            escape(str(one["claim"])),
            *([escape(str(one.get("where") or "all together"))] if placed else []),
            escape(str(one["says"])),
            f'<b class="verdict {one["verdict"]}">{one["verdict"]}</b>',
            escape(str(one["evidence"])),
        ]
        for one in verdicts
    ]
    words = f"<p>{escape(counted(verdicts))} Beside each verdict stands what it rests on.</p>"
    return f'{words}<div class="card claims">{table(head, rows, "Claims and what became of them")}</div>'


def counted(verdicts: Sequence[Mapping[str, Any]]) -> str:
    """How many claims held, in a sentence.

    >>> counted([{"verdict": "pass"}, {"verdict": "fail"}])
    '1 of 2 claims held, 1 did not hold.'
    """
    counts = Counter(str(one["verdict"]) for one in verdicts)
    parts = [f"{counts['pass']} of {len(verdicts)} claims held"]
    parts += [f"{counts[word]} {_WORDS[word].replace('is', 'are' if counts[word] > 1 else 'is')}"
              for word in ("fail", "open") if counts[word]]  # fmt: skip
    return ", ".join(parts) + "."


def lines_of(verdicts: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each claim.

    >>> lines_of([{"claim": "H1", "says": "it is so", "verdict": "pass", "evidence": "3 > 2", "where": ""}])
    ['pass  H1  it is so: 3 > 2']
    """
    places = [f"{one['where']}: " if one.get("where") else "" for one in verdicts]
    return [
        f"{one['verdict']}  {one['claim']}  {place}{one['says']}: {one['evidence']}"
        for place, one in zip(places, verdicts, strict=True)
    ]
