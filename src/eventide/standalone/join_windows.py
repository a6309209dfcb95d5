"""Windows of one side of a join: they tell which messages are new, and find those that were told before."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from eventide.errors import standalone as errors
from eventide.standalone.aggregators import check_time
from eventide.standalone.contents import NewMessages
from eventide.standalone.design import Design
from eventide.standalone.intake import Roles, check_names, roles
from eventide.standalone.operator import Dead, WindowOperator
from eventide.standalone.outbox import Downstream
from eventide.standalone.placing import FixedWindows, SessionWindows, fixed_windows, session_windows
from eventide.standalone.policies import Policies
from eventide.standalone.progress import Course
from eventide.standalone.retention import retention
from eventide.state.layouts import Size, layout_of
from eventide.triggers import Trigger, on_update

AT_ONCE = on_update()


class JoinWindow(WindowOperator):
    """The messages that are new in each window, each told once, in the first window that holds it.

    ``key`` names the fields that the join compares for equality: ``get_messages(key=…)`` looks messages up by them.
    ``time_range`` says that the join also bounds the time between two messages, ``size="large"`` that a window has too
    many messages to read all of them for one key. Both choose how messages are keyed. Messages are told at once, early
    and late, unless ``early`` and ``late`` say otherwise.

    >>> import eventide as ev
    >>> orders = ev.JoinWindow(ev.tumbling("2 minutes"), time="time", offset="offset", key="id")
    >>> orders.add_message({"offset": 1, "id": 7, "time": "2026-03-01T09:00:10Z"}, now="2026-03-01T09:00:11Z")
    >>> orders.get_result()["id"].to_list()
    [7]
    >>> orders.get_messages("2026-03-01T09:00:00Z", "2026-03-01T09:02:00Z", key=7)["offset"].to_list()
    [1]
    """

    def __init__(
        self,
        window: Any,
        *,
        offset: str,
        time: str | None = None,
        key: str | list[str] | None = None,
        time_range: bool = False,
        size: Size = "small",
        early: Trigger = AT_ONCE,
        late: Trigger = AT_ONCE,
        retain: Mapping[str, object] | None = None,
        store: str | Path | None = None,
        downstream: Downstream | None = None,
        dead: Dead | None = None,
        schema: Mapping[str, Any] | None = None,
    ) -> None:
        name = "JoinWindow"
        placing = fixed_windows(name, window, first_only=True)
        columns = roles(name, time=time, offset=offset, equal=key)
        axis = placing.kind.axis
        course = Course(axis, per_key=False, retention=retention(retain, axis))
        design = _design(columns, placing, course, Policies(early, late, operator=name), time_range, size)
        super().__init__(design, store=store, downstream=downstream, dead=dead, schema=schema)


class SessionJoinWindow(WindowOperator):
    """As ``JoinWindow``, for sessions of ``key``. ``on`` names further fields that the join compares.

    A join over sessions compares the session key in any case: ``get_messages(key=…, on=…)`` looks messages up by both.

    >>> import eventide as ev
    >>> clicks = ev.SessionJoinWindow(ev.sessions("30 minutes"), time="time", offset="offset", key="user", on="item")
    >>> clicks.add_message({"offset": 1, "user": "ann", "item": 3, "time": "2026-03-01T09:00:00Z"}, now=0)
    >>> clicks.get_messages(key="ann", on=3)["offset"].to_list()
    [1]
    """

    def __init__(
        self,
        window: Any,
        *,
        key: str | list[str],
        offset: str,
        time: str | None = None,
        on: str | list[str] | None = None,
        time_range: bool = False,
        size: Size = "small",
        early: Trigger = AT_ONCE,
        late: Trigger = AT_ONCE,
        retain: Mapping[str, object] | None = None,
        store: str | Path | None = None,
        downstream: Downstream | None = None,
        dead: Dead | None = None,
        schema: Mapping[str, Any] | None = None,
    ) -> None:
        name = "SessionJoinWindow"
        placing = session_windows(name, window)
        columns = roles(name, time=time, offset=offset, window_key=key, equal=on)
        if not columns.window_key:
            raise errors.no_key(name)
        axis = placing.kind.axis
        course = Course(axis, per_key=False, retention=retention(retain, axis), knows_next=axis == "rows")
        design = _design(columns, placing, course, Policies(early, late, operator=name), time_range, size)
        super().__init__(design, store=store, downstream=downstream, dead=dead, schema=schema)


def _design(
    columns: Roles,
    placing: FixedWindows | SessionWindows,
    course: Course,
    policies: Policies,
    time_range: bool,
    size: Size,
) -> Design:
    check_time(columns, course)
    session = isinstance(placing, SessionWindows)
    if size not in ("small", "large"):
        raise errors.bad_size(size)

    def content(schema: pl.Schema) -> NewMessages:
        check_names(schema)
        return NewMessages(columns.window_key, schema)

    layout = layout_of(
        course.axis, "join", equal=bool(columns.equal), time_range=time_range, size=size, session=session
    )
    return Design(columns, placing, policies, course, layout, content, holds="the messages that are new")
