"""Tables, series, lists and folders as people have them: each becomes the right pool, or is refused in one sentence
that names the row and what to do. None is quietly read as something else.

A case is a name, what makes the pool, and what comes of it: the inputs, the labels (None where there is none, classes
by name), the ids and whether labels are numbers, or a pattern of the refusal.
"""

import decimal
import re
import warnings

import numpy as np
import pytest

from natsel import Pool

pandas = pytest.importorskip("pandas", reason="needs the extra tables")
CASES = []


def case(name, expected, make, *arguments, **named):
    CASES.append(pytest.param(make, arguments, named, expected, id=name))


def csv(folder, content, file="t.csv", encoding="utf-8", regressor=False, **named):
    (folder / file).write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
    return given(folder, folder / file, regressor=regressor, **named)


def given(folder, data, *rest, regressor=False, **named):
    pool = Pool(data, *rest, **named)
    if regressor:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            pool.expect_numbers()
    return pool


def frame(folder, columns, index=None, **named):
    return given(folder, pandas.DataFrame(columns, index=index), **named)


def parquet(folder, columns, **named):
    pytest.importorskip("pyarrow", reason="needs the extra parquet")
    pandas.DataFrame(columns).to_parquet(folder / "t.parquet")
    return given(folder, folder / "t.parquet", **named)


def listed(folder, labels, **named):
    return given(folder, np.arange(float(len(labels)))[:, None], labels, **named)


def told(folder, values, **named):
    pool = Pool(np.zeros((len(values), 1)), **named)
    pool.label(pool.ids, values)
    return pool


def pictures(folder, sizes, look=True, **more):
    image = pytest.importorskip("PIL.Image", reason="needs the extra images")
    for name, size in sizes.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if isinstance(size, bytes):
            (folder / name).write_bytes(size)
        else:
            image.fromarray(np.zeros((*size, 3), dtype=np.uint8)).save(folder / name)
    pool = Pool(folder, **more)
    if look:
        pool.inputs[:]
    return pool


def seen(pool):
    """A pool in plain values."""
    rows = pool.inputs
    if hasattr(rows, "frame"):
        rows = [[None if one is None or one != one else one for one in row.values()] for row in rows]
    labels = [None] * len(pool)
    for id, label in zip(pool.labelled_ids, pool.labels_of(pool.labelled_ids).tolist(), strict=True):
        labels[pool.position_of([id])[0]] = pool.classes[label] if pool.classes else label
    plain = [one.tolist() if hasattr(one, "tolist") else one for one in rows]
    return {"inputs": plain, "labels": labels, "ids": list(pool.ids), "regression": pool.regression}


# Separators, encodings and the outside of files.

TWO = {"inputs": [[1.0, 2.5], [3.0, 4.0]], "labels": ["a", "b"]}
case("commas", TWO, csv, "x,z,kind\n1,2.5,a\n3,4,b\n", labels="kind")
case("semicolons with decimal commas", TWO, csv, "x;z;kind\n1;2,5;a\n3;4,0;b\n", labels="kind")
case("tabs in a .csv", TWO, csv, "x\tz\tkind\n1\t2.5\ta\n3\t4\tb\n", labels="kind")
case("tabs in a .tsv", TWO, csv, "x\tz\tkind\n1\t2.5\ta\n3\t4\tb\n", "t.tsv", labels="kind")
case("bars", TWO, csv, "x|z|kind\n1|2.5|a\n3|4|b\n", labels="kind")
case("sep= as Excel writes it", TWO, csv, 'sep=;\r\nx;z;kind\r\n1;"2,5";a\r\n3;4;b\r\n', labels="kind")
case("a mark of UTF-8", TWO, csv, "x;z;kind\n1;2,5;a\n3;4;b\n", encoding="utf-8-sig", labels="kind")
case("UTF-16 as Excel's Unicode text", TWO, csv, "x\tz\tkind\n1\t2,5\ta\n3\t4\tb\n", encoding="utf-16", labels="kind")
case("an ending in capitals", TWO, csv, "x,z,kind\n1,2.5,a\n3,4,b\n", "T.CSV", labels="kind")
case("spaces after the commas of the header", TWO, csv, "x, z, kind\n1,2.5,a\n3,4,b\n", labels="kind")
case("blank lines", TWO, csv, "x,z,kind\r\n1,2.5,a\r\n\r\n3,4,b\r\n\r\n", labels="kind")
case("separators at the ends of lines", TWO, csv, "x,z,kind,,\n1,2.5,a,,\n3,4,b,,\n", labels="kind")
case("separators at the ends of rows alone", TWO, csv, "x;z;kind\n1;2,5;a;\n3;4;b;\n", labels="kind")
case("rows of separators below the table", TWO, csv, "x,z,kind\n1,2.5,a\n3,4,b\n,,\n,,\n", labels="kind")
case(
    "Latin-1",
    r"^path: line 3 of t\.csv is no text in UTF-8; save",
    csv,
    "x,k\n1,a\n2,é\n",
    encoding="cp1252",
    labels="k",
)
case(
    "UTF-16 without a mark",
    r"^path: line 1 of t\.csv is no text in UTF-8; save",
    csv,
    "x,k\n1,a\n",
    encoding="utf-16-le",
    labels="k",
)
case(
    "a workbook called .csv",
    r"^path: line 1 of t\.csv is no text in UTF-8; save",
    csv,
    b"PK\x03\x04\x14\x00\x06\x00",
    labels="k",
)
case("a workbook", r"^path: expected .*\.csv.* found t\.xlsx; save", csv, b"PK\x03\x04\x14\x00", "t.xlsx", labels="k")
case("an empty file", r"^path: t\.csv has no rows; write", csv, "", labels="k")
case("a header alone", r"^path: t\.csv has no rows; write", csv, "x,k\n", labels="k")
case("a row that is short", r"^path: row 2 of t\.csv has 1 fields, the header 2; put", csv, "x,k\n1,a\n2\n", labels="k")
case(
    "an address with a comma",
    r"^path: row 2 of t\.csv has 3 fields, the header 2; put",
    csv,
    "x,k\n1,a\n2,b, c\n",
    labels="k",
)
case(
    "one more in all rows",
    r"^path: row 1 of t\.csv has 3 fields, the header 2; put",
    csv,
    "x,k\n1,a,7\n2,b,8\n",
    labels="k",
)
case(
    "quoted commas, quotes and lines",
    {"inputs": ["one, two", 'a "b"\nc'], "labels": ["a", "b"]},
    csv,
    'text,k\n"one, two",a\n"a ""b""\nc",b\n',
    labels="k",
)
case(
    "a quote that is not closed",
    r"^path: line 4 of t\.csv is no CSV .*; close its quotes",
    csv,
    'text,k\n"one,a\ntwo,b\nthree,c\n',
    labels="k",
)
case(
    "two readings of separators",
    r"^path: t\.csv may be separated by ',' or by ';'; .*sep=,",
    csv,
    "a,b;k\n1,5;2\n",
    labels="k",
)
case(
    "two columns of one name",
    r"^path: two columns of t\.csv have the same name, 'x'; rename one",
    csv,
    "x,x,k\n1,2,a\n",
    labels="k",
)
case(
    "the index that pandas writes",
    r"^inputs: a column has no name; give it one .*ids=''",
    csv,
    ",x,k\n0,1,a\n1,2,b\n",
    labels="k",
)
case("that index as ids", {"inputs": [[1.0], [2.0]], "ids": [5, 3]}, csv, ",x,k\n5,1,a\n3,2,b\n", labels="k", ids="")
case("a folder's name for a file", r"^inputs: there is no file or folder 'nowhere\.csv'; check", given, "nowhere.csv")

# Which column is what.

case(
    "a column called y",
    r"^labels: the column 'y' .*\(labels=\"y\"\).*labels=None.*\(inputs=\[",
    csv,
    "x,y,price\n1,2,10\n3,4,20\n",
)
case(
    "a column called Label", r"^labels: the column 'Label' .*\(labels=\"Label\"\)", csv, "x,Label\n1,a\n3,b\n", ids="x"
)
case(
    "a column called target in a frame", r"^labels: the column 'target' .*labels=None", frame, {"x": [1], "target": [2]}
)
case(
    "a column called class in Parquet", r"^labels: the column 'class' .*labels=None", parquet, {"x": [1], "class": [2]}
)
case(
    "y is no label",
    {"inputs": [[1.0, 2.0]], "labels": [10], "regression": True},
    csv,
    "x,y,price\n1,2,10\n",
    labels="price",
    regression=True,
)
case("y is said to be an input", {"inputs": [[2.0]], "labels": [None]}, csv, "x,y\n1,2\n", labels=None, inputs=["y"])
case(
    "y is left out",
    {"inputs": [[1], [2]], "labels": [None, None]},
    frame,
    {"x": [1, 2], "y": [0, 1]},
    labels=None,
    inputs="x",
)
case(
    "a column that is not there", r"^labels: there is no 'prize'; found x, price", csv, "x,price\n1,2\n", labels="prize"
)
case(
    "an input that is not there",
    r"^columns: there is no column 'aeg'; did you mean 'age'",
    frame,
    {"age": [1]},
    inputs=["aeg"],
)
case(
    "two columns of one name in a frame",
    r"^inputs: two columns .* named 'x'; rename",
    lambda folder: Pool(pandas.DataFrame([[1, 2]], columns=["x", "x"]), labels="x"),
)

# Ids.

case("ids that begin with zeros", {"ids": ["007", "010"]}, csv, "id,x\n007,1\n010,2\n", ids="id")
case(
    "an id that is there twice",
    r"^ids: column 'id': 'a' appears twice \(rows 1 and 3\); give",
    csv,
    "id,x\na,1\nb,2\na,3\n",
    ids="id",
)
case(
    "an id twice in a frame",
    r"^ids: column 'id': 7 appears twice \(rows 0 and 2\); give",
    frame,
    {"id": [7, 8, 7], "x": [1, 2, 3]},
    ids="id",
)
case("an id that is missing", r"^ids: column 'id' has a gap in row 2; give", csv, "id,x\na,1\n,2\n", ids="id")
case(
    "ids that a program made 1.0",
    r"^ids: .*expected integers or names, found float64; .*text",
    parquet,
    {"id": [1.0, 2.0], "x": [1, 2]},
    ids="id",
)
case(
    "an index that was shuffled",
    {"inputs": [[1], [2], [3]], "ids": [2, 0, 1]},
    frame,
    {"x": [1, 2, 3]},
    index=[2, 0, 1],
)
case(
    "an index of several levels",
    {"ids": [("a", 1), ("b", 2)]},
    frame,
    {"x": [1, 2]},
    index=pandas.MultiIndex.from_tuples([("a", 1), ("b", 2)]),
)
case(
    "an index with an entry twice",
    r"^ids: the index of the table has an entry twice; pass ids",
    frame,
    {"x": [1, 2]},
    index=["a", "a"],
)

# Numbers as labels.

FIVE = "id,x,price\n" + "".join(f"r{n},{n},{100 + 7 * n if n < 2 else ''}\n" for n in range(4))
GAPS = {"labels": [100.0, 107.0, None, None], "regression": True, "ids": ["r0", "r1", "r2", "r3"]}
case("gaps in a file of whole prices", GAPS, csv, FIVE, labels="price", ids="id", regression=True)
case("gaps in a file, and a regressor", GAPS, csv, FIVE, labels="price", ids="id", regressor=True)
case(
    "the same as a frame",
    GAPS | {"ids": [0, 1, 2, 3]},
    frame,
    {"x": range(4), "price": [100, 107, None, None]},
    labels="price",
    regressor=True,
)
case("whole classes with gaps", {"labels": [1, None, 0], "regression": False}, csv, "x,k\n1,1\n2,\n3,0\n", labels="k")
case("degrees below zero", {"labels": list(range(-3, 3)), "regression": True}, listed, list(range(-3, 3)))
case("degrees and a regressor", {"labels": [-1.0, 0.0, 1.0], "regression": True}, listed, [-1, 0, 1], regressor=True)
case(
    "degrees below zero in a file",
    {"labels": [-20.0, None, 5.0], "regression": True},
    csv,
    "x,t\n1,-20\n2,\n3,5\n",
    labels="t",
)
case("−1 among classes", {"labels": [0, None, 1], "regression": False}, listed, [0, -1, 1])
case(
    "−2 among classes",
    r"^labels: found class -2 in row 1, and 3 points .*check it",
    listed,
    [0, -2, 1],
    regression=False,
)
case(
    "thousands and decimals",
    {"labels": [1046.5, 999.0], "regression": True},
    csv,
    'x,p\n1,"1,046.50"\n2,"999.00"\n',
    labels="p",
)
case(
    "thousands with a comma, and a column that says so",
    {"labels": [1046.0, 3.5]},
    csv,
    'x,p\n1,"1,046"\n2,3.5\n',
    labels="p",
)
case(
    "thousands with a comma, and a doubt",
    r"^labels: column 'p': '1,046' in row 1 may be 1046 or 1\.046; write",
    csv,
    'x,p\n1,"1,046"\n2,999\n',
    labels="p",
    regression=True,
)
case(
    "the same without regression",
    r"^labels: column 'p': '1,046' in row 1 may be",
    csv,
    'x,p\n1,"1,046"\n2,999\n',
    labels="p",
)
case(
    "a point between semicolons, and a doubt",
    r"^labels: column 'p': '1\.046' in row 1 may be 1046 or 1\.046",
    csv,
    "x;p\n1;1.046\n2;999\n",
    labels="p",
    regression=True,
)
case(
    "thousands with spaces",
    {"labels": [1046.0, 12300.0]},
    csv,
    "x,p\n1,1 046\n2,12\u202f300\n",
    labels="p",
    regression=True,
)
case("thousands with apostrophes", {"labels": [1046.5, 3.0]}, csv, "x,p\n1,1'046.5\n2,3\n", labels="p", regression=True)
case("euros", {"labels": [1046.5, 3.0]}, csv, "x;p\n1;€ 1.046,50\n2;€ 3,00\n", labels="p", regression=True)
case("percent", {"labels": [12.5, 7.0]}, csv, "x,p\n1,12.5 %\n2,7 %\n", labels="p", regression=True)
case(
    "numbers of two forms",
    r"^labels: column 'p': found '1,046' in row 1 and '1\.046,5' in row 3, two forms",
    csv,
    "x;p\n1;1,046\n2;3\n3;1.046,5\n",
    labels="p",
    regression=True,
)
case(
    "money of two kinds",
    r"^labels: column 'p': found '€ 5' in row 1 and '\$ 5' in row 2, two forms",
    csv,
    "x,p\n1,€ 5\n2,$ 5\n",
    labels="p",
    regression=True,
)
case(
    "a word among prices",
    r"^labels: column 'p': expected real numbers, found 'ask' in row 2; correct it",
    csv,
    "x,p\n1,5\n2,ask\n3,6\n",
    labels="p",
    regression=True,
)
case(
    "a word among numbers",
    r"^labels: column 'p' holds '\?\?' in row 2, .*; empty the field",
    csv,
    "x,p\n1,5.5\n2,??\n3,6.5\n",
    labels="p",
)
case(
    "prices as texts in a frame",
    {"labels": [1046.5, 7.0], "regression": True},
    frame,
    {"x": [1, 2], "p": ["1.046,50", "7,00"]},
    labels="p",
    regression=True,
)
case(
    "the same, and nobody says numbers",
    r"^labels: found '1\.046,50' in row 0, a number as a text; .*regression=True",
    frame,
    {"x": [1, 2], "p": ["1.046,50", "7,00"]},
    labels="p",
)
case("prices as texts in a list", {"labels": [1046.0, None]}, listed, ["1 046", ""], regression=True)
case("a price as a text told", r"^labels: found '1,046\.50' in row 0, a number as a text", told, ["1,046.50"])
case("decimals of money", {"labels": [1.5, None], "regression": True}, listed, [decimal.Decimal("1.5"), None])
case(
    "decimals of money under regression",
    {"labels": [1.5, 2.0]},
    listed,
    [decimal.Decimal("1.5"), decimal.Decimal(2)],
    regression=True,
)
case("an infinite label", r"^labels: found inf in row 1; check it", listed, [1.5, np.inf], regression=True)
case("an infinite answer", r"^answers: found inf in row 1; check it", given, np.zeros((2, 1)), answers=[1.5, np.inf])
case("complex numbers", r"^labels: expected .* numbers, found complex128", listed, [1 + 2j, 0j])
case(
    "dates as labels",
    r"^labels: expected .* numbers, found datetime64",
    frame,
    {"x": [1], "d": pandas.to_datetime(["2020-01-01"])},
    labels="d",
)
case("whole numbers beyond 64 bits", r"^labels: integers must lie in .*number them anew", listed, [2**70, 0])

# Classes as labels, and gaps among them.

case("empty texts", {"labels": ["a", "b", None, None], "regression": False}, listed, ["a", "b", "", np.nan])
case("an empty text told", r"^values: found no label for an id", told, ["a", ""])
case("spaces in a field of a file", {"labels": ["a", None]}, csv, "x,k\n1,a\n2, \n", labels="k")
case("errors of Excel among classes", {"labels": ["a", None, "b"]}, csv, "x,k\n1,a\n2,#N/A\n3,b\n", labels="k")
case(
    "errors of Excel among numbers",
    {"inputs": [[1.0], [None]], "labels": [1.5, None]},
    csv,
    "x,p\n1,1.5\n#DIV/0!,#VALUE!\n",
    labels="p",
)
case(
    "NA among classes",
    r"^labels: column 'k' holds 'NA' in row 2, which may be a gap .*classes=",
    csv,
    "x,k\n1,a\n2,NA\n3,b\n",
    labels="k",
)
case("NA that is a class", {"labels": ["a", "NA"]}, csv, "x,k\n1,a\n2,NA\n", labels="k", classes=("a", "NA"))
case(
    "names and numbers",
    r"^labels: found 0 in row 1 beside names; write names or numbers alone",
    listed,
    ["a", 0, None],
)
case("True and False", {"labels": ["True", "False", None]}, csv, "x,k\n1,True\n2,False\n3,\n", labels="k")
case(
    "Int64 with gaps",
    {"labels": [1, None, 0], "regression": False},
    frame,
    {"x": [1, 2, 3], "k": pandas.array([1, None, 0], dtype="Int64")},
    labels="k",
)
case(
    "boolean with gaps",
    {"labels": [1, None]},
    frame,
    {"x": [1, 2], "k": pandas.array([True, None], dtype="boolean")},
    labels="k",
)
case(
    "string with gaps",
    {"labels": ["a", None]},
    frame,
    {"x": [1, 2], "k": pandas.array(["a", None], dtype="string")},
    labels="k",
)
case(
    "categories",
    {"labels": ["b", "a", None]},
    frame,
    {"x": [1, 2, 3], "k": pandas.Categorical(["b", "a", None])},
    labels="k",
)
case(
    "categories in Parquet",
    {"labels": ["b", None]},
    parquet,
    {"x": [1, 2], "k": pandas.Categorical(["b", None])},
    labels="k",
)
case(
    "whole numbers with gaps in Parquet",
    {"labels": [2.0, None]},
    parquet,
    {"x": [1, 2], "k": pandas.array([2, None], dtype="Int64")},
    labels="k",
    regressor=True,
)
case(
    "names, and a regressor",
    r"^pool: the model predicts real numbers, but labels are classes such as 'a'; use",
    listed,
    ["a", "b"],
    regressor=True,
)

# Inputs.

case(
    "gaps and words among inputs",
    {"inputs": [[1.5, "ulm"], [None, "bonn"]]},
    csv,
    "age,city,k\n1.5,ulm,a\nNA,bonn,b\n",
    labels="k",
)
case("inputs with decimal commas", {"inputs": [[1.5], [2.0]]}, csv, "x;k\n1,5;a\n2,0;b\n", labels="k")
case("inputs in doubt", r"^inputs: column 'x': '1,046' in row 1 may be", csv, 'x,k\n"1,046",a\n"2,300",b\n', labels="k")
case(
    "a column in doubt that is not used",
    {"inputs": [[1.0], [2.0]]},
    csv,
    'x,w,k\n1,"1,046",a\n2,"2,300",b\n',
    labels="k",
    inputs=["x"],
)
case(
    "dates stay texts",
    {"inputs": [["19.11.2026", 1], ["20.11.2026", 2]]},
    csv,
    "d;x;k\n19.11.2026;1;a\n20.11.2026;2;b\n",
    labels="k",
)
case(
    "codes with underscores stay texts",
    {"inputs": ["2020_01", "2020_02"]},
    csv,
    "code,k\n2020_01,a\n2020_02,b\n",
    labels="k",
)

# Folders.

case(
    "pictures of two sizes",
    r"^inputs: \S+b\.png has shape \(5, 4, 3\), others \(4, 4, 3\); .*image_folder\(path, size=",
    pictures,
    {"a.png": (4, 4), "b.png": (5, 4)},
)
case(
    "pictures beside what systems leave",
    {"labels": ["cat", "dog"], "ids": ["cat/a.png", "dog/b.png"]},
    pictures,
    {
        "cat/a.png": (4, 4),
        "dog/b.png": (4, 4),
        "cat/Thumbs.db": b"x",
        ".DS_Store": b"x",
        "cat/._a.png": b"x",
        ".cache/c.png": (4, 4),
    },
)
case(
    "a picture that is broken",
    r"^path: \S+b\.png cannot be decoded .*; remove it",
    pictures,
    {"a.png": (4, 4), "b.png": b"no picture"},
)
case("a folder without pictures", r"^path: \S+ holds no images; expected", pictures, {"notes.txt": b"none"})
case(
    "folders of folders",
    r"^path: the images of \S+ lie deeper than in folders of classes; pass one of its folders, such as \S+test",
    pictures,
    {"train/cat/a.png": (4, 4), "test/cat/b.png": (4, 4)},
    look=False,
)


# Labels beside the inputs, which go by id.


def sheet(folder, content, **named):
    (folder / "x.csv").write_text("id,x\na,1\nb,2\nc,3\n")
    (folder / "truth.csv").write_text(content)
    return given(folder, folder / "x.csv", ids="id", labels=folder / "truth.csv", **named)


BY_ID = {"inputs": [[1.0], [2.0], [3.0]], "ids": ["a", "b", "c"]}
case("a sheet in another order", BY_ID | {"labels": ["k", None, "l"]}, sheet, "id;label\nc;l\nb;\na;k\n")
case("a sheet of prices", BY_ID | {"labels": [1046.5, None, 7.0]}, sheet, "id;p\nc;7,0\na;1.046,50\n", regression=True)
case("a sheet in doubt", r"^labels: column 'p': '1,046' in row 2 may be", sheet, 'id,p\nc,7\na,"1,046"\n')
case("a sheet with an id twice", r"^ids: column 'id': 'a' appears twice \(rows 1 and 2\)", sheet, "id,k\na,k\na,l\n")
case(
    "a Series in another order",
    {"labels": ["k", "l", "m"]},
    lambda folder: Pool(np.zeros((3, 1)), ids=["a", "b", "c"], labels=pandas.Series(["m", "k", "l"], ["c", "a", "b"])),
)


@pytest.mark.parametrize(("make", "arguments", "named", "expected"), CASES)
def test_each_is_read_rightly_or_refused_in_one_sentence(tmp_path, make, arguments, named, expected):
    if isinstance(expected, dict):
        found = seen(make(tmp_path, *arguments, **named))
        assert {name: found[name] for name in expected} == expected
        return
    with pytest.raises(ValueError, match=expected) as refusal:
        make(tmp_path, *arguments, **named)
    assert "\n" not in str(refusal.value)
    assert "damaged" not in str(refusal.value)
    assert re.match(r"^\w+: ", str(refusal.value)), "the argument comes first"


def test_there_are_many():
    assert len(CASES) >= 60


def test_whole_numbers_that_float32_does_not_hold_stay_apart(tmp_path):
    days = [20240131, 20240132, 20240133]
    for column in (days, [f"{day}.0" for day in days], [f"{day:,}".replace(",", " ") for day in days]):
        found = csv(tmp_path, "day,size\n" + "".join(f"{day},0.1\n" for day in column)).inputs
        assert found[:, 0].tolist() == days
        assert found.names == ("day", "size")
    small = csv(tmp_path, "day,size\n16777216,0.1\n3,0.2\n").inputs
    assert small.dtype == np.float32
