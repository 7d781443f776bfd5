"""Units: one run each, one file of JSON lines each, written aside, flushed and renamed when the run is complete.

line 1       what was run: model, set, method, seed, a digest of the terms that decide it, versions
each other   a number of labels: accuracy and balanced accuracy there, the points chosen next, seconds, warnings
"""

import json
import os
import time
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score, recall_score

from choosers import choose
from class_sets import drawn, first_labels
from measured_models import fitted
from natsel.containers import write_text
from natsel.provenance import versions
from natsel.seeds import derive
from protocol import Protocol, Unit

Line = dict[str, Any]


def run_unit(unit: Unit, protocol: Protocol) -> Iterator[Line]:
    """The measurements of a unit, number of labels by number of labels."""
    terms = protocol.terms
    data = drawn(unit.data, unit.seed, terms)
    labels_N = np.asarray(data.pool.labels)
    labelled = first_labels(unit.data, unit.seed, terms.first, len(data.pool))
    for size in terms.sizes:
        began = time.perf_counter()
        # The same seed for all methods: as long as they have the same labels, they have the same model.
        seed = derive(unit.seed, "labels-saved", unit.data, unit.model, "fit", size)
        fit = fitted(unit.model, protocol.settings(unit.model), unit.data, data, labelled, seed)
        fit_seconds = time.perf_counter() - began
        predicted = fit.test_N_C.argmax(1)
        line: Line = {
            "labels": size,
            "accuracy": round(float(accuracy_score(data.test.labels, predicted)), 4),
            "balanced": round(_balanced(np.asarray(data.test.labels), predicted), 4),
            "classes": len(np.unique(labels_N[labelled])),
            "fit_seconds": round(fit_seconds, 3),
        }
        if size < terms.labels:
            began = time.perf_counter()
            chosen = choose(unit.method, fit, labelled, labels_N[labelled], derive(seed, "choose"), terms)
            seconds = round(time.perf_counter() - began, 3)
            line |= {"chosen": chosen.positions.tolist(), "seconds": seconds, "warnings": list(chosen.warnings)}
            labelled = np.concatenate([labelled, chosen.positions])
        yield line


def write_units(units: Iterable[Unit], protocol: Protocol, folder: Path) -> Iterator[tuple[Unit, str]]:
    """Run what is not there yet; each unit with "there", "run" or the reason why it failed (and is tried again)."""
    for unit in units:
        place = unit.path(folder)
        if place.exists():
            header = read_unit(place)[0]
            if header["terms"] != protocol.digest(unit):
                raise ValueError(f"{place}: was run on other terms; move it away, or take another --folder")
            yield unit, "there"
            continue
        header = {**vars(unit), "terms": protocol.digest(unit), "versions": _VERSIONS}
        try:
            with warnings.catch_warnings():
                # Ten labels of 26 classes make scikit-learn suspect numbers, once for each tree.
                warnings.simplefilter("ignore", UserWarning)
                lines = [header, *run_unit(unit, protocol)]
        except Exception as failure:  # one method that fails on one set must not end a run of hours
            yield unit, f"{type(failure).__name__}: {failure}"
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        write_text(place, "".join(json.dumps(line) + "\n" for line in lines))
        yield unit, "run"


def read_unit(place: Path) -> list[Line]:
    """The lines of a unit."""
    return [json.loads(line) for line in place.read_text(encoding="utf-8").splitlines()]


def _balanced(labels_N: Any, predicted_N: Any) -> float:
    return float(recall_score(labels_N, predicted_N, labels=np.unique(labels_N), average="macro", zero_division=0))


_VERSIONS = versions() | {"threads": os.environ.get("OMP_NUM_THREADS", "")}
