"""Watermark generators: what each strategy derives from rows or from the clock."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from eventide.kernels.intervals import int_bounds
from eventide.time import FIRST, LAST, format_duration, time_column
from eventide.watermarks.origin_summary import RowWatermarks


class WatermarkGenerator:
    """What distinguishes one strategy from another. A generator has no state. By default it derives nothing."""

    name: str
    """The public function that creates it."""
    declared = False
    """Whether the producer guarantees the values, so that a decreasing value is an error."""

    def describe(self) -> str:
        """A few words for ``explain()``."""
        raise NotImplementedError

    def columns(self) -> tuple[str, ...]:
        """The columns that it reads besides event time."""
        return ()

    def unusable(self, rows: pl.DataFrame) -> pl.Series | None:
        """The rows that declare something that is not an instant; None if there are none."""
        return None

    def row_watermarks(self, rows: pl.DataFrame, times: pl.Series, future: pl.Series | None) -> RowWatermarks | None:
        """The watermark that each row implies for its origin; None if rows imply none."""
        return None

    @property
    def clock_delay(self) -> int | None:
        """How far the watermark is behind the clock at most; None if it does not follow the clock."""
        return None


@dataclass(frozen=True, slots=True)
class BoundedDelay(WatermarkGenerator):
    """The highest event time of an origin, less ``delay``."""

    delay: int
    name: str = "bounded_delay"
    at_latest: int | None = None

    def describe(self) -> str:
        """The delay, if there is one."""
        text = f"bounded delay {format_duration(self.delay)}" if self.name == "bounded_delay" else self.name
        if self.at_latest is None:
            return text
        return f"{text}, at the latest {format_duration(self.at_latest)} behind the clock"

    def row_watermarks(self, rows: pl.DataFrame, times: pl.Series, future: pl.Series | None) -> RowWatermarks | None:
        """Event times, without those too far ahead."""
        return RowWatermarks(_without(times, future), delay=self.delay)

    @property
    def clock_delay(self) -> int | None:
        """The bound of the lag behind the clock."""
        return self.at_latest


@dataclass(frozen=True, slots=True)
class Punctuated(WatermarkGenerator):
    """Rows carry watermarks in a column; null declares none."""

    column: str
    name = "punctuated"
    declared = True

    def columns(self) -> tuple[str, ...]:
        """The column with the watermarks."""
        return (self.column,)

    def describe(self) -> str:
        """The column with the watermarks."""
        return f"punctuated by {self.column!r}"

    def unusable(self, rows: pl.DataFrame) -> pl.Series | None:
        """The rows that declare something that is not an instant; None if there are none."""
        times, bad = time_column(rows, self.column)
        bounds = int_bounds(times)
        if bounds and (bounds[0] < FIRST or bounds[1] > LAST):
            beyond = ~times.is_between(FIRST, LAST).fill_null(True)
            bad = beyond if bad is None else bad | beyond
        return bad

    def row_watermarks(self, rows: pl.DataFrame, times: pl.Series, future: pl.Series | None) -> RowWatermarks | None:
        """The declared watermarks. A row with one is alive even if it has no event time."""
        values = _without(time_column(rows, self.column)[0], future)
        alive = _without(times, future).is_not_null() | values.is_not_null()
        return RowWatermarks(values, alive=alive, declared=True)


@dataclass(frozen=True, slots=True)
class ProcessingTime(WatermarkGenerator):
    """The batch's time less ``delay``, independent of the rows."""

    delay: int
    name = "processing_time"

    def describe(self) -> str:
        """The delay behind the clock."""
        return f"processing time, {format_duration(self.delay)} behind"

    @property
    def clock_delay(self) -> int | None:
        """The delay."""
        return self.delay


@dataclass(frozen=True, slots=True)
class Noted(WatermarkGenerator):
    """Cuts of the stream carry the watermark; rows show how far its segments were read."""

    stream: str
    address: str = field(repr=False, compare=False)  # where hosts find the cuts; may hold a password
    token: str | None = field(default=None, repr=False, compare=False)
    identity: str = field(default="", repr=False, compare=False)
    """How cuts name the stream: several stores may have streams of the same name."""
    segment: str = "_segment"
    offset: str = "_offset"
    passed: str = "_mark"
    name = "noted"

    def columns(self) -> tuple[str, ...]:
        """The columns with the position of a row in the stream."""
        return (self.segment, self.offset, self.passed)

    def describe(self) -> str:
        """The stream."""
        return f"as noted by the writers of {self.stream!r}"

    def row_watermarks(self, rows: pl.DataFrame, times: pl.Series, future: pl.Series | None) -> RowWatermarks | None:
        """No watermarks: rows only show that the stream is not idle."""
        no_watermarks = pl.Series([None], dtype=pl.Int64).new_from_index(0, rows.height)
        return RowWatermarks(no_watermarks, alive=times.is_not_null())


@dataclass(frozen=True, slots=True)
class NoWatermark(WatermarkGenerator):
    """The watermark does not advance; only notes from outside move it.

    ``stated`` is False where a stream names no watermark at all, rather than ``ev.no_watermark()``.
    """

    stated: bool = field(default=True, repr=False, compare=False)
    name = "no_watermark"

    def describe(self) -> str:
        """The absence of a watermark."""
        return "no watermark"


def _without(values: pl.Series, mask: pl.Series | None) -> pl.Series:
    return values if mask is None else values.set(mask, None)
