"""What sampled rows do to selections: totals that are possible, seeds that agree, and words where noise decided."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import natsel
from natsel.objectives import Argument, Context, needs_everywhere, read


def draws(count, members, classes, scale, seed):
    generator = torch.Generator().manual_seed(seed)
    logits_N_K_C = scale * torch.randn(count, members, classes, generator=generator, dtype=torch.float64)
    return natsel.CategoricalSamples(logits_N_K_C.log_softmax(-1))


@settings(deadline=None, max_examples=15)
@given(
    seed=st.integers(0, 1000),
    rows=st.sampled_from([4, 16, 64]),
    scale=st.sampled_from([0.2, 1.0, 4.0]),
    name=st.sampled_from(["batchbald", "batch-jepig", "batch-epig"]),
)
def test_no_total_exceeds_what_is_possible(seed, rows, scale, name):
    """No batch tells more than its points do one by one, nor more than there is to know."""
    pool, targets = draws(30, 6, 3, scale, seed), draws(3, 6, 3, scale, seed + 1)
    objective = {"batchbald": natsel.EIG, "batch-jepig": natsel.JEPIG, "batch-epig": natsel.EPIG}[name](rows=rows)
    aims = {} if name == "batchbald" else {"targets": targets}
    batch = natsel.select(natsel.Method(objective, natsel.Greedy()), pool, k=8, seed=seed, **aims)
    alone = natsel.score("bald", pool)[torch.from_numpy(batch.ids)]
    assert batch.total <= float(alone.sum()) + 1e-9
    assert batch.total <= math.log(6) + 1e-9
    assert batch.total == pytest.approx(float(batch.scores.sum()), abs=1e-9)
    if name == "batchbald":
        assert bool((batch.scores <= alone + 1e-9).all())


def test_seeds_agree_on_sampled_jepig():
    """Sampled and weak: 3^12 labellings of the targets, of which 4,096 are followed."""
    pool, targets = draws(60, 30, 3, 0.3, 0), draws(12, 30, 3, 0.3, 1)
    score_S_N = torch.stack([natsel.score("jepig", pool, targets=targets, seed=seed) for seed in range(6)])
    noise, signal = float(score_S_N.std(0).mean()), float(score_S_N.mean(0).std())
    assert noise < 0.25 * signal
    assert float(score_S_N.min()) > 0


@pytest.mark.parametrize("name", ["jepig", "batch-jepig", "batch-epig", "batchbald"])
def test_a_pick_that_noise_decided_is_named(name):
    """Forty points that differ by less than few rows can tell."""
    base = draws(1, 30, 3, 0.3, 0).log_probs_N_K_C
    moved = 1e-3 * torch.randn(40, 30, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    pool = natsel.CategoricalSamples((base + moved).log_softmax(-1))
    aims = {} if name == "batchbald" else {"targets": draws(12, 30, 3, 0.3, 1)}
    batch = natsel.select(name, pool, k=12, **aims)
    (warning,) = [warning for warning in batch.warnings if "decided by noise" in warning]
    rows = 4 * natsel.methods()[name].objective.rows
    assert f"{type(natsel.methods()[name].objective).__name__}(rows={rows})" in warning


@pytest.mark.parametrize("objective", [natsel.EIG(rows=64), natsel.JEPIG(rows=64), natsel.EPIG(rows=64)], ids=repr)
def test_claimed_errors_are_those_of_repeated_seeds(objective):
    pool, targets = draws(12, 10, 3, 0.7, 0), draws(6, 10, 3, 0.7, 1)
    aims = natsel.Targets(targets) if Argument.TARGETS in needs_everywhere(objective) else None
    leads, claims = [], []
    for seed in range(12):
        state = read(objective, pool, Context(aims, None, torch.Generator().manual_seed(seed)))
        for position in range(6):
            state.add(position)
        rest = torch.arange(7, 12)
        gain_n = state.gains(torch.arange(6, 12))
        leads.append(gain_n[0] - gain_n[1:])
        claims.append(state.errors(rest, 6))
        assert not state.exact
    ratio = torch.stack(leads).std(0).square().mean().sqrt() / torch.stack(claims).square().mean().sqrt()
    assert 0.2 < float(ratio) < 1.4
