"""The last layer as a Bayesian model: a network is trained, then only its last layer is unsure.

    W | labels ≈ N(w*, H⁻¹),     H = Σ_t Λ_t ⊗ x_t x_tᵀ + λ I        x_t: features of training point t, with a 1

A generalised linear model on frozen features, at the trained weights and without dropout (Laplace approximation). It
believes `natsel.FisherFactors`: features, probabilities and H, never a gradient. λ maximises the evidence, or is given.
Linear and logistic regressions of scikit-learn are all last layer.
docs/theory/weight-space.md, 2, 3 and 7.1.
"""

from typing import Any, Literal, Self

import torch
from torch import Tensor, nn

from natsel.beliefs import Belief, FisherFactors
from natsel.beliefs.arrays import as_tensor
from natsel.data.examples import Examples, InputForm, as_labelled
from natsel.information.weights.factors import OuterFactors
from natsel.information.weights.posterior import Posterior, Structure, checked_prior, posterior
from natsel.information.weights.weight_draws import weight_draws
from natsel.memory import chunked
from natsel.models.features.heads import Head
from natsel.models.fingerprints import fingerprint
from natsel.models.last_layer.readout import Readout, curvature_of, readout_of_estimator, readout_of_module
from natsel.models.networks.architectures import copied, mlp
from natsel.models.networks.inputs import as_device
from natsel.models.networks.outputs import Likelihood, Outputs, outputs_of_trained, outputs_with_likelihood
from natsel.models.networks.own_training import TrainedElsewhere, TrainFunction
from natsel.models.networks.training import Epoch, HowTrained, Training, how_trained, only_module, trained
from natsel.models.own_geometry import by_last_layer
from natsel.models.protocol import Model, Progress, learnt
from natsel.models.rows import reads_numbers, rows_of
from natsel.options import Rows
from natsel.seeds import derive


class LastLayer:
    """A network that is unsure of its last linear layer.

    `network` is a module or a function that makes one (trained afresh by every fit), a model with one network such as
    `natsel.models.Dropout`, or a linear model of scikit-learn (for the posterior of whose own penalty give
    `prior_precision=1/C`). `training` has the settings of natsel's own loop, or `train` is a function of yours:
    train(module, labelled, validation, seed). `structure`: "full", "kronecker" (many classes or features), "diagonal",
    "low-rank" (`rank` directions) or "identity". After `fit`, `module` is the trained network, `precision` that of the
    posterior, `prior` the prior precision in it, and `warnings` what had to be done to get there.

    >>> import numpy as np
    >>> examples = Examples(np.eye(4, dtype=np.float32), np.array([0, 1, 0, 1]))
    >>> model = LastLayer(mlp(4, 2), training=Training(max_epochs=3), device="cpu").fit(examples)
    >>> belief = model.believe(examples.inputs)
    >>> belief.features_N_D.shape, belief.outputs_N_C.shape
    (torch.Size([4, 129]), torch.Size([4, 2]))
    """

    consistent_draws = True
    check_inputs = reads_numbers
    geometry = by_last_layer(lambda self: [learnt(self.module)])
    _form = InputForm()

    def __init__(
        self,
        network: Any,
        prior_precision: float | Literal["evidence"] = "evidence",
        structure: Structure = "full",
        training: Training | None = None,
        device: torch.device | str | None = None,
        *,
        rank: int | None = None,
        train: TrainFunction | None = None,
    ) -> None:
        checked_prior(prior_precision)
        how = how_trained(training, train)
        if how is not None and isinstance(network, Model) and not isinstance(network, nn.Module):
            name = "training" if train is None else "train"
            raise ValueError(f"{name}: the model given trains by its own settings; set {name} there")
        self.network, self.prior_precision, self.structure, self.rank = network, prior_precision, structure, rank
        self.training: HowTrained | None = how
        self.device = as_device(device)
        self.module: nn.Module | None = None
        self.epochs: list[Epoch] = []
        self._readout: Readout | None = None

    def fit(
        self,
        labelled: Examples | Any,
        validation: Examples | Any = None,
        *,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> Self:
        """Train afresh, then find how sure the last layer is."""
        labelled, validation = as_labelled(labelled, validation)
        if hasattr(self.network, "get_params") and not isinstance(self.network, nn.Module | Model):
            return self._fit_estimator(labelled)
        how = self.training or Training()
        found = trained(self.network, labelled, validation, how, seed=seed, device=self.device, progress=progress)
        readout = readout_of_module(found.module, labelled.inputs, self.device)
        self._fit_posterior(readout, found.outputs, labelled.inputs)
        self.module, self.epochs = found.module, found.epochs
        return self

    @classmethod
    def around(
        cls,
        network: Any,
        labelled: Examples | Any,
        *,
        prior_precision: float | Literal["evidence"] = "evidence",
        structure: Structure = "full",
        rank: int | None = None,
        likelihood: Likelihood | None = None,
        train: TrainFunction | None = None,
        device: torch.device | str | None = None,
    ) -> Self:
        """The last layer of a network trained elsewhere, or of a fitted model with one; `labelled` trained it.

        The network is copied and stays as it is. `train` is needed where the model has to be fitted again, as in a
        learner: the network is then re-initialised and trained by this function.
        `likelihood` follows from labels and outputs where it is not given: integers are classes (of one output: two),
        other numbers have Gaussian noise, of the variance that the residuals show, in the units of the network.

        >>> network = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2))
        >>> model = LastLayer.around(network, Examples([[0.0, 1.0], [1.0, 0.0]], [0, 1]), device="cpu")
        >>> len(model.believe(torch.eye(2)))
        2
        """
        labelled, _ = as_labelled(labelled)
        module = copied(only_module(network))
        model = cls(module, prior_precision, structure, device=device, rank=rank, train=train)
        model.training = train or TrainedElsewhere()
        model.module = module.to(model.device).eval()
        readout = readout_of_module(module, labelled.inputs, model.device)
        logits_T_C = readout.logits(readout.features(labelled.inputs))
        outputs = outputs_of_trained(labelled.labels, logits_T_C.shape[1], likelihood, logits_T_C)
        return model._fit_posterior(readout, outputs, labelled.inputs)

    @classmethod
    def of_linear(
        cls,
        weight_C_D: Rows,
        features_T_D: Rows,
        likelihood: Likelihood = "categorical",
        *,
        noise: float = 1.0,
        prior_precision: float | Literal["evidence"] = "evidence",
        structure: Structure = "full",
        rank: int | None = None,
        device: torch.device | str | None = None,
    ) -> Self:
        """A generalised linear model fitted elsewhere: its weights, and the features it was fitted to.

        Features are taken as they are: put a constant 1 among them where the model has a bias. `noise` is the variance
        of Gaussian labels.

        >>> model = LastLayer.of_linear([[0.5, -0.5]], [[1.0, 2.0]], "bernoulli", prior_precision=1.0, device="cpu")
        >>> model.believe([[3.0, 1.0]]).outputs_N_C.round(decimals=4).tolist()
        [[0.4434]]
        """
        if not 0 < noise < float("inf"):
            raise ValueError(f"noise: expected a positive variance, found {noise}; add a noise floor")
        weight = as_tensor(weight_C_D, "weight_C_D")
        weight = weight[None] if weight.ndim == 1 else weight
        model = cls(None, prior_precision, structure, device=device, rank=rank)
        read = lambda inputs, _: as_tensor(inputs, "inputs").to(model.device)  # noqa: E731
        readout = Readout(read, weight.double().to(model.device))
        return model._fit_posterior(readout, outputs_with_likelihood(likelihood, noise), features_T_D)

    def believe(self, inputs: Rows, *, progress: Progress | None = None) -> FisherFactors:
        """What the last layer sees and says of inputs, with the precision of its weights."""
        readout = learnt(self._readout)
        features_N_D = readout.features(self._form.read(inputs), progress)
        outputs_N_C = curvature_of(readout, self._outputs, features_N_D)
        belief = FisherFactors(features_N_D, outputs_N_C, self._outputs.kind, self.precision, draws_id=self._name)
        belief._set(warnings=self.warnings)
        return belief

    def draws(self, inputs: Rows, count: int = 100, seed: int = 0, *, progress: Progress | None = None) -> Belief:
        """Predictions of draws of the last layer from its posterior, the same for all inputs and calls of one seed."""
        if count < 1:
            raise ValueError(f"count: expected a number of draws from 1 on, found {count}; 100 is usual")
        readout = learnt(self._readout)
        outputs, width = readout.weight_C_D.shape
        steps_K_P = weight_draws(self.precision, outputs * width, count, derive(seed, "last layer"))
        weight_KC_D = (readout.weight_C_D.flatten() + steps_K_P).reshape(count * outputs, width)
        return self._predict(weight_KC_D, inputs, f"{self._name}-{seed}-{count}", progress)

    def predictive(self, inputs: Rows, *, progress: Progress | None = None) -> Belief:
        """What the network predicts at its trained weights."""
        return self._predict(learnt(self._readout).weight_C_D, inputs, self._name, progress)

    def _predict(self, weight_KC_D: Tensor, inputs: Any, name: str, progress: Progress | None) -> Belief:
        readout = learnt(self._readout)
        features_N_D, outputs = readout.features(self._form.read(inputs), progress), len(readout.weight_C_D)

        def work(part: slice) -> Tensor:
            logits_n_K_C = (features_N_D[part].double() @ weight_KC_D.T).view(-1, len(weight_KC_D) // outputs, outputs)
            return logits_n_K_C if readout.offset_C is None else logits_n_K_C + readout.offset_C

        bytes_each = 8 * (len(weight_KC_D) * 2 + features_N_D.shape[1])
        return self._outputs.belief(chunked(work, len(features_N_D), bytes_each, features_N_D.device), name)

    def _fit_estimator(self, labelled: Examples | Any) -> Self:
        import sklearn.base

        rows_T = rows_of(labelled.inputs)
        fitted = sklearn.base.clone(self.network).fit(rows_T, labelled.labels)
        classes = labelled.n_classes if hasattr(fitted, "classes_") else None  # whole numbers are some to a regressor
        readout = readout_of_estimator(fitted, rows_T, classes)
        logits_T_C = readout.logits(readout.features(rows_T))
        likelihood: Likelihood | None = "gaussian" if classes is None else None
        outputs = outputs_of_trained(labelled.labels, logits_T_C.shape[1], likelihood, logits_T_C)
        return self._fit_posterior(readout, outputs, labelled.inputs)

    def _fit_posterior(self, readout: Readout, outputs: Outputs, inputs: Any) -> Self:
        """The posterior from the training inputs; their labels are not needed, as curvature does not depend on them."""
        self._outputs, self._form = outputs, InputForm.of(inputs)
        features_T_D = readout.features(inputs)
        logits_T_C = readout.logits(features_T_D)
        sound_T = features_T_D.isfinite().all(1) & ~logits_T_C.isnan().any(1)
        features_T_D, outputs_T_C = features_T_D[sound_T], outputs.curvature(logits_T_C[sound_T])
        found = posterior(
            OuterFactors(features_T_D, outputs_T_C, outputs.kind),
            self.prior_precision,
            float(readout.weight_C_D.square().sum()),
            self.structure,
            self.rank,
        )
        lost = int((~sound_T).sum())
        self._set_posterior(readout, found, lost)
        return self

    def _set_posterior(self, readout: Readout, found: Posterior, lost: int) -> None:
        self._readout, self.precision, self.prior, self.warnings = readout, found.precision, found.prior, found.warnings
        if lost:
            self.warnings += (
                f"training set: features of {lost} examples are not finite, so the precision was made without them;"
                " check the network",
            )
        parts = [tensor.detach().cpu().numpy() for tensor in found.precision.tensors().values()]
        self._name = f"last-layer:{fingerprint(self.structure, self._outputs, readout.weight_C_D, *parts)}"


def last_layer_head(
    hidden: tuple[int, ...] = (),
    dropout: float = 0.5,
    *,
    prior_precision: float | Literal["evidence"] = "evidence",
    structure: Structure = "full",
    training: Training | None = None,
    device: torch.device | str | None = None,
) -> Head:
    """A head for `natsel.models.Frozen`: a perceptron unsure of its last layer, without hidden layers a regression.

    Where C classes × features are many thousands of weights, "kronecker" is the structure that stays small.

    >>> type(last_layer_head()(384, 150)).__name__
    'LastLayer'
    """

    def head(features: int, classes: int) -> LastLayer:
        network = mlp(features, classes, tuple(hidden), dropout)
        return LastLayer(network, prior_precision, structure, training, device)

    return head
