"""The in-process host: the operators, a clock, and nothing else."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeAlias

import polars as pl
import pyarrow as pa

from eventide.errors import LateRowsWarning
from eventide.errors import joins as join_errors
from eventide.errors import plan as errors
from eventide.local.background_calls import BackgroundCalls, in_background
from eventide.operators.binding import loaded, operator_of
from eventide.operators.bundle import Bundle, Counts, Output
from eventide.operators.late_warning import LateWarning
from eventide.operators.operator import StreamOperator, drained, ended, noted
from eventide.operators.saving import State
from eventide.operators.watermark_reset import bounds_in, reset_problem, reset_watermark
from eventide.plan.pipeline import Pipeline, over_panes
from eventide.time import MAX, MIN, instant
from eventide.watermarks import AnyTracker, Metrics, Note

Frame: TypeAlias = pl.DataFrame | pa.Table | pa.RecordBatch
Rows: TypeAlias = "Frame | Iterable[Frame] | LocalResult"
Clock: TypeAlias = Sequence[int | str | datetime]

_LAST = 2**62  # of the clock, as of event time


@dataclass
class LocalResult:
    """All that a run gave. Iterate over ``steps`` for what each bundle gave.

    ``operators`` are the results of all pipelines of a chain, the first one first. Each has its late rows, dead letters
    and metrics.
    """

    steps: list[Output] = field(default_factory=list)
    clock: list[int] = field(default_factory=list)
    tracker: AnyTracker | None = None
    _chain: Sequence[LocalResult] = field(default=(), repr=False, compare=False)

    @property
    def operators(self) -> Sequence[LocalResult]:
        """The result of each pipeline of a chain; of one pipeline, only this one."""
        return self._chain or (self,)

    @property
    def panes(self) -> pl.DataFrame:
        """All panes, in the order in which they were emitted."""
        return _together(step.panes for step in self.steps)

    @property
    def late(self) -> pl.DataFrame:
        """The rows that came too late for all of their windows."""
        return _together(step.late for step in self.steps)

    @property
    def dead(self) -> pl.DataFrame:
        """The rows that could not be used, with the reason."""
        return _together(step.dead for step in self.steps)

    @property
    def watermarks(self) -> Metrics | None:
        """How far event time has come: what holds the watermark back, idle origins, gaps."""
        return None if self.tracker is None else self.tracker.metrics()

    @property
    def metrics(self) -> Counts:
        """What became of the rows."""
        return sum((step.counts for step in self.steps), Counts())


class LocalQuery:
    """A pipeline that runs in this process and takes its bundles one by one.

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
        self._pipeline = pipeline
        self._keep = keep
        self._late_warning = LateWarning()
        self._operator: StreamOperator | None = None
        self._state: State | None = None
        self._calls: BackgroundCalls | None = None
        self.result = LocalResult()
        if saved is not None:
            self._operator, self._state = loaded(pipeline.plan, saved)
            self._calls = in_background(self._operator)
            self.result.tracker = self._state.tracker
        if schema is not None:
            schemas = [schema[name] for name in self._names] if pipeline.plan.inputs else [schema]
            self._bind([pl.Schema(one) for one in schemas])

    def push(
        self,
        rows: Frame | Mapping[str, Frame] | None = None,
        *,
        now: int | str | datetime | None = None,
        watermark: int | str | datetime | None = None,
        key: int | str | None = None,
        polled: bool = True,
    ) -> Output:
        """Process a bundle. ``now`` is its batch time (default: the wall clock), ``watermark`` comes from outside.

        With several inputs, ``rows`` has the frame of each under its name; one that is left out has no rows. ``key``
        says what the watermark is for: an input by its name, or a watermark key (default: the key that time goes by).

        >>> import eventide as ev, polars as pl
        >>> clicks = ev.stream(time="t", key="id", watermark=ev.ascending())
        >>> query = ev.union(web=clicks, shop=clicks).window(ev.tumbling("1 minute")).agg(n=ev.count()).start_local()
        >>> frame = pl.DataFrame({"t": [90_000_000], "id": [1]})
        >>> query.push({"web": frame, "shop": frame.clear()}, now=0).watermark == ev.time.MIN
        True
        >>> query.push(now=1, watermark=60_000_000, key="shop").watermark
        60000000
        """
        notes = [] if watermark is None else [noted(self._pipeline.plan, key, _instant(watermark))]
        return self._push(rows, now, notes, polled)

    def follow(self, before: Output, *, now: int | str | datetime | None = None, polled: bool = True) -> Output:
        """Process the panes that the pipeline before has emitted in a bundle, with what it promises of them."""
        return self._push(before.panes, now, before.notes_for(self.watermark_key), polled)

    def _push(
        self,
        rows: Frame | Mapping[str, Frame] | None,
        now: int | str | datetime | None,
        notes: Sequence[Note],
        polled: bool,
    ) -> Output:
        frames = self._frames(rows)
        self._bind([frame.schema for frame in frames])
        assert self._operator is not None and self._state is not None
        at = time.time_ns() // 1000 if now is None else _instant(now)
        if abs(at) > _LAST:
            raise errors.bad_clock(at)
        if now is None:  # the wall clock may be set back; the batch clock may not
            at = max(at, self._state.now)
        step = self._operator.step(self._state, Bundle(frames, at, notes, polled))
        self._state = step.state
        if self._keep:
            self.result.steps.append(step.output)
            self.result.clock.append(at)
        self.result.tracker = step.state.tracker
        counts = step.output.counts
        watermark = step.output.watermark
        message = self._late_warning.message(rows=counts.rows, late=counts.late, watermark=watermark, now=at)
        if message is not None:
            warnings.warn(message, LateRowsWarning, stacklevel=3)
        return step.output

    def drain(self, *, now: int | str | datetime | None = None) -> Output:
        """End the stream: every open window fires and closes."""
        return self._push(None, self._same_clock(now), drained(self._pipeline.plan), polled=True)

    def _same_clock(self, now: int | str | datetime | None) -> int | str | datetime | None:
        """The clock of the last bundle, unless one is given."""
        return self._state.now if now is None and self._state is not None and self._state.now > MIN else now

    def end(self, input: str | None = None, *, now: int | str | datetime | None = None) -> Output:
        """End an input, by its name among several: nobody waits for it, and a row that follows on it is an error.

        The end of the last input ends the stream, as ``drain`` does.

        >>> import eventide as ev, polars as pl
        >>> clicks = ev.stream(time="t", key="id", watermark=ev.ascending())
        >>> query = ev.union(web=clicks, shop=clicks).window(ev.tumbling("1 minute")).agg(n=ev.count()).start_local()
        >>> frame = pl.DataFrame({"t": [90_000_000], "id": [1]})
        >>> step = query.push({"web": frame, "shop": frame.clear()}, now=0)
        >>> query.end("shop").watermark
        90000000
        """
        return self._push(None, self._same_clock(now), [ended(self._pipeline.plan, input)], polled=True)

    def wait_for_calls(self, answers: int | None = None) -> None:
        """Wait until so many calls of ``map_async(across_bundles=True)`` are answered; by default all in flight.

        The next bundle takes the answers; one without rows will do.

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
        if self._calls is not None:
            self._calls.wait_for_news(answers)

    def skip_gap(self, origin: str | None = None, *, up_to: int | None = None) -> bool:
        """Do not wait any longer for sequence numbers that are missing (all, or those up to ``up_to``) of an origin.

        The watermark moves with the next bundle. False: there is no such gap.
        """
        return self._tell(lambda tracker: tracker.skip(origin, up_to=up_to))

    def retire(self, origin: str | None) -> bool:
        """Do not wait any longer for an origin that will not come back, or for an input, by the name that metrics show.

        False: it is not known, or is not waited for.
        """
        return self._tell(lambda tracker: tracker.retire(origin))

    def lower_watermark(self, to: int | str | datetime) -> None:
        """Lower a watermark that went too far, before the next bundle.

        Rows for windows that have closed open them again as new windows. Rejected where state does not allow it: the
        stream was drained, or complete windows still accept late rows.

        >>> import eventide as ev, polars as pl
        >>> clicks = ev.stream(time="t", watermark=ev.ascending(max_future_skew=None))
        >>> query = clicks.window(ev.tumbling("1 minute")).agg(n=ev.count()).start_local()
        >>> step = query.push(pl.DataFrame({"t": ["2026-03-01T12:00:30Z", "2062-03-01T12:00:30Z"]}))
        >>> query.lower_watermark("2026-03-01T12:00:30Z")
        >>> query.push(pl.DataFrame({"t": ["2026-03-01T12:00:40Z"]})).late.height
        0
        """
        if self._operator is None or self._state is None:
            raise errors.no_schema()
        plan, time_ = self._pipeline.plan, _instant(to)
        problem = reset_problem(plan, bounds_in(self.scan()), watermark=self._state.watermark, to=time_)
        if problem is not None:
            raise errors.no_reset(problem)
        self._state = reset_watermark(plan, self._state, time_)
        self.result.tracker = self._state.tracker

    def _tell(self, what: Callable[[AnyTracker], bool]) -> bool:
        if self._state is None:
            raise errors.no_schema()
        tracker = self._state.tracker.copy()  # what was saved or kept before stays as it was
        done = what(tracker)
        self._state = replace(self._state, tracker=tracker)
        self.result.tracker = tracker
        return done

    def save(self) -> bytes:
        """All that the query knows. ``pipeline.start_local(saved=…)`` goes on from there, with the same results.

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
            raise errors.no_schema()
        return self._operator.save(self._state)

    def scan(self) -> list[pl.DataFrame]:
        """What rests in state, for inspection."""
        if self._operator is None or self._state is None:
            raise errors.no_schema()
        return self._operator.scan(self._state)

    @property
    def watermark_key(self) -> int:
        """The key of the watermark that windows go by."""
        key: int = self._pipeline.plan.watermark.options.watermark_key
        return key

    @property
    def _names(self) -> list[str]:
        return [one.name for one in self._pipeline.plan.edges]

    def _bind(self, schemas: Sequence[pl.Schema]) -> None:
        if self._operator is None:
            self._operator = operator_of(self._pipeline.plan, *schemas)
            self._calls = in_background(self._operator)
            self._state = self._operator.initial()
            return
        for schema, known in zip(schemas, self._operator.schemas, strict=True):
            if dict(schema) != known:
                raise errors.schema_changed(known, dict(schema))

    def _frames(self, rows: Frame | Mapping[str, Frame] | None) -> list[pl.DataFrame]:
        """One frame for each input."""
        if not self._pipeline.plan.inputs and rows is not None:
            return [as_frame(rows)]
        if rows is not None and not isinstance(rows, Mapping):
            raise join_errors.several_inputs(self._names)
        given: Mapping[str, Frame] = rows or {}
        if not set(given) <= set(self._names):
            raise join_errors.unknown_input(list(given), self._names)
        return [
            as_frame(given[name]) if name in given else self._no_rows(edge) for edge, name in enumerate(self._names)
        ]

    def _no_rows(self, edge: int) -> pl.DataFrame:
        if self._operator is None:
            raise errors.no_schema()
        return self._operator.no_rows(edge)


def run_local(pipeline: Pipeline, rows: Rows | Mapping[str, Rows], *, clock: Clock | None, drain: bool) -> LocalResult:
    """All bundles through a pipeline."""
    if clock is not None and isinstance(rows, LocalResult):
        raise errors.clock_is_given()
    if clock is not None and not isinstance(clock, Sequence):
        raise errors.clock_is_no_list(clock)
    if isinstance(rows, LocalResult):  # a chained pipeline: the panes, with what the one before promises of them
        query = LocalQuery(over_panes(pipeline))
        for at, step in zip(rows.clock, rows.steps, strict=True):
            query.follow(step, now=at)
        if drain and rows.steps and rows.steps[-1].promise < MAX:
            query.drain()
        query.result._chain = (*rows.operators, query.result)
        return query.result
    query = LocalQuery(pipeline)
    bundles = _bundles(rows) if isinstance(rows, Mapping) else _frames(rows)
    for i, frame in enumerate(bundles):
        if clock is not None and i >= len(clock):
            raise errors.clock_too_short(i + 1, len(clock))
        query.push(frame, now=clock[i] if clock is not None else None)
    if drain and query.result.steps:
        query.drain()
    return query.result


def as_frame(rows: Frame) -> pl.DataFrame:
    """Polars' view of a frame."""
    if isinstance(rows, pl.DataFrame):
        return rows
    if isinstance(rows, (pa.Table, pa.RecordBatch)):
        names = rows.schema.names
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise errors.duplicate_columns(twice)
        return pl.DataFrame([_as_series(name, rows.column(name)) for name in names])
    raise errors.not_rows(rows)


def _as_series(name: str, column: pa.ChunkedArray | pa.Array) -> pl.Series:
    if _is_wide(column.type):  # Polars does not refuse it, but panics
        raise errors.unreadable_type(name, column.type)
    try:
        return pl.Series(name, column)
    except pl.exceptions.PolarsError as cause:
        raise errors.unreadable_type(name, column.type) from cause


def _is_wide(dtype: pa.DataType) -> bool:
    inner = [dtype.field(i).type for i in range(dtype.num_fields)]
    return bool(pa.types.is_decimal256(dtype)) or any(map(_is_wide, inner))


def _bundles(rows: Mapping[str, Any]) -> Iterator[dict[str, pl.DataFrame]]:
    """The frames of all inputs, one of each at a time."""
    inputs = {name: list(_frames(frames)) for name, frames in rows.items()}
    if len({len(frames) for frames in inputs.values()}) > 1:
        raise join_errors.unequal_lengths([len(frames) for frames in inputs.values()])
    for frames in zip(*inputs.values(), strict=True):
        yield dict(zip(inputs, frames, strict=True))


def _frames(rows: Frame | Iterable[Frame]) -> Iterator[pl.DataFrame]:
    if isinstance(rows, (pl.DataFrame, pa.Table, pa.RecordBatch)):
        yield as_frame(rows)
    elif isinstance(rows, (str, bytes, dict)) or hasattr(type(rows), "columns") or not isinstance(rows, Iterable):
        raise errors.not_rows(rows)
    else:
        for frame in rows:
            yield as_frame(frame)


def _together(frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
    given = list(frames)
    if not given:
        raise errors.no_schema()
    return pl.concat(given)


def _instant(value: int | str | datetime) -> int:
    return value if isinstance(value, int) else instant(value)
