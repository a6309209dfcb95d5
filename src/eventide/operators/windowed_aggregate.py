"""The windowed aggregate: a pure step over columnar state.

    step(state, bundle) -> state', panes, late rows, dead letters, output progress

Rows are late by the watermark before the bundle; then the watermark advances; then triggers are evaluated once. The
same operator runs in every host.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import polars as pl

from eventide import _columns as c
from eventide import panes as rows_out
from eventide.aggregates import Aggregate, Bound, bind
from eventide.errors import PlanError
from eventide.kernels.intervals import int_min
from eventide.kernels.keys import as_grouped
from eventide.operators.admission import check_gap, check_offset, check_unit, check_window, dead_letters, read_time
from eventide.operators.capped_sessions import CappedSessionWindows
from eventide.operators.deadlines import CLOCK_STEP, clock_lags, deadline, next_clock
from eventide.operators.deduplication import Deduplication
from eventide.operators.emission import StepTime
from eventide.operators.fixed_windows import BoundedPaneWindows, CellWindows, PaneWindows
from eventide.operators.inputs import advanced, fresh_tracker, inputs_of, restored_tracker
from eventide.operators.operator import BoundOperator, Counts, EmptyOutputs, Output, Stamp, Step, check_clock
from eventide.operators.sessions import BoundedSessionWindows, SessionWindows
from eventide.operators.slices import OffsetWatermarks
from eventide.operators.window_logic import (
    Extent,
    Net,
    OutputTimeHold,
    Rows,
    Stamped,
    WindowLogic,
    WindowUpdate,
    start_cells,
)
from eventide.plan.errors import internal_name, missing_column, names_of_late_rows
from eventide.plan.fingerprint import fingerprint
from eventide.plan.plan import IngestionTime, Plan
from eventide.plan.retractions import no_retractions
from eventide.plan.window_plan import WindowPlan
from eventide.state.operator_state import SerializedOperator, State, StateSerializer
from eventide.time import MAX, MIN, earliest
from eventide.watermarks import Note
from eventide.watermarks.errors import naming_input
from eventide.windows import Inherit, Sessions, WindowKind
from eventide.windows.lateness import is_late

__all__ = ["State", "WindowedAggregate"]


_BEYOND = "out_of_retention", "its window is full, or was closed to make room"


class WindowedAggregate(BoundOperator, SerializedOperator):
    """A plan bound to the schema of its rows."""

    def __init__(self, plan: WindowPlan, *schemas: Mapping[str, pl.DataType]) -> None:
        self.plan = plan = _with_diff(plan, schemas)
        check_inputs(plan, schemas)
        self._inputs = inputs_of(plan, schemas)
        self.schemas = self._inputs.schemas
        self.schema = schema = self._inputs.schema
        self._floats = [name for name in plan.key if schema[name].is_float()]
        self._reached: dict[str, pl.Expr] = {}
        self.bound = self._bind()
        self.results = tuple(plan.aggregates)
        self._windows = self._window_logic()
        facts = self._facts() | {f"stored {name}": str(dtype) for name, dtype in self.bound.schema.items()}
        columns = [self.reads(edge) for edge in range(len(self.schemas))]
        key = () if plan.counts_all_keys else plan.key
        self._repeats = Deduplication(plan, self._inputs)
        tracker = partial(restored_tracker, plan)
        self._serializer = StateSerializer(
            facts, self.schemas, columns, tracker, self._windows, key, self._repeats.codecs
        )
        self._empty = EmptyOutputs(self._inputs)
        self._no_panes = self._nothing()

    def reads(self, edge: int = 0) -> set[str]:
        """The columns of an input's rows that the plan looks at; late rows and dead letters show all."""
        plan = self.plan
        if plan.sides is not None:
            return set(self.schemas[edge])
        names = {*plan.key, *self.bound.reads}
        for source in plan.edges:  # inputs of a union have the same columns
            names |= {*source.watermark.columns()}
            names |= set() if isinstance(source.time, IngestionTime) else {source.time, source.time.partition(".")[0]}
        if isinstance(plan.window, Sessions) and isinstance(plan.window.gap, str):
            names.add(plan.window.gap)
        if isinstance(plan.window, Inherit):
            names |= {*rows_out.WINDOW, rows_out.DIFF}
        if plan.applies_diff:
            names.add(rows_out.DIFF)
        names |= rows_out.recognised_columns(self.schemas[edge])  # hosts that drop the others recognise panes, too
        return names & set(self.schemas[edge])

    def output_schemas(self) -> dict[str, dict[str, pl.DataType]]:
        by_row = self.plan.window.axis == "rows"
        panes = rows_out.pane_rows(self._no_panes, key=self.plan.key, results=self.results, now=0, by_row=by_row)
        return self._empty.schemas(panes.schema)

    def initial(self) -> State:
        return State(fresh_tracker(self.plan), MIN, MIN, self._windows.initial(), ids=self._repeats.initial())

    def stamp(self, rows: pl.DataFrame, now: int, watermark: int, edge: int = 0) -> Stamp:
        """Prepare rows as far as that needs no state: dead letters, progress, cells.

        ``watermark`` is the one before the bundle. Parts of a bundle can be stamped separately.
        """
        check_unit(self.plan.at(edge), rows, now, watermark)
        admitted = self._inputs.admit(edge, rows, now)
        admitted.rows = self._normal(admitted.rows)
        summary = self.plan.edges[edge].watermark.summarise(admitted.seen, c.TIME, now)
        if not self.judges_when_stamping:
            return Stamp(rows.height, admitted.dead, summary, 0, Stamped(pl.DataFrame(), admitted.rows), edge)
        stamped, late_rows = self._cut(admitted.rows, admitted.earliest, watermark)
        return Stamp(rows.height, admitted.dead, summary, late_rows, stamped, edge)

    def apply(
        self, state: State, stamps: Sequence[Stamp], now: int, *, notes: Sequence[Note] = (), polled: bool = True
    ) -> Step[State]:
        """A bundle's stamps, in order: the watermark advances, cells are merged, triggers are evaluated once."""
        check_clock(state, now)
        previous = state.watermark
        tracker = advanced(state.tracker, [(stamp.edge, stamp.summary) for stamp in stamps], now, polled, notes)
        watermark = max(previous, tracker.time)
        if not self.judges_when_stamping:
            stamps = self._repeats.by_number(stamps, state.tracker)
        many = len(self.schemas)
        stamps, ids = self._repeats.by_id(stamps, state.ids, [previous] * many, [watermark] * many)
        dead = [letters for stamp in stamps for letters in stamp.dead]
        step, position, late_rows = StepTime(previous, watermark, now, previous, watermark), 0, 0
        if self.judges_when_stamping:
            stamped = Stamped.together([stamp.stamped for stamp in stamps], self.bound, self._windows.by)
            late_rows = sum(stamp.late_rows for stamp in stamps)  # perhaps counted elsewhere: the sum of all is right
        else:
            rows = pl.concat([stamp.stamped.rows for stamp in stamps])
            if self.plan.offset is not None:
                step = replace(step, offsets=OffsetWatermarks.between(state.tracker, tracker, previous, watermark))
                stamped, late_rows = self._by_offset(rows, step)
            elif self._by_row:
                stamped, step, position = self._numbered(state, rows, dead, step)
            else:
                stamped, late_rows = self._cut(rows, int_min(rows[c.TIME]), previous)
        update = self._windows.update(state.store, stamped, step)
        state = State(tracker, watermark, now, update.store, position, ids)
        return Step(state, self._output(state, stamps, dead, update, previous, late_rows))

    def next_deadline(self, state: State, lags: frozenset[int] = frozenset()) -> int | None:
        tables = self._windows.tables(state.store)[0].values()
        lags = self.lags(lags)
        dues = [self._next_due(state, tables)] if lags else []
        return deadline(state, lags, clocks=[next_clock(tables, state)], dues=dues)

    def lags(self, before: frozenset[int] = frozenset()) -> frozenset[int]:
        """The output watermark follows the clock as the watermark does: panes that hold it back end by a deadline."""
        return before | clock_lags(self.plan)

    @property
    def hears_time(self) -> bool:
        """Whether windows that are counted in rows are closed by their age."""
        return self.plan.timeout is not None

    def _next_due(self, state: State, tables: Iterable[Any]) -> int | None:
        """The first event time at which a window is due; windows counted in rows end by time only with their key."""
        if self._by_row:
            if self.hears_time and self._windows.open(state.store):
                return state.watermark + CLOCK_STEP
            if self.plan.forget_after is None:
                return None
        if isinstance(self._windows, CellWindows):
            return self._windows.next_end(state.store, state.watermark)
        return earliest(table.next_due(state.watermark) for table in tables)

    def scan(self, state: State) -> list[pl.DataFrame]:
        return self._windows.scan(state.store)

    def _facts(self) -> dict[str, str]:
        return fingerprint(self.plan)

    @property
    def judges_when_stamping(self) -> bool:
        """Whether rows become cells before they reach state. Cells have no time, so late rows are set aside before."""
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
        internal: dict[str, Aggregate] = {c.ROWS: Rows()}
        schema = self.schema | {c.TIME: pl.Int64(), c.AT: pl.Int64(), c.HOLD: pl.Int64(), c.GAP: pl.Int64()}
        diff = None
        if isinstance(plan.window, Sessions):
            internal["__extent"] = Extent(plan.window.gap)
        if plan.applies_diff or (isinstance(plan.window, Inherit) and rows_out.DIFF in self.schema):
            diff, schema[c.WEIGHT] = c.WEIGHT, pl.Int64()
            internal[c.NET] = Net()
        schema |= self._reach_into_sides(schema)
        if plan.window.axis == "rows":
            internal[c.HELD] = OutputTimeHold("latest")
        elif plan.output_time != "end":
            internal[c.HELD] = OutputTimeHold(plan.output_time)
        return bind({**plan.aggregates, **internal}, schema, time=c.TIME, diff=diff)

    def _reach_into_sides(self, schema: Mapping[str, pl.DataType]) -> dict[str, pl.DataType]:
        """Columns of inputs that aggregates over all of them read, as ``input.column``."""
        if self.plan.sides is None or not self.plan.sides.merged:
            return {}
        dotted = {
            f"{source.name}.{name}": (pl.col(source.name).struct.field(name), dtype)
            for source, columns in zip(self.plan.edges, self.schemas, strict=True)
            for name, dtype in columns.items()
        }
        types = {name: dtype for name, (_, dtype) in dotted.items()}
        columnar = {name: agg for name, agg in self.plan.aggregates.items() if not agg.python}
        reads = bind(columnar, {**schema, **types}, time=c.TIME).reads if columnar else frozenset()
        self._reached = {name: reach for name, (reach, _) in dotted.items() if name in reads}
        return {name: types[name] for name in self._reached}

    def _window_logic(self) -> WindowLogic:
        plan = self.plan
        if isinstance(plan.window, Sessions):
            if plan.window.max_duration:
                return CappedSessionWindows(plan, plan.window, self.bound, self.results)
            merging = BoundedSessionWindows if plan.bounded else SessionWindows
            return merging(plan, plan.window, self.bound, self.results)
        if plan.bounded:
            return BoundedPaneWindows(plan, plan.window, self.bound, self.results)
        if plan.layout == "cells" and isinstance(plan.window, WindowKind):
            return CellWindows(plan, plan.window, self.bound, self.results)
        return PaneWindows(plan, plan.window, self.bound, self.results)

    def _normal(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows with keys as Spark groups them, and with the columns that aggregates read of their input."""
        if self._reached:
            rows = rows.with_columns(reach.alias(name) for name, reach in self._reached.items())
        return as_grouped(rows, self._floats) if self._floats else rows

    def _placed(self, rows: pl.DataFrame, previous: int) -> pl.DataFrame:
        """Rows with their position on the axis of time, and the time that holds the output time of their pane."""
        rows = rows.with_columns(pl.col(c.TIME).alias(c.AT))
        if c.HELD not in self.bound.columns:
            return rows
        return rows.with_columns(pl.when(~is_late(pl.col(c.TIME), previous)).then(pl.col(c.TIME)).alias(c.HOLD))

    def _cut(self, rows: pl.DataFrame, earliest: int | None, previous: int) -> tuple[Stamped, int]:
        """Rows as cells on the axis of time, and how many of them are behind the watermark."""
        late_rows = int(is_late(rows[c.TIME], previous).sum()) if earliest is not None and earliest < previous else 0
        return self._windows.assign(self._placed(rows, previous), earliest, previous), late_rows

    def _by_offset(self, rows: pl.DataFrame, step: StepTime) -> tuple[Stamped, int]:
        """Rows as cells on the axis of their origin's offsets, and how many of the rows are late there."""
        assert step.offsets is not None
        rows = rows.sort(c.AT, maintain_order=True)  # among equal times the first offset is first
        rows = step.offsets.with_offsets(rows.with_columns(pl.col(c.TIME).alias(c.HOLD))).drop(c.REACHED)
        late_rows = rows.select(is_late(pl.col(c.AT), pl.col(c.PREVIOUS)).sum()).item()
        return self._windows.assign(rows, None, step.previous), int(late_rows)

    def _numbered(
        self, state: State, rows: pl.DataFrame, dead: list[pl.DataFrame], step: StepTime
    ) -> tuple[Stamped, StepTime, int]:
        """Rows with their number in the stream, and the step on the axis of rows."""
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
            return Stamped(pl.DataFrame(), rows), step, position
        reached = MAX if step.watermark == MAX else position + 1
        step = replace(step, previous=state.position + 1, watermark=reached)
        return self._windows.assign(rows, None, step.previous), step, position

    def _output(
        self,
        state: State,
        stamps: Sequence[Stamp],
        dead: list[pl.DataFrame],
        update: WindowUpdate[Any],
        previous: int,
        late_rows: int,
    ) -> Output:
        plan, now = self.plan, state.now
        refined = self._refined(late_rows, update, previous)
        if update.outside is not None:
            nowhere = (
                pl.lit("no_window").alias(c.REASON),
                pl.lit("it is between two windows").alias(c.DETAIL),
            )
            dead.append(update.outside.with_columns(nowhere))
        if update.failed is not None:
            dead.append(update.failed)
        if update.beyond is not None and update.beyond.height:
            dead.append(dead_letters(update.beyond, *_BEYOND))
        late = self._empty.rows if update.late is None else update.late.select(self._empty.columns)
        letters = self._empty.letters
        if dead:
            letters = pl.concat([frame.select(letters.columns) for frame in dead])
        emitted = pl.concat([self._no_panes, *update.emitted], how="diagonal")
        panes = rows_out.pane_rows(
            emitted, key=plan.key, results=self.results, now=now, by_row=plan.window.axis == "rows"
        )
        counts = _counts(sum(stamp.rows for stamp in stamps), update, late.height, letters, emitted)
        return Output(
            panes=panes,
            late=rows_out.late_rows(late, watermark=previous, now=now) if late.height else self._empty.late,
            dead=rows_out.dead_rows(letters, watermark=previous, now=now) if letters.height else self._empty.dead,
            watermark_us=state.watermark,
            promise=self._promise(state),
            counts=replace(counts, refined=refined),
            open_panes=self._windows.open(state.store),
        )

    def _refined(self, late_rows: int, update: WindowUpdate[Any], previous: int) -> int:
        if self._by_row and self.plan.offset is None:
            return 0
        late = (
            is_late(pl.col(c.TIME), previous) if self.plan.offset is None else is_late(pl.col(c.AT), pl.col(c.PREVIOUS))
        )
        elsewhere = (update.late, update.outside, update.failed, update.beyond)
        return late_rows - sum(frame.filter(late).height for frame in elsewhere if frame is not None)

    def _promise(self, state: State) -> int:
        """The output watermark: no pane with an earlier output time will follow, unless it refines an emitted one."""
        if self._by_row or self.plan.output_time == "end" or state.watermark == MAX:
            return state.watermark
        holds = pl.concat([frame[c.HELD] for frame in self.scan(state)] or [pl.Series(dtype=pl.Int64)])
        held = int_min(holds)
        return state.watermark if held is None else min(state.watermark, held)

    def _nothing(self) -> pl.DataFrame:
        schema: dict[str, Any] = {name: self.schema[name] for name in self.plan.key}
        schema |= {c.START: pl.Int64, c.END: pl.Int64} | {n: self.bound.result_schema[n] for n in self.results}
        schema |= {c.TIMING: pl.String, c.INDEX: pl.Int32, c.NONSPECULATIVE: pl.Int32, c.IS_FIRST: pl.Boolean}
        return pl.DataFrame(schema=schema | {c.PANE_TIME: pl.Int64, c.IS_LAST: pl.Boolean, rows_out.DIFF: pl.Int8})


def _counts(rows: int, update: WindowUpdate[Any], late: int, letters: pl.DataFrame, emitted: pl.DataFrame) -> Counts:
    dead = dict(letters[c.REASON].value_counts().sort(c.REASON).iter_rows()) if letters.height else {}
    added = emitted.filter(pl.col(rows_out.DIFF) > 0) if emitted.height else None
    timings = None if added is None else added[c.TIMING].value_counts().sort(c.TIMING)
    return Counts(
        rows=rows,
        kept=update.entered,
        late=late,
        dead=dead,
        unemitted=update.unemitted,
        panes=dict(timings.iter_rows()) if timings is not None else {},
        retractions=int((emitted[rows_out.DIFF] < 0).sum()),
        forgotten_keys=update.forgotten,
    )


def check_inputs(plan: Plan, schemas: Sequence[Mapping[str, pl.DataType]]) -> None:
    """Reject rows that lack what the plan reads; with several inputs the error names the one."""
    for edge, (source, schema) in enumerate(zip(plan.edges, schemas, strict=False)):
        with naming_input(source.name if plan.inputs else None):
            check_columns(plan.at(edge), schema)


def _with_diff(plan: WindowPlan, schemas: Sequence[Mapping[str, pl.DataType]]) -> WindowPlan:
    """The plan as its rows need it: the diff of panes is applied, also where they do not come from a chain."""
    if plan.applies_diff is not None:
        return plan
    panes = all(rows_out.recognised_columns(schema) for schema in schemas)
    return replace(plan, applies_diff=panes and no_retractions(plan) is None)


def check_columns(plan: Plan, schema: Mapping[str, pl.DataType]) -> None:
    """Reject rows that lack what the plan reads of one input."""
    for name in schema:
        if name.startswith("__"):
            raise internal_name(name)
    if taken := rows_out.taken_names(schema):
        raise names_of_late_rows(taken)
    for name in plan.key:
        if name not in schema:
            raise missing_column("key", name, schema)
    time = plan.time
    if not isinstance(time, IngestionTime):
        if time not in schema and time.partition(".")[0] not in schema:
            raise missing_column("time", time, schema)
        read_time(pl.DataFrame(schema=schema), time)
    plan.watermark.check(schema)
    if isinstance(plan.window, Sessions) and isinstance(plan.window.gap, str):
        check_gap(plan.window.gap, schema)
    if plan.offset is not None:
        check_offset(plan.offset, schema)
    if isinstance(plan.window, Inherit):
        check_window(schema)
    if plan.mode == "discarding" and isinstance(plan.window, Inherit) and rows_out.DIFF in schema:
        raise PlanError(no_retractions(plan))
