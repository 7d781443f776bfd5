"""Scores of labelled examples by one network: how wrong, how unsure or how steep it is at each of them.

    el2n                ‖p − e_y‖, or its square            p: predicted probabilities, e_y: 1 at the label, else 0
    l1_error            Σ_c |p_c − 1[c = y]| = 2 (1 − p_y)
    max_margin          max_{c≠y} p_c − p_y
    sum_margin          Σ_{c≠y} (p_c − p_y) = 1 − C p_y
    loss                −ln p_y
    entropy, margin     −Σ_c p_c ln p_c and 1 − (p_(1) − p_(2)); both need no label
    grand               ‖∇_θ (−ln p_y)‖ over all weights θ that learn
    grand_last_layer    ‖p − e_y‖ ‖h‖, the same over the last linear layer alone, which sees h (with the 1 of its bias)
    input_norm          ‖x‖ of the input; needs no network
    noisy_input_norm    ‖x‖ times a random factor, a control

Bigger means harder. Scores of several networks are averaged by their mean, once each network has its own.
docs/theory/data-pruning.md; Paul et al. 2021; Kirsch 2023.
"""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from natsel.beliefs import CategoricalSamples, FisherFactors
from natsel.beliefs.arrays import ArrayLike, as_tensor
from natsel.choose.select import score
from natsel.information.class_labels import class_labels
from natsel.memory import chunked
from natsel.models.last_layer.gradient_lengths import gradient_lengths
from natsel.models.last_layer.readout import readout_of_module
from natsel.models.networks.inputs import as_device, as_inputs
from natsel.models.networks.prediction import predict
from natsel.models.protocol import Progress
from natsel.options import Rows

Ratio = Literal["log-of-normal", "log-normal"]


def el2n(log_probs: ArrayLike, labels_N: ArrayLike, *, squared: bool = False) -> Tensor:
    """‖p − e_y‖ of each example, at most √2; squared it is the Brier score of the example, at most 2.

    `log_probs`: [N, C] of one network gives N values, [N, K, C] of K networks gives [N, K]. Paul et al. average lengths
    over networks, Kirsch averages squares: the two averages may order examples differently.

    >>> el2n(torch.tensor([[0.4, 0.6]]).log(), [0], squared=True).round(decimals=4).tolist()
    [0.72]
    """
    lengths = _by_method("el2n", log_probs, labels_N)
    return lengths.square() if squared else lengths


def l1_error(log_probs: ArrayLike, labels_N: ArrayLike) -> Tensor:
    """Σ_c |p_c − 1[c = y]| = 2 (1 − p_y), from 0 to 2.

    >>> l1_error(torch.tensor([[0.4, 0.6]]).log(), [0]).round(decimals=4).tolist()
    [1.2]
    """
    _, others = _split(log_probs, labels_N)
    return 2 * others.sum(-1)


def max_margin(log_probs: ArrayLike, labels_N: ArrayLike) -> Tensor:
    """max_{c≠y} p_c − p_y, from −1 to 1: above 0 where another class is likelier than the label.

    >>> max_margin(torch.tensor([[0.4, 0.6]]).log(), [0]).round(decimals=4).tolist()
    [0.2]
    """
    own, others = _split(log_probs, labels_N)
    return others.amax(-1) - own


def sum_margin(log_probs: ArrayLike, labels_N: ArrayLike) -> Tensor:
    """Σ_{c≠y} (p_c − p_y) = 1 − C p_y: the order of `l1_error` on another scale.

    >>> sum_margin(torch.tensor([[0.4, 0.6]]).log(), [0]).round(decimals=4).tolist()
    [0.2]
    """
    own, others = _split(log_probs, labels_N)
    return others.sum(-1) - (others.shape[-1] - 1) * own


def loss(log_probs: ArrayLike, labels_N: ArrayLike) -> Tensor:
    """−ln p_y in nats.

    >>> loss(torch.tensor([[0.5, 0.5]]).log(), [0]).round(decimals=4).tolist()
    [0.6931]
    """
    table, index = _table(log_probs, labels_N)
    return -table.gather(-1, index)[..., 0]


def entropy(log_probs: ArrayLike) -> Tensor:
    """−Σ_c p_c ln p_c in nats: how unsure a network is, whatever the label says.

    >>> entropy(torch.tensor([[0.5, 0.5]]).log()).round(decimals=4).tolist()
    [0.6931]
    """
    return _by_method("entropy", log_probs, None)


def margin(log_probs: ArrayLike) -> Tensor:
    """1 − (p_(1) − p_(2)): how close the two likeliest classes are, whatever the label says.

    >>> margin(torch.tensor([[0.4, 0.6]]).log()).round(decimals=4).tolist()
    [0.8]
    """
    return _by_method("margin", log_probs, None)


def grand(
    network: nn.Module,
    inputs: Rows,
    labels_N: ArrayLike,
    *,
    device: torch.device | str | None = None,
    progress: Progress | None = None,
) -> Tensor:
    """‖∇_θ (−ln p_y)‖ of each example, over all weights of a classifier that learn, in evaluation mode.

    Lengths are computed layer by layer, in chunks that keep to the memory budget: about as much time as an epoch of
    training. Networks with uncommon layers get whole gradients, which need more time and memory.

    >>> network = nn.Linear(2, 2, bias=False).requires_grad_()
    >>> _ = network.weight.data.zero_()
    >>> grand(network, torch.tensor([[3.0, 4.0]]), [0], device="cpu").round(decimals=4).tolist()
    [3.5355]
    """
    device = as_device(device)
    network.to(device)
    logits_N_C = predict([network], inputs, device)[:, 0]
    labels_N = class_labels(as_tensor(labels_N, "labels"), len(logits_N_C), logits_N_C.shape[1]).to(device)

    def residuals(part: slice) -> Tensor:
        """∂(−ln p_y)/∂logits = p − e_y of each example."""
        probs_n_C = logits_N_C[part].double().softmax(1)
        others_n_C = probs_n_C.scatter(1, labels_N[part, None], 0.0)
        return others_n_C.scatter(1, labels_N[part, None], -others_n_C.sum(1, keepdim=True))

    return gradient_lengths(network, inputs, residuals, device, progress=progress)


def grand_last_layer(
    network: nn.Module, inputs: Rows, labels_N: ArrayLike, *, device: torch.device | str | None = None
) -> Tensor:
    """‖p − e_y‖ ‖h‖: `grand` over the last linear layer alone, from one forward pass.

    >>> network = nn.Linear(2, 2, bias=False)
    >>> _ = network.weight.data.zero_()
    >>> grand_last_layer(network, torch.tensor([[3.0, 4.0]]), [0], device="cpu").round(decimals=4).tolist()
    [3.5355]
    """
    readout = readout_of_module(network, inputs, as_device(device))
    features_N_D = readout.features(inputs)
    probs_N_C = readout.logits(features_N_D).softmax(1)
    return score("grand", FisherFactors.categorical(features_N_D.double(), probs_N_C), labels=labels_N)


def input_norm(inputs: Rows, mean: float | Sequence[float] = 0.0, std: float | Sequence[float] = 1.0) -> Tensor:
    """‖(x − mean) / std‖ of each input, all its numbers taken as one row; bytes are divided by 255 first.

    `mean`, `std`: as the network normalises its inputs: one number, or one for each entry of the last axis.

    >>> input_norm(torch.tensor([[3.0, 4.0]])).tolist()
    [5.0]
    """
    if len(inputs) == 0:
        raise ValueError("inputs: found none; pass at least one")
    centre, scale = (torch.as_tensor(one, dtype=torch.float64) for one in (mean, std))

    def work(part: slice) -> Tensor:
        rows_n = as_inputs(inputs[part], "cpu", torch.float64)
        norm_n: Tensor = torch.linalg.vector_norm(((rows_n - centre) / scale).flatten(1), dim=1)
        return norm_n

    bytes_each = 24 * as_inputs(inputs[slice(0, 1)], "cpu", torch.float64).numel()
    return chunked(work, len(inputs), bytes_each, torch.device("cpu"))


def noisy_input_norm(
    inputs: Rows,
    mean: float | Sequence[float] = 0.0,
    std: float | Sequence[float] = 1.0,
    *,
    seed: int = 0,
    ratio: Ratio = "log-of-normal",
    ratio_mean: float = 3.2924,
    ratio_std: float = 0.2723,
) -> Tensor:
    """`input_norm` times a random factor per example, which imitates the spread of gradient norm over input norm.

    With n drawn from a normal distribution the factor is ln n ("log-of-normal", as published; n is at least a little
    above 1, so that scores stay positive) or exp n ("log-normal").

    >>> bool(noisy_input_norm(torch.ones(3, 4), seed=1).min() > 0)
    True
    """
    if ratio not in ("log-of-normal", "log-normal"):
        raise ValueError(f"ratio: expected log-of-normal or log-normal, found {ratio!r}; choose one of them")
    norm_N = input_norm(inputs, mean, std)
    drawn_N = torch.randn(len(norm_N), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    drawn_N = ratio_mean + ratio_std * drawn_N
    return norm_N * (drawn_N.exp() if ratio == "log-normal" else drawn_N.clamp_min(1 + 1e-6).log())


def _by_method(method: str, log_probs: ArrayLike, labels_N: ArrayLike | None) -> Tensor:
    """The score of a method of the grid by each network alone."""
    table = _checked(log_probs)
    table_N_K_C = table[:, None] if table.ndim == 2 else table
    draws = (CategoricalSamples(table_N_K_C[:, draw, None]) for draw in range(table_N_K_C.shape[1]))
    found_N_K = torch.stack([score(method, belief, labels=labels_N) for belief in draws], 1)
    return found_N_K[:, 0] if table.ndim == 2 else found_N_K


def _checked(log_probs: ArrayLike) -> Tensor:
    table = as_tensor(log_probs, "log_probs")
    if table.ndim not in (2, 3) or 0 in table.shape:
        raise ValueError(
            f"log_probs: expected examples × classes, or examples × networks × classes, found shape"
            f" {list(table.shape)}; pass the logarithm of probabilities"
        )
    return table.double()


def _table(log_probs: ArrayLike, labels_N: ArrayLike) -> tuple[Tensor, Tensor]:
    """Log-probabilities and the index of the label in each row."""
    table = _checked(log_probs)
    CategoricalSamples(table[:, None] if table.ndim == 2 else table)  # refuses what is no log of probabilities
    classes_N = class_labels(as_tensor(labels_N, "labels"), len(table), table.shape[-1]).to(table.device)
    return table, classes_N.view(-1, *[1] * (table.ndim - 1)).expand(*table.shape[:-1], 1)


def _split(log_probs: ArrayLike, labels_N: ArrayLike) -> tuple[Tensor, Tensor]:
    """p_y, and the probabilities with 0 in its place: 1 − p_y as a sum keeps the digits of a sure prediction."""
    table, index = _table(log_probs, labels_N)
    probs = table.exp()
    return probs.gather(-1, index)[..., 0], probs.scatter(-1, index, 0.0)
