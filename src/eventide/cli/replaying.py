"""A stretch of event time computed again as a batch, and read from the table that a query keeps."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from eventide.cli.addresses import Address
from eventide.cli.comparing import Comparison, Row, compared
from eventide.cli.jobs import Job
from eventide.cli.places import by_input
from eventide.cli.preflight import check_sources
from eventide.errors import cli as errors
from eventide.sinks.batch import SinkBatch
from eventide.sinks.flat import flat_rows
from eventide.sinks.sink import About
from eventide.sinks.tables.changes import changes
from eventide.sinks.tables.database import Connection, Database
from eventide.sinks.tables.shape import INDEX, Shape, shape_of
from eventide.sinks.tables.sink import TableSink, table
from eventide.sinks.tables.sqlite import Sqlite, values
from eventide.sinks.tables.statements import listed, qualified, quoted
from eventide.windows import Sessions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from eventide.plan.pipeline import Pipeline

_WINDOW = ("window_start", "window_end")
_TABLE = "panes"  # unless the address names another
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Stretch:
    """Event time from ``start`` to before ``end``; ``margin`` is how much input around it is read."""

    start: int
    end: int
    margin: int | None = None


def check(job: Job, sources: Mapping[str | None, Address], sink: Address) -> None:
    """Reject what cannot be compared, before Spark starts: the job, its sources, and the table."""
    if job.statement is not None:
        raise errors.replays_python()
    for pipeline in job.pipelines:
        _check(pipeline)
    if not sources and job.rows is None:
        raise errors.no_batch(job.path)
    check_sources(job, sources, streaming=False)
    _, connection, columns = _opened(sink)
    connection.close()
    missing = [name for name in (*job.pipelines[-1].plan.key, *_WINDOW) if name not in columns]
    if missing:
        raise errors.lacks_columns(sink.name or _TABLE, missing)


def _opened(sink: Address) -> tuple[Database, Connection, list[str]]:
    """The database of a table, a connection to it, and the columns of the table."""
    target = table(sink.place, name=sink.name)
    assert isinstance(target, TableSink)
    name = sink.name or _TABLE
    # SQLite would create a file for a name that is misspelt.
    if isinstance(target.database, Sqlite) and not Path(target.database.path).is_file():
        raise errors.no_such_table(name, target.database.url)
    connection = target.database.connect()
    columns = [column.name for column in connection.columns(qualified(name, target.database.dialect))]
    if not columns:
        connection.close()
        raise errors.no_such_table(name, target.database.url)
    return target.database, connection, columns


def replayed(
    spark: SparkSession, job: Job, sources: Mapping[str | None, Address], sink: Address, stretch: Stretch
) -> Comparison:
    """The windows of a stretch, computed again and compared with a table."""
    rows = _narrowed(_rows(spark, job, sources), job, stretch)
    for pipeline in job.pipelines:
        rows = pipeline(rows)
    plan = job.pipelines[-1].plan
    shape = shape_of(rows.schema, About("panes", plan.key, plan.mode, plan.tells))
    kept = _Table(sink, shape, plan.mode)
    inside = rows.where(f"unix_micros(window.start) >= {stretch.start} AND unix_micros(window.end) <= {stretch.end}")
    standing = changes(flat_rows(SinkBatch(inside, inside.sparkSession), shape.read), shape).standing
    return compared(kept.found(stretch), kept.expected(standing), kept.identity)


class _Table:
    """The table that a query keeps: what is compared of it, and how its database writes values."""

    def __init__(self, address: Address, shape: Shape, mode: str) -> None:
        self._name, self._mode = address.name or _TABLE, mode
        self._database, self._connection, there = _opened(address)
        self._target = qualified(self._name, self._database.dialect)
        self.identity = [name for name in shape.identity if name != INDEX]
        wanted = [field.name for field in shape.fields if field.path[0] != "pane"]
        missing = [name for name in self.identity if name not in there]
        if missing:
            raise errors.lacks_columns(self._name, missing)
        self._columns = [name for name in wanted if name in there]
        self._nested = {field.name for field in shape.fields if field.kind in ("array", "map", "struct", "variant")}

    def found(self, stretch: Stretch) -> list[Row]:
        """What the table says."""
        try:
            if self._mode == "discarding" and self._ask(f"max({quoted(INDEX)})", stretch)[0][0]:
                raise errors.parts_of_windows()
            return [self._row(row) for row in self._ask(listed(self._columns), stretch)]
        finally:
            self._connection.close()

    def expected(self, rows: pl.DataFrame) -> list[Row]:
        """What the replay says, in the words of the database."""
        chosen = rows.select(self._columns)
        if self._database.dialect == "sqlite":
            return [self._row(row) for row in values(chosen)]
        return [self._row(row) for row in chosen.rows()]

    def _ask(self, what: str, stretch: Stretch) -> list[tuple[Any, ...]]:
        start, end = (quoted(name) for name in _WINDOW)
        question = f"SELECT {what} FROM {self._target} WHERE {start} >= ? AND {end} <= ?"
        return self._connection.ask(question, self._bounds(stretch))

    def _bounds(self, stretch: Stretch) -> list[Any]:
        times = [_EPOCH + timedelta(microseconds=us) for us in (stretch.start, stretch.end)]
        if self._database.dialect == "postgres":
            return times
        return [value for (value,) in values(pl.DataFrame({"time": times}))]

    def _row(self, row: Sequence[Any]) -> Row:
        read = dict(zip(self._columns, row, strict=True))
        return {name: _parsed(value) if name in self._nested else value for name, value in read.items()}


def _parsed(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value


def _check(pipeline: Pipeline) -> None:
    plan = pipeline.plan
    window = getattr(plan, "window", None)
    if window is None or not hasattr(plan, "aggregates"):
        raise errors.no_windows_of_time("none: it tells rows")
    if window.axis != "time":
        raise errors.no_windows_of_time(f"{window.describe()}, which are counted in rows")
    if plan.tells != "windows":
        raise errors.no_windows_of_time("pairs of rows")


def _rows(spark: SparkSession, job: Job, sources: Mapping[str | None, Address]) -> Any:
    if sources:
        return by_input(spark, sources, streaming=False)
    rows = job.read(spark) if job.rows is not None else None
    if rows is None or getattr(rows, "isStreaming", True):
        raise errors.no_batch(job.path)
    return rows


def _narrowed(rows: Any, job: Job, stretch: Stretch) -> Any:
    """Only the rows that windows of the stretch can have, where that is known."""
    margin = stretch.margin if stretch.margin is not None else _margin(job)
    if margin is None:
        return rows
    plan = job.pipelines[0].plan
    low, high = stretch.start - margin, stretch.end + margin
    if isinstance(rows, Mapping):
        times = {one.name: one.time for one in plan.edges}
        return {name: _between(one, times.get(name), low, high) for name, one in rows.items()}
    return _between(rows, plan.time, low, high)


def _margin(job: Job) -> int | None:
    """How far beyond the stretch rows bear on its windows; None: nobody knows, so all are read."""
    if len(job.pipelines) > 1:  # windows of windows
        return None
    window = job.pipelines[0].plan.window
    if isinstance(window, Sessions):
        return window.gap if isinstance(window.gap, int) else None
    return 0


def _between(rows: DataFrame, time: object, low: int, high: int) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    if not isinstance(time, str) or time not in rows.columns:  # an expression, or the time of the batch
        return rows
    kind = rows.schema[time].dataType.typeName()
    if kind in ("timestamp", "timestamp_ntz", "date"):
        micros = F.unix_micros(F.col(f"`{time}`").cast("timestamp"))
    elif kind in ("long", "integer"):
        micros = F.col(f"`{time}`")
    else:
        return rows
    return rows.where((micros >= low) & (micros < high))
