"""Posteriors of laplace-torch as beliefs in weight space (extra `laplace`).

    last_layer   weights, then biases     →  FisherFactors, renumbered class-major with the bias as the last feature
    all          parameters in order      →  FisherRows: gradients of all weights
    precision    full → dense, diag → diagonal, kron → dense (a prior is added to its products), lowrank → low rank

The curvature and the prior are laplace-torch's; gradients and features are natsel's own.
docs/theory/weight-space.md, 3 and 4.
"""

from typing import Any, Literal

import torch
from torch import Tensor, nn

from natsel.beliefs import FisherFactors, FisherRows
from natsel.information.weights.output_curvature import root
from natsel.information.weights.positive_definite import with_ridge
from natsel.information.weights.precision import Dense, Diagonal, LowRank, Precision
from natsel.memory import require
from natsel.models.fingerprints import fingerprint
from natsel.models.last_layer.per_example import gradient_rows, learnable
from natsel.models.last_layer.readout import curvature_of, readout_of_module
from natsel.models.networks.outputs import Outputs, outputs_with_likelihood
from natsel.models.networks.prediction import predict
from natsel.models.protocol import Progress
from natsel.options import Rows


class LaplaceTorch:
    """A fitted `laplace.Laplace` object that believes; it is not fitted again.

    `subset_of_weights`: "last_layer" or "all"; the structure may be full, kron, diag or (for all) lowrank. Believing
    about all weights takes N·C·P numbers: for networks of any size use the last layer, or `natsel.models.Gradients`.
    """

    def __init__(self, fitted: Any) -> None:
        try:
            from laplace.baselaplace import DiagLaplace, FullLaplace, KronLaplace, LowRankLaplace
            from laplace.lllaplace import LLLaplace
        except ImportError as reason:
            raise ValueError(
                f"fitted: laplace-torch is absent ({reason.name}); pip install 'natsel[laplace]'"
            ) from reason
        if not isinstance(fitted, DiagLaplace | FullLaplace | KronLaplace | LowRankLaplace):
            raise ValueError(
                f"fitted: expected a fitted laplace.Laplace of full, kron, diag or lowrank structure, found"
                f" {type(fitted).__name__}; pass Laplace(model, likelihood, …) after its fit"
            )
        if str(fitted.likelihood).rsplit(".", 1)[-1].lower() not in ("classification", "regression"):
            raise ValueError(f"fitted: its likelihood is {fitted.likelihood}; classification or regression is needed")
        if fitted.H is None or not getattr(fitted, "n_outputs", None):
            raise ValueError("fitted: it has no curvature yet; call its fit with the training data first")
        self.fitted, self.last_layer = fitted, isinstance(fitted, LLLaplace)
        self.module: nn.Module = fitted.model
        self.device = next(self.module.parameters()).device
        self._outputs = self._outputs_of_fitted()
        order_P = self._class_major_order() if self.last_layer else None
        self.precision, self.warnings = self._precision(order_P)
        parts = [tensor.cpu().numpy() for tensor in self.precision.tensors().values()]
        self._name = f"laplace-torch:{fingerprint(self.module, self._outputs, *parts)}"

    def believe(self, inputs: Rows, *, progress: Progress | None = None) -> FisherFactors | FisherRows:
        """Factors of the last layer, or rows of all weights, with the posterior's precision."""
        belief = (self._factors if self.last_layer else self._rows)(inputs, progress)
        belief._set(warnings=self.warnings)
        return belief

    def _factors(self, inputs: Any, progress: Progress | None) -> FisherFactors:
        readout = readout_of_module(self.module, inputs, self.device)
        features_N_D = readout.features(inputs, progress)
        outputs_N_C = curvature_of(readout, self._outputs, features_N_D)
        return FisherFactors(features_N_D, outputs_N_C, self._outputs.kind, self.precision, draws_id=self._name)

    def _rows(self, inputs: Any, progress: Progress | None) -> FisherRows:
        outputs_N_C = self._outputs.curvature(predict([self.module], inputs, self.device)[:, 0])
        count, weights = outputs_N_C.shape[1], sum(each.numel() for each in learnable(self.module).values())
        require(
            4 * len(inputs) * count * weights,
            f"inputs: {len(inputs)} × {count} rows of {weights} weights",
            "ask about fewer at a time, use subset_of_weights='last_layer'",
        )
        rows_N_R_P = gradient_rows(
            self.module,
            inputs,
            lambda part: root(outputs_N_C[part], self._outputs.kind),
            count,
            self.device,
            progress=progress,
        )
        return FisherRows._own(rows_N_R_P, self.precision, draws_id=self._name)

    def _outputs_of_fitted(self) -> Outputs:
        likelihood: Literal["gaussian", "categorical"] = (
            "gaussian" if "regression" in str(self.fitted.likelihood).lower() else "categorical"
        )
        if likelihood == "categorical" and self.fitted.n_outputs == 1:
            raise ValueError("fitted: one output for classes; laplace-torch takes a softmax over at least two")
        noise = float(torch.as_tensor(self.fitted.sigma_noise).square())
        return outputs_with_likelihood(likelihood, noise)

    def _class_major_order(self) -> Tensor:
        """Where each class-major weight (its bias last) stands among all weights followed by all biases."""
        layer = self.fitted.model.last_layer
        outputs, width = layer.weight.shape
        places_C_D = torch.arange(outputs * width).view(outputs, width)
        if layer.bias is None:
            return places_C_D.flatten()
        return torch.cat([places_C_D, outputs * width + torch.arange(outputs)[:, None]], 1).flatten()

    def _precision(self, order_P: Tensor | None) -> tuple[Precision, tuple[str, ...]]:
        found = self.fitted.posterior_precision
        if isinstance(found, tuple):
            (vectors_P_r, values_r), prior_P = found
            if not torch.allclose(prior_P, prior_P[0].expand_as(prior_P)):
                raise ValueError("fitted: a low rank needs one prior precision for all weights; fit it with a number")
            return LowRank(vectors_P_r.T, values_r, prior_P[0]).to(self.device), ()
        matrix: Tensor = found.to_matrix() if hasattr(found, "to_matrix") else found
        matrix = matrix.detach().double().to(self.device)
        if order_P is not None:
            order_P = order_P.to(self.device)
            matrix = matrix[order_P] if matrix.ndim == 1 else matrix[order_P][:, order_P]
        if matrix.ndim == 1:
            return Diagonal(matrix), ()
        matrix_P_P, ridge = with_ridge((matrix + matrix.T) / 2)
        if ridge == 0:
            return Dense(matrix_P_P), ()
        return Dense(matrix_P_P), (
            f"singular precision: that of laplace-torch leaves directions of the weights unknown, so a ridge of"
            f" {ridge:.3g} was added; scores depend on it, so fit it with a larger prior precision",
        )
