"""All weights of a network as a Gaussian: per-example gradients, whole or sketched, as rows of a belief.

    expected   √π_c g_c for every class c       C rows: the generalised Gauss–Newton matrix, F = J ᵀ Λ J
    hard       g_y at the likeliest class       1 row: what BADGE and LogDet take, too small on average
    sampled    g_y at a label drawn from π      1 row: right on average
    true       g_y at the label itself          1 row: active sampling, GraNd
    H = Σ_train Vᵀ V + λ I                      always from the expected rows, in the sketch where there is one

Believes `natsel.FisherRows`. Rows of P weights are N·R·P numbers, so networks of more than q weights are sketched to q
columns unless told otherwise, with the same projection for training set, pool and targets. `Sketch(q, "products")` of a
network of linear layers never makes a gradient: it is made of what layers see and of gradients in their outputs.
docs/theory/weight-space.md, 3, 4 and 8; docs/theory/black-box.md.
"""

from typing import Any, Literal, Self, get_args

import torch
from torch import Tensor, nn

from natsel.beliefs import Belief, FisherFactors, FisherRows
from natsel.data.examples import Examples, InputForm, as_labelled
from natsel.information.weights.factors import RowFactors
from natsel.information.weights.output_curvature import Kind, root
from natsel.information.weights.posterior import Structure, checked_prior, posterior
from natsel.memory import require
from natsel.models.fingerprints import fingerprint
from natsel.models.last_layer.layer_sketch import layer_sketch_rows
from natsel.models.last_layer.per_example import gradient_rows, learnable
from natsel.models.last_layer.sketch import Sketch
from natsel.models.networks.architectures import copied
from natsel.models.networks.inputs import as_device
from natsel.models.networks.outputs import Likelihood, Outputs, outputs_of_trained
from natsel.models.networks.own_training import TrainedElsewhere, TrainFunction
from natsel.models.networks.prediction import predict
from natsel.models.networks.training import Epoch, HowTrained, Training, how_trained, only_module, trained
from natsel.models.own_geometry import by_last_layer
from natsel.models.protocol import Progress, learnt
from natsel.models.rows import reads_numbers
from natsel.options import Rows
from natsel.seeds import derive

Labels = Literal["expected", "hard", "sampled", "true"]


class Gradients:
    """A network that is unsure of all its weights.

    `network`: as `natsel.models.LastLayer` takes it; only parameters that learn count, so freeze the others. `labels`:
    under which labels gradients are taken. `sketch`: columns that the weights are mixed into where they are more (a
    number, a `natsel.models.Sketch`, or None for rows as they are). `structure`: "full", "diagonal", "low-rank" or
    "identity".

    >>> import numpy as np
    >>> from natsel.models.networks.architectures import mlp
    >>> examples = Examples(np.eye(4, dtype=np.float32), np.array([0, 1, 0, 1]))
    >>> model = Gradients(mlp(4, 2), sketch=64, training=Training(max_epochs=3), device="cpu").fit(examples)
    >>> model.believe(examples.inputs).rows_N_R_P.shape
    torch.Size([4, 2, 64])
    """

    consistent_draws = True
    check_inputs = reads_numbers
    geometry = by_last_layer(lambda self: [learnt(self.module)])
    _form = InputForm()

    def __init__(
        self,
        network: Any,
        labels: Labels = "expected",
        sketch: int | Sketch | None = 512,
        prior_precision: float | Literal["evidence"] = "evidence",
        structure: Structure = "full",
        training: Training | None = None,
        device: torch.device | str | None = None,
        *,
        rank: int | None = None,
        train: TrainFunction | None = None,
    ) -> None:
        checked_prior(prior_precision)
        if labels not in get_args(Labels):
            raise ValueError(f"labels: expected {', '.join(get_args(Labels))}, found {labels!r}; choose one of them")
        if structure == "kronecker":
            raise ValueError("structure: kronecker is for last layers; use full, diagonal, low-rank or identity")
        self.network, self.labels, self.prior_precision = network, labels, prior_precision
        self.sketch = Sketch(sketch) if isinstance(sketch, int) else sketch
        self.structure, self.rank, self.device = structure, rank, as_device(device)
        self.training: HowTrained | None = how_trained(training, train)
        self.module: nn.Module | None = None
        self.epochs: list[Epoch] = []
        self._seed = 0

    def fit(
        self,
        labelled: Examples | Any,
        validation: Examples | Any = None,
        *,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> Self:
        """Train afresh, then find how sure the weights are."""
        labelled, validation = as_labelled(labelled, validation)
        how = self.training or Training()
        found = trained(self.network, labelled, validation, how, seed=seed, device=self.device, progress=progress)
        self.epochs = found.epochs
        return self._fit_posterior(found.module, found.outputs, labelled, seed)

    @classmethod
    def around(
        cls,
        network: Any,
        labelled: Examples | Any,
        labels: Labels = "expected",
        *,
        sketch: int | Sketch | None = 512,
        prior_precision: float | Literal["evidence"] = "evidence",
        structure: Structure = "full",
        rank: int | None = None,
        likelihood: Likelihood | None = None,
        train: TrainFunction | None = None,
        device: torch.device | str | None = None,
    ) -> Self:
        """The gradients of a network trained elsewhere, or of a fitted model with one; `labelled` trained it.

        The network is copied and stays as it is. `train` is needed where the model has to be fitted again, as in a
        learner: the network is then re-initialised and trained by this function.

        >>> model = Gradients.around(nn.Linear(2, 2), Examples([[0.0, 1.0]], [0]), sketch=None, device="cpu")
        >>> model.believe(torch.eye(2)).rows_N_R_P.shape
        torch.Size([2, 2, 6])
        """
        module = copied(only_module(network))
        model = cls(module, labels, sketch, prior_precision, structure, device=device, rank=rank, train=train)
        model.training = train or TrainedElsewhere()
        labelled, _ = as_labelled(labelled)
        module.to(model.device).eval()
        outputs_T_C = predict([module], labelled.inputs, model.device)[:, 0]
        outputs = outputs_of_trained(labelled.labels, outputs_T_C.shape[1], likelihood, outputs_T_C)
        return model._fit_posterior(module, outputs, labelled, 0)

    def believe(self, inputs: Rows, labels: Any = None, *, progress: Progress | None = None) -> FisherRows:
        """Rows of gradients at inputs, with the precision of the weights; `labels` are the inputs' own, for "true"."""
        module = learnt(self.module)
        if (labels is None) == (self.labels == "true"):
            found = "none" if labels is None else f"some for gradients under {self.labels} ones"
            raise ValueError(
                f"labels: found {found}; Gradients(labels='true') takes a label for each input, others none"
            )
        inputs = self._form.read(inputs)
        rows_N_R_P = self._rows(module, inputs, self.labels if labels is None else labels, progress)
        belief = FisherRows._own(rows_N_R_P, self.precision, draws_id=self._name)
        belief._set(warnings=self.warnings)
        return belief

    def predictive(self, inputs: Rows, *, progress: Progress | None = None) -> Belief:
        """What the network predicts at its trained weights."""
        module, inputs = learnt(self.module), self._form.read(inputs)
        return self._outputs.belief(predict([module], inputs, self.device, progress), self._name)

    def _fit_posterior(self, module: nn.Module, outputs: Outputs, labelled: Examples | Any, seed: int) -> Self:
        self._outputs, self._seed, self._form = outputs, seed, InputForm.of(labelled.inputs)
        parameters = learnable(module)
        self._weights = sum(parameter.numel() for parameter in parameters.values())
        # As many columns as weights or more would add noise and save nothing.
        sketch = self.sketch if self.sketch is not None and self._weights > self.sketch.columns else None
        by_layer = sketch is not None and sketch.entries == "products"
        self._by_layer = sketch if by_layer else None
        self._project = None if sketch is None or by_layer else sketch.projector(self._weights, self.device)
        rows_T_R_P = self._rows(module, labelled.inputs, "expected", None)
        squared_norm = sum(float(parameter.detach().double().square().sum()) for parameter in parameters.values())
        found = posterior(RowFactors(rows_T_R_P), self.prior_precision, squared_norm, self.structure, self.rank)
        self.module, self.precision, self.prior, self.warnings = module, found.precision, found.prior, found.warnings
        parts = [tensor.detach().cpu().numpy() for tensor in found.precision.tensors().values()]
        self._name = f"gradients:{fingerprint(sketch, self.structure, module, outputs, *parts)}"
        return self

    def _rows(self, module: nn.Module, inputs: Any, labels: Any, progress: Progress | None) -> Tensor:
        outputs_N_C, kind = self._curvature(module, inputs, labels)
        rows = 1 if kind == "row" else outputs_N_C.shape[1]
        roots = lambda part: root(outputs_N_C[part], kind)  # noqa: E731
        if self._by_layer is not None:
            return layer_sketch_rows(module, inputs, roots, rows, self._by_layer, self.device, progress=progress)
        if self._project is None:
            require(
                4 * len(inputs) * rows * self._weights,
                f"sketch: {len(inputs)} inputs × {rows} rows × {self._weights} weights",
                "pass sketch=512, freeze all but the last layers",
            )
        return gradient_rows(module, inputs, roots, rows, self.device, project=self._project, progress=progress)

    def _curvature(self, module: nn.Module, inputs: Any, labels: Any) -> tuple[Tensor, Kind]:
        """What A is made of: probabilities, roots of curvature, or residuals under one label."""
        logits_N_C = predict([module], inputs, self.device)[:, 0]
        outputs_N_C, outputs = self._outputs.curvature(logits_N_C), self._outputs
        if isinstance(labels, str) and labels == "expected":
            return outputs_N_C, outputs.kind
        if outputs.likelihood != "categorical":
            raise ValueError(
                f"labels: gradients under one label are taken of classes, and these outputs are {outputs.likelihood};"
                " use labels='expected'"
            )
        ones_N_1 = outputs_N_C.new_ones(len(outputs_N_C), 1)
        under = FisherFactors.categorical(ones_N_1, outputs_N_C).labelled(labels, derive(self._seed, "labels"))
        return under.outputs_N_C, "row"
