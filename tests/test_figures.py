"""Figures say how they were made: each in README and docs is in the result file named beside it, with its commit."""

import json
import re
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
    # Whole numbers are counts and settings as often as results; those in tables are results. Names are no figures.
    plain = re.sub(r"`[^`]*`|\]\([^)]*\)|\d+\.\d+\.\d+", "", text)
    decimals = re.findall(r"(?<![\w.])\d+\.\d+", plain)
    whole = [
        cell
        for row in re.findall(r"^\|(?!-|\s*\|).*", plain, re.M)
        for cell in re.findall(r"(?<![\w.>])\d{2,}(?![\w.])", row)
    ]
    assert decimals or whole or "|" not in plain
    for figure in (*decimals, *whole):
        half = 0.5 * 10.0 ** -len(figure.partition(".")[2]) * (1 + 1e-9)
        found = any(abs(scale * number - float(figure)) <= half for number in known for scale in (1, -1, 100, 1000))
        assert found, f"{page}: {figure} is in none of {', '.join(files)}"
