"""``iceberg``: an output as an Apache Iceberg table, written by PyIceberg without Spark's connector or any jar.

Exactly once: the commit of a batch sets a property of the table with the query and the number of the batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from importlib import import_module
from typing import Any

import pyarrow as pa

from eventide._hints import with_option_hints
from eventide.errors import PlanError
from eventide.panes import WINDOW
from eventide.sinks.lake_table import LakeSink, WindowFilter, check_columns, new_columns
from eventide.sinks.sink import Sink
from eventide.sinks.table_sql import column_names

_START = WINDOW[0]
_RETRIES = "commit.retry.num-retries"


@with_option_hints
def iceberg(
    table: str,
    *,
    catalog: str | Mapping[str, str] = "default",
    log: bool = False,
    columns: Sequence[str] | None = None,
) -> Sink:
    """An Apache Iceberg table that equals the sum of the diffs, exactly once.

    ``table`` has a namespace, ``"shop.revenue"``. ``catalog`` is the name of a catalog that PyIceberg is configured
    with, or its properties: ``{"type": "rest", "uri": "http://…"}``. Panes have one row for each key and window: the
    last pane, or none if it was retracted. ``log=True`` appends every pane instead, with its ``diff``. Late rows and
    dead letters are appended, and new columns of the source are added. Needs the extra ``iceberg``.

    >>> iceberg("shop.revenue")
    iceberg('shop.revenue')
    """
    if not isinstance(table, str) or "." not in table.strip("."):
        raise PlanError(f"sinks.iceberg({table!r}): name the table with its namespace, such as 'shop.revenue'.")
    properties = catalog if isinstance(catalog, str) else dict(catalog)
    target = IcebergTable(table, properties)
    label = f"iceberg({table!r}{', log=True' if log else ''})"
    return LakeSink(target, label, column_names(columns), log)


@dataclass
class IcebergTable:
    """An Iceberg table. It remembers the metadata that it read, so that a commit on top of another one conflicts."""

    identifier: str
    catalog: str | dict[str, str]
    _read: Any = None
    _loaded: list[Any] = field(default_factory=list, repr=False)

    @property
    def name(self) -> str:
        """The table in messages."""
        return f"The Iceberg table {self.identifier!r}"

    @property
    def conflicts(self) -> tuple[type[Exception], ...]:
        """What PyIceberg raises if another writer committed first."""
        from pyiceberg.exceptions import CommitFailedException, ValidationException

        return (CommitFailedException, ValidationException)

    def prepare(self, schema: pa.Schema, *, extend: bool) -> None:
        """Create the table, or compare its columns and their types."""
        catalog = self._catalog()
        if not catalog.table_exists(self.identifier):
            catalog.create_namespace_if_not_exists(self.identifier.rpartition(".")[0])
            catalog.create_table(self.identifier, schema=schema)
            return
        table = catalog.load_table(self.identifier)
        current = table.schema().as_arrow()
        check_columns(self.name, current, schema, extend=extend)
        if new_columns(current, schema):
            with table.update_schema() as update:
                update.union_by_name(schema)

    def last_batch(self, claim: str) -> int | None:
        """Return the number that the property of a claim has."""
        self._read = self._catalog().load_table(self.identifier)
        # A repeated attempt of PyIceberg would append rows that another process of this query has committed meanwhile.
        self._read.metadata.properties[_RETRIES] = "0"  # of this copy; the table keeps its property
        number = self._read.properties.get(claim)
        return None if number is None else int(number)

    def rows_in(self, windows: WindowFilter) -> pa.Table:
        """Return the rows of some windows. Files without such windows are not read."""
        rows: pa.Table = self._read.scan(row_filter=_expression(windows)).to_arrow()
        return rows

    def append(self, rows: pa.Table, claim: str, batch_id: int) -> None:
        """Append rows, in one commit that names the batch."""
        with self._read.transaction() as transaction:
            transaction.append(rows)
            transaction.set_properties({claim: str(batch_id)})

    def replace(self, windows: WindowFilter, rows: pa.Table, claim: str, batch_id: int) -> None:
        """Replace the rows of some windows, in one commit that names the batch."""
        import warnings

        with warnings.catch_warnings(), self._read.transaction() as transaction:
            warnings.filterwarnings("ignore", message="Delete operation did not match any records")
            transaction.overwrite(rows, overwrite_filter=_expression(windows))
            transaction.set_properties({claim: str(batch_id)})

    def _catalog(self) -> Any:
        if not self._loaded:
            try:
                from pyiceberg.catalog import load_catalog
            except ImportError as cause:
                raise PlanError("sinks.iceberg() needs PyIceberg: pip install 'pyspark-eventide[iceberg]'.") from cause
            name, properties = (self.catalog, {}) if isinstance(self.catalog, str) else ("eventide", self.catalog)
            self._loaded.append(load_catalog(name, **properties))
        return self._loaded[0]


def _expression(windows: WindowFilter) -> Any:
    terms: Any = import_module("pyiceberg.expressions")
    inside = terms.AlwaysFalse()
    if windows.bounds is not None:
        low, high = map(_literal, windows.bounds)
        inside = terms.And(terms.GreaterThanOrEqual(_START, low), terms.LessThanOrEqual(_START, high))
    elif windows.starts:
        inside = terms.In(_START, [_literal(value) for value in windows.starts])
    return terms.Or(terms.IsNull(_START), inside) if windows.has_null else inside


def _literal(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value
