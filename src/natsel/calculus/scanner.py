"""Scanner: a text and a position in it; what stands here, and an error that shows where.

Whitespace separates and means nothing else. Columns count characters from 1, as an editor does.  Spec 01, A1.
"""

import re
from collections.abc import Callable
from typing import TypeVar

_NAME = re.compile(r"[^\W\d_]\w*")
_NUMBER = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"' + r"|'((?:[^'\\]|\\.)*)'", re.DOTALL)
_LONGEST = 330  # digits of a number, and the size of its exponent: all that a float can have
_SHOWN = 100  # characters of a text that an error repeats
_T = TypeVar("_T")


class ParseError(ValueError):
    """A text that is no expression: `.column` counts from 1, `.problem` says what was expected.

    >>> raise ParseError("H[X, | Y]", 6, 'expected a variable (X, x or X=3), found "|"')
    Traceback (most recent call last):
    natsel.calculus.scanner.ParseError: H[X, | Y]: column 6: expected a variable (X, x or X=3), found "|"
      H[X, | Y]
           ^
    """

    def __init__(self, text: str, column: int, problem: str) -> None:
        super().__init__(text, column, problem)  # all of them, so that the error can be sent between processes
        self.text, self.column, self.problem = text, column, problem

    def __str__(self) -> str:
        # One blank for each character that would move the caret; of a long text the part around the column.
        line = "".join(character if character.isprintable() else " " for character in self.text)
        first = max(0, min(self.column - 1 - _SHOWN // 2, len(line) - _SHOWN))
        shown = line[first : first + _SHOWN]
        caret = " " * (self.column - 1 - first) + "^"
        return f"{shown or 'empty text'}: column {self.column}: {self.problem}\n  {shown}\n  {caret}"


class Scanner:
    """Reads a text from left to right."""

    def __init__(self, text: str) -> None:
        self.text, self.here = text, 0

    @property
    def column(self) -> int:
        """Where the next character that is no blank stands, from 0."""
        while self.here < len(self.text) and self.text[self.here].isspace():
            self.here += 1
        return self.here

    def sees(self, *symbols: str) -> str | None:
        return next((symbol for symbol in symbols if self.text.startswith(symbol, self.column)), None)

    def takes(self, *symbols: str) -> str | None:
        symbol = self.sees(*symbols)
        self.here += len(symbol or "")
        return symbol

    def sees_name(self) -> bool:
        # Superscripts, subscripts and the like are no digits to a pattern, and no letters either.
        return _NAME.match(self.text, self.column) is not None and self.text[self.here].isalpha()

    def name(self) -> str | None:
        match = _NAME.match(self.text, self.column) if self.sees_name() else None
        self.here = match.end() if match else self.here
        return match.group() if match else None

    def number(self) -> str | None:
        """The digits of a number, a form that int, float or Fraction can read."""
        match = _NUMBER.match(self.text, self.column)
        if match is None:
            return None
        digits, _, exponent = match.group().lower().partition("e")
        if len(digits) > _LONGEST or len(exponent) > _LONGEST or abs(int(exponent or 0)) > _LONGEST:
            raise self.error("the number is too long to be kept exactly")
        self.here = match.end()
        return match.group()

    def quoted(self) -> str | None:
        if not self.sees('"', "'"):
            return None
        match = _QUOTED.match(self.text, self.column)
        if match is None:
            raise self.error("expected a closing quotation mark")
        self.here = match.end()
        return re.sub(r"\\(.)", r"\1", match.group(1) or match.group(2) or "", flags=re.DOTALL)

    def wants(self, symbol: str, expected: str) -> None:
        if not self.takes(symbol):
            raise self.expected(expected)

    def wants_name(self, expected: str) -> str:
        name = self.name()
        if name is None:
            raise self.expected(expected)
        return name

    def braced(self, inside: Callable[[], _T]) -> _T:
        self.wants("{", '"{"')
        found = inside()
        self.wants("}", '"}"')
        return found

    def end(self, expected: str) -> None:
        if self.column < len(self.text):
            raise self.expected(expected)

    def expected(self, what: str) -> ParseError:
        start = self.column
        found = self.name() or self.text[start : start + 1]
        return self.error(f"expected {what}, found " + (f'"{found}"' if found else "the end"), start)

    def error(self, problem: str, column: int | None = None) -> ParseError:
        return ParseError(self.text, (self.column if column is None else column) + 1, problem)
