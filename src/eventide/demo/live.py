"""The demo on Spark: a live stream, and every pane as it happens."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
from rich.console import Console

import eventide as ev
from eventide.demo.shop import SPARK_SCHEMA, Second, day, write
from eventide.demo.telling import pane_line, progress_line
from eventide.testing.picture import Event, Facet, Pane, Timeline, pictures

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
    .trigger(ev.after_watermark(early=ev.every("2 seconds"), late=ev.on_update()))
    .lateness("20 seconds")
    .retracting()
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
        for row in sorted(rows, key=lambda row: (row["diff"], row["window"]["start"])):
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
    query = ev.run(
        REVENUE,
        rows,
        panes=seen.pane,
        late=ev.sinks.noop(),
        dead=ev.sinks.noop(),
        checkpoint=str(place / "checkpoint"),
        trigger="1 second",
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
        watermarks=[(one.at, one.watermark) for one in seen.metrics if one.watermark is not None],
        panes=[_drawn(row) for row in seen.panes],
    )


def _drawn(row: dict[str, Any]) -> Pane:
    start, end = (int(row["window"][name].timestamp() * 1e6) for name in ("start", "end"))
    at = int(row["pane"]["at"].timestamp() * 1e6)
    return Pane("", start, end, at, str(row["revenue"]), row["pane"]["timing"], row["diff"])
