"""Original files of public data sets turned into the arrays that natsel reads: one function per original format.

Each takes the files by name and gives the arrays by file and name (`natsel.data.origins` says which). Archives are read
in place and never unpacked to disk, pickles are never opened.
"""

import csv
import gzip
import io
import json
import tarfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from natsel.data.digests import Contents
from natsel.data.labels import Array

Originals = Mapping[str, Path]
"""Files as they were downloaded, by their names."""

Conversion = Callable[[Originals], Contents]

_LARGEST = 1 << 27  # bytes that one original unpacks to; the largest here has 47 million

_SATELLITE = {
    1: "red soil",
    2: "cotton crop",
    3: "grey soil",
    4: "damp grey soil",
    5: "soil with vegetation stubble",
    7: "very damp grey soil",
}
_DIAMONDS = {
    "cut": ("Fair", "Good", "Very Good", "Premium", "Ideal"),
    "color": tuple("JIHGFED"),
    "clarity": ("I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF"),
}


def idx(file: str, parts: Mapping[str, str]) -> Conversion:
    """Images and labels as MNIST has them; `parts` maps endings of keys to beginnings of files.

    >>> idx("mnist", {"_train": "train", "_test": "t10k"}).__name__
    'convert'
    """

    def convert(originals: Originals) -> Contents:
        arrays = {}
        for ending, start in parts.items():
            arrays[f"x{ending}"] = _read_idx(originals[f"{start}-images-idx3-ubyte.gz"])
            arrays[f"y{ending}"] = _read_idx(originals[f"{start}-labels-idx1-ubyte.gz"])
        return {file: arrays}

    return convert


def cifar10(originals: Originals) -> Contents:
    """The binary version of CIFAR-10: per picture one byte of label and 3×32×32 of colour.

    Pixels are kept as differences to green and to their neighbours, modulo 256, which packs better.
    """
    names = {f"data_batch_{number}.bin": f"cifar10_train{number}" for number in range(1, 6)}
    names["test_batch.bin"] = "cifar10_test"
    contents = {}
    with tarfile.open(originals["cifar-10-binary.tar.gz"], "r:gz") as archive:
        for member in archive:
            file = names.pop(Path(member.name).name, None)
            if file is not None:
                stream = archive.extractfile(member)
                if stream is None:
                    raise ValueError(f"{member.name} is no file")
                contents[file] = _cifar_batch(_all_of(stream))
    if names:
        raise ValueError(f"the archive lacks {', '.join(names)}")
    return contents


def _cifar_batch(content: bytes) -> dict[str, Array]:
    rows = np.frombuffer(content, np.uint8).reshape(-1, 1 + 3 * 32 * 32)
    planes = rows[:, 1:].reshape(-1, 3, 32, 32).transpose(1, 0, 2, 3).copy()
    planes[[0, 2]] -= planes[1]
    for axis in (2, 3):
        planes = np.diff(planes, axis=axis, prepend=np.uint8(0))
    return {"x_delta": planes, "y": rows[:, 0].copy()}


def ocr_letters(originals: Originals) -> Contents:
    """Letters of words, one per line: id, letter, next id, word, position, fold and 16×8 pixels."""
    lines = [line.split() for line in _lines(originals["letter.data.gz"])]
    words = np.array([int(line[3]) for line in lines])
    pixels = np.array([line[6:] for line in lines], dtype=np.uint8)
    return {
        "ocr_letters": {
            "x_bits": np.packbits(pixels.reshape(len(lines), 16 * 8), axis=1),
            "y": np.array([ord(line[1]) - ord("a") for line in lines], dtype=np.uint8),
            "fold": np.array([int(line[5]) for line in lines], dtype=np.uint8),
            "word": np.cumsum(np.diff(words, prepend=words[:1]) != 0).astype(np.uint16),
        }
    }


def clinc150(originals: Originals) -> Contents:
    """Pairs of text and intent in JSON; those out of scope stand in lists of their own and get the label −1."""
    pairs = json.loads(_text(originals["data_full.json"]))
    domain_of = {
        intent: domain for domain, intents in json.loads(_text(originals["domains.json"])).items() for intent in intents
    }
    intents, domains = sorted(domain_of), sorted(set(domain_of.values()))
    numbers = {intent: number for number, intent in enumerate(intents)} | {"oos": -1}
    arrays = {
        "intents": np.array(intents),
        "domains": np.array(domains),
        "domain_of_intent": np.array([domains.index(domain_of[intent]) for intent in intents], dtype=np.uint8),
    }
    for part in ("train", "val", "test"):
        rows = pairs[part] + pairs[f"oos_{part}"]
        arrays[f"text_{part}"] = _joined([text.strip() for text, _ in rows])
        arrays[f"y_{part}"] = np.array([numbers[intent] for _, intent in rows], dtype=np.int16)
    return {"clinc150": arrays}


def labelled_lines(file: str, parts: Mapping[str, str], classes: Sequence[str], order: Sequence[int]) -> Conversion:
    """Lines of a number, a space and a sentence; `order` gives the class of each number.

    >>> labelled_lines("sst2", {"train": "stsa.binary.train"}, ("negative", "positive"), (0, 1)).__name__
    'convert'
    """

    def convert(originals: Originals) -> Contents:
        arrays = {"classes": np.array(classes)}
        for part, original in parts.items():
            rows = [line.split(" ", 1) for line in _lines(originals[original])]
            arrays[f"text_{part}"] = _joined([text for _, text in rows])
            arrays[f"y_{part}"] = np.array([order[int(number)] for number, _ in rows], dtype=np.uint8)
        return {file: arrays}

    return convert


def cola(originals: Originals) -> Contents:
    """Four columns between tabs: source, 0 or 1, the author's mark and the sentence."""
    files = {"train": "in_domain_train.tsv", "val": "in_domain_dev.tsv", "test_ood": "out_of_domain_dev.tsv"}
    arrays = {"classes": np.array(["unacceptable", "acceptable"])}
    for part, original in files.items():
        rows = [line.split("\t") for line in _lines(originals[original])]
        arrays[f"text_{part}"] = _joined([" ".join(row[3].split()) for row in rows])
        arrays[f"y_{part}"] = np.array([int(row[1]) for row in rows], dtype=np.uint8)
    return {"cola": arrays}


def ag_news(originals: Originals) -> Contents:
    """Rows of class 1..4, title and description; a backslash stands for a line break."""
    rows = list(csv.reader(io.StringIO(_text(originals["test.csv"]), newline="")))
    texts = [" ".join(f"{title}. {description}".replace("\\", " ").split()) for _, title, description in rows]
    return {
        "ag_news_test": {
            "text_all": _joined(texts),
            "y_all": np.array([int(row[0]) - 1 for row in rows], dtype=np.uint8),
            "classes": np.array(["World", "Sports", "Business", "Sci/Tech"]),
        }
    }


def keel(name: str, original: str, dtype: type[np.generic]) -> Conversion:
    """A table of KEEL in a zip archive: a header of lines that begin with @, then rows that end with the class.

    >>> keel("letter", "letter", np.uint8).__name__
    'convert'
    """

    def convert(originals: Originals) -> Contents:
        table, labels = _keel_rows(originals[f"{original}.zip"], f"{original}.dat")
        classes = sorted(set(labels), key=lambda one: (len(one), one) if one.isdigit() else (0, one))
        numbers = np.array([classes.index(label) for label in labels], dtype=np.uint8)
        arrays = {f"{name}_y": numbers, f"{name}_classes": np.array(classes)}
        if name == "vowel":  # the first columns: published part, speaker and sex
            arrays |= {"vowel_test_mask": table[:, 0] == 1, "vowel_speaker": table[:, 1].astype(np.uint8)}
            table = table[:, 3:]
        return {f"uci_{name}": arrays | {f"{name}_x": table.astype(dtype)}}

    return convert


def _keel_rows(path: Path, member: str) -> tuple[Array, list[str]]:
    lines = _unzipped(path, member).decode("latin-1").splitlines()
    rows = [[cell.strip() for cell in line.split(",")] for line in lines if line.strip() and not line.startswith("@")]
    return np.array([row[:-1] for row in rows], dtype=np.float64), [row[-1] for row in rows]


def satellite(originals: Originals) -> Contents:
    """The two parts of Statlog's Landsat images: 36 numbers and the class, 1 to 7 without 6."""
    train, test = (_table(_text(originals[file]), None) for file in ("sat.trn", "sat.tst"))
    table = np.concatenate([train, test])
    codes = list(_SATELLITE)
    return {
        "uci_satellite": {
            "satellite_x": table[:, :-1].astype(np.uint8),
            "satellite_y": np.array([codes.index(int(code)) for code in table[:, -1]], dtype=np.uint8),
            "satellite_test_mask": np.arange(len(table)) >= len(train),
            "satellite_classes": np.array(list(_SATELLITE.values())),
        }
    }


def with_index_files(name: str) -> Conversion:
    """A table of numbers, with files that list the columns of inputs and target and the test rows of 20 splits.

    >>> with_index_files("yacht").__name__
    'convert'
    """

    def convert(originals: Originals) -> Contents:
        def positions(file: str) -> Array:
            return _table(_text(originals[file]), None).astype(np.int64).ravel()

        table = _table(_text(originals["data.txt"]), None)
        masks = np.zeros((20, len(table)), dtype=bool)
        for split in range(len(masks)):
            masks[split, positions(f"index_test_{split}.txt")] = True
        return {
            f"uci_{name}": {
                f"{name}_x": table[:, positions("index_features.txt")].astype(np.float32),
                f"{name}_y": table[:, positions("index_target.txt")].ravel().astype(np.float32),
                f"{name}_test_mask": np.packbits(masks, axis=1),
            }
        }

    return convert


def with_mask_file(name: str) -> Conversion:
    """A table of numbers that ends with the target, and a table of 0 and 1 with a column for each of ten splits.

    >>> with_mask_file("airfoil").__name__
    'convert'
    """

    def convert(originals: Originals) -> Contents:
        table = _table(_text(originals["data.csv.gz"]), ",")
        masks = _table(_text(originals["test_mask.csv.gz"]), ",") == 1
        return {
            f"uci_{name}": {
                f"{name}_x": table[:, :-1].astype(np.float32),
                f"{name}_y": table[:, -1].astype(np.float32),
                f"{name}_test_mask": np.packbits(masks.T, axis=1),
            }
        }

    return convert


def target_last(file: str) -> Conversion:
    """A table of numbers that ends with the target.

    >>> target_last("reg_kin40k").__name__
    'convert'
    """

    def convert(originals: Originals) -> Contents:
        table = _table(_text(originals["data.csv.gz"]), ",").astype(np.float32)
        return {file: {"x": table[:, :-1].copy(), "y": table[:, -1].copy()}}

    return convert


def ihdp(originals: Originals) -> Contents:
    """One table per simulation of outcomes: treatment, outcome, the other outcome, expected outcomes, 25 covariates."""
    tables = [_table(_text(originals[f"ihdp_npci_{number}.csv"]), ",") for number in range(1, len(originals) + 1)]
    names = {"y_factual": 1, "y_counterfactual": 2, "mu0": 3, "mu1": 4}
    simulated = {name: np.stack([one[:, at] for one in tables]).astype(np.float32) for name, at in names.items()}
    x, t = tables[0][:, 5:].astype(np.float32), tables[0][:, 0].astype(np.uint8)
    return {"ihdp": {"x": x, "t": t, **simulated}}


def sgemm(originals: Originals) -> Contents:
    """A zip archive with a table: 14 settings, then the milliseconds of four runs."""
    header, _, rows = _unzipped(originals["sgemm_product_dataset.zip"], "sgemm_product.csv").decode().partition("\n")
    names, table = [name.strip() for name in header.split(",")], _table(rows, ",")
    return {
        "reg_sgemm": {
            "x": table[:, :14].astype(np.uint8),
            "y": table[:, 14:].astype(np.float32),
            "x_names": np.array(names[:14]),
            "y_names": np.array(names[14:]),
        }
    }


def protein(originals: Originals) -> Contents:
    """A table with a header: the target first, then 9 features."""
    header, _, rows = _text(originals["CASP.csv"]).partition("\n")
    table = _table(rows, ",").astype(np.float32)
    names = np.array([name.strip().strip('"') for name in header.split(",")[1:]])
    return {"reg_protein": {"x": table[:, 1:].copy(), "y": table[:, 0].copy(), "x_names": names}}


def diamonds(originals: Originals) -> Contents:
    """A table with a header, of which three columns are words in an order from worst to best."""
    rows = list(csv.DictReader(io.StringIO(_text(originals["diamonds.csv"]))))
    numeric = ["carat", "depth", "table", "x", "y", "z"]
    ranks = [[levels.index(row[name]) for name, levels in _DIAMONDS.items()] for row in rows]
    return {
        "reg_diamonds": {
            "x": np.array([[float(row[name]) for name in numeric] for row in rows]).astype(np.float32),
            "x_cat": np.array(ranks, dtype=np.uint8),
            "y": np.array([float(row["price"]) for row in rows]).astype(np.float32),
            "x_names": np.array(numeric),
            "x_cat_names": np.array(list(_DIAMONDS)),
            **{name: np.array(levels) for name, levels in _DIAMONDS.items()},
        }
    }


def fried(originals: Originals) -> Contents:
    """A table between tabs with a header; the column `target` is the target."""
    header, _, rows = _text(originals["564_fried.tsv.gz"]).partition("\n")
    names, table = header.split(), _table(rows, "\t").astype(np.float32)
    target = names.index("target")
    return {"reg_fried": {"x": np.delete(table, target, axis=1), "y": table[:, target].copy()}}


def _read_idx(path: Path) -> Array:
    """Bytes behind a header: two zeros, 8 for bytes, how many dimensions, and their sizes."""
    content = _content(path)
    if content[:3] != b"\0\0\x08":
        raise ValueError(f"{path.name} does not begin as such files do")
    dimensions = content[3]
    shape = np.frombuffer(content, ">u4", count=dimensions, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * dimensions).reshape(shape.astype(np.int64)).copy()


def _content(path: Path) -> bytes:
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
        return _all_of(stream)


def _unzipped(path: Path, name: str) -> bytes:
    with zipfile.ZipFile(path) as archive:
        member = next((one for one in archive.namelist() if Path(one).name == name), None)
        if member is None:
            raise ValueError(f"{path.name} holds no {name}")
        with archive.open(member) as stream:
            return _all_of(stream)


def _all_of(stream: IO[Any] | gzip.GzipFile) -> bytes:
    content: bytes = stream.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise ValueError(f"it unpacks to more than {_LARGEST >> 20} MiB")
    return content


def _text(path: Path) -> str:
    content = _content(path)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:  # some sets are older than UTF-8
        return content.decode("latin-1")


def _lines(path: Path) -> list[str]:
    """The lines of a text that are not empty; only a line feed ends one, for sentences may hold any other character."""
    return [line.rstrip("\r\n") for line in io.StringIO(_text(path), newline="\n") if line.strip()]


def _table(text: str, delimiter: str | None) -> Array:
    table: Array = np.loadtxt(io.StringIO(text), delimiter=delimiter, dtype=np.float64, ndmin=2)
    return table


def _joined(texts: Sequence[str]) -> Array:
    if any("\n" in text for text in texts):
        raise ValueError("a text has more than one line")
    return np.frombuffer("\n".join(texts).encode(), np.uint8).copy()
