"""Write what an experiment has come to: `report.html` for people, `experiment.json` for programs."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from natsel.containers import atomically
from natsel.evaluation import Known
from natsel.experiments.folder import write_json
from natsel.experiments.read import read_experiment
from natsel.experiments.report import report
from natsel.experiments.results import Experiment
from natsel.experiments.summary import Row, headline, table


@dataclass(frozen=True)
class Published:
    """An experiment as read, where its page lies, and what it says in a sentence."""

    experiment: Experiment
    page: Path
    sentence: str

    def as_dict(self) -> dict[str, Any]:
        """For `--json`: the sentence, where the page is, and a row for each method and target."""
        experiment = self.experiment
        return {
            "name": experiment.name,
            "sentence": self.sentence,
            "report": str(self.page),
            "methods": {
                method: {
                    "seeds": [curve.seed for curve in experiment.of(method)],
                    "labels": [curve.sizes[-1] for curve in experiment.of(method)],
                    experiment.metric: [curve.final(experiment.metric) for curve in experiment.of(method)],
                }
                for method in experiment.methods
            },
            "labels_needed": [_row(row) for row in table(experiment)],
            "notes": list(experiment.notes),
        }


def publish(folder: str | Path, out: str | Path | None = None) -> Published:
    """Read the runs in a folder and write their report there, or to `out`."""
    folder = Path(folder)
    experiment = read_experiment(folder)
    page = folder / "report.html" if out is None else Path(out)
    with atomically(page) as place:
        place.write_text(report(experiment), encoding="utf-8")
    write_json(folder / "experiment.json", experiment.numbers())
    return Published(experiment, page, headline(experiment))


def _row(row: Row) -> dict[str, Any]:
    saved = row.saved
    return {
        "method": row.method,
        "target": row.target,
        "quartiles": [part.low if part.exact else None for part in row.needed],
        "at_least": [part.low for part in row.needed],
        "reached": row.reached,
        "runs": row.runs,
        "saved": None if saved is None else _ends(saved.median),
        "interval": None if saved is None or saved.interval is None else _ends(saved.interval),
    }


def _ends(known: Known) -> list[float | None]:
    """Both ends of what is known, None where there is no bound (JSON has no infinity)."""
    return [end if math.isfinite(end) else None for end in (known.low, known.high)]
