"""Admission: rows get their event time, and rows that cannot be used become dead letters with a reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import polars as pl

from eventide import _columns as c
from eventide._arguments import MAX_SPAN
from eventide._column_refs import TimeColumn
from eventide.errors import DataError, PlanError, did_you_mean
from eventide.kernels.intervals import int_bounds, int_min
from eventide.panes import DIFF, WINDOW, WINDOW_END, WINDOW_START, recognised_columns
from eventide.plan.errors import inherits_row_windows
from eventide.plan.plan import IngestionTime, Plan
from eventide.plan.retractions import ONCE, no_retractions
from eventide.time import FIRST, LAST, MAX, MIN, format_duration, format_instant, time_column, unit_meant
from eventide.time.instants import TIME_OF_DAY
from eventide.time.units import Unit, in_other_unit
from eventide.watermarks import Strategy
from eventide.windows import Inherit, Sessions

_FIELD = "__field"  # of a struct, as a column
_NO_DIFF = (
    f"the {DIFF} is neither 1 nor -1, as in results of pipelines. If the column is something else, rename it or cast "
    "it to a wider type"
)
_NUMBER = r"^\s*[+-]?\d+(\.\d+)?\s*$"
_AGAIN = "__again"  # a row before it in the same part has its number


@dataclass
class Admitted:
    """Rows with their event time, and dead letters. The watermark and the lateness are not looked at here."""

    rows: pl.DataFrame
    seen: pl.DataFrame  # for the watermark: a row without a usable time still has its sequence
    dead: list[pl.DataFrame] = field(default_factory=list)
    earliest: int | None = None

    def reject(self, unusable: pl.Series | pl.Expr, reason: str, detail: str | pl.Expr) -> None:
        """Rows where ``unusable`` become dead letters."""
        mask = self.rows.select(unusable).to_series() if isinstance(unusable, pl.Expr) else unusable
        self.set_aside(mask.fill_null(False), lambda rows: dead_letters(rows, reason, detail))

    def set_aside(self, mask: pl.Series, letters: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
        """Rows where ``mask`` become dead letters."""
        if mask.any():
            self.dead.append(letters(self.rows.filter(mask)))
            self.rows = self.rows.filter(~mask)


def dead_letters(rows: pl.DataFrame, reason: str, detail: str | pl.Expr) -> pl.DataFrame:
    """Rows with the reason why they cannot be used."""
    text = pl.lit(detail) if isinstance(detail, str) else detail
    return rows.with_columns(pl.lit(reason).alias(c.REASON), text.alias(c.DETAIL))


def repeated(strategy: Strategy, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows whose number was seen before, as dead letters."""
    options = strategy.options
    names = " and ".join(repr(name) for name in (options.origin, options.sequence, options.chunk) if name)
    return dead_letters(rows, "duplicate", f"a row with the same {names} arrived before")


def admit(plan: Plan, rows: pl.DataFrame, now: int) -> Admitted:
    """Time the rows, and set aside those without a time, too far ahead, or otherwise unusable."""
    admitted = _timed(plan, rows, now)
    faults = plan.watermark.faults(admitted.rows)
    if faults is not None:
        admitted.reject(faults, "bad_row", "the sequence or chunk number is missing or below its first value")
    admitted.seen = admitted.rows
    if plan.watermark.options.deduplicate:  # what cannot be used is a dead letter for that, and its number was seen
        again = ~pl.struct(plan.watermark.identity()).is_first_distinct()
        admitted.rows = admitted.rows.with_columns(again.alias(_AGAIN))
    if admitted.rows[c.TIME].null_count():
        admitted.reject(pl.col(c.UNREADABLE), "bad_row", _unreadable(plan, admitted.rows))
        admitted.reject(pl.col(c.TIME).is_null(), "null_time", f"the time {plan.time!r} is null")
    ahead = plan.watermark.future(admitted.rows, c.TIME, now)
    if ahead is not None:
        skew = format_duration(plan.watermark.options.max_future_skew or 0)
        admitted.reject(ahead, "future", f"more than {skew} ahead of the batch's time {format_instant(now)}")
    if isinstance(plan.window, Sessions) and isinstance(plan.window.gap, str):
        _with_gap(plan.window.gap, admitted)
    if isinstance(plan.window, Inherit):
        _with_window(admitted)
    _check_retractions(plan, rows)
    if plan.applies_diff or isinstance(plan.window, Inherit):
        _with_diff(admitted)
    if plan.offset is not None:
        _with_offset(plan.offset, getattr(plan.window, "first", -MAX_SPAN), admitted)
    if plan.watermark.options.deduplicate:
        admitted.set_aside(admitted.rows[_AGAIN], lambda rows: repeated(plan.watermark, rows))
        admitted.rows = admitted.rows.drop(_AGAIN)
    admitted.earliest = int_min(admitted.rows[c.TIME])
    return admitted


def _unreadable(plan: Plan, rows: pl.DataFrame) -> pl.Expr:
    """Why a time cannot be read: a number as text needs another type and a unit."""
    assert isinstance(plan.time, str)
    unusable = pl.lit(f"the time {plan.time!r} cannot be used as an instant")
    frame, name = _reach(rows, plan.time)
    if frame.schema[name] != pl.String:
        return unusable
    outer, _, inner = plan.time.partition(".")
    text = pl.col(name) if name in rows.columns else pl.col(outer).struct.field(inner)
    hint = ": it is a number as text. Cast the column to a number, and add time_unit= to ev.stream(…)"
    no_date = ": it is a time of day without a date. Add the date, as in '2026-03-01T12:00:00Z'"
    return (
        pl.when(text.str.contains(_NUMBER))
        .then(unusable + hint)
        .when(text.str.contains(TIME_OF_DAY.pattern))
        .then(unusable + no_date)
        .otherwise(unusable)
    )


def _timed(plan: Plan, rows: pl.DataFrame, now: int) -> Admitted:
    """All rows with their time; null where there is none, and ``UNREADABLE`` where there is one of no use."""
    if isinstance(plan.time, IngestionTime):
        timed = rows.with_columns(pl.lit(now, pl.Int64).alias(c.TIME), pl.lit(False).alias(c.UNREADABLE))
        return Admitted(timed, timed)
    time, unreadable = read_time(rows, plan.time)
    bounds = int_bounds(time)
    if bounds and (bounds[0] < FIRST or bounds[1] > LAST):
        beyond = ~time.is_between(FIRST, LAST).fill_null(True)
        time = time.set(beyond, None)
        unreadable = beyond if unreadable is None else unreadable | beyond
    flag = pl.lit(False) if unreadable is None else unreadable
    timed = rows.with_columns(time.alias(c.TIME), flag.alias(c.UNREADABLE))
    return Admitted(timed, timed)


def read_time(rows: pl.DataFrame, name: str) -> tuple[pl.Series, pl.Series | None]:
    """The times in microseconds, and which of them are of no use. A dotted name reaches into a struct."""
    return time_column(*_reach(rows, name), getattr(name, "unit", None))


def check_unit(plan: Plan, rows: pl.DataFrame, now: int, watermark: int) -> None:
    """Reject times in another unit than the stated one, while nothing is known yet that would show the unit."""
    if watermark > MIN:
        return
    stated: Unit = getattr(plan.time, "unit", "us")
    if isinstance(plan.time, str) and not (isinstance(plan.time, TimeColumn) and stated == "us"):
        frame, name = _reach(rows, plan.time)
        if (meant := unit_meant(frame[name], now, stated)) is not None:
            unit, _ = meant
            fix = (
                f"Use time_unit={unit!r} of ev.stream(…)."
                if isinstance(plan.time, TimeColumn)
                else f"Add time_unit={unit!r} to ev.stream(…), or time_unit='us' if microseconds are meant."
            )
            raise DataError(f"The times in column {plan.time!r} {in_other_unit(*meant, stated)} {fix}")
    if not plan.watermark.generator.declared or (isinstance(plan.time, TimeColumn) and stated == "us"):
        return
    for name in plan.watermark.generator.columns():
        if (meant := unit_meant(rows[name], now)) is not None:
            raise DataError(
                f"The watermarks in column {name!r} {in_other_unit(*meant)} time_unit= applies to event times only: "
                f"cast the column to a timestamp, as in pl.from_epoch({name!r}, time_unit={meant[0]!r})."
            )


def _reach(rows: pl.DataFrame, name: str) -> tuple[pl.DataFrame, str]:
    """A dotted name reaches into a struct: ``payload.time``."""
    if name in rows.columns or "." not in name:
        return rows, name
    outer, _, inner = name.partition(".")
    dtype = rows.schema.get(outer)
    if not isinstance(dtype, pl.Struct) or inner not in (field.name for field in dtype.fields):
        return rows, name
    return rows.with_columns(pl.col(outer).struct.field(inner).alias(_FIELD)), _FIELD


def _with_gap(column: str, admitted: Admitted) -> None:
    length = isinstance(admitted.rows.schema[column], pl.Duration)
    gap = pl.col(column).dt.total_microseconds() if length else pl.col(column).cast(pl.Int64)
    admitted.rows = admitted.rows.with_columns(gap.alias(c.GAP))
    usable = pl.col(c.GAP).is_between(1, MAX_SPAN)
    admitted.reject(
        ~usable | pl.col(c.GAP).is_null(), "bad_row", f"the gap {column!r} is null, too long, or not above zero"
    )


def _with_offset(column: str, first: int, admitted: Admitted) -> None:
    admitted.rows = admitted.rows.with_columns(pl.col(column).cast(pl.Int64, strict=False).alias(c.AT))
    usable = pl.col(c.AT).is_between(first, MAX_SPAN).fill_null(False)
    admitted.reject(~usable, "bad_row", f"the offset {column!r} is null, too large, or below the first")


def check_offset(column: str, schema: Mapping[str, pl.DataType]) -> None:
    """The column of offsets is there, and holds integers."""
    if column not in schema:
        raise PlanError(f"Windows by offset: there is no column {column!r}. {did_you_mean(column, list(schema))}")
    if not schema[column].is_integer():
        raise PlanError(f"Windows by offset: the column {column!r} is {schema[column]}; offsets are integers.")


def check_gap(column: str, schema: Mapping[str, pl.DataType]) -> None:
    """The column of sessions' gaps is there, and holds lengths."""
    if column not in schema:
        raise PlanError(f"sessions(): there is no column {column!r} for the gap. {did_you_mean(column, list(schema))}")
    if not isinstance(schema[column], pl.Duration) and not schema[column].is_integer():
        raise PlanError(
            f"sessions(): the gap column {column!r} is {schema[column]}; it must be a Duration or integer microseconds."
        )


def check_window(schema: Mapping[str, pl.DataType]) -> None:
    """Inherited windows are there, and lie in time."""
    if not set(WINDOW) <= set(schema):
        raise PlanError(
            "inherit() needs the panes of another pipeline: rows with the columns `window_start` and `window_end`."
        )
    if any(schema[name].is_integer() for name in WINDOW):
        raise inherits_row_windows()


def _with_window(admitted: Admitted) -> None:
    """Rows with the window that they bring along; a bound that is null is none, as in the global window."""
    rows = admitted.rows
    admitted.rows = rows.with_columns(
        time_column(rows, WINDOW_START)[0].fill_null(MIN).alias(c.START),
        time_column(rows, WINDOW_END)[0].fill_null(MAX).alias(c.END),
    )
    admitted.reject(pl.col(c.START) >= pl.col(c.END), "bad_row", "the window ends before it begins")


def _check_retractions(plan: Plan, rows: pl.DataFrame) -> None:
    """Reject panes that are retracted where the plan cannot apply that."""
    if not recognised_columns(rows.schema) or (reason := no_retractions(plan)) is None:
        return
    if (rows[DIFF] == -1).any():
        raise DataError(f"The rows are panes of a pipeline that retracts some (diff = -1): {reason} {ONCE}")


def _with_diff(admitted: Admitted) -> None:
    diff = pl.col(DIFF).cast(pl.Int64) if DIFF in admitted.rows.columns else pl.lit(1, pl.Int64)
    admitted.rows = admitted.rows.with_columns(diff.alias(c.WEIGHT))
    known = pl.col(c.WEIGHT).is_in([1, -1]).fill_null(False)
    admitted.reject(~known, "bad_row", _NO_DIFF)
