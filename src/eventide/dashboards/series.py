"""Batches as a limited number of points for charts: sums and extremes are kept."""

from __future__ import annotations

from typing import Any

import polars as pl

from eventide.dashboards.history_tables import DEAD, PHASES, TIMINGS
from eventide.kernels.intervals import int_max, int_min

POINTS = 600
"""The number of points that a chart gets at most."""

PANES = 800
"""The number of panes that a chart gets at most."""

LATE_MARKS = 900
"""Marks of late rows from which those of consecutive batches are added up."""

LATE_ROWS = 160
"""The number of groups of consecutive batches whose late rows are added up."""

BINS = 24
"""The number of bins in the histogram of event times of a batch."""

SUMS = ("rows", "kept", "late", "refined", "retractions", "written", *DEAD, *TIMINGS.values())
_LEVELS = ("open_windows", "state_bytes", "pages", "gaps", "idle", "in_flight")


def of_query(batches: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each batch: rows and the watermark of the first operator, panes of the last, state of all."""
    first = batches.filter(pl.col("depth") == 0)
    last = batches["depth"].max()
    if not last:
        return first
    emitted = [*TIMINGS.values(), "retractions"]
    panes = batches.filter(pl.col("depth") == last).select("batch", "at", *emitted)
    state = batches.group_by("batch", "at").agg(pl.col("state_bytes", "open_windows", "pages", "written").sum())
    joined = first.drop(*emitted, "state_bytes", "open_windows", "pages", "written")
    joined = joined.join(panes, on=["batch", "at"], how="left").join(state, on=["batch", "at"], how="left")
    return joined.with_columns(pl.col(*emitted).fill_null(0)).sort("at")


def between(batches: pl.DataFrame, since: int | None, until: int | None) -> pl.DataFrame:
    """Return the batches of a range of processing time, and the batch before and after it, so that lines continue."""
    if since is None and until is None:
        return batches
    low = 0 if since is None else int(batches["at"].search_sorted(since, "left")) - 1
    high = batches.height if until is None else int(batches["at"].search_sorted(until, "right")) + 1
    low = max(low, 0)
    return batches.slice(low, max(min(high, batches.height) - low, 0))


def downsample(batches: pl.DataFrame, points: int = POINTS) -> pl.DataFrame:
    """Return at most ``points`` rows for consecutive batches: sums of counts, the highest and lowest of levels.

    >>> from eventide.dashboards.history_tables import HistoryTables
    >>> tables = HistoryTables()
    >>> lines = [{"batch": n, "depth": 0, "at": f"2026-03-01T12:00:0{n}Z", "rows": n} for n in range(6)]
    >>> tables.add(lines)
    True
    >>> downsample(tables.batches, 2)["rows"].to_list()
    [3, 12]
    """
    lag = (pl.col("at") - pl.col("watermark")).alias("lag")
    latency = latency_parts(batches)
    numbered = batches.with_columns(
        lag, *latency, (pl.int_range(pl.len()) * points // pl.len().clip(points)).alias("point")
    )
    level = [pl.col(name).max().alias(name) for name in _LEVELS]
    grouped = numbered.group_by("point", maintain_order=True).agg(
        pl.col("at").last(),
        pl.col("at").first().alias("since"),
        pl.col("batch").first().alias("first_batch"),
        pl.col("batch").last(),
        pl.len().alias("batches"),
        pl.col("watermark").last(),
        pl.col("watermark").min().alias("watermark_low"),
        pl.col("drained").any(),
        pl.col("lag").max(),
        pl.col(*SUMS).sum(),
        *level,
        pl.col("state_bytes").last().alias("state_bytes_last"),
        pl.col("seconds").max().alias("seconds_max"),
        pl.col("seconds", *PHASES).sum(),
        pl.col(*PHASES).count().name.suffix("_known"),
        pl.col(*(part.name for part in latency)).mean(),
        pl.col("event_low").min(),
        pl.col("event_high").max(),
    )
    return grouped.drop("point")


def latency_parts(batches: pl.DataFrame) -> list[pl.Series]:
    """Return an estimate of the time from an event to its on-time pane, in parts that add up; null without a watermark.

    The lag of the watermark is the distance of the slowest origin from the median of the listed origins, and the rest:
    disorder, with the delay of the watermark. A row then waits half an interval for its batch, on average, and for the
    duration of the batch.

    >>> from eventide.dashboards.history_tables import HistoryTables
    >>> tables = HistoryTables()
    >>> line = {"depth": 0, "watermark": "2026-03-01T12:00:01Z", "seconds": 0.5, "slowest": [
    ...     {"origin": name, "watermark": f"2026-03-01T12:00:{time}Z"} for name, time in (("a", "01"), ("b", "04"))]}
    >>> tables.add(line | {"batch": n, "at": f"2026-03-01T12:00:1{n}Z"} for n in (0, 2))
    True
    >>> [(part.name, part.to_list()) for part in latency_parts(tables.batches)]  # doctest: +NORMALIZE_WHITESPACE
    [('disorder', [6000000, 8000000]), ('slowest', [3000000, 3000000]), ('interval', [1000000, 1000000]),
     ('processing', [500000, 500000])]
    """
    lag = pl.col("at") - pl.col("watermark")
    slowest = (pl.col("median_origin") - pl.col("watermark")).clip(0, lag.clip(0)).fill_null(0)
    interval = pl.col("at").diff().median().fill_null(0) / 2
    parts = batches.select(
        (lag - slowest).alias("disorder"),
        slowest.alias("slowest"),
        interval.cast(pl.Int64).alias("interval"),
        (pl.col("seconds") * 1_000_000).round().cast(pl.Int64).alias("processing"),
    )
    known = batches["watermark"].is_not_null()
    return [part.set(~known, None) for part in parts.get_columns()]


def late_rows(batches: pl.DataFrame, most: int = LATE_MARKS) -> pl.DataFrame:
    """Return the number of late rows by batch and event time; ``time`` is null where the history has no event times.

    Of too many marks, those of consecutive batches are added up.
    """
    columns = ("at", "late", "late_times", "late_rows")
    late = batches.filter(pl.col("late") > 0).select(*columns).with_row_index("row")
    known = late.filter(pl.col("late_times").is_not_null()).explode("late_times", "late_rows")
    placed = known.select("row", "at", pl.col("late_times").alias("time"), pl.col("late_rows").alias("rows"))
    rest = late.join(placed.group_by("row").agg(pl.col("rows").sum()), on="row", how="left")
    unplaced = (pl.col("late") - pl.col("rows").fill_null(0)).alias("rows")
    missing = rest.select("row", "at", pl.lit(None, pl.Int64).alias("time"), unplaced).filter(pl.col("rows") > 0)
    marks = pl.concat([placed, missing]).sort("row", "time", nulls_last=True)
    if marks.height > most:
        marks = _merged(marks)
    return marks.select("at", "time", "rows")


def _merged(marks: pl.DataFrame) -> pl.DataFrame:
    """Add up the marks of each cell in a grid of processing time and event time."""
    low, high = int_min(marks["time"]) or 0, int_max(marks["time"]) or 0
    row = (pl.int_range(pl.len()) * LATE_ROWS // pl.len()).alias("up")
    column = ((pl.col("time") - low) * (BINS - 1) // max(high - low, 1)).alias("across")
    cells = marks.with_columns(row, column).group_by("up", "across", maintain_order=True)
    return cells.agg(pl.col("at").last(), pl.col("time").mean().cast(pl.Int64), pl.col("rows").sum())


def densities(batches: pl.DataFrame, points: int = 240) -> dict[str, list[Any]]:
    """Return the histogram of event times of consecutive batches: low, high, and rows of each bin.

    The bins of a group are as wide as the narrowest of its batches, if that gives few enough. The bins of a batch are
    spread over them by their middle, so that the rows add up.
    """
    known = batches.filter(pl.col("density").is_not_null() & (pl.col("event_high") >= pl.col("event_low")))
    if known.is_empty():
        return {"at": [], "since": [], "low": [], "high": [], "rows": []}
    group = (pl.int_range(pl.len()) * points // pl.len().clip(points)).alias("group")
    width = ((pl.col("event_high") - pl.col("event_low")) / pl.col("density").list.len()).alias("width")
    known = known.with_columns(group, width).with_columns(
        pl.col("event_low").min().over("group").alias("low"), pl.col("event_high").max().over("group").alias("high")
    )
    span = (pl.col("high") - pl.col("low")).clip(1)
    bins = (span / pl.col("width").min().over("group").clip(1)).round().cast(pl.Int64).clip(1, BINS).alias("bins")
    known = known.with_columns(bins)
    each = known.with_columns(pl.int_ranges(pl.col("density").list.len()).alias("bin")).explode("density", "bin")
    middle = pl.col("event_low") + (pl.col("bin") + 0.5) * pl.col("width")
    place = ((middle - pl.col("low")) * pl.col("bins") / span).cast(pl.Int64).clip(0, pl.col("bins") - 1)
    summed = each.group_by("group", place.alias("place")).agg(pl.col("density").sum())
    rows = {(group, place): number for group, place, number in summed.iter_rows()}
    groups = known.group_by("group", maintain_order=True).agg(
        pl.col("at").last(), pl.col("at").first().alias("since"), pl.col("low", "high", "bins").first()
    )
    return {
        **{name: groups[name].to_list() for name in ("at", "since", "low", "high")},
        "rows": [
            [rows.get((group, bin_), 0) for bin_ in range(bins)] for group, bins in groups["group", "bins"].rows()
        ],
    }


def newest_panes(windows: pl.DataFrame, since: int | None, until: int | None, most: int = PANES) -> pl.DataFrame:
    """Return the panes of a range of processing time; of too many, the newest."""
    if since is not None:
        windows = windows.filter(pl.col("at") >= since)
    if until is not None:
        windows = windows.filter(pl.col("at") <= until)
    return windows.tail(most)
