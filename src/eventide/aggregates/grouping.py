"""The one place where rows are grouped. Deterministic: the same rows in give the same bytes out.

Polars' streaming engine adds floats in an order that differs from run to run, so it is not used here.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl


def group(frame: pl.DataFrame, by: Sequence[str], columns: Sequence[pl.Expr]) -> pl.DataFrame:
    """``columns`` evaluated once per distinct ``by``, in no particular order of groups.

    Rows of a group reach the expressions in the order in which they stand in ``frame``. With nothing to
    group by, the whole frame is one group; an empty frame has none.
    """
    if not by:
        return frame.select(columns) if frame.height else frame.select(columns).clear()
    return frame.lazy().group_by(list(by)).agg(columns).collect(engine="in-memory")
