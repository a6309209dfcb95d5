"""The output rows of a pipeline: panes, late rows and dead letters, and the names of their columns.

A pane row has the key columns, the bounds of its window, the aggregates, the pane columns, and ``diff``. Retractions
(``diff = -1``) are first, and the rest is ordered by window and key, so that the same panes are the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import polars as pl

from eventide import _columns as c
from eventide.time import MAX, MIN

EARLY, ON_TIME, LATE = "EARLY", "ON_TIME", "LATE"
TIMING = pl.Enum([EARLY, ON_TIME, LATE])
INSTANT = pl.Datetime("us", "UTC")

WINDOW_START, WINDOW_END = "window_start", "window_end"
PANE_TIMING, PANE_INDEX, PANE_NONSPECULATIVE_INDEX = "pane_timing", "pane_index", "pane_nonspeculative_index"
PANE_IS_FIRST, PANE_IS_LAST = "pane_is_first", "pane_is_last"
EMITTED_AT, WINDOW_TIME = "emitted_at", "window_time"
DIFF = "diff"

WINDOW = (WINDOW_START, WINDOW_END)
PANE = (
    PANE_TIMING,
    PANE_INDEX,
    PANE_NONSPECULATIVE_INDEX,
    PANE_IS_FIRST,
    PANE_IS_LAST,
    EMITTED_AT,
    WINDOW_TIME,
)
RESERVED = (*WINDOW, *PANE, DIFF)

_OF_EVERY_PANE = (PANE_TIMING, PANE_INDEX, DIFF)  # those by which panes in formats of text are recognised

# Late rows and dead letters have all columns of the input, so the columns that are added have a prefix.
PREFIX = "ev_"
EVENT_TIME, WATERMARK, ROW_EMITTED_AT = f"{PREFIX}event_time", f"{PREFIX}watermark", f"{PREFIX}emitted_at"
REASON, DETAIL, INPUT = f"{PREFIX}reason", f"{PREFIX}detail", f"{PREFIX}input"
LATE_COLUMNS = (EVENT_TIME, WATERMARK, ROW_EMITTED_AT)
DEAD_COLUMNS = (REASON, DETAIL, WATERMARK, ROW_EMITTED_AT)

_START, _END = pl.col(c.START), pl.col(c.END)


def recognised_columns(schema: Mapping[str, pl.DataType]) -> set[str]:
    """Return the columns by which rows are recognised as panes of a pipeline; empty if they are other rows.

    All results have an 8-bit ``diff``, also if their other pane columns are dropped, as results of SQL. Formats of text
    do not preserve that type. There, other rows can have columns of these names, but hardly all of them with numbers in
    ``pane_index`` and ``diff``.

    >>> panes = {"shop": pl.String(), "pane_timing": pl.String(), "pane_index": pl.Int64(), "diff": pl.Int64()}
    >>> sorted(recognised_columns(panes))
    ['diff', 'pane_index', 'pane_timing']
    >>> recognised_columns(panes | {"diff": pl.String()})
    set()
    >>> recognised_columns({"shop": pl.String(), "diff": pl.Int8()})
    {'diff'}
    """
    if schema.get(DIFF) == pl.Int8:
        return {DIFF}
    marks = set(_OF_EVERY_PANE)
    is_pane = marks.issubset(schema) and all(schema[name].is_integer() for name in (PANE_INDEX, DIFF))
    return marks if is_pane else set()


def pane_rows(
    emitted: pl.DataFrame, *, key: Sequence[str], results: Sequence[str], now: int, by_row: bool
) -> pl.DataFrame:
    """Emitted panes as output rows. ``emitted`` has start, end, the results, ``diff`` and the pane's fields."""
    order = emitted.sort(DIFF, c.END, c.START, *key, maintain_order=True) if emitted.height > 1 else emitted
    return order.select(
        *key,
        *window_bounds(by_row=by_row),
        *results,
        pl.col(c.TIMING).cast(TIMING).alias(PANE_TIMING),
        pl.col(c.INDEX).cast(pl.Int64).alias(PANE_INDEX),
        pl.col(c.NONSPECULATIVE).cast(pl.Int64).alias(PANE_NONSPECULATIVE_INDEX),
        pl.col(c.IS_FIRST).alias(PANE_IS_FIRST),
        pl.col(c.IS_LAST).alias(PANE_IS_LAST),
        pl.lit(now, pl.Int64).cast(INSTANT).alias(EMITTED_AT),
        pl.col(c.PANE_TIME).cast(INSTANT).alias(WINDOW_TIME),
        pl.col(DIFF).cast(pl.Int8),
    )


def window_bound(value: pl.Expr, unbounded: int, *, by_row: bool) -> pl.Expr:
    """A bound of a window in output rows: an instant, null where it is unbounded; or a row number."""
    return value if by_row else pl.when(value != unbounded).then(value).cast(INSTANT)


def window_bounds(start: pl.Expr = _START, end: pl.Expr = _END, *, by_row: bool) -> list[pl.Expr]:
    """Return both bounds of windows as users see them."""
    return [
        window_bound(start, MIN, by_row=by_row).alias(WINDOW_START),
        window_bound(end, MAX, by_row=by_row).alias(WINDOW_END),
    ]


def late_rows(rows: pl.DataFrame, *, watermark: int, now: int) -> pl.DataFrame:
    """Late rows: the original, its event time, the watermark, and the batch's time."""
    return rows.select(
        *_user_columns(rows),
        pl.col(c.TIME).cast(INSTANT).alias(EVENT_TIME),
        _instant(watermark).alias(WATERMARK),
        _instant(now).alias(ROW_EMITTED_AT),
    )


def dead_rows(rows: pl.DataFrame, *, watermark: int, now: int) -> pl.DataFrame:
    """Dead letters: the original, the reason, a detail, the watermark, and the batch's time."""
    return rows.select(
        *_user_columns(rows),
        pl.col(c.REASON).alias(REASON),
        pl.col(c.DETAIL).alias(DETAIL),
        _instant(watermark).alias(WATERMARK),
        _instant(now).alias(ROW_EMITTED_AT),
    )


def taken_names(names: Iterable[str]) -> list[str]:
    """The input columns whose names are reserved for late rows and dead letters; case does not matter.

    >>> taken_names(["ts", "event_time", "Ev_Reason"])
    ['Ev_Reason']
    """
    reserved = {*LATE_COLUMNS, *DEAD_COLUMNS, INPUT}
    return [name for name in names if name.lower() in reserved]


def _instant(value: int) -> pl.Expr:
    return pl.lit(value if MIN < value < MAX else None, pl.Int64).cast(INSTANT)


def _user_columns(rows: pl.DataFrame) -> list[str]:
    return [name for name in rows.columns if not name.startswith("__")]
