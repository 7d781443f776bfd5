"""What is measured: measurements by name, and cases against peers, each a method on a pool of some size.

Sizes follow the shape letters: N points, K draws, C classes, k points to pick (B), M targets, S sampled label
configurations for those who sample them. `quick` takes a minute or two, `standard` about half an hour, `full` hours.
"""

import importlib
import inspect
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

# Measurements with a file of their own: its function `measure` makes it, with settings that differ from its defaults.
MEASUREMENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "epig": ("epig_scores", {}),
    "epig-large": ("epig_scores", {"points": 1_000_000, "targets": 100_000, "draws": 20, "scored": 200}),
    "epig-batch": ("epig_batches", {}),
    "kernel-searches": ("kernel_searches", {}),
    "density": ("feature_density_fits", {}),
    "fisher": ("published_arithmetic", {}),
    "believe": ("dropout_beliefs", {}),
    "selective-step": ("selective_steps", {}),
    "journal": ("journal_writes", {}),
    "accelerator": ("accelerator", {}),
}


def measurement_of(case: str, repeat: int | None = None) -> tuple[str, dict[str, Any]] | None:
    """The module of a measurement and all its settings, or None where no measurement is named so.

    >>> module, settings = measurement_of("epig:points=300,targets=40", repeat=2)
    >>> module, settings["points"], settings["draws"], settings["repeat"]
    ('natsel.bench.epig_scores', 300, 100, 2)
    """
    name, _, said = case.partition(":")
    if name not in MEASUREMENTS:
        return None
    file, settings = MEASUREMENTS[name]
    module = f"natsel.bench.{file}"
    known = dict(inspect.signature(importlib.import_module(module).measure).parameters)
    known.pop("peers_python", None)  # where this is made, and no setting of what is made
    chosen: dict[str, Any] = {key: parameter.default for key, parameter in known.items()} | settings
    given = dict(part.partition("=")[::2] for part in said.split(",") if part)
    for key, value in (given | ({} if repeat is None else {"repeat": str(repeat)})).items():
        if key not in known:
            raise ValueError(f"{name}: has no setting {key!r}; its settings are {', '.join(known)}")
        if known[key].annotation in (int, int | None) and not value.isdecimal():
            raise ValueError(f"{name}: {key} must be a whole number, found {value!r}")
        chosen[key] = int(value) if known[key].annotation in (int, int | None) else value
    return module, chosen


@dataclass(frozen=True)
class Competitor:
    """Somebody who selects: a package, its settings, and what a reader should know of how it was called."""

    package: str
    settings: dict[str, Any] = field(default_factory=dict)
    note: str = ""


CONTENDERS = {
    "natsel": Competitor("natsel"),
    "natsel-careful": Competitor("natsel", {"rows": 16_384}, "EIG(rows=16384)"),
    "bare-pass": Competitor("natsel", {"do": "bare_pass"}, "exp and sum of every number, no selection"),
    "redux": Competitor("batchbald-redux", {"dtype": "float32"}, "float32, its default"),
    "redux-float64": Competitor("batchbald-redux", {"dtype": "float64"}),
    "baal": Competitor("baal"),
}

# Said only where it applies: how a peer had to be called to give the batch it means.
CALLED = {("baal", "batchbald"): "asked for one point less, because it returns one more than asked"}


@dataclass(frozen=True)
class Case:
    """A method on a pool, and who runs it. The first contender is the one the others are compared with.

    >>> Case("tiny", "bald", "gaussian", N=10, K=2, C=2, k=1).label
    'bald gaussian N=10 K=2 C=2 B=1'
    """

    name: str
    method: str
    pool: str
    N: int
    K: int
    C: int
    k: int
    S: int = 10_000
    beta: float = 8.0
    contenders: tuple[str, ...] = ("natsel",)
    M: int = 0

    @property
    def label(self) -> str:
        """The case in one line."""
        sampled = f" S={self.S}" if self.method == "batchbald" else ""
        return f"{self.method} {Path(self.pool).name} N={self.N} K={self.K} C={self.C} B={self.k}{sampled}"


_SMALL = Case("quick", "batchbald", "gaussian", N=1_000, K=50, C=10, k=5, S=2_000)
_PLAIN = Case("quick-bald", "bald", "gaussian", N=50_000, K=20, C=10, k=10)
_USUAL = Case("usual", "batchbald", "gaussian", N=10_000, K=100, C=10, k=10)
_MILLION = Case("million", "bald", "gaussian", N=1_000_000, K=20, C=10, k=10)
_CAREFUL = ("natsel", "natsel-careful", "redux", "redux-float64")

QUICK = (
    replace(_SMALL, contenders=("natsel", "redux", "redux-float64", "baal")),
    replace(_SMALL, name="quick-digits", pool="digits", contenders=("natsel", "redux")),
    replace(_PLAIN, contenders=("natsel", "bare-pass", "redux", "baal")),
    replace(_PLAIN, name="quick-power", method="power-bald", contenders=("natsel", "baal")),
)
STANDARD = (
    replace(_USUAL, contenders=_CAREFUL),
    # The memory baal needs grows with N·S·C, so it is met on a small pool.
    replace(_USUAL, name="thousand", N=1_000, contenders=("natsel", "redux", "baal")),
    replace(_USUAL, name="classes-47", K=20, C=47, k=5, contenders=("natsel", "redux")),
    replace(_USUAL, name="classes-100", K=50, C=100, k=4, contenders=("natsel", "redux")),
    replace(_USUAL, name="large", N=60_000, k=50),
    replace(_MILLION, contenders=("natsel", "bare-pass", "redux", "baal")),
    replace(_MILLION, name="million-power", method="power-bald", contenders=("natsel", "baal")),
)
FULL = (
    *STANDARD,
    replace(_USUAL, name="digits", pool="digits", contenders=_CAREFUL),
    replace(_USUAL, name="digits-large", pool="digits", N=60_000, k=50),
    replace(_USUAL, name="batch-20", k=20, contenders=("natsel", "natsel-careful", "redux")),
    replace(_USUAL, name="classes-47-float64", K=20, C=47, k=5, contenders=("natsel", "redux-float64")),
    replace(_USUAL, name="classes-100-batch-10", K=50, C=100, k=10),
    replace(_USUAL, name="hundred-thousand", N=100_000),
)
SETS = {"quick": QUICK, "standard": STANDARD, "full": FULL}


def _family() -> tuple[Case, ...]:
    """Pools on which batches are judged: labels tell little or much, points alike or copies, batches short or long."""
    family = []
    sizes = [(2, 50, k) for k in (5, 40, 100)] + [(10, 50, k) for k in (5, 20, 50)] + [(100, 20, k) for k in (5, 15)]
    for relation in ("independent", "correlated", "duplicated"):
        each = [(word, *size) for word in ("weak", "strong") for size in sizes]
        for word, classes, draws, k in [*each, ("middle", 2, 50, 40), ("middle", 10, 50, 20)]:
            pool = f"{relation}:{({'weak': 0.2, 'middle': 0.7, 'strong': 2.0})[word]}"
            family.append(Case(f"{relation}-{word}-{classes}-{k}", "batchbald", pool, N=300, K=draws, C=classes, k=k))
    family.append(Case("independent-weak-10-15", "batchbald", "independent:0.2", N=300, K=100, C=10, k=15))
    real = (("digits", (40, 800), 50, 10), ("letters", (100, 1000), 50, 26), ("clinc", (300, 1000), 20, 150))
    for pool, labelled, draws, classes in real:
        for labels, k in ((labels, k) for labels in labelled for k in (10, 40)):
            name = f"{pool}-{labels}-labels-{k}"
            family.append(Case(name, "batchbald", f"{pool}:{labels}", N=300, K=draws, C=classes, k=k))
    return tuple(family)


FAMILY = _family()
# JEPIG with more labellings of the targets than rows: pool, draws, classes, targets.
_TARGETS = (
    ("independent:0.3", 30, 3, 12),
    ("correlated:0.2", 50, 3, 30),
    ("correlated:0.5", 50, 3, 12),
    ("correlated:1", 50, 10, 10),
    ("correlated:1", 100, 10, 20),
    ("correlated:1", 20, 2, 20),
    ("duplicated:0.5", 50, 26, 8),
    ("digits:40", 50, 10, 10),
    ("digits:800", 50, 10, 10),
)
TARGETS = tuple(
    Case(f"jepig-{pool.replace(':', '-')}-{C}-{M}", "jepig", pool, N=120, K=K, C=C, k=10, M=M)
    for pool, K, C, M in _TARGETS
)
_FEW = ("independent-weak-2-40", "correlated-middle-10-20", "duplicated-strong-10-5", "digits-40-labels-10")
_OF_PEERS = tuple(replace(case, contenders=("natsel",)) for case in (FULL[0], FULL[7], FULL[2], FULL[3]))
# Pools on which `quality` judges batches: a few, the whole family, and those of the comparison with peers as well.
QUALITY = {
    "quick": (*(case for case in FAMILY if case.name in _FEW), TARGETS[0]),
    "standard": (*FAMILY, *TARGETS),
    "full": (*FAMILY, *TARGETS, *_OF_PEERS),
}


def cases_of(case_set: str, quality: bool = False) -> tuple[Case, ...]:
    """The cases of a named set, one case by its name, or BatchBALD on the pool in a file.

    >>> [case.name for case in cases_of("quick")]
    ['quick', 'quick-digits', 'quick-bald', 'quick-power']
    """
    known = QUALITY if quality else SETS
    if case_set in known:
        return known[case_set]
    named = [case for cases in known.values() for case in cases if case.name == case_set]
    if named:
        return (named[0],)
    if Path(case_set).is_file():
        # The file says how large it is; `sized` fills that in once it has been read.
        own = replace(_USUAL, name=Path(case_set).stem, pool=case_set, N=0, K=0, C=0, contenders=("natsel", "redux"))
        return (own,)
    names = ", ".join((*SETS, *MEASUREMENTS))
    raise ValueError(f"case: expected {names}, the name of a case or the file of a pool, found {case_set!r}")
