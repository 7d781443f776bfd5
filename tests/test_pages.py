"""The code on the pages of the docs runs, and prints what the pages say.

Blocks marked `python` run in order, in one namespace per page, in an empty folder. If the next block of the page is
marked `text`, it is compared with what was printed, line by line. Blocks in other languages do not run.
"""

import io
import re
import sys
import traceback
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import numpy as np
import pytest

import natsel
from natsel.objectives import READINGS
from natsel.objectives.reading import _ROUTES

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
NOUNS = ("belief", "objective", "search", "method", "model", "learner")


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


def run_page(page, prepared=None):
    """Run the blocks of a page; an AssertionError says which one raises or prints something else.

    `prepared` maps headings to functions that give the names which the first block under a heading takes for granted.
    The number of blocks that were compared with what they should print is returned.
    """
    module = ModuleType("page")
    sys.modules["page"] = module  # dataclasses look up the module they are in
    prepared, table, compared = dict(prepared or {}), dict(READINGS), 0
    try:
        found = blocks(page)
        for block, following in zip(found, [*found[1:], None], strict=True):
            if block.language != "python":
                continue
            vars(module).update(prepared.pop(block.heading, dict)())
            printed = printed_by(block, page, vars(module)).splitlines()
            if following is not None and following.language == "text":
                place = f"{page.name}, line {block.line}"
                assert printed == following.text.splitlines(), f"{place}: the block prints something else"
                compared += 1
        assert not prepared, f"{page.name}: no code under the headings {', '.join(prepared)}"
    finally:
        del sys.modules["page"]
        READINGS.clear()  # objectives that a page adds are unknown to the tests after it
        READINGS.update(table)
        _ROUTES.clear()
    return compared


def printed_by(block, page, names):
    printed = io.StringIO()
    try:
        with redirect_stdout(printed):
            # Empty lines first, so that errors name lines of the page.
            exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), names)
    except Exception as error:
        raise AssertionError(f"{page.name}: a block raises\n{traceback.format_exc()}") from error
    return printed.getvalue()


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("noun", NOUNS)
def test_page_of_a_noun_runs_and_every_block_shows_what_it_prints(noun):
    page = DOCS / f"{noun}.md"
    compared = run_page(page)
    assert compared == sum(block.language == "python" for block in blocks(page)) > 0


def digits():
    """Names of pages that are about a trained last layer."""
    train = natsel.data.load("digits").train
    parts = {"pool": train.inputs[60:160], "targets": train.inputs[160:180], "rare": train.inputs[180:190]}
    return {"labelled": train[:60], "held": train.inputs[:10], **parts}


def predictions(points=60, draws=10, classes=3):
    logits_N_K_C = np.random.default_rng(0).normal(size=(points, draws, classes))
    return natsel.CategoricalSamples.from_logits(logits_N_K_C)


def images(count):
    return np.random.default_rng(count).integers(0, 256, (count, 28, 28), dtype=np.uint8)


README = {
    "From data to labels saved": lambda: {
        "images": images(1000),
        "held_out": (images(10), np.arange(10)),
        "answers": np.arange(20) % 10,
        "unreadable": [0],
    },
    "From predictions to picks": lambda: {
        "log_probs_N_K_C": predictions().log_probs_N_K_C,
        "already_labelled": [1, 2],
    },
    "When only some predictions matter": lambda: {
        "target_belief": predictions(points=5),
        "importance": [1, 1, 2, 3, 5],
        "inputs_that_matter": images(5),
    },
    "Without draws: weight space": lambda: {
        **digits(),
        "features_N_D": np.ones((4, 2)),
        "probs_N_C": np.full((4, 3), 1 / 3),
    },
    "The calculus behind it": lambda: {"belief": predictions()},
}


def test_readme_runs():
    run_page(ROOT / "README.md", README)


def test_page_about_one_family_runs():
    first = next(block for block in blocks(DOCS / "unification.md") if block.language == "python")
    run_page(DOCS / "unification.md", {first.heading: digits})


def test_page_about_backup_runs():
    with natsel.Journal("run.db"):
        pass  # a learner would have made it
    run_page(DOCS / "backup.md")
    assert Path("backup-2.db").exists()


def test_page_about_plug_ins_runs_shows_the_example_as_it_is_and_leaves_no_name_behind():
    names = set(natsel.methods())
    assert run_page(DOCS / "plug-ins.md") == 1
    assert set(natsel.methods()) == names
    example = DOCS / "examples" / "natsel-familiarity"
    shown = [block.text for block in blocks(DOCS / "plug-ins.md")]
    for file in ("natsel_familiarity.py", "natsel_familiarity_conformance.py", "pyproject.toml"):
        assert (example / file).read_text(encoding="utf-8") in shown, f"plug-ins.md shows another {file}"


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

```console
this does not run
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
print(prepared)
```
"""


def as_page(text):
    page = Path("page.md")
    page.write_text(text, encoding="utf-8")
    return page


def test_sound_page_runs_and_leaves_nothing_behind(capsys):
    before = dict(READINGS)
    assert run_page(as_page(SOUND), {"Later": lambda: {"prepared": 1}}) == 1
    assert before == READINGS
    assert "page" not in sys.modules
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("number + 1", "number + 2"), "page.md, line 4: the block prints something else"),
        (("21\n", "21\n22\n"), "page.md, line 4: the block prints something else"),
        (("print(number + 1)", "pass"), "page.md, line 4: the block prints something else"),
        (("number = 20", "number = 20 / 0"), r'page.md", line 4, in <module>(.|\n)*ZeroDivisionError'),
        (("number = 20", "number = "), r'page.md", line 4(.|\n)*SyntaxError'),
        (("console", "python"), r'page.md", line 15(.|\n)*SyntaxError'),
        (("print(prepared)", "print(nowhere)"), r'page.md", line 33, in <module>(.|\n)*NameError'),
        (("## Later", "## Sooner"), r"NameError: name 'prepared'"),
        (("print(prepared)\n```\n", "print(prepared)\n"), "page.md, line 20: the block has no end"),
    ],
)
def test_broken_page_fails(change, reason):
    assert change[0] in SOUND
    page = as_page(SOUND.replace(*change))
    with pytest.raises(AssertionError, match=reason):
        run_page(page, {"Later": lambda: {"prepared": 1}})


def test_names_prepared_for_a_heading_that_is_gone_are_refused():
    with pytest.raises(AssertionError, match=r"page\.md: no code under the headings Earlier"):
        run_page(as_page(SOUND), {"Later": lambda: {"prepared": 1}, "Earlier": dict})
