"""One grid without exceptions: views, points given, refusals before any work, and subclasses from outside."""

import gc
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import natsel
from natsel import CategoricalSamples, FisherFactors, FisherRows, GaussianFeatures, GaussianSamples, Method
from natsel.beliefs import ClassProbabilities, Targets, TwoModels
from natsel.beliefs.base import kinds
from natsel.data import Examples, Pool
from natsel.experiments.recipe.contenders import Contender
from natsel.learning import ActiveLearner, GainBelow
from natsel.learning.stopping import View
from natsel.models import LastLayer, Sklearn, Training, mlp
from natsel.objectives import (
    EIG,
    EPIG,
    GCMI,
    JEPIG,
    Context,
    Entropy,
    FacilityLocation,
    GraphCut,
    LogDetMI,
    TraceEIG,
    TraceEPIG,
    read,
)
from natsel.search import KMeansPP, TopK
from natsel.seeds import derive


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64)


def draws(points: int = 30, seed: int = 0, **names: object) -> CategoricalSamples:
    return CategoricalSamples.from_logits(1.5 * normal(points, 8, 3, seed=seed), **names)


def layer(points: int = 30, seed: int = 0) -> FisherFactors:
    probs_N_C = normal(points, 3, seed=seed + 1).softmax(1)
    return FisherFactors.categorical(normal(points, 4, seed=seed), probs_N_C, precision=0.7)


# Views.


@pytest.mark.parametrize("name", ["random", "entropy", "margin", "variation-ratios"])
def test_baselines_run_on_last_layers(name):
    belief = layer()
    selection = natsel.select(name, belief, k=5, seed=1)
    assert len(set(selection)) == 5
    if name != "random":
        same = natsel.score(name, ClassProbabilities.from_probs(belief.outputs_N_C))
        torch.testing.assert_close(natsel.score(name, belief), same, rtol=0, atol=0)


def test_a_learner_compares_badge_with_random_on_one_network():
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(40, 2)).astype(np.float32)
    labels = (inputs[:, 0] > 0).astype(int)
    pool = Pool(inputs, answers=labels)
    for method in ("badge", "random", "entropy"):
        model = LastLayer(mlp(2, 2, hidden=(4,)), training=Training(max_epochs=2), device="cpu")
        learner = ActiveLearner(model, pool, method=method, k=4, test=Examples(inputs[:10], labels[:10]))
        learner.run(budget=8)
        assert learner.n_labelled == 8
        assert learner.history[-1].metrics["accuracy"] >= 0


@pytest.mark.parametrize("regression", [False, True])
def test_weight_space_and_similarities_run_on_forests(regression):
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(60, 3))
    labels = inputs[:, 0] if regression else (inputs[:, 0] > 0).astype(int)
    forest = (RandomForestRegressor if regression else RandomForestClassifier)(10, random_state=0)
    model = Sklearn(forest).fit(Examples(inputs[:30], labels[:30]))
    pool, targets = model.believe(inputs), model.believe(inputs[:8])
    for name in ("badge", "facility-location", "trace-eig", "logdet"):
        picks = natsel.select(name, pool, k=4)
        assert len(set(picks)) == 4
    named = natsel.select("trace-eig", pool, k=4).warnings + natsel.select("bait", pool, k=4, targets=targets).warnings
    word = "moment-matched" if regression else "second order"
    assert any(warning.startswith(word) for warning in named)
    said = ["upper bound"] if regression else ["decided by "]  # ten trees are often five to five
    assert [warning[:11] for warning in natsel.select("bald", pool, k=4).warnings] == said


def test_one_draw_is_named_whatever_it_is_read_as():
    for one in (CategoricalSamples.from_logits(normal(9, 1, 3)), GaussianSamples(normal(9, 1), 0.5)):
        for name in ("bald", "trace-eig", "logdet"):
            assert any(warning.startswith("one draw: ") for warning in natsel.select(name, one, k=2).warnings)
        assert not any(warning.startswith("one draw: ") for warning in natsel.select("entropy", one, k=2).warnings)


def test_a_learner_gives_the_labelled_points_where_a_method_asks_for_points_held():
    inputs = np.random.default_rng(0).normal(size=(40, 3))
    pool = Pool(inputs, answers=(inputs[:, 0] > 0).astype(int))
    model = Sklearn(RandomForestClassifier(8, random_state=0))
    learner = ActiveLearner(model, pool, method="logdet-cmi", k=3, targets=inputs[:5])
    learner.run(budget=9)
    assert learner.n_labelled == 9
    held = learner.model.believe(inputs[learner.labelled_ids])
    free = np.setdiff1d(pool.ids, learner.labelled_ids)
    pool_belief, targets = learner.model.believe(inputs[free]).with_ids(free), learner.model.believe(inputs[:5])
    seed = derive(learner.seed, "select", 3)
    expected = natsel.select("logdet-cmi", pool_belief, k=3, targets=targets, given=held, seed=seed)
    assert learner.ask().ids.tolist() == expected.ids.tolist()


def test_second_order_is_half_of_chi_squared_and_bald_where_draws_differ_little():
    belief = draws()
    probs_N_K_C = belief.log_probs_N_K_C.exp()
    mean_N_1_C = probs_N_K_C.mean(1, keepdim=True)
    chi_N = ((probs_N_K_C - mean_N_1_C).square() / mean_N_1_C).mean(1).sum(1)
    torch.testing.assert_close(natsel.score("trace-eig", belief), chi_N / 2, rtol=1e-12, atol=0)
    close = CategoricalSamples.from_logits(1e-3 * normal(20, 8, 3) + normal(20, 1, 3, seed=1))
    torch.testing.assert_close(natsel.score("trace-eig", close), natsel.score("bald", close), rtol=1e-2, atol=0)


def test_a_view_never_pretends():
    one = ClassProbabilities.from_probs([[0.9, 0.1], [0.5, 0.5]])
    for name in ("bald", "std-dev", "aleatoric", "badge"):
        with pytest.raises(ValueError, match="cannot be read from ClassProbabilities; it can from"):
            natsel.score(name, one)
    bernoulli = FisherFactors.bernoulli([[1.0], [2.0]], [0.5, 0.1])
    with pytest.raises(ValueError, match="its outputs are diagonal and no class probabilities"):
        natsel.score("entropy", bernoulli)
    with pytest.raises(ValueError, match="InformationGain cannot be read from GaussianFeatures"):
        natsel.score("ig", GaussianFeatures([[1.0]]), labels=[0.0])


def test_a_pair_of_models_is_read_as_its_teacher():
    teacher = draws(12)
    both = TwoModels.of(teacher, [draws(12, seed=4), draws(12, seed=5)])
    for name in ("bald", "entropy", "random", "badge"):
        same = natsel.select(name, teacher, k=3, seed=2)
        assert natsel.select(name, both, k=3, seed=2).ids.tolist() == same.ids.tolist()


# Subclasses from outside.


@dataclass(frozen=True)
class MyEIG(EIG):
    """EIG under another name."""


def test_subclasses_are_served_as_their_parents():
    class MyDraws(CategoricalSamples):  # here, since all kinds of belief that exist are tested elsewhere
        """Draws under another name."""

    plain = draws()
    mine = MyDraws(plain.log_probs_N_K_C)
    expected = natsel.select("batchbald", plain, k=3).ids.tolist()
    for objective in (EIG(), MyEIG()):
        for belief in (plain, mine):
            found = natsel.select(Method(objective, natsel.Greedy()), belief, k=3)
            assert found.ids.tolist() == expected
    assert natsel.select("epig", mine, k=2, targets=plain[:4]).total > 0
    del MyDraws, mine, belief, found
    gc.collect()
    assert "MyDraws" not in {kind.__name__ for kind in kinds()}, "a class that nobody needs is not kept"


# Points given.

PAIRS = {
    "features": lambda points, seed: GaussianFeatures(normal(points, 4, seed=seed), 0.5),
    "samples": lambda points, seed: GaussianSamples(normal(points, 6, seed=seed), torch.full((points, 6), 0.4)),
    "factors": layer,
    "rows": lambda points, seed: FisherRows(normal(points, 2, 5, seed=seed), precision=0.3),
}


@pytest.mark.parametrize("kind", PAIRS)
@pytest.mark.parametrize("objective", [EIG(), EPIG(), JEPIG(), TraceEIG(), TraceEPIG()], ids=lambda o: type(o).__name__)
def test_given_is_what_is_left_after_labels_at_those_points(objective, kind):
    """f(n | given) = f(given ∪ n) − f(given), from values of sets over one belief."""
    both = PAIRS[kind](14, 3)
    targets = both[10:] if not isinstance(objective, EIG | TraceEIG) else None
    held, pool = both[:3], both[3:10]
    scores_N = natsel.score(Method(objective, TopK()), pool, given=held, targets=targets)
    about = None if targets is None else Targets(targets.features() if kind == "samples" else targets)
    whole = read(objective, both.features() if kind == "samples" else both, Context(about, None, generator(0)))
    before = whole.value(torch.arange(3))
    expected_N = [whole.value(torch.tensor([0, 1, 2, n])) - before for n in range(3, 10)]
    if isinstance(objective, TraceEIG):  # additive by itself: what is given narrows the weights first
        alone_N = natsel.score(Method(objective, TopK()), pool)
        assert (scores_N < alone_N).all()
        return
    np.testing.assert_allclose(scores_N, expected_N, rtol=1e-6, atol=1e-9)


def test_given_moves_distances_too():
    for belief in (PAIRS["features"](20, 1), layer(20, 1), PAIRS["rows"](20, 1)):
        method = Method(EIG(), KMeansPP())
        alone, given = (natsel.select(method, belief, 6, given=held) for held in (None, belief[:4]))
        assert alone.ids.tolist() != given.ids.tolist()
        assert given.total <= float(natsel.score(method, belief)[given.ids].sum()) + 1e-12


def test_draws_take_points_given_without_a_view():
    belief = draws()
    selection = natsel.select("batchbald", belief, k=3, given=belief[:4])
    assert not any(warning.startswith("second order") for warning in selection.warnings)
    with pytest.raises(ValueError, match=r"given: Entropy has no use for points already held"):
        natsel.select("entropy", belief, k=3, given=belief[:4])


# Honest capabilities.


@pytest.mark.parametrize(
    "objective", [LogDetMI(), GCMI(), FacilityLocation(), GraphCut()], ids=lambda o: type(o).__name__
)
def test_a_geometry_without_the_objective_is_not_offered(objective):
    targets = {"targets": layer(4, 9)} if isinstance(objective, LogDetMI | GCMI) else {}
    with pytest.raises(ValueError, match=r"KMeansPP needs distances, which .* does not offer; use"):
        natsel.select(Method(objective, KMeansPP()), layer(), 3, **targets)


def test_what_is_lacking_is_refused_before_any_state_is_made(monkeypatch):
    from natsel.objectives.readings.kernels import distance_states, logdet_states

    made = []
    for module in (logdet_states, distance_states):
        monkeypatch.setattr(module, "read_gradients", lambda *parts: made.append(parts))
    with pytest.raises(ValueError, match="needs distances"):
        natsel.select(Method(LogDetMI(), KMeansPP()), layer(), 3, targets=layer(4, 9))
    with pytest.raises(ValueError, match=r"^targets: Distance has no use for targets"):
        natsel.select("badge", layer(), 3, targets=layer(4, 9))
    assert not made


def test_progress_is_an_argument_of_the_search():
    seen: list[int] = []
    state = read(EIG(), draws(), Context(None, None, generator(0)))
    natsel.Greedy()(state, 4, torch.ones(30, dtype=torch.bool), generator(0), progress=seen.append)
    assert seen == [1] * 4


@dataclass(frozen=True)
class WithReplacement:
    """k draws with chances ∝ score, each weighed so that weighted means over the draws are means over the pool."""

    needs: ClassVar = natsel.Capability.SCORES

    def __call__(self, state, k, allowed_N, generator, progress=None):
        chance_N = (state.scores() + 1e-6).where(allowed_N, 0.0)
        chance_N = chance_N / chance_N.sum()
        positions_k = torch.multinomial(chance_N, k, replacement=True, generator=generator)
        weights_k = 1 / (int(allowed_N.sum()) * chance_N[positions_k])
        scores_k = state.scores()[positions_k]
        return natsel.Picks(positions_k, scores_k, total=float(scores_k.sum()), weights=weights_k)


def test_selections_carry_weights_and_repeated_draws():
    belief = draws(8)
    selection = natsel.select(Method(EIG(), WithReplacement()), belief, k=8, seed=1)
    assert len(selection) == 8 > len(set(selection)), "an id may come twice"
    assert selection.weights.shape == (8,)
    chance_N = natsel.score("bald", belief) + 1e-6
    chance_N = chance_N / chance_N.sum()
    torch.testing.assert_close(selection.weights, 1 / (8 * chance_N[selection.ids]))
    assert [pick.id for pick in selection.explain().picks] == selection.ids.tolist()
    pool = Pool(np.arange(12.0)[:, None], answers=np.arange(12) % 2)
    learner = ActiveLearner(RandomForestClassifier(5, random_state=0), pool, Method(EIG(), WithReplacement()), k=4)
    learner.run(budget=9)
    assert learner.n_labelled == 9, "an id that was drawn twice is asked for once"


# What is not available is said.


def test_what_a_belief_does_not_say_is_not_available(tmp_path, capsys):
    from natsel.cli import main

    belief = ClassProbabilities.from_probs([[0.9, 0.1], [0.5, 0.5], [0.6, 0.4]])
    why = natsel.select("margin", belief, k=2).explain()
    assert why.information is None
    assert "not available" in str(why)
    belief.save(tmp_path / "one.npz")
    assert main(["select", str(tmp_path / "one.npz"), "-m", "margin", "-k", "2", "--explain"]) == 0
    assert "not available" in capsys.readouterr().out
    assert main(["select", str(tmp_path / "one.npz"), "-m", "margin", "-k", "2", "--out", str(tmp_path / "p.csv")]) == 0
    assert (tmp_path / "p.csv").read_text().splitlines()[1].startswith("1,1,")


def test_a_rule_that_could_never_fire_says_so():
    view = View(5, [], None, lambda points: [], gain_available=False)
    with pytest.raises(ValueError, match="GainBelow needs to know what a label tells about the parameters"):
        GainBelow(0.01)(view)

    class OnePrediction:
        def fit(self, labelled, validation=None):
            return self

        def believe(self, inputs):
            return ClassProbabilities.from_probs(np.full((len(inputs), 2), 0.5))

    pool = Pool(np.arange(20.0)[:, None], answers=np.arange(20) % 2)
    learner = ActiveLearner(OnePrediction(), pool, method="entropy", k=2)
    with pytest.raises(ValueError, match="GainBelow needs to know"):
        learner.run(budget=10, stop=GainBelow(0.01))


def test_names_that_are_no_objective_are_refused():
    for name in ("Objective", "Facts", "Grounded", "Context"):
        with pytest.raises(ValueError, match=rf"^objective: there is no '{name}'"):
            Contender(objective=name, search="TopK").build()
    assert Contender(objective="EIG", search="Power").build().objective == EIG()


def test_a_class_is_no_value():
    with pytest.raises(
        ValueError, match=r"^search: expected a value such as natsel.TopK\(\), found the class TopK; call"
    ):
        Method(EIG(), TopK)
    with pytest.raises(
        ValueError, match=r"^objective: expected a value such as natsel.EIG\(\), found the class Entropy"
    ):
        Method(Entropy, TopK())
