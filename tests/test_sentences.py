"""Sentences on pages that compare files of results say what the files say."""

import json
import re
from pathlib import Path

from natsel.choose.recommended import RECOMMENDED

ROOT = Path(__file__).parents[1]


def result(name):
    return json.loads((ROOT / "results" / f"{name}.json").read_text())


def says(page, sentence):
    """Whether a page has a sentence, however it is broken into lines."""
    return sentence in " ".join((ROOT / page).read_text(encoding="utf-8").split())


def test_kernel_searches_on_a_gpu_and_on_two_cores():
    gpu, cpu = (result(f"kernel-searches-{name}")["found"]["rows"] for name in ("h200", "cpu"))
    faster = {
        (one["method"], one["given"]): other["natsel_s"] / one["natsel_s"] for one, other in zip(gpu, cpu, strict=True)
    }
    (slow, least), (quick, most) = (
        (one, faster[one]) for one in (min(faster, key=faster.get), max(faster, key=faster.get))
    )
    assert (slow, quick) == (("bald", 0), ("core-set", 1000))
    sentence = f"natsel is {least:.1f} times (`bald`) to {most:.1f} times (`core-set` with points given) as fast"
    assert says("docs/benchmarks.md", sentence)


def test_picks_that_were_compared_with_those_of_the_peer():
    same = {
        (one["method"], one["given"]): one.get("same_picks") for one in result("kernel-searches-cpu")["found"]["rows"]
    }
    others = {name for name, count in same.items() if count != 256}
    assert others == {("bait", 0), ("bait", 1000), ("batchbald", 1000), ("badge", 0), ("badge", 1000)}
    assert {count for (method, _), count in same.items() if method == "badge"} == {None}
    assert says("docs/benchmarks.md", "`badge`, which draws its picks at random, was not compared.")


def test_consistent_dropout():
    found = result("believe-cpu")
    assert round(found["times_faster"]) == 12
    sentence = f"{found['count']:,} images with {found['draws']} draws take {found['seconds']:.0f} s on two cores"
    assert says(
        "docs/decisions/0008-dropout-is-caught-where-it-is-called.md", f"{sentence}, a twelfth of the direct way"
    )


def test_steps_of_selective_training():
    rows = [result("selective-step-h200")["device_rows"], result("selective-step-cpu")["found"]["rows"]]
    (a, b), (c, d) = (sorted(one["selective_ms"] / one["plain_ms"] for one in each)[:: len(each) - 1] for each in rows)
    page = " ".join((ROOT / "docs" / "selective-training.md").read_text(encoding="utf-8").split())
    found = re.search(r"It took (\S+) to (\S+) times as long on an H200 .*? and (\S+) to (\S+) times on one core", page)
    assert found.groups() == tuple(f"{ratio:.1f}" for ratio in (a, b, c, d))


def test_pages_and_commands_count_the_recommendations():
    number = {6: "six", 7: "seven", 8: "eight"}[len(RECOMMENDED)]
    assert says("docs/method.md", f"`natsel methods` prints {number} to start with")


def test_the_last_line_of_the_methods_counts_them(capsys):
    from natsel.cli import main

    main(["methods"])
    assert f"says more about these {len(RECOMMENDED)}." in " ".join(capsys.readouterr().out.split())
