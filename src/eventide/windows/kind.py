"""The contract of a kind of window.

A kind is a frozen description. Windows are cut on an **axis** (event time in microseconds, or row numbers) and
share **slices**: a slice is a piece of the axis whose rows all belong to the same windows, so each row is
aggregated once, into its slice, and windows are put together from slices.
"""

from __future__ import annotations

from typing import Literal, Protocol, runtime_checkable

import polars as pl

from eventide.time import format_duration

Axis = Literal["time", "rows"]

MOST_WINDOWS = 1_000_000  # that one row may belong to
SLICE = "slice"
START = "start"
END = "end"


@runtime_checkable
class WindowKind(Protocol):
    """A kind of window whose bounds follow from a row's position alone. Implement it for windows of your own.

    >>> import eventide as ev, polars as pl
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Shifts:
    ...     '''Three shifts a day: 06-14, 14-22 and 22-06, UTC.'''
    ...     axis = "time"
    ...     shared = False
    ...     def slice_of(self, at):
    ...         hours, first = 3_600_000_000, 6 * 3_600_000_000
    ...         return (at - first) // (8 * hours) * 8 * hours + first
    ...     def windows_of(self, slices):
    ...         return pl.DataFrame({"slice": slices, "start": slices, "end": slices + 8 * 3_600_000_000})
    ...     def describe(self):
    ...         return "shifts of 8 hours from 06:00"
    >>> kind = Shifts()
    >>> isinstance(kind, ev.WindowKind)
    True
    >>> p = ev.stream(time="t", watermark=ev.bounded_delay("1m")).window(kind).agg(n=ev.count())
    >>> rows = pl.DataFrame({"t": ["2026-01-01T05:59:59Z", "2026-01-01T06:00:00Z", "2026-01-01T13:59:59Z"]})
    >>> p.local(rows).panes.select(pl.col("window_start").dt.hour(), "n").rows()
    [(22, 1), (6, 2)]
    """

    @property
    def axis(self) -> Axis:
        """On which axis the windows are cut."""
        ...

    @property
    def shared(self) -> bool:
        """Whether a slice can belong to several windows, or a window hold several slices."""
        ...

    def slice_of(self, at: pl.Expr) -> pl.Expr:
        """The first position (an int64) of the slice that holds ``at``; null where no window does."""
        ...

    def windows_of(self, slices: pl.Series) -> pl.DataFrame:
        """Columns ``slice``, ``start``, ``end``: each window of each of these (distinct) slices."""
        ...

    def describe(self) -> str:
        """One line for ``explain()``."""
        ...


def floor(at: pl.Expr, step: int, offset: int = 0) -> pl.Expr:
    """The greatest multiple of ``step`` (plus ``offset``) that is not above ``at``: floors below zero too.

    >>> pl.select(floor(pl.lit(-1), 10)).item()
    -10
    """
    if offset:
        return (at - offset) // step * step + offset
    return at // step * step


def forgets(forget_after: int | None) -> str:
    """What ``describe`` adds where idle keys are forgotten.

    >>> forgets(None), forgets(3_600_000_000)
    ('', ', keys forgotten after 1h')
    """
    return "" if forget_after is None else f", keys forgotten after {format_duration(forget_after)}"


def ends_by_time(timeout: int | None, forget_after: int | None = None) -> str:
    """What ``describe`` adds where windows that are counted in rows end by time too.

    >>> ends_by_time(3_600_000_000), ends_by_time(None, 3_600_000_000)
    (', closed after 1h', ', keys forgotten after 1h')
    """
    return ("" if timeout is None else f", closed after {format_duration(timeout)}") + forgets(forget_after)


def by_offset(column: str | None, first: int = 1) -> str:
    """What ``describe`` adds where positions are an origin's own offsets.

    >>> by_offset(None), by_offset("offset"), by_offset("offset", 0)
    ('', " by 'offset'", " by 'offset' from 0")
    """
    return "" if column is None else f" by {column!r}" + ("" if first == 1 else f" from {first}")
