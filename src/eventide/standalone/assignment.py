"""Which windows a message is assigned to."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from eventide import _columns as c
from eventide.errors import PlanError, shown
from eventide.standalone.stores.memory import WINDOW_NAME
from eventide.time import FIRST, MIN
from eventide.windows import Inherit, Sessions, WindowKind
from eventide.windows.lateness import is_expired
from eventide.windows.sessions import RUN, merge_intervals

_IS_LIVE = ~is_expired(pl.col(c.END), pl.col(c.RETENTION_FLOOR))


@dataclass(frozen=True)
class Assignment:
    """Messages with each window that they are assigned to, and messages whose windows are expired or do not exist."""

    rows: pl.DataFrame
    expired: pl.DataFrame
    without_window: pl.DataFrame


@dataclass(frozen=True)
class FixedAssigner:
    """Windows with fixed bounds. ``first_only``: a message contributes only to the first of its windows."""

    kind: WindowKind
    first_only: bool

    def assign(self, messages: pl.DataFrame, windows: pl.DataFrame | None) -> Assignment:
        """Return the live windows of each message. ``CONTRIBUTES``: whether the message contributes to the window."""
        slices = messages.select(self.kind.slice_of(pl.col(c.AT)).alias(c.SLICE)).to_series()
        bounds = self.kind.windows_of(slices.drop_nulls().unique())
        contributes = pl.col(c.OFFSET).is_first_distinct() if self.first_only else pl.lit(True)
        assigned = (
            messages.lazy()
            .with_columns(slices)
            .join(bounds.lazy().rename({"slice": c.SLICE, "start": c.START, "end": c.END}), on=c.SLICE)
            .filter(_IS_LIVE)
            .sort(c.OFFSET, c.START, c.END)
            .drop(c.SLICE)
            .with_columns(contributes.alias(c.CONTRIBUTES))
            .collect(engine="in-memory")
        )
        if assigned[c.OFFSET].n_unique() == messages.height:
            return Assignment(assigned, messages.clear(), messages.clear())
        no_window = slices.is_null()
        expired = messages.filter(~no_window).join(assigned, on=c.OFFSET, how="anti", maintain_order="left")
        return Assignment(assigned, expired, messages.filter(no_window))

    def merge(self, windows: pl.DataFrame) -> pl.DataFrame:
        """Return the windows unchanged: fixed windows never merge."""
        return windows

    def needed_from(self, floor: int) -> int:
        """Return the first position of the windows that are live above a retention floor."""
        if floor < FIRST:
            return MIN
        first: int = self.first_needed(pl.Series([floor])).item()
        return first

    def first_needed(self, floors: pl.Series) -> pl.Series:
        """Return the same for several floors, each within the axis."""
        positions = pl.DataFrame({c.AT: floors}).with_columns(self.kind.slice_of(pl.col(c.AT)).alias(c.SLICE))
        windows = self.kind.windows_of(positions[c.SLICE].drop_nulls().unique())
        first = windows.group_by(pl.col("slice").alias(c.SLICE)).agg(pl.col("start").min())
        joined = positions.join(first, on=c.SLICE, how="left", maintain_order="left")
        return joined.select(pl.col("start").fill_null(pl.col(c.AT))).to_series()


@dataclass(frozen=True)
class SessionAssigner:
    """Sessions: messages of a key with short gaps between them."""

    kind: Sessions

    def assign(self, messages: pl.DataFrame, windows: pl.DataFrame | None) -> Assignment:
        """Return the interval of each message by itself, unless the session that it joins has expired."""
        bounds = pl.col(c.AT).alias(c.START), (pl.col(c.AT) + self.kind.gap).alias(c.END)
        rows = messages.with_columns(*bounds, pl.lit(True).alias(c.CONTRIBUTES))
        if rows.is_empty() or rows[c.RETENTION_FLOOR].max() == MIN:
            return Assignment(rows, messages.clear(), messages.clear())
        stored = rows.clear() if windows is None else windows.join(rows, on=c.SESSION, how="semi")
        both = pl.concat([rows.select(WINDOW_NAME), stored.select(WINDOW_NAME)])
        session_ends = self.merge(both)[: rows.height].select(c.END)
        live = session_ends.with_columns(rows[c.RETENTION_FLOOR]).select(_IS_LIVE).to_series()
        return Assignment(rows.filter(live), messages.filter(~live), messages.clear())

    def merge(self, windows: pl.DataFrame) -> pl.DataFrame:
        """Return the windows with the bounds of the session that each of them is part of."""
        runs = merge_intervals(windows, [c.SESSION], self.kind.touching)
        return runs.with_columns(pl.col(c.START).min().over(RUN), pl.col(c.END).max().over(RUN))


def fixed_windows(operator: str, window: object, *, first_only: bool) -> FixedAssigner:
    """Return the windows of an operator without sessions."""
    if isinstance(window, (Sessions, Inherit)):
        instead = "ev.tumbling(…), ev.sliding(…), ev.rows(…), or a session operator"
        raise _unsupported_window(operator, window.describe(), instead)
    _reject_pipeline_options(operator, window)
    if not isinstance(window, WindowKind):
        raise _unsupported_window(operator, shown(window), "a window such as ev.tumbling('1 minute')")
    return FixedAssigner(window, first_only)


def session_windows(operator: str, window: object) -> SessionAssigner:
    """Return the windows of a session operator."""
    instead = "ev.sessions(gap) with one gap for all, or ev.row_sessions(absent=…)"
    if not isinstance(window, Sessions):
        raise _unsupported_window(operator, shown(window), instead)
    _reject_pipeline_options(operator, window)
    if isinstance(window.gap, str) or window.max_duration is not None:
        raise _unsupported_window(operator, window.describe(), instead)
    return SessionAssigner(window)


def _reject_pipeline_options(operator: str, window: object) -> None:
    """Reject options that need an origin or a watermark: they would have no effect here."""
    column = getattr(window, "by", None)
    if column is not None:
        raise PlanError(
            f"{operator}: windows by offset (by={column!r}) need a pipeline, because offsets belong to an origin. "
            "Leave by= of the window out: rows are then counted as they arrive."
        )
    for option in ("forget_after", "timeout"):
        if getattr(window, option, None) is not None:
            raise PlanError(
                f"{operator}: {option}= of the window needs a pipeline, because it follows the watermark. Leave it "
                "out: allowed_lateness= drops windows by their age."
            )


def _unsupported_window(operator: str, window: str, instead: str) -> PlanError:
    return PlanError(f"{operator}: the window '{window}' does not fit. Use {instead}.")
