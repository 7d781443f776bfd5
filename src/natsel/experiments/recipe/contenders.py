"""A contender: a method as a recipe names it, with its name in tables and in folders.

    "batchbald"
    { method = "power-bald", beta = 4 }
    { objective = "Entropy", search = "SoftRank", beta = 2, k = 5 }

On a command line the second is written `power-bald:beta=4`. `k` gives a contender its own batch size: some methods are
best with smaller batches than others.
"""

import re
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Self

from natsel.experiments.recipe.checks import Table, closest, key, number, text, whole

if TYPE_CHECKING:
    from natsel.choose import Method


@dataclass(frozen=True)
class Contender(Table):
    """A named method, or an objective and a search; `beta` and `k` where they differ from the usual."""

    method: str | None = key(text, default=None)
    objective: str | None = key(text, default=None)
    search: str | None = key(text, default=None)
    beta: float | None = key(number(0), default=None)
    k: int | None = key(whole(1), default=None)

    @classmethod
    def from_table(cls, found: Any, where: str = "methods") -> Self:
        """A contender from a recipe's entry: a name or a table."""
        if isinstance(found, str):
            return cls(text(found, where))
        if not isinstance(found, dict):
            raise ValueError(f"{where}: expected a method's name or a table, found {found!r}")
        made = super().from_table(found, where)
        if {"method", "objective", "search"} & set(found) not in ({"method"}, {"objective", "search"}):
            raise ValueError(f"{where}: give either method, or both objective and search; found {sorted(found)}")
        return made

    def as_table(self) -> Any:
        """As it stands in a recipe: a name alone, where there is nothing else to say."""
        found = super().as_table()
        return self.method if set(found) == {"method"} else found

    @property
    def label(self) -> str:
        """Its name in tables and charts.

        >>> Contender("power-bald", beta=4.0).label
        'power-bald β=4'
        """
        parts = [self.method or f"{self.objective} × {self.search}"]
        parts += [] if self.beta is None else [f"β={self.beta:g}"]
        parts += [] if self.k is None else [f"k={self.k}"]
        return " ".join(parts)

    @property
    def slug(self) -> str:
        """The name of its folder.

        >>> Contender("power-bald", beta=4.0).slug
        'power-bald-beta-4'
        """
        readable = self.label.replace("β=", "beta-").replace("k=", "k-").lower()
        return re.sub(r"[^a-z0-9.-]+|^\.+", "-", readable)

    def build(self) -> "Method":
        """What `ActiveLearner` takes as its method.

        >>> Contender("power-bald", beta=4.0).build().search.beta
        4.0
        """
        import natsel
        from natsel.choose.methods import resolve
        from natsel.objectives import objective_called

        if self.method is not None:
            found = resolve(self.method)
        else:
            found = natsel.Method(objective_called(str(self.objective))(), _search_called(self.search))
        if self.beta is not None:
            if "beta" not in {one.name for one in fields(found.search)}:  # type: ignore[arg-type]
                raise ValueError(f"beta: {self.label} searches by {type(found.search).__name__}, which takes none")
            found = replace(found, search=replace(found.search, beta=self.beta))  # type: ignore[type-var]
        return replace(found, name=self.label.removesuffix(f" k={self.k}"))


def contenders(listed: str, known: tuple[Contender, ...] = ()) -> tuple[Contender, ...]:
    """Contenders from a command line: names of the recipe's own, or `name:beta=4:k=5`, with commas between.

    >>> [one.label for one in contenders("random,power-bald:beta=4")]
    ['random', 'power-bald β=4']
    """
    by_name = {name: one for one in known for name in (one.label, one.slug)}
    parts = [part.strip() for part in listed.split(",") if part.strip()]
    if not parts:
        raise ValueError(f"methods: found none in {listed!r}; name some, with commas between")
    return tuple(by_name[part] if part in by_name else _contender(part) for part in parts)


def seed_list(listed: str) -> tuple[int, ...]:
    """Seeds from a command line.

    >>> seed_list("0-2,7")
    (0, 1, 2, 7)
    """
    found: list[int] = []
    for part in listed.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part)
        if match is None:
            raise ValueError(f"seeds: found {part!r}; write numbers and ranges, for example 0-4 or 0,3,7")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise ValueError(f"seeds: {part.strip()!r} counts down; write {last}-{first}")
        found += range(first, last + 1)
    return tuple(dict.fromkeys(found))


def _contender(part: str) -> Contender:
    name, *settings = part.split(":")
    values: dict[str, Any] = {"method": name}
    for setting in settings:
        option, _, value = setting.partition("=")
        if option not in ("beta", "k"):
            raise ValueError(f"methods: {part!r} sets {option!r}; {closest(option, ('beta', 'k'))}")
        try:
            values[option] = float(value) if option == "beta" else int(value)
        except ValueError:
            raise ValueError(f"methods: {part!r} needs a number after {option}=") from None
    return Contender.from_table(values)


def _search_called(name: str | None) -> Any:
    """The search of that name, with its usual options."""
    from natsel.search import SEARCHES

    kinds = {kind.__name__: kind for kind in SEARCHES}
    if name not in kinds:
        raise ValueError(f"search: there is no {name!r}; {closest(str(name), kinds)}")
    return kinds[name]()
