"""The study of wrong labels: measured once from data to page on made pictures, and judged from what was measured."""

import json

import numpy as np
import pytest

import natsel
from natsel.data import Examples
from natsel.experiments.recipe.plan import plan_from
from natsel.experiments.results.publish import publish
from natsel.experiments.running.run import run_plan
from natsel.experiments.studies import label_errors as study
from natsel.experiments.studies.units import Units

TINY = {
    **{"kind": "aggregate", "network": "lenet", "width": 1, "train": 100, "epochs": 2, "early_epoch": 1, "folds": 2},
    **{"runs": 1, "trials": 1, "batch": 16, "learning_rate": 0.05, "augmentation": False, "seed": 0},
}
N = 120


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Pictures whose class is how bright they are, every tenth with a wrong label."""
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("label-errors")
    labels = np.arange(N) % 10
    pictures = (20 * labels[:, None, None, None] + rng.integers(0, 20, (N, 32, 32, 3))).astype(np.uint8)
    given = np.where(rng.random(N) < 0.1, (labels + 5) % 10, labels)
    data = type("Data", (), {"train": Examples(pictures, labels)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(natsel.data, "load", lambda name: data)
        patch.setattr(natsel.data, "human_labels", lambda name, kind: given)
        run_plan(plan_from({"name": "tiny", "study": "label-errors", "settings": TINY}), folder, device="cpu")
        yield folder, json.loads((folder / "study.json").read_text())["findings"]


def test_each_score_is_measured_and_judged(measured):
    folder, findings = measured
    assert [row["score"] for row in findings["rows"]] == list(study.SCORES)
    assert findings["pictures"] == 100
    verdicts = study.claims(findings)
    assert len(verdicts) == 2 * len(study.SCORES) - 1
    page = publish(folder).page.read_text(encoding="utf-8")
    assert all(name in page for name in study.SCORES)


def test_losses_of_a_fold_are_those_of_networks_that_saw_the_others(measured):
    """The irreducible loss is that of the epoch of least mean, the baseline that of the last."""
    folder, findings = measured
    pictures, wrong_N = study._data(TINY)
    assert wrong_N.sum() == findings["wrong"]
    fold_N = study._folds(TINY, pictures, study.derive(0, "trial", 0))
    loss_N = np.zeros(100)
    for fold in (0, 1):
        with np.load(folder / "units" / f"0-fold-{fold}.npz") as held:
            loss_T_n = held["loss_T_n"]
        assert loss_T_n.shape == (2, (fold_N == fold).sum())
        loss_N[fold_N == fold] = loss_T_n[loss_T_n.mean(1).argmin()]
    row = next(row for row in findings["rows"] if row["score"] == study.IRREDUCIBLE)
    assert row["aupr"] == pytest.approx(natsel.evaluation.aupr(loss_N[~wrong_N], loss_N[wrong_N]))


def test_found_counts_as_the_definition_says():
    found = study._found(np.array([4.0, 3.0, 2.0, 1.0]), np.array([True, False, True, False]))
    assert found == {"aupr": pytest.approx((1 + 2 / 3) / 2), "auroc": 0.75, "precision": 0.5}


def test_claims_compare_with_the_baseline_in_every_trial():
    rows = [
        {"trial": trial, "score": name, "aupr": 0.5 + 0.1 * (name == study.EARLY) * (-1) ** trial}
        for trial in (0, 1)
        for name in study.SCORES
    ]
    verdicts = {verdict.says: verdict.passed for verdict in study.claims({"rows": rows, "pictures": 10, "wrong": 1})}
    assert verdicts["early-loss finds wrong labels twice as well as chance"]
    assert not verdicts["early-loss is above out-of-fold-loss in every trial"]


def test_refuses_an_epoch_after_the_last(tmp_path):
    with pytest.raises(ValueError, match="early_epoch: expected 1 to 2, the epochs of training, found 3"):
        study.run(TINY | {"early_epoch": 3}, Units(tmp_path))
