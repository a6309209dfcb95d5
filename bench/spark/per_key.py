"""The peer of ``triggers``: what a user writes without Eventide, one state call after the other for each key.

Written in good faith: rows are reduced with NumPy, all open windows of a key lie in one value (one read and one write
for each key and batch; a map would take two calls for each window), a timer is set once for each window, and what a key
has to tell is told at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

MINUTE = 60_000_000
COLUMNS = ("key", "start", "n", "total", "timing", "diff")


def schema(key: str) -> str:
    """Of the panes; the key is a number or its name."""
    return (
        f"key {'bigint' if key == 'key' else 'string'}, start bigint, n bigint, total double, timing string, diff int"
    )


class EarlyPanes(StatefulProcessor):
    """A pane for each window that has new rows in a batch, one when the watermark passes its end; retracting."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._open = handle.getValueState("open", "starts array<bigint>, ns array<bigint>, totals array<double>")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        windows = self._windows()
        told = []
        for start, n, total in _reduced(list(rows)):
            before = windows.get(start)
            if before is None:
                self._handle.registerTimer((start + MINUTE) // 1000)
                windows[start] = (n, total)
            else:
                told.append((key[0], start, *before, "EARLY", -1))
                windows[start] = (before[0] + n, before[1] + total)
            told.append((key[0], start, *windows[start], "EARLY", 1))
        self._keep(windows)
        yield pd.DataFrame(told, columns=COLUMNS)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        start = expiredTimerInfo.getExpiryTimeInMs() * 1000 - MINUTE
        windows = self._windows()
        last = windows.pop(start)
        self._keep(windows)
        yield pd.DataFrame([(key[0], start, *last, "EARLY", -1), (key[0], start, *last, "ON_TIME", 1)], columns=COLUMNS)

    def close(self) -> None:
        """Nothing is held."""

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


def _reduced(frames: list[pd.DataFrame]) -> Iterator[tuple[int, int, float]]:
    """Start, count and sum of each window that the rows of one key lie in."""
    times = np.concatenate([frame["ts"].to_numpy() for frame in frames]).astype("datetime64[us]").astype(np.int64)
    values = np.concatenate([frame["value"].to_numpy() for frame in frames])
    starts, place = np.unique(times - times % MINUTE, return_inverse=True)
    ns, totals = np.bincount(place), np.bincount(place, weights=values)
    return zip(starts.tolist(), ns.tolist(), totals.tolist(), strict=True)
