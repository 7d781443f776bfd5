"""Pools to measure on: predictions of K draws for N points, made from a seed without a download.

    gaussian      log_softmax( 2 g_n + 1.85 g_nk ),  g standard normal: what draws share, plus noise of each
    digits        a bagged committee of linear classifiers on scikit-learn's digits, from 40 labels
    a file        your own log probabilities

and, for the quality of batches, families with a strength s after a colon, so that labels may tell little or much:

    independent   log_softmax( s·g_nk ): all points alike
    correlated    log_softmax( g_n + s·W_k x_n / √5 ),  x_n of 5 features: all points are about the same few directions
    duplicated    correlated, each point five times
    digits, letters, clinc    committees trained on s labels: digits, handwritten letters, requests to an assistant

Synthetic draws share nothing but their mean, so that joint information grows as fast as it can; the draws of a
committee agree on most points and overlap on the rest, as real ones do. A selector should be measured on all of them.
"""

import math
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from natsel.beliefs import CategoricalSamples

# With these scales the best 10 of 10,000 points at K=100, C=10 tell about 4.5 of ln 100 = 4.6 nats.
_SHARED, _PER_DRAW = 2.0, 1.85
_BLOCK_BYTES = 1 << 25
_DIRECTIONS, _COPIES, _BLUR = 5, 5, 0.1


def gaussian_pool(count: int, draws: int, classes: int, seed: int = 0) -> Tensor:
    """Synthetic log_probs_N_K_C, float32: Gaussian logits shared over draws plus Gaussian noise of each draw.

    >>> gaussian_pool(5, 3, 4).exp().sum(-1).mean().round(decimals=4)
    tensor(1.)
    """
    generator = torch.Generator().manual_seed(seed)
    log_probs_N_K_C = torch.empty(count, draws, classes)
    block = max(1, _BLOCK_BYTES // (4 * draws * classes))
    for out_n_K_C in torch.split(log_probs_N_K_C, block):
        shared_n_1_C = torch.randn(len(out_n_K_C), 1, classes, generator=generator)
        logits_n_K_C = torch.randn(out_n_K_C.shape, generator=generator).mul_(_PER_DRAW).add_(_SHARED * shared_n_1_C)
        torch.log_softmax(logits_n_K_C, -1, out=out_n_K_C)
    return log_probs_N_K_C


def from_file(path: str | Path) -> Tensor:
    """log_probs_N_K_C from a `.npy` array, or from a belief that natsel saved.

    >>> from_file("missing.npy")
    Traceback (most recent call last):
    FileNotFoundError: pool: there is no file missing.npy; pass a .npy array of log probabilities or a belief
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"pool: there is no file {path}; pass a .npy array of log probabilities or a belief")
    if path.suffix == ".npy":
        return CategoricalSamples(np.load(path, allow_pickle=False)).log_probs_N_K_C.to(torch.float32)
    belief = CategoricalSamples.load(path)
    if not belief.uniform:
        raise ValueError(f"pool: the draws in {path} have unequal weights, which the peers cannot read; resample them")
    return belief.log_probs_N_K_C.to(torch.float32)


def make_pool(kind: str, count: int, draws: int, classes: int, seed: int = 0) -> Tensor:
    """The pool a case names: "gaussian", "digits", a family with its strength ("independent:0.2"), or a file.

    >>> make_pool("gaussian", 5, 3, 4).shape, make_pool("correlated:0.2", 5, 3, 4).shape
    (torch.Size([5, 3, 4]), torch.Size([5, 3, 4]))
    """
    if kind == "gaussian":
        return gaussian_pool(count, draws, classes, seed)
    if kind == "digits":
        return committee_pool("digits", count, draws, 40, seed)
    family, _, strength = kind.partition(":")
    if family in ("independent", "correlated", "duplicated"):
        return _made(family, float(strength), (count, draws, classes), seed)
    if family in _REAL:
        return committee_pool(family, count, draws, int(strength), seed)
    return from_file(kind)


def committee_pool(name: str, count: int, draws: int, labelled: int, seed: int = 0) -> Tensor:
    """log_probs_N_K_C of a bagged committee on real data, float32: each member saw a resample of `labelled` points.

    The pool is the other points of the data set; beyond these, the same ones again with standard normal noise times 0.1
    added to their inputs.

    >>> committee_pool("digits", 50, draws=3, labelled=100).shape
    torch.Size([50, 3, 10])
    """
    generator = torch.Generator().manual_seed(seed)
    inputs_X_D, labels_X = _REAL[name]()
    order_X = torch.randperm(len(inputs_X_D), generator=generator)
    seen_L, unseen_M = order_X[:labelled], order_X[labelled:]
    classes = int(labels_X.max()) + 1
    weights_K_D_C, bias_K_C = _committee(inputs_X_D[seen_L], labels_X[seen_L], draws, classes, generator)
    log_probs_N_K_C = torch.empty(count, draws, classes)
    for number, out_n_K_C in enumerate(torch.split(log_probs_N_K_C, len(unseen_M))):
        inputs_n_D = inputs_X_D[unseen_M[: len(out_n_K_C)]]
        if number:
            inputs_n_D = inputs_n_D + _BLUR * torch.randn(inputs_n_D.shape, generator=generator)
        logits_n_K_C = torch.einsum("nd,kdc->nkc", inputs_n_D, weights_K_D_C) + bias_K_C
        torch.log_softmax(logits_n_K_C, -1, out=out_n_K_C)
    return log_probs_N_K_C


def _made(family: str, strength: float, shape: tuple[int, int, int], seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    count, draws, classes = shape
    if family == "independent":
        return (strength * torch.randn(shape, generator=generator)).log_softmax(-1)
    shared_N_1_C = torch.randn(count, 1, classes, generator=generator)
    features_N_D = torch.randn(count, _DIRECTIONS, generator=generator)
    if family == "duplicated":
        first_N = torch.arange(count) // _COPIES
        shared_N_1_C, features_N_D = shared_N_1_C[first_N], features_N_D[first_N]
    weights_K_D_C = torch.randn(draws, _DIRECTIONS, classes, generator=generator)
    own_N_K_C = torch.einsum("nd,kdc->nkc", features_N_D, weights_K_D_C) / math.sqrt(_DIRECTIONS)
    return (shared_N_1_C + strength * own_N_K_C).log_softmax(-1)


def _digits() -> tuple[Tensor, Tensor]:
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    return torch.from_numpy(pixels).float() / 16, torch.from_numpy(labels)


def _letters() -> tuple[Tensor, Tensor]:
    from natsel.data import load

    train = load("ocr-letters").train
    return torch.as_tensor(train.inputs).float().flatten(1), torch.as_tensor(train.labels).long()


def _clinc() -> tuple[Tensor, Tensor]:
    """Texts as 100 leading directions of their words."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    from natsel.data import load

    train = load("clinc150").train
    words = TfidfVectorizer(min_df=2).fit_transform(list(train.inputs))
    directions = TruncatedSVD(100, random_state=0).fit_transform(words)
    return 10 * torch.from_numpy(directions).float(), torch.as_tensor(train.labels).long()


_REAL = {"digits": _digits, "letters": _letters, "clinc": _clinc}


def _committee(
    inputs_L_D: Tensor, labels_L: Tensor, draws: int, classes: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Softmax regressions on bootstrap resamples, all trained at once by gradient descent with some decay."""
    count, features = inputs_L_D.shape
    chosen_K_L = torch.randint(count, (draws, count), generator=generator)
    inputs_K_L_D, targets_K_L_C = inputs_L_D[chosen_K_L], torch.eye(classes)[labels_L[chosen_K_L]]
    weights_K_D_C = 0.1 * torch.randn(draws, features, classes, generator=generator)
    bias_K_C = torch.zeros(draws, classes)
    for _ in range(300):
        probs_K_L_C = (inputs_K_L_D @ weights_K_D_C + bias_K_C[:, None]).softmax(-1)
        error_K_L_C = (probs_K_L_C - targets_K_L_C) / count
        weights_K_D_C -= inputs_K_L_D.transpose(1, 2) @ error_K_L_C + 1e-3 * weights_K_D_C
        bias_K_C -= error_K_L_C.sum(1)
    return weights_K_D_C, bias_K_C
