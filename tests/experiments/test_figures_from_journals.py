"""Every figure of an experiment is recomputed from its journals by other code: SQL, and arithmetic of this file alone.

Three experiments: the recipe `digits`, a regression and an imbalanced classification by `natsel run --new`; small ones,
with methods that have other seeds and another number of labels per round than the others. Held to it are the page,
`--json`, the CSV files and what the terminal says.
"""

import base64
import contextlib
import csv
import io
import json
import math
import re
import sqlite3
import statistics
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from natsel.cli import main
from natsel.experiments.recipe.plan import load_plan
from natsel.experiments.running.run import run_plan

FEW = 6
"""Seeds from which on there is an interval."""


def called(*arguments):
    """What a command prints."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(io.StringIO()):
        assert main([str(one) for one in arguments]) == 0
    return said.getvalue()


@dataclass
class Made:
    """An experiment with all that natsel says about it, and its runs as SQL finds them: {method: {seed: {size: …}}}."""

    folder: Path
    metric: str
    higher: bool
    said: dict
    terminal: str
    page: str
    files: dict
    runs: dict
    picks: dict
    seconds: dict
    classes: int


def read(path):
    """A journal: metrics by size, the labels of its picks, and all seconds."""
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as base:
        rounds = base.execute("SELECT seq, n_labelled, seconds FROM rounds ORDER BY seq").fetchall()
        measured = {}
        for seq, size, _ in rounds:
            found = dict(base.execute("SELECT name, value FROM metrics WHERE seq = ?", (seq,)).fetchall())
            if found:
                measured[size] = found
        values = dict(base.execute("SELECT id, value FROM labels ORDER BY seq, step").fetchall())
        asked = base.execute("SELECT id FROM acquisitions ORDER BY seq, step").fetchall()
        spent = [json.loads(one[2]) for one in rounds]
        spent += [json.loads(one) for (one,) in base.execute("SELECT seconds FROM asks ORDER BY seq")]
    return measured, [values[id] for (id,) in asked], sum(sum(one.values()) for one in spent)


def made(folder, recipe, calls, metric, classes):
    for options in calls:
        plan = load_plan(recipe).adjusted(**{name: options.get(name) for name in ("methods", "seeds", "budget")})
        outcomes = run_plan(plan, folder, processes=0, device="cpu")
        assert not outcomes[""].failed
    said = json.loads(called("report", folder, "--json", "--figures", folder / "figures", "--format", "csv"))
    files = {
        name: list(csv.DictReader((folder / "figures" / f"{name}.csv").open())) for name in ("curves", "labels-saved")
    }
    found = {}
    for path in sorted(folder.glob("*/seed-*.db")):
        found.setdefault(path.parent.name, {})[int(path.stem.removeprefix("seed-"))] = read(path)
    names = {
        re.sub(r"[^a-z0-9.-]+", "-", one.replace("β=", "beta-").replace("k=", "k-").lower()): one
        for one in said["methods"]
    }
    runs = {names[slug]: {seed: one[0] for seed, one in of.items()} for slug, of in found.items()}
    return Made(
        folder, metric, metric != "rmse", said, called("report", folder), (folder / "report.html").read_text(), files,
        {name: runs[name] for name in said["methods"]},
        {names[slug]: {seed: one[1] for seed, one in of.items()} for slug, of in found.items()},
        {names[slug]: {seed: one[2] for seed, one in of.items()} for slug, of in found.items()},
        classes,
    )  # fmt: skip


CALLS = {
    "digits": [("random,bald", "0-1", 20), ("random", "2", 20)],
    "regression": [("random,bald:k=9", "0-5", 28), ("random", "6", 28)],
    "imbalanced": [("random,bald", "0-2", 20)],
    "digits, larger": [("random,bald,batchbald,power-bald", "0-2", 60), ("random", "3-5", 60)],
    "regression, larger": [("random,bald,bald:k=3", "0-5", 40), ("random", "6-8", 40)],
    "imbalanced, larger": [("random,bald,power-bald,margin:k=3", "0-6", 40), ("bald", "7", 40)],
}
"""Methods, seeds and budget of each call; a later call adds to the runs of the one before."""


@pytest.fixture(
    scope="module", params=[pytest.param(one, marks=[pytest.mark.slow] * ("larger" in one)) for one in CALLS]
)
def experiment(request, tmp_path_factory):
    place, rng = tmp_path_factory.mktemp("figures"), np.random.default_rng(0)
    kind = request.param.partition(",")[0]
    calls = [dict(zip(("methods", "seeds", "budget"), one, strict=True)) for one in CALLS[request.param]]
    if kind == "digits":
        return made(place / "runs", "digits", calls, "accuracy", 10)
    x = rng.normal(size=(150, 3))
    numbers = x @ [1.0, 2.0, 3.0] + rng.normal(0, 0.3, 150)
    kinds = np.where(x[:, 0] + 0.3 * x[:, 1] > 1.3, "rare", "usual")
    lines = [f"{a},{b},{c},{one}" for (a, b, c), one in zip(x, numbers if kind == "regression" else kinds, strict=True)]
    (place / "data.csv").write_text("\n".join(["a,b,c,y", *lines]))
    called("run", "--new", place / "new.toml", "--data", place / "data.csv", "--labels", "y")
    (place / "new.toml").write_text((place / "new.toml").read_text().replace("trees = 100", "trees = 7"))
    metric, classes = ("rmse", 0) if kind == "regression" else ("balanced accuracy", 2)
    return made(place / "runs", place / "new.toml", calls, metric, classes)


def needed(run, target, higher):
    """(least, most) labels that a run may have needed."""
    reached = [size for size in sorted(run) if (run[size] >= target if higher else run[size] <= target)]
    return (reached[0], reached[0]) if reached else (max(run), math.inf)


def between(values, share):
    """A quantile by straight lines."""
    ordered, place = sorted(values), (len(values) - 1) * share
    below, part = int(place), place - int(place)
    return ordered[below] if not part else ordered[below] * (1 - part) + ordered[below + 1] * part


def saved(mine, base):
    """(least, most) share saved; no labels are needed by no run here."""
    low = -math.inf if math.isinf(mine[1]) else 1 - mine[1] / base[0]
    return low, 1.0 if math.isinf(base[1]) else 1 - mine[0] / base[1]


def pairs(experiment, method):
    """The runs of a method and of random by seeds in common, at sizes of both and the rest of the longer."""
    runs = {
        name: {
            seed: {size: one[experiment.metric] for size, one in run.items()}
            for seed, run in experiment.runs[name].items()
        }
        for name in (method, "random")
    }
    seeds = sorted(set(runs[method]) & set(runs["random"]))
    grids = [{size for seed in seeds for size in runs[name][seed]} for name in runs] * (2 if method == "random" else 1)
    shorter = min(max(grid) for grid in grids)
    kept = {size for grid in grids for size in grid if size in grids[0] & grids[1] or size >= shorter}
    return [
        [{size: one for size, one in runs[name][seed].items() if size in kept} for seed in seeds]
        for name in (method, "random")
    ]


def row_of(experiment, method, target, among=1):
    """All that is told of a method and a target."""
    both = [[needed(run, target, experiment.higher) for run in some] for some in pairs(experiment, method)]
    found = {
        "needed": [[between([one[end] for one in both[0]], share) for end in (0, 1)] for share in (0.25, 0.5, 0.75)]
    }
    found |= {"runs": len(both[0]), "reached": sum(math.isfinite(one[1]) for one in both[0])}
    if method == "random":
        return found | {"saved": None, "interval": None}
    medians = [[between([one[end] for one in some], 0.5) for end in (0, 1)] for some in both]
    found |= {"saved": saved(*medians), "base": medians[1], "interval": None}
    by_seed = [saved(one, other) for one, other in zip(*both, strict=True)]
    found["seeds"] = (min(one[0] for one in by_seed), max(one[1] for one in by_seed))
    if len(both[0]) >= FEW:
        drawn = np.random.default_rng(0).integers(len(both[0]), size=(4000, len(both[0]))).tolist()
        shares = []
        for places in drawn:
            again = [[statistics.median(some[place][end] for place in places) for end in (0, 1)] for some in both]
            shares.append(saved(*again))
        lows, highs = sorted(one[0] for one in shares), sorted(one[1] for one in shares)
        tail = 0.025 / among
        found["interval"] = (lows[math.floor(3999 * tail)], highs[math.ceil(3999 * (1 - tail))])
    return found


@pytest.fixture(scope="module")
def rows(experiment):
    targets = list(dict.fromkeys(row["target"] for row in experiment.said["labels_needed"]))
    return {(method, target): row_of(experiment, method, target) for method in experiment.runs for target in targets}


def level(experiment, value):
    if experiment.metric == "rmse":
        return f"{value:.3g}"
    return f"{100 * value:.1f}".removesuffix(".0") + " %"


def labels(known):
    return ("" if known[0] == known[1] else ">") + f"{known[0]:.2f}".rstrip("0").rstrip(".")


def percent(value):
    return f"{100 * value:.0f}".replace("-0", "0").replace("-", "−")


def span(low, high):
    if math.isinf(low):
        return "unknown" if high >= 1 else f"at most {percent(high)} %"
    return f"at least {percent(low)} %" if high >= 1 else f"{percent(low)} to {percent(high)} %"


def share(low, high):
    return f"{percent(low)} %" if low == high else span(low, high)


def ends(experiment):
    """What each method came to at the last size that all have, over seeds that all have there."""
    sizes = [{size for run in of.values() for size in run} for of in experiment.runs.values()]
    at = max(set.intersection(*sizes))
    seeds = set.intersection(*({seed for seed, run in of.items() if at in run} for of in experiment.runs.values()))
    values = {name: [of[seed][at][experiment.metric] for seed in seeds] for name, of in experiment.runs.items()}
    return at, seeds, {name: statistics.median(some) for name, some in values.items()}


def sentence(experiment, rows):
    """The headline, by its rules."""
    targets = list(dict.fromkeys(target for _, target in rows))
    others = [method for method in experiment.runs if method != "random"]
    exact = [one for one in targets if rows["random", one]["needed"][1][0] == rows["random", one]["needed"][1][1]]
    exact = exact or [
        one for one in targets if any(rows[m, one]["needed"][1][0] == rows[m, one]["needed"][1][1] for m in others)
    ]
    if not exact:
        at, seeds, found = ends(experiment)
        best = (max if experiment.higher else min)(found, key=found.get)
        told = f"{best} ended at {experiment.metric} {level(experiment, found[best])} with {at} labels"
        told += f", random at {level(experiment, found['random'])}" if best != "random" else ""
        counts = sorted({len(of) for of in experiment.runs.values()})
        common = f" in common, of {' and '.join(map(str, counts))}" if counts[-1] > len(seeds) else ""
        return f"{told} (medians of {len(seeds)} seeds{common})."
    target = exact[-1]
    best = max(others, key=lambda method: rows[method, target]["saved"])
    one = row_of(experiment, best, target, among=len(others))
    same = [
        m
        for m in others
        if (rows[m, target]["needed"][1], rows[m, target]["saved"]) == (one["needed"][1], one["saved"])
    ]
    goal = f"{level(experiment, target)} {experiment.metric}"
    counts = sorted({len(experiment.runs[best]), len(experiment.runs["random"])})
    seeds = f"medians of {one['runs']} seeds" + (
        f" in common, of {' and '.join(map(str, counts))}" if counts[-1] > one["runs"] else ""
    )
    told = f"{' and '.join(same)} reached {goal} with {labels(one['needed'][1])} labels where random needed"
    told += f" {labels(one['base']).replace('>', 'more than ')}"
    if one["needed"][1][0] != one["needed"][1][1]:
        return f"No method was seen to reach {goal} with fewer labels than random ({seeds})."
    if one["saved"][1] <= 0:
        return f"No method saved labels on the way to {goal}: the best, {told} ({seeds})."
    low, high = one["interval"] or one["seeds"]
    kind = ("95 % interval" + " widened for that:" * (len(others) > 1)) if one["interval"] else "seeds give"
    seeds = f"the best of {len(others)} methods, {seeds}" if len(others) > 1 else seeds
    doubt = f"{kind} {span(low, high)}{'' if low > 0 else ', so perhaps none'}"
    return f"{told}: {share(*one['saved'])} saved ({seeds}, {doubt})."


def plain(text):
    """A cell of the page without its markup."""
    return " ".join(
        re.sub(r"<[^>]*>", " ", text).replace("&gt;", ">").replace("\u00a0", " ").replace("&nbsp;", " ").split()
    )


def table_of(page, caption):
    """The rows of the table with this caption, as plain cells."""
    (body,) = re.findall(rf"<caption>{re.escape(caption)}</caption>.*?<tbody>(.*?)</tbody>", page, re.S)
    return [
        [plain(cell) for cell in re.findall(r"<t[hd].*?>(.*?)</t[hd]>", row, re.S)]
        for row in re.findall(r"<tr.*?</tr>", body, re.S)
    ]


def test_json_says_what_the_journals_hold(experiment, rows):
    for method, of in experiment.runs.items():
        found = experiment.said["methods"][method]
        assert found["seeds"] == sorted(of)
        assert found["labels"] == [max(of[seed]) for seed in sorted(of)]
        assert found[experiment.metric] == [of[seed][max(of[seed])][experiment.metric] for seed in sorted(of)]
    assert len(experiment.said["labels_needed"]) == len(rows)
    for found in experiment.said["labels_needed"]:
        row = rows[found["method"], found["target"]]
        assert found["at_least"] == [low for low, _ in row["needed"]]
        assert found["quartiles"] == [low if low == high else None for low, high in row["needed"]]
        assert (found["runs"], found["reached"]) == (row["runs"], row["reached"])
        for name in ("saved", "interval"):
            assert (found[name] is None) == (row[name] is None)
            if row[name]:
                assert found[name] == pytest.approx([end if math.isfinite(end) else None for end in row[name]])
    assert experiment.said["sentence"] == sentence(experiment, rows)


def test_the_csv_files_say_what_the_journals_hold(experiment, rows):
    checked = 0
    for line in experiment.files["curves"]:
        at, of = int(line["labels"]), experiment.runs[line["method"]]
        known = {seed: run[at][line["metric"]] for seed, run in of.items() if at in run}
        inside = []  # between two measurements a curve is a straight line
        for run in of.values():
            below, above = (
                max((one for one in run if one <= at), default=None),
                min((one for one in run if one >= at), default=None),
            )
            if below is not None and above is not None:
                part = (at - below) / (above - below or 1)
                inside.append(run[below][line["metric"]] * (1 - part) + run[above][line["metric"]] * part)
        assert int(line["runs"]) == len(inside)
        for name, place in (("lower quartile", 0.25), ("median", 0.5), ("upper quartile", 0.75)):
            assert float(line[name]) == pytest.approx(between(inside, place))
        told = {
            int(name.removeprefix("seed ")): float(one)
            for name, one in line.items()
            if name.startswith("seed ") and one
        }
        assert told == pytest.approx(known)
        checked += len(told)
    assert checked == sum(len(one) for of in experiment.runs.values() for run in of.values() for one in run.values())
    for line in experiment.files["labels-saved"]:
        row = rows[line["method"], float(line[experiment.metric])]
        median = row["needed"][1]
        assert line["more than"] == ("" if median[0] == median[1] else str(float(median[0])))
        for name, (low, high) in zip(("lower quartile", "median", "upper quartile"), row["needed"], strict=True):
            assert line[name] == (str(float(low)) if low == high else "")
        for name, ends_of in (("saved", row["saved"]), ("interval", row["interval"])):
            told = [float(line[f"{name} {end}"]) if line[f"{name} {end}"] else None for end in ("from", "to")]
            assert told == pytest.approx(
                [end if math.isfinite(end) else None for end in ends_of or (math.inf, math.inf)]
            )
        assert (int(line["runs"]), int(line["reached"])) == (row["runs"], row["reached"])


def test_the_terminal_says_what_the_journals_hold(experiment, rows):
    words = " ".join(experiment.terminal.split())
    assert sentence(experiment, rows) in words
    targets = list(dict.fromkeys(target for _, target in rows))
    at, seeds, found = ends(experiment)
    last = max(size for of in experiment.runs.values() for run in of.values() for size in run)
    assert (
        " ".join(
            ["method", *(level(experiment, one) for one in targets), "at the end" if at == last else f"at {at} labels"]
        )
        in words
    )
    for method, of in experiment.runs.items():
        cells = []
        for target in targets:
            row = rows[method, target]
            cell = labels(row["needed"][1])
            if row["saved"] and math.isfinite(row["saved"][0]):
                cell += f" ({'' if row['saved'][0] == row['saved'][1] else '≥ '}{percent(row['saved'][0])} %)"
            cells.append(cell)
        end = level(experiment, found[method]) + (f" ({len(seeds)} of {len(of)} runs)" if len(seeds) < len(of) else "")
        assert " ".join([method, *cells, end]) in words


def test_the_page_says_what_the_journals_hold(experiment, rows):
    page = experiment.page
    assert sentence(experiment, rows) in plain(page)
    targets = list(dict.fromkeys(target for _, target in rows))
    if targets:
        for cells in table_of(page, "Labels needed for each target"):
            method, wanted = cells[0], []
            for target in targets:
                row = rows[method, target]
                lower, middle, upper = row["needed"]
                told = [labels(lower), labels(upper)]
                quarters = "" if told[0] == told[1] and lower[0] != lower[1] else " to ".join(told)
                missed = f"{row['reached']} of {row['runs']} runs" if row["reached"] < row["runs"] else ""
                wanted.append(" ".join(filter(None, [labels(middle), quarters, missed])))
                if row["saved"] is None:
                    wanted.append("–")
                else:
                    below = span(*(row["interval"] or row["seeds"]))
                    wanted.append(
                        " ".join(
                            filter(None, [share(*row["saved"]), "" if share(*row["saved"]) == "unknown" else below])
                        )
                    )
            assert cells[1:] == wanted, method
    unit = "" if experiment.metric == "rmse" else " (%)"
    for size, *medians in table_of(page, f"Median {experiment.metric}{unit} at each number of labels"):
        lines = {
            one["method"]: one
            for one in experiment.files["curves"]
            if one["metric"] == experiment.metric and one["labels"] == size
        }
        for method, cell in zip(experiment.runs, medians, strict=True):
            assert (cell == "") == (method not in lines)
            if cell:
                scale = 100 if unit else 1
                assert float(cell) == pytest.approx(scale * float(lines[method]["median"]), rel=0.006, abs=0.051)
    for cells in table_of(page, "Time of each method"):
        spent = statistics.median(experiment.seconds[cells[0]].values())
        number, of = re.fullmatch(r"([\d.]+) (ms|s)", cells[-1]).groups()
        assert float(number) * {"ms": 0.001, "s": 1.0}[of] == pytest.approx(spent, rel=0.06, abs=0.0006)
    sizes = [size for of in experiment.runs.values() for run in of.values() for size in run]
    facts = dict(re.findall(r"<dt>([^<]+)</dt><dd>([^<]+)</dd>", page.partition("</header>")[0]))
    assert facts["methods"] == str(len(experiment.runs))
    assert facts["seeds"] == str(len({seed for of in experiment.runs.values() for seed in of}))
    assert facts["labels"] == f"{min(sizes)} to {max(sizes)}"
    for method, of in experiment.picks.items():
        if experiment.classes:
            counts = [sum(label == one for some in of.values() for label in some) for one in range(experiment.classes)]
            never = sum(count == 0 for count in counts)
            told = f"{never} of {experiment.classes} never picked"
            caption = re.findall(rf"<b>{re.escape(method)}</b>(?:<small>([^<]*)</small>)?</figcaption>", page)
            assert (told if never else "") in caption


def test_the_numbers_of_the_page_are_those_of_the_journals(experiment):
    (content,) = re.findall(r'href="data:application/json;base64,([^"]+)"', experiment.page)
    numbers = json.loads(base64.b64decode(content))
    assert {(one["method"], one["seed"]) for one in numbers["curves"]} == {
        (m, s) for m, of in experiment.runs.items() for s in of
    }
    for one in numbers["curves"]:
        run = experiment.runs[one["method"]][one["seed"]]
        assert one["sizes"] == sorted(run)
        for name, column in one["metrics"].items():
            assert column == pytest.approx([run[size][name] for size in one["sizes"]], rel=1e-5)
        picked = [label for batch in one["batches"] for label in batch["labels"]]
        assert picked == pytest.approx(experiment.picks[one["method"]][one["seed"]], rel=1e-5)


def test_unequal_classes_are_judged_by_balanced_accuracy(experiment):
    recipe = json.loads((experiment.folder / "recipe.json").read_text())["recipe"]
    assert recipe.get("metric", "") == ("balanced accuracy" if experiment.metric == "balanced accuracy" else "")
