"""The peer of ``triggers``: what a user writes without Eventide, one call after the other for each key.

Written in good faith: all open windows of a key lie in one value (one read and one write for each key and batch; a map
would take two calls for each window), a timer is set once for each window, and frames are reduced with NumPy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

MINUTE = 60_000_000
COLUMNS = ("key", "start", "n", "total", "timing", "diff")


def schema(key: str) -> str:
    """Of the panes; the key is a number or its name."""
    return (
        f"key {'bigint' if key == 'key' else 'string'}, start bigint, n bigint, total double, timing string, diff int"
    )


class _Panes(StatefulProcessor):
    """A pane for each window that has new rows in a batch, one when the watermark passes its end; retracting."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._open = handle.getValueState("open", "starts array<bigint>, ns array<bigint>, totals array<double>")

    def close(self) -> None:
        """Nothing is held."""

    def _early(self, key: Any, news: Iterable[tuple[int, int, float]]) -> list[tuple[Any, ...]]:
        windows = self._windows()
        observed: list[tuple[Any, ...]] = []
        for start, n, total in news:
            before = windows.get(start)
            if before is None:
                self._handle.registerTimer((start + MINUTE) // 1000)
                windows[start] = (n, total)
            else:
                observed.append((key[0], start, *before, "EARLY", -1))
                windows[start] = (before[0] + n, before[1] + total)
            observed.append((key[0], start, *windows[start], "EARLY", 1))
        self._keep(windows)
        return observed

    def _on_time(self, key: Any, timer: Any) -> list[tuple[Any, ...]]:
        start = timer.getExpiryTimeInMs() * 1000 - MINUTE
        windows = self._windows()
        last = windows.pop(start)
        self._keep(windows)
        return [(key[0], start, *last, "EARLY", -1), (key[0], start, *last, "ON_TIME", 1)]

    def _windows(self) -> dict[int, tuple[int, float]]:
        kept = self._open.get()
        if kept is None:
            return {}
        starts, ns, totals = kept
        return {start: (n, total) for start, n, total in zip(starts, ns, totals, strict=True)}

    def _keep(self, windows: dict[int, tuple[int, float]]) -> None:
        if windows:
            ns, totals = zip(*windows.values(), strict=True)
            self._open.update((list(windows), list(ns), list(totals)))
        else:
            self._open.clear()


class ByFrames(_Panes):
    """For ``transformWithStateInPandas``."""

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        yield pd.DataFrame(self._early(key, _reduced_frames(list(rows))), columns=COLUMNS)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        yield pd.DataFrame(self._on_time(key, expiredTimerInfo), columns=COLUMNS)


class ByRows(_Panes):
    """For ``transformWithState``: no frame is made for a handful of rows."""

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        return map(_row, self._early(key, _reduced_rows(rows)))

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802, N803
        return map(_row, self._on_time(key, expiredTimerInfo))


def _row(values: tuple[Any, ...]) -> Row:
    return Row(**dict(zip(COLUMNS, values, strict=True)))


def _reduced_frames(frames: list[pd.DataFrame]) -> Iterator[tuple[int, int, float]]:
    """Start, count and sum of each window that the rows of one key lie in."""
    times = np.concatenate([frame["us"].to_numpy() for frame in frames])
    values = np.concatenate([frame["value"].to_numpy() for frame in frames])
    starts, place = np.unique(times - times % MINUTE, return_inverse=True)
    ns, totals = np.bincount(place), np.bincount(place, weights=values)
    return zip(starts.tolist(), ns.tolist(), totals.tolist(), strict=True)


def _reduced_rows(rows: Iterator[Row]) -> Iterator[tuple[int, int, float]]:
    reduced: dict[int, tuple[int, float]] = {}
    for row in rows:
        time: int = row.us
        start = time - time % MINUTE
        n, total = reduced.get(start, (0, 0.0))
        reduced[start] = (n + 1, total + row.value)
    return ((start, n, total) for start, (n, total) in reduced.items())
