"""Texts from outside (ids, names, messages), as each format that natsel writes holds them: what is a text stays one."""

import html
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

# What moves a cursor, hides, or turns the direction of writing; halves of characters, which no encoding has.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_QUOTED = re.compile('[",\r\n]')


def in_toml(text: str) -> str:
    r"""A text as TOML writes it.

    >>> print(in_toml('a "name"\r\n[model]'))
    "a \"name\"\r\n[model]"
    """
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def escape(text: str, quote: bool = True) -> str:
    """A text as HTML shows it, in content and, with `quote`, in attributes.

    >>> escape('<b title="x">')
    '&lt;b title=&quot;x&quot;&gt;'
    """
    return html.escape(_CONTROL.sub(lambda found: found[0] if found[0] in "\n\t" else "\ufffd", text), quote)


def visible(text: object, keep: str = "") -> str:
    r"""A text as terminals show it: with the numbers of control characters, but for those to `keep`.

    >>> print(visible("img\x1b[2J.png"))
    img\x1b[2J.png
    """
    return _CONTROL.sub(lambda found: found[0] if found[0] in keep else ascii(found[0])[1:-1], str(text))


def csv_lines(names: Sequence[str], rows: Iterable[Mapping[str, Any] | Sequence[Any]]) -> Iterator[str]:
    r"""The lines of a table as CSV, first that of the names; a text that a spreadsheet would take for a formula gets
    a ' in front, and so does one that would read as marked like that.

    >>> list(csv_lines(["id", "score"], [{"id": "=evil()", "score": -1.5}, ["a\rb", None]]))
    ['id,score\n', "'=evil(),-1.5\n", '"a\rb",\n']
    """
    for row in chain([names], rows):
        values = [row.get(name) for name in names] if isinstance(row, Mapping) else row
        yield (",".join(map(_cell, values)) or '""') + "\n"


def cell_text(cell: str) -> str:
    """The text of a cell that `csv_lines` has written.

    >>> [cell_text(cell) for cell in ("'=evil()", "'tis", "-5")]
    ['=evil()', "'tis", '-5']
    """
    return cell[1:] if cell[:1] == "'" and _FORMULA.match(cell) else cell


def _cell(value: Any) -> str:
    text = "" if value is None else str(value)
    if _FORMULA.match(text) and not re.fullmatch(r"[+-]?(inf|nan|\d+\.?\d*|\.\d+)(e[+-]?\d+)?", text, re.I | re.A):
        text = f"'{text}"
    return '"' + text.replace('"', '""') + '"' if _QUOTED.search(text) else text
