"""Online Bayesian inference against training again, on MNIST with dropout.

    an ordered sequence of labels, chosen actively or at random; for t = start, start + step, …, last:
        q trained on the first t labels, K draws;   q' trained on the first t + step
        baseline    test loss and accuracy of q
        online      q with its draws re-weighted by the next `step` labels:  w_k ∝ Π_i p(y_i | x_i, ω_k)
        retrained   those of q', which is q of the next t

Only labels that q was not trained on enter the weights. Each sub-trial takes a random half of the draws
(`natsel.experiments.studies.look_ahead`). What is finished is kept in the folder, a file for each sequence, trial and
size.  docs/theory/joint-predictions.md, 8 and 11; Kirsch, Kossen & Gal 2022.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from natsel.data import Examples, Pool
from natsel.experiments.report.charts import line_chart
from natsel.experiments.report.page import table
from natsel.experiments.results.claims import ClaimVerdict
from natsel.experiments.studies.dropout_network import dropout_network
from natsel.experiments.studies.look_ahead import look_ahead
from natsel.experiments.studies.units import Units
from natsel.seeds import derive

_SEQUENCES = ("active", "random")


def run(settings: Mapping[str, Any], units: Units, device: str | None = None) -> dict[str, Any]:
    """All measurements as rows: sequence, trial, size, and for each what baseline, online and retrained came to."""
    lab, rows = _Lab(settings, device), []
    for sequence in _SEQUENCES:
        ordered = lab.sequence(sequence, units)
        for trial in range(settings["trials"]):
            for size in range(settings["start"], settings["last"] + settings["step"] + 1, settings["step"]):
                found = units.measured(f"{sequence}-{trial}-{size}", partial(lab.measure, ordered, trial, size))
                units.tell(f"{sequence} sequence, trial {trial}: {size} labels measured")
                rows.append({"sequence": sequence, "trial": trial, "size": size} | found)
    return {"rows": rows, "step": settings["step"], "draws": settings["draws"], "last": settings["last"]}


class _Lab:
    """The data, and models trained on parts of a sequence."""

    def __init__(self, settings: Mapping[str, Any], device: str | None) -> None:
        from natsel.data import load, split

        self.settings, self.device = settings, device
        data = load("mnist")
        wanted = (settings["train"], settings["validation"])
        self.pool, self.validation = (replace(one, masks={}) for one in split(data.train, wanted, seed=0))
        self.test = replace(split(data.test, (settings["test"],), seed=1)[0], masks={})

    def sequence(self, name: str, units: Units) -> Examples:
        """Labels in the order they came: a balanced start, then chosen actively or at random."""
        from natsel.data import balanced_start
        from natsel.learning import ActiveLearner

        count = self.settings["last"] + 2 * self.settings["step"]
        start = balanced_start(self.pool.labels, self.settings["start"] // self.pool.n_classes, seed=0)
        if name == "random":
            rest = np.setdiff1d(np.arange(len(self.pool)), start)
            more = np.random.default_rng(derive(0, "random")).permutation(rest)[: count - len(start)]
            return self.pool[np.concatenate([start, more])]
        model = dropout_network(self.settings, self.device)
        model.draws = min(self.settings["draws"], 100)
        learner = ActiveLearner(
            model,
            Pool.with_answers(self.pool),
            self.settings["method"],
            self.settings["step"],
            units.folder / "active.db",
            candidates=self.settings["candidates"],
            validation=self.validation,
        )
        with learner:
            if learner.n_labelled == 0:
                learner.tell(start, learner.pool.answers(start))
            if learner.n_labelled < count:
                units.tell(f"choosing {count - learner.n_labelled} labels actively")
                learner.run(count, stop=lambda view: units.go_on())
            return self.pool[learner.labelled_ids[:count]]

    def measure(self, ordered: Examples, trial: int, size: int) -> dict[str, Any]:
        """What the model of the first `size` labels comes to, before and after it takes in the next ones."""
        new = ordered[np.arange(size, size + self.settings["step"])]
        model = dropout_network(self.settings, self.device)
        model.fit(ordered[np.arange(size)], self.validation, seed=derive(0, "trial", trial, size))
        seed = derive(0, "sub-trials", trial, size)
        look = look_ahead(model, new, self.test, sub_trials=self.settings["sub_trials"], seed=seed)
        return {
            "loss": look.whole["nll"],
            "accuracy": look.whole["accuracy"],
            "before": _columns(look.before),
            "online": _columns(look.online),
            "ess": float(np.mean(look.effective_draws)),
            "surprise": float(np.mean(look.surprise)),
        }


def _columns(metrics: Sequence[Mapping[str, float]]) -> dict[str, list[float]]:
    return {name: [one[known] for one in metrics] for name, known in (("loss", "nll"), ("accuracy", "accuracy"))}


def differences(findings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """By sequence: the change of loss and accuracy by re-weighting and by training again, over sizes and trials."""
    by_place = {(row["sequence"], row["trial"], row["size"]): row for row in findings["rows"]}
    found: dict[str, dict[str, Any]] = {}
    for (sequence, trial, size), row in by_place.items():
        later = by_place.get((sequence, trial, size + findings["step"]))
        if later is None:
            continue
        mine = found.setdefault(sequence, {name: [] for name in ("size", "ess", "surprise")})
        mine["size"].append(size)
        for name in ("ess", "surprise"):
            mine[name].append(row[name])
        for metric in ("loss", "accuracy"):
            change = np.mean(row["online"][metric]) - np.mean(row["before"][metric])
            mine.setdefault(f"online {metric}", []).append(float(change))
            mine.setdefault(f"retrained {metric}", []).append(later[metric] - row[metric])
            mine.setdefault(f"baseline {metric}", []).append(row[metric])
    return found


def claims(findings: Mapping[str, Any]) -> list[ClaimVerdict]:
    """The findings OBI 1 to 4 and 8 of docs/theory/joint-predictions.md, 11, from means over sizes and trials."""
    found = differences(findings)
    if set(found) != set(_SEQUENCES):
        return []
    active, random = (found[name] for name in _SEQUENCES)
    count = len(active["size"])

    def mean(values: list[float]) -> str:
        error = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")
        return f"{np.mean(values):+.3f} ± {error:.3f}".replace("-", "−")

    def both(one: dict[str, Any], how: str) -> str:
        return f"loss {mean(one[f'{how} loss'])} nats, accuracy {mean(one[f'{how} accuracy'])} (mean ± s.e. of {count})"

    better = [np.mean(one["retrained loss"]) < 0 < np.mean(one["retrained accuracy"]) for one in (active, random)]
    ends = {name: _end(found[name]) for name in _SEQUENCES}
    return [
        ClaimVerdict(
            "OBI 1",
            "on an active sequence re-weighting is worse than no update",
            bool(np.mean(active["online loss"]) > 0 > np.mean(active["online accuracy"])),
            both(active, "online"),
        ),
        ClaimVerdict(
            "OBI 2",
            "on a random sequence re-weighting is about as good as no update (within 0.05 nats and one point)",
            bool(abs(np.mean(random["online loss"])) < 0.05 and abs(np.mean(random["online accuracy"])) < 0.01),
            both(random, "online"),
        ),
        ClaimVerdict(
            "OBI 3",
            "training again improves loss and accuracy on both sequences",
            all(map(bool, better)),
            f"active: {both(active, 'retrained')}; random: {both(random, 'retrained')}",
        ),
        ClaimVerdict(
            "OBI 4",
            "actively chosen labels surprise the draws more than random ones",
            bool(np.mean(active["surprise"]) > np.mean(random["surprise"])),
            f"surprise {np.mean(active['surprise']):.2f} against {np.mean(random['surprise']):.2f} nats, effective"
            f" draws {np.mean(active['ess']):.0f} against {np.mean(random['ess']):.0f} of {findings['draws'] // 2}",
        ),
        ClaimVerdict(
            "OBI 8",
            f"the active sequence ends at a higher accuracy than the random one, at {findings['last']} labels",
            ends["active"] > ends["random"],
            f"{100 * ends['active']:.1f} % against {100 * ends['random']:.1f} %",
        ),
    ]


def sections(findings: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Charts of the changes over training sizes, and the table of means."""
    found = differences(findings)
    parts = []
    for metric, unit in (("loss", "nats"), ("accuracy", "share")):
        lines = {
            f"{how}, {name}": _by_size(found[name], f"{how} {metric}")
            for how in ("online", "retrained")
            for name in found
        }
        words = "<p>The change against the model as it is, mean over trials: below 0 is better.</p>"
        words = words if metric == "loss" else words.replace("below", "above")
        drawing = line_chart(lines, "labels", f"change of {metric} ({unit})")
        parts.append((metric, f"Change of {metric}", words + drawing))
    lines = {name: _by_size(one, "ess") for name, one in found.items()}
    parts.append(("draws", "Effective draws", line_chart(lines, "labels", "effective draws")))
    columns = [f"{how} {metric}" for how in ("online", "retrained") for metric in ("loss", "accuracy")]
    rows = [[name, *(f"{np.mean(one[column]):+.3f}" for column in columns)] for name, one in found.items()]
    head = ["sequence", "online: loss", "online: accuracy", "retrained: loss", "retrained: accuracy"]
    body = table(head, rows, "Mean change against no update")
    return [("table", "Re-weighting and training again", f'<div class="card">{body}</div>'), *parts]


def _by_size(one: Mapping[str, Any], name: str) -> list[tuple[float, float]]:
    sizes = sorted(set(one["size"]))
    values = {size: [v for s, v in zip(one["size"], one[name], strict=True) if s == size] for size in sizes}
    return [(size, float(np.mean(values[size]))) for size in sizes]


def _end(one: Mapping[str, Any]) -> float:
    return _by_size(one, "baseline accuracy")[-1][1]
