"""Assumptions: what is known of the distributions over which an identity has to hold.

    Determines("R", by="B")                    R = f(B)
    Independent("Y1, Y2", given="Omega")       p(y1, y2 | ω) = p(y1 | ω) p(y2 | ω)

They speak of the law p, not of models.  Spec 01, 4.
"""

from dataclasses import dataclass

from natsel.calculus.symbols import variable_of


@dataclass(frozen=True)
class Determines:
    """`by` determines `of`: the variables of `of` are functions of those of `by`.

    >>> Determines("R", by="B")
    Determines(of=('R',), by=('B',))
    """

    of: str | tuple[str, ...]
    by: str | tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "of", variables("of", self.of))
        object.__setattr__(self, "by", variables("by", self.by))
        if not self.of or not self.by or set(self.of) & set(self.by):
            raise ValueError(f'of, by: found {self.of} and {self.by}; name two different sides, as in of="R", by="B"')


@dataclass(frozen=True)
class Independent:
    """`labels` are mutually independent given `given`; with nothing given, independent as they are.

    >>> Independent("Y1, Y2", given="Ω")
    Independent(labels=('Y1', 'Y2'), given=('Omega',))
    """

    labels: str | tuple[str, ...]
    given: str | tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", variables("labels", self.labels))
        object.__setattr__(self, "given", variables("given", self.given))
        if len(self.labels) < 2 or set(self.labels) & set(self.given):
            raise ValueError(f"labels: found {self.labels} given {self.given}; name two or more that are not given")


Assumption = Determines | Independent


def variables(argument: str, names: "str | tuple[str, ...] | list[str]") -> tuple[str, ...]:
    """The variables that a text with commas, or a sequence of names, speaks of.

    >>> variables("labels", "Y1, ω")
    ('Y1', 'Omega')
    """
    found = []
    for name in names.split(",") if isinstance(names, str) else names:
        variable = variable_of(name.strip()) if name.strip()[:1].isalpha() else None
        if variable is None:
            raise ValueError(f'{argument}: found {names!r}; name variables, as in "Y1, Y2"')
        found.append(variable)
    return tuple(dict.fromkeys(found))
