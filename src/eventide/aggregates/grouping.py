"""The one place where rows are grouped. Deterministic: the same rows in give the same bytes out.

Polars adds up the floats of few groups in parts, and the parts in an order that differs from run to run, on both of its
engines and whether or not it keeps the order of groups. Only expressions that it cannot compute in parts make it go
through the rows of a group one after the other. That costs time, so it is asked for only where the order can matter.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

_WHOLE = "__whole"


def group(frame: pl.DataFrame, by: Sequence[str], columns: Sequence[pl.Expr], *, ordered: bool = True) -> pl.DataFrame:
    """``columns`` evaluated once per distinct ``by``, in no particular order of groups.

    ``ordered``: rows of a group reach the expressions in the order in which they stand in ``frame``. Without it the
    expressions must give the same for every order. With nothing to group by, the whole frame is one group; an empty
    frame has none.
    """
    if not by:
        return frame.select(columns) if frame.height else frame.select(columns).clear()
    grouped = frame.lazy().group_by(list(by))
    if not ordered:
        return grouped.agg(columns).collect()
    # A literal cannot be computed in parts, so that nothing beside it is. (Dropped in the plan, it would do nothing.)
    whole = grouped.agg(*columns, pl.lit(True).alias(_WHOLE)).collect(engine="in-memory")
    return whole.drop(_WHOLE)
