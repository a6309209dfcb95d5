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
from eventide.windows.lateness import Lateness


@dataclass(frozen=True)
class Sliced:
    """Rows that have a slice with a live window, and those that have not."""

    rows: pl.DataFrame
    late: pl.DataFrame | None = None
    outside: pl.DataFrame | None = None  # in no window at all


def cut(kind: WindowKind, expiry: Lateness, rows: pl.DataFrame, watermark: int, earliest: int | None) -> Sliced:
    """Rows with their slice, less those in no window and those that are too late for all of theirs.

    Where no row can be late and the slices lie on a grid, a row's position stands for its slice.
    """
    if grids_of(kind) and (earliest is None or earliest >= expiry.live_from(watermark)):
        return Sliced(rows.with_columns(pl.col(c.AT).alias(c.SLICE)))
    return without_late(kind, expiry, sliced(kind, rows, c.AT), watermark, earliest)


def sliced(kind: WindowKind, rows: pl.DataFrame, position: str) -> Sliced:
    """Add each row's slice; rows between windows (``every > size``) are set apart."""
    rows = rows.with_columns(kind.slice_of(pl.col(position)).alias(c.SLICE))
    if rows.schema[c.SLICE] != pl.Int64:
        raise PlanError(
            f"slice_of() of the windows '{kind.describe()}' gives {rows.schema[c.SLICE]}; it must give "
            "Int64. Use // instead of /."
        )
    if not rows[c.SLICE].null_count():
        return Sliced(rows)
    nowhere = rows[c.SLICE].is_null()
    return Sliced(rows.filter(~nowhere), outside=rows.filter(nowhere))


def without_late(kind: WindowKind, expiry: Lateness, all_: Sliced, watermark: int, earliest: int | None) -> Sliced:
    """Set apart the rows all of whose windows have expired at ``watermark``."""
    live_from = expiry.live_from(watermark)
    if earliest is None or earliest >= live_from:
        return all_
    behind = all_.rows.filter(pl.col(c.TIME) < live_from)[c.SLICE].unique()
    ends = windows_of(kind, behind).group_by(c.SLICE).agg(pl.col(c.END).max())
    gone = ends.filter(expiry.is_expired(pl.col(c.END), watermark))[c.SLICE]
    if gone.is_empty():
        return all_
    late = all_.rows[c.SLICE].is_in(gone.implode())
    return Sliced(all_.rows.filter(~late), all_.rows.filter(late), all_.outside)


def without_late_offsets(kind: WindowKind, expiry: Lateness, all_: Sliced) -> Sliced:
    """Set apart the rows all of whose windows have expired at what the offsets of their origin had reached."""
    ends = windows_of(kind, all_.rows[c.SLICE].unique()).group_by(c.SLICE).agg(pl.col(c.END).max())
    rows = all_.rows.join(ends, on=c.SLICE, how="left", maintain_order="left")
    late = rows.select(expiry.is_expired(pl.col(c.END), pl.col(c.PREVIOUS))).to_series()
    if not late.any():
        return all_
    return Sliced(all_.rows.filter(~late), all_.rows.filter(late), all_.outside)


def windows_of(kind: WindowKind, slices: pl.Series) -> pl.DataFrame:
    """The windows of distinct slices, under the operators' own column names."""
    windows = kind.windows_of(slices.alias("slice"))
    if not isinstance(kind, (Calendar, Cumulate, GlobalWindow, Sliding, Tumbling)):
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
        raise PlanError(
            f"The window kind '{kind.describe()}': windows_of() must give a Polars frame with the columns "
            "slice, start and end, one "
            "row for each window of each slice."
        )
    without = slices.filter(~slices.is_in(windows["slice"].implode()))
    if without.len():
        raise PlanError(
            f"The window kind '{kind.describe()}': windows_of() gives no window for slice {without[0]}, so "
            "its rows would be lost. "
            "Where a position lies in no window, slice_of() must be null."
        )
    if not kind.shared and windows.height > windows.select("start", "end").n_unique():
        raise _shares_windows(kind.describe())
    if not kind.shared and windows["slice"].n_unique() < windows.height:
        raise _shares_windows(kind.describe())
    wrong = windows.filter(~pl.col("slice").is_between("start", "end", closed="left").fill_null(False))
    for row in wrong.select(columns).head(1).iter_rows():
        raise _slice_outside_window(kind.describe(), *row)


def grids_of(kind: object) -> dict[str, Grid]:
    """The grid on which a kind's slices lie, where they do: rows are then cut while they are grouped."""
    grid = getattr(kind, "grid", None)
    return {} if grid is None else {c.SLICE: grid}


@dataclass(frozen=True)
class OffsetWatermarks:
    """The first offset of each origin that is still to come: before a bundle and after it.

    The end of the stream is the end of all origins.
    """

    origin: str | None  # the column that names a row's origin
    table: pl.DataFrame
    was_drained: bool
    drained: bool

    @staticmethod
    def between(before: AnyTracker, after: AnyTracker, previous: int, watermark: int) -> OffsetWatermarks:
        """What a bundle has changed."""
        now = after.input(0).next_offsets().rename({"origin": c.ORIGIN, "reached": c.REACHED})
        known = before.input(0).next_offsets().rename({"origin": c.ORIGIN, "reached": c.PREVIOUS})
        # An origin that is forgotten sends nothing more: its windows end as if its offsets had.
        names = pl.Series(c.ORIGIN, after.input(0).forgotten_origins, dtype=pl.String)
        now = pl.concat([now, pl.DataFrame({c.ORIGIN: names, c.REACHED: pl.repeat(MAX, len(names), eager=True)})])
        table = now.join(known, on=c.ORIGIN, how="left", nulls_equal=True)
        return OffsetWatermarks(after.input(0).strategy.options.origin, table, previous == MAX, watermark == MAX)

    def with_offsets(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Rows, cells or panes with what their origin had reached, and has now."""
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
        """The panes that must be looked at."""
        is_unchanged = (pl.col(c.PREVIOUS) == pl.col(c.REACHED)).fill_null(False)
        if not self.drained and self.table.select(is_unchanged.all()).item():
            return np.empty(0, np.int64)
        columns = [DUE] if self.origin is None else [self.origin, DUE]
        ready = self.with_offsets(panes.select(columns)).select(pl.col(DUE) <= pl.col(c.REACHED)).to_series()
        return np.flatnonzero(ready.fill_null(False).to_numpy())


def _slice_outside_window(kind: str, at: int, start: int, end: int) -> PlanError:
    """A slice is named by a position in it, or the watermark cannot tell when it is done."""
    return PlanError(
        f"The window kind '{kind}': slice {at} does not lie in its window [{start}, {end}). Let slice_of() give the "
        "first position of the slice."
    )


def _shares_windows(kind: str) -> PlanError:
    """A kind that says its slices share nothing, but they do."""
    return PlanError(
        f"The windows '{kind}' have shared = False, but a slice has several windows, or a window several slices. "
        "Set shared = True, or make each slice one window."
    )
