"""The study of causal acquisition: its process is exact, and it goes from data to page for both sets."""

import json

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor

import natsel
from natsel.causal import CausalData, SLearner, causal_synthetic, two_arm_kernel
from natsel.experiments.recipe.needs import needs
from natsel.experiments.recipe.plan import load_plan, plan_from
from natsel.experiments.results.publish import publish
from natsel.experiments.running.run import run_plan
from natsel.experiments.studies import causal_acquisition as study
from natsel.experiments.studies import causal_pictures
from natsel.experiments.studies.two_arm_process import TwoArmProcess
from natsel.experiments.studies.units import Units

TINY = {
    **{"set": "synthetic", "methods": list(study._REFERENCE), "search": "top", "pool": 60, "start": 6, "k": 5},
    **{"labels": 18, "trials": 3, "seed": 0},
}


def made_ihdp(seed=0):
    """Like IHDP in shape: two covariates, and no propensities."""
    data = causal_synthetic(60, 10, 20, seed=seed)
    parts = []
    for part in (data.pool, data.validation, data.test):
        x, t = part.inputs.T
        inputs = np.stack([x, 3 * x**2, t], 1)
        masks = {name: mask for name, mask in part.masks.items() if name != "propensity"}
        parts.append(natsel.data.Examples(inputs, part.labels, masks=masks))
    return CausalData("ihdp", *parts)


def measured(folder, **changes):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(natsel.causal, "causal_ihdp", made_ihdp)
        plan = plan_from({"name": "tiny", "study": "causal-acquisition", "settings": TINY | changes})
        run_plan(plan, folder, device="cpu")
    return json.loads((folder / "study.json").read_text())["findings"]


def test_labels_round_by_round_give_the_posterior_of_all_at_once():
    data = causal_synthetic(40, 10, 10, seed=1)
    inputs = np.asarray(data.pool.inputs, dtype=np.float64)
    treatment, outcome = inputs[:, -1].astype(int), np.asarray(data.pool.labels)
    process = TwoArmProcess(two_arm_kernel(0.7), 0.5, inputs)
    for ids in (np.arange(8), np.arange(8, 13)):
        process.observe(ids, outcome[ids])
    belief = process.believe(treatment[:30], np.full(30, 0.5))
    level = outcome[:13].mean()
    whole = SLearner(GaussianProcessRegressor(two_arm_kernel(0.7), alpha=0.5, optimizer=None), treatment=-1)
    expected = whole.fit(natsel.data.Examples(inputs[:13], outcome[:13] - level)).believe(inputs[:30])
    for name in ("received_N", "other_N", "effect_N", "with_effect_N"):
        found, right = (getattr(one.arm_moments(), name).numpy() for one in (belief, expected))
        np.testing.assert_allclose(found, right, atol=1e-5, err_msg=name)
    np.testing.assert_allclose(belief.effect_N, expected.effect_N, atol=1e-6)
    np.testing.assert_allclose(process.effects(30), whole.believe(inputs[30:]).effect_N, atol=1e-6)


def test_the_synthetic_study_goes_from_data_to_page(tmp_path):
    findings = measured(tmp_path)
    assert len(findings["rows"]) == 3 * 9
    for row in findings["rows"]:
        assert row["labels"] == [6, 11, 16, 18]
        assert sum(row["control"]) + sum(row["treated"]) <= 12
        first = next(one for one in findings["rows"] if one["trial"] == row["trial"])
        assert row["pehe"][0] == first["pehe"][0]  # all methods start with the same labels
    assert {one.claim for one in study.claims(findings)} == {"C1", "C2", "C3", "C4", "C5"}
    page = publish(tmp_path).page.read_text(encoding="utf-8")
    assert all(method in page for method in study._REFERENCE)
    assert page.count("<figcaption>") == 9
    assert "with mu-rho-bald.</p>" in page  # why tau-bald misleads, in numbers


def test_ihdp_is_compared_within_trials_and_drawn_batches_differ(tmp_path):
    some = ["random", "sign-error", "mu-pi-bald", "mu-rho-bald"]
    changes = {"set": "ihdp", "methods": some, "start": 30, "labels": 45}
    top, drawn = (measured(tmp_path / search, search=search, **changes) for search in ("top", "softmax"))
    assert top["rows"][0]["pehe"] == drawn["rows"][0]["pehe"]  # random is random either way
    assert top["rows"][3]["pehe"] != drawn["rows"][3]["pehe"]
    verdicts = study.claims(top)
    assert [one.claim for one in verdicts] == ["C1"] * 4 + ["C2"] * 2
    assert all("ihdp, top" in one.where for one in verdicts)
    assert "estimated propensity" in publish(tmp_path / "top").page.read_text(encoding="utf-8")


def made_digits(seed=0, pool=40, validation=10, test=10, **options):
    """Like the set of digits in shape: pictures whose brightness is φ."""
    data = causal_synthetic(pool, validation, test, seed=seed)
    parts = []
    for part in (data.pool, data.validation, data.test):
        x, t = part.inputs.T
        noise = np.random.default_rng(seed).normal(size=(len(x), 784))
        inputs = np.concatenate([noise + x[:, None], t[:, None]], axis=1, dtype=np.float32)
        parts.append(natsel.data.Examples(inputs, part.labels, masks=part.masks | {"phi": x.astype(np.float64)}))
    return CausalData("mnist", *parts)


def test_pictures_go_through_the_same_rounds(tmp_path, monkeypatch):
    monkeypatch.setattr(natsel.causal, "causal_mnist", made_digits)
    sizes = {"pool": 40, "validation": 10, "test": 10, "start": 8, "k": 4, "labels": 12, "trials": 1}
    fits = {"members": 2, "epochs": 1, "patience": 2, "batch": 8}
    settings = {"set": "mnist", "methods": ["random", "mu-rho-bald"], "search": "softmax", "seed": 0}
    plan = plan_from({"name": "tiny", "study": "causal-pictures", "settings": settings | sizes | fits})
    run_plan(plan, tmp_path, device="cpu")
    findings = json.loads((tmp_path / "study.json").read_text())["findings"]
    random, mu_rho = findings["rows"]
    assert random["labels"] == mu_rho["labels"] == [8, 12]
    assert random["pehe"][0] == mu_rho["pehe"][0]  # the same labels, and the same networks
    verdicts = causal_pictures.claims(findings)
    assert [one.claim for one in verdicts] == ["C1"] * 3 + ["C6"]
    assert verdicts[-1].passed == (mu_rho["pehe"][1] < random["pehe"][1])
    assert "which digit and brightness decide" in publish(tmp_path).page.read_text(encoding="utf-8")


@pytest.mark.parametrize(("factor", "passed"), [(0.5, True), (1.5, False)])
def test_claims_follow_the_numbers(factor, passed):
    curve = np.array([3.0, 2.0, 1.0])
    rows = [
        {"trial": trial, "method": method, "labels": [10, 20, 30], "pehe": (curve * scale * (1 + trial)).tolist()}
        for trial in range(4)
        for method, scale in (("random", 1.0), ("mu-rho-bald", factor + 0.01 * trial))
    ]
    for name in ("synthetic", "ihdp"):
        verdicts = study.claims({"rows": rows, "set": name, "search": "top"})
        assert [one.passed for one in verdicts] == [passed] * (2 if name == "synthetic" else 3)


def test_order_of_overlap_is_judged_pair_by_pair():
    shares = dict(zip(study.BY_OVERLAP, np.linspace(0.8, 0.1, 8), strict=True))
    row = {"trial": 0, "labels": [10], "pehe": [1.0], "distance": 1.0, "entropy": 0.5}

    def verdict(shares):
        rows = [row | {"method": method, "counterfactual": share} for method, share in shares.items()]
        found = study.claims({"rows": rows, "set": "synthetic", "search": "top"})
        return next(one.passed for one in found if one.claim == "C3")

    assert verdict(shares)
    assert not verdict(shares | {"mu-bald": shares["random"] - 0.01})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"methods": ["mu-bald", "rho-bald"]}, "^methods: "),
        ({"start": 18}, "^start: "),
        ({"labels": 100}, "^labels: 100 wanted, but the pool has 60"),
    ],
)
def test_settings_that_cannot_be_measured_are_refused(change, words, tmp_path):
    with pytest.raises(ValueError, match=words):
        study.run(TINY | change, Units(tmp_path))


def test_the_recipes_are_the_published_rounds():
    synthetic, ihdp = (load_plan(name).settings for name in ("causal-synthetic", "causal-ihdp"))
    assert (synthetic["start"], synthetic["k"], synthetic["labels"]) == (10, 10, 310)
    assert (ihdp["start"], ihdp["k"], ihdp["pool"]) == (100, 10, 470)
    assert needs(load_plan("causal-synthetic")) == []  # made by a formula
