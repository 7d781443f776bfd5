"""Studies: closed forms have the published values, re-weighting is Bayes' rule, and nothing is found out twice."""

import copy
import json
import math

import numpy as np
import pytest

from natsel.experiments.recipe.plan import load_plan, plan_from
from natsel.experiments.results.publish import publish
from natsel.experiments.running.run import run_plan
from natsel.experiments.studies import gp_example, online_inference, weight_space

# Length scale, sites, joint BALD and EPIG in nats: the table of docs/theory/epig-jepig.md, 13.
GP_ROWS = [
    *[(2, 2, 0.6449, 0.17651), (2, 8, 2.4326, 0.17823), (2, 32, 9.5831, 0.17823)],
    *[(1, 2, 0.6909, 0.10106), (1, 8, 2.7565, 0.10116), (1, 32, 11.0189, 0.10116)],
    *[(0.5, 2, 0.6931, 0.01463), (0.5, 8, 2.7726, 0.01463), (0.5, 32, 11.0904, 0.01463)],
    *[(0.25, 2, 0.6931, 0.00072), (0.25, 8, 2.7726, 0.00072), (0.25, 32, 11.0904, 0.00072)],
]


@pytest.mark.parametrize(("scale", "sites", "bald", "epig"), GP_ROWS)
def test_the_process_on_a_line_has_the_published_values(scale, sites, bald, epig):
    assert gp_example.bald(scale, sites) == pytest.approx(bald, abs=5.1e-5)
    assert gp_example.epig(scale, sites) == pytest.approx(epig, abs=5.1e-6)


@pytest.fixture(scope="module")
def line(tmp_path_factory):
    folder = tmp_path_factory.mktemp("line")
    run_plan(load_plan("epig-1d"), folder, command=["natsel", "run", "epig-1d"])
    return folder


def test_the_study_ends_in_a_page_and_verdicts(line):
    published = publish(line)
    assert published.sentence == "5 of 5 claims held."
    assert [one["claim"] for one in json.loads((line / "claims.json").read_text())] == ["H1", "H1", "H2", "H2", "H2"]
    page = (line / "report.html").read_text(encoding="utf-8")
    assert page.count('class="verdict pass"') == 5
    assert page.count('<svg class="chart wide"') == 4
    assert "natsel run epig-1d" in page
    assert published.as_dict()["findings"]["table"][0]["sites"] == 2


def test_claims_about_the_line_can_fail(line):
    findings = json.loads((line / "study.json").read_text())["findings"]
    verdicts = gp_example.claims(findings)
    assert all(one.passed for one in verdicts)
    wrong = copy.deepcopy(findings)
    for row in wrong["table"]:
        row["bald"], row["epig"] = 0.9 * row["bald"], 0.2
    x = np.array(wrong["map"]["x"])
    wrong["map"]["bald"] = np.exp(-(x**2)).tolist()
    for name in wrong["map"]:
        if name.startswith("epig"):
            wrong["map"][name] = np.abs(x - 7).tolist()
    assert not any(one.passed for one in gp_example.claims(wrong))


def test_other_settings_want_another_folder(line):
    other = plan_from({"name": "epig-1d", "study": "gp-example", "settings": {"length_scales": [1.0], "sizes": [2]}})
    with pytest.raises(ValueError, match=r"^settings: .* holds gp-example with .*; take another folder"):
        run_plan(other, line)


def made_findings(active, random, retrained=-0.1):
    """Rows in which re-weighting changes the loss by so much on each sequence, and training again by `retrained`."""
    rows = []
    for sequence, change in (("active", active), ("random", random)):
        for number, size in enumerate((20, 25, 30)):
            loss, accuracy = 1 + number * retrained, 0.5 - number * retrained / 2
            rows.append({
                "sequence": sequence, "trial": 0, "size": size, "loss": loss,
                "accuracy": accuracy + (sequence == "active") * 0.1,
                "before": {"loss": [loss] * 2, "accuracy": [accuracy] * 2},
                "online": {"loss": [loss + change] * 2, "accuracy": [accuracy - change] * 2},
                "ess": 5.0, "surprise": 2.0 if sequence == "active" else 0.5,
            })  # fmt: skip
    return {"rows": rows, "step": 5, "draws": 20, "last": 25}


def test_differences_are_taken_between_neighbouring_sizes():
    found = online_inference.differences(made_findings(0.2, 0.01))
    assert found["active"]["size"] == [20, 25]  # there is nothing after 30
    np.testing.assert_allclose(found["active"]["online loss"], 0.2)
    np.testing.assert_allclose(found["active"]["retrained loss"], -0.1)
    np.testing.assert_allclose(found["random"]["retrained accuracy"], 0.05)


def test_claims_about_online_inference_hold_and_fail():
    assert [one.word for one in online_inference.claims(made_findings(0.2, 0.005))] == ["pass"] * 5
    words = {one.claim: one.word for one in online_inference.claims(made_findings(-0.2, 0.2, retrained=0.1))}
    assert [words[f"OBI {number}"] for number in (1, 2, 3)] == ["fail", "fail", "fail"]
    assert online_inference.claims({"rows": [], "step": 5, "draws": 2, "last": 25}) == []


SMALL = {
    "name": "obi-small",
    "study": "online-inference",
    "settings": {
        **{"start": 10, "last": 12, "step": 2, "trials": 1, "sub_trials": 2, "draws": 6, "test": 30, "train": 60},
        **{"validation": 20, "candidates": 20, "method": "bald", "epoch_samples": 32, "max_epochs": 1},
    },
}


@pytest.mark.needs_data("mnist")
def test_online_inference_from_data_to_page_and_not_twice(tmp_path, monkeypatch):
    assert run_plan(plan_from(SMALL), tmp_path, device="cpu") == {}  # no jobs
    units = sorted(path.name for path in (tmp_path / "units").glob("*.json"))
    assert units == [f"{name}-0-{size}.json" for name in ("active", "random") for size in (10, 12, 14)]
    findings = json.loads((tmp_path / "study.json").read_text())["findings"]
    assert len(findings["rows"]) == 6
    assert all(len(row["online"]["loss"]) == 2 and math.isfinite(row["loss"]) for row in findings["rows"])
    page = (publish(tmp_path).page).read_text(encoding="utf-8")
    assert page.count('class="verdict') == 5
    (tmp_path / "units" / "random-0-12.json").unlink()
    measured = []
    kept = online_inference._Lab.measure
    monkeypatch.setattr(
        online_inference._Lab, "measure", lambda self, *where: measured.append(where[1:]) or kept(self, *where)
    )
    run_plan(plan_from(SMALL), tmp_path, device="cpu")
    assert measured == [(0, 12)]
    again = json.loads((tmp_path / "study.json").read_text())["findings"]
    assert again == findings  # the same seeds, the same numbers


# Weight space against draws.


@pytest.fixture(scope="module")
def small_fisher(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fisher")
    settings = {"labels": 30, "validation": 40, "pool": 60, "targets": 50, "test": 100, "draws": 8}
    settings |= {"trials": 1, "epoch_samples": 128, "max_epochs": 2}
    run_plan(plan_from({"name": "small", "study": "weight-space", "settings": settings}), folder)
    return folder


@pytest.mark.needs_data("mnist")
def test_weight_space_is_measured_once_and_put_beside_the_published_table(small_fisher):
    published = publish(small_fisher)
    findings = published.as_dict()["findings"]
    assert {len(scores) for scores in findings["trials"][0]["scores"].values()} == {60}
    page = (small_fisher / "report.html").read_text(encoding="utf-8")
    assert "BALD (draws), published" in page
    assert "0.955" in page
    verdicts = weight_space.claims(findings)
    assert [one.claim for one in verdicts] == ["FIM 1", "FIM 1", "FIM 1", "FIM 2", "FIM 3"]
    assert verdicts[3].passed, "the trace is never below the log-determinant, however little was learnt"


@pytest.mark.needs_data("mnist")
def test_claims_about_weight_space_can_fail(small_fisher):
    findings = json.loads((small_fisher / "study.json").read_text())["findings"]
    scores = findings["trials"][0]["scores"]
    scores["EIG (log-det)"] = [-value for value in scores["BALD (draws)"]]
    scores["EIG (trace)"] = [-1 - value for value in scores["EIG (log-det)"]]
    assert not any(one.passed for one in weight_space.claims(findings))
    scores["EIG (log-det)"] = [3 + value for value in scores["BALD (draws)"]]
    scores["EPIG (log-det)"] = scores["BALD (draws)"]
    verdicts = weight_space.claims(findings)
    assert verdicts[1].passed
    assert verdicts[4].passed
