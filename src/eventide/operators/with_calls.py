"""Any operator behind calls to the world outside: rows are asked about when they are stamped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import polars as pl

from eventide.errors import state as errors
from eventide.operators import columns as c
from eventide.operators.admission import admit
from eventide.operators.bundle import Bundle, Stamp, Step
from eventide.operators.calling import Called, call, schema_after
from eventide.operators.inputs import Alike, Inputs, Sided, blank_letter
from eventide.operators.operator import StreamOperator
from eventide.operators.outcome import Stamped
from eventide.operators.saving import CALLS, WITH_CALLS, State
from eventide.plan.plan import IngestionTime, Input, Plan
from eventide.plan.process_plan import ProcessPlan
from eventide.state import snapshot
from eventide.state.paging import Ledger, Pages
from eventide.watermarks import Note
from eventide.windows import global_window


class WithCalls:
    """An operator whose rows are asked about first. It sees the rows with what the calls have added.

    Calls need no state: they are made where the source is read, once for each row of a bundle. What they gave is
    stamped and absorbed by the operator behind them where its state is.
    """

    def __init__(self, plan: Any, kind: Any, *schemas: Mapping[str, pl.DataType]) -> None:
        self.plan = plan
        self.schemas = tuple(dict(schema) for schema in schemas)
        self._after = [schema_after(one.calls, own) for one, own in zip(plan.edges, self.schemas, strict=True)]
        self.inner: StreamOperator = kind(plan, *self._after)
        self._inputs = inputs_behind(plan, tuple(self._after))

    @property
    def judges_when_stamping(self) -> bool:
        """Rows travel as they are, so lateness can wait; to judge them where it is not known would be to call twice."""
        return False

    @property
    def state_facts(self) -> Mapping[str, str]:
        """What a state in pages depends on, in words."""
        return self.inner.state_facts

    def no_rows(self, edge: int = 0) -> pl.DataFrame:
        """A bundle without rows."""
        return pl.DataFrame(schema=self.schemas[edge])

    def reads(self, edge: int = 0) -> set[str]:
        """All columns: only the function knows which it needs, and inputs that are alike keep the same."""
        return set(self.schemas[edge])

    def letter(self, reason: str, detail: str, edge: int = 0) -> pl.DataFrame:
        """A dead letter without a row, for a part of an input that cannot be read."""
        return blank_letter(self._inputs, edge, reason, detail)

    def output_schemas(self) -> dict[str, dict[str, pl.DataType]]:
        """The columns of panes, late rows and dead letters."""
        return self.inner.output_schemas()

    def initial(self) -> State:
        """Nothing seen yet."""
        return self.inner.initial()

    def step(self, state: State, bundle: Bundle) -> Step[State]:
        """One bundle, stamped and absorbed at once."""
        frames = enumerate(bundle.frames)
        stamps = [self.stamp(rows, bundle.now, state.watermark, edge) for edge, rows in frames]
        return self.absorb(state, stamps, bundle.now, notes=bundle.notes, polled=bundle.polled)

    def stamp(self, rows: pl.DataFrame, now: int, watermark: int, edge: int = 0) -> Stamp:
        """Ask about the rows; what counts behind are rows that the calls gave, and rows whose calls failed."""
        called = call(self.plan.edges[edge].calls, rows)
        dead = [self._letters(edge, called)] if called.failed.height else []
        stamped = Stamped(pl.DataFrame(), self._inputs.as_one(edge, called.rows))
        count = called.rows.height + called.failed.height
        return Stamp(count, dead, self._summary(edge, rows, called, now), 0, stamped, edge)

    def absorb(
        self,
        state: State,
        stamps: Sequence[Stamp],
        now: int,
        *,
        notes: Sequence[Note] = (),
        polled: bool = True,
    ) -> Step[State]:
        """A bundle's stamps, in order."""
        behind = [self._stamped(stamp, now, state.watermark) for stamp in stamps]
        return self.inner.absorb(state, behind, now, notes=notes, polled=polled)

    @property
    def hears_time(self) -> bool:
        """Whether every move of a watermark matters to it."""
        return self.inner.hears_time

    def next_deadline(self, state: State, lags: frozenset[int] = frozenset()) -> int | None:
        """That of the operator behind the calls: these are made while rows are stamped."""
        return self.inner.next_deadline(state, lags)

    def lags(self, before: frozenset[int] = frozenset()) -> frozenset[int]:
        """The distances at which the operator's own promises follow the clock."""
        return self.inner.lags(before)

    def save(self, state: State) -> bytes:
        """The state as bytes, with the columns of the rows as they come."""
        rows = [pl.DataFrame(schema=schema) for schema in self.schemas]
        inner = pl.Series("state", [self.inner.save(state)], pl.Binary)
        return snapshot.dump({"kind": WITH_CALLS, "rows": rows, "inner": inner})

    @classmethod
    def load(cls, plan: Any, kind: Any, saved: bytes) -> tuple[Self, State]:
        """The operator and the state that were saved."""
        content = snapshot.load(saved)
        if CALLS in content:
            raise errors.spanning_changed(added=False)
        if content.get("kind") == "whole":
            raise errors.calls_changed(added=True)
        if content.get("kind") != WITH_CALLS:
            raise errors.not_whole()
        operator = cls(plan, kind, *(frame.schema for frame in content["rows"]))
        operator.inner, state = kind.load(plan, content["inner"][0])
        return operator, state

    def write(self, state: State, pages: Pages, ledger: Ledger | None) -> tuple[bytes, Ledger]:
        """Put what is new since ``ledger`` into pages; gives the head and the new ledger."""
        return self.inner.write(state, pages, ledger)

    def read(self, head: bytes, pages: Pages, near: tuple[State, Ledger] | None = None) -> tuple[State, Ledger]:
        """The state that was written."""
        return self.inner.read(head, pages, near)

    def let_go(self, state: State, ledger: Ledger, *, keep: int = 0) -> State:
        """The state with about ``keep`` bytes in memory of what can be fetched again."""
        return self.inner.let_go(state, ledger, keep=keep)

    def sizes(self, state: State, ledger: Ledger | None = None) -> dict[str, int]:
        """How large the state is."""
        return self.inner.sizes(state, ledger)

    def scan(self, state: State) -> list[pl.DataFrame]:
        """What rests in state, for inspection."""
        return self.inner.scan(state)

    def _stamped(self, stamp: Stamp, now: int, watermark: int) -> Stamp:
        """What the operator behind the calls makes of the rows; the progress is that of all rows of the task."""
        rows = stamp.stamped.rows
        if isinstance(self._inputs, Sided):
            rows = rows.select(pl.col(self.plan.edges[stamp.edge].name).struct.unnest())
        inner = self.inner.stamp(rows, now, watermark, stamp.edge)
        failed = sum(letters.height for letters in stamp.dead)
        return replace(inner, rows=inner.rows + failed, dead=[*inner.dead, *stamp.dead], summary=stamp.summary)

    def _summary(self, edge: int, rows: pl.DataFrame, called: Called, now: int) -> pl.DataFrame:
        """What is seen of the watermark: of rows as they come where they tell it, so that none is missing."""
        own: Input = self.plan.edges[edge]
        named = own_time_columns(own, self.schemas[edge])
        given = {name for one in own.calls for name in one.output}
        tell = named <= set(self.schemas[edge]) and not named & given
        seen = admit(without_windows(self.plan.at(edge)), rows if tell else called.rows, now).seen
        return own.watermark.summarise(seen, c.TIME, now)

    def _letters(self, edge: int, called: Called) -> pl.DataFrame:
        """Rows whose calls failed, as the operator's dead letters look."""
        return self._inputs.as_one(edge, failed_letters(called))


def failed_letters(called: Called) -> pl.DataFrame:
    """Rows whose calls failed, with the reason."""
    return called.failed.with_columns(
        pl.lit(None, pl.Int64).alias(c.TIME),
        pl.lit("failed").alias(c.REASON),
        pl.Series(c.DETAIL, called.why, pl.String),
    )


def inputs_behind(plan: Any, schemas: tuple[dict[str, pl.DataType], ...]) -> Inputs:
    """The inputs of a plan as they are behind calls."""
    alike = isinstance(plan, (Plan, ProcessPlan)) and plan.sides is None
    return (Alike if alike else Sided)(plan, schemas)


def own_time_columns(own: Input, schema: Mapping[str, pl.DataType]) -> set[str]:
    """The columns that the time and the watermark of an input are read from."""
    named = set(own.watermark.columns())
    if not isinstance(own.time, IngestionTime):
        named.add(own.time if own.time in schema else own.time.partition(".")[0])
    return named


def without_windows(plan: Any) -> Any:
    """The plan as far as it reads the time: a window may need a column that only the calls give."""
    return replace(plan, window=global_window()) if isinstance(plan, Plan) else plan
