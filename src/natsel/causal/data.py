"""Data about treatments: points that each received treatment 0 or 1, and made-up ones whose true effect is known.

ONE CONVENTION: the treatment is the column of the inputs that is called so, 0 or 1, wherever it stands; labels are the
outcomes of the treatment that was received. Arrays have names where `with_treatment` or a file gave them some; of
others a number says which column it is. Nothing is taken for the treatment because of its place.  docs/decisions/0022

    synthetic   x ~ N(0, 1),  t ~ Bernoulli(1/(1 + e^−(2x + 0.5))),  s = 2t − 1
                y = s·x + s − 2·sin(2s·x) + 2 + x + N(0, 1),  effect(x) = 2x + 2 − 4·sin(2x)
    MNIST       the same with φ for x.  z: mean intensity of a picture of digit c, standardised over the training
                pictures of c;  φ = low + (clip(z, −1.4, 1.4) + 1.4)/2.8·width,  width = edge/5,  low = c·width − edge
    IHDP        x and t of 747 children (139 treated); response surface B of Hill 2011: β is 0, .1, .2, .3 or .4 with
                probabilities .6, .1, .1, .1, .1 for each of 25 covariates,  mean0 = exp((x + 0.5)·β),
                mean1 = (x + 0.5)·β − ω,  ω such that the mean effect on the treated is 4,  y = mean_t + N(0, 1)

The truth travels with the examples as masks, which no model sees: `mean0`, `mean1` (expected outcomes under either
treatment), `effect` = mean1 − mean0, and `propensity` P(t = 1 | x) where it is known.
docs/theory/causal-bald.md; Jesson et al. 2021.
"""

from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any, Literal

import numpy as np

from natsel.data import Examples, load, split
from natsel.data.frames import FrameRows, NamedColumns, by_position, joined
from natsel.data.labels import Array, as_numpy, read_numbers
from natsel.options import Rows
from natsel.seeds import derive


@dataclass(frozen=True, eq=False)
class CausalData:
    """Examples [x, t] → y to ask about, to validate with and to be judged by, each with the truth in its masks.

    The properties give the truth of the test part.
    """

    name: str
    pool: Examples
    validation: Examples
    test: Examples

    @property
    def effect_N(self) -> Array:
        """The true effect of the treatment at each test point."""
        return as_numpy(self.test.masks["effect"])

    @property
    def mean0_N(self) -> Array:
        """The expected outcome without the treatment at each test point."""
        return as_numpy(self.test.masks["mean0"])

    @property
    def mean1_N(self) -> Array:
        """The expected outcome with the treatment at each test point."""
        return as_numpy(self.test.masks["mean1"])

    @property
    def propensity_N(self) -> Array | None:
        """P(t = 1 | x) of each test point; None where it is not known."""
        return self.test.masks.get("propensity")

    def __repr__(self) -> str:
        sizes = f"{len(self.pool)} pool, {len(self.validation)} validation, {len(self.test)} test"
        return f"CausalData({self.name!r}: {sizes})"


def check_treatment(treatment_N: Any, n_points: int | None = None, *, both: bool = True) -> Array:
    """The treatments as whole numbers 0 and 1, refused where they are anything else; `both`: each must occur.

    >>> check_treatment([True, False]).tolist()
    [1, 0]
    >>> check_treatment([1, 2])
    Traceback (most recent call last):
    ValueError: treatment: expected 0 or 1, found 2; code the two treatments as 0 and 1
    """
    given = as_numpy(treatment_N)
    if given.ndim != 1:
        raise ValueError(f"treatment: expected one 0 or 1 per point, found shape {given.shape}; pass one column")
    if n_points is not None and len(given) != n_points:
        raise ValueError(
            f"treatment: expected one for each of {n_points} points, found {len(given)}; pass that of every point"
        )
    try:
        column = read_numbers(given, "treatment")
    except ValueError:
        first = given[0] if len(given) else None
        raise ValueError(f"treatment: expected 0 or 1, found {first!r}; code the two treatments as 0 and 1") from None
    missing = int(np.isnan(column).sum())
    if missing:
        raise ValueError(f"treatment: {missing} of {len(column)} are missing (NaN); leave these points out")
    strangers = column[(column != 0) & (column != 1)]
    if len(strangers):
        raise ValueError(f"treatment: expected 0 or 1, found {strangers[0]:g}; code the two treatments as 0 and 1")
    if both and len(np.unique(column)) < 2:
        found = f"all {len(column)} points received {column[0]:g}" if len(column) else "there are no points"
        raise ValueError(f"treatment: {found}; an effect can be learnt only from points of both treatments")
    return column.astype(np.int64)


def treatment_of(inputs: Any, treatment: str | int = "treatment", *, both: bool = False) -> Array:
    """The treatments 0 or 1 of inputs: their column of that name, or in an array without names of that number.

    >>> treatment_of(with_treatment([0.3, 0.1], [1, 0])).tolist(), treatment_of([[1, 0.3], [0, 0.1]], 0).tolist()
    ([1, 0], [1, 0])
    """
    rows = treatment_last(inputs, treatment)
    if not isinstance(rows, FrameRows):
        return check_treatment(rows[:, -1], both=both)
    name, kind = rows.names[-1], rows.kinds[rows.names[-1]]
    if not kind.startswith(("int", "uint", "float", "bool")):
        raise ValueError(f"treatment: column {name!r} holds {kind}, expected 0 or 1; code the two treatments so")
    return check_treatment(rows.with_columns((name,)).numbers()[:, 0], both=both)


def treatment_last(inputs: Any, treatment: str | int) -> Any:
    """Rows with the treatment as the last column; none is taken for it that was not named.

    >>> treatment_last([[1.0, 0.5], [0.0, 2.5]], 0).tolist()
    [[0.5, 1.0], [2.5, 0.0]]
    """
    rows = by_position(inputs)
    names, table = getattr(rows, "names", ()), rows if isinstance(rows, FrameRows) else as_numpy(rows)
    if len(table.shape) != 2 or table.shape[1] < 2:
        what = f"columns of features and one of treatments, found shape {table.shape}"
        raise ValueError(f"inputs: expected {what}; make them with natsel.causal.with_treatment")
    count, number = table.shape[1], isinstance(treatment, Integral) and not isinstance(treatment, bool)
    named = (number or isinstance(treatment, str)) and treatment in names
    if not named and not (number and -count <= int(treatment) < count):
        there = f"among {', '.join(map(str, names[:12]))}" if names else "of an array without names: use with_treatment"
        found = repr(treatment) if isinstance(treatment, str | int) else f"that is a {type(treatment).__name__}"
        raise ValueError(f"treatment: there is no column {found} {there}; say which it is, as treatment='arm', or -1")
    place = names.index(treatment) if named else int(treatment) % count
    if names:
        return rows.with_columns((*names[:place], *names[place + 1 :], names[place]))
    return table if place == count - 1 else np.c_[np.delete(table, place, axis=1), table[:, place]]


def with_treatment(features: Any, treatment: Any) -> Any:
    """Inputs [x, t]: the features, then the treatments 0 or 1 as the last column, which is called "treatment".

    Of a data frame, `treatment` names the column, which moves to the end and keeps its name: tell it to the model too,
    SLearner(model, treatment=name). Gaps among its features are left to models.

    >>> with_treatment([0.5, 0.7], [1, 0]).tolist()
    [[0.5, 1.0], [0.7, 0.0]]
    """
    rows = by_position(features)
    if isinstance(rows, FrameRows):
        treatment_N, frame = treatment_of(rows, treatment, both=True), treatment_last(rows, treatment).frame
        name = frame.columns[-1]
        if not hasattr(frame, "iloc"):  # polars; the other is pandas
            return frame.with_columns(type(frame[name])(name, treatment_N))
        changed = frame.copy(deep=False)
        changed[name] = treatment_N
        return changed
    table = as_numpy(features)
    if table.dtype.kind not in "biuf" or table.ndim not in (1, 2):
        raise ValueError(
            f"features: expected a table of numbers, one row per point, found {table.dtype} of shape {table.shape};"
            " pass numbers, or a data frame with the name of its column of treatments"
        )
    table_N_D = table[:, None] if table.ndim == 1 else table
    treatment_N = check_treatment(treatment, len(table_N_D))
    wrong = int((~np.isfinite(table_N_D).all(1)).sum())
    if wrong:
        raise ValueError(
            f"features: {wrong} of {len(table_N_D)} points hold NaN or infinity; fill these in or leave the points out"
        )
    return _side_by_side(table_N_D, treatment_N, getattr(features, "names", ()))


def _side_by_side(table_N_D: Array, treatment_N: Array, names: tuple[Any, ...] = ()) -> NamedColumns:
    if "treatment" in (names := names or tuple(f"x{place}" for place in range(table_N_D.shape[1]))):
        raise ValueError("features: a column of them is called 'treatment' already; pass the others alone")
    dtype = np.float32 if table_N_D.dtype == np.float32 else np.float64
    table_N_D = np.concatenate([table_N_D, treatment_N[:, None]], axis=1, dtype=dtype)
    return NamedColumns(table_N_D, (*names, "treatment"))


def examples_of(features: Any, treatment: Any, outcomes: Any) -> Examples:
    """Examples [x, t] → y. Outcomes become real numbers, but 0 and 1 as whole numbers or truth values stay classes.

    >>> examples_of([[0.5], [0.7]], [1, 0], [3, 5]).labels.tolist()
    [3.0, 5.0]
    """
    inputs = with_treatment(features, treatment)
    labels = as_numpy(outcomes)
    if labels.ndim != 1:
        raise ValueError(f"outcomes: expected one outcome per point, found shape {labels.shape}; pass one column")
    if len(labels) != len(inputs):
        raise ValueError(
            f"outcomes: expected one for each of {len(inputs)} points, found {len(labels)}; pass one outcome per point"
        )
    if labels.dtype.kind not in "biu" or not np.isin(labels, (0, 1)).all():
        labels = read_numbers(labels, "outcomes")
        missing = int((~np.isfinite(labels)).sum())
        if missing:
            raise ValueError(
                f"outcomes: {missing} of {len(labels)} are NaN or infinite; leave these points out, or ask about them:"
                " natsel.Pool(natsel.causal.with_treatment(…), labels=outcomes)"
            )
    return Examples(inputs, labels)


def synthetic_means(x_N: Rows) -> tuple[Array, Array]:
    """The expected outcomes (mean0, mean1) of the synthetic set at some x.

    >>> synthetic_means([0.0])
    (array([1.]), array([3.]))
    """
    x_N = np.asarray(x_N, dtype=np.float64)
    return 1 + 2 * np.sin(2 * x_N), 2 * x_N + 3 - 2 * np.sin(2 * x_N)


def synthetic_propensity(x_N: Rows) -> Array:
    """P(t = 1 | x) of the synthetic set.

    >>> synthetic_propensity([-0.25]).tolist()
    [0.5]
    """
    probability_N: Array = 1 / (1 + np.exp(-(2 * np.asarray(x_N, dtype=np.float64) + 0.5)))
    return probability_N


def digit_phi(intensity_N: Rows | float, digits_N: Rows | float, edge: float = 2.0) -> Array:
    """φ of pictures of digits, from −edge to edge: a tenth of that range per digit, larger for brighter pictures.

    `intensity_N` are mean intensities, standardised over the pictures of the same digit.

    >>> digit_phi([-3.0, 0.0, 1.4], [0, 0, 9]).round(6).tolist()
    [-2.0, -1.8, 2.0]
    """
    width = edge / 5
    share_N = (np.clip(np.asarray(intensity_N, dtype=np.float64), -1.4, 1.4) + 1.4) / 2.8
    phi_N: Array = (np.asarray(digits_N) + share_N) * width - edge
    return phi_N


def causal_synthetic(pool: int = 10_000, validation: int = 1_000, test: int = 1_000, seed: int = 0) -> CausalData:
    """The synthetic set: one feature, treatments that go with it, an effect that changes its sign, known propensities.

    >>> causal_synthetic(pool=100)
    CausalData('synthetic': 100 pool, 1000 validation, 1000 test)
    """
    _check_sizes(pool=pool, validation=validation, test=test)

    def part(name: str, count: int) -> Examples:
        generator = np.random.default_rng(derive(seed, "causal-synthetic", name))
        x_N = generator.standard_normal(count).astype(np.float32)  # the truth is that of the x that models see
        treatment_N, outcome_N, masks = _simulated(x_N, 1.0, generator)
        return Examples(_side_by_side(x_N[:, None], treatment_N), outcome_N, masks=masks)

    return CausalData("synthetic", part("pool", pool), part("validation", validation), part("test", test))


def _check_sizes(**sizes: Any) -> None:
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, Integral) or size < 1:
            raise ValueError(f"{name}: expected a whole number of points from 1 on, found {size!r}; name how many")


def _simulated(x_N: Array, noise: float, generator: np.random.Generator) -> tuple[Array, Array, dict[str, Array]]:
    """Treatments, outcomes and the truth of the synthetic set at some x."""
    propensity_N, (mean0_N, mean1_N) = synthetic_propensity(x_N), synthetic_means(x_N)
    treatment_N = (generator.uniform(size=len(x_N)) < propensity_N).astype(np.int64)
    outcome_N = np.where(treatment_N == 1, mean1_N, mean0_N) + noise * generator.standard_normal(len(x_N))
    masks = {"mean0": mean0_N, "mean1": mean1_N, "effect": mean1_N - mean0_N, "propensity": propensity_N}
    return treatment_N, outcome_N, masks


def causal_ihdp(
    seed: int = 0, surface: Literal["B", "stored"] = "B", *, folder: str | Path | None = None
) -> CausalData:
    """IHDP: 747 children of whom 139 had visits of specialists; 470 pool, 202 validation, 75 test points by the seed.

    Outcomes are simulated by the seed (response surface B), or are number `seed` of the 50 that come with the set.
    Propensities are not known. The file is looked for as `natsel.data.load("ihdp")` does.

    >>> causal_ihdp(surface="A")
    Traceback (most recent call last):
    ValueError: surface: expected 'B' or 'stored', found 'A'; 'B' simulates outcomes by the seed
    """
    if surface not in ("B", "stored"):
        raise ValueError(f"surface: expected 'B' or 'stored', found {surface!r}; 'B' simulates outcomes by the seed")
    stored = load("ihdp", folder=folder)
    inputs_N_D = joined(stored.train.inputs, stored.test.inputs)
    order = np.argsort(np.concatenate([stored.train.masks["row"], stored.test.masks["row"]]))
    inputs_N_D = inputs_N_D[order]
    if surface == "B":
        outcome_N, mean0_N, mean1_N = _surface_b(inputs_N_D, np.random.default_rng(derive(seed, "causal-ihdp")))
    else:
        columns = {
            name: np.concatenate([stored.train.masks[name], stored.test.masks[name]])[order]
            for name in ("y_factual", "mu0", "mu1")
        }
        count = columns["mu0"].shape[1]
        if not 0 <= seed < count:
            raise ValueError(f"seed: expected the number of a stored outcome, 0..{count - 1}, found {seed}; choose one")
        outcome_N, mean0_N, mean1_N = (column[:, seed].astype(np.float64) for column in columns.values())
    masks = {"mean0": mean0_N, "mean1": mean1_N, "effect": mean1_N - mean0_N}
    whole = Examples(_side_by_side(inputs_N_D[:, :-1], inputs_N_D[:, -1]), outcome_N, masks=masks)
    test = -(-len(whole) // 10)  # a tenth, then three tenths of the rest, both rounded up
    validation = -(-3 * (len(whole) - test) // 10)
    return CausalData("ihdp", *split(whole, (None, validation, test), derive(seed, "causal-ihdp", "split")))


def _surface_b(inputs_N_D: Array, generator: np.random.Generator) -> tuple[Array, Array, Array]:
    x_N_D, treatment_N = inputs_N_D[:, :-1].astype(np.float64), inputs_N_D[:, -1]
    beta_D = generator.choice([0.0, 0.1, 0.2, 0.3, 0.4], size=x_N_D.shape[1], p=[0.6, 0.1, 0.1, 0.1, 0.1])
    linear_N = (x_N_D + 0.5) @ beta_D
    mean0_N = np.exp(linear_N)
    mean1_N = linear_N - ((linear_N - mean0_N)[treatment_N == 1].mean() - 4)
    return np.where(treatment_N == 1, mean1_N, mean0_N) + generator.standard_normal(len(x_N_D)), mean0_N, mean1_N


def causal_mnist(
    seed: int = 0,
    pool: int = 35_000,
    validation: int = 15_000,
    test: int = 10_000,
    *,
    edge: float = 2.0,
    noise: float = 1.0,
    folder: str | Path | None = None,
) -> CausalData:
    """Pictures of digits whose φ decides the treatment and the outcome: inputs are 784 normalised pixels and t.

    `edge` is the largest φ, `noise` the deviation of outcomes; the published code had 3 and 0.01. Mask `phi` keeps φ.

    >>> causal_mnist(edge=0)
    Traceback (most recent call last):
    ValueError: edge: expected a number above 0, found 0; 2 is usual
    """
    _check_sizes(pool=pool, validation=validation, test=test)
    if not 0 < edge < np.inf:
        raise ValueError(f"edge: expected a number above 0, found {edge:g}; 2 is usual")
    if not 0 <= noise < np.inf:
        raise ValueError(f"noise: expected a deviation of at least 0, found {noise:g}; 1 is usual")
    mnist = load("mnist", folder=folder)
    intensity = {name: one.inputs.mean((1, 2)) for name, one in (("train", mnist.train), ("test", mnist.test))}
    of_digit = [intensity["train"][mnist.train.labels == digit] for digit in range(10)]
    mean_C, deviation_C = (np.array([statistic(one) for one in of_digit]) for statistic in (np.mean, np.std))

    def treated(part: Examples, name: str) -> Examples:
        z_N = (intensity[name] - mean_C[part.labels]) / deviation_C[part.labels]
        phi_N = digit_phi(z_N, part.labels, edge)
        generator = np.random.default_rng(derive(seed, "causal-mnist", name))
        treatment_N, outcome_N, masks = _simulated(phi_N, noise, generator)
        masks |= {"phi": phi_N, "digit": part.labels, "treatment": treatment_N}
        return Examples(part.inputs, outcome_N, masks=masks)

    def normalised(part: Examples) -> Examples:
        masks = dict(part.masks)
        pixels_N_D = (part.inputs.reshape(len(part), -1) / np.float32(255) - np.float32(0.1307)) / np.float32(0.3081)
        return Examples(_side_by_side(pixels_N_D, masks.pop("treatment")), part.labels, masks=masks)

    parts = split(treated(mnist.train, "train"), (pool, validation), derive(seed, "causal-mnist", "split"))
    tested = split(treated(mnist.test, "test"), (test,), derive(seed, "causal-mnist", "test"))
    return CausalData("mnist", *(normalised(part) for part in (*parts, *tested)))
