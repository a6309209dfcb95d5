from datetime import UTC, date, datetime
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventide.errors import PlanError
from eventide.time import MAX, MIN, instant, time_column


def read(values: list[Any], dtype: Any) -> tuple[list[int | None], list[bool] | None]:
    micros, bad = time_column(pl.DataFrame({"at": pl.Series(values, dtype=dtype)}), "at")
    assert micros.dtype == pl.Int64
    assert micros.name == "at"
    assert bad is None or bad.dtype == pl.Boolean
    return micros.to_list(), None if bad is None else bad.to_list()


def address(column: pl.Series) -> int:
    return column.to_arrow().buffers()[1].address


@pytest.mark.parametrize("dtype", [pl.Int64, pl.Datetime("us"), pl.Datetime("us", "Asia/Tokyo")])
def test_microseconds_are_not_copied(dtype: Any) -> None:
    frame = pl.DataFrame({"at": pl.Series([1, None, 3], dtype=pl.Int64).cast(dtype)})
    micros, bad = time_column(frame, "at")
    assert bad is None
    assert micros.to_list() == [1, None, 3]
    assert address(micros) == address(frame["at"].to_physical())


def test_a_datetime_without_zone_is_utc() -> None:
    assert read([datetime(1970, 1, 1, 0, 0, 1), None], pl.Datetime("ms")) == ([1_000_000, None], None)


def test_a_datetime_with_zone_is_the_instant_it_names() -> None:
    noon = datetime(2024, 7, 1, 12, tzinfo=UTC)
    assert read([noon], pl.Datetime("us", "Europe/Berlin")) == ([instant(noon)], None)


def test_nanoseconds_are_floored_on_both_sides_of_the_epoch() -> None:
    nanos = pl.Series([1_999, -1, -1_000, -1_001, None]).cast(pl.Datetime("ns"))
    assert time_column(nanos.alias("at").to_frame(), "at")[0].to_list() == [1, -1, -1, -2, None]


def test_milliseconds_beyond_64_bits_of_microseconds_are_bad() -> None:
    millis = pl.Series("at", [MAX // 1000, MAX // 1000 + 1, MIN, None]).cast(pl.Datetime("ms"))
    micros, bad = time_column(millis.to_frame(), "at")
    assert micros.to_list() == [MAX // 1000 * 1000, None, None, None]
    assert bad is not None
    assert bad.to_list() == [False, True, True, False]


def test_a_date_is_midnight_utc() -> None:
    assert read([date(1969, 12, 31), None], pl.Date) == ([-86_400_000_000, None], None)


def test_a_date_beyond_64_bits_of_microseconds_is_bad() -> None:
    days = pl.Series("at", [106_751_991, 106_751_992], dtype=pl.Int32).cast(pl.Date)
    micros, bad = time_column(days.to_frame(), "at")
    assert micros.to_list() == [106_751_991 * 86_400_000_000, None]
    assert bad is not None
    assert bad.to_list() == [False, True]


def test_text_is_iso_8601_and_what_is_not_is_bad() -> None:
    text = ["1970-01-01T00:00:01Z", "1970-01-01 01:00:00+01:00", "1970-01-02", "soon", "2024-02-30", None, ""]
    assert read(text, pl.String) == (
        [1_000_000, 0, 86_400_000_000, None, None, None, None],
        [False, False, False, True, True, False, True],
    )


@settings(deadline=None)
@given(
    st.lists(
        st.one_of(
            st.datetimes().map(datetime.isoformat),
            st.datetimes(timezones=st.timezones()).map(datetime.isoformat),
            st.from_regex(r"[0-9]{4}-[01][0-9]-[0-3][0-9][T ][0-2][0-9]:[0-5][0-9](Z|[+-][0-9]{2}:?[0-9]{2})?"),
            st.text(max_size=12),
        ),
        max_size=5,
    )
)
def test_a_column_of_text_is_read_as_each_instant_alone(texts: list[str]) -> None:
    alone: list[int | None] = []
    for text in texts:
        try:
            alone.append(instant(text))
        except PlanError:
            alone.append(None)
    micros, bad = read(texts, pl.String)
    assert micros == alone
    assert (bad or [False] * len(texts)) == [value is None for value in alone]


@pytest.mark.parametrize("dtype", [pl.Int32, pl.UInt32, pl.UInt64])
def test_other_integers_are_microseconds(dtype: Any) -> None:
    assert read([0, 7, None], dtype) == ([0, 7, None], None)


def test_an_unsigned_integer_out_of_range_is_bad() -> None:
    assert read([MAX, MAX + 1], pl.UInt64) == ([MAX, None], [False, True])


def test_floats_are_floored_and_what_is_no_number_is_bad() -> None:
    values = [1.9, -0.5, float("nan"), float("inf"), float("-inf"), 1e19, None]
    assert read(values, pl.Float64) == (
        [1, -1, None, None, None, None, None],
        [False, False, True, True, True, True, False],
    )
    assert read([2.0], pl.Float32) == ([2], None)


def test_a_column_of_nothing_but_null_is_null() -> None:
    assert read([None, None], pl.Null) == ([None, None], None)


@pytest.mark.parametrize(
    "dtype", [pl.Int64, pl.Datetime("ms"), pl.Datetime("ns"), pl.Date, pl.String, pl.UInt64, pl.Float64]
)
def test_an_empty_column_is_read(dtype: Any) -> None:
    assert read([], dtype) == ([], None)


@pytest.mark.parametrize("dtype", [pl.Boolean, pl.Time, pl.Duration("us"), pl.Binary, pl.List(pl.Int64), pl.Int8])
def test_another_type_is_rejected_by_name_with_a_way_out(dtype: Any) -> None:
    with pytest.raises(PlanError, match=r"Column 'at' has type .*cannot be read as event time.*cast") as caught:
        read([], dtype)
    assert str(pl.Series([], dtype=dtype).dtype) in str(caught.value)


def test_a_missing_column_is_rejected_with_a_hint() -> None:
    with pytest.raises(PlanError, match=r"no column 'tiem' .* Did you mean 'time'\?"):
        time_column(pl.DataFrame({"time": [1]}), "tiem")
