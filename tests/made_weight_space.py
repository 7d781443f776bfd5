"""Beliefs in weight space for tests: those of the golden cases, and small random ones with their dense matrices."""

from typing import Any

import torch
from torch import Tensor

from natsel.beliefs import Belief, FisherFactors, FisherRows, GaussianFeatures, Targets
from natsel.information.weights.precision import Dense, Diagonal, Isotropic, Kronecker, LowRank, Precision
from natsel.objectives import Context, Objective, read
from natsel.objectives.readings.weights.fisher_state import weight_space


def tensor(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def golden_belief(inputs: dict[str, Any], name: str) -> FisherFactors:
    """The points `features_NAME_…` of a golden case, with the precision of its training set."""
    features = {
        part: tensor(v) for key, v in inputs.items() for part in ("train", "pool", "eval") if f"_{part}_" in key
    }
    width = next(len(v[0]) for v in features.values() if len(v))
    features = {part: values.view(-1, width) for part, values in features.items()}
    kind = inputs["likelihood"]

    def believe(part: str, precision: Any) -> FisherFactors:
        features_N_D = features[part]
        if kind == "gaussian":
            return FisherFactors.gaussian(features_N_D, inputs["noise_variance"], precision=precision)
        if kind == "bernoulli":
            probs_N = (features_N_D @ tensor(inputs["weight_D"])).sigmoid()
            return FisherFactors.bernoulli(features_N_D, probs_N, precision=precision)
        return FisherFactors.categorical(
            features_N_D, (features_N_D @ tensor(inputs["weight_C_D"]).T).softmax(1), precision=precision
        )

    prior = inputs["prior_precision"]
    if len(features.get("train", ())) == 0:
        return believe(name, prior)
    train = believe("train", 1.0).factors
    precision = train.fisher() + prior * torch.eye(train.n_weights, dtype=torch.float64)
    return believe(name, Dense(precision))


def state(objective: Objective, belief: Belief, targets: Belief | Targets | None = None) -> Any:
    about = None if targets is None else Targets.of(targets)
    return read(objective, belief, Context(about, None, torch.Generator().manual_seed(0)))


def random_belief(kind: str, precision: str = "dense", seed: int = 0, points: int = 7, **shape: int) -> Belief:
    """Softmax, gaussian, row (gradients under labels), rows (FisherRows) or features (GaussianFeatures)."""
    classes, width = shape.get("classes", 3), shape.get("width", 4)
    generator = torch.Generator().manual_seed(100 + seed)
    weights = classes * width if kind in ("softmax", "row", "rows") else width
    held = random_precision(precision, classes if kind in ("softmax", "row") else 1, weights, shape.get("seeded", 0))
    features_N_D = torch.randn(points, width, generator=generator, dtype=torch.float64)
    probs_N_C = (2 * torch.randn(points, classes, generator=generator, dtype=torch.float64)).softmax(1)
    if kind == "features":
        return GaussianFeatures(features_N_D, noise=0.3 + probs_N_C[:, 0])
    if kind == "rows":
        rows = torch.randn(points, shape.get("rows", 2), weights, generator=generator, dtype=torch.float64)
        return FisherRows(rows, precision=held)
    if kind == "gaussian":
        return FisherFactors.gaussian(features_N_D, 0.3 + probs_N_C[:, 0], precision=held)
    belief = FisherFactors.categorical(features_N_D, probs_N_C, precision=held)
    return belief.labelled("sampled", seed) if kind == "row" else belief


def random_precision(name: str, outputs: int, weights: int, seed: int = 0) -> Precision:
    generator = torch.Generator().manual_seed(seed)

    def spd(size: int) -> Tensor:
        root = torch.randn(size, size + 2, generator=generator, dtype=torch.float64)
        return root @ root.T / size + 0.3 * torch.eye(size, dtype=torch.float64)

    match name:
        case "isotropic":
            return Isotropic(0.4)
        case "diagonal":
            return Diagonal(spd(weights).diagonal())
        case "dense":
            return Dense(spd(weights))
        case "kronecker":
            return Kronecker(spd(outputs), spd(weights // outputs))
        case "low-rank":
            vectors = torch.linalg.qr(torch.randn(weights, 2, generator=generator, dtype=torch.float64)).Q.T
            return LowRank(vectors, [2.0, 0.5], 0.4)
    raise AssertionError(name)


def dense(belief: Belief) -> tuple[Tensor, Tensor]:
    """F of every point as [N, P, P], and H: what nothing but tests may hold."""
    factors, precision = weight_space(belief)
    rows_N_R_P = factors.explicit(slice(None))
    return rows_N_R_P.mT @ rows_N_R_P, precision.dense(factors.n_weights)
