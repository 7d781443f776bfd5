"""Beliefs in weight space: what they hold, what they refuse, and that files keep them."""

import math

import pytest
import torch

import natsel
from information.test_precision import FEATURES, OUTPUTS, every_form, positive
from natsel.beliefs import FisherFactors, FisherRows, Targets
from natsel.beliefs.targets import check_shared
from natsel.information.weights.precision import Dense, Diagonal, Isotropic

FEATURES_N_D = torch.randn(6, FEATURES, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
PROBS_N_C = torch.randn(6, OUTPUTS, generator=torch.Generator().manual_seed(1), dtype=torch.float64).softmax(1)


def test_numbers_and_matrices_become_precisions():
    kinds = {1.5: Isotropic, (1.0,) * 12: Diagonal, positive(12, 0): Dense}
    for given, kind in kinds.items():
        precision = FisherFactors.categorical(FEATURES_N_D, PROBS_N_C, given).precision
        assert type(precision) is kind


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
@pytest.mark.parametrize("precision", every_form(0), ids=lambda form: form.kind)
def test_files_keep_everything(tmp_path, suffix, precision):
    for belief in (
        FisherFactors(FEATURES_N_D, PROBS_N_C, "softmax", precision, draws_id="fit 1", ids=torch.arange(6) + 9),
        FisherFactors(FEATURES_N_D, PROBS_N_C, "diagonal", precision),
        FisherFactors(FEATURES_N_D, PROBS_N_C, "softmax", precision).labelled("hard"),
        FisherRows(torch.ones(2, 3, 12), precision),
    ):
        belief.save(tmp_path / f"belief{suffix}")
        again = natsel.Belief.load(tmp_path / f"belief{suffix}")
        assert type(again) is type(belief)
        assert again.draws_id == belief.draws_id
        assert again.precision.same(precision)
        for name in (*belief.points, *belief.named):
            mine, theirs = getattr(belief, name), getattr(again, name)
            assert torch.equal(mine, theirs) if isinstance(mine, torch.Tensor) else mine == theirs


def test_slices_carry_ids_and_precision():
    belief = FisherFactors.categorical(FEATURES_N_D, PROBS_N_C, positive(12, 0))
    part = belief[[4, 1]]
    assert part.ids.tolist() == [4, 1]
    assert part.precision is belief.precision
    assert torch.equal(part.factors.explicit(slice(None)), belief.factors.explicit([4, 1]))


def test_a_singular_matrix_gets_a_ridge_with_a_name():
    singular = FisherFactors.categorical(FEATURES_N_D, PROBS_N_C).factors.fisher()
    belief = FisherFactors.categorical(FEATURES_N_D, PROBS_N_C, singular)
    assert len(belief.warnings) == 1
    assert "ridge of" in belief.warnings[0]
    assert belief[:2].warnings == belief.warnings
    assert belief.factors.own(belief.precision).isfinite().all()
    assert FisherFactors.categorical(FEATURES_N_D, PROBS_N_C, singular + torch.eye(12)).warnings == ()


def test_gradients_under_labels():
    belief = FisherFactors.categorical(FEATURES_N_D, PROBS_N_C)
    hard = belief.labelled("hard")
    eye = torch.eye(OUTPUTS, dtype=torch.float64)
    torch.testing.assert_close(hard.outputs_N_C, PROBS_N_C - eye[PROBS_N_C.argmax(1)])
    given = belief.labelled([0, 1, 2, 0, 1, 2])
    torch.testing.assert_close(given.outputs_N_C, PROBS_N_C - eye[[0, 1, 2, 0, 1, 2]])
    assert torch.equal(belief.outputs_N_C, PROBS_N_C), "the belief itself was written to"
    once, again, other = (belief.labelled("sampled", seed=seed).outputs_N_C for seed in (0, 0, 3))
    assert torch.equal(once, again)
    assert not torch.equal(once, other)
    with pytest.raises(ValueError, match="labels"):
        hard.labelled("hard")


def test_gradients_of_sure_predictions_keep_their_digits():
    sure = FisherFactors.categorical([[1.0]], torch.tensor([[1.0, 1e-26]], dtype=torch.float64))
    assert sure.labelled("hard").outputs_N_C.tolist() == [[-1e-26, 1e-26]]
    assert sure.labelled([1]).outputs_N_C.tolist() == [[1.0, -1.0]]


def test_half_precision_is_brought_to_sum_one():
    half = FisherFactors.categorical(FEATURES_N_D, PROBS_N_C.half())
    assert half.outputs_N_C.dtype == torch.float32
    torch.testing.assert_close(half.outputs_N_C.sum(1), torch.ones(6))
    with pytest.raises(ValueError, match="sum to 1"):
        FisherFactors.categorical(FEATURES_N_D, 1.1 * PROBS_N_C.half())


def test_sampled_labels_are_right_on_average():
    probs_C = torch.tensor([0.0, 0.2, 0.5, 0.3, 0.0], dtype=torch.float64)
    belief = FisherFactors.categorical(torch.ones(40_000, 1), probs_C.expand(40_000, -1))
    labels = (probs_C - belief.labelled("sampled", seed=5).outputs_N_C).argmax(1)
    shares = torch.bincount(labels, minlength=5) / 40_000
    assert (shares - probs_C).abs().max() < 0.012
    assert shares[0] == shares[4] == 0


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: FisherFactors.categorical(FEATURES_N_D, 2 * PROBS_N_C), "sum to 1"),
        (lambda: FisherFactors.categorical(FEATURES_N_D[:2], PROBS_N_C), "outputs_N_C: found 6 rows for 2"),
        (lambda: FisherFactors.categorical(FEATURES_N_D[0], PROBS_N_C), "features_N_D: expected axes"),
        (lambda: FisherFactors.categorical(FEATURES_N_D * float("nan"), PROBS_N_C), "features_N_D: found NaN"),
        (lambda: FisherFactors(FEATURES_N_D, PROBS_N_C, "soft"), "kind: expected"),  # type: ignore[arg-type]
        (lambda: FisherFactors.categorical(FEATURES_N_D, PROBS_N_C, torch.eye(3)), "about 3 weights"),
        (lambda: FisherFactors.categorical(FEATURES_N_D, PROBS_N_C, 0.0), "positive number"),
        (lambda: FisherFactors.categorical(FEATURES_N_D, PROBS_N_C).labelled("soft"), "labels: expected hard"),
        (lambda: FisherFactors.categorical(FEATURES_N_D, PROBS_N_C).labelled([3] * 6), "from 0 to 2"),
        (lambda: FisherFactors.bernoulli(FEATURES_N_D, [2.0] * 6), "probs_N"),
        (lambda: FisherFactors.bernoulli(FEATURES_N_D, [math.nan] * 6), "^probs_N: .* found nan"),
        (
            lambda: FisherFactors.bernoulli(FEATURES_N_D, [0.5] * 5),
            "^probs_N: expected one number for each of 6 points",
        ),
        (lambda: FisherFactors.gaussian(FEATURES_N_D, noise=0.0), "^noise: variances must be positive .* found 0;"),
        (
            lambda: FisherFactors.gaussian(FEATURES_N_D, noise=[1.0, 2.0]),
            "^noise: expected one variance or one for eac",
        ),
        (lambda: FisherFactors.gaussian(FEATURES_N_D, outputs="2"), "^outputs: expected a whole number"),
        (lambda: FisherFactors.gaussian(2.0), "^features_N_D: expected axes"),
        (lambda: FisherFactors.poisson(FEATURES_N_D, [-1.0] * 6), "^rates_N: .* found -1; "),
        (lambda: FisherFactors.poisson(FEATURES_N_D, [math.nan] * 6), "^rates_N: .* found nan; "),
        (lambda: FisherFactors.poisson(FEATURES_N_D, [1.0]), "^rates_N: expected one number for each of 6 points"),
        (lambda: FisherFactors.categorical(FEATURES_N_D, PROBS_N_C, -torch.eye(12)), "^precision: .* wrong sign"),
        (lambda: FisherFactors.categorical(FEATURES_N_D, PROBS_N_C, -torch.ones(12)), "^precision: .* wrong sign"),
        (lambda: FisherFactors.categorical(FEATURES_N_D, PROBS_N_C, -1.0), "^precision: expected a positive number"),
        (lambda: FisherFactors.categorical(FEATURES_N_D, PROBS_N_C, "high"), "^precision: .* found 'high'"),
        (lambda: FisherRows(torch.ones(2, 1, 3), -torch.eye(3)), "^precision: .* wrong sign"),
        (lambda: FisherRows(torch.ones(2, 3)), "rows_N_R_P: expected axes"),
        (lambda: FisherRows(torch.ones(2, 1, 3), torch.eye(2)), "about 2 weights"),
    ],
)
def test_what_makes_no_sense_is_refused(make, match):
    with pytest.raises(ValueError, match=match):
        make()


def test_pool_and_targets_must_share_their_precision():
    pool = FisherFactors.categorical(FEATURES_N_D, PROBS_N_C, 1.0)
    check_shared(pool, Targets(FisherFactors.categorical(FEATURES_N_D, PROBS_N_C, 1.0)))
    with pytest.raises(ValueError, match="precision"):
        check_shared(pool, Targets(FisherFactors.categorical(FEATURES_N_D, PROBS_N_C, 2.0)))
