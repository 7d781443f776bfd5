"""Sources: files, folders and data sets of other libraries become examples; what cannot be read is named."""

import builtins
import sys

import numpy as np
import pytest
import torch

from natsel.data import Examples, Pool, from_huggingface, from_torch, image_folder, read_examples, split
from natsel.data.lazy import Lazy


@pytest.fixture
def without(monkeypatch):
    """Makes a module impossible to import, as where an extra is not installed."""

    def hide(name):
        real = builtins.__import__

        def refuse(module, *rest, **more):
            if module.split(".")[0] == name:
                raise ImportError(module)
            return real(module, *rest, **more)

        for module in [one for one in sys.modules if one.split(".")[0] == name]:
            monkeypatch.delitem(sys.modules, module)
        monkeypatch.setattr(builtins, "__import__", refuse)

    return hide


def test_npz_by_usual_and_by_given_names(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.eye(3), y=[2, 0, 1], other=np.zeros(3), names=["c", "a", "b"])
    usual = read_examples(tmp_path / "a.npz", classes=("a", "b", "c"))
    np.testing.assert_array_equal(usual.inputs, np.eye(3))
    assert usual.labels.tolist() == [2, 0, 1]
    given = read_examples(tmp_path / "a.npz", inputs="other", labels="names")
    assert given.inputs.tolist() == [0, 0, 0]
    assert given.labels.tolist() == [2, 0, 1]
    assert read_examples(tmp_path / "a.npz", regression=True).labels.dtype == np.float64
    with pytest.raises(ValueError, match="inputs: there is no 'z'; found x, y, other, names"):
        read_examples(tmp_path / "a.npz", inputs="z")
    np.savez(tmp_path / "b.npz", odd=np.eye(3))
    with pytest.raises(ValueError, match="none of odd has a usual name"):
        read_examples(tmp_path / "b.npz")
    np.savez(tmp_path / "c.npz", x=np.array([{}, {}]))
    with pytest.raises(ValueError, match="pickled"):
        read_examples(tmp_path / "c.npz")


def test_npy_is_mapped_not_read(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(6.0).reshape(3, 2))
    np.save(tmp_path / "y.npy", np.array([1, 0, 1]))
    found = read_examples(tmp_path / "x.npy", labels=tmp_path / "y.npy")
    assert isinstance(found.inputs, np.memmap)
    assert found.labels.tolist() == [1, 0, 1]
    assert torch.from_numpy(found.inputs).sum() == 15  # no warning about memory that cannot be written
    found.inputs[0, 0] = 9
    assert np.load(tmp_path / "x.npy")[0, 0] == 0


CSV = "long,wide,kind,price\n1,2.5,cat,10\n3,4,dog,20\n5,6,,30\n"


def test_csv_columns(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(CSV)
    found = read_examples(path, inputs=["wide", "long"], labels="kind")
    assert found.inputs.tolist() == [[2.5, 1], [4, 3], [6, 5]]
    assert found.inputs.dtype == np.float32
    assert found.labels.tolist() == [0, 1, -1]
    assert found.classes == ("cat", "dog")
    price = read_examples(path, inputs="long", labels="price", regression=True)
    assert price.labels.tolist() == [10.0, 20.0, 30.0]
    assert price.inputs.tolist() == [[1], [3], [5]]
    texts = read_examples(path, inputs="kind", labels="price")
    assert texts.inputs.tolist() == ["cat", "dog", None]
    with pytest.raises(ValueError, match="no column 'wid'; did you mean 'wide'"):
        read_examples(path, inputs="wid")


MIXED = """name,age,rooms,city,old,code,kind
ann,1.5,1,NA,true,007,cat
bob,NA,2,Ulm,false,008,
"c, d",?,,Ulm,,010,dog
"""


def test_gaps_and_texts_beside_numbers_make_a_frame(tmp_path):
    pandas = pytest.importorskip("pandas", reason="needs the extra tables")
    path = tmp_path / "a.csv"
    path.write_text(MIXED)
    found = read_examples(path, labels="kind", ids="code")
    assert found.masks["ids"].tolist() == ["007", "008", "010"]
    assert (found.labels.tolist(), found.classes) == ([0, -1, 1], ("cat", "dog"))
    assert found[[2]].masks["ids"].tolist() == ["010"]
    frame = found.inputs.frame
    assert list(frame.columns) == ["name", "age", "rooms", "city", "old"]
    assert frame["name"].tolist() == ["ann", "bob", "c, d"]
    assert frame["city"].tolist() == ["NA", "Ulm", "Ulm"]  # a word among words
    for name, numbers in {"age": [1.5, None, None], "rooms": [1, 2, None], "old": [1, 0, None]}.items():
        np.testing.assert_array_equal(frame[name], np.array(numbers, dtype=float))
    assert isinstance(read_examples(path, inputs="rooms").inputs.frame, pandas.DataFrame)
    assert read_examples(path, inputs=["name", "kind"]).inputs.frame["kind"].isna().tolist() == [False, True, False]
    pool = Pool(found.inputs, labels=found.labels, classes=found.classes)
    assert len(pool.unlabelled_ids) == 1


def test_without_pandas_gaps_are_nan_and_texts_beside_numbers_are_refused(tmp_path, without):
    path = tmp_path / "a.csv"
    path.write_text(MIXED)
    without("pandas")
    numbers = read_examples(path, inputs=["age", "rooms", "old"])
    np.testing.assert_array_equal(numbers.inputs, np.array([[1.5, 1, 1], [np.nan, 2, 0], [np.nan] * 3], np.float32))
    with pytest.raises(ImportError, match=r"column 'name' holds texts beside other columns.*natsel\[tables\], or name"):
        read_examples(path, labels="kind")
    assert read_examples(path, inputs="city").inputs.tolist() == ["NA", "Ulm", "Ulm"]


@pytest.mark.parametrize(
    ("column", "regression", "expected"),
    [
        ("1,2,0", False, [1, 2, 0]),
        ("1,,0", False, [1, -1, 0]),
        ("1.0,NA,0.0", False, [1, -1, 0]),  # what a program makes of whole numbers with gaps
        ("1,,0", True, [1.0, np.nan, 0.0]),
        ("1.5,,0", False, [1.5, np.nan, 0.0]),
        ("1.0,2.0,0.0", False, [1.0, 2.0, 0.0]),
        ("yes,,no", False, [1, -1, 0]),
        ("True,,False", False, [1, -1, 0]),
    ],
)
def test_gaps_among_labels_are_labels_that_are_not_known(tmp_path, column, regression, expected):
    rows = [f"{place},{field}" for place, field in enumerate(column.split(","))]
    (tmp_path / "a.csv").write_text("\n".join(["x,label", *rows]))
    labels = read_examples(tmp_path / "a.csv", labels="label", regression=regression).labels
    np.testing.assert_array_equal(labels, expected)
    assert labels.dtype == np.array(expected).dtype


def test_ids_are_numbers_where_they_are_written_so_and_each_row_has_one(tmp_path):
    (tmp_path / "a.csv").write_text("id,code,x\n7,7,0\n12,,1\n")
    assert read_examples(tmp_path / "a.csv", ids="id").masks["ids"].dtype == np.int64
    assert read_examples(tmp_path / "a.csv", inputs="x", ids="id").inputs.tolist() == [[0], [1]]
    with pytest.raises(ValueError, match=r"^ids: column 'code' has a gap in row 2"):
        read_examples(tmp_path / "a.csv", ids="code")
    with pytest.raises(ValueError, match="no column 'idd'; did you mean 'id'"):
        read_examples(tmp_path / "a.csv", ids="idd")
    np.savez(tmp_path / "a.npz", x=np.eye(2), names=["b", "a"])
    assert read_examples(tmp_path / "a.npz", ids="names").masks["ids"].tolist() == ["b", "a"]
    with pytest.raises(ValueError, match=r"^ids: there is no 'z'"):
        read_examples(tmp_path / "a.npz", ids="z")
    np.save(tmp_path / "x.npy", np.eye(2))
    np.save(tmp_path / "ids.npy", np.array([5, 6]))
    assert read_examples(tmp_path / "x.npy", ids=tmp_path / "ids.npy").masks["ids"].tolist() == [5, 6]
    with pytest.raises(ValueError, match=r"^ids: images are named by their files"):
        read_examples(tmp_path, ids="id")


def test_rows_of_other_lengths_are_counted_across_blocks(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n" + "1,2\n" * 3000 + "\n1,2,3\n")
    with pytest.raises(ValueError, match=r"^path: row 3001 of a\.csv has 3 fields, the header 2"):
        read_examples(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text("a,b\n" + "1,2\n" * 3000)
    assert read_examples(tmp_path / "a.csv").inputs.shape == (3000, 2)


def test_parquet_keeps_categories_dates_and_columns_that_pandas_calls_an_index(tmp_path):
    pandas = pytest.importorskip("pandas", reason="needs the extra tables")
    pytest.importorskip("pyarrow", reason="needs the extra parquet")
    frame = pandas.DataFrame(
        {
            "city": pandas.Categorical(["Ulm", None]),
            "when": pandas.to_datetime(["2020-01-01", None]),
            "n": [1, 2],
            "label": pandas.array([1, None], dtype="Int64"),
        },
        index=pandas.Index(["u1", "u2"], name="user"),
    )
    frame.to_parquet(tmp_path / "a.parquet")
    found = read_examples(tmp_path / "a.parquet", labels="label", ids="user")
    assert found.inputs.kinds == {"city": "category", "when": "date", "n": "int64"}
    assert found.masks["ids"].tolist() == ["u1", "u2"]
    assert found.labels.tolist() == [1, -1]
    assert list(read_examples(tmp_path / "a.parquet", labels="label").inputs.kinds) == ["city", "when", "n", "user"]
    with pytest.raises(ValueError, match=r"^labels: column 'when' holds dates"):
        read_examples(tmp_path / "a.parquet", labels="when")


def test_a_label_column_of_a_usual_name_never_becomes_an_input_unsaid(tmp_path):
    (tmp_path / "a.tsv").write_text('text\tlabel\n"one, two"\tyes\nthree\tno\n')
    with pytest.raises(ValueError, match=r"^labels: the column 'label' .*labels=\"label\".*labels=None.*inputs=\["):
        read_examples(tmp_path / "a.tsv")
    found = read_examples(tmp_path / "a.tsv", labels="label")
    assert found.inputs.tolist() == ["one, two", "three"]
    assert found.labels.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b\n1\n", "row 1 of a.csv has 1 fields, the header 2"),
        ("a,a\n1,2\n", "two columns of a.csv have the same name"),
        (b"a\n\xff\xfe\n", "line 2 of a.csv is no text in UTF-8"),
    ],
)
def test_tables_that_cannot_be_used_are_refused(tmp_path, content, message):
    (tmp_path / "a.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=message):
        read_examples(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text("label\n1\n")
    with pytest.raises(ValueError, match="no column is left"):
        read_examples(tmp_path / "a.csv", labels="label")


def test_parquet(tmp_path, without):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pyarrow.table(
        {
            "a": [1, 2, 3],
            "kind": pyarrow.array(["x", "y", "x"]).dictionary_encode(),
            "text": ["one", "two", "three"],
            "numbers": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
            "gaps": pyarrow.array([0, None, 1]),
        }
    )
    parquet.write_table(table, tmp_path / "a.parquet")
    found = read_examples(tmp_path / "a.parquet", inputs="a", labels="kind")
    assert found.inputs.tolist() == [[1], [2], [3]]
    assert found.labels.tolist() == [0, 1, 0]
    assert read_examples(tmp_path / "a.parquet", inputs="text").inputs.tolist() == ["one", "two", "three"]
    assert read_examples(tmp_path / "a.parquet", inputs="numbers").inputs.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert read_examples(tmp_path / "a.parquet", inputs="a", labels="gaps", classes=("n", "y")).labels.tolist() == [
        0,
        -1,
        1,
    ]
    without("pyarrow")
    with pytest.raises(ImportError, match=r"natsel\[parquet\]"):
        read_examples(tmp_path / "a.parquet")


def test_unknown_and_absent_files_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"found a\.pkl"):
        read_examples(tmp_path / "a.pkl")
    for ending in ("npz", "npy", "csv"):
        with pytest.raises(ValueError, match="there is no file"):
            read_examples(tmp_path / f"a.{ending}")


@pytest.fixture
def pictures(tmp_path):
    image = pytest.importorskip("PIL.Image")
    for number, name in enumerate(["cat/1.png", "cat/2.png", "dog/deep/3.png", "loose.PNG"]):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        image.fromarray(np.full((4, 6, 3), number * 10, dtype=np.uint8)).save(path)
    (tmp_path / "cat" / "notes.txt").write_text("no image")
    (tmp_path / "empty").mkdir()
    return tmp_path


def test_image_folders_are_read_when_asked_for(pictures, monkeypatch):
    found = read_examples(pictures)
    assert found.classes == ("cat", "dog")
    assert found.labels.tolist() == [0, 0, 1, -1]
    assert found.masks["file"].tolist() == ["cat/1.png", "cat/2.png", "dog/deep/3.png", "loose.PNG"]
    assert found.inputs[[2, 0]].shape == (2, 4, 6, 3)
    assert found.inputs[[2, 0]][:, 0, 0, 0].tolist() == [20, 0]
    (pictures / "cat" / "1.png").write_bytes(b"damaged")
    part = found[[3, 1]]  # does not look at the damaged one, nor at any
    assert part.inputs[:].dtype == np.uint8
    assert np.asarray(part.inputs)[:, 0, 0, 0].tolist() == [30, 10]
    with pytest.raises(ValueError, match=r"1\.png cannot be decoded"):
        found.inputs[:1]


def test_image_folders_resize_and_turn_grey(pictures):
    grey = image_folder(pictures, size=(2, 3), grey=True)
    assert grey.inputs[:].shape == (4, 2, 3)
    from PIL import Image

    Image.fromarray(np.zeros((9, 9, 3), dtype=np.uint8)).save(pictures / "cat" / "9.png")
    with pytest.raises(
        ValueError, match=r"cat/9\.png has shape \(9, 9, 3\), others \(4, 6, 3\); .*image_folder\(path, size="
    ):
        image_folder(pictures).inputs[:]
    assert image_folder(pictures, size=(4, 6)).inputs[:].shape == (5, 4, 6, 3)
    flat = image_folder(pictures / "cat")
    assert flat.labels is None
    assert len(flat) == 3
    with pytest.raises(ValueError, match="holds no images"):
        image_folder(pictures / "empty")
    with pytest.raises(ValueError, match="there is no folder"):
        image_folder(pictures / "nowhere")


def test_image_folders_without_pillow_name_the_extra(pictures, without):
    without("PIL")
    with pytest.raises(ImportError, match=r"natsel\[images\]"):
        image_folder(pictures)


def test_a_pool_over_lazy_inputs_reads_only_what_it_is_asked_for():
    read = []

    def one(position):
        read.append(position)
        return np.array([position], dtype=np.float32)

    train, rest = split(Examples(Lazy(one, 1000), np.arange(1000) % 2), (100, None))
    pool = Pool.with_answers(train, ids=train.masks["row"])
    assert read == []
    chosen = pool.ids[:3]
    pool.label(chosen, pool.answers(chosen))
    assert pool.labelled().inputs[:, 0].tolist() == chosen.tolist()
    assert sorted(read) == sorted(chosen.tolist())
    assert len(rest) == 900
    assert pool.inputs_of([]).shape == (0, 1)
    assert train.inputs[0].shape == (1,)
    assert [row[0] for row in train.inputs.part([1, 2])] == train.masks["row"][1:3].tolist()


def test_torch_data_sets(monkeypatch):
    pairs = torch.utils.data.TensorDataset(torch.arange(6.0).reshape(3, 2), torch.tensor([1, 0, 1]))
    found = from_torch(pairs)
    assert found.labels.tolist() == [1, 0, 1]
    assert found.inputs[[2, 0]].tolist() == [[4, 5], [0, 1]]
    assert found[[2]].inputs[:].tolist() == [[4, 5]]

    class Named(torch.utils.data.Dataset):
        targets, classes, looked = [0, 1], ["cat", "dog"], 0

        def __len__(self):
            return 2

        def __getitem__(self, position):
            self.looked += 1
            return torch.full((3,), float(position)), "unused"

    named = Named()
    found = from_torch(named)
    assert (found.classes, found.labels.tolist()) == (("cat", "dog"), [0, 1])
    assert named.looked == 1  # targets spare a pass over all items
    alone = from_torch([torch.zeros(2), torch.ones(2)], labels=[1, 0])
    assert alone.inputs[1].tolist() == [1, 1]
    assert from_torch([torch.zeros(2)]).labels is None
    with pytest.raises(ValueError, match="a stream must be stored first"):
        from_torch(iter([1]))
    with pytest.raises(ValueError, match="items are dicts of x, y"):
        from_torch([{"x": 1, "y": 2}])


class Feature:
    def __init__(self, names):
        self.names = names


class HuggingFace:
    """As much of a Hugging Face data set as is used: columns by name, rows by number."""

    def __init__(self, columns, names=None, label="label"):
        self.columns, self.features = columns, {label: Feature(names)} if names else {}
        self.column_names = list(columns)

    def __len__(self):
        return len(next(iter(self.columns.values())))

    def __getitem__(self, which):
        return self.columns[which] if isinstance(which, str) else {name: c[which] for name, c in self.columns.items()}


def test_hugging_face_data_sets():
    texts = from_huggingface(HuggingFace({"idx": [7, 8], "text": ["one", "two"], "label": [1, 0]}, ["no", "yes"]))
    assert texts.inputs.tolist() == ["one", "two"]
    assert (texts.labels.tolist(), texts.classes) == ([1, 0], ("no", "yes"))
    numbers = from_huggingface(HuggingFace({"vector": [[1.0, 2.0], [3.0, 4.0]]}), inputs="vector")
    assert numbers.inputs.tolist() == [[1, 2], [3, 4]]
    assert numbers.labels is None
    image = pytest.importorskip("PIL.Image")
    images = [image.fromarray(np.full((2, 2, 3), shade, dtype=np.uint8)) for shade in (0, 9)]
    lazy = from_huggingface(HuggingFace({"img": images, "label": [0, 1]}))
    assert lazy.inputs[[1]].tolist() == np.full((1, 2, 2, 3), 9).tolist()
    splits = HuggingFace({"text": ["a"]})
    splits.column_names = {"train": ["text"], "test": ["text"]}
    with pytest.raises(ValueError, match=r"found the splits train, test; pass one of them, dataset\['train'\]"):
        from_huggingface(splits)
    with pytest.raises(ValueError, match="expected a Hugging Face data set, found list"):
        from_huggingface([])
    with pytest.raises(ValueError, match="none of vector has a usual name"):
        from_huggingface(HuggingFace({"vector": [[1.0]]}))


def test_lazy_inputs_have_a_shape_and_a_text_and_read_no_more_than_one():
    read = []

    def one(position):
        read.append(position)
        return np.zeros((4, 3))

    images = Lazy(one, 1000)
    part = images.part([7, 9])
    assert repr(images) == "Lazy(1000 inputs, read when they are asked for)"
    assert read == []
    assert part.shape == (2, 4, 3)
    assert images.shape == (1000, 4, 3)
    assert read == [7], "one input tells the shape of all parts"
    assert repr(images.part([])) == "Lazy(0 inputs of shape (4, 3), read when they are asked for)"
    assert Lazy(one, 0).shape == (0,)
