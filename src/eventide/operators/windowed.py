"""The windowed aggregate: a pure step over columnar state.

    step(state, bundle) -> state', panes, late rows, dead letters, output progress

Rows of a bundle are judged late by the watermark that stood when it began; then the watermark advances; then
triggers are evaluated once. The same operator runs in every host.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import polars as pl

from eventide import panes as rows_out
from eventide.aggregates import Aggregate, Bound, bind
from eventide.errors import joins as join_errors
from eventide.errors import plan as errors
from eventide.operators import columns as c
from eventide.operators.admission import check_gap, check_offset, check_window, dead_letters, read_time
from eventide.operators.bundle import Bundle, Counts, Output, Stamp, Step
from eventide.operators.cut_sessions import CutSessions
from eventide.operators.deadlines import CLOCK_STEP, clock_lags, deadline, next_clock
from eventide.operators.fire_often import FireOften
from eventide.operators.fire_once import FireOnce
from eventide.operators.firing import Moment
from eventide.operators.hidden import Extent, Held, Net, Rows
from eventide.operators.inputs import advanced, blank_letter, fresh_tracker, inputs_of, restored_tracker
from eventide.operators.merge_sessions import MergeSessions
from eventide.operators.outcome import Inner, Outcome, Stamped, start_cells
from eventide.operators.reach import Reach
from eventide.operators.repeats import without_repeats
from eventide.operators.retain_sessions import RetainSessions
from eventide.operators.retain_windows import RetainWindows
from eventide.operators.retaining import split_late
from eventide.operators.saved import Saved
from eventide.operators.saving import Saving, State
from eventide.plan.fingerprint import fingerprint
from eventide.plan.plan import IngestionTime, OneInput, Plan
from eventide.state.keys import as_grouped
from eventide.time import MAX, MIN, earliest, format_instant
from eventide.watermarks import Note
from eventide.windows import Inherit, Sessions
from eventide.windows.lifetime import is_late

_BEYOND = "out_of_retention", "its window is full, or was closed to make room"
_OUTLIVED = "out_of_retention", "its window was kept for as long as .retain(time=…) says"

__all__ = ["State", "WindowedAggregate"]


class WindowedAggregate(Saved):
    """A plan bound to the schema of its rows."""

    def __init__(self, plan: Plan, *schemas: Mapping[str, pl.DataType]) -> None:
        self.plan = plan
        check_inputs(plan, schemas)
        self._inputs = inputs_of(plan, schemas)
        self.schemas = self._inputs.schemas
        self.schema = schema = self._inputs.schema
        self._floats = [name for name in plan.key if schema[name].is_float()]
        self._reached: dict[str, pl.Expr] = {}
        self.bound = self._bind()
        self.results = tuple(plan.aggregates)
        self._inner = self._make_inner()
        facts = self._facts() | {f"stored {name}": str(dtype) for name, dtype in self.bound.schema.items()}
        columns = [self.reads(edge) for edge in range(len(self.schemas))]
        key = () if plan.counts_all_keys else plan.key
        self._saving = Saving(facts, self.schemas, columns, partial(restored_tracker, plan), self._inner, key)
        self._none = pl.DataFrame(
            schema=self.schema | {c.TIME: pl.Int64(), c.REASON: pl.String(), c.DETAIL: pl.String()}
        )
        self._no_late = rows_out.late_rows(self._none.select(*schema, c.TIME), watermark=0, now=0)
        self._no_dead = rows_out.dead_rows(self._none, watermark=0, now=0)
        self._no_panes = self._nothing()

    def no_rows(self, edge: int = 0) -> pl.DataFrame:
        """A bundle without rows."""
        return pl.DataFrame(schema=self.schemas[edge])

    def reads(self, edge: int = 0) -> set[str]:
        """The columns of an input's rows that the plan looks at; late rows and dead letters show all."""
        plan = self.plan
        if plan.sides is not None:
            return set(self.schemas[edge])
        names = {*plan.key, *self.bound.reads}
        for one in plan.edges:  # inputs that are alike keep the same columns
            names |= {*one.watermark.columns()}
            names |= set() if isinstance(one.time, IngestionTime) else {one.time, one.time.partition(".")[0]}
        if isinstance(plan.window, Sessions) and isinstance(plan.window.gap, str):
            names.add(plan.window.gap)
        if isinstance(plan.window, Inherit):
            names |= {"window", "diff"}
        return names & set(self.schemas[edge])

    def letter(self, reason: str, detail: str, edge: int = 0) -> pl.DataFrame:
        """A dead letter without a row, for a part of an input that cannot be read."""
        return blank_letter(self._inputs, edge, reason, detail)

    def output_schemas(self) -> dict[str, dict[str, pl.DataType]]:
        """The columns of panes, late rows and dead letters."""
        by_row = self.plan.window.axis == "rows"
        panes = rows_out.pane_rows(self._no_panes, key=self.plan.key, results=self.results, now=0, by_row=by_row)
        return {"panes": dict(panes.schema), "late": dict(self._no_late.schema), "dead": dict(self._no_dead.schema)}

    def initial(self) -> State:
        """Nothing seen yet."""
        return State(fresh_tracker(self.plan), MIN, MIN, self._inner.initial())

    def step(self, state: State, bundle: Bundle) -> Step[State]:
        """One bundle, stamped and absorbed at once."""
        frames = enumerate(bundle.frames)
        stamps = [self.stamp(rows, bundle.now, state.watermark, edge) for edge, rows in frames]
        return self.absorb(state, stamps, bundle.now, notes=bundle.notes, polled=bundle.polled)

    def stamp(self, rows: pl.DataFrame, now: int, watermark: int, edge: int = 0) -> Stamp:
        """Make of rows what can be made without state: dead letters, progress, cells.

        ``watermark`` is the one that stands when the bundle begins. Stamps of parts of a bundle can be made apart.
        """
        admitted = self._inputs.admit(edge, rows, now)
        admitted.rows = self._normal(admitted.rows)
        summary = self.plan.edges[edge].watermark.summarise(admitted.seen, c.TIME, now)
        if not self.judges_when_stamping:
            return Stamp(rows.height, admitted.dead, summary, 0, Stamped(pl.DataFrame(), admitted.rows), edge)
        stamped, behind = self._cut(admitted.rows, admitted.earliest, watermark)
        return Stamp(rows.height, admitted.dead, summary, behind, stamped, edge)

    def absorb(
        self,
        state: State,
        stamps: Sequence[Stamp],
        now: int,
        *,
        notes: Sequence[Note] = (),
        polled: bool = True,
    ) -> Step[State]:
        """A bundle's stamps, in order: the watermark advances, cells are merged, triggers are evaluated once."""
        if now < state.now:
            raise errors.clock_went_back(format_instant(state.now), format_instant(now))
        was = state.watermark
        tracker = advanced(state.tracker, [(stamp.edge, stamp.summary) for stamp in stamps], now, polled, notes)
        watermark = max(was, tracker.time)
        if not self.judges_when_stamping:
            stamps = without_repeats(self.plan, stamps, state.tracker, self._inputs)
        dead = [letters for stamp in stamps for letters in stamp.dead]
        moment, position, behind = Moment(was, watermark, now, was, watermark), 0, 0
        if self.judges_when_stamping:
            stamped = Stamped.together([stamp.stamped for stamp in stamps], self.bound, self._inner.by)
            behind = sum(stamp.behind for stamp in stamps)  # perhaps counted elsewhere: the sum of all is right
        else:
            rows = pl.concat([stamp.stamped.rows for stamp in stamps])
            if self.plan.offset is not None:
                moment = replace(moment, reach=Reach.between(state.tracker, tracker, was, watermark))
                stamped, behind = self._by_offset(rows, moment)
            elif self._by_row:
                stamped, moment, position = self._numbered(state, rows, dead, moment)
            else:
                stamped, behind = self._cut(rows, rows[c.TIME].min(), was)  # type: ignore[arg-type]
        outcome = self._inner.absorb(state.store, stamped, moment)
        state = State(tracker, watermark, now, outcome.store, position)
        return Step(state, self._output(state, stamps, dead, outcome, was, behind))

    def next_deadline(self, state: State, lags: frozenset[int] = frozenset()) -> int | None:
        """The earliest batch time at which something can happen without rows."""
        tables = self._inner.tables(state.store)[0].values()
        lags = self.lags(lags)
        dues = [self._next_due(state, tables)] if lags else []
        return deadline(state, lags, clocks=[next_clock(tables, state)], dues=dues)

    def lags(self, before: frozenset[int] = frozenset()) -> frozenset[int]:
        """Panes that hold the promise back end by a deadline, so it follows the clock as the watermark does."""
        return before | clock_lags(self.plan)

    @property
    def hears_time(self) -> bool:
        """Whether windows that are counted in rows are closed by their age."""
        retention = self.plan.retention
        return self._by_row and retention is not None and retention.time is not None

    def _next_due(self, state: State, tables: Iterable[Any]) -> int | None:
        """The first event time at which a window is due; windows counted in rows end by time only with their key."""
        if self._by_row:
            if self.hears_time and self._inner.open(state.store):
                return state.watermark + CLOCK_STEP
            if self.plan.forget_after is None:
                return None
        if isinstance(self._inner, FireOnce):
            return self._inner.next_end(state.store, state.watermark)
        return earliest(table.next_due(state.watermark) for table in tables)

    def scan(self, state: State) -> list[pl.DataFrame]:
        """What rests in state, for inspection."""
        return self._inner.scan(state.store)

    def _facts(self) -> dict[str, str]:
        return fingerprint(self.plan)

    @property
    def judges_when_stamping(self) -> bool:
        """Rows become cells, and cells have no time of their own: what is late must be set aside before.

        Where rows are numbered, or judged one by one, all of them are needed beside the state.
        """
        return not self.plan.ships_rows

    @property
    def _by_row(self) -> bool:
        """Windows are counted in rows."""
        return self.plan.window.axis == "rows"

    @property
    def _numbers_by_key(self) -> bool:
        """Rows are numbered per key, so each key has its own position on the axis."""
        return self._by_row and bool(self.plan.key) and not isinstance(self.plan.window, Sessions)

    def _bind(self) -> Bound:
        plan = self.plan
        hidden: dict[str, Aggregate] = {c.ROWS: Rows()}
        schema = self.schema | {c.TIME: pl.Int64(), c.AT: pl.Int64(), c.HOLD: pl.Int64(), "__gap": pl.Int64()}
        diff = None
        if isinstance(plan.window, Sessions):
            hidden["__extent"] = Extent(plan.window.gap)
        if isinstance(plan.window, Inherit) and "diff" in self.schema:
            diff, schema[c.DIFF] = c.DIFF, pl.Int64()
            hidden["__net"] = Net()
        schema |= self._reach_into_sides(schema)
        if plan.window.axis == "rows":
            hidden[c.HELD] = Held("latest")
        elif plan.output_time != "end":
            hidden[c.HELD] = Held(plan.output_time)
        return bind({**plan.aggregates, **hidden}, schema, time=c.TIME, diff=diff)

    def _reach_into_sides(self, schema: Mapping[str, pl.DataType]) -> dict[str, pl.DataType]:
        """Columns of inputs that aggregates over all of them read, as ``input.column``."""
        if self.plan.sides is None or not self.plan.sides.merged:
            return {}
        dotted = {
            f"{one.name}.{name}": (pl.col(one.name).struct.field(name), dtype)
            for one, own in zip(self.plan.edges, self.schemas, strict=True)
            for name, dtype in own.items()
        }
        types = {name: dtype for name, (_, dtype) in dotted.items()}
        columnar = {name: one for name, one in self.plan.aggregates.items() if not one.python}
        reads = bind(columnar, {**schema, **types}, time=c.TIME).reads if columnar else frozenset()
        self._reached = {name: reach for name, (reach, _) in dotted.items() if name in reads}
        return {name: types[name] for name in self._reached}

    def _make_inner(self) -> Inner:
        plan = self.plan
        if isinstance(plan.window, Sessions):
            if plan.window.max_duration:
                return CutSessions(plan, plan.window, self.bound, self.results)
            merging = RetainSessions if plan.bounded else MergeSessions
            return merging(plan, plan.window, self.bound, self.results)
        if plan.bounded:
            return RetainWindows(plan, plan.window, self.bound, self.results)
        if plan.layout == "cells":
            return FireOnce(plan, plan.window, self.bound, self.results)  # type: ignore[arg-type]
        return FireOften(plan, plan.window, self.bound, self.results)

    def _normal(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Keys as Spark groups them, and beside them what aggregates read of their input."""
        if self._reached:
            rows = rows.with_columns(reach.alias(name) for name, reach in self._reached.items())
        return as_grouped(rows, self._floats) if self._floats else rows

    def _placed(self, rows: pl.DataFrame, was: int) -> pl.DataFrame:
        """Rows with their place on the axis of time, and the time that holds their pane's output time."""
        rows = rows.with_columns(pl.col(c.TIME).alias(c.AT))
        if c.HELD not in self.bound.columns:
            return rows
        return rows.with_columns(pl.when(~is_late(pl.col(c.TIME), was)).then(pl.col(c.TIME)).alias(c.HOLD))

    def _cut(self, rows: pl.DataFrame, earliest: int | None, was: int) -> tuple[Stamped, int]:
        """Rows as cells on the axis of time, and how many of them are behind the watermark."""
        behind = int(is_late(rows[c.TIME], was).sum()) if earliest is not None and earliest < was else 0
        return self._inner.stamp(self._placed(rows, was), earliest, was), behind

    def _by_offset(self, rows: pl.DataFrame, moment: Moment) -> tuple[Stamped, int]:
        """Rows as cells on the axis of their origin's offsets, and how many are behind what it had reached."""
        assert moment.reach is not None
        rows = rows.sort(c.AT, maintain_order=True)  # among equal times the first offset is first
        rows = moment.reach.beside(rows.with_columns(pl.col(c.TIME).alias(c.HOLD))).drop(c.REACHED)
        return self._inner.stamp(rows, None, moment.was), int((rows[c.AT] < rows[c.WAS]).sum())

    def _numbered(
        self, state: State, rows: pl.DataFrame, dead: list[pl.DataFrame], moment: Moment
    ) -> tuple[Stamped, Moment, int]:
        """Rows with their number in the stream, and the moment on the axis of rows."""
        number = pl.int_range(state.position + 1, state.position + 1 + pl.len(), dtype=pl.Int64).alias(c.AT)
        rows = rows.with_columns(number, pl.col(c.TIME).alias(c.HOLD))
        # One on which user-written code raises must get no number: no dead letter does.
        if (
            self.bound.python
            and (failed := start_cells(self.bound, rows.with_row_index(c.ROW), self.plan.key)[1]) is not None
        ):
            dead.append(failed)
            rows = rows.filter(~pl.int_range(pl.len()).is_in(failed[c.ROW].implode())).with_columns(number)
        position = state.position + rows.height
        if self._numbers_by_key:
            return Stamped(pl.DataFrame(), rows), moment, position
        reached = MAX if moment.watermark == MAX else position + 1
        moment = replace(moment, was=state.position + 1, watermark=reached)
        return self._inner.stamp(rows, None, moment.was), moment, position

    def _output(
        self,
        state: State,
        stamps: Sequence[Stamp],
        dead: list[pl.DataFrame],
        outcome: Outcome[Any],
        was: int,
        behind: int,
    ) -> Output:
        plan, now = self.plan, state.now
        refined = self._refined(behind, outcome, was)
        if outcome.outside is not None:
            nowhere = pl.lit("no_window").alias(c.REASON), pl.lit("it lies between two windows").alias(c.DETAIL)
            dead.append(outcome.outside.with_columns(nowhere))
        if outcome.failed is not None:
            dead.append(outcome.failed)
        if outcome.beyond is not None and outcome.beyond.height:
            dead.append(dead_letters(outcome.beyond, *_BEYOND))
        own = [*self.schema, c.TIME]
        late = self._none.select(own)
        if outcome.late is not None:
            late, outlived = split_late(plan, outcome.late, was)
            late = late.select(own)
            dead += [dead_letters(outlived, *_OUTLIVED)] if outlived.height else []
        letters = pl.concat([d.select(*own, c.REASON, c.DETAIL) for d in dead]) if dead else self._none
        emitted = pl.concat([self._no_panes, *outcome.emitted], how="diagonal")
        panes = rows_out.pane_rows(
            emitted, key=plan.key, results=self.results, now=now, by_row=plan.window.axis == "rows"
        )
        counts = _counts(sum(stamp.rows for stamp in stamps), outcome, late.height, letters, emitted)
        return Output(
            panes=panes,
            late=rows_out.late_rows(late, watermark=was, now=now) if late.height else self._no_late,
            dead=rows_out.dead_rows(letters, watermark=was, now=now) if letters.height else self._no_dead,
            watermark=state.watermark,
            promise=self._promise(state),
            counts=replace(counts, refined=refined),
            open_panes=self._inner.open(state.store),
        )

    def _refined(self, behind: int, outcome: Outcome[Any], was: int) -> int:
        if self._by_row and self.plan.offset is None:
            return 0
        late = is_late(pl.col(c.TIME), was) if self.plan.offset is None else is_late(pl.col(c.AT), pl.col(c.WAS))
        elsewhere = (outcome.late, outcome.outside, outcome.failed, outcome.beyond)
        return behind - sum(frame.filter(late).height for frame in elsewhere if frame is not None)

    def _promise(self, state: State) -> int:
        """No pane with an earlier output time will follow, unless it refines a window that was told already."""
        if self._by_row or self.plan.output_time == "end" or state.watermark == MAX:
            return state.watermark
        holds = pl.concat([frame[c.HELD] for frame in self.scan(state)] or [pl.Series(dtype=pl.Int64)])
        held = holds.min()
        return state.watermark if held is None else min(state.watermark, int(held))  # type: ignore[arg-type]

    def _nothing(self) -> pl.DataFrame:
        schema: dict[str, Any] = {name: self.schema[name] for name in self.plan.key}
        schema |= {c.START: pl.Int64, c.END: pl.Int64} | {n: self.bound.result_schema[n] for n in self.results}
        schema |= {c.TIMING: pl.String, c.INDEX: pl.Int32, c.NONSPECULATIVE: pl.Int32}
        return pl.DataFrame(
            schema=schema | {c.IS_FIRST: pl.Boolean, c.PANE_TIME: pl.Int64, c.IS_LAST: pl.Boolean, "diff": pl.Int8}
        )


def _counts(rows: int, outcome: Outcome[Any], late: int, letters: pl.DataFrame, emitted: pl.DataFrame) -> Counts:
    dead = dict(letters[c.REASON].value_counts().sort(c.REASON).iter_rows()) if letters.height else {}
    timings = emitted.filter(pl.col("diff") > 0)[c.TIMING].value_counts().sort(c.TIMING) if emitted.height else None
    return Counts(
        rows=rows,
        kept=outcome.entered,
        late=late,
        dead=dead,
        unemitted=outcome.unemitted,
        panes=dict(timings.iter_rows()) if timings is not None else {},
        retractions=int((emitted["diff"] < 0).sum()),
        forgotten_keys=outcome.forgotten,
    )


def check_inputs(plan: Any, schemas: Sequence[Mapping[str, pl.DataType]]) -> None:
    """Reject rows that lack what the plan reads; with several inputs the error names the one."""
    for edge, (one, schema) in enumerate(zip(plan.edges, schemas, strict=False)):
        with join_errors.naming_input(one.name if plan.inputs else None):
            check_columns(plan.at(edge), schema)


def check_columns(plan: OneInput, schema: Mapping[str, pl.DataType]) -> None:
    """Refuse rows that lack what the plan reads of one input."""
    for name in schema:
        if name.startswith("__"):
            raise errors.internal_name(name)
    for name in plan.key:
        if name not in schema:
            raise errors.missing_column("key", name, schema)
    time = plan.time
    if not isinstance(time, IngestionTime):
        if time not in schema and time.partition(".")[0] not in schema:
            raise errors.missing_column("time", time, schema)
        read_time(pl.DataFrame(schema=schema), time)
    plan.watermark.check(schema)
    if isinstance(plan.window, Sessions) and isinstance(plan.window.gap, str):
        check_gap(plan.window.gap, schema)
    if plan.offset is not None:
        check_offset(plan.offset, schema)
    if isinstance(plan.window, Inherit):
        check_window(schema)
        if plan.mode == "discarding" and "diff" in schema:
            raise errors.discarding_retractions()
