"""How users say a plan: ``ev.stream(…).window(…).trigger(…).agg(…)``. Every step gives a new, immutable value."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from eventide.aggregates import Aggregate
from eventide.columns import named, with_names
from eventide.errors import plan as errors
from eventide.errors import processing as processing_errors
from eventide.errors import triggers as trigger_errors
from eventide.errors import windows as window_errors
from eventide.hints import no_attribute
from eventide.panes import RESERVED
from eventide.plan.calls import AsyncMap, async_map, followed_by
from eventide.plan.emission import When, check_mode, default_mode, emission
from eventide.plan.pipeline import Pipeline
from eventide.plan.plan import IngestionTime, Input, Mode, OutputTime, Plan, Window
from eventide.plan.process_plan import Late, OnError, process_plan
from eventide.plan.retention import Retention, retention
from eventide.processors import Processor
from eventide.time import duration, format_duration
from eventide.triggers import Finish, Trigger, after_watermark, on_update
from eventide.watermarks import Strategy, ascending, bounded_delay
from eventide.watermarks.strategies import unstated
from eventide.windows import Cumulate, Inherit, Sessions, Sliding, Tumbling, WindowKind

_LONGEST = 2**61  # beside an instant, a lateness or a window must fit into 64 bits


@dataclass(frozen=True)
class Stream:
    """Rows with an event time, a key and a watermark; the start of every pipeline."""

    _time: str | IngestionTime
    _key: tuple[str, ...]
    _watermark: Strategy
    _window: Window | None = None
    _trigger: Trigger | None = None
    _lateness: int | None = None
    _mode: Mode | None = None
    _options: dict[str, Any] = field(default_factory=dict)
    _inputs: tuple[Input, ...] = ()
    _calls: tuple[AsyncMap, ...] = ()

    def window(self, kind: Window, *, output_time: OutputTime = "end") -> Stream:
        """Cut the stream into windows. A pane's event time is the window's end, or that of a row (``output_time``)."""
        if self._window is not None:
            raise errors.said_twice("window")
        if isinstance(kind, type) or not isinstance(kind, (WindowKind, Sessions, Inherit)):
            raise window_errors.not_a_window(kind)
        if output_time not in ("end", "earliest", "latest"):
            raise errors.bad_output_time(output_time)
        if isinstance(kind, (Tumbling, Sliding, Cumulate, Sessions)):
            _check_lengths(kind)
        return replace(self, _window=kind, _options=self._options | {"output_time": output_time})

    def emit(
        self,
        *,
        early: When | None = None,
        late: When | None = None,
        allowed_lateness: str | timedelta | int | None = None,
        mode: Mode | None = None,
        skip_unchanged: bool = False,
    ) -> Stream:
        """Choose when panes are emitted besides the pane of the complete window, and how late rows may be.

        ``early``: before the window is complete, so often (``"10 seconds"`` of processing time while rows arrive), or
        by a trigger. ``allowed_lateness``: late rows refine the window for so long after its end; what arrives later
        goes to the late output. For windows by offset it is a number of rows. ``late``: how often they do, by default
        with every bundle that has some. ``mode``: how the panes of a window relate. ``"retracting"``, the default,
        retracts the previous pane (``diff = -1``), so that the diffs sum to the table; ``"accumulating"`` emits only
        the new content of the window, ``"discarding"`` only what is new. ``skip_unchanged``: no pane that equals the
        one before.

        >>> import eventide as ev
        >>> sales = ev.stream(time="ts", key="shop", watermark="30 seconds").window(ev.tumbling("1 minute"))
        >>> revenue = sales.emit(early="10 seconds", allowed_lateness="1 hour").agg(total=ev.sum("price"))
        >>> revenue.plan.mode
        'retracting'
        """
        stream = self
        if isinstance(allowed_lateness, int):
            stream = stream.lateness(rows=allowed_lateness)
        elif allowed_lateness is not None:
            stream = stream.lateness(allowed_lateness)
        stream = stream.trigger(emission(early, late, has_lateness=allowed_lateness is not None))
        if mode is not None:
            check_mode(mode)
            return stream._accumulate(mode, skip_unchanged)
        return replace(stream, _options=stream._options | {"skip_unchanged": skip_unchanged})

    def trigger(self, trigger: Trigger, *, may_lose_data: bool = False) -> Stream:
        """Choose when panes are emitted, by any trigger. The short form for most cases is ``.emit``."""
        if self._trigger is not None:
            raise errors.said_twice("trigger")
        if not hasattr(trigger, "compile"):
            raise trigger_errors.not_a_trigger(".trigger()", trigger)
        return replace(self, _trigger=trigger, _options=self._options | {"may_lose_data": may_lose_data})

    def lateness(self, lateness: str | timedelta | None = None, *, rows: int | None = None) -> Stream:
        """Keep complete windows for so long: late rows refine them. What comes later goes to the late output.

        For windows by offset it is a number of ``rows``: a window of an origin is kept until its offsets are so many
        past the window's end.
        """
        if self._lateness is not None:
            raise errors.said_twice("lateness")
        if (lateness is None) == (rows is None):
            raise errors.one_lateness()
        if rows is not None:
            if isinstance(rows, bool) or not isinstance(rows, int) or not 0 <= rows <= _LONGEST:
                raise window_errors.not_a_row_count("rows", rows)
            return replace(self, _lateness=rows, _options=self._options | {"lateness_in_rows": True})
        length = duration(lateness, what="lateness()", zero=True)
        if length > _LONGEST:
            raise errors.overflow_of_time("lateness", length)
        return replace(self, _lateness=length)

    def retain(
        self, *, time: str | timedelta | None = None, rows: int | None = None, bytes: int | None = None
    ) -> Stream:
        """Bound what rests in state. What comes for a window that had to go is a dead letter, ``out_of_retention``.

        ``time``: a window is kept for so long after its end, so that late rows refine it, as with ``.lateness``. Where
        there is a shorter lateness too, that one ends its life: what comes is late first, then out of retention.
        Windows that end at a row are closed when the watermark is so far past the latest of their rows.

        ``rows``: the open windows of a key (of all rows, without a key) hold at most so many; a row counts in each
        window that it is in. Where there are more, the oldest windows are closed: what they have not emitted is emitted
        as their last pane. A window that holds so many by itself takes no more.

        ``bytes``: the same for the estimated size of all windows, of whatever key. On Spark it is that of a bucket.

        >>> import eventide as ev
        >>> clicks = ev.stream(time="ts", key="user").retain(time="1 hour", rows=10_000)
        """
        if "retain" in self._options:
            raise errors.said_twice("retain")
        return replace(self, _options=self._options | {"retain": retention(time, rows, bytes)})

    def deduplicate(self) -> Stream:
        """Set aside rows that come again: the dead letters get them with the reason ``duplicate``.

        A row is known by its origin and its sequence number (and chunk), as the watermark's ``origin=``, ``sequence=``
        and ``chunk=`` name them, so each row must have a number of its own. A number counts as seen once a row with it
        has come, even if that row was late or a dead letter; one that was only skipped (``gap_timeout=``, ``skip_gap``)
        does not. What is remembered grows with the gaps in the numbers, not with the rows.

        >>> import eventide as ev
        >>> numbered = ev.bounded_delay("30 seconds", origin="partition", sequence="offset")
        >>> clicks = ev.stream(time="ts", key="user", watermark=numbered).deduplicate()
        """
        if self._inputs:
            raise errors.deduplicate_apart()
        if self._watermark.options.deduplicate:
            raise errors.said_twice("deduplicate")
        if self._watermark.options.sequence is None:
            raise errors.no_numbers(self._watermark.describe())
        return replace(self, _watermark=self._watermark.deduplicating())

    def accumulating(self, *, skip_unchanged: bool = False) -> Stream:
        """Each pane repeats the whole content of its window."""
        return self._accumulate("accumulating", skip_unchanged)

    def discarding(self, *, skip_unchanged: bool = False) -> Stream:
        """Each pane has only what is new since the last one."""
        return self._accumulate("discarding", skip_unchanged)

    def retracting(self, *, skip_unchanged: bool = False) -> Stream:
        """As accumulating, and the last pane is taken back first (``diff = -1``): the diffs sum to the truth."""
        return self._accumulate("retracting", skip_unchanged)

    def agg(self, **aggregates: Aggregate) -> Pipeline:
        """Complete the pipeline: what is computed for each key and window."""
        if self._window is None:
            raise errors.no_window()
        return self._by_offset(self._window)._completed(self._window, with_names(aggregates))

    def _completed(self, window: Window, aggregates: dict[str, Aggregate]) -> Pipeline:
        self._check_names(aggregates)
        self._check_lateness(window)
        kept: Retention | None = self._options.get("retain")
        lateness = self._kept_for(window, kept)
        trigger = self._trigger or (after_watermark(late=on_update()) if lateness else after_watermark())
        self._check_trigger(trigger, lateness)
        if isinstance(window, Sessions) and window.max_duration and self._mode == "discarding":
            raise errors.session_discarding()
        return Pipeline(
            Plan(
                time=self._time,
                key=self._key,
                watermark=self._watermark,
                window=window,
                trigger=trigger,
                lateness=lateness,
                mode=self._mode or default_mode(trigger, lateness),
                aggregates=aggregates,
                skip_unchanged=self._options.get("skip_unchanged", False),
                output_time=self._options["output_time"],
                inputs=self._inputs,
                calls=self._calls,
                retention=kept,
            )
        )

    def process(
        self,
        processor: Processor,
        *,
        output: Mapping[str, Any],
        name: str | None = None,
        late: Late = "process",
        on_error: OnError = "raise",
    ) -> Pipeline:
        """Complete the pipeline with an operator of one's own, which gives rows with the columns ``output``.

        ``late="divert"`` sends rows behind the watermark to the late output; by default the processor gets them too,
        marked. ``on_error="dead"`` makes dead letters of rows on which a ``RowProcessor`` raises. ``name`` stands for
        the processor in messages and in its state (by default its class's name).
        """
        if self._window is not None:
            raise processing_errors.windowed_already("process")
        said = {"trigger": self._trigger, "lateness": self._lateness, self._mode or "accumulating": self._mode}
        for setting in [name for name, value in said.items() if value is not None] + list(self._options):
            raise processing_errors.only_for_windows(setting)
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
        """Ask the world outside about each row, many at a time: ``fn`` takes a row as a dict, and adds columns to it.

        It gives a dict with columns of ``output``, which are added to the row or take the place of its own; a list of
        dicts, each of which makes a row; or None, and the row is dropped. Time, key and watermark may be columns of
        the row or of ``output``.

        At most ``capacity`` calls of a task run at a time. One that raises, or gives no answer within ``timeout``, is
        tried again after ``backoff`` (the waits before each further attempt), ``retries`` times; then the row becomes
        a dead letter ``failed``. With ``ordered=False`` rows go on as the answers come.

        A bundle goes on when all of its calls are answered. With ``across_bundles=True`` it does not wait: a row goes
        on in the bundle in which its call is answered. Until then it is in state, and the watermarks behind it wait.
        A bundle waits only while more than ``capacity`` rows are in flight, or if it ends the stream. This needs a
        query in process, or state in the driver. Time and watermark must be columns of the row itself.

        A bundle that is replayed calls again, so a call may be
        made more than once for a row; what becomes of it is told once, and the same if ``fn`` gives the same.

        >>> import eventide as ev, polars as pl
        >>> async def look_up(row):
        ...     return {"country": {"kiel": "de", "oslo": "no"}[row["city"]]}
        >>> sales = ev.stream(time="t", key="country").map_async(look_up, output={"country": pl.String}, retries=0)
        >>> counted = sales.window(ev.tumbling("1 minute")).agg(n=ev.count())
        >>> result = counted.local(pl.DataFrame({"t": [1, 2, 3], "city": ["kiel", "oslo", "rome"]}))
        >>> result.panes.select("country", "n").rows(), result.dead["detail"].to_list()
        ([('de', 1), ('no', 1)], ["KeyError: 'rome' (in look_up, attempt 1)"])
        """
        if self._window is not None:
            raise processing_errors.windowed_already("map_async")
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

    if not TYPE_CHECKING:  # type checkers report attributes that do not exist

        def __getattr__(self, name: str) -> Any:
            """Name what is probably meant by an attribute that does not exist."""
            if name.startswith("_"):  # those that Python asks for
                raise AttributeError(name)
            raise AttributeError(no_attribute("Stream", name, dir(type(self))))

    def _by_offset(self, window: Window) -> Stream:
        """Offsets are an origin's own: it is part of the key, and the tracker follows how far they have come."""
        column: str | None = getattr(window, "by", None)
        if column is None:
            return self
        if self._inputs:
            raise errors.offsets_of_many()
        origin = self._watermark.options.origin
        if origin in RESERVED:
            raise errors.key_taken(str(origin))
        key = self._key if origin is None or origin in self._key else (*self._key, origin)
        return replace(self, _key=key, _watermark=self._watermark.by_offset(column))

    def _kept_for(self, window: Window, kept: Retention | None) -> int:
        """How long windows live after their end."""
        if kept is not None and kept.sized and isinstance(window, Sessions) and window.max_duration:
            raise errors.pieces_not_retained()
        if kept is None or kept.time is None:
            return self._lateness or 0
        if window.axis == "rows":
            return self._lateness or 0
        return kept.time if self._lateness is None else min(self._lateness, kept.time)

    def _check_lateness(self, window: Window) -> None:
        if self._lateness is None:
            return
        in_rows = self._options.get("lateness_in_rows", False)
        if window.axis == "rows" and getattr(window, "by", None) is None:
            if self._lateness:
                raise errors.latest_of_nothing()
        elif in_rows != (window.axis == "rows"):
            raise errors.lateness_in_rows(window.describe(), rows=in_rows)

    def _accumulate(self, mode: Mode, skip_unchanged: bool) -> Stream:
        if self._mode is not None:
            raise errors.another_mode(mode, self._mode)
        return replace(self, _mode=mode, _options=self._options | {"skip_unchanged": skip_unchanged})

    def _check_names(self, aggregates: dict[str, Aggregate]) -> None:
        from eventide.errors import aggregates as aggregate_errors

        if not aggregates:
            raise aggregate_errors.no_aggregates()
        for name, aggregate in aggregates.items():
            if not isinstance(aggregate, Aggregate):
                raise aggregate_errors.not_an_aggregate(name, aggregate)
            if not name:
                raise errors.no_name()
            if name in RESERVED:
                raise errors.name_taken(name, "a column that every pane has")
            if name in self._key:
                raise errors.name_taken(name, "a key column")
            if name.startswith("__"):
                raise errors.name_taken(name, "a name that begins with two underscores; those are Eventide's own")

    def _check_trigger(self, trigger: Trigger, lateness: int) -> None:
        finish = trigger.finish()
        loses = finish is Finish.ANY_TIME or (finish is Finish.AT_END and lateness > 0)
        if loses and not self._options.get("may_lose_data", False):
            at_end = finish is Finish.AT_END
            kept = f"{lateness} rows" if self._options.get("lateness_in_rows") else format_duration(lateness)
            raise trigger_errors.may_lose_data(trigger.describe(), kept, at_end=at_end)


def stream(
    time: str | IngestionTime,
    *,
    key: str | Sequence[str] | None = None,
    watermark: Strategy | str | timedelta | None = None,
) -> Stream:
    """Begin a pipeline: which column is the event time, which columns are the key, how the watermark is found.

    A duration is short for ``ev.bounded_delay``: rows are expected to be at most so much out of order.

    >>> import eventide as ev
    >>> clicks = ev.stream(time="ts", key="user", watermark="30 seconds")
    >>> per_minute = clicks.window(ev.tumbling("1 minute")).agg(n=ev.count())
    """
    time = named(time)
    if not isinstance(time, (str, IngestionTime)) or not time:
        raise errors.bad_time(time)
    names = _key_names(key)
    for i, name in enumerate(names):
        if name in names[:i]:
            raise errors.twice_in_key(name)
        if name in RESERVED:
            raise errors.key_taken(name)
    if watermark is None:
        watermark = ascending() if isinstance(time, IngestionTime) else unstated()
    if isinstance(watermark, (str, timedelta)):
        watermark = bounded_delay(watermark)
    if not hasattr(watermark, "summarise"):
        raise errors.not_a_watermark(watermark)
    return Stream(time, names, watermark)


def _check_lengths(kind: Tumbling | Sliding | Cumulate | Sessions) -> None:
    for name in ("size", "every", "gap", "max_duration"):
        length = getattr(kind, name, None)
        if isinstance(length, int) and length > _LONGEST:
            raise errors.overflow_of_time(f"{name} of the window", length)


def _key_names(key: object) -> tuple[str, ...]:
    if key is None:
        return ()
    key = named(key)
    names = (key,) if isinstance(key, str) else tuple(map(named, key)) if isinstance(key, Sequence) else (None,)
    for name in names:
        if not isinstance(name, str) or not name:
            raise errors.bad_key(key)
    return names


def ingestion_time() -> IngestionTime:
    """Where rows carry no time of their own: a row's time is that of the batch it came in.

    >>> import eventide as ev
    >>> visits = ev.stream(time=ev.ingestion_time(), key="page")
    """
    return IngestionTime()
