"""An operator behind async calls: the columns that calls add to rows, and the rows whose calls failed.

Calls are made when rows are stamped. A bundle is applied when all of its calls are answered, so the watermark stays
behind their results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import polars as pl

from eventide import _columns as c
from eventide.errors import DataError, cause_text
from eventide.operators.admission import admit
from eventide.operators.async_calls import Answer, Failure, call_rows
from eventide.operators.inputs import Inputs, JoinInputs, UnionInputs
from eventide.operators.operator import BoundOperator, Stamp, Step, StreamOperator
from eventide.operators.window_logic import Stamped
from eventide.plan.async_call import AsyncMap, AsyncOptions
from eventide.plan.plan import IngestionTime, Input, Plan
from eventide.plan.process_plan import ProcessPlan
from eventide.plan.window_plan import WindowPlan
from eventide.processors.declared_columns import fitting_rows
from eventide.state import format as snapshot
from eventide.state.errors import calls_changed, not_whole, spanning_changed
from eventide.state.operator_state import CALLS, WITH_CALLS, State
from eventide.state.pages import Manifest, PageStore
from eventide.time import format_duration
from eventide.watermarks import Note
from eventide.windows import global_window


@dataclass(frozen=True)
class Called:
    """The rows after their calls, the rows whose calls failed, and the reason of each failure."""

    rows: pl.DataFrame
    failed: pl.DataFrame
    why: Sequence[str] = ()


def call(calls: Sequence[AsyncMap], rows: pl.DataFrame) -> Called:
    """Make one call after the other; rows that fail in one are not passed to the next."""
    schema = schema_after(calls, rows.schema)
    if rows.is_empty():
        return Called(pl.DataFrame(schema=schema), pl.DataFrame(schema=schema))
    failed: list[pl.DataFrame] = []
    why: list[str] = []
    for call_map in calls:
        answers = call_rows(call_map.fn, rows.to_dicts(), call_map.options)
        if call_map.options.ordered:
            answers.sort(key=lambda answer: answer[0])
        done = with_answers(call_map, rows, answers)
        rows = done.rows
        failed.append(done.failed)
        why += done.why
    return Called(rows, pl.concat([pl.DataFrame(schema=schema), *failed], how="diagonal"), why)


def schema_after(calls: Sequence[AsyncMap], schema: Mapping[str, pl.DataType]) -> dict[str, pl.DataType]:
    """The columns of rows after the calls."""
    for call in calls:
        schema = call.schema_after(schema)
    return dict(schema)


def with_answers(call: AsyncMap, rows: pl.DataFrame, answers_by_row: Sequence[tuple[int, Answer]]) -> Called:
    """The rows that answers make, in their order. Each answer has the place of its row."""
    answers, failures = _read(call, answers_by_row)
    places = [place for place, _ in answers]

    def misfit(number: int, cause: Exception) -> None:
        failures[places[number]] = _answer_unfit(call.name, cause)

    columns, good = fitting_rows([answer for _, answer in answers], call.output, misfit)
    # A row of whose several answers one does not fit has failed as a whole.
    fitting = [number for number in range(len(good)) if places[good[number]] not in failures]
    columns, places = _at(columns, fitting), [places[good[number]] for number in fitting]
    before = _at(rows, places)
    named = [
        pl.Series(name, [name in answers[good[number]][1] for number in fitting], pl.Boolean) for name in call.output
    ]
    merged = [
        column if column.name not in rows.columns else column.zip_with(is_given, before[column.name])
        for column, is_given in zip(columns.get_columns(), named, strict=True)
    ]
    lost = sorted(failures)
    return Called(before.with_columns(merged), _at(rows, lost), [failures[place] for place in lost])


def _read(
    call: AsyncMap, answers_by_row: Sequence[tuple[int, Answer]]
) -> tuple[list[tuple[int, Mapping[str, Any]]], dict[int, str]]:
    """The rows that calls have returned, each with the place of its row, and why other calls failed."""
    answers: list[tuple[int, Mapping[str, Any]]] = []
    failures: dict[int, str] = {}
    for place, answer in answers_by_row:
        if isinstance(answer, Failure):
            failures[place] = _call_failed(call.name, answer.attempts, answer.error, _timeout(call.options))
            continue
        try:
            answers += [(place, row) for row in _listed(answer.value)]
        except Exception as cause:
            failures[place] = _answer_unfit(call.name, cause)
    return answers, failures


def _listed(value: Any) -> list[Mapping[str, Any]]:
    if value is None:
        return []
    answers = value if isinstance(value, list) else [value]
    for answer in answers:
        if not isinstance(answer, Mapping):
            raise DataError(f"it returned {type(answer).__name__}, not a dict, a list of dicts, or None")
    return answers


def _at(rows: pl.DataFrame, places: Sequence[int]) -> pl.DataFrame:
    return rows[np.array(places, np.int64)]


def _timeout(options: AsyncOptions) -> str | None:
    return None if options.timeout is None else format_duration(options.timeout)


@dataclass(frozen=True)
class OperatorKind:
    """How the operator of a plan is created from the schemas of its inputs, and loaded from a saved state."""

    create: Callable[..., StreamOperator]
    load: Callable[[bytes], tuple[StreamOperator, State]]


class AsyncMapOperator(BoundOperator):
    """Makes the calls of each row, and passes rows with the columns of the answers to an inner operator.

    Calls need no state: they are made where the source is read, once for each row of a bundle. The operator behind
    them stamps and applies the results where its state is.
    """

    def __init__(self, plan: Plan, kind: OperatorKind, *schemas: Mapping[str, pl.DataType]) -> None:
        self.plan = plan
        self.schemas = tuple(dict(schema) for schema in schemas)
        self._after = [
            schema_after(source.calls, schema) for source, schema in zip(plan.edges, self.schemas, strict=True)
        ]
        self.inner = kind.create(*self._after)
        self._inputs = inputs_behind(plan, tuple(self._after))

    @property
    def state_facts(self) -> Mapping[str, str]:
        return self.inner.state_facts

    def output_schemas(self) -> dict[str, dict[str, pl.DataType]]:
        return self.inner.output_schemas()

    def initial(self) -> State:
        return self.inner.initial()

    def stamp(self, rows: pl.DataFrame, now: int, watermark: int, edge: int = 0) -> Stamp:
        """Make the calls of the rows. The stamp counts the rows that they return, and those whose calls failed."""
        called = call(self.plan.edges[edge].calls, rows)
        dead = [self._letters(edge, called)] if called.failed.height else []
        stamped = Stamped(pl.DataFrame(), self._inputs.widen(edge, called.rows))
        count = called.rows.height + called.failed.height
        return Stamp(count, dead, self._summary(edge, rows, called, now), 0, stamped, edge)

    def apply(
        self, state: State, stamps: Sequence[Stamp], now: int, *, notes: Sequence[Note] = (), polled: bool = True
    ) -> Step[State]:
        """A bundle's stamps, in order."""
        stamped = [self._stamped(stamp, now, state.watermark) for stamp in stamps]
        return self.inner.apply(state, stamped, now, notes=notes, polled=polled)

    @property
    def hears_time(self) -> bool:
        return self.inner.hears_time

    def next_deadline(self, state: State, lags: frozenset[int] = frozenset()) -> int | None:
        """The deadline of the inner operator: calls are made while rows are stamped, and have no deadline."""
        return self.inner.next_deadline(state, lags)

    def lags(self, before: frozenset[int] = frozenset()) -> frozenset[int]:
        return self.inner.lags(before)

    def save(self, state: State) -> bytes:
        """The state as bytes, with the columns of the rows on arrival."""
        rows = [pl.DataFrame(schema=schema) for schema in self.schemas]
        inner = pl.Series("state", [self.inner.save(state)], pl.Binary)
        return snapshot.dump({"kind": WITH_CALLS, "rows": rows, "inner": inner})

    @classmethod
    def load(cls, plan: Plan, kind: OperatorKind, saved: bytes) -> tuple[Self, State]:
        """The operator and the state that were saved."""
        content = snapshot.load(saved)
        if CALLS in content:
            raise spanning_changed(added=False)
        if content.get("kind") == "whole":
            raise calls_changed(added=True)
        if content.get("kind") != WITH_CALLS:
            raise not_whole()
        operator = cls(plan, kind, *(frame.schema for frame in content["rows"]))
        operator.inner, state = kind.load(content["inner"][0])
        return operator, state

    def write(self, state: State, pages: PageStore, manifest: Manifest | None) -> tuple[bytes, Manifest]:
        return self.inner.write(state, pages, manifest)

    def read(
        self, header: bytes, pages: PageStore, cached: tuple[State, Manifest] | None = None
    ) -> tuple[State, Manifest]:
        return self.inner.read(header, pages, cached)

    def evict(self, state: State, manifest: Manifest, *, keep: int = 0) -> State:
        return self.inner.evict(state, manifest, keep=keep)

    def sizes(self, state: State, manifest: Manifest | None = None) -> dict[str, int]:
        return self.inner.sizes(state, manifest)

    def scan(self, state: State) -> list[pl.DataFrame]:
        return self.inner.scan(state)

    def _stamped(self, stamp: Stamp, now: int, watermark: int) -> Stamp:
        """The stamp of the inner operator, with the progress of all rows of the task."""
        rows = stamp.stamped.rows
        if isinstance(self._inputs, JoinInputs):
            rows = rows.select(pl.col(self.plan.edges[stamp.edge].name).struct.unnest())
        inner = self.inner.stamp(rows, now, watermark, stamp.edge)
        failed = sum(letters.height for letters in stamp.dead)
        return replace(inner, rows=inner.rows + failed, dead=[*inner.dead, *stamp.dead], summary=stamp.summary)

    def _summary(self, edge: int, rows: pl.DataFrame, called: Called, now: int) -> pl.DataFrame:
        """The progress of the source: of the rows before their calls, where these have the time."""
        source: Input = self.plan.edges[edge]
        named = own_time_columns(source, self.schemas[edge])
        computed = {name for call in source.calls for name in call.output}
        reads_rows = named <= set(self.schemas[edge]) and not named & computed
        seen = admit(without_windows(self.plan.at(edge)), rows if reads_rows else called.rows, now).seen
        return source.watermark.summarise(seen, c.TIME, now)

    def _letters(self, edge: int, called: Called) -> pl.DataFrame:
        """Rows whose calls failed, with the columns of the operator's dead letters."""
        return self._inputs.widen(edge, failed_letters(called))


def failed_letters(called: Called) -> pl.DataFrame:
    """Rows whose calls failed, with the reason."""
    return called.failed.with_columns(
        pl.lit(None, pl.Int64).alias(c.TIME),
        pl.lit("failed").alias(c.REASON),
        pl.Series(c.DETAIL, called.why, pl.String),
    )


def inputs_behind(plan: Plan, schemas: tuple[dict[str, pl.DataType], ...]) -> Inputs:
    """The inputs of a plan as they are after the calls."""
    alike = isinstance(plan, (WindowPlan, ProcessPlan)) and plan.sides is None
    return (UnionInputs if alike else JoinInputs)(plan, schemas)


def own_time_columns(source: Input, schema: Mapping[str, pl.DataType]) -> set[str]:
    """The columns that the time and the watermark of an input are read from."""
    named = set(source.watermark.columns())
    if not isinstance(source.time, IngestionTime):
        named.add(source.time if source.time in schema else source.time.partition(".")[0])
    return named


def without_windows(plan: Plan) -> Plan:
    """The plan as far as it reads the time: a window may need a column that only the calls give."""
    return replace(plan, window=global_window()) if isinstance(plan, WindowPlan) else plan


def _call_failed(function: str, attempts: int, cause: BaseException, timeout: str | None) -> str:
    """Why a row is a dead letter, in one line.

    >>> _call_failed("look_up", 3, KeyError("shop"), None)
    "KeyError: 'shop' (in look_up, attempt 3)"
    """
    late = isinstance(cause, TimeoutError) and timeout is not None and not str(cause)
    reason = f"no answer within {timeout}" if late else cause_text(cause)
    return f"{reason} (in {function}, attempt {attempts})"


def _answer_unfit(function: str, cause: BaseException) -> str:
    """Why the answer to a call makes its row a dead letter, in one line."""
    return f"{cause} (in {function})"
