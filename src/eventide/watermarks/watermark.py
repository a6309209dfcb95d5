"""Watermarks and the other messages about event time; cuts of a stream, and when they are passed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import polars as pl

from eventide._arguments import is_integer
from eventide.errors import PlanError, shown
from eventide.time import MAX, MIN, format_instant

_READ = {"segment": pl.String, "offset": pl.Int64}


@dataclass(frozen=True, slots=True)
class Watermark:
    """No row whose time column of this ``key`` is below ``time`` is expected any more.

    >>> print(Watermark(0, 1_000_000))
    watermark 0 at 1970-01-01T00:00:01Z
    >>> Watermark(256, 0)
    Traceback (most recent call last):
    ...
    eventide.errors.PlanError: watermark_key=256 is not a watermark key: it must be an integer from 0 to 255...
    """

    key: int
    time: int

    def __post_init__(self) -> None:
        check_key(self.key)
        if not is_integer(self.time, at_least=MIN, at_most=MAX):
            raise PlanError(
                f"Watermark time {shown(self.time)} is not an instant: it must be an integer of microseconds since the "
                "epoch, within 64 bits. eventide.time.instant() reads text and datetimes."
            )

    def __str__(self) -> str:
        return f"watermark {self.key} at {format_instant(self.time)}"


@dataclass(frozen=True, slots=True)
class Cut:
    """A watermark that takes effect once a position in the stream is read: all rows before ``time`` are before it.

    ``reached`` has, for segments of ``stream`` (by its identity), the first offset beyond the cut. Segments that have
    not moved since an earlier cut may be left out. Cuts of a stream are numbered; times and positions never go back.
    """

    stream: str
    number: int
    time: int
    reached: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Idle:
    """The input is idle: others need not wait for it. Idleness has no key, because it concerns all keys."""


@dataclass(frozen=True, slots=True)
class Done:
    """The input has ended and sends nothing more."""


@dataclass(frozen=True, slots=True)
class InputWatermark:
    """No row before ``time`` is expected on the input of this name."""

    input: str
    time: int


@dataclass(frozen=True, slots=True)
class InputEnd:
    """The input of this name has ended: it sends no more rows and is not waited for."""

    input: str


@dataclass(frozen=True, slots=True)
class InputIdle:
    """The input of this name is idle in this bundle, so it is not waited for."""

    input: str


@dataclass(frozen=True, slots=True)
class Reached:
    """What a tracker elsewhere has reached, as its ``reached`` returns it: it replaces that of the operator."""

    content: Mapping[str, Any]


Message: TypeAlias = Watermark | Idle | Done
Note: TypeAlias = Watermark | Cut | InputWatermark | InputEnd | InputIdle | Reached
"""A message about event time that reaches a stream from outside its rows."""


def check_key(key: object) -> None:
    """Raise an error for a value that is not a watermark key.

    >>> check_key(255)
    """
    if not is_integer(key, at_least=0, at_most=255):
        raise PlanError(
            f"watermark_key={shown(key)} is not a watermark key: it must be an integer from 0 to 255. "
            "Streams whose rows share one time column share a key; give every other stream another key."
        )


class CutTracker:
    """How far the segments of a stream were read, and the cuts that are not passed yet.

    >>> tracker = CutTracker()
    >>> tracker.add([Cut("orders", 1, 100, {"0": 2, "1": 1})])
    >>> tracker.read({"0": 2}, passed=0)
    >>> tracker.pass_cuts() is None
    True
    >>> tracker.read({"1": 5}, passed=0)
    >>> tracker.pass_cuts()
    100
    """

    def __init__(self) -> None:
        self._read: dict[str, int] = {}
        self._ahead: tuple[Cut, ...] = ()
        self._last = 0  # the highest number of a cut
        self._passed = 0  # the number of the last cut that the source itself reports as passed

    def add(self, cuts: Iterable[Cut]) -> None:
        """Add cuts in any order; cuts that were added before change nothing."""
        new = {cut.number: cut for cut in cuts if cut.number > self._last}
        if new:
            self._ahead = (*self._ahead, *(new[number] for number in sorted(new)))
            self._last = max(new)

    def read(self, reached: dict[str, int], *, passed: int) -> None:
        """Record how far segments were read, and that the source has passed the cut with the number ``passed``."""
        for segment, offset in reached.items():
            self._read[segment] = max(offset, self._read.get(segment, 0))
        self._passed = max(self._passed, passed)

    def read_summary(self, summary: pl.DataFrame) -> None:
        """Record how far the segments in a summary were read."""
        positions = summary.filter(pl.col("chunk").is_null() & pl.col("chunk_until").is_not_null())
        if positions.height:
            passed: Any = positions["last_chunk"].max()
            ends = positions.group_by("origin").agg(pl.col("chunk_until").max())
            self.read(dict(ends.iter_rows()), passed=passed or 0)

    def pass_cuts(self) -> int | None:
        """Remove the cuts that are passed now, and return the time of the last one; None if there is none."""
        time = None
        while self._ahead and self._is_passed(self._ahead[0]):
            cut, self._ahead = self._ahead[0], self._ahead[1:]
            time = cut.time
            # Only the source may know it (it began there, or rows were filtered out), and later cuts build on it.
            self.read(dict(cut.reached), passed=0)
        return time

    def copy(self) -> CutTracker:
        """An independent copy."""
        twin = CutTracker()
        twin._read, twin._ahead, twin._last, twin._passed = dict(self._read), self._ahead, self._last, self._passed
        return twin

    def snapshot(self) -> dict[str, Any]:
        """The state as plain data."""
        return {
            "read": pl.DataFrame({"segment": list(self._read), "offset": list(self._read.values())}, _READ),
            "ahead": [[cut.stream, cut.number, cut.time, dict(cut.reached)] for cut in self._ahead],
            "last": self._last,
            "passed": self._passed,
        }

    @classmethod
    def restore(cls, snapshot: dict[str, Any]) -> CutTracker:
        """A tracker that continues from a snapshot."""
        tracker = cls()
        tracker._read = dict(snapshot["read"].iter_rows())
        tracker._ahead = tuple(Cut(*cut) for cut in snapshot["ahead"])
        tracker._last, tracker._passed = snapshot["last"], snapshot["passed"]
        return tracker

    def _is_passed(self, cut: Cut) -> bool:
        if cut.number <= self._passed:
            return True
        return all(self._read.get(segment, 0) >= offset for segment, offset in cut.reached.items())
