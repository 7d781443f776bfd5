"""The memory budget is a bound: real peaks of every kind of method, and refusals of what cannot keep to it."""

import pytest
import torch

import natsel
import peak_memory
from natsel import FisherFactors, GaussianFeatures, Method
from natsel.choose.methods import resolve
from natsel.information.conditioning.conditioned_blocks import Blocks
from natsel.search import KDPP

MIB = 1 << 20
BUDGET = 16 * MIB
# Whole matrices may fill the budget, and a quarter of it more is for tables that only save time. Beside it there are
# 8 MiB of a chunk, which on a CPU does not shrink with the budget, and 4 for the allocator, Python and the libraries.
FACTOR, ALLOWANCE = 1.25, 12 * MIB
REFUSED = {
    "Gaussian JEPIG, wide",
    "bait, whole matrices",
    "bait, Kronecker",
    "fb-jepig, whole matrices",
    "fb-jepig, few points",
    "badge-dpp, exact",
    "logdet-mi, whole matrices",
}
# Cases of states that another case measures too, by another search, another objective or at other sizes.
SEEN_ALREADY = {
    *("bald", "power-bald", "batch-epig", "batch-jepig", "Gaussian entropy", "epig-jensen"),
    *("Gaussian EIG, tiny noise", "Gaussian EIG, draws", "lcmd", "Gaussian EPIG, tiny noise", "Gaussian JEPIG, wide"),
    *("bait, many classes", "bait, whole matrices", "bait, Kronecker", "bait, few points", "bait, rows"),
    *("active-set-select", "bait-det, low rank", "fb-epig, many classes", "fb-epig, rows"),
    *("fb-jepig, whole matrices", "fb-jepig, few points", "badge, many classes", "logdet", "logdet, given"),
    *("logdet-mi, whole matrices", "logdet-cmi", "flvmi", "flqmi", "set-cover", "set-cover-mi"),
}
# Sums over draws of one point, as entropy is; and what needs a model that is trained.
NOT_MEASURED = {
    *("EPIGChi2", "ExpectedEntropy", "VariationRatio", "Margin", "MeanStd", "StdDev", "Variance", "Random"),
    *("Surprise", "TaughtJEPIG", "SoftRank", "Exhaustive"),
}


@pytest.mark.skipif(peak_memory.available() is not None, reason=str(peak_memory.available()))
@pytest.mark.parametrize(
    "left_out", [SEEN_ALREADY, pytest.param(set(), marks=pytest.mark.slow)], ids=["a case of each state", "all cases"]
)
def test_no_method_takes_more_than_the_budget_allows(left_out):
    assert left_out < peak_memory.CASES.keys()
    found = peak_memory.measured(BUDGET, [name for name in peak_memory.CASES if name not in left_out])
    expected = REFUSED - left_out
    named = {f"{name}, with the budget named": run["then"] for name, run in found.items() if "then" in run}
    runs = found | named
    over = {
        name: f"{run['peak'] / MIB:.0f} MiB of {run['budget'] / MIB:.0f}"
        for name, run in runs.items()
        if run["peak"] > FACTOR * run["budget"] + ALLOWANCE
    }
    assert not over
    refused = {name: run["refused"] for name, run in runs.items() if "refused" in run}
    assert refused.keys() == expected
    assert all("over the memory budget of 16 MiB" in reason for reason in refused.values())
    assert all(found[name]["peak"] < BUDGET for name in expected), "refused before the work"
    assert len(named) == len(expected) > 0, "and done with the budget that is named"


def test_every_kind_of_objective_and_search_has_a_case(monkeypatch):
    makers = (
        "draws layer rows features samples densities examples arms joint_arms geometry labels normal low_rank Targets"
    )
    for maker in makers.split():
        monkeypatch.setattr(peak_memory, maker, lambda *_, **__: None)  # methods alone, without their beliefs

    def kinds(methods):
        return {type(kind).__name__ for method in methods for kind in (method.objective, method.search)}

    measured = kinds(resolve(make()[0]) for make in peak_memory.CASES.values())
    assert kinds(natsel.methods().values()) - measured <= NOT_MEASURED, "give new methods a case"


def layer(points, classes, width):
    generator = torch.Generator().manual_seed(0)
    features_N_D = torch.randn(points, width, generator=generator)
    return FisherFactors.categorical(features_N_D, torch.randn(points, classes, generator=generator).softmax(1))


def test_six_thousand_weights_are_refused_under_a_small_budget_before_the_work():
    belief = layer(700, 10, 600)
    with (
        natsel.memory_budget(64 * MIB),
        pytest.raises(
            ValueError,
            match=r"^targets: a matrix of 6000 × 6000 .* would take 275 MiB of working memory at once, over the memory"
            r" budget of 64 MiB; use fewer features or targets, or raise the budget: natsel.memory_budget.275 << 20.$",
        ),
    ):
        natsel.select("bait", belief, 2, targets=belief)


@pytest.mark.parametrize(
    ("method", "belief", "about", "says"),
    [
        ("fb-jepig", layer(200, 10, 150), layer(200, 10, 150), "^targets: 2 matrices of 1500 × 1500 .*; use fewer"),
        ("fb-jepig", layer(200, 10, 150), layer(140, 10, 150), "^targets: matrices of 1400 × 1400 and 1400 × 1500 "),
        ("logdet-mi", layer(5, 10, 200), layer(1500, 10, 200), "^targets and given: two matrices of 1500 × 1500 "),
        ("jepig", GaussianFeatures(torch.ones(3, 900)), GaussianFeatures(torch.ones(800, 900)), "^targets: 7 matrices"),
        (
            Method(natsel.EIG(), KDPP()),
            GaussianFeatures(torch.ones(900, 3)),
            None,
            "^k-DPP: a draw from 900 candidates",
        ),
    ],
    ids=["whole", "rows", "similarities", "features", "k-DPP"],
)
def test_what_cannot_be_cut_is_refused_with_its_size(method, belief, about, says):
    options = {} if about is None else {"targets": about}
    with natsel.memory_budget(8 * MIB), pytest.raises(ValueError, match=says) as raised:
        natsel.select(method, belief, 2, **options)
    assert "MiB of working memory at once, over the memory budget of 8 MiB; " in str(raised.value)


def test_small_matrices_are_never_refused():
    belief = layer(30, 3, 4)
    with natsel.memory_budget(1):
        for method in ("bait", "fb-jepig", "logdet-mi"):
            assert len(natsel.select(method, belief, 2, targets=belief).ids) == 2


def test_what_points_taken_add_up_to_is_refused_on_the_way():
    """How many will be taken is not known beforehand."""
    belief = layer(60, 3, 4)
    blocks = Blocks(belief.factors, belief.precision, beside=12 * MIB)
    with natsel.memory_budget(12 * MIB):
        blocks.absorb(blocks.pivot(0))
    with (
        natsel.memory_budget(2000),
        pytest.raises(ValueError, match=r"^k: 6 rows of 12 for the points taken .*; lower k"),
    ):
        blocks.absorb(blocks.pivot(1))
