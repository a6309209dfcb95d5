"""Event-time columns of any sensible type, to int64 microseconds since the epoch, UTC."""

from __future__ import annotations

import polars as pl

from eventide.errors import time as errors
from eventide.time.instants import ISO, MAX

_DAY = 86_400_000_000


def time_column(frame: pl.DataFrame, column: str) -> tuple[pl.Series, pl.Series | None]:
    """The column as microseconds, and which rows could not be read (None when all could).

    A row that cannot be read is null in the first and true in the second; a null is null and false.

    >>> frame = pl.DataFrame({"at": ["1970-01-01T00:00:01Z", "yesterday", None]})
    >>> micros, bad = time_column(frame, "at")
    >>> micros.to_list(), bad.to_list()
    ([1000000, None, None], [False, True, False])
    """
    if column not in frame.columns:
        raise errors.no_time_column(column, frame.columns)
    given = frame[column]
    dtype = given.dtype
    if dtype == pl.Int64:
        return given, None
    if isinstance(dtype, pl.Datetime):
        return _datetimes(given, dtype)
    if dtype == pl.Date:
        return _scaled(given.to_physical(), _DAY)
    if dtype == pl.String:
        return _with_bad(given, _read_text(given))
    if dtype in (pl.Int32, pl.UInt32, pl.Null):
        return given.cast(pl.Int64), None
    if dtype == pl.UInt64:
        return _with_bad(given, given.cast(pl.Int64, strict=False))
    if dtype in (pl.Float32, pl.Float64):
        # NaN, infinities and what is beyond 64 bits become null.
        return _with_bad(given, given.cast(pl.Float64).floor().cast(pl.Int64, strict=False))
    raise errors.not_a_time_column(column, dtype)


def _datetimes(given: pl.Series, dtype: pl.Datetime) -> tuple[pl.Series, pl.Series | None]:
    physical = given.to_physical()  # UTC for a column with a zone; a column without one is taken as UTC
    if dtype.time_unit == "us":
        return physical, None
    if dtype.time_unit == "ns":
        return physical // 1_000, None
    return _scaled(physical, 1_000)


def _scaled(given: pl.Series, factor: int) -> tuple[pl.Series, pl.Series | None]:
    limit = MAX // factor
    wide = given.cast(pl.Int64)
    low, high = wide.min(), wide.max()
    if low is not None and (low < -limit or high > limit):  # type: ignore[operator]
        wide = wide.set(~wide.is_between(-limit, limit), None)
    return _with_bad(given, wide * factor)


def _with_bad(given: pl.Series, read: pl.Series) -> tuple[pl.Series, pl.Series | None]:
    if given.null_count() == read.null_count():
        return read, None
    return read, read.is_null() & given.is_not_null()


def _read_text(given: pl.Series) -> pl.Series:
    """The same reading as ``instant``, by column."""
    part = pl.col("part").struct

    def number(field: int) -> pl.Expr:
        return part[field].cast(pl.Int64).fill_null(0)

    days = part[0].str.to_date("%Y-%m-%d", strict=False).cast(pl.Int64)
    seconds = days * 86_400 + number(1) * 3600 + number(2) * 60 + number(3)
    offset = number(6) * 3600 + number(7) * 60
    seconds -= pl.when(part[5] == "-").then(-offset).otherwise(offset)
    fraction = part[4].fill_null("").str.pad_end(6, "0").str.slice(0, 6).cast(pl.Int64)
    parts = given.str.strip_chars().str.extract_groups(ISO).alias("part").to_frame()
    return parts.select((seconds * 1_000_000 + fraction).alias(given.name)).to_series()
