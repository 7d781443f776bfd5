"""Beliefs survive files bit for bit, foreign predictions are read as what they are said to be, refusals are kind."""

import os
import pickle
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from natsel import Belief, CategoricalSamples, GaussianFeatures, GaussianSamples
from natsel.beliefs import prediction_tables
from natsel.beliefs.files import kind_of, load, read_predictions, save
from own_files import without_digests

SUFFIXES = (".npz", ".safetensors")


def categorical(dtype=torch.float64, n=7, k=3, c=4, seed=0, **names):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(n, k, c, generator=generator, dtype=dtype)
    weights_K = torch.randn(k, generator=generator, dtype=torch.float64).log_softmax(0)
    return CategoricalSamples(
        logits.log_softmax(-1), weights_K, ids=torch.randperm(n, generator=generator) + 10, **names
    )


def beliefs():
    generator = torch.Generator().manual_seed(1)
    mean_N_K = torch.randn(5, 3, generator=generator)
    return {
        "categorical64": categorical(draws_id="net-7 · seed 3"),
        "categorical32": categorical(torch.float32),
        "zeros": CategoricalSamples.from_probs([[[1.0, 0.0], [0.5, 0.5]]]),
        "empty": categorical()[:0],
        "slice": categorical()[1:4],
        "gaussian": GaussianSamples(mean_N_K, 0.3, ids=torch.arange(5) * 2),
        "gaussian-shared": GaussianSamples(mean_N_K.abs() + 1, mean_N_K.abs() + 1),
        "features": GaussianFeatures(torch.randn(6, 2, generator=generator), noise=0.25, draws_id="ntk"),
    }


def same_bits(a, b):
    assert type(a) is type(b)
    assert a.draws_id == b.draws_id
    for name in a.points + a.draws:
        left, right = getattr(a, name), getattr(b, name)
        assert left.dtype == right.dtype, name
        assert torch.equal(left, right), name


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("name", beliefs())
def test_a_belief_comes_back_bit_for_bit(tmp_path, name, suffix):
    belief = beliefs()[name]
    path = tmp_path / f"belief{suffix}"
    belief.save(path)
    same_bits(belief, Belief.load(path))
    assert kind_of(path) == type(belief).__name__
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    (tmp_path / "plain").touch()
    assert path.stat().st_mode == (tmp_path / "plain").stat().st_mode  # what others may read stays so


@settings(max_examples=25, deadline=None)
@given(
    dtype=st.sampled_from([torch.float32, torch.float64]),
    shape=st.tuples(st.integers(1, 6), st.integers(1, 5), st.integers(1, 5)),
    seed=st.integers(0, 2**20),
    draws_id=st.none() | st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8),
    suffix=st.sampled_from(SUFFIXES),
)
def test_any_categorical_belief_comes_back(dtype, shape, seed, draws_id, suffix):
    belief = categorical(dtype, *shape, seed, draws_id=draws_id)
    with tempfile.TemporaryDirectory() as folder:
        save(belief, f"{folder}/belief{suffix}")
        same_bits(belief, load(f"{folder}/belief{suffix}"))


def test_loading_as_another_kind_is_refused(tmp_path):
    categorical().save(tmp_path / "a.npz")
    with pytest.raises(ValueError, match="holds CategoricalSamples, not GaussianSamples"):
        GaussianSamples.load(tmp_path / "a.npz")
    with pytest.raises(ValueError, match=r"ends in \.npz or \.safetensors"):
        categorical().save(tmp_path / "a.pkl")
    with pytest.raises(ValueError, match="there is no file"):
        load(tmp_path / "missing.safetensors")
    with pytest.raises(ValueError, match="there is no folder"):
        categorical().save(tmp_path / "nowhere" / "a.npz")


def test_only_regular_files_are_replaced(tmp_path):
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(ValueError, match="no regular file"):
        categorical().save(tmp_path / "folder.npz")
    categorical().save(tmp_path / "real.npz")
    (tmp_path / "link.npz").symlink_to("real.npz")
    newer = categorical(seed=9)
    newer.save(tmp_path / "link.npz")
    assert not (tmp_path / "link.npz").is_symlink()  # it is replaced, not what it leads to
    same_bits(newer, load(tmp_path / "link.npz"))
    same_bits(categorical(), load(tmp_path / "real.npz"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"natsel_format": "3"}, "format '3', this natsel reads 2; upgrade"),
        ({"natsel_format": "1"}, "format '1', this natsel reads 2; upgrade natsel or save it anew"),
        ({"natsel_kind": "Tarot"}, "unknown kind of belief 'Tarot'"),
        ({"natsel_kind": "GaussianSamples"}, "lacks mean_N_K"),
    ],
)
def test_unknown_kinds_and_formats_are_refused(tmp_path, change, message):
    save(categorical(), tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz") as old:
        np.savez(tmp_path / "b.npz", **without_digests({**old, **change}))
    with pytest.raises(ValueError, match=message):
        load(tmp_path / "b.npz")


def test_stored_numbers_are_checked_again(tmp_path):
    save(categorical(), tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz") as old:
        np.savez(tmp_path / "b.npz", **without_digests({**old, "log_probs_N_K_C": old["log_probs_N_K_C"] + 1}))
    with pytest.raises(ValueError, match="must sum to 1"):
        load(tmp_path / "b.npz")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_cut_short_anywhere_is_refused_in_one_sentence(tmp_path, suffix):
    path = tmp_path / f"belief{suffix}"
    save(categorical(), path)
    whole = path.read_bytes()
    for length in range(0, len(whole), max(1, len(whole) // 40)):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="damaged") as refusal:
            load(path)
        assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("where", ["writing", "replacing"])
def test_a_failing_write_leaves_the_old_file(tmp_path, monkeypatch, suffix, where):
    path = tmp_path / f"belief{suffix}"
    save(categorical(), path)
    before = path.read_bytes()

    def half_npz(stream, **_):
        stream.write(b"half")
        raise OSError(28, "No space left on device")

    def half_safetensors(_, place, **__):
        Path(place).write_bytes(b"half")
        raise OSError(28, "No space left on device")

    def refuse(*_):
        raise OSError(5, "Input/output error")

    if where == "replacing":
        monkeypatch.setattr(os, "replace", refuse)
    else:
        monkeypatch.setattr(np, "savez", half_npz)
        monkeypatch.setattr("safetensors.torch.save_file", half_safetensors)
    with pytest.raises(OSError, match=r"No space left|Input/output"):
        save(categorical(seed=5), path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == [path.name]


# Predictions of other programs.


def predictions(n=6, k=3, c=4, seed=0):
    logits = np.random.default_rng(seed).normal(size=(n, k, c))
    probs = np.exp(logits)
    return logits, probs / probs.sum(-1, keepdims=True)


@pytest.mark.parametrize("suffix", [".npz", ".npy", ".safetensors"])
@pytest.mark.parametrize("kind", ["log-probs", "probs", "logits"])
def test_arrays_are_read_as_what_they_are_said_to_be(tmp_path, suffix, kind):
    logits, probs = predictions()
    array = {"log-probs": np.log(probs), "probs": probs, "logits": logits}[kind]
    path = tmp_path / f"preds{suffix}"
    write_raw(path, preds=array)
    belief = read_predictions(path, kind)
    np.testing.assert_allclose(belief.log_probs_N_K_C.exp().numpy(), probs, atol=1e-12)
    assert belief.ids.tolist() == list(range(6))


def write_raw(path, **arrays):
    if path.suffix == ".npy":
        np.save(path, next(iter(arrays.values())))
    elif path.suffix == ".npz":
        np.savez(path, **arrays)
    else:
        from safetensors.numpy import save_file

        save_file({key: np.ascontiguousarray(array) for key, array in arrays.items()}, path)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_ids_and_weights_come_along(tmp_path, suffix):
    _, probs = predictions()
    ids, weights = np.arange(50, 56), np.log([0.2, 0.3, 0.5])
    write_raw(tmp_path / f"a{suffix}", p=probs, ids=ids, log_weights_K=weights, features=np.zeros((6, 2)))
    belief = read_predictions(tmp_path / f"a{suffix}", "probs")
    assert belief.ids.tolist() == ids.tolist()
    np.testing.assert_allclose(belief.log_weights_K.numpy(), weights, atol=1e-12)
    renamed = tmp_path / f"b{suffix}"
    write_raw(renamed, p=probs, number=ids, w=weights)
    assert read_predictions(renamed, "probs", ids_key="number", weights_key="w").ids[0] == 50
    with pytest.raises(ValueError, match="no array 'nummer'"):
        read_predictions(renamed, "probs", ids_key="nummer")


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_half_and_single_precision_log_probs_are_read(tmp_path, dtype):
    _, probs = predictions()
    np.save(tmp_path / "a.npy", np.log(probs).astype(dtype))
    assert read_predictions(tmp_path / "a.npy", "log-probs").log_probs_N_K_C.dtype == torch.float32


def test_the_key_decides_between_arrays(tmp_path):
    logits, probs = predictions()
    np.savez(tmp_path / "a.npz", pool=probs, test=logits)
    assert read_predictions(tmp_path / "a.npz", "probs", key="pool").shape == (6, 3, 4)
    with pytest.raises(ValueError, match=r"2 arrays of 3 axes .* pool \[6, 3, 4\], test \[6, 3, 4\]; name one"):
        read_predictions(tmp_path / "a.npz", "probs")
    with pytest.raises(ValueError, match="no array 'train'; it holds pool"):
        read_predictions(tmp_path / "a.npz", "probs", key="train")
    np.save(tmp_path / "a.npy", probs)
    with pytest.raises(ValueError, match="one array and no keys"):
        read_predictions(tmp_path / "a.npy", "probs", key="pool")


def test_one_draw_must_be_meant(tmp_path):
    _, probs = predictions(k=1)
    np.save(tmp_path / "a.npy", probs[:, 0])
    np.savez(tmp_path / "a.npz", p=probs[:, 0])
    for path in (tmp_path / "a.npy", tmp_path / "a.npz"):
        with pytest.raises(ValueError, match="a single draw is read with --single-draw"):
            read_predictions(path, "probs")
        assert read_predictions(path, "probs", single_draw=True).shape == (6, 1, 4)
    np.save(tmp_path / "b.npy", probs)
    with pytest.raises(ValueError, match="leave it out"):
        read_predictions(tmp_path / "b.npy", "probs", single_draw=True)


def test_a_saved_belief_is_recognised(tmp_path):
    categorical().save(tmp_path / "a.npz")
    same_bits(read_predictions(tmp_path / "a.npz"), load(tmp_path / "a.npz"))
    assert read_predictions(tmp_path / "a.npz", "log-probs").shape == (7, 3, 4)
    with pytest.raises(ValueError, match="is a belief and holds log probabilities, found probs"):
        read_predictions(tmp_path / "a.npz", "probs")
    GaussianSamples([[1.0, 2.0]], 0.5).save(tmp_path / "s.npz")
    same_bits(read_predictions(tmp_path / "s.npz", "means"), load(tmp_path / "s.npz"))
    with pytest.raises(ValueError, match="holds its own noise, found 1"):
        read_predictions(tmp_path / "s.npz", "means", noise=1.0)
    GaussianFeatures([[1.0]]).save(tmp_path / "g.npz")
    with pytest.raises(ValueError, match="holds GaussianFeatures, not class predictions"):
        read_predictions(tmp_path / "g.npz")
    np.savez(tmp_path / "raw.npz", p=predictions()[1])
    assert kind_of(tmp_path / "raw.npz") is None
    with pytest.raises(ValueError, match="holds arrays but no belief"):
        load(tmp_path / "raw.npz")
    with pytest.raises(ValueError, match="say what the numbers are"):
        read_predictions(tmp_path / "raw.npz")


@pytest.mark.parametrize(
    ("given", "said", "hint"),
    [
        ("probs", "log-probs", "look like probabilities: pass --probs"),
        ("probs", "logits", "look like probabilities: pass --probs"),
        ("logits", "probs", "look like logits: pass --logits"),
        ("logits", "log-probs", "look like logits: pass --logits"),
        ("log-probs", "probs", "look like log probabilities: pass --log-probs"),
    ],
)
def test_a_wrong_kind_is_refused_with_the_right_one(tmp_path, given, said, hint):
    logits, probs = predictions()
    np.save(tmp_path / "a.npy", {"log-probs": np.log(probs), "probs": probs, "logits": logits}[given])
    with pytest.raises(ValueError, match=hint):
        read_predictions(tmp_path / "a.npy", said)


def test_log_probs_may_be_read_as_logits_because_they_are(tmp_path):
    _, probs = predictions()
    np.save(tmp_path / "a.npy", np.log(probs))
    belief = read_predictions(tmp_path / "a.npy", "logits")
    np.testing.assert_allclose(belief.log_probs_N_K_C.exp().numpy(), probs, atol=1e-12)


def test_one_bad_row_is_named_and_not_taken_for_another_kind(tmp_path):
    _, probs = predictions(n=9)
    probs[7, 1] *= 0.8
    np.save(tmp_path / "a.npy", probs)
    with pytest.raises(ValueError, match=r"row 7, draw 1 sums to 0\.8") as refusal:
        read_predictions(tmp_path / "a.npy", "probs")
    assert "look like" not in str(refusal.value)
    probs[7, 1, 2] = np.nan
    np.save(tmp_path / "a.npy", probs)
    with pytest.raises(ValueError, match="NaN at point 7, draw 1, class 2"):
        read_predictions(tmp_path / "a.npy", "probs")


class Boobytrap:
    def __reduce__(self):
        return os.abort, ()


def test_nothing_is_ever_unpickled(tmp_path):
    objects = np.empty((1, 1, 1), dtype=object)
    objects[0, 0, 0] = Boobytrap()
    np.save(tmp_path / "a.npy", objects, allow_pickle=True)
    np.savez(tmp_path / "a.npz", a=objects)
    (tmp_path / "b.npy").write_bytes(pickle.dumps(Boobytrap()))
    for name, key in (("a.npy", None), ("a.npz", "a")):
        with pytest.raises(ValueError, match="pickled Python objects, which are never loaded"):
            read_predictions(tmp_path / name, "probs", key=key)
    with pytest.raises(ValueError, match=r"damaged or not \.npy"):
        read_predictions(tmp_path / "b.npy", "probs")


def test_other_suffixes_are_refused_and_ids_may_be_names(tmp_path):
    (tmp_path / "a.pkl").write_bytes(b"")
    with pytest.raises(ValueError, match=r"expected .npz, .*found .*a.pkl"):
        read_predictions(tmp_path / "a.pkl", "probs")
    np.savez(tmp_path / "a.npz", p=predictions(n=1)[1], ids=np.array(["cat"]))
    assert read_predictions(tmp_path / "a.npz", "probs").ids.tolist() == ["cat"]


# Tables.


def write_csv(path, header, rows):
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


def long_rows(probs, ids, draws):
    return [[i, d, *map(repr, probs[n, k].tolist())] for n, i in enumerate(ids) for k, d in enumerate(draws)]


def test_a_shuffled_table_gives_the_same_belief(tmp_path):
    _, probs = predictions()
    ids, draws = [3, 2**60 + 1, 5, 8, 13, 21], [4, 9, 11]
    rows = long_rows(probs, ids, draws)
    np.random.default_rng(0).shuffle(rows)
    belief = read_predictions(write_csv(tmp_path / "a.csv", "id,draw,p0,p1,p2,p3", rows), "probs")
    order = np.argsort(ids)
    assert belief.ids.tolist() == sorted(ids)
    np.testing.assert_allclose(belief.log_probs_N_K_C.exp().numpy(), probs[order], rtol=1e-15)


def test_class_columns_by_number_or_by_name(tmp_path):
    numbered = write_csv(
        tmp_path / "a.csv",
        "p10,id,split,draw," + ",".join(f"p{c}" for c in range(10)),
        [[0.5, 1, "pool", 0, 0.5, *[0] * 9]],
    )
    probs = read_predictions(numbered, "probs").log_probs_N_K_C.exp()[0, 0]
    assert probs.nonzero().flatten().tolist() == [0, 10]  # p10 is the eleventh class, and `split` no class
    named = write_csv(tmp_path / "b.csv", 'draw,"cat",dog,id', [["0", '"0.25"', "0.75", 7]])
    belief = read_predictions(named, "probs")
    assert belief.log_probs_N_K_C.exp().tolist() == [[[0.25, 0.75]]]
    assert belief.ids.tolist() == [7]
    texts = write_csv(tmp_path / "d.csv", "id,draw,p0,p1", [["x 2", 0, 0.5, 0.5], ["7", 0, 0.25, 0.75]])
    assert read_predictions(texts, "probs").ids.tolist() == ["7", "x 2"]
    one = write_csv(tmp_path / "c.csv", "id,p0,p1", [[2, 0.5, 0.5]])
    assert read_predictions(one, "probs", single_draw=True).shape == (1, 1, 2)


@pytest.mark.parametrize(
    ("header", "rows", "message"),
    [
        ("id,draw,p0,p1", [[1, 0, 0.5, 0.5], [1, 0, 0.5, 0.5]], "point 1 has draw 0 twice"),
        ("id,draw,p0,p1", [[1, 0, 1, 0], [1, 1, 1, 0], [2, 1, 1, 0]], "point 2 has no draw 0"),
        ("id,draw,p0,p1", [["", 0, 1, 0]], "line 2, column id should hold an integer or a name, found ''"),
        (
            "id,draw,p0,p1",
            [[1, 0, 1, 0], [1.5, 0, 1, 0]],
            "line 3, column id should hold an integer or a name, found '1.5'",
        ),
        ("id,draw,p0,p1", [[1, 0, 1, ""]], "line 2, column p1 should hold a number, found ''"),
        ("id,draw,p0,p1", [[1, 0, 1, 0], [2, 0, 1]], "line 3 has 3 values under 4 columns"),
        ("id,draw,p0,p1", [[1, 0, 0, 5, 0, 5]], "line 2 has 6 values under 4 columns"),
        ("id,draw,p0,p2", [[1, 0, 1, 0]], "not p0..p1"),
        ("id,p0,p1", [[1, 1, 0]], "needs columns id, draw .* --single-draw"),
        ("a;b", [], "found a;b"),
        ("id,draw", [[1, 0]], "no class columns"),
        ("id,draw,x,x", [[1, 0, 1, 0]], "column 'x' twice"),
        ("id,draw,p0,p1", [], "a header and no rows"),
        ("", [], "found none"),
    ],
)
def test_bad_tables_are_refused_where_they_are_bad(tmp_path, header, rows, message):
    with pytest.raises(ValueError, match=message):
        read_predictions(write_csv(tmp_path / "a.csv", header, rows), "probs")


def test_parquet_is_read_like_csv(tmp_path):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    _, probs = predictions()
    flat = probs.reshape(-1, 4)
    order = np.random.default_rng(1).permutation(len(flat))
    table = {"id": np.repeat(np.arange(6), 3)[order], "draw": np.tile(np.arange(3), 6)[order]}
    table |= {f"p{c}": flat[order, c] for c in range(4)}
    path = tmp_path / "split=pool" / "a.parquet"  # a folder name that datasets would read as a column
    path.parent.mkdir()
    parquet.write_table(pa.table(table), path)
    np.testing.assert_allclose(read_predictions(path, "probs").log_probs_N_K_C.exp().numpy(), probs, rtol=1e-15)
    for change, message in (
        ({"id": np.arange(18) + 0.5}, "column id should hold integers"),
        ({"draw": table["draw"] + 0.5}, "column draw should hold integers"),
        ({"p1": ["x"] * 18}, "column p1 should hold numbers"),
        ({"p1": [None] * 18}, "empty cells in column p1"),
    ):
        parquet.write_table(pa.table(table | change), path)
        with pytest.raises(ValueError, match=message):
            read_predictions(path, "probs")
    parquet.write_table(pa.table(table | {"id": [f"n{id}" for id in table["id"]]}), path)
    named = read_predictions(path, "probs")
    assert named.ids.tolist() == [f"n{id}" for id in range(6)]
    np.testing.assert_allclose(named.log_probs_N_K_C.exp().numpy(), probs, rtol=1e-15)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"damaged or not \.parquet"):
        read_predictions(path, "probs")


def test_parquet_without_pyarrow_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install 'natsel\[parquet\]'"):
        read_predictions(tmp_path / "a.parquet", "probs")


def test_a_hundred_thousand_rows_are_read_once_and_by_numpy(tmp_path, monkeypatch):
    """The slow reader that finds a wrong line is for wrong lines, and names of points for names."""
    calls, read = [], np.loadtxt
    monkeypatch.setattr(np, "loadtxt", lambda *given, **options: calls.append(given) or read(*given, **options))
    monkeypatch.setattr(prediction_tables, "_diagnosis", lambda *given: pytest.fail("looked for a wrong line"))
    _, probs = predictions(n=5000, k=20, c=10)
    flat = np.column_stack([np.repeat(np.arange(5000), 20), np.tile(np.arange(20), 5000), probs.reshape(-1, 10)])
    header = "id,draw," + ",".join(f"p{c}" for c in range(10))
    np.savetxt(tmp_path / "a.csv", flat, fmt=["%d", "%d", *["%.17g"] * 10], delimiter=",", header=header, comments="")
    belief = read_predictions(tmp_path / "a.csv", "probs")
    assert len(calls) == 1
    np.testing.assert_allclose(belief.log_probs_N_K_C.exp().numpy(), probs, rtol=1e-12)
