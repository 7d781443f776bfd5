"""Models of both arms: paired draws, the right kind of belief, closed forms against draws, and a run of the learner."""

import copy

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

import natsel
from natsel.causal import Propensity, SLearner, TLearner, tarnet, two_arm_kernel, with_treatment
from natsel.causal.arms import both_arms, covariates_of
from natsel.data import Examples
from natsel.data.frames import NamedColumns
from natsel.models import AssumedNoise, Deterministic, Ensemble, GaussianProcess, Sklearn, Training
from natsel.models.adapter import ModelAdapter
from natsel.models.consistency import check_consistent


def made(count=60, seed=0):
    rng = np.random.default_rng(seed)
    x_N_2 = rng.normal(size=(count, 2))
    treatment_N = (rng.random(count) < 1 / (1 + np.exp(-x_N_2[:, 0]))).astype(float)
    outcome_N = x_N_2[:, 1] + treatment_N * (2 + x_N_2[:, 0]) + 0.1 * rng.normal(size=count)
    return Examples(with_treatment(x_N_2, treatment_N), outcome_N)


LABELLED, POINTS = made(), made(12, seed=1).inputs
PROCESS = GaussianProcessRegressor(two_arm_kernel(1.0), alpha=0.25, optimizer=None)
NETWORKS = Ensemble(tarnet(2, hidden=16), members=4, training=Training(max_epochs=20, epoch_samples=128), device="cpu")


def at(arm):
    """The points as if all had received this treatment."""
    return NamedColumns(np.column_stack([POINTS[:, :-1], np.full(len(POINTS), arm)]), POINTS.names)


@pytest.mark.parametrize(
    ("model", "draws"), [(RandomForestRegressor(30), 30), (NETWORKS, 4), (Ridge(), 20)], ids=["forest", "nets", "ridge"]
)
def test_draws_of_both_arms_are_those_of_the_model(model, draws):
    learner = SLearner(model).fit(LABELLED, seed=3)
    belief = learner.believe(POINTS)
    assert isinstance(belief, natsel.PotentialOutcomes)
    assert belief.mean0_N_K.shape == (12, draws)
    assert belief.treatment_N.tolist() == POINTS[:, -1].tolist()
    one = ModelAdapter(learner.model)
    for arm, mean_N_K in ((0, belief.mean0_N_K), (1, belief.mean1_N_K)):
        torch.testing.assert_close(mean_N_K, one.believe(at(arm)).mean_N_K, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(belief.variance1_N_K, one.believe(at(1)).variance_N_K)
    assert belief.draws_id == one.believe(POINTS).draws_id
    torch.testing.assert_close(learner.predictive(POINTS).mean, belief.observed().mean)
    # Effects are learnt: their mean is 2 here, and points with a larger x have a larger one.
    assert 1 < float(belief.effect_N.mean()) < 3


def test_process_gives_both_arms_in_one_feature_space():
    learner = SLearner(PROCESS).fit(LABELLED)
    belief = learner.believe(POINTS)
    assert isinstance(belief, natsel.GaussianPotentialOutcomes)
    mean, covariance = learner.model.fitted.predict(both_arms(POINTS), return_cov=True)
    features_2N_D = torch.cat([belief.features0_N_D, belief.features1_N_D]).numpy()
    np.testing.assert_allclose(features_2N_D @ features_2N_D.T, covariance, atol=1e-6)
    np.testing.assert_allclose(torch.cat([belief.mean0, belief.mean1]), mean, atol=1e-9)
    assert belief.noise0.tolist() == [0.25] * 12


def test_closed_forms_agree_with_joint_draws():
    belief = SLearner(PROCESS).fit(LABELLED[:12]).believe(POINTS)
    normal_D_K = torch.randn(belief.features0_N_D.shape[1], 20_000, generator=torch.Generator().manual_seed(0)).double()
    drawn = natsel.PotentialOutcomes(
        belief.mean0[:, None] + belief.features0_N_D @ normal_D_K,
        belief.mean1[:, None] + belief.features1_N_D @ normal_D_K,
        belief.treatment_N,
        variance0_N_K=0.25,
        variance1_N_K=0.25,
    )
    for method in ("tau-bald", "mu-bald", "rho-bald", "mu-rho-bald", "rho-exact"):
        exact_N, sampled_N = natsel.score(method, belief), natsel.score(method, drawn)
        torch.testing.assert_close(exact_N, sampled_N, atol=0.05, rtol=0.03)


def test_two_models_know_nothing_of_each_other():
    process = GaussianProcessRegressor(9.0 * RBF(1.0), alpha=0.25, optimizer=None)
    belief = TLearner(process).fit(LABELLED).believe(POINTS)
    assert float((belief.features0_N_D @ belief.features1_N_D.T).abs().max()) == 0.0
    for arm, features_N_D, mean_N in ((0, belief.features0_N_D, belief.mean0), (1, belief.features1_N_D, belief.mean1)):
        inputs, labels = LABELLED[np.flatnonzero(LABELLED.inputs[:, -1] == arm)]
        alone = GaussianProcess(process).fit(Examples(inputs[:, :-1], labels)).believe(POINTS[:, :-1])
        torch.testing.assert_close(mean_N, alone.mean_N)
        torch.testing.assert_close(features_N_D @ features_N_D.T, alone.features_N_D @ alone.features_N_D.T)


def test_arms_of_two_models_that_hold_another_are_fitted_apart():
    model = AssumedNoise(RandomForestRegressor(10), 0.01)
    belief = TLearner(model).fit(LABELLED).believe(POINTS)
    assert 1 < float(belief.effect_N.mean()) < 3
    assert belief.variance0_N_K.unique().item() == pytest.approx(0.01)


def test_a_missing_arm_is_for_one_model_only():
    treated = LABELLED[np.flatnonzero(LABELLED.inputs[:, -1] == 1)]
    belief = SLearner(RandomForestRegressor(10)).fit(treated).believe(POINTS)
    assert belief.effect_N.tolist() == [0.0] * 12
    with pytest.raises(ValueError, match=r"none of 3 examples has the treatment 0.*tell the outcome of one that has"):
        TLearner(RandomForestRegressor(10)).fit(treated[:3])


def test_outcomes_that_are_yes_or_no():
    yes = Examples(LABELLED.inputs, (LABELLED.labels > 1).astype(int), classes=("no", "yes"))
    for learner in (SLearner(RandomForestClassifier(20)), TLearner(RandomForestClassifier(20))):
        belief = learner.fit(yes).believe(POINTS)
        assert isinstance(belief, natsel.YesOrNoOutcomes)
        assert 0.2 < float(belief.effect_N.mean()) <= 1
        assert (learner.predictive(POINTS).predict_proba().sum(1) - 1).abs().max() < 1e-9
        pool = natsel.Pool.with_answers(yes)
        with natsel.ActiveLearner(learner, pool, "mu-rho-bald", k=3, test=yes) as run:
            run.tell(np.arange(30), yes.labels[:30])
            run.run(budget=33)
            assert run.history[0].metrics["accuracy"] > 0.6
        with natsel.ActiveLearner(learner, natsel.Pool.with_answers(yes), "bald", k=3) as run:
            run.tell(np.arange(30), yes.labels[:30])
            assert len(run.ask().ids) == 3  # I[Y;W|x] of yes or no


def test_the_alphabet_does_not_say_silently_which_outcome_an_effect_is_on():
    healed = LABELLED.labels > 1
    by_alphabet = Examples(LABELLED.inputs, np.where(healed, "healed", "ill"))
    with pytest.warns(UserWarning, match="effects are on the probability of 'ill'"):
        effect_N = SLearner(RandomForestClassifier(20)).fit(by_alphabet).believe(POINTS).effect_N
    turned = Examples(LABELLED.inputs, healed.astype(int), classes=("ill", "healed"))
    assert torch.allclose(SLearner(RandomForestClassifier(20)).fit(turned).believe(POINTS).effect_N, -effect_N)


def test_weights_come_back_where_the_model_has_some():
    for make in (SLearner, TLearner):
        network = NETWORKS if make is SLearner else Ensemble(natsel.models.mlp(2, 1, (8,)), 2, Training(max_epochs=1))
        first = make(network).fit(LABELLED, LABELLED)
        again = ModelAdapter(make(copy.deepcopy(network)))
        again.load_weights(ModelAdapter(first).weights())
        torch.testing.assert_close(again.believe(POINTS).mean1_N_K, first.believe(POINTS).mean1_N_K)
        assert again.believe(POINTS).draws_id == first.believe(POINTS).draws_id
        assert not ModelAdapter(make(RandomForestRegressor())).keeps_weights


def test_a_copy_is_fitted_without_a_change_to_the_first():
    adapter = ModelAdapter(SLearner(RandomForestRegressor(5)))
    before = adapter.fit(LABELLED, seed=0).believe(POINTS).mean1_N_K
    adapter.copy().fit(Examples(LABELLED.inputs, -LABELLED.labels), seed=0)
    assert torch.equal(adapter.believe(POINTS).mean1_N_K, before)
    assert adapter.regression
    assert adapter.consistent_by_design


def test_draws_and_targets_are_consistent():
    check_consistent(SLearner(RandomForestRegressor(5)).fit(LABELLED).believe, POINTS)
    process = SLearner(PROCESS).fit(LABELLED)
    pool, targets = process.believe_together(POINTS[:8], POINTS[8:])
    whole = process.believe(POINTS)
    assert pool.draws_id == targets.draws_id
    torch.testing.assert_close(targets.features1_N_D, whole.features1_N_D[8:])


def test_propensity_is_learnt_from_treatments_alone_and_travels_with_the_belief():
    many = made(2000)
    propensity = Propensity(LogisticRegression()).fit(many.inputs)
    np.testing.assert_allclose(propensity(POINTS), 1 / (1 + np.exp(-POINTS[:, 0])), atol=0.06)
    np.testing.assert_array_equal(propensity(at(0)), propensity(at(1)))
    belief = SLearner(RandomForestRegressor(5), propensity=propensity).fit(LABELLED).believe(POINTS)
    np.testing.assert_allclose(belief.propensity_N, propensity(POINTS))
    assert bool(natsel.score("mu-pi-bald", belief).isfinite().all())


def test_two_heads_share_the_trunk_and_nothing_else():
    network = tarnet(2, hidden=8, depth=3, dropout=0.1).eval()
    assert [tuple(one.shape) for one in network.trunk.parameters() if one.ndim == 2] == [(8, 2), (8, 8), (8, 8)]
    for arm, head in ((0, network.head0), (1, network.head1)):
        inputs = torch.from_numpy(at(arm)).float()
        torch.testing.assert_close(network(inputs), head(network.trunk(inputs[:, :-1])))
    held = tarnet(2, hidden=8, spectral=0.9)
    assert held(torch.zeros(2, 3)).shape == (2, 1)
    pictures = tarnet(4, hidden=3, trunk=torch.nn.Linear(4, 3))
    assert pictures(torch.zeros(2, 5)).shape == (2, 1)
    with pytest.raises(ValueError, match="trunk: dropout"):
        tarnet(4, hidden=3, dropout=0.1, trunk=torch.nn.Linear(4, 3))


def test_kernel_is_the_formula_and_its_gradient_that_of_differences():
    kernel, inputs = two_arm_kernel(np.array([0.7, 1.5]), 0.4, 5.0), LABELLED.inputs[:6]
    x_N_2 = inputs[:, :-1] / [0.7, 1.5]
    squared_N_N = ((x_N_2[:, None] - x_N_2) ** 2).sum(-1)
    same_N_N = inputs[:, -1:] == inputs[:, -1]
    expected = 5 * np.exp(-squared_N_N / 2) * (0.4 + 0.6 * same_N_N)
    np.testing.assert_allclose(kernel(inputs), expected)
    np.testing.assert_allclose(kernel(inputs, inputs[:2]), expected[:, :2])
    np.testing.assert_allclose(kernel.diag(inputs), np.diag(expected))
    _, gradient = kernel(inputs, eval_gradient=True)
    for number, step in enumerate(1e-6 * np.eye(len(kernel.theta))):
        above, below = (kernel.clone_with_theta(kernel.theta + sign * step)(inputs) for sign in (1, -1))
        np.testing.assert_allclose(gradient[..., number], (above - below) / 2e-6, atol=1e-6)


def test_kernel_is_fitted_and_arms_without_a_tie_stay_so():
    process = GaussianProcessRegressor(two_arm_kernel(1.0, 0.3, 1.0), alpha=0.1)
    found = SLearner(process).fit(LABELLED).model.fitted
    assert found.log_marginal_likelihood_value_ > found.log_marginal_likelihood(process.kernel.theta)
    apart = SLearner(GaussianProcessRegressor(two_arm_kernel(1.0, 0.0, 1.0), alpha=0.1)).fit(LABELLED)
    belief = apart.believe(POINTS)
    assert apart.model.fitted.kernel_.k2.shared == 0.0
    assert float((belief.features0_N_D @ belief.features1_N_D.T).abs().max()) < 1e-6


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames_keep_their_types(library):
    frames = pytest.importorskip(library)
    frame = frames.DataFrame({"age": [31.5, 47.0], "visits": [2, 5], "treated": [True, False]})
    both = both_arms(frame).frame
    assert both["treated"].to_list() == [False, False, True, True]
    assert both["age"].to_list() == [31.5, 47.0] * 2
    assert [str(dtype) for dtype in both.dtypes] == [str(dtype) for dtype in frame.dtypes]
    assert covariates_of(frame).names == ("age", "visits")
    table = frames.DataFrame({"a": LABELLED.inputs[:, 0], "b": LABELLED.inputs[:, 1], "t": LABELLED.inputs[:, 2]})
    forest, rows = RandomForestRegressor(10), Examples(table, LABELLED.labels)
    for make in (SLearner, TLearner):
        found = make(forest, treatment="t").fit(rows).believe(rows.inputs[:5])
        expected = make(forest).fit(LABELLED).believe(LABELLED.inputs[:5])
        torch.testing.assert_close(found.effect_N, expected.effect_N)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (
            lambda: SLearner(RandomForestRegressor(5), propensity=LogisticRegression()),
            "propensity: expected a function",
        ),
        (lambda: Propensity()(POINTS), "call fit with all inputs"),
        (lambda: Propensity().fit(at(1)), "treatment: all 12 points received 1"),
        (lambda: Propensity(Ridge()).fit(POINTS), "classifier: expected one that gives probabilities, found Ridge"),
        (
            lambda: SLearner(Ridge(), treatment=-1).fit(Examples(POINTS[:, :2], np.zeros(12))),
            "treatment: expected 0 or 1",
        ),
        (
            lambda: SLearner(Deterministic(tarnet(2, 4), Training(max_epochs=1))).fit(LABELLED).believe(POINTS),
            "two draws",
        ),
        (lambda: two_arm_kernel(shared=1.5), "shared: expected a correlation"),
        (lambda: TLearner(PROCESS).fit(LABELLED), "takes the last column for the treatment.*use SLearner"),
        (
            lambda: TLearner(make_pipeline(PolynomialFeatures(1), PROCESS)),
            "model: .* takes the last column for the treatment",
        ),
        (lambda: TLearner(Ridge()).fit(POINTS), r"labelled: expected natsel.Examples or a pair \(inputs, labels\)"),
        (lambda: SLearner(Ridge()).fit(POINTS), r"labelled: expected natsel.Examples or a pair \(inputs, labels\)"),
        (lambda: two_arm_kernel(shared="a"), "shared: expected a number, found str"),
        (lambda: two_arm_kernel("a"), "length_scale, scale: expected numbers above 0, found a"),
        (lambda: two_arm_kernel([1.0] * 3)(POINTS), "length_scale: expected one for each of 2 covariates, found 3"),
        (lambda: tarnet(2.5), "features, hidden, depth: expected whole numbers"),
        (lambda: tarnet(2, dropout=1.5), "dropout: expected a share"),
        (lambda: tarnet(2, trunk=3), "trunk: expected a network, found int"),
        (lambda: tarnet(0), "features, hidden, depth"),
        (
            lambda: SLearner(RandomForestClassifier(5)).fit(Examples(POINTS, np.arange(12) % 3)).believe(POINTS),
            "found classes 0 to 2",
        ),
    ],
)
def test_bad_input_is_refused_in_one_sentence(bad, words):
    with pytest.raises(ValueError, match=words):
        bad()


def test_a_run_goes_from_ask_to_tell_and_on_from_its_journal(tmp_path):
    examples = made(40)

    def opened():
        pool = natsel.Pool(examples.inputs, regression=True)
        learner = SLearner(RandomForestRegressor(20), propensity=Propensity().fit(examples.inputs))
        return natsel.ActiveLearner(learner, pool, "mu-rho-bald", k=4, store=tmp_path / "run.db", test=LABELLED)

    with opened() as learner:
        for _ in range(2):
            batch = learner.ask()
            learner.tell(batch.ids, examples.labels[batch.ids])
        expected = learner.ask().ids
        assert learner.history[-1].metrics["rmse"] > 0
        assert learner.predict(POINTS).shape == (12,)
        effects_N = learner.belief(POINTS).effect_N
        learner.release(expected)
    with opened() as learner:
        assert learner.n_labelled == 8
        torch.testing.assert_close(learner.belief(POINTS).effect_N, effects_N)
        scores = natsel.score("mu-rho-bald", learner.belief(ids=np.setdiff1d(np.arange(40), learner.labelled_ids)))
        best = learner.ask()
        assert set(best.ids) == set(expected)
        torch.testing.assert_close(best.scores, scores.sort(descending=True).values[:4])


def test_compare_takes_a_learner_of_effects():
    pool = natsel.Pool(LABELLED.inputs, answers=LABELLED.labels)
    process = SLearner(Sklearn(make_pipeline(PolynomialFeatures(2), Ridge()), members=5))
    result = natsel.compare(process, pool, ["mu-bald"], seeds=1, budget=8, k=4)
    assert {(row["method"], row["labels"]) for row in result.curves()} >= {("mu-bald", 8), ("random", 8)}
    assert not result.failed
