"""A user's own operator: rows, watermarks and timers reach the processor; what it emits goes on.

    step(state, bundle) -> state', what was emitted, late rows, dead letters, output progress

Rows of a bundle are judged late by the watermark that stood when it began; then the watermark advances; then the
processor is told of the rows, of the watermarks that have moved and of the timers that are due.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import polars as pl

from eventide import panes as rows_out
from eventide.errors import plan as plan_errors
from eventide.errors import processing as errors
from eventide.operators import columns as c
from eventide.operators.bundle import Bundle, Counts, Output, Stamp, Step
from eventide.operators.deadlines import CLOCK_STEP, clock_lags, deadline
from eventide.operators.inputs import advanced, blank_letter, fresh_tracker, inputs_of, restored_tracker
from eventide.operators.outcome import Stamped
from eventide.operators.repeats import without_repeats
from eventide.operators.saved import Saved
from eventide.operators.saving import Saving, State
from eventide.operators.windowed import check_inputs
from eventide.panes import INSTANT
from eventide.plan.fingerprint import fingerprint
from eventide.plan.process_plan import ProcessPlan
from eventide.processors.changes import Keys
from eventide.processors.context import Context
from eventide.processors.keyed import KeyedState
from eventide.processors.processor import Processor
from eventide.processors.running import Running
from eventide.processors.timers import Reach, Timers
from eventide.state.keys import as_grouped
from eventide.state.paging import Form
from eventide.state.panes import EMPTY, PaneTable
from eventide.state.small import SmallForm
from eventide.time import MAX, MIN, format_instant
from eventide.watermarks import AnyTracker, Note, Trackers, Watermark
from eventide.windows.lifetime import is_late


@dataclass(frozen=True)
class Store:
    """What a processor leaves behind: the state and the timers of keys, and the watermarks that it has sent on.

    ``passing`` are watermarks with keys that no input has: they come from before in a chain, and are forwarded.
    """

    keyed: PaneTable = EMPTY
    timers: PaneTable = EMPTY
    sent: tuple[tuple[int, int], ...] = ()
    passing: tuple[tuple[int, int], ...] = ()


class Processing(Saved):
    """A plan of a processor, bound to the columns of its inputs."""

    def __init__(self, plan: ProcessPlan, *schemas: Mapping[str, pl.DataType]) -> None:
        self.plan = plan
        check_inputs(plan, schemas)
        self._inputs = inputs_of(plan, schemas)
        self.schemas = self._inputs.schemas
        self.schema = self._inputs.schema
        self._check_keys()
        self._keys = Keys({name: self.schema[name] for name in plan.key}, plan.name)
        kept = _Kept(self._keys)
        # The rows themselves are not stored, so state depends on the types of keys only.
        columns = [set(stream.key) for stream in plan.edges]
        tracker = partial(restored_tracker, plan)
        self._saving = Saving(fingerprint(plan), self.schemas, columns, tracker, kept, plan.key)
        self._none = pl.DataFrame(
            schema=self.schema | {c.TIME: pl.Int64(), c.REASON: pl.String(), c.DETAIL: pl.String()}
        )
        self._own = [*self.schema, c.TIME]

    def no_rows(self, edge: int = 0) -> pl.DataFrame:
        """A bundle without rows."""
        return pl.DataFrame(schema=self.schemas[edge])

    def reads(self, edge: int = 0) -> set[str]:
        """All columns: only the processor knows which it needs."""
        return set(self.schemas[edge])

    def letter(self, reason: str, detail: str, edge: int = 0) -> pl.DataFrame:
        """A dead letter without a row, for a part of an input that cannot be read."""
        return blank_letter(self._inputs, edge, reason, detail)

    def output_schemas(self) -> dict[str, dict[str, pl.DataType]]:
        """The columns of what is emitted, late rows and dead letters."""
        late = rows_out.late_rows(self._none.select(self._own), watermark=0, now=0)
        dead = rows_out.dead_rows(self._none, watermark=0, now=0)
        return {"panes": dict(self.plan.output), "late": dict(late.schema), "dead": dict(dead.schema)}

    def initial(self) -> State:
        """Nothing seen yet."""
        return State(fresh_tracker(self.plan), MIN, MIN, Store())

    def step(self, state: State, bundle: Bundle) -> Step[State]:
        """One bundle, stamped and absorbed at once."""
        frames = enumerate(bundle.frames)
        stamps = [self.stamp(rows, bundle.now, state.watermark, edge) for edge, rows in frames]
        return self.absorb(state, stamps, bundle.now, notes=bundle.notes, polled=bundle.polled)

    def stamp(self, rows: pl.DataFrame, now: int, watermark: int, edge: int = 0) -> Stamp:
        """Rows with their time, and dead letters; the processor itself has state, and waits."""
        admitted = self._inputs.admit(edge, rows, now)
        summary = self.plan.edges[edge].watermark.summarise(admitted.seen, c.TIME, now)
        timed = as_grouped(admitted.rows.select(self._own), self.plan.key)
        return Stamp(rows.height, admitted.dead, summary, 0, Stamped(pl.DataFrame(), timed), edge)

    def absorb(
        self,
        state: State,
        stamps: Sequence[Stamp],
        now: int,
        *,
        notes: Sequence[Note] = (),
        polled: bool = True,
    ) -> Step[State]:
        """A bundle's stamps, in order: the watermark advances, and the processor is told."""
        if now < state.now:
            raise plan_errors.clock_went_back(format_instant(state.now), format_instant(now))
        was = state.watermark
        stamps = without_repeats(self.plan, stamps, state.tracker, self._inputs)
        tracker = advanced(state.tracker, [(stamp.edge, stamp.summary) for stamp in stamps], now, polled, notes)
        watermark = max(was, tracker.time)
        rows = [self._rows_of(edge, stamps) for edge in range(len(self.schemas))]
        late = self._none.select(self._own)
        if self.plan.late == "divert":
            late = pl.concat([frame.filter(is_late(pl.col(c.TIME), was)) for frame in rows])
            rows = [frame.filter(~is_late(pl.col(c.TIME), was)) for frame in rows]
        context = self._context(state, tracker, watermark, now)
        passing = self._passing(state.store, notes)
        sent = self._run(context, state, tracker, rows, was, passing)
        keyed, timers = context.state.kept(), context.timers.kept()
        store = Store(keyed, timers, tuple(sorted(sent.items())), tuple(sorted(passing.items())))
        after = State(tracker, watermark, now, store)
        return Step(after, self._output(after, stamps, context, rows, late, was))

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
        store: Store = state.store
        return [rows for rows in (store.keyed.scan(), store.timers.scan()) if rows is not None]

    @property
    def judges_when_stamping(self) -> bool:
        """Rows travel as they are, so lateness can wait."""
        return False

    def _rows_of(self, edge: int, stamps: Sequence[Stamp]) -> pl.DataFrame:
        """The rows of an input, as they look behind the inputs."""
        return pl.concat(
            [self._none.select(self._own), *(stamp.stamped.rows for stamp in stamps if stamp.edge == edge)]
        )

    def _context(self, state: State, tracker: AnyTracker, watermark: int, now: int) -> Context:
        store: Store = state.store
        reach = Reach(state.watermark, watermark, state.now, now)
        edges = self.plan.edges
        return Context(
            self._keys,
            KeyedState(store.keyed, self._keys, self.plan.state),
            Timers(store.timers, self._keys, reach, clock=self.plan.clocked),
            output=self.plan.output,
            now=now,
            watermark=watermark,
            watermarks={one.name: time for one, time in zip(edges, _times(tracker), strict=True)},
        )

    def _passing(self, store: Store, notes: Sequence[Note]) -> dict[int, int]:
        """How far watermarks have come whose keys no input of this operator has."""
        own = {one.watermark.options.watermark_key for one in self.plan.edges}
        passing = dict(store.passing)
        for note in notes:
            if isinstance(note, Watermark) and note.key not in own and note.time > MIN:
                passing[note.key] = max(note.time, passing.get(note.key, MIN))
        return passing

    def _run(
        self,
        context: Context,
        state: State,
        tracker: AnyTracker,
        rows: Sequence[pl.DataFrame],
        was: int,
        passing: Mapping[int, int],
    ) -> dict[int, int]:
        """Tell the processor; gives the watermarks that it has sent on."""
        edges = self.plan.edges
        running = Running(self.plan.processor, context, dict(state.store.sent), on_error=self.plan.on_error)
        for edge, frame in enumerate(rows):
            running.process(edges[edge].name, self._given(edge, frame, was))
        for one, before, after in zip(edges, _times(state.tracker), _times(tracker), strict=True):
            if after > before:
                running.edge_watermark(one.name, Watermark(one.watermark.options.watermark_key, after))
        running.timers()
        for key in dict.fromkeys(one.watermark.options.watermark_key for one in edges):
            after = _reached(tracker, key)
            if after > _reached(state.tracker, key):
                running.watermark(Watermark(key, after))
        passed_before = dict(state.store.passing)
        for key, after in passing.items():
            if after > passed_before.get(key, MIN):
                running.watermark(Watermark(key, after))
        running.timers()
        if context.watermark == MAX:  # nothing can follow, whatever the processor holds back or delays
            ended = [*(one.watermark.options.watermark_key for one in edges), *running.sent]
            return running.sent | {key: MAX for key in ended if passing.get(key, MAX) == MAX}
        return running.sent

    def _given(self, edge: int, rows: pl.DataFrame, was: int) -> pl.DataFrame:
        """The rows as the processor sees them."""
        if self.plan.sides is None:
            own = [pl.col(name) for name in self.schema]
        else:
            own = [pl.col(self.plan.edges[edge].name).struct.unnest()]
            own += [pl.col(name) for name in self.plan.key if name not in self.schemas[edge]]
        time = pl.col(c.TIME)
        return rows.select(*own, time.cast(INSTANT).alias(Processor.TIME), is_late(time, was).alias(Processor.LATE))

    def _check_keys(self) -> None:
        """A processor finds the key of any input under one name."""
        for one, schema in zip(self.plan.edges, self.schemas, strict=True):
            for name, own in zip(self.plan.key, one.key, strict=True):
                if name != own and name in schema:
                    raise errors.key_hidden(one.name, name, own)

    def _output(
        self,
        state: State,
        stamps: Sequence[Stamp],
        context: Context,
        rows: Sequence[pl.DataFrame],
        late: pl.DataFrame,
        was: int,
    ) -> Output:
        plan, now = self.plan, state.now
        names = [one.name for one in plan.edges]
        rejected = [
            rows[names.index(one.edge)][one.rows].with_columns(
                pl.lit("failed").alias(c.REASON), pl.Series(c.DETAIL, one.why, pl.String)
            )
            for one in context.rejected
            if one.rows
        ]
        dead = [letters for stamp in stamps for letters in stamp.dead] + rejected
        letters = pl.concat([self._none, *(d.select(*self._own, c.REASON, c.DETAIL) for d in dead)])
        failed = sum(frame.height for frame in rejected)
        behind = sum(int(is_late(frame[c.TIME], was).sum()) for frame in rows)
        sent = dict(state.store.sent)
        emitted = pl.concat([pl.DataFrame(schema=dict(plan.output)), *context.emitted])
        return Output(
            panes=emitted,
            late=rows_out.late_rows(late, watermark=was, now=now),
            dead=rows_out.dead_rows(letters, watermark=was, now=now),
            watermark=state.watermark,
            promise=sent.get(plan.watermark.options.watermark_key, MIN),
            counts=Counts(
                rows=sum(stamp.rows for stamp in stamps),
                kept=sum(frame.height for frame in rows) - failed,
                late=late.height,
                dead=dict(letters[c.REASON].value_counts().sort(c.REASON).iter_rows()),
                panes={rows_out.ON_TIME: emitted.height} if emitted.height else {},
                refined=behind - sum(int(is_late(frame[c.TIME], was).sum()) for frame in rejected),
            ),
            open_panes=state.store.keyed.height + state.store.timers.height,
            promises=sent,
        )


class _Kept:
    """The tables of a processor, and how they are written."""

    def __init__(self, keys: Keys) -> None:
        self.forms: Mapping[str, Form] = {
            "state": KeyedState.form(keys),
            "timers": Timers.form(keys),
            "sent": SmallForm(),
        }

    def tables(self, store: Store) -> tuple[dict[str, Any], int]:
        """The tables; the clock is that of the bundle."""
        marks = {"marks": [list(mark) for mark in store.sent], "passing": [list(mark) for mark in store.passing]}
        return {"state": store.keyed, "timers": store.timers, "sent": marks}, MIN

    def store(self, tables: Mapping[str, Any], clock: int) -> Store:
        """The store of these tables."""
        marks = tables["sent"]
        sent, passing = (tuple((key, time) for key, time in marks.get(name, ())) for name in ("marks", "passing"))
        return Store(tables["state"], tables["timers"], sent, passing)


def _times(tracker: AnyTracker) -> tuple[int, ...]:
    """What each input has reached."""
    return tracker.times if isinstance(tracker, Trackers) else (tracker.time,)


def _reached(tracker: AnyTracker, key: int) -> int:
    """What all inputs have reached, of one watermark key."""
    return tracker.time_of(key) if isinstance(tracker, Trackers) else tracker.time
