"""Greedy search: right on toy states, exact on small pools, and on large ones held to plain references."""

import math
from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import natsel
from drawn_orders import drawn
from natsel import EIG, CategoricalSamples, Greedy, Method
from natsel.capabilities import Capability
from natsel.information import joint_mutual_information
from natsel.information.joint_labels import DynamicJointEntropy, joint_mutual_information_sampled
from natsel.objectives import Context, read
from natsel.objectives.readings.draws.eig_categorical import CategoricalEIG
from natsel.search import greedy as greedy_module
from natsel.search.race import race

# Toy states: greedy knows nothing of beliefs.


class Cover:
    """Points are sets of items; a point adds the weight of the items no earlier point had."""

    offers = Capability.SCORES | Capability.GAINS
    submodular, exact, remaining, prefers_racing, tie = True, True, math.inf, False, 1e-10

    def __init__(self, sets, weights=None):
        self.sets, self.weights = sets, weights or {}
        self.covered, self.total, self.looked = set(), 0.0, 0

    def worth(self, items):
        return float(sum(self.weights.get(item, 1.0) for item in items))

    def scores(self):
        return torch.tensor([self.worth(items) for items in self.sets], dtype=torch.float64)

    bounds = scores

    def gains(self, positions):
        self.looked += len(positions)
        gains = [self.worth(self.sets[position] - self.covered) for position in positions.tolist()]
        return torch.tensor(gains, dtype=torch.float64)

    def add(self, position):
        gain = self.worth(self.sets[position] - self.covered)
        self.covered |= self.sets[position]
        self.total += gain
        return gain


def everyone(state):
    return torch.ones(len(state.scores()), dtype=torch.bool)


def run(state, k, allowed=None):
    allowed = everyone(state) if allowed is None else torch.tensor(allowed)
    return Greedy()(state, k, allowed, torch.Generator())


def test_greedy_covers_step_by_step():
    picks = run(Cover([{1, 2}, {1, 2, 3}, {4, 5}, {3, 4}, set()]), 5)
    assert picks.positions.tolist() == [1, 2, 0, 3, 4]
    assert picks.scores.tolist() == [3.0, 2.0, 0.0, 0.0, 0.0]
    assert picks.total == 5.0
    assert picks.gaps.tolist() == [1.0, 1.0, 0.0, 0.0, math.inf]
    assert picks.gap_errors.tolist() == [0.0] * 5
    assert picks.notes == ()
    assert picks.positions.dtype == torch.int64
    assert picks.scores.dtype == torch.float64


def test_masked_positions_are_never_taken():
    picks = run(Cover([{1, 2}, {1, 2, 3}, {4, 5}, {3, 4}]), 3, [True, False, True, True])
    assert picks.positions.tolist() == [0, 2, 3]


def test_no_picks():
    picks = run(Cover([{1}]), 0)
    assert picks.positions.shape == picks.scores.shape == (0,)
    assert picks.total == 0.0


def test_the_bounds_of_the_state_are_not_written_to():
    state = Cover([{1, 2}, {2, 3}, {3}])
    bounds = state.scores()
    state.bounds = lambda: bounds
    run(state, 2)
    assert bounds.tolist() == [2.0, 2.0, 1.0]


@settings(deadline=None)
@given(st.lists(st.sets(st.integers(0, 12)), min_size=1, max_size=40), st.data())
def test_lazy_greedy_equals_plain_greedy_with_ties_to_the_lower_position(sets, data):
    k = data.draw(st.integers(1, len(sets)))
    taken, covered, gains = [], set(), []
    for _ in range(k):
        gain = {n: len(items - covered) for n, items in enumerate(sets) if n not in taken}
        best = min(gain, key=lambda n: (-gain[n], n))
        taken.append(best)
        gains.append(gain[best])
        covered |= sets[best]
    picks = run(Cover(sets), k)
    assert picks.positions.tolist() == taken
    assert picks.scores.tolist() == gains


def test_laziness_saves_work_only_where_gains_can_only_fall(monkeypatch):
    sets = [{n} | ({-1} if n % 2 else set()) for n in range(2000)]
    weights = {n: 1 / (n + 1) for n in range(2000)}
    lazy, full = Cover(sets, weights), Cover(sets, weights)
    full.submodular = False
    assert run(lazy, 20).positions.tolist() == run(full, 20).positions.tolist()
    assert full.looked == sum(range(1981, 2001))
    assert lazy.looked < full.looked / 3


def test_a_state_with_synergy_is_looked_at_in_full():
    """Two halves of a pair are worth nothing alone: early gains do not bound later ones."""

    class Pair(Cover):
        submodular = False

        def worth_of(self, positions):
            return (
                10.0 * ({0, 299} <= positions)
                + sum(1.0 for p in positions if p not in (0, 299))
                + 2.0 * (0 in positions)
            )

        def scores(self):
            return torch.tensor([self.worth_of({n}) for n in range(300)], dtype=torch.float64)

        bounds = scores

        def gains(self, positions):
            now = self.worth_of(self.covered)
            gains = [self.worth_of(self.covered | {p}) - now for p in positions.tolist()]
            return torch.tensor(gains, dtype=torch.float64)

        def add(self, position):
            gain = float(self.gains(torch.tensor([position])))
            self.covered |= {position}
            self.total += gain
            return gain

    assert run(Pair([]), 2).positions.tolist() == [0, 299]


def test_gains_within_rounding_of_the_best_are_ties():
    state = Cover([{0}, {1}, {2}], {0: 1.0, 1: 1.0 + 1e-11, 2: 1.0 - 1e-6})
    assert run(state, 3).positions.tolist() == [0, 1, 2]
    state = Cover([{0}, {1}], {0: 1.0, 1: 1.0 + 1e-8})
    assert run(state, 1).positions.tolist() == [1]


def test_gains_are_reported_as_the_state_gives_them():
    """Rounding is the state's affair; a gain that is truly negative must stay visible."""
    assert run(Cover([{0}], {0: -0.5}), 1).scores.tolist() == [-0.5]


@pytest.mark.parametrize(
    ("exact", "remaining", "order"),
    [(True, 1e-11, [0, 1, 2]), (True, 1e-6, None), (False, 1e-4, [1, 2, 0]), (False, 1e-2, None)],
)
def test_a_saturated_state_is_filled_without_looking(exact, remaining, order):
    """Exact gains below the tie are all alike and go by position; estimated ones by what was last known of them."""
    state = Cover([{0}, {1}, {2}], {0: 1.0, 1: 3.0, 2: 2.0})
    state.exact, state.remaining = exact, remaining
    picks = run(state, 3)
    assert picks.positions.tolist() == (order or [1, 2, 0])
    if order:
        assert state.looked == 0
        assert picks.notes[0].startswith("saturated: 0 picks leave")
    else:
        assert state.looked > 0
        assert picks.notes == ()


@pytest.mark.parametrize("exact", [True, False])
def test_a_saturated_state_is_never_filled_with_masked_positions(exact):
    state = Cover([{0}, {1}, {2}, {3}], {0: 9.0, 1: 1.0, 2: 3.0, 3: 2.0})
    state.exact, state.remaining = exact, 0.0
    assert sorted(run(state, 2, [False, True, True, False]).positions.tolist()) == [1, 2]


# A race on toy rows.


class Track:
    """Gains are row sums; rough levels see a random tenth of the rows, ten times as heavy."""

    offers = Capability.SCORES | Capability.GAINS | Capability.RACING

    def __init__(self, term_N_R, seed=0, levels=(10, 1)):
        self.term_N_R = term_N_R
        generator = torch.Generator().manual_seed(seed)
        self.levels = []
        for share in levels:
            rows = torch.rand(term_N_R.shape[1], generator=generator) < 1 / share
            self.levels.append((rows, share))
        self.ran = [0] * len(levels)
        self.in_double = 0

    submodular, exact, remaining, total, prefers_racing, tie = True, False, math.inf, 0.0, True, 1e-10

    @property
    def level_count(self):
        return len(self.levels)

    def scores(self):
        return self.term_N_R.sum(1) + 0.3

    bounds = scores

    def gains(self, positions):
        self.in_double += len(positions)
        return self.term_N_R[positions].sum(1)

    def terms(self, positions, level):
        rows, share = self.levels[level]
        self.ran[level] += len(positions)
        return (self.term_N_R[positions][:, rows] * share).float()

    def rejection_probs(self, level):
        rows, share = self.levels[level]
        return torch.full((int(rows.sum()),), 1 - 1 / share)

    def add(self, position):
        gain = float(self.term_N_R[position].sum())
        self.total += gain
        return gain


def track(seed, lead, count=600, rows=1000, levels=(10, 1)):
    """Candidates that differ little, and one that leads by `lead`."""
    generator = torch.Generator().manual_seed(seed)
    term_N_R = torch.rand(count, rows, generator=generator, dtype=torch.float64) / rows
    best = int(torch.randint(count, (), generator=generator))
    term_N_R[best] *= (float(term_N_R.sum(1).max()) + lead) / float(term_N_R[best].sum())
    return Track(term_N_R, seed, levels), best


@pytest.mark.parametrize("levels", [(1,), (10, 1), (20, 5, 1)])
def test_a_race_finds_the_leader_and_how_far_it_leads(levels):
    for seed in range(10):
        state, best = track(seed, lead=0.05, levels=levels)
        choice = race(state, state.bounds())
        assert choice.position == best
        # The runner-up may have left the race early; its place is then taken by the next finalist.
        assert 0.05 - 1e-5 <= choice.gap < (0.05 + 1e-5 if levels == (1,) else 0.09)
        assert choice.error == 0.0


def test_a_race_runs_few_to_the_end():
    state, _ = track(1, lead=0.2)
    race(state, state.bounds())
    assert state.ran[0] <= 600
    assert 1 <= state.ran[1] < 100


def test_bounds_keep_hopeless_candidates_from_running():
    state, best = track(2, lead=0.5)
    bounds = state.bounds()
    bounds[:] = 0.4  # below what the leader shows on its first rows
    bounds[best] = 9.0
    assert race(state, bounds).position == best
    assert state.ran[0] < 600


def test_a_race_never_takes_who_is_out():
    state, best = track(3, lead=0.1)
    bounds = state.bounds()
    bounds[best] = -math.inf
    choice = race(state, bounds)
    assert choice.position != best
    assert choice.position == int(torch.where(bounds > -math.inf, state.term_N_R.sum(1), -math.inf).argmax())
    assert float(bounds[best]) == -math.inf


def test_gains_seen_in_a_race_become_bounds():
    state, best = track(4, lead=0.1)
    bounds = state.bounds()
    race(state, bounds)
    assert float(bounds[best]) == pytest.approx(float(state.term_N_R[best].sum()), abs=1e-5)


@pytest.mark.parametrize("copies", [2, 20, 100, 500])
def test_copies_of_the_leader_tie_to_the_lowest_position(copies):
    state, best = track(5, lead=0.05)
    positions = torch.randperm(600, generator=torch.Generator().manual_seed(copies))[:copies]
    state.term_N_R[positions] = state.term_N_R[best].clone()
    choice = race(state, state.bounds())
    assert choice.position == min(best, int(positions.min()))
    assert choice.gap == pytest.approx(0, abs=1e-6)


def test_what_float32_cannot_tell_apart_is_decided_in_float64():
    state, best = track(6, lead=0.05)
    rivals = [n for n in range(600) if n != best][-20:]
    for place, rival in enumerate(rivals, start=1):
        state.term_N_R[rival] = state.term_N_R[best] * (1 + place * 1e-8)
    assert race(state, state.bounds()).position == rivals[-1]
    assert 21 <= state.in_double <= 64


def test_a_race_on_doubtful_rows_reports_its_error():
    state, _ = track(7, lead=0.0, levels=(10, 4))
    choice = race(state, state.bounds())
    assert choice.error > 0
    assert choice.gap < 4 * choice.error


def test_a_single_candidate_wins_by_infinity():
    state = Track(torch.rand(1, 10, dtype=torch.float64))
    choice = race(state, state.bounds())
    assert (choice.position, choice.gap, choice.error) == (0, math.inf, 0.0)


# Categorical pools.


def pool(seed, count, draws, classes, spread=1.0, weighted=False, dtype=torch.float64):
    """Logits shared by all draws plus noise of each draw's own."""
    generator = torch.Generator().manual_seed(seed)
    shared = 2 * torch.randn(count, 1, classes, generator=generator, dtype=torch.float64)
    own = spread * torch.randn(count, draws, classes, generator=generator, dtype=torch.float64)
    weights = torch.randn(draws, generator=generator, dtype=torch.float64).log_softmax(0) if weighted else None
    return CategoricalSamples.from_logits((shared + own).to(dtype), weights)


def graded_pool(seed, count=600, draws=16, classes=4, dtype=torch.float64):
    """Few points that tell a lot, each less than the one before, among many that tell little: clear margins."""
    generator = torch.Generator().manual_seed(seed)
    spread_N = torch.full((count,), 0.3, dtype=torch.float64)
    best = torch.randperm(count, generator=generator)[:8]
    spread_N[best] = 4.0 * 0.8 ** torch.arange(8, dtype=torch.float64)
    noise = torch.randn(count, draws, classes, generator=generator, dtype=torch.float64)
    return CategoricalSamples.from_logits((spread_N[:, None, None] * noise).to(dtype))


def batchbald(belief, k, rows=4096, seed=0, **options):
    return natsel.select(Method(EIG(rows=rows), Greedy()), belief, k=k, seed=seed, **options)


def state_of(belief, rows=4096, seed=0):
    return read(EIG(rows=rows), belief, Context(None, None, torch.Generator().manual_seed(seed)))


def plain_greedy(belief, k, count, seed=0):
    """The readable reference: every candidate, every configuration, float64."""
    state = DynamicJointEntropy(belief.log_weights_K, count, torch.Generator().manual_seed(seed))
    taken = []
    for _ in range(k):
        gain_N = state.gains(belief.log_probs_N_K_C)
        gain_N[taken] = -math.inf
        taken.append(int(gain_N.argmax()))
        state.add(belief.log_probs_N_K_C[taken[-1]])
    return taken


@settings(deadline=None)
@given(seed=st.integers(0, 1000), draws=st.integers(1, 6), classes=st.integers(1, 4), weighted=st.booleans())
def test_gains_of_picks_are_differences_of_joint_information(seed, draws, classes, weighted):
    belief = pool(seed, 7, draws, classes, weighted=weighted)
    selection = batchbald(belief, 5)
    totals = [
        joint_mutual_information(belief.log_probs_N_K_C[selection.ids[:size].tolist()], belief.log_weights_K)
        for size in range(1, 6)
    ]
    assert selection.scores.cumsum(0).tolist() == pytest.approx(totals, abs=1e-10)
    assert selection.total == pytest.approx(totals[-1], abs=1e-10)
    assert bool((selection.scores.diff() <= 1e-10).all())  # submodular: gains only fall
    assert bool((selection.scores >= 0).all())


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 1000))
def test_greedy_is_at_least_the_promised_share_of_the_best_batch(seed):
    belief = pool(seed, 8, 4, 3, spread=2.0)
    greedy = batchbald(belief, 3).total
    best = natsel.select("best-bald", belief, k=3).total
    assert (1 - 1 / math.e) * best <= greedy <= best + 1e-10


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 1000), draws=st.integers(2, 12), rows=st.sampled_from([1, 4, 30, 4096]))
def test_totals_never_exceed_the_entropy_of_the_weights(seed, draws, rows):
    belief = pool(seed, 30, draws, 4, spread=3.0, weighted=True)
    ceiling = float(torch.special.entr(belief.log_weights_K.exp()).sum())
    assert ceiling <= math.log(draws) + 1e-12
    selection = batchbald(belief, 8, rows=rows, seed=seed)
    # One row more or less is what systematic thinning may round by.
    slack = 1e-9 if rows == 4096 else ceiling / rows
    assert selection.total <= ceiling + slack
    assert selection.total >= 0


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 1000), rows=st.sampled_from([16, 64]))
def test_total_and_remaining_add_up_when_rows_are_thinned(seed, rows):
    """Chances add up to whole rows of equal worth, so thinning moves what is left by rounding only."""
    belief = pool(seed, 12, 6, 4, spread=1.5)
    state = state_of(belief, rows, seed)
    for position in range(6):
        state.add(position)
    assert not state.exact
    assert state.total + state.remaining == pytest.approx(math.log(6), abs=1e-3)


def test_members_that_never_err_make_copies_worthless():
    generator = torch.Generator().manual_seed(0)
    labels_N_K = torch.randint(3, (10, 6), generator=generator)
    one_hot = torch.nn.functional.one_hot(torch.cat([labels_N_K, labels_N_K]), 3).double()
    state = state_of(CategoricalSamples.from_probs(one_hot))
    for position in range(3):
        assert state.add(position) > 0
        assert state.add(position + 10) == pytest.approx(0, abs=1e-14)
        assert float(state.gains(torch.tensor([position]))) == pytest.approx(0, abs=1e-14)


def test_of_exact_copies_the_one_goes_first_that_the_seed_says():
    half = graded_pool(1, count=100)
    belief = CategoricalSamples(half.log_probs_N_K_C.repeat(2, 1, 1))
    for forced in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(CategoricalEIG, "prefers_racing", property(lambda state, forced=forced: forced))
            taken = batchbald(belief, 8).ids.tolist()
        for place, position in enumerate(taken):
            first, _ = drawn([position, (position + 100) % 200])
            assert position == first or first in taken[:place]


def test_a_pool_of_copies_is_drawn_from():
    belief = CategoricalSamples(pool(0, 1, 8, 4).log_probs_N_K_C.expand(3000, -1, -1))
    assert batchbald(belief, 6).ids.tolist() == drawn(range(3000))[:6]


@pytest.mark.parametrize("draws", [1, 3])
def test_points_that_tell_nothing_are_drawn(draws):
    """One draw, or draws that agree: all gains are 0."""
    shared = pool(0, 500, 1, 7).log_probs_N_K_C.expand(-1, draws, -1)
    selection = batchbald(CategoricalSamples(shared), 5)
    assert selection.ids.tolist() == drawn(range(500))[:5]
    assert selection.scores.tolist() == pytest.approx([0.0] * 5, abs=1e-12)


def test_float32_rounding_never_makes_a_gain_negative():
    """Rows of float32 probabilities sum to 1 ± 1e-7, which must not show as information lost."""
    shared = pool(0, 50, 1, 10, spread=5.0, dtype=torch.float32).log_probs_N_K_C.expand(-1, 40, -1)
    selection = batchbald(CategoricalSamples(shared), 10)
    assert bool((selection.scores >= 0).all())
    assert selection.total >= -1e-12


@settings(deadline=None)
@given(
    seed=st.integers(0, 10_000),
    count=st.sampled_from([1, 2, 7, 60]),
    draws=st.sampled_from([1, 2, 5, 20]),
    classes=st.sampled_from([1, 2, 5, 30]),
    scale=st.sampled_from([0.01, 1.0, 10.0, 400.0]),
    rows=st.sampled_from([1, 3, 50, 4096]),
    dead=st.booleans(),
)
def test_any_pool_gives_a_sound_batch(seed, count, draws, classes, scale, rows, dead):
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(count, draws, classes, generator=generator, dtype=torch.float64)
    weights = 3 * torch.randn(draws, generator=generator, dtype=torch.float64)
    if dead:
        logits[..., 1:].masked_fill_(torch.rand(count, draws, classes - 1, generator=generator) < 0.4, -math.inf)
        weights[1:].masked_fill_(torch.rand(draws - 1, generator=generator) < 0.3, -math.inf)
    belief = CategoricalSamples.from_logits(logits, weights.log_softmax(0))
    k = min(count, 12)
    selection = batchbald(belief, k, rows=rows, seed=seed)
    assert len(set(selection.ids.tolist())) == k
    assert bool(selection.scores.isfinite().all())
    assert bool((selection.scores >= 0).all())
    assert float(selection.scores[0]) == pytest.approx(float(natsel.score("bald", belief).max()), abs=1e-9)


# The state behind the fast path.


def raced_state(rows=512, taken=(3, 14, 15, 92), spread=1.0):
    belief = pool(2, 400, 20, 5, spread=spread)
    state = state_of(belief, rows)
    for position in taken:
        state.add(position)
    return state


@pytest.mark.parametrize("spread", [1.0, 4.0], ids=["flat posteriors", "sharp posteriors"])
def test_terms_sum_to_the_gains_at_the_last_level(spread):
    state = raced_state(spread=spread, rows=64)
    everyone = torch.arange(400)
    last = state.level_count - 1
    assert not state.exact
    assert torch.allclose(state.terms(everyone, last).sum(1).double(), state.gains(everyone), rtol=0, atol=2e-6)
    assert state.terms(everyone[:7], last).shape == (7, state.rows.count)
    assert state.rejection_probs(last).shape == (state.rows.count,)


def test_rough_levels_have_fewer_rows_and_are_near():
    state = raced_state()
    everyone = torch.arange(400)
    assert state.level_count > 1
    sizes = [state.terms(everyone[:1], level).shape[1] for level in range(state.level_count)]
    assert sizes == sorted(set(sizes))
    rough = state.terms(everyone, 0).sum(1).double()
    assert float((rough - state.gains(everyone)).abs().max()) < 0.2 * float(state.gains(everyone).max())


def test_doubt_is_zero_for_certain_rows_only():
    exact = raced_state(rows=4096, taken=(3, 14))
    assert exact.exact
    assert float(exact.rejection_probs(exact.level_count - 1).max()) == 0.0
    thinned = raced_state()
    rejection_prob_R = thinned.rejection_probs(thinned.level_count - 1)
    assert bool(((rejection_prob_R >= 0) & (rejection_prob_R < 1)).all())
    assert torch.equal(rejection_prob_R == 0, thinned.rows.kept_R == 1)


def test_bounds_are_bald_and_no_gain_is_larger():
    state = raced_state(rows=4096, taken=(3, 14, 15))
    above_N = state.bounds() - natsel.score("bald", state.belief)  # a float32 score may fall short by 2e-6
    assert bool(((above_N >= 0) & (above_N <= 4e-6)).all())
    assert bool((state.gains(torch.arange(400)) <= state.bounds() + 2e-6).all())


def test_a_pool_that_does_not_fit_is_made_on_demand():
    held = raced_state()
    with natsel.memory_budget(50_000):
        lean = raced_state()
        assert not lean.pool.held
        terms = lean.terms(torch.arange(50), 0)
    assert held.pool.held
    assert lean.pool.probs_N_C_K.numel() == 0
    assert torch.allclose(terms, held.terms(torch.arange(50), 0), atol=1e-7)


def test_impossible_classes_and_rare_rows_give_no_nan():
    """Trees: one-hot but for a hair, and classes no tree names. Rows of weight 1e-27 meet probabilities of 1e-20."""
    generator = torch.Generator().manual_seed(0)
    labels_N_K = torch.randint(8, (3000, 50), generator=generator)
    probs_N_K_C = torch.zeros(3000, 50, 10, dtype=torch.float64)
    probs_N_K_C[..., :8] = 1e-7 / 7
    probs_N_K_C.scatter_(2, labels_N_K[..., None], 1 - 1e-7)
    selection = batchbald(CategoricalSamples.from_probs(probs_N_K_C), 8)
    assert bool(selection.scores.isfinite().all())
    assert len(set(selection.ids.tolist())) == 8
    assert selection.total == pytest.approx(math.log(50), abs=1e-5)


# The fast path against plain references.


@cache
def pool_and_plain_picks(count, draws, classes, k):
    belief = pool(count, count, draws, classes)
    return belief, plain_greedy(belief, k, count=2000)


@pytest.mark.parametrize(
    ("count", "draws", "classes", "k", "rows", "allowed_loss"),
    [
        (400, 20, 10, 6, 256, 0.010),
        (400, 20, 10, 6, 1024, 0.005),
        (400, 20, 10, 6, 4096, 0.003),
        (1000, 30, 3, 9, 256, 0.010),
        (1000, 30, 3, 9, 4096, 0.003),
        (2000, 25, 4, 6, 256, 0.010),
    ],
)
def test_the_fast_path_achieves_what_plain_greedy_does(count, draws, classes, k, rows, allowed_loss):
    """Judged by enumeration of the batch's labels: the information achieved, not the estimate of it."""
    belief, reference = pool_and_plain_picks(count, draws, classes, k)
    state = state_of(belief, rows)
    for position in reference[:-1]:
        state.add(position)
    assert state.prefers_racing
    assert not state.exact

    def judged(batch):
        return joint_mutual_information(belief.log_probs_N_K_C[batch], belief.log_weights_K)

    selection = batchbald(belief, k, rows=rows)
    achieved, wanted = judged(selection.ids.tolist()), judged(reference)
    assert achieved >= wanted - allowed_loss
    assert selection.total == pytest.approx(achieved, abs=0.03 * math.sqrt(256 / rows) + 0.005)


def test_the_fast_path_on_a_wide_pool_judged_by_common_samples():
    belief = pool(5, 1000, 50, 10)
    reference, selection = plain_greedy(belief, 7, count=1000), batchbald(belief, 7, rows=2048)

    def judged(batch):
        generator = torch.Generator().manual_seed(0)
        return joint_mutual_information_sampled(belief.log_probs_N_K_C[batch], 20_000, None, generator)

    (achieved, error), (wanted, _) = judged(selection.ids.tolist()), judged(reference)
    assert achieved >= wanted - 0.005 - 2 * error
    assert len(set(selection.ids.tolist())) == 7


def picks_under(belief, k, rows, **patches):
    with pytest.MonkeyPatch.context() as patch:
        for name, value in patches.items():
            patch.setattr(CategoricalEIG, name, value)
        return batchbald(belief, k, rows=rows)


def test_the_graded_pool_has_clear_margins():
    for seed in range(3):
        selection = batchbald(graded_pool(seed), 5)
        assert float(selection.gaps.min()) > 1e-3
        assert not any("noise" in warning for warning in selection.warnings)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_racing_and_looking_agree_on_certain_rows(seed):
    belief = graded_pool(seed)
    raced = picks_under(belief, 5, 4096, prefers_racing=property(lambda state: True))
    looked = picks_under(belief, 5, 4096, prefers_racing=property(lambda state: False))
    assert raced.ids.tolist() == looked.ids.tolist()
    assert torch.allclose(raced.scores, looked.scores, rtol=0, atol=1e-10)
    assert torch.allclose(raced.gaps, looked.gaps, rtol=0, atol=1e-5)
    assert looked.gap_errors.tolist() == [0.0] * 5


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_lazy_and_not_lazy_agree(seed, monkeypatch):
    belief = graded_pool(seed)
    looking = property(lambda state: False)
    lazy = picks_under(belief, 5, 4096, prefers_racing=looking)
    full = picks_under(belief, 5, 4096, prefers_racing=looking, submodular=False)
    assert lazy.ids.tolist() == full.ids.tolist()
    assert torch.equal(lazy.scores, full.scores)

    def forgetful(state, bound_N):
        bound_N[bound_N > -math.inf] = 1e3
        return race(state, bound_N)

    racing = property(lambda state: True)
    lazy = picks_under(belief, 5, 4096, prefers_racing=racing)
    monkeypatch.setattr(greedy_module, "race", forgetful)
    full = picks_under(belief, 5, 4096, prefers_racing=racing)
    assert lazy.ids.tolist() == full.ids.tolist()


@pytest.mark.parametrize("rows", [256, 4096])
def test_same_picks_whatever_the_budget_and_whether_the_pool_is_held(rows):
    belief = graded_pool(3)
    whole = batchbald(belief, 5, rows=rows)
    for budget in (20_000, 200_000, 3_000_000):
        with natsel.memory_budget(budget):
            assert state_of(belief).pool.held is (budget > 1_000_000)
            lean = batchbald(belief, 5, rows=rows)
        assert lean.ids.tolist() == whole.ids.tolist()
        assert torch.allclose(lean.scores, whole.scores, rtol=0, atol=1e-9)


@pytest.mark.parametrize("rows", [256, 4096])
def test_same_picks_whatever_the_threads(rows):
    belief = graded_pool(4)
    threads = torch.get_num_threads()
    try:
        found = []
        for number in (1, 2):
            torch.set_num_threads(number)
            found.append(batchbald(belief, 5, rows=rows))
    finally:
        torch.set_num_threads(threads)
    assert found[0].ids.tolist() == found[1].ids.tolist()
    assert torch.allclose(found[0].scores, found[1].scores, rtol=0, atol=1e-9)


@pytest.mark.parametrize("rows", [256, 4096])
def test_same_picks_from_float32(rows):
    wide, narrow = (batchbald(graded_pool(5, dtype=dtype), 5, rows=rows) for dtype in (torch.float64, torch.float32))
    assert wide.ids.tolist() == narrow.ids.tolist()
    assert torch.allclose(wide.scores, narrow.scores, rtol=0, atol=1e-5)


def test_the_same_seed_gives_the_same_batch_and_no_global_randomness_is_used():
    belief = pool(6, 500, 30, 5)
    before = torch.random.get_rng_state()
    first, again, other = (batchbald(belief, 8, rows=64, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert first.ids.tolist() == again.ids.tolist()
    assert torch.equal(first.scores, again.scores)
    assert not torch.equal(first.scores, other.scores)


# What the batch is warned about.


@pytest.mark.parametrize("rows", [16, 4096])
def test_a_batch_larger_than_the_draws_can_fill_is_filled_all_the_same(rows):
    selection = batchbald(pool(7, 100, 5, 4, spread=3.0), 30, rows=rows)
    assert len(set(selection.ids.tolist())) == 30
    assert any(warning.startswith("draws exhausted: ") for warning in selection.warnings)
    assert any(warning.startswith("saturated: ") for warning in selection.warnings)
    assert selection.total == pytest.approx(math.log(5), abs=0.01)
    rest = batchbald(pool(7, 100, 5, 4, spread=3.0), 70, rows=rows, exclude=selection)
    assert not set(rest) & set(selection)
    assert bool((selection.scores >= 0).all())


def test_a_small_batch_of_many_draws_exhausts_nothing():
    assert batchbald(graded_pool(0), 2).warnings == ()


@pytest.mark.parametrize(("count", "rows"), [(800, 32), (2000, 256)], ids=["small pool", "large pool"])
def test_a_choice_among_equals_is_said_to_be_noise(count, rows):
    generator = torch.Generator().manual_seed(0)
    alike = torch.randn(count, 40, 5, generator=generator, dtype=torch.float64)
    selection = batchbald(CategoricalSamples.from_logits(alike), 7, rows=rows)
    assert any("decided by noise: picks" in warning for warning in selection.warnings)
    noisy = (selection.gap_errors > 0) & (selection.gaps < 2 * selection.gap_errors)
    named = ", ".join(str(place + 1) for place in noisy.nonzero().squeeze(1).tolist())
    assert any(f"picks {named} led" in warning for warning in selection.warnings)


def test_a_clear_choice_is_not_said_to_be_noise_although_rows_are_thinned():
    """Four draw-splitting points of falling reliability among points that tell nothing."""
    draws = torch.arange(16)
    probs = torch.full((600, 16, 2), 0.5, dtype=torch.float64)
    for bit, (position, sure) in enumerate([(500, 0.99), (77, 0.95), (300, 0.9), (10, 0.8)]):
        side = (draws >> bit) & 1
        probs[position, :, 0] = torch.where(side == 1, sure, 1 - sure).double()
    probs[..., 1] = 1 - probs[..., 0]
    state = state_of(CategoricalSamples.from_probs(probs), rows=3)
    for position in (500, 77, 300):
        state.add(position)
    assert not state.exact
    selection = batchbald(CategoricalSamples.from_probs(probs), 4, rows=3)
    assert selection.ids.tolist() == [500, 77, 300, 10]
    assert not any("noise" in warning for warning in selection.warnings)
