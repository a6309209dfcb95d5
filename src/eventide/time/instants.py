"""Instants as users write them, to int microseconds since the epoch, UTC, and back."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta

from eventide.errors import time as errors

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

# The calendar repeats after 400 years, which lets `datetime` speak for instants it cannot hold.
_CYCLE = 146_097 * 86_400_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


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
        raise errors.instant_without_unit(what, value)
    raise errors.instant_of_wrong_type(what, value)


def _read(text: str, what: str) -> int:
    match = re.match(ISO, text.strip())
    if match is None:
        raise errors.unreadable_instant(what, text)
    day, hour, minute, second, fraction, sign, off_hour, off_minute = match.groups()
    try:
        days = (date.fromisoformat(day) - _EPOCH.date()).days
    except ValueError:
        raise errors.unreadable_instant(what, text) from None
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
    moment = _EPOCH + within * _MICROSECOND
    year = moment.year + 400 * cycles
    years = f"{year:04d}" if 0 <= year <= 9999 else f"{year:+07d}"
    rest = moment.replace(tzinfo=None).isoformat()[4:]
    return f"{years}{rest}Z"


def earliest(times: Iterable[int | None]) -> int | None:
    """The earliest of some instants, of which any may be missing; None: all are.

    >>> earliest([20, None, 10]), earliest([None])
    (10, None)
    """
    return min((time for time in times if time is not None), default=None)
