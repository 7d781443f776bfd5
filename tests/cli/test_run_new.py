"""`natsel run --new`: a recipe for a file of one's own, which runs as it is; figures of a report."""

import json
from importlib.util import find_spec

import numpy as np
import pytest

import natsel
from natsel.experiments.recipe.new_recipe import new_recipe
from natsel.experiments.recipe.plan import load_plan
from natsel.experiments.running.build import build_data, build_model


@pytest.fixture
def flowers(tmp_path):
    iris = natsel.data.load("iris").train
    kinds = [iris.classes[label] for label in iris.labels]
    rows = [f"F{n},{','.join(map(str, row))},{kinds[n]}" for n, row in enumerate(iris.inputs)]
    path = tmp_path / "data" / "flowers.csv"
    path.parent.mkdir()
    path.write_text("\n".join(["id,a,b,c,d,sort", *rows]) + "\n")
    return path


def test_from_a_table_to_figures(flowers, tmp_path, call, refused, in_process, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "labels: say which column of flowers.csv" in refused("run", "--new", "my.toml", "--data", flowers)
    done = call("run", "--new", "my.toml", "--data", flowers, "--labels", "sort")
    assert done.code == 0, done.err
    assert "natsel run my.toml" in done.out
    text = (tmp_path / "my.toml").read_text()
    assert 'file = "data/flowers.csv"' in text
    assert 'labels = "sort"' in text
    assert "there is a my.toml already" in refused("run", "--new", "my.toml", "--data", flowers)
    done = call("run", "my.toml", "--seeds", "0", "--methods", "random,bald", "--budget", 13)
    assert done.code == 0, done.err
    assert f"It needs the file {flowers}" in done.err
    assert "medians (saved against random)" in done.out
    report = call("report", "runs/my", "--figures", "figures", "--format", "svg,csv", "--json")
    found = json.loads(report.out)["figures"]
    assert {name.rpartition("/")[2] for name in found} >= {"curves-accuracy.svg", "curves.csv", "labels-saved.csv"}
    assert "format: found 'png'" in refused("report", "runs/my", "--figures", "figures", "--format", "png")
    flowers.rename(tmp_path / "gone.csv")
    assert "needs: the file" in refused("run", "my.toml")


def test_bad_input_is_refused(flowers, tmp_path, refused):
    assert "name both" in refused("run", "--new", tmp_path / "a.toml")
    assert "name both" in refused("run", "--data", flowers)
    assert "ends in .toml" in refused("run", "--new", tmp_path / "a.txt", "--data", flowers)
    assert "there is no file or folder" in refused("run", "--new", tmp_path / "a.toml", "--data", tmp_path / "none.csv")
    assert "no column 'kind'" in refused("run", "--new", tmp_path / "a.toml", "--data", flowers, "--labels", "kind")
    assert "hardly classes" in refused("run", "--new", tmp_path / "a.toml", "--data", flowers, "--labels", "id")
    assert not (tmp_path / "a.toml").exists()


def made(tmp_path, text):
    """The recipe that was written, with its data."""
    path = tmp_path / "made.toml"
    path.write_text(text)
    recipe = load_plan(path).recipes[""]
    return recipe, build_data(recipe)


def test_numbers_texts_and_gaps(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    rows = [f"{a:.3f},{'' if n % 9 == 0 else f'{b:.3f}'},{a + b:.3f}" for n, (a, b) in enumerate(x)]
    (tmp_path / "gaps.csv").write_text("a,b,price\n" + "\n".join(rows) + "\n")
    recipe, setting = made(tmp_path, new_recipe(tmp_path / "gaps.csv", tmp_path / "made.toml", "price"))
    assert setting.regression
    assert recipe.model["kind"] == "sklearn.ensemble.HistGradientBoostingRegressor"
    assert build_model(recipe, setting).members == 10
    sentences = [f"please play song number {n},play" if n % 2 else f"stop it for {n} hours,stop" for n in range(60)]
    (tmp_path / "texts.csv").write_text("said,intent\n" + "\n".join(sentences) + "\n")
    recipe, setting = made(tmp_path, new_recipe(tmp_path / "texts.csv", tmp_path / "made.toml", "intent"))
    assert (recipe.model["kind"], setting.kind, setting.examples.classes) == ("text", "text", ("play", "stop"))
    counts = [f"{n % 3},place {n},{'north' if n % 3 else 'south'},{n % 40}" for n in range(80)]
    (tmp_path / "counts.csv").write_text("a,place,side,visits\n" + "\n".join(counts) + "\n")
    text = new_recipe(tmp_path / "counts.csv", tmp_path / "made.toml", "visits")
    recipe, setting = made(tmp_path, text)
    assert recipe.data.regression
    assert recipe.data.inputs == (("a", "side") if find_spec("pandas") else ("a",))
    assert "Columns of texts are left out: place" in text
    assert len(build_model(recipe, setting).fit(setting.examples[:30]).believe(setting.examples.inputs[:5])) == 5


def test_arrays_and_pictures(tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "arrays.npz", x=rng.normal(size=(40, 3)), y=np.arange(40) % 2)
    recipe, setting = made(tmp_path, new_recipe(tmp_path / "arrays.npz", tmp_path / "made.toml"))
    assert (recipe.model["kind"], setting.examples.n_classes) == ("forest", 2)
    image = pytest.importorskip("PIL.Image")
    for n in range(30):
        place = tmp_path / "pictures" / ("cat" if n % 2 else "dog")
        place.mkdir(parents=True, exist_ok=True)
        image.fromarray(rng.integers(0, 255, (8 + n % 3, 9, 3), dtype=np.uint8)).save(place / f"{n}.png")
    recipe, setting = made(tmp_path, new_recipe(tmp_path / "pictures", tmp_path / "made.toml"))
    assert (recipe.model["kind"], recipe.data.size, setting.kind) == ("frozen", (160, 160), "image")
    assert setting.examples.inputs[[0, 1, 2]].shape == (3, 160, 160, 3)
    assert str(setting.ids[0]).endswith(".png")
