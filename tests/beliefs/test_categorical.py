"""Categorical draws: what is refused and how, what is repaired in a copy, slices with ids, and conditioning."""

import dataclasses
import itertools
import math
import re
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import natsel
from natsel import CategoricalSamples
from natsel.objectives import Argument

PROBS_N_K_C = torch.tensor(
    [
        [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1]],
        [[0.3, 0.3, 0.4], [1.0, 0.0, 0.0]],
        [[0.2, 0.5, 0.3], [0.6, 0.2, 0.2]],
    ],
    dtype=torch.float64,
)
LOG_PROBS_N_K_C = PROBS_N_K_C.log()


@pytest.fixture
def no_warnings():
    """A warning is a defect; torch repeats its own only when told to."""
    torch.set_warn_always(True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
    torch.set_warn_always(False)


def random_belief(seed, count, draws, classes, weighted=True, scale=1.5):
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(count, draws, classes, generator=generator, dtype=torch.float64)
    weights = torch.randn(draws, generator=generator, dtype=torch.float64) if weighted else None
    return CategoricalSamples.from_logits(logits, None if weights is None else weights.log_softmax(0))


def assert_one_sentence(message, argument):
    """House style: the argument, what was found; what to do."""
    assert message.startswith(f"{argument}: ")
    assert ";" in message
    assert "\n" not in message


def changed(row, draw, values):
    log_probs = LOG_PROBS_N_K_C.clone()
    log_probs[row, draw] = torch.tensor(values, dtype=torch.float64)
    return log_probs


REFUSED = {
    "nan": (changed(1, 0, [math.nan, -1.0, -1.0]), "found NaN in row 1, draw 0"),
    "inf": (changed(2, 1, [math.inf, -1.0, -1.0]), "row 2, draw 1 sums to inf"),
    "all impossible": (changed(0, 1, [-math.inf] * 3), "row 0, draw 1 sums to 0"),
    "not normalised": (changed(2, 0, np.log([0.5, 0.3, 0.1]).tolist()), "row 2, draw 0 sums to 0.9"),
    "probabilities": (PROBS_N_K_C, "row 0, draw 0 sums to "),
    "logits": (torch.zeros(2, 2, 3), "row 0, draw 0 sums to 3"),
    "rank 2": (LOG_PROBS_N_K_C[:, 0], r"found shape \(3, 3\)"),
    "rank 4": (LOG_PROBS_N_K_C[None], r"found shape \(1, 3, 2, 3\)"),
    "no draws": (torch.zeros(3, 0, 2), r"found shape \(3, 0, 2\)"),
    "no classes": (torch.zeros(3, 2, 0), r"found shape \(3, 2, 0\)"),
    "text": ([[["a"]]], "expected numbers"),
    "complex": (LOG_PROBS_N_K_C + 0j, "expected real numbers"),
}


@pytest.mark.parametrize(("log_probs", "found"), REFUSED.values(), ids=REFUSED.keys())
def test_bad_log_probs_are_refused_with_what_was_found(log_probs, found):
    with pytest.raises(ValueError, match=found) as raised:
        CategoricalSamples(log_probs)
    message = str(raised.value)
    assert message.startswith("log_probs_N_K_C: ")
    assert "\n" not in message


def test_the_first_bad_row_is_named_in_a_large_pool():
    log_probs = torch.full((5000, 3, 2), math.log(0.5))
    log_probs[4321, 2, 0] = math.log(0.6)
    with pytest.raises(ValueError, match=r"row 4321, draw 2 sums to 1\.1"):
        CategoricalSamples(log_probs)


@pytest.mark.parametrize(("off", "refused"), [(5e-4, True), (-5e-4, True), (5e-5, False), (-5e-5, False)])
def test_rows_may_be_off_by_rounding_and_no_more(off, refused):
    log_probs = torch.tensor([[[0.5 + off, 0.5]]], dtype=torch.float32).log()
    if refused:
        with pytest.raises(ValueError, match="row 0, draw 0 sums to"):
            CategoricalSamples(log_probs)
    else:
        sums = CategoricalSamples(log_probs).log_probs_N_K_C.exp().sum(-1)
        assert float(sums) == pytest.approx(1, abs=1e-6)


def test_a_remedy_is_named():
    with pytest.raises(ValueError, match=r"from_logits.*from_probs") as raised:
        CategoricalSamples(PROBS_N_K_C)
    assert_one_sentence(str(raised.value), "log_probs_N_K_C")
    with pytest.raises(ValueError, match=re.escape("array[:, None, :]")):
        CategoricalSamples(LOG_PROBS_N_K_C[:, 0])


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_bad_logits(bad):
    with pytest.raises(ValueError, match=r"^logits_N_K_C: found NaN or \+inf; "):
        CategoricalSamples.from_logits([[[0.0, bad]]])


def test_logits_may_forbid_a_class_but_not_all():
    belief = CategoricalSamples.from_logits([[[0.0, -math.inf]]])
    assert belief.log_probs_N_K_C.exp().tolist() == [[[1.0, 0.0]]]
    with pytest.raises(ValueError, match=r"^log(its|_probs)_N_K_C: "):
        CategoricalSamples.from_logits([[[-math.inf, -math.inf]]])


def test_negative_probabilities():
    with pytest.raises(ValueError, match=r"^probs_N_K_C: .*negative \(smallest -0\.5\); .*from_logits"):
        CategoricalSamples.from_probs([[[1.5, -0.5]]])


def test_probabilities_with_nan_or_wrong_sum():
    with pytest.raises(ValueError, match=r"^probs_N_K_C: found NaN in row 0, draw 0; "):
        CategoricalSamples.from_probs([[[math.nan, 0.5]]])
    with pytest.raises(ValueError, match=r"^probs_N_K_C: rows must sum to 1 .*row 0, draw 0 sums to 0.9\)"):
        CategoricalSamples.from_probs([[[0.5, 0.4]]])


@pytest.mark.parametrize("make", [CategoricalSamples.from_logits, CategoricalSamples.from_probs])
def test_shapes_are_checked_under_the_name_the_user_gave(make):
    with pytest.raises(ValueError, match=r"^(logits|probs)_N_K_C: expected three axes"):
        make([[0.5, 0.5]])


@pytest.mark.parametrize(
    ("weights", "found"),
    [
        ([0.5, 0.5], "must sum to 1"),  # probabilities where logarithms are expected
        ([1.0, 0.0], "must sum to 1"),
        ([0.0, 0.0], r"found 2\b"),
        ([math.nan, 0.0], "found nan"),
        ([math.inf, 0.0], "found inf"),
        ([-math.inf, -math.inf], "found 0"),
        ([1000.0, 1000.0], "must sum to 1"),
        ([0.0], r"each of 2 draws, found shape \(1,\)"),
        ([[0.0, 0.0]], r"found shape \(1, 2\)"),
    ],
)
def test_bad_weights(weights, found):
    with pytest.raises(ValueError, match=rf"^log_weights_K: .*{found}"):
        CategoricalSamples(LOG_PROBS_N_K_C, weights)


def test_weights_given_as_probabilities_are_told_to_take_logarithms():
    with pytest.raises(ValueError, match="pass logarithms"):
        CategoricalSamples(LOG_PROBS_N_K_C, [0.7, 0.3])


def test_weights_off_by_rounding_are_normalised_and_zero_weight_is_allowed():
    log_weights = torch.tensor([0.25, 0.75]).log() + 3e-5
    belief = CategoricalSamples(LOG_PROBS_N_K_C, log_weights)
    assert belief.log_weights_K.dtype == torch.float64
    assert float(belief.log_weights_K.exp().sum()) == pytest.approx(1, abs=1e-12)
    assert CategoricalSamples(LOG_PROBS_N_K_C, [0.0, -math.inf]).log_weights_K.tolist() == [0.0, -math.inf]


def test_weights_may_be_off_by_a_ten_thousandth():
    log_weights = torch.tensor([0.25, 0.75], dtype=torch.float64).log()
    for off in (0.99e-4, -0.99e-4):
        found = CategoricalSamples(LOG_PROBS_N_K_C, log_weights + off).log_weights_K
        torch.testing.assert_close(found, log_weights)
    for off in (1.01e-4, -1.01e-4, 0.05, -0.05):
        with pytest.raises(ValueError, match=r"^log_weights_K: the weights must sum to 1 \(found"):
            CategoricalSamples(LOG_PROBS_N_K_C, log_weights + off)


def test_uniform_tells_equal_weights():
    assert CategoricalSamples(LOG_PROBS_N_K_C).uniform
    assert not CategoricalSamples(LOG_PROBS_N_K_C, torch.tensor([0.3, 0.7]).log()).uniform


@pytest.mark.parametrize(
    "ids",
    [[0, 1], [0, 1, 1], [0.0, 1.0, 2.0], [[0, 1, 2]], [True, False, True], ["a", "b", "a"], ["a", None, "c"]],
    ids=["too few", "twice", "floats", "table", "mask", "a name twice", "a gap"],
)
def test_bad_ids(ids):
    with pytest.raises(ValueError, match=r"^ids: "):
        CategoricalSamples(LOG_PROBS_N_K_C, ids=ids)


READ_ONLY = np.array([7, 5, 9])
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    "ids",
    [
        [7, 5, 9],
        np.array([7, 5, 9], dtype=np.int32),
        torch.tensor([7, 5, 9]),
        READ_ONLY,
        np.array([9, 5, 7])[::-1],
        np.array([7, 5, 9], dtype=">i8"),
    ],
    ids=["list", "int32", "torch", "read-only", "reversed view", "big-endian"],
)
@pytest.mark.usefixtures("no_warnings")
def test_ids_of_every_form(ids):
    belief = CategoricalSamples(LOG_PROBS_N_K_C, ids=ids)
    assert belief.ids.tolist() == [7, 5, 9]


HALF = [torch.float16, torch.bfloat16]


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("classes", [2, 10, 300])
def test_half_precision_logs_are_normalised(dtype, classes):
    generator = torch.Generator().manual_seed(classes)
    log_probs = (2 * torch.randn(40, 5, classes, generator=generator)).log_softmax(-1).to(dtype)
    belief = CategoricalSamples(log_probs)
    assert belief.log_probs_N_K_C.dtype == torch.float32
    assert float((belief.log_probs_N_K_C.double().exp().sum(-1) - 1).abs().max()) < 1e-5
    assert float((belief.log_probs_N_K_C - log_probs.float()).abs().max()) < 0.05


@pytest.mark.parametrize("dtype", HALF)
def test_half_precision_probabilities_are_normalised(dtype):
    generator = torch.Generator().manual_seed(0)
    probs = (2 * torch.randn(40, 5, 10, generator=generator)).softmax(-1).to(dtype)
    belief = CategoricalSamples.from_probs(probs)
    assert float((belief.log_probs_N_K_C.double().exp().sum(-1) - 1).abs().max()) < 1e-5


def test_numpy_half_is_recognised():
    log_probs = LOG_PROBS_N_K_C.numpy().astype(np.float16)
    assert CategoricalSamples(log_probs).log_probs_N_K_C.dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rows_off_by_rounding_are_normalised_in_a_copy(dtype):
    log_probs = (LOG_PROBS_N_K_C + 1e-5).to(dtype)
    before = log_probs.clone()
    belief = CategoricalSamples(log_probs)
    assert torch.equal(log_probs, before)
    assert float((belief.log_probs_N_K_C.double().exp().sum(-1) - 1).abs().max()) < 1e-6
    assert torch.allclose(belief.log_probs_N_K_C.double(), LOG_PROBS_N_K_C, atol=1e-6)


def test_good_rows_are_kept_to_the_last_bit():
    assert torch.equal(CategoricalSamples(LOG_PROBS_N_K_C).log_probs_N_K_C, LOG_PROBS_N_K_C)


def test_the_same_belief_from_logs_probabilities_and_logits():
    shift_N_K_1 = torch.randn(3, 2, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    beliefs = (
        CategoricalSamples(LOG_PROBS_N_K_C),
        CategoricalSamples.from_probs(PROBS_N_K_C),
        CategoricalSamples.from_logits(LOG_PROBS_N_K_C + shift_N_K_1),
        CategoricalSamples.from_probs(PROBS_N_K_C.tolist()),
    )
    for belief in beliefs:
        assert torch.allclose(belief.log_probs_N_K_C, LOG_PROBS_N_K_C, atol=1e-12)
        assert belief.shape == (3, 2, 3)
        assert len(belief) == 3


def test_names_and_weights_pass_through_the_constructors():
    for make in (CategoricalSamples.from_probs, CategoricalSamples.from_logits):
        log_weights = torch.tensor([0.25, 0.75], dtype=torch.float64).log()
        belief = make(PROBS_N_K_C, log_weights, draws_id="run 7", ids=[4, 5, 6])
        assert belief.draws_id == "run 7"
        assert belief.ids.tolist() == [4, 5, 6]
        assert torch.allclose(belief.log_weights_K, log_weights)


def test_a_belief_cannot_be_changed():
    belief = CategoricalSamples(LOG_PROBS_N_K_C)
    for name in ("log_probs_N_K_C", "log_weights_K", "draws_id", "ids", "new"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(belief, name, None)
    with pytest.raises(dataclasses.FrozenInstanceError):
        del belief.ids


def test_inputs_survive_scoring_and_selecting():
    log_probs, log_weights = LOG_PROBS_N_K_C.clone(), torch.tensor([0.4, 0.6], dtype=torch.float64).log()
    before = log_probs.clone(), log_weights.clone()
    belief = CategoricalSamples(log_probs, log_weights)
    targets = natsel.Targets(belief, labels=[1, 0, 1])
    for name, method in natsel.methods().items():
        if CategoricalSamples in method.beliefs:
            asked = {"targets": targets} if Argument.TARGETS in method.needs else {}
            asked |= {"given": belief[:1]} if Argument.GIVEN in method.needs else {}
            natsel.select(name, belief, k=2, labels=[0, 0, 1] if Argument.LABELS in method.needs else None, **asked)
    belief.condition([0], [1])
    assert torch.equal(log_probs, before[0])
    assert torch.equal(log_weights, before[1])


SLICES = {
    "slice": (slice(1, 3), [1, 2]),
    "step": (slice(None, None, 2), [0, 2, 4]),
    "negative slice": (slice(-2, None), [3, 4]),
    "int": (3, [3]),
    "negative int": (-1, [4]),
    "list": ([4, 0], [4, 0]),
    "negative list": ([-1, -5], [4, 0]),
    "repeated": ([2, 2], [2, 2]),
    "mask list": ([True, False, False, True, False], [0, 3]),
    "mask numpy": (np.array([False, True, False, False, True]), [1, 4]),
    "mask torch": (torch.tensor([False, False, True, False, False]), [2]),
    "numpy": (np.array([3, 1]), [3, 1]),
    "numpy int32": (np.array([3, 1], dtype=np.int32), [3, 1]),
    "torch": (torch.tensor([1, 3]), [1, 3]),
    "range": (range(2), [0, 1]),
    "empty": ([], []),
    "no one": (torch.zeros(5, dtype=torch.bool), []),
}


@pytest.mark.parametrize(("which", "positions"), SLICES.values(), ids=SLICES.keys())
def test_slices_take_points_and_their_ids(which, positions):
    ids = [50, 10, 40, 20, 30]
    whole = random_belief(0, 5, 3, 4)
    belief = CategoricalSamples(whole.log_probs_N_K_C, whole.log_weights_K, draws_id="d", ids=ids)
    part = belief[which]
    assert isinstance(part, CategoricalSamples)
    assert part.ids.tolist() == [ids[position] for position in positions]
    assert torch.equal(part.log_probs_N_K_C, belief.log_probs_N_K_C[positions])
    assert torch.equal(part.log_weights_K, belief.log_weights_K)
    assert part.draws_id == "d"
    assert len(part) == len(positions)


def test_slices_of_slices_keep_naming_the_users_data():
    belief = random_belief(1, 10, 3, 4)
    assert belief[2:][[1, -1]][1:].ids.tolist() == [9]


def test_positions_beyond_the_pool_are_refused():
    with pytest.raises(IndexError, match=r"^index: positions must lie in 0\.\.2"):
        CategoricalSamples(LOG_PROBS_N_K_C)[3]


def test_to_a_device():
    belief = random_belief(2, 4, 3, 2)
    moved = belief.to("cpu")
    assert moved.device == torch.device("cpu")
    assert torch.equal(moved.log_probs_N_K_C, belief.log_probs_N_K_C)
    for unknown in ("gpu0", "cuda:99", 3.5):
        with pytest.raises(ValueError, match=rf"^device: .*{unknown}.* cannot be used here \(.*\); name another"):
            belief.to(unknown)
    meta = belief.to("meta")
    assert {meta.log_probs_N_K_C.device.type, meta.log_weights_K.device.type} == {"meta"}


def bayes(belief, points, labels):
    weights = belief.log_weights_K.exp().tolist()
    probs = belief.log_probs_N_K_C.exp().tolist()
    joint = [w * math.prod(probs[n][k][y] for n, y in zip(points, labels, strict=True)) for k, w in enumerate(weights)]
    return [value / sum(joint) for value in joint]


@settings(deadline=None)
@given(seed=st.integers(0, 1000), draws=st.integers(1, 6), classes=st.integers(1, 4), data=st.data())
def test_conditioning_is_bayes_rule(seed, draws, classes, data):
    belief = random_belief(seed, 5, draws, classes)
    size = data.draw(st.integers(0, 6))
    points = data.draw(st.lists(st.integers(0, 4), min_size=size, max_size=size))
    labels = data.draw(st.lists(st.integers(0, classes - 1), min_size=size, max_size=size))
    posterior = belief.condition(points, labels)
    assert posterior.log_weights_K.exp().tolist() == pytest.approx(bayes(belief, points, labels), abs=1e-12)
    assert torch.equal(posterior.log_probs_N_K_C, belief.log_probs_N_K_C)
    one_by_one = belief
    for point, label in zip(points, labels, strict=True):
        one_by_one = one_by_one.condition(point, label)
    assert torch.allclose(one_by_one.log_weights_K.exp(), posterior.log_weights_K.exp(), atol=1e-12)


def test_conditioning_on_points_speaks_positions_forms_and_leaves_the_belief_alone():
    belief = random_belief(3, 4, 5, 3)
    before = belief.log_weights_K.clone()
    expected = bayes(belief, [1, 3], [2, 0])
    mask = torch.tensor([False, True, False, True])
    for points in ([1, 3], np.array([1, 3]), torch.tensor([1, -1]), mask, (1, 3)):
        for labels in ([2, 0], np.array([2, 0]), torch.tensor([2, 0])):
            assert belief.condition(points, labels).log_weights_K.exp().tolist() == pytest.approx(expected)
    assert torch.equal(belief.log_weights_K, before)


def test_conditioning_on_many_labels_does_not_underflow():
    belief = CategoricalSamples.from_probs([[[1 - 1e-7, 1e-7], [1 - 2e-7, 2e-7]]])
    weights = belief.condition([0] * 60, [1] * 60).log_weights_K.exp().tolist()
    assert weights == pytest.approx([1 / (1 + 2**60), 1.0], rel=1e-9)


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 500))
def test_gain_of_a_greedy_step_is_average_bald_under_conditioned_draws(seed):
    """The chain rule ties batches to online Bayesian inference.  docs/theory/batchbald.md, 3."""
    belief = random_belief(seed, 5, 4, 3)
    selection = natsel.select("batchbald", belief, k=3)
    first, second, third = selection.ids.tolist()
    mean_N_C = torch.einsum("k,nkc->nc", belief.log_weights_K.exp(), belief.log_probs_N_K_C.exp())
    after_one = sum(
        float(mean_N_C[first, y]) * float(natsel.score("bald", belief.condition([first], [y]))[second])
        for y in range(3)
    )
    assert float(selection.scores[1]) == pytest.approx(after_one, abs=1e-10)
    after_two = 0.0
    for a, b in itertools.product(range(3), repeat=2):
        probs_K = belief.log_probs_N_K_C[first, :, a].exp() * belief.log_probs_N_K_C[second, :, b].exp()
        chance = float(belief.log_weights_K.exp() @ probs_K)
        after_two += chance * float(natsel.score("bald", belief.condition([first, second], [a, b]))[third])
    assert float(selection.scores[2]) == pytest.approx(after_two, abs=1e-10)


@pytest.mark.parametrize(
    ("points", "labels", "found"),
    [
        ([0, 1], [0], "expected one for each of 2 points"),
        ([0], [3], r"classes run from 0 to 2, found 3 at point 0"),
        ([0], [-1], "classes run from 0 to 2"),
        ([1, 1], [1, 0], None),
        ([0], [0.7], "labels: "),
        ([0], ["cat"], "labels: "),
    ],
    ids=["too few", "too large", "negative", "possible", "fraction", "text"],
)
def test_bad_labels_for_conditioning(points, labels, found):
    belief = CategoricalSamples(LOG_PROBS_N_K_C)
    if found is None:
        assert belief.condition(points, labels).effective_draws() == pytest.approx(1)
        return
    with pytest.raises(ValueError, match=rf"^labels: .*{found.removeprefix('labels: ')}"):
        belief.condition(points, labels)


def test_labels_no_draw_allows_are_refused():
    belief = CategoricalSamples.from_probs([[[1.0, 0.0], [1.0, 0.0]]])
    with pytest.raises(ValueError, match=r"^labels: no draw gives these labels any probability; "):
        belief.condition([0], [1])
    sure = CategoricalSamples.from_probs([[[1.0, 0.0], [0.0, 1.0]]]).condition([0], [0])
    with pytest.raises(ValueError, match="no draw"):
        sure.condition([0], [1])


@settings(deadline=None)
@given(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=8))
def test_effective_draws(weights):
    weights_K = torch.tensor(weights, dtype=torch.float64) / sum(weights)
    belief = CategoricalSamples(torch.full((1, len(weights), 2), math.log(0.5)), weights_K.log())
    assert belief.effective_draws() == pytest.approx(1 / float(weights_K.square().sum()))
    assert 1 - 1e-9 <= belief.effective_draws() <= len(weights) + 1e-9


def test_effective_draws_at_the_ends():
    assert CategoricalSamples(torch.full((1, 7, 2), math.log(0.5))).effective_draws() == pytest.approx(7)
    assert CategoricalSamples(LOG_PROBS_N_K_C, [0.0, -math.inf]).effective_draws() == pytest.approx(1)


def test_an_empty_belief_is_a_value_too():
    empty = CategoricalSamples(torch.zeros(0, 3, 2))
    assert len(empty) == 0
    assert empty.shape == (0, 3, 2)
    assert len(empty[:]) == 0


def test_an_empty_slice_conditions_on_nothing():
    belief = random_belief(4, 3, 3, 2)
    assert torch.allclose(belief.condition([], []).log_weights_K, belief.log_weights_K)
