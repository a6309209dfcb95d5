"""Aggregates bound to a schema: rows become cells of partial results, cells merge, results are read from cells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from eventide._column_refs import computed, expression_of
from eventide._columns import TIME
from eventide.aggregates.aggregate import NO_SUM, Accumulator, Aggregate, Parts, Source
from eventide.aggregates.errors import no_aggregates, not_an_aggregate
from eventide.aggregates.row_functions import RowWise, UserCodeError, start_rowwise
from eventide.errors import PlanError, did_you_mean, shown
from eventide.kernels.grouping import GROUP, Adder, Grid, Numbered, dense_groups, group, number, on_grid

if TYPE_CHECKING:
    from eventide.aggregates.aggregate import AnyAccumulator, OwnPass


@dataclass(frozen=True)
class Started:
    """Cells of rows, and the rows on which user code failed. Those count in no aggregate."""

    cells: pl.DataFrame
    """The ``by`` columns and the accumulator columns, one row per group."""
    failed: pl.Series | None = None
    """Positions of the failed rows (UInt32, ascending)."""
    reasons: list[str] = field(default_factory=list)
    """The reason for each of ``failed``."""


@dataclass(frozen=True)
class Description:
    """What ``explain()`` shows of one aggregate."""

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
    """Check the aggregates against a schema, and return their shared accumulators.

    ``time`` names an Int64 column of event times in microseconds. ``diff`` names a column of +1 and -1 when
    rows can be retracted.
    """
    if not aggregates:
        raise no_aggregates()
    schema = dict(pl.Schema(schema))
    parts: dict[str, Parts] = {}
    read_columns: set[str] = set()
    expressions: dict[str, pl.Expr] = {}
    for name, aggregate in aggregates.items():
        if not isinstance(aggregate, Aggregate):
            raise not_an_aggregate(name, aggregate)
        types = computed_types(aggregate, schema)
        expressions |= {column: expression_of(column) for column in types}
        parts[name] = aggregate.bind(Source(name, schema | types, time, diff, read_columns, frozenset(types)))
        for accumulator in parts[name].accumulators:
            if diff is not None and isinstance(accumulator, Accumulator) and diff not in accumulator.reads:
                raise PlanError(
                    f"{aggregate}: its input carries retractions, but the accumulator "
                    f"{shown(accumulator.name)} does not read them. "
                    "Multiply by pl.col(source.diff) in its start expression, where source.diff is not None."
                )
    return Bound(dict(aggregates), parts, read_columns, expressions)


class Bound:
    """Aggregates with their accumulators. Every method is a pure function of its arguments."""

    columns: tuple[str, ...]
    """The accumulator columns, in the order of cells."""
    schema: dict[str, pl.DataType]
    """Their types."""
    result_schema: dict[str, pl.DataType]
    """The types of the results."""
    python: bool
    """Whether user code runs for some rows."""
    reads: frozenset[str]
    """The columns of rows that are read."""

    def __init__(
        self,
        aggregates: Mapping[str, Aggregate],
        parts: Mapping[str, Parts],
        read_columns: Iterable[str] = (),
        expressions: Mapping[str, pl.Expr] | None = None,
    ) -> None:
        self._aggregates = aggregates
        self._computed = [expression.alias(name) for name, expression in (expressions or {}).items()]
        self._parts = parts
        accumulators = _shared(aggregates, parts)
        self._expressions = [a for a in accumulators if isinstance(a, Accumulator)]
        self._passes = [a for a in accumulators if not isinstance(a, (Accumulator, RowWise))]
        self._rowwise = [a for a in accumulators if isinstance(a, RowWise)]
        self._ordered = any(a.ordered for a in self._expressions)
        prepared = [a.prepared for a in self._expressions if a.prepared]
        prepared.sort(key=lambda preparation: len(preparation.columns))
        self._prepared = {preparation.name: preparation for preparation in prepared}.values()
        self.columns = tuple(a.name for a in accumulators)
        self.schema = {a.name: a.dtype for a in accumulators}
        self._empty = {a.name: a.empty for a in accumulators}
        self.result_schema = dict(self.results(pl.DataFrame(schema=self.schema)).schema)
        self.python = any(a.python for a in aggregates.values())
        roots = (name for a in self._expressions for name in a.reads)
        read = {*read_columns, *roots, *(name for a in self._rowwise for name in a.columns)}
        roots_of_computed = (name for expression in self._computed for name in expression.meta.root_names())
        self.reads = frozenset(read - set(expressions or ()) | set(roots_of_computed))

    def start(self, rows: pl.DataFrame, by: Sequence[str], *, grids: Mapping[str, Grid] | None = None) -> Started:
        """Return a cell per distinct ``by``. A row on which user code fails counts in no aggregate.

        Columns of ``by`` in ``grids`` are grouped by grid point, which is faster than cutting them before.
        """
        for name in by:
            if name in self.schema:
                raise PlanError(f"The key column {name!r} has the name of an accumulator. Rename it first.")
        if not rows.height:
            return Started(self._no_cells(rows, by))
        rows = rows.with_columns(self._computed) if self._computed else rows
        if not self._passes and not self._rowwise:
            return Started(self._cells(rows, by, grids or {}))
        rows = rows.with_columns(on_grid(grids)) if grids else rows
        rows = self._align(self._with_prepared(rows, per_row=True), by)
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
        """Merge partial cells, older ones first, into one per distinct ``by``. Other columns are dropped."""
        if not cells.height:
            return self._no_cells(cells, by)
        if grids and any(preparation.needs_alignment(cells) for preparation in self._prepared):
            cells, grids = cells.with_columns(on_grid(grids)), {}
        cells = self._align(cells, by)
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
        """Replace the accumulator columns by the results. Other columns and the order of rows stay."""
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
        """Return the accumulators of zero rows: the content of a discarded window."""
        row = [pl.Series(name, [self._empty[name]], dtype=dtype) for name, dtype in self.schema.items()]
        return pl.DataFrame([column.new_from_index(0, height) for column in row])

    def describe(self) -> list[Description]:
        """Return the cost of each aggregate's state, for ``explain()``."""
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
        """Return the cells of rows. Cells that need it are computed again per row."""
        cells = self._added(rows, by, grids, starting=True)
        rows = rows.with_columns(on_grid(grids)) if grids else rows
        if cells is None:
            cells = self._grouped(self._with_prepared(rows, per_row=False), by)
        cells = self._typed(cells, by)
        tests = [test for preparation in self._prepared if (test := preparation.needs_recompute()) is not None]
        if not tests:
            return cells
        recompute = cells.select(pl.any_horizontal(tests).fill_null(False)).to_series()
        if not recompute.any():
            return cells
        keys = cells.filter(recompute).select(by)
        affected = rows.join(keys, on=list(by), how="semi", nulls_equal=True) if by else rows
        if affected.height * 2 <= rows.height:
            computed = self._cells(affected, by, {})
        else:
            affected = self._align(self._with_prepared(affected, per_row=True), by)
            computed = self._typed(self._grouped(affected, by), by)
        return pl.concat([cells.filter(~recompute), computed])

    def _grouped(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        expressions = [a.starting(rows, by).alias(a.name) for a in self._expressions]
        return group(rows, by, expressions, ordered=self._ordered)

    def _with_prepared(self, rows: pl.DataFrame, *, per_row: bool) -> pl.DataFrame:
        """Return the rows with all columns that accumulators read."""
        columns = [preparation.of_rows(rows, per_row=per_row) for preparation in self._prepared]
        return rows.with_columns([column for prepared in columns for column in prepared.values()])

    def _align(self, frame: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        for preparation in self._prepared:
            if preparation.needs_alignment(frame):
                frame = preparation.align(frame, by)
        return frame

    def _added(
        self, frame: pl.DataFrame, by: Sequence[str], grids: Mapping[str, Grid], *, starting: bool
    ) -> pl.DataFrame | None:
        """Return the cells by plain addition; None if that is not enough, or the keys do not allow it."""
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
        for preparation in self._prepared if starting else ():
            adder = preparation.adder(frame, groups.size)
            if adder is None:
                return None
            adders.append(adder)
        sums = groups.sums(addends, adders)
        return sums.with_columns([a.of_totals(sums, frame) for a in plain])

    def _no_cells(self, frame: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        return pl.DataFrame(schema={name: frame.schema[name] for name in by} | self.schema)

    def _typed(self, cells: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        # A cast inside a group_by leaves Polars' fast path. On the cells it costs little.
        return cells.select(*by, *(pl.col(name).cast(dtype) for name, dtype in self.schema.items()))


def _assembled(numbered: Numbered, expressions: Sequence[pl.Expr], states: Sequence[pl.Series]) -> pl.DataFrame:
    columns = [*numbered.keys.get_columns(), *states]
    if expressions:
        columns += group(numbered.rows, [GROUP], expressions).sort(GROUP).drop(GROUP).get_columns()
    return pl.DataFrame(columns)


def _shared(aggregates: Mapping[str, Aggregate], parts: Mapping[str, Parts]) -> list[AnyAccumulator]:
    """Return each accumulator once. Equal names must mean equal computations."""
    by_name: dict[str, tuple[str, AnyAccumulator]] = {}
    for name, part in parts.items():
        for accumulator in part.accumulators:
            owner, other = by_name.setdefault(accumulator.name, (name, accumulator))
            if not _is_same(accumulator, other):
                raise PlanError(
                    f"{aggregates[owner]} and {aggregates[name]} both call an accumulator "
                    f"{accumulator.name!r} but compute it differently. Rename one of them."
                )
    return [accumulator for _, accumulator in by_name.values()]


def _is_same(first: AnyAccumulator, second: AnyAccumulator) -> bool:
    if isinstance(first, Accumulator) and isinstance(second, Accumulator):
        same = first.start.meta.eq(second.start) and first.merge.meta.eq(second.merge)
        return same and first.dtype == second.dtype
    return type(first) is type(second) and first.dtype == second.dtype


def computed_types(aggregate: object, schema: Mapping[str, pl.DataType]) -> dict[str, pl.DataType]:
    """Return the columns that the expressions of an aggregate compute, with their types."""
    names = computed(aggregate)
    if not names:
        return {}
    rows = pl.DataFrame(schema=schema)
    types: dict[str, pl.DataType] = {}
    for name in names.values():
        for root in name.expression.meta.root_names():
            if root not in schema:
                raise PlanError(
                    f"{aggregate}: {name} reads {root!r}, which rows do not have. {did_you_mean(root, schema)}"
                )
        try:
            if name.condition is not None:
                dtype = rows.select(name.condition.alias("where")).schema["where"]
                if dtype != pl.Boolean:
                    raise PlanError(
                        f"{aggregate}: where= gives {dtype} ({name.condition}). It must give a boolean: "
                        "which rows count, such as pl.col('price') > 5."
                    )
            types[name] = rows.select(name.expression.alias("column")).schema["column"]
        except pl.exceptions.PolarsError as cause:
            raise _not_computed(aggregate, name, cause) from cause
    return types


def try_out(
    rows: pl.DataFrame | Mapping[str, Sequence[Any]],
    /,
    *,
    time: str | None = None,
    diff: str | None = None,
    **aggregates: Aggregate,
) -> dict[str, Any]:
    """Return the results of aggregates over all rows.

    Rows happen in their order, unless ``time`` names a column of whole microseconds.

    >>> from eventide.aggregates import count, last
    >>> try_out({"price": [5, 7], "at": [20, 10]}, time="at", n=count(), price=last("price"))
    {'n': 2, 'price': 5}
    """
    frame = pl.DataFrame(rows)
    at = pl.int_range(pl.len(), dtype=pl.Int64) if time is None else pl.col(time).cast(pl.Int64)
    bound = bind(aggregates, frame.schema, time=TIME, diff=diff)
    started = bound.start(frame.with_columns(at.alias(TIME)), [])
    cells = started.cells if started.cells.height else bound.empty(1)
    return bound.results(cells).row(0, named=True)


def _not_computed(aggregate: object, expression: object, cause: BaseException) -> PlanError:
    """An expression does not fit the types of its columns."""
    reason = str(cause).partition("\n")[0]
    return PlanError(f"{aggregate}: {expression} cannot be computed for these columns: {reason}.")
