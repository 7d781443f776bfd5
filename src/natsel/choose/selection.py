"""What a selection is, and how it explains itself.

Per pick: its gain given the picks before it, the split of its uncertainty, and what it shares with earlier picks.

    H[Y|x] = I[Y;Ω|x] + H[Y|x,Ω]        epistemic (a label can remove it) + aleatoric (noise, it stays)
    overlap = I[Y;Ω|x] − I[Y;Ω|x,earlier picks]
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from natsel.beliefs import Belief
from natsel.choose.methods import Method
from natsel.objectives import EIG, ExpectedEntropy, Reading, offers, read


def exhausted(total: float, remaining: float) -> tuple[str, ...]:
    """A warning when a batch carries nearly all that its draws can ever tell: within 10 % of H[Ω], at most ln K.

    >>> exhausted(0.2, 0.8)
    ()
    """
    ceiling = total + remaining
    if not 0 < ceiling < torch.inf or total < 0.9 * ceiling:
        return ()
    return (
        f"draws exhausted: the batch carries {total:.3f} of the {ceiling:.3f} nats these draws can tell;"
        " use more draws or a smaller k",
    )


@dataclass(frozen=True)
class Pick:
    """One line of an explanation; all but `score` in nats."""

    id: int
    score: float
    gain: float
    epistemic: float
    aleatoric: float | None
    """None where the belief does not say how noisy labels are: weight space."""
    overlap: float


@dataclass(frozen=True)
class Explanation:
    """Why these points: a line per pick, what the batch carries together, and what to be wary of."""

    method: str
    picks: tuple[Pick, ...]
    information: float
    """I[Y_batch; Ω]: what all the labels together are expected to tell, in nats."""
    warnings: tuple[str, ...]

    def __str__(self) -> str:
        head = f"{'id':>10} {'score':>9} {'gain':>9} {'epistemic':>9} {'aleatoric':>9} {'overlap':>9}"
        lines = [
            f"{p.id:>10} {p.score:9.4f} {p.gain:9.4f} {p.epistemic:9.4f}"
            f" {'–' if p.aleatoric is None else f'{p.aleatoric:.4f}':>9} {p.overlap:9.4f}"
            for p in self.picks
        ]
        alone = sum(pick.epistemic for pick in self.picks)
        foot = f"{self.method}: {self.information:.4f} nats together, {alone:.4f} if the points did not overlap"
        return "\n".join([head, *lines, foot, *(f"! {warning}" for warning in self.warnings)])


@dataclass(frozen=True, eq=False)
class Selection:
    """A batch: `indices` are ids of the user's data in the order picked, `scores` one number per pick.

    Scores are marginal gains where the search builds the batch step by step, else the plain scores; `total` is the
    value of the batch under the method (for a sequential one its joint information in nats). Stochastic searches add
    `log_prob`, the log probability of this ordered batch, and the `perturbed` scores.
    """

    indices: np.ndarray[tuple[int], np.dtype[np.int64]]
    scores: Tensor
    total: float
    warnings: tuple[str, ...]
    method: Method
    picked: Belief = field(repr=False)
    log_prob: float | None = None
    perturbed: Tensor | None = field(default=None, repr=False)
    gaps: Tensor | None = field(default=None, repr=False)
    gap_errors: Tensor | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.indices)

    def __iter__(self) -> Iterator[int]:
        return iter(self.indices.tolist())

    def explain(self) -> Explanation:
        """Each pick's gain, its epistemic and aleatoric part and its overlap with earlier picks.

        >>> from natsel import CategoricalSamples, select
        >>> copies = CategoricalSamples.from_probs([[[1.0, 0.0], [0.0, 1.0]]] * 2)
        >>> [round(pick.overlap, 4) for pick in select("bald", copies, k=2).explain().picks]
        [0.0, 0.6931]
        """
        if len(self) == 0:
            return Explanation(self.method.name, (), 0.0, self.warnings)
        reading = Reading(None, None, torch.Generator().manual_seed(0))
        picked = getattr(self.picked, "teacher", self.picked)  # a model compared with its students speaks for itself
        state = read(EIG(), picked, reading)
        epistemic = state.scores().tolist()
        noisy = offers(ExpectedEntropy, type(picked)) is not None
        aleatoric = read(ExpectedEntropy(), picked, reading).scores().tolist() if noisy else [None] * len(self)
        gains = [max(0.0, state.add(position)) for position in range(len(self))]
        picks = tuple(
            Pick(id, score, gain, alone, noise, max(0.0, alone - gain))
            for id, score, gain, alone, noise in zip(
                self.indices.tolist(), self.scores.tolist(), gains, epistemic, aleatoric, strict=True
            )
        )
        warnings = dict.fromkeys((*self.warnings, *exhausted(state.total, state.remaining)))
        return Explanation(self.method.name, picks, state.total, tuple(warnings))
