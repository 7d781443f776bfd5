"""Gaussian discriminant analysis: how long fit and scores take beside the bare matrix products they need.

    fit       moments of T × D features and the factors of C covariances
              bare: the sums of each class, a [C, T] × [T, D] product, and zᵀz of the points of each class, in float64
    scores    log densities of N points
              bare: one [n, D] × [D, D] product per class, in float64

    fit_over_bare, scores_over_bare = seconds of natsel / seconds of the bare products (CPU seconds on a CPU)

Features are float32, as networks give them; the bare products get them in float64 and sorted by class. `scores_mib` is
the highest memory beyond the features while all N are scored.
docs/theory/deterministic-uncertainty.md, 2.
"""

from typing import Any

import torch
from torch import Tensor

from natsel.beliefs import GaussianDiscriminant
from natsel.bench.laps import device_name, timed


def measure(
    points: int = 50_000,
    features: int = 640,
    classes: int = 10,
    scored: int = 1_000_000,
    device: str = "cpu",
    repeat: int = 3,
) -> dict[str, Any]:
    """Fit to `points`, then score `scored` of them (copies, where there are fewer)."""
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("device: no CUDA device was found; leave it out for the CPU")
    generator = torch.Generator().manual_seed(0)
    features_T_D = torch.randn(points, features, generator=generator)
    labels_T = torch.randint(0, classes, (points,), generator=generator)
    features_T_D, labels_T = features_T_D.to(device), labels_T.to(device)
    clock = "seconds" if device == "cuda" else "cpu_seconds"
    fitted, density = timed(lambda run: GaussianDiscriminant.fit(features_T_D, labels_T, classes), repeat, device)
    order_T = labels_T.argsort()
    counts = torch.bincount(labels_T, minlength=classes).tolist()
    sorted_T_D, one_hot_C_T = features_T_D[order_T].double(), torch.eye(classes, dtype=torch.float64, device=device)
    one_hot_C_T = one_hot_C_T[:, labels_T[order_T]]

    def products(run: int) -> list[Tensor]:
        sums = [one_hot_C_T @ sorted_T_D]
        for own_n_D in torch.split(sorted_T_D, counts):
            sums = [own_n_D.T @ own_n_D]
        return sums

    bare, _ = timed(products, repeat, device)
    found: dict[str, Any] = {"device": device_name(device), "T": points, "D": features, "C": classes, "N": scored}
    found |= {"fit_s": fitted["seconds"], "fit_cpu_s": fitted["cpu_seconds"], "bare_fit_s": bare["seconds"]}
    found |= {"bare_fit_cpu_s": bare["cpu_seconds"], "fit_over_bare": fitted[clock] / bare[clock]}
    some_n_D = features_T_D[: min(points, 20_000)]
    few, _ = timed(lambda run: density.log_density(some_n_D), repeat, device)
    exact_n_D = some_n_D.double()

    def passes(run: int) -> None:
        for whitening_D_D in density.whitening:
            torch.mm(exact_n_D, whitening_D_D.T)

    bare, _ = timed(passes, repeat, device)
    found |= {"scores_s_per_20000": few["seconds"], "scores_over_bare": few[clock] / bare[clock]}
    many_N_D = features_T_D.repeat(-(-scored // points), 1)[:scored]
    took, log_density_N = timed(lambda run: density.log_density(many_N_D), 1, device)
    found |= {"scores_s": took["seconds"], "scores_mib": took["peak_extra_mib"]}
    return found | {"finite": bool(log_density_N.isfinite().all()), "repeat": repeat}
