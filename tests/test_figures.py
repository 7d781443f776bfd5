"""Figures say how they were made: each in README and docs is in the result file named beside it, with its commit."""

import json
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
RESULTS = sorted((ROOT / "results").glob("*.json"))


def numbers_in(value):
    """All numbers of a JSON document and of its texts, but for those of single runs, among which any is found."""
    if isinstance(value, dict):
        kept = {key: one for key, one in value.items() if key not in ("curves", "recipe")}
        return [number for key, one in kept.items() for number in numbers_in(key) + numbers_in(one)]
    if isinstance(value, list):
        return [number for one in value for number in numbers_in(one)]
    if isinstance(value, str):
        return [float(text.replace("−", "-")) for text in re.findall(r"[-−]?\d+(?:\.\d+)?", value)]
    return [] if value is None else [float(value)]


NAMES = {
    "BatchBALD, 10 picks, 10,000 × 100 × 10, one thread": "batchbald n=10000 k=100 b=10",
    "BALD, a million × 20 × 10, one thread": "bald n=1000000",
    "EPIG, best 100 of 10,000 points, 1,000 targets, two cores": "standard seconds",
    "BAIT, the same picks, two cores": "bait seconds",
    "ResNet-18, spectral norm": "resnet18-spectral",
    "three members, entropy": "ensemble entropy",
    "0.100": "noise-0.1",
    "0.400": "noise-0.4",
    "MNIST, two of ten digits matter, accuracy over 40 to 70 labels": "epig redundant",
    "`badge` measured": "spearman",
    "BALD from draws": "spearman",
    "EPIG from draws": "spearman",
}
"""What a row of a table is called in its result file, where that cannot be seen from its own words."""
OF_OTHERS = ("published", "authors’ logs", "authors' logs", "claim")
"""Columns of figures that others published, which stand somewhere in the file."""


@cache
def words_of(text):
    """The words of a name, without how it is set."""
    plain = re.sub(r"[`*]", "", text.lower()).replace("β = ", "β=").replace("_", " ")
    return set(re.findall(r"[a-zβ0-9][a-zβ0-9.%=-]*", plain))


def fields_in(value, address=()):
    """All numbers of a JSON document and of its texts, each with the names that lead to it."""
    if isinstance(value, dict):
        about = ("command", "commit", "note", "device", "date", "versions")
        beside = [one for key, one in value.items() if isinstance(one, str) and key not in about]
        beside += [str(value["target"])] if "target" in value else []
        for key, one in value.items():
            if key not in ("curves", "recipe"):
                yield from fields_in(one, (*address, key, *beside))
                yield from ((number, (*address, key)) for number in numbers_in(key))
    elif isinstance(value, list):
        for one in value:
            yield from fields_in(one, address)
    else:
        yield from ((number, address) for number in numbers_in(value))


@cache
def named_fields(file):
    """The numbers of a result file, each with the words that lead to it."""
    found = fields_in(json.loads((ROOT / file).read_text()))
    return [(number, words_of(" ".join(address))) for number, address in dict.fromkeys(found)]


def figures_in(text):
    """The figures of a text, also those behind ">"; names are none."""
    plain = re.sub(r"`[^`]*`|\]\([^)]*\)|\d+\.\d+\.\d+", "", text)
    return re.findall(r"(?<![\w.])(?:\d+\.\d+|\d{2,})(?![\w.])", plain)


def is_figure(number, figure):
    half = 0.5 * 10.0 ** -len(figure.partition(".")[2]) * (1 + 1e-9)
    return any(abs(scale * number - float(figure)) <= half for scale in (1, -1, 100, 1000))


def cells_of(text):
    """The cells of the tables in a text: (row, column, cell)."""
    head = None
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if not cells or not set(line) - set("|-: "):
            head = head if cells else None
        elif head is None:
            head = cells
        else:
            yield from ((cells[0] or cells[1], column, cell) for column, cell in zip(head[1:], cells[1:], strict=True))


def blocks():
    """Paragraphs that name result files, each with the table that follows it: (page, files, text)."""
    for page in PAGES:
        parts = re.split(r"\n\s*\n", page.read_text())
        for number, part in enumerate(parts):
            files = re.findall(r"`(results/[\w.-]+\.json)`", part)
            table = parts[number + 1] if number + 1 < len(parts) and parts[number + 1].startswith("|") else ""
            if files:
                yield page.relative_to(ROOT), tuple(dict.fromkeys(files)), f"{part}\n{table}"


BLOCKS = list(blocks())


def test_pages_name_result_files():
    assert len(BLOCKS) >= 6


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_a_result_names_its_commit_and_its_command(path):
    document = json.loads(path.read_text())
    commit = document.get("commit") or document.get("versions", {}).get("commit")
    assert re.fullmatch(r"[0-9a-f]{7,40}", commit or ""), commit
    assert "command" in path.read_text()


@pytest.mark.parametrize(("page", "files", "text"), BLOCKS, ids=[f"{page}-{files[0]}" for page, files, _ in BLOCKS])
def test_figures_are_in_the_file_named_beside_them(page, files, text):
    known = [number for file in files for number in numbers_in(json.loads((ROOT / file).read_text()))]
    # Whole numbers are counts and settings as often as results; those in tables are results.
    figures = [one for one in figures_in(text) if "." in one]
    figures += [one for _, _, cell in cells_of(text) for one in figures_in(cell)]
    assert figures or "|" not in text
    for figure in figures:
        assert any(is_figure(number, figure) for number in known), f"{page}: {figure} is in none of {', '.join(files)}"


@pytest.mark.parametrize(("page", "files", "text"), BLOCKS, ids=[f"{page}-{files[0]}" for page, files, _ in BLOCKS])
def test_a_figure_in_a_table_is_in_a_field_of_its_row(page, files, text):
    """A number that stands somewhere in a file may be that of another method: BALD needed ">300" on two pages, where
    300 was the number of labels, and the median 295.
    """
    fields = [named_fields(file) for file in files]
    vocabularies = [set().union(*(words for _, words in some)) for some in fields]
    for row, column, cell in cells_of(text):
        name = NAMES.get(f"{row} {column}", NAMES.get(row, row))
        named = words_of(name) if column not in OF_OTHERS else set()
        for figure in figures_in(cell):
            found = any(
                is_figure(number, figure) and named & vocabulary <= words
                for some, vocabulary in zip(fields, vocabularies, strict=True)
                for number, words in some
            )
            assert found, f"{page}: {figure} ({column}) is in no field of {row}"


def needed(data, method, level):
    """The labels that a method needed by the field of its name, as tables write them."""
    stem = {"MNIST": "mnist-full", "Repeated-MNIST ×4": "repeated-mnist-published-validation"}[data]
    if method in ("power-bald β=1", "power-bald β=4"):
        found = json.loads((ROOT / "results/repeated-mnist-coldness.json").read_text())
        return f"{found['median_labels_needed'][method][str(level)]:g}"
    document = json.loads((ROOT / f"results/{stem}.json").read_text())
    (row,) = (one for one in document["labels_needed"] if (one["method"], one["target"]) == (method, level))
    return ("" if row["quartiles"][1] is not None else ">") + f"{row['at_least'][1]:g}"


@pytest.mark.parametrize("page", ["docs/benchmarks.md", "docs/decisions/0010-power-bald-for-newcomers.md"])
def test_labels_needed_are_those_of_the_method_and_the_level(page):
    text, checked = (ROOT / page).read_text(), 0
    for row, column, cell in cells_of(text):
        if column == "labels to 90 % / 95 %":
            data, _, method = row.rpartition(": ")
            wanted = [needed(data, method.replace("β = ", "β="), level) for level in (0.9, 0.95)]
            assert cell.replace("*", "") == " / ".join(wanted), row
            checked += 1
    assert checked >= 7


def test_labels_needed_in_prose_are_those_of_the_method():
    text = (ROOT / "README.md").read_text()
    of = {name: needed("MNIST", name, 0.9) for name in ("random", "bald", "batchbald")}
    assert f"| BatchBALD {of['batchbald']} | random {of['random']};" in text
    again = {name: needed("Repeated-MNIST ×4", name, 0.9) for name in ("random", "bald", "power-bald β=8")}
    assert f"| PowerBALD {again['power-bald β=8']} | random {again['random']}, BALD {again['bald']} |" in text
    which = (ROOT / "docs/which-method.md").read_text()
    assert f"90 % accuracy with {again['power-bald β=8']} labels, where random needed {again['random']};" in which
    assert (
        f"90 % accuracy with {of['batchbald']} labels, where random needed {of['random']} and bald {of['bald']} ("
        in which
    )
