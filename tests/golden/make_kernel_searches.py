"""Picks of bmdal_reg 3.0.2 on small inputs, as golden data for `tests/search/test_reference_picks.py`.

    PYTHON tests/golden/make_kernel_searches.py > tests/golden/kernel-searches.json

PYTHON has torch and bmdal_reg (`natsel bench --setup DIR` makes one). All in float64. For every input, every search of
that package and both modes (points held or not) the file has

    picks      in the order in which they were made
    values     the score that the search compared, of each pick at its turn
    gaps       by how far that was above the best score of a point with other features: 0 is a tie

Where that package departs from what is published, the file has what is needed to compare all the same:

* maxdiag comes with the worst pick first; here the best is first.
* bait adds 1e-8 to the denominator of its scores. `bait` leaves this out, `bait_as_is` has it.
* bait changes its scores by differences and loses their digits where noise is small: forward after some picks,
  backward sooner. `exact` are the picks of the same search worked out with 50 digits, and `true` says whether the
  package found those. The evaluation set is the pool and the points held, in both modes.
* kmeanspp is random, and its first pick is uniform where no point is held. The weights it draws with are given after
  some picks; it may draw a point twice (weights of points taken are what rounding left), so these are set to 0.
"""

import contextlib
import json
import sys
from pathlib import Path
from typing import Any

import mpmath
import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[2] / "src" / "natsel" / "bench"))  # natsel itself is not needed

from peer_worker import kernel_searcher

HELD = 5
mpmath.mp.dps = 50


def inputs() -> list[dict[str, Any]]:
    """Points to choose from and points held, rounded so that the file has them exactly."""
    random = torch.Generator().manual_seed(9)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=random, dtype=torch.float64)

    cluster_X = torch.randint(5, (60 + HELD,), generator=random)
    members_X_K = normal(48 + HELD, 3) @ normal(3, 6) + 0.4 * normal(48 + HELD, 6) + 100 * normal(48 + HELD, 1)
    copied_X_D = normal(20 + HELD, 5)
    made = {
        "random": (normal(50 + HELD, 6), 0.01, 10),
        "large noise": (normal(60 + HELD, 12), 1.0, 12),
        "tiny noise": (normal(50 + HELD, 8), 1e-6, 8),
        "clusters, more picks than features": (3 * normal(5, 4)[cluster_X] + 0.2 * normal(60 + HELD, 4), 1e-4, 12),
        "every point twice": (torch.cat((copied_X_D[:20], copied_X_D)), 0.01, 10),
        "six members": ((members_X_K - members_X_K.mean(1, keepdim=True)) / 6**0.5, 0.01, 10),
    }
    return [
        {
            "name": name,
            "features_N_D": features_X_D.round(decimals=4)[:-HELD].tolist(),
            "held_T_D": features_X_D.round(decimals=4)[-HELD:].tolist(),
            "noise": noise,
            "k": k,
        }
        for name, (features_X_D, noise, k) in made.items()
    ]


def main() -> None:
    """Print the file."""
    cases = []
    for given in inputs():
        pool_N_D, held_T_D = (torch.tensor(given[name], dtype=torch.float64) for name in ("features_N_D", "held_T_D"))
        about = (pool_N_D, held_T_D, given["noise"])
        found: dict[str, Any] = {}
        with contextlib.redirect_stdout(sys.stderr):
            for mode, with_held in (("pool", False), ("held", True)):
                found[mode] = {
                    name: watched(name.partition("_")[0], *about, with_held, given["k"], as_is=name == "bait_as_is")
                    for name in ("maxdet", "bait", "bait_as_is", "maxdist", "lcmd", "fw")
                }
                searcher = kernel_searcher("maxdiag", *about, with_held)
                found[mode]["maxdiag"] = {"picks": searcher.select(given["k"]).flip(0).tolist()}
                found[mode]["bait_backward"] = backward(*about, with_held, given["k"])
                found[mode]["kmeanspp"] = weights(*about, with_held, found[mode]["maxdist"]["picks"])
        cases.append(given | {"found": found})
    print('{"package": "bmdal_reg 3.0.2", "how": "tests/golden/make_kernel_searches.py", "cases": [')
    print(",\n".join(json.dumps(case) for case in cases))
    print("]}")


def watched(
    search: str, pool_N_D: Tensor, held_T_D: Tensor, noise: float, with_held: bool, k: int, as_is: bool
) -> dict[str, Any]:
    """The picks of a search one by one, with the scores at each."""
    searcher = kernel_searcher(search, pool_N_D, held_T_D, noise, with_held)
    if search == "bait" and not as_is:
        exact_scores(searcher)
    values: list[float] = []
    gaps: list[float] = []
    plain = searcher.add

    def add(position: int) -> None:
        if position < len(pool_N_D):
            first = not with_held and not values and search in ("maxdist", "lcmd")
            score_N = pool_N_D.square().sum(1) if first else searcher.get_scores().clone()
            score_N[searcher.selected_idxs] = -torch.inf
            others_N = (pool_N_D != pool_N_D[position]).any(1)
            values.append(score_N[position].item())
            gaps.append((score_N[position] - score_N[others_N].max()).item())
        plain(position)

    searcher.add = add
    picks = searcher.select(k).tolist()
    assert searcher.status is None, searcher.status
    found: dict[str, Any] = {"picks": picks}
    if search == "bait" and not as_is:
        found = against_exact(picks, pool_N_D, held_T_D, noise, with_held, k, k)
    return found | {"values": digits(values), "gaps": digits(gaps, 3)}


def exact_scores(searcher: Any) -> None:
    """Let bait compare its scores without the 1e-8."""

    def scores() -> Tensor:
        score_X = searcher.scores_numerator / (searcher.diag + searcher.noise_sigma**2)
        return score_X[: len(searcher.pool_features)]

    searcher.get_scores = scores


def backward(pool_N_D: Tensor, held_T_D: Tensor, noise: float, with_held: bool, k: int) -> dict[str, Any]:
    """bait forward to 2k and back to k."""
    searcher = kernel_searcher("bait", pool_N_D, held_T_D, noise, with_held, oversample=2.0)
    exact_scores(searcher)
    return against_exact(searcher.select(k).tolist(), pool_N_D, held_T_D, noise, with_held, k, 2 * k)


def against_exact(picks: list[int], pool_N_D: Tensor, *about: Any) -> dict[str, Any]:
    """The picks of bait beside those of 50 digits, and whether they are the same points, of two copies either one."""
    exact = exact_bait(pool_N_D, *about)
    true = sorted(pool_N_D[picks].tolist()) == sorted(pool_N_D[exact].tolist())
    return {"picks": picks, "exact": exact, "true": true}


def exact_bait(pool_N_D: Tensor, held_T_D: Tensor, noise: float, with_held: bool, k: int, most: int) -> list[int]:
    """Greedy to `most` points and back to k with 50 digits; ties to the lowest position, and the latest pick leaves.

    gain = φᵀ P C P φ / (σ² + φᵀ P φ),      loss = φᵀ P C P φ / (σ² − φᵀ P φ),      P = (I + Σ_seen φ φᵀ/σ²)⁻¹
    """
    variance = mpmath.mpf(noise)
    row_N = [mpmath.matrix(row) for row in pool_N_D.tolist()]
    held_T = [mpmath.matrix(row) for row in held_T_D.tolist()]
    second_D_D = sum((row * row.T for row in row_N + held_T), mpmath.zeros(pool_N_D.shape[1]))
    covariance_D_D = mpmath.eye(pool_N_D.shape[1])

    def told(row: Any, sign: int) -> Any:
        along = covariance_D_D * row
        return (along.T * second_D_D * along)[0] / (variance + sign * (row.T * along)[0])

    def moved(row: Any, sign: int) -> Any:
        along = covariance_D_D * row
        return covariance_D_D - sign * (along * along.T) / (variance + sign * (row.T * along)[0])

    for row in held_T if with_held else ():
        covariance_D_D = moved(row, 1)
    picks: list[int] = []
    while len(picks) < most:
        gains = {position: told(row, 1) for position, row in enumerate(row_N) if position not in picks}
        picks.append(max(gains, key=gains.__getitem__))
        covariance_D_D = moved(row_N[picks[-1]], 1)
    while len(picks) > k:
        losses = [told(row_N[position], -1) for position in picks]
        least = min(losses)
        leaving = max(place for place, loss in enumerate(losses) if loss <= least * (1 + mpmath.mpf("1e-30")))
        covariance_D_D = moved(row_N[picks[leaving]], -1)
        picks.pop(leaving)
    return picks


def weights(
    pool_N_D: Tensor, held_T_D: Tensor, noise: float, with_held: bool, picks: list[int]
) -> list[dict[str, Any]]:
    """What kmeanspp draws by once these points are picked."""
    searcher = kernel_searcher("kmeanspp", pool_N_D, held_T_D, noise, with_held)
    for place in range(len(held_T_D) if with_held else 0):
        searcher.add(len(pool_N_D) + place)
    found = []
    for count in range(0 if with_held else 1, 4):
        for position in picks[max(0, count - 1) : count]:
            searcher.add(position)
        weight_N = searcher.min_sq_dists.clamp(min=0)
        weight_N[picks[:count]] = 0
        found.append({"after": picks[:count], "weights_N": digits(weight_N.tolist())})
    return found


def digits(values: list[float], count: int = 10) -> list[float]:
    """Values with so many digits."""
    return [float(f"{value:.{count}g}") for value in values]


if __name__ == "__main__":
    main()
