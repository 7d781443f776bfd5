"""Dirichlets that stand for the members of an ensemble: fits, views, draws, and what draws of their own refuse."""

import numpy as np
import pytest
import torch

import natsel
from golden_values import golden
from natsel import CategoricalSamples, DirichletMembers, IndependentSamples
from natsel import information as info

MEMBERS = golden("11-dirichlet")["fit_from_members_0"]
METHODS = ("mutual-information", "variance", "entropy-variance", "likelihood")


def members(seed=0, points=20, draws=30, classes=4, spread=1.0, **names):
    generator = torch.Generator().manual_seed(seed)
    centre_N_1_C = torch.randn(points, 1, classes, generator=generator, dtype=torch.float64)
    noise_N_K_C = torch.randn(points, draws, classes, generator=generator, dtype=torch.float64)
    return CategoricalSamples.from_logits(centre_N_1_C + spread * noise_N_K_C, **names)


def test_fits_of_four_members():
    given, expected = CategoricalSamples.from_probs([MEMBERS["inputs"]["probs_K_C"]]), MEMBERS["outputs"]
    by_information, by_variance = (DirichletMembers.fit(given, method) for method in METHODS[:2])
    assert by_information.concentration_N.item() == pytest.approx(expected["a0_mi"], rel=1e-11)
    assert by_variance.concentration_N.item() == pytest.approx(expected["a0_variance"], rel=1e-11)
    psv = info.dirichlet_entropy_variance(by_information.probs_N_C, by_information.concentration_N)
    assert psv.item() == pytest.approx(expected["psv"], rel=1e-11)
    assert natsel.score("bald", by_information).item() == pytest.approx(expected["mutual_information"], rel=1e-11)
    by_entropy = DirichletMembers.fit(given, "entropy-variance")
    found = info.dirichlet_entropy_variance(by_entropy.probs_N_C, by_entropy.concentration_N)
    assert found.item() == pytest.approx(expected["esv"], rel=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_fit_keeps_mean_bald_and_noise_and_says_which_points_they_are(weighted):
    given = members(ids=range(100, 120), draws_id="fit 1")
    if weighted:
        given = given.reweighted(torch.linspace(-1, 1, 30, dtype=torch.float64))
    model = DirichletMembers.fit(given)
    for name in ("bald", "aleatoric", "entropy", "margin", "variation-ratios"):
        torch.testing.assert_close(
            natsel.score(name, model), natsel.score(name, given), rtol=1e-9, atol=1e-12, msg=name
        )
    assert (model.ids.tolist(), model.draws_id, set(model.flags)) == (list(range(100, 120)), "fit 1", {"ok"})
    torch.testing.assert_close(model.predict_proba(), given.predict_proba(), rtol=1e-12, atol=0)
    assert natsel.select("bald", model, k=3).ids.tolist() == natsel.select("bald", given, k=3).ids.tolist()
    cached = DirichletMembers.from_mutual_information(given.predict_proba(), natsel.score("bald", given))
    torch.testing.assert_close(cached.concentration_N, model.concentration_N, rtol=1e-9, atol=0)


@pytest.mark.parametrize("method", METHODS)
def test_fits_to_draws_of_a_dirichlet_find_it(method):
    a0_N = torch.tensor([0.3, 3.0, 40.0], dtype=torch.float64)
    alpha_N_C = torch.tensor([0.1, 0.7 / 3, 2.0 / 3], dtype=torch.float64) * a0_N[:, None]
    drawn = DirichletMembers((alpha_N_C / a0_N[:, None]).log(), a0_N).draw(20_000, seed=1)
    found = DirichletMembers.fit(drawn, method)
    torch.testing.assert_close(found.concentration_N, a0_N, rtol=0.06, atol=0)
    torch.testing.assert_close(found.probs_N_C, alpha_N_C / a0_N[:, None], rtol=0.1, atol=0.01)


def test_the_likeliest_dirichlet_is_likelier_than_the_others():
    given = members(spread=0.5, draws=200)
    log_likelihood = {}
    for method in METHODS:
        model = DirichletMembers.fit(given, method)
        alpha_N_C = model.probs_N_C * model.concentration_N[:, None]
        law = torch.distributions.Dirichlet(alpha_N_C[:, None])
        log_likelihood[method] = law.log_prob(given.log_probs_N_K_C.exp()).sum(1)
    for method in METHODS[:3]:
        assert (log_likelihood["likelihood"] >= log_likelihood[method] - 1e-9).all(), method


def test_edges_of_fits_are_flagged():
    half, sure = [[0.5, 0.5], [0.5, 0.5]], [[1.0, 0.0], [0.0, 1.0]]
    given = CategoricalSamples.from_probs([half, sure, [[1.0, 0.0]] * 2, [[0.9, 0.1], [0.4, 0.6]]])
    for method in ("mutual-information", "variance"):
        assert DirichletMembers.fit(given, method).flags == ("point mass", "one-hot", "certain", "ok")
    assert DirichletMembers.fit(given[:1], "likelihood").flags == ("point mass",)
    with pytest.raises(ValueError, match=r"^members: some give probability 0 .*mutual-information"):
        DirichletMembers.fit(given, "likelihood")
    torch.testing.assert_close(
        natsel.score("bald", DirichletMembers.fit(given)), natsel.score("bald", given), rtol=0, atol=1e-8
    )
    far = CategoricalSamples.from_probs([[[1.0, 0.0], [0.5, 0.5]]])
    model = DirichletMembers.fit(far, "entropy-variance")
    assert model.flags == ("out of reach",)
    assert "out of reach of a Dirichlet at 1 of 1 points" in natsel.select("bald", model, k=1).warnings[0]


def test_draws_follow_their_seed_and_point_alone():
    model = DirichletMembers.fit(members(ids=range(7, 27)))
    one, two, other = model.draw(5, seed=3), model.draw(5, seed=torch.Generator().manual_seed(3)), model.draw(5, seed=4)
    assert torch.equal(one.log_probs_N_K_C, two.log_probs_N_K_C)
    assert not torch.equal(one.log_probs_N_K_C, other.log_probs_N_K_C)
    assert (one.shape, one.n_draws, one.ids.tolist()) == ((20, 5, 4), 5, list(range(7, 27)))
    copies = model[[0] * 2].draw(5)
    assert not torch.equal(copies.log_probs_N_K_C[0], copies.log_probs_N_K_C[1]), "a copy has members of its own"
    assert copies.mean_prediction().ids.tolist() == model[[0] * 2].mean_prediction().ids.tolist() == [7, 7]
    assert DirichletMembers.fit(copies).ids.tolist() == [7, 7]


@pytest.mark.parametrize("make", [lambda model: model, lambda model: model.draw(6)], ids=["model", "draws"])
def test_nothing_that_reads_points_together_takes_them(make):
    belief = make(DirichletMembers.fit(members()))
    assert natsel.score("bald", belief).shape == (20,)
    with pytest.raises(ValueError, match=r"^search: Greedy needs gains, which EIG on \w+ does not offer; use .*TopK"):
        natsel.select("batchbald", belief, k=2)
    for name in ("epig", "kmeans-bald", "badge", "jepig"):
        targets = {"targets": belief[:2]} if "epig" in name else {}
        with pytest.raises(ValueError, match=rf"^belief: \w+ cannot be read from {type(belief).__name__}; it can from"):
            natsel.select(name, belief, k=2, **targets)
    assert not hasattr(belief, "condition")
    with pytest.raises(ValueError, match=r"^given: "):
        natsel.select("bald", belief, k=2, given=belief[:1])
    why = natsel.select("bald", belief, k=2).explain()
    assert why.information is None
    assert all(pick.gain is None and pick.epistemic > 0 and pick.aleatoric > 0 for pick in why.picks)


def test_members_of_few_draws_score_as_shared_draws_do():
    drawn = DirichletMembers.fit(members()).draw(6)
    shared = CategoricalSamples(drawn.log_probs_N_K_C)
    for name in ("bald", "aleatoric", "entropy", "margin", "std-dev", "mean-std", "variance"):
        torch.testing.assert_close(natsel.score(name, drawn), natsel.score(name, shared), rtol=1e-12, atol=1e-14)
    assert "one draw" in natsel.select("bald", DirichletMembers.fit(members()).draw(1), k=1).warnings[0]


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_both_are_saved_with_every_field(tmp_path, suffix):
    model = DirichletMembers.fit(members(ids=[f"{n}.png" for n in range(20)], draws_id="fit 1"), "entropy-variance")
    for belief in (model, model.draw(3)):
        belief.save(tmp_path / f"belief.{suffix}")
        again = natsel.Belief.load(tmp_path / f"belief.{suffix}")
        assert type(again) is type(belief)
        assert (again.ids.tolist(), again.draws_id) == (belief.ids.tolist(), belief.draws_id)
        for name in belief.points:
            assert torch.equal(getattr(again, name), getattr(belief, name)), name


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: DirichletMembers([[0.5, 0.5]], [1.0]), "^log_mean_N_C: rows must sum to 1"),
        (lambda: DirichletMembers(np.log([0.5, 0.5]), [1.0]), "^log_mean_N_C: expected two axes"),
        (lambda: DirichletMembers(np.log([[0.5, 0.5]]), [1.0, 2.0]), "^concentration_N: .*each of 1 points"),
        (lambda: DirichletMembers(np.log([[0.5, 0.5]]), [-1.0]), "^concentration_N: expected positive"),
        (lambda: DirichletMembers(np.log([[0.5, 0.5]]), [1.0], [9]), "^flag_N: "),
        (lambda: DirichletMembers.fit(members(), "moments"), "^method: expected mutual-information, "),
        (lambda: DirichletMembers.fit(np.zeros((1, 1, 1))), "^members: expected draws"),
        (lambda: DirichletMembers.from_mutual_information([[0.5, 0.5]], [0.1, 0.2]), "^mutual_information_N: "),
        (lambda: IndependentSamples.from_probs([[0.5, 0.5]]), "^probs_N_K_C: expected three axes"),
        (lambda: IndependentSamples(np.zeros((1, 2, 2))), "^log_probs_N_K_C: rows must sum to 1"),
    ],
)
def test_bad_input_is_refused(call, said):
    with pytest.raises(ValueError, match=said):
        call()
