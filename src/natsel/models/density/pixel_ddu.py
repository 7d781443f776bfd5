"""Deep deterministic uncertainty of every pixel: two maps per picture from one forward pass of a segmentation network.

    unfamiliar    −log q(z_hw)                     z_hw: features of pixel (h, w)
    ambiguous     H[softmax(logits_hw / T)]        T: temperature that fits the labelled pixels of a validation set

Every labelled training pixel is one point: q has one mean and one covariance per class, the same at all positions of a
picture, because pixels of one class are alike wherever they are (Mukhoti et al. 2023). The moments are added up picture
by picture, so that the features of the training set are never held. Pixels with the label −1 count nowhere.
docs/theory/deterministic-uncertainty.md, 10.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from natsel.beliefs.gaussian_discriminant import GaussianDiscriminant
from natsel.data.examples import Examples, InputForm, as_labelled
from natsel.evaluation.temperature import fit_temperature
from natsel.information.class_moments import ClassMoments
from natsel.information.entropies import entropy
from natsel.memory import rows_per_chunk
from natsel.models.density.densities import GaussianDensity
from natsel.models.networks.architectures import Network, copied
from natsel.models.networks.evaluation_mode import evaluating
from natsel.models.networks.inputs import as_device, reader_of, shapes_explained
from natsel.models.networks.own_training import TrainedElsewhere, TrainFunction, check_function, train_by
from natsel.models.networks.prediction import bytes_per_point
from natsel.models.networks.training import fresh_to_train, only_module
from natsel.models.protocol import Progress
from natsel.options import Rows

# Of few pixels, all predicted rightly, the best temperature would be 0.
_TEMPERATURES = (0.1, 10.0)


@dataclass(frozen=True, eq=False)
class PixelMaps:
    """What is known about every pixel of N pictures: log density of its features, entropy in nats, likeliest class."""

    log_density_N_H_W: Tensor
    entropy_N_H_W: Tensor
    predicted_N_H_W: Tensor


class PixelDDU:
    """A segmentation network that knows for each pixel what it has seen, and what it cannot tell apart.

    `network` is a module, or a function that makes one, with outputs (n, classes, H, W). `train` is a function of
    yours, train(module, labelled, validation, seed), which every fit calls: natsel's own loop is for one label per
    input. Labels are (N, H, W), −1 where a pixel has none. `features` names the layer whose output (n, D, h, w) is
    looked at; None: what the last convolution sees. A map of features that is smaller than the logits is enlarged
    (bilinear). `density`: how Gaussians are fitted. After `fit`, `module` is the trained network, `fitted_density` the
    density of the features of its pixels, `temperature` that of its softmax, `warnings` what to know about them.

    >>> from natsel.data import made_scenes
    >>> from natsel.models import pixel_network
    >>> scenes = made_scenes(4, size=16)
    >>> model = PixelDDU.around(pixel_network(4, width=4), scenes, device="cpu")
    >>> maps = model.maps(scenes.inputs[:2])
    >>> maps.log_density_N_H_W.shape, maps.entropy_N_H_W.shape
    (torch.Size([2, 16, 16]), torch.Size([2, 16, 16]))
    """

    def __init__(
        self,
        network: Network,
        features: str | None = None,
        density: GaussianDensity | None = None,
        device: torch.device | str | None = None,
        *,
        train: TrainFunction | None = None,
    ) -> None:
        density = GaussianDensity() if density is None else density
        if not isinstance(density, GaussianDensity):
            raise ValueError(
                f"density: pixels have Gaussians, found {density!r}; pass GaussianDensity() or leave it out"
            )
        if train is not None:
            check_function(train)
        self.network, self.features, self.density = network, features, density
        self.train: TrainFunction | TrainedElsewhere = TrainedElsewhere() if train is None else train
        self.device = as_device(device)
        self.module: nn.Module | None = None
        self.fitted_density: GaussianDiscriminant | None = None
        self.temperature = 1.0
        self.warnings: tuple[str, ...] = ()

    @classmethod
    def around(
        cls,
        network: nn.Module,
        labelled: Examples | Any,
        validation: Examples | Any = None,
        features: str | None = None,
        density: GaussianDensity | None = None,
        *,
        train: TrainFunction | None = None,
        device: torch.device | str | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """A network trained elsewhere on `labelled`, which is ready at once; it is copied and stays as it is."""
        labelled, validation = as_labelled(labelled, validation)
        model = cls(copied(only_module(network)), features, density, device, train=train)
        return model._fit_density(only_module(model.network).to(model.device).eval(), labelled, validation, progress)

    def fit(
        self,
        labelled: Examples | Any,
        validation: Examples | Any = None,
        *,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> Self:
        """Train afresh, then fit the density and, where there is a validation set, the temperature."""
        labelled, validation = as_labelled(labelled, validation)
        _pixel_labels(labelled, "labelled")
        module = fresh_to_train(self.network, self.train, seed, self.device)
        assert not isinstance(self.train, TrainedElsewhere)  # fresh_to_train refuses it
        module = train_by(self.train, module, labelled, validation, seed=seed, device=self.device)
        return self._fit_density(module, labelled, validation, progress)

    def maps(self, pictures: Rows, *, progress: Progress | None = None) -> PixelMaps:
        """Log density, entropy and likeliest class of every pixel, from one forward pass over the pictures."""
        if self.module is None or self.fitted_density is None:
            raise ValueError("model: it has learnt nothing yet; fit the model first")
        found: list[tuple[Tensor, Tensor, Tensor]] = []
        for _, features_p_D, logits_n_C_H_W in self._parts(self.module, self._form.read(pictures), progress):
            shape = logits_n_C_H_W[:, 0].shape
            log_probs_n_H_W_C = (logits_n_C_H_W.double() / self.temperature).movedim(1, -1).log_softmax(-1)
            log_density_n_H_W = self.fitted_density.log_density(features_p_D).view(shape)
            found.append((log_density_n_H_W, entropy(log_probs_n_H_W_C), logits_n_C_H_W.argmax(1)))
        return PixelMaps(*(torch.cat(parts) for parts in zip(*found, strict=True)))

    def _fit_density(
        self, module: nn.Module, labelled: Examples | Any, validation: Examples | Any, progress: Progress | None
    ) -> Self:
        """The moments of all labelled pixels, one part of the pictures after the other, and the temperature."""
        labels_N_H_W, self._form = _pixel_labels(labelled, "labelled"), InputForm.of(labelled.inputs)
        merged = reduce(ClassMoments.merged, self._moments(module, labelled.inputs, labels_N_H_W, progress))
        settings = self.density
        density = GaussianDiscriminant.of(
            merged, shrinkage=settings.shrinkage, prior=settings.prior, ridge=settings.ridge
        )
        self.module, self.fitted_density, self.warnings, self.temperature = module, density, density.warnings, 1.0
        if validation is not None and len(validation) and validation.labels is not None:
            self._fit_temperature(module, validation)
        return self

    def _moments(
        self, module: nn.Module, pictures: Any, labels_N_H_W: Tensor, progress: Progress | None
    ) -> Iterator[ClassMoments]:
        for part, features_p_D, logits_n_C_H_W in self._parts(module, pictures, progress):
            labels_p = _labels_of(part, labels_N_H_W, logits_n_C_H_W)
            known_p, classes = labels_p >= 0, logits_n_C_H_W.shape[1]
            yield ClassMoments.of(features_p_D[known_p], labels_p[known_p], classes, self.density.covariance)

    def _fit_temperature(self, module: nn.Module, validation: Examples) -> None:
        labels_N_H_W = _pixel_labels(validation, "validation")
        rows, labels = [], []
        for part, _, logits_n_C_H_W in self._parts(module, validation.inputs, None):
            labels_p = _labels_of(part, labels_N_H_W, logits_n_C_H_W)
            rows.append(logits_n_C_H_W.movedim(1, -1).flatten(0, 2)[labels_p >= 0])
            labels.append(labels_p[labels_p >= 0])
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            self.temperature = fit_temperature(torch.cat(rows), torch.cat(labels).cpu().numpy(), _TEMPERATURES)
        self.warnings += tuple(str(each.message) for each in said)

    def _parts(
        self, module: nn.Module, pictures: Any, progress: Progress | None
    ) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Some pictures after the other: which, features of their pixels as rows p × D, logits_n_C_H_W."""
        count = len(pictures)
        if count == 0:
            raise ValueError("pictures: found none; pass at least one")
        seen: list[Tensor] = []
        layer = _layer(module, self.features)
        if self.features is None:
            hook = layer.register_forward_pre_hook(lambda _, given: seen.append(given[0].detach()))
        else:
            hook = layer.register_forward_hook(lambda _, given, out: seen.append(out.detach()))
        try:
            with torch.no_grad(), evaluating(module):
                read = reader_of(module, pictures, self.device)
                first = read(slice(0, 1))
                with shapes_explained(module, first):
                    bytes_each = bytes_per_point(module, first)
                # Densities are computed in float64, a copy of the features at a time.
                features, logits = _both(seen, module(first.clone()))
                bytes_each += 3 * 8 * (features.numel() + logits.numel())
                size = rows_per_chunk(bytes_each, self.device)
                for start in range(0, count, size):
                    part = slice(start, min(start + size, count))
                    seen.clear()
                    features_n_D_H_W, logits_n_C_H_W = _both(seen, module(read(part).clone()))
                    yield part, features_n_D_H_W.movedim(1, -1).flatten(0, 2), logits_n_C_H_W
                    if progress:
                        progress(part.stop, count)
        finally:
            hook.remove()


def _both(seen: list[Tensor], logits: Any) -> tuple[Tensor, Tensor]:
    """Features and logits of the same height and width."""
    if not isinstance(logits, Tensor) or logits.ndim != 4:
        found = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise ValueError(f"network: expected outputs (pictures, classes, H, W), found {found}; return logits per pixel")
    if not seen or not isinstance(seen[-1], Tensor) or seen[-1].ndim != 4:
        found = tuple(seen[-1].shape) if seen and isinstance(seen[-1], Tensor) else "no map"
        raise ValueError(f"features: expected a layer that gives (pictures, D, h, w), found {found}; name another")
    features = seen[-1]
    if features.shape[2:] != logits.shape[2:]:
        features = F.interpolate(features, size=logits.shape[2:], mode="bilinear", align_corners=False)
    return features, logits


def _layer(module: nn.Module, name: str | None) -> nn.Module:
    """The layer of that name, or the last convolution."""
    layers = dict(module.named_modules())
    if name is None:
        convolutions = [part for part in layers.values() if isinstance(part, nn.Conv2d)]
        if not convolutions:
            raise ValueError("features: the network has no convolution; name the layer whose output are the features")
        return convolutions[-1]
    if not isinstance(name, str) or name not in layers or not name:
        named = ", ".join([one for one in layers if one][-8:])
        raise ValueError(f"features: the network has no layer {name!r}; its layers are {named}; name one of them")
    found: nn.Module = layers[name]
    return found


def _pixel_labels(examples: Examples, name: str) -> Tensor:
    """Labels (N, H, W) of which some are known."""
    labels = None if examples.labels is None else torch.as_tensor(np.asarray(examples.labels))
    if labels is None or labels.ndim != 3 or labels.is_floating_point():
        found = "none" if labels is None else f"shape {tuple(labels.shape)} of {labels.dtype}"
        raise ValueError(
            f"{name}: expected one class per pixel, −1 where it is unknown, found labels {found}; pass such"
        )
    if labels.numel() == 0 or int(labels.min()) < -1 or int(labels.max()) < 0:
        found = f"{int(labels.min())} to {int(labels.max())}" if labels.numel() else "no pixel"
        raise ValueError(f"{name}: expected classes from 0, −1 where one is unknown, found {found}; number them so")
    return labels.long()


def _labels_of(part: slice, labels_N_H_W: Tensor, logits_n_C_H_W: Tensor) -> Tensor:
    """The labels of the pixels of some pictures, in a row."""
    labels_n_H_W = labels_N_H_W[part].to(logits_n_C_H_W.device)
    classes, most = logits_n_C_H_W.shape[1], int(labels_n_H_W.max())
    if labels_n_H_W.shape != logits_n_C_H_W[:, 0].shape or most >= classes:
        raise ValueError(
            f"labels: found {tuple(labels_n_H_W.shape[1:])} pixels with labels up to {most}, and logits of"
            f" {tuple(logits_n_C_H_W.shape[2:])} pixels for {classes} classes; make the network for these labels"
        )
    return labels_n_H_W.flatten()
