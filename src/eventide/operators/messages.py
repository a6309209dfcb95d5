"""The rows of one side of a join, as they rest in state: found by key and time, until no partner can come any more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from eventide.operators import columns as c
from eventide.plan.join_plan import LEFT, JoinPlan
from eventide.state.panes import CLOCK, DUE, HASH, hashes
from eventide.time import MAX

NUMBERS = ("__left", "__right")  # of the rows that a pair is made of, in the order in which they came
MET = "__met"  # the row has had a partner; only where its side is padded


class Messages:
    """One side: its rows with the key under the left side's names, and other columns as the joined rows call them."""

    def __init__(
        self, plan: JoinPlan, edge: int, columns: Mapping[str, str], schema: Mapping[str, pl.DataType]
    ) -> None:
        self.edge = edge
        self.key = plan.key
        self.values = list(columns.values())
        self.pads = plan.pads(edge)
        self.kept = plan.kept[edge]
        self.found_by = (*plan.key, c.SLICE)
        self._slice = plan.slice
        # How far the time of a partner may lie from the row's own.
        self.reach = (plan.lo, plan.hi) if edge == LEFT else (_less(plan.hi), _less(plan.lo))
        self._names = dict(zip(plan.key, plan.inputs[edge].key, strict=True)) | {
            new: own for own, new in columns.items()
        }
        self._floats = [name for name in plan.key if schema[self._names[name]].is_float()]
        self.schema = {new: schema[own] for new, own in self._names.items()}
        self.nothing = pl.DataFrame(schema=self.schema | {c.TIME: pl.Int64()})
        self._none_to_keep = self._to_keep(self.nothing, 0)

    def read(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Admitted rows as messages; -0.0 in a key is 0.0, as Spark joins them."""
        messages = rows.select(*(pl.col(own).alias(new) for new, own in self._names.items()), c.TIME)
        keys = [pl.col(name) for name in self._floats]
        zeros = [pl.when(key == 0).then(key.abs()).otherwise(key) for key in keys]
        return messages.with_columns(zeros) if zeros else messages

    def name_of(self, column: str) -> str:
        """What messages call a column of the input."""
        return next(new for new, own in self._names.items() if own == column)

    def as_they_came(self, messages: pl.DataFrame) -> pl.DataFrame:
        """With the input's own names."""
        return messages.select(*(pl.col(new).alias(own) for new, own in self._names.items()), c.TIME)

    def to_keep(self, messages: pl.DataFrame, first: int) -> pl.DataFrame:
        """With what state needs to know of them: their number, where they are found, when they are due to go."""
        return self._to_keep(messages, first) if messages.height else self._none_to_keep

    def _to_keep(self, messages: pl.DataFrame, first: int) -> pl.DataFrame:
        messages = messages.with_columns(
            pl.int_range(first, first + pl.len()).alias(c.ROW),
            (pl.lit(0, pl.Int64) if self._slice is None else pl.col(c.TIME).floordiv(self._slice)).alias(c.SLICE),
            *([pl.lit(False).alias(MET)] if self.pads else []),
        )
        return messages.with_columns(
            hashes(messages, self.found_by).alias(HASH),
            self._due().alias(DUE),
            pl.lit(None, pl.Int64).alias(CLOCK),
        )

    def with_key(self, messages: pl.DataFrame) -> pl.DataFrame:
        """Those that can have a partner: a null equals nothing."""
        return messages.drop_nulls(list(self.key))

    def alone(self, gone: Sequence[pl.DataFrame], new: pl.DataFrame, reached: int) -> list[pl.DataFrame]:
        """What is told without a partner: of those that are due by now, and of new ones that can have none."""
        if not self.pads:
            return []
        unmet = [rows.filter(~pl.col(MET), pl.col(DUE) <= reached) for rows in gone if rows.height]
        keyless = new.filter(pl.any_horizontal(pl.col(self.key).is_null())) if new.height else new
        number = pl.col(c.ROW).alias(NUMBERS[self.edge])
        return [rows.select(*self.key, *self.values, number) for rows in (*unmet, keyless) if rows.height]

    def questions(self, messages: pl.DataFrame) -> pl.DataFrame:
        """Where partners of these may lie: the place of the row, the slice, and the hash to look up, ordered by it."""
        lo, hi = self.reach
        numbered = messages.select(*self.key, pl.int_range(pl.len()).alias(c.ROW), c.TIME)
        if self._slice is None or lo is None or hi is None:
            asked = numbered.with_columns(pl.lit(0, pl.Int64).alias(c.SLICE))
        else:
            first, last = (pl.col(c.TIME) + lo).floordiv(self._slice), (pl.col(c.TIME) + hi).floordiv(self._slice)
            asked = pl.concat(
                [
                    numbered.with_columns(first.alias(c.SLICE)),
                    numbered.filter(first != last).with_columns(last.alias(c.SLICE)),
                ]
            )
        return asked.select(c.ROW, c.SLICE, hashes(asked, self.found_by).alias(HASH)).sort(HASH)

    def _due(self) -> pl.Expr:
        """What the watermark must have reached for a row to go."""
        length = self.kept.length
        return pl.lit(MAX, pl.Int64) if length is None else pl.col(c.TIME) + length + 1


def _less(bound: int | None) -> int | None:
    return None if bound is None else -bound
