"""The interval join: rows of two sides meet where their keys are equal and their times are near.

Rows of a bundle are judged late by the watermark of their own side that stood when it began; then the watermarks
advance. New rows meet those that are kept, and each other. A row is kept until the *other* side's watermark shows that
no partner can come any more; if it has met none by then, and its side is outer, it is told beside nulls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import polars as pl

from eventide import panes as rows_out
from eventide.errors import joins as join_errors
from eventide.errors import plan as errors
from eventide.operators import columns as c
from eventide.operators.admission import admit
from eventide.operators.bundle import Bundle, Counts, Output, Stamp, Step
from eventide.operators.deadlines import clock_lags, deadline
from eventide.operators.inputs import Sided, advanced, blank_letter, fresh_tracker, restored_tracker
from eventide.operators.meeting import Matcher, Meetings, in_order
from eventide.operators.messages import MET, NUMBERS, Messages
from eventide.operators.outcome import Stamped
from eventide.operators.pairing import pair_columns
from eventide.operators.repeats import without_repeats
from eventide.operators.saved import Saved
from eventide.operators.saving import Saving, State
from eventide.operators.windowed import check_inputs
from eventide.plan.fingerprint import fingerprint
from eventide.plan.join_plan import LEFT, RIGHT, JoinPlan
from eventide.state.pane_pages import PaneForm
from eventide.state.panes import DUE, EMPTY, HASH, PaneTable, Positions
from eventide.time import MAX, MIN, format_instant
from eventide.watermarks import Note, Trackers
from eventide.windows.lifetime import is_late

Store = tuple[PaneTable, PaneTable]  # the rows that are kept of each side
Places = Mapping[int, Positions]  # of rows in a table, by the number of their run

_NAMES = ("left", "right")
_NO_HASHES = pl.Series([], dtype=pl.UInt64)
_DIFF = pl.lit(1, pl.Int8).alias("diff")


class IntervalJoin(Saved):
    """A join bound to the columns of its sides."""

    judges_when_stamping = False
    hears_time = False

    def __init__(self, plan: JoinPlan, *schemas: Mapping[str, pl.DataType]) -> None:
        self.plan = plan
        check_inputs(plan, schemas)
        self._sided = Sided(plan, tuple(dict(schema) for schema in schemas))
        self.schemas = self._sided.schemas
        columns = pair_columns(plan.inputs, self.schemas, suffix=plan.suffix, reserved=("diff",))
        left, right = (Messages(plan, edge, columns.sides[edge], self.schemas[edge]) for edge in (LEFT, RIGHT))
        self._sides = (left, right)
        self._columns = columns.names
        self._no_pairs = pl.DataFrame(schema=left.schema | right.schema | dict.fromkeys(NUMBERS, pl.Int64()))
        self._no_panes = self._no_pairs.select(*self._columns, _DIFF)
        self._check_where()
        self._matcher = Matcher(plan, self._sides)
        reads = [self.reads(edge) for edge in range(len(self.schemas))]
        tables = _Tables(self._sides)
        tracker = partial(restored_tracker, plan)
        self._saving = Saving(fingerprint(plan), self.schemas, reads, tracker, tables, plan.key)
        none = pl.DataFrame(
            schema=self._sided.schema | {c.TIME: pl.Int64(), c.REASON: pl.String(), c.DETAIL: pl.String()}
        )
        self._no_late = rows_out.late_rows(none.drop(c.REASON, c.DETAIL), watermark=0, now=0)
        self._no_dead = rows_out.dead_rows(none, watermark=0, now=0)

    def no_rows(self, edge: int = 0) -> pl.DataFrame:
        """A bundle without rows."""
        return pl.DataFrame(schema=self.schemas[edge])

    def reads(self, edge: int = 0) -> set[str]:
        """All columns: the joined rows show them."""
        return set(self.schemas[edge])

    def letter(self, reason: str, detail: str, edge: int = 0) -> pl.DataFrame:
        """A dead letter without a row, for a part of an input that cannot be read."""
        return blank_letter(self._sided, edge, reason, detail)

    def output_schemas(self) -> dict[str, dict[str, pl.DataType]]:
        """The columns of joined rows, late rows and dead letters."""
        return {
            "panes": dict(self._no_panes.schema),
            "late": dict(self._no_late.schema),
            "dead": dict(self._no_dead.schema),
        }

    def initial(self) -> State:
        """Nothing seen yet."""
        return State(fresh_tracker(self.plan), MIN, MIN, (EMPTY, EMPTY))

    def step(self, state: State, bundle: Bundle) -> Step[State]:
        """One bundle, stamped and absorbed at once."""
        stamps = [self.stamp(rows, bundle.now, state.watermark, edge) for edge, rows in enumerate(bundle.frames)]
        return self.absorb(state, stamps, bundle.now, notes=bundle.notes, polled=bundle.polled)

    def stamp(self, rows: pl.DataFrame, now: int, watermark: int, edge: int = 0) -> Stamp:
        """Time the rows of one side, and set aside what cannot be used. What is late is judged when they meet."""
        admitted = admit(self.plan.at(edge), rows, now)
        summary = self.plan.edges[edge].watermark.summarise(admitted.seen, c.TIME, now)
        dead = [self._sided.as_one(edge, letters) for letters in admitted.dead]
        return Stamp(
            rows.height, dead, summary, 0, Stamped(pl.DataFrame(), self._sides[edge].read(admitted.rows)), edge
        )

    def absorb(
        self,
        state: State,
        stamps: Sequence[Stamp],
        now: int,
        *,
        notes: Sequence[Note] = (),
        polled: bool = True,
    ) -> Step[State]:
        """A bundle's stamps, in order: the watermarks advance, rows meet, and those that none can meet any more go."""
        if now < state.now:
            raise errors.clock_went_back(format_instant(state.now), format_instant(now))
        stamps = without_repeats(
            self.plan, stamps, state.tracker, self._sided, column=self._column, as_one=self._as_came
        )
        tracker = advanced(state.tracker, [(stamp.edge, stamp.summary) for stamp in stamps], now, polled, notes)
        was, reached = _reached(state.tracker), _reached(tracker)
        new, late, position = [], [], state.position
        for edge, side in enumerate(self._sides):
            rows, behind = self._judged(edge, stamps, was[edge])
            late.append(behind)
            new.append(side.to_keep(rows, position))
            position += rows.height
        store, pairs, forgotten = self._met(state.store, new, was, reached)
        state = State(tracker, max(state.watermark, self._watermark(reached)), now, store, position)
        aside = self._late(late, was, now), self._dead(stamps, was, now)
        output = self._output(state, stamps, sum(rows.height for rows in new), *aside, pairs, reached)
        return Step(state, replace(output, counts=replace(output.counts, forgotten_keys=forgotten)))

    def next_deadline(self, state: State, lags: frozenset[int] = frozenset()) -> int | None:
        """The earliest batch time at which something can happen without rows."""
        lags = lags | clock_lags(self.plan)
        reached = _reached(state.tracker)
        tables = zip(self._sides, state.store, strict=True) if lags else ()
        return deadline(state, lags, dues=[table.next_due(reached[side.kept.by]) for side, table in tables])

    def lags(self, before: frozenset[int] = frozenset()) -> frozenset[int]:
        """Joined rows are promised as far behind the clock as rows of a side wait for partners."""
        lengths = [0, *(side.kept.length for side in self._sides if side.kept.length is not None)]
        return frozenset(lag + length for lag in before | clock_lags(self.plan) for length in lengths)

    def scan(self, state: State) -> list[pl.DataFrame]:
        """The rows that are kept, of the left side and of the right."""
        frames = [table.scan() for table in state.store]
        return [frame.drop(HASH) for frame in frames if frame is not None]

    def _check_where(self) -> None:
        where = self.plan.where
        if where is None:
            return
        for name in where.meta.root_names():
            if name not in self._columns:
                raise join_errors.where_unknown(name, self._columns)
        if not _of_one_pair(where):
            raise join_errors.where_of_many(where)
        found = self._no_pairs.select(where.alias("where")).schema["where"]
        if found != pl.Boolean:
            raise join_errors.where_not_boolean(found)

    def _column(self, edge: int, name: str) -> pl.Expr:
        return pl.col(self._sides[edge].name_of(name))

    def _as_came(self, edge: int, messages: pl.DataFrame) -> pl.DataFrame:
        return self._sided.as_one(edge, self._sides[edge].as_they_came(messages))

    def _judged(self, edge: int, stamps: Sequence[Stamp], was: int) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The rows of one side, and those of them that are late."""
        parts = [stamp.stamped.rows for stamp in stamps if stamp.edge == edge and stamp.stamped.rows.height]
        rows = pl.concat(parts) if parts else self._sides[edge].nothing
        late = is_late(rows[c.TIME], was)
        return (rows.filter(~late), rows.filter(late)) if late.any() else (rows, rows.clear())

    def _met(
        self, store: Store, new: Sequence[pl.DataFrame], was: Sequence[int], reached: Sequence[int]
    ) -> tuple[Store, list[pl.DataFrame], int]:
        """New rows meet those that are kept, and each other.

        Gives what is kept now, pairs and lone rows, and how many keys were forgotten.
        """
        meetings = Meetings()
        left, right = (side.with_key(rows) for side, rows in zip(self._sides, new, strict=True))
        met_right, _ = self._matcher.meet(LEFT, left, [store[RIGHT], EMPTY.put(right)], meetings)
        (met_left,) = self._matcher.meet(RIGHT, right, [store[LEFT]], meetings)
        tables, alone = [], []
        for side, fresh, places in zip(self._sides, (left, right), (met_left, met_right), strict=True):
            passed = was[side.kept.by], reached[side.kept.by]
            fresh = self._marked(side, fresh, meetings)
            table, gone = self._passed(side, store[side.edge], fresh, places, passed)
            tables.append(table)
            alone += side.alone([*gone, fresh], new[side.edge], passed[1])
        return (tables[LEFT], tables[RIGHT]), [*meetings.pairs, *alone], 0

    def _marked(self, side: Messages, fresh: pl.DataFrame, meetings: Meetings) -> pl.DataFrame:
        """New rows, with a mark on those that have met one."""
        if not side.pads or not fresh.height:
            return fresh
        return fresh.with_columns(pl.col(c.ROW).is_in(meetings.numbers(side.edge).implode()).alias(MET))

    def _passed(
        self, side: Messages, table: PaneTable, fresh: pl.DataFrame, places: Places, passed: tuple[int, int]
    ) -> tuple[PaneTable, list[pl.DataFrame]]:
        """The table with new rows, and without those that the watermark has passed: these have met none."""
        table, met = table.take_at(places)
        table, gone = table.take(_NO_HASHES, due=passed, clock=(MIN, MIN))
        if not met and not fresh.height:
            return table, gone
        back = [rows.with_columns(pl.lit(True).alias(MET)) for rows in met]
        return table.put(pl.concat([fresh, *back]).filter(pl.col(DUE) > passed[1])), gone

    def _told(self, pairs: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """Pairs and lone rows in the order in which their rows came, so that the same bundle gives the same bytes."""
        if not pairs:
            return self._no_panes
        rows = in_order(pl.concat([self._no_pairs, *pairs], how="diagonal"))
        return rows.select(*self._columns, _DIFF)

    def _late(self, late: Sequence[pl.DataFrame], was: Sequence[int], now: int) -> pl.DataFrame:
        parts = [self._no_late]
        for edge, rows in enumerate(late):
            if rows.height:
                sided = self._sided.as_one(edge, self._sides[edge].as_they_came(rows))
                parts.append(rows_out.late_rows(sided, watermark=was[edge], now=now))
        return pl.concat(parts)

    def _dead(self, stamps: Sequence[Stamp], was: Sequence[int], now: int) -> pl.DataFrame:
        letters = [(was[stamp.edge], letters) for stamp in stamps for letters in stamp.dead if letters.height]
        return pl.concat([self._no_dead, *(rows_out.dead_rows(one, watermark=w, now=now) for w, one in letters)])

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
        panes = self._told(pairs)
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
            watermark=state.watermark,
            promise=promises[self.plan.watermark.options.watermark_key],
            counts=counts,
            open_panes=sum(table.height for table in state.store),
            promises=promises,
        )

    def _watermark(self, reached: Sequence[int]) -> int:
        """What the left side has reached, and the right with it where their times mean the same."""
        left, right = (one.watermark.options.watermark_key for one in self.plan.edges)
        if left == right:
            return min(reached)
        # The end of the left side alone does not end the stream; its time stays where it was.
        return reached[LEFT] if reached[LEFT] < MAX or reached[RIGHT] == MAX else MIN

    def _promises(self, reached: Sequence[int]) -> dict[int, int]:
        """For each watermark key: no row will follow whose time, on a side with this key, is earlier."""
        promises: dict[int, int] = {}
        for edge, (one, side) in enumerate(zip(self.plan.edges, self._sides, strict=True)):
            limit = _before(reached[side.kept.by], side.kept.length)
            key = one.watermark.options.watermark_key
            promises[key] = min(promises.get(key, MAX), reached[edge], limit)
        return promises


class _Tables:
    """How the rows of both sides are written."""

    def __init__(self, sides: tuple[Messages, Messages]) -> None:
        self.forms = {name: PaneForm(side.found_by) for name, side in zip(_NAMES, sides, strict=True)}

    def tables(self, store: Store) -> tuple[dict[str, Any], int]:
        """Both."""
        return dict(zip(_NAMES, store, strict=True)), MIN

    def store(self, tables: Mapping[str, Any], clock: int) -> Store:
        """Both again."""
        return tables["left"], tables["right"]


def _reached(tracker: object) -> tuple[int, ...]:
    assert isinstance(tracker, Trackers)
    return tracker.reached


def _before(time: int, length: int | None) -> int:
    if time in (MIN, MAX):
        return time
    return MIN if length is None else time - length


def _of_one_pair(where: pl.Expr) -> bool:
    """Whether a condition looks at one pair at a time. What a function of the user's looks at cannot be known."""
    try:
        return where.meta.is_row_separable() and all(map(_of_one_pair, where.meta.pop()))
    except pl.exceptions.PolarsError:
        return True
