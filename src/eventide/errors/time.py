"""What is said about durations, instants, time columns and time zones."""

from __future__ import annotations

from collections.abc import Iterable

from eventide.errors.kinds import PlanError, did_you_mean
from eventide.errors.values import shown

_WRITE_DURATION = "Write a duration such as '30 seconds', '5m', '1h 30m', 'PT1H30M', or a timedelta."
_WRITE_INSTANT = "Write an instant such as '2024-05-01T12:00:00Z', or give a datetime or a date."


def duration_without_unit(what: str, value: float) -> PlanError:
    """A bare number, which could be seconds, milliseconds or minutes."""
    return PlanError(f"{what}={shown(value)} has no unit. Write it with one, as in '30 seconds', '5m' or '250ms'.")


def duration_of_wrong_type(what: str, value: object) -> PlanError:
    """Neither text nor a timedelta."""
    return PlanError(f"{what}={shown(value)} is a {type(value).__name__}, not a duration. {_WRITE_DURATION}")


def unreadable_duration(what: str, text: str) -> PlanError:
    """Text of no known form."""
    return PlanError(f"{what}={text!r} is not a duration. {_WRITE_DURATION}")


def unknown_unit(what: str, text: str, unit: str, known: Iterable[str]) -> PlanError:
    """A misspelt unit of time."""
    return PlanError(f"{what}={text!r}: there is no unit of time {shown(unit)}. {did_you_mean(unit.lower(), known)}")


def no_fixed_length(what: str, text: str, unit: str) -> PlanError:
    """Months and years have no fixed length."""
    return PlanError(
        f"{what}={text!r}: a {unit} has no fixed length, so it cannot be a duration. "
        f"For windows of whole {unit}s use calendar({shown(unit)}); otherwise write days, such as '30 days'."
    )


def finer_than_microsecond(what: str, text: str) -> PlanError:
    """Rounding in silence would move window bounds."""
    return PlanError(f"{what}={text!r} is not a whole number of microseconds, the finest step of event time.")


def duration_too_long(what: str, value: object) -> PlanError:
    """Beyond 64 bits of microseconds."""
    return PlanError(f"{what}={shown(value)} is too long: a duration is at most 292 thousand years.")


def zero_duration(what: str, value: object) -> PlanError:
    """Zero where time must pass."""
    return PlanError(f"{what}={shown(value)} must be longer than zero.")


def negative_duration(what: str, value: object) -> PlanError:
    """Below zero where time must pass."""
    return PlanError(f"{what}={shown(value)} must not be negative.")


def instant_without_unit(what: str, value: float) -> PlanError:
    """A bare number, which could be seconds or milliseconds."""
    return PlanError(f"{what}={shown(value)} could be seconds, milliseconds or microseconds. {_WRITE_INSTANT}")


def instant_of_wrong_type(what: str, value: object) -> PlanError:
    """Neither text nor a datetime nor a date."""
    return PlanError(f"{what}={shown(value)} is a {type(value).__name__}, not an instant. {_WRITE_INSTANT}")


def unreadable_instant(what: str, text: str) -> PlanError:
    """Text that is not ISO-8601, or no day of the calendar."""
    return PlanError(f"{what}={text!r} is not an ISO-8601 instant. {_WRITE_INSTANT}")


def no_time_column(column: str, columns: Iterable[str]) -> PlanError:
    """The event-time column does not exist."""
    return PlanError(f"There is no column {column!r} to take event time from. {did_you_mean(column, columns)}")


def not_a_time_column(column: str, dtype: object) -> PlanError:
    """The event-time column exists, but its type is not one of time."""
    return PlanError(
        f"Column {column!r} has type {dtype}, which cannot be read as event time. "
        "Use a timestamp, a date, ISO-8601 text, or a number of microseconds since 1970-01-01T00:00:00Z; "
        "cast the column to one of these first."
    )


def unknown_zone(tz: str, known: Iterable[str]) -> PlanError:
    """A misspelt time zone. The full list is too long to print."""
    hint = did_you_mean(tz, known)
    if not hint.startswith("Did you mean"):
        hint = "Use a name of the IANA database, such as 'Europe/Berlin' or 'UTC'."
    return PlanError(f"There is no time zone {shown(tz)}. {hint}")


def unknown_calendar_unit(unit: str, known: Iterable[str]) -> PlanError:
    """A misspelt calendar unit."""
    return PlanError(f"There is no calendar unit {shown(unit)}. {did_you_mean(unit, known)}")
