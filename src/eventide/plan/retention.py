"""How much a stream may keep: for how long, how many rows, how many bytes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from eventide.errors import plan as errors
from eventide.time import duration, format_duration

LONGEST = 2**61


@dataclass(frozen=True)
class Retention:
    """Bounds on what rests in state; those that are given hold together.

    ``time``: how long after its end a window is kept. ``rows``: how many rows the open windows of a key may hold.
    ``bytes``: how large all that a state (a bucket, where there are several) has accumulated may be.
    """

    time: int | None = None
    rows: int | None = None
    bytes: int | None = None

    @property
    def sized(self) -> bool:
        """Whether what is kept depends on how much there is."""
        return self.rows is not None or self.bytes is not None

    def describe(self) -> str:
        """One line for ``explain()``.

        >>> Retention(time=3_600_000_000, rows=100).describe()
        '1h after the end, 100 rows a key'
        """
        said = [] if self.time is None else [f"{format_duration(self.time)} after the end"]
        said += [] if self.rows is None else [f"{self.rows} rows a key"]
        said += [] if self.bytes is None else [f"{self.bytes} bytes in all"]
        return ", ".join(said)


def retention(time: str | timedelta | None, rows: Any, bytes_: Any) -> Retention:
    """Checked bounds."""
    if time is None and rows is None and bytes_ is None:
        raise errors.nothing_retained()
    for name, value in (("rows", rows), ("bytes", bytes_)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise errors.not_a_bound(name, value)
    length = None if time is None else duration(time, what="time of retain()", zero=True)
    if length is not None and length > LONGEST:
        raise errors.overflow_of_time("time of retain()", length)
    return Retention(length, rows, bytes_)
