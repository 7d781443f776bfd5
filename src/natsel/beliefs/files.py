"""Beliefs in files, and predictions of other programs read as beliefs.

`save` and `load` keep a belief exactly: every tensor bit for bit, and beside them the kind of belief, a format version
and what else its fields hold (`natsel.beliefs.storage`). `read_predictions` takes raw arrays or tables; what their
numbers mean is said by the caller and checked, never guessed:

    log-probs, probs, logits    [points, draws, classes]    CategoricalSamples
    means                       [points, draws]             GaussianSamples, with one noise variance for all labels
                                mean0_N_K and mean1_N_K     PotentialOutcomes, with treatment_N beside them
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, overload

import numpy as np
import torch
from torch import Tensor

from natsel.beliefs.arrays import as_tensor
from natsel.beliefs.base import Belief
from natsel.beliefs.categorical import CategoricalSamples
from natsel.beliefs.gaussian import GaussianSamples
from natsel.beliefs.prediction_tables import read_means_table, read_table
from natsel.beliefs.storage import FORMAT, kind_called, put_together, taken_apart, wrong_fields
from natsel.containers import Arrays, open_arrays, read_npy, readable, write_arrays

if TYPE_CHECKING:
    from natsel.beliefs.potential_outcomes import PotentialOutcomes

ClassKind = Literal["log-probs", "probs", "logits"]
Kind = Literal["log-probs", "probs", "logits", "means"]
_NAMES: dict[ClassKind, str] = {"log-probs": "log probabilities", "probs": "probabilities", "logits": "logits"}
_MAKE: dict[ClassKind, Callable[..., CategoricalSamples]] = {
    "log-probs": CategoricalSamples._own,
    "probs": CategoricalSamples.from_probs,
    "logits": CategoricalSamples.from_logits,
}
_OF_A_REGRESSOR = 'predictions of a regressor (points, draws) are read with --means (kind="means")'
_ARMS = {"mean0_N_K", "mean1_N_K"}
_SUFFIXES = (".npz", ".safetensors", ".npy", ".csv", ".parquet")

Stored = Tensor | np.ndarray[Any, Any]


def save(belief: Belief, path: str | Path) -> None:
    """Write a belief to `.safetensors` or `.npz`; an old file stays whole until the new one is.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(CategoricalSamples.from_probs([[[0.5, 0.5]]]), f"{folder}/belief.npz")
    ...     load(f"{folder}/belief.npz").log_probs_N_K_C.exp()
    tensor([[[0.5000, 0.5000]]], dtype=torch.float64)
    """
    tensors, description = taken_apart(belief)
    texts = {"natsel_format": str(FORMAT), "natsel_kind": type(belief).__name__}
    write_arrays(path, tensors, texts | {"natsel_fields": json.dumps(description)})


def load(path: str | Path) -> Belief:
    """Read back what `save` wrote."""
    return _load(open_arrays(path), path)


def kind_of(path: str | Path) -> str | None:
    """The kind of belief a file written by `save` holds, None for raw arrays and tables."""
    path = _checked_path(path)
    return open_arrays(path).texts.get("natsel_kind") if path.suffix in (".npz", ".safetensors") else None


@overload
def read_predictions(
    path: str | Path,
    kind: ClassKind | None = None,
    *,
    key: str | None = None,
    ids_key: str = "ids",
    weights_key: str = "log_weights_K",
    single_draw: bool = False,
    noise: None = None,
) -> CategoricalSamples: ...


@overload
def read_predictions(
    path: str | Path,
    kind: Literal["means"],
    *,
    key: str | None = None,
    ids_key: str = "ids",
    weights_key: str = "log_weights_K",
    single_draw: bool = False,
    noise: float | None = None,
) -> "GaussianSamples | PotentialOutcomes": ...


def read_predictions(
    path: str | Path,
    kind: Kind | None = None,
    *,
    key: str | None = None,
    ids_key: str = "ids",
    weights_key: str = "log_weights_K",
    single_draw: bool = False,
    noise: float | None = None,
) -> "CategoricalSamples | GaussianSamples | PotentialOutcomes":
    """Predictions of any program as a belief: arrays [points, draws, classes], or [points, draws] for means, or tables.

    `kind` says what the numbers are; only a file written by `save` may leave it out. In a `.npz` or
    `.safetensors` file `key` names the array where there are several, and ids and log weights are taken from
    `ids_key` and `weights_key` where present; `.npy` holds the array alone. A table (`.csv`, `.parquet`) has
    a row for each id and draw. `single_draw` reads [points, classes] as one draw.

    `kind="means"` reads the predictions of a regressor, one per point and draw (a tree, an ensemble member); `noise` is
    the variance of labels around them, 1 where it is not given. A table may then also have a row for each id and a
    column for each draw. A file of arrays mean0_N_K, mean1_N_K and treatment_N, perhaps propensity_N, has both
    potential outcomes of each point.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/probs.npy", np.full((3, 2, 4), 0.25))
    ...     read_predictions(f"{folder}/probs.npy", "probs").shape
    (3, 2, 4)
    """
    path = _checked_path(path)
    means = kind == "means"
    if noise is not None and not means:
        raise ValueError('noise: is for means of a regressor; pass --means (kind="means") as well, or leave it out')
    if single_draw and means:
        raise ValueError("single_draw: means are (points, draws), one column where there is one draw; leave it out")
    if kind is not None and kind not in get_args(Kind):
        raise ValueError(f"kind: expected {', '.join(get_args(Kind))}, found {kind!r}; choose one of them")
    ids: Stored | None = None
    log_weights_K: Stored | None = None
    if path.suffix in (".npz", ".safetensors"):
        arrays = open_arrays(path)
        if "natsel_kind" in arrays.texts:
            if key is not None or single_draw:
                raise ValueError(f"{'key' if key else 'single_draw'}: {path} is a belief; leave it out")
            return _saved(_load(arrays, path), path, kind, noise)
        if means and key is None and _ARMS & set(arrays.shapes):
            return _both_arms(arrays, path, noise, ids_key, weights_key)
        values = arrays.read(_chosen_key(arrays, path, key, kind, single_draw))
        ids = _optional(arrays, path, ids_key)
        log_weights_K = _optional(arrays, path, weights_key)
    elif key is not None:
        raise ValueError(f"key: {path.name} holds one array and no keys, found key={key!r}; leave it out")
    elif path.suffix == ".npy":
        values = read_npy(path)
    else:
        values, ids = read_means_table(path) if means else read_table(path, single_draw)
    if kind is None:
        raise ValueError("kind: say what the numbers are: log-probs, probs, logits or means")
    if kind == "means":
        return _means(values, 1.0 if noise is None else noise, log_weights_K, ids)
    return _understood(_with_draws(values, path, single_draw), kind, log_weights_K, ids)


def _checked_path(path: str | Path) -> Path:
    path = Path(path)
    if path.suffix not in _SUFFIXES:
        raise ValueError(f"path: expected {', '.join(_SUFFIXES)}, found {path.name}; convert the file to one of them")
    return path


def _load(arrays: Arrays, path: str | Path) -> Belief:
    name, version = arrays.texts.get("natsel_kind"), arrays.texts.get("natsel_format", "")
    if name is None:
        raise ValueError(f"path: {path} holds arrays but no belief; read it with natsel.beliefs.files.read_predictions")
    if version != str(FORMAT):
        raise ValueError(
            f"path: {path} has format {version!r}, this natsel reads {FORMAT}; upgrade natsel or save it anew"
        )
    kind = kind_called(name, f"path: {path}")
    with readable(Path(path)):
        description = dict(json.loads(arrays.texts["natsel_fields"]))
    wrong = wrong_fields(kind, description, arrays.shapes)
    if wrong is not None:
        raise ValueError(f"path: {path} {wrong}")
    return put_together(kind, description, lambda tensor: torch.as_tensor(arrays.read(tensor)))


def _saved(belief: Belief, path: Path, kind: Kind | None, noise: float | None) -> CategoricalSamples | GaussianSamples:
    """A belief that was saved, if it is of the stated kind."""
    if kind == "means":
        if not isinstance(belief, GaussianSamples):
            raise ValueError(f"kind: {path} is a belief and holds {type(belief).__name__}; leave --means (kind) out")
        if noise is not None:
            raise ValueError(f"noise: {path} is a belief and holds its own noise, found {noise:g}; leave it out")
        return belief
    if not isinstance(belief, CategoricalSamples):
        remedy = "use natsel.Belief.load" if kind is None else f"leave --{kind} (kind) out, or use natsel.Belief.load"
        raise ValueError(f"path: {path} holds {type(belief).__name__}, not class predictions; {remedy}")
    if kind not in (None, "log-probs"):
        raise ValueError(
            f"kind: {path} is a belief and holds log probabilities, found {kind}; leave --{kind} (kind) out"
        )
    return belief


def _chosen_key(arrays: Arrays, path: Path, key: str | None, kind: Kind | None, single_draw: bool) -> str:
    if key is not None:
        if key not in arrays.shapes:
            raise ValueError(f"key: {path} has no array {key!r}; it holds {arrays}")
        return key
    means = kind == "means"
    axes = 2 if single_draw or means else 3
    able, others = (
        [name for name, shape in arrays.shapes.items() if len(shape) == count and name in arrays.floats]
        for count in (axes, 5 - axes)
    )
    if len(able) == 1:
        return able[0]
    found = f"{len(able)} arrays" if able else "no array"
    wanted = "(points, draws)" if means else "(points, classes)" if single_draw else "(points, draws, classes)"
    remedy = "name one with --key (key=)" if able else "save one"
    if not able and others:
        remedy = _remedy_for_axes(means, single_draw)
    raise ValueError(f"path: {path} has {found} of {axes} axes {wanted}; it holds {arrays}; {remedy}")


def _remedy_for_axes(means: bool, single_draw: bool) -> str:
    """What to do about an array of two axes where three were expected, or the other way round."""
    if means:
        return "probabilities are read with --probs (kind), logits with --logits"
    if single_draw:
        return "leave out --single-draw (single_draw=True)"
    return f"a single draw is read with --single-draw (single_draw=True), {_OF_A_REGRESSOR}"


def _optional(arrays: Arrays, path: Path, key: str) -> Stored | None:
    """An array that may be missing, unless it was asked for under a name of its own."""
    if key in arrays.shapes:
        found: Stored = arrays.read(key)
        return found
    if key not in ("ids", "log_weights_K"):
        raise ValueError(f"key: {path} has no array {key!r}; it holds {arrays}")
    return None


def _means(values: Stored, noise: float, log_weights_K: Stored | None, ids: Stored | None) -> GaussianSamples:
    """A belief from [N, K] predictions of a regressor."""
    mean_N_K = as_tensor(values, "path")
    if mean_N_K.ndim != 2:
        remedy = _remedy_for_axes(means=True, single_draw=False) if mean_N_K.ndim == 3 else "reshape it"
        raise ValueError(f"path: expected two axes (points, draws), found shape {tuple(mean_N_K.shape)}; {remedy}")
    if not 0 < noise < float("inf"):
        raise ValueError(f"noise: expected a variance above 0, found {noise:g}; give a positive number")
    return GaussianSamples._own(mean_N_K, noise, log_weights_K, ids=ids)


def _both_arms(arrays: Arrays, path: Path, noise: float | None, ids_key: str, weights_key: str) -> "PotentialOutcomes":
    """A belief from predictions of what is measured without and with a treatment."""
    from natsel.beliefs.potential_outcomes import PotentialOutcomes

    lost = [name for name in sorted({*_ARMS, "treatment_N"}) if name not in arrays.shapes]
    if lost:
        raise ValueError(
            f"path: {path} lacks {', '.join(lost)}; both potential outcomes need mean0_N_K, mean1_N_K and treatment_N"
        )
    variance = 1.0 if noise is None else noise
    return PotentialOutcomes._own(
        arrays.read("mean0_N_K"),
        arrays.read("mean1_N_K"),
        arrays.read("treatment_N"),
        arrays.read("propensity_N") if "propensity_N" in arrays.shapes else None,
        variance,
        variance,
        _optional(arrays, path, weights_key),
        ids=_optional(arrays, path, ids_key),
    )


def _with_draws(values: Stored, path: Path, single_draw: bool) -> Tensor:
    """The numbers as [N, K, C]."""
    tensor = as_tensor(values, "path")
    if str(values.dtype).endswith("float16"):  # CategoricalSamples allows for the rounding of the type it is given
        tensor = tensor.to(torch.bfloat16 if "bfloat16" in str(values.dtype) else torch.float16)
    if path.suffix in (".csv", ".parquet"):
        return tensor
    if single_draw and tensor.ndim == 2:
        return tensor[:, None, :]
    if single_draw:
        raise ValueError(
            f"single_draw: expected axes (points, classes), found shape {tuple(tensor.shape)}; leave it out"
        )
    if tensor.ndim != 3:
        remedy = _remedy_for_axes(means=False, single_draw=False) if tensor.ndim == 2 else "reshape it"
        raise ValueError(
            f"path: expected three axes (points, draws, classes), found shape {tuple(tensor.shape)}; {remedy}"
        )
    return tensor


def _understood(
    values_N_K_C: Tensor, kind: ClassKind, log_weights_K: Stored | None, ids: Stored | None
) -> CategoricalSamples:
    """A belief of the stated kind, or a refusal that says what the numbers look like instead."""
    bad = values_N_K_C.isnan()
    if bool(bad.any()):
        point, draw, number = bad.nonzero()[0].tolist()
        raise ValueError(f"path: found NaN at point {point}, draw {draw}, class {number}; check the model's output")
    if kind == "logits" and values_N_K_C.shape[-1] > 1 and _looks_like(values_N_K_C) == "probs":
        # A softmax of probabilities is a valid belief and a wrong one: nothing later could notice.
        raise ValueError("kind: rows given as logits lie in [0, 1] and sum to 1" + _hint("probs"))
    try:
        return _MAKE[kind](values_N_K_C, log_weights_K, ids=ids)
    except ValueError as refusal:
        if str(refusal).startswith(("ids", "log_weights_K")):
            raise
        other = _looks_like(values_N_K_C)
        hints = _hint(other) if other is not None and other != kind else ""
        hints += f"; {_OF_A_REGRESSOR}" if _may_be_means(values_N_K_C) else ""
        if not hints:
            raise
        raise ValueError(str(refusal).split(";")[0] + hints) from None


def _hint(kind: ClassKind) -> str:
    return f'; these look like {_NAMES[kind]}: pass --{kind} (kind="{kind}")'


def _may_be_means(values_N_K_C: Tensor) -> bool:
    """Whether numbers with one draw or one class may be a regressor's: no row sums to one, nor do its exponentials."""
    sums_N_K = torch.stack([values_N_K_C.double().sum(-1), values_N_K_C.double().exp().sum(-1)])
    return min(values_N_K_C.shape[1:]) == 1 and bool(((sums_N_K - 1).abs() > 1e-2).all())


def _looks_like(values_N_K_C: Tensor) -> ClassKind | None:
    """What the numbers may be, by their range and the sums of rows; it words a refusal and never decides."""
    if values_N_K_C.numel() == 0:
        return None
    low, high = (float(bound) for bound in values_N_K_C.aminmax())
    if low >= 0:
        sums_N_K = values_N_K_C.sum(-1)
        return "probs" if high <= 1.001 and bool(((sums_N_K - 1).abs() < 1e-2).all()) else None
    off_n_K = (values_N_K_C[:4096].double().exp().sum(-1) - 1).abs()
    if high <= 1e-3 and bool((off_n_K < 1e-2).all()):
        return "log-probs"
    return "logits" if float(off_n_K.median()) > 1e-2 else None
