"""The registry: every named method, and how names and aliases are resolved.

Named methods are points of the grid objective × belief × search; any other point is a `Method` value and is accepted
wherever a name is.
"""

import difflib

from natsel.choose.method import Method, missing
from natsel.choose.named_draws import DRAWS
from natsel.choose.named_weights import WEIGHTS

__all__ = ["METHODS", "Method", "methods", "missing", "resolve"]

METHODS: dict[str, Method] = {method.name: method for method in (*DRAWS, *WEIGHTS)}

_ALIASES = {alias: method.name for method in METHODS.values() for alias in method.aliases}


def methods() -> dict[str, Method]:
    """The grid: every named method with its objective, search, facts and source.

    >>> methods()["batchbald"].facts.submodular
    True
    """
    return dict(METHODS)


def resolve(method: str | Method) -> Method:
    """The method behind a name or alias; a `Method` passes through.

    >>> resolve("EIG").name
    'bald'
    """
    if isinstance(method, Method):
        return method
    if not isinstance(method, str):
        raise ValueError(f"method: expected a name or a natsel.Method, found {type(method).__name__}")
    name = method.strip().lower().replace("_", "-").replace(" ", "-")
    name = _ALIASES.get(name, name)
    if name in METHODS:
        return METHODS[name]
    close = difflib.get_close_matches(name, [*METHODS, *_ALIASES], n=1)
    hint = f"did you mean {close[0]!r}?" if close else "natsel.methods() lists the names"
    raise ValueError(f"method: no method is called {method!r}; {hint}")
