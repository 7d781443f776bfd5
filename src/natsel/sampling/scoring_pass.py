"""The pass over candidates: the loss of each one under the network as it is, which leaves no trace in the network.

    loss_n = −ln p(y_n | x_n, θ)                             no gradients; float32, or float64 where the network is

In mode "train" batch norm takes its statistics over all candidates, and so the pass is never cut into chunks; parts
whose mode differs from that of the network, such as frozen batch norm, stay in it. In mode "eval" it takes the running
ones. Weights, gradients, modes, buffers (running statistics, vectors of spectral norm) and
the random numbers that training draws next stay what they were. Dropout draws from a seed of its own: the masks of the
next training step would otherwise be those of the pass.
docs/theory/training-selection.md, 6; Mindermann et al. 2022.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from natsel.models.networks.architectures import seeded
from natsel.models.networks.inputs import shapes_explained
from natsel.options import check_options
from natsel.sampling.candidates import parts_of

ExampleLoss = Callable[[Any, Tensor], Tensor]
"""Outputs of a network and labels → one loss per example."""


@dataclass(frozen=True)
class PassResult:
    """What a pass says about N candidates."""

    loss_N: Tensor
    outputs: Any
    """What the network answers, a tensor where that was one or held `logits`."""
    features_N_D: Tensor | None = None
    log_probs_N_K_C: Tensor | None = None
    """Predictions of K passes, where there were several."""

    @property
    def logits_N_C(self) -> Tensor | None:
        """One row of logits per candidate; None where the outputs are something else."""
        outputs = self.outputs
        return outputs if isinstance(outputs, Tensor) and outputs.ndim == 2 and outputs.shape[1] > 1 else None


@dataclass(frozen=True)
class ScoringPass:
    """How candidates are passed through a network: called with a network, inputs, labels and a seed.

    `loss` gives one loss per example from outputs and labels; by default it is the cross-entropy, summed over the
    labels of an example where it has several. `dropout=False` turns layers of dropout off in mode "train".
    `update_statistics` lets the pass move running statistics, as a plain forward pass would. `precision="bfloat16"`
    computes in autocast. `chunk` is how many candidates mode "eval" passes at a time.

    >>> network = nn.Linear(1, 2)
    >>> ScoringPass()(network, torch.zeros(3, 1), torch.tensor([0, 1, 1]), seed=0).loss_N.shape
    torch.Size([3])
    """

    loss: ExampleLoss | None = None
    mode: Literal["train", "eval"] = "train"
    dropout: bool = True
    update_statistics: bool = False
    precision: Literal["bfloat16"] | None = None
    chunk: int | None = None

    def __post_init__(self) -> None:
        check_options(self, chunk=1)
        if self.loss is not None and not callable(self.loss):
            raise ValueError(
                f"loss: expected a function of outputs and labels, found {self.loss!r}; leave it out for cross-entropy"
            )
        if self.chunk is not None and self.mode == "train":
            raise ValueError(
                "chunk: in mode 'train' statistics of batch norm run over all candidates together; leave chunk out, or"
                " use mode='eval'"
            )
        if self.update_statistics and self.mode == "eval":
            raise ValueError("update_statistics: mode 'eval' moves no statistics; leave it out, or use mode='train'")

    def __call__(
        self,
        network: nn.Module,
        inputs: Any,
        labels: Tensor,
        seed: int,
        feature_layer: str | None = None,
        parts: list[nn.Module] | None = None,
    ) -> PassResult:
        """The losses of candidates; with `feature_layer`, also what this layer of the network was called with.

        `parts`: all modules of the network, where a caller has listed them before.
        """
        with seeded(seed, labels.device):
            return self.unseeded(network, inputs, labels, feature_layer, parts)

    def unseeded(
        self,
        network: nn.Module,
        inputs: Any,
        labels: Tensor,
        feature_layer: str | None = None,
        parts: list[nn.Module] | None = None,
    ) -> PassResult:
        """As a call, with masks of dropout from the random numbers that come next."""
        parts = list(network.modules()) if parts is None else parts
        count = len(labels)
        size = self.chunk or max(1, count)
        features: list[Tensor] = []
        if feature_layer is None:
            hook: Any = nullcontext()
        else:
            layer = network.get_submodule(feature_layer)
            hook = layer.register_forward_pre_hook(lambda _, given: features.append(given[0].detach()))
        found = []
        explained = shapes_explained(network, inputs) if isinstance(inputs, Tensor) else nullcontext()
        with torch.no_grad(), hook, self._modes(parts), self._autocast(labels.device), explained:
            for start in range(0, count, size):
                some = inputs if size >= count else parts_of(inputs, slice(start, start + size))
                found.append(_logits(network(**some) if isinstance(some, Mapping) else network(some)))
        outputs = found[0] if len(found) == 1 else torch.cat(found)
        with torch.no_grad():
            loss_N = (self.loss or cross_entropy)(outputs, labels)
        if not isinstance(loss_N, Tensor) or loss_N.shape != (count,):
            shape = f"shape {tuple(loss_N.shape)}" if isinstance(loss_N, Tensor) else type(loss_N).__name__
            raise ValueError(
                f"loss: expected one number for each of {count} candidates, found {shape}; use reduction='none', and"
                " sum over the labels of one example"
            )
        wide = loss_N if loss_N.dtype == torch.float64 else loss_N.float()
        return PassResult(wide.detach(), outputs, torch.cat(features) if features else None)

    def draws(
        self, network: nn.Module, inputs: Any, labels: Tensor, seeds: list[int], parts: list[nn.Module] | None = None
    ) -> PassResult:
        """One pass per seed, with masks of dropout drawn anew for each candidate: mean losses, and all predictions.

        >>> network = nn.Sequential(nn.Dropout(), nn.Linear(1, 2))
        >>> ScoringPass().draws(network, torch.ones(3, 1), torch.tensor([0, 1, 1]), [0, 1]).log_probs_N_K_C.shape
        torch.Size([3, 2, 2])
        """
        passes = [self(network, inputs, labels, seed, None, parts) for seed in seeds]
        loss_N = torch.stack([one.loss_N for one in passes]).mean(0)
        logits = [one.logits_N_C for one in passes if one.logits_N_C is not None]
        if not logits:
            return PassResult(loss_N, None)
        log_probs_N_K_C = torch.stack(logits, 1).double().log_softmax(2)
        # Candidates whose loss is not finite are left out later; until then they need rows that are predictions.
        usual_N = loss_N.isfinite()[:, None, None]
        log_probs_N_K_C = log_probs_N_K_C.where(usual_N, -math.log(log_probs_N_K_C.shape[2]))
        return PassResult(loss_N, log_probs_N_K_C.logsumexp(1), None, log_probs_N_K_C)

    @contextmanager
    def _modes(self, parts: list[nn.Module]) -> Iterator[None]:
        """A block in which parts are in their modes; then modes and buffers are what they were."""
        training, before = self.mode == "train", [part.training for part in parts]
        if training and not before[0]:
            parts[0].train()  # as a training step will; what is frozen by then stays so
        for part in parts:
            if part.training and not (training and (self.dropout or not isinstance(part, _DropoutNd))):
                part.training = False
        silenced, kept = [], []
        for part in parts if training and not self.update_statistics else ():
            if isinstance(part, _BatchNorm):
                if part.training and part.track_running_stats and part.running_mean is not None:
                    part.track_running_stats = False  # it then takes those of the batch, and keeps none: no copy needed
                    silenced.append(part)
            elif part._buffers:
                own = {name: one for name, one in part._buffers.items() if one is not None}
                kept += [(part, name, one, one._version, one.clone()) for name, one in own.items()]
        try:
            yield
        finally:
            for part, mode in zip(parts, before, strict=True):
                if part.training != mode:
                    part.training = mode
            for part in silenced:
                part.track_running_stats = True
            for part, name, one, version, copy in kept:
                part._buffers[name] = one
                if one._version != version:
                    one.copy_(copy)

    def _autocast(self, device: torch.device) -> AbstractContextManager[Any]:
        """Autocast as asked for, else as it is around.

        Without its cache: older torch keeps weights there that were cast without gradients, and a step would use them.
        """
        around = torch.is_autocast_enabled(device.type)
        if self.precision is None and not around:
            return nullcontext()
        dtype = torch.bfloat16 if self.precision == "bfloat16" else torch.get_autocast_dtype(device.type)
        return torch.autocast(device.type, dtype, cache_enabled=False)


def cross_entropy(outputs: Any, labels: Tensor) -> Tensor:
    """−ln softmax(outputs)[label] of each example, summed over its labels where it has several.

    >>> cross_entropy(torch.zeros(2, 4), torch.tensor([1, 3])).exp().tolist()
    [4.0, 4.0]
    """
    fits = (
        isinstance(outputs, Tensor)
        and outputs.ndim >= 2
        and outputs.is_floating_point()
        and not labels.is_floating_point()
        and labels.shape == (len(outputs), *outputs.shape[2:])
    )
    if not fits:
        found = f"shape {tuple(outputs.shape)}" if isinstance(outputs, Tensor) else type(outputs).__name__
        raise ValueError(
            "loss: cross-entropy needs logits of examples × classes and one class per example, found outputs"
            f" of {found} and labels of shape {tuple(labels.shape)} in {labels.dtype}; pass loss=, a function that"
            " gives one loss per example"
        )
    wide = outputs if outputs.dtype == torch.float64 else outputs.float()
    try:
        loss_N = torch.nn.functional.cross_entropy(wide, labels.long(), reduction="none")
    except IndexError:  # on the CPU; to look for it on an accelerator would wait for it in every step
        classes = outputs.shape[1]
        wrong = int(labels[(labels < 0) | (labels >= classes)][0])
        raise ValueError(
            f"labels: found class {wrong}, and the network has logits of the classes 0 to {classes - 1}; use a network"
            " with more classes, or number the classes from 0"
        ) from None
    return loss_N.flatten(1).sum(1) if loss_N.ndim > 1 else loss_N


def _logits(outputs: Any) -> Any:
    """The logits of an answer that holds them under that name, as those of transformers do."""
    if isinstance(outputs, Mapping) and "logits" in outputs:
        return outputs["logits"]
    return outputs if isinstance(outputs, Tensor) else getattr(outputs, "logits", outputs)
