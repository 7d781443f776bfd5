"""The pool: ids name data for good, states move in O(k), answers stay hidden, and bad input changes nothing."""

from pathlib import Path
from uuid import UUID

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestRegressor

import natsel
from natsel.data import Examples, Pool, load, read_examples

ANIMALS = ("cat", "dog", "fox")


def test_default_ids_are_the_rows():
    pool = Pool(np.arange(4)[:, None], answers=[0, 1, 2, 0])
    assert pool.ids.tolist() == [0, 1, 2, 3]
    assert pool.position_of([3, 0]).tolist() == [3, 0]
    assert pool.inputs_of(torch.tensor([2, 0])).tolist() == [[2], [0]]
    assert len(pool) == 4


def test_custom_ids_name_the_right_datum():
    pool = Pool(np.array([[0.0], [1.0], [2.0]]), ids=[30, 10, 20], classes=ANIMALS)
    assert pool.inputs_of([10, 30]).tolist() == [[1.0], [0.0]]
    pool.label([20, 30], [1, 2])
    assert pool.labelled().inputs.tolist() == [[2.0], [0.0]]
    assert pool.unlabelled_ids.tolist() == [10]


def test_labels_stay_in_the_order_first_told_also_when_corrected():
    pool = Pool(np.arange(5)[:, None], classes=ANIMALS)
    pool.label([4, 1], ["fox", 0])
    pool.label(2, "dog")
    pool.label([4], [1])
    assert pool.labelled_ids.tolist() == [4, 1, 2]
    inputs, labels = pool.labelled()
    assert labels.tolist() == [1, 0, 1]
    assert labels.dtype == np.int64
    assert inputs.tolist() == [[4], [1], [2]]
    assert pool.labels_of([2, 4]).tolist() == [1, 1]
    assert pool.labelled().n_classes == 3


def test_ignoring_and_releasing():
    pool = Pool(np.zeros((4, 1)), classes=ANIMALS)
    pool.label([0, 1], [0, 1])
    pool.ignore([1, 2])
    assert pool.labelled_ids.tolist() == [0]
    assert pool.ignored_ids.tolist() == [1, 2]
    assert pool.unlabelled_ids.tolist() == [3]
    pool.release([1])
    assert pool.unlabelled_ids.tolist() == [1, 3]
    pool.label([2, 1], [0, 0])  # a label for an ignored id brings it back
    assert pool.ignored_ids.tolist() == []
    assert pool.labelled_ids.tolist() == [0, 2, 1]
    assert repr(pool) == "Pool(4 inputs: 3 labelled, 0 ignored)"


def test_answers_are_for_oracles_only():
    pool = Pool.with_answers(Examples(np.zeros((3, 1)), [2, -1, 0]))
    assert pool.answers([0, 1]) == [2, None]
    assert pool.classes == ("0", "1", "2")
    assert len(pool.labelled()) == 0
    with pytest.raises(ValueError, match="0 has no label yet"):
        pool.labels_of([0])
    with pytest.raises(ValueError, match="answers: the pool knows none"):
        Pool(np.zeros((3, 1))).answers([0])


def test_regression_labels_are_floats():
    pool = Pool(np.zeros((3, 1)), answers=[0.5, np.nan, 2.0])
    assert pool.regression
    assert pool.answers([0, 1, 2]) == [0.5, None, 2.0]
    pool.label([0, 2], [1, 0.5])
    assert pool.labelled().labels.dtype == np.float64
    assert pool.labelled().labels.tolist() == [1.0, 0.5]


def test_the_first_label_tells_the_kind_where_nothing_else_does():
    whole, real = Pool(np.zeros((3, 1))), Pool(np.zeros((3, 1)))
    assert whole.regression is None
    whole.label(0, 3)
    assert whole.regression is False
    assert whole.as_labels([1.0]).dtype == np.int64
    real.label(0, 3.5)
    assert real.regression
    assert real.as_labels([1]).dtype == np.float64


@pytest.mark.parametrize(
    ("ids", "values", "message"),
    [
        ([9], [0], "ids: 9 is not in the pool"),
        ([-1], [0], "ids: -1 is not in the pool"),
        ([0, 0], [0, 1], "ids: 0 appears twice"),
        ([0.0], [0], "expected integers or names, found float64"),
        ([True], [0], "expected integers or names, found bool"),
        ([[0]], [0], "expected a list of ids, found shape"),
        ([0, 1], [0], "values: expected one for each of 2 ids, found 1"),
        ([0], [3], "found class 3, but there are 3 classes"),
        ([0], [-1], "values: found no label for an id .* set it aside: pool.ignore"),
        ([0], [None], "values: found no label for an id .* set it aside: pool.ignore"),
        ([0], [np.nan], "values: found no label for an id .* set it aside: pool.ignore"),
        ([0], [0.5], "expected classes, found 0.5"),
        ([0], ["dgo"], r"did you mean 'dog'\?; if it is new, call pool.add_classes\(\['dgo'\]\) first"),
        ([0], [[0]], "one label each, found shape"),
    ],
)
@pytest.mark.parametrize("custom", [False, True])
def test_bad_labels_are_refused_and_change_nothing(ids, values, message, custom):
    pool = Pool(np.zeros((3, 1)), ids=[2, 1, 0] if custom else None, classes=ANIMALS)
    pool.label([2], [0])
    with pytest.raises(ValueError, match=message):
        pool.label(ids, values)
    assert pool.labelled_ids.tolist() == [2]
    assert sorted(pool.unlabelled_ids.tolist()) == [0, 1]


def test_more_refusals():
    with pytest.raises(ValueError, match="ids: 5 appears twice"):
        Pool(np.zeros((3, 1)), ids=[5, 1, 5])
    with pytest.raises(ValueError, match="ids: expected one for each of 3 points, found 2"):
        Pool(np.zeros((3, 1)), ids=[1, 2])
    with pytest.raises(ValueError, match="answers: expected one for each of 3 inputs, found shape"):
        Pool(np.zeros((3, 1)), answers=np.zeros((3, 2)))
    with pytest.raises(ValueError, match="labels: expected one for each of 3 inputs, found 2"):
        Pool(np.zeros((3, 1)), labels=[0, 1])
    numbers = Pool(np.zeros((3, 1)))
    numbers.label([1], [0])
    with pytest.raises(ValueError, match="classes: 'cat' is a name, but labels so far are numbers"):
        numbers.label([0], ["cat"])
    with pytest.raises(ValueError, match="values: found inf"):
        Pool(np.zeros((3, 1)), answers=[0.5, 1.5, 2.5]).label([0], [np.inf])


@pytest.mark.parametrize(
    "ids",
    [
        np.array([(1 << 64) - 1, 7], dtype=np.uint64),
        torch.tensor([(1 << 64) - 1, 7], dtype=torch.uint64),
        [(1 << 64) - 1, 7],
        [7, 1 << 70],
    ],
    ids=["numpy", "torch", "list", "beyond any type"],
)
def test_ids_beyond_64_bits_are_refused_and_never_wrap_around(ids):
    pool = Pool(np.zeros((3, 1)), ids=[7, -1, 3], classes=ANIMALS)  # −1 is what 2**64 − 1 would wrap to
    for refused in (
        lambda: Pool(np.zeros((2, 1)), ids=ids),
        lambda: pool.position_of(ids),
        lambda: pool.label(ids, [0, 1]),
        lambda: pool.ignore(ids),
    ):
        with pytest.raises(ValueError, match=r"^ids: integers must lie in -2\*\*63\.\.2\*\*63-1 \(found \d{20,}\)"):
            refused()


@pytest.mark.parametrize(
    "labels", [np.array([0, (1 << 64) - 1], dtype=np.uint64), [0, 1 << 63], [None, 1 << 70]], ids=str
)
def test_labels_beyond_64_bits_are_refused_and_never_unknown(labels):
    for classes in ((), ANIMALS):
        with pytest.raises(ValueError, match=r"^answers: integers must lie in "):
            Pool(np.zeros((2, 1)), answers=labels, classes=classes)


def test_floats_that_skip_whole_numbers_are_no_classes():
    for number in (1e19, -1e19, 2.0**53 + 2):
        with pytest.raises(ValueError, match=r"^answers: expected classes, found "):
            Pool(np.zeros((2, 1)), answers=[0.0, number], regression=False)


def test_nothing_is_allowed_everywhere():
    for pool in (Pool(np.zeros((0, 2))), Pool(np.zeros((2, 2)), ids=[7, 3]), Pool(np.zeros((0, 2)), ids=[])):
        pool.label([], [])
        pool.ignore([])
        assert pool.regression is None
        assert pool.inputs_of([]).shape == (0, 2)
        assert len(pool.labelled()) == 0
        assert isinstance(pool.fingerprint(), str)
    with pytest.raises(ValueError, match="0 is not in the pool"):
        Pool(np.zeros((0, 2)), ids=[]).position_of([0])


@given(
    st.lists(st.integers(-50, 50), min_size=1, max_size=12, unique=True),
    st.lists(st.tuples(st.sampled_from(["label", "ignore", "release"]), st.integers(0, 11), st.integers(0, 2))),
)
@settings(max_examples=60, deadline=None)
def test_states_follow_a_plain_model(ids, events):
    pool = Pool(np.arange(len(ids)), ids=ids, classes=ANIMALS)
    told: dict[int, int] = {}
    ignored: set[int] = set()
    for event, place, value in events:
        one = ids[place % len(ids)]
        if event == "label":
            pool.label(one, value)
            told[one] = value
            ignored.discard(one)
        else:
            getattr(pool, event)(one)
            told.pop(one, None)
            (ignored.add if event == "ignore" else ignored.discard)(one)
    assert pool.labelled_ids.tolist() == list(told)
    assert pool.labelled().labels.tolist() == list(told.values())
    assert pool.labelled().inputs.tolist() == [ids.index(one) for one in told]
    assert pool.ignored_ids.tolist() == [one for one in ids if one in ignored]
    assert pool.unlabelled_ids.tolist() == [one for one in ids if one not in ignored and one not in told]


def test_a_fingerprint_tells_pools_apart_and_ignores_their_state():
    inputs = np.random.default_rng(0).normal(size=(500, 3)).astype(np.float32)
    pool = Pool(inputs, classes=ANIMALS)
    same = pool.fingerprint()
    pool.label([0], [1])
    assert pool.fingerprint() == same
    assert Pool(torch.from_numpy(inputs), ids=np.arange(500), classes=ANIMALS).fingerprint() == same
    changed = inputs.copy()
    changed[0, 0] += 1
    others = [
        Pool(changed, classes=ANIMALS),
        Pool(inputs[:-1], classes=ANIMALS),
        Pool(inputs, classes=ANIMALS[:2]),
        Pool(inputs, ids=np.arange(500) + 1, classes=ANIMALS),
        Pool(inputs.astype(np.float64), classes=ANIMALS),
        Pool([str(one) for one in inputs[:, 0]], classes=ANIMALS),
        Pool([str(one) for one in changed[:, 0]], classes=ANIMALS),
    ]
    assert len({same, *(other.fingerprint() for other in others)}) == 8


class Counted(np.ndarray):
    """An array that counts the entries which operations on it look at."""

    looked_at = 0

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        Counted.looked_at += max(np.size(one) for one in inputs)
        plain = [one.view(np.ndarray) if isinstance(one, Counted) else one for one in inputs]
        return getattr(ufunc, method)(*plain, **options)

    def __array_function__(self, function, types, arguments, options):
        Counted.looked_at += self.size
        plain = [one.view(np.ndarray) if isinstance(one, Counted) else one for one in arguments]
        return function(*plain, **options)


def test_updates_cost_what_they_change_not_what_there_is():
    pool = Pool(np.zeros((100_000, 1), dtype=np.uint8), classes=ANIMALS)
    pool._state = pool._state.view(Counted)
    Counted.looked_at = 0
    for one in range(300):
        pool.label(one, 0)
    assert Counted.looked_at < 3000
    assert len(pool.unlabelled_ids) == 99_700
    assert Counted.looked_at >= 100_000, "else nothing is counted"


def test_regression_is_said_and_then_whole_and_negative_labels_are_numbers():
    pool = Pool(np.zeros((4, 1)), answers=[-1, 2, None, -3], regression=True)
    assert pool.regression
    assert pool.classes == ()
    assert pool.answers([0, 1, 2, 3]) == [-1.0, 2.0, None, -3.0]
    bare = Pool(np.zeros((3, 1)), regression=True)
    bare.label([0, 1], [1, -1])
    assert bare.labels_of([0, 1]).dtype == np.float64
    bare.label(2, 1.5)
    assert bare.labelled().labels.tolist() == [1.0, -1.0, 1.5]
    assert Pool.with_answers(Examples(np.zeros((2, 1)), [-2, 3]), regression=True).answers([0]) == [-2.0]
    for gap in (None, np.nan):
        with pytest.raises(ValueError, match=r"found no label for an id \(None or NaN\)"):
            bare.label(0, gap)


def test_a_regressor_settles_what_whole_labels_left_open():
    pool = Pool(np.zeros((3, 1)))
    pool.label([0, 1], [1, 2])
    fingerprint = pool.fingerprint()
    pool.expect_numbers()
    pool.label(2, 1.5)
    assert pool.labelled().labels.tolist() == [1.0, 2.0, 1.5]
    assert pool.fingerprint() == fingerprint
    below = Pool(np.zeros((3, 1)), answers=[-1, -2, 3])  # no classes
    below.expect_numbers()
    assert below.answers([0, 1, 2]) == [-1.0, -2.0, 3.0]
    with pytest.raises(
        ValueError, match=r"pool: the model predicts real numbers, but labels are classes such as 'cat'"
    ):
        Pool(np.zeros((2, 1)), labels=["cat", "dog"]).expect_numbers()
    classes = Pool(np.zeros((3, 1)), answers=[0, 1, 2])
    classes.expect_numbers()  # harmless, and its journals know it by its classes
    assert classes.classes == ("0", "1", "2")


def test_classes_are_said_too_and_what_contradicts_is_refused():
    assert Pool(np.zeros((2, 1)), answers=[1.0, np.nan], regression=False).answers([0, 1]) == [1, None]
    with pytest.raises(ValueError, match=r"answers: expected classes, found 0.5; .*regression=True"):
        Pool(np.zeros((2, 1)), answers=[1.0, 0.5], regression=False)
    with pytest.raises(ValueError, match=r"values: expected classes, found 1.5"):
        Pool(np.zeros((2, 1)), regression=False).label(0, 1.5)
    with pytest.raises(ValueError, match="classes: there are none among real numbers"):
        Pool(np.zeros((2, 1)), classes=ANIMALS, regression=True)
    with pytest.raises(ValueError, match="answers: expected real numbers, found 'cat'"):
        Pool(np.zeros((2, 1)), answers=["cat", 1], regression=True)
    with pytest.raises(ValueError, match=r"values: found -3; classes start at 0, and real numbers need .*regression=T"):
        Pool(np.zeros((2, 1))).label(0, -3)
    with pytest.raises(ValueError, match="if −1 is a real number, make the pool with regression=True"):
        Pool(np.zeros((2, 1))).label(0, -1)


def test_fingerprints_are_what_they_always_were():
    """Journals name their pools by them."""
    inputs = np.arange(6.0).reshape(3, 2)
    for pool in (Pool(inputs), Pool(inputs, answers=[0.5, 1, 1]), Pool(inputs, regression=True)):
        assert pool.fingerprint() == "2:ea74d93b2e8b5adf8bfcb0d3180cdf1f"
    assert Pool(inputs, answers=[0, 1, 1]).fingerprint() == "2:834379396883e7d70ce310f93f424c32"


@pytest.mark.parametrize("number", [1_000, 3_000_000, 2**62])
def test_class_numbers_that_can_only_be_slips_are_refused_by_name(number):
    pool = Pool(np.zeros((60, 1)), ids=np.arange(60) + 100)
    with pytest.raises(ValueError, match=rf"values: found class {number} for id 107, and 60 points .* 0\.\.999; check"):
        pool.label([105, 107], [0, number])
    assert len(pool.labelled_ids) == 0
    with pytest.raises(ValueError, match=rf"answers: found class {number} in row 1"):
        Pool(np.zeros((3, 1)), answers=[0, number, 1])
    numbers = Pool(np.zeros((60, 1)), regression=True)
    numbers.label([3], [number])
    assert numbers.labels_of([3]).tolist() == [number]


def test_larger_pools_and_names_allow_more_classes():
    Pool(np.zeros((2000, 1))).label([0], [1999])
    with pytest.raises(ValueError, match=r"0\.\.1999; check"):
        Pool(np.zeros((2000, 1))).label([0], [2000])
    named = Pool(np.zeros((3, 1)), classes=[f"class {number}" for number in range(5000)])
    named.label([0], [4999])
    assert Pool(np.zeros((3, 1)), answers=[0, 999, 1]).classes[-1] == "999"


# Labels that people have, and ids as they have them.


def test_gaps_among_labels_are_the_points_to_ask_about():
    for labels, classes in (
        (["cat", None, "dog", None], ("cat", "dog")),
        (np.array([0, -1, 1, -1]), ()),
        (np.array([0.0, np.nan, 1.0, np.nan]), ()),  # what a table makes of whole numbers with gaps
    ):
        pool = Pool(np.zeros((4, 1)), labels)
        assert pool.labelled_ids.tolist() == [0, 2]
        assert pool.labels_of([0, 2]).tolist() == [0, 1]
        assert (pool.regression, pool.classes) == (False, classes)
    prices = Pool(np.zeros((3, 1)), [1.5, None, 2.0])
    assert prices.regression
    assert prices.labelled().labels.tolist() == [1.5, 2.0]
    both = Pool(np.zeros((3, 1)), labels=["dog", None, None], answers=["dog", "cat", "fox"])
    assert (both.classes, both.answers([1, 2]), both.labels_of([0]).tolist()) == (("cat", "dog", "fox"), [0, 2], [1])


def test_a_classifier_never_learns_from_numbers_and_a_regressor_may():
    floats = Pool(np.zeros((3, 1)), answers=[2.0, 0.0, 1.0])
    assert floats.regression
    floats.expect_classes()
    assert (floats.regression, floats.answers([0]), floats.classes) == (False, [2], ("0", "1", "2"))
    gaps = Pool(np.zeros((3, 1)), [2.0, np.nan, 1.0])
    gaps.expect_numbers()
    assert gaps.labelled().labels.dtype == np.float64
    answers = Pool(np.zeros((3, 1)), answers=[2.0, np.nan, -1.0])
    assert answers.answers([0, 1]) == [2, None]
    answers.expect_numbers()
    assert answers.answers([0, 1, 2]) == [2.0, None, -1.0]
    for numbers in (Pool(np.zeros((2, 1)), [0.5, 1.0]), Pool(np.zeros((2, 1)), answers=[0.5, 1.0])):
        with pytest.raises(
            ValueError, match=r"pool: the model predicts classes, but its labels are such as 0.5; use a"
        ):
            numbers.expect_classes()
    with pytest.raises(ValueError, match="but it was made with regression=True"):
        Pool(np.zeros((2, 1)), regression=True).expect_classes()


def test_what_a_model_predicts_decides_what_whole_labels_were(tmp_path):
    """A regressor reads again what looked like classes: no gap becomes −1, and no number below 0 a gap."""
    rows = "".join(f"r{n},{n},{100 + 7 * n if n < 5 else ''}\n" for n in range(40))
    (tmp_path / "t.csv").write_text("id,x,price\n" + rows)
    for said in (True, None):
        pool = Pool(tmp_path / "t.csv", labels="price", ids="id", regression=said)
        learner = natsel.ActiveLearner(RandomForestRegressor(3), pool, method="random")
        assert (pool.regression, len(pool.labelled_ids)) == (True, 5)
        assert learner.predict([[18.0]]).min() >= 100
    degrees = np.arange(-20, 20)
    pool = Pool(degrees[:, None], labels=degrees)
    natsel.ActiveLearner(RandomForestRegressor(3), pool, method="random")
    assert pool.labels_of(pool.ids).tolist() == degrees.tolist()
    given = np.array([-1, 0, 3])
    pool = Pool(np.zeros((3, 1)), labels=given)
    given[:] = 7  # nothing of the caller's is kept
    pool.label([1], [2])
    with pytest.warns(UserWarning, match="−1 is a number to a regressor; write gaps as None or NaN"):
        pool.expect_numbers()
    assert dict(zip(pool.labelled_ids.tolist(), pool.labels_of(pool.labelled_ids).tolist(), strict=True)) == {
        0: -1.0,
        1: 2.0,
        2: 3.0,
    }


def test_a_classifier_learns_from_no_number_below_0():
    for labels in ([-20, 3], [-1.0, 1.0]):
        with pytest.raises(ValueError, match=r"pool: the model predicts classes, but its labels .* such as -"):
            Pool(np.zeros((2, 1)), labels=labels).expect_classes()


def test_new_names_become_classes_unless_classes_were_said():
    pool = Pool(np.zeros((4, 1)))
    pool.label([0, 1], ["fox", "dog"])
    pool.label([2], ["ant"])
    assert pool.classes == ("dog", "fox", "ant")
    assert pool.labelled().labels.tolist() == [1, 0, 2]
    pool.number_classes_as(["ant", "dog", "fox"])
    assert pool.labelled().labels.tolist() == [2, 1, 0]
    pool.label([3], ["fox"])
    assert pool.labels_of([3]).tolist() == [2]
    said = Pool(np.zeros((2, 1)), classes=ANIMALS)
    said.add_classes(["owl", "cat"])
    said.label([0], ["owl"])
    assert said.labels_of([0]).tolist() == [3]


@pytest.mark.parametrize(
    "ids",
    [["c.png", "a.png", "b.png"], [Path("x/c"), Path("a"), Path("b")], [UUID(int=n) for n in (9, 1, 4)], ["x", 3, "3"]],
    ids=["texts", "paths", "uuids", "mixed"],
)
def test_ids_are_whatever_the_user_has(ids):
    pool = Pool(np.arange(3.0)[:, None], ids=ids)
    assert list(pool.ids) == ids
    pool.label([ids[2], str(ids[0])], [1, 0])  # a path and its text are one
    assert list(pool.labelled_ids) == [ids[2], ids[0]]
    assert pool.inputs_of(ids[2]).tolist() == [[2.0]]
    assert pool.holds([ids[1], "nobody", 7]).tolist() == [True, False, False]
    with pytest.raises(ValueError, match="ids: 'nobody' is not in the pool"):
        pool.label(["nobody"], [0])
    assert Pool(np.arange(3.0)[:, None], ids=ids[::-1]).fingerprint() != pool.fingerprint()


def test_pools_of_what_people_have(tmp_path):
    (tmp_path / "a.csv").write_text("x,z,kind\n1,2,cat\n3,4,\n5,6,dog\n")
    pool = Pool(tmp_path / "a.csv", labels="kind")
    assert (len(pool), pool.labelled_ids.tolist(), pool.classes) == (3, [0, 2], ("cat", "dog"))
    assert Pool(str(tmp_path / "a.csv"), answers="kind").answers([0, 1, 2]) == [0, None, 1]
    dataset = torch.utils.data.TensorDataset(torch.arange(6.0).reshape(3, 2), torch.tensor([1, 0, 1]))
    assert Pool(dataset).labelled().labels.tolist() == [1, 0, 1]
    simulated = Pool.with_answers(dataset)
    assert (simulated.answers([2]), len(simulated.labelled_ids)) == ([1], 0)
    assert simulated.inputs_of([1]).tolist() == [[2.0, 3.0]]
    assert len(Pool(["a text", "another"])) == 2
    for wrong, sentence in (
        (torch.utils.data.DataLoader(dataset), "inputs: found a DataLoader, which deals out batches; pass its data"),
        ("images", "inputs: there is no file or folder 'images'; check the path, or pass a list of texts"),
        ((row for row in range(3)), "inputs: found a generator, which has no length"),
        ({"a": 1}, "inputs: found a dict, which has no order"),
        (load("digits"), r"inputs: found a whole data set; pass a part of it, as in natsel.Pool\(data.train\)"),
    ):
        with pytest.raises(ValueError, match=sentence):
            Pool(wrong)
    with pytest.raises(ValueError, match="labels: 'kind' names a column, but the inputs are no table"):
        Pool([[1.0]], labels="kind")


NAMES = [f"{number:03}.png" for number in range(6)]
SPECIES = ["cat", "dog", "cat", "fox", "dog", "fox"]


def test_labels_of_a_column_go_by_its_index_and_the_pool_says_so():
    pandas = pytest.importorskip("pandas", reason="needs the extra tables")
    mixed = pandas.Series(SPECIES, index=NAMES).sample(frac=1, random_state=0)
    frame = pandas.DataFrame({"wide": np.arange(6.0)}, index=NAMES)
    for inputs, ids in ((frame, None), (frame["wide"], None), (np.zeros((6, 1)), NAMES)):
        pool = Pool(inputs, labels=mixed, ids=ids)
        assert [pool.classes[label] for label in pool.labels_of(NAMES)] == SPECIES
        assert repr(pool) == "Pool(6 inputs: 6 labelled by id, 0 ignored)"
        simulated = Pool(inputs, answers=mixed.to_frame(), ids=ids)
        assert [simulated.classes[label] for label in simulated.answers(NAMES)] == SPECIES
        assert repr(simulated) == "Pool(6 inputs: 0 labelled, 0 ignored; answers by id)"
    assert repr(Pool(frame, labels=mixed.to_numpy())) == "Pool(6 inputs: 6 labelled by position, 0 ignored)"
    plain = Pool(np.zeros((6, 1)), labels=mixed)  # an array names nothing
    assert [plain.classes[label] for label in plain.labels_of(np.arange(6))] == mixed.tolist()
    other = mixed.rename(lambda name: f"photos/{name}")
    with pytest.raises(ValueError, match=r"labels: id 'photos/.*, … \(6 in all\) is not among the inputs, which go by"):
        Pool(frame, labels=other)


def test_a_mapping_labels_a_part_of_the_pool_and_knows_no_strangers():
    pool = Pool(np.zeros((6, 1)), labels={"004.png": "dog", "000.png": "cat"}, ids=NAMES)
    assert pool.labelled_ids.tolist() == ["000.png", "004.png"]
    assert [pool.classes[label] for label in pool.labels_of(["004.png", "000.png"])] == ["dog", "cat"]
    assert Pool(np.zeros((6, 1)), labels={5: 1, 0: 0}).labelled_ids.tolist() == [0, 5]
    pool.label(["001.png", "002.png"], {"002.png": "cat", "001.png": "dog"})
    assert [pool.classes[label] for label in pool.labels_of(["001.png", "002.png"])] == ["dog", "cat"]
    with pytest.raises(ValueError, match=r"labels: id 'a.png' \(1 in all\) is not among the inputs"):
        Pool(np.zeros((6, 1)), labels={"a.png": "dog"}, ids=NAMES)


def test_a_table_whose_ids_are_a_column_takes_labels_named_as_its_rows_are():
    pandas = pytest.importorskip("pandas", reason="needs the extra tables")
    frame = pandas.DataFrame({"wide": np.arange(3.0), "stone": ["x", "y", "z"]}, index=[30, 10, 20])
    by_row = pandas.Series([2, 0, 1], index=[20, 30, 10])
    pool = Pool(frame, labels=by_row, ids="stone")
    assert pool.labels_of(["x", "y", "z"]).tolist() == [0, 1, 2]
    assert Pool(frame, labels=by_row.set_axis(["z", "x", "y"]), ids="stone").labels_of(["x", "y"]).tolist() == [0, 1]
    counted = Pool(frame.reset_index(drop=True), labels=pandas.Series([2, 0, 1], index=[2, 0, 1]))
    assert counted.labels_of([0, 1, 2]).tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match=r"labels.to_dict\(\) to go by id, or labels.to_numpy\(\) to go by position"):
        Pool(np.zeros((2, 1)), ids=[1, 0], labels=pandas.Series([0, 1]))


def test_labels_may_be_a_file_of_ids_and_labels(tmp_path):
    truth = tmp_path / "truth.csv"
    truth.write_text("file,label\n" + "".join(f"{name},{kind}\n" for name, kind in zip(NAMES, SPECIES, strict=True)))
    for labels in (truth, str(truth)):
        pool = Pool(np.zeros((6, 1)), labels=labels, ids=NAMES[::-1])
        assert [pool.classes[label] for label in pool.labels_of(NAMES)] == SPECIES
        assert repr(pool) == "Pool(6 inputs: 6 labelled by id, 0 ignored)"
    (tmp_path / "part.tsv").write_text("id\tkind\n007\tdog\n")
    part = Pool(np.zeros((2, 1)), labels=tmp_path / "part.tsv", ids=["007", "008"])
    assert part.labelled_ids.tolist() == ["007"]
    truth.write_text("file,label\n000.png,cat\n000.png,dog\n")
    with pytest.raises(ValueError, match=r"column 'file': '000.png' appears twice \(rows 1 and 2\)"):
        Pool(np.zeros((6, 1)), labels=truth, ids=NAMES)
    truth.write_text("file,label,who\n000.png,cat,ann\n")
    with pytest.raises(ValueError, match=r"truth.csv has the columns file, label, who; keep two, of ids and of labels"):
        Pool(np.zeros((6, 1)), labels=truth, ids=NAMES)
    with pytest.raises(
        ValueError, match=r"labels: 'trth.csv' names a column, but the inputs are no table, nor is it a"
    ):
        Pool(np.zeros((6, 1)), labels="trth.csv", ids=NAMES)


def test_a_folder_of_pictures_takes_labels_by_the_names_of_its_files(tmp_path):
    image = pytest.importorskip("PIL.Image")
    (tmp_path / "images").mkdir()
    for name in NAMES:
        image.new("RGB", (2, 2)).save(tmp_path / "images" / name)
    mixed = {name: SPECIES[place] for place, name in reversed(list(enumerate(NAMES)))}
    truth = tmp_path / "truth.csv"
    truth.write_text("file,label\n" + "".join(f"{name},{kind}\n" for name, kind in mixed.items()))
    pandas = pytest.importorskip("pandas", reason="needs the extra tables")
    for labels in (mixed, str(truth), pandas.Series(mixed), pandas.read_csv(truth)):
        pool = Pool(tmp_path / "images", labels=labels)
        assert [pool.classes[label] for label in pool.labels_of(NAMES)] == SPECIES
    read = read_examples(tmp_path / "images", labels=str(truth))  # what commands read
    assert [read.classes[label] for label in read.labels] == SPECIES
    assert read.masks["ids"].tolist() == NAMES
    with pytest.raises(ValueError, match=r"labels: a folder has no columns, and there is no file 'trth.csv'"):
        Pool(tmp_path / "images", labels="trth.csv")


@pytest.mark.parametrize("kind", [str, Path, "column"])
def test_a_list_of_names_of_files_is_no_list_of_texts(tmp_path, kind):
    for name in NAMES:
        (tmp_path / name).write_bytes(b"")
    listed = [str(tmp_path / name) for name in NAMES]
    if kind == "column":
        listed = pytest.importorskip("pandas", reason="needs the extra tables").Series(listed)
    with pytest.raises(ValueError, match=r"inputs: '.*000.png' is the name of a file; pass the folder, or what"):
        Pool(listed if kind == "column" else [kind(name) for name in listed])
    assert len(Pool(["no file.png", "a text"])) == 2
