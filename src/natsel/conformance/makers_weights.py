"""Small pools in weight space. Their precision is the same for every order of weights, as orders may not matter."""

import numpy as np

Arrays = dict[str, np.ndarray]


def exchangeable(weights: int) -> np.ndarray:
    return 0.8 * np.eye(weights) + 0.05 * np.ones((weights, weights))


def factors(rng: np.random.Generator, points: int, draws: int, classes: int) -> Arrays:
    logits_N_C = 1.5 * rng.normal(size=(points, classes))
    probs_N_C = np.exp(logits_N_C - logits_N_C.max(1, keepdims=True))
    return {
        "features_N_D": rng.normal(size=(points, draws)) * rng.uniform(0.2, 2.0, size=(points, 1)),
        "outputs_N_C": probs_N_C / probs_N_C.sum(1, keepdims=True),
        "precision": exchangeable(draws * classes),
    }


def factors_labels(rng: np.random.Generator, arrays: Arrays) -> np.ndarray:
    uniform_N_1 = rng.uniform(size=(len(arrays["outputs_N_C"]), 1))
    below_N = (arrays["outputs_N_C"].cumsum(1) <= uniform_N_1).sum(1)
    return np.minimum(below_N, arrays["outputs_N_C"].shape[1] - 1)


def factors_certain(arrays: Arrays) -> Arrays:
    outputs_N_C = arrays["outputs_N_C"].copy()
    outputs_N_C[0] = np.arange(outputs_N_C.shape[1]) == 0
    if len(outputs_N_C) > 3 and outputs_N_C.shape[1] > 1:
        outputs_N_C[2, -1] = 0.0  # a class that is not possible
        outputs_N_C[2] /= outputs_N_C[2].sum()
    return {**arrays, "outputs_N_C": outputs_N_C}


def rows(rng: np.random.Generator, points: int, draws: int, classes: int) -> Arrays:
    """One row a point, which is what objectives of similarity ask for."""
    return {
        "rows_N_R_P": rng.normal(size=(points, 1, draws)) * rng.uniform(0.2, 2.0, size=(points, 1, 1)),
        "precision": exchangeable(draws),
    }


def rows_labels(rng: np.random.Generator, arrays: Arrays) -> np.ndarray:
    return rng.normal(size=len(arrays["rows_N_R_P"]))


def rows_certain(arrays: Arrays) -> Arrays:
    rows_N_R_P = arrays["rows_N_R_P"].copy()
    rows_N_R_P[0] = 0.0
    return {**arrays, "rows_N_R_P": rows_N_R_P}
