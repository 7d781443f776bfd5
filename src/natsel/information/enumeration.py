"""What listing the joint labels of several points costs, known before it is done.

    rows after j points    R_j = min(R_0 C^j, most)
    children looked at     Σ_{j<s} C R_j

so that searches over sets can say how long they would take (`natsel.search.patience`).
"""

MOST_ROWS = 1 << 20
"""Rows of labellings that the worth of a set is read from at most; it is exact up to there, and an estimate beyond."""
GROWING = 40.0
"""Operations for each child of a row and each draw: measured, 20 to 60 ns against 1 ns for a product."""


def labellings(start: int, classes: int, size: int, most: int = MOST_ROWS) -> int:
    """Children looked at on the way from `start` rows to those of `size` more points, of which `most` are kept.

    >>> labellings(1, 10, 3), labellings(1, 10, 3, most=10)
    (1110, 210)
    """
    rows, seen = start, 0
    for _ in range(size):
        seen += classes * rows
        rows = min(classes * rows, most)
    return seen
