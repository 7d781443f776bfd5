"""Digits that may be read as two: made from clear digits, with the distribution of labels of each picture known.

    1  a variational auto-encoder learns the clear digits:     z ~ q(z | x),  picture = decode(z)
    2  two digits of different classes are mixed:              decode(w z_a + (1 − w) z_b),   w ~ U(0.3, 0.7)
    3  an ensemble of classifiers reads each mixture:          p̄ = 1/K Σ_k p_k,   MI = H[p̄] − 1/K Σ_k H[p_k]
    4  mixtures that look like no digit are left out           MI above a limit, or Σ v (1 − v) / Σ v over grey levels v
    5  the rest is stratified by class and entropy             as many pictures of each class and of each range of H[p̄]
    6  several labels per picture are drawn from p̄

p̄ is kept: it is the true distribution of the labels, so that what a model says about ambiguity can be compared with the
truth. The classifiers learn from clear digits and from decoded ones, z ~ q(z | x) with the label of x, so that decoded
pictures are no news to them; one temperature for all, fitted on digits held out, calibrates p̄. They are thrown away.

The mask `label_probs` of the examples holds p̄ [N, C], `group` the number of the picture that copies share, `ambiguous`
which rows were made here (all of them; in Dirty-MNIST the second half).  Mukhoti, Kirsch et al. 2023, "Deep
deterministic uncertainty", appendix on Dirty-MNIST.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from natsel.data.examples import Examples
from natsel.data.labels import Array
from natsel.progress import ProgressBar
from natsel.seeds import derive

if TYPE_CHECKING:
    from torch import Generator, Tensor, nn
    from torch.optim import Adam
    from torch.optim.lr_scheduler import CosineAnnealingLR

Progress = Callable[[int, int], None]

_CHUNK = 4000  # pictures decoded and read at a time


@dataclass(frozen=True)
class AmbiguousDigitsSettings:
    """How ambiguous digits are made. The defaults make Ambiguous-MNIST: 60,000 training pairs and 10,000 test pairs.

    `entropy_edges` are the borders of the ranges of H[p̄], in nats; pictures outside all ranges are left out. `max_blur`
    limits Σ v (1 − v) / Σ v, which nine tenths of the clear digits of MNIST keep below 0.37 when they are decoded.
    """

    n_train: int = 6000
    n_test: int = 1000
    labels_per_picture: int = 10
    mixing: tuple[float, float] = (0.3, 0.7)
    entropy_edges: tuple[float, ...] = (0.1, 0.3, 0.5, 0.7, 0.9, 1.2)
    max_mutual_information: float = 0.05
    max_blur: float = 0.4
    candidates_per_picture: int = 20
    latents: int = 12
    hidden: int = 400
    kl_weight: float = 1.0
    members: int = 5
    vae_epochs: int = 12
    classifier_epochs: int = 2
    batch: int = 256
    learning_rate: float = 0.002

    def __post_init__(self) -> None:
        counts = ("n_train", "n_test", "labels_per_picture", "candidates_per_picture", "latents", "hidden", "members")
        for name in (*counts, "vae_epochs", "classifier_epochs", "batch"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected 1 or more, found {getattr(self, name)}; raise it")
        low, high = self.mixing
        if not 0 <= low <= high <= 1:
            raise ValueError(
                f"mixing: expected two weights 0 ≤ low ≤ high ≤ 1, found {self.mixing}; (0.3, 0.7) is usual"
            )
        edges = self.entropy_edges
        if len(edges) < 2 or any(low >= high for low, high in pairwise(edges)):
            raise ValueError(f"entropy_edges: expected two or more rising numbers, found {edges}; sort them")


def ambiguous_digits(
    train: Examples,
    test: Examples,
    settings: AmbiguousDigitsSettings | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> tuple[Examples, Examples]:
    """Ambiguous pictures from clear ones, uint8 [N, height, width]: a training and a test part, labels drawn from p̄.

    Networks learn from `train` only; the test part mixes digits of `test`. The copies of a picture stand side by side:
    row r is label r % labels_per_picture of picture r // labels_per_picture. The same seed gives the same pictures on
    the same machine. Ambiguous-MNIST takes minutes; `natsel.data.ambiguous_mnist` keeps it.

    >>> from natsel.data.load import load
    >>> ambiguous_digits(load("iris").train, load("iris").test)
    Traceback (most recent call last):
    ValueError: train: expected grey pictures as bytes [N, height, width], found float32 [105, 4]; ...
    """
    settings = AmbiguousDigitsSettings() if settings is None else settings
    _check(train, test)
    progress = ProgressBar("making ambiguous digits") if progress is None else progress
    steps = iter(range(1, (total := _steps(len(train), settings)) + 1))

    def advance() -> None:
        progress(next(steps), total)

    with _alone():
        vae, members, temperature = _learn(train, settings, seed, advance)
        found = []
        for part, clear, count in (("train", train, settings.n_train), ("test", test, settings.n_test)):
            pictures, probs_N_C = _kept(clear, count, vae, members, temperature, settings, derive(seed, part), advance)
            labels = _drawn_labels(probs_N_C, settings.labels_per_picture, derive(seed, part))
            found.append(one_row_per_label(pictures, probs_N_C, labels, train.classes))
    return found[0], found[1]


def _check(train: Examples, test: Examples) -> None:
    for name, part in (("train", train), ("test", test)):
        inputs = part.inputs
        if getattr(inputs, "dtype", None) != np.uint8 or inputs.ndim != 3:
            found = f"{getattr(inputs, 'dtype', type(inputs).__name__)} {list(getattr(inputs, 'shape', ()))}"
            raise ValueError(
                f"{name}: expected grey pictures as bytes [N, height, width], found {found}; pass digits 0..255"
            )
        if part.labels is None or part.labels.dtype.kind != "i" or len(np.unique(part.labels)) < 2:
            raise ValueError(f"{name}: expected pictures of two or more classes with their labels; pass labels")
        if inputs.shape[1:] != train.inputs.shape[1:]:
            raise ValueError(f"test: expected pictures of {train.inputs.shape[1:]}, found {inputs.shape[1:]}; resize")


def _drawn_labels(probs_N_C: Array, copies: int, seed: int) -> Array:
    """`copies` labels for each picture, drawn from p̄, one after the other."""
    generator = np.random.default_rng(derive(seed, "labels"))
    cumulative_N_C = probs_N_C.cumsum(1)
    cumulative_N_C[:, -1] = 1.0
    uniform_N_copies = generator.uniform(size=(len(probs_N_C), copies))
    labels: Array = (uniform_N_copies[:, :, None] >= cumulative_N_C[:, None]).sum(2).ravel()
    return labels


def one_row_per_label(pictures: Array, probs_N_C: Array, labels: Array, classes: tuple[str, ...]) -> Examples:
    """Pictures and p̄ as often as each picture has labels, with the masks.

    >>> one_row_per_label(np.zeros((2, 1, 1), np.uint8), np.eye(2), np.array([0, 0, 1, 1]), ()).masks["group"]
    array([0, 0, 1, 1])
    """
    group = np.repeat(np.arange(len(pictures)), len(labels) // len(pictures))
    masks = {"label_probs": probs_N_C[group], "group": group, "ambiguous": np.ones(len(group), dtype=bool)}
    return Examples(pictures[group], labels, classes, masks)


@contextmanager
def _alone() -> Iterator[None]:
    """One thread, since the order of sums decides what is learnt; afterwards torch is as it was.

    Layers draw their first weights from the global random state, which is put back; those weights are never used.
    """
    import torch

    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        torch.set_num_threads(threads)


# What learns: an auto-encoder and classifiers, small enough for two cores


def _held_out(count: int) -> int:
    """A twelfth of the digits: the temperature is fitted on them."""
    return max(1, count // 12)


def _steps(count: int, settings: AmbiguousDigitsSettings) -> int:
    """Batches learnt from and chunks of candidates looked at, for a progress bar."""
    per_epoch = -(-(count - _held_out(count)) // settings.batch)
    chunks = sum(-(-n * settings.candidates_per_picture // _CHUNK) for n in (settings.n_train, settings.n_test))
    return per_epoch * (settings.vae_epochs + settings.members * settings.classifier_epochs) + chunks


def _learn(
    train: Examples, settings: AmbiguousDigitsSettings, seed: int, advance: Callable[[], None]
) -> "tuple[_Vae, list[nn.Module], float]":
    import torch

    pixels_N_D = torch.from_numpy(train.inputs.reshape(len(train), -1))
    labels_N = torch.from_numpy(train.labels)
    order = torch.randperm(len(train), generator=_generator(seed, "held out"))
    held, used = order[: _held_out(len(train))], order[_held_out(len(train)) :]
    vae = _Vae(pixels_N_D.shape[1], settings, _generator(seed, "vae"))
    vae.fit(pixels_N_D[used], settings, _generator(seed, "vae batches"), advance)
    shape = train.inputs.shape[1:]
    digits = _EncodedDigits(pixels_N_D[used], labels_N[used], *vae.encode(pixels_N_D[used]), shape, train.n_classes)
    members = [
        _fitted_classifier(vae, digits, settings, derive(seed, "member", k), advance) for k in range(settings.members)
    ]
    means_N_L, scales_N_L = vae.encode(pixels_N_D[held])
    noise_N_L = torch.randn(means_N_L.shape, generator=_generator(seed, "held latents"))
    decoded = vae.decode(means_N_L + scales_N_L * noise_N_L)
    both = torch.cat([_scaled(pixels_N_D[held]), decoded]).view(-1, 1, *shape)
    logits_K_N_C = _logits(members, both)
    return vae, members, _temperature(logits_K_N_C, torch.cat([labels_N[held], labels_N[held]]))


class _Vae:
    """Dense layers D → hidden → hidden/2 → latents and back; Bernoulli likelihood of the grey levels 0..1."""

    def __init__(self, pixels: int, settings: AmbiguousDigitsSettings, generator: "Generator") -> None:
        wide, narrow = settings.hidden, max(1, settings.hidden // 2)
        sizes = (pixels, wide, narrow, 2 * settings.latents)
        self.encoder = _dense(sizes, generator)
        self.decoder = _dense((settings.latents, narrow, wide, pixels), generator)
        self.parameters = [*self.encoder.parameters(), *self.decoder.parameters()]

    def _encode(self, inputs_N_D: "Tensor") -> "tuple[Tensor, Tensor]":
        mean_N_L, log_scale_N_L = self.encoder(inputs_N_D).chunk(2, 1)
        return mean_N_L, log_scale_N_L.clamp(-8, 4).exp()

    def encode(self, pixels_N_D: "Tensor") -> "tuple[Tensor, Tensor]":
        """Mean and standard deviation of q(z | x)."""
        import torch

        with torch.no_grad():
            parts = [self._encode(_scaled(part)) for part in torch.split(pixels_N_D, _CHUNK)]
        return torch.cat([mean for mean, _ in parts]), torch.cat([scale for _, scale in parts])

    def decode(self, latents_N_L: "Tensor") -> "Tensor":
        """Grey levels 0..1."""
        import torch

        with torch.no_grad():
            decoded: Tensor = self.decoder(latents_N_L).sigmoid()
            return decoded

    def fit(
        self,
        pixels_N_D: "Tensor",
        settings: AmbiguousDigitsSettings,
        generator: "Generator",
        advance: Callable[[], None],
    ) -> None:
        import torch
        from torch.nn import functional as F

        steps = settings.vae_epochs * -(-len(pixels_N_D) // settings.batch)
        optimiser, schedule = _adam(self.parameters, settings.learning_rate, steps)
        for rows in _batches(len(pixels_N_D), settings.batch, settings.vae_epochs, generator):
            inputs_B_D = _scaled(pixels_N_D[rows])
            mean_B_L, scale_B_L = self._encode(inputs_B_D)
            latents_B_L = mean_B_L + scale_B_L * torch.randn(mean_B_L.shape, generator=generator)
            logits_B_D = self.decoder(latents_B_L)
            fit = F.binary_cross_entropy_with_logits(logits_B_D, inputs_B_D, reduction="sum")
            kl = 0.5 * (mean_B_L**2 + scale_B_L**2 - 1 - 2 * scale_B_L.log()).sum()
            optimiser.zero_grad()
            torch.autograd.backward((fit + settings.kl_weight * kl) / len(rows))
            optimiser.step()
            schedule.step()
            advance()


@dataclass(frozen=True)
class _EncodedDigits:
    """Clear digits with the mean and the standard deviation of q(z | x)."""

    pixels_N_D: "Tensor"
    labels_N: "Tensor"
    means_N_L: "Tensor"
    scales_N_L: "Tensor"
    shape: tuple[int, ...]
    n_classes: int


def _fitted_classifier(
    vae: _Vae, digits: _EncodedDigits, settings: AmbiguousDigitsSettings, seed: int, advance: Callable[[], None]
) -> "nn.Module":
    """A small convolutional network; in every batch each digit is there once as it is and once decoded."""
    import torch
    from torch.nn import functional as F

    count = len(digits.labels_N)
    network = _convolutional(digits.shape, digits.n_classes, _generator(seed, "weights"))
    generator = _generator(seed, "batches")
    steps = settings.classifier_epochs * -(-count // settings.batch)
    optimiser, schedule = _adam(list(network.parameters()), settings.learning_rate, steps)
    for rows in _batches(count, settings.batch, settings.classifier_epochs, generator):
        noise_B_L = torch.randn((len(rows), settings.latents), generator=generator)
        decoded_B_D = vae.decode(digits.means_N_L[rows] + digits.scales_N_L[rows] * noise_B_L)
        both = torch.cat([_scaled(digits.pixels_N_D[rows]), decoded_B_D]).view(-1, 1, *digits.shape)
        loss = F.cross_entropy(network(both), digits.labels_N[rows].repeat(2))
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        optimiser.step()
        schedule.step()
        advance()
    return network


def _convolutional(shape: tuple[int, ...], classes: int, generator: "Generator") -> "nn.Module":
    from torch import nn

    height, width = ((side + 3) // 4 for side in shape)  # halved twice, rounded up
    network = nn.Sequential(
        nn.Conv2d(1, 16, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * height * width, 64),
        nn.ReLU(),
        nn.Linear(64, classes),
    )
    return _initialised(network, generator)


def _dense(sizes: tuple[int, ...], generator: "Generator") -> "nn.Module":
    from torch import nn

    layers: list[nn.Module] = []
    for before, after in pairwise(sizes):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return _initialised(nn.Sequential(*layers[:-1]), generator)


def _initialised(network: "nn.Sequential", generator: "Generator") -> "nn.Module":
    """Weights from the generator given, biases 0."""
    from torch import nn

    for layer in network:
        if isinstance(layer, nn.Linear | nn.Conv2d):
            nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu", generator=generator)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    return network


def _generator(seed: int, purpose: str) -> "Generator":
    import torch

    return torch.Generator().manual_seed(derive(seed, purpose))


def _scaled(pixels: "Tensor") -> "Tensor":
    return pixels.float() / 255


def _adam(parameters: "list[nn.Parameter]", rate: float, steps: int) -> "tuple[Adam, CosineAnnealingLR]":
    import torch

    optimiser = torch.optim.Adam(parameters, lr=rate)
    return optimiser, torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)


def _batches(count: int, batch: int, epochs: int, generator: "Generator") -> "Iterator[Tensor]":
    import torch

    for _ in range(epochs):
        yield from torch.split(torch.randperm(count, generator=generator), batch)


def _logits(members: "list[nn.Module]", pictures: "Tensor") -> "Tensor":
    import torch

    with torch.no_grad():
        return torch.stack(
            [torch.cat([member(part) for part in torch.split(pictures, _CHUNK)]) for member in members]
        ).double()


def _temperature(logits_K_N_C: "Tensor", labels_N: "Tensor") -> float:
    """The temperature with which p̄ is most likely to have given the labels, from a grid of 0.25 to 4."""

    def loss(temperature: float) -> float:
        log_probs_N_C = (logits_K_N_C / temperature).log_softmax(2).logsumexp(0) - math.log(len(logits_K_N_C))
        return -float(log_probs_N_C.gather(1, labels_N[:, None]).mean())

    return min([2 ** (step / 8) for step in range(-16, 17)], key=loss)


# What is kept


def _kept(
    clear: Examples,
    count: int,
    vae: _Vae,
    members: "list[nn.Module]",
    temperature: float,
    settings: AmbiguousDigitsSettings,
    seed: int,
    advance: Callable[[], None],
) -> tuple[Array, Array]:
    """So many mixtures with their p̄, in random order."""
    import torch

    generator = np.random.default_rng(derive(seed, "mixtures"))
    first_N, second_N = _pairs(clear.labels, count * settings.candidates_per_picture, generator)
    means_N_L, _ = vae.encode(torch.from_numpy(clear.inputs.reshape(len(clear), -1)))
    weight_N_1 = torch.from_numpy(generator.uniform(*settings.mixing, size=(len(first_N), 1)).astype(np.float32))
    mixed_N_L = weight_N_1 * means_N_L[first_N] + (1 - weight_N_1) * means_N_L[second_N]
    shape = clear.inputs.shape[1:]
    pictures, blurs, logits = [], [], []
    for latents_B_L in torch.split(mixed_N_L, _CHUNK):
        levels_B_D = vae.decode(latents_B_L)
        blurs.append((levels_B_D * (1 - levels_B_D)).sum(1) / levels_B_D.sum(1))
        pictures.append((levels_B_D * 255).round().to(torch.uint8).view(-1, 1, *shape))
        logits.append(_logits(members, _scaled(pictures[-1])))
        advance()
    pictures_N, blur_N, logits_K_N_C = torch.cat(pictures), torch.cat(blurs), torch.cat(logits, 1)
    probs_K_N_C = (logits_K_N_C / temperature).softmax(2)
    probs_N_C = probs_K_N_C.mean(0)
    entropy_N = torch.special.entr(probs_N_C).sum(1)
    information_N = entropy_N - torch.special.entr(probs_K_N_C).sum(2).mean(0)
    usable_N = ((information_N <= settings.max_mutual_information) & (blur_N <= settings.max_blur)).numpy()
    chosen = _stratified(probs_N_C.numpy(), entropy_N.numpy(), usable_N, count, settings.entropy_edges, generator)
    return pictures_N[chosen, 0].numpy(), probs_N_C[chosen].numpy()


def _pairs(labels: Array, count: int, generator: np.random.Generator) -> tuple[Array, Array]:
    """Positions of pairs of different classes."""
    first, second = generator.integers(len(labels), size=(2, count))
    while (same := labels[first] == labels[second]).any():
        second[same] = generator.integers(len(labels), size=int(same.sum()))
    return first, second


def _stratified(
    probs_N_C: Array,
    entropy_N: Array,
    usable_N: Array,
    count: int,
    edges: tuple[float, ...],
    generator: np.random.Generator,
) -> Array:
    """So many positions, spread evenly over classes and, within a class, over ranges of entropy as far as they go."""
    order = generator.permutation(len(entropy_N))
    order = order[usable_N[order]]
    ranges = np.digitize(entropy_N[order], edges) - 1
    inside = (ranges >= 0) & (ranges < len(edges) - 1)
    order, ranges = order[inside], ranges[inside]
    classes = probs_N_C[order].argmax(1)
    n_classes = probs_N_C.shape[1]
    available = np.bincount(classes * (len(edges) - 1) + ranges, minlength=n_classes * (len(edges) - 1))
    available_C_R = available.reshape(n_classes, len(edges) - 1)
    if available.sum() < count:
        raise ValueError(
            f"candidates_per_picture: {count} ambiguous pictures wanted, {available.sum()} of {len(entropy_N)} "
            "candidates are ambiguous and no junk; raise it, max_mutual_information or max_blur"
        )
    wanted_C = _shared(count, available_C_R.sum(1))
    wanted_C_R = np.stack([_shared(wanted, row) for wanted, row in zip(wanted_C, available_C_R, strict=True)])
    chosen = [
        order[(classes == one) & (ranges == stratum)][: wanted_C_R[one, stratum]]
        for one in range(n_classes)
        for stratum in range(len(edges) - 1)
    ]
    return generator.permutation(np.concatenate(chosen))


def _shared(count: int, available: Array) -> Array:
    """`count` shared evenly among bins, none beyond what it holds.

    >>> _shared(9, np.array([1, 10, 10])).tolist()
    [1, 4, 4]
    """
    shares = np.zeros(len(available), dtype=np.int64)
    while shares.sum() < count:
        open_bins = np.flatnonzero(shares < available)
        each = max(1, (count - int(shares.sum())) // len(open_bins))
        for one in open_bins[: count - int(shares.sum())]:
            shares[one] = min(shares[one] + each, available[one])
    return shares
