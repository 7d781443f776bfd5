"""Shards give back what was written, bit for bit, however often the writer was killed."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import natsel
from natsel.beliefs import shards
from natsel.beliefs.shards import Shards, write_shards
from natsel.containers import sealed
from natsel.data.contents import fingerprint_of


def belief(count: int, start: int = 0, seed: int = 0, dtype=torch.float32) -> natsel.CategoricalSamples:
    logits = torch.randn(count, 4, 3, generator=torch.Generator().manual_seed(seed + start), dtype=dtype)
    return natsel.CategoricalSamples.from_logits(logits, ids=torch.arange(start, start + count), draws_id="draws")


def parts(*starts: int) -> list[natsel.CategoricalSamples]:
    return [belief(5, start) for start in starts]


def same(one, other) -> bool:
    return all(
        torch.equal(getattr(one, name), getattr(other, name)) and getattr(one, name).dtype == getattr(other, name).dtype
        for name in one.points + one.draws
    )


@pytest.mark.parametrize(
    "given",
    [
        parts(0),
        parts(0, 5, 10),
        [belief(3), belief(1, 3), belief(7, 4)],
        [belief(2, dtype=torch.float64), belief(2, 2, dtype=torch.float64)],
        [natsel.GaussianSamples(torch.randn(3, 2), torch.ones(3, 2), ids=[4, 5, 6]) for _ in range(2)],
        [natsel.GaussianFeatures(torch.randn(3, 2).double(), 0.5, ids=[9, 5, 6]) for _ in range(2)],
    ],
    ids=["one", "three", "ragged", "double", "gaussian", "features"],
)
def test_what_is_written_comes_back(given, tmp_path):
    found = write_shards(tmp_path, given)
    assert len(found) == sum(map(len, given))
    assert all(same(one, other) for one, other in zip(given, Shards(tmp_path), strict=True))
    whole = found.belief()
    for name in whole.points:
        assert torch.equal(getattr(whole, name), torch.cat([getattr(one, name) for one in given]))
    assert whole.draws_id == given[0].draws_id
    assert type(whole) is type(given[0])


def test_a_spilled_belief_serves_like_any_other(tmp_path):
    whole = belief(40)
    mapped = write_shards(tmp_path, [whole[:15], whole[15:40]]).belief()
    first, second = (natsel.select("batchbald", each, k=4) for each in (whole, mapped))
    assert first.ids.tolist() == second.ids.tolist()


def test_reading_maps_and_never_copies_or_changes_files(tmp_path):
    found = write_shards(tmp_path, parts(0, 5))
    kept = []
    for each in (found.belief(), *found):
        each.log_probs_N_K_C[:] = 0.0
        kept.append(each)
    maps = Path("/proc/self/maps")
    if maps.exists():
        assert maps.read_text().count(f"{tmp_path}/") >= 4, "not memory maps"
    assert same(next(iter(Shards(tmp_path))), parts(0)[0])


def test_a_killed_writer_goes_on_where_it_was(tmp_path, monkeypatch):
    calls: list[int] = []

    def maker(start: int):
        def make():
            calls.append(start)
            return belief(5, start)

        return make

    makers = [maker(start) for start in (0, 5, 10)]
    real, written = shards.atomically, []

    def killed_at(limit: int):
        def dying(path):
            written.append(path)
            if len(written) > limit:
                raise KeyboardInterrupt
            return real(path)

        return dying

    # 4 files for the first shard: two fields of points, the weights that all share and the manifest; then 3 each, and
    # the finished manifest
    for limit in range(11):
        folder = tmp_path / str(limit)
        written.clear()
        monkeypatch.setattr(shards, "atomically", killed_at(limit))
        with pytest.raises(KeyboardInterrupt):
            write_shards(folder, makers, key="model")
        monkeypatch.setattr(shards, "atomically", real)
        if limit >= 4:
            with pytest.raises(ValueError, match="not finished"):
                Shards(folder)
        calls.clear()
        found = write_shards(folder, makers, key="model")
        assert len(calls) == 3 - (limit >= 4) - (limit >= 7) - (limit >= 10)
        assert found.belief().ids.tolist() == list(range(15))


def test_lost_files_are_made_again(tmp_path):
    write_shards(tmp_path, parts(0, 5, 10))
    (tmp_path / "00001.log_probs_N_K_C.npy").write_bytes(b"short")
    assert same(list(write_shards(tmp_path, parts(0, 5, 10)))[1], parts(5)[0])


def test_other_predictions_are_refused(tmp_path):
    write_shards(tmp_path, parts(0, 5))
    assert len(write_shards(tmp_path, parts(0, 5))) == 10
    with pytest.raises(ValueError, match="shard 1 differs"):
        write_shards(tmp_path, parts(0, 6))
    with pytest.raises(ValueError, match="2 shards instead of 1"):
        write_shards(tmp_path, parts(0))
    with pytest.raises(ValueError, match="another model"):
        write_shards(tmp_path, parts(0, 5), key="other")
    with pytest.raises(ValueError, match="key: functions need one"):
        write_shards(tmp_path / "new", [lambda: belief(5)])
    with pytest.raises(ValueError, match="found none"):
        write_shards(tmp_path / "empty", [])


def test_shards_of_two_models_do_not_mix(tmp_path):
    logits = torch.zeros(1, 4, 3)
    other = natsel.CategoricalSamples.from_logits(logits, draws_id="other")
    with pytest.raises(ValueError, match="one model"):
        write_shards(tmp_path / "a", [belief(5), other])
    fewer = natsel.CategoricalSamples.from_logits(logits[:, :2], draws_id="draws")
    with pytest.raises(ValueError, match="same type, draws and classes"):
        write_shards(tmp_path / "b", [belief(5), fewer])


def test_stale_joins_are_thrown_away(tmp_path):
    write_shards(tmp_path, parts(0, 5)).belief()
    (tmp_path / "manifest.json").unlink()
    assert write_shards(tmp_path, parts(20, 25)).belief().ids.tolist() == list(range(20, 30))


def test_more_shards_than_before_are_added(tmp_path):
    write_shards(tmp_path, parts(0, 5)).belief()
    assert write_shards(tmp_path, parts(0, 5, 10)).belief().ids.tolist() == list(range(15))


def test_damaged_folders_are_refused(tmp_path):
    with pytest.raises(ValueError, match="there is no file"):
        Shards(tmp_path)
    write_shards(tmp_path, parts(0))
    manifest = tmp_path / "manifest.json"
    found = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(sealed({**found, "format": 99})))
    with pytest.raises(ValueError, match="format 99"):
        Shards(tmp_path)
    manifest.write_text(json.dumps(sealed({**found, "kind": "Nonsense"})))
    with pytest.raises(ValueError, match="unknown kind"):
        Shards(tmp_path).belief()
    manifest.write_text("{")
    with pytest.raises(ValueError, match="damaged"):
        Shards(tmp_path)
    manifest.write_text(json.dumps(found))
    (tmp_path / "00000.ids_N.npy").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="damaged"):
        Shards(tmp_path).belief()


@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy, list])
def test_inputs_have_names(kind):
    inputs = np.random.default_rng(0).normal(size=(200, 3))
    changed = inputs.copy()
    changed[199] += 1
    assert fingerprint_of(kind(inputs)) == fingerprint_of(kind(inputs.copy()))
    assert fingerprint_of(kind(inputs)) != fingerprint_of(kind(changed))
    assert fingerprint_of(kind(inputs)) != fingerprint_of(kind(inputs[:199]))
    texts = np.array(["one", "two"], dtype=object)
    assert fingerprint_of(texts) != fingerprint_of(texts[::-1])
