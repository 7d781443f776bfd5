"""Data sets from the web, tried against a server on this machine: resumed, checked, converted, kept all or nothing."""

import errno
import hashlib
import io
import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import numpy as np
import pytest

import natsel.data.download
from made_originals import ORIGINALS, cifar_archive, idx_file, lines, numbers
from natsel.data import AbsentData, catalogue, fetch, load
from natsel.data.digests import digest
from natsel.data.download import UnreachableFile, download
from natsel.data.fetching import is_as_published
from natsel.data.load import open_set
from natsel.data.origins import ORIGINS
from natsel.data.stored import STORED

BYTES = np.random.default_rng(0).integers(0, 256, 200_000, dtype=np.uint8).tobytes()


@dataclass
class Site:
    """Files on a server; `cuts` are the bytes after which each of the next answers breaks off."""

    files: dict[str, bytes]
    ranges: bool = True
    cuts: list[int] = field(default_factory=list)
    shift: int = 0
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    url: str = ""

    def answer(self, handler):
        name, wanted = handler.path.lstrip("/"), handler.headers.get("Range")
        self.asked.append((name, wanted))
        content = self.files.get(name)
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.ranges else 0
        if content is None or start >= len(content):
            handler.send_error(404 if content is None else 416)
            return
        handler.send_response(206 if start else 200)
        handler.send_header("Content-Length", str(len(content) - start))
        if start:
            handler.send_header("Content-Range", f"bytes {start + self.shift}-{len(content) - 1}/{len(content)}")
        handler.end_headers()
        handler.wfile.write(content[start : start + self.cuts.pop(0)] if self.cuts else content[start:])
        handler.close_connection = True


@contextmanager
def served(site):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            site.answer(self)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    site.url = f"http://127.0.0.1:{server.server_port}/"
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def site():
    with served(Site({"f.bin": BYTES})) as running:
        yield running


def files_in(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def known(monkeypatch, name, files, contents):
    """Let the table hold the checksums of these files and the digest of these arrays."""
    sums = {file: hashlib.md5(content).hexdigest() for file, content in files.items()}
    origin = ORIGINS[name]
    changed = replace(origin, digest=digest(contents), download=replace(origin.download, files=sums))
    monkeypatch.setitem(ORIGINS, name, changed)


# One file


def test_a_connection_that_breaks_off_is_taken_up_where_it_stopped(site, tmp_path):
    site.cuts = [70_000, 50_000]
    download(f"{site.url}f.bin", tmp_path / "f.bin", hashlib.md5(BYTES).hexdigest())
    assert (tmp_path / "f.bin").read_bytes() == BYTES
    assert [wanted for _, wanted in site.asked] == [None, "bytes=70000-", "bytes=120000-"]
    assert files_in(tmp_path) == ["f.bin"]


def test_a_later_call_goes_on_where_an_earlier_one_stopped(site, tmp_path):
    site.cuts = [70_000, 0]
    with pytest.raises(UnreachableFile, match=r"ended after 70,000 bytes; they are kept, call again"):
        download(f"{site.url}f.bin", tmp_path / "f.bin")
    assert files_in(tmp_path) == ["f.bin.part"]
    site.asked.clear()
    download(f"{site.url}f.bin", tmp_path / "f.bin")
    assert site.asked == [("f.bin", "bytes=70000-")]
    assert (tmp_path / "f.bin").read_bytes() == BYTES


def test_a_server_without_ranges_sends_all_of_it_again(site, tmp_path):
    site.ranges, site.cuts = False, [70_000]
    download(f"{site.url}f.bin", tmp_path / "f.bin")
    assert [wanted for _, wanted in site.asked] == [None, "bytes=70000-"]
    assert (tmp_path / "f.bin").read_bytes() == BYTES


def test_what_is_here_of_another_file_is_thrown_away(site, tmp_path):
    (tmp_path / "f.bin.part").write_bytes(BYTES + b"more")  # the server has nothing after that
    download(f"{site.url}f.bin", tmp_path / "f.bin")
    assert (tmp_path / "f.bin").read_bytes() == BYTES
    (tmp_path / "f.bin.part").write_bytes(BYTES[:10])
    site.shift = 5
    with pytest.raises(UnreachableFile, match="sends another part of the file"):
        download(f"{site.url}f.bin", tmp_path / "f.bin")
    assert files_in(tmp_path) == ["f.bin"]


def test_a_wrong_checksum_is_refused_and_leaves_nothing(site, tmp_path):
    with pytest.raises(ValueError, match=r"gave a file with the MD5 \w{32} where 00 is published; try later, or"):
        download(f"{site.url}f.bin", tmp_path / "f.bin", "00")
    assert files_in(tmp_path) == []


def test_what_cannot_be_had_is_said_in_one_sentence(site, tmp_path, monkeypatch):
    with pytest.raises(UnreachableFile, match=r"^url: \S+/absent cannot be had \(the server answers 404 Not Found\);"):
        download(f"{site.url}absent", tmp_path / "absent")
    with pytest.raises(UnreachableFile, match=r"cannot be had \(.*refused\); check the network, or name another"):
        download("http://127.0.0.1:9/f.bin", tmp_path / "f.bin")
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1000))
    with pytest.raises(
        ValueError, match=r"^folder: the disk of \S+ has less than the 0 MB that are to come; free some"
    ):
        download(f"{site.url}f.bin", tmp_path / "f.bin")
    assert files_in(tmp_path) == []


def test_a_server_that_goes_on_and_on_is_left_and_the_next_one_asked(site, tmp_path, monkeypatch):
    monkeypatch.setattr(natsel.data.download, "_LARGEST", 150_000)
    with pytest.raises(UnreachableFile, match=r"f\.bin cannot be had \(it sends more than 150,000 bytes, which no"):
        download(f"{site.url}f.bin", tmp_path / "f.bin")
    assert files_in(tmp_path) == []


def test_a_length_that_is_no_number_is_not_known(tmp_path, monkeypatch):
    class Answer(io.BytesIO):
        status, headers = 200, {"Content-Length": "abc"}

    monkeypatch.setattr(natsel.data.download, "urlopen", lambda *_, **__: Answer(BYTES))
    download("http://127.0.0.1/f.bin", tmp_path / "f.bin")
    assert (tmp_path / "f.bin").read_bytes() == BYTES


# Data sets


@pytest.mark.parametrize("made", ORIGINALS, ids=lambda made: made.name)
def test_original_formats_become_what_load_reads(made, site, tmp_path):
    site.files = made.files
    paths = fetch(made.name, url=site.url, folder=tmp_path, check=False)
    assert files_in(tmp_path) == sorted(path.name for path in paths)
    for file, arrays in ORIGINS[made.name].files.items():
        opened = open_set(made.name, tmp_path)[file]
        for key, said in arrays.items():
            dtype = opened.read(key).dtype
            assert said.split()[0] == ("text" if dtype.kind == "U" else dtype.name), (file, key)
        assert set(opened.shapes) == set(arrays)
    found = load(made.name, folder=tmp_path)
    parts = [part for part in (found.train, found.validation, found.test) if part is not None]
    rows = sorted((np.asarray(x).tolist(), y) for part in parts for x, y in zip(*part, strict=True))
    expected = sorted((np.asarray(x).tolist(), y) for x, y in made.rows)
    assert [x for x, _ in rows] == [x for x, _ in expected]
    np.testing.assert_allclose([y for _, y in rows], [y for _, y in expected], rtol=1e-6)
    assert found.train.classes == made.classes


def text_lines(arrays, part):
    return zip(arrays.read(f"text_{part}").tobytes().decode().split("\n"), arrays.read(f"y_{part}"), strict=True)


def as_published(name, arrays):
    """The original files of a set, written from its arrays."""
    if name == "sst2":
        parts = {"train": "stsa.binary.train", "val": "stsa.binary.dev", "test": "stsa.binary.test"}
        return {file: lines(*(f"{y} {x}" for x, y in text_lines(arrays, part))) for part, file in parts.items()}
    if name == "cola":
        parts = {"train": "in_domain_train", "val": "in_domain_dev", "test_ood": "out_of_domain_dev"}
        texts = {file: [f"s\t{y}\t\t{x}" for x, y in text_lines(arrays, part)] for part, file in parts.items()}
        return {f"{file}.tsv": lines(*text) for file, text in texts.items()}
    if name == "clinc150":
        intents, domains = [*arrays.read("intents").tolist(), "oos"], arrays.read("domains").tolist()
        pairs = {}
        for part in ("train", "val", "test"):
            rows = [[x, intents[y]] for x, y in text_lines(arrays, part)]
            pairs |= {part: [row for row in rows if row[1] != "oos"]}
            pairs |= {f"oos_{part}": [row for row in rows if row[1] == "oos"]}
        homes = arrays.read("domain_of_intent")
        held = {domain: [intents[n] for n in np.flatnonzero(homes == k)] for k, domain in enumerate(domains)}
        return {"data_full.json": json.dumps(pairs).encode(), "domains.json": json.dumps(held).encode()}
    table = np.column_stack([arrays.read("yacht_x"), arrays.read("yacht_y")])
    masks = np.unpackbits(arrays.read("yacht_test_mask"), axis=1)[:, : len(table)]
    return {
        "data.txt": numbers(table),
        "index_features.txt": lines(*map(str, range(table.shape[1] - 1))),
        "index_target.txt": lines(str(table.shape[1] - 1)),
        **{f"index_test_{k}.txt": lines(*map(str, np.flatnonzero(mask))) for k, mask in enumerate(masks)},
    }


def here(names):
    """The names of data sets for tests that read each from its files."""
    return [pytest.param(name, marks=pytest.mark.needs_data(name)) for name in names]


@pytest.mark.parametrize("name", here(["sst2", "cola", "clinc150", "uci-yacht"]))
def test_whole_sets_come_back_with_the_digest_of_the_table(name, site, tmp_path):
    (arrays,) = open_set(name).values()
    site.files = as_published(name, arrays)
    fetch(name, url=site.url, folder=tmp_path)
    assert is_as_published(name, tmp_path)


def test_a_set_is_fetched_checked_and_kept_where_load_looks_for_it(site, tmp_path, monkeypatch):
    monkeypatch.setenv("NATSEL_CACHE", str(tmp_path))
    monkeypatch.setattr("natsel.data.folders.data_folders", lambda folder=None: (tmp_path / "data",))
    images = np.random.default_rng(1).integers(0, 256, (6, 4, 3, 32, 32), dtype=np.uint8)
    site.files = {"cifar-10-binary.tar.gz": cifar_archive(images)}
    names = [f"cifar10_{part}" for part in ("train1", "train2", "train3", "train4", "train5", "test")]
    assert catalogue()["cifar10"].paths is None

    with pytest.raises(ValueError, match=r"gave a file with the MD5 \w+ where c32a1d4ab5d03f1284b67883e8d87530"):
        fetch("cifar10", url=site.url)
    assert files_in(tmp_path) == []

    known(monkeypatch, "cifar10", site.files, {})
    with pytest.raises(ValueError, match=r"is not the cifar10 that natsel's results were made with \(SHA-256 "):
        fetch("cifar10", url=site.url)
    assert files_in(tmp_path) == []

    paths = fetch("cifar10", url=f"{site.url}cifar-10-binary.tar.gz", check=False)
    assert [path.stem for path in paths] == names
    assert not is_as_published("cifar10")
    held = {file: {key: arrays.read(key) for key in ("x_delta", "y")} for file, arrays in open_set("cifar10").items()}
    known(monkeypatch, "cifar10", site.files, held)
    assert is_as_published("cifar10")
    assert catalogue()["cifar10"].paths == paths

    photographs = load("cifar10")
    np.testing.assert_array_equal(photographs.train.inputs, images[:5].reshape(20, 3, 32, 32).transpose(0, 2, 3, 1))
    np.testing.assert_array_equal(photographs.test.inputs, images[5].transpose(0, 2, 3, 1))
    asked = len(site.asked)
    assert fetch("cifar10", url=site.url) == paths
    assert len(site.asked) == asked, "a set that is here is not fetched"
    for path in paths:
        path.unlink()
    assert fetch("cifar10", url=site.url) == paths


def test_the_next_address_is_tried_and_files_of_an_earlier_call_are_kept(site, tmp_path, monkeypatch):
    images = np.arange(2 * 28 * 28, dtype=np.uint32).reshape(2, 28, 28).astype(np.uint8)
    whole = {
        "t10k-images-idx3-ubyte.gz": idx_file(images),
        "t10k-labels-idx1-ubyte.gz": idx_file(np.array([3, 1], np.uint8)),
    }
    known(monkeypatch, "kmnist", whole, {"kmnist_test": {"x": images, "y": np.array([3, 1], np.uint8)}})
    site.files = dict(list(whole.items())[:1])
    with served(Site({})) as empty:
        places = replace(ORIGINS["kmnist"].download, addresses=(empty.url, site.url))
        monkeypatch.setitem(ORIGINS, "kmnist", replace(ORIGINS["kmnist"], download=places))
        with pytest.raises(UnreachableFile, match=rf"{site.url}t10k-labels-idx1-ubyte\.gz cannot be had"):
            fetch("kmnist", folder=tmp_path)
        assert files_in(tmp_path) == ["downloads/kmnist/t10k-images-idx3-ubyte.gz"]
        site.files, site.asked = whole, []
        (path,) = fetch("kmnist", folder=tmp_path)
    assert [name for name, _ in site.asked] == ["t10k-labels-idx1-ubyte.gz"]
    assert files_in(tmp_path) == [path.name] == ["kmnist_test.npz"]


def test_a_folder_on_this_machine_is_a_place_too(tmp_path):
    made = next(made for made in ORIGINALS if made.name == "trec")
    for name, content in made.files.items():
        (tmp_path / name).write_bytes(content)
    (path,) = fetch("trec", url=str(tmp_path), folder=tmp_path / "kept", check=False)
    assert path == tmp_path / "kept" / "trec.npz"
    with pytest.raises(ValueError, match=r"^url: there is no file or folder \S+nowhere; check it, or give an address"):
        fetch("trec", url=str(tmp_path / "nowhere"), folder=tmp_path / "other")
    with pytest.raises(ValueError, match=r"^url: expected an address that begins with http, https or file, found ftp:"):
        fetch("trec", url="ftp://example.org/", folder=tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_something_else_in_place_of_the_data_is_refused_and_leaves_nothing(site, tmp_path, monkeypatch):
    page = b"<html>Please log in to this network.</html>"
    for name in ("trec", "uci-letter", "clinc150", "notmnist", "reg-protein"):
        site.files = dict.fromkeys(ORIGINS[name].download.files, page)
        with pytest.raises(ValueError, match=rf"^name: what came from {site.url} is not {name} as its home has it \("):
            fetch(name, url=site.url, folder=tmp_path)
        assert files_in(tmp_path) == []

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    made = next(made for made in ORIGINALS if made.name == "trec")
    site.files = made.files
    monkeypatch.setattr("numpy.savez_compressed", full)
    with pytest.raises(ValueError, match=rf"^folder: the disk of {tmp_path} is full; free some space and call again"):
        fetch("trec", url=site.url, folder=tmp_path, check=False)
    assert not list(tmp_path.glob("*.npz"))


def test_names_that_cannot_be_fetched(tmp_path):
    with pytest.raises(ValueError, match=r"no data set 'minst'; did you mean 'mnist'"):
        fetch("minst")
    with pytest.raises(ValueError, match=r"^name: iris is always there; natsel\.data\.load\(\"iris\"\) gives it"):
        fetch("iris")


def test_load_never_uses_the_network_and_names_the_command_that_does(tmp_path, monkeypatch):
    monkeypatch.setattr(natsel.data.download, "urlopen", None)
    for name in STORED:
        with pytest.raises(AbsentData, match=rf"; fetch it with `natsel data get {name}`, or set NATSEL_DATA to the"):
            load(name, folder=tmp_path)


# The table


def test_the_table_of_origins_is_whole():
    assert set(ORIGINS) == set(catalogue())
    for name, origin in ORIGINS.items():
        assert origin.licence, name
        assert origin.home.startswith(("http", "natsel.data.")), name
        assert origin.rows > 0, name
        if name in STORED:
            assert len(origin.digest) == 64, name
            assert origin.download.files, name
            assert all(address.startswith("http") and address.endswith("/") for address in origin.download.addresses)
            assert all(md5 is None or len(md5) == 32 for md5 in origin.download.files.values())
        else:
            assert not origin.files, name
            found = load(name)
            assert origin.rows == len(found.train) + len(found.test), name


LARGE = [name for name in STORED if name.startswith("reg-") or name.endswith("mnist") or name in ("fashion", "cifar10")]


@pytest.mark.parametrize("name", here(name for name in STORED if name not in LARGE))
def test_what_is_on_this_machine_is_what_the_table_says(name):
    entry = catalogue()[name]
    for file, arrays in entry.origin.files.items():
        opened = open_set(name)[file]
        for key, said in arrays.items():
            array = opened.read(key)
            kind = "text" if array.dtype.kind == "U" else array.dtype.name
            assert f"{kind} {list(array.shape)}" == said, key
    found = load(name)
    assert entry.origin.rows == len(found.train) + len(found.test) + len(found.validation or ())
    assert is_as_published(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", here(LARGE))
def test_what_is_large_is_as_published_too(name):
    assert is_as_published(name)
