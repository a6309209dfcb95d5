"""The rows that users see: outputs, windows, messages, dead letters."""

from __future__ import annotations

from collections.abc import Container

import polars as pl

from eventide.operators import columns as c
from eventide.panes import INSTANT, TIMING
from eventide.standalone import columns as s
from eventide.standalone.design import Design
from eventide.standalone.stores.windows import NAME
from eventide.time import MAX, MIN
from eventide.windows import Axis


def output_rows(told: pl.DataFrame, content: pl.DataFrame, design: Design, now: int) -> pl.DataFrame:
    """What is told of windows, with ``window`` and ``pane``; for sessions of results also what they replace."""
    timing = pl.col(c.TIMING) if c.TIMING in told.columns else pl.lit(None, TIMING).alias(c.TIMING)
    facts = told.select(*NAME, s.REPLACES, timing, pl.col(s.TOLD).fill_null(0))
    visible = [name for name in content.columns if name not in NAME]
    pane = pl.struct(
        pl.col(c.TIMING).alias("timing"),
        pl.col(s.TOLD).alias("index"),
        pl.lit(now, pl.Int64).cast(INSTANT).alias("at"),
    )
    replaced = pl.element().struct
    bounds = pl.struct(
        _bound(replaced.field("start"), MIN, design.axis).alias("start"),
        _bound(replaced.field("end"), MAX, design.axis).alias("end"),
    )
    replaces = [pl.col(s.REPLACES).list.eval(bounds).alias("replaces")] if design.tells_replaced else []
    rows = content.lazy().join(facts.lazy(), on=NAME, how="left", maintain_order="left")
    return rows.select(*visible, _window(design.axis), *replaces, pane.alias("pane")).collect(engine="in-memory")


def window_rows(windows: pl.DataFrame, content: pl.DataFrame, axis: Axis, *, timed: bool) -> pl.DataFrame:
    """Windows with what is known of them in ``meta``; messages without a time (not ``timed``) have none there."""
    if not timed:
        windows = windows.with_columns(pl.lit(None, pl.Int64).alias(name) for name in (s.FIRST_TIME, s.LAST_TIME))
    meta = windows.select(
        *NAME,
        pl.struct(
            pl.col(s.START_OFFSET).alias("start_offset"),
            pl.col(s.LAST_OFFSET).alias("last_offset"),
            pl.col(s.FIRST_TIME).cast(INSTANT).alias("first_time"),
            pl.col(s.LAST_TIME).cast(INSTANT).alias("last_time"),
            pl.col(c.ROWS).alias("rows"),
            pl.col(s.PENDING).alias("pending"),
        ).alias("meta"),
    )
    visible = [name for name in content.columns if name not in NAME]
    return content.join(meta, on=NAME, how="left", maintain_order="left").select(*visible, _window(axis), "meta")


def message_rows(messages: pl.DataFrame, windows: pl.DataFrame | None) -> pl.DataFrame:
    """Messages; where windows are given, without those that wait in them."""
    if windows is None or s.WAITING not in windows.columns:
        return messages
    waiting = windows.select(pl.col(s.WAITING).list.explode(keep_nulls=False, empty_as_null=False).alias(s.OFFSET))
    return messages.join(waiting, on=s.OFFSET, how="anti", maintain_order="left")


def dead_letters(messages: pl.DataFrame, reason: str | None, schema: pl.Schema, now: int) -> pl.DataFrame:
    """Messages as they were, with the reason and the time."""
    why = pl.col(c.REASON) if reason is None else pl.lit(reason)
    at = pl.lit(now, pl.Int64).cast(INSTANT)
    extra = [column.alias(_free(name, schema)) for name, column in (("reason", why), ("at", at))]
    return messages.select(*schema.names(), *extra)


def _free(name: str, taken: Container[str]) -> str:
    """A name that is taken gets trailing underscores."""
    return _free(f"{name}_", taken) if name in taken else name


def _window(axis: Axis) -> pl.Expr:
    start, end = _bound(pl.col(c.START), MIN, axis), _bound(pl.col(c.END), MAX, axis)
    return pl.struct(start.alias("start"), end.alias("end")).alias("window")


def _bound(value: pl.Expr, unbounded: int, axis: Axis) -> pl.Expr:
    return value if axis == "rows" else pl.when(value != unbounded).then(value).cast(INSTANT)
