"""PIG with weights of targets: the mathematics itself, by enumeration."""

import math

import pytest
import torch

from natsel.information.known_labels import pig


def likelihoods(seed, *shape):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).mul(0.9).add(0.05)


WEIGHTS = [3.0, 0.0, 1.0, 0.5]


def test_pig_is_the_weighted_mean_of_log_ratios():
    seen, aims, prior = likelihoods(0, 5, 6), likelihoods(1, 4, 6), likelihoods(2, 6)
    prior = prior / prior.sum()
    expected = []
    for row in seen.tolist():
        evidence = math.fsum(w * p for w, p in zip(prior.tolist(), row, strict=True))
        posterior = [w * p / evidence for w, p in zip(prior.tolist(), row, strict=True)]
        ratios = [
            math.log(math.fsum(map(math.prod, zip(posterior, aim, strict=True))))
            - math.log(math.fsum(map(math.prod, zip(prior.tolist(), aim, strict=True))))
            for aim in aims.tolist()
        ]
        expected.append(sum(v * ratio for v, ratio in zip(WEIGHTS, ratios, strict=True)) / sum(WEIGHTS))
    found = pig(seen.log(), aims.log(), prior.log(), torch.tensor(WEIGHTS))
    assert found.tolist() == pytest.approx(expected, rel=1e-12)


def test_only_shares_of_weights_matter_and_none_means_equal():
    seen, aims = likelihoods(0, 5, 6).log(), likelihoods(1, 4, 6).log()
    found = pig(seen, aims, None, torch.tensor(WEIGHTS))
    torch.testing.assert_close(pig(seen, aims, None, 7 * torch.tensor(WEIGHTS)), found)
    torch.testing.assert_close(pig(seen, aims, None, torch.ones(4)), pig(seen, aims))
    assert not torch.allclose(found, pig(seen, aims))
    # A target twice is a target of twice the weight.
    torch.testing.assert_close(pig(seen, aims[[0, 0, 1]]), pig(seen, aims[:2], None, torch.tensor([2.0, 1.0])))


def test_a_target_of_weight_zero_may_have_a_label_that_no_draw_allows():
    seen, aims = likelihoods(0, 5, 6).log(), likelihoods(1, 3, 6).log()
    never = torch.full((1, 6), -math.inf, dtype=torch.float64)
    found = pig(seen, torch.cat([aims, never]), None, torch.tensor([3.0, 2.0, 1.0, 0.0]))
    torch.testing.assert_close(found, pig(seen, aims, None, torch.tensor([3.0, 2.0, 1.0])))
    with pytest.raises(ValueError, match="no draw allows the label of target 3"):
        pig(seen, torch.cat([aims, never]), None, torch.tensor([3.0, 2.0, 1.0, 1e-9]))
