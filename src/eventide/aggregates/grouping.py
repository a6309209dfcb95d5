"""The one place where rows are grouped. Deterministic: the same rows in give the same bytes out.

Polars adds the floats of few groups in an order that differs from run to run, on both of its engines, unless it is told
to keep the order of groups. That costs time, so it is asked for only where an expression depends on the order.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl


def group(frame: pl.DataFrame, by: Sequence[str], columns: Sequence[pl.Expr], *, ordered: bool = True) -> pl.DataFrame:
    """``columns`` evaluated once per distinct ``by``, in no particular order of groups.

    ``ordered``: rows of a group reach the expressions in the order in which they stand in ``frame``. Without it the
    expressions must give the same for every order. With nothing to group by, the whole frame is one group; an empty
    frame has none.
    """
    if not by:
        return frame.select(columns) if frame.height else frame.select(columns).clear()
    if ordered:
        return frame.lazy().group_by(list(by), maintain_order=True).agg(columns).collect(engine="in-memory")
    return frame.lazy().group_by(list(by)).agg(columns).collect()
