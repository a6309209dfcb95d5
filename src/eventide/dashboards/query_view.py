"""What a page shows of a query, as JSON: a summary of now, and series for its charts. Instants are microseconds."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import polars as pl

from eventide.dashboards import series
from eventide.dashboards.health import (
    age_of,
    end_sentence,
    gap_sentence,
    health_of,
    held_by,
    idle_count,
    is_silent,
    watermark_sentence,
)
from eventide.dashboards.row_fates import fates_of
from eventide.dashboards.stored_state import unreadable
from eventide.dashboards.watched_queries import WatchedQuery
from eventide.time import instant


def summary(query: WatchedQuery, *, behind_after: int | None = None, now: int | None = None) -> dict[str, Any]:
    """Return the state of a query after its newest batch: health, watermark, origins, rows, state.

    ``now`` is the current time in microseconds; None: that of this machine.
    """
    tables = query.tables
    batches = series.of_query(tables.batches)
    newest = tables.newest.get(0)
    running = query.is_running
    now = time.time_ns() // 1000 if now is None else now
    health = health_of(
        batches,
        newest,
        running=running,
        failure=query.failure,
        behind_after=behind_after,
        now=now,
        unfinished=query.unfinished_batch() if running else None,
    )
    age = age_of(instant(newest["at"]), now) if running and newest is not None else 0
    origins, fates = origins_of(newest, age), fates_of(tables)
    silent = not batches.is_empty() and is_silent(batches, now)
    ended = end_sentence(newest, running=running, failed=query.failure is not None, silent=silent)
    return {
        "id": query.id,
        "checkpoint": None if query.checkpoint is None else str(query.checkpoint),
        "running": running,
        "health": {"word": health.word, "why": health.why},
        "sentence": watermark_sentence(newest, {row["name"]: row["lag"] for row in origins}, ended=ended),
        "gap_sentence": gap_sentence(int((newest or {}).get("gaps") or 0), (newest or {}).get("gap_ranges", ())),
        "batches": batches.height,
        "batch": None if newest is None else newest["batch"],
        "at": _instant(newest, "at"),
        "since": batches["at"].min(),
        "watermark": _instant(newest, "watermark"),
        "drained": bool((newest or {}).get("drained")),
        "origins": origins,
        "origin_count": int((newest or {}).get("origins") or 0),
        "idle_count": idle_count(newest or {}),
        "gaps": int((newest or {}).get("gaps") or 0),
        "gap_ranges": list((newest or {}).get("gap_ranges", ())),
        "fate": fates[0],
        "later_fates": fates[1:],  # of the other operators of a chain
        "state": _state(query, batches),
        "commands": {"pending": query.pending_commands(), "applied": list(reversed(tables.commands))},
        "unreadable": tables.unreadable,
    }


def origins_of(newest: Mapping[str, Any] | None, age: int = 0) -> list[dict[str, Any]]:
    """Return the listed origins of a batch, the slowest first, then idle ones of which only the name is known.

    ``age`` is how long ago the batch was: an origin is that much further behind the clock.
    """
    if newest is None:
        return []
    at, holder = instant(newest["at"]) + age, held_by(newest)
    idle = set(newest.get("idle_origins", ()))
    rows: list[dict[str, Any]] = []
    for origin in newest.get("slowest", ()):
        name, text = origin["origin"], origin["watermark"]  # the name is None for rows without an origin
        watermark = None if text is None else instant(text)
        lag = None if watermark is None else at - watermark
        holds = name in holder
        rows.append({"name": name, "watermark": watermark, "lag": lag, "idle": name in idle, "holds": holds})
    listed = {row["name"] for row in rows}
    rows.sort(key=lambda row: (row["lag"] is not None, -(row["lag"] or 0)))
    unlisted = sorted(idle - listed, key=str)
    return rows + [{"name": name, "watermark": None, "lag": None, "idle": True, "holds": False} for name in unlisted]


def charts(
    query: WatchedQuery,
    *,
    since: int | None = None,
    until: int | None = None,
    last: int | None = None,
    points: int = series.POINTS,
) -> dict[str, Any]:
    """Return the columns of all charts for a range of processing time, or for the ``last`` batches."""
    tables = query.tables
    batches = series.of_query(tables.batches)
    if last is not None and batches.height > last:
        since = int(batches["at"][-last])
    batches = series.between(batches, since, until)
    sampled = series.downsample(batches, points)
    panes = series.newest_panes(tables.windows, since, until)
    late = series.late_rows(batches)
    return {
        "points": {name: sampled[name].to_list() for name in sampled.columns},
        "panes": {name: panes[name].to_list() for name in panes.columns},
        "density": series.densities(batches),
        "late": {name: late[name].to_list() for name in late.columns},
        "traced": not tables.windows.is_empty(),
    }


def _state(query: WatchedQuery, batches: pl.DataFrame) -> dict[str, Any]:
    record = query.record()
    operators = record.get("operators", [])
    plan = operators[0].get("plan", {}) if operators else {}
    last = batches.tail(1).to_dicts()[0] if batches.height else {}
    names = ("open_windows", "state_bytes", "pages", "written", "in_flight", "buckets")
    return {
        "placement": record.get("state"),
        "plan": {str(name): str(value) for name, value in plan.items()},
        "operators": len(operators),
        **{name: last.get(name, 0) for name in names},
        "growth": _growth(batches),
        "unreadable": unreadable(query, record),
    }


def _growth(batches: pl.DataFrame, over: int = 100) -> float | None:
    """Return how many bytes per minute of processing time the state has grown over the last batches."""
    recent = batches.tail(over)
    if recent.height < 2:
        return None
    minutes = (recent["at"][-1] - recent["at"][0]) / 60_000_000
    return float(recent["state_bytes"][-1] - recent["state_bytes"][0]) / minutes if minutes else None


def _instant(newest: Mapping[str, Any] | None, name: str) -> int | None:
    return None if newest is None or newest.get(name) is None else instant(newest[name])
