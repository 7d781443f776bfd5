"""Where targets come from (the inputs that the model should predict well), and which of them one batch looks at.

    inputs              a set of inputs, with or without labels and weights; they are never asked for
    callable            a stream: stream(count, seed) → new inputs for each batch
    "pool"              the pool itself, without the points that were set aside
    + class_prior       the pool (or a set) standing for inputs with other shares of the classes, by importance weights

A batch looks at no more than `count` targets, and at no more than fit a quarter of the memory budget; the seed of the
batch decides which. The model then says what it believes about them and about the candidates, with the same draws.
docs/theory/epig-jepig.md, 10.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from natsel.beliefs import Belief, ClassProbabilities, seen_as
from natsel.beliefs.geometry import Geometry
from natsel.beliefs.targets import Targets
from natsel.capabilities import draws_again
from natsel.choose import Method
from natsel.data.examples import Examples
from natsel.data.labels import as_numpy
from natsel.data.pool import Pool
from natsel.information.priors import checked_prior, class_prior_weights
from natsel.learning.arguments import as_count
from natsel.memory import memory_budget
from natsel.objectives import Argument
from natsel.options import Amount, Rows

Array = np.ndarray[Any, Any]
Stream = Callable[[int, int], Any]

# How many inputs are looked at for each target that is drawn from them by weight.
_STAND_INS = 10


@dataclass(frozen=True, eq=False)
class TargetInputs:
    """Where targets come from: `inputs` (or Examples), a function of (count, seed), or "pool" for the pool itself.

    `labels` and `weights` belong to a set of inputs, one per input. `class_prior` is the share of each class where the
    model will be used. `count` is how many targets a batch looks at. `resample` draws targets by their weights instead
    of weighing them, which joint quantities (JEPIG) need: they know no weights.

    >>> TargetInputs(np.zeros((3, 2)), weights=[1, 1, 2]).kind
    'set'
    >>> TargetInputs("pool", class_prior=[0.5, 0.5, 0.0], count=100).kind
    'pool'
    """

    inputs: Any = "pool"
    labels: Any = None
    weights: Any = None
    class_prior: Rows = None
    count: int = 1000
    resample: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", as_count(self.count, "targets: count"))
        if self.class_prior is not None:
            prior = tuple(checked_prior(torch.as_tensor(as_numpy(self.class_prior))).tolist())
            object.__setattr__(self, "class_prior", prior)
        if self.class_prior is not None and self.weights is not None:
            raise ValueError("targets: weights and class_prior both say how much a target counts; pass one of them")
        if isinstance(self.inputs, str) and self.inputs != "pool":
            raise ValueError(f"targets: found {self.inputs!r}; pass inputs, a function, or 'pool' for the pool itself")
        if self.kind == "set":
            self._check_set()
        else:
            given = [name for name in ("labels", "weights") if getattr(self, name) is not None]
            if given:
                raise ValueError(f"targets: {given[0]} belong to a set of inputs; found them with a {self.kind}")
        if self.resample and self.weights is None and self.class_prior is None:
            raise ValueError("targets: resample=True draws by weights; pass weights or class_prior, or leave it out")

    @classmethod
    def of(cls, value: Any) -> Self:
        """What `targets=` takes: inputs, Examples, a function, "pool" or TargetInputs.

        >>> TargetInputs.of("pool").kind, TargetInputs.of(lambda count, seed: np.zeros((count, 2))).kind
        ('pool', 'stream')
        """
        if isinstance(value, Targets | Belief):
            raise ValueError(
                "targets: found a belief, but the model that is being trained must say what it believes; pass inputs"
            )
        return value if isinstance(value, cls) else cls(value)

    @property
    def kind(self) -> str:
        """What it is: a "set" of inputs, a "stream" or the "pool"."""
        if isinstance(self.inputs, str):
            return "pool"
        return "stream" if callable(self.inputs) else "set"

    def __repr__(self) -> str:
        return f"TargetInputs({', '.join(f'{name}={value}' for name, value in self.terms().items())})"

    def terms(self) -> dict[str, Any]:
        """What decides which targets are drawn, as plain values for the journal."""
        found: dict[str, Any] = {"kind": self.kind, "count": self.count}
        if self.kind == "set":
            found["inputs"] = Pool(self.inputs).fingerprint()
        for name in ("labels", "weights"):
            if getattr(self, name) is not None:
                found[name] = hashlib.blake2b(repr(getattr(self, name).tolist()).encode(), digest_size=8).hexdigest()
        if self.class_prior is not None:
            found["class_prior"] = list(self.class_prior)
        return {**found, "resample": True} if self.resample else found

    def draw(self, pool: Pool, seed: Amount, most: int | None = None) -> "DrawnTargets":
        """The targets of one batch: as many as `count` and `most` allow. Where they are drawn by weights that the model
        decides, more inputs, from which they will be drawn.

        >>> drawn = TargetInputs(np.arange(5.0)[:, None], count=2).draw(Pool([[0.0]]), seed=0)
        >>> len(drawn), drawn.inputs.shape
        (2, (2, 1))
        """
        count = self.count if most is None else max(1, min(self.count, most))
        if self.kind == "stream":
            return self._streamed(count, self._looked(count, most), seed)
        rng = np.random.default_rng(seed)
        if self.resample and self.weights is not None:
            return self._at(rng.choice(len(self.inputs), count, p=self.weights / self.weights.sum()), weighed=False)
        if self.kind == "pool":
            places = np.flatnonzero(~np.isin(pool.ids, pool.ignored_ids))
        else:
            places = np.arange(len(self.inputs)) if self.weights is None else np.flatnonzero(self.weights)
        if len(places) == 0:
            raise ValueError("targets: every point of the pool is set aside; pass the inputs that matter as targets=")
        looked = self._looked(count, most)
        if len(places) > looked:
            places = np.sort(rng.choice(places, looked, replace=False))
        if self.kind == "pool":
            return DrawnTargets(pool.inputs[places], None, None, self, count, seed)
        return replace(self._at(places), count=count, seed=seed)

    def _looked(self, count: int, most: int | None) -> int:
        """How many inputs the model is asked about: the targets, or several for each target that is drawn later."""
        looked = count * _STAND_INS if self.resample else count
        return looked if most is None else max(1, min(looked, most))

    def _at(self, positions: Array, weighed: bool = True) -> "DrawnTargets":
        """The targets of a set at some positions."""
        weights = self.weights[positions] if weighed and self.weights is not None else None
        labels = None if self.labels is None else self.labels[positions]
        return DrawnTargets(self.inputs[positions], weights, labels, self, len(positions), 0)

    def _streamed(self, count: int, looked: int, seed: int) -> "DrawnTargets":
        found = self.inputs(looked, seed)
        examples = found if isinstance(found, Examples) else Examples(found)
        if len(examples) == 0:
            raise ValueError(f"targets: the stream gave none of {looked} asked for; return inputs, one per row")
        return DrawnTargets(examples.inputs, None, examples.labels, self, count, seed)

    def _check_set(self) -> None:
        given = self.inputs
        if isinstance(given, Examples) and self.labels is not None:
            raise ValueError("targets: these examples have labels of their own; leave out labels=")
        examples = given if isinstance(given, Examples) else Examples(given, self.labels)
        object.__setattr__(self, "inputs", examples.inputs)
        object.__setattr__(self, "labels", examples.labels)
        if len(examples) == 0:
            raise ValueError("targets: found none, and without them nothing says what is worth learning; pass some")
        if self.weights is None:
            return
        weights_M = as_numpy(self.weights).astype(np.float64)
        if weights_M.shape != (len(examples),):
            raise ValueError(
                f"targets: expected a weight for each of {len(examples)} inputs, found shape {weights_M.shape}"
            )
        if not (weights_M >= 0).all() or not 0 < weights_M.sum() < np.inf:
            raise ValueError("targets: weights are numbers from 0 on that do not all vanish; leave them out for equal")
        object.__setattr__(self, "weights", weights_M)


@dataclass(frozen=True, eq=False)
class DrawnTargets:
    """The targets of one batch as inputs; `believed` makes of them targets that a method can use."""

    inputs: Any
    weights: Array | None
    labels: Array | None
    source: TargetInputs
    count: int
    seed: int

    def __len__(self) -> int:
        return len(self.inputs)

    def believed(self, belief: Belief) -> Targets[Belief]:
        """Targets, from what the model believes about the inputs drawn.

        >>> from natsel import CategoricalSamples
        >>> drawn = TargetInputs([[0.0], [1.0]], class_prior=[1.0, 0.0]).draw(Pool([[0.0]]), seed=0)
        >>> drawn.believed(CategoricalSamples.from_probs([[[0.9, 0.1]], [[0.3, 0.7]]])).weights_M
        tensor([1.5000, 0.5000], dtype=torch.float64)
        """
        if self.source.class_prior is None:
            return Targets(belief, self.weights, self.labels)
        weights_M = self._prior_weights(belief)
        if not self.source.resample:
            return Targets(belief, weights_M, self.labels)
        positions = self._resampled(weights_M)
        kept = _repeated(belief, positions)
        return Targets(kept, None, None if self.labels is None else self.labels[positions])

    def chosen(self, believe: Callable[[Any], Belief]) -> Any:
        """The inputs that are targets, without a belief about them; under a class prior they are drawn by weight.

        >>> drawn = TargetInputs([[0.0], [1.0]]).draw(Pool([[0.0]]), seed=0)
        >>> drawn.chosen(believe=None).tolist()
        [[0.0], [1.0]]
        """
        if self.source.class_prior is None:
            return self.inputs
        return self.inputs[self._resampled(self._prior_weights(believe(self.inputs)))]

    def _prior_weights(self, belief: Belief) -> Tensor:
        classes = seen_as(belief, ClassProbabilities)
        if classes is None:
            raise ValueError(
                f"targets: class_prior weighs classes, but the model believes {type(belief).__name__}; pass weights"
            )
        return class_prior_weights(classes.log_probs_N_C.exp(), torch.tensor(self.source.class_prior))

    def _resampled(self, weights_M: Tensor) -> Array:
        shares = weights_M.cpu().numpy()
        rng = np.random.default_rng([self.seed, 1])
        return rng.choice(len(shares), self.count, p=shares / shares.sum())


def _repeated(belief: Belief, positions: Array) -> Belief:
    """The belief at positions, of which some may come twice: each row is a target of its own, under a new id."""
    return belief[torch.from_numpy(positions)].with_ids(np.arange(len(positions)))


def targets_for(method: Method, targets: Any) -> TargetInputs | None:
    """Where the targets of a method come from; None for a method that looks at none, whatever was given, so that
    methods can be compared under one call. A method that cannot run in a learner, or not without targets, is refused.

    >>> from natsel.choose import METHODS
    >>> targets_for(METHODS["bald"], None) is targets_for(METHODS["bald"], "pool") is None
    True
    """
    given = None if targets is None else TargetInputs.of(targets)
    if Argument.LABELS in method.needs:
        raise ValueError(
            f"method: {method.name} weighs labels that are known, and a learner asks because they are not; choose one"
            " that needs no labels"
        )
    if draws_again(method.search):
        raise ValueError(
            f"method: {method.name} may draw a point several times, and a learner asks for each label once; choose"
            " Power or Softmax as its search"
        )
    if method.reads_geometry:  # whose targets are the points to choose from, unless others are named
        plain = given is None or (given.kind == "pool" and given.class_prior is None)
        return None if plain else given
    if Argument.TARGETS not in method.needs and method.objective.teaching is None:
        return None
    if given is None:
        raise ValueError(
            f"targets: {method.name} asks what is learned about targets; pass the inputs that matter as targets=, or"
            ' targets="pool" for the pool itself'
        )
    weighted = given.weights is not None or given.class_prior is not None
    # A joint of all targets knows no weights: they decide how often a target is drawn.
    return replace(given, resample=True) if weighted and method.facts.joint_targets else given


def geometries(
    geometry: Callable[..., Any], pool: Pool, ids: Array, labelled: Any, source: TargetInputs | None, seed: int
) -> tuple[Geometry, Targets[Belief] | None, Targets[Belief] | None]:
    """One geometry of points of the pool, of targets and of labelled points, where there are such."""
    drawn = None if source is None else source.draw(pool, seed)
    inputs, known = pool.inputs_of(ids), [] if labelled is None else [labelled.inputs]
    belief, *others = geometry(inputs, *known, *([] if drawn is None else [drawn.inputs]))
    about = None if drawn is None else drawn.believed(others[-1])
    return belief.with_ids(ids), about, None if labelled is None else Targets(others[0])


def most_targets(one: Belief) -> int:
    """How many targets fit a quarter of the memory budget, from a belief about some inputs.

    >>> from natsel import CategoricalSamples
    >>> most_targets(CategoricalSamples.from_probs([[[0.5, 0.5]]], ids=[0])) > 1000
    True
    """
    each = (one.ids.nbytes + sum(getattr(one, name).nbytes for name in one.points)) / len(one)
    return max(1, int(memory_budget() / 4 / each))
