"""Recipes: what ships reads well, slips are refused by name, and a recipe written down reads back as itself."""

from dataclasses import fields, replace

import pytest

from natsel.experiments.recipe.contenders import Contender, contenders, seed_list
from natsel.experiments.recipe.plan import load_plan, plan_from, recipe_names
from natsel.experiments.recipe.recipe import TRAINING, Recipe
from natsel.experiments.running.build import build_training
from natsel.models.networks.augmentation import CropFlip
from natsel.models.networks.training import Training

SMALL = {
    "name": "small",
    "data": {"set": "iris"},
    "model": {"kind": "forest"},
    "methods": ["random", "bald"],
    "budget": 30,
}


def load_recipe(name, **options):
    return load_plan(name, **options).recipes[""]


def recipe_from(found, **options):
    return plan_from(found, **options).recipes[""]


# See test_plan and test_studies.
PLANS = (
    *("boosted-tables", "epig-1d", "epig-2d", "epig-junk", "epig-mnist", "epig-uci", "fisher-mnist", "obi-mnist"),
    *("ddu-cifar10", "ddu-dirty-mnist", "dirty-mnist", "large-batches"),
    *("ddu-scenes", "gde-cifar10"),  # see test_disagreement_study
    *("rho-mnist", "rho-cifar10", "rho-cifar10-cross-fitted", "rho-cifar10n"),  # see test_selective_training
    *("rho-cola", "rho-sst2"),  # see test_selection_texts
    "rho-ladder",  # see test_approximation_ladder
    "label-errors-cifar10n",  # see test_label_errors
    "datadiet-cifar10",  # see test_pruning_curves
    *("causal-synthetic", "causal-ihdp", "causal-mnist"),  # see test_causal_acquisition
    "regression-benchmark",  # see test_regression_benchmark
)
SHIPPED = ("badge-digits", "cifar10-frozen", "clinc150", "digits", "fashion", "mnist", "ocr-letters", "repeated-mnist")


def test_the_promised_recipes_ship():
    assert recipe_names() == sorted((*SHIPPED, *PLANS))


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_recipe_is_whole(name, full):
    recipe = load_recipe(name, full=full)
    assert recipe.name == name
    assert "minute" in recipe.about
    labels = [method.label for method in recipe.methods]
    assert labels[0] == "random"
    assert len({method.slug for method in recipe.methods}) == len(labels)
    assert all(method.build() for method in recipe.methods)
    assert recipe.targets == tuple(sorted(recipe.targets))
    assert len(recipe.seeds) >= 3
    assert Recipe.from_table(recipe.as_table()) == recipe


def test_mnist_in_full_is_the_published_protocol():
    recipe = load_recipe("mnist", full=True)
    assert (recipe.k, recipe.budget, recipe.candidates, len(recipe.seeds)) == (10, 300, None, 6)
    assert recipe.model["draws"] == 100
    assert (recipe.data.train, recipe.data.validation, recipe.data.test) == (None, 1024, None)
    assert (recipe.initial.how, recipe.initial.value) == ("ids", None)
    training = build_training(recipe)
    assert (training.epoch_samples, training.max_epochs, training.patience) == (5056, 30, 3)
    assert {"random", "bald", "batchbald"} <= {method.label for method in recipe.methods}
    repeated = load_recipe("repeated-mnist", full=True)
    assert repeated.data.transforms == ({"kind": "repeated", "copies": 4, "noise": 0.03081},)
    assert (repeated.data.validation, build_training(repeated).weight_decay) == (4096, 5e-4)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"bugdet": 3}, r"bugdet: there is no such key; did you mean 'budget'\?"),
        ({"data": {"set": "iris", "tarin": 3}}, r"data.tarin: .* did you mean 'train'\?"),
        ({"data": {"set": ""}}, "data.set: expected a text, found ''"),
        ({"data": {"train": 3}}, "data.set: the recipe does not say"),
        ({"data": 3}, "data: expected a table"),
        ({"data": {"set": "iris", "transforms": [{"kind": "repeatd"}]}}, r"transforms\[0\].kind: .*'repeated'\?"),
        ({"model": {"kind": "florest"}}, r"model.kind: found 'florest'; did you mean 'forest'\?"),
        ({"model": {"kind": "forest", "draws": 3}}, "model.draws: there is no such key"),
        ({"model": {"kind": "dropout", "network": "cnn"}}, "model.network: found 'cnn'; .*mnist-cnn"),
        ({"training": {"preset": "batchbold"}}, r"training.preset: .*did you mean 'batchbald'\?"),
        ({"training": {"max_epochs": 0}}, "training.max_epochs: expected a whole number from 1 up, found 0"),
        ({"k": 2.5}, "k: expected a whole number from 1 up, found 2.5"),
        ({"k": True}, "k: expected a whole number"),
        ({"targets": [-1.5]}, r"targets\[0\]: expected a number from 0 to inf, found -1.5"),
        ({"data": {"set": "iris", "file": "a.csv"}}, "data.file: found beside set; name one of them"),
        ({"data": {"set": "iris", "labels": "y"}}, "data.labels: found 'y', which is for a file"),
        ({"data": {"set": "iris", "test": 0.3}}, "data.test: found 0.3, which is for a file"),
        ({"data": {"file": "a.csv", "test": 1.5}}, "data.test: expected a share between 0 and 1"),
        ({"data": {"file": "a.csv", "size": [8]}}, r"data.size: expected \[height, width\], found \[8\]"),
        ({"model": {"kind": "my_module.make", "trees": 3}}, "model.trees: there is no such key"),
        ({"model": {"kind": "my_module.make", "parameters": 3}}, "model.parameters: expected a table"),
        ({"methods": []}, "methods: expected a list of 1 or more"),
        ({"methods": ["bald", "bald"]}, "methods: bald is named twice"),
        ({"methods": [{"method": "bald", "search": "Power"}]}, r"methods\[0\]: give either method, or both"),
        ({"methods": [{"objective": "EIG"}]}, r"methods\[0\]: give either method, or both"),
        ({"methods": [3]}, r"methods\[0\]: expected a method's name or a table, found 3"),
        ({"seeds": [1, 1]}, r"seeds: found \[1, 1\]; name each once"),
        ({"initial": {"per_class": 1, "count": 3}}, "initial: expected one of"),
        ({"initial": {"count": 40}}, "budget: 30 labels are no more than the 40"),
        ({"candidates": "some"}, "candidates: expected a whole number from 1 up, found 'some'"),
        ({"full": {"budget": "lots"}}, "^full.budget: expected a whole number from 1 up, found 'lots'"),
        ({"data": {"set": "iris", "transforms": [{"kind": "imbalanced"}]}}, r"transforms\[0\].shares: .* does not say"),
        ({"data": {"set": "iris", "transforms": [{"kind": "repeated", "copies": 2}]}}, r"transforms\[0\].noise: "),
        ({"name": "../a"}, "name: '../a' reads as a path; write it without slashes"),
        ({"name": ".."}, "name: '..' reads as a path"),
        ({"seeds": "0-3"}, r"seeds: expected how many, or a list, found '0-3'; .* write 4 or \[0, 1, 2, 3\]"),
        ({"full": 3}, "full: expected a table"),
    ],
)
def test_a_slip_is_refused_by_name(change, words):
    with pytest.raises(ValueError, match=words):
        recipe_from(SMALL | change)


@pytest.mark.parametrize("key", ["name", "data", "model", "methods", "budget"])
def test_what_must_be_said_is_asked_for(key):
    with pytest.raises(ValueError, match=f"^{key}: the recipe does not say"):
        recipe_from({name: value for name, value in SMALL.items() if name != key})


def test_full_is_laid_over_the_rest():
    found = SMALL | {"model": {"kind": "dropout", "draws": 5, "network": "mlp"}, "initial": {"per_class": 1}}
    found["full"] = {"budget": 50, "model": {"draws": 100}, "initial": {"count": 4}}
    assert recipe_from(found).budget == 30
    full = recipe_from(found, full=True)
    assert (full.budget, full.initial.how) == (50, "count")
    assert full.model == {"kind": "dropout", "draws": 100, "network": "mlp"}
    found["full"]["model"] = {"kind": "forest", "trees": 7}
    assert recipe_from(found, full=True).model == {"kind": "forest", "trees": 7}


def test_files_of_ones_own(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('name = "mine"\nmethods = ["bald"]\nbudget = 9\nseeds = 2\ndata = {set = "iris"}\n'
                    'model = {kind = "forest"}\n')  # fmt: skip
    assert load_recipe(path).seeds == (0, 1)
    path.write_text("name = ")
    with pytest.raises(ValueError, match="is no TOML"):
        load_recipe(path)
    with pytest.raises(ValueError, match=r"there is no file .*other\.toml"):
        load_recipe(tmp_path / "other.toml")
    with pytest.raises(ValueError, match=r"no recipe or file 'mnits'; did you mean 'mnist'\?"):
        load_recipe("mnits")


def test_contenders():
    four = Contender.from_table({"method": "power-bald", "beta": 4, "k": 5})
    assert (four.label, four.slug) == ("power-bald β=4 k=5", "power-bald-beta-4-k-5")
    method = four.build()
    assert (method.name, method.search.beta) == ("power-bald β=4", 4.0)
    built = Contender.from_table({"objective": "Entropy", "search": "SoftRank", "beta": 2}).build()
    assert (type(built.objective).__name__, type(built.search).__name__, built.search.beta) == (
        "Entropy",
        "SoftRank",
        2,
    )
    with pytest.raises(ValueError, match="beta: bald β=4 searches by TopK, which takes none"):
        Contender("bald", beta=4.0).build()
    with pytest.raises(ValueError, match=r"objective: there is no 'Entropie'; did you mean 'Entropy'\?"):
        Contender(objective="Entropie", search="TopK").build()
    with pytest.raises(ValueError, match="no method is called 'batchbold'"):
        Contender("batchbold").build()


def test_contenders_on_a_command_line():
    known = (Contender.from_table({"method": "power-bald", "beta": 4}),)
    assert contenders("power-bald-beta-4", known) == known
    assert contenders("power-bald β=4", known) == known
    assert contenders("power-bald:beta=4", known) == known
    assert [one.label for one in contenders(" bald, batchbald:k=5,")] == ["bald", "batchbald k=5"]
    for wrong in ("bald:bate=4", "bald:k=many", ","):
        with pytest.raises(ValueError, match=r"^methods: "):
            contenders(wrong)
    assert seed_list("3, 0-2,1") == (3, 0, 1, 2)
    with pytest.raises(ValueError, match="seeds: found 'a'"):
        seed_list("0,a")
    with pytest.raises(ValueError, match="seeds: '4-2' counts down; write 2-4"):
        seed_list("0, 4-2")


@pytest.mark.parametrize("key", ["methods", "seeds"])
def test_an_experiment_without_runs_is_refused(key):
    with pytest.raises(ValueError, match=f"{key}: found none; name one or more"):
        replace(recipe_from(SMALL), **{key: ()})


def test_recipes_know_the_settings_of_training():
    names = {field.name for field in fields(Training)}
    assert set(TRAINING) - {"preset"} <= names
    recipe = replace(load_recipe("mnist"), training={"learning_rate": 0.1, "epoch_samples": None})
    assert build_training(recipe) == Training(learning_rate=0.1)


def test_recipes_name_networks_and_how_they_are_trained_for_long():
    long = {"optimiser": "sgd", "nesterov": True, "schedule": "steps", "drops": [0.3, 0.6], "augmentation": "crop-flip"}
    model = {"kind": "ensemble", "network": "resnet18", "spectral": 3, "sensitive": True}
    recipe = recipe_from(SMALL | {"model": model, "training": long})
    assert Recipe.from_table(recipe.as_table()) == recipe
    assert (recipe.model["spectral"], recipe.model["sensitive"]) == (3.0, True)
    expected = Training(optimiser="sgd", nesterov=True, schedule="steps", drops=(0.3, 0.6), augmentation=CropFlip())
    assert build_training(recipe) == expected
    with pytest.raises(ValueError, match=r"model.sensitive: expected true or false, found 'yes'"):
        recipe_from(SMALL | {"model": model | {"sensitive": "yes"}})
