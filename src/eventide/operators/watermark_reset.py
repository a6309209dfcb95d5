"""Lower a watermark that went too far: when state allows it, and what has closed meanwhile.

A watermark never decreases by itself. Lowering it is a deliberate reset. Windows that closed are gone from state, so
rows for them open them again as new windows. Windows that are complete but still in state have emitted their on-time
pane, and cannot become incomplete again; where there are such windows, the reset is rejected.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import polars as pl

from eventide import _columns as c
from eventide.plan.plan import Plan, spans_bundles
from eventide.plan.process_plan import ProcessPlan
from eventide.state.operator_state import State
from eventide.time import MAX, MIN, format_instant
from eventide.watermarks import Watermark
from eventide.watermarks.generators import Noted
from eventide.windows import WindowKind
from eventide.windows.kind import END, SLICE, START
from eventide.windows.lateness import is_complete

_BOUNDS = pl.Schema({"start": pl.Int64, "end": pl.Int64})


def reset_watermark(plan: Plan, state: State, to: int) -> State:
    """The state with all of its watermarks lowered to ``to``, where they are higher."""
    tracker = state.tracker.copy()
    for key in dict.fromkeys(source.watermark.options.watermark_key for source in plan.edges):
        tracker.lower_to(Watermark(key, to))
    return replace(state, tracker=tracker, watermark=min(state.watermark, to))


def reset_problem(plan: Plan, windows: pl.DataFrame, *, watermark: int, to: int) -> str | None:
    """Why a watermark cannot be lowered, or None. ``windows`` are the bounds of what state holds."""
    if (problem := reset_problem_of_time(watermark, to)) is not None:
        return problem
    if isinstance(plan, ProcessPlan):
        return f"the processor {plan.name!r} relies on a watermark that never decreases"
    if spans_bundles(plan):
        return "calls span bundles (map_async(across_bundles=True)), and hold watermarks of their own back"
    for source in plan.edges:
        if source.watermark.generator.clock_delay is not None:
            return (
                "it follows the clock of the batches (ev.processing_time, at_latest=), and would be as high again in "
                "the next batch"
            )
        if isinstance(source.watermark.generator, Noted):
            return "it follows what the writers of the stream noted (ev.noted), which cannot be withdrawn"
    if plan.window.axis == "rows":
        return None
    ends = _ends(plan.window, windows)
    complete = ends.filter(is_complete(ends, watermark) & ~is_complete(ends, to))
    if complete.is_empty():
        return None
    highest: Any = complete.max()
    return (
        f"state still holds windows that are complete, up to {format_instant(highest)}. They accept late rows, or "
        "share slices with open windows, and cannot become incomplete again"
    )


def reset_problem_of_time(watermark: int, to: int) -> str | None:
    """Why a watermark cannot be lowered, by its value alone."""
    if watermark == MAX:
        return "the stream was drained: all of its windows have closed. Use another checkpoint"
    if watermark == MIN:
        return "no watermark is known yet"
    if to >= watermark:
        return f"{format_instant(to)} is not below it"
    return None


def bounds_in(frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """``start`` and ``end`` of the windows in state; of cells, ``start`` is their slice and ``end`` is null."""
    parts = [_BOUNDS.to_frame()]
    for frame in frames:
        if c.END in frame.columns:
            parts.append(frame.select(pl.col(c.START).alias("start"), pl.col(c.END).alias("end")))
        elif c.SLICE in frame.columns:
            parts.append(frame.select(pl.col(c.SLICE).alias("start"), pl.lit(None, pl.Int64).alias("end")))
    return pl.concat(parts).unique()


def closed_windows(kind: Any, *, after: int, until: int, started_by: int, limit: int) -> list[tuple[int, int]]:
    """The first windows that end after ``after``, not after ``until``, and that start by ``started_by``.

    >>> import eventide as ev
    >>> closed_windows(ev.tumbling("1 minute"), after=0, until=10**15, started_by=60_000_000, limit=9)
    [(0, 60000000), (60000000, 120000000)]
    """
    if not isinstance(kind, WindowKind) or kind.axis != "time":
        return []
    bounds_found: dict[tuple[int, int], None] = {}
    at = after
    while at <= min(started_by, until) and len(bounds_found) < limit:
        slices = pl.select(kind.slice_of(pl.lit(at, pl.Int64)).alias(SLICE)).to_series().drop_nulls()
        windows = kind.windows_of(slices).filter(~is_complete(pl.col(END), at)).sort(END, START)
        if windows.is_empty():
            break
        closed = windows.filter(~is_complete(pl.col(END), after) & is_complete(pl.col(END), until))
        bounds_found |= dict.fromkeys(closed.select(START, END).rows())
        at = windows[END][0]
    return sorted(bounds_found, key=lambda bounds: (bounds[1], bounds[0]))[:limit]


def _ends(kind: Any, windows: pl.DataFrame) -> pl.Series:
    slices = windows.filter(pl.col("end").is_null() & pl.col("start").is_not_null())["start"].unique()
    ends = windows["end"].drop_nulls()
    return pl.concat([ends, kind.windows_of(slices)[END].cast(pl.Int64)]) if len(slices) else ends
