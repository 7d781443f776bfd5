"""Inputs: bytes of pictures come in [0, 1], other numbers keep their value, and what is no number is refused."""

import re
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from natsel.models.networks.inputs import as_device, as_inputs


@given(arrays(np.uint8, (3, 2, 2)))
def test_bytes_of_pictures_are_scaled_to_one(pixels):
    found = as_inputs(pixels, "cpu")
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found.numpy(), pixels / 255, rtol=1e-6)
    assert torch.equal(found, as_inputs(torch.from_numpy(pixels), "cpu"))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.int64, np.uint16, np.bool_, ">f4"])
def test_other_numbers_keep_their_value(dtype):
    values = np.array([[0, 1], [1, 3]]).astype(dtype)
    found = as_inputs(values, "cpu")
    assert found.dtype == torch.float32
    np.testing.assert_array_equal(found.numpy(), values.astype(np.float32))


def test_memory_maps_and_views_come_without_warnings_and_are_not_written_to(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(6, dtype=np.float32).reshape(3, 2))
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = as_inputs(mapped, "cpu")
            backwards = as_inputs(mapped[::-1], "cpu")
    finally:
        torch.set_warn_always(False)
    assert found.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert backwards.tolist() == [[4, 5], [2, 3], [0, 1]]
    found += 1
    assert mapped[0, 0] == 0


def test_scaling_leaves_the_caller_s_bytes_alone():
    pixels = torch.full((2, 2, 2), 255, dtype=torch.uint8)
    as_inputs(pixels, "cpu")
    assert bool((pixels == 255).all())


def test_gradients_do_not_travel_along():
    assert not as_inputs(torch.ones(2, 2, requires_grad=True), "cpu").requires_grad


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        (np.array(["a", "b"], dtype=object), "found texts; use natsel.models.TextModel"),
        (np.array(["a", "b"]), "found texts; use natsel.models.TextModel"),
        (np.array([{}, {}]), "found an array of object; pass an array of numbers"),
        (np.array([[0.0], [np.nan]]), "found NaN or infinity in row 1"),
        (torch.tensor([[np.inf]]), "found NaN or infinity in row 0"),
        (np.array([1j]), "found complex numbers"),
    ],
)
def test_what_no_network_takes_is_refused(inputs, said):
    with pytest.raises(ValueError, match=f"^inputs: .*{re.escape(said)}"):
        as_inputs(inputs, "cpu")


@given(st.sampled_from(["cpu", "meta"]))
def test_a_named_device_is_the_one_taken(name):
    assert as_device(name).type == name
