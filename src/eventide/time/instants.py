"""Instants and event-time columns as integers of microseconds since the epoch, UTC."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta

import polars as pl

from eventide.errors import PlanError, did_you_mean, shown
from eventide.kernels.intervals import int_bounds

MIN = -(2**63)
"""Before every instant: nothing is known yet."""
MAX = 2**63 - 1
"""After every instant: the stream is drained."""
FIRST, LAST = -(2**62), 2**62
"""The instants that data may have: beyond them a window's end, or a watermark behind it, would not fit into 64 bits."""

ISO = (
    r"^([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[Tt ]([01][0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9])(?:[.,]([0-9]+))?)?"
    r"(?:[Zz]|([+-])([01][0-9]|2[0-3])(?::?([0-5][0-9]))?)?)?$"
)
"""An ISO-8601 instant: date, hour, minute, second, fraction; sign, hours and minutes of the offset."""

TIME_OF_DAY = re.compile(r"^T?([01]?[0-9]|2[0-4]):[0-5][0-9](:[0-5][0-9]([.,][0-9]+)?)?\s*([Zz]|[AaPp][Mm])?$")
"""A time without a date, in one of the forms that people write."""

# The calendar repeats after 400 years, so that `datetime` can format instants beyond its range.
_CYCLE = 146_097 * 86_400_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FIRST_DATETIME = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_LAST_DATETIME = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND


def instant(value: object, *, what: str = "instant") -> int:
    """The instant in microseconds since the epoch; without a zone it is taken as UTC.

    >>> instant("1970-01-01T00:00:01Z"), instant("1970-01-01T01:00:00+01:00"), instant("1969-12-31")
    (1000000, 0, -86400000000)
    >>> from datetime import datetime
    >>> instant(datetime(1970, 1, 1, 0, 0, 0, 5))
    5
    """
    if isinstance(value, str):
        return _read(value, what)
    if isinstance(value, datetime):
        aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return (aware - _EPOCH) // _MICROSECOND
    if isinstance(value, date):
        return (value - _EPOCH.date()) // _MICROSECOND
    if isinstance(value, int | float):
        raise PlanError(f"{what}={shown(value)} could be seconds, milliseconds or microseconds. {_WRITE_INSTANT}")
    raise PlanError(f"{what}={shown(value)} is a {type(value).__name__}, not an instant. {_WRITE_INSTANT}")


def _read(text: str, what: str) -> int:
    match = re.match(ISO, text.strip())
    if match is None:
        raise _unreadable_instant(what, text)
    day, hour, minute, second, fraction, sign, off_hour, off_minute = match.groups()
    try:
        days = (date.fromisoformat(day) - _EPOCH.date()).days
    except ValueError:
        raise _unreadable_instant(what, text) from None
    seconds = days * 86_400 + int(hour or 0) * 3600 + int(minute or 0) * 60 + int(second or 0)
    offset = int(off_hour or 0) * 3600 + int(off_minute or 0) * 60
    seconds -= -offset if sign == "-" else offset
    return seconds * 1_000_000 + int((fraction or "0").ljust(6, "0")[:6])


def format_instant(us: int) -> str:
    """An instant in ISO-8601, UTC.

    >>> format_instant(0), format_instant(-1), format_instant(MIN), format_instant(MAX)
    ('1970-01-01T00:00:00Z', '1969-12-31T23:59:59.999999Z', '-∞', '+∞')
    >>> format_instant(MAX - 1)
    '+294247-01-10T04:00:54.775806Z'
    """
    if us == MIN:
        return "-∞"
    if us == MAX:
        return "+∞"
    cycles, within = divmod(us, _CYCLE)
    time = _EPOCH + within * _MICROSECOND
    year = time.year + 400 * cycles
    years = f"{year:04d}" if 0 <= year <= 9999 else f"{year:+07d}"
    rest = time.replace(tzinfo=None).isoformat()[4:]
    return f"{years}{rest}Z"


def as_datetime(us: int) -> datetime:
    """An instant as a datetime in UTC; beyond the years that datetimes have, the first or the last of them.

    >>> as_datetime(1).isoformat(), as_datetime(MAX).year
    ('1970-01-01T00:00:00.000001+00:00', 9999)
    """
    return _EPOCH + min(max(us, _FIRST_DATETIME), _LAST_DATETIME) * _MICROSECOND


def known_datetime(us: int | None) -> datetime | None:
    """The same for a watermark; None where nothing is known yet, or where the stream is drained.

    >>> known_datetime(MIN), known_datetime(MAX), known_datetime(None)
    (None, None, None)
    """
    return None if us is None or us in (MIN, MAX) else as_datetime(us)


def earliest(times: Iterable[int | None]) -> int | None:
    """The earliest of some instants, of which any may be missing; None: all are.

    >>> earliest([20, None, 10]), earliest([None])
    (10, None)
    """
    return min((time for time in times if time is not None), default=None)


_DAY = 86_400_000_000
_FACTORS = {"s": 1_000_000, "ms": 1_000, "us": 1}


def time_column(frame: pl.DataFrame, column: str, unit: str | None = None) -> tuple[pl.Series, pl.Series | None]:
    """The column as microseconds, and which rows could not be read (None when all could).

    A row that cannot be read is null in the first and true in the second; a null is null and false. ``unit`` is that of
    numbers: s, ms, us (the default) or ns.

    >>> frame = pl.DataFrame({"at": ["1970-01-01T00:00:01Z", "yesterday", None]})
    >>> micros, bad = time_column(frame, "at")
    >>> micros.to_list(), bad.to_list()
    ([1000000, None, None], [False, True, False])
    """
    if column not in frame.columns:
        raise PlanError(f"There is no column {column!r} to take event time from. {did_you_mean(column, frame.columns)}")
    values = frame[column]
    dtype = values.dtype
    if unit is not None:
        if not dtype.is_numeric() and dtype != pl.Null:
            raise PlanError(
                f"time_unit={unit!r} is for times that are numbers, but column {column!r} is {dtype}. Remove it, or "
                "cast the column to a number."
            )
        return _numbers(values, unit)
    if dtype == pl.Int64:
        return values, None
    if isinstance(dtype, pl.Datetime):
        return _datetimes(values, dtype)
    if dtype == pl.Date:
        return _scaled(values.to_physical(), _DAY)
    if dtype == pl.String:
        return _with_bad(values, _read_text(values))
    if dtype in (pl.Int32, pl.UInt32, pl.Null):
        return values.cast(pl.Int64), None
    if dtype == pl.UInt64:
        return _with_bad(values, values.cast(pl.Int64, strict=False))
    if dtype in (pl.Float32, pl.Float64):
        # NaN, infinities and what is beyond 64 bits become null.
        return _with_bad(values, values.cast(pl.Float64).floor().cast(pl.Int64, strict=False))
    raise PlanError(
        f"Column {column!r} has type {dtype}, which cannot be read as event time. "
        "Use a timestamp, a date, ISO-8601 text, or a number of microseconds since 1970-01-01T00:00:00Z; "
        "cast the column to one of these first."
    )


def _numbers(values: pl.Series, unit: str) -> tuple[pl.Series, pl.Series | None]:
    """Numbers of a unit. Fractions are cut off towards the past."""
    if values.dtype.is_integer() and unit != "ns":
        return _scaled(values.cast(pl.Int64, strict=False), _FACTORS[unit]) if unit != "us" else _whole(values)
    if values.dtype.is_integer():
        read = values.cast(pl.Int64, strict=False)
        return _with_bad(values, read // 1_000)
    scaled = values.cast(pl.Float64) * (_FACTORS[unit] if unit != "ns" else 0.001)
    return _with_bad(values, scaled.floor().cast(pl.Int64, strict=False))


def _whole(values: pl.Series) -> tuple[pl.Series, pl.Series | None]:
    return _with_bad(values, values.cast(pl.Int64, strict=False))


def _datetimes(values: pl.Series, dtype: pl.Datetime) -> tuple[pl.Series, pl.Series | None]:
    physical = values.to_physical()  # UTC for a column with a zone; a column without one is taken as UTC
    if dtype.time_unit == "us":
        return physical, None
    if dtype.time_unit == "ns":
        return physical // 1_000, None
    return _scaled(physical, 1_000)


def _scaled(values: pl.Series, factor: int) -> tuple[pl.Series, pl.Series | None]:
    limit = MAX // factor
    wide = values.cast(pl.Int64)
    bounds = int_bounds(wide)
    if bounds and (bounds[0] < -limit or bounds[1] > limit):
        wide = wide.set(~wide.is_between(-limit, limit), None)
    return _with_bad(values, wide * factor)


def _with_bad(values: pl.Series, read: pl.Series) -> tuple[pl.Series, pl.Series | None]:
    if values.null_count() == read.null_count():
        return read, None
    return read, read.is_null() & values.is_not_null()


def _read_text(values: pl.Series) -> pl.Series:
    """The same reading as ``instant``, by column."""
    part = pl.col("part").struct

    def number(field: int) -> pl.Expr:
        return part[field].cast(pl.Int64).fill_null(0)

    days = part[0].str.to_date("%Y-%m-%d", strict=False).cast(pl.Int64)
    seconds = days * 86_400 + number(1) * 3600 + number(2) * 60 + number(3)
    offset = number(6) * 3600 + number(7) * 60
    seconds -= pl.when(part[5] == "-").then(-offset).otherwise(offset)
    fraction = part[4].fill_null("").str.pad_end(6, "0").str.slice(0, 6).cast(pl.Int64)
    parts = values.str.strip_chars().str.extract_groups(ISO).alias("part").to_frame()
    return parts.select((seconds * 1_000_000 + fraction).alias(values.name)).to_series()


_WRITE_INSTANT = "Write an instant such as '2024-05-01T12:00:00Z', or give a datetime or a date."


def _unreadable_instant(what: str, text: str) -> PlanError:
    """Text that is not ISO-8601, or no day of the calendar."""
    if TIME_OF_DAY.match(text.strip()):
        return PlanError(f"{what}={text!r} is a time of day without a date. {_WRITE_INSTANT}")
    return PlanError(f"{what}={text!r} is not an ISO-8601 instant. {_WRITE_INSTANT}")
