"""Producers and code that break their promises: watermarks, sequences, the clock, aggregates."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import polars as pl
import pytest

import eventide as ev
from tests.bad_input.accounting import KINDS, SECOND, check, counted, reasons, stream

each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())


def rows(times: list[int], **columns: Any) -> pl.DataFrame:
    key = columns.pop("k", ["a"] * len(times))
    return pl.DataFrame({"t": pl.Series(times, dtype=pl.Int64), "k": key, **columns})


def test_a_derived_watermark_does_not_go_back() -> None:
    result = check(counted(stream().window(ev.tumbling("10s"))), [rows([50 * SECOND]), rows([1]), rows([60 * SECOND])])
    assert [step.watermark_us for step in result.steps[:3]] == [50 * SECOND, 50 * SECOND, 60 * SECOND]


def test_an_external_watermark_does_not_decrease() -> None:
    query = counted(stream(watermark=ev.no_watermark()).window(ev.tumbling("10s"))).start_local()
    assert query.push(rows([1]), now=0, watermark=50).watermark_us == 50
    assert query.push(rows([1]), now=0, watermark=40).watermark_us == 50


def test_a_declared_watermark_that_decreases_within_a_bundle_stops_the_job() -> None:
    pipeline = counted(stream(watermark=ev.punctuated("safe", origin="k")).window(ev.tumbling("10s")))
    with pytest.raises(ev.DataError) as failure:
        pipeline.local(rows([1, 2], safe=[30 * SECOND, 20 * SECOND]), clock=[0])
    observed = str(failure.value)
    assert "watermark with key 0 went back" in observed and "'a'" in observed
    assert "1970-01-01T00:00:30Z" in observed and "1970-01-01T00:00:20Z" in observed


def test_a_declared_watermark_that_decreases_between_bundles_stops_the_job_and_changes_nothing() -> None:
    query = counted(stream(watermark=ev.punctuated("safe", origin="k")).window(ev.tumbling("10s"))).start_local()
    query.push(rows([1], safe=[30 * SECOND]), now=0)
    with pytest.raises(ev.DataError, match=r"went back on .*'a'.* 1970-01-01T00:00:30Z .* 1970-01-01T00:00:20Z"):
        query.push(rows([2], safe=[20 * SECOND]), now=0)
    assert query.push(rows([31 * SECOND], safe=[40 * SECOND]), now=0).watermark_us == 40 * SECOND


@pytest.mark.parametrize("number", [0, -1, None])
def test_a_sequence_below_one_is_a_bad_row(number: int | None) -> None:
    numbered = stream(watermark=ev.bounded_delay("0s", sequence="seq"))
    result = check(counted(numbered.window(KINDS["tumbling"])), [rows([1, 2], seq=[1, number])])
    assert reasons(result) == ["bad_row"]
    assert "sequence or chunk number" in result.dead["ev_detail"][0]


def test_a_chunk_below_the_first_is_a_bad_row() -> None:
    strategy = ev.bounded_delay("0s", sequence="seq", chunk="chunk", last_chunk="last")
    frame = rows([1, 2], seq=[1, 1], chunk=[1, 0], last=[True, False])
    assert reasons(check(counted(stream(watermark=strategy).window(KINDS["tumbling"])), [frame])) == ["bad_row"]


def test_two_last_chunks_of_one_sequence_stop_the_job() -> None:
    strategy = ev.bounded_delay("0s", origin="k", sequence="seq", chunk="chunk", last_chunk="last")
    frame = rows([1, 2], seq=[1, 1], chunk=[1, 2], last=[True, True])
    with pytest.raises(ev.DataError, match=r"Sequence 1 of .*'a'.* has two last chunks"):
        counted(stream(watermark=strategy).window(KINDS["tumbling"])).local(frame, clock=[0])


def test_a_chunk_that_arrives_again_is_harmless() -> None:
    strategy = ev.bounded_delay("0s", sequence="seq", chunk="chunk", last_chunk="last")
    frame = rows([1], seq=[1], chunk=[1], last=[True])
    result = check(counted(stream(watermark=strategy).window(KINDS["tumbling"])), [frame, frame])
    assert [step.watermark_us for step in result.steps[:2]] == [1, 1]


@each_kind
def test_a_clock_that_goes_back_stops_the_job(kind: Any) -> None:
    query = counted(stream().window(kind)).start_local()
    query.push(rows([1]), now="2024-01-01T00:00:01Z")
    with pytest.raises(ev.DataError, match=r"clock went back from 2024-01-01T00:00:01Z to 2024-01-01T00:00:00Z"):
        query.push(rows([1]), now="2024-01-01T00:00:00Z")
    assert query.push(rows([1]), now="2024-01-01T00:00:01Z").counts.rows == 1


@pytest.mark.parametrize("now", [2**63, -(2**63), 2**62 + 1])
def test_a_clock_beyond_the_range_is_rejected(now: int) -> None:
    with pytest.raises(ev.PlanError, match=r"is no batch time"):
        counted(stream().window(KINDS["tumbling"])).start_local().push(rows([1]), now=now)


class Picky(ev.Aggregate):
    """Raises on values below zero."""

    dtype = pl.Int64()

    def create(self) -> int:
        return 0

    def add(self, state: int, row: dict[str, Any]) -> int:
        if row["v"] < 0:
            raise ValueError(f"{row['v']} is negative")
        return state + int(row["v"])

    def merge(self, first: int, other: int) -> int:
        return first + other


@each_kind
def test_a_row_on_which_an_aggregate_raises_is_a_dead_letter_and_the_rest_counts(kind: Any) -> None:
    bundles = [rows([1, 2, 3], v=[1, -7, 3]), rows([4, 5], v=[-8, 5])]
    result = check(counted(stream().window(kind), total=Picky(), plain=ev.sum("v")), bundles)
    assert reasons(result) == ["failed", "failed"]
    assert result.dead["ev_detail"].to_list() == [f"ValueError: {n} is negative (in Picky.add)" for n in (-7, -8)]
    assert result.panes["total"].sum() == result.panes["plain"].sum() == 9


def test_a_row_that_fails_gets_no_number_where_rows_are_counted() -> None:
    query = counted(stream().window(ev.rows(3)), total=Picky()).start_local()
    assert query.push(rows([1, 2, 3], v=[1, -7, 3]), now=0).panes.height == 0
    assert query.push(rows([4], v=[5]), now=0).panes.select("n", "total").rows() == [(3, 9)]


def test_a_bundle_in_which_every_row_fails_makes_no_window() -> None:
    result = check(counted(stream().window(KINDS["tumbling"]), total=Picky()), [rows([1, 2], v=[-1, -2])])
    assert result.panes.height == 0


def test_an_aggregate_sees_the_users_columns_and_no_others() -> None:
    seen: list[set[str]] = []

    def look(state: int, row: dict[str, Any]) -> int:
        seen.append(set(row))
        return state

    pipeline = counted(stream().window(ev.sessions("1s"), output_time="earliest"), x=ev.fold(0, look))
    pipeline.local(rows([1], v=[1]), clock=[0])
    assert seen and seen[0] == {"t", "k", "v"}


OFTEN = stream().window(ev.tumbling("10s")).trigger(ev.after_watermark(early=ev.on_update()), mode="retracting")


@pytest.mark.parametrize(
    "windowed",
    [*(stream().window(kind) for kind in KINDS.values()), OFTEN, stream().window(ev.sliding("10s", every="5s"))],
    ids=[*KINDS, "often", "sliding"],
)
@pytest.mark.parametrize("bundles", [1, 2])
def test_a_sum_that_overflows_stops_the_job_and_names_column_and_key(windowed: Any, bundles: int) -> None:
    frame = rows([1, 2], v=[2**62, 2**62]) if bundles == 1 else rows([1], v=[2**62])
    with pytest.raises(ev.DataError) as failure:
        counted(windowed, s=ev.sum("v")).local([frame] * bundles, clock=[0] * bundles)
    assert "sum(v) does not fit into Int64 for k='a'. Cast the column" in str(failure.value)


def test_a_sum_that_overflows_without_a_key_names_the_column() -> None:
    pipeline = counted(stream(key=None).window(KINDS["sessions"]), s=ev.sum("v"))
    with pytest.raises(ev.DataError, match=r"sum\(v\) does not fit into Int64\. Cast"):
        pipeline.local([rows([1], v=[2**62])] * 2, clock=[0, 0])


def test_refined_rows_are_those_that_found_a_window_behind_the_watermark() -> None:
    hopping = counted(stream().window(ev.sliding("1s", every="10s", gaps="allowed")).emit(allowed_lateness="1h"))
    query = hopping.start_local()
    query.push(rows([100 * SECOND]), now=0)
    step = query.push(rows([5 * SECOND, 10 * SECOND]), now=0)  # the first is between two windows
    assert (step.counts.dead, step.counts.refined, step.counts.kept) == ({"no_window": 1}, 1, 1)


def inherited(**columns: Any) -> Any:
    pipeline = ev.stream(time="t", watermark=ev.no_watermark()).window(ev.inherit()).agg(n=ev.count())
    return pipeline.local(pl.DataFrame(columns), clock=[0])


def in_time(*bounds: int | None) -> pl.Series:
    return pl.Series(bounds, dtype=pl.Int64).cast(pl.Datetime("us", "UTC"))


def test_windows_counted_in_rows_cannot_be_inherited() -> None:
    with pytest.raises(ev.PlanError, match="cannot take windows counted in rows"):
        inherited(t=[1], window_start=[1], window_end=[3])


def test_inherited_windows_that_end_before_they_begin_are_bad_rows() -> None:
    result = inherited(t=[1, 2, 3], window_start=in_time(0, 10, 10), window_end=in_time(10, 10, 0))
    assert reasons(result) == ["bad_row"] * 2 and result.panes["n"].to_list() == [1]


def test_inherited_bounds_that_are_null_are_none() -> None:
    result = inherited(t=[1, 2], window_start=in_time(0, None), window_end=in_time(10, None))
    assert result.panes["window_end"].to_list()[1:] == [None] and result.panes["n"].to_list() == [1, 1]


def test_a_diff_that_is_none_is_a_bad_row() -> None:
    result = inherited(
        t=[1, 2, 3, 4], window_start=in_time(0, 0, 0, 0), window_end=in_time(10, 10, 10, 10), diff=[1, 0, None, 5]
    )
    assert reasons(result) == ["bad_row"] * 3 and result.panes["n"].to_list() == [1]


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_inherited_windows_are_read_in_any_unit_of_time(unit: Any) -> None:
    start, end = (pl.Series([datetime(1970, 1, 1, 0, 0, second)], dtype=pl.Datetime(unit)) for second in (1, 2))
    result = inherited(t=[1], window_start=start, window_end=end)
    assert result.panes["window_start"].cast(pl.Int64).to_list() == [1_000_000]


def test_rows_without_windows_cannot_inherit_them() -> None:
    with pytest.raises(ev.PlanError, match=r"inherit.. needs the panes of another pipeline"):
        inherited(t=[1])
