"""A contender: a method as a recipe names it, with what it is called in tables and in folders.

    "batchbald"
    { method = "power-bald", beta = 4 }
    { objective = "Entropy", search = "SoftRank", beta = 2, k = 5 }

On a command line the second reads `power-bald:beta=4`. `k` gives a contender a batch size of its own: some methods are
at their best with smaller batches than others.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from natsel.experiments.recipe.checks import closest, number, table, text, whole

if TYPE_CHECKING:
    from natsel.choose import Method

_SCHEMA = {"method": text, "objective": text, "search": text, "beta": number(0), "k": whole(1)}


@dataclass(frozen=True)
class Contender:
    """A named method, or an objective and a search; `beta` and `k` where they differ from the usual."""

    method: str | None = None
    objective: str | None = None
    search: str | None = None
    beta: float | None = None
    k: int | None = None

    @property
    def label(self) -> str:
        """What tables and charts call it.

        >>> Contender("power-bald", beta=4.0).label
        'power-bald β=4'
        """
        parts = [self.method or f"{self.objective} × {self.search}"]
        parts += [] if self.beta is None else [f"β={self.beta:g}"]
        parts += [] if self.k is None else [f"k={self.k}"]
        return " ".join(parts)

    @property
    def slug(self) -> str:
        """What its folder is called.

        >>> Contender("power-bald", beta=4.0).slug
        'power-bald-beta-4'
        """
        readable = self.label.replace("β=", "beta-").replace("k=", "k-").lower()
        return re.sub(r"[^a-z0-9.-]+", "-", readable)

    def as_dict(self) -> Any:
        """As it would stand in a recipe."""
        found = {key: value for key, value in vars(self).items() if value is not None}
        return self.method if set(found) == {"method"} else found

    def build(self) -> "Method":
        """What `ActiveLearner` takes as its method.

        >>> Contender("power-bald", beta=4.0).build().search.beta
        4.0
        """
        from dataclasses import fields, replace

        import natsel
        from natsel.choose.methods import resolve

        if self.method is not None:
            found = resolve(self.method)
        else:
            found = natsel.Method(_part("objective", self.objective), _part("search", self.search))
        if self.beta is not None:
            if "beta" not in {one.name for one in fields(found.search)}:  # type: ignore[arg-type]
                raise ValueError(f"beta: {self.label} searches by {type(found.search).__name__}, which takes none")
            found = replace(found, search=replace(found.search, beta=self.beta))  # type: ignore[type-var]
        return replace(found, name=self.label.removesuffix(f" k={self.k}"))


def contender(value: Any, key: str = "methods") -> Contender:
    """A contender from a recipe's entry: a name or a table."""
    if isinstance(value, str):
        return Contender(text(value, key))
    if not isinstance(value, Mapping):
        raise ValueError(f"{key}: expected a method's name or a table, found {value!r}")
    values = table(_SCHEMA, value, f"{key}.")
    if ("method" in values) == ("objective" in values or "search" in values) or (
        "method" not in values and not {"objective", "search"} <= set(values)
    ):
        raise ValueError(f"{key}: give either method, or both objective and search; found {sorted(values)}")
    return Contender(**values)


def contenders(listed: str, known: tuple[Contender, ...] = ()) -> tuple[Contender, ...]:
    """Contenders from a command line: names of the recipe's own, or `name:beta=4:k=5`, with commas between.

    >>> [one.label for one in contenders("random,power-bald:beta=4")]
    ['random', 'power-bald β=4']
    """
    by_name = {name: one for one in known for name in (one.label, one.slug)}
    found = []
    for part in filter(None, (part.strip() for part in listed.split(","))):
        if part in by_name:
            found.append(by_name[part])
            continue
        name, *settings = part.split(":")
        values: dict[str, Any] = {"method": name}
        for setting in settings:
            key, _, value = setting.partition("=")
            if key not in ("beta", "k"):
                raise ValueError(f"methods: {part!r} sets {key!r}; {closest(key, ('beta', 'k'))}")
            try:
                values[key] = float(value) if key == "beta" else int(value)
            except ValueError:
                raise ValueError(f"methods: {part!r} needs a number after {key}=") from None
        found.append(contender(values))
    if not found:
        raise ValueError(f"methods: found none in {listed!r}; name some, with commas between")
    return tuple(found)


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


def _part(axis: str, name: str | None) -> Any:
    from natsel import objectives, search

    room = objectives if axis == "objective" else search
    kinds = {
        key: kind
        for key, kind in vars(room).items()
        if isinstance(kind, type) and hasattr(kind, "__dataclass_fields__")
    }
    if name not in kinds:
        raise ValueError(f"{axis}: there is no {name!r}; {closest(str(name), kinds)}")
    return kinds[name]()
