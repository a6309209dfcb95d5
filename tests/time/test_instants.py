from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventide.errors import PlanError
from eventide.time import MAX, MIN, format_instant, instant


@pytest.mark.parametrize(
    ("value", "micros"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01", 0),
        ("1970-01-01 00:00", 0),
        (" 1970-01-01t00:00:00.5z ", 500_000),
        ("1970-01-01T00:00:00,000001", 1),
        ("1970-01-01T00:00:00.0000019Z", 1),
        ("1969-12-31T23:59:59.9999999Z", -1),
        ("1970-01-01T05:45:00+05:45", 0),
        ("1970-01-01T00:00:00-0100", 3_600_000_000),
        ("1970-01-01T01:00:00+01", 0),
        (datetime(1970, 1, 1, 0, 0, 1), 1_000_000),
        (datetime(1970, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))), 0),
        (date(1969, 12, 31), -86_400_000_000),
    ],
)
def test_an_instant_is_read(value: object, micros: int) -> None:
    assert instant(value) == micros


def test_the_second_of_two_equal_local_times_is_an_hour_later() -> None:
    first = datetime(2024, 10, 27, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    assert instant(first.replace(fold=1)) - instant(first) == 3_600_000_000


@settings(deadline=None)
@given(st.datetimes(timezones=st.sampled_from([UTC, ZoneInfo("Asia/Kathmandu"), ZoneInfo("America/New_York")])))
def test_a_datetime_and_its_text_are_the_same_instant(moment: datetime) -> None:
    offset = moment.utcoffset()
    assert offset is not None
    if offset.seconds % 60 == 0:  # local mean time has seconds in its offset, ISO-8601 has not
        assert instant(moment.isoformat()) == instant(moment)


@settings(deadline=None)
@given(st.datetimes())
def test_a_formatted_instant_reads_back(moment: datetime) -> None:
    assert format_instant(instant(moment)) == moment.isoformat() + "Z"
    assert instant(format_instant(instant(moment))) == instant(moment)


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (MIN, "-∞"),
        (MAX, "+∞"),
        (-1, "1969-12-31T23:59:59.999999Z"),
        (253_402_300_800_000_000, "+010000-01-01T00:00:00Z"),
        (-62_135_596_800_000_000 - 1, "0000-12-31T23:59:59.999999Z"),
        (-62_167_219_200_000_000 - 1, "-000001-12-31T23:59:59.999999Z"),
        (MIN + 1, "-290308-12-21T19:59:05.224193Z"),
    ],
)
def test_every_instant_has_a_text(micros: int, text: str) -> None:
    assert format_instant(micros) == text


@pytest.mark.parametrize("value", [0, 1.7e9, False])
def test_a_bare_number_is_rejected_because_its_unit_is_unknown(value: object) -> None:
    with pytest.raises(PlanError, match=rf"since={value!r} could be seconds.*2024-05-01T12:00:00Z"):
        instant(value, what="since")


def test_another_type_is_rejected() -> None:
    with pytest.raises(PlanError, match="since=None is a NoneType, not an instant"):
        instant(None, what="since")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2024-02-30",
        "0000-01-01",
        "2024-1-1",
        "2024-01-01T24:00",
        "2024-01-01T00:00:60",
        "2024-01-01T00:00+05:",
        "2024-01-01Z",
        "2024-01-01T00",
        "２０２４-01-01",
    ],
)
def test_other_text_is_rejected(text: str) -> None:
    with pytest.raises(PlanError, match=r"since=.* is not an ISO-8601 instant"):
        instant(text, what="since")
