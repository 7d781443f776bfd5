"""`natsel info` says what a quantity is and what it is worth, decides statements, and refuses in one sentence."""

import json
import math
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from natsel.calculus import DiscreteJoint, evaluate
from natsel.calculus.diagrams import IDiagram

GENERAL = np.array([[[0.02, 0.1], [0.05, 0.03], [0.13, 0.07]], [[0.11, 0.04], [0.01, 0.19], [0.08, 0.17]]])


@pytest.fixture
def table(tmp_path):
    """A table of X, Y and Z, where Y is a word."""
    words = ["cat", "dog", "fox"]
    rows = [f"{x},{words[y]},{z},{p}" for (x, y, z), p in np.ndenumerate(GENERAL)]
    (tmp_path / "joint.csv").write_text("\n".join(["X,Y,Z,p", *rows]))
    return tmp_path / "joint.csv"


@pytest.fixture
def joint():
    return DiscreteJoint.from_probs("XYZ", GENERAL, outcomes={"Y": ["cat", "dog", "fox"]})


def fields(done):
    """The lines behind the first, by the word they begin with."""
    assert done.code == 0, done
    return {line[2:18].strip(): line[18:] for line in done.out.splitlines()[1:]}


def test_a_quantity_on_a_table(call, table, joint):
    done = call("info", "I[X;Y|Z]", "--table", table)
    assert done.out.splitlines()[0] == "I[X; Y | Z]"
    assert fields(done) == {
        "value": "0.120512 nats",
        "name": "conditional mutual information",
        "expansion": "H[X | Z] - H[X | Y, Z]",
    }
    report = json.loads(call("info", "I[X;Y|Z]", "--table", table, "--unit", "bits", "--json").out)
    assert report["value"] == pytest.approx(0.120512487901198 / math.log(2), abs=1e-12)
    assert report["unit"] == "bits"
    assert report["expansion"] == "H[X | Z] - H[X | Y, Z]"
    assert report["warnings"] == []
    assert report["latex"] == r"\mathrm{I}[X; Y \mid Z]"


def test_what_would_take_minutes_is_refused_at_once(call, refused, table):
    """Twenty variables took a minute without these limits, and each more twice as long; the help states them."""
    many = [f"X{number}" for number in range(20)]
    assert "a sum of 524,288 entropies, more than 4,096" in refused("info", f"I[{';'.join(many)}]")
    assert "13 are the most" in refused("info", f"I[{';'.join(many)}]", "--table", table)
    assert "a sum of 4,097 entropies" in refused("info", f"I[{';'.join(many[:13])}] <= H[X0]")
    apart = " + ".join(f"H[{name}]" for name in many)
    assert "at most 16 variables" in refused("info", f"H[{','.join(many)}] <= {apart}")
    told = " ".join(call("info", "--help").out.split())
    assert "13 variables in an I, 12 on each side of a statement; 16 in a statement" in told


def test_outcomes(call, table, joint):
    for text, at in [("I[X;y]", {"y": "fox"}), ("I[y;X|z]", {"y": "dog", "z": 0}), ("I[X;Y=fox]", {})]:
        text = text.replace("fox", '"fox"')
        options = [word for name, outcome in at.items() for word in ("--at", f"{name}={outcome}")]
        report = json.loads(call("info", text, "--table", table, *options, "--json").out)
        assert report["value"] == pytest.approx(evaluate(text, joint, at=at).value, abs=1e-12)
        assert report["at"] == {name: str(outcome) for name, outcome in at.items()}
    done = call("info", "I[X;y]", "--table", table, "--at", "y=*")
    shown = fields(done)
    assert [name for name in shown if name.startswith("at ")] == ["at y=cat", "at y=dog", "at y=fox"]
    assert shown["at y=fox"] == f"{evaluate('I[X;y]', joint, at={'y': 'fox'}).value:.6f} nats"
    report = json.loads(call("info", "I[X;y|z]", "--table", table, "--at", "y=*", "--at", "z=*", "--json").out)
    assert np.array(report["value"]).shape == (3, 2)


def test_warnings_go_to_people_and_machines(call, table):
    done = call("info", "I[X;Y;Z]", "--table", table)
    assert done.err.startswith("warning: negative interaction")
    assert "warning" not in done.out
    report = json.loads(call("info", "I[X;Y;Z]", "--table", table, "--json").out)
    assert len(report["warnings"]) == 1


def test_a_model(call, table, tmp_path):
    (tmp_path / "q.csv").write_text("X,p\n0,0.4\n1,1.2\n")
    p = GENERAL.sum((1, 2))
    expected = -float(p @ np.log([0.4, 1.2]))
    for option in (tmp_path / "q.csv", f"q={tmp_path / 'q.csv'}"):
        report = json.loads(call("info", "H_q[X]", "--table", table, "--q", option, "--json").out)
        assert report["value"] == pytest.approx(expected, abs=1e-12)
    named = call("info", "KL(p(X) || r(X))", "--table", table, "--q", f"r={tmp_path / 'q.csv'}", "--json")
    assert json.loads(named.out)["value"] == pytest.approx(expected + float(p @ np.log(p)), abs=1e-12)
    (tmp_path / "q.csv").write_text("X,p\n0,0.4\n1,0\n")
    infinite = json.loads(call("info", "H_q[X]", "--table", table, "--q", tmp_path / "q.csv", "--json").out)
    assert infinite["value"] is None
    assert infinite["warnings"] == ["the value is infinite"]


def test_without_a_table_it_says_what_the_quantity_is(call):
    assert fields(call("info", "I[X;y1,y2]")) == {
        "name": "information gain",
        "expansion": "H[X] - H[X | y1, y2]",
        "chain": "I[X; y1] + I[X; y2 | y1]",
        "canonical": "ε(X) - ε(X, Y1, Y2; y1, y2) + ε(Y1, Y2; y1, y2)",
    }
    assert "chain" not in fields(call("info", "I[y1,y2;X]"))  # surprise does not chain in outcomes
    report = json.loads(call("info", "E_{p(x)}[H[x,y]]", "--json").out)
    assert report["canonical"] is None  # a number, but no basis element
    assert "value" not in report
    assert fields(call("info", "2 H[X] - 2 H[X]"))["canonical"] == "0"


def test_statements(call, table, joint):
    proved = fields(call("info", "H[X,Y] = H[X] + H[Y|X]"))
    assert proved["verdict"] == "proved"
    assert "counter-example" not in proved
    refuted = call("info", "I[X;y] = I[y;X]")
    assert fields(refuted)["verdict"] == "refuted"
    assert "left" in fields(refuted)["counter-example"]
    assert "p(X=" in refuted.out
    report = json.loads(call("info", "I[X;y] = I[y;X]", "--json").out)
    found = report["counterexample"]
    example = DiscreteJoint.from_records(found["tables"]["p"])
    for side, text in (("left", "I[X;y]"), ("right", "I[y;X]")):
        assert evaluate(text, example, at=found["at"]).value == pytest.approx(found[side], abs=1e-6)
    assert abs(found["left"] - found["right"]) > 1e-3
    report = json.loads(call("info", "I[X;Y] <= H[X]", "--table", table, "--json").out)
    assert report["verdict"] == "proved"
    assert report["left"] == pytest.approx(evaluate("I[X;Y]", joint).value)
    assert report["right"] == pytest.approx(evaluate("H[X]", joint).value)
    assert fields(call("info", "I[X;Y] <= H[X]", "--table", table))["on the table"].endswith(" nats")


def test_pictures(call, table, joint, tmp_path):
    done = call("info", "I[X;Y|Z]", "--table", table, "--diagram", tmp_path / "out.svg")
    assert fields(done)["written to"] == str(tmp_path / "out.svg")
    expected = IDiagram.from_joint(joint).render("svg", highlight="I[X;Y|Z]")
    assert (tmp_path / "out.svg").read_text() == expected
    call("info", "I[X;Y]", "--table", table, "--unit", "bits", "--diagram", tmp_path / "bits.svg")
    expected = IDiagram.from_joint(joint, "XY", unit="bits").render("svg", highlight="I[X;Y]")
    assert (tmp_path / "bits.svg").read_text() == expected
    call("info", "I[X;y]", "--table", table, "--at", "y=cat", "--diagram", tmp_path / "bars.png")
    assert (tmp_path / "bars.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("H[Q]",), "Q: no such variable; the table has X, Y, Z"),
        (("H[X|y]",), "y"),
        (("H[X|y]", "--at", "y=cow"), "cow"),
        (("H[X|y]", "--at", "y"), "at: expected an outcome such as y=1, found 'y'"),
        (("H[X]", "--unit", "bans"), "unit: found 'bans'"),
        (("H_q[X]",), "q: "),
        (("H[X]", "--diagram", "out.gif"), "out.gif"),
        (("I[X;Y;z]", "--at", "z=0", "--diagram", "out.svg"), "has no diagram"),
        (("H[X] = H[Y]", "--diagram", "out.svg"), "a statement has no picture"),
    ],
)
def test_bad_input_is_refused(refused, table, arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert message in refused("info", *arguments, "--table", table)
    assert [path.name for path in tmp_path.iterdir()] == ["joint.csv"]


def test_bad_tables_are_refused(refused, tmp_path):
    assert "nope.csv" in refused("info", "H[X]", "--table", tmp_path / "nope.csv")
    for content in (b"\xff\xfe\x00junk\x00", b"X,p\n" + b"a" * 200_000 + b",1\n"):
        (tmp_path / "bad.csv").write_bytes(content)
        assert "bad.csv: it is not a CSV file" in refused("info", "H[X]", "--table", tmp_path / "bad.csv")
    (tmp_path / "bad.csv").write_text("X,p\n0,0.5\n1,0.4\n")
    assert "sum to 0.9" in refused("info", "H[X]", "--table", tmp_path / "bad.csv")
    for option in ("--at", "--q", "--diagram"):
        assert "pass --table too" in refused("info", "H[X]", option, "y=1")


def test_a_slip_in_the_text_is_pointed_at(call):
    done = call("info", "H[X, | Y]")
    assert done.code == 2
    assert done.out == ""
    first, text, caret = done.err.splitlines()
    assert first == 'natsel: H[X, | Y]: column 6: expected a variable (X, x or X=3), found "|"'
    assert text[caret.index("^")] == "|"


def test_help_shows_the_example_with_its_brackets(call):
    done = call("info", "--help")
    assert done.code == 0
    assert 'Example: natsel info "I[X;Y|Z]" --table joint.csv --diagram out.svg' in done.out
    assert "H[X|y]" in done.out


@pytest.mark.slow  # by default: test_pictures in this process, test_journeys as a program, test_package in a fresh one
def test_as_a_program(start, table, tmp_path):
    done = start("info", "I[X;Y|Z]", "--table", table, "--diagram", tmp_path / "out.svg", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["value"] == pytest.approx(0.120512487901198, abs=1e-12)
    assert ElementTree.parse(tmp_path / "out.svg").getroot().tag.endswith("svg")


def test_exit_codes(call):
    wrong = call("info", "H[X")
    assert wrong.code == 2
    assert "^" in wrong.err
    assert "Traceback" not in wrong.err
    refuted = call("info", "I[X;Y;Z] >= 0")
    assert refuted.code == 0
    assert "refuted" in refuted.out
