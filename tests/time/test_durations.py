from datetime import timedelta
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventide.errors import PlanError
from eventide.time import MAX, duration, format_duration

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("30 seconds", 30 * SECOND),
        ("5m", 5 * MINUTE),
        ("1 hour 30 minutes", 90 * MINUTE),
        ("1h30m", 90 * MINUTE),
        ("  1H 30Min ", 90 * MINUTE),
        ("250ms", 250_000),
        ("10 us", 10),
        ("10 µs", 10),  # micro sign
        ("10 μs", 10),  # Greek mu
        ("10 microseconds", 10),
        ("2000 ns", 2),
        ("2 weeks", 14 * DAY),
        ("1 day", DAY),
        ("1.5 hours", 90 * MINUTE),
        ("0.000001s", 1),
        (".5 s", 500_000),
        ("PT1H30M", 90 * MINUTE),
        ("P1DT2H", 26 * HOUR),
        ("P2W", 14 * DAY),
        ("pt0,5s", 500_000),
        ("PT1.5H", 90 * MINUTE),
        ("PT2H-30M", 90 * MINUTE),
        ("+5m", 5 * MINUTE),
    ],
)
def test_a_duration_is_read(text: str, micros: int) -> None:
    assert duration(text) == micros


def test_a_timedelta_is_read_to_the_microsecond() -> None:
    assert duration(timedelta(days=1, microseconds=1)) == DAY + 1


@pytest.mark.parametrize("text", ["-PT5S", "-5 seconds", "PT-5S"])
def test_a_negative_duration_is_read_where_it_is_allowed(text: str) -> None:
    assert duration(text, negative=True) < 0


def test_a_sign_in_front_holds_for_the_whole_duration() -> None:
    assert duration("-1h 30m", negative=True) == -90 * MINUTE


def test_zero_is_read_where_it_is_allowed() -> None:
    assert duration("0s", zero=True) == 0


@settings(deadline=None)
@given(st.integers(-MAX, MAX))
def test_a_formatted_duration_reads_back(micros: int) -> None:
    assert duration(format_duration(micros), zero=True, negative=True) == micros


@settings(deadline=None)
@given(st.timedeltas(timedelta(days=-100_000_000), timedelta(days=100_000_000)))
def test_a_timedelta_and_its_text_are_equal(delta: timedelta) -> None:
    micros = duration(delta, zero=True, negative=True)
    assert Fraction(micros, SECOND) == Fraction(delta // timedelta(microseconds=1), SECOND)
    iso = f"P{delta.days}DT{delta.seconds}.{delta.microseconds:06d}S"
    assert duration(iso, zero=True, negative=True) == micros


@pytest.mark.parametrize(
    ("micros", "text"),
    [(90 * MINUTE, "1h 30m"), (30 * SECOND, "30s"), (250_000, "250ms"), (1, "1µs"), (0, "0s"), (-DAY, "-1d")],
)
def test_a_duration_is_formatted(micros: int, text: str) -> None:
    assert format_duration(micros) == text


def test_a_boolean_is_no_number_without_a_unit() -> None:
    with pytest.raises(PlanError, match="gap=True is a bool, not a duration"):
        duration(True, what="gap")


@pytest.mark.parametrize("value", [30, 1.5])
def test_a_bare_number_is_rejected_with_a_hint_to_name_its_unit(value: object) -> None:
    with pytest.raises(PlanError, match=rf"gap={value!r} has no unit.*'30 seconds'"):
        duration(value, what="gap")


def test_another_type_is_rejected() -> None:
    with pytest.raises(PlanError, match=r"gap=\['5m'\] is a list, not a duration.*'30 seconds'"):
        duration(["5m"], what="gap")


@pytest.mark.parametrize(
    "text", ["", " ", "soon", "5", "5 5m", "m5", "1h,30m", "--5s", "P", "PT", "P1DT", "P1H", "5m P1D", "1_0s", "٣s"]
)
def test_other_text_is_rejected(text: str) -> None:
    with pytest.raises(PlanError, match=r"gap=.* is not a duration\. Write"):
        duration(text, what="gap")


@pytest.mark.parametrize(
    ("text", "hint"), [("5 secnods", "seconds"), ("1 huor", "hour"), ("3 dyas", "days"), ("1 wek", "week")]
)
def test_a_misspelt_unit_gets_a_hint(text: str, hint: str) -> None:
    with pytest.raises(PlanError, match=f"Did you mean '{hint}'?"):
        duration(text)


@pytest.mark.parametrize(
    ("text", "unit"),
    [("1 month", "month"), ("2 YEARS", "year"), ("1M", "month"), ("P1Y", "year"), ("P3M", "month"), ("1 q", "quarter")],
)
def test_months_and_years_are_rejected_with_a_hint_to_calendar(text: str, unit: str) -> None:
    with pytest.raises(PlanError, match=rf"size=.*a {unit} has no fixed length.*calendar\('{unit}'\)"):
        duration(text, what="size")


@pytest.mark.parametrize("text", ["1.5us", "1 ns", "PT0.0000001S"])
def test_what_is_finer_than_a_microsecond_is_rejected(text: str) -> None:
    with pytest.raises(PlanError, match="not a whole number of microseconds"):
        duration(text)


@pytest.mark.parametrize("value", ["20000000 weeks", timedelta.max, timedelta.min, "9223372036854775808 us"])
def test_what_64_bits_cannot_hold_is_rejected(value: object) -> None:
    with pytest.raises(PlanError, match="too long"):
        duration(value, negative=True)


def test_the_longest_duration_is_accepted() -> None:
    assert duration("9223372036854775807 us") == MAX


def test_zero_is_rejected_where_time_must_pass() -> None:
    with pytest.raises(PlanError, match="every='0 s' must be longer than zero"):
        duration("0 s", what="every", negative=True)


def test_a_negative_duration_is_rejected_where_time_must_pass() -> None:
    with pytest.raises(PlanError, match="every='-1s' must not be negative"):
        duration("-1s", what="every", zero=True)
