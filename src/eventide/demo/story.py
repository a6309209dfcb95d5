"""The story of the demo: the ten integers of "Streaming 102", one of them late, and two rows that reach no window.

Nine of the event and arrival times are those of the book "Streaming Systems"; the 4 is placed where the article's
results put it. The watermark is heuristic, and too fast for the 9.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl
from rich import box
from rich.table import Table
from rich.text import Text

from eventide import aggregates
from eventide.demo.live import COLOURS
from eventide.panes import DIFF, PANE_TIMING, WINDOW, WINDOW_START
from eventide.plan import Pipeline, WindowedStream, stream
from eventide.testing import TestStream
from eventide.testing.rows import Day
from eventide.triggers import every
from eventide.windows import sessions, tumbling

_DAY = Day()


def emitted() -> Table:
    """Return an empty table of steps. ``add_step`` adds to it."""
    table = _table("clock", "in", "watermark", "window", "total", "timing")
    table.columns[2].justify = table.columns[4].justify = "right"
    return table


def add_step(table: Table, step: Row | WatermarkAdvance | Tick, stream: TestStream, panes: pl.DataFrame) -> None:
    """Add the output of a step. A tick without output is left out."""
    if isinstance(step, Tick) and panes.is_empty():
        return
    front = [step.at, _description(step), _DAY.write(stream.watermark_us)]
    cells = [_pane(row) for row in panes.iter_rows(named=True)]
    if not cells and isinstance(step, Row):
        cells = _side_output(stream, step)
    for pane in cells or [["", "", ""]]:
        table.add_row(*front, *pane)
        front = ["", "", ""]


def final(chapter: Chapter, panes: pl.DataFrame) -> Table:
    """Return the table that the panes add up to."""
    rows = panes.select(*WINDOW, "total", DIFF, index=pl.int_range(pl.len()))
    if chapter.last_counts:
        rows = rows.filter(pl.col("index") == pl.col("index").max().over(WINDOW))
    totals = rows.group_by(WINDOW).agg((pl.col("total") * pl.col(DIFF)).sum(), pl.col(DIFF).sum())
    table = _table("window", "total")
    table.columns[1].justify = "right"
    for row in totals.filter(pl.col(DIFF) > 0).sort(WINDOW_START).iter_rows(named=True):
        table.add_row(_window(row), str(row["total"]))
    return table


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for column in columns:
        table.add_column(column, no_wrap=True)
    return table


def _description(step: Row | WatermarkAdvance | Tick) -> str:
    match step:
        case Row(_, time, score):
            return f"{score} of {time or 'no time'}"
        case WatermarkAdvance():
            return "watermark"
        case Tick():
            return ""


def _pane(row: dict[str, Any]) -> list[str | Text]:
    is_retraction = row[DIFF] < 0
    style = "dim" if is_retraction else COLOURS[row[PANE_TIMING]]
    total = "none" if row["total"] is None else str(row["total"])
    cells = [_window(row), f"−{total}" if is_retraction else total, row[PANE_TIMING].replace("_", " ")]
    return [Text(cell, style=style) for cell in (*cells[:2], "retracted" if is_retraction else cells[2])]


def _side_output(stream: TestStream, step: Row) -> list[list[str | Text]]:
    """Return the side output of a row that entered no window."""
    counts = stream.counts
    if step.time is None and counts.dead:
        return [[Text("→ dead letters", style="magenta"), "", ""]]
    if counts.late:
        return [[Text("→ late output", style="magenta"), "", ""]]
    return []


def _window(row: dict[str, Any]) -> str:
    start, end = (_DAY.write(_us(row[name])) for name in WINDOW)
    return f"[{start}, {end})"


def _us(value: Any) -> int:
    return _DAY.read(value, "window")


TRUTH = 51


@dataclass(frozen=True)
class Row:
    """A row arrives: ``score`` happened at ``time``."""

    at: str
    time: str | None
    score: int


@dataclass(frozen=True)
class WatermarkAdvance:
    """The watermark advances."""

    at: str
    to: str


@dataclass(frozen=True)
class Tick:
    """Processing time advances."""

    at: str


STORY: tuple[Row | WatermarkAdvance | Tick, ...] = (
    Row("12:05:19", "12:00:26", 5),
    Row("12:05:39", "12:02:26", 7),
    WatermarkAdvance("12:05:58", "12:02"),
    Tick("12:06:00"),
    Row("12:06:13", "12:03:39", 3),
    Row("12:06:26", "12:03:53", 4),
    Row("12:06:39", "12:04:19", 3),
    Tick("12:07:00"),
    Row("12:07:06", "12:03:06", 8),
    Row("12:07:19", "12:06:39", 3),
    WatermarkAdvance("12:07:30", "12:04"),
    WatermarkAdvance("12:07:40", "12:06"),
    Tick("12:08:00"),
    Row("12:08:19", "12:01:26", 9),
    Row("12:08:39", "12:07:26", 8),
    Row("12:09:00", "12:07:46", 1),
    WatermarkAdvance("12:09:30", "12:09"),
    Row("12:09:45", "11:58:10", 6),
    Row("12:09:50", None, 2),
)


@dataclass(frozen=True)
class Chapter:
    """A pipeline, what to look at, and how its panes become one table."""

    title: str
    look: str
    pipeline: Pipeline
    last_counts: bool = False  # the last pane of a window is its result; else all rows times diff are


def chapters() -> list[Chapter]:
    """Return the four pipelines."""
    scores = stream(time="ts")
    fixed, growing = scores.window(tumbling("2 minutes")), scores.window(sessions("1 minute"))
    aligned = every("1 minute", aligned=True)
    return [
        Chapter(
            "Discarding",
            "Each pane has only what is new: the panes of a window add up to its total.",
            _total(fixed.emit(early="1 minute", allowed_lateness="5 minutes", mode="discarding")),
        ),
        Chapter(
            "Accumulating",
            "Each pane repeats the whole window: adding up panes counts rows twice, so keep the last one.",
            _total(fixed.emit(early="1 minute", allowed_lateness="5 minutes", mode="accumulating")),
            last_counts=True,
        ),
        Chapter(
            "Retracting",
            "Each pane retracts the one before (−): the rows add up, however often a window is emitted.",
            _total(fixed.emit(early="1 minute", allowed_lateness="5 minutes")),
        ),
        Chapter(
            "Sessions, retracting",
            "The windows themselves change: the 8 joins two sessions, and the late 9 joins sessions emitted before.",
            _total(growing.emit(early=aligned, allowed_lateness="5 minutes")),
        ),
    ]


def play(chapter: Chapter) -> Iterator[tuple[Row | WatermarkAdvance | Tick, TestStream]]:
    """Play the story step by step."""
    test = TestStream(chapter.pipeline, clock="12:05")
    for step in STORY:
        match step:
            case Row(at, time, score):
                test.add({"ts": time, "score": score}, at=at)
            case WatermarkAdvance(at, to):
                test.advance_processing_time(to=at).advance_watermark(to)
            case Tick(at):
                test.advance_processing_time(to=at)
        yield step, test


def _total(windows: WindowedStream) -> Pipeline:
    return windows.agg(total=aggregates.sum("score"))
