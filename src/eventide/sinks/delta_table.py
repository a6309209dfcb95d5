"""``delta``: an output as a Delta Lake table, written by delta-rs without Spark's connector or any jar.

Exactly once: the commit of a batch has an application transaction with the query and the number of the batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa

from eventide._hints import with_option_hints
from eventide.errors import PlanError
from eventide.sinks.lake_table import LakeSink, WindowFilter, check_columns, new_columns
from eventide.sinks.sink import Sink
from eventide.sinks.table_sql import column_names


@with_option_hints
def delta(
    uri: str,
    *,
    log: bool = False,
    columns: Sequence[str] | None = None,
    partition_by: Sequence[str] = (),
    storage_options: Mapping[str, str] | None = None,
) -> Sink:
    """A Delta Lake table that equals the sum of the diffs, exactly once.

    Panes have one row for each key and window: the last pane, or none if it was retracted. ``log=True`` appends every
    pane instead, with its ``diff``. Late rows and dead letters are appended, and new columns of the source are added.
    ``uri`` is a path or an address of an object store, and ``storage_options`` are those of delta-rs. ``columns`` are
    stored in addition to key and window. Needs the extra ``delta``.

    >>> delta("s3://lake/revenue")
    delta('s3://lake/revenue')
    """
    if not isinstance(uri, str) or not uri:
        raise PlanError(f"sinks.delta({uri!r}): name the table by its path or address, such as 'lake/revenue'.")
    table = DeltaLakeTable(uri, tuple(partition_by), dict(storage_options or {}))
    label = f"delta({uri!r}{', log=True' if log else ''})"
    return LakeSink(table, label, column_names(columns), log)


@dataclass
class DeltaLakeTable:
    """A Delta Lake table. It remembers the version that it read, so that a commit on top of another one conflicts."""

    uri: str
    partition_by: tuple[str, ...] = ()
    options: dict[str, str] = field(default_factory=dict)
    _read: Any = None

    @property
    def name(self) -> str:
        """The table in messages."""
        return f"The Delta table {self.uri!r}"

    @property
    def conflicts(self) -> tuple[type[Exception], ...]:
        """What delta-rs raises if another writer committed first."""
        from deltalake.exceptions import CommitFailedError

        return (CommitFailedError,)

    def prepare(self, schema: pa.Schema, *, extend: bool) -> None:
        """Create the table, or compare its columns and their types."""
        deltalake = _library()
        if not deltalake.DeltaTable.is_deltatable(self.uri, self.options):
            deltalake.DeltaTable.create(
                self.uri, schema=schema, partition_by=list(self.partition_by), storage_options=self.options
            )
            return
        table = self._load()
        current = pa.schema(table.schema().to_arrow())
        check_columns(self.name, current, schema, extend=extend)
        if added := new_columns(current, schema):
            table.alter.add_columns(deltalake.Schema.from_arrow(pa.schema(added)).fields)

    def last_batch(self, claim: str) -> int | None:
        """Return the version of the application transaction of a claim."""
        self._read = self._load()
        version: int | None = self._read.transaction_version(claim)
        return version

    def rows_in(self, windows: WindowFilter) -> pa.Table:
        """Return the rows of some windows. Files without such windows are not read."""
        import pyarrow.dataset as ds

        start = ds.field("window_start")
        condition = start.is_null() if windows.has_null else None
        if windows.bounds is not None:
            inside = (start >= _scalar(windows.bounds[0])) & (start <= _scalar(windows.bounds[1]))
        else:
            inside = start.isin([_scalar(value).as_py() for value in windows.starts])
        condition = inside if condition is None else condition | inside
        return self._read.to_pyarrow_dataset().to_table(filter=condition)

    def append(self, rows: pa.Table, claim: str, batch_id: int) -> None:
        """Append rows, in one commit that names the batch."""
        self._write(rows, claim, batch_id, mode="append")

    def replace(self, windows: WindowFilter, rows: pa.Table, claim: str, batch_id: int) -> None:
        """Replace the rows of some windows, in one commit that names the batch."""
        self._write(rows, claim, batch_id, mode="overwrite", predicate=_sql(windows))

    def _write(self, rows: pa.Table, claim: str, batch_id: int, **how: Any) -> None:
        deltalake = _library()
        commit = deltalake.CommitProperties(
            app_transactions=[deltalake.Transaction(app_id=claim, version=batch_id)], max_commit_retries=0
        )
        deltalake.write_deltalake(self._read, rows, commit_properties=commit, **how)

    def _load(self) -> Any:
        return _library().DeltaTable(self.uri, storage_options=self.options)


def _library() -> Any:
    try:
        import deltalake
    except ImportError as cause:
        raise PlanError("sinks.delta() needs delta-rs: pip install 'pyspark-eventide[delta]'.") from cause
    return deltalake


def _scalar(value: Any) -> pa.Scalar:
    if isinstance(value, datetime):
        return pa.scalar(value, pa.timestamp("us", "UTC" if value.tzinfo else None))
    return pa.scalar(value)


def _sql(windows: WindowFilter) -> str:
    """Return the windows as a condition.

    >>> _sql(WindowFilter(starts=(5, 7), has_null=True))
    'window_start IS NULL OR window_start IN (5, 7)'
    """
    parts = ["window_start IS NULL"] if windows.has_null else []
    if windows.bounds is not None:
        low, high = map(_literal, windows.bounds)
        parts.append(f"window_start >= {low} AND window_start <= {high}")
    elif windows.starts:
        parts.append(f"window_start IN ({', '.join(map(_literal, windows.starts))})")
    return " OR ".join(parts)


def _literal(value: Any) -> str:
    if isinstance(value, datetime):
        zone = 'Some("UTC")' if value.tzinfo else "None"
        return f"arrow_cast('{value.replace(tzinfo=None).isoformat()}', 'Timestamp(Microsecond, {zone})')"
    return str(value)
