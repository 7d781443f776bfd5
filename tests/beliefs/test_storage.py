"""Whatever a belief knows, it still knows after a file, a folder of shards and another process."""

import gc
import json
import math
import tempfile
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import fresh_python
import natsel
from natsel import Belief, CategoricalSamples, GaussianFeatures, GaussianSamples, Geometry
from natsel.beliefs import (
    ClassProbabilities,
    DirichletMembers,
    ExampleLosses,
    FeatureDensity,
    FisherFactors,
    FisherRows,
    GaussianPotentialOutcomes,
    IndependentSamples,
    PotentialOutcomes,
    TwoModels,
    YesOrNoOutcomes,
)
from natsel.beliefs.base import kinds
from natsel.beliefs.files import load
from natsel.beliefs.shards import Shards, write_shards
from natsel.information.weights.precision import Dense, Diagonal, Isotropic, Kronecker, LowRank
from own_files import without_digests

pytestmark = pytest.mark.filterwarnings("ignore::natsel.beliefs.draws.DrawsCollapsed")

PLACES = ("npz", "safetensors", "one shard", "three shards")


# Beliefs of every kind.


@dataclass(frozen=True)
class Random:
    """Numbers of a seed; the same seed gives the same belief."""

    generator: torch.Generator
    dtype: torch.dtype
    names: dict[str, Any]
    labels: int  # how often the belief is conditioned

    def normal(self, *shape, dtype=None):
        return torch.randn(*shape, generator=self.generator, dtype=dtype or self.dtype)

    def whole(self, high, *shape):
        return torch.randint(high, shape, generator=self.generator)

    def matrix(self, size):
        root = self.normal(size, size, dtype=torch.float64)
        return root @ root.T + 0.1 * torch.eye(size, dtype=torch.float64)


def log_probs(random, *shape):
    return random.normal(*shape).log_softmax(-1)


def conditioned(random, belief):
    for _ in range(random.labels):
        belief = learn(belief, random)
    return belief


def learn(belief, random):
    points = random.whole(len(belief), 2)
    real = random.normal(2, dtype=torch.float64)
    return belief.condition(points, random.whole(3, 2) if isinstance(belief, CategoricalSamples) else real)


def weights(random, draws):
    return random.normal(draws, dtype=torch.float64).log_softmax(0)


def categorical(random, points):
    return conditioned(random, CategoricalSamples(log_probs(random, points, 4, 3), weights(random, 4), **random.names))


def probabilities(random, points):
    return ClassProbabilities(log_probs(random, points, 3), **random.names)


def dirichlets(random, points):
    concentration_N = random.normal(points).exp()
    return DirichletMembers(log_probs(random, points, 3), concentration_N, random.whole(5, points), **random.names)


def densities(random, points):
    belief = FeatureDensity(random.normal(points), random.normal(points, 3), 1.5, -2.0, 0.4, **random.names)
    belief._set(warnings=("density: a remark",))
    return belief


def example_losses(random, points):
    irreducible_loss_N = random.normal(points) if random.labels else None
    logits_N_C = random.normal(points, 3) if random.labels > 1 else None
    return ExampleLosses(random.normal(points), irreducible_loss_N, logits_N_C, **random.names)


def outcomes(random, points):
    arms = random.normal(points, 4), random.normal(points, 4)
    propensity_N = random.normal(points).sigmoid() if random.labels else None
    treatment_N = (random.normal(points) > 0).int()
    return PotentialOutcomes(*arms, treatment_N, propensity_N, 1.0, 0.5, **random.names)


def yes_or_no(random, points):
    arms = random.normal(points, 4).sigmoid(), random.normal(points, 4).sigmoid()
    return YesOrNoOutcomes(*arms, (random.normal(points) > 0).int(), **random.names)


def gaussian_outcomes(random, points):
    return outcomes(random, points).jointly_gaussian()


def independent(random, points):
    return IndependentSamples(log_probs(random, points, 4, 3), **random.names)


def gaussian(random, points):
    mean, variance = random.normal(points, 4), random.normal(points, 4).exp()
    return conditioned(random, GaussianSamples(mean, variance, weights(random, 4), **random.names))


def features(random, points):
    mean, noise = random.normal(points), random.normal(points).exp()
    return conditioned(random, GaussianFeatures(random.normal(points, 3), noise, mean=mean, **random.names))


def precision(random, left, right):
    size = left * right
    vectors = torch.linalg.qr(random.normal(size, size, dtype=torch.float64)).Q[:1]
    return [
        Isotropic(0.3),
        Diagonal(random.normal(size, dtype=torch.float64).exp()),
        Dense(random.matrix(size)),
        Kronecker(random.matrix(left), random.matrix(right)),
        LowRank(vectors, torch.tensor([2.0], dtype=torch.float64), 0.5),
        torch.ones(size, size, dtype=torch.float64),  # singular: a ridge is added, and a warning
    ][int(random.whole(6, 1))]


def factors(random, points):
    outputs = log_probs(random, points, 3).exp()
    belief = FisherFactors.categorical(random.normal(points, 2), outputs, precision(random, 3, 2), **random.names)
    return belief.labelled("hard") if random.labels else belief


def rows(random, points):
    belief = FisherRows(random.normal(points, 2, 6), precision(random, 2, 3), **random.names)
    if random.labels:
        belief._set(warnings=("training set: 2 examples are not finite; check the network",))  # as models do
    return belief


def taught(random, points):
    students = log_probs(random, points, 2, 5, 3)
    return TwoModels(log_probs(random, points, 4, 3), students, weights(random, 4), **random.names)


MAKERS = {
    CategoricalSamples: categorical,
    GaussianSamples: gaussian,
    GaussianFeatures: features,
    FisherFactors: factors,
    FisherRows: rows,
    TwoModels: taught,
    ClassProbabilities: probabilities,
    DirichletMembers: dirichlets,
    IndependentSamples: independent,
    FeatureDensity: densities,
    ExampleLosses: example_losses,
    PotentialOutcomes: outcomes,
    YesOrNoOutcomes: yes_or_no,
    GaussianPotentialOutcomes: gaussian_outcomes,
}
METHODS = dict.fromkeys(MAKERS, "batchbald") | {TwoModels: "jepig-distil", ClassProbabilities: "entropy"}
METHODS |= {DirichletMembers: "bald", IndependentSamples: "bald", FeatureDensity: "density", ExampleLosses: "loss"}


@st.composite
def recipes(draw):
    """How to make a belief, so that the same one can be made twice."""
    seed, dtype = draw(st.integers(0, 2**20)), draw(st.sampled_from([torch.float32, torch.float64]))
    points, labels = draw(st.integers(1, 6)), draw(st.integers(0, 2))
    draws_id, named = draw(st.none() | st.text(max_size=6)), draw(st.booleans())

    def make(kind, seed=seed, points=points, labels=labels):
        generator = torch.Generator().manual_seed(seed)
        ids = torch.randperm(points, generator=generator) + 2**40
        if named:
            ids = ["é" * (id % 4) + str(id) for id in ids.tolist()]  # of different lengths
        return MAKERS[kind](Random(generator, dtype, {"draws_id": draws_id, "ids": ids}, labels), points)

    return make


def brought_back(belief, place):
    with tempfile.TemporaryDirectory() as folder:
        if "shard" not in place:
            belief.save(f"{folder}/belief.{place}")
            return Belief.load(f"{folder}/belief.{place}")
        third = -(-len(belief) // 3)
        step = third if place == "three shards" else len(belief)
        parts = [belief[start : start + step] for start in range(0, len(belief), step)]
        whole = write_shards(folder, parts).belief()
        for mine, theirs in zip(parts, Shards(folder), strict=True):
            same(mine, theirs)
        return whole


def same(mine, theirs, where="belief"):
    """Whether two values are alike in every field, bit for bit."""
    if isinstance(mine, torch.Tensor):
        assert isinstance(theirs, torch.Tensor), where
        assert mine.dtype == theirs.dtype, where
        torch.testing.assert_close(mine, theirs, rtol=0, atol=0, equal_nan=True, msg=where)
        return
    if isinstance(mine, np.ndarray):
        assert mine.dtype == theirs.dtype, where
        assert mine.tolist() == theirs.tolist(), where
        return
    assert type(mine) is type(theirs), where
    if is_dataclass(mine):
        for field in fields(mine):
            same(getattr(mine, field.name), getattr(theirs, field.name), f"{where}.{field.name}")
    elif isinstance(mine, tuple):
        assert len(mine) == len(theirs), where
        for number, pair in enumerate(zip(mine, theirs, strict=True)):
            same(*pair, f"{where}[{number}]")
    else:
        assert mine == theirs, where


# Round trips.


def test_every_kind_is_here():
    own = {kind for kind in kinds() if kind.__module__.startswith("natsel.")}
    assert own - {Geometry} == set(MAKERS)  # whose two stores are held in test_geometry.py


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", MAKERS)
@settings(max_examples=5, deadline=None)
@given(make=recipes())
def test_every_field_comes_back(kind, place, make):
    belief = make(kind)
    found = brought_back(belief, place)
    same(belief, found)
    same(belief[1:], found[1:])
    same(belief.with_ids(range(len(belief))), found.with_ids(range(len(belief))))
    for name in ("warnings", "log_evidence"):
        assert getattr(belief, name, None) == getattr(found, name, None)
    if hasattr(belief, "surprise"):
        assert belief.surprise() == found.surprise()


@pytest.mark.parametrize("kind", MAKERS)
@settings(max_examples=6, deadline=None)
@given(make=recipes(), place=st.sampled_from(PLACES))
def test_the_same_picks_follow(kind, place, make):
    belief = make(kind)
    first, second = (natsel.select(METHODS[kind], each, k=1) for each in (belief, brought_back(belief, place)))
    assert first.ids.tolist() == second.ids.tolist()
    assert first.scores.tolist() == second.scores.tolist()
    assert first.warnings == second.warnings


@pytest.mark.parametrize("kind", [CategoricalSamples, GaussianSamples, GaussianFeatures])
@settings(max_examples=8, deadline=None)
@given(make=recipes(), place=st.sampled_from(PLACES))
def test_labels_go_on_teaching(kind, place, make):
    belief = make(kind)
    found = brought_back(belief, place)

    def more(each):
        return learn(each, Random(torch.Generator().manual_seed(1), torch.float64, {}, 0))

    same(more(belief), more(found))
    # Other points, before any label: they follow the belief and the one that was read alike, and from half-way too.
    others = make(kind, labels=0)[:1]
    for leader, read in ((belief, found), (more(belief), more(found))):
        same(others.with_weights_of(leader), others.with_weights_of(read))
        same(others.with_weights_of(leader), others.with_weights_of(belief).with_weights_of(read))
        same(others.with_weights_of(leader), brought_back(others.with_weights_of(belief), place).with_weights_of(read))


def test_what_was_lost_is_kept(tmp_path):
    """The numbers that a file used to forget."""
    pool = GaussianFeatures([[1.0], [2.0]], noise=1.0).condition([0], [2.0])
    pool.save(tmp_path / "b.npz")
    found, targets = GaussianFeatures.load(tmp_path / "b.npz"), GaussianFeatures([[3.0]], noise=1.0)
    assert targets.with_weights_of(found).mean_N.tolist() == [3.0]
    assert found.log_evidence == pool.log_evidence == pytest.approx(-0.5 * (math.log(4 * math.pi) + 2))
    draws = CategoricalSamples.from_probs([[[0.99, 0.01], [0.01, 0.99]]]).condition([0] * 3, [1] * 3)
    draws.save(tmp_path / "d.safetensors")
    assert CategoricalSamples.load(tmp_path / "d.safetensors").warnings == draws.warnings != ()
    ridged = FisherRows([[[1.0, 2.0]]], precision=torch.ones(2, 2))
    ridged.save(tmp_path / "f.npz")
    assert FisherRows.load(tmp_path / "f.npz").warnings == ridged.warnings != ()


def test_another_process_reads_what_this_one_wrote(tmp_path):
    random = Random(torch.Generator().manual_seed(3), torch.float64, {"draws_id": "fit 1"}, 2)
    belief, pool = taught(random, 5), features(random, 5)
    belief.save(tmp_path / "taught.npz")
    belief.save(tmp_path / "taught.safetensors")
    write_shards(tmp_path / "shards", [belief[:2], belief[2:]])
    pool.save(tmp_path / "pool.npz")
    code = (
        "import json, sys, natsel\n"
        "found = [natsel.Belief.load(f'{sys.argv[1]}/taught.{suffix}') for suffix in ('npz', 'safetensors')]\n"
        "from natsel.beliefs.shards import Shards\n"
        "found.append(Shards(f'{sys.argv[1]}/shards').belief())\n"
        "pool = natsel.Belief.load(f'{sys.argv[1]}/pool.npz')\n"
        "print(json.dumps([[type(one).__name__, one.students_N_S_L_C.tolist()] for one in found]))\n"
        "print(json.dumps([pool.log_evidence, pool[:1].condition([0], [1.0]).mean_N.tolist()]))\n"
    )
    run = fresh_python.run(["-c", code, tmp_path])
    assert run.returncode == 0, run.stderr
    read, numbers = (json.loads(line) for line in run.stdout.splitlines())
    assert read == [["TwoModels", belief.students_N_S_L_C.tolist()]] * 3
    assert numbers == [pool.log_evidence, pool[:1].condition([0], [1.0]).mean_N.tolist()]


def test_fields_of_other_peoples_beliefs_are_kept_or_refused(tmp_path):
    @dataclass(frozen=True, eq=False)
    class Annotated(CategoricalSamples):
        note: tuple[str, float] | dict = ()

    probs = torch.full((1, 2, 2), 0.5).log()
    Annotated(probs, note=("by hand", 0.1)).save(tmp_path / "a.npz")
    assert Annotated.load(tmp_path / "a.npz").note == ("by hand", 0.1)
    with pytest.raises(ValueError, match=r"^note: a dict cannot be stored; make fields .* of tensors"):
        Annotated(probs, note={}).save(tmp_path / "b.npz")
    with np.load(tmp_path / "a.npz") as old:
        np.savez(tmp_path / "c.npz", **without_digests({**old, "natsel_kind": "CategoricalSamples"}))
    with pytest.raises(ValueError, match=r"holds note, which no CategoricalSamples of this natsel has; upgrade"):
        load(tmp_path / "c.npz")
    del Annotated
    gc.collect()  # the class is gone, as in another process
    with pytest.raises(ValueError, match=r"unknown kind of belief 'Annotated'; .* import what defines"):
        load(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("{", "damaged"),
        ("[1]", "damaged"),
        ('{"log_probs_N_K_C": {"tensor": "gone"}}', "lacks gone"),
        ('{"ids_N": {"tensor": "ids_N"}}', "lacks log_probs_N_K_C"),
        (
            '{"log_probs_N_K_C": {"tensor": "log_probs_N_K_C"}, "learnt": {"form": "crystal", "parts": {}}}',
            "unknown form 'crystal'",
        ),
    ],
)
def test_descriptions_that_do_not_fit_are_refused(tmp_path, change, message):
    CategoricalSamples.from_probs([[[0.5, 0.5]]]).save(tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz") as old:
        np.savez(tmp_path / "b.npz", **without_digests({**old, "natsel_fields": change}))
    with pytest.raises(ValueError, match=message):
        load(tmp_path / "b.npz")


def test_shards_of_one_folder_know_the_same(tmp_path):
    belief = GaussianSamples(torch.randn(4, 3).double(), 1.0, draws_id="fit 1")
    after = belief.condition([0], [0.3])
    with pytest.raises(ValueError, match=r"^beliefs: shard 1 differs from the first in what all points share"):
        write_shards(tmp_path / "a", [after[:2], belief[2:]])
    write_shards(tmp_path / "b", [after[:2], after[2:]])
    forgetful = after[2:]
    forgetful._set(learnt=None)
    with pytest.raises(ValueError, match="shard 1 differs"):
        write_shards(tmp_path / "b", [after[:2], forgetful])


def test_draws_as_features_are_named_by_their_weights():
    samples = GaussianSamples(torch.randn(4, 3).double(), 1.0, draws_id="fit 1")
    after = samples.condition([0], [0.3])
    assert samples.features().draws_id == "fit 1"
    assert after[:2].features().draws_id == after[2:].features().draws_id
    with pytest.raises(ValueError, match=r"^other: its draws are 'fit 1 given .*; predict both"):
        samples[2:].features().with_weights_of(after[:2].features())
