"""``ev.sql``: a query over tables of this process, or of Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eventide.errors import sql_tables as table_errors
from eventide.plan import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from eventide.local.query import Clock, LocalResult
    from eventide.spark.query import Query
    from eventide.streamsql.compiled import Compiled
    from eventide.streamsql.compiling import Statements
    from eventide.streamsql.hosting import Table


@dataclass(frozen=True)
class SqlPipeline:
    """A query that was compiled: the same plan as a pipeline that is built in Python.

    ``pipelines`` are its plans, most often one. What the query filters and computes before them, and selects behind
    them, belongs to the query and not to the plans; ``notes`` tell it in words. ``tables`` are the names of what it
    reads.

    >>> import eventide as ev, polars as pl
    >>> said = ev.sql_pipeline("SELECT COUNT(*) AS n FROM TUMBLE(clicks, DESCRIPTOR(t), INTERVAL '1' MINUTE)")
    >>> said.tables
    ('clicks',)
    >>> said.local(clicks=pl.DataFrame({"t": [1, 2]})).panes["n"].to_list()
    [2]
    """

    query: str
    pipelines: tuple[Pipeline, ...]
    tables: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def pipeline(self) -> Pipeline:
        """The one pipeline; refused where the query is a chain of several."""
        if len(self.pipelines) > 1:
            raise table_errors.several_to_run()
        return self.pipelines[0]

    @property
    def plan(self) -> Any:
        """The plan of the one pipeline."""
        return self.pipeline.plan

    def explain(self) -> str:
        """What the query does, in words; a chain, one after the other."""
        told = [one.explain() for one in self.pipelines]
        return "\n".join(told) + "".join(f"{one}\n" for one in self.notes)

    def _repr_html_(self) -> str:
        """What a notebook shows of it."""
        from eventide.plan.html import table

        *first, last = self.pipelines
        return "".join(table(one.plan) for one in first) + table(last.plan, self.notes)

    def local(self, *, clock: Clock | None = None, drain: bool = True, **tables: Table) -> LocalResult:
        """Run in this process; each frame of a table is a bundle. The panes are the query's result."""
        from eventide.streamsql.hosting import in_process

        return in_process(_read(self.query), tables, clock, drain)

    def __call__(self, **tables: Table) -> DataFrame:
        """The result over DataFrames of Spark; streaming in, streaming out."""
        from eventide.streamsql.hosting import on_spark

        return on_spark(_read(self.query), tables)

    def run(self, *, panes: Any, checkpoint: str | Path, tables: Mapping[str, Table], **options: Any) -> Query:
        """Run on Spark with all outputs in one query, as ``ev.run`` does. ``panes`` gets the query's result.

        Late rows and dead letters are as the pipeline has them. ``options`` are those of ``ev.run``.
        """
        from eventide.spark.running import run
        from eventide.streamsql.hosting import spark_rows
        from eventide.streamsql.sinking import selecting

        found, rows = spark_rows(_read(self.query), tables)
        source = rows if found.pipelines[0].plan.inputs else next(iter(rows.values()))
        sink = selecting(panes, found.projection)
        return run(list(found.pipelines), source, panes=sink, checkpoint=checkpoint, **options)

    def __repr__(self) -> str:
        return f"<SqlPipeline\n{self.explain()}>"


def sql_pipeline(query: str) -> SqlPipeline:
    """A query without its tables: to be explained, compared, and run later.

    Its plan is the one that Python builds:

    >>> import eventide as ev
    >>> query = '''
    ...     CREATE STREAM orders WATERMARK FOR ts AS ts - INTERVAL '30' SECOND;
    ...     SELECT shop, window_start, COUNT(*) AS n
    ...     FROM TUMBLE(orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE)
    ...     GROUP BY shop, window_start, window_end
    ... '''
    >>> orders = ev.stream(time="ts", key="shop", watermark=ev.bounded_delay("30 seconds"))
    >>> ev.sql_pipeline(query).plan == orders.window(ev.tumbling("1 minute")).agg(n=ev.count()).plan
    True
    """
    return _pipeline(_read(query), None)


def sql(query: str, /, *, clock: Clock | None = None, drain: bool = True, **tables: Table) -> Any:
    """Run a query over its tables, which are given by their names.

    With DataFrames of Spark it gives a DataFrame: streaming in, streaming out. With Polars or Arrow frames (or lists of
    them, one a bundle) it runs in this process and gives what ``pipeline.local`` gives: ``panes`` (the query's result),
    ``late``, ``dead``, ``metrics``. ``EXPLAIN query`` gives the plan in words, with tables or without. ``clock`` and
    ``drain`` are those of ``pipeline.local``.

    A result has the columns of SELECT, and ``diff``: 1, or -1 for a row that is taken back.

    >>> import eventide as ev, polars as pl
    >>> orders = pl.DataFrame({"ts": ["2026-03-01T12:00:05Z", "2026-03-01T12:00:40Z"], "price": [5, 7]})
    >>> result = ev.sql('''
    ...     SELECT window_end, SUM(price) AS total
    ...     FROM TUMBLE(orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE)
    ...     GROUP BY window_start, window_end
    ... ''', orders=orders)
    >>> result.panes["total"].to_list()
    [12]
    """
    said = _read(query)
    from eventide.streamsql.compiling import compiled
    from eventide.streamsql.hosting import in_process, is_spark, on_spark

    kinds = {name: is_spark(name, table) for name, table in tables.items()}
    if len(set(kinds.values())) > 1:
        raise table_errors.several_kinds(list(tables))
    if said.explain:
        return _pipeline(said, tables or None).explain()
    if not tables:
        raise table_errors.no_tables(_read_by(compiled(said)))
    return on_spark(said, tables) if all(kinds.values()) else in_process(said, tables, clock, drain)


def _read(query: str) -> Statements:
    """The statements of a text. Only from here on is the parser needed, which not everyone has installed."""
    try:
        from eventide.streamsql.compiling import statements
    except ModuleNotFoundError as missing:
        raise table_errors.no_extra() from missing
    return statements(query)


def _pipeline(said: Statements, tables: Mapping[str, Table] | None) -> SqlPipeline:
    from eventide.streamsql.compiling import compiled
    from eventide.streamsql.hosting import columns_of

    found = compiled(said, None if tables is None else {name: columns_of(table) for name, table in tables.items()})
    return SqlPipeline(said.text, found.pipelines, tuple(_read_by(found)), tuple(found.told))


def _read_by(found: Compiled) -> list[str]:
    return list(dict.fromkeys(one.stream.name for one in found.inputs.values()))
