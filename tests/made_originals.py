"""Small data sets in the formats of their public homes, with what `load` should make of them."""

import gzip
import io
import json
import tarfile
import zipfile
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Made:
    name: str
    files: dict[str, bytes]
    rows: list[tuple[Any, float]]  # inputs and labels, in any order
    classes: tuple[str, ...] = ()


def idx_file(array):
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    return gzip.compress(header + array.tobytes())


def cifar_archive(images):
    """Six batches [6, N, 3, 32, 32]; the labels count up."""
    stream = io.BytesIO()
    names = [f"data_batch_{number}.bin" for number in range(1, 6)] + ["test_batch.bin"]
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, batch in zip(["readme.html", *names], [None, *images], strict=True):
            rows = b"" if batch is None else b"".join(bytes([n]) + image.tobytes() for n, image in enumerate(batch))
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = len(rows)
            archive.addfile(member, io.BytesIO(rows))
    return stream.getvalue()


def zipped(name, text):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, text)
    return stream.getvalue()


def numbers(rows, delimiter=" "):
    return "\n".join(delimiter.join(map(str, row)) for row in rows).encode()


def lines(*texts):
    return "\n".join(texts).encode() + b"\n"


def _notmnist():
    images = np.random.default_rng(0).integers(0, 256, (5, 28, 28), dtype=np.uint8)
    labels = np.array([0, 9, 3, 3, 1], np.uint8)
    files = {"t10k-images-idx3-ubyte.gz": idx_file(images), "t10k-labels-idx1-ubyte.gz": idx_file(labels)}
    return Made("notmnist", files, list(zip(images, labels, strict=True)), tuple("ABCDEFGHIJ"))


def _ocr():
    pixels = np.random.default_rng(0).integers(0, 2, (5, 128))
    heads = [
        (1, "o", 2, 1, 1, 0),
        (2, "m", -1, 1, 2, 0),
        (3, "a", -1, 2, 1, 7),
        (4, "z", -1, 3, 1, 1),
        (5, "b", -1, 4, 1, 2),
    ]
    text = "".join("\t".join(map(str, (*head, *row))) + "\t\n" for head, row in zip(heads, pixels, strict=True))
    rows = [(255 * row.reshape(16, 8), ord(head[1]) - 97) for head, row in zip(heads, pixels, strict=True)]
    classes = tuple("abcdefghijklmnopqrstuvwxyz")
    return Made("ocr-letters", {"letter.data.gz": gzip.compress(text.encode())}, rows, classes)


def _clinc():
    pairs = {
        "train": [["what’s my balance", "balance"], [" play it ", "play_music"]],
        "val": [["money left", "balance"]],
        "test": [["a song", "play_music"]],
        "oos_train": [["who are you", "oos"]],
        "oos_val": [["why", "oos"]],
        "oos_test": [["how", "oos"]],
    }
    files = {
        "data_full.json": json.dumps(pairs).encode(),
        "domains.json": json.dumps({"home": ["play_music"], "banking": ["balance"]}).encode(),
    }
    rows = [("what’s my balance", 0), ("play it", 1), ("money left", 0), ("a song", 1)]
    rows += [("who are you", -1), ("why", -1), ("how", -1)]
    return Made("clinc150-oos", files, rows, ("balance", "play_music"))


def _sst2():
    files = {
        "stsa.binary.train": lines("1 a stirring , funny film", "0 cold\xa0and dull"),
        "stsa.binary.dev": "1 a café\n".encode("latin-1"),  # older than UTF-8
        "stsa.binary.test": lines("0 no movement ."),
    }
    rows = [("a stirring , funny film", 1), ("cold\xa0and dull", 0), ("a café", 1), ("no movement .", 0)]
    return Made("sst2", files, rows, ("negative", "positive"))


def _trec():
    files = {
        "TREC.train.all": lines("0 How did it end ?", "2 What is .com ?", "5 When ?"),
        "TREC.test.all": lines("1 What fowl ?", "3 Who ?", "4 Where ?"),
    }
    rows = [("How did it end ?", 1), ("What is .com ?", 0), ("When ?", 5)]
    rows += [("What fowl ?", 2), ("Who ?", 3), ("Where ?", 4)]
    return Made("trec", files, rows, ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM"))


def _cola():
    files = {
        "in_domain_train.tsv": lines("gj04\t1\t\tThey drank the pub dry.", 'gj04\t0\t*\tThey  "drank" the pub.'),
        "in_domain_dev.tsv": lines("gj04\t1\t\tHe left."),
        "out_of_domain_dev.tsv": lines("s_97\t1\t \tWho always drinks milk?"),
    }
    rows = [("They drank the pub dry.", 1), ('They "drank" the pub.', 0)]
    rows += [("He left.", 1), ("Who always drinks milk?", 1)]
    return Made("cola", files, rows, ("unacceptable", "acceptable"))


def _news():
    text = (
        '"3","Fears for T N pension","Unions at Turner   Newall say ""no""."\n'
        '"4","The Race is On","A second\\team, for US\\$10 million\\"\n'
        '"1","War?","Peace."\n"2","Goal","Two."\n"1","A","B"\n'
    )
    rows = [
        ('Fears for T N pension. Unions at Turner Newall say "no".', 2),
        ("The Race is On. A second team, for US $10 million", 3),
        ("War?. Peace.", 0),
        ("Goal. Two.", 1),
        ("A. B", 0),
    ]
    return Made("ag-news", {"test.csv": text.encode()}, rows, ("World", "Sports", "Business", "Sci/Tech"))


def _keel(name, original, table, labels, classes):
    head = "@relation x\n@attribute a integer [0, 15]\n@inputs a\n@outputs c\n@data\n"
    body = "\n".join(", ".join(map(str, (*row, label))) for row, label in zip(table, labels, strict=True))
    rows = [(row, classes.index(label)) for row, label in zip(table, labels, strict=True)]
    return Made(name, {f"{original}.zip": zipped(f"{original}.dat", head + body + "\n")}, rows, classes)


def _vowel():
    table = [[0, 0, 1, *range(10)], [1, 8, 0, *range(10, 20)], [0, 1, 0, *range(20, 30)]]
    made = _keel("uci-vowel", "vowel", table, ["10", "0", "9"], ("0", "9", "10"))
    return Made(made.name, made.files, [(row[3:], label) for row, label in made.rows], made.classes)


def _satellite():
    train, test = np.arange(37 * 2).reshape(2, 37), np.arange(100, 137).reshape(1, 37)
    train[:, -1], test[:, -1] = (1, 7), 5
    classes = ("red soil", "cotton crop", "grey soil", "damp grey soil")
    rows = [(train[0, :-1], 0), (train[1, :-1], 5), (test[0, :-1], 4)]
    return Made(
        "uci-satellite",
        {"sat.trn": numbers(train), "sat.tst": numbers(test)},
        rows,
        (*classes, "soil with vegetation stubble", "very damp grey soil"),
    )


def _yacht():
    table = np.arange(4 * 8).reshape(4, 8) / 4
    files = {
        "data.txt": numbers(table),
        "index_features.txt": b"0.000e+00\n1.000e+00\n2.000e+00\n",
        "index_target.txt": b"6\n",
        **{f"index_test_{split}.txt": f"{float(split % 4)}\n".encode() for split in range(20)},
    }
    return Made("uci-yacht", files, [(row[:3], row[6]) for row in table])


def _airfoil():
    table, masks = np.arange(4 * 6).reshape(4, 6) / 2, np.eye(4, 10, dtype=int)
    files = {
        "data.csv.gz": gzip.compress(numbers(table, ",")),
        "test_mask.csv.gz": gzip.compress(numbers(masks, ",")),
    }
    return Made("uci-airfoil", files, [(row[:5], row[5]) for row in table])


def _kin40k():
    table = np.arange(5 * 9).reshape(5, 9) / 2
    return Made("reg-kin40k", {"data.csv.gz": gzip.compress(numbers(table, ","))}, [(row[:8], row[8]) for row in table])


def _ihdp():
    table = np.arange(10 * 30).reshape(10, 30) / 2
    table[:, 0] = np.arange(10) % 2
    outcomes = np.isin(np.arange(30), (1, 2, 3, 4))
    files = {f"ihdp_npci_{number}.csv": numbers(table + outcomes * number, ",") for number in range(1, 51)}
    return Made("ihdp", files, [([*row[5:], row[0]], row[1] + 1) for row in table])


def _sgemm():
    table = np.arange(5 * 18).reshape(5, 18) + 1
    names = [f"S{number}" for number in range(14)] + [f"Run{run} (ms)" for run in range(1, 5)]
    text = ",".join(names) + "\r\n" + numbers(table, ",").decode().replace("\n", "\r\n")
    rows = [(row[:14], np.log(row[14:].mean())) for row in table]
    return Made("reg-sgemm", {"sgemm_product_dataset.zip": zipped("sgemm_product.csv", text)}, rows)


def _protein():
    table = np.arange(5 * 10).reshape(5, 10) / 2
    text = b'"RMSD",' + b",".join(b'"F%d"' % number for number in range(1, 10)) + b"\n" + numbers(table, ",")
    return Made("reg-protein", {"CASP.csv": text}, [(row[1:], row[0]) for row in table])


def _diamonds():
    text = lines(
        "carat,cut,color,clarity,depth,table,price,x,y,z",
        "0.25,Ideal,E,SI2,61.5,55,326,4,5,2.5",
        "0.5,Very Good,J,IF,60,61,400,3,3,2",
        "1,Fair,D,I1,60,61,500,3,3,2",
    )
    rows = [([0.25, 61.5, 55, 4, 5, 2.5, 4, 5, 1], 326), ([0.5, 60, 61, 3, 3, 2, 2, 0, 7], 400)]
    rows += [([1, 60, 61, 3, 3, 2, 0, 6, 0], 500)]
    return Made("reg-diamonds", {"diamonds.csv": text}, rows)


def _fried():
    table = np.arange(5 * 11).reshape(5, 11) / 2
    names = "\t".join([*(f"oz{number}" for number in range(1, 11)), "target"])
    text = names.encode() + b"\n" + numbers(table, "\t")
    return Made("reg-fried", {"564_fried.tsv.gz": gzip.compress(text)}, [(row[:10], row[10]) for row in table])


ORIGINALS = (
    _notmnist(),
    _ocr(),
    _clinc(),
    _sst2(),
    _trec(),
    _cola(),
    _news(),
    _keel("uci-letter", "letter", [[2, 8], [5, 12], [4, 11], [7, 1], [0, 15]], list("TIDIT"), tuple("DIT")),
    _vowel(),
    _satellite(),
    _yacht(),
    _airfoil(),
    _kin40k(),
    _ihdp(),
    _sgemm(),
    _protein(),
    _diamonds(),
    _fried(),
)
