"""Files that would unpack to more than memory holds, or than their headers say, are refused before they are read."""

import io
import zipfile

import numpy as np
import pytest

from natsel import containers
from natsel.containers import open_arrays, read_npy


@pytest.fixture
def unread(monkeypatch):
    """No array may be read."""

    def read_array(*_, **__):
        raise AssertionError("the array was read")

    monkeypatch.setattr(np.lib.format, "read_array", read_array)


def written(path, shape, content, compression=zipfile.ZIP_DEFLATED, dtype="<f8"):
    """A member whose header announces a shape, whatever its content is."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": dtype, "fortran_order": False, "shape": shape})
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("x.npy", header.getvalue() + content)
    return path


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_small_file_that_unpacks_to_much_is_refused_by_its_header(tmp_path, monkeypatch, unread, compression):
    monkeypatch.setattr(containers, "_LARGE", 1 << 20)
    written(tmp_path / "bomb.npz", (1000, 1000), bytes(8_000_000), compression)
    arrays = open_arrays(tmp_path / "bomb.npz")
    assert (tmp_path / "bomb.npz").stat().st_size < 20_000
    assert arrays.shapes == {"x": (1000, 1000)}
    with pytest.raises(ValueError, match=r"holds 8 MiB in x packed into 0.0 MiB.*numpy\.savez"):
        arrays.read("x")


def test_more_than_the_machine_has_is_refused(tmp_path, monkeypatch, unread):
    monkeypatch.setattr(containers, "_available", lambda: 7999)
    np.savez(tmp_path / "a.npz", x=np.arange(1000.0))
    np.save(tmp_path / "a.npy", np.arange(1000.0))
    with pytest.raises(ValueError, match=r"MiB in x and .* of memory are free; read it on a larger machine"):
        open_arrays(tmp_path / "a.npz").read("x")
    with pytest.raises(ValueError, match=r"in a\.npy and .* of memory are free"):
        read_npy(tmp_path / "a.npy")


def test_a_long_text_is_refused_when_the_file_is_opened(tmp_path, monkeypatch, unread):
    monkeypatch.setattr(containers, "_LARGE", 1 << 20)
    written(tmp_path / "a.npz", (), bytes(4 << 20), dtype=f"<U{1 << 20}")
    with pytest.raises(ValueError, match="holds 4 MiB in x packed into"):
        open_arrays(tmp_path / "a.npz")


@pytest.mark.parametrize(("count", "says"), [(9, "are 80 bytes, found 72"), (11, "x goes on after its numbers")])
def test_a_header_that_lies_is_noticed_before_reading(tmp_path, unread, count, says):
    arrays = open_arrays(written(tmp_path / "a.npz", (10,), bytes(8 * count)))
    with pytest.raises(ValueError, match=f"is damaged .*{says}.*write it again"):
        arrays.read("x")


@pytest.mark.parametrize("shape", [(-1, 5), (1 << 62, 1 << 62)])
def test_impossible_shapes_are_damage(tmp_path, unread, shape):
    with pytest.raises(ValueError, match="is damaged"):
        open_arrays(written(tmp_path / "a.npz", shape, bytes(40))).read("x")
    with zipfile.ZipFile(tmp_path / "a.npz") as archive:
        (tmp_path / "a.npy").write_bytes(archive.read("x.npy"))
    with pytest.raises(ValueError, match="is damaged"):
        read_npy(tmp_path / "a.npy")


def test_honest_files_are_read(tmp_path, monkeypatch):
    """Large ones, well packed ones, and a second array behind the first of a .npy file."""
    monkeypatch.setattr(containers, "_LARGE", 1 << 20)
    numbers = np.random.default_rng(0).integers(0, 3, (1000, 200)).astype(float)
    np.savez_compressed(tmp_path / "a.npz", x=numbers, empty=np.zeros((0, 3)), one=np.float64(2))
    arrays = open_arrays(tmp_path / "a.npz")
    assert np.array_equal(arrays.read("x"), numbers)
    assert arrays.read("empty").shape == (0, 3)
    assert arrays.read("one") == 2
    with (tmp_path / "a.npy").open("wb") as stream:
        np.save(stream, numbers)
        np.save(stream, numbers)
    assert np.array_equal(read_npy(tmp_path / "a.npy"), numbers)
    room = containers._available()
    assert room is None or room > 1 << 20
