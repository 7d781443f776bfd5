"""Labels in other units: whatever they are multiplied by, and whatever is added, scores, picks and intervals follow.

Regressors are found, not listed: all classes of `natsel.models` that fit and believe, all kinds that recipes know, and
all regressors of scikit-learn and the boosting libraries that follow their labels by definition.
"""

import importlib
import inspect
import warnings

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from sklearn.base import BaseEstimator
from sklearn.ensemble import (
    BaggingRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
    VotingRegressor,
)
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import Lasso, LinearRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import all_estimators

import natsel
from natsel import models
from natsel.beliefs import GaussianFeatures, GaussianSamples, Targets
from natsel.beliefs.kernel_transforms import RandomProjection
from natsel.choose.methods import METHODS
from natsel.models.adapter import ModelAdapter
from natsel.models.estimators.committee import follows_labels
from natsel.models.kinds import KINDS, DataFacts
from natsel.objectives import Argument

RNG = np.random.default_rng(0)
INPUTS, POOL = RNG.normal(size=(40, 3)).astype(np.float32), RNG.normal(size=(30, 3)).astype(np.float32)
LABELS = INPUTS @ np.array([1.0, -2.0, 0.5]) + np.sin(2 * INPUTS[:, 0]) + 0.3 * RNG.normal(size=40)
BRIEF = models.Training(max_epochs=3)
SMALL_AND_FAR, LARGE = (1e-9, 1e-3), (1e6, 0.0)  # the first: a thousand-millionth as large, a million deviations from 0
ALL_UNITS = [(10.0**power, 0.0) for power in (3, -3, 6, -6, 9, -9)] + [(1.0, 1e6), (1.0, 1e8), SMALL_AND_FAR]
# Beside 1e8 a label has eight digits left, and equally good splits of residuals are decided by the last of them.
TIED = {"GradientBoostingRegressor", "Sklearn, virtual"}


def network():
    return models.mlp(3, 1, (8,), 0.2)


def process(inputs, labels):
    """Used as it is made: its prior is in the units of the labels."""
    gpytorch = pytest.importorskip("gpytorch", reason="needs the extra gp")

    class Process(gpytorch.models.ExactGP):
        def __init__(self, likelihood):
            super().__init__(inputs, labels, likelihood)
            self.mean_module = gpytorch.means.ConstantMean().double().initialize(constant=labels.mean())
            kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())
            self.covar_module = kernel.double().initialize(outputscale=labels.var())

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    positive = gpytorch.constraints.Positive(transform=torch.exp, inv_transform=torch.log)
    likelihood = gpytorch.likelihoods.GaussianLikelihood(noise_constraint=positive).double()
    return Process(likelihood.initialize(noise=labels.var() / 10)), likelihood


def normalised():
    kernel = ConstantKernel() * RBF() + WhiteKernel()
    return models.GaussianProcess(GaussianProcessRegressor(kernel, normalize_y=True))


REGRESSORS = {
    "BayesianLinear": models.BayesianLinear,
    "GaussianProcess": normalised,
    "GPyTorch": lambda: models.GPyTorch(process, steps=0),
    "LastLayer": lambda: models.LastLayer(network, training=BRIEF, device="cpu"),
    "LastLayer of an estimator": lambda: models.LastLayer(LinearRegression()),
    "Gradients": lambda: models.Gradients(network, sketch=16, training=BRIEF, device="cpu"),
    "Dropout": lambda: models.Dropout(network, 5, BRIEF, device="cpu"),
    "Ensemble": lambda: models.Ensemble(network, 3, BRIEF, device="cpu"),
    "Deterministic": lambda: models.Deterministic(network, BRIEF, device="cpu"),
    "Frozen": lambda: models.Frozen(models.Backbone("same", 3, np.asarray), RandomForestRegressor(4)),
    "WithTransforms": lambda: models.WithTransforms(models.BayesianLinear(), RandomProjection(4)),
    "Sklearn": lambda: models.Sklearn(make_pipeline(StandardScaler(), RandomForestRegressor(4))),
    "ModelAdapter": lambda: models.ModelAdapter(KNeighborsRegressor()),
    "Sklearn, voting": lambda: models.Sklearn(VotingRegressor([("a", Ridge()), ("b", RandomForestRegressor(3))])),
    "Sklearn, bagging": lambda: models.Sklearn(BaggingRegressor(n_estimators=4)),
    "Sklearn, virtual": lambda: models.Sklearn(GradientBoostingRegressor(n_estimators=16, max_depth=6), virtual=4),
}
OTHERS = {  # what they learn are classes, or they are told the noise in the units of the labels
    *("DDU", "ProbitGP", "TextModel"),
    "AssumedNoise",
}
SMALL = {"n_estimators": 6, "max_iter": 6, "min_samples_leaf": 4, "min_child_samples": 4, "verbose": -1, "n_jobs": 1}
FACTS = DataFacts("rows", "table", (3,), 0, training=BRIEF, device="cpu")


def following():
    """Estimators of scikit-learn and the boosting libraries that follow their labels, small ones."""
    found = [
        kind for _, kind in all_estimators("regressor") if not inspect.signature(kind).parameters.get("estimators")
    ]
    for library, name in (("lightgbm", "LGBM"), ("xgboost", "XGB"), ("catboost", "CatBoost")):
        try:
            found.append(getattr(importlib.import_module(library), f"{name}Regressor"))
        except ImportError:
            continue
    for kind in found:
        try:
            usual = kind()
        except TypeError:  # it wants an estimator
            continue
        if follows_labels(usual):
            own = {name: value for name, value in SMALL.items() if name in usual.get_params()}
            own |= {"verbose": 0} if "verbose" in own and kind.__module__.startswith("sklearn") else {}
            yield kind.__name__, usual.set_params(**own)


FOLLOWING = dict(following())
BUILT = ("dropout", "ensemble", "last-layer", "gradients", "forest")


def made(name):
    if name in REGRESSORS:
        return REGRESSORS[name]()
    if name in FOLLOWING:
        return models.Sklearn(FOLLOWING[name], members=4)
    return KINDS[name].build({"trees": 4} if name == "forest" else {}, FACTS)


def said(name, times, plus):
    """Scores and picks of two methods, and the ends of intervals in the first units."""
    model = ModelAdapter(made(name)).fit(natsel.Examples(INPUTS, LABELS * times + plus), seed=1)
    belief, predicted = model.believe(POOL), model.predictive(POOL)
    method = "variance" if getattr(belief, "shape", (2, 2))[1:2] == (1,) else "bald"
    picks = [natsel.select(each, belief, 4, seed=0).ids.tolist() for each in (method, "lcmd")[: 1 + (method == "bald")]]
    low_N, high_N = predicted.interval(0.9)
    return natsel.score(method, belief).numpy(), picks, (low_N - plus) / times, (high_N - plus) / times


def in_one_order(scores, theirs):
    """Rank correlation, where scores that differ by rounding are equal: trees say the same of all points in a leaf."""
    ours, theirs = (np.round(each / (np.abs(each).max() or 1.0), 9) for each in (scores, theirs))
    return np.ptp(ours) == np.ptp(theirs) == 0 or spearmanr(ours, theirs).statistic >= 0.999


def check(name, units):
    scores, picks, low, high = said(name, 1.0, 0.0)
    for times, plus in units:
        theirs, same_picks, their_low, their_high = said(name, times, plus)
        assert in_one_order(scores, theirs), f"{name}, labels × {times} + {plus}: other scores"
        assert same_picks == picks, f"{name}, labels × {times} + {plus}: other picks"
        off = max(float((low - their_low).abs().max()), float((high - their_high).abs().max()))
        assert off < 0.01 * float((high - low).mean()), f"{name}, labels × {times} + {plus}: other intervals"


@pytest.mark.filterwarnings("ignore")  # those of the libraries
@pytest.mark.parametrize("name", REGRESSORS)
def test_scores_picks_and_intervals_follow_the_units_of_the_labels(name):
    check(name, [SMALL_AND_FAR])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [*REGRESSORS, *FOLLOWING, *BUILT])
def test_they_follow_in_all_units(name):
    check(name, [units for units in ALL_UNITS if units != (1.0, 1e8) or name not in TIED])


def test_no_regressor_is_left_out():
    classes = {
        name
        for name in dir(models)
        if inspect.isclass(one := getattr(models, name)) and {"fit", "believe"} <= set(dir(one))
    } - {"Model", "Together"}
    assert classes == {name.partition(",")[0].partition(" ")[0] for name in REGRESSORS} | OTHERS
    learn_numbers = set()
    for name, kind in KINDS.items():
        try:
            ModelAdapter(kind.build({}, FACTS)).fit(natsel.Examples(INPUTS[:8], LABELS[:8]), seed=0)
            learn_numbers.add(name)
        except (ValueError, ImportError, OSError):
            continue
    assert learn_numbers == set(BUILT)
    assert {"RandomForestRegressor", "HistGradientBoostingRegressor", "Ridge", "KNeighborsRegressor"} <= set(FOLLOWING)


def test_estimators_with_parameters_in_units_of_labels_see_the_labels_as_they_are():
    class Seen(BaseEstimator):
        def __init__(self, alpha=1.0):
            self.alpha = alpha

        def predict(self, inputs):
            return np.zeros(len(inputs))

    for estimator in (
        Lasso(),
        Ridge(fit_intercept=False),
        HistGradientBoostingRegressor(loss="poisson"),
        RandomForestRegressor(min_impurity_decrease=0.1),
        make_pipeline(StandardScaler(), Lasso()),
        BaggingRegressor(Lasso()),
        Seen(),
    ):
        assert not follows_labels(estimator), estimator
    counts = natsel.Examples(INPUTS, np.abs(LABELS))
    fitted = models.Sklearn(HistGradientBoostingRegressor(loss="poisson", max_iter=5)).fit(counts, seed=0)
    assert float(fitted.believe(POOL).mean_N_K.min()) > 0
    for estimator in (RandomForestRegressor(criterion="absolute_error"), BaggingRegressor(), Ridge(3.0)):
        assert follows_labels(estimator), estimator


def test_small_labels_are_not_all_noise():
    for make in (KNeighborsRegressor, Ridge):
        noises = [
            models.Sklearn(make(), members=5).fit(natsel.Examples(INPUTS, LABELS * times), seed=1)._variance / times**2
            for times in (1.0, 1e-7, 1e-9)
        ]
        assert noises == pytest.approx([noises[0]] * 3, rel=1e-6)
    alike = models.Sklearn(KNeighborsRegressor()).fit(natsel.Examples(INPUTS, np.full(40, 3.0)), seed=1)
    assert 0 < alike._variance <= 1e-12


@pytest.mark.parametrize("spread", [1e21, 1e-24])
def test_networks_learn_labels_of_any_size(spread):
    for name in ("Dropout", "Ensemble"):
        belief = REGRESSORS[name]().fit(natsel.Examples(INPUTS, LABELS * spread), seed=1).believe(POOL)
        assert belief.variance_N_K.dtype == torch.float64
        assert 0.1 < float(belief.std.mean()) / (spread * LABELS.std()) < 10


def test_members_still_differ_beside_a_large_mean():
    totals = []
    for plus in (0.0, 1e7):
        model = REGRESSORS["Ensemble"]().fit(natsel.Examples(INPUTS, LABELS + plus), seed=1)
        totals.append(float(natsel.score("bald", model.believe(POOL)).sum()))
    assert totals[1] == pytest.approx(totals[0], rel=1e-3)


@pytest.mark.parametrize("method", ["lcmd", "bald", "batchbald", "bait"])
def test_an_estimator_that_asks_chooses_the_same_rows(method):
    asked = [
        natsel.ActiveRegressor(GradientBoostingRegressor(n_estimators=8), method, 4, 5, random_state=0)
        .fit(INPUTS, LABELS * times + plus)
        .ask(POOL)
        .ids.tolist()
        for times, plus in ((1.0, 0.0), SMALL_AND_FAR)
    ]
    assert asked[0] == asked[1]


# Methods, on beliefs in other units.

DRAWS = RNG.normal(size=(18, 6)) * RNG.uniform(0.2, 2, size=(18, 1))
MEANS, NOISES = 3 * np.sin(np.arange(18.0)), RNG.uniform(0.2, 1.5, size=18)
# A power of a differential entropy, which grows by ln s in units s times as small: it means something in one unit only.
OF_UNITS = {"power-entropy"}


def chosen(name, kind, times, plus):
    if kind is GaussianSamples:
        noise_N_K = np.tile(NOISES[:, None], (1, 6)) * times**2
        both = GaussianSamples((DRAWS + MEANS[:, None]) * times + plus, noise_N_K, draws_id="d")
    else:
        both = GaussianFeatures(DRAWS * times, NOISES * times**2, draws_id="d", mean=MEANS * times + plus)
    pool, others = both[:12].with_ids(np.arange(12)), both[12:].with_ids(np.arange(6))
    labels_N = (DRAWS[:, 0] + MEANS) * times + plus
    about, needs = Targets(others, labels=labels_N[12:]), METHODS[name].needs
    keywords = {"targets": about} if Argument.TARGETS in needs else {}
    keywords |= {"labels": labels_N[:12]} if Argument.LABELS in needs else {}
    keywords |= {"given": about} if METHODS[name].starts_from_labelled else {}
    return natsel.select(name, pool, 3, seed=0, **keywords).ids.tolist(), natsel.score(name, pool, **keywords).numpy()


@pytest.mark.parametrize("kind", [GaussianSamples, GaussianFeatures])
def test_every_method_chooses_the_same_in_other_units(kind):
    tried = set()
    for name in METHODS:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                picks, scores = chosen(name, kind, 1.0, 0.0)
                others = [chosen(name, kind, *units) for units in (SMALL_AND_FAR, LARGE)]
        except (ValueError, TypeError):  # not for numbers
            continue
        tried.add(name)
        for theirs, their_scores in others if name not in OF_UNITS else ():
            assert theirs == picks, name
            assert in_one_order(scores, their_scores), name
    assert {"bald", "batchbald", "epig", "lcmd", "bait", "badge", "variance", "jpig"} <= tried


def test_draws_of_tiny_labels_are_tested_as_those_of_others():
    rng = np.random.default_rng(0)
    careless = lambda inputs: GaussianSamples(1e-9 * rng.normal(size=(len(inputs), 5)), 1e-18)  # noqa: E731
    with pytest.raises(ValueError, match="got different draws"):
        models.check_consistent(careless, POOL[:2])
