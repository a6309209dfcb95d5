"""The standalone operators: aggregates over windows, and windows of one side of a join."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl

from eventide._hints import with_option_hints
from eventide.aggregates import Aggregate
from eventide.aggregates.errors import no_aggregates
from eventide.errors import PlanError, did_you_mean, shown
from eventide.standalone.assignment import FixedAssigner, SessionAssigner, fixed_windows, session_windows
from eventide.standalone.config import OperatorConfig
from eventide.standalone.intake import Roles, check_names, roles
from eventide.standalone.output import Downstream
from eventide.standalone.policies import Policies, full_size
from eventide.standalone.progress import AxisConfig, retention
from eventide.standalone.window_contents import Content, NewMessages, Results
from eventide.standalone.window_operator import Dead, WindowOperator
from eventide.state.message_layout import MessageLayout, Size, layout_of
from eventide.triggers import Trigger, every, never, on_update
from eventide.windows import Axis, Sessions, WindowKind

NOT_EARLY = never()
LATE_IN_BATCHES = every("10 seconds")
AT_ONCE = on_update()


class WindowAggregator(WindowOperator):
    """Results of each window, emitted when it is full, and again for late messages.

    A message is added to every window that covers it. A window is full with the first message at its end or beyond.
    ``full={"time": "30 seconds"}`` waits for a message that far past the end; with ``full={"rows": 100}`` a window is
    also full with its hundredth message. ``early`` emits results before that (default: never), ``late`` after it
    (default: collected for ten seconds). Messages are stored only if an aggregate needs every value, such as a median.

    Windows never expire, unless ``allowed_lateness`` drops those that ended that long before the newest message, or
    ``limit_rows`` drops the oldest beyond that number of messages. A message for a dropped window is a dead letter.

    >>> import eventide as ev
    >>> from eventide.standalone import WindowAggregator
    >>> high = {"high": ev.max("value")}
    >>> highest = WindowAggregator(ev.tumbling("1 minute"), high, time="time", offset="offset")
    >>> highest.add_message({"offset": 1, "value": 5, "time": "2026-03-01T09:00:10Z"}, now="2026-03-01T09:00:11Z")
    >>> highest.add_message({"offset": 2, "value": 7, "time": "2026-03-01T09:01:00Z"}, now="2026-03-01T09:01:01Z")
    >>> highest.get_result()["high"].to_list()
    [5]
    """

    @with_option_hints
    def __init__(
        self,
        window: WindowKind,
        aggregates: Mapping[str, Aggregate],
        *,
        offset: str,
        time: str | None = None,
        key: str | list[str] | None = None,
        early: Trigger = NOT_EARLY,
        late: Trigger = LATE_IN_BATCHES,
        full: Mapping[str, object] | None = None,
        allowed_lateness: str | timedelta | None = None,
        limit_rows: int | None = None,
        store: str | Path | None = None,
        downstream: Downstream | None = None,
        dead: Dead | None = None,
        schema: Mapping[str, Any] | None = None,
    ) -> None:
        assigner = fixed_windows("WindowAggregator", window, first_only=False)
        columns = roles("WindowAggregator", time=time, offset=offset, window_key=key)
        config = _config(columns, assigner, _Aggregated(aggregates), early, late, full, allowed_lateness, limit_rows)
        super().__init__(config, store=store, downstream=downstream, dead=dead, schema=schema)


class SessionAggregator(WindowOperator):
    """Results of each session of a key, emitted when the stream has passed its end, and again for late messages.

    Sessions that a message connects merge. ``replaces`` then lists the windows whose results are obsolete.

    >>> import eventide as ev
    >>> visits = ev.standalone.SessionAggregator(
    ...     ev.sessions("30 minutes"), {"clicks": ev.count()}, time="time", offset="offset", key="user"
    ... )
    >>> visits.add_message({"offset": 1, "user": "ann", "time": "2026-03-01T09:00:00Z"}, now="2026-03-01T09:00:00Z")
    >>> visits.add_message({"offset": 2, "user": "bob", "time": "2026-03-01T09:40:00Z"}, now="2026-03-01T09:40:00Z")
    >>> visits.get_result().select("user", "clicks").rows()
    [('ann', 1)]
    """

    @with_option_hints
    def __init__(
        self,
        window: Sessions,
        aggregates: Mapping[str, Aggregate],
        *,
        key: str | list[str],
        offset: str,
        time: str | None = None,
        early: Trigger = NOT_EARLY,
        late: Trigger = LATE_IN_BATCHES,
        full: Mapping[str, object] | None = None,
        allowed_lateness: str | timedelta | None = None,
        limit_rows: int | None = None,
        store: str | Path | None = None,
        downstream: Downstream | None = None,
        dead: Dead | None = None,
        schema: Mapping[str, Any] | None = None,
    ) -> None:
        assigner = session_windows("SessionAggregator", window)
        columns = roles("SessionAggregator", time=time, offset=offset, window_key=key)
        config = _config(columns, assigner, _Aggregated(aggregates), early, late, full, allowed_lateness, limit_rows)
        super().__init__(config, store=store, downstream=downstream, dead=dead, schema=schema)


class JoinWindow(WindowOperator):
    """The new messages of each window. Each message is emitted once, in the first window that covers it.

    ``key`` names the fields that the join compares for equality: ``get_messages(key=…)`` looks messages up by them.
    ``time_range``: the join also bounds the time between two messages. ``size="large"``: a window has too many messages
    to read all of them for one key. Both choose how messages are keyed. By default messages are emitted at once, early
    and late.

    >>> import eventide as ev
    >>> orders = ev.standalone.JoinWindow(ev.tumbling("2 minutes"), time="time", offset="offset", key="id")
    >>> orders.add_message({"offset": 1, "id": 7, "time": "2026-03-01T09:00:10Z"}, now="2026-03-01T09:00:11Z")
    >>> orders.get_result()["id"].to_list()
    [7]
    >>> orders.get_messages("2026-03-01T09:00:00Z", "2026-03-01T09:02:00Z", key=7)["offset"].to_list()
    [1]
    """

    @with_option_hints
    def __init__(
        self,
        window: WindowKind,
        *,
        offset: str,
        time: str | None = None,
        key: str | list[str] | None = None,
        time_range: bool = False,
        size: Size = "small",
        early: Trigger = AT_ONCE,
        late: Trigger = AT_ONCE,
        full: Mapping[str, object] | None = None,
        allowed_lateness: str | timedelta | None = None,
        limit_rows: int | None = None,
        store: str | Path | None = None,
        downstream: Downstream | None = None,
        dead: Dead | None = None,
        schema: Mapping[str, Any] | None = None,
    ) -> None:
        assigner = fixed_windows("JoinWindow", window, first_only=True)
        columns = roles("JoinWindow", time=time, offset=offset, join_key=key)
        config = _config(columns, assigner, _Joined(time_range, size), early, late, full, allowed_lateness, limit_rows)
        super().__init__(config, store=store, downstream=downstream, dead=dead, schema=schema)


class SessionJoinWindow(WindowOperator):
    """Like ``JoinWindow``, for sessions of ``key``. ``on`` names further fields that the join compares.

    A join over sessions compares the session key in any case: ``get_messages(key=…, on=…)`` looks messages up by both.

    >>> import eventide as ev
    >>> from eventide.standalone import SessionJoinWindow
    >>> sessions = ev.sessions("30 minutes")
    >>> clicks = SessionJoinWindow(sessions, time="time", offset="offset", key="user", on="item")
    >>> clicks.add_message({"offset": 1, "user": "ann", "item": 3, "time": "2026-03-01T09:00:00Z"}, now=0)
    >>> clicks.get_messages(key="ann", on=3)["offset"].to_list()
    [1]
    """

    @with_option_hints
    def __init__(
        self,
        window: Sessions,
        *,
        key: str | list[str],
        offset: str,
        time: str | None = None,
        on: str | list[str] | None = None,
        time_range: bool = False,
        size: Size = "small",
        early: Trigger = AT_ONCE,
        late: Trigger = AT_ONCE,
        full: Mapping[str, object] | None = None,
        allowed_lateness: str | timedelta | None = None,
        limit_rows: int | None = None,
        store: str | Path | None = None,
        downstream: Downstream | None = None,
        dead: Dead | None = None,
        schema: Mapping[str, Any] | None = None,
    ) -> None:
        assigner = session_windows("SessionJoinWindow", window)
        columns = roles("SessionJoinWindow", time=time, offset=offset, window_key=key, join_key=on)
        config = _config(columns, assigner, _Joined(time_range, size), early, late, full, allowed_lateness, limit_rows)
        super().__init__(config, store=store, downstream=downstream, dead=dead, schema=schema)


@dataclass(frozen=True)
class _Aggregated:
    """The contents of windows of aggregates: results."""

    aggregates: Mapping[str, Aggregate]

    def layout(self, columns: Roles, axis: Axis, *, session: bool) -> MessageLayout:
        if not self.aggregates:
            raise no_aggregates()
        check_names([*columns.window_key, *self.aggregates])
        return layout_of(axis, "aggregate", session=session)

    def content(self, columns: Roles, *, session: bool) -> Callable[[pl.Schema], Content]:
        return lambda schema: Results(self.aggregates, columns.window_key, schema, by_session=session)

    def describe(self) -> str:
        return ", ".join(f"{name} = {aggregate}" for name, aggregate in self.aggregates.items())


@dataclass(frozen=True)
class _Joined:
    """The contents of windows of a join: messages that were not emitted yet."""

    time_range: bool
    size: Size

    def layout(self, columns: Roles, axis: Axis, *, session: bool) -> MessageLayout:
        if self.size not in ("small", "large"):
            raise PlanError(f"size={shown(self.size)}: {did_you_mean(str(self.size), ['small', 'large'])}")
        equal = bool(columns.join_key)
        return layout_of(axis, "join", equal=equal, time_range=self.time_range, size=self.size, session=session)

    def content(self, columns: Roles, *, session: bool) -> Callable[[pl.Schema], Content]:
        def content(schema: pl.Schema) -> NewMessages:
            check_names(schema)
            return NewMessages(columns.window_key, schema)

        return content

    def describe(self) -> str:
        return "the messages that are new"


def _config(
    columns: Roles,
    assigner: FixedAssigner | SessionAssigner,
    contents: _Aggregated | _Joined,
    early: Trigger,
    late: Trigger,
    full: Mapping[str, object] | None,
    allowed_lateness: str | timedelta | None,
    limit_rows: int | None,
) -> OperatorConfig:
    session = isinstance(assigner, SessionAssigner)
    axis_config = _axis_config(columns, assigner, allowed_lateness, limit_rows)
    policies = Policies(early, late, full_size(full, axis_config.axis), operator=columns.operator)
    return OperatorConfig(
        columns,
        assigner,
        policies,
        axis_config,
        contents.layout(columns, axis_config.axis, session=session),
        contents.content(columns, session=session),
        content_description=contents.describe(),
        shows_replaced=session and isinstance(contents, _Aggregated),
    )


def _axis_config(
    columns: Roles,
    assigner: FixedAssigner | SessionAssigner,
    allowed_lateness: str | timedelta | None,
    limit_rows: int | None,
) -> AxisConfig:
    """Return the axis of windows. Sessions need a key; windows and a retention in time need a time column."""
    axis, session = assigner.kind.axis, isinstance(assigner, SessionAssigner)
    if session and not columns.window_key:
        raise PlanError(
            f"{columns.operator} needs key=…, the column or columns that say whose session a message belongs to."
        )
    if axis == "time" and columns.time is None:
        raise PlanError(f"{columns.operator} needs time=…, the column of event times, for windows in time.")
    if allowed_lateness is not None and columns.time is None:
        raise PlanError(
            f"{columns.operator}: allowed_lateness= needs time=…, the column with the event time of messages. Name it, "
            "or use limit_rows= only."
        )
    per_key = axis == "rows" and not session and bool(columns.window_key)
    knows_next = axis == "rows" and session
    return AxisConfig(axis, per_key, retention(allowed_lateness, limit_rows), knows_next)
