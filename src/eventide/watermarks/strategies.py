"""How the watermark of a stream is found: one frozen description, a rule and its options.

strategy (per origin) -> progress (sequence, chunk) -> coalescer (per watermark key) -> operator
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Unpack

import polars as pl

from eventide.columns import named
from eventide.errors import watermarks as errors
from eventide.time import MAX, duration, format_duration, time_column
from eventide.watermarks.options import (
    CLOCK_OPTIONS,
    COLUMN_OPTIONS,
    MAX_FUTURE_SKEW,
    ORIGIN_OPTIONS,
    ClockOptions,
    Options,
    OriginOptions,
    check_type,
    read_options,
)
from eventide.watermarks.rules import BoundedDelay, Noted, NoWatermark, ProcessingTime, Punctuated, Rule
from eventide.watermarks.summaries import empty_summary, highest_offsets, places, summarise, unusable


@dataclass(frozen=True, slots=True)
class Strategy:
    """A rule for watermarks with its options. Build it with ``bounded_delay``, ``ascending`` and their like."""

    rule: Rule
    options: Options

    def columns(self) -> tuple[str, ...]:
        """The columns it needs besides event time.

        >>> bounded_delay("5s", origin="device", sequence="offset").columns()
        ('device', 'offset')
        """
        return tuple(dict.fromkeys((*self.options.columns(), *self.rule.columns())))

    def check(self, schema: Mapping[str, pl.DataType]) -> None:
        """Refuse rows that lack a column, or hold the wrong type in it.

        >>> bounded_delay("5s", origin="devise").check({"device": pl.String()})
        Traceback (most recent call last):
        ...
        eventide.errors.kinds.PlanError: bounded_delay(): there is no column 'devise' for origin. Did you mean 'device'?
        """
        named = {option: getattr(self.options, option) for option in COLUMN_OPTIONS}
        for option, column in (*named.items(), *(("watermarks", name) for name in self.rule.columns())):
            if column is None:
                continue
            if column not in schema and isinstance(self.rule, Noted):
                raise errors.no_places(self.rule.stream, column, schema)
            if column not in schema:
                raise errors.no_such_column(self.rule.name, option, column, schema)
            check_type(self.rule.name, option, column, schema[column])

    def summarise(self, rows: pl.DataFrame, time: str, now: int) -> pl.DataFrame:
        """What these rows say of each origin; summaries are combined by ``pl.concat``.

        A row without a usable time, or too far ahead, moves no watermark and does not keep its origin
        awake; its sequence number still counts as seen.

        >>> rows = pl.DataFrame({"ts": [10, 30, 20], "device": ["a", "a", "b"]})
        >>> delayed = bounded_delay(timedelta(microseconds=5), origin="device")
        >>> delayed.summarise(rows, "ts", now=0).sort("origin").select("origin", "watermark", "rows").rows()
        [('a', 25, 2), ('b', 15, 1)]
        """
        times, _ = time_column(rows, time)
        marks = self.rule.marks(rows, times, self.future(rows, time, now))
        summary = empty_summary() if marks is None else summarise(rows, marks, self.options)
        if isinstance(self.rule, Noted):
            summary = pl.concat([summary, places(rows, *self.rule.columns())])
        if self.options.offset in (None, self.options.sequence):  # sequences are summarised anyway
            return summary
        return pl.concat([summary, highest_offsets(rows, self.options)])

    def deduplicating(self) -> Strategy:
        """The same, for a stream that sets aside rows whose number has been seen."""
        return replace(self, options=replace(self.options, deduplicate=True))

    def by_offset(self, column: str) -> Strategy:
        """The same, for a stream that is windowed by offset."""
        return replace(self, options=replace(self.options, offset=column))

    def identity(self, column: Callable[[str], pl.Expr] = pl.col) -> list[pl.Expr]:
        """Which row it is: its ``origin``, ``sequence`` and ``chunk``, as far as rows have them."""
        options = self.options
        parts = [] if options.origin is None else [column(options.origin).cast(pl.String).alias("origin")]
        numbers = {"sequence": options.sequence, "chunk": options.chunk}
        parts += [column(own).cast(pl.Int64, strict=False).alias(name) for name, own in numbers.items() if own]
        return parts

    def faults(self, rows: pl.DataFrame) -> pl.Series | None:
        """The rows whose sequence, chunk or declared watermark cannot be used, for the dead letters; None when all can.

        >>> bounded_delay("5s", sequence="n").faults(pl.DataFrame({"n": [1, 0, None]})).to_list()
        [False, True, True]
        """
        numbers, said = unusable(rows, self.options), self.rule.unusable(rows)
        return numbers if said is None else said if numbers is None else numbers | said

    def future(self, rows: pl.DataFrame, time: str, now: int) -> pl.Series | None:
        """The rows that are, or declare to be, further ahead than ``max_future_skew``; None when there are none.

        >>> guarded = ascending(max_future_skew=timedelta(microseconds=10))
        >>> guarded.future(pl.DataFrame({"ts": [110, 111]}), "ts", now=100).to_list()
        [False, True]
        """
        late_times = self._ahead(time_column(rows, time)[0], now)
        declared = [self._ahead(time_column(rows, name)[0], now) for name in self._declared()]
        ahead = [mask for mask in (late_times, *declared) if mask is not None]
        return None if not ahead else ahead[0] if len(ahead) == 1 else ahead[0] | ahead[1]

    def describe(self) -> str:
        """One line for ``explain()``.

        >>> bounded_delay("30s", origin="partition", idle_timeout="2m").describe()
        "bounded delay 30s, per 'partition', idle after 2m"
        """
        return ", ".join((self.rule.describe(), *self.options.describe(), *self._guard()))

    def in_state(self) -> Strategy:
        """The strategy as far as state depends on it: ``max_future_skew`` may change.

        >>> guarded, open_ended = (bounded_delay("5s", max_future_skew=skew) for skew in ("1 hour", None))
        >>> guarded.in_state() == open_ended.in_state()
        True
        """
        return replace(self, options=replace(self.options, max_future_skew=self._default_skew()))

    def over_panes(self) -> Strategy:
        """The same for rows that are panes of another pipeline: without the default guard.

        Their source was guarded already, and a pane has the time of its window, which may end long after the clock.
        """
        if self.options.max_future_skew != MAX_FUTURE_SKEW:
            return self
        return replace(self, options=replace(self.options, max_future_skew=None))

    def _default_skew(self) -> int | None:
        return None if isinstance(self.rule, NoWatermark) else MAX_FUTURE_SKEW

    def _guard(self) -> list[str]:
        skew = self.options.max_future_skew
        if skew == self._default_skew():
            return []
        return [
            "any time ahead of the clock" if skew is None else f"at most {format_duration(skew)} ahead of the clock"
        ]

    def _declared(self) -> tuple[str, ...]:
        """The columns in which rows declare time."""
        return self.rule.columns() if self.rule.declared else ()

    def _ahead(self, times: pl.Series, now: int) -> pl.Series | None:
        if self.options.max_future_skew is None:
            return None
        limit = min(now + self.options.max_future_skew, MAX)
        highest: Any = times.max()
        return None if highest is None or highest <= limit else (times > limit).fill_null(False)


def bounded_delay(delay: str | timedelta, **options: Unpack[OriginOptions]) -> Strategy:
    """The watermark follows the highest event time of each origin at a distance.

    >>> bounded_delay("30 seconds", origin="partition").describe()
    "bounded delay 30s, per 'partition'"
    """
    rule = BoundedDelay(duration(delay, what="delay of bounded_delay()", zero=True))
    return Strategy(rule, read_options("bounded_delay", options, allowed=ORIGIN_OPTIONS))


def ascending(**options: Unpack[OriginOptions]) -> Strategy:
    """Each origin sends its rows in the order of event time; equal times are in order.

    >>> ascending(origin="file").describe()
    "ascending, per 'file'"
    """
    return Strategy(BoundedDelay(0, "ascending"), read_options("ascending", options, allowed=ORIGIN_OPTIONS))


def punctuated(column: str, **options: Unpack[OriginOptions]) -> Strategy:
    """Some rows declare the watermark of their origin in ``column``. One that goes back stops the job.

    With ``sequence=`` the order of rows is that of their numbers, which arrive in any order, so there the
    highest declared value of the gap-free run counts and none goes back.

    >>> punctuated("safe_until", origin="device").columns()
    ('device', 'safe_until')
    """
    column = named(column)
    if not isinstance(column, str) or not column:
        raise errors.not_a_column("punctuated", "column", column)
    return Strategy(Punctuated(column), read_options("punctuated", options, allowed=ORIGIN_OPTIONS))


def noted(stream: str, *, token: str | None = None, **options: Unpack[ClockOptions]) -> Strategy:
    """The watermark is what the stream's writers have noted (see ``eventide.marks``), once all before it has been read.

    ``stream`` is the address of the stream that the rows are read from. On Spark its marks come along with the rows
    of ``spark.readStream.format("eventide").load(stream)``; no row that its writer noted in time is ever late.
    ``token`` is for a stream behind a controller that asks for one (default: the variable ``EVENTIDE_TOKEN``).

    >>> noted("sqlite:///shop.db#orders").describe()
    "as noted by the writers of 'orders'"
    """
    name = stream.rpartition("#")[2] if isinstance(stream, str) and "#" in stream else ""
    if not name:
        raise errors.not_a_stream(stream)
    identity = hashlib.sha256(stream.encode()).hexdigest()[:16]
    rule = Noted(name, stream, token, identity)
    return Strategy(rule, read_options("noted", options, allowed=CLOCK_OPTIONS))


def processing_time(delay: str | timedelta, **options: Unpack[ClockOptions]) -> Strategy:
    """The watermark follows the time of the batches at a distance, also when no rows arrive.

    >>> processing_time("1 minute").describe()
    'processing time, 1m behind'
    """
    rule = ProcessingTime(duration(delay, what="delay of processing_time()", zero=True))
    return Strategy(rule, read_options("processing_time", options, allowed=CLOCK_OPTIONS))


def no_watermark(**options: Unpack[ClockOptions]) -> Strategy:
    """No watermark: nothing is ever late, and no window is complete before the stream is drained.

    Rows move no watermark here, so they may be any time ahead of the clock unless ``max_future_skew`` is given.

    >>> no_watermark().describe()
    'no watermark'
    """
    return Strategy(NoWatermark(), read_options("no_watermark", options, allowed=CLOCK_OPTIONS, max_future_skew=None))


def unstated() -> Strategy:
    """The watermark of a stream that names none: as ``no_watermark()``, but a host may require one that is stated."""
    return Strategy(NoWatermark(stated=False), Options(max_future_skew=None))
