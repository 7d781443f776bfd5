"""Pruning curves on CIFAR-10: which scores of examples agree, and how accurate training is on what each keeps.

    grand-initial      ‖∇_θ (−ln p_y)‖ of untrained networks, mean of `initial_runs` runs
    grand, el2n        ‖∇_θ (−ln p_y)‖ and ‖p − e_y‖ after `score_epoch` of `epochs` epochs, mean of `runs` runs
    grand-last-layer   as grand, over the last layer alone
    forgetting         how often an example was right at one visit and wrong at the next, mean of `forgetting_runs` runs
    input-norm         ‖x‖ of the normalised picture; noisy-input-norm: times a random factor
    random             none: a fresh subset in each trial

Measured: rank correlations of all scores, the ratio grand-initial / input-norm, and the test accuracy of networks
trained from scratch on the share of the examples that each method keeps, after the last epoch. `policy` says whether
pruned sets get equally many "epochs" (fewer steps) or "steps" (to the nearest whole epoch).

Every scoring run and every trained network is a file of its own. `unit_names` lists them in order, `unit_needs` says
what has to be there before one can be made, and `make_unit` makes one, so that several processes may share the work.
docs/theory/data-pruning.md; Paul et al. 2021; Kirsch 2023.
"""

import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from natsel.experiments.pruning_curve import Kept, kept_set, pruning_curve
from natsel.experiments.report.charts import line_chart
from natsel.experiments.report.page import table
from natsel.experiments.report.score_charts import columns
from natsel.experiments.results.claims import ClaimVerdict
from natsel.experiments.studies.picture_training import picture_training
from natsel.experiments.studies.units import Array, Units
from natsel.seeds import derive

Settings = Mapping[str, Any]

RANDOM, EL2N, GRAND, INITIAL = "random", "el2n", "grand", "grand-initial"
LAST_LAYER, FORGETTING, NORM, NOISY = "grand-last-layer", "forgetting", "input-norm", "noisy-input-norm"
METHODS = (RANDOM, EL2N, GRAND, INITIAL, LAST_LAYER, FORGETTING, NORM, NOISY)

_MEAN, _STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)  # as `natsel.models.resnet18` normalises pictures
_ON_ACCELERATOR = 8 << 30
"""Working memory of one process there: some 300 pictures of a ResNet-18 of width 64 at a time."""
_KIND = {INITIAL: "initial", EL2N: "scored", GRAND: "scored", LAST_LAYER: "scored", FORGETTING: "forgetting"}
_RUNS = {"forgetting": "forgetting_runs", "scored": "runs", "initial": "initial_runs"}  # the longest first

_EARLY, _LATE = (NORM, INITIAL), (GRAND, EL2N, FORGETTING)
"""The two groups of scores that Kirsch 2023 found."""

_PUBLISHED_ORIGINAL = {  # by share kept
    RANDOM: {0.9: 0.9496, 0.7: 0.9427, 0.5: 0.9354, 0.4: 0.9250},
    EL2N: {0.9: 0.9509, 0.7: 0.9530, 0.5: 0.9522, 0.4: 0.9466},
    GRAND: {0.9: 0.9514, 0.7: 0.9545, 0.5: 0.9507, 0.4: 0.9407},
    INITIAL: {0.9: 0.9506, 0.7: 0.9391, 0.5: 0.9219, 0.4: 0.9077},
    NORM: {0.9: 0.9509, 0.7: 0.9411, 0.5: 0.9241, 0.4: 0.9081},
    NOISY: {0.9: 0.9484, 0.5: 0.9258, 0.4: 0.9102},
}
_PUBLISHED_HLB = {
    RANDOM: {0.9: 0.9373, 0.8: 0.9333, 0.7: 0.9278, 0.6: 0.9222, 0.5: 0.9139, 0.4: 0.9009},
    EL2N: {0.9: 0.9397, 0.8: 0.9392, 0.7: 0.9368, 0.6: 0.9344, 0.5: 0.9256, 0.4: 0.8975},
    GRAND: {0.9: 0.9400, 0.8: 0.9392, 0.7: 0.9361, 0.6: 0.9321, 0.5: 0.9226, 0.4: 0.8979},
    NORM: {0.9: 0.9367, 0.8: 0.9322, 0.7: 0.9244, 0.6: 0.9152, 0.5: 0.9016, 0.4: 0.8827},
    INITIAL: {0.9: 0.9365, 0.8: 0.9307, 0.7: 0.9240, 0.6: 0.9112, 0.5: 0.8997, 0.4: 0.8772},
}
_PUBLISHED_RANKS = [
    [INITIAL, NORM, "0.963", "0.39", "0.97"],
    [GRAND, EL2N, "0.985", "0.94", ""],
    [EL2N, FORGETTING, "0.894", "", ""],
    [GRAND, FORGETTING, "0.868", "", ""],
    [INITIAL, GRAND, "−0.024", "−0.068", ""],
    [INITIAL, EL2N, "−0.022", "−0.10", ""],
    [INITIAL, FORGETTING, "−0.023", "", ""],
    [NORM, GRAND, "−0.013", "−0.039", ""],
    [NORM, EL2N, "−0.015", "−0.067", ""],
    [NORM, FORGETTING, "−0.020", "", ""],
]


def run(settings: Settings, units: Units, device: str | None = None) -> dict[str, Any]:
    """Rank correlations, the ratio of two scores, and the accuracy of every trained network."""
    check(settings)
    folder, names, rows = units.folder, unit_names(settings), list[dict[str, Any]]()

    def made(name: str) -> None:
        if not is_made(folder, name):
            units.go_on()
            units.tell(f"{names.index(name) + 1} of {len(names)}: {make_unit(settings, folder, name, device=device)}")

    for name in names:
        if not name.startswith("trained-"):
            made(name)
    scores = _scores(settings, folder)

    def accuracy(kept: Kept) -> float:
        name = _name(kept.method, kept.keep, kept.trial)
        made(name)
        rows.append(units.measured(name, partial(_trained, settings, kept, device)))
        return float(rows[-1]["accuracy"])

    given = {method: None if method == RANDOM else scores[method] for method in settings["methods"]}
    same, seed = settings["policy"], settings["seed"]
    pruning_curve(accuracy, given, settings["keeps"], settings["trials"], same=same, seed=seed)
    kept = ("policy", "trials", "epochs", "score_epoch", "runs", "initial_runs", "forgetting_runs", "width")
    found = {"rows": rows, "examples": len(scores[NORM]), **{name: settings[name] for name in kept}}
    return found | {"ranks": _ranks(scores), "ratio": _ratio(scores)}


def check(settings: Settings) -> None:
    """Refuse settings that cannot be measured."""
    if RANDOM not in settings["methods"] or len(settings["methods"]) < 2:
        raise ValueError(f"methods: found {list(settings['methods'])}; all are compared with {RANDOM}: name both")
    if FORGETTING in settings["methods"] and not settings["forgetting_runs"]:
        raise ValueError("forgetting_runs: found 0, and forgetting is among the methods; count at least one run")
    if not 1 <= settings["score_epoch"] <= settings["epochs"]:
        raise ValueError(
            f"score_epoch: expected 1 to the {settings['epochs']} epochs of training, found {settings['score_epoch']}"
        )


def unit_names(settings: Settings) -> list[str]:
    """All units in an order in which they can be made: scores first, each run by itself, then trained networks.

    >>> settings = {"initial_runs": 1, "runs": 1, "forgetting_runs": 0, "methods": ["el2n", "random"], "trials": 1}
    >>> unit_names(settings | {"keeps": [0.5]})
    ['scored-0', 'initial-0', 'input', 'trained-random-0.5-0', 'trained-el2n-0.5-0']
    """
    scored = [f"{kind}-{number}" for kind in _RUNS for number in range(settings[_RUNS[kind]])]
    # Random needs no scores: while some are still in the making, other processes have something to do.
    methods = sorted(settings["methods"], key=lambda method: method != RANDOM)
    cells = [(keep, trial) for keep in settings["keeps"] for trial in range(settings["trials"])]
    return [*scored, "input", *(_name(method, *cell) for method in methods for cell in cells)]


def unit_needs(settings: Settings, name: str) -> list[str]:
    """The units that must be there before this one can be made.

    >>> unit_needs({"runs": 2, "methods": ["el2n"], "keeps": [0.5], "trials": 1}, "trained-el2n-0.5-0")
    ['scored-0', 'scored-1']
    """
    if not name.startswith("trained-"):
        return []
    method = _cell(settings, name)[0]
    if method == RANDOM:
        return []
    if method in (NORM, NOISY):
        return ["input"]
    return [f"{_KIND[method]}-{number}" for number in range(settings[_RUNS[_KIND[method]]])]


def is_made(folder: Path, name: str) -> bool:
    """Whether a unit is there."""
    return any((Path(folder) / "units" / f"{name}{ending}").is_file() for ending in (".npz", ".json"))


def make_unit(settings: Settings, folder: Path, name: str, *, device: str | None = None) -> str:
    """Make one unit and keep it in the folder; what is there already stays. Returns a line about it."""
    units, began = Units(Path(folder)), time.perf_counter()
    missing = [need for need in unit_needs(settings, name) if not is_made(folder, need)]
    if missing:
        raise ValueError(f"name: {name} needs {', '.join(missing)}, which is not made yet; make it first")
    if name.startswith("trained-"):
        method, keep, trial = _cell(settings, name)
        score_N = None if method == RANDOM else _score(settings, folder, method)
        count, same, seed = len(_data(settings)[0]), settings["policy"], settings["seed"]
        kept = kept_set(method, score_N, count, keep, trial, same=same, seed=seed)
        row = units.measured(name, partial(_trained, settings, kept, device))
        words = f"accuracy {row['accuracy']:.4f}"
    else:
        make = _input_scores if name == "input" else _run_scores
        words = f"scores {', '.join(units.arrays(name, partial(make, settings, name, device)))}"
    return f"{name}: {words}, {time.perf_counter() - began:.0f} s"


def _name(method: str, keep: float, trial: int) -> str:
    return f"trained-{method}-{keep:g}-{trial}"


def _cell(settings: Settings, name: str) -> tuple[str, float, int]:
    """Method, share and trial of a trained network."""
    for method in settings["methods"]:
        for keep in settings["keeps"]:
            for trial in range(settings["trials"]):
                if name == _name(method, keep, trial):
                    return method, keep, trial
    raise ValueError(f"name: {name!r} is no unit of these settings; unit_names lists them")


def _data(settings: Settings) -> tuple[Any, Any]:
    """The examples that are scored and pruned, and the test set."""
    return _parts(settings["train"], settings["test"], settings["seed"])


@lru_cache(maxsize=1)  # one process makes many units, and reading takes seconds
def _parts(n_train: int, n_test: int, seed: int) -> tuple[Any, Any]:
    from natsel.data import load, split

    data = load("cifar10")
    (learn,) = split(data.train, (min(n_train or len(data.train), len(data.train)),), seed=derive(seed, "split"))
    (test,) = split(data.test, (min(n_test, len(data.test)),), seed=derive(seed, "test"))
    return learn, test


def _network(settings: Settings, learn: Any) -> Any:
    from natsel.models import resnet18

    shape = learn.inputs.shape[1:3]
    return resnet18(learn.n_classes, shape=shape, mean=_MEAN, std=_STD, width=settings["width"])


def _input_scores(settings: Settings, name: str, device: str | None) -> dict[str, Array]:
    """Scores that need no network."""
    from natsel.sampling import input_norm, noisy_input_norm

    pictures = _data(settings)[0].inputs
    return {
        NORM: input_norm(pictures, _MEAN, _STD).numpy(),
        NOISY: noisy_input_norm(pictures, _MEAN, _STD, seed=derive(settings["seed"], "noise")).numpy(),
    }


def _run_scores(settings: Settings, name: str, device: str | None) -> dict[str, Array]:
    """Scores of all examples by the network of one run, with the seeds that `natsel.prune` takes."""
    from natsel.memory import memory_budget
    from natsel.models.networks.inputs import as_device
    from natsel.models.networks.prediction import predict
    from natsel.sampling import ForgettingEvents, el2n, grand, grand_last_layer
    from natsel.sampling.network_runs import looks_at_training

    kind, number = name.rsplit("-", 1)
    learn, on = _data(settings)[0], as_device(device)

    def look(module: Any) -> dict[str, Any]:
        if kind == "forgetting":
            return {}
        if kind == "initial":
            return {INITIAL: grand(module, *learn, device=on)}
        log_probs_N_C = predict([module], learn.inputs, on)[:, 0].double().log_softmax(1)
        found = {EL2N: el2n(log_probs_N_C, learn.labels), GRAND: grand(module, *learn, device=on)}
        return found | {LAST_LAYER: grand_last_layer(module, *learn, device=on)}

    epoch = {"initial": 0, "scored": settings["score_epoch"], "forgetting": settings["epochs"]}[kind]
    events = ForgettingEvents(len(learn)) if kind == "forgetting" else None
    with memory_budget(_ON_ACCELERATOR) if on.type == "cuda" else nullcontext():
        (scores,) = looks_at_training(
            *(lambda: _network(settings, learn), learn, picture_training(settings, settings["augmentation"], on.type)),
            *([epoch], look),
            seed=derive(settings["seed"], "run", int(number)),
            device=on,
            forgetting=events,
        )
    scores |= {} if events is None else {FORGETTING: events.scores()}
    return {method: score_N.double().cpu().numpy() for method, score_N in scores.items()}


def _trained(settings: Settings, kept: Kept, device: str | None) -> dict[str, Any]:
    """One network trained from scratch on what a method keeps."""
    from natsel.models import fresh, train
    from natsel.models.networks.inputs import as_device
    from natsel.models.networks.prediction import predict

    (learn, test), on = _data(settings), as_device(device)
    epochs = max(1, round(settings["epochs"] * kept.passes))
    training = replace(picture_training(settings, settings["augmentation"], on.type), max_epochs=epochs)
    module, began = fresh(lambda: _network(settings, learn), kept.seed), time.perf_counter()
    train(module, learn[kept.positions_n], training=training, seed=kept.seed, device=on)
    predicted_N = predict([module], test.inputs, on)[:, 0].argmax(1).cpu().numpy()
    row = {name: getattr(kept, name) for name in ("method", "keep", "trial")}
    row |= {"kept": len(kept.positions_n), "epochs": epochs, "accuracy": float((predicted_N == test.labels).mean())}
    return row | {"seconds": time.perf_counter() - began}


def _score(settings: Settings, folder: Path, method: str) -> Array:
    """The mean over runs of one score."""
    import torch

    from natsel.sampling.prune import mean_over_runs

    units, needed = Units(Path(folder)), unit_needs(settings, _name(method, settings["keeps"][0], 0))
    runs = [units.arrays(name, partial(_absent, name))[method] for name in needed]
    return np.asarray(mean_over_runs(torch.from_numpy(np.stack(runs))))


def _absent(name: str) -> Any:
    raise ValueError(f"units: {name} is not there; make it first")


def _scores(settings: Settings, folder: Path) -> dict[str, Array]:
    """All scores that were measured, in the order of the two groups."""
    wanted = {**settings, "methods": METHODS}
    names = [NORM, NOISY, INITIAL, GRAND, EL2N, LAST_LAYER, *([FORGETTING] if settings["forgetting_runs"] else [])]
    return {method: _score(wanted, folder, method) for method in names}


def _ranks(scores: Mapping[str, Array]) -> dict[str, Any]:
    from natsel.evaluation import rank_correlations

    found = rank_correlations(scores)
    return {"names": list(found.names), "matrix": found.matrix_S_S.tolist()}


def _ratio(scores: Mapping[str, Array]) -> dict[str, Any]:
    """The logarithm of grand-initial / input-norm: a histogram, and how far it is from a normal distribution."""
    from scipy.stats import kstest, skew

    log_ratio_N = np.log(scores[INITIAL] / scores[NORM])
    mean, std = float(log_ratio_N.mean()), float(log_ratio_N.std())
    counts, edges = np.histogram(log_ratio_N, bins=40)
    distance = float(kstest((log_ratio_N - mean) / std, "norm").statistic)
    found = {"mean": mean, "std": std, "skew": float(skew(log_ratio_N)), "distance": distance}
    return found | {"counts": counts.tolist(), "edges": edges.tolist()}


def claims(findings: Mapping[str, Any]) -> list[ClaimVerdict]:
    """What Kirsch 2023 found, beside the published numbers; accuracies are means over trials.

    >>> claims({"rows": [], "ranks": {"names": [], "matrix": []}, "ratio": {"distance": 0.02, "skew": 0.1}})[0].passed
    True
    """
    rows, ranks = findings["rows"], findings["ranks"]
    verdicts = _claims_ranks(ranks) + _claims_at_initialisation(rows) + _claims_later(rows) + _claims_much_pruned(rows)
    ratio = findings["ratio"]
    says = "grand-initial / input-norm is roughly log-normal (at most 0.05 from it at any quantile)"
    words = f"largest distance {ratio['distance']:.3f}, skewness of the logarithm {ratio['skew']:.2f}"
    verdicts.append(ClaimVerdict("DD 5", says, ratio["distance"] <= 0.05, words))
    return sorted(verdicts, key=lambda one: one.claim)


def _claims_ranks(ranks: Mapping[str, Any]) -> list[ClaimVerdict]:
    names, verdicts = ranks["names"], []

    def between(one: str, other: str) -> float:
        return float(ranks["matrix"][names.index(one)][names.index(other)])

    if {INITIAL, NORM} <= set(names):
        found = between(INITIAL, NORM)
        words = f"{found:.3f}; published 0.963 (original), 0.97 (minimal), 0.39 (hlb)"
        says = "grand-initial ranks as the input norm does: rank correlation 0.9 or more"
        verdicts.append(ClaimVerdict("DD 1", says, found >= 0.9, words))
        says = "it is at least the lowest published, 0.39"
        verdicts.append(ClaimVerdict("DD 1", says, found >= 0.39, words))
    if {GRAND, EL2N} <= set(names):
        found = between(GRAND, EL2N)
        words = f"{found:.3f}; published 0.985 (original), 0.94 (hlb)"
        verdicts.append(ClaimVerdict("DD 2", "later grand ranks as el2n does: 0.9 or more", found >= 0.9, words))
    early, late = ([name for name in group if name in names] for group in (_EARLY, _LATE))
    if len(early) == 2 and len(late) >= 2:
        within = [between(*early), *(between(one, other) for one in late for other in late if one < other)]
        across = [between(one, other) for one in early for other in late]
        words = (
            f"within groups from {min(within):.3f}, across from {min(across):.3f} to {max(across):.3f}; published:"
            " within from 0.868, across −0.024 to −0.013 (original); within from 0.39, across −0.10 to −0.039 (hlb)"
        )
        says = f"two groups: {', '.join(early)} and {', '.join(late)} (across at most 0.15, within above that)"
        passed = max(map(abs, across)) <= 0.15 < min(within)
        verdicts.append(ClaimVerdict("DD 2", says, passed, words))
    return verdicts


def _claims_at_initialisation(rows: list[dict[str, Any]]) -> list[ClaimVerdict]:
    verdicts = []
    for keep in _keeps(rows):
        for method in (INITIAL, NORM):
            if keep <= 0.7 and _has(rows, keep, method, RANDOM):
                passed = _mean(rows, method, keep) <= _mean(rows, RANDOM, keep)
                says = f"{method} is no better than random"
                verdicts.append(ClaimVerdict("DD 3", says, passed, _beside(rows, keep, method, RANDOM), _where(keep)))
        if _has(rows, keep, INITIAL, NORM):
            gap = abs(_mean(rows, INITIAL, keep) - _mean(rows, NORM, keep))
            says = "grand-initial and input-norm are as good as each other (within 0.01)"
            words = _beside(rows, keep, INITIAL, NORM)
            verdicts.append(ClaimVerdict("DD 3", says, gap <= 0.01, words, _where(keep)))
    return verdicts


def _claims_later(rows: list[dict[str, Any]]) -> list[ClaimVerdict]:
    verdicts = []
    for keep in _keeps(rows):
        for method in (EL2N, GRAND):
            if keep >= 0.5 and _has(rows, keep, method, RANDOM):
                passed = _mean(rows, method, keep) > _mean(rows, RANDOM, keep)
                says, words = f"{method} beats random", _beside(rows, keep, method, RANDOM)
                verdicts.append(ClaimVerdict("DD 4", says, passed, words, _where(keep)))
        if _has(rows, keep, EL2N, GRAND):
            gap = abs(_mean(rows, EL2N, keep) - _mean(rows, GRAND, keep))
            says, words = "el2n and grand are as good as each other (within 0.01)", _beside(rows, keep, EL2N, GRAND)
            verdicts.append(ClaimVerdict("DD 4", says, gap <= 0.01, words, _where(keep)))
    return verdicts


def _claims_much_pruned(rows: list[dict[str, Any]]) -> list[ClaimVerdict]:
    """At 0.6 pruned the two published codes differ: in the short training of hlb, scores lose."""
    return [
        ClaimVerdict(
            "DD 4",
            f"{method} falls below random, as in hlb; in the original code it stays above",
            _mean(rows, method, 0.4) < _mean(rows, RANDOM, 0.4),
            _beside(rows, 0.4, method, RANDOM),
            _where(0.4),
        )
        for method in (EL2N, GRAND)
        if _has(rows, 0.4, method, RANDOM)
    ]


def sections(findings: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Pruning curves with a table beside published numbers, rank correlations, and the ratio of two scores."""
    rows, ranks, ratio = findings["rows"], findings["ranks"], findings["ratio"]
    methods, keeps = list(dict.fromkeys(row["method"] for row in rows)), _keeps(rows)
    lines = {method: [(1 - keep, _mean(rows, method, keep)) for keep in keeps] for method in methods}
    head = ["method", *(f"{keep:g} kept" for keep in keeps)]
    cells = [[method, *(_spread(_of(rows, method, keep)) for keep in keeps)] for method in methods]
    caption = (
        f"Test accuracy, mean (least to greatest) of {findings['trials']} trials: {findings['examples']:,} examples,"
        f" ResNet-18 of width {findings['width']}, {findings['epochs']} epochs; as many {findings['policy']} for all"
    )
    body = line_chart(lines, "share of the examples that is pruned", "test accuracy, mean of trials")
    body += f'<div class="card">{table(head, cells, caption)}</div>'
    for words, published in (
        ("original code, 200 epochs, equally many steps, 2 trials", _PUBLISHED_ORIGINAL),
        ("hlb, 12 epochs, equally many epochs, 10 trials; all data 0.9397", _PUBLISHED_HLB),
    ):
        shares = sorted({keep for line in published.values() for keep in line}, reverse=True)
        head = ["method", *(f"{keep:g} kept" for keep in shares)]
        cells = [
            [method, *(f"{line[keep]:.4f}" if keep in line else "" for keep in shares)]
            for method, line in published.items()
        ]
        caption = f"Published (Kirsch 2023): {words}"
        body += f'<div class="card">{table(head, cells, caption)}</div>'
    parts = [("curves", "Accuracy on what is kept", body)]
    caption = (
        f"Spearman's rank correlations; grand-initial: mean of {findings['initial_runs']} runs, grand and el2n after"
        f" {findings['score_epoch']} of {findings['epochs']} epochs: {findings['runs']}, forgetting:"
        f" {findings['forgetting_runs']}"
    )
    cells = [
        [name, *(f"{value:.3f}" for value in line)] for name, line in zip(ranks["names"], ranks["matrix"], strict=True)
    ]
    body = f'<div class="card">{table(["score", *ranks["names"]], cells, caption)}</div>'
    caption = "Published (Kirsch 2023): later scores at epoch 20 of 200 (hlb: epoch 1 of 12), forgetting at 200"
    head = ["score", "and", "original", "hlb", "minimal"]
    body += f'<div class="card">{table(head, _PUBLISHED_RANKS, caption)}</div>'
    parts.append(("ranks", "Which scores agree", body))
    words = (
        f"<p>Mean {ratio['mean']:.3f}, deviation {ratio['std']:.3f}, skewness {ratio['skew']:.2f}; largest distance"
        f" from a normal distribution {ratio['distance']:.3f}.</p>"
    )
    drawing = columns(np.array(ratio["edges"]), np.array(ratio["counts"]), "ln(grand-initial / input-norm)")
    body = f'{words}<div class="panels two"><figure class="card">{drawing}</figure></div>'
    parts.append(("ratio", "Gradient norm of untrained networks over input norm", body))
    return parts


def _keeps(rows: list[dict[str, Any]]) -> list[float]:
    return sorted({row["keep"] for row in rows}, reverse=True)


def _of(rows: list[dict[str, Any]], method: str, keep: float) -> list[float]:
    return [row["accuracy"] for row in rows if row["method"] == method and abs(row["keep"] - keep) < 1e-9]


def _mean(rows: list[dict[str, Any]], method: str, keep: float) -> float:
    return float(np.mean(_of(rows, method, keep)))


def _has(rows: list[dict[str, Any]], keep: float, *methods: str) -> bool:
    return all(_of(rows, method, keep) for method in methods)


def _beside(rows: list[dict[str, Any]], keep: float, *methods: str) -> str:
    """Accuracies of some methods, and what was published for them."""
    words = ", ".join(f"{method} {_spread(_of(rows, method, keep))}" for method in methods)
    for name, published in (("original", _PUBLISHED_ORIGINAL), ("hlb", _PUBLISHED_HLB)):
        known = [f"{published[method][keep]:.4f}" for method in methods if keep in published.get(method, {})]
        words += f"; {name}: {', '.join(known)}" if len(known) == len(methods) else ""
    return words


def _spread(values: list[float]) -> str:
    mean = f"{np.mean(values):.4f}"
    return f"{mean} ({min(values):.4f} to {max(values):.4f})" if len(values) > 1 else mean


def _where(keep: float) -> str:
    return f"{keep:g} kept"
