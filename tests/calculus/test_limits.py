"""What would take minutes is refused before the work, or tried less often and said so; the work is counted."""

import math

import numpy as np
import pytest

import natsel
from natsel.calculus import DiscreteJoint, GaussianJoint, canonical, chain, equal, expand, parse, verify
from natsel.calculus import counterexamples as search
from natsel.calculus.expansion import MOST_ENTROPIES, entropies, leaves

NAMES = [f"X{number}" for number in range(200)]


def shared(count, sep=";"):
    return f"I[{sep.join(NAMES[:count])}]"


def subadditive(count, relation="<="):
    return f"H[{','.join(NAMES[:count])}] {relation} {' + '.join(f'H[{name}]' for name in NAMES[:count])}"


@pytest.mark.parametrize(
    "text",
    [
        "I[X;Y;Z|W]",
        "TC[X;Y;Z|W] - 2 I[X;Y]",
        "KL(p(X) || q(X)) + 3",
        "E_{p(x)}[I[x;Y;Z]] + H[X,Y]",
        "I[A;B;C;D;E]",
    ],
)
def test_entropies_are_counted_before_they_are_listed(text):
    assert len(leaves(parse(text))) - ("3" in text) == entropies(parse(text))


def test_equal_entropies_count_each_time():
    assert entropies(parse("I[X;Y] - I[X;Y]")) == 4
    assert leaves(parse("I[X;Y] - I[X;Y]")) == {}


def test_thirteen_variables_are_the_most():
    assert len(leaves(parse(shared(13)))) == MOST_ENTROPIES == 4096
    joint = DiscreteJoint.from_counts(NAMES[:14], np.ones((2,) * 14))
    normal = GaussianJoint(np.zeros(14), np.eye(14), NAMES[:14])
    words = r"^expression: it is a sum of (8,192|16,384) entropies, more than 4,096; .* 13 are the most: use fewer"
    for refused in (
        lambda text: natsel.info(text).expansion,
        lambda text: natsel.info(text).on(joint),
        lambda text: natsel.info(text).on(normal),
        lambda text: expand(parse(text)),
        lambda text: canonical(parse(text)),
        lambda text: chain(parse(text.replace("X1;", "X1,Y;"))),
        lambda text: verify(f"{text} >= 0"),
        lambda text: equal(text, "0"),
    ):
        with pytest.raises(ValueError, match=words):
            refused(shared(14))
    with pytest.raises(ValueError, match=r"about 2\^199 entropies"):
        expand(parse(shared(200)))
    with pytest.raises(ValueError, match="a sum of 5,120 entropies"):
        expand(parse(" + ".join([shared(11)] * 5)))
    with pytest.raises(ValueError, match="a sum of 8,192 entropies"):
        equal(shared(13), f"I[{';'.join(reversed(NAMES[:13]))}]")


def test_short_proofs_of_long_statements_are_not_refused():
    steps = " + ".join(f"H[X{i}|{','.join(NAMES[:i])}]" for i in range(1, 60))
    assert equal(f"H[{','.join(NAMES[:60])}]", f"H[X0] + {steps}")


def counted(monkeypatch):
    """How many entropies trials look at, and cells that they pass over."""
    work, evaluate = [], search.evaluate

    def seen(side, joint, **options):
        cells = math.prod(joint.log_p.shape) if isinstance(joint, DiscreteJoint) else 1
        work.append((len(leaves(side)), len(leaves(side)) * cells))
        return evaluate(side, joint, **options)

    monkeypatch.setattr(search, "evaluate", seen)
    return work


@pytest.mark.parametrize("count", [6, 9, 12])
def test_trials_of_long_statements_are_fewer_and_said(count, monkeypatch):
    work = counted(monkeypatch)
    statement = f"{shared(count)} <= H[X0]"  # true, and beyond what is proved here
    verdict = verify(statement, trials=50)
    assert verdict.verdict == "open"
    trials = len(work) // 2
    assert verdict.reason.endswith(f"no counter-example in {trials} trials" if trials > 1 else "in one trial")
    assert 1 <= trials <= max(1, 50 * 30 / (2 ** (count - 1) + 1))


@pytest.mark.parametrize("count", [10, 14, 16])
def test_large_tables_are_tried_less_often(count, monkeypatch):
    work = counted(monkeypatch)
    verdict = verify(subadditive(count), trials=50)
    assert verdict.verdict == "open"
    assert verdict.reason.endswith(f"in {len(work) // 2} trials")
    assert sum(cells for _, cells in work) <= 50 * 30 * 2500


def test_short_statements_get_all_their_trials(monkeypatch):
    work = counted(monkeypatch)
    assert verify("I[A;B;C;D] <= H[A,B] + H[E]", trials=50).verdict in ("open", "proved")
    verdict = verify("E_{p(x)}[H[x,y]] >= H[X]", trials=50)  # true, but no sum of surprisals
    assert verdict.reason.endswith("in 50 trials")
    assert len(work) >= 100


@pytest.mark.parametrize("relation", ["<=", "=", "!="])
def test_more_than_sixteen_variables_need_a_proof_by_form(relation, monkeypatch):
    """Without a table small enough no trial was ever made: that is no failure to find a counter-example."""
    work = counted(monkeypatch)
    with pytest.raises(ValueError, match=r"^statement: its form does not prove it, .* at most 16 variables"):
        verify(subadditive(17, relation))
    with pytest.raises(ValueError, match=r"a table of 262,144 cells or more"):
        verify("H[A=7,B=7,C=7,D=7,E=7,F=7] <= H[A=7]")
    assert work == []


def test_normals_are_tried_less_often_too(monkeypatch):
    work = counted(monkeypatch)
    verdict = verify(f"{shared(7)} <= 100 + H[X0]", discrete=False, trials=100)
    assert verdict.verdict == "open"
    assert verdict.reason.endswith(f"in {len(work) // 2} trials")
    assert sum(steps for steps, _ in work) <= 100 * 30 / 5 + 100


def test_orders_of_a_chain_are_not_tried_without_end(monkeypatch):
    """A surprise does not chain, whatever the order: all 120 of five outcomes would be looked at in vain."""
    from natsel.calculus import rewriting

    looked = []
    form = rewriting.canonical
    monkeypatch.setattr(rewriting, "canonical", lambda tree: looked.append(entropies(tree)) or form(tree))
    for groups in (2, 5, 9):
        looked.clear()
        with pytest.raises(ValueError, match=r"^chain: "):
            chain(parse(f"I[y1,y2,y3,y4,y5;{';'.join(NAMES[: groups - 1])}]"))
        assert sum(looked) <= 5 * MOST_ENTROPIES
