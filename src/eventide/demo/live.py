"""The demo on Spark: a live stream of sales, and every pane as it is emitted.

A shop is open for half a minute. Four tills write sales as files, and one of them loses its connection.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
from rich.console import Console
from rich.text import Text

import eventide as ev
from eventide.metrics import idle_text, instant_text, lag_text
from eventide.panes import EMITTED_AT, PANE_TIMING, WINDOW, WINDOW_START
from eventide.spark.metrics import BatchMetrics
from eventide.testing.chart_page import pictures
from eventide.testing.chart_timeline import Event, Facet, Pane, Timeline
from eventide.time import instant

SCHEMA = {"ts": pl.Datetime("us", "UTC"), "till": pl.String(), "price": pl.Int64()}
SPARK_SCHEMA = "ts timestamp, till string, price bigint"
TILLS = ("north", "east", "south", "west")
STALLS, RETURNS = 8, 16  # seconds after opening: west is cut off, and sends what it has kept


@dataclass(frozen=True)
class Second:
    """What the tills send in one second."""

    number: int
    sales: pl.DataFrame
    news: str = ""


def day(opening: datetime, seconds: int) -> Iterator[Second]:
    """Second by second, the same sales each time; only the hour on the clock differs."""
    rng = Random(102)
    kept: list[tuple[datetime, str, int]] = []
    for number in range(seconds):
        sales: list[tuple[datetime | None, str, int]] = []
        for till in TILLS:
            for _ in range(rng.randint(1, 3)):
                when = opening + timedelta(seconds=number - rng.uniform(0, 1.5))
                sale = (when, till, rng.randint(1, 20))
                (kept if till == "west" and STALLS <= number < RETURNS else sales).append(sale)
        news = ""
        if number == STALLS:
            news = "till 'west' has lost its connection"
        if number == RETURNS:
            news, sales = f"till 'west' is back, with {len(kept)} sales that it had kept", [*sales, *kept]
        if number == RETURNS + 4:
            forgotten = (opening - timedelta(seconds=40), "south", 7)
            news, sales = "a sale from long ago, and one without a time", [*sales, forgotten, (None, "east", 3)]
        yield Second(number, pl.DataFrame(sales, schema=SCHEMA, orient="row"), news)


def write(second: Second, place: Path) -> None:
    """A file that appears at once."""
    hidden = place / f".{second.number:05}"
    second.sales.write_parquet(hidden)
    now = datetime.now(UTC).timestamp()
    os.utime(hidden, (now, now))
    hidden.rename(place / f"{second.number:05}.parquet")


COLOURS = {"EARLY": "yellow", "ON_TIME": "green", "LATE": "red"}


def pane_line(row: dict[str, Any]) -> Text:
    """Return the line of a pane, or of a retraction.

    >>> from datetime import datetime
    >>> window = {"window_start": datetime(2026, 3, 1, 12, 0, 5), "window_end": datetime(2026, 3, 1, 12, 0, 10)}
    >>> print(pane_line(window | {"revenue": 7, "sales": 2, "pane_timing": "EARLY", "diff": 1}))
          [12:00:05, 12:00:10)       7 of   2 sales  EARLY
    """
    start, end = (row[name].strftime("%H:%M:%S") for name in WINDOW)
    retracted = row["diff"] < 0
    amount = f"−{row['revenue']}" if retracted else str(row["revenue"])
    timing = "retracted" if retracted else row[PANE_TIMING].replace("_", " ")
    style = "dim" if retracted else COLOURS[row[PANE_TIMING]]
    return Text(f"      [{start}, {end})  {amount:>6} of {row['sales']:>3} sales  {timing}", style=style)


def progress_line(metrics: BatchMetrics, total: int, rate: float, *, what: str = "rows") -> Text:
    """Return how far the demo is; ``what`` its rows are, ``total`` and ``rate`` those since its start."""
    known = None if metrics.watermark is None else instant_text(metrics.watermark).split("T")[-1][:10].rstrip("Z")
    watermark = "drained" if metrics.drained else known or "unknown"
    lag = f", {lag_text(metrics.lag)}" if metrics.lag else ""
    idle = f", not waiting for {idle_text(metrics)}" if metrics.idle_origins else ""
    return Text(f"      {total:,} {what} ({rate:,.0f}/s)  watermark {watermark}{lag}{idle}", style="cyan")


SECONDS = 24
_TITLE = "A shop, live on Spark"
_INTRO = (
    "Four tills send their sales; five-second windows add them up. Each window is emitted early, once on time, and "
    "again for each late sale; the previous pane is retracted (−). The watermark waits for every till, but not for "
    "one that has been silent for four seconds."
)

REVENUE = (
    ev.stream(time="ts", watermark=ev.bounded_delay("2 seconds", origin="till", idle_timeout="4 seconds"))
    .window(ev.tumbling("5 seconds"))
    .emit(early="2 seconds", allowed_lateness="20 seconds")
    .agg(sales=ev.count(), revenue=ev.sum("price"))
)


class Seen:
    """All that was told, for the sums and the picture at the end."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self.panes: list[dict[str, Any]] = []
        self.metrics: list[ev.BatchMetrics] = []
        self.sent: list[tuple[int, pl.DataFrame]] = []
        self._started = time.monotonic()

    def pane(self, batch: Any, batch_id: int) -> None:
        """The panes of a batch, retractions first."""
        rows = batch.toArrow().to_pylist()
        for row in sorted(rows, key=lambda row: (row["diff"], row[WINDOW_START])):
            self.panes.append(row)
            self._console.print(pane_line(row))

    def progress(self, one: ev.BatchMetrics) -> None:
        """A batch has ended."""
        self.metrics.append(one)
        if one.rows:
            total = sum(each.rows for each in self.metrics)
            self._console.print(progress_line(one, total, total / (time.monotonic() - self._started), what="sales"))

    def news(self, second: Second) -> None:
        """The tills have sent something."""
        self.sent.append((time.time_ns() // 1000, second.sales))
        if second.news:
            self._console.print(f"[magenta]{second.number:>3} s  {second.news}[/magenta]")


def main(console: Console, picture: Path, *, seconds: int = SECONDS) -> Seen:
    """Run the shop for some seconds, drain the query, and check that nothing was lost."""
    console.print(f"[bold]{_TITLE}[/bold]\n{_INTRO}\n")
    console.print("[dim]Starting Spark …[/dim]")
    place = Path(tempfile.mkdtemp(prefix="eventide-demo-"))
    try:
        seen = _run(console, place, seconds)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    _sum_up(console, seen)
    picture.parent.mkdir(parents=True, exist_ok=True)
    text = pictures([Facet("Windows of five seconds, retracting", _timeline(seen))], title=_TITLE, text=_INTRO)
    picture.write_text(text, encoding="utf-8")
    console.print(f"The picture of it: {picture}", soft_wrap=True)
    return seen


def _run(console: Console, place: Path, seconds: int) -> Seen:
    quick = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
    spark = ev.spark_session("eventide demo", cores=2, config={"spark.local.dir": str(place / "local"), **quick})
    (place / "sales").mkdir()
    rows = spark.readStream.schema(SPARK_SCHEMA).parquet(str(place / "sales"))
    seen = Seen(console)
    query = REVENUE.run(
        rows,
        sink=seen.pane,
        late=ev.sinks.noop(),
        dead=ev.sinks.noop(),
        checkpoint=str(place / "checkpoint"),
        interval="1 second",
        on_batch=seen.progress,
    )
    try:
        _open_shop(seen, query, place / "sales", seconds)
        sent = sum(sales.height for _, sales in seen.sent)
        _wait(query, lambda: sum(one.rows for one in seen.metrics) >= sent)
        console.print("[magenta]The shop closes: all windows are emitted for the last time.[/magenta]")
        query.control.drain()
        _wait(query, lambda: bool(seen.metrics) and seen.metrics[-1].drained)
    finally:
        query.stop()
        spark.stop()
    return seen


def _open_shop(seen: Seen, query: ev.Query, place: Path, seconds: int) -> None:
    """One file a second, as the tills send them, from when the query has done its first, slow batch."""
    first = next(iter(day(datetime.now(UTC), 1)))
    write(replace(first, number=99_999), place)
    seen.news(first)
    _wait(query, lambda: bool(seen.metrics))
    clock = threading.Event()
    for second in day(datetime.now(UTC), seconds):
        write(second, place)
        seen.news(second)
        clock.wait(1)


def _wait(query: ev.Query, done: Any, timeout: float = 120) -> None:
    until = time.monotonic() + timeout
    while not done() and time.monotonic() < until:
        query.await_termination(1)


def _sum_up(console: Console, seen: Seen) -> None:
    truth = int(sum(sales["price"].sum() for _, sales in seen.sent))
    told = sum(row["revenue"] * row["diff"] for row in seen.panes)
    aside = sum(one.late for one in seen.metrics), sum(sum(one.dead.values()) for one in seen.metrics)
    rows = sum(one.rows for one in seen.metrics)
    inside = sum(one.kept for one in seen.metrics)
    console.print(
        f"\n{rows} sales = {inside} in windows + {aside[0]} too late + {aside[1]} dead. "
        f"All panes times their diff: {told}; the tills sold {truth}, {truth - told} of it in the rows set aside."
    )


def _timeline(seen: Seen) -> Timeline:
    sent = [(at, when) for at, sales in seen.sent for when in sales["ts"].drop_nulls().dt.epoch("us").to_list()]
    recent = [(at, when) for at, when in sent if at - when < 30_000_000]
    return Timeline(
        events=[Event(when, at, "") for at, when in recent],
        watermarks=[(instant(one.at), instant(one.watermark)) for one in seen.metrics if one.watermark is not None],
        panes=[_drawn(row) for row in seen.panes],
    )


def _drawn(row: dict[str, Any]) -> Pane:
    start, end = (int(row[name].timestamp() * 1e6) for name in WINDOW)
    at = int(row[EMITTED_AT].timestamp() * 1e6)
    return Pane("", start, end, at, str(row["revenue"]), row[PANE_TIMING], row["diff"])
