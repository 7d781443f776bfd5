"""Inputs [x, t] without their last column, the treatment, or with another one: of an array or of a data frame.

    covariates_of    x                    N rows
    both_arms        [x, 0], then [x, 1]  2N rows

One call of a model about all 2N rows predicts both arms with the same draws.
"""

from typing import Any

from natsel.causal.data import treatment_last, treatment_of
from natsel.data.frames import FrameRows, NamedColumns, joined


def covariates_of(inputs: Any) -> Any:
    """All columns but the treatment, as an array or as rows of the data frame.

    >>> covariates_of([[0.5, 1.0], [2.5, 0.0]]).tolist()
    [[0.5], [2.5]]
    """
    rows = _rows_of(inputs)
    return rows.with_columns(rows.names[:-1]) if getattr(rows, "names", ()) else rows[:, :-1]


def both_arms(inputs: Any) -> Any:
    """All points without the treatment, then all with it, in the types of the inputs.

    >>> both_arms([[0.5, 1.0], [2.5, 0.0]]).tolist()
    [[0.5, 0.0], [2.5, 0.0], [0.5, 1.0], [2.5, 1.0]]
    """
    rows = _rows_of(inputs)
    return joined(*(_with_arm(rows, arm) for arm in (0, 1)))


def _with_arm(rows: Any, arm: int) -> Any:
    if not isinstance(rows, FrameRows):
        changed_N_D = NamedColumns(rows.copy(), getattr(rows, "names", ()))
        changed_N_D[:, -1] = arm
        return changed_N_D
    name, frame = rows.names[-1], rows.frame
    if hasattr(frame, "iloc"):  # of pandas; what follows is of polars
        changed = frame.copy(deep=False)
        changed[name] = (frame[name] * 0 + arm).astype(frame[name].dtype)
        return changed
    column = frame.to_series(len(rows.names) - 1)
    return frame.with_columns((column.cast(int) * 0 + arm).cast(column.dtype).alias(name))


def _rows_of(inputs: Any) -> Any:
    treatment_of(inputs, -1)
    return treatment_last(inputs, -1)
