"""How the rows of a bundle are spread over event time, as a small histogram.

Stamped rows are cells, already counted by slice, so the histogram costs one grouping of the cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from eventide import _columns as c
from eventide.kernels.intervals import int_bounds
from eventide.operators.operator import Stamp
from eventide.operators.slices import windows_of
from eventide.plan.plan import Plan
from eventide.time import MAX, MIN
from eventide.windows import Inherit, Sessions, WindowKind

BINS = 24
"""The number of bins at most."""


def event_histogram(plan: Plan, stamps: Sequence[Stamp]) -> dict[str, Any] | None:
    """Return ``low``, ``high`` and the rows of equal bins between them; None where rows are not counted by slice."""
    window = getattr(plan, "window", None)
    if window is None or window.axis != "time" or isinstance(window, Inherit):
        return None
    cells = [stamp.stamped.cells for stamp in stamps]
    counted = [frame.select(c.SLICE, c.ROWS) for frame in cells if {c.SLICE, c.ROWS} <= set(frame.columns)]
    if not counted or not sum(frame.height for frame in counted):
        return None
    slices = pl.concat(counted).group_by(c.SLICE).agg(pl.col(c.ROWS).sum())
    slices = slices.join(_ends(window, slices[c.SLICE]), on=c.SLICE, how="inner").sort(c.SLICE)
    width = (pl.col(c.END) - pl.col(c.SLICE)).min().alias("width")
    low, high, narrowest = slices.select(pl.col(c.SLICE).min(), pl.col(c.END).max(), width).row(0)
    if low is None or low <= MIN or high >= MAX:
        return None
    span = high - low
    bins = min(BINS, max(span // max(narrowest, 1), 1))
    middle = (pl.col(c.SLICE) + pl.col(c.END)) // 2
    place = ((middle - low).cast(pl.Float64) * bins / span).cast(pl.Int64).clip(0, bins - 1)
    filled = dict(slices.group_by(place.alias("bin")).agg(pl.col(c.ROWS).sum()).iter_rows())
    return {"low": low, "high": high, "rows": [filled.get(number, 0) for number in range(bins)]}


def late_times(stamps: Sequence[Stamp]) -> list[tuple[int, int]]:
    """Return event times of late rows, each with the number of rows around it: of many times, the means of equal bins.

    Only rows that are late by the watermark before the bundle are here: merging sessions find others.
    """
    frames = [stamp.stamped.late for stamp in stamps]
    times = [frame[c.TIME] for frame in frames if frame is not None and c.TIME in frame.columns]
    late = pl.concat(times).drop_nulls() if times else pl.Series(c.TIME, [], pl.Int64)
    bounds = int_bounds(late)
    if bounds is None:
        return []
    low, high = bounds
    place = ((pl.col(c.TIME) - low).cast(pl.Float64) * BINS / max(high - low, 1)).cast(pl.Int64).clip(0, BINS - 1)
    bins = late.to_frame().group_by(place.alias("bin")).agg(pl.col(c.TIME).mean().cast(pl.Int64), pl.len()).sort("bin")
    return [(time, rows) for _, time, rows in bins.iter_rows()]


def _ends(window: WindowKind | Sessions, slices: pl.Series) -> pl.DataFrame:
    """The end of each slice: the first end of its windows; of sessions, the next stretch of their gap."""
    if isinstance(window, Sessions):
        gap = window.gap if isinstance(window.gap, int) else 1
        return pl.DataFrame({c.SLICE: slices, c.END: slices + gap})
    return windows_of(window, slices).group_by(c.SLICE).agg(pl.col(c.END).min())
