"""The history of a query as columns: a row for each batch and operator, and a row for the panes of a window.

A history has a line of JSON for each batch. Lines are parsed once; later lines are appended to the columns.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from eventide.spark.batch_history import older_file, read_lines
from eventide.spark.metrics import REASONS
from eventide.time import instant

TIMINGS = {"EARLY": "early", "ON_TIME": "on_time", "LATE": "late_panes"}
PHASES = ("read", "compute", "deliver")
OTHER = "dead_other"
DEAD = (*(f"dead_{reason}" for reason in REASONS), OTHER)
COUNTS = (
    *("rows", "kept", "late", "refined", "retractions", "gaps", "origins", "open_windows", "in_flight"),
    *("pages", "state_bytes", "written", "buckets"),
)
_INSTANTS = ("at", "watermark", "median_origin", "event_low", "event_high")
_COLUMNS: dict[str, Any] = {
    "batch": pl.Int64,
    "depth": pl.Int64,
    **dict.fromkeys(_INSTANTS, pl.Int64),
    "drained": pl.Boolean,
    "idle": pl.Int64,
    **dict.fromkeys((*COUNTS, *DEAD, *TIMINGS.values()), pl.Int64),
    **dict.fromkeys(("seconds", *PHASES), pl.Float64),
    "density": pl.List(pl.Int64),
    "other_reasons": pl.List(pl.String),  # of dead letters, that this version does not know
    "other_rows": pl.List(pl.Int64),
    "late_times": pl.List(pl.Int64),
    "late_rows": pl.List(pl.Int64),
}
BATCHES = pl.Schema(_COLUMNS)
WINDOWS = pl.Schema(
    {
        "batch": pl.Int64,
        "start": pl.Int64,
        "end": pl.Int64,
        "timing": pl.String,
        "diff": pl.Int64,
        "keys": pl.Int64,
        "at": pl.Int64,
    }
)
_ISO = "%Y-%m-%dT%H:%M:%S%.fZ"
_COMMANDS = 50  # that are listed


@dataclass
class HistoryTables:
    """Batches and panes as columns, oldest first, and the newest entry of each operator."""

    batches: pl.DataFrame = field(default_factory=BATCHES.to_frame)
    windows: pl.DataFrame = field(default_factory=WINDOWS.to_frame)
    newest: dict[int, Mapping[str, Any]] = field(default_factory=dict)  # by depth
    commands: list[dict[str, Any]] = field(default_factory=list)  # that batches applied, oldest first
    failure: str | None = None  # why the query ended; None once another batch has ended
    unreadable: int = 0  # lines that are no history lines
    before: Mapping[str, Any] = field(default_factory=dict)  # totals of batches that the history no longer holds

    def add(self, entries: Iterable[Mapping[str, Any]]) -> bool:
        """Append entries, and return whether there were any. Of a repeated batch the last attempt counts."""
        batches: list[dict[str, Any]] = []
        windows, failures = [], 0
        for entry in entries:
            try:
                if "window" in entry:
                    windows.append(_window_row(entry["window"]))
                elif "totals" in entry:
                    if self.batches.is_empty() and not batches:  # otherwise those batches are here
                        self.before = dict(entry["totals"])
                        batches += [_batch_row(newest) for newest in self.before["newest"]]
                elif "failed" in entry:
                    self.failure, failures = str(entry["failed"]), failures + 1
                else:
                    batches.append(_batch_row(entry))
                    self.newest[batches[-1]["depth"]] = entry
                    self.failure = None
                    self._add_commands(entry)
            except (KeyError, TypeError, ValueError, AttributeError):
                self.unreadable += 1
        if batches:
            new = _with_instants(pl.DataFrame(batches, schema=_TEXT, orient="row"), _INSTANTS).select(*BATCHES)
            new = new.drop_nulls("at")
            both = pl.concat([self.batches, new])
            self.batches = both.unique(["batch", "depth", "at"], keep="last", maintain_order=True).sort("at", "depth")
        if windows:
            frame = _with_instants(pl.DataFrame(windows, schema=_WINDOW_TEXT, orient="row"), ("start", "end", "at"))
            self.windows = pl.concat([self.windows, frame.select(*WINDOWS).drop_nulls()]).unique(maintain_order=True)
        return bool(batches or windows or failures)

    def _add_commands(self, entry: Mapping[str, Any]) -> None:
        known = {command["id"] for command in self.commands}
        for effect in entry.get("commands", ()):
            if effect["id"] not in known:
                self.commands.append({**effect, "batch": entry["batch"], "at": entry["at"]})
        del self.commands[:-_COMMANDS]


_TEXT = {name: pl.String if name in _INSTANTS else dtype for name, dtype in BATCHES.items()}
_WINDOW_TEXT = {name: pl.String if name in ("start", "end", "at") else dtype for name, dtype in WINDOWS.items()}


def _with_instants(frame: pl.DataFrame, names: Iterable[str]) -> pl.DataFrame:
    """Replace ISO texts by microseconds; texts that no datetime can hold become null."""
    parsed = [pl.col(name).str.to_datetime(_ISO, time_unit="us", strict=False) for name in names]
    return frame.with_columns(time.dt.timestamp("us") for time in parsed)


def _batch_row(entry: Mapping[str, Any]) -> dict[str, Any]:
    dead, panes, phases = entry.get("dead", {}), entry.get("panes", {}), entry.get("phases", {})
    span = entry.get("event_times") or {}
    other = {str(reason): int(number) for reason, number in dead.items() if reason not in REASONS}
    return {
        "batch": int(entry["batch"]),
        "depth": int(entry["depth"]),
        "at": str(entry["at"]),
        "watermark": entry.get("watermark"),
        "median_origin": _median_origin(entry),
        "event_low": span.get("low"),
        "event_high": span.get("high"),
        "density": [int(number) for number in span.get("rows", ())] or None,
        "late_times": [instant(time) for time, _ in entry.get("late_times", ())] or None,
        "late_rows": [int(rows) for _, rows in entry.get("late_times", ())] or None,
        "drained": bool(entry.get("drained", False)),
        "idle": max(int(entry.get("idle") or 0), len(entry.get("idle_origins", ()))),
        "seconds": float(entry.get("seconds") or 0.0),
        **{name: int(entry.get(name) or 0) for name in COUNTS},
        **{f"dead_{reason}": int(dead.get(reason, 0)) for reason in REASONS},
        OTHER: sum(other.values()),
        "other_reasons": list(other) or None,
        "other_rows": list(other.values()) or None,
        **{column: int(panes.get(timing, 0)) for timing, column in TIMINGS.items()},
        **{phase: None if phase not in phases else float(phases[phase]) for phase in PHASES},
    }


def _median_origin(entry: Mapping[str, Any]) -> str | None:
    """Return the watermark of the median of the listed origins that are active."""
    idle = set(entry.get("idle_origins", ()))
    slowest = [origin for origin in entry.get("slowest", ()) if origin["origin"] not in idle]
    times = sorted((str(origin["watermark"]) for origin in slowest if origin["watermark"]), key=_without_zone)
    return times[len(times) // 2] if times else None


def _without_zone(time: str) -> str:
    return time.removesuffix("Z")  # "12:00:00" is before "12:00:00.5", but "12:00:00Z" is after it


def _window_row(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {name: entry[name] for name in WINDOWS}


class HistoryLog:
    """Follows the history file of a query: each refresh reads the lines that are new."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.tables = HistoryTables()
        self._offset = 0
        self._identity: tuple[int, int] | None = None

    def refresh(self) -> bool:
        """Read new lines, and return whether there were any."""
        try:
            status = self.file.stat()
        except OSError:
            return False
        identity = (status.st_dev, status.st_ino)
        if identity != self._identity or status.st_size < self._offset:  # the first look, or a full file was replaced
            self.tables, self._offset, self._identity = HistoryTables(), 0, identity
            older = older_file(self.file)
            lines = read_lines(older, 0)[0] if older.is_file() else []
        elif status.st_size == self._offset:
            return False
        else:
            lines = []
        new, self._offset = read_lines(self.file, self._offset)
        return self.tables.add(_entries([*lines, *new], self.tables))


def _entries(lines: Iterable[bytes], tables: HistoryTables) -> Iterable[Mapping[str, Any]]:
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            entry = None
        if isinstance(entry, dict):
            yield entry
        else:
            tables.unreadable += 1
