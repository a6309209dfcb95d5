"""How users say a plan: ``ev.stream(…).window(…).trigger(…).agg(…)``. Every step gives a new, immutable value."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from eventide.aggregates import Aggregate
from eventide.columns import named, with_names
from eventide.errors import plan as errors
from eventide.errors import processing as processing_errors
from eventide.errors import triggers as trigger_errors
from eventide.errors import windows as window_errors
from eventide.panes import RESERVED
from eventide.plan.calls import AsyncMap, async_map
from eventide.plan.pipeline import Pipeline
from eventide.plan.plan import IngestionTime, Input, Mode, OutputTime, Plan, Window
from eventide.plan.process_plan import Late, OnError, process_plan
from eventide.processors import Processor
from eventide.time import duration, format_duration
from eventide.triggers import Finish, Trigger, after_watermark, each
from eventide.watermarks import Strategy, ascending, none
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

    def window(self, kind: Window, *, at: OutputTime = "end") -> Stream:
        """Cut the stream into windows. ``at`` chooses a pane's output time: the window's end, or its rows'."""
        if self._window is not None:
            raise errors.said_twice("window")
        if isinstance(kind, type) or not isinstance(kind, (WindowKind, Sessions, Inherit)):
            raise window_errors.not_a_window(kind)
        if at not in ("end", "earliest", "latest"):
            raise errors.bad_output_time(at)
        if isinstance(kind, (Tumbling, Sliding, Cumulate, Sessions)):
            _check_lengths(kind)
        return replace(self, _window=kind, _options=self._options | {"output_time": at})

    def trigger(self, trigger: Trigger, *, may_lose_data: bool = False) -> Stream:
        """Say when panes are emitted. Name the accumulation mode too: how the panes of a window relate."""
        if self._trigger is not None:
            raise errors.said_twice("trigger")
        if not hasattr(trigger, "compile"):
            raise trigger_errors.not_a_trigger(".trigger()", trigger)
        return replace(self, _trigger=trigger, _options=self._options | {"may_lose_data": may_lose_data})

    def lateness(self, lateness: str | timedelta) -> Stream:
        """Keep complete windows for so long: late rows refine them. What comes later goes to the late output."""
        if self._lateness is not None:
            raise errors.said_twice("lateness")
        length = duration(lateness, what="lateness()", zero=True)
        if length > _LONGEST:
            raise errors.overflow_of_time("lateness", length)
        return replace(self, _lateness=length)

    def accumulating(self, *, fire_only_updated: bool = False) -> Stream:
        """Each pane repeats the whole content of its window."""
        return self._accumulate("accumulating", fire_only_updated)

    def discarding(self, *, fire_only_updated: bool = False) -> Stream:
        """Each pane has only what is new since the last one."""
        return self._accumulate("discarding", fire_only_updated)

    def retracting(self, *, fire_only_updated: bool = False) -> Stream:
        """As accumulating, and the last pane is taken back first (``diff = -1``): the diffs sum to the truth."""
        return self._accumulate("retracting", fire_only_updated)

    def agg(self, **aggregates: Aggregate) -> Pipeline:
        """Complete the pipeline: what is computed for each key and window."""
        if self._window is None:
            raise errors.no_window()
        aggregates = with_names(aggregates)
        self._check_names(aggregates)
        lateness = self._lateness or 0
        trigger = self._trigger or (after_watermark(late=each()) if lateness else after_watermark())
        if self._window.axis == "rows" and self._lateness:
            raise errors.latest_of_nothing()
        self._check_trigger(trigger, lateness)
        if isinstance(self._window, Sessions) and self._window.max_duration and self._mode == "discarding":
            raise errors.session_discarding()
        return Pipeline(
            Plan(
                time=self._time,
                key=self._key,
                watermark=self._watermark,
                window=self._window,
                trigger=trigger,
                lateness=lateness,
                mode=self._mode or "accumulating",
                aggregates=aggregates,
                fire_only_updated=self._options.get("fire_only_updated", False),
                output_time=self._options["output_time"],
                inputs=self._inputs,
                calls=self._calls,
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
    ) -> Stream:
        """Ask the world outside about each row, many at a time: ``fn`` takes a row as a dict, and adds columns to it.

        It gives a dict with columns of ``output``, which are added to the row or take the place of its own; a list of
        dicts, each of which makes a row; or None, and the row is dropped. Time, key and watermark may be columns of
        the row or of ``output``.

        At most ``capacity`` calls of a task run at a time. One that raises, or gives no answer within ``timeout``, is
        tried again after ``backoff`` (the waits before each further attempt), ``retries`` times; then the row becomes
        a dead letter ``failed``. With ``ordered=False`` rows go on as the answers come.

        A bundle goes on when all of its calls are answered. A bundle that is replayed calls again, so a call may be
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
            fn, output=output, ordered=ordered, capacity=capacity, timeout=timeout, retries=retries, backoff=backoff
        )
        if self._inputs:
            return replace(self, _inputs=tuple(replace(one, calls=(*one.calls, call)) for one in self._inputs))
        return replace(self, _calls=(*self._calls, call))

    def _accumulate(self, mode: Mode, fire_only_updated: bool) -> Stream:
        if self._mode is not None:
            raise errors.another_mode(mode, self._mode)
        return replace(self, _mode=mode, _options=self._options | {"fire_only_updated": fire_only_updated})

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
            raise trigger_errors.may_lose_data(trigger.describe(), format_duration(lateness), at_end=at_end)
        if self._trigger is not None and self._mode is None:
            raise trigger_errors.no_accumulation(trigger.describe())


def stream(
    *,
    time: str | IngestionTime,
    key: str | Sequence[str] | None = None,
    watermark: Strategy | None = None,
) -> Stream:
    """Begin a pipeline: which column is the event time, which columns are the key, how the watermark is found.

    >>> import eventide as ev
    >>> clicks = ev.stream(time="ts", key="user", watermark=ev.lag("30 seconds"))
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
        watermark = ascending() if isinstance(time, IngestionTime) else none()
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
