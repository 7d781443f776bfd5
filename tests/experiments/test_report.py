import base64
import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from importlib import resources
from itertools import combinations

import numpy as np
import pytest

from made_experiments import SPEEDS, made_curve, made_experiment
from natsel.experiments.report.report import report
from natsel.experiments.results.experiment import Batch, Curve, Experiment
from natsel.experiments.results.summary import headline

VOID = {"meta", "img", "input", "br"}


class Page(HTMLParser):
    """Reads a page strictly: what is opened must be closed, ids are unique."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.words = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []
        ids = [at["id"] for _, at in self.tags if "id" in at]
        assert len(ids) == len(set(ids))

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.words.append(data)

    def all(self, tag):
        return [at for name, at in self.tags if name == tag]

    @property
    def text(self):
        return " ".join(" ".join(self.words).split()).replace("\u00a0", " ")


@pytest.fixture(scope="module")
def experiment():
    return made_experiment()


@pytest.fixture(scope="module")
def page(experiment):
    return Page(report(experiment))


def test_the_page_opens_with_the_headline(experiment, page):
    assert headline(experiment) in page.text
    headings = [word for word in page.words if word in ("Learning curves", "Labels needed", "What was picked")]
    assert len(headings) == 6  # in the navigation and above each section


def test_the_page_is_one_file_that_asks_no_host(experiment):
    text = report(experiment)
    for address in re.findall(r"""(?:\s(?:src|href)=|url\()["']?([^"')>\s]+)""", text):
        assert address.startswith(("data:", "#"))
    assert not re.findall(r"https?://|//cdn|@import|<script|<link|javascript:|\son\w+=", text)
    assert "default-src 'none'" in text
    assert len(text.encode()) < 1_500_000


def test_the_page_can_be_read_by_all(page):
    assert page.all("html")[0]["lang"] == "en"
    assert page.all("meta")[2]["name"] == "viewport"
    charts = [at for at in page.all("svg") if "chart" in at["class"]]
    assert len(charts) >= 6
    assert all(at["role"] == "img" and len(at["aria-label"]) > 10 for at in charts)
    assert all(at["alt"] for at in page.all("img"))
    assert all("scope" in at for at in page.all("th"))
    assert len(page.all("caption")) == len(page.all("table"))
    anchors = {at["href"] for at in page.all("a") if at["href"].startswith("#")}
    assert anchors == {f"#{at['id']}" for at in page.all("section")}


def test_the_numbers_are_in_the_page(experiment, page):
    link = next(at for at in page.all("a") if "download" in at)
    kind, content = link["href"].split(",", 1)
    assert kind == "data:application/json;base64"
    found = json.loads(base64.b64decode(content))
    assert len(found["curves"]) == len(experiment.curves)
    for mine, theirs in zip(found["curves"], experiment.numbers()["curves"], strict=True):
        assert mine["sizes"] == theirs["sizes"]
        for name in ("ids", "labels"):
            assert [batch[name] for batch in mine["batches"]] == [batch[name] for batch in theirs["batches"]]
        assert mine["metrics"]["accuracy"] == pytest.approx(theirs["metrics"]["accuracy"], rel=1e-5)


def test_the_protocol_is_told_in_full(page):
    for word in (
        "Seeds 0, 1, 2, 3, 4",
        "a random part of the pool: 500 of the 1,797 points",
        "128, 128",
        "copies",
        "torch 2.13.0",
    ):
        assert word in page.text
    assert "natsel run digits --folder runs/digits" in page.text
    whole = Page(report(replace(made_experiment(2, 1), candidates=None)))
    assert "Each round scores the whole pool of 1,797 points." in whole.text


def test_savings_come_with_their_fine_print(page):
    """Nothing is called a 95 % interval that is not: six seeds are needed for one."""
    assert "Below it the least and the greatest saving of a single seed: 5 seeds are too few" in page.text
    assert "the best of 4 methods; being the best is partly luck" in page.text
    enough = Page(report(made_experiment(2, 6)))
    assert "Below it a 95 % interval: a bootstrap over seeds" in enough.text
    assert "too few" not in enough.text
    base, other = made_experiment(3, 6), made_experiment(3, 3)
    mixed = [run for run in base.curves if run.method != base.methods[-1]] + list(other.of(base.methods[-1]))
    text = Page(report(replace(base, curves=mixed))).text
    assert "in pairs. For fewer than 6 seeds it is the least and the greatest saving of a single seed: 3" in text


def test_a_bound_is_explained_by_one_that_the_table_shows():
    made = made_experiment(3, 3)
    short = [
        replace(run, sizes=run.sizes[:9], metrics={name: column[:9] for name, column in run.metrics.items()},
                seconds={name: column[:9] for name, column in run.seconds.items()}, batches=run.batches[:8])
        for run in made.curves
    ]  # fmt: skip
    text = Page(report(replace(made, curves=short))).text
    last = short[0].sizes[-1]
    assert f">{last}” means more than {last}: runs ended before they had reached it" in text
    assert ">300" not in text
    reached = Page(report(replace(made, targets=(0.5,)))).text
    assert "means that it was not reached" not in reached


def test_wide_tables_say_on_a_phone_that_they_scroll(page):
    hints = [at for at in page.all("p") if at.get("class") == "sideways"]
    assert len(hints) >= 1
    sheet = resources.files("natsel.experiments.report").joinpath("report.css").read_text(encoding="utf-8")
    narrow = sheet.partition("@media (max-width: 44rem)")[2].partition("@media print")[0]
    assert ".sideways { display: block; }" in narrow
    assert "e+0" not in page.text


def test_what_was_picked_is_shown(experiment, page):
    assert len(page.all("img")) == 5 * 2 * 10
    bars = [at["aria-label"] for at in page.all("span") if at.get("class") == "split" and "aria-label" in at]
    first = experiment.of("random")[0].batches[0]
    assert bars[0] == f"{first.epistemic[0]:.2f} nats a label can remove, {first.aleatoric[0]:.2f} nats of noise"
    texts = Page(report(made_experiment(2, 1, texts=True, classes=150)))
    assert texts.all("img") == []
    assert "and 5 more" in texts.text


def test_methods_can_be_hidden_without_a_script(experiment):
    text = report(experiment)
    for name in ("base", *range(4)):
        assert f'<input type="checkbox" id="show-{name}" checked>' in text
        assert f"body:has(#show-{name}:not(:checked)) main .p-{name}" in text


@pytest.mark.parametrize("nasty", ["<script>alert(1)</script>", "\"' onload=x &amp;", "</style></title>", "β≤∞ 漢字"])
def test_names_and_texts_cannot_break_out(nasty):
    curve = Curve(
        nasty,
        0,
        [10, 20],
        {"accuracy": [0.5, 0.9], nasty: [1, 2]},
        Batch([]),
        [Batch([1], [0], [1], [1], [1])],
        {nasty: [1, 1]},
        nasty,
    )
    found = Page(
        report(
            Experiment(
                nasty,
                [curve],
                nasty,
                {nasty: nasty, "deep": [{nasty: None}]},
                [nasty],
                thumbnails={1: nasty},
                notes=[nasty],
                versions={nasty: nasty},
                command=nasty,
            )
        )
    )
    assert found.all("script") == []
    assert not any(name.startswith("on") for _, at in found.tags for name in at)
    assert found.words.count(nasty) >= 5


def _cut(curve, count):
    return replace(
        curve,
        sizes=curve.sizes[:count],
        metrics={name: column[:count] for name, column in curve.metrics.items()},
        seconds={name: column[:count] for name, column in curve.seconds.items()},
        batches=curve.batches[: max(0, count - 1)],
        stopped="",
    )


def test_half_done_experiments_say_so(experiment):
    curves = [_cut(curve, 3) if curve.seed == 4 else curve for curve in experiment.curves[:-1]]
    text = Page(report(replace(experiment, curves=curves))).text
    assert "4 of 24 runs had not finished" in text
    assert "Not every method has been run with every seed" in text
    assert "A line is dotted where some runs have ended already." in text


@pytest.mark.parametrize("count", [0, 1])
def test_experiments_that_have_hardly_begun(experiment, count):
    started = replace(experiment, curves=[_cut(curve, count) for curve in experiment.curves])
    found = Page(report(started))
    assert not any("nan" in value for _, at in found.tags for name, value in at.items() if name in ("d", "x", "y"))
    assert "runs had not finished" in found.text


def test_an_empty_experiment_has_a_page():
    assert "Nothing has been measured yet." in Page(report(Experiment("x", []))).text


def test_one_seed_one_method_and_no_baseline():
    alone = made_experiment(methods=2, seeds=1)
    text = Page(report(replace(alone, curves=[curve for curve in alone.curves if curve.method != "random"]))).text
    assert "There is no run of random here, so that labels saved cannot be told." in text
    assert "saved (" not in text


def test_regression_shows_no_classes_and_no_bars_below_zero():
    """The entropy of Gaussian noise may be negative: no length can show it."""
    curves = [
        replace(
            made_curve(method, seed, speed=speed, sizes=range(10, 60, 10), classes=5, pool=90),
            metrics={"rmse": [5.0, 4.0, 3.0, 2.5, 2.2], "nll": [math.inf, 2, 1, 0, -1]},
            batches=[Batch([1, 2], [0.25, -1.5], [1, 1], [0.3, 0.2], [-1.0, 0.1], ["read to second order"])],
        )
        for method, speed in list(SPEEDS.items())[:2]
        for seed in range(2)
    ]
    found = Page(report(Experiment("housing", curves, metric="rmse", targets=[3.0])))
    assert "How evenly" not in found.text
    assert "Lower rmse is better." in found.text
    assert "a full bar" not in found.text.lower()
    assert "-1.5" in found.text
    assert "id 2" in found.text
    assert "read to second order" in found.text


def test_large_experiments_stay_small():
    """48 runs of 1,000 labels and pictures of noise, which no compression helps with."""
    rng = np.random.default_rng(0)
    curves = [
        made_curve(method, seed, speed=speed, sizes=range(20, 1021, 10), classes=10, pool=50_000)
        for method, speed in SPEEDS.items()
        for seed in range(8)
    ]
    shown = {
        id
        for curve in curves
        if curve.seed == 0
        for batch in curve.batches[:: len(curve.batches) - 1]
        for id in batch.ids
    }
    pictures = {id: rng.integers(0, 256, (224, 224, 3), dtype=np.uint8) for id in shown}
    text = report(Experiment("large", curves, thumbnails=pictures, targets=[0.9], classes=[str(c) for c in range(10)]))
    assert len(text.encode()) < 1_500_000
    assert "are left out; the journals of the runs hold them" in text
    found = json.loads(base64.b64decode(re.search(r"application/json;base64,([^\"]+)", text)[1]))
    assert "batches" not in found["curves"][0]
    assert len(found["curves"][0]["metrics"]["accuracy"]) == 101


def _colours(dark):
    sheet = resources.files("natsel.experiments.report").joinpath("report.css").read_text(encoding="utf-8")
    blocks = re.findall(r":root \{(.*?)\}", sheet, flags=re.S)
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", blocks[1 if dark else 0]))


def _linear(colour):
    channels = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def _contrast(one, other):
    light, dark = sorted((_linear(colour) @ [0.2126, 0.7152, 0.0722] for colour in (one, other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("dark", [False, True])
def test_contrast_is_enough(dark):
    """WCAG AA: 4.5 for text, 3 for lines."""
    colours = _colours(dark)
    for ground in ("paper", "card", "warn"):
        assert _contrast(colours["ink"], colours[ground]) >= 7
    for ground in ("paper", "card"):
        for word in ("quiet", "link"):
            assert _contrast(colours[word], colours[ground]) >= 4.5
    for line in ("base", *(f"m{number}" for number in range(6)), "epistemic", "focus"):
        assert _contrast(colours[line], colours["card"]) >= 3


# Machado, Oliveira and Fernandes 2009, severity 1, on linear RGB
_SIGHT = {
    "all cones": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}


def _oklab(linear):
    cones = [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
    mix = [
        [0.2104542553, 0.793617785, -0.0040720468],
        [1.9779984951, -2.428592205, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.808675766],
    ]
    return np.array(mix) @ np.cbrt(np.array(cones) @ np.clip(linear, 0, 1))


@pytest.mark.parametrize("sight", _SIGHT)
@pytest.mark.parametrize("dark", [False, True])
def test_colours_differ_for_every_eye(dark, sight):
    """OKLab distances of 0.06 and more between all methods (0.02 can just be seen side by side)."""
    colours = _colours(dark)
    seen = [_oklab(np.array(_SIGHT[sight]) @ _linear(colours[name])) for name in ("base", *(f"m{n}" for n in range(6)))]
    assert min(np.linalg.norm(one - other) for one, other in combinations(seen, 2)) >= 0.06
