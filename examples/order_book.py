"""An order book from a feed of quotes: windows that are counted in messages, not in seconds.

An exchange numbers the messages of its feed and sends them over two lines. Each line loses some and delays some, so
messages come twice, out of order, or over one line only. The job takes each number once and cuts the feed into windows
of 100 messages, one every 50: for each symbol the best prices, the last ones and what was traded. A second query
follows a symbol through the feed: a burst ends when 20 messages have passed without it.

Windows by number do not depend on the order in which messages come, or on how Spark cuts them into batches: run it
again and each window has the same messages.

    python examples/order_book.py --rows 20000
"""

from __future__ import annotations

import argparse
import tempfile
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random

import polars as pl
from polars.testing import assert_frame_equal
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import eventide as ev

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SIZE, EVERY, ABSENT = 100, 50, 20
ROUNDS = 3
QUOTE = "number bigint, at timestamp, symbol string, bid bigint, ask bigint, traded bigint"

# A number that is missing is waited for: no window is told before all of its messages are there.
feed = ev.stream(time="at", key="symbol", watermark=ev.ascending(sequence="number")).deduplicate()
book = feed.window(ev.rows(SIZE, every=EVERY, by="number")).agg(
    best_bid=ev.max("bid"), best_ask=ev.min("ask"), bid=ev.last("bid"), ask=ev.last("ask"), traded=ev.sum("traded")
)
bursts = feed.window(ev.row_sessions(absent=ABSENT, by="number")).agg(quotes=ev.count(), traded=ev.sum("traded"))


def made_up(rows: int) -> pl.DataFrame:
    """The feed as it was sent, in the order of its numbers. Prices are in cents."""
    rng = Random(6)
    middle = {"AAA": 10_000, "BBB": 5_000, "CCC": 700, "DDD": 90_000}
    made = []
    for number in range(1, rows + 1):
        symbol = rng.choices(list(middle), [8, 4, 1, 1])[0]
        middle[symbol] += rng.randint(-3, 3)
        bid, ask = middle[symbol] - rng.randint(1, 5), middle[symbol] + rng.randint(1, 5)
        made.append((number, number * 1000, symbol, bid, ask, rng.choice([0, 0, 1, 5])))
    frame = pl.DataFrame(made, schema=["number", "at", "symbol", "bid", "ask", "traded"], orient="row")
    return frame.with_columns(at=pl.lit(NOON) + pl.duration(microseconds="at"))


def received(sent: pl.DataFrame) -> list[pl.DataFrame]:
    """What both lines deliver, round by round. A number that one line loses comes over the other, often later."""
    rng = Random(7)
    rounds: list[list[int]] = [[] for _ in range(ROUNDS)]
    for index in range(sent.height):
        due = index * ROUNDS // sent.height
        rounds[min(due + (rng.random() < 0.05), ROUNDS - 1)].append(index)  # line A, which delays some
        if rng.random() < 0.8:
            rounds[due].append(index)  # line B, which loses some
    for one in rounds:
        rng.shuffle(one)
    return [sent[one] for one in rounds]


def tell(name: str, batch: ev.BatchMetrics) -> None:
    twice = batch.dead.get("duplicate", 0)
    print(
        f"{name}, batch {batch.batch}: {batch.rows} messages, {twice} of them again, {batch.gaps} gaps, "
        f"{sum(batch.panes.values())} windows told"
    )


def main(spark: SparkSession, rows: int, place: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Run both queries over what the lines deliver, and give the book and the bursts."""
    sent = made_up(rows)
    (place / "feed").mkdir()
    queries = [
        ev.run(
            pipeline,
            spark.readStream.schema(QUOTE).parquet(str(place / "feed")),
            panes=ev.sinks.memory(name, rows=10_000_000),
            dead=ev.sinks.noop(),  # numbers that come again; they are counted
            checkpoint=place / name,
            on_batch=partial(tell, name),
        )
        for name, pipeline in (("book", book), ("bursts", bursts))
    ]
    for number, messages in enumerate(received(sent)):
        messages.write_parquet(place / "feed/.new")
        (place / "feed/.new").rename(place / f"feed/{number}.parquet")  # at once: Spark never sees half of it
        for query in queries:
            query.process_all_available()
    for query in queries:
        query.control.drain()
        query.process_all_available()
        query.stop()

    found = [told(spark, name) for name in ("book", "bursts")]
    for frame, right in zip(found, (expected_book(sent), expected_bursts(sent)), strict=True):
        assert_frame_equal(frame, right, check_dtypes=False, check_column_order=False)
    print(f"{len(found[0])} prices and {len(found[1])} bursts are those of the feed as it was sent. The last prices:")
    print(found[0].filter(pl.col("start") == pl.col("start").max()))
    return found[0], found[1]


def told(spark: SparkSession, view: str) -> pl.DataFrame:
    panes = spark.table(view).withColumn("start", F.col("window.start")).drop("window", "pane", "diff")
    return pl.DataFrame(pl.from_arrow(panes.toArrow())).sort("symbol", "start")


def expected_book(sent: pl.DataFrame) -> pl.DataFrame:
    """The same in plain Polars: each message is in the two windows that begin before it, the first ones in one."""
    last = pl.col("number") - (pl.col("number") - 1) % EVERY
    within = sent.with_columns(start=pl.concat_list(last, last - EVERY)).explode("start").filter(pl.col("start") > 0)
    ends = {"best_bid": pl.max("bid"), "best_ask": pl.min("ask"), "bid": pl.last("bid"), "ask": pl.last("ask")}
    found = within.group_by("symbol", "start", maintain_order=True).agg(**ends, traded=pl.sum("traded"))
    return found.sort("symbol", "start")


def expected_bursts(sent: pl.DataFrame) -> pl.DataFrame:
    new = (pl.col("number").diff() > ABSENT).fill_null(True).cum_sum().over("symbol").alias("burst")
    grouped = sent.with_columns(new).group_by("symbol", "burst")
    found = grouped.agg(quotes=pl.len(), traded=pl.sum("traded"), start=pl.min("number"))
    return found.drop("burst").sort("symbol", "start")


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=int, default=20_000, help="how many messages")
    given = options.parse_args()
    print("Starting Spark …")
    with tempfile.TemporaryDirectory() as place:
        main(ev.spark_session("order book"), given.rows, Path(place))
