import struct
import xml.etree.ElementTree as ElementTree
import zlib
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from natsel.evaluation import bands
from natsel.experiments.report.bars import duration, histogram, split, stages
from natsel.experiments.report.charts import Axes, Frame, Line, chart, small_chart, ticks
from natsel.experiments.report.png import png, shrunk


def decoded(content):
    """The pixels of a PNG, read with nothing of ours."""
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(content):
        length, name = struct.unpack(">I4s", content[at : at + 8])
        body = content[at + 8 : at + 8 + length]
        assert struct.unpack(">I", content[at + 8 + length : at + 12 + length])[0] == zlib.crc32(name + body)
        chunks[name], at = body, at + 12 + length
    assert list(chunks) == [b"IHDR", b"IDAT", b"IEND"]
    width, height, depth, colour = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    assert depth == 8
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), dtype=np.uint8).reshape(height, -1)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape((height, width) if colour == 0 else (height, width, 3))


@pytest.mark.parametrize("shape", [(1, 1), (8, 8), (5, 9), (4, 6, 3), (28, 28, 1)])
def test_png_keeps_every_pixel(shape):
    pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    assert np.array_equal(decoded(png(pixels)), pixels.reshape(decoded(png(pixels)).shape))
    turned = np.moveaxis(pixels, 0, 1)  # not contiguous
    assert np.array_equal(decoded(png(turned)).ravel(), turned.ravel())


def test_png_opens_elsewhere():
    image = pytest.importorskip("PIL.Image", reason="needs the extra images")
    from io import BytesIO

    pixels = np.random.default_rng(1).integers(0, 256, (6, 7, 3), dtype=np.uint8)
    assert np.array_equal(np.asarray(image.open(BytesIO(png(pixels)))), pixels)


@pytest.mark.parametrize(
    "pixels", [np.zeros((2, 2)), np.zeros((2, 2, 4), np.uint8), np.zeros((0, 2), np.uint8), np.zeros(4, np.uint8)]
)
def test_png_refuses_what_is_no_picture(pixels):
    with pytest.raises(ValueError, match="pixels: expected uint8"):
        png(pixels)


def test_shrunk_pictures_keep_their_brightness():
    pixels = np.random.default_rng(0).integers(0, 256, (224, 160, 3), dtype=np.uint8)
    small = shrunk(pixels, 64)
    assert small.shape == (56, 40, 3)
    assert abs(small.mean() - pixels.mean()) < 1
    assert shrunk(pixels[:64, :64], 64).shape == (64, 64, 3)
    assert max(shrunk(pixels[:, :1], 64).shape) <= 64


@settings(max_examples=100, deadline=None)
@given(st.floats(-1e4, 1e4), st.floats(1e-3, 1e4), st.integers(2, 9))
def test_ticks_are_few_round_and_inside(low, length, about):
    found = ticks(low, low + length, about)
    assert 1 <= len(found) <= 2 * about + 1
    assert all(
        low - 1e-6 * length - 1e-9 * abs(low) <= tick <= low + length * (1 + 1e-6) + 1e-9 * abs(low) for tick in found
    )
    steps = {float(f"{after - before:.6g}") for before, after in pairwise(found)}
    assert all(f"{step:e}"[0] in "1259" for step in steps) or len(steps) > 1  # 9: 0.999… after rounding


def lines():
    one = [([10, 20, 30], [0.5, 0.7, 0.9]), ([10, 20], [0.6, 0.8])]
    return [Line("random", None, bands(one)), Line("a<b>&", 0, bands(one), one)]


AXES = Axes("labels", "accuracy (%)", lambda value: f"{100 * value:.0f}", [(0.8, "target 80 %")])


@pytest.mark.parametrize("draw", [chart, small_chart])
def test_charts_are_well_formed_and_speak(draw):
    text = draw(lines(), AXES, "random and a<b>& over labels")
    root = ElementTree.fromstring(f"<x>{text}</x>")
    drawings = root.findall("svg")
    assert len(drawings) == (2 if draw is chart else 1)
    for drawing in drawings:
        assert drawing.get("role") == "img"
        assert drawing.get("aria-label") == "random and a<b>& over labels"


def test_lines_stand_where_their_values_are():
    root = ElementTree.fromstring(f"<x>{small_chart(lines(), AXES, 'x')}</x>")
    path = next(p for p in root.iter("path") if p.get("class") == "line m0 p-0")
    places = [tuple(map(float, pair.split(","))) for pair in path.get("d")[1:].split("L")]
    assert len(places) == 2  # up to 20 labels both runs were measured …
    dotted = next(p for p in root.iter("path") if p.get("class") == "line part m0 p-0")
    assert len(dotted.get("d").split("L")) == 2  # … and from there one of them
    (x10, y10), (x20, y20) = places
    assert x10 < x20
    assert y10 > y20  # medians 0.55, 0.75: up is less
    labels = {t.text: float(t.get("y")) for t in root.iter("text") if t.get("text-anchor") == "end"}
    scale = (labels["80"] - labels["60"]) / 0.2
    assert y10 - y20 == pytest.approx(-0.2 * scale, abs=0.2)


def test_a_frame_maps_corners_to_corners():
    frame = Frame((0, 10), (0, 1), 100, 50, (1, 2, 3, 4))
    assert frame.at(0, 0) == (4, 47)
    assert frame.at(10, 1) == (98, 1)


def test_charts_of_little():
    assert "Nothing has been measured" in chart([], AXES, "x")
    one = bands([([10], [0.5])])
    assert "nan" not in chart([Line("a", 0, one)], AXES, "x")
    flat = bands([([10, 20], [0.0, 0.0])])
    assert "nan" not in chart([Line("a", 0, flat)], AXES, "x")


def test_names_at_the_ends_keep_apart():
    same = bands([([10, 20], [0.5, 0.5001])])
    root = ElementTree.fromstring(f"<x>{chart([Line(str(n), n, same) for n in range(6)], AXES, 'x')}</x>")
    heights = sorted(float(t.get("y")) for t in root.iter("text") if t.get("class") == "end")
    assert len(heights) == 6
    assert min(b - a for a, b in pairwise(heights)) >= 16.9
    assert heights[0] > 0
    assert heights[-1] < 430


def test_histograms_name_classes_or_sort_them():
    few = histogram(np.array([1.0, 3.0]), ["no", "yes"], 0, 3.0, "x")
    assert few.index(">no<") < few.index(">yes<")
    many = ElementTree.fromstring(histogram(np.arange(40.0), [f"class {n}" for n in range(40)], 0, 39.0, "x"))
    titles = [title.text for title in many.iter("title")]
    assert titles[0] == "class 39: 39"
    heights = [float(bar.get("height")) for bar in many.iter("rect")]
    assert heights == sorted(heights, reverse=True)
    ElementTree.fromstring(histogram(np.zeros(2), ["a", "<"], None, 0.0, "<"))


def test_bars_never_leave_their_box():
    assert "100.0%" in split(1.0, 1.0, 1.0)
    assert "width:-" not in split(-1e-9, 1.0, 1.0)
    assert stages({"fit": 1.0, "select": 0.0}, ["fit", "select"], 1.0).count("<i") == 1
    assert duration(59.99) == "60 s"
    assert duration(0) == "0 ms"


def test_small_charts_share_a_scale_when_told():
    low, high = (Line("a", 0, bands([([10, 20], values)])) for values in ([0.1, 0.2], [0.8, 0.9]))
    alone, together = (small_chart([low], AXES, "x", scale=scale) for scale in ((), [low, high]))
    assert ">80<" not in alone
    assert ">80<" in together
