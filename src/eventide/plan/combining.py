"""Several streams in one pipeline: ``union``, ``cogroup`` and ``window_join``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, get_args

from eventide.aggregates import Aggregate, collect_list
from eventide.aggregates.merge_inputs import SIDE
from eventide.errors import joins as errors
from eventide.errors import plan as plan_errors
from eventide.errors import watermarks as watermark_errors
from eventide.errors import windows as window_errors
from eventide.panes import RESERVED
from eventide.plan.builder import Stream
from eventide.plan.pipeline import Pipeline
from eventide.plan.plan import How, Input, Mode, Sides, Window
from eventide.triggers import Trigger
from eventide.windows import Inherit, Sessions, WindowKind

On = str | Sequence[str] | Mapping[str, str]


def union(*streams: Stream, **named: Stream) -> Stream:
    """The rows of several streams as one stream; all have the same columns, and each has its own watermark.

    Streams whose watermarks have the same ``watermark_key`` are waited for together. A key that only some of them have
    does not go on while the others are active; ``explain()`` says so.

    >>> import eventide as ev
    >>> web = ev.stream(time="ts", key="shop", watermark=ev.bounded_delay("10 seconds"))
    >>> tills = ev.stream(time="ts", key="shop", watermark=ev.bounded_delay("1 hour"))
    >>> sales = ev.union(web=web, tills=tills).window(ev.tumbling("1 hour")).agg(n=ev.count())
    """
    given = {f"input_{i}": one for i, one in enumerate(streams)}
    for name in given.keys() & named.keys():
        raise errors.named_twice(name)
    given |= named
    if len(given) < 2:
        raise watermark_errors.too_few_inputs(len(given))
    first, *others = _checked("union", given)
    for one in others:
        if one.key != first.key:
            raise errors.unequal_key_counts("union", first.key, one.key)
    return Stream(first.time, first.key, first.watermark, _inputs=(first, *others))


def cogroup(
    streams: Mapping[str, Stream],
    *,
    window: Window,
    on: On | None = None,
    trigger: Trigger | None = None,
    lateness: str | timedelta | None = None,
    mode: Mode | None = None,
    agg: Mapping[str, Aggregate] | None = None,
) -> Pipeline:
    """The rows of each stream that have the same key and window, as lists under the streams' names.

    With ``agg`` they are not collected: partial results are merged as rows come. Aggregates read the columns of an
    input as ``input.column``; an ``ev.MergeAggregate`` takes the rows of all inputs one by one.

    >>> import eventide as ev, polars as pl
    >>> orders, visits = (ev.stream(time="t", key="user") for _ in range(2))
    >>> both = ev.cogroup({"orders": orders, "visits": visits}, window=ev.tumbling("1 minute"))
    >>> rows = {name: pl.DataFrame({"t": [1], "user": ["eva"]}) for name in ("orders", "visits")}
    >>> both.local(rows).panes.select("user", pl.col("orders", "visits").list.len()).row(0)
    ('eva', 1, 1)
    >>> spans = {"first": ev.min("orders.t"), "last": ev.max("visits.t")}
    >>> both = ev.cogroup({"orders": orders, "visits": visits}, window=ev.tumbling("1 minute"), agg=spans)
    >>> both.local(rows).panes.select("user", "first", "last").row(0)
    ('eva', 1, 1)
    """
    inputs = keyed("cogroup", streams, on)
    return _brought_together("cogroup", inputs, Sides(merged=agg is not None), window, trigger, lateness, mode, agg)


def window_join(
    left: Stream,
    right: Stream,
    *,
    window: Window,
    how: How = "inner",
    on: On | None = None,
    trigger: Trigger | None = None,
    lateness: str | timedelta | None = None,
    mode: Mode | None = None,
    suffix: str = "_right",
) -> Pipeline:
    """Each row of the left stream beside each of the right with the same key, in the same window.

    ``on`` names the columns that must be equal, where they are not the streams' keys; nulls equal nothing. With ``how``
    also rows that have no partner in their window are told, beside nulls.

    >>> import eventide as ev, polars as pl
    >>> orders, visits = (ev.stream(time="t", key="user") for _ in range(2))
    >>> both = ev.window_join(orders, visits, window=ev.tumbling("1 minute"), how="left")
    >>> rows = {"left": pl.DataFrame({"t": [1], "user": ["eva"]}), "right": pl.DataFrame({"t": [2], "user": ["eva"]})}
    >>> both.local(rows).panes.select("user", "t", "t_right").row(0)
    ('eva', 1, 2)
    """
    if how not in get_args(How):
        raise errors.unknown_how("window_join", how)
    inputs = keyed("window_join", {"left": left, "right": right}, on)
    if how != "inner" and mode == "discarding" and (trigger is not None or lateness):
        raise errors.outer_discarding(how)
    return _brought_together("window_join", inputs, Sides(how, suffix), window, trigger, lateness, mode)


def _brought_together(
    what: str,
    inputs: tuple[Input, ...],
    sides: Sides,
    window: Window,
    trigger: Trigger | None,
    lateness: str | timedelta | None,
    mode: Mode | None,
    agg: Mapping[str, Aggregate] | None = None,
) -> Pipeline:
    if not inputs[0].key:
        raise errors.no_key(what)
    for name in inputs[0].key:
        if name == SIDE or name in (one.name for one in inputs):
            raise errors.key_is_a_side(name)
    for one in inputs:
        if one.name in (SIDE, *RESERVED):
            raise errors.input_named(what, one.name)
    for name in inputs[0].key:
        if name in RESERVED:
            raise errors.key_reserved(what, name)
    if isinstance(window, type) or not isinstance(window, (WindowKind, Sessions, Inherit)):
        raise window_errors.not_a_window(window)
    if mode is not None and mode not in get_args(Mode):
        raise errors.unknown_mode(what, mode)
    if isinstance(window, Sessions) and mode == "discarding" and sides.how is not None:
        raise errors.discarding_sessions()
    if isinstance(window, Inherit) or isinstance(getattr(window, "gap", 0), str):
        raise errors.not_for_sides(what, f"{window.describe()} needs a column that not all sides have. Choose another.")
    if window.axis == "rows":
        raise errors.not_for_sides(
            what, "rows of different streams have no common numbers. Choose a window of time, or ev.join(…, over=…)."
        )
    first = inputs[0]
    stream = Stream(first.time, first.key, first.watermark).window(window)
    stream = stream if trigger is None else stream.trigger(trigger)
    stream = stream if lateness is None else stream.lateness(lateness)
    stream = stream if mode is None else stream._accumulate(mode, skip_unchanged=False)
    results = {one.name: collect_list(one.name) for one in inputs} if agg is None else dict(agg)
    plan = stream.agg(**results).plan
    return Pipeline(replace(plan, inputs=inputs, sides=sides))


def _checked(what: str, streams: Mapping[str, Any]) -> list[Input]:
    for name, one in streams.items():
        if not isinstance(one, Stream) or one._window is not None or one._inputs:
            raise errors.not_streams(what, name, one)
        said = {"trigger": one._trigger, "lateness": one._lateness, one._mode or "": one._mode}
        for setting in (setting for setting, value in said.items() if value is not None):
            raise errors.said_too_early(what, name, setting)
        if "retain" in one._options and what != "join":
            raise errors.retained_apart(what, name)
    return [Input(name, one._time, one._key, one._watermark, one._calls) for name, one in streams.items()]


def keyed(what: str, streams: Mapping[str, Stream], on: On | None) -> tuple[Input, ...]:
    """The inputs, each with the columns that must be equal as its key."""
    inputs = _checked(what, streams)
    if len(inputs) < 2:
        raise watermark_errors.too_few_inputs(len(inputs))
    if isinstance(on, Mapping):
        if len(inputs) != 2:
            raise errors.bad_on(what, on)
        inputs = [replace(inputs[0], key=tuple(on)), replace(inputs[1], key=tuple(on.values()))]
    elif on is not None:
        if not isinstance(on, Sequence):
            raise errors.bad_on(what, on)
        names = (on,) if isinstance(on, str) else tuple(on)
        inputs = [replace(one, key=names) for one in inputs]
    for one in inputs:
        if not all(isinstance(name, str) and name for name in one.key):
            raise errors.bad_on(what, on)
        if len(one.key) != len(inputs[0].key):
            raise errors.unequal_key_counts(what, inputs[0].key, one.key)
        for i, name in enumerate(one.key):
            if name in one.key[:i]:
                raise plan_errors.twice_in_key(name)
    return tuple(inputs)
