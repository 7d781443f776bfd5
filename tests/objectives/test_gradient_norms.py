"""EGL, GraNd and EL2N: sums over labels written out, identities, sure predictions, refusals."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import natsel
from natsel import CategoricalSamples, FisherFactors, FisherRows
from natsel.objectives.gradient_norms import EGL, EL2N, GraNd
from natsel.search import TopK


def score(objective, belief, labels=None):
    return natsel.score(natsel.Method(objective, TopK()), belief, labels=labels)


def layer(seed, count=6, classes=4, width=3):
    generator = torch.Generator().manual_seed(seed)
    features_N_D = torch.randn(count, width, generator=generator, dtype=torch.float64)
    probs_N_C = (2 * torch.randn(count, classes, generator=generator, dtype=torch.float64)).softmax(1)
    return FisherFactors.categorical(features_N_D, probs_N_C)


def gradient_lengths(belief):
    """‖(π − e_y) ⊗ x‖ for every label y, [N, C]."""
    residuals_N_C_C = belief.outputs_N_C[:, None] - torch.eye(belief.outputs_N_C.shape[1], dtype=torch.float64)
    return residuals_N_C_C.norm(dim=2) * belief.features_N_D.norm(dim=1, keepdim=True)


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 1000), classes=st.integers(1, 5), width=st.integers(1, 4))
def test_sums_over_labels_written_out(seed, classes, width):
    belief = layer(seed, classes=classes, width=width)
    probs_N_C, lengths_N_C = belief.outputs_N_C, gradient_lengths(belief)
    torch.testing.assert_close(score(EGL(), belief), (probs_N_C * lengths_N_C.square()).sum(1))
    torch.testing.assert_close(score(EGL(squared=False), belief), (probs_N_C * lengths_N_C).sum(1))
    gini_N = (1 - probs_N_C.square().sum(1)) * belief.features_N_D.square().sum(1)
    torch.testing.assert_close(score(EGL(), belief), gini_N)
    labels_N = torch.randint(classes, (6,), generator=torch.Generator().manual_seed(seed))
    known_N = lengths_N_C.gather(1, labels_N[:, None])[:, 0]
    torch.testing.assert_close(score(GraNd(), belief, labels_N), known_N)
    torch.testing.assert_close(score(GraNd(squared=True), belief, labels_N), known_N.square())
    torch.testing.assert_close(score(EL2N(), belief, labels_N) * belief.features_N_D.norm(dim=1), known_N)


def test_hard_labels_make_gradients_shorter_than_expected():
    belief = layer(1)
    hard_N = score(GraNd(squared=True), belief, belief.outputs_N_C.argmax(1))
    assert (hard_N <= score(EGL(), belief) + 1e-12).all()


def test_el2n_is_the_mean_over_draws():
    generator = torch.Generator().manual_seed(2)
    probs_N_K_C = torch.randn(5, 3, 4, generator=generator, dtype=torch.float64).softmax(2)
    log_weights_K = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64).log()
    belief = CategoricalSamples.from_probs(probs_N_K_C, log_weights_K=log_weights_K)
    labels_N = torch.tensor([0, 3, 2, 1, 1])
    gaps_N_K = (probs_N_K_C - torch.nn.functional.one_hot(labels_N, 4)[:, None]).norm(dim=2)
    torch.testing.assert_close(score(EL2N(), belief, labels_N), gaps_N_K @ log_weights_K.exp())
    one = FisherFactors.categorical(torch.ones(5, 1), probs_N_K_C[:, 0])
    single = CategoricalSamples.from_probs(probs_N_K_C[:, :1])
    torch.testing.assert_close(score(EL2N(), one, labels_N), score(EL2N(), single, labels_N))


def test_a_sure_prediction_keeps_its_digits():
    belief = FisherFactors.categorical(torch.ones(2, 1), torch.tensor([[1.0, 1e-26], [1.0, 0.0]], dtype=torch.float64))
    labels_N = torch.tensor([0, 0])
    assert score(GraNd(), belief, labels_N).tolist() == pytest.approx([2**0.5 * 1e-26, 0.0], rel=1e-9, abs=0)
    assert score(EL2N(), belief, labels_N).tolist() == pytest.approx([2**0.5 * 1e-26, 0.0], rel=1e-9, abs=0)
    assert score(EGL(squared=False), belief).tolist() == pytest.approx([2 * 2**0.5 * 1e-26, 0.0], rel=1e-9, abs=0)
    assert score(EGL(), belief).tolist() == pytest.approx([2e-26, 0.0], rel=1e-9, abs=0)


def test_rows_and_one_output():
    rows = FisherRows(torch.tensor([[[3.0, 4.0]], [[0.0, 0.0]]]))
    assert score(EGL(), rows).tolist() == [25.0, 0.0]
    assert score(EGL(squared=False), rows).tolist() == [5.0, 0.0]
    assert score(EGL(squared=False), FisherFactors.gaussian([[3.0, 4.0]], noise=4.0)).tolist() == [2.5]
    two = FisherRows(torch.ones(1, 2, 3))
    assert score(EGL(), two).tolist() == [6.0]
    with pytest.raises(ValueError, match="squared: lengths that are not squared need one gradient per point, found 2"):
        score(EGL(squared=False), two)


def test_refusals():
    belief = layer(3)
    for objective in (GraNd(), EL2N()):
        with pytest.raises(ValueError, match="labels"):
            score(objective, belief)
        with pytest.raises(ValueError, match="labels: classes run from 0 to 3, found 4 at point 4"):
            score(objective, belief, [0, 1, 2, 3, 4, 0])
        with pytest.raises(ValueError, match="labels: expected class numbers, found fractions"):
            score(objective, belief, [0.5] * 6)
        with pytest.raises(ValueError, match=r"belief: labels of classes need probabilities, .*diagonal"):
            score(objective, FisherFactors.gaussian([[1.0]]), [0])
