"""Links and citations lead somewhere: files, anchors and numbered sections; nothing outside the repository is cited.

No network is used: links to other sites are not followed.
"""

import ast
import io
import re
import tokenize
from collections import Counter
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
CODE = [path for folder in ("src", "tests") for path in sorted((ROOT / folder).rglob("*.py"))]

OTHER_SITE = re.compile(r"[a-z][a-z0-9+.-]*:", re.I)
LINK = re.compile(r"\]\(\s*<?([^\s<>()]+)>?(?:\s+[\"'][^)]*)?\)")  # [text](target "title"), and images
DEFINITION = re.compile(r"^ {0,3}\[[^\]]+\]:\s*<?([^\s<>]+)>?", re.M)
ATTRIBUTE = re.compile(r"\b(?:href|src)=[\"']([^\"']+)[\"']")

NUMBER = r"\d+(?:\.\d+)*"
LIST = rf"{NUMBER}(?:\s*\([^)]*\))?(?:\s*(?:,|and|to|–|-)\s*{NUMBER}\b(?:\s*\([^)]*\))?)*"
CITATION = re.compile(rf"(docs/[\w./-]+?\.md)\b(?:,\s+(?:sections?\s+)?({LIST}))?")

# In pieces, so that this file is not among those that it finds.
NOT_IN_THE_REPOSITORY = re.compile("|".join(("Spec" + " [0-9]", "spec" + " [0-9]{2}", "Design" + " [0-9]")))


def without_code(text):
    """A page without its fenced blocks, indented blocks and code spans: what looks like a link there is none."""
    text = re.sub(r"^ {0,3}(```+|~~~+).*?^ {0,3}\1[^\n]*$", "", text, flags=re.M | re.S)
    text = re.sub(r"(?:^|(?<=\n\n))(?: {4}[^\n]*\n?)+", "", text)
    return re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "", text, flags=re.S)


def headings(text):
    """The titles of a page, without marks of emphasis, code and links."""
    text = re.sub(r"^ {0,3}(```+|~~~+).*?^ {0,3}\1[^\n]*$", "", text, flags=re.M | re.S)
    titles = re.findall(r"^#{1,6}\s+(.+?)\s*#*$", text, re.M)
    return [re.sub(r"\[([^\]]*)\]\([^)]*\)|[*`]", r"\1", title) for title in titles]


def anchors(text):
    """The names that `#…` may have on a page, as GitHub makes them from headings."""
    found, seen = set(re.findall(r"<a\s+(?:id|name)=[\"']([^\"']+)", text)), Counter()
    for title in headings(text):
        name = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        found.add(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return found


def sections(text):
    """The numbers of the numbered headings of a page."""
    return {match[1] for title in headings(text) if (match := re.match(rf"({NUMBER})\.?\s", title))}


def broken_links(page, root):
    """The relative links of a page that lead nowhere."""
    text = without_code(page.read_text())
    found = []
    for target in [*LINK.findall(text), *DEFINITION.findall(text), *ATTRIBUTE.findall(text)]:
        if OTHER_SITE.match(target) or target.startswith("//"):
            continue
        name, _, anchor = unquote(target).partition("#")
        path = (page.parent / name).resolve() if name else page
        if not path.exists() or not path.is_relative_to(root):
            found.append(f"{target}: no such file in the repository")
        elif anchor and (path.suffix != ".md" or anchor not in anchors(path.read_text())):
            found.append(f"{target}: no such heading")
    return found


def prose(source):
    """Docstrings of a Python file (those of attributes too), and runs of comments, each as one line."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield " ".join(node.value.value.split())
    # Tokens take most of the time, and few comments name a page.
    tokens = tokenize.generate_tokens(io.StringIO(source).readline) if re.search("#.*docs/", source) else ()
    run, last = [], 0
    for token in (token for token in tokens if token.type == tokenize.COMMENT):
        if token.start[0] != last + 1 and run:
            yield " ".join(run)
            run = []
        run.append(token.string.lstrip("#: "))
        last = token.start[0]
    yield " ".join(run)


def cited_numbers(text):
    """The section numbers of a citation such as `3 (the notation), 5 to 7 and 10.1`; a range names all in it."""
    plain = re.sub(r"\([^)]*\)", " ", text)
    numbers = re.findall(NUMBER, plain)
    for first, last in re.findall(r"(?<![\d.])(\d+)\s*(?:to|–|-)\s*(\d+)(?![\d.])", plain):
        numbers += [str(number) for number in range(int(first), int(last))]
    return set(numbers)


def broken_citations(source, root):
    """Pages that docstrings and comments name and that are not there, and numbers that no heading has."""
    found = []
    for text in prose(source) if "docs/" in source else ():
        for name, numbers in CITATION.findall(text):
            page = root / name
            if not page.exists():
                found.append(f"{name}: no such page")
            elif missing := cited_numbers(numbers) - sections(page.read_text()):
                found.append(f"{name}: no section {', '.join(sorted(missing))}")
    return found


def cites_what_is_not_here(path):
    try:
        return NOT_IN_THE_REPOSITORY.findall(path.read_text())
    except UnicodeDecodeError:
        return []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_pages_lead_to_files_and_headings(page):
    assert broken_links(page, ROOT) == []


def test_citations_in_code_lead_to_pages_and_sections():
    broken = [
        f"{path.relative_to(ROOT)} cites {each}" for path in CODE for each in broken_citations(path.read_text(), ROOT)
    ]
    assert not broken, "\n".join(broken)


def test_code_cites_only_what_is_in_the_repository():
    files = [path for folder in ("src", "tests") for path in (ROOT / folder).rglob("*") if path.is_file()]
    kept = [path for path in files if "__pycache__" not in path.parts]
    cited = [f"{path.relative_to(ROOT)} cites {each}…" for path in kept for each in cites_what_is_not_here(path)]
    assert not cited, "\n".join(cited)


@pytest.fixture
def site(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "page.md").write_text(
        "# Page\n\n## 1. One, two & `three`\n\n### 1.2 Part\n\n## 2. Two\n\n## Twice\n\n## Twice\n\n"
        '<a id="here"></a>\n\n```\n# 9. no heading\n```\n'
    )
    return tmp_path


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ("[a](docs/page.md), [b](docs/page.md#1-one-two--three 'title'), ![c](docs/page.md#12-part), [d](#title)", 0),
        ("[a](docs/page.md#twice), [b](docs/page.md#twice-1), [c](docs/page.md#here), [d](docs)", 0),
        ("[a](https://example.org/nowhere), [b](mailto:a@b.c), <a href='docs/page.md'>c</a>", 0),
        ("`[a](nowhere.md)`\n\n    [b](nowhere.md)\n\n```\n[c](nowhere.md)\n```\n", 0),
        ("[a](nowhere.md), ![b](docs/nowhere.svg) and <img src='nowhere.png'>", 3),
        ("[a][b]\n\n[b]: nowhere.md\n", 1),
        ("[a](docs/page.md#twice-2), [b](docs/page.md#9-no-heading), [c](#nowhere)", 3),
        ("[a](..)", 1),
        ("- item\n  [a](nowhere.md)\n", 1),
    ],
)
def test_broken_links_are_found(site, text, broken):
    page = site / "README.md"
    page.write_text(f"# Title\n\n{text}\n")
    assert len(broken_links(page, site)) == broken


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('"""docs/page.md, 1 and 2; Somebody 1991."""', []),
        ('"""docs/page.md, 1.2 (a part, of\nit) to 2."""', []),
        ("# docs/page.md,\n# 1 to 2: Somebody, 3", []),
        ("name = 'docs/nowhere.md'", []),
        ('"""docs/page.md, 3."""', ["docs/page.md: no section 3"]),
        ('def f():\n    """See docs/page.md,\n    1 and 1.3 (what)."""', ["docs/page.md: no section 1.3"]),
        ("x = 1  # docs/nowhere.md, 1", ["docs/nowhere.md: no such page"]),
        ("x = 1\n'''Of x. docs/page.md, sections 1, 2 and 9'''", ["docs/page.md: no section 9"]),
        ("# docs/page.md, 1–4", ["docs/page.md: no section 3, 4"]),
    ],
)
def test_broken_citations_are_found(site, source, found):
    assert broken_citations(source, site) == found


@pytest.mark.parametrize(
    ("text", "count"), [("Spec" + " 1", 1), ("see spec" + " 01, Design" + " 2", 2), ("spec_1, design 2, Spectra 3", 0)]
)
def test_citations_of_other_places_are_found(tmp_path, text, count):
    path = tmp_path / "file.py"
    path.write_text(text)
    assert len(cites_what_is_not_here(path)) == count
