"""Aggregates bound to a schema: rows in, cells of partial results, results out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl

from eventide.aggregates.aggregate import NO_SUM, Accumulator, Aggregate, Parts, Source
from eventide.aggregates.dense import Adder, Grid, dense_groups, on_grid
from eventide.aggregates.grouping import group
from eventide.aggregates.numbering import GROUP, Numbered, number
from eventide.aggregates.rowwise import RowWise, UserCodeError, start_rowwise
from eventide.errors import aggregates as errors

if TYPE_CHECKING:
    from eventide.aggregates.aggregate import AnyAccumulator, OwnPass


@dataclass(frozen=True)
class Started:
    """Cells made of rows, and the rows on which user-written code failed. Those count nowhere."""

    cells: pl.DataFrame
    """The ``by`` columns and the accumulator columns, one row per group."""
    failed: pl.Series | None = None
    """Positions of the failed rows (UInt32, ascending)."""
    reasons: list[str] = field(default_factory=list)
    """Why, for each of ``failed``."""


@dataclass(frozen=True)
class Description:
    """What ``explain()`` says about one aggregate."""

    name: str
    aggregate: str
    mergeable: bool
    invertible: bool
    needs_rows: bool
    python: bool


def bind(
    aggregates: Mapping[str, Aggregate],
    schema: Mapping[str, pl.DataType],
    *,
    time: str,
    diff: str | None = None,
) -> Bound:
    """Check the aggregates against a schema, and find out which accumulators they need and share.

    ``time`` names an Int64 column of event times in microseconds. ``diff`` names a column of +1 and -1 when
    rows can be taken back.
    """
    if not aggregates:
        raise errors.no_aggregates()
    schema = pl.Schema(schema)
    parts: dict[str, Parts] = {}
    asked: set[str] = set()
    for name, aggregate in aggregates.items():
        if not isinstance(aggregate, Aggregate):
            raise errors.not_an_aggregate(name, aggregate)
        parts[name] = aggregate.bind(Source(name, schema, time, diff, asked))
        for accumulator in parts[name].accumulators:
            blind = isinstance(accumulator, Accumulator) and diff not in accumulator.reads
            if diff is not None and blind:
                raise errors.blind_to_retractions(aggregate, accumulator.name)
    return Bound(dict(aggregates), parts, asked)


class Bound:
    """Aggregates that know their accumulators. Pure: every method is a function of its arguments."""

    columns: tuple[str, ...]
    """The accumulator columns, in the order in which cells hold them."""
    schema: dict[str, pl.DataType]
    """Their types."""
    result_schema: dict[str, pl.DataType]
    """The types of the results."""
    python: bool
    """User-written code runs for some rows."""
    reads: frozenset[str]
    """The columns of rows that they look at."""

    def __init__(self, aggregates: Mapping[str, Aggregate], parts: Mapping[str, Parts], asked: Iterable[str] = ()):
        self._aggregates = aggregates
        self._parts = parts
        accumulators = _shared(aggregates, parts)
        self._expressions = [a for a in accumulators if isinstance(a, Accumulator)]
        self._passes = [a for a in accumulators if not isinstance(a, (Accumulator, RowWise))]
        self._rowwise = [a for a in accumulators if isinstance(a, RowWise)]
        self._ordered = any(a.ordered for a in self._expressions)
        prepared = sorted((a.prepared for a in self._expressions if a.prepared), key=lambda each: len(each.columns))
        self._prepared = {each.name: each for each in prepared}.values()
        self.columns = tuple(a.name for a in accumulators)
        self.schema = {a.name: a.dtype for a in accumulators}
        self._empty = {a.name: a.empty for a in accumulators}
        self.result_schema = dict(self.results(pl.DataFrame(schema=self.schema)).schema)
        self.python = any(a.python for a in aggregates.values())
        roots = (name for a in self._expressions for name in a.reads)
        self.reads = frozenset([*asked, *roots, *(name for a in self._rowwise for name in a.columns)])

    def start(self, rows: pl.DataFrame, by: Sequence[str], *, grids: Mapping[str, Grid] | None = None) -> Started:
        """One cell per distinct ``by``. A row that user-written code cannot digest counts in no aggregate.

        Columns of ``by`` that ``grids`` names are grouped by grid point: cut on the fly, which is faster than before.
        """
        for name in by:
            if name in self.schema:
                raise errors.key_clash(name)
        if not rows.height:
            return Started(self._no_cells(rows, by))
        if not self._passes and not self._rowwise:
            return Started(self._cells(rows, by, grids or {}))
        rows = rows.with_columns(on_grid(grids)) if grids else rows
        rows = self._aligned(self._with_prepared(rows, apart=True), by)
        numbered, states, failures = start_rowwise(self._rowwise, rows, by)
        if numbered.groups:
            expressions = [a.starting(numbered.rows, by).alias(a.name) for a in self._expressions]
            states += [a.start(numbered.rows, numbered.groups).alias(a.name) for a in self._passes]
            cells = self._typed(_assembled(numbered, expressions, states), by)
        else:
            cells = self._no_cells(rows, by)
        if not failures:
            return Started(cells)
        positions = sorted(failures)
        failed = pl.Series("failed", positions, dtype=pl.UInt32)
        return Started(cells, failed, [failures[position] for position in positions])

    def merge(self, cells: pl.DataFrame, by: Sequence[str], *, grids: Mapping[str, Grid] | None = None) -> pl.DataFrame:
        """Partial cells, older ones first, merged to one per distinct ``by``. Other columns are dropped."""
        if not cells.height:
            return self._no_cells(cells, by)
        if grids and any(each.spread(cells) for each in self._prepared):
            cells, grids = cells.with_columns(on_grid(grids)), {}
        cells = self._aligned(cells, by)
        simple = not self._passes and not self._rowwise
        if simple and (added := self._added(cells, by, grids or {}, starting=False)) is not None:
            return self._typed(added, by)
        expressions = [a.merging(cells, by).alias(a.name) for a in self._expressions]
        if simple:
            return self._typed(group(cells, by, expressions, ordered=self._ordered), by)
        numbered = number(cells, by)
        passes: list[OwnPass | RowWise] = [*self._passes, *self._rowwise]
        try:
            states = [a.merge(numbered.rows, numbered.groups).alias(a.name) for a in passes]
        except UserCodeError as failure:
            raise failure.with_key(numbered.keys) from failure.cause
        return self._typed(_assembled(numbered, expressions, states), by)

    def results(self, cells: pl.DataFrame) -> pl.DataFrame:
        """The accumulator columns replaced by the results; other columns and the order of rows stay."""
        others = [column for column in cells.get_columns() if column.name not in self.schema]
        read = {n: p.result for n, p in self._parts.items() if isinstance(p.result, pl.Expr)}
        results = {column.name: column for column in cells.select(**read).get_columns()}
        try:
            for name, part in self._parts.items():
                if name not in read:
                    results[name] = part.result_of(cells).alias(name)
        except UserCodeError as failure:
            raise failure.with_key(pl.DataFrame(others)) from failure.cause
        return pl.DataFrame([*others, *(results[name] for name in self._parts)])

    def empty(self, height: int) -> pl.DataFrame:
        """The accumulators of zero rows: what a discarded window holds."""
        one = [pl.Series(name, [self._empty[name]], dtype=dtype) for name, dtype in self.schema.items()]
        return pl.DataFrame([s.new_from_index(0, height) for s in one])

    def describe(self) -> list[Description]:
        """For each aggregate what its state costs, for ``explain()``."""
        return [
            Description(
                name=name,
                aggregate=str(aggregate),
                mergeable=aggregate.mergeable,
                invertible=aggregate.invertible,
                needs_rows=any(a.keeps_rows for a in self._parts[name].accumulators),
                python=aggregate.python,
            )
            for name, aggregate in self._aggregates.items()
        ]

    def _cells(self, rows: pl.DataFrame, by: Sequence[str], grids: Mapping[str, Grid]) -> pl.DataFrame:
        """Cells of rows: first as if all values were of one size, then again where that was not sure."""
        cells = self._added(rows, by, grids, starting=True)
        rows = rows.with_columns(on_grid(grids)) if grids else rows
        if cells is None:
            cells = self._grouped(self._with_prepared(rows, apart=False), by)
        cells = self._typed(cells, by)
        unsure = [test for each in self._prepared if (test := each.unsure()) is not None]
        if not unsure:
            return cells
        again = cells.select(pl.any_horizontal(unsure).fill_null(False)).to_series()
        if not again.any():
            return cells
        keys = cells.filter(again).select(by)
        rest = rows.join(keys, on=list(by), how="semi", nulls_equal=True) if by else rows
        if rest.height * 2 <= rows.height:
            computed = self._cells(rest, by, {})
        else:
            rest = self._aligned(self._with_prepared(rest, apart=True), by)
            computed = self._typed(self._grouped(rest, by), by)
        return pl.concat([cells.filter(~again), computed])

    def _grouped(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        expressions = [a.starting(rows, by).alias(a.name) for a in self._expressions]
        return group(rows, by, expressions, ordered=self._ordered)

    def _with_prepared(self, rows: pl.DataFrame, *, apart: bool) -> pl.DataFrame:
        """Rows with all columns that accumulators read."""
        return rows.with_columns([c for each in self._prepared for c in each.of_rows(rows, apart=apart).values()])

    def _aligned(self, frame: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        for each in self._prepared:
            if each.spread(frame):
                frame = each.aligned(frame, by)
        return frame

    def _added(
        self, frame: pl.DataFrame, by: Sequence[str], grids: Mapping[str, Grid], *, starting: bool
    ) -> pl.DataFrame | None:
        """The cells by plain addition, where that is all there is to do and the keys allow it."""
        addends: dict[str, pl.Series | None] = {}
        plain = [a for a in self._expressions if not (starting and a.prepared)]
        for accumulator in plain:
            values = accumulator.addends(frame, starting=starting)
            if isinstance(values, str) and values == NO_SUM:
                return None
            addends[accumulator.name] = None if isinstance(values, str) else values
        groups = dense_groups(frame, by, grids)
        if groups is None:
            return None
        adders: list[Adder] = []
        for each in self._prepared if starting else ():
            adder = each.adder(frame, groups.size)
            if adder is None:
                return None
            adders.append(adder)
        sums = groups.sums(addends, adders)
        return sums.with_columns([a.of_totals(sums, frame) for a in plain])

    def _no_cells(self, frame: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        return pl.DataFrame(schema={name: frame.schema[name] for name in by} | self.schema)

    def _typed(self, cells: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        # Casts inside a group_by leave Polars' fast path; on the cells they cost nothing.
        return cells.select(*by, *(pl.col(name).cast(dtype) for name, dtype in self.schema.items()))


def _assembled(numbered: Numbered, expressions: Sequence[pl.Expr], states: Sequence[pl.Series]) -> pl.DataFrame:
    columns = [*numbered.keys.get_columns(), *states]
    if expressions:
        columns += group(numbered.rows, [GROUP], expressions).sort(GROUP).drop(GROUP).get_columns()
    return pl.DataFrame(columns)


def _shared(aggregates: Mapping[str, Aggregate], parts: Mapping[str, Parts]) -> list[AnyAccumulator]:
    """Each accumulator once. Equal names must mean equal computations."""
    known: dict[str, tuple[str, AnyAccumulator]] = {}
    for name, part in parts.items():
        for accumulator in part.accumulators:
            owner, other = known.setdefault(accumulator.name, (name, accumulator))
            if not _same(accumulator, other):
                raise errors.clashing_accumulators(accumulator.name, aggregates[owner], aggregates[name])
    return [accumulator for _, accumulator in known.values()]


def _same(one: AnyAccumulator, other: AnyAccumulator) -> bool:
    if isinstance(one, Accumulator) and isinstance(other, Accumulator):
        same = one.start.meta.eq(other.start) and one.merge.meta.eq(other.merge)
        return same and one.dtype == other.dtype
    return type(one) is type(other) and one.dtype == other.dtype
