"""The buffered rows of a join side, and the match of new rows with those that a table holds.

Rows are looked up by key and slice of time. They are stored until no partner can arrive any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

from eventide import _columns as c
from eventide.errors import DataError, shown
from eventide.plan.join_plan import LEFT, JoinPlan
from eventide.state.pane_table import CLOCK, DUE, HASH, PaneTable, Positions, row_hashes
from eventide.time import MAX
from eventide.windows.lateness import is_due

NUMBERS = (c.LEFT, c.RIGHT)  # of the rows of a pair, in the order of their arrival
_MANY = "__many"  # how many pairs a key has
MATCHED = "__met"  # the row has had a partner; only where its side is outer


class JoinSide:
    """One side: its rows, with the key under the left side's names and other columns as joined rows name them."""

    def __init__(
        self, plan: JoinPlan, edge: int, columns: Mapping[str, str], schema: Mapping[str, pl.DataType]
    ) -> None:
        self.edge = edge
        self.key = plan.key
        self.values = list(columns.values())
        self.is_outer = plan.is_outer(edge)
        self.retention = plan.retention[edge]
        self.lookup_columns = (*plan.key, c.SLICE)
        self._slice = plan.slice
        # How far the time of a partner may be from that of the row.
        self.reach = (plan.lo, plan.hi) if edge == LEFT else (_negative(plan.hi), _negative(plan.lo))
        self._names = dict(zip(plan.key, plan.inputs[edge].key, strict=True))
        self._names |= {name: column for column, name in columns.items()}
        self._floats = [name for name in plan.key if schema[self._names[name]].is_float()]
        self.schema = {name: schema[column] for name, column in self._names.items()}
        self.nothing = pl.DataFrame(schema=self.schema | {c.TIME: pl.Int64()})
        self._nothing_to_store = self._to_store(self.nothing, 0)

    def read(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Admitted rows as they are stored; -0.0 in a key is 0.0, as Spark joins them."""
        messages = rows.select(*(pl.col(column).alias(name) for name, column in self._names.items()), c.TIME)
        keys = [pl.col(name) for name in self._floats]
        zeros = [pl.when(key == 0).then(key.abs()).otherwise(key) for key in keys]
        return messages.with_columns(zeros) if zeros else messages

    def name_of(self, column: str) -> str:
        """The stored name of a column of the input."""
        return next(name for name, source in self._names.items() if source == column)

    def as_input_rows(self, messages: pl.DataFrame) -> pl.DataFrame:
        """Stored rows under the names of the input."""
        return messages.select(*(pl.col(name).alias(column) for name, column in self._names.items()), c.TIME)

    def to_store(self, messages: pl.DataFrame, first: int) -> pl.DataFrame:
        """Rows with what state needs: their number, the hash for lookups, and when they are due."""
        return self._to_store(messages, first) if messages.height else self._nothing_to_store

    def _to_store(self, messages: pl.DataFrame, first: int) -> pl.DataFrame:
        messages = messages.with_columns(
            pl.int_range(first, first + pl.len()).alias(c.ROW),
            (pl.lit(0, pl.Int64) if self._slice is None else pl.col(c.TIME).floordiv(self._slice)).alias(c.SLICE),
            *([pl.lit(False).alias(MATCHED)] if self.is_outer else []),
        )
        return messages.with_columns(
            row_hashes(messages, self.lookup_columns).alias(HASH),
            self._due().alias(DUE),
            pl.lit(None, pl.Int64).alias(CLOCK),
        )

    def with_partner_key(self, messages: pl.DataFrame) -> pl.DataFrame:
        """The rows that can have a partner: a null equals nothing."""
        return messages.drop_nulls(list(self.key))

    def unmatched(self, passed_rows: Sequence[pl.DataFrame], arrived: pl.DataFrame, reached: int) -> list[pl.DataFrame]:
        """The rows of an outer side that are emitted without a partner: due ones, and new ones without a key."""
        if not self.is_outer:
            return []
        due = [rows.filter(~pl.col(MATCHED), is_due(pl.col(DUE), reached)) for rows in passed_rows if rows.height]
        keyless = arrived.filter(pl.any_horizontal(pl.col(self.key).is_null())) if arrived.height else arrived
        number = pl.col(c.ROW).alias(NUMBERS[self.edge])
        return [rows.select(*self.key, *self.values, number) for rows in (*due, keyless) if rows.height]

    def probes(self, messages: pl.DataFrame) -> pl.DataFrame:
        """Where partners may be: the position of each row, the slice, and the hash to look up, in its order."""
        lo, hi = self.reach
        numbered = messages.select(*self.key, pl.int_range(pl.len()).alias(c.ROW), c.TIME)
        if self._slice is None or lo is None or hi is None:
            probes = numbered.with_columns(pl.lit(0, pl.Int64).alias(c.SLICE))
        else:
            first, last = (pl.col(c.TIME) + lo).floordiv(self._slice), (pl.col(c.TIME) + hi).floordiv(self._slice)
            probes = pl.concat(
                [
                    numbered.with_columns(first.alias(c.SLICE)),
                    numbered.filter(first != last).with_columns(last.alias(c.SLICE)),
                ]
            )
        return probes.select(c.ROW, c.SLICE, row_hashes(probes, self.lookup_columns).alias(HASH)).sort(HASH)

    def _due(self) -> pl.Expr:
        """The watermark at which a row is due: no partner can arrive any more."""
        length = self.retention.length
        return pl.lit(MAX, pl.Int64) if length is None else pl.col(c.TIME) + length + 1


def _negative(bound: int | None) -> int | None:
    return None if bound is None else -bound


_PLACE = "__place"


@dataclass
class Matches:
    """The pairs of a bundle."""

    pairs: list[pl.DataFrame] = field(default_factory=list)

    def numbers(self, edge: int) -> pl.Series:
        """The numbers of the rows of a side that have a partner."""
        return pl.concat([pairs[NUMBERS[edge]] for pairs in self.pairs] or [pl.Series(dtype=pl.Int64)]).unique()


class Matcher:
    """Finds candidates by key and slice, then compares keys and times."""

    def __init__(self, plan: JoinPlan, sides: tuple[JoinSide, JoinSide]) -> None:
        self._sides = sides
        self._where = plan.where
        self._max_matches = plan.max_matches

    def match(
        self, edge: int, messages: pl.DataFrame, tables: Sequence[PaneTable], matches: Matches
    ) -> list[dict[int, Positions]]:
        """Add the pairs of new rows with those of tables; returns the positions of first matches."""
        if not messages.height or not any(table.height for table in tables):
            return [{} for _ in tables]
        probes = self._sides[edge].probes(messages)
        return [self._probe(edge, messages, probes, table, matches) for table in tables]

    def _probe(
        self, edge: int, messages: pl.DataFrame, probes: pl.DataFrame, table: PaneTable, matches: Matches
    ) -> dict[int, Positions]:
        slices, rows = probes[c.SLICE].to_numpy(), probes[c.ROW].to_numpy()
        times = messages[c.TIME].to_numpy()
        newly_matched: dict[int, list[Positions]] = {}
        for hits in table.probe(probes[HASH].to_numpy()):
            panes = table.runs[hits.run].panes
            mine, theirs = rows[hits.probes], hits.rows
            near = self._near(edge, times[mine], panes[c.TIME].to_numpy()[theirs])
            near &= panes[c.SLICE].to_numpy()[theirs] == slices[hits.probes]  # else another probe finds it
            pairs = self._pairs(edge, messages, mine[near], panes, theirs[near])
            matches.pairs.append(pairs.drop(_PLACE))
            if sum(pairs.height for pairs in matches.pairs) > self._max_matches:
                raise self._too_many(matches)
            if self._sides[1 - edge].is_outer:
                places = pairs[_PLACE].unique()
                unmatched = places.filter(~panes[MATCHED].gather(places))
                newly_matched.setdefault(hits.run, []).append(unmatched.to_numpy())
        return {run: np.concatenate(places) for run, places in newly_matched.items()}

    def _near(self, edge: int, mine: Positions, theirs: Positions) -> npt.NDArray[np.bool_]:
        lo, hi = self._sides[edge].reach
        near = np.ones(len(mine), np.bool_)
        near = near if lo is None else near & (theirs >= mine + lo)
        return near if hi is None else near & (theirs <= mine + hi)

    def _pairs(
        self, edge: int, messages: pl.DataFrame, mine: Positions, panes: pl.DataFrame, theirs: Positions
    ) -> pl.DataFrame:
        """The pairs whose keys are equal and that fulfil the user's condition."""
        us, them = self._sides[edge], self._sides[1 - edge]
        ours = messages.select(*us.key, *us.values, pl.col(c.ROW).alias(NUMBERS[edge]))[mine]
        equal = pl.Series(np.ones(len(mine), np.bool_))
        for name in us.key:
            equal &= ours[name] == panes[name].gather(theirs)
        other = panes.select(*them.values, pl.col(c.ROW).alias(NUMBERS[1 - edge]))[theirs]
        pairs = ours.hstack(other).with_columns(pl.Series(_PLACE, theirs))
        pairs = pairs if equal.all() else pairs.filter(equal)
        return pairs if self._where is None else pairs.filter(self._where)

    def _too_many(self, matches: Matches) -> Exception:
        keys = pl.concat([pairs.select(self._sides[0].key) for pairs in matches.pairs])
        *values, many = keys.group_by(pl.all()).len(_MANY).sort(_MANY).row(-1)
        return DataError(
            f"join: one bundle gives more than {self._max_matches:,} pairs of rows; the key "
            f"{shown(values[0] if len(values) == 1 else tuple(values))} alone gives {many:,} or more. "
            "Narrow within, join on more columns, leave such keys out, or raise max_matches."
        )


def in_order(pairs: pl.DataFrame) -> pl.DataFrame:
    """Sort pairs by the number of their left row, then of the right; unmatched rows come after them."""
    (left, many), (right, width) = (_from_zero(pairs[name]) for name in NUMBERS)
    if many * width > MAX:
        return pairs.sort(NUMBERS, nulls_last=True)
    return pairs[(left * width + right).arg_sort()]  # much faster than by two columns


def _from_zero(numbers: pl.Series) -> tuple[pl.Series, int]:
    """Numbers from 0 on, nulls above all others, and their count at most."""
    low, high = numbers.min(), numbers.max()
    if not isinstance(low, int) or not isinstance(high, int):
        return pl.zeros(len(numbers), pl.Int64, eager=True), 1
    return (numbers - low).fill_null(high - low + 1), high - low + 2
