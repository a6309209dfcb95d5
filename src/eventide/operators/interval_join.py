"""The interval join, and the join with the last rows of a key.

Rows are late by the watermark of their own side before the bundle; then the watermarks advance. New rows are matched
with stored ones and with each other. A row is stored until the watermark of the *other* side shows that no partner can
arrive any more. If it has no partner by then, and its side is outer, it is emitted with nulls.

In a join with the last rows, the right rows of a bundle are processed first: each is matched with the stored left
rows. Then the left rows of the bundle are matched with the last right rows of their key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import polars as pl

from eventide import _columns as c
from eventide import panes as rows_out
from eventide._column_refs import is_row_wise
from eventide.errors import PlanError, did_you_mean
from eventide.kernels.keys import join_on_key
from eventide.operators.admission import admit, check_unit
from eventide.operators.deadlines import clock_lags, deadline
from eventide.operators.deduplication import Deduplication
from eventide.operators.inputs import JoinInputs, advanced, fresh_tracker, restored_tracker
from eventide.operators.join_buffer import MATCHED, NUMBERS, JoinSide, Matcher, Matches, in_order
from eventide.operators.operator import BoundOperator, Counts, EmptyOutputs, Output, Stamp, Step, check_clock
from eventide.operators.window_join import pair_columns
from eventide.operators.window_logic import Stamped
from eventide.operators.windowed_aggregate import check_inputs
from eventide.plan.fingerprint import fingerprint
from eventide.plan.join_plan import LEFT, RIGHT, JoinPlan
from eventide.state.operator_state import SerializedOperator, State, StateSerializer
from eventide.state.pane_log import PaneCodec
from eventide.state.pane_table import DUE, EMPTY_TABLE, HASH, PaneTable, Positions
from eventide.time import MAX, MIN
from eventide.watermarks import Note, OperatorTracker
from eventide.watermarks.expiry import forget_at
from eventide.windows.lateness import is_due, is_late

Store = tuple[PaneTable, PaneTable]  # the stored rows of each side
Places = Mapping[int, Positions]  # rows of a table, by run

_NAMES = ("left", "right")
_NO_HASHES = pl.Series([], dtype=pl.UInt64)
_ADDED_ROW = pl.lit(1, pl.Int8).alias(rows_out.DIFF)


class IntervalJoin(BoundOperator, SerializedOperator):
    """A join bound to the columns of its sides."""

    hears_time = False

    def __init__(self, plan: JoinPlan, *schemas: Mapping[str, pl.DataType]) -> None:
        self.plan = plan
        check_inputs(plan, schemas)
        self._inputs = JoinInputs(plan, tuple(dict(schema) for schema in schemas))
        self.schemas = self._inputs.schemas
        columns = pair_columns(plan.inputs, self.schemas, suffix=plan.suffix, reserved=(rows_out.DIFF,))
        left, right = (JoinSide(plan, edge, columns.sides[edge], self.schemas[edge]) for edge in (LEFT, RIGHT))
        self._sides = (left, right)
        self._columns = columns.names
        self._no_pairs = pl.DataFrame(schema=left.schema | right.schema | dict.fromkeys(NUMBERS, pl.Int64()))
        self._no_panes = self._no_pairs.select(*self._columns, _ADDED_ROW)
        self._check_where()
        self._matcher = Matcher(plan, self._sides)
        reads = [self.reads(edge) for edge in range(len(self.schemas))]
        tables = _JoinTables(self._sides)
        tracker = partial(restored_tracker, plan)
        self._repeats = Deduplication(plan, self._inputs, column=self._column, widen=self._input_rows)
        self._serializer = StateSerializer(
            fingerprint(plan), self.schemas, reads, tracker, tables, plan.key, self._repeats.codecs
        )
        self._empty = EmptyOutputs(self._inputs)

    def output_schemas(self) -> dict[str, dict[str, pl.DataType]]:
        """The columns of joined rows, late rows and dead letters."""
        return self._empty.schemas(self._no_panes.schema)

    def initial(self) -> State:
        return State(fresh_tracker(self.plan), MIN, MIN, (EMPTY_TABLE, EMPTY_TABLE), ids=self._repeats.initial())

    def stamp(self, rows: pl.DataFrame, now: int, watermark: int, edge: int = 0) -> Stamp:
        """Time the rows of one side; dead letters are set aside. Late rows are judged when the stamps are applied."""
        check_unit(self.plan.at(edge), rows, now, watermark)
        admitted = admit(self.plan.at(edge), rows, now)
        summary = self.plan.edges[edge].watermark.summarise(admitted.seen, c.TIME, now)
        dead = [self._inputs.widen(edge, letters) for letters in admitted.dead]
        return Stamp(
            rows.height, dead, summary, 0, Stamped(pl.DataFrame(), self._sides[edge].read(admitted.rows)), edge
        )

    def apply(
        self, state: State, stamps: Sequence[Stamp], now: int, *, notes: Sequence[Note] = (), polled: bool = True
    ) -> Step[State]:
        """Apply a bundle: the watermarks advance, rows are matched, and rows that cannot match any more are dropped."""
        check_clock(state, now)
        stamps = self._repeats.by_number(stamps, state.tracker)
        tracker = advanced(state.tracker, [(stamp.edge, stamp.summary) for stamp in stamps], now, polled, notes)
        previous, reached = _reached(state.tracker), _reached(tracker)
        stamps, ids = self._repeats.by_id(stamps, state.ids, previous, reached)
        new, late, position = [], [], state.position
        for edge, side in enumerate(self._sides):
            rows, late_rows = self._judged(edge, stamps, previous[edge])
            late.append(late_rows)
            new.append(side.to_store(rows, position))
            position += rows.height
        store, pairs, forgotten = self._matched(state.store, new, previous, reached)
        state = State(tracker, max(state.watermark, self._watermark(reached)), now, store, position, ids)
        aside = self._late(late, previous, now), self._dead(stamps, previous, now)
        output = self._output(state, stamps, sum(rows.height for rows in new), *aside, pairs, reached)
        return Step(state, replace(output, counts=replace(output.counts, forgotten_keys=forgotten)))

    def next_deadline(self, state: State, lags: frozenset[int] = frozenset()) -> int | None:
        lags = lags | clock_lags(self.plan)
        reached = _reached(state.tracker)
        tables = zip(self._sides, state.store, strict=True) if lags else ()
        return deadline(state, lags, dues=[table.next_due(reached[side.retention.by]) for side, table in tables])

    def lags(self, before: frozenset[int] = frozenset()) -> frozenset[int]:
        """The output watermark is as far behind the clock as rows of a side wait for partners."""
        lengths = [0, *(side.retention.length for side in self._sides if side.retention.length is not None)]
        return frozenset(lag + length for lag in before | clock_lags(self.plan) for length in lengths)

    def scan(self, state: State) -> list[pl.DataFrame]:
        """The stored rows of the left side and of the right."""
        frames = [table.scan() for table in state.store]
        return [frame.drop(HASH) for frame in frames if frame is not None]

    def _check_where(self) -> None:
        where = self.plan.where
        if where is None:
            return
        for name in where.meta.root_names():
            if name not in self._columns:
                raise PlanError(
                    f"join: where reads the column {name!r}, which the joined rows do not have. "
                    f"{did_you_mean(name, self._columns)}"
                )
        if not is_row_wise(where):
            raise PlanError(
                f"join: where={where} looks at several pairs at once, so its result would depend on how rows are "
                "bundled. Use an expression over a single pair, or filter the output of the join."
            )
        dtype = self._no_pairs.select(where.alias("where")).schema["where"]
        if dtype != pl.Boolean:
            raise PlanError(
                f"join: where gives {dtype} for each pair of rows. It must give a boolean: which pairs to keep."
            )

    def _column(self, edge: int, name: str) -> pl.Expr:
        return pl.col(self._sides[edge].name_of(name))

    def _input_rows(self, edge: int, messages: pl.DataFrame) -> pl.DataFrame:
        return self._inputs.widen(edge, self._sides[edge].as_input_rows(messages))

    def _judged(self, edge: int, stamps: Sequence[Stamp], previous: int) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The rows of one side, and those of them that are late."""
        parts = [stamp.stamped.rows for stamp in stamps if stamp.edge == edge and stamp.stamped.rows.height]
        rows = pl.concat(parts) if parts else self._sides[edge].nothing
        late = is_late(rows[c.TIME], previous)
        return (rows.filter(~late), rows.filter(late)) if late.any() else (rows, rows.clear())

    def _matched(
        self, store: Store, new: Sequence[pl.DataFrame], previous: Sequence[int], reached: Sequence[int]
    ) -> tuple[Store, list[pl.DataFrame], int]:
        """Match new rows with stored ones, and with each other.

        Returns the new store, pairs and unmatched rows, and how many keys were forgotten.
        """
        matches = Matches()
        left, right = (side.with_partner_key(rows) for side, rows in zip(self._sides, new, strict=True))
        matched_right, _ = self._matcher.match(LEFT, left, [store[RIGHT], EMPTY_TABLE.put(right)], matches)
        (matched_left,) = self._matcher.match(RIGHT, right, [store[LEFT]], matches)
        tables, unmatched = [], []
        for side, arrived, places in zip(self._sides, (left, right), (matched_left, matched_right), strict=True):
            passed = previous[side.retention.by], reached[side.retention.by]
            arrived = self._marked(side, arrived, matches)
            table, passed_rows = self._passed(side, store[side.edge], arrived, places, passed)
            tables.append(table)
            unmatched += side.unmatched([*passed_rows, arrived], new[side.edge], passed[1])
        return (tables[LEFT], tables[RIGHT]), [*matches.pairs, *unmatched], 0

    def _marked(self, side: JoinSide, arrived: pl.DataFrame, matches: Matches) -> pl.DataFrame:
        """New rows, marked where they have a partner."""
        if not side.is_outer or not arrived.height:
            return arrived
        return arrived.with_columns(pl.col(c.ROW).is_in(matches.numbers(side.edge).implode()).alias(MATCHED))

    def _passed(
        self, side: JoinSide, table: PaneTable, arrived: pl.DataFrame, places: Places, passed: tuple[int, int]
    ) -> tuple[PaneTable, list[pl.DataFrame]]:
        """The table with new rows, and the rows that the watermark has passed, which are dropped from it."""
        table, matched = table.take_at(places)
        table, passed_rows = table.take(_NO_HASHES, due=passed, clock=(MIN, MIN))
        if not matched and not arrived.height:
            return table, passed_rows
        back = [rows.with_columns(pl.lit(True).alias(MATCHED)) for rows in matched]
        return table.put(pl.concat([arrived, *back]).filter(~is_due(pl.col(DUE), passed[1]))), passed_rows

    def _emitted(self, pairs: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """Pairs and unmatched rows in the order of arrival, so that the same bundle gives the same bytes."""
        if not pairs:
            return self._no_panes
        rows = in_order(pl.concat([self._no_pairs, *pairs], how="diagonal"))
        return rows.select(*self._columns, _ADDED_ROW)

    def _late(self, late: Sequence[pl.DataFrame], previous: Sequence[int], now: int) -> pl.DataFrame:
        parts = [self._empty.late]
        for edge, rows in enumerate(late):
            if rows.height:
                sided = self._inputs.widen(edge, self._sides[edge].as_input_rows(rows))
                parts.append(rows_out.late_rows(sided, watermark=previous[edge], now=now))
        return pl.concat(parts)

    def _dead(self, stamps: Sequence[Stamp], previous: Sequence[int], now: int) -> pl.DataFrame:
        letters = [
            rows_out.dead_rows(rows, watermark=previous[stamp.edge], now=now)
            for stamp in stamps
            for rows in stamp.dead
            if rows.height
        ]
        return pl.concat([self._empty.dead, *letters])

    def _output(
        self,
        state: State,
        stamps: Sequence[Stamp],
        entered: int,
        late: pl.DataFrame,
        dead: pl.DataFrame,
        pairs: Sequence[pl.DataFrame],
        reached: Sequence[int],
    ) -> Output:
        panes = self._emitted(pairs)
        promises = self._promises(reached)
        reasons: Counter[str] = Counter()
        for letters in (letters for stamp in stamps for letters in stamp.dead):
            reasons.update(dict(letters[c.REASON].value_counts().iter_rows()))
        counts = Counts(
            rows=sum(stamp.rows for stamp in stamps),
            kept=entered,
            late=late.height,
            dead=dict(sorted(reasons.items())),
            panes={rows_out.ON_TIME: panes.height} if panes.height else {},
        )
        return Output(
            panes=panes,
            late=late,
            dead=dead,
            watermark_us=state.watermark,
            promise=promises[self.plan.watermark.options.watermark_key],
            counts=counts,
            open_panes=sum(table.height for table in state.store),
            promises=promises,
        )

    def _watermark(self, reached: Sequence[int]) -> int:
        """The watermark of the left side, or of both where they have the same watermark key."""
        left, right = (source.watermark_key for source in self.plan.edges)
        if left == right:
            return min(reached)
        # The end of the left side alone does not end the stream.
        return reached[LEFT] if reached[LEFT] < MAX or reached[RIGHT] == MAX else MIN

    def _promises(self, reached: Sequence[int]) -> dict[int, int]:
        """The output watermark of each watermark key: no row with an earlier time on a side with it will follow."""
        promises: dict[int, int] = {}
        for edge, (source, side) in enumerate(zip(self.plan.edges, self._sides, strict=True)):
            limit = _before(reached[side.retention.by], side.retention.length)
            key = source.watermark_key
            promises[key] = min(promises.get(key, MAX), reached[edge], limit)
        return promises


class _JoinTables:
    """The tables of both sides, and their codecs."""

    def __init__(self, sides: tuple[JoinSide, JoinSide]) -> None:
        self.codecs = {name: PaneCodec(side.lookup_columns) for name, side in zip(_NAMES, sides, strict=True)}

    def tables(self, store: Store) -> tuple[dict[str, Any], int]:
        return dict(zip(_NAMES, store, strict=True)), MIN

    def store(self, tables: Mapping[str, Any], clock: int) -> Store:
        return tables["left"], tables["right"]


def _reached(tracker: object) -> tuple[int, ...]:
    assert isinstance(tracker, OperatorTracker)
    return tracker.effective_times


def _before(time: int, length: int | None) -> int:
    if time in (MIN, MAX):
        return time
    return MIN if length is None else time - length


_NEVER = (0, 0)


class LastRowsJoin(IntervalJoin):
    """A join with the last right rows of a key, bound to the columns of its sides."""

    def _matched(
        self, store: Store, new: Sequence[pl.DataFrame], previous: Sequence[int], reached: Sequence[int]
    ) -> tuple[Store, list[pl.DataFrame], int]:
        matches = Matches()
        ours, theirs = self._sides
        left, right = (side.with_partner_key(rows) for side, rows in zip(self._sides, new, strict=True))
        (matched_left,) = self._matcher.match(RIGHT, right, [store[LEFT]], matches)
        forget = self._forget_at(left, right, reached[LEFT])
        last, replaced = self._last(store[RIGHT], self._marked(theirs, right, matches), forget)
        (matched_right,) = self._matcher.match(LEFT, left, [last], matches)
        left = self._marked(ours, left, matches)
        tables, unmatched, forgotten = [], theirs.unmatched(replaced, new[RIGHT].clear(), MAX), 0
        parts = (ours, store[LEFT], left, matched_left), (theirs, last, right.clear(), matched_right)
        for side, table, arrived, places in parts:
            # A right row is dropped with its key, or when the left side has ended; a later one is dropped at once.
            passed = min(previous[side.retention.by], MAX - (side is theirs)), reached[side.retention.by]
            table, passed_rows = self._passed(side, table, arrived, places, passed)
            if side is theirs and passed_rows and passed[1] < MAX:
                forgotten = pl.concat(passed_rows).select(self.plan.key).n_unique()
            tables.append(table)
            unmatched += side.unmatched([*passed_rows, arrived], new[side.edge], passed[1])
        return (tables[LEFT], tables[RIGHT]), [*matches.pairs, *unmatched], forgotten

    def _forget_at(self, left: pl.DataFrame, right: pl.DataFrame, watermark: int) -> pl.DataFrame | None:
        """The keys that have rows in this bundle, on either side, and when they are forgotten."""
        forget_after = self.plan.forget_after
        if forget_after is None:
            return None
        active = pl.concat([rows.select(*self.plan.key, HASH, c.TIME) for rows in (left, right)])
        latest = active.group_by(*self.plan.key, HASH).agg(pl.col(c.TIME).max())
        return latest.select(*self.plan.key, HASH, forget_at(pl.col(c.TIME), watermark, forget_after).alias(c.FORGET))

    def _last(
        self, table: PaneTable, new: pl.DataFrame, forget: pl.DataFrame | None
    ) -> tuple[PaneTable, list[pl.DataFrame]]:
        """The table with the last rows of each key that has new ones, and the rows that are no longer among them.

        Rows of a key are forgotten together.
        """
        touched = new[HASH] if forget is None else forget[HASH]
        if not len(touched):
            return table, []
        table, known = table.take(touched, due=_NEVER, clock=_NEVER)
        rows = pl.concat([*known, new])
        if forget is not None:
            known_due = pl.when(pl.col(DUE) < MAX).then(DUE)
            due = pl.max_horizontal(known_due, c.FORGET).max().over(self.plan.key).fill_null(MAX)
            rows = join_on_key(rows, forget.drop(HASH), self.plan.key, maintain_order="left")
            rows = rows.with_columns(due.alias(DUE)).drop(c.FORGET)
        newer = pl.col(c.ROW).rank("ordinal", descending=True).over(self.plan.key)
        last = rows.select(newer <= self.plan.last).to_series()
        return table.put(rows.filter(last)), [rows.filter(~last)]
