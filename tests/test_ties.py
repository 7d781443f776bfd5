"""Equals are drawn: which of them come hangs on seed and id, and on nothing else."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingClassifier

import natsel
from natsel import CategoricalSamples, GaussianFeatures, Pool, ties
from natsel.models import Sklearn
from natsel.search import Power, SoftRank, TopK
from natsel.seeds import derive
from natsel.ties import Order

CLASSES = np.repeat(np.arange(4), 50)  # a file that is sorted by class


def votes(count=200, kinds=1):
    """What two trees say that split nothing, or two or three ways."""
    shares = torch.tensor([[0.5, 0.5], [0.9, 0.1], [0.7, 0.3]], dtype=torch.float64)[torch.arange(count) % kinds]
    return CategoricalSamples(torch.stack([shares, shares.flip(1)], 1).log())


@pytest.mark.parametrize("kinds", [1, 3])
@pytest.mark.parametrize("method", ["bald", "batchbald", "margin", "entropy", "variation-ratios", "best-bald"])
def test_a_file_sorted_by_class_gives_labels_of_several_classes(method, kinds):
    belief, k = votes(kinds=kinds), 12
    if method == "best-bald":
        belief, k = belief[[0, 3, 51, 102, 153, 198]], 3
    batches = [np.bincount(CLASSES[natsel.select(method, belief, k, seed=seed).ids], minlength=4) for seed in range(8)]
    assert all((counts_C > 0).sum() > 1 for counts_C in batches), "no batch is of one class"
    assert (np.sum(batches, 0) > 0).all(), "every class comes"
    assert len({tuple(counts_C) for counts_C in batches}) > 1


def test_rounds_on_a_file_sorted_by_class_find_all_classes_where_the_model_tells_nothing_apart():
    """Boosted trees below their least leaf predict the same for every point."""
    inputs = np.linspace(0, 1, 200)[:, None]
    model = Sklearn(HistGradientBoostingClassifier(max_iter=2))
    learner = natsel.ActiveLearner(model, Pool(inputs, answers=CLASSES), "margin", k=4, seed=1)
    learner.tell([0, 60], [0, 1])
    found, said = set(), []
    for _ in range(3):
        batch = learner.ask()
        said.append(any(warning.startswith("decided by ties") for warning in batch.warnings))
        found |= set(CLASSES[batch.ids].tolist())
        learner.tell(batch.ids, CLASSES[batch.ids])
    assert found == {0, 1, 2, 3}
    assert said == [True, False, False], "once in a run"


@pytest.mark.parametrize("ids", ["numbers", "texts", "both"])
@pytest.mark.parametrize("method", ["bald", "batchbald", "core-set", "lcmd", "acs-fw", "bait", "best-bald"])
def test_the_same_ids_come_however_the_pool_is_ordered(method, ids):
    features = np.repeat(np.random.default_rng(0).normal(size=(4, 3)), 3, axis=0)  # three of each
    names = {
        "numbers": np.arange(12) * 7 - 30,
        "texts": np.array([f"{place}/ä.png" for place in range(12)], dtype=object),
        "both": np.array([place if place % 2 else str(place) for place in range(12)], dtype=object),
    }[ids]
    batches = set()
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(12)
        pool = GaussianFeatures(features[order], noise=0.1, ids=names[order])
        known = {"targets": pool} if method == "bait" else {}
        batches.add(frozenset(natsel.select(method, pool, 3, seed=5, **known).ids.tolist()))
    assert len(batches) == 1


def spelled_out(seed, numbers):
    """The order in plain integers: splitmix64, on numbers and a start that the seed gives."""
    start, keys = derive(seed % (1 << 63), "ties"), []
    for number in numbers:
        key = (number * 0x9E3779B97F4A7C15 + start) % (1 << 64)
        key = (key ^ key >> 30) * 0xBF58476D1CE4E5B9 % (1 << 64)
        key = (key ^ key >> 27) * 0x94D049BB133111EB % (1 << 64)
        keys.append(key ^ key >> 31)
    return np.argsort(np.array(keys, dtype=np.uint64)).tolist()


def test_the_order_is_the_same_on_every_machine():
    numbers, texts = np.arange(-2, 4), np.array(["a", "b", "c", "ü", "\udc80", ""], dtype=object)
    for seed in (0, 1, -1, (1 << 64) - 1):  # torch gives seeds without a sign
        assert Order(seed, numbers).argsort(torch.arange(6)).tolist() == spelled_out(seed, numbers.tolist())
        hashes = [ties._number(text) for text in texts]
        assert Order(seed, texts).argsort(torch.arange(6)).tolist() == spelled_out(seed, hashes)
    assert spelled_out(0, range(-2, 4)) == [3, 1, 2, 4, 5, 0]
    assert ties._number("a") == 4681665781835383343


@pytest.mark.parametrize("seed", [-1, torch.Generator().manual_seed(-5)])
def test_any_seed_has_an_order(seed):
    assert (
        natsel.select("bald", votes(), 3, seed=seed).ids.tolist()
        == natsel.select("bald", votes(), 3, seed=seed).ids.tolist()
    )


def test_an_integer_has_its_place_also_among_texts():
    numbers, both = np.arange(8), np.array([0, 1, 2, 3, 4, 5, 6, 7, "7"], dtype=object)
    order = Order(3, both).argsort(torch.arange(9)).tolist()
    assert [place for place in order if place < 8] == Order(3, numbers).argsort(torch.arange(8)).tolist()
    assert ties._number("7") != ties._number(7) == 7


def test_every_id_is_as_likely_to_be_first_and_seeds_have_nothing_in_common():
    firsts = [Order(seed, np.arange(10)).first(torch.arange(10)) for seed in range(500)]
    assert 25 <= np.bincount(firsts, minlength=10).min() <= np.bincount(firsts, minlength=10).max() <= 80
    places = [np.argsort(Order(seed, np.arange(1000)).argsort(torch.arange(1000)).numpy()) for seed in (0, 1)]
    assert abs(np.corrcoef(*places)[0, 1]) < 0.1
    assert abs(np.corrcoef(places[0], np.arange(1000))[0, 1]) < 0.1


@pytest.mark.parametrize("method", ["bald", "batchbald", "core-set", "softrank-bald"])
def test_texts_are_hashed_of_equals_only(monkeypatch, method):
    seen = []
    monkeypatch.setattr(ties, "_number", lambda key, number=ties._number: seen.append(key) or number(key))
    rng = np.random.default_rng(0)
    logits = torch.as_tensor(rng.normal(size=(40, 5, 3)))
    logits[7] = logits[20] = 3 * torch.as_tensor(rng.normal(size=(5, 3)))
    names = [f"{place}.png" for place in range(40)]
    natsel.select(method, CategoricalSamples.from_logits(logits[:20], ids=names[:20]), 3)
    assert seen == []
    natsel.select(method, CategoricalSamples.from_logits(logits, ids=names), 3)
    assert set(seen) <= {"7.png", "20.png"}


def test_it_is_said_where_ties_alone_decide_and_only_there():
    def said(*arguments, **known):
        return any(warning.startswith("decided by ties") for warning in natsel.select(*arguments, **known).warnings)

    for method in ("bald", "batchbald", "margin", "entropy"):
        assert said(method, votes(9), 4)
        assert not said(method, votes(9), 9), "nothing was left out"
    for method in ("bald", "batchbald"):
        assert not said(method, votes(9, kinds=3), 4), "three are better than others"
        assert said(method, votes(9, kinds=3), 2)
    apart = GaussianFeatures(np.repeat(np.random.default_rng(0).normal(size=(6, 3)), 2, axis=0), noise=1e-4)
    for method in ("batchbald", "core-set", "lcmd", "acs-fw", "logdet"):
        assert not said(method, apart, 3), "it is clear of which point a copy is taken"
    assert not said("power-bald", votes(9), 4), "it draws anyway"
    assert said("batchbald", votes(9), 4, costs=np.ones(9), budget=4)


@pytest.mark.parametrize("search", [TopK(), Power(beta=torch.inf), Power(on_exhausted="order"), SoftRank(torch.inf)])
def test_searches_that_sort_take_equals_by_the_order_of_the_state(search):
    order = Order(2, np.arange(6))
    state = SimpleNamespace(scores=lambda: torch.tensor([0.0, 0.0, 1.0, 0.0, 0.0, 0.0]), order=order, offers=TopK.needs)
    picks = search(state, 3, torch.ones(6, dtype=torch.bool), torch.Generator().manual_seed(0))
    expected = [place for place in Order(2, np.arange(6)).argsort(torch.arange(6)).tolist() if place != 2]
    assert picks.positions.tolist() == [2, *expected[:2]]


def test_the_promise_about_numbers_says_it():
    page = (Path(__file__).parents[1] / "docs" / "numbers.md").read_text()
    assert "drawn from the seed" in " ".join(page.split())
