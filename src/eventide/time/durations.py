"""Durations as users write them, to int microseconds and back."""

from __future__ import annotations

import re
from datetime import timedelta
from fractions import Fraction

from eventide.errors import PlanError, did_you_mean, shown

_LONGEST = 2**63 - 1

_MICROS = {
    "ns": Fraction(1, 1000),
    "us": Fraction(1),
    "ms": Fraction(1_000),
    "s": Fraction(1_000_000),
    "m": Fraction(60_000_000),
    "h": Fraction(3_600_000_000),
    "d": Fraction(86_400_000_000),
    "w": Fraction(604_800_000_000),
}

_SPELLINGS = {
    "ns": ("ns", "nanosecond", "nanoseconds"),
    "us": ("us", "µs", "μs", "microsecond", "microseconds"),  # micro sign and Greek mu look alike
    "ms": ("ms", "millis", "millisecond", "milliseconds"),
    "s": ("s", "sec", "secs", "second", "seconds"),
    "m": ("m", "min", "mins", "minute", "minutes"),
    "h": ("h", "hr", "hrs", "hour", "hours"),
    "d": ("d", "day", "days"),
    "w": ("w", "week", "weeks"),
}
_UNITS = {spelling: unit for unit, spellings in _SPELLINGS.items() for spelling in spellings}

_CALENDAR = {
    **dict.fromkeys(("mo", "mon", "month", "months"), "month"),
    **dict.fromkeys(("q", "quarter", "quarters"), "quarter"),
    **dict.fromkeys(("y", "yr", "yrs", "year", "years"), "year"),
}

_NUMBER = r"[0-9]+(?:\.[0-9]+)?|\.[0-9]+"
_TERM = re.compile(rf"\s*({_NUMBER})\s*([^\W\d_]+)")
_ISO_NUMBER = r"([-+]?[0-9]+(?:[.,][0-9]+)?)"
_ISO = re.compile(
    rf"P(?:{_ISO_NUMBER}Y)?(?:{_ISO_NUMBER}M)?(?:{_ISO_NUMBER}W)?(?:{_ISO_NUMBER}D)?"
    rf"(?:T(?:{_ISO_NUMBER}H)?(?:{_ISO_NUMBER}M)?(?:{_ISO_NUMBER}S)?)?"
)
_ISO_UNITS = ("year", "month", "w", "d", "h", "m", "s")


def duration(value: object, *, what: str = "duration", zero: bool = False, negative: bool = False) -> int:
    """The length of ``value`` in microseconds; ``what`` names the argument in messages.

    >>> duration("30 seconds"), duration("1h30m"), duration("1.5 hours"), duration("PT0.25S")
    (30000000, 5400000000, 5400000000, 250000)
    >>> duration("1 mintue", what="gap")
    Traceback (most recent call last):
    ...
    eventide.errors.PlanError: gap='1 mintue': there is no unit of time 'mintue'. Did you mean 'minute'?
    """
    micros = _micros(value, what)
    if abs(micros) > _LONGEST:
        raise PlanError(f"{what}={shown(value)} is too long: a duration is at most 292 thousand years.")
    if micros == 0 and not zero:
        raise PlanError(f"{what}={shown(value)} must be longer than zero.")
    if micros < 0 and not negative:
        raise PlanError(f"{what}={shown(value)} must not be negative.")
    return micros


def _micros(value: object, what: str) -> int:
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1)
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise PlanError(f"{what}={shown(value)} has no unit. Write it with one, as in '30 seconds', '5m' or '250ms'.")
    if not isinstance(value, str):
        raise PlanError(f"{what}={shown(value)} is a {type(value).__name__}, not a duration. {_WRITE_DURATION}")
    exact = _parse(value, what)
    if exact.denominator != 1:
        raise PlanError(f"{what}={value!r} is not a whole number of microseconds, the finest step of event time.")
    return exact.numerator


def _parse(text: str, what: str) -> Fraction:
    body = text.strip()
    sign = -1 if body.startswith("-") else 1
    body = body[1:] if body.startswith(("-", "+")) else body
    if body.startswith(("P", "p")):
        return sign * _parse_iso(text, body.upper(), what)
    return sign * _parse_words(text, body, what)


def _parse_words(text: str, body: str, what: str) -> Fraction:
    total, at = Fraction(0), 0
    while at < len(body):
        term = _TERM.match(body, at)
        if term is None:
            raise _unreadable_duration(what, text)
        total += Fraction(term[1]) * _unit(text, term[2], what)
        at = term.end()
    if at == 0:
        raise _unreadable_duration(what, text)
    return total


def _unit(text: str, word: str, what: str) -> Fraction:
    # A lone capital M means months elsewhere; reading it as minutes would be a silent surprise.
    name = "month" if word == "M" else word.lower()
    if name in _CALENDAR:
        raise _no_fixed_length(what, text, _CALENDAR[name])
    if name not in _UNITS:
        known = [spelling for spellings in _SPELLINGS.values() for spelling in spellings[-2:]]
        raise PlanError(f"{what}={text!r}: there is no unit of time {shown(word)}. {did_you_mean(word.lower(), known)}")
    return _MICROS[_UNITS[name]]


def _parse_iso(text: str, body: str, what: str) -> Fraction:
    match = _ISO.fullmatch(body)
    if match is None or not any(match.groups()) or body.endswith("T"):
        raise _unreadable_duration(what, text)
    total = Fraction(0)
    for number, unit in zip(match.groups(), _ISO_UNITS, strict=True):
        if number is None:
            continue
        if unit in _CALENDAR:
            raise _no_fixed_length(what, text, unit)
        total += Fraction(number.replace(",", ".")) * _MICROS[unit]
    return total


def format_duration(us: int) -> str:
    """A duration as people write it; ``duration`` reads it back.

    >>> [format_duration(us) for us in (5_400_000_000, 30_000_000, 250_000, 0)]
    ['1h 30m', '30s', '250ms', '0s']
    """
    left, parts = abs(us), []
    for unit in ("d", "h", "m", "s", "ms", "us"):
        count, left = divmod(left, _MICROS[unit].numerator)
        if count:
            parts.append(f"{count}{unit.replace('us', 'µs')}")
    return ("-" if us < 0 else "") + " ".join(parts) if parts else "0s"


_WRITE_DURATION = "Write a duration such as '30 seconds', '5m', '1h 30m', 'PT1H30M', or a timedelta."


def _unreadable_duration(what: str, text: str) -> PlanError:
    """Text of no known form."""
    return PlanError(f"{what}={text!r} is not a duration. {_WRITE_DURATION}")


def _no_fixed_length(what: str, text: str, unit: str) -> PlanError:
    """Months and years have no fixed length."""
    return PlanError(
        f"{what}={text!r}: a {unit} has no fixed length, so it cannot be a duration. "
        f"For windows of whole {unit}s use calendar({shown(unit)}); otherwise write days, such as '30 days'."
    )
