"""`natsel bench` passes its options on; what is measured is tested in tests/bench."""

import json

import natsel.bench
from natsel.bench import workers


def test_bench_passes_its_options_on(call, refused, monkeypatch, tmp_path):
    seen = {}

    def measure(case, **options):
        options.pop("progress")("working")
        seen.update(options, case=case)
        return {"rows": []}

    monkeypatch.setattr(natsel.bench, "measure", measure)
    done = call(
        "bench", "full", "--python", "py", "--threads", 2, "--repeat", 1, "--out", tmp_path / "b.json", "--json"
    )
    assert json.loads(done.out) == {"rows": []}
    assert done.err == "working\n"
    assert seen["case"] == "full"
    assert seen["peers_python"] == "py"
    assert (seen["threads"], seen["repeat"], seen["out"]) == (2, 1, tmp_path / "b.json")

    def fail(*_, **__):
        raise RuntimeError("setup: pip failed;\nits messages say why")

    monkeypatch.setattr(natsel.bench, "setup", fail)
    assert "setup: pip failed; its messages say why" in refused("bench", "--setup", tmp_path / "peers")


def test_a_measurement_without_peers_has_the_same_options(call, refused, monkeypatch, tmp_path):
    """Measured in this process; tests/bench starts the real one."""
    monkeypatch.setattr(workers.Workers, "_call", lambda self, command, do, job: workers.JOBS[do](**job))
    out = tmp_path / "fisher.json"
    done = call("bench", "fisher:part=eig", "--threads", 1, "--repeat", 1, "--out", out, "--json")
    document = json.loads(done.out)
    assert json.loads(out.read_text()) == document
    assert document["command"] == "natsel bench fisher:part=eig --threads 1 --repeat 1"
    assert document["found"]["eig"]["same_scores"] is True
    assert "journal: has no setting 'repeat'" in refused("bench", "journal", "--repeat", 2)
