"""How a method is recognised wherever it appears: by a colour, a shape and a name, never by colour alone.

Colours are classes of the style sheet, so that one drawing serves light, dark and print: `m0` to `m5` in the order of
methods, `base` for the baseline; after six they return, dashed. `p-0`, `p-1`, … name the method itself, by which the
page lets readers hide it.
"""

SHAPES = (
    "M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0z",  # circle
    "M-3.5,-3.5h7v7h-7z",  # square
    "M0,-4.6L4.4,3.4H-4.4z",  # triangle
    "M0,-4.8L4.8,0L0,4.8L-4.8,0z",  # diamond
    "M0,4.6L4.4,-3.4H-4.4z",  # triangle on its tip
    "M-1.5,-4.5h3v3h3v3h-3v3h-3v-3h-3v-3h3z",  # cross
)
_DASH = "M-4,-1.2h8v2.4h-8z"


def style(place: int | None) -> str:
    """The classes of a method: its place among the methods, None for the baseline.

    >>> style(None), style(1), style(7)
    ('base p-base', 'm1 p-1', 'm1 p-7 again')
    """
    if place is None:
        return "base p-base"
    return f"m{place % len(SHAPES)} p-{place}" + (" again" if place >= len(SHAPES) else "")


def marker(place: int | None, x: float, y: float) -> str:
    """A method's shape, centred at a point.

    >>> marker(None, 1, 2)
    '<path class="mark base p-base" transform="translate(1.0,2.0)" d="M-4,-1.2h8v2.4h-8z"/>'
    """
    shape = _DASH if place is None else SHAPES[place % len(SHAPES)]
    return f'<path class="mark {style(place)}" transform="translate({x:.1f},{y:.1f})" d="{shape}"/>'


def key(place: int | None) -> str:
    """The piece of line with its shape that stands beside a method's name.

    >>> key(0).startswith("<svg")
    True
    """
    return (
        f'<svg class="key {style(place)}" viewBox="0 0 28 12" width="28" height="12" aria-hidden="true">'
        f'<path class="line {style(place)}" d="M1,6H27"/>{"" if place is None else marker(place, 14, 6)}</svg>'
    )


def short(name: str, most: int = 16) -> str:
    """A name that fits.

    >>> short("a-rather-long-method", 9)
    'a-rather…'
    """
    return name if len(name) <= most else name[: most - 1] + "…"
