"""Searches on the kernel of a Gaussian belief against bmdal_reg, and against the bare matrix products they need.

    natsel   natsel.GaussianFeatures(…), with its checks, and natsel.select(…, given=…)
    peer     the same search of bmdal_reg (Holzmüller et al. 2023), in an interpreter of its own: `--python`
    bare     the products of all features [N, D] with one row [D] for each pick (BAIT: two rows; BALD: one pass in all)
             and, with points given, one product more: with all of them for distances, with D rows for conditioning

    peer_over_natsel = CPU seconds of the peer / CPU seconds of natsel, and natsel_over_bare; _wall by the clock

Every search runs with and without points given, each contender in a process of its own, in turn. `mib` is the highest
memory beyond the features. `same_picks` counts picks that both made; k-means++ is random, so there it says nothing. The
peer computes in the type of the features, so that in float32 rounding decides some of its picks; natsel picks as in
float64. BAIT is forward only, and its targets are the pool and the points given. Features are normal, with directions
that fall off as 1/√d.

On a GPU (`device=cuda`) all contenders run in one process, also the peer where it is installed; a run ends when the
GPU has done its work. Ratios are by the clock, and `mib` is what torch allocated on the GPU beyond the features.
docs/theory/black-box.md, 5 and 6.
"""

import contextlib
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor

import natsel
from natsel.bench.peer_worker import kernel_searcher, repeated, versions
from natsel.bench.workers import Failed, Workers
from natsel.choose import METHODS
from natsel.models.networks.inputs import as_device
from natsel.search import ForwardBackward

# The searches by the names that the peer has for them, and what natsel calls them.
SEARCHES = {
    "maxdiag": "bald",
    "maxdet": "batchbald",
    "bait": "bait",
    "maxdist": "core-set",
    "kmeanspp": "badge",
    "lcmd": "lcmd",
    "fw": "acs-fw",
}
_NOISE = 0.01
# Searches that measure how far points are from those given; the others condition on them, or add them up.
_DISTANCES = ("maxdist", "kmeanspp", "lcmd")
_CONDITIONED = ("maxdiag", "maxdet", "bait")


def measure(
    points: int = 100_000,
    features: int = 512,
    pick: int = 256,
    given: int = 1_000,
    dtype: str = "float32",
    search: str = "all",
    device: str = "cpu",
    repeat: int = 3,
    peers_python: str | None = None,
) -> dict[str, Any]:
    """All searches or one of them, with and without points given.

    Runs that take more than half a minute are not repeated. `peers_python` is an interpreter that has the peer.
    """
    if search not in {"all", *SEARCHES}:
        raise ValueError(f"search: expected all or one of {', '.join(SEARCHES)}, found {search!r}")
    if dtype not in {"float32", "float64"}:
        raise ValueError(f"dtype: expected float32 or float64, found {dtype!r}")
    if not (points >= 32 and pick <= points and min(features, pick, given) >= 1):
        raise ValueError("points: needs at least 32 points, at most as many picks, and one feature and point given")
    as_device(device)  # refuses one that is not there
    rows = []
    with (
        tempfile.TemporaryDirectory(prefix="natsel-bench-") as folder,
        Workers(peers_python or sys.executable, torch.get_num_threads()) as workers,
    ):
        path = str(Path(folder) / "features.npy")
        np.save(path, made_features(points + given, features, dtype).numpy())
        peer = _peer(workers) if device == "cpu" else versions(["bmdal_reg"])
        for name in SEARCHES if search == "all" else (search,):
            for with_given in (False, True):
                job = {"path": path, "search": name, "given": given, "with_given": with_given, "k": pick}
                job |= {"noise": _NOISE, "repeat": repeat, "device": device}
                rows.append(_row(workers, job, peer["unusable"].get("bmdal_reg")))
    where = {} if device == "cpu" else {"device": torch.cuda.get_device_name(device)}
    found = {key: value for key, value in peer.items() if key != "unusable"}
    return {"noise": _NOISE, **where, "peer": found, "rows": rows}


def made_features(count: int, width: int, dtype: str = "float32") -> Tensor:
    """Normal features whose directions fall off as 1/√d.

    >>> made_features(3, 2).shape
    torch.Size([3, 2])
    """
    generator = torch.Generator().manual_seed(0)
    features_X_D = torch.randn(count, width, generator=generator, dtype=getattr(torch, dtype))
    return features_X_D.mul_(torch.arange(1, width + 1, dtype=features_X_D.dtype).rsqrt())


def natsel_search(
    path: str, search: str, given: int, with_given: bool, k: int, noise: float, repeat: int, device: str = "cpu"
) -> dict[str, Any]:
    """Let natsel pick k of the points in a file of features, whose last `given` rows are points already held."""
    features_X_D = torch.from_numpy(np.load(path, allow_pickle=False)).to(device)
    pool_N_D, given_T_D = features_X_D[: len(features_X_D) - given], features_X_D[len(features_X_D) - given :]
    method: natsel.Method | str = SEARCHES[search]
    if search == "bait":
        method = natsel.Method(METHODS["bait"].objective, ForwardBackward(oversample=1.0))

    def work(count: int, pool_n_D: Tensor, all_x_D: Tensor) -> list[int]:
        held = natsel.GaussianFeatures(given_T_D, noise) if with_given else None
        targets = natsel.GaussianFeatures(all_x_D, noise) if search == "bait" else None
        belief = natsel.GaussianFeatures(pool_n_D, noise)
        picked: list[int] = natsel.select(method, belief, count, given=held, targets=targets).ids.tolist()
        return picked

    work(2, pool_N_D[:32], features_X_D[-32:])
    return _timed(lambda: work(k, pool_N_D, features_X_D), repeat, device)


def peer_search(
    path: str, search: str, given: int, with_given: bool, k: int, noise: float, repeat: int, device: str
) -> dict[str, Any]:
    """Let bmdal_reg pick in this process, on a GPU."""
    features_X_D = torch.from_numpy(np.load(path, allow_pickle=False)).to(device)
    pool_N_D, given_T_D = features_X_D[: len(features_X_D) - given], features_X_D[len(features_X_D) - given :]

    def work(count: int, pool_n_D: Tensor) -> list[int]:
        picked_k = kernel_searcher(search, pool_n_D, given_T_D, noise, with_given).select(count)
        return [int(position) for position in picked_k]

    with contextlib.redirect_stdout(sys.stderr):  # it tells its progress, and stdout is for the result
        work(2, pool_N_D[:32])
        return _timed(lambda: work(k, pool_N_D), repeat, device)


def bare_products(
    path: str, search: str, given: int, with_given: bool, k: int, noise: float, repeat: int, device: str = "cpu"
) -> dict[str, Any]:
    """The matrix products that such a search needs, and nothing else."""
    features_X_D = torch.from_numpy(np.load(path, allow_pickle=False)).to(device)
    pool_N_D, given_T_D = features_X_D[: len(features_X_D) - given], features_X_D[len(features_X_D) - given :]
    times = {"maxdiag": 1, "bait": 2 * k}.get(search, k)
    at_once = 0
    if with_given:
        at_once = given if search in _DISTANCES else min(given, pool_N_D.shape[1]) if search in _CONDITIONED else 0
    many_m_D = given_T_D[:at_once]
    out_N = pool_N_D.new_empty(len(pool_N_D))

    def work() -> None:
        for part_n_D in torch.split(pool_N_D, 8_192) if at_once else ():
            torch.mm(part_n_D, many_m_D.T)
        for turn in range(times):
            torch.mv(pool_N_D, pool_N_D[turn % len(pool_N_D)], out=out_N)

    return _timed(work, repeat, device)


def _timed(work: Callable[[], Any], repeat: int, device: str) -> dict[str, Any]:
    """The result of some work and what its runs took; on a GPU until all is done, with the memory of the GPU."""
    if device == "cpu":
        return repeated(work, repeat)

    def waited() -> Any:
        result = work()
        torch.cuda.synchronize(device)
        return result

    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    resting = torch.cuda.memory_allocated(device)
    took = repeated(waited, repeat)
    return took | {"peak_extra_mib": (torch.cuda.max_memory_allocated(device) - resting) / 2**20}


def _peer(workers: Workers) -> dict[str, Any]:
    """What the peers' interpreter has, or why it cannot be used."""
    try:
        found: dict[str, Any] = workers.peers("versions", packages=["bmdal_reg"])
    except Failed as reason:
        return {"unusable": {"bmdal_reg": str(reason)}}
    return found


def _row(workers: Workers, job: dict[str, Any], unusable: str | None) -> dict[str, Any]:
    """One search: what natsel, the peer and the bare products took, and whether the picks are the same."""
    row: dict[str, Any] = {
        "search": job["search"],
        "method": SEARCHES[job["search"]],
        "given": job["given"] if job["with_given"] else 0,
    }
    contenders: dict[str, Callable[[], Any]]
    if job["device"] == "cpu":
        plain = {key: value for key, value in job.items() if key != "device"}
        own: dict[str, Any] = {"module": "natsel.bench.kernel_searches", "settings": plain}
        contenders = {
            "natsel": lambda: workers.natsel("measure", function="natsel_search", **own),
            "peer": lambda: workers.peers("kernel_search", **plain),
            "bare": lambda: workers.natsel("measure", function="bare_products", **own),
        }
    else:
        contenders = {
            "natsel": lambda: _here(natsel_search, job),
            "peer": lambda: _here(peer_search, job),
            "bare": lambda: _here(bare_products, job),
        }
    notes, picks = [], {}
    for name, work in contenders.items():
        try:
            if name == "peer" and unusable is not None:
                raise Failed(unusable)
            took = work()
        except Failed as reason:
            notes.append(f"{name}: {reason}")
            continue
        picks[name] = took["result"]
        row |= {f"{name}_s": median(took["wall_s_runs"]), f"{name}_cpu_s": median(took["cpu_s_runs"])}
        row |= {f"{name}_mib": took["peak_extra_mib"], f"{name}_s_runs": took["wall_s_runs"]}
    clock = "cpu_s" if job["device"] == "cpu" else "s"
    for slow, quick in (("peer", "natsel"), ("natsel", "bare")):
        if slow in picks and quick in picks:
            row[f"{slow}_over_{quick}"] = row[f"{slow}_{clock}"] / max(row[f"{quick}_{clock}"], 1e-9)
            row[f"{slow}_over_{quick}_wall"] = row[f"{slow}_s"] / max(row[f"{quick}_s"], 1e-9)
    if "natsel" in picks and "peer" in picks and job["search"] != "kmeanspp":
        row["same_picks"] = len(set(picks["natsel"]) & set(picks["peer"]))
    return row | {"note": "; ".join(notes)}


def _here(work: Callable[..., Any], job: dict[str, Any]) -> Any:
    """A job done by this process; whatever stops it must not stop the others."""
    try:
        return work(**job)
    except Exception as reason:
        raise Failed(f"{type(reason).__name__}: {reason}") from None
