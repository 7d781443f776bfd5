"""Files that somebody sent: reading runs no code, writes nowhere else, and a name from them stays a name everywhere."""

import csv
import json
import re
import shutil
import sys
import tomllib
import unicodedata
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import natsel
from cli.conftest import call, refused  # noqa: F401  fixtures
from experiments.test_report import Page
from hostile_names import HOSTILE, MARKUP, PATHS
from made_experiments import made_curve, made_experiment
from natsel.cli.output import console, fitted, say, text_table
from natsel.data import read_examples
from natsel.data.tables import ids_of, read_csv
from natsel.experiments.recipe.contenders import Contender
from natsel.experiments.recipe.new_recipe import new_recipe
from natsel.experiments.recipe.plan import load_plan, plan_from
from natsel.experiments.recipe.recipe import Recipe
from natsel.experiments.report.plan_page import plan_page
from natsel.experiments.report.report import report
from natsel.experiments.results import publish as publishing
from natsel.experiments.results.from_journals import read_experiment
from natsel.experiments.results.publish import publish
from natsel.experiments.running import worker_pool
from natsel.experiments.running.folder import prepare, read_plan
from natsel.experiments.running.run import run_plan
from natsel.store import Journal
from natsel.store.exporting import write_rows
from natsel.texts import csv_lines, escape, in_toml, visible
from own_files import without_digests

SMALL = {"k": 4, "budget": 8, "seeds": 1, "methods": ["random", "bald"], "initial": {"count": 4}}
TEXTS = {"file": "t.csv", "labels": "y", "inputs": ["text"], "test": 0.3}
EVIL = "from pathlib import Path\nPath(__file__).with_name('RAN').touch()\n"
SOURCE = Path(natsel.__file__).parent
WORDS = [f"{'good' if n % 2 else 'bad'} text of number {n} here" for n in range(60)]


def write_texts(path, order=range(60)):
    path.write_text("text,y\n" + "".join(f"{WORDS[n]},{'ab'[n % 2]}\n" for n in order))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """An experiment on a file of texts, and one with two variants, each run to its end."""
    home = tmp_path_factory.mktemp("home")
    write_texts(home / "t.csv")
    texts = SMALL | {"name": "texts", "data": TEXTS, "model": {"kind": "text", "draws": 2, "words": 20}}
    texts["training"] = {"max_epochs": 1, "preset": "quick"}
    run_plan(plan_from(texts, str(home)), home / "texts", processes=0, device="cpu", command=["natsel", "run"])
    parts = SMALL | {"name": "parts", "data": {"set": "iris"}, "model": {"kind": "forest", "trees": 3}}
    parts |= {"variants": {"one": {}, "two": {"k": 2}}}
    run_plan(plan_from(parts), home / "parts", processes=0, device="cpu", command=["natsel", "run"])
    return home


@pytest.fixture
def home(finished, tmp_path, monkeypatch):
    """A copy of both, as it arrives from somebody; sys.path as it was afterwards."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    shutil.copytree(finished, tmp_path / "home")
    change(
        tmp_path / "home" / "texts" / "recipe.json", lambda found: found["recipe"].update(home=str(tmp_path / "home"))
    )
    (tmp_path / "victim.txt").write_text("mine")
    (tmp_path / "other").mkdir()
    for name in ("seed-7.txt", "seed-3.db"):
        (tmp_path / "other" / name).write_text("mine")
    return tmp_path / "home"


def change(path, how):
    found = without_digests(json.loads(path.read_text()))
    how(found)
    path.write_text(json.dumps(found))


def outside(home):
    """All that lies beside the folders, with what it holds."""
    places = [path for path in home.parent.rglob("*") if home not in path.parents]
    return {path: path.read_bytes() if path.is_file() else None for path in places}


# Reading runs no code.


@pytest.mark.parametrize(
    ("folder", "said"),
    [
        ("texts", {"plugins": ["evil"]}),
        ("texts", {"home": "."}),
        ("texts", {"home": "HERE", "plugins": ["evil"]}),
        ("parts", {"home": "HERE", "plugins": ["evil"]}),
    ],
)
def test_reading_a_folder_imports_nothing_from_it(home, call, monkeypatch, said, folder):  # noqa: F811
    place = home / folder
    for name in ("evil.py", "sklearn.py", "pandas.py"):
        (place / name).write_text(EVIL)
    said = {key: str(place) if value == "HERE" else value for key, value in said.items()}
    recipe = place / ("one/recipe.json" if folder == "parts" else "recipe.json")
    change(recipe, lambda found: found["recipe"].update(said))
    monkeypatch.chdir(place)
    before = list(sys.path)
    assert call("report", ".", "--json").code == 0
    natsel.report(place)
    assert sys.path == before
    assert not (place / "RAN").exists()
    assert "evil" not in sys.modules


def test_another_folder_is_refused_before_its_plug_ins_are_named_again(home, refused, monkeypatch):  # noqa: F811
    (home / "evil_twin.py").write_text(EVIL)
    change(home / "texts" / "recipe.json", lambda found: found["recipe"].update(plugins=["evil_twin"]))
    monkeypatch.chdir(home)
    (home / "mine.toml").write_text(
        'name = "mine"\nmethods = ["bald"]\nbudget = 20\n[data]\nset = "iris"\n[model]\nkind = "forest"\n'
    )
    assert "holds runs with" in refused("run", "mine.toml", "--folder", home / "texts")
    assert not (home / "RAN").exists()


def test_a_report_knows_methods_and_models_of_plug_ins_by_name(home):
    def of_a_plug_in(found):
        found["recipe"]["methods"] = ["random", "bald", "of-a-plug-in"]
        found["recipe"]["model"] = {"kind": "of-a-plug-in", "depth": 3}

    change(home / "texts" / "recipe.json", of_a_plug_in)
    published = publish(home / "texts")
    assert published.experiment.recipe["model"] == {"kind": "of-a-plug-in", "depth": 3}
    assert "1 of 3 runs have not begun" in " ".join(published.experiment.notes)
    with pytest.raises(ValueError, match=r"model\.kind: found 'of-a-plug-in'"):
        Recipe.from_table(published.experiment.recipe)


def test_a_recipe_is_read_without_effects_and_its_plug_ins_come_with_its_run(home, monkeypatch):
    (home / "brings_forest.py").write_text(
        EVIL + "from natsel.models.kinds import KINDS\nKINDS.setdefault('forest-of-mine', KINDS['forest'])\n"
    )
    (home / "mine.toml").write_text(
        'name = "mine"\nplugins = ["brings_forest"]\nmethods = ["bald"]\nseeds = 1\nk = 4\nbudget = 8\n'
        'initial = { count = 4 }\n[data]\nset = "iris"\n[model]\nkind = "forest-of-mine"\ntrees = 3\n'
    )
    plan = load_plan(home / "mine.toml")
    assert not (home / "RAN").exists()
    assert str(home) not in sys.path
    from natsel.models.kinds import KINDS

    try:
        assert not run_plan(plan, home / "mine", processes=0, device="cpu")[""].failed
        assert (home / "RAN").exists()
        installed = max(place for place, path in enumerate(sys.path) if path.endswith("site-packages"))
        assert sys.path.index(str(home)) > installed  # nothing there takes the place of others
        (home / "wrong.toml").write_text((home / "mine.toml").read_text().replace("trees = 3", "tress = 3"))
        with pytest.raises(ValueError, match=r"^model\.tress: there is no such key; did you mean 'trees'"):
            run_plan(load_plan(home / "wrong.toml"), home / "wrong", processes=0)
    finally:
        KINDS.pop("forest-of-mine", None)
        sys.modules.pop("brings_forest", None)


def test_workers_take_no_module_from_the_folder_they_are_started_in(tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(worker_pool.subprocess, "Popen", lambda command, **options: started.append(command))
    recipe = Recipe.from_table(SMALL | {"name": "a", "data": {"set": "iris"}, "model": {"kind": "forest"}})
    worker_pool.WorkerPool(tmp_path, recipe, [], 1, None, lambda data: None)._started(0)
    assert started[0][1:3] == ["-P", "-m"]


# What is written is what was meant.


def test_no_name_in_a_table_becomes_a_key_of_a_recipe(tmp_path):
    for name in HOSTILE:
        with (tmp_path / "t.csv").open("w", newline="", encoding="utf-8") as file:
            rows = ([f"T{n}", n / 7, n % 3, f"S{n}"] for n in range(40))
            csv.writer(file).writerows([[name, f"x{name}", f"y{name}", f"z{name}"], *rows])
        columns = list(read_csv(tmp_path / "t.csv").columns)
        place = tmp_path / f"{name.replace('/', '-')[:40]}.toml"
        text = new_recipe(tmp_path / "t.csv", place, columns[2])
        found = tomllib.loads(text)
        assert set(found) == {"name", "about", "k", "budget", "seeds", "methods", "initial", "data", "model"}
        assert found["data"] == {"file": "t.csv", "labels": columns[2], "inputs": [columns[1]], "test": 0.2}
        assert (found["model"], found["name"]) == ({"kind": "forest", "trees": 100}, place.stem)
        assert {one for one in text if one < " "} == {"\n"}
        assert tomllib.loads(f"a = {in_toml(name)}") == {"a": name}


def test_no_cell_is_a_formula_and_every_id_comes_back(tmp_path):
    ids = [*HOSTILE, "7", "-7", "+7", "-1.5e3", "'tis", "", "plain"]
    write_rows([{"id": id, "value": -1.5, "who": id} for id in ids], tmp_path / "labels.csv")
    with (tmp_path / "labels.csv").open(newline="", encoding="utf-8") as file:
        cells = [row["id"] for row in csv.DictReader(file)]
    assert [cell for cell in cells if re.match(r"[=+\-@\t\r]", cell)] == ["-7", "+7", "-1.5e3"]
    text = read_csv(tmp_path / "labels.csv", texts=["id", "who"]).columns
    assert text["id"].values.tolist() == text["who"].values.tolist() == ids
    assert "".join(csv_lines(["a"], [[None], ["b"]])) == 'a\n""\nb\n'


def test_ids_and_classes_come_back_from_a_table_of_examples(tmp_path):
    names = [name for name in HOSTILE if name.strip() == name]
    rows = ([name, number, ("=a()", "@b")[number % 2]] for number, name in enumerate(names))
    (tmp_path / "t.csv").write_text("".join(csv_lines(["id", "x", "y"], rows)), encoding="utf-8", newline="")
    found = read_examples(tmp_path / "t.csv", labels="y", ids="id")
    assert found.masks["ids"].tolist() == names
    assert found.classes == ("=a()", "@b")
    assert ids_of(read_csv(tmp_path / "t.csv", texts=["id"]).columns["id"], "id").tolist() == names


def test_an_export_with_a_carriage_return_in_an_id_is_read_by_all(tmp_path):
    pool = natsel.Pool([[0.0], [1.0]], ids=["a\rb", "=c()"])
    with natsel.ActiveLearner(RandomForestClassifier(2), pool, store=tmp_path / "run.db") as learner:
        learner.tell(["a\rb", "=c()"], ["@yes", "no"], who="-me")
        learner.labels().to_csv(tmp_path / "labels.csv")
    assert read_csv(tmp_path / "labels.csv").columns["class"].values.tolist() == ["@yes", "no"]
    with Journal(tmp_path / "run.db") as journal:
        journal.export(tmp_path / "labels.csv")
    assert read_csv(tmp_path / "labels.csv").columns["id"].values.tolist() == ["a\rb", "=c()"]
    with (tmp_path / "labels.csv").open(newline="") as file:
        assert [row["id"] for row in csv.DictReader(file)] == ["a\rb", "'=c()"]


def test_a_terminal_is_told_no_markup_and_no_control_character(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    for width in (1000, 30):
        shown = console()
        shown.print(fitted(text_table(("id", "n"), [(name, str(n)) for n, name in enumerate(HOSTILE)]), width))
        for name in HOSTILE:
            say(f"natsel: {name}")
            shown.print(f"written to {name}", soft_wrap=True)
        told = capsys.readouterr().out
        assert {one for one in told if unicodedata.category(one) in ("Cc", "Zl", "Zp")} == {"\n"}
        assert not set(told) & set("\u202e\u2066\u2069")
        assert all(visible(name) in told for name in HOSTILE if len(name) < 100)
    assert len(set(map(visible, HOSTILE))) == len(HOSTILE)


def test_ids_that_look_like_markup_are_shown_as_they_are(call, refused, tmp_path):  # noqa: F811
    rows = "".join(csv_lines(["id", "a", "b"], [[one, 0.4, 0.6] for one in ("img[left].png", "b[/]", "\x1b[2Jc")]))
    (tmp_path / "p.csv").write_text(rows)
    told = call("select", tmp_path / "p.csv", "--probs", "--single-draw", "--method", "entropy", "-k", "3")
    assert told.code == 0, told
    assert all(one in told.out for one in ("img[left].png", "b[/]", r"\x1b[2Jc"))
    assert "\x1b" not in told.out
    assert r"\x1b[2J.npz" in refused("select", tmp_path / "\x1b[2J.npz", "--probs")


TAGS = {"section", "img", "a", "meta", "b", "h1", "form", "input", "iframe", "base", "script", "table", "svg", "style"}


def tags_of(text):
    page = Page(text)
    for tag, at in page.tags:
        assert not [name for name in at if name.startswith("on") or name in ("srcdoc", "autofocus", "http-equiv")] or (
            tag == "meta" and at["http-equiv"] == "Content-Security-Policy"
        )
        address = at.get("href") or at.get("src") or "#"
        assert address.startswith(("#", "data:image/", "data:text/csv;", "data:application/json;")) or re.fullmatch(
            r"[\w.%~-]+/report\.html", address
        )
    return {tag: sum(one == tag for one, _ in page.tags) for tag in TAGS}


def test_no_name_is_markup_on_the_page_of_a_plan():
    curve = made_curve("random", 0, speed=1.0, sizes=range(20, 41, 10), classes=3, pool=90)
    one = replace(made_experiment(1, 1), curves=[curve], thumbnails={})
    pages = []
    for names in ([f"variant {n}" for n in range(len(HOSTILE))], [*MARKUP, *(set(HOSTILE) - set(MARKUP))]):
        document = {"name": names[0], "about": names[1], "command": names}
        verdicts = [{"claim": one, "says": one, "where": one, "evidence": one, "verdict": "pass"} for one in names]
        variants = {name: replace(one, name=name) for name in names[: len(MARKUP)]}
        pages.append(plan_page(document, variants, verdicts))
    assert tags_of(pages[0]) == tags_of(pages[1])
    assert "base-uri 'none'; form-action 'none'" in pages[0]


def test_no_name_is_markup_on_the_page_of_an_experiment():
    counts = []
    for names in ([f"name {n}" for n in range(len(HOSTILE))], HOSTILE):
        curves = [
            made_curve(f"m {n}", 0, speed=1.0, sizes=range(20, 41, 10), classes=len(names), pool=90, stopped=names[n])
            for n in range(4)
        ]
        curves = [replace(one, method=names[at]) for one, at in zip(curves, (0, 21, 41, 64), strict=True)]
        made = made_experiment(1, 1)
        thumbnails = {id: names[id] for one in curves for id in one.acquired}
        made = replace(
            made,
            curves=curves,
            classes=names,
            name=names[22],
            about=names[23],
            command=names[24],
            notes=names,
            thumbnails=thumbnails,
            versions={names[25]: names[26]},
            recipe={name: name for name in names},
        )
        counts.append(tags_of(report(made)))
    assert counts[0] == counts[1]


def test_no_finding_of_a_study_is_markup(tmp_path, monkeypatch):
    findings = {"rows": [[name] for name in HOSTILE], "by": {name: name for name in HOSTILE}}
    study = {"name": "<b>", "study": "mine", "command": list(HOSTILE), "findings": findings}
    (tmp_path / "study.json").write_text(json.dumps(study))

    class Mine:
        def part(self, name):
            raw = lambda found: "".join(map(str, [*found["rows"], *found["by"], *found["by"].values()]))  # noqa: E731
            return {"claims": lambda found: [], "sections": lambda found: [("a", "b", raw(found))]}[name]

    monkeypatch.setitem(publishing.STUDIES, "mine", Mine())
    monkeypatch.setattr(publishing, "read_plan", lambda folder: json.loads((folder / "study.json").read_text()))
    text = publish(tmp_path).page.read_text(encoding="utf-8")
    assert tags_of(text) == dict.fromkeys(TAGS, 0) | {"section": 2, "a": 2, "meta": 4, "h1": 1, "style": 1}


def test_there_is_one_writer_for_each_format():
    def files(pattern, allowed):
        found = {
            path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py") if re.search(pattern, path.read_text())
        }
        return {path for path in found if not path.startswith(("bench/", "conformance/"))} - allowed

    assert files(r"csv\.(writer|DictWriter)", set()) == set()
    assert files(r"(?m)^ *(from|import) html\b", {"texts.py"}) == set()
    assert files(r"(?m)^ +from rich.console import .*\bConsole$", {"cli/output.py"}) == set()  # of rich
    own_words = {"cli/__init__.py", "cli/bench.py", "cli/data.py", "cli/journal.py", "cli/methods.py"}
    in_commands = {
        path for path in files(r"\n +(print|typer\.echo)\(", {"cli/output.py", *own_words}) if "cli/" in path
    }
    assert in_commands == set()
    assert escape("a\x00\ud800\n<'") == "a\ufffd\ufffd\n&lt;&#x27;"


# Nothing is written outside of the folder.


def test_variants_are_names_and_no_paths(home, refused):  # noqa: F811
    (home.parent / "outside").mkdir()
    before = outside(home)
    for name in (*PATHS[:6], "../other", str(home.parent / "other"), "a\x00b", "\x1b[2J"):
        change(home / "parts" / "plan.json", lambda found, name=name: found.update(variants=[name]))
        assert "plan.json cannot be read (variants[0]: " in refused("report", home / "parts")
    assert outside(home) == before


LINKS = {  # where, to what, the command, and whether it is refused: else the link is replaced or left as it is
    "page": ("texts/report.html", "victim.txt", "report", False),
    "numbers": ("texts/experiment.json", "victim.txt", "report", False),
    "new file": ("texts/report.html", "new.txt", "report", False),
    "variant": ("parts/one", "other", "report", True),
    "method": ("texts/random", "other", "report", True),
    "journal": ("texts/random/seed-0.db", "other/seed-3.db", "report", True),
    "log of SQLite": ("texts/random/seed-0.db-wal", "new.txt", "report", True),
    "lock": ("texts/.lock", "victim.txt", "run", True),
    "logs": ("texts/logs", "other", "run", True),
    "log": ("texts/logs/this-process.log", "victim.txt", "run", True),
    "recipe": ("texts/recipe.json", "victim.txt", "fresh", False),
    "to be removed": ("texts/x", "other", "fresh", False),
    "one to be removed": ("texts/x-1/seed-9.d", "other", "fresh", False),
}


def act_on(home, where, act):
    recipe = SMALL | {"name": "texts", "home": str(home), "data": TEXTS, "model": {"kind": "forest"}}
    if act == "report":
        publish(home / where.partition("/")[0])
    elif act == "fresh":
        prepare(home / "texts", Recipe.from_table(recipe), fresh=True)
    else:
        words = recipe | {"model": {"kind": "text", "draws": 2, "words": 20}, "training": {"max_epochs": 1}}
        run_plan(plan_from(words), home / "texts", processes=0, fresh=True, device="cpu")


@pytest.mark.parametrize("case", LINKS)
def test_what_a_link_leads_to_stays_as_it_is(home, case):
    where, target, act, refuses = LINKS[case]
    place = home / where
    place.parent.mkdir(exist_ok=True)
    if place.is_dir():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    place.symlink_to(home.parent / target)
    before = outside(home)
    with pytest.raises(OSError, match="natsel writes through none") if refuses else nullcontext():
        act_on(home, where, act)
    assert outside(home) == before


def test_a_method_is_no_path(home):
    assert [Contender(name).slug for name in ("..", ".", "../other", "...bald")] == ["-", "-", "--other", "-bald"]
    shutil.copy(home / "texts" / "random" / "seed-0.db", home / "seed-0.db")
    change(home / "texts" / "recipe.json", lambda found: found["recipe"].update(methods=["random", ".."]))
    assert read_experiment(home / "texts", thumbnails=False).methods == ("random",)


def test_the_page_of_a_journal_is_no_way_out(home):
    source = home / "texts" / "random" / "seed-0.db"
    (home / "texts" / "random" / "seed-0.html").symlink_to(home.parent / "victim.txt")
    natsel.report(source)
    assert (home.parent / "victim.txt").read_text() == "mine"
    assert not source.with_suffix(".html").is_symlink()


# A report shows data that are those of the runs.


def test_data_that_have_changed_are_not_shown_as_what_was_picked(home):
    assert set(read_experiment(home / "texts").thumbnails.values()) <= set(WORDS)
    assert read_experiment(home / "texts").thumbnails
    write_texts(home / "t.csv", reversed(range(60)))
    found = read_experiment(home / "texts")
    assert not found.thumbnails
    assert any("shown by its id" in note and "t.csv has changed" in note for note in found.notes)


@pytest.mark.parametrize(("file", "recorded"), [("../secret.csv", True), ("/dev/zero", True), ("ABSOLUTE", False)])
def test_a_folder_opens_no_other_file_of_the_machine(home, file, recorded):
    write_texts(home.parent / "secret.csv", [3, 1, 2, *range(4, 60)])
    file = str(home.parent / "secret.csv") if file == "ABSOLUTE" else file

    def elsewhere(found):
        found["recipe"]["data"]["file"] = file
        if not recorded:
            del found["fingerprints"]

    change(home / "texts" / "recipe.json", elsewhere)
    page = publish(home / "texts").page.read_text(encoding="utf-8")
    assert not any(word in page for word in WORDS)
    assert "shown by its id" in page


# What a folder says about itself is checked like a recipe.

WRONG_PLANS = [
    *({"variants": one} for one in (3, None, [], [1], [""], "one", {"one": 1})),
    *({"name": one} for one in (None, 3, "")),
    *({"claims": one} for one in (3, [3], [{"kind": "none"}])),
    *({"groups": one} for one in ([], {"a": 3}, {"a": [3]}, {"a": ["../b"]})),
    *({"published": one} for one in (3, {"a": 3}, {"a": {"columns": ["x"], "source": 3}})),
    *({"command": one} for one in (3, [3])),
    *({"about": 3}, {"versions": 3}, {"full": "yes"}, {"strange": 1}),
]


def test_a_plan_is_checked_like_a_recipe(home, refused):  # noqa: F811
    place = home / "parts" / "plan.json"
    found = without_digests(json.loads(place.read_text()))
    for said in WRONG_PLANS:
        place.write_text(json.dumps(found | said))
        assert f"plan.json cannot be read ({next(iter(said))}" in refused("report", home / "parts")
    for gone in ("variants", "name"):
        place.write_text(json.dumps({key: value for key, value in found.items() if key != gone}))
        assert f"plan.json cannot be read ({gone}: " in refused("report", home / "parts")


@pytest.mark.parametrize(
    "said",
    [
        *({"study": one} for one in (3, "none", None)),
        *({"findings": one} for one in (3, [1], {"other": 1}, {"table": 3}, {"table": [{}], "map": {}})),
        {"name": 3},
        {"settings": 3},
    ],
    ids=str,
)
def test_a_study_is_checked_like_a_recipe(tmp_path, refused, said):  # noqa: F811
    document = {"name": "a", "about": "", "study": "gp-example", "settings": {}, "findings": {"table": []}}
    (tmp_path / "study.json").write_text(json.dumps(document | said))
    assert "study.json" in refused("report", tmp_path)


def test_what_natsel_writes_passes_its_own_checks(home):
    found = read_plan(home / "parts")
    assert found["variants"] == ("one", "two")
    assert publish(home / "parts").page.is_file()
    assert np.isfinite(publish(home / "texts").experiment.curves[0].sizes[-1])


@pytest.mark.parametrize(
    "said", [{"runs": 3}, {"runs": [{"command": 3}]}, {"fingerprints": 3}, {"runs": [{"device": 1}]}]
)
def test_all_of_recipe_json_is_checked(home, refused, said):  # noqa: F811
    change(home / "texts" / "recipe.json", lambda found: found.update(said))
    assert "recipe.json is no recipe of natsel (" in refused("report", home / "texts")
