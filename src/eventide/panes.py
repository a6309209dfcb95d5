"""The rows that a pipeline gives: panes, late rows and dead letters.

A pane row has the key columns, ``window``, the aggregates, ``pane`` and ``diff``. Retractions (``diff = -1``) stand
first, the rest is ordered by window and key, so that the same panes are the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from eventide.operators import columns as c
from eventide.time import MAX, MIN

EARLY, ON_TIME, LATE = "EARLY", "ON_TIME", "LATE"
TIMING = pl.Enum([EARLY, ON_TIME, LATE])
INSTANT = pl.Datetime("us", "UTC")

RESERVED = ("window", "pane", "diff")


def pane_rows(
    emitted: pl.DataFrame, *, key: Sequence[str], results: Sequence[str], now: int, by_row: bool
) -> pl.DataFrame:
    """Emitted panes as users see them. ``emitted`` has start, end, the results, ``diff`` and the pane's fields."""
    order = emitted.sort("diff", c.END, c.START, *key, maintain_order=True) if emitted.height > 1 else emitted
    return order.select(
        *key,
        pl.struct(_bound(c.START, MIN, by_row).alias("start"), _bound(c.END, MAX, by_row).alias("end")).alias("window"),
        *results,
        pl.struct(
            pl.col(c.TIMING).cast(TIMING).alias("timing"),
            pl.col(c.INDEX).cast(pl.Int64).alias("index"),
            pl.col(c.NONSPECULATIVE).cast(pl.Int64).alias("nonspeculative_index"),
            pl.col(c.IS_FIRST).alias("is_first"),
            pl.col(c.IS_LAST).alias("is_last"),
            pl.lit(now, pl.Int64).cast(INSTANT).alias("at"),
            pl.col(c.PANE_TIME).cast(INSTANT).alias("time"),
        ).alias("pane"),
        pl.col("diff").cast(pl.Int8),
    )


def _bound(name: str, unbounded: int, by_row: bool) -> pl.Expr:
    if by_row:
        return pl.col(name)
    return pl.when(pl.col(name) != unbounded).then(pl.col(name)).cast(INSTANT)


def late_rows(rows: pl.DataFrame, *, watermark: int, now: int) -> pl.DataFrame:
    """Rows that came too late: the original, its time, the watermark that it missed, the batch's time."""
    extra = {
        "event_time": pl.col(c.TIME).cast(INSTANT),
        "watermark": _instant(watermark),
        "at": _instant(now),
    }
    return _beside(rows, extra)


def dead_rows(rows: pl.DataFrame, *, watermark: int, now: int) -> pl.DataFrame:
    """Rows that could not be used: the original, the reason, a detail, the watermark, the batch's time."""
    extra = {
        "reason": pl.col(c.REASON),
        "detail": pl.col(c.DETAIL),
        "watermark": _instant(watermark),
        "at": _instant(now),
    }
    return _beside(rows, extra)


def _instant(value: int) -> pl.Expr:
    return pl.lit(value if MIN < value < MAX else None, pl.Int64).cast(INSTANT)


def _beside(rows: pl.DataFrame, extra: dict[str, pl.Expr]) -> pl.DataFrame:
    """The user's columns and ours; where a name is taken, ours gets trailing underscores."""
    own = [name for name in rows.columns if not name.startswith("__")]
    return rows.select(*own, *(column.alias(_free(name, own)) for name, column in extra.items()))


def _free(name: str, taken: Sequence[str]) -> str:
    return _free(f"{name}_", taken) if name in taken else name
