"""Arrays in: whatever holds numbers is read, shared where possible, never written to and never warned about."""

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from natsel.beliefs.arrays import as_indices, as_integers, as_tensor

CPU = torch.device("cpu")
NUMBERS = np.array([[0.5, 0.25, 0.25], [0.125, 0.375, 0.5]])


@pytest.fixture(autouse=True)
def no_warnings():
    """A warning is a defect; torch repeats its own only when told to."""
    torch.set_warn_always(True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
    torch.set_warn_always(False)


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


READABLE = {
    "nested list": NUMBERS.tolist(),
    "tuple of arrays": tuple(NUMBERS),
    "numpy": NUMBERS,
    "numpy float32": NUMBERS.astype(np.float32),
    "numpy float16": NUMBERS.astype(np.float16),
    "numpy big-endian": NUMBERS.astype(">f8"),
    "numpy big-endian float32": NUMBERS.astype(">f4"),
    "numpy read-only": read_only(NUMBERS),
    "numpy negative strides": NUMBERS[::-1, ::-1].copy()[::-1, ::-1],
    "numpy fortran order": np.asfortranarray(NUMBERS),
    "numpy strided": np.repeat(NUMBERS, 2, axis=1)[:, ::2],
    "torch float64": torch.from_numpy(NUMBERS),
    "torch float32": torch.from_numpy(NUMBERS).float(),
    "torch half": torch.from_numpy(NUMBERS).half(),
    "torch bfloat16": torch.from_numpy(NUMBERS).bfloat16(),
    "torch transposed": torch.from_numpy(NUMBERS).T.contiguous().T,
}


@pytest.mark.parametrize("array", READABLE.values(), ids=READABLE.keys())
def test_every_kind_of_array_gives_the_same_numbers(array):
    tensor = as_tensor(array, "probs")
    assert torch.equal(tensor.double(), torch.from_numpy(NUMBERS))
    assert tensor.dtype in (torch.float32, torch.float64)


@pytest.mark.parametrize(
    ("array", "dtype"),
    [
        (NUMBERS, torch.float64),
        (NUMBERS.astype(np.float32), torch.float32),
        (NUMBERS.astype(np.float16), torch.float32),
        (torch.zeros(2, dtype=torch.bfloat16), torch.float32),
        (torch.zeros(2, dtype=torch.int32), torch.float64),
        (np.zeros(2, dtype=np.uint8), torch.float64),
        (np.zeros(2, dtype=bool), torch.float64),
        ([0, 1], torch.float64),
    ],
)
def test_precision_kept_half_widened_and_integers_doubled(array, dtype):
    assert as_tensor(array, "x").dtype == dtype


def test_memory_is_shared_where_it_can_be():
    numbers = NUMBERS.copy()
    tensor = torch.from_numpy(numbers)
    assert as_tensor(numbers, "x").data_ptr() == tensor.data_ptr() == as_tensor(tensor, "x").data_ptr()


def test_a_read_only_array_is_copied():
    numbers = read_only(NUMBERS)
    tensor = as_tensor(numbers, "x")
    tensor.zero_()
    assert np.array_equal(numbers, NUMBERS)


def test_gradients_are_left_behind():
    tensor = as_tensor(torch.ones(2, requires_grad=True) * 2, "x")
    assert not tensor.requires_grad


class Foreign:
    """An array of another library: it speaks dlpack, or only NumPy."""

    def __init__(self, failure=None):
        self.failure = failure
        self.asked = 0

    def __dlpack__(self, **options):
        self.asked += 1
        if self.failure:
            raise self.failure
        return torch.from_numpy(NUMBERS).__dlpack__()

    def __dlpack_device__(self):
        return torch.from_numpy(NUMBERS).__dlpack_device__()

    def __array__(self, dtype=None, copy=None):
        return NUMBERS


@pytest.mark.parametrize("failure", [None, RuntimeError("no"), BufferError("read-only"), TypeError("bool")])
def test_foreign_arrays_come_by_dlpack_or_else_by_numpy(failure):
    array = Foreign(failure)
    assert torch.equal(as_tensor(array, "x"), torch.from_numpy(NUMBERS))
    assert array.asked >= 1


def test_jax_arrays():
    jax = pytest.importorskip("jax")
    assert torch.equal(as_tensor(jax.numpy.asarray(NUMBERS), "x").double(), torch.from_numpy(NUMBERS))
    assert as_tensor(jax.numpy.asarray(NUMBERS, dtype="bfloat16"), "x").dtype == torch.float32


def test_pandas_frames():
    pandas = pytest.importorskip("pandas")
    assert torch.equal(as_tensor(pandas.DataFrame(NUMBERS), "x"), torch.from_numpy(NUMBERS))


@pytest.mark.parametrize(
    ("array", "found"),
    [
        ([[1.0, 2.0], [3.0]], "equal length"),
        ([["a", "b"]], "expected numbers"),
        ([[None, 1.0]], "expected numbers"),
        (np.array([b"x"]), "expected numbers"),
        ([[1 + 2j]], "expected real numbers"),
        (torch.zeros(2, dtype=torch.complex64), "expected real numbers"),
        (np.zeros(2, dtype="M8[s]"), "expected numbers"),
    ],
    ids=["ragged", "text", "None", "bytes", "complex", "complex torch", "dates"],
)
def test_what_holds_no_numbers_is_refused_by_name(array, found):
    with pytest.raises(ValueError, match=rf"^variance_N_K: .*{found}"):
        as_tensor(array, "variance_N_K")


@pytest.mark.parametrize(
    ("tensor", "found"),
    [
        (torch.eye(2).to_sparse(), "expected a dense tensor, found the layout torch.sparse_coo; call to_dense"),
        (torch.eye(2, device="meta"), "found a meta tensor, which holds no numbers; load them"),
        (torch.nested.nested_tensor([torch.ones(1), torch.ones(2)]), "found a nested tensor; pass rows of equal"),
    ],
    ids=["sparse", "meta", "nested"],
)
def test_tensors_without_a_number_for_each_entry_are_refused(tensor, found):
    for read in (as_tensor, as_integers):
        with pytest.raises(ValueError, match=rf"^features_N_D: {found}"):
            read(tensor, "features_N_D")


def test_quantised_tensors_are_refused():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch announces that such tensors will go
        quantised = torch.quantize_per_tensor(torch.eye(2), 0.1, 0, torch.quint8)
    with pytest.raises(ValueError, match=r"^features_N_D: found quantised numbers \(torch.quint8\); call dequantize"):
        as_tensor(quantised, "features_N_D")


HUGE = 1 << 63
BEYOND = {
    "numpy uint64": np.array([1, HUGE + 7], dtype=np.uint64),
    "numpy big-endian": np.array([1, HUGE + 7], dtype=">u8"),
    "torch uint64": torch.tensor([1, HUGE + 7], dtype=torch.uint64),
    "list": [HUGE, HUGE + 7],
    "list read as floats": [1, HUGE + 7],
    "tuple of NumPy's": (np.uint64(HUGE + 7), 3),
    "list read as objects": [1, 1 << 70],
    "objects": np.array([1, 1 << 70], dtype=object),
    "below": [0, -HUGE - 1],
    "one": HUGE,
}


@pytest.mark.parametrize("numbers", BEYOND.values(), ids=BEYOND.keys())
def test_integers_beyond_64_bits_are_refused_and_never_wrap_around(numbers):
    with pytest.raises(ValueError, match=r"^ids_N: integers must lie in -2\*\*63\.\.2\*\*63-1 \(found -?\d{19,}\);"):
        as_integers(numbers, "ids_N")


@pytest.mark.parametrize("dtype", [np.uint64, np.ulonglong, np.longlong, np.uint32])
def test_integers_within_64_bits_are_read_whatever_their_type(dtype):
    most = min(np.iinfo(dtype).max, HUGE - 1)
    assert as_integers(np.array([0, most], dtype=dtype), "ids_N").tolist() == [0, most]


INDEX_FORMS = {
    "list": list,
    "tuple": tuple,
    "int64": np.array,
    "int32": lambda index: np.array(index, dtype=np.int32),
    "big-endian": lambda index: np.array(index, dtype=">i8"),
    "read-only": lambda index: read_only(np.array(index)),
    "reversed view": lambda index: np.array(index[::-1])[::-1],
    "torch": torch.tensor,
    "torch int32": lambda index: torch.tensor(index, dtype=torch.int32),
}


@pytest.mark.parametrize("form", INDEX_FORMS.values(), ids=INDEX_FORMS.keys())
def test_integers_of_every_form_index_alike(form):
    found = as_indices(form([3, -1, 0, 3]), 5, CPU)
    assert found.tolist() == [3, 4, 0, 3]
    assert found.dtype == torch.int64


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "u8"])
def test_unsigned_integers_index_too(dtype):
    assert as_indices(np.array([3, 0], dtype=dtype), 5, CPU).tolist() == [3, 0]


@settings(deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=20))
def test_masks_index_where_they_are_true(mask):
    expected = [position for position, here in enumerate(mask) if here]
    for form in (mask, np.array(mask), torch.tensor(mask)):
        assert as_indices(form, len(mask), CPU).tolist() == expected


def test_one_number_and_no_numbers():
    assert as_indices(2, 5, CPU).tolist() == [2]
    assert as_indices(np.int64(-5), 5, CPU).tolist() == [0]
    for empty in ([], (), np.array([]), np.array([], dtype=np.int64), torch.tensor([])):
        found = as_indices(empty, 5, CPU)
        assert found.shape == (0,)
        assert found.dtype == torch.int64


@pytest.mark.parametrize(
    "index", [[5], [-6], [0, 7], 5, torch.tensor([-6]), np.array([(1 << 64) - 1], dtype=np.uint64), (1 << 64) - 1]
)
def test_positions_beyond_the_points_are_refused(index):
    with pytest.raises(IndexError, match=r"^index: positions must lie in 0\.\.4, found "):
        as_indices(index, 5, CPU)


@pytest.mark.parametrize("index", [[0.0, 1.0], np.array([1.5]), [[0, 1]], torch.zeros(2, 2, dtype=torch.int64)])
def test_floats_and_tables_are_no_index(index):
    with pytest.raises(IndexError, match=r"^index: expected integers or a mask"):
        as_indices(index, 5, CPU)


@pytest.mark.parametrize("mask", [[True], [True] * 6, torch.ones(5, 1, dtype=torch.bool)])
def test_a_mask_must_fit(mask):
    with pytest.raises(IndexError, match=r"^index: a mask over 5 points must have 5 entries"):
        as_indices(mask, 5, CPU)
