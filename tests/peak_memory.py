"""How far resident memory rises at most while `natsel.select` works: one process that runs cases in turn.

    python tests/peak_memory.py MEBIBYTES [case …]        prints a JSON object, a case a line of it

Every case is first run on a few points, so that what libraries load once is not counted. A case that is refused is run
again with the budget that the refusal names. glibc's malloc is told to give blocks of 1 MiB back as soon as they are
free (see `measured`): what it would keep for later is its own affair and differs from run to run.
"""

import ctypes
import gc
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

import natsel
from natsel import (
    CategoricalSamples,
    ExampleLosses,
    FeatureDensity,
    FisherFactors,
    FisherRows,
    GaussianFeatures,
    GaussianPotentialOutcomes,
    GaussianSamples,
    Geometry,
    Method,
    PotentialOutcomes,
    Targets,
)
from natsel.bench.peer_worker import Meter
from natsel.choose.methods import resolve
from natsel.information.weights.precision import Kronecker, LowRank
from natsel.objectives import EPIG, JPIG, PIG
from natsel.search import ForwardBackward, Greedy

Case = tuple[str | Method, Any, int, dict[str, Any]]

_random = torch.Generator()


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=_random, dtype=dtype)


@lru_cache(maxsize=2)
def draws(points: int, count: int, classes: int) -> CategoricalSamples:
    return CategoricalSamples.from_logits(normal(points, count, classes))


def layer(points: int, classes: int, features: int, precision: Any = 1.0) -> FisherFactors:
    return FisherFactors.categorical(
        normal(points, features) / features**0.5, normal(points, classes).softmax(1), precision
    )


def rows(points: int, each: int, weights: int) -> FisherRows:
    return FisherRows(normal(points, each, weights) / weights**0.5)


def features(points: int, width: int, noise: float = 1.0) -> GaussianFeatures:
    return GaussianFeatures(normal(points, width) / width**0.5, noise)


def densities(points: int, classes: int) -> FeatureDensity:
    return FeatureDensity(normal(points), normal(points, classes))


def examples(points: int, classes: int) -> ExampleLosses:
    return ExampleLosses(normal(points).abs(), normal(points).abs(), normal(points, classes))


def arms(points: int, count: int) -> PotentialOutcomes:
    both = normal(points, count), normal(points, count)
    return PotentialOutcomes(*both, labels(points, 2), normal(points).sigmoid(), 1.0, 1.0)


def joint_arms(points: int, width: int) -> GaussianPotentialOutcomes:
    return GaussianPotentialOutcomes(
        normal(points, width), normal(points, width), labels(points, 2), noise0=1.0, noise1=1.0
    )


def samples(points: int, count: int) -> GaussianSamples:
    return GaussianSamples(normal(points, count), 1 + normal(points, count).square())


def geometry(points: int, trees: int, leaves: int) -> Geometry:
    places_N_T = torch.randint(leaves, (points, trees), generator=_random)
    return Geometry.of_leaves(places_N_T, torch.rand(points, generator=_random), n_leaves=[leaves] * trees)


def labels(points: int, classes: int) -> torch.Tensor:
    return torch.randint(classes, (points,), generator=_random)


def labelled(method: Any, make: Callable[[int], Any], points: int, aims: int, pick: int, classes: int = 0) -> Case:
    """A method that knows labels, of classes or numbers, of points and of targets."""
    some = (lambda count: labels(count, classes)) if classes else normal
    return method, make(points), pick, {"labels": some(points), "targets": Targets(make(aims), labels=some(aims))}


def low_rank(weights: int, rank: int) -> LowRank:
    return LowRank(torch.linalg.qr(normal(weights, rank, dtype=torch.float64)).Q.T, torch.ones(rank), 1.0)


def to_itself(method: Any, belief: Any, pick: int) -> Case:
    return method, belief, pick, {"targets": belief}


def classes_of(points: int, classes: int) -> dict[str, Any]:
    return {"labels": labels(points, classes)}


# Sizes for a budget of 16 MiB: one copy in float64 of what a case looks at, or one table of its pairs, would be more.
CASES: dict[str, Callable[[], Case]] = {
    # draws of classes
    "bald": lambda: ("bald", draws(24_000, 20, 10), 10, {}),
    "batchbald": lambda: ("batchbald", draws(5_000, 100, 10), 3, {}),
    "power-bald": lambda: ("power-bald", draws(24_000, 20, 10), 100, {}),
    "logdet-bald": lambda: ("logdet-bald", draws(8_000, 100, 10), 3, {}),
    "kmeans-bald": lambda: ("kmeans-bald", draws(8_000, 100, 10), 3, {}),
    "softmax-entropy": lambda: ("softmax-entropy", draws(24_000, 20, 10), 100, {}),
    "epig": lambda: ("epig", draws(2_000, 40, 10), 10, {"targets": draws(600, 40, 10)}),
    "batch-epig": lambda: ("batch-epig", draws(200, 20, 10), 2, {"targets": draws(200, 20, 10)}),
    "jepig": lambda: ("jepig", draws(40, 20, 10), 3, {"targets": draws(200, 20, 10)}),
    "batch-jepig": lambda: ("batch-jepig", draws(25, 20, 10), 2, {"targets": draws(200, 20, 10)}),
    "pig": lambda: labelled("pig", lambda count: draws(count, 100, 10), 1_500, 700, 10, classes=10),
    "jpig": lambda: labelled("jpig", lambda count: draws(count, 100, 10), 4_000, 700, 10, classes=10),
    "ig": lambda: ("ig", draws(8_000, 200, 4), 10, classes_of(8_000, 4)),
    "el2n": lambda: ("el2n", draws(24_000, 20, 10), 10, classes_of(24_000, 10)),
    # the geometry of a model
    "reach": lambda: ("reach", geometry(60_000, 16, 32), 5, {"given": geometry(50, 16, 32)}),
    "uherding": lambda: ("uherding", geometry(60_000, 16, 32), 5, {}),
    # losses of known labels
    "rho-loss": lambda: ("rho-loss", examples(200_000, 2), 10, {}),
    "loss": lambda: ("loss", draws(24_000, 20, 10), 10, classes_of(24_000, 10)),
    "negative-irreducible-loss": lambda: ("negative-irreducible-loss", examples(200_000, 2), 10, {}),
    "softmax-rho-loss": lambda: ("softmax-rho-loss", examples(200_000, 2), 10, {}),
    "loss-minus-entropy": lambda: ("loss-minus-entropy", draws(8_000, 100, 10), 10, classes_of(8_000, 10)),
    "gradient-norm-importance": lambda: (
        "gradient-norm-importance",
        draws(24_000, 20, 10),
        100,
        classes_of(24_000, 10),
    ),
    # potential outcomes
    "mu-rho-bald": lambda: ("mu-rho-bald", arms(24_000, 100), 10, {}),
    "mu-bald": lambda: ("mu-bald", arms(24_000, 100), 10, {}),
    "tau-bald": lambda: ("tau-bald", arms(24_000, 100), 10, {}),
    "rho-bald": lambda: ("rho-bald", arms(24_000, 100), 10, {}),
    "mu-pi-bald": lambda: ("mu-pi-bald", arms(24_000, 100), 10, {}),
    "propensity": lambda: ("propensity", arms(200_000, 2), 10, {}),
    "rho-exact": lambda: ("rho-exact", joint_arms(24_000, 100), 10, {}),
    "sign-error": lambda: ("sign-error", arms(24_000, 100), 10, {}),
    # jointly Gaussian points
    "Gaussian EIG": lambda: ("batchbald", features(20_000, 256), 2, {}),
    "Gaussian EIG, tiny noise": lambda: ("batchbald", features(18_000, 256, 1e-10), 2, {}),
    "Gaussian EIG, draws": lambda: ("batchbald", samples(40_000, 100), 2, {}),
    "Gaussian EPIG": lambda: ("batch-epig", features(200, 256), 2, {"targets": features(5_000, 256)}),
    "Gaussian EPIG, tiny noise": lambda: (
        "batch-epig",
        features(8_000, 512, 1e-10),
        1,
        {"targets": features(100, 512)},
    ),
    "Gaussian JEPIG": lambda: ("batch-jepig", features(20_000, 200), 2, {"targets": features(500, 200)}),
    "Gaussian JEPIG, wide": lambda: ("jepig", features(500, 800), 2, {"targets": features(1_000, 800)}),
    "Gaussian PIG": lambda: labelled(Method(PIG(), Greedy()), lambda n: features(n, 256), 10_000, 100, 2),
    "Gaussian JPIG": lambda: labelled(Method(JPIG(), Greedy()), lambda n: features(n, 256), 10_000, 50, 2),
    "Gaussian BAIT": lambda: to_itself("bait", features(20_000, 256), 2),
    "core-set": lambda: ("core-set", features(20_000, 256), 9, {"given": features(500, 256)}),
    "lcmd": lambda: ("lcmd", features(20_000, 256), 9, {}),
    "acs-fw": lambda: ("acs-fw", features(20_000, 256), 3, {"given": features(500, 256)}),
    "density": lambda: ("density", densities(200_000, 10), 10, {}),
    "energy": lambda: ("energy", densities(200_000, 10), 10, {}),
    "max-logit": lambda: ("max-logit", densities(200_000, 10), 10, {}),
    "Gaussian entropy": lambda: ("entropy", features(20_000, 256), 10, {}),
    # weight space
    "bait": lambda: to_itself("bait", layer(3_000, 10, 48), 1),
    "bait, many classes": lambda: to_itself("bait", layer(150, 100, 4), 1),
    "bait, whole matrices": lambda: to_itself("bait", layer(200, 10, 150), 2),
    "bait, Kronecker": lambda: to_itself("bait", layer(150, 10, 110, Kronecker(torch.eye(10), torch.eye(110))), 2),
    "bait, few points": lambda: to_itself("bait", layer(140, 10, 400), 1),
    "bait, rows": lambda: to_itself("bait", rows(30, 2, 30_000), 1),
    "fb-epig": lambda: ("fb-epig", layer(40, 10, 64), 1, {"targets": layer(300, 10, 64)}),
    "fb-epig, many classes": lambda: (
        Method(EPIG(), ForwardBackward()),
        layer(2, 60, 4),
        1,
        {"targets": layer(450, 60, 4)},
    ),
    "fb-epig, rows": lambda: ("epig", rows(30, 4, 20_000), 1, {"targets": rows(30, 4, 20_000)}),
    "fb-jepig": lambda: ("fb-jepig", layer(2_000, 10, 64), 1, {"targets": layer(600, 10, 64)}),
    "fb-jepig, whole matrices": lambda: ("fb-jepig", layer(200, 10, 110), 2, {"targets": layer(200, 10, 110)}),
    "fb-jepig, few points": lambda: ("fb-jepig", layer(40, 10, 300), 2, {"targets": layer(110, 10, 300)}),
    "bait-det": lambda: ("bait-det", layer(20_000, 10, 64), 2, {}),
    "bait-det, low rank": lambda: ("bait-det", layer(2_500, 10, 64, low_rank(640, 300)), 1, {}),
    "active-set-select": lambda: to_itself("active-set-select", layer(600, 10, 64), 2),
    "trace-eig": lambda: ("trace-eig", layer(2_500, 10, 64, low_rank(640, 300)), 5, {}),
    "epig-jensen": lambda: ("epig-jensen", features(1_000, 700), 5, {"targets": features(800, 700)}),
    # one gradient a point
    "badge": lambda: ("badge", layer(40_000, 10, 16), 60, {}),
    "badge, many classes": lambda: ("badge", layer(8_000, 1_000, 4), 10, {}),
    "badge-dpp, exact": lambda: ("badge-dpp", layer(800, 10, 64), 10, {}),
    "logdet": lambda: ("logdet", layer(50_000, 10, 4), 70, {}),
    "logdet, given": lambda: ("logdet", layer(1_000, 10, 32), 3, {"given": layer(2_000, 10, 32)}),
    "logdet-mi": lambda: ("logdet-mi", layer(600, 10, 16), 3, {"targets": layer(2_500, 10, 16)}),
    "logdet-mi, whole matrices": lambda: ("logdet-mi", layer(300, 10, 128), 2, {"targets": layer(1_100, 10, 128)}),
    "logdet-cmi": lambda: (
        "logdet-cmi",
        layer(1_000, 10, 16),
        3,
        {"targets": layer(1_000, 10, 16), "given": layer(1_000, 10, 16)},
    ),
    "facility-location": lambda: ("facility-location", layer(2_200, 10, 16), 3, {}),
    "flvmi": lambda: ("flvmi", layer(1_500, 10, 32), 2, {"targets": layer(3_000, 10, 32)}),
    "flqmi": lambda: ("flqmi", layer(1_500, 10, 32), 2, {"targets": layer(3_000, 10, 32)}),
    "graph-cut": lambda: ("graph-cut", layer(30_000, 10, 64), 3, {}),
    "gcmi": lambda: ("gcmi", layer(300, 1_000, 2_500), 5, {"targets": layer(300, 1_000, 2_500)}),
    "set-cover": lambda: ("set-cover", layer(2_200, 10, 16), 3, {}),
    "set-cover-mi": lambda: ("set-cover-mi", layer(1_500, 10, 32), 2, {"targets": layer(3_000, 10, 32)}),
    "egl": lambda: ("egl", layer(40_000, 100, 16), 5, {}),
    "grand": lambda: ("grand", layer(40_000, 100, 16), 5, classes_of(40_000, 100)),
}


def available() -> str | None:
    """Why peaks cannot be measured here; None where they can."""
    return None if os.access("/proc/self/clear_refs", os.W_OK) else "needs /proc of Linux"


def measured(budget: int, cases: Iterable[str] = ()) -> dict[str, dict[str, Any]]:
    """The peak of each case above its inputs in bytes, by a process of its own: all cases, or some."""
    found = subprocess.run(
        [sys.executable, __file__, str(budget), *cases],
        env={**os.environ, "MALLOC_MMAP_THRESHOLD_": "1048576", "MALLOC_TRIM_THRESHOLD_": "1048576"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    results: dict[str, dict[str, Any]] = json.loads(found.stdout)
    return results


def few(case: Case) -> Case:
    """The case with 20 points."""
    method, belief, pick, about = case
    small = {name: value if isinstance(value, Targets) else value[:20] for name, value in about.items()}
    return method, belief[:20], min(pick, 2), small


def peak_of(case: Case, budget: int) -> dict[str, Any]:
    """The peak of one case in bytes, and the refusal where there was one."""
    method, belief, pick, about = case
    gc.collect()
    give_back = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if give_back is not None:  # or what cases before have left would be used again, unseen
        give_back(0)
    meter = Meter()
    meter.resting = _resident()
    with natsel.memory_budget(budget):
        try:
            natsel.select(method, belief, pick, **about)
        except ValueError as reason:
            return {"budget": budget, "peak": meter.peak_extra_mib() * 2**20, "refused": str(reason)}
    return {"budget": budget, "peak": meter.peak_extra_mib() * 2**20}


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main(budget: int, *names: str) -> None:
    """Measure and print."""
    torch.set_num_threads(1)
    gc.freeze()  # a peak starts by collecting what cases left, which is little beside what was imported
    found = {}
    for name in names or CASES:
        _random.manual_seed(0)
        case = CASES[name]()
        method, belief, pick, about = few(case)
        natsel.select(method, belief, pick, **about)
        chosen = resolve(case[0])
        found[name] = {
            "objective": type(chosen.objective).__name__,
            "search": type(chosen.search).__name__,
            **peak_of(case, budget),
        }
        named = re.search(r"natsel\.memory_budget\((\d+) << 20\)", found[name].get("refused", ""))
        if named:
            found[name]["then"] = peak_of(case, int(named[1]) << 20)
    print(json.dumps(found))


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
