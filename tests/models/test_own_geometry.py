"""How alike models of every kind treat points, and how unsure they are of each."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingClassifier,
)
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, DotProduct
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from natsel import CategoricalSamples, models
from natsel.beliefs.geometry import Geometry
from natsel.data.examples import Examples
from natsel.models import own_geometry
from natsel.models.adapter import ModelAdapter
from natsel.models.networks.architectures import mlp

rng = np.random.default_rng(0)
INPUTS = rng.normal(size=(60, 3)).astype(np.float32)
CLASSES = Examples(INPUTS[:30], (INPUTS[:30, 0] > 0).astype(int))
NUMBERS = Examples(INPUTS[:30], INPUTS[:30, 0].astype(float))
QUICK = {"training": models.Training(max_epochs=2), "device": "cpu"}


def of(model: Any, labelled: Examples = CLASSES, *parts: Any) -> list[Geometry]:
    """The geometries of parts (all inputs), from a model that is fitted first."""
    return ModelAdapter(model).fit(labelled, None, seed=0).geometry(*(parts or (INPUTS,)))


def kernel(geometry: Geometry) -> np.ndarray[Any, Any]:
    found: np.ndarray[Any, Any] = geometry.kernel()(geometry).numpy()
    return found


@pytest.mark.parametrize(
    "estimator",
    [
        RandomForestClassifier(7, min_samples_leaf=3),
        ExtraTreesClassifier(7),
        GradientBoostingClassifier(n_estimators=7),
        make_pipeline(StandardScaler(), RandomForestClassifier(7)),
    ],
)
def test_a_forest_treats_points_alike_by_the_share_of_trees_with_both_in_one_leaf(estimator: Any) -> None:
    adapter = ModelAdapter(estimator).fit(CLASSES, None, seed=3)
    fitted = adapter.model.seeded(3).fit(CLASSES.inputs, CLASSES.labels)
    rows = INPUTS if not hasattr(fitted, "steps") else fitted[:-1].transform(INPUTS)
    leaves_N_T = getattr(fitted, "steps", [("", fitted)])[-1][1].apply(rows).reshape(len(INPUTS), -1)
    expected = (leaves_N_T[:, None] == leaves_N_T[None]).mean(-1)
    if isinstance(estimator, GradientBoostingClassifier):  # 20 members are bagged of one that is no committee
        adapter.model.members = None
        adapter.fit(CLASSES, None, seed=3)
    np.testing.assert_allclose(kernel(adapter.geometry(INPUTS)[0]), expected, atol=1e-6)


@pytest.mark.parametrize(
    "estimator",
    [
        BaggingClassifier(n_estimators=4, max_features=2),
        models.Sklearn(GradientBoostingClassifier(n_estimators=8), virtual=4),
        models.Sklearn(GradientBoostingClassifier(n_estimators=4), members=2),
        VotingClassifier([("a", RandomForestClassifier(3)), ("b", ExtraTreesClassifier(3))]),
        models.AssumedNoise(RandomForestRegressor(5), 0.1),
    ],
)
def test_all_that_is_made_of_trees_is_read_by_leaves(estimator: Any) -> None:
    (found,) = of(estimator, NUMBERS if isinstance(estimator, models.AssumedNoise) else CLASSES)
    assert found.kind == "leaves"
    assert np.allclose(kernel(found).diagonal(), 1)


def test_libraries_of_boosted_trees_are_read_by_leaves() -> None:
    lightgbm = pytest.importorskip("lightgbm")
    booster = lightgbm.LGBMClassifier(n_estimators=5, min_child_samples=3, verbose=-1)
    (found,) = of(models.Sklearn(booster))
    assert found.kind == "leaves"
    assert found.places_N_D.shape == (60, 5)
    assert len(np.unique(found.places_N_D)) > 1


@pytest.mark.parametrize(
    "estimator", [LogisticRegression(), KNeighborsClassifier(), HistGradientBoostingClassifier(max_iter=3)]
)
def test_other_estimators_compare_standardised_inputs_at_their_median_distance(estimator: Any) -> None:
    inputs = np.concatenate([INPUTS * [1, 100, 1] + 5, INPUTS[:, :1] > 0.3], 1)  # the last column is 0 or 1 alone
    labelled = Examples(inputs[:30], CLASSES.labels)
    rows = inputs.copy()
    rows[:, :3] = (rows[:, :3] - rows[:, :3].mean(0)) / rows[:, :3].std(0)
    squared = ((rows[:, None] - rows[None]) ** 2).sum(-1)
    expected = np.exp(-squared / np.median(squared[np.triu_indices(60, 1)]))
    np.testing.assert_allclose(kernel(of(models.Sklearn(estimator), labelled, inputs)[0]), expected, atol=2e-3)


def test_many_points_have_random_features_of_length_1(monkeypatch: pytest.MonkeyPatch) -> None:
    model = models.BayesianLinear()
    (exact,) = of(model, NUMBERS)
    monkeypatch.setattr(own_geometry, "EXACT", 10)
    (drawn,) = of(model, NUMBERS)
    assert drawn.features().features_N_D.shape[1] == own_geometry.FEATURES
    assert np.allclose(kernel(drawn).diagonal(), 1, atol=1e-6)
    assert np.abs(kernel(drawn) - kernel(exact)).max() < 0.2
    assert np.array_equal(kernel(drawn), kernel(of(model, NUMBERS)[0]))  # the same features in every call


def test_networks_compare_what_their_last_layer_sees_without_dropout() -> None:
    network = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 2))
    with torch.no_grad():
        hidden = network[1](network[0](torch.from_numpy(INPUTS)))
    rows = torch.nn.functional.normalize(hidden).double().numpy()
    for model in (
        models.Dropout.around(network, 4, device="cpu"),
        models.LastLayer.around(network, CLASSES, device="cpu"),
        models.DDU.around(network, CLASSES, device="cpu"),
        models.Ensemble.around([network, network], device="cpu"),
    ):
        found = model.geometry(INPUTS)
        np.testing.assert_allclose(kernel(found), rows @ rows.T, atol=1e-5)
        assert found.draws_id == model.geometry(INPUTS[:5]).draws_id


def test_an_ensemble_takes_the_mean_over_its_members() -> None:
    one, two = (copy.deepcopy(mlp(3, 2, (6,), 0.0)) for _ in range(2))
    whole = models.Ensemble.around([one, two], device="cpu").geometry(INPUTS)
    parts = [kernel(models.Ensemble.around([each], device="cpu").geometry(INPUTS)) for each in (one, two)]
    np.testing.assert_allclose(kernel(whole), sum(parts) / 2, atol=1e-5)


def test_a_network_that_ends_with_no_linear_layer_compares_inputs() -> None:
    network = nn.Sequential(nn.Linear(3, 2), nn.Tanh())
    assert models.Ensemble.around([network], device="cpu").geometry(INPUTS).draws_id.startswith("inputs")  # type: ignore[union-attr]


@pytest.mark.parametrize("kernel_of", [RBF(0.7), DotProduct(1.0)])
def test_processes_compare_points_by_their_prior_correlation(kernel_of: Any) -> None:
    process = GaussianProcessRegressor(kernel_of, alpha=0.1, optimizer=None)
    expected = kernel_of(INPUTS)
    expected = expected / np.sqrt(np.outer(expected.diagonal(), expected.diagonal()))
    np.testing.assert_allclose(kernel(of(process, NUMBERS)[0]), expected, atol=1e-3)
    classifier = GaussianProcessClassifier(kernel_of, optimizer=None)
    np.testing.assert_allclose(kernel(of(classifier)[0]), expected, atol=1e-3)
    squared = ((INPUTS[:, None] - INPUTS[None]) ** 2).sum(-1)
    np.testing.assert_allclose(kernel(of(models.ProbitGP())[0]), np.exp(-squared / 2), atol=1e-3)


def test_a_process_of_gpytorch_compares_points_by_its_kernel() -> None:
    gpytorch = pytest.importorskip("gpytorch")

    class Process(gpytorch.models.ExactGP):  # type: ignore[misc]
        def __init__(self, inputs: Any, labels: Any, likelihood: Any) -> None:
            super().__init__(inputs, labels, likelihood)
            self.mean_module, self.covar_module = gpytorch.means.ZeroMean(), gpytorch.kernels.RBFKernel()

        def forward(self, rows: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(rows), self.covar_module(rows))

    def make(inputs: Any, labels: Any) -> Any:
        likelihood = gpytorch.likelihoods.GaussianLikelihood()
        return Process(inputs, labels, likelihood), likelihood

    (found,) = of(models.GPyTorch(make, steps=0), NUMBERS)
    squared = ((INPUTS[:, None] - INPUTS[None]) ** 2).sum(-1)
    np.testing.assert_allclose(kernel(found), np.exp(-squared / (2 * np.log(2) ** 2)), atol=1e-3)


def test_unsure_is_one_less_the_margin_of_classes_and_the_variance_of_numbers_of_mean_1() -> None:
    adapter = ModelAdapter(RandomForestClassifier(9)).fit(CLASSES, None, seed=0)
    probs_N_C = np.sort(adapter.predictive(INPUTS).predict_proba().numpy(), 1)
    np.testing.assert_allclose(adapter.geometry(INPUTS)[0].unsure_N, 1 - probs_N_C[:, -1] + probs_N_C[:, -2])
    adapter = ModelAdapter(RandomForestRegressor(9)).fit(NUMBERS, None, seed=0)
    variance_N = adapter.predictive(INPUTS).std.numpy() ** 2
    np.testing.assert_allclose(adapter.geometry(INPUTS)[0].unsure_N, variance_N / variance_N.mean())


@pytest.mark.parametrize(
    ("model", "labelled"),
    [
        (RandomForestClassifier(5), CLASSES),
        (LogisticRegression(), CLASSES),
        (GaussianProcessRegressor(RBF(), alpha=0.1), NUMBERS),
        (models.Deterministic(mlp(3, 2), **QUICK), CLASSES),
        (models.BayesianLinear(), NUMBERS),
    ],
)
def test_parts_are_of_one_geometry(model: Any, labelled: Examples) -> None:
    pool, given = of(model, labelled, INPUTS[10:], INPUTS[:10])
    (whole,) = of(model, labelled, np.concatenate([INPUTS[10:], INPUTS[:10]]))
    assert pool.draws_id == given.draws_id == whole.draws_id
    np.testing.assert_allclose(pool.kernel()(given), kernel(whole)[50:, :50], atol=1e-6)


def test_frames_of_numbers_texts_and_gaps_are_compared() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"age": [20.0, None, 40.0], "city": ["Ulm", "Bonn", "Ulm"], "old": [False, True, False]})
    rows = own_geometry.standardised(frame)
    assert np.allclose(rows[:, 0] * 1, [-np.sqrt(1), 0, np.sqrt(1)])
    assert np.allclose(rows[0, 1:], rows[2, 1:])
    assert np.isclose(((rows[0, 1:] - rows[1, 1:]) ** 2).sum(), 3)  # two columns of cities and one of truth


def test_texts_that_nothing_compares_are_refused_and_steps_of_a_pipeline_are_used() -> None:
    texts = np.array(["good film", "bad film", "a good play", "bad play"], dtype=object)
    pipeline = make_pipeline(TfidfVectorizer(), LogisticRegression())
    for labels in ([1, 0, 1, 0], [1, 1, 1, 1]):  # one class alone leaves no pipeline
        (found,) = of(pipeline, Examples(texts, np.array(labels)), texts)
        assert kernel(found)[0, 2] > kernel(found)[0, 3]

    class Coin:
        def fit(self, labelled: Any) -> None: ...

        def believe(self, inputs: Any) -> Any:
            return CategoricalSamples.from_probs(np.full((len(inputs), 1, 2), 0.5))

    with pytest.raises(ValueError, match=r"^inputs: found texts, which no kernel compares"):
        of(Coin(), Examples(texts, np.array([1, 0, 1, 0])), texts)


def test_a_model_of_ones_own_gives_its_geometry_by_one_method() -> None:
    class Mine:
        def fit(self, labelled: Any) -> None: ...

        def believe(self, inputs: Any) -> Any:
            return CategoricalSamples.from_probs(np.full((len(inputs), 1, 2), 0.5))

        def geometry(self, inputs: Any) -> Geometry:
            return Geometry(inputs[:, :2], np.ones(len(inputs)))

    pool, given = of(Mine(), CLASSES, INPUTS[:40], INPUTS[40:])
    assert (len(pool), len(given), pool.features().features_N_D.shape[1]) == (40, 20, 2)

    class Wrong(Mine):
        def geometry(self, inputs: Any) -> Any:
            return self.believe(inputs)

    with pytest.raises(ValueError, match=r"^model: geometry gave CategoricalSamples; return"):
        of(Wrong())


@pytest.mark.parametrize("labels", [np.zeros(30, dtype=int), CLASSES.labels])
def test_where_no_tree_has_split_points_are_compared_by_their_inputs_and_that_is_said(labels: Any) -> None:
    leaf = 40 if labels.any() else 1
    (found,) = of(RandomForestClassifier(5, min_samples_leaf=leaf), Examples(INPUTS[:30], labels, ("no", "yes")))
    assert found.kind == "features"
    assert kernel(found).std() > 0.1
    assert found.warnings == ("nothing learnt yet that tells points apart: they are compared by their inputs",)
    assert found[:3].warnings == found.warnings


def test_a_linear_regression_is_compared_by_inputs_without_a_word() -> None:
    assert of(Ridge(), NUMBERS)[0].warnings == ()
