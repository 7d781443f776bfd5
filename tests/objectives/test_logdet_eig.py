"""EIG by log-determinants: BALD of a point, what two labels share to leading order, and batches beyond ln K."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import natsel
from natsel.information import joint_mutual_information
from natsel.objectives import Context, LogDetEIG, read
from natsel.objectives.readings.draws.logdet_eig import scales, spread_rows


def draws(seed, count=30, n_draws=6, classes=4, spread=1.0, weighted=True):
    generator = torch.Generator().manual_seed(seed)
    logits = 1.5 * torch.randn(count, 1, classes, generator=generator, dtype=torch.float64)
    logits = logits + spread * torch.randn(count, n_draws, classes, generator=generator, dtype=torch.float64)
    log_weights_K = torch.randn(n_draws, generator=generator, dtype=torch.float64) * (1.0 if weighted else 0.0)
    return natsel.CategoricalSamples(logits.log_softmax(-1), log_weights_K.log_softmax(0))


def state_of(belief, held=None):
    return read(LogDetEIG(), belief, Context(None, None, torch.Generator(), held and natsel.Targets(held)))


@settings(deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.01, 1.0, 5.0]))
def test_a_point_alone_is_worth_its_bald(seed, spread):
    belief = draws(seed, 8, spread=spread)
    state = state_of(belief)
    alone_N = state.gains(torch.arange(8))
    torch.testing.assert_close(alone_N, natsel.score("bald", belief), rtol=1e-9, atol=1e-13)
    assert [state.value(torch.tensor([n])) for n in range(8)] == pytest.approx(alone_N.tolist(), rel=1e-9)


def test_scales_solve_for_the_worth():
    rows_n_C_K = spread_rows(draws(1), slice(None))
    worth_n = torch.linspace(1e-6, 6, 30, dtype=torch.float64)
    scale_n = scales(rows_n_C_K, worth_n)
    singular_n_C = torch.linalg.svdvals(rows_n_C_K)
    torch.testing.assert_close(0.5 * (scale_n[:, None] * singular_n_C.square()).log1p().sum(1), worth_n)
    assert scales(torch.zeros(1, 2, 3, dtype=torch.float64), torch.ones(1, dtype=torch.float64)).tolist() == [1.0]


@pytest.mark.parametrize("seed", range(4))
def test_what_two_labels_share_is_right_to_leading_order(seed):
    """I[Y_1;Y_2] = ½ tr(F_1 F_2) + O(ε⁵): halving the spread of draws quarters the relative error or better."""
    errors = []
    for spread in (0.2, 0.1, 0.05):
        belief = draws(seed, 2, 12, 3, spread)
        exact = float(natsel.score("bald", belief).sum()) - joint_mutual_information(
            belief.log_probs_N_K_C, belief.log_weights_K
        )
        state = state_of(belief)
        ours = float(state.scores().sum()) - state.value(torch.tensor([0, 1]))
        errors.append(abs(ours / exact - 1))
    assert errors[-1] < 0.1
    assert errors[-1] < errors[0] / 1.8


def test_batches_have_no_end_at_ln_k_and_agree_with_exact_ones_before_it():
    belief = draws(3, 200, 10, 4, spread=0.5, weighted=False)
    found = natsel.select("logdet-bald", belief, 60)
    assert found.total > math.log(10)
    assert (found.scores > 1e-3).all()
    exact = natsel.select("batchbald", belief, 4)

    def worth(ids):
        return natsel.select("batchbald", belief[list(ids)], 4).total

    assert worth(found.ids[:4]) >= 0.97 * worth(exact.ids)


def test_points_given_are_known_already():
    belief = draws(5)
    state, free = state_of(belief, belief[:5]), state_of(belief)
    for position in range(5):
        free.add(position)
    torch.testing.assert_close(state.scores(), free.gains(torch.arange(30)), rtol=1e-8, atol=1e-10)


def test_places_are_as_long_as_twice_bald():
    belief = draws(7)
    state = state_of(belief)
    torch.testing.assert_close(state.sizes(), 2 * natsel.score("bald", belief))
    rows_N_P = spread_rows(belief, slice(None)).flatten(1)
    rows_N_P = rows_N_P * (state.sizes() / rows_N_P.square().sum(1)).sqrt()[:, None]
    torch.testing.assert_close(state.distances(4), (rows_N_P - rows_N_P[4]).square().sum(1), rtol=1e-9, atol=1e-12)
    with natsel.memory_budget(1000):  # no room for a table: rows are made where they are looked at
        small = state_of(belief)
        torch.testing.assert_close(small.distances(4), state.distances(4))
        torch.testing.assert_close(small.gains(torch.arange(30)), state.gains(torch.arange(30)))


def test_batchbald_goes_on_when_its_draws_are_exhausted():
    belief = draws(9, 300, 8, 4, spread=4.0, weighted=False)
    found = natsel.select("batchbald", belief, 50)
    assert len(set(found.ids)) == 50
    assert found.total <= math.log(8) + 1e-9
    note = next(warning for warning in found.warnings if warning.startswith("saturated"))
    looked = int(note.split()[1])
    assert f"the other {50 - looked} were drawn as kmeans-bald draws them" in note
    alone = natsel.select("batchbald", belief, looked)
    assert found.ids[:looked].tolist() == alone.ids.tolist()
    bald_N = natsel.score("bald", belief)
    others = np.setdiff1d(np.arange(300), found.ids)
    assert float(bald_N[found.ids[looked:]].mean()) > float(bald_N[others].mean())
    again = natsel.select("batchbald", belief, 50)
    assert again.ids.tolist() == found.ids.tolist()
    assert natsel.select("batchbald", belief, 50, seed=1).ids[looked:].tolist() != found.ids[looked:].tolist()
