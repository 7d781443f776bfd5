import math

import numpy as np
import pytest
import torch

import natsel
from golden_values import random_draws
from natsel.calculus import DiscreteJoint, ParseError, Quantity, evaluate, info, parse

P = [[0.9, 0.05], [0.0, 0.05]]


def test_a_quantity_is_evaluated_on_tables_joints_and_beliefs():
    expected = -0.494631937214073
    for table in (P, np.array(P), torch.tensor(P, dtype=torch.float64)):
        assert info("I[X;y]").on(table, names="XY", at={"y": 1}) == pytest.approx(expected, abs=1e-12)
    joint = DiscreteJoint.from_probs(["X", "Y"], P)
    assert info("I[X;y]").on(joint, at={"y": 1}) == pytest.approx(expected, abs=1e-12)
    assert info("I[X;y]").on(joint, at={"y": 1}, unit="bits") == pytest.approx(expected / math.log(2))
    assert info("H[X|y]").on(joint, at={"y": [0, 1]}).tolist() == pytest.approx([0, math.log(2)])
    assert info("H_q[Y]").on(joint, q=[[1, 1], [1, 1]]) == pytest.approx(-math.log(2))
    belief = natsel.CategoricalSamples(*random_draws(0, 5, 4, 3))
    torch.testing.assert_close(info("I[Y;W|x]").on(belief), natsel.score("bald", belief), rtol=1e-10, atol=1e-10)
    empty = DiscreteJoint.from_probs("XY", [[0.5, 0], [0.5, 0]])
    assert math.isnan(info("H[X|y]").on(empty, at={"y": 1}, errors="nan"))


def test_a_quantity_knows_its_name_its_expansion_and_its_chain():
    quantity = info("I[X; Y1, Y2 | z]")
    assert (
        quantity.name == evaluate("I[X;Y1,Y2|Z=0]", DiscreteJoint.from_probs(["X", "Y1", "Y2", "Z"], [[[[1.0]]]])).name
    )
    assert info("I[X;y]").name == "information gain"
    assert quantity.expansion == parse("H[X|z] - H[X|Y1,Y2,z]")
    assert quantity.chain().expression == parse("I[X;Y1|z] + I[X;Y2|Y1,z]")
    assert str(quantity) == str(parse("I[X; Y1, Y2 | z]"))
    assert quantity._repr_latex_() == f"${quantity.latex()}$"
    assert "mathrm{I}" in quantity.latex()
    joint = DiscreteJoint.from_probs("XY", P)
    assert info("I[X;y]").evaluate(joint, at={"y": 1}) == evaluate("I[X;y]", joint, at={"y": 1})


def test_arithmetic():
    joint = DiscreteJoint.from_probs("XY", P)
    x, y = info("H[X]"), info("H[Y|X]")
    for quantity, text in [
        (x + y, "H[X,Y]"),
        (x - y, "H[X] - H[Y|X]"),
        (2 * x, "2 H[X]"),
        (x * 0.5, "0.5 H[X]"),
        (-x, "-H[X]"),
        (x + 1, "H[X] + 1"),
        (1 + x, "1 + H[X]"),
        (1 - x, "1 - H[X]"),
        (x + parse("H[Y]"), "H[X] + H[Y]"),
    ]:
        assert isinstance(quantity, Quantity)
        assert quantity.on(joint) == pytest.approx(info(text).on(joint))


def test_what_is_no_quantity_is_refused():
    with pytest.raises(ValueError, match=r"info: found the statement .*natsel.calculus.verify"):
        info("I[X;Y] = I[Y;X]")
    with pytest.raises(ParseError):
        info("H[X,|Y]")
    with pytest.raises(ValueError, match="names: a table of probabilities needs a name for each axis"):
        info("H[X]").on(np.array([0.5, 0.5]))
    with pytest.raises(ValueError, match="names: found them beside DiscreteJoint"):
        info("H[X]").on(DiscreteJoint.from_probs("X", [1.0]), names="X")
    with pytest.raises(ValueError, match="names: found them beside CategoricalSamples"):
        info("H[Y|x]").on(natsel.CategoricalSamples(*random_draws(0, 2, 2, 2)), names="X")
    for belief in (natsel.GaussianFeatures(torch.eye(2)), natsel.GaussianSamples(torch.zeros(2, 2), torch.ones(2, 2))):
        with pytest.raises(ValueError, match=f"joint: found {type(belief).__name__}; pass .*categorical draws"):
            info("I[Y;W|x]").on(belief)


def test_a_quantity_has_a_picture():
    pytest.importorskip("matplotlib")
    joint = DiscreteJoint.from_probs("XY", P)
    for figure in (info("I[X;Y]").diagram(joint, unit="bits"), info("I[X;Y]").diagram(P, names="XY")):
        assert figure.axes
