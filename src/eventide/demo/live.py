"""The live demo on Spark: a shop whose four tills write sales as files, and one loses its connection.

Each pane and each batch is printed as a line.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
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
from eventide.panes import DIFF, EMITTED_AT, PANE_TIMING, WINDOW, WINDOW_START
from eventide.spark.metrics import BatchMetrics
from eventide.testing.chart_page import pictures
from eventide.testing.chart_timeline import Event, Facet, Pane, Remark, Timeline
from eventide.time import MIN, instant

SCHEMA = {"ts": pl.Datetime("us", "UTC"), "till": pl.String(), "price": pl.Int64()}
SPARK_SCHEMA = "ts timestamp, till string, price bigint"
TILLS = ("north", "east", "south", "west")
SECONDS = 24  # of a cycle; a longer demonstration repeats it
STALLS, RETURNS = 8, 16  # seconds of a cycle: west is offline, and sends its buffered sales
OLD = 16  # seconds before a cycle: a sale that is too late for its window, and still close enough for a picture
SILENT = "west"


@dataclass(frozen=True)
class Second:
    """The sales of one second."""

    number: int
    sales: pl.DataFrame
    news: str = ""


def day(opening: datetime, seconds: int) -> Iterator[Second]:
    """Yield the sales of each second. They are the same in every run, except for the time of day."""
    rng = Random(102)
    buffered: list[tuple[datetime, str, int]] = []
    for number in range(seconds):
        second = number % SECONDS
        sales: list[tuple[datetime | None, str, int]] = []
        for till in TILLS:
            for _ in range(rng.randint(1, 3)):
                when = opening + timedelta(seconds=number - rng.uniform(0, 1.5))
                sale = (when, till, rng.randint(1, 20))
                (buffered if till == SILENT and STALLS <= second < RETURNS else sales).append(sale)
        news = ""
        if second == STALLS:
            news = f"till {SILENT!r} has lost its connection"
        if second == RETURNS:
            news, sales = f"till {SILENT!r} is back, with {len(buffered)} buffered sales", [*sales, *buffered]
            buffered = []
        if second == RETURNS + 4:
            old = (opening + timedelta(seconds=number - second - OLD), "south", 7)
            news, sales = "a sale from long ago, and one without a time", [*sales, old, (None, "east", 3)]
        yield Second(number, pl.DataFrame(sales, schema=SCHEMA, orient="row"), news)


def write(second: Second, place: Path) -> None:
    """Write the sales as a file that appears atomically."""
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
    retracted = row[DIFF] < 0
    amount = f"−{row['revenue']}" if retracted else str(row["revenue"])
    timing = "retracted" if retracted else row[PANE_TIMING].replace("_", " ")
    style = "dim" if retracted else COLOURS[row[PANE_TIMING]]
    return Text(f"      [{start}, {end})  {amount:>6} of {row['sales']:>3} sales  {timing}", style=style)


def progress_line(metrics: BatchMetrics, total: int, rate: float, *, what: str = "rows") -> Text:
    """Return the line of a batch. ``total`` and ``rate`` count all rows since the start; ``what`` names them."""
    known = None if metrics.watermark is None else instant_text(metrics.watermark).split("T")[-1][:10].rstrip("Z")
    watermark = "drained" if metrics.drained else known or "unknown"
    lag = f", {lag_text(metrics.lag)}" if metrics.lag else ""
    idle = f", not waiting for {idle_text(metrics)}" if metrics.idle_origins else ""
    return Text(f"      {total:,} {what} ({rate:,.0f}/s)  watermark {watermark}{lag}{idle}", style="cyan")


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


class Recorder:
    """Prints and records panes and batches, for the summary and the picture at the end."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self.panes: list[dict[str, Any]] = []
        self.metrics: list[ev.BatchMetrics] = []
        self.sent: list[tuple[int, pl.DataFrame]] = []
        self.late: list[dict[str, Any]] = []
        self.dead: list[dict[str, Any]] = []
        self.headlines: list[tuple[int, int]] = []  # when, and the second of its cycle
        self._started = time.monotonic()

    def pane(self, batch: Any, batch_id: int) -> None:
        """Record the panes of a batch, retractions first."""
        rows = batch.toArrow().to_pylist()
        for row in sorted(rows, key=lambda row: (row[DIFF], row[WINDOW_START])):
            self.panes.append(row)
            self._console.print(pane_line(row))

    def late_rows(self, batch: Any, batch_id: int) -> None:
        """Record the late rows of a batch."""
        self.late += batch.toArrow().to_pylist()

    def dead_letters(self, batch: Any, batch_id: int) -> None:
        """Record the dead letters of a batch."""
        self.dead += batch.toArrow().to_pylist()

    def progress(self, metrics: ev.BatchMetrics) -> None:
        """Record the metrics of a batch."""
        self.metrics.append(metrics)
        if metrics.rows:
            total = sum(batch.rows for batch in self.metrics)
            self._console.print(progress_line(metrics, total, total / (time.monotonic() - self._started), what="sales"))

    def news(self, second: Second) -> None:
        """Record the sales that were sent."""
        self.sent.append((time.time_ns() // 1000, second.sales))
        if second.news:
            self.headlines.append((time.time_ns() // 1000, second.number % SECONDS))
            self._console.print(f"[magenta]{second.number:>3} s  {second.news}[/magenta]")


def main(
    console: Console,
    picture: Path,
    *,
    seconds: int = SECONDS,
    watch: Callable[[str], object] | None = None,
    hold: Callable[[], object] | None = None,
) -> Recorder:
    """Run the shop for some seconds, drain the query, and check that nothing was lost.

    ``watch`` is called with the checkpoint, before the query starts. ``hold`` is called at the
    end, before the checkpoint is deleted.
    """
    console.print(f"[bold]{_TITLE}[/bold]\n{_INTRO}\n")
    console.print("[dim]Starting Spark …[/dim]")
    place = Path(tempfile.mkdtemp(prefix="eventide-demo-"))
    try:
        recorder = _run(console, place, seconds, watch)
        _summarize(console, recorder)
        picture.parent.mkdir(parents=True, exist_ok=True)
        page = pictures([Facet("", timeline(recorder))], title=_TITLE, text=_INTRO)
        picture.write_text(page, encoding="utf-8")
        console.print(f"The picture of it: {picture}", soft_wrap=True)
        if hold is not None:
            hold()
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return recorder


def _run(console: Console, place: Path, seconds: int, watch: Callable[[str], object] | None) -> Recorder:
    quick = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
    spark = ev.spark_session("eventide demo", cores=2, config={"spark.local.dir": str(place / "local"), **quick})
    (place / "sales").mkdir()
    rows = spark.readStream.schema(SPARK_SCHEMA).parquet(str(place / "sales"))
    recorder, checkpoint = Recorder(console), str(place / "shop")
    if watch is not None:
        watch(checkpoint)
    query = REVENUE.run(
        rows,
        sink=recorder.pane,
        late=recorder.late_rows,
        dead=recorder.dead_letters,
        checkpoint=checkpoint,
        interval="1 second",
        on_batch=recorder.progress,
    )
    try:
        _open_shop(recorder, query, place / "sales", seconds)
        sent = sum(sales.height for _, sales in recorder.sent)
        _wait(query, lambda: sum(batch.rows for batch in recorder.metrics) >= sent)
        console.print("[magenta]The shop closes: all windows are emitted for the last time.[/magenta]")
        query.control.drain()
        _wait(query, lambda: bool(recorder.metrics) and recorder.metrics[-1].drained)
    finally:
        query.stop()
        spark.stop()
    return recorder


def _open_shop(recorder: Recorder, query: ev.Query, place: Path, seconds: int) -> None:
    """Write a file per second, after the first batch of the query, which is slow."""
    first = next(iter(day(datetime.now(UTC), 1)))
    write(replace(first, number=99_999), place)
    recorder.news(first)
    _wait(query, lambda: bool(recorder.metrics))
    clock = threading.Event()
    for second in day(datetime.now(UTC), seconds):
        write(second, place)
        recorder.news(second)
        clock.wait(1)


def _wait(query: ev.Query, done: Any, timeout: float = 120) -> None:
    until = time.monotonic() + timeout
    while not done() and time.monotonic() < until:
        query.await_termination(1)


def _summarize(console: Console, recorder: Recorder) -> None:
    truth = int(sum(sales["price"].sum() for _, sales in recorder.sent))
    emitted = sum(row["revenue"] * row[DIFF] for row in recorder.panes)
    late = sum(batch.late for batch in recorder.metrics)
    dead = sum(sum(batch.dead.values()) for batch in recorder.metrics)
    rows = sum(batch.rows for batch in recorder.metrics)
    inside = sum(batch.kept for batch in recorder.metrics)
    console.print(
        f"\n{rows} sales = {inside} in windows + {late} too late + {dead} dead. "
        f"All panes times their diff: {emitted}; the tills sold {truth}, {truth - emitted} of it in late and dead rows."
    )


def timeline(recorder: Recorder) -> Timeline:
    """Return what was recorded, as the data of a picture: each sale with its fate, and what happened to the till."""
    late, dead = Counter(map(_sale, recorder.late)), Counter(map(_sale, recorder.dead))
    events = []
    for at, sales in recorder.sent:
        for row in sales.to_dicts():
            sale, time_ = _sale(row), MIN if row["ts"] is None else instant(row["ts"])
            if late[sale]:
                late[sale] -= 1
                events.append(Event(time_, at, f"{row['price']}: too late", "late"))
            elif dead[sale]:
                dead[sale] -= 1
                events.append(Event(time_, at, f"{row['price']}: no time", "dead"))
            else:
                events.append(Event(time_, at, ""))
    watermarks = [(instant(batch.at), instant(batch.watermark)) for batch in recorder.metrics if batch.watermark]
    return Timeline(events, watermarks, [_pane_in_picture(row) for row in recorder.panes], _notes(recorder))


def _sale(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in SCHEMA)


def _notes(recorder: Recorder) -> list[Remark]:
    """Return notes about the silent till: from when to when, when the watermark goes on, and its return."""
    notes = []
    stalled: int | None = None
    for at, second in recorder.headlines:
        if second == STALLS:
            stalled = at
        elif second == RETURNS:
            notes.append(Remark(at, f"till {SILENT!r} is back: late panes correct its windows"))
            if stalled is not None:
                idle = (instant(b.at) for b in recorder.metrics if SILENT in b.idle_origins)
                notes.append(Remark(stalled, f"till {SILENT!r} is silent; the watermark waits for it", at))
                notes += [Remark(since, "… and goes on without it") for since in idle if stalled < since < at][:1]
    return notes


def _pane_in_picture(row: dict[str, Any]) -> Pane:
    start, end = (int(row[name].timestamp() * 1e6) for name in WINDOW)
    at = int(row[EMITTED_AT].timestamp() * 1e6)
    return Pane("", start, end, at, str(row["revenue"]), row[PANE_TIMING], row[DIFF])
