"""Seeds made from seeds: one number a purpose, so that nothing depends on the order in which things are drawn.

    derive(seed, "fit", 3) = the first 63 bits of blake2b(seed, "fit", 3)

A round, a layer or a draw gets its own stream whatever was drawn before it: that is what lets a run be killed, cut
into pieces or resumed and still choose the same points.
"""

import hashlib

from natsel.options import checked


@checked
def derive(seed: int, *purpose: str | int) -> int:
    """A seed below 2**63 for one purpose, far from those of all others.

    >>> derive(0, "fit", 1) == derive(0, "fit", 1), derive(0, "fit", 1) == derive(0, "fit", 2)
    (True, False)
    """
    text = repr((int(seed), *purpose))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1
