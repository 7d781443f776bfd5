"""Files of natsel's own as another version, or another hand, might have written them."""


def without_digests(found):
    """What a file holds, without the digests that would tell that somebody else changed it.

    >>> without_digests({"natsel_kind": "Pruning", "natsel_digest": "0"})
    {'natsel_kind': 'Pruning'}
    """
    return {name: value for name, value in found.items() if name not in ("natsel_digest", "natsel_arrays")}
