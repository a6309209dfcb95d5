"""Times that are missing, unreadable, too far ahead or beyond what can be held."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import polars as pl
import pytest

import eventide as ev
from tests.bad_input.accounting import KINDS, SECOND, check, counted, reasons, stream

each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
TWO = {name: KINDS[name] for name in ("tumbling", "cut sessions")}  # times are read before windows matter
two_kinds = pytest.mark.parametrize("kind", TWO.values(), ids=TWO.keys())


def rows(times: list[Any], dtype: pl.DataType | type[pl.DataType] = pl.Int64, key: str = "a") -> pl.DataFrame:
    return pl.DataFrame({"t": pl.Series(times, dtype=dtype), "k": pl.Series([key] * len(times), dtype=pl.String)})


@each_kind
def test_a_row_without_a_time_is_a_dead_letter(kind: Any) -> None:
    result = check(counted(stream().window(kind)), [rows([1, None, 2])])
    assert reasons(result) == ["null_time"]
    assert result.dead["ev_detail"].to_list() == ["the time 't' is null"]


@each_kind
def test_rows_without_any_time_make_no_window(kind: Any) -> None:
    result = check(counted(stream().window(kind)), [rows([None, None])])
    assert result.panes.height == 0


def test_a_column_of_nulls_has_no_times() -> None:
    result = check(counted(stream().window(KINDS["tumbling"])), [rows([None, None], pl.Null)])
    assert reasons(result) == ["null_time", "null_time"]


@two_kinds
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), 1e300])
def test_a_time_that_is_no_number_is_a_bad_row(kind: Any, value: float) -> None:
    result = check(counted(stream().window(kind)), [rows([1.0, value, None], pl.Float64)])
    assert sorted(reasons(result)) == ["bad_row", "null_time"]


@two_kinds
@pytest.mark.parametrize("text", ["yesterday", "", "2024-02-30", "12:00", "1715000000", "2024-01-01T25:00:00Z"])
def test_a_time_that_cannot_be_read_is_a_bad_row(kind: Any, text: str) -> None:
    result = check(counted(stream().window(kind)), [rows(["1970-01-01T00:00:00Z", text], pl.String)])
    assert reasons(result) == ["bad_row"]
    assert result.dead["t"].to_list() == [text]


@two_kinds
@pytest.mark.parametrize("time", [2**62 + 1, -(2**62) - 1, 2**63 - 1, -(2**63)])
def test_a_time_beyond_the_range_is_a_bad_row(kind: Any, time: int) -> None:
    result = check(counted(stream().window(kind)), [rows([1, time, 2])])
    assert reasons(result) == ["bad_row"]


@each_kind
@pytest.mark.parametrize("time", [2**62, -(2**62), 0, -1])
def test_a_time_at_the_ends_of_the_range_is_good(kind: Any, time: int) -> None:
    result = check(counted(stream(watermark=ev.no_watermark()).window(kind)), [rows([time])])
    assert result.dead.height == 0 and result.panes.height == 1


@pytest.mark.parametrize("kind", [ev.sliding("10s", every="3s"), ev.cumulate("1s", "10s"), ev.calendar("month")])
@pytest.mark.parametrize("time", [2**62, -(2**62)])
def test_windows_at_the_ends_of_the_range_hold_their_rows(kind: ev.WindowKind, time: int) -> None:
    unguarded = stream(watermark=ev.bounded_delay("0s", max_future_skew=None))
    panes = unguarded.window(kind).agg(n=ev.count()).local(rows([time]), clock=[0]).panes
    start, end = (panes[name].cast(pl.Int64) for name in ("window_start", "window_end"))
    assert panes.height and (start <= time).all() and (time < end).all()


@each_kind
def test_a_row_beyond_the_range_moves_no_watermark(kind: Any) -> None:
    result = check(counted(stream().window(kind)), [rows([1, 2**62 + 1]), rows([2])])
    assert result.late.height == 0


@each_kind
def test_a_row_too_far_ahead_is_a_dead_letter_and_moves_no_watermark(kind: Any) -> None:
    guarded = stream(watermark=ev.bounded_delay("0s", max_future_skew="1m"))
    result = check(counted(guarded.window(kind)), [rows([0, 60 * SECOND, 60 * SECOND + 1])])
    assert reasons(result) == ["future"]
    assert result.dead["ev_detail"].to_list() == ["more than 1m ahead of the batch's time 1970-01-01T00:00:00Z"]
    assert result.steps[0].watermark_us == 60 * SECOND


@each_kind
def test_a_row_more_than_a_day_ahead_is_a_dead_letter_by_default(kind: Any) -> None:
    day = 86_400 * SECOND
    result = check(counted(stream().window(kind)), [rows([0, day, day + 1])])
    assert result.dead["ev_detail"].to_list() == ["more than 1d ahead of the batch's time 1970-01-01T00:00:00Z"]
    assert reasons(result) == ["future"] and result.steps[0].watermark_us == day


@each_kind
def test_only_late_rows_make_no_pane(kind: Any) -> None:
    bundles = [rows([1000 * SECOND]), rows([1, 2], key="b")]
    result = check(counted(stream().window(kind)), bundles)
    if kind.axis == "rows" or kind == ev.global_window():
        assert result.late.height == 0
    else:
        assert result.late["ev_event_time"].cast(pl.Int64).to_list() == [1, 2]
        assert result.late["ev_watermark"].cast(pl.Int64).to_list() == [1000 * SECOND] * 2
        assert result.steps[1].panes.height == 0


@each_kind
def test_an_empty_bundle_gives_nothing(kind: Any) -> None:
    result = check(counted(stream().window(kind)), [rows([1]), rows([])])
    assert result.steps[1].panes.height == 0


@each_kind
def test_the_first_bundle_may_be_empty(kind: Any) -> None:
    result = check(counted(stream().window(kind), total=ev.sum("v")), [rows([]).with_columns(v=pl.lit(0))] * 2)
    assert result.panes.height == 0
    more = check(counted(stream().window(kind)), [rows([]), rows([1])])
    assert more.panes["n"].to_list() == [1]


def test_every_way_to_write_a_time_means_the_same() -> None:
    moment = datetime(1970, 1, 2)
    ways = {
        pl.Datetime("us"): moment,
        pl.Datetime("ms"): moment,
        pl.Datetime("ns"): moment,
        pl.Date: date(1970, 1, 2),
        pl.String: "1970-01-02T02:00:00+02:00",
    }
    for dtype, value in ways.items():
        panes = check(counted(stream().window(KINDS["tumbling"])), [rows([value], dtype)]).panes
        assert panes["window_start"].dt.replace_time_zone(None).to_list() == [moment], dtype


@pytest.mark.parametrize("dtype", [pl.Boolean, pl.List(pl.Int64), pl.Duration("us"), pl.Binary, pl.Int8])
def test_a_column_that_cannot_hold_times_is_rejected(dtype: Any) -> None:
    pipeline = counted(stream().window(KINDS["tumbling"]))
    with pytest.raises(ev.PlanError, match=r"Column 't' has type .* cannot be read as event time"):
        pipeline.start_local({"t": dtype, "k": pl.String})


def test_a_time_inside_a_struct_is_read_by_its_dotted_name() -> None:
    frame = pl.DataFrame({"meta": [{"at": 1}, {"at": None}]})
    result = ev.stream(time="meta.at").window(ev.tumbling("1s")).agg(n=ev.count()).local(frame, clock=[0])
    assert result.panes["n"].to_list() == [1] and reasons(result) == ["null_time"]


@pytest.mark.parametrize("name", ["meta.ta", "mate.at", "plain.at"])
def test_a_dotted_name_that_leads_nowhere_is_rejected(name: str) -> None:
    frame = pl.DataFrame({"meta": [{"at": 1}], "plain": [1]})
    with pytest.raises(ev.PlanError, match=f"no column '{name}'"):
        ev.stream(time=name).window(ev.tumbling("1s")).agg(n=ev.count()).local(frame, clock=[0])


@pytest.mark.parametrize("gap", [None, 0, -5, 2**61 + 1, 2**63 - 1])
def test_a_gap_that_is_none_is_a_bad_row(gap: int | None) -> None:
    frame = rows([1, 2]).with_columns(gap=pl.Series([5, gap], dtype=pl.Int64))
    result = check(counted(stream().window(ev.sessions("gap"))), [frame])
    assert reasons(result) == ["bad_row"] and "gap" in result.dead["ev_detail"][0]


def test_a_gap_column_that_is_missing_or_of_no_use_is_rejected() -> None:
    pipeline = counted(stream().window(ev.sessions("gap")))
    with pytest.raises(ev.PlanError, match=r"there is no column 'gap' for the gap. Did you mean 'gape'"):
        pipeline.local(rows([1]).with_columns(gape=pl.lit(1)), clock=[0])
    with pytest.raises(ev.PlanError, match=r"the gap column 'gap' is String"):
        pipeline.local(rows([1]).with_columns(gap=pl.lit("1m")), clock=[0])


def test_a_row_on_which_a_function_raises_is_not_late_as_well() -> None:
    def add(total: int, value: int) -> int:
        if value < 0:
            raise ValueError("no")
        return total + value

    total = ev.fold(0, add, column="v", merge=lambda first, other: first + other, dtype=pl.Int64())
    sessions = ev.stream(time="t", key="k", watermark=ev.ascending()).window(ev.sessions("10 seconds")).agg(n=total)
    rows = [
        pl.DataFrame({"t": [100_000_000], "k": [1], "v": [1]}),
        pl.DataFrame({"t": [10_000_000, 11_000_000], "k": [1, 1], "v": [1, -1]}),
    ]
    counts = sessions.local(rows).metrics
    assert (counts.late, counts.dead, counts.balanced) == (1, {"failed": 1}, True)
