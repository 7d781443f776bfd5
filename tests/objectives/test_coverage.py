"""Facility location, set cover, graph cut and their targeted forms: golden values and the definitions written out."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import natsel
from golden_values import golden
from natsel import FisherFactors, FisherRows, GaussianFeatures
from natsel.beliefs import Targets
from natsel.objectives import Argument, Context, needs_everywhere, pair_facts, read
from natsel.objectives.coverage import FLQMI, FLVMI, FacilityLocation, SetCover, SetCoverMI
from natsel.objectives.graph_cut import GCMI, GraphCut
from natsel.search import Greedy, TopK

CASE = golden("08-fisher")["submodular_information"]
OBJECTIVES = [FacilityLocation(), SetCover(), FLVMI(), SetCoverMI(), FLQMI(), GraphCut()]


def state_of(objective, belief, targets=None, held=None, seed=0):
    targets, held = (None if part is None else Targets.of(part) for part in (targets, held))
    return read(objective, belief, Context(targets, None, torch.Generator().manual_seed(seed), held))


def at(*positions):
    return torch.tensor(positions, dtype=torch.int64)


def rows(seed, count, width=4):
    return torch.randn(count, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# Golden values: a pool whose similarities are the matrix.


@pytest.fixture
def pool():
    return GaussianFeatures(torch.linalg.cholesky(torch.tensor(CASE["inputs"]["similarity"], dtype=torch.float64)))


@pytest.mark.parametrize(
    ("objective", "name"),
    [
        (FacilityLocation(), "facility_location"),
        (FLVMI(), "flvmi_eta1"),
        (FLVMI(eta=CASE["inputs"]["eta"]), "flvmi_eta_half"),
        (FLQMI(eta=CASE["inputs"]["eta"]), "flqmi_eta_half"),
        (GraphCut(penalty=CASE["inputs"]["graph_cut_lambda"]), "graph_cut"),
        (GCMI(penalty=CASE["inputs"]["graph_cut_lambda"]), "gcmi"),
    ],
)
def test_golden(objective, name, pool):
    batch, query = CASE["inputs"]["A"], CASE["inputs"]["Q"]
    state = state_of(objective, pool, pool[query] if Argument.TARGETS in needs_everywhere(objective) else None)
    assert state.value(at(*batch)) == pytest.approx(CASE["expected"][name], rel=1e-10)
    if hasattr(state, "add"):
        assert sum(state.add(position) for position in batch) == pytest.approx(CASE["expected"][name], rel=1e-10)


def test_set_cover_counts_the_points_reached(pool):
    """Γ(0) = {0, 1}, Γ(1) = {0, 1, 3}, Γ(2) = {2}, Γ(3) = {1, 3} at threshold 0.5."""
    state = state_of(SetCover(), pool)
    assert state.scores().tolist() == [2, 3, 1, 2]
    assert [state.add(1), state.add(3), state.add(2)] == [3, 0, 1]
    told = state_of(SetCoverMI(), pool, pool[[3]])
    assert told.scores().tolist() == [1, 2, 0, 2]
    assert told.value(at(0, 2)) == 1
    assert state_of(SetCover(threshold=1.0), pool).scores().tolist() == [1, 1, 1, 1], "a point covers itself"


# The definitions, written out.


def definition(objective, similar_V_A, aims_V_M, held_V_P, batch, query_M_A):
    """f(A ∪ P) − f(P), or the mutual information beyond P, by the formulas of the papers."""

    def best(similar_V_B):
        if isinstance(objective, SetCover | SetCoverMI):
            similar_V_B = (similar_V_B >= objective.threshold).double()
        return similar_V_B.clamp_min(0).amax(1) if similar_V_B.shape[1] else torch.zeros(len(similar_V_B)).double()

    mine_V, held_V = best(similar_V_A[:, batch]), best(held_V_P)
    match objective:
        case FacilityLocation() | SetCover():
            return float((torch.maximum(mine_V, held_V) - held_V).sum())
        case FLVMI() | SetCoverMI():
            aims_V = getattr(objective, "eta", 1.0) * best(aims_V_M)
            return float((torch.minimum(mine_V, aims_V) - held_V).clamp_min(0).sum())
        case FLQMI():
            return float(best(query_M_A[:, batch]).sum() + objective.eta * best(query_M_A.T)[batch].sum())
        case GraphCut():
            within = similar_V_A[batch][:, batch].sum()
            shared = held_V_P[batch].sum()
            return float(similar_V_A[:, batch].sum() - objective.penalty * (within + 2 * shared))
        case GCMI():
            return float(2 * objective.penalty * query_M_A[:, batch].sum())


@settings(deadline=None)
@given(
    seed=st.integers(0, 1000),
    which=st.sampled_from([*OBJECTIVES, GCMI(penalty=0.3), FLVMI(eta=0.4), FLQMI(eta=3.0), SetCover(threshold=0.2)]),
    held=st.integers(0, 3),
    cosine=st.booleans(),
)
def test_values_and_gains_are_the_definition(seed, which, held, cosine):
    objective = replace(which, cosine=cosine)
    held = held if Argument.GIVEN in pair_facts(type(objective), FisherFactors).accepts else 0
    rows_N, rows_M, rows_P = rows(seed, 8), rows(seed + 1, 3), rows(seed + 2, held)
    pool, targets, known = (FisherRows(part[:, None]) for part in (rows_N, rows_M, rows_P))
    state = state_of(
        objective, pool, targets if Argument.TARGETS in needs_everywhere(objective) else None, known if held else None
    )
    if cosine:
        rows_N, rows_M, rows_P = (torch.nn.functional.normalize(part) for part in (rows_N, rows_M, rows_P))
    parts = (rows_N @ rows_N.T, rows_N @ rows_M.T, rows_N @ rows_P.T)

    def expected(batch):
        return definition(objective, *parts, batch, rows_M @ rows_N.T)

    batch = torch.randperm(8, generator=torch.Generator().manual_seed(seed))[:4].tolist()
    assert state.scores().tolist() == pytest.approx([expected([n]) for n in range(8)], abs=1e-9)
    assert state.value(at()) == 0
    for size in range(1, 5):
        assert state.value(at(*batch[:size])) == pytest.approx(expected(batch[:size]), abs=1e-9)
        if hasattr(state, "add"):
            state.add(batch[size - 1])
            assert state.total == pytest.approx(expected(batch[:size]), abs=1e-9)
            gains = state.gains(torch.arange(8)).tolist()
            free = [n for n in range(8) if n not in batch[:size]]
            differences = [expected([*batch[:size], n]) - expected(batch[:size]) for n in free]
            assert [gains[n] for n in free] == pytest.approx(differences, abs=1e-9)


def test_a_similarity_below_zero_covers_nothing():
    apart = GaussianFeatures([[1.0], [-1.0]])
    assert state_of(FacilityLocation(), apart).scores().tolist() == [1, 1]
    assert state_of(GraphCut(), apart).scores().tolist() == pytest.approx([-0.4, -0.4])


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda objective: type(objective).__name__)
def test_any_belief_with_gradients_serves(objective):
    features_N_D = rows(0, 9)
    probs_N_C = rows(1, 9, 3).softmax(1)
    layer = FisherFactors.categorical(features_N_D, probs_N_C)
    outputs_N_C = layer.labelled("hard").outputs_N_C
    explicit = FisherRows((outputs_N_C[:, :, None] * features_N_D[:, None]).flatten(1)[:, None])
    for one in (True, False):
        both = [
            natsel.select(
                natsel.Method(objective, Greedy()),
                belief,
                4,
                targets=belief[5:] if Argument.TARGETS in needs_everywhere(objective) else None,
                given=belief[:2]
                if Argument.GIVEN in pair_facts(type(objective), FisherFactors).accepts and one
                else None,
            )
            for belief in (layer, explicit)
        ]
        assert both[0].ids.tolist() == both[1].ids.tolist()
        torch.testing.assert_close(both[0].scores, both[1].scores, rtol=1e-9, atol=1e-9)


def test_a_sample_of_the_ground_stands_for_the_pool():
    pool = GaussianFeatures(rows(3, 400))
    exact_N = state_of(FacilityLocation(), pool).scores()
    drawn = [state_of(FacilityLocation(ground=40), pool, seed=seed) for seed in range(200)]
    assert len(drawn[0].ground) == 40
    means_N = sum(state.scores() for state in drawn) / 200
    torch.testing.assert_close(means_N, exact_N, rtol=0.1, atol=0)
    assert torch.equal(drawn[5].scores(), state_of(FacilityLocation(ground=40), pool, seed=5).scores())
    assert not torch.equal(drawn[5].scores(), drawn[6].scores())
    whole = state_of(FacilityLocation(ground=10**6), pool)
    torch.testing.assert_close(whole.scores(), exact_N)
    for wrong in (0, -3, 2.5, "all"):
        with pytest.raises(ValueError, match="ground: expected a whole number of at least 1 or None, found "):
            FacilityLocation(ground=wrong)


def test_options_are_checked():
    for make in (lambda: FLVMI(eta=0), lambda: GraphCut(penalty=-1), lambda: SetCover(threshold=float("inf"))):
        with pytest.raises(ValueError, match=r"^(eta|penalty|threshold): expected a positive number, found"):
            make()


def test_a_modular_objective_takes_the_best_alone():
    pool, targets = GaussianFeatures(rows(4, 30)), GaussianFeatures(rows(5, 3))
    method = natsel.Method(GCMI(), TopK())
    picked = natsel.select(method, pool, 5, targets=targets)
    assert picked.total == pytest.approx(state_of(GCMI(), pool, targets).value(torch.from_numpy(picked.ids)))


@pytest.mark.parametrize("objective", [FacilityLocation(), SetCover(), GraphCut()], ids=lambda o: type(o).__name__)
def test_little_memory_finds_the_same(objective):
    pool = GaussianFeatures(rows(6, 50))
    method = natsel.Method(objective, Greedy())
    expected = natsel.select(method, pool, 5)
    for budget in (1, 1 << 12):
        with natsel.memory_budget(budget):
            assert natsel.select(method, pool, 5).ids.tolist() == expected.ids.tolist()


def test_no_table_of_all_pairs_is_ever_held(monkeypatch):
    """The largest tensor that similarities of all with all come in is a tile."""
    from natsel.information.weights import similarity

    sizes = []
    with_ = similarity.Kernel._with
    monkeypatch.setattr(similarity.Kernel, "_with", lambda *a: sizes.append((b := with_(*a)).numel()) or b)
    pool = GaussianFeatures(rows(7, 3000))
    natsel.select(natsel.Method(FacilityLocation(), Greedy()), pool, 3)
    assert max(sizes) <= 3000 * 3000 // 4
