"""Streams of marks on Spark: read once and in order, with a watermark that writers declare; written once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

import eventide as ev
from eventide import marks
from eventide.errors import PlanError
from eventide.marks.stores.sql_dialects import sqlite_store
from eventide.marks.stores.store import Config
from eventide.time import as_datetime, instant
from tests.spark.running import Stream, comparable

pytestmark = pytest.mark.long  # streams of marks end to end; their parts are tested without Spark

MINUTE = 60_000_000
START = instant("2026-03-01T12:00:00Z")
SCHEMA = pa.schema({"ts": pa.timestamp("us", "UTC"), "shop": pa.string(), "price": pa.int64()})
PER_MINUTE = {"n": ev.count(), "total": ev.sum("price")}


class Shop:
    """A stream of orders in a file, on a clock that is set by hand, and its writers."""

    def __init__(self, place: Path, segments: int = 2) -> None:
        self.now = START
        url = f"sqlite:///{place}/shop.db"
        self.address = f"{url}#orders"
        self.stream = marks.Stream(sqlite_store(url, clock=lambda: self.now), "orders")
        self.stream.store.create_stream("orders", Config(schema=SCHEMA, segments=segments, mark_every=1_000_000))
        self.controller = marks.Controller(self.stream.store, "only")
        self.now = START + MINUTE  # past the delay of a new stream

    def writer(self, name: str) -> marks.Writer:
        return marks.Writer(self.stream, name, routing_key="shop", clock=lambda: self.now)

    def merge(self) -> None:
        """Let time pass, and let the controller make a mark of what writers noted."""
        self.now += 2_000_000
        self.controller.step()

    def rows(self, spark: SparkSession, **options: Any) -> DataFrame:
        return spark.readStream.format("eventide").options(**options).load(self.address)

    def per_minute(self) -> ev.Pipeline:
        orders = ev.stream(time="ts", key="shop", watermark=ev.noted(self.address))
        return orders.window(ev.tumbling("1 minute")).agg(**PER_MINUTE)


def orders(minute: float, count: int, first: int = 0) -> pl.DataFrame:
    """Orders of one minute, in several shops, numbered by price."""
    times = [START + int((minute + number / count) * MINUTE) for number in range(count)]
    shops = [f"shop {number % 5}" for number in range(count)]
    frame = pl.DataFrame({"ts": times, "shop": shops, "price": range(first, first + count)})
    return frame.with_columns(pl.col("ts").cast(pl.Datetime("us", "UTC")))


def collected(batches: dict[int, list[dict[str, Any]]]) -> Any:
    def collect(batch: DataFrame, batch_id: int) -> None:
        batches[batch_id] = [row.asDict(recursive=True) for row in batch.collect()]

    return collect


def all_of(spark: SparkSession, rows: DataFrame, checkpoint: Path) -> dict[int, list[dict[str, Any]]]:
    """What there is, batch by batch."""
    batches: dict[int, list[dict[str, Any]]] = {}
    writer = rows.writeStream.foreachBatch(collected(batches)).trigger(availableNow=True)
    writer.option("checkpointLocation", str(checkpoint)).start().awaitTermination()
    return batches


def test_every_event_is_read_once_with_its_place_and_in_order(spark: SparkSession, tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    with shop.writer("till") as till:
        for minute in range(5):
            till.append(orders(minute, 100, first=minute * 100))
    batches = all_of(spark, shop.rows(spark, rows_per_batch=120), tmp_path / "checkpoint")
    rows = [row for batch in batches.values() for row in batch]
    assert sorted(row["price"] for row in rows) == list(range(500))
    assert len(batches) == 5 and all(len(batch) <= 120 for batch in batches.values())
    for segment in (0, 1):
        events = [(row["_offset"], row["price"]) for row in rows if row["_segment"] == segment]
        assert [offset for offset, _ in events] == list(range(len(events)))
        assert events == sorted(events)


def test_a_table_reads_all_that_is_there(spark: SparkSession, tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    with shop.writer("till") as till:
        till.append(orders(0, 50))
        shop.stream.split(0)
        till.append(orders(1, 50, first=50))
    rows = spark.read.format("eventide").load(shop.address)
    assert sorted(row["price"] for row in rows.collect()) == list(range(100))
    assert rows.schema["ts"].dataType.typeName() == "timestamp"
    assert not rows.schema["_offset"].nullable  # so that it is not asked, row by row


def test_a_query_continues_where_it_stopped_across_a_scale_event(spark: SparkSession, tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    with shop.writer("till") as till:
        till.append(orders(0, 60))
        first = all_of(spark, shop.rows(spark), tmp_path / "checkpoint")
        till.append(orders(1, 60, first=60))
        shop.stream.scale([0, 1], [(0.0, 0.3), (0.3, 0.6), (0.6, 1.0)])
        till.append(orders(2, 60, first=120))
    then = all_of(spark, shop.rows(spark), tmp_path / "checkpoint")
    seen = [{row["_segment"] for row in batch} for batch in then.values()]
    assert sorted(row["price"] for batch in (*first.values(), *then.values()) for row in batch) == list(range(180))
    assert seen[0] <= {0, 1} and seen[1] <= {2, 3, 4}  # successors after their predecessors


def test_what_cannot_be_read_is_rejected_with_its_cause(spark: SparkSession, tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    with pytest.raises(Exception, match=r"There is no stream 'order'\. Did you mean 'orders'"):
        spark.readStream.format("eventide").load(shop.address.removesuffix("s"))
    with pytest.raises(Exception, match="'orders' is not the address of a stream"):
        spark.readStream.format("eventide").load("orders")
    frame = (
        spark.readStream.format("rate").load().withColumnRenamed("timestamp", "ts").withColumnRenamed("value", "shop")
    )
    with pytest.raises(PlanError, match=r"noted\(\): there is no column '_segment'"):
        frame.transform(shop.per_minute())


def test_windows_fire_exactly_when_the_writers_say_so(spark: SparkSession, tmp_path: Path, placement: str) -> None:
    shop = Shop(tmp_path)
    run = Stream(spark, tmp_path)
    with shop.writer("kiel") as kiel, shop.writer("bonn") as bonn:
        kiel.append(orders(0, 30), time=START + MINUTE)
        bonn.append(orders(0, 20), time=START + MINUTE // 2)
        shop.merge()
        run.run(shop.per_minute(), rows=shop.rows(spark))
        assert not run.all("panes").height  # bonn has not finished the first minute
        bonn.append(orders(0.5, 10), time=START + 2 * MINUTE)
        kiel.append(orders(1, 5))
        shop.merge()
        run.run(shop.per_minute(), rows=shop.rows(spark))
        assert run.all("panes")["n"].sum() == 55
        assert run.metrics[-1].watermark == as_datetime(START + MINUTE)
        # All of it was read before; only the mark is new.
        kiel.note_time(START + 2 * MINUTE)
        shop.merge()
        run.run(shop.per_minute(), rows=shop.rows(spark))
        assert run.all("panes")["n"].sum() == 65
    assert not run.all("late").height and not run.all("dead").height


def test_a_fused_scan_gives_the_same_panes(spark: SparkSession, tmp_path: Path, placement: str) -> None:
    shop = Shop(tmp_path)
    plain, fused = Stream(spark, tmp_path / "plain"), Stream(spark, tmp_path / "fused")
    with shop.writer("till") as till:
        for minute in range(3):
            till.append(orders(minute, 100, first=100 * minute), time=START + (minute + 1) * MINUTE)
            shop.merge()
    shop.stream.merge(0, 1)
    with shop.writer("till") as till:
        till.append(orders(3, 10))
    plain.run(shop.per_minute(), rows=shop.rows(spark, rows_per_batch=70))
    fused.run(shop.per_minute(), rows=ev.scan_stream(shop.address, rows_per_batch=70, spark=spark))
    assert comparable(fused.all("panes")) == comparable(plain.all("panes"))
    assert fused.all("panes")["n"].sum() == 300
    assert [batch.rows for batch in fused.metrics if batch.rows] == [
        batch.rows for batch in plain.metrics if batch.rows
    ]


def test_a_query_that_begins_at_the_end_does_not_wait_for_quiet_segments(
    spark: SparkSession, tmp_path: Path, placement: str
) -> None:
    shop = Shop(tmp_path)
    run = Stream(spark, tmp_path)
    with shop.writer("till") as till:
        till.append(orders(0, 100), time=START + MINUTE)
        shop.merge()
        run.run(shop.per_minute(), rows=shop.rows(spark, start="latest"))
        loud = orders(0, 5).filter(pl.col("shop") == "shop 0")  # all of it in one segment
        till.append(loud.with_columns(pl.col("ts") + pl.duration(minutes=1)), time=START + 2 * MINUTE)
        shop.merge()
        run.run(shop.per_minute(), rows=shop.rows(spark, start="latest"))
        till.note_time(START + 3 * MINUTE)
        shop.merge()
        run.run(shop.per_minute(), rows=shop.rows(spark, start="latest"))
    assert run.metrics[-1].watermark == as_datetime(START + 3 * MINUTE)
    assert run.all("panes")["n"].to_list() == [1]


def test_rows_that_a_filter_leaves_say_how_far_all_was_read(
    spark: SparkSession, tmp_path: Path, placement: str
) -> None:
    shop = Shop(tmp_path)
    run = Stream(spark, tmp_path)
    with shop.writer("till") as till:
        till.append(orders(0, 100), time=START + MINUTE)
        shop.merge()
        till.append(orders(1, 100, first=100))
        run.run(shop.per_minute(), rows=shop.rows(spark).where("price = 0 or price = 110"))
    assert run.all("panes")["total"].to_list() == [0]


def test_time_ends_with_the_stream(spark: SparkSession, tmp_path: Path, placement: str) -> None:
    shop = Shop(tmp_path)
    run = Stream(spark, tmp_path)
    with shop.writer("till") as till:
        till.append(orders(0, 100), time=START + MINUTE // 2)
    shop.stream.seal()
    shop.merge()
    run.run(shop.per_minute(), rows=shop.rows(spark))
    assert run.all("panes")["n"].sum() == 100


def test_no_row_is_late_where_a_lag_loses_some(spark: SparkSession, tmp_path: Path, placement: str) -> None:
    """Three writers whose clocks differ, and one of them stalls and is forgotten; two readers; Spark."""
    shop = Shop(tmp_path)
    noted, lagging = Stream(spark, tmp_path / "noted"), Stream(spark, tmp_path / "lagging")
    behind = {"exact": 0.0, "slow": 1.9, "stalls": 0.2}  # in minutes
    lag = ev.stream(time="ts", key="shop", watermark=ev.bounded_delay("10 seconds", origin="_segment"))
    by_lag = lag.window(ev.tumbling("1 minute")).agg(**PER_MINUTE)
    writers = {name: shop.writer(name) for name in behind}
    written = []
    readers = [marks.Reader(shop.stream, group="checks", reader_id=name) for name in ("one", "two")]
    read: list[int] = []
    for minute in range(1, 5):
        for name, writer in writers.items():
            if name == "stalls" and minute > 1:
                continue
            frame = orders(minute - behind[name], 20, first=len(written) * 20)
            written.append(frame)
            writer.append(frame, time=START + int((minute + 1 - behind[name]) * MINUTE))
        shop.merge()
        shop.now += MINUTE // 2
        rows = shop.rows(spark)
        noted.run(shop.per_minute(), rows=rows)
        lagging.run(by_lag, rows=rows)
        for reader in readers:
            while (batch := reader.read()) is not None:
                read += batch.table["price"].to_pylist()
                reader.commit()
    windows = [reader.time_window() for reader in readers]
    assert noted.all("panes").height > 0
    shop.stream.seal()
    shop.merge()
    noted.run(shop.per_minute(), rows=shop.rows(spark))
    every = pl.concat(written)
    expected = Counter((row["shop"], row["ts"].replace(second=0, microsecond=0)) for row in every.to_dicts())
    panes = noted.all("panes").to_dicts()
    assert {(row["shop"], row["window_start"]): row["n"] for row in panes} == expected
    assert {row["pane_timing"] for row in panes} == {"ON_TIME"}
    assert not noted.all("late").height
    assert lagging.all("late").height > 0
    assert sorted(read) == sorted(every["price"].to_list())
    assert all(window.lower == START + int((5 - 1.9) * MINUTE) for window in windows)


def test_a_stream_is_written_once_and_a_second_query_reads_its_time(
    spark: SparkSession, tmp_path: Path, placement: str
) -> None:
    shop = Shop(tmp_path)
    revenue = shop.address.replace("#orders", "#revenue")
    first, second = Stream(spark, tmp_path / "first"), Stream(spark, tmp_path / "second")
    panes = shop.rows(spark).transform(shop.per_minute()).schema
    config = Config(schema=to_arrow_schema(panes, timezone="UTC"), mark_every=1_000_000)
    shop.stream.store.create_stream("revenue", config)
    with shop.writer("till") as till:
        for minute in range(4):
            till.append(orders(minute, 50, first=minute * 50), time=START + (minute + 1) * MINUTE)
            shop.merge()
            sink = ev.sinks.stream(revenue, routing_key="shop")
            first.run(shop.per_minute(), rows=shop.rows(spark), sink=sink)
    shop.now += MINUTE
    shop.controller.step()
    revenues = ev.stream(time="window_time", watermark=ev.noted(revenue))
    both = revenues.window(ev.tumbling("2 minutes")).agg(orders=ev.sum("n"))
    second.run(both, rows=spark.readStream.format("eventide").load(revenue))
    assert second.all("panes")["orders"].to_list() == [100, 100]
    assert not second.all("late").height


def test_rows_of_a_query_become_events_exactly_once(spark: SparkSession, tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    copies = marks.create_stream(shop.address.replace("#orders", "#copies"), schema=SCHEMA, segments=3)
    with shop.writer("till") as till:
        for minute in range(3):
            till.append(orders(minute, 40, first=minute * 40))
    address = shop.address.replace("#orders", "#copies")

    def copied(checkpoint: str = "checkpoint", **options: str) -> None:
        writer = shop.rows(spark, rows_per_batch=50).writeStream.format("eventide").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(tmp_path / checkpoint)).option("routing_key", "shop")
        writer.option("writer_id", "copier").options(**options).start(address).awaitTermination()

    copied(note="ts")
    last = max((tmp_path / "checkpoint" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()  # as if Spark had been killed after the sink's commit, and before its own
    (last.parent / f".{last.name}.crc").unlink(missing_ok=True)
    copied(note="ts")
    observed = spark.read.format("eventide").load(address)
    assert sorted(row["price"] for row in observed.collect()) == list(range(120))
    (note,) = copies.store.notes("copies")
    assert note.time == instant(orders(2, 40)["ts"].max())
    with pytest.raises(Exception, match="noted time does not go back"):
        copied("backwards", note="ts")  # the same rows again: the first ones are before the time that was noted
    copied("another")  # whose batches have the same numbers, but are not the same
    observed = spark.read.format("eventide").load(address)
    assert sorted(row["price"] for row in observed.collect()) == sorted([*range(120), *range(120)])
    with pytest.raises(Exception, match="Another query has written to stream 'copies' as 'copier' since"):
        last.unlink()
        copied()
    with pytest.raises(Exception, match="The stream has no column 'colour'"):
        spark.range(1).selectExpr("'red' as colour").write.format("eventide").mode("append").save(address)
