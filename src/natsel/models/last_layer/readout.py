"""The last layer of a network, or all of a linear model: features in, outputs z = W x out.

    x = [features; 1] where there is a bias,     W: [C × D], its bias the last column
    x = [scale · features; bias gain]            of a ScaledLinear layer (neural tangent parametrisation)

Features are what the last linear layer of a forward pass is called with, caught by a hook, in chunks. Outputs are
computed from them in float64, so what follows that layer must not change predictions: nothing, or a log-softmax.
docs/theory/weight-space.md, 3.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from natsel.memory import chunked
from natsel.models.networks.evaluation_mode import evaluating
from natsel.models.networks.inputs import reader_of, shapes_explained
from natsel.models.networks.ntk import ScaledLinear
from natsel.models.networks.outputs import Outputs
from natsel.models.networks.prediction import POINTS_AT_A_TIME, TRIED, bytes_per_point, check_outputs
from natsel.models.protocol import Progress
from natsel.models.rows import rows_of
from natsel.options import Rows

LinearLayer = nn.Linear | ScaledLinear

Reader = Callable[[Any, Progress | None], Tensor]
"""Inputs → features_N_D, with the constant 1 as the last where the layer has a bias."""


@dataclass(frozen=True, eq=False)
class Readout:
    """How features are read, and the weights that turn them into outputs.

    >>> readout = Readout(lambda inputs, progress: torch.as_tensor(inputs), torch.tensor([[2.0, 1.0]]))
    >>> readout.logits(readout.features([[3.0, 1.0]])).tolist()
    [[7.0]]
    """

    read: Reader
    weight_C_D: Tensor
    offset_C: Tensor | None = None  # −∞ for classes without a label so far

    def features(self, inputs: Rows, progress: Progress | None = None) -> Tensor:
        """What the layer sees of inputs."""
        if len(inputs) == 0:
            raise ValueError("inputs: found none to believe about; pass at least one")
        features_N_D = self.read(inputs, progress)
        expected = self.weight_C_D.shape[1]
        if features_N_D.ndim != 2 or features_N_D.shape[1] != expected:
            raise ValueError(
                f"inputs: expected {expected} features for each, a constant counted, found shape"
                f" {tuple(features_N_D.shape)}; pass inputs like those it was fitted to"
            )
        return features_N_D

    def logits(self, features_n_D: Tensor, weight_C_D: Tensor | None = None) -> Tensor:
        """Outputs at features, in float64."""
        weight_C_D = self.weight_C_D if weight_C_D is None else weight_C_D
        logits_n_C = features_n_D.double() @ weight_C_D.double().T
        return logits_n_C if self.offset_C is None else logits_n_C + self.offset_C


def curvature_of(readout: Readout, outputs: Outputs, features_N_D: Tensor) -> Tensor:
    """The curvature of outputs at features, in chunks that keep to the memory budget."""
    bytes_each = 8 * (features_N_D.shape[1] + 3 * len(readout.weight_C_D))
    work = lambda part: outputs.curvature(readout.logits(features_N_D[part]))  # noqa: E731
    return chunked(work, len(features_N_D), bytes_each, features_N_D.device)


def readout_of_module(module: nn.Module, inputs: Any, device: torch.device) -> Readout:
    """The last linear layer that a module calls, found by trying two of the inputs.

    >>> network = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))
    >>> readout_of_module(network, torch.zeros(2, 3), torch.device("cpu")).weight_C_D.shape
    torch.Size([2, 6])
    """
    module.to(device)
    layer, bytes_each = last_linear(module, inputs, device)
    weight_C_D = layer.weight.detach().double()
    if layer.bias is not None:
        weight_C_D = torch.cat([weight_C_D, layer.bias.detach().double()[:, None]], 1)

    def read(inputs: Any, progress: Progress | None) -> Tensor:
        seen: list[Tensor] = []
        tensor_of = reader_of(module, inputs, device)
        hook = layer.register_forward_pre_hook(lambda _, given: seen.append(given[0].detach()))

        def work(part: slice) -> Tensor:
            seen.clear()
            module(tensor_of(part).clone())  # a module may work in place
            if progress:
                progress(part.stop, len(inputs))
            return seen_by_weights(layer, seen[-1])

        try:
            with torch.no_grad(), evaluating(module):
                return chunked(work, len(inputs), bytes_each, device, at_least=POINTS_AT_A_TIME)
        finally:
            hook.remove()

    return Readout(read, weight_C_D)


def seen_by_weights(layer: LinearLayer, inputs_n_D: Tensor) -> Tensor:
    """x with z = W x, from what a layer is called with: scaled as it scales, what its bias is multiplied with last.

    >>> seen_by_weights(nn.Linear(1, 1), torch.zeros(1, 1)).tolist()
    [[0.0, 1.0]]
    """
    if isinstance(layer, ScaledLinear):
        return _with_constant(inputs_n_D * layer.scale, layer.bias_gain)
    return inputs_n_D if layer.bias is None else _with_constant(inputs_n_D)


def readout_of_estimator(estimator: Any, inputs: Any, classes: int | None) -> Readout:
    """A fitted scikit-learn linear model; columns of outputs are the labels 0..classes−1 (None: numbers).

    Two classes are one logit, as the estimator has it.

    >>> from sklearn.linear_model import LogisticRegression
    >>> fitted = LogisticRegression().fit([[0.0], [1.0]], [0, 1])
    >>> readout_of_estimator(fitted, np.zeros((1, 1)), 2).weight_C_D.shape
    torch.Size([1, 2])
    """
    if not hasattr(estimator, "coef_") or not hasattr(estimator, "intercept_"):
        raise ValueError(
            f"estimator: {type(estimator).__name__} has no coefficients, so it is no linear model; pass for example"
            " sklearn.linear_model.LogisticRegression()"
        )
    slope_c_D = torch.as_tensor(np.atleast_2d(estimator.coef_), dtype=torch.float64)
    constant = bool(getattr(estimator, "fit_intercept", True))
    start_c = torch.as_tensor(np.atleast_1d(estimator.intercept_), dtype=torch.float64).expand(len(slope_c_D))
    weight_c_D = torch.cat([slope_c_D, start_c[:, None]], 1) if constant else slope_c_D

    def read(inputs: Any, progress: Progress | None) -> Tensor:
        rows_N_D = torch.from_numpy(rows_of(inputs))
        return _with_constant(rows_N_D) if constant else rows_N_D

    if classes is None:
        return Readout(read, weight_c_D)
    seen_c = [int(label) for label in estimator.classes_]
    if len(weight_c_D) == 1 and len(seen_c) == classes == 2:
        readout = Readout(read, weight_c_D)
    else:
        rows_c_D = weight_c_D if len(weight_c_D) > 1 else torch.cat([-weight_c_D / 2, weight_c_D / 2])
        weight_C_D = torch.zeros(classes, rows_c_D.shape[1], dtype=torch.float64)
        offset_C = torch.full((classes,), -torch.inf, dtype=torch.float64)
        weight_C_D[seen_c], offset_C[seen_c] = rows_c_D, 0.0
        readout = Readout(read, weight_C_D, None if len(seen_c) == classes else offset_C)
    _check_probabilities(readout, estimator, inputs, seen_c)
    return readout


def _check_probabilities(readout: Readout, estimator: Any, inputs: Any, seen_c: list[int]) -> None:
    """One-against-the-rest models have coefficients too, but their probabilities are no softmax of them."""
    from sklearn.linear_model import LogisticRegression, LogisticRegressionCV  # here, as it takes a second

    rows = rows_of(inputs[:16])
    logits_n_C = readout.logits(readout.features(rows))
    single = logits_n_C.shape[1] == 1
    ours_n_c = torch.cat([-logits_n_C, logits_n_C], 1).sigmoid() if single else logits_n_C.softmax(1)[:, seen_c]
    # Where all rows are sure both say the same, so several classes need what is known to be multinomial.
    known = len(seen_c) == 2 or isinstance(estimator, LogisticRegression | LogisticRegressionCV)
    known = known and hasattr(estimator, "predict_proba")
    if not known or not torch.allclose(ours_n_c, torch.as_tensor(estimator.predict_proba(rows)).double(), atol=1e-6):
        raise ValueError(
            f"estimator: the probabilities of {type(estimator).__name__}, if any, are no softmax of its outputs; fit a"
            " multinomial one, such as sklearn.linear_model.LogisticRegression()"
        )


def last_linear(module: nn.Module, inputs: Any, device: torch.device) -> tuple[LinearLayer, int]:
    """The last linear layer that a module calls, and the bytes that a forward pass takes for one input.

    >>> last_linear(nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 2)), torch.zeros(2, 3), torch.device("cpu"))[0]
    Linear(in_features=5, out_features=2, bias=True)
    """
    calls: list[tuple[LinearLayer, Tensor, Tensor]] = []
    few = reader_of(module, inputs, device)(slice(0, TRIED))
    hooks = [
        part.register_forward_hook(lambda layer, given, output: calls.append((layer, given[0], output)))
        for part in module.modules()
        if isinstance(part, LinearLayer)
    ]
    try:
        with torch.no_grad(), evaluating(module), shapes_explained(module, few):
            outputs_n_C = module(few.clone())
            last = calls[-1] if calls else None
            if isinstance(outputs_n_C, Tensor) and outputs_n_C.ndim == 2:
                check_outputs(module, few)
            bytes_each = bytes_per_point(module, few[:1])
    finally:
        for hook in hooks:
            hook.remove()
    if last is None:
        raise ValueError(
            "network: it calls no linear layer, so it has no last layer to be unsure of; end it with nn.Linear, or use"
            " natsel.models.Gradients"
        )
    layer, features_n_D, own_n_C = last
    if not isinstance(outputs_n_C, Tensor):
        found = type(outputs_n_C).__name__
        raise ValueError(f"network: expected a tensor of outputs, found {found}; wrap it so that it returns its logits")
    if features_n_D.ndim != 2 or not _same_predictions(outputs_n_C, own_n_C):
        raise ValueError(
            f"network: its outputs of shape {tuple(outputs_n_C.shape)} are not those of its last linear layer,"
            f" {tuple(own_n_C.shape)}; end it with nn.Linear (a log-softmax may follow), or use natsel.models.Gradients"
        )
    return layer, bytes_each


def _same_predictions(outputs_n_C: Any, own_n_C: Tensor) -> bool:
    if not isinstance(outputs_n_C, Tensor) or outputs_n_C.shape != own_n_C.shape:
        return False
    if torch.allclose(outputs_n_C, own_n_C, rtol=1e-4, atol=1e-5):
        return True
    normalised = bool((outputs_n_C.exp().sum(-1) - 1).abs().max() < 1e-3) and own_n_C.shape[-1] > 1
    return normalised and torch.allclose(outputs_n_C, own_n_C.log_softmax(-1), rtol=1e-4, atol=1e-4)


def _with_constant(features_n_D: Tensor, constant: float = 1.0) -> Tensor:
    return torch.cat([features_n_D, features_n_D.new_full((len(features_n_D), 1), constant)], 1)
