"""Recommendations name methods that exist, and every figure in them is worked out from its result file."""

import json
import math
import re
from pathlib import Path

import pytest

import natsel
from natsel.choose.recommended import RECOMMENDED

ROOT = Path(__file__).parents[2]
BY_NAME = {one.name: one for one in RECOMMENDED}


def result(name, place=0):
    return json.loads((ROOT / BY_NAME[name].results[place]).read_text())


def labels_to(document, method, target=0.9):
    """The median of the labels that the runs of a method needed, as the file has it."""
    (row,) = [row for row in document["labels_needed"] if (row["method"], row["target"]) == (method, target)]
    return row["quartiles"][1]


def test_methods_exist_and_the_first_is_the_default():
    assert len(RECOMMENDED) == len(BY_NAME) == 7
    assert set(BY_NAME) <= set(natsel.methods())
    assert RECOMMENDED[0].name == natsel.ActiveLearner(natsel_model(), natsel.Pool([[0.0]])).method.name
    for one in RECOMMENDED:
        named = re.findall(r"\b[a-z]+(?:-[a-z]+)*\b", one.when)
        assert {"power-epig", "bait", "margin"} & set(named) <= set(natsel.methods())
        assert "\n" not in one.when + one.needs + one.measured


def natsel_model():
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(3)


def test_power_bald():
    document = result("power-bald")
    found, random = (labels_to(document, method) for method in ("power-bald β=8", "random"))
    (bald,) = [row for row in document["labels_needed"] if (row["method"], row["target"]) == ("bald", 0.9)]
    last = max(int(size) for size in document["median_accuracy_at"]["bald"])
    assert "repeated-mnist" in document["command"]
    assert BY_NAME["power-bald"].measured == (
        f"Repeated-MNIST ×4, 10 labels per round: 90 % accuracy with {found:.0f} labels, where random needed"
        f" {random:.0f}; {bald['runs'] - bald['reached']} of {bald['runs']} runs of bald did not reach it with {last}"
    )


def test_batchbald():
    document = result("batchbald")
    found, random, bald = (labels_to(document, method) for method in ("batchbald", "random", "bald"))
    assert " mnist " in document["command"]
    assert BY_NAME["batchbald"].measured == (
        f"MNIST, 10 labels per round: 90 % accuracy with {found:.0f} labels, where random needed {random:.0f} and bald"
        f" {bald:.0f}"
    )


def test_epig():
    claims = [claim for claim in result("epig")["claims"] if claim["where"] == "redundant" and claim["passed"]]
    figure = {}
    for claim in claims:
        words = r"epig against (\w+) over 40 to 70 labels: .*medians of each ([\d.]+) % and ([\d.]+) %"
        other, own, others = re.match(words, claim["evidence"]).groups()
        figure |= {"epig": own, other: others}
    assert BY_NAME["epig"].measured == (
        f"MNIST with ten digits of which two matter, 40 to 70 labels: {figure['epig']} % accuracy, random"
        f" {figure['random']} %, bald {figure['bald']} %"
    )


def test_badge():
    runs = result("badge")["variants"]
    above = sorted(100 * (one["badge"]["mean"] - one["random"]["mean"]) for one in runs.values())
    assert {name.split("-")[0] for name in runs} == {"letters", "intents"}
    assert {name.split("-")[1] for name in runs} == {"100", "1000"}
    head, bald = result("badge", 1)["spearman"][:2]
    correlation = dict(zip(head, bald, strict=True))["EIG (log-det)"]
    assert BY_NAME["badge"].measured == (
        f"letters and intents, batches of 100 and of 1,000: accuracy after the last batch {above[0]:.1f} to"
        f" {above[-1]:.1f} points above random; scores of a last layer rank points of MNIST as draws of dropout do:"
        f" rank correlation {correlation}"
    )


def test_entropy():
    document = result("entropy")["variants"]["one-network"]
    needed = [[labels_to(document, method, target) for method in ("entropy", "random")] for target in (0.7, 0.65)]
    (most, random), (few, other) = needed
    assert BY_NAME["entropy"].measured == (
        f"Dirty-MNIST, one network, 20 labels per round: 70 % accuracy with {most:.0f} labels, where random needed"
        f" {random:.0f}; 65 % with {few:.0f}, where random needed {other:.0f}"
    )


def test_lcmd():
    document = result("lcmd")
    assert document["command"] == "natsel run regression-benchmark"
    groups = document["groups"]
    metric = {"ensemble": "member rmse", "forest": "rmse", "boosted": "rmse"}
    below = {name: -groups[name]["methods"]["lcmd"][metric[name]]["difference"] for name in metric}
    assert {len(groups[name]["variants"]) for name in metric} == {8}
    ensemble, forest, boosted = (f"{-100 * math.expm1(-below[name]):.0f} %" for name in metric)
    found = {name: groups[name]["methods"]["lcmd"][metric[name]] for name in metric}
    seeds = {
        name: " to ".join(f"{-100 * math.expm1(end):.0f}" for end in reversed(one["over_seeds"]))
        for name, one in found.items()
    }
    assert [one["over_sets"][1] < 0 for one in found.values()] == [True, False, False]
    assert BY_NAME["lcmd"].measured == (
        f"eight tables, 50 labels per round: root mean squared errors below those of random by {ensemble} for ensembles"
        f" of networks (95 % interval over seeds {seeds['ensemble']}), {forest} for forests ({seeds['forest']}) and"
        f" {boosted} for boosted trees ({seeds['boosted']}); on other tables it may be none for the last two, and is"
        " some for the first"
    )


def test_random():
    against = "EPIG is above random over all labels"
    claims = [claim for claim in result("random")["epig-uci"]["claims"] if claim["says"] == against]
    failed = {claim["where"]: claim["evidence"] for claim in claims if not claim["passed"]}
    assert (len(claims), set(failed)) == (3, {"magic", "vowels"})
    words = r"median difference (\S+) points \(pairs of runs: 5, .*seeds give (\S+) points to (\S+) points"
    magic, vowels = (re.search(words, failed[name]).groups() for name in ("magic", "vowels"))
    assert BY_NAME["random"].measured == (
        "two of three small tables (magic, vowels) did not: over all labels the median difference of epig to random was"
        f" {magic[0]} and {vowels[0]} points, of five seeds that give {magic[1]} to {magic[2]} and {vowels[1]} to"
        f" {vowels[2]}"
    )


@pytest.mark.parametrize("one", RECOMMENDED, ids=lambda one: one.name)
def test_the_page_shows_the_same(one):
    page = (ROOT / "docs" / "which-method.md").read_text(encoding="utf-8")
    files = " ".join(f"`{file}`" for file in one.results)
    assert f"| `{one.name}` | {one.when} | {one.needs} |" in page
    assert f"| `{one.name}` | {one.measured} ({files}) |" in page
