"""Streams: rows with an event time, a key and a watermark. Every step returns a new, immutable value."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, NoReturn, get_args

import polars as pl

from eventide._arguments import MAX_SPAN
from eventide._column_refs import Column, SparkColumn, TimeColumn, TimeUnit, named
from eventide._hints import with_attribute_hints, with_option_hints
from eventide.errors import PlanError, did_you_mean, shown
from eventide.plan.async_call import AsyncMap, async_map, followed_by
from eventide.plan.errors import check_key, set_twice, too_long
from eventide.plan.pipeline import Pipeline
from eventide.plan.plan import IngestionTime, Input, OutputTime, Window
from eventide.plan.process_plan import Late, OnError, process_plan
from eventide.plan.windowed_streams import WindowedStream
from eventide.processors import Processor
from eventide.time import duration
from eventide.watermarks import Strategy, ascending, bounded_delay
from eventide.watermarks.strategies import unstated
from eventide.windows import Cumulate, Inherit, Sessions, Sliding, Tumbling, WindowKind


@with_attribute_hints
@dataclass(frozen=True)
class Stream:
    """Rows with an event time, a key and a watermark; the start of every pipeline.

    >>> import eventide as ev
    >>> clicks = ev.stream("ts", key="page", watermark="30 seconds")
    >>> type(clicks).__name__, type(clicks.window(ev.tumbling("1 minute"))).__name__
    ('Stream', 'WindowedStream')
    """

    _time: str | IngestionTime
    _key: tuple[str, ...]
    _watermark: Strategy
    _inputs: tuple[Input, ...] = ()
    _calls: tuple[AsyncMap, ...] = ()

    def __or__(self, other: object) -> NoReturn:
        raise TypeError("Streams have no operator |. Unite them: ev.union(first, second).")

    def __repr__(self) -> str:
        return f"<Stream: {self._describe()}>"

    def _describe(self) -> str:
        if self._inputs:
            return f"union of {', '.join(source.name for source in self._inputs)}"
        return Input("rows", self._time, self._key, self._watermark).describe().removeprefix("rows: ")

    @with_option_hints
    def window(self, kind: Window, *, output_time: OutputTime = "end") -> WindowedStream:
        """Cut the stream into windows. A pane's event time is the window's end, or that of a row (``output_time``).

        >>> import eventide as ev
        >>> import polars as pl
        >>> minutes = ev.stream(time="t", key="shop").window(ev.tumbling("1 minute"), output_time="latest")
        >>> rows = pl.DataFrame({"t": [1_000_000, 5_000_000], "shop": ["kiel", "kiel"]})
        >>> panes = minutes.agg(n=ev.count()).local(rows).panes
        >>> panes.select("n", pl.col("window_time").dt.second()).row(0)  # the event time of the pane: second 5
        (2, 5)
        """
        if isinstance(kind, type) or not isinstance(kind, (WindowKind, Sessions, Inherit)):
            raise _not_a_window(kind)
        if output_time not in ("end", "earliest", "latest"):
            raise PlanError(
                f".window(output_time={shown(output_time)}): "
                f"{did_you_mean(str(output_time), ['end', 'earliest', 'latest'])}"
            )
        if isinstance(kind, (Tumbling, Sliding, Cumulate, Sessions)):
            _check_lengths(kind)
        return WindowedStream(self, kind, output_time)

    @with_option_hints
    def deduplicate(self, *ids: Column, within: str | timedelta | None = None) -> Stream:
        """Send rows that arrive again to the dead letters, with the reason ``duplicate``.

        With ``ids``, rows of a key are duplicates if these columns are equal. The first row counts; later rows whose
        event time is at most ``within`` away from it are duplicates. Ids are stored until the watermark is ``within``
        past their first row. A row whose id is null is never a duplicate.

        >>> import eventide as ev
        >>> orders = ev.stream(time="ts", key="shop", watermark="30 seconds").deduplicate("order_id", within="1 hour")

        Without ids, the origin and the sequence number (and chunk) identify a row, as the watermark's ``origin=``,
        ``sequence=`` and ``chunk=`` name them, so each row must have a number. A number is seen once a row with it has
        arrived, even if that row was late or a dead letter; a number that was only skipped (``gap_timeout=``,
        ``skip_gap``) is not. The state grows with the gaps in the numbers, not with the rows. Kafka offsets begin with
        0 and have gaps:

        >>> kafka = {"origin": "partition", "sequence": "offset", "first_sequence": 0, "gaps": "allowed"}
        >>> clicks = ev.stream(time="ts", key="user", watermark=ev.bounded_delay("30 seconds", **kafka)).deduplicate()
        """
        if self._inputs:
            raise PlanError(
                ".deduplicate() must precede ev.union(), because row numbers belong to one stream. Apply it to each "
                "stream: ev.union(web=web.deduplicate(), tills=tills.deduplicate())."
            )
        if self._watermark.options.deduplicate or self._watermark.options.ids:
            raise set_twice("deduplicate")
        if ids:
            return replace(self, _watermark=self._watermark.deduplicating_ids(*_ids_within(ids, within)))
        if within is not None:
            raise PlanError(".deduplicate(within=…) needs the columns of an id: .deduplicate('id', within='1 hour').")
        if self._watermark.options.sequence is None:
            raise PlanError(
                ".deduplicate() identifies rows by sequence numbers, but the watermark "
                f"({self._watermark.describe()}) names no column for them. Name the columns of an id: "
                ".deduplicate('id', within='1 hour'). Or number rows, for Kafka as in "
                "ev.bounded_delay('30 seconds', origin='partition', sequence='offset', first_sequence=0, "
                "gaps='allowed')."
            )
        return replace(self, _watermark=self._watermark.deduplicating())

    @with_option_hints
    def process(
        self,
        processor: Processor,
        *,
        output: Mapping[str, Any],
        name: str | None = None,
        late: Late = "process",
        on_error: OnError = "raise",
    ) -> Pipeline:
        """Complete the pipeline with a processor, which emits rows with the columns ``output``.

        ``late="divert"`` sends late rows to the late output; by default the processor receives them too, marked as
        late. ``on_error="dead"`` sends rows on which a ``RowProcessor`` raises to the dead letters. ``name`` identifies
        the processor in messages and in its state (by default the name of its class).

        >>> import eventide as ev, polars as pl
        >>> class Doubled(ev.RowProcessor):
        ...     def process_row(self, edge, row, state):
        ...         yield {"n": 2 * row["n"]}
        >>> doubled = ev.stream(time="t", key="shop").process(Doubled(), output={"n": pl.Int64})
        >>> doubled.local(pl.DataFrame({"t": [1, 2], "shop": ["kiel", "ulm"], "n": [1, 4]})).panes["n"].to_list()
        [2, 8]
        """
        plan = process_plan(
            processor,
            output=output,
            name=name,
            on_error=on_error,
            late=late,
            time=self._time,
            key=self._key,
            watermark=self._watermark,
            inputs=self._inputs,
            calls=self._calls,
        )
        return Pipeline(plan)

    @with_option_hints
    def map_async(
        self,
        fn: Callable[[dict[str, Any]], Awaitable[Any]],
        *,
        output: Mapping[str, Any],
        ordered: bool = True,
        capacity: int = 100,
        timeout: str | timedelta | None = None,
        retries: int = 2,
        backoff: str | timedelta | Sequence[str | timedelta] = ("100 ms", "1 s"),
        across_bundles: bool = False,
    ) -> Stream:
        """Call an async function for each row, many at a time: ``fn`` takes a row as a dict, and adds columns to it.

        It returns a dict with columns of ``output``, which are added to the row or replace columns of it; a list of
        dicts, one for each row to emit; or None to drop the row. Time, key and watermark may be columns of the row or
        of ``output``.

        At most ``capacity`` calls of a task run at a time. A call that raises, or does not return within ``timeout``,
        is retried ``retries`` times, each time after the next wait of ``backoff``; then the row becomes a dead letter
        ``failed``. With ``ordered=False`` rows are emitted in the order in which their calls return.

        A bundle completes when all of its calls have returned. With ``across_bundles=True`` it does not wait: a row is
        emitted in the bundle in which its call returns. Until then the row is stored in state, and the watermarks
        behind it wait. A bundle waits only while more than ``capacity`` rows are in flight, or if it ends the stream.
        This needs a query in process, or state in the driver. Time and watermark must be columns of the row itself.

        A replayed bundle repeats its calls, so ``fn`` may be called more than once for a row. The result is emitted
        once, and is the same if ``fn`` returns the same.

        >>> import eventide as ev, polars as pl
        >>> async def look_up(row):
        ...     return {"country": {"kiel": "de", "oslo": "no"}[row["city"]]}
        >>> sales = ev.stream(time="t", key="country").map_async(look_up, output={"country": pl.String}, retries=0)
        >>> counted = sales.window(ev.tumbling("1 minute")).agg(n=ev.count())
        >>> result = counted.local(pl.DataFrame({"t": [1, 2, 3], "city": ["kiel", "oslo", "rome"]}))
        >>> result.panes.select("country", "n").rows(), result.dead["ev_detail"].to_list()
        ([('de', 1), ('no', 1)], ["KeyError: 'rome' (in look_up, attempt 1)"])
        """
        call = async_map(
            fn,
            output=output,
            ordered=ordered,
            capacity=capacity,
            timeout=timeout,
            retries=retries,
            backoff=backoff,
            across_bundles=across_bundles,
        )
        if self._inputs:
            inputs = (replace(stream, calls=followed_by(stream.calls, call)) for stream in self._inputs)
            return replace(self, _inputs=tuple(inputs))
        return replace(self, _calls=followed_by(self._calls, call))


@with_option_hints
def stream(
    time: Column | IngestionTime,
    *,
    key: Column | Sequence[Column] | None = None,
    watermark: Strategy | str | timedelta | None = None,
    time_unit: TimeUnit | None = None,
) -> Stream:
    """Begin a pipeline: the column of the event time, the key columns, and how the watermark is generated.

    A duration as the ``watermark`` is short for ``ev.bounded_delay``: rows are expected to be out of order by at most
    that much. ``time_unit`` is the unit of numeric times: ``"s"``, ``"ms"``, ``"us"`` (the default) or ``"ns"`` since
    1970.

    >>> import eventide as ev
    >>> clicks = ev.stream(time="ts", key="user", watermark="30 seconds")
    >>> per_minute = clicks.window(ev.tumbling("1 minute")).agg(n=ev.count())
    """
    time = named(time)
    if not isinstance(time, (str, IngestionTime)) or not time:
        raise PlanError(
            f"time={shown(time)}: name the column of the event time, or use time=ev.ingestion_time() if there is none."
            f"{_computed(time)}"
        )
    if time_unit is not None:
        time = _with_unit(time, time_unit)
    names = _key_names(key)
    check_key(names)
    if watermark is None:
        watermark = ascending() if isinstance(time, IngestionTime) else unstated()
    if isinstance(watermark, (str, timedelta)):
        watermark = bounded_delay(watermark)
    if not hasattr(watermark, "summarise"):
        raise _not_a_watermark(watermark)
    return Stream(time, names, watermark)


def _computed(value: object) -> str:
    """The hint for an expression of Polars in place of a name."""
    expressions = value if isinstance(value, list | tuple) else [value]
    if any(isinstance(expression, pl.Expr) for expression in expressions):
        return " Compute the column before: rows.with_columns(…)."
    return ""


def _with_unit(time: str | IngestionTime, unit: TimeUnit) -> TimeColumn:
    if unit not in get_args(TimeUnit):
        raise PlanError(f"time_unit={shown(unit)} is not known: use 's', 'ms', 'us' or 'ns'.")
    if isinstance(time, IngestionTime | SparkColumn):
        raise PlanError("time_unit= is for a column of numbers: name the column, or let Spark compute a timestamp.")
    return TimeColumn(time, unit)


def _ids_within(ids: Sequence[object], within: str | timedelta | None) -> tuple[tuple[str, ...], int]:
    """The columns of an id, and how long an id is stored."""
    if len(ids) == 1 and isinstance(ids[0], (list, tuple)) and ids[0]:
        period = "'1 hour'" if within is None else shown(within)
        columns = ", ".join(map(shown, ids[0]))
        raise PlanError(
            f".deduplicate({shown(ids[0])}): pass the names without a list: .deduplicate({columns}, within={period})."
        )
    names = tuple(map(named, ids))
    for name in names:
        if not isinstance(name, str) or not name or names.count(name) > 1:
            raise PlanError(
                f".deduplicate({', '.join(map(shown, ids))}): give the names of the columns of an id, each once."
            )
    if within is None and len(names) > 1 and names[-1][0].isdigit():
        raise PlanError(
            f".deduplicate({', '.join(map(repr, names))}): name the period: "
            f".deduplicate({', '.join(map(repr, names[:-1]))}, within={names[-1]!r})."
        )
    if within is None:
        raise PlanError(
            f".deduplicate({', '.join(map(repr, names))}) needs within='1 hour': how far apart in event time "
            "duplicates may be. Ids are stored for that long."
        )
    length = duration(within, what="within of deduplicate()")
    if length > MAX_SPAN:
        raise too_long("within of deduplicate()", length)
    return names, length


def _check_lengths(kind: Tumbling | Sliding | Cumulate | Sessions) -> None:
    for name in ("size", "every", "gap", "max_duration", "forget_after", "timeout"):
        length = getattr(kind, name, None)
        if isinstance(length, int) and length > MAX_SPAN:
            raise too_long(f"{name} of the window", length)


def _key_names(key: object) -> tuple[str, ...]:
    if key is None:
        return ()
    key = named(key)
    names = (key,) if isinstance(key, str) else tuple(map(named, key)) if isinstance(key, Sequence) else (None,)
    for name in names:
        if not isinstance(name, str) or not name:
            raise PlanError(f"key={shown(key)}: a key is a column name, or a list of column names.{_computed(key)}")
    return names


@with_option_hints
def ingestion_time() -> IngestionTime:
    """Return a time for rows without an event time: the time of the batch in which a row arrives.

    >>> import eventide as ev
    >>> visits = ev.stream(time=ev.ingestion_time(), key="page")
    """
    return IngestionTime()


def _not_a_watermark(value: object) -> PlanError:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return PlanError(f"watermark={value} has no unit. Write it with one: watermark='{value} seconds'.")
    if callable(value) and hasattr(value, "__name__"):
        return PlanError(f"watermark={shown(value)} is not a watermark. Call it: ev.{value.__name__}(…).")
    return PlanError(f"watermark={shown(value)}: use a watermark such as watermark=ev.bounded_delay('30 seconds').")


def _not_a_window(value: object) -> PlanError:
    if isinstance(value, str):
        return PlanError(f"{value!r} is not a window. Name its kind, such as ev.tumbling({value!r}).")
    if callable(value) and hasattr(value, "__name__") and not isinstance(value, type):
        return PlanError(f".window() needs a window, not {shown(value)}. Call it: ev.{value.__name__}(…).")
    if isinstance(value, int | float | timedelta | None) or hasattr(value, "describe"):
        return PlanError(f".window() needs a window such as ev.tumbling('1 minute'), not {shown(value)}.")
    return PlanError(
        f".window() needs a window such as ev.tumbling('1 minute'), not {shown(value)} ({type(value).__name__}). "
        "A custom window kind implements ev.WindowKind: axis, shared, slice_of, windows_of, describe."
    )
