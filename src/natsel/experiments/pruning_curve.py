"""Pruning curves: how accurate training is on the share of the examples that each score keeps.

    for each method, share and trial:  n = ⌊keep · N + 10⁻⁹⌋ examples with the highest scores are trained on
    random                             a fresh subset in each trial

Fewer examples are fewer steps per pass. Whatever was kept, either the number of passes stays the same
(`same="epochs"`), or the number of steps does (`same="steps"`): N/n times as many passes.
docs/theory/data-pruning.md, 6; Paul et al. 2021; Kirsch 2023.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from natsel.options import Rows
from natsel.seeds import derive

Same = Literal["epochs", "steps"]


@dataclass(frozen=True, eq=False)
class Kept:
    """What one training of a pruning curve learns from.

    `positions_n`: the examples that are kept. `passes`: how many times as many passes are made over them as over all
    examples. `seed`: of the training; it is the same for all methods and shares of a trial.
    """

    method: str
    keep: float
    trial: int
    positions_n: np.ndarray[Any, Any]
    passes: float
    seed: int


@dataclass(frozen=True, eq=False)
class PruningCurve:
    """Accuracies of M methods at S shares in T trials."""

    methods: tuple[str, ...]
    keeps: tuple[float, ...]
    accuracy_M_S_T: np.ndarray[Any, np.dtype[np.float64]]

    def mean(self, method: str, keep: float) -> float:
        """The mean accuracy over trials."""
        if method not in self.methods or keep not in self.keeps:
            there = f"{', '.join(self.methods)} at {', '.join(map(str, self.keeps))}"
            raise ValueError(f"method, keep: found {method!r} at {keep!r}; there are {there}")
        return float(self.accuracy_M_S_T[self.methods.index(method), self.keeps.index(keep)].mean())


def kept_set(
    method: str,
    score_N: Rows | None,
    count: int,
    keep: float,
    trial: int,
    *,
    same: Same = "epochs",
    seed: int = 0,
) -> Kept:
    """What a method keeps of `count` examples in one trial; without scores random examples, drawn anew in each trial.

    >>> kept = kept_set("error", [0.1, 0.9, 0.5, 0.2], 4, 0.5, trial=0, same="steps")
    >>> kept.positions_n.tolist(), kept.passes
    ([1, 2], 2.0)
    """
    from natsel.sampling import kept_positions

    if same not in ("epochs", "steps"):
        raise ValueError(f"same: expected epochs or steps, found {same!r}; choose what stays the same")
    if score_N is None:
        score_N = np.random.default_rng(derive(seed, "random", trial)).random(count)
    positions_n = kept_positions(score_N, keep, seed=derive(seed, "ties", trial))
    passes = count / len(positions_n) if same == "steps" else 1.0
    return Kept(method, float(keep), trial, positions_n, passes, derive(seed, "trial", trial))


def pruning_curve(
    train: Callable[[Kept], float],
    scores: Mapping[str, Rows | None],
    keeps: Sequence[float],
    trials: int = 3,
    *,
    same: Same = "epochs",
    seed: int = 0,
) -> PruningCurve:
    """Train on what each score keeps, and say how accurate the results are.

    `train`: makes a network from `kept.seed`, trains it on `kept.positions_n` and returns its test accuracy. `scores`:
    one number per example by name, the highest are kept; None stands for random examples. `same`: "epochs" or "steps".

    >>> share = lambda kept: len(kept.positions_n) / 4
    >>> curve = pruning_curve(share, {"error": [0.1, 0.9, 0.5, 0.2], "random": None}, [0.5, 1.0], trials=2)
    >>> curve.mean("error", 0.5), curve.accuracy_M_S_T.shape
    (0.5, (2, 2, 2))
    """
    counts = {name: len(score_N) for name, score_N in scores.items() if score_N is not None}
    if len(set(counts.values())) != 1:
        raise ValueError(
            f"scores: expected one number per example in each, found {counts or 'none'}; pass those of one data set"
        )
    if not keeps or trials < 1:
        raise ValueError(f"keeps: found {list(keeps)} in {trials} trials; pass at least one share and one trial")
    count = next(iter(counts.values()))
    # All before the first training: a share that keeps nothing, or a score that is not a number, is refused at once.
    all_kept = [
        kept_set(method, score_N, count, keep, trial, same=same, seed=seed)
        for method, score_N in scores.items()
        for keep in keeps
        for trial in range(trials)
    ]
    found = np.array([float(train(kept)) for kept in all_kept])
    return PruningCurve(tuple(scores), tuple(map(float, keeps)), found.reshape(len(scores), len(keeps), trials))
