"""A pipeline of one-minute windows with a given trigger, pushed bundle by bundle."""

from __future__ import annotations

from typing import Any

import polars as pl

import eventide as ev
from eventide.local import LocalQuery
from eventide.triggers import Trigger

SECOND = 1_000_000
END = 60 * SECOND

Said = tuple[str, int]
"""What a test looks at of a pane: its timing and how many rows it tells of."""


class Pushed:
    """A query whose bundles are given as event times in seconds."""

    def __init__(self, query: LocalQuery) -> None:
        self.query = query
        self.at = 0

    def __call__(self, *times: float, now: float | None = None, watermark: float | None = None) -> list[Said]:
        """Push rows; the clock stands still unless ``now`` says otherwise. Gives the panes."""
        self.at = self.at if now is None else int(now * SECOND)
        rows = pl.DataFrame({"t": [int(t * SECOND) for t in times]}, schema={"t": pl.Int64})
        mark = None if watermark is None else int(watermark * SECOND)
        self.last = self.query.push(rows, now=self.at, watermark=mark)
        return timings(self.last.panes)

    def drain(self) -> list[Said]:
        """End the stream."""
        self.last = self.query.drain()
        return timings(self.last.panes)

    def fields(self, name: str) -> list[Any]:
        """A column of the last bundle's panes."""
        return self.last.panes[name].to_list()


def timings(panes: pl.DataFrame) -> list[Said]:
    """Timing and count of each pane; retractions count below zero."""
    timing = pl.col("pane_timing").cast(pl.String)
    return panes.select(timing, pl.col("n") * pl.col("diff")).rows()


def pushed(
    trigger: Trigger,
    *,
    lateness: str = "0s",
    mode: Any = "accumulating",
    may_lose_data: bool = False,
    skip_unchanged: bool = False,
    window: Any = None,
) -> Pushed:
    """A query over one-minute windows, without a watermark of its own."""
    windows = ev.stream(time="t").window(window or ev.tumbling("1m"))
    emitting = windows.trigger(
        trigger,
        mode=mode,
        allowed_lateness=lateness,
        skip_unchanged=skip_unchanged,
        may_lose_data=may_lose_data,
    )
    return Pushed(emitting.agg(n=ev.count()).start_local())
