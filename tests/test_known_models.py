"""A model is known by what it is: an edit of a user's module finds nothing that was kept, in no store of results, and a
module that was not edited finds everything, in another process too.
"""

import json
import os
import random
import re
import sys
import threading
from collections import deque
from dataclasses import replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
import scipy.sparse
import torch
from sklearn.ensemble import RandomForestClassifier
from torch import nn

import fresh_python
import natsel
from made_models import EDITS, modules
from natsel.experiments.compare import _parts
from natsel.experiments.recipe.recipe import Recipe
from natsel.experiments.running.folder import prepare, with_earlier_runs
from natsel.models import Backbone, Deterministic, Dropout, Training, mlp
from natsel.models.conversion import as_model
from natsel.models.features import embeddings
from natsel.models.features.embeddings import embed
from natsel.models.fingerprints import fingerprint, parts_of
from natsel.store.history import changed_parts

X = np.random.default_rng(0).normal(size=(12, 2)).astype(np.float32)
Y = np.arange(12) % 3
LABELLED = natsel.Examples(X, Y)
RECIPE = {"name": "a", "data": {"given": "x"}, "model": {"kind": "given"}, "methods": ["random"], "budget": 20}
# Of these a fit comes to the same network as before, so that its file is found.
FITTED_ALIKE = ("line of code", "draws", "level", "own kin")
QUICK = ("captured", "penalty", "own model")


def in_a_journal(model, folder):
    """Whether a journal goes on with a model, which is the first one's where there is none."""
    try:
        natsel.ActiveLearner(model, natsel.Pool(X, answers=Y % 2), "random", store=folder / "run.db").close()
    except ValueError as refusal:
        return not re.search("holds a run of another model .*: .* → ", str(refusal))
    return True


def in_a_folder(model, folder):
    """Whether a folder of runs is gone on with."""
    recipe, parts = Recipe.from_table(RECIPE), _parts(model)
    try:
        with_earlier_runs(folder, recipe, parts)
    except ValueError as refusal:
        return not re.search("holds runs of another model .*: .* → ", str(refusal))
    prepare(folder, recipe, parts)
    (folder / "random").mkdir(exist_ok=True)
    (folder / "random" / "seed-0.db").touch()
    return True


def in_a_checkpoint(model, folder):
    """Whether a fit finds a file, or is the first one."""
    before = [*folder.glob("fit-*")]
    model.training = replace(model.training, checkpoint=folder)
    model.fit(LABELLED, seed=1)
    return not before or len([*folder.glob("fit-*")]) == len(before)


class Seen:
    """A function of inputs that holds a model."""

    def __init__(self, model):
        self.model = model

    def __call__(self, rows):
        return rows


def in_embeddings(model, folder):
    """Whether embeddings by a function that holds the model are found, or are the first ones."""
    before = [*folder.glob("mine-*/*.safetensors")]
    embed(Backbone("mine", 2, Seen(model)), X, cache=folder)
    return not before or [*folder.glob("mine-*/*.safetensors")] == before


def stores_of(name, model):
    trained = isinstance(getattr(model, "training", None), Training) and name not in FITTED_ALIKE
    return [in_a_journal, in_a_folder, in_embeddings, *([in_a_checkpoint] if trained else [])]


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        pytest.param(*edit, marks=[] if edit[0] in QUICK else pytest.mark.slow, id=f"{edit[0]}: {edit[2]}"[:50])
        for edit in EDITS
    ],
)
def test_of_an_edited_module_nothing_is_found_again(name, old, new, tmp_path):
    make = partial(lambda *edit: modules(*edit).MODELS[name]())
    for store in stores_of(name, make()):
        folder = tmp_path / store.__name__
        folder.mkdir()
        assert store(make(), folder)
        assert not store(make(old, new), folder)
        if store is not in_embeddings:  # networks are not trained again for these: their first weights count
            assert store(make(), folder)


def test_no_edit_leaves_the_fingerprint_of_a_model_as_it_was():
    before = {name: parts_of(make()) for name, make in modules().MODELS.items()}
    assert len(EDITS) >= 50
    for name, old, new in EDITS:
        found = parts_of(modules(old, new).MODELS[name]())
        assert found[""] != before[name][""], (name, new)
        assert changed_parts(before[name], found) != "in parts that were not noted"


KEPT = [edit for edit in EDITS if edit[0] in ("network", "functional", "plain network", "draws", "hooks")]


@pytest.mark.parametrize(("name", "old", "new"), KEPT)
def test_a_spilled_belief_and_a_name_of_draws_belong_to_one_network(name, old, new, tmp_path):
    weights = modules().MODELS[name]().fit(LABELLED, seed=1).weights()
    one, same, other = (modules(*edit).MODELS[name]().load_weights(weights) for edit in ((), (), (old, new)))
    kept = one.believe(X, spill=tmp_path)
    assert one.believe(X[:5]).draws_id == same.believe(X, spill=tmp_path).draws_id == kept.draws_id
    assert other.believe(X).draws_id != kept.draws_id
    with pytest.raises(ValueError, match="another model"):
        other.believe(X, spill=tmp_path)


@pytest.mark.parametrize("edit", [edit for edit in EDITS if edit[0] in ("transformer", "process")])
def test_draws_of_estimators_are_named_by_all_options(edit):
    name, old, new = edit
    fitted = [as_model(modules(*change).MODELS[name]()).fit(LABELLED) for change in ((), (), (old, new))]
    one, same, other = (model.believe(X).draws_id for model in fitted)
    assert one == same != other


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"likelihood": "gaussian", "noise": 1.0}, {"likelihood": "gaussian", "noise": 0.01}),
        ({"likelihood": "bernoulli"}, {"likelihood": "gaussian", "noise": 1.0}),
        ({"draws": 4}, {"draws": 5}),
    ],
)
def test_what_outputs_mean_belongs_to_the_name_of_draws(one, other, tmp_path):
    network = mlp(2, 1)
    options = {"likelihood": "bernoulli", "device": "cpu"}
    first, second = (Dropout.around(network, **options | more) for more in (one, other))
    assert first.believe(X, spill=tmp_path).draws_id != second.believe(X).draws_id
    with pytest.raises(ValueError, match="another model"):
        second.believe(X, spill=tmp_path)


def test_a_new_process_finds_all_that_was_kept(tmp_path):
    makes = modules().MODELS
    kept = {name: parts_of(make())[""] for name, make in makes.items()}
    stores = {"journal": in_a_journal, "folder": in_a_folder, "checkpoint": in_a_checkpoint}
    for name in stores:
        (tmp_path / name).mkdir()
        assert stores[name](makes["network"](), tmp_path / name)
    makes["network"]().load_weights(with_zeros(makes["network"]())).believe(X, spill=tmp_path / "spill")
    program = """
        import json, sys
        from pathlib import Path
        from test_known_models import *

        makes, folder = modules().MODELS, Path(sys.argv[1])
        stores = {"journal": in_a_journal, "folder": in_a_folder, "checkpoint": in_a_checkpoint}
        found = [store(makes["network"](), folder / name) for name, store in stores.items()]
        model = makes["network"]()
        model.load_weights(with_zeros(model)).believe(X, spill=folder / "spill")
        print(json.dumps([{name: parts_of(make())[""] for name, make in makes.items()}, found]))
    """
    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    ended = fresh_python.run(["-c", dedent(program), tmp_path], env=os.environ | {"PYTHONPATH": paths})
    assert not ended.returncode, ended.stderr
    again, found = json.loads(ended.stdout.splitlines()[-1])
    assert again == kept
    assert all(found)


def with_zeros(model):
    """The weights of a fit that came to nothing but zeros."""
    weights = model.fit(LABELLED).weights()
    return {name: one if "natsel" in name else torch.zeros_like(one) for name, one in weights.items()}


def test_where_code_stands_and_what_it_says_of_itself_make_no_difference():
    before = {name: fingerprint(make()) for name, make in modules().MODELS.items()}
    for old, new in (
        ("import numpy as np\n", "\n\n# moved down\nimport numpy as np\n"),
        ("UNUSED = 1", "UNUSED = 2"),
        ("# level 1", "# another comment"),
        ("What stands inside.", "Another docstring."),
    ):
        assert {name: fingerprint(make()) for name, make in modules(old, new).MODELS.items()} == before


def test_a_changed_model_is_named_in_words(tmp_path):
    def with_hidden(hidden):
        return Dropout(lambda: mlp(2, 2, (hidden,)), 5, Training(max_epochs=1), "cpu")

    pool = natsel.Pool(X, answers=Y % 2)
    natsel.ActiveLearner(with_hidden(8), pool, store=tmp_path / "run.db").close()
    with pytest.raises(ValueError, match=r"of another model \(network.hidden: 8 → 512\); open it as it was"):
        natsel.ActiveLearner(with_hidden(512), pool, store=tmp_path / "run.db")
    options = {"methods": ["random"], "seeds": 1, "budget": 6, "k": 3, "folder": tmp_path / "runs", "test": 0.5}
    events = []
    for _ in range(2):
        natsel.compare(with_hidden(8), pool, **options, progress=events.append)
    assert [event["event"] for event in events if event["event"] in ("done", "skipped")] == ["done", "skipped"]
    with pytest.raises(ValueError, match=r"^model: .*runs holds runs of another model \(network.hidden: 8 → 512\)"):
        natsel.compare(with_hidden(512), pool, **options)


def test_a_recipe_does_not_go_on_with_an_edited_function_of_a_module(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    options = {"methods": ["random"], "seeds": 1, "budget": 6, "k": 3, "folder": tmp_path / "runs", "test": 0.5}
    text = (
        "from sklearn.ensemble import RandomForestClassifier\n\n\ndef make():\n    return RandomForestClassifier({})\n"
    )
    found = []
    for trees in (3, 3, 4):
        (tmp_path / "edited_forest.py").write_text(text.format(trees))
        sys.modules.pop("edited_forest", None)
        sys.path_importer_cache.clear()
        (tmp_path / "__pycache__").is_dir() and [one.unlink() for one in (tmp_path / "__pycache__").iterdir()]
        try:
            natsel.compare({"kind": "python:edited_forest.make"}, natsel.Pool(X, answers=Y % 2), **options)
            found.append("found")
        except ValueError as refusal:
            found.append(str(refusal))
    assert found[:2] == ["found", "found"]
    assert "another model (constants: 3 → 4)" in found[2]


def test_a_network_that_a_function_holds_counts_with_its_weights():
    one, other = nn.Linear(2, 3), nn.Linear(2, 3)
    make = lambda network: Deterministic(lambda: nn.Sequential(network), device="cpu")  # noqa: E731
    assert fingerprint(make(one)) == fingerprint(make(one)) != fingerprint(make(other))
    assert fingerprint(Deterministic(one)) == fingerprint(Deterministic(other))  # which starts afresh in every fit


def test_what_cannot_be_known_is_found_again_by_no_other_process_and_says_so_once():
    class Guarded(RandomForestClassifier):
        def __init__(self, guard=None):
            super().__init__()
            self.guard = guard

    guard = (number for number in range(3))
    with pytest.warns(UserWarning, match="guard: one generator cannot be told from another"):
        one = fingerprint(Guarded(guard))
    assert one == fingerprint(Guarded(guard)) != fingerprint(Guarded(number for number in range(3)))
    assert fingerprint(Guarded(threading.Lock())) == fingerprint(Guarded(threading.Lock()))  # which hold nothing


def of_many_kinds(number):
    """Values that hold a number, of kinds that functions often capture."""
    frame = pytest.importorskip("pandas").DataFrame({"a": [number, 2], "b": ["x", "y"]})
    drawn = np.random.default_rng(number), random.Random(number), torch.ones(number).bfloat16()
    tables = frame, np.ma.array([1, 2], mask=[0, number - 1]), scipy.sparse.eye(number).tocsr(), Path("a" * number)
    return [*drawn, *tables, re.compile("a" * number), deque([number]), attrgetter("a" * number), {"a", number}]


def test_values_of_many_kinds_are_known_by_what_they_hold():
    one, same, other = ([fingerprint(value) for value in of_many_kinds(number)] for number in (1, 1, 2))
    assert one == same
    assert all(mine != another for mine, another in zip(one, other, strict=True))
    assert fingerprint(np.tanh) == fingerprint(np.tanh) != fingerprint(np.sinh)
    before = fingerprint(random.shuffle)
    random.random()  # which moves its state on
    assert fingerprint(random.shuffle) == before


def test_arrays_of_different_lengths_have_embeddings_of_their_own(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    clips = np.empty(4, dtype=object)
    clips[:] = [np.pad(rng.normal(size=1000 + length) * length, 50) for length in (1, 2, 3, 1)]
    clips[3] = clips[0].copy()
    loud = Backbone("loud", 2, lambda some: np.array([[np.std(one), len(one)] for one in some], dtype="f4"))
    found = embed(loud, clips, cache=tmp_path)
    np.testing.assert_allclose(found, loud.embed(clips), rtol=1e-6)
    keys = embeddings.keys(clips)
    assert len(np.unique(keys, axis=0)) == 3
    texts = np.array(["one", "two"], dtype=object)
    assert (embeddings.keys(texts) == embeddings.keys(np.array(["one", "two"]))).all()
