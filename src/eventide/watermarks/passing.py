"""Cuts that are still ahead: how far each segment has been read, and what that says of time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import polars as pl

from eventide.watermarks.watermark import Cut


class Passing:
    """What has been read of a stream, and the cuts that have not been passed yet.

    >>> passing = Passing()
    >>> passing.add([Cut("orders", 1, 100, {"0": 2, "1": 1})])
    >>> passing.read({"0": 2}, passed=0)
    >>> passing.time() is None
    True
    >>> passing.read({"1": 5}, passed=0)
    >>> passing.time()
    100
    """

    def __init__(self) -> None:
        self._read: dict[str, int] = {}
        self._ahead: tuple[Cut, ...] = ()
        self._last = 0
        self._passed = 0  # the source itself says that it has passed the cut of this number

    def add(self, cuts: Iterable[Cut]) -> None:
        """More cuts, in any order; those that are known already change nothing."""
        new = {cut.number: cut for cut in cuts if cut.number > self._last}
        if new:
            self._ahead = (*self._ahead, *(new[number] for number in sorted(new)))
            self._last = max(new)

    def read(self, reached: dict[str, int], *, passed: int) -> None:
        """Segments have been read further, and the source has passed the cut with the number ``passed``."""
        for segment, offset in reached.items():
            self._read[segment] = max(offset, self._read.get(segment, 0))
        self._passed = max(self._passed, passed)

    def time(self) -> int | None:
        """The time of the last cut that has been passed now and had not been before."""
        found = None
        while self._ahead and self._is_passed(self._ahead[0]):
            cut, self._ahead = self._ahead[0], self._ahead[1:]
            found = cut.time
            # Where the source alone says so (it began there, or rows were filtered out), later cuts may rest on it.
            self.read(dict(cut.reached), passed=0)
        return found

    def ahead(self) -> int:
        """How many cuts have not been passed."""
        return len(self._ahead)

    def copy(self) -> Passing:
        """An independent copy."""
        twin = Passing()
        twin._read, twin._ahead, twin._last, twin._passed = dict(self._read), self._ahead, self._last, self._passed
        return twin

    def snapshot(self) -> dict[str, Any]:
        """All that is known, as plain data."""
        return {
            "read": pl.DataFrame({"segment": list(self._read), "offset": list(self._read.values())}, _READ),
            "ahead": [[cut.stream, cut.number, cut.time, dict(cut.reached)] for cut in self._ahead],
            "last": self._last,
            "passed": self._passed,
        }

    @classmethod
    def restore(cls, snapshot: dict[str, Any]) -> Passing:
        """As it was when the snapshot was taken."""
        passing = cls()
        passing._read = dict(snapshot["read"].iter_rows())
        passing._ahead = tuple(Cut(*cut) for cut in snapshot["ahead"])
        passing._last, passing._passed = snapshot["last"], snapshot["passed"]
        return passing

    def _is_passed(self, cut: Cut) -> bool:
        if cut.number <= self._passed:
            return True
        return all(self._read.get(segment, 0) >= offset for segment, offset in cut.reached.items())


_READ = {"segment": pl.String, "offset": pl.Int64}
