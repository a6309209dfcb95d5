"""Watermark strategies: ``ev.bounded_delay`` and the others, each a generator with its options.

strategy (per origin) -> sequences (per origin) -> coalescer (per watermark key) -> operator
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import polars as pl

from eventide._column_refs import Column, named
from eventide._databases import without_password
from eventide._display import described
from eventide._hints import with_option_hints
from eventide.errors import PlanError, did_you_mean
from eventide.time import MAX, duration, format_duration, time_column
from eventide.watermarks.errors import not_a_column
from eventide.watermarks.generators import (
    BoundedDelay,
    Noted,
    NoWatermark,
    ProcessingTime,
    Punctuated,
    WatermarkGenerator,
)
from eventide.watermarks.options import (
    COLUMN_OPTIONS,
    MAX_FUTURE_SKEW,
    Gaps,
    Length,
    OnReturn,
    Options,
    check_type,
    read_options,
)
from eventide.watermarks.origin_summary import empty_summary, highest_offsets, segment_positions, summarise, unusable


@described
@dataclass(frozen=True, slots=True)
class Strategy:
    """A watermark generator and its options. Functions such as ``bounded_delay`` create it."""

    generator: WatermarkGenerator
    options: Options

    def columns(self) -> tuple[str, ...]:
        """The columns that it needs besides event time.

        >>> from eventide.watermarks import bounded_delay
        >>> bounded_delay("5s", origin="device", sequence="offset").columns()
        ('device', 'offset')
        """
        return tuple(dict.fromkeys((*self.options.columns(), *self.generator.columns())))

    def check(self, schema: Mapping[str, pl.DataType]) -> None:
        """Raise an error if a column is missing or has the wrong type.

        >>> from eventide.watermarks import bounded_delay
        >>> bounded_delay("5s", origin="devise").check({"device": pl.String()})
        Traceback (most recent call last):
        ...
        eventide.errors.PlanError: bounded_delay(): there is no column 'devise' for origin. Did you mean 'device'?
        """
        named = {option: getattr(self.options, option) for option in COLUMN_OPTIONS}
        for option, column in (*named.items(), *(("watermarks", name) for name in self.generator.columns())):
            if column is None:
                continue
            if column not in schema and isinstance(self.generator, Noted):
                raise PlanError(
                    f"noted(): there is no column {column!r}, which holds the position of a row in stream "
                    f"{self.generator.stream!r}. Load the stream with format('eventide') or scan_stream(), without "
                    "option('places', 'false'), and keep its columns. "
                    f"{did_you_mean(column, schema)}"
                )
            if column not in schema:
                hint = did_you_mean(column, schema)
                raise PlanError(f"{self.generator.name}(): there is no column {column!r} for {option}. {hint}")
            check_type(self.generator.name, option, column, schema[column])
        for column in self.options.ids:
            if column not in schema:
                raise PlanError(
                    f".deduplicate(): there is no column {column!r} in the rows. {did_you_mean(column, schema)}"
                )

    def summarise(self, rows: pl.DataFrame, time: str, now: int) -> pl.DataFrame:
        """The summary of rows per origin. Summaries are combined by ``pl.concat``.

        A row without a usable time, or too far ahead, moves no watermark and does not keep its origin active. Its
        sequence number still counts as seen.

        >>> from eventide.watermarks import bounded_delay
        >>> rows = pl.DataFrame({"ts": [10, 30, 20], "device": ["a", "a", "b"]})
        >>> delayed = bounded_delay("5 us", origin="device")
        >>> delayed.summarise(rows, "ts", now=0).sort("origin").select("origin", "watermark", "rows").rows()
        [('a', 25, 2), ('b', 15, 1)]
        """
        times, _ = time_column(rows, time)
        marks = self.generator.row_watermarks(rows, times, self.future(rows, time, now))
        summary = empty_summary() if marks is None else summarise(rows, marks, self.options)
        if isinstance(self.generator, Noted):
            summary = pl.concat([summary, segment_positions(rows, *self.generator.columns())])
        if self.options.offset in (None, self.options.sequence):  # sequences are summarised anyway
            return summary
        return pl.concat([summary, highest_offsets(rows, self.options)])

    def deduplicating(self) -> Strategy:
        """The strategy of a stream that rejects rows whose sequence number was seen."""
        return replace(self, options=replace(self.options, deduplicate=True))

    def deduplicating_ids(self, ids: tuple[str, ...], within: int) -> Strategy:
        """The strategy of a stream that rejects rows whose ids were seen ``within`` a span of event time."""
        return replace(self, options=replace(self.options, ids=ids, ids_within=within))

    def by_offset(self, column: str) -> Strategy:
        """The same for a stream that is windowed by offset."""
        return replace(self, options=replace(self.options, offset=column))

    def identity(self, column: Callable[[str], pl.Expr] = pl.col) -> list[pl.Expr]:
        """The identity of a row: its ``origin``, ``sequence`` and ``chunk``, as far as rows have them."""
        options = self.options
        parts = [] if options.origin is None else [column(options.origin).cast(pl.String).alias("origin")]
        numbers = {"sequence": (options.sequence, options.shift), "chunk": (options.chunk, 0)}
        parts += [
            (column(number).cast(pl.Int64, strict=False) + shift).alias(name)
            for name, (number, shift) in numbers.items()
            if number
        ]
        return parts

    def faults(self, rows: pl.DataFrame) -> pl.Series | None:
        """The rows whose sequence, chunk or declared watermark is unusable, for the dead letters; None if none is.

        >>> from eventide.watermarks import bounded_delay
        >>> bounded_delay("5s", sequence="n").faults(pl.DataFrame({"n": [1, 0, None]})).to_list()
        [False, True, True]
        """
        numbers, times = unusable(rows, self.options), self.generator.unusable(rows)
        return numbers if times is None else times if numbers is None else numbers | times

    def future(self, rows: pl.DataFrame, time: str, now: int) -> pl.Series | None:
        """The rows that are, or declare to be, further ahead than ``max_future_skew``; None when there are none.

        >>> from eventide.watermarks import ascending
        >>> guarded = ascending(max_future_skew="10 us")
        >>> guarded.future(pl.DataFrame({"ts": [110, 111]}), "ts", now=100).to_list()
        [False, True]
        """
        event_times = self._ahead(time_column(rows, time)[0], now)
        declared = [self._ahead(time_column(rows, name)[0], now) for name in self._declared()]
        ahead = [mask for mask in (event_times, *declared) if mask is not None]
        return None if not ahead else ahead[0] if len(ahead) == 1 else ahead[0] | ahead[1]

    def describe(self) -> str:
        """One line for ``explain()``.

        >>> from eventide.watermarks import bounded_delay
        >>> bounded_delay("30s", origin="partition", idle_timeout="2m").describe()
        "bounded delay 30s, per 'partition', idle after 2m"
        """
        return ", ".join((self.generator.describe(), *self.options.describe(), *self._guard()))

    def over_panes(self) -> Strategy:
        """The same for rows that are panes of another pipeline: without the default ``max_future_skew``.

        The source of the panes was checked already, and a pane has the time of its window, which may end long after
        the clock.
        """
        if self.options.max_future_skew != MAX_FUTURE_SKEW:
            return self
        return replace(self, options=replace(self.options, max_future_skew=None))

    def _default_skew(self) -> int | None:
        return None if isinstance(self.generator, NoWatermark) else MAX_FUTURE_SKEW

    def _guard(self) -> list[str]:
        skew = self.options.max_future_skew
        if skew == self._default_skew():
            return []
        return [
            "any time ahead of the clock" if skew is None else f"at most {format_duration(skew)} ahead of the clock"
        ]

    def _declared(self) -> tuple[str, ...]:
        """The columns in which rows declare watermarks."""
        return self.generator.columns() if self.generator.declared else ()

    def _ahead(self, times: pl.Series, now: int) -> pl.Series | None:
        if self.options.max_future_skew is None:
            return None
        limit = min(now + self.options.max_future_skew, MAX)
        highest: Any = times.max()
        return None if highest is None or highest <= limit else (times > limit).fill_null(False)


@with_option_hints
def bounded_delay(
    delay: str | timedelta,
    *,
    at_latest: Length | None = None,
    origin: Column | None = None,
    sequence: Column | None = None,
    first_sequence: int = 1,
    gaps: Gaps = "wait",
    gap_timeout: Length | None = None,
    chunk: Column | None = None,
    last_chunk: Column | None = None,
    first_chunk: int = 1,
    idle_timeout: Length | None = None,
    on_return: OnReturn = "hold",
    forget_after: Length | None = None,
    expect_origins: int | Collection[str | int] | None = None,
    origins_timeout: Length | None = None,
    max_future_skew: Length | None = "1 day",
    watermark_key: int = 0,
) -> Strategy:
    """The watermark follows the highest event time of each origin at a fixed delay.

    ``at_latest``: where no rows arrive, it follows the clock of the batches at this distance, so that windows of an
    idle stream end. Rows that are older than that are late: use it for live data, not for a backfill.

    ``origin``: the column of the source of a row (a partition, a device); the watermark is that of the
    slowest. ``idle_timeout``: how long an origin may send nothing before the watermark stops waiting for
    it. ``on_return``: whether an origin that returns behind the watermark holds it (``"hold"``) or is left out until it
    has caught up (``"catch_up"``). ``forget_after``: how far the watermark is past an idle origin when it is forgotten.
    ``expect_origins``: how many origins, or which, must send rows before the watermark moves, for at most
    ``origins_timeout``.

    ``sequence``: the column that numbers the rows of an origin from ``first_sequence`` on, so that gaps show.
    ``gaps="wait"``: the watermark waits for missing numbers, for at most ``gap_timeout``. ``gaps="allowed"``: numbers
    ascend with holes that are never filled, as offsets of Kafka, which begin with 0. ``chunk``, ``last_chunk`` and
    ``first_chunk``: the parts of a number, the flag of its last part, and the number of its first.

    ``max_future_skew``: rows that are further ahead of the clock are dead letters (None: no limit).
    ``watermark_key``: the number of this watermark among several of a pipeline.

    >>> bounded_delay("30 seconds", origin="partition").describe()
    "bounded delay 30s, per 'partition'"
    >>> bounded_delay("30 seconds", at_latest="5 minutes").describe()
    'bounded delay 30s, at the latest 5m behind the clock'
    """
    options = _options(locals(), "delay", "at_latest")
    length = duration(delay, what="delay of bounded_delay()", zero=True)
    return Strategy(_bounded_delay("bounded_delay", length, at_latest), read_options("bounded_delay", options))


@with_option_hints
def ascending(
    *,
    at_latest: Length | None = None,
    origin: Column | None = None,
    sequence: Column | None = None,
    first_sequence: int = 1,
    gaps: Gaps = "wait",
    gap_timeout: Length | None = None,
    chunk: Column | None = None,
    last_chunk: Column | None = None,
    first_chunk: int = 1,
    idle_timeout: Length | None = None,
    on_return: OnReturn = "hold",
    forget_after: Length | None = None,
    expect_origins: int | Collection[str | int] | None = None,
    origins_timeout: Length | None = None,
    max_future_skew: Length | None = "1 day",
    watermark_key: int = 0,
) -> Strategy:
    """Each origin sends its rows in the order of event time; equal times count as ordered.

    The watermark is the highest event time of an origin, and that of the slowest origin counts: a row that is older
    than a row before it of its origin can be late. Rows that are only nearly in order need ``bounded_delay``.

    ``origin``: the column of the source of a row (a partition, a device). ``at_latest``: where no rows arrive, the
    watermark follows the clock at this distance. ``idle_timeout``: how long an origin may send nothing before the
    watermark stops waiting for it. ``sequence``: the column that numbers the rows of an origin, so that the watermark
    waits for missing ones. The other options are those of ``bounded_delay``, too.

    >>> ascending(origin="file").describe()
    "ascending, per 'file'"
    >>> import eventide as ev, polars as pl
    >>> minutes = ev.stream("ts", watermark=ev.ascending()).window(ev.tumbling("1 minute")).agg(n=ev.count())
    >>> query = minutes.start_local()
    >>> step = query.push(pl.DataFrame({"ts": ["2026-03-01T12:00:05Z", "2026-03-01T12:01:00Z"]}))
    >>> step.panes["n"].to_list(), str(step.watermark)
    ([1], '2026-03-01 12:01:00+00:00')
    """
    options = _options(locals(), "at_latest")
    return Strategy(_bounded_delay("ascending", 0, at_latest), read_options("ascending", options))


@with_option_hints
def punctuated(
    column: Column,
    *,
    origin: Column | None = None,
    sequence: Column | None = None,
    first_sequence: int = 1,
    gaps: Gaps = "wait",
    gap_timeout: Length | None = None,
    chunk: Column | None = None,
    last_chunk: Column | None = None,
    first_chunk: int = 1,
    idle_timeout: Length | None = None,
    on_return: OnReturn = "hold",
    forget_after: Length | None = None,
    expect_origins: int | Collection[str | int] | None = None,
    origins_timeout: Length | None = None,
    max_future_skew: Length | None = "1 day",
    watermark_key: int = 0,
) -> Strategy:
    """Some rows declare the watermark of their origin in ``column``. A value that decreases stops the job.

    A value is an instant, as event times are: no row before it follows from this origin. A null declares nothing.
    Numbers are microseconds: ``time_unit`` of the stream applies to event times only.

    With ``sequence=`` the order of rows is that of their numbers, which arrive in any order, so there the
    highest declared value of the gap-free run counts. It never decreases.

    ``origin``: the column of the source of a row (a partition, a device); the watermark is that of the slowest.
    ``idle_timeout``: how long an origin may send nothing before the watermark stops waiting for it. The other options
    are those of ``bounded_delay``, too.

    >>> punctuated("safe_until", origin="device").columns()
    ('device', 'safe_until')
    >>> import eventide as ev, polars as pl
    >>> stream = ev.stream("ts", watermark=ev.punctuated("safe_until"))
    >>> query = stream.window(ev.tumbling("1 minute")).agg(n=ev.count()).start_local()
    >>> rows = {"ts": ["2026-03-01T12:00:05Z", "2026-03-01T12:01:30Z"], "safe_until": [None, "2026-03-01T12:01:00Z"]}
    >>> step = query.push(pl.DataFrame(rows))
    >>> step.panes["n"].to_list(), str(step.watermark)
    ([1], '2026-03-01 12:01:00+00:00')
    """
    options = _options(locals(), "column")
    name = named(column)
    if not isinstance(name, str) or not name:
        raise not_a_column("punctuated", "column", column)
    return Strategy(Punctuated(name), read_options("punctuated", options))


@with_option_hints
def noted(
    stream: str,
    *,
    token: str | None = None,
    max_future_skew: Length | None = "1 day",
    watermark_key: int = 0,
) -> Strategy:
    """The watermark is the time that the stream's writers noted, once all rows before it were read.

    ``stream`` is the address of the stream that the rows are read from. On Spark its marks arrive with the rows
    of ``spark.readStream.format("eventide").load(stream)``; no row that its writer noted in time is ever late.
    ``token`` is for a stream behind a controller that requires one (default: the variable ``EVENTIDE_TOKEN``).

    >>> noted("sqlite:///shop.db#orders").describe()
    "as noted by the writers of 'orders'"
    """
    options = _options(locals(), "stream", "token")
    name = stream.rpartition("#")[2] if isinstance(stream, str) and "#" in stream else ""
    if not name:
        raise _not_a_stream(stream)
    identity = hashlib.sha256(stream.encode()).hexdigest()[:16]
    return Strategy(Noted(name, stream, token, identity), read_options("noted", options))


@with_option_hints
def processing_time(
    delay: str | timedelta, *, max_future_skew: Length | None = "1 day", watermark_key: int = 0
) -> Strategy:
    """The watermark follows the time of the batches at a fixed delay, even when no rows arrive.

    >>> processing_time("1 minute").describe()
    'processing time, 1m behind'
    """
    options = _options(locals(), "delay")
    generator = ProcessingTime(duration(delay, what="delay of processing_time()", zero=True))
    return Strategy(generator, read_options("processing_time", options))


@with_option_hints
def no_watermark(*, max_future_skew: Length | None = None, watermark_key: int = 0) -> Strategy:
    """No watermark: nothing is ever late, and no window is complete before the stream is drained.

    Rows move no watermark here, so they may be any time ahead of the clock unless ``max_future_skew`` is given.

    >>> no_watermark().describe()
    'no watermark'
    """
    return Strategy(NoWatermark(), read_options("no_watermark", _options(locals())))


def _options(arguments: Mapping[str, Any], *others: str) -> dict[str, Any]:
    """The options among the arguments of a strategy."""
    return {name: value for name, value in arguments.items() if name not in others}


def _bounded_delay(name: str, delay: int, at_latest: Length | None) -> BoundedDelay:
    if at_latest is None:
        return BoundedDelay(delay, name)
    latest = duration(at_latest, what=f"at_latest of {name}()", zero=True)
    if latest <= delay:
        raise PlanError(
            f"{name}(): at_latest={format_duration(latest)} is not longer than the delay of {format_duration(delay)}, "
            "so the watermark would always follow the clock. Choose a longer at_latest=, or "
            f"ev.processing_time({format_duration(latest)!r}) to follow the clock only."
        )
    return BoundedDelay(delay, name, latest)


def unstated() -> Strategy:
    """The watermark of a stream that names none: as ``no_watermark()``, but a host may require one that is stated."""
    return Strategy(NoWatermark(stated=False), Options(max_future_skew=None))


def _not_a_stream(value: object) -> PlanError:
    """The error about a value that is not the address of a stream."""
    shown = without_password(value) if isinstance(value, str) else value
    return PlanError(
        f"noted({shown!r}): it takes the address of the stream of the rows: its store, #, and its name, "
        "such as noted('sqlite:///shop.db#orders')."
    )
