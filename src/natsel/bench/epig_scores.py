"""EPIG: full scores against bare matrix products and against plain arithmetic, and the best points by shortlist.

    ours     Σ Q φ(r), block by block                                               natsel.score("epig", …)
    bare     the products of these blocks and nothing else                          what the hardware needs at least
    plain    H[Y] + H[Y*] − H[Y,Y*]: matmul and xlogy by slices of the pool         how it is usually written
    picks    the `pick` best by shortlist; `looked_at` counts the points scored in full on the way

Draws are those of a linear classifier. Where only the first `scored` points are scored in full, it is not known whether
full scoring picks the same (`same_picks` is None). docs/theory/epig-jepig.md.
"""

from typing import Any

import torch
from torch import Tensor

import natsel
from natsel.beliefs import Targets
from natsel.bench.laps import device_name, timed
from natsel.information.predictive_information import _COLUMNS, predicted
from natsel.objectives import EPIG, Context
from natsel.objectives.readings.draws.epig_categorical import CategoricalEPIG
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
    repeat: int = 1,
) -> dict[str, Any]:
    """Score and select, and say what it took; `scored` candidates are scored in full (None: all).

    >>> found = measure(points=60, targets=20, draws=8, classes=3, pick=5)
    >>> found["same_picks"], found["scored"]
    (True, 60)
    """
    place = torch.device(device)
    pool, about = (predictions(count, draws, classes, seed, place) for seed, count in enumerate((points, targets)))
    belief, target_belief = natsel.CategoricalSamples(pool), natsel.CategoricalSamples(about)
    some = belief if scored is None else belief[: min(scored, points)]
    natsel.select(
        "epig", some[:50], min(2, len(some)), targets=target_belief[:50]
    )  # what is done once for all is not timed
    bare, _ = timed(lambda run: _bare(some.log_probs_N_K_C, about), repeat, device)
    plain, plain_N = timed(lambda run: _plain(some.log_probs_N_K_C, about), repeat, device)
    ours, score_N = timed(lambda run: natsel.score("epig", some, targets=target_belief), repeat, device)
    watched = [_watched(belief, target_belief) for _ in range(repeat)]  # a new state for each run
    allowed_N = torch.ones(points, dtype=torch.bool)
    chosen, picks = timed(lambda run: TopK()(watched[run][0], pick, allowed_N, torch.Generator()), repeat, device)
    score_N, plain_N, positions = score_N.cpu(), plain_N.cpu(), picks.positions.tolist()
    return {
        "device": device_name(place),
        "scored": len(some),
        "ours": ours,
        "bare": bare,
        "plain": plain,
        "picks": chosen,
        "looked_at": len(watched[-1][1]),
        "positions": positions,
        "same_picks": positions == stable_top_k(pick, score_N).tolist() if len(some) == points else None,
        "mean_score": float(score_N.mean()),
        "largest_difference": float((score_N - plain_N).abs().max()),
        "plain_negative": int((plain_N < 0).sum()),
        "budget_mib": natsel.memory_budget() / 2**20,
    }


def predictions(count: int, draws: int, classes: int, seed: int, device: torch.device) -> Tensor:
    """A linear classifier's draws, the same for every `seed`, at inputs of its own.

    >>> predictions(2, 3, 4, 0, torch.device("cpu")).shape
    torch.Size([2, 3, 4])
    """
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
    columns = _COLUMNS if log_probs_N_K_C.device.type == "cpu" else 16 * _COLUMNS
    rows = max(1, (1 << 23) // (4 * classes * (4 * draws + 2 * columns)))
    probs_K_MC = predicted(log_probs_M_K_C)
    room = log_probs_N_K_C.new_empty(rows * classes, columns)
    for part in torch.split(log_probs_N_K_C, rows):
        probs_K_nC = predicted(part)
        for probs_K_mC in torch.split(probs_K_MC, columns, 1):
            torch.mm(probs_K_nC.T, probs_K_mC, out=room[: probs_K_nC.shape[1], : probs_K_mC.shape[1]])
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


def _watched(belief: natsel.CategoricalSamples, targets: natsel.CategoricalSamples) -> tuple[Any, list[int]]:
    """The state of EPIG, and the positions that it is asked to score in full."""
    state = CategoricalEPIG(EPIG(), belief, Context(Targets(targets), None, torch.Generator()))
    looked: list[int] = []
    scores_at = state.scores_at

    def counted(positions: Tensor) -> Tensor:
        looked.extend(positions.tolist())
        score_n: Tensor = scores_at(positions)
        return score_n

    state.scores_at = counted  # type: ignore[method-assign]
    return state, looked
