"""Atoms by golden values, brute force and their laws; areas measured from the geometry; pictures that can be read."""

import functools
import importlib.util
import itertools
import math
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import natsel.calculus.diagrams.figures as figures
from golden_values import golden
from natsel.calculus import DiscreteJoint, GaussianJoint, PredictiveJoint, evaluate, parse
from natsel.calculus.diagrams import IDiagram, bars, diagram_of
from natsel.calculus.diagrams.bar_diagram import Bars
from natsel.calculus.diagrams.choosing import diagram_for
from natsel.calculus.diagrams.circles import (
    Ellipse,
    distance_for_overlap,
    fixed_layout,
    layout,
    overlap_area,
    part_areas,
    scale_caption,
)
from natsel.information import joint_mutual_information

CASES = golden("01-information-quantities")
PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
MARKOV = (
    np.array([0.5, 0.3, 0.2])[:, None, None]
    * np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.2, 0.7]])[:, :, None]
    * np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.2, 0.7]])
)


def joint_of(case):
    return DiscreteJoint.from_probs(CASES[case]["inputs"]["variables"], CASES[case]["inputs"]["p"])


def random_joint(seed, names, most=3, zeros=True):
    rng = np.random.default_rng(seed)
    table = rng.dirichlet(np.full(math.prod(shape := rng.integers(2, most + 1, len(names))), 0.5)).reshape(shape)
    if zeros:
        table = table * (rng.random(shape) > 0.25)
        table.flat[0] += 0.1
    return DiscreteJoint.from_counts(names, table)


def parts_of(names):
    return [frozenset(part) for size in range(1, len(names) + 1) for part in itertools.combinations(names, size)]


# --- atoms ---------------------------------------------------------------------------------------------------------


def test_golden_atoms():
    diagram = IDiagram.from_joint(joint_of("general_table"))
    expected = CASES["general_table"]["expected"]["atoms"]
    assert {"".join(sorted(part)): value for part, value in diagram.atoms.items()} == pytest.approx(expected, abs=1e-12)
    assert not diagram.is_venn_like()


@pytest.mark.parametrize("case", ["xor", "general_table"])
def test_golden_quantities_are_sums_of_atoms(case):
    diagram = IDiagram.from_joint(joint_of(case))
    untied = {text: value for text, value in CASES[case]["expected"].items() if text == text.upper() and "[" in text}
    assert len(untied) >= 5
    assert {text: diagram.value(text) for text in untied} == pytest.approx(untied, abs=1e-12)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 4))
def test_atoms_are_what_their_names_say(seed, n):
    joint = random_joint(seed, "ABCD"[:n])
    diagram = IDiagram.from_joint(joint)
    assert len(diagram.atoms) == 2**n - 1
    for part, value in diagram.atoms.items():
        others = [name for name in diagram.variables if name not in part]
        signed = 0.0  # the definition, term by term
        for size in range(len(part) + 1):
            for some in itertools.combinations(sorted(part), size):
                inside = ",".join([*some, *others])
                signed -= (-1) ** size * (evaluate(f"H[{inside}]", joint).value if inside else 0.0)
        assert value == pytest.approx(signed, abs=1e-10)
        assert value == pytest.approx(evaluate(diagram.expression(part), joint).value, abs=1e-10)
    whole = evaluate(f"H[{','.join(diagram.variables)}]", joint).value
    assert sum(diagram.atoms.values()) == pytest.approx(whole, abs=1e-10)


@settings(deadline=None)
@given(data=st.data(), seed=st.integers(0, 10**6))
def test_every_region_sums_to_the_quantity(data, seed):
    joint = random_joint(seed, "ABCD", most=2)
    diagram = IDiagram.from_joint(joint)
    group = st.lists(st.sampled_from("ABCD"), min_size=1, max_size=3, unique=True).map(",".join)
    groups = data.draw(st.lists(group, min_size=1, max_size=3))
    behind = data.draw(st.lists(st.sampled_from("ABCD"), max_size=2, unique=True))
    kind = "H" if len(groups) == 1 else data.draw(st.sampled_from(["I", "TC"]))
    text = f"{kind}[{';'.join(groups)}{'|' if behind else ''}{','.join(behind)}]"
    assert diagram.value(text) == pytest.approx(evaluate(text, joint).value, abs=1e-10)
    doubled = f"2 {text} - 1/2 H[A]"
    assert diagram.value(doubled) == pytest.approx(evaluate(doubled, joint).value, abs=1e-10)
    if kind != "TC":
        assert set(diagram.weights(text).values()) <= {1}


def test_regions_and_how_often_their_atoms_count():
    diagram = IDiagram.from_joint(joint_of("xor"))
    assert diagram.region("I[X;Y|Z]") == {frozenset("XY")}
    assert diagram.region("I[X;Y]") == {frozenset("XY"), frozenset("XYZ")}
    assert diagram.region("H[X,Y|Z]") == {frozenset("X"), frozenset("Y"), frozenset("XY")}
    assert diagram.region("H[X|X]") == set()
    assert {"".join(sorted(part)): count for part, count in diagram.weights("TC[X;Y;Z]").items()} == {
        "XY": 1,
        "XZ": 1,
        "YZ": 1,
        "XYZ": 2,
    }


def test_only_zero_atoms_may_be_erased():
    xor = IDiagram.from_joint(joint_of("xor"))
    assert xor.value("I[X;Y]") == pytest.approx(0, abs=1e-12)
    assert not xor.removable("I[X;Y]")  # zero in sum, not atom by atom
    assert xor.removable("H[X|Y,Z]")
    assert not xor.is_venn_like()
    markov = IDiagram.from_joint(DiscreteJoint.from_probs("XYZ", MARKOV))
    assert markov.is_venn_like()
    assert markov.removable("I[X;Z|Y]")
    assert not markov.removable("I[X;Z]")
    assert markov.removable("I[X;Z]", tol=1.0)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_independent_variables_and_relabelled_ones(seed):
    rng = np.random.default_rng(seed)
    a, b, c = (rng.dirichlet(np.ones(k)) for k in (2, 3, 2))
    independent = IDiagram.from_joint(DiscreteJoint.from_probs("ABC", np.einsum("i,j,k", a, b, c)))
    assert all(abs(value) < 1e-10 for part, value in independent.atoms.items() if len(part) > 1)
    joint = random_joint(seed, "ABC")
    renamed = DiscreteJoint(("B", "C", "A"), joint.log_p)
    there, back = IDiagram.from_joint(joint), IDiagram.from_joint(renamed)
    new = {"A": "B", "B": "C", "C": "A"}
    for part, value in there.atoms.items():
        assert back.atoms[frozenset(new[name] for name in part)] == pytest.approx(value, abs=1e-12)


def test_bits_and_some_of_the_variables():
    joint = joint_of("general_table")
    nats, bits = IDiagram.from_joint(joint, ["Z", "X"]), IDiagram.from_joint(joint, ["Z", "X"], unit="bits")
    assert nats.variables == ("Z", "X")
    assert nats.atoms[frozenset("XZ")] == pytest.approx(evaluate("I[X;Z]", joint).value, abs=1e-12)
    assert {part: value * math.log(2) for part, value in bits.atoms.items()} == pytest.approx(nats.atoms)
    assert "bits" in str(bits)


@pytest.mark.slow
def test_twelve_variables_and_no_more():
    table = np.zeros((2,) * 12)
    table[(0,) * 12] = table[(1,) * 12] = 1  # twelve copies of one coin
    diagram = IDiagram.from_joint(DiscreteJoint.from_counts("ABCDEFGHIJKL", table))
    assert len(diagram.atoms) == 4095
    assert diagram.atoms[frozenset("ABCDEFGHIJKL")] == pytest.approx(math.log(2))
    assert max(abs(value) for part, value in diagram.atoms.items() if len(part) < 12) < 1e-10
    assert str(diagram).count("\n") == 4095
    assert diagram._repr_svg_() is None
    with pytest.raises(ValueError, match=r"a picture holds 1 to 4, found 12.*render\(\"text\"\)"):
        diagram.figure()
    with pytest.raises(ValueError, match="at most 12, found 13"):
        IDiagram.from_joint(DiscreteJoint.from_counts("ABCDEFGHIJKLM", np.ones((1,) * 13)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("I[X;y]", r"I\[X; y\] holds the outcome y.*bars"),
        ("H[Q]", r"names Q, which is not in the diagram of X, Y, Z; add it to variables"),
        ("H_q[X]", r"H_q\[X\] has no region"),
        ("H[X] + 1", r"1 has no region"),
    ],
)
def test_quantities_without_a_region_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        IDiagram.from_joint(joint_of("xor")).region(text)


def test_bad_variables_are_refused():
    joint = joint_of("xor")
    for variables, message in [(["X", "X"], "name each once"), ([], "at least one"), (["Q"], "Q is not in the table")]:
        with pytest.raises(ValueError, match=message):
            IDiagram.from_joint(joint, variables)
    belief = PredictiveJoint(torch.full((2, 3, 2), 0.5).log())
    with pytest.raises(ValueError, match="PredictiveJoint does not say its variables"):
        IDiagram.from_joint(belief)
    with pytest.raises(ValueError, match="name points, as in Y1"):
        IDiagram.from_joint(belief, ["Y", "Omega"])


def test_text_marks_what_is_negative_and_what_is_meant():
    text = IDiagram.from_joint(joint_of("xor")).render("text", highlight="I[X;Y]")
    lines = text.splitlines()
    assert [line for line in lines if "negative" in line] == [line for line in lines if "I[X; Y; Z]" in line]
    assert [line.split("  ")[0] for line in lines if line.startswith("*")] == [
        "* I[X; Y | Z]",
        "* I[X; Y; Z]",
        "* I[X; Y]",
    ]
    assert lines[-1].split() == ["H[X,", "Y,", "Z]", "1.386294", "nats"]


# --- geometry ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_areas_of_parts_agree_with_throwing_points(seed):
    rng = np.random.default_rng(seed)
    names = "ABCD"[: 2 + seed % 3]
    curves = {name: Ellipse(*rng.uniform(-1, 1, 2), *rng.uniform(0.4, 1.4, 2), rng.uniform(0, 3)) for name in names}
    x, y = rng.uniform(-2.6, 2.6, (2, 1_000_000))
    inside = {}
    for name, curve in curves.items():
        turn = np.array([[np.cos(curve.angle), np.sin(curve.angle)], [-np.sin(curve.angle), np.cos(curve.angle)]])
        right, up = turn @ np.stack([x - curve.x, y - curve.y])
        inside[name] = (right / curve.a) ** 2 + (up / curve.b) ** 2 < 1
    areas = part_areas(curves, parts_of(names))
    for part, area in areas.items():
        hits = np.all([inside[name] == (name in part) for name in names], axis=0)
        assert area == pytest.approx(hits.mean() * 5.2**2, abs=0.03)
    for name, curve in curves.items():
        whole = sum(area for part, area in areas.items() if name in part)
        assert whole == pytest.approx(math.pi * curve.a * curve.b, rel=2e-3)


def test_a_circle_within_apart_from_and_on_another():
    def areas(*circles):
        found = part_areas(
            {name: Ellipse(x, 0, r, r) for name, (x, r) in zip("AB", circles, strict=True)}, parts_of("AB")
        )
        return [found[frozenset(part)] / math.pi for part in ("A", "B", "AB")]

    assert areas((0, 2), (0.3, 1)) == pytest.approx([3, 0, 1], abs=0.01)
    assert areas((0, 1), (0, 1)) == pytest.approx([0, 0, 1], abs=0.01)
    assert areas((0, 1), (5, 1)) == pytest.approx([1, 1, 0], abs=0.01)


@settings(deadline=None)
@given(r=st.floats(0.1, 5), s=st.floats(0.1, 5), share=st.floats(0.001, 0.999))
def test_the_distance_gives_the_overlap(r, s, share):
    area = share * math.pi * min(r, s) ** 2
    low, high = distance_for_overlap(r, s, area)
    assert low == high
    assert overlap_area(r, s, low) == pytest.approx(area, rel=1e-8)
    counted = part_areas({"A": Ellipse(0, 0, r, r), "B": Ellipse(low, 0, s, s)}, [frozenset("AB")])
    assert counted[frozenset("AB")] == pytest.approx(area, abs=0.004 * max(r, s) ** 2)


def test_four_ellipses_make_fifteen_whole_parts():
    from scipy.ndimage import label

    curves = fixed_layout("ABCD")
    x, y = np.meshgrid(np.linspace(-1.5, 1.5, 700), np.linspace(-1.5, 1.5, 700))
    inside = {name: curve.level(x, y) < 1 for name, curve in curves.items()}
    areas = part_areas(curves, parts_of("ABCD"))
    for part, area in areas.items():
        cells = np.all([inside[name] == (name in part) for name in "ABCD"], axis=0)
        pieces = np.bincount(label(cells)[0].ravel())[1:]
        assert (pieces > 20).sum() == 1, part  # a tip may be cut off by the grid
        assert area > 0.02


@settings(deadline=None)
@given(seed=st.integers(0, 10**6))
def test_two_circles_are_to_scale(seed):
    diagram = IDiagram.from_joint(random_joint(seed, "XY", most=4))
    curves, worst = layout("XY", diagram.atoms)
    entropies = [diagram.value("H[X]"), diagram.value("H[Y]")]
    if worst is None:
        assert min(entropies) <= 1e-4 * max(entropies)
        return
    (x, y), distance = (curves[name] for name in "XY"), curves["Y"].x - curves["X"].x
    assert [math.pi * circle.a**2 for circle in (x, y)] == pytest.approx(entropies, abs=1e-9)
    assert overlap_area(x.a, y.a, distance) == pytest.approx(diagram.value("I[X;Y]"), abs=1e-9)
    assert scale_caption(worst, 1.0, "nats") == "Areas are to scale."


def test_three_circles_and_their_overlaps_are_to_scale_where_they_can_be():
    drawn = 0
    for seed in range(50):
        diagram = IDiagram.from_joint(random_joint(seed, "XYZ", zeros=False))
        atoms, total = diagram.atoms, sum(diagram.atoms.values())
        curves, worst = layout("XYZ", atoms)
        if worst is None:
            continue
        drawn += 1
        for name, circle in curves.items():
            assert math.pi * circle.a**2 == pytest.approx(diagram.value(f"H[{name}]"), abs=1e-9)
        for one, other in itertools.combinations("XYZ", 2):
            a, b = curves[one], curves[other]
            overlap = overlap_area(a.a, b.a, math.hypot(a.x - b.x, a.y - b.y))
            assert overlap == pytest.approx(diagram.value(f"I[{one};{other}]"), abs=1e-7)
        areas = part_areas(curves, atoms)
        assert worst == pytest.approx(max(abs(areas[part] - atoms[part]) for part in atoms), abs=1e-7)
        assert worst <= 0.06 * total
        for part, value in atoms.items():  # whatever counts is there to be seen
            assert value < 0.005 * total or areas[part] >= 0.4 * value
    assert drawn > 3


def test_three_circles_that_are_apart_or_inside_another_are_to_scale():
    coin, die = np.array([0.5, 0.5]), np.array([0.2, 0.3, 0.5])
    apart = DiscreteJoint.from_probs("XYZ", np.einsum("i,j,k", coin, die, coin))
    inside = np.zeros((2, 3, 2))
    for x, y, z in itertools.product(range(2), range(3), range(2)):
        inside[x, y, z] = coin[x] * die[y] * (z == (y > 0))  # Z says something about Y and nothing else
    for joint in (apart, DiscreteJoint.from_probs("XYZ", inside)):
        diagram = IDiagram.from_joint(joint)
        curves, worst = layout("XYZ", diagram.atoms)
        assert worst < 0.005 * sum(diagram.atoms.values())
        assert part_areas(curves, diagram.atoms) == pytest.approx(diagram.atoms, abs=0.01)


@pytest.mark.parametrize("case", ["xor", "general_table"])
def test_negative_atoms_are_never_to_scale(case):
    atoms = IDiagram.from_joint(joint_of(case)).atoms
    curves, worst = layout("XYZ", atoms)
    assert worst is None
    assert scale_caption(worst, 1.0, "nats") == "Areas are not to scale."
    assert min(part_areas(curves, atoms).values()) > 0.1


def test_the_least_negative_atom_is_enough():
    negative = 0
    for seed in range(60):
        table = np.random.default_rng(seed).dirichlet(np.full(8, 30.0)).reshape(2, 2, 2)
        atoms = IDiagram.from_joint(DiscreteJoint.from_probs("XYZ", table)).atoms
        if min(atoms.values()) < -1e-5:
            negative += 1
            assert layout("XYZ", atoms)[1] is None
    assert negative > 10


def test_a_middle_that_is_off_is_said():
    atoms = IDiagram.from_joint(DiscreteJoint.from_probs("XYZ", MARKOV)).atoms
    _, worst = layout("XYZ", atoms)
    assert worst == pytest.approx(0.0417, abs=2e-3)
    words = scale_caption(0.0417, sum(atoms.values()), "nats")
    assert words == "Circles and pairwise overlaps are to scale; single parts are off by up to 0.042 nats."


# --- pictures ------------------------------------------------------------------------------------------------------


def readme_diagram():
    spec = importlib.util.spec_from_file_location("i_diagram", PICTURES / "i_diagram.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.diagram(), module.PROBS_N_K_C


def bars_of(case, **options):
    return bars(joint_of(case), "X", "y", at={"y": CASES[case]["inputs"]["at"]["y"]}, **options)


GALLERY = {
    "one": lambda: IDiagram.from_joint(DiscreteJoint.from_counts("X", [1, 2, 3])).figure(),
    "two": lambda: IDiagram.from_joint(random_joint(1, "XY", 4)).figure("I[X;Y]"),
    "same": lambda: IDiagram.from_joint(DiscreteJoint.from_counts("XY", np.eye(3))).figure(),
    "apart": lambda: IDiagram.from_joint(DiscreteJoint.from_counts("XY", np.ones((3, 2)))).figure(),
    "constant": lambda: IDiagram.from_joint(DiscreteJoint.from_counts("XY", [[1, 2]])).figure(),
    "xor": lambda: IDiagram.from_joint(joint_of("xor"), unit="bits").figure("I[X;Y|Z]"),
    "general": lambda: IDiagram.from_joint(joint_of("general_table")).figure("I[X;Y]", title="A title"),
    "markov": lambda: IDiagram.from_joint(DiscreteJoint.from_probs("XYZ", MARKOV)).figure(),
    "weak": lambda: IDiagram.from_joint(
        DiscreteJoint.from_probs("XYZ", np.random.default_rng(7).dirichlet(np.full(8, 30)).reshape(2, 2, 2))
    ).figure(),
    "words": lambda: IDiagram.from_joint(random_joint(8, ["Weather", "Humidity_out", "Wind"])).figure(),
    "four": lambda: IDiagram.from_joint(random_joint(3, "ABCD")).figure("I[A;B|C]"),
    "four words": lambda: IDiagram.from_joint(random_joint(4, ["Y1", "Y2", "Y3", "Omega"])).figure(),
    "gaussian": lambda: IDiagram.from_joint(GaussianJoint([0, 0], [[0.01, 0.005], [0.005, 0.02]], "XY")).figure(),
    "readme": lambda: readme_diagram()[0].figure("I[Y1,Y2;Omega]"),
    "bars": lambda: bars(random_joint(1, "XY", 4), "X", "Y").figure(),
    "bars same": lambda: bars(DiscreteJoint.from_counts("XY", np.eye(2)), "X", "Y").figure("I[X;Y]"),
    "bars negative": lambda: bars_of("negative_information_gain").figure("I[X;y]"),
    "bars general": lambda: bars_of("general_table", unit="bits").figure(),
    "bars gaussian": lambda: bars(
        GaussianJoint([0, 0], [[0.02, 0.009], [0.009, 0.0075]], "XY"), "X", "y", at={"y": 0.1}
    ).figure(),
}


@functools.cache
def picture(name):
    """The picture of that name, drawn once for all tests."""
    return GALLERY[name]()


def boxes_of(figure):
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    renderer = FigureCanvasAgg(figure).get_renderer()
    texts = [text for text in figure.axes[0].texts if text.get_text()]
    return {
        (number, text.get_text()): text.get_window_extent(renderer).transformed(figure.dpi_scale_trans.inverted())
        for number, text in enumerate(texts)
    }


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name == "four" else name for name in GALLERY]
)
def test_every_text_is_on_the_page_and_none_covers_another(name):
    figure = picture(name)
    width, height = figure.get_size_inches()
    assert width == pytest.approx(7.2)
    assert height < 6
    boxes = boxes_of(figure)
    for (_, text), box in boxes.items():
        assert box.x0 > 0, text
        assert box.x1 < width, text
        assert box.y0 > 0, text
        assert box.y1 < height, text
    for (one, first), (other, second) in itertools.combinations(boxes.items(), 2):
        across = min(first.x1, second.x1) - max(first.x0, second.x0)
        up = min(first.y1, second.y1) - max(first.y0, second.y0)
        assert min(across, up) < 0.06, (one, other)


def shoelace(loop):
    x, y = loop.T
    return 0.5 * float(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1)))


def test_labels_stand_in_their_parts():
    for seed in range(2):
        diagram = IDiagram.from_joint(random_joint(seed, "XYZ"))
        figure = diagram.figure()
        ovals = [patch for patch in figure.axes[0].patches if type(patch).__name__ == "Ellipse"]
        shown = {text.get_text(): text.get_position() for text in figure.axes[0].texts if text.get_size() == 8.0}
        for part in diagram.atoms:
            name = figures.quantity_text(diagram.expression(part))
            if name in shown:
                inside = {
                    variable
                    for variable, oval in zip("XYZ", ovals, strict=True)
                    if np.hypot(*(np.array(shown[name]) - oval.center) / [oval.width, oval.height]) < 0.5
                }
                assert inside == part
        assert shown


def texts_of(figure):
    return [text.get_text() for text in figure.axes[0].texts]


def test_a_picture_shows_values_names_and_unit():
    figure = picture("xor")
    texts = texts_of(figure)
    assert texts.count("1.000") == 3
    assert texts.count("0.000") == 3
    assert texts.count("−1.000") == 1
    assert r"$\mathrm{I}[X; Y; Z]$" in texts
    assert r"$\mathrm{H}[X]$ = 1.000" in texts
    assert r"$\mathrm{I}[X; Y \mid Z]$ = 1.000 bits" in texts
    assert any("Hatched: negative" in text and "not to scale" in text and "bits" in text for text in texts)
    (negative,) = [text for text in figure.axes[0].texts if text.get_text() == "−1.000"]
    assert negative.get_color() == figures.NEGATIVE
    hatched = [patch for patch in figure.axes[0].patches if patch.get_hatch()]
    assert len(hatched) == 1
    middle = hatched[0].get_path().vertices.mean(0)
    assert np.hypot(*(middle - np.mean([label.get_position() for label in names_of(figure)], 0))) < 1


def names_of(figure):
    return [text for text in figure.axes[0].texts if text.get_bbox_patch() is not None]


@pytest.mark.parametrize("seed", [1, 5])
def test_areas_on_paper_are_to_scale(seed):
    """Measured from the drawn patches themselves, as ratios to the whole."""
    diagram = IDiagram.from_joint(random_joint(seed, "XY", 4))
    figure = diagram.figure()
    filled = [patch for patch in figure.axes[0].patches if patch.get_facecolor()[3] == 1 and not patch.get_hatch()]
    drawn = sorted(
        abs(sum(shoelace(polygon) for polygon in patch.get_path().to_polygons(closed_only=True)))
        for patch in filled
        if type(patch).__name__ == "PathPatch"
    )
    values = sorted(diagram.atoms.values())
    assert len(drawn) == 3
    assert np.array(drawn) / sum(drawn) == pytest.approx(np.array(values) / sum(values), abs=2e-3)
    assert any("Areas are to scale." in text for text in texts_of(figure))


def test_what_has_no_area_is_said_and_what_has_no_room_is_listed():
    table = np.random.default_rng(10).dirichlet(np.full(8, 10.0)).reshape(2, 2, 2)
    diagram = IDiagram.from_joint(DiscreteJoint.from_probs("XYZ", table))
    assert 5e-4 < diagram.atoms[frozenset("XYZ")] < 2e-3
    assert r"Without an area: $\mathrm{I}[X; Y; Z]$ = 0.001." in texts_of(diagram.figure())
    independent = IDiagram.from_joint(DiscreteJoint.from_counts("XY", np.ones((2, 3))))
    assert r"Without an area: $\mathrm{I}[X; Y]$ = 0.000." in texts_of(independent.figure())
    words = IDiagram.from_joint(random_joint(8, ["Weather", "Humidity_out", "Wind"]))
    texts = texts_of(picture("words"))
    for part, value in words.atoms.items():
        assert figures.quantity_text(words.expression(part)) in texts
        assert figures.number_text(value) in texts


def test_the_highlighted_region_is_outlined():
    diagram = IDiagram.from_joint(joint_of("general_table"))

    def thick(figure):
        return [patch for patch in figure.axes[0].patches if patch.get_linewidth() > 2.5]

    assert thick(picture("markov")) == []
    (outline,) = thick(picture("general"))
    (inner,) = thick(diagram.figure("I[X;Y|Z]"))

    def area(patch):
        return sum(shoelace(polygon) for polygon in patch.get_path().to_polygons(closed_only=True))

    areas = part_areas(fixed_layout("XYZ"), diagram.atoms)
    ratio = (areas[frozenset("XY")] + areas[frozenset("XYZ")]) / areas[frozenset("XY")]
    assert area(outline) / area(inner) == pytest.approx(ratio, rel=1e-2)


class Drawn(figures.Picture):
    """A figure that is there already."""

    def __init__(self, figure):
        self.drawn = figure

    def figure(self, highlight=None, title=None):
        return self.drawn

    def table(self, highlight=None):
        return ""


def rendered(figure):
    return Drawn(figure).render("svg")


@pytest.mark.parametrize("name", ["xor", pytest.param("four", marks=pytest.mark.slow), "readme", "bars negative"])
def test_svg_is_well_formed_small_and_the_same_every_time(name):
    first, second = rendered(picture(name)), rendered(GALLERY[name]())
    assert first == second
    assert len(first.encode()) < 110_000
    root = ElementTree.fromstring(first)
    assert root.tag.endswith("svg")
    width, height = (float(root.attrib[side].removesuffix("pt")) / 72 for side in ("width", "height"))
    assert (width, height) == pytest.approx(tuple(picture(name).get_size_inches()), abs=1e-3)
    assert "<text" not in first  # letters are drawn, so that every reader sees the same


def test_kinds_and_files(tmp_path):
    diagram = IDiagram.from_joint(DiscreteJoint.from_counts("XY", [[3, 1], [0, 4]]))
    assert diagram.render("pdf").startswith(b"%PDF")
    assert diagram._repr_svg_() == diagram.render("svg")
    assert diagram._repr_png_().startswith(b"\x89PNG")
    chart = bars_of("negative_information_gain")
    assert chart._repr_svg_().startswith("<?xml")
    diagram.save(tmp_path / "d.svg", highlight="I[X;Y]")
    assert (tmp_path / "d.svg").read_text() == diagram.render("svg", highlight="I[X;Y]")
    chart.save(tmp_path / "b.png")
    assert (tmp_path / "b.png").read_bytes().startswith(b"\x89PNG")
    for call in (lambda: diagram.render("gif"), lambda: diagram.save(tmp_path / "d.gif")):
        with pytest.raises(ValueError, match=r"gif|\.svg, \.png or \.pdf"):
            call()
    with pytest.raises(ValueError, match="there is no folder"):
        diagram.save(tmp_path / "no" / "d.svg")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.png", "d.svg"]


def test_without_matplotlib_the_extra_is_named_and_notebooks_show_text(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    for module in ("matplotlib.mathtext", "matplotlib.textpath"):
        monkeypatch.setitem(sys.modules, module, None)
    diagram = IDiagram.from_joint(DiscreteJoint.from_counts("PQ", [[3, 1], [0, 4]]))
    for picture in (diagram, bars(DiscreteJoint.from_counts("PQ", [[3, 1], [0, 4]]), "P", "Q")):
        with pytest.raises(ImportError, match=r"pip install 'natsel\[plot\]'"):
            picture.render("svg")
        assert picture._repr_svg_() is None
        assert picture._repr_png_() is None
        assert picture.render("text")


def test_the_picture_of_the_readme():
    diagram, probs = readme_diagram()
    log_probs_N_K_C = torch.tensor(probs, dtype=torch.float64).log()
    assert diagram.value("I[Y1,Y2;Omega]") == pytest.approx(float(joint_mutual_information(log_probs_N_K_C)), abs=1e-10)
    assert diagram.removable("I[Y1;Y2|Omega]")
    curves, _ = layout(diagram.variables, diagram.atoms)
    assert part_areas(curves, diagram.atoms) == pytest.approx(diagram.atoms, abs=3e-3)
    texts = texts_of(picture("readme"))
    assert any("Areas are to scale." in text for text in texts)
    for part, value in diagram.atoms.items():  # every label has room, so that the picture needs no list
        assert value < 1e-9 or figures.quantity_text(diagram.expression(part)) in texts
    stored = (PICTURES / "i-diagram.svg").read_bytes()
    assert len(stored) < 100_000
    assert ElementTree.fromstring(stored).tag.endswith("svg")


# --- bars ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", ["negative_information_gain", "general_table"])
def test_golden_bars(case):
    values = {text.replace(" ", ""): value for text, value in bars_of(case).values.items()}
    assert len(values) == 8
    expected = CASES[case]["expected"]
    shared = [text for text in values if text in expected]
    assert len(shared) >= 6
    assert {text: values[text] for text in shared} == pytest.approx(
        {text: expected[text] for text in shared}, abs=1e-12
    )


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_bars_lie_where_the_relations_put_them(seed):
    joint = random_joint(seed, "XY", 4, zeros=False)
    chart = bars(joint, "X", "y", at={"y": 0})
    end = {name.replace(" ", ""): bar.end for row in chart.rows for bar in row for name in [str(bar.expression)]}
    value = {name.replace(" ", ""): value for name, value in chart.values.items()}
    close = {"abs": 1e-10}
    assert end["H[y]"] == pytest.approx(value["H[X,y]"], **close)
    assert end["H[y|X]"] == pytest.approx(value["H[X,y]"], **close)
    assert end["I[y;X]"] == pytest.approx(value["E_{p(x|y)}[H[x]]"], **close)
    assert end["I[X;y]"] == pytest.approx(value["H[X]"], **close)
    for name, number in value.items():
        assert number == pytest.approx(evaluate(name, joint, at={"y": 0}).value, **close)
    both = bars(joint, "X", "Y")
    assert set(both.values) == {"H[X, Y]", "H[X]", "H[Y | X]", "H[X | Y]", "H[Y]", "I[X; Y]"}
    ends = {str(bar.expression): bar.end for row in both.rows for bar in row}
    assert [ends["H[Y]"], ends["H[Y | X]"]] == pytest.approx([both.values["H[X, Y]"]] * 2, **close)
    assert ends["I[X; Y]"] == pytest.approx(both.values["H[X]"], **close)


def test_a_negative_gain_runs_to_the_left_and_is_hatched():
    chart = bars_of("negative_information_gain")
    (gain,) = [bar for row in chart.rows for bar in row if bar.word == "information gain"]
    assert gain.end < gain.start
    figure = chart.figure("I[X;y]")
    assert len([patch for patch in figure.axes[0].patches if patch.get_hatch()]) == 1
    (label,) = [text for text in figure.axes[0].texts if "information gain" in text.get_text()]
    assert "−0.495" in label.get_text()
    assert label.get_color() == figures.NEGATIVE
    assert any("y = 1" in text for text in texts_of(figure))


def test_bars_of_groups_and_given_outcomes():
    joint = random_joint(2, "ABC", zeros=False)
    chart = bars(joint, "A,B", "C=1")
    assert chart.values["I[A, B; C=1]"] == pytest.approx(evaluate("I[A,B;C=1]", joint).value)
    given_c = bars(joint, "A", "b", at={"b": 1, "c": 0}, given=parse("H[c]").of)
    assert given_c.values["I[A; b | c]"] == pytest.approx(evaluate("I[A;b|c]", joint, at={"b": 1, "c": 0}).value)
    assert given_c.rows[1][-1].end == pytest.approx(given_c.values["H[A, b | c]"])


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("x", "Y"), {"at": {"x": 0}}, "x: expected variables, found the outcome x"),
        (("X", "Y,z"), {"at": {"z": 0}}, "y: expected variables or outcomes, found both"),
        (("X", "Y|Z"), {}, "y: expected variables or outcomes, found 'Y|Z'"),
        (("X", "y"), {"at": {"y": 1}, "given": parse("H[Z]").of}, "given: expected outcomes, found the variable Z"),
        (("X", "y"), {"at": {"y": [0, 1]}}, "one outcome at a time"),
    ],
)
def test_bars_that_cannot_be_are_refused(arguments, options, message):
    with pytest.raises(ValueError, match=message.replace("|", r"\|")):
        bars(joint_of("general_table"), *arguments, **options)


# --- which picture --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "variables"),
    [("I[Z;X]", ("X", "Z")), ("H[Y]", ("Y",)), ("TC[X;Y;Z] - H[X]", ("X", "Y", "Z")), ("I[X;Y|Z]", ("X", "Y", "Z"))],
)
def test_variables_alone_get_an_i_diagram(text, variables):
    joint = joint_of("general_table")
    diagram, _ = diagram_for(parse(text), joint)
    assert isinstance(diagram, IDiagram)
    assert diagram.variables == variables
    assert diagram.value(text) == pytest.approx(evaluate(text, joint).value, abs=1e-12)


@pytest.mark.parametrize(
    "text",
    ["I[X;y]", "I[y;X]", "H[X|y]", "H[y|X]", "H[X,y]", "I[X;y,z]", "I[y;X|z]", "E_{p(x|y)}[H[x]]", "I[X,Z;Y=2]"],
)
def test_one_group_of_outcomes_gets_bars_with_the_quantity_in_them(text):
    joint, at = joint_of("general_table"), {"y": 2, "z": 0}
    chart, quantity = diagram_for(parse(text), joint, at={name: at[name] for name in at if name in text})
    assert isinstance(chart, Bars)
    assert chart.values[str(quantity)] == pytest.approx(evaluate(text, joint, at=at).value, abs=1e-12)
    thick = [patch for patch in chart.figure(quantity).axes[0].patches if patch.get_linewidth() > 2.5]
    assert len(thick) == 1


@pytest.mark.parametrize("text", ["I[X;Y;z]", "H[y]", "I[x;y]", "I[X;y|Z]", "I[X;y] + H[X]", "I[X,z;y]"])
def test_other_mixtures_have_no_diagram(text):
    with pytest.raises(ValueError, match="has no diagram: variables alone have one"):
        diagram_of(text, joint_of("general_table"), at={"x": 0, "y": 1, "z": 0})


def test_a_belief_is_drawn_without_its_context(tmp_path):
    log_probs = torch.tensor(readme_diagram()[1], dtype=torch.float64).log()
    belief = PredictiveJoint(log_probs)
    diagram, quantity = diagram_for(parse("I[Y1,Y2;W|x1,x2,D]"), belief)
    assert set(diagram.variables) == {"Y1", "Y2", "Omega"}
    assert str(quantity) == "I[Y1, Y2; Omega]"
    figure = diagram_of("I[Y1,Y2;W|x1,x2,D]", belief, path=tmp_path / "b.svg", unit="bits")
    value = float(joint_mutual_information(log_probs)) / math.log(2)
    assert any(text.endswith(f"= {value:.3f} bits") for text in texts_of(figure))
    assert ElementTree.fromstring((tmp_path / "b.svg").read_bytes()) is not None
    gain, _ = diagram_for(parse("I[Omega;y1|x1]"), belief, at={"y1": 2})
    assert gain.values["I[Omega; y1]"] == pytest.approx(evaluate("I[Omega;y1|x1]", belief, at={"y1": 2}).value)


def test_bars_as_text_refuse_a_highlight_that_they_would_not_show():
    shown = bars(joint_of("xor"), "X", "Y")
    with pytest.raises(ValueError, match=r"^highlight: a text sets nothing off; show svg, or leave it out$"):
        shown.render("text", highlight="I[X;Y]")
    assert shown.render("svg", highlight="I[X;Y]") != shown.render("svg")
