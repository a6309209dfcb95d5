"""Calendar periods by column, against a model that asks zoneinfo for one instant at a time."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventide.errors import PlanError
from eventide.time import (
    CALENDAR_UNITS,
    MAX,
    MIN,
    CalendarUnit,
    calendar_next,
    calendar_start,
    format_instant,
    instant,
    zone,
)

ZONES = [
    "UTC",
    "Africa/Cairo",  # midnight does not exist in spring
    "Africa/Casablanca",  # clocks are set around Ramadan
    "America/Havana",  # midnight comes twice in autumn
    "America/New_York",
    "America/Sao_Paulo",  # midnight did not exist in spring
    "America/Sitka",  # went back a whole day in 1867
    "America/St_Johns",  # clocks were set at one minute past midnight
    "America/Toronto",  # set from 23:30 to 00:30 in 1919
    "Asia/Beirut",
    "Asia/Kathmandu",  # a quarter of an hour off
    "Australia/Lord_Howe",  # half an hour of summer time
    "Europe/Berlin",
    "Pacific/Apia",  # skipped 2011-12-30
    "Pacific/Kwajalein",  # skipped 1993-08-21
]
DATES: list[CalendarUnit] = ["day", "week", "month", "quarter", "year"]
HOUR = 3_600_000_000
SECOND = timedelta(seconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def start_of(ts: list[int | None], unit: CalendarUnit, tz: str) -> list[int | None]:
    return (
        pl.DataFrame({"ts": ts}, schema={"ts": pl.Int64}).select(calendar_start(pl.col("ts"), unit, tz))["ts"].to_list()
    )


def next_of(ts: list[int | None], unit: CalendarUnit, tz: str) -> list[int | None]:
    return (
        pl.DataFrame({"ts": ts}, schema={"ts": pl.Int64}).select(calendar_next(pl.col("ts"), unit, tz))["ts"].to_list()
    )


def period(text: str, unit: CalendarUnit, tz: str) -> tuple[str, str]:
    start = start_of([instant(text)], unit, tz)
    return format_instant(start[0] or 0), format_instant(next_of(start, unit, tz)[0] or 0)


# The model.


def local(ts: int, zone: ZoneInfo) -> datetime:
    return (EPOCH + timedelta(microseconds=ts)).astimezone(zone).replace(tzinfo=None)


def floor(moment: datetime, unit: CalendarUnit) -> datetime:
    day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    if unit == "week":
        return day - timedelta(days=day.weekday())
    if unit == "month":
        return day.replace(day=1)
    if unit == "quarter":
        return day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1)
    if unit == "year":
        return day.replace(month=1, day=1)
    return day


def following(date: datetime, unit: CalendarUnit) -> datetime:
    longest = {"day": 1, "week": 7, "month": 31, "quarter": 92, "year": 366}[unit]
    return floor(date + timedelta(days=longest), unit)


def first_instant(date: datetime, zone: ZoneInfo) -> int:
    """The first instant at which clocks show ``date`` or later."""
    guess = date.replace(tzinfo=zone, fold=0).astimezone(UTC)
    ts = (guess - EPOCH) // timedelta(microseconds=1)
    if local(ts, zone) == date:
        return ts
    before, after = ts - 26 * HOUR, ts + 26 * HOUR  # the clocks jump over the date: find when
    while after - before > 1:
        middle = (before + after) // 2
        before, after = (middle, after) if local(middle, zone) < date else (before, middle)
    return after


def model(ts: int, unit: CalendarUnit, tz: str) -> tuple[int, int]:
    zone = ZoneInfo(tz)
    date = floor(local(ts, zone), unit)
    bounds = [first_instant(date, zone)]
    while bounds[-1] <= ts:
        date = following(date, unit)
        bounds.append(first_instant(date, zone))
    return max(bound for bound in bounds if bound <= ts), bounds[-1]


def instants() -> st.SearchStrategy[int]:
    anywhere = st.integers(instant("1845-01-01"), instant("2200-01-01"))
    notable = [
        "1867-10-18T23:30Z",
        "1919-03-31T04:30Z",
        "1993-08-20T12:00Z",
        "2006-10-29T02:31Z",
        "2011-12-30T10:00Z",
        "2018-11-04T03:00Z",
        "2024-03-30T22:00Z",
        "2024-03-31T01:00Z",
        "2024-04-06T15:00Z",
        "2024-04-25T22:00Z",
        "2024-10-05T15:30Z",
        "2024-11-03T05:00Z",
    ]
    near = st.builds(lambda a, b: instant(a) + b, st.sampled_from(notable), st.integers(-50 * HOUR, 50 * HOUR))
    sharp = st.builds(
        lambda a, b, c: instant(a) + b * HOUR // 2 + c,
        st.sampled_from(notable),
        st.integers(-50, 50),
        st.integers(-1, 1),
    )
    return st.one_of(anywhere, near, sharp)


@settings(deadline=None)
@given(st.sampled_from(ZONES), st.sampled_from(DATES), st.lists(instants(), min_size=1, max_size=20))
def test_periods_agree_with_the_model(tz: str, unit: CalendarUnit, ts: list[int]) -> None:
    starts = start_of(list(ts), unit, tz)
    ends = next_of(starts, unit, tz)
    assert list(zip(starts, ends, strict=True)) == [model(time, unit, tz) for time in ts]


@settings(deadline=None)
@given(st.sampled_from(ZONES), st.sampled_from(CALENDAR_UNITS), instants())
def test_periods_have_no_gap_and_no_overlap(tz: str, unit: CalendarUnit, ts: int) -> None:
    (start,) = start_of([ts], unit, tz)
    (end,) = next_of([start], unit, tz)
    assert start is not None
    assert end is not None
    assert start <= ts < end
    assert start_of([start, end - 1, end], unit, tz) == [start, start, end]


@settings(deadline=None)
@given(st.sampled_from(ZONES), instants())
def test_an_hour_ends_when_the_clock_strikes_or_is_set(tz: str, ts: int) -> None:
    zone = ZoneInfo(tz)
    (start,) = start_of([ts], "hour", tz)
    (end,) = next_of([start], "hour", tz)
    assert start is not None
    assert end is not None
    assert end - start <= HOUR

    def offset(at: int) -> timedelta:
        return local(at, zone) - (EPOCH + timedelta(microseconds=at)).replace(tzinfo=None)

    for bound in (start, end):
        strikes = local(bound, zone) == floor(local(bound, zone), "day") + timedelta(hours=local(bound, zone).hour)
        assert strikes or offset(bound - 1) != offset(bound)
    assert offset(start) == offset(end - 1)


@settings(deadline=None)
@given(st.sampled_from(ZONES), st.sampled_from(DATES), st.integers(instant("2400-01-01"), instant("9900-01-01")))
def test_the_far_future_follows_the_rules_of_the_zone(tz: str, unit: CalendarUnit, ts: int) -> None:
    starts = start_of([ts], unit, tz)
    assert (starts[0], next_of(starts, unit, tz)[0]) == model(ts, unit, tz)


@settings(deadline=None)
@given(st.sampled_from(DATES), st.integers(instant("0010-01-01"), instant("1800-01-01")))
def test_the_far_past_follows_the_calendar(unit: CalendarUnit, ts: int) -> None:
    starts = start_of([ts], unit, "Europe/Berlin")
    assert (starts[0], next_of(starts, unit, "Europe/Berlin")[0]) == model(ts, unit, "Europe/Berlin")


@pytest.mark.parametrize("tz", ZONES)
def test_the_table_of_a_zone_is_exact_to_the_second(tz: str) -> None:
    def offset(at: int) -> int:
        return (local(at, info) - (EPOCH + timedelta(microseconds=at)).replace(tzinfo=None)) // timedelta(
            microseconds=1
        )

    info, table = ZoneInfo(tz), zone(tz)
    settings = table.starts.to_list()[1:]
    assert [offset(at) for at in settings] == table.offsets.to_list()[1:]
    assert [offset(at - 1) for at in settings] == table.offsets.to_list()[:-1]


# Days worth knowing by name.


def test_a_day_on_which_clocks_are_set_forward_has_23_hours() -> None:
    assert period("2024-03-31T12:00Z", "day", "Europe/Berlin") == ("2024-03-30T23:00:00Z", "2024-03-31T22:00:00Z")


def test_a_day_on_which_clocks_are_set_back_has_25_hours() -> None:
    assert period("2024-10-27T12:00Z", "day", "Europe/Berlin") == ("2024-10-26T22:00:00Z", "2024-10-27T23:00:00Z")


@pytest.mark.parametrize(
    ("text", "tz", "start"),
    [
        ("2018-11-04T12:00Z", "America/Sao_Paulo", "2018-11-04T03:00:00Z"),
        ("2024-03-31T12:00Z", "Asia/Beirut", "2024-03-30T22:00:00Z"),
        ("2024-04-26T12:00Z", "Africa/Cairo", "2024-04-25T22:00:00Z"),
        ("1919-03-31T12:00Z", "America/Toronto", "1919-03-31T04:30:00Z"),
    ],
)
def test_a_day_without_midnight_begins_when_the_clocks_are_set(text: str, tz: str, start: str) -> None:
    assert period(text, "day", tz)[0] == start


def test_a_day_with_two_midnights_begins_at_the_earlier() -> None:
    assert period("2024-11-03T12:00Z", "day", "America/Havana") == ("2024-11-03T04:00:00Z", "2024-11-04T05:00:00Z")


def test_a_date_that_clocks_show_again_after_midnight_does_not_come_back() -> None:
    # 2006-10-29T00:01 in St. John's was followed by 2006-10-28T23:01.
    day = ("2006-10-29T02:30:00Z", "2006-10-30T03:30:00Z")
    assert period("2006-10-29T02:30:30Z", "day", "America/St_Johns") == day
    assert period("2006-10-29T02:45:00Z", "day", "America/St_Johns") == day


def test_a_day_that_never_was_is_left_out() -> None:
    assert period("2011-12-30T09:59:59Z", "day", "Pacific/Apia")[1] == "2011-12-30T10:00:00Z"
    assert period("2011-12-30T10:00:00Z", "day", "Pacific/Apia") == ("2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z")


def test_an_hour_that_clocks_repeat_is_two_hours() -> None:
    first = ("2024-11-03T05:00:00Z", "2024-11-03T06:00:00Z")
    second = ("2024-11-03T06:00:00Z", "2024-11-03T07:00:00Z")
    assert period("2024-11-03T05:30Z", "hour", "America/New_York") == first
    assert period("2024-11-03T06:30Z", "hour", "America/New_York") == second


def test_a_week_starts_on_monday_also_before_1970() -> None:
    assert period("1969-12-31", "week", "UTC") == ("1969-12-29T00:00:00Z", "1970-01-05T00:00:00Z")


def test_null_stays_null() -> None:
    for unit in CALENDAR_UNITS:
        for tz in ("UTC", "Europe/Berlin", "America/St_Johns"):
            assert start_of([None, 0], unit, tz)[0] is None
            assert next_of([None, 0], unit, tz)[0] is None


@pytest.mark.parametrize("unit", CALENDAR_UNITS)
@pytest.mark.parametrize("tz", ["UTC", "Europe/Berlin", "America/St_Johns"])
def test_periods_at_the_ends_of_time_do_not_wrap_around(unit: CalendarUnit, tz: str) -> None:
    assert start_of([MIN], unit, tz) == [MIN]
    assert next_of([MAX], unit, tz) == [MAX]
    (start,) = start_of([MAX], unit, tz)
    assert start is not None
    assert MAX - 367 * 24 * HOUR < start < MAX
    (end,) = next_of([MIN], unit, tz)
    assert end is not None
    assert MIN < end < MIN + 367 * 24 * HOUR


def test_expressions_run_lazily_and_in_the_streaming_engine() -> None:
    ts = pl.int_range(0, 100_000, eager=True) * HOUR
    lazy = ts.alias("ts").to_frame().lazy().with_columns(start=calendar_start(pl.col("ts"), "day", "Europe/Berlin"))
    lazy = lazy.group_by("start").len().sort("start")
    assert lazy.collect(engine="streaming").equals(lazy.collect())
    assert lazy.collect()["len"].value_counts().sort("len")["len"].to_list()[1:] == [23, 24, 25]


@pytest.mark.parametrize(
    ("tz", "hint"),
    [
        ("Europe/Berln", "Did you mean 'Europe/Berlin'?"),
        ("America", "Did you mean 'America/"),
        ("../etc/passwd", "IANA database"),
        ("+02:00", "IANA database"),
    ],
)
def test_an_unknown_zone_is_rejected(tz: str, hint: str) -> None:
    with pytest.raises(PlanError, match="There is no time zone") as caught:
        calendar_start(pl.col("ts"), "day", tz)
    assert hint in str(caught.value)


@pytest.mark.parametrize("of", [calendar_start, calendar_next])
def test_an_unknown_unit_is_rejected(of) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(PlanError, match=r"no calendar unit 'months'\. Did you mean 'month'\?"):
        of(pl.col("ts"), "months", "UTC")
