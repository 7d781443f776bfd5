"""The registry: names, aliases, hints, and entries that say what they do."""

import re

import pytest
import torch

import natsel
from natsel import (
    EIG,
    CategoricalSamples,
    Entropy,
    ExampleLosses,
    FeatureDensity,
    FisherFactors,
    FisherRows,
    GaussianFeatures,
    GaussianPotentialOutcomes,
    GaussianSamples,
    Geometry,
    Greedy,
    Method,
    PotentialOutcomes,
    Power,
    TopK,
)
from natsel.beliefs.two_models import TwoModels
from natsel.capabilities import draws_again
from natsel.choose.methods import METHODS, resolve
from natsel.objectives import READINGS, Argument, pair_facts

NAMES = sorted(METHODS)
ALIASES = sorted((alias, method.name) for method in METHODS.values() for alias in method.aliases)


@pytest.mark.parametrize("name", NAMES)
def test_names_resolve_to_their_method(name):
    assert resolve(name) is METHODS[name]
    assert METHODS[name].name == name


@pytest.mark.parametrize(("alias", "name"), ALIASES)
def test_every_alias_resolves(alias, name):
    assert resolve(alias) is METHODS[name]


def test_the_promised_aliases_are_there():
    promised = {
        "eig": "bald",
        "batch-bald": "batchbald",
        "maxdet": "batchbald",
        "maxdiag": "bald",
        "uniform": "random",
        "least-confidence": "variation-ratios",
        "information-gain": "ig",
    }
    assert {alias: resolve(alias).name for alias in promised} == promised


def test_no_name_means_two_things():
    words = [*METHODS, *(alias for alias, _ in ALIASES)]
    assert len(words) == len(set(words))


@pytest.mark.parametrize("word", [*NAMES, *(alias for alias, _ in ALIASES)])
def test_names_are_lower_case_with_dashes(word):
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", word)


@pytest.mark.parametrize("spelling", ["BatchBALD", "  batchbald ", "batch_bald", "Batch Bald", "BATCH-BALD"])
def test_spelling_is_forgiven(spelling):
    assert resolve(spelling).name == "batchbald"


@pytest.mark.parametrize(
    ("typo", "meant"),
    [
        ("batchbold", "batchbald"),
        ("entropi", "entropy"),
        ("powr-bald", "power-bald"),
        ("least-confidense", "least-confidence"),
    ],
)
def test_a_near_miss_is_asked_back(typo, meant):
    with pytest.raises(ValueError, match=rf"^method: no method is called '{typo}'; did you mean '{meant}'\?"):
        resolve(typo)


@pytest.mark.parametrize("nonsense", ["", "xyzzy", "12345"])
def test_a_far_miss_is_sent_to_the_list(nonsense):
    with pytest.raises(ValueError, match=r"^method: .*; natsel\.methods\(\) lists the names"):
        resolve(nonsense)


@pytest.mark.parametrize("other", [None, 3, EIG(), TopK, b"bald"])
def test_what_is_neither_name_nor_method_is_refused(other):
    with pytest.raises(ValueError, match=r"^method: expected a name or a natsel\.Method, found "):
        resolve(other)


def test_a_method_value_passes_through():
    method = Method(EIG(), Power(beta=3))
    assert resolve(method) is method
    assert method.name == "unnamed"


def test_methods_gives_a_copy_of_the_grid():
    grid = natsel.methods()
    grid.clear()
    assert list(natsel.methods()) == list(METHODS)
    assert "batchbald" in natsel.methods()


@pytest.mark.parametrize("name", NAMES)
def test_every_entry_names_its_source(name):
    assert METHODS[name].source.strip()


@pytest.mark.parametrize("name", [name for name in NAMES if hasattr(METHODS[name].search, "beta")])
def test_entries_with_a_tuned_beta_say_so(name):
    method = METHODS[name]
    if method.search.beta != 1:
        assert re.search(rf"\bbeta = {method.search.beta:g}\b", method.note)


def test_some_entries_are_tuned():
    assert METHODS["power-bald"].search.beta == 8
    assert METHODS["softmax-bald"].search.beta == 8


def test_entries_that_mislead_say_so():
    assert "copies" in METHODS["bald"].note
    assert "diagnostic" in METHODS["aleatoric"].note


@pytest.mark.parametrize("name", NAMES)
def test_every_method_runs_on_the_beliefs_it_names(name):
    method = METHODS[name]
    generator = torch.Generator().manual_seed(0)
    logits_N_K_C = torch.randn(6, 3, 4, generator=generator)
    mean_N_K = torch.randn(6, 3, generator=generator)
    made = {
        CategoricalSamples: CategoricalSamples.from_logits(logits_N_K_C),
        GaussianSamples: GaussianSamples(mean_N_K, 2.0),
        GaussianFeatures: GaussianFeatures(mean_N_K, 2.0),
        FisherFactors: FisherFactors.categorical(mean_N_K, logits_N_K_C[:, 0].softmax(1), 0.5),
        FisherRows: FisherRows(mean_N_K[:, None], 0.5),
        FeatureDensity: FeatureDensity(mean_N_K[:, 0], logits_N_K_C[:, 0]),
        ExampleLosses: ExampleLosses(mean_N_K[:, 0], mean_N_K[:, 1], logits_N_K_C[:, 0], mean_N_K),
        PotentialOutcomes: PotentialOutcomes(mean_N_K, mean_N_K.flip(1), [0, 1] * 3, [0.5] * 6, 1.0, 1.0),
    }
    made[Geometry] = Geometry(mean_N_K)
    made[GaussianPotentialOutcomes] = made[PotentialOutcomes].jointly_gaussian()
    sure = CategoricalSamples.from_logits(logits_N_K_C.mean(1, keepdim=True))
    made[TwoModels] = TwoModels.of(made[CategoricalSamples], [sure])
    usual = {CategoricalSamples, TwoModels, FisherFactors, FeatureDensity, ExampleLosses, GaussianPotentialOutcomes}
    assert set(method.beliefs) & (usual | {Geometry})
    for kind, belief in made.items():
        facts = pair_facts(type(method.objective), kind)
        needs = facts.needs if facts is not None and facts.holds_labels else method.needs
        asked = {"labels": [0, 1, 2, 3, 0, 1]} if Argument.LABELS in needs else {}
        if Argument.TARGETS in needs:
            asked["targets"] = natsel.Targets(belief[:3], labels=[2, 1, 0])
        if Argument.GIVEN in needs:
            asked["given"] = belief[3:4]
        if kind in method.beliefs:
            selection = natsel.select(name, belief, k=3, **asked)
            assert len(selection) == 3
            assert draws_again(method.search) or len(set(selection)) == 3
        else:
            with pytest.raises(ValueError, match=rf"^belief: \w+ cannot be read from {kind.__name__}; it can from "):
                natsel.select(name, belief, k=3, **asked)


def test_a_search_that_needs_gains_is_refused_where_there_are_none():
    method = Method(Entropy(), Greedy())
    assert method.beliefs == ()
    belief = CategoricalSamples.from_probs([[[0.5, 0.5]]])
    with pytest.raises(
        ValueError, match=r"^search: Greedy needs gains, which Entropy on CategoricalSamples does not"
    ) as why:
        natsel.select(method, belief, k=1)
    assert "use " in str(why.value)
    assert "TopK" in str(why.value)
    assert "Greedy," not in str(why.value).split("use ")[1]
    assert natsel.score(method, belief).shape == (1,)  # scores need no search


def test_facts_come_from_the_objective():
    assert METHODS["batchbald"].facts is EIG.facts
    assert Argument.LABELS in METHODS["ig"].needs


def test_every_objective_of_the_table_has_a_name():
    named = {type(method.objective) for method in METHODS.values()}
    assert set(READINGS) == named
