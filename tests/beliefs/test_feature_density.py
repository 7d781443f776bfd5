"""Densities of features as a belief: the golden temperatures, thresholds the right way round, and what is refused."""

import math

import numpy as np
import pytest
import torch

import natsel
from golden_values import golden
from natsel.beliefs.feature_density import threshold_of

CASES = golden("02-feature-density")


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("temperature")])
def test_golden_temperatures(name):
    inputs, expected = CASES[name]["inputs"], CASES[name]["outputs"]
    belief = natsel.FeatureDensity([0.0] * 3, inputs["logits_N_C"], inputs["temperature"])
    for method in ("entropy", "aleatoric"):
        assert natsel.score(method, belief).tolist() == pytest.approx(expected["entropy_N"], rel=1e-12)
    assert natsel.score("energy", belief).tolist() == pytest.approx(expected["energy_N"], rel=1e-12)


def test_temperature_changes_neither_density_nor_class():
    generator = torch.Generator().manual_seed(0)
    logits_N_C = torch.randn(50, 4, generator=generator, dtype=torch.float64)
    entropies = []
    for temperature in (1e-3, 0.5, 1.0, 3.0, 1e6):
        belief = natsel.FeatureDensity(torch.arange(50.0), logits_N_C, temperature)
        assert torch.equal(belief.predict(), logits_N_C.argmax(1))
        assert natsel.score("density", belief).tolist() == [-float(place) for place in range(50)]
        entropies.append(natsel.score("entropy", belief))
    assert bool((torch.stack(entropies).diff(dim=0) >= -1e-12).all())
    torch.testing.assert_close(entropies[-1], torch.full((50,), math.log(4), dtype=torch.float64))


def test_threshold_flags_the_share_of_low_densities():
    log_density_N = torch.from_numpy(np.random.default_rng(0).normal(size=10_000))
    threshold = threshold_of(log_density_N, 0.99)
    belief = natsel.FeatureDensity(log_density_N, torch.zeros(10_000, 2), threshold=threshold)
    assert int(belief.unfamiliar.sum()) == 100
    assert threshold == pytest.approx(float(np.quantile(log_density_N, 0.01)), rel=1e-12)
    assert bool(log_density_N[belief.unfamiliar].max() < log_density_N[~belief.unfamiliar].min())


def test_kept_through_a_file_and_slices(tmp_path):
    belief = natsel.FeatureDensity([-3.0, -math.inf], [[1.0, 0.0], [0.0, -math.inf]], 2.0, -5.0, 0.3, ids=["a", "b"])
    belief._set(warnings=("density: a remark",))
    belief.save(tmp_path / "belief.npz")
    other = natsel.Belief.load(tmp_path / "belief.npz")[1:]
    assert other.ids.tolist() == ["b"]
    assert (other.temperature, other.threshold, other.entropy_threshold) == (2.0, -5.0, 0.3)
    assert other.warnings == ("density: a remark",)
    assert other.unfamiliar.tolist() == [True]
    assert natsel.select("density", belief, k=1).ids.tolist() == ["b"]
    assert "a remark" in natsel.select("density", belief, k=1).warnings[0]


def test_joint_methods_are_refused():
    belief = natsel.FeatureDensity([-3.0, -4.0], [[1.0, 0.0], [0.0, 1.0]])
    for method in ("bald", "batchbald", "power-bald"):
        with pytest.raises(ValueError, match="FeatureDensity"):
            natsel.select(method, belief, k=1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.0], [[1.0, 0.0], [0.0, 1.0]]), "log_density_N: expected one for each of 2"),
        (([math.nan], [[1.0, 0.0]]), "log_density_N: holds nan"),
        (([math.inf], [[1.0, 0.0]]), "log_density_N: holds nan or"),
        (([0.0], [[math.nan, 0.0]]), "logits_N_C: holds nan"),
        (([0.0], [[-math.inf, -math.inf]]), "logits_N_C: holds nan"),
        (([0.0], [1.0]), "logits_N_C: expected points × classes"),
        (([0.0], [[1.0]], 0.0), "temperature: expected a positive"),
    ],
)
def test_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        natsel.FeatureDensity(*arguments)


def test_no_threshold_no_decision():
    with pytest.raises(ValueError, match="this belief has none"):
        _ = natsel.FeatureDensity([0.0], [[1.0, 0.0]]).unfamiliar
    with pytest.raises(ValueError, match="level: expected a share"):
        threshold_of(torch.zeros(3), 1.0)
