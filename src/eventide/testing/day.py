"""Times as tests write them: short, on one day."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime
from typing import TypeAlias

from eventide.time import MAX, MIN, format_instant, instant

Moment: TypeAlias = int | str | datetime

_DAY = 86_400_000_000
_CLOCK = re.compile(r"([0-9]{1,2}):([0-5][0-9])(?::([0-5][0-9])(?:\.([0-9]{1,6}))?)?")
_ENDS = {"end": MAX, "+∞": MAX, "∞": MAX, "+inf": MAX, "inf": MAX, "-∞": MIN, "-inf": MIN}


@dataclass(frozen=True)
class Day:
    """The day that ``"12:30"`` means. What lies on another day is written in full.

    >>> day = Day.of("2026-03-29")
    >>> day.read("12:30", "at") == day.read("2026-03-29T12:30Z", "at")
    True
    >>> day.write(day.read("12:30:05.5", "at")), day.write(0), day.write(MAX)
    ('12:30:05.5', '1970-01-01T00:00', '+∞')
    """

    midnight: int = 0

    @staticmethod
    def of(day: str | date) -> Day:
        """The day that begins at midnight of ``day``, UTC."""
        return Day(instant(day, what="day"))

    def read(self, value: object, what: str) -> int:
        """An instant from ``"12:30"``, ``"12:30:05.25"``, ISO-8601, a datetime, µs, or ``"end"``."""
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if isinstance(value, str):
            text = value.strip()
            if text in _ENDS:
                return _ENDS[text]
            clock = _CLOCK.fullmatch(text)
            if clock is not None and (within := _within_day(clock)) <= _DAY:
                return self.midnight + within
        return instant(value, what=what)

    def write(self, us: int) -> str:
        """The shortest text that ``read`` understands."""
        if us in (MIN, MAX):
            return format_instant(us)
        if us == self.midnight + _DAY:
            return "24:00"
        date, _, clock = format_instant(us).removesuffix("Z").partition("T")
        clock = clock.rstrip("0") if "." in clock else clock.removesuffix(":00")
        return clock if 0 <= us - self.midnight < _DAY else f"{date}T{clock}"


def _within_day(clock: re.Match[str]) -> int:
    hours, minutes, seconds, fraction = clock.groups()
    whole = int(hours) * 3600 + int(minutes) * 60 + int(seconds or 0)
    return whole * 1_000_000 + int((fraction or "0").ljust(6, "0"))
