"""What a Dirichlet gets right about members and what it misses: the null case, and a population that is none."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import natsel
from golden_values import golden
from natsel import CategoricalSamples, DirichletMembers
from natsel.evaluation import dirichlet_fit_report, jensen_shannon_divergence

GOLDEN = golden("11-dirichlet")


def random_means(points, classes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(points, classes, generator=generator, dtype=torch.float64).softmax(-1), generator


def drawn_from_dirichlets(points=60, draws=400):
    mean_N_C, generator = random_means(points, 4)
    a0_N = 3 * torch.randn(points, generator=generator, dtype=torch.float64).exp()
    return DirichletMembers(mean_N_C.log(), a0_N).draw(draws, generator), a0_N


def logistic_normal(points=60, draws=400, spread=1.0):
    generator = torch.Generator().manual_seed(1)
    centre_N_1_C = 2 * torch.randn(points, 1, 4, generator=generator, dtype=torch.float64)
    noise_N_K_C = torch.randn(points, draws, 4, generator=generator, dtype=torch.float64)
    return CategoricalSamples.from_logits(centre_N_1_C + spread * noise_N_K_C)


def test_members_drawn_from_dirichlets_show_no_misfit():
    members, a0_N = drawn_from_dirichlets()
    report = dirichlet_fit_report(members)
    assert report.variance_ratio == pytest.approx(1, abs=0.03)
    assert report.variance_correlation > 0.95
    assert all(each.ratio == pytest.approx(1, abs=0.12) for each in report.bins)
    assert float(report.concentration_ratio_N.nanmedian()) == pytest.approx(1, abs=0.1)
    assert float((report.concentration_N / a0_N).median()) == pytest.approx(1, abs=0.05)


def test_a_logistic_normal_keeps_its_averages_and_varies_more_than_its_dirichlet():
    report = dirichlet_fit_report(logistic_normal())
    for errors_N in (
        report.predictive_entropy_error_N,
        report.mutual_information_error_N,
        report.expected_entropy_error_N,
    ):
        assert float(errors_N.mean().abs()) < 0.01
        assert float(errors_N.abs().mean()) < 0.03
    assert float(report.mean_divergence_N.max()) < 0.005
    assert report.variance_ratio > 1.15
    assert float(report.concentration_ratio_N.nanmedian()) < 0.85
    assert float((report.empirical_rmse_N - report.predicted_rmse_N).mean()) > 0


def test_the_report_of_four_members():
    inputs, outputs = (GOLDEN["fit_from_members_0"][part] for part in ("inputs", "outputs"))
    members = CategoricalSamples.from_probs([inputs["probs_K_C"]])
    report = dirichlet_fit_report(members, n_simulated=20_000)
    information, psv, esv = outputs["mutual_information"], outputs["psv"], outputs["esv"]
    assert (report.n_draws, len(report.bins)) == (4, 1)
    assert report.predicted_variance_N.item() == pytest.approx(psv, rel=1e-11)
    assert report.empirical_variance_N.item() == pytest.approx(esv, rel=1e-11)
    assert report.predicted_rmse_N.item() == pytest.approx(math.sqrt(psv + information**2), rel=1e-11)
    assert report.empirical_rmse_N.item() == pytest.approx(math.sqrt(esv + information**2), rel=1e-11)
    assert abs(report.mutual_information_error_N.item()) < 4 * math.sqrt(psv / 20_000)
    assert report.mean_divergence_N.item() < 1e-4
    entropy_k = natsel.information.entropy(members.log_probs_N_K_C)[0]
    around = (entropy_k - natsel.score("entropy", members)).square().mean().item()
    assert report.empirical_rmse_N.item() ** 2 == pytest.approx(around, rel=1e-10)
    assert math.isnan(report.variance_correlation), "of one point"
    assert f"{esv / psv:6.2f}" in str(report)


def test_bins_hold_every_point_once_in_order_of_information():
    report = dirichlet_fit_report(logistic_normal(points=23, draws=8), bins=5)
    assert sum(each.n_points for each in report.bins) == 23
    assert [each.n_points for each in report.bins] == [5, 5, 5, 4, 4]
    assert all(one.highest <= two.lowest for one, two in zip(report.bins, report.bins[1:], strict=False))
    mean = sum(each.n_points * each.empirical_variance for each in report.bins) / 23
    assert mean == pytest.approx(report.empirical_variance_N.mean().item())


def test_seed_and_memory_decide_as_elsewhere():
    members = logistic_normal(points=9, draws=8)
    names = ("mutual_information_error_N", "mean_divergence_N", "entropy_concentration_N", "predicted_variance_N")
    expected, other = dirichlet_fit_report(members, seed=1), dirichlet_fit_report(members, seed=2)
    assert not torch.equal(expected.mean_divergence_N, other.mean_divergence_N)
    weights_K = torch.zeros(8, dtype=torch.float64)
    heavier = dirichlet_fit_report(members.reweighted(weights_K + torch.arange(8)), seed=1)
    assert not torch.equal(expected.empirical_variance_N, heavier.empirical_variance_N)
    with natsel.memory_budget(1 << 10):
        again = dirichlet_fit_report(members, seed=1)
    for name in names:
        torch.testing.assert_close(getattr(again, name), getattr(expected, name), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in GOLDEN if name.startswith("jsd")])
def test_jensen_shannon_divergence(name):
    inputs, outputs = GOLDEN[name]["inputs"], GOLDEN[name]["outputs"]
    log_p, log_q = (torch.tensor(inputs[part], dtype=torch.float64).log() for part in ("p_C", "q_C"))
    assert jensen_shannon_divergence(log_p, log_q).item() == pytest.approx(outputs["jsd"], rel=1e-12)


@given(st.integers(0, 10**6), st.integers(2, 6))
@settings(max_examples=8, deadline=None)
def test_jensen_shannon_divergence_is_symmetric_and_bounded(seed, classes):
    probs_2_C, _ = random_means(2, classes, seed)
    log_p, log_q = probs_2_C.log()
    found = jensen_shannon_divergence(log_p, log_q).item()
    assert 0 < found < math.log(2)
    assert found == pytest.approx(jensen_shannon_divergence(log_q, log_p).item())
    assert jensen_shannon_divergence(log_p, log_p).item() == pytest.approx(0, abs=1e-15)
    entropies = [natsel.information.entropy(each).item() for each in (log_p, log_q, probs_2_C.mean(0).log())]
    assert found == pytest.approx(entropies[2] - (entropies[0] + entropies[1]) / 2, abs=1e-14)


def test_bad_input_is_refused():
    for call, said in (
        (lambda: dirichlet_fit_report(logistic_normal()[:0]), "^members: found no points"),
        (lambda: dirichlet_fit_report(logistic_normal(2, 2), bins=0), "^bins: "),
        (lambda: dirichlet_fit_report(logistic_normal(2, 2), n_simulated=0), "^n_draws: "),
        (lambda: dirichlet_fit_report(DirichletMembers([[0.0]], [1.0])), "^members: expected draws"),
    ):
        with pytest.raises(ValueError, match=said):
            call()
