"""A scoring pass as a CUDA graph: recorded once, then repeated in one launch.

    eager       hundreds of small operations, each launched from Python: 2 to 3 ms for a ResNet-18
    recorded    copy candidates in, launch once, read losses                the same operations on the weights of now

What Python does between the operations is done once, when they are recorded: a network that looks at its inputs to
decide what to compute cannot be recorded. Masks of dropout are drawn anew from the seed of each pass.
docs/theory/training-selection.md, 6.
"""

import torch
from torch import Tensor, nn

from natsel.models.networks.architectures import seeded
from natsel.sampling.scoring_pass import PassResult, ScoringPass


class RecordedPass:
    """The pass `scoring` of one network over candidates in the shape of the first ones, on a CUDA device.

    What a call returns is overwritten by the next call.
    """

    def __init__(
        self,
        scoring: ScoringPass,
        network: nn.Module,
        inputs: Tensor,
        labels: Tensor,
        feature_layer: str | None,
        parts: list[nn.Module],
    ) -> None:
        self.inputs, self.labels = inputs.clone(), labels.clone()
        self.parts, self.modes = parts, [part.training for part in parts]
        self.graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(self.graph):
                self.result = scoring.unseeded(network, self.inputs, self.labels, feature_layer, parts)
        except (RuntimeError, ValueError) as refusal:
            reason = str(refusal).strip().splitlines()[0]
            raise ValueError(
                f"cuda_graph: the pass over candidates cannot be recorded ({reason}); leave it out"
            ) from refusal

    def fits(self, inputs: Tensor, labels: Tensor) -> bool:
        """Whether candidates and modes are as those that were recorded; the last ones of an epoch may be fewer."""
        return self.modes == [part.training for part in self.parts] and all(
            one.shape == own.shape and one.dtype == own.dtype
            for one, own in ((inputs, self.inputs), (labels, self.labels))
        )

    def __call__(self, inputs: Tensor, labels: Tensor, seed: int) -> PassResult:
        """What `scoring` would say about candidates of that shape."""
        self.inputs.copy_(inputs)
        self.labels.copy_(labels)
        with seeded(seed, self.labels.device):
            self.graph.replay()
        return self.result
