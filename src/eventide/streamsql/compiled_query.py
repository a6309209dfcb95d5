"""A compiled query: the names in its scope, the rows that it reads, its pipelines, and its projection."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeVar

import polars as pl
from sqlglot import exp

from eventide.errors import PlanError, did_you_mean
from eventide.panes import DIFF, PANE, WINDOW
from eventide.plan import Pipeline
from eventide.streamsql.create_stream import StreamDeclaration, Time, stream_declaration
from eventide.streamsql.expressions import column, evaluate, filter_rows, text_of
from eventide.streamsql.select_clause import WINDOW_COLUMNS, Projection, TableColumns
from eventide.streamsql.source_positions import LocatedError, locate
from eventide.streamsql.spark_expressions import add_columns, filter_frame, select_columns
from eventide.streamsql.syntax import CreateStream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from eventide.streamsql.join import ReadColumns


T = TypeVar("T")


@dataclass(frozen=True)
class CommonTable:
    """A query of WITH, and the scope before it."""

    node: exp.Expr
    scope: Scope


@dataclass(frozen=True)
class Scope:
    """The names that a query can use. ``tables`` has the columns of each table; without it, any name may be one."""

    streams: Mapping[str, CreateStream] = field(default_factory=dict)
    tables: Mapping[str, tuple[str, ...]] | None = None
    queries: Mapping[str, CommonTable] = field(default_factory=dict)

    def query(self, name: str) -> CommonTable | None:
        """Return the query of WITH with this name."""
        return _by_name(self.queries, name)

    def rows(self, node: exp.Table) -> StreamRows:
        """Return the rows of a table by its name."""
        name = node.name
        if node.args.get("db"):
            raise LocatedError(node, _no_such_table(f"{node.args['db'].name}.{name}", self.tables or ()))
        columns = None if self.tables is None else _by_name(self.tables, name)
        if self.tables is not None and columns is None:
            raise LocatedError(node, _no_such_table(name, self.tables))
        declaration = _by_name(self.streams, name)
        stream = StreamDeclaration(name) if declaration is None else stream_declaration(declaration, columns)
        return StreamRows(stream, stream.columns if columns is None else columns)

    def with_query(self, name: str, query: exp.Expr) -> Scope:
        """Return the scope with a further query, which hides others of its name."""
        others = {other: table for other, table in self.queries.items() if other.lower() != name.lower()}
        return replace(self, queries={**others, name: CommonTable(query, self)})


def _listed(times: Iterable[Time]) -> str:
    return " and ".join(repr(str(time)) for time in times)


def _by_name(mapping: Mapping[str, T], name: str) -> T | None:
    """Return the value with this name: exactly, or ignoring case."""
    if name in mapping:
        return mapping[name]
    return next((value for other, value in mapping.items() if other.lower() == name.lower()), None)


@dataclass(frozen=True)
class QueryStep:
    """A filter, then computed columns: in addition to the others, or ``only`` these."""

    where: exp.Expr | None = None
    columns: Mapping[str, exp.Expr] = field(default_factory=dict)
    only: bool = False


def apply_steps(frame: pl.DataFrame, steps: Sequence[QueryStep]) -> pl.DataFrame:
    """Return the rows of a frame after these steps."""
    for step in steps:
        frame = frame if step.where is None else filter_rows(frame, step.where)
        columns = [evaluate(frame, expression).alias(name) for name, expression in step.columns.items()]
        frame = pl.DataFrame(columns) if step.only else frame.with_columns(columns)
    return frame


@dataclass(frozen=True)
class StreamRows:
    """The rows of one stream, as a query reads them. ``columns`` are those after all steps, where they are known.

    ``carried`` are those of them that no SELECT asked for, and the watermark reads.
    """

    stream: StreamDeclaration
    columns: tuple[str, ...] | None
    steps: tuple[QueryStep, ...] = ()
    carried: frozenset[str] = frozenset()

    @property
    def selected(self) -> tuple[str, ...] | None:
        """The columns that the query selects, in their order."""
        return None if self.columns is None else tuple(name for name in self.columns if name not in self.carried)

    def only_time(self, at: exp.Expr) -> Time:
        """Return the declared event time, if there is exactly one."""
        name, times = self.stream.name, list(self.stream.watermarks)
        if not times:
            raise LocatedError(
                at,
                f"The event time of {name!r} is not known. Declare it before the query: CREATE STREAM {name} WATERMARK "
                "FOR ts AS ts - INTERVAL '30' SECOND;",
            )
        if len(times) > 1:
            raise LocatedError(
                at,
                f"{name!r} has watermarks for {_listed(times)}; a join goes by one of them. Compare that one in ON: "
                "… AND b.time BETWEEN a.time AND a.time + INTERVAL '1' HOUR.",
            )
        return times[0]

    def check_time(self, time: Time, at: exp.Expr | None) -> Time:
        """Return a time, if the stream has a watermark for it, or has none at all."""
        name, times = self.stream.name, self.stream.watermarks
        if times and time not in times:
            raise LocatedError(
                at,
                f"The windows go by {str(time)!r}, but the watermark of {name!r} is for {_listed(times)}. Window by "
                f"that column, or add WATERMARK FOR {time} to CREATE STREAM {name}.",
            )
        return time

    def names(self, *aliases: str) -> TableColumns:
        """Return the names of the columns in a query."""
        return TableColumns(self.stream.name, self.columns, frozenset(aliases))

    def filtered(self, where: exp.Expr | None, at: exp.Expr | None) -> StreamRows:
        """Return the rows for which a condition holds."""
        if where is None:
            return self
        counted = self.stream.counted_column()
        if counted is not None:
            raise LocatedError(
                at,
                f"WHERE would drop rows of {self.stream.name!r} whose {counted} the watermark counts, "
                "so that it would wait for them forever. Use COUNT(*) FILTER (WHERE …), or HAVING.",
            )
        return replace(self, steps=(*self.steps, QueryStep(where)))

    def computed(self, columns: Mapping[str, exp.Expr]) -> StreamRows:
        """Return the rows with further columns."""
        if not columns:
            return self
        names = None if self.columns is None else (*self.columns, *(c for c in columns if c not in self.columns))
        return replace(self, columns=names, steps=(*self.steps, QueryStep(columns=dict(columns))))

    def chosen(self, columns: Mapping[str, exp.Expr], at: exp.Expr) -> StreamRows:
        """Return the rows with these columns, and with those that the watermark needs."""
        carried: dict[str, exp.Expr] = {}
        for name in sorted(self.stream.columns_of_watermarks()):
            if name not in columns:
                carried[name] = column(name)
            elif columns[name] != column(name):
                raise LocatedError(
                    at,
                    f"The watermark of {self.stream.name!r} reads {name!r}, which this SELECT "
                    "redefines. Give it another name.",
                )
        every = dict(columns) | carried
        steps = (*self.steps, QueryStep(columns=every, only=True))
        return replace(self, columns=tuple(every), steps=steps, carried=frozenset(carried))

    def apply_polars(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the input of the pipeline from a frame."""
        return apply_steps(frame, self.steps)

    def apply_spark(self, table: Any) -> Any:
        """Return the input of the pipeline from a DataFrame or a scan."""
        if not hasattr(table, "withColumns"):  # a scan, whose rows Spark never receives
            from eventide.streamsql.spark_io import selected_scan

            return selected_scan(table, self.steps)
        frame: DataFrame = table
        for step in self.steps:
            frame = frame if step.where is None else filter_frame(frame, step.where)
            if step.columns:
                frame = (select_columns if step.only else add_columns)(frame, step.columns)
        return frame


@dataclass(frozen=True)
class CompiledQuery:
    """``inputs`` are those of the first pipeline, by their names. ``notes`` are for EXPLAIN.

    ``columns`` are those of the last pipeline's result that have a name of their own, where they are known. ``united``
    is the place of the UNION ALL whose parts are the inputs. ``read`` are the columns that a join reads.
    """

    pipelines: tuple[Pipeline, ...]
    inputs: Mapping[str, StreamRows]
    projection: Projection
    columns: tuple[str, ...] | None
    windowed: bool
    notes: tuple[str, ...] = ()
    united: exp.Expr | None = None
    read: ReadColumns | None = None

    @property
    def pipeline(self) -> Pipeline:
        """The pipelines as one chain."""
        return reduce(Pipeline.then, self.pipelines)

    def reading(self, names: set[str]) -> CompiledQuery:
        """Return the query for an outer query that reads only these columns: a join then stores fewer."""
        return self if self.read is None else replace(self, inputs=self.read.inputs(names))

    @contextmanager
    def locate_union_errors(self) -> Iterator[None]:
        """Locate errors about types of columns at UNION ALL: they are known only with the rows."""
        with nullcontext() if self.united is None else locate(self.united):
            yield

    @property
    def whole(self) -> bool:
        """Whether the plan computes everything: no rows and no results are filtered, computed or renamed."""
        chosen = self.projection.columns or {}
        same = all(name == expression.name for name, expression in chosen.items())
        return self.plain and same and not any(rows.steps for rows in self.inputs.values())

    @property
    def plain(self) -> bool:
        """Whether columns of panes are only renamed, not computed or filtered."""
        if self.projection.where is not None:
            return False
        chosen = self.projection.columns or {}
        return all(
            isinstance(expression, exp.Column)
            and (expression.name == name if name in WINDOW_COLUMNS else expression.name not in (*WINDOW, *PANE))
            for name, expression in chosen.items()
        )

    @property
    def renamed(self) -> dict[str, str]:
        """The name in the panes of each renamed column."""
        chosen = (self.projection.columns or {}).items()
        return {
            name: expression.name
            for name, expression in chosen
            if isinstance(expression, exp.Column) and name not in WINDOW_COLUMNS
        }

    @property
    def selectable(self) -> dict[str, exp.Expr] | None:
        """The columns of the result for an outer query, as expressions over panes; None: not known."""
        columns = self.projection.columns
        if columns is None and self.columns is None:
            return None
        of_windows = {name: column(name) for name in WINDOW_COLUMNS} if self.windowed else {}
        plain = {name: column(name) for name in self.columns or ()}
        return {DIFF: column(DIFF)} | ({**of_windows, **plain} if columns is None else dict(columns))

    @property
    def description(self) -> list[str]:
        """Lines for EXPLAIN: steps before the pipeline, filters after it, and the notes."""
        lines = []
        for rows in self.inputs.values():
            for step in rows.steps:
                parts = [] if step.where is None else [f"where {text_of(step.where)}"]
                computed = [
                    text_of(expression) for name, expression in step.columns.items() if expression != column(name)
                ]
                parts += [f"with {', '.join(computed)}"] if computed else []
                lines += [f"rows of {rows.stream.name}: {', '.join(parts)}"] if parts else []
        if self.projection.where is not None:
            lines.append(f"panes: where {text_of(self.projection.where)}")
        return lines + [f"note: {expression}" for expression in self.notes]

    @property
    def names(self) -> tuple[str, ...] | None:
        """The columns of this result for an outer query, without those of windows."""
        if self.projection.columns is None:
            return self.columns
        return tuple(name for name in self.projection.columns if name not in WINDOW_COLUMNS)


def _no_such_table(name: str, tables: Iterable[str]) -> PlanError:
    """A table that nobody gave."""
    tables = list(tables)
    hint = did_you_mean(name, tables) if tables else f"Give its rows: ev.sql(query, {name}=rows)."
    return PlanError(f"There is no table {name!r}. {hint}")
