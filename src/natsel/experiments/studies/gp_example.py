"""A Gaussian process on a line, in closed form: what BALD and EPIG want to know.

    k(x, x') = exp(−(x − x')² / 2ℓ²), unit noise, zero mean; sites 1, 3, …, 2M−1; targets x* ~ N(2, ¼²)
    BALD = ½ ln det(I + K),   EPIG = E_x* I[Y*; Y_1..Y_M],   by 60-point Gauss–Hermite over x*

As ℓ → 0 the sites become independent: BALD → (M/2) ln 2, which no bound holds, and EPIG → 0. A second part asks which
single point to observe after a few observations, for targets here and there.
docs/theory/epig-jepig.md, 13 and 14.
"""

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from natsel.experiments.report.charts import line_chart
from natsel.experiments.results.claims import ClaimVerdict
from natsel.experiments.studies.units import Units
from natsel.information.gaussian_predictive import epig_gaussian, jepig_gaussian

_NODES = 60
_SEEN = (-1.0, 0.0, 1.0)
"""Where the second part has observed already."""
_GRID = tuple(np.linspace(-6.0, 8.0, 141).round(6).tolist())
_CENTRES = (2.0, -3.0)
"""Where the targets of the second part lie: as in the first, and elsewhere."""
_DEVIATION = 0.25


def run(settings: Mapping[str, Any], units: Units, device: str | None = None) -> dict[str, Any]:
    """BALD and EPIG of the first M odd numbers for each length scale, and the maps of single points."""
    table = [
        {"length_scale": scale, "sites": sites, "bald": bald(scale, sites), "epig": epig(scale, sites)}
        for scale in settings["length_scales"]
        for sites in settings["sizes"]
    ]
    return {"table": table, "map": _map(float(max(settings["length_scales"])))}


def bald(scale: float, sites: int) -> float:
    """½ ln det(I + K) of the first odd numbers.

    >>> round(bald(2.0, 8), 4)
    2.4326
    """
    x_M = _odd(sites)
    return 0.5 * float(torch.logdet(_kernel(x_M, x_M, scale) + torch.eye(sites, dtype=torch.float64)))


def epig(scale: float, sites: int) -> float:
    """What the labels of the first odd numbers tell about the label of a target, on average over targets.

    >>> round(epig(2.0, 8), 5)
    0.17823
    """
    x_M = _odd(sites)
    nodes_Q, weights_Q = _targets(_CENTRES[0])
    noisy_M_M = _kernel(x_M, x_M, scale) + torch.eye(sites, dtype=torch.float64)
    # By symmetry each target in turn is the candidate and the sites are what it tells about.
    each_Q = jepig_gaussian(torch.full((len(nodes_Q),), 2.0).double(), _kernel(nodes_Q, x_M, scale), noisy_M_M)
    return float(each_Q @ weights_Q)


def claims(findings: Mapping[str, Any]) -> list[ClaimVerdict]:
    """H1, the limits, and H2, where the maps have their peaks (docs/theory/epig-jepig.md, 14)."""
    rows = findings["table"]
    least = min(row["length_scale"] for row in rows)
    short = [row for row in rows if row["length_scale"] == least]
    ratio = [row["bald"] / (row["sites"] / 2 * math.log(2)) for row in short]
    most = max(short, key=lambda row: row["sites"])
    tall = [max(row["epig"] for row in rows if row["length_scale"] == scale) for scale in _scales(rows)]
    verdicts = [
        ClaimVerdict(
            "H1",
            "BALD of M points goes to (M/2) ln 2 as the length scale goes to 0, without bound in M",
            all(abs(one - 1) < 1e-3 for one in ratio),
            f"at ℓ = {least:g} BALD is {most['bald']:.4f} nats for M = {most['sites']};"
            f" (M/2) ln 2 is {most['sites'] / 2 * math.log(2):.4f}",
        ),
        ClaimVerdict(
            "H1",
            "EPIG goes to 0 as the length scale goes to 0",
            all(after < before for before, after in pairwise(tall)) and tall[-1] < 0.01 * tall[0],
            "largest EPIG for "
            + ", ".join(f"ℓ = {scale:g}: {value:.5f}" for scale, value in zip(_scales(rows), tall, strict=True)),
        ),
    ]
    found = findings["map"]
    peaks = {name: found["x"][int(np.argmax(found[name]))] for name in ("bald", *_names())}
    far = max(abs(peaks["bald"] - seen) for seen in found["seen"])
    verdicts.append(
        ClaimVerdict(
            "H2",
            "BALD is largest far from the data",
            min(abs(peaks["bald"] - seen) for seen in found["seen"]) >= 0.9 * _farthest(found),
            f"its peak is at x = {peaks['bald']:g}, up to {far:g} away from the observations at {found['seen']}",
        )
    )
    verdicts += [
        ClaimVerdict(
            "H2",
            f"EPIG is largest where the targets are, around {centre:g}",
            abs(peaks[name] - centre) <= 2 * _DEVIATION + found["length_scale"] / 4,
            f"its peak is at x = {peaks[name]:g}",
        )
        for centre, name in zip(_CENTRES, _names(), strict=True)
    ]
    return verdicts


def sections(findings: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Charts: BALD and EPIG over the number of sites, and the maps of single points."""
    rows, found = findings["table"], findings["map"]

    def curve(name: str, scale: float) -> list[tuple[float, float]]:
        return [(row["sites"], row[name]) for row in rows if row["length_scale"] == scale]

    growing = {
        name: line_chart({f"ℓ = {scale:g}": curve(name, scale) for scale in _scales(rows)}, "sites", f"{name} (nats)")
        for name in ("bald", "epig")
    }
    maps = {name: list(zip(found["x"], found[name], strict=True)) for name in ("bald", *_names())}
    words = (
        f"<p>After observations at {', '.join(f'{one:g}' for one in found['seen'])}: what one more label would tell"
        " about the whole function (bald), and about labels at targets here and there (epig).</p>"
    )
    return [
        ("bald", "BALD of the first odd numbers", growing["bald"]),
        ("epig", "EPIG of the first odd numbers", growing["epig"]),
        ("map-bald", "Which point next: BALD", words + line_chart({"bald": maps["bald"]}, "x", "bald (nats)")),
        ("map-epig", "Which point next: EPIG", line_chart({n: maps[n] for n in _names()}, "x", "epig (nats)")),
    ]


def _map(scale: float) -> dict[str, Any]:
    """BALD and EPIG of single points after the observations, by the posterior of the process."""
    seen_D, grid_N = (torch.tensor(values, dtype=torch.float64) for values in (_SEEN, _GRID))
    noisy_D_D = _kernel(seen_D, seen_D, scale) + torch.eye(len(seen_D), dtype=torch.float64)

    def posterior(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        known = torch.linalg.solve(noisy_D_D, _kernel(seen_D, other, scale))
        left: torch.Tensor = _kernel(one, other, scale) - _kernel(one, seen_D, scale) @ known
        return left

    variance_N = 1 + posterior(grid_N, grid_N).diagonal()
    found: dict[str, Any] = {"x": list(_GRID), "seen": list(_SEEN), "length_scale": scale}
    found["bald"] = (0.5 * variance_N.log()).tolist()
    for centre, name in zip(_CENTRES, _names(), strict=True):
        nodes_Q, weights_Q = _targets(centre)
        variance_Q = 1 + posterior(nodes_Q, nodes_Q).diagonal()
        found[name] = epig_gaussian(variance_N, posterior(grid_N, nodes_Q), variance_Q, weights_Q).tolist()
    return found


def _names() -> list[str]:
    return [f"epig, targets around {centre:g}" for centre in _CENTRES]


def _scales(rows: list[dict[str, Any]]) -> list[float]:
    return sorted({row["length_scale"] for row in rows}, reverse=True)


def _farthest(found: Mapping[str, Any]) -> float:
    return float(max(min(abs(x - seen) for seen in found["seen"]) for x in found["x"]))


def _odd(count: int) -> torch.Tensor:
    return torch.arange(1, 2 * count, 2, dtype=torch.float64)


def _kernel(x_N: torch.Tensor, y_M: torch.Tensor, scale: float) -> torch.Tensor:
    return (-(x_N[:, None] - y_M).square() / (2 * scale**2)).exp()


def _targets(centre: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Nodes and weights of the targets' distribution."""
    nodes_Q, weights_Q = np.polynomial.hermite_e.hermegauss(_NODES)
    return torch.from_numpy(centre + _DEVIATION * nodes_Q), torch.from_numpy(weights_Q / weights_Q.sum())
