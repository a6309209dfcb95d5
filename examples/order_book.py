"""An order book from a feed of quotes: windows of messages instead of seconds.

An exchange numbers the messages of its feed and sends them over two lines. Each line loses and delays some of them, so
messages arrive twice, out of order, or over one line only. The job processes each number once and divides the feed into
windows of 100 messages, one every 50. It computes the best and the last prices and the traded volume of each symbol. A
second query tracks bursts of a symbol: a burst ends when 20 messages have passed without it.

Windows by number do not depend on the order of arrival or on the division into batches: each run has the same windows.

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

import eventide as ev

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SIZE, EVERY, ABSENT = 100, 50, 20
ROUNDS = 3
QUOTE = "number bigint, at timestamp, symbol string, bid bigint, ask bigint, traded bigint"

# The watermark waits for missing numbers: a window is emitted when all of its messages have arrived.
feed = ev.stream(time="at", key="symbol", watermark=ev.ascending(sequence="number")).deduplicate()
book = feed.window(ev.rows(SIZE, every=EVERY, by="number")).agg(
    best_bid=ev.max("bid"), best_ask=ev.min("ask"), bid=ev.last("bid"), ask=ev.last("ask"), traded=ev.sum("traded")
)
bursts = feed.window(ev.row_sessions(absent=ABSENT, by="number")).agg(quotes=ev.count(), traded=ev.sum("traded"))


def generate(rows: int) -> pl.DataFrame:
    """Generate the feed in the order of its numbers. Prices are in cents."""
    rng = Random(6)
    middle = {"AAA": 10_000, "BBB": 5_000, "CCC": 700, "DDD": 90_000}
    quotes = []
    for number in range(1, rows + 1):
        symbol = rng.choices(list(middle), [8, 4, 1, 1])[0]
        middle[symbol] += rng.randint(-3, 3)
        bid, ask = middle[symbol] - rng.randint(1, 5), middle[symbol] + rng.randint(1, 5)
        quotes.append((number, number * 1000, symbol, bid, ask, rng.choice([0, 0, 1, 5])))
    frame = pl.DataFrame(quotes, schema=["number", "at", "symbol", "bid", "ask", "traded"], orient="row")
    return frame.with_columns(at=pl.lit(NOON) + pl.duration(microseconds="at"))


def received(sent: pl.DataFrame) -> list[pl.DataFrame]:
    """Return the messages of both lines by round. A number that one line loses arrives over the other, often later."""
    rng = Random(7)
    rounds: list[list[int]] = [[] for _ in range(ROUNDS)]
    for index in range(sent.height):
        due = index * ROUNDS // sent.height
        rounds[min(due + (rng.random() < 0.05), ROUNDS - 1)].append(index)  # line A, which delays some
        if rng.random() < 0.8:
            rounds[due].append(index)  # line B, which loses some
    for messages in rounds:
        rng.shuffle(messages)
    return [sent[messages] for messages in rounds]


def print_batch(name: str, batch: ev.BatchMetrics) -> None:
    twice = batch.dead.get("duplicate", 0)
    print(
        f"{name}, batch {batch.batch}: {batch.rows} messages, {twice} duplicates, {batch.gaps} gaps, "
        f"{sum(batch.panes.values())} windows"
    )


def main(spark: SparkSession, rows: int, place: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Run both queries over the messages of both lines, and return the book and the bursts."""
    sent = generate(rows)
    (place / "feed").mkdir()
    queries = [
        pipeline.run(
            spark.readStream.schema(QUOTE).parquet(str(place / "feed")),
            sink=ev.sinks.memory(name, rows=10_000_000),
            dead=ev.sinks.noop(),  # duplicates, which the metrics count
            checkpoint=place / name,
            on_batch=partial(print_batch, name),
        )
        for name, pipeline in (("book", book), ("bursts", bursts))
    ]
    for number, messages in enumerate(received(sent)):
        messages.write_parquet(place / "feed/.new")
        (place / "feed/.new").rename(place / f"feed/{number}.parquet")  # atomic: Spark never reads a partial file
        for query in queries:
            query.process_all_available()
    for query in queries:
        query.control.drain()
        query.process_all_available()
        query.stop()

    results = [read_view(spark, name) for name in ("book", "bursts")]
    for frame, expected in zip(results, (expected_book(sent), expected_bursts(sent)), strict=True):
        assert_frame_equal(frame, expected, check_dtypes=False, check_column_order=False)
    print(f"{len(results[0])} prices and {len(results[1])} bursts match the feed. The last prices:")
    print(results[0].filter(pl.col("start") == pl.col("start").max()))
    return results[0], results[1]


def read_view(spark: SparkSession, view: str) -> pl.DataFrame:
    panes = pl.DataFrame(pl.from_arrow(spark.table(view).toArrow()))
    results = panes.drop("^pane_.*$", "window_end", "window_time", "emitted_at", "diff").rename(
        {"window_start": "start"}
    )
    return results.sort("symbol", "start")


def expected_book(sent: pl.DataFrame) -> pl.DataFrame:
    """Compute the book with plain Polars: each message is in two windows, the first messages in one."""
    last = pl.col("number") - (pl.col("number") - 1) % EVERY
    within = sent.with_columns(start=pl.concat_list(last, last - EVERY)).explode("start").filter(pl.col("start") > 0)
    ends = {"best_bid": pl.max("bid"), "best_ask": pl.min("ask"), "bid": pl.last("bid"), "ask": pl.last("ask")}
    prices = within.group_by("symbol", "start", maintain_order=True).agg(**ends, traded=pl.sum("traded"))
    return prices.sort("symbol", "start")


def expected_bursts(sent: pl.DataFrame) -> pl.DataFrame:
    new = (pl.col("number").diff() > ABSENT).fill_null(True).cum_sum().over("symbol").alias("burst")
    grouped = sent.with_columns(new).group_by("symbol", "burst")
    bursts = grouped.agg(quotes=pl.len(), traded=pl.sum("traded"), start=pl.min("number"))
    return bursts.drop("burst").sort("symbol", "start")


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=int, default=20_000, help="number of messages")
    arguments = options.parse_args()
    print("Starting Spark …")
    with tempfile.TemporaryDirectory() as place:
        main(ev.spark_session("order book"), arguments.rows, Path(place))
