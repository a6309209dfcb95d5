"""The operator of a processor: it calls a user's processor with rows, watermarks and timers.

Rows are late by the watermark before the bundle; then the watermark advances. The processor gets the rows, the
watermarks that have advanced, and the timers that are due, in this order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import polars as pl

from eventide import _columns as c
from eventide import panes as rows_out
from eventide.errors import DataError, EventideError, PlanError, shown
from eventide.kernels.keys import as_grouped
from eventide.operators.admission import check_unit
from eventide.operators.deadlines import CLOCK_STEP, clock_lags, deadline
from eventide.operators.deduplication import Deduplication
from eventide.operators.inputs import advanced, fresh_tracker, inputs_of, restored_tracker
from eventide.operators.operator import BoundOperator, Counts, EmptyOutputs, Output, Stamp, Step, check_clock
from eventide.operators.window_logic import Stamped
from eventide.operators.windowed_aggregate import check_inputs
from eventide.panes import INSTANT
from eventide.plan.fingerprint import fingerprint
from eventide.plan.process_plan import ProcessPlan
from eventide.processors.errors import cause_place, processor_failed
from eventide.processors.keyed_state import AT, DueRange, KeyedState, Keys, Timers
from eventide.processors.processor import Context, Processor
from eventide.state.operator_state import SerializedOperator, State, StateSerializer
from eventide.state.pages import InlineCodec, TableCodec
from eventide.state.pane_table import EMPTY_TABLE, PaneTable
from eventide.time import MAX, MIN, format_instant
from eventide.watermarks import AnyTracker, Note, OperatorTracker, Watermark
from eventide.windows.lateness import is_late


@dataclass(frozen=True)
class ProcessorStore:
    """The state and the timers of keys, and the watermarks that the processor has sent.

    ``passing`` are watermarks of an earlier operator with keys that no input has. They are forwarded.
    """

    keyed: PaneTable = EMPTY_TABLE
    timers: PaneTable = EMPTY_TABLE
    sent: tuple[tuple[int, int], ...] = ()
    passing: tuple[tuple[int, int], ...] = ()


class ProcessOperator(BoundOperator, SerializedOperator):
    """A plan of a processor, bound to the columns of its inputs."""

    def __init__(self, plan: ProcessPlan, *schemas: Mapping[str, pl.DataType]) -> None:
        self.plan = plan
        check_inputs(plan, schemas)
        self._inputs = inputs_of(plan, schemas)
        self.schemas = self._inputs.schemas
        self.schema = self._inputs.schema
        self._check_keys()
        self._keys = Keys({name: self.schema[name] for name in plan.key}, plan.name)
        tables = _ProcessorTables(self._keys)
        # The rows themselves are not stored, so state depends on the types of keys only.
        columns = [{*stream.key, *stream.watermark.options.ids} for stream in plan.edges]
        tracker = partial(restored_tracker, plan)
        self._repeats = Deduplication(plan, self._inputs)
        self._serializer = StateSerializer(
            fingerprint(plan), self.schemas, columns, tracker, tables, plan.key, self._repeats.codecs
        )
        self._empty = EmptyOutputs(self._inputs)

    def output_schemas(self) -> dict[str, dict[str, pl.DataType]]:
        """The columns of what is emitted, late rows and dead letters."""
        return self._empty.schemas(self.plan.output)

    def initial(self) -> State:
        return State(fresh_tracker(self.plan), MIN, MIN, ProcessorStore(), ids=self._repeats.initial())

    def stamp(self, rows: pl.DataFrame, now: int, watermark: int, edge: int = 0) -> Stamp:
        """Rows with their time, and dead letters; the processor itself has state, and waits."""
        check_unit(self.plan.at(edge), rows, now, watermark)
        admitted = self._inputs.admit(edge, rows, now)
        summary = self.plan.edges[edge].watermark.summarise(admitted.seen, c.TIME, now)
        timed = as_grouped(admitted.rows.select(self._empty.columns), self.plan.key)
        return Stamp(rows.height, admitted.dead, summary, 0, Stamped(pl.DataFrame(), timed), edge)

    def apply(
        self, state: State, stamps: Sequence[Stamp], now: int, *, notes: Sequence[Note] = (), polled: bool = True
    ) -> Step[State]:
        """Apply a bundle: the watermark advances, and the processor is called."""
        check_clock(state, now)
        previous = state.watermark
        stamps = self._repeats.by_number(stamps, state.tracker)
        tracker = advanced(state.tracker, [(stamp.edge, stamp.summary) for stamp in stamps], now, polled, notes)
        watermark = max(previous, tracker.time)
        many = len(self.schemas)
        stamps, ids = self._repeats.by_id(stamps, state.ids, [previous] * many, [watermark] * many)
        rows = [self._rows_of(edge, stamps) for edge in range(len(self.schemas))]
        late = self._empty.rows
        if self.plan.late == "divert":
            late = pl.concat([frame.filter(is_late(pl.col(c.TIME), previous)) for frame in rows])
            rows = [frame.filter(~is_late(pl.col(c.TIME), previous)) for frame in rows]
        context = self._context(state, tracker, watermark, now)
        passing = self._passing(state.store, notes)
        sent = self._run(context, state, tracker, rows, previous, passing)
        keyed, timers = context.state.updated_table(), context.timers.updated_table()
        store = ProcessorStore(keyed, timers, tuple(sorted(sent.items())), tuple(sorted(passing.items())))
        after = State(tracker, watermark, now, store, ids=ids)
        return Step(after, self._output(after, stamps, context, rows, late, previous))

    def next_deadline(self, state: State, lags: frozenset[int] = frozenset()) -> int | None:
        """The earliest batch time at which something can happen without rows.

        A processor that receives watermarks may do anything when one moves. One that follows the clock moves in
        steps for it.
        """
        lags, timers = lags | clock_lags(self.plan), state.store.timers
        step = state.now + CLOCK_STEP if lags and self.hears_time and state.now > MIN else None
        dues = [timers.next_due(state.watermark)] if lags else []
        return deadline(state, lags, clocks=[step, timers.next_clock(state.now)], dues=dues)

    def lags(self, before: frozenset[int] = frozenset()) -> frozenset[int]:
        """Where the processor decides what to send on, each step of the clock brings a batch."""
        return frozenset() if self.hears_time else before | clock_lags(self.plan)

    @property
    def hears_time(self) -> bool:
        """Whether the processor receives watermarks: it may do anything when one moves."""
        kind = type(self.plan.processor)
        return (kind.on_watermark, kind.on_edge_watermark) != (Processor.on_watermark, Processor.on_edge_watermark)

    def scan(self, state: State) -> list[pl.DataFrame]:
        """The state and the timers of keys, for inspection."""
        store: ProcessorStore = state.store
        return [rows for rows in (store.keyed.scan(), store.timers.scan()) if rows is not None]

    def _rows_of(self, edge: int, stamps: Sequence[Stamp]) -> pl.DataFrame:
        """The rows of an input, with the columns that the operator receives."""
        return pl.concat([self._empty.rows, *(stamp.stamped.rows for stamp in stamps if stamp.edge == edge)])

    def _context(self, state: State, tracker: AnyTracker, watermark: int, now: int) -> Context:
        store: ProcessorStore = state.store
        reach = DueRange(state.watermark, watermark, state.now, now)
        edges = self.plan.edges
        return Context(
            self._keys,
            KeyedState(store.keyed, self._keys, self.plan.state),
            Timers(store.timers, self._keys, reach, clock=self.plan.has_clock_timers),
            output=self.plan.output,
            now=now,
            watermark=watermark,
            watermarks={source.name: time for source, time in zip(edges, _times(tracker), strict=True)},
        )

    def _passing(self, store: ProcessorStore, notes: Sequence[Note]) -> dict[int, int]:
        """The watermarks whose keys no input of this operator has."""
        keys = {source.watermark_key for source in self.plan.edges}
        passing = dict(store.passing)
        for note in notes:
            if isinstance(note, Watermark) and note.key not in keys and note.time > MIN:
                passing[note.key] = max(note.time, passing.get(note.key, MIN))
        return passing

    def _run(
        self,
        context: Context,
        state: State,
        tracker: AnyTracker,
        rows: Sequence[pl.DataFrame],
        previous: int,
        passing: Mapping[int, int],
    ) -> dict[int, int]:
        """Call the processor; returns the watermarks that it has sent."""
        edges = self.plan.edges
        running = ProcessorRun(self.plan.processor, context, dict(state.store.sent), on_error=self.plan.on_error)
        for edge, frame in enumerate(rows):
            running.process(edges[edge].name, self._processor_rows(edge, frame, previous))
        for source, before, after in zip(edges, _times(state.tracker), _times(tracker), strict=True):
            if after > before:
                running.edge_watermark(source.name, Watermark(source.watermark_key, after))
        running.timers()
        for key in dict.fromkeys(source.watermark_key for source in edges):
            after = _reached(tracker, key)
            if after > _reached(state.tracker, key):
                running.watermark(Watermark(key, after))
        passed_before = dict(state.store.passing)
        for key, after in passing.items():
            if after > passed_before.get(key, MIN):
                running.watermark(Watermark(key, after))
        running.timers()
        if context.watermark == MAX:  # nothing can follow, even if the processor holds its watermark
            ended = [*(source.watermark_key for source in edges), *running.sent]
            return running.sent | {key: MAX for key in ended if passing.get(key, MAX) == MAX}
        return running.sent

    def _processor_rows(self, edge: int, rows: pl.DataFrame, previous: int) -> pl.DataFrame:
        """The rows as the processor sees them."""
        if self.plan.sides is None:
            columns = [pl.col(name) for name in self.schema]
        else:
            columns = [pl.col(self.plan.edges[edge].name).struct.unnest()]
            columns += [pl.col(name) for name in self.plan.key if name not in self.schemas[edge]]
        time = pl.col(c.TIME)
        return rows.select(
            *columns, time.cast(INSTANT).alias(Processor.TIME), is_late(time, previous).alias(Processor.LATE)
        )

    def _check_keys(self) -> None:
        """A processor finds the key of any input under one name."""
        for source, schema in zip(self.plan.edges, self.schemas, strict=True):
            for name, column in zip(self.plan.key, source.key, strict=True):
                if name != column and name in schema:
                    raise PlanError(
                        f"input {source.name!r}: its key is {column!r}, which is given under the name {name!r}, but it "
                        "has another column of that name. Rename one of them."
                    )

    def _output(
        self,
        state: State,
        stamps: Sequence[Stamp],
        context: Context,
        rows: Sequence[pl.DataFrame],
        late: pl.DataFrame,
        previous: int,
    ) -> Output:
        plan, now = self.plan, state.now
        names = [source.name for source in plan.edges]
        rejected = [
            rows[names.index(rejection.edge)][rejection.rows].with_columns(
                pl.lit("failed").alias(c.REASON), pl.Series(c.DETAIL, rejection.why, pl.String)
            )
            for rejection in context.rejected
            if rejection.rows
        ]
        dead = [letters for stamp in stamps for letters in stamp.dead] + rejected
        letters = pl.concat([self._empty.letters, *(frame.select(self._empty.letters.columns) for frame in dead)])
        failed = sum(frame.height for frame in rejected)
        late_rows = sum(int(is_late(frame[c.TIME], previous).sum()) for frame in rows)
        sent = dict(state.store.sent)
        emitted = pl.concat([pl.DataFrame(schema=dict(plan.output)), *context.emitted])
        return Output(
            panes=emitted,
            late=rows_out.late_rows(late, watermark=previous, now=now),
            dead=rows_out.dead_rows(letters, watermark=previous, now=now),
            watermark_us=state.watermark,
            promise=sent.get(plan.watermark.options.watermark_key, MIN),
            counts=Counts(
                rows=sum(stamp.rows for stamp in stamps),
                kept=sum(frame.height for frame in rows) - failed,
                late=late.height,
                dead=dict(letters[c.REASON].value_counts().sort(c.REASON).iter_rows()),
                panes={rows_out.ON_TIME: emitted.height} if emitted.height else {},
                refined=late_rows - sum(int(is_late(frame[c.TIME], previous).sum()) for frame in rejected),
            ),
            open_panes=state.store.keyed.height + state.store.timers.height,
            promises=sent,
        )


class _ProcessorTables:
    """The tables of a processor, and their codecs."""

    def __init__(self, keys: Keys) -> None:
        self.codecs: Mapping[str, TableCodec] = {
            "state": KeyedState.form(keys),
            "timers": Timers.form(keys),
            "sent": InlineCodec(),
        }

    def tables(self, store: ProcessorStore) -> tuple[dict[str, Any], int]:
        """The tables; the clock is that of the bundle."""
        marks = {"marks": [list(mark) for mark in store.sent], "passing": [list(mark) for mark in store.passing]}
        return {"state": store.keyed, "timers": store.timers, "sent": marks}, MIN

    def store(self, tables: Mapping[str, Any], clock: int) -> ProcessorStore:
        """The store of these tables."""
        marks = tables["sent"]
        sent, passing = (tuple((key, time) for key, time in marks.get(name, ())) for name in ("marks", "passing"))
        return ProcessorStore(tables["state"], tables["timers"], sent, passing)


def _times(tracker: AnyTracker) -> tuple[int, ...]:
    """What each input has reached."""
    return tracker.times if isinstance(tracker, OperatorTracker) else (tracker.time,)


def _reached(tracker: AnyTracker, key: int) -> int:
    """What all inputs have reached, of one watermark key."""
    return tracker.time_of(key) if isinstance(tracker, OperatorTracker) else tracker.time


_MAX_ROUNDS = 100  # of timers that set timers without an advance in time

T = TypeVar("T")


class ProcessorRun:
    """A fresh copy of a processor for one bundle. ``sent`` are the watermarks that it has sent so far."""

    def __init__(self, processor: Processor, context: Context, sent: Mapping[int, int], *, on_error: str) -> None:
        self._processor = deepcopy(processor)
        self._context = context
        self.sent = dict(sent)
        object.__setattr__(self._processor, "context", context)  # a frozen dataclass may be a processor too
        if hasattr(self._processor, "on_error"):
            object.__setattr__(self._processor, "on_error", on_error)
        self._call("open", None, self._processor.open, context)

    def process(self, edge: str, rows: pl.DataFrame) -> None:
        """Process the rows of an input."""
        if rows.height:
            self._context.set_rows(edge, rows.height)
            self._call(
                "process", rows, self._processor.process, edge, rows.with_columns(pl.int_range(pl.len()).alias(c.ROW))
            )
            self._context.set_rows(None)

    def edge_watermark(self, edge: str, watermark: Watermark) -> None:
        """The watermark of an input has advanced."""
        returned = self._call("on_edge_watermark", None, self._processor.on_edge_watermark, edge, watermark)
        self._send("on_edge_watermark", returned)

    def watermark(self, watermark: Watermark) -> None:
        """The watermark of all inputs has advanced."""
        self._send("on_watermark", self._call("on_watermark", None, self._processor.on_watermark, watermark))

    def timers(self) -> None:
        """Call the timers that are due, and those that become due meanwhile."""
        rounds, furthest = 0, None
        while (due := self._context.timers.due()).height:
            self._call("on_timer", due, self._processor.on_timer, due)
            if self._context.watermark == MAX:  # everything is due, and repeated timers would never end
                self._context.timers.due()
                return
            at: Any = due[AT].to_physical().min()
            rounds, furthest = (rounds + 1, furthest) if furthest is not None and at <= furthest else (0, at)
            if rounds >= _MAX_ROUNDS:
                raise DataError(
                    f"{self._context.who}.on_timer has set timers that were due already {rounds} times in a row, "
                    "without coming any further in time. Set them later than the ones that are due."
                )

    def _send(self, method: str, returned: Any) -> None:
        who = self._context.who
        if returned is None or isinstance(returned, Watermark):
            returned = () if returned is None else (returned,)
        if not isinstance(returned, Sequence) or not all(isinstance(value, Watermark) for value in returned):
            raise DataError(
                f"{who}.{method} returned {shown(returned)}. Return the watermarks to send on: a tuple of "
                "ev.Watermark, or () to hold them."
            )
        for watermark in returned:
            before = self.sent.get(watermark.key)
            if before is not None and watermark.time < before:
                raise DataError(
                    f"{who} sends the watermark {format_instant(watermark.time)} with key {watermark.key}, but has "
                    f"sent {format_instant(before)} before. A watermark must not decrease; return nothing "
                    "to hold it."
                )
            self.sent[watermark.key] = watermark.time

    def _call(self, method: str, rows: pl.DataFrame | None, call: Callable[..., T], *arguments: Any) -> T:
        try:
            return call(*arguments)
        except EventideError as cause:
            located = _misused(self._context.who, method, cause)
            if located is cause:
                raise
            raise located from cause
        except Exception as cause:
            row = None if rows is None else rows.select(pl.exclude(r"^__.*$")).row(0, named=True)
            raise processor_failed(self._context.who, method, row, cause) from cause


def _misused(processor: str, method: str, cause: EventideError) -> EventideError:
    """A user's processor called Eventide in a way that does not work."""
    where = cause_place(cause)
    return type(cause)(f"{cause} (in {processor}.{method}{where})") if where else cause
