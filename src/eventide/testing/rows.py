"""Rows and times as tests write them: dicts with short times on one day."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, TypeAlias

import polars as pl

from eventide._arguments import is_integer
from eventide._column_refs import TimeColumn
from eventide.errors import PlanError, did_you_mean
from eventide.panes import INSTANT, WINDOW
from eventide.plan.plan import Plan
from eventide.testing.errors import bad_window, not_a_row
from eventide.time import MAX, MIN, duration, format_instant, instant, unit_meant
from eventide.time.instants import ISO
from eventide.time.units import Unit, in_other_unit
from eventide.windows import Inherit, Sessions

TimeInput: TypeAlias = int | str | datetime

_DAY = 86_400_000_000
_YEAR_1980, _YEAR_2100 = 3_652 * _DAY, 47_482 * _DAY
_CLOCK = re.compile(r"([0-9]{1,2}):([0-5][0-9])(?::([0-5][0-9])(?:\.([0-9]{1,6}))?)?")
_ENDS = {"end": MAX, "+∞": MAX, "∞": MAX, "+inf": MAX, "inf": MAX, "-∞": MIN, "-inf": MIN}


@dataclass(frozen=True)
class Day:
    """The day of ``"12:30"``. Instants of other days are written in full.

    >>> day = Day.of("2026-03-29")
    >>> day.read("12:30", "at") == day.read("2026-03-29T12:30Z", "at")
    True
    >>> day.write(day.read("12:30:05.5", "at")), day.write(0), day.write(MAX)
    ('12:30:05.5', '1970-01-01T00:00', '+∞')
    """

    midnight: int = 0

    @staticmethod
    def of(day: str | date) -> Day:
        """Return the day that begins at midnight of ``day``, UTC."""
        return Day(instant(day, what="day"))

    def read(self, value: object, what: str) -> int:
        """Return an instant from ``"12:30"``, ``"12:30:05.25"``, ISO-8601, a datetime, µs, or ``"end"``."""
        if is_integer(value):
            if (problem := self.other_unit([value])) is not None:
                raise PlanError(f"{what}: numbers {problem[1]} Write the time with its date, or in microseconds.")
            return value
        if isinstance(value, str):
            text = value.strip()
            if text in _ENDS:
                return _ENDS[text]
            clock = _CLOCK.fullmatch(text)
            if clock is not None and (within := _within_day(clock)) <= _DAY:
                return self.midnight + within
        if isinstance(value, str) and ":" in value and re.match(ISO, text) is None:
            raise PlanError(
                f"{what}={value!r} is not a time. Write '12:00' or '12:00:30.5' for a time on the day of the test, "
                "TestStream(day=…), or ISO-8601 with its date, such as '2026-03-01T12:00:00Z'."
            )
        return instant(value, what=what)

    def read_number(self, value: object, what: str, unit: Unit) -> int | float | None:
        """Return an instant as a number of a unit. Numbers are returned unchanged.

        >>> day = Day.of("2026-03-01")
        >>> day.read_number("12:00:30.5", "ts", "ms"), day.read_number("00:00:30.5", "ts", "s")
        (1772366430500, 1772323230.5)
        """
        if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
            return value
        us = self.read(value, what)
        if unit in ("us", "ns"):
            return us * (1_000 if unit == "ns" else 1)
        size = 1_000_000 if unit == "s" else 1_000
        return us / size if us % size else us // size

    def other_unit(self, numbers: Sequence[int], stated: Unit = "us") -> tuple[Unit, str] | None:
        """Return the unit that numbers seem to have in place of the stated one, with a text that compares the two.

        On a day in 1970, whole milliseconds are taken for microseconds that were written by hand, not for seconds.

        >>> Day().other_unit([1_772_366_000]), Day().other_unit([1_772_366_405])[0]
        (None, 's')
        >>> Day.of("2026-03-01").other_unit([1_772_366_000])[0]
        's'
        """
        if not all(MIN <= number <= MAX for number in numbers):
            return None
        recent = self.midnight >= _YEAR_1980
        meant = unit_meant(pl.Series(numbers, dtype=pl.Int64), self.midnight if recent else _YEAR_2100, stated)
        if meant is None or (not recent and meant[0] == "s" and all(abs((n + 1) % 1000 - 1) <= 1 for n in numbers)):
            return None
        return meant[0], in_other_unit(*meant, stated)

    def write(self, us: int) -> str:
        """Return the shortest text that ``read`` accepts."""
        if us in (MIN, MAX):
            return format_instant(us)
        if us == self.midnight + _DAY:
            return "24:00"
        date, _, clock = format_instant(us).removesuffix("Z").partition("T")
        clock = clock.rstrip("0") if "." in clock else clock.removesuffix(":00")
        return clock if 0 <= us - self.midnight < _DAY else f"{date}T{clock}"


def _within_day(clock: re.Match[str]) -> int:
    hours, minutes, seconds, fraction = clock.groups()
    total = int(hours) * 3600 + int(minutes) * 60 + int(seconds or 0)
    return total * 1_000_000 + int((fraction or "0").ljust(6, "0"))


_GAP = pl.Duration("us")


class RowReader:
    """Reads the rows of one stream. Columns and types are those of ``schema`` and of the first bundle."""

    def __init__(self, plan: Plan, day: Day, schema: Mapping[str, Any] | None = None, *, fixed: bool = False) -> None:
        self._day = day
        self._declared = dict(pl.Schema(schema or {}))
        self._fixed: dict[str, pl.DataType] | None = self._declared if fixed else None
        times = [plan.time] if isinstance(plan.time, str) else []
        self._time = plan.time
        self._unit: Unit = getattr(plan.time, "unit", "us")  # of event times that are numbers
        self._checked = False  # whether numbers were seen whose unit is plausible
        self._special: dict[str, pl.DataType] = dict.fromkeys((*times, *plan.watermark.generator.columns()), INSTANT)
        self._pairs = False  # whether rows may name both bounds of their window as window=(start, end)
        window = getattr(plan, "window", None)  # a join of near rows has none
        if isinstance(window, Sessions) and isinstance(window.gap, str):
            self._special[window.gap] = _GAP
        if isinstance(window, Inherit):
            self._special |= dict.fromkeys(WINDOW, INSTANT)
            self._pairs = "window" not in self._declared

    @property
    def schema(self) -> dict[str, pl.DataType] | None:
        """The columns, once they are known."""
        return self._fixed

    def frame(self, rows: Sequence[Mapping[str, Any]] | pl.DataFrame) -> pl.DataFrame:
        """Return the rows of a bundle. The first bundle determines the columns."""
        if not self._checked:
            self._check_unit(rows)
        frame = rows if isinstance(rows, pl.DataFrame) else self._read(rows)
        if self._fixed is None and frame.width:
            self._fixed = dict(frame.schema)
        return frame

    def _check_unit(self, rows: Sequence[Mapping[str, Any]] | pl.DataFrame) -> None:
        """Reject numbers in another unit than the stated one. Later rows are not checked."""
        if isinstance(self._time, TimeColumn) and self._unit == "us":
            return
        for name in self._special:
            if isinstance(rows, pl.DataFrame):
                values = rows[name].to_list() if name in rows.columns and rows.schema[name].is_integer() else []
            else:
                values = [row.get(name) for row in rows if isinstance(row, Mapping)]
            numbers = [value for value in values if is_integer(value)]
            self._checked = self._checked or bool(numbers)
            problem = self._day.other_unit(numbers, self._unit if name == self._time else "us") if numbers else None
            if problem is None:
                continue
            unit, text = problem
            fix = f"Use time_unit={unit!r} of ev.stream(…)" if name == self._time else "Write microseconds"
            raise PlanError(f".add(): the times in column {name!r} {text} {fix}, or write times such as '12:00'.")

    def _read(self, rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
        for row in rows:
            if not isinstance(row, Mapping):
                raise not_a_row(row)
        rows = [self._with_bounds(row) for row in rows] if self._pairs else rows
        columns = self._fixed
        names = list(columns or dict.fromkeys((*self._declared, *(name for row in rows for name in row))))
        unknown = [name for row in rows for name in row if name not in names]
        if unknown:
            raise PlanError(
                f".add(): the rows have no column {unknown[0]!r}. {did_you_mean(unknown[0], names)} "
                "Columns are those of the first bundle and of TestStream(schema=…)."
            )
        return pl.DataFrame([self._series(name, [row.get(name) for row in rows]) for name in names])

    def _series(self, name: str, values: list[Any]) -> pl.Series:
        dtype = (self._fixed or {}).get(name) or self._declared.get(name)
        if name == self._time and isinstance(self._time, TimeColumn) and (dtype is None or dtype.is_numeric()):
            numbers = [self._day.read_number(value, name, self._unit) for value in values]
            number = pl.Float64() if any(isinstance(value, float) for value in numbers) else pl.Int64()
            return _build(name, numbers, dtype or number)
        dtype = dtype or self._special.get(name)
        if isinstance(dtype, pl.Datetime) or (name in self._special and dtype == pl.Int64):
            micros = [value if value is None or is_integer(value) else self._day.read(value, name) for value in values]
            return _build(name, micros, pl.Int64()).cast(dtype)
        if name in self._special and dtype == _GAP:
            micros = [v if v is None or isinstance(v, int) else duration(v, what=name, negative=True) for v in values]
            return _build(name, micros, pl.Int64()).cast(_GAP)
        series = _build(name, values, dtype)
        return series.cast(pl.String) if series.dtype == pl.Null else series

    def _with_bounds(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        if "window" not in row:
            return row
        bounds = (None, None) if row["window"] is None else row["window"]
        if not isinstance(bounds, (tuple, list)) or len(bounds) != 2:
            raise bad_window(bounds)
        named = dict(zip(WINDOW, bounds, strict=True))
        # Both bounds replace their pair.
        return {
            column: value
            for name, content in row.items()
            for column, value in (named if name == "window" else {name: content}).items()
        }


def _build(name: str, values: list[Any], dtype: pl.DataType | None) -> pl.Series:
    try:
        return pl.Series(name, values, dtype=dtype, strict=True)
    except (TypeError, pl.exceptions.PolarsError) as problem:
        what, *_ = str(problem).splitlines()
        raise PlanError(
            f".add(): the column {name!r}: {what}. Columns get their types from the first bundle; name "
            "others in schema=…."
        ) from None
