"""The health of a query in one word with a reason, and the sentence that names what holds its watermark back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import polars as pl

from eventide.kernels.intervals import int_min
from eventide.metrics import counted
from eventide.time import format_duration

MINUTE, HOUR = 60_000_000, 3_600_000_000
STUCK_BATCHES = 5
"""Batches with rows during which the watermark did not move."""
STUCK_AFTER = 30_000_000
"""Microseconds of processing time during which the watermark did not move."""
_RECENT = 500  # batches whose least lag is the usual one


@dataclass(frozen=True)
class Health:
    """A word (on time, behind, stuck, failed, drained, stopped, waiting), and why."""

    word: str
    why: str = ""

    def __str__(self) -> str:
        return f"{self.word}: {self.why}" if self.why else self.word


def health_of(
    batches: pl.DataFrame,
    newest: Mapping[str, Any] | None,
    *,
    running: bool | None,
    failure: str | None = None,
    behind_after: int | None = None,
) -> Health:
    """Return the health of a query from its batches, oldest first, one row each, and its newest entry.

    ``running`` is None where it is unknown. ``behind_after`` is the lag in microseconds from which a query is behind;
    by default three times the least recent lag, at least a minute and at most an hour.
    """
    if failure is not None and running is not True:
        return Health("failed", first_line(failure))
    if newest is None or batches.is_empty():
        return Health("waiting", "no batch has ended yet") if running is not False else Health("stopped", "no batch")
    if newest.get("drained"):
        return Health("drained", "the stream has ended, and every window was emitted")
    if running is False:
        return Health("stopped", "it continues from its checkpoint when it is started")
    if (reason := _stuck(batches, newest)) is not None:
        return Health("stuck", reason)
    lag = _last_lag(batches)
    if lag is None:
        return Health("waiting", "no watermark is known yet")
    limit = behind_after if behind_after is not None else usual_limit(batches)
    if lag > limit:
        return Health("behind", f"the watermark is {lag_words(lag)} behind the clock")
    return Health("on time", f"the watermark is {lag_words(lag)} behind the clock")


def usual_limit(batches: pl.DataFrame) -> int:
    """Return the lag from which a query is behind: three times the least recent lag, from a minute to an hour."""
    recent = batches.tail(_RECENT)
    least = int_min(recent["at"] - recent["watermark"])
    return MINUTE if least is None else min(max(3 * least, MINUTE), HOUR)


def _last_lag(batches: pl.DataFrame) -> int | None:
    at, watermark = batches["at"][-1], batches["watermark"][-1]
    return None if watermark is None else int(at - watermark)


def _stuck(batches: pl.DataFrame, newest: Mapping[str, Any]) -> str | None:
    """Return why the watermark does not move although rows arrive; None if it moves, or no rows arrive."""
    last = batches["watermark"][-1]
    moved = batches["watermark"].ne_missing(pl.Series([last], dtype=pl.Int64)).arg_true()
    still = batches.slice(int(moved[-1]) + 1 if moved.len() else 0)
    with_rows = still.filter(pl.col("rows") > 0)
    if with_rows.height <= STUCK_BATCHES or int(still["at"][-1] - still["at"][0]) < STUCK_AFTER:
        return None
    since = f"for {lag_words(int(still['at'][-1] - still['at'][0]))}"
    if int(newest.get("gaps") or 0):
        runs = counted(int(newest["gaps"]), "run")
        verb = "is" if int(newest["gaps"]) == 1 else "are"
        return f"{runs} of sequence numbers {verb} missing, and the watermark did not move {since}"
    origin = held_by(newest)
    waits = "the watermark did not move" if origin is None else f"the watermark waits for origin {origin}"
    if last is None:
        waits = "no watermark is known although rows arrive"
    return f"{waits} {since}"


def held_by(newest: Mapping[str, Any]) -> str | None:
    """Return the name of the origin that holds the watermark back; None if there are no origins to wait for."""
    if newest.get("drained") or not newest.get("slowest") or newest.get("least_origin") is None:
        return None
    return str(newest["least_origin"])


def watermark_sentence(newest: Mapping[str, Any] | None, lags: Mapping[str, int | None]) -> str:
    """Return a sentence about what holds the watermark back. ``lags`` has the lag of each listed origin.

    >>> entry = {"least_origin": "partition 7", "slowest": [1], "origins": 4}
    >>> watermark_sentence(entry, {"partition 7": 252_000_000})
    'partition 7 is 4m 12s behind; everything waits for it.'
    """
    if newest is None:
        return "No batch has ended yet."
    if newest.get("drained"):
        return "The stream is drained: time has ended, and nothing is waited for."
    origin = held_by(newest)
    idle, origins = len(newest.get("idle_origins", ())), int(newest.get("origins") or 0)
    if origin is None:
        if origins and idle >= origins and newest.get("slowest"):
            return f"All {counted(origins, 'origin')} are idle; the watermark waits for none of them."
        if newest.get("watermark") is None:
            return "No watermark is known yet."
        return "No origin holds the watermark back."
    lag = lags.get(origin)
    if lag is None:
        return f"{origin} has no watermark yet; everything waits for it."
    if origins == 1:
        return f"{origin} is the only origin, {lag_words(lag)} behind the clock."
    return f"{origin} is {lag_words(lag)} behind; everything waits for it."


def gap_sentence(gaps: int) -> str:
    """Return a sentence about missing sequence numbers; empty if there are none.

    >>> gap_sentence(1), gap_sentence(0)
    ('1 run of sequence numbers is missing. The watermark waits for it.', '')
    """
    if not gaps:
        return ""
    return (
        "1 run of sequence numbers is missing. The watermark waits for it."
        if gaps == 1
        else f"{gaps:,} runs of sequence numbers are missing. The watermark waits for them."
    )


def lag_words(lag: int) -> str:
    """Return a lag in microseconds with two units at most.

    >>> lag_words(252_900_000), lag_words(3_140_000), lag_words(-2_000_000), lag_words(93_784_000_000)
    ('4m 12s', '3.1 s', '-2.0 s', '1d 2h')
    """
    if abs(lag) < MINUTE:
        return f"{lag / 1_000_000:.1f} s"
    text = format_duration(timedelta(microseconds=abs(lag)) // timedelta(seconds=1) * 1_000_000)
    return ("-" if lag < 0 else "") + " ".join(text.split()[:2])


def first_line(text: str, most: int = 300) -> str:
    """Return the first line of a message, not too long."""
    line = next(iter(text.strip().splitlines()), "unknown")
    return line if len(line) <= most else line[: most - 1] + "…"
