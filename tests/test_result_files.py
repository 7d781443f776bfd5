"""What result files say in words and in tables follows from the curves and differences that they hold."""

import json
import math
import re
import statistics
from pathlib import Path

import numpy as np
import pytest

from natsel.evaluation.savings import labels_to, median_interval
from natsel.experiments.results.claims import Claim, counted, judged, judged_across
from natsel.experiments.results.experiment import Curve, Experiment
from natsel.experiments.results.publish import _row
from natsel.experiments.results.summary import headline, table

ROOT = Path(__file__).parents[1]
FILES = {path.stem: json.loads(path.read_text()) for path in sorted((ROOT / "results").glob("*.json"))}
JUDGED = ("regression-benchmark", "epig-claims", "dirty-mnist", "epig-mnist")


def experiment_of(part):
    """The experiment that a part of a result file holds the curves of."""
    curves = [Curve(one["method"], one["seed"], one["sizes"], {"accuracy": one["accuracy"]}) for one in part["curves"]]
    return Experiment("made", curves, targets=part.get("recipe", {}).get("targets", ()))


def recomputed(part):
    """The fields that follow from the curves beside them, for those that are there."""
    made = experiment_of(part)
    runs = {
        method: [dict(zip(run.sizes, run.metrics["accuracy"], strict=True)) for run in made.of(method)]
        for method in made.methods
    }
    sizes = sorted({int(size) for one in part["median_accuracy_at"].values() for size in one})
    needed = {
        method: {
            str(level): sorted(labels_to(list(run), list(run.values()), level) or 0 for run in some)
            for level in (0.9, 0.95)
        }
        for method, some in runs.items()
    }
    found = {
        "median_accuracy_at": {
            method: {str(size): round(statistics.median(run[size] for run in some), 4) for size in sizes}
            for method, some in runs.items()
        },
        "labels_needed_by_seed": needed,
        "median_labels_needed": {
            method: {level: statistics.median(some) for level, some in of.items()} for method, of in needed.items()
        },
    }
    if made.targets:
        found |= {
            "sentence": headline(made),
            "labels_needed": json.loads(json.dumps([_row(row) for row in table(made)])),
        }
    return {name: value for name, value in found.items() if name in part}


def parts():
    """Parts of result files that hold curves of runs: (name, the part)."""
    for name, document in FILES.items():
        for place, part in (("", document), *((key, one) for key, one in document.items() if isinstance(one, dict))):
            if isinstance(part.get("curves"), list) and "sizes" in part["curves"][0]:
                yield f"{name} {place}".strip(), part


PARTS = dict(parts())


def claims_of(document):
    """All verdicts of a document, wherever they stand."""
    if isinstance(document, dict):
        own = [document] if {"verdict", "evidence"} <= set(document) else []
        return own + [one for value in document.values() for one in claims_of(value)]
    return [one for value in document for one in claims_of(value)] if isinstance(document, list) else []


def verdict_of(claim):
    """The word for what a claim's own numbers show; None where it holds none."""
    numbers = claim["numbers"]
    wanted = re.search(r"more than ([+−-][\d.]+)( points)? was wanted", claim["evidence"])
    margin = float(wanted[1].replace("−", "-")) / (100 if wanted[2] else 1) if wanted else 0.0
    if "differences" in numbers:
        found, known = float(np.median(numbers["differences"])), median_interval(numbers["differences"])
        low, high = (known.low, known.high) if known else (np.inf, -np.inf)
    elif "over_seeds" in numbers:
        found, (high, low) = -numbers["difference"], [-end for end in numbers["over_seeds"]]
    else:
        return None
    return "not beyond chance" if low <= margin <= high else "pass" if found > margin else "fail"


def test_there_are_parts_with_curves():
    assert len(PARTS) == 5


@pytest.mark.parametrize("name", PARTS)
def test_fields_of_a_result_file_follow_from_its_curves(name):
    for field, value in recomputed(PARTS[name]).items():
        assert PARTS[name][field] == value, field


@pytest.mark.parametrize("name", JUDGED)
def test_verdicts_follow_from_the_numbers_beside_them(name):
    judged_here = [one for one in claims_of(FILES[name]) if verdict_of(one)]
    assert judged_here
    for claim in judged_here:
        assert claim["verdict"] == verdict_of(claim), claim["says"]
        assert claim["passed"] == {"pass": True, "fail": False}.get(claim["verdict"])
        differences = claim["numbers"].get("differences")
        if differences:
            median, wins = float(np.median(differences)), sum(one > 0 for one in differences)
            assert claim["numbers"]["difference"] == pytest.approx(median)
            said = f"median difference {100 * median:+.1f} points (pairs of runs: {len(differences)}, "
            assert said.replace("-", "−") in claim["evidence"]
            assert f"better in {wins}; medians of each" in claim["evidence"]
            ends = f"seeds give {100 * min(differences):+.1f} points to {100 * max(differences):+.1f} points"
            assert len(differences) in (1, *range(6, 99)) or ends.replace("-", "−") in claim["evidence"]


def test_the_sentence_of_the_benchmark_counts_its_verdicts():
    document = FILES["regression-benchmark"]
    assert document["sentence"] == counted(document["claims"])


def test_claims_on_epig_follow_from_the_curves():
    """Those of each variant, and the one that compares them."""
    document, made = FILES["epig-mnist"], {}
    for variant in ("curated", "redundant"):
        made[variant] = experiment_of(document[variant])
        claims = [Claim.from_table(one) for one in document[variant]["recipe"]["claims"]]
        found = [one.as_dict() | {"where": variant} for one in judged(claims, made[variant])]
        assert json.loads(json.dumps(found)) == [one for one in document["claims"] if one["where"] == variant]
    gap = Claim("H6", "", "epig", "bald", kind="gap", at=(40, 70), largest="redundant")
    (told,) = [one for one in document["claims"] if not one["where"]]
    assert judged_across([gap], made)[0].evidence == told["evidence"]


@pytest.mark.parametrize("name", ["boosted-tables", "dirty-mnist", "regression-benchmark"])
def test_sentences_of_files_without_curves_follow_from_their_tables(name):
    """What a method and random needed, and what that saves; and of how many it is the best."""
    checked = 0
    for variant in FILES[name]["variants"].values():
        rows, sentence = variant["labels_needed"], variant["sentence"]
        words = r"([\w-]+(?: and [\w-]+)*) reached ([\d.]+)( %)? .* with (\S+) labels where"
        words += r" random needed (more than )?(\S+)"
        told = re.search(words, sentence)
        if told is None:
            assert sentence.startswith(("No method was seen", "random")) or " ended at " in sentence
            continue
        target = float(told[2]) / (100 if told[3] else 1)
        here = {row["method"]: row for row in rows if row["target"] == pytest.approx(target)}
        base = here.pop("random")
        for method in told[1].split(" and "):
            mine = here[method]
            assert mine["at_least"][1] == float(told[4])
            assert base["at_least"][1] == float(told[6].strip(":"))
            if " saved (" in sentence and not told[5]:
                assert f": {100 * (1 - mine['at_least'][1] / base['at_least'][1]):.0f} % saved (" in sentence
        if " saved (" in sentence:
            assert f"(the best of {len(here)} methods, " in sentence
            best = max(row["saved"][0] for row in here.values() if row["saved"] and row["saved"][0] is not None)
            assert mine["saved"][0] == pytest.approx(best)
        checked += 1
    assert checked


def test_what_pages_count_in_the_benchmark_is_so():
    """How many claims held, how many intervals hold 0, and by how many per cent errors are smaller."""
    document = FILES["regression-benchmark"]
    page = " ".join((ROOT / "docs/benchmarks.md").read_text().split())
    held = sum(one["verdict"] == "pass" for one in document["claims"])
    chance = [one["says"] for one in document["claims"] if one["verdict"] == "not beyond chance"]
    assert (held, len(document["claims"]), len(chance)) == (8, 12, 4)
    assert "Of the twelve published claims that the recipe states eight held" in page
    assert sorted(chance) == [
        "core-set beats random for boosted trees",
        "random beats ACS-FW for boosted trees",
        "random beats BatchBALD for boosted trees",
        "random beats top-k BALD for random forests",
    ]
    mains = [
        next(one for one in group["methods"]["random"] if one.endswith("rmse")) for group in document["groups"].values()
    ]
    rows = [
        row[main]
        for main, group in zip(mains, document["groups"].values(), strict=True)
        for method, row in group["methods"].items()
        if method != "random"
    ]
    holding = sum(row["over_sets"][0] <= 0 <= row["over_sets"][1] for row in rows)
    of_claims = sum(one["numbers"]["over_sets"][0] <= 0 <= one["numbers"]["over_sets"][1] for one in document["claims"])
    assert (holding, len(rows), of_claims) == (18, 21, 9)
    assert "the interval of nine of the twelve holds 0, and of 18 of the 21 differences above" in page
    which, lcmd = (ROOT / "docs/which-method.md").read_text(), []
    for main, group in zip(mains, document["groups"].values(), strict=True):
        row = group["methods"]["lcmd"][main]
        lcmd.append([round(100 * (1 - math.exp(one))) for one in (row["difference"], *reversed(row["over_seeds"]))])
    (a, b, c), (d, e, f), (g, h, i) = lcmd
    assert (
        f"by {a} % for ensembles of networks (95 % interval over seeds {b} to {c}), {d} % for forests ({e} to {f})"
        in which
    )
    assert f"and {g} % for boosted trees ({h} to {i})" in which
