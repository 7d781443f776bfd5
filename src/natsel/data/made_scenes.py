"""Made pictures with a class per pixel: known shapes with uncertain borders, and shapes that no class was made for.

A picture shows discs, squares and triangles on a dark background (classes 1, 2, 3 and 0). The border of a shape is a
band: with d the distance of a pixel to the border, positive inside, the shape covers the pixel with

    a = clip(1/2 + d / width, 0, 1),

the colour is mixed by a, and the label is the shape with probability a. Shapes are painted one over the other:

    p ← (1 − a) p + a · onehot(shape)      the true distribution of the label of each pixel

Labels are drawn as people draw borders: for each shape one u ~ U(0, 1), and its label goes where a > u. Every pixel has
exactly the distribution p; neighbours agree. Crosses are of an unknown kind: they have no class. Where one covers a
pixel at all, the label is −1 and p is NaN; where it covers most of it, the pixel is unknown.
"""

import numpy as np

from natsel.data.examples import Examples
from natsel.data.labels import Array
from natsel.seeds import derive

CLASSES = ("background", "disc", "square", "triangle")
_COLOURS = np.array([[40, 40, 40], [200, 70, 60], [70, 190, 80], [70, 90, 210], [200, 190, 60]], dtype=np.float64)
_CROSS = 4


def made_scenes(
    count: int = 500,
    size: int = 32,
    shapes: int = 3,
    unknown_shapes: int = 0,
    border_width: float = 4.0,
    seed: int = 0,
) -> Examples:
    """Colour pictures uint8 [N, size, size, 3] with labels [N, size, size].

    Every picture has `shapes` shapes of random known classes, then `unknown_shapes` crosses. The mask `label_probs`
    [N, size, size, 4] holds the true distribution of each label, `unknown` [N, size, size] marks the pixels of
    which a cross covers more than half.

    >>> scenes = made_scenes(2, unknown_shapes=1)
    >>> scenes.inputs.shape, scenes.labels.shape, scenes.masks["label_probs"].shape
    ((2, 32, 32, 3), (2, 32, 32), (2, 32, 32, 4))
    """
    if size < 8 or count < 0 or shapes < 0 or unknown_shapes < 0 or not border_width > 0:
        raise ValueError(
            "count, size, shapes, border_width: expected 0 or more pictures of 8 pixels or more, 0 or more shapes and a"
            f" width above 0, found {count}, {size}, {shapes} and {unknown_shapes}, {border_width}; change them"
        )
    generator = np.random.default_rng(derive(seed, "made-scenes"))
    C = len(CLASSES)
    colour = np.broadcast_to(_COLOURS[0], (count, size, size, 3)).copy()
    probs = np.zeros((count, size, size, C))
    probs[..., 0] = 1.0
    labels = np.zeros((count, size, size), dtype=np.int64)
    unknown, touched = np.zeros((2, count, size, size), dtype=bool)
    for number in range(shapes + unknown_shapes):
        is_cross = number >= shapes
        kind_N = np.full(count, _CROSS) if is_cross else generator.integers(1, C, size=count)
        distance = _distance(kind_N, size, generator)
        cover = (0.5 + distance / border_width).clip(0, 1)
        shade_N_3 = _COLOURS[kind_N] + generator.normal(0, 15, size=(count, 3))
        colour += cover[..., None] * (shade_N_3[:, None, None] - colour)
        if is_cross:
            unknown |= cover > 0.5
            touched |= cover > 0
        else:
            probs += cover[..., None] * (np.eye(C)[kind_N][:, None, None] - probs)
            drawn = cover > generator.uniform(size=(count, 1, 1))
            labels = np.where(drawn, kind_N[:, None, None], labels)
    labels[touched] = -1
    probs[touched] = np.nan
    pictures = (colour + generator.normal(0, 8, size=colour.shape)).round().clip(0, 255).astype(np.uint8)
    return Examples(pictures, labels, CLASSES, {"label_probs": probs, "unknown": unknown})


def _distance(kind_N: Array, size: int, generator: np.random.Generator) -> Array:
    """How far each pixel lies inside (above 0) or outside a shape at a random place, [N, size, size]."""
    count = len(kind_N)
    radius_N = size * generator.uniform(0.14, 0.24, size=count)
    centre_N_2 = generator.uniform(0.2 * size, 0.8 * size, size=(count, 2))
    angle_N = generator.uniform(0, 2 * np.pi, size=count)
    steps = np.arange(size) + 0.5
    up, along = (steps[None, :, None] - centre_N_2[:, 0, None, None], steps[None, None] - centre_N_2[:, 1, None, None])
    cosine, sine = np.cos(angle_N)[:, None, None], np.sin(angle_N)[:, None, None]
    x, y, r = cosine * along - sine * up, sine * along + cosine * up, radius_N[:, None, None]
    distances = {
        1: r - np.hypot(x, y),
        2: 0.9 * r - np.maximum(np.abs(x), np.abs(y)),
        3: 0.6 * r - np.maximum(y, np.maximum(np.sqrt(3) * x - y, -np.sqrt(3) * x - y) / 2),
        _CROSS: np.maximum(
            np.minimum(1.2 * r - np.abs(x), 0.35 * r - np.abs(y)), np.minimum(1.2 * r - np.abs(y), 0.35 * r - np.abs(x))
        ),
    }
    kinds = kind_N[:, None, None]
    return np.select([kinds == kind for kind in distances], list(distances.values()))
