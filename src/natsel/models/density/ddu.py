"""Deep deterministic uncertainty: one network, one forward pass, two numbers per input.

    unfamiliar    −log q(z)                    z: features of the network; q: one Gaussian per class of the training set
    ambiguous     H[softmax(logits / T)]       T: temperature that fits a validation set

After training, the density is fitted in closed form to the features of the training set, the temperature to the
validation set (if any), and a threshold is put at a quantile of the training densities: a point is unfamiliar where its
log density is below that of all but a share 1 − level of the training points. Networks that keep distances
(`natsel.models.resnet18(spectral=3.0, sensitive=True)`) make densities meaningful far from the data.
Mukhoti et al. 2023; docs/theory/deterministic-uncertainty.md.
"""

import warnings
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from natsel.beliefs import Belief, FeatureDensity
from natsel.beliefs.feature_density import threshold_of
from natsel.data.examples import Examples, InputForm, as_labelled
from natsel.evaluation.temperature import fit_temperature
from natsel.information.entropies import entropy
from natsel.models.density.densities import DensityEstimator, FittedDensity, GaussianDensity
from natsel.models.density.layer_features import features_and_logits
from natsel.models.features.heads import Head
from natsel.models.fingerprints import fingerprint
from natsel.models.networks.architectures import copied, fresh, mlp
from natsel.models.networks.inputs import as_device
from natsel.models.networks.outputs import Classes
from natsel.models.networks.own_training import TrainedElsewhere, TrainFunction
from natsel.models.networks.training import Epoch, HowTrained, Training, how_trained, only_module, trained
from natsel.models.own_geometry import by_last_layer
from natsel.models.protocol import Model, Progress, learnt
from natsel.models.rows import reads_numbers
from natsel.options import Rows

# Features of so many bytes are held at a time; a belief holds one density and one row of logits per point.
_FEATURES = 1 << 26
# Of few labels, all predicted rightly, the best temperature would be 0.
_TEMPERATURES = (0.1, 10.0)


class DDU:
    """A classifier that knows what it has seen: densities of its features beside its class probabilities.

    `network` is a module or a function that makes one (trained afresh by every fit), or a model with one network such
    as `natsel.models.Deterministic`. `features` names the layer whose output is looked at; None: what the last linear
    layer sees. `density`: `GaussianDensity()` with its settings, or `NeighbourDensity()`. `level`: the share of
    training points that count as familiar. After `fit`, `module` is the trained network, `fitted_density` the density
    of its features, `temperature` that of its softmax, and `warnings` what to know about them.

    >>> import numpy as np
    >>> generator = np.random.default_rng(0)
    >>> examples = Examples(generator.normal(size=(60, 2)).astype(np.float32) + [[4.0, 0.0]], np.arange(60) % 2)
    >>> model = DDU(mlp(2, 2, (4,), 0.0), training=Training(max_epochs=3), device="cpu").fit(examples)
    >>> belief = model.believe(np.array([[4.0, 0.0], [400.0, 0.0]], dtype=np.float32))
    >>> belief.unfamiliar.tolist()
    [False, True]
    """

    consistent_draws = True
    check_inputs = reads_numbers
    geometry = by_last_layer(lambda self: [learnt(self.module)])
    _form = InputForm()
    regression = False

    def __init__(
        self,
        network: Any,
        features: str | None = None,
        density: DensityEstimator | None = None,
        level: float = 0.99,
        training: Training | None = None,
        device: torch.device | str | None = None,
        *,
        train: TrainFunction | None = None,
    ) -> None:
        how = how_trained(training, train)
        if how is not None and isinstance(network, Model) and not isinstance(network, nn.Module):
            name = "training" if train is None else "train"
            raise ValueError(f"{name}: the model given trains by its own settings; set {name} there")
        if not 0 < level < 1:
            raise ValueError(f"level: expected a share between 0 and 1, found {level}; 0.99 is usual")
        density = GaussianDensity() if density is None else density
        if isinstance(density, type) or not hasattr(density, "fit"):
            raise ValueError(f"density: expected a value such as GaussianDensity(), found {density!r}; pass one")
        self.network, self.features, self.density, self.level = network, features, density, level
        self.training: HowTrained | None = how
        self.device = as_device(device)
        self.module: nn.Module | None = None
        self.epochs: list[Epoch] = []
        self.temperature, self.threshold, self.entropy_threshold = 1.0, float("nan"), float("nan")
        self.fitted_density: FittedDensity | None = None
        self.warnings: tuple[str, ...] = ()

    @classmethod
    def around(
        cls,
        network: nn.Module,
        labelled: Examples | Any,
        validation: Examples | Any = None,
        features: str | None = None,
        density: DensityEstimator | None = None,
        level: float = 0.99,
        *,
        train: TrainFunction | None = None,
        device: torch.device | str | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """A classifier trained elsewhere on `labelled`, which believes at once; it is copied and stays as it is.

        `train` is needed where the model has to be fitted again, as in a learner.

        >>> import numpy as np
        >>> examples = Examples(np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2)
        >>> DDU.around(nn.Linear(3, 2), examples, device="cpu").believe(examples.inputs).log_density_N.shape
        torch.Size([40])
        """
        labelled, validation = as_labelled(labelled, validation)
        model = cls(copied(only_module(network)), features, density, level, device=device, train=train)
        model.training = train or TrainedElsewhere()
        module = only_module(model.network).to(model.device).eval()
        return model._fit_density(module, labelled, validation, progress)

    def fit(
        self,
        labelled: Examples | Any,
        validation: Examples | Any = None,
        *,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> Self:
        """Train afresh, then fit density, temperature and threshold."""
        labelled, validation = as_labelled(labelled, validation)
        how = self.training or Training()
        found = trained(self.network, labelled, validation, how, seed=seed, device=self.device, progress=progress)
        if not isinstance(found.outputs, Classes):
            raise ValueError("labelled: densities stand beside class probabilities, found real labels; use an Ensemble")
        self.epochs = found.epochs
        return self._fit_density(found.module, labelled, validation, progress)

    def believe(self, inputs: Rows, *, progress: Progress | None = None) -> Belief:
        """The log density of the features of inputs and their logits, from one forward pass."""
        module, density = learnt(self.module), learnt(self.fitted_density)
        if len(inputs) == 0:
            raise ValueError("inputs: found none to believe about; pass at least one")
        parts = list(self._in_parts(module, self._form.read(inputs), density.log_density, progress))
        belief = FeatureDensity._own(
            torch.cat([log_density_n for log_density_n, _ in parts]),
            torch.cat([logits_n_C for _, logits_n_C in parts]),
            self.temperature,
            self.threshold,
            self.entropy_threshold,
            draws_id=f"ddu-{fingerprint(module, self.features, self.temperature, density.tensors())}",
        )
        belief._set(warnings=self.warnings)
        return belief

    def weights(self) -> dict[str, Tensor]:
        """All that `load_weights` needs to believe the same again."""
        module, density = learnt(self.module), learnt(self.fitted_density)
        own = {"temperature": self.temperature, "threshold": self.threshold, "entropy": self.entropy_threshold}
        return {
            **{name: tensor.detach().cpu() for name, tensor in module.state_dict().items()},
            **{f"natsel.{name}": torch.tensor(value, dtype=torch.float64) for name, value in own.items()},
            **{f"natsel.density.{name}": tensor.cpu() for name, tensor in density.tensors().items()},
        }

    def load_weights(self, weights: dict[str, Tensor]) -> Self:
        """Take up the weights of an earlier fit."""
        own = {name: tensor for name, tensor in weights.items() if not name.startswith("natsel.")}
        prefix = "natsel.density."
        tensors = {
            name.removeprefix(prefix): tensor.to(self.device)
            for name, tensor in weights.items()
            if name.startswith(prefix)
        }
        try:
            module = fresh(getattr(self.network, "network", self.network), 0)
            module.load_state_dict(own)
            density = self.density.load(tensors)
            values = [float(weights[f"natsel.{name}"]) for name in ("temperature", "threshold", "entropy")]
        except (KeyError, RuntimeError, TypeError) as reason:
            found = " ".join(str(reason).split())
            raise ValueError(f"weights: they do not fit this model ({found}); pass what weights() gave") from None
        self.temperature, self.threshold, self.entropy_threshold = values
        self.module, self.fitted_density, self.epochs = module.to(self.device).eval(), density, []
        self.warnings = density.warnings
        return self

    def _fit_density(
        self, module: nn.Module, labelled: Examples | Any, validation: Examples | Any, progress: Progress | None
    ) -> Self:
        """Density, temperature and thresholds of a trained network."""
        labels_T, self._form = _hard_labels(labelled).to(self.device), InputForm.of(labelled.inputs)
        features_T_D, logits_T_C = features_and_logits(module, labelled.inputs, self.features, self.device, progress)
        classes = logits_T_C.shape[1]
        density = self.density.fit(features_T_D, labels_T, classes)
        self.module, self.fitted_density, self.warnings = module, density, density.warnings
        self.warnings += _of_no_use(logits_T_C, labels_T)
        self.threshold = threshold_of(density.log_density(features_T_D), self.level)
        self.temperature = 1.0
        if validation is not None and len(validation) and validation.labels is not None:
            parts = list(self._in_parts(module, validation.inputs, density.log_density, None))
            logits_V_C = torch.cat([logits_n_C for _, logits_n_C in parts])
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                self.temperature = fit_temperature(logits_V_C, np.asarray(validation.labels), _TEMPERATURES)
            self.warnings += tuple(str(each.message) for each in said)
            below = float((torch.cat([log_density_n for log_density_n, _ in parts]) < self.threshold).double().mean())
            if below > 10 * (1 - self.level):
                self.warnings += (
                    f"threshold: {below:.0%} of the validation set fall below it, and {1 - self.level:.0%} of the"
                    " training set do: the density fits the training points too closely; use"
                    ' GaussianDensity(shrinkage=0.5) or GaussianDensity("shared"), or label more',
                )
        log_probs_T_C = (logits_T_C.double() / self.temperature).log_softmax(1)
        self.entropy_threshold = -threshold_of(-entropy(log_probs_T_C), self.level)
        return self

    def _in_parts(
        self,
        module: nn.Module,
        inputs: Any,
        log_density: Callable[[Tensor], Tensor],
        progress: Progress | None,
    ) -> Any:
        """log_density_n and logits_n_C of some of the inputs after the other, so that features are never held whole."""
        width = max(1, features_and_logits(module, inputs[:1], self.features, self.device)[0].shape[1])
        size, total = max(256, _FEATURES // (8 * width)), len(inputs)
        for start in range(0, total, size):
            some = inputs if size >= total else inputs[start : start + size]
            tell = None if progress is None else (lambda done, _, start=start: progress(start + done, total))
            features_n_D, logits_n_C = features_and_logits(module, some, self.features, self.device, tell)
            yield log_density(features_n_D), logits_n_C.clone()


def ddu_head(
    hidden: tuple[int, ...] = (),
    *,
    density: DensityEstimator | None = None,
    level: float = 0.99,
    training: Training | None = None,
    device: torch.device | str | None = None,
) -> Head:
    """A head for `natsel.models.Frozen`: without hidden layers a softmax regression, and the density of the features.

    >>> type(ddu_head()(384, 150)).__name__
    'DDU'
    """

    def head(features: int, classes: int) -> DDU:
        return DDU(mlp(features, classes, tuple(hidden), 0.0), None, density, level, training, device)

    return head


def _hard_labels(examples: Examples) -> Tensor:
    """Class numbers; of soft labels the most likely class."""
    labels = torch.as_tensor(np.asarray(examples.labels))
    if labels.ndim == 1 and labels.is_floating_point():
        raise ValueError("labelled: densities stand beside class probabilities, found real labels; use an Ensemble")
    return labels.argmax(1) if labels.ndim == 2 else labels.long()


def _of_no_use(logits_T_C: Tensor, labels_T: Tensor) -> tuple[str, ...]:
    """A warning where the network predicts its training set no better than by one class for all."""
    right = float((logits_T_C.argmax(1) == labels_T).double().mean())
    most = float(torch.bincount(labels_T).max()) / len(labels_T)
    if right > most or most == 1:
        return ()
    return (
        f"network: {right:.0%} of the labelled examples are predicted rightly, and one class for all would be right on"
        f" {most:.0%}; check that inputs come as in its training (natsel.models.inputs_of shows them: bytes of"
        " pictures become numbers in [0, 1]) and that classes are numbered as its outputs",
    )
