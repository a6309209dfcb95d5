"""What the demo shows, as rich tables."""

from __future__ import annotations

from typing import Any

import polars as pl
from rich import box
from rich.table import Table
from rich.text import Text

from eventide.demo.story import Chapter, Mark, Row, Tick
from eventide.demo.telling import COLOURS
from eventide.testing import TestStream
from eventide.testing.day import Day

_DAY = Day()


def emitted() -> Table:
    """An empty table for what happens; ``tell`` adds to it."""
    table = _table("clock", "in", "watermark", "window", "total", "timing")
    table.columns[2].justify = table.columns[4].justify = "right"
    return table


def tell(table: Table, step: Row | Mark | Tick, stream: TestStream, panes: pl.DataFrame) -> None:
    """Add what a step gave; a tick that gave nothing is not told."""
    if isinstance(step, Tick) and panes.is_empty():
        return
    front = [step.at, _came_in(step), _DAY.write(stream.watermark)]
    told = [_pane(row) for row in panes.iter_rows(named=True)]
    if not told and isinstance(step, Row):
        told = _aside(stream, step)
    for pane in told or [["", "", ""]]:
        table.add_row(*front, *pane)
        front = ["", "", ""]


def final(chapter: Chapter, panes: pl.DataFrame) -> Table:
    """The table that a reader of the panes ends up with."""
    window = pl.col("window").struct.field
    rows = panes.select(window("start", "end"), "total", "diff", index=pl.int_range(pl.len()))
    if chapter.last_counts:
        rows = rows.filter(pl.col("index") == pl.col("index").max().over("start", "end"))
    totals = rows.group_by("start", "end").agg((pl.col("total") * pl.col("diff")).sum(), pl.col("diff").sum())
    table = _table("window", "total")
    table.columns[1].justify = "right"
    for row in totals.filter(pl.col("diff") > 0).sort("start").iter_rows(named=True):
        table.add_row(_window(row), str(row["total"]))
    return table


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for column in columns:
        table.add_column(column, no_wrap=True)
    return table


def _came_in(step: Row | Mark | Tick) -> str:
    match step:
        case Row(_, time, score):
            return f"{score} of {time or 'no time'}"
        case Mark():
            return "watermark"
        case Tick():
            return ""


def _pane(row: dict[str, Any]) -> list[str | Text]:
    taken_back = row["diff"] < 0
    style = "dim" if taken_back else COLOURS[row["pane"]["timing"]]
    total = "none" if row["total"] is None else str(row["total"])
    cells = [_window(row["window"]), f"−{total}" if taken_back else total, row["pane"]["timing"].replace("_", " ")]
    return [Text(cell, style=style) for cell in (*cells[:2], "retracted" if taken_back else cells[2])]


def _aside(stream: TestStream, step: Row) -> list[list[str | Text]]:
    """A row that entered no window says where it went."""
    counts = stream.counts
    if step.time is None and counts.dead:
        return [[Text("→ dead letters", style="magenta"), "", ""]]
    if counts.late:
        return [[Text("→ late output", style="magenta"), "", ""]]
    return []


def _window(bounds: dict[str, Any]) -> str:
    return f"[{_DAY.write(_us(bounds['start']))}, {_DAY.write(_us(bounds['end']))})"


def _us(value: Any) -> int:
    return _DAY.read(value, "window")
