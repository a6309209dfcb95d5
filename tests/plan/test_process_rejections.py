"""Processors and calls that cannot work are rejected when they are built, or with the first rows."""

from __future__ import annotations

import threading
from typing import Any, ClassVar

import polars as pl
import pytest

import eventide as ev
from tests.processors.cases import TOTALS, RunningTotal, rows, totals

STREAM = ev.stream(time="t", key="k")


class Lock(RunningTotal):
    def __init__(self) -> None:
        self.lock = threading.Lock()


class Keyed(RunningTotal):
    state_schema: ClassVar = {"k": pl.String}


class Nameless(ev.Processor):
    pass


class Listed(RunningTotal):
    state_schema: ClassVar[Any] = ["total"]


class NoRow(ev.RowProcessor):
    pass


@pytest.mark.parametrize(
    ("processor", "options", "message"),
    [
        (RunningTotal, {}, r"pass a processor, not its class: RunningTotal\(…\)"),
        (print, {}, "is not a processor. Derive a class from ev.Processor"),
        (Nameless(), {}, "Nameless has no method process"),
        (NoRow(), {}, "NoRow has no method process_row"),
        (RunningTotal(), {"output": None}, r"declare the columns of the results: output="),
        (RunningTotal(), {"output": ["k"]}, "name the columns and their types"),
        (RunningTotal(), {"output": {}}, "name the columns and their types"),
        (RunningTotal(), {"output": {"k": "text"}}, "name the columns and their types"),
        (RunningTotal(), {"output": {"__k": pl.String}}, "begins with two underscores"),
        (RunningTotal(), {"late": "drop"}, r"late='drop'\): There are: 'process', 'divert'"),
        (RunningTotal(), {"on_error": "deed"}, "Did you mean 'dead'"),
        (RunningTotal(), {"on_error": "dead"}, "so the row that failed is not known. Derive it from ev.RowProcessor"),
        (Keyed(), {}, "'k' is a key column, which state always has"),
        (Listed(), {}, "Listed.state_schema=.'total'.: name the columns"),
        (Lock(), {}, r"cannot be copied, .* Create connections and locks in open\(\)"),
    ],
)
def test_a_processor_that_cannot_work_is_rejected(processor: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ev.PlanError, match=message):
        STREAM.process(processor, **{"output": TOTALS} | options)


def test_without_output_a_processor_is_rejected() -> None:
    with pytest.raises(ev.PlanError, match=r"\.process\(\) needs output="):
        STREAM.process(RunningTotal())  # type: ignore[call-arg]


def test_a_processor_has_no_windows() -> None:
    with pytest.raises(AttributeError, match=r"\.process\(…\) of the stream, before \.window"):
        STREAM.window(ev.tumbling("1m")).process(RunningTotal(), output=TOTALS)  # type: ignore[attr-defined]


def test_a_key_with_the_name_of_a_column_of_timers_is_rejected() -> None:
    with pytest.raises(ev.PlanError, match="key: 'at' is a column of timers"):
        ev.stream(time="t", key="at").process(RunningTotal(), output=TOTALS)


def test_a_column_that_the_rows_do_not_have_is_rejected() -> None:
    with pytest.raises(ev.PlanError, match="key: there is no column 'k'"):
        totals().start_local({"t": pl.Int64})


def doing(what: Any) -> ev.Processor:
    class Doing(ev.Processor):
        state_schema: ClassVar = {"total": pl.Int64}

        def process(self, edge: str, rows: pl.DataFrame) -> None:
            what(self, rows)

    return Doing()


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (lambda self, rows: self.emit(rows.select("k")), r"emit\(\) needs the column 'total'"),
        (lambda self, rows: self.emit(rows.select("k", "v", total="v")), "has a column 'v' that output= does not name"),
        (lambda self, rows: self.emit(rows.select("k", total="k")), "'total' is String, but Int64 was declared"),
        (lambda self, rows: self.emit(rows.select("k", total=pl.lit(2**63, pl.UInt64))), "but Int64 was declared"),
        (lambda self, rows: self.emit(rows.select("k", total=pl.col("v") * 1.5)), "is Float64, but Int64"),
        (lambda self, rows: self.emit({"k": "a"}), r"emit\(\) takes a Polars frame, not dict"),
        (lambda self, rows: self.state.put(rows.select("k")), r"state.put\(\) needs the column 'total'"),
        (lambda self, rows: self.state.get(rows.select("v")), r"state.get\(\) needs the column 'k'"),
        (lambda self, rows: self.state.remove(rows.select(k=1)), "the column 'k' is Int32, but String"),
        (lambda self, rows: self.timers.set(rows), r"timers.set\(\) needs the column 'at'"),
        (lambda self, rows: self.timers.set(rows.with_columns(at=None)), "a time that is null or cannot be read"),
        (lambda self, rows: self.timers.set(rows.with_columns(at=pl.lit("soon")), name="x"), "timer 'x' was set to"),
        (lambda self, rows: self.timers.set(rows.with_columns(at=2**62 + 1)), "a time that is null or cannot be read"),
        (lambda self, rows: self.timers.set(rows.with_columns(at=1), clock=True), "Set `clock = True` in the class"),
        (
            lambda self, rows: 1 // 0,
            r"Doing.process failed at .*, line \d+: ZeroDivisionError: .* first row .* was .*'k': 'a'",
        ),
        (lambda self, rows: rows["x"], r"Doing.process failed at .*, line \d+: ColumnNotFoundError"),
    ],
)
def test_an_error_of_a_processor_is_reported(what: Any, message: str) -> None:
    with pytest.raises(ev.DataError, match=message):
        STREAM.process(doing(what), output=TOTALS).local(rows((1, "a", 5)), clock=[0])


def test_narrow_numbers_are_taken() -> None:
    narrow = doing(lambda self, rows: self.emit(rows.select("k", total=pl.col("v").cast(pl.Int8))))
    result = STREAM.process(narrow, output=TOTALS).local(rows((1, "a", 5)), clock=[0])
    assert result.panes.schema == TOTALS


@pytest.mark.parametrize("method", ["open", "on_edge_watermark", "on_watermark"])
def test_an_error_names_the_method(method: str) -> None:
    def fails(self: Any, *processor: Any) -> None:
        raise RuntimeError("no")

    kind = type("Fails", (RunningTotal,), {method: fails})
    stream = ev.stream(time="t", key="k", watermark=ev.ascending())
    with pytest.raises(ev.DataError, match=rf"Fails\.{method} failed at .*, line \d+: RuntimeError: no"):
        stream.process(kind(), output=TOTALS).local(rows((1, "a", 1)), clock=[0])


def test_what_is_returned_for_a_watermark_must_be_watermarks() -> None:
    class Odd(RunningTotal):
        def on_watermark(self, watermark: ev.Watermark) -> Any:
            return watermark.time

    with pytest.raises(ev.DataError, match=r"Odd.on_watermark returned .*\. Return the watermarks to send on"):
        STREAM.process(Odd(), output=TOTALS).local(rows((1, "a", 1)), clock=[0])


async def fine(row: dict[str, Any]) -> dict[str, Any]:
    return {"n": 1}


@pytest.mark.parametrize(
    ("fn", "options", "message"),
    [
        (len, {}, "pass a function that is defined with `async def`"),
        (5, {}, "pass a function that is defined with `async def`"),
        (fine, {"output": None}, "declare the columns of the results"),
        (fine, {"capacity": 0}, "capacity=0 must be an integer of at least 1"),
        (fine, {"retries": -1}, "retries=-1 must be"),
        (fine, {"timeout": "soon"}, r"timeout of map_async\(\)"),
    ],
)
def test_calls_that_cannot_work_are_rejected(fn: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ev.PlanError, match=message):
        STREAM.map_async(fn, **{"output": {"n": pl.Int64}} | options)


def test_calls_come_before_windows() -> None:
    with pytest.raises(AttributeError, match=r"\.map_async\(…\) of the stream, before \.window"):
        STREAM.window(ev.tumbling("1m")).map_async(fine, output={"n": pl.Int64})  # type: ignore[attr-defined]


def test_a_call_does_not_change_the_type_of_a_column() -> None:
    pipeline = STREAM.map_async(fine, output={"v": pl.String}).window(ev.tumbling("1m")).agg(n=ev.count())
    with pytest.raises(ev.PlanError, match="the rows have a column 'v' of type Int64, but output= declares String"):
        pipeline.start_local(rows().schema)


def test_a_column_that_neither_rows_nor_calls_have_is_rejected() -> None:
    stream = ev.stream(time="t", key="country").map_async(fine, output={"contry": pl.String})
    with pytest.raises(ev.PlanError, match=r"key: there is no column 'country' in the rows. Did you mean 'contry'"):
        stream.window(ev.tumbling("1m")).agg(n=ev.count()).start_local(rows().schema)
