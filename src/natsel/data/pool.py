"""The pool: all the data there is, each datum with its own id, and which of them have a label.

An id belongs to a datum for good (`natsel.ids`). It is never a position in what happens to be left, so that a pick from
any part of the pool names the right datum. An id is unlabelled, labelled or ignored (nobody can or will label it):

    unlabelled ──label──▸ labelled        unlabelled ──ignore──▸ ignored        both ──release──▸ unlabelled

`labels` are those that people have: gaps among them (None, NaN, −1 among classes) are the points to ask about. A
simulation also knows the `answers`. Learners never see these: only `label` puts a label into `labelled()`.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from natsel.data.alignment import aligned, or_none
from natsel.data.any_source import examples_from
from natsel.data.class_names import lookalikes, refuse
from natsel.data.contents import Contents, digests_of
from natsel.data.examples import Examples
from natsel.data.labels import (
    Array,
    as_numpy,
    class_names_in,
    is_whole,
    read_labels,
    read_numbers,
    refuse_class_beyond,
    unknown,
    whole,
)
from natsel.ids import IdArray, Key, as_ids, ids_for, keys_of, refuse_repeats

_UNLABELLED, _LABELLED, _IGNORED = 0, 1, 2


class Pool:
    """N inputs with ids, the labels there are, and the answers where they are known.

    `data` is an array, a tensor, a list of texts, a table of pandas or polars, a file or folder by its path, examples,
    or a data set of torch or Hugging Face; of files and tables, `labels`, `answers`, `ids` and `inputs` may name
    columns. Labels that come with the inputs count as labels, but a column of a table only where it was named. Ids are
    given, or come with the inputs (names of image files, an index of pandas), or count the inputs from 0. Labels and
    answers that have ids too (a mapping, a column of pandas, a table or file of ids and labels) go by them, and a
    mapping or file may name a part; others go by position.

    `regression` says whether labels are real numbers (True) or classes (False). Without it the labels, the answers, the
    classes or else the model decide; whole numbers from −1 on are classes until a model says that it predicts numbers.
    Without `classes`, new names of classes are taken as they come; with them, others are refused until `add_classes`.

    >>> pool = Pool([[0.0], [1.0], [2.0]], ids=["a", "b", "c"], labels=["cat", None, None])
    >>> pool.label(["c"], ["dog"])
    >>> pool.labelled_ids.tolist(), pool.labels_of(["a", "c"]).tolist(), pool.unlabelled_ids.tolist(), pool.classes
    (['a', 'c'], [0, 1], ['b'], ('cat', 'dog'))
    """

    def __init__(
        self,
        data: Any,
        labels: Any = ...,
        ids: Any = None,
        classes: Sequence[str] = (),
        regression: bool | None = None,
        *,
        answers: Any = None,
        inputs: str | Sequence[str] | None = None,
    ) -> None:
        if regression and len(classes):
            raise ValueError("classes: there are none among real numbers; leave out classes, or regression=True")
        source = examples_from(data, labels, answers, ids, classes, inputs=inputs, regression=regression)
        self.inputs = source.inputs
        self.went = dict(source.went)
        """How the labels and the answers given were put beside the inputs: "by id" or "by position"."""
        self._ids = None if source.ids is None else or_none(ids_for(source.ids, len(self.inputs)))
        self._order: Array | None = None
        self._position: dict[Key, int] = {}
        if self._ids is not None and self._ids.dtype.kind == "i":
            self._order = np.argsort(self._ids, kind="stable")
        elif self._ids is not None:
            self._position = {key: position for position, key in enumerate(keys_of(self._ids))}
        self.classes: tuple[str, ...] = tuple(source.classes)
        self.takes_new_classes = not self.classes
        """Whether a name that is no class yet becomes one when it is told."""
        self.renamed: dict[str, str] = {}
        """The names that former names of classes have become."""
        self._asked_for = regression
        self._regression: bool | None = False if self.classes else regression
        self._answers: Array | None = None
        self._as_numbers: dict[str, Array] = {}  # what was given, where classes would have gaps that numbers have not
        self._state = np.zeros(len(self.inputs), dtype=np.uint8)
        # Position → label. A dict keeps the order told, also when a label is corrected, and changes in O(1).
        self._told: dict[int, int | float] = {}
        self._take(source.labels, source.answers)

    def _take(self, labels: Any, answers: Any) -> None:
        """Read the labels and the answers that the pool is made with."""
        given = {name: column for name, column in (("labels", labels), ("answers", answers)) if column is not None}
        nameless = {} if self.classes or self._regression else given
        if names := set().union(*map(class_names_in, nameless.values())):
            wrong = lookalikes(sorted(names), ())
            for name, column in given.items():
                found = class_names_in(column)
                refuse({one: other for one, other in wrong.items() if one in found}, (), column, self.ids, name, "")
            self.classes, self._regression = tuple(sorted(names)), False
        read = {name: self._read(column, name) for name, column in given.items()}
        below = self._regression is None and any(column.min(initial=0) < -1 for column in read.values())
        if below or any(column.dtype.kind == "f" for column in read.values()):
            read, self._regression = {name: read_numbers(column, name) for name, column in given.items()}, True
        for name, column in read.items():
            if column.shape != (len(self),):
                raise ValueError(
                    f"{name}: expected one for each of {len(self)} inputs, found"
                    f" {len(column) if column.ndim == 1 else f'shape {column.shape}'}"
                )
            if not self._regression and not self.classes:
                refuse_class_beyond(column, len(self), name)
        if not (self._regression or self.classes) and any((column < 0).any() for column in read.values()):
            self._as_numbers = {name: read_numbers(column, name) for name, column in given.items()}
        if "answers" in read:
            self._answers, self._regression = read["answers"], bool(self._regression)
            if not self._regression and not self.classes:  # how many there are is known to any who set a task
                most = max(int(column.max(initial=-1)) for column in read.values())
                self.classes = tuple(str(number) for number in range(most + 1))
        if "labels" in read:
            known = np.flatnonzero(~unknown(read["labels"]))
            self._put(self._ids_at(known), self.as_labels(read["labels"][known], "labels"))

    def _read(self, column: Any, name: str) -> Array:
        """Labels as classes where they may be some: names, integers, and whole numbers with gaps, which is what a table
        makes of integers; else as real numbers.
        """
        if self._regression:
            return read_numbers(column, name)
        labels, _ = read_labels(column, self.classes, name)
        if labels.dtype.kind != "f":
            return labels
        is_table_of_classes = bool(np.isnan(labels).any()) and is_whole(labels)
        return whole(labels, name) if self._regression is False or is_table_of_classes else labels

    @classmethod
    def with_answers(
        cls, examples: Any, ids: Any = None, classes: Sequence[str] = (), regression: bool | None = None
    ) -> Self:
        """A pool for simulations, of examples or of anything that `Pool` takes: the labels that come with it become
        answers, which learners do not see.

        >>> Pool.with_answers(Examples(np.zeros((3, 2)), np.array([0, 1, 1]))).answers([1])
        [1]
        """
        source = examples_from(examples, None, ids=ids, classes=classes, regression=regression)
        if source.labels is None:
            raise ValueError("examples: no labels to answer with; pass Examples(inputs, labels), or Pool(…, answers=…)")
        return cls(source.inputs, None, source.ids, source.classes, regression, answers=source.labels)

    def __len__(self) -> int:
        return len(self._state)

    def __repr__(self) -> str:
        labels, answers = (f" {self.went[name]}" if name in self.went else "" for name in ("labels", "answers"))
        answers = f"; answers{answers}" if answers else ""
        return f"Pool({len(self)} inputs: {len(self._told)} labelled{labels}, {len(self.ignored_ids)} ignored{answers})"

    @property
    def ids(self) -> IdArray:
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
        numbers, self._as_numbers = self._as_numbers, {}
        if numbers:
            self._answers, self.classes, self._regression = numbers.get("answers"), (), True
            if any((column == -1).any() and not np.isnan(column).any() for column in numbers.values()):
                warnings.warn("pool: −1 is a number to a regressor; write gaps as None or NaN", stacklevel=2)
            labels = numbers.get("labels", np.zeros(len(self)))
            late = np.flatnonzero((self._state == _UNLABELLED) & (labels == -1))
            self._put(self._ids_at(late), labels[late])
        elif self._answers is None and not self.classes:
            self._regression = True
        elif not self._regression and any(name != str(number) for number, name in enumerate(self.classes)):
            raise ValueError(
                f"pool: the model predicts real numbers, but labels are classes such as {self.classes[0]!r}; use a"
                " classifier, or make the pool with regression=True"
            )

    def expect_classes(self) -> None:
        """Take labels for classes, because a classifier is to learn them; real numbers are refused.

        >>> pool = Pool([[0.0], [1.0]], answers=[1.0, 0.0])
        >>> pool.expect_classes()
        >>> pool.regression, pool.classes
        (False, ('0', '1'))
        """
        if not self._regression:
            return
        columns = [np.array(list(self._told.values()), dtype=np.float64)]
        columns += [] if self._answers is None else [self._answers]
        # No class is below 0, but −1 may stand for an answer that is not known.
        wrong = [one[(one != np.floor(one)) & ~np.isnan(one) | (one < -n)] for n, one in enumerate(columns)]
        numbers = np.concatenate(wrong)
        if self._asked_for or len(numbers):
            found = "it was made with regression=True" if self._asked_for else f"its labels are such as {numbers[0]:g}"
            raise ValueError(
                f"pool: the model predicts classes, but {found}; use a regressor, or pass classes as labels"
            )
        self._regression, answers, told = False, self._answers, self._told
        self._answers = None if answers is None else whole(answers, "answers")
        self._told = {position: int(label) for position, label in told.items()}
        if self._answers is not None and not self.classes:
            most = max(int(self._answers.max(initial=-1)), *(int(label) for label in self._told.values()), -1)
            self.classes = tuple(str(number) for number in range(most + 1))

    def add_classes(self, names: Sequence[str]) -> None:
        """Add classes that turned up late, after those there are; names that are classes already change nothing.

        >>> pool = Pool([[0.0]], classes=("cat", "dog"))
        >>> pool.add_classes(["bird"])
        >>> pool.classes
        ('cat', 'dog', 'bird')
        """
        new = [name for name in dict.fromkeys(names) if name not in self.classes]
        if new and not self.classes and (self._told or self._regression):
            raise ValueError(f"classes: {new[0]!r} is a name, but labels so far are numbers; go on with numbers")
        self.classes += tuple(new)
        self.renamed = {old: name for old, name in self.renamed.items() if old not in self.classes}
        self._regression = False if self.classes else self._regression

    def number_classes_as(self, classes: Sequence[str], renamed: Mapping[str, str] | None = None) -> None:
        """Number the classes in this order, others after them: labels and answers keep their names, but for classes
        that were `renamed` (former name → name).

        >>> pool = Pool([[0.0]], labels=["cat"], classes=("cat", "dog"))
        >>> pool.number_classes_as(["dog", "cat"])
        >>> pool.labels_of([0]).tolist()
        [1]
        """
        self.renamed = self.renamed if renamed is None else dict(renamed)
        names = [self.renamed.get(name, name) for name in self.classes]
        order = tuple(dict.fromkeys((*classes, *names)))
        if order == self.classes:
            return
        if not self.classes:  # labels are numbers, and now have names
            self.classes, self._regression = order, False
            return
        number_of = {name: number for number, name in enumerate(order)}
        new_C = np.array([number_of[name] for name in names] + [-1])  # −1, unknown, stays unknown
        self._told = {position: int(new_C[int(label)]) for position, label in self._told.items()}
        if self._answers is not None:
            self._answers = new_C[self._answers]
        self.classes = order

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
        values, _ = aligned(values, as_ids(ids), "values", listed=True, what="ids")
        self.add_classes(self.new_classes(values, ids))
        self._put(ids, self.as_labels(values, ids=ids))

    def new_classes(self, values: Any, ids: Any = None, name: str = "values", owner: str = "pool") -> tuple[str, ...]:
        """Names among labels that are no classes yet, where the pool takes new ones; one that is written like a class
        is refused. The error says `ids`, the `name` of the argument and the `owner` that can add a class.

        >>> Pool([[0.0]]).new_classes(["dog", "cat", "dog"])
        ('cat', 'dog')
        """
        if not self.takes_new_classes or self._regression:
            return ()
        new = tuple(sorted(class_names_in(values) - {*self.classes, *self.renamed}))
        refuse(lookalikes(new, self.classes), self.classes, values, ids, name, f"{owner}.add_classes")
        return new

    def restore(self, ids: Any, values: Any) -> None:
        """Labels as a journal has them, which were checked when they were told."""
        self._put(ids, self.as_labels(values))

    def _put(self, ids: Any, labels: Array) -> None:
        positions = self.position_of(ids)
        refuse_repeats(self._ids_at(positions))
        if len(positions) != len(labels):
            raise ValueError(f"values: expected one for each of {len(positions)} ids, found {len(labels)}")
        if len(labels) and not (self._regression and labels.dtype.kind == "i"):
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
            raise ValueError("answers: the pool knows none; pass answers=… when making it, or another oracle")
        labels = self._answers[self.position_of(ids)]
        return [None if gap else label for label, gap in zip(labels.tolist(), unknown(labels).tolist(), strict=True)]

    def inputs_of(self, ids: Any) -> Any:
        """The inputs of some ids, in the order given."""
        return self.inputs[self.position_of(ids)]

    def position_of(self, ids: Any) -> Array:
        """Where ids stand among the inputs. One id counts as a list of one."""
        positions, found = self._look_up(ids)
        if not found.all():
            stranger = keys_of(as_ids(ids)[~found])[0]
            raise ValueError(f"ids: {stranger!r} is not in the pool; ask pool.ids which are")
        return positions

    def holds(self, ids: Any) -> Array:
        """Which ids are in the pool.

        >>> Pool([[0.0]], ids=["a"]).holds(["a", "b"]).tolist()
        [True, False]
        """
        return self._look_up(ids)[1]

    def _look_up(self, ids: Any) -> tuple[Array, Array]:
        """Positions of ids, and which of them are in the pool; the positions of others mean nothing."""
        wanted = as_ids(ids)
        if self._position:
            positions = np.array([self._position.get(key, -1) for key in keys_of(wanted)], dtype=np.int64)
            return positions, positions >= 0
        if wanted.dtype.kind != "i":  # some are names, which no id here is
            keys = keys_of(wanted)
            positions, found = self._look_up([key if isinstance(key, int) else 0 for key in keys])
            return positions, found & np.array([isinstance(key, int) for key in keys])
        if self._ids is None or self._order is None:
            return wanted, (wanted >= 0) & (wanted < len(self))
        if not len(self):
            return wanted, np.zeros(len(wanted), dtype=bool)
        places = np.searchsorted(self._ids, wanted, sorter=self._order).clip(max=len(self) - 1)
        positions = self._order[places]
        return positions, self._ids[positions] == wanted

    def as_labels(self, values: Any, name: str = "values", aside: str = "pool.ignore", ids: Any = None) -> Array:
        """Labels checked and in the form the pool keeps them: int64 classes, or float64 for regression.

        `name` and `aside` are for the errors: what the caller named the labels, and what sets aside ids without one.
        With `ids`, the ids that the labels are for, class numbers that such a pool will hardly need are refused too.
        """
        if self._regression:
            labels = read_numbers(values, name)
        else:
            column = as_numpy(values)
            entries = (
                [one for one in column.reshape(-1).tolist() if isinstance(one, str)] if column.dtype == object else []
            )
            if self.renamed.keys() & entries:
                now = [
                    self.renamed.get(one, one) if isinstance(one, str) else one for one in column.reshape(-1).tolist()
                ]
                values = np.array(now, dtype=object).reshape(column.shape)
            strangers = {one for one in entries if one.strip()} - {*self.classes, *self.renamed}
            meant = (
                {one: lookalikes([one], self.classes).get(one, "") for one in sorted(strangers)} if self.classes else {}
            )
            refuse(meant, self.classes, values, ids, name, f"{aside.split('.')[0]}.add_classes")
            labels, named = read_labels(values, self.classes, name)
            if named != self.classes:
                raise ValueError(f"{name}: found class names, but labels so far are numbers; go on with numbers")
        labels = np.atleast_1d(labels)
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

    def _ids_at(self, positions: Array) -> IdArray:
        return positions if self._ids is None else self._ids[positions]
