"""Computes a range of event time again as a batch, and compares its windows with the table of a sink."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from eventide._addresses import Address
from eventide.cli.jobs import Job, check_sources
from eventide.errors import PlanError
from eventide.panes import PANE_INDEX, WINDOW
from eventide.sinks.batch import SinkBatch, read_flat
from eventide.sinks.sink import OutputInfo
from eventide.sinks.table_databases import Connection, Database, Sqlite, to_values
from eventide.sinks.table_merge import table_changes
from eventide.sinks.table_sink import TableSink, table
from eventide.sinks.table_sql import TableLayout, column_list, qualified, quoted, table_layout
from eventide.spark.sources import sources_at
from eventide.windows import Sessions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from eventide.plan.pipeline import Pipeline


Kind = Literal["differs", "missing", "extra"]
Row = Mapping[str, Any]
_SAME = 1e-9  # sums of floats depend on the order of their terms


@dataclass(frozen=True)
class Difference:
    """A window of a key that differs. A side that does not have it is empty."""

    kind: Kind  # extra: only the table has it; missing: only the replay has it
    identity: Row
    table: Row
    replay: Row

    def lines(self) -> list[tuple[Any, ...]]:
        """Return a line for each column that differs."""
        front = tuple(self.identity.values())
        return [
            (*(front if first else ("",) * len(front)), name, _shown(self.table, name), _shown(self.replay, name))
            for first, name in ((place == 0, name) for place, name in enumerate(self.table or self.replay))
        ]

    def as_json(self) -> dict[str, Any]:
        """Return the difference as JSON."""
        return {
            "kind": self.kind,
            "window": dict(self.identity),
            "table": dict(self.table) or None,
            "replay": dict(self.replay) or None,
        }


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison."""

    identity: tuple[str, ...]
    windows: int  # that were compared
    differences: Sequence[Difference]

    def summary(self) -> str:
        """Return the result in a sentence.

        >>> Comparison((), 3, []).summary()
        '3 windows compared; the table is equal.'
        """
        head = f"{self.windows:,} {'window' if self.windows == 1 else 'windows'} compared"
        if not self.differences:
            return f"{head}; the table is equal."
        kinds = [difference.kind for difference in self.differences]
        words = {"differs": "with other values", "missing": "missing in the table", "extra": "only in the table"}
        parts = ", ".join(f"{kinds.count(kind):,} {text}" for kind, text in words.items() if kind in kinds)
        return f"{head}, {len(kinds):,} differ: {parts}."


def compare(table: Iterable[Row], replay: Iterable[Row], identity: Sequence[str]) -> Comparison:
    """Compare the windows of two tables, matched by their identity.

    >>> compare([{"k": "a", "n": 1}], [{"k": "a", "n": 2}, {"k": "b", "n": 1}], ["k"]).summary()
    '2 windows compared, 2 differ: 1 with other values, 1 missing in the table.'
    """
    stored, computed = _by_identity(table, identity), _by_identity(replay, identity)
    differences = []
    for key in dict.fromkeys([*stored, *computed]):
        named = dict(zip(identity, key, strict=True))
        if key not in computed:
            differences.append(Difference("extra", named, stored[key], {}))
        elif key not in stored:
            differences.append(Difference("missing", named, {}, computed[key]))
        elif other := [name for name, value in computed[key].items() if not same(value, stored[key][name])]:
            sides = ({name: side[key][name] for name in other} for side in (stored, computed))
            differences.append(Difference("differs", named, *sides))
    return Comparison(tuple(identity), len({*stored, *computed}), differences)


def same(value: Any, other: Any) -> bool:
    """Return whether two values are equal, but for the last digits of floats.

    >>> same(0.1 + 0.2, 0.3), same([1.0, None], [1.0, None]), same(1, "1")
    (True, True, False)
    """
    if isinstance(value, float) and isinstance(other, float):
        return math.isclose(value, other, rel_tol=_SAME) or (math.isnan(value) and math.isnan(other))
    if isinstance(value, list) and isinstance(other, list):
        return len(value) == len(other) and all(map(same, value, other))
    if isinstance(value, dict) and isinstance(other, dict):
        return value.keys() == other.keys() and all(same(field, other[name]) for name, field in value.items())
    return bool(value == other)


def _by_identity(rows: Iterable[Row], identity: Sequence[str]) -> dict[tuple[Any, ...], dict[str, Any]]:
    return {
        tuple(row[name] for name in identity): {name: value for name, value in row.items() if name not in identity}
        for row in rows
    }


def _shown(side: Row, name: str) -> str:
    return "(none)" if not side else str(side[name])


_TABLE = "panes"  # unless the address names another
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class TimeRange:
    """Event time from ``start`` to before ``end``; ``margin`` is how much input around it is read."""

    start: int
    end: int
    margin: int | None = None


def check_comparison(job: Job, sources: Mapping[str | None, Address], sink: Address) -> None:
    """Reject a job, sources or a table that cannot be compared, before Spark starts."""
    if job.statement is not None:
        raise PlanError("replay compares pipelines in Python (job.py). Write the statement as one.")
    for pipeline in job.pipeline.operators:
        _check(pipeline)
    if not sources and job.rows is None:
        raise _no_batch(job.path)
    check_sources(job, sources, streaming=False)
    _, connection, columns = _opened(sink)
    connection.close()
    missing = [name for name in (*job.pipeline.plans[-1].key, *WINDOW) if name not in columns]
    if missing:
        raise _lacks_columns(sink.name or _TABLE, missing)


def _opened(sink: Address) -> tuple[Database, Connection, list[str]]:
    """Return the database of a table, a connection to it, and the columns of the table."""
    target = table(sink.place, name=sink.name)
    assert isinstance(target, TableSink)
    name = sink.name or _TABLE
    # SQLite would create a file for a name that is misspelt.
    if isinstance(target.database, Sqlite) and not Path(target.database.path).is_file():
        raise _no_such_table(name, target.database.url)
    connection = target.database.connect()
    columns = [column.name for column in connection.columns(qualified(name, target.database.dialect))]
    if not columns:
        connection.close()
        raise _no_such_table(name, target.database.url)
    return target.database, connection, columns


def replay_windows(
    spark: SparkSession, job: Job, sources: Mapping[str | None, Address], sink: Address, range_: TimeRange
) -> Comparison:
    """Compute the windows of a time range again, and compare them with a table."""
    rows = job.pipeline(_narrowed(_rows(spark, job, sources), job, range_))
    plan = job.pipeline.plans[-1]
    shape = table_layout(rows.schema, OutputInfo("panes", plan.key, plan.mode, plan.row_grain))
    table = _Table(sink, shape, plan.mode)
    inside = rows.where(f"unix_micros(window_start) >= {range_.start} AND unix_micros(window_end) <= {range_.end}")
    standing = table_changes(read_flat(SinkBatch(inside, inside.sparkSession), shape.read), shape).current
    return compare(table.stored(range_), table.expected(standing), table.identity)


class _Table:
    """The table of a sink: the columns to compare, and how its database writes values."""

    def __init__(self, address: Address, shape: TableLayout, mode: str) -> None:
        self._name, self._mode = address.name or _TABLE, mode
        self._database, self._connection, columns = _opened(address)
        self._target = qualified(self._name, self._database.dialect)
        self.identity = [name for name in shape.identity if name != PANE_INDEX]
        wanted = shape.content
        missing = [name for name in self.identity if name not in columns]
        if missing:
            raise _lacks_columns(self._name, missing)
        self._columns = [name for name in wanted if name in columns]
        self._nested = {field.name for field in shape.fields if field.kind in ("array", "map", "struct", "variant")}

    def stored(self, range_: TimeRange) -> list[Row]:
        """Return the windows in the table."""
        try:
            if self._mode == "discarding" and self._select(f"max({quoted(PANE_INDEX)})", range_)[0][0]:
                raise PlanError(
                    "replay cannot compare a discarding pipeline whose windows fire more than once, because its table "
                    "has parts of windows. Use mode='accumulating' or mode='retracting'."
                )
            return [self._row(row) for row in self._select(column_list(self._columns), range_)]
        finally:
            self._connection.close()

    def expected(self, rows: pl.DataFrame) -> list[Row]:
        """Return the windows of the replay, with values as the database writes them."""
        chosen = rows.select(self._columns)
        if self._database.dialect == "sqlite":
            return [self._row(row) for row in to_values(chosen)]
        return [self._row(row) for row in chosen.rows()]

    def _select(self, columns: str, range_: TimeRange) -> list[tuple[Any, ...]]:
        start, end = (quoted(name) for name in WINDOW)
        query = f"SELECT {columns} FROM {self._target} WHERE {start} >= ? AND {end} <= ?"
        return self._connection.query(query, self._bounds(range_))

    def _bounds(self, range_: TimeRange) -> list[Any]:
        times = [_EPOCH + timedelta(microseconds=us) for us in (range_.start, range_.end)]
        if self._database.dialect == "postgres":
            return times
        return [value for (value,) in to_values(pl.DataFrame({"time": times}))]

    def _row(self, row: Sequence[Any]) -> Row:
        read = dict(zip(self._columns, row, strict=True))
        return {name: _parsed(value) if name in self._nested else value for name, value in read.items()}


def _parsed(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value


def _check(pipeline: Pipeline) -> None:
    plan = pipeline.plan
    window = getattr(plan, "window", None)
    if window is None or not hasattr(plan, "aggregates"):
        raise _no_windows_of_time("none: it emits rows")
    if window.axis != "time":
        raise _no_windows_of_time(f"{window.describe()}, which are counted in rows")
    if plan.row_grain != "windows":
        raise _no_windows_of_time("pairs of rows")


def _rows(spark: SparkSession, job: Job, sources: Mapping[str | None, Address]) -> Any:
    if sources:
        return sources_at(spark, sources, streaming=False)
    rows = job.read(spark) if job.rows is not None else None
    if rows is None or getattr(rows, "isStreaming", True):
        raise _no_batch(job.path)
    return rows


def _narrowed(rows: Any, job: Job, range_: TimeRange) -> Any:
    """Return only the rows that windows of the range can contain, where that is known."""
    margin = range_.margin if range_.margin is not None else _margin(job)
    if margin is None:
        return rows
    plan = job.pipeline.plan
    low, high = range_.start - margin, range_.end + margin
    if isinstance(rows, Mapping):
        times = {edge.name: edge.time for edge in plan.edges}
        return {name: _between(source, times.get(name), low, high) for name, source in rows.items()}
    return _between(rows, plan.time, low, high)


def _margin(job: Job) -> int | None:
    """Return how far outside the range rows affect its windows; None: unknown, so all rows are read."""
    if job.pipeline.following:  # windows of windows
        return None
    window = job.pipeline.plan.window
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


def _no_windows_of_time(what: str) -> PlanError:
    """A pipeline whose results cannot be compared by time."""
    return PlanError(f"replay compares windows of event time, and this pipeline has {what}.")


def _no_such_table(name: str, url: str) -> PlanError:
    """A table that is not there."""
    return PlanError(f"There is no table {name!r} in {url}. Name it behind #: sqlite:///panes.db#panes.")


def _lacks_columns(name: str, missing: Sequence[str]) -> PlanError:
    """A table of another pipeline."""
    return PlanError(
        f"The table {name!r} has no column {', '.join(map(repr, missing))}: it is not the table of this pipeline."
    )


def _no_batch(path: str) -> PlanError:
    """A job that can only read a stream."""
    return PlanError(
        f"{path} has no input as a table, because rows(spark) is missing or returns a stream. "
        "Name a source, such as parquet:/data/orders."
    )
