"""Inputs from elsewhere: which scores of a network tell them from those it was trained for, and which tell ambiguity.

    networks of one architecture are trained on the inside set, `members` for each trial; for every score s and set A
        AUROC = P(s(input of A) > s(test input)) + ½ P(equal)
    of the first member      entropy, energy, largest logit, densities of features (per class, shared, neighbours),
                             draws of the last layer (Laplace)
    of all members           entropy and mutual information of the ensemble
    of networks of their own dropout; random features (as SNGP); centroids (as DUQ): in the first `baselines` trials

Dirty-MNIST knows which test digits are ambiguous, CIFAR-10H how people voted on each test picture: what a score says is
compared with that. The outputs of every trained network are kept in the folder.
docs/theory/deterministic-uncertainty.md, 5 and 9; Mukhoti et al. 2023.
"""

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from natsel.data.outside_sets import outside_sets
from natsel.experiments.report.charts import line_chart
from natsel.experiments.report.page import table
from natsel.experiments.results.claims import ClaimVerdict
from natsel.experiments.studies.picture_training import picture_training
from natsel.experiments.studies.units import Units
from natsel.seeds import derive

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]

ENTROPY, DENSITY, ENSEMBLE = "softmax entropy", "density", "ensemble entropy"
_PUBLISHED = {
    "dirty-mnist": (
        "Published, 50 epochs (Mukhoti et al. 2023): AUROC in % against Fashion-MNIST",
        ["network", ENTROPY, DENSITY],
        [["LeNet", "84.23", "71.41"], ["VGG-16", "84.04", "89.01"], ["ResNet-18, spectral norm", "83.01", "99.91"]],
    ),
    "cifar10": (
        "Published, 350 epochs, 25 trainings (Mukhoti et al. 2023): AUROC in % against SVHN and CIFAR-100",
        ["network", "score", "accuracy", "SVHN", "CIFAR-100"],
        [
            ["WRN-28-10", ENTROPY, "95.98", "94.44", "89.39"],
            ["", "energy", "95.98", "94.56", "88.89"],
            ["", "density, spectral norm", "95.97", "97.86", "91.34"],
            ["", "5-ensemble entropy", "96.59", "97.73", "92.13"],
        ],
    ),
}


def run(settings: Mapping[str, Any], units: Units, device: str | None = None) -> dict[str, Any]:
    """AUROC of every score against every set, for each network and trial."""
    known = outside_sets(settings["set"])
    for stranger in (name for name in settings["outside"] if name not in known):
        raise ValueError(f"outside: there is no {stranger!r} for {settings['set']}; there are {', '.join(known)}")
    rows = []
    for network in settings["networks"]:
        for trial in range(settings["trials"]):
            compare = partial(_compared, settings, network, trial, device, units)
            rows.append(units.measured(f"{network}-{trial}", compare))
            against = ", ".join(f"{name} {rows[-1]['auroc'][DENSITY][name]:.3f}" for name in settings["outside"])
            units.tell(f"{network}, trial {trial}: accuracy {rows[-1]['accuracy']:.3f}; density against {against}")
    return {"rows": rows, "set": settings["set"], "members": settings["members"]}


def _compared(
    settings: Mapping[str, Any], network: str, trial: int, device: str | None, units: Units
) -> dict[str, Any]:
    """One trial of one network: all scores against all sets."""
    from natsel.evaluation import auroc, calibration_error

    names = [f"member-{number}" for number in range(settings["members"])]
    names += ["dropout", "random-features", "centroids"] if trial < settings["baselines"] else []
    outputs = {}
    for name in names:
        trained = partial(_measured, settings, network, name, derive(settings["seed"], network, trial, name), device)
        says = f"{network}, trial {trial}: training {name}"
        outputs[name] = units.arrays(f"{network}-{trial}-{name}", trained, says)
    members = [outputs[name] for name in names if name.startswith("member")]
    sets = ["test", *settings["outside"]]
    scores = {which: _scores(which, members, outputs) for which in sets}
    first, test = members[0], scores["test"]
    probs_N_C = _softmax(first["test/logits"] / float(first["temperature"]))
    row: dict[str, Any] = {
        "network": network,
        "trial": trial,
        "accuracy": float(first["accuracy"]),
        "ensemble accuracy": float((_mean_probs(members, "test").argmax(1) == first["labels"]).mean()),
        "ece": float(calibration_error(probs_N_C, first["labels"], "ece")),
        "temperature": float(first["temperature"]),
        "seconds": {name: float(first[f"seconds/{name}"]) for name in ("training", "forward", "fit", "density")},
        "auroc": {
            score: {which: auroc(test[score], scores[which][score]) for which in settings["outside"]} for score in test
        },
    }
    if "ambiguous" in first:
        ambiguous_N = first["ambiguous"].astype(bool)
        row["ambiguous"] = {name: auroc(each_N[~ambiguous_N], each_N[ambiguous_N]) for name, each_N in test.items()}
        row["clean"] = {
            score: {which: auroc(test[score][~ambiguous_N], scores[which][score]) for which in settings["outside"]}
            for score in test
        }
    if "human entropy" in first:
        row["human"] = {name: _rank_correlation(each_N, first["human entropy"]) for name, each_N in test.items()}
    row["quantiles"] = {
        which: {name: np.quantile(scores[which][name], np.linspace(0, 1, 41)).tolist() for name in (ENTROPY, DENSITY)}
        for which in sets
    }
    return row


def _measured(settings: Mapping[str, Any], network: str, name: str, seed: int, device: str | None) -> Arrays:
    """Train one network, and what it says about the test set and all sets from outside."""
    import torch

    from natsel.data import load, outside_pictures, split
    from natsel.models import DDU, Dropout, LastLayer, NeighbourDensity
    from natsel.models.density.densities import DensityEstimator, GaussianDensity
    from natsel.models.density.layer_features import features_and_logits

    data = load(settings["set"])
    count, held_out = settings["train"] or len(data.train), settings["validation"]
    count = min(count, len(data.train) - held_out)
    train, validation = split(data.train, (count, held_out), seed=derive(settings["seed"], "split"))
    test = split(data.test, (min(settings["test"], len(data.test)),), seed=derive(settings["seed"], "test"))[0]
    sets = {"test": test.inputs} | {
        which: outside_pictures(data, which, min(settings["test"], 10_000)) for which in settings["outside"]
    }
    began = time.perf_counter()
    made = partial(_network, settings, network, name, data)
    # What centroids see is no input of a linear layer, so that it is named: the output of the last layer but one.
    features = str(len(made()) - 2) if name == "centroids" else None
    training = picture_training(settings, settings["set"] == "cifar10", device)
    model = DDU(made, features, training=training, device=device)
    model.fit(_bare(train), _bare(validation), seed=seed)
    found: Arrays = {"seconds/training": _array(time.perf_counter() - began)}
    module, on = model.module, model.device
    assert module is not None
    belief = model.believe(test.inputs)
    found |= {"labels": np.asarray(test.labels), "temperature": _array(model.temperature)}
    found["accuracy"] = _array(float((belief.predict().cpu().numpy() == found["labels"]).mean()))
    if "ambiguous" in test.masks:
        found["ambiguous"] = np.asarray(test.masks["ambiguous"])
    if settings["set"] == "cifar10" and name == "member-0":
        found |= _human(test, data)
    if name == "member-0":
        features_T_D, _ = features_and_logits(module, train.inputs, None, on)
        labels_T = torch.as_tensor(np.asarray(train.labels)).to(on)
        fits: dict[str, DensityEstimator] = {
            DENSITY: GaussianDensity(),
            "shared covariance": GaussianDensity("shared"),
            "neighbours": NeighbourDensity(),
        }
        classes = data.train.n_classes
        densities = {key: fit.fit(features_T_D, labels_T, classes) for key, fit in fits.items()}
        densities[DENSITY].log_density(features_T_D[:1000])  # the first call of all is slower
        _wait(on)
        began = time.perf_counter()
        GaussianDensity().fit(features_T_D, labels_T, classes)
        _wait(on)
        found["seconds/fit"] = _array(time.perf_counter() - began)
    if name in ("member-0", "random-features"):
        layer = LastLayer.around(module, _bare(train), structure="kronecker", device=on)
    for which, inputs in sets.items():
        if name == "dropout":
            draws = Dropout.around(module, 10, seed=seed, device=on).believe(inputs)
            found |= _of_draws(which, name, draws)
            continue
        if name == "random-features":
            found |= _of_draws(which, name, layer.draws(inputs, 50))
            continue
        _wait(on)
        began = time.perf_counter()
        features_N_D, logits_N_C = features_and_logits(module, inputs, model.features, on)
        _wait(on)
        seconds = time.perf_counter() - began
        found[f"{which}/logits"] = logits_N_C.float().cpu().numpy()
        if name == "member-0":
            for key, density in densities.items():
                began = time.perf_counter()
                found[f"{which}/{key}"] = density.log_density(features_N_D).cpu().numpy()
                if which == "test" and key == DENSITY:
                    found |= {
                        "seconds/forward": _array(seconds),
                        "seconds/density": _array(time.perf_counter() - began),
                    }
            found |= _of_draws(which, "last layer", layer.draws(inputs, 50))
    return found


def _of_draws(which: str, name: str, belief: Any) -> Arrays:
    """Entropy and mutual information of draws."""
    from natsel.choose import score

    return {
        f"{which}/{name} entropy": score("entropy", belief).cpu().numpy(),
        f"{which}/{name} information": score("bald", belief).cpu().numpy(),
    }


def _scores(which: str, members: list[Arrays], outputs: Mapping[str, Arrays]) -> Arrays:
    """All scores of one set, larger for what is less familiar."""
    first = members[0]
    logits_N_C = first[f"{which}/logits"].astype(np.float64)
    log_sum_N = np.logaddexp.reduce(logits_N_C, axis=1)
    mean_N_C = _mean_probs(members, which)
    each_M_N = np.stack([_entropy(_softmax(_scaled(member, which))) for member in members])
    found = {
        ENTROPY: each_M_N[0],
        "energy": -log_sum_N,
        "largest logit": -logits_N_C.max(1),
        DENSITY: -first[f"{which}/{DENSITY}"],
        "shared covariance": -first[f"{which}/shared covariance"],
        "neighbours": -first[f"{which}/neighbours"],
        "last layer entropy": first[f"{which}/last layer entropy"],
        "last layer information": first[f"{which}/last layer information"],
    }
    if len(members) > 1:
        total_N = _entropy(mean_N_C)
        found |= {ENSEMBLE: total_N, "ensemble information": total_N - each_M_N.mean(0)}
    for name in ("dropout", "random-features"):
        if name in outputs:
            found |= {key: outputs[name][f"{which}/{key}"] for key in (f"{name} entropy", f"{name} information")}
    if "centroids" in outputs:
        found["centroids"] = -outputs["centroids"][f"{which}/logits"].max(1)
    return found


def claims(findings: Mapping[str, Any]) -> list[ClaimVerdict]:
    """What was published of such networks, judged by means over trials."""
    verdicts = []
    for network in dict.fromkeys(row["network"] for row in findings["rows"]):
        rows = [row for row in findings["rows"] if row["network"] == network]
        verdicts += (_claims_dirty if findings["set"] == "dirty-mnist" else _claims_photographs)(
            network, rows, findings
        )
    return verdicts


def _claims_dirty(network: str, rows: list[dict[str, Any]], findings: Mapping[str, Any]) -> list[ClaimVerdict]:
    density, entropy = _mean(rows, "auroc", DENSITY, "fashion"), _mean(rows, "auroc", ENTROPY, "fashion")
    told, untold = (float(np.mean([row["ambiguous"][name] for row in rows])) for name in (ENTROPY, DENSITY))
    words = f"{density:.4f} and {entropy:.4f}, means of {len(rows)} trials"
    return [
        ClaimVerdict(
            "D1", f"{network}: density tells Fashion-MNIST from digits, AUROC 0.99 or more", density >= 0.99, words
        ),
        ClaimVerdict("D2", f"{network}: softmax entropy does not, AUROC below 0.90", entropy < 0.90, words),
        ClaimVerdict(
            "D3",
            f"{network}: entropy tells ambiguous digits from clear ones better than density does",
            told > untold,
            f"AUROC {told:.4f} by entropy, {untold:.4f} by density",
        ),
    ]


def _claims_photographs(network: str, rows: list[dict[str, Any]], findings: Mapping[str, Any]) -> list[ClaimVerdict]:
    from natsel.data import outside_sets

    distance = outside_sets(findings["set"])
    far = [name for name in rows[0]["auroc"][DENSITY] if distance[name] == "far"]
    verdicts = []
    if findings["members"] > 1 and far:
        density, ensemble = (
            float(np.mean([_mean(rows, "auroc", score, name) for name in far])) for score in (DENSITY, ENSEMBLE)
        )
        seconds = [row["seconds"] for row in rows]
        one = float(np.median([each["forward"] + each["density"] for each in seconds]))
        all_of_them = findings["members"] * float(np.median([each["forward"] for each in seconds]))
        verdicts += [
            ClaimVerdict(
                "C1",
                f"{network}: over far sets density is not below the entropy of {findings['members']} members",
                density >= ensemble,
                f"mean AUROC {density:.4f} and {ensemble:.4f} over {', '.join(far)}",
            ),
            ClaimVerdict(
                "C2",
                f"{network}: density costs 1.25 forward passes or less, where {findings['members']} members cost"
                f" {findings['members']}",
                one <= 1.25 * all_of_them / findings["members"],
                f"{one:.3f} s against {all_of_them:.3f} s for the test set, {one / all_of_them:.3f} of it; fit of the"
                f" density {np.median([each['fit'] for each in seconds]):.3f} s",
            ),
        ]
    if "human" in rows[0]:
        by_entropy, by_density = (rows[0]["human"][name] for name in (ENTROPY, DENSITY))
        low = min(row["human"][ENTROPY]["low"] for row in rows)
        verdicts.append(
            ClaimVerdict(
                "C3",
                f"{network}: where people disagree, the softmax is less sure (Spearman above 0)",
                low > 0,
                f"entropy {_interval(by_entropy)}, density {_interval(by_density)}, first trial",
            )
        )
    return verdicts


def _interval(found: Mapping[str, float]) -> str:
    return f"{found['rho']:.3f} ({found['low']:.3f} to {found['high']:.3f})"


def sections(findings: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Tables of AUROC beside the published ones, and how the two scores are distributed over each set."""
    parts = []
    for network in dict.fromkeys(row["network"] for row in findings["rows"]):
        rows = [row for row in findings["rows"] if row["network"] == network]
        scores, outside = list(rows[0]["auroc"]), list(rows[0]["auroc"][DENSITY])
        head = ["score", *outside]
        cells = [[score, *(_cell(rows, "auroc", score, name) for name in outside)] for score in scores]
        if "ambiguous" in rows[0]:
            head.append("ambiguous digits")
            for line, score in zip(cells, scores, strict=True):
                found = [row["ambiguous"][score] for row in rows if score in row["ambiguous"]]
                line.append(f"{100 * np.mean(found):.2f}")
        body = table(head, cells, f"AUROC in %, {len(rows)} trials (standard errors)")
        accuracy = " ".join(f"{100 * row['accuracy']:.2f} %" for row in rows)
        ece = " ".join(f"{100 * row['ece']:.2f} %" for row in rows)
        words = f"<p>Accuracy {accuracy}; ECE after temperature scaling {ece}.</p>"
        lines = {
            name: [(value, share) for value, share in zip(values[DENSITY], np.linspace(0, 1, 41).tolist(), strict=True)]
            for name, values in rows[0]["quantiles"].items()
        }
        drawing = line_chart(lines, "−log density", "share of inputs below")
        parts.append((f"auroc-{network}", network, f'{words}<div class="card">{body}</div>{drawing}'))
    if findings["set"] in _PUBLISHED:
        caption, head, cells = _PUBLISHED[findings["set"]]
        parts.append(("published", "Published", f'<div class="card">{table(head, cells, caption)}</div>'))
    return parts


def _network(settings: Mapping[str, Any], network: str, name: str, data: Any) -> Any:
    """The architecture, for one kind of output."""
    from natsel import models
    from natsel.models.density.output_layers import CentroidOutputs, RandomFeatureOutputs, with_outputs

    shape, classes = data.train.inputs.shape[1:], data.train.n_classes
    options: dict[str, Any] = {
        "in_channels": 1 if len(shape) == 2 else shape[2],
        "shape": shape[:2],
        "classes": classes,
    }
    kind = network.removesuffix("-spectral")
    spectral = float(settings["spectral"]) if kind != network else None
    if kind in ("resnet18", "resnet50", "wide-resnet"):
        options |= {"spectral": spectral, "sensitive": spectral is not None}
        options |= {"dropout": 0.3 if name == "dropout" else 0.0}
        options |= {"widening": settings["width"]} if kind == "wide-resnet" else {"width": settings["width"]}
    made = getattr(models, kind.replace("-", "_"))(**options)
    width = made[-1].in_features
    if name == "random-features":
        return with_outputs(made, RandomFeatureOutputs(width, classes))
    return with_outputs(made, CentroidOutputs(width, classes)) if name == "centroids" else made


def _human(test: Any, data: Any) -> Arrays:
    """The entropy of what people said about the test pictures, in the order of the test examples."""
    from natsel.data import human_label_probs

    probs_N_C = human_label_probs("cifar10", "test")
    places = {picture.tobytes(): number for number, picture in enumerate(np.asarray(data.test.inputs))}
    order = [places[picture.tobytes()] for picture in np.asarray(test.inputs)]
    return {"human entropy": _entropy(probs_N_C[order])}


def _rank_correlation(score_N: Array, human_N: Array) -> dict[str, float]:
    """Spearman's correlation with what people say, and a 95 % interval by 500 resamples."""
    from scipy.stats import rankdata

    ranks = np.stack([rankdata(score_N), rankdata(human_N)])
    generator = np.random.default_rng(0)
    draws = [np.corrcoef(ranks[:, generator.integers(0, len(score_N), len(score_N))])[0, 1] for _ in range(500)]
    low, high = np.quantile(draws, [0.025, 0.975])
    return {"rho": float(np.corrcoef(ranks)[0, 1]), "low": float(low), "high": float(high)}


def _bare(examples: Any) -> Any:
    """Examples without their masks, which no model sees."""
    from dataclasses import replace

    return replace(examples, masks={})


def _wait(device: Any) -> None:
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _array(value: float) -> Array:
    return np.array(value)


def _scaled(member: Arrays, which: str) -> Array:
    scaled: Array = member[f"{which}/logits"].astype(np.float64) / float(member["temperature"])
    return scaled


def _softmax(logits_N_C: Array) -> Array:
    exponent_N_C = np.exp(logits_N_C - logits_N_C.max(1, keepdims=True))
    probs_N_C: Array = exponent_N_C / exponent_N_C.sum(1, keepdims=True)
    return probs_N_C


def _mean_probs(members: list[Arrays], which: str) -> Array:
    probs: Array = np.mean([_softmax(_scaled(member, which)) for member in members], axis=0)
    return probs


def _entropy(probs_N_C: Array) -> Array:
    from scipy.special import entr

    found: Array = entr(probs_N_C).sum(1)
    return found


def _mean(rows: list[dict[str, Any]], kind: str, score: str, name: str) -> float:
    return float(np.mean([row[kind][score][name] for row in rows]))


def _cell(rows: list[dict[str, Any]], kind: str, score: str, name: str) -> str:
    values = 100 * np.array([row[kind][score][name] for row in rows if score in row[kind]])  # baselines: fewer trials
    error = f" ± {values.std(ddof=1) / len(values) ** 0.5:.2f}" if len(values) > 1 else ""
    return f"{values.mean():.2f}{error}"
