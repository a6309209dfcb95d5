"""Exact bills with noted time: the meters say what is complete, so nobody has to guess.

Three gateways meter calls. The one in town is up to date, the island is an hour behind, and the ship is two: it reports
when it has a satellite. Each writes to one stream and notes how far it has come. A controller makes marks of the notes,
and a bill for an hour is written when all three have finished that hour: no call is late, and no bill is corrected.

Beside it, the same bills with an estimate, ev.bounded_delay("30 minutes"), as without notes. What it misses is counted.

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
HOURS = 2  # in which calls are made
BEHIND = {"town": 0, "island": 1, "ship": 2}  # hours
CALL = pl.Schema({"at": pl.Datetime("us", "UTC"), "customer": pl.String(), "cents": pl.Int64()})


def made_up(rows: int) -> dict[tuple[str, int], pl.DataFrame]:
    """The calls of each gateway in each hour."""
    rng = Random(8)
    share = max(rows // (HOURS * len(BEHIND)), 20)

    def call(hour: int) -> tuple[datetime, str, int]:
        return NOON + HOUR * (hour + rng.random()), f"customer {rng.randint(1, 5)}", rng.randint(1, 300)

    return {
        (gateway, hour): pl.DataFrame([call(hour) for _ in range(share)], schema=CALL, orient="row")
        for gateway in BEHIND
        for hour in range(HOURS)
    }


def opened(address: str) -> marks.Stream:
    return marks.create_stream(
        address,
        schema=CALL,
        segments=2,
        mark_every="1 microsecond",  # this example does not wait; 5 seconds, unless you say otherwise
        writer_timeout="1 day",  # how long a silent gateway is waited for: the ship must not be forgotten
    )


def started(spark: SparkSession, name: str, calls: ev.Stream, address: str, place: Path) -> ev.Query:
    return ev.run(
        calls.window(ev.tumbling("1 hour")).agg(calls=ev.count(), cents=ev.sum("cents")),
        spark.readStream.format("eventide").load(address),
        panes=ev.sinks.memory(f"{name}_bills", rows=10_000_000),
        late=ev.sinks.memory(f"{name}_late", rows=10_000_000),
        checkpoint=place / name,
        trigger="300 milliseconds",
    )


def main(spark: SparkSession, rows: int, place: Path) -> pl.DataFrame:
    """Meter the calls hour by hour while both queries run, and give the exact bills."""
    metered = made_up(rows)
    address = f"sqlite:///{place}/calls.db#calls"
    stream = opened(address)
    controller = marks.Controller(stream.store)  # stepped by hand here; `with controller:` runs it in a thread
    writers = {gateway: marks.Writer(stream, gateway, routing_key="customer") for gateway in BEHIND}
    for writer in writers.values():  # whoever has said this is waited for from the start
        writer.note_time(NOON, nothing_written=True)
    noted = ev.stream(time="at", key="customer", watermark=ev.noted(address))
    lagging = ev.stream(time="at", key="customer", watermark=ev.bounded_delay("30 minutes"))
    exact, guessed = queries = [
        started(spark, name, calls, address, place) for name, calls in (("exact", noted), ("guessed", lagging))
    ]
    for now in range(HOURS + max(BEHIND.values())):
        for gateway, behind in BEHIND.items():
            if (gateway, now - behind) in metered:
                writers[gateway].append(metered[gateway, now - behind], time=NOON + HOUR * (now - behind + 1))
        controller.step()
        for query in queries:
            query.process_all_available()
        print(f"hour {now}: metered before {format_instant(stream.marks()[-1].lower)}, {tell(exact)} exactly, ", end="")
        print(f"{tell(guessed)} by a guess")
    for writer in writers.values():
        writer.close()
    stream.seal()
    controller.step()  # the last mark is the end of time: what is left is billed
    guessed.control.drain()  # a guess never learns that the stream has ended
    for query in queries:
        query.process_all_available()
        query.stop()
    return checked(spark, pl.concat(metered.values()))


def tell(query: ev.Query) -> str:
    bills = sum(sum(batch.panes.values()) for batch in query.history)
    return f"{bills} bills ({sum(batch.late for batch in query.history)} calls too late)"


def checked(spark: SparkSession, calls: pl.DataFrame) -> pl.DataFrame:
    """The exact bills, which are what plain Polars makes of all calls; what was guessed is less."""
    exact, guessed = (
        pl.DataFrame(pl.from_arrow(panes.select("customer", "window.start", "calls", "cents").toArrow()))
        for panes in (spark.table("exact_bills"), spark.table("guessed_bills"))
    )
    expected = calls.group_by("customer", start=pl.col("at").dt.truncate("1h")).agg(
        calls=pl.len(), cents=pl.sum("cents")
    )
    assert_frame_equal(exact, expected, check_dtypes=False, check_row_order=False)
    assert spark.table("exact_late").count() == 0
    lost = int(calls["cents"].sum()) - int(guessed["cents"].sum())
    assert lost > 0 and guessed["calls"].sum() + spark.table("guessed_late").count() == calls.height
    print(f"Noted time bills {exact['cents'].sum()} cents, all of it. The guess bills {lost} cents less.")
    return exact


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=int, default=20_000, help="how many calls")
    given = options.parse_args()
    print("Starting Spark …")
    with tempfile.TemporaryDirectory() as place:
        main(ev.spark_session("bills"), given.rows, Path(place))
