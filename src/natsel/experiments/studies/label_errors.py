"""Wrong labels found: pictures of CIFAR-10 with the labels that people gave them, ranked by how wrong a label looks.

    out-of-fold-loss    −ln p(y|x) of a network trained on the other folds, after its last epoch: the usual baseline
    irreducible-loss    the same after the epoch of least mean loss on the fold: the cross-fitted irreducible loss
    early-loss          −ln p(y|x) after epoch `early_epoch` of networks trained on all pictures
    el2n                |p(·|x) − e_y| at the same time
    last-loss           −ln p(y|x) after their last epoch
    forgetting          how often they forgot a picture while they were trained; `epochs` + 1 where they never knew it

    area under precision-recall = mean, over wrong labels, of the precision down to each; by chance: their share

A label of people (CIFAR-10N) is wrong where it is not that of CIFAR-10. Scores of networks trained on all pictures are
means over `runs` runs. Losses of each network are kept in files, so that nothing is trained twice after a kill.
docs/theory/training-selection.md, 4; docs/theory/data-pruning.md; Wei et al. 2022; Northcutt et al. 2021.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from natsel.experiments.report.page import table
from natsel.experiments.results.claims import ClaimVerdict
from natsel.experiments.studies.picture_training import picture_training
from natsel.experiments.studies.units import Array, Units
from natsel.seeds import derive

BASELINE, IRREDUCIBLE, EARLY, EL2N, LAST, FORGETTING = SCORES = (
    *("out-of-fold-loss", "irreducible-loss", "early-loss", "el2n", "last-loss", "forgetting"),
)


def run(settings: Mapping[str, Any], units: Units, device: str | None = None) -> dict[str, Any]:
    """How well each score finds wrong labels, for each trial."""
    if settings["early_epoch"] > settings["epochs"]:
        raise ValueError(
            f"early_epoch: expected 1 to {settings['epochs']}, the epochs of training, found"
            f" {settings['early_epoch']}; look earlier"
        )
    (pictures, wrong_N), rows = _data(settings), []
    for trial in range(settings["trials"]):
        seed = derive(settings["seed"], "trial", trial)
        fold_N = _folds(settings, pictures, seed)
        scores: dict[str, Array] = {name: np.zeros(len(pictures)) for name in (BASELINE, IRREDUCIBLE)}
        for fold in range(settings["folds"]):
            made = partial(_fold, settings, pictures, fold_N, fold, seed, device)
            loss_T_n = units.arrays(f"{trial}-fold-{fold}", made)["loss_T_n"]
            scores[BASELINE][fold_N == fold] = loss_T_n[-1]
            scores[IRREDUCIBLE][fold_N == fold] = loss_T_n[loss_T_n.mean(1).argmin()]
            units.tell(f"trial {trial}: fold {fold + 1} of {settings['folds']}")
        runs = []
        for number in range(settings["runs"]):
            made = partial(_whole, settings, pictures, derive(seed, "run", number), device)
            runs.append(units.arrays(f"{trial}-run-{number}", made))
            units.tell(f"trial {trial}: run {number + 1} of {settings['runs']} on all pictures")
        scores |= {name: np.mean([one[name] for one in runs], axis=0) for name in (EARLY, EL2N, LAST, FORGETTING)}
        rows += [{"trial": trial, "score": name} | _found(scores[name], wrong_N) for name in SCORES]
    about = {name: settings[name] for name in ("kind", "network", "epochs", "folds", "runs", "early_epoch", "trials")}
    return {"rows": rows, "pictures": len(pictures), "wrong": int(wrong_N.sum())} | about


def _data(settings: Mapping[str, Any]) -> tuple[Any, Array]:
    """Pictures with labels of people, and which of these are wrong; a random part where not all are wanted."""
    from natsel.data import Examples, human_labels, load

    train = load("cifar10").train
    given_N = human_labels("cifar10", settings["kind"])
    count = settings["train"] or len(train)
    if count > len(train):
        raise ValueError(f"train: expected at most {len(train)} pictures, found {count}; 0 takes all")
    rows = np.sort(np.random.default_rng(derive(settings["seed"], "pictures")).permutation(len(train))[:count])
    wrong_N: Array = given_N[rows] != np.asarray(train.labels)[rows]
    return Examples(np.asarray(train.inputs)[rows], given_N[rows]), wrong_N


def _folds(settings: Mapping[str, Any], pictures: Any, seed: int) -> Array:
    from natsel.sampling.irreducible_loss import class_balanced_folds

    return class_balanced_folds(np.asarray(pictures.labels), settings["folds"], derive(seed, "folds"))


def _looked(
    settings: Mapping[str, Any], learn: Any, judged: Any, epochs: list[int], seed: int, device: str | None, events: Any
) -> list[Any]:
    """Log probabilities of some pictures after some epochs of training on others, or on the same."""
    from natsel.models.networks.inputs import as_device
    from natsel.models.networks.prediction import predict
    from natsel.sampling.network_runs import looks_at_training

    on = as_device(device)

    def look(module: Any) -> Any:
        return predict([module], judged.inputs, on)[:, 0].double().log_softmax(1)

    return looks_at_training(
        partial(_network, settings, learn),
        learn,
        picture_training(settings, settings["augmentation"], on.type),
        epochs,
        look,
        seed=seed,
        device=on,
        forgetting=events,
    )


def _network(settings: Mapping[str, Any], pictures: Any) -> Any:
    from natsel import models

    options = {"in_channels": 3, "shape": pictures.inputs.shape[1:3], "classes": 10}
    options |= {} if settings["network"] == "lenet" else {"width": settings["width"]}
    return getattr(models, settings["network"])(**options)


def _fold(
    settings: Mapping[str, Any], pictures: Any, fold_N: Array, fold: int, seed: int, device: str | None
) -> dict[str, Array]:
    """Losses of a fold after each epoch of training on the others: T × n."""
    from natsel.sampling import loss

    learn, judged = (pictures[np.flatnonzero(part)] for part in (fold_N != fold, fold_N == fold))
    epochs = list(range(1, settings["epochs"] + 1))
    looks = _looked(settings, learn, judged, epochs, derive(seed, "fold", fold), device, None)
    return {"loss_T_n": np.stack([loss(log_probs_n_C, judged.labels).cpu().numpy() for log_probs_n_C in looks])}


def _whole(settings: Mapping[str, Any], pictures: Any, seed: int, device: str | None) -> dict[str, Array]:
    """Scores of all pictures from one network that was trained on all."""
    from natsel.sampling import ForgettingEvents, el2n, loss

    events = ForgettingEvents(len(pictures))
    epochs = [settings["early_epoch"], settings["epochs"]]
    early_N_C, last_N_C = _looked(settings, pictures, pictures, epochs, seed, device, events)
    found = {EARLY: loss(early_N_C, pictures.labels), LAST: loss(last_N_C, pictures.labels)}
    found |= {EL2N: el2n(early_N_C, pictures.labels), FORGETTING: events.scores(never=settings["epochs"] + 1)}
    return {name: score_N.cpu().numpy() for name, score_N in found.items()}


def _found(score_N: Array, wrong_N: Array) -> dict[str, float]:
    """How well a score tells wrong labels from right ones; the precision is that of as many as there are wrong."""
    from natsel.evaluation import aupr, auroc

    right, wrong = score_N[~wrong_N], score_N[wrong_N]
    top = np.argsort(-score_N, kind="stable")[: len(wrong)]
    return {"aupr": aupr(right, wrong), "auroc": auroc(right, wrong), "precision": float(wrong_N[top].mean())}


def claims(findings: Mapping[str, Any]) -> list[ClaimVerdict]:
    """Each score against the usual baseline, by the area under precision-recall in every trial.

    >>> claims({"rows": [], "pictures": 0, "wrong": 0})
    []
    """
    rows, verdicts = findings["rows"], []
    for name in SCORES if rows else ():
        found, baseline = (_per_trial(rows, one, "aupr") for one in (name, BASELINE))
        chance = findings["wrong"] / findings["pictures"]
        words = f"area under precision-recall {_listed(found)}"
        says = f"{name} finds wrong labels twice as well as chance"
        verdicts.append(ClaimVerdict("label errors", says, min(found) > 2 * chance, f"{words}; by chance {chance:.3f}"))
        if name != BASELINE:
            passed = all(one > other for one, other in zip(found, baseline, strict=True))
            words = f"{words}; {BASELINE} {_listed(baseline)}"
            says = f"{name} is above {BASELINE} in every trial"
            verdicts.append(ClaimVerdict("label errors", says, passed, words))
    return verdicts


def sections(findings: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """One table: scores and how well they find wrong labels."""
    cells = []
    for name in SCORES:
        values = {what: _per_trial(findings["rows"], name, what) for what in ("aupr", "auroc", "precision")}
        cells.append([name, _listed(values["aupr"]), *(f"{np.mean(values[what]):.3f}" for what in values)])
    head = ["score", "area under precision-recall, trials", "mean", "area under ROC", "precision at as many"]
    caption = (
        f"{findings['pictures']:,} pictures with {findings['kind']} labels of people, of which {findings['wrong']:,}"
        f" ({100 * findings['wrong'] / findings['pictures']:.1f} %) are wrong; {findings['network']},"
        f" {findings['epochs']} epochs, {findings['folds']} folds, means over {findings['runs']} runs, early: epoch"
        f" {findings['early_epoch']}"
    )
    return [("label-errors", "Wrong labels found", f'<div class="card">{table(head, cells, caption)}</div>')]


def _per_trial(rows: list[dict[str, Any]], name: str, what: str) -> list[float]:
    return [row[what] for row in sorted(rows, key=lambda row: int(row["trial"])) if row["score"] == name]


def _listed(values: list[float]) -> str:
    return ", ".join(f"{value:.3f}" for value in values)
