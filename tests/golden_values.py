"""Golden values, computed by enumeration at high precision, and small random log-probability tensors."""

import json
import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor


def golden(name: str) -> dict[str, dict[str, Any]]:
    """The cases of tests/golden/NAME.json by name; 'inf', '-inf' and 'nan' become floats."""
    text = (Path(__file__).parent / "golden" / f"{name}.json").read_text()
    return {case["name"]: _numbers(case) for case in json.loads(text)["cases"]}


def _numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_numbers(item) for item in value]
    return float(value) if value in ("inf", "-inf", "nan") else value


def logs(probabilities: Any, dtype: torch.dtype = torch.float64) -> Tensor | None:
    """The log as a tensor, taken in float64; None stays None (uniform weights)."""
    return None if probabilities is None else torch.tensor(probabilities, dtype=torch.float64).log().to(dtype)


def random_draws(
    seed: int, points: int, draws: int, classes: int, zeros: bool = True, weighted: bool = True
) -> tuple[Tensor, Tensor]:
    """(log_probs_N_K_C, log_weights_K), both normalised; with zeros: a third of the probabilities are 0, some
    classes no draw allows, and (from 3 draws on) one draw has weight 0."""
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(points, draws, classes, generator=generator, dtype=torch.float64)
    log_weights_K = torch.randn(draws, generator=generator, dtype=torch.float64) * (2.0 if weighted else 0.0)
    if zeros:
        forbidden = torch.rand(points, draws, classes, generator=generator) < 0.3
        forbidden |= torch.rand(points, 1, classes, generator=generator) < 0.1
        forbidden[..., 0] &= ~forbidden.all(-1)
        logits = logits.masked_fill(forbidden, -math.inf)
        if draws >= 3 and weighted:
            log_weights_K[seed % draws] = -math.inf
    return logits.log_softmax(-1), log_weights_K.log_softmax(0)
