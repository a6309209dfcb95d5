"""Times of one day, and outputs in short."""

from __future__ import annotations

from typing import Any

import polars as pl

DAY = "2026-03-01T"
MINUTE = 60_000_000


def at(clock: str) -> str:
    """``"9:00:10"`` as an instant."""
    return f"{DAY}{clock.zfill(8)}Z"


def clock(instant: Any) -> str:
    """An instant as ``"9:00:10"``."""
    return f"{instant:%H:%M:%S}".lstrip("0") if instant is not None else "∞"


def emitted(outputs: pl.DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    """Outputs as (time of the output, start of the window, timing, the given columns)."""
    rows = []
    for row in outputs.iter_rows(named=True):
        start = row["window_start"]
        begin = start if isinstance(start, int) else clock(start)
        rows.append((clock(row["emitted_at"]), begin, row["pane_timing"], *(row[name] for name in columns)))
    return rows
