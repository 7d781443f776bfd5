"""Claims as a recipe declares them: what runs are expected to show, said before they are made.

    { claim = "H6", says = "EPIG is above BALD", method = "epig", than = "bald", at = 100 }
    { claim = "H6", says = "most of all here", kind = "gap", method = "epig", than = "bald", largest = "redundant" }
    { claim = "H3", says = "BALD loses as the pool grows", kind = "falls", method = "bald" }

`at` says where curves are compared: at so many labels, over [from, to], at the "end", or over "all" of them. `margin`
is the least difference that counts (below 0: "not worse by more"); `variants` are the parts of a plan it is about.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from natsel.experiments.recipe.checks import each, number, one_of, table, text, whole

KINDS = ("above", "gap", "falls")


@dataclass(frozen=True)
class Claim:
    """A claim about methods of a recipe, or across the variants of a plan; see the module.

    >>> claim({"claim": "H4", "says": "EPIG is above random", "method": "epig", "than": "random"}).at
    'end'
    """

    claim: str
    says: str
    method: str
    than: str = ""
    kind: str = "above"
    at: int | tuple[int, int] | str = "end"
    metric: str = "accuracy"
    margin: float = 0.0
    largest: str = ""
    variants: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """As it would stand in a file."""
        usual = {name: field.default for name, field in self.__dataclass_fields__.items()}
        found = {key: value for key, value in vars(self).items() if value != usual[key]}
        return {key: list(value) if isinstance(value, tuple) else value for key, value in found.items()}


def claim(value: Any, key: str = "claims") -> Claim:
    """A claim from a recipe's entry."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{key}: expected a table, found {value!r}")
    values = table(_SCHEMA, value, f"{key}.")
    kind = values.get("kind", "above")
    needed = {"above": ("than",), "gap": ("than", "largest"), "falls": ()}[kind]
    for name in ("claim", "says", "method", *needed):
        if name not in values:
            raise ValueError(f"{key}.{name}: the claim does not say; add it")
    for name in {"than", "largest"} - set(needed):
        if name in values:
            raise ValueError(f"{key}.{name}: a claim of kind {kind!r} takes none; take it out")
    return Claim(**values)


def _at(value: Any, key: str) -> int | tuple[int, int] | str:
    if isinstance(value, str):
        return str(one_of("end", "all")(value, key))
    if isinstance(value, list | tuple):
        low, *rest = each(whole(0))(value, key)
        if len(rest) != 1 or rest[0] < low:
            raise ValueError(f"{key}: expected [from, to] in labels, found {list(value)}")
        return int(low), int(rest[0])
    return int(whole(0)(value, key))


_SCHEMA = {
    "claim": text,
    "says": text,
    "kind": one_of(*KINDS),
    "method": text,
    "than": text,
    "at": _at,
    "metric": text,
    "margin": number(-1, 1),
    "largest": text,
    "variants": each(text),
}
