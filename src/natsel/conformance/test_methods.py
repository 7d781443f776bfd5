"""What every method keeps to, whatever its objective, belief and search: ids, seeds, inputs, memory, numbers.

Each test runs over the whole grid: all registered methods, and all other legal triples with default settings. Cases
that repeat an objective under another search, or a search under another objective, are marked slow.
"""

import random
from dataclasses import replace

import numpy as np
import pytest
import torch

import natsel
from natsel import memory
from natsel.capabilities import Capability
from natsel.conformance.grid import CASES, MAKERS, Case, Pool, cases_where, crowd, every_case, named, pool
from natsel.information.weights.precision import Precision
from natsel.objectives import EIG, Argument, Entropy, ExpectedEntropy, offers
from natsel.search import ForwardBackward, Greedy, TopK


def same(first: natsel.Selection, second: natsel.Selection, rtol: float = 0.0) -> None:
    """The same picks in the same order, with the same numbers."""
    assert first.ids.tolist() == second.ids.tolist()
    torch.testing.assert_close(first.scores, second.scores, rtol=rtol, atol=rtol)
    assert first.total == pytest.approx(second.total, rel=rtol, abs=rtol)
    for name in ("log_prob", "perturbed", "gaps", "gap_errors"):
        one, two = getattr(first, name), getattr(second, name)
        assert (one is None) == (two is None), f"{name}: {one} and {two}"
        if one is not None:
            torch.testing.assert_close(torch.as_tensor(one), torch.as_tensor(two), rtol=rtol, atol=rtol, msg=name)


# Ids.


@every_case
def test_excluded_ids_are_never_picked(case, device):
    pool = case.pool()
    belief = pool.belief(device)
    first = case.select(pool, belief=belief).ids.tolist()
    unknown = [-1, 10**9]
    turn = CASES.index(case)  # ids are read before the method is: each case is given two of the ways to pass them
    for wrap in (list, (set, np.array, torch.tensor, iter)[turn % 4]):
        again = case.select(pool, belief=belief, exclude=wrap(first + unknown)).ids.tolist()
        assert len(set(again)) == case.k or not case.distinct
        assert not set(again) & set(first), f"{first} were excluded as {wrap.__name__} and {again} picked"
    for nothing in (unknown, (None, [], set(), np.array([]))[turn % 4]):
        assert case.select(pool, belief=belief, exclude=nothing).ids.tolist() == first, f"exclude={nothing}"


@cases_where(lambda case: case.distinct)
def test_a_selection_can_be_excluded_and_the_rest_counts(case, device):
    pool = case.pool()
    belief = pool.belief(device)
    first = case.select(pool, belief=belief)
    rest = len(pool) - case.k
    others = case.select(pool, rest, belief, exclude=first)
    assert sorted([*first, *others]) == list(range(len(pool)))
    with pytest.raises(ValueError, match=r"^k: "):
        case.select(pool, rest + 1, belief, exclude=first)


@cases_where(lambda case: not (case.facts.pool_wide or case.stochastic))
def test_excluding_equals_leaving_out(case, device):
    """Points that may not be picked have no say in what is picked; noise belongs to the position in the belief."""
    pool = case.pool()
    allowed = np.arange(len(pool))[1::2] if case.in_order else np.arange(1, len(pool))
    excluding = case.select(pool, belief=pool.belief(device), exclude=set(range(len(pool))) - set(allowed.tolist()))
    without = case.select(pool.take(allowed), belief=pool.take(allowed).belief(device, ids=allowed))
    assert set(excluding) <= set(allowed.tolist())
    same(excluding, without, rtol=1e-9)


def every_point_has_a_say(case):
    """In how probable a set is among all sets, in where a number that is drawn falls, in how large its cluster is."""
    search = case.method.search
    return Capability.KERNEL in search.needs or not case.distinct or isinstance(search, natsel.LargestCluster)


@cases_where(lambda case: not every_point_has_a_say(case))
def test_excluding_what_was_not_wanted_changes_nothing(case, device):
    """Leaving out the worst of the points that were not picked moves no rank, and noise belongs to the position."""
    pool = case.pool()
    belief = pool.belief(device)
    straight = case.select(pool, belief=belief)
    worst_first = case.score(pool, belief).cpu().argsort().tolist()
    wanted = set(straight)
    if isinstance(case.method.search, ForwardBackward):  # points that were taken and dropped again have had a say
        once = replace(case, method=replace(case.method, search=ForwardBackward(oversample=1)))
        wanted |= set(once.select(pool, 2 * case.k, belief))
    unwanted = [position for position in worst_first if position not in wanted][: len(pool) // 2]
    if case.stochastic:
        unwanted = worst_first[: min(worst_first.index(position) for position in straight)]
    excluding = case.select(pool, belief=belief, exclude=unwanted)
    assert excluding.ids.tolist() == straight.ids.tolist(), f"{unwanted} were excluded"


@every_case
def test_ids_are_the_users(case, device):
    pool = case.pool()
    ids = 10**12 - 7 * np.random.default_rng(0).permutation(len(pool))
    plain, theirs = pool.belief(device), pool.belief(device, ids=ids)
    positions = case.select(pool, belief=plain).ids
    assert case.select(pool, belief=theirs).ids.tolist() == ids[positions].tolist()
    again = case.select(pool, belief=theirs, exclude=ids[positions]).ids
    assert set(again.tolist()) <= set(ids.tolist()) - set(ids[positions].tolist())


@every_case
def test_a_slice_keeps_its_ids(case, device):
    pool = case.pool()
    chosen = np.arange(len(pool))[::-1][: case.k + 2].copy()
    whole = pool.belief(device)
    for part in (whole[chosen.tolist()], whole[torch.from_numpy(chosen)], pool.take(chosen).belief(device, ids=chosen)):
        selection = case.select(pool.take(chosen), belief=part)
        assert set(selection) <= set(chosen.tolist()), f"{set(selection)} picked from {chosen.tolist()}"
        assert selection.picked.ids.tolist() == selection.ids.tolist()
    same(case.select(pool.take(chosen), belief=whole[chosen.tolist()]), selection)


# Memory.


@every_case
def test_the_memory_budget_changes_nothing(case, device):
    pool = case.pool(weighted=True)
    scores_N, selection = case.score(pool, pool.belief(device)), case.select(pool, belief=pool.belief(device))
    for budget in (1, 1 << 12):
        with natsel.memory_budget(budget):
            torch.testing.assert_close(case.score(pool, pool.belief(device)), scores_N, rtol=1e-12, atol=1e-15)
            same(case.select(pool, belief=pool.belief(device)), selection, rtol=1e-12)
    assert natsel.memory_budget() == 1 << 30


@pytest.fixture
def scarce(monkeypatch: pytest.MonkeyPatch) -> list[slice]:
    """Memory for two rows at a time: larger chunks do their work and then fail. Lists the chunks that failed."""
    failed: list[slice] = []

    def run(work, part):
        result = work(part)
        if part.stop - part.start > 2:
            failed.append(part)
            raise torch.OutOfMemoryError("simulated: no room for more than two rows")
        return result

    monkeypatch.setattr(memory, "run", run)
    return failed


@every_case
def test_running_out_of_memory_changes_nothing(case, device, request):
    pool = case.pool(weighted=True)
    scores_N, selection = case.score(pool, pool.belief(device)), case.select(pool, belief=pool.belief(device))
    request.getfixturevalue("scarce")
    torch.testing.assert_close(case.score(pool, pool.belief(device)), scores_N, rtol=1e-12, atol=1e-15)
    same(case.select(pool, belief=pool.belief(device)), selection, rtol=1e-12)


def test_memory_was_scarce(scarce):
    for case in {case.kind: case for case in CASES if Capability.GAINS in case.method.search.needs}.values():
        scarce.clear()
        case.select(case.pool())
        assert scarce, f"{case.method.name} on {case.kind.__name__} never asked for more than two rows"


def races() -> list[Case]:
    """Cases whose search may race candidates on few rows, which tiny pools are never worth."""
    raced = [case for case in CASES if Capability.RACING in case.route.reading.offers]
    return [case for case in raced if case.method.search.needs == Capability.GAINS]


@pytest.fixture
def racing(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Races at every step, however small the pool. Lists the levels that were run."""
    levels: list[int] = []
    for state in {case.route.reading.state for case in races()}:
        terms = state.terms
        monkeypatch.setattr(state, "prefers_racing", True)
        monkeypatch.setattr(
            state, "terms", lambda s, at, level, terms=terms: levels.append(level) or terms(s, at, level)
        )
    return levels


@pytest.mark.parametrize("case", [named(case) for case in races()])
def test_racing_changes_nothing_that_is_exact(case, device, request):
    pool = case.pool(seed=2, points=100, weighted=True)
    pool = crowd(pool, int(case.score(pool).argmax()))
    straight = case.select(pool, 8, pool.belief(device))
    levels = request.getfixturevalue("racing")
    raced = case.select(pool, 8, pool.belief(device))
    assert len(levels) >= 8, f"no race was run: {levels}"
    assert max(levels) > 0, f"no race had more than one level: {levels}"
    assert raced.ids.tolist() == straight.ids.tolist()
    torch.testing.assert_close(raced.scores, straight.scores, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("rows", [None, 64])
@pytest.mark.parametrize("case", [named(case) for case in races()])
def test_a_race_keeps_to_memory_and_to_its_seed(case, rows, device, racing, request):
    """Also where rows were thinned: the same numbers decide, however they are cut and wherever they lie."""
    if rows is not None:
        case = replace(case, method=replace(case.method, objective=replace(case.method.objective, rows=rows)))
    pool = case.pool(seed=2, points=400, weighted=True)
    expected = case.select(pool, 8, pool.belief())
    same(case.select(pool, 8, pool.belief(device)), expected, rtol=1e-5)
    with natsel.memory_budget(1 << 12):  # too little to hold the pool a second time
        same(case.select(pool, 8, pool.belief(device)), expected, rtol=1e-5)
    request.getfixturevalue("scarce")
    same(case.select(pool, 8, pool.belief(device)), expected, rtol=1e-5)


# Numbers.


@every_case
def test_single_precision_picks_the_same(case, device):
    pool = case.pool()
    double, single = pool.belief(device), pool.belief(device, torch.float32)
    torch.testing.assert_close(case.score(pool, single), case.score(pool, double), rtol=1e-4, atol=2e-6)
    assert case.select(pool, belief=single).ids.tolist() == case.select(pool, belief=double).ids.tolist()


@every_case
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_read(case, dtype, device):
    pool = case.pool()
    half = pool.belief(device, dtype)
    scores_N, expected_N = case.score(pool, half), case.score(pool, pool.belief(device))
    assert scores_N.dtype == torch.float64
    assert case.select(pool, belief=half).scores.isfinite().all()
    slack = 8 * torch.finfo(dtype).eps * float(expected_N.abs().max())
    torch.testing.assert_close(scores_N, expected_N, rtol=0, atol=slack)
    if device == "cpu" and dtype == torch.float16:
        theirs = case.kind(**{name: t.numpy() for name, t in pool.tensors(dtype=dtype).items()})
        torch.testing.assert_close(case.score(pool, theirs), scores_N, rtol=0, atol=0)


@every_case
def test_scores_are_float64_and_the_picks_follow_them(case, device):
    pool = case.pool(seed=1)
    belief = pool.belief(device)
    scores_N = case.score(pool, belief)
    selection = case.select(pool, belief=belief)
    assert scores_N.dtype == selection.scores.dtype == torch.float64
    assert scores_N.shape == (len(pool),)
    if case.method.search.needs == Capability.SCORES:
        torch.testing.assert_close(selection.scores, scores_N.cpu()[selection.ids], rtol=0, atol=0)
    best = scores_N.cpu().argsort(descending=True, stable=True)[: case.k].tolist()
    if isinstance(case.method.search, TopK):
        assert selection.ids.tolist() == best
    if not case.stochastic and case.method.search.needs in Capability.SCORES | Capability.GAINS | Capability.VALUE:
        first = case.select(pool, 1, belief)
        assert first.ids.tolist() == best[:1], "the first pick is the best point"
        torch.testing.assert_close(first.scores.double(), scores_N[best[:1]].cpu(), rtol=1e-9, atol=1e-12)
    assert selection.total == pytest.approx(worth(case, pool, belief, selection), rel=1e-9, abs=1e-9)


def worth(case: Case, pool: Pool, belief: natsel.Belief, selection: natsel.Selection) -> float:
    """What a batch is worth: its gains, added to a state of the whole pool; where there are none, the sum of scores."""
    together = case.method.search.needs & (Capability.GAINS | Capability.VALUE)
    counted = selection.weights is not None or len(set(selection)) < len(selection)
    if together or Capability.GAINS not in case.route.reading.offers or counted:
        return float(selection.scores.sum())
    plain = replace(case, method=replace(case.method, search=Greedy()))
    others = sorted(set(range(len(pool))) - set(selection))
    return plain.select(pool, case.k, belief, exclude=others).total


@every_case
def test_a_batch_explains_itself(case, device):
    pool = case.pool(weighted=True)
    belief = pool.belief(device)
    selection = case.select(pool, belief=belief)
    why = selection.explain()
    assert [pick.id for pick in why.picks] == selection.ids.tolist()
    assert [pick.score for pick in why.picks] == selection.scores.tolist()
    if case.method.facts.units == "unsure points":
        assert why.stands_for == selection.total
        assert str(why).count("unsure points that no label reaches") == len(selection) + 1
        assert "nats" not in str(why)
        return
    told = offers(EIG, case.kind)
    if told is None or Capability.GAINS not in told:
        assert why.information is None, "one prediction does not say what labels tell about the parameters"
        assert all(pick.gain is pick.overlap is None for pick in why.picks)
        assert all((pick.epistemic is None) == (told is None) for pick in why.picks)
        if offers(ExpectedEntropy, case.kind) is None:
            assert all(pick.aleatoric is None for pick in why.picks)
        assert "not available" in str(why)
        return
    gains, overlaps = [pick.gain for pick in why.picks], [pick.overlap for pick in why.picks]
    assert min(gains) >= 0, f"gains {gains}"
    assert min(overlaps) >= 0, f"overlaps {overlaps}"
    assert overlaps[0] == pytest.approx(0, abs=1e-9), "the first pick shares nothing with earlier ones"
    assert sum(gains) == pytest.approx(why.information, abs=1e-9)
    for pick in why.picks:
        assert pick.gain + pick.overlap == pytest.approx(pick.epistemic, abs=1e-9)
    if why.information is not None and why.picks[0].aleatoric is not None:
        entropy_N = natsel.score(natsel.Method(Entropy(), TopK()), belief).cpu()
        parts = torch.tensor([pick.epistemic + pick.aleatoric for pick in why.picks], dtype=torch.float64)
        torch.testing.assert_close(parts, entropy_N[selection.ids], rtol=1e-9, atol=1e-9)
    assert all(str(index) in str(why) for index in selection)
    assert case.select(pool, 0, belief).explain().picks == ()


@every_case
def test_progress_counts_the_picks_of_a_step_by_step_search(case):
    seen: list[int] = []
    pool = case.pool()
    same(case.select(pool, progress=seen.append), case.select(pool))
    needs = case.method.search.needs
    by_steps = needs & (Capability.GAINS | Capability.DISTANCES | Capability.VECTORS) and Capability.KERNEL not in needs
    assert sum(seen) == (case.k if by_steps else 0)


# Seeds, inputs and the world outside.


@every_case
def test_the_seed_decides_everything(case, device):
    pool = case.pool()
    belief = pool.belief(device)
    for seed in (7, 2**31):
        selection = case.select(pool, belief=belief, seed=seed)
        same(case.select(pool, belief=pool.belief(device), seed=seed), selection)
        assert torch.equal(case.score(pool, belief, seed=seed), case.score(pool, belief, seed=seed))
        generator = torch.Generator().manual_seed(seed)
        same(case.select(pool, belief=belief, seed=generator), selection)
    selections = [case.select(pool, belief=belief, seed=seed) for seed in range(20 if case.stochastic else 3)]
    batches = {tuple(selection) for selection in selections}
    if not case.stochastic:
        assert len(batches) == 1, f"a search that says it does not draw gave {batches}"
        return
    scores_N = case.score(pool, belief)
    if float(scores_N.max() - scores_N.median()) < 3:  # a point far ahead may be all that is drawn
        assert len(batches) > 1, f"twenty seeds gave the same batch {batches}"
    if Capability.DISTANCES in case.method.search.needs and case.method.facts.units in ("similarity", "points"):
        return  # such searches follow lengths, and these scores do not
    found = torch.cat([selection.scores for selection in selections])
    least = scores_N.mean() - 3 * scores_N.std() / len(found) ** 0.5
    assert found.mean() >= least, f"picks score {found.mean()} on average, the pool {scores_N.mean()}: bigger is better"


@pytest.mark.parametrize("case", [named(case) for case in CASES if case.method.name == "random"])
def test_random_does_not_look_at_the_belief(case):
    assert case.noisy
    same(case.select(case.pool(), seed=3), case.select(case.pool(seed=9), seed=3))


@every_case
def test_the_global_random_state_is_left_alone(case, device):
    def states() -> list[str]:
        cuda = torch.cuda.get_rng_state().tolist() if device == "cuda" else None
        return [str(s) for s in (torch.get_rng_state().tolist(), np.random.get_state(), random.getstate(), cuda)]  # noqa: NPY002

    pool = case.pool()
    before = states()
    belief = pool.belief(device)
    case.score(pool, belief)
    case.select(pool, belief=belief).explain()
    assert states() == before


def tensors_of(belief: natsel.Belief) -> dict[str, torch.Tensor]:
    """All tensors of a belief, those of its precision among them."""
    found = {name: getattr(belief, name) for name in (*belief.points, *belief.draws)}
    parts = {name: value.tensors() for name, value in found.items() if isinstance(value, Precision)}
    tensors = {name: value for name, value in found.items() if name not in parts}
    return tensors | {f"{name}.{part}": value for name, own in parts.items() for part, value in own.items()}


@every_case
def test_inputs_are_left_alone(case, device):
    """Bit by bit: the belief, known labels, and ids not to pick."""
    pool = case.pool(weighted=True).certain()
    belief, labels_N, excluded = pool.belief(device), torch.from_numpy(pool.labels_N.copy()), np.array([0])
    known = {"labels": labels_N} if Argument.LABELS in case.facts.needs else {}
    fields = {name: values.clone() for name, values in tensors_of(belief).items()}
    case.score(pool, belief, **known)
    case.select(pool, belief=belief, exclude=excluded, **known).explain()
    case.select(pool, belief=belief[1:], **(known and {"labels": labels_N[1:]}))
    for name, values in tensors_of(belief).items():
        assert torch.equal(fields[name], values), f"the belief's {name} was written to"
    assert labels_N.tolist() == pool.labels_N.tolist()
    assert excluded.tolist() == [0]


@pytest.mark.parametrize("rounding", [0.0, 1e-6])  # by which probabilities may be off, and which natsel puts right
@pytest.mark.parametrize("kind", MAKERS)
def test_arrays_are_left_alone_and_may_be_overwritten_afterwards(kind, rounding):
    """Bit by bit, also those that cannot be written to; what becomes of the others changes no belief."""
    arrays = pool(kind, weighted=True).certain().arrays
    arrays |= {name: arrays[name] + rounding for name in arrays.keys() & {*kind.points} - {"treatment_N"}}
    locked, shared = ({name: values.copy() for name, values in arrays.items()} for _ in range(2))
    for values in locked.values():
        values.flags.writeable = False
    for given in (locked, shared, {name: torch.tensor(values) for name, values in arrays.items()}):
        belief = kind(**given)
        fields = {name: values.clone() for name, values in tensors_of(belief).items()}
        for name, values in given.items():
            assert np.asarray(values).tobytes() == arrays[name].tobytes(), f"{name} was written to"
            if given is not locked:
                values[...] = 1
        for name, values in tensors_of(belief).items():
            assert torch.equal(fields[name], values), f"{name} is still the caller's: keep a copy"


def arithmetic() -> list[Case]:
    """The first case of every state that is scored, and of every state that builds a batch: searches split no work."""
    plain = [case for case in CASES if case.method.search.needs in (Capability.SCORES, Capability.GAINS)]
    first: dict[object, Case] = {}
    for case in plain:
        first.setdefault((case.route.reading.state, case.method.search.needs), case)
    return list(first.values())


@pytest.mark.parametrize("case", [named(case) for case in arithmetic()])
def test_threads_change_nothing(case):
    pool = case.pool(points=300 if case.facts.pool_wide else 2000)  # torch splits work on more than 32,768 numbers
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = case.select(pool, 2)
        torch.set_num_threads(2)
        two = case.select(pool, 2)
    finally:
        torch.set_num_threads(before)
    same(one, two, rtol=1e-9)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an accelerator")
@cases_where(lambda case: torch.cuda.is_available() or case is CASES[0])
def test_devices_agree(case):
    """The same picks as on the CPU."""
    pool = case.pool(weighted=True)
    here, there = pool.belief(), pool.belief().to("cuda")
    assert there.device.type == "cuda"
    torch.testing.assert_close(case.score(pool, there).cpu(), case.score(pool, here), rtol=1e-9, atol=1e-12)
    same(case.select(pool, belief=there), case.select(pool, belief=here), rtol=1e-9)
    small, large = pool.belief(dtype=torch.float32), pool.belief("cuda", torch.float32)
    assert case.select(pool, belief=large).ids.tolist() == case.select(pool, belief=small).ids.tolist()
