"""Slices of rows, late rows, and the watermarks of windows by offset."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from eventide import _columns as c
from eventide.errors import PlanError
from eventide.kernels.grouping import Grid
from eventide.state.pane_table import DUE, Positions
from eventide.time import MAX, MIN
from eventide.watermarks import AnyTracker
from eventide.windows import Calendar, Cumulate, GlobalWindow, Sliding, Tumbling, WindowKind
from eventide.windows.lateness import Lateness, is_due, last_ends


@dataclass(frozen=True)
class Sliced:
    """Rows with a live window, and those without one."""

    rows: pl.DataFrame
    late: pl.DataFrame | None = None
    outside: pl.DataFrame | None = None  # in no window at all


def cut(kind: WindowKind, expiry: Lateness, rows: pl.DataFrame, watermark: int, earliest: int | None) -> Sliced:
    """Return rows with their slice, without those in no window and those that are late for all of their windows.

    If no row can be late and the slices form a grid, a row's position is used in place of its slice.
    """
    if grids_of(kind) and (earliest is None or earliest >= expiry.live_from(watermark)):
        return Sliced(rows.with_columns(pl.col(c.AT).alias(c.SLICE)))
    return without_late(kind, expiry, sliced(kind, rows, c.AT), watermark, earliest)


def sliced(kind: WindowKind, rows: pl.DataFrame, position: str) -> Sliced:
    """Add each row's slice; rows between windows (``every > size``) are ``outside``."""
    rows = rows.with_columns(kind.slice_of(pl.col(position)).alias(c.SLICE))
    if rows.schema[c.SLICE] != pl.Int64:
        raise PlanError(
            f"slice_of() of the windows '{kind.describe()}' returns {rows.schema[c.SLICE]}, not Int64. Use // "
            "instead of /."
        )
    if not rows[c.SLICE].null_count():
        return Sliced(rows)
    nowhere = rows[c.SLICE].is_null()
    return Sliced(rows.filter(~nowhere), outside=rows.filter(nowhere))


def without_late(kind: WindowKind, expiry: Lateness, all_: Sliced, watermark: int, earliest: int | None) -> Sliced:
    """Separate the late rows: all of their windows have expired at ``watermark``."""
    live_from = expiry.live_from(watermark)
    if earliest is None or earliest >= live_from:
        return all_
    old_slices = all_.rows.filter(pl.col(c.TIME) < live_from)[c.SLICE].unique()
    ends = last_ends(windows_of(kind, old_slices), c.SLICE)
    expired = ends.filter(expiry.is_expired(pl.col(c.END), watermark))[c.SLICE]
    if expired.is_empty():
        return all_
    late = all_.rows[c.SLICE].is_in(expired.implode())
    return Sliced(all_.rows.filter(~late), all_.rows.filter(late), all_.outside)


def without_late_offsets(kind: WindowKind, expiry: Lateness, all_: Sliced) -> Sliced:
    """Separate the late rows: all of their windows have expired at the previous offset watermark of their origin."""
    ends = last_ends(windows_of(kind, all_.rows[c.SLICE].unique()), c.SLICE)
    rows = all_.rows.join(ends, on=c.SLICE, how="left", maintain_order="left")
    late = rows.select(expiry.is_expired(pl.col(c.END), pl.col(c.PREVIOUS))).to_series()
    if not late.any():
        return all_
    return Sliced(all_.rows.filter(~late), all_.rows.filter(late), all_.outside)


def windows_of(kind: WindowKind, slices: pl.Series) -> pl.DataFrame:
    """The windows of distinct slices, with the internal column names."""
    windows = kind.windows_of(slices.alias("slice"))
    if not isinstance(kind, (Calendar, Cumulate, GlobalWindow, Sliding, Tumbling)):
        _check(kind, slices, windows)
    return windows.select(
        pl.col("slice").cast(pl.Int64).alias(c.SLICE),
        pl.col("start").cast(pl.Int64).alias(c.START),
        pl.col("end").cast(pl.Int64).alias(c.END),
    )


def _check(kind: WindowKind, slices: pl.Series, windows: object) -> None:
    """Check the windows of a custom kind: one that breaks its contract would lose rows silently."""
    columns = ("slice", "start", "end")
    if not isinstance(windows, pl.DataFrame) or not set(columns) <= set(windows.columns):
        raise PlanError(
            f"The window kind '{kind.describe()}': windows_of() must return a Polars frame with the columns slice, "
            "start and end, and one row for each window of each slice."
        )
    without = slices.filter(~slices.is_in(windows["slice"].implode()))
    if without.len():
        raise PlanError(
            f"The window kind '{kind.describe()}': windows_of() returns no window for slice {without[0]}, so "
            "its rows would be lost. For positions in no window, slice_of() must return null."
        )
    if not kind.shared and windows.height > windows.select("start", "end").n_unique():
        raise _shares_windows(kind.describe())
    if not kind.shared and windows["slice"].n_unique() < windows.height:
        raise _shares_windows(kind.describe())
    wrong = windows.filter(~pl.col("slice").is_between("start", "end", closed="left").fill_null(False))
    # A slice must be named by a position in it; otherwise it would not expire with its window.
    for at, start, end in wrong.select(columns).head(1).iter_rows():
        raise PlanError(
            f"The window kind '{kind.describe()}': slice {at} is not in its window [{start}, {end}). slice_of() must "
            "return the first position of the slice."
        )


def grids_of(kind: object) -> dict[str, Grid]:
    """The grid of a kind's slices, if they form one: rows are then assigned to slices while they are grouped."""
    grid = getattr(kind, "grid", None)
    return {} if grid is None else {c.SLICE: grid}


@dataclass(frozen=True)
class OffsetWatermarks:
    """The next expected offset of each origin, before a bundle and after it.

    When the stream ends, all origins end.
    """

    origin: str | None  # the column that names a row's origin
    table: pl.DataFrame
    was_drained: bool
    drained: bool

    @staticmethod
    def between(before: AnyTracker, after: AnyTracker, previous: int, watermark: int) -> OffsetWatermarks:
        """Compare the trackers before and after a bundle."""
        now = after.input(0).next_offsets().rename({"origin": c.ORIGIN, "reached": c.REACHED})
        known = before.input(0).next_offsets().rename({"origin": c.ORIGIN, "reached": c.PREVIOUS})
        # A forgotten origin sends no more rows, so its windows end.
        names = pl.Series(c.ORIGIN, after.input(0).forgotten_origins, dtype=pl.String)
        now = pl.concat([now, pl.DataFrame({c.ORIGIN: names, c.REACHED: pl.repeat(MAX, len(names), eager=True)})])
        table = now.join(known, on=c.ORIGIN, how="left", nulls_equal=True)
        return OffsetWatermarks(after.input(0).strategy.options.origin, table, previous == MAX, watermark == MAX)

    def with_offsets(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Add to rows, cells or panes the previous and the current offset watermark of their origin."""
        name = pl.lit(None, pl.String) if self.origin is None else pl.col(self.origin).cast(pl.String)
        joined = frame.with_columns(name.alias(c.ORIGIN)).join(
            self.table, on=c.ORIGIN, how="left", nulls_equal=True, maintain_order="left"
        )
        previous, now = pl.col(c.PREVIOUS).fill_null(MIN), pl.col(c.REACHED).fill_null(MIN)
        end = pl.lit(MAX, pl.Int64)
        return joined.drop(c.ORIGIN).with_columns(
            (end if self.was_drained else previous).alias(c.PREVIOUS),
            (end if self.drained else now).alias(c.REACHED),
        )

    def due(self, panes: pl.DataFrame) -> Positions:
        """The panes whose deadline has passed."""
        unchanged = (pl.col(c.PREVIOUS) == pl.col(c.REACHED)).fill_null(False)
        if not self.drained and self.table.select(unchanged.all()).item():
            return np.empty(0, np.int64)
        columns = [DUE] if self.origin is None else [self.origin, DUE]
        ready = self.with_offsets(panes.select(columns)).select(is_due(pl.col(DUE), pl.col(c.REACHED))).to_series()
        return np.flatnonzero(ready.fill_null(False).to_numpy())


def _shares_windows(kind: str) -> PlanError:
    """A kind declares ``shared = False``, but its slices share windows."""
    return PlanError(
        f"The windows '{kind}' have shared = False, but a slice has several windows, or a window several slices. "
        "Set shared = True, or make each slice one window."
    )
