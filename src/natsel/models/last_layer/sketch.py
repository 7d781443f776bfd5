"""Random sketches: P weights mixed into q columns so that products of rows stay right on average.

    rows' = rows Π/√q,   E[Π Πᵀ/q] = I          Π: signs ±1 (Rademacher) or Gaussian numbers, [P × q]
    products   Π = sign of the weight's output × sign of its input: linear layers alone, far less work
               (natsel.models.last_layer.layer_sketch)

Π is made in blocks of weights, each from (seed, block) alone: it is the same for training set, pool and targets,
whatever the device and the chunks, and is never held whole where that would take much memory.
docs/theory/weight-space.md, 4.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Literal, get_args

import torch
from torch import Tensor

from natsel.memory import memory_budget
from natsel.seeds import derive

Entries = Literal["rademacher", "gaussian", "products"]

_BLOCK = 4096  # weights; part of what decides the numbers, so never changed by memory


@dataclass(frozen=True)
class Sketch:
    """A projection to `columns`.

    >>> rows = torch.ones(1, 10_000)
    >>> sketched = Sketch(512).projector(10_000, torch.device("cpu"))(rows)
    >>> sketched.shape, bool((sketched @ sketched.T / 10_000 - 1).abs() < 0.2)
    (torch.Size([1, 512]), True)
    """

    columns: int = 512
    entries: Entries = "rademacher"
    seed: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.columns, bool) or not isinstance(self.columns, int) or self.columns < 1:
            raise ValueError(f"sketch: expected a number of columns from 1 on, found {self.columns!r}; 512 is usual")
        if self.entries not in get_args(Entries):
            raise ValueError(f"entries: expected {', '.join(get_args(Entries))}, found {self.entries!r}; choose one")

    def block(self, number: int, device: torch.device) -> Tensor:
        """Π/√q for the weights 4096·number … 4096·(number + 1) − 1, [4096, q] in float32."""
        generator = self._generator(number)
        if self.entries == "gaussian":
            return torch.randn(_BLOCK, self.columns, generator=generator).div_(self.columns**0.5).to(device)
        return self._ones(_BLOCK, generator, device).float().mul_(2 / self.columns**0.5).sub_(self.columns**-0.5)

    def signs(self, number: int, counts: tuple[int, int], device: torch.device) -> tuple[Tensor, Tensor]:
        """±1 for each of the outputs of a linear layer and for each of its inputs, [out, q] and [in, q]."""
        generator = self._generator(number)
        left_O_Q, right_I_Q = (self._ones(count, generator, device).float().mul_(2).sub_(1) for count in counts)
        return left_O_Q, right_I_Q

    def _generator(self, number: int) -> torch.Generator:
        return torch.Generator().manual_seed(derive(self.seed, "sketch", self.entries, self.columns, number))

    def _ones(self, count: int, generator: torch.Generator, device: torch.device) -> Tensor:
        """True with probability ½, [count, q]."""
        bytes_each = -(-self.columns // 8)
        bits = torch.randint(256, (count, bytes_each, 1), generator=generator, dtype=torch.uint8).to(device)
        places = torch.tensor([1, 2, 4, 8, 16, 32, 64, 128], dtype=torch.uint8, device=device)
        return (bits & places).bool().flatten(1)[:, : self.columns]

    def projector(self, weights: int, device: torch.device) -> Callable[[Tensor], Tensor]:
        """Rows [r, P] → [r, q]; Π is kept between calls where it takes at most half of the memory budget."""
        keep = 4 * weights * self.columns <= memory_budget() // 2
        block = cache(lambda number: self.block(number, device)) if keep else lambda number: self.block(number, device)

        def project(rows_r_P: Tensor) -> Tensor:
            found = rows_r_P.new_zeros(len(rows_r_P), self.columns)
            for number in range(-(-weights // _BLOCK)):
                part_r_p = rows_r_P[:, number * _BLOCK : (number + 1) * _BLOCK]
                found.addmm_(part_r_p, block(number)[: part_r_p.shape[1]].to(rows_r_P.dtype))
            return found

        return project
