"""How values show themselves: one short line in a terminal, a table in a notebook."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import eventide as ev
from eventide.marks import Controller, Reader, Writer
from eventide.marks.stores.memory import MemoryStore
from eventide.marks.stores.store import Config
from eventide.marks.streams import Stream
from eventide.metrics import Metrics
from eventide.standalone import WindowAggregator
from eventide.testing import TestStream, pane
from eventide.time import MAX, MIN, as_datetime, known_datetime

STREAM = ev.stream(time="ts", key="shop", watermark="30 seconds")
TOTALS = STREAM.window(ev.tumbling("1 minute")).emit(allowed_lateness="1 hour").agg(n=ev.count(), total=ev.sum("price"))
ROWS = pl.DataFrame({"ts": ["2026-03-01T12:00:05Z", "2026-03-01T12:00:40Z", None], "shop": "kiel", "price": [5, 7, 1]})
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)

VALUES: dict[str, Any] = {
    "stream": STREAM,
    "windowed stream": STREAM.window(ev.tumbling("1 minute")),
    "pipeline": TOTALS,
    "plan": TOTALS.plan,
    "plan of a join": ev.join(STREAM, STREAM, within="5 minutes").plan,
    "join": ev.join(STREAM, STREAM, within="5 minutes"),
    "window join": ev.window_join(STREAM, STREAM, window=ev.tumbling("1 minute")),
    "window": ev.sliding("10 minutes", every="1 minute"),
    "calendar": ev.calendar("day", tz="Europe/Berlin"),
    "trigger": ev.after_watermark(early=ev.every("10 seconds"), late=ev.on_update()),
    "watermark": ev.bounded_delay("30 seconds", origin="till", idle_timeout="1 minute"),
    "aggregate": ev.sum("price"),
    "reduce": ev.reduce(max, "price"),
    "fold": ev.fold(0, lambda total, row: total + row["price"]),
    "fold that merges": ev.fold(0, lambda total, row: total + 1, merge=lambda first, second: first + second),
    "quantile": ev.quantile("price", 0.95),
    "result": TOTALS.local(ROWS, clock=[NOON]),
    "step": TOTALS.local(ROWS, clock=[NOON]).steps[0],
    "metrics": TOTALS.local(ROWS, clock=[NOON]).metrics,
    "batch": ev.BatchMetrics(batch=7, depth=0, at=NOON, watermark=NOON, rows=10, kept=10, panes={"ON_TIME": 2}),
    "query": TOTALS.start_local(ROWS.schema),
    "test": TestStream(TOTALS),
    "expected pane": pane(shop="kiel", window=("12:00", "12:01"), n=2),
    "sink": ev.sinks.table("sqlite:///shop.db", name="revenue"),
    "standalone": WindowAggregator(ev.tumbling("1 minute"), {"n": ev.count()}, time="ts", offset="n"),
}


class Longest(ev.Aggregate):
    """An aggregate of a user."""

    dtype = pl.String()


MINUTES = STREAM.window(ev.tumbling("1 minute"))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (ev.count(), "<count()>"),
        (ev.sum("price"), "<sum(price)>"),
        (ev.quantile("price", 0.95), "<quantile(price, 0.95)>"),
        (ev.sum("price", where="paid"), "<sum(price where paid)>"),
        (ev.composite(n=ev.count(), total=ev.sum("price")), "<composite(n=count(), total=sum(price))>"),
        (Longest(), "<Longest()>"),
        (MINUTES.agg(n=ev.count()), "<Pipeline: tumbling 1m by 'shop': n>"),
        (TOTALS, "<Pipeline: tumbling 1m by 'shop', emit(allowed_lateness='1h'): n, total>"),
        (
            MINUTES.emit(early="10 seconds", allowed_lateness="1 hour", late="1 minute", mode="accumulating"),
            "<WindowedStream: time 'ts', key 'shop', bounded delay 30s, tumbling 1m, emit(early='10s', "
            "allowed_lateness='1h', late='1m', mode='accumulating')>",
        ),
        (
            MINUTES.emit(early="10 seconds", mode="discarding", skip_unchanged=True).agg(n=ev.count()),
            "<Pipeline: tumbling 1m by 'shop', emit(early='10s', mode='discarding', skip_unchanged=True): n>",
        ),
        (
            MINUTES.trigger(ev.repeatedly(ev.after_count(100))).limit_state(rows=1_000),
            "<WindowedStream: time 'ts', key 'shop', bounded delay 30s, tumbling 1m, trigger(repeatedly (after 100 "
            "rows)), at most 1000 rows a key>",
        ),
        (
            TOTALS.then(ev.stream("window_time").window(ev.tumbling("1 hour")).agg(most=ev.max("n"))),
            "<Pipeline: tumbling 1m by 'shop', emit(allowed_lateness='1h'): n, total; then tumbling 1h: most>",
        ),
        (
            STREAM.window(ev.rows(100, by="number")).emit(allowed_lateness=50).agg(n=ev.count()),
            "<Pipeline: every 100 rows by 'number' by 'shop', emit(allowed_lateness=50): n>",
        ),
    ],
)
def test_a_repr_shows_what_a_value_computes_and_emits(value: Any, text: str) -> None:
    assert repr(value) == text


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
def test_a_value_is_shown_in_a_short_line(value: Any) -> None:
    text = repr(value)
    assert len(text) <= 160 and "\n" not in text and " at 0x" not in text


def test_what_reads_and_writes_streams_is_shown_in_a_short_line() -> None:
    store = MemoryStore()
    store.create_stream("orders", Config(schema=pa.schema({"shop": pa.string()})))
    stream = Stream(store, "orders")
    writer, reader = Writer(stream, "till"), Reader(stream, "audit", reader_id="night")
    writer.write({"shop": "kiel"})
    writer.flush()
    batch = reader.read()
    shown = [writer, writer.begin(), reader, reader.group, batch, Controller(store, name="first")]
    texts = list(map(repr, shown))
    assert texts[0] == "<Writer 'till' of 'orders'>" and texts[2] == "<Reader 'night' of 'orders', group 'audit'>"
    assert texts[3:] == [
        "<ReaderGroup 'audit' of 'orders'>",
        "<Batch: 1 event of 1 segment>",
        "<Controller 'first'>",
    ]
    assert texts[1].startswith("<Transaction '") and texts[1].endswith(", open>")
    reader.close()
    writer.close()


def test_a_result_shows_how_much_of_what_it_has() -> None:
    assert repr(VALUES["result"]) == "<LocalResult: 1 pane, 0 late rows, 1 dead letter of 1 bundle>"
    assert repr(VALUES["step"]) == "<Output: 0 panes, 0 late rows, 1 dead letter, watermark 2026-03-01T12:00:10Z>"
    assert repr(ev.stream(time="ts").window(ev.tumbling("1m")).agg(n=ev.count()).start_local().result) == (
        "<LocalResult: no bundles>"
    )


@pytest.mark.parametrize("name", ["pipeline", "join", "result", "metrics", "batch"])
def test_a_notebook_shows_a_table(name: str) -> None:
    assert VALUES[name]._repr_html_().startswith("<table")


def test_a_notebook_shows_the_first_panes_of_a_result() -> None:
    html = VALUES["result"]._repr_html_()
    assert "3 rows = 2 in windows + 0 late + 1 dead (1 null_time)" in html and "pane_timing" in html


def test_names_of_origins_are_escaped() -> None:
    metrics = Metrics(idle_origins=("<b>east</b>",))
    assert "&lt;b&gt;east&lt;/b&gt;" in metrics._repr_html_()


def test_metrics_have_the_same_names_in_process_and_on_spark() -> None:
    local = TOTALS.local(ROWS, clock=[NOON], drain=False).metrics
    assert isinstance(VALUES["batch"], type(local))
    assert (local.rows, local.kept, local.dead, local.open_windows) == (3, 2, {"null_time": 1}, 1)
    assert local.watermark == datetime(2026, 3, 1, 12, 0, 10, tzinfo=UTC) and not local.drained
    assert TOTALS.local(ROWS, clock=[NOON]).metrics.watermark is None
    assert TOTALS.local(ROWS, clock=[NOON]).metrics.drained


def test_the_missing_numbers_of_an_origin_have_times() -> None:
    numbered = ev.stream(time="ts", watermark=ev.bounded_delay("1s", origin="o", sequence="i"))
    rows = pl.DataFrame({"ts": [1, 2], "o": ["a", "a"], "i": [1, 3]})
    result = numbered.window(ev.tumbling("1m")).agg(n=ev.count()).local(rows, clock=[NOON], drain=False)
    (gap,) = result.gaps
    assert (gap.origin, gap.first, gap.last, gap.since) == ("a", 2, 2, NOON)
    assert result.metrics.gaps == 1


def test_instants_that_no_datetime_can_hold_are_shown_as_the_nearest() -> None:
    assert (as_datetime(MAX - 1).year, as_datetime(MIN + 1).year) == (9999, 1)
    assert known_datetime(MAX) is None and known_datetime(MIN) is None
