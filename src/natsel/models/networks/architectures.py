"""Networks: the BatchBALD convolutional networks, a perceptron, and how a network starts afresh.

The published block is Conv → Dropout2d → MaxPool → ReLU. A channel's mask is a number ≥ 0, the same over the whole
picture, and max(m·a, m·b) = m·max(a, b) for m ≥ 0: dropout commutes with pooling and with ReLU. Here it comes last: the
same function for the same masks, with a quarter of the numbers after each mask (all that is repeated for each draw).

Pictures are taken as (n, H, W), (n, 1, H, W) or (n, H, W, 1), those in colour as (n, H, W, 3) or (n, 3, H, W). Numbers
are in [0, 1], and bytes are divided by 255; the networks normalise them inside.
docs/theory/batchbald.md, 14; Kirsch et al. 2019.
"""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from weakref import WeakSet

import torch
from torch import Tensor, nn

from natsel.options import Count, Share

Network = nn.Module | Callable[[], nn.Module]
"""A module, which is copied and re-initialised, or a function without arguments that makes one."""


def mnist_cnn(classes: Count = 10, mean: float = 0.1307, std: float = 0.3081) -> nn.Module:
    """The BatchBALD network for 28×28 pictures: two 5×5 convolutions (32, 64), a layer of 128, dropout ½ in all three.

    >>> mnist_cnn()(torch.zeros(2, 28, 28)).shape
    torch.Size([2, 10])
    """
    return nn.Sequential(
        ImageInput((28, 28), mean, std),
        *(nn.Conv2d(1, 32, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Dropout2d()),
        *(nn.Conv2d(32, 64, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Dropout2d()),
        *(nn.Flatten(), nn.Linear(64 * 4 * 4, 128), nn.Dropout(), nn.ReLU()),
        nn.Linear(128, classes),
    )


def emnist_cnn(
    classes: Count = 47, mean: float = 0.1751, std: float = 0.3332, shape: tuple[int, int] = (28, 28)
) -> nn.Module:
    """The BatchBALD network for letters: three 3×3 convolutions (32, 64, 128), a layer of 512, dropout ½ in all four.

    Pooling follows the first and the third convolution, as in the authors' code. Pictures too small for that (16×8) are
    padded by one pixel before each convolution.

    >>> emnist_cnn(26, shape=(16, 8))(torch.zeros(2, 16, 8)).shape
    torch.Size([2, 26])
    """
    padding = 0 if min(shape) >= 14 else 1  # ((14 − 2) / 2 − 2 − 2) / 2 = 1
    shrink = 2 - 2 * padding
    height, width = (((side - shrink) // 2 - 2 * shrink) // 2 for side in shape)
    if min(height, width) < 1:
        raise ValueError(f"shape: pictures must be at least 4×4, found {shape}; use mlp for smaller ones")
    return nn.Sequential(
        ImageInput(shape, mean, std),
        *(nn.Conv2d(1, 32, 3, padding=padding), nn.MaxPool2d(2), nn.ReLU(), nn.Dropout2d()),
        *(nn.Conv2d(32, 64, 3, padding=padding), nn.ReLU(), nn.Dropout2d()),
        *(nn.Conv2d(64, 128, 3, padding=padding), nn.MaxPool2d(2), nn.ReLU(), nn.Dropout2d()),
        *(nn.Flatten(), nn.Linear(128 * height * width, 512), nn.Dropout(), nn.ReLU()),
        nn.Linear(512, classes),
    )


def mlp(features: Count, classes: Count, hidden: tuple[int, ...] = (128,), dropout: Share = 0.5) -> nn.Module:
    """A perceptron with dropout after each hidden layer; inputs of any shape are flattened. For numbers: classes=1.

    >>> mlp(64, 10)(torch.zeros(2, 8, 8)).shape
    torch.Size([2, 10])
    """
    widths = (features, *hidden)
    layers: list[nn.Module] = [nn.Flatten()]
    for width, following in pairwise(widths):
        layers += [nn.Linear(width, following), nn.ReLU(), nn.Dropout(dropout)]
    return nn.Sequential(*layers, nn.Linear(widths[-1], classes))


class ImageInput(nn.Module):
    """Pictures with their channels last or first (grey ones: with or without them) → (n, channels, H, W), normalised.

    `mean`, `std`: one number, or one for each channel.

    >>> ImageInput((4, 4), (0.1, 0.2, 0.3), 1.0, 3)(torch.zeros(1, 4, 4, 3, dtype=torch.uint8))[0, :, 0, 0].tolist()
    [-0.10000000149011612, -0.20000000298023224, -0.30000001192092896]
    """

    mean_C: Tensor
    std_C: Tensor

    def __init__(
        self,
        shape: tuple[int, int],
        mean: float | tuple[float, ...],
        std: float | tuple[float, ...],
        channels: int = 1,
    ) -> None:
        super().__init__()
        self.shape, self.mean, self.std, self.channels = tuple(shape), mean, std, channels
        for name, value in (("mean", mean), ("std", std)):
            if isinstance(value, tuple) and len(value) != channels:
                raise ValueError(f"{name}: expected one number for each of {channels} channels, found {len(value)}")
            # On the device of the network once, not sent there in each pass; no part of its weights.
            per_channel = None if isinstance(value, float | int) else torch.tensor(value)
            self.register_buffer(f"{name}_C", per_channel, persistent=False)

    def forward(self, pictures: Tensor) -> Tensor:
        height, width = self.shape
        channels_first = self.channels > 1 and pictures.shape[1:] == (self.channels, height, width)
        if channels_first:
            pictures = pictures.permute(0, 2, 3, 1)
        # One channel may be left out, or stand on either side.
        expected = (height, width) if self.channels == 1 else (height, width, self.channels)
        if tuple(side for side in pictures.shape[1:] if side != 1) != tuple(side for side in expected if side != 1):
            colours = "one channel" if self.channels == 1 else f"{self.channels} channels"
            raise ValueError(
                f"inputs: expected pictures of {height}×{width} in {colours}, found shape {tuple(pictures.shape)};"
                " resize them or make the network for their shape"
            )
        if pictures.dtype == torch.uint8:
            pictures = pictures.float() / 255
        mean = self.mean if self.mean_C is None else self.mean_C
        std = self.std if self.std_C is None else self.std_C
        # Channels last: the layout in which a CPU trains fastest; each following layer keeps it.
        return ((pictures.reshape(-1, *self.shape, self.channels) - mean) / std).permute(0, 3, 1, 2)

    def extra_repr(self) -> str:
        channels = f", channels={self.channels}" if self.channels > 1 else ""
        return f"{self.shape}, mean={self.mean}, std={self.std}{channels}"


_made: "WeakSet[nn.Module]" = WeakSet()


def fresh(network: Network, seed: int) -> nn.Module:
    """A network with new initial weights, decided by the seed; the one given is left as it is.

    A module is copied and each part's `reset_parameters` called, so weights it came with are lost. To start from
    weights of your own (pretrained ones), pass a function that makes the module.

    >>> one, same, other = (fresh(mlp(2, 2), seed)[1].weight for seed in (0, 0, 1))
    >>> bool((one == same).all()), bool((one == other).any())
    (True, False)
    """
    with seeded(seed):
        if isinstance(network, nn.Module):
            module = copied(network)
            for name, part in module.named_modules():
                _reset(name, part)
            return module
        module = network() if callable(network) else None
    if not isinstance(module, nn.Module):
        raise ValueError(
            f"network: expected a torch module or a function that makes one, found {type(module or network).__name__};"
            " pass for example natsel.models.mnist_cnn"
        )
    if module in _made:
        raise ValueError(
            "network: the function returned the same module twice, so training could not start afresh;"
            " make a new one in each call, or pass the module itself"
        )
    _made.add(module)
    return module


def copied(module: nn.Module) -> nn.Module:
    """A copy of a trained module, so that nothing done with it changes the one given.

    >>> network = nn.Linear(2, 2)
    >>> copied(network).weight is network.weight
    False
    """
    # Weights that a hook makes of others (weight_norm, pruning) are made again by the copy's own.
    made = (one for part in module.modules() for one in vars(part).values() if isinstance(one, Tensor) and one.grad_fn)
    try:
        return copy.deepcopy(module, {id(tensor): tensor.detach().clone() for tensor in made})
    except (RuntimeError, TypeError, ValueError) as reason:
        raise ValueError(
            f"network: {type(module).__name__} cannot be copied ({' '.join(str(reason).split())[:200]}); pass one that"
            " copy.deepcopy can copy"
        ) from reason


def _reset(name: str, part: nn.Module) -> None:
    reset = getattr(part, "reset_parameters", None) or getattr(part, "_reset_parameters", None)
    if any({f"{one}_g", f"{one}_orig"} & part._parameters.keys() for one in vars(part)):
        raise ValueError(
            f"network: the weights of {type(part).__name__} ({name or 'the module itself'}) are made of others, by"
            " weight_norm, pruning or the like, so it cannot start afresh; pass a function that makes the network"
        )
    if callable(reset):
        reset()
    elif next(part.parameters(recurse=False), None) is not None:
        raise ValueError(
            f"network: {type(part).__name__} ({name or 'the module itself'}) has parameters but no reset_parameters(),"
            " so it cannot start afresh; pass a function that makes the network instead"
        )


@contextmanager
def seeded(seed: int, device: torch.device | None = None) -> Iterator[None]:
    """A block in which the global generators, of the CPU and of the device, start from `seed`; then they are restored.

    Initialisation and dropout draw from the global generators of torch and take no other: this way a fit depends on its
    seed alone, and nothing outside it is disturbed.

    >>> with seeded(0):
    ...     first = torch.rand(1)
    >>> with seeded(0):
    ...     bool(torch.rand(1) == first)
    True
    """
    cuda = device is not None and device.type == "cuda"
    with torch.random.fork_rng(devices=[device] if cuda else []):
        torch.default_generator.manual_seed(seed)
        if cuda:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield


@contextmanager
def reproducible() -> Iterator[None]:
    """A block in which convolutions on an accelerator give the same gradients every time.

    >>> with reproducible():
    ...     torch.backends.cudnn.deterministic
    True
    """
    before = torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False
    try:
        yield
    finally:
        torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = before
