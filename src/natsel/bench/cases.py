"""What is measured: cases, each a method on a pool of some size, and the contenders that run it.

Sizes follow the shape letters: N points, K draws, C classes, k points to pick (B), S sampled label
configurations for those who sample them. `quick` takes a minute or two, `standard` about half an hour, `full`
hours.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Contender:
    """Somebody who selects: a package, its settings, and what a reader should know of how it was called."""

    package: str
    settings: dict[str, Any] = field(default_factory=dict)
    note: str = ""


CONTENDERS = {
    "natsel": Contender("natsel"),
    "natsel-careful": Contender("natsel", {"rows": 16_384}, "EIG(rows=16384)"),
    "bare-pass": Contender("natsel", {"do": "bare-pass"}, "exp and sum of every number, no selection"),
    "redux": Contender("batchbald-redux", {"dtype": "float32"}, "float32, its default"),
    "redux-float64": Contender("batchbald-redux", {"dtype": "float64"}),
    "baal": Contender("baal"),
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
        pool = self.pool if self.pool in ("gaussian", "digits") else Path(self.pool).name
        return f"{self.method} {pool} N={self.N} K={self.K} C={self.C} B={self.k}{sampled}"


_PEERS = ("natsel", "redux", "baal")
_SMALL = Case("quick", "batchbald", "gaussian", N=1_000, K=50, C=10, k=5, S=2_000)
_PLAIN = Case("quick-bald", "bald", "gaussian", N=50_000, K=20, C=10, k=10)
_USUAL = Case("usual", "batchbald", "gaussian", N=10_000, K=100, C=10, k=10)
_MILLION = Case("million", "bald", "gaussian", N=1_000_000, K=20, C=10, k=10)

QUICK = (
    replace(_SMALL, contenders=("natsel", "redux", "redux-float64", "baal")),
    replace(_SMALL, name="quick-digits", pool="digits", contenders=("natsel", "redux")),
    replace(_PLAIN, contenders=("natsel", "bare-pass", "redux", "baal")),
    replace(_PLAIN, name="quick-power", method="power-bald", contenders=("natsel", "baal")),
)
STANDARD = (
    replace(_USUAL, contenders=("natsel", "natsel-careful", "redux", "redux-float64")),
    # The memory baal needs grows with N·S·C, so it is met on a small pool.
    replace(_USUAL, name="thousand", N=1_000, contenders=_PEERS),
    replace(_USUAL, name="classes-47", K=20, C=47, k=5, contenders=("natsel", "redux")),
    replace(_USUAL, name="classes-100", K=50, C=100, k=4, contenders=("natsel", "redux")),
    replace(_USUAL, name="large", N=60_000, k=50),
    replace(_MILLION, contenders=("natsel", "bare-pass", "redux", "baal")),
    replace(_MILLION, name="million-power", method="power-bald", contenders=("natsel", "baal")),
)
FULL = (
    *STANDARD,
    replace(
        _USUAL,
        name="digits",
        pool="digits",
        contenders=("natsel", "natsel-careful", "redux", "redux-float64"),
    ),
    replace(_USUAL, name="digits-large", pool="digits", N=60_000, k=50),
    replace(_USUAL, name="batch-20", k=20, contenders=("natsel", "natsel-careful", "redux")),
    replace(_USUAL, name="classes-47-float64", K=20, C=47, k=5, contenders=("natsel", "redux-float64")),
    replace(_USUAL, name="classes-100-batch-10", K=50, C=100, k=10),
    replace(_USUAL, name="hundred-thousand", N=100_000),
)


def _family() -> tuple[Case, ...]:
    """Pools on which batches are judged: labels tell little or much, points alike or copies, batches short or long."""
    cases = []
    for relation in ("independent", "correlated", "duplicated"):
        for word, strength in (("weak", 0.2), ("strong", 2.0)):
            for classes, draws, sizes in ((2, 50, (5, 40, 100)), (10, 50, (5, 20, 50)), (100, 20, (5, 15))):
                for k in sizes:
                    name = f"{relation}-{word}-{classes}-{k}"
                    cases.append(Case(name, "batchbald", f"{relation}:{strength}", N=300, K=draws, C=classes, k=k))
        for classes, k in ((2, 40), (10, 20)):
            name = f"{relation}-middle-{classes}-{k}"
            cases.append(Case(name, "batchbald", f"{relation}:0.7", N=300, K=50, C=classes, k=k))
    cases.append(Case("independent-weak-10-15", "batchbald", "independent:0.2", N=300, K=100, C=10, k=15))
    for pool, labelled, draws, classes in (
        ("digits", (40, 800), 50, 10),
        ("letters", (100, 1000), 50, 26),
        ("clinc", (300, 1000), 20, 150),
    ):
        for labels in labelled:
            for k in (10, 40):
                name = f"{pool}-{labels}-labels-{k}"
                cases.append(Case(name, "batchbald", f"{pool}:{labels}", N=300, K=draws, C=classes, k=k))
    return tuple(cases)


FAMILY = _family()
# JEPIG with more labellings of the targets than rows.
TARGETS = tuple(
    Case(
        f"jepig-{pool.replace(':', '-')}-{classes}-{targets}", "jepig", pool, N=120, K=draws, C=classes, k=10, M=targets
    )
    for pool, draws, classes, targets in (
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
)
_FEW = ("independent-weak-2-40", "correlated-middle-10-20", "duplicated-strong-10-5", "digits-40-labels-10")
# Pools on which `quality` judges batches: a few, the whole family, and those of the comparison with peers as well.
QUALITY = {
    "quick": (*(case for case in FAMILY if case.name in _FEW), TARGETS[0]),
    "standard": (*FAMILY, *TARGETS),
    "full": (
        *FAMILY,
        *TARGETS,
        _USUAL,
        replace(_USUAL, name="digits", pool="digits"),
        replace(_USUAL, name="classes-47", K=20, C=47, k=5),
        replace(_USUAL, name="classes-100", K=50, C=100, k=4),
    ),
}
SETS = {"quick": QUICK, "standard": STANDARD, "full": FULL}


def cases_of(case_set: str, quality: bool = False) -> tuple[Case, ...]:
    """The cases of a named set, one case by its name, or BatchBALD on the pool in a file.

    >>> [case.name for case in cases_of("quick")]
    ['quick', 'quick-digits', 'quick-bald', 'quick-power']
    """
    if case_set in SETS:
        return QUALITY[case_set] if quality else SETS[case_set]
    known = QUALITY if quality else SETS
    named = [case for cases in known.values() for case in cases if case.name == case_set]
    if named:
        return (named[0],)
    if Path(case_set).is_file():
        # The file says how large it is; `sized` fills that in once it has been read.
        return (
            replace(_USUAL, name=Path(case_set).stem, pool=case_set, N=0, K=0, C=0, contenders=("natsel", "redux")),
        )
    raise ValueError(
        f"case_set: expected {', '.join(SETS)}, the name of a case or the file of a pool, found {case_set!r}"
    )
