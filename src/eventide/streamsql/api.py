"""``ev.sql``: a query as a pipeline. The parser is an optional dependency, so it is imported on first use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from eventide._hints import with_attribute_hints, with_option_hints
from eventide.errors import PlanError
from eventide.plan import Pipeline
from eventide.plan.explain import summary
from eventide.plan.pipeline import Runnable
from eventide.plan.plan import Plan

if TYPE_CHECKING:
    from datetime import timedelta

    from pyspark.sql import DataFrame

    from eventide.local import Clock, LocalQuery, LocalResult
    from eventide.spark.dataflow import Source
    from eventide.spark.query import Query
    from eventide.spark.run import RunOptions
    from eventide.streamsql.compiler import SqlScript
    from eventide.streamsql.execution import Table


@with_attribute_hints
@dataclass(frozen=True)
class SqlPipeline(Runnable):
    """A compiled query: the same plan as a pipeline that is built in Python.

    ``pipeline`` computes it, as a chain if the query nests aggregates. What the query filters and computes before, and
    selects behind it, belongs to the query and not to the plan; ``notes`` say it in words. ``tables`` are the names of
    the tables that it reads. A query of one table takes its rows as they are, a query of several tables takes a mapping
    of their names.

    >>> import eventide as ev, polars as pl
    >>> counts = ev.sql("SELECT COUNT(*) AS n FROM TUMBLE(clicks, DESCRIPTOR(t), INTERVAL '1' MINUTE)")
    >>> counts.tables
    ('clicks',)
    >>> counts.local(pl.DataFrame({"t": [1, 2]})).panes["n"].to_list()
    [2]
    """

    query: str
    tables: tuple[str, ...]
    notes: tuple[str, ...] = ()
    _pipeline: Pipeline | None = None
    _problem: PlanError | None = field(default=None, compare=False)
    _whole: bool = field(default=True, repr=False, compare=False)  # the plan computes everything

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline. A query such as ``SELECT *`` of a join has none before the columns of its tables are known."""
        if self._pipeline is None:
            assert self._problem is not None
            raise self._problem
        return self._pipeline

    @property
    def plan(self) -> Plan:
        """The plan of the first operator."""
        return self.pipeline.plan

    def explain(self) -> str:
        """Return the plan as text; of a chain, one operator after the other."""
        return self.pipeline.explain() + "".join(f"{note}\n" for note in self.notes)

    def _repr_html_(self) -> str:
        """Return the plan as HTML, for notebooks."""
        from eventide.plan.explain import table

        *first, last = self.pipeline.plans
        return "".join(map(table, first)) + table(last, self.notes)

    def then(self, following: Runnable) -> Pipeline:
        """Chain this query and a pipeline, as ``Pipeline.then`` does.

        Only a query whose plan computes everything can be part of a chain; others filter and compute outside of it.

        >>> import eventide as ev, polars as pl
        >>> minutes = ev.sql("SELECT COUNT(*) AS n FROM TUMBLE(clicks, DESCRIPTOR(t), INTERVAL '1' MINUTE)")
        >>> busiest = ev.stream("window_time").window(ev.tumbling("1 hour")).agg(most=ev.max("n"))
        >>> minutes.then(busiest).local(pl.DataFrame({"t": [0, 1, 60_000_000]})).panes["most"].to_list()
        [2]
        """
        return self._as_pipeline().then(following)

    @with_option_hints
    def local(
        self,
        rows: Table | Mapping[str, Table],
        *,
        bundle_by: str | int | None = None,
        every: str | timedelta | None = None,
        clock: Clock | None = None,
        drain: bool = True,
    ) -> LocalResult:
        """Run in this process; each frame of a table is a bundle. The panes are the query's result.

        ``bundle_by`` and ``every`` replay one frame of each table as a stream, as in ``Pipeline.local``.
        """
        statements = _read(self.query)
        from eventide.streamsql.execution import run_in_process

        return run_in_process(
            statements, self._by_name(rows), bundle_by=bundle_by, every=every, clock=clock, drain=drain
        )

    def start_local(self, schema: Any = None, *, saved: bytes | None = None, keep: bool = True) -> LocalQuery:
        """A query in this process that takes bundles one by one, as ``Pipeline.start_local`` returns it.

        The panes have all columns of the plan. The query must have a plan that computes everything, as in a chain.
        """
        return self._as_pipeline().start_local(schema, saved=saved, keep=keep)

    def _as_pipeline(self) -> Pipeline:
        if self._pipeline is not None and not self._whole:
            raise PlanError(
                "This query filters or computes rows or results outside of its plan, so the plan alone is not the "
                "query. In a chain, a TestStream and .start_local(), a query has keys, window columns and aggregates "
                "of columns by their names, without WHERE and HAVING. Use .local(rows) or .run(…), or prepare the rows "
                "before the query."
            )
        return self.pipeline

    def __call__(self, rows: Table | Mapping[str, Table]) -> DataFrame:
        """Return the result over DataFrames of Spark: ``orders.transform(query)``. Streaming in, streaming out."""
        statements = _read(self.query)
        from eventide.streamsql.execution import spark_result

        return spark_result(statements, self._by_name(rows))

    def _run(self, rows: Source, options: RunOptions) -> Query:
        """Run on Spark. The sink gets the query's result; late rows and dead letters are those of the pipeline."""
        from eventide.spark.run import run

        statements = _read(self.query)
        from eventide.streamsql.execution import spark_inputs
        from eventide.streamsql.spark_io import selected_sink

        query, inputs = spark_inputs(statements, self._by_name(rows))
        source = inputs if query.pipeline.plan.inputs else next(iter(inputs.values()))
        sink = selected_sink(options.sink, query.projection)
        return run(query.pipeline, source, replace(options, sink=sink))

    def _by_name(self, rows: Table | Mapping[str, Table]) -> Mapping[str, Table]:
        if isinstance(rows, Mapping):
            return rows
        if len(self.tables) != 1:
            named = ", ".join(f"{name!r}: …" for name in self.tables)
            raise PlanError(f"The query reads {len(self.tables)} tables. Give them by their names: {{{named}}}.")
        return {self.tables[0]: rows}

    def __repr__(self) -> str:
        pipeline = self._pipeline
        return f"<SqlPipeline of {', '.join(self.tables)}{'' if pipeline is None else f': {summary(*pipeline.plans)}'}>"


@with_option_hints
def sql(query: str, /) -> SqlPipeline:
    """Compile a query to a pipeline: to be explained, tested, and run over its tables.

    Errors that do not depend on the columns of the tables are raised here, others when rows are passed. Columns can be
    declared: ``CREATE STREAM orders (shop STRING, price INT) WATERMARK FOR …``.

    Its plan is the plan that Python builds:

    >>> import eventide as ev, polars as pl
    >>> per_minute = ev.sql('''
    ...     CREATE STREAM orders WATERMARK FOR ts AS ts - INTERVAL '30' SECOND;
    ...     SELECT shop, window_start, SUM(price) AS total
    ...     FROM TUMBLE(orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE)
    ...     GROUP BY shop, window_start, window_end
    ... ''')
    >>> orders = ev.stream(time="ts", key="shop", watermark="30 seconds")
    >>> per_minute.plan == orders.window(ev.tumbling("1 minute")).agg(total=ev.sum("price")).plan
    True

    A result has the columns of SELECT, and ``diff``: 1, or -1 for a row that is retracted.

    >>> rows = pl.DataFrame({"ts": ["2026-03-01T12:00:05Z", "2026-03-01T12:00:40Z"], "shop": "kiel", "price": [5, 7]})
    >>> per_minute.local(rows).panes["total"].to_list()
    [12]
    """
    statements = _read(query)
    from eventide.streamsql.compiler import compile_query
    from eventide.streamsql.errors import ColumnsNotKnownError

    try:
        result = compile_query(statements)
    except ColumnsNotKnownError as problem:
        return SqlPipeline(query, statements.tables, _problem=problem)
    tables = dict.fromkeys(rows.stream.name for rows in result.inputs.values())
    return SqlPipeline(query, tuple(tables), tuple(result.description), result.pipeline, _whole=result.whole)


def _read(query: str) -> SqlScript:
    """Return the statements of a text. The parser is an optional dependency, so it is imported here."""
    try:
        from eventide.streamsql.compiler import parse_statements
    except ModuleNotFoundError as missing:
        raise PlanError("SQL needs the package sqlglot: pip install 'pyspark-eventide[sql]'.") from missing
    return parse_statements(query)
