"""Sessions: bursts of one key's rows, held together by gaps that are short enough.

Unions of intervals: which of a key's intervals hang together. The answer does not depend on their order.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

import numpy as np
import polars as pl

from eventide._column_refs import Column, SparkColumn, named
from eventide._columns import AT, END, GAP, ROW, START
from eventide._display import described
from eventide._hints import with_option_hints
from eventide.errors import PlanError, did_you_mean, shown
from eventide.kernels.grouping import GROUP, number
from eventide.kernels.intervals import int_max, int_min
from eventide.time import duration, format_duration
from eventide.windows.kind import Axis, by_offset, ends_by_time
from eventide.windows.lateness import Lateness

Touching = Literal["merge", "split"]

# A duration begins with a digit, a sign, or is ISO-8601; every other plain name is a column.
_ISO = re.compile(r"P(\d|T\d)", re.IGNORECASE)


@described
@dataclass(frozen=True)
class Sessions:
    """A row opens ``[at, at + gap)``; overlapping windows of a key merge (touching ones by ``touching``).

    ``gap`` is a length, or the name of a column that holds one per row (µs or Duration). The union of intervals does
    not depend on the order in which they arrive. A session longer than ``max_duration`` is cut at its start plus
    multiples of it.
    """

    gap: int | str
    touching: Touching = "merge"
    max_duration: int | None = None
    axis: Axis = "time"
    by: str | None = None  # the column of an origin's own offsets
    timeout: int | None = None  # on the axis of rows

    def describe(self) -> str:
        """One line for ``explain()``."""
        if self.axis == "rows":
            assert isinstance(self.gap, int)
            rest = by_offset(self.by) + ends_by_time(self.timeout)
            return f"sessions that end after {self.gap - 1} rows without the key{rest}"
        gap = f"column {self.gap!r}" if isinstance(self.gap, str) else format_duration(self.gap)
        most = f", at most {format_duration(self.max_duration)}" if self.max_duration else ""
        apart = ", split when exactly that far apart" if self.touching == "split" else ""
        return f"sessions with gap {gap}{most}{apart}"


@with_option_hints
def sessions(
    gap: Column | timedelta,
    *,
    touching: Touching = "merge",
    max_duration: str | timedelta | None = None,
) -> Sessions:
    """Rows of one key at most ``gap`` apart are one window, however they arrive.

    ``gap`` is a duration, or the name of a column that holds each row's own gap (a Duration, or integer µs).

    >>> sessions("30 minutes").describe()
    'sessions with gap 30m'
    >>> sessions("30 minutes", max_duration="4 hours").describe()
    'sessions with gap 30m, at most 4h'
    >>> sessions("patience").describe()
    "sessions with gap column 'patience'"
    """
    if touching not in ("merge", "split"):
        raise PlanError(
            f"sessions(): touching={shown(touching)} is not known. {did_you_mean(str(touching), ['merge', 'split'])} "
            "'merge': rows exactly gap apart are one session; 'split': they are two."
        )
    most = None if max_duration is None else duration(max_duration, what="max_duration of sessions()")
    gap = named(gap)
    column = isinstance(gap, SparkColumn) or (isinstance(gap, str) and gap.isidentifier() and not _ISO.match(gap))
    if column and isinstance(gap, str):
        return Sessions(gap, touching, most)
    length = duration(gap, what="gap of sessions()")
    if most is not None and most < length:
        raise PlanError(
            f"sessions(): max_duration ({format_duration(most)}) is shorter than gap ({format_duration(length)}), so "
            "that even a single row's session would be cut. Make max_duration at least as long as gap."
        )
    return Sessions(length, touching, most)


RUN = "__run"
_FITS = 2**62  # of 64 bits with a sign


def may_prove_late(
    rows: pl.DataFrame, gap: int | str, expiry: Lateness, earliest: int | None, previous_watermark: int
) -> pl.DataFrame:
    """The rows whose own interval has expired: unless they join a session that is still live, they are late."""
    if earliest is None or earliest >= expiry.live_from(previous_watermark):
        return rows.clear()
    until = pl.col(AT) + (pl.col(GAP) if isinstance(gap, str) else gap)
    return rows.filter(expiry.is_expired(until, previous_watermark))


def merge_intervals(intervals: pl.DataFrame, key: Sequence[str], touching: Touching) -> pl.DataFrame:
    """Return the intervals ``[start, end)`` in their order, each with the number of the run that it merges into."""
    groups = number(intervals, key).rows[GROUP] if key else pl.zeros(intervals.height, pl.UInt32, eager=True)
    start, end, group = intervals[START], intervals[END], groups.cast(pl.Int64)
    low, high, last = int_min(start), int_max(end), int_max(group)
    if low is None or high is None or last is None or (last + 1) * (high - low + 1) > _FITS:
        order, begins = _wide_runs(start, end, group, touching)
    else:
        # Each group has a band of its own on one axis, so that one sort and one running maximum serve all of them.
        band = group * (high - low + 1) - low
        order, begins = _runs(start + band, end + band, touching)
    runs = np.empty(intervals.height, np.uint32)
    runs[order] = begins
    return intervals.with_columns(pl.Series(RUN, runs))


def _runs(start: pl.Series, end: pl.Series, touching: Touching) -> tuple[np.ndarray, np.ndarray]:
    """Return the order of the starts, and the number of the run of each in that order."""
    order = start.arg_sort()
    starts, reach = start.gather(order).to_numpy(), end.gather(order).cum_max().to_numpy()
    begins = np.ones(len(starts), np.uint32)
    begins[1:] = starts[1:] > reach[:-1] if touching == "merge" else starts[1:] >= reach[:-1]
    return order.to_numpy(), np.cumsum(begins, dtype=np.uint32)


def _wide_runs(start: pl.Series, end: pl.Series, group: pl.Series, touching: Touching) -> tuple[np.ndarray, np.ndarray]:
    """The same for groups that do not fit on one axis of 64 bits side by side."""
    rows = pl.DataFrame({START: start, END: end, GROUP: group}).with_row_index(ROW)
    rows = rows.sort(GROUP, START, maintain_order=True)
    reach = pl.col(END).cum_max().over(GROUP).shift(1)
    apart = pl.col(START) > reach if touching == "merge" else pl.col(START) >= reach
    first = pl.col(GROUP) != pl.col(GROUP).shift(1)
    begins = rows.select((first | apart).fill_null(True).cum_sum()).to_series()
    return rows[ROW].to_numpy(), begins.to_numpy()
