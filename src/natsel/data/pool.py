"""The pool: all the data there is, each datum with its own id, and which of them have a label.

An id belongs to a datum for good. It is never a position in what happens to be left, so that a pick from any part of
the pool names the right datum. An id is unlabelled, labelled or ignored (nobody can or will label it):

    unlabelled ──label──▸ labelled        unlabelled ──ignore──▸ ignored        both ──release──▸ unlabelled

The pool may know the answers (a simulation does). Learners never see them: only `label` puts a label into `labelled()`.
"""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from natsel.data.contents import Contents, digests_of, sampled_fingerprint
from natsel.data.examples import Examples
from natsel.data.labels import Array, as_numpy, read_labels, read_numbers, refuse_class_beyond, unknown, whole
from natsel.integers import refuse_beyond

_UNLABELLED, _LABELLED, _IGNORED = 0, 1, 2


class Pool:
    """N inputs with ids, labels as they are told, and the answers where they are known.

    `regression` says whether labels are real numbers (True) or classes (False). Without it the answers, the classes or
    else the first label decide, and labels that are all whole numbers are taken for classes.

    >>> pool = Pool([[0.0], [1.0], [2.0]], ids=[10, 20, 30], classes=("cat", "dog"))
    >>> pool.label([30, 10], ["dog", 0])
    >>> pool.labelled_ids.tolist(), pool.labels_of([10, 30]).tolist(), pool.unlabelled_ids.tolist()
    ([30, 10], [0, 1], [20])
    """

    def __init__(
        self,
        inputs: Any,
        labels: Any = None,
        ids: Any = None,
        classes: Sequence[str] = (),
        regression: bool | None = None,
    ) -> None:
        if regression and len(classes):
            raise ValueError("classes: there are none among real numbers; leave out classes, or regression=True")
        everything = Examples(
            inputs, read_numbers(labels) if regression and labels is not None else labels, tuple(classes)
        )
        self.inputs, self._answers, self.classes = everything.inputs, everything.labels, everything.classes
        self._regression: bool | None = False if self.classes else regression
        if self._answers is not None:
            if self._answers.ndim != 1:
                raise ValueError(f"labels: expected one number each, found shape {self._answers.shape}")
            if regression is False and self._answers.dtype.kind == "f":
                self._answers = whole(self._answers, "labels")
            self._regression = self._answers.dtype.kind == "f"
            if not self._regression and not self.classes:  # how many classes there are is known to any who set a task
                refuse_class_beyond(self._answers, len(everything), "labels")
                self.classes = tuple(str(number) for number in range(int(self._answers.max(initial=-1)) + 1))
        self._ids, self._order = _checked_ids(ids, len(everything))
        self._state = np.zeros(len(everything), dtype=np.uint8)
        # Position → label. A dict keeps the order told, also when a label is corrected, and changes in O(1).
        self._told: dict[int, int | float] = {}

    @classmethod
    def of(cls, examples: Examples, ids: Any = None, regression: bool | None = None) -> Self:
        """A pool of examples; their labels become its answers.

        >>> len(Pool.of(Examples(np.zeros((3, 2)), np.array([0, 1, 1]))))
        3
        """
        return cls(examples.inputs, examples.labels, ids, examples.classes, regression)

    def __len__(self) -> int:
        return len(self._state)

    def __repr__(self) -> str:
        return f"Pool({len(self)} inputs: {len(self._told)} labelled, {len(self.ignored_ids)} ignored)"

    @property
    def ids(self) -> Array:
        """All ids, one for each input, in the order of the inputs."""
        return np.arange(len(self)) if self._ids is None else self._ids.copy()

    @property
    def regression(self) -> bool | None:
        """Whether labels are real numbers; None while nothing (answers, classes, a first label) has told."""
        return self._regression

    def expect_numbers(self) -> None:
        """Take labels for real numbers, because a regressor is to learn them, unless they are known to be classes.

        >>> pool = Pool([[0.0], [1.0]])
        >>> pool.expect_numbers()
        >>> pool.regression
        True
        """
        if self._answers is None and not self.classes:
            self._regression = True
        elif not self._regression and self._answers is not None and unknown(self._answers).any():
            raise ValueError(
                "pool: the model predicts real numbers, but labels below 0 mean unknown among classes; make the pool"
                " with regression=True"
            )

    @property
    def unlabelled_ids(self) -> Array:
        """Ids neither labelled nor ignored, in the order of the inputs."""
        return self._ids_at(np.flatnonzero(self._state == _UNLABELLED))

    @property
    def ignored_ids(self) -> Array:
        """Ids that were set aside, in the order of the inputs."""
        return self._ids_at(np.flatnonzero(self._state == _IGNORED))

    @property
    def labelled_ids(self) -> Array:
        """Ids with a label, in the order first told."""
        return self._ids_at(self._labelled_positions())

    def label(self, ids: Any, values: Any) -> None:
        """Give labels to ids: class numbers, class names or real numbers. A second label replaces the first."""
        self._put(ids, self.as_labels(values, ids=ids))

    def restore(self, ids: Any, values: Any) -> None:
        """Labels as a journal has them, which were checked when they were told."""
        self._put(ids, self.as_labels(values))

    def _put(self, ids: Any, labels: Array) -> None:
        positions = self.position_of(ids)
        if len(positions) != len(labels):
            raise ValueError(f"values: expected one label for each of {len(positions)} ids, found {len(labels)}")
        _refuse_repeats(positions, self._ids_at(positions))
        if len(labels):
            self._regression = labels.dtype.kind == "f"
        self._told.update(zip(positions.tolist(), labels.tolist(), strict=True))
        self._state[positions] = _LABELLED

    def ignore(self, ids: Any) -> None:
        """Set ids aside: they count neither as labelled nor as unlabelled. A label they had is dropped."""
        self._move(ids, _IGNORED)

    def release(self, ids: Any) -> None:
        """Make ids unlabelled again."""
        self._move(ids, _UNLABELLED)

    def labelled(self) -> Examples:
        """What a model may learn from: the inputs with a label, in the order first told."""
        positions = self._labelled_positions()
        kind = np.float64 if self._regression else np.int64
        labels = np.fromiter(self._told.values(), dtype=kind, count=len(self._told))
        return Examples(self.inputs[positions], labels, self.classes)

    def labels_of(self, ids: Any) -> Array:
        """The labels told for some ids."""
        positions = self.position_of(ids)
        bare = self._state[positions] != _LABELLED
        if bare.any():
            raise ValueError(f"ids: {self._ids_at(positions)[bare][0]} has no label yet; ask labelled_ids which have")
        kind = np.float64 if self._regression else np.int64
        return np.array([self._told[position] for position in positions.tolist()], dtype=kind)

    def answers(self, ids: Any) -> list[int | float | None]:
        """What an oracle would say, None where even that does not know (label −1 or NaN)."""
        if self._answers is None:
            raise ValueError("labels: the pool knows no answers; pass labels=… when making it, or another oracle")
        labels = self._answers[self.position_of(ids)]
        return [None if gap else label for label, gap in zip(labels.tolist(), unknown(labels).tolist(), strict=True)]

    def inputs_of(self, ids: Any) -> Any:
        """The inputs of some ids, in the order given."""
        return self.inputs[self.position_of(ids)]

    def position_of(self, ids: Any) -> Array:
        """Where ids stand among the inputs. One id counts as a list of one."""
        wanted = np.atleast_1d(as_numpy(ids))
        if wanted.size == 0:
            return np.zeros(0, dtype=np.int64)
        refuse_beyond(wanted, "ids", ids)
        if wanted.dtype.kind not in "iu" or wanted.ndim != 1:
            raise ValueError(f"ids: expected a list of integers, found {wanted.dtype} of shape {wanted.shape}")
        wanted = wanted.astype(np.int64, copy=False)
        if self._ids is None or self._order is None:
            positions, found = wanted, (wanted >= 0) & (wanted < len(self))
        else:
            places = np.searchsorted(self._ids, wanted, sorter=self._order).clip(max=len(self) - 1)
            positions = self._order[places] if len(self) else places
            found = self._ids[positions] == wanted if len(self) else np.zeros(len(wanted), dtype=bool)
        if not found.all():
            raise ValueError(f"ids: {wanted[~found][0]} is not in the pool; ask pool.ids which are")
        return positions

    def as_labels(self, values: Any, name: str = "values", aside: str = "pool.ignore", ids: Any = None) -> Array:
        """Labels checked and in the form the pool keeps them: int64 classes, or float64 for regression.

        `name` and `aside` are for the errors: what the caller named the labels, and what sets aside ids without one.
        With `ids`, the ids that the labels are for, class numbers that such a pool will hardly need are refused too.
        """
        labels, named = (
            (read_numbers(values, name), ()) if self._regression else read_labels(values, self.classes, name)
        )
        labels = np.atleast_1d(labels)
        if named != self.classes:
            raise ValueError(f"{name}: found class names, but the pool has none; pass classes=(…) when making it")
        if labels.ndim != 1:
            raise ValueError(f"{name}: expected one label each, found shape {labels.shape}")
        if self._regression is False and labels.dtype.kind == "f":  # no classes by name, but labels before were whole
            labels = whole(labels, name)
        classes = labels.dtype.kind == "i"
        wrong = labels[(labels < -1) if classes else np.isinf(labels)]
        if len(wrong):
            remedy = "classes start at 0, and real numbers need a pool with regression=True" if classes else "check it"
            raise ValueError(f"{name}: found {wrong[0]}; {remedy}")
        if unknown(labels).any():
            gap = "None, NaN or −1" if classes else "None or NaN"
            real = "; if −1 is a real number, make the pool with regression=True" if self._regression is None else ""
            raise ValueError(
                f"{name}: found no label for an id ({gap}); leave it out, or set it aside: {aside}(ids){real}"
            )
        if classes and ids is not None and not self.classes and len(labels) == np.size(as_numpy(ids)):
            refuse_class_beyond(labels, len(self), name, ids)
        return labels if classes else labels.astype(np.float64)

    def contents(self) -> Contents:
        """What the pool holds: a digest of every input. It takes about a second for a gigabyte or a million points."""
        return Contents(self.inputs, self.ids, self.classes)

    def fingerprint(self) -> str:
        """A name for what the pool holds: its ids, its classes and all its inputs.

        Images of a folder are told by the bytes of their files. Of inputs that somebody else's code reads (a torch data
        set, images from Hugging Face) a sample of 64 and their number are taken.
        """
        return self.contents().fingerprint()

    def sampled_fingerprint(self) -> str:
        """The name that journals had for a pool before version 2, from a sample of 64 inputs."""
        return sampled_fingerprint(self.inputs, self._ids, self.classes)

    def digests_of(self, ids: Any) -> list[int]:
        """A digest of the input of each id, which are read where they must be.

        >>> Pool([[0.0], [1.0], [0.0]]).digests_of([0, 2]) == Pool([[0.0], [0.0]]).digests_of([0, 1])
        True
        """
        digests: list[int] = digests_of(self.inputs, self.position_of(ids)).tolist()
        return digests

    def _move(self, ids: Any, state: int) -> None:
        positions = self.position_of(ids)
        for position in positions.tolist():
            self._told.pop(position, None)
        self._state[positions] = state

    def _labelled_positions(self) -> Array:
        return np.fromiter(self._told, dtype=np.int64, count=len(self._told))

    def _ids_at(self, positions: Array) -> Array:
        return positions if self._ids is None else self._ids[positions]


def _checked_ids(ids: Any, count: int) -> tuple[Array | None, Array | None]:
    """Ids and the order that sorts them; None for both where ids are the positions themselves."""
    if ids is None:
        return None, None
    column = as_numpy(ids)
    refuse_beyond(column, "ids", ids)
    if column.shape != (count,) or (count and column.dtype.kind not in "iu"):
        raise ValueError(
            f"ids: expected an integer for each of {count} inputs, found {column.dtype} of shape {column.shape}"
        )
    column = column.astype(np.int64)
    if np.array_equal(column, np.arange(count)):
        return None, None
    order = np.argsort(column, kind="stable")
    ranked = column[order]
    _refuse_repeats(ranked, ranked, ordered=True)
    return column, order


def _refuse_repeats(positions: Array, ids: Array, ordered: bool = False) -> None:
    ranked = positions if ordered else np.sort(positions)
    twice = ranked[1:][ranked[1:] == ranked[:-1]]
    if len(twice):
        raise ValueError(f"ids: {ids[positions == twice[0]][0]} appears twice; give each id once")
