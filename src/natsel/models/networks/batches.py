"""Which examples each step of training learns from: a source of batches.

For one epoch and one member (one network of those that are trained side by side), a source yields steps. A step holds
the positions of B examples and, where the source wants them, one weight w_i per example. The member then descends

    1/B Σ_i l_i              without weights
    1/B Σ_i w_i l_i          with weights

where l_i is the loss of example i. Before it answers, a source may look at the losses of the network as it is at that
step. This is what online batch selection needs: many candidates are looked at, few of them are trained on (RHO-LOSS:
Mindermann et al. 2022; docs/theory/epig-jepig.md, 11). `UniformBatches` looks at nothing and takes all examples alike.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

# Fewest samples of an epoch made of whole passes: 20 labels are gone through 52 times before each look at validation.
_PASSES = 1024


@dataclass(frozen=True, eq=False)
class Step:
    """What one step learns from: positions of examples, and one weight per example (None: all weights are 1)."""

    positions_B: Tensor
    weights_B: Tensor | None = None


@dataclass(frozen=True, eq=False)
class MemberEpoch:
    """What a source is told about one epoch of one member.

    `number`: the number of the epoch, from 0.
    `n_examples`: positions are 0 .. n_examples − 1, the rows of the labelled examples.
    `batch`, `epoch_samples`: as in `natsel.models.Training`.
    `generator`: the random numbers of this member, on the CPU; a source takes no others.
    `losses`: positions_B → losses_B of the network as it is now: without gradient, in evaluation mode (no dropout).
    A look changes neither the network nor any random state.
    `device`: where the network is, and where `losses` puts its answer.
    """

    number: int
    n_examples: int
    batch: int
    epoch_samples: int | None
    generator: torch.Generator
    losses: Callable[[Tensor], Tensor]
    device: torch.device


@runtime_checkable
class Batches(Protocol):
    """A source of batches: a frozen value, passed as `Training(batches=…)`.

    Each step is asked for after the step before it is done, so that `epoch.losses` tells of the current weights. The
    members of an ensemble may be trained side by side: each has its own positions, but in every step all of them need
    equally many, and all epochs of one number equally many steps.

    >>> @dataclass(frozen=True)
    ... class Hardest:
    ...     candidates: int = 256
    ...
    ...     def steps(self, epoch):
    ...         for positions_B in uniform_parts(epoch, self.candidates):
    ...             hardest = epoch.losses(positions_B).topk(len(positions_B) // 4).indices
    ...             yield Step(positions_B[hardest])
    >>> import numpy as np
    >>> from natsel.data import Examples
    >>> from natsel.models import Training, mlp, train
    >>> training = Training(max_epochs=2, batches=Hardest())
    >>> len(train(mlp(2, 2), Examples(np.eye(2), np.array([0, 1])), training=training, device="cpu"))
    2
    """

    def steps(self, epoch: MemberEpoch) -> Iterable[Step]: ...


@dataclass(frozen=True)
class UniformBatches:
    """All examples alike, in random order: `epoch_samples` drawn with replacement, or whole passes over the data.

    >>> generator = torch.Generator().manual_seed(0)
    >>> epoch = MemberEpoch(0, 100, 4, 10, generator, lambda positions_B: positions_B, torch.device("cpu"))
    >>> [len(step.positions_B) for step in UniformBatches().steps(epoch)]  # 10 samples in batches of at most 4
    [4, 3, 3]
    """

    def steps(self, epoch: MemberEpoch) -> Iterator[Step]:
        for positions_B in uniform_parts(epoch, epoch.batch):
            yield Step(positions_B)


def uniform_parts(epoch: MemberEpoch, largest: int) -> tuple[Tensor, ...]:
    """The positions of a uniform epoch, on its device, cut into parts of at most `largest`, as even as can be.

    >>> generator = torch.Generator().manual_seed(0)
    >>> epoch = MemberEpoch(0, 700, 64, None, generator, lambda positions_B: positions_B, torch.device("cpu"))
    >>> [len(positions_B) for positions_B in uniform_parts(epoch, 500)]  # two passes, so that there are 1,024 or more
    [467, 467, 466]
    """
    if not largest > 0:
        raise ValueError(f"largest: must be greater than 0 (found {largest}); {epoch.batch} examples make a batch")
    # Moved once: one transfer in each step would let the device wait.
    order_S = _uniform_order(epoch).to(epoch.device)
    return order_S.tensor_split(-(-len(order_S) // largest))


def samples_per_epoch(n_examples: int, epoch_samples: int | None) -> int:
    """How many samples a uniform epoch has.

    >>> samples_per_epoch(700, None), samples_per_epoch(50_000, None), samples_per_epoch(50_000, 10)
    (1400, 50000, 10)
    """
    return n_examples * -(-_PASSES // n_examples) if epoch_samples is None else epoch_samples


def _uniform_order(epoch: MemberEpoch) -> Tensor:
    """The examples of an epoch, in order."""
    count, generator, samples = epoch.n_examples, epoch.generator, epoch.epoch_samples
    if samples is not None:
        return torch.randint(count, (samples,), generator=generator)
    passes = samples_per_epoch(count, None) // count
    return torch.cat([torch.randperm(count, generator=generator) for _ in range(passes)])
