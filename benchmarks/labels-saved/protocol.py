"""The protocol: which sets, sizes, seeds, methods and thresholds, from a file that was there before the first run."""

import hashlib
import json
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Terms:
    """Sizes that are the same for all units."""

    pool: int
    test: int
    first: int
    batch: int
    labels: int
    targets: int
    embedded: int
    noise: float

    @property
    def sizes(self) -> list[int]:
        """The numbers of labels at which a run is measured."""
        return list(range(self.first, self.labels + 1, self.batch))


@dataclass(frozen=True)
class Judged:
    """What the table shows, and the thresholds."""

    at: tuple[int, ...]
    matched: int
    against: tuple[str, ...]
    area: float
    better: float
    worse: int


@dataclass(frozen=True)
class Unit:
    """One run: a model learns a set from the labels that one method chooses, with one seed."""

    model: str
    data: str
    method: str
    seed: int

    def path(self, folder: Path) -> Path:
        """Where its measurements go."""
        return folder / self.model / self.data / f"{self.method}-{self.seed}.jsonl"


@dataclass(frozen=True)
class Protocol:
    """All of it; `units` in the order of the runs."""

    terms: Terms
    judged: Judged
    seeds: int
    methods: tuple[str, ...]
    peers: tuple[str, ...]
    models: dict[str, dict[str, Any]]

    @classmethod
    def read(cls, path: Path = HERE / "protocol.toml") -> "Protocol":
        """The protocol in a file."""
        found = tomllib.loads(path.read_text(encoding="utf-8"))
        plan, judged = found["plan"], found["judged"]
        return cls(
            Terms(**found["terms"]),
            Judged(**judged | {"at": tuple(judged["at"]), "against": tuple(judged["against"])}),
            plan["seeds"],
            tuple(plan["methods"]),
            tuple(plan["peers"]),
            {name: found["models"][name] for name in plan["order"]},
        )

    def units(
        self,
        models: Sequence[str] = (),
        sets: Sequence[str] = (),
        methods: Sequence[str] = (),
        seeds: Sequence[int] = (),
    ) -> Iterator[Unit]:
        """Seed by seed over all sets and methods, so that an interrupted run is still balanced."""
        self._refuse_unknown("models", models, self.models)
        self._refuse_unknown("methods", methods, (*self.methods, *self.peers))
        self._refuse_unknown("sets", sets, {one for model in self.models.values() for one in model["sets"]})
        for seed in seeds or range(self.seeds):
            for model in models or self.models:
                for data in self.models[model]["sets"]:
                    if not sets or data in sets:
                        for method in methods or self.methods:
                            yield Unit(model, data, method, seed)

    def settings(self, model: str) -> dict[str, Any]:
        """What a model is made with."""
        return {name: value for name, value in self.models[model].items() if name != "sets"}

    def digest(self, unit: Unit) -> str:
        """A digest of the terms that decide a unit."""
        decides = {"terms": vars(self.terms), "model": self.settings(unit.model)}
        return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()[:16]

    @staticmethod
    def _refuse_unknown(argument: str, given: Sequence[str], known: Any) -> None:
        unknown = [one for one in given if one not in known]
        if unknown:
            raise ValueError(f"{argument}: the protocol has no {unknown[0]!r}; choose from {', '.join(sorted(known))}")
