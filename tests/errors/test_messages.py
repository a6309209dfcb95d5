"""What errors say: the user's values, the user's lines, the input that is meant; never internals."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import eventide as ev

INTERNALS = re.compile(r"<eventide|<function|0x[0-9a-f]{6}|\b[A-Z]\w+\(\w+=|\b_\w+=")
STREAM = ev.stream(time="ts", key="shop", watermark=ev.bounded_delay("1 minute"))
WINDOWED = STREAM.window(ev.tumbling("1 minute"))
MISTAKES: dict[str, Callable[[], Any]] = {
    "a strategy as a window": lambda: STREAM.window(ev.bounded_delay("1 minute")),
    "a stream as a window": lambda: STREAM.window(STREAM),
    "a window as a watermark": lambda: ev.stream(time="ts", watermark=ev.tumbling("1 minute")),  # type: ignore[arg-type]
    "a window as a trigger": lambda: WINDOWED.trigger(ev.tumbling("1 minute")),  # type: ignore[arg-type]
    "a pipeline as an aggregate": lambda: WINDOWED.agg(n=WINDOWED.agg(n=ev.count())),  # type: ignore[arg-type]
    "a trigger as an aggregate": lambda: WINDOWED.agg(n=ev.after_watermark()),  # type: ignore[arg-type]
    "a window as a time": lambda: ev.stream(time=ev.tumbling("1 minute")),  # type: ignore[arg-type]
    "a watermark as a key": lambda: ev.stream(time="ts", key=ev.bounded_delay("1 minute")),  # type: ignore[arg-type]
    "a window as a duration": lambda: ev.tumbling(ev.tumbling("1 minute")),  # type: ignore[arg-type]
    "a pipeline as a side": lambda: ev.join(STREAM, WINDOWED.agg(n=ev.count()), within="1 minute"),  # type: ignore[arg-type]
    "a session as a count": lambda: ev.join(STREAM, STREAM, last=ev.sessions("1 minute")),  # type: ignore[arg-type]
    "a window as within": lambda: ev.join(STREAM, STREAM, within=ev.tumbling("1 minute")),  # type: ignore[arg-type]
    "a stream as a processor": lambda: STREAM.process(STREAM, output={"shop": pl.String}),  # type: ignore[arg-type]
    "a lambda as a processor": lambda: STREAM.process(lambda rows: rows, output={"shop": pl.String}),  # type: ignore[arg-type]
    "a window as output": lambda: STREAM.process(Failing(), output=ev.tumbling("1 minute")),  # type: ignore[arg-type]
    "an aggregate as a sink": lambda: ev.sinks.as_sink(ev.sum("price")),
    "a window as a limit": lambda: WINDOWED.limit_state(rows=ev.tumbling("1 minute")),  # type: ignore[arg-type]
}


class Failing(ev.Processor):
    """Divides by a price."""

    def process(self, edge: str, rows: pl.DataFrame) -> None:
        for row in rows.iter_rows(named=True):
            1 // row["price"]  # the line that fails


class Emitting(ev.Processor):
    """Emits a column that it has not declared."""

    def process(self, edge: str, rows: pl.DataFrame) -> None:
        self.emit(rows.select("shop", "price"))  # the line that emits


class FailingRows(ev.RowProcessor):
    """Divides by a price, in a function."""

    def process_row(self, edge: str, row: dict[str, Any], state: dict[str, Any]) -> Any:
        yield {"shop": divided(row["price"])}


def divided(price: int) -> str:
    return str(1 // price)  # the line that divides


def line_of(comment: str) -> int:
    text = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(text, 1) if line.endswith(f"# {comment}"))


ROWS = pl.DataFrame({"ts": [1, 2], "shop": ["kiel", "ulm"], "price": [5, 0]})


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=list(MISTAKES))
def test_a_message_shows_no_internals(mistake: Callable[[], Any]) -> None:
    with pytest.raises(ev.PlanError) as raised:
        mistake()
    assert not INTERNALS.search(str(raised.value)), raised.value


def test_an_error_in_a_processor_names_class_method_file_and_line() -> None:
    line = line_of("the line that fails")
    with pytest.raises(ev.DataError, match=rf"Failing\.process failed at test_messages\.py, line {line}: ZeroDivision"):
        STREAM.process(Failing(), output={"shop": pl.String}).local(ROWS)


def test_a_wrong_call_in_a_processor_names_the_line_that_made_it() -> None:
    line = line_of("the line that emits")
    with pytest.raises(ev.DataError, match=rf"\(in Emitting\.process at test_messages\.py, line {line}\)"):
        STREAM.process(Emitting(), output={"shop": pl.String}).local(ROWS)


def test_an_error_in_a_row_processor_names_the_innermost_line_of_the_users_file() -> None:
    pipeline, line = STREAM.process(FailingRows(), output={"shop": pl.String}), line_of("the line that divides")
    with pytest.raises(ev.DataError, match=rf"FailingRows\.process_row failed at test_messages\.py, line {line}: Zero"):
        pipeline.local(ROWS)


def test_a_dead_letter_of_a_processor_names_the_line() -> None:
    pipeline = STREAM.process(FailingRows(), output={"shop": pl.String}, on_error="dead")
    (detail,) = pipeline.local(ROWS).dead["ev_detail"]
    assert detail.endswith(f"(in FailingRows.process_row, line {line_of('the line that divides')})")


JOINED = ev.join(STREAM, STREAM, within="1 minute")


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_join_names_the_side_that_lacks_a_column(side: str) -> None:
    rows = dict.fromkeys(("left", "right"), ROWS) | {side: ROWS.drop("ts")}
    with pytest.raises(ev.PlanError, match=f"input '{side}': .*'ts'"):
        JOINED.local(rows)


def test_a_join_names_the_side_whose_watermark_goes_back() -> None:
    marked = ev.stream(time="ts", key="shop", watermark=ev.punctuated("mark"))
    query = ev.join(STREAM, marked, within="1 minute").start_local()
    rows = pl.DataFrame({"ts": [1], "shop": ["kiel"], "price": [1], "mark": [5]})
    query.push({"left": ROWS, "right": rows})
    with pytest.raises(ev.DataError, match="input 'right': "):
        query.push({"left": ROWS, "right": rows.with_columns(mark=pl.lit(2, pl.Int64))})


def test_a_join_names_the_side_that_is_no_stream() -> None:
    with pytest.raises(ev.PlanError, match="join: the input 'right' is 5, not a stream"):
        ev.join(STREAM, 5, within="1 minute")  # type: ignore[arg-type]
