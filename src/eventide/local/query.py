"""A query that runs in this process: the operators of a chain of pipelines, their state, and a clock."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeAlias

import polars as pl

from eventide._frames import Frame, as_frame
from eventide._hints import with_attribute_hints, with_option_hints
from eventide.errors import DataError, LateRowsWarning, PlanError, shown, user_stack_level
from eventide.local.background_calls import BackgroundCalls, attach_background_calls
from eventide.local.result import LocalResult, no_schema
from eventide.metrics import LateWarning
from eventide.operators.factory import loaded, operator_of
from eventide.operators.operator import Bundle, Output, StreamOperator, drained, ended, noted
from eventide.operators.watermark_reset import bounds_in, reset_problem, reset_watermark
from eventide.plan.errors import several_inputs, unknown_input
from eventide.plan.explain import summary
from eventide.plan.pipeline import Pipeline
from eventide.state.operator_state import State
from eventide.time import MIN, earliest, instant
from eventide.watermarks import AnyTracker, Note

Instant: TypeAlias = int | str | datetime

_LAST = 2**62  # of the clock, as of event time
_MAX_DEADLINES = 10_000  # between two bundles: under some plans each second has one
_CHAIN_MAGIC = b"EVCHAIN1"
_LENGTH_BYTES = 8


@with_attribute_hints
class LocalQuery:
    """A pipeline that runs in this process and is fed bundle by bundle.

    >>> import eventide as ev, polars as pl
    >>> per_minute = ev.stream(time="t").window(ev.tumbling("1 minute")).agg(n=ev.count())
    >>> query = per_minute.start_local()
    >>> step = query.push(pl.DataFrame({"t": [0, 1, 60_000_000]}), now="1970-01-01T00:01:05Z", watermark=60_000_000)
    >>> step.panes["n"].to_list()
    [2]
    """

    def __init__(
        self, pipeline: Pipeline, schema: Any = None, *, saved: bytes | None = None, keep: bool = True
    ) -> None:
        first, *following = pipeline.plans
        states = [None] * len(pipeline.plans) if saved is None else _unpack_states(saved)
        if len(states) != len(pipeline.plans):
            raise PlanError(
                f"start_local(saved=…): the state is of a chain of {len(states)} pipelines, but this chain has "
                f"{len(pipeline.plans)}. Start it with the pipeline that saved it."
            )
        self._pipeline = Pipeline(first)
        rest = zip(following, states[1:], strict=True)
        self._following = [LocalQuery(Pipeline(plan), saved=state, keep=keep) for plan, state in rest]
        self._keep = keep
        self._late_warning = LateWarning()
        self._operator: StreamOperator | None = None
        self._state: State | None = None
        self._calls: BackgroundCalls | None = None
        self._result = LocalResult(_operation=first.operation)
        if states[0] is not None:
            self._operator, self._state = loaded(first, states[0])
            self._calls = attach_background_calls(self._operator)
            self._result.tracker = self._state.tracker
        if schema is not None:
            if not isinstance(schema, Mapping):
                raise PlanError(
                    f"start_local(schema={shown(schema)}): name the columns and their types, such as rows.schema or "
                    "{'ts': pl.String, 'price': pl.Int64}."
                )
            schemas = [schema[name] for name in self._names] if first.inputs else [schema]
            self._bind([pl.Schema(columns) for columns in schemas])

    def __repr__(self) -> str:
        plans = [query._pipeline.plan for query in (self, *self._following)]
        return f"<LocalQuery: {summary(*plans)}>"

    @property
    def result(self) -> LocalResult:
        """All outputs so far; of a chain, those of its last pipeline."""
        if not self._following:
            return self._result
        chain = [self._result, *(query._result for query in self._following)]
        return replace(chain[-1], _chain=chain)

    @with_option_hints
    def push(
        self,
        rows: Frame | Mapping[str, Frame] | None = None,
        *,
        now: Instant | None = None,
        watermark: Instant | None = None,
        key: int | str | None = None,
        polled: bool = True,
    ) -> Output:
        """Process a bundle. ``now`` is its batch time (default: the wall clock), ``watermark`` is an external one.

        With several inputs, ``rows`` has the frame of each under its name; one that is left out has no rows. ``key``
        selects the watermark: an input by its name, or a watermark key (default: the key that event time follows).

        >>> import eventide as ev, polars as pl
        >>> clicks = ev.stream(time="t", key="id", watermark=ev.ascending())
        >>> query = ev.union(web=clicks, shop=clicks).window(ev.tumbling("1 minute")).agg(n=ev.count()).start_local()
        >>> frame = pl.DataFrame({"t": [90_000_000], "id": [1]})
        >>> query.push({"web": frame, "shop": frame.clear()}, now=0).watermark is None
        True
        >>> print(query.push(now=1, watermark=60_000_000, key="shop").watermark)
        1970-01-01 00:01:00+00:00
        """
        notes = [] if watermark is None else [noted(self._pipeline.plan, key, _instant(watermark))]
        return self._push(rows, now, notes, polled)

    def _push(
        self,
        rows: Frame | Mapping[str, Frame] | None,
        now: Instant | None,
        notes: Sequence[Note],
        polled: bool,
    ) -> Output:
        frames = self._frames(rows)
        self._bind([frame.schema for frame in frames])
        assert self._operator is not None and self._state is not None
        batch_time = time.time_ns() // 1000 if now is None else _instant(now)
        if abs(batch_time) > _LAST:
            raise PlanError(f"now={batch_time} is no batch time: it must be in microseconds since 1970, within ±2⁶².")
        if now is None:  # the wall clock may be set back; the batch clock may not
            batch_time = max(batch_time, self._state.now)
        step = self._operator.step(self._state, Bundle(frames, batch_time, notes, polled))
        self._state = step.state
        if self._keep:
            self._result.steps.append(step.output)
            self._result.clock.append(batch_time)
        self._result.tracker = step.state.tracker
        output = step.output
        message = self._late_warning.message(
            rows=output.counts.rows, late=output.counts.late, watermark=output.watermark_us, now=batch_time
        )
        if message is not None:
            warnings.warn(message, LateRowsWarning, stacklevel=user_stack_level())
        for query in self._following:  # panes, with the output watermark of the previous operator
            output = query._push(output.panes, batch_time, output.notes_for(query.watermark_key), polled)
        return output

    @with_option_hints
    def drain(self, *, now: Instant | None = None) -> Output:
        """End the stream: every open window fires and closes."""
        return self._push(None, self._same_clock(now), drained(self._pipeline.plan), polled=True)

    def _same_clock(self, now: Instant | None) -> Instant | None:
        """Return ``now``, or else the batch time of the last bundle."""
        return self._state.now if now is None and self._state is not None and self._state.now > MIN else now

    @with_option_hints
    def advance_watermark(
        self,
        to: Instant,
        *,
        key: int | str | None = None,
        now: Instant | None = None,
    ) -> Output:
        """Raise the watermark: no earlier event is expected. ``push(…, watermark=)`` does it together with rows.

        ``key`` selects it: an input by its name, or a watermark key (default: the key that event time follows).

        >>> import eventide as ev, polars as pl
        >>> clicks = ev.stream(time="t", watermark=ev.no_watermark())
        >>> query = clicks.window(ev.tumbling("1 minute")).agg(n=ev.count()).start_local()
        >>> step = query.push(pl.DataFrame({"t": [0, 1]}), now=0)
        >>> query.advance_watermark("1970-01-01T00:01:00Z").panes["n"].to_list()
        [2]
        """
        notes = [noted(self._pipeline.plan, key, _instant(to))]
        return self._push(None, self._same_clock(now), notes, polled=True)

    @with_option_hints
    def end(self, input: str | None = None, *, now: Instant | None = None) -> Output:
        """End an input, by its name among several: it no longer holds back the watermark. A later row is an error.

        The end of the last input ends the stream, as ``drain`` does.

        >>> import eventide as ev, polars as pl
        >>> clicks = ev.stream(time="t", key="id", watermark=ev.ascending())
        >>> query = ev.union(web=clicks, shop=clicks).window(ev.tumbling("1 minute")).agg(n=ev.count()).start_local()
        >>> frame = pl.DataFrame({"t": [90_000_000], "id": [1]})
        >>> step = query.push({"web": frame, "shop": frame.clear()}, now=0)
        >>> print(query.end("shop").watermark)
        1970-01-01 00:01:30+00:00
        """
        return self._push(None, self._same_clock(now), [ended(self._pipeline.plan, input)], polled=True)

    @with_option_hints
    def pass_deadlines(self, now: Instant) -> None:
        """Advance the clock to ``now``, with an empty bundle at each deadline before it.

        Triggers and timers on processing time, idle origins, and windows under a watermark that follows the clock have
        deadlines. A running query has such bundles, too.
        """
        until = _instant(now)
        for _ in range(_MAX_DEADLINES):
            due = self._next_deadline()
            if due is None or due >= until:
                return
            self._push(None, due, (), polled=True)

    def _next_deadline(self) -> int | None:
        """Return the batch time at which an operator of the chain has something to do without rows."""
        lags: frozenset[int] = frozenset()
        times = []
        for query in (self, *self._following):
            if query._operator is not None and query._state is not None:
                times.append(query._operator.next_deadline(query._state, lags))
                lags = query._operator.lags(lags)
        return earliest(times)

    def wait_for_calls(self, answers: int | None = None) -> None:
        """Wait until this many calls of ``map_async(across_bundles=True)`` are answered; by default all in flight.

        The next bundle takes the answers, also an empty one.

        >>> import eventide as ev, polars as pl
        >>> async def look_up(row):
        ...     return {"price": 7}
        >>> sales = ev.stream(time="t").map_async(look_up, output={"price": pl.Int64}, across_bundles=True)
        >>> query = sales.window(ev.tumbling("1 minute")).agg(total=ev.sum("price")).start_local()
        >>> step = query.push(pl.DataFrame({"t": [0, 1]}), now=0)
        >>> query.wait_for_calls()
        >>> query.push(now=1).in_flight
        0
        """
        for query in (self, *self._following):
            if query._calls is not None:
                query._calls.wait_for_answers(answers)

    @with_option_hints
    def skip_gap(self, origin: str | None = None, *, up_to: int | None = None) -> bool:
        """Stop waiting for missing sequence numbers of an origin: the first gap, or all up to ``up_to``.

        The watermark moves with the next bundle. False: there is no such gap.
        """
        return self._update_tracker(lambda tracker: tracker.skip_gap(origin, up_to=up_to))

    @with_option_hints
    def retire(self, origin: str | None) -> bool:
        """Stop waiting for an origin that will not return, or for an input, by the name that metrics show.

        False: it is not known, or does not hold back the watermark.
        """
        return self._update_tracker(lambda tracker: tracker.retire(origin))

    @with_option_hints
    def lower_watermark(self, to: Instant) -> None:
        """Lower a watermark that has advanced too far, before the next bundle.

        Rows for closed windows open them again as new windows. Rejected after the stream was drained, and while
        complete windows still accept late rows.

        >>> import eventide as ev, polars as pl
        >>> clicks = ev.stream(time="t", watermark=ev.ascending(max_future_skew=None))
        >>> query = clicks.window(ev.tumbling("1 minute")).agg(n=ev.count()).start_local()
        >>> step = query.push(pl.DataFrame({"t": ["2026-03-01T12:00:30Z", "2062-03-01T12:00:30Z"]}))
        >>> query.lower_watermark("2026-03-01T12:00:30Z")
        >>> query.push(pl.DataFrame({"t": ["2026-03-01T12:00:40Z"]})).late.height
        0
        """
        if self._operator is None or self._state is None:
            raise no_schema()
        plan, time_ = self._pipeline.plan, _instant(to)
        problem = reset_problem(plan, bounds_in(self.scan()), watermark=self._state.watermark, to=time_)
        if problem is not None:
            raise PlanError(f"The watermark cannot be lowered: {problem}.")
        self._state = reset_watermark(plan, self._state, time_)
        self._result.tracker = self._state.tracker

    def has_origin(self, origin: str | None) -> bool:
        """Whether ``retire`` may name this origin or input: it has sent rows, or is expected."""
        return self._state is not None and self._state.tracker.has_origin(origin)

    def _update_tracker(self, update: Callable[[AnyTracker], bool]) -> bool:
        if self._state is None:
            raise no_schema()
        tracker = self._state.tracker.copy()  # earlier states stay unchanged
        changed = update(tracker)
        self._state = replace(self._state, tracker=tracker)
        self._result.tracker = tracker
        return changed

    def save(self) -> bytes:
        """Return the state of the query. ``pipeline.start_local(saved=…)`` continues from it with the same results.

        >>> import eventide as ev, polars as pl
        >>> counting = ev.stream(time="t").window(ev.tumbling("1 minute")).agg(n=ev.count())
        >>> query = counting.start_local()
        >>> step = query.push(pl.DataFrame({"t": [0, 1]}), now=0)
        >>> later = counting.start_local(saved=query.save())
        >>> step = later.push(pl.DataFrame({"t": [2]}), now=1)
        >>> later.drain().panes["n"].to_list()
        [3]
        """
        if self._operator is None or self._state is None:
            raise no_schema()
        saved = self._operator.save(self._state)
        return _pack_states([saved, *(query.save() for query in self._following)]) if self._following else saved

    def scan(self) -> list[pl.DataFrame]:
        """Return the stored state as frames, for inspection; of a chain, the state of all pipelines."""
        if self._operator is None or self._state is None:
            raise no_schema()
        frames = self._operator.scan(self._state)
        return frames + [frame for query in self._following for frame in query.scan()]

    @property
    def watermark_key(self) -> int:
        """The key of the watermark that completes windows."""
        key: int = self._pipeline.plan.watermark.options.watermark_key
        return key

    @property
    def _names(self) -> list[str]:
        return [edge.name for edge in self._pipeline.plan.edges]

    def _bind(self, schemas: Sequence[pl.Schema]) -> None:
        if self._operator is None:
            self._operator = operator_of(self._pipeline.plan, *schemas)
            self._calls = attach_background_calls(self._operator)
            self._state = self._operator.initial()
            return
        for schema, expected in zip(schemas, self._operator.schemas, strict=True):
            if dict(schema) != expected:
                raise DataError(
                    f"This bundle's columns are {dict(schema)}, but the query began with {expected}. A query "
                    "has one schema; cast the rows."
                )

    def _frames(self, rows: Frame | Mapping[str, Frame] | None) -> list[pl.DataFrame]:
        """Return one frame for each input."""
        if not self._pipeline.plan.inputs and rows is not None:
            return [as_frame(rows)]
        if rows is not None and not isinstance(rows, Mapping):
            raise several_inputs(self._names)
        by_name: Mapping[str, Frame] = rows or {}
        if not set(by_name) <= set(self._names):
            raise unknown_input(list(by_name), self._names)
        return [
            as_frame(by_name[name]) if name in by_name else self._empty_frame(edge)
            for edge, name in enumerate(self._names)
        ]

    def _empty_frame(self, edge: int) -> pl.DataFrame:
        if self._operator is None and not self._pipeline.plan.inputs:
            raise no_schema()
        if self._operator is None:
            raise PlanError(
                f"The input {self._names[edge]!r} has no rows yet, so its columns are not known. Give it a frame, "
                "which may be empty, or name the columns in start_local(schema=…)."
            )
        return self._operator.no_rows(edge)


def _instant(value: Instant) -> int:
    return value if isinstance(value, int) else instant(value)


def _pack_states(states: Sequence[bytes]) -> bytes:
    """Return the states of a chain as one byte string.

    >>> _unpack_states(_pack_states([b"minutes", b"hours"]))
    [b'minutes', b'hours']
    """
    return _CHAIN_MAGIC + b"".join(len(state).to_bytes(_LENGTH_BYTES, "big") + state for state in states)


def _unpack_states(saved: bytes) -> list[bytes]:
    """Return the state of each pipeline. Bytes without the header of a chain are the state of a single pipeline.

    >>> _unpack_states(b"minutes")
    [b'minutes']
    """
    if not saved.startswith(_CHAIN_MAGIC):
        return [saved]
    states, position = [], len(_CHAIN_MAGIC)
    while position < len(saved):
        start = position + _LENGTH_BYTES
        position = start + int.from_bytes(saved[start - _LENGTH_BYTES : start], "big")
        states.append(saved[start:position])
    return states
