"""The bounds of windows, in results of Eventide and of Spark."""

from __future__ import annotations

import polars as pl


def with_bounds(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows with the bounds of their windows as ``start`` and ``end``; Spark's own results have a struct of them."""
    if "window" in rows.columns:
        return rows.unnest("window")
    return rows.rename({"window_start": "start", "window_end": "end"})
