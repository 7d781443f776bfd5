"""Names of classes as people write them: "DESC" and "desc ", which differ only in capitals, in spaces at the ends or in
Unicode form, are one class until somebody says otherwise; "cat" and "cut" are two.
"""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any
from unicodedata import normalize

from natsel.data.labels import as_numpy
from natsel.ids import as_ids


def lookalikes(names: Iterable[str], classes: Iterable[str]) -> dict[str, str]:
    """Names that are written like a class, or like a name before them, and are not it; each with that one.

    >>> lookalikes(["desc ", "cut", "Cut"], ["DESC", "cat"])
    {'desc ': 'DESC', 'Cut': 'cut'}
    """
    known = [*classes]
    first = {_letters(name): name for name in reversed(known)}
    found = {name: first.setdefault(_letters(name), name) for name in names if name not in known}
    return {name: other for name, other in found.items() if other != name}


def refuse(wrong: Mapping[str, str], classes: tuple[str, ...], labels: Any, ids: Any, name: str, adding: str) -> None:
    """Raise a ValueError where labels have names that are no classes: `wrong` says what each may be meant for.

    >>> refuse({"desc": "DESC"}, ("DESC",), ["DESC", "desc"], ["a", "b"], "labels", "")
    Traceback (most recent call last):
    ValueError: labels: for id 'b' there is no class 'desc'; did you mean 'DESC'?; if it is new, name all in classes=…
    """
    if not wrong:
        return
    column, places = as_numpy(labels).reshape(-1).tolist(), [] if ids is None else as_ids(ids).tolist()
    if len(places) != len(column):
        places = list(range(len(column)))
    place_of = {one: place for one, place in zip(column[::-1], places[::-1], strict=True) if isinstance(one, str)}
    said = []
    for one in [*wrong][:3]:
        meant = wrong[one] or next(iter(get_close_matches(one, classes, n=1)), "")
        also = f", as for id {place_of[meant]!r}" if meant in place_of and meant not in classes else ""
        hint = f"did you mean {meant!r}{also}?" if meant else f"the classes are {', '.join(classes[:10])}"
        said.append(f"for id {place_of[one]!r} there is no class {one!r}; {hint}")
    more = f", and {len(wrong) - 3} more" if len(wrong) > 3 else ""
    new = f"call {adding}({[*wrong][:3]}) first" if adding else "name all in classes=…"
    raise ValueError(f"{name}: {'; '.join(said)}{more}; if it is new, {new}")


def _letters(name: str) -> str:
    return normalize("NFKC", normalize("NFKC", name).strip().casefold()).strip()
