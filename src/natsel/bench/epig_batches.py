"""Batches by EPIG: a greedy selection against the bare matrix products of what it looks at.

    ours       natsel.select("batch-epig", …)
    bare       the products of the gains and second-order forms that the selection works out, and nothing else
    bare_all   the products of all gains in full in every step: no shortlist
    steps      rows (weighted posteriors) and points scored in full at each pick

Every step scores candidates under each row, n·C × K × m·C for n candidates and m targets. Draws are those of a linear
classifier. docs/theory/epig-jepig.md, 8.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

import natsel
from natsel.bench.epig_scores import predictions
from natsel.bench.laps import device_name, timed
from natsel.information.predictive_information import TargetDeviations
from natsel.objectives.readings.draws import epig_categorical

_BLOCK = 1 << 20  # numbers of a block of products, as where EPIG is worked out on a CPU


class Product(NamedTuple):
    """A matrix product of candidates with targets or with their second moment, done once for each row."""

    of: str
    candidates: int
    rows: int
    columns: int


def measure(
    points: int = 500,
    targets: int = 100,
    draws: int = 40,
    classes: int = 5,
    pick: int = 10,
    device: str = "cpu",
    repeat: int = 5,
) -> dict[str, Any]:
    """Select a batch, do its products alone, and say what both took.

    >>> found = measure(points=30, targets=5, draws=6, classes=2, pick=2, repeat=1)
    >>> len(found["positions"]), found["steps"]
    (2, [{'rows': 1, 'looked_at': 30}, {'rows': 2, 'looked_at': 29}])
    """
    place = torch.device(device)
    pool, about = (predictions(count, draws, classes, seed, place) for seed, count in enumerate((points, targets)))
    belief, target_belief = natsel.CategoricalSamples(pool), natsel.CategoricalSamples(about)
    with _watched() as products:  # not timed, nor what is done once for all
        natsel.select("batch-epig", belief, pick, targets=target_belief)
    steps = [{"rows": p.rows, "looked_at": p.candidates} for p in products if p.of == "second_order"]
    for step, later in zip(steps, _steps(products), strict=True):
        step["looked_at"] = sum(p.candidates for p in later if p.of == "over_targets")
    everything = [Product("over_targets", points, step["rows"], targets * classes) for step in steps]
    # In turn, so that a busy machine is as busy for each of them.
    ours, bare, bare_all = [], [], []
    for _ in range(repeat):
        took, selection = timed(lambda run: natsel.select("batch-epig", belief, pick, targets=target_belief), 1, device)
        ours.append(took)
        bare.append(timed(lambda run: _multiply(products, draws, classes, place), 1, device)[0])
        bare_all.append(timed(lambda run: _multiply(everything, draws, classes, place), 1, device)[0])
    return {
        "device": device_name(place),
        "ours": _medians(ours),
        "bare": _medians(bare),
        "bare_all": _medians(bare_all),
        "ours_over_bare": _medians(ours)["cpu_seconds"] / _medians(bare)["cpu_seconds"],
        "steps": steps,
        "positions": selection.ids.tolist(),
        "total": selection.total,
    }


@contextmanager
def _watched() -> Iterator[list[Product]]:
    """The products that EPIG asks for meanwhile."""
    found: list[Product] = []
    plain = {name: getattr(epig_categorical, name) for name in ("second_order", "over_targets", "over_second_order")}

    def counted(name: str, work: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def watched(log_probs_n_K_C: Tensor, targets: TargetDeviations, *others: Any) -> Tensor:
            count, draws, _ = log_probs_n_K_C.shape
            columns = min(draws, targets.pairs) if name == "second_order" else targets.pairs
            found.append(Product(name, count, len(targets.weights_R_K), columns))
            return work(log_probs_n_K_C, targets, *others)

        return watched

    try:
        for name, work in plain.items():
            setattr(epig_categorical, name, counted(name, work))
        yield found
    finally:
        for name, work in plain.items():
            setattr(epig_categorical, name, work)


def _steps(products: list[Product]) -> Iterator[list[Product]]:
    """The products of each pick: it begins with the second-order forms of the pool."""
    starts = [place for place, product in enumerate(products) if product.of == "second_order"]
    for start, end in zip(starts, [*starts[1:], len(products)], strict=True):
        yield products[start:end]


def _multiply(products: list[Product], draws: int, classes: int, device: torch.device) -> None:
    """The products of these shapes, block by block."""
    widest = max(product.columns for product in products)
    longest = max(product.candidates for product in products) * classes
    mine_K_nC, theirs_K_mC = (torch.rand(draws, width, device=device) for width in (longest, widest))
    room = torch.empty(max(_BLOCK, widest), device=device)
    for product in products:
        height = max(1, _BLOCK // product.columns)
        for _ in range(product.rows):
            for start in range(0, product.candidates * classes, height):
                end = min(start + height, product.candidates * classes)
                out = room[: (end - start) * product.columns].view(end - start, product.columns)
                torch.mm(mine_K_nC[:, start:end].T, theirs_K_mC[:, : product.columns], out=out)


def _medians(laps: list[dict[str, Any]]) -> dict[str, float]:
    middle = len(laps) // 2
    return {key: sorted(lap[key] for lap in laps)[middle] for key in ("seconds", "cpu_seconds", "peak_extra_mib")}
