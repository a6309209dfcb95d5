"""Columns that are missing, doubled, of the wrong type, change, or have a name that is Eventide's own."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import eventide as ev
from tests.bad_input.accounting import KINDS, check, counted, reasons, stream

FRAME = pl.DataFrame({"t": [1, 2], "k": ["a", "b"], "v": [1, 2]})


def pipeline(**aggregates: ev.Aggregate) -> ev.Pipeline:
    return counted(stream().window(KINDS["tumbling"]), **aggregates)


def test_a_time_column_that_is_missing_is_rejected_with_a_hint() -> None:
    with pytest.raises(ev.PlanError, match=r"time: there is no column 't' in the rows. Did you mean 'ts'"):
        pipeline().local(FRAME.rename({"t": "ts"}), clock=[0])


def test_an_aggregates_column_that_is_missing_is_rejected_with_a_hint() -> None:
    with pytest.raises(ev.PlanError, match=r"sum\(vv\): there is no column 'vv'. Did you mean 'v'"):
        pipeline(s=ev.sum("vv")).local(FRAME, clock=[0])


def test_a_watermarks_column_that_is_missing_is_rejected_with_a_hint() -> None:
    guarded = counted(stream(watermark=ev.bounded_delay("1s", origin="kk")).window(KINDS["tumbling"]))
    with pytest.raises(ev.PlanError, match=r"no column 'kk' for origin. Did you mean 'k'"):
        guarded.local(FRAME, clock=[0])


def test_an_aggregate_of_the_wrong_type_is_rejected() -> None:
    with pytest.raises(ev.PlanError, match=r"column 'k' is String, but sum needs numbers"):
        pipeline(s=ev.sum("k")).local(FRAME, clock=[0])


@pytest.mark.parametrize("make", [pa.table, pa.RecordBatch.from_pydict])
def test_columns_with_one_name_are_rejected(make: Any) -> None:
    table = make({"t": [1], "k": ["a"], "v": [1]})
    double = type(table).from_arrays([*table.columns, table.columns[2]], names=["t", "k", "v", "v"])
    with pytest.raises(ev.PlanError, match=r"more than one column named 'v'. Rename or drop one"):
        pipeline().local(double, clock=[0])


@pytest.mark.parametrize("name", ["__time", "__x", "__slice", "__eventide_group", "__"])
def test_names_with_two_underscores_are_rejected(name: str) -> None:
    with pytest.raises(ev.PlanError, match=f"The column '{name}' begins with two underscores"):
        pipeline().local(FRAME.with_columns(pl.lit(1).alias(name)), clock=[0])


OURS = [
    "window",
    "pane",
    "diff",
    "reason",
    "detail",
    "watermark",
    "at",
    "event_time",
    "emitted_at",
    "window_start",
    "window_end",
    "window_time",
    "pane_timing",
    "pane_index",
    "ev_type",
]


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
def test_a_users_columns_may_have_the_names_of_our_outputs(kind: Any) -> None:
    extra = {name: pl.lit(f"my {name}") for name in OURS}
    frame = pl.DataFrame({"t": [1000_000_000, None], "k": ["a", "a"]}).with_columns(**extra)
    late = frame.head(1).with_columns(t=pl.lit(1, pl.Int64), k=pl.lit("b"))
    result = check(counted(stream().window(kind)), [frame, late])
    for name in OURS:
        assert result.dead[name].to_list() == [f"my {name}"]
        assert set(result.late[name]) <= {f"my {name}"}
    assert reasons(result) == ["null_time"]
    assert {"ev_event_time", "ev_watermark", "ev_emitted_at"} <= set(result.late.columns)


@pytest.mark.parametrize("name", ["ev_reason", "ev_detail", "ev_watermark", "ev_event_time", "EV_Emitted_At"])
def test_a_column_that_late_rows_get_from_eventide_is_rejected(name: str) -> None:
    with pytest.raises(ev.PlanError, match=rf"{name!r}.*rows\.drop\({name!r}\)"):
        pipeline().local(FRAME.with_columns(pl.lit(1).alias(name)), clock=[0])


def test_late_rows_are_read_again_without_the_columns_that_eventide_added() -> None:
    dead = check(pipeline(), [FRAME.with_columns(t=pl.lit(None, pl.Int64))]).dead
    corrected = dead.with_columns(t=pl.lit(1, pl.Int64))
    with pytest.raises(ev.PlanError, match="To process such rows again, drop the columns"):
        pipeline().local(corrected, clock=[0])
    assert check(pipeline(), [corrected.select(pl.exclude("^ev_.*$"))]).panes["n"].sum() == FRAME.height


def test_rows_keep_their_columns_in_late_rows_and_dead_letters() -> None:
    result = check(pipeline(), [FRAME.with_columns(t=pl.lit(None, pl.Int64))])
    assert result.dead.select("t", "k", "v").rows() == [(None, "a", 1), (None, "b", 2)]


CHANGES = {
    "another column": FRAME.with_columns(w=pl.lit(1)),
    "one column less": FRAME.drop("v"),
    "another type": FRAME.with_columns(pl.col("v").cast(pl.Float64)),
    "another unit of time": FRAME.with_columns(pl.col("t").cast(pl.Datetime("ms"))),
}


@pytest.mark.parametrize("other", CHANGES.values(), ids=CHANGES.keys())
def test_a_bundle_with_another_schema_stops_the_query(other: pl.DataFrame) -> None:
    query = pipeline().start_local()
    query.push(FRAME, now=0)
    with pytest.raises(ev.DataError, match=r"but the query began with"):
        query.push(other, now=1)


def test_a_query_that_rejected_a_bundle_continues_as_if_it_had_not_arrived() -> None:
    query = pipeline().start_local()
    query.push(FRAME, now=0)
    with pytest.raises(ev.DataError):
        query.push(CHANGES["another type"], now=1)
    query.push(FRAME, now=1)
    assert query.drain().panes["n"].to_list() == [2, 2]
    assert query.result.metrics.rows == 4


def test_columns_may_change_their_order() -> None:
    result = check(pipeline(s=ev.sum("v")), [FRAME, FRAME.select("v", "k", "t")])
    assert result.panes.select("n", "s").rows() == [(2, 2), (2, 4)]


ARROW = {
    "map": pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int64())),
    "decimal of 38 digits": pa.array([Decimal("1.5"), None], pa.decimal128(38, 18)),
    "dictionary": pa.array(["a", "b"]).dictionary_encode(),
    "null": pa.nulls(2),
    "fixed binary": pa.array([b"ab", b"cd"], pa.binary(2)),
    "second timestamps": pa.array([0, 1], pa.timestamp("s", "Europe/Berlin")),
    "half": pa.array([1.0, 2.0], pa.float16()),
    "seconds of duration": pa.array([1, 2], pa.duration("s")),
    "view": pa.array(["a", "b"], pa.string_view()),
    "empty struct": pa.array([{}, {}], pa.struct([])),
    "nested": pa.array([[{"a": [1]}], None]),
}


@pytest.mark.parametrize("column", ARROW.values(), ids=ARROW.keys())
def test_columns_that_are_not_read_stay_with_their_rows(column: pa.Array) -> None:
    table = pa.table({"t": pa.array([1, None], pa.int64()), "k": ["a", "b"], "x": column})
    result = pipeline().local(table, clock=[0])
    assert result.dead["x"].to_list() == pl.Series(column).to_list()[1:]
    assert result.panes["n"].to_list() == [1]


UNREADABLE = {
    "interval": pa.array([pa.MonthDayNano([1, 2, 3])]),
    "decimal of 76 digits": pa.array([Decimal("1.5")], pa.decimal256(50, 2)),
    "inside a list": pa.array([[Decimal("1.5")]], pa.list_(pa.decimal256(50, 2))),
    "union": pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])]),
}


@pytest.mark.parametrize("column", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_a_type_that_cannot_be_read_is_rejected_by_name(column: pa.Array) -> None:
    with pytest.raises(ev.PlanError, match=r"The column 'x' is .*, which cannot be read. Drop it, or cast it"):
        pipeline().local(pa.table({"t": [1], "k": ["a"], "x": column}), clock=[0])


def test_an_arrow_table_in_chunks_or_without_rows_is_a_bundle_like_any_other() -> None:
    table = FRAME.to_arrow()
    result = pipeline().local([table.slice(0, 0), pa.concat_tables([table, table])], clock=[0, 0])
    assert result.panes["n"].to_list() == [2, 2]


NO_ROWS: list[Any] = [5, {"t": [1]}, [{"t": 1}], FRAME.lazy(), [FRAME.lazy()], [[1, 2]], FRAME["t"]]


@pytest.mark.parametrize("value", NO_ROWS, ids=lambda value: type(value).__name__)
def test_what_is_no_frame_is_rejected(value: Any) -> None:
    with pytest.raises(ev.PlanError, match=r"rows must be a Polars or Arrow frame"):
        pipeline().local(value, clock=[0])


def test_a_text_is_the_address_of_files() -> None:
    with pytest.raises(ev.PlanError, match=r"The source 'rows': there is no kind 'rows'"):
        pipeline().local("rows", clock=[0])


def test_a_column_that_does_not_exist_is_answered_with_those_that_the_user_has() -> None:
    pipeline = ev.stream(time="ts").window(ev.tumbling("1 minute")).agg(n=ev.sum("nope"))
    with pytest.raises(ev.PlanError, match=r"There are: 'ts', 'p'\.$"):
        pipeline.local(pl.DataFrame({"ts": [0], "p": [1]}))
