"""The example of a plug-in, installed as a package of its own and used everywhere; what a method costs inside natsel.

Each process knows nothing of natsel when it begins: what it knows, it found by itself.
"""

import json
import os
import re
import shutil
import sys
import textwrap
from pathlib import Path

import pytest

import fresh_python
import natsel
from natsel import plugins
from natsel.choose import METHODS
from natsel.experiments.recipe.recipe import Recipe
from natsel.models.kinds import KINDS, register_kind
from natsel.search import SEARCHES, register_search

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "docs" / "examples" / "natsel-familiarity"

RECIPE = """
name = "small"
k = 3
budget = 9
seeds = 1
methods = ["unfamiliar", "random", "margin", {objective = "Unfamiliarity", search = "Softmax", beta = 1}]
initial = {per_class = 1}
data = {set = "iris"}
model = {kind = "gaussian-classes", smoothing = 0.2}
"""


def run(arguments, folder, *paths, named="", code=0):
    """What a process of its own prints; `paths` are where it finds packages besides those installed, `named` is a
    plug-in that the command before it named.
    """
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", plugins.NAMED)}
    environment |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(map(str, paths)), plugins.NAMED: named}
    done = fresh_python.run(arguments, cwd=folder, env=environment)
    assert done.returncode == code, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def python(code, folder, *paths, named=""):
    return run(["-c", textwrap.dedent(code)], folder, *paths, named=named)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with the package, built and installed from a copy of its source without any network."""
    source, folder = tmp_path_factory.mktemp("source") / EXAMPLE.name, tmp_path_factory.mktemp("installed")
    shutil.copytree(EXAMPLE, source, ignore=shutil.ignore_patterns("__pycache__"))
    options = ["install", "-q", "--no-deps", "--no-build-isolation", "--no-index", "--target", folder, source]
    run(["-m", "pip", "--disable-pip-version-check", *options], source)
    return folder


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """A folder with natsel as an installation has it: without its tests."""
    folder = tmp_path_factory.mktemp("library")
    shutil.copytree(ROOT / "src" / "natsel", folder / "natsel")
    return folder


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A belief in a file, written where the module is not installed but named: `--plugin`, in its folder."""
    path = tmp_path_factory.mktemp("saved") / "belief.safetensors"
    printed = python(
        f"""
        from natsel.cli import main
        assert main(["--plugin", "natsel_familiarity", "methods", "--json"]) == 0

        import os
        import natsel
        import natsel_familiarity
        iris = natsel.data.load("iris").train
        belief = natsel_familiarity.GaussianClasses().fit(iris[:12]).believe(iris.inputs[12:])
        belief.with_ids(range(100, 100 + len(belief))).save({str(path)!r})
        assert os.environ[{plugins.NAMED!r}] == "natsel_familiarity"  # workers read it
        """,
        EXAMPLE,
    )
    assert "unfamiliar" in {method["name"] for method in json.loads(printed)}
    return path


def test_the_module_is_short():
    assert len((EXAMPLE / "natsel_familiarity.py").read_text(encoding="utf-8").splitlines()) <= 82


def test_an_installed_plugin_is_everywhere(installed, saved, tmp_path):
    """Found by natsel alone: nothing here imports it before natsel has used it."""
    (tmp_path / "small.toml").write_text(RECIPE, encoding="utf-8")
    python(
        f"""
        import json
        from contextlib import redirect_stdout
        from io import StringIO

        import natsel
        from natsel.cli import main

        def command(*arguments):
            with redirect_stdout(StringIO()) as printed:
                assert main(list(map(str, arguments))) == 0
            return json.loads(printed.getvalue())

        belief = natsel.Belief.load({str(saved)!r})
        assert type(belief).__name__ == "InputDensity"
        assert natsel.methods()["unfamiliar"].beliefs == (type(belief),)
        from natsel_familiarity import DistinctScores, InputDensity, GaussianClasses, Unfamiliarity

        # Scores and picks.
        picks = natsel.select("unfamiliar", belief, k=5, exclude=[100])
        scores_N = natsel.score("unfamiliar", belief)
        assert scores_N.tolist() == (-belief.log_density_N).tolist()
        best = scores_N[1:].topk(5)
        assert picks.ids.tolist() == (best.indices + 101).tolist(), picks
        assert picks.scores.tolist() == best.values.tolist()
        why = picks.explain()
        assert why.information is None and "not available" in str(why)

        # Copies come last; which of two goes first is drawn.
        doubled = InputDensity([2.0, 1.0, 1.0, 0.0, 2.0], belief.log_probs_N_C[:5])
        found = {{tuple(natsel.select("unfamiliar", doubled, k=5, seed=seed)) for seed in range(20)}}
        assert found == {{(3, a, b, 3 - a, 4 - b) for a in (1, 2) for b in (0, 4)}}

        # Other searches, and what the view brings.
        power = natsel.Method(Unfamiliarity(), natsel.Power(beta=1))
        assert len({{tuple(natsel.select(power, belief, k=5, seed=seed)) for seed in range(4)}}) > 1
        assert natsel.select(power, belief, k=5).log_prob < 0
        probs_N_C = belief.log_probs_N_C.exp()
        entropy_N = -(probs_N_C * belief.log_probs_N_C).sum(1)
        assert (natsel.score("entropy", belief) - entropy_N).abs().max() < 1e-9
        assert len(natsel.select("random", belief, k=3)) == len(natsel.select("margin", belief, k=3)) == 3
        try:
            natsel.select("batchbald", belief, k=3)
        except ValueError as refusal:
            assert "EIG cannot be read from InputDensity" in str(refusal), refusal
        else:
            raise AssertionError("one prediction does not say what labels tell about the parameters")

        # Files keep every field.
        belief.save("again.npz")
        again = InputDensity.load("again.npz")
        for name in belief.points:
            assert getattr(again, name).equal(getattr(belief, name)), name
        assert command("select", "again.npz", "-m", "unfamiliar", "-k", 5, "--json")["ids"] == (
            natsel.select("unfamiliar", belief, k=5).ids.tolist()
        )

        # A loop.
        iris = natsel.data.load("iris")
        pool = natsel.Pool(iris.train.inputs, answers=iris.train.labels)
        learner = natsel.ActiveLearner(GaussianClasses(), pool, method="unfamiliar", k=3, test=tuple(iris.test))
        learner.run(budget=24)
        accuracies = [one.metrics["accuracy"] for one in learner.history if one.metrics]
        assert len(accuracies) >= 4 and accuracies[-1] > 0.7, accuracies

        # A recipe, with workers that find the plug-in as this process did.
        result = command("run", "small.toml", "--folder", "out", "--processes", 1, "--device", "cpu", "--json")
        assert result["finished"] == 4 and result["failed"] == [], result
        assert result["methods"]["unfamiliar"]["labels"] == [9], result
        """,
        tmp_path,
        installed,
    )


def test_the_conformance_suite_runs_on_the_plugin(installed, library, tmp_path):
    suite = ["-m", "pytest", "--pyargs", "natsel.conformance", "-p", "no:cacheprovider", "--strict-markers"]
    printed = run([*suite, "-q", "-W", "error", "-k", "InputDensity", "-m", "not slow"], tmp_path, installed, library)
    assert int(re.search(r"(\d+) passed", printed)[1]) > 20, printed
    assert "failed" not in printed


def test_the_conformance_suite_fails_where_the_plugin_is_wrong(installed, library, tmp_path):
    """A density of which the score is not the surprise, with a claim that is not true: the suite finds both. What only
    natsel's own tests know is left out.
    """
    shutil.copytree(installed, tmp_path / "wrong")
    module = tmp_path / "wrong" / "natsel_familiarity.py"
    text = module.read_text(encoding="utf-8")
    for right, wrong in (("-belief.log_density_N", "-2 * belief.log_density_N"), ("=False, cost", "=True, cost")):
        assert text.count(right) == 1
        text = text.replace(right, wrong)
    module.write_text(text, encoding="utf-8")
    suite = ["-m", "pytest", "--pyargs", "natsel.conformance.test_facts", "-p", "no:cacheprovider", "-q"]
    words = "Unfamiliarity or (quick and Margin and declared_quantity)"
    printed = run([*suite, "-k", words, "-m", "not slow"], tmp_path, tmp_path / "wrong", library, code=1)
    assert " 2 skipped" in printed, "Margin, on both beliefs that it is read from"
    failed = set(re.findall(r"FAILED \S*::(\w+)", printed))
    assert failed == {
        "test_scores_are_the_declared_quantity_or_bound_it",
        "test_scores_claimed_to_be_nonnegative_are",
    }, printed


# What goes wrong is said, and does not spread.


def test_a_plugin_that_cannot_be_imported_is_named_in_a_warning_and_left_out(installed, tmp_path):
    broken = tmp_path / "natsel_broken-1.0.dist-info"
    broken.mkdir()
    (broken / "METADATA").write_text("Metadata-Version: 2.1\nName: natsel-broken\nVersion: 1.0\n")
    (broken / "entry_points.txt").write_text("[natsel.plugins]\nbroken = natsel_broken\n")
    (tmp_path / "natsel_broken.py").write_text("raise RuntimeError('out of order')\n")
    (tmp_path / "by_name.py").write_text(
        "import natsel\nnatsel.register(natsel.Method(natsel.Margin(), natsel.TopK(), 'by-name'))\n"
    )
    python(
        """
        import warnings
        import natsel
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            names = set(natsel.methods())
        said = [str(warning.message) for warning in caught]
        assert said == ["the plug-in natsel_broken could not be loaded (out of order); repair it or uninstall it"], said
        assert {"bald", "unfamiliar", "by-name"} <= names

        from natsel.cli import main
        assert main(["--plugin", "natsel_broken", "methods"]) == 2
        """,
        tmp_path,
        installed,
        tmp_path,
        named="by_name",
    )


def test_a_recipe_names_its_plugins(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    Path("another_forest.py").write_text(
        "from natsel.models.kinds import KINDS, register_kind\nregister_kind('another-forest', KINDS['forest'])\n"
    )
    found = {
        "name": "a",
        "data": {"set": "iris"},
        "model": {"kind": "another-forest"},
        "methods": ["bald"],
        "budget": 9,
    }
    with pytest.raises(ValueError, match=r"another-forest"):
        Recipe.from_table(found)
    try:
        recipe = Recipe.from_table(found | {"plugins": ["another_forest"]})
        assert recipe.as_table()["plugins"] == ["another_forest"]  # workers read it
    finally:
        KINDS.pop("another-forest", None)
        sys.modules.pop("another_forest", None)


@pytest.mark.parametrize(
    ("module", "content", "reason"),
    [
        ("nowhere_at_all", None, "No module named 'nowhere_at_all'.*; install it, or go to its folder$"),
        ("lacks_another", "import nowhere_at_all", "No module named 'nowhere_at_all'.*; repair it$"),
        ("takes_a_name", "import natsel; natsel.register(natsel.methods()['bald'])", "'bald' already.*; repair it$"),
        ("is_no_python", "def", "invalid syntax.*; repair it$"),
    ],
)
def test_a_named_module_that_fails_is_refused_with_a_remedy(module, content, reason, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    if content is not None:
        Path(f"{module}.py").write_text(content)
    with pytest.raises(ValueError, match=rf"(?s)^plugin: {module} could not be imported \(.*{reason}"):
        plugins.load(module)
    assert module not in sys.modules


def test_names_that_are_taken_are_refused():
    before = dict(METHODS), list(SEARCHES), dict(KINDS)
    for name, aliases in (("bald", ()), ("eig", ()), ("mine", ("random",))):
        with pytest.raises(ValueError, match=r"^name: .* already; choose another name$"):
            natsel.register(natsel.Method(natsel.Margin(), natsel.TopK(), name, aliases))
    with pytest.raises(ValueError, match=r"^search: there is a search called TopK already"):
        register_search(type("TopK", (), {"needs": natsel.Capability.SCORES}))
    with pytest.raises(ValueError, match=r"^name: 'forest' is a kind of model already"):
        register_kind("forest", KINDS["dropout"])
    assert before == (dict(METHODS), list(SEARCHES), dict(KINDS))


# A method inside natsel: one file for its objective, its import and its entry in the table of names.

GINI = '''"""Gini impurity: 1 − Σ_y p(y|x)²."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from natsel.beliefs import ClassProbabilities
from natsel.objectives.objective import Facts, Objective
from natsel.objectives.reading import Context
from natsel.objectives.readings.pointwise import pointwise


@dataclass(frozen=True)
class Gini(Objective):
    """How likely two labels of a point are to differ."""

    facts: ClassVar[Facts] = Facts("1 - sum p(y|x)²", reason="a probability", units="probability")


@pointwise(Gini, ClassProbabilities)
def _gini(objective: Gini, belief: ClassProbabilities, context: Context[ClassProbabilities]) -> Tensor:
    return 1 - belief.log_probs_N_C.double().exp().square().sum(1)
'''
LINE = '    Method(objective_called("Gini")(), TopK(), "gini", source="Breiman et al. 1984"),\n'
"""What is added to the table in choose/methods.py."""


def test_a_method_of_natsel_is_one_file_and_one_line(tmp_path):
    """In a copy of the source. It is then known to the command line, to select, to every belief that can be viewed as
    the one it is read from, to the grid of the conformance suite and to the page of the grid.
    """
    copy = shutil.copytree(ROOT / "src" / "natsel", tmp_path / "natsel", ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "objectives" / "readings" / "gini.py").write_text(GINI, encoding="utf-8")
    table = copy / "choose" / "methods.py"
    text = table.read_text(encoding="utf-8")
    assert text.count("_NAMED = (\n") == 1
    assert LINE.strip().rstrip(",") in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), "as it is documented"
    table.write_text(text.replace("_NAMED = (\n", "_NAMED = (\n" + LINE), encoding="utf-8")
    printed = python(
        f"""
        import natsel
        assert natsel.__file__.startswith({str(tmp_path)!r})
        from natsel.cli import main
        assert main(["methods", "--json"]) == 0
        draws = natsel.CategoricalSamples.from_probs([[[1.0, 0.0], [0.0, 1.0]], [[0.9, 0.1], [0.9, 0.1]]])
        assert natsel.select("gini", draws, k=1).ids.tolist() == [0]
        assert [round(score, 6) for score in natsel.score("gini", draws).tolist()] == [0.5, 0.18]

        from natsel.cli.grid_page import grid_page
        from natsel.conformance.grid import CASES, READ
        assert "gini" in grid_page()
        assert ("Gini", "ClassProbabilities") in {{(wanted.__name__, kind.__name__) for wanted, kind in READ}}
        assert any(case.method.name == "gini" for case in CASES)
        """,
        tmp_path,
        tmp_path,
    )
    (found,) = (method for method in json.loads(printed) if method["name"] == "gini")
    assert {"CategoricalSamples", "ClassProbabilities"} <= set(found["beliefs"])
    assert found["beliefs"]["CategoricalSamples"]["read_as"] == ["ClassProbabilities"]
