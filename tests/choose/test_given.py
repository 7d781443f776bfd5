"""`given=`: points already held, from Python and from the command line, and what is refused."""

import json

import pytest
import torch

import natsel
from natsel import FisherFactors, GaussianFeatures
from natsel.beliefs import Targets
from natsel.objectives import Argument, needs_everywhere
from natsel.objectives.logdet import LogDet, LogDetCMI, LogDetMI
from natsel.search import Greedy, TopK

PLAIN = natsel.Method(LogDet(ridge=0.1), Greedy())


def made(seed, count, width=4):
    generator = torch.Generator().manual_seed(seed)
    return GaussianFeatures(torch.randn(count, width, generator=generator, dtype=torch.float64))


def test_points_held_count_as_taken():
    pool, held = made(0, 30), made(1, 6)
    found = natsel.select(PLAIN, pool, 3, given=held)
    state_scores = natsel.score(PLAIN, pool, given=held)
    assert (state_scores < natsel.score(PLAIN, pool)).all()
    rows = torch.cat([held.features_N_D, pool.features_N_D[found.ids]])
    joint = [torch.logdet(torch.eye(len(r), dtype=torch.float64) + r @ r.T / 0.1) for r in (rows, rows[:6])]
    assert found.total == pytest.approx(float(joint[0] - joint[1]))
    assert found.scores[0] == pytest.approx(float(state_scores.max()))


def test_nothing_held_is_nothing_given():
    pool = made(0, 10)
    assert natsel.select(PLAIN, pool, 3, given=pool[[]]).ids.tolist() == natsel.select(PLAIN, pool, 3).ids.tolist()


def test_what_is_held_may_come_with_labels():
    generator = torch.Generator().manual_seed(0)
    probs_N_C = torch.rand(8, 3, generator=generator, dtype=torch.float64)
    layer = FisherFactors.categorical(made(2, 8).features_N_D, probs_N_C / probs_N_C.sum(1, keepdim=True))
    method = natsel.Method(LogDet("true"), Greedy())
    labels = [0, 1, 2, 0, 1, 2, 0, 1]
    one, two = (
        natsel.score(method, layer, labels=labels, given=Targets(layer[:2], labels=[label, 1])) for label in (0, 2)
    )
    assert not torch.equal(one, two)


@pytest.mark.parametrize("name", ["bald", "entropy", "batchbald", "logdet", "random"])
def test_targets_and_labels_without_a_use_are_refused_like_points_held(name):
    pool = made(0, 5)
    for argument, value in {"targets": pool, "labels": [0.0] * 5}.items():
        for call in (natsel.score, lambda *known, **more: natsel.select(*known, k=1, **more)):
            with pytest.raises(
                ValueError, match=rf"^{argument}: \w+ has no use for .*; leave {argument}= out, or use "
            ):
                call(name, pool, **{argument: value})


def test_labels_are_taken_where_an_option_asks_for_them():
    probs_N_C = torch.rand(5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    layer = FisherFactors.categorical(made(2, 5).features_N_D, probs_N_C / probs_N_C.sum(1, keepdim=True))
    assert len(natsel.score(natsel.Method(LogDet("true"), Greedy()), layer, labels=[0, 1, 2, 0, 1])) == 5
    with pytest.raises(ValueError, match="labels: LogDet has no use for known labels"):
        natsel.score(natsel.Method(LogDet("hard"), Greedy()), layer, labels=[0, 1, 2, 0, 1])


def test_refusals():
    pool = made(0, 5)
    draws = natsel.CategoricalSamples.from_probs([[[0.5, 0.5]]])
    with pytest.raises(ValueError, match=r"given: Entropy has no use for points already held; .*EIG.*LogDet"):
        natsel.score("entropy", pool, given=pool)
    with pytest.raises(ValueError, match="given: expected the belief about points already held, found list"):
        natsel.select(PLAIN, pool, 1, given=[0, 1])
    with pytest.raises(ValueError, match="given: found CategoricalSamples for a pool of GaussianFeatures"):
        natsel.select(PLAIN, pool, 1, given=draws)
    with pytest.raises(ValueError, match="given: LogDetCMI asks what points add to others; pass"):
        natsel.select(natsel.Method(LogDetCMI(), TopK()), pool, 1, targets=pool)
    with pytest.raises(ValueError, match=r"given: their gradients have \(outputs, features\) \(1, 2\)"):
        natsel.select(PLAIN, pool, 1, given=made(1, 3, width=2))
    with pytest.raises(ValueError, match="given weights: LogDet counts all alike"):
        natsel.select(PLAIN, pool, 1, given=Targets(pool, weights=[1.0, 2, 3, 4, 5]))
    named = GaussianFeatures(pool.features_N_D, draws_id="a"), GaussianFeatures(pool.features_N_D, draws_id="b")
    with pytest.raises(ValueError, match=r"given: their draws are 'b' and those of the pool 'a'"):
        natsel.select(PLAIN, named[0], 1, given=named[1])


def test_the_command_line_reads_points_held(tmp_path, capsys):
    from natsel.cli import main

    pool, held, aims = made(3, 20), made(4, 3), made(5, 2)
    for name, belief in (("pool", pool), ("held", held), ("aims", aims)):
        belief.save(tmp_path / f"{name}.npz")
    asked = ["select", str(tmp_path / "pool.npz"), "-k", "4", "--json"]
    for method, objective in (("logdet", LogDet()), ("logdet-cmi", LogDetCMI()), ("logdet-mi", LogDetMI())):
        options = {"given": held} | ({"targets": aims} if Argument.TARGETS in needs_everywhere(objective) else {})
        files = ["--given", str(tmp_path / "held.npz")]
        files += ["--targets", str(tmp_path / "aims.npz")] if Argument.TARGETS in needs_everywhere(objective) else []
        assert main([*asked, "-m", method, *files]) == 0
        expected = natsel.select(natsel.Method(objective, Greedy()), pool, 4, **options)
        assert json.loads(capsys.readouterr().out)["ids"] == expected.ids.tolist()
    assert main([*asked, "-m", "logdet-cmi", "--targets", str(tmp_path / "aims.npz")]) == 2
    said = "given: LogDetCMI asks what points add to others; pass the belief about those as given= (--given)"
    assert said in capsys.readouterr().err
    assert main([*asked, "-m", "entropy", "--given", str(tmp_path / "held.npz")]) == 2
    assert "given: Entropy has no use for points already held" in capsys.readouterr().err
