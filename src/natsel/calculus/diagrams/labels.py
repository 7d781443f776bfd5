"""How numbers and quantities are written in pictures: three digits with a true minus sign, names as in a paper."""

from functools import cache

from natsel.calculus.expressions import Expression
from natsel.calculus.formatting import latex, plain

ZERO = 5e-4
"""What is shown as zero."""


def number(value: float) -> str:
    """A value with three digits after the point; what rounds to zero has no sign.

    >>> number(0.12345), number(-0.5), number(-1e-9)
    ('0.123', '−0.500', '0.000')
    """
    text = f"{value:.3f}"
    return "0.000" if float(text) == 0 else text.replace("-", "−")


def maths(expression: Expression) -> str:
    r"""A quantity for Matplotlib to set: LaTeX between dollar signs where Matplotlib knows it, else plain text.

    >>> from natsel.calculus import parse
    >>> maths(parse("1/2 H[Y1]"))
    '$\\frac{1}{2} \\mathrm{H}[Y_{1}]$'
    """
    return _settable(f"${latex(expression).replace('tfrac', 'frac')}$", plain(expression).replace("$", r"\$"))


@cache
def _settable(text: str, instead: str) -> str:
    from matplotlib.mathtext import MathTextParser

    try:
        MathTextParser("path").parse(text)
    except ValueError:
        return instead
    return text
