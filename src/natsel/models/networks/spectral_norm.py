"""Soft spectral normalisation: layers whose operator norm is held at or below a coefficient c.

    v ← Wᵀu / ‖Wᵀu‖,  u ← Wv / ‖Wv‖    one step of power iteration per training pass
    σ̂ = uᵀ (W v)
    weight used = W / max(1, σ̂/c)      a layer with σ̂ ≤ c is left as it is; a larger one is scaled down to norm c

u and v are buffers. They move in training mode and stay in evaluation mode, and no gradient goes through them: the
gradient of σ̂ is that of the weight alone. They start from fixed numbers, so that a network has the same initial
weights with and without the normalisation.

The norm of a convolution is that of the linear map from one whole picture to another (Gouk et al. 2018), and it depends
a little on the size of the picture. `conv_norm="operator"` finds it: W is `conv2d` and Wᵀ is `conv_transpose2d` at the
size of the first picture that the layer sees. `conv_norm="reshape"` takes the norm of the weight as a matrix of
(outputs, inputs · k · k), as SNGP does: quicker, and not the norm of the map. For linear layers and 1×1 convolutions
both are the same.  docs/theory/deterministic-uncertainty.md; Miyato et al. 2018, Mukhoti et al. 2023.
"""

import copy
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from natsel.models.networks.architectures import seeded
from natsel.models.networks.evaluation_mode import evaluating
from natsel.models.networks.inputs import reader_of, shapes_explained

ConvNorm = Literal["operator", "reshape"]

# Steps of power iteration from the fixed start, so that the first training steps know the norm already.
_FIRST_STEPS = 15


class _SoftlyNormalised(nn.Module):
    """What the two kinds of layer share; `u` and `v` are empty as long as the size of inputs is not known."""

    weight: Tensor
    u: Tensor
    v: Tensor

    def _set_up(self, coefficient: float, iterations: int) -> None:
        if not coefficient > 0:
            raise ValueError(f"coefficient: must be greater than 0 (found {coefficient}); 3 is usual")
        if iterations < 1:
            raise ValueError(f"iterations: must be at least 1 (found {iterations}); 1 is usual")
        self.coefficient, self.iterations = float(coefficient), iterations
        self.register_buffer("u", self.weight.new_empty(0))
        self.register_buffer("v", self.weight.new_empty(0))

    def used_weight(self) -> Tensor:
        """W / max(1, σ̂/c), after the steps of power iteration where the layer is in training mode."""
        kind = self.weight.device.type
        if torch.is_autocast_enabled(kind):
            with torch.autocast(kind, enabled=False):
                return self.weight / (self._norm() / self.coefficient).clamp(min=1)
        return self.weight / (self._norm() / self.coefficient).clamp(min=1)

    def _norm(self) -> Tensor:
        """σ̂, whose gradient is that of uᵀWv for fixed u and v."""
        if not self.training:
            return (self.u * self._image(self.v)).sum()
        u, learns = self.u, torch.is_grad_enabled()
        for step in range(self.iterations):
            with torch.no_grad():
                v = _unit(self._transposed(u))
            with torch.set_grad_enabled(learns and step + 1 == self.iterations):
                image = self._image(v)
                norm: Tensor = torch.linalg.vector_norm(image)  # uᵀWv, as u is the direction of Wv
            u = image.detach() / norm.detach().clamp(min=1e-12)
        with torch.no_grad():  # in place: training holds on to the tensors themselves
            self.u.copy_(u)
            self.v.copy_(v)
        return norm

    def _image(self, v: Tensor) -> Tensor:
        """W v."""
        return self.weight.flatten(1) @ v

    def _transposed(self, u: Tensor) -> Tensor:
        """Wᵀ u."""
        return u @ self.weight.flatten(1)

    @torch.no_grad()
    def _start(self, v_shape: tuple[int, ...]) -> None:
        generator = torch.Generator().manual_seed(0)
        v = _unit(torch.randn(v_shape, generator=generator, dtype=torch.float64).to(self.weight))
        u = _unit(self._image(v))
        for _ in range(_FIRST_STEPS):
            v = _unit(self._transposed(u))
            u = _unit(self._image(v))
        if self.v.shape == v.shape:
            self.u.copy_(u)
            self.v.copy_(v)
        else:
            self.u, self.v = u.clone(), v.clone()

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        for name in ("u", "v"):  # a layer that has seen no input yet takes the size of what is loaded
            saved = state_dict.get(prefix + name)
            if saved is not None and getattr(self, name).numel() == 0:
                setattr(self, name, self.weight.new_empty(saved.shape))
        super()._load_from_state_dict(state_dict, prefix, *rest)


class SpectralLinear(_SoftlyNormalised):
    """A linear layer with its spectral norm held at or below a coefficient.

    It is no `nn.Linear`, because its outputs are not those of its own `weight`.

    >>> with seeded(0):
    ...     layer = SpectralLinear(2, 2, coefficient=0.5).eval()
    >>> bool(operator_norm(layer) <= 0.5 * 1.001)
    True
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, *, coefficient: float = 3.0, iterations: int = 1
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        plain = nn.Linear(in_features, out_features, bias)
        self.weight, self.bias = plain.weight, plain.bias
        self._set_up(coefficient, iterations)
        self._start((in_features,))

    def reset_parameters(self) -> None:
        """New weights as a linear layer starts, and u and v for them."""
        nn.Linear.reset_parameters(self)  # type: ignore[arg-type]
        self._start((self.in_features,))

    def forward(self, inputs_B_D: Tensor) -> Tensor:
        return F.linear(inputs_B_D, self.used_weight(), self.bias)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None},"
            f" coefficient={self.coefficient}"
        )


class SpectralConv2d(_SoftlyNormalised, nn.Conv2d):
    """A convolution with its operator norm held at or below a coefficient; arguments as those of `nn.Conv2d`.

    `input_size`: height and width of its inputs; None: those of the first inputs that it sees.

    >>> with seeded(0):  # 15 steps find the norm of some weights to several per cent, and training goes on with them
    ...     layer = SpectralConv2d(1, 8, 3, padding=1, coefficient=0.5, input_size=(8, 8)).eval()
    >>> bool(operator_norm(layer, (8, 8)) <= 0.5 * 1.1)
    True
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int],
        *arguments: Any,
        coefficient: float = 3.0,
        iterations: int = 1,
        conv_norm: ConvNorm = "operator",
        input_size: tuple[int, int] | None = None,
        **options: Any,
    ) -> None:
        nn.Conv2d.__init__(self, in_channels, out_channels, kernel_size, *arguments, **options)
        if conv_norm not in ("operator", "reshape"):
            raise ValueError(f"conv_norm: expected operator or reshape, found {conv_norm!r}; operator is the default")
        self.conv_norm = conv_norm
        # A 1×1 convolution does the same at each place, so that its norm is that of its matrix.
        self.by_matrix = conv_norm == "reshape" or (self.kernel_size == (1, 1) and self.groups == 1)
        if not self.by_matrix and self.padding_mode != "zeros":
            raise ValueError(
                f"padding_mode: the norm of a convolution is found with zeros around pictures, found"
                f" {self.padding_mode!r}; use conv_norm='reshape'"
            )
        if not self.by_matrix:
            _paddings(self)  # refuses those that it cannot do
        self._set_up(coefficient, iterations)
        if self.by_matrix:
            self._start((self.weight[0].numel(),))
        elif input_size is not None:
            self._start((1, self.in_channels, *input_size))

    def reset_parameters(self) -> None:
        """New weights as a convolution starts, and u and v for them."""
        nn.Conv2d.reset_parameters(self)
        if "v" in self._buffers and self.v.numel():  # a convolution calls this before it has them
            self._start(tuple(self.v.shape))

    @property
    def knows_input_size(self) -> bool:
        """Whether u and v have their sizes."""
        return self.v.numel() > 0

    def forward(self, inputs_B_C_H_W: Tensor) -> Tensor:
        if not self.knows_input_size:
            self._start((1, self.in_channels, *inputs_B_C_H_W.shape[-2:]))
        outputs: Tensor = self._conv_forward(inputs_B_C_H_W, self.used_weight(), self.bias)
        return outputs

    def _image(self, v: Tensor) -> Tensor:
        if self.by_matrix:
            return super()._image(v)
        return F.conv2d(v, self.weight, None, self.stride, _paddings(self), self.dilation, self.groups)

    def _transposed(self, u: Tensor) -> Tensor:
        if self.by_matrix:
            return super()._transposed(u)
        return _transposed_convolution(self, self.weight, u, self.v.shape[-2:])

    @torch.no_grad()
    def _start(self, v_shape: tuple[int, ...]) -> None:
        if not self.by_matrix and tuple(self.v.shape) != v_shape:
            self.v = self.weight.new_zeros(v_shape)  # `_transposed` reads its size
            self.u = torch.zeros_like(self._image(self.v))
        super()._start(v_shape)

    def extra_repr(self) -> str:
        layer = nn.Conv2d.extra_repr(self)  # type: ignore[no-untyped-call]
        return f"{layer}, coefficient={self.coefficient}, conv_norm={self.conv_norm}"


def spectrally_normalised(
    module: nn.Module,
    coefficient: float = 3.0,
    *,
    linear: bool = False,
    iterations: int = 1,
    conv_norm: ConvNorm = "operator",
    input_shape: tuple[int, ...] | None = None,
) -> nn.Module:
    """A copy of a module with all its `Conv2d` layers normalised, and its linear layers but the last where wanted.

    Weights stay as they are. `input_shape`: the shape of one input of the module, from which each convolution learns
    the size of its own inputs; without it each learns that from the first inputs it sees.

    >>> plain = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(16, 2))
    >>> type(spectrally_normalised(plain, 2.0, input_shape=(1, 4, 4))[0]).__name__
    'SpectralConv2d'
    """
    module = copy.deepcopy(module)
    options: dict[str, Any] = {"coefficient": coefficient, "iterations": iterations}
    linears = [part for part in module.modules() if type(part) is nn.Linear]
    with seeded(0):  # new layers draw weights, which are replaced
        chosen: dict[nn.Module, nn.Module] = {layer: _as_linear(layer, options) for layer in linears[:-1] if linear}
        for part in module.modules():
            if type(part) is nn.Conv2d:
                chosen[part] = _as_convolution(part, options | {"conv_norm": conv_norm})
    if not chosen:
        raise ValueError(
            f"module: found no layer to normalise in {type(module).__name__}; pass one with nn.Conv2d layers, or"
            " linear=True for one with several nn.Linear layers"
        )
    for parent in list(module.modules()):
        for name, child in parent._modules.items():
            if child is not None and child in chosen:
                parent._modules[name] = chosen[child]
    normalised = chosen.get(module, module)
    if input_shape is not None:
        parameter = next(normalised.parameters())
        find_input_sizes(normalised, parameter.new_zeros(1, *input_shape))
    return normalised


def find_input_sizes(module: nn.Module, inputs: Any, device: torch.device | str | None = None) -> None:
    """One pass in evaluation mode, where some convolution does not know the size of its inputs yet.

    >>> layer = SpectralConv2d(1, 2, 3)
    >>> find_input_sizes(layer, torch.zeros(1, 1, 7, 7))
    >>> layer.v.shape, layer.u.shape
    (torch.Size([1, 1, 7, 7]), torch.Size([1, 2, 5, 5]))
    """
    if all(part.knows_input_size for part in module.modules() if isinstance(part, SpectralConv2d)) or not len(inputs):
        return
    parameter = next(module.parameters())
    inputs_1 = reader_of(module, inputs, device)(slice(0, 1))
    with evaluating(module), torch.no_grad(), seeded(0, parameter.device), shapes_explained(module, inputs_1):
        module(inputs_1)


def operator_norm(layer: nn.Module, input_size: tuple[int, ...] | None = None) -> float:
    """The largest singular value of a layer as a linear map from one whole input to another, converged.

    `input_size` is for convolutions beyond 1×1: height and width, channels before them are ignored; a `SpectralConv2d`
    knows its own. Of a normalised layer this is the norm of the weight that it uses.

    >>> layer = nn.Conv2d(1, 1, (1, 2), bias=False)
    >>> _ = nn.init.constant_(layer.weight, -2.0)
    >>> round(operator_norm(layer, (1, 3)), 6)  # of [[−2, −2, 0], [0, −2, −2]]
    3.464102
    """
    if not isinstance(layer, nn.Linear | nn.Conv2d | SpectralLinear):
        raise ValueError(f"layer: expected a linear layer or a Conv2d, found {type(layer).__name__}; pass one layer")
    with evaluating(layer), torch.no_grad():
        weight = (layer.used_weight() if isinstance(layer, _SoftlyNormalised) else layer.weight).detach()
    weight = weight.to("cpu", torch.float64)
    if not isinstance(layer, nn.Conv2d) or (layer.kernel_size == (1, 1) and layer.groups == 1):
        weight = weight.flatten(1)
        return float(torch.linalg.matrix_norm(weight, 2))
    if input_size is None and isinstance(layer, SpectralConv2d) and layer.v.ndim == 4:
        input_size = tuple(layer.v.shape)
    if input_size is None or len(input_size) < 2:
        raise ValueError(f"input_size: expected height and width of the inputs, found {input_size}; pass both")
    return _convolution_norm(layer, weight, (layer.in_channels, *input_size[-2:]))


def _convolution_norm(layer: nn.Conv2d, weight: Tensor, shape: tuple[int, ...]) -> float:
    from scipy.sparse.linalg import LinearOperator, svds

    paddings = _paddings(layer)

    def image(flat: Any) -> Any:
        v = torch.from_numpy(np.ascontiguousarray(flat)).view(1, *shape)
        return F.conv2d(v, weight, None, layer.stride, paddings, layer.dilation, layer.groups)

    out = image(np.zeros(int(np.prod(shape)))).shape

    def transposed(flat: Any) -> Any:
        u = torch.from_numpy(np.ascontiguousarray(flat)).view(out)
        return _transposed_convolution(layer, weight, u, shape[1:]).numpy().reshape(-1)

    columns, rows = int(np.prod(shape)), int(np.prod(out))
    forward: Any = lambda flat: image(flat).numpy().reshape(-1)  # noqa: E731
    if min(rows, columns) < 3:  # too small for the iteration of Lanczos
        matrix = np.stack([forward(one) for one in np.eye(columns)], 1)
        return float(np.linalg.norm(matrix, 2))
    start = np.random.default_rng(0).normal(size=min(rows, columns))
    make: Any = LinearOperator
    operator = make((rows, columns), matvec=forward, rmatvec=transposed, dtype=np.float64)
    largest: Any = svds(operator, k=1, return_singular_vectors=False, v0=start, maxiter=10_000)
    return float(largest[0])


def _transposed_convolution(layer: nn.Conv2d, weight: Tensor, u: Tensor, size: Any) -> Tensor:
    """The transpose of a convolution without bias, from outputs u to inputs of a size."""
    paddings = _paddings(layer)
    # Several input sizes lead to one output size where there is a stride: the rows that the windows did not reach.
    missed = [
        (side + 2 * padding - dilation * (kernel - 1) - 1) % stride
        for side, padding, dilation, kernel, stride in zip(
            size, paddings, layer.dilation, layer.kernel_size, layer.stride, strict=True
        )
    ]
    return F.conv_transpose2d(u, weight, None, layer.stride, paddings, missed, layer.groups, layer.dilation)


def _paddings(layer: nn.Conv2d) -> tuple[int, int]:
    """Zeros on each side of the height and of the width."""
    if layer.padding == "valid":
        return 0, 0
    if layer.padding == "same":
        each = [dilation * (kernel - 1) for dilation, kernel in zip(layer.dilation, layer.kernel_size, strict=True)]
        if any(whole % 2 for whole in each):
            raise ValueError(
                f"padding: 'same' with the kernel {layer.kernel_size} puts more zeros on one side than on the other;"
                " use an odd kernel"
            )
        return each[0] // 2, each[1] // 2
    assert isinstance(layer.padding, tuple)
    height, width = layer.padding
    return height, width


def _as_linear(layer: nn.Linear, options: dict[str, Any]) -> SpectralLinear:
    found = SpectralLinear(layer.in_features, layer.out_features, layer.bias is not None, **options)
    _take_weights(found, layer)
    return found


def _as_convolution(layer: nn.Conv2d, options: dict[str, Any]) -> SpectralConv2d:
    same = ("stride", "padding", "dilation", "groups", "padding_mode")
    found = SpectralConv2d(
        layer.in_channels,
        layer.out_channels,
        layer.kernel_size,  # type: ignore[arg-type]
        bias=layer.bias is not None,
        **{name: getattr(layer, name) for name in same},
        **options,
    )
    _take_weights(found, layer)
    return found


def _take_weights(found: Any, layer: Any) -> None:
    found.weight, found.bias = layer.weight, layer.bias
    found.to(layer.weight)
    if found.v.numel():
        found._start(tuple(found.v.shape))
    found.train(layer.training)


def _unit(vector: Tensor) -> Tensor:
    unit: Tensor = vector / torch.linalg.vector_norm(vector).clamp(min=1e-12)
    return unit
