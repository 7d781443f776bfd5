"""A network as it is: one draw, which knows what it predicts but not how sure its parameters are.

Entropy, margin and the like can be read from it; what needs several draws (BALD and its kin) cannot.
"""

import torch

from natsel.models.networks.architectures import Network
from natsel.models.networks.ensemble import Ensemble
from natsel.models.networks.training import Training


class Deterministic(Ensemble):
    """An ensemble of one.

    >>> import numpy as np
    >>> from natsel.data import Examples
    >>> from natsel.models import Training, mlp
    >>> model = Deterministic(mlp(2, 2), Training(max_epochs=2), device="cpu")
    >>> model.fit(Examples(np.eye(2), np.array([0, 1]))).believe(np.eye(2)).shape
    (2, 1, 2)
    """

    def __init__(
        self, network: Network, training: Training | None = None, device: torch.device | str | None = None
    ) -> None:
        super().__init__(network, 1, training, device)
