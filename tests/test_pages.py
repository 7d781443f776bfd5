"""The code on the pages runs as written, and prints what the pages say.

README.md and every page of the docs with code are run. Blocks marked `python` run in order, in one namespace per page,
in an empty folder. Blocks marked `console` hold commands of natsel, one per line, which run there too. Commands that
are slow, need the network or are not of natsel go into blocks marked `sh`. What Python prints is shown by a block
marked `text` after it, and compared line by line; what a command prints may be shown so too. Blocks in other languages
do not run. A page that reads a named data set says so in its first lines, as `natsel data get NAME`, and runs where it
is. Pages with `>>>` are doctests.
"""

import ast
import doctest
import io
import re
import shlex
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import NamedTuple

import pytest

import natsel
from natsel.cli import main
from natsel.objectives import READINGS
from natsel.objectives.reading import _ROUTES

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
NEEDS = {"hugging-face.md": "accelerate"}  # packages that a page needs and does not import itself


class Block(NamedTuple):
    language: str
    line: int  # of the page, on which the block begins, counted from 1
    text: str
    heading: str


def blocks(page):
    """The fenced blocks of a page in order, each with the heading above it."""
    found, heading, opened = [], "", None
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        fence = re.match(r"\s*(?:```+|~~~+)\s*(\S*)", line)
        if fence and opened is None:
            opened = Block(fence[1], number + 1, "", heading)
        elif fence:
            found.append(opened)
            opened = None
        elif opened is not None:
            opened = opened._replace(text=f"{opened.text}{line}\n")
        elif line.startswith("#"):
            heading = line.lstrip("# ")
    assert opened is None, f"{page.name}, line {opened.line - 1}: the block has no end"
    return found


def run_page(page):
    """Run the blocks of a page; an AssertionError says which one raises, or prints what the page does not say.

    The number of blocks that were compared with what they should print is returned.
    """
    module = ModuleType("page")
    sys.modules["page"] = module  # dataclasses look up the module they are in
    table, compared = dict(READINGS), 0
    try:
        found = blocks(page)
        for block, following in zip(found, [*found[1:], None], strict=True):
            if block.language not in ("python", "console"):
                continue
            printed = lines_of(printed_by(block, page, vars(module)))
            is_shown = following is not None and following.language == "text"
            if is_shown or block.language == "python":
                shown = lines_of(following.text) if is_shown else []
                assert printed == shown, f"{page.name}, line {block.line}: the block prints something else"
                compared += is_shown
    finally:
        del sys.modules["page"]
        READINGS.clear()  # objectives that a page adds are unknown to the tests after it
        READINGS.update(table)
        _ROUTES.clear()
    return compared


def lines_of(text):
    """The lines of a text without spaces at their ends, which pages cannot show, nor empty ones around it."""
    return [line.rstrip() for line in re.sub(r"\A(\s*\n)+", "", text).rstrip().splitlines()]


def printed_by(block, page, names):
    printed = io.StringIO()
    place = f"{page.name}, line {block.line}"
    try:
        with redirect_stdout(printed):
            if block.language == "console":
                for command in block.text.splitlines():
                    run_command(command, place)
            else:  # Empty lines first, so that errors name lines of the page.
                exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), names)
    except Exception as error:
        raise AssertionError(f"{page.name}: a block raises\n{traceback.format_exc()}") from error
    return printed.getvalue()


def run_command(command, place):
    name, *arguments = shlex.split(command, comments=True)
    assert name == "natsel", f"{place}: only natsel runs in a console block; mark it sh"
    said = io.StringIO()
    with redirect_stderr(said):
        code = main(arguments)
    assert code == 0, f"{place}: {command} ends with {code}: {said.getvalue()}"


def has_code(page):
    return any(block.language in ("python", "console") for block in blocks(page))


PAGES = [page for page in (ROOT / "README.md", *sorted(DOCS.rglob("*.md"))) if has_code(page)]


def sets_read_by(page):
    """The data sets that a page says in its first lines it reads, and how to get them."""
    first = "\n".join(page.read_text(encoding="utf-8").splitlines()[:8])
    return [name for names in re.findall(r"`natsel data get ([a-z0-9 -]+)`", first) for name in names.split()]


def as_case(page):
    marks = [pytest.mark.needs_data(*names)] if (names := sets_read_by(page)) else []
    return pytest.param(page, marks=marks, id=page.relative_to(ROOT).as_posix())


def imported_by(page):
    """The packages that the code of a page imports."""
    for block in blocks(page):
        if block.language == "python" and not block.text.startswith(">>>"):
            for node in ast.walk(ast.parse(block.text)):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                names += [node.module] if isinstance(node, ast.ImportFrom) else []
                yield from (name.partition(".")[0] for name in names)


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")


@pytest.mark.parametrize("page", [as_case(page) for page in PAGES])
def test_page_runs_and_prints_what_it_says(page):
    for package in {*imported_by(page), *filter(None, [NEEDS.get(page.name)])}:
        pytest.importorskip(package, reason=f"needs the package {package}")
    names = set(natsel.methods())
    if any(block.text.startswith(">>>") for block in blocks(page)):
        flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
        done = doctest.testfile(str(page), module_relative=False, optionflags=flags, encoding="utf-8")
        assert done.attempted > 0
        assert done.failed == 0
    else:
        run_page(page)
    assert set(natsel.methods()) == names, "the page leaves a method behind"


def test_page_about_plug_ins_shows_the_example_as_it_is():
    example = DOCS / "examples" / "natsel-familiarity"
    shown = [block.text for block in blocks(DOCS / "plug-ins.md")]
    for file in ("natsel_familiarity.py", "natsel_familiarity_conformance.py", "pyproject.toml"):
        assert (example / file).read_text(encoding="utf-8") in shown, f"plug-ins.md shows another {file}"


@pytest.mark.parametrize("name", ["plain-loop", "lightning", "hugging-face"])
def test_pages_about_your_network_need_few_lines(name):
    code = [block.text.splitlines() for block in blocks(DOCS / "your-network" / f"{name}.md")]
    assert all(sum(bool(line.strip()) for line in lines) < 30 for lines in code)


def test_readme_is_short():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.split()) <= 1200
    first = next(block for block in blocks(ROOT / "README.md") if block.language == "python")
    assert len([line for line in first.text.splitlines() if line.strip()]) <= 14


def test_index_names_every_page_of_the_docs():
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} - {"README.md"}
    own_index = {page for page in pages if page.startswith("decisions/") and page != "decisions/README.md"}
    assert set(re.findall(r"^- \[([^]]+\.md)\]\(\1\): ", index, re.M)) - {"../CONTRIBUTING.md"} == pages - own_index


SOUND = """# Page

```python
number = 20
print(number + 1)
```

Between the two blocks there may be words.

```text
21
```

```sh
this does not run
```

```console
natsel --version  # and this is a comment
```

```text
natsel VERSION
```

## Later

```python
from dataclasses import dataclass

from natsel import CategoricalSamples, Objective
from natsel.objectives.readings.pointwise import pointwise


@dataclass(frozen=True)
class OfAPage(Objective):
    number: int = number


pointwise(OfAPage, CategoricalSamples)(print)
later = number
```
""".replace("VERSION", natsel.__version__)


def as_page(text):
    page = Path("page.md")
    page.write_text(text, encoding="utf-8")
    return page


def test_sound_page_runs_and_leaves_nothing_behind(capsys):
    before = dict(READINGS)
    assert run_page(as_page(SOUND)) == 2
    assert before == READINGS
    assert "page" not in sys.modules
    assert capsys.readouterr().out == ""
    assert sorted(imported_by(Path("page.md"))) == ["dataclasses", "natsel", "natsel"]


def test_pages_that_read_a_data_set_carry_the_marker():
    says = SimpleNamespace(read_text=lambda encoding: "# A page\n\nGet MNIST first: `natsel data get mnist trec`.\n")
    assert sets_read_by(says) == ["mnist", "trec"]
    assert not as_case(DOCS / "data.md").marks  # how to fetch a set stands further down


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("number + 1", "number + 2"), "page.md, line 4: the block prints something else"),
        (("21\n", "21\n22\n"), "page.md, line 4: the block prints something else"),
        (("print(number + 1)", "pass"), "page.md, line 4: the block prints something else"),
        (("later = number", "print(number)"), "page.md, line 29: the block prints something else"),
        (("number = 20", "number = 20 / 0"), r'page.md", line 4, in <module>(.|\n)*ZeroDivisionError'),
        (("number = 20", "number = "), r'page.md", line 4(.|\n)*SyntaxError'),
        (("```sh", "```python"), r'page.md", line 15(.|\n)*SyntaxError'),
        (("```sh", "```console"), "page.md, line 15: only natsel runs in a console block; mark it sh"),
        (
            ("natsel --version", "natsel --nowhere"),
            "page.md, line 19: natsel --nowhere (.|\n)* ends with 2: natsel: No",
        ),
        (("natsel --version", "natsel --help"), "page.md, line 19: the block prints something else"),
        (("later = number", "print(nowhere)"), r'page.md", line 41, in <module>(.|\n)*NameError'),
        (("later = number\n```\n", "later = number\n"), "page.md, line 28: the block has no end"),
    ],
)
def test_broken_page_fails(change, reason):
    assert change[0] in SOUND
    page = as_page(SOUND.replace(*change))
    with pytest.raises(AssertionError, match=reason):
        run_page(page)
