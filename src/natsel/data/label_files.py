"""Labels in files of their own, beside the ids of what they label.

.csv, .tsv, .parquet    a header and two columns, ids and labels, whatever they are called; or labels alone
.npz, .safetensors      an array `labels`, and perhaps `ids`
.npy                    labels alone
"""

from pathlib import Path
from typing import Any

from natsel.containers import open_arrays, read_npy
from natsel.data.labels import Array
from natsel.data.tables import ids_of, read_csv, read_parquet
from natsel.ids import Key, as_ids, keys_of, refuse_repeats

LABEL_FILES = frozenset((".csv", ".tsv", ".parquet", ".npz", ".safetensors", ".npy"))


def read_label_file(path: Path, name: str = "labels") -> Any:
    r"""The labels in a file: a mapping from id to label, or labels in their order where the file has no ids.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "truth.csv").write_text("file,kind\nb.png,dog\na.png,cat\n")
    ...     read_label_file(Path(folder, "truth.csv"))
    {'b.png': 'dog', 'a.png': 'cat'}
    """
    if path.suffix in (".csv", ".tsv", ".parquet"):
        read = read_parquet if path.suffix == ".parquet" else read_csv
        columns = read(path).columns
        first, *others = columns
        if len(others) > 1:
            raise ValueError(f"{name}: {path.name} has the columns {', '.join(columns)}; keep two, of ids and labels")
        labels = columns[others[0] if others else first].objects()
        if path.suffix != ".parquet" and others:
            columns = read_csv(path, texts=[first]).columns  # 007 is no number
        ids = keys_of(as_ids(ids_of(columns[first], first))) if others else None
    else:
        labels, ids = label_arrays(path, name)
    if ids is None:
        return labels
    refuse_repeats(as_ids(ids), f"{name}: {path.name}")
    return dict(zip(ids, labels.tolist(), strict=True))


def label_arrays(path: Path, name: str) -> tuple[Array, list[Key] | None]:
    """The labels in a file of arrays, and their ids where it has some."""
    if path.suffix == ".npy":
        found, ids = read_npy(path), None
    else:
        arrays = open_arrays(path)
        others = [key for key in arrays.shapes if key != "ids"]
        chosen = "labels" if "labels" in others else others[0] if len(others) == 1 else None
        if chosen is None:
            raise ValueError(f"{name}: {path} holds {arrays}; call the array of labels labels")
        found = arrays.read(chosen)
        ids = keys_of(as_ids(arrays.read("ids"))) if "ids" in arrays.shapes else None
    if found.ndim != 1 or (ids is not None and len(ids) != len(found)):
        raise ValueError(f"{name}: {path} should hold one label per point, found shape {found.shape}; reshape it")
    return found, ids
