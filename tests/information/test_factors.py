"""Factors of the Fisher information against explicit matrices: outer products, every precision, every kind."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from information.test_precision import FEATURES, OUTPUTS, WEIGHTS, every_form
from natsel.information.weights.factors import Factors, OuterFactors, RowFactors
from natsel.information.weights.output_curvature import complement, root, squared_lengths
from natsel.information.weights.precision import Isotropic
from natsel.memory import memory_budget

POINTS = 7


def made(kind: str, seed: int, points: int = POINTS) -> Factors:
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(points, FEATURES, generator=generator, dtype=torch.float64)
    logits = 2 * torch.randn(points, OUTPUTS, generator=generator, dtype=torch.float64)
    if kind == "rows":
        return RowFactors(torch.randn(points, 2, WEIGHTS, generator=generator, dtype=torch.float64))
    if kind == "softmax":
        return OuterFactors(features, logits.softmax(1), "softmax")
    if kind == "row":
        label = torch.nn.functional.one_hot(logits.argmax(1), OUTPUTS)
        return OuterFactors(features, logits.softmax(1) - label, "row")
    return OuterFactors(features, logits.exp(), "diagonal")


KINDS = pytest.mark.parametrize("kind", ["softmax", "diagonal", "row", "rows"])


def close(found: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


@KINDS
@given(seed=st.integers(0, 10**6), budget=st.sampled_from([1, 2000, 1 << 30]))
@settings(max_examples=15, deadline=None)
def test_every_reading_is_that_of_explicit_rows(kind, seed, budget):
    factors, few = made(kind, seed), made(kind, seed + 1, points=2)
    rows = factors.explicit(slice(None))
    assert rows.shape == (POINTS, factors.n_rows, factors.n_weights) == (len(factors), factors.n_rows, WEIGHTS)
    vectors = torch.randn(3, WEIGHTS, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    weights = torch.rand(POINTS, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    with memory_budget(budget):
        close(factors.apply(vectors), rows @ vectors.T)
        close(factors.traces(), rows.square().sum((1, 2)))
        close(factors.fisher(), torch.einsum("nrp,nrq->pq", rows, rows))
        close(factors.fisher(weights), torch.einsum("n,nrp,nrq->pq", weights, rows, rows))
        for precision in every_form(seed):
            inverse = torch.linalg.inv(precision.dense(WEIGHTS))
            close(factors.own(precision), rows @ inverse @ rows.mT)
            crossed = torch.einsum("nrp,pq,msq->nmrs", rows, inverse, few.explicit(slice(None)))
            close(factors.cross(few, precision), crossed)
            close(factors.quadratic(inverse), rows @ inverse @ rows.mT)
    close(factors[[2, 0]].explicit(slice(None)), rows[[2, 0]])


@KINDS
def test_blocks_are_symmetric_to_the_last_bit(kind):
    factors = made(kind, 3)
    for precision in every_form(1):
        blocks = factors.own(precision)
        assert torch.equal(blocks, blocks.mT) or torch.allclose(blocks, blocks.mT, rtol=1e-14, atol=1e-16)


def test_the_root_of_a_softmax_squares_to_its_curvature():
    probs = torch.randn(20, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64).softmax(1)
    roots = root(probs, "softmax")
    close(roots.mT @ roots, probs.diag_embed() - probs[:, :, None] * probs[:, None])
    close(squared_lengths(probs, "softmax"), 1 - probs.square().sum(1))


def test_a_sure_prediction_keeps_its_last_digits():
    left = 1e-26
    probs = torch.tensor([[1.0, left]], dtype=torch.float64)
    assert complement(probs).tolist() == [[left, 1.0]]
    factors = OuterFactors(torch.ones(1, 1, dtype=torch.float64), probs, "softmax")
    assert float(factors.traces()) == pytest.approx(2 * left, rel=1e-12)
    block = factors.own(Isotropic(1.0))[0]
    assert float(block.trace()) == pytest.approx(2 * left, rel=1e-12)
    certain = OuterFactors(torch.ones(1, 1), torch.tensor([[1.0, 0.0]]), "softmax")
    assert certain.own(Isotropic(1.0)).abs().max() == 0


def test_half_precision_features_are_read_in_full():
    whole = made("softmax", 0)
    half = OuterFactors(whole.features_N_D.float(), whole.outputs_N_C.float(), "softmax")
    found = half.own(Isotropic(0.5))
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, whole.own(Isotropic(0.5)), rtol=1e-5, atol=1e-6)
