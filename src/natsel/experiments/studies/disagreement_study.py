"""Errors that an ensemble predicts of itself: how right they are, on data like those of training and on others.

    K networks of one architecture are trained, each from its own seed; with p̄ the mean of their predictions
        sampling error   1 − E p̄(y)          a drawn answer is wrong
        predicted error  1 − E Σ_c p̄(c)²      two drawn answers differ: no labels needed
        gap              |sampling error − predicted error|, never above a bound by calibration
    for members as they are ("probabilities") and for members sure of their most probable class ("one-hot"),
    on the test set ("inside"), on changed copies of it, whose labels are known, and on all copies together ("shifted")

Rejection curves show the same numbers and calibration errors (ECE, CACE, CWCE in 15 bins) on the most certain points
and on ever more of them, by predicted error or by mutual information. With at most 14 members each level of one-hot
members has a bin of its own, so that both kinds of members are binned alike and one-hot ones exactly.

Beside it: the top-1 error that ATC predicts by a threshold from validation data. The logits of every trained network
are kept in the folder.  docs/theory/calibration.md, 1 to 8 and 14; Jiang et al. 2022, Kirsch & Gal 2022.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from natsel.experiments.report.charts import line_chart
from natsel.experiments.report.page import table
from natsel.experiments.results.claims import ClaimVerdict
from natsel.experiments.studies.picture_training import picture_training
from natsel.experiments.studies.units import Array, Units
from natsel.seeds import derive

Arrays = dict[str, Array]

KINDS = ("one-hot", "probabilities")
WHERE = ("inside", "shifted")
PREDICTED, INFORMATION = "predicted error", "information"
CALIBRATION = ("ece", "cace", "cwce")
_BINS = 15
_SHARES = tuple(np.linspace(0.2, 1, 17).round(2).tolist())
"""Shares of points that subsets keep: calibration errors of fewer points are mostly noise, and too large."""
_CERTAIN = 0.1
"""Predicted error of a point at or below which it counts as certain (claim 4)."""


def run(settings: Mapping[str, Any], units: Units, device: str | None = None) -> dict[str, Any]:
    """Errors, gaps, calibration errors and rejection curves of one-hot members and of probabilities on every set."""
    if not settings["shifts"]:
        raise ValueError("shifts: found none; name at least one, such as blur-2")
    members = []
    for number in range(settings["members"]):
        trained = partial(_trained_logits, settings, derive(settings["seed"], "member", number), device)
        says = f"training member {number + 1} of {settings['members']}"
        members.append(units.arrays(f"member-{number}", trained, says))
    rows = [units.measured(f"measured-{where}", partial(_measured, members, where)) for where in _sets(settings)]
    return {"rows": rows, "set": settings["set"], "members": settings["members"], "shifts": list(settings["shifts"])}


def _sets(settings: Mapping[str, Any]) -> list[str]:
    """What is measured: the test set, all changed copies together, each alone."""
    return [*WHERE, *settings["shifts"]]


def _trained_logits(settings: Mapping[str, Any], seed: int, device: str | None) -> Arrays:
    """Train one member; its logits for the validation set, the test set and each changed copy."""
    from natsel.data import changed_pictures, load, split
    from natsel.models import fresh, train
    from natsel.models.networks.inputs import as_device
    from natsel.models.networks.prediction import predict

    data, on = load(settings["set"]), as_device(device)
    held_out = settings["validation"]
    count = min(settings["train"] or len(data.train), len(data.train) - held_out)
    learn, validation = split(data.train, (count, held_out), seed=derive(settings["seed"], "split"))
    test = split(data.test, (min(settings["test"], len(data.test)),), seed=derive(settings["seed"], "test"))[0]
    pictures = {"validation": validation.inputs, "inside": test.inputs} | {
        change: changed_pictures(test.inputs, change, settings["seed"]) for change in settings["shifts"]
    }
    module = fresh(lambda: _network(settings, data), seed)
    train(module, learn, training=picture_training(settings, settings["augmentation"], on.type), seed=seed, device=on)
    found = {f"{where}/labels": test.labels for where in pictures} | {"validation/labels": validation.labels}
    for where, inputs in pictures.items():
        found[f"{where}/logits"] = predict([module], inputs, on)[:, 0].float().cpu().numpy()
    return found


def _network(settings: Mapping[str, Any], data: Any) -> Any:
    from natsel import models

    shape, kind = data.train.inputs.shape[1:], settings["network"]
    options: dict[str, Any] = {"in_channels": 1 if len(shape) == 2 else shape[2], "shape": shape[:2]}
    if kind != "lenet":
        options |= {"widening" if kind == "wide-resnet" else "width": settings["width"]}
    return getattr(models, kind.replace("-", "_"))(classes=data.train.n_classes, **options)


def _measured(members: list[Arrays], where: str) -> dict[str, Any]:
    """All numbers of one set, for both kinds of members."""
    import torch

    from natsel.evaluation import one_hot_members

    log_probs_N_K_C, labels_N = _log_probs(members, where)
    tables = {"one-hot": one_hot_members(log_probs_N_K_C), "probabilities": log_probs_N_K_C}
    row: dict[str, Any] = {"where": where, "points": len(labels_N)}
    for kind, table_N_K_C in tables.items():
        row[kind] = _of_kind(table_N_K_C, labels_N, kind == "one-hot")
    mean_N_C = log_probs_N_K_C.logsumexp(1) - np.log(len(members))
    valid_V_K_C, labels_V = _log_probs(members, "validation")
    mean_V_C = valid_V_K_C.logsumexp(1) - np.log(len(members))
    row["top-1 error"] = float((mean_N_C.argmax(1) != torch.as_tensor(labels_N)).double().mean())
    row["atc"] = _atc(mean_V_C.exp().numpy(), labels_V, mean_N_C.exp().numpy())
    return row


def _log_probs(members: list[Arrays], where: str) -> tuple[Any, Array]:
    """log_probs_N_K_C of all members on a set, in float64, and its labels."""
    import torch

    if where == "shifted":
        names = [name.removesuffix("/logits") for name in members[0] if name.endswith("/logits")]
        parts = [_log_probs(members, name) for name in names if name not in ("validation", "inside")]
        return torch.cat([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
    logits_N_K_C = np.stack([member[f"{where}/logits"] for member in members], axis=1)
    return torch.from_numpy(logits_N_K_C).double().log_softmax(2), members[0][f"{where}/labels"]


def _of_kind(log_probs_N_K_C: Any, labels_N: Array, one_hot: bool) -> dict[str, Any]:
    """Errors, gap, bound and calibration errors over all points, and the two rejection curves."""
    from natsel.evaluation import (
        calibration_error,
        disagreement_gap,
        disagreement_rate,
        predicted_error,
        rejection_curve,
        sampling_error,
    )
    from natsel.information.mutual import mutual_information

    probs_N_C = log_probs_N_K_C.exp().mean(1)
    found = disagreement_gap(probs_N_C, labels_N, _BINS, levels=log_probs_N_K_C.shape[1] if one_hot else None)
    scores = {
        # Rounded, so that points whose votes are split alike are kept or rejected together.
        PREDICTED: disagreement_rate(log_probs_N_K_C).numpy().round(12),
        INFORMATION: mutual_information(log_probs_N_K_C).numpy().round(12),
    }
    metrics: dict[str, Any] = {
        "sampling error": lambda kept: sampling_error(probs_N_C[kept], labels_N[kept]),
        PREDICTED: lambda kept: predicted_error(probs_N_C[kept]),
    }
    for kind in CALIBRATION:
        metrics[kind] = lambda kept, kind=kind: calibration_error(probs_N_C[kept], labels_N[kept], kind, _BINS)
    row: dict[str, Any] = {"gap": found.gap, "bound": found.bound}
    row["curves"] = {}
    for score, values_N in scores.items():
        curve = rejection_curve(values_N, metrics, _SHARES)
        row["curves"][score] = {"count": curve.counts.tolist()} | {
            name: values.tolist() for name, values in curve.values.items()
        }
    row |= {name: row["curves"][PREDICTED][name][-1] for name in metrics}
    certain_N = scores[PREDICTED] <= _CERTAIN
    error = sampling_error(probs_N_C[certain_N], labels_N[certain_N]) if certain_N.any() else None
    row["certain"] = {"count": int(certain_N.sum()), "sampling error": error}
    return row


def _atc(probs_V_C: Array, labels_V: Array, probs_N_C: Array) -> dict[str, float]:
    """Top-1 errors predicted by a threshold on the largest probability, and on minus the entropy."""
    from scipy.special import entr

    from natsel.evaluation import atc_error, atc_threshold

    right_V = probs_V_C.argmax(1) == labels_V
    scores: dict[str, Callable[[Array], Array]] = {
        "confidence": lambda probs_n_C: np.asarray(probs_n_C.max(1)),
        "entropy": lambda probs_n_C: np.asarray(-entr(probs_n_C).sum(1)),
    }
    return {
        name: atc_error(score(probs_N_C), atc_threshold(score(probs_V_C), right_V)) for name, score in scores.items()
    }


def claims(findings: Mapping[str, Any]) -> list[ClaimVerdict]:
    """What Kirsch & Gal 2022 concluded from their figures, judged by the rejection curves."""
    rows = {row["where"]: row for row in findings["rows"]}
    verdicts = []
    for where in WHERE:
        verdicts += [_worse_with_predicted_error(rows[where]), _error_rises(rows[where]), _gap_flattens(rows[where])]
        verdicts += _without_projection(rows[where])
        verdicts.append(_by_information(rows[where]))
    verdicts.append(_worse_under_shift(rows, findings["shifts"]))
    return sorted(verdicts, key=lambda one: one.claim)


def _worse_with_predicted_error(row: Mapping[str, Any]) -> ClaimVerdict:
    """Claim 1: each calibration error grows along the curve, and is greater for all points than for the surer half."""
    words, held = [], True
    for kind in KINDS:
        curve = row[kind]["curves"][PREDICTED]
        for name in CALIBRATION:
            half, last, rank = _at_half(curve, name), curve[name][-1], _rank(curve, name)
            held &= last > half and rank >= 0.8
            words.append(f"{name.upper()} {half:.3f} → {last:.3f} (rank correlation {rank:.2f})")
    evidence = f"surer half → all points; one-hot: {'; '.join(words[:3])}; probabilities: {'; '.join(words[3:])}"
    says = "ECE, CACE and CWCE grow with predicted error (rank correlation 0.8 or more, and above the surer half)"
    return ClaimVerdict("GDE 1", says, bool(held), evidence, row["where"])


def _worse_under_shift(rows: Mapping[str, Mapping[str, Any]], shifts: list[str]) -> ClaimVerdict:
    """Claim 2, by the mean over copies of as many points as the test set has."""
    words, held = [], True
    for kind in KINDS:
        for name in CALIBRATION:
            inside, outside = rows["inside"][kind][name], float(np.mean([rows[shift][kind][name] for shift in shifts]))
            held &= outside > inside
            words.append(f"{kind} {name.upper()} {inside:.3f} → {outside:.3f}")
    says = "calibration is worse under shift: ECE, CACE and CWCE over all points, mean of the changed copies"
    return ClaimVerdict("GDE 2", says, bool(held), "inside → shifted: " + "; ".join(words), "inside and shifted")


def _error_rises(row: Mapping[str, Any]) -> ClaimVerdict:
    """Claim 3: over subsets the error is nearly a straight line in the predicted error."""
    words, held = [], True
    for kind in KINDS:
        curve = row[kind]["curves"][PREDICTED]
        error, predicted = np.array(curve["sampling error"]), np.array(curve[PREDICTED])
        slope = np.polyfit(predicted, error, 1)[0] if np.ptp(predicted) > 0 else float("nan")
        straight = np.corrcoef(predicted, error)[0, 1] ** 2 if np.ptp(predicted) > 0 else float("nan")
        held &= _rank(curve, "sampling error") >= 0.95 and straight >= 0.95
        words.append(f"{kind}: {error[0]:.3f} → {error[-1]:.3f}, slope {slope:.2f}, R² {straight:.3f}")
    says = "sampling error rises almost linearly with predicted error (R² 0.95 or more)"
    return ClaimVerdict("GDE 3", says, bool(held), "; ".join(words), row["where"])


def _gap_flattens(row: Mapping[str, Any]) -> ClaimVerdict:
    """Claim 3, second half: the gap grows up to the middle predicted error, and changes less from there to the last."""
    words, held = [], True
    for kind in KINDS:
        curve = row[kind]["curves"][PREDICTED]
        gaps = np.abs(np.array(curve["sampling error"]) - np.array(curve[PREDICTED]))
        predicted = np.array(curve[PREDICTED])
        middle = float(np.interp((predicted[0] + predicted[-1]) / 2, predicted, gaps))
        first, second = middle - gaps[0], gaps[-1] - middle
        held &= abs(second) < first
        words.append(f"{kind}: gap {gaps[0]:.3f}, {middle:.3f} in the middle, {gaps[-1]:.3f} at the end")
    says = "the gap flattens: it grows over the first half of predicted errors, and changes less over the second"
    return ClaimVerdict("GDE 3", says, bool(held), "; ".join(words), row["where"])


def _without_projection(row: Mapping[str, Any]) -> list[ClaimVerdict]:
    """Claim 4: the same members without projection to one-hot."""
    one_hot, probabilities = (row[kind] for kind in KINDS)
    better = [probabilities[name] < one_hot[name] for name in CALIBRATION]
    words = "; ".join(f"{name.upper()} {one_hot[name]:.3f} → {probabilities[name]:.3f}" for name in CALIBRATION)
    errors = [each["sampling error"] for each in (one_hot, probabilities)]
    certain = [each["certain"] for each in (one_hot, probabilities)]
    passed, found = None, f"no point has a predicted error of {_CERTAIN:g} or less"
    if certain[0]["count"] and certain[1]["count"]:
        passed = bool(certain[1]["sampling error"] < certain[0]["sampling error"])
        found = "one-hot → probabilities: " + " → ".join(
            f"{each['sampling error']:.3f} of {each['count']:,} points" for each in certain
        )
    return [
        ClaimVerdict(
            "GDE 4",
            "without projection to one-hot the ensemble is better calibrated",
            all(better),
            f"one-hot → probabilities: {words}",
            row["where"],
        ),
        ClaimVerdict(
            "GDE 4",
            "without projection the sampling error over all points is higher",
            errors[1] > errors[0],
            f"one-hot → probabilities: {errors[0]:.3f} → {errors[1]:.3f}",
            row["where"],
        ),
        ClaimVerdict(
            "GDE 4",
            f"without projection the sampling error of points with a predicted error of {_CERTAIN:g} or less is lower",
            passed,
            found,
            row["where"],
        ),
    ]


def _by_information(row: Mapping[str, Any]) -> ClaimVerdict:
    """Claim 5, at equal shares kept: a mean distance of curves below a quarter of the range of the first one.

    Or below 0.01, the noise of calibration errors of 2,000 points: a curve that hardly changes has a range like that.
    """
    curves = row["probabilities"]["curves"]
    words, held = [], True
    for name in ("sampling error", *CALIBRATION):
        shares = np.array(_SHARES)
        one, other = (
            np.interp(shares, np.array(curves[score]["count"]) / row["points"], curves[score][name])
            for score in (PREDICTED, INFORMATION)
        )
        apart, span = float(np.abs(one - other).mean()), float(np.ptp(one))
        held &= apart < max(0.01, span / 4)
        words.append(f"{name} {apart:.3f} of {span:.3f}")
    says = "by information the curves are similar to those by predicted error (apart by 1/4 of their range at most)"
    return ClaimVerdict(
        "GDE 5", says, bool(held), "mean distance of range, probabilities: " + "; ".join(words), row["where"]
    )


def sections(findings: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """One table over all sets, one of errors predicted without labels, and rejection curves inside and under shift."""
    rows = {row["where"]: row for row in findings["rows"]}
    names = ("sampling error", PREDICTED, "gap", "bound", *CALIBRATION)
    head = ["set", "members", *(name.upper() if name in CALIBRATION else name for name in names)]
    cells = [[where, kind, *(f"{rows[where][kind][name]:.3f}" for name in names)] for where in rows for kind in KINDS]
    caption = f"{findings['members']} networks, trained on {findings['set']}; calibration errors in {_BINS} bins"
    parts = [("errors", "Errors, gaps and calibration", f'<div class="card">{table(head, cells, caption)}</div>')]
    head = ["set", "top-1 error", "ATC, confidence", "ATC, entropy", "sampling error", "predicted error"]
    cells = [
        [
            where,
            *(f"{value:.3f}" for value in (row["top-1 error"], row["atc"]["confidence"], row["atc"]["entropy"])),
            *(f"{row['probabilities'][name]:.3f}" for name in ("sampling error", PREDICTED)),
        ]
        for where, row in rows.items()
    ]
    caption = (
        "Errors predicted without labels of the set: ATC that of the most probable class, disagreement that of draws"
    )
    parts.append(("without-labels", "Without labels", f'<div class="card">{table(head, cells, caption)}</div>'))
    for where in WHERE:
        drawings = []
        for name, says in (
            ("sampling error", "Published figures show a nearly straight line (claim 3)."),
            ("gap", "Published figures show that the gap flattens (claim 3)."),
            (
                "ece",
                "Published figures show that calibration errors grow to the right (claim 1), more under shift (2),",
            ),
            ("cace", "and that probabilities lie below one-hot members (4)."),
            ("cwce", "Curves by information are published as similar (5)."),
        ):
            drawings.append(f"<p>{says}</p>{_chart(rows[where], name)}")
        parts.append((f"curves-{where}", f"Rejection curves, {where}", "".join(drawings)))
    return parts


def _chart(row: Mapping[str, Any], name: str) -> str:
    """One metric over the predicted error of growing subsets, by kind of members and by score."""
    lines = {}
    for kind in KINDS:
        for score, curve in row[kind]["curves"].items():
            error, predicted = np.array(curve["sampling error"]), np.array(curve[PREDICTED])
            values = np.abs(error - predicted) if name == "gap" else np.array(curve[name])
            order = np.argsort(predicted, kind="stable")
            lines[f"{kind}, by {score}"] = list(zip(predicted[order].tolist(), values[order].tolist(), strict=True))
    return line_chart(lines, "mean predicted error of the points kept", name.upper() if name in CALIBRATION else name)


def _at_half(curve: Mapping[str, Any], name: str) -> float:
    """A metric on the smallest subset that holds half of the points or more."""
    at = int(np.searchsorted(curve["count"], curve["count"][-1] / 2))
    return float(curve[name][at])


def _rank(curve: Mapping[str, Any], name: str) -> float:
    """Spearman's correlation of a metric with the predicted error of the subsets; 0 where nothing changes."""
    from scipy.stats import rankdata

    ranks = np.stack([rankdata(curve[name]), rankdata(curve[PREDICTED])])
    return float(np.corrcoef(ranks)[0, 1]) if (np.ptp(ranks, axis=1) > 0).all() else 0.0
