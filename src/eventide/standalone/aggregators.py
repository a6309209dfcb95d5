"""Aggregates over windows, without a pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from eventide.aggregates import Aggregate
from eventide.errors import aggregates as aggregate_errors
from eventide.errors import standalone as errors
from eventide.standalone.contents import Results
from eventide.standalone.design import Design
from eventide.standalone.full_size import full_size
from eventide.standalone.intake import Roles, check_names, roles
from eventide.standalone.operator import Dead, WindowOperator
from eventide.standalone.outbox import Downstream
from eventide.standalone.placing import FixedWindows, SessionWindows, fixed_windows, session_windows
from eventide.standalone.policies import Policies
from eventide.standalone.progress import Course
from eventide.standalone.retention import retention
from eventide.state.layouts import layout_of
from eventide.triggers import Trigger, every, never

NOT_EARLY = never()
LATE_IN_BATCHES = every("10 seconds")


class WindowAggregator(WindowOperator):
    """Results for each window, told when it is full, and again for late messages.

    A message enters every window that holds it. A window is full with the first message at its end, or beyond it,
    unless ``full`` says otherwise: ``full={"time": "30 seconds"}`` waits for a message that is so far past the end, and
    with ``full={"rows": 100}`` a window is full with its hundredth message, too.
    Results are told early as ``early`` says (default: not at all) and late as ``late`` says (default: collected for ten
    seconds). Messages are kept only where an aggregate needs every value, such as a median.

    >>> import eventide as ev
    >>> highest = ev.WindowAggregator(ev.tumbling("1 minute"), {"high": ev.max("value")}, time="time", offset="offset")
    >>> highest.add_message({"offset": 1, "value": 5, "time": "2026-03-01T09:00:10Z"}, now="2026-03-01T09:00:11Z")
    >>> highest.add_message({"offset": 2, "value": 7, "time": "2026-03-01T09:01:00Z"}, now="2026-03-01T09:01:01Z")
    >>> highest.get_result()["high"].to_list()
    [5]
    """

    def __init__(
        self,
        window: Any,
        aggregates: Mapping[str, Aggregate],
        *,
        offset: str,
        time: str | None = None,
        key: str | list[str] | None = None,
        early: Trigger = NOT_EARLY,
        late: Trigger = LATE_IN_BATCHES,
        full: Mapping[str, object] | None = None,
        retain: Mapping[str, object] | None = None,
        store: str | Path | None = None,
        downstream: Downstream | None = None,
        dead: Dead | None = None,
        schema: Mapping[str, Any] | None = None,
    ) -> None:
        name = "WindowAggregator"
        placing = fixed_windows(name, window, first_only=False)
        columns = roles(name, time=time, offset=offset, window_key=key)
        axis = placing.kind.axis
        course = Course(axis, per_key=axis == "rows" and bool(columns.window_key), retention=retention(retain))
        design = _design(
            columns, placing, course, aggregates, Policies(early, late, full_size(full, axis), operator=name)
        )
        super().__init__(design, store=store, downstream=downstream, dead=dead, schema=schema)


class SessionAggregator(WindowOperator):
    """Results for each session of a key, told when the stream has passed its end, and again for late messages.

    Sessions that a message joins become one; ``replaces`` then lists the windows whose results no longer hold.

    >>> import eventide as ev
    >>> visits = ev.SessionAggregator(
    ...     ev.sessions("30 minutes"), {"clicks": ev.count()}, time="time", offset="offset", key="user"
    ... )
    >>> visits.add_message({"offset": 1, "user": "ann", "time": "2026-03-01T09:00:00Z"}, now="2026-03-01T09:00:00Z")
    >>> visits.add_message({"offset": 2, "user": "bob", "time": "2026-03-01T09:40:00Z"}, now="2026-03-01T09:40:00Z")
    >>> visits.get_result().select("user", "clicks").rows()
    [('ann', 1)]
    """

    def __init__(
        self,
        window: Any,
        aggregates: Mapping[str, Aggregate],
        *,
        key: str | list[str],
        offset: str,
        time: str | None = None,
        early: Trigger = NOT_EARLY,
        late: Trigger = LATE_IN_BATCHES,
        full: Mapping[str, object] | None = None,
        retain: Mapping[str, object] | None = None,
        store: str | Path | None = None,
        downstream: Downstream | None = None,
        dead: Dead | None = None,
        schema: Mapping[str, Any] | None = None,
    ) -> None:
        name = "SessionAggregator"
        placing = session_windows(name, window)
        columns = roles(name, time=time, offset=offset, window_key=key)
        if not columns.window_key:
            raise errors.no_key(name)
        axis = placing.kind.axis
        course = Course(axis, per_key=False, retention=retention(retain), knows_next=axis == "rows")
        design = _design(
            columns, placing, course, aggregates, Policies(early, late, full_size(full, axis), operator=name)
        )
        super().__init__(design, store=store, downstream=downstream, dead=dead, schema=schema)


def _design(
    columns: Roles,
    placing: FixedWindows | SessionWindows,
    course: Course,
    aggregates: Mapping[str, Aggregate],
    policies: Policies,
) -> Design:
    check_time(columns, course)
    if not aggregates:
        raise aggregate_errors.no_aggregates()
    check_names([*columns.window_key, *aggregates])
    session = isinstance(placing, SessionWindows)

    def content(schema: pl.Schema) -> Results:
        return Results(aggregates, columns.window_key, schema, by_session=session)

    return Design(
        columns,
        placing,
        policies,
        course,
        layout_of(course.axis, "aggregate", session=session),
        content,
        holds=", ".join(f"{name} = {aggregate}" for name, aggregate in aggregates.items()),
        tells_replaced=session,
    )


def check_time(columns: Roles, course: Course) -> None:
    """Windows in time need a time, and so does an age."""
    if course.axis == "time" and columns.time is None:
        raise errors.no_time(columns.operator)
    if course.axis == "rows" and course.retention.time is not None and columns.time is None:
        raise errors.retention_without_time(columns.operator)
