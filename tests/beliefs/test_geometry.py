"""The geometry of a model as a belief: its kernel by counting, its parts, files and shards, and what is refused."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import natsel
from natsel import Geometry
from natsel.beliefs.geometry import unsureness
from natsel.beliefs.shards import write_shards


def forest(seed=0, count=30, trees=7, leaves=5):
    rng = np.random.default_rng(seed)
    places, unsure_N = rng.integers(leaves, size=(count, trees)), rng.uniform(size=count)
    return Geometry.of_leaves(places, unsure_N, n_leaves=[leaves] * trees, draws_id="fit 1")


def features(seed=0, count=30, width=4):
    rng = np.random.default_rng(seed)
    return Geometry(rng.normal(size=(count, width)), rng.uniform(size=count), draws_id="fit 1")


EACH = pytest.mark.parametrize("make", [forest, features])


@settings(deadline=None)
@given(seed=st.integers(0, 10**6), count=st.integers(1, 600), trees=st.integers(1, 9))
def test_two_points_are_as_alike_as_the_share_of_trees_that_agree(seed, count, trees):
    belief = forest(seed, count, trees)
    leaves_N_T = belief.places_N_D.numpy()
    shares_N_N = (leaves_N_T[:, None] == leaves_N_T[None]).mean(-1)
    np.testing.assert_allclose(belief.kernel()(belief), shares_N_N, atol=1e-15)
    others = belief[: count // 2]
    np.testing.assert_allclose(others.kernel()(belief), shares_N_N[:, : count // 2], atol=1e-15)


@EACH
def test_the_kernel_is_that_of_the_features_and_no_direction_has_less_than_nothing(make):
    belief = make()
    features_N_D = belief.features().features_N_D
    torch.testing.assert_close(belief.kernel()(belief), features_N_D @ features_N_D.T)
    assert torch.linalg.eigvalsh(belief.kernel()(belief)).min() > -1e-12


@EACH
def test_sums_over_leaves_are_products_with_the_features(make):
    belief = make()
    features_N_D = belief.features().features_N_D
    rng = np.random.default_rng(1)
    vector_D, share_N = (torch.from_numpy(rng.normal(size=size)) for size in features_N_D.T.shape)
    torch.testing.assert_close(belief.along(vector_D), features_N_D @ vector_D)
    torch.testing.assert_close(belief.combined(share_N), features_N_D.T @ share_N)


def test_features_are_brought_to_length_one_and_nothing_stays_nothing():
    belief = Geometry([[3.0, 4.0], [0.0, 0.0]])
    assert belief.places_N_D.tolist() == [[0.6, 0.8], [0.0, 0.0]]


@EACH
def test_parts_files_and_shards_keep_everything(make, tmp_path):
    belief = make()
    part = belief[[4, 2]].with_ids(["a", "b"])
    part.save(tmp_path / "part.safetensors")
    back = Geometry.load(tmp_path / "part.safetensors")
    assert torch.equal(back.places_N_D, belief.places_N_D[[4, 2]])
    assert back.places_N_D.dtype == belief.places_N_D.dtype
    assert torch.equal(back.unsure_N, belief.unsure_N[[4, 2]])
    assert (back.kind, back.n_leaves, back.noise, back.draws_id) == (belief.kind, belief.n_leaves, 0.1, "fit 1")
    assert back.ids.tolist() == ["a", "b"]
    whole = write_shards(tmp_path / "shards", [belief[:20], belief[20:]]).belief()
    for method in ("reach", "uherding"):
        assert natsel.select(method, whole, 5).ids.tolist() == natsel.select(method, belief, 5).ids.tolist()


def test_parts_of_a_forest_see_all_its_leaves_as_features():
    belief = forest()
    assert belief[:1].features().features_N_D.shape == (1, 35)


def test_a_geometry_predicts_no_label():
    with pytest.raises(ValueError, match="predict: a Geometry says which points are alike"):
        forest().predict()


def test_how_unsure_a_belief_is():
    probs_N_C = [[0.5, 0.3, 0.2], [1.0, 0.0, 0.0]]
    assert unsureness(natsel.ClassProbabilities.from_probs(probs_N_C)).tolist() == pytest.approx([0.8, 0.0])
    assert unsureness(natsel.ClassProbabilities.from_probs([[1.0]])).tolist() == [0.0]
    numbers = natsel.GaussianSamples([[0.0, 2.0], [1.0, 1.0]], 1.0)
    assert unsureness(numbers).tolist() == pytest.approx([4 / 3, 2 / 3])


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Geometry([[1.0]], [-1.0]), "unsure_N: expected numbers from 0 on"),
        (lambda: Geometry([[1.0]], [float("nan")]), "unsure_N: expected numbers from 0 on"),
        (lambda: Geometry([[float("nan")]]), "places_N_D: found NaN"),
        (lambda: Geometry([[1.0]], noise=0.0), "noise: expected a variance above 0"),
        (lambda: Geometry([[1.0]], kind="trees"), "kind: expected features or leaves, found 'trees'"),
        (lambda: Geometry.of_leaves([[0.5]]), "leaves_N_T: expected integers"),
        (lambda: Geometry.of_leaves([[-1]]), "leaves_N_T: expected numbers from 0 to below n_leaves .* found -1 to -1"),
        (lambda: Geometry.of_leaves([0, 1]), "leaves_N_T: expected two axes"),
        (lambda: Geometry.of_leaves([[0, 4]], n_leaves=[1, 4]), "found 0 to 4 for 2 trees of 5; number the leaves"),
        (lambda: Geometry.of_leaves([[0, 1]], n_leaves=[4]), "found 0 to 1 for 1 trees of 4; number the leaves"),
        (lambda: Geometry.of_leaves([[2**30, 2**30]]), "for 2 trees of 2147483650; number the leaves"),
    ],
)
def test_what_is_no_geometry_is_refused(make, said):
    with pytest.raises(ValueError, match=said):
        make()
