"""The inputs of an operator: one stream, a union, or sides whose rows differ.

Behind them all rows have the same columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import polars as pl

from eventide import _columns as c
from eventide.errors import PlanError
from eventide.operators.admission import Admitted, admit, dead_letters
from eventide.panes import INPUT
from eventide.plan.errors import key_is_a_side
from eventide.plan.plan import Plan
from eventide.plan.process_plan import ProcessPlan
from eventide.plan.window_plan import WindowPlan
from eventide.watermarks import AnyTracker, InputTracker, OperatorTracker, Reached, Strategy

Schema = Mapping[str, pl.DataType]


class Inputs(Protocol):
    """The rows of all inputs, as the operator sees them."""

    @property
    def schemas(self) -> tuple[dict[str, pl.DataType], ...]:
        """The columns of the rows on arrival, per input."""
        ...

    @property
    def schema(self) -> dict[str, pl.DataType]:
        """The columns of rows as the operator receives them."""
        ...

    def admit(self, edge: int, rows: pl.DataFrame, now: int) -> Admitted:
        """Time the rows of one input, and set aside what cannot be used."""
        ...

    def widen(self, edge: int, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows of one input as rows of all."""
        ...

    def column(self, edge: int, name: str) -> pl.Expr:
        """A column of one input's rows, once they are admitted."""
        ...


@dataclass(frozen=True)
class UnionInputs:
    """One stream, or a union: rows with the same columns, whose order may differ."""

    plan: Plan
    schemas: tuple[dict[str, pl.DataType], ...]

    def __post_init__(self) -> None:
        names = [source.name for source in self.plan.edges]
        for name, schema in zip(names[1:], self.schemas[1:], strict=True):
            for column in dict.fromkeys((*self.schema, *schema)):
                if schema.get(column) != self.schema.get(column):
                    dtype, first = schema.get(column, "nothing"), self.schema.get(column, "nothing")
                    raise PlanError(
                        f"union: input {name!r} has {dtype} for column {column!r}, the first input has {first}. "
                        "Select the same columns with the same types on every input."
                    )

    @property
    def schema(self) -> dict[str, pl.DataType]:
        """The columns of the first."""
        return self.schemas[0]

    def admit(self, edge: int, rows: pl.DataFrame, now: int) -> Admitted:
        """Time the rows of one input."""
        return admit(self.plan.at(edge), rows.select(*self.schema) if edge else rows, now)

    def widen(self, edge: int, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows of a union are alike."""
        return rows

    def column(self, edge: int, name: str) -> pl.Expr:
        """The column itself."""
        return pl.col(name)


@dataclass(frozen=True)
class JoinInputs:
    """Sides whose rows differ: each row is its key, and a struct under the name of its input."""

    plan: Plan
    schemas: tuple[dict[str, pl.DataType], ...]

    def __post_init__(self) -> None:
        taken = {INPUT, *(source.name for source in self.plan.edges)}
        for name in self.plan.key:
            if name in taken:
                raise key_is_a_side(name)
        check_keys(self.plan, self.schemas)

    @property
    def schema(self) -> dict[str, pl.DataType]:
        """The key, the name of the side, and a struct for each side."""
        key = {
            name: self.schemas[0][column] for name, column in zip(self.plan.key, self.plan.edges[0].key, strict=True)
        }
        named = zip(self.plan.edges, self.schemas, strict=True)
        return key | {INPUT: pl.String()} | {source.name: pl.Struct(schema) for source, schema in named}

    def admit(self, edge: int, rows: pl.DataFrame, now: int) -> Admitted:
        """Time the rows of one input, then make them look like those of all."""
        admitted = admit(self.plan.at(edge), rows, now)
        seen = admitted.seen  # the watermark reads the columns of the input
        dead = [self.widen(edge, letters) for letters in admitted.dead]
        return Admitted(self.widen(edge, admitted.rows), seen, dead, admitted.earliest)

    def column(self, edge: int, name: str) -> pl.Expr:
        """The column inside the struct of its side."""
        return pl.col(self.plan.edges[edge].name).struct.field(name)

    def widen(self, edge: int, rows: pl.DataFrame) -> pl.DataFrame:
        """Convert rows of one input to the common schema; internal columns are kept."""
        side = self.plan.edges[edge]
        key = [pl.col(theirs).alias(name) for name, theirs in zip(self.plan.key, side.key, strict=True)]
        structs: list[pl.Expr] = [
            pl.struct(*schema).alias(side.name) if i == edge else pl.lit(None, pl.Struct(schema)).alias(source.name)
            for i, (source, schema) in enumerate(zip(self.plan.edges, self.schemas, strict=True))
        ]
        ours = [name for name in rows.columns if name.startswith("__")]
        return rows.select(*key, pl.lit(side.name).alias(INPUT), *structs, *ours)


def inputs_of(plan: WindowPlan | ProcessPlan, schemas: Sequence[Schema]) -> Inputs:
    """The inputs of a plan."""
    known = tuple(dict(schema) for schema in schemas)
    return UnionInputs(plan, known) if plan.sides is None else JoinInputs(plan, known)


def blank_letter(inputs: Inputs, edge: int, reason: str, detail: str) -> pl.DataFrame:
    """A dead letter without a row, for a part of an input that cannot be read: its columns are null."""
    row = pl.DataFrame([pl.Series(name, [None], dtype) for name, dtype in inputs.schemas[edge].items()])
    return inputs.widen(edge, dead_letters(row.with_columns(pl.lit(None, pl.Int64).alias(c.TIME)), reason, detail))


def check_keys(plan: Plan, schemas: Sequence[Schema]) -> None:
    """Reject keys whose types differ: equal values would never match."""
    first, *others = zip(plan.edges, schemas, strict=True)
    for source, schema in others:
        for ours, theirs in zip(first[0].key, source.key, strict=True):
            if ours in first[1] and theirs in schema and first[1][ours] != schema[theirs]:
                raise PlanError(
                    f"the key {ours!r} of {first[0].name!r} is {first[1][ours]}, but {theirs!r} of "
                    f"{source.name!r} is {schema[theirs]}: equal values would never "
                    "meet. Cast one of them."
                )


def fresh_tracker(plan: Plan) -> AnyTracker:
    """A new tracker of the watermark of one input, or of several."""
    return InputTracker(plan.watermark) if not plan.inputs else OperatorTracker(_strategies(plan), key=_key(plan))


def restored_tracker(plan: Plan, snapshot: dict[str, Any]) -> AnyTracker:
    """The tracker of a saved state."""
    if not plan.inputs:
        return InputTracker.restore(plan.watermark, snapshot)
    return OperatorTracker.restore(_strategies(plan), snapshot, key=_key(plan))


def advanced(
    tracker: AnyTracker, summaries: Sequence[tuple[int, pl.DataFrame]], now: int, polled: bool, notes: Any
) -> AnyTracker:
    """A copy of the tracker, advanced by the summaries of a bundle, or at what a tracker elsewhere has reached."""
    for note in notes:
        if isinstance(note, Reached):
            return tracker.at(note.content)
    tracker = tracker.copy()
    if isinstance(tracker, InputTracker):
        frames = [summary for _, summary in summaries]
        tracker.advance(frames[0] if len(frames) == 1 else pl.concat(frames), now, polled=polled, notes=notes)
        return tracker
    nothing = summaries[0][1].clear()
    by_input: list[list[pl.DataFrame]] = [[nothing] for _ in tracker.names]
    for edge, summary in summaries:
        by_input[edge].append(summary)
    tracker.advance([pl.concat(frames) for frames in by_input], now, polled=polled, notes=notes)
    return tracker


def _strategies(plan: Plan) -> dict[str, Strategy]:
    return {source.name: source.watermark for source in plan.inputs}


def _key(plan: Plan) -> int:
    key: int = plan.watermark.options.watermark_key
    return key
