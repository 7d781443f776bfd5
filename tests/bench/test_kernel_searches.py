"""Searches on a kernel against the peer: every job in this process, the peer a stand-in or absent."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from natsel.bench import kernel_searches, workers
from natsel.bench.cases import measurement_of
from natsel.bench.kernel_searches import SEARCHES, bare_products, measure

TINY: dict[str, Any] = {"points": 60, "features": 5, "pick": 4, "given": 6, "dtype": "float64", "repeat": 2}


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def in_this_process(monkeypatch: pytest.MonkeyPatch, usable: bool) -> None:
    """Jobs without processes; natsel itself stands in for a peer that is there."""

    class Here(workers.Workers):
        def natsel(self, do: str, **job: Any) -> Any:
            return json.loads(json.dumps(workers.JOBS[do](**json.loads(json.dumps(job)))))

        def peers(self, do: str, **job: Any) -> Any:
            if do == "versions":
                return {"python": "3", "unusable": {} if usable else {"bmdal_reg": "not installed"}}
            return kernel_searches.natsel_search(**job)

    monkeypatch.setattr(kernel_searches, "Workers", Here)


@pytest.mark.usefixtures("frozen")
def test_rows_say_what_everyone_took_and_whether_picks_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    in_this_process(monkeypatch, usable=True)
    rows = measure(**TINY)["rows"]
    assert [(row["search"], row["given"]) for row in rows] == [(name, given) for name in SEARCHES for given in (0, 6)]
    for row in rows:
        assert row["note"] == ""
        assert row.get("same_picks") == (None if row["search"] == "kmeanspp" else 4)
        for name in ("natsel", "peer", "bare"):
            assert len(row[f"{name}_s_runs"]) == 2
        assert row["natsel_over_bare"] == row["natsel_cpu_s"] / max(row["bare_cpu_s"], 1e-9)


@pytest.mark.usefixtures("frozen")
def test_a_peer_that_is_absent_is_named_and_stops_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    in_this_process(monkeypatch, usable=False)
    found = measure(**TINY, search="lcmd")
    assert [row["note"] for row in found["rows"]] == ["peer: not installed"] * 2
    assert "peer_s" not in found["rows"][0]
    assert found["rows"][0]["natsel_s"] > 0


@pytest.mark.parametrize("wrong", [{"search": "best"}, {"dtype": "float16"}, {"pick": 61}])
def test_wrong_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^(search|dtype|points): "):
        measure(**TINY | wrong)


def test_the_interpreter_of_the_peer_is_no_setting() -> None:
    module, settings = measurement_of("kernel-searches:points=500", repeat=2) or ("", {})
    assert module == "natsel.bench.kernel_searches"
    assert settings["points"] == 500
    assert "peers_python" not in settings


def test_bare_products_are_as_many_as_the_search_needs(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    np.save(tmp_path / "features.npy", np.ones((46, 3), dtype=np.float32))
    counted = {"mv": 0, "mm": 0}
    for name in counted:
        plain = getattr(torch, name)

        def watched(*args: Any, name: str = name, plain: Any = plain, **more: Any) -> Any:
            counted[name] += 1
            return plain(*args, **more)

        monkeypatch.setattr(torch, name, watched)
    job = {"path": str(tmp_path / "features.npy"), "given": 6, "k": 5, "noise": 0.1, "repeat": 1}
    for search, with_given, expected in (("lcmd", True, (5, 1)), ("bait", False, (10, 0)), ("maxdiag", False, (1, 0))):
        counted.update(mv=0, mm=0)
        bare_products(search=search, with_given=with_given, **job)
        assert (counted["mv"], counted["mm"]) == expected


def test_on_a_gpu_ratios_are_by_the_clock_and_memory_is_that_of_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The path of a GPU on a CPU by another name, whose memory rises by 3 MiB; the peer fails there."""
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: None)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 2**20)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 4 * 2**20)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a GPU")
    monkeypatch.setattr(kernel_searches, "versions", lambda packages: {"unusable": {}})
    monkeypatch.setattr(kernel_searches, "kernel_searcher", lambda *job: 1 / 0)
    found = measure(**TINY, search="lcmd", device="cpu:0")
    assert found["device"] == "a GPU"
    for row in found["rows"]:
        assert row["note"] == "peer: ZeroDivisionError: division by zero"
        assert row["natsel_mib"] == row["bare_mib"] == 3
        assert row["natsel_over_bare"] == row["natsel_over_bare_wall"]
