"""Exact bills with noted time: the meters declare which hours are complete.

Three gateways meter calls. The one in town is up to date, the island is an hour behind, and the ship is two: it reports
when it has a satellite connection. Each gateway writes to one stream and notes its progress. A controller merges the
notes into marks. The bills of an hour are emitted when all three gateways have completed it: no call is late, and no
bill is corrected.

A second query computes the same bills with an estimate, ev.bounded_delay("30 minutes"), and counts the missed calls.

    python examples/exact_billing.py --rows 20000
"""

from __future__ import annotations

import argparse
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import polars as pl
from polars.testing import assert_frame_equal
from pyspark.sql import SparkSession

import eventide as ev
from eventide import marks
from eventide.time import format_instant

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
HOURS = 2  # hours with calls
BEHIND = {"town": 0, "island": 1, "ship": 2}  # hours
CALL = pl.Schema({"at": pl.Datetime("us", "UTC"), "customer": pl.String(), "cents": pl.Int64()})


def generate(rows: int) -> dict[tuple[str, int], pl.DataFrame]:
    """Generate the calls of each gateway in each hour."""
    rng = Random(8)
    share = max(rows // (HOURS * len(BEHIND)), 20)

    def call(hour: int) -> tuple[datetime, str, int]:
        return NOON + HOUR * (hour + rng.random()), f"customer {rng.randint(1, 5)}", rng.randint(1, 300)

    return {
        (gateway, hour): pl.DataFrame([call(hour) for _ in range(share)], schema=CALL, orient="row")
        for gateway in BEHIND
        for hour in range(HOURS)
    }


def create_stream(address: str) -> marks.Stream:
    return marks.create_stream(
        address,
        schema=CALL,
        segments=2,
        mark_every="1 microsecond",  # the default is 5 seconds; this example does not wait
        writer_timeout="1 day",  # the ship must not be forgotten while it is silent
    )


def start(spark: SparkSession, name: str, calls: ev.Stream, address: str, place: Path) -> ev.Query:
    return (
        calls.window(ev.tumbling("1 hour"))
        .agg(calls=ev.count(), cents=ev.sum("cents"))
        .run(
            spark.readStream.format("eventide").load(address),
            sink=ev.sinks.memory(f"{name}_bills", rows=10_000_000),
            late=ev.sinks.memory(f"{name}_late", rows=10_000_000),
            checkpoint=place / name,
            interval="300 milliseconds",
        )
    )


def main(spark: SparkSession, rows: int, place: Path) -> pl.DataFrame:
    """Meter the calls hour by hour while both queries run, and return the exact bills."""
    metered = generate(rows)
    address = f"sqlite:///{place}/calls.db#calls"
    stream = create_stream(address)
    controller = marks.Controller(stream.store)  # stepped explicitly; `with controller:` runs it in a thread
    writers = {gateway: marks.Writer(stream, gateway, routing_key="customer") for gateway in BEHIND}
    for writer in writers.values():  # time waits for a writer from its first note
        writer.note_time(NOON, nothing_written=True)
    noted = ev.stream(time="at", key="customer", watermark=ev.noted(address))
    lagging = ev.stream(time="at", key="customer", watermark=ev.bounded_delay("30 minutes"))
    exact, estimated = queries = [
        start(spark, name, calls, address, place) for name, calls in (("exact", noted), ("estimated", lagging))
    ]
    for now in range(HOURS + max(BEHIND.values())):
        for gateway, behind in BEHIND.items():
            if (gateway, now - behind) in metered:
                writers[gateway].append(metered[gateway, now - behind], time=NOON + HOUR * (now - behind + 1))
        controller.step()
        for query in queries:
            query.process_all_available()
        print(f"hour {now}: complete to {format_instant(stream.marks()[-1].lower)}, {summary(exact)} exactly, ", end="")
        print(f"{summary(estimated)} by the estimate")
    for writer in writers.values():
        writer.close()
    stream.seal()
    controller.step()  # the last mark is the end of time: the remaining bills are emitted
    estimated.control.drain()  # the estimate does not learn that the stream has ended
    for query in queries:
        query.process_all_available()
        query.stop()
    return verify(spark, pl.concat(metered.values()))


def summary(query: ev.Query) -> str:
    bills = sum(sum(batch.panes.values()) for batch in query.history)
    return f"{bills} bills ({sum(batch.late for batch in query.history)} calls too late)"


def verify(spark: SparkSession, calls: pl.DataFrame) -> pl.DataFrame:
    """Compare the exact bills with plain Polars, and return them. The estimate misses some calls."""
    exact, estimated = (
        pl.DataFrame(pl.from_arrow(panes.select("customer", "window_start", "calls", "cents").toArrow()))
        for panes in (spark.table("exact_bills"), spark.table("estimated_bills"))
    )
    expected = calls.group_by("customer", window_start=pl.col("at").dt.truncate("1h")).agg(
        calls=pl.len(), cents=pl.sum("cents")
    )
    assert_frame_equal(exact, expected, check_dtypes=False, check_row_order=False)
    assert spark.table("exact_late").count() == 0
    lost = int(calls["cents"].sum()) - int(estimated["cents"].sum())
    assert lost > 0 and estimated["calls"].sum() + spark.table("estimated_late").count() == calls.height
    print(f"Noted time bills {exact['cents'].sum()} cents, all of it. The estimate bills {lost} cents less.")
    return exact


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=int, default=20_000, help="number of calls")
    arguments = options.parse_args()
    print("Starting Spark …")
    with tempfile.TemporaryDirectory() as place:
        main(ev.spark_session("bills"), arguments.rows, Path(place))
