"""Windowed streams: when their panes are emitted, how much state they store, what they compute."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Never

from eventide._column_refs import with_names
from eventide._hints import with_attribute_hints, with_option_hints
from eventide.aggregates import Aggregate
from eventide.aggregates.errors import no_aggregates, not_an_aggregate, unnamed_aggregate
from eventide.errors import PlanError, shown
from eventide.panes import RESERVED
from eventide.plan.emission import Emission, When, emission
from eventide.plan.errors import set_twice
from eventide.plan.pipeline import Pipeline
from eventide.plan.plan import Mode, OutputTime, Window
from eventide.plan.window_plan import StateLimits, WindowPlan, state_limits
from eventide.triggers import Trigger
from eventide.windows import Sessions

if TYPE_CHECKING:
    from eventide.plan.streams import Stream


@with_attribute_hints
@dataclass(frozen=True)
class WindowedStream:
    """A stream that is cut into windows, which ``.window(…)`` returns. ``.agg(…)`` completes the pipeline.

    >>> import eventide as ev
    >>> hours: ev.WindowedStream = ev.stream("ts", key="shop", watermark="5 minutes").window(ev.tumbling("1 hour"))
    >>> counts: ev.Pipeline = hours.agg(n=ev.count())
    """

    _stream: Stream
    _window: Window
    _output_time: OutputTime = "end"
    _emission: Emission | None = None
    _limits: StateLimits | None = None

    def __repr__(self) -> str:
        emission = "" if self._emission is None else self._emission.describe()
        limits = "" if self._limits is None else f"at most {self._limits.describe()}"
        parts = (self._stream._describe(), self._window.describe(), emission, limits)
        return f"<WindowedStream: {', '.join(filter(None, parts))}>"

    @with_option_hints
    def emit(
        self,
        *unnamed: Never,
        early: When | None = None,
        late: When | None = None,
        allowed_lateness: str | timedelta | int | None = None,
        mode: Mode | None = None,
        skip_unchanged: bool = False,
    ) -> WindowedStream:
        """Choose which panes are emitted in addition to the on-time pane, and how late rows may be.

        - ``early``: emit panes before the window is complete, at this interval of processing time while rows arrive
          (``"10 seconds"``), or by a trigger.
        - ``allowed_lateness``: rows that arrive up to this long after the end update the window. Later rows go to the
          late output. For windows by offset it is a number of rows.
        - ``late``: the interval or trigger of the panes that late rows update; by default every bundle with such rows.
        - ``mode``: how the panes of a window relate. ``"retracting"``, the default, retracts the previous pane
          (``diff = -1``), so that the diffs sum to the table. ``"accumulating"`` emits the whole content again without
          a retraction, ``"discarding"`` only what is new since the previous pane.
        - ``skip_unchanged``: emit no pane that equals the previous one.

        >>> import eventide as ev
        >>> sales = ev.stream(time="ts", key="shop", watermark="30 seconds").window(ev.tumbling("1 minute"))
        >>> revenue = sales.emit(early="10 seconds", allowed_lateness="1 hour").agg(total=ev.sum("price"))
        >>> revenue.plan.mode
        'retracting'
        """
        if unnamed:
            raise PlanError(
                f".emit({shown(unnamed[0])}): name the argument, such as .emit(early={shown(unnamed[0])}) or "
                f".emit(allowed_lateness={shown(unnamed[0])})."
            )
        return self._with_emission(
            "emit",
            early=early,
            late=late,
            allowed_lateness=allowed_lateness,
            mode=mode,
            skip_unchanged=skip_unchanged,
        )

    @with_option_hints
    def trigger(
        self,
        trigger: Trigger,
        *,
        mode: Mode | None = None,
        allowed_lateness: str | timedelta | int | None = None,
        skip_unchanged: bool = False,
        may_lose_data: bool = False,
    ) -> WindowedStream:
        """Choose when panes are emitted, by any trigger. The short form for most cases is ``.emit``.

        The other options are those of ``.emit``. A trigger that may finish before the window is complete is rejected,
        unless ``may_lose_data=True`` accepts it.

        >>> import eventide as ev
        >>> sales = ev.stream(time="ts", key="shop", watermark="30 seconds").window(ev.tumbling("1 minute"))
        >>> hundreds = sales.trigger(ev.repeatedly(ev.after_count(100)), mode="discarding").agg(n=ev.count())
        """
        if trigger is None:
            raise PlanError(
                ".trigger() needs a trigger such as ev.after_watermark() or ev.every('10 seconds'), not None."
            )
        return self._with_emission(
            "trigger",
            trigger=trigger,
            allowed_lateness=allowed_lateness,
            mode=mode,
            skip_unchanged=skip_unchanged,
            may_lose_data=may_lose_data,
        )

    @with_option_hints
    def limit_state(self, *, rows: int | None = None, bytes: int | str | None = None) -> WindowedStream:
        """Limit the state. Rows of a window that was closed become dead letters with the reason ``out_of_retention``.

        ``rows``: the most rows in the open windows of a key (of the stream, without a key); a row counts in each of
        its windows. Above the limit the oldest windows are closed: their pending content is emitted as the last pane.
        A window that reaches the limit alone accepts no further rows.

        ``bytes``: the same for the estimated size of all windows of all keys (``"64m"``). On
        Spark the limit applies per bucket.

        >>> import eventide as ev
        >>> clicks = ev.stream(time="ts", key="user", watermark="1 minute").window(ev.tumbling("1 hour"))
        >>> bounded = clicks.limit_state(rows=10_000).agg(pages=ev.collect_list("page"))
        """
        if self._limits is not None:
            raise set_twice("limit_state")
        return replace(self, _limits=state_limits(rows, bytes))

    def agg(self, *unnamed: Never, **aggregates: Aggregate) -> Pipeline:
        """Complete the pipeline with the aggregates of each key and window.

        >>> import eventide as ev
        >>> clicks = ev.stream(time="ts", key="user", watermark="1 minute").window(ev.tumbling("1 hour"))
        >>> per_user = clicks.agg(clicks=ev.count(), longest=ev.max("seconds"))
        """
        if unnamed:
            raise unnamed_aggregate(unnamed[0])
        return Pipeline(self._plan(with_names(aggregates)))

    def _with_emission(self, method: str, **options: Any) -> WindowedStream:
        if self._emission is not None:
            raise PlanError(
                f".{method}(): the emission of this stream is already set. Use one .emit(…) or one .trigger(…), which "
                "take the allowed lateness and the mode, too."
            )
        chosen = emission(f".{method}()", **options)
        chosen.check(self._window)
        return replace(self, _emission=chosen)

    def _plan(self, aggregates: dict[str, Aggregate]) -> WindowPlan:
        stream, window, chosen = _keyed_by_origin(self._stream, self._window), self._window, self._emission
        chosen = chosen or Emission()
        _check_names(aggregates, stream._key)
        if getattr(window, "forget_after", None) is not None and not stream._key:
            raise PlanError(
                "rows(forget_after=…) forgets keys, and this stream has no key: all rows are one group. Leave "
                "forget_after out, or name a key in ev.stream(key=…)."
            )
        if isinstance(window, Sessions) and window.max_duration:
            if self._limits is not None:
                raise PlanError(
                    "sessions(max_duration=…) cannot have .limit_state(…): a piece that was closed would be cut anew "
                    "when its session's start moves. Leave one of them out."
                )
            if chosen.mode == "discarding":
                raise PlanError(
                    "sessions(max_duration=…) cannot be combined with mode='discarding': when a late row moves a "
                    "session's start, its pieces are cut anew, which needs the whole content. Use mode='accumulating' "
                    "or mode='retracting'."
                )
        return WindowPlan(
            time=stream._time,
            key=stream._key,
            watermark=stream._watermark,
            window=window,
            trigger=chosen.trigger,
            allowed_lateness=chosen.allowed_lateness,
            mode=chosen.mode_or_default(),
            aggregates=aggregates,
            skip_unchanged=chosen.skip_unchanged,
            output_time=self._output_time,
            inputs=stream._inputs,
            calls=stream._calls,
            limits=self._limits,
        )


def _keyed_by_origin(stream: Stream, window: Window) -> Stream:
    """For windows by offset: offsets belong to an origin, so it is part of the key, and the tracker follows them."""
    column: str | None = getattr(window, "by", None)
    if column is None:
        return stream
    if stream._inputs:
        raise PlanError(
            "Windows by offset need a single stream: offsets of different inputs cannot be compared. Build one "
            "pipeline for each stream."
        )
    origin = stream._watermark.options.origin
    key = stream._key if origin is None or origin in stream._key else (*stream._key, origin)
    return replace(stream, _key=key, _watermark=stream._watermark.by_offset(column))


def _check_names(aggregates: dict[str, Aggregate], key: tuple[str, ...]) -> None:
    if not aggregates:
        raise no_aggregates()
    for name in key:
        if name in RESERVED:
            raise PlanError(
                f"key: {name!r} is a column that every pane has. Rename the column before it becomes a key."
            )
    for name, aggregate in aggregates.items():
        if not isinstance(aggregate, Aggregate):
            raise not_an_aggregate(name, aggregate)
        if not name:
            raise PlanError(".agg(): a result needs a name, as in n=ev.count().")
        if name in RESERVED:
            taken = "a column that every pane has"
        elif name in key:
            taken = "a key column"
        elif name.startswith("__"):
            taken = "reserved, because it begins with two underscores"
        else:
            continue
        raise PlanError(f".agg({name}=…): {name!r} is {taken}. Choose another name for this result.")
