"""Checkpoints: a fit that was killed goes on where it stood, and one that is done is not done again.

    <folder>/fit-<hash of settings, seeds, data and initial weights>.safetensors

One file for each fit, named by all that decides it: the fits of an ensemble or of the rounds of a run lie side by side,
and a fit with other settings never finds the file of another. A file holds what the next epoch depends on: weights and
buffers, those of the kept epoch, the state of the optimiser, all random states, and as text the epochs so far. It is
written at the end of an epoch, at most once a minute, to another name first, so that no half-written file is ever
found. When the fit ends, the file keeps the weights and epochs alone; it stays, and it may be deleted at any time.

On a CPU a fit that goes on ends with the same bits as one that was never stopped.
"""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from natsel.containers import Arrays, open_arrays, write_arrays
from natsel.models.fingerprints import fingerprint

_SECONDS_BETWEEN = 60.0


class Checkpoint:
    """The file of one fit, and the tensors that it is written from and read into.

    `decided_by`: values and tensors that decide the fit; `state`, `kept`, `optimiser` and `generators` are read and
    changed in place.

    >>> import tempfile
    >>> weights = torch.ones(2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     parts = [weights], [weights.clone()], torch.optim.SGD([weights]), [], weights.device
    ...     Checkpoint(folder, ["a fit"], *parts).write({"epoch": 3}, done=True)
    ...     Checkpoint(folder, ["a fit"], *parts).resume()
    {'epoch': 3}
    """

    def __init__(
        self,
        folder: str | Path,
        decided_by: Sequence[Any],
        state: list[Tensor],
        kept: list[Tensor],
        optimiser: torch.optim.Optimizer,
        generators: list[torch.Generator],
        device: torch.device,
    ) -> None:
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"fit-{fingerprint(*decided_by)}.safetensors"
        self.state, self.kept, self.optimiser, self.generators = state, kept, optimiser, generators
        self.device, self.last_written = device, time.monotonic()

    def resume(self) -> dict[str, Any] | None:
        """Take up what the file holds; the facts that were written with it, or None where there is no file."""
        if not self.path.exists():
            return None
        try:
            self._take_up(open_arrays(self.path))
            facts: dict[str, Any] = json.loads(open_arrays(self.path).texts["facts"])
        except (ValueError, KeyError) as reason:
            raise ValueError(f"checkpoint: {self.path} cannot be read ({reason}); delete it to start afresh") from None
        return facts

    def write(self, facts: dict[str, Any], *, done: bool = False) -> None:
        """Write the file, where the last time is long enough ago or the fit is done."""
        if not done and time.monotonic() - self.last_written < _SECONDS_BETWEEN:
            return
        tensors = {f"kept.{number}": tensor for number, tensor in enumerate(self.kept)}
        if not done:
            tensors |= {f"state.{number}": tensor for number, tensor in enumerate(self.state)}
            tensors |= {f"generator.{number}": one.get_state() for number, one in enumerate(self.generators)}
            tensors |= {f"random.{place}": values for place, values in self._random_states().items()}
            for number, values in self.optimiser.state_dict()["state"].items():
                found = {name: value for name, value in values.items() if value is not None}
                tensors |= {f"optimiser.{number}.{name}": torch.as_tensor(value) for name, value in found.items()}
        write_arrays(
            self.path,
            {name: tensor.detach().cpu() for name, tensor in tensors.items()},
            {"facts": json.dumps(facts), "done": json.dumps(done)},
        )
        self.last_written = time.monotonic()

    def _take_up(self, file: Arrays) -> None:
        for number, tensor in enumerate(self.kept):
            tensor.copy_(file.read(f"kept.{number}"))
        if json.loads(file.texts["done"]):
            return
        for number, tensor in enumerate(self.state):
            tensor.copy_(file.read(f"state.{number}"))
        for number, generator in enumerate(self.generators):
            generator.set_state(file.read(f"generator.{number}"))
        torch.set_rng_state(file.read("random.cpu"))
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(file.read("random.cuda"), self.device)
        states: dict[int, dict[str, Tensor]] = {}
        for name in file.shapes:
            if name.startswith("optimiser."):
                _, number_text, key = name.split(".", 2)
                states.setdefault(int(number_text), {})[key] = file.read(name)
        self.optimiser.load_state_dict(self.optimiser.state_dict() | {"state": states})
        for parameter, values in self.optimiser.state.items():
            for key, value in values.items():  # in the memory layout of its weight, as fused steps want it
                if isinstance(value, Tensor) and value.shape == parameter.shape:
                    values[key] = torch.empty_like(parameter).copy_(value)

    def _random_states(self) -> dict[str, Tensor]:
        states = {"cpu": torch.get_rng_state()}
        if self.device.type == "cuda":
            states["cuda"] = torch.cuda.get_rng_state(self.device)
        return states
