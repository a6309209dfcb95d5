"""Several streams in one pipeline: ``union``, ``cogroup``, ``window_join`` and ``process``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, get_args

from eventide._hints import with_option_hints
from eventide.aggregates import Aggregate, collect_list
from eventide.errors import PlanError, did_you_mean, shown
from eventide.panes import INPUT, RESERVED
from eventide.plan.emission import Emission, When, emission
from eventide.plan.errors import check_key, key_is_a_side
from eventide.plan.pipeline import Pipeline
from eventide.plan.plan import Input, JoinType, Mode, Sides, Window
from eventide.plan.process_plan import Late, OnError, process_plan
from eventide.plan.streams import Stream
from eventide.plan.window_plan import fires_once
from eventide.plan.windowed_streams import WindowedStream
from eventide.processors import Processor
from eventide.triggers import Trigger
from eventide.windows import Inherit, Sessions

On = str | Sequence[str] | Mapping[str, str]


@with_option_hints
def union(*streams: Stream, **named: Stream) -> Stream:
    """Merge several streams with the same columns into one stream. Each input has its own watermark.

    The watermark of the union is the least watermark of the inputs with the same ``watermark_key``. If only some inputs
    have the key that event time follows, it does not advance while the others are active; ``explain()`` warns of it.

    >>> import eventide as ev
    >>> web = ev.stream(time="ts", key="shop", watermark=ev.bounded_delay("10 seconds"))
    >>> tills = ev.stream(time="ts", key="shop", watermark=ev.bounded_delay("1 hour"))
    >>> sales = ev.union(web=web, tills=tills).window(ev.tumbling("1 hour")).agg(n=ev.count())
    """
    unnamed = {f"input_{place}": stream for place, stream in enumerate(streams)}
    for name in unnamed.keys() & named.keys():
        raise PlanError(f"union: {name!r} is the default name of an unnamed input. Choose another name.")
    first, *others = _inputs("union", unnamed | named)
    for source in others:
        if source.key != first.key:
            raise _keys_differ("union", first.key, source.key)
    return Stream(first.time, first.key, first.watermark, _inputs=(first, *others))


@with_option_hints
def cogroup(
    streams: Mapping[str, Stream],
    *,
    window: Window,
    on: On | None = None,
    early: When | None = None,
    late: When | None = None,
    trigger: Trigger | None = None,
    allowed_lateness: str | timedelta | None = None,
    mode: Mode | None = None,
    agg: Mapping[str, Aggregate] | None = None,
) -> Pipeline:
    """Group the rows of several streams by key and window: one list of rows per stream, under the stream's name.

    With ``agg``, rows are aggregated as they arrive instead of collected. Aggregates read the columns of an input as
    ``input.column``; an ``ev.MergeAggregate`` takes the rows of all inputs one by one. ``early``, ``late``,
    ``allowed_lateness`` and ``mode`` are those of ``.emit``; ``trigger`` replaces the first two.

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
    inputs = keyed_inputs("cogroup", streams, on)
    chosen = emission(
        "cogroup()", trigger=trigger, early=early, late=late, allowed_lateness=allowed_lateness, mode=mode
    )
    return _windowed("cogroup", inputs, Sides(merged=agg is not None), window, chosen, agg)


@with_option_hints
def window_join(
    left: Stream,
    right: Stream,
    *,
    window: Window,
    how: JoinType = "inner",
    on: On | None = None,
    early: When | None = None,
    late: When | None = None,
    trigger: Trigger | None = None,
    allowed_lateness: str | timedelta | None = None,
    mode: Mode | None = None,
    suffix: str = "_right",
) -> Pipeline:
    """Join two streams: pairs of rows with equal keys in the same window.

    ``on`` names the columns that must be equal, where they are not the streams' keys; nulls equal nothing. An outer
    join (``how``) also emits rows that have no partner in their window, padded with nulls. ``early``, ``late``,
    ``allowed_lateness`` and ``mode`` are those of ``.emit``; ``trigger`` replaces the first two.

    >>> import eventide as ev, polars as pl
    >>> orders, visits = (ev.stream(time="t", key="user") for _ in range(2))
    >>> both = ev.window_join(orders, visits, window=ev.tumbling("1 minute"), how="left")
    >>> rows = {"left": pl.DataFrame({"t": [1], "user": ["eva"]}), "right": pl.DataFrame({"t": [2], "user": ["eva"]})}
    >>> both.local(rows).panes.select("user", "t", "t_right").row(0)
    ('eva', 1, 2)
    """
    check_join_type("window_join", how)
    inputs = keyed_inputs("window_join", {"left": left, "right": right}, on)
    chosen = emission(
        "window_join()", trigger=trigger, early=early, late=late, allowed_lateness=allowed_lateness, mode=mode
    )
    if how != "inner" and mode == "discarding" and not fires_once(chosen.trigger, chosen.allowed_lateness):
        raise PlanError(
            f"window_join(how={shown(how)}): in discarding mode a row that was padded early could not be retracted "
            "when its partner arrives. Choose mode='retracting', or remove the trigger so that each window fires once."
        )
    return _windowed("window_join", inputs, Sides(how, suffix), window, chosen)


@with_option_hints
def process(
    streams: Mapping[str, Stream],
    processor: Processor,
    *,
    output: Mapping[str, Any],
    on: On | None = None,
    name: str | None = None,
    late: Late = "process",
    on_error: OnError = "raise",
) -> Pipeline:
    """Run a processor over several streams. It receives the rows of each under the stream's name.

    Rows have the columns of their stream, and also the key under the column names of the first stream.

    >>> import eventide as ev, polars as pl
    >>> class WithCity(ev.Processor):
    ...     state_schema = {"city": pl.String}
    ...
    ...     def process(self, edge, rows):
    ...         if edge == "customers":
    ...             self.state.put(rows)
    ...         else:
    ...             self.emit(rows.select("customer", "price", city=self.state.get(rows)["city"]))
    >>> customers, orders = (ev.stream(time="t", key="customer") for _ in range(2))
    >>> columns = {"customer": pl.String, "price": pl.Int64, "city": pl.String}
    >>> enriched = ev.process({"customers": customers, "orders": orders}, WithCity(), output=columns)
    >>> rows = {
    ...     "customers": pl.DataFrame({"t": [1], "customer": ["eva"], "city": ["kiel"]}),
    ...     "orders": pl.DataFrame({"t": [2], "customer": ["eva"], "price": [5]}),
    ... }
    >>> enriched.local(rows).panes.row(0)
    ('eva', 5, 'kiel')
    """
    inputs = keyed_inputs("process", streams, on)
    first = inputs[0]
    plan = process_plan(
        processor,
        output=output,
        name=name,
        on_error=on_error,
        late=late,
        time=first.time,
        key=first.key,
        watermark=first.watermark,
        inputs=inputs,
        sides=Sides(),
    )
    return Pipeline(plan)


def _windowed(
    what: str,
    inputs: tuple[Input, ...],
    sides: Sides,
    window: Window,
    chosen: Emission,
    agg: Mapping[str, Aggregate] | None = None,
) -> Pipeline:
    """A windowed aggregate over sides: lists of their rows, or the aggregates of ``agg``."""
    first = inputs[0]
    if not first.key:
        raise no_key(what)
    for name in first.key:
        if name == INPUT or name in (source.name for source in inputs):
            raise key_is_a_side(name)
    for source in inputs:
        if source.name in (INPUT, *RESERVED):
            raise PlanError(
                f"{what}: an input cannot be called {source.name!r}, which is a column of the output. Rename it."
            )
    for name in first.key:
        if name in RESERVED:
            raise key_reserved(what, name)
    windows = Stream(first.time, first.key, first.watermark).window(window)
    if isinstance(window, Sessions) and chosen.mode == "discarding" and sides.how is not None:
        raise PlanError(
            "window_join: in discarding mode a session that grows would emit its pairs again. Choose "
            "mode='retracting', or another kind of window."
        )
    if isinstance(window, Inherit) or isinstance(getattr(window, "gap", 0), str):
        raise PlanError(f"{what}: {window.describe()} needs a column that not all sides have. Choose another.")
    if window.axis == "rows":
        raise PlanError(
            f"{what}: rows of different streams have no common numbers. Choose a window of time, or ev.join(…, last=n)."
        )
    chosen.check(window)
    lists: dict[str, Aggregate] = {source.name: collect_list(source.name) for source in inputs}
    plan = replace(windows, _emission=chosen)._plan(lists if agg is None else dict(agg))
    return Pipeline(replace(plan, inputs=inputs, sides=sides))


def keyed_inputs(what: str, streams: Mapping[str, Stream], on: On | None) -> tuple[Input, ...]:
    """The inputs, each with the columns that must be equal as its key."""
    inputs = _inputs(what, streams)
    if isinstance(on, Mapping):
        if len(inputs) != 2:
            raise _bad_on(what, on)
        inputs = [replace(inputs[0], key=tuple(on)), replace(inputs[1], key=tuple(on.values()))]
    elif on is not None:
        if not isinstance(on, Sequence):
            raise _bad_on(what, on)
        names = (on,) if isinstance(on, str) else tuple(on)
        inputs = [replace(source, key=names) for source in inputs]
    for source in inputs:
        if not all(isinstance(name, str) and name for name in source.key):
            raise _bad_on(what, on)
        if len(source.key) != len(inputs[0].key):
            raise _keys_differ(what, inputs[0].key, source.key)
        check_key(source.key)
    return tuple(inputs)


def check_join_type(what: str, how: object) -> None:
    """Reject a join type that does not exist."""
    if how not in get_args(JoinType):
        raise PlanError(f"{what}: how={shown(how)} is not known. {did_you_mean(str(how), get_args(JoinType))}")


def key_reserved(what: str, name: str) -> PlanError:
    """A key column with the name of an output column."""
    return PlanError(f"{what}: {name!r} is a column that every row of the output has. Rename the key column.")


def no_key(what: str) -> PlanError:
    """A join without a key."""
    return PlanError(
        f"{what}: the streams have no key to join by. Set key= on both, or name columns that must be equal with on=."
    )


def _inputs(what: str, streams: Mapping[str, Any]) -> list[Input]:
    for name, stream in streams.items():
        if not isinstance(stream, Stream) or stream._inputs:
            raise _not_a_stream(what, name, stream)
    if len(streams) < 2:
        raise PlanError(f"{what} of {len(streams)} input(s): it takes two or more streams.")
    return [Input(name, s._time, s._key, s._watermark, s._calls) for name, s in streams.items()]


def _keys_differ(what: str, left: Sequence[str], right: Sequence[str]) -> PlanError:
    on = "" if what == "union" else ", or name the columns with on="
    return PlanError(
        f"{what}: one input has the key {list(left)}, another {list(right)}. Set keys of the same length, whose "
        f"columns are compared pairwise{on}."
    )


def _bad_on(what: str, on: object) -> PlanError:
    return PlanError(
        f"{what}: on={shown(on)} is not a column name, a list of names that both sides have, or a dict from columns of "
        "the left side to columns of the right."
    )


def _not_a_stream(what: str, name: str, value: object) -> PlanError:
    place = name.removeprefix("input_")
    which = f"input {int(place) + 1}" if place != name and place.isdecimal() else f"the input {name!r}"
    if isinstance(value, Stream):
        return PlanError(f"{what}: {which} has several inputs itself. Pass each of them to ev.{what}(…).")
    if isinstance(value, WindowedStream):
        return PlanError(
            f"{what}: {which} has windows already. Pass the stream before .window(…): windows, emission "
            "and limits are set on the result."
        )
    if isinstance(value, Pipeline):
        return PlanError(
            f"{what}: {which} is a pipeline, not a stream. Describe its panes as a stream here, such as "
            "ev.stream('window_time', key='shop', watermark='0 seconds'), and give the panes as the rows of this input."
        )
    return PlanError(
        f"{what}: {which} is {shown(value)}, not a stream. Pass what ev.stream(time=…, key=…, "
        "watermark=…) returns, before .window(…) is called."
    )
