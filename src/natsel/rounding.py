"""How far float64 is trusted: the tolerances that more than one file uses."""

TIE = 1e-10
"""Gains, scores and values closer than this are equal: which of them is larger differs between devices."""
ROUNDING = 1e-14
"""What is left of a squared length or a variance below this share of it is rounding."""
AS_NEAR = 1e-6
"""Squared distances to two points that differ by less than this share are equal: float32 does not tell them apart."""
