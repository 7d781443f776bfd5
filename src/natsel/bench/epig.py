"""EPIG, measured: full scores against bare matrix products and plain arithmetic, and the k best by shortlist.

    python -m natsel.bench.epig [--points 10000] [--targets 1000] [--draws 100] [--classes 10] [--large] [--json]

    ours     Σ Q φ(r), block by block                                               natsel.score("epig", …)
    bare     the products of these blocks and nothing else                          what the hardware asks for
    plain    H[Y] + H[Y*] − H[Y,Y*]: matmul and xlogy by slices of the pool         how it is usually written
    picks    the k best by shortlist, and whether full scoring picks the same

`--large` is a million candidates and a hundred thousand targets: these are selected from, and the first `--scored` of
them are scored in full. Draws are those of a linear classifier. On a busy machine trust the CPU seconds.
"""

import argparse
import json
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import natsel
from natsel.beliefs import Targets
from natsel.bench.peer_worker import Meter
from natsel.information.predictive_information import _COLUMNS, deviations
from natsel.objectives import EPIG, Reading, read
from natsel.provenance import versions
from natsel.search import TopK
from natsel.search.topk import stable_top_k

_FEATURES = 16
_SLICE = 5_000_000  # numbers in a slice of the plain form: 50 candidates at 1,000 targets of 10 classes


def measure(
    points: int = 10_000,
    targets: int = 1_000,
    draws: int = 100,
    classes: int = 10,
    pick: int = 100,
    scored: int | None = None,
    device: str = "cpu",
) -> dict[str, Any]:
    """Score and select, and say what it took; `scored` candidates are scored in full (None: all).

    >>> found = measure(points=60, targets=20, draws=8, classes=3, pick=5)
    >>> found["same_picks"], found["points"]
    (True, 60)
    """
    place = torch.device(device)
    pool, about = (_predictions(count, draws, classes, seed, place) for seed, count in enumerate((points, targets)))
    belief, aims = natsel.CategoricalSamples(pool), natsel.CategoricalSamples(about)
    some = belief if scored is None else belief[: min(scored, points)]
    natsel.select("epig", some[:50], min(2, len(some)), targets=aims[:50])  # what is done once for all is not timed
    bare = _lap(lambda: _bare(some.log_probs_N_K_C, about), place)
    plain = _lap(lambda: _plain(some.log_probs_N_K_C, about), place)
    ours = _lap(lambda: natsel.score("epig", some, targets=aims), place)
    state, looked = _watched(belief, aims)
    allowed_N = torch.ones(points, dtype=torch.bool)
    chosen = _lap(lambda: TopK()(state, pick, allowed_N, torch.Generator()), place)
    score_N, plain_N = ours.pop("result").cpu(), plain.pop("result").cpu()
    bare.pop("result")
    positions = chosen.pop("result").positions
    whole = len(some) == points
    return {
        "points": points,
        "targets": targets,
        "draws": draws,
        "classes": classes,
        "pick": pick,
        "scored": len(some),
        "device": torch.cuda.get_device_name(place) if place.type == "cuda" else "cpu",
        "threads": torch.get_num_threads(),
        "ours": ours,
        "bare": bare,
        "plain": plain,
        "picks": chosen,
        "looked_at": len(looked),
        "same_picks": positions.tolist() == stable_top_k(pick, score_N).tolist() if whole else None,
        "mean_score": float(score_N.mean()),
        "largest_difference": float((score_N - plain_N).abs().max()),
        "plain_negative": int((plain_N < 0).sum()),
        "budget_mib": natsel.memory_budget() / 2**20,
    }


def _predictions(count: int, draws: int, classes: int, seed: int, device: torch.device) -> Tensor:
    """A linear classifier's draws, the same for every `seed`, at inputs of its own."""
    shared = torch.Generator().manual_seed(0)
    weight_D_KC = torch.randn(_FEATURES, 1, classes, generator=shared).expand(-1, draws, -1)
    weight_D_KC = (weight_D_KC + torch.randn(_FEATURES, draws, classes, generator=shared)).reshape(_FEATURES, -1)
    generator = torch.Generator().manual_seed(seed + 1)
    log_probs_N_K_C = torch.empty(count, draws, classes, device=device)
    for start in range(0, count, 10_000):
        part = log_probs_N_K_C[start : start + 10_000]
        inputs_n_D = torch.randn(len(part), _FEATURES, generator=generator)
        inputs_n_D *= torch.rand(len(part), 1, generator=generator)
        part.copy_((inputs_n_D @ weight_D_KC).view(-1, draws, classes).log_softmax(-1))
    return log_probs_N_K_C


def _bare(log_probs_N_K_C: Tensor, log_probs_M_K_C: Tensor) -> Tensor:
    """The matrix products that full scores take, in blocks of the same size."""
    _, draws, classes = log_probs_N_K_C.shape
    weights_K = log_probs_N_K_C.new_full((draws,), 1 / draws)
    columns = _COLUMNS if log_probs_N_K_C.device.type == "cpu" else 16 * _COLUMNS
    rows = max(1, (1 << 23) // (4 * classes * (4 * draws + 2 * columns)))
    target = deviations(log_probs_M_K_C, weights_K).a_K_nC
    room = log_probs_N_K_C.new_empty(rows * classes, columns)
    for part in torch.split(log_probs_N_K_C, rows):
        a_K_nC = deviations(part, weights_K).a_K_nC
        for a_K_mC in torch.split(target, columns, 1):
            torch.mm(a_K_nC.T, a_K_mC, out=room[: a_K_nC.shape[1], : a_K_mC.shape[1]])
    return room


def _plain(log_probs_N_K_C: Tensor, log_probs_M_K_C: Tensor) -> Tensor:
    """H[Y] + mean H[Y*] − mean H[Y,Y*], slice by slice of the pool."""
    draws = log_probs_N_K_C.shape[1]
    about_M_C = log_probs_M_K_C.exp().mean(1)
    others = torch.xlogy(about_M_C, about_M_C).sum() / len(about_M_C)
    probs_K_MC = log_probs_M_K_C.exp().transpose(0, 1).reshape(draws, -1)
    found = []
    size = max(1, _SLICE // (log_probs_N_K_C.shape[2] * probs_K_MC.shape[1]))
    for part_n_K_C in torch.split(log_probs_N_K_C, size):
        probs_n_C_K = part_n_K_C.exp().transpose(1, 2)
        joint_n_C_MC = probs_n_C_K @ probs_K_MC / draws
        mean_n_C = probs_n_C_K.mean(2)
        joint_n = torch.xlogy(joint_n_C_MC, joint_n_C_MC).sum((1, 2)) / len(about_M_C)
        found.append(joint_n - torch.xlogy(mean_n_C, mean_n_C).sum(1) - others)
    return torch.cat(found).double()


def _watched(belief: natsel.Belief, aims: natsel.Belief) -> tuple[Any, list[int]]:
    """The state of EPIG, and the positions that it is asked to score in full."""
    state = read(EPIG(), belief, Reading(Targets(aims), None, torch.Generator()))
    looked: list[int] = []
    scores_at = state.scores_at

    def counted(positions: Tensor) -> Tensor:
        looked.extend(positions.tolist())
        score_n: Tensor = scores_at(positions)
        return score_n

    state.scores_at = counted
    return state, looked


def _lap(work: Callable[[], Any], device: torch.device) -> dict[str, Any]:
    """What some work took, and its result."""
    on_cpu = device.type == "cpu"
    before = 0 if on_cpu else torch.cuda.memory_allocated(device)
    if not on_cpu:
        torch.cuda.reset_peak_memory_stats(device)

    def waited() -> Any:
        result = work()
        if not on_cpu:
            torch.cuda.synchronize(device)
        return result

    meter = Meter()
    result, cpu, wall = meter.lap(waited)
    extra = meter.peak_extra_mib() if on_cpu else (torch.cuda.max_memory_allocated(device) - before) / 2**20
    return {"result": result, "seconds": wall, "cpu_seconds": cpu, "peak_extra_mib": extra}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sizes = {"points": 10_000, "targets": 1_000, "draws": 100, "classes": 10, "pick": 100}
    for name, count in sizes.items():
        parser.add_argument(f"--{name}", type=int, help=f"how many (default {count:,})")
    parser.add_argument("--scored", type=int, help="candidates to score in full (default: all; with --large 200)")
    parser.add_argument("--large", action="store_true", help="a million candidates, 100,000 targets, 20 draws")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--threads", type=int, help="threads of torch")
    parser.add_argument("--json", action="store_true", help="print a document for machines")
    chosen = parser.parse_args()
    if chosen.threads:
        torch.set_num_threads(chosen.threads)
    if chosen.large:
        sizes |= {"points": 1_000_000, "targets": 100_000, "draws": 20}
    sizes |= {name: given for name in sizes if (given := getattr(chosen, name)) is not None}
    scored = chosen.scored or (200 if chosen.large else None)
    found = measure(**sizes, scored=scored, device=chosen.device)
    if chosen.json:
        command = "python -m natsel.bench.epig " + " ".join(f"--{name} {count}" for name, count in sizes.items())
        print(json.dumps({"command": command, "versions": versions(), **found}, indent=1))
        return
    print(_told(found))


def _told(found: dict[str, Any]) -> str:
    def took(name: str) -> str:
        lap = found[name]
        extra = lap["peak_extra_mib"]
        return f"{lap['seconds']:8.2f} s wall, {lap['cpu_seconds']:8.2f} s CPU, {extra:6.0f} MiB extra"

    times = {name: found[name]["cpu_seconds"] / max(found["ours"]["cpu_seconds"], 1e-9) for name in ("bare", "plain")}
    same = {True: "the same as by full scoring", False: "NOT those of full scoring", None: "full scores not known"}
    return (
        f"{found['points']:,} candidates, {found['targets']:,} targets, {found['draws']} draws, {found['classes']}"
        f" classes, float32 on {found['device']}, {found['threads']} threads\n"
        f"full scores of {found['scored']:,}   {took('ours')}\n"
        f"bare products of these  {took('bare')}: {times['bare']:.2f} of the time\n"
        f"plain arithmetic        {took('plain')}: {times['plain']:.1f} times as long; off by at most"
        f" {found['largest_difference']:.1e}, {found['plain_negative']} negative (mean {found['mean_score']:.1e})\n"
        f"{found['pick']} best by shortlist   {took('picks')}: {found['looked_at']:,} looked at in full,"
        f" {same[found['same_picks']]}\n"
        f"budget {found['budget_mib']:.0f} MiB"
    )


if __name__ == "__main__":
    main()
