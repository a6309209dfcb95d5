"""``format("eventide")``: a stream of ``eventide.marks`` as a source and as a sink of Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


class EventideSource(DataSource):
    """A stream, by its address: ``load("sqlite:///shop.db#orders")``.

    Spark asks every session for its data sources, also where nobody reads a stream: nothing is imported before it is
    needed.

    Options to read: ``rows_per_batch``, ``start`` (``earliest``, ``latest``, or a cut as JSON), ``token``, ``places``
    (``false`` leaves out ``_segment``, ``_offset`` and ``_mark``, which ``ev.noted`` needs, and reads faster).
    Options to write: ``writer_id``, ``routing_key``, ``note`` (a column whose highest value is noted with each batch),
    ``token``, and, for a table, ``batch`` and ``query``: a number and a name under which it is written once.
    """

    @classmethod
    def name(cls) -> str:
        """As in ``format("eventide")``."""
        return "eventide"

    def schema(self) -> StructType | str:
        """The columns of the stream's events, and where in the stream they were."""
        from eventide.marks.spark.source import schema_of

        own = {"marks": "value string", "parts": "segment bigint, start bigint, end bigint, mark bigint"}
        return own.get(self.options.get("only", "")) or schema_of(self._address(), self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """All that is there now."""
        from eventide.marks.spark.source import Snapshot

        return Snapshot(self._address(), self.options.get("token"), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """What is there, and what will come."""
        from eventide.marks.spark.cuts import Marks
        from eventide.marks.spark.source import Events, Parts

        if self.options.get("only") == "marks":
            return Marks(self._address(), self.options.get("token"), self.options["identity"])
        kind = Parts if self.options.get("only") == "parts" else Events
        return kind(self._address(), self.options.get("token"), schema, self.options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Rows of a table as events."""
        from eventide.errors import marks as errors
        from eventide.marks.spark.sink import BatchWriter

        if overwrite:
            raise errors.no_overwriting()
        return BatchWriter(self._address(), schema, self.options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """Rows of a query as events."""
        from eventide.marks.spark.sink import StreamWriter

        return StreamWriter(self._address(), schema, self.options)

    def _address(self) -> str:
        return self.options.get("path") or ""
