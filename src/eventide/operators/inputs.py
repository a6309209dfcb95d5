"""Where an operator's rows come from: one stream, several that are alike, or sides whose rows differ.

Behind this module all rows look the same, whatever input they came on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import polars as pl

from eventide.aggregates.merge_inputs import SIDE
from eventide.errors import joins as errors
from eventide.errors import watermarks as watermark_errors
from eventide.operators import columns as c
from eventide.operators.admission import Admitted, admit, dead_letters
from eventide.watermarks import AnyTracker, Strategy, Tracker, Trackers

Schema = Mapping[str, pl.DataType]


class Inputs(Protocol):
    """The rows of all inputs, as the operator sees them."""

    @property
    def schemas(self) -> tuple[dict[str, pl.DataType], ...]:
        """The columns of the rows as they come, input by input."""
        ...

    @property
    def schema(self) -> dict[str, pl.DataType]:
        """The columns behind the inputs."""
        ...

    def admit(self, edge: int, rows: pl.DataFrame, now: int) -> Admitted:
        """Time the rows of one input, and set aside what cannot be used."""
        ...

    def as_one(self, edge: int, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows of one input as rows of all."""
        ...

    def column(self, edge: int, name: str) -> pl.Expr:
        """A column of one input's rows, once they are admitted."""
        ...


@dataclass(frozen=True)
class Alike:
    """One stream, or a union: rows with the same columns, whose order may differ."""

    plan: Any
    schemas: tuple[dict[str, pl.DataType], ...]

    def __post_init__(self) -> None:
        names = [one.name for one in self.plan.edges]
        for name, schema in zip(names[1:], self.schemas[1:], strict=True):
            for column in dict.fromkeys((*self.schema, *schema)):
                if schema.get(column) != self.schema.get(column):
                    found, wanted = schema.get(column, "nothing"), self.schema.get(column, "nothing")
                    raise watermark_errors.unequal_inputs(name, column, found, wanted)

    @property
    def schema(self) -> dict[str, pl.DataType]:
        """The columns of the first."""
        return self.schemas[0]

    def admit(self, edge: int, rows: pl.DataFrame, now: int) -> Admitted:
        """Time the rows of one input."""
        return admit(self.plan.at(edge), rows.select(*self.schema) if edge else rows, now)

    def as_one(self, edge: int, rows: pl.DataFrame) -> pl.DataFrame:
        """They are alike."""
        return rows

    def column(self, edge: int, name: str) -> pl.Expr:
        """The column itself."""
        return pl.col(name)


@dataclass(frozen=True)
class Sided:
    """Sides whose rows differ: each row is a struct under the name of its input, and beside it stands its key."""

    plan: Any
    schemas: tuple[dict[str, pl.DataType], ...]

    def __post_init__(self) -> None:
        taken = {SIDE, *(one.name for one in self.plan.edges)}
        for name in self.plan.key:
            if name in taken:
                raise errors.key_is_a_side(name)
        check_keys(self.plan, self.schemas)

    @property
    def schema(self) -> dict[str, pl.DataType]:
        """The key, the name of the side, and a struct for each side."""
        key = {name: self.schemas[0][own] for name, own in zip(self.plan.key, self.plan.edges[0].key, strict=True)}
        named = zip(self.plan.edges, self.schemas, strict=True)
        return key | {SIDE: pl.String()} | {one.name: pl.Struct(schema) for one, schema in named}

    def admit(self, edge: int, rows: pl.DataFrame, now: int) -> Admitted:
        """Time the rows of one input, then make them look like those of all."""
        admitted = admit(self.plan.at(edge), rows, now)
        seen = admitted.seen  # as it came: the watermark reads the input's own columns
        dead = [self.as_one(edge, letters) for letters in admitted.dead]
        return Admitted(self.as_one(edge, admitted.rows), seen, dead, admitted.earliest)

    def column(self, edge: int, name: str) -> pl.Expr:
        """The column inside the struct of its side."""
        return pl.col(self.plan.edges[edge].name).struct.field(name)

    def as_one(self, edge: int, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows of one input as rows of all; Eventide's own columns stay beside them."""
        own = self.plan.edges[edge]
        key = [pl.col(theirs).alias(name) for name, theirs in zip(self.plan.key, own.key, strict=True)]
        structs: list[pl.Expr] = [
            pl.struct(*schema).alias(own.name) if i == edge else pl.lit(None, pl.Struct(schema)).alias(one.name)
            for i, (one, schema) in enumerate(zip(self.plan.edges, self.schemas, strict=True))
        ]
        ours = [name for name in rows.columns if name.startswith("__")]
        return rows.select(*key, pl.lit(own.name).alias(SIDE), *structs, *ours)


def inputs_of(plan: Any, schemas: Sequence[Schema]) -> Inputs:
    """The inputs of a plan."""
    known = tuple(dict(schema) for schema in schemas)
    return Alike(plan, known) if plan.sides is None else Sided(plan, known)


def blank_letter(inputs: Inputs, edge: int, reason: str, detail: str) -> pl.DataFrame:
    """A dead letter without a row, for a part of an input that cannot be read: its columns are null."""
    row = pl.DataFrame([pl.Series(name, [None], dtype) for name, dtype in inputs.schemas[edge].items()])
    return inputs.as_one(edge, dead_letters(row.with_columns(pl.lit(None, pl.Int64).alias(c.TIME)), reason, detail))


def check_keys(plan: Any, schemas: Sequence[Schema]) -> None:
    """Refuse keys whose types differ: equal values would not be found."""
    first, *others = zip(plan.edges, schemas, strict=True)
    for one, schema in others:
        for ours, theirs in zip(first[0].key, one.key, strict=True):
            if ours in first[1] and theirs in schema and first[1][ours] != schema[theirs]:
                raise errors.unequal_keys(first[0].name, ours, first[1][ours], one.name, theirs, schema[theirs])


def fresh_tracker(plan: Any) -> AnyTracker:
    """What follows the watermark of one input, or of several."""
    return Tracker(plan.watermark) if not plan.inputs else Trackers(_strategies(plan), key=_key(plan))


def restored_tracker(plan: Any, snapshot: dict[str, Any]) -> AnyTracker:
    """The same, as it was saved."""
    if not plan.inputs:
        return Tracker.restore(plan.watermark, snapshot)
    return Trackers.restore(_strategies(plan), snapshot, key=_key(plan))


def advanced(
    tracker: AnyTracker, summaries: Sequence[tuple[int, pl.DataFrame]], now: int, polled: bool, notes: Any
) -> AnyTracker:
    """A copy that has taken in what the parts of a bundle saw of each input."""
    tracker = tracker.copy()
    if isinstance(tracker, Tracker):
        frames = [summary for _, summary in summaries]
        tracker.advance(frames[0] if len(frames) == 1 else pl.concat(frames), now, polled=polled, notes=notes)
        return tracker
    nothing = summaries[0][1].clear()
    by_input: list[list[pl.DataFrame]] = [[nothing] for _ in tracker.names]
    for edge, summary in summaries:
        by_input[edge].append(summary)
    tracker.advance([pl.concat(frames) for frames in by_input], now, polled=polled, notes=notes)
    return tracker


def _strategies(plan: Any) -> dict[str, Strategy]:
    return {one.name: one.watermark for one in plan.inputs}


def _key(plan: Any) -> int:
    key: int = plan.watermark.options.watermark_key
    return key
