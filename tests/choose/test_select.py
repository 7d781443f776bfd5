"""Score and select through the front door: golden values, every form of argument, every refusal."""

import math
import re
import warnings
from pathlib import Path
from uuid import UUID

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import natsel
from drawn_orders import seed_of
from golden_values import golden, logs
from natsel import EIG, CategoricalSamples, GaussianFeatures, GaussianSamples, Greedy, Method, Power, TopK
from natsel.choose.methods import METHODS
from natsel.objectives import Argument

SCORES = {name: case for name, case in golden("01-information-quantities").items() if name.startswith("scores_")}
BATCHES = golden("03-batchbald")
GREEDY = {name: case for name, case in BATCHES.items() if "greedy" in case["expected"]}
PRECISIONS = [(torch.float64, 1e-10), (torch.float32, 1e-5)]
QUANTITIES = {
    "bald": "bald_N",
    "entropy": "entropy_N",
    "aleatoric": "conditional_entropy_N",
    "variation-ratio": "variation_ratio_N",
    "margin": "margin_N",
    "std-dev": "std_dev_N",
    "mean-std": "mean_std_N",
}


def belief_of(case, dtype=torch.float64, **names):
    inputs = case["inputs"]
    return CategoricalSamples(logs(inputs["probs_N_K_C"], dtype), logs(inputs["weights_K"]), **names)


def random_belief(seed=0, count=12, draws=5, classes=4, **names):
    generator = torch.Generator().manual_seed(seed)
    return CategoricalSamples.from_logits(2 * torch.randn(count, draws, classes, generator=generator).double(), **names)


# Golden values.


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@pytest.mark.parametrize("name", QUANTITIES)
@pytest.mark.parametrize("case", SCORES)
def test_golden_scores(case, name, dtype, tolerance):
    found = natsel.score(name, belief_of(SCORES[case], dtype))
    assert found.dtype == torch.float64
    assert found.tolist() == pytest.approx(SCORES[case]["expected"][QUANTITIES[name]], abs=tolerance)


@pytest.mark.parametrize("disagreement", [1e-4, 1e-3])
@pytest.mark.parametrize("name", ["bald", "power-bald"])
def test_small_scores_in_float32_pick_what_float64_would(name, disagreement):
    generator = torch.Generator().manual_seed(1)
    logits = 2 * torch.randn(400, 1, 4, generator=generator) + disagreement * torch.randn(
        400, 20, 4, generator=generator
    )
    rounded = CategoricalSamples.from_logits(logits)
    exact = CategoricalSamples.from_logits(rounded.log_probs_N_K_C.double())
    assert rounded.log_probs_N_K_C.dtype == torch.float32
    assert natsel.select(name, rounded, k=100).ids.tolist() == natsel.select(name, exact, k=100).ids.tolist()


@pytest.mark.parametrize("name", ["entropy", "variation-ratio", "margin"])
def test_scores_of_sure_predictions_in_float32_keep_their_digits(name):
    generator = torch.Generator().manual_seed(1)
    logits = 20 * torch.randn(200, 1, 4, generator=generator) + 0.1 * torch.randn(200, 5, 4, generator=generator)
    rounded = CategoricalSamples.from_logits(logits)
    exact_N = natsel.score(name, CategoricalSamples.from_logits(rounded.log_probs_N_K_C.double()))
    assert float(exact_N.min()) < 1e-9
    torch.testing.assert_close(natsel.score(name, rounded), exact_N, rtol=1e-4, atol=0)


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@pytest.mark.parametrize(("name", "quantity"), [("ig", "information_gain"), ("surprise", "surprise")])
@pytest.mark.parametrize("case", SCORES)
def test_golden_scores_of_known_labels(case, name, quantity, dtype, tolerance):
    belief = belief_of(SCORES[case], dtype)
    for row in SCORES[case]["expected"]["by_label"]:
        one = belief[row["point"]]
        if math.isnan(row[quantity]):
            with pytest.raises(ValueError, match=r"label|outcome|probability"):
                natsel.score(name, one, labels=[row["label"]])
        else:
            found = float(natsel.score(name, one, labels=[row["label"]]))
            assert found == pytest.approx(row[quantity], abs=tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@pytest.mark.parametrize("case", GREEDY)
def test_golden_greedy_batches(case, dtype, tolerance):
    expected = GREEDY[case]["expected"]["greedy"]
    belief, seed = belief_of(GREEDY[case], dtype), seed_of(0, 1)  # which are copies in some cases
    selection = natsel.select("batchbald", belief, k=expected["k"], exclude=expected["exclude"], seed=seed)
    assert selection.scores.cumsum(0).tolist() == pytest.approx(expected["cumulative"], abs=tolerance)
    assert selection.scores.tolist() == pytest.approx(expected["gains"], abs=tolerance)
    assert selection.total == pytest.approx(expected["cumulative"][-1], abs=tolerance)
    decisive = 1e-9 if dtype == torch.float64 else 1e-4
    for found, index, margin in zip(selection.ids, expected["indices"], expected["margin_to_runner_up"], strict=True):
        if decisive < margin < math.inf:
            assert found == index
    assert len(set(selection.ids.tolist())) == expected["k"]
    assert not set(selection.ids.tolist()) & set(expected["exclude"])


@pytest.mark.parametrize("case", [name for name, case in GREEDY.items() if "best_batch" in case["expected"]])
def test_golden_best_batches(case):
    for k, best in GREEDY[case]["expected"]["best_batch"].items():
        selection = natsel.select("best-bald", belief_of(GREEDY[case]), k=int(k))
        assert selection.ids.tolist() == best["points"]
        assert selection.total == pytest.approx(best["value"], abs=1e-10)


@pytest.mark.parametrize("case", GREEDY)
def test_golden_values_of_sets(case):
    """Any set is worth the same whichever way it is selected: here, taken whole."""
    belief = belief_of(GREEDY[case])
    for row in GREEDY[case]["expected"]["sets"]:
        selection = natsel.select("batchbald", belief[row["points"]], k=len(row["points"]))
        assert selection.total == pytest.approx(row["batchbald"], abs=1e-10)
        assert sorted(selection.ids.tolist()) == sorted(row["points"])


def test_golden_duplicates_fool_top_k_but_not_greedy():
    belief = belief_of(GREEDY["fixture_four_points"])
    for first, second in ((0, 1), (1, 0)):
        assert natsel.select("bald", belief, k=2, seed=seed_of(first, second)).ids.tolist() == [first, second]
        assert natsel.select("batchbald", belief, k=2, seed=seed_of(first, second)).ids.tolist() == [first, 2]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_golden_underflow_point_sixty_times(dtype):
    """Products near 1e-420 in the rarest rows: finite gains, an unharmed total."""
    inputs = BATCHES["sampled_underflow"]["inputs"]
    copies = torch.tensor([inputs["selected_point_probs_K_C"]] * inputs["copies"], dtype=torch.float64)
    probs = torch.cat([copies, torch.tensor([inputs["candidate_probs_K_C"]], dtype=torch.float64)])
    belief = CategoricalSamples.from_probs(probs.to(dtype))
    selection = natsel.select("batchbald", belief, k=61)
    assert selection.ids[0] == 60
    assert bool(selection.scores.isfinite().all())
    assert bool((selection.scores >= 0).all())
    assert float(natsel.score("bald", belief)[60]) <= selection.total < math.log(3)


def test_a_single_draw_is_warned_about():
    selection = natsel.select("batchbald", belief_of(GREEDY["single_draw"]), k=2)
    assert any(warning.startswith("one draw: ") for warning in selection.warnings)
    assert not any("one draw" in warning for warning in natsel.select("entropy", random_belief(draws=1), k=2).warnings)
    assert natsel.select("batchbald", random_belief(), k=1).warnings == ()


# Arguments.


def test_indices_are_ids_of_the_users_data():
    belief = random_belief()
    ids = torch.arange(12) * 10 + 5
    named = CategoricalSamples(belief.log_probs_N_K_C, ids=ids)
    for name in ("bald", "batchbald", "power-bald", "random"):
        plain, shifted = (natsel.select(name, b, k=4) for b in (belief, named))
        assert shifted.ids.tolist() == [10 * index + 5 for index in plain.ids.tolist()]
        assert shifted.ids.dtype == np.int64
    assert natsel.select("bald", named[3:], k=9).ids.min() >= 35


def test_the_pool_may_come_in_any_order():
    belief = random_belief()
    order = torch.randperm(12, generator=torch.Generator().manual_seed(1))
    for name in ("bald", "batchbald", "entropy", "margin"):
        a, b = (natsel.select(name, pool, k=5) for pool in (belief, belief[order]))
        assert a.ids.tolist() == b.ids.tolist()


@pytest.mark.parametrize("k", [3, np.int64(3), np.uint8(3), torch.tensor(3)])
def test_k_may_be_any_whole_number(k):
    assert len(natsel.select("batchbald", random_belief(), k=k)) == 3


@pytest.mark.parametrize("k", [3.0, 2.5, "3", np.float64(3), [3], True, False])
def test_k_must_be_a_whole_number(k):
    with pytest.raises(ValueError, match=r"^k: expected a whole number, found "):
        natsel.select("batchbald", random_belief(), k=k)


def test_k_must_fit_the_pool():
    with pytest.raises(ValueError, match=r"^k: asked for 13 of 12 points; choose k between 0 and 12$"):
        natsel.select("bald", random_belief(), k=13)
    with pytest.raises(ValueError, match=r"^k: asked for 11 of 10 points \(2 of 12 are excluded\); "):
        natsel.select("bald", random_belief(), k=11, exclude=[0, 1])
    with pytest.raises(ValueError, match=r"^k: asked for -1 "):
        natsel.select("bald", random_belief(), k=-1)


UNLABELLED = [
    name
    for name, method in METHODS.items()
    if Argument.LABELS not in method.needs and natsel.CategoricalSamples in method.beliefs
]


def asked(name, belief):
    known = {"targets": belief[:3]} if Argument.TARGETS in METHODS[name].needs else {}
    return known | ({"given": belief[:2]} if Argument.GIVEN in METHODS[name].needs else {})


@pytest.mark.parametrize("name", UNLABELLED)
def test_none_and_all_of_the_pool(name):
    belief = random_belief(count=5)
    nothing = natsel.select(name, belief, k=0, **asked(name, belief))
    assert nothing.ids.tolist() == []
    assert nothing.scores.shape == (0,)
    assert nothing.total == 0.0
    everything = natsel.select(name, belief, k=5, **asked(name, belief))
    assert sorted(everything.ids.tolist()) == [0, 1, 2, 3, 4]


EXCLUDED = {
    "list": [1, 7],
    "set": {1, 7},
    "tuple": (1, 7),
    "numpy": np.array([7, 1]),
    "numpy uint": np.array([7, 1], dtype=np.uint8),
    "torch": torch.tensor([1, 7]),
    "range": range(1, 8, 6),
    "iterator": iter([1, 7]),
    "unknown ids too": [1, 7, 999, -4],
    "twice": [1, 7, 7],
    "dict keys": {1: "a", 7: "b"}.keys(),
}


@pytest.mark.parametrize("exclude", EXCLUDED.values(), ids=EXCLUDED.keys())
def test_excluded_ids_are_left_out(exclude):
    selection = natsel.select("batchbald", random_belief(), k=10, exclude=exclude)
    assert sorted(selection.ids.tolist()) == [0, 2, 3, 4, 5, 6, 8, 9, 10, 11]


def test_a_selection_can_be_excluded_and_so_can_nothing():
    belief = random_belief()
    first = natsel.select("batchbald", belief, k=4)
    second = natsel.select("batchbald", belief, k=8, exclude=first)
    assert sorted([*first, *second]) == list(range(12))
    for nothing in (None, [], (), set(), np.array([]), torch.tensor([])):
        assert natsel.select("bald", belief, k=12, exclude=nothing).ids.shape == (12,)


def test_exclude_means_ids_not_positions():
    belief = random_belief(ids=torch.arange(12) + 100)
    assert len(natsel.select("bald", belief, k=12, exclude=[0, 1])) == 12
    assert 103 not in natsel.select("bald", belief, k=11, exclude=[103]).ids


@pytest.mark.parametrize("exclude", [[True] * 12, torch.zeros(12, dtype=torch.bool), [0.0, 1.0], ["a"], "ab"])
def test_exclude_wants_ids_of_the_beliefs_kind(exclude):
    with pytest.raises(ValueError, match=r"^exclude: (expected integers or names, .*not a mask|found 'ab?', but)"):
        natsel.select("bald", random_belief(), k=1, exclude=exclude)


def test_ids_may_be_names_paths_or_uuids():
    plain = random_belief()
    first = natsel.select("batchbald", plain, k=3, exclude=[4]).ids
    for ids in (
        [f"scan {n}.png" for n in range(12)],
        [Path(str(n)) for n in range(12)],
        [UUID(int=n) for n in range(12)],
        [(n, "left") for n in range(12)],
        list(np.arange(12).astype("M8[D]")),
    ):
        named = plain.with_ids(ids)
        found = natsel.select("batchbald", named, k=3, exclude=[ids[4], str(ids[4])])
        assert list(found) == [ids[n] for n in first]
        assert [pick.id for pick in found.explain().picks] == list(found)
        assert list(named[3:5].ids) == ids[3:5]


@pytest.mark.parametrize("exclude", [[[0, 1], [2, 3]], np.zeros((2, 2), dtype=np.int64), torch.tensor([[1]])])
def test_exclude_is_one_list(exclude):
    with pytest.raises(ValueError, match=r"^exclude: expected a list of ids, found shape \(\d, \d\); "):
        natsel.select("bald", random_belief(), k=1, exclude=exclude)


def test_excluded_ids_beyond_64_bits_are_refused():
    wrapped = np.array([(1 << 64) - 5], dtype=np.uint64)  # −5 as a signed number
    with pytest.raises(ValueError, match=r"^exclude: integers must lie in "):
        natsel.select("bald", random_belief(ids=torch.arange(12) - 8), k=1, exclude=wrapped)


@pytest.mark.parametrize("exclude", [5, np.int64(5), np.array(5), torch.tensor(5)])
def test_a_single_excluded_id_is_taken_or_refused_by_name(exclude):
    try:
        selection = natsel.select("bald", random_belief(), k=11, exclude=exclude)
    except ValueError as why:
        assert str(why).startswith("exclude: ")  # noqa: PT017
    else:
        assert 5 not in selection.ids


@settings(deadline=None)
@given(
    name=st.sampled_from(sorted(UNLABELLED)),
    seed=st.integers(0, 100),
    data=st.data(),
)
def test_batches_are_distinct_allowed_and_reproducible(name, seed, data):
    belief = random_belief(seed, count=8, draws=4, classes=3)
    out = data.draw(st.sets(st.integers(0, 7), max_size=6))
    k = data.draw(st.integers(0, 8 - len(out)))
    options = {"k": k, "exclude": out, "seed": seed, **asked(name, belief)}
    first, again = (natsel.select(name, belief, **options) for _ in range(2))
    assert len(set(first.ids.tolist())) == k
    assert not set(first.ids.tolist()) & out
    assert first.ids.tolist() == again.ids.tolist()
    assert bool(first.scores.isfinite().all())
    assert first.scores.shape == (k,)
    assert first.method is METHODS[name]


def test_seeds_are_integers_or_generators():
    belief = random_belief()
    by_number = natsel.select("power-bald", belief, k=5, seed=7)
    for seed in (np.int64(7), torch.Generator().manual_seed(7)):
        assert natsel.select("power-bald", belief, k=5, seed=seed).ids.tolist() == by_number.ids.tolist()
    generator = torch.Generator().manual_seed(7)
    batches = {tuple(natsel.select("random", belief, k=5, seed=generator)) for _ in range(5)}
    assert len(batches) > 1  # a generator moves on
    assert len({tuple(natsel.select("random", belief, k=5, seed=seed)) for seed in range(5)}) > 1


@pytest.mark.parametrize("seed", [None, 1.5, "seed", 2**70])
def test_bad_seeds(seed):
    with pytest.raises(ValueError, match=r"^seed: "):
        natsel.select("power-bald", random_belief(), k=2, seed=seed)
    with pytest.raises(ValueError, match=r"^seed: "):
        natsel.score("random", random_belief(), seed=seed)


def test_the_global_random_state_is_left_alone():
    torch_state, numpy_state = torch.random.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    for name in UNLABELLED:
        belief = random_belief(count=6)
        natsel.select(name, belief, k=3, **asked(name, belief))
    assert torch.equal(torch.random.get_rng_state(), torch_state)
    assert np.array_equal(np.random.get_state()[1], numpy_state)  # noqa: NPY002


# Labels.


READ_ONLY = np.array([0, 1, 2, 3])
READ_ONLY.flags.writeable = False
LABELS = {
    "list": [0, 1, 2, 3],
    "tuple": (0, 1, 2, 3),
    "numpy": np.array([0, 1, 2, 3]),
    "numpy uint8": np.array([0, 1, 2, 3], dtype=np.uint8),
    "numpy int32": np.array([0, 1, 2, 3], dtype=np.int32),
    "numpy read-only": READ_ONLY,
    "numpy reversed view": np.array([3, 2, 1, 0])[::-1],
    "numpy big-endian": np.array([0, 1, 2, 3], dtype=">i4"),
    "torch": torch.tensor([0, 1, 2, 3]),
    "torch int8": torch.tensor([0, 1, 2, 3], dtype=torch.int8),
}


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS.keys())
def test_labels_of_every_form(labels):
    belief = random_belief(count=4)
    expected = [float(natsel.score("ig", belief[point], labels=[point])) for point in range(4)]
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = natsel.score("ig", belief, labels=labels).tolist()
    finally:
        torch.set_warn_always(False)
    assert found == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        ([0, 1, 2], r"each of 4 points, found shape \(3,\)"),
        ([[0, 1, 2, 3]], r"found shape \(1, 4\)"),
        (2, r"found shape \(1,\)"),
        ([0, 1, 2, 4], r"classes run from 0 to 3, found 4 at point 3"),
        ([0, -1, 2, 3], "found -1 at point 1"),
        ([0.0, 1.0, 2.0, 3.0], "expected integers, found torch.float64"),
        (["cat", "dog", "cat", "dog"], ""),
        ([0, None, 1, 2], ""),
    ],
    ids=["too few", "table", "one", "too large", "negative", "floats", "text", "missing"],
)
def test_bad_labels(labels, found):
    for call in (natsel.score, natsel.select):
        options = {"k": 1} if call is natsel.select else {}
        with pytest.raises(ValueError, match=rf"^labels: .*{found}"):
            call("ig", random_belief(count=4), labels=labels, **options)


@pytest.mark.parametrize("name", ["ig", "surprise"])
def test_labels_are_asked_for_where_needed(name):
    with pytest.raises(ValueError, match=r"^labels: .*pass labels="):
        natsel.score(name, random_belief())
    with pytest.raises(ValueError, match=r"^labels: .*pass labels="):
        natsel.select(name, random_belief(), k=1)


def test_known_labels_choose_points():
    belief = random_belief()
    labels = [n % 4 for n in range(12)]
    best = natsel.select("surprise", belief, k=3, labels=labels)
    assert best.ids.tolist() == natsel.score("surprise", belief, labels=labels).argsort(descending=True)[:3].tolist()


# Beliefs and methods.


@pytest.mark.parametrize("belief", [None, [[0.5, 0.5]], torch.zeros(2, 2, 2), np.zeros((2, 2, 2)), "belief"])
def test_what_is_no_belief_is_refused_with_how_to_make_one(belief):
    wanted = rf"^belief: expected a belief, found {type(belief).__name__}; .*{re.escape('natsel.CategoricalSamples')}"
    with pytest.raises(ValueError, match=wanted):
        natsel.select("bald", belief, k=1)
    with pytest.raises(ValueError, match=wanted):
        natsel.score("bald", belief)


@pytest.mark.parametrize("belief", [random_belief()[:0], GaussianFeatures(torch.zeros(0, 2))])
def test_an_empty_pool_is_refused(belief):
    with pytest.raises(ValueError, match=r"^belief: the pool is empty; "):
        natsel.select("bald", belief, k=0)
    with pytest.raises(ValueError, match=r"^belief: the pool is empty; "):
        natsel.score("bald", belief)


@pytest.mark.parametrize("belief", [GaussianFeatures([[1.0]]), GaussianSamples([[1.0, 2.0]], 1.0)])
def test_an_objective_that_a_belief_cannot_serve_is_refused(belief):
    kind = type(belief).__name__
    with pytest.raises(
        ValueError, match=rf"^belief: Margin cannot be read from {kind}; it can from CategoricalSamples"
    ):
        natsel.score("margin", belief)


def test_unknown_methods_are_refused_before_the_belief_is_looked_at():
    with pytest.raises(ValueError, match=r"^method: .*did you mean 'batchbald'"):
        natsel.select("batchbold", None)


def test_method_values_work_wherever_names_do():
    belief = random_belief()
    named, built = (
        natsel.select("power-bald", belief, k=4),
        natsel.select(Method(EIG(), Power(beta=8)), belief, k=4),
    )
    assert named.ids.tolist() == built.ids.tolist()
    assert built.method.name == "unnamed"
    assert torch.equal(natsel.score(Method(EIG(), TopK()), belief), natsel.score("bald", belief))


@pytest.mark.parametrize("rows", [0, -5, 2.5])
def test_rows_must_be_positive(rows):
    with pytest.raises(ValueError, match=r"^rows: expected a whole number of at least 1, found "):
        EIG(rows=rows)


def test_few_rows_still_fill_the_batch():
    selection = natsel.select(Method(EIG(rows=1), Greedy()), random_belief(), k=6)
    assert len(set(selection.ids.tolist())) == 6
    assert selection.total <= math.log(5) + 1e-9


def test_scores_are_one_a_point_and_the_selection_repeats_them():
    belief = random_belief()
    for name in (
        "bald",
        "entropy",
        "aleatoric",
        "margin",
        "variation-ratios",
        "mean-std",
        "std-dev",
        "variance",
    ):
        score_N = natsel.score(name, belief)
        assert score_N.shape == (12,)
        selection = natsel.select(name, belief, k=12)
        assert torch.equal(selection.scores, score_N[selection.ids])
        assert bool((selection.scores.diff() <= 0).all())
        if name != "bald":  # the only one of these whose points share what they tell
            assert selection.total == pytest.approx(float(score_N.sum()))


def test_progress_is_told_of_every_pick():
    for belief, name in ((random_belief(), "batchbald"), (random_belief(draws=2), "batchbald")):
        told = []
        natsel.select(name, belief, k=9, progress=told.append)
        assert told == [1] * 9
    told = []
    natsel.select("bald", random_belief(), k=9, progress=told.append)
    assert told == []
    with_it, without = (
        natsel.select("batchbald", random_belief(), k=5, progress=lambda _: None),
        natsel.select("batchbald", random_belief(), k=5),
    )
    assert with_it.ids.tolist() == without.ids.tolist()


def test_stochastic_batches_carry_their_probability():
    selection = natsel.select("power-bald", random_belief(), k=3, seed=1)
    assert selection.log_prob < 0
    assert selection.perturbed.shape == (3,)
    assert natsel.select("bald", random_belief(), k=3).log_prob is None
