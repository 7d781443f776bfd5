"""How much information quick selection gives away: natsel under several seeds against the reference.

    difference = 1000 · ( I[Y_natsel; Ω] − I[Y_reference; Ω] )   mnat, both judged on the same random numbers

Negative is worse than the reference; a positive value is luck of the path, since both are greedy.  Spec 03b,
1 and 5.
"""

from collections.abc import Callable
from statistics import fmean
from typing import Any

from natsel.bench.cases import Case
from natsel.bench.compare import cpu_seconds, judge
from natsel.bench.processes import Workers

CONFIGURATIONS = 1_000_000
# Where two candidates are all but level the path is luck, about a mnat in the end: the best of a few is the bar.
REFERENCES = 3
_SETTINGS = ("natsel", "natsel-careful")


def quality(
    case: Case,
    workers: Workers,
    *,
    seeds: int = 5,
    configurations: int = CONFIGURATIONS,
    progress: Callable[[str], None] = lambda line: None,
) -> list[dict[str, Any]]:
    """For each setting of natsel the differences to the reference over seeds, their mean and the worst."""
    case = workers.sized(case)
    references = []
    for seed in range(REFERENCES):
        progress(f"{case.name}: reference {seed + 1} of {REFERENCES}")
        references.append(workers.on_pool("reference", k=case.k, seed=seed))
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in _SETTINGS}
    for name, done in runs.items():
        for seed in range(seeds):
            progress(f"{case.name}: {name}, seed {seed}")
            done.append(workers.select(case, name, seed=seed))
    progress(f"{case.name}: judging")
    batches = [run["indices"] for done in (references, *runs.values()) for run in done]
    information = judge(workers, batches, configurations)
    judged = [information[frozenset(run["indices"])] for run in references]
    best, error = max(judged)
    rows = []
    for name, done in runs.items():
        differences = [1000 * (information[frozenset(run["indices"])][0] - best) for run in done]
        rows.append(
            {
                "case": case.name,
                "label": case.label,
                "contender": name,
                "reference_information": best,
                "reference_information_runs": [value for value, _ in judged],
                "reference_cpu_s": fmean(run["cpu_s"] for run in references),
                "se_mnat": 1000 * error,
                "differences_mnat": differences,
                "mean_mnat": fmean(differences),
                "worst_mnat": min(differences),
                "cpu_s": fmean(map(cpu_seconds, done)),
            }
        )
    return rows
