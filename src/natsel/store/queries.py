"""Queries: rows of a journal as values. Each is called inside a transaction and sees one moment."""

import json
import math
import sqlite3
from collections.abc import Iterator

from natsel.ids import Key
from natsel.store.history import Acquisition, Amendment, Ask, Label, Round, Run, Stop, Terms
from natsel.store.points import Points, unpacked
from natsel.store.state import RULES, Change, Rule, RunState

_CHANGES = """
SELECT seq, kind, id, value, ask, who FROM (
    SELECT e.seq, e.kind, p.step, p.id, NULL AS value, a.ask, e.who
        FROM entries e JOIN asks a USING (seq) JOIN acquisitions p USING (seq)
        WHERE e.run = :run AND e.seq > :since AND e.seq <= :until
    UNION ALL
    SELECT e.seq, e.kind, l.step, l.id, l.value, l.ask, e.who FROM entries e JOIN labels l USING (seq)
        WHERE e.run = :run AND e.seq > :since AND e.seq <= :until
    UNION ALL
    SELECT e.seq, e.kind, m.step, m.id, NULL, NULL, e.who FROM entries e JOIN marks m USING (seq)
        WHERE e.run = :run AND e.seq > :since AND e.seq <= :until
    UNION ALL
    SELECT seq, 'amend', 0, 0, detail, NULL, '' FROM amendments WHERE run = :run AND seq > :since AND seq <= :until
) ORDER BY seq, step
"""


def changes(database: sqlite3.Connection, run: int, since: int, until: int | None = None) -> Iterator[Change]:
    """What happened to ids and classes after entry `since`, in order."""
    limit = (1 << 63) - 1 if until is None else until
    yield from (Change(*row) for row in database.execute(_CHANGES, {"run": run, "since": since, "until": limit}))


def runs(database: sqlite3.Connection) -> list[Run]:
    """All runs."""
    rows = database.execute(
        "SELECT run, name, created, pool, method, k, seed, config, notes, natsel FROM runs ORDER BY run"
    )
    changed = amendments(database)
    return [
        Run(
            run,
            name,
            created,
            Terms(pool, method, k, seed, json.loads(config), json.loads(notes), natsel),
            tuple(changed.get(run, ())),
        )
        for run, name, created, pool, method, k, seed, config, notes, natsel in rows
    ]


def amendments(database: sqlite3.Connection) -> dict[int, list[Amendment]]:
    """What changed about each run, in order."""
    found: dict[int, list[Amendment]] = {}
    for run, seq, who, at, detail in database.execute(
        "SELECT a.run, seq, e.who, e.at, a.detail FROM amendments a JOIN entries e USING (seq) ORDER BY seq"
    ):
        found.setdefault(run, []).append(Amendment(seq, who, at, json.loads(detail)))
    return found


def state(database: sqlite3.Connection, run: Run, until: int | None = None, resolve: Rule | None = None) -> RunState:
    """The state of a run; a rule that is a function has to be passed."""
    rule = resolve or RULES.get(run.terms.config.get("resolve", "last"), RULES["last"])
    found = RunState(run.run, classes=tuple(run.terms.notes.get("classes", ())), resolve=rule)
    found.fold(changes(database, run.run, 0, until))
    return found


def points(database: sqlite3.Connection, run: int) -> Points:
    """The points of a run in the order in which they joined; none where the run was begun without."""
    keys: list[Key] = []
    marks: list[bytes] = []
    for count, ids, some in database.execute("SELECT count, ids, marks FROM points WHERE run = ? ORDER BY seq", (run,)):
        keys += unpacked(ids, count, len(keys))
        marks.append(some)
    joined = b"".join(marks)
    return Points(keys, joined if len(joined) == 4 * len(keys) else b"")


def run_named(database: sqlite3.Connection, name: str) -> Run | None:
    """The run of this name."""
    return next((run for run in runs(database) if run.name == name), None)


def labels(database: sqlite3.Connection, run: int, since: int = 0) -> list[Label]:
    """Every label told after entry `since`."""
    rows = database.execute(
        "SELECT e.seq, l.id, l.value, e.who, e.at, l.ask FROM entries e JOIN labels l USING (seq)"
        " WHERE e.run = ? AND e.seq > ? ORDER BY l.seq, l.step",
        (run, since),
    )
    return [Label(*row) for row in rows]


def contents(database: sqlite3.Connection, run: int) -> dict[Key, int]:
    """A digest of the input that the last label of each id was told for."""
    rows = database.execute(
        "SELECT id, digest FROM contents JOIN entries USING (seq) WHERE run = ? ORDER BY seq", (run,)
    )
    return dict(rows.fetchall())


def asks(database: sqlite3.Connection, run: int) -> list[Ask]:
    """Every batch asked for."""
    picks: dict[int, list[Acquisition]] = {}
    for seq, *pick in database.execute(
        "SELECT seq, p.id, p.score, p.epistemic, p.aleatoric FROM acquisitions p JOIN asks a USING (seq)"
        " WHERE a.run = ? ORDER BY seq, step",
        (run,),
    ):
        picks.setdefault(seq, []).append(Acquisition(*pick))
    rows = database.execute(
        "SELECT seq, a.method, a.seed, a.told, a.total, a.log_prob, a.seconds, a.warnings, a.ask, e.who, e.at"
        " FROM asks a JOIN entries e USING (seq) WHERE a.run = ? ORDER BY seq",
        (run,),
    )
    return [
        Ask(
            picks=tuple(picks.get(seq, ())),
            method=method,
            seed=seed,
            revision=revision,
            total=total,
            log_prob=log_prob,
            seconds=json.loads(seconds),
            warnings=tuple(json.loads(warnings)),
            number=number,
            who=who,
            at=at,
        )
        for seq, method, seed, revision, total, log_prob, seconds, warnings, number, who, at in rows
    ]


def has_round(database: sqlite3.Connection, run: int, revision: int) -> bool:
    """Whether a fit is on record."""
    return database.execute("SELECT 1 FROM rounds WHERE run = ? AND told = ?", (run, revision)).fetchone() is not None


def rounds(database: sqlite3.Connection, run: int) -> list[Round]:
    """Fits in the order of what they knew, each with the batches that followed from it; batches drawn before anything
    was known make a round of their own.
    """
    batches: dict[int, list[Ask]] = {}
    for ask in asks(database, run):
        batches.setdefault(ask.revision, []).append(ask)
    metrics: dict[int, dict[str, float]] = {}
    for seq, name, value in database.execute(
        "SELECT m.seq, name, value FROM metrics m JOIN rounds USING (seq) WHERE run = ? ORDER BY m.rowid", (run,)
    ):
        metrics.setdefault(seq, {})[name] = math.nan if value is None else value  # SQLite has no NaN
    fits = {
        revision: (n_labelled, metrics.get(seq, {}), json.loads(seconds))
        for seq, revision, n_labelled, seconds in database.execute(
            "SELECT seq, told, n_labelled, seconds FROM rounds WHERE run = ?", (run,)
        )
    }
    made = []
    for number, revision in enumerate(sorted({*fits, *batches})):
        n_labelled, measured, seconds = fits.get(revision, (0, {}, {}))
        of_round = tuple(batches.get(revision, ()))
        stages = dict(seconds)
        for stage, taken in (item for ask in of_round for item in ask.seconds.items()):
            stages[stage] = stages.get(stage, 0.0) + taken
        made.append(Round(number, revision, n_labelled, measured, stages, of_round))
    return made


def stops(database: sqlite3.Connection, run: int) -> list[Stop]:
    """Why the run ended, each time."""
    rows = database.execute(
        "SELECT told, rule, reason FROM stops JOIN entries USING (seq) WHERE run = ? ORDER BY seq", (run,)
    )
    return [Stop(*row) for row in rows]


def artefact(database: sqlite3.Connection, run: int, kind: str, revision: int) -> str | None:
    """The hash of what is kept for a round."""
    row = database.execute(
        "SELECT hash FROM artefacts WHERE run = ? AND kind = ? AND told = ?", (run, kind, revision)
    ).fetchone()
    return None if row is None else str(row[0])


def kept(database: sqlite3.Connection, run: int, kind: str) -> list[int]:
    """The rounds that something of this kind is kept for."""
    rows = database.execute("SELECT told FROM artefacts WHERE run = ? AND kind = ? ORDER BY told", (run, kind))
    return [revision for (revision,) in rows]
