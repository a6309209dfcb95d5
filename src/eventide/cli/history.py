"""The history of a query, read from its file, and its picture as an HTML page."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import polars as pl

from eventide.dashboards import series
from eventide.errors import EventideError, PlanError
from eventide.metrics import instant_text
from eventide.spark.batch_history import FILE, OTHER_LINES, older_file, read_lines
from eventide.spark.metrics import BatchMetrics, from_json
from eventide.spark.pane_counts import WindowPanes
from eventide.testing.chart_page import pictures
from eventide.testing.chart_timeline import Density, Event, Facet, Pane, Timeline, Timing
from eventide.time import MAX, MIN, instant

_ORIGINS = 6  # charts of origins
_PANES = 300  # panes that remain distinguishable in a chart
_DENSITIES = 60  # histograms of consecutive batches that remain distinguishable


@dataclass(frozen=True)
class QueryHistory:
    """Batches and panes, oldest first. Of a repeated batch the last attempt counts."""

    batches: Sequence[BatchMetrics]
    windows: Sequence[WindowPanes]


def read_history(path: str | Path) -> QueryHistory:
    """Read the history in a file, or of a checkpoint."""
    file = Path(path) / FILE if Path(path).is_dir() else Path(path)
    if not file.is_file():
        raise PlanError(
            f"There is no history in {str(path)!r}. A query writes one next to a checkpoint on this machine, and "
            "another into a file: eventide run --trace FILE, or pipeline.run(…, trace=FILE)."
        )
    batches: dict[tuple[int, int, datetime], BatchMetrics] = {}
    windows: dict[WindowPanes, None] = {}
    for number, line in _lines(file):
        try:
            entry = json.loads(line)
            if "window" in entry:
                windows[_window_panes(entry["window"])] = None
            elif entry.keys().isdisjoint(OTHER_LINES):
                metrics = from_json(entry)
                batches[metrics.batch, metrics.depth, metrics.at] = metrics
        except (ValueError, KeyError, TypeError, AttributeError, EventideError) as cause:
            raise PlanError(f"{str(file)!r}, line {number}, is not a history line of a query.") from cause
    return QueryHistory(list(batches.values()), list(windows))


def _lines(file: Path) -> Iterator[tuple[int, bytes]]:
    older = older_file(file)
    for path in (older, file) if older.is_file() else (file,):
        yield from enumerate(read_lines(path)[0], 1)


def _window_panes(entry: Mapping[str, Any]) -> WindowPanes:
    return WindowPanes(**dict(entry) | {name: instant(entry[name]) for name in ("start", "end", "at")})


def history_page(history: QueryHistory, *, title: str, last: int) -> str:
    """Return a self-contained HTML page: the watermark and panes, then the watermark of each slow origin."""
    batches = _newest([batch for batch in history.batches if batch.depth == 0], last)
    aside = [*_late_rows(batches), *_dead_letters(batches)]
    whole = Timeline(aside, _steps(batches), _panes(history, batches), densities=_densities(batches))
    facets = [Facet("All origins", whole, _caption(history, batches, len(whole.panes)))]
    for name in _origins(batches)[:_ORIGINS]:
        facets.append(
            Facet(f"Origin {name}", Timeline(watermarks=_steps_of(name, batches)), _origin_caption(name, batches))
        )
    return pictures(facets, title=title, text=_intro(batches))


def _newest(batches: Sequence[BatchMetrics], last: int) -> list[BatchMetrics]:
    return sorted(batches, key=lambda batch: batch.at)[-last:]


def _steps(batches: Sequence[BatchMetrics]) -> list[tuple[int, int]]:
    return [(instant(batch.at), instant(batch.watermark)) for batch in batches if batch.watermark is not None]


def _steps_of(name: str | None, batches: Sequence[BatchMetrics]) -> list[tuple[int, int]]:
    times = [(batch.at, time) for batch in batches for origin, time in batch.slowest if origin == name]
    return [(instant(at), instant(time)) for at, time in times if time is not None]


def _origins(batches: Sequence[BatchMetrics]) -> list[str | None]:
    """Return the origins that held the watermark back, most often first."""
    held = [batch.least_origin for batch in batches]
    names = dict.fromkeys(name for batch in reversed(batches) for name, _ in batch.slowest)
    return sorted(names, key=lambda name: -held.count(name))


def _panes(history: QueryHistory, batches: Sequence[BatchMetrics]) -> list[Pane]:
    since = instant(batches[0].at) if batches else MAX
    shown = [panes for panes in history.windows if panes.at >= since][-_PANES:]
    return [
        Pane("", panes.start, panes.end, panes.at, f"{panes.keys:,}", cast(Timing, panes.timing), panes.diff)
        for panes in shown
    ]


def _densities(batches: Sequence[BatchMetrics]) -> list[Density]:
    """Return the histograms of event times, those of consecutive batches added up."""
    known = [(instant(batch.at), batch.event_times) for batch in batches if batch.event_times is not None]
    rows = [(at, instant(times.low), instant(times.high), times.rows) for at, times in known]
    columns: dict[str, Any] = {
        "at": pl.Int64,
        "event_low": pl.Int64,
        "event_high": pl.Int64,
        "density": pl.List(pl.Int64),
    }
    summed = series.densities(pl.DataFrame(rows, schema=columns, orient="row"), _DENSITIES)
    return [Density(*values) for values in zip(*(summed[name] for name in ("at", "low", "high", "rows")), strict=True)]


def _late_rows(batches: Sequence[BatchMetrics]) -> list[Event]:
    """Return a mark for the late rows of each batch and event time. Without a known time they are at the left edge."""
    rows = [
        (instant(batch.at), batch.late, [instant(time) for time, _ in batch.late_times] or None, _late_numbers(batch))
        for batch in batches
    ]
    columns: dict[str, Any] = {
        "at": pl.Int64,
        "late": pl.Int64,
        "late_times": pl.List(pl.Int64),
        "late_rows": pl.List(pl.Int64),
    }
    marks = series.late_rows(pl.DataFrame(rows, schema=columns, orient="row"))
    return [
        Event(MIN if time is None else time, at, f"{number:,}" if number > 1 else "", "late", number)
        for at, time, number in marks.iter_rows()
    ]


def _late_numbers(batch: BatchMetrics) -> list[int] | None:
    return [number for _, number in batch.late_times] or None


def _dead_letters(batches: Sequence[BatchMetrics]) -> list[Event]:
    """Return a mark for the dead letters of each batch, at the left edge."""
    numbers = [(instant(batch.at), sum(batch.dead.values()), " ".join(batch.dead)) for batch in batches if batch.dead]
    return [Event(MIN, at, f"{number:,} {reasons}", "dead", number) for at, number, reasons in numbers if number]


def _intro(batches: Sequence[BatchMetrics]) -> str:
    if not batches:
        return "No batch has ended yet."
    rows = sum(batch.rows for batch in batches)
    return (
        f"{len(batches):,} batches from {instant_text(batches[0].at)} to {instant_text(batches[-1].at)}, "
        f"{rows:,} rows. Event time runs across, processing time upwards: the nearer the watermark is to the ideal, "
        "the fresher the results."
    )


def _caption(history: QueryHistory, batches: Sequence[BatchMetrics], panes: int) -> str:
    late, dead = sum(batch.late for batch in batches), sum(sum(batch.dead.values()) for batch in batches)
    aside = f"{late:,} late rows, {dead:,} dead letters. {_end(batches)}"
    if panes:
        return f"{aside}A number is that of the keys for which the window was emitted."
    hint = "" if history.windows else "With state on the executors, panes are drawn for a query that runs with --trace."
    return aside + hint


def _end(batches: Sequence[BatchMetrics]) -> str:
    """Return when the stream was drained, which a chart cannot show."""
    ended = next((batch for batch in batches if batch.drained), None)
    return "" if ended is None else f"At {instant_text(ended.at)} the stream was drained: its time has ended. "


def _origin_caption(name: str | None, batches: Sequence[BatchMetrics]) -> str:
    if batches and batches[-1].drained:
        batches = [batch for batch in batches if not batch.drained]  # a drained stream waits for no origin
    held = sum(batch.least_origin == name for batch in batches)
    idle = " It is idle now." if batches and name in batches[-1].idle_origins else ""
    return f"It held the watermark back in {held:,} of {len(batches):,} batches.{idle}"
