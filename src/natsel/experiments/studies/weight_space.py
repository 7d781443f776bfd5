"""Weight space against draws: do Fisher scores of the last layer rank MNIST as BALD and EPIG of dropout do?

    a dropout network trained on few random labels; for a pool and targets from the rest:
        draws          BALD, EPIG from consistent draws of dropout
        weight space   the last layer of the same network without dropout, a Gaussian with the prior by evidence:
                       EIG, EPIG, JEPIG by log-determinant and by trace
    Spearman's rank correlation over the pool

Each trial takes labels, pool, targets and a training of its own; a finished one is kept in the folder.
docs/theory/weight-space.md, 12; Kirsch 2024.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from natsel.choose import Method, score
from natsel.experiments.report.charts import line_chart
from natsel.experiments.report.page import table
from natsel.experiments.results.claims import ClaimVerdict
from natsel.experiments.studies.dropout_network import dropout_network
from natsel.experiments.studies.units import Units
from natsel.objectives import (
    EIG,
    EPIG,
    JEPIG,
    Argument,
    EPIGJensen,
    Objective,
    TraceEIG,
    TraceEPIG,
)
from natsel.search import TopK
from natsel.seeds import derive

_DRAWS: dict[str, Objective] = {"BALD (draws)": EIG(), "EPIG (draws)": EPIG()}
_WEIGHTS: dict[str, Objective] = {
    "EIG (log-det)": EIG(),
    "EIG (trace)": TraceEIG(),
    "EPIG (log-det)": EPIGJensen(),
    "EPIG (log-det, tight)": EPIG(),
    "JEPIG (log-det)": JEPIG(),
    "(J)EPIG (trace)": TraceEPIG(),
}
_PUBLISHED = {
    "BALD (draws)": [1.0, 0.984, 0.955, 0.940, 0.948, None, 0.955, 0.927],
    "EPIG (draws)": [0.984, 1.0, 0.918, 0.897, 0.918, None, 0.918, 0.903],
}
"""Kirsch 2024, Spearman on MNIST with 80 labels and 1,000 points, one run, in the order of `_names`."""

_PAIR = ("BALD (draws)", "EIG (log-det)")


def run(settings: Mapping[str, Any], units: Units, device: str | None = None) -> dict[str, Any]:
    """The scores of all trials, and how they correlate."""
    trials = []
    for trial in range(settings["trials"]):
        trials.append(units.measured(str(trial), partial(_trial, settings, trial, device)))
        units.tell(f"trial {trial}: BALD and EIG (log-det) correlate {_correlation(trials[-1], *_PAIR):.3f}")
    return {"trials": trials, "labels": settings["labels"], "targets": settings["targets"]}


def _trial(settings: Mapping[str, Any], trial: int, device: str | None) -> dict[str, Any]:
    from natsel.data import load, split
    from natsel.models import LastLayer

    data = load("mnist")
    sizes = tuple(settings[name] for name in ("labels", "validation", "pool", "targets"))
    labelled, validation, pool, about = (
        replace(one, masks={}) for one in split(data.train, sizes, seed=derive(0, "trial", trial))
    )
    network = dropout_network(settings, device)
    network.fit(labelled, validation, seed=derive(0, "fit", trial))
    scores = _scores(network, _DRAWS, pool.inputs, about.inputs)
    layer = LastLayer.around(network, labelled, device=device)
    scores |= _scores(layer, _WEIGHTS, pool.inputs, about.inputs)
    outside = replace(split(data.test, (settings["test"],), seed=1)[0], masks={})
    right = layer.believe(outside.inputs).outputs_N_C.argmax(1).cpu().numpy() == outside.labels
    return {"scores": scores, "accuracy": float(np.mean(right)), "prior": float(layer.prior)}


def _scores(model: Any, objectives: Mapping[str, Objective], pool: Any, about: Any) -> dict[str, list[float]]:
    belief, targets = model.believe(pool), model.believe(about)
    found = {}
    for name, objective in objectives.items():
        method = Method(objective, TopK())
        found[name] = score(method, belief, targets=targets if Argument.TARGETS in method.needs else None).tolist()
    return found


def claims(findings: Mapping[str, Any]) -> list[ClaimVerdict]:
    """FIM 1 to FIM 3 of docs/theory/weight-space.md, 12, by medians over trials."""
    trials = findings["trials"]
    correlation = {name: _median(trials, "BALD (draws)", name) for name in _WEIGHTS}
    low = min(correlation, key=lambda name: correlation[name])
    logdet, trace = "EIG (log-det)", "EIG (trace)"
    highest = max(max(trial["scores"][logdet]) for trial in trials)
    bald = max(max(trial["scores"]["BALD (draws)"]) for trial in trials)
    apart = min(float(np.subtract(trial["scores"][trace], trial["scores"][logdet]).min()) for trial in trials)
    return [
        ClaimVerdict(
            "FIM 1",
            "every score of weight space ranks the pool as BALD does: a correlation of 0.85 or more",
            correlation[low] >= 0.85,
            "; ".join(f"{name} {value:.3f}" for name, value in correlation.items()),
        ),
        ClaimVerdict(
            "FIM 1",
            "EIG and EPIG by log-determinant correlate with BALD at 0.9 or more",
            min(correlation[logdet], correlation["EPIG (log-det)"]) >= 0.9,
            f"{correlation[logdet]:.3f} and {correlation['EPIG (log-det)']:.3f}; published 0.955 and 0.948",
        ),
        ClaimVerdict(
            "FIM 1",
            "the log-determinant ranks closer to BALD than the trace",
            correlation[logdet] >= correlation[trace],
            f"{correlation[logdet]:.3f} against {correlation[trace]:.3f}",
        ),
        ClaimVerdict(
            "FIM 2",
            "the trace is never below the log-determinant",
            apart >= -1e-9,
            f"the least difference is {apart:.2g} nats",
        ),
        ClaimVerdict(
            "FIM 3",
            "weight space goes beyond ln 10 nats, which no label of ten classes can tell; draws do not",
            highest > math.log(10) >= bald,
            f"up to {highest:.2f} in weight space, {bald:.2f} from draws; ln 10 = {math.log(10):.2f}",
        ),
    ]


def sections(findings: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """The table of rank correlations beside the published one, and scores against BALD."""
    trials = findings["trials"]
    head = ["Spearman", *_names()]
    rows = []
    for name in _DRAWS:
        rows.append([name, *(f"{_median(trials, name, other):.3f}" for other in _names())])
        published = ["" if value is None else f"{value:.3f}" for value in _PUBLISHED[name]]
        rows.append([f"{name}, published", *published])
    accuracy = ", ".join(f"{100 * trial['accuracy']:.1f} %" for trial in trials)
    words = (
        f"<p>{findings['labels']} labels, {findings['targets']:,} targets, {len(trials)} trials (medians); accuracy"
        f" {accuracy} (published 83.8 %).</p>"
    )
    body = table(head, rows, "Rank correlation with scores from draws, over the pool")
    first = trials[0]["scores"]
    order = np.argsort(first["BALD (draws)"])
    lines = {
        name: [(first["BALD (draws)"][place], first[name][place]) for place in order.tolist()]
        for name in ("EIG (log-det)", "EIG (trace)")
    }
    drawing = line_chart(lines, "BALD from draws (nats)", "EIG in weight space (nats)")
    return [
        ("table", "Rank correlations", words + f'<div class="card">{body}</div>'),
        ("values", "The values, first trial", drawing),
    ]


def _names() -> list[str]:
    return [*_DRAWS, *_WEIGHTS]


def _correlation(trial: Mapping[str, Any], one: str, other: str) -> float:
    return float(spearmanr(trial["scores"][one], trial["scores"][other]).statistic)


def _median(trials: list[dict[str, Any]], one: str, other: str) -> float:
    return float(np.median([_correlation(trial, one, other) for trial in trials]))
