"""The page around a report: one file that asks no host for anything, runs no script and suits light, dark and print."""

from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from natsel.texts import escape

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def page(title: str, header: str, sections: Sequence[tuple[str, str, str]], places: Sequence[int | None]) -> str:
    """A whole HTML page of sections, each (anchor, heading, content); `places` are the methods readers may hide."""
    sheet = resources.files("natsel.experiments.report").joinpath("report.css").read_text(encoding="utf-8")
    sections = [(escape(anchor), escape(heading), body) for anchor, heading, body in sections]
    links = "".join(f'<a href="#{anchor}">{heading}</a>' for anchor, heading, _ in sections)
    content = "".join(
        f'<section id="{anchor}" aria-labelledby="{anchor}-head"><h2 id="{anchor}-head">{heading}</h2>{body}</section>'
        for anchor, heading, body in sections
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(title)}</title>\n<style>\n{sheet}{_hiding(places)}</style>\n</head>\n<body>\n"
        f'<header>{header}<nav aria-label="Sections">{links}</nav></header>\n<main>\n{content}\n</main>\n'
        "<footer>Made by natsel: select data by the nats they carry.</footer>\n</body>\n</html>\n"
    )


def table(head: Sequence[str], rows: Sequence[Sequence[str]], caption: str, classes: Sequence[str] = ()) -> str:
    """A table of ready HTML cells; the first cell of a row is its heading. `classes` are those of the rows.

    It scrolls sideways where the window is narrow; one of many columns then says so above.
    """
    many = '<p class="sideways" aria-hidden="true">More columns: scroll sideways →</p>' if len(head) > 4 else ""
    top = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    lines = []
    for number, (first, *rest) in enumerate(rows):
        kind = f' class="{classes[number]}"' if classes else ""
        lines.append(f'<tr{kind}><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in rest)}</tr>')
    return (
        f'{many}<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}"><table>'
        f"<caption>{escape(caption)}</caption><thead><tr>{top}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def outline(value: Any) -> str:
    """Nested settings as nested lists of names and values.

    >>> outline({"k": 10})
    '<dl><div><dt>k</dt><dd>10</dd></div></dl>'
    """
    if isinstance(value, Mapping):
        entries = (f"<div><dt>{escape(str(name))}</dt><dd>{outline(entry)}</dd></div>" for name, entry in value.items())
        return f"<dl>{''.join(entries)}</dl>" if value else "–"
    if isinstance(value, list | tuple):
        if any(isinstance(entry, Mapping) for entry in value):
            return "<ul>" + "".join(f"<li>{outline(entry)}</li>" for entry in value) + "</ul>"
        return escape(", ".join(map(str, value))) or "–"
    words = {"None": "–", "True": "yes", "False": "no"}
    return escape(words.get(str(value), str(value)))


def _hiding(places: Sequence[int | None]) -> str:
    """Rules that hide all of a method while its box in the legend is not ticked."""
    names = ("base" if place is None else place for place in places)
    return "".join(
        f"body:has(#show-{name}:not(:checked)) main .p-{name}:not(label *){{display:none}}\n" for name in names
    )
