"""Rows to slices, and which rows are too late for all of their windows."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from eventide.aggregates.dense import Grid
from eventide.errors import windows as errors
from eventide.operators import columns as c
from eventide.windows import Calendar, Cumulate, Everything, Sliding, Tumbling, WindowKind
from eventide.windows.lifetime import Lifetime


@dataclass(frozen=True)
class Sliced:
    """Rows that have a slice with a live window, and those that have not."""

    rows: pl.DataFrame
    late: pl.DataFrame | None = None
    outside: pl.DataFrame | None = None  # in no window at all


def cut(kind: WindowKind, lifetime: Lifetime, rows: pl.DataFrame, watermark: int, earliest: int | None) -> Sliced:
    """Rows with their slice, less those in no window and those that are too late for all of theirs.

    Where no row can be late and the slices lie on a grid, a row's position stands for its slice.
    """
    if grids_of(kind) and (earliest is None or earliest >= lifetime.live_from(watermark)):
        return Sliced(rows.with_columns(pl.col(c.AT).alias(c.SLICE)))
    return without_late(kind, lifetime, sliced(kind, rows, c.AT), watermark, earliest)


def sliced(kind: WindowKind, rows: pl.DataFrame, position: str) -> Sliced:
    """Add each row's slice; rows between windows (``every > size``) are set apart."""
    rows = rows.with_columns(kind.slice_of(pl.col(position)).alias(c.SLICE))
    if rows.schema[c.SLICE] != pl.Int64:
        raise errors.slice_is_no_integer(kind.describe(), rows.schema[c.SLICE])
    if not rows[c.SLICE].null_count():
        return Sliced(rows)
    nowhere = rows[c.SLICE].is_null()
    return Sliced(rows.filter(~nowhere), outside=rows.filter(nowhere))


def without_late(kind: WindowKind, lifetime: Lifetime, all_: Sliced, watermark: int, earliest: int | None) -> Sliced:
    """Set apart the rows all of whose windows have expired at ``watermark``."""
    live_from = lifetime.live_from(watermark)
    if earliest is None or earliest >= live_from:
        return all_
    behind = all_.rows.filter(pl.col(c.TIME) < live_from)[c.SLICE].unique()
    ends = windows_of(kind, behind).group_by(c.SLICE).agg(pl.col(c.END).max())
    gone = ends.filter(lifetime.expired(pl.col(c.END), watermark))[c.SLICE]
    if gone.is_empty():
        return all_
    late = all_.rows[c.SLICE].is_in(gone.implode())
    return Sliced(all_.rows.filter(~late), all_.rows.filter(late), all_.outside)


def without_late_offsets(kind: WindowKind, lifetime: Lifetime, all_: Sliced) -> Sliced:
    """Set apart the rows all of whose windows have expired at what the offsets of their origin had reached."""
    ends = windows_of(kind, all_.rows[c.SLICE].unique()).group_by(c.SLICE).agg(pl.col(c.END).max())
    rows = all_.rows.join(ends, on=c.SLICE, how="left", maintain_order="left")
    late = rows.select(lifetime.expired(pl.col(c.END), pl.col(c.WAS))).to_series()
    if not late.any():
        return all_
    return Sliced(all_.rows.filter(~late), all_.rows.filter(late), all_.outside)


def windows_of(kind: WindowKind, slices: pl.Series) -> pl.DataFrame:
    """The windows of distinct slices, under the operators' own column names."""
    windows = kind.windows_of(slices.alias("slice"))
    if not isinstance(kind, (Calendar, Cumulate, Everything, Sliding, Tumbling)):
        _check(kind, slices, windows)
    return windows.select(
        pl.col("slice").cast(pl.Int64).alias(c.SLICE),
        pl.col("start").cast(pl.Int64).alias(c.START),
        pl.col("end").cast(pl.Int64).alias(c.END),
    )


def _check(kind: WindowKind, slices: pl.Series, windows: object) -> None:
    """A kind of the user's own that breaks its promise would lose rows without a word."""
    columns = ("slice", "start", "end")
    if not isinstance(windows, pl.DataFrame) or not set(columns) <= set(windows.columns):
        raise errors.no_windows_frame(kind.describe())
    without = slices.filter(~slices.is_in(windows["slice"].implode()))
    if without.len():
        raise errors.slice_without_window(kind.describe(), without[0])
    if not kind.shared and windows.height > windows.select("start", "end").n_unique():
        raise errors.shares_windows(kind.describe())
    if not kind.shared and windows["slice"].n_unique() < windows.height:
        raise errors.shares_windows(kind.describe())
    wrong = windows.filter(~pl.col("slice").is_between("start", "end", closed="left").fill_null(False))
    for row in wrong.select(columns).head(1).iter_rows():
        raise errors.slice_outside_window(kind.describe(), *row)


def grids_of(kind: object) -> dict[str, Grid]:
    """The grid on which a kind's slices lie, where they do: rows are then cut while they are grouped."""
    grid = getattr(kind, "grid", None)
    return {} if grid is None else {c.SLICE: grid}
