"""Sets that are always there: those inside scikit-learn, and those drawn from a formula.

two moons   two interleaved half circles with Gaussian noise
two bells   x ~ Student-t(ν=5, 0, 0.8·I),  p(y=1|x) = Φ(20·(tanh 2x₁ − x₂))       (docs/theory/epig-jepig.md, 13)
gp line     x = 1, 3, 5 …,  f ~ GP(0, exp(−(x−x')²/2ℓ²)),  y = f(x) + N(0, 1)      (docs/theory/epig-jepig.md, 13)
ambiguous line         two classes on [−6, −2] ∪ [2, 6]; for 3.5 < |x| < 4.5 either label is equally likely
overlapping Gaussians  three Gaussians, one class each, some labels wrong                     (Mukhoti et al. 2023)
"""

from collections.abc import Callable

import numpy as np

from natsel.data.dataset import DataSet, Kind, fixed_split
from natsel.data.examples import Examples
from natsel.options import Count
from natsel.seeds import derive


def two_moons(count: Count = 2000, noise: float = 0.1, seed: int = 0) -> Examples:
    """Two interleaved half circles, equally many points on each (one more on the first where `count` is odd).

    >>> two_moons(100).inputs.shape
    (100, 2)
    """
    generator = np.random.default_rng(derive(seed, "two-moons"))
    labels = np.arange(count) % 2
    angle_N = generator.uniform(0, np.pi, size=count)
    inputs_N_D = np.stack([np.cos(angle_N), np.sin(angle_N)], axis=1)
    inputs_N_D[labels == 1] = np.array([1.0, 0.5]) - inputs_N_D[labels == 1]
    inputs_N_D += noise * generator.standard_normal(inputs_N_D.shape)
    return Examples(inputs_N_D.astype(np.float32), labels, ("upper", "lower"))


def two_bells(count: Count = 2000, seed: int = 0) -> Examples:
    """Heavy-tailed points around 0 and a steep, curved boundary: what is far out matters little to a prediction.

    >>> two_bells(100).n_classes
    2
    """
    from scipy.special import ndtr

    generator = np.random.default_rng(derive(seed, "two-bells"))
    normal_N_D = generator.standard_normal((count, 2)) * np.sqrt(0.8)
    inputs_N_D = normal_N_D * np.sqrt(5 / generator.chisquare(5, size=(count, 1)))
    probability_N = ndtr(20 * (np.tanh(2 * inputs_N_D[:, 0]) - inputs_N_D[:, 1]))
    labels = (generator.uniform(size=count) < probability_N).astype(np.int64)
    return Examples(inputs_N_D.astype(np.float32), labels, ("0", "1"))


def gp_line(count: Count = 8, length_scale: float = 2.0, seed: int = 0) -> Examples:
    """Noisy values of a random smooth function at the first odd numbers: what a Gaussian process is exact about.

    >>> gp_line(3).inputs.ravel().tolist()
    [1.0, 3.0, 5.0]
    """
    generator = np.random.default_rng(derive(seed, "gp-line"))
    x_N = np.arange(1.0, 2 * count, 2)
    covariance_N_N = np.exp(-((x_N[:, None] - x_N) ** 2) / (2 * length_scale**2)) + np.eye(count)
    labels = np.linalg.cholesky(covariance_N_N) @ generator.standard_normal(count)
    return Examples(x_N[:, None].astype(np.float32), labels)


def ambiguous_line(count: Count = 500, seed: int = 0) -> Examples:
    """Points of a line with a gap at −2..2, where a model should be unfamiliar, and two bands of ambiguous labels.

    The class is 0 below −4.5, 1 above −3.5, 0 below 3.5 and 1 above 4.5; between, either is equally likely. The mask
    `label_probs` [N, 2] holds the true distribution, `ambiguous` marks the points in the bands.

    >>> line = ambiguous_line(100)
    >>> line.inputs.shape, np.unique(line.masks["label_probs"][line.masks["ambiguous"]]).tolist()
    ((100, 1), [0.5])
    """
    generator = np.random.default_rng(derive(seed, "ambiguous-line"))
    x_N = generator.uniform(2, 6, size=count) * generator.choice([-1.0, 1.0], size=count)
    ambiguous_N = (np.abs(x_N) >= 3.5) & (np.abs(x_N) <= 4.5)
    probability_N = np.where(ambiguous_N, 0.5, (np.abs(x_N) > 4.5) == (x_N > 0))
    labels = (generator.uniform(size=count) < probability_N).astype(np.int64)
    masks = {"label_probs": np.stack([1 - probability_N, probability_N], axis=1), "ambiguous": ambiguous_N}
    return Examples(x_N[:, None].astype(np.float32), labels, ("0", "1"), masks)


def overlapping_gaussians(per_class: Count = 300, wrong: float = 0.04, seed: int = 0) -> Examples:
    """Three overlapping Gaussians in the plane, one class each; each label is wrong with the probability `wrong`.

    On it a Gaussian per class cannot be both the best classifier and the best density. The mask `clean` keeps the true
    classes, `noisy` marks the wrong labels.

    >>> overlapping_gaussians(100).inputs.shape
    (300, 2)
    """
    if not 0 <= wrong <= 1:
        raise ValueError(f"wrong: expected a probability from 0 to 1, found {wrong}; 0.04 is usual")
    generator = np.random.default_rng(derive(seed, "overlapping-gaussians"))
    angles = np.deg2rad([90, 210, 330])
    means_C_2 = 5 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    covariances_C_2_2 = np.array([[[4, 1], [1, 2]], [[2, -0.5], [-0.5, 3]], [[1.5, 0], [0, 1.5]]])
    inputs_N_2 = np.concatenate(
        [
            generator.multivariate_normal(mean, covariance, size=per_class)
            for mean, covariance in zip(means_C_2, covariances_C_2_2, strict=True)
        ]
    )
    clean_N = np.repeat(np.arange(3), per_class)
    other_N = (clean_N + generator.integers(1, 3, size=len(clean_N))) % 3
    labels = np.where(generator.uniform(size=len(clean_N)) < wrong, other_N, clean_N)
    masks = {"clean": clean_N, "noisy": labels != clean_N}
    return Examples(inputs_N_2.astype(np.float32), labels, ("0", "1", "2"), masks)


Parts = tuple[Examples, Examples]


def _moons() -> Parts:
    return two_moons(), two_moons(seed=1)


def _bells() -> Parts:
    # As many as the largest pool of the published runs; recipes take a part.
    return two_bells(100_000), two_bells(10_000, seed=1)


def _packaged(name: str, loader: str, kind: Kind = "table") -> Callable[[], Parts]:
    def make() -> Parts:
        from sklearn import datasets

        bunch = getattr(datasets, loader)()
        # Grey levels of 0..16 on the scale every image has here, 0..255.
        inputs = (bunch.images * (255 / 16)).round().astype(np.uint8) if kind == "image" else bunch.data
        classes = tuple(str(one) for one in getattr(bunch, "target_names", ()))
        whole = Examples(inputs if kind == "image" else inputs.astype(np.float32), bunch.target, classes)
        return fixed_split(name, whole, 0.3)

    return make


MADE: dict[str, tuple[Kind, str, Callable[[], Parts]]] = {
    "digits": (
        "image",
        "handwritten digits, 8×8 pixels, 10 classes (scikit-learn)",
        _packaged("digits", "load_digits", "image"),
    ),
    "iris": ("table", "three kinds of iris, 4 measurements (scikit-learn)", _packaged("iris", "load_iris")),
    "wine": ("table", "three growers of wine, 13 measurements (scikit-learn)", _packaged("wine", "load_wine")),
    "breast-cancer": (
        "table",
        "malignant or benign, 30 measurements (scikit-learn)",
        _packaged("breast-cancer", "load_breast_cancer"),
    ),
    "diabetes": (
        "table",
        "progression of diabetes, 10 measurements, regression (scikit-learn)",
        _packaged("diabetes", "load_diabetes"),
    ),
    "two-moons": ("table", "two interleaved half circles (made by a formula)", _moons),
    "two-bells": ("table", "heavy tails and a curved boundary (made by a formula)", _bells),
}


def make(name: str) -> DataSet:
    """The set of that name.

    >>> make("iris")
    DataSet('iris': 105 train, 45 test; three kinds of iris, 4 measurements (scikit-learn))
    """
    kind, about, parts = MADE[name]
    train, test = parts()
    return DataSet(name, train, test, None, kind, about)


STREAMS: dict[str, Callable[..., Examples]] = {"two-moons": two_moons, "two-bells": two_bells}
"""Sets drawn from a formula: (count, seed=…) gives as many fresh examples as are wanted."""
