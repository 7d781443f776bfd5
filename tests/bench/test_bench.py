"""The benchmark itself, tiny and without peers: jobs run in this process instead of fresh ones."""

import gc
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from natsel import bench
from natsel.bench import comparison, published_arithmetic, workers
from natsel.bench.cases import FAMILY, MEASUREMENTS, SETS, Case, cases_of, measurement_of
from natsel.bench.comparison import compare
from natsel.bench.document import markdown
from natsel.bench.judge import beaten, worth
from natsel.bench.laps import timed
from natsel.bench.peer_worker import Meter, versions
from natsel.bench.pools import committee_pool, from_file, gaussian_pool
from natsel.bench.quality import quality, reference_batch, verdict
from natsel.information.joint_labels import ExactJointEntropy

TINY = Case("tiny", "batchbald", "gaussian", N=200, K=8, C=3, k=3, contenders=("natsel", "redux", "bare-pass"))
ABSENT = {"batchbald-redux": "not installed", "baal": "not installed"}


class Here(workers.Workers):
    """Workers without processes."""

    def _call(self, command: list[str], do: str, job: dict[str, Any]) -> Any:
        job = json.loads(json.dumps(job))
        jobs = {**workers.JOBS, "versions": lambda: {"unusable": dict(ABSENT)}}
        return json.loads(json.dumps(jobs[do](**job)))


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_pools_are_distributions_and_follow_their_seed() -> None:
    gaussian = [gaussian_pool(20, 2, 4) for _ in range(2)]
    digits = [committee_pool("digits", 1800, 2, labelled=40)[-20:] for _ in range(2)]
    for log_probs_N_K_C, again_N_K_C in (gaussian, digits):
        assert log_probs_N_K_C.dtype == torch.float32
        torch.testing.assert_close(log_probs_N_K_C.exp().sum(-1), torch.ones(20, 2))
        assert torch.equal(log_probs_N_K_C, again_N_K_C)
    assert not torch.equal(gaussian_pool(20, 2, 4), gaussian_pool(20, 2, 4, seed=1))


def test_a_pool_can_come_from_a_file(tmp_path: Path) -> None:
    log_probs_N_K_C = gaussian_pool(6, 2, 3)
    np.save(tmp_path / "pool.npy", log_probs_N_K_C.double().numpy())
    torch.testing.assert_close(from_file(tmp_path / "pool.npy"), log_probs_N_K_C)


@pytest.mark.usefixtures("frozen")
def test_rows_say_what_was_measured_and_what_is_missing() -> None:
    with Here() as here:
        own, missing, bare = compare(TINY, here, unusable=ABSENT, repeat=2, configurations=2_000)
    assert own["status"] == "ok"
    assert own["cpu_ratio"] == own["wall_ratio"] == own["memory_ratio"] == 1
    assert own["cpu_s"] > 0
    assert len(own["cpu_s_runs"]) == 2
    assert len(set(own["indices"])) == 3
    assert 0 < own["information"] <= math.log(8)
    assert (missing["status"], missing["note"]) == ("missing", "float32, its default; not installed")
    assert bare["information"] is None


def test_a_failing_contender_has_a_row_and_stops_nobody() -> None:
    class Broken(Here):
        def peers(self, do: str, **job: Any) -> Any:
            raise workers.Failed("killed by SIGKILL")

    with Broken() as broken:
        rows = compare(TINY, broken, unusable={}, repeat=1, configurations=500)
    assert [row["status"] for row in rows] == ["ok", "failed", "ok"]
    assert "SIGKILL" in rows[1]["note"]


def test_a_set_has_one_value_in_any_order() -> None:
    with Here() as here:
        here.sized(TINY)
        assert len(here.information([[4, 9, 2], [2, 4, 9], []], 500)) == 1


def test_reference_is_greedy() -> None:
    log_probs_N_K_C = gaussian_pool(40, 6, 3)
    state = ExactJointEntropy(torch.zeros(6))
    expected: list[int] = []
    for _ in range(4):  # 27 configurations at most: the reference lists them too
        gain_N = state.gains(log_probs_N_K_C)
        gain_N[expected] = -1
        expected.append(int(gain_N.argmax()))
        state.add(log_probs_N_K_C[expected[-1]])
    assert reference_batch(log_probs_N_K_C, 4) == expected


def test_the_family_covers_what_it_says_and_names_are_its_own() -> None:
    assert len(FAMILY) >= 60
    assert len({case.name for case in FAMILY}) == len(FAMILY)
    assert {case.C for case in FAMILY} >= {2, 10, 100}
    assert {case.k for case in FAMILY} >= {5, 100}
    assert cases_of("independent-weak-2-40", quality=True)[0].k == 40


def test_the_judge_agrees_with_enumeration() -> None:
    log_probs_B_K_C = gaussian_pool(5, 6, 3).double().log_softmax(-1)
    state = ExactJointEntropy(torch.zeros(6))
    exact = 0.0
    for log_probs_K_C in log_probs_B_K_C[:4]:
        exact += float(state.gains(log_probs_K_C[None])[0])
        state.add(log_probs_K_C)
    told, error = worth(log_probs_B_K_C[:4].numpy(), 20_000)
    assert 0 < error < 0.01
    assert abs(told - exact) < 4 * error


def test_the_judge_sees_a_pick_that_was_beaten() -> None:
    log_probs_N_K_C = gaussian_pool(12, 6, 3).double().log_softmax(-1)
    state = ExactJointEntropy(torch.zeros(6))
    state.add(log_probs_N_K_C[0])
    gain_N = state.gains(log_probs_N_K_C)
    gain_N[0] = -1
    best, worst = int(gain_N.argmax()), int(gain_N[1:].argmin()) + 1
    assert beaten(log_probs_N_K_C.numpy(), [0, best], 1, 5_000).deficit == 0
    found = beaten(log_probs_N_K_C.numpy(), [0, worst], 1, 5_000)
    assert 0 < found.error < 0.1 * found.deficit
    assert abs(found.deficit - float(gain_N[best] - gain_N[worst])) < 4 * found.error


@pytest.mark.usefixtures("frozen")
@pytest.mark.parametrize(
    ("pool", "draws", "classes", "k"),
    [("independent:0.2", 20, 2, 25), ("independent:0.2", 20, 10, 8), ("correlated:0.7", 20, 3, 12)],
)
def test_batches_are_worth_what_they_claim_and_no_less_than_their_rivals(
    pool: str, draws: int, classes: int, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where labels tell little and batches are long, thinning once gave nearly all rows the same label."""
    # The last level of the reference, which is most of the work, has as many configurations as the judge.
    monkeypatch.setattr("natsel.bench.quality._LEVELS", ((2_048, 64), (8_192, 8), (20_000, 1)))
    row = quality(Case("x", "batchbald", pool, N=80, K=draws, C=classes, k=k), seeds=2, configurations=20_000)
    for bar in verdict([row], []):
        assert bar["holds"], bar
    assert row["picks"]["seen"] == 8
    assert row["picks"]["worst_share_of_best"] > 0.97


def test_the_verdict_can_fail() -> None:
    fine = quality(Case("x", "batchbald", "independent:1", N=20, K=4, C=2, k=2), seeds=2, configurations=2_000)
    wrong = {
        **fine,
        "worth": [0.5 * value for value in fine["worth"]],
        "possible": 0.0,
        "picks": {**fine["picks"], "unflagged": 2, "beaten_unflagged": 2},
    }
    assert [bar["holds"] for bar in verdict([wrong], [{"case": "y", "rank_correlations": [0.5]}])] == [False] * 7


def test_a_comparison_writes_its_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(comparison, "Workers", Here)
    np.save(tmp_path / "mine.npy", gaussian_pool(50, 4, 3).numpy())
    out = tmp_path / "bench.json"
    document = bench.measure(str(tmp_path / "mine.npy"), out=out, repeat=1, configurations=200)
    assert json.loads(out.read_text()) == document
    assert document["command"] == "natsel bench mine.npy --threads 1 --repeat 1"
    assert document["rows"][0]["label"] == "batchbald mine.npy N=50 K=4 C=3 B=10 S=10000"
    assert {"natsel", "torch", "python", "peers"} <= set(document["versions"])
    bench.show(document)
    assert "natsel bench --setup DIR" in capsys.readouterr().err.replace("\n", " ")


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"case: expected quick, standard, full, epig, .*, the name of a case or the file of a pool"
    ):
        cases_of("huge")
    with pytest.raises(ValueError, match="threads: needs at least 1"):
        bench.measure("quick", threads=0)
    with pytest.raises(ValueError, match=r"out: the folder of .* does not exist"):
        bench.measure("quick", out=Path("no/such/folder/bench.json"))


def test_cases_have_their_own_names_and_natsel_first() -> None:
    for cases in SETS.values():
        assert len({case.name for case in cases}) == len(cases)
        assert all(case.contenders[0] == "natsel" for case in cases)


def test_measurements_have_names_of_their_own_and_a_function_each() -> None:
    against_peers = {case.name for cases in SETS.values() for case in cases} | set(SETS)
    assert not against_peers & set(MEASUREMENTS)
    for name in MEASUREMENTS:
        found = measurement_of(name)
        assert found is not None
        module, settings = found
        assert callable(sys.modules[module].measure)
        assert settings


def test_settings_that_a_measurement_does_not_know_are_refused() -> None:
    with pytest.raises(ValueError, match="epig: has no setting 'point'; its settings are points, targets, draws"):
        measurement_of("epig:point=3")
    with pytest.raises(ValueError, match="epig: points must be a whole number, found 'many'"):
        measurement_of("epig:points=many")
    with pytest.raises(ValueError, match="journal: has no setting 'repeat'"):
        measurement_of("journal", repeat=2)
    with pytest.raises(ValueError, match="part: expected one of badge, bait, eig, large, found 'bold'"):
        published_arithmetic.measure("bold")


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without an accelerator")
def test_without_an_accelerator_its_measurement_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "Workers", Here)
    with pytest.raises(SystemExit, match=r"^accelerator: no CUDA device was found"):
        bench.measure("accelerator")


@pytest.mark.slow  # a process more: by default the test of threads starts one
@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without an accelerator")
def test_what_a_measurement_refuses_in_its_process_is_said_here() -> None:
    with pytest.raises(workers.Failed, match=r"^accelerator: no CUDA device was found"):
        bench.measure("accelerator")


def test_a_measurement_says_how_and_where_it_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(workers, "Workers", Here)
    out = tmp_path / "epig.json"
    document = bench.measure("epig:points=30,targets=4,draws=3,pick=5", repeat=1, threads=2, out=out)
    assert json.loads(out.read_text()) == document
    assert document["command"] == "natsel bench epig:points=30,targets=4,draws=3,pick=5 --threads 2 --repeat 1"
    assert document["settings"] == {
        **{"points": 30, "targets": 4, "draws": 3, "classes": 10, "pick": 5},
        **{"scored": None, "device": "cpu", "repeat": 1},
    }
    assert {"natsel", "torch", "python"} <= set(document["versions"])
    assert document["machine"]["cores"] >= 1
    bench.show(document)
    told = capsys.readouterr().err
    assert "seconds" in told
    assert document["machine"]["cpu"] in told


def test_the_process_of_a_measurement_has_the_threads_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "threads_seen.py").write_text(
        "import os, torch\ndef measure():\n    return [torch.get_num_threads(), os.environ['OPENBLAS_NUM_THREADS']]\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert workers.Workers(threads=2).natsel("measure", module="threads_seen", settings={}) == [2, "2"]


@pytest.mark.slow
def test_a_measurement_runs_from_a_checkout_with_torch_and_numpy_alone(tmp_path: Path) -> None:
    """One fresh interpreter plays both ends of the line; the test before this one starts the worker as a program."""
    for name in ("typer", "rich", "sklearn", "scipy"):
        (tmp_path / f"{name}.py").write_text(f"raise ImportError('{name} is not for this machine')")
    source, out = Path(bench.__file__).parents[2], tmp_path / "believe.json"
    call = (
        "from natsel.bench import measure, show, workers\n"
        "workers.Workers._call = lambda self, command, do, job: workers.JOBS[do](**job)\n"
        f"show(measure('believe:count=8,draws=2,device=cpu', out={str(out)!r}))"
    )
    paths = os.pathsep.join((str(tmp_path), str(source)))
    done = subprocess.run(
        [sys.executable, "-c", call],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(out.read_text())["found"]["route"] == "together"


def test_an_interpreter_that_is_not_there_fails_in_a_sentence() -> None:
    with pytest.raises(workers.Failed, match="cannot be started"):
        workers.Workers("/no/such/python").peers("versions")


def test_the_peers_worker_runs_alone() -> None:
    found = workers.Workers(sys.executable).peers("versions")
    assert found["python"]
    assert set(found["unusable"]) == set(versions()["unusable"])


def test_runs_are_timed_one_by_one_and_the_last_result_returned() -> None:
    took, result = timed(lambda run: torch.ones(run << 20).sum().item(), repeat=3)
    assert result == 2 << 20
    for name in ("seconds", "cpu_seconds"):
        assert len(took[f"{name}_runs"]) == 3
        assert took[name] == sorted(took[f"{name}_runs"])[1]


def test_meter_sees_memory_and_time() -> None:
    meter = Meter()
    # Far more than what other tests may give back meanwhile.
    _, cpu, wall = meter.lap(lambda: torch.zeros(96 << 20).add_(1).sum())
    assert meter.peak_extra_mib() > 50
    assert cpu > 0
    assert wall > 0


def test_meter_tells_garbage_collection_apart() -> None:
    meter = Meter()
    kept = [[] for _ in range(200_000)]
    _, cpu, _ = meter.lap(gc.collect)
    assert len(kept) == 200_000  # until here, so that collecting takes longer than its measurement
    assert 0.5 * cpu < meter.gc_cpu_s <= cpu
    assert meter._collecting not in gc.callbacks


def test_one_case_can_be_run_by_its_name():
    assert [case.name for case in cases_of("million")] == ["million"]


def test_a_single_case_takes_its_place_in_the_document_of_the_same_machine():
    facts = {"machine": {"cpu": "a"}, "threads": 1, "configurations": 10, "quality": []}
    before = facts | {"command": "all", "rows": [{"case": "x", "old": 1}, {"case": "y"}]}
    document = facts | {"command": "one", "rows": []}
    bench._keep_others(document, before, "x")
    assert document["rows"] == [{"case": "y"}]
    assert document["command"] == "all; one"
    elsewhere = facts | {"command": "one", "rows": [], "machine": {"cpu": "b"}}
    bench._keep_others(elsewhere, before, "x")
    assert (elsewhere["rows"], elsewhere["command"]) == ([], "one")


def test_the_page_of_benchmarks_shows_the_committed_measurements():
    root = Path(__file__).parents[2]
    page = (root / "docs" / "benchmarks.md").read_text().splitlines()
    measured = [json.loads(path.read_text()) for path in (root / "results").glob("bench-*.json")]
    assert sum(len(document["rows"]) for document in measured) > 0
    for document in measured:
        assert set(markdown(document).splitlines()) <= set(page) or not document["rows"]
