"""Sets that lie in `.npz` files: how their arrays are packed, and which split was published.

Images become bytes 0..255, tables float32, texts arrays of strings. Where a set was published without a split, a fifth
of it (of magic three tenths, as published) is the test part, always the same one.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from natsel.containers import Arrays
from natsel.data.ambiguous_parts import ambiguous_parts, with_clear_digits
from natsel.data.dataset import DataSet, Kind, fixed_split
from natsel.data.examples import Examples
from natsel.data.labels import Array

Files = Callable[[str], Arrays]
"""Gives the opened file of that name (without its ending), wherever it lies."""

_DIGITS = tuple("0123456789")
_FASHION = ("T-shirt/top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
_CIFAR = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_LETTERS = tuple("abcdefghijklmnopqrstuvwxyz")
_REGRESSION = {
    "airfoil": "noise of an airfoil, 5 features",
    "bike": "bicycles hired in an hour, 15 features",
    "boston": "house prices near Boston, 13 features",
    "concrete": "strength of concrete, 8 features",
    "elevators": "how an aircraft's elevators are set, 18 features",
    "energy": "heating load of a building, 8 features",
    "kin8nm": "a robot arm, 8 inputs",
    "naval": "decay of a ship's compressor, 16 features",
    "parkinsons": "severity of Parkinson's disease by voice, 20 features",
    "pol": "a problem of telecommunication, 26 features",
    "power": "output of a power plant, 4 features",
    "pumadyn32nm": "acceleration of a robot arm, 32 inputs",
    "skillcraft": "players of StarCraft, 19 features",
    "sml": "temperature in a house, 26 features",
    "wine-red": "quality of red wine, 11 features",
    "yacht": "resistance of a yacht, 6 features",
}
_CLASSIFICATION = {
    "letter": "printed letters, 16 features, 26 classes",
    "magic": "gamma rays or other showers of particles, 10 features, 2 classes",
    "optdigits": "handwritten digits, 8×8 counts, 10 classes",
    "pendigits": "digits written with a pen, 8 points on the way, 10 classes",
    "phoneme": "nasal or oral vowels, 5 features, 2 classes",
    "satellite": "soil seen from a satellite, 36 features, 6 classes",
    "segment": "patches of outdoor pictures, 19 features, 7 classes",
    "spambase": "mail that is spam or not, 57 features, 2 classes",
    "texture": "textures in pictures, 40 features, 11 classes",
    "vowel": "spoken vowels, 10 features, 11 classes; test is other speakers",
}

_SHARES = {"magic": 0.3}
"""Test shares that published runs used where a set came without a split (Bickford Smith et al. 2023)."""

Parts = tuple[Examples, Examples, Examples | None]


def _images(file: str, classes: tuple[str, ...], files: Files) -> Parts:
    arrays = files(file)
    train, test = (Examples(arrays.read(f"x_{part}"), arrays.read(f"y_{part}"), classes) for part in ("train", "test"))
    return train, test, None


def _ambiguous(with_clear: bool, files: Files) -> Parts:
    """Made from MNIST when first asked for; the file of MNIST is read only where it is needed."""

    def mnist() -> tuple[Examples, Examples]:
        return _images("mnist", _DIGITS, files)[:2]

    train, test = ambiguous_parts(0, mnist)
    if not with_clear:
        return train, test, None
    clear_train, clear_test = mnist()
    return with_clear_digits(clear_train, train), with_clear_digits(clear_test, test), None


def _cifar(files: Files) -> Parts:
    train = [_cifar_batch(files(f"cifar10_train{number}")) for number in range(1, 6)]
    inputs, labels = (np.concatenate(column) for column in zip(*train, strict=True))
    return Examples(inputs, labels, _CIFAR), Examples(*_cifar_batch(files("cifar10_test")), _CIFAR), None


def _cifar_batch(arrays: Arrays) -> tuple[Array, Array]:
    """Pixels are stored as differences to the neighbours and to green, modulo 256: smaller files, same bytes."""
    x = arrays.read("x_delta").cumsum(2, dtype=np.uint8).cumsum(3, dtype=np.uint8)
    x[0] += x[1]
    x[2] += x[1]
    return np.ascontiguousarray(x.transpose(1, 2, 3, 0)), arrays.read("y")


def _one_part(file: str, name: str, classes: tuple[str, ...], files: Files) -> Parts:
    arrays = files(file)
    return *fixed_split(name, Examples(arrays.read("x"), arrays.read("y"), classes)), None


def _ocr(files: Files) -> Parts:
    arrays = files("ocr_letters")
    inputs = np.unpackbits(arrays.read("x_bits"), axis=1).reshape(-1, 16, 8) * np.uint8(255)
    fold = arrays.read("fold")
    whole = Examples(inputs, arrays.read("y"), _LETTERS, {"fold": fold, "word": arrays.read("word")})
    return whole[fold != 0], whole[fold == 0], None


def _clinc(outside: bool, files: Files) -> Parts:
    arrays = files("clinc150")
    classes = tuple(arrays.read("intents").tolist())
    parts = [_texts(arrays, part, classes) for part in ("train", "test", "val")]
    train, test, validation = parts if outside else [part[part.labels >= 0] for part in parts]
    return train, test, validation


def _sentences(file: str, test: str, files: Files) -> Parts:
    arrays = files(file)
    classes = tuple(arrays.read("classes").tolist())
    validation = _texts(arrays, "val", classes) if "y_val" in arrays.shapes else None
    return _texts(arrays, "train", classes), _texts(arrays, test, classes), validation


def _news(files: Files) -> Parts:
    arrays = files("ag_news_test")
    return *fixed_split("ag-news", _texts(arrays, "all", tuple(arrays.read("classes").tolist()))), None


def _texts(arrays: Arrays, part: str, classes: tuple[str, ...]) -> Examples:
    lines = arrays.read(f"text_{part}").tobytes().decode().split("\n")
    return Examples(lines, arrays.read(f"y_{part}"), classes)


def _ihdp(files: Files) -> Parts:
    """Inputs end with the treatment; labels are the first of 50 simulated outcomes, and masks [N, 50] hold all."""
    arrays = files("ihdp")
    inputs = np.concatenate([arrays.read("x"), arrays.read("t")[:, None]], axis=1, dtype=np.float32)
    masks = {name: arrays.read(name).T for name in ("y_factual", "y_counterfactual", "mu0", "mu1")}
    return *fixed_split("ihdp", Examples(inputs, masks["y_factual"][:, 0], masks=masks), 0.1), None


def _small(name: str, classes: bool, files: Files) -> Parts:
    """One of the small UCI sets; split 0 where splits were published."""
    key = name.replace("-", "_")
    arrays = files(f"uci_{key}")
    x, y = arrays.read(f"{key}_x").astype(np.float32), arrays.read(f"{key}_y")
    if name == "bike":  # its target is the log of the sum of these two
        x = x[:, :-2]
    names = tuple(arrays.read(f"{key}_classes").tolist()) if classes else ()
    whole = Examples(x, y if classes else y.astype(np.float32), names)
    if f"{key}_test_mask" not in arrays.shapes:
        return *fixed_split(f"uci-{name}", whole, _SHARES.get(name, 0.2)), None
    mask = arrays.read(f"{key}_test_mask")
    if mask.dtype != bool:
        mask = np.unpackbits(mask, axis=1)[0, : len(y)].astype(bool)
    return whole[~mask], whole[mask], None


def _large(name: str, files: Files) -> Parts:
    arrays = files(f"reg_{name.replace('-', '_')}")
    x, y = arrays.read("x").astype(np.float32), arrays.read("y")
    if name == "diamonds":
        x = np.concatenate([x, arrays.read("x_cat").astype(np.float32)], axis=1)
    if name == "sgemm":
        y = np.log(y.mean(1))
    return *fixed_split(f"reg-{name}", Examples(x, y.astype(np.float32))), None


_OWN: dict[str, tuple[Kind, str, Callable[[Files], Parts]]] = {
    "mnist": ("image", "handwritten digits, 28×28, 10 classes", partial(_images, "mnist", _DIGITS)),
    "ambiguous-mnist": (
        "image",
        "digits that may be read as two, 10 labels per picture (made from MNIST)",
        partial(_ambiguous, False),
    ),
    "dirty-mnist": ("image", "MNIST and as many ambiguous digits (made from MNIST)", partial(_ambiguous, True)),
    "fashion": ("image", "pictures of clothes, 28×28, 10 classes", partial(_images, "fashion_mnist", _FASHION)),
    "cifar10": ("image", "photographs, 32×32 in colour, 10 classes", _cifar),
    "kmnist": (
        "image",
        "cursive Japanese characters, 28×28, 10 classes (its published test part)",
        partial(_one_part, "kmnist_test", "kmnist", tuple("おきすつなはまやれを")),
    ),
    "notmnist": (
        "image",
        "letters A–J in many fonts, 28×28, 10 classes (its published test part)",
        partial(_one_part, "notmnist_test", "notmnist", tuple("ABCDEFGHIJ")),
    ),
    "ocr-letters": ("image", "handwritten letters a–z, 16×8, 26 classes, some rare; test is fold 0 of 10", _ocr),
    "clinc150": ("text", "requests to an assistant, 150 intents", partial(_clinc, False)),
    "clinc150-oos": ("text", "the same with requests out of scope, label −1", partial(_clinc, True)),
    "sst2": ("text", "sentences from film reviews, 2 classes", partial(_sentences, "sst2", "test")),
    "cola": ("text", "acceptable English or not; test is from other sources", partial(_sentences, "cola", "test_ood")),
    "trec": ("text", "questions by what they ask for, 6 classes", partial(_sentences, "trec", "test")),
    "ag-news": ("text", "news by topic, 4 classes (its published test part)", _news),
    "ihdp": ("table", "children with or without a treatment, 25 features; simulated outcomes, regression", _ihdp),
}
_UCI: dict[str, tuple[Kind, str, Callable[[Files], Parts]]] = {
    f"uci-{name}": ("table", about if classes else f"{about}, regression", partial(_small, name, classes))
    for abouts, classes in ((_CLASSIFICATION, True), (_REGRESSION, False))
    for name, about in abouts.items()
}
_REG: dict[str, tuple[Kind, str, Callable[[Files], Parts]]] = {
    f"reg-{name}": ("table", f"{about}, regression", partial(_large, name))
    for name, about in {
        "sgemm": "run time of a matrix product by its 14 settings",
        "kegg-undir": "metabolic network, 27 features",
        "kegg-dir": "metabolic network with directions, 20 features",
        "diamonds": "price of a diamond by 9 features",
        "protein": "how far a protein is from its fold, 9 features",
        "fried": "Friedman's formula, 10 inputs of which 5 matter, noise 1",
        "kin40k": "a robot arm, 8 inputs",
    }.items()
}
STORED = {**_OWN, **_UCI, **_REG}


def load_stored(name: str, files: Files) -> DataSet:
    """The set of that name, its files opened by `files`."""
    kind, about, parts = STORED[name]
    train, test, validation = parts(files)
    return DataSet(name, train, test, validation, kind, about)
