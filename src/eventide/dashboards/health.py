"""The health of a query in one word with a reason, and the sentence that names what holds its watermark back."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from statistics import median
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
_SILENT = 10  # usual distances between two batches, after which a query is silent
_AGE_STEP = 10_000_000  # microseconds
_NO_ORIGIN = "the rows without an origin"
_SHOWN_GAPS = 3


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
    now: int | None = None,
    unfinished: tuple[int, int] | None = None,
) -> Health:
    """Return the health of a query from its batches, oldest first, one row each, and its newest entry.

    ``running`` is None where it is unknown. ``behind_after`` is the lag in microseconds from which a query is behind;
    by default three times the least recent lag, at least a minute and at most an hour. ``now`` is the current clock;
    None: that of the newest batch. ``unfinished`` is the number of a batch that has begun and not ended, and its start.
    """
    if failure is not None and running is not True:
        return Health("failed", first_line(failure))
    if newest is None or batches.is_empty():
        return Health("waiting", "no batch has ended yet") if running is not False else Health("stopped", "no batch")
    if newest.get("drained"):
        return Health("drained", "the stream has ended, and every window was emitted")
    if running is False:
        return Health("stopped", "it continues from its checkpoint when it is started")
    if running and now is not None and (silent := _silent(batches, now, unfinished)) is not None:
        return silent
    if (reason := _stuck(batches, newest)) is not None:
        return Health("stuck", reason)
    lag = _last_lag(batches)
    if lag is None:
        return Health("waiting", "no watermark is known yet")
    limit = behind_after if behind_after is not None else usual_limit(batches)
    age = age_of(int(batches["at"][-1]), now) if running else 0
    return Health("behind" if lag > limit else "on time", f"the watermark is {lag_words(lag + age)} behind the clock")


def age_of(at: int, now: int | None) -> int:
    """Return how long ago a batch was, in whole steps: what a page says changes rarely while no batch ends.

    >>> age_of(0, 27_000_000), age_of(0, 9_000_000), age_of(0, None)
    (20000000, 0, 0)
    """
    return 0 if now is None else max(now - at, 0) // _AGE_STEP * _AGE_STEP


def usual_limit(batches: pl.DataFrame) -> int:
    """Return the lag from which a query is behind: three times the least recent lag, from a minute to an hour."""
    recent = batches.tail(_RECENT)
    least = int_min(recent["at"] - recent["watermark"])
    return MINUTE if least is None else min(max(3 * least, MINUTE), HOUR)


def is_silent(batches: pl.DataFrame, now: int) -> bool:
    """Return whether the newest batch is much older than the usual distance of batches."""
    return _silence(batches, now) is not None


def _silence(batches: pl.DataFrame, now: int) -> int | None:
    """Return for how long no batch has ended; None if that is usual."""
    times = batches["at"].tail(_RECENT)
    usual = int(median(times.diff().drop_nulls())) if times.len() > 1 else 0
    silence = now - int(times[-1]) - int(float(batches["seconds"][-1] or 0.0) * 1_000_000)
    return silence if silence > max(_SILENT * usual, MINUTE) else None


def _silent(batches: pl.DataFrame, now: int, unfinished: tuple[int, int] | None) -> Health | None:
    """Return the health of a running query whose newest batch is much older than the usual distance of its batches."""
    silence = _silence(batches, now)
    if silence is None:
        return None
    if unfinished is not None and unfinished[0] > int(batches["batch"][-1]):
        number, start = unfinished
        return Health("stuck", f"batch {number:,} has been running for {lag_words((now - start) // MINUTE * MINUTE)}")
    since = lag_words(silence // MINUTE * MINUTE)
    return Health("waiting", f"no batch has ended for {since}: no rows arrive, or the source does not answer")


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
        missing = ranges_text(newest.get("gap_ranges", ()))
        which = f" ({missing})" if missing else ""
        return f"{runs} of sequence numbers {verb} missing{which}, and the watermark did not move {since}"
    waits = "the watermark did not move"
    for origin in held_by(newest):
        waits = f"the watermark waits for {_NO_ORIGIN if origin is None else named_origin(newest, origin, 'origin')}"
    if last is None:
        waits = "no watermark is known although rows arrive"
    return f"{waits} {since}"


def held_by(newest: Mapping[str, Any]) -> list[str | None]:
    """Return the origin that holds the watermark back, in a list that is empty if nothing is waited for.

    Rows without an origin (null) are an origin, too. They hold the watermark if they are the slowest that are active.

    >>> slowest = [{"origin": None, "watermark": None}, {"origin": "a", "watermark": None}]
    >>> held_by({"least_origin": None, "slowest": slowest}), held_by({"least_origin": None, "slowest": slowest[1:]})
    ([None], [])
    """
    slowest = newest.get("slowest")
    if newest.get("drained") or not slowest:
        return []
    if newest.get("least_origin") is not None:
        return [str(newest["least_origin"])]
    idle = newest.get("idle_origins", ())
    active = [row["origin"] for row in slowest if isinstance(row, Mapping) and row["origin"] not in idle]
    return [None] if active and active[0] is None else []


def idle_count(entry: Mapping[str, Any]) -> int:
    """Return how many origins are idle, of which an entry lists at most 100.

    >>> idle_count({"idle": 250, "idle_origins": ["a", "b"]}), idle_count({"idle_origins": ["a"]})
    (250, 1)
    """
    return max(int(entry.get("idle") or 0), len(entry.get("idle_origins", ())))


def named_origin(entry: Mapping[str, Any], name: str, kind: str = "") -> str:
    """Return an origin with the name of its column, or of its kind where the column is unknown.

    >>> entry = {"origin_column": "partition"}
    >>> named_origin(entry, "7"), named_origin(entry, "partition-7"), named_origin({}, "7", "origin")
    ('partition 7', 'partition-7', 'origin 7')
    """
    column = str(entry.get("origin_column") or kind)
    contained = re.match(rf"{re.escape(column)}(?![a-z])", name, flags=re.IGNORECASE)
    return name if not column or contained else f"{column} {name}"


def watermark_sentence(
    newest: Mapping[str, Any] | None, lags: Mapping[str | None, int | None], *, ended: str = ""
) -> str:
    """Return a sentence about what holds the watermark back. ``lags`` has the lag of each listed origin.

    ``ended`` is a sentence that says that the query does not run: what was waited for then follows in the past tense.

    >>> entry = {"least_origin": "7", "origin_column": "partition", "slowest": [1], "origins": 4}
    >>> watermark_sentence(entry, {"7": 252_000_000})
    'partition 7 is 4m 12s behind; everything waits for it.'
    >>> watermark_sentence(entry, {"7": 252_000_000}, ended="The query has stopped.")
    'The query has stopped. At its last batch: partition 7 was 4m 12s behind; everything waited for it.'
    """
    if newest is None:
        return ended or "No batch has ended yet."
    if newest.get("drained"):
        return "The stream is drained: time has ended, and nothing is waited for."
    if not ended:
        return _waiting(newest, lags, "is", "are", "has", "waits", "holds")
    return f"{ended} At its last batch: {_waiting(newest, lags, 'was', 'were', 'had', 'waited', 'held')}"


def _waiting(newest: Mapping[str, Any], lags: Mapping[str | None, int | None], *verbs: str) -> str:
    is_, are, has, waits, holds = verbs
    holder = held_by(newest)
    idle, origins = idle_count(newest), int(newest.get("origins") or 0)
    if not holder:
        if origins and idle >= origins and newest.get("slowest"):
            return f"All {counted(origins, 'origin')} {are} idle; the watermark {waits} for none of them."
        if newest.get("watermark") is None:
            return f"No watermark {is_} known yet."
        return f"No origin {holds} the watermark back."
    lag = lags.get(holder[0])
    if holder[0] is None:
        how_far = "far" if lag is None else lag_words(lag)
        return f"{_NO_ORIGIN.capitalize()} {are} {how_far} behind; everything {waits} for them."
    name = named_origin(newest, holder[0])
    if lag is None:
        return f"{name} {has} no watermark yet; everything {waits} for it."
    if origins == 1:
        return f"{name} {is_} the only origin, {lag_words(lag)} behind the clock."
    return f"{name} {is_} {lag_words(lag)} behind; everything {waits} for it."


def end_sentence(newest: Mapping[str, Any] | None, *, running: bool | None, failed: bool, silent: bool) -> str:
    """Return a sentence that says that a query does not run any more, or that nobody knows; empty while it runs.

    >>> end_sentence(None, running=False, failed=False, silent=True)
    'The query has stopped.'
    >>> end_sentence({"at": "2026-03-01T12:00:29.5Z"}, running=None, failed=False, silent=True)
    'No batch has ended since 2026-03-01 12:00:29 UTC.'
    """
    if failed and running is not True:
        return "The query has failed."
    if running is False:
        return "The query has stopped."
    if running is None and silent and newest is not None:
        return f"No batch has ended since {str(newest['at'])[:19].replace('T', ' ')} UTC."
    return ""


def gap_sentence(gaps: int, ranges: Sequence[Mapping[str, Any]] = ()) -> str:
    """Return a sentence about missing sequence numbers, ``gaps`` runs of which some are known; empty without any.

    >>> gap_sentence(1, [{"origin": "north", "first": 4, "last": 6}])
    '1 run of sequence numbers is missing: 4 to 6 of north. The watermark waits for it.'
    >>> gap_sentence(2), gap_sentence(0)
    ('2 runs of sequence numbers are missing. The watermark waits for them.', '')
    """
    if not gaps:
        return ""
    which = f": {text}" if (text := ranges_text(ranges, gaps)) else ""
    if gaps == 1:
        return f"1 run of sequence numbers is missing{which}. The watermark waits for it."
    return f"{gaps:,} runs of sequence numbers are missing{which}. The watermark waits for them."


def ranges_text(ranges: Sequence[Mapping[str, Any]], gaps: int = 0) -> str:
    """Return the first missing sequence numbers by origin; ``gaps`` is how many runs there are.

    >>> ranges_text([{"origin": None, "first": 4, "last": 4}, {"origin": "b", "first": 7, "last": 9}], 5)
    '4, 7 to 9 of b and 3 more'
    """
    shown = []
    for gap in ranges[:_SHOWN_GAPS]:
        numbers = f"{gap['first']}" if gap["first"] == gap["last"] else f"{gap['first']} to {gap['last']}"
        shown.append(numbers if gap["origin"] is None else f"{numbers} of {gap['origin']}")
    more = gaps - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if shown and more > 0 else "")


def lag_words(lag: int) -> str:
    """Return a lag in microseconds with two units at most.

    >>> lag_words(252_900_000), lag_words(3_140_000), lag_words(-2_000_000), lag_words(93_784_000_000)
    ('4m 12s', '3.1 s', '-2.0 s', '1d 2h')
    >>> lag_words(250_400), lag_words(0)
    ('250 ms', '0 s')
    """
    if abs(lag) < 1_000_000:
        return f"{lag / 1000:.0f} ms" if abs(lag) >= 1000 else "0 s"
    if abs(lag) < MINUTE:
        return f"{lag / 1_000_000:.1f} s"
    text = format_duration(timedelta(microseconds=abs(lag)) // timedelta(seconds=1) * 1_000_000)
    return ("-" if lag < 0 else "") + " ".join(text.split()[:2])


def first_line(text: str, most: int = 300) -> str:
    """Return the first line of a message, not too long."""
    line = next(iter(text.strip().splitlines()), "unknown")
    return line if len(line) <= most else line[: most - 1] + "…"
