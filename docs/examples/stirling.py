"""The picture of docs/examples/stirling.md: ln (N over r), its bound by an entropy, and the gap between the two.

Run it with a path, or without one to renew the picture beside the page:

    python docs/examples/stirling.py stirling.svg
"""

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from natsel.calculus.binomial import log_binomial, log_binomial_gap, log_binomial_upper_bound

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FLIPS = 40
PICTURE = Path(__file__).resolve().parents[1] / "pictures" / "stirling.svg"
# Blue and vermilion are told apart by everybody, and in grey.
BLUE, VERMILION, GREY = "#0072B2", "#D55E00", "#595959"


def draw() -> "Figure":
    """Two panels over r: the logarithm under its bound; the gap with its leading term and its ceiling."""
    from matplotlib.figure import Figure

    heads = torch.arange(FLIPS + 1)
    exact, bound, gap = (work(FLIPS, heads) for work in (log_binomial, log_binomial_upper_bound, log_binomial_gap))
    fine = torch.linspace(0.25, FLIPS - 0.25, 400, dtype=torch.float64)
    leading = 0.5 * (2 * math.pi * fine * (FLIPS - fine) / FLIPS).log()

    figure = Figure(figsize=(9, 3.9), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.fill_between(heads, exact, bound, color=VERMILION, alpha=0.25, linewidth=0)
    left.plot(heads, bound, color=VERMILION, linewidth=1.8, linestyle="--", gid="bound")
    left.plot(heads, exact, color=BLUE, linewidth=1.8, marker="o", markersize=3, gid="exact")
    left.annotate(
        "H[B, r], the bound", (9, float(bound[9])), (0.5, 26.3), color=VERMILION, arrowprops=_arrow(VERMILION)
    )
    left.annotate("ln (N over r) = H[B | r]", (8, float(exact[8])), (11, 11), color=BLUE, arrowprops=_arrow(BLUE))
    middle = FLIPS // 2
    between = (float(exact[middle]) + float(bound[middle])) / 2
    left.annotate("gap H[r]", (middle, between), (16.5, 19), color=GREY, arrowprops=_arrow(GREY))
    left.set_title(f"ln (N over r) for N = {FLIPS}, at most an entropy", fontsize=10.5)
    left.set_ylabel("nats")

    ceiling = math.log(FLIPS + 1)
    right.axhline(ceiling, color=GREY, linewidth=1, linestyle=":")
    right.text(middle, ceiling - 0.06, f"ln(N + 1) = {ceiling:.2f}, never more", ha="center", va="top", color=GREY)
    right.plot(fine, leading, color=BLUE, linewidth=1.8, gid="leading")
    right.plot(heads, gap, color=VERMILION, linestyle="none", marker="o", markersize=4, gid="gap")
    right.annotate("gap H[r]", (0, 0), (3.2, 0.1), color=VERMILION, va="center", arrowprops=_arrow(VERMILION))
    at = 0.5 * math.log(2 * math.pi * 28 * (FLIPS - 28) / FLIPS)
    right.annotate("½ ln(2π r (N − r)/N)", (28, at), (15, 1.35), color=BLUE, arrowprops=_arrow(BLUE))
    right.set_ylim(-0.25, ceiling + 0.2)
    right.set_title("The gap: no more than ½ ln N and a constant", fontsize=10.5)
    right.set_ylabel("nats")

    for axes in (left, right):
        axes.set_xlabel("r, heads among N flips")
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def _arrow(colour: str) -> dict[str, object]:
    return {"arrowstyle": "-", "color": colour, "linewidth": 0.8, "shrinkA": 1, "shrinkB": 3}


def main(arguments: list[str]) -> None:
    """Write the picture to the path given; the same bytes every time."""
    import matplotlib

    path = Path(arguments[0]) if arguments else PICTURE
    path.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context({"svg.hashsalt": "stirling", "font.family": "DejaVu Sans", "font.size": 9.5}):
        draw().savefig(path, dpi=150, facecolor="white", metadata={"Date": None} if path.suffix == ".svg" else None)


if __name__ == "__main__":
    main(sys.argv[1:])
