"""Two uncertainties of every pixel: unknown objects by the density of features, uncertain borders by the softmax.

    networks that give each pixel a class learn scenes of known shapes; test scenes have unknown shapes (crosses) too
        AUROC       unknown pixels against known ones; ambiguous pixels (true entropy above 0.3 nats) against clear
                    ones; unknown against ambiguous ones
        Spearman    of a score with the true entropy of the label of each known pixel
        patches     p(accurate | certain), p(uncertain | inaccurate) and PAvPU by the share of patches that count as
                    uncertain; an unknown pixel is always wrong, half-covered ones at its border count nowhere

for the density (one Gaussian per class, the same at all positions), the entropy of the same network, and entropy and
mutual information of an ensemble. The outputs of every trained network are kept in the folder.
docs/theory/deterministic-uncertainty.md, 10; Mukhoti et al. 2023; Mukhoti & Gal 2018.
"""

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from natsel.experiments.report.charts import line_chart
from natsel.experiments.report.page import table
from natsel.experiments.results.claims import ClaimVerdict
from natsel.experiments.studies.units import Array, Units
from natsel.seeds import derive

Arrays = dict[str, Array]

DENSITY, ENTROPY = "density", "softmax entropy"
ENSEMBLE, INFORMATION = "ensemble entropy", "ensemble information"
TASKS = {
    "unknown": "unknown against known",
    "ambiguous": "ambiguous against clear",
    "apart": "unknown against ambiguous",
}
PATCHES = {
    "accurate_if_certain": "p(accurate | certain)",
    "uncertain_if_inaccurate": "p(uncertain | inaccurate)",
    "pavpu": "PAvPU",
}
_AMBIGUOUS = 0.3
"""True entropy in nats above which a pixel is ambiguous."""
_SHARES = tuple(np.linspace(0.05, 0.95, 19).round(2).tolist())
"""Shares of uncertain patches at which scores are compared."""


def run(settings: Mapping[str, Any], units: Units, device: str | None = None) -> dict[str, Any]:
    """AUROC, rank correlations and patches of every score on test scenes with unknown objects."""
    members = []
    for number in range(settings["members"]):
        trained = partial(_trained_outputs, settings, derive(settings["seed"], "member", number), device)
        says = f"training network {number + 1} of {settings['members']}"
        members.append(units.arrays(f"member-{number}", trained, says))
    return units.measured("measured", partial(_measured, settings, members))


def _scenes(settings: Mapping[str, Any], part: str, count: int, unknown: int = 0) -> Any:
    from natsel.data import made_scenes

    options = {name: settings[name] for name in ("size", "shapes", "border_width")}
    return made_scenes(count, unknown_shapes=unknown, seed=derive(settings["seed"], part), **options)


def _test_scenes(settings: Mapping[str, Any]) -> Any:
    return _scenes(settings, "test", settings["test"], settings["unknown_shapes"])


def _trained_outputs(settings: Mapping[str, Any], seed: int, device: str | None) -> Arrays:
    """Train one network; log density and class probabilities of every test pixel."""
    import torch

    from natsel.models import PixelDDU, inputs_of, pixel_network

    train, validation = (_scenes(settings, part, settings[part]) for part in ("train", "validation"))
    test = _test_scenes(settings)

    def trained(module: Any, labelled: Any, seed: int) -> None:
        _train(settings, module, labelled, seed)

    network = partial(pixel_network, train.n_classes, width=settings["width"])
    model = PixelDDU(network, device=device, train=trained).fit(train, validation, seed=seed)
    module = model.module
    assert module is not None
    began = time.perf_counter()
    with torch.no_grad():
        parts = [module(inputs_of(module, test.inputs[start : start + 50])) for start in range(0, len(test), 50)]
    logits_N_C_H_W = torch.cat(parts).double() / model.temperature
    forward = time.perf_counter() - began
    began = time.perf_counter()
    maps = model.maps(test.inputs)
    both = time.perf_counter() - began
    return {
        "probs": logits_N_C_H_W.softmax(1).movedim(1, -1).float().cpu().numpy(),
        "log density": maps.log_density_N_H_W.cpu().numpy(),
        "temperature": np.array(model.temperature),
        "seconds": np.array([forward, both]),
    }


def _train(settings: Mapping[str, Any], module: Any, labelled: Any, seed: int) -> None:
    """Adam on the cross-entropy of all labelled pixels, in batches of pictures; the learning rate rises and falls."""
    import torch

    from natsel.models import inputs_of

    inputs_N = inputs_of(module, labelled.inputs)
    labels_N_H_W = torch.as_tensor(labelled.labels, device=inputs_N.device)
    batch, epochs = settings["batch"], settings["epochs"]
    optimiser = torch.optim.Adam(module.parameters(), settings["learning_rate"])
    steps = epochs * -(-len(inputs_N) // batch)
    rate = torch.optim.lr_scheduler.OneCycleLR(optimiser, settings["learning_rate"], total_steps=steps)
    order = torch.Generator().manual_seed(seed)
    module.train()
    for _ in range(epochs):
        for positions_B in torch.split(torch.randperm(len(inputs_N), generator=order), batch):
            optimiser.zero_grad()
            logits_B_C_H_W = module(inputs_N[positions_B])
            loss = torch.nn.functional.cross_entropy(logits_B_C_H_W, labels_N_H_W[positions_B], ignore_index=-1)
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            rate.step()


def _measured(settings: Mapping[str, Any], members: list[Arrays]) -> dict[str, Any]:
    """All numbers from the outputs of the networks."""
    from scipy.special import entr
    from scipy.stats import spearmanr

    from natsel.evaluation import auroc, mean_iou

    test = _test_scenes(settings)
    known, unknown = test.labels >= 0, test.masks["unknown"]
    truth = entr(test.masks["label_probs"]).sum(-1)
    ambiguous, clear = known & (truth > _AMBIGUOUS), known & (truth <= _AMBIGUOUS)
    sides = {"unknown": (known, unknown), "ambiguous": (clear, ambiguous), "apart": (ambiguous, unknown)}
    predicted = members[0]["probs"].argmax(-1)
    scores = _scores(members)
    groups = {"clear": clear, "ambiguous": ambiguous, "unknown": unknown}
    forward, both = members[0]["seconds"].tolist()
    return {
        "accuracy": float((predicted == test.labels)[known].mean()),
        "mean_iou": mean_iou(predicted, test.labels, test.n_classes, ignored=-1),
        "members": len(members),
        "temperature": float(members[0]["temperature"]),
        "pixels": {name: int(group.sum()) for name, group in groups.items()},
        "auroc": {
            score: {task: auroc(values[low], values[high]) for task, (low, high) in sides.items()}
            for score, values in scores.items()
        },
        "spearman": {score: float(spearmanr(values[known], truth[known])[0]) for score, values in scores.items()},
        "patches": {score: _patches(settings, test, predicted, values) for score, values in scores.items()},
        "seconds": {"forward": forward, "forward and density": both},
        "quantiles": {
            score: {
                name: np.quantile(scores[score][group], np.linspace(0, 1, 41)).tolist()
                for name, group in groups.items()
            }
            for score in (DENSITY, ENTROPY)
        },
    }


def _scores(members: list[Arrays]) -> Arrays:
    """All scores of the test pixels, larger where less is known."""
    from scipy.special import entr

    first = members[0]
    each = [entr(member["probs"].astype(np.float64)).sum(-1) for member in members]
    found = {DENSITY: -first["log density"], ENTROPY: each[0]}
    if len(members) > 1:
        total = entr(np.mean([member["probs"] for member in members], axis=0, dtype=np.float64)).sum(-1)
        found |= {ENSEMBLE: total, INFORMATION: total - np.mean(each, axis=0)}
    return found


def _patches(settings: Mapping[str, Any], test: Any, predicted: Array, values: Array) -> dict[str, list[float]]:
    """The three shares at equal shares of uncertain patches, between which straight lines are drawn."""
    from natsel.evaluation import patch_sweep

    # An unknown pixel has a label that is never predicted: whatever is said about it is wrong.
    labels = np.where(test.masks["unknown"], test.n_classes, test.labels)
    thresholds = np.unique(np.quantile(values[labels >= 0], np.linspace(0, 1, 101))).tolist()
    swept = patch_sweep(predicted, labels, values, settings["window"], thresholds, ignored=-1)
    uncertain = [one.accurate_uncertain + one.inaccurate_uncertain for one in swept]
    certain = [one.accurate_certain + one.inaccurate_certain for one in swept]
    share = np.array(uncertain) / (np.array(uncertain) + np.array(certain))
    found: dict[str, list[float]] = {}
    for name in PATCHES:
        heights = np.array([getattr(one, name) for one in swept])
        kept = np.isfinite(heights)
        order = np.argsort(share[kept], kind="stable")
        found[name] = np.interp(_SHARES, share[kept][order], heights[kept][order]).tolist()
    return found


def claims(findings: Mapping[str, Any]) -> list[ClaimVerdict]:
    """What was published of densities of pixels, and what the two numbers are for, judged by the test scenes."""
    auroc, spearman = findings["auroc"], findings["spearman"]

    def both(task: str) -> str:
        return f"AUROC {auroc[DENSITY][task]:.4f} by density, {auroc[ENTROPY][task]:.4f} by entropy"

    verdicts = [
        ClaimVerdict(
            "SEG 1",
            "density tells unknown pixels from known ones better than entropy does",
            auroc[DENSITY]["unknown"] > auroc[ENTROPY]["unknown"],
            both("unknown"),
        ),
        ClaimVerdict(
            "SEG 2",
            "entropy tells ambiguous pixels from clear ones better than density does",
            auroc[ENTROPY]["ambiguous"] > auroc[DENSITY]["ambiguous"],
            both("ambiguous"),
        ),
        ClaimVerdict(
            "SEG 3",
            "density tells unknown pixels from ambiguous ones better than entropy does",
            auroc[DENSITY]["apart"] > auroc[ENTROPY]["apart"],
            both("apart"),
        ),
        ClaimVerdict(
            "SEG 4",
            "over known pixels entropy follows the true entropy of the label more closely than density does",
            spearman[ENTROPY] > max(0.0, spearman[DENSITY]),
            f"Spearman {spearman[ENTROPY]:.3f} by entropy, {spearman[DENSITY]:.3f} by density",
        ),
    ]
    others = [score for score in findings["patches"] if score != DENSITY]
    for name, words in PATCHES.items():
        own = np.array(findings["patches"][DENSITY][name])
        best = np.max([findings["patches"][score][name] for score in others], axis=0)
        above = int((own >= best).sum())
        means = [f"{score} {np.mean(findings['patches'][score][name]):.3f}" for score in (DENSITY, *others)]
        verdicts.append(
            ClaimVerdict(
                "SEG 5",
                f"{words} is highest by density at every share of uncertain patches",
                above == len(own),
                f"at {above} of {len(own)} shares; means {', '.join(means)}",
            )
        )
    return verdicts


def sections(findings: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Tables and charts: AUROC and rank correlations, patches over shares, and how both scores are distributed."""
    scores = list(findings["auroc"])
    head = ["score", *(f"{words}, AUROC" for words in TASKS.values()), "Spearman with the true entropy"]
    cells = [
        [
            score,
            *(f"{findings['auroc'][score][task]:.4f}" for task in TASKS),
            f"{findings['spearman'][score]:.3f}",
        ]
        for score in scores
    ]
    pixels = ", ".join(f"{count:,} {name}" for name, count in findings["pixels"].items())
    seconds = findings["seconds"]
    words = (
        f"<p>Accuracy on known pixels {findings['accuracy']:.3f}, mean IoU {findings['mean_iou']:.3f}. Test scenes:"
        f" {seconds['forward']:.2f} s for a forward pass, {seconds['forward and density']:.2f} s with densities.</p>"
    )
    body = f'{words}<div class="card">{table(head, cells, f"Test pixels: {pixels}")}</div>'
    parts = [("pixels", "Pixels", body)]
    drawings = []
    for name, title in PATCHES.items():
        lines = {
            score: list(zip(_SHARES, findings["patches"][score][name], strict=True)) for score in findings["patches"]
        }
        drawings.append(line_chart(lines, "share of patches that are uncertain", title))
    parts.append(("patches", "Patches", "".join(drawings)))
    shares = np.linspace(0, 1, 41).tolist()
    drawings = [
        line_chart(
            {name: list(zip(values, shares, strict=True)) for name, values in findings["quantiles"][score].items()},
            "−log density" if score == DENSITY else "entropy in nats",
            "share of pixels below",
        )
        for score in (DENSITY, ENTROPY)
    ]
    parts.append(("distributions", "Clear, ambiguous and unknown pixels", "".join(drawings)))
    published = table(
        ["Pascal VOC 2012, DeepLab-v3+", "softmax", "dropout, 5 passes", "ensemble of 3", "DDU"],
        [
            ["mean IoU in %", "78.53", "78.61", "78.47", "78.53"],
            ["milliseconds per picture", "275.5", "1576.8", "875.9", "263.8"],
        ],
        "Published (Mukhoti et al. 2023). The three shares of patches are published as a figure: DDU is highest in all",
    )
    parts.append(("published", "Published", f'<div class="card">{published}</div>'))
    return parts
